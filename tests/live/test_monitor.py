"""Alarms and what follows: latch, transitions, distances, thresholds of size, acceptance, files."""

import itertools
import re
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import Counts, MarkovChain, Monitor, Samples
from somcot.data import clickstream
from somcot.live.reference import Reference
from somcot.plumbing.records import CheckpointError, read_arrays
from tests.live.streams import Family
from tests.notes import codes, noted, notes_in

WALK, DRIFT = somcot.random_walk(5), somcot.random_walk(5, 0.7)


def path(chain: MarkovChain, n: int, rng: int) -> np.ndarray[Any, Any]:
    return chain.sample(1, n, rng=rng).now


def then(events: np.ndarray[Any, Any], chain: MarkovChain, n: int, rng: int) -> np.ndarray[Any, Any]:
    """The events, and what a chain makes of the last state."""
    after = MarkovChain(chain.transition, int(events[-1])).sample(1, n + 1, rng=rng).now[1:]
    return np.concatenate([events, after])


CHANGED = then(path(WALK, 3000, 1), DRIFT, 20_000, 2)


def alarmed(reference: Any = WALK, **options: Any) -> Monitor:
    monitor = Monitor(reference, discount=0.9, one_false_alarm_per=1e5, **options)
    monitor.update(CHANGED[:6000])
    return monitor


@pytest.mark.parametrize("reference", [WALK, WALK.sample(1, 20_000, rng=0), WALK.sample(1, 20_000, rng=0).counted])
def test_an_alarm_says_when_since_when_and_what(reference: Any) -> None:
    monitor = alarmed(reference)
    alarm = monitor.alarm
    assert alarm is not None
    assert 3000 < alarm.event < 4500
    assert 2500 < alarm.since < alarm.event
    assert alarm.evidence >= alarm.threshold == 1e5
    assert alarm.reason == "evidence"
    assert monitor.evidence == 1.0
    assert monitor.since == alarm.since
    ups = {(m.source, m.target) for m in alarm.transitions[:6] if m.surprise > 0}
    assert ups & {(1, 2), (2, 3), (3, 4)}
    before = monitor.alarms
    monitor.update(CHANGED[6000:])
    assert monitor.alarms == before  # latched


def test_how_events_are_cut_does_not_matter(tmp_path: Path) -> None:
    events = CHANGED[:6000]
    one, other = (Monitor(WALK, discount=0.9, one_false_alarm_per=1e5) for _ in range(2))
    one.update(events)
    for part in np.split(events, [1, 2, 700, 3000, 3001, 5999]):
        other.update(part.tolist())
    assert one.alarm == other.alarm
    for monitor, name in ((one, "one"), (other, "other")):
        monitor.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_an_impossible_transition() -> None:
    monitor = Monitor(WALK, discount=0.9)
    (alarm,) = monitor.update([0, 1, 2, 3, 0, 1])
    assert (alarm.event, alarm.since, alarm.reason) == (5, 5, "impossible transition")
    assert (alarm.transitions[0].source, alarm.transitions[0].target) == (3, 0)
    assert monitor.distance().distance > 0.0


@pytest.mark.parametrize("label", [["home"], ("home", ["offers"])], ids=["list", "tuple with a list"])
def test_labels_without_a_hash_are_named(label: Any) -> None:
    with pytest.raises(TypeError, match=re.escape(f"states: label {label!r} is not hashable; use a tuple or text")):
        Monitor(clickstream.chain("may"), discount=0.9).update(["home", label])


@pytest.mark.parametrize("known", [True, False])
def test_new_labels(known: bool) -> None:
    reference: Any = clickstream.chain("may")
    if not known:
        reference = reference.sample(200, 20, rng=0)
    monitor = Monitor(reference, discount=0.9, one_false_alarm_per=1e4)
    found = monitor.update(["home", "offers", "home", "offers"] * 20)
    assert found[0].event == 2 if known else found[0].event < 30
    assert monitor.new_labels == ("offers",)
    assert monitor.states[-1] == "offers"
    assert monitor.distance(None).distance > 0.3


def test_endless_new_labels_keep_memory_flat(tmp_path: Path) -> None:
    monitor = Monitor(WALK.sample(1, 5000, rng=0), discount=0.9)
    monitor.update(list(range(2500)))
    monitor.save(tmp_path / "half")
    monitor.update(list(range(2500, 5000)))
    monitor.save(tmp_path / "all")
    assert len(monitor.states) == 5 + 1000 + 1
    assert monitor.states[-1] == "(other new labels)"
    sizes = [(tmp_path / name).stat().st_size for name in ("half", "all")]
    assert sizes[1] - sizes[0] < 100, "all that the monitor holds is in the file"


