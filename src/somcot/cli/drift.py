"""`somcot drift`: part a table into periods, compare them, show, write, and say by the exit code whether to worry."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

import somcot
from somcot.cli.cost_option import build_cost
from somcot.cli.distance import console, print_json
from somcot.cli.forecast import suggested_discount
from somcot.cli.inputs import NamedProcess
from somcot.cli.options import Reading
from somcot.cli.output import can_draw, caught, check_targets
from somcot.cli.screens import show_notes
from somcot.many.drift import Drift, drift, short
from somcot.plumbing.text import label_text
from somcot.readers.tables.groups import split_periods
from somcot.samples import Samples

__all__ = ["ALARM", "DriftOptions", "run"]

ALARM = 3  # exit code
_PICTURES = (".png", ".svg", ".pdf", ".jpg")
_SHOWN = 40  # comparisons on a screen
_CAUSES = 5


class DriftOptions(NamedTuple):
    """What was asked for on the command line."""

    by: str
    reference: str | None
    cost: str
    discount: float | None
    confidence: float
    level: float
    permutations: int | None
    seed: int


def run(
    file: str, reading: Reading, asked: DriftOptions, *,
    html: Path | None, plot: Path | None, alarm: bool, as_json: bool,
    command: str,
) -> int:  # fmt: skip
    """`somcot drift`."""
    for name, value in (("--confidence", asked.confidence), ("--level", asked.level)):
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name}: found {value:g}, expected a number strictly between 0 and 1")
    if plot is not None and plot.suffix.lower() not in _PICTURES:
        raise ValueError(f"--plot: found {str(plot)!r}, expected a file ending in {', '.join(_PICTURES)}")
    if plot is not None and not can_draw():
        raise ImportError("--plot: drawing needs matplotlib: pip install matplotlib")
    check_targets({"--html": html, "--plot": plot}, (file, asked.cost))
    with caught() as messages:
        periods = _read(file, reading, asked)
        discount = asked.discount
        if discount is None:
            discount = suggested_discount([NamedProcess(str(label), s) for label, s in periods.items()])
        found = drift(
            periods, _cost(asked.cost, periods), discount=discount, reference=_reference(asked.reference, periods),
            confidence=asked.confidence, level=asked.level, n_permutations=asked.permutations, rng=asked.seed,
            progress=sys.stderr.isatty(),
        )  # fmt: skip
    notes = list(dict.fromkeys(text for text in messages if "kept as absorbing" not in text))
    try:
        if as_json:
            print_json(_as_json(found, asked, [*found.notes, *notes], [str(p) for p in (html, plot) if p]))
        else:
            _show(console(), found, [*found.notes, *notes])
        sys.stdout.flush()
    finally:
        _write(found, html, plot, notes=notes, command=command, unit=asked.cost, source=Path(file).name)
    if not as_json:
        for path in filter(None, (html, plot)):
            console().print(Text(f"written: {path}", style="cyan"))
    return ALARM if alarm and found.alarm else 0


def _read(file: str, reading: Reading, asked: DriftOptions) -> dict[Hashable, Samples]:
    reward = asked.cost.removeprefix("reward:") if asked.cost.startswith("reward:") else None
    if reward == "":
        raise ValueError("--cost reward:: which column? Write --cost reward:COLUMN")
    if reading.bins:
        raise ValueError("--by: states cannot be binned at the same time; bin the column first")
    options: dict[str, Any] = {n: v for n, v in reading.for_kind("table").items() if n != "bins"}
    options |= {"format": reading.format} if reading.format else {}
    options |= {"reward": reward} if reward else {}
    periods = split_periods(file, asked.by, **options)
    if len(periods) < 2:
        (only,) = periods
        raise ValueError(
            f"{file}: there is one period only, {only!s}; choose shorter ones: --by day, or another column"
        )
    return periods


def _reference(text: str | None, periods: Mapping[Hashable, Samples]) -> Hashable | None:
    """A label as it is typed; labels may be numbers or dates."""
    if text is None:
        return None
    for label in periods:
        if str(label) == text:
            return label
    known = ", ".join(str(label) for label in list(periods)[:12])
    raise ValueError(f"--reference: there is no period {text!r}; the periods are {known}")


def _cost(text: str, periods: Mapping[Hashable, Samples]) -> Any:
    """A name stays one; a file is a matrix between the states that all share."""
    if text.startswith("reward:"):
        return "features"
    label, samples = next(iter(periods.items()))
    first = NamedProcess(str(label), samples)
    table = build_cost(text, first, first)
    return table if Path(text).expanduser().exists() else text


def _write(found: Drift, html: Path | None, plot: Path | None, **details: Any) -> None:
    if html is not None:
        found.report(html, **details)
    if plot is not None:
        import io

        import matplotlib.pyplot as plt

        from somcot.plumbing.files import write_bytes

        picture, ax = plt.subplots(figsize=(max(6.0, 0.32 * len(found.periods)), 4.2), layout="constrained")
        found.plot(ax)
        sink = io.BytesIO()
        picture.savefig(sink, format=plot.suffix[1:].lower(), dpi=150)
        plt.close(picture)
        write_bytes(plot, sink.getvalue())


def _as_json(found: Drift, asked: DriftOptions, notes: Sequence[str], written: list[str]) -> dict[str, Any]:
    top = found.largest
    shares = [] if found.result.makeup is None else found.result.contributions(_CAUSES).transitions
    return {
        "somcot": somcot.__version__, "command": "drift", "meaning": found.sentence(), "alarm": found.alarm,
        "by": asked.by, "reference": found.reference, "cost": asked.cost, "discount": found.discount,
        "confidence": found.confidence, "level": found.level, "seed": asked.seed,
        "periods": [{"period": p, "transitions": n} for p, n in zip(found.periods, found.transitions, strict=True)],
        "left_out": [{"period": p, "transitions": n} for p, n in found.left_out.items()],
        "changes": list(found.rows()),
        "largest": {"period": top.period, "against": top.against, "transitions": [s._asdict() for s in shares]},
        "warnings": list(notes), "seconds": found.seconds, "files": written,
    }  # fmt: skip


def _show(screen: Console, found: Drift, notes: Sequence[str]) -> None:
    screen.print(Text(found.sentence(), style="bold"))
    table = Table(box=None, pad_edge=False)
    heads = (("period", "left"), ("against", "left"), ("distance", "right"), (f"{100 * found.confidence:g} % interval",
             "left"), ("p (corrected)", "right"), ("", "left"))  # fmt: skip
    for title, side in heads:
        table.add_column(title, justify=side)  # type: ignore[arg-type]
    for c in found.changes[-_SHOWN:]:
        changed = c.adjusted <= found.level
        ends = f"{short(c.low)} to {short(c.high)}"
        table.add_row(
            Text(label_text(c.period, 20)), Text(label_text(c.against, 20)), short(c.distance), ends,
            short(c.adjusted), Text("changed" if changed else "", style="bold red"),
        )  # fmt: skip
    screen.print(table)
    if len(found.changes) > _SHOWN:
        screen.print(Text(f"The last {_SHOWN} of {len(found.changes)} comparisons; --json and --html have all."))
    _show_causes(screen, found)
    show_notes(screen, (label_text(note, 300) for note in notes), most=8)


def _show_causes(screen: Console, found: Drift) -> None:
    if found.result.makeup is None or not found.alarm:
        return
    top = found.largest
    names = label_text(top.against, 20), label_text(top.period, 20)
    screen.print(Text(f"\nWhat changed most, {names[1]} against {names[0]}:", style="bold"))
    table = Table(box=None, pad_edge=False)
    for title, side in (("transition", "left"), *((name, "right") for name in names), ("contribution", "right")):
        table.add_column(Text(title), justify=side)  # type: ignore[arg-type]
    for s in found.result.contributions(_CAUSES).transitions:
        words = f"{label_text(s.state, 20)} \u2192 {label_text(s.next_state, 20)}"
        shares = (f"{100 * p:.0f} %" for p in (s.probability_x, s.probability_y))
        table.add_row(Text(words), *shares, f"{short(s.amount)}{' *' if s.marked else ''}")
    screen.print(table)
