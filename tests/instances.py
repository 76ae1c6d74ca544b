"""Problems with known answers, and random families, shared by the tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from somcot import MarkovChain, block_chain, costs, random_walk

Floats = NDArray[np.float64]

# Exact distances of random_walk(n, 0.5) from random_walk(n, theta), to six digits.
THETAS = (0.1, 0.3, 0.5, 0.7, 0.9)
WALKS = {
    (5, 0.95): (0.394036, 0.291408, 0.0, 0.369631, 0.600007),
    (5, 0.99): (0.721751, 0.563111, 0.0, 0.612047, 0.834454),
    (10, 0.95): (0.269393, 0.202539, 0.0, 0.356963, 0.598771),
    (10, 0.99): (0.596157, 0.511623, 0.0, 0.720409, 0.916632),
    (20, 0.95): (0.240907, 0.174319, 0.0, 0.255297, 0.466680),
    (20, 0.99): (0.492551, 0.408990, 0.0, 0.699735, 0.934940),
}


def reward(n: int) -> Floats:
    """The paper's reward: 1 at the first state, -1 at the last, 0 between."""
    values: Floats = np.r_[1.0, np.zeros(n - 2), -1.0]
    return values


def walks(n: int, theta: float) -> tuple[MarkovChain, MarkovChain, Floats]:
    """The fair walk, a biased one, and the cost of telling their rewards apart."""
    return random_walk(n), random_walk(n, theta), costs.absolute(reward(n), reward(n))


def blocks(n: int, copies: int, theta: float) -> tuple[MarkovChain, MarkovChain, Floats]:
    """The fair walk and a biased walk split into meaningless copies."""
    cost = costs.absolute(reward(n), np.repeat(reward(n), copies))
    return random_walk(n), block_chain(random_walk(n, theta), copies), cost


def random_chain(rng: np.random.Generator, n: int, kind: str) -> MarkovChain:
    """A chain of one of several families, with a random start law."""
    if kind == "dense":
        kernel = rng.random((n, n)) + 1e-3
    elif kind == "peaked":
        kernel = rng.dirichlet(np.full(n, 0.2), size=n) + 1e-12
    elif kind == "sparse":
        kernel = np.where(rng.random((n, n)) < 3.0 / n, rng.random((n, n)), 0.0)
        kernel[np.arange(n), rng.integers(n, size=n)] += 0.1
    elif kind == "uniform":  # equal entries everywhere: as degenerate as transport gets
        kernel = np.zeros((n, n))
        for row in kernel:
            row[rng.permutation(n)[: rng.integers(1, n + 1)]] = 1.0
    elif kind == "permutation":  # periodic, deterministic, disconnected
        kernel = np.eye(n)[rng.permutation(n)]
    elif kind == "absorbing":
        kernel = np.triu(rng.random((n, n)) + 0.05)
    else:
        raise ValueError(kind)
    start = rng.dirichlet(np.ones(n)) if rng.random() < 0.5 else np.eye(n)[rng.integers(n)]
    return MarkovChain(kernel, start, normalize=True)


KINDS = ("dense", "peaked", "sparse", "uniform", "permutation", "absorbing")


def random_problem(
    seed: int, largest: int = 7, kinds: tuple[str, ...] = KINDS
) -> tuple[MarkovChain, MarkovChain, Floats, float]:
    """Two random chains of any families and sizes, a cost with ties now and then, and a discount."""
    rng = np.random.default_rng(seed)
    n_x, n_y = (int(k) for k in rng.integers(1, largest + 1, size=2))
    x, y = (random_chain(rng, n, str(rng.choice(kinds))) for n in (n_x, n_y))
    cost = rng.normal(size=(n_x, n_y)) if rng.random() < 0.5 else rng.integers(0, 3, size=(n_x, n_y)).astype(float)
    return x, y, cost, float(rng.choice([0.3, 0.9, 0.95, 0.99]))


def dense_kernel(chain: MarkovChain) -> Floats:
    """The kernel as an array."""
    kernel = chain.transition
    return kernel if isinstance(kernel, np.ndarray) else np.asarray(kernel.toarray())
