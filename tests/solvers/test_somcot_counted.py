"""The default of SOMCOT: its kernels against plain NumPy, its answers, and what its state promises."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import somcot as package
from somcot import ConvergenceWarning, MarkovChain, Status, costs, distance, random_walk, streams
from somcot.plumbing.memory import MemoryLimitError
from somcot.plumbing.records import CheckpointError
from somcot.solvers import somcot
from somcot.solvers.somcot import algorithm, counted
from somcot.solvers.somcot.averages import CountedDistance, Fed, FittedPair, fit, law_of
from somcot.solvers.somcot.state import CountState
from somcot.steps import Steps
from tests.instances import random_chain, reward, walks


def ring(n: int, ahead: float = 1.0, start: int = 0) -> MarkovChain:
    P = np.zeros((n, n))
    for i in range(n):
        P[i, (i + 1) % n] += ahead
        P[i, i] += 1 - ahead
    return MarkovChain(P, np.eye(n)[start])


def steps_between(n: int) -> Any:
    apart = np.abs(np.arange(n)[:, None] - np.arange(n))
    return np.minimum(apart, n - apart) / (n // 2)


def solved(x: MarkovChain, y: MarkovChain, cost: Any, discount: float, n: int = 10_000, **options: Any) -> Any:
    return somcot.solve(x, y, cost, discount=discount, n_steps=n, rng=0, **options)


# One iteration.


def prepared(x: MarkovChain, y: MarkovChain, cost: Any, discount: float, support: Any) -> tuple[Any, algorithm.Counted]:
    """An iteration on known chains, and the same in plain NumPy with the extra start state spelled out."""
    settings = somcot.init(cost, discount=discount, n_steps=1).settings
    state = CountState.empty(replace(settings, support=support, keep_coupling=True), cost, x.initial, y.initial)
    fed = Fed(cost, discount, x.initial, y.initial, x.transition, y.transition)
    run = counted._Iteration(state, fed, FittedPair(x, y, ()), 1.0)
    extra = bool(min(np.count_nonzero(chain.initial) for chain in (x, y)) > 1)
    sides = [law_of(chain, discount, extra) for chain in (x, y)]
    unit, start = np.ones(tuple(len(P) for P, _ in sides)), np.zeros(tuple(len(P) for P, _ in sides))
    unit[: len(cost), : cost.shape[1]] = (cost - cost.min()) / np.ptp(cost)
    if extra:
        unit[-1, -1], start[-1, -1] = 0.0, 1.0
    else:
        start[:] = np.outer(x.initial, y.initial)
    plain = algorithm.Counted(unit, start, discount, sides[0][0], sides[1][0], sides[0][1], sides[1][1], run.rates.b)
    return run, plain


@pytest.mark.parametrize("support", ["observed", "full", "products"])
@pytest.mark.parametrize("kind", ["walks", "rectangle", "sparse", "random starts", "absorbing", "outlier"])
def test_kernels_are_the_plain_iteration_step_by_step(kind: str, support: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    n_x, n_y = (3, 5) if kind == "rectangle" else (4, 4)
    x, y = (random_chain(rng, n, kind if kind in ("sparse", "absorbing") else "dense") for n in (n_x, n_y))
    if kind == "walks":
        x, y = random_walk(4, 0.5, start=2), random_walk(4, 0.7)
    if kind == "random starts":
        x, y = (MarkovChain(chain.transition, rng.dirichlet(np.ones(4))) for chain in (x, y))
    cost = rng.random((n_x, n_y))
    if kind == "outlier":
        cost[0, 0] = 50.0
    if support == "products":  # on pairs that occur, in matrix products
        monkeypatch.setattr(counted, "FULL_SIZE", 0)
        monkeypatch.setattr(counted, "FULL_SHARE", 0.0)
    run, plain = prepared(x, y, cost, 0.9, "full" if support == "full" else "observed")
    assert run.products == (support != "observed")
    # The plain version leaves b to its caller; it is 2 sigma of the chains without the extra state.
    visits = [chain.state_occupancy(0.9) for chain in (x, y)]
    own = algorithm.Counted(
        (cost - cost.min()) / np.ptp(cost),
        np.outer(x.initial, y.initial),
        0.9,
        x.transition,
        y.transition,
        visits[0],
        visits[1],
        1.0,
    )
    assert run.rates.b == pytest.approx(2 * min(max(algorithm.spread(own), 1e-3), np.sqrt(10)), rel=1e-4)
    seen = [(P > 0) & (v > 0)[:, None] for P, v in
            ((plain.kernel_x, plain.visits_x), (plain.kernel_y, plain.visits_y))]  # fmt: skip
    mask = None if support == "full" else np.einsum("xu,yv->xyuv", *seen)
    z, used = algorithm.first(plain.cost.shape[0], plain.cost.shape[1], mask), []
    for k in range(60):
        if k >= 20:
            used.append(z)
        z = algorithm.counted_step(z, plain)
    run._iterate(20, 40)
    mean = run.mean
    law = np.mean([w.mu.sum(axis=(2, 3)) for w in used], axis=0)
    np.testing.assert_allclose(mean.state_law, law, atol=1e-9)
    np.testing.assert_allclose(mean.next_law, np.mean([w.mu.sum(axis=(0, 1)) for w in used], axis=0), atol=1e-9)
    np.testing.assert_allclose(mean.encoder, np.mean([w.lambda_x for w in used], axis=0), atol=1e-9)
    np.testing.assert_allclose(mean.decoder, np.mean([w.lambda_y for w in used], axis=0), atol=1e-9)
    np.testing.assert_allclose(mean.V, np.mean([w.V for w in used], axis=0), atol=1e-9)
    shape = plain.cost.shape
    rows = np.arange(shape[0] * shape[1]).reshape(shape)
    from somcot.solvers.somcot.averages import _spread

    alpha = _spread(mean.alpha_x, run.state.x.offset, run.state.edges_x, rows, np.arange(shape[0])[:, None], shape[0])
    expected = np.mean([w.alpha_x for w in used], axis=0).transpose(0, 2, 1)
    allowed = run.state.edges_x.mask[:, None, :]
    np.testing.assert_allclose(alpha, np.where(allowed, expected, 0.0), atol=1e-9)
    np.testing.assert_allclose(run.state.pairs.V.reshape(shape), z.V, atol=1e-9)


# Answers: what the former default got wrong.


@pytest.mark.parametrize("support", ["observed", "full"])
def test_walks_that_start_apart(support: str) -> None:
    x, y = random_walk(5, 0.5, start=2), random_walk(5, 0.7, start=0)
    cost = costs.absolute(reward(5), reward(5))
    truth = distance(x, y, cost, discount=0.9).distance
    result = solved(x, y, cost, 0.9, 100_000, support=support)
    assert truth == pytest.approx(0.695, abs=0.001)
    assert result.distance == pytest.approx(truth, abs=0.01)
    assert result.distance == pytest.approx(result.counted, abs=0.002)


def test_cycles() -> None:
    x, y = ring(3, 0.9), ring(3, 0.6)
    cost = 1.0 - np.eye(3)
    truth = distance(x, y, cost, discount=0.95).distance
    assert solved(x, y, cost, 0.95, 50_000).distance == pytest.approx(truth, abs=0.01)
    apart = 1.0 - np.eye(8)
    assert solved(ring(8), ring(8, start=1), apart, 0.9).distance == pytest.approx(1.0, abs=0.001)


PROBLEMS = {
    "lazy walks, close to 1": (random_walk(6, 0.6, start=0), random_walk(6, 0.4, start=3), steps_between(6), 0.99),
    "walls of unlike parity": (random_walk(5, 0.6), random_walk(5, 0.3, start=3), 1.0 - np.eye(5), 0.95),
    "distance 0": (random_walk(5, 0.6), random_walk(5, 0.6), costs.absolute(reward(5), reward(5)), 0.9),
    "a square and a ring": (random_walk(4, 0.6), ring(7, 0.8), np.random.default_rng(1).random((4, 7)), 0.95),
    "an end": (
        MarkovChain([[0.5, 0.5, 0], [0.2, 0.3, 0.5], [0, 0, 1]]),
        MarkovChain([[0.8, 0.2, 0], [0.2, 0.6, 0.2], [0, 0, 1]]), 1.0 - np.eye(3), 0.99,
    ),
    "random starts": (
        MarkovChain(random_walk(4).transition, [0.4, 0.1, 0.2, 0.3]),
        MarkovChain(random_walk(4, 0.7).transition, [0.1, 0.4, 0.4, 0.1]), steps_between(4), 0.9,
    ),
    "one large cost": (
        random_walk(4), random_walk(4, 0.7), np.where(np.eye(4)[::-1] > 0, 100.0, steps_between(4)), 0.9,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_run_agrees_with_its_own_transitions(name: str) -> None:
    x, y, cost, discount = PROBLEMS[name]
    result = solved(x, y, cost, discount)
    assert abs(result.distance - result.counted) < 0.005 * np.ptp(cost)
    assert result.bounds.low <= result.counted <= result.bounds.high
    assert not [note for note in result.diagnose() if "converged" in note]
    assert f"{result.counted:.6g}" in str(result)


def test_shifts_and_units_change_nothing_but_the_unit() -> None:
    x, y, cost = walks(4, 0.7)
    plain = solved(x, y, cost, 0.9, 500)
    other = solved(x, y, 4.0 * cost - 8.0, 0.9, 500)
    assert other.distance == pytest.approx(4.0 * plain.distance - 8.0, abs=1e-12)
    np.testing.assert_allclose(other.encoder, plain.encoder, atol=1e-12)


def test_a_run_that_is_off_goes_on_and_then_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, cost = walks(4, 0.7)
    calm = solved(x, y, cost, 0.9, 500)
    monkeypatch.setattr(counted, "n_iterations", lambda _n: 4)
    more = solved(x, y, cost, 0.9, 500)
    assert "on the counted chains" in more.message
    assert abs(more.distance - more.counted) <= 0.005 * np.ptp(cost)
    assert "4 saddle iterations" not in more.message
    monkeypatch.setattr(counted, "MOST_DOUBLINGS", 1)
    with pytest.warns(ConvergenceWarning, match="has not converged"):
        off = solved(x, y, cost, 0.9, 500)
    assert off.diagnose()[0].code == "not-converged"
    assert off.counted == calm.counted


def two_rooms(n: int, leak: float) -> MarkovChain:
    """Two halves, each mixed in one step, and a door between them that is rarely used."""
    half, P = n // 2, np.zeros((n, n))
    P[:half, :half], P[half:, half:] = 1 / half, 1 / (n - half)
    for here, there in ((0, n - 1), (n - 1, 0)):
        P[here] *= 1 - leak
        P[here, there] += leak
    return MarkovChain(P, np.full(n, 1 / n))


@pytest.mark.parametrize(("leak", "helped"), [(0.0001, True), (0.0003, True), (0.001, False), (0.002, False)])
def test_a_bottleneck_with_too_few_iterations_is_helped_by_smaller_steps(
    leak: float, helped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its duals have far to go at steps that are too large; without doublings, b / 4 is what brings the run near."""
    x, y, tried = two_rooms(10, leak), two_rooms(8, 2 * leak), []
    cost = np.abs(np.linspace(0, 1, 10)[:, None] - np.linspace(0, 1, 8))
    state = somcot.init(cost, discount=0.99, n_steps=10_000, initial_x=x.initial, initial_y=y.initial)
    state.counts_x, state.counts_y = (np.rint(1e7 * np.asarray(chain.occupancy(0.99))).astype(int) for chain in (x, y))
    state.k = 10_000
    run_rounds = counted._Iteration.run_rounds

    def noted(self: Any, *arguments: Any) -> None:
        run_rounds(self, *arguments)
        tried.append((self.rates.b, self.distance))

    monkeypatch.setattr(counted._Iteration, "run_rounds", noted)
    monkeypatch.setattr(counted, "MOST_DOUBLINGS", 0)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        short = somcot.finish(state)
    (b, first), (smaller, second) = tried
    assert short.counted is not None
    assert (smaller, short.distance) == (b / 4, second)
    assert abs(first - short.counted) > 0.05
    assert abs(second - short.counted) < abs(first - short.counted) / 2
    assert (abs(second - short.counted) <= 0.005) == helped
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        whole = somcot.finish(replace(state, solution=None))
    assert whole.counted == short.counted
    assert abs(whole.distance - short.counted) <= 0.005


