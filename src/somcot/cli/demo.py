"""The bundled example, start to finish: two recorded months of a shop, and the truth behind them."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

import somcot
from somcot.cli import screens
from somcot.cli.inputs import NamedProcess
from somcot.cli.output import ShownResult, can_draw, caught, write_files
from somcot.data import clickstream
from somcot.plumbing.files import write_bytes
from somcot.readers import from_table

__all__ = ["run"]

DISCOUNT = 0.9
COLUMNS = "--sequence session --time time --state page --terminated all"


def run(out: Path, console: Console) -> int:
    """`somcot demo`."""
    console.print(
        "A web shop recorded its visitors' clicks in May and, after a redesign, in June.\n"
        "How different has the behaviour become, and where?\n"
    )
    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{month}.csv" for month in ("may", "june")]
    for path in files:
        write_bytes(path, clickstream.path(path.stem).read_bytes())
    report = out / "report.html"
    command = f"somcot distance {files[0]} {files[1]} \\\n    {COLUMNS} --discount {DISCOUNT:g} --html {report}"
    console.print(Text(f"$ {command}", style="bold cyan"), soft_wrap=True)
    with caught() as messages:
        may, june = (
            NamedProcess(path.name, from_table(path, sequence="session", time="time", state="page", terminated=True))
            for path in files
        )
        cost = somcot.costs.labels(may.value.states, june.value.states)
        result = somcot.distance(may.value, june.value, cost, discount=DISCOUNT, confidence=0.9, rng=0)
    truth = _truth()
    answer = ShownResult(result, may, june, cost, "labels", 0, messages, command, state_name="page")
    figure = out / "demo.png" if can_draw() else None
    screens.show_distance(console, answer, known=truth)  # the answer first, as in `somcot distance`
    write_files(answer, report, figure, known=truth)
    screens.show_files(console, answer)
    if figure is None:
        console.print("figure: left out, drawing needs matplotlib: pip install matplotlib")
    _verdict(console, result, truth)
    _next(console, files)
    return 0


def _truth() -> float:
    """The exact distance of the two chains the sessions were drawn from."""
    x, y = clickstream.chain("may"), clickstream.chain("june")
    cost = somcot.costs.labels(x.states, y.states)
    return somcot.distance(x, y, cost, discount=DISCOUNT).distance


def _verdict(console: Console, result: somcot.Result, truth: float) -> None:
    interval = result.confidence_interval
    if interval is None:
        return
    level = 100 * interval.level
    if interval.low <= truth <= interval.high:
        text = f"The truth, {truth:.4f}, lies inside the interval; {level:g} of 100 draws are meant to end so."
    else:
        text = f"The truth, {truth:.4f}, lies outside the interval; {100 - level:g} of 100 draws may end so."
    console.print(Text(f"\n{text}", style="bold"))


def _next(console: Console, files: list[Path]) -> None:
    pair = f"{files[0]} {files[1]}"
    console.print("\nNext, you may try")
    for what, command in (
        ("is it the same process at all?", f"somcot test {pair} {COLUMNS} --discount {DISCOUNT:g}"),
        ("what does a file hold?", f"somcot info {files[0]} {COLUMNS}"),
        ("how far apart from every pair of pages?", f"somcot metric {pair} {COLUMNS} --discount {DISCOUNT:g}"),
    ):
        console.print(Text(f"  # {what}", style="dim"))
        console.print(Text(f"  {command}"), soft_wrap=True)
