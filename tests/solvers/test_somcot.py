"""SOMCOT's two kernels against Algorithm 2 as printed, and what a run promises."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from somcot import MarkovChain, MemoryLimitError, Status, costs, random_walk, streams
from somcot.plumbing.notes import Note
from somcot.result import Result
from somcot.solvers import somcot
from somcot.solvers.somcot import algorithm
from somcot.solvers.somcot.averages import averages, snapshot
from somcot.solvers.somcot.state import State, grow
from somcot.solvers.somcot.updates import Edges
from somcot.steps import Steps, explicit
from tests.instances import random_chain, reward, walks
from tests.notes import notes_in

# Most runs here are a few hundred steps of Algorithm 2: far from converged, and they say so.
pytestmark = pytest.mark.filterwarnings("ignore:the run has not converged")

SETTINGS = [
    # n_x, n_y, discount, eta, beta, decay, batch, steps
    (3, 4, 0.9, 0.1, 0.5, 0.001, 1, 300),
    (4, 6, 0.95, 1.0, 0.1, 0.0, 8, 200),
    (5, 5, 0.99, 40.0, 0.2, 0.0, 1, 60),
    (2, 7, 0.5, 3.0, 0.05, 0.1, 3, 200),
    (1, 3, 0.9, 1.0, 0.3, 0.0, 1, 100),
    (4, 4, 0.9, 0.5, 30.0, 0.0, 1, 60),  # the projections are at work
]


def pair(n_x: int, n_y: int) -> tuple[MarkovChain, MarkovChain, Any]:
    def prize(n: int) -> Any:
        return reward(n) if n > 1 else np.ones(1)

    return random_walk(n_x), random_walk(n_y, 0.7), costs.absolute(prize(n_x), prize(n_y))


def fed(x: MarkovChain, y: MarkovChain, discount: float, n: int, seed: int = 0) -> tuple[Any, Any]:
    return streams.from_chain(x, discount, seed).draw(n), streams.from_chain(y, discount, seed + 1).draw(n)


def told(x: MarkovChain, y: MarkovChain, cost: Any, discount: float, rates: Steps) -> algorithm.Given:
    top = float(np.abs(cost).max())
    return algorithm.Given(cost, np.outer(x.initial, y.initial), discount, rates, top)


def masks(support: str, x: MarkovChain, y: MarkovChain) -> tuple[dict[str, Any], Any]:
    if support == "full":
        return {}, None
    a, b = x.transition > 0, y.transition > 0
    return {"transitions_x": a, "transitions_y": b}, a[:, None, :, None] & b[None, :, None, :]


def fresh(cost: Any, **options: Any) -> Any:
    return somcot.init(cost, **({"discount": 0.9, "n_steps": 100} | options))


@pytest.mark.parametrize("support", ["full", "observed"])
@pytest.mark.parametrize("case", SETTINGS, ids=str)
def test_averages_are_those_of_the_printed_algorithm(case: Any, support: str) -> None:
    n_x, n_y, discount, eta, beta, decay, batch, n_steps = case
    x, y, cost = pair(n_x, n_y)
    xs, ys = fed(x, y, discount, n_steps * batch)
    edges, mask = masks(support, x, y)
    problem = told(x, y, cost, discount, explicit(eta, beta, decay))
    iterates = list(algorithm.iterates(xs, ys, problem, batch, mask))
    state = somcot.init(
        cost, discount=discount, n_steps=n_steps, primal_step=eta, dual_step=beta, decay=decay, batch_size=batch,
        average=1.0, support=support, keep_coupling=True, **edges,
    )  # fmt: skip
    result = somcot.finish(somcot.advance(state, xs, ys))
    used, last = iterates[:-1], iterates[-1]
    mu = np.mean([z.mu for z in used], axis=0)
    np.testing.assert_allclose(result.coupling(), mu, atol=1e-9)
    np.testing.assert_allclose(result.distance, (mu.sum(axis=(2, 3)) * cost).sum(), atol=1e-9)
    np.testing.assert_allclose(result.encoder, np.mean([z.lambda_x for z in used], axis=0), atol=1e-9)
    np.testing.assert_allclose(result.decoder, np.mean([z.lambda_y for z in used], axis=0), atol=1e-9)
    np.testing.assert_allclose(result.state_law, mu.sum(axis=(2, 3)), atol=1e-9)
    V = state.pairs.V.reshape(n_x, n_y) * (np.ptp(cost) or 1.0)
    np.testing.assert_allclose(V, last.V, atol=1e-7)
    mean = averages(state)
    np.testing.assert_allclose(mean.next_law, mu.sum(axis=(0, 1)), atol=1e-9)
    if support == "full":
        np.testing.assert_allclose(mean.marginal_x.reshape(n_x, n_y, n_x), mu.sum(axis=3), atol=1e-9)
        np.testing.assert_allclose(mean.marginal_y.reshape(n_x, n_y, n_y), mu.sum(axis=2), atol=1e-9)
    if support == "full" and decay == 0 and result.duals is not None:
        np.testing.assert_allclose(result.duals.alpha_x, np.mean([z.alpha_x for z in used], axis=0), atol=1e-7)
        np.testing.assert_allclose(result.duals.alpha_y, np.mean([z.alpha_y for z in used], axis=0), atol=1e-7)
        np.testing.assert_allclose(result.duals.V, np.mean([z.V for z in used], axis=0), atol=1e-7)


def test_six_separate_rates_reach_their_variables() -> None:
    x, y, cost = pair(3, 4)
    xs, ys = fed(x, y, 0.9, 100)
    rates = Steps(0.9, 0.4, 0.7, 0.1, 0.2, 0.3)
    state = somcot.init(cost, discount=0.9, n_steps=100, primal_step=(0.9, 0.4, 0.7), dual_step=[0.1, 0.2, 0.3])
    somcot.advance(state, xs, ys)
    z = list(algorithm.iterates(xs, ys, told(x, y, cost, 0.9, rates)))[-1]
    np.testing.assert_allclose(2 * state.x.alpha.reshape(3, 4, 3), z.alpha_x.transpose(0, 2, 1), atol=1e-9)
    np.testing.assert_allclose(2 * state.y.alpha.reshape(3, 4, 4), z.alpha_y, atol=1e-9)
    np.testing.assert_allclose(2 * state.pairs.V.reshape(3, 4), z.V, atol=1e-9)
    np.testing.assert_allclose(state.x.lambda_, z.lambda_x, atol=1e-9)
    np.testing.assert_allclose(state.y.lambda_, z.lambda_y, atol=1e-9)


@pytest.mark.parametrize("share", [0.5, 0.3, 1.0])
def test_average_takes_the_last_share(share: float) -> None:
    x, y, cost = pair(3, 3)
    xs, ys = fed(x, y, 0.9, 200)
    iterates = list(algorithm.iterates(xs, ys, told(x, y, cost, 0.9, explicit(1.0, 0.1))))
    used = iterates[200 - int(np.ceil(share * 200)) : 200]
    state = somcot.init(cost, discount=0.9, n_steps=200, primal_step=1.0, dual_step=0.1, average=share)
    result = somcot.finish(somcot.advance(state, xs, ys))
    assert result.distance == pytest.approx(np.mean([(z.mu.sum(axis=(2, 3)) * cost).sum() for z in used]), abs=1e-9)
    np.testing.assert_allclose(result.encoder, np.mean([z.lambda_x for z in used], axis=0), atol=1e-9)


@pytest.mark.parametrize(
    ("support", "n", "n_steps"),
    [
        ("full", 5, 10_000),
        ("observed", 5, 2_000),
        ("full", 8, 2_000),
        pytest.param("observed", 5, 10_000, marks=pytest.mark.slow),
    ],
)
def test_follower_along_thousands_of_steps_at_large_rates(support: str, n: int, n_steps: int) -> None:
    """A full log-mu tensor driven by the kernel's duals: each update of the kernel must be the one it implies.

    The iteration is chaotic, so whole trajectories cannot be compared; cutting the feedback makes each step exact.
    """
    discount, eta, beta = 0.99, 40.0, 0.2
    x, y, cost = walks(n, 0.7)
    cost = cost / 2  # range 1: the kernel's units are the user's
    xs, ys = fed(x, y, discount, n_steps)
    edges, mask = masks(support, x, y)
    state = somcot.init(
        cost, discount=discount, n_steps=n_steps, primal_step=eta, dual_step=beta, support=support, **edges
    )
    log_mu = algorithm.first(n, n, mask).log_mu
    start, radius, worst = np.outer(x.initial, y.initial), 600.0, 0.0
    for k in range(n_steps):
        alpha_x, alpha_y, V = dense_duals(state, n)
        lambda_x, lambda_y = state.x.lambda_.copy(), state.y.lambda_.copy()
        mu = np.exp(log_mu)
        (a, b), (c, d) = (int(v[k]) for v in xs), (int(v[k]) for v in ys)
        wanted_x, wanted_y = alpha_x - beta * mu.sum(axis=3), alpha_y - beta * mu.sum(axis=2)
        wanted_x[a, :, b] += beta * lambda_x[a]
        wanted_y[:, c, d] += beta * lambda_y[c]
        wanted_V = V - beta * (mu.sum(axis=(2, 3)) - 0.01 * start - discount * mu.sum(axis=(0, 1)))
        log_mu = log_mu - eta * (
            (cost - V)[:, :, None, None] - alpha_x[..., None] - alpha_y[:, :, None, :] + discount * V
        )
        log_mu -= log_mu.max()
        log_mu -= np.log(np.exp(log_mu).sum())
        state = somcot.advance(state, (xs[0][k : k + 1], xs[1][k : k + 1]), (ys[0][k : k + 1], ys[1][k : k + 1]))
        got_x, got_y, got_V = dense_duals(state, n)
        keep_x, keep_y = (True, True) if mask is None else (mask.any(axis=3), mask.any(axis=2))
        worst = max(
            worst,
            float(np.abs((got_x - np.clip(wanted_x, -radius, radius)) * keep_x).max()),
            float(np.abs((got_y - np.clip(wanted_y, -radius, radius)) * keep_y).max()),
            float(np.abs(got_V - wanted_V).max()),
        )
    assert worst < 5e-8


def dense_duals(state: State, n: int) -> tuple[Any, Any, Any]:
    """alpha_X(x, y, x'), alpha_Y(x, y, y') and V of a state, zero outside the support."""
    rows, own = np.arange(n * n), np.arange(n)
    result = []
    for side, edges, owner in ((state.x, state.edges_x, rows // n), (state.y, state.edges_y, rows % n)):
        full = np.zeros((n * n, n))
        degree = edges.degrees[owner]
        row = np.repeat(rows, degree)
        target = np.concatenate([edges.target[edges.first[s] : edges.first[s + 1]] for s in own[owner]])
        full[row, target] = side.alpha
        result.append(full.reshape(n, n, n))
    return result[0], result[1], state.pairs.V.reshape(n, n).copy()


@pytest.mark.parametrize("support", ["full", "observed"])
def test_random_starts_are_one_extra_state(support: str) -> None:
    """At discount 1/2 and two equally likely starts, the weights are those of a batch of four."""
    x = MarkovChain(random_walk(3).transition, [0.5, 0.5, 0.0])
    y = MarkovChain(random_walk(3, 0.7).transition, [0.0, 0.5, 0.5])
    cost, n_steps, n = costs.absolute(reward(3), reward(3)), 80, 3
    xs, ys = fed(x, y, 0.5, n_steps)
    larger_cost = np.full((4, 4), 2.0)
    larger_cost[:3, :3], larger_cost[3, 3] = cost, 0.0
    many = []
    for states, following, starts in ((*xs, (0, 1)), (*ys, (1, 2))):
        k = np.arange(n_steps)
        now = np.stack([states, states, np.full_like(k, n), np.full_like(k, n)], axis=1).ravel()
        then = np.stack([following, following, np.full_like(k, starts[0]), np.full_like(k, starts[1])], axis=1).ravel()
        many.append((now, then))
    start = np.zeros((4, 4))
    start[3, 3] = 1.0
    mask, edges = None, dict[str, Any]()
    if support == "observed":
        edges = {"transitions_x": x.transition > 0, "transitions_y": y.transition > 0}
        a, b = np.zeros((4, 4), dtype=bool), np.zeros((4, 4), dtype=bool)
        a[:3, :3], b[:3, :3], a[3, :3], b[3, :3] = x.transition > 0, y.transition > 0, x.initial > 0, y.initial > 0
        mask = a[:, None, :, None] & b[None, :, None, :]
    problem = algorithm.Given(larger_cost, start, 0.5, explicit(1.0, 0.2), float(np.abs(larger_cost).max()))
    iterates = list(algorithm.iterates(many[0], many[1], problem, 4, mask))
    state = somcot.init(
        cost, discount=0.5, n_steps=n_steps, primal_step=1.0, dual_step=0.2, average=1.0, support=support,
        initial_x=x.initial, initial_y=y.initial, **edges,
    )  # fmt: skip
    result = somcot.finish(somcot.advance(state, xs, ys))
    law = np.mean([z.mu.sum(axis=(2, 3)) for z in iterates[:-1]], axis=0)
    np.testing.assert_allclose(averages(state).state_law, law, atol=1e-9)
    assert result.distance == pytest.approx((law[:3, :3] * cost).sum() / law[:3, :3].sum(), abs=1e-9)
    assert result.encoder.shape == result.state_law.shape == result.potential.shape == (3, 3)
    np.testing.assert_allclose(result.encoder.sum(axis=1), 1.0)


def test_a_chain_with_random_start_is_near_itself() -> None:
    chain = MarkovChain(random_walk(4, 0.6).transition, [0.4, 0.1, 0.2, 0.3])
    cost = costs.absolute(reward(4), reward(4))
    product = ((chain.initial[:, None] * chain.initial) * cost).sum()
    result = somcot.solve(chain, chain, cost, discount=0.8, n_steps=30_000, rng=0)
    assert result.distance < 0.04 < 0.1 * product


@pytest.mark.parametrize("support", ["full", "observed"])
@pytest.mark.parametrize("eta", [0.5, 40.0])
def test_cutting_a_run_into_pieces_changes_no_bit(support: str, eta: float) -> None:
    x, y, cost = walks(4, 0.7)
    xs, ys = fed(x, y, 0.95, 600)

    def run(cuts: list[int]) -> Any:
        state = fresh(cost, discount=0.95, n_steps=300, primal_step=eta, dual_step=0.2, batch_size=2, support=support)
        for a, b in zip([0, *cuts], [*cuts, 600], strict=True):
            state.pace = 1 + a % 7
            state = somcot.advance(state, (xs[0][a:b], xs[1][a:b]), (ys[0][a:b], ys[1][a:b]))
        return state

    whole, pieces = run([]), run([2, 4, 100, 250, 594])
    for one, other in zip(snapshot(whole), snapshot(pieces), strict=True):
        np.testing.assert_array_equal(one, other)
    assert whole.trace == pieces.trace


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from(["dense", "peaked", "sparse", "uniform", "permutation", "absorbing"]),
    st.floats(-3, 3),
    st.floats(-3, 2),
    st.sampled_from([1e-300, 1e-5, 1.0, 1e7, 1e300]),
    st.sampled_from(["full", "observed"]),
)
def test_no_nan_and_no_empty_row_whatever_the_rates(
    seed: int, kind: str, log_eta: float, log_beta: float, unit: float, support: str
) -> None:
    rng = np.random.default_rng(seed)
    n_x, n_y = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    x, y = random_chain(rng, n_x, kind), random_chain(rng, n_y, kind)
    cost = unit * rng.uniform(-1, 1, size=(n_x, n_y))
    rates: dict[str, Any] = {"primal_step": 10**log_eta, "dual_step": 10**log_beta}
    sizes: dict[str, Any] = {"discount": float(rng.uniform(0.3, 0.999)), "batch_size": int(rng.integers(1, 4))}
    result = somcot.solve(x, y, cost, n_steps=200, support=support, rng=seed, **rates, **sizes)
    check_valid(result, cost)


def check_valid(result: Result, cost: Any) -> None:
    """No NaN anywhere, rows sum to 1, the distance lies within the cost."""
    slack = 1e-9 * np.abs(cost).max()
    assert cost.min() - slack <= result.distance <= cost.max() + slack
    for law in (result.encoder, result.decoder):
        np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-9)
        assert law.min() >= 0
    assert result.state_law.sum() == pytest.approx(1.0)
    assert np.isfinite(result.potential).all()
    assert all(0 <= part <= 4 for part in result.residuals)
    assert all(np.isfinite(column).all() for column in result.trace.values())
    assert result.duals is not None
    assert all(np.isfinite(part).all() for part in result.duals)


@pytest.mark.parametrize("support", ["full", "observed"])
def test_shifting_and_scaling_the_cost_does_the_same_to_the_distance(support: str) -> None:
    x, y, cost = walks(4, 0.7)
    options: dict[str, Any] = {"discount": 0.9, "n_steps": 500, "rng": 3, "support": support}
    plain = somcot.solve(x, y, cost, **options).distance
    assert somcot.solve(x, y, 4.0 * cost - 8.0, **options).distance == pytest.approx(4.0 * plain - 8.0, abs=1e-12)


def test_explicit_rates_are_in_the_unit_of_the_cost() -> None:
    x, y, cost = walks(3, 0.7)
    one = somcot.solve(x, y, cost, discount=0.9, n_steps=200, primal_step=1.0, dual_step=0.1, rng=0)
    other = somcot.solve(x, y, 8 * cost, discount=0.9, n_steps=200, primal_step=1 / 8, dual_step=0.8, rng=0)
    different = somcot.solve(x, y, 8 * cost, discount=0.9, n_steps=200, primal_step=1.0, dual_step=0.1, rng=0)
    assert other.distance == pytest.approx(8 * one.distance, abs=1e-12)
    assert abs(different.distance - 8 * one.distance) > 1e-3


def test_potential_and_residuals_follow_their_definitions() -> None:
    x, y, cost = walks(4, 0.7)
    result = somcot.solve(x, y, cost, discount=0.9, n_steps=2000, keep_coupling=True, average=1.0, rng=0)
    assert (1 - 0.9) * result.potential[0, 0] == pytest.approx(result.distance)
    mu, nu_x, nu_y = result.coupling(), x.occupancy(0.9), y.occupancy(0.9)
    start = np.outer(x.initial, y.initial)
    flow = np.abs(mu.sum(axis=(2, 3)) - 0.9 * mu.sum(axis=(0, 1)) - 0.1 * start).sum()
    causal_x = np.abs(mu.sum(axis=3) - nu_x[:, None, :] * result.encoder[:, :, None]).sum()
    causal_y = np.abs(mu.sum(axis=2) - nu_y[None, :, :] * result.decoder.T[:, :, None]).sum()
    np.testing.assert_allclose(result.residuals, (flow, causal_x, causal_y), atol=1e-9)
    assert result.distance == pytest.approx((result.state_law * cost).sum())
    assert result.trace["step"][-1] == 2000
    assert result.trace["distance"][-1] == result.distance


def test_residuals_of_a_stream_are_against_what_was_seen() -> None:
    x, y, cost = walks(3, 0.7)
    xs, ys = fed(x, y, 0.9, 400)
    pairs_x, pairs_y = list(zip(*xs, strict=True)), list(zip(*ys, strict=True))
    result = somcot.solve(
        streams.from_iterable(pairs_x), streams.from_iterable(pairs_y), cost, discount=0.9, n_steps=400,
        keep_coupling=True, average=1.0,
    )  # fmt: skip
    seen = np.zeros((3, 3))
    np.add.at(seen, xs, 1 / 400)
    causal_x = np.abs(result.coupling().sum(axis=3) - seen[:, None, :] * result.encoder[:, :, None]).sum()
    assert result.residuals.causal_x == pytest.approx(causal_x, abs=1e-9)


def test_coupling_is_kept_only_on_request_and_within_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, cost = walks(4, 0.7)
    with pytest.raises(ValueError, match="keep_coupling=True"):
        somcot.solve(x, y, cost, discount=0.9, n_steps=10, rng=0).coupling()
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "18K")
    with pytest.raises(MemoryLimitError, match="full coupling of 4 x 4"):
        somcot.init(cost, discount=0.9, n_steps=10, keep_coupling=True, steps="paper")
    somcot.init(cost, discount=0.9, n_steps=10, steps="paper")
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "2K")
    with pytest.raises(MemoryLimitError, match="SOMCOT on 4 x 4 states"):
        somcot.init(cost, discount=0.9, n_steps=10, steps="paper")
    with pytest.raises(MemoryLimitError, match="transitions of 4 x 4 states"):
        somcot.solve(x, y, cost, discount=0.9, n_steps=10, keep_coupling=True, rng=0)


def test_growing_keeps_mu_on_the_old_entries_and_adds_the_new_ones() -> None:
    x, y, cost = walks(3, 0.7)
    xs, ys = fed(x, y, 0.9, 50)
    small = {"transitions_x": x.transition > 0, "transitions_y": y.transition > 0}
    state = fresh(cost, support="observed", primal_step=1.0, dual_step=0.3, keep_coupling=True, **small)
    state = somcot.advance(state, xs, ys)
    everything = Edges.from_mask(np.ones((3, 3), dtype=bool))
    bigger = grow(state, everything, everything)
    before, after = log_mu_of(state), log_mu_of(bigger)
    old = np.isfinite(before)
    np.testing.assert_allclose(after[old], before[old], atol=1e-12)
    W, H = state.pairs.W.reshape(3, 3), state.pairs.H[0]
    U = -H * cost / 2 - W / 0.9
    neither = ~(small["transitions_x"][:, None, :, None] | small["transitions_y"][None, :, None, :])
    np.testing.assert_allclose(after[neither], (U[:, :, None, None] + W)[neither], atol=1e-12)
    np.testing.assert_array_equal(somcot.finish(bigger).coupling(), somcot.finish(state).coupling())
    # The grown state goes on as the printed algorithm does from the same point.
    z = algorithm.Iterate(
        after - np.log(np.exp(after).sum()), state.x.log_lambda, state.y.log_lambda,
        dense_duals(bigger, 3)[0].transpose(0, 2, 1), dense_duals(bigger, 3)[1], bigger.pairs.V.reshape(3, 3).copy(),
    )  # fmt: skip
    # Kernel units: cost / 2, so rates 2 and 0.15.
    z = algorithm.step(z, 51, [(0, 2)], [(2, 0)], told(x, y, cost / 2, 0.9, explicit(2.0, 0.15)))
    bigger = somcot.advance(bigger, ([0], [2]), ([2], [0]))
    alpha_x, alpha_y, V = dense_duals(bigger, 3)
    np.testing.assert_allclose(alpha_x, z.alpha_x.transpose(0, 2, 1), atol=1e-10)
    np.testing.assert_allclose(alpha_y, z.alpha_y, atol=1e-10)
    np.testing.assert_allclose(V, z.V, atol=1e-10)


def log_mu_of(state: State) -> Any:
    """Unnormalised log mu of a small state from its factors, -inf outside the support."""
    n = 3
    late = (state.pairs.H[0] - state.pairs.H_at).reshape(n, n)
    W, H = state.pairs.W.reshape(n, n), state.pairs.H[0]
    result = np.full((n, n, n, n), -np.inf)
    U = -H * state.pairs.cost.reshape(n, n) - W / 0.9
    for i in range(n):
        for j in range(n):
            r = i * n + j
            A, B = int(state.x.offset[r]), int(state.y.offset[r])
            for a, u in enumerate(state.edges_x.target[state.edges_x.first[i] : state.edges_x.first[i + 1]]):
                for b, v in enumerate(state.edges_y.target[state.edges_y.first[j] : state.edges_y.first[j + 1]]):
                    log_a = state.x.log[A + a] + late[i, j] * state.x.alpha[A + a]
                    log_b = state.y.log[B + b] + late[i, j] * state.y.alpha[B + b]
                    result[i, j, u, v] = log_a + log_b + W[u, v] + U[i, j]
    return result


def test_support_grows_with_the_stream() -> None:
    x, y, cost = walks(4, 0.7)
    xs, ys = fed(x, y, 0.9, 3000)
    first, second = (streams.from_iterable(list(zip(*pairs, strict=True))) for pairs in (xs, ys))
    result = somcot.solve(first, second, cost, discount=0.9, n_steps=3000, support="observed", keep_coupling=True)
    check_valid(result, cost)
    plan = result.plan
    assert plan is not None
    seen_x, seen_y = set(zip(*xs, strict=True)), set(zip(*ys, strict=True))
    assert set(zip(plan.x.tolist(), plan.next_x.tolist(), strict=True)) <= seen_x
    assert set(zip(plan.y.tolist(), plan.next_y.tolist(), strict=True)) <= seen_y
    known = somcot.solve(x, y, cost, discount=0.9, n_steps=3000, support="observed", rng=0)
    assert result.distance == pytest.approx(known.distance, abs=0.1)


def test_same_seed_same_bits_and_the_two_chains_are_drawn_independently() -> None:
    x, _, cost = walks(4, 0.5)
    one, two, other = (somcot.solve(x, x, cost, discount=0.9, n_steps=300, rng=seed) for seed in (5, 5, 6))
    assert one.distance == two.distance
    assert one.distance != other.distance
    assert one.duals is not None
    assert np.abs(one.duals.alpha_x.transpose(2, 0, 1) - one.duals.alpha_y).max() > 1e-6
    generator = np.random.default_rng(5)
    assert somcot.solve(x, x, cost, discount=0.9, n_steps=300, rng=generator).distance == one.distance


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    x, y, cost = walks(40, 0.7)  # large enough for BLAS to split its products
    options: dict[str, Any] = {"discount": 0.9, "n_steps": 30, "rng": 0}
    results = []
    for n in (1, 2, 4):
        with threadpool_limits(n):
            results.append(somcot.solve(x, y, cost, **options))
    with ThreadPoolExecutor(3) as pool:
        results += pool.map(lambda _: somcot.solve(x, y, cost, **options), range(3))
    for result in results[1:]:
        assert result.distance == results[0].distance
        assert result.potential.tobytes() == results[0].potential.tobytes()


def test_interrupt_keeps_the_partial_result() -> None:
    x, y, cost = walks(5, 0.7)

    def strike(step: int, _total: int, _value: float) -> None:
        if step > 500:
            signal.raise_signal(signal.SIGINT)

    result = somcot.solve(x, y, cost, discount=0.9, n_steps=10**9, rng=0, progress=strike)
    assert result.status is Status.INTERRUPTED
    assert 500 < result.n_steps < 10**6
    check_valid(result, cost)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    again = somcot.solve(x, y, cost, discount=0.9, n_steps=result.n_steps, average=1.0, rng=0,
                         primal_step=0.5, dual_step=1e-3)  # fmt: skip
    assert again.n_steps == result.n_steps


def test_progress_shows_the_distance_before_the_first_row_of_the_trace() -> None:
    x, y, cost = walks(5, 0.7)
    shown: list[float] = []

    def strike(_step: int, _total: int, value: float) -> None:
        shown.append(value)
        if len(shown) == 3:
            raise KeyboardInterrupt

    found = somcot.solve(x, y, cost, discount=0.9, steps="paper", n_steps=10**9, rng=0, progress=strike)
    assert found.status is Status.INTERRUPTED
    assert found.distance == shown[-1]


def test_interrupt_comes_through_while_a_stream_is_waited_for() -> None:
    class Hangs(Broken):
        def draw(self, n: int) -> Any:
            if self.calls == 1:
                signal.raise_signal(signal.SIGINT)
                raise AssertionError("the interrupt did not come through")
            return super().draw(n)

    result = somcot.solve(Hangs(None), random_walk(3), np.eye(3), discount=0.9, n_steps=20_000, rng=0)
    assert result.status is Status.INTERRUPTED
    assert result.n_steps == 4096
    hangs = Hangs(None)
    hangs.calls = 1
    with pytest.raises(KeyboardInterrupt):  # nothing to return yet
        somcot.solve(hangs, random_walk(3), np.eye(3), discount=0.9, n_steps=20_000, rng=0)


def test_progress_line_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    x, y, cost = walks(3, 0.7)
    result = somcot.solve(x, y, cost, discount=0.9, n_steps=100, rng=0, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"100 %, 100 of 100 steps, {result.distance:.4g}, 0 s left\n"


def test_a_run_cut_short_averages_what_it_has() -> None:
    x, y, cost = walks(3, 0.7)
    xs, ys = fed(x, y, 0.9, 120)
    iterates = list(algorithm.iterates(xs, ys, told(x, y, cost, 0.9, explicit(1.0, 0.1))))
    values = [(z.mu.sum(axis=(2, 3)) * cost).sum() for z in iterates]
    for n, used in ((60, values[:60]), (101, values[:101]), (120, values[60:120])):
        state = somcot.init(cost, discount=0.9, n_steps=120, primal_step=1.0, dual_step=0.1)
        state = somcot.advance(state, (xs[0][:n], xs[1][:n]), (ys[0][:n], ys[1][:n]))
        assert somcot.finish(state).distance == pytest.approx(np.mean(used), abs=1e-9)


def test_an_ending_stream_is_a_status() -> None:
    x, y, cost = walks(3, 0.7)
    xs, _ = fed(x, y, 0.9, 101)
    result = somcot.solve(
        streams.from_iterable(list(zip(*xs, strict=True))), y, cost, discount=0.9, n_steps=500, batch_size=2, rng=0
    )
    assert result.status is Status.EXHAUSTED
    assert result.n_steps == 50
    assert result.samples == (100, 100)
    assert "stream ended after 50 of 500 steps" in result.message
    check_valid(result, cost)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ([(0, 1), (1, 7)], r"x: transition 1 has state 7, expected one of 0, ..., 2"),
        ([(0, -1)], r"x: transition 0 has state -1"),
        ([(0.0, 1.0)], r"float64, expected whole numbers"),
        ([(True, False)], r"bool, expected whole numbers"),
        ([("a", "b")], r"expected whole numbers.*list their labels as states="),
        ([(0, 1, 2)], r"expected pairs \(state, next state\)"),
        ([0, 1], r"found 0, expected pairs"),
        ([(0, [1, 2])], r"different shapes|ragged|shape"),
        ([(None, 0)], r"object, expected whole numbers"),
        ([], r"ended before the first step"),
    ],
)
def test_bad_transitions_are_refused(given: Any, match: str) -> None:
    cost = np.eye(3)
    with pytest.raises(ValueError, match=match):
        somcot.solve(streams.from_iterable(given), random_walk(3), cost, discount=0.9, n_steps=10, rng=0)


class Broken:
    """A stream that is good for a while."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.calls = answer, 0

    def draw(self, n: int) -> Any:
        self.calls += 1
        return (np.zeros(n, dtype=int), np.ones(n, dtype=int)) if self.calls == 1 else self.answer


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (([0, 1], [2, 9]), "transition 1 has state 9"),
        (([0.5], [1]), "float64"),
        (([0, 1], [1]), "2 states and 1 next states"),
        (([[0], [1]], [[1], [1]]), r"shape \(2, 1\)"),
        (None, "expected the two arrays"),
        ((range(9000), range(9000)), "expected one of|gave 9000"),
    ],
)
def test_nothing_is_lost_when_a_stream_breaks(answer: Any, match: str, tmp_path: Any) -> None:
    path = tmp_path / "run.ck"
    with pytest.raises(streams.StreamError, match=match) as caught:
        somcot.solve(Broken(answer), random_walk(3), np.eye(3), discount=0.9, n_steps=20_000, rng=0, checkpoint=path)
    assert caught.value.partial.n_steps == 4096
    check_valid(caught.value.partial, np.eye(3))
    assert somcot.load(path).k == 4096


