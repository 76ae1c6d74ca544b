"""The distance between two recordings of real vectors: cells, their correction, and what can be said about both.

What cells say, less the bias that linear twins show, and the hull of both intervals. Where linear models do not fit: in
one dimension the estimate on cells and its interval; in more the map between the two systems, if there is one, and else
the value of the cells, or what curved models say it is at most, as an approximation without an interval.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from somcot.cells import Cells, Continuous, MapFit, PointCost, ShiftCheck, Twin
from somcot.continuous import checks, conjugacy, curved, words
from somcot.continuous.dealt import told_apart
from somcot.continuous.fitting import check_recordings, discretise, scale_of
from somcot.continuous.plain import null_distances
from somcot.continuous.twin import Question, compare, judged
from somcot.inference.permutation import alike
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.validation import check_confidence, check_discount, check_rng
from somcot.result import ConfidenceInterval, Result
from somcot.trajectories import Trajectories

__all__ = ["distance"]

_LEVEL = 0.9  # of the interval that decides about the null where none is asked for
_MOST_OFF = 0.5  # relative error of the shift check from which on a correction is not believed
_MAP, _DEALT, _CURVED = 7, 8, 9  # purposes of random numbers
_TELLING = 2_000  # transitions of each side below which a map is not looked for: its tests see too little
_NULL = 5  # regroupings behind what cells say of no difference


class _Answer(NamedTuple):
    """A value, its interval and how it was found."""

    value: float
    interval: tuple[float, float] | None
    route: str
    curved: float | None = None


def distance(
    x: Trajectories,
    y: Trajectories,
    cost: PointCost = "euclidean",
    *,
    discount: float,
    confidence: float | None = None,
    scale: Any = "std",
    n_cells: int | str = "auto",
    rng: int | np.random.Generator | None = None,
    threads: int | None = None,
) -> Result:
    """See `somcot.distance`; `scale` and `n_cells` as for `somcot.discretise`."""
    began = time.perf_counter()
    check_confidence(confidence)
    check_recordings((x, y), ("x", "y"))
    discount = check_discount(discount)
    seed = int(check_rng(0 if rng is None else rng).integers(2**31))
    divisor = scale_of(scale, (x, y))
    cells = discretise(x, y, n_cells=n_cells, scale=divisor, discount=discount, rng=seed)
    question = _question(cells, x, y, cost, discount, seed)
    level = _LEVEL if confidence is None else confidence
    table = cells.cost(cost)
    bare = checks.on_cells(cells, table, discount=discount, confidence=level, seed=seed, threads=threads)
    coarser = [
        discretise(x, y, n_cells=k, scale=divisor, discount=discount, rng=seed)
        for k in dict.fromkeys((max(2, cells.n_cells // 4), max(2, cells.n_cells // 2)))
        if k < cells.n_cells
    ]
    assert bare.plugin is not None
    twin = judged(compare(question), bare.plugin)
    check = checks.shift_check(question, bare.distance, calibrate=twin.used)
    twin, check = _confirmed(twin, check, question, bare.distance)
    mapped = _map(question, twin, level, divisor)
    answer = _as_wrong_as(check, _answer(question, bare, twin, mapped), square=cost == "sqeuclidean")
    if confidence is None:
        answer = answer._replace(interval=None)
    continuous = Continuous(
        cells, checks.resolution([*coarser, cells], cost, discount, bare, threads), twin, check,
        None if mapped is None else mapped.fit, answer.route, answer.curved,
    )  # fmt: skip
    notes = tuple(words.notes(continuous, alike(cells.x, cells.y), bare.plugin, interval=confidence is not None))
    for note in notes:
        warn(note, DataWarning)
    return replace(
        bare,
        distance=answer.value,
        confidence_interval=None if answer.interval is None else ConfidenceInterval(*answer.interval, level),
        message=words.message(answer.value, bare.plugin, continuous),
        notes=notes,
        continuous=continuous,
        seconds=time.perf_counter() - began,
    )


def _question(cells: Cells, x: Trajectories, y: Trajectories, cost: PointCost, discount: float, seed: int) -> Question:
    """In units of the scale, so that norms are plain; a cost of one's own keeps the user's units."""
    if callable(cost):
        return Question(cells, x, y, cost, discount, seed)
    unit = replace(cells, centres=cells.centres / cells.scale, scale=np.ones(x.d))
    scaled = [data.mapped(lambda points: points / cells.scale) for data in (x, y)]
    return Question(unit, scaled[0], scaled[1], cost, discount, seed)


def _confirmed(
    twin: Twin, check: ShiftCheck | None, question: Question, value: float
) -> tuple[Twin, ShiftCheck | None]:
    """A twin that cannot repair a known shift of the user's own recordings is not believed."""
    if not twin.used or check is None or check.worst <= _MOST_OFF:
        return twin, check
    said = f"a shift of {check.distance:.3g} of one's own recording comes out as {check.final:.3g} after it"
    refused = twin._replace(used=False, reason=f"the correction by linear models fails its check: {said}")
    return refused, checks.shift_check(question, value, calibrate=False)


