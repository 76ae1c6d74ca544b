"""The linear programs: refusals and by-products; their values are checked in test_exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import OptimizeResult, linprog

import somcot
from somcot.plumbing.errors import NotSolvedError
from somcot.plumbing.memory import MemoryLimitError
from tests.campaign.families import nasty
from tests.instances import Floats, blocks, walks


def test_too_large_is_refused() -> None:
    chain = somcot.MarkovChain(np.full((20, 20), 0.05))
    with pytest.raises(
        ValueError, match=r"lp: the program has 160,000 variables, the limit is 30,000; use method='exact'"
    ):
        somcot.distance(chain, chain, np.zeros((20, 20)), discount=0.9, method="lp")


def test_unknown_formulation_is_refused() -> None:
    with pytest.raises(ValueError, match="formulation: found 'dual', expected 'lambda' or 'kernel'"):
        somcot.distance(*walks(3, 0.7), discount=0.9, method="lp", formulation="dual")


@pytest.mark.parametrize("formulation", ["lambda", "kernel"])
def test_paper_sized_block_chain(formulation: str) -> None:
    lp = somcot.distance(*blocks(6, 3, 0.7), discount=0.95, method="lp", formulation=formulation)
    exact = somcot.distance(*blocks(6, 3, 0.7), discount=0.95)
    assert lp.distance == pytest.approx(exact.distance, abs=1e-9)
    assert lp.bounds.high - lp.bounds.low <= 1e-6
    assert max(lp.residuals) <= 1e-9
    np.testing.assert_allclose(lp.encoder.sum(axis=1), 1.0, atol=1e-9)


def test_rarely_visited_states_do_not_make_it_infeasible() -> None:
    """Occupancies fall to 1e-13 along this walk."""
    lp = somcot.distance(*walks(40, 0.3), discount=0.95, method="lp", time_limit=600.0)
    assert lp.distance == pytest.approx(somcot.distance(*walks(40, 0.3), discount=0.95).distance, abs=1e-7)


@pytest.mark.parametrize("formulation", ["lambda", "kernel"])
@pytest.mark.parametrize("tiny", [5e-324, 1e-300, 1e-19])
def test_probabilities_beyond_the_solver_are_left_out(tiny: float, formulation: str) -> None:
    x = somcot.MarkovChain([[1.0, tiny], [0.0, 1.0]])
    one = somcot.MarkovChain([[1.0]])
    lp = somcot.distance(x, one, [[0.0], [1.0]], discount=0.5, method="lp", formulation=formulation)
    assert lp.converged
    assert 0.0 <= lp.bounds.low <= lp.distance <= lp.bounds.high <= 1e-9


def test_memory_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "1M")
    with pytest.raises(MemoryLimitError, match=r"a linear program of .* variables needs about .*use method='exact'"):
        somcot.distance(*walks(12, 0.7), discount=0.9, method="lp")


def test_a_program_that_is_given_up_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for want of time: then nothing is said about time."""
    failed = OptimizeResult(status=4, message="(HiGHS Status 2: Model error)", x=None)
    monkeypatch.setattr("scipy.optimize.linprog", lambda *args, **options: failed)
    with pytest.raises(NotSolvedError, match=r"variables \(\(HiGHS Status 2: Model error\)\); use method='exact'"):
        somcot.distance(*walks(3, 0.7), discount=0.9, method="lp")


def test_the_bracket_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coupling and prices of another cost prove little, and the bracket shows it."""
    x, y, cost = walks(4, 0.7)

    def wrong(objective: Floats, **options: Any) -> Any:
        return linprog(objective[::-1].copy(), **options)

    monkeypatch.setattr("scipy.optimize.linprog", wrong)
    lp = somcot.distance(x, y, cost, discount=0.9, method="lp")
    assert not lp.converged
    assert "method='exact' is more accurate" in lp.message
    assert lp.bounds.low <= somcot.distance(x, y, cost, discount=0.9).distance <= lp.bounds.high
    assert lp.bounds.high - lp.bounds.low > 1e-3


def test_time_limit_is_an_error_that_says_so() -> None:
    rng = np.random.default_rng(0)
    x, y = (somcot.MarkovChain(rng.random((12, 12)), normalize=True) for _ in range(2))
    with pytest.raises(RuntimeError, match="raise time_limit or use method='exact'"):
        somcot.distance(x, y, rng.random((12, 12)), discount=0.95, method="lp", time_limit=1e-3)


@pytest.mark.parametrize("formulation", ["lambda", "kernel"])
def test_tiny_probabilities(formulation: str) -> None:
    """HiGHS drops coefficients below 1e-9; rows are scaled so that it has no reason to."""
    rng = np.random.default_rng(0)
    for _ in range(8):
        kernel = rng.dirichlet(np.ones(4), size=4)
        kernel[:, 0] = rng.uniform(1e-10, 1e-9, size=4)
        x = somcot.MarkovChain(kernel, normalize=True)
        y = somcot.MarkovChain(rng.dirichlet(np.ones(4), size=4))
        cost = rng.random((4, 4))
        lp = somcot.distance(x, y, cost, discount=0.9, method="lp", formulation=formulation)
        assert lp.distance == pytest.approx(somcot.distance(x, y, cost, discount=0.9).distance, abs=1e-7)


def test_costs_over_hundreds_of_orders_of_magnitude() -> None:
    """HiGHS gives up at its tightest tolerance; with its usual one the answer still proves itself."""
    problem = nasty(1_010_590)
    found = somcot.distance(problem.x, problem.y, problem.cost, discount=problem.discount, method="lp")
    exact = somcot.distance(problem.x, problem.y, problem.cost, discount=problem.discount)
    assert found.converged
    assert found.bounds.low <= exact.bounds.high
    assert exact.bounds.low <= found.bounds.high
