"""A result in sentences, for reports, terminals and notebooks, and its contributions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from somcot.cells import Continuous
from somcot.clocks import CLOCKS
from somcot.contributions import Findings, StateChange, TransitionShare
from somcot.costs import check_cost
from somcot.inference.row_tests import rows_pvalue
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_flag, check_kind, check_names
from somcot.plumbing.notes import Spelling, arranged, codes, python_spelling
from somcot.plumbing.text import figure, label_text, lower_end, number_of, percent, percents
from somcot.result import Bounds, Claim, Result

__all__ = [
    "Contribution",
    "before_correction",
    "by_labels",
    "certainty",
    "continuous_facts",
    "contributions",
    "cost_of",
    "definition",
    "findings_in_words",
    "headline",
    "map_in_words",
    "meaning",
    "merge_notes",
    "mix_in_words",
    "more_or_less",
    "not_bounded",
    "possible",
    "sentence",
    "sentence_of_test",
    "share_of_time",
    "short",
    "span",
    "steps_that_matter",
]


# --- Sentences, which claim no more than the result: proved, estimated or neither.

_LEVEL = 0.05  # of the permutation test, the same as that of the contributions
_TEST = "A permutation test of the transitions"  # it compares frequencies and ignores the cost
_TEST_OF_UNITS = "A permutation test"  # the one behind the interval
# The conclusion, by whether the test rejects and whether the interval excludes the least possible distance.
_AGREES = {
    (True, True): "agrees: recordings as different as these are unlikely under one process {p}.",
    (True, False): "does find a difference {p}, but its size remains uncertain.",
    (False, True): "does not find a difference, though {p}: treat this as inconclusive.",
    (False, False): "does not find a difference either {p}.",
}
# The same if single states or steps differ significantly, which the distance as a whole may not show.
_NOT_THE_WHOLE = "of the distance as a whole is not significant {p}: the differences listed here are too rare for it."


def cost_of(result: Result, cost: ArrayLike | None = None) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None:
    """The cost argument, or the cost stored in the result."""
    if cost is not None:
        return check_cost(cost, len(result.states_x), len(result.states_y))
    return None if result.makeup is None else result.makeup.cost


def by_labels(result: Result, cost: ArrayLike | None) -> bool:
    """Whether the cost is 0 for states of the same name and 1 otherwise, so that distances are shares of time."""
    table = cost_of(result, cost)
    if table is None or not np.isin(table, (0.0, 1.0)).all():
        return False
    column = {label: j for j, label in enumerate(result.states_y)}
    alike = [(i, column[label]) for i, label in enumerate(result.states_x) if label in column]
    by_name = np.ones_like(table)
    if alike:
        by_name[tuple(np.array(alike).T)] = 0.0
    # With no shared name a cost of all ones would match by accident.
    return bool(alike) and np.array_equal(table, by_name)


def _is_either_or(result: Result, cost: ArrayLike | None) -> bool:
    """Whether the cost is either 0 or 1, so that distances are shares of time."""
    table = cost_of(result, cost)
    return table is not None and bool(np.isin(table, (0.0, 1.0)).all()) and table.max() == 1.0


def possible(result: Result, cost: ArrayLike | None = None) -> tuple[float, float] | None:
    """The least and the largest possible distance; None if the cost is unknown or constant."""
    table = cost_of(result, cost)
    if table is None or table.size == 0 or table.min() == table.max() or result.clock.name == "total":
        return None
    if result.continuous is not None:  # the cells lie within the recordings, so their costs do not bound the distance
        return None
    # A distance corrected for bias may lie below the smallest cost.
    return float(min(table.min(), result.distance)), float(table.max())


def span(result: Result) -> Bounds:
    """The confidence interval or the proved bounds; the distance itself if there are neither."""
    if result.confidence_interval is not None:
        return Bounds(*result.confidence_interval[:2])
    return result.bounds if result.claim is Claim.PROVED else Bounds(result.distance, result.distance)


class Headline(NamedTuple):
    """The number of the first sentence with its ends, and whether it is that of `Result.before_end`."""

    distance: float
    low: float
    high: float
    before_end: bool


def headline(result: Result) -> Headline:
    """The number of the first sentence: of the steps before both sequences have ended, if they end."""
    ended = result.before_end
    if ended is None:
        return Headline(result.distance, *span(result), before_end=False)
    share = result.active_share or 1.0
    low, high = (min(end / share, ended.distance) for end in span(result)) if ended.low is None else ended[1:]
    return Headline(ended.distance, low or 0.0, high or 0.0, before_end=True)


def meaning(
    result: Result,
    cost: ArrayLike | None = None,
    names: tuple[str, str] = ("X", "Y"),
    *,
    cost_name: str | None = None,
    state_name: str | None = None,
) -> str:
    """The meaning of the distance, in one sentence.

    Examples
    --------
    >>> import somcot
    >>> x, y = (somcot.MarkovChain([[p, 1 - p], [0.5, 0.5]], states=["home", "cart"]) for p in (0.9, 0.8))
    >>> result = somcot.distance(x, y, somcot.costs.labels(x.states, y.states), discount=0.9)
    >>> meaning(result, names=("May", "June"), state_name="page")
    'On 10.6 % of the steps that matter, June is in a different state (page) than May.'
    """
    # Estimates are rounded claims: "about".
    check_kind("result", result, Result)
    names = cast("tuple[str, str]", check_names("names", names, 2))
    about, clock = "" if result.claim is Claim.PROVED else "about ", result.clock
    main = headline(result)
    distance, share_of, during = main.distance, clock.share, clock.during
    if main.before_end:
        share_of, during = (
            "the steps before both sequences have ended",
            "Over the steps before both sequences have ended",
        )
    if by_labels(result, cost):
        where = (
            f"in a different state{f' ({state_name})' if state_name not in (None, '', 'state') else ''} than {names[0]}"
        )
        if clock.name == "total":
            return f"{clock.during}, {names[1]} is {where} for {about}{figure(result.distance)} steps on average."
        # "about less than" would be said otherwise.
        share = "none" if distance <= 0.0 and not about else about + percent(distance).replace("< ", "less than ")
        after = f" {_with_the_end(result, percent)}" if main.before_end else ""
        return f"On {share.replace('about less', 'less')} of {share_of}, {names[1]} is {where}.{after}"
    ends = possible(result, cost)
    if result.continuous is not None:
        text = f"{clock.during}, {names[0]} and {names[1]} differ by {about}{_in_units(result, cost_name)} on average"
        seen = result.continuous.route == "map" and result.distance > 0.0
        return f"{text}: {map_in_words(result, names)}." if seen else f"{text}."
    # Costs by name carry their column, as in "attribute:size".
    kind, _, column = (cost_name or "").partition(":")
    if kind == "attribute" and column and _is_either_or(result, cost):
        share = "none" if distance <= 0.0 and not about else about + percent(distance).replace("< ", "less than ")
        after = f" {_with_the_end(result, percent)}" if main.before_end else ""
        of = share_of if main.before_end else "the steps that matter"
        return f"On {share.replace('about less', 'less')} of {of}, {names[1]} differs in {column!r}.{after}"
    differ = f"differ in {column!r} by" if kind in ("reward", "attribute") and column else "differ by"
    how = "in total, on average" if clock.name == "total" else "on average"
    text = f"{during}, {names[0]} and {names[1]} {differ} {about}{figure(distance)} {how}"
    after = f" {_with_the_end(result, figure)}" if main.before_end else ""
    if ends is None:
        return f"{text}.{after}"
    if ends[0] != 0.0:
        return f"{text}, where {figure(ends[0])} to {figure(ends[1])} is possible.{after}"
    return f"{text}: {percent(distance / ends[1])} of the largest possible difference, {figure(ends[1])}.{after}"


def _with_the_end(result: Result, shown: Callable[[float], str]) -> str:
    """The discounted distance, which counts the time after the end as equal."""
    return (
        f"With the time after the end, in which they no longer differ, it is {shown(result.distance)} ({result.clock})."
    )


def map_in_words(result: Result, names: tuple[str, str] = ("X", "Y")) -> str:
    """How y behaves compared with x, for recordings of numeric vectors; empty without a map."""
    found = None if result.continuous is None else result.continuous.map
    if found is None:
        return ""
    return found.words.replace("y behaves as M x", f"{names[1]} behaves as M times {names[0]}", 1).replace(
        "y behaves as x", f"{names[1]} behaves as {names[0]}", 1
    )


def _in_units(result: Result, cost_name: str | None) -> str:
    """A distance between numeric vectors, with its unit if known."""
    squared = "squared " if cost_name is not None and cost_name.startswith("sqeuclidean") else ""
    if cost_name is not None and "standard deviations" in cost_name:
        return f"{figure(result.distance)} {squared}standard deviations"
    return f"{figure(result.distance)}{' (squared distances)' if squared else ''}"


def steps_that_matter(result: Result) -> str:
    """An explanation of the clock."""
    return f"{result.clock.explained} The two are run side by side so that they differ as little as possible."


def definition(result: Result) -> str:
    """The definition of the distance, and the reference."""
    formula = f"{CLOCKS[result.clock.name].least}, where c is the cost,"
    if result.clock.name == "discount":
        formula = "(1 - discount) · E[Σ discountᵗ · cost(Xₜ, Yₜ)]"
    from_data = (
        "From data it is computed for the estimated chains; with a discount it is corrected for their upward bias, and "
        "has a confidence interval for the true distance. "
    )
    if result.continuous is not None:
        from_data = "Here it is estimated from recordings of real vectors; cells only show what corresponds to what. "
    return (
        f"The distance is the least value of {formula} over all couplings of the two processes in which neither "
        f"depends on the future of the other (bicausal couplings; bisimulation metric). {from_data}"
        "Calo, Jonsson, Neu, Schwartz, Segovia-Aguas: Distances for Markov chains from sample streams (2025)."
    )


def share_of_time(result: Result, mass: float) -> float:
    """The share of the weighted time; for a total cost, the share of the expected visits."""
    return mass / (float(result.state_law.sum()) or 1.0) if result.clock.name == "total" else mass


def certainty(result: Result, cost: ArrayLike | None = None) -> str:
    """The certainty of the distance: its proved bounds, its interval, or that it has neither."""
    check_kind("result", result, Result)
    if result.claim is Claim.PROVED:
        return f"Both processes are known, and the number is proved to {result.bounds.high - result.bounds.low:.1g}."
    if result.claim is Claim.NOTHING:
        return f"This is the value after {result.n_steps:,} steps, without an error bound."
    if result.confidence_interval is None:
        if result.claim is Claim.APPROXIMATE:
            return "This is an approximation without an error bound."
        why = "no interval was requested" if result.discount < 1.0 else "intervals are not available with this clock"
        return f"This is estimated from recordings; {why}, so its error is not known."
    level = result.confidence_interval.level
    _, low, high, _ = headline(result)
    shown = percent if by_labels(result, cost) else figure
    where = f"lies between {shown(low)} and {shown(high)}"
    if above := not_bounded(result, cost):
        return (
            f"With {100 * level:g} % confidence the true value is {above} and at most {shown(high)}: the test rejects "
            '"no difference", but the data do not bound the distance away from it.'
        )
    # Both ends round to the same text, which would read as an interval of width 0.
    if shown(low) == shown(high) and shown(high).startswith("< "):  # both round to the same
        where = f"is {shown(high).replace('< ', 'below ')}"
    text = f"With {100 * level:g} % confidence the true value {where}"
    if result.counted is not None and "not-converged" in codes(result.notes):
        text = f"The run has not converged: its own transitions give {shown(result.counted)}. {text}"
    if _differs(result, cost):
        return f"{text}: the difference is statistically significant."
    if result.findings().marked:
        return f"{text}, so its size is uncertain; the differences listed below are statistically significant."
    return f"{text}, which includes no difference."


def _differs(result: Result, cost: ArrayLike | None) -> bool:
    """Whether the interval excludes the least possible distance."""
    ends = possible(result, cost)
    # The smallest possible distance is not 0 for costs with a positive minimum.
    # Without a known range, distances are at least 0.
    least = 0.0 if ends is None else ends[0]
    return result.confidence_interval is not None and result.confidence_interval.low > least


def sentence_of_test(result: Result, cost: ArrayLike | None = None) -> str:
    """The conclusion of the permutation test of "the same process"; empty without a test."""
    if result.estimate is not None and result.estimate.pvalue is not None:
        pvalue, level = result.estimate.pvalue, _LEVEL
        if result.confidence_interval is not None:  # the lower end is above the minimum exactly if this test rejects
            level = 0.5 - 0.5 * result.confidence_interval.level + 1e-9
        return f"{_TEST_OF_UNITS} {_agrees(result, cost, pvalue <= level).format(p=f'(p = {pvalue:.3g})')}"
    rows = rows_pvalue(result) if result.n_samples and result.continuous is None else None
    if rows is None:
        return ""
    return f"{_TEST} {_agrees(result, cost, rows <= _LEVEL).format(p=f'(p = {rows:.3g})')}"


def _agrees(result: Result, cost: ArrayLike | None, rejected: bool) -> str:
    differs = _differs(result, cost)
    return _NOT_THE_WHOLE if not (rejected or differs) and result.findings().marked else _AGREES[rejected, differs]


_NAMED = 3  # new or vanished states in a sentence


def findings_in_words(found: Findings, names: tuple[str, str]) -> str:
    """What is new, what has vanished, and how much else differs significantly; empty if nothing does.

    Examples
    --------
    >>> row = StateChange("error", 0, 44, 0, 32, 0.0, 0.01, 1e-9, 1e-8, True, "new")
    >>> findings_in_words(Findings((row,), (), (500, 400)), ("May", "June"))
    'New in June: error (44 visits, 8.0 % of the sequences).'
    >>> findings_in_words(Findings((row._replace(visits_x=9, kind="more"),), (), (500, 400)), ("May", "June"))
    '1 state or step differs significantly: error.'
    """
    said, named = [], 0
    kinds = (("new", f"New in {names[1]}", 1), ("vanished", f"No longer in {names[1]}", 0))
    for kind, text, side in kinds:
        states = [row for row in found.states if row.marked and row.kind == kind]
        whole = {row.state for row in found.states if row.kind == kind}
        # Steps of a new state are no news of their own.
        steps = [s for s in found.largest(len(found.steps)) if s.marked and s.kind == kind]
        steps = [s for s in steps if not {s.state, s.next_state} & whole]
        listed = [_visited(row, found, side) for row in states[:_NAMED]]
        if steps:
            arrows = [f"{label_text(s.state, 60)} \u2192 {label_text(s.next_state, 60)}" for s in steps[:_NAMED]]
            listed.append(f"the step{'s' if len(arrows) > 1 else ''} {', '.join(arrows)}")
        if listed:
            more = len(states) + len(steps) - len(states[:_NAMED]) - len(steps[:_NAMED])
            said.append(f"{text}: {', '.join(listed)}{f' and {more} more' if more else ''}.")
        named += len(states) + len(steps)
    rest = found.marked - named
    if rest:
        what = f"state{'s' * (rest > 1)} {'and' if rest > 1 else 'or'} step{'s' * (rest > 1)}"
        most = "" if said else f"{': ' if rest == 1 else ', most of all '}{_first_marked(found)}"
        said.append(f"{rest} {'other ' * bool(said)}{what} differ{'s' * (rest == 1)} significantly{most}.")
    return " ".join(said)


def _first_marked(found: Findings) -> str:
    """The significant step whose share differs most, or the first significant state if there is no such step."""
    for step in (*found.largest(1), *found.steps):  # `largest` leaves out steps with equal shares
        if step.marked:
            return f"{label_text(step.state, 60)} \u2192 {label_text(step.next_state, 60)}"
    return label_text(next(row.state for row in found.states if row.marked), 60)


def _visited(row: StateChange, found: Findings, side: int) -> str:
    n = (row.visits_x, row.visits_y)[side]
    units = (row.sequences_x, row.sequences_y)[side]
    if n is None or units is None or found.sequences is None:
        return label_text(row.state, 60)
    share = percent(units / found.sequences[side])
    return f"{label_text(row.state, 60)} ({number_of(n, 'visit')}, {share} of the {found.units})"


def more_or_less(step: TransitionShare, names: tuple[str, str]) -> str:
    """The direction in which the probability of a step differs.

    Examples
    --------
    >>> step = TransitionShare("cart", "paid", 0.02, 0.001, True, 0.5, 0.25)
    >>> more_or_less(step, ("May", "June"))
    'less often in June: 25.0 % instead of 50.0 %'
    """
    often = "more" if step.probability_y > step.probability_x else "less"
    x, y = percents(step.probability_x, step.probability_y)
    return f"{often} often in {names[1]}: {y} instead of {x}"


def sentence(result: Result, names: tuple[str, str] = ("X", "Y")) -> str:
    """The distance and its certainty, in one sentence.

    Examples
    --------
    >>> import somcot
    >>> walk = somcot.random_walk(3)
    >>> sentence(somcot.distance(walk, walk, [[0.0] * 3] * 3, discount=0.9), ("May", "June"))
    'The distance between May and June is 0.0000 (proved to ...).'
    """
    check_kind("result", result, Result)
    names = cast("tuple[str, str]", check_names("names", names, 2))
    text = f"The distance between {names[0]} and {names[1]} is"
    number = figure(result.distance)
    if result.claim is Claim.PROVED:
        return f"{text} {number} (proved to {result.bounds.high - result.bounds.low:.1g})."
    if result.claim is Claim.NOTHING:
        return f"{text} {number} after {result.n_steps:,} steps, without an error bound."
    text += f" estimated at {number}"
    if result.confidence_interval is None:
        why = "there is no error bound" if result.claim is Claim.APPROXIMATE else "no interval was requested"
        return f"{text}; {why}, so its error is not known."
    low, high, level = result.confidence_interval
    least = not_bounded(result) or figure(low)
    return f"{text}. With {100 * level:g} % confidence the true distance lies between {least} and {figure(high)}."


def before_correction(result: Result) -> tuple[str, str] | None:
    """The name and the text of the distance of the estimated chains with its proved error; None without data."""
    if result.plugin is None or result.continuous is not None:  # cells do not enter the distance
        return None
    name = "estimated chains" if result.estimate is None else "before correction"
    shown = figure(result.plugin)
    return name, f"{shown}, proved to {result.bounds.high - result.bounds.low:.1g} for the estimated chains"


def not_bounded(result: Result, cost: ArrayLike | None = None) -> str:
    """The text of a lower end that only says that the test rejects, such as "> 0"; empty for other intervals."""
    ends = possible(result, cost)
    if ends is None or result.confidence_interval is None:
        return ""
    text = lower_end(result.confidence_interval.low, *ends)
    return text if text.startswith("> ") else ""


def mix_in_words(distance: float, mix: float | None) -> str:
    """How much of the distance without strata is behaviour, and how much the mix of strata; empty without strata.

    Examples
    --------
    >>> mix_in_words(0.09, 0.05)
    'of 0.1400, 0.0900 is behaviour and 0.0500 the mix of strata'
    >>> mix_in_words(0.09, -0.02)
    '0.0900 is behaviour, of which the mix of strata would hide 0.0200'
    >>> mix_in_words(0.09, -3e-17)
    '0.0900 is behaviour, as the mix of strata adds nothing'
    """
    if mix is None:
        return ""
    # Equal mixes differ by rounding errors.
    if abs(mix) <= 1e-9 * max(abs(distance), 1e-300) or mix == 0.0:
        return f"{figure(distance)} is behaviour, as the mix of strata adds nothing"
    if mix < 0.0:
        return f"{figure(distance)} is behaviour, of which the mix of strata would hide {figure(-mix)}"
    return f"of {figure(distance + mix)}, {figure(distance)} is behaviour and {figure(mix)} the mix of strata"


def continuous_facts(
    continuous: Continuous, plain: float | None, result: Result | None = None, names: tuple[str, str] = ("X", "Y")
) -> list[tuple[str, str]]:
    """How a distance between numeric vectors was computed and tested: pairs of a label and a text.

    `plain` is the distance between cells in results of former versions.
    """
    method = continuous.summary(plain)
    if continuous.route == "map" and result is not None:
        method = f"{map_in_words(result, names)}: {figure(result.distance)}"
        if result.confidence_interval is not None:
            low, high, _ = result.confidence_interval
            method += f" [{figure(low)}, {figure(high)}]"
    rows = [("method", method)]
    if continuous.route == "approximate" and continuous.reason:
        rows.append(("reason", continuous.reason))
    if continuous.map is not None and continuous.map.tests:
        agree = "do not reject" if continuous.map.verdict == "conjugate" else "reject"
        listed = ", ".join(f"{name} {p:.2g}" for name, p in continuous.map.tests)
        of = "this map" if continuous.route == "map" else f'"{continuous.map.words}"'
        rows.append(("tests", f"permutations of whole episodes {agree} {of}: {listed}"))
    if continuous.lower_bound:
        rows.append(("at least", f"{figure(continuous.lower_bound)} by discounted moments alone, for any process"))
    return rows


def merge_notes(messages: Iterable[str], names: tuple[str, str], spelling: Spelling = python_spelling) -> list[str]:
    """Notes with the names of x and y, without duplicates, the most important first; see `Note`.

    Examples
    --------
    >>> from somcot.plumbing.notes import Note
    >>> merge_notes([Note("memory-episodes", "x"), "no code", Note("too-alike")], ("May", "June"))[0]
    'the recordings are more alike than independent ones can be; are these the same sessions?'
    """
    return arranged(messages, {"x": names[0], "y": names[1]}, spelling)


def short(names: tuple[str, str], longest: int = 60) -> tuple[str, str]:
    """Both names, shortened, without control characters."""
    first, second = (label_text(name, longest) for name in names)
    return first, second


# --- Contributions of pairs of states and of joint steps.


@dataclass(frozen=True)
class Contribution:
    """A pair of states, or a joint step between pairs, and its share of the distance: mass times cost."""

    x: Hashable
    y: Hashable
    amount: float
    mass: float
    cost: float
    next_x: Hashable | None = None
    next_y: Hashable | None = None


def contributions(result: Result, cost: ArrayLike, *, steps: bool = False, most: int = 12) -> list[Contribution]:
    """Contributions to the distance, largest first: of pairs of states, or of joint steps if `steps` is set.

    Parameters
    ----------
    result : Result
    cost : array_like, shape (n_x, n_y)
        The cost the result was computed with.
    steps : bool
        Split each pair by the next pair; needs ``result.plan``.
    most : int
        The number of contributions to return; all of them sum to the distance of the solved problem.

    Examples
    --------
    >>> import somcot
    >>> cost = [[0.0, 1.0], [1.0, 0.0]]
    >>> result = somcot.distance(somcot.random_walk(2, stay=0.9), somcot.random_walk(2, stay=0.8), cost, discount=0.5)
    >>> [(c.x, c.y, round(c.amount, 4)) for c in contributions(result, cost)]
    [(0, 1, 0.0655), (1, 0, 0.006)]
    """
    check_flag("steps", steps)
    check_kind("result", result, Result)
    table = check_cost(cost, *result.state_law.shape)
    x, y = result.states_x, result.states_y
    if steps:
        if result.plan is None:
            return []
        plan = result.plan
        share = plan.mass * table[plan.x, plan.y]
        return [
            Contribution(
                x[plan.x[e]], y[plan.y[e]], float(share[e]), float(plan.mass[e]), float(table[plan.x[e], plan.y[e]]),
                x[plan.next_x[e]], y[plan.next_y[e]],
            )
            for e in _largest(share, most)
        ]  # fmt: skip
    share = result.state_law * table
    places = [np.unravel_index(k, share.shape) for k in _largest(share.ravel(), most)]
    return [
        Contribution(x[i], y[j], float(share[i, j]), float(result.state_law[i, j]), float(table[i, j]))
        for i, j in places
    ]


def _largest(values: Floats, most: int) -> list[int]:
    order = np.argsort(-values, kind="stable")[:most]
    return [int(k) for k in order if values[k] > 0]
