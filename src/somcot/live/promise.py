"""What a monitor promises about false alarms, and what follows: where the alarm is raised, how starts are weighted."""

from __future__ import annotations

from typing import NamedTuple

from somcot.plumbing.validation import check_count, check_number

__all__ = ["Promise", "choose"]

DEFAULT = 1_000_000.0


class Promise(NamedTuple):
    """One of three promises; `threshold` is what the evidence has to reach.

    Attributes
    ----------
    one_per : float or None
        On average at most one false alarm in that many events.
    level : float or None
        The probability of a false alarm is at most this, ...
    within : int or None
        ... within that many events; None: however long the monitor runs.
    """

    one_per: float | None = DEFAULT
    level: float | None = None
    within: int | None = None

    @property
    def threshold(self) -> float:
        """What the Shiryaev-Roberts sum has to reach: A by optional stopping, T / a by Doob, 1 / a by Ville."""
        if self.level is None:
            return float(self.one_per or DEFAULT)
        return (self.within or 1) / self.level

    @property
    def forever(self) -> bool:
        """Whether possible starts of a change are weighted so that their weights sum to 1."""
        return self.level is not None and self.within is None

    def __str__(self) -> str:
        if self.level is None:
            return f"on average at most one false alarm in {self.one_per:,.0f} events"
        if self.within is None:
            return f"a false alarm ever with probability at most {self.level:g}"
        return f"a false alarm within {self.within:,} events with probability at most {self.level:g}"


def choose(one_per: float | None, level: float | None, within: int | None) -> Promise:
    """The promise that was asked for; refused where two contradict each other.

    Examples
    --------
    >>> choose(None, 0.05, 20_000).threshold
    400000.0
    >>> print(choose(None, None, None))
    on average at most one false alarm in 1,000,000 events
    """
    if level is None:
        if within is not None:
            raise ValueError("within: only together with false_alarm, the probability that is not to be exceeded")
        value = DEFAULT if one_per is None else check_number("one_false_alarm_per", one_per)
        if not 1.0 <= value < 1e200:
            raise ValueError(f"one_false_alarm_per: found {value:g}, expected a number of events of at least 1")
        return Promise(value)
    if one_per is not None:
        raise ValueError("false_alarm: found together with one_false_alarm_per; choose one of the two promises")
    share = check_number("false_alarm", level)
    if not 1e-100 < share < 1.0:
        raise ValueError(f"false_alarm: found {share:g}, expected a probability between 0 and 1, such as 0.05")
    return Promise(None, share, None if within is None else check_count("within", within))
