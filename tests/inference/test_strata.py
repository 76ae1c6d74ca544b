"""Strata and pairs against plain recomputation: weights, permutations, half-samples, and what is refused."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import Counts, Samples, Trajectories
from somcot.inference.strata import Strata, strata_of
from somcot.inference.units import WholeSequences
from somcot.plumbing.notes import codes
from somcot.report.sentences import mix_in_words

# A mixture of tasks has memory, which the estimate reports.
pytestmark = pytest.mark.filterwarnings("ignore::somcot.DataWarning")

DISCOUNT = 0.9
KERNELS = {"easy": [[0.8, 0.2], [0.3, 0.7]], "hard": [[0.2, 0.8], [0.7, 0.3]]}


def recorded(tasks: list[str], seed: int, change: float = 0.0) -> Samples:
    """One sequence of 15 steps for each task; `change` moves the row of "b" of easy tasks."""
    rng = np.random.default_rng(seed)
    sequences = []
    for task in tasks:
        P = np.array(KERNELS[task])
        if task == "easy":
            P[1] += np.array([change, -change])
        at, path = 0, [0]
        for _ in range(15):
            at = int(rng.random() >= P[at, 0])
            path.append(at)
        sequences.append(["ab"[k] for k in path])
    return replace(Samples.from_trajectories(sequences), episode_attributes={"task": np.array(tasks, dtype=object)})


def mixed(n_easy: int, n_hard: int, seed: int, change: float = 0.0) -> Samples:
    return recorded(["easy"] * n_easy + ["hard"] * n_hard, seed, change)


def plain_chain(samples: Samples, weights: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Weighted counts in plain Python: rows and initial distribution on the states a and b."""
    counts: dict[tuple[str, str], float] = defaultdict(float)
    first: dict[str, float] = defaultdict(float)
    assert samples.offsets is not None
    for k, weight in enumerate(weights):
        steps = range(samples.offsets[k], samples.offsets[k + 1])
        first[samples.states[samples.now[steps[0]]]] += weight
        for t in steps:
            counts[samples.states[samples.now[t]], samples.states[samples.following[t]]] += weight
    rows = np.array([[counts[i, j] for j in "ab"] for i in "ab"])
    start = np.array([first[i] for i in "ab"])
    return rows / rows.sum(axis=1, keepdims=True), start / start.sum()


# --- Weights and estimates


def test_weights_give_every_recording_the_mix_of_all() -> None:
    x, y = mixed(3, 1, 0), mixed(2, 4, 1)
    strata = strata_of((x, y), "task", None)
    assert strata is not None
    for recording, n in ((0, 4), (1, 6)):
        weights = strata.of_sequences(recording)
        tasks = (x, y)[recording].episode_attributes["task"]
        shares = {task: weights[tasks == task].sum() / weights.sum() for task in ("easy", "hard")}
        assert shares == pytest.approx({"easy": 0.5, "hard": 0.5})  # (3 + 2) of 10
        assert weights.sum() == pytest.approx(n)
    assert (strata.name, strata.paired, strata.labels) == ("task", False, ("easy", "hard"))


def test_the_plug_in_is_the_distance_of_the_weighted_chains() -> None:
    x, y = mixed(30, 10, 2), mixed(10, 25, 3, 0.3)
    strata = strata_of((x, y), "task", None)
    assert strata is not None
    result = somcot.distance(x, y, discount=DISCOUNT, strata="task", confidence=0.9)
    sides = [plain_chain(side, strata.of_sequences(k).tolist()) for k, side in enumerate((x, y))]
    chains = [somcot.MarkovChain(P, start, states=["a", "b"]) for P, start in sides]
    exact = somcot.distance(chains[0], chains[1], discount=DISCOUNT).distance
    assert result.plugin == pytest.approx(exact, abs=1e-9)
    assert result.estimate is not None
    assert result.estimate.mix is not None
    plain = [somcot.MarkovChain(*plain_chain(side, [1.0] * side.n_episodes), states=["a", "b"]) for side in (x, y)]
    unweighted = somcot.distance(plain[0], plain[1], discount=DISCOUNT).distance
    assert result.estimate.mix == pytest.approx(unweighted - exact, abs=1e-9)
    assert result.estimate.strata == 2


