"""First and second derivatives against finite differences of the value, and the value against the solver."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import linprog

import somcot
from somcot import MarkovChain, Problem
from somcot.gradients import Inputs, WarmStart, solve_arrays, value_and_gradient
from tests.gradients_instances import Arrays, random_arrays, random_direction
from tests.instances import Floats, dense_kernel, random_chain

H = 1e-6


def moved(arrays: Arrays, which: int, step: Floats) -> Arrays:
    parts = list(arrays)
    parts[which] = parts[which] + step
    return (parts[0], parts[1], parts[2], parts[3], parts[4], parts[5])


def slope(function: Callable[[Arrays], Floats], arrays: Arrays, which: int, step: Floats) -> Floats:
    up, down = (function(moved(arrays, which, sign * H * step)) for sign in (1.0, -1.0))
    return np.asarray((up - down) / (2.0 * H))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_first_derivatives_match_finite_differences(seed: int, sparse: bool) -> None:
    arrays, rng = random_arrays(seed, (3,), 5, 4, sparse), np.random.default_rng(seed)
    found = solve_arrays(arrays).gradient
    for which in range(6):
        step = random_direction(rng, arrays, which)
        exact = (found[which] * step).reshape(3, -1).sum(axis=1)
        numeric = slope(lambda a: solve_arrays(a).value, arrays, which, step)
        np.testing.assert_allclose(exact, numeric, atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_derivatives_of_tables_take_any_weights(sparse: bool) -> None:
    arrays, rng = random_arrays(5, (2,), 4, 5, sparse), np.random.default_rng(5)
    weight = rng.normal(size=(2, 4, 5))
    found = solve_arrays(arrays).metric_gradient(weight)
    for which in range(4):
        step = random_direction(rng, arrays, which)
        exact = (found[which] * step).reshape(2, -1).sum(axis=1)
        numeric = slope(lambda a: (weight * solve_arrays(a).metric).sum(axis=(1, 2)), arrays, which, step)
        np.testing.assert_allclose(exact, numeric, atol=1e-6)
    assert not found.initial_x.any()


@pytest.mark.parametrize("seed", range(6))
def test_second_derivatives_match_differences_of_the_first(seed: int) -> None:
    arrays, rng = random_arrays(seed, (2,), 4, 3), np.random.default_rng(seed)
    solution = solve_arrays(arrays)
    assert solution.is_smooth()
    steps = Inputs(*(0.1 * random_direction(rng, arrays, k) for k in range(6)))._replace(discount=np.zeros(2))
    found = solution.second(steps)
    ends = [
        solve_arrays(tuple(a + sign * H * s for a, s in zip(arrays, steps, strict=True))).gradient
        for sign in (1.0, -1.0)
    ]
    for which in (0, 1, 2, 4, 5):
        np.testing.assert_allclose(found[which], (ends[0][which] - ends[1][which]) / (2 * H), atol=1e-6)
    assert max(np.abs(found.P_x).max(), np.abs(found.cost).max()) > 1e-3


def test_ties_are_told_and_do_not_matter_through_features() -> None:
    """A cost of abs(r - s) has ties; the derivative in r is right all the same, the one in free entries is not."""
    rng = np.random.default_rng(0)
    P, Q, _, discount, p, q = random_arrays(0, (), 6, 6)
    r, s = rng.normal(size=6), rng.normal(size=6) + 1.5

    def at(r: Floats, extra: Floats | float = 0.0) -> Arrays:
        return P, Q, np.abs(r[:, None] - s[None, :]) + extra, discount, p, q

    found = solve_arrays(at(r))
    assert not found.is_smooth()
    step = rng.normal(size=6)
    through = float((found.gradient.cost * np.sign(r[:, None] - s[None, :]) * step[:, None]).sum())
    up, down = (float(solve_arrays(at(r + sign * H * step)).value) for sign in (1.0, -1.0))
    assert through == pytest.approx((up - down) / (2 * H), abs=1e-6)
    free = rng.normal(size=(6, 6))
    up, down = (float(solve_arrays(at(r, sign * H * free)).value) for sign in (1.0, -1.0))
    below, above = (up - float(found.value)) / H, (float(found.value) - down) / H
    assert below < above - 1e-3  # a kink: the distance is concave in the cost
    assert below - 1e-6 <= float((found.gradient.cost * free).sum()) <= above + 1e-6
    chains = MarkovChain(P, p), MarkovChain(Q, q)
    tied = somcot.distance(*chains, at(r)[2], discount=float(discount)).gradient
    apart = somcot.distance(*chains, at(r)[2] + rng.random((6, 6)), discount=float(discount)).gradient
    assert tied is not None
    assert apart is not None
    assert tied.margin.cost < 1e-12 < 1e-6 < apart.margin.cost
    assert tied.margin.mass > 1e-6


def test_uniform_starts_do_harm_only_where_they_move() -> None:
    P, Q, cost, discount, _, _ = random_arrays(2, (), 4, 4)
    u = np.full(4, 0.25)
    found = solve_arrays((P, Q, cost, discount, u, u))
    assert not found.is_smooth()
    assert found.is_smooth(starts=False)


def test_no_slope_at_the_bottom() -> None:
    P, _, _, discount, p, _ = random_arrays(1, (), 4, 4)
    cost = 1.0 + np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    found = solve_arrays((P, P, cost, discount, p, p))
    assert float(found.value) == pytest.approx(1.0, abs=1e-14)
    for part in ("P_x", "P_y", "discount", "initial_x", "initial_y"):
        assert not np.any(getattr(found.gradient, part))
    assert found.gradient.cost.sum() == pytest.approx(1.0)


def margins(x: MarkovChain, y: MarkovChain, cost: Floats, discount: float) -> tuple[float, float]:
    """By linear programs, from the start on: the least mass of a visited plan and the least slack of its duals."""
    V = somcot.metric(x, y, cost, discount=discount) / (1.0 - discount)
    (n, m), P, Q, masses, slacks = V.shape, dense_kernel(x), dense_kernel(y), [], []
    sums = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    seen, left = set[int](), [(x.initial, y.initial)]
    while left:
        plan = linprog(V.ravel(), A_eq=sums, b_eq=np.concatenate(left.pop()), method="highs")
        basic = plan.x > 1e-12
        assert basic.sum() == n + m - 1  # so that its duals are unique
        masses.append(plan.x[basic].min())
        slacks.append((V.ravel() - sums.T @ plan.eqlin.marginals)[~basic].min())
        left += [(P[k // m], Q[k % m]) for k in np.flatnonzero(basic).tolist() if k not in seen]
        seen.update(np.flatnonzero(basic).tolist())
    return float(min(masses)), float(min(slacks))


@pytest.mark.parametrize("seed", range(4))
def test_margins_are_those_of_linear_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (MarkovChain(rng.dirichlet(np.ones(n), n), rng.dirichlet(np.ones(n))) for n in (3, 4))
    cost = 5.0 * rng.random((3, 4))
    found = value_and_gradient(Problem(x, y, cost, 0.8))[1].margin
    mass, slack = margins(x, y, cost, 0.8)
    assert found.mass == pytest.approx(mass, abs=1e-11)
    assert found.cost == pytest.approx(slack, abs=1e-8)


def test_margins_of_ties_and_of_plans_without_a_choice() -> None:
    """Halves against halves leave an arc without mass, which is exactly 0; a single successor leaves no other plan."""
    half, cost = MarkovChain(np.full((2, 2), 0.5), [0.25, 0.75]), np.array([[0.0, 1.0], [2.0, 0.25]])
    assert value_and_gradient(Problem(half, half, cost, 0.5))[1].margin.mass == 0.0
    turn = MarkovChain(np.eye(2)[::-1], 0)
    alone = value_and_gradient(Problem(turn, half, cost[:, :2], 0.5))[1].margin
    assert alone.cost == np.inf
    assert alone.mass == pytest.approx(0.25, abs=1e-15)


@pytest.mark.parametrize("kind", ["dense", "sparse", "uniform", "absorbing"])
def test_problems_of_chains_give_what_the_result_says(kind: str) -> None:
    rng = np.random.default_rng(11)
    for _ in range(4):
        n_x, n_y = (int(n) for n in rng.integers(2, 7, size=2))
        x, y = random_chain(rng, n_x, kind), random_chain(rng, n_y, kind)
        problem = Problem(x, y, rng.random((n_x, n_y)), float(rng.uniform(0.5, 0.97)))
        value, found = value_and_gradient(problem)
        result = somcot.distance(x, y, problem.cost, discount=problem.discount, pairs="all")
        assert value == pytest.approx(result.distance, abs=1e-13)
        expected = result.gradient
        assert expected is not None
        np.testing.assert_allclose(found.initial, expected.initial, atol=1e-12)
        if min(expected.margin) > 1e-9:
            np.testing.assert_allclose(found.transition_x, expected.transition_x, atol=1e-11)
            np.testing.assert_allclose(found.cost, expected.cost, atol=1e-12)
            assert found.discount == pytest.approx(expected.discount, abs=1e-10)
            np.testing.assert_allclose(found.margin, expected.margin, atol=1e-10)


def test_discount_of_a_result_matches_finite_differences() -> None:
    x, y = somcot.random_walk(6), somcot.random_walk(6, 0.7)
    cost = somcot.costs.absolute(np.arange(6.0) ** 2, np.arange(6.0) ** 2)
    found = somcot.distance(x, y, cost, discount=0.9).gradient
    up, down = (somcot.distance(x, y, cost, discount=0.9 + h).distance for h in (H, -H))
    assert found is not None
    assert found.discount == pytest.approx((up - down) / (2 * H), rel=1e-7)
    assert "discount" in repr(found)


def test_a_batch_is_its_problems_one_by_one() -> None:
    arrays = random_arrays(7, (3, 2), 4, 5)
    together = solve_arrays(arrays, threads=2)
    assert together.value.shape == (3, 2)
    for place in np.ndindex(3, 2):
        alone = solve_arrays(tuple(a[place] for a in arrays))
        assert float(alone.value) == pytest.approx(float(together.value[place]), abs=1e-14)
        for part, whole in zip(alone.gradient, together.gradient, strict=True):
            np.testing.assert_allclose(part, whole[place], atol=1e-12)


def test_equal_bits_whatever_the_threads() -> None:
    arrays = random_arrays(8, (9,), 6, 6)
    one, two = (solve_arrays(arrays, threads=threads) for threads in (1, 2))
    for a, b in zip((one.value, *one.gradient), (two.value, *two.gradient), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("step", [0.3, 0.01])
def test_warm_starts_end_where_cold_ones_do(step: float) -> None:
    warm, rng = WarmStart(), np.random.default_rng(4)
    arrays = random_arrays(4, (2,), 9, 7)
    used, before = 0, None
    for _ in range(6):
        a, b = solve_arrays(arrays, warm), solve_arrays(arrays)
        np.testing.assert_allclose(a.value, b.value, atol=1e-13)
        for found, expected in zip(a.gradient, b.gradient, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-10)
        if before is not None:
            sweep = a.solved.stack.sweep(1)
            sweep.resume(before.stack.table(before.V), before.sweep)
            used += int(sweep.improve(before.stack.table(before.V)).changed == 0)
        before = a.solved
        pushed = [arrays[k] * np.exp(step * rng.normal(size=arrays[k].shape)) for k in (0, 1)]
        P, Q = (rows / rows.sum(axis=-1, keepdims=True) for rows in pushed)
        arrays = (P, Q, arrays[2] + step * rng.normal(size=arrays[2].shape), *arrays[3:])
    assert used == 5  # mended bases were optimal for the old potential: nothing was left to do against it


def test_warm_starts_survive_other_supports_and_refuse_other_problems() -> None:
    warm = WarmStart()
    dense, sparse = random_arrays(2, (), 6, 6), random_arrays(2, (), 6, 6, sparse=True)
    for arrays in (dense, sparse, dense):
        assert float(solve_arrays(arrays, warm).value) == pytest.approx(float(solve_arrays(arrays).value), abs=1e-13)
    with pytest.raises(ValueError, match=r"warm: holds a problem of 6 x 6 states, this one has 4 x 3"):
        solve_arrays(random_arrays(0), warm)
    assert repr(warm) == "WarmStart(1 problem of 6 x 6 states)"
    warm.clear()
    solve_arrays(random_arrays(0), warm)
    with pytest.raises(TypeError, match="warm: found str, expected a WarmStart"):
        solve_arrays(dense, "yes")  # type: ignore[arg-type]


def test_ties_and_warm_starts() -> None:
    """Uniform rows and integer costs: every basis is as degenerate as can be."""
    warm, rng = WarmStart(), np.random.default_rng(0)
    u = np.full(6, 1 / 6)
    for _ in range(8):
        P, Q = (rng.integers(1, 3, size=(6, 6)).astype(float) for _ in range(2))
        P, Q = P / P.sum(axis=1, keepdims=True), Q / Q.sum(axis=1, keepdims=True)
        cost = rng.integers(0, 3, size=(6, 6)).astype(float)
        arrays = (P, Q, cost, np.asarray(0.9), u, u)
        assert float(solve_arrays(arrays, warm).value) == pytest.approx(float(solve_arrays(arrays).value), abs=1e-12)


def bad(which: int, value: object) -> tuple[object, ...]:
    parts: list[object] = list(random_arrays(0))
    parts[which] = value
    return tuple(parts)


BAD = [
    (0, np.full((4, 4), 0.3), "P_x: row 0 sums to 1.2, expected 1 (4 such rows)"),
    (1, [[1.5, -0.5, 0.0]] * 3, "P_y: row 0 has an entry of -0.5, expected at least 0"),
    (0, np.full((4, 4), np.nan), "P_x: entry (0, 0) is nan"),
    (0, np.eye(4)[:3], "P_x: a kernel of shape (3, 4), expected as many rows as columns"),
    (2, np.ones((3, 4)), "cost: shape is (3, 4), expected (4, 3) for kernels of 4 and 3 states"),
    (2, np.full((4, 3), np.inf), "cost: entry (0, 0) is inf"),
    (3, 1.0, "discount: found 1.0, expected numbers strictly between 0 and 1"),
    (4, np.ones(4), "initial_x: the distribution sums to 4, expected 1"),
    (5, 1.0, "initial_y: shape is (), expected 1 dimensions"),
]


@pytest.mark.parametrize(("which", "value", "message"), BAD)
def test_bad_arrays_are_named(which: int, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        solve_arrays(bad(which, np.asarray(value)))  # type: ignore[arg-type]


def test_batches_that_do_not_fit() -> None:
    P, Q, cost, discount, p, q = random_arrays(0, (2,))
    with pytest.raises(ValueError, match=r"leading axes do not fit together: \(3,\) of P_x, \(2,\) of P_y"):
        solve_arrays((np.stack([P[0]] * 3), Q, cost, discount, p, q))
    with pytest.raises(ValueError, match="empty batch"):
        solve_arrays((P[:0], Q[0], cost[0], discount[0], p[0], q[0]))
    P[1, 1] *= 2.0
    with pytest.raises(ValueError, match="P_x: row 1 of problem 1 sums to 2"):
        solve_arrays((P, Q, cost, discount, p, q))
    with pytest.raises(TypeError, match="problem: found str, expected a Problem"):
        value_and_gradient("walks")  # type: ignore[arg-type]
