"""`somcot watch`: feed a monitor from a stream, show its status, and report alarms once they are saved."""

from __future__ import annotations

import contextlib
import json as json_text
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import somcot
from somcot.cli.options import ALARM, Cost, Force, Reading, SuggestedDiscount, flag

if TYPE_CHECKING:
    from somcot.live.alarm import Alarm, Check
    from somcot.live.monitor import Monitor
    from somcot.readers.tables.csv_stream import EventBlock, Place
    from somcot.result import Result

__all__ = ["WatchOptions", "watch"]

_SHOWN = 0.5  # seconds between two status lines on a terminal
_PAGE = 2.0  # seconds between two status pages
_PIECES = 100  # points of the curve from a block
_POINTS = 400  # of the evidence curve
_LATE = 0.1  # share of events out of order that more than a delayed source has
_STREAMED = ["sequence", "time", "state", "end", "gap", "delimiter", "terminated", "initial", "missing", "time_format"]
_OF_FILES = ("table", "query", "state_rules")  # of formats other than CSV


@dataclass(frozen=True)
class WatchOptions:
    """The stream, the reference, the guarantee against false alarms, and the output."""

    reference: Annotated[
        str,
        typer.Option(metavar="FILE", help="The process to compare with: a recording (read with its times) or a chain."),
    ]
    stream: Annotated[
        str, typer.Argument(metavar="FILE", help="File or folder with events; standard input by default.")
    ] = "-"
    discount: SuggestedDiscount = None
    cost: Cost = "labels"
    one_false_alarm_per: Annotated[
        float | None, typer.Option(metavar="N", help="Least mean number of events per false alarm; 1e6 by default.")
    ] = None
    false_alarm: Annotated[
        float | None,
        typer.Option(metavar="P", help="Instead: probability of any false alarm, or of one --within N events."),
    ] = None
    within: Annotated[int | None, typer.Option(metavar="N", help="Events for which --false-alarm holds.")] = None
    unit: Annotated[
        str, typer.Option(metavar="events|sequences", help="What --one-false-alarm-per and --within count.")
    ] = "events"
    min_distance: Annotated[float, typer.Option(metavar="D", help="Ignore smaller changes.")] = 0.0
    window: Annotated[int, typer.Option(min=1, metavar="N", help="Number of events used for the distance.")] = 20_000
    starts: Annotated[bool, typer.Option(help="Test the initial states of sequences too.")] = True
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for the file to grow, also after log rotation.")
    ] = False
    columns: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Column names of a stream without a header: session,page.")
    ] = None
    broken: Annotated[str, typer.Option(metavar="stop|skip", help="What to do with lines that cannot be read.")] = (
        "stop"
    )
    state_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the state here; the same command resumes.")
    ] = None
    accept: Annotated[
        bool,
        typer.Option(
            "--accept", help="Make what followed the alarm in --state-file the new reference, then continue from there."
        ),
    ] = False
    save_every: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="How often --state-file is written.")
    ] = 5.0
    exit_on_alarm: Annotated[
        bool,
        typer.Option(
            "--exit-on-alarm", help="Exit with code 3 at an alarm, after the block of events that was read with it."
        ),
    ] = False
    on_alarm: Annotated[
        str | None,
        typer.Option(metavar="CMD", help="Run this command at an alarm, with the alarm as JSON on its input."),
    ] = None
    every: Annotated[int, typer.Option(min=1, metavar="N", help="Events between two lines of --json.")] = 1_000_000
    json: Annotated[bool, typer.Option("--json", help="Print lines of JSON.")] = False
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep a status page in this HTML file.")] = None
    prometheus: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep metrics in this file, in the text format of Prometheus."),
    ] = None
    force: Force = False


