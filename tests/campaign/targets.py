"""What is fuzzed: everything that reads a file, with the options worth trying, and what it may answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import somcot
from somcot import Monitor, random_walk
from somcot.cli.cost_and_cells import build_cost
from somcot.cli.inputs import NamedProcess
from somcot.many.record import DistanceMatrix
from somcot.readers.opening import read
from somcot.readers.prism import from_prism
from somcot.readers.tables.counting import count_table
from somcot.readers.tables.event_tables import fit_bins
from somcot.readers.tables.vector_tables import read_vectors
from somcot.result import Result
from somcot.solvers import somcot as steps

CORPUS = Path(__file__).parent / "corpus"
ALLOWED = (ValueError, TypeError, OSError, MemoryError)  # with CheckpointError and MemoryLimitError, which are such
Options = dict[str, Any]


class Target(NamedTuple):
    """A reader: the ending of its files, the function that reads and uses one, options to choose from, its share."""

    ending: str
    use: Callable[..., Any]
    options: tuple[Options, ...] = ({},)
    share: int = 20  # of the executions; most take half a millisecond, those with share 1 ten or more

    @property
    def sealed(self) -> bool:
        """Whether files carry a sum, which has to be right for damage to get further."""
        return self.ending in (".ck", ".result", ".matrix", ".chunks", ".monitor", ".somcot")


TABLE: tuple[Options, ...] = (
    {},
    {"sequence": "user", "state": "page"},
    {"sequence": "user", "time": "when", "state": "page", "missing": "cut"},
    {"state": ["page", "amount"], "missing": "cut"},
    {"state": "amount", "bins": 3, "binning": "uniform", "missing": "cut"},
    {"sequence": "user", "state": "page", "reward": "amount", "terminated": "ended"},
    {"sequence": "user", "state": "page", "initial": "stationary"},
)
TEXT: tuple[Options, ...] = ({"encoding": "latin-1", "state": "page"}, {"encoding": "utf-16"}, {"delimiter": ";"})
ARRAYS: tuple[Options, ...] = ({}, {"lag": 2}, {"lag": 3, "sliding": True}, {"initial": "stationary"})
GRAPH: tuple[Options, ...] = (
    {}, {"directed": True}, {"dangling": "restart"}, {"dangling": "error"}, {"initial": "home"},
)  # fmt: skip
GRAPHML: tuple[Options, ...] = (*(options for options in GRAPH if "directed" not in options), {"weight": None})
LOG: tuple[Options, ...] = (
    {}, {"lifecycle": "all"}, {"classifier": "Activity"}, {"state": ["concept:name", "org:resource"], "missing": "cut"},
    {"reward": "amount", "missing": "cut"}, {"end": "over", "gap": "1h"}, {"tidy": True, "top": 1}, {"time": "file"},
)  # fmt: skip
COUNTED: tuple[Options, ...] = (
    {}, {"state": "page"}, {"sequence": "user", "state": "page", "reward": "amount"},
    {"sequence": "user", "time": "when", "state": "page", "terminated": True},
)  # fmt: skip
DATABASE: tuple[Options, ...] = (
    *TABLE, {"table": "events", "state": "page"}, {"query": "SELECT page AS state FROM events"}, {"table": "look"},
    {"query": "SELECT * FROM look"},
)  # fmt: skip
LINES: tuple[Options, ...] = ({}, {"end": "left"}, {"tidy": True, "top": 2}, {"initial": "stationary"})
WIDE: tuple[Options, ...] = (
    {"wide": "t1:t3"},
    {"wide": ["t1", "t3"], "sequence": "user"},
    {"wide": "t1:t3", "missing": "cut", "end": "over"},
)
RULES = {"base": "coding", "errors": False, "reply": "", "rule": [{"tool": "b.*", "arguments": "git", "state": "x"}]}
TRACES: tuple[Options, ...] = (
    {}, {"state_rules": "coding"}, {"state_rules": "names", "end": "left"}, {"tidy": True, "top": 2},
    {"state_rules": RULES},
)  # fmt: skip
VECTORS: tuple[Options, ...] = (
    {"state": ["amount"]}, {"state": ["amount", "when"], "sequence": "user"},
    {"state": ["amount", "when"], "sequence": "user", "time": "when", "terminated": "ended", "missing": "cut"},
)  # fmt: skip


def process(path: Path, **options: Any) -> None:
    """Read, and look at what came out."""
    found = read(path, **options)
    assert found.n_states == len(found.states) > 0
    repr(found)


def bins(path: Path) -> None:
    fit_bins([path], {"amount": 3})


def cost(path: Path) -> None:
    x, y = NamedProcess("x", random_walk(3)), NamedProcess("y", random_walk(2))
    assert build_cost(str(path), x, y).shape == (3, 2)


def checkpoint(path: Path) -> None:
    state = steps.load(path)
    assert 0 <= state.k <= state.settings.n_steps


def resumed(path: Path, **options: Any) -> None:
    x, y = random_walk(3), random_walk(2, 0.7)
    steps.solve(x, y, [[0, 1], [1, 1], [1, 0]], discount=0.9, n_steps=40, resume=path, **options)


def result(path: Path) -> None:
    found = Result.load(path)
    str(found), repr(found), float(found)
    found.matches(), found.diagnose(), found.encoder, found.decoder
    if found.plan is not None:
        found.plan.dense(), found.plan.state_law()


def prism(path: Path, **options: Any) -> None:
    repr(from_prism(path, **options))


def counted(path: Path, **options: Any) -> None:
    found = count_table(path, **options)
    assert found.n_states == len(found.states) > 0


def vectors(path: Path, **options: Any) -> None:
    found = read_vectors(path, **options)
    assert np.isfinite(found.points).all()


def matrix(path: Path) -> None:
    found = DistanceMatrix.load(path)
    str(found), repr(found)
    assert found.values.ndim == 2


def chunks(path: Path) -> None:
    """Go on with the matrix whose chunk file this is."""
    walks = [random_walk(3, p) for p in (0.3, 0.5, 0.7)]
    somcot.distance_matrix(walks, discount=0.9, checkpoint=path, resume=True)


def monitor(path: Path) -> None:
    found = Monitor.load(path)
    try:
        found.update([0, 1, 2, "new", 1, 0], [1, 1, 2, 2, 1, 1])
    except (TypeError, ValueError) as error:  # a file may ask for times, or have truth values as states
        if not str(error).startswith(("states:", "times:", "timeout:")):
            raise
    str((found.states, found.evidence, found.since, found.provisional))


TARGETS: dict[str, Target] = {
    "csv": Target(".csv", process, TABLE + TEXT),
    "csv.gz": Target(".csv.gz", process, TABLE),
    "tsv": Target(".tsv", process, TABLE),
    "jsonl": Target(".jsonl", process, TABLE),
    "jsonl.gz": Target(".jsonl.gz", process, TABLE),
    "parquet": Target(".parquet", process, TABLE),
    "json": Target(".json", process, (*TABLE, {"state": "page.name"})),
    "arrow": Target(".arrow", process, TABLE),
    "orc": Target(".orc", process, TABLE),
    "avro": Target(".avro", process, TABLE),
    "xlsx": Target(".xlsx", process, (*TABLE, {"table": "Sheet"}, {"table": "second"})),
    "sqlite": Target(".sqlite", process, DATABASE),
    "duckdb": Target(".duckdb", process, DATABASE, share=1),
    "csv.zip": Target(".csv.zip", process, TABLE),
    "csv.bz2": Target(".csv.bz2", process, TABLE),
    "csv.xz": Target(".csv.xz", process, TABLE),
    "csv.zst": Target(".csv.zst", process, TABLE),
    "sqlite.gz": Target(".sqlite.gz", process, DATABASE),
    "one sequence per line": Target(".seq", process, LINES),
    "wide table": Target(".wide.csv", process, WIDE),
    "traces": Target(".traj", process, TRACES),
    "traces by content": Target(".trace.json", process, TRACES),
    "bins": Target(".csv", bins),
    "xes": Target(".xes", process, LOG),
    "xes.gz": Target(".xes.gz", process, LOG),
    "prism": Target(".tra", prism, ({}, {"missing": "repeat"})),
    "counted csv": Target(".csv", counted, COUNTED),
    "counted parquet": Target(".parquet", counted, COUNTED),
    "vectors of a table": Target(".csv", vectors, VECTORS),
    "vectors of arrays": Target(".vectors.npz", vectors, ({}, {"missing": "cut"}, {"terminated": True})),
    "npy": Target(".npy", process, ARRAYS),
    "npy.gz": Target(".npy.gz", process, ARRAYS),
    "npz": Target(".npz", process, ARRAYS),
    "graphml": Target(".graphml", process, GRAPHML),
    "gml": Target(".gml", process, GRAPHML),
    "edges": Target(".edges", process, GRAPH),
    "edges.gz": Target(".edges.gz", process, GRAPH),
    "cost table": Target(".cost.csv", cost),
    "cost array": Target(".cost.npy", cost),
    "checkpoint": Target(".ck", checkpoint),
    "resume": Target(".ck", resumed, ({}, {"support": "observed"}), share=1),
    "result": Target(".result", result),
    "matrix": Target(".matrix", matrix),
    "chunks": Target(".chunks", chunks, share=1),
    "monitor": Target(".monitor", monitor, share=1),
    "baseline": Target(".somcot", process),
}


def corpus(target: Target) -> list[Path]:
    """The files kept for a target: seeds, and what was found with it and others of its ending."""
    found = sorted(path for path in CORPUS.iterdir() if path.name.split(".", 1)[1] == target.ending.removeprefix("."))
    assert found, f"no seed ends with {target.ending}"
    return found


def fault(target: Target, path: Path, options: Options) -> str | None:
    """What is wrong with how a file was taken; None where it was read, or refused as promised."""
    try:
        target.use(path, **options)
    except ALLOWED as error:
        return _unclear(error, path, options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _unclear(error: Exception, path: Path, options: Options) -> str | None:
    """A refusal names the file or the option, in one line; memory that was refused to C code has no words."""
    if isinstance(error, MemoryError) and not isinstance(error, somcot.MemoryLimitError):
        return None
    text = str(error)
    if not any(name in text for name in (os.fspath(path), *options)):
        return f"{type(error).__name__} does not say where: {text}"
    return None
