"""Conjugacy: is y the image of x under a map? Then the distance is the cost of the map, even for chaotic systems.

We look for a map T with Y ~ T(X'), X' an independent run of x. If it exists, the pair (x_t, T x_t) is a coupling of
both processes, and if T is an optimal transport map, no coupling is cheaper: the distance is the discounted mean of
c(x, T x). Cells cannot represent that coupling, and linear models do not fit such systems.

A false positive gives an estimate that is far too low, so y is pulled back by T and compared with x, by exact
permutation tests of whole episodes: of their initial points, positions, mean steps and noise.
T was fitted to both, which makes them more similar; so further checks must agree: the test on cells, and the distance
on cells of x and y against that of x and T(x). The interval covers what these tests cannot detect: by the triangle
inequality the distance is within d(T x, y) of the cost of T, and cells bound how large that may be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.cells import Cells, PointCost, apart
from somcot.continuous.affine_maps import KINDS, Affine, Fitted, describe_map, fit_map
from somcot.continuous.cell_distance import null_distances, pvalue, raw
from somcot.continuous.discretise import discretise
from somcot.continuous.linear_twin import some_episodes
from somcot.continuous.onestep_models import OneStep
from somcot.plumbing.arrays import Bools, Floats, Ints
from somcot.trajectories import Trajectories

__all__ = [
    "MapComparison",
    "compare",
    "episode_tests",
]


# --- Permutation tests of whole episodes: initial points, positions, steps and their noise

_PERMUTATIONS = 399
_BLUR = 0.02  # relative to the size of a move: a difference of a hundredth of it in every step is still detected
_FEATURES = 40  # radial basis functions on which steps and positions are tested
_STEPS = ("now", "following")


def episode_tests(x: Trajectories, y: Trajectories, rng: np.random.Generator) -> dict[str, float]:
    """P-values of four comparisons of episodes, each exact if the features do not depend on the sides."""
    both = [x, y]
    now, following = (np.concatenate([getattr(side, name) for side in both]) for name in _STEPS)
    episode = np.repeat(np.arange(x.n_episodes + y.n_episodes), np.concatenate([s.lengths for s in both]))
    model = OneStep.fit(now, following, rng)
    # Add a little noise: otherwise a deterministic coordinate would be tested to its last digit.
    blur = _BLUR * (following - now).std(axis=0) * rng.standard_normal(now.shape)
    e = following - model.mean(now) + blur
    e /= e.std(axis=0) + 1e-12
    H = model.features(now)
    places = H[:, : 1 + x.d + _FEATURES]
    i, j = np.triu_indices(x.d)
    scatter = e[:, i] * e[:, j]
    scatter = scatter - scatter.mean(axis=0)
    starts = np.concatenate([side.starts for side in both])
    centred = (starts - starts.mean(axis=0)) / (starts.std(axis=0) + 1e-12)
    rough = places[:, : 1 + x.d + _FEATURES // 4]
    features = {
        "starts": np.hstack([centred, centred[:, i] * centred[:, j]]),
        "places": _sums(places[:, 1:], episode, mean=True),
        "steps": _sums((places[:, :, None] * e[:, None, :]).reshape(len(e), -1), episode),
        "scatter": _sums((rough[:, :, None] * scatter[:, None, :]).reshape(len(e), -1), episode),
    }
    side = np.arange(len(starts)) < x.n_episodes
    return {name: _permuted(values, side, rng) for name, values in features.items()}


def _sums(values: Floats, episode: Ints, mean: bool = False) -> Floats:
    """Columns summed over each episode, or averaged."""
    edges = np.concatenate([[0], np.flatnonzero(np.diff(episode)) + 1])
    sums = np.add.reduceat(values, edges, axis=0)
    return np.asarray(sums / np.diff(np.append(edges, len(episode)))[:, None] if mean else sums)


def _permuted(values: Floats, side: Bools, rng: np.random.Generator) -> float:
    """Permutation test of equal means, in the principal directions of the episodes' features."""
    centred = values - values.mean(axis=0)
    centred = centred / (centred.std(axis=0) + 1e-9)
    U, s, _ = np.linalg.svd(centred, full_matrices=False)
    # Small directions are noise: they are damped rather than divided by.
    white = U * (s / np.sqrt(np.square(s) + 0.1 * np.square(s[0])))
    n = len(side)
    labels = np.stack([side, *(side[rng.permutation(n)] for _ in range(_PERMUTATIONS))]).astype(np.float64)
    labels = labels / labels.sum(axis=1, keepdims=True) - (1 - labels) / (1 - labels).sum(axis=1, keepdims=True)
    statistic = np.square(labels @ white).sum(axis=1)
    return float((statistic >= statistic[0] - 1e-12).mean())


