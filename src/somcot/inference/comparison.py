"""Two processes prepared for comparison: what is permuted, what is halved, and what that says about the distance.

`Exchangeable` are two recordings of the same kind on the union of their states: units are permuted between them.
`AgainstKnown` is a recording against a known chain: if the two are equal, recordings can be drawn from the chain.
`Separate` are two processes that cannot be exchanged, for example with different states and only the costs between the
two sides: half-samples alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from somcot import costs
from somcot.chains import MarkovChain, Support
from somcot.costs import FeatureCost
from somcot.inference.intervals import KINK, Evidence
from somcot.inference.model import Model, split_rows
from somcot.inference.pooling import calibrated, design_effect, kept_shares
from somcot.inference.statistics import Expansion, RowTests, Statistics, chi_squared, permute, row_tests
from somcot.inference.units import Engine, engine_of, half_sizes, known_starts_differ, row_shares, with_starts
from somcot.plumbing.arrays import Floats, Ints
from somcot.problem import Data, Problem

__all__ = [
    "PERMUTATIONS", "AgainstKnown", "Comparison", "Exchangeable", "Gathered", "Separate", "Units", "compare", "gather",
]  # fmt: skip

SPLITS = 20  # random splits into halves, both of which are used
PERMUTATIONS = 199  # as for `same_process`, so that both give the same p-value
AT_LEAST = 100  # ... although a clear case stops earlier
_LEFT_OUT = 0.02  # occupancy of the pairs that half-samples leave out
_FACTOR_DRAWS, _FACTOR_SPLITS = 3, 4  # permutations that are solved and halved again, for the factor of the rise
_FIRST_FACTOR = 1 << 41  # their first index; tests use smaller ones
_MOST = 4.0  # largest factor, in units of KINK


class Draws(NamedTuple):
    """Probabilities of many pairs of kernels, (n_draws, n_entries) each, on the supports of a comparison."""

    p: Floats
    q: Floats


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
        Unit cost between the states of both.
    discount : float
    """

    engine: Engine
    states: tuple[Hashable, ...]
    cost: Floats
    discount: float

    @property
    def supports(self) -> tuple[Support, Support]:
        """The entries of both kernels."""
        return self.engine.support, self.engine.support

    @cached_property
    def counts(self) -> Floats:
        """Observed counts, (2, n_entries)."""
        return self.engine.counts(self.engine.observed)

    @cached_property
    def centre(self) -> Floats:
        """Probabilities of the pooled process."""
        return self.engine.kernels(self.counts.sum(axis=0), self.engine.support.probabilities)

    @cached_property
    def observed(self) -> Draws:
        """Probabilities of the data; rows that only one of the two has left are those of the pooled process."""
        return Draws(*self.engine.kernels(self.counts, self.centre))

    @cached_property
    def expansion(self) -> Expansion:
        """First-order distances at the pooled process."""
        return Expansion.pooled(_with(self.engine.support, self.centre), self.cost, self.discount)

    def halves(self, seed: int, n_splits: int) -> Draws:
        """Both halves of random splits of both recordings."""
        counts = self.engine.halve(seed, n_splits)
        p, q = (self.engine.kernels(counts[:, g], own) for g, own in enumerate(self.observed))
        return Draws(p, q)

    def null(self, seed: int, indices: Sequence[int]) -> Floats:
        """Counts of permutations, (n_draws, 2, n_entries)."""
        return self.engine.regroup(seed, indices)

    def statistics(self, counts: Floats) -> Statistics:
        """Statistics of many groupings, (n_draws, 2, n_entries)."""
        support = self.engine.support
        p, q = (self.engine.kernels(counts[:, g], self.centre) for g in (0, 1))
        distances = self.expansion.values(support, p, support, q)
        rows = row_tests(support, counts[:, 0], counts[:, 1]).statistic
        return Statistics(distances, chi_squared(support, counts), rows)

    @property
    def separates(self) -> bool:
        """Whether different states have positive cost, so that different rows mean a positive distance."""
        return _separates(self.cost)

    @cached_property
    def tests(self) -> RowTests:
        """Chi-squared of each row of the data."""
        return row_tests(self.engine.support, self.counts[0], self.counts[1])

    def shrunk(self, kept: Floats) -> Draws | None:
        """The data with a share of the difference of each row kept; None for refitted chains."""
        if self.engine.pooled.discount is not None:
            return None
        share = kept[self.engine.support.rows]
        p, q = (self.centre + share * (own - self.centre) for own in self.observed)
        return Draws(*with_starts(self.engine.support, np.stack([p, q]), stationary=self.engine.pooled.stationary))

    def factor_draw(self, seed: int, index: int) -> tuple[Draws, Draws]:
        """A permutation, and its halves."""
        grouping = self.engine.grouping(seed, index)
        whole = self.engine.kernels(self.engine.counts(grouping), self.centre)
        halves = self.engine.halve(seed + index, _FACTOR_SPLITS, grouping)
        p, q = (self.engine.kernels(halves[:, g], whole[g]) for g in (0, 1))
        return Draws(*whole), Draws(p, q)


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

    def halves(self, seed: int, n_splits: int) -> Draws:
        """Both halves of random splits of the recording."""
        counts = self._placed(self.engine.halve(seed, n_splits, first=int(self.flipped))[:, 0])
        return self._ordered(row_shares(self.support, counts, self.observed[self.flipped]))

    def null(self, seed: int, indices: Sequence[int]) -> Floats:
        """Counts drawn from the known rows, (n_draws, n_entries)."""
        totals = self.support.row_sums(self.counts).astype(np.int64)
        return np.stack([_drawn_rows(self.support, totals, np.random.default_rng([seed, k])) for k in indices])

    def statistics(self, counts: Floats) -> Statistics:
        """Statistics of many recordings, (n_draws, n_entries)."""
        draws = self._ordered(row_shares(self.support, counts, self.support.probabilities))
        rows = _against_known(self.support, counts)
        return Statistics(self.expansion.values(self.support, draws.p, self.support, draws.q), rows.sum(axis=1), rows)

    @property
    def separates(self) -> bool:
        """Whether different states have positive cost, so that different rows mean a positive distance."""
        return _separates(self.cost)

    @cached_property
    def tests(self) -> RowTests:
        """Chi-squared of each row of the data against the known row."""
        n = self.support.row_sums(self.counts)
        df = self.support.row_sums((self.support.probabilities > 0) | (self.counts > 0)) - 1.0
        return RowTests(_against_known(self.support, self.counts[None, :])[0], df, n, np.full(len(n), np.inf))

    def shrunk(self, kept: Floats) -> Draws | None:
        """The data with a share of the difference of each row kept."""
        share, own = kept[self.support.rows], self.observed[self.flipped]
        return self._ordered(self.support.probabilities + share * (own - self.support.probabilities))

    def factor_draw(self, seed: int, index: int) -> tuple[Draws, Draws]:
        """A recording drawn from the chain, and its halves."""
        counts = self.null(seed, [index])[0].astype(np.int64)
        whole = row_shares(self.support, counts.astype(np.float64), self.support.probabilities)
        rng = np.random.default_rng([seed, index, 1])
        first = split_rows(counts, self.support.indptr, half_sizes(counts, self.support, _FACTOR_SPLITS, rng), rng)
        halves = np.concatenate([first, counts - first]).astype(np.float64)
        return self._ordered(whole), self._ordered(row_shares(self.support, halves, whole))

    def _placed(self, counts: Floats) -> Floats:
        placed = np.zeros((*counts.shape[:-1], len(self.support.indices)))
        placed[..., self.places] = counts
        return placed

    def _ordered(self, recorded: Floats) -> Draws:
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

    @property
    def observed(self) -> Draws:
        """Probabilities of both kernels."""
        return Draws(*(support.probabilities for support in self.supports))

    def halves(self, seed: int, n_splits: int) -> Draws:
        """Both halves of random splits of the recordings."""
        sides = []
        for k, (engine, support) in enumerate(zip(self.engines, self.supports, strict=True)):
            if engine is None:
                sides.append(np.broadcast_to(support.probabilities, (2 * n_splits, len(support.indices))))
            else:
                halves = engine.halve(seed, n_splits, first=k)[:, 0]
                sides.append(engine.kernels(halves, support.probabilities))
        return Draws(*sides)


