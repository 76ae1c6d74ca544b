"""Bounds of merged decision processes, over many of them."""

from __future__ import annotations

import pytest

from tests.mdp_instances import shortfall_of_bounds

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


def test_bounds_hold_on_a_hundred_random_processes() -> None:
    assert max(shortfall_of_bounds(seed) for seed in range(1000, 1100)) <= 1e-9
