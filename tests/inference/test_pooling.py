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
from somcot.chains import Support
from somcot.inference.model import Model, fit
from somcot.inference.pooling import Homogeneity, kept_shares, pool
from somcot.samples import Samples
from tests.data_instances import family
from tests.instances import Floats, random_chain
from tests.reference import pooled_rows as reference


def quiet(call: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **kwargs)


def table(support: Support) -> Floats:
    n = len(support.indptr) - 2
    out = np.zeros((n + 1, n))
    out[support.rows, support.indices] = support.probabilities
    return out


def expected(x: Model, y: Model, order: Any) -> tuple[Floats, Floats, Floats]:
    """Kept shares and both pooled kernels, row by row on full tables."""
    (cx, P), (cy, Q) = reference.tables(x), reference.tables(y, order)
    known_x, known_y = x.known_rows, y.known_rows[np.append(order, len(order))]
    found = []
    for i in range(len(cx)):
        if known_x[i] != known_y[i]:
            found.append(reference.one_sample(cy[i], P[i]) if known_x[i] else reference.one_sample(cx[i], Q[i]))
        else:
            found.append(reference.two_sample(cx[i], cy[i]))
    T, df, s = (np.array(column) for column in zip(*found, strict=True))
    h = reference.kept_shares(T, df, s)
    one, other = P.copy(), Q.copy()
    for i in range(len(cx)):
        n, m = cx[i].sum(), cy[i].sum()
        if h[i] == 1.0:
            continue
        M = P[i] if known_x[i] else Q[i] if known_y[i] else (n * P[i] + m * Q[i]) / (n + m)
        one[i], other[i] = M + h[i] * (P[i] - M), M + h[i] * (Q[i] - M)
    return h, one, other


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["both", "x known", "y known", "start known"]))
def test_pooled_kernels_against_full_tables(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    x, y = random_chain(rng, n, "sparse"), random_chain(rng, n, "sparse")
    mixed = MarkovChain(0.3 * np.asarray(y.transition) + 0.7 * np.asarray(x.transition), x.initial)
    order = rng.permutation(n)
    a, b = x.sample(20, 10, rng=rng), mixed.sample(20, 10, rng=rng)
    place = np.argsort(order).astype(np.int32)
    b = Samples(tuple(int(i) for i in order), place[b.now], place[b.following], offsets=b.offsets)
    if kind == "start known":
        b = Samples(b.states, b.now, b.following, offsets=b.offsets, initial=np.eye(n)[0])
    models = quiet(fit, x if kind == "x known" else a), quiet(fit, b)
    if kind == "y known":
        models = quiet(fit, a), fit(MarkovChain(np.asarray(y.transition)[np.ix_(order, order)], states=b.states))
    where = np.array([b.states.index(i) for i in range(n)])
    found = pool(*models, where)
    h, one, other = expected(*models, where)
    np.testing.assert_allclose(found.kept, h, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(table(found.x), one, atol=1e-12)
    np.testing.assert_allclose(table(found.y), other, atol=1e-12)
    assert 0.0 <= found.equal <= 1.0


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
    assert result.estimate.n_solves == 10


def test_two_recordings_of_one_process_are_pooled_to_nothing() -> None:
    f = family("lazy0")
    result = quiet(somcot.distance, f.x.sample(60, 50, rng=0), f.y.sample(60, 50, rng=1), f.cost, discount=0.95)
    assert result.distance < 0.05 * result.plugin
    assert result.estimate.equal_rows > 0.9


def test_nothing_to_test_keeps_everything() -> None:
    kept, equal = kept_shares(Homogeneity(np.zeros(3), np.zeros(3, dtype=np.int64), np.ones(3)))
    assert kept.tolist() == [1.0, 1.0, 1.0]
    assert equal == 0.0


def test_something_impossible_under_the_known_side_is_a_difference() -> None:
    known = MarkovChain([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
    moved = MarkovChain([[0.4, 0.4, 0.2], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
    result = quiet(somcot.distance, known, moved.sample(100, 30, rng=0), costs.labels(range(3), range(3)), discount=0.9)
    assert result.estimate.kept[0] > 0.99
    assert result.estimate.kept[1] < 0.5


def test_other_states_or_dear_equal_states_leave_it_to_the_halves() -> None:
    f = family("bl5x3_0.5")
    a, b = f.x.sample(40, 50, rng=0), f.y.sample(40, 50, rng=1)
    found = quiet(somcot.distance, a, b, f.cost, discount=0.95).estimate
    assert (found.pooled, found.kept, found.equal_rows, found.n_solves) == (None, None, None, 9)
    g = family("lazy")
    c, d = g.x.sample(40, 50, rng=0), g.y.sample(40, 50, rng=1)
    assert quiet(somcot.distance, c, d, g.cost, discount=0.95).estimate.pooled is not None
    assert quiet(somcot.distance, c, d, g.cost + np.diag(np.arange(8.0)), discount=0.95).estimate.pooled is None
    e, h = g.x.sample_occupancy(500, 0.95, rng=0), g.y.sample_occupancy(500, 0.95, rng=1)
    assert quiet(somcot.distance, e, h, g.cost, discount=0.95).estimate.pooled is None


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_fast_mode_takes_two_solves(confidence: float | None) -> None:
    f = family("rw5_0.7@0.9")
    a, b = f.x.sample(60, 50, rng=0), f.y.sample(60, 50, rng=1)
    result = quiet(somcot.distance, a, b, f.cost, discount=0.9, n_splits=0, confidence=confidence)
    full = quiet(somcot.distance, a, b, f.cost, discount=0.9, confidence=confidence)
    assert result.estimate.n_solves == 2
    assert result.estimate.pooled == full.estimate.pooled == result.estimate.uncut == result.distance
    if confidence is not None:
        low, high, _ = result.confidence_interval
        assert low <= result.distance <= high


def test_fast_mode_is_refused_where_there_is_nothing_to_pool() -> None:
    f = family("bl5x3_0.5")
    with pytest.raises(ValueError, match="n_splits: 0 leaves the correction to rows that both processes share"):
        quiet(somcot.distance, f.x.sample(9, 9, rng=0), f.y.sample(9, 9, rng=1), f.cost, discount=0.9, n_splits=0)


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
    assert turned.pooled == pytest.approx(plain.pooled, abs=1e-6)
    np.testing.assert_allclose(moved.kept, plain.kept, rtol=1e-12)
    np.testing.assert_allclose(turned.kept, plain.kept, rtol=1e-12)
