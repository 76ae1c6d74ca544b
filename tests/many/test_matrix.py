"""Matrices of distances: equal to single distances, equal bits however they are computed, nothing lost."""

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import Counts, MarkovChain, Samples, costs, distance_matrix
from somcot.many import batch, matrix, work
from somcot.many import plan as preparing
from somcot.many import work as ordinary
from somcot.many.plan import MatrixSettings
from somcot.many.record import INTERRUPTED, DistanceMatrix, failure_notes
from somcot.many.work import FIELDS, single_pair
from somcot.plumbing.errors import DataWarning
from somcot.plumbing.records import CheckpointError
from tests.campaign import oracle
from tests.notes import codes, noted

N = 6
COST = np.abs(np.subtract.outer(np.arange(N), np.arange(N))) / (N - 1.0)
WALKS = [somcot.random_walk(N, theta, start=start) for theta in (0.3, 0.5, 0.7) for start in (0, 2)]
DATA = {f"set {i}": walk.sample(60, 40, rng=i) for i, walk in enumerate(WALKS)}


def dense(n: int, seed: int) -> MarkovChain:
    rng = np.random.default_rng(seed)
    return MarkovChain(rng.dirichlet(np.ones(n), n), rng.dirichlet(np.ones(n)))


def same(a: DistanceMatrix, b: DistanceMatrix) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True) for name in FIELDS)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", somcot.UnseenStateWarning)
        warnings.simplefilter("ignore", DataWarning)
        yield


@pytest.mark.parametrize("discount", [0.5, 0.99, 0.999])
def test_known_chains_are_as_far_apart_as_one_by_one(discount: float) -> None:
    uniform = MarkovChain(WALKS[0].transition, np.full(N, 1 / N))
    chains = [*WALKS, uniform, dense(N, 1), dense(N, 2)]
    found = distance_matrix(chains, COST, discount=discount)
    assert found.method == "exact"
    assert not found.n_failed
    for i, x in enumerate(chains):
        assert found.values[i, i] == 0.0
        for j, y in enumerate(chains):
            alone = somcot.distance(x, y, COST, discount=discount)
            assert found.values[i, j] == pytest.approx(alone.distance, abs=1e-12)
            assert found.low[i, j] <= alone.bounds.high
            assert found.high[i, j] >= alone.bounds.low
            assert found.low[i, j] - 1e-15 <= found.values[i, j] <= found.high[i, j] + 1e-15
    assert np.array_equal(found.values, found.values.T)


@pytest.mark.parametrize("discount", [0.3, 0.9, 0.999])
def test_bounds_of_known_chains_hold_the_distance_in_whole_numbers(discount: float) -> None:
    """Not up to rounding: exact rational arithmetic on the stored numbers, for chains with random starts."""
    rng = np.random.default_rng(3)
    chains = [MarkovChain(rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(3))) for _ in range(5)]
    cost = rng.random((3, 3))
    found = distance_matrix(chains, cost, discount=discount)
    for i, x in enumerate(chains):
        for j, y in enumerate(chains):
            low, high = found.low[i, j], found.high[i, j]
            assert oracle.distance(x, y, cost, discount).inside(low, high)
            assert cost.min() <= low <= high <= cost.max()
            assert high - low <= 1e-9


def test_bounds_do_not_leave_the_range_of_the_cost() -> None:
    """Two chains that stay where the cost is largest, and two where it is least."""
    stay = [MarkovChain(np.eye(2), start) for start in (0, 1)]
    found = distance_matrix(stay, 2.0 + np.eye(2), discount=0.9)
    assert found.values.tolist() == [[3.0, 2.0], [2.0, 3.0]]
    assert (found.high <= 3.0).all()
    assert (found.low >= 2.0).all()


def test_tests_need_two_recordings_and_known_words() -> None:
    two = {name: DATA[name] for name in list(DATA)[:2]}
    found = distance_matrix({**two, "known": WALKS[0]}, COST, discount=0.9, tests="by")
    assert np.isfinite(found.pvalues).tolist() == [[False, True, False], [True, False, False], [False] * 3]
    crossed = distance_matrix({"set 0": DATA["set 0"]}, COST, discount=0.9, tests="bh", others={"1": DATA["set 1"]})
    assert np.isfinite(crossed.pvalues).all()
    alone: dict[str, Any] = {"set 0": DATA["set 0"], "known": WALKS[0]}
    for rows, others in ((alone, None), (two, {"known": WALKS[0]})):
        with pytest.raises(ValueError, match="no two processes are Samples"):
            distance_matrix(rows, COST, discount=0.9, tests="bh", others=others)
    for wrong in ("magic", 3, None, ["exact"]):
        with pytest.raises(ValueError, match=r"method: found .* expected one of .auto"):
            distance_matrix(WALKS[:2], COST, discount=0.9, method=wrong)  # type: ignore[arg-type]
    for asked in ("simultaneous", "tests"):
        with pytest.raises(ValueError, match=f"{asked}: needs a discount below 1, found horizon=3"):
            distance_matrix(two, COST, horizon=3, confidence=0.9, **{asked: "bh" if asked == "tests" else True})  # type: ignore[arg-type]