def test_a_different_mix_is_no_difference_of_behaviour() -> None:
    x, y = mixed(140, 60, 4), mixed(60, 140, 5)
    assert somcot.same_process(x, y, discount=DISCOUNT).pvalue <= 0.05
    test = somcot.same_process(x, y, discount=DISCOUNT, strata="task", margin=0.06)
    assert test.pvalue > 0.05
    assert test.verdict == "equivalent"
    assert test.distance is not None
    assert test.distance.estimate is not None
    assert test.distance.estimate.mix is not None
    assert test.distance.estimate.mix > 0.08


def test_equal_mixes_add_exactly_nothing() -> None:
    """Rounding errors were reported where the distance is 0: "the mix of strata would hide 1.527e-16"."""
    walk = somcot.MarkovChain(np.random.default_rng(2).dirichlet(np.ones(7), size=7))
    tasks = np.array(list(range(30)) * 2, dtype=object)
    x, y = (replace(walk.sample(60, 9, rng=20 + k), episode_attributes={"task": tasks}) for k in (0, 1))
    result = somcot.distance(x, y, discount=DISCOUNT, strata="task", rng=0)
    assert result.estimate is not None
    assert (result.distance, result.estimate.mix) == (0.0, 0.0)
    assert mix_in_words(0.0, result.estimate.mix) == "0.0000 is behaviour, as the mix of strata adds nothing"


def test_a_mix_can_hide_a_difference() -> None:
    """Easy tasks visit b more often in y, and y has fewer hard ones, which visit it most: the two nearly cancel."""
    rng = np.random.default_rng(6)

    def visits(*parts: tuple[str, int, float]) -> Samples:
        tasks = [task for task, n, _ in parts for _ in range(n)]
        rates = [rate for _, n, rate in parts for _ in range(n)]
        sequences = [["ab"[int(rng.random() < rate)] for _ in range(16)] for rate in rates]
        return replace(Samples.from_trajectories(sequences), episode_attributes={"task": np.array(tasks, object)})

    x, y = visits(("easy", 100, 0.2), ("hard", 100, 0.8)), visits(("easy", 170, 0.5), ("hard", 30, 0.8))
    assert somcot.same_process(x, y, discount=DISCOUNT, strata="task").pvalue <= 0.05
    result = somcot.distance(x, y, discount=DISCOUNT, strata="task")
    assert result.estimate is not None
    assert result.estimate.mix is not None
    assert result.estimate.mix < -0.05
    assert "would hide" in mix_in_words(result.distance, result.estimate.mix)


def test_labels_and_attributes_are_the_same() -> None:
    x, y = mixed(20, 15, 8), mixed(12, 20, 9)
    by_name = somcot.distance(x, y, discount=DISCOUNT, strata="task", confidence=0.9)
    labels = tuple(side.episode_attributes["task"].tolist() for side in (x, y))
    assert somcot.distance(x, y, discount=DISCOUNT, strata=labels, confidence=0.9).distance == by_name.distance
    tuples = tuple([(task, 1) for task in side] for side in labels)  # labels need not be text
    by_tuples = somcot.distance(x, y, discount=DISCOUNT, strata=tuples, confidence=0.9)
    assert by_tuples.confidence_interval == by_name.confidence_interval


# --- Permutations


def test_permutations_keep_the_recordings_of_every_stratum() -> None:
    x, y = mixed(5, 3, 10), mixed(2, 6, 11)
    strata = strata_of((x, y), "task", None)
    assert strata is not None
    observed = np.repeat([0, 1], [8, 8])
    seen = set()
    for seed in range(300):
        grouping = strata.permuted(observed, np.random.default_rng(seed))
        sizes = [np.bincount(strata.pooled[grouping == g], minlength=2).tolist() for g in (0, 1)]
        assert sizes == strata.sizes.tolist()
        seen.add(tuple(grouping))
    assert len(seen) > 200
    # C(7, 5) C(9, 3) ways
    assert strata.n_permutations == 21 * 84


