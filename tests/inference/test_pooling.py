"""Rows that the data cannot tell apart: the test of each row, what is learnt from all, and the pooled kernels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import somcot
from somcot import MarkovChain, costs
from somcot.inference.pooling import (
    Homogeneity,
    calibrated,
    design_effect,
    kept_shares,
    kept_shares_of_many,
    kept_sizes,
)
from somcot.inference.statistics import RowMoments, RowTests
from somcot.samples import Samples
from tests.data_instances import family
from tests.reference import pooled_rows as reference


def quiet(call: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **kwargs)


def test_the_design_effect_is_of_the_rows_that_both_have_seen() -> None:
    x, y, df = np.array([[1.0, 0.0, 5.0, 1.0, 3.0], [1.0, 4.0, 0.0, 9.0, 3.0], [1.0, 2.0, 2.0, 1.0, 0.0]])
    tests = RowTests(np.zeros(5), df, x, y)
    moments = RowMoments(np.array([3.0, 100.0, 100.0, 5.0, 100.0]), np.ones(5))
    assert design_effect(tests, moments) == (3.0 + 5.0) / (1.0 + 1.0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_kept_shares_against_a_direct_computation(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    df = rng.integers(0, 5, size=n).astype(np.float64)
    T = df * rng.gamma(1.0, size=n) * np.where(rng.random(n) < 0.3, 10.0, 1.0)
    noise = rng.gamma(2.0, size=n) / 50.0
    kept, equal, prior = kept_shares(Homogeneity(T, df, noise))
    np.testing.assert_allclose(kept, np.minimum(reference.kept_shares(T, df, noise), 1.0), rtol=1e-9, atol=1e-12)
    assert 0.0 <= equal <= 1.0
    assert prior.weights.sum() == pytest.approx(1.0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([1, 4, 60]))
def test_kept_sizes_against_a_direct_computation(seed: int, n: int, most: int) -> None:
    """Noncentral chi-squared densities are SciPy's."""
    rng = np.random.default_rng(seed)
    df = rng.integers(0, most + 1, size=n).astype(np.float64)
    T = np.where(df > 0, rng.noncentral_chisquare(np.maximum(df, 1.0), rng.choice([1e-9, 4.0, 30.0, 300.0], size=n)), 0)
    noise = rng.gamma(2.0, size=n) / 50.0
    np.testing.assert_allclose(
        kept_sizes(Homogeneity(T, df, noise)), reference.kept_sizes(T, df, noise), rtol=1e-8, atol=1e-10
    )


def test_sizes_of_rows_that_changed_alike_vary_less_than_their_statistics() -> None:
    """A hundred rows of one true size: kept sizes are near it, and those of normal differences spread twice as far."""
    rng = np.random.default_rng(5)
    noise, df = np.full(100, 0.02), np.full(100, 3.0)
    T = rng.noncentral_chisquare(3.0, 12.0, size=100)
    tests, seen, true = Homogeneity(T, df, noise), np.sqrt(T * noise), np.sqrt(12.0 * 0.02)
    sizes, normal = kept_sizes(tests) * seen, kept_shares(tests).shares * seen
    # The smallest stay as they are: a share is at most 1.
    assert sizes.mean() == pytest.approx(true, rel=0.1)
    assert sizes.max() < 1.15 * true
    assert normal.max() > 1.3 * true


def test_permutations_calibrate_the_test_of_each_row() -> None:
    """T / c is chi-squared with nu degrees of freedom, with c and nu from mean and variance over permutations."""
    x, y = np.array([50.0, 40.0, 0.0, 30.0]), np.array([60.0, 40.0, 9.0, 30.0])
    tests = RowTests(np.array([12.0, 3.0, 5.0, 2.0]), np.array([2.0, 3.0, 2.0, 0.0]), x, y)
    null = RowMoments(np.array([4.0, 3.0, 7.0, 0.0]), np.array([16.0, 6.0, 9.0, 0.0]))
    assert design_effect(tests, null) == pytest.approx(7.0 / 5.0)
    found = calibrated(tests, null, 1.4)
    scale = [16.0 / 8.0, 6.0 / 6.0]
    np.testing.assert_allclose(found.statistic, [12.0 / scale[0], 3.0 / scale[1], 0.0, 0.0])
    np.testing.assert_allclose(found.df, [4.0 / scale[0], 3.0 / scale[1], 0.0, 0.0])
    np.testing.assert_allclose(found.noise[:2], [scale[0] * (1 / 50 + 1 / 60), scale[1] * (1 / 40 + 1 / 40)])
    # A scale far below the common design effect is chance.
    steady = calibrated(tests, null._replace(variance=np.array([16.0, 0.01, 9.0, 0.0])), 1.4)
    np.testing.assert_allclose(steady.statistic[1], 3.0 / (0.5 * 1.4))


