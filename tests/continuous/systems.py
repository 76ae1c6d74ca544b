"""Systems whose distance is known: recordings of both sides, and the truth.

Truths are of two kinds. Shift: Y = X' + m, an independent run moved by m, is |m| away (common noise attains it, Jensen
forbids less). Linear: the closed form, evaluated independently of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from somcot import Trajectories
from somcot.plumbing.arrays import Floats

WELL_SQ = 0.0732  # squared cost, grids as below
BENT_SQ = 0.0845

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


def linear(A: Floats, S: Floats, mean: Floats, start: Floats) -> Process:
    d = len(A)

    def reset(n: int, rng: np.random.Generator) -> Floats:
        return np.asarray(mean + rng.standard_normal((n, d)) @ start.T)

    def step(states: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(states @ A.T + rng.standard_normal(states.shape) @ S.T)

    return Process(reset, step)


def moved(process: Process, m: Floats) -> Process:
    """The same process seen from elsewhere."""
    return Process(lambda n, rng: process.reset(n, rng) + m, lambda states, rng: process.step(states - m, rng) + m)


def rotation(angle: float) -> Floats:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def scalar(f: Callable[[Floats], Floats], noise: float, mean: float, spread: float) -> Process:
    """One coordinate: f(x) plus noise."""
    return Process(
        lambda n, rng: mean + spread * rng.standard_normal((n, 1)),
        lambda states, rng: f(states) + noise * rng.standard_normal(states.shape),
    )


def rotated(turn: Floats, *parts: Process) -> Process:
    """Independent coordinates, turned: the squared distance is the sum of theirs."""
    back = turn.T

    def step(states: Floats, rng: np.random.Generator) -> Floats:
        own = states @ back.T
        return np.column_stack([part.step(own[:, [k]], rng) for k, part in enumerate(parts)]) @ turn.T

    return Process(lambda n, rng: np.column_stack([part.reset(n, rng) for part in parts]) @ turn.T, step)


def closed_form(x: Any, y: Any, g: float = 0.95) -> float:
    """Squared cost between x' = Ax + Se and y' = By + Rf from N(m, F F'): Kronecker systems and a plain sum."""
    (A, S, m, F), (B, R, k, G) = x, y
    d = len(A)

    def fixed(left: Floats, right: Floats) -> Floats:
        flat = np.linalg.solve(np.eye(d * d) - g * np.kron(left.T, right.T), np.eye(d).ravel())
        return np.asarray(flat.reshape(d, d))

    P, W, Q = fixed(A, A), fixed(B, B), fixed(A, B)

    def spread(one: Floats, other: Floats) -> float:
        both = np.trace(P @ one @ one.T) + np.trace(W @ other @ other.T)
        return float(both - 2 * np.linalg.svd(one.T @ Q @ other, compute_uv=False).sum())

    means = 0.0
    for t in range(600):
        means += (1 - g) * g**t * float(((m - k) ** 2).sum())
        m, k = A @ m, B @ k
    return means + (1 - g) * spread(F, G) + g * spread(S, R)


def grid_truth(x: Any, y: Any, cost: str, sizes: tuple[int, ...] = (41, 81, 161), g: float = 0.95) -> list[float]:
    """Distances on grids of so many points, 48 atoms of noise put between the two nearest points.

    Each side is (f, noise, mean, spread) as for `scalar`.
    """
    from scipy.special import ndtri

    import somcot

    atoms = ndtri((np.arange(48) + 0.5) / 48)
    atoms = atoms / np.sqrt((atoms**2).mean())
    found = []
    for n in sizes:
        z, width = np.linspace(-3.0, 3.0, n, retstep=True)
        chains = []
        for f, noise, mean, spread in (x, y):
            rows = np.zeros((n + 1, n))
            for row, centre in enumerate([*f(z), mean]):
                at = np.clip(centre + (noise if row < n else spread) * atoms, -3.0, 3.0 - 1e-9)
                place = ((at + 3.0) / width).astype(int)
                weight = (at + 3.0) / width - place
                np.add.at(rows[row], place, (1 - weight) / 48)
                np.add.at(rows[row], place + 1, weight / 48)
            chains.append(somcot.MarkovChain(rows[:-1], rows[-1], normalize=True))
        table = np.abs(np.subtract.outer(z, z)) ** (2 if cost == "sqeuclidean" else 1)
        found.append(somcot.distance(chains[0], chains[1], table, discount=g).distance)
    return found


def _matrices(a: float, s: float, mean: float, spread: float) -> Any:
    return np.array([[a]]), np.array([[s]]), np.array([mean]), np.array([[spread]])


def closed_form_1d(x: Any, y: Any) -> float:
    """The same for x' = a x + s e from N(mean, spread^2), each side (a, s, mean, spread)."""
    return closed_form(_matrices(*x), _matrices(*y))


def turn(d: int, seed: int) -> Floats:
    return np.asarray(np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0])