def test_permutations_within_strata_are_uniform() -> None:
    codes = (np.array([0, 0, 1]), np.array([0, 1]))
    strata = Strata.of(codes, ("u", "v"), paired=False, name=None)
    observed = np.array([0, 0, 0, 1, 1])
    draws = Counter(tuple(strata.permuted(observed, np.random.default_rng(seed))) for seed in range(3000))
    assert len(draws) == strata.n_permutations == 6
    assert min(draws.values()) > 420  # 500 each, standard deviation 20
    assert max(draws.values()) < 580


@pytest.mark.parametrize("argument", ["strata", "paired_by"])
def test_the_pvalue_is_that_of_all_permutations(argument: str) -> None:
    """All 2^8 (pairs) or 70^2 (strata) permutations, with chi-squared in plain Python."""
    if argument == "strata":
        x, y = mixed(4, 4, 12), mixed(4, 4, 13, 0.6)
        labels: list[list[Any]] = [["easy"] * 4 + ["hard"] * 4] * 2
    else:
        x, y = mixed(8, 0, 12), mixed(8, 0, 13, 0.5)
        labels = [list(range(8))] * 2
    design: dict[str, Any] = {argument: (labels[0], labels[1])}
    test = somcot.same_process(x, y, statistic="pearson", n_permutations=1999, **design)
    every = [(side, k) for side in (x, y) for k in range(side.n_episodes)]
    tasks = [*labels[0], *labels[1]]
    counts = [np.zeros((3, 2)) for _ in every]
    for table, (side, k) in zip(counts, every, strict=True):
        assert side.offsets is not None
        for t in range(side.offsets[k], side.offsets[k + 1]):
            table["ab".index(side.states[side.now[t]]), "ab".index(side.states[side.following[t]])] += 1
        table[2, "ab".index(side.states[side.now[side.offsets[k]]])] += 1

    def chi(chosen: set[int]) -> float:
        tables, inside = np.array(counts), np.array([k in chosen for k in range(len(every))])
        one, two = tables[inside].sum(axis=0), tables[~inside].sum(axis=0)
        both, value = one + two, 0.0
        for own in (one, two):
            expected = both * (own.sum(axis=1) / np.maximum(both.sum(axis=1), 1))[:, None]
            value += float(((own - expected) ** 2 / np.where(expected > 0, expected, 1)).sum())
        return value

    places = {task: [k for k, own in enumerate(tasks) if own == task] for task in set(tasks)}
    halves = [itertools.combinations(own, len(own) // 2) for own in places.values()]
    values = [chi(set(itertools.chain(*parts))) for parts in itertools.product(*halves)]
    observed = chi(set(range(x.n_episodes)))
    assert test.statistic == pytest.approx(observed)
    exact = np.mean([value >= observed * (1 - 1e-9) for value in values])
    if test.stopped_early:
        assert test.pvalue == pytest.approx(exact, rel=0.6)
    else:
        assert test.pvalue == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 1999) + 1 / 2000)


def test_three_recordings_are_permuted_within_strata() -> None:
    recordings = [mixed(30, 10, 14), mixed(10, 30, 15), mixed(20, 20, 16)]
    assert somcot.same_process(recordings, discount=DISCOUNT).pvalue <= 0.05
    assert somcot.same_process(recordings, discount=DISCOUNT, strata="task").pvalue > 0.05
    changed = [*recordings[:2], mixed(20, 20, 16, 0.5)]
    assert somcot.same_process(changed, discount=DISCOUNT, strata="task").pvalue <= 0.05


# --- Half-samples


