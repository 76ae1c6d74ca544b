"""Smooth one-step models, and an approximate upper bound of the distance without guarantee by common noise.

Each recording has a model: a curved one-step mean, and noise whose covariance depends on the position. Driven by the
same noise, from initial points matched by the cost of the resulting pairs, the two models are coupled, and the cost of
that coupling, D, is at least their distance. Models are not the data: the distances on cells of the data and of
recordings drawn from the models differ by about what the models miss. So D + cells(data) - cells(models) estimates an
upper bound of the distance. It has no guarantee and no interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from somcot.cells import PointCost, apart
from somcot.continuous.discretise import kmeans
from somcot.continuous.linear_twin import CellProblem, some_episodes
from somcot.plumbing.arrays import Floats
from somcot.trajectories import Trajectories

__all__ = [
    "Moments",
    "OneStep",
    "possible",
    "upper",
]


# --- A smooth one-step model, x' = x + f(x) + noise: affine terms and radial basis functions, by ridge regression

_MOST_BUMPS = 150
_WIDTHS = (0.6, 1.0, 1.8, 3.5)  # times the root of the dimension, in standard deviations
_PENALTIES = (1e-4, 1e-2, 0.1, 1.0, 10.0)
_CHARGE = 1.2  # of degrees of freedom, in generalised cross-validation: above 1 it seldom overfits
_TUNED = 3000  # steps used to choose the width of the bumps


class Moments(NamedTuple):
    """Sums over steps for a fit: products of features with features, features with moves, and moves with moves."""

    n: int
    features: Floats
    mixed: Floats
    moves: Floats

    def plus(self, other: Moments) -> Moments:
        """The moments of the steps of both."""
        n, features, mixed, moves = other
        return Moments(self.n + n, self.features + features, self.mixed + mixed, self.moves + moves)

    def left(self, weights: Floats) -> Floats:
        """Sums of squares and products of the residuals of the moves, (d, d)."""
        explained = weights.T @ self.mixed
        return np.asarray(self.moves - explained - explained.T + weights.T @ self.features @ weights)


@dataclass(frozen=True, eq=False)
class OneStep:
    """E[x' - x] as a function of x.

    Attributes
    ----------
    centre, scale : ndarray, shape (d,)
        Mean and scale of the points, which are standardised.
    bumps : ndarray, shape (m, d)
        Centres of the radial basis functions ("bumps"), standardised.
    width : float
    weights : ndarray, shape (1 + d + m, d)
    freedom : float
        Degrees of freedom of the fit.
    """

    centre: Floats
    scale: Floats
    bumps: Floats
    width: float
    weights: Floats
    freedom: float

    @classmethod
    def fit(cls, now: Floats, following: Floats, rng: np.random.Generator) -> OneStep:
        """Choose width and penalty by generalised cross-validation, the width on some of the steps."""
        n, d = now.shape
        centre, scale = now.mean(axis=0), now.std(axis=0) + 1e-12
        m = int(min(_MOST_BUMPS, max(5, n // 15)))
        bumps = (now[rng.choice(n, m, replace=False)] - centre) / scale
        some = rng.choice(n, min(n, _TUNED), replace=False)
        blanks = [cls(centre, scale, bumps, width * np.sqrt(d), np.zeros((0, 0)), 0.0) for width in _WIDTHS]
        widths = [_ridge(blank.moments(now[some], following[some]), d)[0] for blank in blanks]
        return blanks[int(np.argmin(widths))].refitted(now, following)

    def moments(self, now: Floats, following: Floats) -> Moments:
        """The moments of steps, with moves in units of `scale`."""
        H, moves = self.features(now), (following - now) / self.scale
        return Moments(len(now), H.T @ H, H.T @ moves, moves.T @ moves)

    def refitted(self, now: Floats, following: Floats) -> OneStep:
        """A model with the same bumps for other steps."""
        return self.solved(self.moments(now, following))

    def solved(self, moments: Moments) -> OneStep:
        """A model with the same bumps and weights from the moments of steps."""
        _, weights, freedom = _ridge(moments, len(self.centre))
        return OneStep(self.centre, self.scale, self.bumps, self.width, weights, freedom)

    def features(self, points: Floats) -> Floats:
        """1, the coordinates and the bumps, (n, 1 + d + m)."""
        u = (points - self.centre) / self.scale
        H = np.empty((len(u), 1 + u.shape[1] + len(self.bumps)))
        H[:, 0] = 1.0
        H[:, 1 : 1 + u.shape[1]] = u
        H[:, 1 + u.shape[1] :] = self._heights(u)
        return H

    def mean(self, points: Floats) -> Floats:
        """The mean of the next point from each point."""
        return np.asarray(points + self.features(points) @ self.weights * self.scale)

    def mean_and_slope(self, points: Floats) -> tuple[Floats, Floats]:
        """`mean` and its derivative: entry (i, k, l) is that of coordinate k in coordinate l at point i."""
        d = points.shape[1]
        H = self.features(points)
        u, heights, bump_weights = H[:, 1 : 1 + d], H[:, 1 + d :], self.weights[1 + d :]
        # d/du_l of a bump at b is (b_l - u_l) / width^2 times its height.
        drawn = heights @ (bump_weights[:, :, None] * self.bumps[:, None, :]).reshape(len(bump_weights), -1)
        slope = drawn.reshape(-1, d, d) - (heights @ bump_weights)[:, :, None] * u[:, None, :]
        slope = self.weights[1 : 1 + d].T + slope / self.width**2
        units = self.scale[:, None] / self.scale
        return np.asarray(points + H @ self.weights * self.scale), np.asarray(np.eye(d) + slope * units)

    def _heights(self, u: Floats) -> Floats:
        squares = u @ self.bumps.T
        squares *= -2.0
        squares += np.square(u).sum(axis=1)[:, None]
        squares += np.square(self.bumps).sum(axis=1)
        np.maximum(squares, 0.0, out=squares)
        squares *= -0.5 / self.width**2
        return np.asarray(np.exp(squares, out=squares))


def _ridge(moments: Moments, d: int) -> tuple[float, Floats, float]:
    """Score, weights and degrees of freedom of the best penalty."""
    n, K, r, moves = moments
    penalty = np.concatenate([np.full(d + 1, 1e-9), np.ones(len(K) - d - 1)])
    best: tuple[float, Floats, float] | None = None
    for weight in _PENALTIES:
        inverse = np.linalg.inv(K + np.diag(weight * penalty + 1e-10 * n))
        weights = inverse @ r
        freedom = float(np.vdot(inverse, K))
        left = np.diag(moves) - 2.0 * (weights * r).sum(axis=0) + (weights * (K @ weights)).sum(axis=0)
        score = float(np.log(np.maximum(left / n, 1e-14)).mean())
        score -= 2.0 * float(np.log(max(1.0 - _CHARGE * freedom / n, 1e-3)))
        if best is None or score < best[0]:
            best = (score, weights, freedom)
    assert best is not None
    return best


# --- An approximate upper bound without guarantee: curved models coupled by common noise

_MOST_STEPS = 20_000  # used of each side
_STARTS = 80
_NOISES = 6  # runs of the noise: half to match initial points, half to measure on, and vice versa
_DRAWN = 4  # recordings drawn from the models
_PLACES = 30  # number of positions with separate noise covariances
_SHARED = 10  # weight of the average noise, in steps, in the covariance of each position
_LATE = 0.01  # discount weight after which a run is cut; its last step represents the rest
_LONGEST = 300  # maximum number of steps of a run
_FEWEST = 200  # minimum number of transitions of each side
_MOST_COORDINATES = 6


def possible(question: CellProblem) -> bool:
    """Whether curved models apply: enough steps, few coordinates, no terminated episodes, a named cost."""
    sides = question.x, question.y
    enough = min(side.n_transitions for side in sides) >= _FEWEST and question.x.d <= _MOST_COORDINATES
    return enough and isinstance(question.cost, str) and not any(side.terminated.any() for side in sides)


def upper(question: CellProblem, rng: np.random.Generator) -> float:
    """Estimated upper bound of the distance from curved models, corrected for what they miss."""
    x, y = (some_episodes(side, _MOST_STEPS, rng) for side in (question.x, question.y))
    models = Curved.of(x, rng), Curved.of(y, rng)
    on_cells = [question.raw(models[0].drawn(x, rng), models[1].drawn(y, rng)) for _ in range(_DRAWN)]
    return max(
        0.0, _coupled(models, question.cost, question.discount, rng) + question.raw(x, y) - float(np.mean(on_cells))
    )


class _Nearest:
    """Nearest-neighbour search among some points, in units of their spread."""

    def __init__(self, points: Floats, unit: Floats) -> None:
        self.points, self.unit = points / unit, unit

    @cached_property
    def tree(self) -> Any:
        from scipy.spatial import cKDTree

        return cKDTree(self.points)

    def to(self, points: Floats) -> Any:
        """Distance and index of the nearest point."""
        return self.tree.query(points / self.unit)


class Curved(NamedTuple):
    """A model of one recording.

    Attributes
    ----------
    step : OneStep
    places : _Nearest
        Centres of clusters.
    roots : ndarray, shape (n_places, d, d)
        Symmetric root of the covariance of the noise at each position.
    data : _Nearest
        All points: the model is not used farther from them than `reach`.
    reach : float
    starts : ndarray, shape (n_episodes, d)
    """

    step: OneStep
    places: _Nearest
    roots: Floats
    data: _Nearest
    reach: float
    starts: Floats

    @classmethod
    def of(cls, recording: Trajectories, rng: np.random.Generator) -> Curved:
        """Fit."""
        now, n = recording.now, recording.n_transitions
        step = OneStep.fit(now, recording.following, rng)
        left = (recording.following - step.mean(now)) * np.sqrt(n / max(n - step.freedom, 1.0))
        unit = recording.points.std(axis=0) + 1e-12
        places = _Nearest(kmeans(now / unit, int(np.clip(n // 150, 4, _PLACES)), rng) * unit, unit)
        place = places.to(now)[1]
        shared = _SHARED * left.T @ left / n
        covariances = [
            (left[place == k].T @ left[place == k] + shared) / (np.sum(place == k) + _SHARED)
            for k in range(len(places.points))
        ]
        values, vectors = np.linalg.eigh(np.stack(covariances))
        roots = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ vectors.transpose(0, 2, 1)
        data = _Nearest(now, unit)
        some = data.points[rng.choice(n, min(n, 1500), replace=False)]
        reach = 3.0 * float(np.quantile(data.tree.query(some, 4)[0][:, 3], 0.95))
        return cls(step, places, roots, data, reach, recording.starts)

    def after(self, points: Floats, noise: Floats) -> Floats:
        """The next points for this standard normal noise."""
        here = self.roots[self.places.to(points)[1]]
        new = self.step.mean(points) + np.einsum("nij,nj->ni", here, noise)
        far, nearest = self.data.to(new)
        lost = far > self.reach
        if lost.any():
            known = self.data.points[nearest[lost]] * self.data.unit
            new[lost] = known + (new[lost] - known) * (self.reach / far[lost])[:, None]
        return np.asarray(new)

    def drawn(self, like: Trajectories, rng: np.random.Generator) -> Trajectories:
        """A recording of the same shape."""
        x = self.starts[rng.integers(len(self.starts), size=like.n_episodes)]
        every = np.empty((like.n_episodes, int(like.lengths.max()) + 1, x.shape[1]))
        for t in range(every.shape[1]):
            every[:, t] = x
            x = self.after(x, rng.standard_normal(x.shape))
        points = np.concatenate([episode[: n + 1] for episode, n in zip(every, like.lengths, strict=True)])
        return Trajectories(points, like.boundaries, np.zeros_like(like.terminated), like.names)


def _coupled(models: tuple[Curved, Curved], cost: PointCost, discount: float, rng: np.random.Generator) -> float:
    """Cost of the coupling by common noise, initial points matched on some runs of the noise and measured on others."""
    from scipy.optimize import linear_sum_assignment

    first = [model.starts[rng.integers(len(model.starts), size=_STARTS)] for model in models]
    n = min(_LONGEST, int(np.ceil(np.log(_LATE) / np.log(discount))))
    costs = np.zeros((2, _STARTS, _STARTS))
    for run in range(_NOISES):
        x, y = first
        for t in range(n + 1):
            weight = (1.0 - discount) * discount**t if t < n else discount**t  # the last represents all that follow
            costs[run % 2] += weight / (_NOISES // 2) * apart(cost, x, y, np.ones(x.shape[1]))
            noise = np.broadcast_to(rng.standard_normal((1, x.shape[1])), x.shape)
            x, y = models[0].after(x, noise), models[1].after(y, noise)
    return float(np.mean([costs[1 - half][linear_sum_assignment(costs[half])].mean() for half in (0, 1)]))
