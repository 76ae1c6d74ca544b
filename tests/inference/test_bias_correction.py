"""The rules that turn halves and pooled rows into an estimate and an interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from somcot.inference.bias_correction import Evidence, Halves, corrected, interval
from tests.reference.pooled_rows import pooled_rule, split_rule

Z = 1.6448536269514722
numbers = st.floats(-0.5, 1.5)


@settings(max_examples=300, deadline=None)
@given(st.floats(1e-3, 1.0), st.floats(1e-4, 0.2), st.sampled_from([1.0, 4.0]), st.tuples(*[numbers] * 4))
def test_rules_are_those_of_the_docs(d: float, se: float, sat: float, parts: tuple[float, ...]) -> None:
    C, S, g, pooled = d * (1 - parts[0]), d * (1 + 0.5 * parts[1]), d * max(parts[2], 0.0), d * abs(parts[3])
    split = Evidence(d, se, sat, Halves(g, S, C), None)
    value, low, high = split_rule(d, se, sat, C, S, g, Z)
    assert corrected(split) == pytest.approx(value, abs=1e-12)
    assert interval(split, 0.9) == pytest.approx((low, high), abs=1e-12)
    both = split._replace(pooled=pooled)
    value, low, high = pooled_rule(d, se, sat, C, S, g, Z, pooled)
    assert corrected(both) == pytest.approx(value, abs=1e-12)
    assert interval(both, 0.9) == pytest.approx((low, high), abs=1e-12)


@settings(max_examples=300, deadline=None)
@given(st.floats(0.0, 1.0), st.floats(0.0, 0.2), st.tuples(*[numbers] * 4), st.booleans(), st.booleans())
def test_the_estimate_lies_in_its_interval_and_below_the_plugin(
    d: float, se: float, parts: tuple[float, ...], same: bool, fast: bool
) -> None:
    halves = None if fast else Halves(max(parts[0], 0.0), d + 0.3 * parts[1], d - parts[2])
    evidence = Evidence(d, se, 1.0, halves, abs(parts[3]) if same or fast else None)
    value, (low, high) = corrected(evidence), interval(evidence, 0.9)
    assert 0.0 <= value <= d
    assert low - 1e-12 <= value <= high + 1e-12
    scaled = Evidence(
        7.0 * d,
        7.0 * se,
        1.0,
        None if halves is None else Halves(*(7.0 * part for part in halves)),
        None if evidence.pooled is None else 7.0 * evidence.pooled,
    )
    assert corrected(scaled) == pytest.approx(7.0 * value, abs=1e-9)


def test_without_splits_the_pooled_distance_decides() -> None:
    fast = Evidence(0.5, 0.1, 1.0, None, 0.3)
    assert corrected(fast) == 0.3
    assert fast.uncut == 0.3
    assert fast.gap == pytest.approx(0.2 * np.sqrt(2))
    assert interval(fast, 0.9) == pytest.approx((0.25 - 0.1 * Z, 0.35 + 0.1 * Z))
    assert corrected(fast._replace(pooled=0.6)) == 0.5


def test_uncut_is_the_cross_fitted_value_and_may_be_negative() -> None:
    assert Evidence(0.1, 0.1, 1.0, Halves(0.2, 0.14, -0.03), 0.0).uncut == -0.03


def test_a_plugin_of_zero_stays_zero() -> None:
    nothing = Evidence(0.0, 0.0, 1.0, Halves(0.1, 0.1, -0.1), 0.0)
    assert corrected(nothing) == 0.0
    assert nothing.rho == 0.0
    assert interval(nothing, 0.9) == (0.0, 0.0)


def test_saturated_data_get_a_wider_interval() -> None:
    usual = Evidence(0.5, 0.05, 1.0, Halves(0.22, 0.5, 0.35), None)
    assert interval(usual._replace(saturation=4.0), 0.9).low < interval(usual, 0.9).low