Comparison = Exchangeable | AgainstKnown | Separate


def compare(
    x: Model, y: Model, problem: Problem, cost: object = None, *, length: int | None = None, rows: bool = False
) -> tuple[Comparison, Units]:
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
    """
    data = [side.samples for side in (x, y)]
    joint = _exchangeable(x, y)
    states = tuple(dict.fromkeys([*x.chain.states, *y.chain.states]))
    table = _union_cost(problem, cost, states, data) if joint else None
    if table is not None:
        units = Units.of(table, least=problem.offset if isinstance(cost, FeatureCost) else None)
        unit = units.unit(table)
        recordings = [side for side in data if side is not None]
        engine = engine_of(recordings, length, rows=rows)
        if len(recordings) == 2:
            return Exchangeable(engine, states, unit, problem.discount), units
        known, flipped = (x.chain, True) if data[0] is None else (y.chain, False)
        support, places = _on_union(known, engine, states)
        return AgainstKnown(engine, states, support, places, flipped, unit, problem.discount), units
    engines = [None if side is None else engine_of([side], length, rows=rows) for side in data]
    supports = [
        side.chain.support if engine is None else engine.support for side, engine in zip((x, y), engines, strict=True)
    ]
    separate = Separate((engines[0], engines[1]), (supports[0], supports[1]), problem.unit_cost, problem.discount)
    return separate, Units(problem.offset, problem.scale)


class Units(NamedTuple):
    """The unit of the cost in a comparison; the union of the states may have a wider range than the problem."""

    offset: float
    scale: float

    @classmethod
    def of(cls, table: Floats, least: float | None = None) -> Units:
        """The range of a cost; `least` is its minimum, if that is known better."""
        offset = float(table.min()) if least is None else least
        return cls(offset, float(table.max()) - offset or abs(float(table.max())) or 1.0)

    def unit(self, table: Floats) -> Floats:
        """The cost in [0, 1]."""
        return np.ascontiguousarray((table - self.offset) / self.scale)

    def to_user(self, value: float) -> float:
        """A distance in the units of the cost."""
        return self.offset + self.scale * value


def _exchangeable(x: Model, y: Model) -> bool:
    """Whether recordings of both could be exchanged if the processes were equal."""
    one, other = x.samples, y.samples
    if one is not None and other is not None:
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
    if len(states) == len(labels_x) == len(labels_y):
        place = {label: j for j, label in enumerate(labels_y)}
        table = problem.cost[:, [place[label] for label in states]]
    elif np.array_equal(problem.cost, _different(labels_x, labels_y)):
        table = _different(states, states)
    elif isinstance(cost, FeatureCost) and len(cost.shared):
        features = dict(zip(labels_y, cost.values[1], strict=True)) | dict(zip(labels_x, cost.values[0], strict=True))
        values = np.array([features[label] for label in states])
        table = costs.absolute(values, values)
    elif callable(cost) and all(side is not None for side in data):
        table = _called(cost, data)
    else:
        return None
    least = problem.offset if isinstance(cost, FeatureCost) else float(table.min())
    return table if float(table.diagonal().max()) <= least else None


def _different(x: Sequence[Hashable], y: Sequence[Hashable]) -> Floats:
    """The cost by labels, without the remarks that `costs.labels` makes when a user asks for it."""
    return np.array([[float(a != b) for b in y] for a in x])


def _called(cost: Callable[[Any, Any], Any], data: Sequence[Any]) -> Floats:
    """The cost between the states of two recordings, from a function of two recordings."""
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
    for key, (support, _) in zip(reversed(keys), reversed(sides), strict=True):
        probabilities[np.isin(rows, np.unique(key // n))] = 0.0
        probabilities[np.searchsorted(union, key)] = support.probabilities
    indptr = np.searchsorted(rows, np.arange(n + 2)).astype(np.int64)
    support = Support(indptr, (union % n).astype(np.int32), probabilities)
    return support, np.searchsorted(union, keys[1])


def _with(support: Support, probabilities: Floats) -> Support:
    return Support(support.indptr, support.indices, probabilities)


def _separates(cost: Floats) -> bool:
    off = cost[~np.eye(len(cost), dtype=np.bool_)]
    return bool(len(off)) and float(off.min()) > 0.0


def _drawn_rows(support: Support, totals: Ints, rng: np.random.Generator) -> Floats:
    """Counts of independent draws of each row, as many as `totals`."""
    counts = np.zeros(len(support.indices))
    for row in np.flatnonzero(totals):
        entries = slice(support.indptr[row], support.indptr[row + 1])
        counts[entries] = rng.multinomial(totals[row], support.probabilities[entries])
    return counts


_EXCLUDED = 1e6  # statistic of a row with a transition that the known chain excludes


def _against_known(support: Support, counts: Floats) -> Floats:
    """Chi-squared of each row against known probabilities, for counts of shape (n_draws, n_entries)."""
    totals = np.add.reduceat(counts, support.indptr[:-1], axis=-1)[..., support.rows]
    expected = totals * support.probabilities
    impossible = np.where(counts > 0, _EXCLUDED, 0.0)
    terms = np.divide((counts - expected) ** 2, expected, out=impossible, where=expected > 0)
    return np.minimum(np.add.reduceat(terms, support.indptr[:-1], axis=-1), _EXCLUDED)


# --- Gathering the evidence


class Gathered(NamedTuple):
    """The evidence, and more that users may look at.

    Attributes
    ----------
    evidence : Evidence
    halves : ndarray, shape (2 * SPLITS,)
        The distances of half-samples.
    kept : ndarray or None
        The share of each row's difference that was kept by pooling, initial row last.
    equal : float or None
        Share of the rows judged equal.
    effect : float
        Design effect of the rows: 1 if transitions are as good as independent.
    n_solves : int
    """

    evidence: Evidence
    halves: Floats
    kept: Floats | None
    equal: float | None
    effect: float
    n_solves: int


def gather(
    comparison: Comparison,
    seed: int,
    *,
    n_permutations: int = PERMUTATIONS,
    features: FeatureCost | None = None,
    scale: float = 1.0,
    pool: bool = True,
    threads: int | None = None,
) -> Gathered:
    """Permute and halve the data, and evaluate all draws to first order around two solved centres.

    `features` is the source of an estimated cost, in units of `scale`: its noise is part of the half-samples. With
    ``pool=False``, rows are not pooled.
    """
    own = _solved(comparison, comparison.observed, left_out=_LEFT_OUT)
    values = own.values(*_sides(comparison, comparison.halves(seed, SPLITS)))
    if features is not None:
        states = None if isinstance(comparison, Separate) else comparison.states
        values = values + _feature_noise(own, features, scale, states, np.random.default_rng([seed, 2]))
    evidence = Evidence(own.value, float(values.mean()), float(values.std(ddof=1)))
    if isinstance(comparison, Separate):
        return Gathered(evidence, values, None, None, 1.0, 1)
    test = permute(comparison, seed, n_permutations, both=comparison.separates, at_least=AT_LEAST, threads=threads)
    kept, equal = kept_shares(calibrated(comparison.tests, test.rows))
    shrunk = comparison.shrunk(kept) if pool else None
    evidence = evidence._replace(
        null=test.null.distance,
        observed=float(test.observed.distance[0]),
        pvalue=test.pvalue,
        pooled=None if shrunk is None else _solved(comparison, shrunk).value,
        factor=_factor(comparison, seed),
    )
    effect = design_effect(comparison.tests, test.rows)
    return Gathered(evidence, values, kept, equal, effect, 3 + _FACTOR_DRAWS)


def _solved(comparison: Comparison, draws: Draws, *, left_out: float = 0.0) -> Expansion:
    x, y = (_with(support, p) for support, p in zip(comparison.supports, draws, strict=True))
    return Expansion.at(x, y, comparison.cost, comparison.discount, left_out=left_out)


def _sides(comparison: Comparison, draws: Draws) -> tuple[Support, Floats, Support, Floats]:
    x, y = comparison.supports
    return x, draws.p, y, draws.q


def _factor(comparison: Exchangeable | AgainstKnown, seed: int) -> float:
    """Bias over rise where the truth is 0: permuted recordings are solved, and halved again.

    It is 1 + sqrt 2 if rows are well filled, and larger if half-samples lose rows or the distance saturates.
    """
    bias = rise = 0.0
    for index in range(_FIRST_FACTOR, _FIRST_FACTOR + _FACTOR_DRAWS):
        whole, halves = comparison.factor_draw(seed, index)
        centre = _solved(comparison, whole, left_out=_LEFT_OUT)
        bias += centre.value
        rise += float(centre.values(*_sides(comparison, halves)).mean()) - centre.value
    return min(max(KINK, bias / max(rise, 1e-12)), _MOST * KINK)


def _feature_noise(
    own: Expansion, features: FeatureCost, scale: float, states: tuple[Hashable, ...] | None, rng: np.random.Generator
) -> Floats:
    """Change of the distance by the noise of estimated rewards, one number per half; two halves deviate oppositely.

    `states` are those of both processes, if the expansion is on their union.
    """
    signed, changes = features.placed(features.signed, states), []
    for _ in range(SPLITS):
        noise = features.placed(features.noise(rng), states)
        tables = np.stack([np.abs(signed + sign * noise) for sign in (1.0, -1.0)])
        changes.append(own.mean(tables - np.abs(signed)) / scale)
    return np.concatenate(changes)
