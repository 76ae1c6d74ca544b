"""Events from standard input or a growing CSV file, block by block, with the place in the file after each."""

from __future__ import annotations

import csv
import os
import select
import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.live.monitor import Monitor
from somcot.live.sequences import text_keys
from somcot.plumbing.arrays import Codes, Floats
from somcot.readers.tables.columns import NUMBERS_OR_TIMES

__all__ = ["BrokenLineError", "EventBlock", "EventColumns", "Feed", "Place"]

_BLOCK = 1 << 22
_PAUSE = 0.2  # seconds between two looks at a file that may grow
_DEFAULTS = {"state": ("state",), "sequence": ("sequence", "episode", "trajectory"), "time": ("time", "timestamp")}


class BrokenLineError(ValueError):
    """A line that cannot be read, where that is reason to stop."""

    line = 0


class EventColumns(NamedTuple):
    """Columns by what they are for, as asked for; found by their usual names otherwise."""

    state: tuple[str, ...]
    sequence: str | None
    time: str | None

    def among(self, source: str, names: list[str]) -> EventColumns:
        """The columns of a header; a clear refusal where one is missing."""
        for name in (*self.state, self.sequence, self.time):
            if name is not None and name not in names and name != "file":
                raise ValueError(f"{source}: no column {name!r}; the columns are {', '.join(names[:20])}")
        found = {what: next((n for n in known if n in names), None) for what, known in _DEFAULTS.items()}
        state = self.state or ((found["state"],) if found["state"] else tuple(names) if len(names) == 1 else ())
        if not state:
            raise ValueError(f"{source}: which column holds the state? Pass --state, one of {', '.join(names[:20])}")
        moment = self.time or found["time"]
        return EventColumns(state, self.sequence or found["sequence"], None if moment == "file" else moment)


@dataclass
class Place:
    """Where in the source the next block begins, and what was left out so far."""

    offset: int = 0
    line: int = 1
    broken: int = 0
    names: list[str] | None = None


class EventBlock(NamedTuple):
    """Events as a monitor takes them."""

    codes: Codes
    keys: NDArray[np.uint64] | None
    times: Floats
    dated: bool | None


