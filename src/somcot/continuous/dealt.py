"""Do linear models of two recordings differ by more than those of the same episodes dealt at random?

A second opinion beside the test on cells, which sees little where many cells are visited in the same way from both
sides: of a shift by half a cell, for instance. Whole episodes are dealt anew, so it is exact for any process.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.gaussian import Linear, between
from somcot.gaussian.model import factor
from somcot.plumbing.arrays import Bools, Floats, Ints
from somcot.trajectories import Trajectories

__all__ = ["some_episodes", "told_apart"]

LEVEL = 0.05
_DEALS = 39
_MOST_STEPS = 20_000  # of each side


def told_apart(x: Trajectories, y: Trajectories, discount: float, rng: np.random.Generator) -> bool:
    """Whether the distance of linear models of x and y is among the largest of random deals of the episodes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> one, other = (Trajectories.from_arrays(rng.normal(size=(30, 11, 2))) for _ in range(2))
    >>> told_apart(one, other, 0.9, rng), told_apart(one, other.mapped(lambda points: points + 0.5), 0.9, rng)
    (False, True)
    """
    table = _Table.of(some_episodes(x, _MOST_STEPS, rng), some_episodes(y, _MOST_STEPS, rng))
    observed = table.distance(table.first, discount)
    if not np.isfinite(observed):  # no linear model has a distance here, so nothing can be said
        return False
    deals = [table.distance(rng.permutation(table.first), discount) for _ in range(_DEALS)]
    return bool((1 + np.sum(np.array(deals) >= observed)) / (_DEALS + 1) <= LEVEL)


def some_episodes(data: Trajectories, most: int, rng: np.random.Generator, least: int = 1) -> Trajectories:
    """Episodes chosen at random, up to so many steps; at least so many episodes."""
    order = rng.permutation(data.n_episodes)
    n = max(least, int(np.searchsorted(np.cumsum(data.lengths[order]), most, side="right")))
    return data if n >= data.n_episodes else data.take(np.sort(order[:n]))


class _Table(NamedTuple):
    """The steps (1, x, x') and starts (1, x) of all episodes, standardised, and whose they are."""

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
        """Squared distance of the linear models of those episodes and of the rest; infinite where there is none."""
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
