"""The cost named on the command line: by name, by a column or an attribute, or as a matrix in a file."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from somcot import costs
from somcot.cli.inputs import NamedProcess
from somcot.plumbing.arrays import Floats
from somcot.problem import Data
from somcot.readers.array_files import load_arrays
from somcot.readers.opening import Array, ArrowArray, identify, open_bytes
from somcot.readers.tables.csv_stream import LONGEST_LINE, Header, csv_options, explain
from somcot.recorded.labels import listing

__all__ = ["KNOWN", "build_cost", "compares_labels"]

_LONGEST, _NAME = 1 << 30, 1 << 17  # bytes of a cost as text, and of the name of a state
# As the library calls them, only that rewards are named by their column.
KNOWN = ["reward:COLUMN" if name == "features" else name for name in costs.NAMED]
_NAMES = {name.partition("[")[0].partition(":")[0] for name in KNOWN} - {"reward"}


def compares_labels(text: str) -> bool:
    """Whether it matters to a cost what states are called.

    Examples
    --------
    >>> compares_labels("labels"), compares_labels("attribute:size")
    (True, False)
    """
    return text.partition(":")[0] not in ("attribute", "degree", "neighbourhood")


def build_cost(text: str, x: NamedProcess, y: NamedProcess) -> Floats | costs.FeatureCost:
    """The cost named on the command line, (n_x, n_y)."""
    if text.startswith("reward:"):
        return _reward_cost(text, x, y)
    if text.partition(":")[0] in _NAMES:
        return _named_cost(text, x, y)
    path = Path(text).expanduser() if text.startswith("~") else Path(text)
    if not path.exists():
        raise ValueError(f"--cost: {text!r} is neither {', '.join(KNOWN)} nor a file; check the spelling")
    matrix = _cost_array(path) if path.suffix == ".npy" else _cost_table(path, x.value.states, y.value.states)
    try:
        return costs.check_cost(matrix, x.value.n_states, y.value.n_states)
    except (TypeError, ValueError) as error:
        order = "rows and columns follow the states as `somcot info` lists them"
        raise ValueError(f"{path}: {str(error).removeprefix('cost: ')}; {order}") from None


def _named_cost(text: str, x: NamedProcess, y: NamedProcess) -> Floats | costs.FeatureCost:
    """A cost that the library knows by name; what is wrong with a side is said of its file."""
    try:
        found = costs.between(text, x.value, y.value)
    except ValueError as error:
        side, sign, rest = str(error).partition(": ")
        if side == "cost" and rest.startswith("found"):
            raise ValueError(f"--cost: found {text!r}, expected one of {', '.join(KNOWN)}, or a file") from None
        names = {"x": x.name, "y": y.name, "cost": f"--cost {text}"}
        raise ValueError(f"{names.get(side, side)}{sign}{rest}") from None
    return found if isinstance(found, costs.FeatureCost) else np.asarray(found)


def _reward_cost(text: str, x: NamedProcess, y: NamedProcess) -> costs.FeatureCost:
    """Differences of mean rewards, which remember that they are estimated."""
    means = [p.value.feature_means if isinstance(p.value, Data) else None for p in (x, y)]
    sides = [(p, m) for p, m in zip((x, y), means, strict=True) if m is not None]
    for process, found in zip((x, y), means, strict=True):
        if found is None:
            raise ValueError(f"--cost {text}: {process.name} has no reward column; give the cost as a matrix file")
    known = {label for _, m in sides for label, mean in zip(m.states, m.means, strict=True) if not np.isnan(mean)}
    for process, m in sides:
        unknown = [label for label in m.states if label not in known]
        if unknown:
            column = text.partition(":")[2]
            raise ValueError(
                f"{process.name}: column {column!r} has no value for state(s) {listing(unknown)}; fill it in"
            )
    return costs.from_features(x.value, y.value)


def _cost_array(path: Path) -> Array:
    return next(iter(load_arrays(identify(path, "npy")).values()))


def _cost_table(path: Path, states_x: Sequence[Hashable], states_y: Sequence[Hashable]) -> Floats:
    """A matrix as text: bare numbers, or with the states of y on top and those of x at the left."""
    cells = _CostCells.read(path)
    columns = cells.columns()
    if cells.bare:
        return np.column_stack([cells.numbers(column) for column in columns])
    across = _places(path, "column", cells.header.columns[1:], states_y)
    matrix = np.column_stack([cells.numbers(column) for column in columns[1:]])
    down = _places(path, "row", columns[0].to_pylist(), states_x)
    return matrix[np.ix_(down, across)]


class _CostCells(NamedTuple):
    """A matrix as text: its first line, whether that holds numbers, all rows of numbers, and the line they begin in."""

    header: Header
    bare: bool
    rows: bytes
    begin: int

    @classmethod
    def read(cls, path: Path) -> _CostCells:
        """From a file; blank lines before the first are of no account."""
        with open_bytes(identify(path, "csv")) as stream:
            line, number = stream.readline(LONGEST_LINE + 1).removeprefix(b"\xef\xbb\xbf"), 1
            while line and not line.strip(b"\r\n"):
                line, number = stream.readline(LONGEST_LINE + 1), number + 1
            if not line:
                raise ValueError(f"{path}: no numbers; expected a matrix with a row per state")
            mark = "\t" if b"\t" in line else None
            header = Header.read(line, str(path), mark, recode="save it as UTF-8", expected="a matrix as text")
            bare = _is_number(header.columns[0])
            rows = (line if bare else b"") + stream.read(_LONGEST + 1)
        if len(rows) > _LONGEST:
            raise ValueError(f"{path}: longer than {_LONGEST >> 20} MB; save the matrix with numpy.save")
        if not rows.strip(b"\r\n"):
            raise ValueError(f"{path}: no numbers; expected a matrix with a row per state")
        return cls(header, bare, rows, number if bare else number + 1)

    def line(self, row: int) -> int:
        """The line of a row, from 0 on."""
        return [k for k, line in enumerate(self.rows.splitlines(), self.begin) if line][row]

    def columns(self) -> list[ArrowArray]:
        """All columns as text."""
        import pyarrow as pa
        from pyarrow import compute
        from pyarrow import csv as pacsv

        types = dict.fromkeys(self.header.unique(), pa.string())
        options = csv_options(self.header, types, len(self.rows) + 1, skip_empty=True)
        try:
            table = pacsv.read_csv(pa.BufferReader(self.rows), **options)
        except pa.ArrowInvalid as error:
            row, what = explain(str(error))
            place = "" if row is None else f"line {self.line(row - 1)}: "
            raise ValueError(f"{self.header.name}: {place}{what}; expected a matrix of numbers in UTF-8") from None
        longest = compute.max(compute.binary_length(table.column(0))).as_py()
        if longest > _NAME:
            row = compute.index(compute.binary_length(table.column(0)), longest).as_py()
            raise ValueError(
                f"{self.header.name}: line {self.line(row)}: a field of {longest:,} bytes; expected the name of a state"
            )
        return [column.combine_chunks() for column in table.columns]

    def numbers(self, column: ArrowArray) -> Floats:
        """A column as numbers; Python knows some ways to write them that Arrow does not."""
        import pyarrow as pa

        try:
            return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid:
            texts = column.to_pylist()
        for row, text in enumerate(texts):
            if not _is_number(text):
                raise ValueError(f"{self.header.name}: line {self.line(row)}: found {text[:40]!r}, expected a number")
        return np.array([float(text) for text in texts])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _places(path: Path, what: str, labels: list[str], states: Sequence[Hashable]) -> list[int]:
    place = {text.strip(): k for k, text in enumerate(labels)}
    if len(place) < len(labels):
        name = next(text for k, text in enumerate(labels) if place[text.strip()] != k).strip()
        raise ValueError(f"{path}: two {what}s are called {name!r}; leave one out or rename it")
    names = [", ".join(map(str, s)) if isinstance(s, tuple) else str(s) for s in states]
    missing = [name for name in names if name not in place]
    if missing:
        raise ValueError(f"{path}: no {what} for state(s) {listing(missing)}; add them")
    return [place[name] for name in names]