def _pair(x: Any, y: Any) -> System:
    """Two linear systems (A, S, mean, factor of the start) under squared cost."""
    sides = [linear(A, S, m, F) for A, S, m, F in (x, y)]
    return System(sides[0], sides[1], "sqeuclidean", closed_form(x, y))


def shifted(process: Process, m: Any) -> System:
    m = np.asarray(m, dtype=float)
    return System(process, moved(process, m), "euclidean", float(np.linalg.norm(m)))


def same(process: Process) -> System:
    return System(process, process, "euclidean", 0.0)


def _ar(a: float, s: float, mean: float, spread: float = 0.6) -> Process:
    return scalar(lambda x: a * x, s, mean, spread)


def bent(b: float) -> Process:
    return scalar(lambda x: (0.8 - b * np.exp(-x * x)) * x, 0.4, 0.5, 0.3)


def well(tilt: float) -> Process:
    return scalar(lambda x: x - 0.1 * (2 * x * (x * x - 1) - tilt), np.sqrt(0.05), -1.0, 0.2)


def flow(f: Callable[[Floats], Floats], h: float, n: int, noise: Any, start: Any, spread: float) -> Process:
    """n midpoint steps of an ordinary differential equation for each step that is seen, noise added to each."""
    noise, start = np.asarray(noise) / np.sqrt(n), np.asarray(start, dtype=float)

    def step(states: Floats, rng: np.random.Generator) -> Floats:
        for _ in range(n):
            states = states + h * f(states + 0.5 * h * f(states)) + noise * rng.standard_normal(states.shape)
        return states

    return Process(lambda k, rng: start + spread * rng.standard_normal((k, len(start))), step)


def _van_der_pol(x: Floats) -> Floats:
    return np.column_stack([x[:, 1], (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]])


def _pendulum() -> Process:
    """A driven pendulum seen as (cos, sin, speed): a manifold in three dimensions."""

    def step(states: Floats, rng: np.random.Generator) -> Floats:
        angle, speed = np.arctan2(states[:, 1], states[:, 0]), states[:, 2]
        for _ in range(5):
            push = np.clip(0.25 * (2.0 - (0.5 * speed**2 - 4 * np.cos(angle))) * speed, -1.5, 1.5)
            speed = speed + 0.06 * (push - 4 * np.sin(angle) - 0.05 * speed) + 0.12 * rng.standard_normal(len(speed))
            angle = angle + 0.06 * speed
        return np.column_stack([np.cos(angle), np.sin(angle), speed])

    def reset(n: int, rng: np.random.Generator) -> Floats:
        angle = 0.4 * rng.standard_normal(n)
        return np.column_stack([np.cos(angle), np.sin(angle), 1 + 0.5 * rng.standard_normal(n)])

    return Process(reset, step)


