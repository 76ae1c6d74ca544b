"""Rows of a table collected, column by column."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.plumbing.arrays import Floats
from somcot.readers.batches import is_arrow_integer
from somcot.readers.bins import Bins, fit_edges
from somcot.readers.columns import FlagColumn, LabelColumn, NumberColumn
from somcot.readers.table import Table

__all__ = ["BinSpec", "Columns", "Roles", "finite"]

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

    def add(self, batch: Mapping[str, Any]) -> None:
        """Take in one batch of rows."""
        roles = self.roles
        for name, column in self.state.items():
            column.add(batch[name])
        if roles.sequence is not None:
            if self.sequence is None:
                whole = is_arrow_integer(batch[roles.sequence])
                self.sequence = self._numbers(roles.sequence) if whole else self._labels(roles.sequence)
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
