"""Algorithm 2 as the paper prints it: every variable a full array, mu kept as a log and updated entry by entry.

Slow and obvious on purpose. Axes are the paper's: mu(x, y, x', y'), alpha_X(x, x', y), alpha_Y(x, y, y'),
lambda_X(x, y), lambda_Y(y, x), V(x, y).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass
class Iterate:
    """All six variables of one iteration."""

    log_mu: Floats
    log_lambda_x: Floats
    log_lambda_y: Floats
    alpha_x: Floats
    alpha_y: Floats
    V: Floats

    @property
    def mu(self) -> Floats:
        return np.exp(self.log_mu)

    @property
    def lambda_x(self) -> Floats:
        return np.exp(self.log_lambda_x)

    @property
    def lambda_y(self) -> Floats:
        return np.exp(self.log_lambda_y)


@dataclass(frozen=True)
class Rates:
    """eta, eta_X, eta_Y, beta_X, beta_Y, beta and the decay a of the primal ones."""

    mu: float
    lambda_x: float
    lambda_y: float
    alpha_x: float
    alpha_y: float
    V: float
    decay: float = 0.0


def tied(primal: float, dual: float, decay: float = 0.0) -> Rates:
    return Rates(primal, primal, primal, dual, dual, dual, decay)


def first(n_x: int, n_y: int, mask: NDArray[np.bool_] | None = None) -> Iterate:
    """Uniform mu (on `mask`, when given) and lambda; zero duals."""
    allowed = np.ones((n_x, n_y, n_x, n_y), dtype=bool) if mask is None else mask
    log_mu = np.where(allowed, -np.log(allowed.sum()), -np.inf)
    return Iterate(
        log_mu,
        np.full((n_x, n_y), -np.log(n_y)),
        np.full((n_y, n_x), -np.log(n_x)),
        np.zeros((n_x, n_x, n_y)),
        np.zeros((n_x, n_y, n_y)),
        np.zeros((n_x, n_y)),
    )


def step(
    z: Iterate,
    k: int,
    xs: list[tuple[int, int]],
    ys: list[tuple[int, int]],
    cost: Floats,
    start: Floats,
    discount: float,
    rates: Rates,
    max_cost: float,
) -> Iterate:
    """Iteration k = 1, 2, ...: gradients at z from the samples, then all six updates."""
    mu, lambda_x, lambda_y = z.mu, z.lambda_x, z.lambda_y
    g_mu = (
        cost[:, :, None, None]
        - z.alpha_x.transpose(0, 2, 1)[:, :, :, None]
        - z.alpha_y[:, :, None, :]
        + discount * z.V[None, None, :, :]
        - z.V[:, :, None, None]
    )
    g_lambda_x, g_lambda_y = np.zeros_like(lambda_x), np.zeros_like(lambda_y)
    g_alpha_x = np.einsum("xyuv->xuy", mu)
    g_alpha_y = np.einsum("xyuv->xyv", mu)
    for x, after in xs:
        g_lambda_x[x] += z.alpha_x[x, after] / len(xs)
        g_alpha_x[x, after] -= lambda_x[x] / len(xs)
    for y, after in ys:
        g_lambda_y[y] += z.alpha_y[:, y, after] / len(ys)
        g_alpha_y[:, y, after] -= lambda_y[y] / len(ys)
    g_V = np.einsum("xyuv->xy", mu) - (1 - discount) * start - discount * np.einsum("xyuv->uv", mu)

    slow = 1.0 / np.sqrt(1.0 + rates.decay * k)
    radius = max_cost / (1 - discount)
    return Iterate(
        _normalised(z.log_mu - rates.mu * slow * g_mu, None),
        _normalised(z.log_lambda_x - rates.lambda_x * slow * g_lambda_x, 1),
        _normalised(z.log_lambda_y - rates.lambda_y * slow * g_lambda_y, 1),
        np.clip(z.alpha_x - rates.alpha_x * g_alpha_x, -6 * radius, 6 * radius),
        np.clip(z.alpha_y - rates.alpha_y * g_alpha_y, -6 * radius, 6 * radius),
        np.clip(z.V - rates.V * g_V, -2 * radius, 2 * radius),
    )


def iterates(
    x: tuple[NDArray[np.int64], NDArray[np.int64]],
    y: tuple[NDArray[np.int64], NDArray[np.int64]],
    cost: Floats,
    start: Floats,
    discount: float,
    rates: Rates,
    batch: int = 1,
    mask: NDArray[np.bool_] | None = None,
    max_cost: float | None = None,
) -> Iterator[Iterate]:
    """Iterates 1, 2, ..., K for K batches of samples."""
    n_x, n_y = cost.shape
    z = first(n_x, n_y, mask)
    top = float(np.abs(cost).max()) if max_cost is None else max_cost
    for k in range(len(x[0]) // batch):
        yield z
        part = slice(k * batch, (k + 1) * batch)
        xs = list(zip(x[0][part].tolist(), x[1][part].tolist(), strict=True))
        ys = list(zip(y[0][part].tolist(), y[1][part].tolist(), strict=True))
        z = step(z, k + 1, xs, ys, cost, start, discount, rates, top)
    yield z


def _normalised(log: Floats, axis: int | None) -> Floats:
    top = log.max(axis=axis, keepdims=True)
    return np.asarray(log - top - np.log(np.exp(log - top).sum(axis=axis, keepdims=True)))
