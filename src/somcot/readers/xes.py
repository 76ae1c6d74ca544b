"""Event logs in XES (IEEE 1849), as tables: a row per event, the attributes of its trace as columns ``case:NAME``.

The events of a trace are plain if they contain only ``<type key="..." value="..."/>``. Split at the quotes, they are
alternating keys and values, and the text between two attributes is one of a few texts, each checked once. All other
input passes through unchanged to expat; events inside a comment are never announced by expat, so they are not counted.
Line numbers are preserved.

The names are those of the columns in pm4py's frames. Files are read as a stream by expat, which follows no reference
out of the file; a DOCTYPE, the only place where entities can be declared, is refused.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import IO
from xml.parsers import expat

from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note, Share
from somcot.readers.compression import DamagedError
from somcot.readers.opening import Input
from somcot.readers.tables import Rows, Table

__all__ = [
    "ACTIVITY",
    "CASE",
    "MARK",
    "TIME",
    "TRANSITION",
    "Columns",
    "PlainEvents",
    "open_log",
]


# --- Fast path for large event logs: plain traces are split at their quotes; expat sees one element for each

MARK = "plain-events"  # attribute of the element that replaces the events of a trace
Columns = list[list[str | None]]  # one list for each slot, an entry for each event
_LONG = 1 << 21  # bytes; longer traces are passed on before they are complete
_BEGIN, _END, _TRACE = b"<event>", b"</event>", b"</trace>"
_FIRST = re.compile(rb"<event>\s*<[A-Za-z]+ key=")
_LAST = re.compile(rb"\s*/>\s*</event>")
_WITHIN = re.compile(rb"\s*/>\s*<[A-Za-z]+ key=")
_ACROSS = re.compile(rb"\s*/>\s*</event>\s*<event>\s*<[A-Za-z]+ key=")
_ALLOWED = bytes(set(range(32, 256)) - set(b"<&"))  # in values: no references, nothing that XML would change


class PlainEvents:
    """Takes the bytes of a log and returns those that expat has to parse.

    Attributes
    ----------
    slots : dict
        The requested keys, with their numbers.
    runs : dict of str to Columns
        Events of traces that expat has not announced yet.
    """

    def __init__(self, slots: Mapping[str, int], n_slots: int) -> None:
        self.slots, self.n_slots = {key.encode(): k for key, k in slots.items()}, n_slots
        self.runs: dict[str, Columns] = {}
        self._within: set[bytes] = set()  # texts between two attributes of an event
        self._across: set[bytes] = set()  # texts between two events
        self._left, self._n_runs = b"", 0

    def shortened(self, data: bytes) -> bytes:
        """The next bytes without the events of plain traces; an incomplete trace waits for more."""
        # Traces are complete only at their end tag, so the last piece waits for the next bytes.
        *traces, self._left = (self._left + data).split(_TRACE)
        out = [part for trace in traces for part in (*self._without_events(trace), _TRACE)]
        # Unusual, and correct either way: expat parses what is handed over unshortened.
        if len(self._left) > _LONG:
            out.append(self.rest())
        return b"".join(out)

    def rest(self) -> bytes:
        """The unchanged remainder: the end of the log, or a trace that is too long."""
        left, self._left = self._left, b""
        return left

    def _without_events(self, trace: bytes) -> tuple[bytes, ...]:
        begin, end = trace.find(_BEGIN), trace.rfind(_END) + len(_END)
        body = trace[begin:end]
        run = self._run(body) if 0 <= begin < end else None
        if run is None:
            return (trace,)
        self._n_runs += 1
        self.runs[str(self._n_runs)] = run
        mark = f'<event {MARK}="{self._n_runs}"/>'.encode()
        # As many line breaks as were removed, so that expat's line numbers in messages stay right.
        return trace[:begin], mark, b"\n" * body.count(b"\n"), trace[end:]

    def _run(self, body: bytes) -> Columns | None:
        """The values of plain events; None if there is anything else between the first and the last."""
        # Split at quotes, a plain attribute has four parts: start, key, ' value=', value. Anything else has another
        # rhythm.
        parts = body.split(b'"')
        keys, values, seams = parts[1::4], parts[3::4], parts[4:-1:4]
        if len(parts) % 4 != 1 or set(parts[2::4]) != {b" value="} or not self._knows(seams):
            return None
        # One translate and one decode for the whole trace; per value they would dominate the time.
        content = b'"'.join(values)
        if content.translate(None, _ALLOWED) or not _FIRST.fullmatch(parts[0]) or not _LAST.fullmatch(parts[-1]):
            return None
        try:
            texts = content.decode().split('"')
        except UnicodeDecodeError:
            return None
        return self._columns(keys, texts, seams)

    def _knows(self, seams: list[bytes]) -> bool:
        """Whether the texts between attributes consist only of ends and beginnings of elements."""
        # Logs repeat a handful of seams millions of times; each is checked by a regular expression once.
        for seam in set(seams) - self._within - self._across:
            if len(seam) > 1000:  # they are kept, so bound their memory
                return False
            if _WITHIN.fullmatch(seam):
                self._within.add(seam)
            elif _ACROSS.fullmatch(seam):
                self._across.add(seam)
            else:
                return False
        return len(self._within) + len(self._across) < 10_000

    def _columns(self, keys: list[bytes], texts: list[str], seams: list[bytes]) -> Columns:
        is_across = self._across.__contains__
        n_events = 1 + sum(map(is_across, seams))
        width, rest = divmod(len(keys), n_events)
        # All events with the same keys in the same order, the usual case: columns are strided slices.
        if not rest and keys == keys[:width] * n_events and all(map(is_across, seams[width - 1 :: width])):
            places = {self.slots.get(key): k for k, key in enumerate(keys[:width])}  # all events have one structure
            nothing: list[str | None] = [None] * n_events
            return [[*texts[places[k] :: width]] if k in places else nothing for k in range(self.n_slots)]
        columns: Columns = [[None] * n_events for _ in range(self.n_slots)]
        event, slots = 0, self.slots
        for key, text, seam in zip(keys, texts, [*seams, b""], strict=True):
            if key in slots:
                columns[slots[key]][event] = text
            event += is_across(seam)
        return columns


# --- Event logs as tables

CASE, ACTIVITY, TIME, TRANSITION = "case:concept:name", "concept:name", "time:timestamp", "lifecycle:transition"
_UTF8 = ("utf-8", "us-ascii")
_HEAD = 1 << 20  # bytes that are searched for the names of columns
_CHUNK = 1 << 18
_ELEMENT = 1 << 24  # largest size of an element, in bytes
_ROWS = 1 << 16


def open_log(source: Input, stream: IO[bytes], lifecycle: str | None = None) -> Table:
    """An event log as a table.

    Parameters
    ----------
    source, stream
        The source and its decompressed stream.
    lifecycle : str, optional
        Keep events with this ``lifecycle:transition``, case-insensitive, and those without any; "all" keeps all. By
        default "complete", unless the transition is requested as a column.
    """
    # The names of columns must be known before the table is opened; those that first occur later are still read if
    # wanted.
    head = _read(source, stream, _HEAD, 0)
    names = _Names(source)
    names.feed(head)
    places = _TracePlaces()

    def batches(wanted: Sequence[str]) -> Iterator[Rows]:
        # With the transition as a column, events of all transitions are kept.
        chosen = lifecycle or ("all" if TRANSITION in wanted else "complete")
        events = _Events(source, wanted, chosen.lower(), places)
        if names.encoding not in _UTF8:
            events.plain = None  # the fast path reads UTF-8 only
        return _batches(events, source, head, stream)

    return Table(source.name, list(names.columns), True, batches, places.name, False, names.classifiers)


def _read(source: Input, stream: IO[bytes], size: int, line: int) -> bytes:
    try:
        return stream.read(size)
    except DamagedError as error:
        where = f" after line {line}" if line else ""
        damage = Note("gzip-damaged", source.name, packing=error.packing, where=where, reason=error.reason)
        raise ValueError(damage) from None


def _batches(events: _Events, source: Input, head: bytes, stream: IO[bytes]) -> Iterator[Rows]:
    chunk = head
    while chunk:
        events.take(chunk)
        if events.n_rows >= _ROWS:
            yield events.batch()
        chunk = _read(source, stream, _CHUNK, events.parser.CurrentLineNumber)
    events.finish()
    if events.n_rows:
        yield events.batch()


class _Parser:
    """Expat with error messages of this package."""

    def __init__(self, source: Input) -> None:
        self.source, self.n_bytes = source, 0
        self.parser = expat.ParserCreate()
        self.parser.ordered_attributes = True  # faster than a dictionary
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Parse more bytes."""
        self.n_bytes += len(data)
        try:
            self.parser.Parse(data, final)
        except expat.ExpatError as error:
            raise ValueError(f"{self.source.name}: {self._explained(error)}; export the log again") from None
        except (LookupError, UnicodeError) as error:  # an encoding unknown to Python or not usable by expat
            raise self.refused(f"the declared encoding cannot be read ({error})", "write the log in UTF-8") from None
        # Expat keeps an unfinished element in memory, so its size is bounded here.
        if self.n_bytes - max(self.parser.CurrentByteIndex, 0) > _ELEMENT and not final:
            raise self.refused(f"an element is longer than {_ELEMENT >> 20} MB", "check how the log was written")

    def _explained(self, error: expat.ExpatError) -> str:
        text = expat.ErrorString(error.code)
        if error.code in (expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS],) or "unclosed" in text:
            return f"the log ends too soon, in line {error.lineno}"
        return f"line {error.lineno}, column {error.offset + 1}: not valid XML ({text})"

    def _refuse_doctype(self, *_: object) -> None:
        raise self.refused("a DOCTYPE, which could declare entities", "logs need none: remove it")

    def refused(self, what: str, remedy: str, line: int | None = None) -> ValueError:
        """An error at this line of the file."""
        number = self.parser.CurrentLineNumber if line is None else line
        return ValueError(f"{self.source.name}: line {number}: {what}; {remedy}")


