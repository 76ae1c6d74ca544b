"""What stands behind the answer, for those who open it: numbers, maps, graphs, data, the run and the definition."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from somcot.clocks import CLOCKS
from somcot.contributions import Contributions
from somcot.plumbing.arrays import Floats
from somcot.plumbing.html import cell, columns, facts, number, share, text
from somcot.plumbing.html import report_table as table
from somcot.plumbing.text import figure, label_text
from somcot.problem import ChainOrData, Data
from somcot.report import svg as drawings
from somcot.report.sentences import before_correction, continuous_facts, contributions, share_of_time
from somcot.report.summary import ReportInput
from somcot.result import Claim, Result
from somcot.solvers import describe

__all__ = ["data", "definition_html", "makeup", "maps", "method_html", "processes", "run"]

_MAP_STATES = 50  # states a heat map shows
_GRAPH_STATES = 20


def method_html(about: ReportInput) -> str:
    """How the number came about."""
    result, cost = about.result, about.cost
    rows = [
        ("distance", figure(result.distance)),
        ("method", describe(result.method)),
        ("clock", f"{result.clock}. {result.clock.explained}"),
        ("cost", about.cost_name or "given as a matrix"),
        ("status", f"{result.status.value}: {result.message}"),
        ("work", f"{result.n_steps:,} steps, {result.seconds:.3g} s"),
    ]
    if cost is not None and result.continuous is None:
        rows.insert(4, _costs(result, cost))
    if result.continuous is not None:
        rows[1:2] = continuous_facts(result.continuous, result.plugin)
        twin, sizes = result.continuous.twin, result.continuous.resolution
        rows.append(("linear models", twin.reason))
        shown = (f"{n} cells: {figure(value)}" for n, value in zip(sizes.n_cells, sizes.raw, strict=True))
        rows.append(("fewer cells", f"{', '.join(shown)}; how little that changes says nothing about the error"))
    if result.n_samples:
        rows.append(("data", f"{result.samples[0]:,} + {result.samples[1]:,} transitions"))
    rows += _proved(result)
    if result.estimate is not None:
        e = result.estimate
        rows.append(("standard error", figure(e.standard_error)))
        rows.append(("cross-fit gap", f"{figure(e.gap)} (relative: {figure(e.rho)}), {e.n_solves} exact solves"))
    return facts(rows)


def _costs(result: Result, cost: Floats) -> tuple[str, str]:
    least, most = figure(cost.min()), figure(cost.max())
    if result.clock.name == "total":
        return "cost of a step", f"{least} to {most}"
    return "possible distances", f"{least} (alike) to {most} (never alike)"


def _proved(result: Result) -> list[tuple[str, str]]:
    if result.claim is Claim.PROVED:
        return [("proved", f"between {result.bounds.low:.6g} and {result.bounds.high:.6g}")]
    if result.claim is Claim.NOTHING:
        fed = (
            []
            if result.counted is None
            else [("transitions it was fed", f"their chains are at {figure(result.counted)}")]
        )
        return [("proved", f"nothing, after {result.n_steps:,} steps"), *fed]
    before = before_correction(result)
    return [] if before is None else [before]


def makeup(about: ReportInput, found: Contributions | None) -> str:
    """All that is known of the parts: pairs of states with their errors, joint steps, transitions."""
    result, cost = about.result, about.cost
    if cost is None:
        return ""
    pairs = contributions(result, cost)
    if not pairs:
        return '<p class="note">Nothing: no pair of states with a cost is met.</p>'
    total = float((result.state_law * cost).sum()) or 1.0
    body = "<p>Time spent together in a pair of states, times the cost of that pair.</p>"
    heads = [f"in {text(about.names[0], 40)}", f"while in {text(about.names[1], 40)}"]
    errors = {(p.x, p.y): p for p in found.pairs} if found is not None else {}
    rows = []
    for c in pairs:
        known = errors.get((c.x, c.y))
        tail = [number(known.standard_error), _yes(known.marked)] if known else ["<td></td>", "<td></td>"]
        rows.append(
            [
                cell(c.x),
                cell(c.y),
                share(c.amount / total),
                number(c.amount),
                *tail,
                share(share_of_time(result, c.mass)),
                number(c.cost),
            ]
        )
    head = [*heads, "!of the distance", "!adds", "!error", "clear", "!of the time", "!cost"]
    body += table(head, rows) + _joint_steps(about, heads, total) + _transitions(about, found)
    return body


def _joint_steps(about: ReportInput, heads: list[str], total: float) -> str:
    if about.cost is None:
        return ""
    rows = [
        [cell(c.x), cell(c.y), cell(c.next_x), cell(c.next_y), share(c.amount / total)]
        for c in contributions(about.result, about.cost, steps=True)
    ]
    return "<h3>By joint step</h3>" + table([*heads, "then", "and", "!of the distance"], rows) if rows else ""


def _transitions(about: ReportInput, found: Contributions | None) -> str:
    """Which transitions differ, with the mark of those that are no accident."""
    if found is None or not found.transitions:
        return ""
    rows = [
        [
            cell(t.state), cell(t.next_state), share(t.probability_x), share(t.probability_y), number(t.amount),
            number(t.standard_error), _yes(t.marked),
        ]
        for t in found.transitions
    ]  # fmt: skip
    return (
        "<h3>By transition</h3><p>Steps whose probability differs, times how much the distance depends on them. Clear: "
        "no accident of the recordings, at a false discovery rate of 5 %.</p>"
        + table(["from", "to", *columns(about.names), "!adds", "!error", "clear"], rows)
    )


def _yes(marked: bool) -> str:
    return f"<td>{'yes' if marked else ''}</td>"


def maps(about: ReportInput) -> str:
    """Three heat maps: time together, encoder, decoder."""
    result = about.result
    first, second = (text(name, 40) for name in about.names)
    i, j = _most_visited(result.state_law, _MAP_STATES)
    together = f"Together: time spent in each pair (root scale), {first} down, {second} across"
    shown = [
        (together, np.sqrt(result.state_law[np.ix_(i, j)]), i, j, False),
        (f"Encoder: where each state of {first} goes in {second}", result.encoder[np.ix_(i, j)], i, j, False),
        (f"Decoder: where each state of {second} goes in {first}", result.decoder[np.ix_(j, i)], j, i, True),
    ]
    figures = "".join(_map(result, *parts) for parts in shown)
    row = "pair" if max(len(i), len(j)) <= 16 else "stack"
    return f'{_cut_note(result, len(i), len(j))}{_noise_note(result)}<div class="{row}">{figures}</div>'


def _map(result: Result, caption: str, values: Floats, rows: NDArray[Any], across: NDArray[Any], turned: bool) -> str:
    of_rows, of_columns = (result.states_y, result.states_x) if turned else (result.states_x, result.states_y)
    picture = drawings.heat_map(
        values, [of_rows[k] for k in rows], [of_columns[k] for k in across], title=caption.split(":")[0]
    )
    return f'<figure><figcaption>{caption}</figcaption><div class="scroll">{picture}</div></figure>'


def _most_visited(law: Floats, most: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The states to show of each side, in their own order."""
    chosen = (np.sort(np.argsort(-law.sum(axis=axis), kind="stable")[:most]) for axis in (1, 0))
    i, j = (c if len(c) else np.arange(1) for c in chosen)
    return i, j


