"""Options of a SOMCOT run, and from there to its first state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot import steps as rules
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import (
    check_count,
    check_discount,
    check_flag,
    check_positive,
    probability_vector,
    real_array,
)  # fmt: skip
from somcot.plumbing.memory import require
from somcot.plumbing.records import takes
from somcot.solvers.somcot.state import (
    CountSettings,
    CountState,
    RunSettings,
    State,
    Support,
    build,
    span,
)
from somcot.solvers.somcot.updates import Transitions
from somcot.steps import Steps

__all__ = ["FORMER", "Origin", "SomcotOptions", "init", "origin"]

_LEAST_DISCOUNT = 1e-100
FORMER = "former"  # the automatic rates of earlier versions: checkpoints of theirs go on with them


@dataclass(frozen=True)
class SomcotOptions:
    """Options of SOMCOT, checked when made; `solve` and `init` take them as keywords.

    Parameters
    ----------
    n_steps : int, optional
        Planned number K of steps, each of `batch_size` transitions. By default one pass over recorded samples of the
        occupancy, otherwise max(10,000, 200 n_x n_y).
    primal_step, dual_step : float or three floats, optional
        Explicit rates in the unit of the cost, as in the paper's table: eta for (mu, lambda_X, lambda_Y), beta for
        (alpha_X, alpha_Y, V). What is left out comes from `steps`, or `somcot.steps.auto`.
    decay : float
        a of eta_k = eta / sqrt(1 + a k).
    batch_size : int
        Transitions of each chain in one step; Algorithm 2 averages their gradients.
    steps : "auto", "paper", "theorem" or Steps
        "auto" counts transitions and solves the saddle point on the counted chains. The others are the paper's
        Algorithm 2: with the rates of its table (`somcot.steps.paper`), of Theorem 1, or these.
    average : float
        Last share of the iterates that is averaged; 1.0 = all, as in the paper.
    support : "full" or "observed", optional
        mu on all quadruples of states, as in the paper and the default of Algorithm 2, or on pairs of transitions that
        occur, the default otherwise.
    half_life : float, optional
        Forget: after so many transitions of each chain one weighs half as much as a new one. With steps="auto" only.
    keep_coupling : bool
        Average the whole of mu for `Result.coupling`; costs (n_x n_y)^2 memory with full support.

    Examples
    --------
    >>> SomcotOptions(n_steps=1000, primal_step=40).primal_step
    (40.0, 40.0, 40.0)
    >>> SomcotOptions(average=2)
    Traceback (most recent call last):
    ValueError: average: found 2, expected a share above 0 and at most 1
    """

    n_steps: int | None = None
    primal_step: float | Sequence[float] | None = None
    dual_step: float | Sequence[float] | None = None
    decay: float = 0.0
    batch_size: int = 1
    steps: str | Steps = "auto"
    average: float = 0.5
    support: Support | None = None
    half_life: float | None = None
    keep_coupling: bool = False

    def __post_init__(self) -> None:
        given = self._given()
        checked = {
            "n_steps": None if self.n_steps is None else check_count("n_steps", self.n_steps),
            "primal_step": None if self.primal_step is None else given[:3],
            "dual_step": None if self.dual_step is None else given[3:6],
            "decay": given.decay,
            "batch_size": check_count("batch_size", self.batch_size),
            "steps": _checked_rule(self.steps),
            "average": _checked_share(self.average),
            "keep_coupling": check_flag("keep_coupling", self.keep_coupling),
            "half_life": None if self.half_life is None else check_positive("half_life", self.half_life),
        }
        if self.half_life is not None and not self.counts:
            raise ValueError("half_life: Algorithm 2 keeps no counts that could be forgotten; use steps='auto'")
        if isinstance(self.steps, Steps) and self.steps.decay and self.decay:
            raise ValueError(
                f"decay: found {self.decay}, and {self.steps.decay} in steps; give it once, here or in Steps"
            )
        if self.support not in ("full", "observed", None):
            raise ValueError(f"support: found {self.support!r}, expected 'full' or 'observed'")
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def counts(self) -> bool:
        """Whether transitions are counted; rates of one's own make it Algorithm 2."""
        return self.steps == "auto" and self.primal_step is None and self.dual_step is None and not self.decay

    def begin(self, cost: Floats, discount: float, x: Origin, y: Origin) -> State:
        """The first state of a run of Algorithm 2, from what has been checked."""
        settings = self.settings(cost, discount)
        _check_size(cost, discount)
        # A coupling of the first states has to be looked for only when both are random.
        extra = all(np.count_nonzero(side.initial) > 1 for side in (x, y))
        edges_x, edges_y = (side.edges(settings.support, extra) for side in (x, y))
        return build(settings, cost, x.initial, y.initial, edges_x, edges_y)

    def begin_counting(self, cost: Floats, discount: float, x: Origin, y: Origin) -> CountState:
        """The first state of a run that counts."""
        _check_size(cost, discount)
        support: Support = self.support or "observed"
        own = (self.batch_size, self.average, support, self.keep_coupling, self.half_life)
        return CountState.empty(CountSettings(discount, self.n_steps, *own), cost, x.initial, y.initial)

    def settings(self, cost: Floats, discount: float) -> RunSettings:
        """What is fixed for a run of Algorithm 2 with this cost; `n_steps` must be known by now."""
        n_steps = check_count("n_steps", self.n_steps)
        own = self.steps == "paper" or isinstance(self.steps, Steps)
        own = own or self.primal_step is not None or self.dual_step is not None
        return RunSettings(
            discount,
            n_steps,
            self._rates(cost, discount, n_steps),
            _reach(cost) if own else span(cost),
            self.batch_size,
            self.average,
            self.support or "full",
            self.keep_coupling,
        )

    def _rates(self, cost: Floats, discount: float, n_steps: int) -> Steps:
        """Rates in the unit of the cost; explicit values go before the rule."""
        n_x, n_y = cost.shape
        if isinstance(self.steps, Steps):
            rule = self.steps
        elif self.steps == "paper":
            rule = rules.paper()
        elif self.steps in ("auto", FORMER):
            rule = rules.auto(n_x, n_y, n_steps, span(cost))
        else:
            rule = rules.theorem(n_x, n_y, discount, n_steps, span(cost))
        if self.primal_step is None and self.dual_step is None:
            return rule._replace(decay=rule.decay or self.decay)
        given = self._given()
        primal, dual = (rule if side is None else given for side in (self.primal_step, self.dual_step))
        return Steps(*primal[:3], *dual[3:6], given.decay)

    def _given(self) -> Steps:
        """The explicit rates, with 1 where there are none."""
        primal, dual = (1.0 if step is None else step for step in (self.primal_step, self.dual_step))
        return rules.explicit(primal, dual, self.decay)


