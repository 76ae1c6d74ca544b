"""A folder of files as one table: parts of one format, and ``key=value`` in the names of folders as columns."""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from somcot.readers.formats import ENDINGS, FORMATS
from somcot.readers.table import Table

__all__ = ["Part", "format_of_folder", "open_folder", "parts_of"]

_NOTHING = "__HIVE_DEFAULT_PARTITION__"
_MANY = 100_000


class Part(NamedTuple):
    """One file of a folder, and what the names of the folders above it say."""

    path: Path
    format: str
    keys: dict[str, str | None]


def parts_of(folder: Path) -> list[Part]:
    """All tables below a folder, in the order of their names, except hidden ones and those that begin with _."""
    found: list[Part] = []
    for where, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(files):
            format = ENDINGS.get(Path(name.removesuffix(".gz")).suffix.lower())  # noqa: A001
            if format is not None and not name.startswith((".", "_")) and FORMATS[format].kind == "table":
                path = Path(where, name)
                found.append(Part(path, format, _keys(path.parent.relative_to(folder))))
        if len(found) > _MANY:
            raise ValueError(f"{folder}: holds more than {_MANY:,} tables; name a folder further down")
    return sorted(found, key=lambda part: part.path.parts)


def _refuse(error: OSError) -> None:
    raise ValueError(f"{error.filename}: cannot be listed ({error.strerror}); check its owner and mode")


def _keys(inner: Path) -> dict[str, str | None]:
    pairs = (part.partition("=") for part in inner.parts if "=" in part)
    return {unquote(key): None if value == _NOTHING else unquote(value) for key, _, value in pairs}


def format_of_folder(folder: Path) -> str:
    """The one format of the tables in a folder."""
    parts = parts_of(folder)
    if not parts:
        known = ", ".join(ending for row in FORMATS.values() if row.kind == "table" for ending in row.endings)
        raise ValueError(f"{folder}: a folder without tables; expected files ending in {known}, or name a file")
    other = next((part for part in parts if part.format != parts[0].format), None)
    if other is not None:
        raise ValueError(
            f"{folder}: a folder with both {parts[0].path.name} and {other.path.name}, but a table has one format; "
            "name the file that you mean, or a folder further down"
        )
    return parts[0].format


def open_folder(folder: Path, opened: Callable[[Path, str], AbstractContextManager[Table]]) -> Table:
    """All files below a folder as one table; `opened` opens one of them."""
    parts = parts_of(folder)
    begins: list[int] = []  # how many rows were read before each part
    with opened(parts[0].path, parts[0].format) as first:
        columns, is_text = list(first.columns), first.is_text
    keys = [key for key in parts[0].keys if key not in columns]

    def batches(wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
        n_rows = 0
        for part in parts:
            begins.append(n_rows)
            with opened(part.path, part.format) as table:
                own = [name for name in wanted if name not in keys]
                _check_part(folder, part, table, own, [name for name in wanted if name in keys])
                for batch in table.batches(own or table.columns[:1]):
                    n = len(next(iter(batch.values())))
                    n_rows += n
                    yield {name: batch[name] if name in own else [part.keys[name]] * n for name in wanted}

    def place(number: int) -> str:
        k = bisect.bisect_right(begins, number - 1) - 1
        return f"{parts[k].path.relative_to(folder)}: row {number - begins[k]}"

    return Table(str(folder), [*columns, *keys], is_text, batches, place)


def _check_part(folder: Path, part: Part, table: Table, own: list[str], keys: list[str]) -> None:
    for name in own:
        if table.columns.count(name) != 1:
            raise ValueError(
                f"{part.path}: there is no single column {name!r}, which other files in {folder} have; write them alike"
            )
    for key in keys:
        if key not in part.keys:
            raise ValueError(f"{part.path}: no folder above it is called {key}=..., as with other files in {folder}")
