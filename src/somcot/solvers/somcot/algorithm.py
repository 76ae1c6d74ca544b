"""Algorithm 2 as printed in the paper, and the default variant: full arrays, one statement per line.

Slow and obvious on purpose: the place to read first, and what the compiled kernels (`sweeps`, `counted`) are tested
against, step by step. `step` is Algorithm 2, `counted_step` the iteration of ``steps="auto"``. They differ in this:

================  =====================================  ==========================================================
                  `step`: Algorithm 2                    `counted_step`: the default
================  =====================================  ==========================================================
occupancies       one sampled transition of each chain   nu of the chains fitted to all transitions counted so far
dual steps        a rate                                 a rate / (max(nu, mass) + floor)
primal steps use  the duals before their update          the extrapolated duals, 2 new - old
lambda steps      the row that was sampled               every row, by its transition probabilities
rates             as given                               b = 2 sigma, eta = 1 / (8 b); 2 b for V, 4 eta for lambda
iterations        one for each transition                as many as the answer needs, once the transitions are counted
averaged          all iterates                           the last half
================  =====================================  ==========================================================

Axes are the paper's: mu(x, y, x', y'), alpha_X(x, x', y), alpha_Y(x, y, y'), lambda_X(y | x) as [x, y],
lambda_Y(x | y) as [y, x], V(x, y). mu and both lambdas are stored as logarithms: as probabilities they would underflow
to 0 at large rates and stay there.

Signs are those of the gradients, Eqs. 10-15; the Lagrangian as printed in Eq. 9 has the other sign in front of alpha.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from somcot.plumbing.arrays import Bools, Floats, Ints
from somcot.steps import Steps

__all__ = ["Counted", "Given", "Iterate", "counted_step", "first", "iterates", "spread", "step"]

Transitions = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Given:
    """The input of Algorithm 2: the cost c, the initial distribution nu_0, gamma, the six rates and ``max |c|``."""

    cost: Floats  # (n_x, n_y)
    start: Floats  # (n_x, n_y)
    discount: float
    rates: Steps
    max_cost: float = 1.0


@dataclass(frozen=True)
class Iterate:
    """The six variables of one iteration."""

    log_mu: Floats  # (n_x, n_y, n_x, n_y)
    log_lambda_x: Floats  # (n_x, n_y)
    log_lambda_y: Floats  # (n_y, n_x)
    alpha_x: Floats  # (n_x, n_x, n_y)
    alpha_y: Floats  # (n_x, n_y, n_y)
    V: Floats  # (n_x, n_y)

    @property
    def mu(self) -> Floats:
        """The coupling itself."""
        return np.asarray(np.exp(self.log_mu))

    @property
    def lambda_x(self) -> Floats:
        """The encoder, lambda_X(y | x)."""
        return np.asarray(np.exp(self.log_lambda_x))

    @property
    def lambda_y(self) -> Floats:
        """The decoder, lambda_Y(x | y)."""
        return np.asarray(np.exp(self.log_lambda_y))


def first(n_x: int, n_y: int, allowed: Bools | None = None) -> Iterate:
    """Mu uniform (on `allowed`, when given), both lambdas uniform, all duals zero.

    Examples
    --------
    >>> first(2, 3).mu.shape, first(2, 3).lambda_x[0].round(3).tolist()
    ((2, 3, 2, 3), [0.333, 0.333, 0.333])
    """
    mask = np.ones((n_x, n_y, n_x, n_y), dtype=bool) if allowed is None else allowed
    return Iterate(
        np.where(mask, -math.log(mask.sum()), -np.inf),
        np.full((n_x, n_y), -math.log(n_y)),
        np.full((n_y, n_x), -math.log(n_x)),
        np.zeros((n_x, n_x, n_y)),
        np.zeros((n_x, n_y, n_y)),
        np.zeros((n_x, n_y)),
    )


def step(z: Iterate, k: int, xs: Transitions, ys: Transitions, given: Given) -> Iterate:
    """Iteration k = 1, 2, ...: gradients at z from a batch of transitions of each chain, then all six updates.

    Parameters
    ----------
    z : Iterate
    k : int
    xs, ys : sequence of (state, next state)
        Drawn from nu_X and nu_Y; equally many of each. The paper takes one, a batch averages its gradients.
    given : Given

    Examples
    --------
    One step moves mu away from the costly pairs:

    >>> cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> given = Given(cost, np.array([[1.0, 0.0], [0.0, 0.0]]), 0.9, Steps(1.0, 1.0, 1.0, 0.1, 0.1, 0.1))
    >>> z = step(first(2, 2), 1, [(0, 1)], [(0, 0)], given)
    >>> np.einsum("xyuv->xy", z.mu).round(3)
    array([[0.366, 0.134],
           [0.134, 0.366]])
    """
    rates, gamma, c = given.rates, given.discount, given.cost
    mu, lambda_x, lambda_y, b = z.mu, z.lambda_x, z.lambda_y, len(xs)

    # Step 2: gradients, Eqs. 10-15.
    g_mu = (
        c[:, :, None, None]
        - z.alpha_x.transpose(0, 2, 1)[:, :, :, None]
        - z.alpha_y[:, :, None, :]
        + gamma * z.V[None, None, :, :]
        - z.V[:, :, None, None]
    )
    g_lambda_x, g_lambda_y = np.zeros_like(lambda_x), np.zeros_like(lambda_y)
    g_alpha_x = np.einsum("xyuv->xuy", mu)
    g_alpha_y = np.einsum("xyuv->xyv", mu)
    for x, next_x in xs:
        g_lambda_x[x] += z.alpha_x[x, next_x] / b
        g_alpha_x[x, next_x] -= lambda_x[x] / b
    for y, next_y in ys:
        g_lambda_y[y] += z.alpha_y[:, y, next_y] / b
        g_alpha_y[:, y, next_y] -= lambda_y[y] / b
    g_V = np.einsum("xyuv->xy", mu) - (1 - gamma) * given.start - gamma * np.einsum("xyuv->uv", mu)

    # Step 3: mirror descent in the primal variables, Eqs. 16-18; step 4: projected ascent in the duals, Eqs. 19-21.
    slow = 1.0 / math.sqrt(1.0 + rates.decay * k)
    radius = given.max_cost / (1 - gamma)
    return Iterate(
        _normalised(z.log_mu - rates.mu * slow * g_mu, None),
        _normalised(z.log_lambda_x - rates.lambda_x * slow * g_lambda_x, 1),
        _normalised(z.log_lambda_y - rates.lambda_y * slow * g_lambda_y, 1),
        np.clip(z.alpha_x - rates.alpha_x * g_alpha_x, -6 * radius, 6 * radius),
        np.clip(z.alpha_y - rates.alpha_y * g_alpha_y, -6 * radius, 6 * radius),
        np.clip(z.V - rates.V * g_V, -2 * radius, 2 * radius),
    )


def iterates(
    x: tuple[Ints, Ints], y: tuple[Ints, Ints], given: Given, batch_size: int = 1, allowed: Bools | None = None
) -> Iterator[Iterate]:
    """Iterates 1, 2, ..., K + 1 of K batches of transitions, given as (states, next states) of each chain.

    The algorithm's output is the mean of the first K: ``sum(z.mu for z in islice(iterates(...), K)) / K``.

    Examples
    --------
    >>> given = Given(1.0 - np.eye(2), np.eye(2) / 2, 0.9, Steps(1.0, 1.0, 1.0, 0.1, 0.1, 0.1))
    >>> now, following = np.array([0, 1, 0]), np.array([1, 0, 0])
    >>> len(list(iterates((now, following), (now, following), given)))
    4
    """
    n_x, n_y = given.cost.shape
    z = first(n_x, n_y, allowed)
    for k in range(len(x[0]) // batch_size):
        yield z
        batch = slice(k * batch_size, (k + 1) * batch_size)
        xs, ys = (list(zip(now[batch].tolist(), then[batch].tolist(), strict=True)) for now, then in (x, y))
        z = step(z, k + 1, xs, ys, given)
    yield z


@dataclass(frozen=True)
class Counted:
    """The input of the default: c, nu_0, gamma, and the kernels and occupancies of the fitted chains."""

    cost: Floats  # (n_x, n_y)
    start: Floats  # (n_x, n_y)
    discount: float
    kernel_x: Floats  # (n_x, n_x)
    kernel_y: Floats
    visits_x: Floats  # (n_x,) occupancy of states, which obeys the flow exactly
    visits_y: Floats
    b: float  # dual rate, 2 sigma


def spread(problem: Counted) -> float:
    """Sigma: the standard deviation, under nu_X x nu_Y, of the value V = c + gamma P V Q^T of the independent coupling.

    Examples
    --------
    >>> flip = np.array([[0.5, 0.5], [0.5, 0.5]])
    >>> half = np.array([0.5, 0.5])
    >>> round(spread(Counted(1 - np.eye(2), np.eye(2) / 2, 0.9, flip, flip, half, half, 1.0)), 3)
    0.5
    """
    n_x, n_y = problem.cost.shape
    pairs = np.kron(problem.kernel_x, problem.kernel_y)
    V = np.linalg.solve(np.eye(n_x * n_y) - problem.discount * pairs, problem.cost.ravel())
    weight = np.outer(problem.visits_x, problem.visits_y).ravel()
    return float(np.sqrt((weight * (V - weight @ V) ** 2).sum()))


def counted_step(z: Iterate, problem: Counted) -> Iterate:
    """One iteration of the default: first all duals, then all primal variables with the extrapolated duals.

    `first` with ``allowed`` on pairs of transitions of the fitted chains is where it starts.

    Examples
    --------
    Two coins that are never moved can stay on equal sides: the iteration brings the cost of mu near 0.

    >>> stay, half = np.eye(2), np.array([0.5, 0.5])
    >>> problem = Counted(1 - np.eye(2), np.eye(2) / 2, 0.9, stay, stay, half, half, 1.0)
    >>> z = first(2, 2, np.einsum("xu,yv->xyuv", stay, stay) > 0)
    >>> for _ in range(300):
    ...     z = counted_step(z, problem)
    >>> bool((np.einsum("xyuv->xy", z.mu) * problem.cost).sum() < 0.01)
    True
    """
    c, gamma, b, eta = problem.cost, problem.discount, problem.b, 1.0 / (8.0 * problem.b)
    floor = 0.1 / c.size
    nu_x, nu_y = problem.visits_x[:, None] * problem.kernel_x, problem.visits_y[:, None] * problem.kernel_y
    mu, lambda_x, lambda_y = z.mu, z.lambda_x, z.lambda_y
    m_x, m_y = np.einsum("xyuv->xuy", mu), np.einsum("xyuv->xyv", mu)
    p, q = np.einsum("xyuv->xy", mu), np.einsum("xyuv->uv", mu)

    # Gradients of the duals, Eqs. 13-15 with nu in place of a sample; each is divided by the mass it acts on.
    g_alpha_x = m_x - nu_x[:, :, None] * lambda_x[:, None, :]
    g_alpha_y = m_y - nu_y[None, :, :] * lambda_y.T[:, :, None]
    g_V = p - (1 - gamma) * problem.start - gamma * q
    mass_V = np.maximum(np.minimum(problem.visits_x[:, None], problem.visits_y[None, :]), np.maximum(p, gamma * q))
    reach_alpha, reach_V = 60 * np.ptp(c) / (1 - gamma), 20 * np.ptp(c) / (1 - gamma)
    alpha_x = z.alpha_x - b * g_alpha_x / (np.maximum(nu_x[:, :, None], m_x) + floor)
    alpha_y = z.alpha_y - b * g_alpha_y / (np.maximum(nu_y[None, :, :], m_y) + floor)
    alpha_x, alpha_y = np.clip(alpha_x, -reach_alpha, reach_alpha), np.clip(alpha_y, -reach_alpha, reach_alpha)
    V = np.clip(z.V - 2 * b * g_V / (mass_V + floor), -reach_V, reach_V)

    # Extrapolated duals, and with them Eqs. 16-18; lambda(. | s) takes the mean over the next states of s.
    ahead_x, ahead_y, ahead_V = 2 * alpha_x - z.alpha_x, 2 * alpha_y - z.alpha_y, 2 * V - z.V
    g_mu = (
        c[:, :, None, None]
        - ahead_x.transpose(0, 2, 1)[:, :, :, None]
        - ahead_y[:, :, None, :]
        + gamma * ahead_V[None, None, :, :]
        - ahead_V[:, :, None, None]
    )
    g_lambda_x = np.einsum("xu,xuy->xy", problem.kernel_x, ahead_x)
    g_lambda_y = np.einsum("yv,xyv->yx", problem.kernel_y, ahead_y)
    return Iterate(
        _normalised(z.log_mu - eta * g_mu, None),
        _normalised(z.log_lambda_x - 4 * eta * g_lambda_x, 1),
        _normalised(z.log_lambda_y - 4 * eta * g_lambda_y, 1),
        alpha_x,
        alpha_y,
        V,
    )


def _normalised(log: Floats, axis: int | None) -> Floats:
    top = log.max(axis=axis, keepdims=True)
    return np.asarray(log - top - np.log(np.exp(log - top).sum(axis=axis, keepdims=True)))
