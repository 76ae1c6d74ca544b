"""Linear-Gaussian models of a process, specified directly or fitted to a recording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.checks import (
    check_count,
    check_kind,
    check_names,
    check_rng,
    check_sequence,
    not_sparse,
    real_array,
)
from somcot.plumbing.html import card
from somcot.plumbing.memory import require
from somcot.trajectories import Trajectories

__all__ = ["Linear", "factor", "fit"]

_MOST = 10**12  # episodes and steps that can be drawn
_DUST = 1e-10  # covariances may be this far from symmetric or below 0, relative to their size


@dataclass(frozen=True, eq=False, repr=False)
class Linear:
    """x' = A x + offset + S e with standard normal e, started in N(start_mean, start_covariance).

    Attributes
    ----------
    A : ndarray, shape (d, d)
    offset : ndarray, shape (d,)
    S : ndarray, shape (d, k)
        The noise of a step has the covariance S S'.
    start_mean : ndarray, shape (d,)
    start_covariance : ndarray, shape (d, d)

    Examples
    --------
    >>> model = Linear.of([[0.9, 0.1], [0.0, 0.8]], [[0.3, 0.0], [0.1, 0.2]], start=[1.0, 0.0])
    >>> model
    Linear(2 coordinates, spectral radius 0.9)
    >>> model.sample(5, 40, rng=0).shape
    (5, 41, 2)
    """

    A: Floats
    offset: Floats
    S: Floats
    start_mean: Floats
    start_covariance: Floats

    def __post_init__(self) -> None:
        for name in ("A", "offset", "S", "start_mean", "start_covariance"):
            array = getattr(self, name)
            check_kind(name, array, np.ndarray)
            array.setflags(write=False)  # models are shared between results

    @classmethod
    def of(
        cls, A: object, S: object, *, offset: object = 0.0, start: object = None, names: Sequence[str] = ()
    ) -> Linear:
        """Build a model from arrays; in one dimension scalars are accepted.

        Parameters
        ----------
        A : array_like, shape (d, d)
        S : array_like, shape (d, k)
        offset : array_like, shape (d,), or number
        start : array_like, shape (d,), or pair of mean (d,) and covariance (d, d), optional
            By default 0.
        names : sequence of str
            Names of A, S, offset and start in messages.
        """
        names = check_sequence("names", names)
        called = check_names("names", names, 4) if names else ("A", "S", "offset", "start")
        A = _matrix(called[0], A)
        d = A.shape[0]
        if A.shape != (d, d):
            raise ValueError(f"{called[0]}: found shape {A.shape}, expected a square matrix")
        S = _matrix(called[1], S)
        if S.shape[0] != d:
            raise ValueError(f"{called[1]}: found {S.shape[0]} rows, but {called[0]} has {d}")
        mean, covariance = _start(called[3], start, d)
        return cls(A, _vector(called[2], offset, d), S, mean, covariance)

    @property
    def d(self) -> int:
        """Number of coordinates."""
        return len(self.A)

    @property
    def radius(self) -> float:
        """Spectral radius of A; the process is stable if it is below 1."""
        return float(np.abs(np.linalg.eigvals(self.A)).max())

    def sample(self, n_episodes: int, n_steps: int, rng: int | np.random.Generator | None = None) -> Floats:
        """Draw episodes: an array (n_episodes, n_steps + 1, d)."""
        n = check_count("n_episodes", n_episodes, at_most=_MOST)
        n_steps = check_count("n_steps", n_steps, at_least=0, at_most=_MOST)
        require(8.0 * n * (n_steps + 1) * self.d, f"{n:,} episodes of {n_steps:,} steps", "draw fewer at a time")
        generator = check_rng(rng)
        # `factor` is symmetric, so its transpose is not needed.
        x = self.start_mean + generator.standard_normal((n, self.d)) @ factor(self.start_covariance)
        out = np.empty((n, n_steps + 1, self.d))
        for t in range(n_steps + 1):
            out[:, t] = x
            x = x @ self.A.T + self.offset + generator.standard_normal((n, self.S.shape[1])) @ self.S.T
        return out

    def record(self, lengths: Iterable[int] | Ints, rng: int | np.random.Generator | None = None) -> list[Floats]:
        """Draw one episode of each length (in steps).

        Examples
        --------
        >>> [len(path) for path in Linear.of(0.9, 0.1).record([3, 5], rng=0)]
        [4, 6]
        """
        steps = [check_count("lengths", int(length), at_least=0) for length in not_sparse("lengths", lengths)]
        # All episodes at the longest length, then cut: one call of the generator, so seeds do not depend on the order.
        drawn = self.sample(len(steps), max(steps), rng)
        return [episode[: n + 1] for episode, n in zip(drawn, steps, strict=True)]

    def equals(self, other: Linear) -> bool:
        """Whether all parameters are equal.

        Examples
        --------
        >>> Linear.of(0.9, 0.1).equals(Linear.of(0.9, 0.1)), Linear.of(0.9, 0.1).equals(Linear.of(0.8, 0.1))
        (True, False)
        """
        check_kind("other", other, Linear)
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__)

    def __repr__(self) -> str:
        many = "coordinate" if self.d == 1 else "coordinates"
        return f"Linear({self.d} {many}, spectral radius {self.radius:.4g})"

    def _repr_html_(self) -> str:
        noise = np.sqrt(np.square(self.S).sum(axis=1))
        return card(
            "Linear",
            [
                ("coordinates", str(self.d)),
                ("spectral radius of A", f"{self.radius:.4g}"),
                ("noise of a step", ", ".join(f"{s:.4g}" for s in noise[:8])),
                ("start", ", ".join(f"{m:.4g}" for m in self.start_mean[:8])),
            ],
        )


def fit(trajectories: Trajectories | Iterable[object]) -> Linear:
    """Fit a linear model to recorded real vectors by least squares.

    Termination of episodes is ignored. With a single episode, the covariance of the initial state is 0.

    Parameters
    ----------
    trajectories : Trajectories or iterable of array_like, shape (T + 1, d)

    Examples
    --------
    >>> true = Linear.of(0.8, 0.5, offset=1.0, start=(0.0, 0.25))
    >>> model = fit(true.sample(200, 50, rng=0))
    >>> [round(float(v), 2) for v in (model.A[0, 0], model.offset[0], model.S[0, 0], model.start_covariance[0, 0])]
    [0.81, 0.98, 0.5, 0.23]
    """
    data = trajectories if isinstance(trajectories, Trajectories) else Trajectories.from_arrays(trajectories)
    d, n = data.d, data.n_transitions
    if n < d + 2:
        raise ValueError(f"trajectories: found {n} transitions of {d} coordinates, expected at least {d + 2}")
    # Centring gives constant columns coefficient 0; otherwise they would share the effect of the intercept.
    centre = data.now.mean(axis=0)
    # Minimum-norm solution: constant or collinear coordinates get coefficient 0 or a shared one.
    coefficients = np.linalg.lstsq(data.now - centre, data.following - data.following.mean(axis=0), rcond=None)[0]
    offset = data.following.mean(axis=0) - centre @ coefficients
    errors = data.following - data.now @ coefficients - offset
    starts = data.starts - data.starts.mean(axis=0)
    return Linear(
        np.ascontiguousarray(coefficients.T),
        offset,
        # Degrees of freedom: n less d coefficients and the offset, per coordinate.
        # The symmetric root of the residual covariance; any other root has the same distribution.
        factor(errors.T @ errors / (n - d - 1)),
        data.starts.mean(axis=0),
        starts.T @ starts / max(len(starts) - 1, 1),
    )


def factor(covariance: Floats) -> Floats:
    """The symmetric square root of a covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _matrix(name: str, values: Any) -> Floats:
    if np.ndim(values) == 0:
        values = [[values]]
    matrix = real_array(name, values, 2)
    if not matrix.size:
        raise ValueError(f"{name}: found an empty matrix, expected at least one row and one column")
    return matrix


