"""A short cut through large event logs: plain traces are taken apart at their quotes, expat sees one element for each.

The events of a trace are plain if they hold nothing but ``<type key="..." value="..."/>``. Cut at the quotes, they are
then keys and values in turn, and what lies between two attributes is one of a few texts, each looked at once. Whatever
is not plain passes through unchanged, so that expat judges it; events inside of a comment are never announced by expat,
hence never counted. Line numbers stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["MARK", "Columns", "PlainEvents"]

MARK = "plain-events"  # attribute of the element that stands for the events of a trace
Columns = list[list[str | None]]  # one list for each slot, an entry for each event
_LONG = 1 << 21  # bytes of a trace that are not waited for
_BEGIN, _END, _TRACE = b"<event>", b"</event>", b"</trace>"
_FIRST = re.compile(rb"<event>\s*<[A-Za-z]+ key=")
_LAST = re.compile(rb"\s*/>\s*</event>")
_WITHIN = re.compile(rb"\s*/>\s*<[A-Za-z]+ key=")
_ACROSS = re.compile(rb"\s*/>\s*</event>\s*<event>\s*<[A-Za-z]+ key=")
_ALLOWED = bytes(set(range(32, 256)) - set(b"<&"))  # in values: no references, nothing that XML would change


class PlainEvents:
    """Takes in the bytes of a log, hands on what expat has to see.

    Attributes
    ----------
    slots : dict
        The keys wanted, with their numbers.
    runs : dict of str to Columns
        Events of traces that expat has not announced yet.
    """

    def __init__(self, slots: Mapping[str, int], n_slots: int) -> None:
        self.slots, self.n_slots = {key.encode(): k for key, k in slots.items()}, n_slots
        self.runs: dict[str, Columns] = {}
        self._within: set[bytes] = set()  # texts seen between two attributes of an event
        self._across: set[bytes] = set()  # and between two events
        self._left, self._n_runs = b"", 0

    def shortened(self, data: bytes) -> bytes:
        """The next bytes without the events of plain traces; a trace that is not complete waits for more."""
        *traces, self._left = (self._left + data).split(_TRACE)
        out = [part for trace in traces for part in (*self._without_events(trace), _TRACE)]
        if len(self._left) > _LONG:
            out.append(self.rest())
        return b"".join(out)

    def rest(self) -> bytes:
        """What is left, as it is: the end of the log, or a trace that is too long."""
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
        return trace[:begin], mark, b"\n" * body.count(b"\n"), trace[end:]

    def _run(self, body: bytes) -> Columns | None:
        """The values of plain events; None where there is anything else between the first and the last."""
        parts = body.split(b'"')
        keys, values, seams = parts[1::4], parts[3::4], parts[4:-1:4]
        if len(parts) % 4 != 1 or set(parts[2::4]) != {b" value="} or not self._knows(seams):
            return None
        content = b'"'.join(values)
        if content.translate(None, _ALLOWED) or not _FIRST.fullmatch(parts[0]) or not _LAST.fullmatch(parts[-1]):
            return None
        try:
            texts = content.decode().split('"')
        except UnicodeDecodeError:
            return None
        return self._columns(keys, texts, seams)

    def _knows(self, seams: list[bytes]) -> bool:
        """Whether all that stands between attributes is ends and beginnings of elements."""
        for seam in set(seams) - self._within - self._across:
            if len(seam) > 1000:  # they are kept, and nobody shall fill the memory with them
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
        if not rest and keys == keys[:width] * n_events and all(map(is_across, seams[width - 1 :: width])):
            places = {self.slots.get(key): k for k, key in enumerate(keys[:width])}  # all events are made alike
            nothing: list[str | None] = [None] * n_events
            return [[*texts[places[k] :: width]] if k in places else nothing for k in range(self.n_slots)]
        columns: Columns = [[None] * n_events for _ in range(self.n_slots)]
        event, slots = 0, self.slots
        for key, text, seam in zip(keys, texts, [*seams, b""], strict=True):
            if key in slots:
                columns[slots[key]][event] = text
            event += is_across(seam)
        return columns