def test_rounds_end_early_where_they_agree_and_the_constraints_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, cost = walks(4, 0.7)

    def iterations() -> int:
        message = solved(x, y, cost, 0.9, 5_000).message
        return int(re.findall(r"([\d,]+) saddle iterations", message)[0].replace(",", ""))

    few = iterations()
    assert few < 3_000
    monkeypatch.setattr(counted, "FEASIBLE", -1.0)  # never feasible: all planned iterations are run
    assert iterations() >= 3_000
    monkeypatch.undo()
    monkeypatch.setattr(counted, "AGREES", 0.0)
    assert iterations() >= 3_000


def test_the_tolerance_falls_with_the_sampling_error() -> None:
    assert counted.agreement(100) == counted.agreement(10_000) == 0.001
    assert counted.agreement(1e6) == pytest.approx(0.0001)


def test_work_that_takes_too_long_is_cut_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, cost = walks(4, 0.7)
    monkeypatch.setattr(counted, "MOST_SECONDS", 1e-4)
    monkeypatch.setattr("somcot.solvers.somcot.averages.forecast", lambda *_: 100.0)
    with pytest.warns(ConvergenceWarning, match="saddle iterations were run"):
        result = solved(x, y, cost, 0.9, 500)
    assert result.diagnose()[0].code == "iterations-cut"
    assert result.counted is None


