"""Measure how near the encoder and decoder of data are to the true ones: ``python -m benchmarks.maps``.

Prints the table of docs/statistics.md: maps of the exact coupling of the estimated chains against those that
`somcot.distance` returns, where the two differ (rho above 0.3). Takes some minutes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot import MarkovChain, Result, block_chain, costs, distance, random_walk
from somcot.inference import estimate as maps

Floats = NDArray[np.float64]
SIZES = (500, 3_000, 20_000)
STEPS = 50  # of an episode


class Row(NamedTuple):
    """One data set: its cost, and the errors of both maps, of the exact coupling and as returned."""

    cost: str
    exact: float
    found: float


def families(rng: np.random.Generator) -> Iterator[tuple[MarkovChain, MarkovChain, int]]:
    """Pairs from equal to different, and how many copies of a state the second has."""
    for n in (5, 10):
        for theta in (0.5, 0.53, 0.6):
            yield random_walk(n), random_walk(n, theta), 1
            yield random_walk(n), block_chain(random_walk(n, theta), 3), 3
    for n in (6, 12):
        dense = [rng.dirichlet(np.ones(n), n) for _ in range(2)]
        sparse = (rng.random((n, n)) < 3 / n) * rng.random((n, n)) + np.roll(np.eye(n), 1, axis=1)
        other = sparse * np.exp(rng.normal(size=(n, n)))
        for one, two in (dense, [p / p.sum(axis=1, keepdims=True) for p in (sparse, other)]):
            for share in (0.0, 0.05, 0.3):
                yield MarkovChain(one), MarkovChain((1 - share) * one + share * two), 1


def ground_costs(n: int, copies: int, rng: np.random.Generator) -> Iterator[tuple[str, Floats]]:
    """Costs from even to very uneven."""
    i, place, ends = np.arange(n, dtype=np.float64), rng.random(n), np.r_[1.0, np.zeros(n - 2), -1.0]
    difference = costs.absolute(i, np.repeat(i, copies))
    other = difference > 0
    yield "labels", other.astype(np.float64)
    yield "difference of indices", difference
    yield "difference of random numbers", costs.absolute(place, np.repeat(place, copies))
    yield (
        "rewards at both ends",
        costs.absolute(ends, np.repeat(ends, copies)),
    )
    yield "squared difference", difference**2
    yield "fourth power", difference**4
    yield "0.01, and 1 more for state 0", 0.01 * other + (other & ((i[:, None] == 0) | (np.repeat(i, copies) == 0)))


def error(found: Result, truth: Result) -> float:
    """Mean total variation of encoder and decoder to the true ones, states weighted by their visits."""
    rows = np.abs(found.encoder - truth.encoder).sum(axis=1) @ truth.state_law.sum(axis=1)
    columns = np.abs(found.decoder - truth.decoder).sum(axis=1) @ truth.state_law.sum(axis=0)
    return float(rows + columns) / 4


def measure(seed: int) -> Iterator[Row]:
    rng = np.random.default_rng(seed)
    for x, y, copies in families(rng):
        for name, cost in ground_costs(x.n_states, copies, rng):
            discount = float(rng.choice([0.9, 0.97]))
            truth = distance(x, y, cost, discount=discount)
            for n in SIZES:
                if rng.integers(2):
                    one, two = (chain.sample_occupancy(n, discount, rng=rng) for chain in (x, y))
                else:
                    one, two = (chain.sample(n // STEPS, STEPS, rng=rng) for chain in (x, y))
                if (one.n_states, two.n_states) != cost.shape:
                    continue  # a state was never seen
                found = distance(one, two, cost, discount=discount)
                if found.estimate is not None and found.estimate.rho > maps.BLUR:
                    exact = distance(one, two, cost, discount=discount, method="plugin")
                    yield Row(name, error(exact, truth), error(found, truth))


def main(seeds: int = 3) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [row for seed in range(100, 100 + seeds) for row in measure(seed)]
    print("| cost | data sets | exact coupling | returned | nearer by 0.01 | farther by 0.01 | farther at most by |")
    print("|---|---|---|---|---|---|---|")
    for name in (*dict.fromkeys(row.cost for row in rows), "all"):
        part = np.array([row[1:] for row in rows if name in (row.cost, "all")])
        gain = part[:, 0] - part[:, 1]
        exact, found = part.mean(axis=0)
        shares = f"{(gain > 0.01).mean():.0%} | {(gain < -0.01).mean():.0%} | {max(-gain.min(), 0.0):.3f}"
        print(f"| {name} | {len(part)} | {exact:.3f} | {found:.3f} | {shares} |")


if __name__ == "__main__":
    main()
