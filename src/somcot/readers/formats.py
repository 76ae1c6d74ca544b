"""The table of file formats, used by the readers, the command line, its help and the tests.

A new format is one row of `_FORMATS`; a new kind of file is one module with its reader, a row of `_KINDS` and a row for
each format. Rows contain text only, and a reader is imported on use. The options of a kind are those of its reader's
signature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from somcot.plumbing.records import load_function as load
from somcot.plumbing.records import option_names

if TYPE_CHECKING:
    from somcot.chains import MarkovChain
    from somcot.samples import Samples
    from somcot.timed import ContinuousChain

__all__ = ["ENDINGS", "FORMATS", "KINDS", "MAGIC", "Format", "ReaderKind", "endings_of", "kind_of"]


class ReaderKind(NamedTuple):
    """Files with one reader: their name, and ``"module:function"``, which takes an `Input` and options."""

    name: str
    plural: str
    reader: str

    def load(self) -> Callable[..., Samples | MarkovChain | ContinuousChain]:
        """The reader, imported on this call."""
        return load(self.reader)

    def options(self) -> tuple[str, ...]:
        """Names of the reader's options."""
        return tuple(name for name in option_names(self.load()) if name != "format")


class Format(NamedTuple):
    """A format: its name for ``--format``, the extensions of its files, its kind, and its identifying first bytes."""

    name: str
    endings: tuple[str, ...]
    kind: str
    magic: tuple[bytes, ...] = ()


# Readers by name rather than as functions: importing all of them would load every package.
_KINDS = (
    ReaderKind("table", "tables", "somcot.readers.tables.event_tables:from_table"),
    ReaderKind("log", "event logs", "somcot.readers.tables.event_tables:from_xes"),
    ReaderKind("traces", "traces of agents", "somcot.readers.traces:from_traces"),
    ReaderKind("arrays", "arrays", "somcot.readers.array_files:read_arrays"),
    ReaderKind("graph", "graphs", "somcot.readers.graphs:read_graph"),
    ReaderKind("baseline", "baselines", "somcot.readers.array_files:read_baseline"),
    ReaderKind("prism", "PRISM files", "somcot.readers.prism:read_prism"),
)
# Tables first; an ending belongs to one format only.
_FORMATS = (
    Format("csv", (".csv",), "table"),
    Format("tsv", (".tsv", ".tab"), "table"),
    Format("jsonl", (".jsonl", ".ndjson"), "table"),
    Format("json", (".json",), "table"),
    Format("parquet", (".parquet", ".pq"), "table", (b"PAR1",)),
    # Arrow's stream format begins with the marker 0xFFFFFFFF.
    Format("arrow", (".arrow", ".feather", ".ipc"), "table", (b"ARROW1", b"\xff\xff\xff\xff")),
    Format("orc", (".orc",), "table", (b"ORC",)),
    Format("avro", (".avro",), "table", (b"Obj\x01",)),
    Format("xlsx", (".xlsx",), "table"),
    Format("sqlite", (".sqlite", ".sqlite3", ".db"), "table", (b"SQLite format 3",)),
    Format("duckdb", (".duckdb",), "table"),
    Format("seq", (".seq",), "table"),
    Format("xes", (".xes",), "log"),
    Format("traces", (".traj",), "traces"),
    Format("npy", (".npy",), "arrays", (b"\x93NUM",)),
    # Zip archives; .xlsx files are archives too, but have their own ending.
    Format("npz", (".npz",), "arrays", (b"PK\x03\x04", b"PK\x05\x06")),
    Format("graphml", (".graphml",), "graph"),
    Format("gml", (".gml",), "graph"),
    Format("edges", (".edges", ".edgelist"), "graph"),
    Format("tra", (".tra",), "prism"),
    Format("somcot", (".somcot",), "baseline", (b"somcot checkpoint",)),
)
KINDS = {row.name: row for row in _KINDS}
FORMATS = {row.name: row for row in _FORMATS}
ENDINGS = {ending: row.name for row in _FORMATS for ending in row.endings}
# First bytes, for standard input and for files without a known ending.
MAGIC = {first: row.name for row in _FORMATS for first in row.magic}


def kind_of(format: str) -> ReaderKind:  # noqa: A002
    """The kind of file that a format belongs to.

    Examples
    --------
    >>> kind_of("tsv").name
    'table'
    """
    return KINDS[FORMATS[format].kind]


def endings_of(kind: str) -> list[str]:
    """The first extension of every format of a kind, for messages.

    Examples
    --------
    >>> endings_of("graph")
    ['.graphml', '.gml', '.edges']
    """
    return [row.endings[0] for row in _FORMATS if row.kind == kind]
