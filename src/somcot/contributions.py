"""What a distance is made of: estimates, contributions and findings, the records behind methods of `Result`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.clocks import Clock
from somcot.plumbing.arrays import Floats
from somcot.plumbing.html import Mark, Table, card, record_card, shortened
from somcot.plumbing.text import brief_record, decimals, figure, label_text, percent, percents

if TYPE_CHECKING:
    from somcot.result import Result

__all__ = [
    "RECORDS", "BeforeEnd", "ContributionInputs", "Contributions", "Estimate", "Findings", "PairShare", "RowCounts",
    "StateChange", "StepChange", "Tally", "TransitionShare", "Visits", "arrow", "names_count",
]  # fmt: skip


class Estimate(NamedTuple):
    """How an estimate from data was corrected, and how uncertain it is.

    Attributes
    ----------
    gap : float
        Largest possible upward bias of the plug-in: `factor` times `rise`.
    rho : float
        The gap relative to the plug-in.
    standard_error : float
        Standard error of the plug-in: the standard deviation over half-samples.
    saturation : float
        Expected total-variation error of the kernels, accumulated over the horizon; above 3 the data are too few.
    n_solves : number of exact solves
    uncut : float or None
        The corrected value before truncation and case distinctions, for ranking; it may be below the minimum.
    pooled : float or None
        Distance of the kernels after pooling rows that do not differ significantly; None if the states differ.
    equal_rows : float or None
        Share of the testable rows that are judged equal in both processes.
    kept : tuple of float or None
        The share of the difference of each row that was kept, in the order of X's states, the initial distribution
        last. Near 0: no significant difference; 1: a clear difference, or too few data for a test.
    rise, factor : increase of the distance from the data to half-samples, and the factor that makes it the bias
    expected : float or None
        Mean distance of two recordings of the same process, by permutations; None if they cannot be permuted.
    pvalue : float or None
        Of "the same process", by the same permutations: at most 0.05 exactly if the 90 % interval excludes the minimum.
    design_effect : float
        Variance of the rows relative to independent transitions: above 1 for sequences with memory.
    units : what was permuted and halved: "sequences", "blocks" or "transitions"
    mix, strata : what the mix of strata would add to the distance, and the number of strata; None without
    """

    gap: float
    rho: float
    standard_error: float
    saturation: float
    n_solves: int
    uncut: float | None = None
    pooled: float | None = None
    equal_rows: float | None = None
    kept: tuple[float, ...] | None = None
    rise: float | None = None
    factor: float | None = None
    expected: float | None = None
    pvalue: float | None = None
    design_effect: float = 1.0
    units: str = "transitions"
    mix: float | None = None
    strata: int | None = None

    def __repr__(self) -> str:
        return brief_record(self)

    def _repr_html_(self) -> str:
        return record_card(self)


class BeforeEnd(NamedTuple):
    """A distance and the ends of its interval (None without one) per step before both sequences have ended."""

    distance: float
    low: float | None
    high: float | None

    def worded(self, share: float | None, least: str = "") -> str:
        """The numbers as text; `least` is a lower end that is not a number, such as "> 0".

        Examples
        --------
        >>> BeforeEnd(0.25, 0.15, 0.34).worded(0.6)
        '0.2500, 0.1500 to 0.3400: divided by 60.0 %, the active share'
        """
        ends = "" if self.low is None or self.high is None else f", {least or figure(self.low)} to {figure(self.high)}"
        return f"{figure(self.distance)}{ends}: divided by {percent(share or 1.0)}, the active share"


class PairShare(NamedTuple):
    """Contribution of a pair of states to the distance: its occupancy times its cost.

    `marked`: statistically significant at a false discovery rate of 5 %.
    """

    x: Hashable
    y: Hashable
    amount: float
    standard_error: float
    marked: bool
    occupancy: float
    cost: float


class TransitionShare(NamedTuple):
    """Contribution of a transition: derivative of the distance times the difference of its probabilities."""

    state: Hashable
    next_state: Hashable
    amount: float
    standard_error: float
    marked: bool
    probability_x: float
    probability_y: float


class Contributions(NamedTuple):
    """Contributions to a distance, largest first; ``print`` shows a table, * marks significant ones.

    Attributes
    ----------
    pairs : tuple of PairShare
        The contributions of all pairs sum to the distance of the estimated (or known) chains.
    transitions : tuple of TransitionShare
        Transitions from states that both processes share. Empty if equal labels do not denote the same state, such as
        node numbers of two graphs: if states with equal labels cost more than half the mean cost of random pairs.
    """

    pairs: tuple[PairShare, ...]
    transitions: tuple[TransitionShare, ...]

    def __repr__(self) -> str:
        # Pairs and transitions are tested separately; the total is for the summary only.
        marked = sum(pair.marked for pair in self.pairs) + sum(step.marked for step in self.transitions)
        return f"Contributions({len(self.pairs)} pairs, {len(self.transitions)} transitions, {marked} marked)"

    def _repr_html_(self) -> str:
        pairs = [
            (label_text(p.x, 40), label_text(p.y, 40), *_numbers(p), percent(p.occupancy), decimals(p.cost))
            for p in self.pairs
        ]
        steps = [
            # The last two fields are the probabilities in X and Y.
            (label_text(t.state, 40), label_text(t.next_state, 40), *_numbers(t), *map(percent, t[-2:]))
            for t in self.transitions
        ]
        common = ("amount", "error", "clear")
        return card(
            "Contributions", (),
            Table(("in X", "in Y", *common, "time", "cost"), pairs, "llrrlrr", "Pairs of states"),
            Table(("from", "to", *common, "in X", "in Y"), steps, "llrrlrr", "Transitions"),
            sub="clear: statistically significant, at a false discovery rate of 5 %",
        )  # fmt: skip

    def __str__(self) -> str:
        head = f"{'in X while in Y':<42}{'amount':>10}{'error':>10}{'time':>9}{'cost':>9}"
        lines = [head] + [_line(f"{p.x!s} / {p.y!s}", p, p.occupancy, p.cost) for p in self.pairs]
        head = f"{'transition':<42}{'amount':>10}{'error':>10}{'in X':>9}{'in Y':>9}"
        steps = [_line(f"{t.state!s} -> {t.next_state!s}", t, *t[-2:]) for t in self.transitions]
        return "\n".join([*lines, "", head, *steps] if steps else lines)


def _numbers(share: PairShare | TransitionShare) -> tuple[str, str, str]:
    return decimals(share.amount), decimals(share.standard_error), "yes" if share.marked else ""


def _line(name: str, share: PairShare | TransitionShare, *more: float) -> str:
    # One character, so that columns align without colour.
    mark = "*" if share.marked else " "
    # Names are cut to 40 characters so that the columns stay aligned.
    return f"{name[:40]:<41}{mark}{share.amount:>10.4g}{share.standard_error:>10.2g}" + "".join(
        f"{number:>9.3g}" for number in more
    )


class StateChange(NamedTuple):
    """A state in both recordings: X before, Y after.

    Attributes
    ----------
    state : hashable
    visits_x, visits_y : int or None
        Events in the state; None for a known chain.
    sequences_x, sequences_y : int or None
        Sequences that reach the state; None without sequences.
    time_x, time_y : float
        Share of the weighted time in the state.
    pvalue, adjusted : float
        Of equal shares of sequences with the state, and adjusted for all states and steps; NaN if not tested.
    marked : bool
        Statistically significant at a false discovery rate of 5 %.
    kind : str
        "new" (only in Y), "vanished" (only in X), "more" or "less" (in Y), or "equal".
    """

    state: Hashable
    visits_x: int | None
    visits_y: int | None
    sequences_x: int | None
    sequences_y: int | None
    time_x: float
    time_y: float
    pvalue: float
    adjusted: float
    marked: bool
    kind: str


class StepChange(NamedTuple):
    """A step between two states in both recordings; fields as for `StateChange`.

    `times_x` and `times_y` are how often the step was recorded, `time_x` and `time_y` its share of the weighted steps.
    """

    state: Hashable
    next_state: Hashable
    times_x: int | None
    times_y: int | None
    sequences_x: int | None
    sequences_y: int | None
    time_x: float
    time_y: float
    pvalue: float
    adjusted: float
    marked: bool
    kind: str

    @property
    def change(self) -> float:
        """Difference of the weighted shares of all steps, Y minus X."""
        return self.time_y - self.time_x


class Findings(NamedTuple):
    """States and steps before and after: significant new and vanished ones first, then others that are significant.

    Attributes
    ----------
    states : tuple of StateChange
    steps : tuple of StepChange
        Largest differences of `time_x` and `time_y` first, within each group.
    sequences : (int, int) or None
        Numbers of sequences, or of blocks if there are few sequences; None if nothing could be tested.
    units : str
        "sequences" or "blocks": what was counted.
    clock : Clock
        How `time_x` and `time_y` weight the steps.
    """

    states: tuple[StateChange, ...]
    steps: tuple[StepChange, ...]
    sequences: tuple[int, int] | None
    units: str = "sequences"
    clock: Clock = Clock("average", 1.0)

    def largest(self, n: int) -> list[StepChange]:
        """The `n` steps whose weighted share of all steps differs most, significant ones first."""
        # A step with equal shares shows no change in this table, whatever its p-value.
        moved = [step for step in self.steps if step.change != 0.0]
        # The sign is ignored: vanished steps are as important as new ones.
        return sorted(moved, key=lambda step: (not step.marked, -abs(step.change)))[:n]

    def states_table(self, names: tuple[str, str] = ("X", "Y"), n: int = 12) -> Table:
        """The first `n` states as a table, X -> Y; times only where no visits are known."""
        rows = [
            # Fields 1 and 2 are the visits.
            (shortened(row.state), _change(row), arrow(*(_count(v) for v in row[1:3])), arrow(*self._shares(row)),
             arrow(*percents(row.time_x, row.time_y)))
            for row in self.states[:n]
        ]  # fmt: skip
        # The change stands beside the label, where narrow screens show it without scrolling.
        head = ("state", self._heading, "visits", self.units, self._time)
        table = Table(head, rows, "lllll", f"States: {arrow(*(shortened(name, 30) for name in names))}")
        if self.sequences is not None:
            return table.without(self._time)
        # A known chain has no visits, so that column would be half empty.
        known = any(row.visits_x is not None and row.visits_y is not None for row in self.states)
        return table.without(self.units, *(() if known else ("visits",)))

    @property
    def _heading(self) -> str:
        return "change" if self.sequences is None else "change (* significant)"

    @property
    def _time(self) -> str:
        """The heading of shares of time, which the clock weights."""
        return f"of {self.clock.share}"

    def _shares(self, row: StateChange) -> tuple[str, str]:
        # Any number other than 0: without sequences the column is removed afterwards.
        x, y = self.sequences or (1, 1)
        return percents((row.sequences_x or 0) / x, (row.sequences_y or 0) / y)

    def steps_table(self, names: tuple[str, str] = ("X", "Y"), n: int = 5) -> Table:
        """The `n` steps whose weighted share of all steps differs most, as a table, X -> Y."""
        rows = [
            (shortened(s.state), shortened(s.next_state), _change(s), arrow(*percents(s.time_x, s.time_y)))
            for s in self.largest(n)
        ]  # fmt: skip
        weighted = " (earlier steps count more)" if self.clock.name in ("discount", "rate") else ""
        title = f"Steps that differ most{weighted}: {arrow(*(shortened(name, 30) for name in names))}"
        return Table(("from", "to", self._heading, self._time), rows, "llll", title)

    def _repr_html_(self) -> str:
        return card(
            "Findings", (), self.states_table(), self.steps_table(), sub="significant: at a false discovery rate of 5 %"
        )

    @property
    def marked(self) -> int:
        """Number of significant states and steps."""
        return sum(row.marked for row in self.states) + sum(row.marked for row in self.steps)

    def __repr__(self) -> str:
        return f"Findings({len(self.states)} states, {len(self.steps)} steps, {self.marked} marked)"

    def __str__(self) -> str:
        head = f"{'state':<42}{'visits':>16}{self.units:>18}{'adjusted p':>12}"
        rows = [
            f"{f'{row.state!s}'[:40]:<41}{'*' if row.marked else ' '}{arrow(*map(_count, row[1:3])):>16}"
            f"{arrow(*map(_count, row[3:5])):>18}{row.adjusted:>12.3g}"
            for row in self.states
        ]
        return "\n".join([head, *rows])


def _change(row: StateChange | StepChange) -> str:
    return Mark(f"{row.kind} *") if row.marked else row.kind


def _count(n: int | None) -> str:
    return "-" if n is None else f"{n:,}"


def arrow(before: str, after: str) -> str:
    """A change, in one text."""
    return f"{before} \u2192 {after}"


class Tally(NamedTuple):
    """How often each state, or step, occurs in each recording: events, units with at least one, p-values (or NaN).

    `least` is the smallest p-value that anything as frequent could have.
    """

    # Keys are sorted and sparse: a table of all pairs of states would be quadratic in their number.
    keys: NDArray[np.int64]  # a state's place in the union of the states, or place * n_states + next place
    events: NDArray[np.int64]  # (2, n_keys); -1 for a known chain
    units: NDArray[np.int64]  # (2, n_keys); -1 without units
    pvalues: Floats
    least: Floats

    def __repr__(self) -> str:
        return brief_record(self)


class Visits(NamedTuple):
    """Tallies of states and steps, the number of units of each recording, and what units are."""

    states: Tally
    steps: Tally
    sizes: tuple[int, int] | None
    units: str = "sequences"


class RowCounts(NamedTuple):
    """Rows of a chain (CSR, initial distribution last) with their counts, which are 0 for known chains."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    probabilities: Floats
    counts: NDArray[np.int64]

    def __repr__(self) -> str:
        return brief_record(self)

    @classmethod
    def known(cls, support: Support) -> RowCounts:
        """Rows of a known chain."""
        return cls(*support, np.zeros(len(support.indices), dtype=np.int64))

    @property
    def absorbing(self) -> NDArray[np.bool_]:
        """States that are never left, (n,)."""
        # The last row is the initial distribution, which is not a state.
        size = int(self.indptr[-2])
        rows = np.repeat(np.arange(len(self.indptr) - 2), np.diff(self.indptr[:-1]))
        stays = np.bincount(rows, self.probabilities[:size] * (self.indices[:size] == rows), len(self.indptr) - 2)
        # Rows of data are divided by their sums, so a probability of 1 may be rounded.
        return np.asarray(stays >= 1.0 - 1e-12)

    @property
    def support(self) -> Support:
        """The rows without their counts."""
        return Support(*self[:3])


