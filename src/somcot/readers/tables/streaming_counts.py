"""One pass over the rows of a block: count the step into each row, and keep the current state of every sequence.

Sequences named by integers in a narrow range have a slot each, for all blocks of a file
(`Numbered`). Others are looked up block by block, and the blocks are joined by name (`Named`). Rows of a sequence
that are out of order are sorted within their block.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel
from somcot.plumbing.arrays import Codes, Floats, Ints
from somcot.readers.tables import Array, ArrowTable, Batch, to_numpy
from somcot.readers.tables.columns import is_arrow
from somcot.recorded.pair_counts import PairCounts, SequenceEnds, count_pairs, from_table

__all__ = [
    "BackInTimeError",
    "Named",
    "Numbered",
    "RowBlock",
    "by_name",
    "by_number",
    "sequence_column",
    "warm_up",
    "whole_numbers",
]  # fmt: skip

_FEW = 256  # number of states up to which pairs are counted in a table
_SPAN = 8_000_000  # maximum number of slots for the sequences of one file, at 32 bytes each


class RowBlock(NamedTuple):
    """Some rows of a file: states, times if any, and the number of states known so far."""

    states: Codes
    times: Floats | None
    n_states: int

    def sorted(self) -> tuple[RowBlock, NDArray[np.intp]]:
        """Sorted by time, ties in file order; also the permutation."""
        assert self.times is not None
        # Stable, so that events at the same time stay in file order.
        order = np.argsort(self.times, kind="stable")
        return RowBlock(self.states[order], self.times[order], self.n_states), order


class _SequencePlaces(NamedTuple):
    """The state of sequences: first and last state (-1: none yet), rows, and the times of both."""

    first: Codes
    last: Codes
    rows: Ints
    begin: Floats
    finish: Floats

    @classmethod
    def new(cls, n: int, *, timed: bool) -> _SequencePlaces:
        none = np.full(n, -1, np.int32)
        # Untimed files need no arrays of times.
        m = n if timed else 0
        return cls(none, none.copy(), np.zeros(n, np.int64), np.zeros(m), np.zeros(m))

    def copied(self, where: slice) -> _SequencePlaces:
        """A copy of some of them, to restore later."""
        return _SequencePlaces(
            self.first[where].copy(), self.last[where].copy(), self.rows[where].copy(), self.begin[where].copy(),
            self.finish[where].copy(),
        )  # fmt: skip

    def put(self, where: slice, old: _SequencePlaces) -> None:
        """Restore others there."""
        for name in self._fields:
            getattr(self, name)[where] = getattr(old, name)

    def edges(self, ids: Array, seen: slice | Ints, *, ended: bool, timed: bool) -> SequenceEnds:
        """As the ends of named sequences."""
        times = (self.begin[seen], self.finish[seen]) if timed else (None, None)
        return SequenceEnds(ids, self.first[seen], self.last[seen], self.rows[seen], np.full(len(ids), ended), *times)


class BackInTimeError(ValueError):
    """A row is earlier than a previous row of its sequence before the block."""


def _passed(block: RowBlock, ids: Ints, low: int, places: _SequencePlaces) -> PairCounts | int:
    """Pass over the rows; return the pair counts, or the row at which a sequence goes back in time."""
    # A table of pairs fits into the cache for few states; otherwise pairs are collected and sorted once.
    n, few = block.n_states, block.n_states <= _FEW
    table = np.zeros(n * n if few else 0, np.int64)
    before = np.empty(0 if few else len(ids), np.int32)
    times = np.empty(0) if block.times is None else block.times
    stopped = int(_walk(ids, low, block.states, times, n, table, before, places))
    if stopped < len(ids):
        return stopped
    if few:
        return from_table(table, n)
    taken = before >= 0
    return count_pairs(before[taken], block.states[taken], n)


@kernel
def _walk(ids, low, states, times, n, table, before, places):
    """All rows in turn; returns the number of rows, or the first that is earlier than its predecessor."""
    timed, few = times.size > 0, table.size > 0
    first, last, rows, begin, finish = places
    for i in range(ids.size):
        # Slots begin at the smallest number in use.
        s = ids[i] - low
        now, state = last[s], states[i]
        if now < 0:
            first[s] = state
            if timed:
                begin[s] = times[i]
        else:
            # The caller sorts the block and tries again.
            if timed and times[i] < finish[s]:
                return i
            if few:
                table[np.int64(now) * n + state] += 1
        if timed:
            finish[s] = times[i]
        if not few:
            before[i] = now
        last[s] = state
        rows[s] += 1
    return ids.size


@dataclass
class Numbered:
    """Sequences of one file named by integers in a narrow range."""

    timed: bool
    low: int = 0
    places: _SequencePlaces = field(default_factory=lambda: _SequencePlaces.new(0, timed=False))

    def fits(self, ids: Ints) -> bool:
        """Whether there is room for all of them; allocates it if so."""
        low, high = int(ids.min()), int(ids.max()) + 1
        have = len(self.places.rows)
        if have:
            low, high = min(low, self.low), max(high, self.low + have)
        # A wide range of numbers is treated as names.
        if high - low > _SPAN:
            return False
        if high - low > have or not have:
            self._grow(low, high)
        return True

    def _grow(self, low: int, high: int) -> None:
        """Allocate twice the room needed above, so that increasing numbers do not reallocate every time."""
        have = len(self.places.rows)
        room = min(2 * (high - low), _SPAN) if have else high - low
        new, shift = _SequencePlaces.new(room, timed=self.timed), self.low - low
        if have:
            new.put(slice(shift, shift + have), self.places)
        self.low, self.places = low, new

    def add(self, block: RowBlock, ids: Ints) -> list[PairCounts]:
        """Continue with a block."""
        kept, where = None, slice(int(ids.min()) - self.low, int(ids.max()) + 1 - self.low)
        # Only a block that is out of order may have to be undone.
        if block.times is not None and (block.times[1:] < block.times[:-1]).any():
            kept = self.places.copied(where)
        passed = _passed(block, ids, self.low, self.places)
        if isinstance(passed, int) and kept is not None:
            self.places.put(where, kept)
            block, order = block.sorted()
            ids = ids[order]
            passed = _passed(block, ids, self.low, self.places)
        # Sorting a block does not help if it begins before the previous one ended.
        if isinstance(passed, int):
            assert block.times is not None
            s = int(ids[passed])
            before, after = self.places.finish[s - self.low], block.times[passed]
            raise BackInTimeError(f"sequence {s!r} goes back in time there, from {before} to {after}")
        return [passed]

    def edges(self, *, ended: bool) -> SequenceEnds:
        """The ends of all sequences, by number."""
        seen = np.flatnonzero(self.places.rows)
        return self.places.edges(seen + self.low, seen, ended=ended, timed=self.timed)


@dataclass
class Named:
    """Sequences of one file with any names, block by block."""

    timed: bool
    ended: bool
    known: SequenceEnds | None = None

    def add(self, block: RowBlock, names: Array, codes: Ints) -> list[PairCounts]:
        """Continue with a block, whose rows belong to ``names[codes]``; names are sorted."""
        places = _SequencePlaces.new(len(names), timed=self.timed)
        passed = _passed(block, codes, 0, places)
        if isinstance(passed, int):
            block, order = block.sorted()
            places = _SequencePlaces.new(len(names), timed=self.timed)
            passed = _passed(block, codes[order], 0, places)
            # A sorted block cannot go back in time within itself; `join` compares it with earlier ones.
            assert not isinstance(passed, int)
        return [
            passed,
            *self.join(places.edges(names, slice(None), ended=self.ended, timed=self.timed), block.n_states),
        ]

    def join(self, later: SequenceEnds, n: int) -> list[PairCounts]:
        """Append later sequences to the known ones; return the steps across the border."""
        if self.known is None:
            self.known = later
            return []
        try:
            self.known, now, following = self.known.then(later)
        except ValueError as error:
            raise BackInTimeError(str(error).removeprefix("other: ").partition("; merge")[0]) from None
        return [count_pairs(now, following, n)]


def sequence_column(source: str, name: str, parts: list[Batch]) -> ArrowTable:
    """The names of the sequences of a block, as an Arrow array."""
    import pyarrow as pa

    column = pa.chunked_array([part if is_arrow(part) else pa.array(part) for part in parts])
    if column.null_count:
        raise ValueError(f"{source}: column {name!r} has {column.null_count} rows without a sequence; fill them in")
    return column


def whole_numbers(column: ArrowTable) -> Ints | None:
    """Names that are integers; None for others."""
    import pyarrow as pa

    if not pa.types.is_integer(column.type):
        return None
    numbers: Ints = to_numpy(column.chunk(0) if column.num_chunks == 1 else column)
    return numbers.astype(np.int64, copy=False)


def by_number(ids: Ints) -> tuple[Ints, Ints]:
    """Distinct numbers, sorted, and the index of each row's number."""
    names, codes = np.unique(ids, return_inverse=True)
    return names, codes.astype(np.int64)


def by_name(column: ArrowTable) -> tuple[Array, Ints]:
    """Distinct names as text, sorted, and the index of each row's name."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        # Chunks may have different dictionaries, in which equal codes mean different names.
        column = column.unify_dictionaries()
        column = column.cast(column.type.value_type)
    coded = pa.concat_arrays(column.dictionary_encode().unify_dictionaries().chunks)
    labels = np.array([str(label) for label in coded.dictionary.to_pylist()])
    order = np.argsort(labels, kind="stable")
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels))
    return labels[order], rank[to_numpy(coded.indices)]


def warm_up() -> None:
    """Compile the pass over rows."""
    block = RowBlock(np.zeros(1, np.int32), np.zeros(1), 1)
    _passed(block, np.zeros(1, np.int64), 0, _SequencePlaces.new(1, timed=True))
