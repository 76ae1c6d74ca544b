"""Contents of reports and notebook cards as data, and their rendering as HTML.

Facts, tables, pictures and sections are plain text and numbers. All escaping is done in `markup`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from html import escape as _quoted
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from somcot.plumbing.arrays import Floats
from somcot.plumbing.text import brief, label_text, printable, shown_fields

__all__ = [
    "SHOWN",
    "Bold",
    "Bullets",
    "Code",
    "Fact",
    "First",
    "Item",
    "Lead",
    "Line",
    "Mark",
    "Markup",
    "Notes",
    "Picture",
    "Remark",
    "Second",
    "Section",
    "Swatches",
    "Table",
    "Tag",
    "card",
    "escape",
    "grid",
    "histogram",
    "markup",
    "place_labels",
    "pull",
    "record_card",
    "scale",
    "shortened",
]


def escape(text: str) -> str:
    r"""Text that stays text in HTML: no markup, no control characters, no marks that turn its direction.

    Examples
    --------
    >>> escape("<b>\x1b[31m")
    '&lt;b&gt;�[31m'
    """
    return _quoted(printable(text, kept="\n\t"))


# --- Contents: texts, facts, tables, pictures and sections.


class Lead(str):
    """The main result, in large type."""


class Remark(str):
    """Small print."""


class Code(str):
    """A command line."""


class Bold(str):
    """An emphasised part of a line."""


class First(Bold):
    """A bold part in the colour of the first series of a picture."""


class Second(Bold):
    """A bold part in the colour of the second series of a picture."""


class Tag(str):
    """A word in a frame, at the end of a line or in a cell."""


class Mark(Tag):
    """A coloured tag, for established findings."""


class Markup(str):
    """Finished HTML or SVG, already escaped."""


Line: TypeAlias = str | tuple[str, ...]  # a text, or its pieces where some are bold or tags


class Fact(NamedTuple):
    """A row of a list of facts; outputs that do not show all of them choose by `key`."""

    key: str
    label: str
    text: str
    strong: bool = False


class Table(NamedTuple):
    """Rows of texts; `align` has one letter for each column: l for text, r for numbers.

    Examples
    --------
    >>> table = Table(("page", "visits", "error"), [("home", "12", "1"), ("cart", "3", "2")], "lrr")
    >>> table.without("error").first(1)
    Table(head=('page', 'visits'), rows=[('home', '12')], align='lr', title='')
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str
    title: str = ""

    def without(self, *heads: str) -> Table:
        """The table without some columns; absent ones are ignored."""
        # Absent columns are ignored, so that one list of heads serves tables with and without optional columns.
        kept = [k for k, name in enumerate(self.head) if name not in heads]
        rows = [tuple(row[k] for k in kept) for row in self.rows]
        return self._replace(
            head=tuple(self.head[k] for k in kept), rows=rows, align="".join(self.align[k] for k in kept)
        )

    def first(self, n: int) -> Table:
        """Its first `n` rows."""
        return self._replace(rows=self.rows[:n])


class Picture(NamedTuple):
    """A picture, drawn by pages only; narrow pictures are placed side by side if there is room."""

    draw: Callable[[], str]
    caption: Line = ""
    beside: bool = False


class Bullets(NamedTuple):
    """Numbered lines, the most important first."""

    items: Sequence[Line]


class Notes(NamedTuple):
    """Notes about the reliability of a result, without repetitions."""

    items: Iterable[str]


class Swatches(NamedTuple):
    """A key of colours and their names, shown by pages only."""

    items: Sequence[tuple[str, str]]


Item: TypeAlias = Line | Fact | Table | Picture | Bullets | Notes | Swatches


class Section(NamedTuple):
    """A section of a report. Pages fold `closed` sections; cards and terminals omit them."""

    key: str
    title: str
    body: Sequence[Item]
    closed: bool = False


# --- Rendering as HTML.

_TEXTS: dict[type, str] = {
    Lead: '<p class="lead">{}</p>',
    Remark: '<p class="note">{}</p>',
    Code: "<pre>{}</pre>",
    Bold: "<b>{}</b>",
    First: '<b class="first">{}</b>',
    Second: '<b class="second">{}</b>',
    Tag: '<span class="tag">{}</span>',
    Mark: '<span class="tag clear">{}</span>',
}


