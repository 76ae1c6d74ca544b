"""From data to a number: the cross-fit gap estimate, its pieces, its warnings."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import somcot
from somcot import MarkovChain
from somcot.chains import Support
from somcot.core.pairs import all_pairs
from somcot.core.sweep import Sweep
from somcot.inference import bias_correction as crossfit
from somcot.inference.bias_correction import Half, cross_value, gap, half_supports
from somcot.inference.model import fit
from somcot.plumbing.errors import DataWarning, UnseenStateWarning
from somcot.plumbing.notes import Note
from somcot.problem import UnitProblem
from somcot.result import Bounds
from somcot.samples import Samples
from somcot.solvers.policy_iteration import Solution, iterate
from tests.data_instances import estimate, family, truth
from tests.instances import Floats, random_chain, walks
from tests.notes import noted, notes_in


def quiet(call: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **kwargs)


def dense(support: Support, n: int) -> Floats:
    """Kernel and start law, (n + 1, n)."""
    out = np.zeros((n + 1, n))
    for i in range(n + 1):
        row = slice(support.indptr[i], support.indptr[i + 1])
        out[i, support.indices[row]] = support.probabilities[row]
    return out


def potentials(solution: Solution, V: Floats, x: int, y: int) -> tuple[Floats, Floats]:
    """Transport potentials of one pair, found through the public sums with all weight on that pair."""
    weight = np.zeros(len(solution.pairs) + 1)
    weight[solution.pairs.index[x, y]] = 1.0
    return solution.sweep.potential_sums(V, weight)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(5, 5), (6, 4), (3, 5)]))
def test_performance_difference_identity(seed: int, shape: tuple[int, int]) -> None:
    """d_B = d_A + <occ_B, delta_AB> + gap(A -> B) on dense chains, and gap >= 0."""
    rng = np.random.default_rng(seed)
    n_x, n_y = shape
    cost, discount = rng.random(shape), 0.9
    start = [np.full(n, 1.0 / n) for n in shape]
    problems = []
    for _ in range(2):
        chains = [MarkovChain(rng.dirichlet(np.ones(n), size=n), s) for n, s in zip(shape, start, strict=True)]
        problems.append(UnitProblem(chains[0].support, chains[1].support, cost, discount))
    pairs = all_pairs(problems[0])
    a, b = (iterate(p, pairs, threads=1) for p in problems)
    V = a.V.reshape(shape)
    kernel, first = b.sweep.kernel()
    law = np.linalg.solve(np.eye(n_x * n_y) - discount * kernel.to_scipy().toarray().T, (1 - discount) * first).reshape(
        shape
    )
    P, Q = dense(problems[1].support_x, n_x), dense(problems[1].support_y, n_y)
    total = 0.0
    for x in range(n_x):
        for y in range(n_y):
            phi, psi = potentials(a, V, x, y)
            base = V[0, 0]
            row_x, row_y = phi[x * n_x : (x + 1) * n_x], psi[y * n_y : (y + 1) * n_y]
            expected = P[x] @ row_x + Q[y] @ row_y + base
            total += law[x, y] * (cost[x, y] + discount * expected - V[x, y])
    phi0 = a.sweep.potential_sums(V, np.r_[np.zeros(len(pairs)), 1.0])
    frozen_start = start[0] @ phi0[0][n_x * n_x :] + start[1] @ phi0[1][n_y * n_y :] + V[0, 0]
    found = gap(Half.of(problems[0], a), Half.of(problems[1], b))
    assert a.last is not None
    assert b.last is not None
    d_a = (1 - discount) * frozen_start
    d_b = (1 - discount) * b.last.high[-1]
    assert d_a == pytest.approx((1 - discount) * a.last.high[-1], abs=1e-9)
    assert d_b == pytest.approx(d_a + total + found, abs=1e-6)
    assert found >= 0.0
    assert gap(Half.of(problems[0], a), Half.of(problems[0], a)) == pytest.approx(0.0, abs=1e-10)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(4, 4), (5, 3)]))
def test_cross_value_is_the_half_plus_its_slope_towards_the_other(seed: int, shape: tuple[int, int]) -> None:
    """Against finite differences of the exact distance from one half in the direction of the other."""
    rng = np.random.default_rng(seed)
    cost, discount = rng.random(shape), 0.9
    ends = [[rng.dirichlet(np.ones(n), size=n + 1) for n in shape] for _ in range(2)]

    def at(t: float) -> UnitProblem:
        rows = [(1 - t) * one + t * other for one, other in zip(*ends, strict=True)]
        x, y = (MarkovChain(r[:-1], r[-1]) for r in rows)
        return UnitProblem(x.support, y.support, cost, discount)

    pairs = all_pairs(at(0.0))
    half = Half.of(at(0.0), iterate(at(0.0), pairs, threads=1))
    step = 1e-6
    rise = iterate(at(step), pairs, threads=1).distance(discount) - half.solution.distance(discount)
    expected = half.solution.distance(discount) + rise / step
    assert cross_value(half, at(0.5)) == pytest.approx(expected, abs=2e-4)


def test_halves_start_from_the_prices_of_their_own_pair() -> None:
    """Which only saves work: the values are the same with and without."""
    rng = np.random.default_rng(0)
    x, y = (fit(random_chain(rng, 8, "dense").sample(60, 50, rng=i)) for i in range(2))
    cost = rng.random((8, 8))
    whole = UnitProblem(x.chain.support, y.chain.support, cost, 0.9)
    solution = iterate(whole, all_pairs(whole), threads=1)
    one, other = (half_supports(m, 1, rng)[0] for m in (x, y))
    task = UnitProblem(one, other, cost, 0.9)
    guess = solution.pairs.table(solution.V)
    values = [
        iterate(task, solution.pairs, threads=1, guess=guess, hints=hints).distance(0.9)
        for hints in (None, solution.sweep)
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-12)
    cold, warm = Sweep(task, solution.pairs, 1), Sweep(task, solution.pairs, 1, solution.sweep)
    np.testing.assert_allclose(cold.improve(guess).high, warm.improve(guess).high, atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6))
def test_halves_add_up_to_the_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 20, size=int(rng.integers(2, 30)))
    cuts = np.sort(rng.integers(1, len(counts), size=3))
    indptr = np.unique(np.r_[0, cuts, len(counts)]).astype(np.int64)
    halves = crossfit._split_rows(counts, indptr, 5, rng)
    assert halves.min() >= 0
    assert (halves <= counts).all()
    totals = np.add.reduceat(counts, indptr[:-1])
    taken = np.add.reduceat(halves, indptr[:-1], axis=1)
    assert (np.abs(2 * taken - totals) <= 1).all()


def test_splits_are_fair() -> None:
    """Each observation lands in the first half with probability 1/2; row totals are nearly halved every time."""
    counts, indptr = np.array([30, 10, 1, 59]), np.array([0, 4])
    halves = crossfit._split_rows(counts, indptr, 4000, np.random.default_rng(0))
    assert (np.abs(halves.mean(axis=0) - counts / 2) <= 5 * np.sqrt(counts / 4 / 4000)).all()
    # variance of a hypergeometric draw: n K (N-K) (N-n) / (N^2 (N-1))
    expected = 50 * counts * (100 - counts) * 50 / (100**2 * 99)
    np.testing.assert_allclose(halves.var(axis=0), expected, rtol=0.12)


def test_rows_without_observations_in_a_half_take_the_pooled_row() -> None:
    data = Samples.from_trajectories([[0, 1, 2, 0, 1, 0]], terminated=False)
    model = quiet(fit, data)
    for half in half_supports(model, 6, np.random.default_rng(0)):
        sums = np.add.reduceat(half.probabilities, half.indptr[:-1])
        np.testing.assert_allclose(sums, 1.0)
        row = slice(half.indptr[2], half.indptr[3])  # state 2 was left once: one half has nothing
        np.testing.assert_allclose(half.probabilities[row], 1.0)


def test_known_chains_are_not_split() -> None:
    model = fit(somcot.random_walk(4))
    assert model.totals.tolist() == [0] * 5
    for half in half_supports(model, 2, np.random.default_rng(0)):
        np.testing.assert_array_equal(half.probabilities, model.chain.support.probabilities)


@pytest.mark.parametrize("name", ["rw5_0.7@0.9", "lazy", "rw5_0.5@0.9"])
def test_result_holds_what_it_promises(name: str) -> None:
    result = estimate(name, 5000, seed=1, confidence=0.9)
    assert result.method == "auto"
    assert result.plugin is not None
    assert result.estimate is not None
    assert result.confidence_interval is not None
    assert 0.0 <= result.distance <= result.plugin
    low, high, level = result.confidence_interval
    assert low <= result.distance <= high
    assert level == 0.9
    assert result.bounds.low <= result.plugin <= result.bounds.high
    assert result.bounds.high - result.bounds.low <= 1e-9
    assert result.estimate.n_solves == 10
    assert result.estimate.uncut is not None
    assert result.estimate.kept is not None
    assert len(result.estimate.kept) == result.encoder.shape[0] + 1
    assert result.n_samples == sum(result.samples) > 9000
    assert result.encoder.shape == family(name).cost.shape


def test_one_side_may_be_known() -> None:
    f = family("rw5_0.7@0.9")
    data = f.y.sample(200, 50, rng=0)
    both = somcot.distance(f.x, data, f.cost, discount=0.9, confidence=0.9)
    swapped = somcot.distance(data, f.x, f.cost.T, discount=0.9, confidence=0.9)
    assert both.samples == (0, 10_000)
    assert both.distance == pytest.approx(truth("rw5_0.7@0.9"), abs=0.08)
    assert both.plugin == pytest.approx(swapped.plugin, abs=1e-10)
    assert both.estimate is not None
    assert swapped.estimate is not None
    assert both.estimate.standard_error == pytest.approx(swapped.estimate.standard_error, rel=1e-6)


def test_scale_and_shift_of_the_cost() -> None:
    f = family("lazy")
    a, b = f.x.sample(60, 50, rng=0), f.y.sample(60, 50, rng=1)
    plain = somcot.distance(a, b, f.cost, discount=0.95, confidence=0.9)
    other = somcot.distance(a, b, 7.0 * f.cost - 3.0, discount=0.95, confidence=0.9)
    assert other.distance == pytest.approx(7.0 * plain.distance - 3.0, abs=1e-9)
    assert plain.confidence_interval is not None
    assert other.confidence_interval is not None
    assert other.confidence_interval.low == pytest.approx(7.0 * plain.confidence_interval.low - 3.0, abs=1e-8)
    assert other.confidence_interval.high == pytest.approx(7.0 * plain.confidence_interval.high - 3.0, abs=1e-8)


def test_same_answer_for_any_number_of_threads_and_without_a_seed() -> None:
    rng = np.random.default_rng(0)
    x, y = random_chain(rng, 22, "sparse"), random_chain(rng, 22, "sparse")
    a, b, cost = x.sample(200, 50, rng=1), y.sample(200, 50, rng=2), rng.random((22, 22))
    runs = [quiet(somcot.distance, a, b, cost, discount=0.9, confidence=0.9, threads=threads) for threads in (1, 2, 4)]
    assert len({(run.distance, run.estimate, run.confidence_interval) for run in runs}) == 1
    other = quiet(somcot.distance, a, b, cost, discount=0.9, rng=5)
    assert other.estimate.gap != runs[0].estimate.gap


def test_plugin_and_other_solvers_take_data_too() -> None:
    f = family("rw5_0.7@0.9")
    a, b = f.x.sample(40, 50, rng=0), f.y.sample(40, 50, rng=1)
    bare = somcot.distance(a, b, f.cost, discount=0.9, method="plugin")
    chains = somcot.distance(a.chain(), b.chain(), f.cost, discount=0.9)
    assert bare.distance == bare.plugin == chains.distance
    assert bare.samples == (2000, 2000)
    for method in ("exact", "lp"):
        found = somcot.distance(a, b, f.cost, discount=0.9, method=method)
        assert found.distance == pytest.approx(chains.distance, abs=1e-8)


def test_identical_data_are_at_distance_zero() -> None:
    x, _, cost = walks(5, 0.5)
    data = x.sample(20, 50, rng=0)
    result = quiet(somcot.distance, data, data, cost, discount=0.9, confidence=0.9)
    assert result.distance == 0.0
    assert result.confidence_interval.low == 0.0


def notes(*args: Any, **kwargs: Any) -> dict[str, Note]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        somcot.distance(*args, **kwargs)
    assert all(issubclass(w.category, (DataWarning, UnseenStateWarning)) for w in caught)
    return {note.code: note for note in notes_in(caught)}


def test_warnings_say_what_to_do() -> None:
    x, y, cost = walks(5, 0.5)
    a, b = x.sample(200, 50, rng=0), y.sample(200, 50, rng=100)
    assert "near-minimum-testable" in notes(a, b, cost, discount=0.9)
    far = somcot.random_walk(5, 0.9)
    few = notes(x.sample(3, 40, rng=0), far, cost, discount=0.9)["few-visits"]
    assert few.about == "x"
    assert re.match(r"\d+ transition\(s\) out of \d", str(few.values["counts"]))
    short = a.take(range(10)), far.sample(10, 50, rng=1)
    assert "too-few-data" in notes(*short, cost, discount=0.999)
    cut_off = Samples.from_trajectories([[0, 1, 0, 1, 2]] * 50, states=range(5), terminated=False)
    absorbed = notes(cut_off, y, cost, discount=0.9)
    assert "never-left" in absorbed
    assert "out of 2" not in " ".join(absorbed.values())
    assert notes(a, far, cost, discount=0.9) == {}


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"confidence": 1.5}, ValueError, "confidence: found 1.5, expected a level between 0 and 1"),
    ({"confidence": 90}, ValueError, "confidence: found 90"),
    ({"interval": "magic"}, ValueError, "interval: found 'magic', expected 'delta' or 'bootstrap'"),
    ({"n_splits": -1}, ValueError, "n_splits: found -1, expected at least 0"),
    ({"standard_error": "robust"}, ValueError, "standard_error: found 'robust'"),
    ({"n_steps": 10}, TypeError, "n_steps: not an option of method 'auto', which takes n_splits"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD)
def test_bad_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    f = family("rw5_0.7@0.9")
    a, b = f.x.sample(40, 50, rng=0), f.y.sample(40, 50, rng=1)
    with pytest.raises(error, match=message):
        somcot.distance(a, b, f.cost, discount=0.9, **options)


@pytest.mark.parametrize("name", ["rw5_0.5@0.9", "lazy0", "bl5x3_0.5"])
def test_bias_at_zero_is_cut(name: str) -> None:
    """Mean error against the plug-in's over 12 seeds at 10,000 transitions; the slow suite has 20 and all families."""
    runs = [estimate(name, 10_000, seed) for seed in range(12)]
    corrected = np.mean([run.distance for run in runs])
    plain = np.mean([run.plugin for run in runs if run.plugin is not None])
    assert corrected <= 0.65 * plain


