"""Discounts close to 1: values and brackets against exact arithmetic, and the ways in which references go wrong."""

import numpy as np
import pytest

import somcot
from somcot import MarkovChain, Status, costs, random_walk
from somcot.core.pairs import absorption_times, chain_classes, choose, pair_classes
from somcot.plumbing.linear_systems import Kernel, anchored, discounted_occupancy, occupancy_of
from somcot.problem import Problem
from somcot.solvers import policy_iteration, relative
from tests.campaign import oracle
from tests.instances import Floats, dense_kernel, random_problem

CLOSE = (1 - 1e-4, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12)


def ruin(n: int, p: float) -> MarkovChain:
    """A walk that ends at either wall, from the middle."""
    kernel = np.zeros((n, n))
    kernel[0, 0] = kernel[-1, -1] = 1.0
    inside = np.arange(1, n - 1)
    kernel[inside, inside + 1], kernel[inside, inside - 1] = p, 1.0 - p
    return MarkovChain(kernel, n // 2)


def group_walk(rng: np.random.Generator, n: int) -> MarkovChain:
    """Steps on a circle whose law does not depend on the place: moving in step keeps every difference for ever."""
    step = rng.random(n) * (rng.random(n) < 0.6)
    step[rng.integers(n)] += 0.2
    return MarkovChain(np.array([np.roll(step, i) for i in range(n)]), int(rng.integers(n)), normalize=True)


def group_problem(seed: int) -> tuple[MarkovChain, MarkovChain, Floats]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    x = group_walk(rng, n)
    y = MarkovChain(x.transition if rng.random() < 0.5 else group_walk(rng, n).transition, int(rng.integers(n)))
    difference = rng.integers(0, 4, n).astype(float)
    return x, y, difference[(np.arange(n)[:, None] - np.arange(n)) % n]


@pytest.mark.parametrize("discount", CLOSE)
@pytest.mark.parametrize("seed", range(6))
def test_brackets_hold_the_truth_and_stay_narrow(seed: int, discount: float) -> None:
    x, y, cost, _ = random_problem(seed, largest=4)
    result = somcot.distance(x, y, cost, discount=discount)
    truth = oracle.distance(x, y, cost, discount)
    reach = np.ptp(cost) or 1.0
    assert truth.inside(*result.bounds)
    assert result.bounds.high - result.bounds.low <= 1e-11 * reach
    assert truth.error(result.distance) <= 1e-11 * reach
    assert result.converged


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 106))
def test_brackets_hold_the_truth_and_stay_narrow_on_many(seed: int) -> None:
    test_brackets_hold_the_truth_and_stay_narrow(seed, CLOSE[seed % len(CLOSE)])


@pytest.mark.parametrize("seed", range(8))
def test_policies_with_several_closed_sets_in_a_class(seed: int) -> None:
    x, y, cost = group_problem(seed)
    for discount in (1 - 1e-4, 1 - 1e-12):
        result = somcot.distance(x, y, cost, discount=discount)
        assert oracle.distance(x, y, cost, discount).inside(*result.bounds)
        assert result.bounds.high - result.bounds.low <= 1e-11 * (np.ptp(cost) or 1.0)


@pytest.mark.parametrize("discount", CLOSE)
def test_several_classes_of_pairs(discount: float) -> None:
    n = 21
    x, y = ruin(n, 0.5), ruin(n, 0.55)
    result = somcot.distance(x, y, costs.absolute(np.linspace(0, 1, n), np.linspace(0, 1, n)), discount=discount)
    assert result.converged
    assert result.bounds.high - result.bounds.low <= 1e-11
    assert result.status is Status.CONVERGED


def test_a_reference_that_is_often_met() -> None:
    # The first pair of states is met once in 1e36 steps.
    n = 100
    x, y = random_walk(n, 0.3, start=n - 1), random_walk(n, 0.7)
    result = somcot.distance(x, y, costs.absolute(np.linspace(0, 1, n), np.linspace(0, 1, n)), discount=1 - 1e-9)
    assert result.bounds.high - result.bounds.low <= 1e-11


