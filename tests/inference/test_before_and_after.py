"""Few rows changed, none, or all: a small part of tests/statistical/test_before_and_after.py for every day."""

from __future__ import annotations

import pytest

from tests.ab_instances import Figures, cells, figures


def small(group: str, kind: str, seeds: int = 12) -> dict[str, Figures]:
    cell = next(c for c in cells(group) if c.name.startswith(kind))
    return figures(cell, range(seeds))


@pytest.mark.parametrize(("group", "kind"), [("study A/B", "hub L"), ("own A/B", "player L")])
def test_few_rows_changed(group: str, kind: str) -> None:
    found = small(group, kind)["estimate"]
    assert found.error <= 0.6
    assert abs(found.bias) <= 1.2
    assert found.coverage >= 0.75


def test_nothing_changed() -> None:
    found = small("own d = 0", "player 0 labels", seeds=10)
    assert found["estimate"].error <= 0.4
    assert found["estimate"].coverage >= 0.8


def test_every_row_changed() -> None:
    found = small("every row", "machine", seeds=10)
    assert found["estimate"].error <= 1.5
    assert found["estimate"].coverage >= 0.6
