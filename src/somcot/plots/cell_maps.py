"""Plots of recordings of numeric vectors: cells in the plane, the tests of the map, and the distance in context."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from somcot.cells import ROUTES, Cells, Continuous
from somcot.plots.drawing import NAMES, axes, check, check_pair, shown
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count
from somcot.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["calibration", "cells", "map_tests", "resolution"]

_MEASURED, _FINAL = "0.45", "tab:blue"
_LARGEST = 260.0  # area of the most visited cell, in points


def cells(
    result: Result, *, ax: Axes | None = None, names: tuple[str, str] = NAMES, coordinates: tuple[int, int] = (0, 1)
) -> Axes:
    """Cells in the plane: filled for X, coloured by the distance to the corresponding cells; rings for Y.

    The size of a mark is the time spent in the cell. A line leads from each cell of X to the mean of the corresponding
    cells of Y. Squares are terminal cells.

    Parameters
    ----------
    result : Result
        A distance between two Trajectories.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    names : (str, str)
        Names of the two processes.
    coordinates : (int, int)
        The two coordinates to draw; in one dimension the second axis is the rank of the cell.
    """
    partition = _continuous(result).cells
    check_pair("names", names)
    check_pair("coordinates", coordinates)
    ax = axes(ax)
    flat = partition.centres.shape[1] == 1
    # The mean position of the partners of each cell, under the coupling.
    partners = result.encoder @ partition.centres
    apart = np.sqrt((((partition.centres - partners) / partition.scale) ** 2).sum(axis=1))
    here, there = (_in_plane(points, partition, coordinates) for points in (partition.centres, partners))
    shares = partition.visits / np.maximum(partition.visits.sum(axis=1, keepdims=True), 1)
    # Areas, not radii, are proportional to time.
    # One scale for both recordings, so that their sizes are comparable.
    visited, area = shares > 0, _LARGEST * shares / shares.max()
    square = np.arange(partition.n_cells) >= partition.n_cells - partition.n_ends
    for begin, end in zip(here[visited[0]], there[visited[0]], strict=True):
        ax.plot(*zip(begin, end, strict=True), color="0.55", lw=0.9, zorder=1)
    ax.plot(*there[visited[0]].T, ".", color="0.35", ms=4, zorder=2)
    drawn: Any = None
    top = max(float(apart[visited[0]].max()), 1e-12)  # avoids an empty colour scale if all partners coincide
    for marker, kind in (("o", ~square), ("s", square)):
        inside, rings = kind & visited[0], kind & visited[1]
        if not flat:
            ax.scatter(
                here[rings, 0],
                here[rings, 1],
                s=area[1][rings] + 12,
                marker=marker,
                facecolor="none",
                edgecolor="tab:red",
                lw=1.1,
                alpha=0.8,
                zorder=4,
            )
        if inside.any():
            drawn = ax.scatter(
                here[inside, 0],
                here[inside, 1],
                s=area[0][inside] + 8,
                c=apart[inside],
                vmin=0.0,
                vmax=top,
                cmap="viridis",
                marker=marker,
                edgecolor="white",
                lw=0.6,
                zorder=3,
            )
    ax.figure.colorbar(drawn, ax=ax, label="distance to the corresponding cells")
    _explain(ax, partition, names, coordinates, rings=not flat)
    return ax


def _in_plane(points: Floats, partition: Cells, coordinates: tuple[int, int]) -> Floats:
    """Two coordinates, or the only coordinate and the rank of the cell."""
    if (d := partition.centres.shape[1]) > 1:
        return points[:, [check_count("coordinates", k, -d, d - 1) for k in coordinates]]
    # Applied twice, argsort gives ranks.
    rank = np.argsort(np.argsort(partition.centres[:, 0], kind="stable"), kind="stable")
    return np.column_stack([points[:, 0], rank])


def _explain(ax: Axes, partition: Cells, names: tuple[str, str], coordinates: tuple[int, int], *, rings: bool) -> None:
    from matplotlib.lines import Line2D

    d = len(partition.names)
    first, second = shown(names[0], 20), shown(names[1], 20)
    dot: dict[str, Any] = {"marker": "o", "linestyle": "none"}
    handles = [Line2D([], [], color="tab:green", label=f"cells of {first}", **dot)]
    if rings:
        handles.append(Line2D([], [], markerfacecolor="none", color="tab:red", label=f"cells of {second}", **dot))
    handles.append(Line2D([], [], color="0.55", marker=".", markevery=[1], label="corresponding cells (mean)"))
    if partition.n_ends:
        handles.append(Line2D([], [], color="tab:green", marker="s", linestyle="none", label="terminal cells"))
    ax.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize="small", frameon=False
    )
    which = [partition.names[0]] if d == 1 else [partition.names[k] for k in coordinates]
    some = f" ({len(which)} of {d} coordinates)" if d > len(which) else ""
    ax.set(xlabel=shown(which[0], 40), ylabel="cells, in order" if d == 1 else shown(which[1], 40))
    ax.set_title(f"corresponding cells{some}")
    if d == 1:
        ax.set_yticks([])


def resolution(result: Result, *, ax: Axes | None = None) -> Axes:
    """Deprecated: distances between cells by their number, with the distance and its interval.

    The distance does not depend on cells any more. Parameters as for `cells`.
    """
    continuous = _continuous(result)
    ax = axes(ax)
    sizes, raw, _ = continuous.resolution
    ax.plot(sizes, raw, "o-", color=_MEASURED, label="cells alone")
    if result.confidence_interval is not None:
        low, high, level = result.confidence_interval
        ax.axhspan(low, high, alpha=0.15, color=_FINAL, label=f"{100 * level:g} % interval")
    ax.axhline(result.distance, color=_FINAL, label="result")
    # The interval may reach beyond all points.
    top = max([*raw, result.distance, *(result.confidence_interval or (0.0,))[:2]])
    ax.set(xlabel="cells", ylabel="distance", title="distance by number of cells", ylim=(0, 1.08 * top or 1.0))
    ax.set_xticks(sizes)
    ax.legend(fontsize="small")
    return ax


def map_tests(result: Result, *, ax: Axes | None = None) -> Axes:
    """P-values of the tests of the map between the two recordings; the line is the level below which one rejects it.

    Parameters as for `cells`.
    """
    found = _continuous(result).map
    ax = axes(ax)
    rows = () if found is None else found.tests
    for y, (_, p) in enumerate(rows):
        ax.plot((0.0, p), (y, y), color=_MEASURED, lw=1.5)
        ax.plot(p, y, "o", color=_FINAL if p >= 0.05 / len(rows) else "tab:red")
    if rows:
        ax.axvline(0.05 / len(rows), color="tab:red", ls=":")
    ax.set_yticks(range(len(rows)), [name for name, _ in rows])
    ax.set(ylim=(max(len(rows), 1) - 0.5, -0.5), xlim=(-0.02, 1.02), xlabel="p-value")
    words = "no map was tested" if found is None else found.words
    ax.set_title(textwrap.fill(f'tests of "{words}"', 50), fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


class _Row(NamedTuple):
    """A value from cells or moments, and the result with its interval; each None if missing."""

    name: str
    measured: float | None
    final: float | None
    ends: tuple[float, float] | None = None


def calibration(result: Result, *, ax: Axes | None = None) -> Axes:
    """The distance with its interval, next to the lower bound from moments alone and the distance between cells.

    Without an error bound, the reason is given below the plot. Parameters as for `cells`.
    """
    continuous = _continuous(result)
    ax = axes(ax)
    interval = result.confidence_interval
    ends = None if interval is None else (interval.low, interval.high)
    rows = [_Row("your recordings", None, result.distance, ends)]
    if continuous.lower_bound is not None:
        rows.insert(0, _Row("lower bound", continuous.lower_bound, None))
    if result.plugin is not None:
        rows.append(_Row("cells alone", result.plugin, None))
    for y, row in enumerate(rows):
        _draw(ax, y, row)
    ax.set_yticks(range(len(rows)), [row.name for row in rows])
    ax.set(ylim=(len(rows) - 0.5, -0.5), xlabel="distance")
    # Room for marks at 0, which are frequent.
    ax.set_xlim(-0.02 * ax.get_xlim()[1], None)
    ax.set_title(ROUTES.get(continuous.route, "distance"), pad=26)
    ax.spines[["top", "right"]].set_visible(False)
    _name_marks(ax, interval=ends is not None)
    if continuous.reason:
        ax.set_xlabel("distance\n\n" + textwrap.fill(f"approximate: {continuous.reason}", 60))
    return ax


def _draw(ax: Axes, y: int, row: _Row) -> None:
    if row.measured is not None:
        ax.plot(row.measured, y, "o", color=_MEASURED)
    if row.ends is not None:
        ax.plot(row.ends, (y + 0.14, y + 0.14), color=_FINAL, lw=5, alpha=0.3, solid_capstyle="butt")
    if row.final is not None:
        ax.plot(row.final, y + 0.14, "D", color=_FINAL, ms=6)


def _name_marks(ax: Axes, *, interval: bool) -> None:
    """Draw the legend above the axes, where it covers nothing."""
    from matplotlib.lines import Line2D

    marks = [("o", _MEASURED, "for comparison"), ("D", _FINAL, "result")]
    handles = [Line2D([], [], marker=m, color=c, linestyle="none", label=name) for m, c, name in marks]
    if interval:
        handles.append(Line2D([], [], color=_FINAL, lw=5, alpha=0.3, label="interval"))
    ax.legend(
        handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(handles), fontsize="small",
        frameon=False, handletextpad=0.4, columnspacing=1.2,
    )  # fmt: skip


def _continuous(result: Result) -> Continuous:
    check(result)
    if result.continuous is None:
        raise ValueError("result: has no cells; only distances between Trajectories do")
    return result.continuous