@pytest.mark.parametrize("lazy", [1e-2, 1e-6, 1e-10, 1e-14])
def test_where_it_takes_long_to_settle_the_bracket_says_so(lazy: float) -> None:
    kernel = (1 - lazy) * np.roll(np.eye(4), 1, axis=1) + lazy * np.eye(4)
    x, y = MarkovChain(kernel, 0), MarkovChain(kernel, 1)
    result = somcot.distance(x, y, 1 - np.eye(4), discount=1 - 1e-6)
    assert oracle.distance(x, y, 1 - np.eye(4), 1 - 1e-6).inside(*result.bounds)
    assert result.settling is not None
    assert result.bounds.high - result.bounds.low <= 1e-12 + 2e-14 * result.settling


@pytest.mark.parametrize("leave", [1e-9, 1e-10])
def test_sweeps_end_where_rounding_hides_all_progress(leave: float) -> None:
    """Plans that differ by rounding alternate for ever: more sweeps would not help, and are not recommended."""
    x = MarkovChain(
        [[1 - leave, leave / 2, leave / 2], [leave, 1 - 2 * leave, leave], [leave / 3, leave / 3, 1 - 2 * leave / 3]],
        0,
        normalize=True,
    )
    y = MarkovChain(
        [[1 - 2 * leave, leave, leave], [leave, 1 - 2 * leave, leave], [2 * leave, leave, 1 - 3 * leave]],
        2,
        normalize=True,
    )
    result = somcot.distance(x, y, np.abs(np.subtract.outer(range(3), range(3))), discount=1)
    assert result.status == "rounding limit"


def test_it_is_what_policy_iteration_finds() -> None:
    for seed in range(20):
        x, y, cost, _ = random_problem(seed)
        problem = Problem(x, y, cost, 0.99)
        plain, close = policy_iteration.solve(problem), relative.solve(problem)
        assert close.distance == pytest.approx(plain.distance, abs=1e-12)
        np.testing.assert_allclose(close.potential, plain.potential, atol=1e-9)
        np.testing.assert_allclose(relative.metric(problem)[0], policy_iteration.metric(problem)[0], atol=1e-11)
        assert max(close.residuals) <= 1e-11


def test_gradients_of_both_solvers_agree() -> None:
    # Where the optimum is unique: random dense chains.
    rng = np.random.default_rng(3)
    for _ in range(5):
        x, y = (MarkovChain(rng.random((4, 4)), rng.random(4), normalize=True) for _ in range(2))
        problem = Problem(x, y, rng.random((4, 4)), 0.95)
        plain, close = policy_iteration.solve(problem).gradient, relative.solve(problem).gradient
        assert plain is not None
        assert close is not None
        for name in ("transition_x", "transition_y", "cost", "initial", "initial_x", "initial_y"):
            np.testing.assert_allclose(getattr(close, name), getattr(plain, name), atol=1e-10, err_msg=name)


def test_identical_chains_are_at_distance_0() -> None:
    walk = random_walk(8, 0.6)
    cost = costs.absolute(range(8), range(8))
    assert somcot.distance(walk, walk, cost, discount=1 - 1e-10).distance == 0.0


def test_the_law_is_a_coupling() -> None:
    x, y = ruin(9, 0.5), ruin(9, 0.6)
    result = somcot.distance(x, y, costs.absolute(range(9), range(9)), discount=1 - 1e-8)
    np.testing.assert_allclose(result.state_law.sum(axis=1), x.state_occupancy(1 - 1e-8), atol=1e-12)
    np.testing.assert_allclose(result.state_law.sum(axis=0), y.state_occupancy(1 - 1e-8), atol=1e-12)
    # Ends at the upper wall with probability 1/2, whatever the discount, less the time on the way.
    assert x.state_occupancy(1 - 1e-8)[-1] == pytest.approx(0.5, abs=1e-6)
    assert max(result.residuals) <= 1e-12


