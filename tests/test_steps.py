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


def test_error_bound_is_the_last_display_of_the_proof() -> None:
    X, Y, g, K, delta = 3, 8, 0.95, 10**6, 0.01
    log = math.log
    lines = (
        12 * math.sqrt(2 * X * Y) * (math.sqrt(X) + math.sqrt(Y))
        + 4 * math.sqrt(2 * X * Y)
        + 3 * math.sqrt(10 * X * log(Y))
        + 3 * math.sqrt(10 * Y * log(X))
        + 40 * math.sqrt(log(X**2 * Y**2))
        + 12 * math.sqrt(log(1 / delta))
        + 12 * math.sqrt(2 * X * log(1 / delta))
        + 12 * math.sqrt(2 * Y * log(1 / delta))
    )
    assert steps.error_bound(X, Y, g, K, delta) == pytest.approx(lines / ((1 - g) * math.sqrt(K)))


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