# --- The comparison

LEVEL = 0.05  # of the four permutation tests of episodes jointly, and of the one on cells
AGREEMENT = 0.2  # relative difference allowed between the two distances on cells
TIGHT = 0.97  # fraction of the cost of T that an optimal matching of the same points must reach
_ON_CELLS = 99
_LEAST_EPISODES = 20  # on each side; with fewer the tests have no power
_MOST_COORDINATES = 6
_MOST_STEPS = 20_000  # used of each side
_SPLITS = 4  # into halves, for the two distances on cells: a single one is mostly noise if both are 0
_NULL = 8  # permutations behind the bound of undetected differences
_MATCHED = 300  # points of the static check


class MapComparison(NamedTuple):
    """Result of the search for a map.

    Attributes
    ----------
    verdict : {"conjugate", "different", "refused"}
        "different": a test distinguishes x and the pulled-back y. "refused": no conclusion is possible.
    distance : float or None
        None unless conjugate.
    interval : (float, float) or None
    words : str
        Description of the map.
    reasons : tuple of str
    pvalues : dict of str to float
        P-value of each test.
    kind : str
    """

    verdict: str
    distance: float | None
    interval: tuple[float, float] | None
    words: str
    reasons: tuple[str, ...]
    pvalues: dict[str, float]
    kind: str = "identity"


def compare(
    x: Trajectories,
    y: Trajectories,
    cost: PointCost,
    *,
    discount: float,
    cells: Cells,
    confidence: float = 0.9,
    rng: np.random.Generator,
    scale: Floats | None = None,
) -> MapComparison:
    """Search for a map between two recordings.

    Parameters
    ----------
    x, y : Trajectories
        With coordinates scaled to a standard deviation near 1.
    cost : {"euclidean", "sqeuclidean"} or callable
    discount : float
    cells : Cells
        Fitted to both.
    confidence : float
        Level of the interval.
    rng : Generator
    scale : ndarray, shape (d,), optional
        Scale that coordinates were divided by: the map is described in the original units.
    """
    unable = _unable(x, y)
    if unable:
        return MapComparison("refused", None, None, "", (unable,), {})
    x, y = (some_episodes(side, _MOST_STEPS, rng, _LEAST_EPISODES) for side in (x, y))
    pair = _Pair(x, y, cost, discount, cells, confidence, rng, np.ones(x.d) if scale is None else scale)
    step = OneStep.fit(x.now, x.following, rng)
    fits = [fit_map(kind, x, y, step, rng) for kind in KINDS if x.d > 1 or kind != "affine"]
    best = min(fits, key=_Rank(x, y, step))
    first = _judged(pair, best, fits[1])
    # The one-step model is approximate: it may prefer a map that the data reject to a simpler one that they do not.
    # Further maps must pass at a stricter level, as for multiple tests.
    for other in fits if first.verdict == "different" else []:
        judged = _judged(pair, other, fits[1], len(KINDS) * LEVEL) if other is not best and other.map.sane else first
        if judged.verdict == "conjugate":
            return judged
    return first


class _Pair(NamedTuple):
    """The recordings and the settings of a comparison."""

    x: Trajectories
    y: Trajectories
    cost: PointCost
    discount: float
    cells: Cells
    confidence: float
    rng: np.random.Generator
    scale: Floats


