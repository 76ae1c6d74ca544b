"""Doing jobs of a plan: a pure function of the plan and a range of jobs, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from somcot.bellman.slices import cut
from somcot.chains import Support
from somcot.inference.pooling import Pooled, pool
from somcot.inference.rules import Evidence, Halves, correct, interval
from somcot.many.batch import Found, Tasks, compare
from somcot.many.cells import FIELDS, Cells, empty, joined, single
from somcot.many.groups import Member
from somcot.many.guard import guarded, needs_guard
from somcot.many.ordinary import one_ordinary, with_pvalue
from somcot.many.packs import pack, tables
from somcot.many.plan import DATA, EXACT, ORDINARY, Plan, Units
from somcot.many.prices import CostBook
from somcot.plumbing.arrays import Ints

__all__ = ["run"]

_SLICE = 100_000  # microseconds of compiled work between two looks at whether to stop
_CAREFUL = 0.99  # discount above which the distance is read off the coupling rather than off V

Stop = Callable[[], bool]


def run(plan: Plan, jobs: Sequence[int], stop: Stop = lambda: False) -> list[tuple[int, Cells]]:
    """Do some jobs, each on its own; fewer when told to stop."""
    chosen = np.asarray(jobs, dtype=np.int64)
    kind = plan.kind[chosen]
    found: list[tuple[int, Cells]] = []
    for which, do in ((EXACT, _exact), (DATA, _data)):
        rows, failed = _with_costs(plan, chosen[kind == which])
        found += failed
        if len(rows):
            for lo, hi in cut(np.maximum(1e6 * plan.seconds[rows], 1).astype(np.int64), _SLICE):
                if stop():
                    return found
                found += do(plan, rows[lo:hi])
    for job in chosen[kind == ORDINARY]:
        if stop():
            return found
        found.append((int(job), one_ordinary(plan, int(plan.a[job]), int(plan.b[job]))))
    return found


def _with_costs(plan: Plan, jobs: Ints) -> tuple[Ints, list[tuple[int, Cells]]]:
    """Jobs whose cost can be had, and the empty cells of the others: functions and names may know some pairs only."""
    if not callable(plan.cost) and (not isinstance(plan.cost, str) or plan.cost == "labels"):
        return jobs, []
    failed: list[tuple[int, Cells]] = []
    kept = []
    for job in jobs:
        ((i, j),) = plan.cells(int(job))
        try:
            CostBook(plan).number(plan.rows[i], plan.columns[j])
            kept.append(job)
        except Exception as error:  # whatever a user's function raises is the cell's own affair
            failed.append((int(job), empty(i, j, error)))
    return np.array(kept, dtype=np.int64), failed


def _exact(plan: Plan, jobs: Ints) -> list[tuple[int, Cells]]:
    """Known chains: all start laws of a pair of kernels at once."""
    book = CostBook(plan)
    supports: list[Support] = []
    n_starts: list[int] = []
    x: list[int] = []
    y: list[int] = []
    cost, begin = [], [0]
    for job in jobs:
        one, other = plan.kernels_x[plan.a[job]], plan.kernels_y[plan.b[job]]
        for side, kernel in ((x, one), (y, other)):
            side.append(len(supports))
            supports.append(kernel.support)
            n_starts.append(kernel.n_starts)
        cost.append(book.number(plan.rows[one.members[0]], plan.columns[other.members[0]]))
        begin.append(begin[-1] + one.n_starts * other.n_starts)
    found = _compare(plan, (x, y, cost, begin), pack(supports, n_starts), book, [], None)
    answers = []
    for k, job in enumerate(jobs):
        one, other = plan.kernels_x[plan.a[job]], plan.kernels_y[plan.b[job]]
        start_x, start_y = (dict(zip(k.members, k.starts, strict=True)) for k in (one, other))
        spots = [begin[k] + start_x[i] * other.n_starts + start_y[j] for i, j in plan.cells(int(job))]
        answers.append((int(job), _exact_cells(plan, int(job), np.array(spots), found, book.units[cost[k]])))
    return answers


def _exact_cells(plan: Plan, job: int, spots: Ints, found: Found, units: Units) -> Cells:
    cells = list(plan.cells(job))
    if found.status[spots].any():  # rounding, or too many rounds: the ordinary way knows what to do
        return joined([one_ordinary(plan, i, j) for i, j in cells])
    fields = np.full((len(cells), len(FIELDS)), np.nan)
    data = plan.options.n_splits == 0
    for column, values in ((0, found.distance), (5, found.distance)):
        fields[:, column] = np.clip(units.offset + units.scale * values[spots], units.offset, units.most)
    low, high = (units.offset + units.scale * ends[spots] for ends in (found.low, found.high))
    fields[:, 2], fields[:, 3] = np.maximum(low, units.offset), np.minimum(high, units.most)
    for k, (i, j) in enumerate(cells):
        if data and (plan.rows[i].is_data or plan.columns[j].is_data):
            fields[k, 1] = fields[k, 0]
            fields[k, 2] = fields[k, 3] = np.nan
    i, j = np.array(cells, dtype=np.int64).T
    return Cells(i, j, fields, {})


def _data(plan: Plan, jobs: Ints) -> list[tuple[int, Cells]]:
    """Recordings against recordings or chains: the corrected estimate, as `distance` makes it."""
    book = CostBook(plan)
    place: dict[int, int] = {}
    members: list[Member] = []

    def number(member: Member) -> int:
        if id(member) not in place:
            place[id(member)] = len(members)
            members.append(member)
        return place[id(member)]

    pairs = [(plan.rows[plan.a[job]], plan.columns[plan.b[job]]) for job in jobs]
    x, y = [number(one) for one, _ in pairs], [number(other) for _, other in pairs]
    cost = [book.number(one, other) for one, other in pairs]
    pooled = [_pool(one, other, book.units[k]) for (one, other), k in zip(pairs, cost, strict=True)]
    whole = pack([m.support for m in members])
    found = _compare(plan, (x, y, cost, list(range(len(jobs) + 1))), whole, book, members, pooled)
    answers = []
    for k, job in enumerate(jobs):
        try:
            cell = _data_cell(plan, int(job), found, k, book.units[cost[k]], pooled[k] is not None)
        except Exception as error:  # whatever goes wrong with one pair must not end the run
            cell = empty(int(plan.a[job]), int(plan.b[job]), error)
        answers.append((int(job), cell))
    return answers


def _compare(
    plan: Plan,
    lists: tuple[list[int], list[int], list[int], list[int]],
    whole: Any,
    book: CostBook,
    members: list[Member],
    pooled: list[Pooled | None] | None,
) -> Found:
    x, y, cost, begin = (np.array(part, dtype=np.int64) for part in lists)
    n_splits = 0 if pooled is None else plan.options.n_splits
    has = np.array([p is not None for p in pooled or [None] * len(x)], dtype=np.bool_)
    counts = [m.model.counts for m in members if m.model is not None]
    tasks = Tasks(
        x, y, cost,
        np.where(has, 2 * (np.cumsum(has) - 1), -1).astype(np.int64),
        np.ascontiguousarray(begin[:-1]),
        whole,
        pack([s for m in members for s in _halves(m, n_splits)]),
        pack([side for p in pooled or [] if p is not None for side in (p.x, p.y)]),
        np.concatenate(counts).astype(np.float64) if counts else np.zeros(0),
        tables([units.unit for units in book.units]),
    )  # fmt: skip
    found = Found(*(np.full(int(begin[-1]), np.nan) for _ in Found._fields))
    careful = plan.options.discount > _CAREFUL
    compare(0, len(x), tasks, plan.options.discount, n_splits, careful, found)
    return found


def _halves(member: Member, n_splits: int) -> list[Support]:
    support = member.support
    if not member.is_data:
        return [support] * (2 * n_splits)
    return [Support(support.indptr, support.indices, row) for row in member.halves]


def _pool(x: Member, y: Member, units: Units) -> Pooled | None:
    assert x.model is not None
    assert y.model is not None
    if x.model.chain.states != y.model.chain.states or units.unit.diagonal().max() > 0.0:
        return None
    return pool(x.model, y.model, np.arange(x.model.chain.n_states))


def _data_cell(plan: Plan, job: int, found: Found, k: int, units: Units, matched: bool) -> Cells:
    i, j = int(plan.a[job]), int(plan.b[job])
    x, y = plan.rows[i], plan.columns[j]
    if found.status[k]:
        return one_ordinary(plan, i, j)
    evidence = Evidence(
        float(found.distance[k]),
        float(np.sqrt(found.variance[k])),
        x.saturation + y.saturation,
        Halves(float(found.gap[k]), float(found.half[k]), float(found.value[k])),
        float(found.pooled[k]) if matched else None,
    )
    row = np.full(len(FIELDS), np.nan)
    row[0], row[1], row[5] = (
        units.to_user(correct(evidence)),
        units.to_user(evidence.plugin),
        units.offset + units.scale * evidence.uncut,
    )
    row[4] = units.scale * evidence.error
    if plan.options.level is not None:
        ends = interval(evidence, plan.options.level)
        if matched and needs_guard(ends, evidence):
            ends = guarded(ends, x, y, units.unit, plan.options, (i, j))
        row[2], row[3] = (units.to_user(end) for end in ends)
    return with_pvalue(plan, single(i, j, row), x, y)
