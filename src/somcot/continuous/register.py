"""Register two recordings: the map T for which y behaves as T(x), refined on single steps, and tests of the rest.

Where a process has been is known no better than the number of its episodes; a step is a martingale difference and is
known as well as the number of steps. So T starts from moments and is moved until drift and scatter of the steps of both
recordings agree best under one shared model of a step; the moments are its prior. Both come from the same units, so
their errors go together, most of all if a hidden state drives positions and steps: the error of T is that of the
combination under resampling of whole units, not that of independent sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from somcot.continuous.moments import Moments, Registration, Resampled, Space, directions, map_between
from somcot.continuous.onestep_models import OneStep, pairs_of, residual_covariance
from somcot.plumbing.arrays import Bools, Floats, Ints
from somcot.trajectories import Trajectories

__all__ = ["Fit", "Shared", "episode_tests", "refine", "some_units"]

_MOST_STEPS = 40_000  # used of each side in models
_ROUNDS = 3
_DRAWS = 100  # of T
_CAP = 4.5  # standard deviations of the prior by which one round may move T
_MOST_SLOPES = 24_000  # steps whose slopes are evaluated
_PLACES = 24  # bumps that are regressed out of the scatter
_TAIL = 4.0


def some_units(data: Trajectories, rng: np.random.Generator, most: int = _MOST_STEPS) -> Ints:
    """Random units with at most `most` steps together, at least twenty, in their order."""
    if data.n_transitions <= most:
        return np.arange(data.n_episodes)
    # Whole units at random: the first ones might all come from one part of the state space.
    order = rng.permutation(data.n_episodes)
    n = max(20, int(np.searchsorted(np.cumsum(data.lengths[order]), most, side="right")))
    return np.sort(order[:n])


@dataclass(frozen=True, eq=False)
class Shared:
    """The steps of both registered recordings, and one model for all of them.

    Attributes
    ----------
    now, following : ndarray, shape (n, d)
    unit : ndarray of int, shape (n,)
        The unit of each step; those of y come after those of x.
    sign : ndarray, shape (n,)
        -1/2 for steps of x and 1/2 for steps of y.
    n_units : (int, int)
    starts : ndarray, shape (n_units, d)
        First points of all units.
    model : OneStep
    residuals : ndarray, shape (n, d)
    covariance : ndarray, shape (d, d)
        Of the residuals.
    """

    now: Floats
    following: Floats
    unit: Ints
    sign: Floats
    n_units: tuple[int, int]
    starts: Floats
    model: OneStep
    residuals: Floats
    covariance: Floats

    @classmethod
    def of(
        cls, x: Trajectories, y: Trajectories, T: Registration, rng: np.random.Generator, old: OneStep | None = None
    ) -> Shared:
        """Fit the model, with the bumps of an old one if given."""
        now = np.concatenate([T.u(x.now), T.v(y.now)])
        following = np.concatenate([T.u(x.following), T.v(y.following)])
        lengths = np.concatenate([x.lengths, y.lengths])
        unit = np.repeat(np.arange(len(lengths)), lengths)
        sign = np.where(unit < x.n_episodes, -0.5, 0.5)
        model = OneStep.fit(now, following, T.space, rng) if old is None else old.refitted(now, following)
        residuals = T.space.wrap(following - model.mean(now))
        starts = np.concatenate([T.u(x.starts), T.v(y.starts)])
        sizes = (x.n_episodes, y.n_episodes)
        return cls(now, following, unit, sign, sizes, starts, model, residuals, residual_covariance(residuals))

    @property
    def sides(self) -> Bools:
        """Which units are of y."""
        return np.arange(sum(self.n_units)) >= self.n_units[0]

    def by_unit(self, values: Floats, chosen: Ints | slice = slice(None)) -> Floats:
        """Columns of values of steps, summed over each unit."""
        unit, n = self.unit[chosen], sum(self.n_units)
        return np.stack([np.bincount(unit, column, n) for column in values.T], axis=1)


class Fit(NamedTuple):
    """A map with its uncertainty: moves of its parameters (shifts, then coefficients of matrices) by resampling."""

    kind: str
    map: Registration
    shared: Shared
    draws: Floats

    def drawn(self) -> list[Registration]:
        """Maps fitted to resampled units, one for each of the first draws of the bootstrap."""
        n_shifts, matrices = directions(self.kind, self.map.space)
        return [_moved(self.map, draw, n_shifts, matrices) for draw in self.draws]


def _moved(T: Registration, step: Floats, n_shifts: int, matrices: list[Floats]) -> Registration:
    d = len(T.A)
    shift = step[:n_shifts] if n_shifts else np.zeros(d)
    return T.moved(shift, sum((c * M for c, M in zip(step[n_shifts:], matrices, strict=True)), np.zeros((d, d))))


def refine(
    kind: str,
    sides: tuple[Trajectories, Trajectories],
    moments: tuple[Moments, Moments],
    bootstrap: Resampled,
    space: Space,
    rng: np.random.Generator,
) -> Fit:
    """The map of this kind under which the steps of both recordings agree best.

    `bootstrap` has the counts of the units of `sides`.
    """
    T = map_between(kind, *moments, space)
    n_shifts, matrices = directions(kind, space)
    q = n_shifts + len(matrices)
    shared = Shared.of(*sides, T, rng)
    if q == 0:
        return Fit(kind, T, shared, np.zeros((_DRAWS, 0)))
    moves = _moves(kind, T, bootstrap, n_shifts, matrices)
    # The uncertainty of the moments is the prior of the refinement.
    prior = np.atleast_2d(np.cov(moves.T)).reshape(q, q) + 1e-14 * np.eye(q)
    certainty = np.linalg.inv(prior + 1e-9 * np.trace(prior) / q * np.eye(q))
    cap = _CAP * np.sqrt(np.diag(prior)) + 1e-12
    moved = np.zeros(q)
    for _ in range(_ROUNDS):
        information, scores = _drift_scores(shared, n_shifts, matrices, rng)
        if matrices:
            more, further = _scatter_scores(shared, n_shifts, matrices)
            information, scores = information + more, scores + further
        step = np.linalg.solve(information + certainty, scores.sum(axis=0) - certainty @ moved)
        # Linearisation holds only near the current map.
        step = np.clip(step, -cap, cap)
        moved = moved + step
        T = _moved(T, step, n_shifts, matrices)
        # The bumps of the first model, so that rounds differ in the map alone.
        shared = Shared.of(*sides, T, rng, shared.model)
    # The same units are drawn for moments and scores: where both err together, errors add up instead of averaging out.
    counted = np.hstack([count[:_DRAWS] - 1.0 for count in bootstrap.counts])
    drawn = counted @ _centred(scores, shared.sides) + (moves[:_DRAWS] - moves.mean(axis=0)) @ certainty
    return Fit(kind, T, shared, np.linalg.solve(information + certainty, drawn.T).T)


def _centred(scores: Floats, of_y: Bools) -> Floats:
    """Scores of units less their mean on each side: drawing other units of a side does not change their number."""
    return np.asarray(scores - np.where(of_y[:, None], scores[of_y].mean(axis=0), scores[~of_y].mean(axis=0)))


def _moves(kind: str, T: Registration, bootstrap: Resampled, n_shifts: int, matrices: list[Floats]) -> Floats:
    """Maps of bootstrapped moments, as moves v -> v + t + M v of the fitted one."""
    rows = []
    for pair in bootstrap.moments:
        other = map_between(kind, *pair, T.space)
        shift = T.space.wrap(other.apply(T.mean_x[None])[0] - T.mean_y) @ T.back
        M = T.back @ (other.A - T.A) @ T.back
        rows.append([*shift[:n_shifts], *(float(np.vdot(M, B) / np.vdot(B, B)) for B in matrices)])
    return np.array(rows)


def _drift_scores(
    shared: Shared, n_shifts: int, matrices: list[Floats], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Information of the moves of T and the score of each unit, from the means of steps.

    If y lies at v + t + M v where x would be, the residuals of the shared model are half the difference on each side:
    s [(I - J) t + M f(z) - J M z] with the slope J of the model f and s = -1/2 or 1/2. Residuals of one unit may go
    together (persons differ, say), so the information is divided by the variance inflation over units.
    """
    n, d = shared.now.shape
    some = np.arange(n) if n <= _MOST_SLOPES else np.sort(rng.choice(n, _MOST_SLOPES, replace=False))
    z, sign = shared.now[some], shared.sign[some]
    f, J = shared.model.mean_and_slope(z)
    columns = [np.eye(d)[k] - J[:, :, k] for k in range(n_shifts)]
    columns += [f @ B - np.einsum("nij,nj->ni", J, z @ B) for B in matrices]
    # Residuals of unit variance: steps in all directions count alike.
    white = np.linalg.cholesky(np.linalg.inv(shared.covariance))
    F = np.einsum("ji,njq->niq", white, np.stack(columns, axis=2) * sign[:, None, None])
    e = shared.residuals[some] @ white
    times = n / len(some)
    information = times * np.einsum("niq,nip->qp", F, F)
    by_step = np.einsum("niq,ni->nq", F, e)
    by_unit = times * shared.by_unit(by_step, some)
    q = len(information)
    ridge = 1e-12 * (np.trace(information) / q + 1e-300) * np.eye(q)
    # Steps within a unit depend on each other, so their scores vary more than the information says.
    inflation = max(1.0, float(np.trace(np.linalg.solve(information + ridge, by_unit.T @ by_unit))) / q)
    return information / inflation, by_unit / inflation