class Origin(NamedTuple):
    """Where one chain starts, and which transitions it can take where that is known."""

    initial: Floats
    transitions: NDArray[np.bool_] | None = None

    def edges(self, support: Support, extra: bool) -> Transitions:
        """The transitions mu may use, those out of an extra start state included."""
        n = len(self.initial)
        if support == "full":
            return Transitions.full(n + extra)
        mask = np.zeros((n + extra, n + extra), dtype=bool)
        if self.transitions is not None:
            mask[:n, :n] = self.transitions
        if extra:
            mask[n, :n] = self.initial > 0
        return Transitions.from_mask(mask)


@takes(SomcotOptions)
def init(
    cost: ArrayLike,
    *,
    discount: float,
    n_steps: int,
    initial_x: int | ArrayLike = 0,
    initial_y: int | ArrayLike = 0,
    transitions_x: ArrayLike | None = None,
    transitions_y: ArrayLike | None = None,
    **options: Any,
) -> Any:
    """Start a run: nothing counted, or mu and both lambdas uniform and all duals zero.

    Parameters
    ----------
    cost : array_like, shape (n_x, n_y)
    discount : float
    n_steps : int
        Planned number of iterations K.
    initial_x, initial_y : state index or array_like
        First state of each chain, or its law.
    transitions_x, transitions_y : array_like of bool, shape (n, n), optional
        For Algorithm 2 with ``support="observed"``: which transitions can occur; without, they are learned from what is
        fed.
    **options
        The other fields of `Options`.

    Returns
    -------
    CountState or State
        The second for Algorithm 2.

    Examples
    --------
    >>> from somcot.solvers.somcot import advance, finish
    >>> state = init([[0, 1], [1, 0]], discount=0.9, n_steps=3)
    >>> state = advance(state, ([0, 0, 1], [0, 1, 1]), ([0, 1, 1], [1, 1, 1]))
    >>> finish(state).n_steps
    3
    """
    costs = real_array("cost", cost, 2)
    x = origin("x", initial_x, transitions_x, costs.shape[0])
    y = origin("y", initial_y, transitions_y, costs.shape[1])
    wanted = SomcotOptions(n_steps=n_steps, **options)
    return (wanted.begin_counting if wanted.counts else wanted.begin)(costs, check_discount(discount), x, y)


def _check_size(cost: Floats, discount: float) -> None:
    if discount < _LEAST_DISCOUNT:
        raise ValueError(
            f"discount: found {discount!r}, expected at least {_LEAST_DISCOUNT:g} for SOMCOT, whose steps divide "
            "by it; use a larger discount, or method='exact' for known chains"
        )
    n_x, n_y = cost.shape
    # Counts, occupancies and the places of transitions are tables of states by states on each side.
    require(40.0 * (n_x**2 + n_y**2), f"SOMCOT on {n_x} x {n_y} states", "merge states, or use method='exact'")


def origin(side: str, initial: int | ArrayLike, transitions: ArrayLike | None, n: int) -> Origin:
    """Check where chain `side` ("x" or "y") of n states starts and which transitions it can take."""
    law = _law(f"initial_{side}", initial, n)
    if transitions is None:
        return Origin(law)
    allowed = np.asarray(transitions, dtype=bool)
    if allowed.shape != (n, n):
        raise ValueError(f"transitions_{side}: shape is {allowed.shape}, expected {(n, n)}")
    return Origin(law, allowed)


def _reach(cost: Floats) -> float:
    """The largest absolute cost, the unit of the paper's radii, or 1 when all costs are 0."""
    return float(np.abs(cost).max()) or 1.0


def _checked_rule(steps: str | Steps) -> str | Steps:
    if isinstance(steps, Steps):
        return rules.explicit(steps[:3], steps[3:6], steps.decay)
    if steps not in ("auto", "paper", "theorem", FORMER):
        raise ValueError(f"steps: found {steps!r}, expected 'auto', 'theorem', 'paper' or a somcot.steps.Steps record")
    return steps


def _checked_share(average: object) -> float:
    share = float(average) if isinstance(average, (int, float, np.number)) else -1.0
    if not 0.0 < share <= 1.0:
        raise ValueError(f"average: found {average!r}, expected a share above 0 and at most 1")
    return share


def _law(name: str, initial: int | ArrayLike, n: int) -> Floats:
    if np.ndim(initial) == 0:
        i = check_count(name, initial, at_least=0)
        if i >= n:
            raise ValueError(f"{name}: found state {i}, expected one of 0, ..., {n - 1}")
        return np.asarray(np.eye(n)[i])
    return probability_vector(name, initial, tuple(range(n)), normalize=False)
