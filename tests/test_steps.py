"""Step rules: the formulas, their units, and the theorem's bound with its inverse."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from somcot import steps

sizes = st.integers(1, 60)
discounts = st.floats(0.05, 0.995)


def anything(value: Any) -> Any:
    """Hide a type the checker would refuse."""
    return value


def test_auto_is_the_measured_rule() -> None:
    rates = steps.auto(5, 15, 30_000, 2.0)
    assert rates.mu == rates.lambda_x == rates.lambda_y == 0.5
    assert rates.alpha_x == rates.alpha_y == rates.V == pytest.approx(0.6 * 2.0 * math.sqrt(75 / 30_000))
    assert rates.decay == 0


def test_theorem_is_as_stated() -> None:
    X, Y, g, K = 4, 7, 0.9, 10_000
    rates = steps.theorem(X, Y, g, K)
    assert rates.mu == pytest.approx(math.sqrt(math.log(X**2 * Y**2) * (1 - g) ** 2 / K))
    assert rates.lambda_x == pytest.approx(math.sqrt(X * math.log(Y) * (1 - g) ** 2 / K))
    assert rates.lambda_y == pytest.approx(math.sqrt(Y * math.log(X) * (1 - g) ** 2 / K))
    assert rates.alpha_x == pytest.approx(math.sqrt(X**2 * Y / ((1 - g) ** 2 * K)))
    assert rates.alpha_y == pytest.approx(math.sqrt(X * Y**2 / ((1 - g) ** 2 * K)))
    assert pytest.approx(math.sqrt(X * Y / ((1 - g) ** 2 * K))) == rates.V


@given(sizes, sizes, discounts, st.floats(1e-3, 1e3))
def test_units_primal_rates_fall_and_dual_rates_grow_with_the_cost(n_x: int, n_y: int, g: float, unit: float) -> None:
    for plain, scaled in (
        (steps.theorem(n_x, n_y, g, 1000), steps.theorem(n_x, n_y, g, 1000, unit)),
        (steps.auto(n_x, n_y, 1000), steps.auto(n_x, n_y, 1000, unit)),
    ):
        assert [r * unit for r in scaled[:3]] == pytest.approx(list(plain[:3]))
        assert [r / unit for r in scaled[3:6]] == pytest.approx(list(plain[3:6]))


def test_explicit_takes_one_or_three() -> None:
    assert steps.explicit(0.1, 0.5, 0.001) == steps.Steps(0.1, 0.1, 0.1, 0.5, 0.5, 0.5, 0.001)
    assert steps.explicit((1, 2, 3), [4, 5, 6]) == steps.Steps(1, 2, 3, 4, 5, 6)


def the_proofs_bound(rates: steps.Steps, X: int, Y: int, g: float, K: int, delta: float) -> float:
    """The display of the proof that holds with probability 1 - 2 delta, term by term."""
    log, G2 = math.log, (1 - g) ** 2
    return (
        18 * X**2 * Y / (rates.alpha_x * K * G2) + 4 * rates.alpha_x + math.sqrt(72 / (K * G2) * log(2 / delta))
        + 18 * X * Y**2 / (rates.alpha_y * K * G2) + 4 * rates.alpha_y + math.sqrt(72 / (K * G2) * log(2 / delta))
        + 4 * X * Y / (rates.V * K * G2) + 2 * rates.V
        + 2 * log(X * Y) / (rates.mu * K) + 200 * rates.mu / (2 * G2)
        + X * log(Y) / (rates.lambda_x * K) + 90 * rates.lambda_x / G2 + math.sqrt(288 * X * log(2 / delta) / (K * G2))
        + Y * log(X) / (rates.lambda_y * K) + 90 * rates.lambda_y / G2 + math.sqrt(288 * Y * log(1 / delta) / (K * G2))
    )  # fmt: skip


def appendix(X: int, Y: int, g: float, K: int) -> steps.Steps:
    """The rates that the proof puts into its bound."""
    r, log = 1 - g, math.log
    return steps.Steps(
        r * math.sqrt(log(X * Y) / (100 * K)), r * math.sqrt(X * log(Y) / (90 * K)),
        r * math.sqrt(Y * log(X) / (90 * K)), math.sqrt(9 * X**2 * Y / (2 * K)) / r,
        math.sqrt(9 * X * Y**2 / (2 * K)) / r, math.sqrt(2 * X * Y / K) / r,
    )  # fmt: skip


def test_error_bound_is_the_proofs_at_the_rates_that_are_used() -> None:
    case = (3, 8, 0.95, 10**6)
    for rates in (steps.theorem(*case), appendix(*case), steps.explicit(0.01, 0.02)):
        assert steps.error_bound(*case, 0.01, rates=rates) == pytest.approx(the_proofs_bound(rates, *case, 0.01))
    assert steps.error_bound(*case, 0.01) == steps.error_bound(*case, 0.01, rates=steps.theorem(*case))
    large = (5, 5, 0.9, 10**10)
    assert steps.error_bound(*large) == pytest.approx(0.147, abs=5e-4)
    assert steps.error_bound(*large, rates=appendix(*large)) == pytest.approx(0.0740, abs=5e-5)
    doubled = steps.Steps(*(r / 2 for r in appendix(*large)[:3]), *(2 * r for r in appendix(*large)[3:6]))
    assert steps.error_bound(*large, max_cost=2.0, rates=doubled) == pytest.approx(0.1481, abs=1e-4)
    with pytest.raises(ValueError, match=r"rates: found decay=0\.1, expected constant rates"):
        steps.error_bound(*large, rates=steps.explicit(1.0, 1.0, 0.1))


@given(sizes, sizes, discounts, st.floats(1e-3, 0.999), st.floats(1e-3, 1e4), st.floats(0.01, 100))
def test_inverse_is_the_least_sufficient_number(
    n_x: int, n_y: int, g: float, delta: float, error: float, unit: float
) -> None:
    n = steps.steps_for_error(n_x, n_y, g, error, delta, max_cost=unit)
    assert steps.error_bound(n_x, n_y, g, n, delta, max_cost=unit) <= error
    assert n == 1 or steps.error_bound(n_x, n_y, g, n - 1, delta, max_cost=unit) > error


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: steps.auto(0, 1, 10), ValueError, "n_x: found 0"),
        (lambda: steps.auto(1, 1, 0), ValueError, "n_steps: found 0"),
        (lambda: steps.auto(1, 1, 10, 0.0), ValueError, "max_cost: found 0.0"),
        (lambda: steps.theorem(2, 2, 1.0, 10), ValueError, "discount: found 1.0"),
        (lambda: steps.error_bound(2, 2, 0.9, 10, 0.0), ValueError, "delta: found 0.0"),
        (lambda: steps.steps_for_error(2, 2, 0.9, -1.0), ValueError, "error: found -1.0"),
        (lambda: steps.explicit(anything("fast"), 0.1), TypeError, "primal_step: found 'fast'"),
        (lambda: steps.explicit(0.1, math.inf), ValueError, "dual_step: found inf"),
        (lambda: steps.explicit(0.1, 0.1, -1), ValueError, "decay: found -1.0"),
    ],
)
def test_bad_arguments_are_refused(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()
