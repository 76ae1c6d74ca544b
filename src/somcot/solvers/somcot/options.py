"""From what a user asks for to the first state of a SOMCOT run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from somcot import steps as rules
from somcot.plumbing.arrays import Floats
from somcot.plumbing.memory import require
from somcot.plumbing.validation import check_count, check_discount, probability_vector, real_array
from somcot.solvers.somcot.state import Edges, Options, State, build, full_edges
from somcot.steps import Steps

__all__ = ["init", "span"]


def init(
    cost: ArrayLike,
    *,
    discount: float,
    n_steps: int,
    initial_x: int | ArrayLike = 0,
    initial_y: int | ArrayLike = 0,
    primal_step: float | Sequence[float] | None = None,
    dual_step: float | Sequence[float] | None = None,
    decay: float = 0.0,
    batch_size: int = 1,
    steps: str | Steps = "auto",
    average: float = 0.5,
    support: str = "full",
    transitions_x: ArrayLike | None = None,
    transitions_y: ArrayLike | None = None,
    keep_coupling: bool = False,
) -> State:
    """Start a run: mu and both lambdas uniform, all duals zero.

    Parameters
    ----------
    cost : array_like, shape (n_x, n_y)
    discount : float
    n_steps : int
        Planned number of iterations K; it sets the automatic rates and the share that is averaged.
    initial_x, initial_y : state index or array_like
        First state of each chain, or its law.
    primal_step, dual_step : float or three floats, optional
        Rates in the unit of the cost, for (mu, lambda_X, lambda_Y) and (alpha_X, alpha_Y, V); what is left out comes
        from `steps`.
    decay : float
        a of eta_k = eta / sqrt(1 + a k).
    batch_size : int
        Transitions of each chain averaged in one step.
    steps : "auto", "theorem" or Steps
    average : float
        Last share of the iterates that is averaged, 1.0 for all.
    support : "full" or "observed"
        All quadruples of states, or pairs of transitions that occur.
    transitions_x, transitions_y : array_like of bool, shape (n, n), optional
        With ``support="observed"``: which transitions can occur; without, they are learned from what is fed.
    keep_coupling : bool
        Average the whole of mu too.

    Examples
    --------
    >>> from somcot.solvers.somcot import advance, finish
    >>> state = init([[0, 1], [1, 0]], discount=0.9, n_steps=3)
    >>> state = advance(state, ([0, 0, 1], [0, 1, 1]), ([0, 1, 1], [1, 1, 1]))
    >>> finish(state).n_steps
    3
    """
    costs = real_array("cost", cost, 2)
    n_x, n_y = costs.shape
    law_x, law_y = _law("initial_x", initial_x, n_x), _law("initial_y", initial_y, n_y)
    discount, n_steps = check_discount(discount), check_count("n_steps", n_steps)
    share = float(average) if isinstance(average, (int, float, np.number)) else -1.0
    if not 0.0 < share <= 1.0:
        raise ValueError(f"average: found {average!r}, expected a share above 0 and at most 1")
    if support not in ("full", "observed"):
        raise ValueError(f"support: found {support!r}, expected 'full' or 'observed'")
    given = isinstance(steps, Steps) or primal_step is not None or dual_step is not None
    options = Options(
        discount,
        n_steps,
        _rates(steps, primal_step, dual_step, decay, costs, discount, n_steps),
        _reach(costs) if given else span(costs),
        check_count("batch_size", batch_size),
        share,
        support,  # type: ignore[arg-type]
        bool(keep_coupling),
    )
    n_x, n_y = costs.shape
    # Counts, occupancies and the places of transitions are tables of states by states on each side.
    require(40.0 * (n_x**2 + n_y**2), f"SOMCOT on {n_x} x {n_y} states", "merge states, or use method='exact'")
    # A coupling of the first states has to be found only when both are random.
    extra = bool(np.count_nonzero(law_x) > 1 and np.count_nonzero(law_y) > 1)
    edges_x = _edges(support, "transitions_x", transitions_x, law_x, extra)
    edges_y = _edges(support, "transitions_y", transitions_y, law_y, extra)
    return build(options, costs, law_x, law_y, edges_x, edges_y)


def span(cost: Floats) -> float:
    """The range of the cost, or 1 when it is constant."""
    return float(cost.max() - cost.min()) or 1.0


def _reach(cost: Floats) -> float:
    """The largest absolute cost, the unit of the paper's radii, or 1 when all costs are 0."""
    return float(np.abs(cost).max()) or 1.0


def _rates(
    steps: str | Steps, primal: Any, dual: Any, decay: float, cost: Floats, discount: float, n_steps: int
) -> Steps:
    """Rates in the unit of the cost; explicit values go before the rule."""
    n_x, n_y = cost.shape
    if isinstance(steps, Steps):
        rule = rules.explicit(steps[:3], steps[3:6], steps.decay)
    elif steps == "auto":
        rule = rules.auto(n_x, n_y, n_steps, span(cost))
    elif steps == "theorem":
        rule = rules.theorem(n_x, n_y, discount, n_steps, span(cost))
    else:
        raise ValueError(f"steps: found {steps!r}, expected 'auto', 'theorem' or a somcot.steps.Steps record")
    if primal is None and dual is None:
        return rule._replace(decay=rule.decay or rules.check_decay(decay))
    chosen = rules.explicit(1.0 if primal is None else primal, 1.0 if dual is None else dual, decay)
    return Steps(*(rule if primal is None else chosen)[:3], *(rule if dual is None else chosen)[3:6], chosen.decay)


def _law(name: str, initial: int | ArrayLike, n: int) -> Floats:
    if np.ndim(initial) == 0:
        i = check_count(name, initial, at_least=0)
        if i >= n:
            raise ValueError(f"{name}: found state {i}, expected one of 0, ..., {n - 1}")
        return np.asarray(np.eye(n)[i])
    return probability_vector(name, initial, tuple(range(n)), normalize=False)


def _edges(support: str, name: str, allowed: ArrayLike | None, law: Floats, extra: bool) -> Edges:
    n = len(law)
    if support == "full":
        return full_edges(n + extra)
    mask = np.zeros((n + extra, n + extra), dtype=bool)
    if allowed is not None:
        given = np.asarray(allowed, dtype=bool)
        if given.shape != (n, n):
            raise ValueError(f"{name}: shape is {given.shape}, expected {(n, n)}")
        mask[:n, :n] = given
    if extra:
        mask[n, :n] = law > 0
    return Edges.from_mask(mask)
