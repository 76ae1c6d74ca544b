"""Tables of events: files and frames as batches of columns, rows sorted into sequences, sequences as `Samples`.

This module holds the record that all sources of rows share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

from numpy.typing import NDArray

__all__ = ["Array", "ArrowArray", "ArrowTable", "ArrowType", "Batch", "Entry", "Frame", "Rows", "Table"]

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
    cast: Callable[..., ArrowArray]
    combine_chunks: Callable[[], ArrowArray]
    dictionary_decode: Callable[[], ArrowArray]
    dictionary_encode: Callable[[], ArrowArray]
    drop_null: Callable[[], ArrowArray]
    fill_null: Callable[[float], ArrowArray]
    flatten: Callable[[], ArrowArray]
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