def test_counts_that_do_not_fit_into_memory_leave_explicit_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "20M")
    cost = np.zeros((400, 2))
    with pytest.raises(MemoryLimitError, match="only explicit rates are available"):
        somcot.init(cost, discount=0.9, n_steps=5)
    explicit: dict[str, Any] = {"primal_step": 1.0, "dual_step": 0.1, "support": "observed"}
    assert somcot.init(cost, discount=0.9, n_steps=5, **explicit).k == 0


def test_a_table_draws_what_geometric_stopping_draws() -> None:
    """Both against the occupancy, in pieces of any size, with transitions that never occur and a random start."""
    chain = MarkovChain([[0.5, 0.5, 0.0], [0.0, 0.2, 0.8], [0.0, 0.0, 1.0]], [0.5, 0.5, 0.0])
    n = 40_000
    for tabled in (False, True):
        counts = np.zeros((3, 3))
        np.add.at(counts, streams.from_chain(chain, 0.9, 0, tabled=tabled).draw(n), 1)
        nu = np.asarray(chain.occupancy(0.9))
        assert np.all(np.abs(counts / n - nu) <= 5 * np.sqrt(nu * (1 - nu) / n))  # exactly 0 where nu is
    source = streams.from_chain(chain, 0.9, 7, tabled=True)
    pieces = [source.draw(k) for k in (1, 4095, 10, 5000)]
    whole = streams.from_chain(chain, 0.9, 7, tabled=True).draw(9106)
    for side in (0, 1):
        np.testing.assert_array_equal(np.concatenate([piece[side] for piece in pieces]), whole[side])


