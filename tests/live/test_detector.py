"""The compiled detector against the equations in plain Python, and against all paths at once."""

import itertools

import numpy as np
import pytest

import somcot
from somcot import Counts, MarkovChain, Monitor, Samples
from tests.live.streams import FAMILIES, NOTE, Family, PlainDetector, share_of_alarms

CHAIN = MarkovChain([[0.2, 0.8], [0.6, 0.4]])


def evidence(monitor: Monitor, threshold: float) -> float:
    """The detector's sum; the monitor shows it as a share of its threshold."""
    assert monitor.evidence < 1.0
    return monitor.evidence * threshold


@pytest.mark.parametrize("forever", [False, True])
@pytest.mark.parametrize("recorded", [False, True])
def test_it_computes_the_equations(recorded: bool, forever: bool) -> None:
    family = NOTE[1]
    rng = np.random.default_rng(0)
    (reference,) = family.recordings(1, 200, rng)
    promise = {"false_alarm": 1e-90} if forever else {"one_false_alarm_per": 1e90}
    monitor = Monitor(reference if recorded else family.chain, discount=0.9, **promise)  # type: ignore[arg-type]
    kernel = np.asarray(family.chain.transition)
    plain = PlainDetector(10, kernel, reference.counts() if recorded else None, forever)
    states, _ = family.stream(3000, rng)
    other = np.random.default_rng(1).integers(0, 10, 500)
    path = np.concatenate([states, other])  # a change, so that rows are scaled back and sums become large
    for t in range(1, len(path)):
        expected = plain.step(int(path[t - 1]), int(path[t]))
    monitor.update(path)
    assert evidence(monitor, 1e90) == pytest.approx(expected, rel=1e-9)
    assert monitor.n_scored == len(path) - 1


def test_rows_are_scaled_back_without_a_trace() -> None:
    """With a memory of 16 visits a row's weight passes 1e100 after 3,600 of them."""
    monitor, plain = Monitor(CHAIN, discount=0.9, one_false_alarm_per=1e90), PlainDetector(2, CHAIN.transition)
    path = CHAIN.sample(1, 9_000, rng=3).now
    for i, j in itertools.pairwise(path.tolist()):
        expected = plain.step(i, j)
    monitor.update(path)
    assert evidence(monitor, 1e90) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("forever", [False, True])
def test_steps_from_labels_that_a_recording_lacks_are_counted_without_a_bet(forever: bool) -> None:
    promise = {"false_alarm": 1e-90} if forever else {"one_false_alarm_per": 1e90}
    monitor = Monitor(CHAIN.sample(1, 200, rng=0), discount=0.9, **promise)  # type: ignore[arg-type]
    monitor.update(["unheard of"] * 50)
    t = np.arange(1, 50)
    weights = 1.0 / (2.10975 * (t + 1) * np.log(t + 1) ** 2) if forever else np.ones(49)
    assert evidence(monitor, 1e90) == pytest.approx(weights.sum(), rel=1e-12)


@pytest.mark.parametrize("recorded", [False, True])
def test_the_sum_minus_its_weights_is_a_martingale(recorded: bool) -> None:
    """Over all paths of 8 steps: the mean of R is the number of steps; for counts, under their own prediction."""
    counts = np.array([[3, 9], [5, 2]])
    reference = Counts.from_matrix(counts, initial=0) if recorded else CHAIN
    mean, total = 0.0, 0.0
    for path in itertools.product(range(2), repeat=8):
        plain = PlainDetector(2, CHAIN.transition, counts if recorded else None)
        probability = 1.0
        for i, j in itertools.pairwise((0, *path)):
            probability *= plain.null(i, j)
            plain.step(i, j)
        monitor = Monitor(reference, discount=0.9, one_false_alarm_per=1e90)
        monitor.take(np.array((0, *path), dtype=np.int32), None, np.zeros(0))
        mean, total = mean + probability * evidence(monitor, 1e90), total + probability
    assert total == pytest.approx(1.0)
    assert mean == pytest.approx(8.0, rel=1e-10)


def test_large_supports_grow() -> None:
    """A recorded reference of 500 states that saw little, and a stream full of transitions it never saw."""
    rng = np.random.default_rng(2)
    reference = Samples.from_trajectories([rng.integers(0, 500, 50)], states=range(500))
    counts = np.zeros((500, 500))
    np.add.at(counts, (reference.now, reference.following), 1)
    monitor, plain = (
        Monitor(reference, discount=0.9, one_false_alarm_per=1e199),
        PlainDetector(500, None, counts),
    )
    path = rng.integers(0, 500, 2000)
    assert len(set(itertools.pairwise(path.tolist()))) > 1500
    for i, j in itertools.pairwise(path.tolist()):
        expected = plain.step(i, j)
    monitor.update(path)
    assert np.log(evidence(monitor, 1e199)) == pytest.approx(np.log(expected), rel=1e-9)


@pytest.mark.parametrize("family", [NOTE[0], FAMILIES[4], FAMILIES[5]], ids=lambda family: family.name)
@pytest.mark.parametrize("reference_length", [None, 500])
def test_false_alarms_are_as_rare_as_promised(family: Family, reference_length: int | None) -> None:
    """A bound of .3 in 1,000 events; tests/statistical has more."""
    share, _ = share_of_alarms(family, 100, 1000, reference_length, 5, false_alarm=0.3, within=1000)
    assert share <= 0.3 + 2.0 * np.sqrt(0.3 * 0.7 / 100)


def test_taking_a_recording_for_the_truth_would_not_do() -> None:
    """The test above can fail: the chain of 500 transitions taken as known raises false alarms nearly always."""
    rng = np.random.default_rng(6)
    family, n_alarms = NOTE[1], 0
    for reference, (states, _) in zip(family.recordings(20, 500, rng), family.streams(20, 5000, rng), strict=True):
        chain = MarkovChain(0.999 * np.asarray(reference.chain(check=False).transition) + 0.0001)
        monitor = Monitor(chain, discount=0.9, false_alarm=0.05, within=5000)
        n_alarms += len(monitor.update(states))
    assert n_alarms > 15


def test_mean_run_length() -> None:
    share, when = share_of_alarms(NOTE[0], 200, 3000, None, 7, one_false_alarm_per=200)
    lengths = np.array(when + [3000] * round(200 * (1.0 - share)))
    assert lengths.mean() >= 200


def test_a_change_is_found_soon() -> None:
    """Ten streams; the median delay of the research for .5 -> .7 is 1,080 events."""
    walk, drift = somcot.random_walk(10), somcot.random_walk(10, 0.7)
    delays = []
    for seed in range(12):
        monitor = Monitor(walk, discount=0.9, false_alarm=0.05, within=20_000)
        before = walk.sample(1, 2000, rng=seed).now
        after = MarkovChain(drift.transition, int(before[-1])).sample(1, 6000, rng=100 + seed).now[1:]
        (alarm,) = monitor.update(np.concatenate([before, after]))
        delays.append(alarm.event - 2000)
    assert sum(delay <= 0 for delay in delays) <= 1
    assert np.median([delay for delay in delays if delay > 0]) < 1.5 * 1080