@pytest.mark.parametrize("name", ["rw5_0.7@0.9", "lazy", "dense5"])
def test_distances_well_above_zero_are_left_alone(name: str) -> None:
    d = truth(name)
    runs = [estimate(name, 10_000, seed) for seed in range(12)]
    corrected = np.mean([abs(run.distance - d) for run in runs])
    plain = np.mean([abs(run.plugin - d) for run in runs if run.plugin is not None])
    assert corrected <= 1.15 * plain


@pytest.mark.parametrize(("name", "bound"), [("rw5_0.5@0.9", 0.025), ("lazy0", 0.03), ("rw5_0.7@0.99", 0.016)])
def test_occupancy_samples(name: str, bound: float) -> None:
    runs = [estimate(name, 10_000, seed, occupancy=True) for seed in range(8)]
    assert np.mean([abs(run.distance - truth(name)) for run in runs]) <= bound


@pytest.mark.parametrize("n", [1, 2, 3])
def test_hardly_any_data_still_give_an_answer(n: int) -> None:
    x, y, cost = walks(5, 0.7)
    for data in (x.sample(1, n, rng=0), x.sample_occupancy(n, 0.9, rng=0)):
        result = quiet(somcot.distance, data, y, cost, discount=0.9, confidence=0.9)
        assert cost.min() <= result.distance <= cost.max()
        assert result.confidence_interval.low <= result.distance <= result.confidence_interval.high


