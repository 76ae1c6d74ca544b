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

from typing import Any, NamedTuple

from somcot.plumbing.validation import check_count, check_discount, check_flag, check_positive

__all__ = ["CLOCKS", "Clock", "ClockRow"]


class ClockRow(NamedTuple):
    """One clock, for the help, the pages and the error messages.

    Attributes
    ----------
    name : str
    asked : str
        How it is asked for in Python; ``{value}`` stands for its number.
    example : float
        A number for it.
    shown : str
        A sentence part for reports; ``{value}`` stands for its number.
    whom : str
        For whom it is, as in the table of docs/clocks.md.
    """

    name: str
    asked: str
    example: float
    shown: str
    whom: str


_ROWS = (
    ClockRow("discount", "discount={value}", 0.95, "discount {value}", "what is near counts more: control, event logs"),
    ClockRow("average", "discount=1", 1.0, "long-run average", "stationary behaviour: molecular models, graphs"),
    ClockRow(
        "horizon", "horizon={value}", 20.0, "the first {value} steps", "a fixed number of steps: finance, planning"
    ),
    ClockRow("rate", "rate={value}", 0.1, "discount rate {value}", "rates instead of steps: queues, chemistry"),
    ClockRow("total", "total=True", 0.0, "total until both have ended", "visits that end: shops, games, call centres"),
)
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
    def chosen(cls, discount: Any = None, horizon: Any = None, rate: Any = None, total: Any = False) -> Clock:
        """The one clock among the arguments; an error where there is none, or more than one."""
        total = check_flag("total", total)
        arguments = {"discount": discount, "horizon": horizon, "rate": rate, "total": total or None}
        given = [f"{name}={value!r}" for name, value in arguments.items() if value is not None]
        if len(given) != 1:
            listed = ", ".join(cls(row.name, row.example).asked for row in _ROWS)
            found = " and ".join(given) or "none of them"
            raise TypeError(f"discount, horizon, rate, total: found {found}, expected exactly one, as in {listed}")
        if horizon is not None:
            return cls("horizon", float(check_count("horizon", horizon)))
        if rate is not None:
            return cls("rate", check_positive("rate", rate))
        return cls("total") if total else cls.discounting(discount)

    @classmethod
    def discounting(cls, discount: Any) -> Clock:
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

    def __str__(self) -> str:
        return CLOCKS[self.name].shown.format(value=f"{self.value:g}")