def watch(options: WatchOptions, reading: Reading) -> int:
    """Monitor a stream: raise an alarm when the process changes."""
    from somcot.cli.output import check_targets
    from somcot.plumbing.files import exclusive

    # Other options change labels or rows with the whole table in view, which a stream never is.
    for name in reading.chosen():
        if name not in (*_STREAMED, *_OF_FILES):
            raise ValueError(f"{flag(name)}: not supported for a stream; prepare stream and reference beforehand")
    if options.broken not in ("skip", "stop"):
        raise ValueError(f"--broken: found {options.broken!r}, expected skip or stop")
    if options.accept and not (options.state_file is not None and options.state_file.exists()):
        raise ValueError("--accept: needs the --state-file of a run that has raised an alarm")
    if options.reference == "-":
        raise ValueError("--reference: standard input is for the stream; name a file")
    targets = {"--html": options.html, "--state-file": options.state_file, "--prometheus": options.prometheus}
    check_targets(targets, (options.stream, options.reference, options.cost), force=options.force)
    with _noted():
        monitor = _monitor(options, reading)
    if options.columns is not None and not all(name.strip() for name in options.columns.split(",")):
        raise ValueError(f"--columns: found {options.columns!r}, expected names such as session,page")
    # Two runs with one state file would overwrite each other's checkpoints.
    lock = exclusive(options.state_file) if options.state_file is not None else contextlib.nullcontext()
    with lock:
        return _Watch(options, reading, monitor).run()


def _monitor(options: WatchOptions, reading: Reading) -> Monitor:
    from somcot.cli.cost_and_cells import build_cost, reward_column
    from somcot.cli.inputs import read_processes, suggested_discount
    from somcot.readers.tables.rows import check_gap
    from somcot.samples import Samples

    (reference,) = read_processes([options.reference], reading, reward_column(options.cost), keep_times=True)
    cost = "labels" if options.cost == "labels" else build_cost(options.cost, reference, reference)
    if options.within is not None and options.false_alarm is None:
        raise ValueError("--within: needs --false-alarm as well, the probability that is not to be exceeded")
    gap = check_gap(reading.gap)
    if reading.end is not None and gap is None:
        raise ValueError(
            f"--end: in a stream, {reading.end!r} is reached after a pause; pass its length too: --gap 30m"
        )
    if isinstance(reference.value, Samples) and reference.value.n_transitions > 3:
        _say_check(options.reference, somcot.Monitor.check(reference.value, warn=False))
    return somcot.Monitor(
        reference.value,
        cost,
        discount=options.discount or suggested_discount([reference]),
        one_false_alarm_per=options.one_false_alarm_per,
        false_alarm=options.false_alarm,
        within=options.within,
        unit=options.unit,
        min_distance=options.min_distance,
        window=options.window,
        starts=None if options.starts else False,
        end=reading.end,
        timeout=gap,
    )


def _say_check(name: str, check: Check) -> None:
    """Warn if the reference itself changes, since alarms against it would then be expected."""
    if check.alarm is not None:
        what = check.alarm.what or "; ".join(str(m) for m in check.alarm.transitions[:3])
        _note(f"{name}: its later part differs from its earlier one since about event {check.alarm.since:,} ({what})")


