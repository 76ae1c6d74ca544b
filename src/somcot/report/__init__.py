"""One self-contained HTML page about a result: no scripts, no external resources, every label escaped.

>>> import somcot
>>> result = somcot.distance(somcot.random_walk(3), somcot.random_walk(3, 0.7), "labels", discount=0.9)
>>> certainty(result)
'Both processes are known, and the number is proved to ...'
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any, cast

from numpy.typing import ArrayLike

from somcot import __version__
from somcot.plumbing.checks import check_kind, check_names, check_number
from somcot.plumbing.files import write_bytes
from somcot.plumbing.html import Remark, Section, escape, markup
from somcot.plumbing.notes import in_words
from somcot.plumbing.text import label_text
from somcot.problem import ChainOrData
from somcot.report.facts import ReportInput, result_sections
from somcot.report.sentences import (
    Contribution,
    before_correction,
    certainty,
    continuous_facts,
    contributions,
    cost_of,
    meaning,
    merge_notes,
    sentence,
    sentence_of_test,
    short,
)
from somcot.result import Result

__all__ = [
    "Contribution",
    "before_correction",
    "certainty",
    "continuous_facts",
    "contributions",
    "html",
    "meaning",
    "merge_notes",
    "page",
    "sentence",
    "sentence_of_test",
    "write",
    "write_page",
]  # fmt: skip


def write(path: str | os.PathLike[str], result: Result, **details: Any) -> None:
    """Write the page to a file, replacing it atomically; `details` as for `html`.

    Examples
    --------
    >>> import pathlib, tempfile, somcot
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "walks.html"
    >>> write(path, somcot.distance(somcot.random_walk(3), somcot.random_walk(3, 0.7), "labels", discount=0.9))
    >>> "<h1>" in path.read_text()
    True
    """
    write_page(path, html(result, **details))


def html(
    result: Result,
    *,
    cost: ArrayLike | None = None,
    x: ChainOrData | None = None,
    y: ChainOrData | None = None,
    names: tuple[str, str] = ("X", "Y"),
    cost_name: str | None = None,
    warnings: Iterable[str] = (),
    command: str | None = None,
    known: float | None = None,
    state_name: str | None = None,
) -> str:
    """The page as text.

    The page begins with what is new or has vanished, the meaning of the number and its certainty; then come the states
    and steps that differ, the corresponding states and the notes. Details follow in collapsed sections.

    Parameters
    ----------
    result : Result
    cost : array_like, shape (n_x, n_y), optional
        The cost it was computed with; needed only for methods whose results do not store it.
    x, y : Samples or MarkovChain, optional
        The processes, for the summary of the data.
    names : (str, str)
        The names of the two processes.
    cost_name : str, optional
        The name of the cost.
    warnings : iterable of str
        Shown after the findings, with the notes of the result; a leading "x:" or "y:" is replaced by the name.
    command : str, optional
        The command that reproduces the result.
    known : float, optional
        The true distance, if known, to be shown with the estimate.
    state_name : str, optional
        A noun for a state, such as "page".

    Examples
    --------
    >>> import somcot
    >>> walk = somcot.random_walk(3)
    >>> page = html(somcot.distance(walk, walk, [[0.0] * 3] * 3, discount=0.9), names=("<May>", "June"))
    >>> "&lt;May&gt;" in page, "<script" in page
    (True, False)
    """
    check_kind("result", result, Result)
    names = cast("tuple[str, str]", check_names("names", names, 2))
    if known is not None:
        known = check_number("known", known)
    for name, side in (("x", x), ("y", y)):
        if side is not None and not hasattr(side, "n_states"):
            raise TypeError(f"{name}: found {type(side).__name__}, expected Samples, Counts or a MarkovChain")
    # Warnings of the command may repeat notes of the result; each is shown once.
    notes = merge_notes([*result.diagnose(), *check_names("warnings", warnings)], names, in_words)
    about = ReportInput(
        result, cost_of(result, cost), short(names, 120), cost_name, state_name, known, x, y, notes, command
    )
    return page(result_sections(about), title=f"{label_text(names[0], 60)} and {label_text(names[1], 60)}")


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
