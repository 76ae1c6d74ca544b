"""Change of a process from period to period: each period against a reference and against its predecessor.

Every comparison has a distance with its interval and a permutation test of "the same process". The p-values are
corrected together by Holm's method, which is valid under any dependence (comparisons share recordings): if nothing
changed, the probability that any comparison is marked is at most `level`.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from somcot.api import distance, same_process
from somcot.inference.strata import attached, strata_of
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_confidence, check_count, check_discount
from somcot.plumbing.notes import Note, collected
from somcot.plumbing.records import view
from somcot.plumbing.text import label_text, meter
from somcot.result import Result
from somcot.samples import Samples

__all__ = ["Change", "Drift", "drift", "holm", "short", "short_low"]

LEAST = 30  # transitions; shorter periods are left out
# Notes about single distances that do not apply here: every distance has a test, and all periods share their states.
_NO_NEWS = ("never-seen", "near-minimum", "near-minimum-data")
_PER_TEST = 40  # permutations per comparison: the smallest p-value times the number of comparisons is then 2.5 %


class Change(NamedTuple):
    """One comparison: a period against an earlier one.

    Attributes
    ----------
    period, against : hashable
        Labels of the two periods.
    of_reference, of_before : bool
        Whether `against` is the reference, and whether it is the preceding period; both may hold.
    distance, low, high : float
        The distance and the ends of its interval.
    pvalue, adjusted : float
        P-value of "the same process", and the same corrected for the number of comparisons.
    """

    period: Hashable
    against: Hashable
    of_reference: bool
    of_before: bool
    distance: float
    low: float
    high: float
    pvalue: float
    adjusted: float


@dataclass(frozen=True, eq=False, repr=False)
class Drift:
    """Periods compared with a reference and with their predecessors.

    Attributes
    ----------
    periods : tuple
        Labels, in order.
    transitions : tuple of int
        Number of transitions in each period.
    reference : hashable
        Label of the period that the others are compared with.
    changes : tuple of Change
        Comparisons with the reference and with the preceding period; a comparison that is both is made once.
    result : Result
        Result of the largest change, for its contributions.
    confidence, level, discount : float
        Level of the intervals; level up to which a corrected p-value counts as a change; discount of the distances.
    left_out : mapping of label to int
        Periods with too few transitions, and their numbers of transitions.
    notes : tuple of str
    seconds : float

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import os, somcot, tempfile
    >>> walk, other = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.8)
    >>> changes = drift({"May": walk.sample(40, 50, rng=1), "June": other.sample(40, 50, rng=2)}, discount=0.9)
    >>> changes.sentence().partition(".")[0]
    'It changed: 1 of 1 comparisons over 2 periods are significant'
    >>> len(changes.against_reference()), len(changes.against_before()), [row["changed"] for row in changes.rows()]
    (1, 1, [True])
    >>> changes.report(os.path.join(tempfile.mkdtemp(), "drift.html"))
    >>> changes.plot().get_ylabel()
    'distance with 90 % interval'
    """

    periods: tuple[Hashable, ...]
    transitions: tuple[int, ...]
    reference: Hashable
    changes: tuple[Change, ...]
    result: Result
    confidence: float
    level: float
    discount: float
    left_out: Mapping[Hashable, int]
    notes: tuple[str, ...]
    seconds: float

    @property
    def alarms(self) -> tuple[Change, ...]:
        """The statistically significant comparisons."""
        return tuple(change for change in self.changes if change.adjusted <= self.level)

    @property
    def alarm(self) -> bool:
        """Whether any comparison is significant; if nothing changed, this is True with probability at most `level`."""
        return bool(self.alarms)

    @property
    def changed(self) -> tuple[Hashable, ...]:
        """The periods that differ significantly from the reference; their neighbours are not among them."""
        return tuple(change.period for change in self.alarms if change.of_reference)

    @property
    def largest(self) -> Change:
        """The largest significant change, or the largest of all if none is significant."""
        return max(self.alarms or self.changes, key=lambda change: change.distance)

    def against_reference(self) -> list[Change]:
        """Comparisons with the reference, one for each other period."""
        return [change for change in self.changes if change.of_reference]

    def against_before(self) -> list[Change]:
        """Comparisons with the preceding period, one for each period but the first."""
        return [change for change in self.changes if change.of_before]

    def rows(self) -> Iterator[dict[str, Any]]:
        """The comparisons as a table, for a data frame or a file."""
        for change in self.changes:
            yield change._asdict() | {"changed": change.adjusted <= self.level}

    def plot(self, ax: object = None) -> Any:
        """Plot the distances with their intervals over the periods; takes and returns matplotlib's Axes."""
        return view("drift.plot")(self, ax=ax)

    def report(self, path: str | os.PathLike[str], **details: Any) -> None:
        """Write one HTML file without scripts; `details` as for `somcot.report.many_facts.drift_sections`."""
        view("drift.page")(path, self, **details)

    def sentence(self) -> str:
        """The conclusion as a sentence."""
        n, alarms = len(self.periods), self.alarms
        if not alarms:
            return f"No change shown over {n} periods: no comparison is statistically significant."
        top = self.largest
        # In the order of the periods, so it is the earliest comparison that is significant, not the strongest.
        first = next(change for change in self.changes if change in alarms)
        return (
            f"It changed: {len(alarms)} of {len(self.changes)} comparisons over {n} periods are significant. "
            f"The first is {_name(first.period)} against {_name(first.against)}; the largest is {_name(top.period)} "
            f"against {_name(top.against)}, at distance {short(top.distance)} ({short_low(top.low)} to "
            f"{short(top.high)})."
        )

    def __repr__(self) -> str:
        return f"Drift({len(self.periods)} periods, {len(self.alarms)} of {len(self.changes)} comparisons changed)"

    def _repr_html_(self) -> str:
        card: str = view("drift.card")(self)
        return card


