"""Rows sorted by sequence and time, split into sequences with their ends, and converted to `Samples`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.plumbing.text import check_duration
from somcot.readers.episodes import join
from somcot.readers.opening import Array, Batch, Table
from somcot.readers.tables.batches import is_arrow_integer
from somcot.readers.tables.columns import ColumnRoles, FlagColumn, LabelColumn, NumberColumn
from somcot.readers.tables.state_labels import Bins, fit_edges, join_rare, note_spellings, tidy_labels
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
]


# --- Rows of a table collected by column

BinSpec = int | ArrayLike


class Columns:
    """The collected columns of the rows read so far."""

    def __init__(self, table: Table, roles: ColumnRoles, bins: Mapping[str, BinSpec]) -> None:
        self.source, self.roles, self.bins = table.name, roles, bins
        self.is_text, self.place = table.is_text, table.place
        self.state: dict[str, LabelColumn | NumberColumn] = {
            name: self._numbers(name) if name in bins else self._labels(name) for name in roles.state
        }
        self.sequence: LabelColumn | NumberColumn | None = None
        self.time = None if roles.time is None else self._numbers(roles.time, times=True)
        self.reward = None if roles.reward is None else self._numbers(roles.reward)
        self.terminated = (
            None if roles.terminated is None else FlagColumn(table.name, roles.terminated, place=self.place)
        )

    def _labels(self, name: str) -> LabelColumn:
        return LabelColumn(self.source, name, is_text=self.is_text)

    def _numbers(self, name: str, *, times: bool = False) -> NumberColumn:
        return NumberColumn(self.source, name, times=times, place=self.place)

    def add(self, batch: Mapping[str, Batch]) -> None:
        """Add one batch of rows."""
        roles = self.roles
        for name, column in self.state.items():
            column.add(batch[name])
        if roles.sequence is not None:
            if self.sequence is None:
                integers = is_arrow_integer(batch[roles.sequence])
                self.sequence = self._numbers(roles.sequence) if integers else self._labels(roles.sequence)
            self.sequence.add(batch[roles.sequence])
        for numbers in (self.time, self.reward, self.terminated):
            if numbers is not None:
                numbers.add(batch[numbers.name])

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
        finite(self.source, name, values[known])
        edges = fit_edges(values[known], spec, binning) if np.ndim(spec) == 0 else spec  # type: ignore[arg-type]
        grid = Bins(edges)
        seen, places = np.unique(grid.codes(values[known]), return_inverse=True)
        codes = np.full(len(values), -1, dtype=np.int64)
        codes[known] = places
        return codes, list(grid.labels_of(seen))


def _combine(columns: list[Array], sizes: list[int]) -> tuple[Array, list[tuple[int, ...]]]:
    """One code per row for several columns, in lexicographic order of the columns' codes."""
    absent = np.any([column < 0 for column in columns], axis=0)
    if absent.all():  # a column without any value has no codes
        return np.full(len(absent), -1), []
    key = np.zeros(len(absent), dtype=np.int64)
    cells: list[tuple[int, ...]] = [()]
    for column, size in zip(columns, sizes, strict=True):
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
    keep_rows: bool = False  # the numbers of the rows in the place of their times

    def __post_init__(self) -> None:
        if self.missing not in ("error", "cut"):
            raise ValueError(f"missing: found {self.missing!r}, expected 'error' or 'cut'")
        if not isinstance(self.terminated, (bool, np.bool_, str)):
            raise TypeError(f"terminated: found {self.terminated!r}, expected True, False or the name of a column")
        check_gap(self.gap)

    def samples(self, columns: Columns, binning: str = "quantile") -> Samples:
        """The rows as sequences, with all options applied."""
        codes, states = columns.states(binning)
        samples = Order(columns).samples(codes, states, self)
        if self.tidy:
            (samples,) = tidy_labels([samples])
        else:
            note_spellings(columns.source, samples.states)
        if self.top is not None:
            (samples,) = join_rare([samples], self.top, other=self.other)
        return samples.with_start(self.initial)


