"""Quotients: exact ones keep every distance, approximate ones keep their bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import somcot
from somcot import MarkovChain, lump
from tests.instances import KINDS, Floats, dense_kernel, random_chain


def coarsest_by_rounds(P: Floats, labels: Any) -> int:
    """Number of blocks, by splitting all blocks by all masses until nothing changes."""
    while True:
        masses = np.stack([P[:, labels == b].sum(axis=1) for b in np.unique(labels)], axis=1).round(9)
        new = np.unique(np.column_stack([labels, masses]), axis=0, return_inverse=True)[1].ravel()
        if len(np.unique(new)) == len(np.unique(labels)):
            return len(np.unique(labels))
        labels = new


@pytest.mark.parametrize("seed", range(60))
def test_exact_quotients_are_the_coarsest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    small = random_chain(rng, int(rng.integers(1, 7)), KINDS[seed % len(KINDS)])
    copies = int(rng.integers(1, 4))
    order = rng.permutation(small.n_states * copies)
    split = somcot.block_chain(small, copies)
    P, features = dense_kernel(split)[np.ix_(order, order)], rng.integers(0, 2, size=small.n_states).astype(float)
    features = np.repeat(features, copies)[order]
    kernel: Any = csr_array(P) if seed % 2 else P
    chain = MarkovChain(kernel, split.initial[order], states=[f"s{k}" for k in order])
    found = lump(chain, features)
    assert found.chain.n_states == coarsest_by_rounds(P, np.unique(features, return_inverse=True)[1])
    assert found.error <= 1e-14
    assert found.chain.is_sparse == chain.is_sparse
    assert found.chain.states[0] == chain.states[0]
    first = [int(np.flatnonzero(found.labels == b)[0]) for b in range(found.chain.n_states)]
    assert first == sorted(first)
    cost = np.abs(features[:, None] - features)
    assert somcot.distance(chain, found.chain, cost[:, first], discount=0.95).distance <= 1e-12
    other = random_chain(rng, 4, "dense")
    looks = rng.random(4)
    distances = [
        somcot.distance(x, other, np.abs(f[:, None] - looks), discount=0.9).distance
        for x, f in ((chain, features), (found.chain, features[first]))
    ]
    assert distances[0] == pytest.approx(distances[1], abs=1e-12)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-2, 0.1, 0.5])
@pytest.mark.parametrize("seed", range(15))
def test_approximate_quotients_keep_their_bound(seed: int, tolerance: float) -> None:
    rng = np.random.default_rng(seed)
    small, copies = random_chain(rng, 4, "dense"), 3
    P = dense_kernel(somcot.block_chain(small, copies)) * (1.0 + tolerance * rng.random((12, 12)))
    chain = MarkovChain(P, np.full(12, 1 / 12), normalize=True)
    features = np.repeat(rng.random((4, 2)), copies, axis=0) + tolerance * rng.random((12, 2)) / 3
    found = lump(chain, features, tolerance=tolerance)
    looks = np.stack([features[found.labels == b].mean(axis=0) for b in range(found.chain.n_states)])
    for discount in (0.3, 0.9):
        apart = somcot.distance(chain, found.chain, somcot.costs.euclidean(features, looks), discount=discount)
        assert apart.distance <= found.bound(discount) + 1e-12
        assert found.bound(discount) <= found.error / (1 - discount)
        other, seen = random_chain(rng, 3, "dense"), rng.random((3, 2))
        before = somcot.distance(chain, other, somcot.costs.euclidean(features, seen), discount=discount).distance
        after = somcot.distance(found.chain, other, somcot.costs.euclidean(looks, seen), discount=discount).distance
        assert abs(before - after) <= found.bound(discount) + 1e-12
    if tolerance >= 0.1:
        assert found.chain.n_states < 12


def test_a_walk_is_refined_from_its_walls() -> None:
    """n - 2 states look alike, none behave alike but for the mirror image."""
    n = 401
    fair = lump(somcot.random_walk(n), np.r_[1.0, np.zeros(n - 2), 1.0])
    assert fair.chain.n_states == (n + 1) // 2
    assert lump(somcot.random_walk(n, 0.6), np.r_[1.0, np.zeros(n - 2), 1.0]).chain.n_states == n


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((np.eye(2), [0, 1]), "chain: found ndarray, expected a MarkovChain"),
        ((somcot.random_walk(3), [0, 1]), "cost_or_features: found 2 rows for 3 states"),
        ((somcot.random_walk(3), [0, 1, np.nan]), "cost_or_features"),
        ((somcot.random_walk(3), "abc"), "cost_or_features"),
    ],
)
def test_bad_input(arguments: tuple[Any, Any], match: str) -> None:
    with pytest.raises((TypeError, ValueError), match=match):
        lump(*arguments)
    with pytest.raises(ValueError, match="tolerance"):
        lump(somcot.random_walk(3), [0, 1, 2], tolerance=-1.0)