def _scatter_scores(shared: Shared, n_shifts: int, matrices: list[Floats]) -> tuple[Floats, Floats]:
    """As `_drift_scores`, from the scatter of steps: M changes the covariance S of the residuals of y by M S + S M."""
    n, d = shared.now.shape
    size = np.sqrt(np.diag(shared.covariance))
    # Single large residuals must not decide.
    e = np.clip(shared.residuals, -_TAIL * size, _TAIL * size)
    i, j = pairs_of(d)
    products = e[:, i] * e[:, j]
    H = shared.model.features(shared.now, _PLACES)
    gram = H.T @ H + 1e-6 * n * np.eye(H.shape[1])
    products = products - H @ np.linalg.solve(gram, H.T @ products)  # positions differ by chance between the sides
    y = shared.sign > 0
    weight = np.where(y, 1.0 / max(int(y.sum()), 1), -1.0 / max(int((~y).sum()), 1))
    by_unit = shared.by_unit(products * weight[:, None])
    V = by_unit.T @ by_unit
    V += (1e-9 * np.trace(V) / len(V) + 1e-300) * np.eye(len(V))
    S = e.T @ e / n
    G = np.zeros((len(i), n_shifts + len(matrices)))
    for k, B in enumerate(matrices):
        G[:, n_shifts + k] = (B @ S + S @ B)[i, j]
    weighted = np.linalg.solve(V, G)
    return G.T @ weighted, by_unit @ weighted