def test_half_samples_keep_the_mix_and_have_half_of_the_counts() -> None:
    x, y = mixed(7, 4, 17), mixed(5, 9, 18)
    strata = strata_of((x, y), "task", None)
    engine = WholeSequences.of([x, y], strata=strata)
    whole, halves = engine.counts(engine.observed), engine.halve(0, 6)
    # The initial row counts sequences: both halves have half of the weight of each recording.
    starts = slice(engine.support.indptr[-2], None)
    assert halves[:, :, starts].sum(axis=2) == pytest.approx(np.tile(whole[:, starts].sum(axis=1) / 2, (12, 1)))
    assert strata is not None
    for members, recording in ((np.arange(11), 0), (np.arange(11, 25), 1)):
        factors = strata.halves(members, 6, np.random.default_rng(0))
        weights = factors * strata.of_sequences(recording)
        easy = strata.pooled[members] == 0
        assert weights[:, easy].sum(axis=1) / weights.sum(axis=1) == pytest.approx(np.full(12, 12 / 25))
        assert ((factors[::2] > 0) != (factors[1::2] > 0)).all()  # the two halves share nothing


def test_strata_of_one_sequence_are_halved_together() -> None:
    codes = np.arange(6)
    strata = Strata.of((codes, codes), tuple("uvwxyz"), paired=False, name=None)
    factors = strata.halves(np.arange(6), 50, np.random.default_rng(0))
    assert (factors.sum(axis=1) == 3).all()
    assert set(np.unique(factors)) == {0.0, 1.0}
    lone = Strata.of((np.array([0, 0, 0, 1]), np.array([0, 1])), ("u", "v"), paired=False, name=None)
    factors = lone.halves(np.arange(4), 50, np.random.default_rng(0))
    assert set(factors[:, 3]) == {0.0, 1.0}  # in one half or the other, on average with half of its weight
    assert (factors[::2, 3] + factors[1::2, 3] == 1.0).all()
    assert (factors[:, :3].sum(axis=1) == 1.5).all()  # one of three counts one and a half times, two three quarters


def test_half_samples_of_pairs_have_the_same_tasks_on_both_sides() -> None:
    tasks = np.arange(9)
    strata = Strata.of((tasks, tasks), tuple(range(9)), paired=True, name=None)
    sides = [strata.halves(tasks + 9 * g, 20, np.random.default_rng(3)) for g in (0, 1)]
    assert (sides[0] == sides[1]).all()
    assert set(sides[0].sum(axis=1)) == {4.0, 5.0}


def test_pairs_find_a_change_that_the_tasks_would_hide() -> None:
    rng = np.random.default_rng(19)
    sides: list[list[list[str]]] = [[], []]
    for _ in range(60):
        rate = rng.choice([0.1, 0.8])  # of going to b; 0.1 more on the other side of the same task
        for k, side in enumerate(sides):
            side.append(["a", *("ba"[int(rng.random() > rate + 0.1 * k)] for _ in range(20))])
    x, y = (Samples.from_trajectories(side) for side in sides)
    labels = (list(range(60)), list(range(60)))
    alone = somcot.distance(x, y, discount=DISCOUNT, confidence=0.9)
    pairs = somcot.distance(x, y, discount=DISCOUNT, confidence=0.9, paired_by=labels)
    assert alone.estimate is not None
    assert pairs.estimate is not None
    assert alone.estimate.pvalue is not None
    assert pairs.estimate.pvalue is not None
    assert pairs.estimate.expected is not None
    assert alone.estimate.expected is not None
    assert pairs.estimate.expected < 0.7 * alone.estimate.expected  # what the tasks have in common cancels
    assert pairs.estimate.standard_error < alone.estimate.standard_error
    assert pairs.estimate.pvalue <= 0.05 < alone.estimate.pvalue


# --- Many


