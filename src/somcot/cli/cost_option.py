"""The cost named on the command line: by name, by a column or an attribute, or as a matrix in a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from somcot import costs
from somcot.cli.inputs import NamedProcess
from somcot.plumbing.arrays import Floats
from somcot.problem import Data
from somcot.readers.array_files import load_arrays
from somcot.readers.opening import identify, open_bytes
from somcot.recorded.labels import listing

__all__ = ["KNOWN", "build_cost", "compares_labels"]

_BLOCK, _LONGEST = 1 << 16, 1 << 30  # bytes of a cost as text: looked at first, and at most
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


def _cost_array(path: Path) -> Any:
    return next(iter(load_arrays(identify(path, "npy")).values()))


def _cost_table(path: Path, states_x: Sequence[Hashable], states_y: Sequence[Hashable]) -> Any:
    """A matrix as text: bare numbers, or with the states of y on top and those of x at the left."""
    rows = _csv_rows(path)
    if _is_number(rows[0][1][0]):
        return [_numbers(path, line, row) for line, row in rows]
    (_, header), *body = rows
    matrix = [_numbers(path, line, row[1:]) for line, row in body]
    across = _places(path, "column", header[1:], states_y)
    down = _places(path, "row", [row[0] for _, row in body], states_x)
    if any(len(row) != len(header) - 1 for row in matrix):
        raise ValueError(f"{path}: rows have different lengths; expected {len(header) - 1} numbers in each")
    return np.array(matrix)[np.ix_(down, across)]


def _csv_rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows that hold something, with their lines."""
    with open_bytes(identify(path, "csv")) as stream:
        data = stream.read(_BLOCK)
        if b"\0" in data:
            raise ValueError(f"{path}: binary data, expected a matrix of numbers as text")
        data += stream.read(_LONGEST - _BLOCK + 1)
    if len(data) > _LONGEST:
        raise ValueError(f"{path}: longer than {_LONGEST >> 20} MB; save the matrix with numpy.save")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not valid UTF-8; save it as UTF-8") from None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in text.partition("\n")[0] else ",")
    try:
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise ValueError(f"{path}: line {reader.line_num}: {error}; expected a matrix of numbers") from None
    if not rows:
        raise ValueError(f"{path}: no numbers; expected a matrix with a row per state")
    return rows


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _numbers(path: Path, line: int, row: Sequence[str]) -> list[float]:
    for text in row:
        if not _is_number(text):
            raise ValueError(f"{path}: line {line}: found {text[:40]!r}, expected a number")
    return [float(text) for text in row]


def _places(path: Path, what: str, found: list[str], states: Sequence[Hashable]) -> list[int]:
    place = {text.strip(): k for k, text in enumerate(found)}
    if len(place) < len(found):
        name = next(text for k, text in enumerate(found) if place[text.strip()] != k).strip()
        raise ValueError(f"{path}: two {what}s are called {name!r}; leave one out or rename it")
    names = [", ".join(map(str, s)) if isinstance(s, tuple) else str(s) for s in states]
    missing = [name for name in names if name not in place]
    if missing:
        raise ValueError(f"{path}: no {what} for state(s) {listing(missing)}; add them")
    return [place[name] for name in names]
