"""SOMCOT: both kernels beside a plain dense NumPy transcription of Algorithm 2, one thread, in turns, as ratios.

All rows of mu carry mass in the small-step setting, so nothing is left out. The plain version is
`somcot.solvers.somcot.algorithm`, Algorithm 2 as printed, in logs and with the running mean of mu. The lean version
beside it is the same in place and with one exponential of the tensor for a step: about what careful NumPy can do
without taking mu apart.

``--sizes``: one iteration of the default beside one step of Algorithm 2 as the former default took it, and how long
either takes to come within 0.01 of the true distance.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from tests.instances import Floats, blocks, walks
from threadpoolctl import threadpool_limits

from benchmarks import accuracy
from somcot import MarkovChain, distance, steps, streams
from somcot.solvers import somcot
from somcot.solvers.somcot import algorithm, averages, counted
from somcot.solvers.somcot.fold import Batch, run_kernel
from somcot.solvers.somcot.state import State
from somcot.steps import explicit


class Case(NamedTuple):
    """A size with the step sizes of the paper's table, and how many steps of each kind make one turn."""

    name: str
    x: MarkovChain
    y: MarkovChain
    cost: Floats
    decay: float
    beta: float
    n_plain: int
    n_full: int
    n_observed: int


def cases(largest: int) -> list[Case]:
    found = [
        Case("10 x 10", *walks(10, 0.7), 0.001, 0.5, 40, 200, 500),
        Case("10 x 50", *blocks(10, 5, 0.7), 0.001, 0.5, 8, 60, 120),
        Case("49 x 49", *walks(49, 0.7), 0.05, 0.2, 1, 15, 150),
        Case("100 x 100", *walks(100, 0.7), 0.05, 0.2, 1, 3, 30),
    ]
    return [case for case in found if case.cost.size <= largest**2]


class Plain:
    """Algorithm 2 as printed, with the running mean of mu."""

    def __init__(self, cost: Floats, start: Floats, discount: float, eta: float, decay: float, beta: float) -> None:
        self.given = algorithm.Given(cost, start, discount, explicit(eta, beta, decay), float(cost.max()))
        n_x, n_y = cost.shape
        self.z, self.k, self.mean = algorithm.first(n_x, n_y), 0, np.zeros((n_x, n_y, n_x, n_y))

    def step(self, x: int, next_x: int, y: int, next_y: int) -> None:
        """One iteration."""
        self.k += 1
        self.mean += (self.z.mu - self.mean) / self.k
        self.z = algorithm.step(self.z, self.k, [(x, next_x)], [(y, next_y)], self.given)


class Lean:
    """The same on arrays changed in place, batch 1, tied rates."""

    def __init__(self, cost: Floats, start: Floats, discount: float, eta: float, decay: float, beta: float) -> None:
        n_x, n_y = cost.shape
        self.cost, self.start, self.discount, self.rates = cost, start, discount, (eta, decay, beta)
        self.log_mu, self.mean, self.k = np.zeros((n_x, n_y, n_x, n_y)), np.zeros((n_x, n_y, n_x, n_y)), 0
        self.log_x, self.log_y = np.zeros((n_x, n_y)), np.zeros((n_y, n_x))
        self.alpha_x, self.alpha_y = np.zeros((n_x, n_y, n_x)), np.zeros((n_x, n_y, n_y))
        self.V = np.zeros((n_x, n_y))

    def step(self, x: int, next_x: int, y: int, next_y: int) -> None:
        """One iteration."""
        eta, decay, beta = self.rates
        self.k += 1
        eta /= np.sqrt(1 + decay * self.k)
        radius = self.cost.max() / (1 - self.discount)
        self.log_mu -= self.log_mu.max()
        mu = np.exp(self.log_mu)
        mu /= mu.sum()
        self.mean += (mu - self.mean) / self.k
        lambda_x, lambda_y = (np.exp(log - log.max()) for log in (self.log_x[x], self.log_y[y]))
        g_x, g_y = mu.sum(axis=3), mu.sum(axis=2)
        g_V = g_x.sum(axis=2) - (1 - self.discount) * self.start - self.discount * mu.sum(axis=(0, 1))
        g_x[x, :, next_x] -= lambda_x / lambda_x.sum()
        g_y[:, y, next_y] -= lambda_y / lambda_y.sum()
        gradient = (self.cost - self.V)[:, :, None, None] - self.alpha_x[..., None] - self.alpha_y[:, :, None, :]
        self.log_mu -= eta * (gradient + self.discount * self.V)
        self.log_x[x] -= eta * self.alpha_x[x, :, next_x]
        self.log_y[y] -= eta * self.alpha_y[:, y, next_y]
        self.alpha_x = np.clip(self.alpha_x - beta * g_x, -6 * radius, 6 * radius)
        self.alpha_y = np.clip(self.alpha_y - beta * g_y, -6 * radius, 6 * radius)
        self.V = np.clip(self.V - beta * g_V, -2 * radius, 2 * radius)


