"""Planned against realised power of `somcot.sample_size`.

``python -m benchmarks.plans --out FILE`` writes one line of JSON per pilot as it is found. A plan for a power of 0.8 is
made from a pilot recording. Tests of new recordings of the process and of a changed one, whose first-order projections
have exactly the requested distance, show at which number of sequences the power is 0.8, and the power of each plan: a
curve through at least 480 tests near 0.8 and `--runs` at each of five numbers around it. A cell is met if the mean
power over pilots is within 0.07 of 0.8.

`CELLS` were written down before they were run: eight before the noise of the pilot was subtracted, and `HELD_OUT`, half
of which resemble none of the others, before the way it is measured now.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

import somcot
from benchmarks import plan_families, recordings
from benchmarks.sources import Source, markov
from somcot.inference.statistics import PowerCurve, PowerPoint, bracketed

__all__ = ["CELLS", "HELD_OUT", "Cell", "changed", "main", "measured"]

DISCOUNT = 0.9
LEVEL = 0.05
POWER = 0.8


# --- Families that plans have not seen before


def two_tasks() -> Source:
    """Two types of task with the same six actions, one long and one short; a sequence is of one type to its end."""
    n = 6
    rng = np.random.default_rng(7101)
    kernels = np.zeros((2, n + 1, n + 1))
    for kind, stop in enumerate((0.06, 0.2)):
        kernels[kind, :n, :n] = (1 - stop) * rng.dirichlet(np.full(n, 0.5), size=n)
        kernels[kind, :n, n] = stop
    kernels[:, n, n] = 1.0
    starts = np.tile(np.r_[rng.dirichlet(np.ones(n)), 0.0], (2, 1))
    return Source(kernels, starts, np.array([0.35, 0.65]), np.arange(n + 1))


def cycle() -> Source:
    """A machine that goes through five stages and dwells in each: three hidden phases show one stage."""
    stages, phases, end = 5, 3, 15
    kernel = np.zeros((end + 1, end + 1))
    for stage in range(stages):
        pace = 0.5 + 0.08 * stage
        for phase in range(phases):
            here = stage * phases + phase
            last = phase == phases - 1
            follows = ((stage + 1) % stages) * phases if last else here + 1
            kernel[here, here] = 1 - pace
            kernel[here, follows] += pace * (0.8 if last else 1.0)
            if last:  # a stage is left out, or the run ends
                kernel[here, ((stage + 2) % stages) * phases] += 0.1 * pace
                kernel[here, end] += 0.1 * pace
    kernel[end, end] = 1.0
    return Source(kernel[None], np.eye(end + 1)[:1], np.ones(1), np.r_[np.repeat(np.arange(stages), phases), stages])


def rare_states() -> Source:
    """40 states of Zipf popularity, most of them seen a few times in a pilot."""
    n = 40
    rng = np.random.default_rng(7202)
    popular = 1 / (1.0 + np.arange(n)) ** 1.2
    P = rng.dirichlet(0.25 * n * popular / popular.sum() + 0.01, size=n)
    kernel = np.zeros((n + 1, n + 1))
    kernel[:n, :n], kernel[:n, n], kernel[n, n] = 0.88 * P, 0.12, 1.0
    return markov(kernel, np.r_[popular, 0.0])


def shifts() -> Source:
    """Two crews, each a shift of 200 steps in which the other crew may take over."""
    n = 6
    rng = np.random.default_rng(7303)
    inside = rng.dirichlet(np.full(n, 0.6), size=(2, n))
    kernel = np.zeros((2 * n, 2 * n))
    for crew in (0, 1):
        for then in (0, 1):
            kernel[crew * n : crew * n + n, then * n : then * n + n] = (0.99 if crew == then else 0.01) * inside[then]
    start = np.r_[np.full(n, 0.5 / n), np.full(n, 0.5 / n)]
    return Source(kernel[None], start[None], np.ones(1), np.tile(np.arange(n), 2))


def learners() -> Source:
    """Newcomers explore and become regulars who do the same few things; what they do depends on their age."""
    n, ages = 7, 8
    rng = np.random.default_rng(7404)
    early, late = rng.dirichlet(np.full(n, 1.0), size=n), rng.dirichlet(np.full(n, 0.3), size=n)
    kernel = np.zeros((ages * n + 1, ages * n + 1))
    for age in range(ages):
        P = early + (late - early) * age / (ages - 1)
        older = min(age + 1, ages - 1)
        rows = slice(age * n, age * n + n)
        kernel[rows, rows] += 0.95 * 0.6 * P
        kernel[rows, older * n : older * n + n] += 0.95 * 0.4 * P
        kernel[rows, -1] = 0.05
    kernel[-1, -1] = 1.0
    start = np.r_[rng.dirichlet(np.ones(n)), np.zeros(len(kernel) - n)]
    return Source(kernel[None], start[None], np.ones(1), np.r_[np.tile(np.arange(n), ages), n])


def bursts() -> Source:
    """Nine steps in ten are idle; a burst is one of five kinds of event, which follow each other."""
    rng = np.random.default_rng(7505)
    kernel = np.zeros((6, 6))
    kernel[0] = np.r_[0.95, 0.05 * rng.dirichlet(np.ones(5))]
    kernel[1:, 1:] = 0.55 * rng.dirichlet(np.full(5, 0.7), size=5)
    kernel[1:, 0] = 0.45
    return markov(kernel, 0)


def echoes() -> Source:
    """Three states; the next one is, half of the time, the one of three steps ago: memory that pairs do not show."""
    n = 3
    R = np.random.default_rng(7606).dirichlet(np.full(n, 2.0), size=n)
    kernel, start = np.zeros((n**3 + 1, n**3 + 1)), np.zeros(n**3 + 1)
    for old in range(n):
        for before in range(n):
            for now in range(n):
                go = 0.5 * R[now] + 0.5 * np.eye(n)[old]
                here = (old * n + before) * n + now
                kernel[here, [(before * n + now) * n + to for to in range(n)]] = 0.93 * go
                kernel[here, -1] = 0.07
                start[here] = 1 / n**3
    kernel[-1, -1] = 1.0
    return Source(kernel[None], start[None], np.ones(1), np.r_[np.tile(np.arange(n), n * n), n])


class Cell(NamedTuple):
    """A process, the kind of change, how often it strikes, sequences of a pilot, and steps of a sequence if fixed."""

    source: Source
    kind: str
    share: float
    pilot: int = 300
    length: int | None = None


CELLS: dict[str, Cell] = {
    "hidden regimes, row": Cell(recordings.hidden((0.9, 0.9, 0.9), 0.2), "row", 0.5),
    "hidden regimes, rows": Cell(recordings.hidden((0.9, 0.9, 0.9), 0.2), "rows", 0.4),
    "hidden regimes, initial": Cell(recordings.hidden((0.9, 0.9, 0.9), 0.2), "initial", 0.9),
    "shop, rows": Cell(recordings.shop(), "rows", 0.3),
    "shop, initial": Cell(recordings.shop(), "initial", 0.5),
    "counters, exits": Cell(recordings.counters(0.5), "exits", 0.025),
    "order 2, rows": Cell(recordings.second_order(1.0, 0.1), "rows", 0.2),
    "heavy tails, exits": Cell(recordings.heavy_tail(1.4), "exits", 0.06),
    "rare states, initial": Cell(rare_states(), "initial", 1.0),
    "two tasks, row": Cell(two_tasks(), "row", 0.3),
    "cycle, exits": Cell(cycle(), "exits", 0.02),
    "long shifts, rows": Cell(shifts(), "rows", 0.1, pilot=60, length=200),
    "random effects, rows": Cell(recordings.customers(0.0), "rows", 0.25),
    "50 states, row": Cell(recordings.sparse(50, "equal"), "row", 0.4, length=40),
    "queue, initial": Cell(recordings.queue(0.42), "initial", 0.2, length=100),
    "seasons, rows": Cell(recordings.season(0.22), "rows", 0.015, length=60),
    "failures, exits": Cell(recordings.machine(0.02), "exits", 0.02),
    "learners, exits": Cell(learners(), "exits", 0.03),
    "bursts, row": Cell(bursts(), "row", 0.3, length=100),
    "echoes, rows": Cell(echoes(), "rows", 0.5),
}

HELD_OUT: dict[str, Cell] = {
    "ring, rows": Cell(plan_families.ring(), "rows", 0.05, length=30),
    "funnel, exits": Cell(plan_families.funnel(), "exits", 0.03),
    "skills, row": Cell(plan_families.skills(), "row", 0.4),
    "retail, initial": Cell(plan_families.retail(), "initial", 0.5),
    "dwells, rows": Cell(plan_families.dwells(), "rows", 0.03, length=150),
    "stack, exits": Cell(plan_families.stack(), "exits", 0.03),
    "contagion, initial": Cell(plan_families.contagion(), "initial", 0.15),
    "routines, row": Cell(plan_families.routines(), "row", 0.2),
    "dense, rows": Cell(plan_families.dense(), "rows", 0.25, length=40),
    "errands, exits": Cell(plan_families.errands(), "exits", 0.05),
    "migration, initial": Cell(plan_families.migration(), "initial", 0.4, length=60),
    "tree, rows": Cell(plan_families.tree(), "rows", 0.2),
    "alarms, row": Cell(plan_families.alarms(), "row", 0.2, length=100),
    "bargaining, exits": Cell(plan_families.bargaining(), "exits", 0.03),
}


def single(source: Source) -> Source:
    """A mixture as one component whose hidden states also say which kind of sequence it is."""
    k, m, _ = source.kernels.shape
    kernel = np.zeros((k * m, k * m))
    for i in range(k):
        kernel[i * m : i * m + m, i * m : i * m + m] = source.kernels[i]
    return Source(
        kernel[None], (source.weights[:, None] * source.starts).reshape(1, -1), np.ones(1), np.tile(source.shown, k)
    )


def changed(source: Source, kind: str, share: float, label: int, length: int | None = None) -> Source:
    """The kinds of `somcot.sample_size` as changes of the hidden states, written down independently of it.

    Where the change strikes, the next hidden state is drawn from all transitions: a sequence that goes on like another.
    """
    kernel, start, inside = source.kernels[0], source.starts[0], ~source.ends
    visits = np.zeros(len(start))
    if length is None:
        visits[inside] = np.linalg.solve(np.eye(inside.sum()) - kernel[np.ix_(inside, inside)].T, start[inside])
    else:
        at = start
        for _ in range(length):
            visits += np.where(inside, at, 0.0)
            at = np.where(inside, at, 0.0) @ kernel
    if kind == "initial":
        return Source(source.kernels, ((1 - share) * start + share * visits / visits.sum())[None], source.weights,
                      source.shown)  # fmt: skip
    flow = visits @ kernel
    target = np.where(inside, 0.0, flow) if kind == "exits" else flow
    struck = inside & ((source.shown == label) | (kind != "row"))
    new = np.where(struck[:, None], (1 - share) * kernel + share * target / target.sum(), kernel)
    return Source(new[None], source.starts, source.weights, source.shown)


class Pair(NamedTuple):
    """Both processes of a cell, the state that changes if it is one, and their distance."""

    x: Source
    y: Source
    state: int
    effect: float


def pair(cell: Cell) -> Pair:
    """The distance is that of the exact first-order projections, as recorded."""
    x = single(cell.source)
    original = x.projection(cell.length)
    busiest = int(np.argmax(np.where(np.diag(original.transition) < 1, original.state_occupancy(DISCOUNT), 0)))
    y = changed(x, cell.kind, cell.share, busiest, cell.length)
    effect = somcot.distance(original, y.projection(cell.length), discount=DISCOUNT).distance
    return Pair(x, y, busiest, float(effect))


def curve(name: str, cell: Cell, sides: Pair, runs: int) -> PowerCurve:
    """The realised power: tests of new recordings at five numbers of sequences around the one with the power."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), 9])

    def found(n: int, tests: range) -> int:
        return sum(
            somcot.same_process(
                sides.x.record(n, rng, cell.length), sides.y.record(n, rng, cell.length), discount=DISCOUNT, rng=seed
            ).pvalue <= LEVEL
            for seed in tests
        )  # fmt: skip

    points = bracketed(found, POWER, cell.pilot, (10, 20_000))
    near = PowerCurve.fitted(points, POWER).solved(POWER)
    around = {point.n for point in points}
    sizes = sorted({int(near * share) for share in (0.5, 0.7, 1.0, 1.4, 2.0)} - around)
    wider = (PowerPoint(n, found(n, range(runs)) / runs, runs) for n in sizes)
    return PowerCurve.fitted([*points, *wider], POWER)


