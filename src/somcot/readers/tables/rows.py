"""Rows sorted by sequence and time, split into sequences with their ends, and converted to `Samples`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.checks import check_text
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.plumbing.text import check_duration, listing
from somcot.readers.episodes import join
from somcot.readers.tables import Array, Batch, Table
from somcot.readers.tables.columns import USUAL, ColumnRoles, LabelColumn, RunColumn, folded
from somcot.readers.tables.numbers_and_times import FlagColumn, NumberColumn
from somcot.readers.tables.state_labels import Bins, fit_edges, join_rare, note_spellings, tidy_labels
from somcot.readers.xes import CASE
from somcot.recorded.counts import Start
from somcot.recorded.recording import EventTimes, check_end, insert_after
from somcot.samples import Samples

__all__ = [
    "BinSpec",
    "Columns",
    "Order",
    "TableOptions",
    "check_gap",
    "finite",
    "gap_in_column",
    "note_one_sequence",
]


# --- Rows of a table collected by column

BinSpec = int | ArrayLike
# Columns that describe or number rows, so that they cannot be what identifies sequences.
_OF_ROWS = {"", "reward", "terminated", "truncated", "done", "index", "row"}


class Columns:
    """The collected columns of the rows read so far."""

    def __init__(self, table: Table, roles: ColumnRoles, bins: Mapping[str, BinSpec]) -> None:
        self.source, self.roles, self.bins = table.name, roles, bins
        self.others = note_one_sequence(table, roles)
        self.is_text, self.place = table.is_text, table.place
        self.state: dict[str, LabelColumn | NumberColumn] = {
            name: self._numbers(name) if name in bins else self._labels(name) for name in roles.state
        }
        self.n_rows = 0
        self.sequence = (
            None
            if roles.sequence is None
            else RunColumn(table.name, roles.sequence, is_text=table.is_text, place=table.place)
        )
        # Attributes are not states, so measurements are allowed.
        self.more = {name: LabelColumn(table.name, name, is_text=table.is_text, is_state=False) for name in roles.more}
        self.time = None if roles.time is None else self._numbers(roles.time, times=True)
        self.reward = None if roles.reward is None else self._numbers(roles.reward)
        self.terminated = (
            None if roles.terminated is None else FlagColumn(table.name, roles.terminated, place=self.place)
        )

    def _labels(self, name: str) -> LabelColumn:
        return LabelColumn(self.source, name, is_text=self.is_text)

    def _numbers(self, name: str, *, times: bool = False) -> NumberColumn:
        return NumberColumn(
            self.source, name, times=times, place=self.place, time_format=self.roles.time_format if times else None
        )

    def add(self, batch: Mapping[str, Batch]) -> None:
        """Add one batch of rows."""
        for name, column in (*self.state.items(), *self.more.items()):
            column.add(batch[name])
        for other in (self.sequence, self.time, self.reward, self.terminated):
            if other is not None:
                other.add(batch[other.name])
        self.n_rows += len(next(iter(batch.values())))

    def states(self, binning: str) -> tuple[Array, tuple[Hashable, ...]]:
        """Codes of the states, -1 if missing, and their labels."""
        parts = [self._one(name, column, binning) for name, column in self.state.items()]
        codes, labels = parts[0]
        if not len(codes):
            raise ValueError(f"{self.source}: no rows; check how the table was written")
        if len(parts) == 1:
            return codes, tuple(labels)
        combined, cells = _combine([part[0] for part in parts], [len(part[1]) for part in parts])
        return combined, tuple(tuple(parts[k][1][i] for k, i in enumerate(cell)) for cell in cells)

    def _one(self, name: str, column: LabelColumn | NumberColumn, binning: str) -> tuple[Array, list[Hashable]]:
        if isinstance(column, LabelColumn):
            return column.finish()
        values, spec = column.floats(), self.bins[name]
        known = ~np.isnan(values)
        # Infinity is refused, while NaN is a missing state.
        finite(self.source, name, values[known])
        edges = fit_edges(values[known], spec, binning) if np.ndim(spec) == 0 else spec  # type: ignore[arg-type]
        grid = Bins(edges)
        # Only visited bins become states: a grid of several columns is mostly empty.
        seen, places = np.unique(grid.codes(values[known]), return_inverse=True)
        codes = np.full(len(values), -1, dtype=np.int64)
        codes[known] = places
        return codes, list(grid.labels_of(seen))


def note_one_sequence(table: Table, roles: ColumnRoles) -> str:
    """Columns that could identify sequences, for messages; a note if there are any and none does."""
    # Formats that know their columns need no guess.
    if table.defaults or roles.sequence == CASE:
        return ""
    usual = {*_OF_ROWS, *map(folded, (*USUAL["state"], *USUAL["time"]))}
    left = [name for name in table.columns if name not in roles.wanted and folded(name) not in usual]
    # Not the index of a frame that was written with it, nor columns whose parts are used.
    used = [name.partition(mark)[0] for name in roles.wanted for mark in ".["]
    left = [name for name in left if name not in used and not name.startswith("Unnamed: ")]
    listed = listing([name[:40] for name in left], 12)
    if left and roles.sequence is None:
        warn(Note("one-sequence", table.name, columns=listed), DataWarning)
    return listed


def _combine(columns: list[Array], sizes: list[int]) -> tuple[Array, list[tuple[int, ...]]]:
    """One code per row for several columns, in lexicographic order of the columns' codes."""
    absent = np.any([column < 0 for column in columns], axis=0)
    if absent.all():  # a column without any value has no codes
        return np.full(len(absent), -1), []
    key = np.zeros(len(absent), dtype=np.int64)
    cells: list[tuple[int, ...]] = [()]
    for column, size in zip(columns, sizes, strict=True):
        # Ranked after each column, so that products of sizes cannot overflow.
        cell_codes, key = np.unique(np.where(absent, 0, key * size + column), return_inverse=True)
        cells = [(*cells[value // size], int(value % size)) for value in cell_codes.tolist()]
    seen = np.zeros(len(cells), dtype=np.bool_)
    seen[key[~absent]] = True
    place = np.cumsum(seen) - 1
    return np.where(absent, -1, place[key]), [cell for cell, kept in zip(cells, seen, strict=True) if kept]


def finite(source: str, name: str, values: Floats) -> Floats:
    """Remove NaN, refuse infinity."""
    bad = np.isinf(values)
    if bad.any():
        raise ValueError(
            f"{source}: column {name!r} holds {values[bad][0]}, which fits in no bin; remove or replace it"
        )
    return values[~np.isnan(values)]


# --- The gap that ends a sequence, and the units of times


def check_gap(gap: str | float | timedelta | None) -> float | timedelta | None:
    """A number or a time span; anything else is refused.

    Examples
    --------
    >>> check_gap("30m"), check_gap(7)
    (datetime.timedelta(seconds=1800), 7.0)
    """
    return None if gap is None else check_duration("gap", gap)


def gap_in_column(gap: float | timedelta, source: str, column: NumberColumn | None) -> float:
    """The gap in the units of a column of times: microseconds, or unchanged if the column holds numbers."""
    if column is None:
        raise ValueError(Note("gap-without-times", source))
    if isinstance(gap, timedelta):
        if not column.holds_times:
            raise ValueError(
                f"{source}: column {column.name!r} holds numbers, but gap is a time span; pass it as a number in "
                f"their unit, such as {gap.total_seconds():g} where they are seconds"
            )
        return gap / timedelta(microseconds=1)
    if column.holds_times:
        raise ValueError(
            f"{source}: column {column.name!r} holds times, but gap is the number {gap:g}; pass it with a unit: "
            f"{gap:g}s, {gap:g}m, {gap:g}h or {gap:g}d"
        )
    return gap


# --- From sorted rows to `Samples`


@dataclass(frozen=True)
class TableOptions:
    """How to process the rows after reading; the names are those of `from_table`."""

    terminated: bool | str = False
    end: Hashable = None
    gap: str | float | timedelta | None = None
    missing: str = "error"
    tidy: bool = False
    top: int | None = None
    other: Hashable = "other"
    initial: Start = None
    keep_times: bool = False

    def __post_init__(self) -> None:
        check_text("missing", self.missing, "error", "cut")
        if not isinstance(self.terminated, (bool, np.bool_, str)):
            raise TypeError(f"terminated: found {self.terminated!r}, expected True, False or the name of a column")
        # Checked now: the rows may take minutes to read.
        check_gap(self.gap)

    def samples(self, columns: Columns, binning: str = "quantile") -> Samples:
        """The rows as sequences, with all options applied."""
        return self.grouped(columns, None, binning)[0]

    def grouped(
        self,
        columns: Columns,
        group: Array | None,
        binning: str = "quantile",
        *,
        track: bool = False,
        order: Order | None = None,
    ) -> tuple[Samples, Order]:
        """The rows as sequences, split where the group of a row changes; the order has the rows of each."""
        if self.end is not None and self.gap is None and columns.roles.sequence is None and columns.others:
            # One final state after all rows: a cycle through every sequence, whose distance would mean nothing.
            raise ValueError(
                f"end: {columns.source} has no column that is known to identify sequences, so all rows would be one, "
                f"which ends once; name the column of sequences, one of {columns.others}"
            )
        codes, states = columns.states(binning)
        order = order or Order(columns)
        samples = order.samples(codes, states, self, cut=group, track=track or bool(columns.more))
        # After `samples`, which finds the first row of each episode.
        if columns.more:
            samples = replace(samples, episode_attributes=order.attributes())
        # Before rare states are counted: a state with two spellings would be counted as two.
        if self.tidy:
            (samples,) = tidy_labels([samples])
        else:
            note_spellings(columns.source, samples.states)
        if self.top is not None:
            (samples,) = join_rare([samples], self.top, other=self.other)
        return samples.with_start(self.initial), order


class Order:
    """Rows sorted by sequence and time, with the beginning of each sequence.

    Attributes
    ----------
    first_rows : ndarray of int
        After `samples` with `track`: for each episode, its first row in the order of the file.
    n_cut : int
        After `samples` with `cut`: the number of places where a sequence was split.
    """

    def __init__(self, columns: Columns) -> None:
        self.source, self.columns, self.n = columns.source, columns, columns.n_rows
        self.rows: Array | None = None  # the permutation that sorts the rows; None if they are in order
        self.begins = np.zeros(self.n, dtype=np.bool_)
        self.begins[:1] = True
        if columns.sequence is not None:
            self._arrange(*columns.sequence.finish())
            if columns.others and self.n > 1 and not self.begins[1:].any():
                about = {"column": columns.roles.sequence, "columns": columns.others}
                warn(Note("constant-sequence", self.source, **about), DataWarning)
        self.tied = np.zeros(0, np.int64)  # rows at the same time as the preceding one
        if columns.time is not None:
            self._sort_times()
        self.first_rows, self.n_cut = np.zeros(0, np.int64), 0
        self.rewarded: tuple[Array, Floats, Ints | None] | None = None

    def _arrange(self, names: Ints, begins: Ints) -> None:
        """Bring the runs of each sequence together, in the order of the names."""
        # Names in ascending order: the rows are grouped already.
        if (names[1:] > names[:-1]).all():
            self.begins[begins] = True
            return
        kind = np.int32 if self.n < 2**31 else np.int64  # half the memory, of which this takes the most
        begins = begins.astype(kind, copy=False)
        order: Array = np.argsort(names, kind="stable").astype(kind)
        lengths: Array = np.diff(begins, append=kind(self.n))[order]
        new: Array = np.cumsum(lengths, dtype=kind) - lengths
        names = names[order]
        self.begins[new[np.append(True, names[1:] != names[:-1])]] = True
        shifts = begins[order] - new
        # Freed before the largest array is made.
        del begins, order, new, names
        self.rows = np.repeat(shifts, lengths)
        self.rows += np.arange(self.n, dtype=kind)

    def _sort_times(self) -> None:
        """Sort the rows of each sequence by time; disorder is reported."""
        n_back, self.tied = self._compared()
        if n_back:
            warn(Note("rows-sorted", self.source, n=n_back), DataWarning)
            # By sequence, then by time; a stable sort keeps ties in file order.
            order = np.lexsort((self._moments(), np.cumsum(self.begins)))
            self.rows = order if self.rows is None else self.rows[order]
            _, self.tied = self._compared()

    def _compared(self) -> tuple[int, Ints]:
        """How many rows are earlier than the preceding row of their sequence, and which are at the same time."""
        assert self.columns.time is not None
        # In order, times can be compared piece by piece, without a copy of the column.
        pieces = self.columns.time.pieces() if self.rows is None else iter([self._moments()])
        k, last, n_back = 0, np.zeros(0), 0
        tied: list[Ints] = []
        for piece in pieces:
            # The last time of a piece is compared with the first of the next.
            both = np.concatenate([last, piece]) if k else piece
            end = k + len(piece)
            begin = end - len(both) + 1
            inside = ~self.begins[begin:end]
            n_back += int(np.count_nonzero((both[1:] < both[:-1]) & inside))
            tied.append(np.flatnonzero((both[1:] == both[:-1]) & inside) + begin)
            k, last = end, both[-1:]
        return n_back, np.concatenate(tied) if tied else np.zeros(0, np.int64)

    def _moments(self) -> Array:
        assert self.columns.time is not None
        return self._ordered(np.concatenate([*self.columns.time.pieces()]))

    def _ordered(self, values: Array) -> Array:
        return values if self.rows is None else values[self.rows]

    def _report_ties(self, ordered: Array) -> None:
        """Rows at the same time; those that also have the same state are probably duplicates."""
        n = len(self.tied)
        if not n:
            return
        twice = int(np.count_nonzero(ordered[self.tied] == ordered[self.tied - 1]))
        note = Note("equal-times-copies", self.source, n=n, copies=twice) if twice else None
        warn(note or Note("equal-times", self.source, n=n), DataWarning)

    def samples(
        self,
        codes: Array,
        states: tuple[Hashable, ...],
        options: TableOptions,
        *,
        cut: Array | None = None,
        track: bool = False,
    ) -> Samples:
        """Split the rows into sequences and convert them to Samples.

        Parameters
        ----------
        codes : ndarray of int
            State of each row in the order of the file, -1 if missing.
        states : tuple of hashable
        options : TableOptions
        cut : ndarray of int, optional
            Sequences are split where this changes; the parts before a split do not terminate.
        track : bool
            Whether to set `first_rows`.
        """
        holes = bool(codes.min() < 0)
        if holes and options.missing == "error":
            absent = codes < 0
            place, states_ = self.columns.place(int(absent.argmax()) + 1), " / ".join(self.columns.roles.state)
            raise ValueError(Note("row-without-state", self.source, place=place, state=states_, n=int(absent.sum())))
        codes = self._ordered(codes)
        self._report_ties(codes)
        flags = None if self.columns.terminated is None else self._ordered(self.columns.terminated.finish()) > 0
        begins = self._split(check_gap(options.gap))
        kept = self._moments_or_rows() if options.keep_times else None
        if self.columns.time is not None:
            # The column of times is not needed any more, and is large.
            self.columns.time.release()
        if flags is not None:
            flags = self._ends(flags)
            # A row after a terminated one begins a new sequence.
            begins = begins | np.append(False, flags[:-1])
        # A sequence terminates with its last row, unless a column says otherwise.
        ended = np.broadcast_to(np.False_, self.n)
        if flags is not None or options.terminated or options.end is not None:
            ended = np.append(begins[1:], True)
            ended &= True if flags is None else flags
        if cut is not None:
            group = self._ordered(cut)
            changed = np.append(False, group[1:] != group[:-1]) & ~begins
            self.n_cut = int(np.count_nonzero(changed))
            begins = begins | changed
        rewards = None if self.columns.reward is None else self._ordered(self.columns.reward.floats())
        numbers = (np.arange(self.n) if self.rows is None else self.rows) if track or cut is not None else None
        rows = _OrderedRows(codes, begins, ended, rewards, numbers, kept)
        if holes:
            rows = self._without_missing(rows)
        if options.end is not None:
            check_end(options.end, states)
            rows, states = rows.with_end(len(states)), (*states, options.end)
        if rows.rewards is not None:
            self.rewarded = rows.codes, rows.rewards, rows.numbers
        kind = np.int32 if len(rows.codes) < 2**31 else np.int64
        starts = np.flatnonzero(rows.begins).astype(kind)
        if rows.numbers is not None:
            # Sequences of a single row have no step and do not become episodes.
            self.first_rows = rows.numbers[starts[np.diff(starts, append=kind(len(rows.codes))) >= 2]]
        ends = rows.ended[np.append(starts[1:], kind(len(rows.codes))) - 1] if rows.ended.any() else False
        codes, rewards = rows.codes, rows.rewards
        times = None if rows.moments is None else EventTimes(rows.moments, self._kind_of_times())
        del rows, begins, ended
        named = self.columns.roles.sequence
        return join(
            codes, starts, states, terminated=ends, rewards=rewards, times=times, source=self.source, sequence=named
        )

    def _ends(self, flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which rows terminate: those with a true flag, or only the last ones if it is constant in every sequence."""
        if self.columns.sequence is None:
            return flags  # nothing but the flags says where sequences end
        last: NDArray[np.bool_] = np.append(self.begins[1:], True)
        n = int(np.count_nonzero(flags & ~last))
        if not n:
            return flags
        # Cutting at a constant flag would leave no step of any sequence that terminated.
        constant = not ((flags[1:] != flags[:-1]) & ~self.begins[1:]).any()
        about: dict[str, Any] = {"n": n, "column": self.columns.roles.terminated}
        if not constant:
            warn(Note("flags-inside", self.source, **about), DataWarning)
            return flags
        warn(Note("flags-constant", self.source, **about), DataWarning)
        return flags & last

    def _without_missing(self, rows: _OrderedRows) -> _OrderedRows:
        """Remove rows without a state, and report how many, and at how many places they split a sequence."""
        kept = rows.without_missing()
        # Of a sequence without any state nothing is left to split.
        left = np.unique(np.cumsum(rows.begins)[rows.codes >= 0])
        cuts = int(np.count_nonzero(kept.begins)) - len(left)
        n, state = len(rows.codes) - len(kept.codes), " / ".join(self.columns.roles.state)
        warn(Note("rows-removed", self.source, n=n, state=state, cuts=cuts), DataWarning)
        return kept

    def _moments_or_rows(self) -> Floats:
        """The time of each row in order, or its number if the table has no times."""
        values = np.arange(self.n) if self.columns.time is None else self._moments()
        moments: Floats = (self._ordered(values) if self.columns.time is None else values).astype(np.float64)
        return moments

    def _kind_of_times(self) -> str:
        column = self.columns.time
        return "rows" if column is None else "dates" if column.holds_times else "numbers"

    def attributes(self) -> dict[str, Array]:
        """After `samples` with `track`: the attributes of each episode, from its first row; they must be constant."""
        values: dict[str, Array] = {}
        for name, column in self.columns.more.items():
            codes, labels = column.finish()
            codes = self.filled(codes)
            ordered = self._ordered(codes)
            changed = np.append(False, ordered[1:] != ordered[:-1]) & ~self.begins
            if changed.any():
                row = int(changed.argmax())
                place = self.columns.place(1 + (row if self.rows is None else int(self.rows[row])))
                raise ValueError(
                    f"{self.source}: {place}: column {name!r} changes within a sequence, so it is no attribute of it; "
                    "name another column, or split sequences where it changes"
                )
            # A missing attribute has code -1, which picks the appended None.
            values[name] = np.array([*labels, None], dtype=object)[codes[self.first_rows]]
        return values

    def filled(self, codes: Array) -> Array:
        """Codes of all rows, where a missing one is that of the other rows of the sequence if these agree.

        Event logs often record what describes a case with one of its events only.
        """
        if self.columns.sequence is None or not len(codes) or codes.min() >= 0:
            return codes
        ordered, begins = self._ordered(codes), np.flatnonzero(self.begins)
        highest = np.maximum.reduceat(ordered, begins)
        lowest = np.minimum.reduceat(np.where(ordered < 0, ordered.max() + 1, ordered), begins)
        # A sequence without any entry has -1 as its highest code.
        of_row = np.where(lowest == highest, highest, -1)[np.cumsum(self.begins) - 1]
        full = np.where(ordered < 0, of_row, ordered)
        if self.rows is None:
            return full
        in_file = np.empty_like(full)
        in_file[self.rows] = full
        return in_file

    def _split(self, gap: float | timedelta | None) -> NDArray[np.bool_]:
        """Which rows begin a sequence: the first of each, and those after a gap."""
        begins = self.begins
        if gap is not None:
            longest = gap_in_column(gap, self.source, self.columns.time)
            moments = self._moments()
            pauses = moments[1:] - moments[:-1]
            # Rows are sorted within a sequence, so no difference is negative, only too large for its type.
            long = (pauses.view(np.uint64) if pauses.dtype.kind == "i" else pauses) > longest
            begins = begins | np.append(False, long)
        return begins


@dataclass(frozen=True)
class _OrderedRows:
    """Rows in order: states, beginnings, terminations, rewards, numbers in the order of the file, and times."""

    codes: Array
    begins: NDArray[np.bool_]
    ended: NDArray[np.bool_]
    rewards: Floats | None
    numbers: Ints | None
    moments: Floats | None = None

    def without_missing(self) -> _OrderedRows:
        """Remove rows without a state; the row after a removed one begins a sequence."""
        known = self.codes >= 0
        begins = self.begins.copy()
        begins[1:] |= ~known[:-1]
        if not known.any():
            raise ValueError("missing: no row has a state, so no rows remain")
        parts: Any = (None if a is None else a[known] for a in (self.rewards, self.numbers, self.moments))
        rewards, numbers, moments = parts
        return _OrderedRows(self.codes[known], begins[known], self.ended[known], rewards, numbers, moments)

    def with_end(self, code: int) -> _OrderedRows:
        """Add a last row with this state wherever the process terminated."""
        where = np.flatnonzero(self.ended)
        ended = insert_after(np.zeros_like(self.ended), where, True)
        # The end has no reward of its own.
        rewards = None if self.rewards is None else insert_after(self.rewards, where, np.nan)
        parts: Any = (None if a is None else np.insert(a, where + 1, a[where]) for a in (self.numbers, self.moments))
        numbers, moments = parts
        return _OrderedRows(
            insert_after(self.codes, where, code),
            insert_after(self.begins, where, False),
            ended,
            rewards,
            numbers,
            moments,
        )
