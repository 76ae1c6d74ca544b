"""The flow-constrained maximum-likelihood chain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import LinearConstraint, minimize
from scipy.sparse import csr_array

from somcot import costs, distance
from somcot.chains import MarkovChain, random_walk
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import ConvergenceWarning
from somcot.recorded.flow import FlowStatus, flow_mle
from tests.notes import noted


def dense(matrix: object) -> Floats:
    return matrix.toarray() if isinstance(matrix, csr_array) else np.asarray(matrix)


def flow_violation(nu: Floats, initial: Floats, discount: float) -> float:
    return float(np.abs(nu.sum(axis=1) - discount * nu.sum(axis=0) - (1 - discount) * initial).sum())


def exact_occupancy(chain: MarkovChain, discount: float) -> Floats:
    kernel = dense(chain.transition)
    visits = np.linalg.solve(np.eye(len(kernel)) - discount * kernel.T, (1 - discount) * chain.initial)
    return np.asarray(visits[:, None] * kernel)


def drawn_counts(chain: MarkovChain, n: int, discount: float, rng: np.random.Generator) -> Floats:
    table = np.zeros((chain.n_states, chain.n_states))
    np.add.at(table, chain.draw_occupancy(n, discount, rng), 1)
    return table


def best_likelihood(counts: Floats, initial: Floats | None, discount: float) -> float:
    """Maximise over nu directly with a general solver."""
    rows, columns = np.nonzero(counts)
    weights = counts[rows, columns] / counts.sum()
    n, m = len(counts), len(rows)
    flow = np.zeros((n, m))
    np.add.at(flow, (rows, np.arange(m)), 1.0)
    np.add.at(flow, (columns, np.arange(m)), -discount)
    if initial is None:
        limits = [LinearConstraint(flow, 0.0, np.inf), LinearConstraint(np.ones((1, m)), 1.0, 1.0)]
    else:
        limits = [LinearConstraint(flow, (1 - discount) * initial, (1 - discount) * initial)]
    found = minimize(
        lambda nu: -weights @ np.log(np.maximum(nu, 1e-300)),
        weights,
        jac=lambda nu: -weights / np.maximum(nu, 1e-300),
        method="SLSQP",
        bounds=[(1e-9, 1.0)] * m,
        constraints=limits,
        options={"maxiter": 500, "ftol": 1e-14},
    )
    assert found.success, found.message
    return float(-found.fun)


def likelihood(counts: Floats, nu: Floats) -> float:
    seen = counts > 0
    return float((counts[seen] / counts.sum()) @ np.log(nu[seen]))


positive_counts = arrays(np.int64, (3, 3), elements=st.integers(1, 30))


@settings(max_examples=25, deadline=None, phases=[Phase.generate])
@given(positive_counts, st.sampled_from([0.5, 0.9, 0.95]), st.booleans())
def test_nothing_is_likelier(counts: Floats, discount: float, known: bool) -> None:
    initial = np.array([0.7, 0.3, 0.0]) if known else None
    fit = flow_mle(counts, initial, discount)
    best = best_likelihood(counts, initial, discount)
    assert likelihood(counts, dense(fit.nu)) == pytest.approx(best, abs=1e-7)


@settings(max_examples=100, deadline=None)
@given(
    arrays(np.int64, (4, 4), elements=st.integers(0, 5)).filter(lambda c: c.sum() > 0),
    st.sampled_from([0.1, 0.9, 0.99, 0.9999]),
    st.booleans(),
)
def test_flow_and_kernel_agree_for_any_counts(counts: Floats, discount: float, known: bool) -> None:
    initial = np.array([0.5, 0.5, 0.0, 0.0]) if known else None
    fit = flow_mle(counts, initial, discount)
    nu = dense(fit.nu)
    assert fit.status is FlowStatus.CONVERGED
    assert flow_violation(nu, fit.chain.initial, discount) < 1e-10
    assert nu.sum() == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(exact_occupancy(fit.chain, discount), nu, atol=1e-8)


def test_multipliers_give_the_occupancy() -> None:
    counts, discount = np.array([[4.0, 6.0], [5.0, 1.0]]), 0.9
    fit = flow_mle(counts, [1, 0], discount)
    np.testing.assert_allclose(counts / 16 / (fit.u[:, None] - discount * fit.u), fit.nu, rtol=1e-10)


@pytest.mark.parametrize("known", [True, False])
def test_many_samples_give_the_true_chain(known: bool) -> None:
    chain = MarkovChain(np.random.default_rng(3).dirichlet(np.ones(4), 4), 2)
    counts = 1e12 * exact_occupancy(chain, 0.9)
    fit = flow_mle(counts, chain.initial if known else None, 0.9)
    np.testing.assert_allclose(fit.chain.transition, chain.transition, atol=1e-7)
    np.testing.assert_allclose(fit.chain.initial, chain.initial, atol=1e-6)


def test_sparse_and_dense_fits_agree() -> None:
    rng = np.random.default_rng(0)
    chain = random_walk(250, 0.5, start=120)
    counts = drawn_counts(chain, 20_000, 0.99, rng)
    large = flow_mle(csr_array(counts), chain.initial, 0.99)
    seen = np.flatnonzero(counts.sum(axis=0) + counts.sum(axis=1))
    assert len(seen) < 200 < len(counts)
    small = flow_mle(counts[np.ix_(seen, seen)], chain.initial[seen], 0.99)
    assert isinstance(large.nu, csr_array)
    np.testing.assert_allclose(large.nu.toarray()[np.ix_(seen, seen)], small.nu, atol=1e-11)


def test_large_sparse_fit_converges() -> None:
    chain = random_walk(600, 0.5, start=300)
    fit = flow_mle(csr_array(1e6 * exact_occupancy(chain, 0.9999)), chain.initial, 0.9999)
    assert fit.chain.is_sparse
    assert fit.status is FlowStatus.CONVERGED
    assert np.abs(dense(fit.chain.transition) - dense(chain.transition)).max() < 1e-6


def test_state_entered_but_never_left_keeps_to_itself() -> None:
    fit = flow_mle([[3, 2, 0], [0, 0, 0], [0, 0, 0]], [1, 0, 0], 0.9)
    np.testing.assert_array_equal(dense(fit.chain.transition)[1:], [[0, 1, 0], [0, 0, 1]])
    assert np.isnan(fit.u).tolist() == [False, False, True]


def test_part_that_is_cut_off_is_joined_where_it_is_likeliest() -> None:
    counts = np.zeros((4, 4))
    counts[0, 0], counts[0, 1], counts[1, 0], counts[1, 1] = 5, 5, 1, 1
    counts[2, 3], counts[3, 2] = 40, 40
    fit = flow_mle(counts, [1, 0, 0, 0], 0.99)
    assert len(fit.assumed) == 1
    assert fit.assumed[0, 0] in (0, 1)
    assert fit.assumed[0, 1] in (2, 3)
    assert dense(fit.nu)[2:].sum() > 0.5
    assert flow_violation(dense(fit.nu), fit.chain.initial, 0.99) < 1e-10


def test_start_state_that_was_never_sampled_leads_to_the_data() -> None:
    chain = random_walk(5, 0.7)
    counts = exact_occupancy(chain, 0.99)[1:, 1:]
    counts = np.pad(np.round(1000 * counts), ((1, 0), (1, 0)))
    fit = flow_mle(counts, chain.initial, 0.99)
    assert fit.status is FlowStatus.CONVERGED
    assert dense(fit.nu)[0].sum() < 0.2


def test_failure_is_said_and_gives_row_sums() -> None:
    counts = np.array([[50.0, 1.0], [1.0, 2.0]])
    with noted("flow-fit-failed", ConvergenceWarning, iterations=1, status="step limit"):
        fit = flow_mle(counts, [0, 1], 0.9, max_iterations=1)
    assert fit.status is FlowStatus.STEP_LIMIT
    np.testing.assert_allclose(fit.chain.transition, counts / counts.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(fit.chain.initial, [0, 1])
    with pytest.warns(ConvergenceWarning):
        assert flow_mle(counts, None, 0.9, max_iterations=1).chain.initial.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("counts", "initial", "discount", "message"),
    [
        ([[1, 2, 3], [1, 2, 3]], None, 0.9, "counts: shape is"),
        ([[0, 0], [0, 0]], None, 0.9, "counts: found no transition"),
        ([[1, -2], [0, 1]], None, 0.9, r"counts: entry \(0, 1\) is -2"),
        ([[1, np.nan], [0, 1]], None, 0.9, r"counts: entry \(0, 1\) is nan"),
        (csr_array(np.array([[1, np.inf], [0, 1]])), None, 0.9, "counts: entry 1 is inf"),
        ([[1, 2], [0, 1]], [0.5, 0.4], 0.9, "initial: probabilities sum to 0.9"),
        ([[1, 2], [0, 1]], [1.0], 0.9, "initial: found 1 probabilities for 2"),
        ([[1, 2], [0, 1]], None, 1.0, "discount: found 1.0"),
    ],
)
def test_bad_input_is_named(counts: object, initial: object, discount: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        flow_mle(counts, initial, discount)  # type: ignore[arg-type]


@pytest.mark.statistical
def test_visits_sharpen_the_distance() -> None:
    """Walks of 10 states, theta .5 and .7, discount .99: mean error .007, where row sums give .04."""
    x, y, discount = random_walk(10, 0.5), random_walk(10, 0.7), 0.99
    reward = np.array([1.0] + [0.0] * 8 + [-1.0])
    cost = costs.absolute(reward, reward)
    true = float(distance(x, y, cost, discount=discount))
    rng = np.random.default_rng(1)
    fitted, counted = [], []
    for _ in range(12):
        tables = [drawn_counts(chain, 10_000, discount, rng) for chain in (x, y)]
        a, b = (flow_mle(table, x.initial, discount).chain for table in tables)
        fitted.append(abs(float(distance(a, b, cost, discount=discount)) - true))
        a, b = (MarkovChain(table, x.initial, normalize=True) for table in tables)
        counted.append(abs(float(distance(a, b, cost, discount=discount)) - true))
    assert np.mean(fitted) < 0.015
    assert np.mean(fitted) < 0.5 * np.mean(counted)
