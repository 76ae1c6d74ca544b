"""Clocks other than a discount: what is asked for, what is refused, and what must hold between them."""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import somcot
from somcot import ContinuousChain, DataWarning, MarkovChain, Result, TimeChain, costs, hidden, random_walk
from somcot.clocks import CLOCKS, Clock
from somcot.problem import Problem
from somcot.solvers import relative
from tests.instances import Floats, dense_kernel, random_problem
from tests.notes import noted
from tests.solvers.test_relative import ruin

WALKS = random_walk(5), random_walk(5, 0.7)
COST = costs.absolute(range(5), range(5))
QUEUE = ContinuousChain([[-1.0, 1.0, 0.0], [2.0, -3.0, 1.0], [0.0, 2.0, -2.0]])
SLOW = ContinuousChain([[-0.5, 0.5, 0.0], [1.0, -1.5, 0.5], [0.0, 1.0, -1.0]])
THREE = costs.absolute(range(3), range(3))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "found none of them, expected exactly one, as in discount=0.95, discount=1, horizon=20"),
        ({"discount": 0.9, "horizon": 5}, "found discount=0.9 and horizon=5"),
        ({"rate": 0.1, "total": True}, "found rate=0.1 and total=True"),
        ({"horizon": 2.5}, "horizon: found 2.5, expected a whole number"),
        ({"horizon": True}, "horizon: found True, expected a whole number"),
        ({"total": "yes"}, "total: found 'yes', expected True or False"),
        ({"discount": True}, "discount: found"),
    ],
)
def test_exactly_one_clock(given: dict[str, Any], found: str) -> None:
    for ask in (somcot.distance, somcot.metric):
        with pytest.raises((TypeError, ValueError), match=re.escape(found)):
            ask(*WALKS, COST, **given)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"horizon": 0}, "horizon: found 0, expected at least 1"),
        ({"horizon": -3}, "horizon: found -3, expected at least 1"),
        (
            {"discount": 1.5},
            "discount: found 1.5, expected a number above 0 and below 1",
        ),
        ({"discount": 0}, "discount: found 0.0"),
    ],
)
def test_numbers_out_of_range(given: dict[str, Any], found: str) -> None:
    with pytest.raises(ValueError, match=re.escape(found)):
        somcot.distance(*WALKS, COST, **given)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_rates_are_positive(rate: float) -> None:
    with pytest.raises(ValueError, match="rate: found"):
        somcot.distance(QUEUE, SLOW, THREE, rate=rate)


def test_processes_fit_the_clock() -> None:
    tree = TimeChain([np.full((5, 5), 0.2)])
    stream = somcot.streams.from_chain(WALKS[0], 0.9, rng=0)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (QUEUE, {"discount": 0.9}, "found ContinuousChain, .* takes rate=r"),
        (QUEUE, {"horizon": 3}, "found ContinuousChain, .* takes rate=r"),
        (WALKS[0], {"rate": 1.0}, "found MarkovChain, expected a ContinuousChain with rate=1"),
        (tree, {"discount": 1}, "found TimeChain, .* takes horizon=T"),
        (tree, {"total": True}, "found TimeChain"),
        (stream, {"discount": 1}, "streams take a discount below 1"),
        ([[1.0]], {"horizon": 3}, "found list"),
    ]
    for process, clock, found in cases:
        with pytest.raises(TypeError, match=found):
            somcot.distance(process, process, COST, **clock)
    with pytest.raises(
        ValueError, match="method: found 'saddle', which needs a discount below 1; horizon=3 is solved by"
    ):
        somcot.distance(*WALKS, COST, horizon=3, method="saddle")
    with pytest.raises(TypeError, match="speed: not an option"):
        somcot.distance(*WALKS, COST, discount=1, speed=2)


def test_every_clock_is_described() -> None:
    page = (Path(__file__).parents[1] / "docs" / "clocks.md").read_text()
    for row in CLOCKS.values():
        clock = Clock(row.name, row.example)
        assert f"`{clock.asked}`" in page
        assert row.whom in page
        assert row.least in page
        assert str(clock)


# The long run


def test_the_average_of_known_walks() -> None:
    values = {5: 0.703786, 10: 0.798544, 20: 0.8}
    for n, value in values.items():
        reward = np.r_[1.0, np.zeros(n - 2), -1.0]
        found = somcot.distance(random_walk(n), random_walk(n, 0.7), costs.absolute(reward, reward), discount=1)
        assert found.distance == pytest.approx(value, abs=1e-6)
        assert found.discount == 1.0
        assert str(found.clock) == "long-run average"


