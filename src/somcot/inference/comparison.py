"""Two processes prepared for comparison: what is permuted, and what is halved.

`Exchangeable` are two recordings of the same kind on the union of their states: units are permuted between them.
`AgainstKnown` is a recording against a known chain: if the two are equal, recordings can be drawn from the chain.
`Separate` are two processes that cannot be exchanged, for example with different states and only the costs between the
two sides: half-samples alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from somcot import costs
from somcot.chains import MarkovChain, Support
from somcot.costs import FeatureCost
from somcot.inference.model import Model, half_sizes, row_shares, split_rows, with_starts
from somcot.inference.statistics import (
    Expansion,
    RowTests,
    Statistics,
    against_known,
    chi_squared,
    drawn_rows,
    row_tests,
)  # fmt: skip
from somcot.inference.step_rewards import Earnings, earnings_of
from somcot.inference.strata import Strata
from somcot.inference.units import Engine, WholeSequences, engine_of
from somcot.plumbing.arrays import Floats, Ints
from somcot.problem import CostUnits, Data, Problem
from somcot.recorded.counts import known_starts_differ

__all__ = [
    "AgainstKnown", "Comparison", "CostUnits", "Draws", "Exchangeable", "Halves", "Separate", "compare",
    "on_entries_of", "places_of",
]  # fmt: skip

FOLDS = 100  # of each recording, that are left out in turn
FACTOR_SPLITS = 4  # random splits of a permutation into halves, for the factor of the rise
_SAME = 1e-12  # largest difference of equal probabilities


class Draws(NamedTuple):
    """Probabilities of many pairs of kernels, (n_draws, n_entries) each, on the supports of a comparison."""

    p: Floats
    q: Floats


class Halves(NamedTuple):
    """Half-samples: their probabilities, and their counts, (n_draws, ..., n_entries), if these can be tested."""

    draws: Draws
    counts: Floats | None = None


class LeftOut(NamedTuple):
    """Probabilities with one fold of the sequences left out, and the recording of each fold; 0 for folds of pairs."""

    draws: Draws
    sides: Ints


@dataclass(frozen=True, eq=False)
class Exchangeable:
    """Two recordings whose units can be permuted between them.

    Attributes
    ----------
    engine : Engine
        With two groups.
    states : tuple of hashable
        Those of both recordings, in the order of the engine.
    cost : ndarray, shape (n, n)
        Unit cost between the states of both; with earnings, at the pooled process.
    discount : float
    earnings : Earnings or None
    """

    engine: Engine
    states: tuple[Hashable, ...]
    cost: Floats
    discount: float
    earnings: Earnings | None = None

    @property
    def supports(self) -> tuple[Support, Support]:
        """The entries of both kernels."""
        # Entries of the pooled recording, so that any number of draws is one array.
        return self.engine.support, self.engine.support

    @cached_property
    def counts(self) -> Floats:
        """Observed counts, (2, n_entries)."""
        return self.engine.counts(self.engine.observed)

    @cached_property
    def centre(self) -> Floats:
        """Probabilities of the pooled process."""
        return self.engine.kernels(self.engine.total, self.engine.support.probabilities)

    @cached_property
    def observed(self) -> Draws:
        """Probabilities of the data; rows that only one of the two has left are those of the pooled process."""
        return Draws(*self.engine.kernels(self.counts, self.centre))

    @cached_property
    def expansion(self) -> Expansion:
        """First-order distances at the pooled process."""
        return Expansion.pooled(on_entries_of(self.engine.support, self.centre), self.cost, self.discount)

    def halves(self, seed: int, n_splits: int) -> Halves:
        """Both halves of random splits of both recordings."""
        counts = self.engine.halve(seed, n_splits)
        # A row without observations in a half keeps the probabilities of its whole recording.
        p, q = (self.engine.kernels(counts[:, g], own) for g, own in enumerate(self.observed))
        return Halves(Draws(p, q), counts)

    def without_folds(self, seed: int) -> LeftOut | None:
        """Leave out each of at most `FOLDS` random folds of the sequences of each recording; None without sequences.

        A stratum keeps its weight: what is left out of it is replaced by its mean. The changes are scaled such that the
        sum of the squares of their effects estimates a variance without bias.
        """
        if not isinstance(self.engine, WholeSequences):
            return None
        folds, sides = _folds(self.engine, np.random.default_rng([seed, 3]))
        inside = self.engine.weighted(self.engine.observed)
        counts = [np.maximum(own - self.engine.sums(folds * inside[g]), 0.0) for g, own in enumerate(self.counts)]
        p, q = (self.engine.kernels(counts[g], own) for g, own in enumerate(self.observed))
        return LeftOut(Draws(p, q), sides)

    def null(self, seed: int, indices: Sequence[int]) -> Floats:
        """Counts of permutations, (n_draws, 2, n_entries)."""
        return self.engine.regroup(seed, indices)

    def statistics(self, counts: Floats) -> Statistics:
        """Statistics of many groupings, (n_draws, 2, n_entries)."""
        support = self.engine.support
        # Rows that a grouping leaves empty are those of the pooled process, where the two sides then agree.
        p, q = (self.engine.kernels(counts[:, g], self.centre) for g in (0, 1))
        distances = self.expansion.values(support, p, support, q)
        if self.earnings is not None:
            distances += self.earnings.change(self.expansion, p, q)
        rows = row_tests(support, counts[:, 0], counts[:, 1]).statistic
        return Statistics(distances, chi_squared(support, counts, self.engine.tested), rows)

    @property
    def separates(self) -> bool:
        """Whether different states have positive cost, so that different rows mean a positive distance."""
        return _separates(self.cost)

    def tests(self, counts: Floats) -> RowTests:
        """Chi-squared of each row, for the data or many draws of it, (..., 2, n_entries)."""
        return row_tests(self.engine.support, counts[..., 0, :], counts[..., 1, :])

    @property
    def can_shrink(self) -> bool:
        """Whether rows can be changed one by one; chains fitted to independent samples cannot."""
        return self.engine.pooled.discount is None

    def shrunk(self, counts: Floats, kept: Floats) -> Draws:
        """Probabilities of many draws, (n_draws, 2, n_entries), with a share of the difference of each row kept."""
        support, share = self.engine.support, kept[:, self.engine.support.rows]
        kernels = partial(row_shares, support) if self.engine.visits is None else self.engine.kernels
        # Towards the pooled rows of the same draw, so that both sides contain the noise of that draw.
        centre = kernels(counts.sum(axis=1), self.centre)
        own = (kernels(counts[:, g], rows) for g, rows in enumerate(self.observed))
        p, q = (centre + share * (rows - centre) for rows in own)
        # Changed rows have another stationary distribution; on different states, it is a row as any other.
        if self.engine.pooled.stationary and self.engine.visits is None:
            p, q = (with_starts(support, drawn, rows) for drawn, rows in zip((p, q), self.observed, strict=True))
        return Draws(p, q)

    def factor_draw(self, seed: int, index: int) -> tuple[Draws, Draws]:
        """A permutation, and its halves."""
        grouping = self.engine.grouping(seed, index)
        whole = self.engine.kernels(self.engine.counts(grouping), self.centre)
        # Another seed for each permutation, or all of them would be split alike.
        halves = self.engine.halve(seed + index, FACTOR_SPLITS, grouping)
        p, q = (self.engine.kernels(halves[:, g], whole[g]) for g in (0, 1))
        return Draws(*whole), Draws(p, q)


def _folds(engine: WholeSequences, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """How much of each unit a fold has above the mean of its recording and stratum, (n_folds, n_units)."""
    strata, units = engine.strata, np.arange(len(engine.observed))
    # A task that was run on both sides is left out as a whole.
    paired = strata is not None and strata.paired
    groups = [units] if paired else [np.flatnonzero(engine.observed == g) for g in (0, 1)]
    folds, sides = [], []
    for side, own in enumerate(groups):
        member = strata.pooled if strata is not None and paired else np.arange(len(own))
        n = int(member.max()) + 1
        cells = np.zeros(n, dtype=np.int64) if strata is None or paired else strata.cells(strata.pooled[own])
        n_folds = min(n, FOLDS)
        inside = (rng.permutation(np.arange(n) * n_folds // n) == np.arange(n_folds)[:, None]).astype(np.float64)
        sizes = np.bincount(cells)
        mean = (inside @ (cells[:, None] == np.arange(len(sizes)))) / sizes
        # Means are estimated, once for each stratum and once for the fold.
        factor = np.sqrt(sizes / np.maximum(sizes - 1, 1) * (n - 1) / max(n - n / n_folds, 1.0))
        weights = np.zeros((n_folds, len(units)))
        weights[:, own] = ((inside - mean[:, cells]) * factor[cells])[:, member]
        folds.append(weights)
        sides.append(np.full(n_folds, side))
    return np.concatenate(folds), np.concatenate(sides)


@dataclass(frozen=True, eq=False)
class AgainstKnown:
    """A recording against a known chain, both on the union of their states and entries.

    If the two are equal, the transitions from each state are independent draws of the known row, as many as recorded.

    Attributes
    ----------
    engine : Engine
        The recording, as one group.
    states : tuple of hashable
        Those of both.
    support : Support
        The union of the entries, with the probabilities of the chain.
    places : ndarray of int64
        The entries of the engine in `support`.
    flipped : bool
        Whether the recording is y.
    cost : ndarray, shape (n, n)
        Unit cost between the states of both.
    discount : float
    """

    engine: Engine
    states: tuple[Hashable, ...]
    support: Support
    places: Ints
    flipped: bool
    cost: Floats
    discount: float

    @property
    def supports(self) -> tuple[Support, Support]:
        """The entries of both kernels."""
        return self.support, self.support

    @cached_property
    def counts(self) -> Floats:
        """Observed counts, (n_entries,)."""
        return self._placed(self.engine.counts(self.engine.observed)[0])

    @cached_property
    def observed(self) -> Draws:
        """Probabilities of the data and of the chain; rows that were never recorded are those of the chain."""
        return self._ordered(row_shares(self.support, self.counts, self.support.probabilities))

    @cached_property
    def expansion(self) -> Expansion:
        """First-order distances at the known chain."""
        return Expansion.pooled(self.support, self.cost, self.discount)

    def halves(self, seed: int, n_splits: int) -> Halves:
        """Both halves of random splits of the recording."""
        # Random numbers of this side, the same as in a comparison of two recordings.
        counts = self._placed(self.engine.halve(seed, n_splits, first=int(self.flipped))[:, 0])
        return Halves(self._ordered(row_shares(self.support, counts, self.observed[self.flipped])), counts)

    def null(self, seed: int, indices: Sequence[int]) -> Floats:
        """Counts drawn from the known rows, (n_draws, n_entries)."""
        # As many observations of each row as were recorded: the rows are under test, not the visits.
        totals = self.support.row_sums(self.counts).astype(np.int64)
        # A generator for each index, so that draws can be made in any order and number.
        return np.stack([drawn_rows(self.support, totals, np.random.default_rng([seed, k])) for k in indices])

    def statistics(self, counts: Floats) -> Statistics:
        """Statistics of many recordings, (n_draws, n_entries)."""
        draws = self._ordered(row_shares(self.support, counts, self.support.probabilities))
        rows = against_known(self.support, counts)
        return Statistics(self.expansion.values(self.support, draws.p, self.support, draws.q), rows.sum(axis=1), rows)

    @property
    def separates(self) -> bool:
        """Whether different states have positive cost, so that different rows mean a positive distance."""
        return _separates(self.cost)

    def tests(self, counts: Floats) -> RowTests:
        """Chi-squared of each row against the known row, for the data or many draws of it, (..., n_entries)."""
        n = np.add.reduceat(counts, self.support.indptr[:-1], axis=-1)
        # Outcomes that the chain excludes count if the data show them.
        df = self.support.row_sums((self.support.probabilities > 0) | (self.counts > 0)) - 1.0
        flat = against_known(self.support, counts.reshape(-1, counts.shape[-1]))
        # The known side is as good as observed infinitely often.
        return RowTests(flat.reshape(n.shape), df, n, np.full(n.shape, np.inf))

    can_shrink = True

    def shrunk(self, counts: Floats, kept: Floats) -> Draws:
        """Probabilities of many draws, (n_draws, n_entries), with a share of the difference of each row kept."""
        known, own = self.support.probabilities, row_shares(self.support, counts, self.observed[self.flipped])
        return self._ordered(known + kept[:, self.support.rows] * (own - known))

    def factor_draw(self, seed: int, index: int) -> tuple[Draws, Draws]:
        """A recording drawn from the chain, and its halves."""
        counts = self.null(seed, [index])[0].astype(np.int64)
        whole = row_shares(self.support, counts.astype(np.float64), self.support.probabilities)
        rng = np.random.default_rng([seed, index, 1])
        first = split_rows(counts, self.support.indptr, half_sizes(counts, self.support, FACTOR_SPLITS, rng), rng)
        halves = np.concatenate([first, counts - first]).astype(np.float64)
        return self._ordered(whole), self._ordered(row_shares(self.support, halves, whole))

    def _placed(self, counts: Floats) -> Floats:
        placed = np.zeros((*counts.shape[:-1], len(self.support.indices)))
        # Entries of the chain that were never recorded stay 0.
        placed[..., self.places] = counts
        return placed

    def _ordered(self, recorded: Floats) -> Draws:
        # A view: one row serves all draws.
        known = np.broadcast_to(self.support.probabilities, recorded.shape)
        return Draws(known, recorded) if self.flipped else Draws(recorded, known)


@dataclass(frozen=True, eq=False)
class Separate:
    """Two processes that cannot be exchanged; at least one is recorded.

    Attributes
    ----------
    engines : pair of Engine or None
        Each recording as one group; None for a known chain.
    supports : pair of Support
        The entries of both kernels, with the probabilities of the estimated or known chains.
    cost : ndarray, shape (n_x, n_y)
        Unit cost.
    discount : float
    """

    engines: tuple[Engine | None, Engine | None]
    supports: tuple[Support, Support]
    cost: Floats
    discount: float
    earnings: Earnings | None = None

    @property
    def observed(self) -> Draws:
        """Probabilities of both kernels."""
        return Draws(*(support.probabilities for support in self.supports))

    def halves(self, seed: int, n_splits: int) -> Halves:
        """Both halves of random splits of the recordings."""
        sides = []
        for k, (engine, support) in enumerate(zip(self.engines, self.supports, strict=True)):
            if engine is None:
                sides.append(np.broadcast_to(support.probabilities, (2 * n_splits, len(support.indices))))
            else:
                halves = engine.halve(seed, n_splits, first=k)[:, 0]
                sides.append(engine.kernels(halves, support.probabilities))
        return Halves(Draws(*sides))


Comparison = Exchangeable | AgainstKnown | Separate


def compare(
    x: Model,
    y: Model,
    problem: Problem,
    cost: object = None,
    *,
    length: int | None = None,
    rows: bool = False,
    strata: Strata | None = None,
) -> tuple[Comparison, CostUnits]:
    """Prepare two models for comparison.

    Parameters
    ----------
    x, y : Model
        At least one with data.
    problem : Problem
        Their plug-in problem.
    cost : FeatureCost or function, optional
        Source of the cost, if it defines the cost between states of the same process as well.
    length : int, optional
        Length of the blocks, if few long recordings are cut into blocks.
    rows : bool
        Whether to exchange single transitions even if the recordings keep their sequences.
    strata : Strata, optional
        Within which sequences are permuted and halved.
    """
    data = [side.samples for side in (x, y)]
    joint = _exchangeable(x, y)
    states = tuple(dict.fromkeys([*x.chain.states, *y.chain.states]))
    # Without a cost between the states of one process, there is no null hypothesis to draw from.
    table = _union_cost(problem, cost, states, data) if joint else None
    if table is not None:
        # The range of estimated features is also that of the plug-in problem, which has those of each side.
        units = CostUnits.of(
            np.append(table, [problem.offset, problem.most]) if isinstance(cost, FeatureCost) else table
        )
        unit = units.unit(table)
        recordings = [side for side in data if side is not None]
        others = [side.chain for side in (x, y) if side.samples is None]
        engine = engine_of(recordings, length, rows=rows, strata=strata, others=others)
        if len(recordings) == 2:
            earnings = earnings_of(cost, units.scale, (engine, engine), (engine.support, engine.support))
            return Exchangeable(engine, states, unit, problem.discount, earnings), units
        known, flipped = (x.chain, True) if data[0] is None else (y.chain, False)
        support, places = _on_union(known, engine, states)
        return AgainstKnown(engine, states, support, places, flipped, unit, problem.discount), units
    parts = [None, None] if strata is None else [strata.alone(k) for k in (0, 1)]
    engines = [
        None if d is None else engine_of([d], length, rows=rows, strata=s) for d, s in zip(data, parts, strict=True)
    ]
    supports = [side.chain.support if e is None else e.fitted for side, e in zip((x, y), engines, strict=True)]
    pair, units = ((engines[0], engines[1]), (supports[0], supports[1])), CostUnits(problem.offset, problem.scale)
    return Separate(*pair, problem.unit_cost, problem.discount, earnings_of(cost, units.scale, *pair)), units


def _exchangeable(x: Model, y: Model) -> bool:
    """Whether recordings of both could be exchanged if the processes were equal."""
    one, other = x.samples, y.samples
    if one is not None and other is not None:
        # Recordings of different kinds are not exchangeable even if their processes are equal.
        alike = one.discount == other.discount and one.stationary == other.stationary
        return alike and (one.initial is None) == (other.initial is None) and not known_starts_differ(one, other)
    recorded, chain = (one, y.chain) if other is None else (other, x.chain)
    assert recorded is not None
    if recorded.discount is not None or recorded.stationary:
        return False
    return recorded.initial is None or _same_start(recorded, chain)


def _same_start(recorded: Data, chain: MarkovChain) -> bool:
    assert recorded.initial is not None
    ours, theirs = (dict(zip(side.states, np.asarray(side.initial), strict=True)) for side in (recorded, chain))
    return all(abs(ours.get(s, 0.0) - theirs.get(s, 0.0)) <= 1e-12 for s in {*ours, *theirs})


def _union_cost(
    problem: Problem, cost: object, states: tuple[Hashable, ...], data: Sequence[Data | None]
) -> Floats | None:
    """The cost between all states of both processes; None if unknown, or if equal states do not cost least."""
    labels_x, labels_y = problem.x.states, problem.y.states
    if isinstance(cost, FeatureCost) and len(cost.shared):
        values = cost.on_union(states)
        table = costs.absolute(values, values)
    # The same states, possibly in another order, which is that of x from here on.
    elif len(states) == len(labels_x) == len(labels_y):
        place = {label: j for j, label in enumerate(labels_y)}
        table = problem.cost[:, [place[label] for label in states]]
    # Recognised by its entries, since a table has no name.
    elif np.array_equal(problem.cost, _different(labels_x, labels_y)):
        table = _different(states, states)
    # The merged recording has all states, on which a function can be evaluated.
    elif callable(cost) and all(side is not None for side in data):
        table = _called(cost, data)
    else:
        return None
    least = problem.offset if isinstance(cost, FeatureCost) else float(table.min())
    # If different states could cost less than equal ones, equal processes would not have the smallest distance.
    return table if float(table.diagonal().max()) <= least else None


def _different(x: Sequence[Hashable], y: Sequence[Hashable]) -> Floats:
    """The cost by labels, without the warnings of `costs.labels`."""
    return np.array([[float(a != b) for b in y] for a in x])


def _called(cost: Callable[[Any, Any], Any], data: Sequence[Any]) -> Floats:
    """The cost between the states of two recordings, from a function of two recordings."""
    # Counts cannot be merged with sequences, so both become counts.
    merged = data[0].merge(data[1]) if type(data[0]) is type(data[1]) else data[0].counted.merge(data[1].counted)
    return costs.check_cost(cost(merged, merged), merged.n_states, merged.n_states)


def _on_union(known: MarkovChain, engine: Engine, states: tuple[Hashable, ...]) -> tuple[Support, Ints]:
    """Entries of a chain and of a recording together, with the chain's probabilities, and the recording's places.

    States that the chain lacks, and so never reaches, have the rows of the recording.
    """
    n, place = len(states), {label: i for i, label in enumerate(states)}
    sides = [(known.support, known.states), (engine.support, engine.pooled.states)]
    keys = []
    for support, labels in sides:
        number = np.array([*(place[label] for label in labels), n], dtype=np.int64)
        keys.append(number[support.rows] * n + number[support.indices])
    # A key is row * n + column, so the sorted union is in the order of a CSR matrix.
    union = np.union1d(*keys)
    rows = union // n
    probabilities = np.zeros(len(union))
    # The recording first. Rows of the chain then replace it, so that only rows unknown to the chain are estimated.
    for key, (support, _) in zip(reversed(keys), reversed(sides), strict=True):
        probabilities[np.isin(rows, np.unique(key // n))] = 0.0
        probabilities[np.searchsorted(union, key)] = support.probabilities
    indptr = np.searchsorted(rows, np.arange(n + 2)).astype(np.int64)
    support = Support(indptr, (union % n).astype(np.int32), probabilities)
    return support, np.searchsorted(union, keys[1])


def on_entries_of(support: Support, probabilities: Floats) -> Support:
    """Other probabilities on the same entries."""
    return Support(support.indptr, support.indices, probabilities)


def places_of(comparison: Comparison, problem: Problem) -> tuple[Ints, Ints] | None:
    """The states of the plug-in problem among those compared, if its rows and costs are those of the data there.

    Its solution is then that of the comparison. Rows differ if a recording ends in a state that the other one leaves.
    Common states must be in the same order: the choice among equally good couplings depends on it.
    """
    index = None if isinstance(comparison, Separate) else {label: i for i, label in enumerate(comparison.states)}
    places = []
    for chain, support, own in zip((problem.x, problem.y), comparison.supports, comparison.observed, strict=True):
        n, n_union = chain.n_states, len(support.indptr) - 2
        place = np.arange(n) if index is None else np.array([index[label] for label in chain.states], dtype=np.int64)
        inside = np.append(place, n_union)  # the initial row is the last one
        rows, columns = inside[chain.support.rows], place[chain.support.indices]
        slots = np.minimum(support.locate(rows, columns), len(support.indices) - 1)
        expected = np.zeros(len(support.indices))
        expected[slots] = chain.support.probabilities
        compared = np.isin(support.rows, inside)
        present = (support.rows[slots] == rows) & (support.indices[slots] == columns)
        if not present.all() or np.abs(expected - own)[compared].max(initial=0.0) > _SAME:
            return None
        places.append(place)
    common = places[1][places[1] < problem.x.n_states]  # the states of y alone come after those of x
    same = bool((np.diff(common) > 0).all()) and np.array_equal(comparison.cost[np.ix_(*places)], problem.unit_cost)
    return (places[0], places[1]) if same else None


def _separates(cost: Floats) -> bool:
    off = cost[~np.eye(len(cost), dtype=np.bool_)]
    return bool(len(off)) and float(off.min()) > 0.0
