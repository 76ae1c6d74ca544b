"""Text for people: labels, numbers, records, durations, and a progress line."""

from __future__ import annotations

import math
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import fields
from datetime import timedelta
from itertools import zip_longest
from typing import Any, TextIO

__all__ = [
    "LONGEST",
    "Report",
    "brief",
    "brief_record",
    "check_duration",
    "decimals",
    "figure",
    "fitting",
    "label_text",
    "label_texts",
    "listed_label",
    "listing",
    "lower_end",
    "meter",
    "number_of",
    "percent",
    "percents",
    "printable",
    "seconds",
    "shown_fields",
    "shown_pvalue",
    "text_width",
]


# --- Labels, numbers and records as text.

LONGEST = 18
_LISTED = 6  # tuples with more numbers are shown by their length


def listing(labels: Iterable[Hashable], most: int = 10) -> str:
    """Labels as text for a message, the first few of them.

    Examples
    --------
    >>> listing(range(13), most=3)
    '0, 1, 2 and 10 more'
    """
    names = [repr(label) for label in labels]
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def shown_pvalue(pvalue: float | None) -> str:
    """A p-value of equivalence as text; above 0.5 it is not computed.

    Examples
    --------
    >>> shown_pvalue(0.0321), shown_pvalue(1.0)
    ('0.0321', '> 0.5')
    """
    return "> 0.5" if pvalue is None or pvalue > 0.5 else f"{pvalue:.3g}"


def label_text(label: Hashable, longest: int = LONGEST) -> str:
    """A label as plain text; of a long one the middle is omitted, since long labels often differ only at the end.

    Not yet escaped.

    Examples
    --------
    >>> label_text(("home", 3)), label_text("visits of the shop in May.csv", 16)
    ('home, 3', 'visits … May.csv')

    Leading and trailing blanks are made visible by quotes:

    >>> label_text(" home"), label_text("my home")
    ("' home'", 'my home')
    """
    text = ", ".join(map(_visible, label)) if isinstance(label, tuple) else _visible(label)
    text = printable(text)
    end = longest // 2
    return text if len(text) <= longest else f"{text[: longest - end - 1]}…{text[-end:]}"


_JOINERS = "\u200c\u200d"  # which Persian words, Indic scripts and emoji contain