def drift(
    periods: Mapping[Any, Samples],
    cost: ArrayLike | str | object = "labels",
    *,
    discount: float,
    reference: Hashable | None = None,
    confidence: float = 0.9,
    level: float = 0.05,
    n_permutations: int | None = None,
    rng: int | None = None,
    progress: bool = False,
    strata: Any = None,
    paired_by: Any = None,
) -> Drift:
    """Compare each period of a recording with a reference period and with its predecessor.

    Parameters
    ----------
    periods : mapping of label to Samples
        In order of time, as `somcot.readers.split_periods` and `split_table` return them. Periods with fewer than 30
        transitions are left out and listed.
    cost : "labels", "features" or array_like
        As for `distance`.
    discount : float
    reference : label, optional
        Period that all others are compared with; by default the first that is not small: it has at least half of the
        median number of transitions.
    confidence : float
        Level of each interval.
    level : float
        Corrected p-values up to this count as a change. If nothing changed, any does with at most this probability.
    n_permutations : int, optional
        Maximum number of permutations per test; by default enough for a clear change to be significant among all
        comparisons.
    rng : None or int
        Seed; None uses a fixed one.
    progress : bool
        Show a progress line on standard error.
    strata, paired_by : str, list of str or mapping of label to labels, optional
        As for `same_process`: names of attributes of the sequences, or for each period the label of each sequence.

    Returns
    -------
    Drift

    Examples
    --------
    >>> import somcot
    >>> walk, other = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.8)
    >>> weeks = {f"week {i}": (walk if i < 3 else other).sample(40, 50, rng=i) for i in range(1, 5)}
    >>> changes = drift(weeks, discount=0.9)
    >>> changes.alarm, changes.alarms[0].period, changes.alarms[0].against
    (True, 'week 3', 'week 1')
    >>> [change.period for change in changes.against_reference()], len(changes.against_before())
    (['week 2', 'week 3', 'week 4'], 3)
    """
    began = time.perf_counter()
    check_discount(discount)
    check_confidence(confidence)
    kept, few = _checked(periods, level)
    grouping: dict[str, Any] = {}
    for name, value in (("strata", strata), ("paired_by", paired_by)):
        if value is not None:
            within = {k: v for k, v in value.items() if k not in few} if isinstance(value, Mapping) else value
            grouping[name], kept = attached(name, within, kept)
    options = {"strata": None, "paired_by": None} | grouping
    labels = list(kept)
    # Recordings often begin in the middle of a period, and a short reference would make every comparison weak.
    first = _first_large(kept) if reference is None else reference
    if first not in kept:
        known = ", ".join(map(_name, labels[:12]))
        why = f"it has only {few[first]} transitions" if first in few else "no period has that label"
        raise ValueError(f"reference: found {first!r}, but {why}; the periods are {known}")
    pairs = _pairs(labels, first)
    # With m comparisons Holm multiplies the smallest p-value by m, so permutations must grow with m to reach 5 %.
    requested = _PER_TEST * len(pairs) - 1 if n_permutations is None else check_count("n_permutations", n_permutations)
    n, seed = max(199, requested) if n_permutations is None else requested, check_count("rng", rng or 0, at_least=0)
    report = meter(len(pairs)) if progress else None
    comparisons: list[tuple[Result, float]] = []
    where: dict[Note, list[str]] = {}  # the comparisons that each note concerns; none if it names a period
    for k, (one, other) in enumerate(pairs):
        with collected() as about_pair:
            place = [seed, labels.index(one), labels.index(other)]  # each comparison has its own random numbers
            strata_of((kept[other], kept[one]), **options, names=(_name(other), _name(one)))  # errors name the periods
            comparisons.append(_compared(kept[other], kept[one], cost, discount, confidence, n, place, grouping))
        sides = {"x": _name(other), "y": _name(one)}
        for note in about_pair:
            if note.about in sides:  # it is about the period, with whatever it is compared
                where.setdefault(Note(note.code, sides[note.about], **note.values), [])
            else:
                where.setdefault(note, []).append(f"{_name(one)} against {_name(other)}")
        if report is not None:
            report(k + 1, len(pairs), comparisons[-1][0].distance)
    adjusted = holm([pvalue for _, pvalue in comparisons])
    changes = tuple(
        Change(one, other, other == first, _follows(labels, other, one), result.distance,
               *(result.confidence_interval or (math.nan, math.nan))[:2], pvalue, corrected)
        for (one, other), (result, pvalue), corrected in zip(pairs, comparisons, adjusted.tolist(), strict=True)
    )  # fmt: skip
    # The reported result is that of the largest significant change; without one, of the largest.
    marked = [k for k, change in enumerate(changes) if change.adjusted <= level] or range(len(changes))
    top = max(marked, key=lambda k: changes[k].distance)
    return Drift(
        tuple(labels), tuple(kept[label].n_transitions for label in labels), first, changes, comparisons[top][0],
        confidence, level, discount, few, tuple(_notes(few, where)), time.perf_counter() - began,
    )  # fmt: skip