def test_an_own_stream_needs_only_draw() -> None:
    class Endless:
        def draw(self, n: int) -> tuple[list[int], list[int]]:
            return [0] * n, [1] * n

    class Stops:
        def draw(self, n: int) -> tuple[list[int], list[int]]:
            raise StopIteration

    result = somcot.solve(Endless(), random_walk(2), np.eye(2), discount=0.9, n_steps=50, rng=0)
    assert result.status is Status.FINISHED
    with pytest.raises(ValueError, match="ended before the first step"):
        somcot.solve(Stops(), random_walk(2), np.eye(2), discount=0.9, n_steps=50, rng=0)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_steps": 0}, "n_steps: found 0, expected at least 1"),
        ({"n_steps": 1.5}, "n_steps: found 1.5, expected a whole number"),
        ({"primal_step": -1.0}, "primal_step: found -1.0, expected a finite number above 0"),
        ({"primal_step": 0.0, "dual_step": 0.1}, "primal_step: found 0.0"),
        ({"dual_step": float("nan")}, "dual_step: found nan"),
        ({"dual_step": (0.1, 0.2)}, "dual_step: found 2 rates, expected one or three"),
        ({"decay": -0.1}, "decay: found -0.1, expected a number of at least 0"),
        ({"batch_size": 0}, "batch_size: found 0"),
        ({"average": 0.0}, "average: found 0.0, expected a share above 0"),
        ({"average": 1.5}, "average: found 1.5"),
        ({"support": "some"}, "support: found 'some', expected 'full' or 'observed'"),
        ({"steps": "fast"}, "steps: found 'fast', expected 'auto', 'theorem'"),
        ({"discount": 1.0}, "discount: found 1.0"),
        ({"order": "sorted", "x": "samples"}, "order: found 'sorted'"),
        ({"cost": np.zeros((3, 4))}, r"cost: shape is \(3, 4\), expected \(3, 3\)"),
        ({"cost": [[np.nan] * 3] * 3}, "cost: entry"),
        ({"x": 3}, "x: found int, expected a MarkovChain, Samples or a Stream"),
        ({"x": streams.from_chain(random_walk(3), 0.5, 0)}, "discount: found 0.9, but stream x draws at discount 0.5"),
        ({"resume": "nowhere.ck"}, "resume: nowhere.ck does not exist"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], match: str) -> None:
    chain = random_walk(3)
    arguments: dict[str, Any] = {
        "x": chain,
        "y": chain,
        "cost": np.eye(3),
        "discount": 0.9,
        "n_steps": 5,
        "rng": 0,
    } | options
    if arguments["x"] == "samples":
        arguments["x"] = chain.sample_occupancy(10, 0.9, rng=0)
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=match):
        somcot.solve(**arguments)