class Feed:
    """Reads lines as they come; ``place`` is always just after the last block that was handed out."""

    def __init__(
        self,
        path: str,
        monitor: Monitor,
        roles: EventColumns,
        place: Place,
        *,
        follow: bool,
        skip: bool,
        delimiter: str | None,
    ) -> None:
        self.name = "standard input" if path == "-" else path
        self.monitor, self.roles, self.place = monitor, roles, place
        self.follow, self.skip, self.delimiter = follow, skip, delimiter
        self._stream = path == "-"
        self._file = os.dup(0) if self._stream else os.open(Path(path).expanduser(), os.O_RDONLY)
        if not self._stream:
            self._stream = not os.path.isfile(path)  # a pipe with a name
        self._left = b""
        self._whole = bool(self.monitor.reference.states) and all(type(s) is int for s in monitor.reference.states)
        self._kind: Any = None
        if not self._stream:
            self._seek()

    def _seek(self) -> None:
        size = os.fstat(self._file).st_size
        if size < self.place.offset:
            raise ValueError(
                f"{self.name}: is shorter ({size:,} bytes) than what was read of it ({self.place.offset:,}); it is "
                "another file, or was cut: use another --state-file"
            )
        os.lseek(self._file, self.place.offset, os.SEEK_SET)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def blocks(self) -> Iterator[EventBlock | None]:
        """Blocks of events; None while there is nothing new."""
        while True:
            data = self._read()
            if data is None:
                yield None
                continue
            ended = not data
            lines, sign, rest = (self._left + data).rpartition(b"\n")
            if ended and self._left:
                lines, sign, rest = self._left, b"", b""
            self._left = rest if sign or ended else self._left + data
            if sign or ended:
                yield from self._events(lines + sign)
            if len(self._left) > _BLOCK:
                raise ValueError(
                    f"{self.name}: line {self.place.line} is longer than {_BLOCK >> 20} MB; is this a CSV file?"
                )
            if ended:
                return

    def _read(self) -> bytes | None:
        """More bytes; None: not yet; empty: never."""
        if self._stream and not select.select([self._file], [], [], 0.5)[0]:
            return None
        data = os.read(self._file, _BLOCK)
        while self._stream and data and len(data) < _BLOCK and select.select([self._file], [], [], 0.0)[0]:
            more = os.read(self._file, _BLOCK - len(data))
            if not more:
                break
            data += more
        if data or self._stream or not self.follow:
            return data
        if os.fstat(self._file).st_size < self.place.offset:
            raise ValueError(f"{self.name}: became shorter while it was read; start anew, or pipe it: tail -F FILE |")
        time.sleep(_PAUSE)
        return None

    def _events(self, data: bytes) -> Iterator[EventBlock]:
        """The events of some lines as one block, with the place moved behind them: all of them count, or none."""
        if self.place.names is None and data:
            header, sign, data = data.partition(b"\n")
            self._read_header(header)
            self.place.offset += len(header) + len(sign)
        elif self.place.line == 1 and data and self._header_again(data):  # standard input, after a restart
            data = data.partition(b"\n")[2]
        first, error = self.place.line, None
        found: list[EventBlock] = []
        try:
            found.extend(self._parsed(data) if data.strip() else ())
        except BrokenLineError as broken:  # those before it are good
            error = broken
            data = b"".join(data.splitlines(keepends=True)[: broken.line - first])
            self.place.line = first
            found = list(self._parsed(data)) if data.strip() else []
        self.place.offset += len(data)
        self.place.line = first + data.count(b"\n")
        if found:
            yield _joined(found)
        if error is not None:
            raise error

    def _header_again(self, data: bytes) -> bool:
        first = data.partition(b"\n")[0].decode("utf-8-sig", "replace").strip("\r\n ")
        found = bool(self._stream and first == self._delimiter().join(self.place.names or []))
        self.place.line += found
        return found

    def _read_header(self, line: bytes) -> None:
        try:
            text = line.decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError:
            raise ValueError(f"{self.name}: line 1 is not valid UTF-8; expected a header with column names") from None
        if not text.strip() or "\0" in text:
            raise ValueError(f"{self.name}: line 1 is empty or binary; expected a CSV header with column names")
        if self.delimiter is None:
            self.delimiter = "," if "," in text else max((",", "\t", ";", "|"), key=text.count)
        names = [name.strip() for name in next(csv.reader([text], delimiter=self.delimiter))]
        self.roles.among(self.name, names)
        self.place.names = names
        self.place.line += 1

    def _delimiter(self) -> str:
        if self.delimiter is None:
            raise ValueError(f"{self.name}: which sign parts the columns? Pass --delimiter")
        return self.delimiter

    def _parsed(self, data: bytes) -> Iterator[EventBlock]:
        """The events of whole lines; broken ones are left out and counted, or the reason to stop after those before."""
        import pyarrow as pa

        table, broken = None, 0
        try:
            table, broken = self._table(data)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            lines = data.splitlines(keepends=True)
            if len(lines) > 1:
                half = len(lines) // 2
                yield from self._parsed(b"".join(lines[:half]))
                before, self.place.line = self.place.line, self.place.line + half
                try:
                    yield from self._parsed(b"".join(lines[half:]))
                finally:
                    self.place.line = before
                return
            if not self.skip:
                why = str(error).splitlines()[0][:160]
                if "error to double" in why:
                    why = f"{why.rpartition('invalid value ')[2]} as a time: expected {NUMBERS_OR_TIMES}"
                broken_line = BrokenLineError(
                    f"{self.name}: line {self.place.line} is broken ({why}); correct it, or pass --broken skip"
                )
                broken_line.line = self.place.line
                raise broken_line from None
            broken = 1
        self.place.broken += broken
        if table is not None and table.num_rows:
            yield self._block(table)

    def _table(self, data: bytes) -> tuple[Any, int]:
        """The columns that matter, and how many lines were left out; an error where that is reason to stop."""
        import pyarrow as pa
        from pyarrow import compute
        from pyarrow import csv as pacsv

        names = self.place.names or []
        roles = self.roles.among(self.name, names)
        if roles.time is not None and self._kind is None:
            self._kind = self._kind_of_times(data, names, roles.time)
        text = pa.dictionary(pa.int32(), pa.string())
        types: dict[str, Any] = dict.fromkeys(roles.state, text)
        if roles.sequence is not None:
            types[roles.sequence] = pa.string()
        if roles.time is not None:
            types[roles.time] = self._kind
        skipped: list[Any] = []

        def broken_row(row: Any) -> str:
            skipped.append(row)
            return "skip" if self.skip else "error"

        table = pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
            parse_options=pacsv.ParseOptions(delimiter=self._delimiter(), invalid_row_handler=broken_row),
            convert_options=pacsv.ConvertOptions(
                column_types=types, include_columns=list(types), strings_can_be_null=False
            ),
        )
        empty = None
        for name, kind in types.items():
            column = table.column(name)
            mask = compute.is_null(column) if name == roles.time else None
            if kind == text:
                gaps = [c for c in column.chunks if "" in c.dictionary.to_pylist()]
                mask = compute.equal(column.cast(pa.string()), "") if gaps else None
            elif kind == pa.string():
                mask = compute.equal(compute.binary_length(column), 0)
            if mask is not None and compute.any(mask).as_py():
                empty = mask if empty is None else compute.or_(empty, mask)
        if empty is None:
            return table, len(skipped)
        if not self.skip:
            raise pa.ArrowInvalid("state, sequence or time is missing")
        return table.filter(compute.invert(empty)), len(skipped) + compute.sum(empty).as_py()

    def _kind_of_times(self, data: bytes, names: list[str], column: str) -> Any:
        """Numbers or dates, as the first readable line has it; microseconds where nanoseconds do not reach."""
        import pyarrow as pa

        kinds = [pa.float64(), *(pa.timestamp(unit, tz=zone) for zone in (None, "UTC") for unit in ("ns", "us"))]
        for line in data.splitlines()[:1000]:
            row = next(csv.reader([line.decode("utf-8", "replace")], delimiter=self._delimiter()), [])
            if len(row) != len(names):
                continue
            for kind in kinds:
                try:
                    pa.array([row[names.index(column)]]).cast(kind)
                except pa.ArrowInvalid:
                    continue
                return kind
        return kinds[0]

    def _block(self, table: Any) -> EventBlock:
        import pyarrow as pa

        table = table.combine_chunks()
        roles = self.roles.among(self.name, self.place.names or [])
        codes = self._codes([table.column(name).chunk(0) for name in roles.state])
        keys = None if roles.sequence is None else text_keys(table.column(roles.sequence).chunk(0))
        if roles.time is None:
            return EventBlock(codes, keys, np.zeros(0), None)
        moments = table.column(roles.time).chunk(0)
        dated = not pa.types.is_floating(moments.type)
        numbers = (moments.cast(pa.int64()) if dated else moments).to_numpy(zero_copy_only=False)
        if dated and moments.type.unit == "ns":
            numbers = numbers // 1000
        return EventBlock(codes, keys, numbers.astype(np.float64), dated)

    def _codes(self, columns: list[Any]) -> Codes:
        """Codes of the states; several columns make up tuples."""
        labels: list[Any] = [self._labels(column.dictionary.to_pylist()) for column in columns]
        places = [column.indices.to_numpy(zero_copy_only=False) for column in columns]
        if len(columns) == 1:
            found = labels[0]  # in the order in which they come; the empty one belongs to lines left out
            table = np.zeros(len(found), dtype=np.int32)
            named = [k for k, label in enumerate(found) if label != ""]
            table[named] = self.monitor.codes([found[k] for k in named])
            codes: Codes = table[places[0]]
            return codes
        rows = zip(*(place.tolist() for place in places), strict=True)
        return self.monitor.codes([tuple(part[k] for part, k in zip(labels, row, strict=True)) for row in rows])

    def _labels(self, texts: list[str]) -> list[Hashable]:
        """Labels as the reference has them: whole numbers where all of its are."""
        if not self._whole:
            return [*texts]
        return [int(text) if text.lstrip("-").isdigit() and len(text) < 19 else text for text in texts]


def _joined(blocks: list[EventBlock]) -> EventBlock:
    if len(blocks) == 1:
        return blocks[0]
    keys = None if blocks[0].keys is None else np.concatenate([b.keys for b in blocks if b.keys is not None])
    codes, times = (np.concatenate([getattr(b, name) for b in blocks]) for name in ("codes", "times"))
    return EventBlock(codes, keys, times, blocks[0].dated)
