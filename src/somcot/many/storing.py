"""The chunk file of a matrix: what is done so far, written whole or not at all, good for one plan only."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from somcot.many.cells import FIELDS, Cells
from somcot.many.plan import Plan
from somcot.plumbing import container
from somcot.plumbing.arrays import Floats
from somcot.plumbing.container import CheckpointError
from somcot.plumbing.errors import DataWarning, warn

__all__ = ["Board"]

_FORMAT = "somcot.matrix/1"
_EVERY = 5.0  # seconds between two writes


class Board:
    """The matrix as far as it is known, job by job; with a path it outlives the process.

    Attributes
    ----------
    fields : ndarray, shape (n_fields, n, m)
    done : ndarray of bool, shape (n_jobs,)
    reasons : dict
        (i, j) -> text.
    """

    def __init__(self, plan: Plan, path: str | os.PathLike[str] | None, *, resume: bool) -> None:
        self.plan = plan
        self.path = None if path is None else Path(path)
        self.fields: Floats = np.full((len(FIELDS), *plan.shape), np.nan)
        self.done: NDArray[np.bool_] = np.zeros(len(plan.kind), dtype=np.bool_)
        self.reasons: dict[tuple[int, int], str] = {}
        self._written = time.monotonic()
        self._print = plan.fingerprint() if path is not None else ""
        if self.path is not None and self.path.exists():
            if not self.path.is_file():  # a device may have no end
                raise ValueError(f"checkpoint: {self.path} is no ordinary file; name another")
            if not resume:
                raise ValueError(
                    f"checkpoint: {self.path} exists already; pass resume=True to go on, or remove the file"
                )
            self._restore(self.path)

    def keep(self, found: list[tuple[int, Cells]]) -> None:
        """Take note of finished jobs; now and then, write all there is."""
        for job, cells in found:
            self._place(cells.i, cells.j, cells)
            if self.plan.options.symmetric:
                self._place(cells.j, cells.i, cells)
            self.done[job] = True
        if self.path is not None and time.monotonic() - self._written > _EVERY:
            self.save()

    def _place(self, i: NDArray[np.int64], j: NDArray[np.int64], cells: Cells) -> None:
        self.fields[:, i, j] = cells.fields.T
        for k, text in cells.reasons.items():
            self.reasons[int(i[k]), int(j[k])] = text

    def save(self) -> None:
        """Write the file; a disk that fails costs the file, not the run."""
        if self.path is None:
            return
        self._written = time.monotonic()
        record = {
            "format": _FORMAT,
            "plan": self._print,
            "reasons": [[i, j, text] for (i, j), text in self.reasons.items()],
        }
        try:
            container.write(self.path, {"fields": self.fields, "done": self.done}, record)
        except OSError as error:
            warn(f"checkpoint: {self.path} could not be written ({error}); the run goes on without it", DataWarning)

    def _restore(self, path: Path) -> None:
        arrays, record = container.read(path)
        if record.get("format") != _FORMAT:
            raise CheckpointError(f"checkpoint: {path} is no file of a distance matrix; name another file")
        if record.get("plan") != self._print:
            raise CheckpointError(
                f"checkpoint: {path} belongs to a matrix of other processes or options; pass the same ones as then, or "
                "name another file"
            )
        fields, done = arrays.get("fields"), arrays.get("done")
        if fields is None or done is None or fields.shape != self.fields.shape or done.shape != self.done.shape:
            raise CheckpointError(f"checkpoint: {path} does not hold together; go back to an older copy")
        try:
            self.reasons = {(int(i), int(j)): str(text) for i, j, text in record["reasons"]}
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(f"checkpoint: {path} does not hold together; go back to an older copy") from None
        self.fields, self.done = fields.astype(np.float64), done.astype(np.bool_)
