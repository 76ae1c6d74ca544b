"""The sections of a report, each a piece of finished HTML; every text from outside is escaped here."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.text import figure, label_text
from somcot.problem import ChainOrData, Data
from somcot.report import drawings
from somcot.report.contributions import Contribution, contributions
from somcot.report.words import before_correction, sentence
from somcot.result import Bounds, Claim, Result
from somcot.solvers.methods import describe

__all__ = ["again", "data", "head", "making", "matching", "method", "occupancy", "run", "warnings"]

_MAP_STATES = 50  # states a heat map shows
_GRAPH_STATES = 20
_TRANSITIONS = 8
_ROWS = 12


def head(result: Result, names: tuple[str, str], known: float | None) -> str:
    """The question, the number, its interval in words and as a picture."""
    interval = result.confidence_interval
    low, high = _range(result)
    small = f"<small>{100 * interval.level:g} % interval {figure(low)} to {figure(high)}</small>" if interval else ""
    ticks = {} if known is None else {"truth": known}
    end = max(high, result.distance, *ticks.values()) if ticks else max(high, result.distance)
    picture = drawings.interval(
        result.distance, low=low, high=high, start=min(0.0, low, result.distance), end=1.25 * end or 1.0, ticks=ticks
    )
    shown = tuple(label_text(name, 120) for name in names)
    return (
        f"<h1>How far apart are {escape(shown[0])} and {escape(shown[1])}?</h1>"
        f'<p class="number">{figure(result.distance)}{small}</p><p>{escape(sentence(result, (shown[0], shown[1])))}</p>'
        f"{picture}"
    )


def _range(result: Result) -> Bounds:
    """Between which numbers the distance lies, as far as that is known; the number itself where nothing is."""
    if result.confidence_interval is not None:
        return Bounds(*result.confidence_interval[:2])
    return result.bounds if result.claim is Claim.PROVED else Bounds(result.distance, result.distance)


def warnings(messages: Sequence[str]) -> str:
    """Notes, each message once."""
    unique = list(dict.fromkeys(messages))
    if not unique:
        return ""
    items = "".join(f"<li>{escape(message)}</li>" for message in unique)
    return f'<div class="warnings"><strong>Notes</strong><ul>{items}</ul></div>'


def method(result: Result, cost_name: str | None, cost: ArrayLike | None) -> str:
    """How the number came about."""
    horizon = 1.0 / (1.0 - result.discount)
    rows = [
        ("method", describe(result.method)),
        ("discount", f"{result.discount:g}, so about {horizon:.3g} steps matter"),
        ("cost", cost_name or "given as a matrix"),
        ("status", f"{result.status.value}: {result.message}"),
        ("work", f"{result.n_steps:,} steps, {result.seconds:.3g} s"),
    ]
    if cost is not None:
        table = np.asarray(cost, dtype=np.float64)
        rows.insert(3, ("possible distances", f"{table.min():.4g} (alike) to {table.max():.4g} (never alike)"))
    if result.n_samples:
        rows.append(("data", f"{result.samples[0]:,} + {result.samples[1]:,} transitions"))
    rows += _proved(result)
    if result.estimate is not None:
        e = result.estimate
        rows.append(("standard error", f"{e.standard_error:.3g}"))
        rows.append(("cross-fit gap", f"{e.gap:.3g} (relative: {e.rho:.2f}), {e.n_solves} exact solves"))
    body = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in rows)
    return f"<h2>How it was computed</h2><table>{body}</table>"


def _proved(result: Result) -> list[tuple[str, str]]:
    if result.claim is Claim.PROVED:
        return [("proved", f"between {result.bounds.low:.6g} and {result.bounds.high:.6g}")]
    if result.claim is Claim.NOTHING:
        return [("proved", f"nothing, after {result.n_steps:,} steps")]
    before = before_correction(result)
    return [] if before is None else [before]


def matching(result: Result, names: tuple[str, str]) -> str:
    """Which states go together: a table and three maps."""
    first, second = (escape(label_text(name, 24)) for name in names)
    rows = [
        [_cell(m.x), _cell(m.y), _number(100 * m.probability, " %"), _number(100 * m.occupancy, " %")]
        for m in result.matches()[:_ROWS]
    ]
    table = _table([f"state of {first}", f"goes with, in {second}", "!how often", "!share of time"], rows)
    i, j = _most_visited(result.state_law, _MAP_STATES)
    note = _cut_note(result, len(i), len(j)) + _noise_note(result)
    maps = [
        ("Together: time spent in each pair (root scale)", np.sqrt(result.state_law[np.ix_(i, j)]), i, j, False),
        (f"Encoder: where each state of {first} goes", result.encoder[np.ix_(i, j)], i, j, False),
        (f"Decoder: where each state of {second} goes", result.decoder[np.ix_(j, i)], j, i, True),
    ]
    figures = "".join(_map(result, *parts) for parts in maps)
    row = "pair" if max(len(i), len(j)) <= 16 else "stack"
    return f'<h2>Who corresponds to whom</h2>{table}{note}<div class="{row}">{figures}</div>'


def _map(result: Result, caption: str, values: Floats, rows: NDArray[Any], columns: NDArray[Any], turned: bool) -> str:
    of_rows, of_columns = (result.states_y, result.states_x) if turned else (result.states_x, result.states_y)
    picture = drawings.heat_map(
        values, [of_rows[k] for k in rows], [of_columns[k] for k in columns], title=caption.split(":")[0]
    )
    return f'<figure><figcaption>{caption}</figcaption><div class="scroll">{picture}</div></figure>'


def _most_visited(law: Floats, most: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The states to show of each side, in their own order."""
    x, y = law.sum(axis=1), law.sum(axis=0)
    chosen = (np.sort(np.argsort(-v, kind="stable")[:most]) for v in (x, y))
    i, j = (c if len(c) else np.arange(1) for c in chosen)
    return i, j


