"""Occupancy couplings: marginals, residuals, encoder and decoder, and the rounding lemmas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import somcot
from somcot import MemoryLimitError
from somcot.couplings import (
    Coupling,
    alignment,
    conditional,
    residuals,
    round_occupancy,
    round_symmetric,
    round_to_marginals,
)
from tests.instances import Floats, dense_kernel, random_problem


def solved(seed: int) -> tuple[somcot.MarkovChain, somcot.MarkovChain, Floats, float, somcot.Result]:
    x, y, cost, discount = random_problem(seed, largest=5)
    return x, y, cost, discount, somcot.distance(x, y, cost, discount=discount)


def violations(
    mu: Floats, start: Floats, nu_x: Floats, nu_y: Floats, lx: Floats, ly: Floats, discount: float
) -> Floats:
    """The paper's three sums, written out."""
    flow = np.abs(mu.sum(axis=(2, 3)) - discount * mu.sum(axis=(0, 1)) - (1 - discount) * start).sum()
    causal_x = np.abs(mu.sum(axis=3) - np.einsum("xz,xy->xyz", nu_x, lx)).sum()
    causal_y = np.abs(mu.sum(axis=2) - np.einsum("yw,yx->xyw", nu_y, ly)).sum()
    return np.array([flow, causal_x, causal_y])


@pytest.mark.parametrize("seed", range(30))
def test_optimal_coupling_is_feasible_and_costs_the_distance(seed: int) -> None:
    x, y, cost, discount, result = solved(seed)
    mu = result.coupling()
    assert mu.min() >= 0
    assert mu.sum() == pytest.approx(1.0, abs=1e-12)
    assert (mu.sum(axis=(2, 3)) * cost).sum() == pytest.approx(result.distance, abs=1e-12)
    np.testing.assert_allclose(mu.sum(axis=(1, 3)), x.occupancy(discount), atol=1e-12)
    np.testing.assert_allclose(mu.sum(axis=(0, 2)), y.occupancy(discount), atol=1e-12)
    assert result.plan is not None
    np.testing.assert_allclose(result.plan.marginal_x().toarray(), x.occupancy(discount), atol=1e-12)
    np.testing.assert_allclose(result.plan.marginal_y().toarray(), y.occupancy(discount), atol=1e-12)
    assert max(result.residuals) <= 1e-11


@pytest.mark.parametrize("seed", range(30))
def test_encoder_and_decoder_are_conditional_laws(seed: int) -> None:
    x, y, _, discount, result = solved(seed)
    law = result.coupling().sum(axis=(2, 3))
    np.testing.assert_allclose(result.encoder.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(result.decoder.sum(axis=1), 1.0, atol=1e-12)
    nu_x, nu_y = x.state_occupancy(discount), y.state_occupancy(discount)
    np.testing.assert_allclose(nu_x[:, None] * result.encoder, law, atol=1e-12)
    np.testing.assert_allclose(nu_y[:, None] * result.decoder, law.T, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_residuals_match_the_sums_of_the_paper(seed: int) -> None:
    """On couplings that violate everything, with conditional laws of their own."""
    rng = np.random.default_rng(seed)
    n_x, n_y = (int(k) for k in rng.integers(1, 5, size=2))
    mu = np.where(rng.random((n_x, n_y, n_x, n_y)) < 0.5, rng.random((n_x, n_y, n_x, n_y)), 0.0)
    mu[rng.random(n_x) < 0.3] = 0.0  # states that the coupling is never in
    start = rng.dirichlet(np.ones(n_x * n_y)).reshape(n_x, n_y)
    nu_x = np.where(rng.random((n_x, n_x)) < 0.7, rng.random((n_x, n_x)), 0.0)
    nu_y = rng.random((n_y, n_y))
    lx, ly = rng.dirichlet(np.ones(n_y), size=n_x), rng.dirichlet(np.ones(n_x), size=n_y)
    found = residuals(Coupling.from_dense(mu, start), nu_x, nu_y, 0.9, lx, ly)
    np.testing.assert_allclose(found, violations(mu, start, nu_x, nu_y, lx, ly, 0.9), atol=1e-12)


def test_residuals_accept_sparse_occupancies_of_large_chains() -> None:
    """Most of all (x, x', y) do not occur."""
    from scipy.sparse import csr_array

    x = somcot.random_walk(60)
    sparse = somcot.MarkovChain(csr_array(dense_kernel(x)))
    cost = somcot.costs.absolute(np.arange(60), np.arange(60))
    assert max(somcot.distance(sparse, sparse, cost, discount=0.9).residuals) <= 1e-11


def test_conditional_is_uniform_where_nothing_was_seen() -> None:
    np.testing.assert_array_equal(conditional(np.zeros((2, 4))), np.full((2, 4), 0.25))


masses = st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, 6), st.integers(0, 10**6)))