class Order:
    """Rows sorted by sequence and time, with the beginning of each sequence."""

    def __init__(self, columns: Columns) -> None:
        self.source, self.columns = columns.source, columns
        self.sequence = self._sequence_codes()
        self.times = None if columns.time is None else columns.time.finish()
        self.tied: NDArray[np.bool_] | None = None
        self.rows = self._sorted()

    def _sequence_codes(self) -> Array | None:
        column = self.columns.sequence
        if column is None:
            return None
        codes = column.finish() if isinstance(column, NumberColumn) else column.finish()[0]
        missing = np.isnan(codes) if isinstance(column, NumberColumn) and codes.dtype.kind == "f" else codes < 0
        if isinstance(column, NumberColumn) and codes.dtype.kind != "f":
            return codes
        if missing.any():
            place = self.columns.place(int(missing.argmax()) + 1)
            raise ValueError(
                f"{self.source}: {place}, column {column.name!r}: the entry is missing "
                f"({int(missing.sum())} such rows); name the sequence of the row, or remove it"
            )
        return codes

    def _sorted(self) -> NDArray[np.int64] | None:
        """The permutation that sorts the rows; None if they are in order. Disorder and ties are reported."""
        sequence, times = self.sequence, self.times
        rows = None
        if sequence is not None and (sequence[1:] < sequence[:-1]).any():
            rows = np.argsort(sequence, kind="stable")
        if times is None:
            return rows
        moments = times if rows is None else times[rows]
        same = self._same(rows)
        back = same & (moments[1:] < moments[:-1])
        if back.any():
            warn(Note("rows-sorted", self.source, n=int(back.sum())), DataWarning)
            rows = np.argsort(times, kind="stable") if sequence is None else np.lexsort((times, sequence))
            moments = times[rows]
        self.tied = self._same(rows) & (moments[1:] == moments[:-1])
        return rows

    def _report_ties(self, codes: Array) -> None:
        """Rows at the same time; those that also have the same state are probably duplicates."""
        if self.tied is None or not self.tied.any():
            return
        ordered = self._ordered(codes)
        twice = int(np.count_nonzero(self.tied & (ordered[1:] == ordered[:-1])))
        n = int(self.tied.sum())
        note = Note("equal-times-copies", self.source, n=n, copies=twice) if twice else None
        warn(note or Note("equal-times", self.source, n=n), DataWarning)

    def _same(self, rows: NDArray[np.int64] | None) -> NDArray[np.bool_]:
        """Whether each row but the first belongs to the same sequence as the preceding row."""
        if self.sequence is None:
            n = 0 if self.times is None else len(self.times)
            return np.ones(max(n - 1, 0), dtype=np.bool_)
        ordered = self.sequence if rows is None else self.sequence[rows]
        same: NDArray[np.bool_] = ordered[1:] == ordered[:-1]
        return same

    def _ordered(self, values: Array) -> Array:
        return values if self.rows is None else values[self.rows]

    def samples(self, codes: Array, states: tuple[Hashable, ...], options: TableOptions) -> Samples:
        """Split the rows into sequences and convert them to Samples."""
        self._report_ties(codes)
        absent = codes < 0
        if absent.any() and options.missing == "error":
            place, states_ = self.columns.place(int(absent.argmax()) + 1), " / ".join(self.columns.roles.state)
            raise ValueError(Note("row-without-state", self.source, place=place, state=states_, n=int(absent.sum())))
        flags = None if self.columns.terminated is None else self._ordered(self.columns.terminated.finish()) > 0
        begins = self._begins(len(codes), check_gap(options.gap))
        if flags is not None:
            begins[1:] |= flags[:-1]
        is_last = np.append(begins[1:], True)
        # A sequence terminates with its last row, unless a column says otherwise.
        ended = is_last & (bool(options.terminated) or options.end is not None if flags is None else flags)
        rewards = None if self.columns.reward is None else self._ordered(self.columns.reward.floats())
        moments = None
        if options.keep_times or options.keep_rows:
            moments = self._moments(len(codes), options.keep_rows)
        rows = _OrderedRows(self._ordered(codes), begins, ended, rewards, moments)
        if absent.any():
            rows = rows.without_missing()
        if options.end is not None:
            check_end(options.end, states)
            rows, states = rows.with_end(len(states)), (*states, options.end)
        starts = np.flatnonzero(rows.begins)
        ends = rows.ended[np.append(starts[1:], len(rows.codes)) - 1]
        times = None if rows.moments is None else EventTimes(rows.moments, self._kind_of_times())
        return join(rows.codes, starts, states, terminated=ends, rewards=rows.rewards, times=times, source=self.source)

    def _moments(self, n: int, number: bool) -> Floats:
        """The time of each row in order, or its number if that is wanted or the table has no times."""
        values = np.arange(n) if number or self.times is None else np.asarray(self.times)
        moments: Floats = self._ordered(values).astype(np.float64)
        return moments

    def _kind_of_times(self) -> str:
        column = self.columns.time
        return "rows" if column is None else "dates" if column.holds_times else "numbers"

    def _begins(self, n: int, gap: float | timedelta | None) -> NDArray[np.bool_]:
        """Which rows begin a sequence: the first of each, and those after a gap."""
        begins = np.ones(n, dtype=np.bool_)
        begins[1:] = False if self.sequence is None else ~self._same(self.rows)
        if gap is not None:
            longest = gap_in_column(gap, self.source, self.columns.time)
            assert self.times is not None
            moments = self._ordered(self.times)
            pauses = moments[1:] - moments[:-1]
            # Rows are sorted within a sequence, so no difference is negative, only too large for its type.
            begins[1:] |= (pauses.view(np.uint64) if pauses.dtype.kind == "i" else pauses) > longest
        return begins


@dataclass(frozen=True)
class _OrderedRows:
    """Rows in order: states, beginnings of sequences, terminations, rewards and times."""

    codes: Array
    begins: NDArray[np.bool_]
    ended: NDArray[np.bool_]
    rewards: Floats | None
    moments: Floats | None = None

    def without_missing(self) -> _OrderedRows:
        """Remove rows without a state; the row after a removed one begins a sequence."""
        known = self.codes >= 0
        begins = self.begins.copy()
        begins[1:] |= ~known[:-1]
        if not known.any():
            raise ValueError("missing: no row has a state, so no rows remain")
        rewards, moments = (None if a is None else a[known] for a in (self.rewards, self.moments))
        return _OrderedRows(self.codes[known], begins[known], self.ended[known], rewards, moments)

    def with_end(self, code: int) -> _OrderedRows:
        """Add a last row with this state wherever the process terminated."""
        where = np.flatnonzero(self.ended)
        ended = insert_after(np.zeros_like(self.ended), where, True)
        rewards = None if self.rewards is None else insert_after(self.rewards, where, np.nan)
        moments = None if self.moments is None else insert_after(self.moments, where, self.moments[where])
        return _OrderedRows(
            insert_after(self.codes, where, code), insert_after(self.begins, where, False), ended, rewards, moments
        )
