"""Before and after: pairs of chains where few rows, none or all of them changed, and what is estimated from data.

No constant of the estimate was chosen on any of them.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

import somcot
from somcot import MarkovChain, costs
from somcot.data import clickstream
from somcot.samples import Samples
from tests.data_instances import episodes
from tests.instances import Floats

Rng = np.random.Generator
CONFIDENCE = 0.9
RULES = ("plug-in", "estimate")
# share of a changed row that is new: small, medium, large
SIZES = {"0": 0.0, "S": 0.1, "M": 0.3, "L": 0.7}


class Cell(NamedTuple):
    """Two chains, how they are compared and how many transitions of each are recorded."""

    group: str
    name: str
    x: MarkovChain
    y: MarkovChain
    cost: Floats
    discount: float
    n: int


class Figures(NamedTuple):
    """Of one rule in one cell: bias in standard errors; errors and width relative to the plug-in's.

    `error` is the mean absolute one, `rms` the root of the mean square. The plug-in's interval is that of its standard
    error.
    """

    bias: float
    error: float
    rms: float
    coverage: float
    width: float


def _rows(n: int, entries: Callable[[int], dict[int, float]]) -> Floats:
    kernel = np.zeros((n, n))
    for i in range(n):
        for j, p in entries(i).items():
            kernel[i, j % n] += p
    out: Floats = kernel / kernel.sum(axis=1, keepdims=True)
    return out


def ring(rng: Rng) -> Floats:
    """12 states in a ring: stay, on, back."""
    stay, on = rng.uniform(0.2, 0.5, 12), rng.uniform(0.3, 0.7, 12)
    return _rows(12, lambda i: {i: stay[i], i + 1: (1 - stay[i]) * on[i], i - 1: (1 - stay[i]) * (1 - on[i])})


def queue(rng: Rng) -> Floats:
    """20 lengths of a queue."""
    up = rng.uniform(0.3, 0.45)
    return _rows(20, lambda i: {min(i + 1, 19): up, i: 0.1, max(i - 1, 0): 0.9 - up})


def sparse(rng: Rng) -> Floats:
    """15 states with 3 or 4 successors anywhere."""
    kernel = np.zeros((15, 15))
    for row in kernel:
        k = rng.integers(3, 5)
        row[rng.permutation(15)[:k]] = rng.dirichlet(np.full(k, 2.0))
    return 0.98 * kernel + 0.02 * np.roll(np.eye(15), 1, axis=1)


def hub(rng: Rng) -> Floats:
    """A hub and 12 spokes."""
    law = rng.dirichlet(np.ones(12))
    back = rng.uniform(0.4, 0.8, 13)
    return _rows(13, lambda i: dict(enumerate(law, 1)) if i == 0 else {0: back[i], i: 0.7 * (1 - back[i]),
                 1 + i % 12: 0.3 * (1 - back[i])})  # fmt: skip


def grid(rng: Rng) -> Floats:
    """A walk on 5 x 5 cells."""

    def entries(s: int) -> dict[int, float]:
        i, j = divmod(s, 5)
        out = {s: 0.1}
        for a, b in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
            if 0 <= a < 5 and 0 <= b < 5:
                out[5 * a + b] = float(rng.uniform(0.5, 1.5))
        return out

    return _rows(25, entries)


def machine(rng: Rng) -> Floats:
    """10 states of wear, with repairs."""
    wear, repair = rng.uniform(0.1, 0.4, 10), rng.uniform(0.02, 0.3, 10)
    return _rows(10, lambda i: {i: 1 - wear[i] - repair[i], min(i + 1, 9): wear[i], 0: repair[i]})


def ward(rng: Rng) -> Floats:
    """11 stations of patients, forward with returns, discharge at the end starts again."""
    on = rng.uniform(0.4, 0.7, 11)
    return _rows(11, lambda i: {i + 1: on[i], i: 0.6 * (1 - on[i]), max(i - 2, 0): 0.4 * (1 - on[i])})


def player(rng: Rng) -> Floats:
    """14 lazy states (songs on repeat) with 4 favourites to go to."""
    best = rng.permutation(14)[:4]
    stay = rng.uniform(0.5, 0.85, 14)
    kernel = np.diag(stay)
    for i in range(14):
        kernel[i, best] += (1 - stay[i]) * rng.dirichlet(np.ones(4))
    return kernel


def city(rng: Rng) -> Floats:
    """18 places, each with its 4 nearest."""
    points = rng.random((18, 2))
    away = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    kernel = 0.05 * np.roll(np.eye(18), 1, axis=1)
    for i in range(18):
        kernel[i, np.argsort(away[i])[:5]] += rng.dirichlet(np.full(5, 3.0))
    out: Floats = kernel / kernel.sum(axis=1, keepdims=True)
    return out


def regimes(rng: Rng) -> Floats:
    """3 regimes of 5 states, seldom left."""
    kernel = np.full((15, 15), 0.0)
    for b in range(3):
        kernel[5 * b : 5 * b + 5, 5 * b : 5 * b + 5] = rng.dirichlet(np.full(5, 1.5), size=5)
    return 0.96 * kernel + 0.04 * np.roll(np.eye(15), 5, axis=1)


def library(rng: Rng) -> Floats:
    """16 titles borrowed by popularity, rows alike but not equal."""
    fame = 1.0 / np.arange(1, 17)
    table: Floats = np.array([rng.dirichlet(20 * fame / fame.sum()) for _ in range(16)])
    return table


def lift(rng: Rng) -> Floats:
    """14 floors, neighbours and the ground floor."""
    up, home = rng.uniform(0.3, 0.6, 14), rng.uniform(0.05, 0.2, 14)
    return _rows(14, lambda i: {min(i + 1, 13): up[i], max(i - 1, 0): 1 - up[i] - home[i], 0: home[i] + 1e-3})


STUDY = (ring, queue, sparse, hub, grid, machine)
SHIFTED = (ring, queue, hub, city, library, lift, machine, ward)
OWN = (ward, player, city, regimes, library, lift)
# size of the change, cost, discount, transitions
PLANS = (("S", "labels", 0.9, 3000), ("M", "absolute", 0.95, 10_000), ("L", "labels", 0.95, 3000))


def _changed(kernel: Floats, size: str, rng: Rng, every: bool) -> Floats:
    """Rows mixed with a random reweighting of their own successors: a fifth of them, or every row."""
    n, new = len(kernel), kernel.copy()
    rows = range(n) if every else rng.permutation(n)[: max(1, n // 5)]
    for i in rows if SIZES[size] else ():
        support = np.flatnonzero(kernel[i])
        other = np.zeros(n)
        other[support] = rng.dirichlet(np.ones(len(support)))
        new[i] = (1 - SIZES[size]) * kernel[i] + SIZES[size] * other
    return new


def _cell(group: str, kind: Callable[[Rng], Floats], plan: tuple[str, str, float, int], every: bool = False) -> Cell:
    size, cost, discount, n = plan
    rng = np.random.default_rng([len(kind.__name__), ord(kind.__name__[0]), ord(size), n])
    kernel = kind(rng)
    x, y = (MarkovChain(k, normalize=True) for k in (kernel, _changed(kernel, size, rng, every)))
    feature = rng.random(len(kernel))
    table = costs.labels(x.states, y.states) if cost == "labels" else costs.absolute(feature, feature)
    return Cell(group, f"{kind.__name__} {size} {cost} {discount} {n}", x, y, table, discount, n)


@functools.cache
def cells(group: str) -> tuple[Cell, ...]:
    """All cells of a group: study A/B, own A/B, study d = 0, own d = 0, every row."""
    if group == "every row":
        return tuple(_cell(group, kind, ("M", "absolute", 0.9, 3000), every=True) for kind in SHIFTED)
    whose, what = group.split(" ", 1)
    kinds = STUDY if whose == "study" else OWN
    plans = PLANS if what == "A/B" else (("0", "labels", 0.9, 10_000), ("0", "absolute", 0.95, 3000))
    return tuple(_cell(group, kind, plan) for kind in kinds for plan in plans)


GROUPS = ("study A/B", "own A/B", "study d = 0", "own d = 0", "every row")


@functools.cache
def demo() -> Cell:
    """The chains behind the bundled example, recorded about as long."""
    x, y = (MarkovChain(c.transition, c.initial) for c in map(clickstream.chain, ("may", "june")))
    return Cell("demo", "demo", x, y, costs.labels(x.states, y.states), 0.95, 25_000)


def recorded(cell: Cell, seed: int) -> tuple[Samples, Samples]:
    """Fresh recordings of both chains; start laws unknown."""
    x, y = (episodes(chain, cell.n, 7919 * seed + i) for i, chain in enumerate((cell.x, cell.y)))
    return x, y


def answers(cell: Cell, seed: int) -> tuple[float, list[tuple[float, float, float]]]:
    """The standard error, and value and interval of plug-in and estimate on the same recordings. Costs begin at 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = somcot.distance(
            *recorded(cell, seed), cell.cost, discount=cell.discount, confidence=CONFIDENCE, threads=1
        )
    d = found.plugin
    assert found.estimate is not None
    assert d is not None
    assert found.confidence_interval is not None
    margin = float(ndtri(0.5 + 0.5 * CONFIDENCE)) * found.estimate.standard_error
    low, high, _ = found.confidence_interval
    return found.estimate.standard_error, [(d, max(0.0, d - margin), d + margin), (found.distance, low, high)]


def figures(cell: Cell, seeds: Sequence[int]) -> dict[str, Figures]:
    """Bias, error, coverage and width of every rule over fresh recordings."""
    true = somcot.distance(cell.x, cell.y, cell.cost, discount=cell.discount).distance
    errors, found = zip(*(answers(cell, seed) for seed in seeds), strict=True)
    table = np.array(found)  # seeds, rules, (value, low, high)
    off = table[:, :, 0] - true
    bias, error, rms = off.mean(axis=0) / np.mean(errors), np.abs(off).mean(axis=0), np.sqrt((off**2).mean(axis=0))
    inside = ((table[:, :, 1] <= true + 1e-12) & (true <= table[:, :, 2])).mean(axis=0)
    width = (table[:, :, 2] - table[:, :, 1]).mean(axis=0)
    return {
        rule: Figures(*(float(v[k]) for v in (bias, error / error[0], rms / rms[0], inside, width / width[0])))
        for k, rule in enumerate(RULES)
    }