def test_algorithm_2_is_compared_too() -> None:
    x, y = random_walk(5, 0.5, start=2), random_walk(5, 0.7, start=0)
    cost = costs.absolute(reward(5), reward(5))
    with pytest.warns(ConvergenceWarning, match="has not converged"):
        result = solved(x, y, cost, 0.9, 2_000, steps="paper")
    explicit: dict[str, Any] = {"primal_step": 40.0, "dual_step": 0.2}
    with pytest.warns(ConvergenceWarning):
        assert solved(x, y, cost, 0.9, 2_000, **explicit).distance == result.distance


# The state: counts.


def fed(chain: MarkovChain, n: int, seed: int) -> Any:
    return streams.from_chain(chain, 0.9, seed).draw(n)


@pytest.mark.parametrize("half_life", [None, 700.0, 333.3])
def test_cutting_a_run_changes_no_bit_and_a_file_keeps_it(half_life: float | None, tmp_path: Path) -> None:
    x, y, cost = walks(4, 0.7)
    xs, ys = fed(x, 3000, 0), fed(y, 3000, 1)

    def run(cuts: list[int]) -> Any:
        state = somcot.init(cost, discount=0.9, n_steps=3000, half_life=half_life)
        for a, b in zip([0, *cuts], [*cuts, 3000], strict=True):
            state = somcot.advance(state, (xs[0][a:b], xs[1][a:b]), (ys[0][a:b], ys[1][a:b]))
            somcot.save(state, tmp_path / "state.ck")
            state = somcot.load(tmp_path / "state.ck")
        return state

    whole, pieces = run([]), run([1, 350, 1024, 1500, 2999])
    np.testing.assert_array_equal(whole.counts_x, pieces.counts_x)
    np.testing.assert_array_equal(whole.counts_y, pieces.counts_y)
    one, other = somcot.finish(whole), somcot.finish(pieces)
    assert one.distance == other.distance
    assert one.status is Status.FINISHED
    for name, column in one.trace.items():
        np.testing.assert_array_equal(column, other.trace[name])