def _noise_note(result: Result) -> str:
    if not result.maps.at_noise_level:
        return ""
    return (
        '<p class="note">Encoder and decoder are solved to the level of the sampling noise; the picture of '
        "time together is exact for the estimated chains and so follows the noise.</p>"
    )


def _cut_note(result: Result, n: int, m: int) -> str:
    if n == len(result.states_x) and m == len(result.states_y):
        return ""
    return (
        f'<p class="note">The pictures show the {n} and {m} most visited of {len(result.states_x)} and '
        f"{len(result.states_y)} states.</p>"
    )


def processes(about: ReportInput) -> str:
    """Both chains as graphs; a state of Y has the colour of its most frequent partner in X."""
    result, names = about.result, about.names
    if result.plan is None:
        return ""
    i, j = _most_visited(result.state_law, _GRAPH_STATES)
    palette = dict(zip(i.tolist(), drawings.colours(len(i)), strict=True))
    partner = result.decoder.argmax(axis=1)
    fills = [palette[k] for k in i.tolist()], [palette.get(int(partner[k]), "var(--soft)") for k in j.tolist()]
    laws = result.plan.marginal_x(), result.plan.marginal_y()
    figures = ""
    for side, (chosen, states) in enumerate(((i, result.states_x), (j, result.states_y))):
        law = laws[side].toarray()[np.ix_(chosen, chosen)]
        picture = drawings.graph(law, [states[k] for k in chosen], fills[side], title=f"states of {names[side]}")
        figures += (
            f'<figure><figcaption>{text(names[side], 60)}</figcaption><div class="scroll">{picture}</div></figure>'
        )
    return (
        "<p>Dots grow with the time spent in a state, lines with how often a step is taken. "
        f'Equal colours correspond to each other.</p><div class="pair">{figures}</div>'
    )