def _noise_note(result: Result) -> str:
    if not result.maps.at_noise_level:
        return ""
    return (
        '<p class="note">Encoder, decoder and the table are solved to the level of the sampling noise; the picture of '
        "time together is exact for the estimated chains and so follows the noise.</p>"
    )


def _cut_note(result: Result, n: int, m: int) -> str:
    if n == len(result.states_x) and m == len(result.states_y):
        return ""
    return (
        f'<p class="note">The pictures show the {n} and {m} most visited of {len(result.states_x)} and '
        f"{len(result.states_y)} states.</p>"
    )


def making(result: Result, cost: ArrayLike, names: tuple[str, str]) -> str:
    """What the distance is made of: pairs of states, then joint steps."""
    first, second = (escape(label_text(name, 24)) for name in names)
    total = sum(c.amount for c in contributions(result, cost, most=result.state_law.size)) or 1.0
    pairs = [_share(c, total) for c in contributions(result, cost)]
    steps = [
        [*_share(c, total)[:2], f"<td>{_text(c.next_x)}</td>", f"<td>{_text(c.next_y)}</td>", *_share(c, total)[2:3]]
        for c in contributions(result, cost, steps=True)
    ]
    head = [f"in {first}", f"while in {second}"]
    body = _table([*head, "!share of distance", "!share of time", "!cost"], pairs)
    if steps:
        body += "<h3>By joint step</h3>" + _table([*head, "then", "and", "!share of distance"], steps)
    body += _by_transition(result, names)
    plain = (
        "" if result.plugin is None else " Shares are those of the estimated chains, before the correction for bias."
    )
    if not pairs:
        return '<h2>What the distance is made of</h2><p class="note">Nothing: no pair of states with a cost is met.</p>'
    return (
        "<h2>What the distance is made of</h2><p>Time spent together in a pair of states, times the cost of that "
        f"pair.{plain}</p>{body}"
    )


def _by_transition(result: Result, names: tuple[str, str]) -> str:
    """Which transitions differ, with the mark of those that are no accident."""
    found = result.contributions(_TRANSITIONS).transitions if result.makeup is not None else ()
    if not found:
        return ""
    rows = [
        [
            _cell(t.state), _cell(t.next_state), _number(100 * t.probability_x, " %"),
            _number(100 * t.probability_y, " %"), _number(t.amount, ""), f"<td>{'yes' if t.marked else ''}</td>",
        ]
        for t in found
    ]  # fmt: skip
    heads = [f"!{escape(label_text(name, 24))}" for name in names]
    return (
        "<h3>By transition</h3><p>Steps whose probability differs, times how much the distance depends on them. Clear: "
        "no accident of the recordings, at a false discovery rate of 5 %.</p>"
        + _table(["from", "to", *heads, "!adds", "clear"], rows)
    )


def _share(c: Contribution, total: float) -> list[str]:
    return [
        _cell(c.x), _cell(c.y), _number(100 * c.amount / total, " %"), _number(100 * c.mass, " %"), _number(c.cost, ""),
    ]  # fmt: skip