def test_cycles_and_the_start() -> None:
    four, six = np.roll(np.eye(4), 1, axis=1), np.roll(np.eye(6), 1, axis=1)
    shifted = somcot.distance(MarkovChain(four, 0), MarkovChain(four, 1), 1 - np.eye(4), discount=1)
    assert shifted.distance == 1.0
    stationary = MarkovChain(four).stationary()
    np.testing.assert_allclose(stationary.initial, 0.25, atol=1e-15)
    assert somcot.distance(stationary, MarkovChain(four, 1).stationary(), 1 - np.eye(4), discount=1).distance == 0.0
    cost = np.add.outer(np.arange(4.0), np.arange(6.0)) % 3
    from_0, from_1 = (somcot.distance(MarkovChain(four, i), MarkovChain(six), cost, discount=1) for i in (0, 1))
    # Two classes of pairs: with the phases modulo 2 equal, and different.
    pairs = [(t % 4, t % 6) for t in range(12)], [((t + 1) % 4, t % 6) for t in range(12)]
    assert from_0.distance == pytest.approx(np.mean([cost[p] for p in pairs[0]]), abs=1e-12)
    assert from_1.distance == pytest.approx(np.mean([cost[p] for p in pairs[1]]), abs=1e-12)


def test_ruin_in_the_long_run() -> None:
    for n, p in ((5, 0.55), (21, 0.52), (61, 0.5)):
        up = [(1 - (1 / p - 1) ** (n // 2)) / (1 - (1 / p - 1) ** (n - 1)) if p != 0.5 else 0.5, 0.5]
        cost = np.zeros((n, n))
        cost[0, -1] = cost[-1, 0] = 1.0
        found = somcot.distance(ruin(n, p), ruin(n, 0.5), cost, discount=1)
        assert found.distance == pytest.approx(abs(up[0] - up[1]), abs=1e-12)
        assert found.bounds.high - found.bounds.low <= 1e-11


def test_equal_chains_are_at_distance_0_under_every_clock() -> None:
    for seed in range(12):
        x = random_problem(seed)[0]
        cost = costs.absolute(range(x.n_states), range(x.n_states))
        for clock in ({"discount": 1}, {"horizon": 7}):
            assert somcot.distance(x, x, cost, **clock).distance == 0.0  # type: ignore[arg-type]
    assert somcot.distance(QUEUE, QUEUE, THREE, rate=0.3).distance == 0.0
    assert somcot.distance(ruin(7, 0.6), ruin(7, 0.6), costs.absolute(range(7), range(7)), total=True).distance == 0.0


@pytest.mark.parametrize("seed", range(12))
def test_stationary_starts_rise_from_static_transport_to_the_average(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = ("dense", "uniform", "permutation")
    x, y, cost, _ = random_problem(seed, largest=5, kinds=kinds)
    x, y = x.stationary(), y.stationary()
    static = somcot.distance(x, y, cost, horizon=1).distance
    discounts = [*sorted(rng.random(3).tolist()), 0.99, 0.9999, 1 - 1e-07, 1]
    distances = [somcot.distance(x, y, cost, discount=discount).distance for discount in discounts]
    assert (np.diff([static, *distances]) >= -1e-11 * (np.ptp(cost) or 1.0)).all()


@pytest.mark.parametrize("seed", range(10))
def test_discounts_and_horizons_tend_to_the_average(seed: int) -> None:
    x, y, cost, _ = random_problem(seed, kinds=("dense", "uniform"))
    average = somcot.distance(x, y, cost, discount=1)
    assert average.settling is not None
    reach = np.ptp(cost) or 1.0
    for discount in (0.99, 1 - 1e-4, 1 - 1e-8):
        close = somcot.distance(x, y, cost, discount=discount)
        assert abs(close.distance - average.distance) <= (
            1 - discount
        ) * average.settling * reach + 1e-9 or not _single(x, y)
    if _single(x, y):
        long = somcot.distance(x, y, cost, horizon=400)
        assert abs(long.distance - average.distance) <= 2 * average.settling * reach / 400 + 1e-9


def _single(x: MarkovChain, y: MarkovChain) -> bool:
    """Whether all pairs lead to each other."""
    from somcot.core.pairs import chain_classes, pair_classes, transitions

    labels = pair_classes(*(chain_classes(transitions(c.support)) for c in (x, y)))
    return bool((labels == labels[0, 0]).all() and labels[0, 0] >= 0)


def test_weights_of_a_discount_over_a_long_horizon() -> None:
    g, T = 0.9, 300
    weighted = [(1 - g) * T * g**t * COST for t in range(T)]
    assert somcot.distance(*WALKS, weighted, horizon=T).distance == pytest.approx(
        somcot.distance(*WALKS, COST, discount=g).distance, abs=1e-10
    )


def test_metric_is_the_distance_from_every_pair() -> None:
    n = 4
    chains = ruin(n, 0.6), ruin(n, 0.5)
    cost = costs.absolute(range(n), range(n))
    clocks: tuple[dict[str, Any], ...] = ({"discount": 1}, {"discount": 1 - 1e-6}, {"horizon": 6}, {"total": True})
    for clock in clocks:
        table = somcot.metric(*chains, cost, **clock)
        for i in range(n):
            for j in range(n):
                a, b = (MarkovChain(c.transition, k) for c, k in zip(chains, (i, j), strict=True))
                assert table[i, j] == pytest.approx(somcot.distance(a, b, cost, **clock).distance, abs=1e-10)
    table = somcot.metric(QUEUE, SLOW, THREE, rate=0.4)
    at = somcot.distance(ContinuousChain(QUEUE.rates, 2), ContinuousChain(SLOW.rates, 1), THREE, rate=0.4)
    assert table[2, 1] == pytest.approx(at.distance, abs=1e-12)


# Totals


def test_ruin_walks_take_as_long_as_they_should() -> None:
    """Against a chain that has ended, the total of cost 1 is the expected duration of the game, i (n - i)."""
    n = 12
    ended = MarkovChain([[1.0]])
    for i in range(1, n):
        walk = MarkovChain(ruin(n + 1, 0.5).transition, i)
        found = somcot.distance(walk, ended, np.ones((n + 1, 1)), total=True)
        assert found.distance == pytest.approx(i * (n - i), abs=1e-9)
        assert found.state_law.sum() == pytest.approx(i * (n - i), abs=1e-9)
        assert found.converged


def test_mismatched_steps_of_sessions() -> None:
    # Visits that end with probability 1/2 and 1/4 after each page: together as long as both last, then alone.
    short, long = (MarkovChain([[1 - p, p], [0.0, 1.0]]) for p in (0.5, 0.25))
    found = somcot.distance(short, long, 1 - np.eye(2), total=True)
    assert found.distance == pytest.approx(1 / 0.25 - 1 / 0.5, abs=1e-12)
    np.testing.assert_allclose(found.state_law, [[2.0, 0.0], [2.0, 0.0]], atol=1e-12)
    assert found.bounds.low <= 2.0 <= found.bounds.high
    assert max(found.residuals) <= 1e-12


def test_chains_that_never_end_are_refused() -> None:
    loop = MarkovChain([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]], states=["home", "cart", "pay"])
    ends = ruin(3, 0.5)
    with pytest.raises(ValueError, match="x: state 'cart' never ends, it is one of 2 states"):
        somcot.distance(loop, ends, THREE, total=True)
    with pytest.raises(ValueError, match="y: state 'cart' never ends"):
        somcot.distance(ends, loop, THREE, total=True)
    # Only where it can be reached.
    beside = MarkovChain([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]], 0)
    assert somcot.distance(beside, ends, THREE, total=True).converged
    island = MarkovChain(np.array([[0.5, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0.0]]))
    assert somcot.distance(island, ends, np.ones((4, 3)), total=True).converged
    with pytest.raises(ValueError, match="x: state 2 never ends"):
        somcot.metric(island, ends, np.ones((4, 3)), total=True)


def test_totals_near_endless_are_honest() -> None:
    slow = MarkovChain([[1 - 1e-9, 1e-9], [0.0, 1.0]])
    found = somcot.distance(slow, MarkovChain([[1.0]]), [[1.0], [0.0]], total=True)
    p = 1.0 - float(dense_kernel(slow)[0, 0])
    assert found.bounds.low <= 1 / p * (1 + 1e-6)
    assert found.bounds.high >= 1 / p * (1 - 1e-6)
    assert found.distance == pytest.approx(1e9, rel=1e-6)


# Horizons


def test_horizons_by_hand() -> None:
    coin, fixed = MarkovChain([[0.5, 0.5], [0.5, 0.5]]), MarkovChain(np.eye(2))
    cost = 1 - np.eye(2)
    for T in range(1, 6):  # 0 at the start, then wrong half of the time
        found = somcot.distance(coin, fixed, cost, horizon=T)
        assert found.distance == pytest.approx((T - 1) / 2 / T, abs=1e-15)
        assert found.bounds.low <= found.distance <= found.bounds.high
        assert found.state_law.sum() == pytest.approx(1.0, abs=1e-14)
        assert str(found.clock) == f"the first {T} steps"
        assert max(found.residuals) <= 1e-14


def test_the_coupling_of_a_horizon() -> None:
    for seed in range(8):
        x, y, cost, _ = random_problem(seed)
        for T in (1, 2, 7):
            found = somcot.distance(x, y, cost, horizon=T)
            plan = found.plan
            assert plan is not None
            assert (plan.state_law() * cost).sum() == pytest.approx(found.distance, abs=1e-12 * (np.ptp(cost) or 1.0))
            np.testing.assert_allclose(plan.state_law(), found.state_law, atol=1e-14)
            for chain, marginal, law in ((x, plan.marginal_x(), 1), (y, plan.marginal_y(), 0)):  # steps are the chains'
                own = found.state_law.sum(axis=law)
                np.testing.assert_allclose(marginal.toarray(), own[:, None] * dense_kernel(chain), atol=1e-14)
            shares = found.contributions(len(cost.ravel())).pairs
            if cost.min() >= 0.0:
                assert sum(share.amount for share in shares) == pytest.approx(found.distance, abs=1e-10)
    tree = TimeChain([np.full((2, 2), 0.5)])
    with pytest.raises(ValueError, match="coupling: kernels change with time"):
        somcot.distance(tree, tree, horizon=2).coupling()
    with pytest.raises(ValueError, match="contributions: not available for the first 2 steps"):
        somcot.distance(tree, tree, horizon=2).contributions()


def test_time_chains_repeat_markov_chains() -> None:
    x, y, cost, _ = random_problem(4)
    T = 6
    a, b = (TimeChain([c.transition] * (T - 1), c.initial) for c in (x, y))
    plain, timed = somcot.distance(x, y, cost, horizon=T), somcot.distance(a, b, cost, horizon=T)
    mixed = somcot.distance(x, b, cost, horizon=T)
    assert plain.distance == pytest.approx(timed.distance, abs=1e-13)
    assert mixed.distance == pytest.approx(timed.distance, abs=1e-13)
    np.testing.assert_allclose(plain.state_law.sum(axis=1), timed.state_law.sum(axis=1), atol=1e-13)
    np.testing.assert_allclose(somcot.metric(x, y, cost, horizon=T), somcot.metric(a, b, cost, horizon=T), atol=1e-13)


def test_terminal_costs_and_changing_states() -> None:
    tree = TimeChain(
        [[[0.5, 0.5]], [[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]]], states=[["root"], ["up", "down"], ["a", "b", "c"]]
    )
    zero = [np.zeros((1, 1)), np.zeros((2, 2)), np.zeros((3, 3))]
    terminal = [*zero[:2], 1.0 - np.eye(3)]
    assert somcot.distance(tree, tree, terminal, horizon=3).distance == 0.0
    other = TimeChain([[[1.0, 0.0]], [[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]]], states=tree.states)
    found = somcot.distance(tree, other, terminal, horizon=3)
    # Half of the paths go down and must be compared with (0.9, 0.1, 0).
    assert found.distance == pytest.approx(0.5 * 0.9 / 3, abs=1e-15)
    assert found.states_x == ("root", "up", "down", "a", "b", "c")
    assert found.state_law.sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="cost: found one table, but the states change with time"):
        somcot.distance(tree, tree, np.zeros((1, 1)), horizon=3)
    with pytest.raises(ValueError, match="cost: found 3 tables for 2 times"):
        somcot.distance(tree, tree, terminal, horizon=2)
    with pytest.raises(ValueError, match="horizon: found 4, but x has 2 steps, so 3 times"):
        somcot.distance(tree, tree, terminal, horizon=4)


@pytest.mark.parametrize(
    ("transitions", "found"),
    [
        ([], "transitions: found no step"),
        ([[0.5, 0.5]], "transitions: found one matrix"),
        (np.eye(2), "transitions: found one matrix"),
        (csr_array(np.eye(2)), "transitions: found one matrix"),
        ([np.eye(2), np.eye(3)], "transitions: step 0 leads to 2 states, step 1 leaves 3"),
        ([[[0.5, 0.4]]], "transitions[0]: row of state 0 sums to 0.9"),
        ([[[1.5, -0.5]]], "transitions[0]: the probability of going from state 0 to 1 is -0.5"),
        ([[[float("nan"), 1.0]]], "transitions[0]: entry (0, 0) is nan"),
        ([np.zeros((0, 2))], "transitions[0]: shape is (0, 2)"),
    ],
)
def test_bad_time_chains(transitions: Any, found: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(found)):
        TimeChain(transitions)


# Continuous time


def test_the_textbooks_rate_is_wrong() -> None:
    rates = [[-1.0, 1.0], [1.0, -1.0]]
    x, y = ContinuousChain(rates), ContinuousChain(rates)
    cost = np.array([[1.0, 0.0], [0.5, 1.0]])
    right = somcot.distance(x, y, cost, rate=0.1)
    assert right.distance == pytest.approx(2 / 7, abs=1e-14)
    assert right.bounds.low <= 2 / 7 <= right.bounds.high
    textbook = Problem(x.uniformised(1.0), y.uniformised(1.0), cost, 1.0 / 1.1)
    assert somcot.distance(textbook.x, textbook.y, cost, discount=1.0 / 1.1).distance > 0.99


@pytest.mark.parametrize("seed", range(10))
def test_the_rate_of_the_common_clock_does_not_matter(seed: int) -> None:
    from tests.solvers.test_clock_programs import continuous_chain

    rng = np.random.default_rng(seed)
    x, y = continuous_chain(rng, 2.0), continuous_chain(rng, 5.0)
    cost, r = rng.random((x.n_states, y.n_states)), float(rng.choice([0.05, 1.0, 20.0]))
    value = somcot.distance(x, y, cost, rate=r).distance
    at_least = float(x.exits.max() + y.exits.max())
    for factor in (1.0, 1.7, 3.0):
        L = factor * at_least or 1.0
        found = somcot.distance(x.uniformised(L), y.uniformised(L), cost, discount=L / (L + r))
        assert found.distance == pytest.approx(value, abs=1e-12)


def test_stiff_rates_keep_their_bracket() -> None:
    x = ContinuousChain([[-1e4, 1e4, 0.0], [1e4, -1e4 - 1, 1.0], [0.0, 1.0, -1.0]])
    y = ContinuousChain([[-2e4, 2e4, 0.0], [1e4, -1e4 - 2, 2.0], [0.0, 1.0, -1.0]])
    found = somcot.distance(x, y, THREE, rate=0.1)
    assert found.converged
    assert found.bounds.high - found.bounds.low <= 1e-8
    assert found.settling is not None
    with pytest.raises(ValueError, match="rate: found 1e-20, which is negligible relative to exit rates"):
        somcot.distance(x, y, THREE, rate=1e-20)


def test_brackets_allow_for_rounding_and_no_more() -> None:
    """Two states: in each pair both jump together or each alone, and all 16 such policies are tried."""
    cost = np.array([[1.0, 0.0], [0.5, 1.0]])
    for k in range(-2, 5):
        q, r = 10.0**k, 0.1
        values = []
        for together in itertools.product((False, True), repeat=4):
            system = np.zeros((4, 4))
            for pair, both in enumerate(together):
                targets = [3 - pair] if both else [pair ^ 1, pair ^ 2]
                system[pair, pair] = r + q * len(targets)
                system[pair, targets] = -q
            values.append(np.linalg.solve(system, r * cost.ravel())[0])
        x = ContinuousChain([[-q, q], [q, -q]])
        found = somcot.distance(x, x, cost, rate=r)
        assert found.distance == pytest.approx(min(values), abs=1e-10)
        assert found.bounds.low - 1e-11 <= min(values) <= found.bounds.high + 1e-11
        assert found.bounds.high - found.bounds.low <= 1e-13 + 1e-14 * q / r


@pytest.mark.parametrize(
    ("rates", "found"),
    [
        ([[-1.0, 1.0]], "rates: shape is (1, 2)"),
        ([[-1.0, 1.0], [-2.0, 2.0]], "rates: the rate from state 1 to 0 is -2, expected at least 0"),
        ([[-1.0, 1.0], [2.0, -1.0]], "rates: row of state 1 sums to 1, expected 0; the diagonal is minus the sum"),
        ([[1.0, 1.0], [2.0, -2.0]], "rates: row of state 0 sums to 2, expected 0"),
        ([[1.0, 0.0], [2.0, -2.0]], "rates: row of state 0 sums to 1, expected 0"),
        ([[float("inf"), 0.0], [2.0, -2.0]], "rates: entry (0, 0) is inf"),
        ([[0.5, 0.5], [0.5, 0.5]], "rates: row of state 0 sums to 1"),
        ([[-1e308 * 1.5, 1e308 * 1.5, 0], [0, 0, 0], [0, 0, 0]], ""),
    ],
)
def test_bad_rates(rates: Any, found: str) -> None:
    if not found:
        assert ContinuousChain(rates).n_states == 3
        return
    with pytest.raises(ValueError, match=re.escape(found)):
        ContinuousChain(rates)


def test_sparse_rates_and_chains_that_stand_still() -> None:
    sparse = ContinuousChain(csr_array(np.asarray(QUEUE.rates)), 1)
    dense = ContinuousChain(QUEUE.rates, 1)
    still = ContinuousChain(np.zeros((3, 3)), 2)
    a, b = (somcot.distance(c, still, THREE, rate=0.5) for c in (sparse, dense))
    assert a.distance == pytest.approx(b.distance, abs=1e-14)
    assert somcot.distance(still, still, THREE, rate=1.0).distance == 0.0
    # 1 / r E[integral] of |X - 2| by the resolvent.
    resolvent = 0.5 * np.linalg.inv(0.5 * np.eye(3) - np.asarray(QUEUE.rates))
    assert a.distance == pytest.approx(resolvent[1] @ [2.0, 1.0, 0.0], abs=1e-12)


# Gradients


def central(value: Any, step: float = 1e-6) -> float:
    return float((value(step) - value(-step)) / (2 * step))


def moved(kernel: Floats, row: int, e: float) -> Floats:
    """Mass moved within a row, from the second to the first successor."""
    out = kernel.copy()
    first, second = np.flatnonzero(kernel[row])[:2]
    out[row, first] += e
    out[row, second] -= e
    return out


@pytest.mark.parametrize("clock", [{"discount": 1}, {"discount": 1 - 1e-5}, {"horizon": 5}, {"total": True}])
def test_gradients_by_differences(clock: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    n = 4
    kernels = [rng.random((n, n)) + 0.1 for _ in range(2)]
    if "total" in clock:
        for kernel in kernels:
            kernel[-1] = np.eye(n)[-1]
    P, Q = (kernel / kernel.sum(axis=1, keepdims=True) for kernel in kernels)
    a, cost = rng.dirichlet(np.ones(n)), rng.random((n, n))

    def value(P: Floats, cost: Floats, a: Floats) -> Result:
        return somcot.distance(MarkovChain(P, a), MarkovChain(Q, 1), cost, **clock)

    slopes = value(P, cost, a).gradient
    assert slopes is not None
    for row in range(n - 1):
        first, second = np.flatnonzero(P[row])[:2]
        kernel = np.asarray(slopes.transition_x)
        found = kernel[row, first] - kernel[row, second]
        assert found == pytest.approx(central(lambda e, r=row: value(moved(P, r, e), cost, a).distance), abs=2e-6)
    direction = rng.normal(size=(n, n))
    along = central(lambda e: value(P, cost + e * direction, a).distance)
    assert (slopes.cost * direction).sum() == pytest.approx(along, abs=1e-6)
    change = np.array([1.0, -1.0, 0.0, 0.0])
    start = central(lambda e: value(P, cost, a + e * change).distance)
    assert slopes.initial_x @ change == pytest.approx(start, abs=1e-6)


@pytest.mark.parametrize("discount", [0.9, 1 - 1e-4])
def test_slopes_in_the_discount(discount: float) -> None:
    walks = random_walk(4, 0.4, start=1), random_walk(4, 0.7)
    for pair in (walks, (ruin(6, 0.55), ruin(6, 0.5))):
        problem = Problem(*pair, costs.absolute(range(pair[0].n_states), range(pair[0].n_states)), discount)
        slope = relative.solve(problem).gradient
        assert slope is not None

        def value(e: float, problem: Problem = problem) -> float:
            return relative.solve(Problem(problem.x, problem.y, problem.cost, discount + e)).distance

        step = 1e-3 * (1 - discount)
        assert slope.discount == pytest.approx(central(value, step), rel=1e-3)


def test_slope_in_the_rate() -> None:
    slope = somcot.distance(QUEUE, ContinuousChain(SLOW.rates, 2), THREE, rate=0.3).gradient
    assert slope is not None
    along = central(lambda e: somcot.distance(QUEUE, ContinuousChain(SLOW.rates, 2), THREE, rate=0.3 + e).distance)
    assert slope.discount == pytest.approx(along, rel=1e-5)


def test_gradients_of_absorption() -> None:
    """Where it ends decides: the long-run average of ruin walks."""
    n, base = 6, dense_kernel(ruin(6, 0.55))
    cost = costs.absolute(range(n), range(n))

    def value(P: Floats) -> Result:
        return somcot.distance(MarkovChain(P, 2), ruin(n, 0.5), cost, discount=1)

    slopes = value(base).gradient
    assert slopes is not None
    kernel = np.asarray(slopes.transition_x)
    for row in range(1, n - 1):
        first, second = np.flatnonzero(base[row])[:2]
        along = central(lambda e, r=row: value(moved(base, r, e)).distance)
        assert kernel[row, first] - kernel[row, second] == pytest.approx(along, abs=1e-6)


def test_gradients_in_rates() -> None:
    slopes = somcot.distance(QUEUE, SLOW, THREE, rate=0.3).gradient
    assert slopes is not None
    found = np.asarray(slopes.transition_x)
    for i, j in ((0, 1), (1, 0), (1, 2), (2, 1)):

        def value(e: float, i: int = i, j: int = j) -> float:
            rates = np.asarray(QUEUE.rates).copy()
            rates[i, j] += e
            rates[i, i] -= e
            return somcot.distance(ContinuousChain(rates), SLOW, THREE, rate=0.3).distance

        assert found[i, j] == pytest.approx(central(value), abs=1e-6)
    assert (np.diag(found) == 0).all()


def test_gradients_in_time() -> None:
    rng = np.random.default_rng(2)
    kernels = [rng.dirichlet(np.ones(3), size=2), rng.dirichlet(np.ones(2), size=3)]
    other = TimeChain([rng.dirichlet(np.ones(3), size=2), rng.dirichlet(np.ones(2), size=3)])
    tables = [rng.random((2, 2)), rng.random((3, 3)), rng.random((2, 2))]
    found = somcot.distance(TimeChain(kernels), other, tables, horizon=3)
    slopes = found.time_gradient
    assert found.gradient is None
    assert slopes is not None
    for t, row in ((0, 0), (1, 0), (1, 2)):

        def value(e: float, t: int = t, row: int = row) -> float:
            changed = [*kernels]
            changed[t] = moved(kernels[t], row, e)
            return somcot.distance(TimeChain(changed), other, tables, horizon=3).distance

        assert slopes.transition_x[t][row, 0] - slopes.transition_x[t][row, 1] == pytest.approx(
            central(value), abs=1e-7
        )
    assert sum((c * table).sum() for c, table in zip(slopes.cost, tables, strict=True)) == pytest.approx(found.distance)


# Chains from chains


def test_jumps_forget_how_long_states_last() -> None:
    walk = random_walk(5, 0.7)
    lazy = MarkovChain(0.4 * np.eye(5) + 0.6 * dense_kernel(walk))
    np.testing.assert_allclose(dense_kernel(lazy.jumps()), dense_kernel(walk.jumps()), atol=1e-15)
    assert (np.diag(dense_kernel(lazy.jumps())) == 0).all()
    ends = ruin(4, 0.5).jumps()
    np.testing.assert_array_equal(dense_kernel(ends), dense_kernel(ruin(4, 0.5)))
    sparse = MarkovChain(csr_array(dense_kernel(lazy))).jumps()
    assert sparse.is_sparse
    np.testing.assert_allclose(dense_kernel(sparse), dense_kernel(walk.jumps()), atol=1e-15)


def test_words_keep_the_distance() -> None:
    x, y, cost, discount = random_problem(11, largest=4, kinds=("dense", "sparse"))
    assert x.words(1) is x
    for k in (2, 3):
        a, b = x.words(k), y.words(k)
        ends = [[word[-1] for word in c.states] for c in (a, b)]  # type: ignore[index]
        last = cost[np.ix_(ends[0], ends[1])]
        # The first words are the first k states: costs from time k - 1 on.
        at = [np.linalg.matrix_power(dense_kernel(c), k - 1) for c in (x, y)]
        assert a.initial.sum() == pytest.approx(1.0)
        law = np.zeros(x.n_states)
        for word, mass in zip(a.states, a.initial, strict=True):
            law[word[-1]] += mass  # type: ignore[index]
        np.testing.assert_allclose(law, x.initial @ at[0], atol=1e-14)
        table = somcot.metric(a, b, last, discount=discount)
        plain = somcot.metric(x, y, cost, discount=discount)
        np.testing.assert_allclose(table, plain[np.ix_(ends[0], ends[1])], atol=1e-10)
    with pytest.raises(ValueError, match="k: found 0, expected at least 1"):
        x.words(0)


def test_stationary_laws() -> None:
    for seed in range(20):
        x = random_problem(seed)[0]
        law = x.stationary().initial
        np.testing.assert_allclose(law @ dense_kernel(x), law, atol=1e-13)
    np.testing.assert_allclose(ruin(5, 0.5).stationary().initial, [0.5, 0, 0, 0, 0.5], atol=1e-15)


# Data


def test_data_in_the_long_run_are_estimated_close_to_it() -> None:
    a, b = (walk.sample(60, 50, rng=k) for k, walk in enumerate(WALKS))
    with noted("average-from-data", discount=0.9999):
        found = somcot.distance(a, b, COST, discount=1, confidence=0.9)
    assert found.confidence_interval is not None
    assert found.settling is not None
    assert found.clock.name == "average"
    close = somcot.distance(a, b, COST, discount=1 - 1e-4, confidence=0.9)
    assert found.distance == close.distance
    assert found.confidence_interval == close.confidence_interval


def test_data_at_other_clocks_are_plugged_in_and_it_is_said() -> None:
    a, b = (walk.sample(60, 50, rng=k) for k, walk in enumerate(WALKS))
    with noted("no-correction", clock="horizon=8"):
        found = somcot.distance(a, b, COST, horizon=8)
    assert found.plugin == found.distance == somcot.distance(a.chain(), b.chain(), COST, horizon=8).distance
    assert found.samples == (3000, 3000)
    with noted("no-correction"):
        assert somcot.distance(a, b, COST, horizon=8, confidence=0.9).confidence_interval is None


def test_errors_that_are_not_known_are_not_claimed() -> None:
    a, b = (walk.sample(60, 50, rng=k) for k, walk in enumerate(WALKS))
    with pytest.warns(DataWarning):
        shares = somcot.distance(a, b, COST, horizon=8).contributions()
    for share in (*shares.pairs, *shares.transitions):
        assert np.isnan(share[3])
        assert share[4] is False


def test_words_and_pictures_of_every_clock(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    tree = TimeChain([np.full((5, 5), 0.2)] * 3)
    found = {
        "In the long run, X and Y differ by": somcot.distance(*WALKS, COST, discount=1),
        "On 0.0 % of the first 1 steps": somcot.distance(WALKS[0], random_walk(5, start=0), horizon=1),
        "In the first 3 steps, X and Y differ by": somcot.distance(tree, tree, COST, horizon=3),
        "In the time that matters, X and Y differ by": somcot.distance(QUEUE, SLOW, THREE, rate=0.2),
        "Until both have ended, X and Y differ by": somcot.distance(ruin(5, 0.4), ruin(5, 0.5), COST, total=True),
    }
    for said, result in found.items():
        result.report(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert said.split(",")[0].removeprefix("On 0.0 % of ") in page
        assert str(result.clock) in result._repr_html_()
        plt.close(somcot.plots.overview(result))


def test_results_of_every_clock_are_kept(tmp_path: Path) -> None:
    tree = TimeChain([np.full((5, 5), 0.2)] * 3)
    found = [
        somcot.distance(*WALKS, COST, discount=1),
        somcot.distance(tree, tree, COST, horizon=3),
        somcot.distance(QUEUE, SLOW, THREE, rate=0.2),
        somcot.distance(ruin(5, 0.4), ruin(5, 0.5), COST, total=True),
    ]
    for k, result in enumerate(found):
        result.save(tmp_path / f"{k}.somcot")
        back = Result.load(tmp_path / f"{k}.somcot")
        assert (back.distance, back.clock, back.settling) == (result.distance, result.clock, result.settling)
        assert str(back) == str(result)


# Hidden chains


def test_two_distances_of_hidden_chains() -> None:
    rng = np.random.default_rng(0)
    strict = 0
    for _ in range(12):
        x, y = (
            hidden.HiddenChain(rng.dirichlet(np.ones(n), n), rng.dirichlet(np.ones(2), n), rng.dirichlet(np.ones(n)))
            for n in rng.integers(1, 4, size=2)
        )
        cost = rng.random((2, 2))
        together = somcot.distance(x.joint(), y.joint(), hidden.joint_cost(x, y, cost), discount=0.8).distance
        table = costs.emissions(x.emissions, y.emissions, cost)
        first = somcot.distance(x.chain, y.chain, table, discount=0.8)
        assert together <= first.distance + 1e-10
        strict += together < first.distance - 1e-6
        # "Hidden state first" is the chain that takes half-steps: state, then emission.
        assert first.distance == pytest.approx(half_steps(x, y, cost, 0.8), abs=1e-9)
    assert strict > 0


def half_steps(x: hidden.HiddenChain, y: hidden.HiddenChain, cost: Floats, discount: float) -> float:
    """H_0, O_0, H_1, O_1, ... with the cost on emissions, at the root of the discount per half-step."""
    chains, places = [], []
    for side in (x, y):
        n, m = side.emissions.shape
        P = dense_kernel(side.chain)
        kernel = np.zeros((n + n * m, n + n * m))
        for i in range(n):
            kernel[i, n + i * m : n + (i + 1) * m] = side.emissions[i]
            kernel[n + i * m : n + (i + 1) * m, :n] = P[i]
        chains.append(MarkovChain(kernel, np.append(side.chain.initial, np.zeros(n * m)), normalize=True))
        places.append((n, m))
    (n_x, m_x), (n_y, m_y) = places
    table = np.zeros((n_x + n_x * m_x, n_y + n_y * m_y))
    table[n_x:, n_y:] = np.tile(cost, (n_x, n_y))
    g = np.sqrt(discount)
    found = somcot.distance(chains[0], chains[1], table, discount=float(g)).distance
    return float(found / (1 - g) / g * (1 - discount))


def test_emission_costs_are_transports() -> None:
    ladder = costs.absolute(range(3), range(3))
    a, b = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]), np.array([[0.5, 0.25, 0.25]])
    expected = np.abs(np.cumsum(a, axis=1) - np.cumsum(b, axis=1)).sum(axis=1)[:, None]
    np.testing.assert_allclose(costs.emissions(a, b, ladder), expected, atol=1e-14)
    # Other numbers of symbols on each side, larger than the number of states.
    np.testing.assert_allclose(costs.emissions([[1.0]], np.eye(4), [[1, 2, 3, 4]]), [[1, 2, 3, 4]])


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ([[0.5, 0.4]], "emissions_x: row 0 sums to 0.9"),
        ([[1.5, -0.5]], "emissions_x: the probability that state 0 emits 1 is -0.5"),
        (np.zeros((1, 0)), "emissions_x: shape is (1, 0)"),
    ],
)
def test_bad_emissions(table: Any, found: str) -> None:
    with pytest.raises(ValueError, match=re.escape(found)):
        costs.emissions(table, [[0.5, 0.5]], 1 - np.eye(2))
    with pytest.raises(ValueError, match="emissions: found 1 rows for 2 states"):
        hidden.HiddenChain(np.eye(2), [[1.0]])