def report(largest: int = 100, turns: int = 5) -> str:
    """Measure all cases and return Markdown."""
    lines = [
        "## SOMCOT, time of one step",
        "",
        "Microseconds, minimum over turns; eta 0.1, discount 0.95. Ratios: to the direct transcription of Algorithm 2,",
        "in parentheses to the optimised one.",
        "",
        "| states | NumPy | optimised NumPy | full support | ratio | of GEMM limit | observed support | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    with threadpool_limits(1):
        peak = _gemm_flops()
        for case in cases(largest):
            plain, lean, full, observed = _measure(case, turns if case.cost.size < 5000 else 3)
            limit = 6 * case.cost.size**2 / peak
            lines.append(
                f"| {case.name} | {1e6 * plain:,.0f} | {1e6 * lean:,.0f} | {1e6 * full:,.1f} | "
                f"{plain / full:,.0f} ({lean / full:,.0f}) | {limit / full:.0%} | {1e6 * observed:,.1f} | "
                f"{plain / observed:,.0f} ({lean / observed:,.0f}) |"
            )
        lines += [
            "",
            f"GEMM limit: 6 n_x^2 n_y^2 flops at the {peak / 1e9:.0f} GF/s of a 512 x 512 product.",
            "",
            _large(),
        ]
    return "\n".join(lines)


def _measure(case: Case, turns: int) -> tuple[float, float, float, float]:
    """CPU seconds of one step: plain, lean, full support, observed support."""
    n = max(case.n_plain, case.n_full, case.n_observed) * turns + 10
    pairs = [*streams.from_chain(case.x, 0.95, 0).draw(n), *streams.from_chain(case.y, 0.95, 1).draw(n)]
    batch = Batch(*(array.reshape(-1, 1) for array in pairs))
    setting = (case.cost, np.outer(case.x.initial, case.y.initial), 0.95, 0.1, case.decay, case.beta)
    written: list[Plain | Lean] = [Plain(*setting), Lean(*setting)]
    states = _state(case, "full", n), _state(case, "observed", n)
    for numpy_version in written:
        _steps(numpy_version, pairs, 0, 2)
    for state in states:
        run_kernel(state, batch.part(0, 2))
    law = written[0].mean.sum(axis=(2, 3)).ravel()
    for other in (states[0].pairs.p_sum / 2, written[1].mean.sum(axis=(2, 3)).ravel()):
        if not np.allclose(other, law, atol=1e-9):
            raise RuntimeError(f"{case.name}: the versions disagree")
    best = [np.inf] * 4
    for turn in range(turns):
        for i, numpy_version in enumerate(written):
            began = time.process_time()
            _steps(numpy_version, pairs, 2 + turn * case.n_plain, 2 + (turn + 1) * case.n_plain)
            best[i] = min(best[i], (time.process_time() - began) / case.n_plain)
        for i, (state, size) in enumerate(zip(states, (case.n_full, case.n_observed), strict=True), start=2):
            part = batch.part(2 + turn * size, 2 + (turn + 1) * size)
            began = time.process_time()
            run_kernel(state, part)
            best[i] = min(best[i], (time.process_time() - began) / size)
    return best[0], best[1], best[2], best[3]


def _steps(version: Plain | Lean, pairs: list[Any], first: int, last: int) -> None:
    for k in range(first, last):
        version.step(*(int(array[k]) for array in pairs))


def _state(case: Case, support: str, n: int) -> State:
    return somcot.init(  # type: ignore[no-any-return]
        case.cost, discount=0.95, n_steps=n, initial_x=case.x.initial, initial_y=case.y.initial, primal_step=0.1,
        decay=case.decay, dual_step=case.beta, support=support, transitions_x=case.x.transition > 0,
        transitions_y=case.y.transition > 0,
    )  # fmt: skip


def _gemm_flops() -> float:
    a, b = np.random.default_rng(0).random((2, 512, 512))
    best = np.inf
    for _ in range(10):
        began = time.process_time()
        np.dot(a, b)
        best = min(best, time.process_time() - began)
    return float(2 * 512**3 / best)


def _large() -> str:
    """The paper's encoder experiment, 100,000 steps, draws included."""
    x, y, cost = blocks(10, 5, 0.5)
    options: dict[str, Any] = {"discount": 0.99, "primal_step": 40.0, "dual_step": 0.2, "average": 1.0, "rng": 0}
    somcot.solve(x, y, cost, n_steps=10, **options)
    began = time.process_time()
    somcot.solve(x, y, cost, n_steps=100_000, **options)
    seconds = time.process_time() - began
    setting = "Large steps (eta 40, beta 0.2, discount 0.99), 10 x 50 states, 100,000 steps, draws included"
    return f"{setting}: {seconds:.2f} s of CPU."


# --- By size: the default and the former one.

SIZES = (
    ("walk", 5, 5), ("walk", 10, 10), ("walk", 20, 20), ("walk", 50, 50), ("walk", 100, 100), ("blocks", 10, 30),
    ("sparse", 20, 20), ("sparse", 50, 50), ("sparse", 100, 100), ("dense", 5, 5), ("dense", 10, 10),
    ("dense", 20, 20), ("dense", 50, 50), ("dense", 100, 100),
)  # fmt: skip
MOST_SECONDS = 20.0  # a longer run is not begun


def sizes() -> None:
    """Discount 0.9, different starts, cost by position; two seeds; K = 1,000, 10,000, ... until both are close."""
    print(
        "| problem | us, default | us, former | default: K, s to 0.01 | former: K, s to 0.01 |\n|---|---|---|---|---|"
    )
    for family, n_x, n_y in SIZES:
        problem = accuracy.case(family, n_x, n_y, 0.9, "different", "steps", np.random.default_rng(29))
        own, former = _iteration(problem), _former_step(problem)
        cells = (_to_error(problem, "counted", 0.0), _to_error(problem, "former", former))
        print(f"| {family} {n_x} x {n_y} | {1e6 * own:,.1f} | {1e6 * former:,.1f} | {' | '.join(cells)} |", flush=True)


def _iteration(problem: accuracy.Case) -> float:
    """CPU seconds of one iteration of the default on the known chains, the least of five turns."""
    x, y = problem.x, problem.y
    laws = x.initial, y.initial
    state = somcot.init(problem.cost, discount=0.9, n_steps=1, initial_x=laws[0], initial_y=laws[1])
    known = averages.FittedPair(x, y, ())
    run = counted._Iteration(state, averages.Fed(problem.cost, 0.9, *laws, x.transition, y.transition), known, 1.0)
    size = max(5, int(0.05 / run.seconds))
    return min(_timed(lambda: run.run(size, 0.5)) for _ in range(5)) / size


def _former_step(problem: accuracy.Case) -> float:
    """CPU seconds of one step of the former default, on all quadruples of states."""
    n_x, n_y = problem.cost.shape
    rates = steps.auto(n_x, n_y, 10_000, 1.0)
    state = somcot.init(problem.cost, discount=0.9, n_steps=10_000, steps=rates)
    size = max(3, int(2e7 / problem.cost.size**2))
    pairs = [*streams.from_chain(problem.x, 0.9, 0).draw(size), *streams.from_chain(problem.y, 0.9, 1).draw(size)]
    batch = Batch(*(array.reshape(-1, 1) for array in pairs))
    return min(_timed(lambda: run_kernel(state, batch)) for _ in range(3)) / size


def _to_error(problem: accuracy.Case, rule: str, step: float) -> str:
    truth = distance(problem.x, problem.y, problem.cost, discount=0.9).distance
    last = "none was run"
    for n_steps in (1_000, 10_000, 100_000, 1_000_000):
        if n_steps * step > MOST_SECONDS:
            return f"not in {MOST_SECONDS:.0f} s: {last}"
        runs = [accuracy.measure(problem, rule, n_steps, seed, truth) for seed in (0, 1)]
        off, seconds = max(run.to_truth for run in runs), np.mean([run.seconds for run in runs])
        if off <= 0.01:
            return f"{n_steps:,}, {seconds:.3g} s"
        last = f"off by {off:.3f} at {n_steps:,}, {seconds:.3g} s"
    return f"not reached: {last}"


def _timed(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=100, help="leave out larger sizes (100 x 100 needs 5 GB)")
    parser.add_argument("--sizes", action="store_true", help="the default and the former one by size")
    wanted = parser.parse_args()
    if wanted.sizes:
        sizes()
    else:
        print(report(wanted.largest))