def test_first_states_are_a_row() -> None:
    chain = MarkovChain([[0.5, 0.5], [0.5, 0.5]], [0.9, 0.1])
    rng = np.random.default_rng(0)
    names, states = np.repeat(np.arange(1000), 2), np.tile(rng.integers(0, 2, 1000)[:, None], 2).ravel()
    states[1::2] = rng.integers(
        0, 2, 1000
    )  # steps are as they should be, every second session starts in the rare state
    monitor = Monitor(chain, discount=0.9, one_false_alarm_per=1e5)
    (alarm,) = monitor.update(states, names)
    assert alarm.transitions[0].source == "(start)"
    assert (alarm.sequence, alarm.since_sequence) == (0, 0)  # steps are scored, not sequences
    assert not Monitor(chain, discount=0.9, one_false_alarm_per=1e5, starts=False).update(states, names)
    assert Monitor(chain, discount=0.9).update([1], ["a"]) == []


def test_sessions_end_with_a_time_out_as_the_readers_have_it() -> None:
    """Sessions of a recording with end='left': without the time-out nobody would ever leave."""
    chain = clickstream.chain("may")
    family = Family("shop", chain, 20)
    rng = np.random.default_rng(1)
    states, names = family.stream(40_000, rng)
    assert names is not None
    left = clickstream.PAGES.index("left")
    seen = states != left
    labels = np.array(chain.states)[states[seen]]
    half = len(labels) // 2
    sessions: dict[int, list[str]] = {}
    for label, name in zip(labels[:half].tolist(), names[seen][:half].tolist(), strict=True):
        sessions.setdefault(name, []).append(label)
    reference = Samples.from_trajectories(list(sessions.values()), end="left")
    later = np.flatnonzero(~np.isin(names[seen], list(sessions)))  # those under way are nobody's first states
    labels, names = labels[later], names[seen][later]
    times = np.arange(len(labels)) * 1.0
    quiet = Monitor(reference, discount=0.9, false_alarm=0.01, within=100_000, end="left", timeout=500.0)
    assert quiet.update(labels, names, times=times) == []
    assert quiet.n_expired > 500
    never = Monitor(reference, discount=0.9, false_alarm=0.01, within=100_000)
    with noted("ends-not-in-stream", states="'left'"):
        assert never.update(labels, names) == []  # it waits for the ends of sequences, and says so


def test_distances_cover_the_truth_on_fresh_events() -> None:
    """Both start where the stream is; the reference's start would be state 0, which the drifting walk has left."""
    chain = somcot.random_walk(10)
    drift = somcot.random_walk(10, 0.7)
    covered = 0
    for seed in range(4):
        monitor = Monitor(chain.sample(1, 20_000, rng=seed), discount=0.9, false_alarm=0.05, within=20_000)
        events = np.concatenate([path(chain, 2000, 50 + seed), path(drift, 6000, 90 + seed)])
        monitor.update(events)
        assert monitor.alarm is not None
        assert not monitor.provisional
        found = monitor.distance(0.9)
        now = events[monitor.alarm.scored : -1][-monitor.settings.window :]
        law = np.bincount(now, minlength=10) / len(now)
        one, other = (MarkovChain(c.transition, law) for c in (chain, drift))
        truth = somcot.distance(one, other, discount=0.9).distance
        assert found.confidence_interval is not None
        covered += found.confidence_interval.low <= truth <= found.confidence_interval.high
        assert not {"provisional", "provisional-fresh"} & set(codes(found.notes))
    assert covered >= 2  # 4 at 90 %: fewer than 2 has probability .004


def test_provisional_until_there_are_fresh_events() -> None:
    monitor = Monitor(WALK, discount=0.9, one_false_alarm_per=1e5)
    with pytest.raises(ValueError, match="no transitions yet"):
        monitor.distance()
    monitor.update(CHANGED[:3000])
    assert codes(monitor.distance().notes)[0] == "provisional"
    monitor.update(CHANGED[3000:5000])
    assert monitor.alarm is not None
    assert monitor.provisional
    fresh = notes_in(monitor.distance().notes)[0]
    assert fresh.code == "provisional-fresh"
    assert fresh.values["share"][1] == 2000  # type: ignore[index]
    assert len(monitor._present()[0]) == 5001 - monitor.alarm.since  # the steps to that event and to all after it
    monitor.update(CHANGED[5000:8000])
    assert not monitor.provisional


