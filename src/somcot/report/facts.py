"""The content of reports, notebook cards and terminal screens: sections of facts, tables and pictures.

Nothing is escaped or laid out here. Pictures are functions, so an output that omits them does not compute them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from somcot.contributions import Contributions, Findings, PairShare, TransitionShare, arrow, names_count
from somcot.couplings import Match, MatchInterval
from somcot.inference.findings import shown_matches
from somcot.plumbing.arrays import Floats
from somcot.plumbing.html import (
    Bold,
    Bullets,
    Code,
    Fact,
    First,
    Item,
    Lead,
    Line,
    Mark,
    Notes,
    Picture,
    Remark,
    Second,
    Section,
    Swatches,
    Table,
    Tag,
    card,
    scale,
    shortened,
)
from somcot.plumbing.text import decimals, figure, label_text, percent, percents, seconds
from somcot.problem import ChainOrData, Data
from somcot.report import svg
from somcot.report.sentences import (
    before_correction,
    by_labels,
    certainty,
    continuous_facts,
    contributions,
    cost_of,
    definition,
    findings_in_words,
    headline,
    meaning,
    merge_notes,
    mix_in_words,
    more_or_less,
    not_bounded,
    possible,
    sentence_of_test,
    share_of_time,
    steps_that_matter,
)
from somcot.result import Claim, Result, Status
from somcot.samples import Samples
from somcot.solvers import describe

__all__ = ["ReportInput", "computation", "matches", "pairs", "result_card", "result_sections", "transitions"]

_TOP = 5  # contributions described in sentences
_PARTS = 12  # pairs of states, transitions and correspondences listed
_MAP_STATES = 50  # states in a heat map
_GRAPH_STATES = 20
_ARROWS = 14  # steps in the difference graph
_LINES, _STEPS, _SHADES = 60, 40, 8  # sequences, their steps and the coloured states of the sequence view
_SIGNIFICANT = "Significant: at a false discovery rate of 5 %."


# --- A distance.


@dataclass(frozen=True, eq=False)
class ReportInput:
    """The result, its cost if known, the names to use, and the data."""

    result: Result
    cost: Floats | None
    names: tuple[str, str] = ("X", "Y")
    cost_name: str | None = None
    state_name: str | None = None
    known: float | None = None
    x: ChainOrData | None = None
    y: ChainOrData | None = None
    notes: Sequence[str] = ()
    command: str | None = None

    @property
    def by_name(self) -> bool:
        """Whether the cost treats states of the same name as the same state."""
        result = self.result
        return self.cost is None or names_count(result.states_x, result.states_y, self.cost, result.state_law)

    @property
    def total(self) -> float:
        """The sum of the contributions of all pairs: the distance of the chains that were solved."""
        # Never 0: shares are quotients by it.
        return (float((self.result.state_law * self.cost).sum()) if self.cost is not None else 0.0) or 1.0

    @property
    def judged(self) -> bool:
        """Whether contributions are tested for significance: for data with a discount below 1."""
        return bool(self.result.n_samples) and self.result.discount < 1.0

    @cached_property
    def found(self) -> Findings:
        """States and steps before and after."""
        return self.result.findings()

    def partners(self, most: int) -> Sequence[Match | MatchInterval]:
        """Corresponding states of the most visited ones."""
        return shown_matches(self.result, most)

    def time(self, mass: float) -> str:
        """A share of the weighted time."""
        return percent(share_of_time(self.result, mass))


def result_sections(about: ReportInput) -> list[Section]:
    """All sections of the report on a distance; technical ones are collapsed."""
    result = about.result
    # Methods without inputs for contributions have none to show.
    shares = result.contributions(_PARTS) if result.makeup is not None else None
    last = "Definition and reference" if about.command is None else "Definition, reference and command"
    title = f"How far apart are {about.names[0]} and {about.names[1]}?"
    news = findings_in_words(about.found, about.names)
    evidence = " ".join(filter(None, (certainty(result, about.cost), sentence_of_test(result, about.cost))))
    summary = meaning(result, about.cost, about.names, cost_name=about.cost_name, state_name=about.state_name)
    return [
        Section("answer", title, [*([Lead(news)] if news else []), Lead(summary), evidence, _on_scale(about),
                                  Remark(steps_that_matter(result))]),
        Section("states", "States before and after", _states(about)),
        Section("steps", "Steps that differ", _steps(about)),
        Section("differences", "What accounts for the distance", _differences(about, shares)),
        Section("matches", "Which states correspond", _correspondence(about)),
        Section("notes", "", [Notes(about.notes)] if about.notes else []),
        Section("sequences", "Sequences, one per line", list(_sequences(about)), closed=True),
        Section("computation", "How it was computed", computation(about), closed=True),
        Section("contributions", "Contributions to the distance", list(_contributions(about, shares)), closed=True),
        Section("maps", "Heat maps: time together, encoder and decoder", list(_maps(about)), closed=True),
        Section("graphs", "The two processes as graphs", list(_graphs(about)), closed=True),
        Section("data", "The data", _data(about), closed=True),
        Section("run", "Convergence", _run(result), closed=True),
        Section("definition", last, _definition(about), closed=True),
    ]  # fmt: skip


def _states(about: ReportInput) -> list[Item]:
    found = about.found
    said = [f"The first {_PARTS} of {len(found.states):,} states."] if len(found.states) > _PARTS else []
    if found.sequences is not None:
        whole = " and ".join(f"{n:,}" for n in found.sequences)
        said.append(f"Percentages are shares of the {found.units} ({whole}) that have the state. {_SIGNIFICANT}")
    return [found.states_table(about.names, _PARTS), *map(Remark, said)] if found.states else []


def _steps(about: ReportInput) -> list[Item]:
    found = about.found
    if not found.largest(1):
        return []
    first, second = (shortened(name, 40) for name in about.names)
    key: Line = (
        "Arrows in ", First("blue"), f": steps taken more often in {second} than in {first}; in ", Second("orange"),
        f": less often. Width: difference of the shares of {found.clock.share}."
        + (" Dashed: not significant." if found.sequences is not None else ""),
    )  # fmt: skip
    draw = partial(svg.difference, found, most=_ARROWS, title=f"steps that differ between {first} and {second}")
    return [Picture(draw, key), found.steps_table(about.names, _TOP)]


def _sequences(about: ReportInput) -> Iterator[Item]:
    """Both recordings as lines of coloured steps, sorted; the most visited states have colours."""
    sides = [side for side in (about.x, about.y) if isinstance(side, Samples) and side.n_episodes > 1]
    if len(sides) < 2:
        return
    shades = svg.shades(sides, _SHADES)
    yield f"Up to {_LINES} sequences of each, evenly from all in sorted order, and their first {_STEPS} states."
    yield Swatches([*((shade, shortened(label)) for label, shade in shades.items()), ("var(--line)", "other states")])
    for name, side in zip(about.names, sides, strict=True):
        draw = partial(svg.sequences, side, shades, lines=_LINES, steps=_STEPS, title=f"sequences of {name}")
        yield Picture(draw, shortened(name), beside=True)


def result_card(result: Result) -> str:
    """The card of a notebook: the distance, its certainty and its largest contributions; cheap to compute."""
    about = ReportInput(result, cost_of(result))
    ends, main, news = possible(result), headline(result), findings_in_words(about.found, about.names)
    work = [describe(result.method), str(result.clock), seconds(result.seconds)]
    if result.n_samples:
        work.insert(1, f"{result.samples[0]:,} + {result.samples[1]:,} transitions")
    if result.status not in (Status.CONVERGED, Status.FINISHED):
        # Only if something is unusual: the message repeats the facts otherwise.
        work.append(result.message)
    return card(
        f"distance {figure(result.distance)}",
        (),
        *((news,) if news else ()),
        *(() if ends is None else (scale(*main[:3], ends),)),
        f"{meaning(result)} {certainty(result)}",
        about.found.states_table(about.names, _TOP),
        about.found.steps_table(about.names, _TOP),
        pairs(about, None).first(_TOP).without("cost", "amount")._replace(title="Largest contributions"),
        Notes(merge_notes(result.diagnose(), ("X", "Y"))),
        Remark("; ".join(work)),
    )


def _on_scale(about: ReportInput) -> Picture:
    """The distance on the scale of possible values, or above 0 if the largest possible value is unknown."""
    result, (distance, low, high, before_end) = about.result, headline(about.result)
    # The known distance includes the time after the end.
    ticks = {} if about.known is None or before_end else {"truth": about.known}
    ends = possible(result, about.cost)
    # Without a largest possible value the scale ends a quarter above everything drawn.
    start, end = ends or (min(0.0, low, distance), 1.25 * max(high, distance, *ticks.values()) or 1.0)
    words = ("identical", "maximally different") if ends is not None and start == 0.0 else ("", "")
    what = "The distance per step before both sequences have ended" if before_end else "The distance"
    caption = f"{what}, on the scale of possible values" if ends is not None else what
    if result.confidence_interval is not None:
        level = f"{100 * result.confidence_interval.level:g} % confidence interval"
        caption += f"; the band is its {level}, {not_bounded(result, about.cost) or figure(low)} to {figure(high)}."
    elif result.claim is Claim.PROVED and figure(low) != figure(high):
        caption += f"; proved between {figure(low)} and {figure(high)}."
    else:
        caption += "."
    draw = partial(svg.interval, distance, low=low, high=high, ends=(start, end), words=words, ticks=ticks)
    return Picture(draw, caption)


def computation(about: ReportInput) -> list[Fact]:
    """Facts about the computation; terminals show a selection by key."""
    result, cost = about.result, about.cost
    # Estimates get four decimals; exact values have more correct digits.
    noise = result.estimate is not None and abs(result.distance) < 1e-3 * result.estimate.standard_error
    shown = figure(0.0 if noise else result.distance) if result.plugin is not None else f"{result.distance:.6g}"
    # The order is that of the page; terminals select by key.
    facts = [Fact("distance", "distance", shown, strong=True)]

    def add(key: str, label: str, text: str) -> None:
        facts.append(Fact(key, label, text))

    unbounded = not_bounded(result, cost)
    if result.before_end is not None:
        add("before_end", "before the end", result.before_end.worded(result.active_share, unbounded))
    if result.confidence_interval is not None:
        low, high, level = result.confidence_interval
        add("interval", "interval", f"{unbounded or figure(low)} to {figure(high)} ({100 * level:g} % confidence)")
    if about.known is not None:
        add("truth", "truth", f"{figure(about.known)}, computed from the chains that generated the data")
    if result.claim is Claim.PROVED:
        least, most = (f"{end:.6g}" for end in result.bounds)
        between = f": between {least} and {most}" if least != most else ""
        add("proved", "proved", f"to {result.bounds.high - result.bounds.low:.1g}{between}")
    if result.claim is Claim.NOTHING:
        add("proved", "proved", f"no error bound after {result.n_steps:,} steps")
    elif (before := before_correction(result)) is not None:
        add("before", *before)
    if result.counted is not None:
        add("counted", "same data", f"{figure(result.counted)} between the chains estimated from the transitions")
    if result.continuous is None:
        add("method", "method", describe(result.method))
    else:
        for label, text in continuous_facts(result.continuous, result.plugin, result, about.names):
            add(label, label, text)
    add("cost", "cost", label_text(about.cost_name, 60) if about.cost_name else "a matrix")
    add("clock", "clock", str(result.clock))
    if cost is not None and result.continuous is None:
        least, most = figure(cost.min()), figure(cost.max())
        total = result.clock.name == "total"
        label, text = (
            ("cost of a step", "{} to {}")
            if total
            else ("possible distances", "{} (most alike) to {} (most different)")
        )
        add("possible", label, text.format(least, most))
    if result.n_samples:
        add("data", "data", f"{result.samples[0]:,} + {result.samples[1]:,} transitions")
    if result.estimate is not None:
        e = result.estimate
        if e.mix is not None:
            add("mix", "strata", f"{mix_in_words(result.distance, e.mix)} ({e.strata} strata)")
        add("error", "standard error", figure(e.standard_error))
        if result.continuous is None:
            add("units", "resampled", f"{e.units}, permuted and halved; {e.n_solves} exact solves")
        if e.expected is not None and e.pvalue is not None:
            expected = f"{figure(e.expected)} on average between recordings of one process (p = {e.pvalue:.3g})"
            add("equal", "if equal", expected)
    if result.estimand != "process":
        add("estimand", "what is compared", "what follows what, averaged over visits: the data have memory")
    add("status", "status", f"{result.status.value}: {result.message}")
    add("work", "work", f"{seconds(result.seconds)}, {result.n_steps:,} steps, {result.status.value}")
    return facts


def _differences(about: ReportInput, shares: Contributions | None) -> list[Item]:
    """The largest contributions to the distance, one sentence each."""
    if shares is None:
        return []
    body: list[Item] = []
    if shares.transitions:
        names = shortened(about.names[0], 40), shortened(about.names[1], 40)
        steps = [
            (Bold(shortened(t.state)), " is followed by ", Bold(shortened(t.next_state)), f" {more_or_less(t, names)}",
             *_mark(about, t.marked))
            for t in shares.transitions[:_TOP]
        ]  # fmt: skip
        body += ["Transitions with the largest contributions:", Bullets(steps)]
    if shares.pairs:
        lines = [_pair(about, pair) for pair in shares.pairs[:_TOP]]
        body += ["Pairs of states with the largest contributions, when the two are run side by side:", Bullets(lines)]
    if body and about.result.claim in (Claim.ESTIMATED, Claim.APPROXIMATE):
        estimated = "Shares are those of the estimated chains"
        tested = f"{_SIGNIFICANT} {estimated}, before the correction for bias."
        body.append(Remark(tested if about.judged else f"{estimated}; their significance is not known."))
    return body


def _pair(about: ReportInput, pair: PairShare) -> Line:
    first, second = (shortened(name, 40) for name in about.names)
    price = "" if by_labels(about.result, about.cost) else f", at a cost of {figure(pair.cost)} each time"
    share = f"{about.time(pair.occupancy)} of the time{price}, {percent(pair.amount / about.total)} of the distance"
    return (
        f"{first} is in ", Bold(shortened(pair.x)), f" while {second} is in ", Bold(shortened(pair.y)), f": {share}",
        *_mark(about, pair.marked),
    )  # fmt: skip


def _mark(about: ReportInput, marked: bool) -> tuple[str, ...]:
    return (" ", Mark("significant") if marked else Tag("not significant")) if about.judged else ()


def _correspondence(about: ReportInput) -> list[Item]:
    """Corresponding states, the most visited first."""
    result, partners, everyone = about.result, about.partners(_PARTS), about.result.matches()
    shared = set(result.states_x) & set(result.states_y)
    # Only among shared names: others cannot correspond to themselves.
    namesakes = [m.x == m.y for m in everyone if m.x in shared]
    body: list[Item] = []
    if result.continuous is not None:
        cells = result.continuous.cells
        centres = ", ".join(shortened(name, 30) for name in cells.names[:6])
        plane = ", in the first two coordinates" if len(cells.names) > 2 else ""
        caption = f"Size: time spent in a cell{plane}. Lines lead to the mean of the corresponding cells."
        themselves = f"{sum(namesakes)} of {len(namesakes)} correspond to themselves"
        body.append(f"States are cells, named by their centres ({centres}); {themselves}.")
        body.append(Picture(partial(svg.cells_in_plane, cells, result.encoder, about.names), caption))
    elif namesakes and about.by_name:
        body.append(f"{sum(namesakes)} of the {len(namesakes)} shared states correspond to the state of the same name.")
    body += [matches(about, partners)]
    body += [Remark(f"The {_PARTS} most visited of {len(everyone):,}.")] if len(everyone) > _PARTS else []
    if result.confidence_interval is not None and any(isinstance(m, MatchInterval) for m in partners):
        ends = f"In brackets: {100 * result.confidence_interval.level:g} % confidence intervals."
        body.append(Remark(f"{ends} Not determined: another state may be as frequent."))
    if result.maps.at_noise_level:
        body.append(Remark("Solved to the level of the sampling noise."))
    return body


def matches(about: ReportInput, partners: Sequence[Match | MatchInterval]) -> Table:
    """These corresponding states."""
    rows = [(shortened(m.x), shortened(m.y), _matched(m), about.time(m.occupancy)) for m in partners]
    first, second = (shortened(name, 40) for name in about.names)
    aligned = "lllr" if any(isinstance(m, MatchInterval) for m in partners) else "llrr"
    return Table((f"state in {first}", f"state in {second}", "probability", "time"), rows, aligned)


def _matched(match: Match | MatchInterval) -> str:
    if isinstance(match, Match):
        return percent(match.probability)
    number, low, high = map(percent, (match.probability, match.low, match.high))
    return f"{number} ({low} to {high})" if match.determined else "not determined"


def pairs(about: ReportInput, shares: Contributions | None) -> Table:
    """Contributions of pairs of states, time together times cost; with standard errors if `shares` has them."""
    first, second = (shortened(name, 40) for name in about.names)
    head = (f"in {first}", f"while in {second}", "of the distance", "time", "amount", "error", "significant", "cost")
    # Standard errors are known for the largest pairs only.
    known = {(p.x, p.y): p for p in shares.pairs} if shares is not None else {}
    parts = [] if about.cost is None else contributions(about.result, about.cost, most=_PARTS)
    rows = [
        (shortened(c.x), shortened(c.y), percent(c.amount / about.total), about.time(c.mass), decimals(c.amount),
         *_error(known.get((c.x, c.y))), decimals(c.cost))
        for c in parts
    ]  # fmt: skip
    table = Table(head, rows, "llrrrrlr")
    return table if about.judged and known else table.without("error", "significant")


def transitions(about: ReportInput, shares: Contributions) -> Table:
    """Contributions of transitions: difference of probabilities times the sensitivity of the distance."""
    rows = [
        (shortened(t.state), shortened(t.next_state), arrow(*percents(t.probability_x, t.probability_y)),
         decimals(t.amount), *_error(t))
        for t in shares.transitions
    ]  # fmt: skip
    title = f"By transition: {arrow(*(shortened(name, 30) for name in about.names))}"
    table = Table(("from", "to", "of steps from there", "amount", "error", "significant"), rows, "lllrrl", title)
    return table if about.judged else table.without("error", "significant")


def _error(share: PairShare | TransitionShare | None) -> tuple[str, str]:
    return ("", "") if share is None else (decimals(share.standard_error), "yes" if share.marked else "no")


def _contributions(about: ReportInput, shares: Contributions | None) -> Iterator[Item]:
    """All contributions: pairs of states with standard errors, joint steps, transitions."""
    if about.cost is None:
        return
    table = pairs(about, shares)
    if not table.rows:
        yield Remark("None: no pair of states with a positive cost is visited.")
        return
    yield "Time spent together in a pair of states, times the cost of that pair."
    yield table
    joint = [
        (*map(shortened, (c.x, c.y, c.next_x, c.next_y)), percent(c.amount / about.total))
        for c in contributions(about.result, about.cost, steps=True)
    ]
    yield Table((*table.head[:2], "then", "and", "of the distance"), joint, "llllr", "By joint step")
    if shares is not None and shares.transitions:
        note = "Difference of the transition probabilities, times the sensitivity of the distance to them."
        yield transitions(about, shares)
        yield Remark(f"{note} {_SIGNIFICANT}" if about.judged else note)


def _maps(about: ReportInput) -> Iterator[Item]:
    """Three heat maps: time together, encoder, decoder."""
    result = about.result
    first, second = (shortened(name, 40) for name in about.names)
    i, j = _most_visited(result.state_law, _MAP_STATES)
    n, m = len(result.states_x), len(result.states_y)
    if (len(i), len(j)) != (n, m):
        yield Remark(f"The pictures show the {len(i)} and {len(j)} most visited of {n} and {m} states.")
    if result.maps.at_noise_level:
        yield Remark(
            "Encoder and decoder are solved to the level of the sampling noise; the map of time together is exact "
            "for the estimated chains and so includes the noise."
        )
    x, y = [result.states_x[k] for k in i], [result.states_y[k] for k in j]
    # Square roots, so that rarely visited pairs are still visible.
    root = np.sqrt(result.state_law[np.ix_(i, j)])
    for title, description, values, rows, columns in (
        ("Together", f"time spent in each pair (root scale), {first} down, {second} across", root, x, y),
        ("Encoder", f"the states of {second} that each state of {first} corresponds to",
         result.encoder[np.ix_(i, j)], x, y),
        ("Decoder", f"the states of {first} that each state of {second} corresponds to",
         result.decoder[np.ix_(j, i)], y, x),
    ):  # fmt: skip
        draw = partial(svg.heat_map, values, rows, columns, title=title)
        yield Picture(draw, f"{title}: {description}", beside=max(len(i), len(j)) <= 16)


def _most_visited(occupancy: Floats, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The most visited states of each side, in their original order."""
    chosen = (np.sort(np.argsort(-occupancy.sum(axis=axis), kind="stable")[:most]) for axis in (1, 0))
    # A map needs at least one row, even if no state was visited.
    i, j = (c if len(c) else np.arange(1) for c in chosen)
    return i, j