def data(x: ChainOrData | None, y: ChainOrData | None, names: tuple[str, str]) -> str:
    """What was read: sizes, states of one side only, visits."""
    given = [(name, p) for name, p in zip(names, (x, y), strict=True) if p is not None]
    if not given:
        return ""
    rows_of: list[tuple[str, Callable[[ChainOrData], str]]] = [
        ("states", lambda p: f"{p.n_states:,}"),
        ("transitions", lambda p: f"{p.n_transitions:,}" if isinstance(p, Data) else "known chain"),
        ("sequences", lambda p: f"{p.n_episodes:,}" if isinstance(p, Data) and p.n_episodes else "-"),
    ]
    rows = [[f"<td>{name}</td>", *(f'<td class="n">{fact(p)}</td>' for _, p in given)] for name, fact in rows_of]
    body = table(["", *(f"!{text(name, 40)}" for name, _ in given)], rows)
    if x is not None and y is not None:
        body += _one_sided(x, y, names)
    figures = "".join(_visits(name, p, side) for side, (name, p) in enumerate(given) if isinstance(p, Data))
    return f'{body}<div class="pair">{figures}</div>'


def _one_sided(x: ChainOrData, y: ChainOrData, names: tuple[str, str]) -> str:
    said = ""
    for mine, other, name in ((x, y, names[0]), (y, x, names[1])):
        theirs = set(other.states)
        only = [label_text(s, 40) for s in mine.states if s not in theirs]
        if only:
            more = f" and {len(only) - 30} more" if len(only) > 30 else ""
            said += f"<p>Only in {text(name, 40)}: {escape(', '.join(only[:30]))}{more}.</p>"
    return said


def _visits(name: str, samples: Data, side: int) -> str:
    order = np.argsort(-samples.visits, kind="stable")[:_GRAPH_STATES]
    labels = [samples.states[k] for k in order]
    style = "bar" if side == 0 else "bar other"
    picture = drawings.bars(samples.visits[order].astype(float), labels, title="visits", unit="", classes=style)
    shown = f" (the {len(order)} most visited states)" if len(order) < samples.n_states else ""
    return (
        f"<figure><figcaption>Steps taken from each state of {text(name, 40)}{shown}</figcaption>"
        f'<div class="scroll">{picture}</div></figure>'
    )


def run(result: Result) -> str:
    """The distance along the run."""
    steps, values = result.trace.get("step"), result.trace.get("distance")
    if steps is None or values is None or np.isfinite(values).sum() < 2:
        return ""
    places = np.unique(np.linspace(0, len(values) - 1, 200).astype(int))
    picture = drawings.trace(
        np.asarray(steps, float)[places], np.asarray(values, float)[places],
        band=None if result.claim is Claim.NOTHING else result.bounds, title="the distance along the run",
    )  # fmt: skip
    said = {
        Claim.PROVED: "The distance step by step; the band is the proved bracket.",
        Claim.ESTIMATED: "The distance of the estimated chains step by step; the band is what is proved of it.",
        Claim.NOTHING: "The distance step by step.",
    }[result.claim]
    if result.method == "somcot":
        said = "The average of all steps so far; the last point is the distance, which leaves out the first steps."
    return f"<p>{said}</p>{picture}"


def definition_html(result: Result, command: str | None) -> str:
    """The definition, the reference, and the command for the same result."""
    same = "" if command is None else f"<p>The same result again:</p><pre>{escape(command)}</pre>"
    return (
        f"<p>The distance is the least value of {_formula(result)} over all ways to run the two processes side by side "
        "without looking into the future of the other (bisimulation metric; bicausal couplings). From data it is "
        "computed for the estimated chains; with a discount it is corrected for their upward bias, and given with an "
        "interval for the true distance. "
        "Calo, Jonsson, Neu, Schwartz, Segovia-Aguas: Distances for Markov chains from sample streams (2025).</p>"
        + same
    )


def _formula(result: Result) -> str:
    if result.clock.name == "discount":
        return "(1 - discount) · E[Σ discount<sup>t</sup> · cost(X<sub>t</sub>, Y<sub>t</sub>)]"
    return f"{escape(CLOCKS[result.clock.name].least)}, where c is the cost,"