def test_shards_merge_by_addition() -> None:
    x, y, cost = walks(4, 0.7)
    xs, ys = fed(x, 2000, 0), fed(y, 2000, 1)
    parts = []
    for half in (slice(0, 1200), slice(1200, 2000)):
        state = somcot.init(cost, discount=0.9, n_steps=half.stop - half.start)
        parts.append(somcot.advance(state, (xs[0][half], xs[1][half]), (ys[0][half], ys[1][half])))
    whole = somcot.advance(somcot.init(cost, discount=0.9, n_steps=2000), xs, ys)
    merged = somcot.merge(parts[0], parts[1])
    assert (merged.k, merged.settings.n_steps) == (2000, 2000)
    assert somcot.finish(merged).distance == somcot.finish(whole).distance
    with pytest.raises(ValueError, match="other: found a state with another cost"):
        somcot.merge(parts[0], somcot.init(cost + 1, discount=0.9, n_steps=5))
    with pytest.raises(ValueError, match="half_life: found a state that forgets"):
        somcot.merge(parts[0], somcot.init(cost, discount=0.9, n_steps=5, half_life=10))


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    from somcot.solvers.somcot.state import counts_from_record, counts_to_record

    x, y, cost = walks(3, 0.7)
    state = somcot.advance(somcot.init(cost, discount=0.9, n_steps=50), fed(x, 20, 0), fed(y, 20, 1))
    arrays, record = counts_to_record(state)
    wrongs: list[dict[str, Any]] = [{"k": 60}, {"k": "x"}, {"options": {}}, {"pending": [3]}]
    for wrong in wrongs:
        with pytest.raises(CheckpointError, match="does not hold together"):
            counts_from_record(arrays, record | wrong)
    with pytest.raises(CheckpointError, match="does not hold together"):
        counts_from_record(arrays | {"counts_x": arrays["counts_x"][:2]}, record)


def test_the_weight_of_a_transition_halves_in_a_half_life() -> None:
    cost = 1.0 - np.eye(2)
    state = somcot.init(cost, discount=0.9, n_steps=100, half_life=20)
    state = somcot.advance(state, ([0], [1]), ([0], [1]))
    for n in (20, 20, 15):
        state = somcot.advance(state, ([1] * n, [1] * n), ([1] * n, [1] * n))
    table, _ = state.counts()
    assert table[0, 1] == pytest.approx(2.0 ** (-55 / 20))
    weights = 2.0 ** (-np.arange(56) / 20)
    assert table.sum() == pytest.approx(weights.sum())
    assert state.n_eff == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    result = somcot.finish(state)
    assert result.n_eff == state.n_eff
    assert f"n_eff {state.n_eff:,.0f}" in result.message


def test_forgetting_follows_a_change() -> None:
    """A jump of one walk from 0.5 to 0.75: with a half-life of 3,000 the error is gone after 20,000 transitions."""
    y = random_walk(6, 0.5)
    before, after = random_walk(6, 0.5), random_walk(6, 0.75)
    cost = costs.absolute(np.arange(6.0), np.arange(6.0)) / 5
    truth = distance(after, y, cost, discount=0.9).distance
    xs = [np.concatenate(parts) for parts in zip(fed(before, 40_000, 0), fed(after, 20_000, 1), strict=True)]
    ys = fed(y, 60_000, 2)
    found = {}
    for half_life in (None, 3000.0):
        state = somcot.init(cost, discount=0.9, n_steps=60_000, half_life=half_life)
        found[half_life] = somcot.finish(somcot.advance(state, (xs[0], xs[1]), ys)).distance
    assert abs(found[3000.0] - truth) < 0.03
    assert abs(found[None] - truth) > 0.05


