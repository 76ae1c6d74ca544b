"""Whole sequences: collected, scored and ranked as the equations say; the guarantee; what an alarm says."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from somcot import MarkovChain, Monitor, Samples
from somcot.live import conformal
from somcot.live.conformal import Recorded, SequenceDetector, cycle, cycles_in, held_labels, teachers
from somcot.live.scores import N_BETS
from somcot.live.sequences import N_DROPPED, STAGES, Cut, Units, collect, joined, waiting
from tests.live.plain import PlainRanks, plain_units
from tests.notes import noted

RNG = np.random.default_rng


def sessions(n: int, seed: int, exit_: float = 0.15, labels: int = 6, sticky: float = 0.3) -> list[list[int]]:
    """Sessions with memory: a hidden kind of user, and the last two states matter."""
    rng = RNG(seed)
    tables = RNG(99).dirichlet(np.full(labels, 0.4), (2, labels))
    found = []
    for _ in range(n):
        kind = int(rng.random() < sticky)
        path = [int(rng.integers(0, 3))]
        while len(path) < 2 or rng.random() > exit_ * (1 + kind):
            path.append(int(rng.choice(labels, p=tables[kind, path[-1]])))
        found.append(path)
    return found


def samples(paths: list[list[int]], labels: int = 6) -> Samples:
    return Samples.from_trajectories(paths, states=[*range(labels), "left"], end="left")


def fed(paths: list[list[int]], first: int = 0) -> tuple[list[Any], list[int]]:
    """One after the other, with their ends."""
    states = [state for path in paths for state in [*path, "left"]]
    names = [first + k for k, path in enumerate(paths) for _ in range(len(path) + 1)]
    return states, names


CUTS = {
    "ends": Cut(7, np.inf, np.inf, -1, 10**6, STAGES, True, -1.0),
    "age": Cut(64, 9.0, np.inf, -1, 10**6, STAGES, True, -1.0),
    "silence": Cut(6, np.inf, 12.0, 3, 10**6, 3, True, -1.0),
    "age and silence": Cut(5, 11.0, 14.0, -1, 10**6, STAGES, True, -1.0),
}


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("step", [1, 17, 4000])
def test_sequences_are_cut_and_ordered_as_the_rules_say(name: str, step: int) -> None:
    cut, rng = CUTS[name], RNG(1)
    n = 4000 if step > 1 else 500
    terminal = np.array([False, False, False, True, False]) if name != "age" else np.zeros(5, np.bool_)
    codes = rng.choice(6, n, p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.05]).astype(np.int32)
    if name == "silence":
        codes[codes == 3] = 0
    alive = np.arange(n) // 40 if name != "ends" else 0  # names come and go
    names = (alive + rng.integers(0, 8, n)).astype(np.uint64) * np.uint64(2**40 + 3)
    times = np.cumsum(rng.exponential(0.3, n)).round(3)
    table, found = waiting(1, 2), []
    for begin in range(0, n, step):
        part = slice(begin, begin + step)
        table, units = collect(table, cut, terminal, codes[part], names[part], times[part], begin + 1)
        found.append(units)
    units = joined(found)
    known = float(times[-1])
    wanted = plain_units(codes.tolist(), names.tolist(), times.tolist(), cut, terminal, known + 1e-9)
    if name == "ends":  # without a clock the first open sequence holds up all later ones
        wanted = [stage for stage in wanted if stage.sequence <= int(units.number.max())]
    for s in range(cut.n_stages):
        mine = np.flatnonzero(units.stage == s)
        theirs = [stage for stage in wanted if stage.stage == s]
        assert len(theirs) > (n // 200 if s < 2 else -1)
        assert (np.diff(units.number[mine]) > 0).all()  # in the order of starts
        n_last = len(mine)
        assert len(theirs) - n_last in range(40)  # a few wait behind one that is open
        for u, stage in zip(mine.tolist(), theirs, strict=False):
            assert units.codes[units.offsets[u] : units.offsets[u + 1]].tolist() == stage.codes
            assert (units.number[u], units.how[u], units.before[u]) == (stage.sequence, stage.how, stage.before)


@pytest.mark.parametrize("ordered", [True, False])
def test_more_sequences_at_once_than_there_is_room_for(ordered: bool) -> None:
    cut, rng = CUTS["ends"]._replace(length=3, ordered=ordered), RNG(0)
    codes = rng.choice(3, 30_000).astype(np.int32)
    names = np.repeat(np.arange(10_000, dtype=np.uint64), 3)
    terminal = np.array([False, False, False, True])
    codes[2::3] = 3
    _, units = collect(waiting(), cut, terminal, codes, names, np.zeros(0), 1)
    assert units.number.tolist() == list(range(1, 10_001))
    np.testing.assert_array_equal(units.codes, codes)


def test_a_sequence_silent_for_long_holds_up_the_others_only_with_a_clock() -> None:
    """The first of 400 never ends: without a clock it is given up, with one it waits for its time-out."""
    codes = np.tile(np.array([0, 1, 3], np.int32), 400)
    names = np.repeat(np.arange(400, dtype=np.uint64), 3)
    codes[2] = 1
    for timeout, n_passed, n_dropped in ((np.inf, 399, 1), (1e9, 0, 0)):
        cut = CUTS["ends"]._replace(timeout=timeout)
        table, units = collect(waiting(), cut, np.array([False, False, False, True]), codes, names, np.zeros(0), 1)
        assert (len(units.how), table.counts[N_DROPPED]) == (n_passed, n_dropped)


def detector(n: int, seed: int, threshold: float = 1e200) -> tuple[SequenceDetector, Units, Recorded]:
    reference = Recorded.of(samples(sessions(n, seed)))
    assert reference is not None
    terminal = np.append(np.arange(7) == 6, False)
    cut = Cut(64, np.inf, np.inf, -1, 10**6, STAGES, True, -1.0)
    a, b = reference.units(cut, terminal)
    assert len(a.how) + len(b.how) == n
    found = SequenceDetector(a, b, held_labels(joined([a, b]), 7), cut=cut, atom=-1, threshold=threshold, forever=False)
    return found, b, reference


def stream(paths: list[list[int]], found: SequenceDetector) -> Units:
    codes = np.concatenate([[*path, 6] for path in paths]).astype(np.int32)
    names = np.repeat(np.arange(len(paths)), [len(path) + 1 for path in paths]).astype(np.uint64)
    return found.take(codes, names, np.zeros(0), 1, np.append(np.arange(7) == 6, False))


def test_the_kernel_computes_the_equations() -> None:
    found, b, _ = detector(120, 0)
    plain = PlainRanks(found.tables, b, conformal.SEED)
    for k in range(len(found.tables.weights)):
        bins = np.bincount(plain.bag[k], minlength=32)
        np.testing.assert_array_equal(found.ranks.below[k][: found.tables.n_bins[k]],
                                      np.cumsum(bins)[: found.tables.n_bins[k]])  # fmt: skip
    paths = [*sessions(150, 1), *sessions(60, 2, exit_=0.05), [7, 7, 1], [0, 8, 9]]
    units = stream(paths, found)
    levels = [plain.take(units, u) for u in range(len(units.how))]
    found.rank(units, 0, len(units.how), armed=False)
    np.testing.assert_allclose(found.ranks.R, plain.R, rtol=1e-9)
    assert max(levels) > 100.0
    again, _, _ = detector(120, 0, threshold=max(levels))
    assert again.rank(stream(paths, again), 0, len(levels), armed=True) == int(np.argmax(levels))


def test_odd_steps_are_evidence_for_random_events() -> None:
    found, b, reference = detector(120, 0)
    assert found.cut is not None
    t, (a, _) = found.tables, reference.units(found.cut, np.append(np.arange(7) == 6, False))
    plain = PlainRanks(t, b, 0)
    steps = [step for u in range(len(a.how)) for step in plain.steps(a, u)]
    shares = np.bincount([j for _, j in steps], minlength=len(t.entropy)) / len(steps)
    np.testing.assert_allclose(t.odd, np.maximum(np.log(0.95 + 0.05 * shares / t.p), 0.0), atol=1e-12)
    assert (t.odd[t.unseen & (shares > 0)] > 0.0).any()
    assert ((t.odd > 0.0) & ~t.unseen).any()


def test_bets_are_densities() -> None:
    """Their integral over ranks is 1, within the rounding of the tilts; nothing is bet on a score without values."""
    found, _, _ = detector(300, 3)
    tables = found.tables
    for ranks, bets in zip(tables.ranks, tables.bets, strict=True):
        integral = np.diff(np.minimum(ranks, 1.0), prepend=0.0) @ bets
        np.testing.assert_allclose(integral, np.ones(N_BETS), atol=1e-12)
    assert tables.weights.sum() == pytest.approx(1.0)


def test_ranks_are_uniform_and_independent_of_each_other() -> None:
    """For sequences with memory and hidden users; correlation with the rank before, and the share in each tenth."""
    tenths, pairs = np.zeros((40, 10)), []
    for seed in range(40):
        found, b, _ = detector(60, 100 + seed)
        plain = PlainRanks(found.tables, b, conformal.SEED + seed)
        for u, units in enumerate([stream(sessions(60, 200 + seed), found)] * 60):
            plain.take(units, u)
        ranks = np.array(plain.p[0])  # every unit has this score
        tenths[seed] = np.bincount((ranks * 10).astype(int), minlength=10)
        pairs += list(itertools.pairwise(ranks))
    total = tenths.sum(axis=0)
    assert ((total - 240) ** 2 / 240).sum() < 27.9  # chi squared, 9 degrees of freedom, .001
    one, other = np.array(pairs).T
    assert abs(np.corrcoef(one, other)[0, 1]) < 3.3 / np.sqrt(len(pairs))


def test_false_alarms_of_sequences_with_memory() -> None:
    """P(alarm within n sequences) <= n / c, references of 40 sequences, some labels missing from them."""
    n_alarms = 0
    for seed in range(150):
        found, _, _ = detector(40, 1000 + seed, threshold=60 / 0.3)
        units = stream(sessions(60, 5000 + seed), found)
        n_alarms += found.rank(units, 0, len(units.how), armed=True) < len(units.how)
    assert n_alarms / 150 <= 0.3 + 2.0 * np.sqrt(0.3 * 0.7 / 150)


def test_ranking_without_the_stream_would_not_do() -> None:
    """The test above can fail: ranks among part B alone, however small, raise false alarms much more often."""
    n_alarms = 0
    for seed in range(40):
        found, _, _ = detector(40, 1000 + seed, threshold=400 / 0.3)
        units = stream(sessions(400, 5000 + seed), found)
        below = found.ranks.below.copy()
        for u in range(len(units.how)):
            found.ranks.below[:] = below
            if found.rank(units, u, u + 1, armed=True) == u:
                n_alarms += 1
                break
    assert n_alarms / 40 > 0.4


CHANGES: list[tuple[str, Any, list[str]]] = [
    ("new label", lambda paths: [[*p[:1], "offer", *p[1:]] if k % 4 == 0 else p for k, p in enumerate(paths)],
     ["new label offer: in "]),
    ("starts", lambda paths: [[2, *p[1:]] for p in paths], ["(start) -> ", "label "]),
    ("length", lambda paths: [p + p for p in paths], ["sequences are longer", "end", "left", "per sequence"]),
    ("lost step", lambda paths: [[s for s in p if s != 1] + [0, 0] for p in paths], ["1", "0 -> 0", "label 0"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "words"), CHANGES, ids=[c[0] for c in CHANGES])
def test_an_alarm_names_what_changed_and_since_when(name: str, change: Any, words: list[str]) -> None:
    monitor = Monitor(samples(sessions(600, 10)), discount=0.9, false_alarm=0.05, within=2000, unit="sequences")
    assert monitor.update(*fed(sessions(300, 11))) == []
    (alarm,) = monitor.update(*fed(change(sessions(300, 12)), 10_000))
    assert monitor.detector == "sequences"
    assert "exact" in monitor.guarantee
    assert 300 < alarm.sequence < 420
    assert 280 <= alarm.since_sequence <= alarm.sequence
    assert alarm.since <= alarm.event
    assert any(word in alarm.what for word in words), alarm.what
    assert alarm.what in str(alarm)
    assert alarm.evidence >= alarm.threshold == pytest.approx(2000 / 0.05)
    assert monitor.distance(None).distance > 0.0


def test_counts_before_and_after_are_right() -> None:
    paths = sessions(500, 20)
    monitor = Monitor(samples(paths), discount=0.9, false_alarm=0.05, within=2000, unit="sequences")
    changed: list[list[Any]] = [[*p[:1], "offer", *p[1:]] if k % 5 == 0 else p for k, p in enumerate(sessions(200, 21))]
    (alarm,) = monitor.update(*fed(changed))
    held, n = (
        int(part.replace(",", "")) for part in alarm.what.split("in ")[1].split(" seq")[0].split(" of the last ")
    )
    assert alarm.what.endswith("in 0 of 500 before")
    assert n == alarm.sequence - alarm.since_sequence + 1
    assert held == sum("offer" in p for p in changed[alarm.since_sequence - 1 : alarm.sequence])


def test_a_new_step_is_named() -> None:
    def rounds(n: int, seed: int, odd: float) -> list[list[int]]:
        """Six states in a circle, one or two further at a time; from 2 now and then to 0."""
        rng, found = RNG(seed), []
        for _ in range(n):
            path = [int(rng.integers(0, 3))]
            while len(path) < 9:
                back = path[-1] == 2 and rng.random() < odd
                path.append(0 if back else (path[-1] + 1 + int(rng.random() < 0.3)) % 6)
            found.append(path)
        return found

    monitor = Monitor(samples(rounds(600, 0, 0.0)), discount=0.9, one_false_alarm_per=1e4)
    (alarm,) = monitor.update(*fed(rounds(900, 1, 0.3)))
    assert alarm.what.startswith("new step 2 -> 0: ")
    now, old = (int(text.rpartition(" ")[2]) for text in alarm.what.split("%")[:2])
    assert 15 <= now <= 60
    assert old == 0


def timed(n: int, seed: int, pace: float = 1.0, rate: float = 3.0) -> tuple[list[Any], list[int], Any]:
    """Interleaved sessions with times and without any event for their ends."""
    rng = RNG(seed)
    events = []
    for k, path in enumerate(sessions(n, seed)):
        start = k / rate
        moments = start + np.concatenate([[0.0], np.cumsum(rng.exponential(pace, len(path) - 1))])
        events += [(m, k, s) for m, s in zip(moments.tolist(), path, strict=True)]
    events.sort()
    return [s for _, _, s in events], [k for _, k, _ in events], np.array([m for m, _, _ in events])


def recorded(n: int, seed: int, **more: Any) -> Samples:
    from somcot.readers import from_table

    states, names, times = timed(n, seed)
    table = {"user": names, "ts": times, "page": states}
    return from_table(table, sequence="user", time="ts", state="page", keep_times=True, **more)


def test_times_give_an_age_at_which_sequences_are_cut() -> None:
    monitor = Monitor(recorded(400, 30), discount=0.9, false_alarm=0.05, within=1000, unit="sequences")
    states, names, times = timed(500, 31)
    assert monitor.update(states, names, times=times) == []
    assert monitor.n_sequences > 400
    assert "exact" in monitor.guarantee
    with pytest.raises(ValueError, match="times: not of the same kind"):
        monitor.update(states[:3], names[:3])
    more, other, later = timed(300, 32, rate=3.0)
    changed = [5 if s == 1 else s for s in more]
    (alarm,) = monitor.update(changed, [k + 1000 for k in other], times=later + times[-1])
    assert alarm.since_sequence > 380


def test_sequences_under_way_at_the_first_event_are_left_out_at_any_date() -> None:
    states, names, times = timed(60, 0)
    found = []
    for skip, date in ((-1.0, 0.0), (5.0, 0.0), (5.0, 1e6)):
        cut = Cut(64, 1e9, 2.5, -1, 10**6, 1, True, skip)
        _, units = collect(waiting(), cut, np.zeros(8, np.bool_), np.array(states, np.int32),
                           np.array(names, np.uint64), times + date, 1)  # fmt: skip
        found.append(units.offsets.tolist())
    assert len(found[0]) > len(found[1]) > 10
    assert found[1] == found[2]


def test_finish_order_would_not_do() -> None:
    """Long sequences finish late: at the start of a stream, units in the order of their ends are short ones."""
    lengths: dict[bool, list[float]] = {True: [], False: []}
    for ordered in (True, False):
        for seed in range(20):
            states, names, times = timed(60, seed, rate=30.0)
            cut = Cut(64, 1e9, 2.5, -1, 10**6, 1, True, -1.0)
            _, units = collect(waiting(), cut, np.zeros(8, np.bool_), np.array(states, np.int32),
                               np.array(names, np.uint64), times, 1)  # fmt: skip
            size = np.diff(units.offsets)
            if not ordered:
                ends = [max(times[np.array(names) == k]) for k in range(60)]
                shown = [k for k in np.argsort(ends) if names.count(k) >= 2]
                size = np.array([names.count(k) for k in shown])
            lengths[ordered].append(size[:15].mean())
    assert np.mean(lengths[False]) < 0.7 * np.mean(lengths[True])


def test_without_names_and_ends_cycles_are_scored() -> None:
    chain = MarkovChain(RNG(5).dirichlet(np.full(8, 0.5), 8))
    path = chain.sample(1, 20_000, rng=0).now
    units = cycles_in(cycle(), 2, path, 1)
    state = cycle()
    parts = [cycles_in(state, 2, path[begin : begin + 777], begin + 1) for begin in range(0, len(path), 777)]
    for one, other in zip(units, joined(parts), strict=True):
        np.testing.assert_array_equal(one, other)
    for u in range(len(units.how)):
        codes = units.codes[units.offsets[u] : units.offsets[u + 1]]
        np.testing.assert_array_equal(codes, path[units.began[u] : units.event[u]])
        assert len(codes) == 256 or (codes[-1] == 2 and 2 not in codes[15:-1])
    monitor = Monitor(Samples.from_trajectories([path.tolist()]), discount=0.9)
    monitor.update(chain.sample(1, 100, rng=1).now)
    assert monitor.detector == "endless"
    assert "approximate" in monitor.guarantee
    assert "cycles of" in monitor.guarantee


def coin(n: int, seed: int, *, repeats: float = 0.5) -> list[int]:
    """Two states with equal rows; whether a step repeats the last one is what changes."""
    rng, path = RNG(seed), [0, 1]
    for draw in rng.random(n).tolist():
        stay = repeats if path[-1] == path[-2] else 1.0 - repeats
        path.append(path[-1] if draw < stay else 1 - path[-1])
    return path


@pytest.mark.parametrize("window", [20_000, 10])
def test_an_alarm_by_a_cycle_is_the_same_however_events_are_cut(window: int) -> None:
    stream, alarms = [*coin(5000, 2), *coin(5000, 3, repeats=0.85)], []
    reference = Samples.from_trajectories([coin(20_000, 1)])
    for step in (len(stream), 317):
        monitor = Monitor(reference, discount=0.9, window=window, one_false_alarm_per=100_000)
        for begin in range(0, len(stream), step):
            monitor.update(stream[begin : begin + step])
        alarms.append(monitor.alarm)
    alarm = alarms[0]
    assert alarm is not None
    assert alarm == alarms[1]
    assert "the order of steps changed since cycle" in alarm.what
    assert 4950 <= alarm.since <= alarm.event <= 5300
    assert alarm.threshold <= alarm.evidence <= 1e6 * alarm.threshold


@pytest.mark.parametrize("window", [3, 8])
def test_a_window_shorter_than_a_sequence(window: int) -> None:
    monitor = Monitor(samples(sessions(400, 40)), discount=0.9, window=window)
    (alarm,) = monitor.update(*fed([[5, 5, 5, 5, 5, 5]] * 500))
    assert 1 <= alarm.since_sequence <= alarm.sequence
    assert alarm.what


def test_the_teachers_are_two_fifths() -> None:
    assert teachers(1000).sum() == 400
    assert not np.array_equal(teachers(1000), np.arange(1000) < 400)
    np.testing.assert_array_equal(teachers(50), teachers(50))


@pytest.mark.parametrize("unit", ["events", "sequences"])
def test_the_unit_of_the_promise(unit: str) -> None:
    data = samples(sessions(400, 40))
    mean = np.mean([len(path) + 1 for path in sessions(400, 40)])
    for options, n in (({"one_false_alarm_per": 5000}, 10_000), ({"false_alarm": 0.1, "within": 5000}, 50_000)):
        monitor = Monitor(data, discount=0.9, unit=unit, **options)
        monitor.update(*fed(sessions(10, 41)))
        assert monitor._whole is not None
        assert monitor._whole.rule.threshold == pytest.approx(n / (mean if unit == "events" else 1.0))
        assert ("sequences of" in monitor.guarantee) == (unit == "events")
    with pytest.raises(ValueError, match="unit: found 'days'"):
        Monitor(data, discount=0.9, unit="days")
    with pytest.raises(ValueError, match="unit: found 'sequences'"):
        Monitor(data.chain(), discount=0.9, unit="sequences").update([0, 1])


def test_for_ever() -> None:
    monitor = Monitor(samples(sessions(400, 42)), discount=0.9, false_alarm=0.05)
    assert monitor.update(*fed(sessions(2000, 43))) == []
    assert monitor.update(*fed([[3, 3, 3, 3]] * 100, 10**6))


@pytest.mark.parametrize("kind", ["sequences", "age", "endless", "cycle cut", "nothing yet"])
def test_saving_goes_on_bit_for_bit(kind: str, tmp_path: Path) -> None:
    times: Any = None
    if kind in ("endless", "cycle cut"):
        chain = MarkovChain(RNG(5).dirichlet(np.full(8, 0.5), 8))
        reference, states, names = chain.sample(1, 4000, rng=0), chain.sample(1, 3000, rng=1).now.tolist(), None
        if kind == "cycle cut":  # the atom, which is visited often, does not come back before the file is written
            states[500:900] = [int(chain.state_occupancy(1.0).argmin())] * 400
    elif kind == "age":
        reference = recorded(300, 50)
        states, names, times = timed(400, 51)
    else:
        reference = samples(sessions(300, 50))
        states, names = fed([*sessions(200, 51), *sessions(100, 52, exit_=0.05)])
    one, other = (Monitor(reference, discount=0.9, one_false_alarm_per=3000) for _ in range(2))
    one.update(states, names, times=times)
    begin = 0
    for end in (0, 1, 500, 900, len(states)) if kind != "nothing yet" else (0, len(states)):
        part = slice(begin, end)
        other.update(
            states[part], names if names is None else names[part], times=None if times is None else times[part]
        )
        other.save(tmp_path / "m")
        other = Monitor.load(tmp_path / "m")
        begin = end
    one.save(tmp_path / "one")
    assert one.alarms == other.alarms
    assert (one.evidence, one.guarantee, one.n_sequences) == (other.evidence, other.guarantee, other.n_sequences)
    assert one._whole is not None
    assert other._whole is not None
    np.testing.assert_array_equal(one._whole.ranks.R, other._whole.ranks.R)
    np.testing.assert_array_equal(one._whole.ranks.below, other._whole.ranks.below)


def test_damaged_tables_are_refused(tmp_path: Path) -> None:
    from somcot.plumbing import records

    monitor = Monitor(samples(sessions(100, 50)), discount=0.9)
    monitor.update(*fed(sessions(20, 51)))
    monitor.save(tmp_path / "m")
    arrays, record = records.read_arrays(tmp_path / "m")
    for name, bad in (("tables.slot", 10**6), ("tables.n_bins", 99), ("waiting.heads", 10**6), ("waiting.after", 10**6),
                      ("tables.place", 10**6), ("waiting.chunks", 10**6)):  # fmt: skip
        records.write_arrays(tmp_path / "odd", {**arrays, name: np.full_like(arrays[name], bad)}, record)
        with pytest.raises(records.CheckpointError, match="is damaged"):
            Monitor.load(tmp_path / "odd")
    records.write_arrays(tmp_path / "odd", {**arrays, "ranks.R": arrays["ranks.R"][:3]}, record)
    with pytest.raises(records.CheckpointError, match="is damaged"):
        Monitor.load(tmp_path / "odd")


def test_accept_makes_the_sequences_since_the_reference() -> None:
    monitor = Monitor(samples(sessions(400, 60)), discount=0.9, false_alarm=0.05, within=3000, unit="sequences")
    monitor.update(*fed(sessions(100, 61)))
    (alarm,) = monitor.update(*fed(sessions(900, 62, exit_=0.4), 10_000))
    monitor.accept()
    assert monitor.alarm is None
    assert monitor.update(*fed(sessions(500, 63, exit_=0.4), 20_000)) == []
    assert monitor.update(*fed(sessions(900, 64), 30_000))
    assert monitor.alarms[0] == alarm
    assert len(monitor.alarms) == 2


def test_few_sequences() -> None:
    with noted("few-reference-sequences", n=30):
        Monitor(samples(sessions(30, 70)), discount=0.9).update(*fed(sessions(2, 71)))
    monitor = Monitor(samples([[c for path in sessions(30, k) for c in path] for k in range(10)]), discount=0.9)
    monitor.update(*fed(sessions(2, 71)))
    assert monitor.detector == "steps"
    assert "fewer than 20" in monitor.guarantee


def test_a_recording_is_checked_by_its_sequences() -> None:
    assert Monitor.check(samples(sessions(400, 80))).stationary
    with noted("reference-changes"):
        found = Monitor.check(samples([*sessions(300, 80), *sessions(300, 81, exit_=0.5)]))
    assert found.alarm is not None
    assert found.alarm.what


def test_too_many_open_sequences_and_those_under_way() -> None:
    monitor = Monitor(samples(sessions(100, 90)), discount=0.9, max_open=5)
    monitor.update([0, 1] * 20, [k // 2 for k in range(40)])
    assert monitor.n_open == 5
    assert monitor.n_dropped == 15
    data = recorded(300, 91)
    states, names, times = timed(300, 92)
    counts = []
    for starts in (None, False):
        monitor = Monitor(data, discount=0.9, starts=starts)
        monitor.update(states, names, times=times)
        counts.append(monitor.n_sequences)
    assert 0 < counts[0] - counts[1] < 60


def many(times: str = "", ended: bool = False) -> Recorded:
    """Fifty sequences of six states; times advance from sequence to sequence."""
    codes, offsets = np.tile(np.arange(6, dtype=np.int32), 50), 6 * np.arange(51)
    clock = np.add.outer(10.0 * np.arange(50), 2.0 * np.arange(6)).ravel() if times else None
    return Recorded(codes, offsets, np.full(50, ended), clock, times)


# What is scored, and whether the guarantee is proved, for a recording, a terminal state, names, times, starts, timeout.
PLANS = {
    "one endless": (many(), False, False, "rows", None, np.inf, "endless", False),
    "may have begun before": (many(), False, True, "rows", False, np.inf, "steps", False),
    "begun before, with times": (many("dates"), False, True, "dates", False, np.inf, "sequences", True),
    "times": (many("dates"), False, True, "dates", None, np.inf, "sequences", True),
    "rows for times": (many("rows"), False, True, "rows", None, np.inf, "sequences", False),
    "other times": (many("dates"), False, True, "numbers", None, np.inf, "sequences", False),
    "ends": (many("", True), True, True, "rows", None, np.inf, "sequences", True),
    "timeout": (many(), False, True, "numbers", None, 5.0, "sequences", True),
    "no ends": (many(), False, True, "rows", None, np.inf, "sequences", False),
}


@pytest.mark.parametrize("name", PLANS)
def test_only_proved_guarantees_are_called_exact(name: str) -> None:
    recorded, ends, named, clock, starts, timeout, kind, exact = PLANS[name]
    terminal = np.array([False] * 5 + [ends])
    plan = recorded.plan(terminal, named, clock, timeout, -1, 1000, starts)
    assert (plan.kind, plan.exact) == (kind, exact)
    assert (plan.cut is None) == (kind != "sequences")
    if plan.cut is not None:
        assert (plan.cut.skip > 0.0) == (starts is False)
        assert plan.mean_length == 6.0
