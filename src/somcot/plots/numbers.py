"""The number itself: along a run, beside others, and what it is made of."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from somcot.makeup import PairShare, TransitionShare
from somcot.plots.drawing import NAMES, axes, bar_labels, shown
from somcot.plumbing.text import figure
from somcot.result import Claim, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["contributions", "intervals", "title", "trace"]

_OF_CHAINS = ", estimated chains"


def trace(result: Result, *, ax: Axes | None = None, names: tuple[str, str] | None = None) -> Axes:
    """The distance along the run, with what is proved or estimated of it.

    The band is the proved bracket that the run ended in; a run of SOMCOT has none, and its answer, which leaves out the
    first steps, is a point beside the average of all. For data the run is that of the
    estimated chains; the estimate itself is a line, and its interval a band of its own.

    Parameters
    ----------
    result : Result
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    names : (str, str), optional
        What to call the two processes in the title.
    """
    ax = axes(ax)
    steps, values = np.asarray(result.trace.get("step", ())), np.asarray(result.trace.get("distance", ()))
    estimated = result.claim is Claim.ESTIMATED
    if result.claim is not Claim.NOTHING:
        ax.axhspan(*result.bounds, alpha=0.25, color="C0", label="proved bracket" + _OF_CHAINS * estimated)
    marker = "o" if len(steps) <= 30 else None
    if result.method == "somcot" and len(values):  # the last row is another average than those before it
        ax.plot(steps[:-1], values[:-1], color="C0", label="average of all steps so far")
        ax.plot(steps[-1:], [result.distance], "o", color="C0", label="distance: average of the last")
    elif len(values):
        ax.plot(steps, values, marker=marker, color="C0", label="distance" + _OF_CHAINS * estimated)
    elif not estimated:  # clocks whose solvers have no distance before the end
        ax.axhline(result.distance, color="C0", label="distance")
    if estimated:
        ax.axhline(result.distance, color="C1", label="estimate")
    if result.confidence_interval is not None:
        low, high, level = result.confidence_interval
        ax.axhspan(low, high, alpha=0.15, color="C1", label=f"{100 * level:g} % interval")
    whose = "" if names is None else f": {shown(names[0], 24)} and {shown(names[1], 24)}"
    ax.locator_params(axis="x", nbins=5)  # numbers of steps are long
    ax.set(xlabel="step", ylabel="distance", title=f"along the run{whose}")
    ax.legend(frameon=False, fontsize="small")
    return ax


def intervals(
    results: Mapping[Hashable, Result] | Sequence[Result],
    *,
    ax: Axes | None = None,
    names: Sequence[Hashable] | None = None,
) -> Axes:
    """Several distances below each other, each with its interval (a forest plot).

    A line is the confidence interval of data or the proved bracket of known chains; a hollow dot has neither.

    Parameters
    ----------
    results : mapping of name to Result, or sequence of Result
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    names : sequence, optional
        What to call them, in their order; the keys of a mapping by default, else numbers.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import somcot
    >>> walk, reward = somcot.random_walk(3), [1, 0, -1]
    >>> found = {
    ...     f"drift {theta}": somcot.distance(
    ...         walk, somcot.random_walk(3, theta), somcot.costs.absolute(reward, reward), discount=0.9
    ...     )
    ...     for theta in (0.6, 0.7)
    ... }
    >>> [label.get_text() for label in intervals(found).get_yticklabels()]
    ['drift 0.6', 'drift 0.7']
    """
    labels, rows = _labelled(results, names)
    ax = axes(ax)
    levels = set()
    for k, result in enumerate(rows):
        span = result.confidence_interval or (result.bounds if result.claim is Claim.PROVED else None)
        if span is not None:
            ax.plot(span[:2], [k, k], color="C0", linewidth=2.5, solid_capstyle="round")
        if result.confidence_interval is not None:
            levels.add(result.confidence_interval.level)
        ax.plot([result.distance], [k], "o", color="C0", markerfacecolor="C0" if span is not None else "white")
    bar_labels(ax, [shown(label, 30) for label in labels])
    said = " and ".join(f"{100 * level:g} %" for level in sorted(levels))
    ax.set(xlabel="distance" + f" with {said} confidence interval" * bool(levels), title="distances")
    ax.grid(axis="x", alpha=0.3)
    return ax


def _labelled(
    results: Mapping[Hashable, Result] | Sequence[Result], names: Sequence[Hashable] | None
) -> tuple[list[Hashable], list[Result]]:
    known = results if isinstance(results, Mapping) else dict(enumerate(results))
    labels: list[Hashable] = list(known) if names is None else list(names)
    rows = list(known.values())
    if not rows:
        raise ValueError("results: found none, expected at least one Result")
    for k, row in enumerate(rows):
        if not isinstance(row, Result):
            raise TypeError(f"results: number {k} is a {type(row).__name__}, expected a Result of distance(x, y, ...)")
    if len(labels) != len(rows):
        raise ValueError(f"names: found {len(labels)} for {len(rows)} results; give one for each")
    return labels, rows


def contributions(
    result: Result, *, n: int = 10, of: str = "pairs", ax: Axes | None = None, names: tuple[str, str] = NAMES
) -> Axes:
    """What contributes most to the distance, with standard errors; pale bars may be accidents of the recordings.

    Parameters
    ----------
    result : Result
        Of a method that keeps what `Result.contributions` needs.
    n : int
        Bars to draw at most.
    of : {"pairs", "transitions"}
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    names : (str, str)
        What to call the two processes.
    """
    if of not in ("pairs", "transitions"):
        raise ValueError(f"of: found {of!r}, expected 'pairs' or 'transitions'")
    found: Sequence[PairShare | TransitionShare] = getattr(result.contributions(n), of)
    ax = axes(ax)
    for k, share in enumerate(found):
        error = share.standard_error or None
        ax.barh(k, share.amount, xerr=error, alpha=1.0 if share.marked else 0.35, color="C0", ecolor="0.4", capsize=2)
    bar_labels(ax, [_words(share) for share in found])
    if not found:
        ax.text(0.5, 0.5, f"no {of} that contribute", transform=ax.transAxes, ha="center", color="0.4")
        ax.set_xticks([])
    first, second = (shown(name, 24) for name in names)
    what = f"in {first} / in {second}" if of == "pairs" else f"steps that differ: {first}, {second}"
    ax.set(xlabel="contribution to the distance", title=what)
    return ax


def _words(share: PairShare | TransitionShare) -> str:
    if isinstance(share, PairShare):
        return f"{shown(share.x)} / {shown(share.y)}"
    odds = f"{100 * share.probability_x:.0f} %, {100 * share.probability_y:.0f} %"
    return f"{shown(share.state)} \u2192 {shown(share.next_state)} ({odds})"


def title(result: Result, names: tuple[str, str]) -> str:
    """The answer on a line."""
    said = {
        Claim.PROVED: f"proved to {result.bounds.high - result.bounds.low:.1g}",
        Claim.ESTIMATED: "estimated",
        Claim.NOTHING: f"after {result.n_steps:,} steps, nothing proved",
    }[result.claim]
    if result.continuous is not None and result.continuous.route == "approximate":
        said = "approximate, no interval"
    if result.confidence_interval is not None:
        low, high, level = result.confidence_interval
        said += f", {100 * level:g} % interval {figure(low)} to {figure(high)}"
    return f"{shown(names[0], 40)} and {shown(names[1], 40)}: distance {figure(result.distance)} ({said})"
