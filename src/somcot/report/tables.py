"""Pieces of HTML that the parts of a report share; every text from outside is escaped here."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from html import escape

from somcot.plumbing.text import decimals, label_text, percent

__all__ = ["bold", "cell", "columns", "details", "facts", "number", "share", "shortened", "table", "text"]


def text(label: Hashable, longest: int = 60) -> str:
    """A label, shortened in its middle and escaped: long ones, such as addresses, often differ only at the end."""
    return escape(shortened(label, longest))


def shortened(label: Hashable, longest: int) -> str:
    """A label without its middle, where it is long.

    Examples
    --------
    >>> shortened("visits of the shop in May.csv", 16)
    'visits … May.csv'
    """
    whole = label_text(label, 10_000)
    end = longest // 2
    return whole if len(whole) <= longest else f"{whole[: longest - end - 1]}…{whole[-end:]}"


def bold(label: Hashable) -> str:
    """A label that stands out from its sentence."""
    return f"<b>{text(label)}</b>"


def cell(label: Hashable) -> str:
    """A label in a table."""
    return f"<td>{text(label)}</td>"


def number(value: float) -> str:
    """A number in a table."""
    return f'<td class="n">{decimals(value)}</td>'


def share(value: float) -> str:
    """A percentage in a table, one decimal throughout."""
    return f'<td class="n">{escape(percent(value))}</td>'


def columns(names: tuple[str, str]) -> tuple[str, str]:
    """Names of the processes as heads of columns of numbers."""
    return f"!{text(names[0], 40)}", f"!{text(names[1], 40)}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells come as finished HTML; a head that begins with ! is that of a column of numbers."""
    top = "".join(f'<th class="n">{h[1:]}</th>' if h.startswith("!") else f"<th>{h}</th>" for h in head)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{top}</tr>{body}</table></div>'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and texts below each other."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{body}</table>"


def details(title: str, body: str) -> str:
    """A part for those who want to know, closed at first."""
    return f"<details><summary>{escape(title)}</summary>{body}</details>" if body else ""
