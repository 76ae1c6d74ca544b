"""Encoder and decoder behind data, without the blur that sampling noise gives to an exact coupling.

A coupling of two estimated chains is exact for their noise as well: wherever two rows differ by chance, pairs that
belong together part, and stay apart for a while. The paper's saddle point, solved only until the constraints hold to
half the sampling noise, does not follow the noise that far. Its maps were nearer to the true ones where the cross-fit
gap was above a fifth of the plug-in, and about as near below (docs/statistics.md, ``python -m benchmarks.maps``).
"""

from __future__ import annotations

import warnings
from functools import partial

from somcot.estimators import Model
from somcot.problem import Problem
from somcot.result import DeferredMaps, Maps, Result, Status
from somcot.solvers import saddle
from somcot.warnings import DataWarning

__all__ = ["deferred", "noise_level"]

BLUR = 0.3  # rho above which maps are solved again
SHARE = 0.5  # of the sampling noise
MAX_STEPS = 32_000
WORK = 400_000_000  # steps times pairs of transitions: a few seconds


def noise_level(models: tuple[Model, Model], discount: float) -> float:
    """Expected l1 error of the occupancy frequencies of both sides together; known chains have none."""
    return sum(saddle.noise_level(m.chain, m.n_transitions, discount) for m in models if m.samples is not None)


def deferred(problem: Problem, models: tuple[Model, Model], exact: Result) -> DeferredMaps:
    """Maps solved to the level of the noise when first asked for; `exact` is the solution for the estimated chains."""
    tolerance = SHARE * noise_level(models, problem.discount)
    return DeferredMaps(partial(_solve, problem, tolerance, Maps(exact.encoder, exact.decoder)))


def _solve(problem: Problem, tolerance: float, exact: Maps) -> Maps:
    cells = len(problem.x.support.indices) * len(problem.y.support.indices)
    max_steps = min(MAX_STEPS, WORK // cells)
    if max_steps >= saddle.FIRST_ROUND:
        found = saddle.iterate(problem, max_steps=max_steps, tolerance=tolerance)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if found.status is Status.CONVERGED:
            return found.average.maps
    warnings.warn(
        "encoder, decoder: blurred by the noise of the data, because they are those of the estimated chains; a sharper "
        f"pair was given up after {max_steps} steps on up to {cells:,} pairs of transitions; method='saddle' with "
        f"stop_at_noise={SHARE} goes on for longer",
        DataWarning,
        stacklevel=6,
    )
    return exact
