"""One pair as `somcot.distance` does it: what is too large for a batch, or of another kind; and p-values of a pair."""

from __future__ import annotations

from typing import Any

import numpy as np

from somcot import costs
from somcot.api import distance
from somcot.inference.permutation import same_process
from somcot.many.cells import FIELDS, Cells, empty, single
from somcot.many.groups import Member
from somcot.many.plan import Plan
from somcot.many.vectors import APPROXIMATE
from somcot.result import Result, Status
from somcot.samples import Samples

__all__ = ["one_ordinary", "with_pvalue"]

_PERMUTATIONS = 999  # regroupings behind a p-value at most; a pair that is alike stops after a few dozen


def one_ordinary(plan: Plan, i: int, j: int) -> Cells:
    """One pair as `somcot.distance` does it; what goes wrong is the cell's own affair."""
    options, x, y = plan.options, plan.rows[i], plan.columns[j]
    row = np.full(len(FIELDS), np.nan)
    data = x.is_data or y.is_data
    try:
        found = distance(
            *_compared(plan, x, y),
            discount=options.discount,
            method=options.method,
            confidence=options.level if options.method == "auto" and data else None,
            rng=np.random.default_rng([options.seed, 1 + i, 1 + j]),
            **_of_vectors(plan),
        )
    except Exception as error:  # the solver's, or whatever a user's function raises
        return empty(i, j, error)
    if found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    row[0] = row[5] = found.distance
    row[1] = np.nan if found.plugin is None else found.plugin
    ends = found.confidence_interval[:2] if found.confidence_interval is not None else (np.nan, np.nan)
    row[2], row[3] = ends if data else found.bounds
    if found.estimate is not None:
        row[4] = found.estimate.standard_error
        if found.estimate.uncut is not None and found.continuous is None:  # which is that of cells, not corrected
            row[5] = found.estimate.uncut
    return with_pvalue(plan, single(i, j, row, _doubt(found)), x, y)


def _compared(plan: Plan, x: Member, y: Member) -> tuple[Any, Any, Any]:
    """Two processes and the cost between them."""
    if plan.points is not None:
        return x.vectors, y.vectors, plan.points.cost
    return x.process, y.process, costs.between(plan.cost, x.process, y.process)


def _of_vectors(plan: Plan) -> dict[str, Any]:
    """What recordings of real vectors take beside the rest."""
    return {} if plan.points is None else {"scale": plan.points.scale, "n_cells": plan.points.n_cells}


def _doubt(found: Result) -> str:
    """What to know of a number that is there but not as good as was asked for."""
    if found.continuous is not None and found.continuous.route == "approximate":
        return f"{APPROXIMATE}: {found.continuous.twin.reason}"
    return "" if found.status in (Status.CONVERGED, Status.FINISHED) else f"{found.status}: {found.message}"


def with_pvalue(plan: Plan, cell: Cells, x: Member, y: Member) -> Cells:
    """Add a permutation p-value where that was asked for and both sides have episodes."""
    if not plan.options.tests:
        return cell
    if not isinstance(x.process, Samples) or not isinstance(y.process, Samples):
        return cell._replace(reasons=cell.reasons or {0: "no p-value: whole episodes are dealt anew; pass Samples"})
    rng = np.random.default_rng([plan.options.seed, 1 + int(cell.i[0]), 1 + int(cell.j[0]), 1])
    try:
        found = same_process(
            x.process,
            y.process,
            plan.cost,
            discount=plan.options.discount,
            n_permutations=_PERMUTATIONS,
            rng=rng,
            threads=1,
        )
    except Exception as error:  # the cell has its distance all the same
        return cell._replace(reasons={0: f"no p-value: {error}"})
    cell.fields[0, FIELDS.index("pvalues")] = found.pvalue
    return cell
