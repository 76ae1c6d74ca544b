"""CSV: header, options and errors for all readers, and a growing file or a pipe as blocks of events.

Complete files are read by `batches`, which streams them through Arrow. A growing file is read here line by line, since
an Arrow stream does not report where the last valid line ended, which is needed to resume.
"""

from __future__ import annotations

import csv
import os
import re
import select
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Codes, Floats
from somcot.readers.opening import format_of
from somcot.readers.tables import LONGEST_LINE, ArrowArray, ArrowTable, ArrowType
from somcot.readers.tables.columns import ColumnRoles, is_whole
from somcot.readers.tables.numbers_and_times import NUMBERS_OR_TIMES, time_types, to_iso, with_times
from somcot.readers.tables.rotation import LogFile, Place

__all__ = ["BrokenLineError", "EventBlock", "Feed", "Header", "Place", "csv_options", "explain"]

_BLOCK = LONGEST_LINE  # bytes per read from a growing file
_PAUSE = 0.2  # seconds between two reads of a file that may grow
_FOREIGN = {
    b"PK\x03\x04": "a zip archive or a spreadsheet", b"\xfd7zXZ": "an xz archive", b"BZh": "a bzip2 archive",
    b"\x28\xb5\x2f\xfd": "a zstandard archive", b"7z\xbc\xaf": "a 7z archive", b"PAR1": "a Parquet file",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet", b"%PDF": "a PDF file", b"\x1f\x8b": "a gzip archive",
}  # fmt: skip


# --- Common parts: the header, the options of Arrow's reader, and its errors


