"""Where labels of points go, so that they cover neither each other nor the points.

Colours are those of the page, and shades of the accent let them through, so that cards are legible on light and on dark
ground. Where a page strips styles, plain tables remain.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from somcot.plumbing.arrays import Floats
from somcot.plumbing.text import brief, decimals, label_text, percent, shown_fields

__all__ = [
    "SHOWN",
    "bold",
    "card",
    "cell",
    "columns",
    "details",
    "facts",
    "grid",
    "histogram",
    "notes",
    "number",
    "place_labels",
    "record_card",
    "report_table",
    "scale",
    "share",
    "shortened",
    "table",
    "text",
]


# --- Records as notebooks show them: small pieces of HTML without scripts, every text escaped.

SHOWN = 8  # rows and columns of a matrix
_ACCENT = "rgb(47,129,247)"
_STYLE = (
    ".somcot-card{display:inline-block;max-width:60em;font:14px/1.45 system-ui,-apple-system,'Segoe UI',sans-serif;"
    "padding:.5em 1em;border:1px solid rgba(128,128,128,.4);border-radius:6px;overflow-x:auto}"
    ".somcot-card p{margin:.25em 0}.somcot-card svg{display:block;margin:.3em 0}"
    ".somcot-card table{border-collapse:collapse;border:0;margin:.3em 0;font-size:13px;color:inherit}"
    # Notebooks style tables too, and more specifically: alignment and stripes have to be insisted on.
    ".somcot-card tr{background:none!important}"
    ".somcot-card tr,.somcot-card td,.somcot-card th{border:0;color:inherit}"
    ".somcot-card td,.somcot-card th{text-align:left!important;padding:1px 12px 1px 0;vertical-align:top;"
    "max-width:30em;white-space:normal;overflow-wrap:anywhere;line-height:1.4}"
    ".somcot-card th{font-weight:600}.somcot-card td.n,.somcot-card th.n{text-align:right!important;white-space:nowrap}"
    ".somcot-card td.c,.somcot-card th.r{white-space:nowrap}"
    ".somcot-card td.c{text-align:right!important;padding:1px 6px}.somcot-card .big{font-size:1.35em;font-weight:650}"
    ".somcot-card .soft{opacity:.7}.somcot-card ul{margin:.2em 0;padding-left:1.3em}"
)


def card(title: str, facts: Iterable[tuple[str, str]] = (), *parts: str, sub: str = "") -> str:
    """A box with a title, what is said beside it, facts below each other, and further pieces of finished HTML.

    Examples
    --------
    >>> text = card("<b>", [("states", "3")])
    >>> "&lt;b&gt;" in text, "<script" in text
    (True, False)
    """
    head = f'<p><span class="big">{escape(title)}</span> <span class="soft">{escape(sub)}</span></p>'
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
    body = f"<table>{rows}</table>" if rows else ""
    return f'<div class="somcot-card"><style>{_STYLE}</style>{head}{body}{"".join(parts)}</div>'


def record_card(record: Any) -> str:
    """A card with the fields of a named tuple or dataclass, arrays by their shape."""
    return card(type(record).__name__, [(name, brief(getattr(record, name))) for name in shown_fields(record)])


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "") -> str:
    """Rows of plain text; a head that begins with ! is that of a column of numbers."""
    kinds = [' class="n"' if h.startswith("!") else "" for h in head]
    top = "".join(f"<th{kind}>{escape(h.removeprefix('!'))}</th>" for kind, h in zip(kinds, head, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    said = f"<p><b>{escape(caption)}</b></p>" if caption else ""
    return f"{said}<table><tr>{top}</tr>{body}</table>" if body else ""


def notes(messages: Iterable[str]) -> str:
    """A list of sentences."""
    items = "".join(f"<li>{escape(message)}</li>" for message in messages)
    return f"<ul>{items}</ul>" if items else ""


def grid(
    values: Floats, rows: Sequence[Hashable], columns: Sequence[Hashable], *, shape: tuple[int, int] | None = None
) -> str:
    """A matrix with shaded cells, or the corner of it that can be read at a glance; `shape` where that is all given."""
    shown = np.asarray(values, dtype=np.float64)[:SHOWN, :SHOWN]
    finite = shown[np.isfinite(shown)]
    top = max(float(np.abs(finite).max()) if finite.size else 0.0, 1e-300)
    head = "".join(f'<th class="n">{escape(label_text(label, 10))}</th>' for label in columns[:SHOWN])
    body = "".join(
        f'<tr><th class="r">{escape(label_text(label, 16))}</th>{"".join(_shaded(v, top) for v in row)}</tr>'
        for label, row in zip(rows[:SHOWN], shown.tolist(), strict=True)
    )
    n, m = shape or values.shape
    cut = f'<p class="soft">the first {len(shown)} x {shown.shape[1]} of {n:,} x {m:,}</p>' if max(n, m) > SHOWN else ""
    return f"<table><tr><th></th>{head}</tr>{body}</table>{cut}"


def _shaded(value: float, top: float) -> str:
    strength = min(abs(value) / top, 1.0) if np.isfinite(value) else 0.0
    tint = _ACCENT.replace("rgb", "rgba").replace(")", f",{0.5 * strength:.2f})")
    return f'<td class="c" style="background:{tint}">{f"{value:.3g}" if value else ""}</td>'


def scale(value: float, low: float, high: float, ends: tuple[float, float]) -> str:
    """A number with its interval between the ends of what is possible."""
    span = (ends[1] - ends[0]) or 1.0

    def at(number: float) -> float:
        return 300.0 * min(max((number - ends[0]) / span, 0.0), 1.0)

    return (
        '<svg width="300" height="14" role="img" aria-label="the number between its least and largest possible value">'
        '<rect width="300" height="6" y="4" rx="3" fill="currentColor" fill-opacity=".15"/>'
        f'<rect x="{at(low):.1f}" width="{max(at(high) - at(low), 2):.1f}" height="10" y="2" rx="3" fill="{_ACCENT}" '
        f'fill-opacity=".45"/><rect x="{min(max(at(value) - 1.5, 0.0), 297.0):.1f}" width="3" height="14" '
        f'fill="{_ACCENT}"/></svg>'
    )


def histogram(values: Floats, mark: float, *, bins: int = 30) -> str:
    """How numbers are spread, and where one more stands among them."""
    found = values[np.isfinite(values)]
    if not len(found) or not np.isfinite(mark):
        return ""
    start, end = min(float(found.min()), mark), max(float(found.max()), mark)
    counts, _ = np.histogram(found, bins=bins, range=(start, end if end > start else start + 1.0))
    wide, top = 300.0 / bins, max(int(counts.max()), 1)
    bars = "".join(
        f'<rect x="{k * wide:.1f}" y="{40 - 38 * c / top:.1f}" width="{wide - 1:.1f}" height="{38 * c / top:.1f}" '
        'fill="currentColor" fill-opacity=".35"/>'
        for k, c in enumerate(counts.tolist())
        if c
    )
    place = min(297.0 * (mark - start) / ((end - start) or 1.0), 297.0)
    return (
        '<svg width="300" height="42" role="img" aria-label="regroupings, and the data among them">'
        f'{bars}<rect x="{place:.1f}" width="3" height="42" fill="{_ACCENT}"/></svg>'
    )


# --- Pieces of HTML that the parts of a report share; every text from outside is escaped here.


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


def report_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
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


# --- Where labels of points go, so that they cover neither each other nor the points.

# Where a label stands beside its point, as readers expect it: above to the right first.
_SIDES = np.array([(1, 1), (1, 0), (1, -1), (-1, 1), (-1, 0), (-1, -1), (0, 1), (0, -1)], dtype=np.float64)
_RINGS = 6  # how many lines of text a label may move away


def place_labels(points: Floats, anchors: list[int], widths: Floats, height: float, frame: Floats) -> Floats:
    """Lower left corners of labels, one after the other, each at the nearest place where it covers least.

    Parameters
    ----------
    points : array, shape (n, 2)
        All points, in units of the paper; a dot of half a label's height is kept free around each.
    anchors : list of int, length k
        Which point each label belongs to.
    widths : array, shape (k,)
    height : float
        Of every label, in the same units.
    frame : array, shape (4,)
        Left, bottom, right and top of the paper; what hangs over counts as covered.

    Returns
    -------
    array, shape (k, 2)

    Examples
    --------
    Two points side by side; the label of the second goes where that of the first is not.

    >>> points, paper = np.array([[0.0, 0.0], [5.0, 0.0]]), np.array([-60.0, -60.0, 60.0, 60.0])
    >>> place_labels(points, [0, 1], np.array([40.0, 40.0]), 10.0, paper).tolist()
    [[5.0, 5.0], [10.0, -5.0]]
    """
    half = 0.25 * height
    taken = [*np.hstack([points - half, points + half])]  # boxes: left, bottom, right, top
    corners = np.empty((len(anchors), 2))
    for k, (anchor, width) in enumerate(zip(anchors, widths.tolist(), strict=True)):
        size = np.array([width, height])
        reach = height * np.repeat(0.5 + np.arange(_RINGS), len(_SIDES))
        sides = np.tile(_SIDES, (_RINGS, 1))
        places = points[anchor] + reach[:, None] * sides + 0.5 * (sides - 1.0) * size
        boxes = np.hstack([places, places + size])
        covered = _overlap(boxes, np.array(taken)) + size.prod() - _overlap(boxes, frame[None])
        # the first of the best, rounding aside: the nearest, on the side readers expect
        corners[k] = places[np.argmin(np.round(covered / height**2, 6))]
        taken.append(np.concatenate([corners[k], corners[k] + size]))
    return corners


def _overlap(boxes: Floats, others: Floats) -> Floats:
    """Area that each box shares with the others, shape (n,)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    area: Floats = np.clip(high - low, 0.0, None).prod(axis=2).sum(axis=1)
    return area
