"""Families of chains to measure on, each by name and size: a pair of chains, a cost and a discount."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

import somcot
from somcot import MarkovChain

__all__ = ["FAMILIES", "Case", "make"]

Floats = NDArray[np.float64]
DISCOUNT = 0.95


class Case(NamedTuple):
    """A problem as `somcot.distance` takes it."""

    x: MarkovChain
    y: MarkovChain
    cost: Floats
    discount: float = DISCOUNT


def walk(n: int) -> Case:
    """The fair walk and one that drifts back, rewards at both walls."""
    reward = np.r_[1.0, np.zeros(n - 2), -1.0]
    return Case(_walk(n, 0.5), _walk(n, 0.3), somcot.costs.absolute(reward, reward))


def _walk(n: int, theta: float) -> MarkovChain:
    """`somcot.random_walk` as a sparse matrix: 20,000 states have no room for a dense one."""
    inside = np.arange(1, n - 1)
    rows = np.concatenate([inside, inside, [0, 0, n - 1, n - 1]])
    columns = np.concatenate([inside + 1, inside - 1, [0, 1, n - 1, n - 2]])
    values = np.concatenate([np.full(n - 2, theta), np.full(n - 2, 1 - theta), [0.9, 0.1, 0.9, 0.1]])
    return MarkovChain(coo_array((values, (rows, columns)), shape=(n, n)))


def sparse(n: int, successors: int) -> Case:
    """Random successors with random probabilities, random costs."""
    rng = np.random.default_rng(n + successors)
    chains = [_sparse(rng, n, successors) for _ in range(2)]
    return Case(chains[0], chains[1], rng.random((n, n)))


def _sparse(rng: np.random.Generator, n: int, successors: int) -> MarkovChain:
    columns = np.concatenate([rng.choice(n, successors, replace=False) for _ in range(n)])
    matrix = coo_array((rng.random(len(columns)) + 0.1, (np.repeat(np.arange(n), successors), columns)), shape=(n, n))
    return MarkovChain(matrix, normalize=True)


def dense(n: int) -> Case:
    """All states follow each other, random costs."""
    rng = np.random.default_rng(n)
    chains = [MarkovChain(rng.random((n, n)), normalize=True) for _ in range(2)]
    return Case(chains[0], chains[1], rng.random((n, n)))


def dense_rewards(n: int) -> Case:
    """The same with absolute differences of rewards."""
    rng = np.random.default_rng(n)
    chains = [MarkovChain(rng.random((n, n)), normalize=True) for _ in range(2)]
    return Case(chains[0], chains[1], somcot.costs.absolute(rng.random(n), rng.random(n)))


def counts(n: int, seen: int) -> Case:
    """Kernels estimated from `seen` transitions out of every state."""
    rng = np.random.default_rng(n + seen)
    chains = [
        MarkovChain([rng.multinomial(seen, row) for row in rng.dirichlet(np.ones(n), size=n)], normalize=True)
        for _ in range(2)
    ]
    return Case(chains[0], chains[1], somcot.costs.absolute(rng.random(n), rng.random(n)))


def block(n: int, copies_x: int, copies_y: int) -> Case:
    """Two walks of `n` states, each state in meaningless copies."""
    reward = np.r_[1.0, np.zeros(n - 2), -1.0]
    x, y = (somcot.random_walk(n, theta) for theta in (0.5, 0.3))
    cost = somcot.costs.absolute(np.repeat(reward, copies_x), np.repeat(reward, copies_y))
    return Case(somcot.block_chain(x, copies_x), somcot.block_chain(y, copies_y), cost)


def grid(side: int) -> Case:
    """Two gridworlds, goals in different corners, other chances of slipping; no state is like another."""
    x, reward_x = _grid(side, (side - 1, side - 1), 0.1, 0.7)
    y, reward_y = _grid(side, (side - 1, 0), 0.2, 0.6)
    return Case(x, y, somcot.costs.absolute(reward_x, reward_y))


def symmetric_grid(side: int) -> Case:
    """Two gridworlds that are their own mirror images: the way to the goal is along both axes alike."""
    x, reward_x = _grid(side, (side - 1, side - 1), 0.1, 0.5)
    y, reward_y = _grid(side, (side - 1, side - 1), 0.2, 0.5)
    return Case(x, y, somcot.costs.absolute(reward_x, reward_y))


def _grid(side: int, goal: tuple[int, int], slip: float, down: float) -> tuple[MarkovChain, Floats]:
    """Steps go down or across towards the goal, or slip to any side; the goal is worth 1 and starts again."""
    rows, columns, values = [], [], []
    for i in range(side):
        for j in range(side):
            state = i * side + j
            if (i, j) == goal:
                moves = [(0, 0, 1.0)]  # the first corner
            else:
                towards = (int(np.sign(goal[0] - i)), 0, down), (0, int(np.sign(goal[1] - j)), 1.0 - down)
                moves = [(di, dj, (1 - slip) * p) for di, dj, p in towards]
                moves = [(di + i, dj + j, p) for di, dj, p in moves]
                moves += [(i + di, j + dj, slip / 4) for di, dj in ((1, 0), (-1, 0), (0, 1), (0, -1))]
            for a, b, p in moves:
                rows.append(state)
                columns.append(int(np.clip(a, 0, side - 1)) * side + int(np.clip(b, 0, side - 1)))
                values.append(p)
    reward = np.zeros(side * side)
    reward[goal[0] * side + goal[1]] = 1.0
    n = side * side
    return MarkovChain(coo_array((values, (rows, columns)), shape=(n, n))), reward


def graph(n: int) -> Case:
    """Random walks on two graphs that grew by preferential attachment, two edges a node; degrees as features."""
    chains, degrees = zip(*(_graph(n, seed) for seed in (1, 2)), strict=True)
    return Case(chains[0], chains[1], somcot.costs.absolute(np.log(degrees[0]), np.log(degrees[1])))


def _graph(n: int, seed: int) -> tuple[MarkovChain, Floats]:
    rng = np.random.default_rng(seed)
    ends = [0, 1, 1, 2, 2, 0]
    for node in range(3, n):
        chosen: set[int] = set()
        while len(chosen) < 2:
            chosen.add(ends[int(rng.integers(len(ends)))])
        for other in sorted(chosen):
            ends += [node, other]
    edges = np.array(ends).reshape(-1, 2)
    both = np.concatenate([edges, edges[:, ::-1]])
    matrix = coo_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(n, n))
    return MarkovChain(matrix, normalize=True), np.bincount(both[:, 0], minlength=n).astype(np.float64)


FAMILIES: dict[str, Callable[..., Case]] = {
    "walk": walk,
    "sparse": sparse,
    "dense": dense,
    "dense, rewards": dense_rewards,
    "counts": counts,
    "block": block,
    "grid": grid,
    "symmetric grid": symmetric_grid,
    "graph": graph,
}


def make(name: str, *sizes: int, discount: float = DISCOUNT, **options: Any) -> Case:
    """The problem of a family."""
    return FAMILIES[name](*sizes, **options)._replace(discount=discount)
