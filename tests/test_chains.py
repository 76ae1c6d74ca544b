"""Chains: supports, occupancies, labels, sampling, and the classics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, eye_array

import somcot
from somcot import MarkovChain, block_chain, costs, distance
from tests.instances import KINDS, dense_kernel, random_chain


@pytest.mark.parametrize("kind", KINDS)
def test_support_holds_exactly_the_positive_entries(kind: str) -> None:
    dense = random_chain(np.random.default_rng(0), 9, kind)
    for chain in (dense, MarkovChain(csr_array(dense_kernel(dense)), dense.initial)):
        indptr, indices, probabilities = chain.support
        rebuilt = np.zeros((10, 9))
        for i in range(10):
            rebuilt[i, indices[indptr[i] : indptr[i + 1]]] = probabilities[indptr[i] : indptr[i + 1]]
        np.testing.assert_array_equal(rebuilt[:9], dense_kernel(chain))
        np.testing.assert_array_equal(rebuilt[9], chain.initial)
        assert probabilities.min() > 0


@pytest.mark.parametrize("discount", [0.2, 0.95])
@pytest.mark.parametrize("sparse", [False, True])
def test_occupancy_is_the_discounted_sum(discount: float, sparse: bool) -> None:
    chain = random_chain(np.random.default_rng(2), 6, "sparse")
    P, law = dense_kernel(chain), chain.initial
    expected, weight = np.zeros((6, 6)), 1 - discount
    for _ in range(2000):
        expected += weight * law[:, None] * P
        law, weight = law @ P, weight * discount
    found = (MarkovChain(csr_array(P), chain.initial) if sparse else chain).occupancy(discount)
    assert isinstance(found, np.ndarray) is not sparse
    np.testing.assert_allclose(found if isinstance(found, np.ndarray) else found.toarray(), expected, atol=1e-13)


def test_labels_and_indices() -> None:
    chain = MarkovChain(np.eye(3), "cart", states=["home", "cart", "paid"])
    assert chain.initial.tolist() == [0, 1, 0]
    assert chain.index("paid") == 2
    assert MarkovChain(np.eye(3), states=["a", "b", "c"]).initial.tolist() == [1, 0, 0]
    # A label wins over an index of the same name.
    assert MarkovChain(np.eye(3), 0, states=[2, 1, 0]).initial.tolist() == [0, 0, 1]
    assert MarkovChain(np.eye(2), (0, 1), states=[(0, 0), (0, 1)]).initial.tolist() == [0, 1]
    assert MarkovChain(np.eye(2), np.int64(1)).initial.tolist() == [0, 1]
    assert repr(chain) == "MarkovChain(3 states, 3 transitions, starts in 'cart')"


def test_labels_survive_into_results() -> None:
    walk = somcot.random_walk(3)
    chain = MarkovChain(dense_kernel(walk), "low", states=["low", "mid", "top"])
    result = somcot.distance(chain, somcot.block_chain(chain, 2), np.repeat(1 - np.eye(3), 2, axis=1), discount=0.9)
    assert result.states_x == ("low", "mid", "top")
    assert result.states_y[:3] == (("low", 0), ("low", 1), ("mid", 0))
    assert {match.x: match.y[0] for match in result.matches()} == {"low": "low", "mid": "mid", "top": "top"}  # type: ignore[index]


def test_random_walk_has_sticky_walls() -> None:
    expected = [[0.8, 0.2, 0, 0], [0.4, 0, 0.6, 0], [0, 0.4, 0, 0.6], [0, 0, 0.2, 0.8]]
    np.testing.assert_allclose(dense_kernel(somcot.random_walk(4, 0.6, stay=0.8)), expected, atol=1e-15)
    assert dense_kernel(somcot.random_walk(1)).tolist() == [[1.0]]
    np.testing.assert_allclose(dense_kernel(somcot.random_walk(2)), [[0.9, 0.1], [0.1, 0.9]])
    assert somcot.random_walk(5, start=3).initial[3] == 1.0


def test_block_chain_spreads_each_state_over_its_copies() -> None:
    walk = somcot.random_walk(3, 0.7)
    for chain in (walk, MarkovChain(csr_array(dense_kernel(walk)))):
        split = somcot.block_chain(chain, 4)
        kernel = dense_kernel(split)
        for x in range(3):
            for z in range(3):
                np.testing.assert_allclose(kernel[4 * x : 4 * x + 4, 4 * z : 4 * z + 4], dense_kernel(walk)[x, z] / 4)
        np.testing.assert_allclose(split.initial, np.repeat([0.25, 0, 0], 4))
        assert split.states[5] == (1, 1)


def test_rows_within_tolerance_are_divided_by_their_sum() -> None:
    chain = MarkovChain([[0.5, 0.5 + 5e-9], [0, 1]])
    assert dense_kernel(chain)[0].sum() == pytest.approx(1.0, abs=1e-15)


def test_a_large_sparse_chain_stays_sparse() -> None:
    rng = np.random.default_rng(0)
    weights, places = rng.random(40_000), rng.integers(0, 20_000, size=(2, 40_000))
    kernel = csr_array((weights, places), shape=(20_000, 20_000)) + 0.1 * eye_array(20_000, format="csr")
    chain = MarkovChain(kernel, normalize=True)
    assert chain.is_sparse
    assert chain.state_occupancy(0.9).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("discount", [0.5, 0.9])
def test_occupancy_draws_follow_the_occupancy(discount: float) -> None:
    chain = random_chain(np.random.default_rng(3), 5, "sparse")
    n = 200_000
    now, following = chain.draw_occupancy(n, discount, np.random.default_rng(1))
    found = np.bincount(now * 5 + following, minlength=25).reshape(5, 5) / n
    expected = np.asarray(chain.occupancy(discount))
    assert np.abs(found - expected).max() <= 5 * np.sqrt(0.25 / n)
    assert (found[expected == 0] == 0).all()


def test_draws_are_reproducible() -> None:
    chain = somcot.random_walk(6)
    first = chain.draw_occupancy(100, 0.9, np.random.default_rng(5))
    again = chain.draw_occupancy(100, 0.9, np.random.default_rng(5))
    np.testing.assert_array_equal(first, again)


def test_features_are_one_known_number_per_state() -> None:
    chain = MarkovChain([[0.5, 0.5], [0.0, 1.0]], features=[2, -1])
    assert chain.features is not None
    assert chain.features.tolist() == [2.0, -1.0]
    assert MarkovChain([[1.0]]).features is None
    assert np.asarray(costs.from_features(chain, [0.0, 1.0])).tolist() == [[2.0, 1.0], [1.0, 2.0]]
    doubled = block_chain(chain, 2)
    assert doubled.features is not None
    assert doubled.features.tolist() == [2.0, 2.0, -1.0, -1.0]
    assert distance(chain, doubled, costs.from_features(chain, doubled), discount=0.9).distance == 0.0


@pytest.mark.parametrize("features", [[1.0], [1.0, np.nan], [[1.0, 2.0]]])
def test_features_that_do_not_fit(features: Any) -> None:
    with pytest.raises(ValueError, match="features: "):
        MarkovChain([[0.5, 0.5], [0.0, 1.0]], features=features)


def test_a_chain_without_features_makes_no_cost() -> None:
    with pytest.raises(ValueError, match="a: has no rewards"):
        costs.from_features(MarkovChain([[1.0]]), [0.0])


def test_a_start_may_be_labels_with_their_probabilities() -> None:
    chain = MarkovChain(np.eye(3), {"c": 0.75, "a": 0.25}, states=["a", "b", "c"])
    assert chain.initial.tolist() == [0.25, 0.0, 0.75]


def test_a_cost_function_that_fails_says_how_it_is_called() -> None:
    """A function of two labels is what many try first."""
    walk = somcot.random_walk(3)
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        distance(walk, walk, lambda a, b: abs(a - b), discount=0.9)
    assert "for b in y.states" in caught.value.__notes__[0]
    with pytest.raises(TypeError, match=r"cost: found a sparse csr_array"):
        distance(walk, walk, csr_array(np.eye(3)), discount=0.9)


def test_a_chain_of_copies_needs_eight_bytes_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "320k")
    assert somcot.block_chain(MarkovChain(np.eye(2)), 100).n_states == 200
    with pytest.raises(somcot.MemoryLimitError):
        somcot.block_chain(MarkovChain(np.eye(2)), 101)
