"""Linear twins: models of the recordings with known distance, on which the bias of cells is measured.

A permutation test of linear models complements the test on cells, which has little power if both sides visit many
cells equally often: for a shift by half a cell, for instance. Whole episodes are permuted, so it is exact for any
process.

A linear-Gaussian model is fitted to each recording, recordings of the same shape are drawn from both, and their
distance on the same cells is compared with the closed form. The mean difference estimates the bias for the data:
noise of few visits and the coarseness of the cells together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.cells import Cells, PointCost, Twin
from somcot.continuous.cell_distance import CellCounts, raw
from somcot.continuous.discretise import kmeans
from somcot.gaussian import Linear, between, fit
from somcot.gaussian.linear import factor
from somcot.plumbing.arrays import Bools, Floats, Ints
from somcot.plumbing.text import figure, percent
from somcot.trajectories import Trajectories

__all__ = [
    "CellProblem",
    "compare",
    "curvature",
    "drawn",
    "judged",
    "linear_models_differ",
    "some_episodes",
]


# --- Adequacy of a linear one-step model: how much of its residual a curved model explains

_BUMPS = 60
_MOST_STEPS = 20_000
_RIDGE = 1e-4


def curvature(data: Trajectories, rng: np.random.Generator) -> float:
    """Share, between 0 and 1, of the residual of the linear model that radial basis functions explain out of sample.

    In the direction in which it is largest, so that it is invariant under linear maps. Near 0: the residual is noise,
    and a linear model is adequate; near 1: a curved and nearly deterministic system.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noise = Trajectories.from_arrays(rng.normal(size=(100, 21, 1)))
    >>> bent = Trajectories.from_arrays([np.sin(2.0 ** np.arange(9) * t) ** 2 for t in rng.uniform(0, 6, 300)])
    >>> curvature(noise, rng) < 0.05, curvature(bent, rng) > 0.5
    (True, True)
    """
    now, following = data.now, data.following
    if len(now) > _MOST_STEPS:
        kept = np.sort(rng.choice(len(now), _MOST_STEPS, replace=False))
        now, following = now[kept], following[kept]
    spread = now.std(axis=0)
    if not spread.any():  # constant, which is linear
        return 0.0
    now = (now - now.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    bumps = _bumps(now, rng)
    straight = np.column_stack([now, np.ones(len(now))])
    train = np.arange(len(now)) % 2 == 0
    left = [_residuals(features, following, train) for features in (straight, np.column_stack([straight, bumps]))]
    linear, curved = (residuals.T @ residuals for residuals in left)
    floor = 1e-9 * np.trace(linear) / len(linear) + np.finfo(float).tiny
    ratios = np.linalg.eigvals(
        np.linalg.solve(linear + floor * np.eye(len(linear)), curved + floor * np.eye(len(linear)))
    )
    return float(np.clip(1.0 - ratios.real.min(), 0.0, 1.0))


def _bumps(points: Floats, rng: np.random.Generator) -> Floats:
    """Gaussian radial basis functions at cluster centres, as wide as the distance to the next centres."""
    centres = kmeans(points[:: max(1, len(points) // 5000)], min(_BUMPS, max(2, len(points) // 20)), rng)
    squares = ((centres[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    near = np.sort(squares, axis=1)[:, 1 : 2 + points.shape[1]]
    width = 2.0 * float(np.median(near)) or 1.0
    gaps = (points**2).sum(axis=1)[:, None] - 2.0 * points @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.exp(-gaps / (2.0 * width)))


def _residuals(features: Floats, targets: Floats, train: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    """Residuals of a ridge fit on some rows, in the other rows."""
    F = features[train]
    gram = F.T @ F + _RIDGE * len(F) * np.eye(F.shape[1]) * 1e-2
    return np.asarray(targets[~train] - features[~train] @ np.linalg.solve(gram, F.T @ targets[train]))


# --- Permutation test of the distance between linear models

LEVEL = 0.05
_DEALS = 39
_MOST_STEPS = 20_000  # used of each side


def linear_models_differ(x: Trajectories, y: Trajectories, discount: float, rng: np.random.Generator) -> bool:
    """Whether the distance of linear models of x and y is among the largest over random permutations of the episodes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> one, other = (Trajectories.from_arrays(rng.normal(size=(30, 11, 2))) for _ in range(2))
    >>> shifted = other.mapped(lambda points: points + 0.5)
    >>> linear_models_differ(one, other, 0.9, rng), linear_models_differ(one, shifted, 0.9, rng)
    (False, True)
    """
    table = _Table.of(some_episodes(x, _MOST_STEPS, rng), some_episodes(y, _MOST_STEPS, rng))
    observed = table.distance(table.first, discount)
    if not np.isfinite(observed):  # no linear model has a distance here, so no conclusion
        return False
    deals = [table.distance(rng.permutation(table.first), discount) for _ in range(_DEALS)]
    return bool((1 + np.sum(np.array(deals) >= observed)) / (_DEALS + 1) <= LEVEL)


def some_episodes(data: Trajectories, most: int, rng: np.random.Generator, least: int = 1) -> Trajectories:
    """Random episodes with at most `most` steps, but at least `least` episodes."""
    order = rng.permutation(data.n_episodes)
    n = max(least, int(np.searchsorted(np.cumsum(data.lengths[order]), most, side="right")))
    return data if n >= data.n_episodes else data.take(np.sort(order[:n]))


class _Table(NamedTuple):
    """The steps (1, x, x') and initial points (1, x) of all episodes, standardised, with group labels."""

    steps: Floats
    starts: Floats
    episode: Ints
    first: Bools

    @classmethod
    def of(cls, x: Trajectories, y: Trajectories) -> _Table:
        points = np.concatenate([x.points, y.points])
        spread = points.std(axis=0)
        unit = [data.mapped(lambda p: (p - points.mean(axis=0)) / np.where(spread > 0, spread, 1.0)) for data in (x, y)]
        now, following, starts = (
            np.concatenate([getattr(data, name) for data in unit]) for name in ("now", "following", "starts")
        )
        return cls(
            np.column_stack([np.ones(len(now)), now, following]),
            np.column_stack([np.ones(len(starts)), starts]),
            np.repeat(np.arange(len(starts)), np.concatenate([x.lengths, y.lengths])),
            np.arange(len(starts)) < x.n_episodes,
        )

    def distance(self, first: Bools, discount: float) -> float:
        """Squared distance of the linear models of these episodes and of the others; infinite if undefined."""
        try:
            models = [self._model(side) for side in (first, ~first)]
            return between(models[0], models[1], discount=discount).distance
        except ValueError:
            return np.inf

    def _model(self, chosen: Bools) -> Linear:
        """As `gaussian.fit`, from sums of products."""
        steps, starts = self.steps[chosen[self.episode]], self.starts[chosen]
        d = starts.shape[1] - 1
        sums, of_starts = steps.T @ steps, starts.T @ starts
        mean, start = sums[0] / sums[0, 0], of_starts[0, 1:] / of_starts[0, 0]
        about = sums - sums[0, 0] * np.outer(mean, mean)
        x, y = slice(1, d + 1), slice(d + 1, None)
        slopes = np.linalg.lstsq(about[x, x], about[x, y], rcond=1e-10)[0]
        left = (about[y, y] - slopes.T @ about[x, y]) / max(len(steps) - d - 1, 1)
        spread = of_starts[1:, 1:] - of_starts[0, 0] * np.outer(start, start)
        covariance = spread / max(len(starts) - 1, 1)
        return Linear(np.ascontiguousarray(slopes.T), mean[y] - mean[x] @ slopes, factor(left), start, covariance)


# --- Linear twins

N_TWINS = 12
_FEW_TWINS = 6  # of long recordings, each of which is as informative
_LONG = 200_000
MOST_OUTSIDE = 0.1
MOST_CURVATURE = 0.3
_STRAIGHT = 0.05  # curvature up to which a linear model is adequate for any correction
_MOST_ENDED = 0.05


class CellProblem(NamedTuple):
    """The comparison of two recordings; coordinates are divided by the scale already."""

    cells: Cells
    x: Trajectories
    y: Trajectories
    cost: PointCost
    discount: float
    seed: int

    def raw(self, x: Trajectories | None = None, y: Trajectories | None = None) -> float:
        """The uncorrected distance on cells of these, or of other recordings."""
        return raw(self.cells, self.x if x is None else x, self.y if y is None else y, self.cost, self.discount)

    def rng(self, purpose: int) -> np.random.Generator:
        """A separate random stream for each purpose, so that results do not depend on other computations."""
        return np.random.default_rng([self.seed, purpose])


def drawn(model: Linear, like: Trajectories, rng: np.random.Generator) -> Trajectories:
    """A recording of the same shape drawn from a linear model; no episode terminates."""
    return Trajectories(
        np.concatenate(model.record(like.lengths, rng)), like.boundaries, np.zeros_like(like.terminated), like.names
    )


def compare(question: CellProblem) -> Twin:
    """Measure the bias, if linear models exist; `judged` decides whether it is used."""
    refused = _refused(question)
    if refused:
        return Twin(False, refused)
    x, y = question.x, question.y
    rng = question.rng(1)
    bend = max(curvature(x, rng), curvature(y, rng))
    try:
        models = fit(x), fit(y)
        truth = between(*models, str(question.cost), discount=question.discount).distance
    except ValueError as error:
        return Twin(False, f"no linear model with a distance exists: {error}", curvature=bend)
    n = N_TWINS if x.n_transitions + y.n_transitions <= _LONG else _FEW_TWINS
    data_shares = _shares(question.cells, x, y)
    errors, outside, shares = [], [], []
    for _ in range(n):
        sides = drawn(models[0], x, rng), drawn(models[1], y, rng)
        counted = CellCounts.of(question.cells, *sides, question.cost)
        errors.append(counted.observed(question.discount) - truth)
        outside.append(np.mean([_outside(twin, data) for twin, data in zip(sides, (x, y), strict=True)]))
        shares.append(0.5 * np.abs(counted.shares() - data_shares).sum(axis=1).mean())  # total variation
    return Twin(
        True, "", float(truth), float(np.mean(errors)), float(np.std(errors, ddof=1)), float(np.mean(outside)),
        float(np.mean(shares)), bend,
    )  # fmt: skip


def judged(twin: Twin, plain: float) -> Twin:
    """Whether the models are close enough to the data to correct the value on cells, `plain`."""
    if not twin.used or twin.bias is None or twin.outside is None or twin.curvature is None:
        return twin
    reason = ""
    if twin.outside > MOST_OUTSIDE:
        reason = f"{percent(twin.outside)} of the points of linear models lie where the recordings never are"
    elif twin.curvature > MOST_CURVATURE:
        reason = f"a curved one-step model explains {percent(twin.curvature)} of what a linear one leaves"
    elif -twin.bias > 0.5 * plain and twin.curvature > _STRAIGHT:
        reason = f"the correction, {figure(-twin.bias)}, would raise the value by more than half"
    if reason:
        return twin._replace(used=False, reason=f"linear models do not fit: {reason}")
    return twin._replace(reason="linear models fit" + (", if roughly" if twin.rough else ""))


def _refused(question: CellProblem) -> str:
    """Why there can be no twin, or an empty string."""
    if not isinstance(question.cost, str):
        return "a user-defined cost has no closed form"
    if not question.cells.radius.any():
        return "every point is a separate cell"
    if min(question.x.n_transitions, question.y.n_transitions) < 4 * question.x.d:
        return "there are too few steps for a linear model"
    ended = max(_ended(question.cells, side, question.discount) for side in (0, 1))
    if ended > _MOST_ENDED:
        return f"{percent(ended)} of the discounted time is spent after an end, which linear models do not have"
    return ""


def _ended(cells: Cells, side: int, discount: float) -> float:
    """Share of the discounted time in cells of terminated ends."""
    if not cells.n_ends:
        return 0.0
    chain = cells.recordings[side].chain(check=False)
    return float(chain.state_occupancy(discount)[-cells.n_ends :].sum())


def _outside(twin: Trajectories, data: Trajectories) -> float:
    """Share of points outside the bounding box of the recording."""
    low, high = data.points.min(axis=0), data.points.max(axis=0)
    return float(((twin.points < low) | (twin.points > high)).any(axis=1).mean())


def _shares(cells: Cells, *recordings: Trajectories) -> Floats:
    """Share of the points of each recording in each cell."""
    counts = [np.bincount(cells.assign(data.points), minlength=cells.n_cells) for data in recordings]
    return np.stack([count / count.sum() for count in counts])