def test_equal_kernels_are_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def counting(lo: int, hi: int, *rest: Any) -> None:
        seen.append(hi - lo)
        batch.compare(lo, hi, *rest)

    monkeypatch.setattr(work, "compare", counting)
    found = distance_matrix(WALKS, COST, discount=0.9)
    assert sum(seen) == 6  # three kernels: six pairs of them, not 21 pairs of chains
    assert not found.n_failed


def test_wide_and_narrow_rows_in_one_problem() -> None:
    """Dense rows of 12 beside rows of one and two entries: both simplices, one answer."""
    cost = np.random.default_rng(0).random((12, 12))
    mixed = []
    for seed in range(3):
        kernel = np.array(dense(12, seed).transition)
        kernel[seed] = np.eye(12)[seed]
        kernel[5] = 0.5 * (np.eye(12)[1] + np.eye(12)[7])
        mixed.append(MarkovChain(kernel, dense(12, seed).initial))
    found = distance_matrix(mixed, cost, discount=0.95)
    for i, x in enumerate(mixed):
        for j, y in enumerate(mixed):
            alone = somcot.distance(x, y, cost, discount=0.95).distance
            assert found.values[i, j] == pytest.approx(alone, abs=1e-12)
    data = [chain.sample(60, 40, rng=k) for k, chain in enumerate(mixed)]
    both = distance_matrix(data, cost, discount=0.95, confidence=0.9)
    one = somcot.distance(data[0], data[1], cost, discount=0.95, confidence=0.9)
    assert both.plugin[0, 1] == pytest.approx(one.plugin, abs=1e-12)
    assert one.estimate is not None
    assert both.standard_error[0, 1] == pytest.approx(one.estimate.standard_error, rel=1e-6)


def test_costs_that_are_not_symmetric_and_rectangles() -> None:
    cost = COST + np.triu(np.ones((N, N)))
    found = distance_matrix(WALKS[:3], cost, discount=0.8)
    assert not found.symmetric
    across = distance_matrix(WALKS[:3], cost, discount=0.8, others={"a": WALKS[4], "b": dense(N, 3)})
    for i in range(3):
        for j in range(3):
            alone = somcot.distance(WALKS[i], WALKS[j], cost, discount=0.8).distance
            assert found.values[i, j] == pytest.approx(alone, abs=1e-12)
        for j, y in enumerate((WALKS[4], dense(N, 3))):
            alone = somcot.distance(WALKS[i], y, cost, discount=0.8).distance
            assert across.values[i, j] == pytest.approx(alone, abs=1e-12)
    assert (across.shape, across.other_labels) == ((3, 2), ("a", "b"))


def test_states_of_their_own_and_in_any_order() -> None:
    x = MarkovChain([[0.5, 0.5, 0], [0, 0.5, 0.5], [1, 0, 0]], states=list("abc"))
    turned = MarkovChain([[0, 1, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]], "a", states=list("cab"))
    larger = dense(4, 0)
    larger = MarkovChain(larger.transition, larger.initial, states=list("abcd"))
    found = distance_matrix([x, turned, larger], discount=0.9)
    assert found.values[0, 1] == 0.0
    alone = somcot.distance(turned, larger, costs.labels(turned.states, larger.states), discount=0.9)
    assert found.values[1, 2] == pytest.approx(alone.distance, abs=1e-12)
    data = [chain.sample(80, 20, rng=k) for k, chain in enumerate((x, turned, larger))]
    both = distance_matrix(data, discount=0.9, confidence=0.9)
    for i in range(3):
        for j in range(i + 1, 3):
            one = somcot.distance(data[i], data[j], discount=0.9)
            assert one.plugin is not None
            assert both.plugin[i, j] == pytest.approx(one.plugin, abs=1e-12)


def test_large_problems_take_the_ordinary_way() -> None:
    chains = [somcot.random_walk(60, theta) for theta in (0.4, 0.5)]
    cost = np.abs(np.subtract.outer(np.arange(60), np.arange(60))) / 59
    found = distance_matrix(chains, cost, discount=0.9)
    assert found.values[0, 1] == somcot.distance(chains[0], chains[1], cost, discount=0.9).distance
    assert found.values[0, 0] == 0.0


