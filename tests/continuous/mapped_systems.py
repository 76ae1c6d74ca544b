"""Pairs for the search for a map: systems seen through a map, and systems that no map carries into each other.

`KNOWN` and `further.DIFFERENT` were looked at while it was made, and so was `NEW`, written down first, some of whose
systems changed it. `FRESH` and `UNLIKE` were written down and run after that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from somcot import Trajectories
from somcot.plumbing.arrays import Floats
from tests.continuous import further_systems as further
from tests.continuous.systems import Process, flow
from tests.continuous.unseen_systems import UNSEEN

__all__ = ["FRESH", "KNOWN", "NEW", "OTHERS", "UNLIKE", "Seen", "seen"]


class Seen(NamedTuple):
    """A process and the same seen through x -> factors x + move; the distance of the two is what the map costs."""

    name: str
    process: Process
    factors: Floats
    move: Floats
    cost: str

    def record(self, n: int, rng: np.random.Generator) -> tuple[Trajectories, Trajectories]:
        x, y = (self.process.record(n, 40, rng) for _ in range(2))
        return x, y.mapped(lambda points: points * self.factors + self.move)

    def truth(self, g: float = 0.95) -> float:
        """The map is the gradient of a convex function (squared cost) or a shift, so nothing is cheaper."""
        if (self.factors == 1.0).all():
            return float(np.linalg.norm(self.move))
        points = np.stack(self.process.record(2000, 150, np.random.default_rng(99)).episodes)
        costs = np.square(points * (self.factors - 1.0) + self.move).sum(axis=2).mean(axis=0)
        weights = (1 - g) * g ** np.arange(len(costs))
        return float(costs @ weights / weights.sum())


def seen(systems: dict[str, Process]) -> Iterator[Seen]:
    """Each of them shifted, stretched evenly, stretched in its first coordinate, and as it is."""
    for name, process in systems.items():
        d = process.reset(1, np.random.default_rng(0)).shape[1]
        first = np.arange(d) == 0
        yield Seen(f"{name}, shifted", process, np.ones(d), 0.3 / np.sqrt(d) * np.ones(d), "euclidean")
        yield Seen(f"{name}, times 1.3", process, 1.3 * np.ones(d), np.zeros(d), "sqeuclidean")
        yield Seen(f"{name}, stretched", process, np.where(first, 1.25, 1.0), 0.2 * first, "sqeuclidean")
        yield Seen(f"{name}, same", process, np.ones(d), np.zeros(d), "euclidean")


KNOWN = {
    "Hopf": further.DIFFERENT["Hopf, noise 0.1 and 0.2"][0],
    "van der Pol": further.DIFFERENT["van der Pol 1 and 1.3"][0],
    "Duffing": further.DIFFERENT["Duffing, damping 0.3 and 0.15"][0],
    "Hénon": further.DIFFERENT["Hénon 1.2 and 1.1"][0],
    "predator and prey": further.DIFFERENT["predator and prey, growth 1 and 0.8"][0],
    "Lorenz": further.FURTHER["Lorenz, shifted (3-D)"].x,
    "Brusselator": UNSEEN["Brusselator, shifted (2-D)"].x,
}


def _nerve(current: float = 0.5, slow: float = 0.08, noise: float = 0.08) -> Process:
    """FitzHugh and Nagumo."""

    def f(x: Floats) -> Floats:
        v, w = x.T
        return np.column_stack([v - v**3 / 3 - w + current, slow * (v + 0.7 - 0.8 * w)])

    return flow(f, 0.25, 6, [noise, 0.02], [-1.0, 0.5], 0.2)


def _ikeda(u: float) -> Process:
    def step(states: Floats, rng: np.random.Generator) -> Floats:
        x, y = states.T
        t = 0.4 - 6.0 / (1.0 + x * x + y * y)
        new = np.column_stack([1 + u * (x * np.cos(t) - y * np.sin(t)), u * (x * np.sin(t) + y * np.cos(t))])
        return np.asarray(new + 0.02 * rng.standard_normal(states.shape))

    return Process(lambda n, rng: 0.3 * rng.standard_normal((n, 2)), step)


def _roessler(c: float) -> Process:
    """In units of five."""

    def f(x: Floats) -> Floats:
        a, b, z = x.T
        return np.column_stack([-b - z, a + 0.2 * b, 0.04 + np.clip(z, 0, 8) * (5 * a - c)])

    return flow(f, 0.05, 8, [0.02, 0.02, 0.0], [1.0, 0.0, 0.2], 0.1)


def _thomas(b: float) -> Process:
    def f(x: Floats) -> Floats:
        return np.asarray(np.sin(np.roll(x, -1, axis=1)) - b * x)

    return flow(f, 0.2, 5, [0.05] * 3, [1.0, 0.0, 0.5], 0.4)


def _sheared(shear: float = 0.8, noise: float = 0.12) -> Process:
    """Stuart and Landau: farther out it turns at another speed."""

    def f(x: Floats) -> Floats:
        away = 1.0 - np.square(x).sum(axis=1, keepdims=True)
        return np.asarray(0.8 * x * away + (0.4 + shear * away) * np.column_stack([-x[:, 1], x[:, 0]]))

    return flow(f, 0.2, 5, [noise, noise], [1.0, 0.0], 0.3)


def _delayed(a: float) -> Process:
    """A population that feels how many it was: logistic with delay."""

    def step(states: Floats, rng: np.random.Generator) -> Floats:
        now, before = np.clip(states.T, 0.01, 1.2)
        return np.column_stack([a * now * (1 - before), now]) + 0.01 * rng.standard_normal(states.shape)

    return Process(lambda n, rng: 0.5 + 0.05 * rng.standard_normal((n, 2)), step)


def _glycolysis(b: float) -> Process:
    """Sel'kov."""

    def f(x: Floats) -> Floats:
        u, v = np.clip(x.T, -0.5, 4.0)
        return np.column_stack([-u + 0.08 * v + u * u * v, b - 0.08 * v - u * u * v])

    return flow(f, 0.1, 6, [0.03, 0.03], [0.6, 1.2], 0.2)


