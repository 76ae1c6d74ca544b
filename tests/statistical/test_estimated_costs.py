"""Intervals of costs that are estimated themselves, over 200 runs. `make test-all` runs them."""

from __future__ import annotations

import pytest

from tests.test_feature_costs import same_process_coverage

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


@pytest.mark.parametrize("spread", [1.0, 5.0])
@pytest.mark.parametrize("pool", [True, False])
def test_one_process_recorded_twice_with_noisy_rewards(spread: float, pool: bool) -> None:
    assert same_process_coverage(spread, 200, pool=pool) >= 0.87