def test_data_get_what_a_single_distance_gets() -> None:
    few = {name: DATA[name] for name in ("set 0", "set 1", "set 4")}
    mixed: dict[str, Any] = {**few, "known": WALKS[1], "counted": Counts.from_samples(DATA["set 4"])}
    found = distance_matrix(mixed, COST, discount=0.9, confidence=0.9, rng=3, threads=2)
    assert found.confidence == 0.9
    names = list(mixed)
    for i, x in enumerate(names):
        assert found.values[i, i] == 0.0
        for j in range(i + 1, len(names)):
            one = somcot.distance(mixed[x], mixed[names[j]], COST, discount=0.9, confidence=0.9, rng=3, threads=1)
            assert one.estimate is not None
            assert one.confidence_interval is not None
            expected = (one.distance, one.plugin, *one.confidence_interval[:2], one.estimate.standard_error)
            cell = (f[i, j] for f in (found.values, found.plugin, found.low, found.high, found.standard_error))
            assert tuple(map(float, cell)) == expected
    assert found.values[names.index("set 4"), names.index("counted")] == 0.0


def test_pvalues_of_a_matrix_are_those_of_its_intervals() -> None:
    sets = [DATA[name] for name in ("set 0", "set 1", "set 2")]
    found = distance_matrix(sets, discount=0.9, confidence=0.9, tests="bh")
    upper = np.triu_indices(3, 1)
    assert ((found.pvalues <= 0.05) == (found.low > 0.0))[upper].all()


def test_intervals_that_hold_together_are_wider() -> None:
    sets = [*list(DATA.values())[:3], WALKS[2].sample(60, 40, rng=77)]
    one, all_ = (distance_matrix(sets, COST, discount=0.9, confidence=0.9, simultaneous=s) for s in (False, True))
    off = ~np.eye(len(sets), dtype=bool)
    assert ((all_.low <= one.values) & (one.values <= all_.high))[off].all()
    assert (all_.high - all_.low >= one.high - one.low)[off].all()
    assert (all_.high > one.high)[off].any()
    assert (all_.plugin == one.plugin)[off].all()


def test_the_joint_bar_is_the_largest_distance_over_common_permutations() -> None:
    """Of six recordings of one process, no pair is above its bar but for one set of permutations in twenty."""
    walk, above = WALKS[3], 0
    for seed in range(30):
        sets = {k: walk.sample(12, 10, rng=100 * seed + k) for k in range(4)}
        settings = MatrixSettings(0.9, "auto", 0.9, simultaneous=True, tests=None, seed=seed)
        plan = preparing.prepare(sets, "labels", settings)
        assert set(plan.bars) == {(i, j) for i in range(4) for j in range(i + 1, 4)}
        above += any(bar.exceeded for bar in plan.bars.values())
        assert all(bar.exceeded == (bar.observed > bar.level) for bar in plan.bars.values())
    assert above <= 6  # 5 %: seven or more of 30 in one case of 2,000


@pytest.mark.parametrize("threads", [2, 4])
def test_equal_bits_for_any_number_of_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed: list[Any] = [*WALKS, *DATA.values()]
    one = distance_matrix(mixed, COST, discount=0.9, confidence=0.9, threads=1)
    monkeypatch.setattr(matrix, "_CHUNK", 0.005)
    assert same(one, distance_matrix(mixed, COST, discount=0.9, confidence=0.9, threads=threads))


