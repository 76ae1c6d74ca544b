"""Systems that no rule of the package was chosen on; the list was fixed before the first of them was run.

Five are linear (one with noise of heavy tails, one with unequal recordings), six are not; truths as in `systems`.
"""

from __future__ import annotations

import numpy as np

from somcot.plumbing.arrays import Floats
from tests.continuous.systems import (
    Process,
    System,
    closed_form,
    closed_form_1d,
    flow,
    linear,
    rotated,
    same,
    scalar,
    shifted,
    turn,
)

__all__ = ["UNSEEN"]

# Grids of 81, 161 and 321 points, extrapolated: `systems.grid_truth`.
RICKER, RICKER_SQ = 0.1312, 0.0307


def _ricker(r: float) -> Process:
    """Logarithm of a population: x + r (1 - e^x)."""
    return scalar(lambda x: x + r * (1 - np.exp(np.minimum(x, 3.0))), 0.3, 0.0, 0.3)


def _threshold(x: Floats) -> Floats:
    return np.where(x < 0, 0.7 * x + 0.4, -0.3 * x - 0.2)


def _spring(stiffness: float, damping: float) -> tuple[Floats, Floats, Floats, Floats]:
    A = np.eye(2) + 0.3 * np.array([[-0.3 * stiffness, 1.0], [-stiffness, -damping]])
    return A, np.diag([0.05, 0.3]), np.array([0.5, 0.0]), 0.3 * np.eye(2)


def _random(seed: int) -> tuple[Floats, Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(4, 4))
    A *= 0.85 / np.abs(np.linalg.eigvals(A)).max()
    return A, 0.3 * rng.normal(size=(4, 4)), 0.3 * rng.normal(size=4), 0.3 * np.eye(4)


def _pair(x: tuple[Floats, ...], y: tuple[Floats, ...]) -> System:
    return System(linear(*x), linear(*y), "sqeuclidean", closed_form(x, y))


def _network(d: int) -> Process:
    """Saturating units with random couplings."""
    W = 1.2 * np.random.default_rng(31).normal(size=(d, d)) / np.sqrt(d)
    return Process(
        lambda n, rng: 0.5 * rng.standard_normal((n, d)),
        lambda states, rng: np.asarray(np.tanh(states @ W.T) + 0.3 * rng.standard_normal(states.shape)),
    )


def _heavy() -> Process:
    """Linear, with Student's noise of 4 degrees of freedom."""
    A = np.array([[0.7, 0.3], [-0.2, 0.6]])
    return Process(
        lambda n, rng: 0.3 * rng.standard_t(4, size=(n, 2)),
        lambda states, rng: np.asarray(states @ A.T + 0.25 * rng.standard_t(4, size=states.shape)),
    )


def _brusselator(z: Floats) -> Floats:
    x, y = z[:, 0], z[:, 1]
    return np.column_stack([1.0 + x * x * y - 3.0 * x, 2.0 * x - x * x * y])


def _regimes() -> Process:
    """Two coordinates that push each other with a quadratic term, held back by saturation."""

    def step(states: Floats, rng: np.random.Generator) -> Floats:
        x, y = states[:, 0], states[:, 1]
        drift = np.column_stack([0.7 * x + 0.3 * np.tanh(y * y - 0.5), 0.6 * y - 0.4 * np.tanh(x)])
        return drift + 0.25 * rng.standard_normal(states.shape)

    return Process(lambda n, rng: 0.3 * rng.standard_normal((n, 2)), step)


_SPIN = turn(2, 41)
_AR = ((0.5, 0.4, 0.0, 0.4), (0.7, 0.3, 0.2, 0.4))
_AR_SQ = closed_form_1d(*_AR)


def _with_ar(first: Process, side: int) -> Process:
    a, s, mean, spread = _AR[side]
    return rotated(_SPIN, first, scalar(lambda x: a * x, s, mean, spread))


UNSEEN = {
    "threshold, shifted (1-D)": shifted(scalar(_threshold, 0.35, 0.0, 0.5), [0.4]),
    "Ricker 0.8, 0.4 (1-D)": System(_ricker(0.8), _ricker(0.4), "euclidean", RICKER),
    "two springs (2-D, linear)": _pair(_spring(1.0, 0.4), _spring(1.5, 0.8)),
    "random (4-D, linear)": _pair(_random(21), _random(22)),
    "heavy tails, same (2-D)": same(_heavy()),
    "heavy tails, shifted (2-D)": shifted(_heavy(), [0.2, -0.3]),
    "network, shifted (3-D)": shifted(_network(3), [0.3, 0.2, -0.2]),
    "Ricker x AR, turned (2-D)": System(
        _with_ar(_ricker(0.8), 0), _with_ar(_ricker(0.4), 1), "sqeuclidean", RICKER_SQ + _AR_SQ
    ),
    "regimes, shifted (2-D)": shifted(_regimes(), [0.25, 0.3]),
    "regimes, same (2-D)": same(_regimes()),
    "Brusselator, shifted (2-D)": shifted(flow(_brusselator, 0.05, 6, [0.05, 0.05], [1.0, 1.0], 0.3), [0.3, 0.4]),
}
