"""What everybody reads: what the number means, whether it is real, where it comes from, who corresponds to whom."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from somcot.contributions import Contributions, PairShare, names_count
from somcot.plumbing.arrays import Floats
from somcot.plumbing.html import bold, card, cell, notes, scale, share, shortened, table, text
from somcot.plumbing.html import report_table as table_story
from somcot.plumbing.text import figure, label_text, percent, seconds
from somcot.report import svg as drawings
from somcot.report.sentences import (
    by_labels,
    certainty,
    contributions,
    cost_of,
    meaning,
    merge_notes,
    more_or_less,
    possible,
    sentence_of_test,
    share_of_time,
    span,
    steps_that_matter,
)
from somcot.report.svg import cells_in_plane
from somcot.result import Claim, Result, Status
from somcot.solvers import describe

__all__ = [
    "ReportInput",
    "contributions_html",
    "matches_html",
    "result_card",
    "summary_html",
    "warnings",
]


# --- A result as notebooks show it. Nothing is computed that takes long: who wants tests and maps asks for them.

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
        notes(merge_notes(result.diagnose(), ("X", "Y"))),
        parts,
        how,
    )


def _parts(result: Result) -> list[tuple[str, str, str, str]]:
    cost = cost_of(result)
    if cost is None:
        return []
    total = float((result.state_law * cost).sum()) or 1.0
    return [
        (label_text(c.x, 40), label_text(c.y, 40), percent(c.amount / total), percent(share_of_time(result, c.mass)))
        for c in contributions(result, cost, most=_PAIRS)
    ]


# --- What everybody reads: what the number means, whether it is real, where it comes from, who corresponds to whom.

_TOP = 5  # parts of the distance that are told in words
_ROWS = 12


class ReportInput(NamedTuple):
    """What a report is about: the result, its cost where that is known, and what to call everything."""

    result: Result
    cost: Floats | None
    names: tuple[str, str]
    cost_name: str | None = None
    state_name: str | None = None
    known: float | None = None

    @property
    def by_name(self) -> bool:
        """Whether states of the same name are the same state, as far as the cost tells."""
        result = self.result
        return self.cost is None or names_count(result.states_x, result.states_y, self.cost, result.state_law)


def summary_html(about: ReportInput) -> str:
    """The question, the answer in words, the number on its scale and how sure it is."""
    result, names = about.result, about.names
    said = meaning(result, about.cost, names, cost_name=about.cost_name, state_name=about.state_name)
    real = " ".join(filter(None, (certainty(result, about.cost), sentence_of_test(result, about.cost))))
    return (
        f"<h1>How far apart are {escape(names[0])} and {escape(names[1])}?</h1>"
        f'<p class="lead">{escape(said)}</p><p>{escape(real)}</p>{_picture(about)}'
        f'<p class="note">{escape(steps_that_matter(result))}</p>'
    )


def _picture(about: ReportInput) -> str:
    """The number between the least and the largest it could be; between 0 and itself where that is not known."""
    result, (low, high) = about.result, span(about.result)
    ticks = {} if about.known is None else {"truth": about.known}
    ends = possible(result, about.cost)
    top = max(high, result.distance, *ticks.values()) if ticks else max(high, result.distance)
    start, end = ends or (min(0.0, low, result.distance), 1.25 * top or 1.0)
    words = ("alike", "as different as can be") if ends is not None and start == 0.0 else ("", "")
    picture = drawings.interval(result.distance, low=low, high=high, ends=(start, end), words=words, ticks=ticks)
    caption = "The distance on the scale of what is possible" if ends is not None else "The distance"
    return f"<figure><figcaption>{escape(caption + _band(result))}</figcaption>{picture}</figure>"


def _band(result: Result) -> str:
    low, high = (figure(end) for end in span(result))
    if result.confidence_interval is not None:
        return f"; the band is its {100 * result.confidence_interval.level:g} % confidence interval, {low} to {high}."
    return f"; proved between {low} and {high}." if result.claim is Claim.PROVED and low != high else "."


def warnings(messages: Sequence[str]) -> str:
    """Notes, each message once."""
    unique = list(dict.fromkeys(messages))
    if not unique:
        return ""
    items = "".join(f"<li>{escape(message)}</li>" for message in unique)
    return f'<div class="warnings"><strong>Notes</strong><ul>{items}</ul></div>'


def contributions_html(about: ReportInput, found: Contributions | None) -> str:
    """The largest parts of the distance, each in a sentence with its direction."""
    if found is None:
        return ""
    body, names = _only(about), (shortened(about.names[0], 40), shortened(about.names[1], 40))
    if found.transitions:
        items = "".join(
            f"<li>{bold(t.state)} is followed by {bold(t.next_state)} {escape(more_or_less(t, names))}"
            f"{_mark(about.result, t.marked)}</li>"
            for t in found.transitions[:_TOP]
        )
        body += f"<p>The steps that differ and matter most:</p><ol>{items}</ol>"
    if found.pairs:
        total = float((about.result.state_law * about.cost).sum()) if about.cost is not None else 0.0
        items = "".join(f"<li>{_pair(about, p, total or 1.0)}</li>" for p in found.pairs[:_TOP])
        before = "What comes of it, when" if found.transitions else "When"
        body += f"<p>{before} the two run side by side:</p><ol>{items}</ol>"
    if not body:
        return ""
    return f"<h2>Where they differ</h2>{body}{_legend(about.result)}"


def _only(about: ReportInput) -> str:
    """States that only one of the two has, the most visited first; nothing where names say nothing."""
    result, said = about.result, ""
    labels = result.states_x, result.states_y
    if set(labels[0]).isdisjoint(labels[1]) or not about.by_name:
        return ""
    for side, (name, own, other) in enumerate(zip(about.names, labels, reversed(labels), strict=True)):
        visited = result.state_law.sum(axis=1 - side)
        alone = [k for k in np.argsort(-visited, kind="stable") if own[k] not in set(other)]
        told = [
            f"{bold(own[k])} ({escape(percent(share_of_time(result, float(visited[k]))))} of the time)" for k in alone
        ]
        more = f" and {len(told) - _TOP:,} more" if len(told) > _TOP else ""
        said += f"<p>Only in {text(name, 40)}: {', '.join(told[:_TOP])}{more}.</p>" if told else ""
    return said


def _pair(about: ReportInput, pair: PairShare, total: float) -> str:
    names = about.names
    price = "" if by_labels(about.result, about.cost) else f", at a cost of {figure(pair.cost)} each time"
    return (
        f"{text(names[0], 40)} is in {bold(pair.x)} while {text(names[1], 40)} is in {bold(pair.y)}: "
        f"{escape(percent(share_of_time(about.result, pair.occupancy)))} of the time{price}, "
        f"{escape(percent(pair.amount / total))} of the distance"
        f"{_mark(about.result, pair.marked)}"
    )


def _mark(result: Result, marked: bool) -> str:
    if not result.n_samples or not _judged(result):
        return ""
    return ' <span class="tag clear">clear</span>' if marked else ' <span class="tag">may be chance</span>'


def _judged(result: Result) -> bool:
    """Whether chance was told from difference: with a discount below 1."""
    return result.discount < 1.0


def _legend(result: Result) -> str:
    if result.claim is not Claim.ESTIMATED:
        return ""
    if not _judged(result):
        return '<p class="note">Shares are those of the estimated chains; how much is chance is not known.</p>'
    return (
        '<p class="note">Clear: no accident of the recordings, at a false discovery rate of 5 %. Shares are those of '
        "the estimated chains, before the correction for bias.</p>"
    )


def matches_html(about: ReportInput) -> str:
    """Which states go together, most visited first."""
    result = about.result
    first, second = (text(name, 40) for name in about.names)
    found = result.matches()
    rows = [
        [cell(m.x), cell(m.y), share(m.probability), share(share_of_time(result, m.occupancy))] for m in found[:_ROWS]
    ]
    shared = set(result.states_x) & set(result.states_y)
    known = [m for m in found if m.x in shared]
    same = sum(m.x == m.y for m in known)
    said = (
        f"<p>Of the {len(known)} states that both have, {same} go most often with the one of the same name.</p>"
        if known and about.by_name
        else ""
    )
    if result.continuous is not None:
        coordinates = ", ".join(text(name, 30) for name in result.continuous.cells.names[:6])
        themselves = f"{same} of {len(known)} go with themselves"
        said = f"<p>States are cells, called by their centres ({coordinates}); {themselves}.</p>{_plane(about)}"
    noise = '<p class="note">Solved to the level of the sampling noise.</p>' if result.maps.at_noise_level else ""
    more = f'<p class="note">The {_ROWS} most visited of {len(found):,}.</p>' if len(found) > _ROWS else ""
    body = table_story([f"state of {first}", f"goes with, in {second}", "!how often", "!share of time"], rows)
    return f"<h2>Who corresponds to whom</h2>{said}{body}{more}{noise}"


def _plane(about: ReportInput) -> str:
    """Cells and their partners."""
    assert about.result.continuous is not None
    cells = about.result.continuous.cells
    some = ", in the first two coordinates" if len(cells.names) > 2 else ""
    caption = f"Larger where more time is spent{some}; lines lead to dots, where the partners are on average."
    picture = cells_in_plane(cells, about.result.encoder, about.names)
    return f"<figure><figcaption>{caption}</figcaption>{picture}</figure>"
