"""The record that every source of rows becomes before its columns are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = ["Table"]


def _row(number: int) -> str:
    return f"row {number}"


class Table(NamedTuple):
    """A table that is not read yet: its columns by name, and how to get batches of some of them.

    Attributes
    ----------
    name : str
        What to call it in messages.
    columns : list of str
    is_text : bool
        Whether entries are text that may mean numbers.
    batches : callable
        ``batches(wanted)`` yields mappings of the names wanted to lists or Arrow arrays of one length.
    place : callable
        ``place(k)`` names the k-th row read, from 1 on, in a message.
    complete : bool
        Whether `columns` are all there are; otherwise `batches` complains of those that do not exist.
    classifiers : mapping
        Names for several columns that make up a state, which event logs may have.
    """

    name: str
    columns: list[str]
    is_text: bool
    batches: Callable[[Sequence[str]], Iterator[dict[str, Any]]]
    place: Callable[[int], str] = _row
    complete: bool = True
    classifiers: Mapping[str, list[str]] = MappingProxyType({})
