"""Plots of many processes (heat map, dendrogram, map in the plane, candidates, drift) and of decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from somcot.inference.decisions import SampleSize
from somcot.many.drift import Drift
from somcot.many.record import DistanceMatrix, joint_labels
from somcot.many.selection import Selection
from somcot.mdp import TransferBound
from somcot.plots.drawing import axes, bar_labels, shown, shown_all
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_flag, check_kind
from somcot.plumbing.html import place_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["dendrogram", "drift", "embedding", "matrix", "power_curve", "selection", "transfer_bound"]

_TICKS = 30  # maximal number of labelled periods
_MOST = 60  # maximal number of readable labels


def matrix(found: DistanceMatrix, *, ax: Axes | None = None, ordered: bool = True) -> Axes:
    """Heat map of the distances, in the order of the dendrogram, so that similar processes are adjacent.

    Cells that are not distinguishable from equal processes have a dot (`DistanceMatrix.within_chance`).

    Parameters
    ----------
    found : DistanceMatrix
    ax : matplotlib Axes, optional
    ordered : bool
        If False, keep the order of the matrix, as always if distances are missing or rows and columns differ.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import somcot
    >>> walks = {theta: somcot.random_walk(3, theta) for theta in (0.3, 0.5, 0.7)}
    >>> found = somcot.distance_matrix(walks, "labels", discount=0.9)
    >>> [label.get_text() for label in matrix(found).get_xticklabels()]
    ['0.7', '0.3', '0.5']
    """
    check_kind("found", found, DistanceMatrix)
    check_flag("ordered", ordered)
    ax = axes(ax)
    rows = columns = np.arange(len(found.labels))
    # A linkage needs all distances.
    if ordered and found.square and not np.isnan(found.uncut).any():
        rows = columns = _leaves(found)
    elif not found.square:
        columns = np.arange(len(found.other_labels))
    values, chance = found.values[np.ix_(rows, columns)], found.within_chance
    top = float(np.nanmax(values, initial=0.0)) or 1.0
    image = ax.imshow(np.ma.masked_invalid(values), cmap="Blues", vmin=0.0, vmax=top)
    ax.figure.colorbar(image, ax=ax, label="distance", shrink=0.85)
    if chance is not None and (close := np.argwhere(chance[np.ix_(rows, columns)] & ~np.isnan(values))).size:
        ax.scatter(close[:, 1], close[:, 0], s=8, color="0.45", linewidths=0)
        ax.set_title("dots: as expected by chance", fontsize="small")
    for axis, labels, order in ((ax.yaxis, found.labels, rows), (ax.xaxis, found.other_labels, columns)):
        # Rounded up: every step-th label.
        step = -(-len(order) // _MOST)
        axis.set_ticks(np.arange(0, len(order), step), shown_all(labels[i] for i in order[::step]))
    ax.tick_params(axis="both", labelsize=9 if len(rows) <= 20 else 6, length=0)
    ax.tick_params(axis="x", rotation=90)
    return ax


def dendrogram(found: DistanceMatrix, *, ax: Axes | None = None, method: str = "average") -> Axes:
    """Dendrogram of `DistanceMatrix.linkage`, with the same parameters.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import somcot
    >>> walks = {theta: somcot.random_walk(3, theta) for theta in (0.3, 0.5, 0.7)}
    >>> ax = dendrogram(somcot.distance_matrix(walks, "labels", discount=0.9))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['0.7', '0.3', '0.5']
    """
    from scipy.cluster.hierarchy import dendrogram as tree

    check_kind("found", found, DistanceMatrix)
    ax = axes(ax)
    drawn = tree(found.linkage(method), no_plot=True)
    for x, y in zip(drawn["dcoord"], drawn["icoord"], strict=True):  # SciPy places leaves at 5, 15, 25, ...
        ax.plot(np.maximum(np.array(x) - found.shift, 0.0), (np.array(y) - 5.0) / 10.0, color="C0", linewidth=1.2)
    labels = shown_all((found.labels[i] for i in drawn["leaves"]), 24)
    bar_labels(ax, labels)
    ax.tick_params(axis="y", labelsize=9 if len(labels) <= 30 else 6, length=0)
    top = max(max(max(x) for x in drawn["dcoord"]) - found.shift, 1e-12)
    ax.set(xlabel="distance", xlim=(-0.01 * top, None))  # a margin, so that branches that join at 0 are visible
    return ax


def embedding(found: DistanceMatrix, *, ax: Axes | None = None, n_clusters: int | None = None) -> Axes:
    """Map in the plane (classical scaling), with circles for the uncertainty of the distances.

    Parameters
    ----------
    found : DistanceMatrix
        With intervals, the radius of a circle is half the mean width of the intervals of its process, in the units of
        the map: processes whose circles overlap are hardly distinguishable.
    ax : matplotlib Axes, optional
    n_clusters : int, optional
        Colour the groups of `DistanceMatrix.clusters`.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import somcot
    >>> walks = {theta: somcot.random_walk(3, theta) for theta in (0.3, 0.5, 0.7)}
    >>> ax = embedding(somcot.distance_matrix(walks, "labels", discount=0.9), n_clusters=2)
    >>> sorted(text.get_text() for text in ax.texts)
    ['0.3', '0.5', '0.7']
    """
    from matplotlib.patches import Circle

    check_kind("found", found, DistanceMatrix)
    ax = axes(ax)
    points = found.embedding(2)
    groups = np.zeros(len(points), dtype=np.int64) if n_clusters is None else found.clusters(n_clusters)
    ax.scatter(points[:, 0], points[:, 1], c=[f"C{g % 10}" for g in groups], s=18, zorder=3)
    for point, radius, group in zip(points, found.uncertainty, groups, strict=True):
        if radius > 0:
            ax.add_patch(Circle(tuple(point), radius, alpha=0.15, color=f"C{group % 10}", linewidth=0))
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.12)
    ax.set(xlabel="first coordinate", ylabel="second coordinate")
    ax.spines[["top", "right"]].set_visible(False)
    if len(points) <= _MOST:
        _name_points(ax, points, shown_all(found.labels))
    return ax


def _name_points(ax: Axes, points: Floats, names: list[str]) -> None:
    """Draw labels next to the points, with a line to labels that were moved away."""
    size = 8.0
    labels = joint_labels(points, names, 0.02)
    figure = ax.figure.canvas.figure
    # Constrained layout moves the axes when drawing; labels are placed in final coordinates.
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)  # moves the axes to their final position
    ax.apply_aspect()
    unit = 72.0 / figure.dpi  # from pixels to points
    spots, frame = ax.transData.transform(points) * unit, np.array(ax.bbox.extents) * unit
    # The mean width of a character is about 0.62 of its height.
    widths = np.array([0.62 * size * len(text) for _, text in labels])
    corners = place_labels(spots, [k for k, _ in labels], widths, 1.2 * size, frame)
    for (k, text), width, corner in zip(labels, widths, corners, strict=True):
        aside = float(np.clip((spots[k][0] - corner[0]) / width, 0.0, 1.0))  # where the line meets the label
        line = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.5, "shrinkA": 0, "relpos": (aside, 0.5)}
        far = abs(corner[1] + 0.6 * size - spots[k][1]) > 1.8 * size
        ax.annotate(
            text, tuple(points[k]), tuple(corner - spots[k]), textcoords="offset points", fontsize=size,
            arrowprops=line if far else None,
        ).set_in_layout(False)  # fmt: skip


def selection(found: Selection, *, ax: Axes | None = None) -> Axes:
    """Distances of all candidates with intervals; the confidence set is filled, numeric candidates form a curve.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import somcot
    >>> walks = {theta: somcot.random_walk(3, theta) for theta in (0.5, 0.8)}
    >>> data = walks[0.5].sample(40, 20, rng=0)
    >>> selection(somcot.select_model(data, walks, "labels", discount=0.9)).get_xlabel()
    'candidate'
    """
    check_kind("found", found, Selection)
    ax = axes(ax)
    curve = found.curve
    places = {row.name: k for k, row in enumerate(found.table)}
    for row in found.table:
        at = float(row.name) if curve is not None else float(places[row.name])  # type: ignore[arg-type]
        colour = "C0" if row.inside else "0.6"
        # Rounding can put an estimate outside of its interval.
        ends = [[max(row.distance - row.low, 0.0)], [max(row.high - row.distance, 0.0)]]
        ax.errorbar(
            [at], [row.distance], ends, color=colour, marker="o", mfc=colour if row.inside else "white", capsize=2
        )
    if curve is not None:
        ax.plot(*curve, color="0.8", zorder=0)
        ax.set_xlabel("candidate")
    else:
        ax.set_xticks(range(len(places)), shown_all(places), rotation=45, ha="right")
    ax.set(ylabel="distance from the data", ylim=(0, None))
    ax.set_title(f"filled: the {100 * found.confidence:g} % set; best: {shown(found.best)}", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def drift(found: Drift, *, ax: Axes | None = None) -> Axes:
    """Distances of each period from the reference and from the period before, with intervals; changes are filled.

    Parameters
    ----------
    found : Drift
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import somcot
    >>> weeks = {f"week {k}": somcot.random_walk(3).sample(40, 20, rng=k) for k in (1, 2, 3)}
    >>> drift(somcot.drift(weeks, discount=0.9)).get_ylabel()
    'distance with 90 % interval'
    """
    check_kind("found", found, Drift)
    ax = axes(ax)
    place = {label: k for k, label in enumerate(found.periods)}
    rows = (("C0", "o", -0.08, f"from {shown(found.reference)}", found.against_reference()),
            ("C1", "s", 0.08, "from the period before", found.against_before()))  # fmt: skip
    for colour, marker, shift, name, changes in rows:
        # Neighbours are compared at the later of the two periods.
        at = [max(place[c.period], place[c.against]) if marker == "s" else place[c.period] for c in changes]
        for k, change in zip(at, changes, strict=True):
            ends = [[max(change.distance - change.low, 0.0)], [max(change.high - change.distance, 0.0)]]
            face = colour if change.adjusted <= found.level else "white"
            ax.errorbar(
                [k + shift], [change.distance], ends, color=colour, marker=marker, mfc=face, capsize=2, clip_on=False
            )
        ax.plot([], [], color=colour, marker=marker, mfc=colour, label=name)
    step = -(-len(place) // _TICKS)
    ax.set_xticks(range(0, len(place), step), shown_all(found.periods[::step]), rotation=45, ha="right")
    ax.set(ylabel=f"distance with {100 * found.confidence:g} % interval", ylim=(0, None), xlim=(-0.5, len(place) - 0.5))
    ax.set_title(f"filled: changed (adjusted p at most {found.level:g})", fontsize=10)
    ax.legend(frameon=False, fontsize="small")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _leaves(distances: DistanceMatrix) -> NDArray[np.int64]:
    from scipy.cluster.hierarchy import leaves_list

    return np.asarray(leaves_list(distances.linkage())) if len(distances.labels) > 1 else np.zeros(1, dtype=np.int64)


def power_curve(plan: SampleSize, *, ax: Axes | None = None) -> Axes:
    """Power of the test against the number of sequences per side: the fitted curve and the simulated tests.

    Parameters
    ----------
    plan : SampleSize
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from somcot.inference.statistics import PowerPoint
    >>> points = PowerPoint(50, 0.6, 40), PowerPoint(100, 0.9, 40)
    >>> plan = SampleSize(78, 0.1, 0.8, 0.95, "rows", 0.05, 0.9, points, (-2.0, 0.32), False, 0.04, 0.05)
    >>> power_curve(plan).get_ylabel()
    'power to find a distance of 0.1'
    """
    check_kind("plan", plan, SampleSize)
    ax = axes(ax)
    most = 1.3 * max(plan.n_sequences, *(point.n for point in plan.points))
    n = np.linspace(1.0, most, 200)
    ax.plot(n, plan.power_at(n), color="C0")
    for point in plan.points:
        error = 1.645 * np.sqrt(point.power * (1.0 - point.power) / point.n_simulations)
        ax.errorbar([point.n], [point.power], error, color="C0", marker="o", mfc="white", capsize=2)
    ax.axhline(plan.power, color="0.6", linewidth=1)
    ax.axvline(plan.n_sequences, color="C1", linewidth=1.5, label=f"{plan.n_sequences:,} sequences per side")
    ax.set(xlabel="sequences per side", ylabel=f"power to find a distance of {plan.effect:g}", ylim=(0, 1.02))
    ax.set_xlim(0, most)
    ax.legend(frameon=False, loc="lower right")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def transfer_bound(bound: TransferBound, *, ax: Axes | None = None) -> Axes:
    """What the model predicts, what the policy earns in the recorded process, and what the best policy may earn there.

    The arrows are the two bounds; the last line says where more steps would help most.

    Parameters
    ----------
    bound : TransferBound
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from somcot import mdp
    >>> model = mdp.MDP([[[0.9, 0.1], [0.1, 0.9]]] * 2, [[0, 0], [1, 1]], actions=["stay", "go"])
    >>> s, a, t = np.random.default_rng(0).integers(2, size=(3, 400))
    >>> data = mdp.RecordedMDP.from_transitions(s, np.array(["stay", "go"])[a], s, t, initial=0)
    >>> bound = mdp.transfer_bound(model, data, discount=0.9)
    >>> transfer_bound(bound).get_title() == bound.plot().get_title()
    True
    """
    check_kind("bound", bound, TransferBound)
    ax = axes(ax)
    estimate, low, high = bound.value_recorded
    best = low + bound.policy_loss
    ax.plot(bound.value_model, 2, marker="D", markersize=9, color="C1")
    ax.plot([low, high], [1, 1], color="C0", linewidth=7, alpha=0.35, solid_capstyle="butt")
    ax.plot(estimate, 1, marker="o", markersize=8, color="C0")
    ax.plot([best, best], [-0.2, 0.2], color="0.4", linewidth=2.5)
    # From the model's value to the farther end of the interval, and from its lower end to the best value.
    far = low if bound.value_model - low >= high - bound.value_model else high
    for y, ends, text in (
        (1.5, (bound.value_model, far), f"value error at most {bound.value_error:.3g}"),
        (0.5, (low, best), f"policy loss at most {bound.policy_loss:.3g}"),
    ):
        ax.annotate("", (ends[1], y), (ends[0], y), arrowprops={"arrowstyle": "<->", "color": "0.5"})
        ax.annotate(text, (sum(ends) / 2, y), (0, 4), textcoords="offset points", ha="center", color="0.25")
    rows = (f"model predicts\n{bound.value_model:.3g}", f"policy earns\n{low:.3g} to {high:.3g}",
            f"best policy earns\nat most {best:.3g}")  # fmt: skip
    ax.set_yticks([2, 1, 0], rows)
    ax.set_ylim(-1.3, 2.5)
    ax.margins(x=0.1)
    if bound.largest_contributions:
        wanted = "\n".join(
            f"action {shown(row.action)} in state {shown(row.state)} ({100 * row.share:.0f} % of the interval's width)"
            for row in bound.largest_contributions[:3]
        )
        ax.annotate(f"record more of\n{wanted}", (0.98, 0.03), xycoords="axes fraction", ha="right", color="0.35",
                    fontsize="small")  # fmt: skip
    kind = "proved" if bound.proved else "large samples"
    ax.set_xlabel(f"expected sum of discounted rewards in reality ({100 * bound.confidence:g} %, {kind})")
    return ax