# --- Permutation tests of whole units

_PERMUTATIONS = 399
_BLUR = 0.02  # relative to the size of a move: without it a deterministic coordinate would be tested to its last digit
_MOST_PAIRS = 30


def episode_tests(
    fit: Fit, sides: tuple[Trajectories, Trajectories], discount: float, rng: np.random.Generator, *, starts: bool
) -> dict[str, float]:
    """P-values of comparisons of the registered units: initial points, positions, steps, scatter and, if any, ends.

    Exact under permutation of units, up to the fit of T to both sides. Without `starts` for blocks of long runs.
    """
    shared, model = fit.shared, fit.shared.model
    now, d = shared.now, shared.now.shape[1]
    moves = model.space.wrap(shared.following - now)
    e = shared.residuals + _BLUR * moves.std(axis=0) * rng.standard_normal(now.shape)
    # A coordinate without noise has residuals of 0.
    e = e / (e.std(axis=0) + 1e-12)
    n_bumps = max(8, min(40, 160 // d))
    H = model.features(now, n_bumps)
    i, j = np.triu_indices(d)
    if len(i) > _MOST_PAIRS:
        kept = rng.permutation(len(i))[:_MOST_PAIRS]
        i, j = i[kept], j[kept]
    scatter = e[:, i] * e[:, j]
    scatter = scatter - scatter.mean(axis=0)
    rough = H[:, : model.n_affine + max(4, n_bumps // 4)] if d <= 6 else H[:, :3]
    lengths = np.maximum(np.bincount(shared.unit, minlength=sum(shared.n_units)), 1)[:, None]
    features = {
        "places": shared.by_unit(H[:, 1:]) / lengths,
        "steps": _by_unit(shared, H, e),
        "scatter": _by_unit(shared, rough, scatter),
    }
    if starts:
        first = model.features(shared.starts, 0)[:, 1:]
        a, b = np.triu_indices(first.shape[1])
        some = np.arange(len(a)) if len(a) <= _MOST_PAIRS else rng.permutation(len(a))[:_MOST_PAIRS]
        features["starts"] = np.hstack([first, first[:, a[some]] * first[:, b[some]]])
    if any(side.terminated.any() for side in sides):
        features["ends"] = _ends(fit, sides, discount)
    return {name: _permuted(values, shared.sides, rng) for name, values in features.items()}


def _by_unit(shared: Shared, features: Floats, targets: Floats) -> Floats:
    """Products of features and targets, summed over each unit."""
    return np.hstack([shared.by_unit(features * column[:, None]) for column in targets.T])


def _ends(fit: Fit, sides: tuple[Trajectories, Trajectories], discount: float) -> Floats:
    """Whether, when and where units ended."""
    rows = []
    for data, registered in zip(sides, (fit.map.u, fit.map.v), strict=True):
        ended = data.terminated.astype(np.float64)[:, None]
        last = registered(data.points[data.boundaries[1:] - 1])
        rows.append(np.hstack([ended, ended * discount ** data.lengths[:, None], ended * last]))
    return np.concatenate(rows)


def _permuted(values: Floats, sides: Bools, rng: np.random.Generator) -> float:
    """Permutation test of equal means, in the principal directions of the units' features."""
    centred = values - values.mean(axis=0)
    centred = centred / (centred.std(axis=0) + 1e-9)
    U, s, _ = np.linalg.svd(centred, full_matrices=False)
    # Small directions are noise: they are damped rather than divided by.
    # Features are correlated, so they are compared along principal directions.
    white = U * (s / np.sqrt(np.square(s) + 0.1 * np.square(s[0]) + 1e-300))
    labels = np.stack([sides, *(rng.permutation(sides) for _ in range(_PERMUTATIONS))]).astype(np.float64)
    labels = labels / labels.sum(axis=1, keepdims=True) - (1 - labels) / (1 - labels).sum(axis=1, keepdims=True)
    statistic = np.square(labels @ white).sum(axis=1)
    # With a margin for rounding; the data count as one of the permutations.
    return float((statistic >= statistic[0] - 1e-12).mean())
