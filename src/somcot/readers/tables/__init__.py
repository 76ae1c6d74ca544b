"""Tables of events: files and frames as batches of columns, rows sorted into sequences, sequences as `Samples`.

This module holds the records that all sources of rows share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from somcot.readers.opening import Input

__all__ = [
    "LONGEST_LINE",
    "Array",
    "ArrowArray",
    "ArrowTable",
    "ArrowType",
    "Batch",
    "Entry",
    "FileOptions",
    "Frame",
    "Rows",
    "Table",
    "to_arrow",
    "to_numpy",
]

LONGEST_LINE = 1 << 22  # bytes of a row as text

# pyarrow's objects and data frames
Array: TypeAlias = NDArray[Any]
ArrowType: TypeAlias = Any
ArrowTable: TypeAlias = Any
Frame: TypeAlias = Any  # of pandas, polars or any library with columns; its methods are found by duck typing


class ArrowArray(Protocol):
    """The methods used of an Arrow array or chunked array."""

    type: ArrowType
    null_count: int
    chunks: list[ArrowArray]
    dictionary: ArrowArray  # for dictionary-encoded arrays
    indices: ArrowArray
    buffers: Callable[[], list[Any]]
    cast: Callable[..., ArrowArray]
    combine_chunks: Callable[[], ArrowArray]
    dictionary_decode: Callable[[], ArrowArray]
    dictionary_encode: Callable[[], ArrowArray]
    drop_null: Callable[[], ArrowArray]
    equals: Callable[[ArrowArray], bool]
    fill_null: Callable[[float], ArrowArray]
    flatten: Callable[[], ArrowArray]
    slice: Callable[..., ArrowArray]
    take: Callable[[ArrowArray], ArrowArray]
    to_numpy: Callable[..., Array]
    to_pylist: Callable[[], list[Entry]]

    def __len__(self) -> int: ...
    def __getitem__(self, i: int, /) -> object: ...
    def __iter__(self) -> Iterator[Entry]: ...


Entry: TypeAlias = Any  # entry of a column: text, a number, a date, a list, None
Batch: TypeAlias = Sequence[Entry] | ArrowArray  # a batch of entries of a column
Rows: TypeAlias = Mapping[str, Batch]


def _row(number: int) -> str:
    return f"row {number}"


class Table(NamedTuple):
    """A table before reading: its columns by name, and a function that yields batches of some of them.

    Attributes
    ----------
    name : str
        Name of the table in messages.
    columns : list of str
    is_text : bool
        Whether entries are text that may represent numbers.
    batches : callable
        ``batches(wanted)`` yields mappings from the requested names to lists or Arrow arrays of one length.
    place : callable
        ``place(k)`` names the k-th row read, starting at 1, in a message.
    complete : bool
        Whether `columns` is exhaustive; otherwise `batches` reports columns that do not exist.
    classifiers : mapping
        Names for combinations of columns that form a state, as in event logs.
    defaults : mapping
        The columns of the roles "state", "sequence" and "time", where the format knows them.
    """

    name: str
    columns: list[str]
    is_text: bool
    batches: Callable[[Sequence[str]], Iterator[Rows]]
    place: Callable[[int], str] = _row
    complete: bool = True
    classifiers: Mapping[str, list[str]] = MappingProxyType({})
    defaults: Mapping[str, str] = MappingProxyType({})


class FileOptions(NamedTuple):
    """How to open a file; the names are those of `from_table`, `from_xes` and `from_traces`."""

    encoding: str = "utf-8"
    delimiter: str | None = None
    lifecycle: str | None = None
    table: str | None = None
    query: str | None = None
    wide: str | Sequence[str] | None = None
    state_rules: object = None

    def refuse_unused(self, source: Input) -> None:
        """Refuse options of other formats, which would have no effect."""
        for name, formats in (("table", ("xlsx", "sqlite", "duckdb")), ("query", ("sqlite", "duckdb"))):
            if getattr(self, name) is not None and source.format not in formats:
                raise ValueError(
                    f"{name}: only for {' and '.join(formats)} files, but {source.name} is not; leave it out"
                )
        if self.table is not None and self.query is not None:
            raise ValueError("query: both table and query are given; leave one out")


# pyarrow's own conversions import pandas wherever it is installed, which takes 45 MB and more time than most files.


def to_numpy(values: ArrowArray) -> Array:
    """Numbers or truth values of an Arrow array, without a copy if possible."""
    import pyarrow as pa

    if values.null_count or hasattr(values, "chunks"):
        return values.to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(values.type):
        flags: Array = np.from_dlpack(values.cast(pa.uint8())).view(np.bool_)  # type: ignore[arg-type]
        return flags
    if pa.types.is_integer(values.type) or pa.types.is_float64(values.type):
        numbers: Array = np.from_dlpack(values)  # type: ignore[arg-type]
        return numbers
    return values.to_numpy(zero_copy_only=False)


def to_arrow(numbers: NDArray[np.int64]) -> ArrowArray:
    """Integers as an Arrow array that shares their memory."""
    import pyarrow as pa

    shared: ArrowArray = pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
    return shared
