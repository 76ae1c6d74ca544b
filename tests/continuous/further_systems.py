"""A second list of systems, written down before any of them was run, to find answers that are wrong and sure of it.

Shifts of systems that neither cells nor linear models can represent, pairs that are nearly but not quite maps of each
other, and noise that no model here has. Truths as in `systems`; `circle_truth` for phases on a circle.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from somcot.plumbing.arrays import Floats
from tests.continuous.systems import (
    Process,
    System,
    closed_form,
    flow,
    linear,
    rotated,
    rotation,
    same,
    scalar,
    shifted,
    turn,
)

__all__ = ["DIFFERENT", "FURTHER", "circle_truth"]

# `circle_truth` with 80 phases and 40 atoms, and 120 and 60 (0.602, 0.599; 0.298, 0.292), extrapolated.
FREQUENCY, NOISE = 0.597, 0.287
# `grid_truth` with 81, 161 and 321 points (0.0534, 0.0460, 0.0444), extrapolated.
BARRIER_SQ = 0.0440


def circle_truth(
    x: tuple[float, float], y: tuple[float, float], n: int = 120, atoms: int = 60, g: float = 0.95
) -> float:
    """Distance of phases that move by (mean, noise) a step, seen on the unit circle, from uniform phases.

    Costs depend on the difference of the phases alone, and so does the best coupling: value iteration on it, with the
    noise of a step as equally likely atoms that are matched.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.special import ndtri

    e = ndtri((np.arange(atoms) + 0.5) / atoms)
    e = e / np.sqrt((e**2).mean())
    phases = 2 * np.pi * np.arange(n) / n
    cost = 2.0 * np.abs(np.sin(phases / 2))
    moves = (x[0] - y[0]) + x[1] * e[:, None] - y[1] * e[None, :]
    values = cost / (1 - g)
    for _ in range(400):
        new = np.empty(n)
        for i, phase in enumerate(phases):
            place = ((phase + moves) / (2 * np.pi) * n) % n
            low = place.astype(int) % n
            then = values[low] + (place - place.astype(int)) * (values[(low + 1) % n] - values[low])
            new[i] = cost[i] + g * then[linear_sum_assignment(then)].mean()
        change, values = float(np.abs(new - values).max()), new
        if change < 1e-4:
            break
    return float((1 - g) * values.min())  # starts are uniform, so any difference may be chosen


def _circle(frequency: float, noise: float) -> Process:
    def step(states: Floats, rng: np.random.Generator) -> Floats:
        phase = np.arctan2(states[:, 1], states[:, 0]) + frequency + noise * rng.standard_normal(len(states))
        return np.column_stack([np.cos(phase), np.sin(phase)])

    def reset(n: int, rng: np.random.Generator) -> Floats:
        phase = rng.uniform(0, 2 * np.pi, n)
        return np.column_stack([np.cos(phase), np.sin(phase)])

    return Process(reset, step)


def _duffing(x: Floats) -> Floats:
    return np.column_stack([x[:, 1], x[:, 0] - x[:, 0] ** 3 - 0.3 * x[:, 1]])


def _lorenz(x: Floats) -> Floats:
    """In units of ten."""
    a, b, c = x.T
    return np.column_stack([10 * (b - a), a * (28 - 10 * c) - b, 10 * a * b - 8 / 3 * c])


def _henon() -> Process:
    def step(states: Floats, rng: np.random.Generator) -> Floats:
        a, b = states.T
        a = np.clip(1 - 1.2 * a * a + b, -2.0, 2.0)
        return np.column_stack([a, 0.3 * states[:, 0]]) + 0.03 * rng.standard_normal(states.shape)

    return Process(lambda n, rng: 0.2 * rng.standard_normal((n, 2)), step)


def _heavy_turn() -> Process:
    """A slow rotation with Student's noise of 3 degrees of freedom."""
    A = 0.9 * rotation(0.25)
    return Process(
        lambda n, rng: 0.4 * rng.standard_t(3, size=(n, 2)),
        lambda states, rng: np.asarray(states @ A.T + 0.15 * rng.standard_t(3, size=states.shape)),
    )


