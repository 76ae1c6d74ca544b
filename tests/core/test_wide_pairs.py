"""Wide supports: every start ends at the same optimum, and what a start is made of is what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import ot
import pytest

from somcot import Problem
from somcot.core.pairs import all_pairs
from somcot.core.sweep import Sweep
from somcot.core.transport import wide_pairs as starts
from somcot.core.transport.initial_basis import crash_basis, entropic_prices, new_crash
from somcot.core.transport.wide_simplex import LANES
from tests.core.test_transport import law, oracle, transport
from tests.instances import Floats, dense_kernel, random_chain


def problem(n: int, m: int, seed: int, ties: bool = False) -> Problem:
    rng = np.random.default_rng(seed)
    cost = rng.integers(0, 4, size=(n, m)) / 3.0 if ties else rng.random((n, m))
    return Problem(random_chain(rng, n, "dense"), random_chain(rng, m, "dense"), cost, 0.9)


@pytest.mark.parametrize(("n", "m"), [(8, 8), (8, 31), (45, 9), (33, 34), (100, 60)])
@pytest.mark.parametrize("kind", range(4))
def test_values_are_those_of_a_network_simplex(n: int, m: int, kind: int) -> None:
    rng = np.random.default_rng(n + 7 * kind)
    for ties in (False, True):
        p, q = law(rng, n, kind), law(rng, m, (kind + 1) % 4)
        cost = rng.integers(-2, 3, size=(n, m)).astype(float) if ties else rng.normal(size=(n, m))
        found, plan = transport(p, q, cost)
        best = oracle(p, q, cost)
        assert found.low[-1] - 1e-12 <= best <= found.high[-1] + 1e-12
        assert found.high[-1] - found.low[-1] <= 1e-12
        np.testing.assert_allclose(plan.sum(axis=1), p, atol=1e-14)
        np.testing.assert_allclose(plan.sum(axis=0), q, atol=1e-14)
        assert (plan * cost).sum() == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("spread", [1e-9, 1e-3, 1e39])
@pytest.mark.parametrize("n", [9, 33])
def test_costs_that_float32_cannot_tell_apart_or_hold(n: int, spread: float) -> None:
    """Rough looks find nothing there; the looks at the costs themselves have to."""
    rng = np.random.default_rng(n)
    p, q, cost = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n + 3)), rng.random((n, n + 3))
    cost[0, 0] = 1000.0  # the range
    found, _ = transport(p, q, spread * cost)
    best = oracle(p, q, cost)
    assert found.low[-1] <= spread * best * (1.0 + 1e-12)
    assert spread * best * (1.0 - 1e-12) <= found.high[-1]
    assert found.high[-1] - found.low[-1] <= 1e-9 * spread


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("start", starts.STARTS)
def test_every_start_ends_at_the_optimum(start: str, ties: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    task = problem(20, 17, 5, ties)
    P, Q = dense_kernel(task.x), dense_kernel(task.y)
    monkeypatch.setattr(starts.WidePairs, "choose_start", lambda *_: starts.STARTS[start])
    sweep = Sweep(task.unit, all_pairs(task.unit), threads=1)
    for V in (task.unit_cost, task.unit_cost + np.random.default_rng(1).random((20, 17))):
        found = sweep.improve(np.ascontiguousarray(V))
        expected = [ot.emd2(P[x], Q[y], np.ascontiguousarray(V)) for x in range(20) for y in range(17)]
        np.testing.assert_allclose(found.value[:-1], expected, atol=1e-13)
        assert (found.low <= found.value).all()
        assert (found.value <= found.high).all()


def test_the_start_with_the_least_work_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs without structure call for entropic prices, and once solved nothing beats the last bases."""
    task = problem(40, 40, 0)
    chosen: list[Any] = []
    choose = starts.WidePairs.choose_start

    def watched(pairs: starts.WidePairs, V: Floats) -> Any:
        chosen.append(choose(pairs, V))
        return chosen[-1]

    monkeypatch.setattr(starts.WidePairs, "choose_start", watched)
    sweep = Sweep(task.unit, all_pairs(task.unit), threads=1)
    V = np.ascontiguousarray(task.unit_cost)
    sweep.improve(V)
    assert sweep.improve(V).changed == 0
    assert chosen == [starts.STARTS["entropic"], starts.STARTS["last"]]