@pytest.mark.parametrize("chunk", [1e-6, 0.004, 100.0])
def test_equal_bits_for_any_chunk(chunk: float, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed: list[Any] = [*WALKS[:3], *list(DATA.values())[:4]]
    one = distance_matrix(mixed, COST, discount=0.9, confidence=0.9, threads=1)
    monkeypatch.setattr(matrix, "_CHUNK", chunk)
    monkeypatch.setattr(work, "_SLICE", 1 if chunk < 1e-3 else 10**9)
    assert same(one, distance_matrix(mixed, COST, discount=0.9, confidence=0.9, threads=1))


def test_a_cell_does_not_depend_on_the_others() -> None:
    few = distance_matrix(list(DATA.values())[:2], COST, discount=0.9, confidence=0.9)
    many = distance_matrix(DATA, COST, discount=0.9, confidence=0.9)
    assert few.values[0, 1] == many.values[0, 1]
    assert few.high[0, 1] == many.high[0, 1]


def test_seeds() -> None:
    a, b, c = (distance_matrix(DATA, COST, discount=0.9, rng=seed) for seed in (1, 1, 2))
    assert same(a, b)
    assert not same(a, c)


def test_plugin_and_other_methods() -> None:
    found = distance_matrix(DATA, COST, discount=0.9, method="plugin")
    auto = distance_matrix(DATA, COST, discount=0.9)
    assert found.values == pytest.approx(auto.plugin, abs=1e-12)
    assert np.isnan(found.low[0, 1])
    lp = distance_matrix(WALKS[:2], COST, discount=0.9, method="lp")
    assert lp.values[0, 1] == pytest.approx(somcot.distance(WALKS[0], WALKS[1], COST, discount=0.9).distance, abs=1e-6)


def test_features_and_functions() -> None:
    rng = np.random.default_rng(0)
    sets = [
        Samples.from_trajectories(
            rng.integers(0, 2, (30, 20)).tolist(), rewards=(rng.random((30, 20)) + k).tolist(), states=[0, 1]
        )
        for k in range(3)
    ]
    found = distance_matrix(sets, "features", discount=0.5, confidence=0.9)
    one = somcot.distance(sets[0], sets[1], "features", discount=0.5, confidence=0.9)
    assert found.plugin[0, 1] == pytest.approx(one.plugin, abs=1e-12)
    by_function = distance_matrix(WALKS[:3], lambda x, y: COST, discount=0.9)
    assert by_function.symmetric
    assert by_function.values == pytest.approx(distance_matrix(WALKS[:3], COST, discount=0.9).values, abs=1e-12)


def test_one_failing_pair_is_its_own_affair() -> None:
    def picky(x: Any, y: Any) -> Any:
        if x is WALKS[0] and y is WALKS[2]:
            raise RuntimeError("no price for these two")
        return COST

    found = distance_matrix(WALKS[:3], picky, discount=0.9)
    assert found.n_failed == 1
    assert found.status[0, 2] == "RuntimeError: no price for these two"
    assert found.status[0, 1] == ""
    with pytest.raises(ValueError, match=r"1 pair.s. have no distance .* leave those out"):
        found.linkage()
    bad = Samples.from_trajectories([[0, 1], [1, 0]], states=range(N), terminated=[True, False])
    broken = Samples(bad.states, bad.now, bad.following, bad.offsets, bad.terminated, stationary=True)
    rest = distance_matrix({"good": DATA["set 0"], "fine": DATA["set 1"], "bad": broken}, COST, discount=0.9)
    assert np.isfinite(rest.values[0, 1])


def test_what_cannot_be_compared_is_refused() -> None:
    for bad, error, message in (
        ([], ValueError, "processes: empty"),
        ([WALKS[0]], ValueError, "processes: found one, expected at least two"),
        (WALKS[0], TypeError, "found one MarkovChain, expected several"),
        (7, TypeError, "processes: found int"),
        ([WALKS[0], np.eye(3)], TypeError, r"processes\[1\]: found ndarray.*MarkovChain\(matrix\)"),
        ([("a", WALKS[0]), ("a", WALKS[1])], ValueError, "the label 'a' occurs twice"),
        ([WALKS[0], somcot.random_walk(3)], ValueError, "cost: an array is for processes with the same states"),
    ):
        with pytest.raises(error, match=message):
            distance_matrix(bad, COST, discount=0.9)  # type: ignore[arg-type]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"cost": np.eye(3)}, "cost: shape is"),
        ({"cost": "nonsense"}, "cost: found 'nonsense'"),
        ({"discount": 1.5}, "discount"),
        ({"method": "none"}, "method: found 'none'"),
        ({"tests": "all"}, "tests: found 'all'"),
        ({"confidence": 2.0}, "confidence"),
        ({"others": []}, "others: empty"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            distance_matrix(WALKS, **{"cost": COST, "discount": 0.9, **options})
    with pytest.raises(TypeError, match="client: found str"):
        distance_matrix(WALKS, COST, discount=0.9, client="tcp://nowhere")


def test_pvalues_corrected_for_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordinary, "_PERMUTATIONS", 99)
    from scipy.stats import false_discovery_control

    sets = [walk.sample(15, 20, rng=k) for k, walk in enumerate((WALKS[0], WALKS[0], WALKS[5]))]
    found = distance_matrix(sets, COST, discount=0.9, tests="bh")
    upper = np.triu_indices(3, 1)
    assert len(set(found.pvalues[upper])) > 1
    assert found.adjusted[upper] == pytest.approx(false_discovery_control(found.pvalues[upper]))
    assert found.pvalues[0, 2] == 0.01
    assert np.isnan(found.adjusted[0, 0])
    careful = distance_matrix(sets, COST, discount=0.9, tests="by")
    assert careful.adjusted[upper] == pytest.approx(false_discovery_control(found.pvalues[upper], method="by"))


class StoppedError(Exception):
    pass


def interrupt_after(monkeypatch: pytest.MonkeyPatch, n: int, error: type[BaseException]) -> None:
    calls = iter(range(10**6))

    def some(*arguments: Any) -> Any:
        if next(calls) >= n:
            raise error
        return work.run(*arguments)

    monkeypatch.setattr(matrix, "run", some)
    monkeypatch.setattr(matrix, "_CHUNK", 0.005)


def test_ctrl_c_keeps_what_is_done_and_a_later_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask: dict[str, Any] = {"cost": COST, "discount": 0.9, "confidence": 0.9, "threads": 1}
    whole = distance_matrix(DATA, **ask)
    path = tmp_path / "d.ck"
    with monkeypatch.context() as patch:
        interrupt_after(patch, 2, KeyboardInterrupt)
        part = distance_matrix(DATA, checkpoint=path, **ask)
    assert part.interrupted
    missing = np.isnan(part.values)
    assert 0 < missing.sum() < missing.size
    assert np.array_equal(part.values[~missing], whole.values[~missing])
    assert set(part.status[missing]) == {"not computed: interrupted"}
    rest = distance_matrix(DATA, checkpoint=path, **ask)
    assert same(rest, whole)
    assert not rest.interrupted
    with monkeypatch.context() as patch:
        interrupt_after(patch, 0, StoppedError)
        assert same(distance_matrix(DATA, checkpoint=path, **ask), whole)  # nothing is left to do
    for other in ({"discount": 0.8}, {"rng": 5}, {"confidence": 0.8}, {"cost": 2 * COST}):
        with pytest.raises(CheckpointError, match="other processes or options"):
            distance_matrix(DATA, checkpoint=path, **{**ask, **other})
    with pytest.raises(CheckpointError, match="other processes or options"):
        distance_matrix({**DATA, "set 0": DATA["set 1"]}, checkpoint=path, **ask)
    with pytest.raises(ValueError, match="exists already; pass resume=True"):
        distance_matrix(DATA, checkpoint=path, resume=False, **ask)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(CheckpointError, match="damaged"):
        distance_matrix(DATA, checkpoint=path, **ask)


def test_a_checkpoint_knows_costs_and_episodes(tmp_path: Path) -> None:
    """Same counts, other prices or other episodes: another run."""
    path = tmp_path / "d.ck"
    price = 1.0

    def priced(x: Any, y: Any) -> Any:
        return price * COST

    distance_matrix(WALKS[:3], priced, discount=0.9, checkpoint=path)
    price = 2.0
    with pytest.raises(CheckpointError, match="other processes or options"):
        distance_matrix(WALKS[:3], priced, discount=0.9, checkpoint=path)
    path.unlink()
    rewarded = [
        [Samples.from_trajectories([[0, 1, 0]] * 9, rewards=[[r, 2.0, r]] * 9), Samples.from_trajectories(
            [[0, 1, 0]] * 9, rewards=[[0.0, 1.0, 0.0]] * 9)]
        for r in (0.0, 1.0)
    ]  # fmt: skip
    distance_matrix(rewarded[0], "features", discount=0.9, checkpoint=path)
    with pytest.raises(CheckpointError, match="other processes or options"):
        distance_matrix(rewarded[1], "features", discount=0.9, checkpoint=path)
    path.unlink()
    one, other = Samples.from_trajectories([[0, 1, 0], [0, 0]]), Samples.from_trajectories([[0, 1, 0], [0, 0]][::-1])
    distance_matrix([one, one], discount=0.9, checkpoint=path)
    with pytest.raises(CheckpointError, match="other processes or options"):
        distance_matrix([one, other], discount=0.9, checkpoint=path)


def test_checkpoints_that_cannot_be_written_are_refused_first(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "d.ck"):
        with pytest.raises(ValueError, match=r"checkpoint: cannot write .* folder that exists"):
            distance_matrix(WALKS, COST, discount=0.9, checkpoint=path)
    with pytest.raises(TypeError, match="checkpoint: found 7"):
        distance_matrix(WALKS, COST, discount=0.9, checkpoint=7)  # type: ignore[arg-type]


def test_names_of_costs_that_some_pairs_do_not_know() -> None:
    import networkx as nx

    from somcot import readers

    graphs = [nx.path_graph(4), nx.star_graph(3), nx.cycle_graph(4)]
    for graph in (graphs[0], graphs[2]):
        nx.set_node_attributes(graph, 1.0, "load")
    nx.set_node_attributes(graphs[0], {0: 3.0}, "load")
    found = distance_matrix([readers.from_graph(g) for g in graphs], "attribute:load", discount=0.9)
    assert np.isfinite(found.values[0, 2])
    assert np.isnan(found.values[0, 1])
    assert "load" in found.status[0, 1]


def test_intervals_and_tests_only_where_there_are_data() -> None:
    assert distance_matrix(WALKS[:2], COST, discount=0.9, confidence=0.9).confidence is None
    with pytest.raises(ValueError, match=r"tests: .* no two processes are Samples"):
        distance_matrix(WALKS[:2], COST, discount=0.9, tests="bh")
    with pytest.raises(ValueError, match=r"simultaneous: .* pass confidence"):
        distance_matrix(DATA, COST, discount=0.9, simultaneous=True)
    with noted("no-interval", method="'exact'"):
        found = distance_matrix(DATA, COST, discount=0.9, method="exact", confidence=0.9)
    assert np.isnan(found.low).all()
    assert found.confidence is None
    with pytest.raises(TypeError, match=r"processes: found the label \[1\]"):
        distance_matrix([([1], WALKS[0]), ([2], WALKS[1])], COST, discount=0.9)  # type: ignore[list-item]


def test_what_did_not_converge_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*arguments: Any, **options: Any) -> Any:
        return somcot.distance(*arguments, **{**options, "max_sweeps": 1})

    monkeypatch.setattr(ordinary, "distance", short)
    found = distance_matrix(WALKS[:2], COST, discount=0.9, method="sinkhorn")
    assert found.status[0, 1].startswith("step limit")
    assert np.isfinite(found.values[0, 1])