def test_occupancy_samples_of_another_discount_are_used_as_what_they_are() -> None:
    f = family("rw5_0.7@0.9")
    a, b = f.x.sample_occupancy(20_000, 0.8, rng=0), f.y.sample_occupancy(20_000, 0.8, rng=1)
    result = somcot.distance(a, b, f.cost, discount=0.9, confidence=0.9)
    assert result.confidence_interval is not None
    assert result.confidence_interval.low <= truth("rw5_0.7@0.9") <= result.confidence_interval.high


def test_intervals_scale_with_costs_of_any_size() -> None:
    f = family("rw5_0.7@0.9")
    a, b = f.x.sample(60, 50, rng=1), f.y.sample(60, 50, rng=2)
    plain = somcot.distance(a, b, f.cost, discount=0.9, confidence=0.9)
    assert plain.confidence_interval is not None
    for scale in (1e-165, 1e160, 1e300):
        other = somcot.distance(a, b, scale * f.cost, discount=0.9, confidence=0.9)
        assert other.confidence_interval is not None
        for found, expected in zip(other.confidence_interval[:2], plain.confidence_interval[:2], strict=True):
            assert found / scale == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_known_start_laws_may_differ(seed: int) -> None:
    """The permutation guard has nothing to say about processes that start elsewhere."""
    walk, _, cost = walks(4, 0.5)
    starts = [0.5, 0.5, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0]
    a, b = (
        MarkovChain(walk.transition, start).sample_occupancy(60, 0.9, rng=2 * seed + k)
        for k, start in enumerate(starts)
    )
    assert a.initial is not None
    assert b.initial is not None
    assert np.abs(a.initial - b.initial).max() == 0.5
    result = quiet(somcot.distance, a, b, cost, discount=0.9, confidence=0.9)
    assert result.confidence_interval.low <= result.distance <= result.confidence_interval.high
    with pytest.raises(
        ValueError, match="y: its known initial distribution differs from that of x, so the two are different"
    ):
        somcot.same_process(a, b, cost, discount=0.9)


