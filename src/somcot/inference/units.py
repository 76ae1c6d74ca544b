"""Recordings as they could have been: units are permuted between groups, and halved within groups.

A unit is what may be exchanged between two recordings of the same process. `WholeSequences` exchanges whole sequences,
or blocks of few long recordings, and so keeps the memory inside a sequence. `SingleTransitions` exchanges transitions
with the same present state, which is exact for Markov chains; it is for counts, which do not keep sequences, and for
independent samples. Both draw without replacement, so no draw has fewer distinct observations than the data.

A grouping says which units are in which group. Counts have one entry for each entry of a support that all groups share,
initial row last, so that everything below is arithmetic on arrays of shape (n_draws, n_groups, n_entries).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import comb, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import MarkovChain, Support
from somcot.inference.model import (
    block_length,
    half_sizes,
    on_entries,
    pieces,
    row_shares,
    split_rows,
    with_starts,
)
from somcot.inference.strata import Strata
from somcot.plumbing.arrays import Codes, Floats, Ints
from somcot.plumbing.memory import one_blas_thread
from somcot.plumbing.notes import Note
from somcot.problem import ChainOrData, Data
from somcot.recorded.counts import Counts, disputed_ends, number_ended
from somcot.recorded.pair_counts import add_entries, locate_steps
from somcot.recorded.stationary import starting_where_visited
from somcot.samples import Samples

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "SEQUENCES", "Chosen", "Engine", "SingleTransitions", "WholeSequences", "choose_units", "chosen_engine",
    "engine_of",
]  # fmt: skip

_MOST_UNITS = 8000  # more sequences than that, in all recordings together, are exchanged in bundles of equal size
_MOST_CELLS = 1 << 22  # entries times units up to which their table is dense


@dataclass(frozen=True, eq=False)
class WholeSequences:
    """The sequences (or blocks) of several recordings on the union of their states.

    A grouping is the group of each unit.

    Attributes
    ----------
    pooled : Counts
        Counts of all recordings.
    recordings : sequence of Samples
    units : list of ndarray of int64, shape (n_pieces,)
        For each recording, the unit of each piece: of each sequence, or of each block inside a sequence.
    bounds : list of ndarray of int64, shape (n_pieces + 1,)
        For each recording, the first transition of each piece, and the end.
    observed : ndarray of int64, shape (n_units,)
        The recording of each unit.
    n_groups : int
    strata : Strata or None
        If there are any, units are whole sequences, which are permuted and halved within strata, and weighted.
    ends : frozenset
        States where one process is known to end and another goes on: ends there count as steps to the same state.
    begins : list of ndarray of int64, shape (n_episodes,), or None
        For each recording, the unit of each first state, if these are units of their own; else they belong to pieces.
    """

    pooled: Counts
    recordings: Sequence[Samples]
    units: list[Ints]
    bounds: list[Ints]
    observed: Ints
    n_groups: int
    strata: Strata | None = None
    ends: frozenset[Hashable] = frozenset()
    begins: list[Ints] | None = None

    @classmethod
    def of(
        cls, recordings: Sequence[Samples], length: int | None = None, strata: Strata | None = None,
        others: Sequence[MarkovChain] = (),
    ) -> WholeSequences:  # fmt: skip
        """Pool recordings; equal labels are the same state. `length` is that of blocks, `others` are known."""
        bounds = [pieces(recording, length) for recording in recordings]
        # Strata forbid bundles, whose sequences could be of different strata.
        size = 1 if strata is not None else -(-sum(len(own) - 1 for own in bounds) // _MOST_UNITS)
        parts = [_bundled(len(own) - 1, size) if size > 1 else np.arange(len(own) - 1) for own in bounds]
        sizes = [int(part.max()) + 1 for part in parts]
        first = np.cumsum(sizes) - sizes
        units = [part + begin for part, begin in zip(parts, first, strict=True)]
        ends = disputed_ends(recordings, others)
        pooled = reduce(Counts.merge, [side.counted.staying(ends, number_ended(side)) for side in recordings])
        observed, begins = np.repeat(np.arange(len(sizes)), sizes), None
        if length is not None and not pooled.starts_known:
            # If blocks took them along, permutations would give a single long recording many of the first states of
            # twenty others, and its own initial distribution, of which it shows one state, would look different.
            owner = np.repeat(np.arange(len(sizes)), [recording.n_episodes for recording in recordings])
            begins = [len(observed) + np.flatnonzero(owner == k) for k in range(len(sizes))]
            observed = np.concatenate([observed, owner])
        return cls(pooled, recordings, units, bounds, observed, len(sizes), strata, ends, begins)

    @property
    def shares(self) -> Floats:
        """Each group's share of the units."""
        return np.bincount(self.observed, minlength=self.n_groups) / len(self.observed)

    @cached_property
    def visits(self) -> Ints | None:
        """Visits of each state, if the stationary distributions of groups can be on different states; else None."""
        return self.pooled.visits_that_last if self.n_groups > 1 else None

    @cached_property
    def support(self) -> Support:
        """The chain of the pooled recordings; where groups start with their `visits`, the initial row counts these."""
        support = self.pooled.chain(check=False).support
        return support if self.visits is None else starting_where_visited(support, self.visits)

    @cached_property
    def tested(self) -> NDArray[np.bool_] | None:
        """Entries that chi-squared of the rows compares; None for all."""
        return _without_visits(self.support, self.visits)

    @property
    def n_permutations(self) -> int:
        """Number of distinct permutations."""
        if self.strata is not None:
            return self.strata.n_permutations
        number = 1
        for part in self._exchangeable:  # multinomial coefficients, group by group
            sizes = np.bincount(self.observed[part])
            left = np.cumsum(sizes[::-1])[::-1]
            number *= prod(comb(int(n), int(k)) for n, k in zip(left, sizes, strict=True))
        return number

    @cached_property
    def _exchangeable(self) -> list[Ints]:
        """Units that are permuted among themselves: pieces, and first states that are units of their own."""
        n = len(self.observed) - (0 if self.begins is None else sum(len(own) for own in self.begins))
        return [part for part in (np.arange(n), np.arange(n, len(self.observed))) if len(part)]

    @property
    def fitted(self) -> Support:
        """The chain of a single recording, of weighted sequences if there are strata."""
        if self.strata is None:
            return self.support
        # Weighted counts have other probabilities than the pooled chain.
        own = self.kernels(self.counts(self.observed)[0], self.support.probabilities)
        return Support(self.support.indptr, self.support.indices, own)

    def grouping(self, seed: int, index: int) -> Ints:
        """Permutation number `index`, from a random stream of its own: the order of the work does not matter."""
        rng = np.random.default_rng([seed, index])
        if self.strata is not None:
            return self.strata.permuted(self.observed, rng)
        grouping = self.observed.copy()
        for part in self._exchangeable:
            grouping[part] = rng.permutation(self.observed[part])
        return grouping

    @cached_property
    def total(self) -> Floats:
        """Counts of all units together, which no permutation changes."""
        total: Floats = self.sums(np.ones((1, len(self.observed))))[0]
        return total

    def counts(self, grouping: Ints) -> Floats:
        """Counts of each group, weighted if there are strata; 0 in the initial row if that is known."""
        return self.sums(self.weighted(grouping))

    def weighted(self, grouping: Ints) -> Floats:
        """The weight of each unit in each group, (n_groups, n_units)."""
        inside = (grouping == np.arange(self.n_groups)[:, None]).astype(np.float64)
        return inside if self.strata is None else np.asarray(inside * self.strata.weights[:, self.strata.pooled])

    def regroup(self, seed: int, indices: Sequence[int]) -> Floats:
        """Counts of permutations, shape (n_draws, n_groups, n_entries)."""
        if self.strata is not None:
            drawn = np.concatenate([self.weighted(self.grouping(seed, index)) for index in indices])
            return self.sums(drawn).reshape(len(indices), self.n_groups, -1)
        n, members = len(self.observed), np.arange(len(self.observed))
        weights = np.zeros((len(indices), self.n_groups, n))
        for k, index in enumerate(indices):
            weights[k, self.grouping(seed, index), members] = 1.0
        # The last group has what the others leave.
        counts = self.sums(weights[:, :-1].reshape(-1, n)).reshape(len(indices), self.n_groups - 1, -1)
        last = self.total - counts.sum(axis=1)
        return np.concatenate([counts, last[:, None]], axis=1)

    def halve(self, seed: int, n_splits: int, grouping: Ints | None = None, *, first: int = 0) -> Floats:
        """Counts of both halves of random splits of every group, shape (2 n_splits, n_groups, n_entries).

        Each group has a random stream of its own: its halves do not depend on what it is compared with.
        """
        grouping = self.observed if grouping is None else grouping
        return np.stack(
            [self.sums(self.half_weights(seed, n_splits, grouping, g, first)) for g in range(self.n_groups)], axis=1
        )

    def half_weights(self, seed: int, n_splits: int, grouping: Ints, group: int, first: int) -> Floats:
        """The weight of each unit in both halves of random splits of a group, (2 n_splits, n_units)."""
        own, taken = np.flatnonzero(grouping == group), np.zeros((2 * n_splits, len(grouping)))
        if self.strata is not None:
            # Of pairs, both sides have the same half, whatever their numbers.
            rng = np.random.default_rng([seed, 1, 0 if self.strata.paired else first + group])
            taken[:, own] = self.strata.halves(own, n_splits, rng) * self.weighted(grouping)[group, own]
            return taken
        # Each group has a stream of its own, so that it does not depend on the size of the others.
        rng = np.random.default_rng([seed, 1, first + group])
        parts = [part[grouping[part] == group] for part in self._exchangeable]
        for split in range(n_splits):
            for part in parts:
                half = len(part) // 2 + (len(part) % 2) * int(rng.integers(2))
                taken[2 * split, rng.permutation(part)[:half]] = 1.0
        taken[1::2, own] = 1.0 - taken[0::2, own]
        return taken

    def kernels(self, counts: Floats, fallback: Floats) -> Floats:
        """Probabilities for many counts, (..., n_entries); rows without counts take those of `fallback`."""
        shares = row_shares(self.support, counts, fallback)
        return with_starts(self.support, shares, fallback) if self.pooled.stationary else shares

    @one_blas_thread  # more would wait in loops between these small products
    def sums(self, weights: Floats) -> Floats:
        """Counts for `weights` of the units, (n, n_units); without strata sums of integers, so exact in any order."""
        return np.asarray(weights @ self._table)

    @cached_property
    def _table(self) -> Floats | csr_array:
        """Counts of each unit for each entry of the support, (n_units, n_entries); sparse if that is large."""
        shape = len(self.observed), len(self.support.indices)
        # A dense product is faster as long as the table is small.
        if shape[0] * shape[1] <= _MOST_CELLS:
            table = np.zeros(shape)
            for arrays in self._entries():
                for array in arrays:  # those that can be written would trigger another compilation
                    array.setflags(write=False)
                add_entries(*arrays, table)
            return table
        from scipy.sparse import coo_array

        parts = [(entries, np.repeat(units, np.diff(bounds))) for entries, bounds, units in self._entries()]
        columns, rows = (np.concatenate(part) for part in zip(*parts, strict=True))
        return coo_array((np.ones(len(rows)), (rows, columns)), shape).tocsr()

    def _entries(self) -> Iterator[tuple[Codes, Ints, Ints]]:
        """The entry of each transition and of each first state, the bounds of pieces in them, and the pieces' units."""
        pooled, index = self.pooled, {label: i for i, label in enumerate(self.pooled.states)}
        support, begin = self.support, int(self.support.indptr[-2])
        for k, (recording, units, bounds) in enumerate(zip(self.recordings, self.units, self.bounds, strict=True)):
            places = np.array([index[label] for label in recording.states], dtype=np.int64)
            starts = (begin + np.searchsorted(support.indices[begin:], places)).astype(np.int32)
            now, following = recording.now, recording.following
            yield locate_steps(support.indptr, support.indices, places, now, following), bounds, units
            if self.visits is not None:
                lasting = self.visits[places[now]] > 0
                yield starts[now[lasting]], np.append(0, np.cumsum(lasting))[bounds], units
            if not (pooled.starts_known or recording.offsets is None):
                first = recording.offsets[:-1]
                own = units[np.searchsorted(bounds, first)] if self.begins is None else self.begins[k]
                yield starts[now[first]], np.arange(len(first) + 1), own
            if self.ends and not (recording.terminated is None or recording.offsets is None):
                last = recording.offsets[1:][recording.terminated] - 1
                inside = np.array([label in self.ends for label in recording.states])
                last = last[inside[following[last]]]
                at, piece = places[following[last]], np.searchsorted(bounds, last, side="right") - 1
                yield support.locate(at, at).astype(np.int32), np.arange(len(last) + 1), units[piece]