def test_a_full_disk_costs_the_file_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("somcot.plumbing.records.write_arrays", full)
    with noted("checkpoint-not-written", reason="No space left on device"):
        found = distance_matrix(WALKS, COST, discount=0.9, checkpoint=tmp_path / "d.ck")
    assert not found.n_failed


WORKER = """
import sys, warnings, numpy as np, somcot
from tests.many.test_matrix import COST, DATA
from somcot.many import matrix
from tests.campaign import oracle
from tests.notes import codes, noted
warnings.simplefilter("ignore")
matrix._EVERY, matrix._CHUNK = 0.0, 0.01
sets = list(DATA.values()) * 3
found = somcot.distance_matrix(sets, COST, discount=0.9, confidence=0.9, threads=2, checkpoint=sys.argv[1])
found.save(sys.argv[2])
"""


@pytest.mark.slow
def test_twenty_kills_of_the_run_change_nothing(tmp_path: Path) -> None:
    whole = distance_matrix(list(DATA.values()) * 3, COST, discount=0.9, confidence=0.9)
    ck, out = tmp_path / "d.ck", tmp_path / "d.matrix"
    rng = np.random.default_rng(0)
    kills = 0
    for _ in range(200):
        process = subprocess.Popen([sys.executable, "-c", WORKER, str(ck), str(out)], cwd=Path(__file__).parents[2])
        if kills < 20:
            before = ck.stat().st_mtime_ns if ck.exists() else 0
            while process.poll() is None and (not ck.exists() or ck.stat().st_mtime_ns == before):
                time.sleep(0.01)
            time.sleep(float(rng.random()) * 0.05)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
                process.wait()
                continue
        process.wait()
        break
    assert kills == 20
    assert same(DistanceMatrix.load(out), whole)


