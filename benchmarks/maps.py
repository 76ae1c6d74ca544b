"""Measure how near the encoder and decoder of data are to the true ones: ``python -m benchmarks.maps``.

Prints the table of docs/statistics.md: maps of the exact coupling of the estimated chains against those solved to the
level of the noise, by the relative gap rho. Takes some minutes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot import MarkovChain, Result, Samples, block_chain, costs, distance, random_walk

Floats = NDArray[np.float64]
RHO = (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, np.inf)
SIZES = (500, 3_000, 20_000)
STEPS = 50  # of an episode


class Row(NamedTuple):
    """One data set: the relative gap, and the errors of both maps, exact and at the level of the noise."""

    rho: float
    exact: float
    at_noise: float
    reached: bool


def families(rng: np.random.Generator) -> Iterator[tuple[MarkovChain, MarkovChain, Floats]]:
    """Pairs from equal to clearly different: walks, block chains, dense and sparse random chains."""
    for n in (5, 10):
        rewards = np.r_[1.0, np.zeros(n - 2), -1.0]
        for theta in (0.5, 0.51, 0.53, 0.56, 0.6):
            x, y = random_walk(n), random_walk(n, theta)
            yield x, y, costs.absolute(rewards, rewards)
            yield x, block_chain(y, 3), costs.absolute(rewards, np.repeat(rewards, 3))
    for n in (6, 12):
        place = rng.random(n)
        dense = [rng.dirichlet(np.ones(n), n) for _ in range(2)]
        sparse = (rng.random((n, n)) < 3 / n) * rng.random((n, n)) + np.roll(np.eye(n), 1, axis=1)
        other = sparse * np.exp(rng.normal(size=(n, n)))
        for one, two in (dense, [p / p.sum(axis=1, keepdims=True) for p in (sparse, other)]):
            for share in (0.0, 0.02, 0.05, 0.15, 0.4):
                yield MarkovChain(one), MarkovChain((1 - share) * one + share * two), costs.absolute(place, place)


def error(found: Result, truth: Result) -> float:
    """Mean total variation of encoder and decoder to the true ones, states weighted by their visits."""
    rows = np.abs(found.encoder - truth.encoder).sum(axis=1) @ truth.state_law.sum(axis=1)
    columns = np.abs(found.decoder - truth.decoder).sum(axis=1) @ truth.state_law.sum(axis=0)
    return float(rows + columns) / 4


def measure(seed: int) -> Iterator[Row]:
    for x, y, cost in families(np.random.default_rng(seed)):
        for discount in (0.9, 0.97):
            truth = distance(x, y, cost, discount=discount)
            for n in SIZES:
                rng = np.random.default_rng([seed, n])
                data: list[tuple[Samples, Samples]] = [
                    (x.sample_occupancy(n, discount, rng=rng), y.sample_occupancy(n, discount, rng=rng)),
                    (x.sample(n // STEPS, STEPS, rng=rng), y.sample(n // STEPS, STEPS, rng=rng)),
                ]
                for one, two in data:
                    if (one.n_states, two.n_states) != (x.n_states, y.n_states):
                        continue  # a state was never seen
                    found = distance(one, two, cost, discount=discount)
                    plain = distance(one, two, cost, discount=discount, method="plugin")
                    sharp = distance(
                        one, two, cost, discount=discount, method="saddle", stop_at_noise=0.5, max_steps=8_000
                    )
                    assert found.estimate is not None
                    yield Row(found.estimate.rho, error(plain, truth), error(sharp, truth), sharp.converged)


def main(seeds: int = 2) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [row for seed in range(100, 100 + seeds) for row in measure(seed)]
    print(f"{len(rows)} data sets; the noise level was reached in {np.mean([row.reached for row in rows]):.1%}")
    print("| rho | data sets | exact coupling | at the noise level | nearer to the truth |\n|---|---|---|---|---|")
    for low, high in pairwise(RHO):
        found = [row for row in rows if low <= row.rho < high and row.reached]
        exact, sharp = (np.mean([row[k] for row in found]) for k in (1, 2))
        share = np.mean([row.at_noise < row.exact for row in found])
        label = f"{low:g} to {high:g}" if high < np.inf else f"above {low:g}"
        print(f"| {label} | {len(found)} | {exact:.3f} | {sharp:.3f} | {share:.0%} |")


if __name__ == "__main__":
    main()
