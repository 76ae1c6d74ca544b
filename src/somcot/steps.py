"""Step sizes for SOMCOT: the automatic rule, Theorem 1's, explicit values; and the theorem's error bound.

SOMCOT has six rates: three primal ones (mu, lambda_X, lambda_Y) for the entropic mirror descent, three dual ones
(alpha_X, alpha_Y, V) for the projected gradient steps. Rates depend on the unit of the cost: dividing the cost by s and
the dual rates by s, and multiplying the primal rates by s, leaves every coupling of the run as it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from somcot.plumbing.checks import check_count, check_discount, check_number, check_positive

__all__ = ["Steps", "auto", "error_bound", "explicit", "steps_for_error", "theorem"]


class Steps(NamedTuple):
    """The six rates of SOMCOT and the decay of the primal ones, eta_k = eta / sqrt(1 + decay * k)."""

    mu: float
    lambda_x: float
    lambda_y: float
    alpha_x: float
    alpha_y: float
    V: float
    decay: float = 0.0


def auto(n_x: int, n_y: int, n_steps: int, max_cost: float = 1.0) -> Steps:
    """Rates that need no tuning: eta = 1 / max c and beta = 0.6 max c sqrt(n_x n_y / K).

    To be used with the average over the last half of the iterates. The estimate converges as `n_steps` grows (with
    a constant dual rate it does not), and at least 200 n_x n_y steps are advisable.

    Examples
    --------
    >>> rates = auto(5, 5, 10_000)
    >>> rates.mu, round(rates.V, 6)
    (1.0, 0.03)
    """
    n_x, n_y, n_steps = _sizes(n_x, n_y, n_steps)
    scale = check_positive("max_cost", max_cost)
    beta = 0.6 * scale * math.sqrt(n_x * n_y / n_steps)
    return Steps(1 / scale, 1 / scale, 1 / scale, beta, beta, beta)


def theorem(n_x: int, n_y: int, discount: float, n_steps: int, max_cost: float = 1.0) -> Steps:
    """Rates of Theorem 1, for which `error_bound` falls as 1 / sqrt(K); to be used with the average of all iterates.

    The bound says something only for very many steps. Before, the dual rates are large and the estimate is far too
    high: for walks of 5 states at discount 0.9, distance 0.220, one run each gave 0.484, 0.408 and 0.315 after 10,000,
    100,000 and 1,000,000 steps. `auto` is the rule for use.

    Examples
    --------
    >>> rates = theorem(5, 5, 0.9, 10_000)
    >>> round(rates.mu, 6), round(rates.alpha_x, 6)
    (0.002537, 1.118034)
    """
    n_x, n_y, n_steps = _sizes(n_x, n_y, n_steps)
    rest, scale = 1.0 - check_discount(discount), check_positive("max_cost", max_cost)

    def primal(size: float) -> float:
        return rest * math.sqrt(size / n_steps) / scale

    def dual(size: float) -> float:
        return scale * math.sqrt(size / n_steps) / rest

    return Steps(
        primal(2 * math.log(n_x * n_y)),
        primal(n_x * math.log(n_y)),
        primal(n_y * math.log(n_x)),
        dual(n_x * n_x * n_y),
        dual(n_x * n_y * n_y),
        dual(n_x * n_y),
    )


def explicit(primal_step: float | Sequence[float], dual_step: float | Sequence[float], decay: float = 0.0) -> Steps:
    """Rates as given, in the unit of the cost (the paper's table).

    Parameters
    ----------
    primal_step : float or three floats
        eta, one for all or (mu, lambda_X, lambda_Y).
    dual_step : float or three floats
        beta, one for all or (alpha_X, alpha_Y, V).
    decay : float
        a of eta_k = eta / sqrt(1 + a k).

    Examples
    --------
    >>> explicit(40, 0.2)
    Steps(mu=40.0, lambda_x=40.0, lambda_y=40.0, alpha_x=0.2, alpha_y=0.2, V=0.2, decay=0.0)
    """
    return Steps(*_three("primal_step", primal_step), *_three("dual_step", dual_step), check_decay(decay))


def error_bound(
    n_x: int, n_y: int, discount: float, n_steps: int, delta: float = 0.05, *, max_cost: float = 1.0
) -> float:
    """Error that SOMCOT exceeds with probability at most `delta`: the explicit bound that ends the proof of Theorem 1.

    The bound is a guarantee for every pair of chains of this size and far above what is seen in practice.

    Parameters
    ----------
    n_x, n_y : int
        Numbers of states.
    discount : float
    n_steps : int
        K, the number of iterations.
    delta : float
        Probability of a larger error.
    max_cost : float
        The bound is stated for costs in [0, 1] and grows in proportion.

    Examples
    --------
    >>> round(error_bound(5, 5, 0.9, 10**10, 0.05), 4)
    0.0715
    """
    n_x, n_y, n_steps = _sizes(n_x, n_y, n_steps)
    return _bound_constant(n_x, n_y, discount, delta, max_cost) / math.sqrt(n_steps)


def steps_for_error(
    n_x: int, n_y: int, discount: float, error: float, delta: float = 0.05, *, max_cost: float = 1.0
) -> int:
    """Least number of steps whose `error_bound` is at most `error`.

    Examples
    --------
    >>> n_steps = steps_for_error(5, 5, 0.9, 0.1)
    >>> error_bound(5, 5, 0.9, n_steps) <= 0.1 < error_bound(5, 5, 0.9, n_steps - 1)
    True
    """
    n_x, n_y, _ = _sizes(n_x, n_y, 1)
    constant = _bound_constant(n_x, n_y, discount, delta, max_cost)
    n_steps = max(1, math.ceil((constant / check_positive("error", error)) ** 2))
    while n_steps > 1 and constant / math.sqrt(n_steps - 1) <= error:
        n_steps -= 1
    while constant / math.sqrt(n_steps) > error:
        n_steps += 1
    return n_steps


def _bound_constant(n_x: int, n_y: int, discount: float, delta: float, max_cost: float) -> float:
    """The bound times sqrt(K), term by term as in the proof's last display."""
    rest, scale = 1.0 - check_discount(discount), check_positive("max_cost", max_cost)
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta: found {delta}, expected a probability strictly between 0 and 1")
    unlikely = math.log(1.0 / delta)
    terms = (
        12 * math.sqrt(2 * n_x * n_y) * (math.sqrt(n_x) + math.sqrt(n_y)),
        4 * math.sqrt(2 * n_x * n_y),
        3 * math.sqrt(10 * n_x * math.log(n_y)),
        3 * math.sqrt(10 * n_y * math.log(n_x)),
        40 * math.sqrt(2 * math.log(n_x * n_y)),
        12 * math.sqrt(unlikely),
        12 * math.sqrt(2 * n_x * unlikely),
        12 * math.sqrt(2 * n_y * unlikely),
    )
    return scale * sum(terms) / rest


def check_decay(decay: Any) -> float:
    """Refuse a decay that is not a number of at least 0."""
    value = check_number("decay", decay)
    if not 0.0 <= value < math.inf:
        raise ValueError(f"decay: found {value}, expected a number of at least 0")
    return value


def _three(name: str, value: Any) -> tuple[float, float, float]:
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        if len(value) != 3:
            raise ValueError(f"{name}: found {len(value)} rates, expected one or three")
        a, b, c = (check_positive(name, v) for v in value)
        return a, b, c
    rate = check_positive(name, value)
    return rate, rate, rate


def _sizes(n_x: Any, n_y: Any, n_steps: Any) -> tuple[int, int, int]:
    return check_count("n_x", n_x), check_count("n_y", n_y), check_count("n_steps", n_steps)
