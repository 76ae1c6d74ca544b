"""Rows of a table collected, sorted by sequence and time, cut into sequences."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import DataWarning, warn
from somcot.readers.batches import Table, is_arrow_integer
from somcot.readers.bins import Bins, fit_edges
from somcot.readers.columns import FlagColumn, LabelColumn, NumberColumn
from somcot.readers.episodes import join
from somcot.samples import Samples

__all__ = ["BinSpec", "Columns", "Order", "Roles", "finite"]

BinSpec = int | ArrayLike


@dataclass(frozen=True)
class Roles:
    """Which column plays which part."""

    state: tuple[str, ...]
    sequence: str | None
    time: str | None
    reward: str | None
    terminated: str | None

    @property
    def wanted(self) -> list[str]:
        """Every column that must be read, once."""
        others = (self.sequence, self.time, self.reward, self.terminated)
        return list(dict.fromkeys([*self.state, *(name for name in others if name is not None)]))


class Columns:
    """What is kept of the rows read so far."""

    def __init__(self, table: Table, roles: Roles, bins: Mapping[str, BinSpec]) -> None:
        self.source, self.roles, self.bins = table.name, roles, bins
        self.is_text = table.is_text
        self.state: dict[str, LabelColumn | NumberColumn] = {
            name: NumberColumn(table.name, name) if name in bins else self._labels(name) for name in roles.state
        }
        self.sequence: LabelColumn | NumberColumn | None = None
        self.time = None if roles.time is None else NumberColumn(table.name, roles.time, times=True)
        self.reward = None if roles.reward is None else NumberColumn(table.name, roles.reward)
        self.terminated = None if roles.terminated is None else FlagColumn(table.name, roles.terminated)

    def _labels(self, name: str) -> LabelColumn:
        return LabelColumn(self.source, name, is_text=self.is_text)

    def add(self, batch: Mapping[str, Any]) -> None:
        """Take in one batch of rows."""
        roles = self.roles
        for name, column in self.state.items():
            column.add(batch[name])
        if roles.sequence is not None:
            if self.sequence is None:
                whole = is_arrow_integer(batch[roles.sequence])
                self.sequence = NumberColumn(self.source, roles.sequence) if whole else self._labels(roles.sequence)
            self.sequence.add(batch[roles.sequence])
        for numbers in (self.time, self.reward, self.terminated):
            if numbers is not None:
                numbers.add(batch[numbers.name])

    def states(self, binning: str) -> tuple[NDArray[Any], tuple[Hashable, ...]]:
        """Codes of the states, -1 where missing, and their labels."""
        parts = [self._one(name, column, binning) for name, column in self.state.items()]
        codes, labels = parts[0]
        if not len(codes):
            raise ValueError(f"{self.source}: no rows; check how the table was written")
        if len(parts) == 1:
            return codes, tuple(labels)
        combined, cells = _combine([part[0] for part in parts], [len(part[1]) for part in parts])
        return combined, tuple(tuple(parts[k][1][i] for k, i in enumerate(cell)) for cell in cells)

    def _one(self, name: str, column: LabelColumn | NumberColumn, binning: str) -> tuple[NDArray[Any], list[Hashable]]:
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


class Order:
    """Rows sorted by sequence and time, with where each sequence begins."""

    def __init__(self, columns: Columns) -> None:
        self.source, self.columns = columns.source, columns
        self.sequence = self._sequence_codes()
        self.times = None if columns.time is None else columns.time.finish()
        self.rows = self._sorted()

    def _sequence_codes(self) -> NDArray[Any] | None:
        column = self.columns.sequence
        if column is None:
            return None
        codes = column.finish() if isinstance(column, NumberColumn) else column.finish()[0]
        missing = np.isnan(codes) if isinstance(column, NumberColumn) and codes.dtype.kind == "f" else codes < 0
        if isinstance(column, NumberColumn) and codes.dtype.kind != "f":
            return codes
        if missing.any():
            raise ValueError(
                f"{self.source}: row {int(missing.argmax()) + 1}, column {column.name!r}: the entry is missing "
                f"({int(missing.sum())} such rows); say which sequence the row belongs to, or remove it"
            )
        return codes

    def _sorted(self) -> NDArray[np.int64] | None:
        """How to sort the rows; None when they are in order. Disorder and ties are reported."""
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
            self._warn(int(back.sum()), "row(s) come before an earlier one of their sequence; sorted by time")
            rows = np.argsort(times, kind="stable") if sequence is None else np.lexsort((times, sequence))
            moments = times[rows]
        ties = int(np.count_nonzero(self._same(rows) & (moments[1:] == moments[:-1])))
        if ties:
            self._warn(ties, "row(s) have the same time as the one before in their sequence; kept in the order found")
        return rows

    def _same(self, rows: NDArray[np.int64] | None) -> NDArray[np.bool_]:
        """Whether each row but the first belongs to the sequence of the row before."""
        if self.sequence is None:
            n = 0 if self.times is None else len(self.times)
            return np.ones(max(n - 1, 0), dtype=np.bool_)
        ordered = self.sequence if rows is None else self.sequence[rows]
        same: NDArray[np.bool_] = ordered[1:] == ordered[:-1]
        return same

    def _ordered(self, values: NDArray[Any]) -> NDArray[Any]:
        return values if self.rows is None else values[self.rows]

    def _warn(self, n: int, what: str) -> None:
        warn(f"{self.source}: {n:,} {what}", DataWarning)

    def samples(self, codes: NDArray[Any], states: tuple[Hashable, ...], ended: bool, missing: str) -> Samples:
        """Cut the rows into sequences and hand them over."""
        columns = self.columns
        absent = codes < 0
        if absent.any() and missing == "error":
            raise ValueError(
                f"{self.source}: row {int(absent.argmax()) + 1} has no {' / '.join(columns.roles.state)} "
                f"({int(absent.sum()):,} such row(s)); fill it in, remove it, or pass missing='cut' (--missing cut)"
            )
        codes = self._ordered(codes)
        begins = np.ones(len(codes), dtype=np.bool_)
        if self.sequence is None:
            begins[1:] = False
        else:
            begins[1:] = ~self._same(self.rows)
        flags = None if columns.terminated is None else self._ordered(columns.terminated.finish()) > 0
        if flags is not None:
            begins[1:] |= flags[:-1]
        rewards = None if columns.reward is None else self._ordered(columns.reward.floats())
        if absent.any():
            codes, begins, flags, rewards = _cut(codes, begins, flags, rewards)
        starts = np.flatnonzero(begins)
        ends = ended if flags is None else flags[np.append(starts[1:], len(codes)) - 1]
        return join(codes, starts, states, terminated=ends, rewards=rewards, source=self.source)


def _cut(
    codes: NDArray[Any], begins: NDArray[np.bool_], flags: NDArray[np.bool_] | None, rewards: Floats | None
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_] | None, Floats | None]:
    """Leave out rows without a state; the row after one begins a sequence."""
    known = codes >= 0
    begins[1:] |= ~known[:-1]
    if not known.any():
        raise ValueError("missing: no row has a state, nothing is left after cutting")
    return (
        codes[known],
        begins[known],
        None if flags is None else flags[known],
        None if rewards is None else rewards[known],
    )


def _combine(columns: list[NDArray[Any]], sizes: list[int]) -> tuple[NDArray[Any], list[tuple[int, ...]]]:
    """One code per row for several columns, numbered in the order of the columns' own codes."""
    absent = np.any([column < 0 for column in columns], axis=0)
    if absent.all():  # a column without any value has no codes to count with
        return np.full(len(absent), -1), []
    key = np.zeros(len(absent), dtype=np.int64)
    cells: list[tuple[int, ...]] = [()]
    for column, size in zip(columns, sizes, strict=True):
        found, key = np.unique(np.where(absent, 0, key * size + column), return_inverse=True)
        cells = [(*cells[value // size], int(value % size)) for value in found.tolist()]
    seen = np.zeros(len(cells), dtype=np.bool_)
    seen[key[~absent]] = True
    place = np.cumsum(seen) - 1
    return np.where(absent, -1, place[key]), [cell for cell, kept in zip(cells, seen, strict=True) if kept]


def finite(source: str, name: str, values: Floats) -> Floats:
    """Leave out NaN, refuse infinity."""
    bad = np.isinf(values)
    if bad.any():
        raise ValueError(
            f"{source}: column {name!r} holds {values[bad][0]}, which fits in no bin; remove or replace it"
        )
    return values[~np.isnan(values)]
