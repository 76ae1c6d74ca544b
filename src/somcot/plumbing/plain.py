"""Compiled functions as Numba makes them by itself: for releases whose inside `pieces` does not know."""
# mypy: disable-error-code="no-untyped-call, misc"

from __future__ import annotations

from typing import Any

from numba.core.registry import CPUDispatcher

__all__ = ["Piece", "Shared", "StaleError", "Whole"]


class Whole(CPUDispatcher):
    """A function for Python and for other compiled functions."""

    def __init__(self, py_func: Any, targetoptions: Any = None) -> None:
        super().__init__(py_func, targetoptions=dict(targetoptions or {}))


Piece = Shared = Whole


class StaleError(Exception):
    """Never raised: here machine code on disk holds all that it calls."""
