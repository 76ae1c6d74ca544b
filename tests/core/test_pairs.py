"""Reachable pairs against a plain breadth-first search."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from somcot import MarkovChain, Problem
from somcot.core.pairs import all_pairs, choose, cut, in_slices, reachable_pairs, thread_count
from tests.instances import dense_kernel, random_problem


def search(problem: Problem) -> set[tuple[int, int]]:
    P, Q = dense_kernel(problem.x), dense_kernel(problem.y)
    todo = [(int(i), int(j)) for i in np.flatnonzero(problem.x.initial) for j in np.flatnonzero(problem.y.initial)]
    seen = set(todo)
    while todo:
        x, y = todo.pop()
        for i in np.flatnonzero(P[x]):
            for j in np.flatnonzero(Q[y]):
                if (int(i), int(j)) not in seen:
                    seen.add((int(i), int(j)))
                    todo.append((int(i), int(j)))
    return seen


@pytest.mark.parametrize("seed", range(60))
def test_closure_matches_search(seed: int) -> None:
    x, y, cost, discount = random_problem(seed)
    problem = Problem(x, y, cost, discount)
    pairs = reachable_pairs(problem.unit)
    found = list(zip(pairs.x.tolist(), pairs.y.tolist(), strict=True))
    assert set(found) == search(problem)
    assert found == sorted(found)
    assert [int(pairs.index[p]) for p in found] == list(range(len(found)))
    assert (pairs.index >= 0).sum() == len(found)


def test_two_clocks_in_step_reach_only_the_diagonal() -> None:
    clock = MarkovChain(np.roll(np.eye(6), 1, axis=1))
    assert len(reachable_pairs(Problem(clock, clock, np.zeros((6, 6)), 0.9).unit)) == 6
    assert len(all_pairs(Problem(clock, clock, np.zeros((6, 6)), 0.9).unit)) == 36


def test_unknown_choice_is_refused() -> None:
    clock = MarkovChain(np.eye(2))
    with pytest.raises(ValueError, match="pairs: found 'some', expected 'reachable' or 'all'"):
        choose(Problem(clock, clock, np.zeros((2, 2)), 0.9).unit, "some")  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [1, 3, 10, 1000])
def test_slices_cover_everything_once(limit: int) -> None:
    work = np.random.default_rng(0).integers(1, 9, size=57)
    slices = cut(work, limit)
    assert [k for lo, hi in slices for k in range(lo, hi)] == list(range(57))
    assert all(work[lo:hi].sum() < limit + 9 for lo, hi in slices)


def test_threads_are_the_cores_that_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert thread_count(3) == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5}, raising=False)
    assert thread_count(None) == 2
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS and Windows
    for cores, wanted in ((7, 7), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert thread_count(None) == wanted


@pytest.mark.parametrize("threads", [1, 3])
def test_slices_run_in_other_threads_if_there_are_several(threads: int) -> None:
    def run(lo: int, hi: int) -> tuple[int, int, bool]:
        return lo, hi, threading.current_thread() is threading.main_thread()

    found = in_slices(run, [(0, 2), (2, 5), (5, 6)], threads)
    assert found == [(0, 2, threads == 1), (2, 5, threads == 1), (5, 6, threads == 1)]
