"""Doctests of the doors to optional packages run where these are installed; figures are closed after each test."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

NEEDED = {"jax": "jax", "torch": "torch", "abstraction": "torch"}
collect_ignore = [f"src/somcot/{name}.py" for name, package in NEEDED.items() if find_spec(package) is None]


@pytest.fixture(autouse=True)
def no_open_figures() -> Iterator[None]:
    """Matplotlib warns about more than 20 figures, and warnings are errors here."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