class Header(NamedTuple):
    """The first line: names of the columns, and the delimiter.

    Attributes
    ----------
    name : str
        Name of the file in messages.
    columns : list of str
    delimiter : str
    """

    name: str
    columns: list[str]
    delimiter: str

    @classmethod
    def read(
        cls,
        line: bytes,
        name: str,
        delimiter: str | None = None,
        *,
        recode: str = "pass encoding='{}'",
        expected: str = "a header with column names",
    ) -> Header:
        r"""From the first line of a file; refuse compressed, binary and empty files, and guess the delimiter.

        Parameters
        ----------
        line : bytes
            At least the first bytes of an overlong line.
        name : str
            Name of the file in messages.
        delimiter : str, optional
            By default a comma if there is one, otherwise the most frequent of tab, semicolon and bar.
        recode : str
            Remedy for another encoding, which is inserted at ``{}``.
        expected : str
            Description of the expected line.

        Examples
        --------
        >>> Header.read(b"\xef\xbb\xbfuser; page", "log.csv")
        Header(name='log.csv', columns=['user', 'page'], delimiter=';')
        """
        if len(line) > LONGEST_LINE and b"\0" not in line:
            raise ValueError(f"{name}: line 1 is longer than {LONGEST_LINE >> 20} MB; expected {expected}")
        packed = next((what for first, what in _FOREIGN.items() if line.startswith(first)), None)
        if packed is not None:
            raise ValueError(f"{name}: line 1 begins like {packed}; expected text: unpack it, or save it as CSV")
        try:
            text = line.decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError:
            likely = "utf-16" if line[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1 or cp1252"
            raise ValueError(f"{name}: line 1 is not valid UTF-8; {recode.format(likely)}") from None
        if not text.strip() or "\0" in text:
            binary = f"binary data, or UTF-16 (then {recode.format('utf-16-le')})"
            what = binary if "\0" in text else "an empty line"
            raise ValueError(f"{name}: line 1 is {what}; expected {expected}")
        # A comma wins even if other signs are more frequent: these are common in names.
        mark = delimiter or ("," if "," in text else max((",", "\t", ";", "|"), key=text.count))
        if len(mark) != 1:
            raise ValueError(f"delimiter: found {mark!r}, expected a single character")
        try:
            columns = [column.strip() for column in next(csv.reader([text], delimiter=mark), [])]
        except csv.Error as error:
            why = "check line ends and quotes"
            if "\r" in text:
                why = r"lines end with a carriage return alone, convert them: tr '\r' '\n' < OLD > NEW"
            raise ValueError(f"{name}: line 1 is no header ({str(error).partition(' - ')[0]}); {why}") from None
        return cls(name, columns, mark)

    @property
    def complete(self) -> bool:
        """Whether `columns` is exhaustive."""
        return True

    def unique(self) -> list[str]:
        """The names, with suffixes added to repeated and empty ones, which cannot be used."""
        first = {name: k for k, name in reversed(list(enumerate(self.columns)))}
        return [name if first[name] == k else f"{name} #{k}" for k, name in enumerate(self.columns)]


def csv_options(
    header: Header,
    types: Mapping[str, ArrowType],
    block: int,
    *,
    newlines: bool = True,
    skip_empty: bool = False,
    on_bad_row: Callable[[object], str] | None = None,
) -> dict[str, Any]:
    """The options of Arrow's CSV readers.

    Parameters
    ----------
    header : Header
        The header, already read.
    types : mapping of str to Arrow type
        The columns to be read.
    block : int
        Bytes parsed per block, hence the longest line.
    newlines : bool
        Whether quoted values may contain line ends.
    skip_empty : bool
        Whether to ignore empty lines also in a table of one column, where they otherwise are missing entries.
    on_bad_row : callable, optional
        How to treat a row with too many or too few entries: "skip" or "error".
    """
    from pyarrow import csv as pacsv

    return {
        "read_options": pacsv.ReadOptions(column_names=header.unique(), block_size=block, use_threads=False),
        "parse_options": pacsv.ParseOptions(
            delimiter=header.delimiter,
            newlines_in_values=newlines,
            ignore_empty_lines=skip_empty or len(header.columns) > 1,
            invalid_row_handler=on_bad_row,
        ),
        "convert_options": pacsv.ConvertOptions(
            column_types=types, include_columns=list(types), strings_can_be_null=False
        ),
    }


def explain(text: str) -> tuple[int | None, str]:
    """The meaning of Arrow's error about CSV: the row, starting at 1, if known, and the problem.

    Examples
    --------
    >>> explain("CSV parse error: Row #3: Expected 2 columns, got 1: a")
    (3, '1 columns, the header has 2')
    """
    row = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text)
    if row:
        return int(row[1]), f"{row[3]} columns, the header has {row[2]}"
    if "straddl" in text:
        return None, f"longer than {LONGEST_LINE >> 20} MB"
    if "invalid utf8" in text.lower():
        return None, "not valid UTF-8"
    first = text.strip().partition("\n")[0] or "cannot be read"
    if "error to double" in first or "error to timestamp" in first:
        return None, f"{first.rpartition('invalid value ')[2]} as a time: expected {NUMBERS_OR_TIMES}, or --time-format"
    return None, first[:160]


# --- A growing file, or a pipe


class BrokenLineError(ValueError):
    """A line that cannot be read, if that ends the reading."""

    line = 0


class EventBlock(NamedTuple):
    """Events in the form that a monitor takes."""

    codes: Codes
    keys: NDArray[np.uint64] | None
    times: Floats
    dated: bool | None