@pytest.mark.statistical
def test_coverage_through_the_batch_is_that_of_single_distances() -> None:
    """200 seeds at nominal 90 %: the two may differ by chance only, and both hold their level."""
    chains = [somcot.random_walk(5, theta) for theta in (0.5, 0.5, 0.55, 0.7)]
    cost = costs.absolute([1, 0, 0, 0, -1], [1, 0, 0, 0, -1])
    truth = distance_matrix(chains, cost, discount=0.9).values
    upper = np.triu_indices(4, 1)
    batch, single = np.zeros(6), np.zeros(6)
    for seed in range(200):
        data = [chain.sample(40, 50, rng=10 * seed + k) for k, chain in enumerate(chains)]
        found = distance_matrix(data, cost, discount=0.9, confidence=0.9)
        batch += ((found.low <= truth) & (truth <= found.high))[upper]
        for k, (i, j) in enumerate(zip(*upper, strict=True)):
            ends = somcot.distance(data[i], data[j], cost, discount=0.9, confidence=0.9).confidence_interval
            assert ends is not None
            single[k] += ends.low <= truth[i, j] <= ends.high
    assert np.abs(batch - single).max() <= 12  # of 200: four standard deviations of a difference that is mostly shared
    assert batch.min() >= 168


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no such device")
def test_a_checkpoint_is_an_ordinary_file() -> None:
    """A device would be read for ever."""
    with pytest.raises(ValueError, match="checkpoint: /dev/zero is no ordinary file"):
        distance_matrix(WALKS, COST, discount=0.9, checkpoint="/dev/zero")


