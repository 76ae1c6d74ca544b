"""Families with wide supports that no constant of the solver was tuned on, for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from somcot import MarkovChain, costs
from tests.instances import Floats

__all__ = ["WIDE_FAMILIES", "Case"]

Case = tuple[MarkovChain, MarkovChain, Floats]


def uneven(n: int, seed: int) -> Case:
    """Rows in which few states have most of the mass and many nearly none; costs between points of the plane."""
    rng = np.random.default_rng([1, seed])
    x, y = (MarkovChain(rng.dirichlet(np.full(n, 0.2), size=n) + 1e-12, normalize=True) for _ in range(2))
    points = rng.random((2, n, 2))
    return x, y, np.linalg.norm(points[0][:, None] - points[1], axis=2)


def band(n: int, seed: int) -> Case:
    """Steps of at most a third of a circle, triangular; supports move along with the state."""
    rng = np.random.default_rng([2, seed])
    away = np.minimum(np.arange(n), n - np.arange(n))
    chains = []
    for reach in (n // 3, n // 3 - 1):
        row = np.maximum(reach + 1.0 - away, 0.0)
        kernel = np.stack([np.roll(row, i) for i in range(n)]) * rng.uniform(0.5, 1.5, size=(n, n))
        chains.append(MarkovChain(kernel, normalize=True))
    angle = np.sin(2.0 * np.pi * np.arange(n) / n)
    return chains[0], chains[1], costs.absolute(angle, angle)


def zipf(n: int, seed: int) -> Case:
    """Rows counted from words of Zipf's law, another order of the words in each; a 0-1 cost of three classes."""
    rng = np.random.default_rng([3, seed])
    chains = []
    for _ in range(2):
        law = 1.0 / np.arange(1, n + 1)
        counts = np.stack([rng.multinomial(6 * n, rng.permutation(law) / law.sum()) for _ in range(n)])
        chains.append(MarkovChain(counts + np.eye(n), normalize=True))
    kind = np.arange(n) % 3
    return chains[0], chains[1], (kind[:, None] != kind).astype(np.float64)


def level(n: int, seed: int) -> Case:
    """All rows uniform over half of the states, costs small whole numbers: ties everywhere."""
    rng = np.random.default_rng([4, seed])
    chains = []
    for _ in range(2):
        kernel = np.zeros((n, n))
        for row in kernel:
            row[rng.choice(n, (n + 1) // 2, replace=False)] = 1.0
        chains.append(MarkovChain(kernel, normalize=True))
    return chains[0], chains[1], rng.integers(0, 4, size=(n, n)).astype(np.float64)


WIDE_FAMILIES: dict[str, Callable[[int, int], Case]] = {
    made.__name__: made for made in (uneven, band, zipf, level)
}  # fmt: skip