class Feed:
    """Reads lines as they arrive; ``place`` is always just after the last block that was returned.

    Parameters
    ----------
    path : str
        A file, or "-" for standard input.
    codes : callable
        Maps a list of labels to codes.
    keys : callable
        Maps an Arrow array of texts, the names of sequences, to numbers.
    roles : ColumnRoles
        Columns as named by the user.
    place : Place
        Starting position.
    states : sequence
        Labels of the process that the events are compared with: if a column of them holds integers, so does
        the column of the events.
    follow : bool
        Wait for more at the end of a file.
    skip : bool
        Skip broken lines instead of stopping there.
    delimiter : str, optional
    columns : sequence of str, optional
        Names of the columns of a source without a header.
    note : callable
        Takes messages for the user.
    """

    def __init__(
        self,
        path: str,
        codes: Callable[[list[Hashable]], Codes],
        keys: Callable[[ArrowArray], NDArray[np.uint64]],
        roles: ColumnRoles,
        place: Place,
        *,
        states: Sequence[Hashable] = (),
        follow: bool,
        skip: bool,
        delimiter: str | None,
        columns: Sequence[str] = (),
        note: Callable[[str], None] = print,
    ) -> None:
        self.name = "standard input" if path == "-" else path
        self._path, self._note, self._columns = Path(path).expanduser(), note, tuple(columns)
        self.codes, self.keys, self.roles, self.place, self.states = codes, keys, roles, place, states
        self.follow, self.skip = follow, skip
        self.delimiter = delimiter or ("\t" if format_of(path) == "tsv" else None)
        self._stream = path == "-"
        if not self._stream:
            self._stream = self._path.exists() and not self._path.is_file()  # a named pipe
        self._log: LogFile | None = None
        if path == "-":
            self._pipe = os.dup(0)
        elif self._stream:
            self._pipe = os.open(self._path, os.O_RDONLY)
        else:
            self._log = LogFile(self._path, place, follow=follow, note=note)
        self._left = b""
        self._header: Header | None = None
        self._types: dict[str, ArrowType] = {}  # types of the columns that are read
        self._whole: list[bool] = []  # for each state column, whether the labels are integers

    def close(self) -> None:
        """Close the file."""
        os.close(self._pipe if self._log is None else self._log.descriptor)

    def blocks(self) -> Iterator[EventBlock | None]:
        """Blocks of events; None while there is nothing new."""
        while True:
            data = self._read()
            if data is None:
                yield None
                continue
            ended = not data
            # Only complete lines are parsed; the rest waits for more bytes.
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
            if ended and (self._log is None or not self._log.is_over()):
                return

    def _read(self) -> bytes | None:
        """More bytes; None: not yet; empty: end of the stream."""
        if self._log is not None:
            return self._read_log(self._log)
        if not select.select([self._pipe], [], [], 0.5)[0]:
            return None
        data = os.read(self._pipe, _BLOCK)
        while data and len(data) < _BLOCK and select.select([self._pipe], [], [], 0.0)[0]:
            more = os.read(self._pipe, _BLOCK - len(data))
            if not more:
                break
            data += more
        return data

    def _read_log(self, log: LogFile) -> bytes | None:
        if not log.check():
            self._left = b""
        data = os.read(log.descriptor, _BLOCK)
        if data:
            return data
        if log.is_over():
            if self._left:  # the last line of a file that will not grow, without a line end
                return b""
            log.take_next()
            return None
        if self.follow:
            time.sleep(_PAUSE)
        return None if self.follow else b""

    def _events(self, data: bytes) -> Iterator[EventBlock]:
        """The events of some lines as one block, with the position advanced: all of them count, or none."""
        if data and (self.place.names is None or self.place.line == 1):
            data = self._after_header(data)
        if self._stream:
            data = self._without_headers(data)
        first, error = self.place.line, None
        blocks: list[EventBlock] = []
        try:
            blocks.extend(self._parsed(data) if data.strip() else ())
        except BrokenLineError as broken:  # the lines before it are valid
            error = broken
            data = b"".join(data.splitlines(keepends=True)[: broken.line - first])
            self.place.line = first
            blocks = list(self._parsed(data)) if data.strip() else []
        self.place.advance(data)
        self.place.line = first + data.count(b"\n")
        if blocks:
            yield _joined(blocks)
        if error is not None:
            raise error

    def _after_header(self, data: bytes) -> bytes:
        """The first lines, also after a restart or a rotation, without their header."""
        header, sign, rest = data.partition(b"\n")
        if self.place.names is None and self._columns:
            self._name_columns(header)
        if self.place.names is None:
            self._read_header(header)
        elif not self._is_header(header):
            return data
        self.place.line = 2
        self.place.advance(header + sign)
        return rest

    def _is_header(self, line: bytes) -> bool:
        try:
            return Header.read(line, self.name, self.delimiter).columns == self.place.names
        except ValueError:
            return False

    def _without_headers(self, data: bytes) -> bytes:
        """The lines without copies of the header, which ``tail -F`` passes on with every new file."""
        first = (self.place.names or [""])[0].encode()
        if not first or first not in data:
            return data
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if first not in line or not self._is_header(line))

    def _name_columns(self, line: bytes) -> None:
        """Columns named by the user; the first line tells the delimiter and their number."""
        header = Header.read(line, self.name, self.delimiter, expected="values")
        if len(header.columns) != len(self._columns):
            raise ValueError(
                f"{self.name}: line 1 has {len(header.columns)} values, but --columns names {len(self._columns)}"
            )
        named = header._replace(columns=list(self._columns))
        self.roles.among(named)
        self.delimiter, self.place.names = header.delimiter, named.columns

    def _read_header(self, line: bytes) -> None:
        header = Header.read(line, self.name, self.delimiter, recode="convert it to UTF-8 from {}")
        self.roles.among(header)
        self.delimiter, self.place.names = header.delimiter, header.columns

    def _known(self, data: bytes) -> Header:
        """The header, possibly from an earlier run; the first lines determine the types of its columns."""
        if self._header is None:
            if self.delimiter is None:
                raise ValueError(f"{self.name}: the delimiter is unknown; pass --delimiter")
            self._header = Header(self.name, self.place.names or [], self.delimiter)
            self.roles = self.roles.among(self._header)
            self._types = self._column_types(self._header, data)
            n = len(self.roles.state)
            tuples = [s if isinstance(s, tuple) else (s,) for s in self.states]
            # A column holds integers or text, so one label suffices; the last state may be of another kind.
            self._whole = [any(len(s) == n and type(s[k]) is int for s in tuples) for k in range(n)]
        return self._header

    def _column_types(self, header: Header, data: bytes) -> dict[str, ArrowType]:
        import pyarrow as pa

        types: dict[str, ArrowType] = dict.fromkeys(self.roles.state, pa.dictionary(pa.int32(), pa.string()))
        if self.roles.sequence is not None:
            types[self.roles.sequence] = pa.string()
        if (name := self.roles.time) is not None:
            types[name] = pa.string() if self.roles.time_format else _time_type(header, name, data)
        return types

    def _parsed(self, data: bytes) -> Iterator[EventBlock]:
        """The events of complete lines; broken lines are skipped and counted, or end the block before them."""
        import pyarrow as pa

        table, broken = None, 0
        try:
            table, broken = self._table(data)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            lines = data.splitlines(keepends=True)
            # Halving finds the broken line in a logarithmic number of attempts.
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
                what = f"line {self.place.line} is broken ({explain(str(error))[1]})"
                broken_line = BrokenLineError(f"{self.name}: {what}; correct it, or pass --broken skip")
                broken_line.line = self.place.line
                raise broken_line from None
            broken = 1
        self.place.broken += broken
        if table is not None and table.num_rows:
            yield self._block(table)

    def _table(self, data: bytes) -> tuple[ArrowTable, int]:
        """The required columns, and the number of skipped lines; raises an error if a broken line ends the reading."""
        import pyarrow as pa
        from pyarrow import compute
        from pyarrow import csv as pacsv

        header, skipped = self._known(data), 0

        def broken_row(_: object) -> str:
            nonlocal skipped
            skipped += 1
            return "skip" if self.skip else "error"

        options = csv_options(
            header, self._types, len(data) + 1, newlines=False, skip_empty=True, on_bad_row=broken_row
        )
        table = pacsv.read_csv(pa.BufferReader(data), **options)
        empty = None
        for name, kind in self._types.items():
            mask = _gaps(table.column(name), kind)
            if mask is not None and compute.any(mask).as_py():
                empty = mask if empty is None else compute.or_(empty, mask)
        if empty is not None and not self.skip:
            raise pa.ArrowInvalid("state, sequence or time is missing")
        if empty is not None:
            table, skipped = table.filter(compute.invert(empty)), skipped + compute.sum(empty).as_py()
        return with_times(table, self.name, self.roles.time, self.roles.time_format), skipped

    def _block(self, table: ArrowTable) -> EventBlock:
        import pyarrow as pa

        table, roles = table.combine_chunks(), self.roles
        codes = self._codes([table.column(name).chunk(0) for name in roles.state])
        keys = None if roles.sequence is None else self.keys(table.column(roles.sequence).chunk(0))
        if roles.time is None:
            return EventBlock(codes, keys, np.zeros(0), None)
        moments = table.column(roles.time).chunk(0)
        dated = not pa.types.is_floating(moments.type)
        numbers = (moments.cast(pa.int64()) if dated else moments).to_numpy(zero_copy_only=False)
        if dated and moments.type.unit == "ns":
            numbers = numbers // 1000
        return EventBlock(codes, keys, numbers.astype(np.float64), dated)

    def _codes(self, columns: list[ArrowArray]) -> Codes:
        """Codes of the states; several columns form tuples."""
        labels = [
            _labels(column.dictionary.to_pylist(), integers)
            for column, integers in zip(columns, self._whole, strict=True)
        ]
        places = [column.indices.to_numpy(zero_copy_only=False) for column in columns]
        if len(columns) == 1:
            (texts,) = labels  # in order of arrival; the empty one belongs to skipped lines
            table = np.zeros(len(texts), dtype=np.int32)
            named = [k for k, label in enumerate(texts) if label != ""]
            table[named] = self.codes([texts[k] for k in named])
            codes: Codes = table[places[0]]
            return codes
        rows = zip(*(place.tolist() for place in places), strict=True)
        return self.codes([tuple(part[k] for part, k in zip(labels, row, strict=True)) for row in rows])