def _pushed(force: float = 0.0, noise: float = 0.15) -> Process:
    """Van der Pol with a constant force."""

    def f(x: Floats) -> Floats:
        return np.column_stack([x[:, 1], (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0] + force])

    return flow(f, 0.1, 4, [noise, 0.15], [2.0, 0.0], 0.3)


NEW = {
    "nerve": _nerve(),
    "Ikeda": _ikeda(0.75),
    "Rössler": _roessler(5.7),
    "Thomas": _thomas(0.19),
    "sheared Hopf": _sheared(),
    "delayed logistic": _delayed(2.15),
    "glycolysis": _glycolysis(0.6),
}

# Pairs that no map carries into each other; their distance is not known.
OTHERS: dict[str, tuple[Process, Process]] = {
    "nerve, currents 0.5 and 0.65": (_nerve(), _nerve(current=0.65)),
    "nerve, other slowness": (_nerve(), _nerve(slow=0.1)),
    "nerve, noise 0.08 and 0.2": (_nerve(), _nerve(noise=0.2)),
    "Ikeda 0.75 and 0.8": (_ikeda(0.75), _ikeda(0.8)),
    "Rössler 5.7 and 4.5": (_roessler(5.7), _roessler(4.5)),
    "Thomas, damping 0.19 and 0.23": (_thomas(0.19), _thomas(0.23)),
    "sheared Hopf, shear 0.8 and 0.2": (_sheared(), _sheared(shear=0.2)),
    "delayed logistic 2.15 and 2.05": (_delayed(2.15), _delayed(2.05)),
    "glycolysis 0.6 and 0.7": (_glycolysis(0.6), _glycolysis(0.7)),
    "van der Pol, pushed by 0.3": (_pushed(), _pushed(0.3)),
    "van der Pol, noise 0.15 and 0.35 in one coordinate": (_pushed(), _pushed(noise=0.35)),
}