def _pair(attributes: Sequence[str]) -> tuple[str | None, str | None]:
    """Key and value of an attribute, in either order."""
    attribute = dict(zip(attributes[::2], attributes[1::2], strict=True))
    return attribute.get("key"), attribute.get("value")


class _Names(_Parser):
    """The attributes that occur at the beginning of a log, and its classifiers."""

    def __init__(self, source: Input) -> None:
        super().__init__(source)
        self.columns = dict.fromkeys([CASE, ACTIVITY, TIME])
        self.classifiers: dict[str, list[str]] = {}
        self.encoding = "utf-8"
        self._path: list[str] = []
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = lambda _: self._path.pop()
        self.parser.XmlDeclHandler = self._declared

    def _declared(self, _version: str, encoding: str | None, _standalone: int) -> None:
        self.encoding = (encoding or "utf-8").lower()

    def _start(self, tag: str, attributes: list[str]) -> None:
        # Logs may or may not use a namespace prefix; only the local name counts.
        tag = tag.rpartition(":")[2]
        if not self._path and tag != "log":
            raise self.refused(f"the root is <{tag[:40]}>, expected <log>", "is this an XES file?")
        above = self._path[-1] if self._path else ""
        self._path.append(tag)
        if tag == "classifier":
            values = dict(zip(attributes[::2], attributes[1::2], strict=True))
            self.classifiers[values.get("name", "")] = values.get("keys", "").split()
        key = _pair(attributes)[0]
        if key is not None and tag != "event" and above in ("event", "trace"):
            self.columns[key if above == "event" else f"case:{key}"] = None


