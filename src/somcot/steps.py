"""Step sizes for Algorithm 2: the paper's table, Theorem 1's, a rule by size, explicit values; and the error bound.

SOMCOT has six rates: three primal ones (mu, lambda_X, lambda_Y) for the entropic mirror descent, three dual ones
(alpha_X, alpha_Y, V) for the projected gradient steps. Rates depend on the unit of the cost: dividing the cost by s and
the dual rates by s, and multiplying the primal rates by s, leaves every coupling of the run as it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from somcot.plumbing.checks import check_count, check_discount, check_kind, check_number, check_positive

__all__ = ["Steps", "auto", "error_bound", "explicit", "paper", "steps_for_error", "theorem"]


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
    """Rates for Algorithm 2 that depend on K: eta = 1 / max c and beta = 0.6 max c sqrt(n_x n_y / K).

    To be used with the average over the last half of the iterates; at least 200 n_x n_y steps are advisable. They do
    well where both processes start alike and mix soon. Elsewhere the duals need more steps than there are, and the
    estimate stays off, without a sign of it in the residuals. ``steps="auto"`` does not use them: it counts.

    Examples
    --------
    >>> rates = auto(5, 5, 10_000)
    >>> rates.mu, round(rates.V, 6)
    (1.0, 0.03)
    """
    n_x, n_y, n_steps = _sizes(n_x, n_y, n_steps)
    # Rates have the unit of the cost or its inverse; all formulas are for a cost in [0, 1].
    scale = check_positive("max_cost", max_cost)
    beta = 0.6 * scale * math.sqrt(n_x * n_y / n_steps)
    return Steps(1 / scale, 1 / scale, 1 / scale, beta, beta, beta)


def paper() -> Steps:
    """Rates of the paper's table, first row (the encoder's figure): eta = 40, beta = 0.2, in the unit of the cost.

    The table has other values for its other figures; pass those as ``primal_step``, ``dual_step`` and ``decay``.

    Examples
    --------
    >>> paper().mu, paper().V
    (40.0, 0.2)
    """
    return explicit(40.0, 0.2)


def theorem(n_x: int, n_y: int, discount: float, n_steps: int, max_cost: float = 1.0) -> Steps:
    """Rates of Theorem 1, for which `error_bound` decreases as 1 / sqrt(K); use the average of all iterates.

    The bound says something only for very many steps. Before, the dual rates are large and the estimate is far too
    high: for walks of 5 states at discount 0.9, distance 0.220, one run each gave 0.484, 0.408 and 0.315 after 10,000,
    100,000 and 1,000,000 steps.

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
        # The radius of each variable enters by its entropy or its squared norm, as in the theorem.
        primal(2 * math.log(n_x * n_y)),
        primal(n_x * math.log(n_y)),
        primal(n_y * math.log(n_x)),
        dual(n_x * n_x * n_y),
        dual(n_x * n_y * n_y),
        dual(n_x * n_y),
    )


