"""Model selection: distances from data to candidates with intervals, the nearest, and a confidence set for it.

All candidates are compared with the same data, so most of the noise is shared and intervals of single distances overlap
far too much. The relevant noise is that of differences. Every comparison halves the data in the same way, so the
differences of the distances of half-samples, d_m - d_l, have the variance of the differences themselves.

Candidate m stays in the set if d_m - d_best <= q se(m, best), with q the quantile of the largest such difference, in
standard errors, when all candidates are equally good (500 Gaussian draws with a fixed seed).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from somcot.inference.estimate import EstimateDetails
from somcot.inference.strata import attached, attribute_names
from somcot.many.matrix import seed_of
from somcot.many.members import labelled
from somcot.many.plan import JobPlan, MatrixSettings, prepare
from somcot.many.work import pair_result
from somcot.plumbing.arrays import Bools, Floats
from somcot.plumbing.checks import check_confidence, check_discount
from somcot.plumbing.html import Notes, Table, card
from somcot.plumbing.notes import Note, collected
from somcot.plumbing.text import figure, label_text, meter
from somcot.problem import ChainOrData, Data
from somcot.result import Result, Status
from somcot.trajectories import needs_cells

__all__ = ["Candidate", "Selection", "choose", "prepare_selection", "select_model"]

_DRAWS = 500
# Notes about single distances that say nothing about which candidate is nearest.
_NO_NEWS = ("near-minimum", "near-minimum-data", "memory", "memory-episodes")


class Candidate(NamedTuple):
    """One candidate: its distance from the data with an interval, and whether it is in the confidence set."""

    name: Hashable
    distance: float
    low: float
    high: float
    inside: bool
    plugin: float
    difference_error: float


_SHOWN = 20  # candidates on a card


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Which candidates explain the data, as returned by `somcot.select_model`.

    Attributes
    ----------
    best : hashable
        Name of the nearest candidate.
    confidence_set : tuple of hashable
        Candidates not distinguishable from the nearest; contains the true nearest with probability about `confidence`.
    table : tuple of Candidate
        All candidates in input order: name, distance, low, high, inside; the plug-in distance, and the standard
        error of its difference from that of the best.
    confidence, discount : float
    notes : tuple of str
        Caveats about the data.
    """

    best: Hashable
    confidence_set: tuple[Hashable, ...]
    table: tuple[Candidate, ...]
    confidence: float
    discount: float
    notes: tuple[str, ...] = ()

    @property
    def curve(self) -> tuple[Floats, Floats] | None:
        """Names as numbers in increasing order and the distances, if all names are numbers; else None."""
        if not all(isinstance(row.name, (int, float, np.number)) for row in self.table):
            return None
        rows = sorted(self.table, key=lambda row: float(row.name))  # type: ignore[arg-type]
        return np.array([row.name for row in rows], dtype=np.float64), np.array([row.distance for row in rows])

    def __repr__(self) -> str:
        n, m = len(self.confidence_set), len(self.table)
        return f"Selection(best {self.best}, {n} of {m} candidates in the {100 * self.confidence:g} % set)"

    def _repr_html_(self) -> str:
        rows = [
            (label_text(row.name, 40), figure(row.distance), figure(row.low), figure(row.high), "yes" * row.inside)
            for row in sorted(self.table, key=lambda row: row.distance)[:_SHOWN]
        ]
        shown = Table(("candidate", "distance", "low", "high", "may be the nearest"), rows, "lrrrl")
        more = f"{len(self.table):,} candidates, {100 * self.confidence:g} % intervals, discount {self.discount:g}"
        return card(f"nearest: {label_text(self.best, 40)}", (), Notes(self.notes), shown, sub=more)


def select_model(
    data: Data,
    candidates: Mapping[Any, ChainOrData],
    cost: object = "labels",
    *,
    discount: float,
    confidence: float = 0.9,
    rng: int | np.random.Generator | None = None,
    strata: Any = None,
    paired_by: Any = None,
) -> Selection:
    """Select the candidate nearest to the data, and a confidence set of candidates that may be nearest.

    Parameters
    ----------
    data : Samples or Counts
    candidates : mapping of name to MarkovChain, Samples or Counts
        Known chains or recordings; numbers as names give a curve.
    cost, discount, rng
        As for `distance_matrix`; rows of the cost are the states of the data.
    confidence : float
        Level of the intervals and of the confidence set.
    strata, paired_by : str, list of str or mapping of label to labels, optional
        As for `same_process`, if all candidates are recordings: names of attributes of the sequences, or for each
        candidate, and for ``"data"``, the label of each sequence.

    Returns
    -------
    Selection

    Examples
    --------
    >>> import somcot
    >>> data = somcot.random_walk(5, 0.5).sample(100, 50, rng=0)
    >>> walks = {theta: somcot.random_walk(5, theta) for theta in (0.3, 0.4, 0.5, 0.6, 0.7)}
    >>> reward = somcot.costs.absolute([1, 0, 0, 0, -1], [1, 0, 0, 0, -1])
    >>> selection = somcot.select_model(data, walks, reward, discount=0.9)
    >>> selection.best, selection.confidence_set
    (0.5, (0.5,))
    """
    return choose(
        prepare_selection(
            data,
            candidates,
            cost,
            discount=discount,
            confidence=confidence,
            rng=rng,
            strata=strata,
            paired_by=paired_by,
        )
    )


