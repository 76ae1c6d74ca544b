"""From file names and options to two processes with matched labels, and a cost between their states."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from somcot import costs
from somcot.chains import MarkovChain
from somcot.commands.reading import Reading, flag, takers
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import DataWarning, warn
from somcot.problem import ChainOrData
from somcot.readers.files import read
from somcot.readers.formats import kind_of
from somcot.readers.inputs import Input, format_of, identify, open_bytes
from somcot.readers.numpy_files import load_arrays
from somcot.readers.tables import fit_bins
from somcot.recorded.labels import listing
from somcot.samples import Samples

__all__ = ["NamedProcess", "build_cost", "match_labels", "read_processes"]

_BLOCK, _LONGEST = 1 << 16, 1 << 30  # bytes of a cost as text: looked at first, and at most


class NamedProcess(NamedTuple):
    """What was read, and what to call it."""

    name: str
    value: ChainOrData


def read_processes(paths: Sequence[str], reading: Reading, reward: str | None = None) -> list[NamedProcess]:
    """Read each file with the options that apply to it."""
    if paths.count("-") > 1:
        raise ValueError("standard input: named twice; it can be read only once, so name a file for one of the two")
    sources = [_identified(path, reading.format) for path in paths]
    _refuse_shared_streams(sources)
    kinds = [kind_of(source.format).name for source in sources]
    for name in reading.given():
        if not set(takers(name)) & set(kinds):
            files = " and ".join(f"{kind} files" for kind in takers(name))
            raise ValueError(f"{flag(name)}: only for {files}, but {sources[0].name} is {kinds[0]}; leave it out")
    if reward is not None and "table" not in kinds:
        raise ValueError(f"--cost reward:{reward}: only tables have reward columns; give the cost as a matrix file")
    bins = _shared_bins(sources, kinds, reading)
    found = []
    for source, kind in zip(sources, kinds, strict=True):
        options = reading.for_kind(kind)
        if kind == "table":
            options |= {"bins": bins, "reward": reward}
        found.append(NamedProcess(source.name, read(source, **options)))
    return found


def _identified(path: str, format: str | None) -> Input:  # noqa: A002
    """`--format` speaks for streams and for files whose ending says nothing."""
    return identify(path, None if format_of(path) else format)


def _refuse_shared_streams(sources: Sequence[Input]) -> None:
    streams = [os.fstat(source.stream.fileno()) for source in sources if source.stream is not None]
    if len(streams) == 2 and os.path.samestat(*streams):
        raise ValueError(f"{sources[0].name}: named twice; it can be read only once, so name a file for one of the two")


def _shared_bins(sources: Sequence[Input], kinds: Sequence[str], reading: Reading) -> Any:
    """Edges for every binned column, fitted to all tables together so that equal labels mean the same."""
    if not reading.bins:
        if reading.binning:
            raise ValueError(f"--binning {reading.binning}: only together with --bins COLUMN=N; leave it out")
        return None
    wanted: dict[str, Any] = {}
    for text in reading.bins:
        column, sign, number = text.rpartition("=")
        names = [column] if sign else list(reading.state or ())
        if not names:
            raise ValueError(f"--bins {text}: which column? Pass --state COLUMN --bins COLUMN={text}")
        wanted |= dict.fromkeys(names, _bin_spec(text, number))
    numbers = {name: spec for name, spec in wanted.items() if isinstance(spec, int)}
    if numbers:
        tables = [source for source, kind in zip(sources, kinds, strict=True) if kind == "table"]
        once = next((source.name for source in tables if source.path is None), None)
        if once is not None:
            raise ValueError(f"--bins: fitting bins reads the data twice, {once} cannot; give edges: COLUMN=0,1,2")
        texts = {k: v for k, v in (("encoding", reading.encoding), ("delimiter", reading.delimiter)) if v}
        wanted |= fit_bins(tables, numbers, binning=reading.binning or "quantile", **texts)
    return wanted


def _bin_spec(text: str, number: str) -> int | list[float]:
    try:
        return [float(part) for part in number.split(",")] if "," in number else int(number)
    except ValueError:
        raise ValueError(f"--bins: found {text!r}, expected COLUMN=NUMBER or COLUMN=EDGE,EDGE,...") from None


def match_labels(x: NamedProcess, y: NamedProcess) -> tuple[NamedProcess, NamedProcess]:
    """Make labels comparable: where one side has numbers and the other text, numbers become text.

    Examples
    --------
    >>> import somcot, warnings
    >>> chains = somcot.random_walk(2), somcot.MarkovChain([[1, 0], [0, 1]], states=["0", "lost"])
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     x, y = match_labels(NamedProcess("a.npy", chains[0]), NamedProcess("b.csv", chains[1]))
    >>> x.value.states
    ('0', '1')
    """
    numbers = [p for p in (x, y) if all(type(label) is int for label in p.value.states)]
    texts = [p for p in (x, y) if any(isinstance(label, str) for label in p.value.states)]
    if len(numbers) == 1 and len(texts) == 1:
        message = f"states are numbers in {numbers[0].name} and text in {texts[0].name}; the numbers are taken as text"
        warn(message, DataWarning)
        x, y = (p._replace(value=_as_text(p.value)) if p is numbers[0] else p for p in (x, y))
    if not set(x.value.states) & set(y.value.states):
        warn(
            f"no state is called the same in {x.name} and {y.name}: {listing(x.value.states, 4)} against "
            f"{listing(y.value.states, 4)}",
            DataWarning,
        )
    return x, y


def _as_text(process: ChainOrData) -> ChainOrData:
    labels = tuple(str(label) for label in process.states)
    if isinstance(process, Samples):
        return replace(process, states=labels)
    return MarkovChain(process.transition, process.initial, states=labels)


def build_cost(text: str, x: NamedProcess, y: NamedProcess) -> Floats | costs.FeatureCost:
    """The cost named on the command line, (n_x, n_y)."""
    if text == "labels":
        return costs.labels(x.value.states, y.value.states)
    if text.startswith("reward:"):
        return _reward_cost(text, x, y)
    path = Path(text).expanduser() if text.startswith("~") else Path(text)
    if not path.exists():
        raise ValueError(f"--cost: {text!r} is neither labels, reward:COLUMN nor a file; check the spelling")
    matrix = _cost_array(path) if path.suffix == ".npy" else _cost_table(path, x.value.states, y.value.states)
    try:
        return costs.check_cost(matrix, x.value.n_states, y.value.n_states)
    except (TypeError, ValueError) as error:
        order = "rows and columns follow the states as `somcot info` lists them"
        raise ValueError(f"{path}: {str(error).removeprefix('cost: ')}; {order}") from None


def _reward_cost(text: str, x: NamedProcess, y: NamedProcess) -> costs.FeatureCost:
    """Differences of mean rewards, which remember that they are estimated."""
    means = [p.value.feature_means if isinstance(p.value, Samples) else None for p in (x, y)]
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