def printable(text: str, kept: str = "") -> str:
    r"""Text without invisible characters, which could move the cursor of a terminal or turn the direction of text.

    Joiners within other scripts than the Latin one and characters of `kept` stay.

    Examples
    --------
    >>> printable("a\x1b[2J"), printable("a\u200db") == "a\ufffdb", len(printable("\U0001f468\u200d\U0001f467"))
    ('a�[2J', True, 3)
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in kept or (c in _JOINERS and before > "\u02ff") else "\N{REPLACEMENT CHARACTER}"
        for before, c in zip(" " + text, text, strict=False)
    )


_NARROW, _BROAD = frozenset(" iljtfrI.,:;'|!()[]"), frozenset("mwMW@%\u2014\u2026")


def text_width(text: str) -> float:
    """The approximate width of a text in a proportional font, as a multiple of the font size.

    Examples
    --------
    >>> text_width("home") < text_width("WWWW") < text_width("注文確認")
    True
    """
    wide, total = {"W": 1.02, "F": 1.02}, 0.0
    for c in text:
        if unicodedata.category(c) in ("Mn", "Cf"):
            continue  # drawn on another letter
        usual = 0.4 if c in _NARROW else 1.0 if c in _BROAD else 0.75 if c.isupper() or not c.isalnum() else 0.64
        total += wide.get(unicodedata.east_asian_width(c), usual)
    return total


def label_texts(labels: Sequence[Hashable], longest: int = LONGEST) -> list[str]:
    """Labels as `label_text` has them, except that long ones which would look alike keep the part in which they differ.

    Examples
    --------
    >>> label_texts(["credit, approved by hand (manual)", "credit, approved by phone (manual)", "home"], 19)
    ['cre…hand (manu…ual)', 'cre…phone (man…ual)', 'home']
    """
    whole, texts = [label_text(label, 4096) for label in labels], [label_text(label, longest) for label in labels]
    side = longest // 4
    room = longest - 2 * side - 1
    for _ in range(len(texts)):  # each pass tells at least one label of a group from the others
        groups: dict[str, list[int]] = {}
        for k, text in enumerate(texts):
            groups.setdefault(text, []).append(k)
        alike = [group for group in groups.values() if len({whole[k] for k in group}) > 1]
        if not alike:
            break
        for group in alike:
            common = next(
                n for n, letters in enumerate(zip_longest(*(whole[k] for k in group))) if len(set(letters)) > 1
            )
            word = whole[group[0]].rfind(" ", 0, common) + 1
            begin = word if word > side and common - word < room // 2 else common
            for k in group:
                texts[k] = f"{whole[k][: side - 1]}…{whole[k][begin : begin + room]}…{whole[k][-side:]}"
    return texts


def fitting(labels: Sequence[Hashable], longest: int = LONGEST) -> list[str]:
    """Labels as `label_texts` has them, those of wide characters, such as Chinese ones, with fewer characters.

    Examples
    --------
    >>> fitting(["home page of the shop", "注文確認と支払い方法の選択と住所"], 20)
    ['home page…f the shop', '注文確認と…選択と住所']
    """
    texts, room = label_texts(labels, longest), 0.62 * longest
    lengths: dict[int, list[int]] = {}
    for k, text in enumerate(texts):
        if text_width(text) > room:  # the mark of omission is wide too
            lengths.setdefault(max(int(0.95 * len(text) * room / text_width(text)), 8), []).append(k)
    for most, wide in lengths.items():
        for k, text in zip(wide, label_texts([labels[k] for k in wide], most), strict=True):
            texts[k] = text
    return texts


def _visible(label: object) -> str:
    text = str(label)
    # An empty or padded label would be invisible in a table.
    return text if text and text == " ".join(text.split()) else f"'{text}'"


def listed_label(label: Hashable, longest: int = LONGEST) -> str:
    """A label within a list: in quotes if it contains a blank or a comma.

    Examples
    --------
    >>> listed_label("my home"), listed_label("home")
    ("'my home'", 'home')
    """
    text = label_text(label, longest)
    return f"'{text}'" if isinstance(label, str) and not text.startswith("'") and (" " in text or "," in text) else text


def seconds(time: float) -> str:
    """A duration in seconds: two digits, and whole seconds from 100 s.

    Examples
    --------
    >>> seconds(0.00123), seconds(7.345), seconds(318.4)
    ('0.0012 s', '7.3 s', '318 s')
    """
    # 99.5 rounds to 100: from there on two digits would read as 1e+02.
    return f"{time:.2g} s" if time < 99.5 else f"{time:,.0f} s"


def figure(value: float) -> str:
    """A number with four decimals, or four significant digits if it is very small or large.

    Examples
    --------
    >>> figure(0.13), figure(0.00001234), figure(12345.678)
    ('0.1300', '1.234e-05', '1.235e+04')
    """
    return f"{value:.4f}" if value == 0 or 0.001 <= abs(value) < 1000 else f"{value:.4g}"


_PLACEHOLDER = 2e-6  # twice `somcot.inference.intervals.LEAST`


def lower_end(low: float, least: float, most: float, shown: Callable[[float], str] = figure) -> str:
    """The lower end of an interval of distances between `least` and `most`.

    Where a test rejects but nothing bounds the distance from below, the end is a placeholder just above the least.

    Examples
    --------
    >>> lower_end(0.0123, 0.0, 1.0), lower_end(1e-6, 0.0, 1.0), lower_end(0.0, 0.0, 1.0)
    ('0.0123', '> 0', '0.0000')
    """
    return f"> {least:g}" if 0.0 < low - least <= _PLACEHOLDER * (most - least) else shown(low)


def decimals(value: float) -> str:
    """A number for a column: four decimals, unless it is very small or large.

    Examples
    --------
    >>> decimals(0.0005833), decimals(0.00001234)
    ('0.0006', '1.234e-05')
    """
    return f"{value:.4f}" if value == 0 or 0.00005 <= abs(value) < 1000 else f"{value:.4g}"


def percent(share: float) -> str:
    """A share in percent, always with one decimal, so that columns can be compared.

    Examples
    --------
    >>> percent(0.1176), percent(1.0), percent(0.0003), percent(0.0)
    ('11.8 %', '100.0 %', '< 0.1 %', '0.0 %')
    """
    return "< 0.1 %" if 0.0 < share < 0.0005 else f"{100 * share:.1f} %"


def percents(before: float, after: float) -> tuple[str, str]:
    """Two shares in percent, with as many decimals as different ones need to look different.

    Examples
    --------
    >>> percents(0.25, 0.5), percents(0.07012, 0.06981)
    (('25.0 %', '50.0 %'), ('7.01 %', '6.98 %'))
    """
    texts = percent(before), percent(after)
    for decimals in range(2, 5):
        if before == after or texts[0] != texts[1]:
            break
        texts = f"{100 * before:.{decimals}f} %", f"{100 * after:.{decimals}f} %"
    return texts


def number_of(n: int, one: str) -> str:
    """A number and what it counts.

    Examples
    --------
    >>> number_of(1, "sequence"), number_of(1200, "state")
    ('1 sequence', '1,200 states')
    """
    return f"{n:,} {one}" if n == 1 else f"{n:,} {one}s"


def brief(value: object) -> str:
    """A value on one line: arrays by their shape, long tuples by their length.

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
    if isinstance(value, float):  # before `repr`, which shows 17 digits
        return f"{value:.6g}"
    return label_text(repr(value), 120)


