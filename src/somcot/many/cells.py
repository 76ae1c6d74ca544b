"""Cells of the matrix that a job filled: numbers, and reasons where there are none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.plumbing.arrays import Floats, Ints

__all__ = ["FIELDS", "Cells", "empty", "joined", "single"]

FIELDS = ("values", "plugin", "low", "high", "standard_error", "uncut", "pvalues")


class Cells(NamedTuple):
    """Cells of the matrix that were filled: where, one row of `FIELDS` each, and why where there is nothing."""

    i: Ints
    j: Ints
    fields: Floats
    reasons: dict[int, str]


def single(i: int, j: int, row: Floats, reason: str = "") -> Cells:
    """One cell."""
    return Cells(np.array([i]), np.array([j]), row[None, :], {0: reason} if reason else {})


def empty(i: int, j: int, error: Exception) -> Cells:
    """One cell without a number, and why."""
    return single(i, j, np.full(len(FIELDS), np.nan), f"{type(error).__name__}: {error}")


def joined(parts: list[Cells]) -> Cells:
    """Single cells, one after the other."""
    reasons = {k: text for k, part in enumerate(parts) for text in part.reasons.values()}
    i, j, fields = (np.concatenate([getattr(p, name) for p in parts]) for name in ("i", "j", "fields"))
    return Cells(i, j, fields, reasons)