def markup(body: Iterable[Item]) -> str:
    """Render items as HTML with all text escaped; consecutive items of one kind are grouped.

    Examples
    --------
    >>> markup(["a < b", ("from ", Bold("home"))])
    '<p>a &lt; b</p><p>from <b>home</b></p>'
    >>> markup([Table(("page", "visits"), [("home", "12")], "lr")])
    '<div class="scroll"><table><thead><tr><th>page</th><th class="n">visits</th></tr></thead><tr><td>home...
    """
    # Consecutive facts become one table, and narrow pictures one row.
    return "".join(_grouped(kind, list(items)) for kind, items in groupby(body, key=_kind))


def _kind(item: Item) -> type | None:
    if isinstance(item, Picture):
        return Picture if item.beside else None
    return Fact if isinstance(item, Fact) else None


def _grouped(kind: type | None, items: list[Any]) -> str:
    if kind is Fact:
        rows = (f"<tr><th>{escape(fact.label)}</th><td>{escape(fact.text)}</td></tr>" for fact in items)
        return f"<table>{''.join(rows)}</table>"
    parts = "".join(map(_item, items))
    return f'<div class="pair">{parts}</div>' if kind is Picture else parts


def _item(item: Item) -> str:
    if isinstance(item, Markup):
        return item
    if isinstance(item, str):
        # Subclasses of str carry their style in their type; plain text is a paragraph.
        return _inline(item) if type(item) in _TEXTS else f"<p>{escape(item)}</p>"
    if isinstance(item, Table):
        return _table(item)
    if isinstance(item, Picture):
        caption = f"<figcaption>{_inline(item.caption)}</figcaption>" if item.caption else ""
        return f'<figure>{caption}<div class="scroll">{item.draw()}</div></figure>'
    if isinstance(item, Bullets):
        return f"<ol>{''.join(f'<li>{_inline(line)}</li>' for line in item.items)}</ol>" if item.items else ""
    if isinstance(item, Swatches):
        key = (f'<span><i style="background:{shade}"></i>{escape(name)}</span>' for shade, name in item.items)
        return f'<p class="key">{" ".join(key)}</p>'
    if isinstance(item, Notes):
        # A dict keeps the order and drops repetitions.
        notes = "".join(f"<li>{escape(note)}</li>" for note in dict.fromkeys(item.items))
        return f'<div class="warnings"><strong>Notes</strong><ul>{notes}</ul></div>' if notes else ""
    return f"<p>{_inline(item)}</p>"


def _inline(line: Line | Fact) -> str:
    pieces = (line,) if isinstance(line, str) else line
    text = "".join(_TEXTS.get(type(piece), "{}").format(escape(str(piece))) for piece in pieces)
    # A line does not break between a number and its unit, nor after the star of a heading.
    return text.replace(" %", "&nbsp;%").replace("(* ", "(*&nbsp;").replace("&lt; ", "&lt;&nbsp;")


_SHORT, _LONG = 12, 12  # characters of a label that is not broken, and of a word that may be broken


def _table(table: Table) -> str:
    """A table with numeric columns aligned right; empty if there are no rows."""
    kinds = [' class="n"' if side == "r" else "" for side in table.align]
    head = "".join(
        f"<th{kind or _breakable(name)}>{_inline(name)}</th>" for kind, name in zip(kinds, table.head, strict=True)
    )
    rows = ("".join(_cell(cell, kind) for kind, cell in zip(kinds, row, strict=True)) for row in table.rows)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    return f'{title}<div class="scroll"><table><thead><tr>{head}</tr></thead>{body}</table></div>' if body else ""


def _cell(cell: str, kind: str) -> str:
    text = _inline(cell)
    if not kind and "-" in cell and len(cell) <= _SHORT:
        kind = ' class="s"'  # such as 2024-W17, which would be broken at the hyphen
    if " \u2192 " in cell and (cell[:1].isdigit() or cell.startswith("< ")):
        # Two numbers stay on one line, except on phones; labels may be broken at an arrow.
        kind, text = ' class="a"', text.replace(" \u2192", "&nbsp;\u2192")
    return f"<td{kind or _breakable(cell)}>{text}</td>"


def _breakable(text: str) -> str:
    """The class of a cell with a long word, which is broken anywhere, so that no column leaves the page."""
    return ' class="w"' if max(map(len, text.split()), default=0) > _LONG else ""


def shortened(label: Hashable, longest: int = 60) -> str:
    """A label for a table, which has more room than a figure."""
    return label_text(label, longest)