def test_small_changes_are_noticed_but_not_alarming() -> None:
    loud, quiet = alarmed(min_distance=0.01), alarmed(min_distance=0.5)
    assert loud.alarm is not None
    assert quiet.evidence == 1.0
    assert quiet.alarms == ()
    assert quiet.notice is not None
    assert "less than 0.5" in quiet.notice
    quiet.update(path(MarkovChain(np.eye(5)[[4, 4, 4, 4, 0]]), 40_000, 0))  # now it matters
    assert len(quiet.alarms) == 1


def test_accept_makes_the_present_the_reference() -> None:
    monitor = alarmed()
    monitor.update(CHANGED[6000:])
    monitor.accept()
    assert monitor.evidence < 1.0
    assert not monitor.reference.known
    monitor.update(path(DRIFT, 5000, 6))
    assert [alarm.reason for alarm in monitor.alarms] == ["evidence"]
    monitor.update(path(WALK, 5000, 7))
    assert [alarm.reason for alarm in monitor.alarms] == ["evidence"] * 2
    few = Monitor(WALK, discount=0.9)
    few.update([0, 1, 2, 1])
    with noted("small-reference", n=3):
        few.accept()


def test_accept_with_new_labels_and_a_cost() -> None:
    cost = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    monitor = Monitor(WALK.sample(1, 5000, rng=0), cost, discount=0.9, one_false_alarm_per=1e4)
    monitor.update([0, 1, 2, 9, 2, 1] * 500)
    assert len(monitor.alarms) == 1
    monitor.accept()
    assert monitor.reference.states == (0, 1, 2, 3, 4, 9)
    monitor.update([0, 1, 2, 9, 2, 1] * 500)
    assert len(monitor.alarms) == 1
    assert monitor.distance(None).distance < 0.2


@pytest.mark.parametrize("kind", ["known", "counts"])
def test_an_accepted_stream_holds_its_steps_and_the_old_rows_elsewhere(kind: str) -> None:
    """Rows left are those of the stream; others keep the old ones, known ones as very many steps in proportion."""
    kernel = np.array([[0.25, 0.75, 0.0], [0.5, 0.0, 0.5], [0.125, 0.125, 0.75]])
    old = [["a", "b", "c", "c"], ["b", "a", "b"], ["c", "c", "a", "c"]]
    process = (
        MarkovChain(kernel, 0, states=list("abc"))
        if kind == "known"
        else Counts.from_samples(Samples.from_trajectories(old, states=list("abc")))
    )
    cost = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [5.0, 3.0, 0.0]]) + 0.5
    reference = Reference(process, cost)
    # From the start to b; b -> a, a -> new, new -> a, a -> b: state c is never left.
    now, following = np.array([-1, 1, 0, 3, 0], np.int32), np.array([1, 0, 3, 0, 1], np.int32)
    found = reference.accepted(now, following, ["a", "b", "c", "new"])
    assert isinstance(found.process, Counts)
    counts = np.asarray(found.process.counts())
    expected = np.zeros((4, 4))
    expected[[1, 0, 3, 0], [0, 3, 0, 1]] = 1.0
    if kind == "known":
        np.testing.assert_allclose(counts[2] / counts[2].sum(), [0.125, 0.125, 0.75, 0.0], atol=1e-6)
        assert counts[2].sum() >= 1e5
    else:
        expected[2, [0, 2]] = 1.0, 2.0  # c c, then c c a c
        assert counts[2].tolist() == expected[2].tolist()
    assert counts[[0, 1, 3]].tolist() == expected[[0, 1, 3]].tolist()
    assert found.states == ("a", "b", "c", "new")
    assert found.process.start_counts.tolist() == [0, 1, 0, 0]
    assert not isinstance(found.cost, str)
    assert found.cost[:3, :3].tolist() == cost.tolist()
    assert found.cost[3].tolist() == [5.5, 5.5, 5.5, 0.5]
    assert found.cost[:3, 3].tolist() == [5.5] * 3