def test_a_matrix_has_the_distances_of_its_pairs() -> None:
    logs = {"a": mixed(20, 10, 20), "b": mixed(10, 20, 21), "c": mixed(15, 15, 22, 0.4)}
    table = somcot.distance_matrix(logs, discount=DISCOUNT, strata="task", tests="bh")
    for i, j in itertools.combinations(range(3), 2):
        x, y = list(logs.values())[i], list(logs.values())[j]
        single = somcot.distance(x, y, discount=DISCOUNT, strata="task", confidence=0.9, rng=0)
        assert table.plugin[i, j] == pytest.approx(single.plugin)
    assert np.isfinite(table.pvalues[np.triu_indices(3, 1)]).all()
    labels = {name: log.episode_attributes["task"].tolist() for name, log in logs.items()}
    by_labels = somcot.distance_matrix(logs, discount=DISCOUNT, strata=labels, tests="bh")
    assert (by_labels.values == table.values).all()
    plain = somcot.distance_matrix(logs, discount=DISCOUNT)
    assert (plain.plugin[0, 1] > table.plugin[0, 1]).all()


def test_a_matrix_notices_other_labels_in_its_checkpoint(tmp_path: Any) -> None:
    """Labels in the middle of more than a thousand sequences count as well."""
    short = [["a", "b"], ["a", "a"], ["b", "a"]] * 500
    logs = {"x": Samples.from_trajectories(short), "y": Samples.from_trajectories(short[::-1])}
    labels = {name: ["u", "v"] * 750 for name in logs}
    options: dict[str, Any] = {"discount": DISCOUNT, "checkpoint": tmp_path / "matrix"}
    somcot.distance_matrix(logs, strata=labels, **options)
    labels["x"] = [*labels["x"][:700], *labels["x"][701:720], labels["x"][700], *labels["x"][720:]]
    with pytest.raises(ValueError, match="checkpoint"):
        somcot.distance_matrix(logs, strata=labels, **options)


def test_selection_and_drift_take_strata() -> None:
    data, same, other = mixed(40, 20, 23), mixed(20, 40, 24), mixed(40, 20, 25, 0.6)
    chosen = somcot.select_model(data, {"same": same, "other": other}, discount=DISCOUNT, strata="task")
    assert chosen.best == "same"
    labels = {"data": data, "same": same, "other": other}
    by_labels = somcot.select_model(
        data, {"same": same, "other": other}, discount=DISCOUNT,
        strata={name: log.episode_attributes["task"].tolist() for name, log in labels.items()},
    )  # fmt: skip
    assert [row.distance for row in by_labels.table] == [row.distance for row in chosen.table]
    weeks = {"w1": mixed(60, 30, 26), "w2": mixed(30, 60, 27)}
    assert somcot.drift(weeks, discount=DISCOUNT).alarm
    assert not somcot.drift(weeks, discount=DISCOUNT, strata="task").alarm
    of_weeks = {name: log.episode_attributes["task"].tolist() for name, log in weeks.items()}
    assert not somcot.drift(weeks, discount=DISCOUNT, strata=of_weeks).alarm


