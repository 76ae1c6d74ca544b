"""Measures how long each full part of the campaign takes."""

import os
import time
from collections.abc import Iterator
from dataclasses import asdict

import pytest

from tests.campaign.table import Took, append


@pytest.fixture(autouse=True)
def took(request: pytest.FixtureRequest) -> Iterator[None]:
    """Note CPU time and clock time of a full part; tests of one function count together, except properties."""
    if request.node.get_closest_marker("campaign") is None:
        yield
        return
    cpu, clock = sum(os.times()[:4]), time.monotonic()
    yield
    module = request.node.path.stem.removeprefix("test_")
    name = request.node.name if module == "properties" else request.node.originalname
    append(asdict(Took(f"{module}: {name}", sum(os.times()[:4]) - cpu, time.monotonic() - clock)))