def occupancy(result: Result, names: tuple[str, str]) -> str:
    """Both chains as graphs; a state of Y has the colour of its most frequent partner in X."""
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
        caption = escape(label_text(names[side], 60))
        figures += f'<figure><figcaption>{caption}</figcaption><div class="scroll">{picture}</div></figure>'
    return (
        "<h2>The two processes</h2><p>Dots grow with the time spent in a state, lines with how often a step is taken. "
        f'Equal colours correspond to each other.</p><div class="pair">{figures}</div>'
    )


def data(x: ChainOrData | None, y: ChainOrData | None, names: tuple[str, str]) -> str:
    """What was read: sizes, states of one side only, visits."""
    given = [(name, p) for name, p in zip(names, (x, y), strict=True) if p is not None]
    if not given:
        return ""
    facts: list[tuple[str, Callable[[ChainOrData], str]]] = [
        ("states", lambda p: f"{p.n_states:,}"),
        ("transitions", lambda p: f"{p.n_transitions:,}" if isinstance(p, Data) else "known chain"),
        ("sequences", lambda p: f"{p.n_episodes:,}" if isinstance(p, Data) and p.n_episodes else "-"),
    ]
    rows = [[f"<td>{name}</td>", *(f'<td class="n">{fact(p)}</td>' for _, p in given)] for name, fact in facts]
    body = _table(["", *(f"!{escape(label_text(name, 40))}" for name, _ in given)], rows)
    if x is not None and y is not None:
        body += _one_sided(x, y, names)
    figures = "".join(_visits(name, p, side) for side, (name, p) in enumerate(given) if isinstance(p, Data))
    return f'<h2>The data</h2>{body}<div class="pair">{figures}</div>'


def _one_sided(x: ChainOrData, y: ChainOrData, names: tuple[str, str]) -> str:
    text = ""
    for mine, other, name in ((x, y, names[0]), (y, x, names[1])):
        theirs = set(other.states)
        only = [label_text(s, 40) for s in mine.states if s not in theirs]
        if only:
            more = f" and {len(only) - 30} more" if len(only) > 30 else ""
            text += f"<p>Only in {escape(label_text(name, 40))}: {escape(', '.join(only[:30]))}{more}.</p>"
    return text


def _visits(name: str, samples: Data, side: int) -> str:
    order = np.argsort(-samples.visits, kind="stable")[:_GRAPH_STATES]
    labels = [samples.states[k] for k in order]
    style = "bar" if side == 0 else "bar other"
    picture = drawings.bars(samples.visits[order].astype(float), labels, title="visits", unit="", classes=style)
    shown = f" (the {len(order)} most visited states)" if len(order) < samples.n_states else ""
    return (
        f"<figure><figcaption>Steps taken from each state of {escape(label_text(name, 40))}{shown}</figcaption>"
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
    text = {
        Claim.PROVED: "The distance step by step; the band is the proved bracket.",
        Claim.ESTIMATED: "The distance of the estimated chains step by step; the band is what is proved of it.",
        Claim.NOTHING: "The distance step by step.",
    }[result.claim]
    return f"<h2>Along the run</h2><p>{text}</p>{picture}"


def again(command: str | None, version: str) -> str:
    """The definition, the reference, and the command for the same result."""
    again = "" if command is None else f"<p>The same result again:</p><pre>{escape(command)}</pre>"
    return (
        "<h2>Method</h2><p>The distance is the least value of (1 - discount) · E[Σ discount<sup>t</sup> · "
        "cost(X<sub>t</sub>, Y<sub>t</sub>)] over all ways to run the two processes side by side without looking into "
        "the future of the other (bisimulation metric; bicausal couplings). From data it is computed for the estimated "
        "chains, corrected for their upward bias, and given with an interval for the true distance. "
        "Calo, Jonsson, Neu, Schwartz, Segovia-Aguas: Distances for Markov chains from sample streams (2025).</p>"
        f'{again}<p class="note">Written by somcot {escape(version)}.</p>'
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells come as finished HTML; a head that begins with ! is that of a column of numbers."""
    top = "".join(f'<th class="n">{h[1:]}</th>' if h.startswith("!") else f"<th>{h}</th>" for h in head)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{top}</tr>{body}</table></div>'


def _cell(label: Hashable) -> str:
    return f"<td>{_text(label)}</td>"


def _text(label: Hashable) -> str:
    return escape(label_text(label, 48))


def _number(value: float, unit: str) -> str:
    return f'<td class="n">{value:.3g}{unit}</td>'