def _judged(pair: _Pair, fitted: Fitted, shift: Fitted, level: float = LEVEL) -> MapComparison:
    """The verdict about a map: tests of x against the pulled-back y, then the checks, then its cost."""
    x, y, cost, discount, cells, confidence, rng, scale = pair
    back = y.mapped(fitted.map.inverse)
    words = describe_map(fitted.kind, fitted.map.in_units(scale), x.names)
    pvalues = episode_tests(x, back, rng)
    different = _differences(pvalues, level)
    if different:
        return MapComparison("different", None, None, words, different, pvalues, fitted.kind)
    # Cells fitted to x and y would depend on the sides: y was elsewhere when they were fitted.
    shared_cells = discretise(
        x, back, n_cells=cells.n_cells, scale=1.0, discount=discount, rng=int(rng.integers(2**31))
    )
    pvalues["cells"] = pvalue(shared_cells, x, back, "euclidean", discount, n_permutations=_ON_CELLS, rng=rng)
    different = _differences(pvalues, level)
    if different:
        return MapComparison("different", None, None, words, different, pvalues, fitted.kind)
    reasons = _guards(x, y, cost, discount, cells, fitted.map, rng)
    if reasons:
        return MapComparison("refused", None, None, words, reasons, pvalues, fitted.kind)
    value, interval = _measured(x, back, cost, discount, fitted, confidence)
    if fitted.kind == "identity":  # the uncertainty of a shift that was not selected
        interval = (0.0, _measured(x, y, cost, discount, shift, confidence)[1][1])
    stretch = float(np.linalg.norm(fitted.map.matrix, 2))
    hidden = stretch * _undetected(x, back, discount, shared_cells, int(rng.integers(2**31)))
    return MapComparison("conjugate", value, _widened(interval, hidden, cost), words, (), pvalues, fitted.kind)


def _differences(pvalues: dict[str, float], level: float) -> tuple[str, ...]:
    return tuple(
        f"{name} of x and of y pulled back by the map differ (p = {p:.3g})"
        for name, p in pvalues.items()
        if p <= (level if name == "cells" else level / 4.0)
    )


def _unable(x: Trajectories, y: Trajectories) -> str:
    few = min(x.n_episodes, y.n_episodes)
    if few < _LEAST_EPISODES:
        return f"testing a map needs {_LEAST_EPISODES} episodes on each side, found {few}"
    if x.d > _MOST_COORDINATES:
        return f"maps are fitted for up to {_MOST_COORDINATES} coordinates, found {x.d}"
    if min(x.n_transitions, y.n_transitions) < 200:
        return "a map needs 200 transitions on each side"
    if x.terminated.any() or y.terminated.any():
        return "maps are not fitted if episodes terminated"
    return ""


class _Rank:
    """Bayesian information criterion of a map: how well one model explains x and the pulled-back y."""

    def __init__(self, x: Trajectories, y: Trajectories, step: OneStep) -> None:
        self.x, self.y, self.step, self.own = x, y, step, step.moments(x.now, x.following)

    def __call__(self, fitted: Fitted) -> float:
        if not fitted.map.sane:
            return np.inf
        back = self.y.mapped(fitted.map.inverse)
        moments = self.own.plus(self.step.moments(back.now, back.following))
        model = self.step.solved(moments)
        left = moments.left(model.weights) * self.step.scale[:, None] * self.step.scale
        n = moments.n
        # Rounding must not decide for steps that are nearly deterministic.
        floor = 1e-6 * np.diag(moments.moves) / n * np.square(self.step.scale) + 1e-14
        fit = n * np.linalg.slogdet(left / n + np.diag(floor))[1]
        starts = np.concatenate([self.x.starts, back.starts])
        known = np.cov(starts.T) + 1e-3 * np.diag(self.x.points.var(axis=0))  # a floor
        fit += len(starts) * np.linalg.slogdet(known)[1]
        stretched = 2.0 * len(back.points) * np.linalg.slogdet(fitted.map.matrix)[1]
        return float(fit + stretched + (len(fitted.numbers) + model.freedom) * np.log(n))


def _guards(
    x: Trajectories, y: Trajectories, cost: PointCost, discount: float, cells: Cells, T: Affine,
    rng: np.random.Generator,
) -> tuple[str, ...]:  # fmt: skip
    """Reasons why the cost of the map may not be the distance."""
    reasons = []
    seen = np.array([_seen(x, y, cost, discount, cells, T, rng) for _ in range(_SPLITS)])
    observed, expected = (float(value) for value in seen.mean(axis=0))
    root = 0.5 if cost == "sqeuclidean" else 1.0  # compare lengths, not squares
    if abs(observed**root - expected**root) > AGREEMENT * max(observed, expected) ** root:
        reasons.append(f"cells see {observed:.3g} between x and y, but {expected:.3g} between x and the map of x")
    points = x.points[rng.choice(len(x.points), min(_MATCHED, len(x.points)), replace=False, p=_weights(x, discount))]
    costs = apart(cost, points, T.apply(points), np.ones(x.d))
    direct, least = float(np.trace(costs)) / len(points), _matched(costs)
    if least < TIGHT * direct:
        reasons.append(f"points can be matched for {least:.3g}, the map takes {direct:.3g}: others may be cheaper")
    return tuple(reasons)


