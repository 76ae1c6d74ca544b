"""Properties of monitors, of processes with real vectors as states, and of their cells."""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

import somcot
from somcot import DataWarning, Monitor, Trajectories, gaussian
from tests.campaign.draws import Draw, chain
from tests.instances import Floats, dense_kernel

UNIT = st.floats(-1, 1).map(lambda value: round(value, 3))


def unless_refused(reason: str, call: Callable[[], Any]) -> Any:
    """What a call returns; None where it refuses for this reason, and for no other."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except ValueError as error:
        if reason in str(error):
            return None
        raise


def inside(found: somcot.Result) -> bool:
    """Whether a distance lies in its interval, if it has one."""
    if found.confidence_interval is None:
        return True
    return found.confidence_interval.low <= found.distance <= found.confidence_interval.high


class Events(NamedTuple):
    """What a monitor takes in: states, and names of sequences and times or neither."""

    states: list[int]
    sequences: list[int] | None
    times: list[float] | None

    def part(self, begin: int, end: int) -> tuple[Any, Any, Any]:
        return tuple(None if column is None else column[begin:end] for column in self)  # type: ignore[return-value]


def events(draw: Draw, n: int) -> Events:
    """Some known to a reference of so many states, some not."""
    length = draw(st.integers(2, 60))
    several = st.lists(st.integers(0, 3), min_size=length, max_size=length)
    gaps = draw(st.none() | st.lists(st.integers(0, 4), min_size=length, max_size=length))
    states = draw(st.lists(st.integers(0, n - 1 + draw(st.integers(0, 1))), min_size=length, max_size=length))
    return Events(states, draw(st.none() | several), None if gaps is None else np.cumsum(gaps).astype(float).tolist())


def watching(draw: Draw) -> tuple[Monitor, Events]:
    """A monitor of a known or recorded reference, with rules of all kinds, and what it is going to see."""
    reference: Any = chain(draw)
    arriving = events(draw, reference.n_states)
    if draw(st.booleans()):
        reference = reference.sample(draw(st.integers(1, 5)), draw(st.integers(1, 10)), rng=draw(st.integers(0, 9)))
    promise = draw(st.sampled_from(({}, {"false_alarm": 0.3}, {"false_alarm": 0.1, "within": 50})))
    promise = promise or {"one_false_alarm_per": draw(st.sampled_from((1.5, 10.0, 1e4)))}
    rules = {
        "timeout": draw(st.sampled_from((None, 1, 7.5))),
        "starts": draw(st.sampled_from((None, True, False))),
        "window": draw(st.integers(1, 40)),
        "max_open": draw(st.integers(1, 4)),
        "min_distance": draw(st.sampled_from((0.0, 0.0, 0.2))),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # small references are the point
        return Monitor(reference, discount=0.9, **promise, **rules), arriving


def fed(monitor: Monitor, arriving: Events, begin: int, end: int) -> list[Any]:
    states, sequences, times = arriving.part(begin, end)
    return monitor.update(states, sequences, times=times)


def facts(monitor: Monitor) -> tuple[Any, ...]:
    names = ("evidence", "since", "states", "n_scored", "n_open", "n_dropped", "n_expired", "n_events", "notice")
    return (*(getattr(monitor, name) for name in names), str(monitor.alarm), len(monitor.alarms))


def monitors_do_not_depend_on_cuts(draw: Draw) -> None:
    """Nor on being saved and loaded in between."""
    whole, arriving = watching(draw)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "monitor")
        whole.save(file)
        pieces, n = Monitor.load(file), len(arriving.states)
        cuts = sorted(draw(st.sets(st.integers(1, n - 1), max_size=3)))
        for begin, end in itertools.pairwise((0, *cuts, n)):
            fed(pieces, arriving, begin, end)
            pieces.save(file)
            pieces = Monitor.load(file)
    fed(whole, arriving, 0, n)
    assert facts(pieces) == facts(whole)
    assert 0.0 <= whole.evidence <= 1.0
    assert whole.alarm is None or whole.alarm.since <= whole.alarm.event <= n


def monitors_see_what_cannot_be(draw: Draw) -> None:
    """A step that a known reference never takes raises the alarm at that event, unless there was one before."""
    reference = chain(draw)
    states = draw(st.lists(st.integers(0, reference.n_states - 1), min_size=2, max_size=30))
    possible = dense_kernel(reference) > 0.0
    bad = [t + 2 for t, step in enumerate(itertools.pairwise(states)) if not possible[step]]
    monitor = Monitor(reference, discount=0.9, one_false_alarm_per=1e6)
    found = monitor.update(states)
    assert len(found) <= 1
    if bad:
        assert found[0].event <= bad[0]
    if found and found[0].reason == "impossible transition":
        assert found[0].event == bad[0]


def monitored_distances_lie_in_their_intervals(draw: Draw) -> None:
    monitor, arriving = watching(draw)
    fed(monitor, arriving, 0, len(arriving.states))
    found = unless_refused("no transitions yet", lambda: monitor.distance(0.9))
    assert found is None or (0.0 <= found.distance <= 1.0 and inside(found))


def linear(draw: Draw, d: int) -> gaussian.Linear:
    """A stable linear model with noise of any rank."""
    A, S = (np.array(draw(st.lists(UNIT, min_size=d * d, max_size=d * d))).reshape(d, d) for _ in range(2))
    radius = max(float(np.abs(np.linalg.eigvals(A)).max()), 1e-9)
    A = A * min(1.0, 0.95 / radius)
    offset, mean = (draw(st.lists(UNIT, min_size=d, max_size=d)) for _ in range(2))
    return gaussian.Linear.of(A, S, offset=offset, start=(mean, np.eye(d) * draw(st.sampled_from((0.0, 0.5)))))


def gaussians_keep_the_axioms(draw: Draw) -> None:
    d, g = draw(st.integers(1, 3)), draw(st.sampled_from((0.3, 0.9, 0.99)))
    x, y, z = (linear(draw, d) for _ in range(3))

    def root(a: gaussian.Linear, b: gaussian.Linear) -> float:
        return float(np.sqrt(gaussian.between(a, b, discount=g).distance))

    assert root(x, x) == 0.0
    assert root(x, y) == pytest.approx(root(y, x), abs=1e-6)
    assert root(x, z) <= root(x, y) + root(y, z) + 1e-6
    euclidean = gaussian.between(x, y, "euclidean", discount=g)
    assert 0.0 <= euclidean.bounds.low <= euclidean.bounds.high + 1e-12
    assert euclidean.bounds.high <= root(x, y) + 1e-6


def gaussians_follow_shifts_and_turns(draw: Draw) -> None:
    """A copy moved by m is |m| away; the same turn of both changes nothing."""
    d, g = draw(st.integers(1, 3)), draw(st.sampled_from((0.3, 0.9, 0.99)))
    x, y = linear(draw, d), linear(draw, d)
    m = np.array(draw(st.lists(UNIT, min_size=d, max_size=d)))
    moved = gaussian.Linear.of(
        x.A, x.S, offset=x.offset + m - x.A @ m, start=(x.start_mean + m, x.start_covariance)
    )  # fmt: skip
    assert gaussian.between(x, moved, discount=g).distance == pytest.approx(float(m @ m), abs=1e-7)
    turn = np.linalg.qr(np.array(draw(st.lists(UNIT, min_size=d * d, max_size=d * d))).reshape(d, d) + 2 * np.eye(d))[0]
    found, turned = (
        gaussian.between(*pair, discount=g).distance for pair in ((x, y), (_turned(x, turn), _turned(y, turn)))
    )
    assert turned == pytest.approx(found, abs=1e-7 * (1.0 + found))


def _turned(model: gaussian.Linear, turn: Floats) -> gaussian.Linear:
    start = (turn @ model.start_mean, turn @ model.start_covariance @ turn.T)
    return gaussian.Linear.of(turn @ model.A @ turn.T, turn @ model.S, offset=turn @ model.offset, start=start)


def recording(draw: Draw, d: int) -> Trajectories:
    """Episodes with points that repeat, some ended for good."""
    point = st.lists(st.integers(-3, 3).map(float) | UNIT, min_size=d, max_size=d)
    episodes = draw(st.lists(st.lists(point, min_size=2, max_size=15), min_size=1, max_size=4))
    ended = draw(st.lists(st.booleans(), min_size=len(episodes), max_size=len(episodes)))
    return Trajectories.from_arrays([np.array(episode) for episode in episodes], terminated=ended)


def cells_keep_every_step(draw: Draw) -> None:
    """Each step of a recording is one of its cells, and centres lie where their points do."""
    d = draw(st.integers(1, 4))
    recordings = [recording(draw, d) for _ in range(draw(st.integers(1, 3)))]
    n_cells, scale = draw(st.sampled_from(("auto", 2, 5))), draw(st.sampled_from(("std", 1.0)))
    cells = unless_refused("never changes", lambda: somcot.discretise(*recordings, n_cells=n_cells, scale=scale))
    if cells is None:
        return
    for made, data in zip(cells.recordings, recordings, strict=True):
        assert (made.n_transitions, made.n_episodes) == (data.n_transitions, data.n_episodes)
        np.testing.assert_array_equal(cells.samples(data).counts(), made.counts())
    points = np.vstack([data.points for data in recordings])
    assert (cells.centres >= points.min(axis=0) - 1e-9).all()
    assert (cells.centres <= points.max(axis=0) + 1e-9).all()
    assert cells.visits.sum() == len(points)


def vectors_have_an_answer(draw: Draw) -> None:
    """Zero from themselves, the same each time, inside an interval if there is one."""
    d = draw(st.integers(1, 2))
    x, y = recording(draw, d), recording(draw, d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, again, same = (
            somcot.distance(x, other, "euclidean", discount=0.9, confidence=0.9, rng=3, scale=1.0)
            for other in (y, y, x)
        )
    assert same.distance == 0.0
    assert found.distance == again.distance
    assert 0.0 <= found.distance <= 2.0 * float(np.linalg.norm(np.ptp(np.vstack((x.points, y.points)), axis=0))) + 1e-9
    assert inside(found)


STREAMED: tuple[Callable[[Draw], None], ...] = (
    monitors_do_not_depend_on_cuts,
    monitors_see_what_cannot_be,
    monitored_distances_lie_in_their_intervals,
    gaussians_keep_the_axioms,
    gaussians_follow_shifts_and_turns,
    cells_keep_every_step,
    vectors_have_an_answer,
)