def _vector(name: str, values: Any, d: int) -> Floats:
    vector = np.full(d, real_array(name, [values], 1)[0]) if np.ndim(values) == 0 else real_array(name, values, 1)
    if len(vector) != d:
        raise ValueError(f"{name}: found {len(vector)} numbers for {d} coordinates")
    return vector


def _start(name: str, start: object, d: int) -> tuple[Floats, Floats]:
    if start is None:
        return np.zeros(d), np.zeros((d, d))
    if not (isinstance(start, tuple) and len(start) == 2):
        return _vector(name, start, d), np.zeros((d, d))
    mean = _vector(f"{name}[0]", start[0], d)
    covariance = _matrix(f"{name}[1]", start[1])
    if covariance.shape != (d, d):
        raise ValueError(f"{name}[1]: found shape {covariance.shape}, expected a covariance of shape {(d, d)}")
    size = float(np.abs(covariance).max())
    # Tolerances are relative: covariances of small units are as valid as large ones.
    if float(np.abs(covariance - covariance.T).max()) > _DUST * size:
        raise ValueError(f"{name}[1]: the covariance is not symmetric; pass (mean, covariance)")
    covariance = (covariance + covariance.T) / 2.0
    least = float(np.linalg.eigvalsh(covariance)[0])
    if least < -_DUST * size:
        raise ValueError(f"{name}[1]: found the eigenvalue {least:.4g}, expected a covariance, with none below 0")
    return mean, covariance
