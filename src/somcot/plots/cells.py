"""Recordings of real vectors: cells in the plane with their partners, and what fewer cells say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from somcot.cells import Continuous
from somcot.plots.drawing import NAMES, axes, shown
from somcot.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cells", "resolution"]


def cells(
    result: Result, *, ax: Axes | None = None, names: tuple[str, str] = NAMES, coordinates: tuple[int, int] = (0, 1)
) -> Axes:
    """Centres of the cells, as large as they are visited, coloured by how far away the partners in Y are.

    An arrow leads from each cell to the mean of those it goes with.

    Parameters
    ----------
    result : Result
        Of two Trajectories.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    names : (str, str)
        What to call the two processes.
    coordinates : (int, int)
        Which two of the coordinates; in one dimension the second is the number of the cell.
    """
    found = _continuous(result).cells
    ax = axes(ax)
    first, second = coordinates
    flat = found.centres.shape[1] == 1
    goal = result.encoder @ found.centres
    rows = np.arange(found.n_cells)
    here = np.column_stack([found.centres[:, 0], rows]) if flat else found.centres[:, [first, second]]
    there = np.column_stack([goal[:, 0], rows]) if flat else goal[:, [first, second]]
    size = 20 + 1500 * found.visits.sum(axis=0) / found.visits.sum()
    apart = np.sqrt((((found.centres - goal) / found.scale) ** 2).sum(axis=1))
    for begin, end in zip(here, there, strict=True):
        ax.annotate("", end, begin, arrowprops={"arrowstyle": "->", "color": "0.5", "lw": 0.9})
    drawn = ax.scatter(here[:, 0], here[:, 1], s=size, c=apart, cmap="viridis", vmin=0.0, edgecolor="white", zorder=3)
    ax.figure.colorbar(drawn, ax=ax, label="distance to the partners")
    labels = (found.names[0], "cell") if flat else (found.names[first], found.names[second])
    title = f"cells of {shown(names[0], 20)} and partners in {shown(names[1], 20)}"
    ax.set(xlabel=shown(labels[0]), ylabel=shown(labels[1]), title=title)
    return ax


def resolution(result: Result, *, ax: Axes | None = None) -> Axes:
    """What fewer cells say, beside the answer with its interval and the correction by linear twins.

    How little the lines change says nothing about their error. Parameters as for `cells`.
    """
    found = _continuous(result)
    ax = axes(ax)
    sizes, raw, estimate = found.resolution
    ax.plot(sizes, raw, "o-", color="0.5", label="cells alone")
    ax.plot(sizes, estimate, "s--", color="0.7", label="estimate on cells")
    if result.confidence_interval is not None:
        low, high, level = result.confidence_interval
        ax.axhspan(low, high, alpha=0.15, color="tab:blue", label=f"{100 * level:g} % interval")
    ax.axhline(result.distance, color="tab:blue", label="answer")
    if found.twin.used and found.twin.distance is not None:
        ax.axhline(found.twin.distance, color="tab:orange", ls=":", label="linear models, closed form")
    ax.set(xlabel="cells", ylabel="distance", title="what fewer cells say", ylim=(0, None))
    ax.set_xticks(sizes)
    ax.legend()
    return ax


def _continuous(result: Result) -> Continuous:
    if result.continuous is None:
        raise ValueError("result: has no cells; only distances between Trajectories do")
    return result.continuous