def test_wrong_counts_of_transitions_are_refused() -> None:
    state = fresh(np.eye(2), batch_size=2)
    with pytest.raises(ValueError, match="found 3 and 3 transitions, expected equally many and a multiple of"):
        somcot.advance(state, ([0, 1, 0], [1, 1, 1]), ([0, 1, 0], [1, 1, 1]))
    with pytest.raises(ValueError, match="no step was done yet"):
        somcot.finish(state)


def test_default_number_of_steps() -> None:
    x, y, cost = walks(3, 0.7)
    samples = x.sample_occupancy(700, 0.9, rng=0)
    assert somcot.solve(samples, y, cost, discount=0.9, batch_size=2, rng=0).n_steps == 350
    assert somcot.solve(x, y, cost, discount=0.9, rng=0).n_steps == 10_000


def test_diagnosis_names_the_case() -> None:
    x, y, cost = walks(5, 0.7)

    def notes(**options: Any) -> dict[str, Note]:
        result = somcot.solve(x, y, cost, discount=0.95, rng=0, **options)
        return {note.code: note for note in notes_in(result.diagnose())}

    assert "dual-step-small" in notes(n_steps=10_000, primal_step=1.0, dual_step=0.003)
    assert "dual-step-large" in notes(n_steps=10_000, primal_step=1.0, dual_step=1.0)
    few = notes(n_steps=1_000)["too-few-steps"].values
    assert (few["steps"], few["n_x"], few["n_y"]) == (1_000, 5, 5)
    assert notes(n_steps=100_000) == {}
    unreachable = MarkovChain([[1.0, 0.0], [0.0, 1.0]], states=["home", "away"])
    result = somcot.solve(unreachable, unreachable, 1 - np.eye(2), discount=0.9, n_steps=10_000, rng=0)
    assert Note("unseen-in-stream", "x", n=1, states="'away'") in result.diagnose()
    for n, shown in ((6, "'b', 'c', 'd', 'e', 'f'"), (7, "'b', 'c', 'd', 'e', 'f', ...")):
        alone = MarkovChain(np.eye(n), np.eye(n)[0], states=list("abcdefg"[:n]))
        result = somcot.solve(alone, alone, 1 - np.eye(n), discount=0.9, n_steps=100, rng=0)
        assert Note("unseen-in-stream", "x", n=n - 1, states=shown) in result.diagnose()


