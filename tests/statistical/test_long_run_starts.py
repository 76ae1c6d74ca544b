"""Coverage of intervals for processes that start in their long-run law. `make test-all` runs it."""

from __future__ import annotations

import pytest

from tests.recorded.test_stationary import coverage

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


def test_coverage_and_standard_error() -> None:
    covered, ratio = coverage(200)
    assert 0.84 <= covered <= 0.97
    assert ratio == pytest.approx(1.0, abs=0.15)