def prepare_selection(
    data: Data,
    candidates: Mapping[Any, ChainOrData],
    cost: object,
    *,
    discount: float,
    confidence: float,
    rng: int | np.random.Generator | None,
    strata: Any = None,
    paired_by: Any = None,
) -> JobPlan:
    """Check the arguments, fit every process, and list the jobs; arguments as for `select_model`."""
    check_discount(discount)
    check_confidence(confidence)
    if confidence is None:
        raise TypeError("confidence: found None, expected a level between 0 and 1, such as 0.9")
    if not isinstance(data, Data):
        raise TypeError(f"data: found {type(data).__name__}, expected Samples or Counts{needs_cells(data)}")
    labelled_candidates = labelled("candidates", candidates)
    grouping = {"strata": strata, "paired_by": paired_by}
    for name, value in grouping.items():
        if isinstance(value, list) and attribute_names(value) is not None:
            grouping[name] = tuple(value)
        elif value is not None and attribute_names(value) is None:
            if "data" in labelled_candidates:
                raise ValueError(f"{name}: a candidate is called 'data' too; rename it, or name an attribute")
            grouping[name], changed = attached(name, value, {"data": data, **labelled_candidates})
            data = changed.pop("data")
            labelled_candidates = changed
    settings = MatrixSettings(
        discount,
        "auto",
        confidence,
        simultaneous=False,
        tests=None,
        seed=seed_of(rng),
        **grouping,
    )
    return prepare({"data": data}, cost, settings, others=labelled_candidates)


def choose(plan: JobPlan, *, progress: bool = False) -> Selection:
    """Run the jobs and compute the confidence set."""
    processes = {member.label: member.process for member in plan.columns}
    discount, confidence = plan.options.discount, plan.options.confidence
    # select_model always asks for an interval; None occurs only in plans made for matrices.
    assert confidence is not None
    report = meter(len(processes)) if progress else None
    results: list[Result] = []
    notes: list[Note] = []
    for j, label in enumerate(processes):
        with collected() as about_pair:
            results.append(_result(plan, j))
        names = {"x": "data", "y": str(label)}  # the sides of this comparison
        notes += [Note(n.code, names[n.about], **n.values) if n.about in names else n for n in about_pair]
        if report is not None:
            report(j + 1, len(processes), results[-1].distance)
    halves = np.array([_halves(result) for result in results])
    plugins = np.array([result.distance if result.plugin is None else result.plugin for result in results])
    # Against known candidates the bias comes from the data alone and is nearly the same for all, so plug-ins rank best.
    # Recorded candidates have a bias of their own, which the corrected values remove.
    score = plugins
    if any(isinstance(candidate, Data) for candidate in processes.values()):
        score = np.array([_uncut(result) for result in results])
    best = int(np.argmin(score))
    error, inside = _near(halves, score, best, confidence)
    table = tuple(
        Candidate(name, r.distance, *(r.confidence_interval or (np.nan, np.nan))[:2], bool(near), float(p), float(se))
        for name, r, near, p, se in zip(processes, results, inside, plugins, error, strict=True)
    )
    kept = tuple(row.name for row in table if row.inside)
    of_members = [note for member in (*plan.rows, *plan.columns) for note in member.notes]
    about = tuple(dict.fromkeys([*of_members, *(note for note in notes if note.code not in _NO_NEWS)]))
    return Selection(table[best].name, kept, table, confidence, discount, about)


def _result(plan: JobPlan, j: int) -> Result:
    member = plan.columns[j]
    if member.reason:
        raise ValueError(member.reason)
    try:
        result = pair_result(plan, 0, j)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ValueError(f"candidates[{member.label!r}]: {error}") from error
    # A partial table would look like a finished selection.
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def _halves(result: Result) -> Floats:
    """Distances of half-samples; the splits of the data are the same for all candidates."""
    assert isinstance(result.details, EstimateDetails)
    assert result.details.half_values is not None
    return result.details.half_values


def _uncut(result: Result) -> float:
    assert result.estimate is not None
    assert result.estimate.uncut is not None
    return result.estimate.uncut


def _near(halves: Floats, score: Floats, best: int, confidence: float) -> tuple[Floats, Bools]:
    """Standard errors of the differences from the best, and which candidates are not distinguishable from it."""
    # Common half-samples: what the data contribute to both distances cancels in the difference.
    apart = halves - halves[best]
    apart = apart - apart.mean(axis=1, keepdims=True)
    error = apart.std(axis=1, ddof=1)
    # Random combinations of the deviations of half-samples have their covariance.
    draws = np.random.default_rng(0).standard_normal((_DRAWS, halves.shape[1])) / np.sqrt(halves.shape[1] - 1)
    # The largest studentised difference over all candidates, so that the set holds for all of them together.
    largest = (draws @ apart.T / np.where(error > 0, error, 1.0)).max(axis=1)
    q = max(float(np.quantile(largest, confidence)), 0.0)
    # The tolerance keeps candidates that are equal up to rounding, such as the same chain under two names.
    near = score - score[best] <= q * error + 1e-12
    # Two candidates on the same side of the data move together, so their difference has little error. A candidate
    # nearer than one that is not distinguishable from the best is therefore kept as well.
    return error, score <= score[near].max()
