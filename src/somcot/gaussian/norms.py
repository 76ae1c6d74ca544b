"""Euclidean cost: the mean norm of a Gaussian vector, and bounds of the distance from it."""

from __future__ import annotations

import numpy as np

from somcot.gaussian.model import Linear
from somcot.plumbing.arrays import Floats

__all__ = ["euclidean_bounds", "expected_norm"]

_SPACING = 0.25  # of the trapezoidal rule: its error is exp(-pi^2 / spacing) = 7e-18
_FIRST, _LAST = -28.0, 38.0  # where both ends are sums of geometric series to rounding
_MOST_STEPS = 20_000
_NEGLIGIBLE = 1e-13  # weight of the steps that are left out

Roots = tuple[tuple[Floats, Floats], tuple[Floats, Floats]]  # noise of x and of y, of the start and of a step


def expected_norm(mean: Floats, covariance: Floats) -> Floats:
    r"""E\|z\| of z ~ N(mean, covariance), shapes (n, d) and (n, d, d).

    With q = \|z\|^2, E sqrt(q) is the integral of (1 - E exp(-s q)) s^(-3/2) / (2 sqrt(pi)) over s > 0. In u = log s
    the integrand is analytic and bounded for \|Im u\| < pi / 2, where the real part of s is positive: the trapezoidal
    rule is exact to rounding.

    Examples
    --------
    >>> expected_norm(np.zeros((2, 2)), np.stack([np.eye(2), np.diag([1.0, 0.0])])) ** 2 / np.pi
    array([0.5       , 0.20264237])
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 0.0)
    squares = np.square(np.einsum("nij,ni->nj", vectors, mean))
    size = (values + squares).sum(axis=1)
    unit = np.where(size > 0.0, size, 1.0)[:, None]
    u = np.arange(_FIRST, _LAST + _SPACING / 2, _SPACING)
    integral = np.concatenate(
        [
            _missing(values[part] / unit[part], squares[part] / unit[part], np.exp(u)) @ np.exp(-u / 2)
            for part in _parts(len(size), values.shape[1] * len(u))
        ]
    )
    # Beyond the ends the integrand is exp(u / 2) on the left and exp(-u / 2) on the right.
    ratio = np.exp(-_SPACING / 2)
    integral += (np.exp(_FIRST / 2) + np.exp(-_LAST / 2)) * ratio / (1.0 - ratio)
    return np.asarray(np.where(size > 0.0, np.sqrt(size) * _SPACING * integral / (2.0 * np.sqrt(np.pi)), 0.0))


def euclidean_bounds(x: Linear, y: Linear, g: float, roots: Roots, squared: float) -> tuple[float, float]:
    """Lower and upper bound for the Euclidean cost; `squared` is the distance for the squared one.

    Steps that are left out cost nothing from below; from above, by the inequality of Cauchy and Schwarz, at most the
    root of their weight times their share of the squared distance.
    """
    d = x.d
    n = min(_MOST_STEPS, 1 + int(np.ceil(np.log(_NEGLIGIBLE) / np.log(g))))
    mean, joint = _moments(x, y, roots, n)
    weight = (1.0 - g) * g ** np.arange(n)
    apart = joint[:, :d, :d]
    spread = expected_norm(mean, apart)
    rest = max(0.0, squared - float(weight @ (np.square(mean).sum(axis=1) + np.trace(apart, axis1=1, axis2=2))))
    high = min(float(weight @ spread) + float(np.sqrt(g**n * rest)), float(np.sqrt(squared)))
    if d == 1 and x.A[0, 0] * y.A[0, 0] >= 0.0:
        return (high if g**n <= _NEGLIGIBLE else min(float(weight @ spread), high)), high
    return min(float(weight @ _projected(mean, joint)), high), high


def _moments(x: Linear, y: Linear, roots: Roots, n: int) -> tuple[Floats, Floats]:
    """Mean (n, d) of x_t - y_t and covariance (n, 2 d, 2 d) of (x_t - y_t, y_t) under the coupling, step by step.

    Differences are carried themselves: where both processes move alike they stay 0 to the last bit.
    """
    d = x.d
    M = np.zeros((2 * d, 2 * d))
    M[:d, :d], M[:d, d:], M[d:, d:] = x.A, x.A - y.A, y.A
    first, noise = (np.vstack([left - right, right]) for left, right in roots)
    drift = [model.offset + model.A @ y.start_mean - y.start_mean for model in (x, y)]
    step = np.concatenate([drift[0] - drift[1], drift[1]])
    centre = np.concatenate([x.start_mean - y.start_mean, np.zeros(d)])
    covariance, added = first @ first.T, noise @ noise.T
    means, joint = np.empty((n, d)), np.empty((n, 2 * d, 2 * d))
    for t in range(n):
        means[t], joint[t] = centre[:d], covariance
        centre, covariance = M @ centre + step, M @ covariance @ M.T + added
    return means, joint


def _projected(mean: Floats, joint: Floats) -> Floats:
    r"""At each time the largest transport cost \|u'x - u'y\| over a few directions u, each a lower bound.

    In one dimension the best coupling of two normal laws is x and y rising together: \|m + (s_x - s_y) z\| on average.
    """
    d = mean.shape[1]
    of_y = joint[:, d:, d:]
    of_x = joint[:, :d, :d] + joint[:, :d, d:] + joint[:, d:, :d] + of_y
    length = np.linalg.norm(mean, axis=1, keepdims=True)
    along = mean / np.where(length > 0.0, length, 1.0)
    directions = np.concatenate([along[:, :, None], np.linalg.eigh(of_x - of_y)[1]], axis=2)
    deviation = [
        np.sqrt(np.maximum(np.einsum("nik,nij,njk->nk", directions, part, directions), 0.0)) for part in (of_x, of_y)
    ]
    shift = np.einsum("nik,ni->nk", directions, mean).ravel()
    gap = (deviation[0] - deviation[1]).ravel()
    return np.asarray(expected_norm(shift[:, None], np.square(gap)[:, None, None]).reshape(-1, d + 1).max(axis=1))


def _missing(values: Floats, squares: Floats, s: Floats) -> Floats:
    """1 - E exp(-s q) for normalised eigenvalues and squared means, (n, d) each; returns (n, len(s))."""
    grown = 2.0 * values[:, :, None] * s
    exponent = 0.5 * np.log1p(grown) + squares[:, :, None] * s / (1.0 + grown)
    return np.asarray(-np.expm1(-exponent.sum(axis=1)))


def _parts(n: int, width: int) -> list[slice]:
    size = max(1, 2_000_000 // width)
    return [slice(first, first + size) for first in range(0, n, size)]