@settings(max_examples=200, deadline=None)
@given(masses, st.booleans())
def test_rounding_gives_a_coupling_near_by(shape: tuple[int, int, int], sparse: bool) -> None:
    n, m, seed = shape
    rng = np.random.default_rng(seed)
    F = rng.dirichlet(np.ones(n * m)).reshape(n, m)
    if sparse:
        F = np.where(rng.random((n, m)) < 0.5, F, 0.0)
        F = F / F.sum() if F.sum() > 0 else F
    p, q = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m))
    error = np.abs(F.sum(axis=1) - p).sum() + np.abs(F.sum(axis=0) - q).sum()
    for rounded, factor in ((round_to_marginals(F, p, q), 2.0), (round_symmetric(F, p, q), 1.5)):
        assert rounded.min() >= 0
        np.testing.assert_allclose(rounded.sum(axis=1), p, atol=1e-12)
        np.testing.assert_allclose(rounded.sum(axis=0), q, atol=1e-12)
        if factor == 2.0 or F.sum() > 0:  # the tighter constant is proved for probability matrices
            assert np.abs(rounded - F).sum() <= factor * error + 1e-12
    np.testing.assert_allclose(round_symmetric(F, p, q).T, round_symmetric(F.T, q, p), atol=1e-13)


def test_rounding_leaves_couplings_alone() -> None:
    p, q = np.array([0.2, 0.8]), np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(round_to_marginals(np.outer(p, q), p, q), np.outer(p, q), atol=1e-16)


def test_rounding_refuses_what_cannot_be_coupled() -> None:
    with pytest.raises(ValueError, match=r"masses 1 and 0\.5 differ"):
        round_to_marginals(np.ones((2, 2)), [0.5, 0.5], [0.25, 0.25])
    with pytest.raises(ValueError, match="negative"):
        round_to_marginals([[-1.0, 1.0]], [1.0], [0.5, 0.5])
    with pytest.raises(ValueError, match="shape"):
        round_to_marginals(np.ones((2, 3)), [0.5, 0.5], [0.5, 0.5])


@pytest.mark.parametrize("seed", range(25))
def test_rounded_occupancy_is_feasible_and_within_the_lemma(seed: int) -> None:
    """Lemma: |mu - r(mu)|_1 <= (3 dC_X + 3 dC_Y + dF) / (1 - discount), for any conditional laws."""
    x, y, cost, discount, exact = solved(seed)
    rng = np.random.default_rng(seed)
    n_x, n_y = cost.shape
    noise = rng.dirichlet(np.ones((n_x * n_y) ** 2)).reshape(n_x, n_y, n_x, n_y)
    mu = 0.9 * exact.coupling() + 0.1 * noise
    assert exact.plan is not None
    start = exact.plan.start
    nu_x, nu_y = x.occupancy(discount), y.occupancy(discount)
    rounded = round_occupancy(mu, x, y, start, discount)
    assert max(residuals(rounded, nu_x, nu_y, discount)) <= 1e-9
    assert (rounded.state_law() * cost).sum() >= exact.distance - 1e-9
    flow, causal_x, causal_y = residuals(Coupling.from_dense(mu, start), nu_x, nu_y, discount)
    bound = (3 * causal_x + 3 * causal_y + flow) / (1 - discount)
    assert np.abs(rounded.dense() - mu).sum() <= bound + 1e-9


