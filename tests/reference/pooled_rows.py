"""The rules of docs/statistics.md on full tables and arrays, written for reading: what the package must agree with."""

from __future__ import annotations

from typing import Any

import numpy as np

from somcot.inference.model import Model
from tests.instances import Floats


def tables(model: Model, order: Any = None) -> tuple[Floats, Floats]:
    """Counts and probabilities, (n + 1, n), the start row last; states put into `order`."""
    n = model.chain.n_states
    support = model.chain.support
    counts, P = np.zeros((n + 1, n)), np.zeros((n + 1, n))
    counts[support.rows, support.indices] = model.counts
    P[support.rows, support.indices] = support.probabilities
    if order is None:
        return counts, P
    rows = np.append(order, n)
    return counts[np.ix_(rows, order)], P[np.ix_(rows, order)]


def two_sample(cx: Floats, cy: Floats) -> tuple[float, int, float]:
    """Chi-square, degrees of freedom (0: not testable) and noise of one row seen on both sides."""
    n, m = cx.sum(), cy.sum()
    N, seen = n + m, cx + cy > 0
    df = int(seen.sum()) - 1
    if n == 0 or m == 0 or df <= 0:
        return 0.0, 0, 1.0
    T = 0.0
    for c, k in ((cx, n), (cy, m)):
        expected = (cx + cy)[seen] * k / N
        T += float(((c[seen] - expected) ** 2 / expected).sum())
    return T * (N - 1) / N, df, 1 / n + 1 / m


def one_sample(c: Floats, law: Floats) -> tuple[float, int, float]:
    """The same against a known row."""
    n = c.sum()
    df = int(((law > 0) | (c > 0)).sum()) - 1
    if n == 0 or df <= 0:
        return 0.0, 0, 1.0
    if (c[law == 0] > 0).any():
        return 1e6, df, 1 / n
    inside = law > 0
    return min(float(((c - n * law)[inside] ** 2 / (n * law)[inside]).sum()), 1e6), df, 1 / n


def kept_shares(T: Floats, df: Any, s: Floats) -> Floats:
    """The share of each row's difference that is kept; 1 for rows without a test."""
    ok = df > 0
    if not ok.any():
        return np.ones(len(T))
    least = 0.5 * np.median(s[ok])
    most = max(2.0 * (T[ok] * s[ok] / df[ok]).max(), 4.0 * least)
    K = int(np.ceil(np.log2(most / least))) + 1
    lam = np.append(0.0, least * 2.0 ** np.arange(K))[None, :] / s[ok, None]
    log = -0.5 * df[ok, None] * np.log1p(lam) - 0.5 * T[ok, None] / (1 + lam)
    like = np.exp(log - log.max(axis=1, keepdims=True))
    weights = np.append(0.5, np.full(K, 0.5 / K))
    for _ in range(500):
        w = like * weights
        new = (w / w.sum(axis=1, keepdims=True)).mean(axis=0)
        moved, weights = np.abs(new - weights).max(), new
        if moved < 1e-5:
            break
    w = like * weights
    w /= w.sum(axis=1, keepdims=True)
    keep = np.sqrt(lam / (lam + 1 - lam / (1 + lam) / df[ok, None]))
    h = np.ones(len(T))
    h[ok] = (w * keep).sum(axis=1)
    return h


def ramp(x: float, a: float, b: float) -> float:
    return float(np.clip((x - a) / (b - a), 0.0, 1.0))


def split_rule(d: float, se: float, sat: float, C: float, S: float, g: float, z: float) -> tuple[float, float, float]:
    """Estimate and interval from the halves alone (different states, occupancy samples)."""
    D = max(d - C, 0.0)
    gt = max(g, (2 + 2**0.5) * (S - d), 0.0)
    rho = gt / d
    big = ramp(D / se, 0.5, 1.5) * ramp(D / g, 0.5, 0.65) if D > 0 and g > 0 else 0.0
    s = big * max(ramp((S - d) / D, 0.30, 0.38), ramp(rho, 0.6, 0.9)) if big > 0 else 0.0
    kappa = 0.25 + 0.75 * ramp(rho, 0.75, 1.25)
    B = max(kappa * gt, np.clip(s * D + (1 - s) * gt / 4, gt / 4, gt))
    L = 1.2 * np.clip(big * D + (1 - big) * gt / 4, gt / 4, gt)
    L += ramp(rho, 0.4, 0.8) * max((1.5 if sat > 3 else 1.25) * gt - L, 0.0)
    return max(d - B, 0.0), max(0.0, d - L - z * se), max(0.0, d - gt / 4) + z * se


def pooled_rule(
    d: float, se: float, sat: float, C: float, S: float, g: float, z: float, pooled: float
) -> tuple[float, float, float]:
    """Estimate and interval from pooled rows, with the halves as a floor (same states)."""
    gt = max(g, (2 + 2**0.5) * (S - d), 0.0)
    pooled = min(pooled, d)
    most = (1.2 + 0.8 * ramp(gt / d, 0.6, 0.9)) * max(d - C, gt / 4)
    estimate = max(pooled, 0.0, d - most)
    low = min(split_rule(d, se, sat, C, S, g, z)[1], max(0.0, pooled - z * se))
    return estimate, low, max(max(0.0, d - gt / 4), estimate + (d - estimate) / 4) + z * se
