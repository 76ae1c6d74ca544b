"""The saddle point behind SOMCOT as plain functions: Lagrangian, gradients, duality gap.

    L = <mu, c - alpha_X - alpha_Y + gamma V' - V> + <nu_X lambda_X, alpha_X> + <nu_Y lambda_Y, alpha_Y>
        + (1 - gamma) <nu_0, V>

with the signs of Algorithm 2 (the paper's printed Lagrangian has alpha the other way round). Everything is a full
array, for checking and teaching; SOMCOT itself never builds mu.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.plumbing.arrays import Floats

__all__ = ["Dual", "Instance", "Primal", "best_dual", "duality_gap", "gradients", "value"]


class Instance(NamedTuple):
    """The data of the saddle point."""

    cost: Floats  # (n_x, n_y)
    nu_x: Floats  # (n_x, n_x)
    nu_y: Floats  # (n_y, n_y)
    start: Floats  # (n_x, n_y), law of the first pair
    discount: float


class Primal(NamedTuple):
    """The minimising player: mu(x, y, x', y'), lambda_X(y | x), lambda_Y(x | y)."""

    mu: Floats
    lambda_x: Floats
    lambda_y: Floats


class Dual(NamedTuple):
    """The maximising player: alpha_X(x, x', y), alpha_Y(x, y, y'), V(x, y)."""

    alpha_x: Floats
    alpha_y: Floats
    V: Floats


def value(instance: Instance, primal: Primal, dual: Dual) -> float:
    """The Lagrangian."""
    cost, nu_x, nu_y, start, discount = instance
    mu, lambda_x, lambda_y = primal
    penalty = (
        np.einsum("xu,xy,xuy->", nu_x, lambda_x, dual.alpha_x)
        + np.einsum("yv,yx,xyv->", nu_y, lambda_y, dual.alpha_y)
        + (1 - discount) * (start * dual.V).sum()
    )
    return float((mu * _reduced_cost(cost, discount, dual)).sum() + penalty)


def gradients(instance: Instance, primal: Primal, dual: Dual) -> tuple[Primal, Dual]:
    """Derivatives of the Lagrangian by its six variables (Eqs. 10-15 of the paper, in expectation).

    The dual part is what the maximising player adds; Algorithm 2 writes its negative.
    """
    cost, nu_x, nu_y, start, discount = instance
    mu, lambda_x, lambda_y = primal
    by_primal = Primal(
        _reduced_cost(cost, discount, dual),
        np.einsum("xu,xuy->xy", nu_x, dual.alpha_x),
        np.einsum("yv,xyv->yx", nu_y, dual.alpha_y),
    )
    by_dual = Dual(
        np.einsum("xu,xy->xuy", nu_x, lambda_x) - np.einsum("xyuv->xuy", mu),
        np.einsum("yv,yx->xyv", nu_y, lambda_y) - np.einsum("xyuv->xyv", mu),
        (1 - discount) * start + discount * mu.sum(axis=(0, 1)) - mu.sum(axis=(2, 3)),
    )
    return by_primal, by_dual


def duality_gap(instance: Instance, primal: Primal, dual: Dual, best_primal: Primal, best_dual: Dual) -> float:
    """The gap of averaged iterates against given comparators, G_K of the paper.

    L is linear in either player, so the mean over iterates is the value at their mean.
    """
    return value(instance, primal, best_dual) - value(instance, best_primal, dual)


def best_dual(instance: Instance, primal: Primal) -> Dual:
    """The comparator (alpha*, V*) of Lemma 1: the duals within the radii that punish `primal` most."""
    radius = float(np.abs(instance.cost).max()) / (1 - instance.discount)
    zero = Dual(*(np.zeros(shape) for shape in _dual_shapes(instance)))
    _, by_dual = gradients(instance, primal, zero)
    return Dual(
        6 * radius * np.sign(by_dual.alpha_x), 6 * radius * np.sign(by_dual.alpha_y), 2 * radius * np.sign(by_dual.V)
    )


def _dual_shapes(instance: Instance) -> tuple[tuple[int, ...], ...]:
    n_x, n_y = instance.cost.shape
    return (n_x, n_x, n_y), (n_x, n_y, n_y), (n_x, n_y)


def _reduced_cost(cost: Floats, discount: float, dual: Dual) -> Floats:
    """The gradient by mu, c - alpha_X - alpha_Y + gamma V' - V, (n_x, n_y, n_x, n_y)."""
    return np.asarray(
        (cost - dual.V)[:, :, None, None]
        - dual.alpha_x.transpose(0, 2, 1)[:, :, :, None]
        - dual.alpha_y[:, :, None, :]
        + discount * dual.V[None, None, :, :]
    )
