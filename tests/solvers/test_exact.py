"""Policy iteration: known values, an independent implementation, both linear programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import somcot
from somcot import MarkovChain, Problem, Status, block_chain
from somcot.core.pairs import all_pairs
from somcot.plumbing.linear_systems import discounted_value
from somcot.solvers import policy_iteration
from tests.campaign import oracle
from tests.campaign.families import nasty
from tests.instances import THETAS, WALKS, Floats, blocks, dense_kernel, random_chain, random_problem, walks
from tests.reference import pot_policy_iteration


@pytest.mark.parametrize(("n", "discount"), WALKS)
def test_published_walks(n: int, discount: float) -> None:
    for theta, expected in zip(THETAS, WALKS[n, discount], strict=True):
        result = somcot.distance(*walks(n, theta), discount=discount)
        assert result.distance == pytest.approx(expected, abs=6e-7)
        assert result.converged
        assert result.bounds.low <= result.distance <= result.bounds.high
        assert result.bounds.high - result.bounds.low <= 1e-9


@pytest.mark.parametrize("discount", [0.95, 0.99])
@pytest.mark.parametrize("theta", THETAS)
def test_block_chain_is_as_far_as_its_latent_chain(theta: float, discount: float) -> None:
    latent = somcot.distance(*walks(10, theta), discount=discount).distance
    assert somcot.distance(*blocks(10, 5, theta), discount=discount).distance == pytest.approx(latent, abs=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_identical_chains_are_at_distance_exactly_zero(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    chain = random_chain(rng, n, ("dense", "peaked", "sparse", "uniform", "permutation", "absorbing")[seed % 6])
    features = rng.random((n, 2))
    cost = somcot.costs.euclidean(features, features)
    result = somcot.distance(chain, chain, cost, discount=float(rng.choice([0.5, 0.95, 0.9999])))
    assert result.distance == 0.0
    assert result.bounds.low == 0.0
    assert result.converged


@pytest.mark.parametrize("seed", range(250))
def test_random_chains_match_pot(seed: int) -> None:
    """Sparse, dense, peaked, rectangular, degenerate; the whole metric and the distance from the start laws."""
    x, y, cost, discount = random_problem(seed)
    P, Q = dense_kernel(x), dense_kernel(y)
    V = pot_policy_iteration.solve(P, Q, cost, discount)
    np.testing.assert_allclose(somcot.metric(x, y, cost, discount=discount), (1 - discount) * V, atol=1e-10)
    expected = pot_policy_iteration.distance(P, Q, cost, discount, x.initial, y.initial)
    result = somcot.distance(x, y, cost, discount=discount)
    assert result.distance == pytest.approx(expected, abs=1e-10)
    assert result.converged
    reached = ~np.isnan(result.potential)
    np.testing.assert_allclose(result.potential[reached], V[reached], atol=1e-8)


@pytest.mark.parametrize("kind", ["dense", "peaked"])
def test_twenty_states_match_pot(kind: str) -> None:
    rng = np.random.default_rng(0)
    x, y, cost = random_chain(rng, 20, kind), random_chain(rng, 18, kind), rng.random((20, 18))
    V = pot_policy_iteration.solve(dense_kernel(x), dense_kernel(y), cost, 0.95)
    np.testing.assert_allclose(somcot.metric(x, y, cost, discount=0.95), 0.05 * V, atol=1e-10)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("formulation", ["lambda", "kernel"])
def test_both_linear_programs_agree(seed: int, formulation: str) -> None:
    x, y, cost, discount = random_problem(1000 + seed, largest=6)
    exact = somcot.distance(x, y, cost, discount=discount)
    lp = somcot.distance(x, y, cost, discount=discount, method="lp", formulation=formulation)
    assert lp.distance == pytest.approx(exact.distance, abs=1e-7)
    assert exact.bounds.low - 1e-9 <= lp.distance <= exact.bounds.high + 1e-9
    assert lp.bounds.low - 1e-9 <= exact.distance <= lp.bounds.high + 1e-9


@pytest.mark.parametrize("seed", range(30))
def test_sparse_and_dense_storage_agree(seed: int) -> None:
    from scipy.sparse import coo_array

    x, y, cost, discount = random_problem(seed, largest=9)
    sparse_x = MarkovChain(coo_array(dense_kernel(x)), x.initial)
    sparse_y = MarkovChain(coo_array(dense_kernel(y)), y.initial)
    assert somcot.distance(sparse_x, sparse_y, cost, discount=discount).distance == pytest.approx(
        somcot.distance(x, y, cost, discount=discount).distance, abs=1e-13
    )


def test_reachable_and_all_pairs_agree() -> None:
    for seed in range(20):
        x, y, cost, discount = random_problem(seed)
        problem = Problem(x, y, cost, discount)
        near = policy_iteration.solve(problem, pairs="reachable")
        whole = policy_iteration.solve(problem, pairs="all")
        assert near.distance == pytest.approx(whole.distance, abs=1e-12)
        assert not np.isnan(whole.potential).any()


@pytest.mark.parametrize("discount", [0.001, 0.9999])
@pytest.mark.parametrize("seed", range(12))
def test_extreme_discounts(seed: int, discount: float) -> None:
    x, y, cost, _ = random_problem(seed, largest=6)
    result = somcot.distance(x, y, cost, discount=discount)
    expected = pot_policy_iteration.distance(dense_kernel(x), dense_kernel(y), cost, discount, x.initial, y.initial)
    assert result.distance == pytest.approx(expected, abs=1e-8)
    assert result.bounds.high - result.bounds.low <= 1e-9 * max(1.0, float(np.ptp(cost)))


def test_two_clocks_of_coprime_period() -> None:
    """Deterministic chains have one coupling only; the sum can be written down."""
    n, m, discount = 30, 31, 0.999
    cost = somcot.costs.absolute(np.arange(n) / n, np.arange(m) / m)
    clock_x, clock_y = MarkovChain(np.roll(np.eye(n), 1, axis=1)), MarkovChain(np.roll(np.eye(m), 1, axis=1))
    t = np.arange(60_000)
    expected = (1 - discount) * np.sum(discount**t * cost[t % n, t % m])
    assert somcot.distance(clock_x, clock_y, cost, discount=discount).distance == pytest.approx(expected, abs=1e-10)


def test_one_state_chains() -> None:
    one = MarkovChain([[1.0]])
    assert somcot.distance(one, one, [[7.5]], discount=0.9).distance == 7.5
    occupancy = np.asarray(somcot.random_walk(4).occupancy(0.9)).sum(axis=1)
    cost = np.array([[3.0, -1.0, 2.0, 0.5]])
    assert somcot.distance(one, somcot.random_walk(4), cost, discount=0.9).distance == pytest.approx(
        float(cost[0] @ occupancy), abs=1e-12
    )


def test_start_laws_are_coupled_too() -> None:
    """A product of start laws would put a chain at a positive distance from itself."""
    frozen = MarkovChain(np.eye(3), [0.2, 0.3, 0.5])
    cost = 1.0 - np.eye(3)
    assert somcot.distance(frozen, frozen, cost, discount=0.9).distance == 0.0
    other = MarkovChain(np.eye(3), [0.5, 0.3, 0.2])
    assert somcot.distance(frozen, other, cost, discount=0.9).distance == pytest.approx(0.3, abs=1e-15)


def test_same_bits_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(5)
    x, y, cost = random_chain(rng, 35, "dense"), random_chain(rng, 35, "dense"), rng.random((35, 35))
    runs: list[tuple[float, bytes]] = []
    for threads in (1, 2, 3):
        result = somcot.distance(x, y, cost, discount=0.95, threads=threads)
        runs.append((result.distance, result.potential.tobytes()))
    assert runs[0] == runs[1] == runs[2]


def test_step_limit_is_reported_with_a_valid_bracket() -> None:
    rng = np.random.default_rng(0)
    x, y, cost = random_chain(rng, 8, "dense"), random_chain(rng, 8, "dense"), rng.random((8, 8))
    exact = somcot.distance(x, y, cost, discount=0.95)
    early = somcot.distance(x, y, cost, discount=0.95, max_sweeps=1)
    assert early.status is Status.STEP_LIMIT
    assert not early.converged
    assert "max_sweeps" in early.message
    assert early.bounds.low <= exact.distance <= early.bounds.high
    assert early.distance >= exact.distance - 1e-12


def test_interrupt_keeps_a_partial_result(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, y, cost = random_chain(rng, 8, "dense"), random_chain(rng, 8, "dense"), rng.random((8, 8))
    exact = somcot.distance(x, y, cost, discount=0.95)
    evaluate, calls = discounted_value, []

    def impatient(*args: object) -> Floats:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return evaluate(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(policy_iteration, "discounted_value", impatient)
    partial = somcot.distance(x, y, cost, discount=0.95)
    assert partial.status is Status.INTERRUPTED
    assert partial.bounds.low <= exact.distance <= partial.bounds.high


def test_large_sparse_chain_takes_memory_by_transitions() -> None:
    """300 x 300 states: (n_x n_y)^2 entries would be 65 GB."""
    n = 300
    r = np.linspace(0, 1, n)
    result = somcot.distance(
        somcot.random_walk(n), somcot.random_walk(n, 0.6), somcot.costs.absolute(r, r), discount=0.95
    )
    assert result.converged
    assert result.bounds.high - result.bounds.low <= 1e-9


def test_nested_blocks_are_lumpable() -> None:
    x, y, cost = walks(4, 0.7)
    twice = block_chain(block_chain(y, 2), 3)
    assert somcot.distance(x, twice, np.repeat(cost, 6, axis=1), discount=0.9).distance == pytest.approx(
        somcot.distance(x, y, cost, discount=0.9).distance, abs=1e-12
    )


@pytest.mark.parametrize("discount", [1 - 1e-6, 1 - 1e-9, 1 - 1e-12])
def test_discounts_next_to_one_are_proved(discount: float) -> None:
    """The potential is 1 / (1 - discount) large, its rounding is not allowed to be."""
    x, y = MarkovChain([[0.9, 0.1], [0.2, 0.8]]), MarkovChain([[0.7, 0.3], [0.2, 0.8]])
    cost = 1.0 - np.eye(2)
    result = somcot.distance(x, y, cost, discount=discount)
    assert oracle.distance(x, y, cost, discount).inside(*result.bounds)
    assert result.converged
    assert result.bounds.high - result.bounds.low <= 1e-9


def test_where_rounding_sets_the_limit_it_is_said() -> None:
    """Cycles that all but never slip: the spread of the potential is 1 / (1 - discount) too."""
    kernel = (1 - 1e-14) * np.roll(np.eye(4), 1, axis=1) + 1e-14 * np.eye(4)
    x, y = MarkovChain(kernel, 0), MarkovChain(kernel, 1)
    near = somcot.distance(x, y, 1.0 - np.eye(4), discount=1 - 1e-4)
    assert near.converged
    assert near.bounds.high - near.bounds.low <= 1e-9
    nearest = somcot.distance(x, y, 1.0 - np.eye(4), discount=1 - 1e-12)
    assert nearest.status is Status.ROUNDING
    assert not nearest.converged
    assert "as far as floating point allows" in nearest.message
    assert oracle.distance(x, y, 1.0 - np.eye(4), 1 - 1e-12).inside(*nearest.bounds)


def test_chains_that_never_move_are_no_harder_close_to_one() -> None:
    """The spread of the potential is 1 / (1 - discount), but not within the pairs that lead to each other."""
    x, y = MarkovChain(np.eye(2), [0.5, 0.5]), MarkovChain(np.eye(2), [0.3, 0.7])
    nearest = somcot.distance(x, y, 1.0 - np.eye(2), discount=float(np.nextafter(1, 0)))
    assert nearest.converged
    assert nearest.bounds.high - nearest.bounds.low <= 1e-13
    assert nearest.bounds.low <= 0.2 <= nearest.bounds.high


@pytest.mark.parametrize("method", ["exact", "saddle", "sinkhorn", "lp"])
@pytest.mark.parametrize("seed", range(12))
def test_distances_lie_inside_their_own_brackets(method: str, seed: int) -> None:
    problem = nasty(seed)
    options: dict[str, Any] = {"saddle": {"max_steps": 1000}, "sinkhorn": {"max_sweeps": 100}}.get(method, {})
    result = somcot.distance(problem.x, problem.y, problem.cost, discount=problem.discount, method=method, **options)
    assert result.bounds.low <= result.distance <= result.bounds.high
    assert problem.cost.min() <= result.bounds.low
    assert result.bounds.high <= problem.cost.max()


@pytest.mark.parametrize("method", ["exact", "sinkhorn", "lp"])
def test_no_method_claims_convergence_without_a_bracket(method: str) -> None:
    x, y, cost = walks(4, 0.7)
    result = somcot.distance(x, y, cost, discount=float(np.nextafter(1, 0)), method=method)
    assert not result.converged or result.bounds.high - result.bounds.low <= 0.05


def test_converged_where_rounding_sets_the_width() -> None:
    """The transport's own rounding counts, though it is lost beside the level of V."""
    problem = nasty(1_011_435)
    found = somcot.distance(problem.x, problem.y, problem.cost, discount=problem.discount)
    assert 1e-9 < (found.bounds.high - found.bounds.low) / 2.0 < 1e-7
    assert found.status is Status.CONVERGED


@pytest.mark.parametrize("discount", [1 - 1e-6, 1 - 1e-9])
def test_large_potentials_are_polished(discount: float) -> None:
    """Rounding of V, which is about 1 / (1 - discount), would leave a bracket of 1e-9 and 1e-6."""
    rng = np.random.default_rng(0)
    x, y = (random_chain(rng, 5, "dense") for _ in range(2))
    unit = Problem(x, y, rng.random((5, 5)), discount=discount).unit
    assert policy_iteration.iterate(unit, all_pairs(unit)).width < 1e-11
