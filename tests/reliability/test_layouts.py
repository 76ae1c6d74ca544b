"""Equal seeds, equal bits: wherever arrays lie in memory, however a run is cut, on every machine with FMA.

LLVM may keep two versions of a loop and choose between them by the distance of addresses. If the versions add up in
another order, the heap decides about the last bits. With "reassoc" among the flags of the compiled parts the layouts
tell at 4 and 5 states, on targets as different as haswell and znver4, if not on all; the hashes always do.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from somcot import Problem, streams
from somcot.core.pairs import all_pairs
from somcot.core.sweep import Sweep
from somcot.core.transport.wide_pairs import Task
from somcot.plumbing.linear_systems import discounted_value
from somcot.solvers import somcot
from somcot.solvers.lagrangian import advance
from somcot.solvers.saddle import SaddleRun
from somcot.solvers.somcot.fold import Batch, run_kernel
from tests.instances import walks
from tests.reliability.bits import dense, digest, everything

LAYOUTS = 100
N_STEPS = 40
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.filterwarnings("ignore:the run has not converged")  # runs are short


def packed(rng: np.random.Generator, *things: Any) -> list[Any]:
    """Arrays and records of arrays moved into one buffer, in random order with gaps of 0 to 256 bytes."""
    arrays = {id(array): array for thing in things for array in _arrays(thing)}
    order = rng.permutation(list(arrays))
    gaps = 8 * rng.integers(rng.choice([1, 2, 5, 9, 33]), size=len(order) + 1)  # mostly close: that is where loops part
    buffer = np.empty(sum(array.nbytes + 8 for array in arrays.values()) + int(gaps.sum()), dtype=np.uint8)
    place, moved = int(gaps[-1]), {}
    for key, gap in zip(order, gaps[:-1], strict=True):
        array = arrays[key]
        copy = buffer[place : place + array.nbytes].view(array.dtype).reshape(array.shape)
        copy[...] = array
        moved[key] = copy
        place += -(-array.nbytes // 8) * 8 + int(gap)
    return [_rebuilt(thing, moved) for thing in things]


def _arrays(thing: Any) -> list[Any]:
    if isinstance(thing, tuple):
        return [array for part in thing for array in _arrays(part)]
    return [thing] if isinstance(thing, np.ndarray) else []


def _rebuilt(thing: Any, moved: dict[Any, Any]) -> Any:
    if isinstance(thing, tuple):
        return type(thing)._make(_rebuilt(part, moved) for part in thing)  # type: ignore[attr-defined]
    return moved.get(id(thing), thing) if isinstance(thing, np.ndarray) else thing


def started(n: int, support: str, rate: float, n_steps: int = N_STEPS) -> tuple[Any, Batch]:
    """A SOMCOT run before its first step, and what to feed it."""
    x, y, cost = walks(n, 0.7)
    allowed = {"transitions_x": x.transition > 0, "transitions_y": y.transition > 0} if support == "observed" else {}
    state = somcot.init(
        cost, discount=0.95, n_steps=n_steps, initial_x=x.initial, initial_y=y.initial, primal_step=rate,
        dual_step=0.2, support=support, **allowed,
    )  # fmt: skip
    pairs = *streams.from_chain(x, 0.95, 0).draw(n_steps), *streams.from_chain(y, 0.95, 1).draw(n_steps)
    return state, Batch(*(array.reshape(-1, 1) for array in pairs))


@pytest.mark.parametrize("rate", [0.5, 40.0])
@pytest.mark.parametrize("support", ["full", "observed"])
@pytest.mark.parametrize("n", [4, 5, 7, 10])
def test_somcot_wherever_its_arrays_lie(n: int, support: str, rate: float) -> None:
    state, batch = started(n, support, rate)
    first = state.x, state.y, state.pairs, state.work
    found = set()
    for layout in range(LAYOUTS):
        state.x, state.y, state.pairs, state.work = packed(np.random.default_rng([n, layout]), *first)
        run_kernel(state, batch)
        found.add(digest([*state.x, *state.y, *state.pairs]))
    assert len(found) == 1


def test_the_exact_solver_wherever_its_arrays_lie() -> None:
    problem = Problem(*dense(), 0.95)
    pairs = all_pairs(problem.unit)
    names = ("_pair_x", "_pair_y", "_x", "_y", "_bases")
    cost, found = problem.unit_cost.ravel(), set()
    for layout in range(LAYOUTS):
        rng = np.random.default_rng(layout)
        sweep, V = Sweep(problem.unit, pairs, 1), cost.copy()
        moved = packed(rng, *(getattr(sweep, name) for name in names))
        for name, value in zip(names, moved, strict=True):
            setattr(sweep, name, value)
        sweep._problems._task = Task._make([*moved[:4], sweep._unit, sweep._bases, sweep._bases])
        bits = []
        for _ in range(3):
            (table,) = packed(rng, V.reshape(problem.shape))
            improved = sweep.improve(table)
            kernel, c, guess = packed(rng, sweep.kernel()[0], cost, V)
            V = discounted_value(kernel, c, 0.95, guess)
            bits += [improved.low, improved.high, V]
        found.add(digest(bits))
    assert len(found) == 1


@pytest.mark.parametrize("problem", [Problem(*dense(), 0.95), Problem(*walks(4, 0.7), 0.95)], ids=["dense", "walk"])
def test_the_saddle_point_wherever_its_arrays_lie(problem: Problem) -> None:
    run, found = SaddleRun(problem), set()
    for layout in range(LAYOUTS):
        plan, point = packed(np.random.default_rng(layout), run.layout, run.point)
        advance(plan, point, 0.95, 0.3, 0.83, 40, True)
        found.add(digest(point))
    assert len(found) == 1


@pytest.mark.parametrize("support", ["full", "observed"])
def test_somcot_however_it_is_cut(support: str) -> None:
    found = set()
    for layout in range(12):
        rng = np.random.default_rng(layout)
        state, batch = started(4, support, 40.0, 400)
        cuts = [0, *sorted(rng.integers(1, 400, size=layout)), 400]
        for begin, end in pairwise(cuts):
            state.pace = int(rng.integers(1, 100))
            part = [array.ravel() for array in batch.part(int(begin), int(end))]
            state = somcot.advance(state, (part[0], part[1]), (part[2], part[3]))
        found.add(everything(somcot.finish(state)))
    assert len(found) == 1


def run(*arguments: str, **environment: str) -> str:
    """What a process of its own prints."""
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


KNOWN = {
    ("walk", "exact"): "bbdcd34631c4cc5e",
    ("walk", "saddle"): "b4be0f4ec4898d8b",
    ("walk", "somcot full"): "daa29b64813e2227",
    ("walk", "somcot observed"): "f6a3577a9fe1c708",
    ("walk", "somcot default"): "2f7189327c48fd28",
    ("dense", "exact"): "29712dda1bf39dff",
    ("dense", "saddle"): "6d23b1645fb31fc8",
    ("dense", "somcot full"): "0da5a73a675927c3",
    ("dense", "somcot observed"): "cff892b1c0e54846",
    ("dense", "somcot default"): "9aa9f56252c5a430",
}
# A machine without AVX-512 for Numba, OpenBLAS and NumPy, which renamed its features in version 2.4.
OLDER = {
    "NUMBA_CPU_NAME": "haswell",
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
}


@pytest.mark.parametrize("machine", [{}, {"OMP_NUM_THREADS": "2"}, OLDER], ids=["this", "two threads", "older"])
def test_the_same_bits_on_every_machine(machine: dict[str, str]) -> None:
    """Whoever changes an algorithm on purpose writes the new hashes down: ``python -m tests.reliability.bits``."""
    lines = csv.reader(run("tests.reliability.bits", **machine).splitlines())
    assert {(place, name): bits for place, name, bits in lines} == KNOWN


def test_layouts_on_an_older_machine() -> None:
    """Where the host's target has only one version of a loop, another one may have two."""
    said = run(
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        __file__,
        "-k",
        "arrays_lie",
        NUMBA_CPU_NAME="haswell",
    )
    assert "19 passed" in said
