"""The deterministic saddle point agrees with the exact solution when run long, and with the Lagrangian's gradients."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import Status
from tests.data_instances import family, truth
from tests.instances import blocks, random_problem, walks


@pytest.mark.parametrize("seed", range(20))
def test_agrees_with_the_exact_distance(seed: int) -> None:
    """All families, sizes and start laws; error relative to the range of the cost."""
    x, y, cost, discount = random_problem(seed, largest=5)
    exact = somcot.distance(x, y, cost, discount=discount)
    found = somcot.distance(x, y, cost, discount=discount, method="saddle", tolerance=1e-5, max_steps=16_000)
    scale = max(float(np.ptp(cost)), 1e-12)
    assert abs(found.distance - exact.distance) / scale <= 2e-3
    low, high = found.bounds
    assert low <= exact.bounds.high
    assert exact.bounds.low <= high
    assert low <= found.distance <= high
    assert high - low <= 0.01 * scale
    assert max(found.residuals) <= 0.01
    np.testing.assert_allclose(found.encoder.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(found.decoder.sum(axis=1), 1.0, atol=1e-9)
    assert found.coupling().sum() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("discount", [0.9, 0.99])
def test_walks_and_blocks(discount: float) -> None:
    for problem in (walks(5, 0.7), walks(8, 0.3), blocks(5, 3, 0.5)):
        exact = somcot.distance(*problem, discount=discount).distance
        found = somcot.distance(*problem, discount=discount, method="saddle", tolerance=1e-5, max_steps=16_000)
        assert found.distance == pytest.approx(exact, abs=2e-3)


def test_longer_runs_come_closer() -> None:
    x, y, cost = walks(5, 0.7)
    exact = somcot.distance(x, y, cost, discount=0.95).distance
    errors = [
        abs(
            somcot.distance(x, y, cost, discount=0.95, method="saddle", tolerance=1e-12, max_steps=steps).distance
            - exact
        )
        for steps in (500, 4000, 32_000)
    ]
    assert errors[2] < 0.1 * errors[0]
    assert errors[2] <= 1e-4


def test_status_and_trace() -> None:
    x, y, cost = walks(5, 0.7)
    short = somcot.distance(x, y, cost, discount=0.95, method="saddle", tolerance=1e-9, max_steps=700)
    assert short.status is Status.STEP_LIMIT
    assert short.trace["step"].tolist() == [500, 700]
    assert "raise max_steps" in short.message
    done = somcot.distance(x, y, cost, discount=0.95, method="saddle", tolerance=0.05)
    assert done.converged
    assert done.trace["violation"][-1] <= 0.05


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_whether_it_converged_does_not_depend_on_the_unit_of_the_cost(scale: float) -> None:
    x, y, cost = walks(4, 0.7)
    for max_steps in (50, 100_000):
        one, other = (
            somcot.distance(x, y, c, discount=0.9, method="saddle", max_steps=max_steps) for c in (cost, scale * cost)
        )
        assert one.status is other.status
        assert other.distance == pytest.approx(scale * one.distance, rel=1e-9)


def test_stopping_at_the_noise_cuts_the_bias_at_zero() -> None:
    f = family("rw5_0.5@0.9")
    stopped, plain = [], []
    for seed in range(6):
        a, b = (c.sample_occupancy(3000, 0.9, rng=2 * seed + i) for i, c in enumerate((f.x, f.y)))
        found = somcot.distance(a, b, f.cost, discount=0.9, method="saddle", stop_at_noise=0.25)
        assert found.converged
        assert found.samples == (3000, 3000)
        stopped.append(found.distance)
        plain.append(somcot.distance(a, b, f.cost, discount=0.9, method="plugin").distance)
    assert truth("rw5_0.5@0.9") == 0.0
    assert np.mean(stopped) <= 0.6 * np.mean(plain)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 0}, "tolerance: found 0.0, expected a finite number above 0"),
        ({"primal_step": -1.0}, "primal_step: found -1.0"),
        ({"max_steps": 0}, "max_steps: found 0, expected at least 1"),
        ({"stop_at_noise": 0.25}, "stop_at_noise: both processes are known chains without noise; use tolerance="),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    x, y, cost = walks(3, 0.7)
    with warnings.catch_warnings(), pytest.raises(ValueError, match=message):
        somcot.distance(x, y, cost, discount=0.9, method="saddle", **options)
