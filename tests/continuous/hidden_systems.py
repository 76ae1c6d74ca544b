"""Sixteen further pairs, most of them with a hidden state; written down before the standard error of a map was changed.

A hidden state makes steps of one episode depend on each other, so moments and steps share their noise. Controls without
one, pairs that are not maps, and deterministic systems with 50 starts are among them. Truths as in `held_out_systems`;
``python -m tests.continuous.hidden_systems`` computes them again.
"""

from __future__ import annotations

import numpy as np

from somcot.plumbing.arrays import Floats
from tests.continuous.held_out_systems import (
    Rng,
    Run,
    columns,
    deterministic,
    euler,
    monotone,
    normal,
    runs,
    same,
    scalar,
    shifted,
    stretched,
)

__all__ = ["HIDDEN"]


def telegraph(n: int, n_steps: int, rng: Rng) -> Floats:
    """A hidden switch pushes up or down."""
    push = np.where(rng.random((n, 1)) < 0.5, 1.0, -1.0)
    rows = [0.4 * rng.standard_normal((n, 1))]
    for _ in range(n_steps):
        push = np.where(rng.random((n, 1)) < 0.04, -push, push)
        rows.append(0.7 * rows[-1] + 0.3 * push + 0.3 * rng.standard_normal((n, 1)))
    return np.stack(rows, axis=1)


def factor(loadings: tuple[float, ...], memory: float, start: float) -> Run:
    """One slow hidden quantity drives all coordinates."""

    def record(n: int, n_steps: int, rng: Rng) -> Floats:
        hidden, load = start * rng.standard_normal((n, 1)), np.asarray(loadings)
        rows = [0.4 * rng.standard_normal((n, len(load)))]
        for _ in range(n_steps):
            hidden = memory * hidden + np.sqrt(1 - memory**2) * rng.standard_normal((n, 1))
            rows.append(0.6 * rows[-1] + 0.4 * hidden * load + 0.25 * rng.standard_normal((n, len(load))))
        return np.stack(rows, axis=1)

    return record


_TURN = 0.9 * np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
_ROTATION = runs(normal(2, 0.6), lambda z, rng: z @ _TURN.T + 0.3 * rng.standard_normal(z.shape))


def noisy(n: int, n_steps: int, rng: Rng) -> Floats:
    """Recorded with an error of measurement."""
    return _ROTATION(n, n_steps, rng) + 0.3 * rng.standard_normal((n, n_steps + 1, 2))


def position(n: int, n_steps: int, rng: Rng) -> Floats:
    """Position of a damped oscillator; its velocity is not recorded."""
    f = lambda z: columns(z[:, 1], -z[:, 0] - 0.4 * z[:, 1])  # noqa: E731
    return runs(normal(2, 0.7), euler(f, 0.1, 4, [0.0, 0.6]))(n, n_steps, rng)[:, :, :1]


def patients(n: int, n_steps: int, rng: Rng) -> Floats:
    """Each episode has a centre and a size of its noise."""
    centre, size = 0.3 * rng.standard_normal((n, 2)), rng.uniform(0.1, 0.5, (n, 1))
    rows = [centre + 0.3 * rng.standard_normal((n, 2))]
    for _ in range(n_steps):
        rows.append(centre + 0.6 * (rows[-1] - centre) + size * rng.standard_normal((n, 2)))
    return np.stack(rows, axis=1)


def handed(n: int, n_steps: int, rng: Rng) -> Floats:
    """A hidden switch chooses the sense of rotation."""
    left = rng.random(n) < 0.5
    z = 0.5 * rng.standard_normal((n, 2))
    rows = []
    for t in range(n_steps + 41):
        if t > 39:  # stationary from then on
            rows.append(z)
        left = left ^ (rng.random(n) < 0.05)
        turned = np.where(left[:, None], z @ _TURN.T, z @ _TURN)
        z = turned + [0.05, 0.0] + 0.3 * rng.standard_normal((n, 2))
    return np.stack(rows, axis=1)


def _prey(z: Floats) -> Floats:
    u, v = z.T
    return columns(1 - np.exp(np.minimum(v, 5)) - 0.1 * u, np.exp(np.minimum(u, 5)) - 1 - 0.1 * v)


PREY = runs(normal(2, 0.4), euler(_prey, 0.02, 10, 0.15))
CUBIC = scalar(lambda x: np.clip(1.2 * x - 0.3 * x**3, -2.0, 2.0), 0.4, 0.8)
THRESHOLD = scalar(lambda x: np.where(x > 0, 0.8 * x, 0.3 * x + 0.2), 0.4, 0.5)
_M5 = np.random.default_rng(55).normal(size=(5, 5))
_M5 *= 0.88 / np.abs(np.linalg.eigvals(_M5)).max()
FIVE = runs(normal(5, 0.4), lambda z, rng: z @ _M5.T + 0.3 * rng.standard_normal(z.shape))


def _duffing(damping: float) -> Run:
    f = lambda z: columns(z[:, 1], z[:, 0] - z[:, 0] ** 3 - damping * z[:, 1])  # noqa: E731
    return runs(lambda n, rng: rng.uniform([-1.5, -0.7], [1.5, 0.7], (n, 2)), euler(f, 0.02, 10, 0.0))


def _decay(rate: float) -> Run:
    return runs(normal(1, 0.5, 1.0), euler(lambda x: -rate * x - 0.2 * x**3, 0.05, 4, 0.0))


HIDDEN = {
    "telegraph, same (1-D)": same(telegraph),
    "factor, same (3-D)": same(factor((1.0, 0.5, -0.5), 0.92, 1.0)),
    "patients, same (2-D)": same(patients, shape=(120, 60)),
    "telegraph shifted (1-D)": shifted(telegraph, [0.3]),
    "factor x 1.25, squared (2-D)": stretched(factor((1.0, -0.5), 0.95, 1.0), 1.25, "sqeuclidean", 0.0735),
    "measured with noise, shifted (2-D)": shifted(noisy, [0.2, 0.2]),
    "position only, x 1.2, squared (1-D)": stretched(position, 1.2, "sqeuclidean", 0.0226),
    "patients shifted (2-D)": shifted(patients, [0.3, 0.0], shape=(120, 60)),
    "both hands, 8 runs of 1,200, shifted (2-D)": shifted(handed, [0.25, 0.0], shape=(8, 1200)),
    "prey and predator shifted (2-D)": shifted(PREY, [0.2, -0.1]),
    "cubic x 1.3, squared (1-D)": stretched(CUBIC, 1.3, "sqeuclidean", 0.0525),
    "linear stretched, squared (5-D)": stretched(FIVE, [1.2, 1.0, 0.85, 1.0, 1.1], "sqeuclidean", 0.0583),
    "threshold, shifted (1-D)": shifted(THRESHOLD, [0.25]),
    "tanh, noise 0.4 and 0.6 (1-D)": monotone(
        scalar(lambda x: np.tanh(1.4 * x), 0.4, 0.5), scalar(lambda x: np.tanh(1.4 * x), 0.6, 0.5), "euclidean", 0.2956
    ),
    "Duffing without noise, 50 starts (2-D)": deterministic(_duffing(0.2), _duffing(0.5), 0.1651, (50, 60)),
    "decay without noise, 50 starts (1-D)": deterministic(_decay(0.3), _decay(0.6), 0.1131, (50, 60)),
}


if __name__ == "__main__":
    for name, system in HIDDEN.items():
        if system.compute is not None:
            print(f"{name}: {system.compute():.4f} ({system.truth})", flush=True)