def _graphs(about: ReportInput) -> Iterator[Item]:
    """Both chains as graphs; a state of Y has the colour of its most frequent partner in X."""
    result = about.result
    if result.plan is None:
        return
    i, j = _most_visited(result.state_law, _GRAPH_STATES)
    # Colours by state of X, which states of Y look up through their partner.
    palette = dict(zip(i.tolist(), svg.colours(len(i)), strict=True))
    partner = result.decoder.argmax(axis=1)
    yield (
        "The size of a dot is the time spent in a state, the width of a line the frequency of a step. States of equal "
        "colour correspond to each other."
    )
    for name, steps, chosen, states, fills in (
        (about.names[0], result.plan.marginal_x(), i, result.states_x, list(palette.values())),
        (about.names[1], result.plan.marginal_y(), j, result.states_y,
         # Partners outside of the drawn states are grey.
         [palette.get(int(partner[k]), "var(--soft)") for k in j]),
    ):  # fmt: skip
        flow, labels = steps.toarray()[np.ix_(chosen, chosen)], [states[k] for k in chosen]
        draw = partial(svg.graph, flow, labels, fills, title=f"states of {name}")
        yield Picture(draw, shortened(name), beside=True)


def _data(about: ReportInput) -> list[Item]:
    """The data: sizes, states of one side only, visits."""
    sides = [(shortened(name, 40), p) for name, p in zip(about.names, (about.x, about.y), strict=True) if p is not None]
    if not sides:
        return []
    sizes: list[tuple[str, Callable[[ChainOrData], str]]] = [
        ("states", lambda p: f"{p.n_states:,}"),
        ("transitions", lambda p: f"{p.n_transitions:,}" if isinstance(p, Data) else "known chain"),
        ("sequences", lambda p: f"{p.n_episodes:,}" if isinstance(p, Data) and p.n_episodes else "-"),
    ]
    rows = [(label, *(size(p) for _, p in sides)) for label, size in sizes]
    body: list[Item] = [Table(("", *(name for name, _ in sides)), rows, "l" + "r" * len(sides))]
    for (name, process), (_, other) in zip(sides, sides[::-1], strict=True) if len(sides) == 2 else ():
        shared = set(other.states)
        only = [label_text(s, 40) for s in process.states if s not in shared]
        more = f" and {len(only) - 30} more" if len(only) > 30 else ""
        body += [f"Only in {name}: {', '.join(only[:30])}{more}."] if only else []
    for side, (name, samples) in enumerate(sides):
        if isinstance(samples, Data):
            order = np.argsort(-samples.visits, kind="stable")[:_GRAPH_STATES]
            shown = f" (the {len(order)} most visited states)" if len(order) < samples.n_states else ""
            draw = partial(
                svg.bars, samples.visits[order].astype(float), [samples.states[k] for k in order],
                title="visits", unit="", classes="bar" if side == 0 else "bar other",
            )  # fmt: skip
            body.append(Picture(draw, f"Steps taken from each state of {name}{shown}", beside=True))
    return body