def _seen(
    x: Trajectories, y: Trajectories, cost: PointCost, discount: float, cells: Cells, T: Affine,
    rng: np.random.Generator,
) -> tuple[float, float]:  # fmt: skip
    """Distances on cells of a half of x and a half of y, and of a half of x and the image of the other half."""
    halves = [side.take(np.sort(rng.permutation(side.n_episodes)[: side.n_episodes // 2])) for side in (x, y)]
    one, other = (x.take(np.sort(part)) for part in np.array_split(rng.permutation(x.n_episodes), 2))
    other = other.take(np.arange(min(other.n_episodes, halves[1].n_episodes)))
    return raw(cells, halves[0], halves[1], cost, discount), raw(cells, one, other.mapped(T.apply), cost, discount)


def _undetected(x: Trajectories, back: Trajectories, discount: float, cells: Cells, seed: int) -> float:
    """Possible distance of x and the pulled-back y if no test rejects: noise and distance add in quadrature."""
    null = null_distances(cells, x, back, "euclidean", discount, n=_NULL, seed=seed)
    most = raw(cells, x, back, "euclidean", discount) + 1.645 * float(null.std(ddof=1))
    return float(np.sqrt(max(0.0, max(most, float(null.max())) ** 2 - float(null.mean()) ** 2)))


def _widened(interval: tuple[float, float], hidden: float, cost: PointCost) -> tuple[float, float]:
    """Widen by the triangle inequality: d(x, y) is within d(T x, y) of d(x, T x), for squared costs in roots."""
    if cost != "sqeuclidean":
        return max(0.0, interval[0] - hidden), interval[1] + hidden
    low, high = (float(np.sqrt(end)) for end in interval)
    return max(0.0, low - hidden) ** 2, (high + hidden) ** 2


def _matched(costs: Floats) -> float:
    from scipy.optimize import linear_sum_assignment

    return float(costs[linear_sum_assignment(costs)].mean())


def _weights(data: Trajectories, discount: float) -> Floats:
    """Weight of each point in the discounted occupancy; the last point of an episode represents all that follow."""
    time = np.arange(len(data.points)) - np.repeat(data.boundaries[:-1], np.diff(data.boundaries))
    weights = (1.0 - discount) * discount**time
    weights[data.boundaries[1:] - 1] /= 1.0 - discount
    return np.asarray(weights / weights.sum())


def _measured(
    x: Trajectories, back: Trajectories, cost: PointCost, discount: float, fitted: Fitted, confidence: float
) -> tuple[float, tuple[float, float]]:
    """Discounted mean of c(x, T x) over both recordings, and its interval by the delta method."""
    from scipy.special import ndtri

    def mean(T: Affine) -> tuple[float, float]:
        values, variance = [], 0.0
        for side in (x, back):
            c = _pairwise(cost, side.points, T.apply(side.points))
            w = _weights(side, discount)
            each = np.add.reduceat(c * w, side.boundaries[:-1]) * side.n_episodes
            values.append(float(each.mean()))
            variance += float(each.var() / side.n_episodes) / 4.0
        return float(np.mean(values)), variance

    value, variance = mean(fitted.map)
    if len(fitted.numbers):
        slope = np.array(
            [
                (mean(fitted.make(fitted.numbers + 1e-4 * axis))[0] - value) / 1e-4
                for axis in np.eye(len(fitted.numbers))
            ]
        )
        variance += float(slope @ fitted.covariance @ slope)
    reach = float(ndtri(0.5 + confidence / 2.0) * np.sqrt(variance + (0.01 * value) ** 2))
    return value, (max(0.0, value - reach), value + reach)


def _pairwise(cost: PointCost, a: Floats, b: Floats) -> Floats:
    if callable(cost):
        return np.array([float(np.asarray(cost(p[None], q[None]))[0, 0]) for p, q in zip(a, b, strict=True)])
    squares = np.square(a - b).sum(axis=1)
    return np.asarray(squares if cost == "sqeuclidean" else np.sqrt(squares))
