"""Plots of one result: heat maps, convergence, intervals, contributions, visits and graphs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from somcot.chains import MarkovChain
from somcot.contributions import PairShare, TransitionShare
from somcot.plots.drawing import (
    LESS,
    MORE,
    NAMES,
    Arrow,
    axes,
    bar_labels,
    check,
    check_pair,
    circle,
    heat_map,
    ring,
    shown,
    shown_all,
)
from somcot.plumbing.arrays import Array, Floats
from somcot.plumbing.checks import check_count, check_sequence, check_text
from somcot.plumbing.text import figure, text_width
from somcot.problem import Data
from somcot.recorded.stationary import stationary_distribution
from somcot.result import Claim, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "contributions",
    "coupling",
    "decoder",
    "difference",
    "encoder",
    "graph",
    "intervals",
    "title",
    "trace",
    "visits",
]


# --- Heat maps of the coupling.


def encoder(result: Result, *, ax: Axes | None = None, names: tuple[str, str] = NAMES) -> Axes:
    """Heat map of the encoder lambda_X(y | x): the states of Y that each state of X corresponds to.

    Parameters
    ----------
    result : Result
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    names : (str, str)
        Names of the two processes.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import somcot
    >>> result = somcot.distance(somcot.random_walk(3), somcot.random_walk(3, 0.7), "labels", discount=0.9)
    >>> encoder(result, names=("fair", "drifting")).get_xlabel()
    'state of drifting'
    """
    check(result, names)
    ax = heat_map(result.encoder, result.states_x, result.states_y, ax)
    ax.set(xlabel=_state(names[1]), ylabel=_state(names[0]), title=r"encoder $\lambda_X(y \mid x)$")
    return ax


def decoder(result: Result, *, ax: Axes | None = None, names: tuple[str, str] = NAMES) -> Axes:
    """Heat map of the decoder lambda_Y(x | y), from Y to X. Parameters as for `encoder`."""
    check(result, names)
    ax = heat_map(result.decoder, result.states_y, result.states_x, ax)
    ax.set(xlabel=_state(names[0]), ylabel=_state(names[1]), title=r"decoder $\lambda_Y(x \mid y)$")
    return ax


def coupling(result: Result, *, ax: Axes | None = None, names: tuple[str, str] = NAMES) -> Axes:
    """Heat map of the occupancy of pairs: the share of (discounted) time spent in x and y together.

    Parameters as for `encoder`.
    """
    check(result, names)
    ax = heat_map(result.state_law, result.states_x, result.states_y, ax)
    ax.set(xlabel=_state(names[1]), ylabel=_state(names[0]), title="time spent together")
    return ax


def _state(name: str) -> str:
    return f"state of {shown(name, 40)}"


# --- Convergence, intervals and contributions.

_OF_CHAINS = ", estimated chains"


def trace(result: Result, *, ax: Axes | None = None, names: tuple[str, str] | None = None) -> Axes:
    """The distance after each step of the solver, with its bounds or its interval.

    The band shows the proved bounds. A run of SOMCOT has none; its result, which excludes the first steps, is a
    separate point. For data, the curve is the distance of the estimated chains; the estimate is a line, and its
    interval another band.

    Parameters
    ----------
    result : Result
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    names : (str, str), optional
        Names of the two processes for the title.
    """
    check(result, NAMES if names is None else names)
    ax = axes(ax)
    steps, values = np.asarray(result.trace.get("step", ())), np.asarray(result.trace.get("distance", ()))
    estimated = result.claim in (Claim.ESTIMATED, Claim.APPROXIMATE)
    if result.claim in (Claim.PROVED, Claim.ESTIMATED):
        ax.axhspan(*result.bounds, alpha=0.25, color="C0", label="proved bounds" + _OF_CHAINS * estimated)
    # With more steps markers would hide the line.
    marker = "o" if len(steps) <= 30 else None
    # SOMCOT's trace averages all steps so far, its distance only the last part.
    if result.method == "somcot" and len(values):  # the last row is an average over fewer steps
        ax.plot(steps[:-1], values[:-1], color="C0", label="average of all steps so far")
        ax.plot(steps[-1:], [result.distance], "o", color="C0", label="distance: average of the last")
    elif len(values):
        ax.plot(steps, values, marker=marker, color="C0", label="distance" + _OF_CHAINS * estimated)
    elif not estimated:  # the solvers of some clocks have no intermediate distances
        ax.axhline(result.distance, color="C0", label="distance")
    if estimated:
        ax.axhline(result.distance, color="C1", label="estimate")
    if result.confidence_interval is not None:
        low, high, level = result.confidence_interval
        ax.axhspan(low, high, alpha=0.15, color="C1", label=f"{100 * level:g} % interval")
    whose = "" if names is None else f": {shown(names[0], 24)} and {shown(names[1], 24)}"
    ax.locator_params(axis="x", nbins=5)  # numbers of steps are long
    ax.set(xlabel="step", ylabel="distance", title=f"convergence{whose}")
    ax.legend(frameon=False, fontsize="small")
    return ax


def intervals(
    results: Mapping[Hashable, Result] | Sequence[Result],
    *,
    ax: Axes | None = None,
    names: Sequence[Hashable] | None = None,
) -> Axes:
    """Several distances below each other, each with its interval (a forest plot).

    A line is the confidence interval for data or the proved bounds for known chains; a hollow dot has neither.

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
    >>> results = {
    ...     f"drift {theta}": somcot.distance(
    ...         walk, somcot.random_walk(3, theta), somcot.costs.absolute(reward, reward), discount=0.9
    ...     )
    ...     for theta in (0.6, 0.7)
    ... }
    >>> [label.get_text() for label in intervals(results).get_yticklabels()]
    ['drift 0.6', 'drift 0.7']
    """
    labels, rows = _labelled(results, names)
    ax = axes(ax)
    levels = set()
    for k, result in enumerate(rows):
        # Intervals first: the bounds of an estimate refer to the estimated chains only.
        # Without an interval the dot is hollow.
        span = result.confidence_interval or (result.bounds if result.claim is Claim.PROVED else None)
        if span is not None:
            ax.plot(span[:2], [k, k], color="C0", linewidth=2.5, solid_capstyle="round")
        if result.confidence_interval is not None:
            levels.add(result.confidence_interval.level)
        ax.plot([result.distance], [k], "o", color="C0", markerfacecolor="C0" if span is not None else "white")
    bar_labels(ax, shown_all(labels, 30))
    percents = " and ".join(f"{100 * level:g} %" for level in sorted(levels))
    ax.set(xlabel="distance" + f" with {percents} confidence interval" * bool(levels), title="distances")
    ax.grid(axis="x", alpha=0.3)
    return ax


def _labelled(
    results: Mapping[Hashable, Result] | Sequence[Result], names: Sequence[Hashable] | None
) -> tuple[list[Hashable], list[Result]]:
    known = results if isinstance(results, Mapping) else dict(enumerate(check_sequence("results", results)))
    labels: list[Hashable] = list(known) if names is None else list(check_sequence("names", names))
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
    """The largest contributions to the distance, with standard errors; pale bars are not significant.

    Parameters
    ----------
    result : Result
        From a method that supports `Result.contributions`.
    n : int
        Maximal number of bars.
    of : {"pairs", "transitions"}
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    names : (str, str)
        Names of the two processes.
    """
    check(result, names)
    check_text("of", of, "pairs", "transitions")
    shares: Sequence[PairShare | TransitionShare] = getattr(result.contributions(n), of)
    ax = axes(ax)
    for k, share in enumerate(shares):
        error = share.standard_error or None
        ax.barh(k, share.amount, xerr=error, alpha=1.0 if share.marked else 0.35, color="C0", ecolor="0.4", capsize=2)
    bar_labels(ax, [_words(share) for share in shares])
    if not shares:
        ax.text(0.5, 0.5, f"no {of} that contribute", transform=ax.transAxes, ha="center", color="0.4")
        ax.set_xticks([])
    first, second = (shown(name, 24) for name in names)
    what = f"in {first} / in {second}" if of == "pairs" else f"transitions: {first}, {second}"
    ax.set(xlabel="contribution to the distance", title=what)
    return ax


def _words(share: PairShare | TransitionShare) -> str:
    if isinstance(share, PairShare):
        return f"{shown(share.x)} / {shown(share.y)}"
    odds = f"{100 * share.probability_x:.0f} %, {100 * share.probability_y:.0f} %"
    return f"{shown(share.state)} \u2192 {shown(share.next_state)} ({odds})"


def title(result: Result, names: tuple[str, str]) -> str:
    """The result on one line."""
    claim = {
        Claim.ESTIMATED: "estimated",
        Claim.APPROXIMATE: "approximate, no interval",
        Claim.NOTHING: f"after {result.n_steps:,} steps, no error bound",
    }.get(result.claim, "")
    if result.claim is Claim.PROVED:
        claim = f"proved to {result.bounds.high - result.bounds.low:.1g}"
    if result.confidence_interval is not None:
        low, high, level = result.confidence_interval
        claim += f", {100 * level:g} % interval {figure(low)} to {figure(high)}"
    return f"{shown(names[0], 40)} and {shown(names[1], 40)}: distance {figure(result.distance)} ({claim})"


# --- Visits and graphs.

_GRAPH_STATES = 20


def visits(
    record: Data | MarkovChain | Result,
    *,
    ax: Axes | None = None,
    most: int = 30,
    discount: float | None = None,
    names: tuple[str, str] = NAMES,
) -> Axes:
    """The time spent in each state, the most visited first.

    Parameters
    ----------
    record : Samples, Counts, MarkovChain or Result
        For recordings, the number of steps from each state; for a chain, the share of discounted time; for a result,
        that share for both processes side by side, by label.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    most : int
        States to show.
    discount : float, optional
        Needed for a chain.
    names : (str, str)
        Names of the processes; only the first is used for recordings and chains.
    """
    check_count("most", most)
    check_pair("names", names)
    if isinstance(record, Result):
        return _both(record, axes(ax), most, names)
    values, what = _time(record, discount)
    ax = axes(ax)
    order = np.argsort(-values, kind="stable")[:most]
    ax.barh(np.arange(len(order)), values[order], color="C0")
    bar_labels(ax, shown_all(record.states[k] for k in order))
    ax.set(xlabel=what, title="visits" if names == NAMES else f"visits, {shown(names[0], 40)}")
    return ax


def _time(record: Data | MarkovChain, discount: float | None) -> tuple[Floats, str]:
    if isinstance(record, Data):
        return record.visits.astype(np.float64), "steps taken from the state"
    if not isinstance(record, MarkovChain):
        raise TypeError(f"record: found {type(record).__name__}, expected Samples, a MarkovChain or a Result")
    if discount is None:
        raise ValueError("discount: missing; the occupancy of a chain depends on it, pass for example 0.95")
    return record.state_occupancy(discount), f"share of time at discount {discount:g}"


def _both(result: Result, ax: Axes, most: int, names: tuple[str, str]) -> Axes:
    """Paired bars; a state of one process only has one bar."""
    sides = [
        dict(zip(states, times.tolist(), strict=True))
        for states, times in ((result.states_x, result.state_law.sum(1)), (result.states_y, result.state_law.sum(0)))
    ]
    total: dict[Hashable, float] = {s: sides[0].get(s, 0.0) + sides[1].get(s, 0.0) for s in (sides[0] | sides[1])}
    # By the time of both sides together, so that one order serves both.
    order = sorted(total, key=lambda s: -total[s])[:most]
    for side, share in enumerate(sides):
        places = np.arange(len(order)) + (0.2 if side else -0.2)
        ax.barh(places, [share.get(s, 0.0) for s in order], 0.38, color=f"C{side}", label=shown(names[side], 40))
    bar_labels(ax, shown_all(order))
    ax.set(xlabel=_scale(result), title="time spent in each state")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _scale(result: Result) -> str:
    return "expected visits" if result.clock.name == "total" else f"share of time, {result.clock}"


def graph(
    record: Result | MarkovChain | Data,
    side: str = "x",
    *,
    ax: Axes | None = None,
    discount: float | None = None,
    names: tuple[str, str] = NAMES,
) -> Axes:
    """A process as a graph of its most visited states.

    For a result, dots show the time spent in a state and lines the frequency of a step; a state of Y has the colour of
    its most frequent partner in X, so that the two graphs match. A chain is drawn in the same way: with a discount, or
    in the long run. If it never returns to some states, and no discount is given, lines show transition probabilities
    and all dots have equal size. For recordings, the counts are drawn.

    Parameters
    ----------
    record : Result, MarkovChain, Samples or Counts
        A result with its ``plan``.
    side : {"x", "y"}
        Which process of a result.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    discount : float, optional
        For a chain.
    names : (str, str)
        Names of the processes; only the first is used for a chain or recordings.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import somcot
    >>> graph(somcot.random_walk(4), discount=0.9, names=("walk", "")).get_title()
    'occupancy of walk'
    """
    check_text("side", side, "x", "y")
    check_pair("names", names)
    one = 0 if side == "x" or not isinstance(record, Result) else 1
    weights, states, what = _weights(record, one, discount)
    ax = axes(ax)
    # The most visited states, in their own order, so that two graphs of one process are comparable.
    time = weights.sum(axis=1)  # also on steps to states that are not drawn
    chosen = np.sort(np.argsort(-time, kind="stable")[:_GRAPH_STATES])
    shades: Array | str = _matched_colours(record)[one][chosen] if isinstance(record, Result) else "C0"
    circle(ax, weights[np.ix_(chosen, chosen)], time[chosen], [states[k] for k in chosen], shades)
    matched = "; equal colours correspond" if isinstance(record, Result) else ""
    # A single process has no name, unless the caller gave one.
    of = f" of {shown(names[one], 40)}" if isinstance(record, Result) or tuple(names) != NAMES else ""
    part = f", {len(chosen)} of {len(states):,} states" if len(chosen) < len(states) else ""
    first, second = f"{what}{of}", f"{part}{matched}"
    ax.set_title(first + second if len(first + second) <= 60 else f"{first}\n{second.lstrip(',; ')}")
    return ax


def difference(result: Result, *, ax: Axes | None = None, names: tuple[str, str] = NAMES, most: int = 14) -> Axes:
    """Steps that are taken more often (blue) and less often (orange) in Y than in X, as arrows between states.

    The width of an arrow is the difference of the weighted shares of all steps; dashed arrows are not significant (see
    `Result.findings`). Dots show the time spent in a state; states of one process only are rings.

    Parameters
    ----------
    result : Result
        Of processes whose equal labels denote the same state.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    names : (str, str)
        Names of the two processes.
    most : int
        Maximal number of arrows.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import somcot
    >>> x, y = (somcot.MarkovChain([[p, 1 - p], [0.5, 0.5]], states=["home", "cart"]) for p in (0.9, 0.8))
    >>> result = somcot.distance(x, y, somcot.costs.labels(x.states, y.states), discount=0.9)
    >>> difference(result, names=("May", "June")).get_title()
    'steps that differ: May \u2192 June'
    """
    check(result, names)
    check_count("most", most)
    found = result.findings()
    steps = found.largest(most)
    ax = axes(ax, figsize=(7.5, 6.0))
    times = {row.state: 0.5 * (row.time_x + row.time_y) for row in found.states}
    kinds = {row.state: row.kind for row in found.states}
    labels = list(dict.fromkeys(label for step in steps for label in (step.state, step.next_state)))
    labels.sort(key=lambda label: -times.get(label, 0.0))
    place = {label: i for i, label in enumerate(labels)}
    top = max((abs(step.change) for step in steps), default=0.0) or 1.0
    arrows = [
        Arrow(place[s.state], place[s.next_state], abs(s.change) / top, MORE if s.change > 0 else LESS,
              found.sequences is not None and not s.marked)
        for s in reversed(steps)
    ]  # fmt: skip
    edges = [{"new": MORE, "vanished": LESS}.get(kinds.get(label, ""), "0.45") for label in labels]
    ring(ax, labels, np.array([times.get(label, 0.0) for label in labels]), edges, arrows)
    first, second = (shown(name, 24) for name in names)
    if steps:
        _explain_colours(ax, second, chance=any(arrow.dashed for arrow in arrows))
    else:
        compared = (
            "no step differs" if found.states else "no state has the same name in both,\nso steps are not compared"
        )
        ax.text(0.5, 0.5, compared, transform=ax.transAxes, ha="center", color="0.4")
    ax.set_title(f"steps that differ: {first} \u2192 {second}")
    return ax


def _explain_colours(ax: Axes, name: str, *, chance: bool) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=MORE, lw=2.5, label=f"more often in {name}")]
    handles.append(Line2D([], [], color=LESS, lw=2.5, label=f"less often in {name}"))
    if chance:
        handles.append(Line2D([], [], color="0.45", linestyle="--", lw=2.5, label="not significant"))
    # Side by side if they fit, at 10 points with 0.6 inches for each line.
    width = sum(0.6 + text_width(str(handle.get_label())) * 10.0 / 72.0 for handle in handles)
    fits = width <= ax.figure.bbox.width / ax.figure.dpi
    ax.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(handles) if fits else 1, frameon=False
    )


def _weights(
    record: Result | MarkovChain | Data, side: int, discount: float | None
) -> tuple[Floats, tuple[Hashable, ...], str]:
    """The weight of every step, the labels, and the meaning of the weights."""
    if isinstance(record, Result):
        if record.plan is None:
            raise ValueError("result: this run did not keep its coupling, so there are no occupancies to draw")
        occupancy = record.plan.marginal_y() if side else record.plan.marginal_x()
        return occupancy.toarray(), (record.states_x, record.states_y)[side], "occupancy"
    if isinstance(record, Data):
        return _dense(record.counts()), record.states, "counted steps"
    if not isinstance(record, MarkovChain):
        raise TypeError(f"record: found {type(record).__name__}, expected a Result, a MarkovChain or Samples")
    if discount is None:
        steps = _dense(record.transition)
        time = _long_run(record, steps)
        return (steps, record.states, "steps") if time is None else (time[:, None] * steps, record.states, "occupancy")
    return _dense(record.occupancy(discount)), record.states, "occupancy"


def _long_run(chain: MarkovChain, steps: Floats) -> Floats | None:
    """The share of time in each state, None if some are transient."""
    from scipy.sparse.csgraph import connected_components

    # A walk on a graph of several components may start in its stationary distribution.
    start = np.asarray(chain.initial, dtype=np.float64)
    if start.all() and np.allclose(start @ steps, start, rtol=0.0, atol=1e-12):
        return start
    connected = connected_components(steps, connection="strong", return_labels=False) == 1
    return stationary_distribution(chain) if connected else None


def _dense(matrix: Any) -> Floats:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


def _matched_colours(result: Result) -> tuple[Array, Array]:
    import matplotlib as mpl

    n = len(result.states_x)
    # The ends of "turbo" are nearly black.
    of_x = mpl.colormaps["turbo"](np.linspace(0.05, 0.95, n))
    # A state of Y has the colour of the state of X it is most often coupled with.
    return of_x, of_x[result.decoder.argmax(axis=1)]
