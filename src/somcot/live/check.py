"""A recording checked against itself: is it suitable as the reference of a monitor?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from somcot.live.alarm import Alarm
from somcot.live.monitor import Monitor
from somcot.plumbing.errors import DataWarning
from somcot.plumbing.errors import warn as warn_about
from somcot.plumbing.notes import Note
from somcot.samples import Samples

__all__ = ["Check", "check"]


@dataclass(frozen=True)
class Check:
    """Outcome of checking a recording against itself.

    Attributes
    ----------
    alarm : Alarm or None
        Raised by the second half against the first; its events are counted from the start of the second half.
    n_transitions : int
        Number of transitions in the second half.
    evidence : float
        Evidence at the end; 1 with an alarm.
    """

    alarm: Alarm | None
    n_transitions: int
    evidence: float

    @property
    def stationary(self) -> bool:
        """Whether no alarm speaks against the recording as a reference."""
        return self.alarm is None


def check(reference: object, *, false_alarm: float, say: bool) -> Check:
    """Monitor the second half of a recording against its first; see `Monitor.check`."""
    if not isinstance(reference, Samples) or reference.offsets is None:
        raise TypeError(
            f"reference: found {type(reference).__name__}, expected Samples of episodes in order of time: only those "
            "can be split in two"
        )
    half = reference.n_transitions // 2
    if half < 2:
        raise ValueError(f"reference: {reference.n_transitions} transitions are too few to be split in two")
    first, second = _halves(reference, half)
    monitor = Monitor(first, discount=0.5, false_alarm=false_alarm, within=second.n_transitions + second.n_episodes)
    assert second.offsets is not None
    lengths = np.diff(second.offsets)
    begins = second.offsets[:-1] + np.arange(len(lengths))  # an episode has one more state than transitions
    states = np.empty(second.n_transitions + len(lengths), dtype=np.int32)
    keep = np.ones(len(states), dtype=np.bool_)
    keep[begins] = False
    states[keep] = second.following
    states[begins] = second.now[second.offsets[:-1]]
    names = np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths + 1)
    monitor.take(states, names if second.n_episodes > 1 else None, np.zeros(0))
    outcome = Check(monitor.alarm, second.n_transitions, monitor.evidence)
    if say and outcome.alarm is not None:
        moved = "; ".join(str(m) for m in outcome.alarm.transitions[:3])
        since = half + outcome.alarm.since
        warn_about(Note("reference-changes", "reference", since=since, moved=moved), DataWarning)
    return outcome


def _halves(samples: Samples, half: int) -> tuple[Samples, Samples]:
    """The recording before and after the middle; an episode across the middle is split."""
    offsets = samples.offsets
    assert offsets is not None

    def part(begin: int, end: int) -> Samples:
        inside = offsets[(offsets > begin) & (offsets < end)]
        cut = np.concatenate([[begin], inside, [end]]) - begin
        return Samples(samples.states, samples.now[begin:end], samples.following[begin:end], offsets=cut)

    return part(0, half), part(half, samples.n_transitions)