class _Watch:
    """One run of the command."""

    def __init__(self, options: WatchOptions, reading: Reading, monitor: Monitor) -> None:
        from somcot.live.sequences import text_keys
        from somcot.readers.tables.columns import ColumnRoles
        from somcot.readers.tables.csv_stream import Place
        from somcot.readers.tables.numbers_and_times import check_time_format
        from somcot.readers.tables.table_feed import open_feed

        self.path, self.options, self.monitor = options.stream, options, monitor
        self.terminal = sys.stderr.isatty() and not options.json
        self.delivered, place = 0, Place()
        # Before the feed is opened, because the saved position says where to begin.
        if options.state_file is not None and options.state_file.exists():
            place = self._resume(options.state_file)
            if options.accept:
                self._accept(options.state_file)
        roles = ColumnRoles(
            tuple(reading.state or ()),
            reading.sequence,
            reading.time,
            time_format=check_time_format(reading.time_format),
        )
        self.feed = open_feed(
            self.path, self.monitor.codes, text_keys, roles, place, states=self.monitor.reference.states,
            follow=options.follow, skip=options.broken == "skip", delimiter=reading.delimiter or self.delimiter,
            format=reading.format, **{name: value for name, value in reading.chosen().items() if name in _OF_FILES},
            columns=[name.strip() for name in (options.columns or "").split(",") if name.strip()], note=_note,
        )  # fmt: skip
        self.curve: list[tuple[int, float]] = [(self.monitor.n_events, self.monitor.evidence)]
        now = time.monotonic()
        self.began, self.saved, self.shown, self.paged = now, now, 0.0, 0.0
        self.first, self.next_line = self.monitor.n_events, self._next_line()
        # The size of an alarm from before a resumption is not reported again.
        self.sized = self.monitor.alarm is not None and not self.monitor.provisional
        self.busy, self.failing = False, False
        self.told = self.monitor.detector != ""

    delimiter: str | None = None

    def _resume(self, path: Path) -> Place:
        """Resume from the state file; refuse that of another monitor."""
        from somcot.readers.tables.csv_stream import Place

        saved = somcot.Monitor.load(path)
        if saved.fingerprint != self.monitor.fingerprint:
            raise ValueError(
                f"{path}: the state of another monitor (other reference, cost or guarantee); pass the same options as "
                "before, or name another --state-file"
            )
        self.monitor = saved
        _note(f"resumes after event {saved.n_events:,}, as saved in {path}")
        position = dict(saved.position or {})
        if position.get("source") != self._source():
            raise ValueError(
                f"{path}: belongs to {position.get('source')!r}, not to {self._source()!r}; name another --state-file"
            )
        self.delivered, self.delimiter = int(position["delivered"]), position["delimiter"]
        place = Place(**position["place"])
        if self.path == "-":
            # Standard input is a new stream, so line numbers begin at 1.
            place = replace(place, line=1)
            _note("standard input cannot be read again: events that came after the last checkpoint are missing")
        return place

    def _accept(self, path: Path) -> None:
        """Make the present the reference, as `Monitor.accept` does; `run` saves it first."""
        if self.monitor.alarm is None:
            raise ValueError(f"--accept: {path} has no alarm, or it was accepted before; leave the option out")
        with _noted():
            self.monitor.accept()
        _note(f"the events since the alarm at event {self.monitor.alarms[-1].event:,} are the reference now")

    def _source(self) -> str:
        return "-" if self.path == "-" else str(Path(self.path).expanduser().resolve())

    def run(self) -> int:
        """Run until the stream ends, Ctrl-C, or, with ``--exit-on-alarm``, an alarm."""
        try:
            # Alarms that were saved but not yet reported when the last run ended.
            self._deliver()
            if self.options.accept:
                self._checkpoint()
            if not (self.options.exit_on_alarm and self.monitor.alarm is not None):
                self._consume()
        except KeyboardInterrupt:
            if not self.busy:  # within a block the state is incomplete; the last checkpoint is kept
                self._end("interrupted")
            raise
        except ValueError:
            if not self.busy:
                # A line that cannot be read ends the run; the events before it are saved.
                self._checkpoint(final=True)
            raise
        finally:
            self.feed.close()
        self._end("ended")
        return ALARM if self.options.exit_on_alarm and self.monitor.alarm is not None else 0

    def _consume(self) -> None:
        for block in self._blocks():
            if block is not None:
                self.busy = True
                alarms = self._take(block)
                self.busy = False
                if not self.told:
                    self.told = True
                    _note(f"scores {self.monitor.detector}: {self.monitor.guarantee}")
                    back, n = self.monitor.n_backwards, self.monitor.n_events
                    if back > _LATE * n:  # as in a file that is sorted by sequence
                        why = "but sequences are scored as they arrive, so alarms may be false; sort the file by time"
                        _note(f"{back:,} of {n:,} events have a time before their predecessor's, {why}")
                if alarms:
                    # Saved before it is reported: after a crash an alarm may be reported twice, but it is never lost.
                    self._checkpoint()
                    self._deliver()
                    if self.options.exit_on_alarm:
                        return
            self._report()

    def _blocks(self) -> Iterator[EventBlock | None]:
        blocks = self.feed.blocks()
        while True:
            with _noted():  # the header is read with the first block
                try:
                    block = next(blocks)
                except StopIteration:
                    return
            yield block

    def _take(self, block: EventBlock) -> list[Alarm]:
        """Feed the monitor, in pieces if a curve is drawn; the pieces do not change the result."""
        n = len(block.codes)
        step = -(-n // _PIECES) if self.options.html is not None else n
        alarms: list[Alarm] = []
        for begin in range(0, n, step):
            part = slice(begin, begin + step)
            keys = None if block.keys is None else block.keys[part]
            with _noted():
                alarms += self.monitor.take(block.codes[part], keys, block.times[part], dated=block.dated)
            self._remember()
        return alarms

    def _remember(self) -> None:
        """Add a point to the evidence curve; drop every other point when there are too many."""
        self.curve.append((self.monitor.n_events, self.monitor.evidence))
        if len(self.curve) > _POINTS:
            self.curve = self.curve[::2]

    # Output

    def _deliver(self) -> None:
        """Report the saved alarms that have not been reported yet, and save that they were."""
        from somcot.cli.output import print_json
        from somcot.live.saving import alarm_record

        waiting = self.monitor.alarms[self.delivered :]
        for alarm in waiting:
            when = alarm.when(dated=self.monitor.dated)
            record = {"type": "alarm"} | alarm_record(alarm) | {"when": when}
            if self.options.json:
                print_json(record)
            else:
                self._wipe()
                size = self._size(0.9)
                far = "" if size is None else f", {_in_words(size)}{' so far' if self.monitor.provisional else ''}"
                _say(f"{f'{when}: ' if when else ''}{alarm}{far} [{alarm.id}]")
                for m in alarm.transitions[:3]:
                    _say(f"  {m}")
            if self.options.on_alarm:
                _call(self.options.on_alarm, record)
            # One at a time, so that an interruption repeats only the alarm that it interrupted.
            self.delivered += 1
        if waiting:
            self._checkpoint()

    def _checkpoint(self, *, final: bool = False) -> None:
        self.monitor.position = {
            "source": self._source(), "place": asdict(self.feed.place), "delivered": self.delivered,
            "delimiter": self.feed.delimiter,
        }  # fmt: skip
        if self.options.state_file is None:
            return
        self.saved = time.monotonic()
        try:
            self.monitor.save(self.options.state_file)
            self.failing = False
        except OSError as error:
            # A full disk is often temporary; only the last checkpoint has to succeed.
            if final:
                raise
            # Once per failure instead of every few seconds.
            if not self.failing:
                _note(f"{self.options.state_file}: {error.strerror}; continuing, the next checkpoint will try again")
            self.failing = True

    def _report(self) -> None:
        from somcot.cli.output import print_json

        now = time.monotonic()
        if self.options.state_file is not None and now - self.saved >= self.options.save_every:
            self._checkpoint()
        if self.monitor.n_events >= self.next_line:
            self.next_line = self._next_line()
            if self.options.json:
                print_json(self._status("status"))
        # The first size after an alarm rests on few events, so it is reported again when no longer provisional.
        if self.monitor.alarm is not None and not self.sized and not self.monitor.provisional:
            self.sized = True
            if self.options.json:
                print_json(self._status("distance"))
            else:
                self._wipe()
                _say(f"after the alarm: {self._size(0.9)}")
        if self.terminal and now - self.shown > _SHOWN:
            self.shown = now
            self._show()
        if (self.options.html is not None or self.options.prometheus is not None) and now - self.paged > _PAGE:
            self.paged = now
            self._page(refresh=5)
            self._measure()

    def _next_line(self) -> int:
        # At multiples, so that lines do not depend on the sizes of blocks.
        return (self.monitor.n_events // self.options.every + 1) * self.options.every

    def _size(self, confidence: float | None = None) -> Result | None:
        from somcot.cli.output import caught

        if self.monitor.n_scored == 0:
            return None
        # Notes on few data are expected here, and would appear with every status line.
        with caught():
            try:
                return self.monitor.distance(confidence)
            except ValueError:  # first states only, so far
                return None

    def _status(self, kind: str) -> dict[str, Any]:
        from somcot.live.reference import to_plain

        m, size = self.monitor, self._size(0.9 if kind == "distance" else None)
        record: dict[str, Any] = {
            "type": kind, "events": m.n_events, "evidence": m.evidence, "alarm": m.alarm.id if m.alarm else None,
            "distance": None if size is None else size.distance, "provisional": m.provisional,
            "detector": m.detector, "guarantee": m.guarantee, "sequences": m.n_sequences,
            "open": m.n_open, "broken": self.feed.place.broken, "backwards": m.n_backwards, "dropped": m.n_dropped,
            "new_labels": [to_plain(label) for label in m.new_labels[:20]],
        }  # fmt: skip
        if m.notice is not None:
            record["notice"] = m.notice
        if size is not None and size.confidence_interval is not None:
            record |= {"low": size.confidence_interval.low, "high": size.confidence_interval.high}
        return record

    def _show(self) -> None:
        m, size = self.monitor, self._size()
        rate = (m.n_events - self.first) / max(time.monotonic() - self.began, 1e-9)
        state = "ALARM" if m.alarm is not None else "quiet"
        far = "" if size is None else f"  distance {size.distance:.3f}{'?' if m.provisional else ''}"
        broken = f"  {self.feed.place.broken:,} broken" if self.feed.place.broken else ""
        line = f"{state}  {m.n_events:,} events  evidence {m.evidence:.1e}{far}  {rate:,.0f}/s{broken}"
        # Back to the beginning and erase; 78 characters do not wrap on 80 columns.
        sys.stderr.write(f"\r\x1b[2K{line[:78]}")
        sys.stderr.flush()

    def _wipe(self) -> None:
        if self.terminal:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()

    def _page(self, refresh: int | None) -> None:
        from somcot.cli.output import caught
        from somcot.report.many_facts import write_status

        if self.options.html is None:
            return
        facts = [(name, f"{n:,}") for name, n in self._losses() if n]
        with caught():
            size = self._size(0.9)
        try:
            write_status(
                self.options.html, self.monitor, source=self.feed.name, size=size, curve=self.curve, facts=facts,
                refresh=refresh,
            )  # fmt: skip
        except OSError as error:
            # Only the final page has to be written.
            if refresh is None:
                raise
            _note(f"{self.options.html}: {error.strerror}")

    def _measure(self, *, final: bool = False) -> None:
        """Write the metrics, in the text format of Prometheus."""
        from somcot.plumbing.files import write_bytes
        from somcot.report.many_facts import metrics_text

        path = self.options.prometheus
        if path is None:
            return
        text = metrics_text(self.monitor, [n for _, n in self._losses()], self._size())
        try:
            write_bytes(path, text.encode())
        except OSError as error:
            if final:
                raise
            _note(f"{path}: {error.strerror}")

    def _losses(self) -> Iterator[tuple[str, int]]:
        yield "broken lines skipped", self.feed.place.broken
        yield "events with a time before their predecessor's", self.monitor.n_backwards
        yield "sequences given up: too many were open, or silent for too long", self.monitor.n_dropped

    def _end(self, how: str) -> None:
        from somcot.cli.output import print_json

        m = self.monitor
        self._wipe()
        self._remember()
        if self.options.json:
            print_json(self._status("end"))
        else:
            what = "no events" if m.n_events == 0 else f"{m.n_events:,} events"
            if m.n_events == 0 and self.feed.place.names is None:
                what = "the stream is empty, without a header"
            state = f"no alarm, evidence {m.evidence:.2g} (alarm at 1)"
            if m.alarm is not None:
                state = f"alarm at event {m.alarm.event:,}"
            _say(f"{how}: {what}, {state}")
            if m.notice is not None:
                _say(f"the process {m.notice}")
        for name, n in self._losses():
            if n:
                _note(f"{n:,} {name.replace('s ', ' ', 1) if n == 1 else name}")
        with contextlib.ExitStack() as last:  # each is tried even if another fails, the checkpoint first
            last.callback(self._page, refresh=None)
            last.callback(self._measure, final=True)
            last.callback(self._checkpoint, final=True)


def _in_words(size: Result) -> str:
    low_high = size.confidence_interval
    span = "" if low_high is None else f" ({low_high.low:.3g} to {low_high.high:.3g})"
    return f"distance {size.distance:.3g}{span}"


def _call(command: str, record: dict[str, Any]) -> None:
    """Run the user's command with the alarm on its standard input; a failure is reported and does not stop the run."""
    from somcot.cli.output import plain

    try:
        # A shell, because the option is a command line of the user. The alarm is its input, never part of the command.
        done = subprocess.run(command, shell=True, input=json_text.dumps(plain(record)) + "\n", text=True, timeout=60.0)
        code: Any = done.returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        code = error
    if code != 0:
        _note(f"--on-alarm: {command!r} failed ({code})")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@contextlib.contextmanager
def _noted() -> Iterator[None]:
    """Write notes as lines of this command instead of Python's warnings."""
    from somcot.cli.output import caught

    with caught() as messages:
        yield
    for text in messages:
        _note(text)


def _note(text: str) -> None:
    sys.stderr.write(f"note: {text}\n")
    sys.stderr.flush()
