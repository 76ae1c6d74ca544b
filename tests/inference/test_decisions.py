"""Verdicts with a margin, and planned numbers of sequences."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import somcot
from somcot import MarkovChain, Samples, SampleSize
from somcot.inference import decisions
from somcot.inference.decisions import KINDS
from somcot.inference.estimate import EstimateDetails
from somcot.inference.intervals import Evidence, equivalence_pvalue, interval_of
from somcot.inference.statistics import PowerCurve, PowerPoint, bracketed
from somcot.plumbing.notes import collected
from somcot.recorded.transforms import times_reached

pytestmark = pytest.mark.filterwarnings("ignore::somcot.DataWarning")

DISCOUNT = 0.9
SHOP = MarkovChain(
    [[0.2, 0.5, 0.2, 0.1], [0.4, 0.1, 0.3, 0.2], [0.1, 0.3, 0.3, 0.3], [0, 0, 0, 1]], [1, 0, 0, 0],
    states=["home", "list", "cart", "left"],
)  # fmt: skip
OTHER = MarkovChain(
    [[0.2, 0.5, 0.2, 0.1], [0.1, 0.1, 0.6, 0.2], [0.1, 0.3, 0.3, 0.3], [0, 0, 0, 1]], [1, 0, 0, 0],
    states=["home", "list", "cart", "left"],
)  # fmt: skip


def visits(chain: MarkovChain, n: int, seed: int) -> Samples:
    """Sequences that end in "left"."""
    raw, left = chain.sample(n, 60, rng=seed), chain.states.index("left")
    inside = raw.now != left
    return Samples.from_transitions(
        raw.now[inside], raw.following[inside], episode=np.repeat(np.arange(n), 60)[inside],
        terminated=raw.following[inside] == left, states=range(4),
    ).relabel(lambda k: chain.states[k])  # fmt: skip


# --- Verdicts


def test_the_three_verdicts() -> None:
    same = somcot.same_process(SHOP.sample(400, 30, rng=1), SHOP.sample(400, 30, rng=2), discount=DISCOUNT, margin=0.1)
    assert same.verdict == "equivalent"
    assert same.sequences_needed is None
    changed = somcot.same_process(
        SHOP.sample(400, 30, rng=1), OTHER.sample(400, 30, rng=2), discount=DISCOUNT, margin=0.05
    )
    assert changed.verdict == "changed"
    assert changed.distance is not None
    assert changed.distance.contributions(3).transitions[0].state == "list"
    few = somcot.same_process(SHOP.sample(12, 30, rng=1), SHOP.sample(12, 30, rng=2), discount=DISCOUNT, margin=0.02)
    assert few.verdict == "inconclusive"
    assert few.sequences_needed is not None
    assert few.sequences_needed > 12
    assert f"{few.sequences_needed:,} sequences per side" in few._repr_html_()


def test_the_verdict_is_that_of_interval_and_test() -> None:
    """Equivalent exactly if the 90 % interval of `distance` ends below the margin; else the p-value decides."""
    seen = set()
    for n, margin in ((20, 0.05), (60, 0.1), (200, 0.06), (200, 0.02), (400, 0.3)):
        for other in (SHOP, OTHER):
            x, y = SHOP.sample(n, 30, rng=n), other.sample(n, 30, rng=n + 1)
            test = somcot.same_process(x, y, discount=DISCOUNT, margin=margin, rng=5)
            assert test.distance is not None
            assert test.distance.confidence_interval is not None
            high = test.distance.confidence_interval.high
            expected = "equivalent" if high < margin else "changed" if test.pvalue <= 0.05 else "inconclusive"
            assert test.verdict == expected
            assert test.equivalence_pvalue is not None
            assert (test.equivalence_pvalue <= 0.05) == (high < margin)
            seen.add(expected)
    assert seen == {"equivalent", "changed", "inconclusive"}


def test_the_pvalue_is_the_level_at_which_the_upper_end_meets_the_margin() -> None:
    evidence = Evidence(0.06, 0.07, 0.012)
    for margin in (0.055, 0.07, 0.08, 0.1):
        pvalue = equivalence_pvalue(evidence, margin)
        if pvalue < 0.5:
            assert interval_of(evidence, 1 - 2 * pvalue).high == pytest.approx(margin, abs=1e-6)
    assert equivalence_pvalue(evidence, 0.03) == 1.0
    assert equivalence_pvalue(evidence, 0.9) == 1e-9
    values = [equivalence_pvalue(evidence, margin) for margin in np.linspace(0.01, 0.2, 40)]
    assert values == sorted(values, reverse=True)


def test_equivalence_does_not_take_similar_rows_as_equal() -> None:
    x, y = (somcot.random_walk(12).sample(60, 30, rng=k) for k in (1, 2))
    test = somcot.same_process(x, y, discount=DISCOUNT, margin=0.1, rng=3)
    assert test.distance is not None
    assert isinstance(test.distance.details, EstimateDetails)
    assert test.distance.details.evidence is not None
    evidence, _ = test.distance.details.evidence
    assert evidence.pooled is not None
    assert test.distance.confidence_interval is not None
    high = test.distance.confidence_interval.high
    assert high == pytest.approx(interval_of(evidence._replace(pooled=None), 0.9).high)
    assert high > 1.05 * interval_of(evidence._replace(linear=None), 0.9).high


# --- The cautious upper end: the distance of "coins" is 0.09 times the difference of their shares of heads


def coins(heads: Any) -> Samples:
    """One decision for each sequence."""
    return Samples.from_trajectories([["go", "heads" if head else "tails", "end"] for head in heads], terminated=True)


def evidence_of(x: Samples, y: Samples, **options: Any) -> Evidence:
    result = somcot.distance(x, y, discount=DISCOUNT, confidence=0.9, rng=1, cautious=True, **options)
    assert isinstance(result.details, EstimateDetails)
    assert result.details.evidence is not None
    return result.details.evidence[0]


def tosses(n: int, share: float, seed: int) -> Any:
    return np.random.default_rng(seed).random(n) < share


@pytest.mark.parametrize("n", [60, 300])
def test_the_linear_part_has_the_variance_of_two_shares(n: int) -> None:
    x, y = tosses(n, 0.2, 1), tosses(n, 0.5, 2)
    evidence = evidence_of(coins(x), coins(y))
    exact = 0.09 * np.sqrt(x.var(ddof=1) / n + y.var(ddof=1) / n)
    # 300 sequences are 100 folds of 3, so the variance is itself estimated.
    assert evidence.linear == pytest.approx(exact, rel=0.02 if n == 60 else 0.15)
    assert evidence.df > 60


def test_the_linear_part_within_strata() -> None:
    sizes, shares = {"a": (40, 20), "b": (10, 30)}, {"a": (0.1, 0.3), "b": (0.7, 0.9)}
    heads = [[tosses(sizes[s][g], shares[s][g], 10 * g + k) for k, s in enumerate("ab")] for g in (0, 1)]
    sides = [coins(np.concatenate(side)) for side in heads]
    labels = [[s for s in "ab" for _ in range(sizes[s][g])] for g in (0, 1)]
    evidence = evidence_of(*sides, strata=labels)
    mix = {"a": 0.6, "b": 0.4}
    variance = sum(
        mix[s] ** 2 * heads[g][k].var(ddof=1) / sizes[s][g] for g in (0, 1) for k, s in enumerate("ab")
    )  # fmt: skip
    assert evidence.linear == pytest.approx(0.09 * np.sqrt(variance), rel=0.03)


def test_the_linear_part_of_pairs_is_that_of_their_differences() -> None:
    rng, n = np.random.default_rng(5), 80
    task = rng.random(n)
    x, y = rng.random(n) < 0.8 * task, rng.random(n) < 0.8 * task + 0.2
    evidence = evidence_of(coins(x), coins(y), paired_by=(list(range(n)), list(range(n))))
    exact = 0.09 * np.std(x.astype(float) - y, ddof=1) / np.sqrt(n)
    assert evidence.linear == pytest.approx(exact, rel=0.02)


def test_half_samples_show_less_near_a_kink() -> None:
    """If the shares are equal, half-samples deviate to one side only."""
    heads = np.arange(100) % 2 == 0
    evidence = evidence_of(coins(heads), coins(np.roll(heads, 1)))
    assert evidence.plugin == 0.0
    even = evidence_of(coins(heads), coins(np.arange(100) % 5 == 0))
    assert even.linear is not None
    assert evidence.error < 0.8 * even.error
    assert even.error == pytest.approx(even.linear, rel=0.35)


def test_few_long_sequences_have_few_degrees_of_freedom() -> None:
    rng = np.random.default_rng(3)
    short = [["a", *rng.choice(["a", "b"], 5)] for _ in range(60)]
    long = [["a", *(["a"] * 400), "b"], ["a", *(["b", "a"] * 200)]]
    x = Samples.from_trajectories([["a", *rng.choice(["a", "b"], 5)] for _ in range(60)])
    assert evidence_of(Samples.from_trajectories(short), x).df > 40
    assert evidence_of(Samples.from_trajectories(short + long), x).df < 10


def test_the_cautious_end_subtracts_only_the_certain_part_of_the_bias() -> None:
    for bias in (0.0, 0.01, 0.03, 0.08):
        evidence = Evidence(0.2, 0.2 + bias, 0.02, linear=0.03)
        step = 1.6449 * 0.03
        assert interval_of(evidence, 0.9).high == pytest.approx(0.2 + step - max(bias - step / 2, 0.0), abs=1e-4)
    few = Evidence(0.2, 0.2, 0.02, linear=0.03, df=5.0)
    assert interval_of(few, 0.9).high == pytest.approx(0.2 + 2.015 * 0.03, abs=1e-4)


@pytest.mark.statistical
def test_at_the_margin_one_decision_is_rarely_called_equivalent() -> None:
    """The distance has one kink here; half-samples alone said "equivalent" in about 10 % of runs."""
    wrong, runs = 0, 400
    for seed in range(runs):
        x, y = coins(tosses(240, 0.3, 2 * seed)), coins(tosses(240, 0.38, 2 * seed + 1))
        wrong += interval_of(evidence_of(x, y), 0.9).high < 0.09 * 0.08
    assert wrong <= 0.05 * runs + 2 * np.sqrt(0.05 * 0.95 * runs)


def test_a_margin_does_not_change_the_test() -> None:
    x, y = SHOP.sample(60, 30, rng=3), OTHER.sample(60, 30, rng=4)
    bare, with_margin = (somcot.same_process(x, y, discount=DISCOUNT, rng=9, margin=margin) for margin in (None, 0.1))
    again = somcot.same_process(x, y, discount=DISCOUNT, rng=9, margin=0.1)
    assert (bare.verdict, bare.margin, bare.equivalence_pvalue, bare.distance) == (None, None, None, None)
    assert (bare.statistic, with_margin.verdict) == (with_margin.statistic, again.verdict)
    assert with_margin.pvalue == again.pvalue
    assert with_margin.equivalence_pvalue == again.equivalence_pvalue


def test_margins_are_in_the_units_of_the_cost() -> None:
    x, y = SHOP.sample(150, 30, rng=5), OTHER.sample(150, 30, rng=6)
    labels = 1.0 - np.eye(4)
    one = somcot.same_process(x, y, labels, discount=DISCOUNT, margin=0.1)
    scaled = somcot.same_process(x, y, 3.0 + 20.0 * labels, discount=DISCOUNT, margin=5.0)
    assert scaled.verdict == one.verdict
    assert scaled.equivalence_pvalue == pytest.approx(one.equivalence_pvalue, rel=1e-6)


def test_recordings_without_a_common_state_have_changed() -> None:
    x, y = SHOP.sample(30, 10, rng=7), SHOP.sample(30, 10, rng=8).relabel(lambda label: f"new {label}")
    test = somcot.same_process(x, y, discount=DISCOUNT, margin=0.1)
    assert (test.verdict, test.equivalence_pvalue) == ("changed", 1.0)


@pytest.mark.parametrize("margin", [0.0, 1.0, -0.2, 1.5])
def test_margins_outside_the_range_of_the_cost(margin: float) -> None:
    x = SHOP.sample(10, 10, rng=0)
    with pytest.raises(ValueError, match=r"margin: found .* between 0 and 1"):
        somcot.same_process(x, x, discount=DISCOUNT, margin=margin)
    with pytest.raises(ValueError, match=r"margin: found .* between 0 and 1"):
        somcot.same_process(x, x, somcot.costs.labels(x.states, x.states), discount=DISCOUNT, margin=margin)


def test_bad_margins() -> None:
    x = SHOP.sample(10, 10, rng=0)
    for margin in (float("nan"), float("inf"), "0.1", True):
        with pytest.raises(TypeError, match="margin: found"):
            somcot.same_process(x, x, discount=DISCOUNT, margin=margin)  # type: ignore[arg-type]
    for options in ({"statistic": "pearson"}, {"discount": None}):
        arguments: dict[str, Any] = {"discount": DISCOUNT, "margin": 0.1} | options
        with pytest.raises(ValueError, match="margin: needs"):
            somcot.same_process(x, x, **arguments)
    with pytest.raises(ValueError, match="margin: needs two recordings"):
        somcot.same_process([x, x, x], discount=DISCOUNT, margin=0.1)


def test_the_number_needed_probably_decides() -> None:
    """With the suggested number, most comparisons that were inconclusive are decided (264 of 335 on other seeds)."""
    decided = total = 0
    for seed in range(12):
        x, y = visits(SHOP, 40, 1000 + seed), visits(SHOP, 40, 2000 + seed)
        n = somcot.same_process(x, y, discount=DISCOUNT, margin=0.05).sequences_needed
        if n is not None:
            x, y = visits(SHOP, n, 3000 + seed), visits(SHOP, n, 4000 + seed)
            total += 1
            decided += somcot.same_process(x, y, discount=DISCOUNT, margin=0.05).verdict == "equivalent"
    assert total >= 8
    assert decided >= 0.5 * total


# --- Planning


@pytest.fixture(scope="module")
def pilot() -> Samples:
    return visits(SHOP, 120, 9)


@pytest.fixture(scope="module")
def plan(pilot: Samples) -> SampleSize:
    return somcot.sample_size(pilot, effect=0.1, discount=DISCOUNT)


def test_effects_are_in_the_units_of_the_cost(pilot: Samples, plan: SampleSize) -> None:
    cost = 3.0 + 10.0 * (1.0 - np.eye(pilot.n_states))
    again = somcot.sample_size(pilot, cost=cost, effect=4.0, discount=DISCOUNT)
    assert again.n_sequences == plan.n_sequences


def test_a_plan_is_reproducible_and_consistent(pilot: Samples, plan: SampleSize) -> None:
    again = somcot.sample_size(pilot, effect=0.1, discount=DISCOUNT, threads=1)
    assert again.n_sequences == plan.n_sequences
    assert again.points == plan.points
    assert plan.power_at(plan.n_sequences) == pytest.approx(0.8, abs=0.02)
    assert (np.diff(plan.power_at([10, 100, 1000])) >= 0).all()
    assert all(0 <= point.power <= 1 for point in plan.points)
    assert len({point.n for point in plan.points}) == len(plan.points)
    assert 480 <= sum(point.n_simulations for point in plan.points) < 540
    assert str(plan.n_sequences) in str(plan)
    assert f"{plan.n_sequences} sequences per side" in plan._repr_html_()


def test_the_change_has_the_size_of_the_effect() -> None:
    """Recomputed for a long recording: every row that is left is mixed with the distribution of all next states."""
    pilot = visits(SHOP, 20_000, 9)
    chain = pilot.chain(check=False)
    change = decisions._Change.of(pilot, chain, "rows", None)
    share, error = decisions._calibrated(change, 1.0 - np.eye(4), DISCOUNT, 0.1, 0)
    assert error < 0.01
    P = np.array(chain.transition)
    nexts = np.bincount(pilot.following, minlength=4) / pilot.n_transitions
    leaves = pilot.visits > 0
    P[leaves] = (1 - share) * P[leaves] + share * nexts
    changed = MarkovChain(P, chain.initial, states=chain.states)
    assert somcot.distance(chain, changed, discount=DISCOUNT).distance == pytest.approx(0.1, rel=5e-3)


def test_noise_of_the_pilot_is_no_change() -> None:
    """Some eighty visits for ten entries of a row: uncorrected, shares would be 0.74 of those of a long recording."""
    chain = MarkovChain(np.random.default_rng(0).dirichlet(np.full(10, 4.0), size=10), np.full(10, 0.1))
    shares = []
    for seed, pilot in enumerate([*(chain.sample(40, 20, rng=k) for k in range(8)), chain.sample(20_000, 20, rng=9)]):
        change = decisions._Change.of(pilot, pilot.chain(check=False), "rows", None)
        shares.append(decisions._calibrated(change, 1.0 - np.eye(10), DISCOUNT, 0.05, seed)[0])
    assert np.mean(shares[:-1]) == pytest.approx(shares[-1], rel=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_changed_sequences_have_the_rows_of_the_plan(kind: str) -> None:
    """What is not to change does not: neither by the choice of continuations nor by chance."""
    pilot = visits(SHOP, 25, 11)
    chain = pilot.chain(check=False)
    change = decisions._Change.of(pilot, chain, kind, None)
    planned = change.chain(chain, 0.3)
    pool = change.sequences(planned, 0.3, 5)
    assert not change.whole
    assert pool.n_episodes % pilot.n_episodes == 0
    counts = np.zeros((4, 4))
    np.add.at(counts, (pool.now, pool.following), 1)
    visited = counts.sum(axis=1) > 0
    assert np.abs(counts - counts.sum(axis=1, keepdims=True) * planned.transition)[visited].max() <= 1.0
    assert pool.offsets is not None
    begins = np.bincount(pool.now[pool.offsets[:-1]], minlength=4)
    assert np.abs(begins - pool.n_episodes * planned.initial).max() <= 1.0


def test_steps_are_reached_as_often_as_the_equations_say() -> None:
    """An independent computation: the expected visits of a Markov chain on the steps of the recording."""
    rng, offsets = np.random.default_rng(4), np.array([0, 4, 5, 11])
    begin, struck, anew = np.zeros(11), rng.random(11), rng.random(11)
    begin[offsets[:-1]], anew = 1.0, 0.9 * anew / anew.sum()
    P = struck[:, None] * anew
    for first, end in pairwise(offsets):
        for step in range(first, end - 1):
            P[step, step + 1] += 1 - struck[step]
    assert times_reached(offsets, begin, struck, anew) == pytest.approx(np.linalg.solve(np.eye(11) - P.T, begin))


def two_kinds(n: int, seed: int) -> Samples:
    """Sequences of two kinds that differ in how long they stay."""
    rng, sequences = np.random.default_rng(seed), []
    stay = {0: {"a": 0.2, "b": 0.9, "c": 0.5}, 1: {"a": 0.8, "b": 0.1, "c": 0.5}}
    for _ in range(n):
        kind, path = int(rng.random() < 0.5), ["a"]
        while path[-1] != "end":
            onward = "end" if rng.random() < 0.1 else {"a": "b", "b": "c", "c": "a"}[path[-1]]
            path.append(path[-1] if onward != "end" and rng.random() < stay[kind][path[-1]] else onward)
        sequences.append(path)
    return Samples.from_trajectories(sequences, terminated=True)


def test_the_rows_that_memory_changes() -> None:
    """After a change in "a", sequences of the other kind come to "b"."""
    pilot = two_kinds(3000, 1)
    chain = pilot.chain(check=False)
    change = decisions._Change.of(pilot, chain, "row", "a")
    b, c = pilot.states.index("b"), pilot.states.index("c")
    before, after = (np.asarray(side.transition)[b, c] for side in (chain, change.chain(chain, 0.6)))
    weights = change._reached(0.6)
    inside = pilot.now == b
    exact = weights[inside & (pilot.following == c)].sum() / weights[inside].sum()
    assert after == pytest.approx(exact, abs=0.01)
    assert abs(after - before) > 0.02


def three_kinds(n: int, seed: int) -> Samples:
    """Sequences of three kinds that differ a little in all rows and in their length: hardly seen in 300 of them."""
    family, rng = np.random.default_rng(0), np.random.default_rng(seed)
    common = family.dirichlet(np.full(8, 0.7), size=8)
    below = np.cumsum([0.6 * common + 0.4 * family.dirichlet(np.full(8, 0.5), size=8) for _ in range(3)], axis=2)
    sequences = []
    for _ in range(n):
        kind, path = rng.integers(3), [int(rng.integers(8))]
        while rng.random() > (0.05, 0.1, 0.2)[kind]:
            path.append(int((below[kind, path[-1]] < rng.random()).sum()))
        sequences.append([*map(str, path), "end"])
    return Samples.from_trajectories(sequences, terminated=True)


def test_noise_is_subtracted_once_from_what_memory_changes() -> None:
    """Rows that memory changes keep only what is beyond noise. Halves that see no memory, or too much, are no bias."""
    shares = []
    for seed in range(12):
        pilot = three_kinds(300, seed)
        change = decisions._Change.of(pilot, pilot.chain(check=False), "row", "0")
        shares.append(decisions._calibrated(change, 1.0 - np.eye(9), DISCOUNT, 0.014, seed)[0])
    # 0.518 from 20,000 sequences; with the noise of both subtracted the mean is 1.30 and the error 0.30.
    assert np.mean(shares) / 0.518 == pytest.approx(1.0, abs=0.2)
    assert np.sqrt(np.mean(np.log(np.array(shares) / 0.518) ** 2)) < 0.29


def test_without_memory_other_rows_stay() -> None:
    pilot = visits(SHOP, 400, 12)
    chain = pilot.chain(check=False)
    change = decisions._Change.of(pilot, chain, "row", "list")
    others = [pilot.states.index(state) for state in ("home", "cart")]
    before, after = (np.asarray(side.transition)[others] for side in (chain, change.chain(chain, 0.7)))
    assert np.abs(after - before).max() < 0.01


def test_the_table_rises_and_has_an_error(plan: SampleSize) -> None:
    powers = [float(row[2]) for row in plan.table().rows]
    assert powers == sorted(powers)
    total = sum(point.n_simulations for point in plan.points)
    assert f"Monte-Carlo error {plan.error:.2g}, {total} simulated tests" in str(plan)
    assert f"error of the pilot {plan.pilot_error:.2g}" in str(plan)
    # About that of a binomial share near 0.8, if all tests were at the planned number.
    assert 0.5 < plan.error / np.sqrt(0.16 / total) < 2.5


def test_a_small_pilot_leaves_the_power_open() -> None:
    """The stated error is that by which shares vary over pilots, in units of the power, and a large one is noted."""
    chain = MarkovChain(np.random.default_rng(3).dirichlet(np.full(6, 1.0), size=6), np.full(6, 1 / 6))
    pilots = [chain.sample(25, 12, rng=k) for k in range(24)]
    changes = [decisions._Change.of(pilot, pilot.chain(check=False), "rows", None) for pilot in pilots]
    found = [decisions._calibrated(change, 1.0 - np.eye(6), DISCOUNT, 0.03, 1) for change in changes]
    shares, errors = np.array(found).T
    # The distance is proportional to the share, so both vary alike.
    assert 0.6 < np.median(errors) / (np.std(shares) / np.mean(shares)) < 1.5
    with collected() as notes:
        plan = somcot.sample_size(pilots[0], effect=0.03, discount=DISCOUNT)
    (note,) = [note for note in notes if note.code == "small-pilot"]
    assert note.values["error"] == plan.pilot_error > 0.07
    # A relative error of the distance is worth twice that of n.
    n, share = plan.n_sequences, 0.01
    moved = float(plan.power_at(n * (1 + share) ** 2) - plan.power_at(n * (1 - share) ** 2)) / (2 * share)
    assert plan.pilot_error == pytest.approx(min(moved * found[0][1], 0.5), rel=0.35)


@pytest.mark.parametrize("start", [100, 300, 9000])
def test_the_curve_does_not_depend_on_where_the_search_begins(start: int) -> None:
    """Tests with far more sequences than needed, as from a large pilot, all find the change: they have no slope."""
    intercept, slope = -2.9, 0.353
    rng, found = np.random.default_rng(start), []
    for _ in range(40):
        points = bracketed(
            lambda n, tests: int(rng.binomial(len(tests), ndtr(intercept + slope * n**0.5))), 0.8, start, (20, 20_000)
        )
        curve = PowerCurve.fitted(points, 0.8)
        n = curve.solved(0.8)
        found.append((ndtr(intercept + slope * n**0.5), curve.steepness(n)))
    powers, steepness = np.array(found).T
    assert powers.mean() == pytest.approx(0.8, abs=0.02)
    assert powers.std() < 0.03  # it was 0.05 from 9,000
    right = (ndtri(0.8) - intercept) * np.exp(-0.5 * ndtri(0.8) ** 2) / np.sqrt(2 * np.pi)
    assert steepness.mean() == pytest.approx(right, rel=0.2)  # it was a fifth of this from 9,000


def test_the_error_of_a_single_simulated_power_is_that_of_a_share() -> None:
    curve = PowerCurve.fitted([PowerPoint(50, 0.8, 400)], 0.8)
    assert curve.error(50) == pytest.approx((0.8 * 0.2 / 400) ** 0.5, rel=0.02)


def test_smaller_effects_need_more_sequences(pilot: Samples, plan: SampleSize) -> None:
    assert somcot.sample_size(pilot, effect=0.14, discount=DISCOUNT).n_sequences < plan.n_sequences


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_finds_its_change(kind: str) -> None:
    """A plan of each kind: the test with that many sequences, of processes changed in that way, mostly rejects."""
    pilot, effect = visits(SHOP, 150, 10), 0.03 if kind == "row" else 0.06
    plan = somcot.sample_size(
        pilot, effect=effect, kind=kind, discount=DISCOUNT, power=0.9, state="list" if kind == "row" else None
    )
    P, start, inside = np.array(SHOP.transition), np.array(SHOP.initial), [0, 1, 2]
    often = np.zeros(4)
    often[inside] = np.linalg.solve(np.eye(3) - P[:3, :3].T, start[inside])
    often /= often.sum()
    if kind == "initial":
        start = (1 - plan.share) * start + plan.share * often
    else:
        target = np.eye(4)[3] if kind == "exits" else often @ P
        rows = [SHOP.states.index("list")] if kind == "row" else inside
        P[rows] = (1 - plan.share) * P[rows] + plan.share * target
    changed = MarkovChain(P, start, states=SHOP.states)
    assert somcot.distance(SHOP, changed, discount=DISCOUNT).distance == pytest.approx(effect, rel=0.3)
    n = plan.n_sequences
    found = [
        somcot.same_process(visits(SHOP, n, 2 * k), visits(changed, n, 2 * k + 1), discount=DISCOUNT) for k in range(15)
    ]
    assert sum(test.pvalue <= 0.05 for test in found) >= 8


def test_a_plan_is_plotted(plan: SampleSize) -> None:
    ax = plan.plot()
    assert ax.get_xlabel()
    assert len(ax.lines) >= 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"effect": 0}, "effect: found 0"),
        ({"effect": float("nan")}, "effect: found nan"),
        ({"effect": 0.9}, "effect: found 0.9, but a change of kind 'rows' reaches"),
        ({"power": 1.0}, "power: found 1.0"),
        ({"confidence": 0.2}, "confidence: found 0.2"),
        ({"confidence": 0.999}, "confidence: found 0.999"),
        ({"kind": "row and column"}, "kind: found 'row and column'"),
        ({"kind": "row", "state": "nowhere"}, "state: 'nowhere' is not a state"),
        ({"state": "home"}, "state: only for kind 'row'"),
        ({"cost": 10**400}, "cost: "),
        ({"cost": np.full((5, 5), np.nan)}, "cost: "),
    ],
)
def test_bad_plans(pilot: Samples, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        somcot.sample_size(pilot, **{"effect": 0.1, "discount": DISCOUNT, **options})


def test_bad_pilots(pilot: Samples) -> None:
    with pytest.raises(ValueError, match="pilot: found 5 sequences, expected at least 10"):
        somcot.sample_size(pilot.take(np.arange(5)), effect=0.1)
    with pytest.raises(TypeError, match="pilot: found MarkovChain"):
        somcot.sample_size(SHOP, effect=0.1)  # type: ignore[arg-type]
    endless = Samples.from_trajectories([["a", "b", "a", "a"]] * 12)
    with pytest.raises(ValueError, match="kind: 'exits' needs sequences that terminated"):
        somcot.sample_size(endless, effect=0.1, kind="exits")
