"""Pairs with a known distance that neither linear models nor a map can vouch for: phases, and products with a phase.

Truths are those of phases on grids of 50 and 100 points (`phase_truth`), extrapolated, or of grids in one dimension
(`systems.grid_truth`, 81 and 161 points), and of sums over independent coordinates.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from somcot import MarkovChain, distance
from somcot.plumbing.arrays import Floats
from tests.continuous.further_systems import FURTHER
from tests.continuous.systems import Process, System, closed_form_1d, linear, rotated, rotation, scalar, turn

__all__ = ["WITHOUT", "phase_truth"]

Phase = tuple[float, float, float]  # mean speed, how much it depends on the place, noise


def _noise(n: int = 48) -> Floats:
    from scipy.special import ndtri

    atoms = ndtri((np.arange(n) + 0.5) / n)
    return np.asarray(atoms / np.sqrt((atoms**2).mean()))


def _chain(phase: Phase, n: int) -> MarkovChain:
    speed, bend, noise = phase
    places = 2 * np.pi * np.arange(n) / n
    rows = np.zeros((n, n))
    for row, place in enumerate(places):
        at = ((place + speed + bend * np.sin(place) + noise * _noise()) / (2 * np.pi) * n) % n
        low = at.astype(int) % n
        np.add.at(rows[row], low, (1 - (at - at.astype(int))) / 48)
        np.add.at(rows[row], (low + 1) % n, (at - at.astype(int)) / 48)
    return MarkovChain(rows, np.full(n, 1 / n), normalize=True)


def phase_truth(x: Phase, y: Phase, n: int, power: int = 1) -> float:
    """Distance of two phases seen on the unit circle, from uniform starts, on a grid of n points."""
    places = 2 * np.pi * np.arange(n) / n
    cost = (2.0 * np.abs(np.sin(np.subtract.outer(places, places) / 2))) ** power
    return distance(_chain(x, n), _chain(y, n), cost, discount=0.95).distance


def _phase(phase: Phase) -> Process:
    speed, bend, noise = phase

    def step(states: Floats, rng: np.random.Generator) -> Floats:
        angle = np.arctan2(states[:, 1], states[:, 0])
        angle = angle + speed + bend * np.sin(angle) + noise * rng.standard_normal(len(angle))
        return np.column_stack([np.cos(angle), np.sin(angle)])

    def reset(n: int, rng: np.random.Generator) -> Floats:
        angle = rng.uniform(0, 2 * np.pi, n)
        return np.column_stack([np.cos(angle), np.sin(angle)])

    return Process(reset, step)


_AR = (0.6, 0.5, 0.0, 0.6), (0.3, 0.7, 0.3, 0.6)
_AR_SQ = closed_form_1d(*_AR)
_ARS = [linear(np.array([[a]]), np.array([[s]]), np.array([m]), np.array([[f]])) for a, s, m, f in _AR]
_TURN = turn(3, 5)


def _beside(phase: Phase, side: int) -> Process:
    """A phase and an independent coordinate, turned."""
    first, second = _phase(phase), _ARS[side]

    def step(states: Floats, rng: np.random.Generator) -> Floats:
        own = states @ _TURN
        return np.asarray(np.column_stack([first.step(own[:, :2], rng), second.step(own[:, 2:], rng)]) @ _TURN.T)

    return Process(lambda n, rng: np.column_stack([first.reset(n, rng), second.reset(n, rng)]) @ _TURN.T, step)


def _phases(x: Phase, y: Phase, truth: float) -> System:
    return System(_phase(x), _phase(y), "euclidean", truth)


def _fold(a: float) -> tuple[Callable[[Floats], Floats], float, float, float]:
    """The arguments of `scalar`."""
    return (lambda x: 2 * (1 - a * (np.clip(x, -2.6, 2.6) / 2) ** 2), 0.2, 0.2, 0.4)


def _with_ar(a: float, side: int) -> Process:
    return rotated(rotation(0.6), scalar(*_fold(a)), _ARS[side])


WITHOUT = {
    "circle, frequencies 0.50 and 0.56": FURTHER["circle, frequencies 0.50 and 0.56"],
    "circle, noise 0.1 and 0.2": FURTHER["circle, noise 0.1 and 0.2"],
    "phase, even and uneven speed": _phases((0.5, 0.0, 0.1), (0.5, 0.2, 0.1), 0.573),
    "uneven phases, speeds 0.4 and 0.55": _phases((0.4, 0.15, 0.15), (0.55, 0.15, 0.15), 0.894),
    "phases, faster on opposite sides": _phases((0.5, 0.25, 0.1), (0.5, -0.25, 0.1), 0.807),
    "phases, noise 0.1 and 0.25": _phases((0.6, 0.0, 0.1), (0.6, 0.0, 0.25), 0.409),
    "uneven phases x AR, squared (3-D)": System(
        _beside((0.5, 0.2, 0.12), 0), _beside((0.4, 0.2, 0.12), 1), "sqeuclidean", 1.057 + _AR_SQ
    ),
    "logistic 1.2 and 0.9 x AR, squared (2-D)": System(
        _with_ar(1.2, 0), _with_ar(0.9, 1), "sqeuclidean", 0.5193 + _AR_SQ
    ),
}
