"""Distances between recordings of real vectors over many seeds: errors against known truths, level of the test."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from somcot import discretise, distance
from somcot.continuous import cell_distance as plain
from tests.continuous.systems import SYSTEMS
from tests.continuous.test_distance import BARS

pytestmark = pytest.mark.statistical


@pytest.mark.parametrize("name", BARS)
def test_mean_error_at_ten_thousand_steps(name: str) -> None:
    """Mean of 5 seeds; and the interval holds the truth in at least 4."""
    system, errors, held = SYSTEMS[name], [], 0
    for seed in range(200, 205):
        x, y = system.record(250, 40, np.random.default_rng(seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = distance(x, y, system.cost, discount=0.95, confidence=0.9, scale=1.0, threads=1)
        errors.append(abs(found.distance - system.truth))
        assert found.confidence_interval is not None
        held += found.confidence_interval.low <= system.truth <= found.confidence_interval.high
    assert np.mean(errors) <= BARS[name]
    assert held >= 4


@pytest.mark.parametrize("name", ["ar, same", "rotation"])
def test_level_of_the_permutation_test_on_cells(name: str) -> None:
    """200 pairs of recordings of one process: between 2 and 8 % are told apart at 5 %."""
    rejected = 0
    for seed in range(200):
        rng = np.random.default_rng([seed, 77])
        x, y = SYSTEMS[name].record(30, 40, rng)
        cells = discretise(x, y, n_cells=8)
        rejected += plain.pvalue(cells, x, y, "euclidean", 0.95, n_permutations=19, rng=rng) <= 0.05
    assert 4 <= rejected <= 16