@pytest.mark.parametrize(("n", "seconds"), [(10, 0.013), (25, 0.18)])
def test_the_forecast_of_a_dense_pair(n: int, seconds: float) -> None:
    """Against what a pair took when the forecast was fitted: a formula that is off by ten would be seen."""
    recorded = [dense(n, k).sample(100, 100, rng=k) for k in range(2)]
    plan = preparing.prepare(
        recorded, "labels", MatrixSettings(0.9, "auto", 0.9, simultaneous=False, tests=None, seed=0)
    )
    assert seconds / 3 < preparing.forecast(plan, 1) < 3 * seconds


def family(n: int = 7) -> list[MarkovChain]:
    """Chains that mix, with two equal kernels, periods, several recurrent classes, slow steps, and transient states."""
    rng = np.random.default_rng(5)
    dense, sparse, parted = rng.random((n, n)), rng.random((n, n)) * (rng.random((n, n)) < 0.3), np.zeros((n, n))
    parted[:3, :3], parted[3:, 3:] = rng.random((3, 3)), rng.random((n - 3, n - 3))
    cycle, parity = np.roll(np.eye(n), 1, axis=1), np.add.outer(np.arange(n), np.arange(n)) % 2
    slow = np.eye(n) + 1e-4 * rng.random((n, n))
    kernels = [
        dense,
        dense,
        sparse + 0.2 * cycle,
        cycle,
        parity * dense,
        parity * dense.T,
        parted,
        slow,
        np.triu(dense),
    ]
    return [MarkovChain(kernel, rng.dirichlet(np.ones(n)), normalize=True) for kernel in kernels]


def test_many_long_run_averages_are_those_of_single_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    chains, reward = family(), np.array([0.0, 2.0, 1.0, 1.0, 0.0, 2.0, 2.0])
    cost, alone = somcot.costs.absolute(reward, reward), set()

    def noted(plan: preparing.JobPlan, i: int, j: int, **more: Any) -> Any:
        alone.add((min(i, j), max(i, j)))
        return single_pair(plan, i, j, **more)

    monkeypatch.setattr(work, "single_pair", noted)
    found = distance_matrix(chains, cost, discount=1, threads=1)
    last = len(chains) - 1
    assert {(i, last) for i in range(last)} <= alone  # those with transient states
    assert not alone & {(0, 2), (4, 5)}
    for i, x in enumerate(chains):
        for j, y in enumerate(chains):
            single = somcot.distance(x, y, cost, discount=1)
            assert single.bounds is not None
            assert single.bounds.low - 1e-10 <= found.values[i, j] <= single.bounds.high + 1e-10
            assert found.values[i, j] == pytest.approx(single.distance, abs=1e-9)
    assert found.values[0, 1] == 0.0  # the same kernel from other states


ABSORBING = [MarkovChain([[1 - p, p, 0], [0, 0.5, 0.5], [0, 0, 1]]) for p in (0.2, 0.5, 0.9)]
RATES = [somcot.ContinuousChain([[-r, r, 0], [1, -2, 1], [0, r, -r]]) for r in (0.5, 1.0, 3.0)]


@pytest.mark.parametrize(
    ("processes", "clock"),
    [(WALKS, {"horizon": 7}), (RATES, {"rate": 0.3}), (ABSORBING, {"total": True}),
     (list(DATA.values())[:3], {"discount": 1}), (list(DATA.values())[:3], {"horizon": 5})],
)  # fmt: skip
def test_every_clock_has_the_bits_of_a_single_call(processes: list[Any], clock: dict[str, Any]) -> None:
    found = distance_matrix(processes, **clock)
    assert not found.n_failed
    for i, x in enumerate(processes):
        assert found.values[i, i] == 0.0
        for j, y in enumerate(processes[i + 1 :], i + 1):
            alone = somcot.distance(x, y, **clock)
            assert found.values[i, j] == found.values[j, i] == alone.distance
    assert found.clock is not None
    assert found.clock == somcot.distance(processes[0], processes[1], **clock).clock
    assert str(found.clock) in repr(found)


