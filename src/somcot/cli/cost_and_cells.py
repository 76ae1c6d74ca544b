"""``--cost`` and ``--cells``: the cost by name or from a file, and states that are numeric vectors."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from somcot import costs
from somcot.cells import COSTS, Cells
from somcot.cli.inputs import NamedProcess, csv_label, full_label, match_labels, read_processes, read_two_groups
from somcot.cli.options import Reading, VectorOptions, flag
from somcot.plumbing.arrays import Floats
from somcot.plumbing.notes import Note
from somcot.plumbing.records import option_names
from somcot.plumbing.text import number_of
from somcot.problem import ChainOrData, Data
from somcot.readers.array_files import load_arrays
from somcot.readers.formats import kind_of
from somcot.readers.opening import format_of, identify, open_bytes
from somcot.readers.tables import LONGEST_LINE, Array, ArrowArray
from somcot.readers.tables.csv_stream import Header, csv_options, explain
from somcot.readers.tables.vector_tables import read_vectors
from somcot.recorded.labels import listing
from somcot.result import Result
from somcot.trajectories import Trajectories

__all__ = [
    "KNOWN",
    "ComparedPair",
    "Vectors",
    "build_cost",
    "compares_labels",
    "in_cells",
    "library_name",
    "number_of_cells",
    "periods_from",
    "read_in_cells",
    "read_pair",
    "reward_column",
    "scale_from",
    "shared_cost",
]


# --- Two processes and the cost between them.


class ComparedPair(NamedTuple):
    """Two named processes, the cost and its name, and the arguments for numeric vectors."""

    x: NamedProcess
    y: NamedProcess
    cost: Floats | costs.FeatureCost | str
    cost_name: str
    arguments: dict[str, Any]


def read_pair(
    a: str,
    b: str | None,
    reading: Reading,
    cost: str,
    vectors: VectorOptions,
    by: str | None = None,
    groups: Sequence[str] | None = None,
    attributes: Sequence[str] = (),
) -> ComparedPair:
    """Read both files, as recordings of numeric vectors with ``--cells``; or two groups of one file."""
    if by is not None:
        if b is not None:
            raise ValueError(f"--by: splits one file into groups, but two are named; leave out {b}")
        if vectors.wanted:
            raise ValueError("--by: not together with --cells; name one file for each recording")
        x, y = match_labels(*read_two_groups(a, by, groups, reading, reward_column(cost), attributes))
        return ComparedPair(x, y, build_cost(cost, x, y), cost, {})
    if groups is not None:
        raise ValueError(f"--groups {' '.join(groups)}: only together with --by COLUMN; leave it out")
    if b is None:
        raise ValueError(f"{a}: one file; name a second one, or split it into groups with --by COLUMN")
    if vectors.wanted:
        recordings = read_in_cells((a, b), reading, vectors, cost)
        x, y = recordings.named()
        return ComparedPair(x, y, recordings.cost, recordings.cost_name, recordings.arguments)
    read = read_processes([a, b], reading, reward_column(cost), attributes=attributes)
    # Costs by attributes or degrees do not look at labels, so these need not match.
    x, y = match_labels(*read, compared=compares_labels(cost))
    return ComparedPair(x, y, build_cost(cost, x, y), cost, {})


# --- ``--cost``: a name, a column, an attribute, or a matrix in a file.

_LONGEST, _NAME = 1 << 30, 1 << 17  # maximal bytes of a cost matrix as text, and of the name of a state
# The names of the library, except that rewards are named by their column.
KNOWN = ["reward:COLUMN" if name == "features" else name for name in costs.NAMED]
# Both spellings are accepted, one is listed.
_NAMES = {name.partition("[")[0].partition(":")[0] for name in KNOWN} - {"reward"} | {"neighborhood"}


def compares_labels(text: str) -> bool:
    """Whether a cost depends on the labels of the states.

    Examples
    --------
    >>> compares_labels("labels"), compares_labels("attribute:size")
    (True, False)
    """
    return text.partition(":")[0] not in ("attribute", "degree", "neighbourhood", "neighborhood")


def reward_column(text: str) -> str | None:
    """The column of a reward cost; None for other costs.

    Examples
    --------
    >>> reward_column("reward:amount"), reward_column("labels")
    ('amount', None)
    """
    if not text.startswith("reward:"):
        return None
    if text == "reward:":
        raise ValueError("--cost reward:: which column? Write --cost reward:COLUMN")
    return text.removeprefix("reward:")


def shared_cost(text: str, processes: Mapping[Hashable, ChainOrData]) -> Floats | costs.FeatureCost | str:
    """The cost for many processes: a name is kept, a file is read as a matrix between the shared states."""
    if text.startswith("reward:"):
        return "features"
    label, process = next(iter(processes.items()))
    first = NamedProcess(str(label), process)
    table = build_cost(text, first, first)  # also for a name, so that errors are raised before the computation
    return library_name(text) or table


def library_name(text: str) -> str | None:
    """The name of a cost in Python; None for a file.

    Examples
    --------
    >>> library_name("reward:amount"), library_name("degree"), library_name("cost.csv")
    ('features', 'degree', None)
    """
    return "features" if text.startswith("reward:") else text if _is_name(text) else None


def _is_name(text: str) -> bool:
    return text.partition(":")[0] in _NAMES


def build_cost(text: str, x: NamedProcess, y: NamedProcess) -> Floats | costs.FeatureCost:
    """The cost named on the command line, (n_x, n_y)."""
    if text.startswith("reward:"):
        return _reward_cost(text, x, y)
    if _is_name(text):
        return _named_cost(text, x, y)
    # Shells expand ~ only at the beginning of a word, not after --cost=.
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
    """A cost that the library knows by name; errors name the file instead of x or y."""
    try:
        cost = costs.between(text, x.value, y.value)
    except ValueError as error:
        note = error.args[0]
        if not isinstance(note, Note):
            raise
        if note.code == "unknown-cost":
            raise ValueError(f"--cost: found {text!r}, expected one of {', '.join(KNOWN)}, or a file") from None
        raise ValueError(note.renamed({"x": x.name, "y": y.name, "cost": f"--cost {text}"})) from None
    return cost if isinstance(cost, costs.FeatureCost) else np.asarray(cost)


def _reward_cost(text: str, x: NamedProcess, y: NamedProcess) -> costs.FeatureCost:
    """Differences of mean rewards, as a cost that knows its sampling error."""
    means = [p.value.feature_means if isinstance(p.value, Data) else None for p in (x, y)]
    sides = [(p, m) for p, m in zip((x, y), means, strict=True) if m is not None]
    for process, mean_rewards in zip((x, y), means, strict=True):
        if mean_rewards is None:
            raise ValueError(f"--cost {text}: {process.name} has no reward column; give the cost as a matrix file")
    # One side may have the rewards of a state that lacks them on the other.
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
    """A matrix as text: numbers only, or with the states of y in the first row and those of x in the first column."""
    cells = _CostCells.read(path)
    columns = cells.columns()
    if cells.bare:
        return np.column_stack([cells.numbers(column) for column in columns])
    across = _places(path, "column", cells.header.columns[1:], states_y)
    matrix = np.column_stack([cells.numbers(column) for column in columns[1:]])
    down = _places(path, "row", columns[0].to_pylist(), states_x)
    return matrix[np.ix_(down, across)]


class _CostCells(NamedTuple):
    """A matrix as text: its first line, whether that line holds numbers, the rows of numbers, and their first line."""

    header: Header
    bare: bool
    rows: bytes
    begin: int

    @classmethod
    def read(cls, path: Path) -> _CostCells:
        """Read a file; leading blank lines are skipped."""
        with open_bytes(identify(path, "csv")) as stream:
            # Spreadsheets begin files with a byte-order mark.
            line, number = stream.readline(LONGEST_LINE + 1).removeprefix(b"\xef\xbb\xbf"), 1
            while line and not line.strip(b"\r\n"):
                line, number = stream.readline(LONGEST_LINE + 1), number + 1
            if not line:
                raise ValueError(f"{path}: no numbers; expected a matrix with a row per state")
            mark = "\t" if b"\t" in line else None
            header = Header.read(line, str(path), mark, recode="save it as UTF-8", expected="a matrix as text")
            # The corner of a matrix with labels is empty or text.
            bare = _is_number(header.columns[0])
            # One byte more than allowed, to see whether there is more.
            rows = (line if bare else b"") + stream.read(_LONGEST + 1)
        if len(rows) > _LONGEST:
            raise ValueError(f"{path}: longer than {_LONGEST >> 20} MB; save the matrix with numpy.save")
        if not rows.strip(b"\r\n"):
            raise ValueError(f"{path}: no numbers; expected a matrix with a row per state")
        return cls(header, bare, rows, number if bare else number + 1)

    def line(self, row: int) -> int:
        """The line number of a row, counted from 0."""
        return [k for k, line in enumerate(self.rows.splitlines(), self.begin) if line][row]

    def columns(self) -> list[ArrowArray]:
        """All columns as text."""
        import pyarrow as pa
        from pyarrow import compute
        from pyarrow import csv as pacsv

        # As text: type inference would read labels such as 01 as numbers.
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
        """A column as numbers; Python parses some notations that Arrow does not."""
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
    # Python also reads 1_000, which is not a number in a file.
    return "_" not in text


def _places(path: Path, what: str, labels: list[str], states: Sequence[Hashable]) -> list[int]:
    place = {text.strip(): k for k, text in enumerate(labels)}
    if len(place) < len(labels):
        name = next(text for k, text in enumerate(labels) if place[text.strip()] != k).strip()
        raise ValueError(f"{path}: two {what}s are called {name!r}; leave one out or rename it")
    # As in the files that this library writes.
    names = [name if (name := full_label(state)) in place else csv_label(state) for state in states]
    missing = [full_label(state) for state, name in zip(states, names, strict=True) if name not in place]
    if missing:
        raise ValueError(f"{path}: no {what} for state(s) {listing(missing)}; add them")
    return [place[name] for name in names]


# --- ``--cells``: states that are numeric vectors.

_SHOWN = 4  # coordinates shown in the name of a cell
_TABLES_ONLY = ("state", "sequence", "time", "gap", "encoding", "delimiter")


class Vectors(NamedTuple):
    """Named recordings, the cost, the number of cells and the scale of the coordinates."""

    names: tuple[str, ...]
    recordings: tuple[Trajectories, ...]
    cost: str
    n_cells: int | str
    scale: str | float | list[float]

    def named(self) -> list[NamedProcess]:
        """The recordings as named processes."""
        sides = zip(self.names, self.recordings, strict=True)
        return [NamedProcess(name, cast("Any", recording)) for name, recording in sides]

    @property
    def arguments(self) -> dict[str, Any]:
        """The number of cells and the scale, as the library names them."""
        return {"n_cells": self.n_cells, "scale": self.scale}

    @property
    def cost_name(self) -> str:
        """The cost and its units.

        Examples
        --------
        >>> from somcot import Trajectories
        >>> data = Trajectories.from_arrays([[0.0, 1.0]])
        >>> Vectors(("a", "b"), (data, data), "euclidean", "auto", "std").cost_name
        'euclidean, in standard deviations of the coordinates'
        """
        if self.scale == "std":
            return f"{self.cost}, in standard deviations of the coordinates"
        divisors = self.scale if isinstance(self.scale, list) else [self.scale]
        if all(value == 1 for value in divisors):
            return f"{self.cost}, of unscaled coordinates"
        return f"{self.cost}, of coordinates divided by {', '.join(f'{float(v):g}' for v in divisors)}"


def number_of_cells(text: str) -> int | str:
    """Parse the value of ``--cells``.

    Examples
    --------
    >>> number_of_cells("auto"), number_of_cells("16")
    ('auto', 16)
    """
    if text == "auto":
        return text
    # Cut first, since Python refuses to convert very long numbers.
    if not (text.isascii() and text.isdigit() and 2 <= int(text[:6]) <= 1000):
        raise ValueError(f"--cells: found {text!r}, expected auto or a whole number from 2 to 1000")
    return int(text)


def scale_from(text: str | None) -> str | float | list[float]:
    """Parse the value of ``--scale``.

    Examples
    --------
    >>> scale_from(None), scale_from("1"), scale_from("0.5,2")
    ('std', 1.0, [0.5, 2.0])
    """
    if text in (None, "std"):
        return "std"
    try:
        divisors = [float(part) for part in str(text).split(",")]
    except ValueError:
        divisors = []
    if not divisors or not all(0 < value < float("inf") for value in divisors):
        raise ValueError(f"--scale: found {text!r}, expected std, a number above 0, or one for each coordinate: 0.5,2")
    return divisors[0] if len(divisors) == 1 else divisors


def periods_from(texts: Sequence[str] | None) -> dict[str, float] | None:
    """Parse the values of ``--period``.

    Examples
    --------
    >>> periods_from(["heading=360", "phi=6.2832"]), periods_from(None)
    ({'heading': 360.0, 'phi': 6.2832}, None)
    """
    periods: dict[str, float] = {}
    for text in texts or ():
        column, _, length = text.rpartition("=")  # a column may be called "a=b"
        try:
            value = float(length)
        except ValueError:
            # Outside the range, so that the check below reports it.
            value = 0.0
        if not column or not 0.0 < value < float("inf"):
            raise ValueError(f"--period: found {text!r}, expected COLUMN=LENGTH with a number above 0: heading=360")
        if column in periods:
            raise ValueError(f"--period: {column!r} is given twice; give it once")
        periods[column] = value
    return periods or None


def read_in_cells(files: Sequence[str], reading: Reading, vectors: VectorOptions, cost: str) -> Vectors:
    """Files as recordings of real vectors with the same coordinates."""
    n_cells, scale = number_of_cells(vectors.cells or ""), scale_from(vectors.scale)
    # The default of --cost is "labels", which for vectors stands for "euclidean".
    if cost not in ("labels", *COSTS):
        raise ValueError(f"--cost: found {cost!r}; with --cells it is {' or '.join(COSTS)}")
    options = _options(reading) | {"period": periods_from(vectors.period)}
    recordings = tuple(_read(path, options, reading.format) for path in files)
    first = recordings[0]
    for path, data in zip(files, recordings, strict=True):
        if data.d != first.d:
            raise ValueError(
                f"{path}: has {number_of(data.d, 'coordinate')}, but {files[0]} has {first.d}; give all the same"
            )
    if isinstance(scale, list) and len(scale) != first.d:
        raise ValueError(
            f"--scale: found {len(scale)} numbers, expected one, or one for each of {number_of(first.d, 'coordinate')}"
        )
    return Vectors(tuple(files), recordings, "euclidean" if cost == "labels" else cost, n_cells, scale)


def _options(reading: Reading) -> dict[str, Any]:
    """The reading options as arguments of the vector reader."""
    known = option_names(read_vectors)
    options = reading.chosen()
    for name in options:
        if name not in known:
            instead = "; in Python: cells = discretise(x, y), cells.x.with_start(...)" if name == "initial" else ""
            raise ValueError(
                f"{flag(name)}: not together with --cells, for numeric vectors; leave one of the two out{instead}"
            )
    if options.get("terminated") == "all":
        options["terminated"] = True
    return options


def _read(path: str, options: dict[str, Any], format: str | None) -> Trajectories:  # noqa: A002
    # A known ending decides; --format is for all other names.
    source = identify(path, None if format_of(path) else format)
    if kind_of(source.format).name == "arrays":
        for name in options:
            if name in _TABLES_ONLY:
                raise ValueError(f"{flag(name)}: {path} holds arrays, which have no columns; leave it out")
    return read_vectors(source, **options)


def in_cells(result: Result, pair: ComparedPair) -> tuple[Result, ComparedPair]:
    """The result with cells named by their centres, and the pair of discretised recordings with its cost."""
    cells = result.cells
    if cells is None:
        raise TypeError("result: has no cells; only distances between recordings of vectors have them")
    labels = _labels(cells)
    x, y = (
        NamedProcess(side.name, replace(recording, states=labels))
        for side, recording in zip((pair.x, pair.y), cells.recordings, strict=True)
    )
    return replace(result, states_x=labels, states_y=labels), pair._replace(x=x, y=y, cost=cells.cost(str(pair.cost)))


def _labels(cells: Cells) -> tuple[str, ...]:
    """Centres as text, with enough digits to be unique; terminal cells are named "end"."""
    first_end = cells.n_cells - cells.n_ends
    if len(cells.names) > _SHOWN:  # all coordinates would be too long to read
        heads = (", ".join(f"{value:.2g}" for value in centre[:2]) for centre in cells.centres)
        return tuple(f"{'end' if k >= first_end else 'cell'} {k} ({head}, ...)" for k, head in enumerate(heads))
    # Few digits are easier to read; 17 distinguish any two numbers.
    for digits in (2, 3, 5, 17):
        texts = [", ".join(f"{value:.{digits}g}" for value in centre) for centre in cells.centres]
        names = tuple(f"end {text}" if k >= first_end else text for k, text in enumerate(texts))
        if len(set(names)) == len(names):
            break
    return names
