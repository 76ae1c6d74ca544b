"""Clocks: how costs are accumulated over time.

``discount=g``
    (1 - g) E[sum_t g^t c(X_t, Y_t)].
``discount=1``
    The long-run average, lim 1/T E[sum_{t < T} c(X_t, Y_t)].
``horizon=T``
    1/T E[sum_{t < T} c(X_t, Y_t)].
``rate=r``
    E[integral of r e^(-r t) c(X_t, Y_t) dt], for chains in continuous time.
``total=True``
    E[sum of c(X_t, Y_t) until both processes have terminated].
"""

from __future__ import annotations

from typing import NamedTuple

from somcot.plumbing.checks import check_count, check_discount, check_flag, check_positive

__all__ = ["CLOCKS", "Clock", "ClockRow"]


class ClockRow(NamedTuple):
    """Texts about one clock for help, documentation, reports and error messages; ``{value}`` is its parameter.

    Attributes
    ----------
    name : str
    asked : str
        The argument that selects it in Python.
    example : float
        An example value of the parameter.
    shown : str
        A phrase for reports.
    least : str
        The quantity that is minimised, as in the table of docs/clocks.md.
    whom : str
        Typical applications, as in the same table.
    during : str
        The beginning of a sentence: the period over which costs count.
    share : str
        The steps that count, as in "on half of ...".
    explained : str
        A one-sentence explanation.
    """

    name: str
    asked: str
    example: float
    shown: str
    least: str
    whom: str
    during: str
    share: str
    explained: str


_ROWS = (
    ClockRow(
        # The only clock with bias correction and intervals for data.
        "discount", "discount={value}", 0.95, "discount {value}", "(1 - g) E[sum of g^t c(X_t, Y_t)]",
        "the near future counts more: control, event logs", "On the steps that matter", "the steps that matter",
        "With discount {value} about the first {steps} steps matter; earlier ones count more.",
    ),
    ClockRow(
        "average", "discount=1", 1.0, "long-run average", "the long-run mean of c(X_t, Y_t)",
        "stationary behaviour: molecular models, graphs", "In the long run", "all steps in the long run",
        "This is the long-run average; the first steps do not matter.",
    ),
    ClockRow(
        "horizon", "horizon={value}", 20.0, "the first {value} steps", "the mean of c(X_t, Y_t) over t = 0, ..., T - 1",
        "a fixed number of steps: finance, planning", "In the first {value} steps", "the first {value} steps",
        "The first {value} steps, including the initial state, have equal weight; later steps do not count.",
    ),
    ClockRow(
        "rate", "rate={value}", 0.1, "discount rate {value}", "E[integral of r e^(-r t) c(X_t, Y_t) dt]",
        "rates instead of steps: queues, chemistry", "In the time that matters", "the time that matters",
        "At discount rate {value} about the first {steps} units of time matter; earlier ones count more.",
    ),
    ClockRow(
        # No parameter: the value 0 is never shown.
        "total", "total=True", 0.0, "total until both have ended", "E[sum of c(X_t, Y_t) until both have ended]",
        "sessions that end: shops, games, call centres", "Until both have ended", "the steps until both have ended",
        "All steps until both have ended have equal weight; this is their total, not their mean.",
    ),
)  # fmt: skip
CLOCKS = {row.name: row for row in _ROWS}


class Clock(NamedTuple):
    """The clock of a problem: its name in `CLOCKS` and its parameter (0 if it has none).

    Examples
    --------
    >>> print(Clock.chosen(horizon=12))
    the first 12 steps
    >>> Clock.chosen(discount=1).discount
    1.0
    """

    name: str
    value: float = 0.0

    @classmethod
    def chosen(
        cls, discount: object = None, horizon: object = None, rate: object = None, total: object = False
    ) -> Clock:
        """The clock selected by the arguments, of which exactly one must be set."""
        total = check_flag("total", total)
        # `total=False` is the default of the argument, so it counts as not set.
        arguments = {"discount": discount, "horizon": horizon, "rate": rate, "total": total or None}
        selected = [f"{name}={value!r}" for name, value in arguments.items() if value is not None]
        # Exactly one: a default would hide how strongly results depend on the choice.
        if len(selected) != 1:
            listed = ", ".join(cls(row.name, row.example).asked for row in _ROWS)
            names = " and ".join(selected) or "none of them"
            raise TypeError(f"discount, horizon, rate, total: found {names}, expected exactly one, as in {listed}")
        if horizon is not None:
            return cls("horizon", float(check_count("horizon", horizon)))
        if rate is not None:
            return cls("rate", check_positive("rate", rate))
        return cls("total") if total else cls.discounting(discount)

    @classmethod
    def discounting(cls, discount: object) -> Clock:
        """The clock of a discount; 1 selects the long-run average.

        Examples
        --------
        >>> Clock.discounting(1).name, Clock.discounting(0.9)
        ('average', Clock(name='discount', value=0.9))
        """
        # True equals 1 in Python, but is no discount; 0.9999999 is one, and not the average.
        is_one = isinstance(discount, (int, float)) and not isinstance(discount, bool) and discount == 1
        expected = "a number above 0 and below 1, such as 0.95, or 1 for the long-run average"
        return cls("average", 1.0) if is_one else cls("discount", check_discount(discount, expected))

    @property
    def discount(self) -> float:
        """The discount factor per step."""
        # Horizons and totals are undiscounted; the average is the limit at 1.
        return self.value if self.name == "discount" else 1.0

    @property
    def asked(self) -> str:
        # Rounded as in a call, so that the text can be copied into code.
        """The argument that selects this clock."""
        return CLOCKS[self.name].asked.format(value=f"{self.value:g}")

    @property
    def during(self) -> str:
        """The period over which costs count, as the beginning of a sentence."""
        return CLOCKS[self.name].during.format(value=f"{self.value:g}")

    @property
    def share(self) -> str:
        """The steps that count."""
        return CLOCKS[self.name].share.format(value=f"{self.value:g}")

    @property
    def explained(self) -> str:
        """A one-sentence explanation.

        Examples
        --------
        >>> Clock("discount", 0.9).explained
        'With discount 0.9 about the first 10 steps matter; earlier ones count more.'
        """
        # The mean of a geometric (or exponential) time: the effective horizon.
        ahead = 1.0 / (1.0 - self.value) if self.name == "discount" else 1.0 / (self.value or 1.0)
        return CLOCKS[self.name].explained.format(value=f"{self.value:g}", steps=f"{ahead:.3g}")

    def __str__(self) -> str:
        return CLOCKS[self.name].shown.format(value=f"{self.value:g}")
