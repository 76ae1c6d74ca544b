"""Distances between recordings of real vectors over many seeds: errors against known truths, equal systems."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from somcot import distance
from tests.continuous.systems import SYSTEMS
from tests.continuous.test_distance import BARS

pytestmark = pytest.mark.statistical

# Crossings of a barrier are so few that the simulated pair is too low, and its interval too narrow: docs/continuous.md.
TOO_NARROW = ("well x ar",)


@pytest.mark.parametrize("name", BARS)
def test_mean_error_at_ten_thousand_steps(name: str) -> None:
    """Mean of 5 seeds; and all intervals but one hold the truth, where they are not known to be too narrow."""
    system, errors, held = SYSTEMS[name], [], 0
    for seed in range(200, 205):
        x, y = system.record(250, 40, np.random.default_rng(seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = distance(x, y, system.cost, discount=0.95, confidence=0.9, scale=1.0, threads=1)
        if found.confidence_interval is not None:
            errors.append(abs(found.distance - system.truth))
            held += found.confidence_interval.low <= system.truth <= found.confidence_interval.high
    assert len(errors) >= 3  # at most two are declined
    assert np.mean(errors) <= BARS[name]
    assert held >= len(errors) - 1 or name in TOO_NARROW


@pytest.mark.parametrize("name", ["ar, same", "rotation"])
def test_equal_systems_are_seldom_said_to_differ(name: str) -> None:
    """40 pairs of recordings of one process: the interval leaves out 0 in at most three."""
    claimed = 0
    for seed in range(40):
        x, y = SYSTEMS[name].record(60, 40, np.random.default_rng([seed, 77]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = distance(x, y, discount=0.95, confidence=0.9, scale=1.0, threads=1)
        claimed += found.confidence_interval is not None and found.confidence_interval.low > 0.0
    assert claimed <= 3
