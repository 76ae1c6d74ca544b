"""One self-contained HTML page from sections: no scripts, no external resources, every text escaped."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.resources import files

from somcot import __version__
from somcot.plumbing.files import write_bytes
from somcot.plumbing.html import Remark, Section, escape, markup

__all__ = ["page", "write_page"]


def page(sections: Sequence[Section], *, title: str | None = None, refresh: int | None = None) -> str:
    """The page as text; the first section is the heading, sections without a body are left out.

    Parameters
    ----------
    sections : sequence of Section
    title : str, optional
        The title of the browser tab; that of the first section by default.
    refresh : int, optional
        Seconds after which a browser reloads the page.
    """
    first, *rest = (section for section in sections if section.body)
    parts, folded = [f"<h1>{escape(first.title)}</h1>{markup(first.body)}"], False
    for section in rest:
        body, heading = markup(section.body), escape(section.title)
        if section.closed:
            # The heading of the folded sections comes before the first of them.
            parts.append("" if folded else "<h2>Details</h2>")
            parts.append(f"<details><summary>{heading}</summary>{body}</details>")
            folded = True
        else:
            parts.append(f"<h2>{heading}</h2>{body}" if heading else body)
    parts.append(markup([Remark(f"Written by somcot {__version__}.")]))
    style = files("somcot.report").joinpath("report.css").read_text(encoding="utf-8")
    again = "" if refresh is None else f'<meta http-equiv="refresh" content="{refresh:d}">'
    tab = escape(title or first.title)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>somcot: {tab}</title>{again}'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def write_page(path: str | os.PathLike[str], text: str) -> None:
    """Write a page to a file, replacing it atomically."""
    write_bytes(path, text.encode("utf-8", errors="replace"))  # lone surrogates in labels cannot be encoded
