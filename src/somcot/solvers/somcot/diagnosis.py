"""What a SOMCOT run looks like, in words: the appendix's advice on step sizes, and what the data lack."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from somcot import steps
from somcot.couplings import Residuals
from somcot.plumbing.arrays import Floats, Ints
from somcot.solvers.somcot.state import State

__all__ = ["notes"]

NEAR_ZERO = 0.05  # of the cost's range
VIOLATED = 0.3  # sum of the three l1 residuals; 6 is the most there can be
STEPS_PER_PAIR = 200


def notes(
    state: State,
    distance: float,
    residuals: Residuals,
    states_x: tuple[Hashable, ...],
    states_y: tuple[Hashable, ...],
) -> Iterator[str]:
    """Sentences, most telling first; none when nothing looks wrong."""
    n_x, n_y = state.cost.shape
    low, scale = float(state.cost.min()), float(state.cost.max() - state.cost.min())
    wanted = STEPS_PER_PAIR * n_x * n_y
    rates = state.settings.steps
    dual = max(rates.alpha_x, rates.alpha_y, rates.V)
    usual = steps.auto(n_x, n_y, state.k, scale or 1.0).V
    violation = sum(residuals)
    near_zero = distance - low < NEAR_ZERO * scale
    small = scale > 0 and violation > VIOLATED and (near_zero or dual < usual / 4)
    if small:
        where = "near its least possible value" if near_zero else "too low"
        yield (
            f"dual step too small: the estimate is {where} while the constraints are violated "
            f"by {violation:.2g} in total; raise dual_step ({_relative(dual, usual)}), lower primal_step or take more "
            "steps"
        )
    elif scale > 0 and (dual > 4 * usual or (dual > usual and _rising(state, scale))):
        yield (
            "dual step too large: at such rates the estimate tends to end above the distance; "
            f"lower dual_step ({_relative(dual, usual)}) or let primal_step decay"
        )
    if state.k < wanted:
        yield (
            f"too few steps for the size: {state.k:,} steps for {n_x} x {n_y} states, at least {wanted:,} are advisable"
        )
    elif violation > VIOLATED and not small:
        yield f"the constraints are violated by {violation:.2g} in total; more steps bring that down"
    for name, counts, initial, labels in (
        ("x", state.counts_x, state.initial_x, states_x),
        ("y", state.counts_y, state.initial_y, states_y),
    ):
        missing = _unseen(counts, initial)
        if missing.size:
            shown = ", ".join(repr(labels[i]) for i in missing[:5]) + (", ..." if missing.size > 5 else "")
            yield f"{missing.size} state(s) of {name} were never seen: {shown}; their part of the coupling is a guess"


def _relative(dual: float, usual: float) -> str:
    return f"now {dual:.3g}, the automatic rule says {usual:.3g} for this many steps"


def _rising(state: State, scale: float) -> bool:
    """Whether the estimates of the last three quarters of the run rise steadily."""
    from somcot.solvers.somcot.fold import settle_trace  # which calls this module

    settle_trace(state)
    recent = np.array([row[2] for row in state.trace])
    if len(recent) < 8:
        return False
    second, third, fourth = (float(part.mean()) for part in np.array_split(recent, 4)[1:])
    return second < third < fourth and fourth - second > 0.005 * scale


def _unseen(counts: Ints, initial: Floats) -> Ints:
    return np.flatnonzero((counts.sum(axis=0) + counts.sum(axis=1) == 0) & (initial == 0))