class _Mapped(NamedTuple):
    fit: MapFit
    interval: tuple[float, float] | None


def _map(question: Question, twin: Twin, level: float, scale: Floats) -> _Mapped | None:
    """The map between the two systems, where linear models were tried and do not fit."""
    if twin.used or question.x.d == 1 or callable(question.cost):
        return None
    few = min(question.x.n_transitions, question.y.n_transitions)
    if few < _TELLING:
        reason = f"{_TELLING:,} transitions on each side can tell a map from a near miss, found {few:,}"
        return _Mapped(MapFit("refused", None, "", (reason,)), None)
    cells, x, y, cost, discount, _ = question
    rng = question.rng(_MAP)
    try:
        found = conjugacy.compare(x, y, cost, discount=discount, cells=cells, confidence=level, rng=rng, scale=scale)
    except np.linalg.LinAlgError:  # numbers of very different sizes, of a process that blows up
        found = conjugacy.MapComparison("refused", None, None, "", ("the steps are too uneven for a model",), {})
    return _Mapped(MapFit(found.verdict, found.distance, found.words, found.reasons), found.interval)


def _answer(question: Question, bare: Result, twin: Twin, mapped: _Mapped | None) -> _Answer:
    assert bare.confidence_interval is not None
    assert bare.plugin is not None
    low, high, level = bare.confidence_interval
    if mapped is not None and mapped.fit.verdict == "conjugate" and mapped.fit.distance is not None:
        return _Answer(mapped.fit.distance, mapped.interval, "map")
    value, ends, route = bare.distance, (low, high), "cells"
    if twin.used:
        value, ends, route = *_calibrated(bare, twin, level), "twin"
    if low <= 0.0 and question.x.d > 1 and not _differ(question):  # no test rejects: what regroupings say is bias
        null = null_distances(*question[:5], n=_NULL, seed=question.seed)
        value = min(value, max(0.0, bare.plugin - float(null.mean())))
    hull = min(low, ends[0], value), max(high, ends[1], value)
    if twin.rough:  # the bias that rough models show may not be there at all
        assert bare.estimate is not None
        hull = hull[0], max(hull[1], bare.plugin + _quantile(level) * bare.estimate.standard_error)
    if not twin.used and question.x.d > 1 and question.cells.radius.any():
        return _approximate(question, value)  # a shift that comes out right is not every difference
    if min(question.x.n_transitions, question.y.n_transitions) < words.FEWEST:
        return _Answer(value, None, "approximate")
    return _Answer(value, hull, route)


def _as_wrong_as(check: ShiftCheck | None, answer: _Answer, *, square: bool) -> _Answer:
    """An interval that reaches to where the truth is if the answer is as wrong as that about the known shift."""
    if answer.route != "twin" or answer.interval is None or check is None or check.passed:
        return answer
    low, high = answer.interval
    power = 2.0 if square else 1.0
    if check.final > check.distance:
        low = min(low, answer.value / (1.0 + check.worst) ** power)
    else:
        high = max(high, answer.value / (1.0 - min(check.worst, _MOST_OFF)) ** power)
    return answer._replace(interval=(low, high))


def _approximate(question: Question, value: float) -> _Answer:
    """What cells say, unless curved models can be coupled for less."""
    if not curved.possible(question):
        return _Answer(value, None, "approximate")
    try:
        most = curved.upper(question, question.rng(_CURVED))
    except (np.linalg.LinAlgError, ValueError):  # a model that leads nowhere
        return _Answer(value, None, "approximate")
    return _Answer(min(value, most), None, "approximate", most)


def _differ(question: Question) -> bool:
    """Whether linear models tell apart what cells do not: a shift, say, that stays inside them."""
    return told_apart(question.x, question.y, question.discount, question.rng(_DEALT))


def _calibrated(bare: Result, twin: Twin, level: float) -> tuple[float, tuple[float, float]]:
    """What cells say less the bias of the twins, and its interval."""
    assert bare.plugin is not None
    assert bare.estimate is not None
    assert twin.bias is not None
    assert twin.spread is not None
    value = max(0.0, bare.plugin - twin.bias)
    margin = _quantile(level) * float(np.hypot(twin.spread, bare.estimate.standard_error))
    return value, (max(0.0, value - margin), value + margin)


def _quantile(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(0.5 + 0.5 * level))