@dataclass(frozen=True, eq=False)
class SingleTransitions:
    """Recordings as counts: transitions are exchanged with those from the same state.

    Independent samples of the occupancy are exchanged whichever state they leave, and the chain is refitted to each
    draw. A grouping is the counts of each group, shape (n_groups, n_entries).

    Attributes
    ----------
    pooled : Counts
        Counts of all recordings.
    support : Support
        Their chain.
    observed : ndarray of int64, shape (n_groups, n_entries)
        Counts of each recording; 0 in the initial row if the initial distribution is known.
    visits : ndarray of int64, optional
    """

    pooled: Counts
    support: Support
    observed: Ints
    visits: Ints | None = None

    @classmethod
    def of(cls, recordings: Sequence[Data], others: Sequence[MarkovChain] = ()) -> SingleTransitions:
        """Pool recordings; equal labels are the same state. `others` are known chains."""
        parts = [(data.counted if isinstance(data, Samples) else data).closed() for data in recordings]
        if parts[0].discount is None:
            ends = disputed_ends(recordings, others)
            parts = [part.staying(ends, number_ended(data)) for part, data in zip(parts, recordings, strict=True)]
        pooled = reduce(Counts.merge, parts)
        support, visits = pooled.chain(check=False).support, pooled.visits_that_last if len(parts) > 1 else None
        if visits is not None:
            support = starting_where_visited(support, visits)
        return cls(pooled, support, np.stack([_on_support(part, support, pooled, visits) for part in parts]), visits)

    @property
    def fitted(self) -> Support:
        """The chain of a single recording."""
        return self.support

    @cached_property
    def tested(self) -> NDArray[np.bool_] | None:
        """Entries that chi-squared of the rows compares; None for all."""
        return _without_visits(self.support, self.visits)

    @property
    def n_groups(self) -> int:
        """Number of recordings."""
        return len(self.observed)

    @property
    def shares(self) -> Floats:
        """Each group's share of the transitions."""
        sizes: Floats = self.observed.sum(axis=1).astype(np.float64)
        return sizes / max(float(sizes.sum()), 1.0)

    def grouping(self, seed: int, index: int) -> Ints:
        """Permutation number `index`: groups as large as observed, drawn one after the other without replacement."""
        rng, left = np.random.default_rng([seed, index]), self.observed.sum(axis=0)
        groups = []
        for own in self.observed[:-1]:
            groups.append(self._drawn(left, self.support.row_sums(own)[None, :], rng)[0])
            left = left - groups[-1]
        return np.stack([*groups, left])

    @property
    def total(self) -> Floats:
        """Counts of all groups together, which no permutation changes."""
        total: Floats = self.observed.sum(axis=0).astype(np.float64)
        return total

    def counts(self, grouping: Ints) -> Floats:
        """Counts of each group, shape (n_groups, n_entries)."""
        return grouping.astype(np.float64)

    def regroup(self, seed: int, indices: Sequence[int]) -> Floats:
        """Counts of permutations, shape (n_draws, n_groups, n_entries)."""
        return np.stack([self.counts(self.grouping(seed, index)) for index in indices])

    def halve(self, seed: int, n_splits: int, grouping: Ints | None = None, *, first: int = 0) -> Floats:
        """Counts of both halves of random splits of every group, shape (2 n_splits, n_groups, n_entries).

        Each group has a random stream of its own: its halves do not depend on what it is compared with.
        """
        groups = self.observed if grouping is None else grouping
        halves = np.empty((2 * n_splits, *groups.shape))
        for g, counts in enumerate(groups):
            rng = np.random.default_rng([seed, 1, first + g])
            halves[0::2, g] = self._drawn(counts, half_sizes(counts, self.support, n_splits, rng), rng)
        halves[1::2] = groups - halves[0::2]
        return halves

    def kernels(self, counts: Floats, fallback: Floats) -> Floats:
        """Probabilities for many counts, (..., n_entries); rows without counts take those of `fallback`."""
        if self.pooled.discount is None:
            shares = row_shares(self.support, counts, fallback)
            return with_starts(self.support, shares, fallback) if self.pooled.stationary else shares
        flat = counts.reshape(-1, counts.shape[-1])
        other = Support(self.support.indptr, self.support.indices, fallback)
        fitted = [on_entries(other, self._part(c).chain(check=False)) if c.any() else other for c in flat]
        return np.stack([support.probabilities for support in fitted]).reshape(counts.shape)

    def _drawn(self, counts: Ints, sizes: Ints, rng: np.random.Generator) -> Ints:
        """Draws without replacement, `sizes` per row; of independent samples as many altogether, from any row."""
        if self.pooled.discount is None:
            return split_rows(counts, self.support.indptr, sizes, rng)
        # Independent samples come from any state, so the numbers per row vary too.
        drawn: Ints = rng.multivariate_hypergeometric(counts, int(sizes[0].sum()), size=len(sizes), method="marginals")
        return drawn

    def _part(self, counts: Floats) -> Counts:
        seen, support = self.pooled.pair_counts, self.support
        values = counts[support.locate(seen.rows, seen.columns)].astype(np.int64)
        return replace(self.pooled, pair_counts=seen.with_values(values))


Engine = WholeSequences | SingleTransitions


def engine_of(
    recordings: Sequence[Data], length: int | None = None, *, rows: bool = False, strata: Strata | None = None,
    others: Sequence[MarkovChain] = (),
) -> Engine:  # fmt: skip
    """Whole sequences, or blocks with `length`, if all recordings keep them; else, or with `rows`, transitions."""
    samples = [data for data in recordings if isinstance(data, Samples) and data.discount is None]
    if rows or len(samples) < len(recordings):
        return SingleTransitions.of(recordings, others)
    return WholeSequences.of(samples, length, strata, others)


def _without_visits(support: Support, visits: Ints | None) -> NDArray[np.bool_] | None:
    """All entries but those that count visits: how long a recording stays in states that it leaves for good is chance.

    A single step decides it, but blocks before and after it would each count as evidence.
    """
    return None if visits is None else support.rows < len(support.indptr) - 2


def _bundled(n: int, size: int) -> Ints:
    """Bundles of `size` units chosen at random: if units are exchangeable, so are bundles."""
    bundles: Ints = np.random.default_rng(0).permutation(n) // size
    return bundles


def _on_support(part: Counts, support: Support, pooled: Counts, visits: Ints | None) -> Ints:
    """Counts of a part for every entry of the pooled support."""
    index = {label: i for i, label in enumerate(pooled.states)}
    places = np.array([index[label] for label in part.states], dtype=np.int64)
    counts = np.zeros(len(support.indices), dtype=np.int64)
    seen = part.pair_counts
    counts[support.locate(places[seen.rows], places[seen.columns])] = seen.values
    begins = None if pooled.starts_known or pooled.discount is not None else part.start_counts
    if visits is not None:
        begins = np.where(visits[places] > 0, part.visits, 0)
    if begins is not None:
        starts = np.zeros(pooled.n_states, dtype=np.int64)
        starts[places] = begins
        begin = int(support.indptr[-2])
        counts[begin:] = starts[support.indices[begin:]]
    return counts


# --- Units: what is permuted and halved

SEQUENCES = 10  # smallest number of sequences of a recording that can be permuted and halved as they are
UNITS = ("auto", "sequences", "blocks", "transitions")
_LONG = 200  # steps of a recording whose stationary distribution can be estimated


class Chosen(NamedTuple):
    """Recordings, how they are cut into units, and notes about that."""

    x: ChainOrData
    y: ChainOrData
    rows: bool
    length: int | None
    notes: tuple[Note, ...] = ()
    strata: Strata | None = None


def choose_units(x: ChainOrData, y: ChainOrData, units: str = "auto", strata: Strata | None = None) -> Chosen:
    """Whole sequences if there are enough, blocks of few long recordings, single transitions of counts.

    A few first states are no initial distribution: few long recordings start in their stationary distribution instead.
    """
    if units not in UNITS:
        raise ValueError(f"units: found {units!r}, expected one of {', '.join(map(repr, UNITS))}")
    if strata is not None and units not in ("auto", "sequences"):
        raise ValueError(f"units: found {units!r}, but strata and pairs consist of whole sequences; leave out units")
    sides, rows, length, notes = _choose([x, y], units, strata)
    return Chosen(sides[0], sides[1], rows, length, notes, strata)


def chosen_engine(recordings: Sequence[Data], strata: Strata | None = None) -> tuple[Engine, tuple[Note, ...]]:
    """Two or more recordings cut into units as `choose_units` does, and its notes."""
    sides, rows, length, notes = _choose(recordings, "auto", strata)
    return engine_of([side for side in sides if isinstance(side, Data)], length, rows=rows, strata=strata), notes


def _choose(
    sides: Sequence[ChainOrData], units: str, strata: Strata | None = None
) -> tuple[Sequence[ChainOrData], bool, int | None, tuple[Note, ...]]:
    recorded = [side for side in sides if isinstance(side, Data)]
    whole = [side for side in recorded if isinstance(side, Samples) and side.discount is None]
    if len(whole) < len(recorded):
        if units in ("sequences", "blocks"):
            raise TypeError(Note("needs-episodes", purpose=f"units={units!r}"))
        return sides, True, None, ()
    few = [side.n_episodes < SEQUENCES for side in whole]
    told: list[Note] = []
    if strata is not None and strata.paired and len(strata.labels) < SEQUENCES:  # tasks are halved as a whole
        told.append(Note("few-tasks", n=len(strata.labels), least=SEQUENCES))
    if units == "transitions" or (units == "sequences" or (units == "auto" and not any(few))):
        return sides, units == "transitions", None, tuple(told)
    if strata is None and all(few) and len(whole) == len(sides) and all(_can_be_stationary(side) for side in whole):
        sides = whole = [side.with_start("stationary") for side in whole]
        told.append(Note("few-long-recordings", n=min(side.n_episodes for side in whole)))
    for name, side in zip("xy" if len(sides) == 2 else map(str, range(len(sides))), sides, strict=True):
        if isinstance(side, Samples) and side.n_episodes < SEQUENCES and not side.starts_known:
            told.append(Note("few-sequences", name, n=side.n_episodes, least=SEQUENCES))
    if strata is not None:  # blocks of one sequence belong to one stratum, so they carry no information about another
        return sides, False, None, tuple(told)
    length, independent = block_length(whole)
    if not independent:
        told.append(Note("blocks-dependent", length=length))
    return sides, False, length, tuple(told)


def _can_be_stationary(side: Samples) -> bool:
    """Whether a recording is long, never terminates, and has no initial distribution of its own."""
    assert side.offsets is not None
    if side.starts_known or side.terminal.any() or int(np.diff(side.offsets).min()) < _LONG:
        return False
    try:
        side.with_start("stationary").chain(check=False)
    except ValueError:  # no recurrent state
        return False
    return True