def test_rows_that_differ_keep_their_difference_and_equal_ones_lose_it() -> None:
    """One row of ten changed: its share stays near 1, the others fall to 0."""
    rng = np.random.default_rng(3)
    kernel = rng.dirichlet(np.ones(10), size=10)
    changed = kernel.copy()
    changed[4] = np.roll(kernel[4], 3)
    a, b = MarkovChain(kernel).sample(400, 50, rng=1), MarkovChain(changed).sample(400, 50, rng=2)
    cost = costs.labels(range(10), range(10))
    result = quiet(somcot.distance, a, b, cost, discount=0.9, confidence=0.9)
    true = somcot.distance(MarkovChain(kernel), MarkovChain(changed), cost, discount=0.9).distance
    kept = np.array(result.estimate.kept)
    assert kept[4] > 0.95
    assert np.delete(kept[:10], 4).max() < 0.3
    assert result.estimate.equal_rows > 0.7
    assert abs(result.distance - true) < 0.5 * abs(result.plugin - true)
    assert result.estimate.n_solves == 7


def test_two_recordings_of_one_process_are_pooled_to_nothing() -> None:
    f = family("lazy0")
    result = quiet(somcot.distance, f.x.sample(60, 50, rng=0), f.y.sample(60, 50, rng=1), f.cost, discount=0.95)
    assert result.distance < 0.05 * result.plugin
    assert result.estimate.equal_rows > 0.9


def test_nothing_to_test_keeps_everything() -> None:
    kept, equal, _ = kept_shares(Homogeneity(np.zeros(3), np.zeros(3, dtype=np.int64), np.ones(3)))
    assert kept.tolist() == [1.0, 1.0, 1.0]
    assert equal == 0.0


def test_something_impossible_under_the_known_side_is_a_difference() -> None:
    known = MarkovChain([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
    moved = MarkovChain([[0.4, 0.4, 0.2], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
    result = quiet(somcot.distance, known, moved.sample(100, 30, rng=0), costs.labels(range(3), range(3)), discount=0.9)
    assert result.estimate.kept[0] > 0.99
    assert result.estimate.kept[1] < 0.5


def test_other_states_or_costly_equal_states_leave_it_to_the_halves() -> None:
    f = family("bl5x3_0.5")
    a, b = f.x.sample(40, 50, rng=0), f.y.sample(40, 50, rng=1)
    found = quiet(somcot.distance, a, b, f.cost, discount=0.95).estimate
    assert (found.pooled, found.kept, found.equal_rows, found.n_solves) == (None, None, None, 2)
    g = family("lazy")
    c, d = g.x.sample(40, 50, rng=0), g.y.sample(40, 50, rng=1)
    assert quiet(somcot.distance, c, d, g.cost, discount=0.95).estimate.pooled is not None
    assert quiet(somcot.distance, c, d, g.cost + np.diag(np.arange(8.0)), discount=0.95).estimate.pooled is None
    e, h = g.x.sample_occupancy(500, 0.95, rng=0), g.y.sample_occupancy(500, 0.95, rng=1)
    assert quiet(somcot.distance, e, h, g.cost, discount=0.95).estimate.pooled is None


def test_order_of_states_and_of_sides_does_not_matter() -> None:
    f = family("lazy")
    a, b = f.x.sample(60, 50, rng=0), f.y.sample(60, 50, rng=1)
    order = np.random.default_rng(0).permutation(8)
    place = np.argsort(order).astype(np.int32)
    mixed = Samples(tuple(int(i) for i in order), place[b.now], place[b.following], offsets=b.offsets)
    plain = quiet(somcot.distance, a, b, f.cost, discount=0.95).estimate
    moved = quiet(somcot.distance, a, mixed, f.cost[:, order], discount=0.95).estimate
    turned = quiet(somcot.distance, b, a, f.cost.T, discount=0.95).estimate
    assert moved.pooled == pytest.approx(plain.pooled, abs=1e-6)
    assert turned.pooled == pytest.approx(plain.pooled, rel=0.01)  # other permutations calibrate the rows
    np.testing.assert_allclose(moved.kept, plain.kept, rtol=1e-12)
    np.testing.assert_allclose(turned.kept, plain.kept, atol=0.1)


def test_a_draw_may_need_a_variance_that_the_data_do_not() -> None:
    """All rows of the data are equal, so large variances have weight 0; in a draw, one row is far apart."""
    n = 12
    prior = kept_shares(Homogeneity(np.append(np.full(n - 1, 1.0), 30.0), np.ones(n), np.full(n, 0.01))).prior
    impossible = prior._replace(weights=np.append(1.0, np.zeros(len(prior.weights) - 1)))
    draw = Homogeneity(np.append(np.full(n - 1, 1.0), 1e6)[None], np.ones((1, n)), np.full((1, n), 0.01))
    (shares,) = kept_shares_of_many(draw, impossible)
    assert shares[-1] == pytest.approx(1.0, abs=0.01)
    assert (shares[:-1] < 0.5).all()
