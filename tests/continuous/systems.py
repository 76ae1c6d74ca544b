"""Systems whose distance is known: recordings of both sides, and the truth.

Truths are of two kinds. Shift: Y = X' + m, an independent run moved by m, is |m| away (common noise attains it, Jensen
forbids less). Linear: the closed form, evaluated independently of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from somcot import Trajectories
from somcot.plumbing.arrays import Floats

Step = Callable[[Floats, np.random.Generator], Floats]


@dataclass(frozen=True)
class Process:
    """First states, and a step of many at once."""

    reset: Callable[[int, np.random.Generator], Floats]
    step: Step

    def record(self, n_episodes: int, n_steps: int, rng: np.random.Generator) -> Trajectories:
        states = [self.reset(n_episodes, rng)]
        for _ in range(n_steps):
            states.append(self.step(states[-1], rng))
        return Trajectories.from_arrays(np.stack(states, axis=1))


@dataclass(frozen=True)
class System:
    """Two processes and how far apart they are at discount 0.95, coordinates as they are."""

    x: Process
    y: Process
    cost: str
    truth: float

    def record(self, n_episodes: int, n_steps: int, rng: np.random.Generator) -> tuple[Trajectories, Trajectories]:
        return self.x.record(n_episodes, n_steps, rng), self.y.record(n_episodes, n_steps, rng)


def linear(A: Floats, S: Floats, mean: Floats, spread: float) -> Process:
    d = len(A)

    def reset(n: int, rng: np.random.Generator) -> Floats:
        return np.asarray(mean + spread * rng.standard_normal((n, d)))

    def step(states: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(states @ A.T + rng.standard_normal(states.shape) @ S.T)

    return Process(reset, step)


def moved(process: Process, m: Floats) -> Process:
    """The same process seen from elsewhere."""
    return Process(lambda n, rng: process.reset(n, rng) + m, lambda states, rng: process.step(states - m, rng) + m)


def rotation(angle: float) -> Floats:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


_TURN = linear(0.85 * rotation(0.3), np.array([[0.3, 0.1], [0.0, 0.3]]), np.zeros(2), 0.3)
_OTHER = linear(0.7 * rotation(0.6), np.array([[0.3, 0.0], [0.1, 0.5]]), np.array([0.5, 0.0]), 0.3)

SYSTEMS = {
    "rotation": System(_TURN, _TURN, "euclidean", 0.0),
    "rotation, shifted": System(_TURN, moved(_TURN, np.array([0.3, 0.4])), "euclidean", 0.5),
    "two rotations": System(_TURN, _OTHER, "sqeuclidean", 0.2987),
}
