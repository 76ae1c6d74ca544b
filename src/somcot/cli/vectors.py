"""``--cells``: states that are vectors of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from somcot.cells import COSTS, Cells
from somcot.cli.inputs import NamedProcess
from somcot.cli.options import Reading, flag
from somcot.plumbing.arrays import Floats
from somcot.plumbing.records import option_names
from somcot.readers.formats import kind_of
from somcot.readers.opening import Input, format_of, identify
from somcot.readers.tables.vector_tables import read_vectors
from somcot.result import Result
from somcot.samples import Samples
from somcot.trajectories import Trajectories

__all__ = ["VectorOptions", "Vectors", "labelled", "number_of_cells", "read_all", "read_pair", "scale_from"]

_SHOWN = 4  # coordinates that a name of a cell can hold
_TABLES_ONLY = ("state", "sequence", "time", "gap", "encoding", "delimiter")


class VectorOptions(NamedTuple):
    """What ``--cells`` and ``--scale`` say; nothing where states are labels."""

    cells: str | None = None
    scale: str | None = None

    def __bool__(self) -> bool:
        """Whether states are vectors."""
        if self.cells is None and self.scale is not None:
            raise ValueError("--scale: only together with --cells, for states that are numbers; add --cells auto")
        return self.cells is not None


class Vectors(NamedTuple):
    """Two recordings by name, what differences cost, the cells that are asked for, and what coordinates count in."""

    names: tuple[str, str]
    sides: tuple[Trajectories, Trajectories]
    cost: str
    n_cells: int | str
    scale: str | float | list[float]

    def named(self) -> tuple[NamedProcess, NamedProcess]:
        """Both by name: for how long they are."""
        x, y = (NamedProcess(name, cast("Any", side)) for name, side in zip(self.names, self.sides, strict=True))
        return x, y

    @property
    def cost_name(self) -> str:
        """What differences cost, and in which units.

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
            return f"{self.cost}, of coordinates as they are"
        return f"{self.cost}, of coordinates divided by {', '.join(f'{float(v):g}' for v in divisors)}"


def number_of_cells(text: str) -> int | str:
    """What ``--cells`` says.

    Examples
    --------
    >>> number_of_cells("auto"), number_of_cells("16")
    ('auto', 16)
    """
    if text == "auto":
        return text
    if not (text.isascii() and text.isdigit() and 2 <= int(text[:6]) <= 1000):
        raise ValueError(f"--cells: found {text!r}, expected auto or a whole number from 2 to 1000")
    return int(text)


def scale_from(text: str | None) -> str | float | list[float]:
    """What ``--scale`` says.

    Examples
    --------
    >>> scale_from(None), scale_from("1"), scale_from("0.5,2")
    ('std', 1.0, [0.5, 2.0])
    """
    if text in (None, "std"):
        return "std"
    try:
        found = [float(part) for part in str(text).split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < value < float("inf") for value in found):
        raise ValueError(f"--scale: found {text!r}, expected std, a number above 0, or one for each coordinate: 0.5,2")
    return found[0] if len(found) == 1 else found


def read_pair(a: str, b: str, reading: Reading, asked: VectorOptions, cost: str) -> Vectors:
    """Read both files as recordings of real vectors."""
    (x, y), point_cost = read_all((a, b), reading, asked, cost)
    assert asked.cells is not None
    return Vectors((a, b), (x, y), point_cost, number_of_cells(asked.cells), scale_from(asked.scale))


def read_all(files: Sequence[str], reading: Reading, asked: VectorOptions, cost: str) -> tuple[list[Trajectories], str]:
    """Files as recordings of real vectors with the same coordinates, and what differences cost."""
    assert asked.cells is not None
    number_of_cells(asked.cells)
    scale = scale_from(asked.scale)
    if cost not in ("labels", *COSTS):
        raise ValueError(f"--cost: found {cost!r}; with --cells it is {' or '.join(COSTS)}")
    given = _options(reading)
    found = [_read(path, given, reading.format) for path in files]
    first = found[0]
    for path, data in zip(files, found, strict=True):
        if data.d != first.d:
            raise ValueError(f"{path}: has {_coordinates(data)}, but {files[0]} has {first.d}; give all the same")
    if isinstance(scale, list) and len(scale) != first.d:
        raise ValueError(f"--scale: found {len(scale)} numbers, expected one, or one for each of {_coordinates(first)}")
    return found, "euclidean" if cost == "labels" else cost


def _coordinates(data: Trajectories) -> str:
    return f"{data.d} coordinate{'' if data.d == 1 else 's'}"


def _options(reading: Reading) -> dict[str, Any]:
    """What was asked about reading, as the reader of vectors calls it."""
    known = option_names(read_vectors)
    given: dict[str, Any] = reading.given()
    for name in given:
        if name not in known:
            instead = "; in Python: cells = discretise(x, y), cells.x.with_start(...)" if name == "initial" else ""
            raise ValueError(
                f"{flag(name)}: not together with --cells, which keeps numbers; leave one of the two out{instead}"
            )
    if given.get("terminated") == "all":
        given["terminated"] = True
    return given


def _read(path: str, given: dict[str, Any], format: str | None) -> Trajectories:  # noqa: A002
    source: Input = identify(path, None if format_of(path) else format)
    if kind_of(source.format).name == "arrays":
        for name in given:
            if name in _TABLES_ONLY:
                raise ValueError(f"{flag(name)}: {path} holds arrays, which have no columns; leave it out")
    return read_vectors(source, **given)


def labelled(result: Result, vectors: Vectors) -> tuple[Result, NamedProcess, NamedProcess, Floats]:
    """The result with cells called by their centres, both recordings on them, and the cost between them."""
    assert result.cells is not None
    cells = result.cells
    labels = _labels(cells)
    shown = replace(result, states_x=labels, states_y=labels)
    sides: list[Samples] = [replace(part, states=labels) for part in cells.recordings]
    x, y = (NamedProcess(name, side) for name, side in zip(vectors.names, sides, strict=True))
    return shown, x, y, cells.cost(vectors.cost)


def _labels(cells: Cells) -> tuple[str, ...]:
    """Centres as text, with as many digits as tell them apart; the ends of episodes are called so."""
    first_end = cells.n_cells - cells.n_ends
    if len(cells.names) > _SHOWN:  # too long to read; the first coordinates give an idea
        heads = (", ".join(f"{value:.2g}" for value in centre[:2]) for centre in cells.centres)
        return tuple(f"{'end' if k >= first_end else 'cell'} {k} ({head}, ...)" for k, head in enumerate(heads))
    for digits in (2, 3, 5, 17):
        texts = [", ".join(f"{value:.{digits}g}" for value in centre) for centre in cells.centres]
        found = tuple(f"end {text}" if k >= first_end else text for k, text in enumerate(texts))
        if len(set(found)) == len(found):
            break
    return found