@dataclass(frozen=True, eq=False, repr=False)
class ContributionInputs:
    """Inputs of `Result.contributions`: the cost, and the rows of both processes with their counts.

    `same_rows` is the p-value of the hypothesis of equal rows, or a function that computes it on demand, or None.
    `counted` likewise has the visits of states and steps, for `Result.findings`.
    """

    cost: Floats
    x: RowCounts
    y: RowCounts
    same_rows: Callable[[], float | None] | float | None = None
    counted: Callable[[], Visits] | Visits | None = None

    @classmethod
    def known(cls, cost: Floats, x: Support, y: Support) -> ContributionInputs:
        """Inputs for two known chains."""
        return cls(cost, RowCounts.known(x), RowCounts.known(y))

    def pvalue(self) -> float | None:
        """The p-value of the hypothesis of equal rows."""
        return self._pvalue

    def ended(self, clock: str) -> NDArray[np.bool_]:
        """Pairs of states in which both sequences have ended, (n_x, n_y); none unless `clock` is a discount."""
        # Both sides must have ended: while one still moves, the pair goes on producing cost.
        over = self.x.absorbing[:, None] & self.y.absorbing[None, :]
        return over if clock == "discount" else np.zeros_like(over)

    def before_end(self, result: Result, share: float) -> BeforeEnd | None:
        """The distance and its interval divided by `share`; None if costs continue after the end."""
        ended = self.ended(result.clock.name)
        # If ended pairs cost something, the distance is not a sum over the time before the end.
        if not 1e-9 < share < 1.0 - 1e-9 or (self.cost[ended] * (result.state_law[ended] > 0.0)).any():
            return None
        top, interval = float(self.cost.max()), result.confidence_interval
        # No mean cost can exceed the largest cost, which the division could do for noisy ends.
        low, high = (None, None) if interval is None else (min(end / share, top) for end in interval[:2])
        return BeforeEnd(min(result.distance / share, top), low, high)

    def visits(self) -> Visits | None:
        """Visits of states and steps; None for known chains."""
        # Cached below: counting visits takes a pass over the recordings.
        return self._visits

    @cached_property
    def _visits(self) -> Visits | None:
        return self.counted() if callable(self.counted) else self.counted

    @cached_property
    def _pvalue(self) -> float | None:  # cached: several views read it, and permutations take time
        return self.same_rows() if callable(self.same_rows) else self.same_rows