def test_trace_has_a_row_at_each_doubling_and_at_each_half_of_a_half_life() -> None:
    x, y, cost = walks(3, 0.7)
    assert solved(x, y, cost, 0.9, 5000).trace["step"].tolist() == [1024, 2048, 4096, 5000]
    forgetful = solved(x, y, cost, 0.9, 1100, half_life=500)
    assert forgetful.trace["step"].tolist() == [250, 500, 750, 1000, 1100]
    assert solved(x, y, cost, 0.9, 2048).trace["step"].tolist() == [1024, 2048]


# Streams, options and checkpoints.


def test_auto_on_streams_is_the_corrected_estimate() -> None:
    x, y, cost = walks(4, 0.7)
    truth = distance(x, y, cost, discount=0.9).distance

    def pair() -> dict[str, Any]:
        return {side: streams.from_chain(chain, 0.9, seed) for seed, (side, chain) in enumerate((("x", x), ("y", y)))}

    found = distance(**pair(), cost=cost, discount=0.9, n_steps=20_000, confidence=0.9)
    assert found.method == "auto"
    assert found.samples == (20_000, 20_000)
    assert found.confidence_interval is not None
    assert found.confidence_interval.low <= truth <= found.confidence_interval.high
    assert found.plugin is not None
    own = distance(**pair(), cost=cost, discount=0.9, n_steps=20_000, confidence=0.9, method="somcot")
    assert own.method == "somcot"
    assert own.duals is not None
    assert own.counted == pytest.approx(found.plugin, abs=1e-9)
    assert own.confidence_interval == found.confidence_interval


def test_a_known_chain_beside_a_stream_is_not_sampled_by_auto() -> None:
    x, y, cost = walks(4, 0.7)
    found = distance(streams.from_chain(x, 0.9, 0), y, cost, discount=0.9, n_steps=5_000)
    assert found.samples == (5_000, 0)


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="half_life: Algorithm 2 keeps no counts"):
        somcot.SomcotOptions(steps="theorem", half_life=10)
    with pytest.raises(ValueError, match=r"decay: found 0.1, and 0.2 in steps; give it once"):
        somcot.SomcotOptions(steps=Steps(1, 1, 1, 1, 1, 1, 0.2), decay=0.1)
    with pytest.raises(ValueError, match="half_life: found 0"):
        somcot.SomcotOptions(half_life=0)
    with pytest.raises(TypeError, match=r"gamma.*did you mean discount"):
        distance(random_walk(3), random_walk(3), np.eye(3), gamma=0.9)


def test_checkpoints_of_former_automatic_rates_go_on_as_algorithm_2(tmp_path: Path) -> None:
    """Earlier versions wrote the rates of `steps.auto` and the iterates: such a run ends as it would have then."""
    x, y, cost = walks(4, 0.7)
    path, options = tmp_path / "old.ck", {"discount": 0.9, "n_steps": 600, "rng": 0}

    def stop(step: int, _total: int, _value: float) -> None:
        if step >= 200:
            raise RuntimeError

    former: dict[str, Any] = options | {"steps": "former"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("somcot.solvers.somcot.fold.SLICE_SECONDS", 0.0)
            with pytest.raises(RuntimeError):
                somcot.solve(x, y, cost, **former, checkpoint=path, progress=stop)
        again = somcot.solve(x, y, cost, **options, resume=path)  # type: ignore[arg-type]
        whole = somcot.solve(x, y, cost, **former)
    assert again.distance == whole.distance
    assert again.n_steps == 600


def test_timed_runs_count_until_the_time_is_up() -> None:
    x, y, cost = walks(4, 0.7)
    result = somcot.solve(x, y, cost, discount=0.9, max_seconds=0.3, rng=0)
    assert result.status is Status.FINISHED
    assert result.n_steps >= 1024
    assert result.seconds < 3
    again = somcot.solve(x, y, cost, discount=0.9, n_steps=result.n_steps, rng=0)
    assert again.distance == result.distance


def test_numbers_that_are_compared() -> None:
    counted_ = CountedDistance(0.5, package.result.Bounds(0.4, 0.6))
    assert not counted_.is_off(0.509, 1.0)
    assert counted_.is_off(0.511, 1.0)
    (note,) = counted_.verdict(0.6, 1.0)
    assert (note.code, note.values) == ("not-converged", {"distance": "0.6000", "counted": "0.5000"})
    assert not fit(Fed(np.eye(2), 0.9, np.eye(2)[0], np.eye(2)[0], np.eye(2), np.ones((2, 2)))).remarks