def test_starts_of_a_recording_stay_where_the_stream_has_none() -> None:
    old = Samples.from_trajectories([["a", "b"], ["b", "a"], ["b", "b"]], states=["a", "b"])
    found = Reference(old, "labels").accepted(np.array([0], np.int32), np.array([1], np.int32), ["a", "b", "new"])
    assert isinstance(found.process, Counts)
    assert found.process.start_counts.tolist() == [1, 2, 0]
    assert found.cost == "labels"


def test_a_recording_is_checked_against_itself() -> None:
    assert Monitor.check(WALK.sample(10, 1000, rng=3)).stationary
    both = Samples.from_trajectories([path(WALK, 5000, 1), path(DRIFT, 5000, 2)])
    with noted("reference-changes"):
        found = Monitor.check(both)
    assert not found.stationary
    assert found.alarm is not None
    # Counted from the start of the recording, though the first half is the reference.
    assert 5_000 <= found.alarm.since <= found.alarm.event < 6_000
    with pytest.raises(TypeError, match="expected Samples of episodes"):
        Monitor.check(WALK)


@pytest.mark.parametrize("kind", ["chain", "sparse", "samples", "tuples"])
def test_saving_goes_on_bit_for_bit(kind: str, tmp_path: Path) -> None:
    reference: Any = clickstream.chain("may")
    if kind == "sparse":
        from scipy.sparse import csr_array

        reference = MarkovChain(csr_array(reference.transition), reference.initial, states=reference.states)
    if kind in ("samples", "tuples"):
        reference = reference.sample(50, 30, rng=1)
    if kind == "tuples":
        reference = Samples(
            tuple((s, 1) for s in reference.states), reference.now, reference.following, reference.offsets
        )
    rng = np.random.default_rng(0)
    states, names = Family("shop", clickstream.chain("june"), 20).stream(6000, rng)
    labels = [reference.states[k] for k in states.tolist()]
    times = np.datetime64("2026-05-01", "us") + np.cumsum(rng.integers(0, 10**8, 6000)).astype("m8[us]")
    monitors = [Monitor(reference, discount=0.9, timeout=timedelta(minutes=30), min_distance=0.01) for _ in range(2)]
    one, other = monitors
    assert names is not None
    one.update(labels, names, times=times)
    cut = [0, 1000, 3000, 6000]
    for begin, end in itertools.pairwise(cut):
        other.update(labels[begin:end], names[begin:end], times=times[begin:end])
        other.position = {"offset": end}
        other.save(tmp_path / "m.ck")
        other = Monitor.load(tmp_path / "m.ck")
    assert one.alarm is not None
    assert one.alarms == other.alarms
    assert other.position == {"offset": 6000}
    assert other.fingerprint == one.fingerprint
    one.save(tmp_path / "one.ck")
    whole, parts = (read_arrays(tmp_path / name)[0] for name in ("one.ck", "m.ck"))
    for name, array in whole.items():
        if not name.startswith("open."):  # its room follows from how events were cut, its content does not
            np.testing.assert_array_equal(array, parts[name], name)
    assert one.n_open == other.n_open
    assert one.distance().distance == other.distance().distance


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    from somcot.plumbing import records

    file = tmp_path / "m.ck"
    monitor = alarmed()
    monitor.save(file)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.ck").write_bytes(data)
    with pytest.raises(CheckpointError, match="damaged"):
        Monitor.load(tmp_path / "bad.ck")
    records.write_arrays(tmp_path / "other.ck", {"a": np.zeros(1)}, {"format": "x"})
    with pytest.raises(CheckpointError, match="not a monitor file"):
        Monitor.load(tmp_path / "other.ck")
    arrays, record = records.read_arrays(file)
    for name, bad in (("bets.places", 10**6), ("bets.nexts", 10**6), ("window.now", 99)):
        changed = {**arrays, name: np.full_like(arrays[name], bad)}
        records.write_arrays(tmp_path / "odd.ck", changed, record)
        with pytest.raises(CheckpointError, match="is damaged"):
            Monitor.load(tmp_path / "odd.ck")


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_events", 2**64), ("n_events", "7"), ("last", 99), ("check_at", []), ("checks", -1), ("dated", 3),
     ("notice", 5), ("reason", None), ("fingerprint", {})],
)  # fmt: skip
def test_forged_counters_are_refused(name: str, value: Any, tmp_path: Path) -> None:
    """Behind a sum that fits: compiled code would believe them."""
    from somcot.plumbing import records

    file = tmp_path / "m.ck"
    alarmed().save(file)
    arrays, record = records.read_arrays(file)
    records.write_arrays(file, arrays, {**record, name: value})
    with pytest.raises(CheckpointError, match=f"is damaged .*{name}"):
        Monitor.load(file)