def _bursts() -> Process:
    """Linear, with noise that grows with the first coordinate."""
    A = np.array([[0.8, 0.1], [-0.2, 0.7]])

    def step(states: Floats, rng: np.random.Generator) -> Floats:
        size = 0.1 + 0.3 * np.abs(states[:, :1])
        return np.asarray(states @ A.T + np.minimum(size, 1.0) * rng.standard_normal(states.shape))

    return Process(lambda n, rng: 0.3 * rng.standard_normal((n, 2)), step)


def _spins(seed: int, angle: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Two rotations and a decay in five dimensions, turned."""
    A = np.zeros((5, 5))
    A[:2, :2], A[2:4, 2:4], A[4, 4] = 0.9 * rotation(angle), 0.8 * rotation(2 * angle), 0.5
    Q = turn(5, seed)
    return Q @ A @ Q.T, 0.3 * np.eye(5), np.zeros(5), 0.4 * np.eye(5)


def _coupled(noise: tuple[float, float]) -> tuple[Floats, Floats, Floats, Floats]:
    return np.array([[0.85, 0.1], [0.1, 0.7]]), np.diag(noise), np.array([0.5, -0.5]), 0.3 * np.eye(2)


def _pair(x: tuple[Floats, ...], y: tuple[Floats, ...]) -> System:
    return System(linear(*x), linear(*y), "sqeuclidean", closed_form(x, y))


def barrier(height: float) -> tuple[Callable[[Floats], Floats], float, float, float]:
    """A well on either side of so high a barrier: the arguments of `scalar`."""
    return (lambda x: x - 0.1 * (2 * height * x * (x * x - 1)), float(np.sqrt(0.05)), -1.0, 0.2)


def _with_decay(first: Process) -> Process:
    return rotated(rotation(0.8), first, scalar(lambda x: 0.7 * x, 0.3, 0.0, 0.3))


def _lorenz_process(sign: float = 1.0) -> Process:
    process = flow(_lorenz, 0.01, 8, [0.02] * 3, [0.0, 0.0, 2.5], 0.5)
    side = np.array([sign, sign, 1.0])  # the Lorenz system is the same after a half turn about its third axis
    return Process(
        lambda n, rng: process.reset(n, rng) * side, lambda states, rng: process.step(states * side, rng) * side
    )


FURTHER = {
    "Duffing, shifted (2-D)": shifted(flow(_duffing, 0.1, 4, [0.0, 0.2], [1.0, 0.0], 0.3), [0.4, 0.0]),
    "Hénon, shifted (2-D)": shifted(_henon(), [0.2, 0.1]),
    "Hénon, same (2-D)": same(_henon()),
    "Lorenz, shifted (3-D)": shifted(_lorenz_process(), [0.3, 0.0, 0.4]),
    "Lorenz, turned onto itself (3-D)": System(_lorenz_process(), _lorenz_process(-1.0), "euclidean", 0.0),
    "coupled decays, other noise (2-D)": _pair(_coupled((0.2, 0.4)), _coupled((0.4, 0.2))),
    "slow rotation, very heavy tails, shifted (2-D)": shifted(_heavy_turn(), [0.3, -0.2]),
    "bursts, shifted (2-D)": shifted(_bursts(), [0.3, 0.3]),
    "bursts, same (2-D)": same(_bursts()),
    "five dimensions, two rotations": _pair(_spins(51, 0.3), _spins(51, 0.4)),
    "five dimensions, shifted": shifted(linear(*_spins(51, 0.3)), [0.3, 0.0, 0.4, 0.0, 0.0]),
    "barriers 1 and 0.6 x decay (2-D)": System(
        _with_decay(scalar(*barrier(1.0))), _with_decay(scalar(*barrier(0.6))), "sqeuclidean", BARRIER_SQ
    ),
    "circle, frequencies 0.50 and 0.56": System(_circle(0.5, 0.1), _circle(0.56, 0.1), "euclidean", FREQUENCY),
    "circle, noise 0.1 and 0.2": System(_circle(0.5, 0.1), _circle(0.5, 0.2), "euclidean", NOISE),
}


def _hopf(frequency: float = 0.5, noise: float = 0.1, pull: float = 1.0) -> Process:
    def f(x: Floats) -> Floats:
        radial = pull * x * (1.0 - np.square(x).sum(axis=1, keepdims=True))
        return np.asarray(radial + frequency * np.column_stack([-x[:, 1], x[:, 0]]))

    return flow(f, 0.2, 5, [noise, noise], [1.0, 0.0], 0.3)


def _van_der_pol(mu: float = 1.0, h: float = 0.1) -> Process:
    def f(x: Floats) -> Floats:
        return np.column_stack([x[:, 1], mu * (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]])

    return flow(f, h, 4, [0.15, 0.15], [2.0, 0.0], 0.3)


def _damped(damping: float) -> Process:
    def f(x: Floats) -> Floats:
        return np.column_stack([x[:, 1], x[:, 0] - x[:, 0] ** 3 - damping * x[:, 1]])

    return flow(f, 0.1, 4, [0.0, 0.2], [1.0, 0.0], 0.3)


def _fold(a: float) -> Process:
    def step(states: Floats, rng: np.random.Generator) -> Floats:
        new = np.column_stack([np.clip(1 - a * states[:, 0] ** 2 + states[:, 1], -2, 2), 0.3 * states[:, 0]])
        return np.asarray(new + 0.03 * rng.standard_normal(states.shape))

    return Process(lambda n, rng: 0.2 * rng.standard_normal((n, 2)), step)


def _prey(growth: float) -> Process:
    """Logarithms of predator and prey, held back a little."""

    def f(x: Floats) -> Floats:
        a, b = np.exp(np.minimum(x.T, 2.0))
        return np.column_stack([growth - b - 0.1 * a, a - 1.0])

    return flow(f, 0.1, 4, [0.1, 0.1], [0.3, 0.0], 0.2)


def _uneven(bend: float) -> Process:
    """A phase that runs faster on one side: the same circle, the same round trip, another clock."""

    def step(states: Floats, rng: np.random.Generator) -> Floats:
        phase = np.arctan2(states[:, 1], states[:, 0])
        mean = np.sqrt(0.5**2 + bend**2)  # as long for a round as at an even speed of 0.5
        for _ in range(4):
            phase = phase + 0.25 * (mean + bend * np.sin(phase)) + 0.05 * rng.standard_normal(len(phase))
        return np.column_stack([np.cos(phase), np.sin(phase)]) * (1 + 0.02 * rng.standard_normal((len(phase), 1)))

    def reset(n: int, rng: np.random.Generator) -> Floats:
        phase = rng.uniform(0, 2 * np.pi, n)
        return np.column_stack([np.cos(phase), np.sin(phase)])

    return Process(reset, step)


# Pairs that no map carries into each other; their distance is not known.
DIFFERENT = {
    "Hopf, frequencies 0.5 and 0.6": (_hopf(), _hopf(frequency=0.6)),
    "Hopf, noise 0.1 and 0.2": (_hopf(), _hopf(noise=0.2)),
    "Hopf, pull 1 and 0.3": (_hopf(), _hopf(pull=0.3)),
    "van der Pol 1 and 1.3": (_van_der_pol(), _van_der_pol(1.3)),
    "van der Pol, slower by a tenth": (_van_der_pol(), _van_der_pol(h=0.09)),
    "Duffing, damping 0.3 and 0.15": (_damped(0.3), _damped(0.15)),
    "Hénon 1.2 and 1.1": (_fold(1.2), _fold(1.1)),
    "predator and prey, growth 1 and 0.8": (_prey(1.0), _prey(0.8)),
    "circle, even and uneven speed": (_uneven(0.0), _uneven(0.3)),
    "circle, frequencies 0.50 and 0.56": (_circle(0.5, 0.1), _circle(0.56, 0.1)),
}