def test_several_attributes_are_combined() -> None:
    """Strata of two attributes are those of labels that are pairs, in every comparison and for pairs too."""
    logs = {"a": mixed(20, 20, 40), "b": mixed(20, 20, 41), "c": mixed(20, 20, 42, 0.5)}
    models = np.array(["m", "n"] * 20, dtype=object)
    both = {
        name: [*zip(models.tolist(), x.episode_attributes["task"].tolist(), strict=True)] for name, x in logs.items()
    }
    logs = {name: replace(x, episode_attributes={**x.episode_attributes, "model": models}) for name, x in logs.items()}
    a, b, c = logs.values()
    for argument in ("strata", "paired_by"):
        names: Any = {argument: ["model", "task"]}
        labels: Any = {argument: (both["a"], both["c"])}
        one: Any = {argument: "task"}
        runs = [somcot.distance(a, c, discount=DISCOUNT, confidence=0.9, **given) for given in (names, labels, one)]
        assert runs[0].confidence_interval == runs[1].confidence_interval != runs[2].confidence_interval
        tests = [somcot.same_process(a, c, discount=DISCOUNT, **given) for given in (names, labels)]
        assert tests[0].pvalue == tests[1].pvalue
    table = somcot.distance_matrix(logs, discount=DISCOUNT, strata=["model", "task"], confidence=0.9)
    assert table.values[0, 2] == pytest.approx(
        somcot.distance(a, c, discount=DISCOUNT, strata=["model", "task"], confidence=0.9, rng=0).distance
    )
    across = somcot.distance_matrix(
        [a], discount=DISCOUNT, others=[b, c], strata=["model", "task"], confidence=0.9, simultaneous=True
    )
    assert across.values[0, 1] == pytest.approx(table.values[0, 2])
    chosen = somcot.select_model(a, {"b": b, "c": c}, discount=DISCOUNT, strata=["model", "task"])
    assert chosen.best == "b"
    assert somcot.drift(logs, discount=DISCOUNT, strata=["model", "task"]).alarm
    # A combination that only one side has is named.
    with pytest.raises(
        ValueError, match=r"strata: y has no sequence in 2 of 4 strata: \('n', 'easy'\), \('n', 'hard'\)"
    ):
        somcot.same_process(a, b.take(np.arange(0, 40, 2)), discount=DISCOUNT, strata=["model", "task"])
    holes = replace(
        b, episode_attributes={**b.episode_attributes, "model": np.array([None, *models[1:]], dtype=object)}
    )
    with pytest.raises(ValueError, match="1 of 40 sequences of y have no label"):
        somcot.same_process(a, holes, discount=DISCOUNT, strata=["task", "model"])


def test_a_checkpoint_notices_the_second_attribute(tmp_path: Any) -> None:
    def logs(last: str) -> dict[str, Samples]:
        models = np.array(["m", "n"] * 9 + ["m", last], dtype=object)
        about = {"model": models, "task": np.array(["t"] * 20, dtype=object)}
        return {name: replace(mixed(10, 10, k), episode_attributes=about) for k, name in enumerate("ab")}

    options: dict[str, Any] = {"discount": DISCOUNT, "checkpoint": tmp_path / "matrix", "strata": ["task", "model"]}
    somcot.distance_matrix(logs("n"), **options)
    with pytest.raises(ValueError, match="checkpoint"):
        somcot.distance_matrix(logs("m"), **options)


def test_real_vectors_take_labels() -> None:
    def walks(seed: int, slow: int, fast: int) -> Trajectories:
        rng = np.random.default_rng(seed)
        speeds = [0.2] * slow + [2.0] * fast
        return Trajectories.from_arrays([rng.normal(size=(12, 1)) * speed for speed in speeds])

    x, y = walks(0, 30, 10), walks(1, 10, 30)
    labels = (["slow"] * 30 + ["fast"] * 10, ["slow"] * 10 + ["fast"] * 30)
    assert somcot.same_process(x, y, discount=DISCOUNT).pvalue <= 0.05
    assert somcot.same_process(x, y, discount=DISCOUNT, strata=labels).pvalue > 0.05
    with pytest.raises(TypeError, match="strata"):
        somcot.distance(x, y, discount=DISCOUNT, strata=labels)


# --- Refused


@pytest.mark.parametrize(
    ("strata", "error", "words"),
    [
        ((["u"] * 4, ["u"] * 3 + ["v"]), ValueError, "x has no sequence in 1 of 2 strata: 'v'"),
        ((["u"] * 4, ["u"] * 3), ValueError, "3 labels for y, which has 4"),
        ((["u"] * 4, ["u", "u", None, "u"]), ValueError, "1 of 4 sequences of y have no label, the first is number 2"),
        ((["u"] * 4, ["u", "u", float("nan"), "u"]), ValueError, "the first is number 2"),
        ((["u"] * 4, [["u"]] * 4), TypeError, r"the label \['u'\] for y"),
        ((["u"] * 4, "uuuu"), TypeError, "for y"),
        (["u"] * 4, TypeError, "a pair"),
        (7, TypeError, "int"),
        ("country", ValueError, "'country' is no attribute of the sequences of x; it has 'task'"),
        (["task", "country"], ValueError, "'country' is no attribute of the sequences of x; it has 'task'"),
        (["task", "task"], TypeError, "'task', 'task', expected different attributes"),
    ],
)
def test_bad_strata(strata: Any, error: type[Exception], words: str) -> None:
    x, y = mixed(2, 2, 28), mixed(2, 2, 29)
    with pytest.raises(error, match=f"strata: .*{words}"):
        somcot.same_process(x, y, discount=DISCOUNT, strata=strata)
    with pytest.raises(error, match=f"strata: .*{words}"):
        somcot.distance(x, y, discount=DISCOUNT, strata=strata)


