"""From recordings of real vectors to recordings of cells: `discretise`, and the test of "the same process?" on them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from somcot.cells import Cells, PointCost, circular_mean, embedded, kmeans, wrapped
from somcot.inference import permutation
from somcot.inference.model import SATURATED, fit, saturation
from somcot.inference.permutation import SameProcessResult
from somcot.plumbing.arrays import Codes, Floats, Ints
from somcot.plumbing.checks import check_count, check_discount, check_rng, real_array
from somcot.plumbing.errors import DataWarning, UnseenStateWarning, warn
from somcot.plumbing.memory import one_blas_thread
from somcot.plumbing.notes import Note
from somcot.trajectories import Trajectories

__all__ = [
    "check_recordings",
    "discretise",
    "lag_coordinates",
    "same_process",
    "scale_of",
]


# --- Placing cells: k-means, and coordinates that predict the next state best

_KEPT = 0.1  # singular values kept, relative to the largest


def lag_coordinates(recordings: Sequence[Trajectories]) -> Floats | None:
    """VAMP: the directions in which states predict the next ones best, times their singular values, (d, q).

    Singular vectors of the correlation between states and their successors, both whitened; those below a tenth of
    the largest singular value are left out. None if states predict nothing, as with a single step.
    """
    now = np.concatenate([data.now for data in recordings])
    following = np.concatenate([data.following for data in recordings])
    now, following = now - now.mean(axis=0), following - following.mean(axis=0)
    # Constant coordinates have no covariance to decompose.
    if not (now.any() and following.any()):
        return None
    white = _whitening(now)
    U, s, _ = np.linalg.svd(white @ (now.T @ following / len(now)) @ _whitening(following))
    # Steps without any linear dependence: the original coordinates are as good.
    if s[0] < 1e-9:
        return None
    # Weak directions are mostly noise, and would spread the cells over it.
    q = int((s > _KEPT * s[0]).sum())
    return np.ascontiguousarray(white @ U[:, :q] * s[:q])


def _whitening(points: Floats) -> Floats:
    values, vectors = np.linalg.eigh(points.T @ points / len(points))
    # Bounded below, as nearly collinear coordinates would be scaled up without limit.
    white: Floats = (vectors / np.sqrt(np.maximum(values, 1e-10 * values.max()))) @ vectors.T
    return white


# --- Discretising recordings

# More cells than these make the estimate worse: measured in docs/continuous.md.
CANDIDATES = (8, 12, 16, 24, 32)
_MOST = {1: 32}
_MOST_ELSE = 24
_MOST_ENDS = 6
_LARGEST = 1e100
_LAGS_FROM = 3  # dimensions from which lag coordinates are used


@one_blas_thread
def discretise(
    *recordings: Trajectories,
    n_cells: int | str = "auto",
    scale: Any = "std",
    lag_coordinates: bool | str = "auto",
    discount: float = 0.95,
    rng: int | np.random.Generator | None = None,
) -> Cells:
    """Assign the states of recordings to shared cells (k-means), so that all methods for finite states apply.

    Parameters
    ----------
    *recordings : Trajectories
        One or more, with the same coordinates. Cells are fitted to all of them.
    n_cells : int or "auto"
        Number of cells. By default the largest of 8, 12, 16, 24 (and 32 in one dimension) for which the data suffice
        (`Cells.saturation` at most 3). Cells for the ends of episodes are additional.
    scale : "std", float or array_like, shape (d,)
        Divisor of the coordinates: by default their standard deviation over all recordings. 1 leaves them unchanged.
    lag_coordinates : bool or "auto"
        Whether to measure proximity in the directions that predict the next state best (VAMP). By default from three
        dimensions on.
    discount : float
        For `saturation`: the horizon over which errors of the kernels accumulate.
    rng : None, int or numpy.random.Generator
        None uses a fixed seed.

    Returns
    -------
    Cells
        The recordings on the cells (``.x``, ``.y``, ``.recordings``), ``.centres``, ``.assign(points)`` for new
        points and ``.cost("euclidean")``.

    Examples
    --------
    >>> import somcot
    >>> rng = np.random.default_rng(0)
    >>> calm, wild = (somcot.Trajectories.from_arrays(s * rng.normal(size=(40, 50, 2))) for s in (1.0, 2.0))
    >>> cells = discretise(calm, wild, n_cells=10)
    >>> cells
    Cells(10 cells, 2 coordinates, 2 recordings)
    >>> cells.x.n_states, cells.assign(cells.centres).tolist() == list(range(10))
    (10, True)
    """
    check_recordings(recordings)
    discount = check_discount(discount)
    generator = check_rng(0 if rng is None else rng)
    d = recordings[0].d
    divisor = scale_of(scale, recordings)
    period = recordings[0].period
    turns = None if period is None else period / divisor
    scaled = [data.mapped(lambda points: embedded(points / divisor, turns)) for data in recordings]
    projection = _projection(lag_coordinates, scaled, d)
    # One seed for all candidates, so that numbers of cells differ in nothing else.
    draft = _Draft(recordings, scaled, divisor, projection, int(generator.integers(2**31)), discount)
    if not (isinstance(n_cells, str) and n_cells == "auto"):
        if isinstance(n_cells, str):
            raise ValueError(f"n_cells: found {n_cells!r}, expected 'auto' or a whole number")
        return draft.made(check_count("n_cells", n_cells, at_least=2))
    # Values on a grid, such as integers: more cells than values would be empty.
    few = draft.n_distinct
    most = _MOST.get(d, _MOST_ELSE)
    if few <= most:
        warn(Note("few-distinct-points", "recordings", n=few), DataWarning)
        return draft.made(few)
    return draft.largest([k for k in CANDIDATES if k <= most])


class _Draft:
    """The parts common to all numbers of cells."""

    def __init__(
        self,
        recordings: Sequence[Trajectories],
        scaled: Sequence[Trajectories],
        scale: Floats,
        projection: Floats | None,
        seed: int,
        discount: float,
    ) -> None:
        self.recordings, self.scale, self.projection = recordings, scale, projection
        self.seed, self.discount = seed, discount
        self.inner, self.ends = ([_turned(p, projection) for p in part] for part in _inner_and_ends(scaled))

    @property
    def n_distinct(self) -> int:
        """Number of distinct points, in a sample of a few thousand."""
        points = np.concatenate(self.inner)
        # A sample decides quickly that there are many; only few distinct points are counted in full.
        some = points[:: max(1, len(points) // 5000)]
        n = len(np.unique(some, axis=0))
        return n if n > 100 else len(np.unique(points, axis=0))

    def largest(self, candidates: Sequence[int]) -> Cells:
        """The largest number of cells for which the data suffice, or the smallest if they suffice for none."""
        best: Cells | None = None
        for k in candidates:
            cells = self.made(k)
            # The first candidate is kept even if the data are too few.
            if best is not None and cells.saturation > SATURATED:
                break
            best = cells
        assert best is not None
        return best

    def made(self, k: int) -> Cells:
        """Cells of this number, fewer if there are fewer distinct points."""
        rng = np.random.default_rng(self.seed)
        sites = kmeans(np.concatenate(self.inner), k, rng)
        ends = np.concatenate(self.ends)
        n_ends = 0
        if len(ends):
            # Terminal points have few cells: nothing happens after them.
            places = kmeans(ends, min(_MOST_ENDS, len(ends)), rng)
            sites, n_ends = np.concatenate([sites, places]), len(places)
        bare = Cells(
            np.zeros((len(sites), self.recordings[0].d)), sites, self.scale, self.projection, np.zeros(len(sites)),
            np.zeros((len(self.recordings), len(sites)), np.int64), n_ends, 0.0, self.recordings[0].names,
            period=self.recordings[0].period,
        )  # fmt: skip
        return _filled(bare, self.recordings, self.discount)


def _filled(bare: Cells, recordings: Sequence[Trajectories], discount: float) -> Cells:
    """Centres, visits and recordings on cells with known sites; sites without visits are dropped."""
    codes = [bare.codes(data) for data in recordings]
    every, points = np.concatenate(codes), np.concatenate([data.points for data in recordings])
    seen = np.bincount(every, minlength=len(bare.sites)) > 0
    if not seen.all():
        inner = len(bare.sites) - bare.n_ends
        kept = replace(
            bare, sites=bare.sites[seen], centres=bare.centres[seen], radius=bare.radius[seen],
            visits=bare.visits[:, seen], n_ends=int(seen[inner:].sum()),
        )  # fmt: skip
        return _filled(kept, recordings, discount)
    k = len(bare.sites)
    size = np.bincount(every, minlength=k)
    centres = _centres(every, points, size, bare.period)
    # Distances to the sites, not to the centres, because sites define the cells.
    far = np.sqrt(((bare.turned(points) - bare.sites[every]) ** 2).sum(axis=1))
    radius = np.zeros(k)
    np.maximum.at(radius, every, far)
    visits = np.stack([np.bincount(c, minlength=k) for c in codes])
    filled = replace(bare, centres=centres, radius=radius, visits=visits)
    samples = tuple(filled.samples(data) for data in recordings)
    with warnings.catch_warnings():  # repeated for every number of cells; the distance warns once
        warnings.simplefilter("ignore", UnseenStateWarning)
        models = tuple(fit(part) for part in samples)
    return replace(filled, recordings=samples, saturation=saturation(models[:2], discount))


def _centres(codes: Codes, points: Floats, size: Ints, period: Floats | None) -> Floats:
    """Means of the points of each cell, circular in periodic coordinates."""
    k = len(size)
    centres = np.stack([np.bincount(codes, column, k) / size for column in points.T], axis=1)
    if period is None:
        return centres
    for j in np.flatnonzero(np.isfinite(period)):
        turn = 2.0 * np.pi / period[j]
        sine, cosine = (np.bincount(codes, f(turn * points[:, j]), k) for f in (np.sin, np.cos))
        centres[:, j] = np.arctan2(sine, cosine) / turn
    return centres


def _turned(points: Floats, projection: Floats | None) -> Floats:
    return points if projection is None else points @ projection


def _inner_and_ends(scaled: Sequence[Trajectories]) -> tuple[list[Floats], list[Floats]]:
    """Points that are left again or where the recording stopped, and final points of terminated episodes."""
    # Terminal points have their own cells, so they must not attract those of other points.
    inner = [np.delete(data.points, data.boundaries[1:][data.terminated] - 1, axis=0) for data in scaled]
    return inner, [data.ends for data in scaled]


def _projection(choice: bool | str, scaled: Sequence[Trajectories], d: int) -> Floats | None:
    given: object = choice
    if not isinstance(given, (bool, np.bool_)) and not (isinstance(given, str) and given == "auto"):
        raise ValueError(f"lag_coordinates: found {choice!r}, expected True, False or 'auto'")
    return lag_coordinates(scaled) if choice is True or (choice == "auto" and d >= _LAGS_FROM) else None


def check_recordings(recordings: Sequence[Any], names: Sequence[str] | None = None) -> None:
    """Refuse recordings that are not Trajectories with the same coordinates."""
    if not recordings:
        raise TypeError("recordings: found none, expected one or more Trajectories")
    for i, data in enumerate(recordings):
        name = f"recordings[{i}]" if names is None else names[i]
        if not isinstance(data, Trajectories):
            raise TypeError(f"{name}: found {type(data).__name__}, expected Trajectories (Trajectories.from_arrays)")
        first = recordings[0]
        if data.d != first.d:
            other = "recordings[0]" if names is None else names[0]
            raise ValueError(f"{name}: has {data.d} coordinates, but {other} has {first.d}; use the same for both")
        # The same names in another order would compare different quantities without an error.
        if data.names != first.names and sorted(data.names) == sorted(first.names):
            raise ValueError(
                f"{name}: its coordinates are {', '.join(data.names)}, in another order than {', '.join(first.names)}; "
                "use the same order for both"
            )
        periods = [np.full(side.d, np.inf) if side.period is None else side.period for side in (data, first)]
        if not np.array_equal(periods[0], periods[1]):
            k = int(np.flatnonzero(periods[0] != periods[1])[0])
            raise ValueError(
                f"{name}: the period of {data.names[k]} is {periods[0][k]:g}, but {periods[1][k]:g} in the first; use "
                "the same period= for all"
            )


def scale_of(scale: Any, recordings: Sequence[Trajectories]) -> Floats:
    """Divisor of the coordinates; a constant coordinate has no standard deviation."""
    points = np.concatenate([data.points for data in recordings])
    names, d = recordings[0].names, points.shape[1]
    if isinstance(scale, str):
        if scale != "std":
            raise ValueError(f"scale: found {scale!r}, expected 'std', a number or one number per coordinate")
        centred = points - points[0]  # a constant far from 0 must be recognised as constant
        period = recordings[0].period
        if period is not None:
            middle = circular_mean(points, np.full(len(points), 1.0 / len(points)), period)
            centred = np.where(np.isfinite(period), wrapped(points - middle, period), centred)
        size = np.abs(centred).max(axis=0)  # avoids overflow and underflow of squares
        spread: Floats = size * (centred / np.where(size > 0, size, 1.0)).std(axis=0)
        constant = np.flatnonzero(spread <= 1e-12 * np.abs(points).max(axis=0))
        if len(constant):
            listed = ", ".join(names[k] for k in constant[:5])
            raise ValueError(Note("constant-coordinate", "scale", names=listed))
        return spread
    divisor = real_array("scale", np.atleast_1d(scale), 1)
    if len(divisor) not in (1, d) or (divisor <= 0).any():
        raise ValueError(f"scale: found {scale!r}, expected 'std', a number above 0 or one for each of {d} coordinates")
    if (np.abs(points).max(axis=0) / divisor).max() > _LARGEST:
        raise ValueError(
            f"scale: coordinates divided by {scale!r} reach {(np.abs(points).max(axis=0) / divisor).max():.2g}, which "
            "cannot be squared; pass scale='std', or a larger number"
        )
    return np.broadcast_to(divisor, (d,)).copy()


# --- Tests of "the same process?" on pooled cells

_WITHOUT_DISCOUNT = 0.95  # for the number of cells, if the statistic has no discount


@one_blas_thread
def same_process(
    x: Any,
    y: Any,
    cost: PointCost = "euclidean",
    *,
    discount: float | None,
    scale: Any = "std",
    n_cells: int | str = "auto",
    rng: int | np.random.Generator | None = None,
    **options: Any,
) -> SameProcessResult:
    """See `somcot.same_process`; `scale` and `n_cells` as for `somcot.discretise`.

    The cells, their number and the scale are fitted to all recordings pooled, so they are invariant under permutation
    of the episodes, and the level of the test is exact.
    """
    many = isinstance(x, (list, tuple))
    if many and y is not None:
        raise TypeError("y: x is a list of recordings already; put y into it, and name cost= and discount=")
    recordings = list(x) if many else [x, y]
    check_recordings(recordings, [f"x[{i}]" for i in range(len(recordings))] if many else ["x", "y"])
    if discount is not None:
        discount = check_discount(discount)
    generator = check_rng(0 if rng is None else rng)
    # Cells of all recordings together: cells that depended on who recorded what would bias the test.
    cells = _of_all(recordings, scale, n_cells, discount or _WITHOUT_DISCOUNT, int(generator.integers(2**31)))
    samples = [cells.samples(data) for data in recordings]
    first, second = (samples, None) if many else (samples[0], samples[1])
    return permutation.same_process(first, second, cells.cost(cost), discount=discount, rng=generator, **options)


def _of_all(recordings: Sequence[Trajectories], scale: Any, n_cells: int | str, discount: float, seed: int) -> Cells:
    divisor = scale_of(scale, recordings)
    ends = np.cumsum([0, *(data.boundaries[-1] for data in recordings)])
    together = Trajectories(
        np.concatenate([data.points for data in recordings]),
        np.concatenate([[0], *(data.boundaries[1:] + end for data, end in zip(recordings, ends[:-1], strict=True))]),
        np.concatenate([data.terminated for data in recordings]),
        recordings[0].names,
        recordings[0].period,
    )
    # Episodes are sorted, so that not even the random numbers of k-means depend on their recordings.
    contents = [episode.tobytes() for episode in together.episodes]
    together = together.take(np.array(sorted(range(together.n_episodes), key=contents.__getitem__)))
    return discretise(together, n_cells=n_cells, scale=divisor, discount=discount, rng=seed)
