"""The command line: parses, calls, prints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import somcot
from somcot.validation import Floats

__all__ = ["app", "main"]

app = typer.Typer(
    name="somcot",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_SHADES = " .:-=+*#%@"


def main() -> None:
    """Entry point of the ``somcot`` command."""
    try:
        app()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None


def _print_version(wanted: bool) -> None:
    if wanted:
        print(somcot.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """How far apart are two Markov processes?"""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("out"),
) -> None:
    """Three walks and a chain full of noise: exact distances, and who corresponds to whom."""
    console = Console()
    reward = np.r_[1.0, np.zeros(8), -1.0]
    fair = somcot.random_walk(10, 0.5)
    noisy = somcot.block_chain(fair, 5)
    candidates: list[tuple[str, Any, Floats]] = [
        ("itself", fair, reward),
        ("a walk drifting up (0.7)", somcot.random_walk(10, 0.7), reward),
        ("a walk drifting down (0.3)", somcot.random_walk(10, 0.3), reward),
        ("its copy, each state in 5 variants", noisy, np.repeat(reward, 5)),
    ]
    table = Table(title="How far is the fair 10-state walk from ...")
    table.add_column("process")
    for name in ("distance", "proved to", "sweeps", "ms"):
        table.add_column(name, justify="right")
    _distance(fair, fair, reward, reward)  # loads the kernels, so that the times below are those of the work
    results = []
    for name, chain, values in candidates:
        result = _distance(fair, chain, reward, values)
        results.append(result)
        gap = result.bounds.high - result.bounds.low
        table.add_row(name, f"{result.distance:.6f}", f"{gap:.0e}", str(result.n_steps), f"{1000 * result.seconds:.1f}")
    console.print(table)
    _print_encoder(console, results[-1])
    _save_picture(console, results[-1], out / "encoder.png")


def _distance(x: Any, y: Any, reward_x: Floats, reward_y: Floats) -> somcot.Result:
    return somcot.distance(x, y, somcot.costs.absolute(reward_x, reward_y), discount=0.95)


def _print_encoder(console: Console, result: somcot.Result) -> None:
    """The encoder in characters, darker for more probable."""
    console.print()
    console.print("Who corresponds to whom: the walk's states (down), the 50 variants (across)")
    scaled = result.encoder / max(float(result.encoder.max()), 1e-12)
    for label, row in zip(result.states_x, scaled, strict=True):
        cells = "".join(_SHADES[round(float(v) * (len(_SHADES) - 1))] for v in row)
        console.print(Text(f"  state {label!s:>2}  |{cells}|"))


def _save_picture(console: Console, result: somcot.Result, path: Path) -> None:
    try:
        import matplotlib as mpl
    except ImportError:
        console.print("No picture: matplotlib is missing; pip install 'somcot\\[plot]'", style="yellow")
        return
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from somcot import plots

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    plots.encoder(result, ax=axes[0])
    plots.decoder(result, ax=axes[1])
    figure.suptitle(f"A 10-state walk and its noisy 50-state copy: distance {result.distance:.6f}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    console.print(f"\nPicture written to {path}")