def test_the_guard_is_asked_unless_known_start_laws_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(*args: Any) -> Any:
        asked.append(args)
        return 0.0, np.zeros(39)

    monkeypatch.setattr("somcot.inference.estimate.permutation_test", refuse)
    walk, drift, cost = walks(4, 0.9)
    a, b = walk.sample(40, 20, rng=0), drift.sample(40, 20, rng=1)
    monkeypatch.setattr("somcot.inference.bias_correction.interval", lambda *_: Bounds(1e-6, 1.0))
    monkeypatch.setattr("somcot.inference.intervals.standard_error", lambda *_, **__: 1.0)

    def low(start_x: Any, start_y: Any) -> float:
        data = replace(a, initial=start_x), replace(b, initial=start_y)
        return float(quiet(somcot.distance, *data, cost, discount=0.9, confidence=0.9).confidence_interval.low)

    first, last = np.eye(4)[0], np.eye(4)[3]
    assert low(first, last) > 0.0
    assert asked == []
    for starts in ((first, first), (None, last), (None, None)):
        assert low(*starts) == 0.0
    assert len(asked) == 3


def test_data_show_in_the_result_of_every_method() -> None:
    f = family("rw5_0.7@0.9")
    a = f.x.sample(40, 50, rng=0)
    values = [
        somcot.distance(a, f.y, f.cost, discount=0.9, method=m) for m in ("exact", "lp", "plugin", "saddle", "auto")
    ]
    assert all(result.samples == (2000, 0) for result in values)
    assert all(result.plugin == pytest.approx(values[0].distance, abs=1e-7) for result in values)
    assert somcot.distance(f.x, f.y, f.cost, discount=0.9, method="plugin").plugin is None
    assert "Estimated from data" in values[-1].message


