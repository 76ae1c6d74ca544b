"""`somcot drift`: split a table into periods, compare them, show and write the result; `--alarm` sets the exit code."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import somcot
from somcot.cli.options import ALARM, Cost, OutputOptions, Reading, Seed, SuggestedDiscount

if TYPE_CHECKING:
    from somcot.many.drift import Drift
    from somcot.samples import Samples

__all__ = ["drift"]

_CAUSES = 5


def drift(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Table over time, or - for standard input.")],
    *,
    by: Annotated[
        str,
        typer.Option(
            metavar="COLUMN|PERIOD",
            help="day, week, month, weekday or hour of the --time column, or a column of labels.",
        ),
    ],
    discount: SuggestedDiscount = None,
    cost: Cost = "labels",
    reference: Annotated[
        str | None,
        typer.Option(metavar="PERIOD", help="Period to compare all others with; the first not small by default."),
    ] = None,
    confidence: Annotated[float, typer.Option(metavar="LEVEL", help="Level of each interval.")] = 0.9,
    level: Annotated[
        float, typer.Option(metavar="LEVEL", help="Adjusted p-values up to this level count as a change.")
    ] = 0.05,
    permutations: Annotated[
        int | None,
        typer.Option(min=1, max=10_000_000, metavar="N", help="Maximal number of permutations of each test."),
    ] = None,
    alarm: Annotated[bool, typer.Option("--alarm", help="Exit code 3 if anything changed.")] = False,
    seed: Seed = 0,
    output: OutputOptions,
    reading: Reading,
) -> int:
    """Test whether a process has changed over time, period by period."""
    from somcot.cli.cost_and_cells import reward_column, shared_cost
    from somcot.cli.inputs import NamedProcess, read_groups, suggested_discount
    from somcot.cli.output import caught, command_line, console, deliver, for_terminal, print_json
    from somcot.cli.screens import show_drift, show_written
    from somcot.plumbing.notes import codes

    for name, value in (("--confidence", confidence), ("--level", level)):
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name}: found {value:g}, expected a number strictly between 0 and 1")
    output.check(file, cost)
    with caught() as messages:
        periods = read_groups(file, by, reading, reward_column(cost))
        if discount is None:
            discount = suggested_discount([NamedProcess(str(label), samples) for label, samples in periods.items()])
        outcome = somcot.drift(
            periods, shared_cost(cost, periods), discount=discount, reference=_reference(reference, periods),
            confidence=confidence, level=level, n_permutations=permutations, rng=seed, progress=sys.stderr.isatty(),
        )  # fmt: skip
    notes = [note for note in messages if codes([note]) != ["never-seen"]]
    outcome = replace(outcome, notes=tuple(for_terminal(outcome.notes)))
    every_note = [*outcome.notes, *notes]

    def show() -> None:
        if output.json:
            files = [str(path) for path in (output.html, output.plot) if path]
            print_json(_as_json(outcome, by, cost, seed, every_note) | {"files": files})
        else:
            show_drift(console(), outcome, every_note)

    def write() -> None:
        if output.html is not None:
            outcome.report(output.html, notes=notes, command=command_line(), unit=cost, source=Path(file).name)
        if output.plot is not None:
            _draw(outcome, output.plot)

    deliver(show, write)
    if not output.json:
        show_written(console(), (output.html, output.plot))
    return ALARM if alarm and outcome.alarm else 0


def _reference(text: str | None, periods: Mapping[Hashable, Samples]) -> Hashable | None:
    """The label of a period from its text; labels may be numbers or dates."""
    if text is None:
        return None
    for label in periods:
        if str(label) == text:
            return label
    known = ", ".join(str(label) for label in list(periods)[:12])
    raise ValueError(f"--reference: there is no period {text!r}; the periods are {known}")


def _draw(outcome: Drift, path: Path) -> None:
    import io

    import matplotlib.pyplot as plt

    from somcot.plumbing.files import write_bytes

    picture, ax = plt.subplots(figsize=(max(6.0, 0.32 * len(outcome.periods)), 4.2), layout="constrained")
    outcome.plot(ax)
    sink = io.BytesIO()
    picture.savefig(sink, format=path.suffix[1:].lower(), dpi=150)
    plt.close(picture)
    write_bytes(path, sink.getvalue())


def _as_json(outcome: Drift, by: str, cost: str, seed: int, notes: Sequence[str]) -> dict[str, object]:
    top = outcome.largest
    shares = [] if outcome.result.makeup is None else outcome.result.contributions(_CAUSES).transitions
    counted = zip(outcome.periods, outcome.transitions, strict=True)
    return {
        "somcot": somcot.__version__, "command": "drift", "meaning": outcome.sentence(), "alarm": outcome.alarm,
        "by": by, "reference": outcome.reference, "cost": cost, "discount": outcome.discount,
        "confidence": outcome.confidence, "level": outcome.level, "seed": seed,
        "periods": [{"period": p, "transitions": n} for p, n in counted],
        "left_out": [{"period": p, "transitions": n} for p, n in outcome.left_out.items()],
        "changes": list(outcome.rows()),
        "largest": {"period": top.period, "against": top.against, "transitions": [s._asdict() for s in shares]},
        "warnings": list(notes), "seconds": outcome.seconds,
    }  # fmt: skip