def explicit(primal_step: float | Sequence[float], dual_step: float | Sequence[float], decay: float = 0.0) -> Steps:
    """Explicit rates, in the unit of the cost (the paper's table).

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
    n_x: int,
    n_y: int,
    discount: float,
    n_steps: int,
    delta: float = 0.05,
    *,
    max_cost: float = 1.0,
    rates: Steps | None = None,
) -> float:
    """Error that Algorithm 2 exceeds with probability at most 2 `delta`, by the proof of Theorem 1.

    The proof's bound before it puts rates in, at these rates. The paper chooses other constants there than in the
    theorem, and with them the bound is about half as large. It is a guarantee for every pair of chains of this size and
    far above what is seen in practice. (The display takes half of the lemma's term for mu, 200 eta; with the whole of
    it the example below is 0.172.)

    Parameters
    ----------
    n_x, n_y : int
        Numbers of states.
    discount : float
    n_steps : int
        K, the number of iterations, all of which are averaged.
    delta : float
        Half the probability of a larger error.
    max_cost : float
        The bound is stated for costs in [0, 1] and grows in proportion.
    rates : Steps, optional
        In the unit of the cost and without decay; by default those of `theorem`.

    Examples
    --------
    >>> round(error_bound(5, 5, 0.9, 10**10, 0.05), 4)
    0.1466
    """
    n_x, n_y, n_steps = _sizes(n_x, n_y, n_steps)
    rest, scale = 1.0 - check_discount(discount), check_positive("max_cost", max_cost)
    if not 1e-100 < scale < 1e100:
        raise ValueError(f"max_cost: found {scale}, expected between 1e-100 and 1e100; use another unit")
    delta = check_number("delta", delta)
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta: found {delta}, expected a probability strictly between 0 and 1")
    # In the unit of the cost; `dual` and `primal` convert to a cost in [0, 1].
    own = theorem(n_x, n_y, discount, n_steps, scale) if rates is None else rates
    check_kind("rates", own, Steps)
    if own.decay:
        raise ValueError(f"rates: found decay={own.decay}, expected constant rates; the proof covers no others")

    def dual(rate: float, distance: float, slope: float) -> float:
        beta = rate / scale
        # Distance to the comparator divided by the rate, plus the
        # rate times the squared gradients: the usual trade-off.
        return distance / (beta * n_steps * rest**2) + slope * beta

    def primal(rate: float, entropy: float, slope: float) -> float:
        eta = rate * scale
        # With one state the entropy is 0, and so is the rate of the theorem.
        spent = entropy / (eta * n_steps) if entropy > 0 else 0.0
        return spent + slope * eta / rest**2

    def chance(size: float, doubt: float) -> float:
        return math.sqrt(size * math.log(doubt / delta) / n_steps) / rest

    terms = (
        dual(own.alpha_x, 18.0 * n_x * n_x * n_y, 4.0) + chance(72.0, 2.0),
        dual(own.alpha_y, 18.0 * n_x * n_y * n_y, 4.0) + chance(72.0, 2.0),
        dual(own.V, 4.0 * n_x * n_y, 2.0),
        primal(own.mu, 2 * math.log(n_x * n_y), 100.0),
        primal(own.lambda_x, n_x * math.log(n_y), 90.0) + chance(288.0 * n_x, 2.0),
        primal(own.lambda_y, n_y * math.log(n_x), 90.0) + chance(288.0 * n_y, 1.0),
    )
    # `fsum`: terms differ by orders of magnitude.
    return scale * math.fsum(terms)


def steps_for_error(
    n_x: int, n_y: int, discount: float, error: float, delta: float = 0.05, *, max_cost: float = 1.0
) -> int:
    """Least number of steps whose `error_bound`, at the rates of `theorem`, is at most `error`.

    Examples
    --------
    >>> n_steps = steps_for_error(5, 5, 0.9, 0.1)
    >>> error_bound(5, 5, 0.9, n_steps) <= 0.1 < error_bound(5, 5, 0.9, n_steps - 1)
    True
    """
    n_x, n_y, _ = _sizes(n_x, n_y, 1)
    error = check_positive("error", error)

    def bound(n_steps: int) -> float:
        return error_bound(n_x, n_y, discount, n_steps, delta, max_cost=max_cost)

    # Then corrected by at most a few steps, since the bound is rounded up.
    if not math.isfinite(bound(1) ** 2 / error / error):
        raise ValueError(f"error: found {error:g}, which no number of steps reaches at max_cost={max_cost:g}")
    n_steps = max(1, math.ceil((bound(1) / error) ** 2))  # at these rates it falls as 1 / sqrt(K)
    if n_steps > 2**66:  # the bound has been telling only every ten-thousandth number apart
        return n_steps
    while n_steps > 1 and bound(n_steps - 1) <= error:
        n_steps -= 1
    while bound(n_steps) > error:
        n_steps += 1
    return n_steps


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
    # Rates and bounds are floating-point numbers of the sizes, so those are limited too.
    most = 10**100
    return (
        check_count("n_x", n_x, at_most=most),
        check_count("n_y", n_y, at_most=most),
        check_count("n_steps", n_steps, at_most=most),
    )
