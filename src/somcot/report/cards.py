"""A result as notebooks show it. Nothing is computed that takes long: who wants tests and maps asks for them."""

from __future__ import annotations

from html import escape

from somcot.plumbing.cards import card, notes, scale, table
from somcot.plumbing.text import figure, label_text, percent, seconds
from somcot.report.contributions import contributions
from somcot.report.words import certainty, cost_of, meaning, named, of_time, possible, span
from somcot.result import Result, Status
from somcot.solvers.methods import describe

__all__ = ["result_card"]

_PAIRS = 5


def result_card(result: Result) -> str:
    """The number, what it means, how sure it is, its largest parts and what to know about it."""
    ends = possible(result)
    picture = "" if ends is None else scale(result.distance, *span(result), ends)
    said = f"<p>{escape(meaning(result))} {escape(certainty(result))}</p>"
    parts = table(["in X", "while in Y", "!of the distance", "!of the time"], _parts(result), caption="Largest parts")
    made = [f"{describe(result.method)}", str(result.clock), seconds(result.seconds)]
    if result.n_samples:
        made.insert(1, f"{result.samples[0]:,} + {result.samples[1]:,} transitions")
    if result.status not in (Status.CONVERGED, Status.FINISHED):
        made.append(result.message)
    how = f'<p class="soft">{escape("; ".join(made))}</p>'
    return card(
        f"distance {figure(result.distance)}",
        (),
        picture,
        said,
        notes(named(result.diagnose(), ("X", "Y"))),
        parts,
        how,
    )


def _parts(result: Result) -> list[tuple[str, str, str, str]]:
    cost = cost_of(result)
    if cost is None:
        return []
    total = float((result.state_law * cost).sum()) or 1.0
    return [
        (label_text(c.x, 40), label_text(c.y, 40), percent(c.amount / total), percent(of_time(result, c.mass)))
        for c in contributions(result, cost, most=_PAIRS)
    ]
