"""Transition kernels from what users hand in: arrays, sparse matrices, labelled frames."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from somcot.plumbing.arrays import Floats
from somcot.plumbing.validation import real_array

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["from_frame", "rectangular_matrix", "square_matrix", "stochastic"]

ROW_TOLERANCE = 1e-8


def from_frame(frame: Any, states: Iterable[Hashable] | None) -> tuple[Any, Iterable[Hashable] | None]:
    """A labelled frame: its index names the states, and its columns are put into the same order."""
    rows, columns = list(frame.index), list(frame.columns)
    if rows == columns:
        return frame.to_numpy(), rows if states is None else states
    if set(rows) != set(columns) or len(rows) != len(columns):
        raise ValueError("transition: the frame's rows and columns have different labels; give both the same states")
    return frame[rows].to_numpy(), rows if states is None else states


def square_matrix(transition: Any, name: str = "transition") -> Floats | csr_array:
    """A fresh square float matrix, dense or CSR, with finite entries."""
    matrix = _matrix(name, transition)
    rows, columns = matrix.shape
    if rows != columns or rows == 0:
        raise ValueError(f"{name}: shape is {(rows, columns)}, expected a square matrix with at least one state")
    return matrix


def rectangular_matrix(name: str, transition: Any) -> Floats | csr_array:
    """A fresh float matrix of any shape, dense or CSR, with finite entries."""
    matrix = _matrix(name, transition)
    if 0 in matrix.shape:
        raise ValueError(f"{name}: shape is {matrix.shape}, expected at least one state before and after")
    return matrix


def _matrix(name: str, transition: Any) -> Floats | csr_array:
    if not hasattr(transition, "tocsr"):
        return real_array(name, transition, 2)
    from scipy.sparse import csr_array

    if transition.dtype.kind not in "biuf":
        raise TypeError(f"{name}: found entries of type {transition.dtype}, expected real numbers")
    matrix = csr_array(transition, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    _check_finite_entries(name, matrix)
    return matrix


def _check_finite_entries(name: str, matrix: csr_array) -> None:
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if len(bad):
        k = int(bad[0])
        place = int(np.searchsorted(matrix.indptr, k, side="right")) - 1, int(matrix.indices[k])
        raise ValueError(
            f"{name}: entry {place} is {matrix.data[k]}, {len(bad)} of {matrix.nnz} stored entries are not finite; "
            "remove or replace them"
        )


def stochastic(
    matrix: Floats | csr_array,
    labels: tuple[Hashable, ...],
    *,
    normalize: bool,
    name: str = "transition",
    labels_to: tuple[Hashable, ...] | None = None,
) -> Floats | csr_array:
    """Refuse negative entries and rows that do not sum to 1, then divide each row by its sum.

    `labels_to` are those of the columns, where they are other states.
    """
    values = matrix if isinstance(matrix, np.ndarray) else matrix.data
    if values.size and values.min() < 0:
        coo = np.argwhere(matrix < 0) if isinstance(matrix, np.ndarray) else np.transpose((matrix < 0).nonzero())
        i, j = (int(k) for k in coo[0])
        raise ValueError(
            f"{name}: the probability of going from state {labels[i]!r} to {(labels_to or labels)[j]!r} is "
            f"{matrix[i, j]:.6g}, "
            "expected at least 0"
        )
    with np.errstate(over="ignore"):
        sums = np.asarray(matrix.sum(axis=1)).ravel()
    if not np.isfinite(sums).all():
        raise ValueError(f"{name}: the sum of a row is too large for floating point; rescale")
    wrong = np.flatnonzero(sums <= 0 if normalize else ~(np.abs(sums - 1) <= ROW_TOLERANCE))
    if wrong.size:
        i = int(wrong[0])
        more = f" ({wrong.size} such rows)" if wrong.size > 1 else ""
        remedy = (
            "pass normalize=True to rescale"
            if sums[i] > 0
            else "give the state somewhere to go, such as itself when it is absorbing"
        )
        raise ValueError(f"{name}: row of state {labels[i]!r} sums to {sums[i]:.10g}, expected 1{more}; {remedy}")
    if isinstance(matrix, np.ndarray):
        matrix /= sums[:, None]
        matrix.setflags(write=False)
    else:
        matrix.data /= np.repeat(sums, np.diff(matrix.indptr))
        matrix.eliminate_zeros()
        matrix.sort_indices()
        matrix.data.setflags(write=False)
    return matrix
