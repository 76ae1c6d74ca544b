"""Labels, numbers and records as people read them."""

from collections.abc import Hashable
from dataclasses import fields
from typing import Any

__all__ = [
    "LONGEST", "brief", "brief_record", "decimals", "figure", "label_text", "listed_label", "percent", "seconds",
    "shown_fields",
]  # fmt: skip

LONGEST = 18
_LISTED = 6  # numbers of a tuple that are shown; more are counted


def label_text(label: Hashable, longest: int = LONGEST) -> str:
    """A label as plain text, shortened; not yet escaped.

    Examples
    --------
    >>> label_text(("home", 3)), label_text("x" * 30, 8)
    ('home, 3', 'xxxxxxx…')

    Blanks that nobody would see are put into quotes:

    >>> label_text(" home"), label_text("my home")
    ("' home'", 'my home')
    """
    text = ", ".join(map(_visible, label)) if isinstance(label, tuple) else _visible(label)
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _visible(label: object) -> str:
    text = str(label)
    return text if text and text == " ".join(text.split()) else f"'{text}'"


def listed_label(label: Hashable, longest: int = LONGEST) -> str:
    """A label in a row of them: in quotes where a blank or a comma would take it apart.

    Examples
    --------
    >>> listed_label("my home"), listed_label("home")
    ("'my home'", 'home')
    """
    text = label_text(label, longest)
    return f"'{text}'" if isinstance(label, str) and not text.startswith("'") and (" " in text or "," in text) else text


def seconds(time: float) -> str:
    """How long something took: two digits, and whole seconds from a hundred on.

    Examples
    --------
    >>> seconds(0.00123), seconds(7.345), seconds(318.4)
    ('0.0012 s', '7.3 s', '318 s')
    """
    return f"{time:.2g} s" if time < 99.5 else f"{time:,.0f} s"


def figure(value: float) -> str:
    """A number for people: four decimals, or four digits where that would say little.

    Examples
    --------
    >>> figure(0.13), figure(0.00001234), figure(12345.678)
    ('0.1300', '1.234e-05', '1.235e+04')
    """
    return f"{value:.4f}" if value == 0 or 0.001 <= abs(value) < 1000 else f"{value:.4g}"


def decimals(value: float) -> str:
    """A number for a column: four decimals throughout, unless they would hide it or it is huge.

    Examples
    --------
    >>> decimals(0.0005833), decimals(0.00001234)
    ('0.0006', '1.234e-05')
    """
    return f"{value:.4f}" if value == 0 or 0.00005 <= abs(value) < 1000 else f"{value:.4g}"


def percent(share: float) -> str:
    """A share for people: one decimal throughout, so that columns can be compared.

    Examples
    --------
    >>> percent(0.1176), percent(1.0), percent(0.0003), percent(0.0)
    ('11.8 %', '100.0 %', '< 0.1 %', '0.0 %')
    """
    return "< 0.1 %" if 0.0 < share < 0.0005 else f"{100 * share:.1f} %"


def brief(value: Any) -> str:
    """A value on a line: arrays by their shape, long tuples by their length.

    Examples
    --------
    >>> import numpy as np
    >>> brief(np.zeros((3, 4))), brief(0.5), brief((1.0,) * 40)
    ('array (3, 4)', '0.5', 'tuple of 40')
    """
    if hasattr(value, "shape") and hasattr(value, "dtype") and value.shape != ():
        if value.shape[0] <= _LISTED and len(value.shape) == 1:
            return " ".join(repr(value).split())
        return f"{'array' if type(value).__name__ == 'ndarray' else type(value).__name__} {value.shape}"
    if isinstance(value, (tuple, list)) and len(value) > _LISTED and type(value).__repr__ in _PLAIN:
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return label_text(repr(value), 120)


_PLAIN = (tuple.__repr__, list.__repr__)


def brief_record(record: Any) -> str:
    """The ``repr`` of a named tuple or dataclass that holds arrays.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> import numpy as np
    >>> class Fit(NamedTuple):
    ...     law: object
    ...     error: float
    ...     __repr__ = brief_record
    >>> Fit(np.zeros(40), 0.25)
    Fit(law=array (40,), error=0.25)
    """
    parts = (f"{name}={brief(getattr(record, name))}" for name in shown_fields(record))
    return f"{type(record).__name__}({', '.join(parts)})"


def shown_fields(record: Any) -> list[str]:
    """Names of the fields of a named tuple or dataclass that are meant to be seen."""
    if isinstance(record, tuple):
        return list(getattr(record, "_fields", ()))
    return [field.name for field in fields(record) if field.repr]
