"""What the monitor promises, over thousands of streams; the figures are in docs/live.md."""

import numpy as np
import pytest

import somcot
from somcot import MarkovChain
from tests.live.streams import FAMILIES, NOTE, Family, share_of_alarms, side_by_side

pytestmark = pytest.mark.statistical

N_STREAMS, LENGTH, BOUND = 2000, 20_000, 0.05
# Median delays of the research behind the rule, for a bound of .05 in 20,000 events; change after 10,000.
DELAYS = {0.55: 6200, 0.6: 2500, 0.7: 1080}


@pytest.mark.parametrize("reference_length", [None, 500, 2000, 20_000])
@pytest.mark.parametrize("family", NOTE + FAMILIES, ids=lambda family: family.name)
def test_false_alarms_within_the_bound(family: Family, reference_length: int | None) -> None:
    share, _ = share_of_alarms(family, N_STREAMS, LENGTH, reference_length, 1, false_alarm=BOUND, within=LENGTH)
    assert share <= BOUND + 2.0 * np.sqrt(BOUND * (1.0 - BOUND) / N_STREAMS)


@pytest.mark.parametrize("family", NOTE, ids=lambda family: family.name)
def test_false_alarms_ever(family: Family) -> None:
    share, _ = share_of_alarms(family, N_STREAMS, LENGTH, None, 2, false_alarm=BOUND)
    assert share <= BOUND + 2.0 * np.sqrt(BOUND * (1.0 - BOUND) / N_STREAMS)


@pytest.mark.parametrize("family", NOTE + FAMILIES, ids=lambda family: family.name)
def test_mean_run_length_is_at_least_the_promise(family: Family) -> None:
    share, when = share_of_alarms(family, 300, 40_000, None, 3, one_false_alarm_per=2000)
    lengths = np.array(when + [40_000] * round(300 * (1.0 - share)))  # those that are still quiet are cut short
    assert lengths.mean() >= 2000 - 2.0 * lengths.std() / np.sqrt(300)


@pytest.mark.parametrize("theta", DELAYS)
def test_delay_for_walks(theta: float) -> None:
    found = median_delay(somcot.random_walk(10), somcot.random_walk(10, theta), None)
    assert found <= 1.2 * DELAYS[theta]


def median_delay(before: MarkovChain, after: MarkovChain, reference_length: int | None, n_streams: int = 100) -> float:
    """Median delay after a change at event 10,000; streams with an alarm before do not count."""
    rng = np.random.default_rng([4, reference_length or 0])
    one = Family("before", before)
    references = [before] * n_streams if reference_length is None else one.recordings(n_streams, reference_length, rng)
    first = np.array([states for states, _ in one.streams(n_streams, 10_000, rng)])
    rest = np.empty((n_streams, 30_000), dtype=np.int32)
    for state in np.unique(first[:, -1]).tolist():
        streams = np.flatnonzero(first[:, -1] == state)
        drawn = side_by_side(MarkovChain(after.transition, state), len(streams), rest.shape[1] + 1, rng)
        rest[streams] = drawn[:, 1:]
    delays = []
    for reference, states in zip(references, np.hstack([first, rest]), strict=True):
        monitor = one.monitor(reference, false_alarm=BOUND, within=LENGTH)
        monitor.take(states, None, np.zeros(0))
        event = 1e9 if monitor.alarm is None else monitor.alarm.event - 10_000
        if event > 0:
            delays.append(event)
    return float(np.median(delays))