def test_confidence_where_there_is_no_interval() -> None:
    f = family("rw5_0.7@0.9")
    data = f.x.sample(40, 50, rng=0)
    for method in ("plugin", "exact", "lp", "sinkhorn", "saddle"):
        with noted("no-interval", about="confidence", method=repr(method)):
            somcot.distance(data, f.y, f.cost, discount=0.9, method=method, confidence=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert somcot.distance(f.x, f.y, f.cost, discount=0.9, confidence=0.9).confidence_interval is None
    with pytest.raises(ValueError, match="confidence: found 90"):
        somcot.distance(f.x, f.y, f.cost, discount=0.9, confidence=90)
    with pytest.raises(ValueError, match="confidence: found 'high'"):
        somcot.distance(f.x, f.y, f.cost, discount=0.9, confidence="high")  # type: ignore[arg-type]


def test_one_episode_has_no_spread_between_episodes() -> None:
    f = family("rw5_0.7@0.9")
    with pytest.raises(ValueError, match="one episode does not show the variance between episodes; use 'rows'"):
        somcot.distance(f.x.sample(1, 3000, rng=0), f.y, f.cost, discount=0.9, standard_error="episodes")


def test_warnings_say_whose_data_they_are_about() -> None:
    f = family("rw5_0.7@0.9")
    short = Samples.from_trajectories([[0, 1, 0, 1, 0]] * 60, states=range(5))
    found = notes(f.x.sample(200, 50, rng=0), short, f.cost, discount=0.9)
    assert (found["never-seen"].about, found["never-seen"].values["n"]) == ("y", 3)
    assert "x" not in [note.about for note in found.values()]
    near = notes(f.x.sample(40, 50, rng=1), f.x, f.cost, discount=0.9)
    assert "near-minimum-testable" not in near, "the test needs two recordings"
