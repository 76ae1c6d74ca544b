"""Nasty problems by number: every seed is one problem, the same on every machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, eye_array

from somcot import MarkovChain
from tests.instances import Floats, random_chain

DISCOUNTS = (0.001, 0.3, 0.9, 0.99, 0.9999, 1 - 1e-6, 1 - 1e-9)
KERNELS = ("dense", "peaked", "sparse", "uniform", "permutation", "absorbing", "tiny", "denormal", "nearly", "frozen")
COSTS = ("normal", "ties", "labels", "huge", "small", "denormal", "shifted", "far shifted", "constant", "spread")


class Nasty(NamedTuple):
    """A problem and where it comes from."""

    family: str
    x: MarkovChain
    y: MarkovChain
    cost: Floats
    discount: float


def nasty(seed: int, largest: int = 4) -> Nasty:
    """A small problem: two chains of any kind, a cost of any kind, a discount."""
    rng = np.random.default_rng(seed)
    n_x, n_y = (int(k) for k in rng.integers(1, largest + 1, size=2))
    kinds = [str(rng.choice(KERNELS)) for _ in range(2)]
    x, y = chain(rng, n_x, kinds[0]), chain(rng, n_y, kinds[1])
    of_cost = str(rng.choice(COSTS))
    discount = float(rng.choice(DISCOUNTS))
    family = f"{kinds[0]}/{kinds[1]}/{of_cost}/{discount}/{n_x}x{n_y}"
    return Nasty(family, x, y, cost(rng, (n_x, n_y), of_cost), discount)


def chain(rng: np.random.Generator, n: int, kind: str) -> MarkovChain:
    """A chain of one of the families, with a random start law."""
    if kind not in ("tiny", "denormal", "nearly", "frozen"):
        return random_chain(rng, n, kind)
    kernel = rng.random((n, n)) + 1e-3
    if kind == "tiny":  # entries over 300 orders of magnitude
        kernel = 10.0 ** rng.uniform(-300, 0, size=(n, n))
    elif kind == "denormal":
        kernel[rng.random((n, n)) < 0.4] = 5e-324
    elif kind == "nearly":  # rows that differ in the last digits
        kernel = np.tile(kernel[0], (n, 1)) * (1.0 + 1e-15 * rng.integers(-3, 4, size=(n, n)))
    else:
        kernel = np.eye(n)
    kernel[np.arange(n), rng.integers(n, size=n)] += 1.0
    start = 10.0 ** rng.uniform(-300, 0, size=n) if rng.random() < 0.3 else rng.dirichlet(np.ones(n))
    return MarkovChain(kernel, start, normalize=True)


def cost(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> Floats:
    """A cost of one of the families."""
    table: Floats = rng.normal(size=shape)
    if kind == "ties":
        table = rng.integers(0, 3, size=shape).astype(float)
    elif kind == "labels":
        table = 1.0 - np.eye(*shape)
    elif kind == "huge":
        table = 2e307 * np.clip(table, -3.0, 3.0).astype(np.float64)
    elif kind == "small":
        table *= 1e-300
    elif kind == "denormal":
        table = rng.integers(0, 9, size=shape).astype(float) * 5e-324
    elif kind == "shifted":
        table = 1e6 * rng.choice([-1.0, 1.0]) + rng.random(shape)
    elif kind == "far shifted":
        table = 1e15 + rng.integers(0, 4, size=shape).astype(float)
    elif kind == "constant":
        table = np.full(shape, float(table[0, 0]))
    elif kind == "spread":  # costs over 300 orders of magnitude
        table = 10.0 ** rng.uniform(-300, 0, size=shape)
    return table


def long_row(seed: int, n: int) -> Nasty:
    """A frozen chain with a start law of n entries against a frozen chain of one or two states."""
    rng = np.random.default_rng(seed)
    law = (np.full(n, 1.0 / n), rng.dirichlet(np.ones(n)), 10.0 ** rng.uniform(-30, 0, size=n))[int(rng.integers(3))]
    m = int(rng.integers(1, 3))
    table = rng.random((n, m)) if rng.random() < 0.5 else rng.integers(0, 3, size=(n, m)).astype(float)
    x = MarkovChain(csr_array(eye_array(n)), law, normalize=True)
    y = MarkovChain(np.eye(m), rng.dirichlet(np.ones(m)))
    return Nasty(f"long/{n}x{m}", x, y, table, float(rng.choice(DISCOUNTS[:4])))
