"""One self-contained HTML page about a finished result: no script, nothing fetched, every label escaped."""

from __future__ import annotations

import os
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from typing import Any

from numpy.typing import ArrayLike

from somcot import __version__
from somcot.plumbing.files import write_bytes
from somcot.plumbing.text import label_text
from somcot.problem import ChainOrData
from somcot.report import sections
from somcot.report.contributions import Contribution, contributions
from somcot.report.words import before_correction, named, sentence
from somcot.result import Result

__all__ = ["Contribution", "before_correction", "contributions", "html", "named", "sentence", "write"]


def write(path: str | os.PathLike[str], result: Result, **details: Any) -> None:
    """Write the page to a file, replacing what is there in one move; `details` as for `html`."""
    write_bytes(path, html(result, **details).encode("utf-8", errors="replace"))


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
) -> str:
    """The page as text.

    Parameters
    ----------
    result : Result
    cost : array_like, shape (n_x, n_y), optional
        The cost it was computed with, for the tables of what the distance is made of.
    x, y : Samples or MarkovChain, optional
        The processes, for the summary of the data.
    names : (str, str)
        What to call them.
    cost_name : str, optional
        The cost in words.
    warnings : iterable of str
        Shown prominently, after what the result says about itself; a leading "x:" or "y:" becomes a name.
    command : str, optional
        How to get the same result again.
    known : float, optional
        The true distance, where it is known, to be shown beside the estimate.

    Examples
    --------
    >>> import somcot
    >>> walk = somcot.random_walk(3)
    >>> page = html(somcot.distance(walk, walk, [[0.0] * 3] * 3, discount=0.9), names=("<May>", "June"))
    >>> "&lt;May&gt;" in page, "<script" in page
    (True, False)
    """
    parts = [
        sections.head(result, names, known),
        sections.warnings(named([*result.diagnose(), *warnings], names)),
        sections.method(result, cost_name, cost),
        sections.matching(result, names),
        sections.making(result, cost, names) if cost is not None else "",
        sections.occupancy(result, names),
        sections.data(x, y, names),
        sections.run(result),
        sections.again(command, __version__),
    ]
    title = escape(f"somcot: {label_text(names[0], 60)} and {label_text(names[1], 60)}")
    style = files("somcot").joinpath("data", "report.css").read_text(encoding="utf-8")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )
