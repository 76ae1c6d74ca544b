"""Measure bias, coverage and test level of the estimates from data: ``python -m benchmarks.accuracy``.

Prints the tables of docs/statistics.md and draws its pictures into docs/images. Takes some minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tests.ab_instances import GROUPS, RULES, Cell, Figures, cells, demo, figures
from tests.data_instances import estimate, truth
from tests.statistical.test_estimation_accuracy import rejections

from somcot import Result

ZERO = ("rw5_0.5@0.9", "bl5x3_0.5", "lazy0")
POSITIVE = ("rw5_0.7@0.9", "bl5x3_0.7", "lazy")
FAMILIES = (*ZERO, "rw5_0.55@0.9", *POSITIVE, "rw5_0.7@0.99", "dense5", "ruin")
SIZES = (1000, 3000, 10_000, 30_000)


def plugin(runs: Sequence[Result]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array([run.plugin for run in runs], dtype=np.float64)


def accuracy_table(seeds: int = 20) -> tuple[list[str], dict[str, list[tuple[float, float]]]]:
    """Mean absolute errors of the plug-in and the estimate, per family and size."""
    lines = [
        "| family | distance | " + " | ".join(f"N = {n:,}" for n in SIZES) + " |",
        "|---|---|" + "---|" * len(SIZES),
    ]
    curves: dict[str, list[tuple[float, float]]] = {}
    for name in FAMILIES:
        d = truth(name)
        cells = []
        for n in SIZES:
            runs = [estimate(name, n, seed) for seed in range(seeds)]
            plain = float(np.abs(plugin(runs) - d).mean())
            corrected = float(np.mean([abs(run.distance - d) for run in runs]))
            curves.setdefault(name, []).append((plain, corrected))
            cells.append(f"{plain:.4f} -> {corrected:.4f}")
        lines.append(f"| {name} | {d:.4f} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines, curves


def coverage_table(n: int = 3000, seeds: int = 200) -> tuple[list[str], dict[str, float]]:
    """Coverage at nominal 90 %, mean width, and the standard error against the spread of the plug-in."""
    lines = ["| family | coverage | width | standard error / spread |", "|---|---|---|---|"]
    found: dict[str, float] = {}
    for name in FAMILIES:
        d = truth(name)
        runs = [estimate(name, n, seed, confidence=0.9) for seed in range(seeds)]
        intervals = [run.confidence_interval for run in runs if run.confidence_interval is not None]
        found[name] = float(np.mean([low <= d <= high for low, high, _ in intervals]))
        width = np.mean([high - low for low, high, _ in intervals])
        errors = np.mean([run.estimate.standard_error for run in runs if run.estimate is not None])
        lines.append(f"| {name} | {found[name]:.3f} | {width:.3f} | {errors / plugin(runs).std():.2f} |")
        print(lines[-1], flush=True)
    return lines, found


def before_and_after_table(seeds: int = 100) -> list[str]:
    """Every rule where few rows, none or all changed: means over cells, with the worst cell in brackets."""
    lines = [
        "| cells x seeds | rule | bias / standard error | error / plug-in's | root mean square | coverage | width |",
        "|---|---|---|---|---|---|---|",
    ]
    sets: list[tuple[str, Sequence[Cell], int]] = [(group, cells(group), seeds) for group in GROUPS]
    for group, members, n in (*sets, ("demo", (demo(),), 2 * seeds)):
        found = [figures(cell, range(n)) for cell in members]
        for rule in RULES:
            first = f"{group} ({len(members)} x {n})" if rule == RULES[0] else ""
            lines.append(f"| {first} | {rule} | " + _row([f[rule] for f in found]))
            print(lines[-1], flush=True)
    return lines


def _row(cells_of_rule: list[Figures]) -> str:
    bias, error, rms, coverage, width = np.array(cells_of_rule).T
    parts = [f"{bias.mean():.2f} [{bias[np.abs(bias).argmax()]:.2f}]"]
    parts += [f"{values.mean():.2f} [{values.max():.2f}]" for values in (error, rms)]
    parts += [f"{coverage.mean():.3f} ({coverage.min():.2f})", f"{width.mean():.2f} [{width.max():.2f}]"]
    return " | ".join(parts) + " |"


def draw(curves: dict[str, list[tuple[float, float]]], coverage: dict[str, float], folder: Path) -> None:
    """Errors against the number of transitions, and coverage by family."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    groups = (("true distance 0", ZERO), ("true distance above 0", POSITIVE))
    for ax, (title, names) in zip(axes, groups, strict=False):
        for name, colour in zip(names, ("#0072b2", "#d55e00", "#009e73"), strict=True):
            plain, corrected = np.array(curves[name]).T
            ax.loglog(SIZES, plain, "--", color=colour, lw=1)
            ax.loglog(SIZES, corrected, "o-", color=colour, label=name, ms=4)
        ax.set(title=title, xlabel="transitions per process", ylabel="mean absolute error")
        ax.legend(frameon=False, fontsize=8, title="estimate (dashed: plug-in)", title_fontsize=8)
    ax = axes[2]
    ax.barh(list(coverage), list(coverage.values()), color="#9ecae1")
    ax.axvline(0.9, color="black", lw=1)
    ax.set(xlim=(0.6, 1), title="coverage of the 90 % interval")
    ax.invert_yaxis()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / "accuracy.png", dpi=130)


def main() -> None:
    """Measure everything, print Markdown, draw."""
    _, curves = accuracy_table()
    _, coverage = coverage_table()
    before_and_after_table()
    for theta, n in ((0.5, 3000), (0.6, 3000), (0.6, 10_000)):
        share = rejections(theta, n)
        print(f"same-process test, walks 0.5 and {theta}, {n} transitions: rejected at 5 % in {share:.3f}")
    draw(curves, coverage, Path(__file__).parents[1] / "docs" / "images")


if __name__ == "__main__":
    main()
