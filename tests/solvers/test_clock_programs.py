"""Every clock against linear programs that are written from its definition."""

import itertools

import numpy as np
import pytest

import somcot
from somcot import ContinuousChain, MarkovChain, TimeChain
from tests.instances import Floats, random_problem
from tests.reference import clock_programs
from tests.solvers.test_relative import group_problem

# HiGHS takes coefficients below 1e-9 for 0, so no rows with such entries.
KINDS = ("dense", "sparse", "uniform", "permutation", "absorbing")
FEW, MANY = range(30), range(30, 430)


def agree(result: somcot.Result, value: float, cost: Floats) -> None:
    reach = float(np.ptp(cost)) or 1.0
    assert abs(result.distance - value) <= 1e-8 * max(reach, abs(value))
    assert result.bounds.low <= result.distance <= result.bounds.high
    assert result.bounds.high - result.bounds.low <= 1e-10 * max(reach, abs(value))
    assert result.converged


def average(seed: int) -> None:
    x, y, cost = group_problem(seed) if seed % 4 == 3 else random_problem(seed, largest=4, kinds=KINDS)[:3]
    agree(somcot.distance(x, y, cost, discount=1), clock_programs.average(x, y, cost), cost)


def ending_chain(rng: np.random.Generator, n: int) -> MarkovChain:
    """Steps of all kinds, and one or two states that are never left."""
    ends = int(rng.integers(1, 3)) if n > 1 else 1
    kernel = rng.random((n, n)) * (rng.random((n, n)) < 0.6)
    kernel[:, n - 1] += 0.1
    kernel[n - ends :] = np.eye(n)[n - ends :]
    return MarkovChain(kernel, rng.dirichlet(np.ones(n)), normalize=True)


def total(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (ending_chain(rng, int(rng.integers(1, 5))) for _ in range(2))
    cost = rng.normal(size=(x.n_states, y.n_states)) if seed % 2 else rng.random((x.n_states, y.n_states))
    agree(somcot.distance(x, y, cost, total=True), clock_programs.total(x, y, cost), cost)


def time_chain(rng: np.random.Generator, n_times: int) -> TimeChain:
    sizes = rng.integers(1, 4, size=n_times + 1)
    kernels = [rng.random(shape) * (rng.random(shape) < 0.7) for shape in itertools.pairwise(sizes)]
    for kernel in kernels:
        kernel[:, 0] += 0.05
    return TimeChain(kernels, rng.dirichlet(np.ones(sizes[0])), normalize=True)


def horizon(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_times = int(rng.integers(1, 4))
    x, y = time_chain(rng, n_times), time_chain(rng, n_times)
    costs = [rng.normal(size=(len(x.states[t]), len(y.states[t]))) for t in range(n_times)]
    everything = np.concatenate([cost.ravel() for cost in costs])
    agree(somcot.distance(x, y, costs, horizon=n_times), clock_programs.horizon(x, y, costs), everything)


def continuous_chain(rng: np.random.Generator, speed: float = 1.0) -> ContinuousChain:
    n = int(rng.integers(1, 5))
    rates = rng.random((n, n)) * (rng.random((n, n)) < 0.7) * speed
    np.fill_diagonal(rates, 0.0)
    np.fill_diagonal(rates, -rates.sum(axis=1))
    return ContinuousChain(rates, int(rng.integers(n)))


def rate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (continuous_chain(rng, 10.0 ** rng.integers(-1, 2)) for _ in range(2))
    cost, r = rng.random((x.n_states, y.n_states)), 10.0 ** rng.integers(-2, 2)
    agree(somcot.distance(x, y, cost, rate=r), clock_programs.rates(x, y, cost, r), cost)


CHECKS = {"average": average, "total": total, "horizon": horizon, "rate": rate}


@pytest.mark.parametrize("clock", CHECKS)
@pytest.mark.parametrize("seed", FEW)
def test_linear_programs(clock: str, seed: int) -> None:
    CHECKS[clock](seed)


@pytest.mark.slow
@pytest.mark.parametrize("clock", CHECKS)
@pytest.mark.parametrize("seed", MANY)
def test_linear_programs_on_many(clock: str, seed: int) -> None:
    CHECKS[clock](seed)