@pytest.mark.parametrize("discount", [0.9, 0.9999])
def test_occupancies_are_those_of_the_plain_system(discount: float) -> None:
    for seed in range(20):
        x = random_problem(seed)[0]
        kernel = Kernel.from_matrix(dense_kernel(x))
        law, _ = anchored(kernel, discount, np.ones(x.n_states)).laws(x.initial)
        np.testing.assert_allclose(law, discounted_occupancy(kernel, x.initial, discount), atol=1e-11)


def test_periods_and_phases() -> None:
    cycle = Kernel.from_matrix(np.roll(np.eye(6), 1, axis=1))
    found = chain_classes(cycle)
    assert found.period.tolist() == [6] * 6
    assert sorted(found.phase.tolist()) == list(range(6))
    labels = pair_classes(found, chain_classes(Kernel.from_matrix(np.roll(np.eye(4), 1, axis=1))))
    assert len(np.unique(labels)) == 2
    loop = np.roll(np.eye(6), 1, axis=1)
    loop[0, 0] = loop[0, 1] = 0.5
    assert chain_classes(Kernel.from_matrix(loop)).period.tolist() == [1] * 6


def test_classes_are_what_the_independent_coupling_says() -> None:
    from scipy.sparse.csgraph import connected_components

    for seed in range(60):
        x, y, _, _ = random_problem(seed, largest=5)
        product = np.kron(dense_kernel(x), dense_kernel(y))
        _, component = connected_components(product > 0, connection="strong")
        leaves = [(product[component == k][:, component != k] > 0).any() for k in component]
        labels = pair_classes(*(chain_classes(Kernel.from_matrix(dense_kernel(c))) for c in (x, y))).ravel()
        assert (labels < 0).tolist() == leaves
        closed = ~np.array(leaves)
        same = labels[closed][:, None] == labels[closed]
        assert (same == (component[closed][:, None] == component[closed])).all()


def test_absorption_times_are_upper_bounds() -> None:
    for seed in range(40):
        x = random_problem(seed, kinds=("absorbing", "sparse"))[0]
        kernel = Kernel.from_matrix(dense_kernel(x))
        recurrent = chain_classes(kernel).recurrent
        times = absorption_times(kernel, recurrent, 1.0)
        inside = dense_kernel(x)[np.ix_(~recurrent, ~recurrent)]
        exact = np.linalg.solve(np.eye(len(inside)) - inside, np.ones(len(inside)))
        assert (times[recurrent] == 0).all()
        assert (times[~recurrent] >= exact * (1 - 1e-12)).all()
        assert (times[~recurrent] <= exact * (1 + 1e-9)).all()


def test_a_chain_that_all_but_never_ends_has_no_bound() -> None:
    kernel = Kernel.from_matrix(np.array([[1.0, 1e-300], [0.0, 1.0]]))
    assert np.isinf(absorption_times(kernel, np.array([False, True]), 1.0)[0])


def test_laws_in_the_long_run() -> None:
    gambler = ruin(5, 0.6)
    kernel = Kernel.from_matrix(dense_kernel(gambler))
    lose = (1 - (2 / 3) ** 2) / (1 - (2 / 3) ** 4)
    np.testing.assert_allclose(occupancy_of(kernel, gambler.initial, 1.0), [1 - lose, 0, 0, 0, lose], atol=1e-14)


def test_interrupted_before_anything_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = random_walk(4)
    problem = Problem(walk, walk, 1 - np.eye(4), 1 - 1e-6)
    monkeypatch.setattr(relative, "anchored", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    found = relative.relative_solution(problem.unit, choose(problem.unit, "all"))
    assert found.status is Status.INTERRUPTED
    with pytest.raises(KeyboardInterrupt):
        relative.metric(problem)