def test_result_survives_a_file(tmp_path: Any) -> None:
    x, y, cost = walks(3, 0.7)
    result = somcot.solve(x, y, cost, discount=0.9, n_steps=100, rng=0)
    result.save(tmp_path / "result")
    again = Result.load(tmp_path / "result")
    assert again.diagnose() == result.diagnose() != []
    assert again.duals is not None
    assert result.duals is not None
    for one, other in zip(again.duals, result.duals, strict=True):
        np.testing.assert_array_equal(one, other)


def test_theorem_rates_get_nearer_as_steps_grow() -> None:
    x, y, cost = walks(3, 0.7)
    exact = 0.0173160173
    options: dict[str, Any] = {"discount": 0.5, "steps": "theorem", "average": 1.0}
    errors = [
        np.mean([abs(somcot.solve(x, y, cost, n_steps=n, rng=seed, **options).distance - exact) for seed in range(3)])
        for n in (1_000, 10_000, 100_000)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.06


def test_tables_of_states_by_states_are_counted_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse chain of many states is refused, though its transitions alone would fit."""
    from scipy.sparse import eye_array

    many, cost = MarkovChain(eye_array(4000, format="csr")), np.zeros((4000, 2))
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "300M")
    with pytest.raises(MemoryLimitError, match="SOMCOT on 4000 x 2 states needs about 640 MB"):
        somcot.solve(many, random_walk(2), cost, discount=0.9, support="observed", n_steps=5)


@pytest.mark.parametrize("bad", ["half", 0.0, 2.0, None])
def test_average_must_be_a_share(bad: Any) -> None:
    with pytest.raises(ValueError, match="average: found"):
        somcot.solve(random_walk(3), random_walk(3), np.eye(3), discount=0.9, average=bad, n_steps=5)


def test_resume_refuses_another_process_of_the_same_size(tmp_path: Path) -> None:
    x, y, cost = walks(4, 0.7)
    path = tmp_path / "run.ck"
    options: dict[str, Any] = {"discount": 0.9, "n_steps": 500, "rng": 0}
    somcot.solve(x, y, cost, checkpoint=path, **options)
    again = somcot.solve(x, y, cost, resume=path, **options)
    assert again.n_steps == 500
    with pytest.raises(ValueError, match="belongs to a run with another process y"):
        somcot.solve(x, random_walk(4, 0.3), cost, resume=path, **options)


@pytest.mark.parametrize(
    ("discount", "said"),
    [
        (float(np.nextafter(1, 0)), "discount: found 0.9999999999999999; drawing a transition takes"),
        (5e-324, "discount: found 5e-324, expected at least 1e-100 for SOMCOT"),
    ],
)
def test_discounts_that_cannot_be_run_are_named(discount: float, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        somcot.solve(random_walk(3), random_walk(3), 1.0 - np.eye(3), discount=discount, n_steps=10, rng=0)
