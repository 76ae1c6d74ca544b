"""Kept shares of rows on arrays, written for reading: what the package must agree with."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import chi2, ncx2

from tests.instances import Floats


def one_sample(c: Floats, law: Floats) -> tuple[float, int, float]:
    """Chi-squared, degrees of freedom (0: not testable) and noise of one row against a known one."""
    n = c.sum()
    df = int(((law > 0) | (c > 0)).sum()) - 1
    if n == 0 or df <= 0:
        return 0.0, 0, 1.0
    if (c[law == 0] > 0).any():
        return 1e6, df, 1 / n
    inside = law > 0
    return min(float(((c - n * law)[inside] ** 2 / (n * law)[inside]).sum()), 1e6), df, 1 / n


def posterior(log: Floats) -> Floats:
    """Probabilities of the values of each row by its logarithms of likelihoods, with the most likely weights."""
    like, K = np.exp(log - log.max(axis=1, keepdims=True)), log.shape[1] - 1
    weights = np.append(0.5, np.full(K, 0.5 / K))
    for _ in range(500):
        w = like * weights
        new = (w / w.sum(axis=1, keepdims=True)).mean(axis=0)
        moved, weights = np.abs(new - weights).max(), new
        if moved < 1e-5:
            break
    w = like * weights
    shares: Floats = w / w.sum(axis=1, keepdims=True)
    return shares


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
    w = posterior(log)
    keep = np.sqrt(lam / (lam + 1 - lam / (1 + lam) / df[ok, None]))
    h = np.ones(len(T))
    h[ok] = (w * keep).sum(axis=1)
    return h


def kept_sizes(T: Floats, df: Any, s: Floats) -> Floats:
    """The share of each row's difference that is kept, with a prior of sizes; 1 for rows without a test."""
    h = np.ones(len(T))
    h[df > 0] = np.sqrt(np.clip(1 - (df - 1)[df > 0] / np.maximum(T[df > 0], 1e-300), 0, 1))
    ok = (df > 0) & (T - df <= 100)
    if not ok.any():
        return h
    seen = np.sqrt(T[ok] * s[ok])
    least = 0.5 * np.sqrt(np.median(s[ok]))
    K = int(np.ceil(np.log(max(seen.max() / least, 2.0)) / np.log(1.15))) + 1
    sizes = np.append(0.0, least * 1.15 ** np.arange(K))
    lam = sizes**2 / s[ok, None]
    with np.errstate(all="ignore"):
        log = ncx2.logpdf(T[ok, None], df[ok, None], lam) - chi2.logpdf(T[ok, None], df[ok, None])
    # Far from the statistic SciPy has no value.
    log = np.where((lam > 0) & np.isfinite(log), log, np.where(lam > 0, -1e4, 0.0))
    h[ok] = np.minimum(posterior(log) @ sizes / seen, 1.0)
    return h
