"""What is promised where few rows, none or all of them changed; 100 seeds a cell, 200 for the demo. `make test-all`."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.ab_instances import CONFIDENCE, Figures, cells, demo, figures

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


@functools.cache
def measured(group: str) -> list[Figures]:
    """The estimate's figures in every cell of a group."""
    return [figures(cell, range(100))["estimate"] for cell in cells(group)]


def mean(group: str, name: str) -> float:
    return float(np.mean([getattr(f, name) for f in measured(group)]))


@pytest.mark.parametrize("group", ["study A/B", "own A/B"])
def test_few_rows_changed(group: str) -> None:
    assert np.mean([abs(f.bias) for f in measured(group)]) <= 0.7
    assert mean(group, "error") <= 0.4
    assert mean(group, "coverage") >= 0.86
    assert min(f.coverage for f in measured(group)) >= 0.80


def test_intervals_are_not_wider_than_they_need_be() -> None:
    """Over all A/B cells together."""
    found = [f.coverage for group in ("study A/B", "own A/B") for f in measured(group)]
    assert 0.86 <= np.mean(found) <= 0.97


@pytest.mark.parametrize("group", ["study d = 0", "own d = 0"])
def test_nothing_changed(group: str) -> None:
    assert mean(group, "error") <= 0.22
    assert min(f.coverage for f in measured(group)) >= CONFIDENCE - 0.05


def test_every_row_changed() -> None:
    assert mean("every row", "error") <= 1.15
    assert min(f.coverage for f in measured("every row")) >= 0.80


def test_demo() -> None:
    assert figures(demo(), range(200))["estimate"].coverage >= 0.87
