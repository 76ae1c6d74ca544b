"""Two processes prepared for comparison: kinds, unions of states, null draws, and the evidence gathered from them."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import Counts, MarkovChain, Samples, costs
from somcot.inference.comparison import AgainstKnown, Exchangeable, Separate, _folds, compare, places_of
from somcot.inference.intervals import KINK, gather
from somcot.inference.model import fit
from somcot.problem import Problem
from tests.data_instances import family
from tests.instances import Floats
from tests.notes import codes, noted

WALK, OTHER = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.7)
LABELS = 1.0 - np.eye(5)


def quiet(call: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **kwargs)


def compared(x: Any, y: Any, cost: Any = LABELS, discount: float = 0.9, **options: Any) -> Any:
    models = quiet(fit, x), quiet(fit, y)
    table = costs.between(cost, x, y) if callable(cost) or isinstance(cost, str) else cost
    problem = Problem(models[0].chain, models[1].chain, table, discount)
    source = cost if callable(cost) else table if isinstance(table, costs.FeatureCost) else None
    return compare(*models, problem, source, **options)[0]


def relabelled(data: Samples, states: tuple[Any, ...]) -> Samples:
    return Samples(states, data.now, data.following, offsets=data.offsets)


A, B = WALK.sample(30, 20, rng=0), OTHER.sample(30, 20, rng=1)
START = np.eye(5)[2]


def test_kinds_of_comparisons() -> None:
    known_a, known_b = (Samples(d.states, d.now, d.following, offsets=d.offsets, initial=START) for d in (A, B))
    elsewhere = Samples(B.states, B.now, B.following, offsets=B.offsets, initial=np.eye(5)[0])
    kinds: list[tuple[Any, Any, Any, type]] = [
        (A, B, LABELS, Exchangeable),
        (Counts.from_samples(A), B, LABELS, Exchangeable),
        (known_a, known_b, LABELS, Exchangeable),
        (known_a, elsewhere, LABELS, Separate),
        (A, known_b, LABELS, Separate),
        (A, B.with_start("stationary"), LABELS, Separate),
        (A.with_start("stationary"), B.with_start("stationary"), LABELS, Exchangeable),
        (A, OTHER, LABELS, AgainstKnown),
        (OTHER, A, LABELS, AgainstKnown),
        (known_a, MarkovChain(OTHER.transition, START), LABELS, AgainstKnown),
        (known_a, MarkovChain(OTHER.transition, 0), LABELS, Separate),
        # States that one of the two lacks do not start there.
        *(
            (known_a, MarkovChain(somcot.random_walk(n).transition, 2), costs.labels(range(5), range(n)), AgainstKnown)
            for n in (4, 6)
        ),
        (A.with_start("stationary"), OTHER, LABELS, Separate),
        (WALK.sample_occupancy(200, 0.9, rng=0), OTHER, LABELS, Separate),
        (WALK.sample_occupancy(200, 0.9, rng=0), OTHER.sample_occupancy(200, 0.9, rng=1), LABELS, Exchangeable),
        (A, B, LABELS + np.diag(np.arange(5.0)), Separate),
        (A, relabelled(B, tuple("abcde")), np.random.default_rng(0).random((5, 5)), Separate),
        (A, relabelled(B, (0, 1, 2, 3, "e")), costs.labels(range(5), (0, 1, 2, 3, "e")), Exchangeable),
        (A, relabelled(B, (0, 1, 2, 3, 9)), lambda x, y: costs.absolute(x.states, y.states), Exchangeable),
    ]
    for x, y, cost, kind in kinds:
        assert type(compared(x, y, cost)) is kind, (x, y)


def test_the_data_are_the_two_fitted_chains() -> None:
    for x, y in ((A, B), (A, OTHER), (WALK, B), (Counts.from_samples(A), Counts.from_samples(B))):
        comparison = compared(x, y)
        for support, shares, side in zip(comparison.supports, comparison.observed, (x, y), strict=True):
            chain = side if isinstance(side, MarkovChain) else quiet(side.chain)
            table = np.zeros((6, 5))
            table[support.rows, support.indices] = shares
            np.testing.assert_allclose(table[:-1], chain.transition, atol=1e-12)
            np.testing.assert_allclose(table[-1], chain.initial, atol=1e-12)
        found = gather(comparison, 0, n_permutations=19).evidence
        plugin = quiet(somcot.distance, x, y, LABELS, discount=0.9, method="plugin").distance
        assert found.plugin == pytest.approx(plugin, abs=1e-5)


def test_rows_of_one_side_only_are_those_of_the_pooled_process() -> None:
    """A row that one recording never leaves is no difference: it is filled from the other."""
    x = Samples.from_trajectories([["a", "b", "a", "b"]] * 12)
    y = Samples.from_trajectories([["a", "b", "a", "c", "c", "a"]] * 12)
    comparison = compared(x, y, "labels")
    assert comparison.states == ("a", "b", "c")
    support = comparison.supports[0]
    at_c = slice(support.indptr[2], support.indptr[3])
    np.testing.assert_allclose(comparison.observed.p[at_c], comparison.observed.q[at_c])


def test_kept_shares_move_the_rows_between_the_pooled_process_and_the_data() -> None:
    for comparison in (compared(A, B), compared(A, OTHER), compared(OTHER, A)):
        n = len(comparison.supports[0].indptr) - 1
        shares = np.stack([np.ones(n), np.zeros(n)])
        moved = comparison.shrunk(np.stack([comparison.counts] * 2), shares)
        for data, rows in zip(comparison.observed, moved, strict=True):
            np.testing.assert_allclose(rows[0], data, atol=1e-15)
        equal = comparison.shrunk(comparison.counts[None], shares[1:])
        np.testing.assert_allclose(equal.p, equal.q, atol=1e-15)
    a, b = (c.sample_occupancy(300, 0.9, rng=k) for k, c in enumerate((WALK, OTHER)))
    occupancy = compared(a, b)
    assert not occupancy.can_shrink
    assert gather(occupancy, 0).evidence.pooled is None


def test_draws_from_a_known_chain_have_its_mean_and_variance() -> None:
    for x, y in ((A, OTHER), (OTHER, A)):
        comparison = compared(x, y)
        support, n = comparison.support, 4000
        drawn = comparison.null(7, range(n))
        totals = support.row_sums(comparison.counts)
        np.testing.assert_array_equal(totals[:-1], np.bincount(A.now, minlength=5))
        np.testing.assert_array_equal(np.add.reduceat(drawn, support.indptr[:-1], axis=1), np.tile(totals, (n, 1)))
        p, per_entry = support.probabilities, totals[support.rows]
        variance = per_entry * p * (1 - p)
        assert (np.abs(drawn.mean(axis=0) - per_entry * p) <= 5 * np.sqrt(variance / n) + 1e-12).all()
        np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.15, atol=1e-9)
        np.testing.assert_array_equal(drawn[3], comparison.null(7, [3])[0])
        # Chi-squared of each row against the chain has its degrees of freedom as mean.
        rows = comparison.statistics(drawn).rows
        tested = totals > 0
        df = comparison.tests(comparison.counts).df[tested]
        assert (np.abs(rows.mean(axis=0)[tested] - df) <= 5 * np.sqrt(2 * df / n) + 0.05 * df).all()


def test_a_known_chain_that_excludes_what_was_recorded() -> None:
    """Transitions and states that the chain does not have are kept, and reject it."""
    chain = MarkovChain([[0.5, 0.5], [0.5, 0.5]], states=["a", "b"])
    rng = np.random.default_rng(0)
    data = Samples.from_trajectories(
        [[*np.where(rng.random(20) < 0.5, "a", "b").tolist(), "new", "a"] for _ in range(15)]
    )
    comparison = compared(data, chain, "labels")
    assert isinstance(comparison, AgainstKnown)
    assert set(comparison.states) == {"a", "b", "new"}
    assert comparison.counts.sum() == data.n_transitions + 15
    found = gather(comparison, 0).evidence
    assert found.pvalue == 0.005
    result = quiet(somcot.distance, data, chain, "labels", discount=0.9, confidence=0.9)
    assert result.confidence_interval.low > 0.0
    wider = MarkovChain([[0.5, 0.5, 0], [0.5, 0.4, 0.1], [1, 0, 0]], states=["a", "b", "new"])
    short = quiet(somcot.distance, chain.sample(20, 20, rng=1), wider, "labels", discount=0.9, confidence=0.9)
    assert short.confidence_interval.low <= short.distance <= short.confidence_interval.high


def test_a_recording_drawn_from_the_known_chain_is_rejected_at_the_level() -> None:
    pvalues = []
    for seed in range(60):
        comparison = compared(WALK.sample(12, 15, rng=seed), WALK)
        pvalue = gather(comparison, seed, n_permutations=19).evidence.pvalue
        assert pvalue is not None
        pvalues.append(pvalue)
    small = np.mean(np.array(pvalues) <= 0.1)
    assert small <= 0.25  # 0.1 and 3.9 standard errors
    assert np.mean(pvalues) == pytest.approx(0.525, abs=0.19)


def test_halves_of_different_states_and_costs() -> None:
    f = family("bl5x3_0.5")
    x, y = f.x.sample(40, 30, rng=0), f.y.sample(40, 30, rng=1)
    comparison = compared(x, y, f.cost, f.discount)
    assert isinstance(comparison, Separate)
    gathered = gather(comparison, 3)
    assert (gathered.evidence.null, gathered.evidence.pvalue, gathered.kept) == (None, None, None)
    assert gathered.evidence.factor == KINK
    assert gathered.halves.shape == (40,)
    assert gathered.evidence.half == pytest.approx(gathered.halves.mean())
    assert gathered.evidence.error == pytest.approx(gathered.halves.std(ddof=1))
    known = compared(x, f.y, f.cost, f.discount).halves(3, 4).draws
    np.testing.assert_array_equal(known.q, np.tile(f.y.support.probabilities, (8, 1)))
    assert (known.p != known.p[0]).any()


def test_the_factor_is_that_of_a_kink_for_well_filled_rows_and_larger_for_thin_ones() -> None:
    def factor(n: int, length: int, states: int) -> float:
        law = 1.0 / np.arange(1, states + 1)
        chain = MarkovChain(np.tile(law / law.sum(), (states, 1)))
        x, y = (chain.sample(n, length, rng=k) for k in (0, 1))
        return float(gather(compared(x, y, 1.0 - np.eye(states)), 0, n_permutations=19).evidence.factor)

    assert factor(200, 50, 3) == pytest.approx(KINK, rel=0.35)
    assert factor(20, 20, 40) > 1.1 * KINK


def test_equal_seeds_give_equal_evidence_for_any_number_of_threads() -> None:
    runs = [gather(compared(A, B), 5, threads=threads) for threads in (1, 3)]
    assert runs[0].evidence._replace(null=None) == runs[1].evidence._replace(null=None)
    assert runs[0].evidence.null is not None
    np.testing.assert_array_equal(runs[0].evidence.null, runs[1].evidence.null)
    np.testing.assert_array_equal(runs[0].halves, runs[1].halves)
    assert gather(compared(A, B), 6).evidence.half != runs[0].evidence.half


# --- What users see


def test_the_pvalue_is_that_of_the_test() -> None:
    for theta, seed in ((0.5, 0), (0.55, 1), (0.8, 2)):
        x, y = WALK.sample(25, 20, rng=seed), somcot.random_walk(5, theta).sample(25, 20, rng=50 + seed)
        result = quiet(somcot.distance, x, y, "labels", discount=0.9, confidence=0.9, rng=seed)
        test = quiet(somcot.same_process, x, y, "labels", discount=0.9, rng=seed)
        assert result.estimate.pvalue == test.pvalue
        assert (result.confidence_interval.low > 0.0) == (test.pvalue <= 0.05)
        assert result.plugin == pytest.approx(test.statistic, abs=1e-9)


def one_label_more(seed: int, label: str) -> Samples:
    rng = np.random.default_rng(seed)
    paths = [[*np.where(rng.random(12) < 0.5, "a", "b").tolist(), *([label] * (k % 3 == 0)), "b"] for k in range(24)]
    return Samples.from_trajectories(paths)


def test_labels_of_one_side_are_neither_dropped_nor_fatal() -> None:
    x, y = one_label_more(0, "c"), one_label_more(1, "d")
    result = quiet(somcot.distance, x, y, "labels", discount=0.9, confidence=0.9)
    assert (set(result.states_x), set(result.states_y)) == ({"a", "b", "c"}, {"a", "b", "d"})
    assert result.confidence_interval.low > 0.0
    assert quiet(somcot.same_process, x, y, "labels", discount=0.9).pvalue <= 0.05
    matrix = quiet(somcot.distance_matrix, [x, y, one_label_more(2, "c")], discount=0.9, confidence=0.9)
    assert matrix.n_failed == 0
    assert matrix.values[0, 1] == result.distance
    assert matrix.low[0, 2] == 0.0
    joint = quiet(somcot.distance_matrix, [x, y], discount=0.9, confidence=0.9, simultaneous=True)
    assert joint.n_failed == 0
    changes = quiet(somcot.drift, {"one": x, "two": one_label_more(3, "c"), "three": y}, discount=0.9)
    assert [change.adjusted <= 0.05 for change in changes.changes] == [False, True, True]
    assert not any(code == "too-alike" for code in codes(changes.notes))


def rewarded(seed: int, labels: str, shift: float = 0.0, n: int = 24) -> Samples:
    rng = np.random.default_rng(seed)
    means = {label: float(k) for k, label in enumerate("abcd")}
    paths = [[labels[i] for i in rng.integers(len(labels), size=12)] for _ in range(n)]
    return Samples.from_trajectories(
        paths, rewards=[[means[s] + shift + 0.3 * rng.normal() for s in path] for path in paths]
    )


@pytest.mark.parametrize("pool", [True, False])
@pytest.mark.parametrize(("left", "right"), [("abc", "abc"), ("abc", "cab"), ("abc", "bcd"), ("abcd", "ab")])
def test_estimated_rewards_with_any_states(pool: bool, left: str, right: str) -> None:
    x, y = rewarded(0, left), rewarded(1, right)
    cost = costs.from_features(x, y, pool=pool)
    result = quiet(somcot.distance, x, y, cost, discount=0.8, confidence=0.9)
    plain = quiet(somcot.distance, x, y, np.asarray(cost), discount=0.8, confidence=0.9)
    low, high, _ = result.confidence_interval
    assert low <= result.distance <= high
    assert result.plugin == pytest.approx(plain.plugin)
    assert result.estimate.standard_error > 0.0
    assert (result.estimate.pvalue is None) == (not pool)
    order = np.random.default_rng(3).permutation(len(y.states))
    states = tuple(y.states[i] for i in order)
    turned = Samples.from_trajectories(
        [[y.states[i] for i in path] for path in paths_of(y)], states=states, rewards=rewards_of(1, right)
    )
    again = quiet(somcot.distance, x, turned, costs.from_features(x, turned, pool=pool), discount=0.8, confidence=0.9)
    assert again.plugin == pytest.approx(result.plugin, rel=1e-9)
    assert again.estimate.standard_error == pytest.approx(result.estimate.standard_error, rel=0.35)


def paths_of(data: Samples) -> list[list[int]]:
    assert data.offsets is not None
    return [
        [*data.now[a:b].tolist(), int(data.following[b - 1])]
        for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)
    ]


def rewards_of(seed: int, labels: str, n: int = 24) -> list[list[float]]:
    """The rewards that `rewarded` draws."""
    rng = np.random.default_rng(seed)
    paths = [[labels[i] for i in rng.integers(len(labels), size=12)] for _ in range(n)]
    return [[float("abcd".index(s)) + 0.3 * rng.normal() for s in path] for path in paths]


def test_rewards_that_differ_are_a_difference_only_if_kept_apart() -> None:
    x, y = rewarded(0, "abc"), rewarded(1, "abc", shift=1.0)
    pooled, apart = (
        quiet(somcot.distance, x, y, costs.from_features(x, y, pool=pool), discount=0.8, confidence=0.9)
        for pool in (True, False)
    )
    assert pooled.confidence_interval.low == 0.0
    assert apart.distance == pytest.approx(1.0, abs=0.1)
    assert apart.confidence_interval.low > 0.5


def test_stationary_starts() -> None:
    x, y = (d.with_start("stationary") for d in (WALK.sample(12, 60, rng=0), WALK.sample(12, 60, rng=1)))
    result = quiet(somcot.distance, x, y, LABELS, discount=0.9, confidence=0.9)
    assert (result.confidence_interval.low > 0.0) == (result.estimate.pvalue <= 0.05)
    assert result.plugin == pytest.approx(quiet(somcot.distance, x.chain(), y.chain(), LABELS, discount=0.9).distance)
    z = MarkovChain(np.full((5, 5), 0.2)).sample(12, 60, rng=2).with_start("stationary")
    assert quiet(somcot.distance, x, z, LABELS, discount=0.9, confidence=0.9).confidence_interval.low > 0.0


def test_occupancy_samples_are_exchanged_and_tested() -> None:
    x, y, z = (c.sample_occupancy(1500, 0.9, rng=k) for k, c in enumerate((WALK, WALK, OTHER)))
    same, other = (quiet(somcot.distance, x, d, LABELS, discount=0.9, confidence=0.9) for d in (y, z))
    assert (same.estimate.units, same.confidence_interval.low) == ("transitions", 0.0)
    assert same.distance < 0.6 * same.plugin
    assert other.estimate.pvalue == 0.005
    assert other.confidence_interval.low > 0.0
    truth = somcot.distance(WALK, OTHER, LABELS, discount=0.9).distance
    assert other.confidence_interval.low <= truth <= other.confidence_interval.high


def test_the_number_is_about_projections_where_the_data_have_memory() -> None:
    rng = np.random.default_rng(0)

    def recorded(n: int) -> Samples:
        paths = []
        for _ in range(n):
            path = rng.integers(3, size=2).tolist()
            for _ in range(50):
                path.append(path[-2] if rng.random() < 0.5 else int(rng.integers(3)))
            paths.append(path)
        return Samples.from_trajectories(paths, states=range(3))

    result = quiet(somcot.distance, recorded(40), recorded(40), discount=0.5, confidence=0.9)
    assert result.estimand == "first-order projection"
    assert "memory-episodes" in codes(result.notes)
    assert quiet(somcot.distance, A, B, LABELS, discount=0.9).estimand == "process"
    assert somcot.distance(WALK, OTHER, LABELS, discount=0.9).estimand == "process"


def test_deprecated_options_are_checked_and_reported() -> None:
    plain = quiet(somcot.distance, A, B, LABELS, discount=0.9, confidence=0.9)
    ignored: list[tuple[str, Any]] = [("n_splits", 3), ("interval", "bootstrap"), ("n_resamples", 5)]
    for name, value in ignored:
        with noted("ignored-option", DeprecationWarning, about=name):
            found = somcot.distance(A, B, LABELS, discount=0.9, confidence=0.9, **{name: value})
        assert (found.distance, found.confidence_interval) == (plain.distance, plain.confidence_interval)
    with noted("deprecated-option", DeprecationWarning, about="pool_rows"):
        assert somcot.distance(A, B, LABELS, discount=0.9, pool_rows=False).estimate.pooled is None  # type: ignore[union-attr]
    for former, units in (("rows", "transitions"), ("episodes", "sequences")):
        with noted("deprecated-option", DeprecationWarning, about="standard_error", instead=f"units={units!r}"):
            found = somcot.distance(A, B, LABELS, discount=0.9, standard_error=former)
        assert found.estimate is not None
        assert found.estimate.units == units
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"n_splits": -1}, "n_splits: found -1, expected at least 0"),
        ({"interval": "magic"}, "interval: found 'magic', expected 'delta' or 'bootstrap'"),
        ({"n_resamples": 0}, "n_resamples: found 0"),
        ({"standard_error": "robust"}, "standard_error: found 'robust', expected 'rows' or 'episodes'"),
        ({"units": "rows"}, "units: found 'rows', expected one of 'auto'"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            somcot.distance(A, B, LABELS, discount=0.9, **options)
    with pytest.raises(TypeError, match="pool_rows"):
        somcot.distance(A, B, LABELS, discount=0.9, pool_rows="no")


def test_sides_and_the_order_of_states_do_not_matter_beyond_the_draws() -> None:
    order = [3, 1, 4, 0, 2]
    place = np.argsort(order).astype(np.int32)
    mixed = Samples(tuple(order), place[B.now], place[B.following], offsets=B.offsets)
    cost: Floats = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    plain = quiet(somcot.distance, A, B, cost, discount=0.9, confidence=0.9)
    moved = quiet(somcot.distance, A, mixed, cost[:, order], discount=0.9, confidence=0.9)
    turned = quiet(somcot.distance, B, A, cost.T, discount=0.9, confidence=0.9)
    assert moved.distance == pytest.approx(plain.distance, rel=1e-6)
    assert moved.confidence_interval == pytest.approx(plain.confidence_interval, rel=1e-5)
    width = plain.confidence_interval.high - plain.confidence_interval.low
    assert turned.distance == pytest.approx(plain.distance, abs=0.3 * width)


def test_noise_added_to_pooled_rows_has_the_size_of_the_noise_of_the_data() -> None:
    """If the pooled processes are the truth, the plug-in is as large as expected."""
    kernel = np.random.default_rng(5).dirichlet(np.ones(8), size=8)
    changed = kernel.copy()
    changed[2], changed[5] = kernel[2, ::-1], kernel[5, ::-1]
    x, y = MarkovChain(kernel), MarkovChain(changed)
    cost = somcot.costs.labels(range(8), range(8))
    found = []
    for seed in range(8):
        comparison = compared(x.sample(300, 40, rng=seed), y.sample(300, 40, rng=100 + seed), cost, 0.9)
        evidence = gather(comparison, seed).evidence
        assert evidence.pooled is not None
        pooled = evidence.pooled
        found.append((pooled.misfit, evidence.error, evidence.plugin - pooled.distance))
    misfit, error, bias = np.mean(found, axis=0)
    assert abs(misfit) < 2.0 * error
    # The plug-in itself is far from the pooled distance.
    assert bias > 4.0 * error


@pytest.mark.parametrize("order", ["same", "mixed", "ends elsewhere"])
def test_the_solution_of_the_plug_in_serves_half_samples(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Any] = []

    def seen(*arguments: Any) -> Any:
        used.append(places_of(*arguments))
        return used[-1]

    place = np.array([3, 1, 4, 0, 2], dtype=np.int32)
    labels: Any = tuple(np.argsort(place).tolist())
    other = Samples(labels, place[B.now], place[B.following], offsets=B.offsets) if order == "mixed" else B
    if order == "ends elsewhere":  # the last state of a sequence has no successor in this recording
        other = Samples.from_trajectories([*([[0, 1, 2, 1]] * 30), [0, 1, 4]])
    monkeypatch.setattr("somcot.inference.estimate.places_of", seen)
    fast = quiet(somcot.distance, A, other, discount=0.9, confidence=0.9)
    assert (used[0] is None) == (order != "same")
    monkeypatch.setattr("somcot.inference.estimate.places_of", lambda *_: None)
    slow = quiet(somcot.distance, A, other, discount=0.9, confidence=0.9)
    assert fast.distance == pytest.approx(slow.distance, rel=1e-5)
    for end, same in zip(fast.confidence_interval, slow.confidence_interval, strict=True):
        assert end == pytest.approx(same, rel=1e-4)


def test_folds_have_the_variance_of_single_sequences() -> None:
    """Summed over folds, the squares of a fold's surplus are n times the variance of any value of the sequences."""
    engine = SimpleNamespace(strata=None, observed=np.repeat([0, 1], [37, 250]))
    values = np.random.default_rng(0).gamma(0.5, size=287)
    squares = np.zeros(2)
    for seed in range(200):
        folds, sides = _folds(engine, np.random.default_rng(seed))  # type: ignore[arg-type]
        np.testing.assert_allclose(folds.sum(axis=1), 0.0, atol=1e-9)  # of a constant there is no surplus
        squares += np.bincount(sides, (folds @ values) ** 2) / 200
    wanted = [37 * values[:37].var(ddof=1), 250 * values[37:].var(ddof=1)]
    np.testing.assert_allclose(squares, wanted, rtol=0.05)