def measured(
    name: str, cell: Cell, pilots: Iterable[int], runs: int, size: int | None = None
) -> Iterator[dict[str, Any]]:
    """The realised power of a plan from each pilot, of `size` sequences instead of the cell's."""
    sides = pair(cell)
    state = {"state": sides.state} if cell.kind == "row" else {}
    true = curve(name, cell, sides, runs)
    for number in pilots:
        rng = np.random.default_rng([zlib.crc32(name.encode()), number])
        pilot = sides.x.record(size or cell.pilot, rng, cell.length)
        row: dict[str, Any] = {"cell": name, "effect": sides.effect, "right": true.solved(POWER), "pilot": number}
        began = time.process_time()
        try:
            plan = somcot.sample_size(
                pilot, effect=sides.effect, power=POWER, kind=cell.kind, discount=DISCOUNT, rng=number, **state
            )
        except ValueError as refused:
            yield row | {"refused": str(refused)}
            continue
        power = ndtr(true.intercept + true.slope * math.sqrt(plan.n_sequences))
        yield row | {"n": plan.n_sequences, "share": plan.share, "error": round(plan.pilot_error, 3),
                     "power": round(float(power), 3), "cpu": round(time.process_time() - began, 1)}  # fmt: skip


def main() -> None:
    """Run the cells in order, each pilot on a line of its own."""
    parser = argparse.ArgumentParser(prog="benchmarks.plans", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/plans.jsonl"))
    parser.add_argument("--only", nargs="+", help="some cells")
    parser.add_argument("--pilots", type=int, default=4)
    parser.add_argument("--size", type=int, help="sequences of a pilot")
    parser.add_argument("--runs", type=int, default=60, help="tests at each of five numbers of sequences")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("a") as sink:
        for name, cell in (CELLS | HELD_OUT).items():
            if args.only and name not in args.only:
                continue
            for row in measured(name, cell, range(args.pilots), args.runs, args.size):
                print(json.dumps(row), file=sink, flush=True)
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