def test_clocks_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"processes\[0\]: found ContinuousChain.* take rate=r"):
        distance_matrix(RATES, discount=0.9)
    with pytest.raises(TypeError, match=r"processes\[0\]: found MarkovChain, expected a ContinuousChain with rate=0.1"):
        distance_matrix(WALKS, rate=0.1)
    with pytest.raises(TypeError, match="expected exactly one"):
        distance_matrix(WALKS, discount=0.9, horizon=3)
    with pytest.raises(ValueError, match=r"tests: needs a discount below 1, found horizon=3"):
        distance_matrix(DATA, horizon=3, tests="bh")
    with warnings.catch_warnings(), noted("no-correction"):
        warnings.simplefilter("always")
        assert distance_matrix(DATA, horizon=3, confidence=0.9).confidence is None
    checkpoint = tmp_path / "cells"
    distance_matrix(WALKS, horizon=3, checkpoint=checkpoint)
    with pytest.raises(CheckpointError, match="other processes or options"):
        distance_matrix(WALKS, horizon=4, checkpoint=checkpoint)


def test_the_matrix_is_a_precomputed_metric_and_kernel(tmp_path: Path) -> None:
    nx, sklearn = pytest.importorskip("networkx"), pytest.importorskip("sklearn.neighbors")
    graphs = [nx.cycle_graph(6), nx.star_graph(5), nx.path_graph(6), nx.cycle_graph(9), nx.star_graph(7)]
    walks = [somcot.readers.from_graph(graph, initial="stationary") for graph in graphs]
    found = distance_matrix(walks, "neighbourhood", discount=0.9)
    assert (found.values.diagonal() == 0.0).all()
    assert (found.values >= 0.0).all()
    nearest = sklearn.KNeighborsClassifier(1, metric="precomputed").fit(np.asarray(found), [0, 1, 2, 0, 1])
    assert nearest.predict(found.values).tolist() == [0, 1, 2, 0, 1]
    np.testing.assert_array_equal(found.kernel(2.0), np.exp(-2.0 * found.values))
    assert (found.kernel().diagonal() == 1.0).all()
    for wrong in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="gamma"):
            found.kernel(wrong)
    found.save(tmp_path / "m.npz")
    assert DistanceMatrix.load(tmp_path / "m.npz").clock == found.clock


def test_a_long_run_average_of_recordings_is_noted_once() -> None:
    walks = [somcot.random_walk(4, theta).sample(40, 30, rng=k) for k, theta in enumerate((0.5, 0.6, 0.7))]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        somcot.distance_matrix(walks, discount=1, threads=1)
    codes = [getattr(warning.message.args[0], "code", "") for warning in caught]  # type: ignore[union-attr]
    assert codes.count("average-from-data") == 1


def test_pairs_without_a_distance_are_noted_with_the_process_that_they_share() -> None:
    values: list[list[Any]] = [[0.0, 1.0], [0.5, 2.0], [0.5, None], [0.0, 3.0]]
    chains = {f"m{k}": MarkovChain(np.eye(2), attributes={"size": row}) for k, row in enumerate(values)}
    with noted("failed-pairs", n=3, which="all with 'm2'"):
        found = distance_matrix(chains, "attribute:size", discount=0.9)
    assert codes(found.notes) == ["failed-pairs"]
    # Missing cells of an interrupted run did not fail.
    reasons = tuple(reason._replace(text=INTERRUPTED) for reason in found.reasons)
    assert failure_notes(replace(found, reasons=reasons)) == []
    (note,) = failure_notes(replace(found, reasons=found.reasons[:1]))
    assert note.values["which"] == "'m0' and 'm2'"


def test_equivalent_nodes_of_graphs_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves of a star with equal labels are one state; where one of them is labelled otherwise they are two."""
    stars = []
    for n, odd in ((5, 0), (8, 0), (6, 1)):
        kernel = np.zeros((n + 1, n + 1))
        kernel[0, 1:], kernel[1:, 0] = 1.0 / n, 1.0
        kinds = ["hub", *["leaf"] * (n - odd), *["odd"] * odd]
        stars.append(MarkovChain(kernel, np.full(n + 1, 1.0 / (n + 1)), attributes={"kind": kinds}))
    sizes: list[int] = []
    compare = batch.compare

    def seen(lo: int, hi: int, tasks: batch.Tasks, *others: Any) -> None:
        sizes.extend(tasks.whole.n.tolist())
        compare(lo, hi, tasks, *others)

    monkeypatch.setattr(work, "compare", seen)
    found = distance_matrix(stars, "attribute:kind", discount=0.9, threads=1)
    assert set(sizes) == {2, 3}
    for i, x in enumerate(stars):
        for j, y in enumerate(stars):
            single = somcot.distance(x, y, "attribute:kind", discount=0.9)
            assert found.values[i, j] == pytest.approx(single.distance, abs=1e-12)
            assert single.bounds is not None
            assert found.low[i, j] <= single.bounds.high
            assert single.bounds.low <= found.high[i, j]
            assert found.low[i, j] <= found.values[i, j] <= found.high[i, j]
    assert found.values[0, 1] > 0.0
