"""The transportation simplex against POT's network simplex and a linear program."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import eye_array

from somcot import MarkovChain, Problem
from somcot.core.pairs import all_pairs
from somcot.core.sweep import Improvement, Sweep, integer_rows
from somcot.core.transport import Bases, optimise
from tests.campaign.oracle import masses as exact_masses
from tests.campaign.oracle import transport as exact_transport
from tests.instances import Floats, random_chain


def transport(p: Floats, q: Floats, cost: Floats) -> tuple[Improvement, Floats]:
    """Transport p onto q: the start laws of two chains, whose sweep includes their coupling as its last problem."""
    problem = Problem(MarkovChain(np.eye(len(p)), p), MarkovChain(np.eye(len(q)), q), cost, 0.5)
    sweep = Sweep(problem.unit, all_pairs(problem.unit), threads=1)
    found = sweep.improve(np.ascontiguousarray(cost))
    _, start = sweep.kernel()
    return found, start.reshape(cost.shape)


def oracle(p: Floats, q: Floats, cost: Floats) -> float:
    i, j = np.flatnonzero(p), np.flatnonzero(q)
    shifted = cost[np.ix_(i, j)] - cost.min()
    return float(ot.emd2(p[i] / p.sum(), q[j] / q.sum(), np.ascontiguousarray(shifted))) + float(cost.min())


def law(rng: np.random.Generator, n: int, kind: int) -> Floats:
    if kind == 0:
        return rng.dirichlet(np.ones(n))
    if kind == 1:
        return np.full(n, 1.0 / n)
    if kind == 2:
        return rng.dirichlet(np.full(n, 0.05))
    mass: Floats = rng.integers(1, 4, size=n).astype(float)
    mass /= mass.sum()
    return mass


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 12), st.integers(1, 12), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2**32), st.booleans()
)
def test_value_and_plan_are_optimal(n: int, m: int, kind_p: int, kind_q: int, seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    p, q = law(rng, n, kind_p), law(rng, m, kind_q)
    cost = rng.integers(-2, 3, size=(n, m)).astype(float) if ties else rng.normal(size=(n, m))
    found, plan = transport(p, q, cost)
    best = oracle(p, q, cost)
    assert found.low[-1] <= best + 1e-12
    assert found.high[-1] >= best - 1e-12
    assert found.high[-1] - found.low[-1] <= 1e-12
    assert plan.min() >= 0
    np.testing.assert_allclose(plan.sum(axis=1), p, atol=1e-14)
    np.testing.assert_allclose(plan.sum(axis=0), q, atol=1e-14)
    assert (plan * cost).sum() == pytest.approx(best, abs=1e-12)


def test_plans_that_stay_optimal_are_not_counted_as_changed() -> None:
    """Every plan is new at first; later those that the costs move are, and no others."""
    rng = np.random.default_rng(0)
    problem = Problem(random_chain(rng, 4, "dense"), random_chain(rng, 5, "dense"), rng.random((4, 5)), 0.5)
    sweep = Sweep(problem.unit, all_pairs(problem.unit), threads=1)
    table, other = rng.random((2, 4, 5))
    found = [sweep.improve(costs).changed for costs in (table, table, other, other, 2.0 * other)]
    assert found == [21, 0, found[2], 0, 0]
    assert 0 < found[2] <= 21


@pytest.mark.parametrize("n", [2, 3, 10, 40, 100])
def test_uniform_laws_end_and_are_optimal(n: int) -> None:
    """The assignment problem: every basis of the unperturbed problem is degenerate, with massive ties in the cost."""
    rng = np.random.default_rng(n)
    cost = rng.integers(0, 3, size=(n, n)).astype(float)
    uniform = np.full(n, 1.0 / n)
    found, plan = transport(uniform, uniform, cost)
    answer = linprog(
        cost.ravel(),
        A_eq=np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))]),
        b_eq=np.full(2 * n, 1.0 / n),
    )
    assert found.high[-1] == pytest.approx(answer.fun, abs=1e-9)
    assert (np.isclose(plan, 0.0, atol=1e-13) | np.isclose(plan, 1.0 / n)).all()


def test_constant_cost_ends() -> None:
    found, _ = transport(np.full(50, 0.02), np.full(50, 0.02), np.zeros((50, 50)))
    assert found.value[-1] == 0.0
    assert found.low[-1] == found.high[-1] == 0.0


def test_warm_start_finds_the_same_optimum_and_then_rests() -> None:
    rng = np.random.default_rng(3)
    x, y = random_chain(rng, 9, "dense"), random_chain(rng, 8, "peaked")
    problem = Problem(x, y, rng.random((9, 8)), 0.9)
    warm = Sweep(problem.unit, all_pairs(problem.unit), threads=1)
    for _ in range(5):
        V = rng.random((9, 8))
        first = warm.improve(V)
        cold = Sweep(problem.unit, all_pairs(problem.unit), threads=1).improve(V)
        assert first.changed > 0
        np.testing.assert_allclose(first.high, cold.high, atol=1e-13)
    assert warm.improve(V).changed == 0


def test_tiny_probabilities_keep_their_place() -> None:
    """Masses far below the integer resolution stay in the problem and change the value by no more than themselves."""
    p = np.array([1.0 - 3e-19, 1e-19, 2e-19])
    q = np.array([0.5, 0.25, 0.25])
    cost = np.arange(9.0).reshape(3, 3)
    found, plan = transport(p, q, cost)
    assert found.value[-1] == pytest.approx(float(q @ cost[0]), abs=1e-15)
    assert plan.shape == (3, 3)


def test_integer_masses_sum_to_the_total_and_are_positive() -> None:
    chain = MarkovChain([[1 - 1e-30, 1e-30, 0], [1 / 3, 1 / 3, 1 / 3], [0, 0, 1]], [0.1, 0.2, 0.7])
    rows = integer_rows(chain.support, 2**50)
    assert np.add.reduceat(rows.masses, chain.support.indptr[:-1]).tolist() == [2**50] * 4
    assert rows.masses.min() >= 1


def test_masses_stay_positive_where_the_largest_cannot_pay_for_all() -> None:
    """Most entries are lifted to 1, and together they take more than any single entry has."""
    p = np.concatenate([np.full(900, 1e-12), np.full(100, (1 - 9e-10) / 100)])
    rows = integer_rows(MarkovChain(np.eye(1000), p).support, 1024)
    assert rows.masses.min() >= 1
    assert rows.masses[-1000:].sum() == 1024


@pytest.mark.parametrize("n", [1, 2, 7, 1000, 30_000])
@pytest.mark.parametrize("total", [2**20, 2**40, 2**59])
def test_rounding_of_rows_is_bounded(n: int, total: int) -> None:
    """Against rationals: the sum of the floats, and the total variation between them and their masses."""
    rng = np.random.default_rng(n)
    for p in (np.full(n, 1.0 / n), rng.dirichlet(np.full(n, 0.3)) + 1e-15):
        chain = MarkovChain(eye_array(n), p, normalize=True)
        rows = integer_rows(chain.support, total)
        exact = [Fraction(float(value)) for value in chain.support.probabilities[n:]]
        assert abs(sum(exact, Fraction(0)) - 1) <= Fraction(float(rows.excess[-1]))
        kept = rows.masses[n:].tolist()
        whole = sum(exact, Fraction(0))
        apart = sum(abs(value / whole - Fraction(m, total)) for value, m in zip(exact, kept, strict=True))
        assert apart / 2 <= Fraction(float(rows.rounding[-1]))
        assert rows.excess[-1] <= 1e-14
        assert rows.rounding[-1] <= 2 * n / total + 1e-14


@pytest.mark.parametrize("shape", [(40, 1), (1, 40), (2, 2), (30, 2), (9, 8)])
def test_bounds_hold_in_exact_arithmetic(shape: tuple[int, int]) -> None:
    """Frozen chains: the start laws alone are transported, exactly in integers on the other side."""
    rng = np.random.default_rng(shape[0])
    for _ in range(4):
        p, q = (rng.dirichlet(np.ones(k)) for k in shape)
        cost = rng.integers(-8, 9, size=shape) / 4.0
        found, _ = transport(p, q, cost)
        a, b = exact_masses(p / p.sum())[1], exact_masses(q / q.sum())[1]
        total = sum(a) * sum(b)
        best, _ = exact_transport(
            [[int(4 * c) for c in row] for row in cost], [k * sum(b) for k in a], [k * sum(a) for k in b]
        )
        assert Fraction(found.low[-1]) <= Fraction(best, 4 * total) <= Fraction(found.high[-1])
        assert found.high[-1] - found.low[-1] <= 1e-11


@pytest.mark.parametrize("n", [3, 60, 100])
def test_plans_are_feasible_to_the_last_unit_of_mass(n: int) -> None:
    """Taking the perturbation out again leaves whole masses whose rows and columns add up, without rounding."""
    rng = np.random.default_rng(n)
    unit = 1 << (2 * n + 1).bit_length()
    for p in (np.full(n, 1.0 / n), rng.dirichlet(np.ones(n))):
        chains = MarkovChain(np.eye(n), p), MarkovChain(np.eye(4), rng.dirichlet(np.ones(4)))
        x, y = (integer_rows(chain.support, 2**61 // unit) for chain in chains)
        arcs = np.zeros(n + 3, dtype=np.int32), np.zeros(n + 3, dtype=np.int64)
        bases = Bases(np.array([0, n + 3]), *arcs, np.zeros(1, dtype=np.uint8))
        last = np.array([n], dtype=np.int32), np.array([4], dtype=np.int32)  # the initial distributions
        found = np.empty(1), np.empty(1), np.empty(1)
        optimise(np.arange(1), rng.random((n, 4)), *last, x, y, unit, bases, bases, *found)
        flows = (bases.flows + unit // 2) // unit
        rows, columns = np.zeros(n, dtype=np.int64), np.zeros(4, dtype=np.int64)
        np.add.at(rows, bases.cells // 4, flows)
        np.add.at(columns, bases.cells % 4, flows)
        assert flows.min() >= 0
        assert rows.tolist() == x.masses[-n:].tolist()
        assert columns.tolist() == y.masses[-4:].tolist()


def test_bits_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(0)
    x, y = random_chain(rng, 60, "dense"), random_chain(rng, 60, "dense")
    problem = Problem(x, y, rng.random((60, 60)), 0.9)
    runs = []
    for threads in (1, 2, 4):
        sweep = Sweep(problem.unit, all_pairs(problem.unit), threads)
        assert sweep.cells > 10_000_000, "the problem must be large enough to be cut"
        found = sweep.improve(problem.cost.copy())
        runs.append((found.high.tobytes(), found.low.tobytes(), sweep.kernel()[0].data.tobytes()))
    assert runs[0] == runs[1] == runs[2]