_A2, _S2, _F2 = 0.85 * rotation(0.3), np.array([[0.3, 0.1], [0.0, 0.3]]), 0.3 * np.eye(2)
_B2, _R2 = 0.7 * rotation(0.6), np.array([[0.3, 0.0], [0.1, 0.5]])
_TURN2 = (_A2, _S2, np.zeros(2), _F2), (_B2, _R2, np.array([0.5, 0.0]), _F2)
_Q3, _Q5 = turn(3, 7), turn(5, 8)
_LINEAR3 = (
    (_Q3 @ np.diag([0.9, 0.6, 0.3]) @ _Q3.T, 0.3 * np.eye(3), np.zeros(3), 0.4 * np.eye(3)),
    (_Q3 @ np.diag([0.7, 0.6, -0.2]) @ _Q3.T, 0.4 * np.eye(3), np.array([0.3, 0.0, 0.0]), 0.4 * np.eye(3)),
)


def _embedded(A: Floats, S: Floats, m: Floats, F: Floats) -> Any:
    """Two coordinates with three more of white noise, turned."""
    A5, S5, F5, m5 = np.zeros((5, 5)), 0.1 * np.eye(5), 0.1 * np.eye(5), np.zeros(5)
    A5[:2, :2], S5[:2, :2], F5[:2, :2], m5[:2] = A, S, F, m
    return _Q5 @ A5 @ _Q5.T, _Q5 @ S5, _Q5 @ m5, _Q5 @ F5


_EMBEDDED = tuple(_embedded(*side) for side in _TURN2)
_OU = np.exp(-0.05)
_SLOW = scalar(lambda x: _OU * x, 0.8 * np.sqrt(1 - _OU**2), 0.0, 0.8)
_MIX2, _MIX3 = rotation(0.6), turn(3, 9)
_AR_SIDES = (0.6, 0.5, 0.0, 0.6), (0.3, 0.7, 0.3, 0.6)
_AR_SQ = closed_form_1d(*_AR_SIDES)

# Truths of one dimension that are no closed form: grids of 41, 81 and 161 points, extrapolated (`grid_truth`).
SYSTEMS = {
    "ar": System(_ar(0.6, 0.5, 0.0), _ar(0.3, 0.7, 0.3), "euclidean", 0.2234),
    "ar, near": System(_ar(0.6, 0.5, 0.0), _ar(0.55, 0.53, 0.0), "euclidean", 0.0361),
    "ar, same": same(_ar(0.6, 0.5, 0.0)),
    "slow, shifted": shifted(_SLOW, [0.3]),
    "bent": System(bent(1.2), bent(0.4), "euclidean", 0.2078),
    "bent, same": same(bent(1.2)),
    "well": System(well(0.0), well(0.15), "euclidean", 0.1080),
    "well, same": same(well(0.0)),
    "rotation": same(linear(*_TURN2[0])),
    "rotation, shifted": shifted(linear(*_TURN2[0]), [0.3, 0.4]),
    "two rotations": _pair(*_TURN2),
    "linear 3": _pair(*_LINEAR3),
    "linear 3, shifted": shifted(linear(*_LINEAR3[0]), [0.3, 0.4, 0.0]),
    "embedded": _pair(*_EMBEDDED),
    "embedded, same": same(linear(*_EMBEDDED[0])),
    "embedded, shifted": shifted(linear(*_EMBEDDED[0]), 0.5 * _Q5[:, 0]),
    "well x ar": System(
        rotated(_MIX2, well(0.0), _ar(0.6, 0.5, 0.0)), rotated(_MIX2, well(0.15), _ar(0.3, 0.7, 0.3)), "sqeuclidean",
        WELL_SQ + _AR_SQ,
    ),
    "well x ar x bent": System(
        rotated(_MIX3, well(0.0), _ar(0.6, 0.5, 0.0), bent(1.2)),
        rotated(_MIX3, well(0.15), _ar(0.3, 0.7, 0.3), bent(0.4)), "sqeuclidean", WELL_SQ + _AR_SQ + BENT_SQ,
    ),
    "van der Pol, shifted": shifted(flow(_van_der_pol, 0.1, 4, [0.15, 0.15], [2.0, 0.0], 0.3), [0.3, 0.4]),
    "pendulum, shifted": shifted(_pendulum(), [0.3, 0.0, 0.4]),
}  # fmt: skip
