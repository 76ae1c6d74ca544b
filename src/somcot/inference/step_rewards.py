"""Mean rewards as functions of rows, so that every draw of rows has the rewards that belong to it.

A process that pays on reaching a state earns more where it reaches it more often. So the feature of a state is the sum
of the row of the state times the mean rewards of its transitions, and a permutation or a half-sample changes both
together. What the next states do not explain is noise of single rewards: in half-samples of whole sequences it is the
mean over their steps, so that what the rewards of a sequence share is in it; otherwise a normal draw.

To first order (envelope theorem), another cost changes the distance by its mean change under the coupling.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from somcot.chains import Support
from somcot.costs import FeatureCost, from_features
from somcot.inference.statistics import Expansion
from somcot.inference.units import Engine, WholeSequences
from somcot.plumbing.arrays import Floats
from somcot.problem import Data

__all__ = ["Earned", "Earnings", "earnings_between", "earnings_of", "source_of"]

_AT_ONCE = 1 << 20  # entries of a table of draws and pairs
_Sides = tuple[Floats, Floats]


class Earned(NamedTuple):
    """The features of one process as a function of its rows.

    Attributes
    ----------
    states : tuple of hashable
    support : Support
    base : ndarray, shape (n,)
        The features if rewards did not depend on the next state.
    apart : ndarray, shape (n_entries,)
        How much more a transition earns.

    Examples
    --------
    >>> support = Support(np.array([0, 2, 3, 4]), np.array([0, 1, 1, 0], dtype=np.int32), np.array([0.5, 0.5, 1, 1]))
    >>> Earned(("in", "out"), support, np.array([2.0, 0.0]), np.array([-1.0, 1.0, 0.0, 0.0])).of(np.array([0, 1, 1, 1]))
    array([3., 0.])
    """

    states: tuple[Hashable, ...]
    support: Support
    base: Floats
    apart: Floats

    @classmethod
    def on(cls, states: tuple[Hashable, ...], support: Support, cost: FeatureCost, sides: Sequence[int]) -> Earned:
        """Those of one side of a cost, or of both where these share their states, on the entries of a support."""
        place = {label: i for i, label in enumerate(states)}
        base, apart = np.zeros(len(states)), np.zeros(len(support.indices))
        for k in sides:
            side, kept = (cost.x, cost.y)[k], cost.deviations[k]
            # Numbers without labels are those of the states, in their order.
            at = np.array([place.get(label, i) for i, label in enumerate(side.states)], dtype=np.int64)
            base[at] = cost.pooled_values[k]
            if side.steps is not None and kept is not None:
                apart[support.locate(at[side.steps.now], at[side.steps.following])] = kept
        return cls(states, support, base, apart)

    def of(self, rows: Floats) -> Floats:
        """The features for many draws of rows, (..., n_entries)."""
        more = np.add.reduceat(rows * self.apart, self.support.indptr[:-1], axis=-1)
        features: Floats = self.base + more[..., :-1]
        return features

    def halved(self, engine: Engine, seed: int, n_splits: int, group: int, first: int) -> _Sides | None:
        """What transitions do not explain of the rewards in both halves of random splits: sums, and their numbers."""
        if not isinstance(engine, WholeSequences) or any(r.step_rewards is None for r in engine.recordings):
            return None
        from scipy.sparse import coo_array

        parts, index = [], {label: i for i, label in enumerate(self.states)}
        for recording, units, bounds in zip(engine.recordings, engine.units, engine.bounds, strict=True):
            assert recording.step_rewards is not None
            at = np.array([index[label] for label in recording.states], dtype=np.int64)
            now, unit = at[recording.now], np.repeat(units, np.diff(bounds))
            expected = self.base[now] + self.apart[self.support.locate(now, at[recording.following])]
            known = ~np.isnan(recording.step_rewards)
            parts.append((unit[known], now[known], (recording.step_rewards - expected)[known]))
        unit, now, left = (np.concatenate(part) for part in zip(*parts, strict=True))
        weights = engine.half_weights(seed, n_splits, engine.observed, group, first)
        shape = len(engine.observed), len(self.base)
        sums, numbers = (weights @ coo_array((v, (unit, now)), shape).tocsr() for v in (left, np.ones(len(left))))
        return np.asarray(sums), np.asarray(numbers)


class Earnings(NamedTuple):
    """The features of both processes.

    Attributes
    ----------
    sides : pair of Earned
    engines : pair of Engine or None
        The recordings, twice the same if they can be exchanged; None for a known process.
    source : FeatureCost
    scale : float
        The unit of the cost.
    """

    sides: tuple[Earned, Earned]
    engines: tuple[Engine | None, Engine | None]
    source: FeatureCost
    scale: float

    def cost(self, p: Floats, q: Floats) -> Floats:
        """The unit cost between all states where the rows are these."""
        table: Floats = np.abs(np.subtract.outer(self.sides[0].of(p), self.sides[1].of(q))) / self.scale
        return table

    def change(self, centre: Expansion, p: Floats, q: Floats, noise: _Sides | None = None) -> Floats:
        """How much the features of many draws add to the distance at a centre; `noise` is in them, (n_draws, n)."""
        a, b = self.sides[0].of(p), self.sides[1].of(q)
        if noise is not None:
            a, b = a + noise[0], b + noise[1]
        step = max(_AT_ONCE // max(len(centre.x), 1), 1)
        means = [
            np.abs(a[k : k + step, centre.x] - b[k : k + step, centre.y]) @ centre.weight
            for k in range(0, len(a), step)
        ]
        changes: Floats = np.concatenate(means) / self.scale - centre.mean_cost
        return changes

    def noise(self, seed: int, n_splits: int) -> _Sides:
        """What the next states do not explain of the features, in both halves of random splits: (2 n_splits, n)."""
        first, second = self.engines
        joint = first is second
        parts = [
            None if engine is None else own.halved(engine, seed, n_splits, k * joint, k * (not joint))
            for k, (engine, own) in enumerate(zip(self.engines, self.sides, strict=True))
        ]
        if any(part is None and engine is not None for part, engine in zip(parts, self.engines, strict=True)):
            return self._drawn(seed, n_splits, joint)
        if joint:
            sums, numbers = (np.sum(both, axis=0) for both in zip(*parts, strict=True))
            common = _means(sums, numbers)
            return common, common
        own = [
            np.zeros((2 * n_splits, len(side.base))) if part is None else _means(*part)
            for part, side in zip(parts, self.sides, strict=True)
        ]
        a, b = zip(*(self.source.pooled(*both) for both in zip(*own, strict=True)), strict=True)
        return np.stack(a), np.stack(b)

    def _drawn(self, seed: int, n_splits: int, joint: bool) -> _Sides:
        """Normal draws; two halves deviate oppositely."""
        rng = np.random.default_rng([seed, 2])
        drawn = [self.source.errors(self.source.unexplained, rng) for _ in range(n_splits)]
        a, b = (np.repeat(np.stack(values), 2, axis=0) for values in zip(*drawn, strict=True))
        if joint:
            # States of both have one error; those of y alone come with y.
            index = {label: i for i, label in enumerate(self.sides[0].states)}
            union = np.zeros((2 * n_splits, len(index)))
            for values, labels in ((b, self.source.y.states), (a, self.source.x.states)):
                union[:, [index[label] for label in labels]] = values
            a = b = union
        sign = np.tile([1.0, -1.0], n_splits)[:, None]
        return sign * a, sign * b


def source_of(cost: object, table: object) -> object:
    """What defines the cost between states of one process too: estimated features, a function, or None."""
    if isinstance(table, FeatureCost) and (len(table.shared) or table.kept_apart or not callable(cost)):
        return table
    return cost if callable(cost) else None


def earnings_of(
    cost: object, scale: float, engines: tuple[Engine | None, Engine | None], supports: tuple[Support, Support]
) -> Earnings | None:
    """Features as functions of the rows, in a unit of the cost; None if rewards were not recorded step by step."""
    if not isinstance(cost, FeatureCost) or all(kept is None for kept in cost.deviations):
        return None
    # Ends that count as steps have no reward.
    if any(isinstance(engine, WholeSequences) and engine.ends for engine in engines):
        return None
    sides = []
    for k, (engine, support) in enumerate(zip(engines, supports, strict=True)):
        states = (cost.x, cost.y)[k].states if engine is None else engine.pooled.states
        sides.append(Earned.on(states, support, cost, (1, 0) if engines[0] is engines[1] else (k,)))
    return Earnings((sides[0], sides[1]), engines, cost, scale)


def earnings_between(cost: object, recordings: Sequence[Data], engine: Engine, scale: float) -> Earnings | None:
    """The same for two recordings of one engine, with the cost as users give it."""
    if len(recordings) != 2 or not (isinstance(cost, FeatureCost) or (isinstance(cost, str) and cost == "features")):
        return None
    source = from_features(*recordings) if isinstance(cost, str) else cost
    return earnings_of(source, scale, (engine, engine), (engine.support, engine.support))


def _means(sums: Floats, numbers: Floats) -> Floats:
    """Means, 0 where there is nothing."""
    means: Floats = np.divide(sums, numbers, out=np.zeros_like(sums), where=numbers > 0)
    return means