def _labels(texts: list[str], integers: bool) -> list[Hashable]:
    """Labels of the same kind as those of the reference."""
    return [int(text) if integers and is_whole(text) else text for text in texts]


def _time_type(header: Header, column: str, data: bytes) -> ArrowType:
    """As in the first readable line: numbers, dates (in microseconds if need be), or text for `with_times`."""
    import pyarrow as pa

    types = [kind for kind, _ in time_types(("ns", "us"))]
    for line in data.splitlines()[:1000]:
        row = next(csv.reader([line.decode("utf-8", "replace")], delimiter=header.delimiter), [])
        if len(row) != len(header.columns):
            continue
        text = row[header.columns.index(column)]
        for kind in types:
            with suppress(pa.ArrowInvalid):
                pa.array([text]).cast(kind)
                return kind
        if to_iso(text) is not None:
            return pa.string()
    return types[0]


def _gaps(column: ArrowArray, kind: ArrowType) -> ArrowArray | None:
    """Which entries are missing; None if none can be."""
    import pyarrow as pa
    from pyarrow import compute

    mask: ArrowArray | None = None
    if kind == pa.string():
        mask = compute.equal(compute.binary_length(column), 0)
    elif not pa.types.is_dictionary(kind):
        mask = compute.is_null(column)
    elif any("" in chunk.dictionary.to_pylist() for chunk in column.chunks):
        mask = compute.equal(column.cast(pa.string()), "")
    return mask


def _joined(blocks: list[EventBlock]) -> EventBlock:
    if len(blocks) == 1:
        return blocks[0]
    keys = None if blocks[0].keys is None else np.concatenate([b.keys for b in blocks if b.keys is not None])
    codes, times = (np.concatenate([getattr(b, name) for b in blocks]) for name in ("codes", "times"))
    return EventBlock(codes, keys, times, blocks[0].dated)