def _run(result: Result) -> list[Item]:
    """The distance over the steps of the solver."""
    if result.continuous is not None:  # the distance does not come from the cells that were solved
        return []
    steps, values = result.trace.get("step"), result.trace.get("distance")
    if steps is None or values is None or np.isfinite(values).sum() < 2:
        return []
    # 200 points are as many as the picture can resolve.
    places = np.unique(np.linspace(0, len(values) - 1, 200).astype(int))
    explanation = {
        Claim.PROVED: "The distance after each step; the band shows the proved bounds.",
        Claim.ESTIMATED: "The distance of the estimated chains after each step; the band shows the proved bounds.",
        Claim.NOTHING: "The distance after each step.",
    }[result.claim]
    if result.method == "somcot":
        explanation = "The average over all steps so far; the last point, the distance, excludes the first steps."
    draw = partial(
        svg.trace, np.asarray(steps, float)[places], np.asarray(values, float)[places],
        band=None if result.claim is Claim.NOTHING else result.bounds, title="the distance after each step",
    )  # fmt: skip
    return [explanation, Picture(draw)]


def _definition(about: ReportInput) -> list[Item]:
    """The definition, the reference, and the command for the same result."""
    text = definition(about.result)
    return [text] if about.command is None else [text, "To reproduce this result:", Code(about.command)]
