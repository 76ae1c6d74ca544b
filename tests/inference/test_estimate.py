"""From data to a number: the estimate, what it promises, its warnings."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import MarkovChain
from somcot.inference.units import SingleTransitions, WholeSequences
from somcot.plumbing.errors import DataWarning, UnseenStateWarning
from somcot.plumbing.notes import Note
from somcot.recorded.counts import Counts, disputed_ends
from somcot.samples import Samples
from tests.data_instances import estimate, family, truth
from tests.instances import random_chain, walks
from tests.notes import noted, notes_in


def quiet(call: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **kwargs)


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
    assert result.estimate.n_solves == 7
    assert result.estimate.factor is not None
    assert result.estimate.rise is not None
    assert result.estimate.gap == pytest.approx(result.estimate.factor * result.estimate.rise)
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
    assert both.estimate.standard_error == pytest.approx(swapped.estimate.standard_error, rel=0.5)  # other halves


def test_scale_and_shift_of_the_cost() -> None:
    f = family("lazy")
    a, b = f.x.sample(60, 50, rng=0), f.y.sample(60, 50, rng=1)
    plain = somcot.distance(a, b, f.cost, discount=0.95, confidence=0.9)
    other = somcot.distance(a, b, 7.0 * f.cost - 3.0, discount=0.95, confidence=0.9)
    assert other.distance == pytest.approx(7.0 * plain.distance - 3.0, abs=1e-8)  # centres are solved to 1e-6
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
    assert "near-minimum-data" in notes(a, b, cost, discount=0.9, confidence=0.9)
    assert "near-minimum" in notes(a, b, cost, discount=0.9)
    far = somcot.random_walk(5, 0.9)
    few = notes(x.sample(3, 40, rng=0), far, cost, discount=0.9)["few-visits"]
    assert few.about == "x"
    assert re.match(r"\d \(\d+\)", str(few.values["counts"]))
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
    ({"n_steps": 10}, TypeError, "n_steps: not an option of method 'auto', which takes units"),
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
    runs = [estimate(name, 10_000, seed) for seed in range(24)]
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


def test_more_data_are_asked_for_by_how_much() -> None:
    """With as many times the data as the note says, half of the upper end is found."""
    x, y, cost = walks(5, 0.5)
    a, b = x.sample(60, 50, rng=0), y.sample(60, 50, rng=100)
    note = notes(a, b, cost, discount=0.9, confidence=0.9)["near-minimum-data"]
    result = quiet(somcot.distance, a, b, cost, discount=0.9, confidence=0.9)
    assert note.values["size"] == pytest.approx(result.confidence_interval.high / 2)
    times = note.values["times"]
    assert isinstance(times, float)
    assert 1.0 <= times < 100.0


def test_warnings_say_whose_data_they_are_about() -> None:
    f = family("rw5_0.7@0.9")
    short = Samples.from_trajectories([[0, 1, 0, 1, 0]] * 60, states=range(5))
    found = notes(f.x.sample(200, 50, rng=0), short, f.cost, discount=0.9)
    assert (found["never-seen"].about, found["never-seen"].values["n"]) == ("y", 3)
    assert "x" not in [note.about for note in found.values()]
    near = notes(f.x.sample(40, 50, rng=1), f.x, f.cost, discount=0.9)
    assert "near-minimum" in near


END = {"sequences": ["Samples", "known"], "transitions": ["Samples", "known", "Counts"]}


@pytest.mark.parametrize(("units", "kind"), [(units, kind) for units, kinds in END.items() for kind in kinds])
def test_where_sequences_terminate_their_end_counts_though_the_other_process_goes_on(units: str, kind: str) -> None:
    """The row of the end is known: it must not be taken from the other process."""
    ends = Samples.from_trajectories([[0, 1]] * 10 + [[0, 0, 1]] * 10, states=range(2), terminated=True)
    chain = MarkovChain([[0.6, 0.4], [0.5, 0.5]], 0)
    x, y = ends if kind == "Samples" else ends.counted, chain if kind == "known" else chain.sample(40, 10, rng=0)
    x = ends if units == "sequences" else x
    for a, b in ((x, y), (y, x)):
        found = quiet(estimate_of, a, b, units)
        low, high, _ = found.confidence_interval
        assert found.details.evidence[0].plugin == pytest.approx(found.plugin, abs=1e-9)
        assert low <= quiet(somcot.distance, ends.chain(), chain, "labels", discount=0.9).distance <= high
        assert low > 0.3


def estimate_of(x: Any, y: Any, units: str) -> Any:
    return somcot.distance(x, y, "labels", discount=0.9, confidence=0.99, units=units)


def test_ends_of_both_change_nothing() -> None:
    """Where nobody goes on, an end is a state that stays; it need not be counted."""
    data = [MarkovChain([[0.5, p, 0.5 - p], [0, 1, 0], [0, 0, 1]], 0).sample(30, 9, rng=1) for p in (0.1, 0.4)]
    paths = [[[*path[: path.index(2) + 1]] if 2 in path else path for path in paths_of(side)] for side in data]
    open_, closed = (
        [
            Samples.from_trajectories(p, states=range(3), terminated=[q[-1] == 2 for q in p] if end else False)
            for p in paths
        ]
        for end in (False, True)
    )
    first, second = (quiet(estimate_of, *side, "sequences") for side in (open_, closed))
    assert (first.distance, first.confidence_interval) == (second.distance, second.confidence_interval)


def paths_of(data: Samples) -> list[list[int]]:
    assert data.offsets is not None
    ends = zip(data.offsets[:-1], data.offsets[1:], strict=True)
    return [[*data.now[a:b].tolist(), int(data.following[b - 1])] for a, b in ends]


def test_a_row_that_one_recording_never_left_is_that_of_the_other() -> None:
    """It shows no difference; the estimate corrects that distance, and may be above the one of the estimated chains."""
    x = Samples.from_trajectories([[0, 1]] * 12, states=range(3))
    y = Samples.from_trajectories([[0, 1, 2, 2]] * 12, states=range(3))
    found = quiet(estimate_of, x, y, "sequences")
    assert found.plugin == pytest.approx(0.81)
    assert found.distance == 0.0
    assert "0 where rows that only one recording has left are the same (0.81 for" in found.message


def test_which_ends_count_depends_on_the_sequences_not_on_whose_they_are() -> None:
    """Otherwise permutations of them would not be alike, and a test would not keep its level."""
    paths = np.array([[0, 1, 2], [0, 0, 3], [2, 0, 1], [1, 2, 2], [3, 3, 0]])
    for seed in range(40):
        rng = np.random.default_rng(seed)
        drawn, ended = paths[rng.integers(5, size=6)], rng.random(6) < 0.5
        found = set()
        for _ in range(10):
            order = rng.permutation(6)
            sides = (
                Samples.from_trajectories(drawn[own], states=range(4), terminated=ended[own].tolist())
                for own in (order[:3], order[3:])
            )
            found.add(disputed_ends([*sides]))
        assert len(found) == 1


def test_a_state_that_sequences_leave_and_end_in_disputes_no_other_state() -> None:
    """One sequence that came to its end before hid a difference of 0.8 between all others."""
    x = Samples.from_trajectories([[0, 1]] * 30, states=range(4), terminated=True)
    y = Samples.from_trajectories([[0, 1, 2, 3]] * 29 + [[0, 1, 2, 3, 2, 3]], states=range(4), terminated=True)
    assert disputed_ends([x, y]) == {1}
    for sides in ((x, y), (Counts.from_samples(x), Counts.from_samples(y))):
        found = quiet(somcot.distance, *sides, 1.0 - np.eye(4), discount=0.9, confidence=0.9)
        assert found.plugin is not None
        assert found.distance == pytest.approx(found.plugin, abs=0.05)
        assert found.confidence_interval is not None
        assert found.confidence_interval.low > 0.5


def test_ends_of_a_single_recording_are_no_steps() -> None:
    """Processes on different states are not exchanged: no row is taken from the other, so ends are as in the chain."""
    rng = np.random.default_rng(3)
    paths = [rng.integers(3, size=rng.integers(2, 6)).tolist() for _ in range(12)]
    ended = (rng.random(12) < 0.3).tolist()
    x = Samples.from_trajectories(paths, states=range(3), terminated=ended)
    y = Samples.from_trajectories([[label + 10 for label in path[::-1]] for path in paths], terminated=ended)
    found = quiet(somcot.distance, x, y, 1.0 - np.eye(3), discount=0.9)
    assert "the same" not in found.message
    assert found.estimate is not None
    assert found.estimate.rise > 0.0


def test_cut_sequences_do_not_count_as_ended() -> None:
    """Of six sequences that stop in state 1, two terminated there."""
    x = Samples.from_trajectories([[0, 1]] * 6, states=range(3), terminated=[True, True, *[False] * 4])
    y = Samples.from_trajectories([[0, 1, 2]] * 6, states=range(3))
    for engine in (SingleTransitions.of([x, y]), WholeSequences.of([x, y])):
        stays = (engine.support.rows == 1) & (engine.support.indices == 1)
        assert engine.pooled.pair_counts.diagonal().tolist() == [0, 2, 0]
        observed = engine.observed if isinstance(engine, SingleTransitions) else engine.counts(engine.observed)
        assert observed[:, stays].ravel().tolist() == [2, 0]
