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
from somcot.plumbing.html import details
from somcot.plumbing.text import label_text
from somcot.problem import ChainOrData
from somcot.report import summary as story
from somcot.report import technical as technique
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
from somcot.report.summary import ReportInput
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
    "sentence",
    "sentence_of_test",
    "write",
]  # fmt: skip

_PARTS = 12  # pairs of states and transitions that are listed


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
    state_name: str | None = None,
) -> str:
    """The page as text.

    First what the number means in a sentence, whether it is real, where it comes from and who corresponds to whom; then
    everything else, closed until it is opened.

    Parameters
    ----------
    result : Result
    cost : array_like, shape (n_x, n_y), optional
        The cost it was computed with; needed only for methods whose results do not remember it.
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
    state_name : str, optional
        What a state is, such as "page".

    Examples
    --------
    >>> import somcot
    >>> walk = somcot.random_walk(3)
    >>> page = html(somcot.distance(walk, walk, [[0.0] * 3] * 3, discount=0.9), names=("<May>", "June"))
    >>> "&lt;May&gt;" in page, "<script" in page
    (True, False)
    """
    about = ReportInput(result, cost_of(result, cost), short(names, 120), cost_name, state_name, known)
    found = result.contributions(_PARTS) if result.makeup is not None else None
    parts = [
        story.summary_html(about),
        story.warnings(merge_notes([*result.diagnose(), *warnings], names)),
        story.contributions_html(about, found),
        story.matches_html(about),
        "<h2>For those who want to know more</h2>",
        details("How it was computed", technique.method_html(about)),
        details("What the distance is made of", technique.makeup(about, found)),
        details("Maps: who is with whom, and where each state goes", technique.maps(about)),
        details("The two processes as graphs", technique.processes(about)),
        details("The data", technique.data(x, y, about.names)),
        details("Along the run", technique.run(result)),
        details(
            "Definition and reference" if command is None else "Definition, and the same again",
            technique.definition_html(result, command),
        ),
        f'<p class="note">Written by somcot {escape(__version__)}.</p>',
    ]
    title = escape(f"somcot: {label_text(names[0], 60)} and {label_text(names[1], 60)}")
    style = files("somcot").joinpath("data", "report.css").read_text(encoding="utf-8")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )
