"""Pooled recordings whose episodes or transitions are permuted between groups: the basis of permutation tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from somcot.chains import MarkovChain, Support
from somcot.inference.model import on_entries, split_rows
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import how_to_wrap
from somcot.problem import Data
from somcot.recorded.counts import Counts
from somcot.recorded.pair_counts import PairCounts
from somcot.recorded.stationary import long_run_part, with_long_run_start
from somcot.samples import Samples

__all__ = ["AnyPool", "PooledEpisodes", "PooledRows", "check_recordings", "known_starts_differ", "pool_of_two"]

Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PooledEpisodes:
    """The episodes (or independent transitions) of several recordings on the union of their states.

    Attributes
    ----------
    pooled : Samples
        All recordings, concatenated.
    observed : ndarray of int64, shape (n_units,)
        The recording of each episode.
    n_groups : int
    """

    pooled: Samples
    observed: Labels
    n_groups: int

    @classmethod
    def of(cls, recordings: Sequence[Samples]) -> PooledEpisodes:
        """Pool recordings; equal labels are the same state."""
        sizes = [recording.n_units for recording in recordings]
        return cls(reduce(Samples.merge, recordings), np.repeat(np.arange(len(sizes)), sizes), len(sizes))

    @cached_property
    def support(self) -> Support:
        """The chain of the pooled recordings."""
        support = self.pooled.chain(check=False).support
        return _starting_where_visited(support, self.pooled) if self.parted else support

    @cached_property
    def parted(self) -> bool:
        """Whether stationary initial distributions are used but the pooled chain has several recurrent classes.

        The stationary distribution of the largest class would then be the initial distribution of every group, and
        groups that never meet would look equal. So groups start in the states they visit,
        and their initial row counts visits.
        """
        return self.pooled.stationary and long_run_part(self.pooled.pair_counts).others > 0

    @property
    def shares(self) -> Floats:
        """Each group's share of the episodes."""
        return np.bincount(self.observed, minlength=self.n_groups) / len(self.observed)

    def shuffled(self, seed: int, index: int) -> Labels:
        """Permutation number `index`, with a separate random stream, so that the order of the work does not matter."""
        return np.random.default_rng([seed, index]).permutation(self.observed)

    def counts(self, labels: Labels) -> Floats:
        """Counts of each group for each entry of the support, initial row last, shape (n_groups, n_entries).

        The initial row is 0 if the initial distribution is known, and counts visits if recordings are `parted`.
        """
        slot, unit = self._entries
        size = len(self.support.indices)
        table = np.bincount(labels[unit] * size + slot, minlength=self.n_groups * size)
        return table.reshape(self.n_groups, size).astype(np.float64)

    def kernels(self, labels: Labels) -> list[Support]:
        """The chain of each group; rows that a group never leaves are those of the pooled chain."""
        if self.pooled.discount is not None:
            units = (np.flatnonzero(labels == g) for g in range(self.n_groups))
            return [on_entries(self.support, self.pooled.take(u).chain(check=False)) for u in units]
        return [kernel_of(self.support, c, stationary=self.pooled.stationary) for c in self.counts(labels)]

    @cached_property
    def _entries(self) -> tuple[Labels, Labels]:
        """The entry and the episode of each transition, then of each first state."""
        pooled, support = self.pooled, self.support
        slot = support.locate(pooled.now.astype(np.int64), pooled.following)
        unit = pooled.episode.astype(np.int64)
        if self.parted:
            first, whose = pooled.now, unit
        elif pooled.starts_known or pooled.offsets is None:
            return slot, unit
        else:
            first, whose = pooled.now[pooled.offsets[:-1]], np.arange(pooled.n_units)
        starts = support.locate(np.full(len(first), pooled.n_states), first)
        return np.append(slot, starts), np.append(unit, whose)


@dataclass(frozen=True, eq=False)
class PooledRows:
    """Two recordings as counts: single transitions are permuted, separately for each state that they leave.

    This is for counts, which do not keep episodes. It is exact for Markov processes of order 1, which counts assume.
    A grouping is the counts of the first group for each entry of the support, initial row last.

    Attributes
    ----------
    pooled : Counts
        Counts of both recordings.
    observed : ndarray of int64, shape (n_entries,)
    total : ndarray of int64, shape (n_entries,)
        Counts of both recordings for each entry; 0 in the initial row if the initial distribution is known.
    support : Support
        The chain of both recordings.
    """

    pooled: Counts
    observed: Labels
    total: Labels
    support: Support
    n_groups: int = 2

    @classmethod
    def of(cls, x: Data, y: Data) -> PooledRows:
        """Pool two recordings; equal labels are the same state."""
        one, other = (_counts(data) for data in (x, y))
        pooled = one.merge(other)
        support = pooled.chain(check=False).support
        return cls(pooled, _on_support(one, support, pooled), _on_support(pooled, support, pooled), support)

    @property
    def shares(self) -> Floats:
        """Each group's share of the transitions."""
        share = self.observed.sum() / max(int(self.total.sum()), 1)
        return np.array([share, 1.0 - share])

    def shuffled(self, seed: int, index: int) -> Labels:
        """Permutation number `index`: as many transitions from each state as observed, drawn without replacement."""
        rng = np.random.default_rng([seed, index])
        if self.pooled.discount is not None:  # the samples are independent, whichever state they leave
            drawn: Labels = rng.multivariate_hypergeometric(self.total, int(self.observed.sum()), method="marginals")
        else:
            sizes: Labels = self.support.row_sums(self.observed)
            drawn = split_rows(self.total, self.support.indptr, sizes[None, :], rng)[0]
        return drawn

    def permuted(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """Probabilities of both groups in `n` permutations, for episodes: two arrays of shape (n, n_entries)."""
        support = self.support
        sizes = np.broadcast_to(support.row_sums(self.observed), (n, len(support.indptr) - 1))
        first = split_rows(self.total, support.indptr, sizes, rng)
        return self.shares_of(first), self.shares_of(self.total - first)

    def shares_of(self, counts: Labels) -> Floats:
        """Counts of many groups divided by their row sums; rows without counts are those of the pooled chain."""
        support = self.support
        totals = np.add.reduceat(counts, support.indptr[:-1], axis=1)[:, support.rows]
        shares: Floats = np.where(totals > 0, counts / np.maximum(totals, 1), support.probabilities)
        return shares

    def counts(self, grouping: Labels) -> Floats:
        """Counts of each group for each entry of the support, initial row last, shape (2, n_entries)."""
        return np.stack([grouping, self.total - grouping]).astype(np.float64)

    def kernels(self, grouping: Labels) -> list[Support]:
        """The chain of each group; rows that a group never leaves are those of the pooled chain."""
        if self.pooled.discount is not None:
            return [on_entries(self.support, self._part(g).chain(check=False)) for g in self.counts(grouping)]
        return [kernel_of(self.support, g, stationary=self.pooled.stationary) for g in self.counts(grouping)]

    def _part(self, counts: Floats) -> Counts:
        seen, support = self.pooled.pair_counts, self.support
        values = counts[support.locate(seen.rows, seen.columns)].astype(np.int64)
        return replace(self.pooled, pair_counts=seen.with_values(values))


AnyPool = PooledEpisodes | PooledRows


def pool_of_two(x: Data, y: Data) -> AnyPool:
    """Whole episodes if both recordings have them, else single transitions."""
    return PooledEpisodes.of([x, y]) if isinstance(x, Samples) and isinstance(y, Samples) else PooledRows.of(x, y)


def kernel_of(support: Support, counts: Floats, *, stationary: bool) -> Support:
    """Counts divided by row sums; rows without counts keep the probabilities of `support`."""
    totals = support.row_sums(counts)[support.rows]
    shares = np.where(totals > 0, counts / np.maximum(totals, 1.0), support.probabilities)
    kernel = Support(support.indptr, support.indices, shares)
    return with_long_run_start(kernel) if stationary else kernel


def _starting_where_visited(support: Support, pooled: Samples) -> Support:
    """The same chain with the visits of all states as its initial distribution."""
    begin, visits = int(support.indptr[-2]), np.bincount(pooled.now, minlength=pooled.n_states)
    seen = np.flatnonzero(visits)
    return Support(
        np.append(support.indptr[:-1], begin + len(seen)),
        np.append(support.indices[:begin], seen.astype(np.int32)),
        np.append(support.probabilities[:begin], visits[seen] / visits.sum()),
    )


def _counts(data: Data) -> Counts:
    return (data.counted if isinstance(data, Samples) else data).closed()


def _on_support(part: Counts, support: Support, pooled: Counts) -> Labels:
    """Counts of a part for every entry of the pooled support."""
    index = {label: i for i, label in enumerate(pooled.states)}
    places = np.array([index[label] for label in part.states], dtype=np.int64)
    counts = np.zeros(len(support.indices), dtype=np.int64)
    seen: PairCounts = part.pair_counts
    counts[support.locate(places[seen.rows], places[seen.columns])] = seen.values
    if not pooled.starts_known and pooled.discount is None:
        starts = np.zeros(pooled.n_states, dtype=np.int64)
        starts[places] = part.start_counts
        begin = int(support.indptr[-2])
        counts[begin:] = starts[support.indices[begin:]]
    return counts


def check_recordings(recordings: Sequence[Any], name: Callable[[int], str]) -> None:
    """Refuse recordings that cannot be permuted; `name` returns the user's name of recording i."""
    for i, data in enumerate(recordings):
        if isinstance(data, MarkovChain):
            raise TypeError(
                f"{name(i)}: found a MarkovChain, which is known and needs no test; somcot.distance compares it "
                "exactly, and chain.sample(...) records it"
            )
        if isinstance(data, Counts):
            raise TypeError(
                f"{name(i)}: found Counts, which do not keep episodes; whole episodes are permuted, so pass the Samples"
            )
        if not isinstance(data, Samples):
            raise TypeError(f"{name(i)}: found {type(data).__name__}, expected Samples{how_to_wrap(data)}")
    first = recordings[0]
    for i, data in enumerate(recordings[1:], 1):
        if data.discount != first.discount:
            kinds = [_kind(d) for d in (first, data)]
            raise ValueError(
                f"{name(i)}: holds {kinds[1]}, {name(0)} holds {kinds[0]}; only recordings of the same kind can be "
                "permuted"
            )
        if known_starts_differ(first, data):
            raise ValueError(
                f"{name(i)}: its known initial distribution differs from that of {name(0)}, so the two are different "
                "processes regardless of the data; leave out initial= on both sides to test the recordings alone"
            )


def _kind(samples: Samples) -> str:
    if samples.discount is None:
        return "episodes"
    return f"independent samples of the occupancy at discount {samples.discount:g}"


def known_starts_differ(x: Data, y: Data) -> bool:
    """Whether both initial distributions are known and differ: then episodes cannot be permuted between the two."""
    if x.initial is None or y.initial is None:
        return False
    laws = [dict(zip(samples.states, initial, strict=True)) for samples, initial in ((x, x.initial), (y, y.initial))]
    return any(abs(laws[0].get(state, 0.0) - laws[1].get(state, 0.0)) > 1e-12 for state in {*x.states, *y.states})
