"""Level and power of the tests on recordings, and marks on equal processes: the figures of docs/statistics.md."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import somcot
from somcot import MarkovChain, Samples
from somcot.inference.permutation import looks_identical

# Honest recordings are suspected to be copies once in a thousand times.
pytestmark = [pytest.mark.statistical, pytest.mark.filterwarnings("ignore:the recordings are more alike")]
REWARDS = somcot.costs.absolute([1, 0, 0, 0, -1], [1, 0, 0, 0, -1])


def rejected(theta: float, n: int, seeds: int, statistic: str, three: bool = False) -> float:
    x, y = somcot.random_walk(5, 0.5), somcot.random_walk(5, theta)
    hits = []
    for seed in range(seeds):
        data = [x.sample(n // 50, 50, rng=seed), y.sample(n // 50, 50, rng=10_000 + seed)]
        if three:
            data.append(x.sample(n // 50, 50, rng=20_000 + seed))
        test = somcot.same_process(
            data, cost=REWARDS, discount=0.9, statistic=statistic, n_permutations=99, rng=seed, threads=1
        )
        hits.append(test.pvalue <= 0.05)
    return float(np.mean(hits))


@pytest.mark.parametrize("statistic", ["distance", "pearson"])
@pytest.mark.parametrize(("n", "three"), [(1000, False), (3000, False), (3000, True)])
def test_level(n: int, three: bool, statistic: str) -> None:
    assert 0.02 <= rejected(0.5, n, 400, statistic, three) <= 0.08


@pytest.mark.parametrize("theta", [0.55, 0.6])
@pytest.mark.parametrize("n", [1000, 3000, 10_000])
def test_power_is_not_below_that_of_pearson(theta: float, n: int) -> None:
    assert rejected(theta, n, 200, "distance") >= rejected(theta, n, 200, "pearson") - 0.05


def test_honest_recordings_are_rarely_suspected() -> None:
    walk = somcot.random_walk(5)
    found = [looks_identical(walk.sample(40, 30, rng=s), walk.sample(40, 30, rng=10_000 + s)) for s in range(2000)]
    assert sum(note is not None for note in found) <= 7  # 2 expected


@pytest.mark.parametrize(("n", "length"), [(30, 40), (1, 600), (150, 4)])
def test_level_of_the_order(n: int, length: int) -> None:
    chain = MarkovChain(np.random.default_rng(0).dirichlet(np.full(20, 0.3), size=20))
    found = [somcot.markov_order(chain.sample(n, length, rng=s), max_order=2).pvalues for s in range(400)]
    rates = (np.array(found) <= 0.05).mean(axis=0)
    assert (rates >= 0.02).all()
    assert (rates <= 0.08).all()


def test_power_of_the_order() -> None:
    hits = []
    for seed in range(100):
        rng, paths = np.random.default_rng(seed), []
        for _ in range(40):
            path = rng.integers(3, size=2).tolist()
            for _ in range(50):
                path.append(path[-2] if rng.random() < 0.1 else int(rng.integers(3)))
            paths.append(path)
        hits.append(somcot.markov_order(Samples.from_trajectories(paths), max_order=1).order == 2)
    assert np.mean(hits) >= 0.9


@pytest.mark.parametrize("name", ["walk", "dense"])
def test_equal_processes_get_no_marks(name: str) -> None:
    dense = MarkovChain(np.random.default_rng(1).dirichlet(np.ones(8), size=8))
    chain = somcot.random_walk(5) if name == "walk" else dense
    cost, marked = 1.0 - np.eye(chain.n_states), 0
    for seed in range(200):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            a, b = chain.sample(40, 50, rng=seed), chain.sample(40, 50, rng=10_000 + seed)
            found = somcot.distance(a, b, cost, discount=0.9).contributions()
        marked += any(p.marked for p in found.pairs) or any(t.marked for t in found.transitions)
    assert marked / 200 <= 0.05


def test_few_marks_are_false() -> None:
    """One row of eight changed: among marked transitions, those of the other rows are at most 10 %."""
    rng = np.random.default_rng(2)
    kernel = rng.dirichlet(np.ones(8), size=8)
    other = kernel.copy()
    other[3] = 0.5 * other[3] + 0.5 * rng.dirichlet(np.ones(8))
    x, y, true, false = MarkovChain(kernel), MarkovChain(other), 0, 0
    for seed in range(100):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = x.sample(200, 50, rng=seed), y.sample(200, 50, rng=10_000 + seed)
            found = somcot.distance(*data, 1.0 - np.eye(8), discount=0.9).contributions(64).transitions
        true += sum(t.marked for t in found if t.state == 3)
        false += sum(t.marked for t in found if t.state != 3)
    assert true >= 100
    assert false <= 0.1 * (true + false)
