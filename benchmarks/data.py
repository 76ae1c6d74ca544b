"""Data to a number: what the default estimate, its interval, counting and the permutation test cost."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tests.instances import Floats, blocks, walks

import somcot
from somcot.samples import Samples

Case = tuple[str, Samples, Samples, Floats, float]
LARGE = 100  # states from which a call is timed once


def cases() -> Iterator[Case]:
    """Names, data of both sides, costs and discounts."""
    for name, problem, n, discount in (
        ("walk 5 x 5", walks(5, 0.7), 200, 0.9),
        ("walk 10 x 10", walks(10, 0.7), 200, 0.95),
        ("block 10 x 50", blocks(10, 5, 0.7), 600, 0.95),
    ):
        x, y, cost = problem
        yield name, x.sample(n, 50, rng=1), y.sample(n, 50, rng=2), cost, discount
    x, y = (local_chain(np.random.default_rng(seed)) for seed in (0, 1))
    reward = np.linspace(-13.0, 0.0, 36)
    cost = somcot.costs.absolute(reward, reward)
    yield "36 x 36, 3 or 4 successors", x.sample(640, 50, rng=1), y.sample(640, 50, rng=2), cost, 0.95
    molecule = microstates(np.random.default_rng(2))
    a, b = (molecule.sample(1, 15_000, rng=seed).with_start("stationary") for seed in (1, 2))
    yield "330 microstates, one long recording each", a, b, somcot.costs.labels(a.states, b.states), 0.9


def local_chain(rng: np.random.Generator) -> somcot.MarkovChain:
    """A binned two-dimensional motion: 6 x 6 cells with a few successors near by, as a pendulum has."""
    kernel = np.zeros((36, 36))
    for s in range(36):
        i, j = divmod(s, 6)
        for _ in range(4):
            a, b = (i + rng.integers(-1, 2)) % 6, int(np.clip(j + rng.integers(-1, 2), 0, 5))
            kernel[s, a * 6 + b] += rng.random() + 0.1
    return somcot.MarkovChain(kernel, normalize=True)


def microstates(rng: np.random.Generator, n: int = 330, wells: int = 12) -> somcot.MarkovChain:
    """A molecule at a long lag time: some thirty likely successors inside a well, and rare steps to other wells."""
    well, weight = rng.integers(wells, size=n), rng.gamma(0.5, size=n)
    kernel = np.where(well[:, None] == well, rng.gamma(0.3, size=(n, n)), 3e-4 * rng.random((n, n))) * weight
    return somcot.MarkovChain(kernel + 1e-6, normalize=True)


def best_cpu(call: Callable[[], Any], repeats: int = 5) -> float:
    """The least CPU time of several calls, in milliseconds."""
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
    return 1000 * best


def measure(name: str, a: Samples, b: Samples, cost: Floats, discount: float) -> list[str]:
    """One row of the table."""
    _ = a.pair_counts, b.pair_counts  # counting is measured by itself
    times = 1 if a.n_states >= LARGE else 5
    whole = best_cpu(lambda: somcot.distance(a, b, cost, discount=discount, confidence=0.9, threads=1), times)
    bare = best_cpu(lambda: somcot.distance(a, b, cost, discount=discount, method="plugin", threads=1), times)
    n = f"{a.n_transitions} + {b.n_transitions}"
    return [name, n, f"{whole:.1f}", f"{bare:.1f}", f"{whole / bare:.0f}"]


def report() -> str:
    """Markdown section."""
    head = ["data", "transitions", "estimate and interval, CPU ms", "plug-in alone, CPU ms", "ratio"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines += ["| " + " | ".join(measure(*case)) + " |" for case in cases()]
        _, a, b, cost, discount = next(cases())
        test = best_cpu(lambda: somcot.same_process(a, b, cost, discount=discount, n_permutations=100))
    rng = np.random.default_rng(0)
    now, following = rng.integers(0, 100, size=(2, 10_000_000))
    counting = best_cpu(lambda: Samples.from_transitions(now, following, discount=0.9).counts(), repeats=2)
    return "\n".join(
        [
            "## From data to a number",
            "",
            "After counting.",
            "",
            *lines,
            "",
            f"Counting 10 million transitions between 100 states: {counting / 1000:.2f} s of CPU. "
            f"A test with 100 permutations at 5 x 5: {test:.0f} ms.",
        ]
    )
