"""Draw a table of docs/benchmarks.md and orbits of SOMCOT: ``python -m benchmarks.pictures`` writes docs/images/."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

from somcot import costs, distance, random_walk, streams
from somcot.solvers.somcot import algorithm
from somcot.steps import explicit

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


def orbits(n: int = 3000) -> Any:
    """Iterates of Algorithm 2 and of SOMCOT's default on two walks: cost of mu against a difference of V."""
    x, y, discount = random_walk(5, 0.5, start=2), random_walk(5, 0.7, start=0), 0.9
    cost = costs.absolute([1, 0, 0, 0, -1], [1, 0, 0, 0, -1]) / 2
    start, allowed = np.outer(x.initial, y.initial), np.einsum("xu,yv->xyuv", x.transition > 0, y.transition > 0)
    exact = distance(x, y, cost, discount=discount)
    visits = x.state_occupancy(discount), y.state_occupancy(discount)
    problem = algorithm.Counted(cost, start, discount, x.transition, y.transition, visits[0], visits[1], 1.0)
    problem = replace(problem, b=2 * algorithm.spread(problem))
    iterates = [algorithm.first(5, 5, allowed)]
    for _ in range(n):
        iterates.append(algorithm.counted_step(iterates[-1], problem))
    drawn = [streams.from_chain(chain, discount, seed).draw(n) for seed, chain in enumerate((x, y))]
    rates = algorithm.Given(cost, start, discount, explicit(1.0, 0.5))
    sampled = list(algorithm.iterates(drawn[0], drawn[1], rates, 1, allowed))
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True, sharex=True)
    for ax, path, title in (
        (axes[0], sampled, "Algorithm 2, eta = 1, beta = 0.5"),
        (axes[1], iterates, "default: counts, extrapolated duals"),
    ):  # fmt: skip
        place = np.array([((z.mu.sum(axis=(2, 3)) * cost).sum(), z.V[2, 0] - z.V[0, 0]) for z in path])
        ax.plot(*place.T, color="0.75", linewidth=0.4)
        ax.scatter(*place.T, c=np.arange(len(place)), s=3, cmap="viridis")
        ax.axvline(exact.distance, color="tab:red", linestyle="--", linewidth=1)
        ax.plot(place[n // 2 :, 0].mean(), place[n // 2 :, 1].mean(), "k+", markersize=12)
        ax.set(title=title, xlabel="cost of mu in one iteration (dashed: the distance)")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("V(2, 0) - V(0, 0)")
    return figure


def main() -> None:
    """Draw all."""
    pictures = (("benchmarks-peers", known_chains), ("somcot-orbits", orbits))
    for name, draw in pictures:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        draw().savefig(DOCS / "images" / f"{name}.png", dpi=110)
        print(f"written to docs/images/{name}.png")


if __name__ == "__main__":
    main()
