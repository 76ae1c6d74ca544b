"""Families of recordings for decisions, written down after everything that decides, and before any run on them.

`benchmarks.decisions` uses them for error rates at the margin and for the level of tests with strata and pairs.
Sessions that tire and weeks resemble none of the older families; order 3 and log-normal lengths resemble order 2 and
"log-normal lengths" there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from benchmarks.sources import Source

__all__ = ["lasting", "tiring", "weeks", "words"]

Floats = NDArray[np.float64]


def tiring(pace: float, seed: int = 9101) -> Source:
    """Sessions of six actions: tiredness rises with probability `pace` per step, changes what is done, and ends it."""
    n, levels = 6, 10
    rng = np.random.default_rng(seed)
    fresh, tired = rng.dirichlet(np.full(n, 0.9), size=n), rng.dirichlet(np.full(n, 0.5), size=n)
    kernel = np.zeros((levels * n + 1, levels * n + 1))
    for level in range(levels):
        share = level / (levels - 1)
        P, stop, higher = (1 - share) * fresh + share * tired, 0.01 + 0.15 * share, min(level + 1, levels - 1)
        rows = slice(level * n, level * n + n)
        kernel[rows, rows] += (1 - stop) * (1 - pace) * P
        kernel[rows, higher * n : higher * n + n] += (1 - stop) * pace * P
        kernel[rows, -1] = stop
    kernel[-1, -1] = 1.0
    start = np.r_[rng.dirichlet(np.ones(n)), np.zeros(len(kernel) - n)]
    return Source(kernel[None], start[None], np.ones(1), np.r_[np.tile(np.arange(n), levels), n])


def weeks(weekend: float) -> Source:
    """Demand in five classes, day by day; it follows the day before, less so at the weekend. Starts on any day."""
    n, days = 5, 7
    rng = np.random.default_rng(9202)
    usual = rng.dirichlet(np.full(n, 0.6), size=n)
    low, high = np.r_[0.6, 0.3, 0.1, 0.0, 0.0], np.r_[0.0, 0.0, 0.2, 0.3, 0.5]
    kernel = np.zeros((days * n, days * n))
    for day in range(days):
        # On the way to Saturday and Sunday demand is low, on the way to Monday it is high.
        P = (1 - weekend) * usual + weekend * low if day in (4, 5) else 0.5 * (usual + high) if day == 6 else usual
        then = (day + 1) % days
        kernel[day * n : day * n + n, then * n : then * n + n] = P
    start = np.full(days * n, 1.0 / (days * n))
    return Source(kernel[None], start[None], np.ones(1), np.tile(np.arange(n), days))


def words(rule: float, seed: int = 9303) -> Source:
    """Order 3: four letters; with probability `rule` the next one is that of a table of the last three."""
    n = 4
    rng = np.random.default_rng(seed)
    short, table = rng.dirichlet(np.full(n, 1.0), size=n), rng.integers(n, size=(n, n, n))
    kernel, start = np.zeros((n**3 + 1, n**3 + 1)), np.r_[rng.dirichlet(np.ones(n**3)), 0.0]
    for old in range(n):
        for before in range(n):
            for now in range(n):
                row = (1 - rule) * short[now] + rule * np.eye(n)[table[old, before, now]]
                here = (old * n + before) * n + now
                kernel[here, [(before * n + now) * n + to for to in range(n)]] = 0.95 * row
                kernel[here, -1] = 0.05
    kernel[-1, -1] = 1.0
    return Source(kernel[None], start[None], np.ones(1), np.r_[np.tile(np.arange(n), n * n), n])


def lasting(moved: float, spread: float = 1.6) -> Source:
    """Log-normal lengths about 12 steps, long ones of other habits; in two states, `moved` of the steps go elsewhere.

    A sequence is of one of 30 quantiles of the length, and ends after four stages.
    """
    kinds, n, stages = 30, 6, 4
    rng = np.random.default_rng(9404)
    brief, long = rng.dirichlet(np.full(n, 0.7), size=(2, n))
    place = (np.arange(kinds) + 0.5) / kinds
    mean = np.maximum(12.0 * np.exp(spread * ndtri(place)), 4.5)
    kernels = np.zeros((kinds, stages * n + 1, stages * n + 1))
    for k in range(kinds):
        P = brief + (long - brief) * place[k]
        P[:2] = (1 - moved) * P[:2] + moved * np.roll(P[:2], 2, axis=1)
        on = stages / mean[k]
        for stage in range(stages):
            rows = slice(stage * n, stage * n + n)
            kernels[k, rows, rows] = (1 - on) * P
            if stage < stages - 1:
                kernels[k, rows, (stage + 1) * n : (stage + 2) * n] = on * P
            else:
                kernels[k, rows, -1] = on
    kernels[:, -1, -1] = 1.0
    starts = np.zeros((kinds, stages * n + 1))
    starts[:, :n] = rng.dirichlet(np.ones(n))
    return Source(kernels, starts, np.full(kinds, 1 / kinds), np.r_[np.tile(np.arange(n), stages), n])
