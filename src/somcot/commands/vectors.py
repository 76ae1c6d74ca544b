"""`somcot distance --cells`: states that are several numbers each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import somcot
from somcot.cells import COSTS, Cells
from somcot.commands.inputs import NamedProcess
from somcot.commands.reading import Reading, flag
from somcot.plumbing.arrays import Floats
from somcot.plumbing.signatures import option_names
from somcot.readers.inputs import format_of, identify
from somcot.readers.vectors import read_vectors
from somcot.result import Result
from somcot.samples import Samples
from somcot.trajectories import Trajectories

__all__ = ["Vectors", "labelled", "number_of_cells", "read_pair"]


class Vectors(NamedTuple):
    """Two recordings by name, what differences cost, and the cells that are asked for."""

    names: tuple[str, str]
    sides: tuple[Trajectories, Trajectories]
    cost: str
    n_cells: int | str

    def counted(self) -> tuple[NamedProcess, NamedProcess]:
        """The recordings on two cells: for their lengths alone."""
        cells = somcot.discretise(*self.sides, n_cells=2)
        return NamedProcess(self.names[0], cells.x), NamedProcess(self.names[1], cells.y)


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


def read_pair(a: str, b: str, reading: Reading, cells: str, cost: str) -> Vectors:
    """Read both files as recordings of real vectors."""
    n_cells = number_of_cells(cells)
    known = option_names(read_vectors)
    given: dict[str, Any] = reading.given()
    for name in given:
        if name not in known:
            raise ValueError(f"{flag(name)}: not together with --cells, which keeps numbers; leave one of the two out")
    if cost not in ("labels", *COSTS):
        raise ValueError(f"--cost: found {cost!r}; with --cells it is {' or '.join(COSTS)}")
    if "state" in given:
        given["state"] = [name for text in given["state"] for name in text.split(",") if name]
    if given.get("terminated") == "all":
        given["terminated"] = True
    sides = []
    for path in (a, b):
        source = identify(path, None if format_of(path) else reading.format)
        sides.append(read_vectors(source, **given))
    return Vectors((a, b), (sides[0], sides[1]), "euclidean" if cost == "labels" else cost, n_cells)


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
    for digits in (2, 3, 5, 17):
        texts = [", ".join(f"{value:.{digits}g}" for value in centre) for centre in cells.centres]
        found = tuple(f"end {text}" if k >= first_end else text for k, text in enumerate(texts))
        if len(set(found)) == len(found):
            break
    return found