def test_coupling_too_large_for_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 40
    result = somcot.distance(somcot.random_walk(n), somcot.random_walk(n), np.zeros((n, n)), discount=0.9)
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "1M")
    with pytest.raises(
        MemoryLimitError, match=r"full coupling of 40 x 40 states needs about 20.48 MB, the limit is 1 MB"
    ):
        result.coupling()


def test_from_dense_refuses_wrong_shapes() -> None:
    with pytest.raises(ValueError, match="mu: shape"):
        Coupling.from_dense(np.zeros((2, 2, 3, 2)), np.zeros((2, 2)))


@pytest.mark.parametrize("seed", range(3))
def test_an_alignment_is_the_best_permutation_of_the_metric(seed: int) -> None:
    from itertools import permutations

    rng = np.random.default_rng(seed)
    x, y = (somcot.MarkovChain(rng.dirichlet(np.ones(5), 5), states=list(names)) for names in ("abcde", "vwxyz"))
    cost = rng.random((5, 5))
    metric = somcot.metric(x, y, cost, discount=0.8)
    best = min(permutations(range(5)), key=lambda order: sum(metric[i, j] for i, j in enumerate(order)))
    found = alignment(somcot.distance(x, y, cost, discount=0.8, pairs="all"))
    assert [(pair.x, pair.y) for pair in found] == [("abcde"[i], "vwxyz"[j]) for i, j in enumerate(best)]
    np.testing.assert_allclose([pair.distance for pair in found], [metric[i, j] for i, j in enumerate(best)], rtol=1e-9)


def test_alignments_need_all_pairs_and_a_discount() -> None:
    stays = somcot.MarkovChain(np.eye(3))
    with pytest.raises(ValueError, match=r"result: 8 of 9 pairs .* pass pairs='all'"):
        alignment(somcot.distance(stays, stays, discount=0.9))
    assert len(alignment(somcot.distance(stays, somcot.random_walk(2), discount=0.9, pairs="all"))) == 2
    with pytest.raises(ValueError, match="result: found a distance with horizon=3"):
        alignment(somcot.distance(stays, stays, horizon=3))


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_states_with_another_partner_at_the_same_total_are_not_determined(shape: tuple[int, int]) -> None:
    from itertools import permutations

    for seed in range(12):
        cost = np.random.default_rng(seed).integers(0, 6, shape) / 6
        # Nothing moves, so the distance of two states is their cost.
        x, y = (somcot.MarkovChain(np.eye(n)) for n in shape)
        found = alignment(somcot.distance(x, y, cost, discount=0.5, pairs="all"))
        square = np.pad(cost, [(0, max(shape) - n) for n in shape])
        totals = {order: square[range(max(shape)), order].sum() for order in permutations(range(max(shape)))}
        best = [order for order, total in totals.items() if total <= min(totals.values()) + 1e-9]
        # Partners that do not exist are one and the same.
        partners = [{min(order[i], shape[1]) for order in best} for i in range(shape[0])]
        assert all(pair.y in partners[int(str(pair.x))] for pair in found)
        assert [pair.determined for pair in found] == [len(partners[int(str(pair.x))]) == 1 for pair in found]


def test_only_exchangeable_members_of_the_karate_club_are_not_determined() -> None:
    nx = pytest.importorskip("networkx")
    club, order = nx.karate_club_graph(), np.random.default_rng(0).permutation(34).tolist()
    copy = nx.relabel_nodes(club, dict(enumerate(order)))
    x, y = (somcot.readers.from_graph(g, weight=None, initial="stationary") for g in (club, copy))
    found = alignment(somcot.distance(x, y, "neighbourhood", discount=0.9, pairs="all"))
    same = list(nx.isomorphism.GraphMatcher(club, club).isomorphisms_iter())
    twins = {v for v in club if any(images[v] != v for images in same)}
    assert {pair.x for pair in found if not pair.determined} == twins
    by_degree = alignment(somcot.distance(x, x, "degree", discount=0.9, pairs="all"))
    assert {pair.distance for pair in by_degree} == {0.0}  # not -1e-22
    assert all(pair.y == order[int(str(pair.x))] for pair in found if pair.determined)