# --- Notebook cards: HTML without scripts.
#
# Colours are inherited from the page and accents are translucent, so that cards are legible on light and dark
# backgrounds. If a page strips styles, plain tables remain.

SHOWN = 8  # rows and columns of a matrix
# A translucent accent works on light and dark pages alike.
_ACCENT = "rgb(47,129,247)"
_STYLE = (
    ".somcot-card{display:inline-block;max-width:60em;font:14px/1.45 system-ui,-apple-system,'Segoe UI',sans-serif;"
    "padding:.5em 1em;border:1px solid rgba(128,128,128,.4);border-radius:6px;overflow-x:auto}"
    ".somcot-card p{margin:.25em 0}.somcot-card svg{display:block;margin:.3em 0}"
    ".somcot-card table{border-collapse:collapse;border:0;margin:.3em 0;font-size:13px;color:inherit}"
    # Notebooks style tables with more specific selectors, so alignment and stripes need !important.
    ".somcot-card tr{background:none!important}"
    ".somcot-card tr,.somcot-card td,.somcot-card th{border:0;color:inherit}"
    ".somcot-card td,.somcot-card th{text-align:left!important;padding:1px 12px 1px 0;vertical-align:top;"
    "max-width:30em;white-space:normal;overflow-wrap:anywhere;line-height:1.4}"
    ".somcot-card th{font-weight:600}.somcot-card td.n,.somcot-card th.n{text-align:right!important;white-space:nowrap}"
    ".somcot-card td.a,.somcot-card td.c,.somcot-card th.r{white-space:nowrap}"
    ".somcot-card td.c{text-align:right!important;padding:1px 6px}.somcot-card .big{font-size:1.35em;font-weight:650}"
    ".somcot-card .soft,.somcot-card .note{opacity:.7}.somcot-card ul{margin:.2em 0;padding-left:1.3em}"
    ".somcot-card h3{font-size:1em!important;font-weight:600!important;margin:.25em 0!important}"
)


def card(title: str, facts: Iterable[tuple[str, str]] = (), *body: Item, sub: str = "") -> str:
    """A box with a title and subtitle, a list of facts, and further contents.

    Examples
    --------
    >>> text = card("<b>", [("states", "3")])
    >>> "&lt;b&gt;" in text, "<script" in text
    (True, False)
    """
    head = f'<p><span class="big">{escape(title)}</span> <span class="soft">{escape(sub)}</span></p>'
    rest = markup([*(Fact(name, name, text) for name, text in facts), *body])
    return f'<div class="somcot-card"><style>{_STYLE}</style>{head}{rest}</div>'


def record_card(record: Any) -> str:
    """A card with the fields of a named tuple or dataclass, arrays by their shape."""
    return card(type(record).__name__, [(name, brief(getattr(record, name))) for name in shown_fields(record)])


def grid(
    values: Floats, rows: Sequence[Hashable], columns: Sequence[Hashable], *, shape: tuple[int, int] | None = None
) -> Markup:
    """A matrix with shaded cells, or its corner; `shape` is that of the full matrix if `values` is its corner."""
    shown = np.asarray(values, dtype=np.float64)[:SHOWN, :SHOWN]
    finite = shown[np.isfinite(shown)]
    top = max(float(np.abs(finite).max()) if finite.size else 0.0, 1e-300)  # avoids a division by 0 in a table of zeros
    head = "".join(f'<th class="n">{escape(label_text(label, 10))}</th>' for label in columns[:SHOWN])
    body = "".join(
        f'<tr><th class="r">{escape(label_text(label, 16))}</th>{"".join(_shaded(v, top) for v in row)}</tr>'
        for label, row in zip(rows[:SHOWN], shown.tolist(), strict=True)
    )
    n, m = shape or values.shape
    cut = f'<p class="soft">the first {len(shown)} x {shown.shape[1]} of {n:,} x {m:,}</p>' if max(n, m) > SHOWN else ""
    return Markup(f"<table><tr><th></th>{head}</tr>{body}</table>{cut}")


def _shaded(value: float, top: float) -> str:
    strength = min(abs(value) / top, 1.0) if np.isfinite(value) else 0.0
    tint = _ACCENT.replace("rgb", "rgba").replace(")", f",{0.5 * strength:.2f})")
    return f'<td class="c" style="background:{tint}">{f"{value:.3g}" if value else ""}</td>'


