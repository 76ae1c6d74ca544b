"""Families with known distances, for the statistical tests of estimates from data."""

from __future__ import annotations

import functools
import warnings
from typing import NamedTuple

import numpy as np

import somcot
from somcot import MarkovChain, Result, costs
from somcot.samples import Samples
from tests.instances import Floats, blocks, walks


class Family(NamedTuple):
    """Two chains, their cost and the discount."""

    x: MarkovChain
    y: MarkovChain
    cost: Floats
    discount: float


def _lazy_cycle(stay: float) -> MarkovChain:
    n = 8
    forward, back = np.roll(np.eye(n), 1, axis=1), np.roll(np.eye(n), -1, axis=1)
    return MarkovChain(stay * np.eye(n) + (1 - stay) * (0.7 * forward + 0.3 * back))


def _ruin(up: float) -> MarkovChain:
    """Gambler's ruin on 0..6 with absorbing ends, starting in the middle."""
    kernel = np.zeros((7, 7))
    kernel[0, 0] = kernel[6, 6] = 1.0
    for i in range(1, 6):
        kernel[i, i + 1], kernel[i, i - 1] = up, 1 - up
    return MarkovChain(kernel, 3)


@functools.cache
def family(name: str) -> Family:
    """One of the named families: walks rw*, block chains bl*, lazy cycles, dense chains, ruin."""
    if name.startswith("rw5_"):
        theta, discount = name[4:].split("@")
        return Family(*walks(5, float(theta)), float(discount))
    if name.startswith("bl5x3_"):
        return Family(*blocks(5, 3, float(name[6:])), 0.95)
    if name in ("lazy", "lazy0"):
        r = np.cos(2 * np.pi * np.arange(8) / 8)
        return Family(_lazy_cycle(0.5), _lazy_cycle(0.3 if name == "lazy" else 0.5), costs.absolute(r, r), 0.95)
    if name == "dense5":
        rng = np.random.default_rng(5)
        x, y = (MarkovChain(rng.dirichlet(np.ones(5), size=5)) for _ in range(2))
        return Family(x, y, rng.random((5, 5)), 0.9)
    if name == "ruin":
        r = np.r_[-1.0, np.zeros(5), 1.0]
        return Family(_ruin(0.5), _ruin(0.6), costs.absolute(r, r), 0.95)
    raise ValueError(name)


@functools.cache
def truth(name: str) -> float:
    """The exact distance of a family."""
    f = family(name)
    return somcot.distance(f.x, f.y, f.cost, discount=f.discount).distance


def episodes(chain: MarkovChain, n: int, seed: int) -> Samples:
    """About n transitions in episodes of at most 50 steps, ended early by absorption; start law unknown."""
    kernel = chain.transition
    assert isinstance(kernel, np.ndarray)
    absorbing = np.flatnonzero(kernel.diagonal() == 1.0)
    if not len(absorbing):
        return chain.sample(n // 50, 50, rng=seed)
    paths, ends, total = [], [], 0
    long = chain.sample(n, 50, rng=seed)
    table = np.concatenate([long.now.reshape(-1, 50), long.following.reshape(-1, 50)[:, -1:]], axis=1)
    for path in table:
        stops = np.flatnonzero(np.isin(path, absorbing))
        length = int(stops[0]) if len(stops) else 50
        if length == 0:
            continue
        paths.append(path[: length + 1])
        ends.append(bool(len(stops)))
        total += length
        if total >= n:
            break
    return Samples.from_trajectories(paths, states=chain.states, terminated=ends)


def estimate(name: str, n: int, seed: int, *, occupancy: bool = False, confidence: float | None = None) -> Result:
    """The default estimate on fresh data of a family, warnings aside."""
    f = family(name)
    if occupancy:
        a, b = (c.sample_occupancy(n, f.discount, rng=2 * seed + i) for i, c in enumerate((f.x, f.y)))
    else:
        a, b = (episodes(c, n, 2 * seed + i) for i, c in enumerate((f.x, f.y)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return somcot.distance(a, b, f.cost, discount=f.discount, confidence=confidence, threads=1)
