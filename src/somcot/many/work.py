"""Running the jobs of a plan: a pure function of the plan and a range of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from somcot import costs
from somcot.api import distance
from somcot.chains import Support
from somcot.core.pairs import ChainClasses, cut
from somcot.core.partition import Quotient, first_members
from somcot.inference.estimate import Joint, estimate
from somcot.inference.permutation import same_process
from somcot.many.batch import (
    BatchValues,
    Pack,
    Tasks,
    compare,
    compare_in_the_long_run,
    pack,
    recurrence,
    tables,
)
from somcot.many.members import Member, SharedKernel, cost_between
from somcot.many.plan import DATA, EXACT, ORDINARY, JobPlan, UnitCost, units_of
from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.notes import Note
from somcot.result import Claim, Result, Status
from somcot.samples import Samples

__all__ = [
    "FIELDS",
    "CostBook",
    "MatrixCells",
    "empty",
    "joined",
    "pair_result",
    "run",
    "single",
    "single_pair",
    "with_pvalue",
]


# --- Cells of the matrix filled by a job

FIELDS = ("values", "plugin", "low", "high", "standard_error", "uncut", "pvalues")


class MatrixCells(NamedTuple):
    """Cells of the matrix that were filled: positions, one row of `FIELDS` each, and reasons for missing values."""

    i: Ints
    j: Ints
    fields: Floats
    reasons: dict[int, str]


def single(i: int, j: int, row: Floats, reason: str = "") -> MatrixCells:
    """One cell."""
    return MatrixCells(np.array([i]), np.array([j]), row[None, :], {0: reason} if reason else {})


def empty(i: int, j: int, error: Exception) -> MatrixCells:
    """One cell without a number, with the reason."""
    return single(i, j, np.full(len(FIELDS), np.nan), f"{type(error).__name__}: {error}")


def joined(parts: list[MatrixCells]) -> MatrixCells:
    """Single cells joined to one record."""
    reasons = {k: text for k, part in enumerate(parts) for text in part.reasons.values()}
    i, j, fields = (np.concatenate([getattr(p, name) for p in parts]) for name in ("i", "j", "fields"))
    return MatrixCells(i, j, fields, reasons)


# --- Costs between the members of a plan


class CostBook:
    """Costs for a run of jobs; each distinct cost is computed and scaled once."""

    def __init__(self, plan: JobPlan) -> None:
        self.plan = plan
        self.units: list[UnitCost] = []
        self._known: dict[object, int] = {}

    def number(self, x: Member, y: Member) -> int:
        """Index of the cost between two members."""
        assert x.model is not None
        assert y.model is not None
        # A function of two processes may look at anything in them, so its table belongs to one pair of members. An
        # array, or the labels, depend on the states alone.
        shared = not callable(self.plan.cost)
        named = isinstance(self.plan.cost, str) and self.plan.cost != "labels"
        key = (x.model.chain.states, y.model.chain.states) if shared and not named else (id(x), id(y))
        if key not in self._known:
            table = cost_between(self.plan.cost, x, y)
            self._known[key] = len(self.units)
            self.units.append(units_of(np.asarray(table, dtype=np.float64)))
        return self._known[key]


# --- Single pairs, as in `somcot.distance`: large problems, other kinds, and p-values

_PERMUTATIONS = 999  # maximum number behind a p-value; a pair of equal processes stops after a few dozen


def single_pair(plan: JobPlan, i: int, j: int, *, threads: int | None = None) -> MatrixCells:
    """One pair, as `somcot.distance` with the same seed; an error is recorded in its cell."""
    x, y = plan.rows[i], plan.columns[j]
    row = np.full(len(FIELDS), np.nan)
    data = x.is_data or y.is_data
    try:
        result = pair_result(plan, i, j, threads=threads)
    except Exception as error:  # from the solver or from a user's function
        return empty(i, j, error)
    # An interrupted result is a partial answer; a cell must hold a whole one, or the checkpoint would keep it.
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    # Column 5 is `uncut`. It is overwritten below where there is an estimate that differs from its truncated value.
    row[0] = row[5] = result.distance
    row[1] = np.nan if result.plugin is None else result.plugin
    ends = result.confidence_interval[:2] if result.confidence_interval is not None else (np.nan, np.nan)
    # Bounds are proved for the chains that were solved; for data they would be taken for an interval of the truth.
    row[2], row[3] = ends if data else result.bounds
    if result.estimate is not None:
        row[4] = result.estimate.standard_error
        if result.estimate.uncut is not None and result.continuous is None:  # whose `uncut` is not corrected
            row[5] = result.estimate.uncut
    return with_pvalue(plan, single(i, j, row, _doubt(result)), x, y)


def pair_result(plan: JobPlan, i: int, j: int, *, threads: int | None = None) -> Result:
    """The result of one pair; intervals that hold jointly use the bar of the plan."""
    options, x, y = plan.options, plan.rows[i], plan.columns[j]
    data = x.is_data or y.is_data
    confidence = options.confidence if options.estimated and data else None
    arguments: dict[str, Any] = {**options.timing_arguments, "confidence": confidence, "rng": options.seed}
    if options.grouping and not (x.is_data and y.is_data and options.estimated):
        (argument,) = options.grouping
        raise TypeError(f"{argument}: needs recordings on both sides and method='auto'; leave it out")
    arguments |= options.grouping
    # Joint intervals replace each pair's own quantile by one of the maximum over all pairs, so they bypass the public
    # function.
    if options.n_joint > 1 and confidence is not None and plan.points is None:
        joint = Joint(options.n_joint, plan.bars.get((i, j)))
        return estimate(*_compared(plan, x, y), **arguments, threads=threads, joint=joint)
    one, other, cost = _compared(plan, x, y)
    # The methods for known chains and for vectors choose their threads themselves.
    corrected = options.timing.name in ("discount", "average")
    if options.estimated and data and plan.points is None and corrected:
        arguments["threads"] = threads
    return distance(one, other, cost, method=options.method, **arguments, **_of_vectors(plan))


def _compared(plan: JobPlan, x: Member, y: Member) -> tuple[Any, Any, Any]:
    """Two processes and the cost between them."""
    if plan.points is not None:
        return x.vectors, y.vectors, plan.points.cost
    return x.process, y.process, costs.between(plan.cost, x.process, y.process)


def _of_vectors(plan: JobPlan) -> dict[str, Any]:
    """Further arguments for recordings of real vectors."""
    return {} if plan.points is None else {"scale": plan.points.scale, "n_cells": plan.points.n_cells}


def _doubt(result: Result) -> str:
    """Why a number may be less accurate than requested."""
    if result.claim is Claim.APPROXIMATE and result.continuous is not None:
        return Note("approximate-pair", reason=result.continuous.reason)
    return "" if result.status in (Status.CONVERGED, Status.FINISHED) else f"{result.status}: {result.message}"


def with_pvalue(plan: JobPlan, cell: MatrixCells, x: Member, y: Member) -> MatrixCells:
    """Add a permutation p-value if requested and if both sides have episodes."""
    if not plan.options.tests:
        return cell
    if not isinstance(x.process, Samples) or not isinstance(y.process, Samples):
        # An earlier reason concerns the distance and matters more than a missing p-value.
        return cell._replace(reasons=cell.reasons or {0: "no p-value: whole episodes are permuted; pass Samples"})
    try:
        test = same_process(
            x.process,
            y.process,
            plan.cost,
            discount=plan.options.discount,
            n_permutations=_PERMUTATIONS,
            rng=plan.options.seed,
            # Jobs already run side by side, and the p-value must not depend on how many threads a worker has.
            threads=1,
            **plan.options.grouping,
        )
    except Exception as error:  # the cell keeps its distance
        return cell._replace(reasons={0: f"no p-value: {error}"})
    cell.fields[0, FIELDS.index("pvalues")] = test.pvalue
    return cell


# --- Running jobs

_SLICE = 100_000  # microseconds of compiled work between two checks for a stop request
_CAREFUL = 0.99  # discount above which the distance is computed from the coupling rather than from V

Stop = Callable[[], bool]


def run(plan: JobPlan, jobs: Sequence[int], stop: Stop = lambda: False) -> list[tuple[int, MatrixCells]]:
    """Run some jobs, each independently; fewer if `stop` returns True."""
    chosen = np.asarray(jobs, dtype=np.int64)
    kind = plan.kind[chosen]
    finished: list[tuple[int, MatrixCells]] = []
    # Batches first: one compiled call answers many cells, so an early stop leaves the fewest gaps.
    for which, do in ((EXACT, _exact), (DATA, _data)):
        rows = chosen[kind == which]
        if len(rows):
            # Slices by expected time rather than by number, so that Ctrl-C is answered within about a tenth of a
            # second.
            for lo, hi in cut(np.maximum(1e6 * plan.seconds[rows], 1).astype(np.int64), _SLICE):
                if stop():
                    return finished
                finished += do(plan, rows[lo:hi])
    for job in chosen[kind == ORDINARY]:
        if stop():
            return finished
        finished.append((int(job), single_pair(plan, int(plan.a[job]), int(plan.b[job]))))
    return finished


def _exact(plan: JobPlan, jobs: Ints) -> list[tuple[int, MatrixCells]]:
    """Known chains: all initial distributions of a pair of kernels in one task."""
    book = CostBook(plan)
    supports: list[Support] = []
    n_starts: list[int] = []
    classes: list[ChainClasses] = []
    x: list[int] = []
    y: list[int] = []
    cost, begin, grids = [], [0], _Grids(book)
    answers, solvable = [], []
    for job in jobs:
        one, other = plan.kernels_x[plan.a[job]], plan.kernels_y[plan.b[job]]
        try:
            # Members of a group have equal kernels and states, so the first stands for all of them.
            number = book.number(plan.rows[one.members[0]], plan.columns[other.members[0]])
        except Exception as error:  # from a user's function, which is called for each pair; reported in its cell
            answers += [(int(job), empty(i, j, error)) for i, j in plan.cells(int(job))]
            continue
        average = plan.options.timing.name == "average"  # whose brackets would not bound the rounding of merged rows
        small = grids.add(number) if average else grids.add(number, one, other)
        for side, kernel, quotient in ((x, one, small.x), (y, other, small.y)):
            side.append(len(supports))
            supports.append(kernel.support if quotient is None else quotient.support)
            n_starts.append(kernel.n_starts)
            if average:
                classes.append(kernel.classes)
        solvable.append((job, number, 1.01 * small.slack / (1.0 - plan.options.discount) if small.slack else 0.0))
        cost.append(small.grid)
        begin.append(begin[-1] + one.n_starts * other.n_starts)
    values = _compare(plan, (x, y, cost, begin), pack(supports, n_starts), grids.tables, classes)
    for k, (job, number, off) in enumerate(solvable):
        one, other = plan.kernels_x[plan.a[job]], plan.kernels_y[plan.b[job]]
        start_x, start_y = (dict(zip(k.members, k.starts, strict=True)) for k in (one, other))
        spots = [begin[k] + start_x[i] * other.n_starts + start_y[j] for i, j in plan.cells(int(job))]
        answers.append((int(job), _exact_cells(plan, int(job), np.array(spots), values, book.units[number], off)))
    return answers


class _MergedPair(NamedTuple):
    """A pair of kernels with equivalent states merged: quotients, the index of the cost, and the error of the rows."""

    x: Quotient | None
    y: Quotient | None
    grid: int
    slack: float


class _Grids:
    """Unit costs of the tasks; those of merged states belong to one task."""

    def __init__(self, book: CostBook) -> None:
        self.tables: list[Floats] = []
        self._book, self._whole = book, {}  # type: CostBook, dict[int, int]

    def add(self, number: int, one: SharedKernel | None = None, other: SharedKernel | None = None) -> _MergedPair:
        """A cost of the book; between two kernels, it is that of their blocks."""
        unit, x, y = self._book.units[number].unit, None, None
        if one is not None and other is not None:
            x, y = one.quotient(unit), other.quotient(np.ascontiguousarray(unit.T))
        if x is None and y is None:
            if number not in self._whole:
                self._whole[number] = len(self.tables)
                self.tables.append(unit)
            return _MergedPair(None, None, self._whole[number], 0.0)
        for axis, quotient in enumerate((x, y)):
            if quotient is not None:  # states of a block have equal costs, so the first stands for all of them
                unit = unit.take(first_members(quotient.labels, len(quotient.support.indptr) - 2), axis=axis)
        self.tables.append(np.ascontiguousarray(unit))
        return _MergedPair(x, y, len(self.tables) - 1, sum(side.slack for side in (x, y) if side is not None))


def _exact_cells(plan: JobPlan, job: int, spots: Ints, solved: BatchValues, units: UnitCost, off: float) -> MatrixCells:
    """The cells of a task; its brackets are widened by `off`."""
    cells = list(plan.cells(job))
    if solved.status[spots].any():  # rounding, or too many iterations: solve the pair separately
        # All cells of the task, not only the failed ones: they share one policy iteration, which did not end.
        return joined([single_pair(plan, i, j) for i, j in cells])
    fields = np.full((len(cells), len(FIELDS)), np.nan)
    data = not plan.options.estimated
    for column, values in ((0, solved.distance), (5, solved.distance)):
        # Undo the scaling to unit cost; rounding must not push the value out of [min cost, max cost].
        fields[:, column] = np.clip(units.offset + units.scale * values[spots], units.offset, units.most)
    low, high = (units.offset + units.scale * ends for ends in (solved.low[spots] - off, solved.high[spots] + off))
    fields[:, 2], fields[:, 3] = np.maximum(low, units.offset), np.minimum(high, units.most)
    for k, (i, j) in enumerate(cells):
        # method='exact' on data: the number is the plug-in, and its bracket says nothing about the true distance.
        if data and (plan.rows[i].is_data or plan.columns[j].is_data):
            fields[k, 1] = fields[k, 0]
            fields[k, 2] = fields[k, 3] = np.nan
    i, j = np.array(cells, dtype=np.int64).T
    return MatrixCells(i, j, fields, {})


def _data(plan: JobPlan, jobs: Ints) -> list[tuple[int, MatrixCells]]:
    """Estimates from data, on one thread each: jobs run side by side."""
    return [(int(job), single_pair(plan, int(plan.a[job]), int(plan.b[job]), threads=1)) for job in jobs]


def _compare(
    plan: JobPlan, lists: tuple[list[int], list[int], list[int], list[int]], supports: Pack, grids: list[Floats],
    classes: Sequence[ChainClasses],
) -> BatchValues:  # fmt: skip
    x, y, cost, begin = (np.array(part, dtype=np.int64) for part in lists)
    tasks = Tasks(x, y, cost, np.ascontiguousarray(begin[:-1]), supports, tables(grids))
    values = BatchValues(*(np.full(int(begin[-1]), np.nan) for _ in BatchValues._fields))
    if plan.options.timing.name == "average":
        compare_in_the_long_run(0, len(x), tasks, recurrence(classes), values)
    else:
        compare(0, len(x), tasks, plan.options.discount, plan.options.discount > _CAREFUL, values)
    return values