def scale(value: float, low: float, high: float, ends: tuple[float, float]) -> Markup:
    """A number and its interval on a scale between its smallest and largest possible value."""
    span = (ends[1] - ends[0]) or 1.0

    def at(number: float) -> float:
        return 300.0 * min(max((number - ends[0]) / span, 0.0), 1.0)

    return Markup(
        '<svg width="300" height="14" role="img" aria-label="the number between its least and largest possible value">'
        '<rect width="300" height="6" y="4" rx="3" fill="currentColor" fill-opacity=".15"/>'
        f'<rect x="{at(low):.1f}" width="{max(at(high) - at(low), 2):.1f}" height="10" y="2" rx="3" fill="{_ACCENT}" '
        f'fill-opacity=".45"/><rect x="{min(max(at(value) - 1.5, 0.0), 297.0):.1f}" width="3" height="14" '
        # Clamped, so that the mark stays visible at both ends.
        f'fill="{_ACCENT}"/></svg>'
    )


def histogram(values: Floats, mark: float, *, bins: int = 30) -> Markup:
    """A histogram of numbers with one value marked."""
    finite = values[np.isfinite(values)]
    if not len(finite) or not np.isfinite(mark):
        return Markup()
    start, end = min(float(finite.min()), mark), max(float(finite.max()), mark)
    # A range of width 0 is not allowed.
    counts, _ = np.histogram(finite, bins=bins, range=(start, end if end > start else start + 1.0))
    wide, top = 300.0 / bins, max(int(counts.max()), 1)
    bars = "".join(
        f'<rect x="{k * wide:.1f}" y="{40 - 38 * c / top:.1f}" width="{wide - 1:.1f}" height="{38 * c / top:.1f}" '
        'fill="currentColor" fill-opacity=".35"/>'
        for k, c in enumerate(counts.tolist())
        if c
    )
    place = min(297.0 * (mark - start) / ((end - start) or 1.0), 297.0)
    return Markup(
        '<svg width="300" height="42" role="img" aria-label="permutations, and the data among them">'
        f'{bars}<rect x="{place:.1f}" width="3" height="42" fill="{_ACCENT}"/></svg>'
    )


# --- Placement of point labels without overlaps.

# Preferred positions of a label relative to its point: above right first.
_SIDES = np.array([(1, 1), (1, 0), (1, -1), (-1, 1), (-1, 0), (-1, -1), (0, 1), (0, -1)], dtype=np.float64)
_RINGS = 6  # maximal distance of a label from its point, in lines of text


def place_labels(points: Floats, anchors: list[int], widths: Floats, height: float, frame: Floats) -> Floats:
    """Lower left corners of labels, placed one by one at the nearest position with the least overlap.

    Parameters
    ----------
    points : array, shape (n, 2)
        All points, in drawing units; a dot of half a label's height is kept free around each.
    anchors : list of int, length k
        Which point each label belongs to.
    widths : array, shape (k,)
    height : float
        Height of every label, in the same units.
    frame : array, shape (4,)
        Left, bottom, right and top of the drawing; parts outside count as overlap.

    Returns
    -------
    array, shape (k, 2)

    Examples
    --------
    Two points side by side; the second label avoids the first.

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
        # Corner of the box for each side: labels to the left end at the point, those to the right begin there.
        places = points[anchor] + reach[:, None] * sides + 0.5 * (sides - 1.0) * size
        boxes = np.hstack([places, places + size])
        # Overlap with other boxes, plus the area outside of the frame.
        covered = _overlap(boxes, np.array(taken)) + size.prod() - _overlap(boxes, frame[None])
        # the first of the best positions up to rounding: the nearest one on the preferred side
        corners[k] = places[np.argmin(np.round(covered / height**2, 6))]
        taken.append(np.concatenate([corners[k], corners[k] + size]))
    return corners


def pull(i: int, j: int, n: int) -> float:
    """How far the arrow between two of `n` places on a circle is bent towards its centre: by 0 between neighbours.

    Examples
    --------
    >>> pull(0, 1, 12), pull(0, 10, 12)
    (0.0, 0.45)
    """
    between = min(abs(i - j), n - abs(i - j))
    return 0.9 * (1.0 - 1.0 / between)


def _overlap(boxes: Floats, others: Floats) -> Floats:
    """Area that each box shares with the others, shape (n,)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    area: Floats = np.clip(high - low, 0.0, None).prod(axis=2).sum(axis=1)
    return area
