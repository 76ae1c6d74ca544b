"""Clocks: how the costs of single moments add up to one distance.

``discount=g``
    (1 - g) E[sum_t g^t c(X_t, Y_t)].
``discount=1``
    The long-run average, lim 1/T E[sum_{t < T} c(X_t, Y_t)].
``horizon=T``
    1/T E[sum_{t < T} c(X_t, Y_t)].
``rate=r``
    E[integral of r e^(-r t) c(X_t, Y_t) dt], for chains in continuous time.
``total=True``
    E[sum of c(X_t, Y_t) until both have ended].
"""

from __future__ import annotations

from typing import NamedTuple

from somcot.plumbing.checks import check_count, check_discount, check_flag, check_positive

__all__ = ["CLOCKS", "Clock", "ClockRow"]


class ClockRow(NamedTuple):
    """One clock, for the help, the pages, the reports and the error messages; ``{value}`` stands for its number.

    Attributes
    ----------
    name : str
    asked : str
        How it is asked for in Python.
    example : float
        A number for it.
    shown : str
        A sentence part for reports.
    least : str
        What is made as small as possible, as in the table of docs/clocks.md.
    whom : str
        For whom it is, as in the same table.
    during : str
        The beginning of a sentence: when it is that costs count.
    share : str
        The steps that count, as in "on half of ...".
    explained : str
        What that means, in a sentence.
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
        "discount", "discount={value}", 0.95, "discount {value}", "(1 - g) E[sum of g^t c(X_t, Y_t)]",
        "what is near counts more: control, event logs", "On the steps that matter", "the steps that matter",
        "With discount {value} about the first {steps} steps matter; earlier ones count more.",
    ),
    ClockRow(
        "average", "discount=1", 1.0, "long-run average", "the long-run mean of c(X_t, Y_t)",
        "stationary behaviour: molecular models, graphs", "In the long run", "all steps in the long run",
        "This is the average over a long run; how it begins does not count.",
    ),
    ClockRow(
        "horizon", "horizon={value}", 20.0, "the first {value} steps", "the mean of c(X_t, Y_t) over t = 0, ..., T - 1",
        "a fixed number of steps: finance, planning", "In the first {value} steps", "the first {value} steps",
        "The first {value} steps count alike, the start included, and nothing after them.",
    ),
    ClockRow(
        "rate", "rate={value}", 0.1, "discount rate {value}", "E[integral of r e^(-r t) c(X_t, Y_t) dt]",
        "rates instead of steps: queues, chemistry", "In the time that matters", "the time that matters",
        "At discount rate {value} about the first {steps} units of time matter; earlier ones count more.",
    ),
    ClockRow(
        "total", "total=True", 0.0, "total until both have ended", "E[sum of c(X_t, Y_t) until both have ended]",
        "visits that end: shops, games, call centres", "Until both have ended", "the steps until both have ended",
        "All steps count alike until both have ended; this is their total, not their mean.",
    ),
)  # fmt: skip
CLOCKS = {row.name: row for row in _ROWS}


class Clock(NamedTuple):
    """The clock of a problem: its name in `CLOCKS`, and its number (0 where it has none).

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
        """The one clock among the arguments; an error where there is none, or more than one."""
        total = check_flag("total", total)
        arguments = {"discount": discount, "horizon": horizon, "rate": rate, "total": total or None}
        given = [f"{name}={value!r}" for name, value in arguments.items() if value is not None]
        if len(given) != 1:
            listed = ", ".join(cls(row.name, row.example).asked for row in _ROWS)
            names = " and ".join(given) or "none of them"
            raise TypeError(f"discount, horizon, rate, total: found {names}, expected exactly one, as in {listed}")
        if horizon is not None:
            return cls("horizon", float(check_count("horizon", horizon)))
        if rate is not None:
            return cls("rate", check_positive("rate", rate))
        return cls("total") if total else cls.discounting(discount)

    @classmethod
    def discounting(cls, discount: object) -> Clock:
        """The clock of a discount; 1 asks for the long-run average."""
        is_one = isinstance(discount, (int, float)) and not isinstance(discount, bool) and discount == 1
        return cls("average", 1.0) if is_one else cls("discount", check_discount(discount))

    @property
    def discount(self) -> float:
        """The factor from one step to the next."""
        return self.value if self.name == "discount" else 1.0

    @property
    def asked(self) -> str:
        """How it was asked for."""
        return CLOCKS[self.name].asked.format(value=f"{self.value:g}")

    @property
    def during(self) -> str:
        """When it is that costs count; begins a sentence."""
        return CLOCKS[self.name].during.format(value=f"{self.value:g}")

    @property
    def share(self) -> str:
        """The steps that count."""
        return CLOCKS[self.name].share.format(value=f"{self.value:g}")

    @property
    def explained(self) -> str:
        """What it means, in a sentence.

        Examples
        --------
        >>> Clock("discount", 0.9).explained
        'With discount 0.9 about the first 10 steps matter; earlier ones count more.'
        """
        ahead = 1.0 / (1.0 - self.value) if self.name == "discount" else 1.0 / (self.value or 1.0)
        return CLOCKS[self.name].explained.format(value=f"{self.value:g}", steps=f"{ahead:.3g}")

    def __str__(self) -> str:
        return CLOCKS[self.name].shown.format(value=f"{self.value:g}")
