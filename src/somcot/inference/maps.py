"""Encoder and decoder behind data, without the blur that sampling noise gives to an exact coupling.

A coupling of two estimated chains is exact for their noise as well: wherever two rows differ by chance, pairs that
belong together part, and stay apart for a while. The paper's saddle point, solved only until the constraints hold to
half the sampling noise, does not follow the noise that far. With costs that tell some pairs apart much better than
others it may stop too early for the rest, and be blurred in its turn; so it is taken where it is the sharper of the two
(docs/statistics.md, ``python -m benchmarks.maps``).
"""

from __future__ import annotations

from functools import partial

from somcot.inference.model import Model
from somcot.plumbing.arrays import Floats
from somcot.plumbing.memory import MemoryLimitError
from somcot.problem import Problem
from somcot.result import DeferredMaps, Maps, Result
from somcot.solvers import saddle

__all__ = ["deferred", "noise_level"]

BLUR = 0.3  # rho above which it is worth trying
ENOUGH = 0.5  # violation to stop at, in units of the sampling noise
TOLERABLE = 1.0  # violation that will do when steps run out
MAX_STEPS = 32_000
WORK = 400_000_000  # steps times pairs of transitions: a few seconds


def noise_level(models: tuple[Model, Model], discount: float) -> float:
    """Expected l1 error of the occupancy frequencies of both sides together; known chains have none."""
    return sum(saddle.noise_level(m.chain, m.n_transitions, discount) for m in models if m.samples is not None)


def deferred(problem: Problem, models: tuple[Model, Model], exact: Result) -> DeferredMaps:
    """The sharper of the maps of `exact`, for the estimated chains, and those at the level of the noise.

    Solved when first asked for.
    """
    own = Maps(exact.encoder, exact.decoder)
    return DeferredMaps(partial(_solve, problem, noise_level(models, problem.discount), own, exact.state_law))


def _solve(problem: Problem, noise: float, own: Maps, state_law: Floats) -> Maps:
    best, to_beat = own, _sharpness(own, state_law)
    limit = min(MAX_STEPS, WORK // max(saddle.n_cells(problem), 1))
    if limit < saddle.FIRST_ROUND:
        return own
    max_steps = saddle.FIRST_ROUND << (limit // saddle.FIRST_ROUND).bit_length() - 1  # whole rounds only
    try:
        for found in saddle.rounds(problem, max_steps=max_steps):
            if found.violation <= TOLERABLE * noise and _sharpness(found.maps, state_law) > to_beat:
                best = found.maps._replace(at_noise_level=True)
                if found.violation <= ENOUGH * noise:
                    break
    except MemoryLimitError:
        return own
    return best


def _sharpness(maps: Maps, state_law: Floats) -> float:
    """Mean probability that two draws for one state agree, over states as often as they are visited."""
    agree_x, agree_y = ((law**2).sum(axis=1) for law in maps[:2])
    return float(agree_x @ state_law.sum(axis=1) + agree_y @ state_law.sum(axis=0))
