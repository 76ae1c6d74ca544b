"""Draw the tables of docs/benchmarks.md and docs/live.md: ``python -m benchmarks.pictures`` writes docs/images/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

DOCS = Path(__file__).parents[1] / "docs"
SMALLEST = 1e-16  # errors of exactly 0 are drawn here


def table(page: str, heading: str) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the first table whose head begins so."""
    lines = (DOCS / page).read_text().splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows = []
    for line in lines[at + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return [cell.strip() for cell in lines[at].strip("|").split("|")], rows


def known_chains() -> Any:
    """Time and error of other packages, instance by instance."""
    head, rows = table("benchmarks.md", "instance | distance | bracket")
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
    places = np.arange(len(rows))[::-1]
    for column, marker in ((5, "o"), (6, "s"), (7, "D")):
        found = [re.match(r"([\d.,]+)x, ([-+\d.e]+)", row[column]) for row in rows]
        spots = [(y, float(m[1].replace(",", "")), abs(float(m[2]))) for y, m in zip(places, found, strict=True) if m]
        y, ratio, error = (np.array(part) for part in zip(*spots, strict=True))
        name = "POT, written by hand" if column == 5 else head[column]
        axes[0].plot(ratio, y, marker, label=name, alpha=0.85)
        axes[1].plot(np.maximum(error, SMALLEST), y, marker, alpha=0.85)
    brackets = [max(float(row[2]), SMALLEST) for row in rows]
    axes[1].plot(brackets, places, "k|", ms=12, label="somcot: proved to")
    axes[0].axvline(1, color="k", linewidth=1)
    axes[0].set(xscale="log", xlabel="CPU time, as a multiple of somcot's", xlim=(0.7, None))
    axes[0].set_yticks(places, [row[0] for row in rows])
    axes[1].set(xscale="log", xlabel="error")
    for ax in axes:
        ax.grid(axis="x", alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    return figure


def detectors() -> Any:
    """False alarms and misses of detectors on two streams."""
    _, rows = table("live.md", "detector")
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained", sharey=True)
    places = np.arange(len(rows))[::-1]
    for ax, first, title in zip(axes, (1, 4), ("walk, .5 to .7", "dense, 10 % mixed"), strict=True):
        ax.barh(places + 0.18, [float(row[first]) for row in rows], 0.34, color="tab:red", label="false alarms")
        ax.barh(places - 0.18, [float(row[first + 2]) for row in rows], 0.34, color="0.55", label="missed")
        ax.axvline(0.05, color="k", linestyle=":", linewidth=1)
        ax.set(title=title, xlabel="share of streams; dotted: what the monitor promises", xlim=(0, 1))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(places, [row[0] for row in rows])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    return figure


def main() -> None:
    """Draw both."""
    for name, draw in (("benchmarks-peers", known_chains), ("benchmarks-detectors", detectors)):
        draw().savefig(DOCS / "images" / f"{name}.png", dpi=110)
        print(f"written to docs/images/{name}.png")


if __name__ == "__main__":
    main()
