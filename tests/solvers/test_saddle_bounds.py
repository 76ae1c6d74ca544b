"""The bracket of the saddle point holds whatever point it is computed from, and comes from that point alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import somcot
from somcot.core.pairs import reachable_pairs
from somcot.problem import Problem
from somcot.solvers import saddle
from somcot.solvers import saddle as bounds
from tests.instances import Floats, random_problem, walks


def exact(problem: Problem) -> float:
    """In units of the unit cost."""
    found = somcot.distance(problem.x, problem.y, problem.cost, discount=problem.discount).distance
    return (found - problem.offset) / problem.scale


@pytest.mark.parametrize("seed", range(30))
def test_any_potential_and_any_coupling_give_true_bounds(seed: int) -> None:
    problem = Problem(*random_problem(seed, largest=5))
    truth = exact(problem)
    rng = np.random.default_rng(seed)
    run = saddle.SaddleRun(problem)
    pairs = reachable_pairs(problem.unit)
    for size in (0.0, 0.1, 1.0, 10.0):
        V = size * rng.standard_normal(len(pairs)) / (1.0 - problem.discount)
        assert bounds.lower_bound(problem, pairs, V) <= truth + 1e-10
        mu = rng.random(int(run.layout.cells[-1])) ** (1.0 + size)
        mu[rng.random(mu.size) < 0.3] = 0.0
        assert bounds.upper_bound(problem, pairs, run.layout, mu) >= truth - 1e-10


def test_the_optimal_potential_gives_the_distance_itself() -> None:
    for seed in range(10):
        problem = Problem(*random_problem(seed, largest=5))
        pairs = reachable_pairs(problem.unit)
        best = somcot.metric(problem.x, problem.y, problem.unit_cost, discount=problem.discount)
        V = best[pairs.x, pairs.y] / (1.0 - problem.discount)
        assert bounds.lower_bound(problem, pairs, V) == pytest.approx(exact(problem), abs=1e-7)


def test_rounded_plans_have_the_marginals_of_the_chains() -> None:
    run = saddle.SaddleRun(Problem(*walks(5, 0.7), 0.9))
    layout = run.layout
    rng = np.random.default_rng(0)
    mu = rng.random(int(layout.cells[-1]))
    mu[: layout.cells[1]] = 0.0
    plan = bounds.rounded(layout, mu)
    assert plan.min() >= 0.0
    np.testing.assert_allclose(np.bincount(layout.row, plan), layout.kernel_x, atol=1e-14)
    np.testing.assert_allclose(np.bincount(layout.column, plan), layout.kernel_y, atol=1e-14)


@pytest.mark.parametrize("discount", [0.001, 0.5, 0.99])
def test_the_distance_lies_in_its_bracket(discount: float) -> None:
    for seed in range(25):
        x, y, cost, _ = random_problem(seed, largest=4)
        found = somcot.distance(x, y, cost, discount=discount, method="saddle", max_steps=500)
        truth = somcot.distance(x, y, cost, discount=discount)
        assert found.bounds.low <= found.distance <= found.bounds.high
        assert found.bounds.low <= truth.bounds.high
        assert truth.bounds.low <= found.bounds.high


def test_longer_runs_prove_more() -> None:
    x, y, cost = walks(5, 0.7)
    widths = []
    for steps in (500, 4000, 32_000):
        low, high = somcot.distance(x, y, cost, discount=0.95, method="saddle", tolerance=1e-12, max_steps=steps).bounds
        widths.append(high - low)
    assert widths[2] < 0.1 * widths[0]
    assert widths[2] <= 1e-3


def test_no_other_solver_takes_part() -> None:
    others = ("policy_iteration", "linear_program", "sinkhorn", "somcot")
    code = (
        "import sys, somcot.solvers.saddle; "
        f"print([name for name in {others} if f'somcot.solvers.{{name}}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("moved", [-0.01, 0.01])
def test_occupancies_that_are_off_do_not_make_the_lower_bound_false(
    moved: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against one state the bound is the distance itself, so mass on the wrong state would push it over."""
    x, one = somcot.MarkovChain([[0.5, 0.5], [0.2, 0.8]]), somcot.MarkovChain([[1.0]])
    problem = Problem(x, one, np.array([[0.0], [1.0]]), 0.9)
    pairs = reachable_pairs(problem.unit)
    truth = exact(problem)
    V = np.zeros(len(pairs))
    assert bounds.lower_bound(problem, pairs, V) == pytest.approx(truth, abs=1e-12)
    right = somcot.MarkovChain.state_occupancy

    def wrong(self: somcot.MarkovChain, discount: float) -> Floats:
        law = right(self, discount)
        return law + moved * np.array([1.0, -1.0]) if len(law) == 2 else law

    monkeypatch.setattr(somcot.MarkovChain, "state_occupancy", wrong)
    assert truth - 1.0 <= bounds.lower_bound(problem, pairs, V) <= truth


def test_small_violations_without_a_bracket_are_no_convergence(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, cost = walks(5, 0.7)
    assert somcot.distance(x, y, cost, discount=0.9, method="saddle").converged
    monkeypatch.setattr(saddle, "_TARGET", 1e-3)
    wide = somcot.distance(x, y, cost, discount=0.9, method="saddle")
    assert wide.status is somcot.Status.STEP_LIMIT
    assert "lower tolerance" in wide.message


def test_plans_with_rows_far_below_their_mass_are_rounded_without_a_warning() -> None:
    run = saddle.SaddleRun(Problem(*walks(3, 0.7), 0.9))
    mu = np.full(int(run.layout.cells[-1]), 1e-320)
    mu[0] = 1.0
    plan = bounds.rounded(run.layout, mu)
    np.testing.assert_allclose(np.bincount(run.layout.row, plan), run.layout.kernel_x, atol=1e-14)
