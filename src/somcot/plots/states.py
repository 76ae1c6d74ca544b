"""The states of a process: how much time is spent in each, and the steps between them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from somcot.chains import MarkovChain
from somcot.plots.drawing import NAMES, axes, bar_labels, circle, shown
from somcot.plumbing.arrays import Floats
from somcot.problem import Data
from somcot.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["graph", "visits"]

_GRAPH_STATES = 20


def visits(
    record: Data | MarkovChain | Result,
    *,
    ax: Axes | None = None,
    most: int = 30,
    discount: float | None = None,
    names: tuple[str, str] = NAMES,
) -> Axes:
    """How much time is spent in each state, the most visited ones first.

    Parameters
    ----------
    record : Samples, Counts, MarkovChain or Result
        Of recordings, how often each state was left; of a chain, the share of its discounted time; of a result, that
        share for both processes side by side, by label.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    most : int
        States to show.
    discount : float, optional
        Needed for a chain.
    names : (str, str)
        What to call the processes; the first alone for recordings and chains.
    """
    if isinstance(record, Result):
        return _both(record, axes(ax), most, names)
    values, what = _time(record, discount)
    ax = axes(ax)
    order = np.argsort(-values, kind="stable")[:most]
    ax.barh(np.arange(len(order)), values[order], color="C0")
    bar_labels(ax, [shown(record.states[k]) for k in order])
    ax.set(xlabel=what, title="visits" if names == NAMES else f"visits, {shown(names[0], 40)}")
    return ax


def _time(record: Data | MarkovChain, discount: float | None) -> tuple[Floats, str]:
    if isinstance(record, Data):
        return record.visits.astype(np.float64), "steps taken from the state"
    if not isinstance(record, MarkovChain):
        raise TypeError(f"record: found {type(record).__name__}, expected Samples, a MarkovChain or a Result")
    if discount is None:
        raise ValueError("discount: missing; the time that a chain spends in a state depends on it, pass 0.95, say")
    return record.state_occupancy(discount), f"share of time at discount {discount:g}"


def _both(result: Result, ax: Axes, most: int, names: tuple[str, str]) -> Axes:
    """Bars in pairs: a state that only one process has gets one bar."""
    sides = [
        dict(zip(states, law.tolist(), strict=True))
        for states, law in ((result.states_x, result.state_law.sum(1)), (result.states_y, result.state_law.sum(0)))
    ]
    total: dict[Hashable, float] = {s: sides[0].get(s, 0.0) + sides[1].get(s, 0.0) for s in (sides[0] | sides[1])}
    order = sorted(total, key=lambda s: -total[s])[:most]
    for side, share in enumerate(sides):
        places = np.arange(len(order)) + (0.2 if side else -0.2)
        ax.barh(places, [share.get(s, 0.0) for s in order], 0.38, color=f"C{side}", label=shown(names[side], 40))
    bar_labels(ax, [shown(s) for s in order])
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

    Of a result: dots grow with the time spent in a state, lines with how often a step is taken; a state of Y has the
    colour of the state of X it is most often paired with, so that the two graphs match. Of a chain the same at a
    discount; without one, lines follow the probabilities of steps and all dots are alike. Of recordings: the counts.

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
        What to call the processes; the first alone for a chain or recordings.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import somcot
    >>> graph(somcot.random_walk(4), discount=0.9, names=("walk", "")).get_title()
    'occupancy of walk'
    """
    if side not in ("x", "y"):
        raise ValueError(f"side: found {side!r}, expected 'x' or 'y'")
    one = 0 if side == "x" or not isinstance(record, Result) else 1
    law, states, what = _law(record, one, discount)
    ax = axes(ax)
    chosen = np.sort(np.argsort(-law.sum(axis=1), kind="stable")[:_GRAPH_STATES])
    shades: NDArray[Any] | str = _matched_colours(record)[one][chosen] if isinstance(record, Result) else "C0"
    circle(ax, law[np.ix_(chosen, chosen)], [states[k] for k in chosen], shades)
    matched = "; equal colours go together" if isinstance(record, Result) else ""
    ax.set_title(f"{what} of {shown(names[one], 40)}{matched}")
    return ax


def _law(
    record: Result | MarkovChain | Data, side: int, discount: float | None
) -> tuple[Floats, tuple[Hashable, ...], str]:
    """A number for every step, the labels, and what the numbers are."""
    if isinstance(record, Result):
        if record.plan is None:
            raise ValueError("result: this run did not keep its coupling, so there are no occupancies to draw")
        law = record.plan.marginal_y() if side else record.plan.marginal_x()
        return law.toarray(), (record.states_x, record.states_y)[side], "occupancy"
    if isinstance(record, Data):
        return _dense(record.counts()), record.states, "counted steps"
    if not isinstance(record, MarkovChain):
        raise TypeError(f"record: found {type(record).__name__}, expected a Result, a MarkovChain or Samples")
    if discount is None:
        return _dense(record.transition), record.states, "steps"
    return _dense(record.occupancy(discount)), record.states, "occupancy"


def _dense(matrix: Any) -> Floats:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


def _matched_colours(result: Result) -> tuple[NDArray[Any], NDArray[Any]]:
    import matplotlib as mpl

    n = len(result.states_x)
    of_x = mpl.colormaps["turbo"](np.linspace(0.05, 0.95, n))
    return of_x, of_x[result.decoder.argmax(axis=1)]