_PLAIN = (tuple.__repr__, list.__repr__)


def brief_record(record: object) -> str:
    """The ``repr`` of a named tuple or dataclass that holds arrays.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> import numpy as np
    >>> class Fit(NamedTuple):
    ...     weights: object
    ...     error: float
    ...     __repr__ = brief_record
    >>> Fit(np.zeros(40), 0.25)
    Fit(weights=array (40,), error=0.25)
    """
    parts = (f"{name}={brief(getattr(record, name))}" for name in shown_fields(record))
    return f"{type(record).__name__}({', '.join(parts)})"


def shown_fields(record: Any) -> list[str]:
    """Names of the fields of a named tuple or dataclass that `repr` shows."""
    if isinstance(record, tuple):
        return list(getattr(record, "_fields", ()))
    return [field.name for field in fields(record) if field.repr]


# --- Durations such as 30m, 2 hours, a timedelta, or a plain number.

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPELLED = {
    "sec": "s", "second": "s", "min": "m", "minute": "m", "hr": "h", "hour": "h", "day": "d",
}  # fmt: skip
_TEXT = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)", re.ASCII | re.IGNORECASE)
_EXPECTED = "expected a time such as '30m' (units s, m, h, d), or a number where times are plain numbers"


def check_duration(name: str, span: Any) -> float | timedelta:
    """Parse a duration: a number or a timedelta.

    Examples
    --------
    >>> check_duration("gap", "30m"), check_duration("gap", "1.5"), check_duration("gap", 7)
    (datetime.timedelta(seconds=1800), 1.5, 7.0)
    >>> check_duration("gap", "2 hours") == check_duration("gap", "120min")
    True
    """
    value: Any = span
    if isinstance(span, str):
        match = _TEXT.fullmatch(span.strip())
        unit = "" if match is None else _unit(match[2].lower())
        if match is None or unit is None:
            raise ValueError(f"{name}: found {span!r}, {_EXPECTED}")
        value = float(match[1])
        if unit:
            value *= _UNITS[unit]
            # `timedelta` overflows beyond 8.6e13 seconds; such spans are infinite for every log.
            value = timedelta(seconds=value) if value < 1e13 else math.inf
    elif hasattr(span, "to_pytimedelta"):  # of pandas
        value = span.to_pytimedelta()
    elif hasattr(span, "astype") and getattr(span, "dtype", None) is not None and span.dtype.kind == "m":  # of NumPy
        value = span.astype("m8[us]").item()
    if isinstance(value, bool) or not isinstance(value, timedelta):
        value = _number(name, span, value)
    if not (value > timedelta(0) if isinstance(value, timedelta) else 0 < value < math.inf):
        raise ValueError(f"{name}: found {span!r}, expected a time above 0, such as '30m'")
    return value  # type: ignore[no-any-return]


def _unit(text: str) -> str | None:
    """The letter of a unit in any spelling, or None."""
    letter = _SPELLED.get(text.removesuffix("s") or text, text)  # "s" itself must not lose its letter
    return letter if not letter or letter in _UNITS else None


def _number(name: str, span: Any, value: Any) -> float:
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name}: found {span!r}, {_EXPECTED}") from None


# --- A progress line on standard error.

Report = Callable[[int, int, float], None]


def meter(n_steps: int, stream: TextIO | None = None, every: float = 0.2) -> Report:
    r"""Make a function ``report(step, n_steps, value)`` that shows progress, value and remaining time.

    It updates at most every `every` seconds. On a terminal the line is rewritten in place; elsewhere a new line is
    printed every ten seconds.

    Examples
    --------
    >>> import io
    >>> out = io.StringIO()
    >>> meter(10, out)(10, 10, 0.25)
    >>> out.getvalue()
    '100 %, 10 of 10 steps, 0.25, 0 s left\n'
    """
    out = sys.stderr if stream is None else stream
    # Rewriting a line in a log file would only add control characters.
    rewrite = out.isatty()
    pause = every if rewrite else max(every, 10.0)
    began = shown = time.monotonic()
    first: int | None = None

    def report(step: int, total: int, value: float) -> None:
        nonlocal shown, first
        first = step if first is None else first
        now = time.monotonic()
        done = step >= total
        if not done and now - shown < pause:
            return
        shown = now
        # From the first reported step on: resumed runs do not start at 0.
        left = (now - began) * (total - step) / max(1, step - first) if not done else 0.0
        line = f"{100 * step // total} %, {step:,} of {total:,} steps, {value:.4g}, {left:.0f} s left"
        out.write(f"\r{line:<70}" + ("\n" if done else "") if rewrite else line + "\n")
        out.flush()

    return report
