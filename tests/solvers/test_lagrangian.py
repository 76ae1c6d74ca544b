"""The Lagrangian: gradients by finite differences, and the paper's lemma that the error is at most the gap."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from somcot import MarkovChain, streams
from somcot.problem import Problem
from somcot.solvers import lagrangian, somcot
from somcot.solvers.lagrangian import Dual, Instance, Primal
from somcot.solvers.policy_iteration import solve as exact
from somcot.solvers.somcot import algorithm
from somcot.steps import explicit

pytestmark = pytest.mark.filterwarnings("ignore:the run has not converged")  # runs are short


def random_instance(rng: np.random.Generator, n_x: int, n_y: int) -> tuple[MarkovChain, MarkovChain, Instance]:
    x = MarkovChain(rng.dirichlet(np.ones(n_x), size=n_x))
    y = MarkovChain(rng.dirichlet(np.ones(n_y), size=n_y))
    cost = rng.random((n_x, n_y))
    start = np.outer(x.initial, y.initial)
    return x, y, Instance(cost, np.asarray(x.occupancy(0.8)), np.asarray(y.occupancy(0.8)), start, 0.8)


def random_players(rng: np.random.Generator, n_x: int, n_y: int) -> tuple[Primal, Dual]:
    primal = Primal(
        rng.dirichlet(np.ones((n_x * n_y) ** 2)).reshape(n_x, n_y, n_x, n_y),
        rng.dirichlet(np.ones(n_y), size=n_x),
        rng.dirichlet(np.ones(n_x), size=n_y),
    )
    shapes = ((n_x, n_x, n_y), (n_x, n_y, n_y), (n_x, n_y))
    return primal, Dual(*(rng.normal(size=shape) for shape in shapes))


def test_gradients_are_finite_differences() -> None:
    rng = np.random.default_rng(0)
    _, _, instance = random_instance(rng, 3, 2)
    primal, dual = random_players(rng, 3, 2)
    by_primal, by_dual = lagrangian.gradients(instance, primal, dual)
    for i, gradient in enumerate([*by_primal, *by_dual]):
        direction = rng.normal(size=gradient.shape)
        values = []
        for h in (1e-4, -1e-4):
            parts = [*primal, *dual]
            parts[i] = parts[i] + h * direction
            values.append(lagrangian.value(instance, Primal(*parts[:3]), Dual(*parts[3:])))
        slope = (values[0] - values[1]) / 2e-4
        assert slope == pytest.approx(float((gradient * direction).sum()), rel=1e-8, abs=1e-10)


def test_one_reference_step_follows_these_gradients() -> None:
    """With samples in their exact proportions, Algorithm 2's step is a step along the gradients."""
    quarter = np.full((2, 2), 0.25)
    instance = Instance(np.array([[0.0, 1.0], [0.7, 0.2]]), quarter, quarter, quarter, 0.8)
    rng = np.random.default_rng(1)
    _, dual = random_players(rng, 2, 2)
    z = replace(algorithm.first(2, 2), **dual._asdict())
    given = algorithm.Given(instance.cost, instance.start, 0.8, explicit(0.1, 0.2))
    pairs = [(a, b) for a in range(2) for b in range(2)]
    after = algorithm.step(z, 1, pairs, pairs, given)
    by_primal, by_dual = lagrangian.gradients(instance, Primal(z.mu, z.lambda_x, z.lambda_y), dual)
    np.testing.assert_allclose(after.alpha_x, dual.alpha_x + 0.2 * by_dual.alpha_x)
    np.testing.assert_allclose(after.alpha_y, dual.alpha_y + 0.2 * by_dual.alpha_y)
    np.testing.assert_allclose(after.V, dual.V + 0.2 * by_dual.V)
    shift = after.log_mu - (z.log_mu - 0.1 * by_primal.mu)
    np.testing.assert_allclose(shift, shift.flat[0])
    shift = after.log_lambda_x - (z.log_lambda_x - 0.1 * by_primal.lambda_x)
    np.testing.assert_allclose(shift, np.broadcast_to(shift[:, :1], shift.shape))


def test_feasible_couplings_make_the_lagrangian_their_cost() -> None:
    rng = np.random.default_rng(2)
    x, y, instance = random_instance(rng, 3, 4)
    best = optimum(x, y, instance)
    cost = (best.mu.sum(axis=(2, 3)) * instance.cost).sum()
    for _ in range(5):
        _, dual = random_players(rng, 3, 4)
        assert lagrangian.value(instance, best, dual) == pytest.approx(cost, abs=1e-9)


@pytest.mark.parametrize("n_steps", [1, 10, 300])
@pytest.mark.parametrize("seed", range(4))
def test_error_is_at_most_the_gap(n_steps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, instance = random_instance(rng, 3, 2)
    best = optimum(x, y, instance)
    truth = (best.mu.sum(axis=(2, 3)) * instance.cost).sum()
    result = somcot.finish(
        somcot.advance(
            somcot.init(
                instance.cost,
                discount=0.8,
                n_steps=n_steps,
                primal_step=0.5,
                dual_step=0.1,
                average=1.0,
                keep_coupling=True,
            ),
            streams.from_chain(x, 0.8, rng).draw(n_steps),
            streams.from_chain(y, 0.8, rng).draw(n_steps),
        )
    )
    assert result.duals is not None
    primal = Primal(result.coupling(), result.encoder, result.decoder)
    worst = lagrangian.best_dual(instance, primal)
    gap = lagrangian.duality_gap(instance, primal, Dual(*result.duals), best, worst)
    assert abs(result.distance - truth) <= gap
    assert gap == pytest.approx(
        result.distance - truth + instance.cost.max() / 0.2 * weighted(residuals(instance, primal)), rel=1e-6
    )


def weighted(parts: tuple[float, float, float]) -> float:
    return 2 * parts[0] + 6 * parts[1] + 6 * parts[2]


def residuals(instance: Instance, primal: Primal) -> tuple[float, float, float]:
    _, by_dual = lagrangian.gradients(instance, primal, Dual(*(np.zeros(s) for s in dual_shapes(instance))))
    return tuple(float(np.abs(part).sum()) for part in (by_dual.V, by_dual.alpha_x, by_dual.alpha_y))  # type: ignore[return-value]


def dual_shapes(instance: Instance) -> tuple[Any, ...]:
    n_x, n_y = instance.cost.shape
    return (n_x, n_x, n_y), (n_x, n_y, n_y), (n_x, n_y)


def optimum(x: MarkovChain, y: MarkovChain, instance: Instance) -> Primal:
    result = exact(Problem(x, y, instance.cost, instance.discount))
    return Primal(result.coupling(), result.encoder, result.decoder)