def test_probes_leave_the_plans_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    task = problem(40, 40, 2)
    sweep = Sweep(task.unit, all_pairs(task.unit), threads=1)
    V = np.ascontiguousarray(task.unit_cost)
    solved: list[starts.WidePairs] = []
    choose = starts.WidePairs.choose_start

    def watched(pairs: starts.WidePairs, V: Floats) -> Any:
        solved.append(pairs)
        return choose(pairs, V)

    monkeypatch.setattr(starts.WidePairs, "choose_start", watched)
    sweep.improve(V)
    before, start = sweep.kernel()
    choose(solved[0], V[::-1].copy())
    after, again = sweep.kernel()
    for was, now in zip((*before, start), (*after, again), strict=True):
        np.testing.assert_array_equal(was, now)
    assert sweep.improve(V).changed == 0


def prices_and_problem(n: int, m: int) -> tuple[Floats, Floats, Floats, Floats]:
    """A problem with exact prices of its columns."""
    rng = np.random.default_rng(n * m)
    p, q, cost = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m)), rng.random((n, m))
    _, log = ot.emd(p, q, cost, log=True)
    return p, q, cost, np.asarray(log["v"])


@pytest.mark.parametrize(("n", "m"), [(8, 8), (30, 21), (64, 65)])
@pytest.mark.parametrize("exact", [True, False])
def test_peeling_gives_a_basis_and_with_exact_prices_the_best(n: int, m: int, exact: bool) -> None:
    p, q, cost, prices = prices_and_problem(n, m)
    unit = 1 << 10
    a, b = (np.floor(x * 2**40).astype(np.int64) for x in (p, q))
    b[0] += a.sum() - b.sum()
    cells, flows = np.empty(n + m - 1, np.int32), np.empty(n + m - 1, np.int64)
    T = np.zeros((m, -(-n // LANES) * LANES), np.float32)
    T[:, :n] = cost.T
    crash_basis(
        cost,
        np.append(cost.ravel(), np.zeros(LANES)),
        T,
        a,
        b,
        unit,
        prices if exact else np.zeros(m),
        cells,
        flows,
        new_crash(n + m),
    )
    assert len(set(cells.tolist())) == n + m - 1
    assert flows.min() > 0
    plan = np.zeros((n, m), np.int64)
    plan.flat[cells] = flows
    perturbed = unit * b
    perturbed[-1] += n
    assert plan.sum(axis=1).tolist() == (unit * a + 1).tolist()
    assert plan.sum(axis=0).tolist() == perturbed.tolist()
    if exact:
        assert (plan * cost).sum() / plan.sum() == pytest.approx(float(ot.emd2(p, q, cost)), abs=1e-9)


def test_entropic_prices_are_nearly_those_of_the_optimum() -> None:
    """The dual value at these prices is within a few eps of the optimum; with no prices it is far away."""
    rng = np.random.default_rng(0)
    V, p, q = rng.random((30, 25)), rng.dirichlet(np.ones(30), 4), rng.dirichlet(np.ones(25), 4)
    prices = entropic_prices(V, p.astype(np.float32), q.astype(np.float32)).astype(float)
    for k in range(4):
        best = float(ot.emd2(p[k], q[k], V))
        dual = {name: p[k] @ (V - v).min(axis=1) + q[k] @ v for name, v in (("own", prices[k]), ("none", np.zeros(25)))}
        assert best - 0.01 < dual["own"] <= best + 1e-12
        assert dual["none"] < best - 0.03


def test_constant_costs_have_prices() -> None:
    p = np.full((2, 9), 1 / 9, np.float32)
    assert np.isfinite(entropic_prices(np.ones((9, 9)), p, p)).all()