class _TracePlaces:
    """Positions of the rows in the file, for messages."""

    def __init__(self) -> None:
        self.events: list[int] = []  # number of each event within its trace
        self.ends: list[int] = []  # number of rows up to the end of each trace
        self.traces: list[tuple[int, str | None]] = []  # line and name of each trace

    def name(self, row: int) -> str:
        # Rows are numbered over the whole file; the trace is found by the number of rows up to its end.
        k = bisect.bisect_left(self.ends, row)
        line, name = self.traces[k]
        return f"event {self.events[row - 1]} of trace {k + 1}{'' if name is None else f' {name!r}'} (line {line})"


class _Events(_Parser):
    """The requested columns, in file order; the transition is added as a last column if it was not requested."""

    def __init__(self, source: Input, wanted: Sequence[str], lifecycle: str, places: _TracePlaces) -> None:
        super().__init__(source)
        self.wanted, self.lifecycle, self.places = list(wanted), lifecycle, places
        of_event = {name: k for k, name in enumerate(wanted) if not name.startswith("case:")}
        self.of_trace = {name.removeprefix("case:"): k for k, name in enumerate(wanted) if name.startswith("case:")}
        # The transition always has a slot, since events are selected by it even if the column is not requested.
        self.slots = {TRANSITION: len(wanted)} | of_event
        self.n_slots = len(wanted) + 1
        self.plain: PlainEvents | None = PlainEvents(self.slots, self.n_slots)
        self.columns: Columns = [[] for _ in range(self.n_slots)]
        self.left_out: Counter[str] = Counter()
        self.n_events = self.n_empty = self.n_lost = 0
        self.again: dict[str, int] = {}  # cases with several traces, with the line of the second
        self._cases: set[str | None] = set()
        self.seen: set[int] = set()  # columns that occur in some event
        self._path: list[str] = []
        self._row: list[str | None] | None = None
        self._begin_trace()
        self.parser.StartElementHandler, self.parser.EndElementHandler = self._start, self._end

    @property
    def n_rows(self) -> int:
        """Number of rows collected and not yet returned."""
        return len(self.columns[-1])

    def take(self, data: bytes) -> None:
        """Parse more bytes, plain events by the fast path."""
        self.feed(data if self.plain is None else self.plain.shortened(data))

    def batch(self) -> Rows:
        """The rows collected so far; times as Arrow text, parsed in one call."""
        import pyarrow as pa

        rows = dict(zip(self.wanted, self.columns, strict=False))
        self._note_seen()
        self.columns = [[] for _ in range(self.n_slots)]
        # Arrow text for times, which are parsed column-wise; the other columns stay lists, which are encoded anyway.
        return {name: pa.array(v, pa.string()) if name == TIME else v for name, v in rows.items()}

    def _note_seen(self) -> None:
        self.seen.update(k for k, column in enumerate(self.columns) if column.count(None) < len(column))

    def finish(self) -> None:
        """After the last byte: report missing columns and what was left out."""
        self.feed(b"" if self.plain is None else self.plain.rest(), final=True)
        name, n = self.source.name, sum(self.left_out.values())
        if not self.n_events:
            raise ValueError(f"{name}: no trace has an event; check how the log was written")
        kinds = ", ".join(f"{kind!r} ({number:,})" for kind, number in self.left_out.most_common(5))
        if n == self.n_events:
            raise ValueError(Note("unknown-lifecycle", name, lifecycle=repr(self.lifecycle), kinds=kinds))
        if n:
            lost = f", and with them {self.n_lost:,} trace(s) that have no other" if self.n_lost else ""
            share = Share(n, self.n_events)
            note = Note("lifecycle-left-out", name, share=share, lifecycle=repr(self.lifecycle), kinds=kinds, lost=lost)
            warn(note, DataWarning)
        if self.again and CASE in self.wanted:
            case, line = next(iter(self.again.items()))
            warn(Note("repeated-cases", name, n=len(self.again), case=repr(case), line=line), DataWarning)
        if self.n_empty:
            warn(Note("empty-traces", name, n=self.n_empty), DataWarning)
        self._refuse_unknown()

    def _refuse_unknown(self) -> None:
        self._note_seen()
        for k, column in enumerate(self.wanted):
            # Standard attributes may be missing in all events; the reader that needs them gives the better message.
            if k not in self.seen and column not in (CASE, ACTIVITY, TIME):
                advice = "check the spelling (those of traces are called case:NAME)"
                if column in self._trace:  # of the last trace
                    advice = f"traces do: 'case:{column}'"
                raise ValueError(f"{self.source.name}: no event has the attribute {column!r}; {advice}")

    def _start(self, tag: str, attributes: list[str]) -> None:
        """Log, trace, event and attribute have depths 0, 1, 2 and 3; deeper elements describe attributes."""
        tag, depth = tag.rpartition(":")[2], len(self._path)
        self._path.append(tag)
        # By depth, not by tag: attributes may nest, and only those directly below an event are its own.
        if depth == 3 and self._row is not None:
            key, value = _pair(attributes)
            if key in self.slots:
                self._row[self.slots[key]] = value
        elif depth == 2 and self._path[1] == "trace":
            if tag != "event":
                key, value = _pair(attributes)
                self._trace[key or ""] = value
            elif attributes[:1] == [MARK]:
                self._announced(attributes[1])
            else:
                self._row = [None] * self.n_slots
        elif depth == 1 and tag == "trace":
            self._begin_trace()
        elif depth == 1 and tag == "event":
            raise self.refused("an event outside of every trace", "put it into the trace it belongs to")
        elif depth == 0 and tag != "log":
            raise self.refused(f"the root is <{tag[:40]}>, expected <log>", "is this an XES file?")

    def _end(self, _: str) -> None:
        tag, depth = self._path.pop(), len(self._path)
        if depth == 2 and self._row is not None:
            for column, value in zip(self._members, self._row, strict=True):
                column.append(value)
            self._row = None
        elif depth == 1 and tag == "trace":
            self._end_trace()

    def _begin_trace(self) -> None:
        self._members: Columns = [[] for _ in range(self.n_slots)]
        self._trace: dict[str, str | None] = {}
        self._line = self.parser.CurrentLineNumber

    def _announced(self, number: str) -> None:
        """Add the plain events of this trace."""
        run = None if self.plain is None else self.plain.runs.pop(number, None)
        if run is None:
            raise self.refused(f"an event has the attribute {MARK}", "remove it")
        for column, values in zip(self._members, run, strict=True):
            column += values

    def _end_trace(self) -> None:
        """Add the events of the trace, except those with other transitions."""
        members, transitions = self._members, self._members[self.slots[TRANSITION]]
        n = len(transitions)
        numbers: Iterable[int] = range(1, n + 1)
        self.n_events += n
        self.n_empty += not n
        kinds = set(transitions)
        # Events without a transition are kept: logs without the extension have none.
        kept = {kind for kind in kinds if kind is None or self.lifecycle in ("all", kind.lower())}
        if kept != kinds:
            chosen = [kind in kept for kind in transitions]
            self.left_out.update(kind for kind in transitions if kind is not None and kind not in kept)
            members, numbers = [list(compress(column, chosen)) for column in members], compress(numbers, chosen)
            n = sum(chosen)
            self.n_lost += not n
        for name, k in self.of_trace.items():
            # Attributes of a trace may come after its events, so they are filled in at its end.
            members[k] = [self._trace.get(name)] * n
        for column, values in zip(self.columns, members, strict=True):
            column += values
        self.places.events += numbers
        self.places.ends.append(len(self.places.events))
        case = self._trace.get("concept:name")
        self.places.traces.append((self._line, case))
        # Two traces of one case would be taken for one sequence; the note names the line of the second.
        if case in self._cases and case is not None:
            self.again.setdefault(case, self._line)
        self._cases.add(case)
