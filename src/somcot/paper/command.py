"""``somcot reproduce``: run an experiment, write its figure, its numbers and, for all of them, one page."""

from __future__ import annotations

import enum
import tempfile
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from somcot.paper import encoder, pendulum, similarity
from somcot.paper import experiment as style
from somcot.paper import model_selection as selection
from somcot.paper import step_sizes as steps
from somcot.paper.experiment import Experiment, FigureCheck, Record, Report
from somcot.plumbing.files import check_replaceable, write_bytes
from somcot.plumbing.text import label_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "EXPERIMENTS",
    "Name",
    "index_page",
    "produce",
    "register",
    "reproduce",
]


# --- One page with all figures.

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>somcot: the paper's figures</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
figure { margin: 0 0 1rem; }
img { max-width: 100%; max-height: 36rem; }
table { border-collapse: collapse; font-size: 0.85rem; }
td, th { padding: 0.15rem 0.8rem 0.15rem 0; text-align: left; font-variant-numeric: tabular-nums; }
.miss { color: #b03000; font-weight: 600; }
section { margin-bottom: 3rem; }
</style>
</head>
<body>
<h1>Distances for Markov chains from sample streams: the figures</h1>
"""


def index_page(results: Sequence[tuple[Experiment, Record]]) -> str:
    """HTML that refers to ``NAME.png``, ``NAME.svg`` and ``NAME.json`` in the same folder."""
    return _HEAD + "\n".join(_section(*result) for result in results) + "\n</body>\n</html>\n"


def _section(experiment: Experiment, record: Record) -> str:
    name = experiment.name
    rows = "\n".join(_row(check) for check in record.checks)
    # The command that makes this figure again.
    options = " --quick" * (record.settings == experiment.quick) + f" --seed {record.seed}" * (record.seed != 0)
    return f"""<section id="{name}">
<h2>{escape(experiment.title)}</h2>
<figure><a href="{name}.svg"><img src="{name}.png" alt="{escape(experiment.title)}"></a></figure>
<p>{escape(experiment.see)}</p>
<table>
<tr><th>acceptance figure</th><th>value</th><th>expected</th><th></th></tr>
{rows}
</table>
<p><a href="{name}.json">numbers</a> · seed {record.seed} · <code>somcot reproduce {name}{options}</code></p>
</section>"""


def _row(check: FigureCheck) -> str:
    mark = "met" if check.passed else '<span class="miss">missed</span>'
    expected = f"{'at least' if check.relation == '>=' else 'at most'} {check.limit:.3g}"
    return f"<tr><td>{escape(check.name)}</td><td>{check.value:.3g}</td><td>{expected}</td><td>{mark}</td></tr>"


# --- ``somcot reproduce``.

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (encoder, selection, similarity, steps, pendulum)
}


class Name(enum.StrEnum):
    """Names of the experiments."""

    ENCODER = "encoder"
    SELECTION = "selection"
    SIMILARITY = "similarity"
    STEPS = "steps"
    PENDULUM = "pendulum"
    ALL = "all"


def register(app: typer.Typer, cls: Any = None) -> None:
    """Add the ``reproduce`` command to an application, as a command of this class."""
    app.command(cls=cls)(reproduce)


def reproduce(
    name: Annotated[Name, typer.Argument(help="Which figure of the paper, or all of them.", show_default=False)],
    quick: Annotated[bool, typer.Option("--quick", help="A smaller version, within a minute each.")] = False,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for figures and numbers.")] = Path("out")
    / "reproduce",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="The first seed; the others follow it.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace output files that somcot did not write.")] = False,
) -> None:
    """Reproduce the figures of the paper: PNG, SVG and their data as JSON."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # Before anything is computed: without a display Matplotlib would fail at the end.
    _without_screen()
    _prepare(out)
    chosen = list(EXPERIMENTS) if name is Name.ALL else [name.value]
    files = [f"{key}.{kind}" for key in chosen for kind in ("json", "png", "svg")]
    for file in files + ["index.html"] * (name is Name.ALL):
        check_replaceable("--out", out / file, force=force)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    results = []
    for key in chosen:
        began = time.process_time()
        with Progress(*columns, console=console) as progress:
            task = progress.add_task(key, total=None)

            # Defaults bind the present progress bar; a closure would see the last one.
            def report(done: int, total: int, progress: Progress = progress, task: Any = task) -> None:
                progress.update(task, completed=done, total=total)

            record = produce(EXPERIMENTS[key], quick=quick, out=out, seed=seed, report=report)
        results.append((EXPERIMENTS[key], record))
        typer.echo(_summary(record, out, time.process_time() - began))
        if name is Name.ALL:  # after each figure, so that an interrupted run leaves a page of the finished ones
            write_bytes(out / "index.html", index_page(results).encode())
    if name is Name.ALL:
        typer.echo(f"All figures on one page: {label_text(str(out / 'index.html'), 4096)}")


def produce(experiment: Experiment, *, quick: bool, out: Path, seed: int = 0, report: Report | None = None) -> Record:
    """Run one experiment and write ``NAME.png``, ``NAME.svg`` and ``NAME.json`` into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    record = experiment.run(experiment.quick if quick else experiment.full, seed, report)
    figure = experiment.plot(record)
    # Numbers first: a failing plot must not lose hours of computing.
    write_bytes(out / f"{experiment.name}.json", f"{record.to_json()}\n".encode())
    style.save(figure, out, experiment.name)
    _close(figure)
    return record


def _prepare(out: Path) -> None:
    """Create the folder, and check before the computation that it can be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        # An actual file: permissions alone do not show full disks and read-only mounts.
        with tempfile.TemporaryFile(dir=out):
            pass
    except (FileExistsError, NotADirectoryError):
        raise typer.BadParameter(f"{out} is a file or below one, expected a folder", param_hint="'--out'") from None
    except OSError as error:
        reason = f"{out} cannot be written ({error.strerror}); choose another folder"
        raise typer.BadParameter(reason, param_hint="'--out'") from None


def _summary(record: Record, out: Path, seconds: float) -> str:
    files = ", ".join(f"{record.name}.{kind}" for kind in ("png", "svg", "json"))
    lines = [f"{record.name}: {files} in {label_text(str(out), 4096)}, {seconds:.0f} s of CPU"]
    lines += [f"  {check}" for check in record.checks]
    if not record.passed:
        lines.append(f"  {sum(not check.passed for check in record.checks)} of {len(record.checks)} missed")
    return "\n".join(lines)


def _without_screen() -> None:
    try:
        import matplotlib as mpl
    except ImportError:
        raise ImportError("figures need matplotlib: pip install matplotlib") from None
    mpl.use("Agg")


def _close(figure: Figure) -> None:
    import matplotlib.pyplot as plt

    plt.close(figure)