def holm(pvalues: Sequence[float]) -> Floats:
    """P-values corrected by Holm's method: rejecting those up to a keeps the family-wise error rate at most a.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    raw = np.asarray(pvalues, dtype=np.float64)
    order = np.argsort(raw, kind="stable")
    # Step k multiplies by the number of hypotheses not yet rejected; the running maximum keeps p-values in order.
    steps = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))
    adjusted = np.empty(len(raw))
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def _checked(periods: object, level: object) -> tuple[dict[Hashable, Samples], dict[Hashable, int]]:
    """The periods that can be compared, and the numbers of transitions of the others."""
    if not isinstance(periods, Mapping):
        raise TypeError(f"periods: found {type(periods).__name__}, expected a mapping of label to Samples")
    if not (isinstance(level, (int, float)) and 0.0 < level < 1.0):
        raise ValueError(f"level: found {level!r}, expected a number strictly between 0 and 1, such as 0.05")
    for label, samples in periods.items():
        if not isinstance(samples, Samples):
            raise TypeError(f"periods: {label!r} is a {type(samples).__name__}, expected Samples (whole episodes)")
    few = {label: s.n_transitions for label, s in periods.items() if s.n_transitions < LEAST}
    kept = {label: s for label, s in periods.items() if label not in few}
    if len(kept) < 2:
        out = f" ({len(few)} with fewer than {LEAST} transitions left out)" if few else ""
        raise ValueError(f"periods: found {len(kept)}{out}, expected at least two; choose shorter or longer ones")
    return kept, few


def _first_large(periods: Mapping[Hashable, Samples]) -> Hashable:
    """The first period that is not small; recordings often begin within a period."""
    half = 0.5 * float(np.median([samples.n_transitions for samples in periods.values()]))
    return next(label for label, samples in periods.items() if samples.n_transitions >= half)


def _pairs(labels: list[Hashable], reference: Hashable) -> list[tuple[Hashable, Hashable]]:
    """Each period with the periods that it is compared with, in the order of the periods."""
    pairs: list[tuple[Hashable, Hashable]] = []
    for i, label in enumerate(labels):
        # The period before the first does not exist, and the reference is not compared with itself.
        against = ([reference] if label != reference else []) + ([labels[i - 1]] if i else [])
        pairs += [(label, other) for other in dict.fromkeys(against)]
    # A period directly before the reference has been compared with it already.
    return [pair for k, pair in enumerate(pairs) if pair[::-1] not in pairs[:k]]


def _follows(labels: list[Hashable], before: Hashable, after: Hashable) -> bool:
    """Whether two periods are neighbours (if the reference comes later, its neighbour is compared once)."""
    return abs(labels.index(after) - labels.index(before)) == 1


def _compared(
    x: Samples, y: Samples, cost: Any, discount: float, confidence: float, n: int, seed: list[int],
    grouping: Mapping[str, Any],
) -> tuple[Result, float]:  # fmt: skip
    # Separate streams: the p-value must not depend on how many draws the interval has used.
    estimated, tested = (np.random.default_rng([*seed, what]) for what in (0, 1))
    result = distance(x, y, cost, discount=discount, confidence=confidence, rng=estimated, **grouping)
    test = same_process(x, y, cost, discount=discount, n_permutations=n, rng=tested, **grouping)
    return result, float(test.pvalue)


def _notes(few: Mapping[Hashable, int], where: Mapping[Note, Sequence[str]]) -> Iterator[Note]:
    """Notes for the reader; a note shared by several comparisons appears once."""
    if few:
        shown = ", ".join(f"{_name(label)} ({n})" for label, n in list(few.items())[:10])
        more = f" and {len(few) - 10} more" if len(few) > 10 else ""
        yield Note("periods-left-out", n=len(few), least=LEAST, periods=f"{shown}{more}")
    for note, places in where.items():
        if note.code not in _NO_NEWS:
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            yield note.within(f"{places[0]}{more}" if places else "")


def short(value: float) -> str:
    """A number with four decimals, enough for a table.

    Examples
    --------
    >>> short(0.12345), short(2e-6), short(123456.7)
    ('0.1235', '0.0000', '1.2346e+05')
    """
    return f"{value:.4f}" if not abs(value) >= 1e4 else f"{value:.5g}"


def short_low(low: float) -> str:
    """The lower end of an interval; one that is not 0 does not look like 0.

    Examples
    --------
    >>> short_low(0.12345), short_low(1e-6), short_low(0.0)
    ('0.1235', '> 0', '0.0000')
    """
    return "> 0" if 0.0 < low < 0.00005 else short(low)


def _name(label: Hashable) -> str:
    return label_text(label, 30)