@pytest.mark.parametrize("n", [9, 10])
def test_few_tasks_are_noted(n: int) -> None:
    """Counted in tasks, not in sequences: two runs of each on both sides."""
    x, y = mixed(2 * n, 0, 33), mixed(2 * n, 0, 34)
    labels = [k // 2 for k in range(2 * n)]
    result = somcot.distance(x, y, discount=DISCOUNT, confidence=0.9, paired_by=(labels, labels))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        somcot.same_process(x, y, discount=DISCOUNT, paired_by=(labels, labels))
    assert ("few-tasks" in codes(result.notes)) == (n < 10)
    assert any("only 9 tasks" in str(each.message) for each in told) == (n < 10)


def test_bad_pairs() -> None:
    x, y = mixed(3, 0, 30), mixed(3, 0, 31)
    with pytest.raises(ValueError, match="paired_by: x has no sequence in 1 of 4 tasks: 4"):
        somcot.same_process(x, y, discount=DISCOUNT, paired_by=([1, 2, 3], [1, 2, 4]))
    with pytest.raises(ValueError, match="paired_by: found one task"):
        somcot.same_process(x, y, discount=DISCOUNT, paired_by=(["t"] * 3, ["t"] * 3))
    assert strata_of([x, y], None, (["s", "t", "t"], ["s", "s", "t"])) is not None  # two are enough
    with pytest.raises(ValueError, match="paired_by: found together with strata"):
        somcot.same_process(x, y, discount=DISCOUNT, paired_by="task", strata="task")


def test_strata_need_sequences() -> None:
    x = mixed(3, 3, 32)
    for other in (Counts.from_samples(x), x.chain()):
        with pytest.raises(TypeError, match="strata: y is"):
            somcot.distance(x, other, discount=DISCOUNT, strata="task")
    with pytest.raises(ValueError, match="units"):
        somcot.distance(x, x, discount=DISCOUNT, strata="task", units="transitions")
    with pytest.raises(TypeError, match="strata"):
        somcot.distance(x, x, discount=DISCOUNT, strata="task", method="plugin")


def test_errors_of_many_name_the_recording() -> None:
    bare = Samples.from_trajectories([["a", "b", "a"] * 12] * 10)
    with pytest.raises(ValueError, match="strata: 'task' is no attribute of the sequences of w2; it has none"):
        somcot.drift({"w1": mixed(10, 10, 33), "w2": bare}, discount=DISCOUNT, strata="task")
    with pytest.raises(TypeError, match=r"strata: .*'w1', 'w2'"):
        somcot.drift({"w1": bare, "w2": bare}, discount=DISCOUNT, strata={"w1": ["u"] * 10})
    with pytest.raises(ValueError, match=r"candidates\['chain'\]: strata"):
        somcot.select_model(mixed(5, 5, 34), {"chain": bare.chain()}, discount=DISCOUNT, strata="task")
    with pytest.raises(ValueError, match="strata: a candidate is called 'data'"):
        somcot.select_model(bare, {"data": bare}, discount=DISCOUNT, strata={"data": ["u"] * 10})
    failed = somcot.distance_matrix({"a": mixed(5, 5, 35), "b": bare}, discount=DISCOUNT, strata="task")
    assert np.isnan(failed.values[0, 1])
    assert "no attribute" in failed.status[0, 1]