RECORDS = (ContributionInputs, Estimate, RowCounts, Tally, Visits)  # those that files of results contain


def names_count(states_x: Sequence[Hashable], states_y: Sequence[Hashable], cost: Floats, law: Floats) -> bool:
    """Whether states with equal labels are about equal according to the cost.

    States with equal labels must cost at most half the mean cost of random pairs, averaged over the occupancy. If
    states are numbered from 0 and one side has more of them, for most states no other state may cost less either:
    clusters numbered along a line are near the equally numbered ones of another clustering, but not the same. Without
    shared labels a cost that differs between pairs, such as the degrees of nodes, does not look at labels.

    Parameters
    ----------
    states_x, states_y : sequence of hashable
    cost, law : ndarray, shape (n_x, n_y)
        `law` is the distribution of pairs of states.

    Examples
    --------
    >>> law, cost = np.full((2, 2), 0.25), np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> names_count("ab", "ab", cost, law), names_count("ab", "ba", cost, law)
    (True, False)
    >>> along = np.abs(np.subtract.outer(np.linspace(-1, 1, 8), np.linspace(-1, 1, 6)))
    >>> names_count(range(8), range(6), along, np.full((8, 6), 1 / 48))
    False
    >>> names_count("ab", "cd", cost, law), names_count("ab", "cd", np.ones((2, 2)), law)
    (False, True)
    """
    place = {label: j for j, label in enumerate(states_y)}
    shared = [(i, place[label]) for i, label in enumerate(states_x) if label in place]
    if not shared:
        return float(np.ptp(cost)) == 0.0
    i, j = np.array(shared, dtype=np.int64).T
    # Costs above their minimum: a constant in the cost must not affect the comparison.
    above, in_x, in_y = cost - cost.min(), law.sum(axis=1), law.sum(axis=0)
    # Weighted by visits: rare states must not decide.
    time = in_x[i] + in_y[j]
    counted = all(tuple(states) == tuple(range(len(states))) for states in (states_x, states_y))
    if counted and len(states_x) != len(states_y):
        # Numbered states: equal numbers must also be the cheapest partners of each other.
        least = above[i, j] <= above[i].min(axis=1) + 1e-9 * above.max()
        if 2 * np.count_nonzero(least) <= len(i):
            return False
    # The right side is what labels without meaning would give.
    return float(time @ above[i, j]) <= 0.5 * float(time.sum()) * float(in_x @ above @ in_y)
