"""How time and memory grow with the number of states, family by family, and what fits on a laptop.

Every family is measured in a process of its own and grows, so that peak memory is that of the last solve. The largest
sizes of wide supports take over 100 MB: below, what the process has from before hides a part of what a solve takes, and
a line through such points is too steep.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tests.instances import dense_kernel
from tests.reference import pot_policy_iteration

from benchmarks import families
from benchmarks.exact import cpu
from benchmarks.frontier import ROOT, Worker

__all__ = ["report"]

POT_LIMIT = 8.0  # CPU seconds, after which no larger problem is given to POT


class Scale(NamedTuple):
    """A family, the work on it and its sizes; the number of states is the size to the power `power`."""

    name: str
    work: str
    family: str
    sizes: tuple[tuple[int, ...], ...]
    power: int = 1
    pot: bool = False


SCALES = [
    Scale("walk, distance", "number", "walk", ((300,), (1000,), (3000,), (5000,))),
    Scale("walk, metric", "metric", "walk", ((50,), (150,), (400,), (1000,)), pot=True),
    Scale("2 successors", "metric", "sparse", ((50, 2), (150, 2), (400, 2), (800, 2)), pot=True),
    Scale("5 successors", "metric", "sparse", ((50, 5), (150, 5), (400, 5)), pot=True),
    Scale("gridworld", "metric", "grid", ((7,), (12,), (18,), (24,), (40,)), 2, pot=True),
    Scale("graph", "metric", "graph", ((50,), (150,), (400,)), pot=True),
    Scale("counts, all seen", "metric", "counts", ((25, 200), (50, 400), (75, 600), (150, 1200)), pot=True),
    Scale("dense", "metric", "dense", ((12,), (25,), (50,), (100,), (200,)), pot=True),
]


class Point(NamedTuple):
    """What was measured at one size; `pot` is NaN where POT was not run."""

    n: int
    seconds: float
    bytes: float
    pot: float


def measure(scale: Scale) -> list[Point]:
    """All sizes of a family."""
    found: list[Point] = []
    worker = Worker(ROOT / "src")
    base = worker.ask(work=scale.work, family=scale.family, sizes=scale.sizes[0])["peak"]  # loads the kernels
    for sizes in scale.sizes:
        answer = worker.ask(work=scale.work, family=scale.family, sizes=sizes)
        quick = not found or found[-1].pot <= POT_LIMIT / 10.0
        pot = _pot(families.make(scale.family, *sizes)) if scale.pot and quick else np.nan
        found.append(Point(sizes[0] ** scale.power, answer["seconds"], answer["peak"] - base, pot))
        print(scale.name, found[-1], file=sys.stderr, flush=True)
    worker.close()
    return found


def _pot(case: families.Case) -> float:
    P, Q = dense_kernel(case.x), dense_kernel(case.y)
    return cpu(lambda: pot_policy_iteration.solve(P, Q, case.cost, case.discount))[0]


def reach(points: list[Point], values: list[float], limit: float) -> str:
    """The number of states at which a quantity reaches a limit, along a line through the last points (logarithms)."""
    n, v = np.log([p.n for p in points]), np.log(np.maximum(values, 1e-9))
    slope = max((v[-1] - v[-2]) / (n[-1] - n[-2]), 2.0)  # nothing grows more slowly than the table of costs
    at = np.interp(np.log(limit), v, n) if limit <= values[-1] else n[-1] + (np.log(limit) - v[-1]) / slope
    rounded = float(f"{np.exp(at):.1e}")
    return f"{'' if limit <= values[-1] else '~ '}{rounded:,.0f}"


def _cells(point: Point) -> str:
    ratio = "" if np.isnan(point.pot) else f"{point.pot / point.seconds:.0f}x"
    return f"{point.n:,} | {point.seconds:.3g} | {point.bytes / 1e6:.0f} | {ratio}"


def laptop(measured: dict[str, list[Point]]) -> list[str]:
    """Rows: states for a second, a minute, 8 GB."""
    rows = []
    for name, points in measured.items():
        seconds, memory = [p.seconds for p in points], [p.bytes for p in points]
        cells = [name, reach(points, seconds, 1.0), reach(points, seconds, 60.0), reach(points, memory, 8e9)]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def draw(measured: dict[str, list[Point]], path: Path) -> None:
    """Time and memory against the number of states."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharex=True)
    for k, (name, points) in enumerate(measured.items()):
        n, colour = [p.n for p in points], f"C{k}"
        axes[0].plot(n, [p.seconds for p in points], "o-", color=colour, label=name, markersize=4)
        axes[0].plot(n, [p.pot for p in points], "x--", color=colour, markersize=5)
        large = [p for p in points if p.bytes > 4e6]  # below, it is what the process grows by anyway
        axes[1].plot([p.n for p in large], [p.bytes / 1e6 for p in large], "o-", color=colour, markersize=4)
    axes[0].plot([], [], "x--", color="gray", label="with POT")
    for axis, words in zip(axes, ("CPU seconds", "peak memory of the solve, MB"), strict=True):
        axis.set(xscale="log", yscale="log", xlabel="states of each process", ylabel=words)
        axis.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def report(images: Path) -> str:
    """Markdown section; the picture goes into a folder."""
    measured = {scale.name: measure(scale) for scale in SCALES}
    draw(measured, images / "scaling.png")
    points = [f"| {name} | {_cells(p)} |" for name, found in measured.items() for p in found]
    return "\n".join(
        [
            "## Problem sizes",
            "",
            f"![CPU time and memory against the number of states]({images.name}/scaling.png)",
            "",
            "Two processes with equal numbers of states, discount 0.95, peak memory above the loaded library; `metric`",
            "(all pairs of states) except for the rows of `distance`. POT as above, if it takes less than about "
            f"{POT_LIMIT:.0f} s.",
            "",
            "| family | states | CPU s | memory, MB | POT |",
            "|---|---|---|---|---|",
            *points,
            "",
            "Numbers of states that fit, interpolated or (with ~) extrapolated:",
            "",
            "| family | 1 s | 1 minute | 8 GB |",
            "|---|---|---|---|",
            *laptop(measured),
        ]
    )