@pytest.mark.parametrize(
    ("name", "value"), [("event", {}), ("scored", 2**64), ("evidence", "much"), ("time", []), ("id", 1)]
)
def test_forged_alarms_are_refused(name: str, value: Any, tmp_path: Path) -> None:
    from somcot.plumbing import records

    file = tmp_path / "m.ck"
    alarmed().save(file)
    arrays, record = records.read_arrays(file)
    records.write_arrays(file, arrays, {**record, "alarms": [{**record["alarms"][0], name: value}]})
    with pytest.raises(CheckpointError, match="is damaged"):
        Monitor.load(file)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"one_false_alarm_per": 0.5}, ValueError, "one_false_alarm_per: found 0.5"),
    ({"false_alarm": 1.5}, ValueError, "false_alarm: found 1.5"),
    ({"within": 100}, ValueError, "within: needs false_alarm"),
    ({"false_alarm": 0.1, "one_false_alarm_per": 10}, ValueError, "choose one of the two"),
    ({"min_distance": -1}, ValueError, "min_distance: found -1"),
    ({"window": 0}, ValueError, "window: found 0"),
    ({"end": "left"}, ValueError, "end: 'left' is not a state of the reference"),
    ({"timeout": 0}, ValueError, "timeout: found 0"),
    ({"timeout": "soon"}, ValueError, "timeout: found 'soon', expected a time such as '30m'"),
    ({"cost": np.eye(3)}, ValueError, "cost: shape is"),
]


@pytest.mark.parametrize(("options", "error", "words"), BAD)
def test_bad_options(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Monitor(WALK, **{"discount": 0.9, **options})


def test_time_outs_in_words_and_the_date_of_an_alarm() -> None:
    times = np.datetime64("2026-04-01T00:00:00") + np.arange(400) * np.timedelta64(90, "s")
    chain = MarkovChain([[0.5, 0.5], [0.5, 0.5]])
    found = []
    spans: list[Any] = ["2m", timedelta(minutes=2), np.timedelta64(120, "s")]
    for timeout in spans:
        monitor = Monitor(chain, discount=0.9, one_false_alarm_per=1000, timeout=timeout)
        (alarm,) = monitor.update([0] * 400, times=times)
        found.append(alarm)
        assert monitor.n_expired == 0
        assert alarm.when(dated=monitor.dated) == str(times[alarm.event - 1])
    assert found[0] == found[1] == found[2]
    assert found[0].when(dated=False) is None


def test_first_states_alone_are_no_transitions() -> None:
    monitor = Monitor(WALK, discount=0.9)
    with pytest.raises(ValueError, match="no transitions yet"):
        monitor.distance()
    monitor.update([0, 1], ["a", "b"])
    with pytest.raises(ValueError, match="no transitions yet, only first states of sequences"):
        monitor.distance()


def test_bad_events_change_nothing() -> None:
    monitor = Monitor(WALK, discount=0.9, timeout=5.0)
    with pytest.raises(ValueError, match="sequences: found 1 names for 2 states"):
        monitor.update([0, 1], ["a"])
    with pytest.raises(ValueError, match="times: found shape"):
        monitor.update([0, 1], times=[1.0])
    with pytest.raises(ValueError, match="times: entry 1 is missing"):
        monitor.update([0, 1], times=[1.0, np.nan])
    with pytest.raises(TypeError, match=r"times: found text such as '2026-05-01', .*datetime64"):
        monitor.update([0, 1], times=["2026-05-01", "2026-05-02"])
    with pytest.raises(ValueError, match="timeout: times are dates"):
        Monitor(WALK, discount=0.9, timeout=5.0).update([0], times=np.array(["2026-01-01"], "M8[s]"))
    with pytest.raises(TypeError, match="look the same"):
        monitor.update(["0", "1"])
    with pytest.raises(ValueError, match="event 1 has the label None"):
        monitor.update([0, None])
    with pytest.raises(TypeError, match="reference: found ndarray"):
        Monitor(np.eye(2), discount=0.9)  # type: ignore[arg-type]
    assert monitor.n_events == 0
    assert monitor.update([]) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Monitor(Counts.from_matrix([[1, 2], [3, 4]], initial="stationary"), discount=0.9).update([0, 1, 0])
