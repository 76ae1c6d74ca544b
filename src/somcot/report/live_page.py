"""One self-contained HTML page about a monitor: quiet or not, since when, how far, and what moved."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from somcot import __version__
from somcot.live.alarm import Alarm
from somcot.live.monitor import Monitor
from somcot.plumbing.files import write_bytes
from somcot.plumbing.text import decimals, label_text
from somcot.result import Result

__all__ = ["status_page", "write_status"]

_WIDTH, _HEIGHT = 640.0, 150.0


def write_status(path: str | os.PathLike[str], monitor: Monitor, **more: object) -> None:
    """Write the page to a file, replacing what is there in one move; further arguments as for `status_page`."""
    write_bytes(path, status_page(monitor, **more).encode("utf-8", errors="replace"))  # type: ignore[arg-type]


def status_page(
    monitor: Monitor,
    *,
    source: str = "the stream",
    size: Result | None = None,
    curve: Sequence[tuple[int, float]] = (),
    facts: Sequence[tuple[str, str]] = (),
    refresh: int | None = None,
) -> str:
    """The page as text.

    Parameters
    ----------
    monitor : Monitor
    source : str
        Where the events come from.
    size : Result, optional
        The distance, as `Monitor.distance` gives it.
    curve : sequence of (event, evidence)
        Evidence over time.
    facts : sequence of (name, text)
        Further rows of the table.
    refresh : int, optional
        Seconds after which a browser loads the page again.
    """
    alarm = monitor.alarm
    headline = "Changed" if alarm is not None else "No change found"
    parts = [f"<h1>{headline}: {escape(label_text(source, 80))}</h1>", f"<p>{_sentence(monitor, size)}</p>"]
    if len(curve) > 1:
        parts.append(f"<h2>Evidence</h2><figure>{_curve(curve, alarm)}</figure>")
    if alarm is not None:
        parts.append(f"<h2>What moved</h2>{_moved(alarm)}")
    rows = [
        ("events", f"{monitor.n_events:,}"),
        ("evidence", "as much as an alarm takes" if alarm else f"{monitor.evidence:.3g} of what an alarm takes"),
        ("promise", str(monitor.settings.promise)),
        ("reference", f"{'known' if monitor.reference.known else 'recorded'}, {monitor.reference.n:,} states"),
        *(
            [("new labels", ", ".join(label_text(s, 30) for s in monitor.new_labels[:10]))]
            if monitor.new_labels
            else []
        ),
        *facts,
    ]
    table = "".join(f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>" for name, text in rows)
    parts.append(f"<h2>The numbers</h2><table><tbody>{table}</tbody></table>")
    parts.append(f'<p class="note">Written by somcot {escape(__version__)}.</p>')
    style = files("somcot").joinpath("data", "report.css").read_text(encoding="utf-8")
    again = "" if refresh is None else f'<meta http-equiv="refresh" content="{refresh:d}">'
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>somcot: {headline}</title>{again}'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _sentence(monitor: Monitor, size: Result | None) -> str:
    alarm = monitor.alarm
    if alarm is None:
        words = f"After {monitor.n_events:,} events nothing speaks for a change."
        if monitor.notice is not None:
            words = f"The process {monitor.notice}."
    else:
        why = "an impossible transition" if alarm.reason != "evidence" else f"evidence {alarm.evidence:.3g}"
        when = f"{moment}, " if (moment := alarm.when(dated=monitor.dated)) else ""
        words = (
            f"The process is no longer the reference: alarm at event {alarm.event:,} ({when}{why}), the change began "
            f"about event {alarm.since:,}."
        )
    if size is None:
        return escape(words)
    words += f" Distance from the reference: {decimals(size.distance)}"
    if size.confidence_interval is not None:
        low, high, level = size.confidence_interval
        words += f" ({100 * level:g} % interval {decimals(low)} to {decimals(high)})"
    return escape(words + (", provisional." if monitor.provisional else "."))


def _curve(curve: Sequence[tuple[int, float]], alarm: Alarm | None) -> str:
    """Evidence on a logarithmic scale from 1e-7 to 1."""
    first, last = curve[0][0], max(curve[-1][0], curve[0][0] + 1)

    def spot(event: float, share: float) -> str:
        x = 50 + (_WIDTH - 60) * (event - first) / (last - first)
        return f"{x:.1f},{10 + (_HEIGHT - 30) * min(max(-math.log10(max(share, 1e-7)) / 7.0, 0.0), 1.0):.1f}"

    line = " ".join(spot(event, share) for event, share in curve)
    marks = [f'<polyline points="{line}" fill="none" stroke="var(--accent)" stroke-width="1.5"/>']
    ends = spot(first, 1.0), spot(last, 1.0)
    marks.append(f'<polyline points="{ends[0]} {ends[1]}" stroke="currentColor" stroke-dasharray="4 3" opacity=".6"/>')
    for share, text in ((1.0, "alarm"), (1e-7, "1e-7")):
        marks.append(f'<text x="4" y="{float(spot(first, share).split(",")[1]) + 4:.1f}">{text}</text>')
    marks.append(f'<text x="50" y="{_HEIGHT - 2:.0f}">{first:,}</text>')
    marks.append(f'<text x="{_WIDTH - 10:.0f}" y="{_HEIGHT - 2:.0f}" text-anchor="end">event {last:,}</text>')
    if alarm is not None and first <= alarm.event <= last:
        x, y = spot(alarm.event, 1.0).split(",")
        marks.append(f'<circle cx="{x}" cy="{y}" r="4" fill="var(--accent)"/>')
    return (
        f'<svg role="img" aria-label="evidence over time" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" width="{_WIDTH:g}" '
        f'height="{_HEIGHT:g}" font-size="12" fill="currentColor">{"".join(marks)}</svg>'
    )


def _moved(alarm: Alarm) -> str:
    rows = "".join(
        f"<tr><td>{escape(label_text(m.source, 30))}</td><td>{escape(label_text(m.target, 30))}</td>"
        f'<td class="number">{m.before:.1%}</td><td class="number">{m.now:.1%}</td>'
        f'<td class="number">{m.n_seen:,}</td><td class="number">{m.surprise:+.1f}</td></tr>'
        for m in alarm.transitions
    )
    head = "<tr><th>from</th><th>to</th><th>reference</th><th>since the change</th><th>times</th><th>surprise</th></tr>"
    return f"<p>Shares of the steps from a state.</p><table><thead>{head}</thead><tbody>{rows}</tbody></table>"