def _rayleigh(push: float = 1.0, stiffness: float = 1.0) -> Process:
    def f(x: Floats) -> Floats:
        v = np.clip(x[:, 1], -3, 3)
        return np.column_stack([v, push * (v - v**3 / 3) - stiffness * x[:, 0]])

    return flow(f, 0.1, 4, [0.08, 0.12], [1.0, 0.0], 0.3)


def _coupled(a: float = 1.6, coupling: float = 0.15, noise: float = 0.03) -> Process:
    """Two logistic maps that feel each other."""

    def step(states: Floats, rng: np.random.Generator) -> Floats:
        own = 1 - a * np.clip(states, -1.2, 1.2) ** 2
        return np.asarray((1 - coupling) * own + coupling * own[:, ::-1] + noise * rng.standard_normal(states.shape))

    return Process(lambda n, rng: 0.3 * rng.standard_normal((n, 2)), step)


def _kicked(kick: float = 1.5, damping: float = 0.6) -> Process:
    """A rotor with kicks, seen as (cos, sin, speed)."""

    def step(states: Floats, rng: np.random.Generator) -> Floats:
        angle = np.arctan2(states[:, 1], states[:, 0])
        speed = damping * states[:, 2] + kick * np.sin(angle) + 0.1 * rng.standard_normal(len(states))
        angle = angle + speed
        return np.column_stack([np.cos(angle), np.sin(angle), speed])

    def reset(n: int, rng: np.random.Generator) -> Floats:
        angle = rng.uniform(0, 2 * np.pi, n)
        return np.column_stack([np.cos(angle), np.sin(angle), 0.5 * rng.standard_normal(n)])

    return Process(reset, step)


def _genes(rate: float = 6.0, noise: float = 0.08) -> Process:
    """Three genes, each of which holds the next one down."""

    def f(x: Floats) -> Floats:
        return np.asarray(rate / (1 + np.maximum(np.roll(x, 1, axis=1), 0.0) ** 4) - x)

    return flow(f, 0.1, 4, [noise] * 3, [1.5, 1.0, 0.5], 0.3)


def _burst(level: float = 0.5) -> Process:
    """An oscillator that is quiet near rest and loud beyond."""

    def f(x: Floats) -> Floats:
        r = np.minimum(np.square(x).sum(axis=1, keepdims=True), 4.0)
        return np.asarray(x * (r - level) * (1.5 - r) + 0.7 * np.column_stack([-x[:, 1], x[:, 0]]))

    return flow(f, 0.1, 8, [0.2, 0.2], [0.8, 0.0], 0.4)


FRESH = {
    "Rayleigh": _rayleigh(),
    "coupled logistic": _coupled(),
    "kicked rotor": _kicked(),
    "genes": _genes(),
    "bursts": _burst(),
}

# As `OTHERS`.
UNLIKE: dict[str, tuple[Process, Process]] = {
    "Rayleigh, push 1 and 1.4": (_rayleigh(), _rayleigh(push=1.4)),
    "Rayleigh, stiffness 1 and 1.2": (_rayleigh(), _rayleigh(stiffness=1.2)),
    "coupled logistic 1.6 and 1.5": (_coupled(), _coupled(a=1.5)),
    "coupled logistic, coupling 0.15 and 0.25": (_coupled(), _coupled(coupling=0.25)),
    "coupled logistic, noise 0.03 and 0.06": (_coupled(), _coupled(noise=0.06)),
    "kicks 1.5 and 1.2": (_kicked(), _kicked(kick=1.2)),
    "kicked rotor, damping 0.6 and 0.4": (_kicked(), _kicked(damping=0.4)),
    "genes 6 and 4.5": (_genes(), _genes(rate=4.5)),
    "genes, noise 0.08 and 0.15": (_genes(), _genes(noise=0.15)),
    "bursts 0.5 and 0.2": (_burst(), _burst(0.2)),
}
