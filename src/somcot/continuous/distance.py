"""The distance between two recordings of real vectors: the value on cells, its correction, and its checks.

The value on cells is corrected by the bias measured on linear twins, and the interval is the hull of both intervals. If
linear models do not fit: in one dimension the estimate on cells with its interval; in more dimensions the map between
the two systems, if there is one, and otherwise the value on cells or the upper bound from curved models, as an
approximation without an interval.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from somcot.cells import Cells, Continuous, MapFit, PointCost, Resolution, ShiftCheck, Twin
from somcot.continuous import conjugacy
from somcot.continuous import onestep_models as curved
from somcot.continuous.cell_distance import null_distances
from somcot.continuous.discretise import check_recordings, discretise, scale_of
from somcot.continuous.linear_twin import CellProblem, compare, drawn, judged, linear_models_differ
from somcot.gaussian import fit
from somcot.inference.estimate import estimate
from somcot.inference.model import SATURATED
from somcot.inference.permutation import looks_identical
from somcot.plumbing.arrays import Floats, one_blas_thread
from somcot.plumbing.checks import check_confidence, check_discount, check_rng
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.result import ConfidenceInterval, Result
from somcot.trajectories import Trajectories

__all__ = [
    "FEWEST",
    "distance",
    "message",
    "notes",
    "on_cells",
    "resolution",
    "shift_check",
]


# --- Model-free checks: a shift of the user's recordings, and fewer cells

_SHIFT = 0.5  # in standard deviations, at least
_SHIFT_TWINS = 6
_NOISE = 2.0  # standard deviations of the twins within which a deviation is not an error


def shift_check(question: CellProblem, answer: float, *, calibrate: bool) -> ShiftCheck | None:
    """Compare halves of each recording, one of them shifted: their distance is that of the shift.

    Common noise attains it and Jensen's inequality shows that it is minimal, for any process, if the cost is a norm of
    the difference or its square. None for other costs, recordings without two halves, or a single point.
    """
    if not isinstance(question.cost, str):
        return None
    square = question.cost == "sqeuclidean"
    pairs = [_halves(data) for data in (question.x, question.y)]
    if any(pair is None for pair in pairs):
        return None
    spread = float(np.sqrt(np.mean([data.points.var(axis=0).mean() for data in (question.x, question.y)])))
    size = max(_SHIFT * spread, float(np.sqrt(answer)) if square else answer)
    truth = size * size if square else size
    if truth == 0.0:
        return None
    plain, corrected, noise = [], [], 0.0
    for side, pair in enumerate(pairs):
        assert pair is not None
        move = size * _direction(question.x.d, side)
        shifted = question.raw(pair[0], _moved(pair[1], move))
        plain.append(shifted)
        if calibrate:
            on_twins = _distances_of_twins(question, pair, move, side)
            corrected.append(shifted - float(on_twins.mean()) + truth)
            noise = max(noise, _NOISE * float(on_twins.std(ddof=1)))
    final = corrected if calibrate else plain
    off = [max(abs(value - truth) - noise, 0.0) * (1.0 if value > truth else -1.0) for value in final]
    shares = [max(truth + error, 0.0) / truth for error in off]
    worst = max(abs((share**0.5 if square else share) - 1.0) for share in shares)
    return ShiftCheck(truth, float(np.mean(plain)), float(np.mean(corrected)) if calibrate else None, worst)


def _distances_of_twins(
    question: CellProblem, pair: tuple[Trajectories, Trajectories], move: Floats, side: int
) -> Floats:
    """Distances on cells of halves of linear twins, one of them shifted."""
    rng = question.rng(2 + side)
    model = fit((question.x, question.y)[side])
    return np.array(
        [
            question.raw(drawn(model, pair[0], rng), _moved(drawn(model, pair[1], rng), move))
            for _ in range(_SHIFT_TWINS)
        ]
    )


def _halves(data: Trajectories) -> tuple[Trajectories, Trajectories] | None:
    """Every other episode; for a single episode, its first and second half."""
    if data.n_episodes > 1:
        order = np.arange(data.n_episodes)
        return data.take(order[::2]), data.take(order[1::2])
    middle = len(data.points) // 2
    if middle < 2:
        return None
    parts = data.points[:middle], data.points[middle:]
    one, other = (
        Trajectories(part.copy(), np.array([0, len(part)]), np.zeros(1, np.bool_), data.names) for part in parts
    )
    return one, other


def _direction(d: int, side: int) -> Floats:
    """A unit vector with equal absolute coordinates, of alternating sign for the second side."""
    signs = np.ones(d) if side == 0 else np.where(np.arange(d) % 2 == 0, 1.0, -1.0)
    return np.asarray(signs / np.sqrt(d))


def _moved(data: Trajectories, move: Floats) -> Trajectories:
    return data.mapped(lambda points: points + move)


def on_cells(
    cells: Cells, cost: Floats, *, discount: float, confidence: float | None, seed: int, threads: int | None
) -> Result:
    """The estimate for the recordings on cells.

    Its notes on single states are dropped, since users do not know the cells; the twins measure the effect of
    forgetting the position inside a cell.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimate(
            cells.x, cells.y, cost, discount=discount, confidence=confidence, rng=seed, threads=threads, pool_rows=False
        )


def resolution(sizes: list[Cells], cost: PointCost, discount: float, full: Result, threads: int | None) -> Resolution:
    """The value on cells for fewer cells; that for the last number is known."""
    results = [
        on_cells(cells, cells.cost(cost), discount=discount, confidence=None, seed=0, threads=threads)
        for cells in sizes[:-1]
    ]
    results.append(full)
    return Resolution(
        tuple(cells.n_cells for cells in sizes),
        tuple(float(result.plugin or 0.0) for result in results),
        tuple(float(result.distance) for result in results),
    )


# --- Messages and notes

FEWEST = 20  # transitions of each side below which an interval is meaningless


def message(value: float, plain: float, continuous: Continuous) -> str:
    """The summary sentence."""
    return f"Estimated from recordings of real vectors: {value:.6g}; {continuous.summary(plain)}."


def notes(continuous: Continuous, suspicion: Note | None, plain: float, *, interval: bool = True) -> Iterator[Note]:
    """All notes, most important first; `interval`: whether one was requested."""
    check = continuous.shift_check
    failed = check is not None and not check.passed and continuous.route != "map"
    if continuous.route == "approximate":
        missing = " and has no interval" if interval else ""
        yield Note("approximate", no_interval=missing, reason=_without_bound(continuous))
    if failed and check is not None:
        why = "" if continuous.route == "approximate" else f" ({continuous.twin.reason})"
        yield Note(
            "shift-check-failed", "shift check", shift=float(check.distance), measured=float(check.final), why=why
        )
    if suspicion is not None:
        yield suspicion
    if continuous.cells.saturation > SATURATED:
        sizes = {"n_cells": continuous.cells.n_cells, "saturation": float(continuous.cells.saturation)}
        yield Note("few-data-for-cells", **sizes)
    if plain == 0.0 and suspicion is None:
        yield Note("same-recording")


def _without_bound(continuous: Continuous) -> str:
    """Why there is no error bound, and what would help."""
    few = min(data.n_transitions for data in continuous.cells.recordings)
    if few < FEWEST:
        return f"found {few} transition{'s' * (few != 1)} on one side, and {FEWEST} on each are the least; record more"
    why = [f"cells alone are off by an unknown amount; {continuous.twin.reason}"]
    help_ = "a lower discount, or coordinates in which a step is nearly linear"
    comparison = continuous.map
    if comparison is not None:
        seen = f" (the best was: {comparison.words})" if comparison.words and comparison.verdict == "different" else ""
        why.append(f"and no map between the two was confirmed{seen}: {'; '.join(comparison.reasons)}")
        if comparison.verdict == "refused":
            help_ = f"more or shorter episodes, {help_}"
    return f"{', '.join(why)}. What helps: {help_}"


# --- The distance

_LEVEL = 0.9  # of the interval that decides about the null if none is requested
_MOST_OFF = 0.5  # relative error of the shift check above which a correction is rejected
_MAP, _PERMUTED, _CURVED = 7, 8, 9  # numbers of random streams
_TELLING = 2_000  # transitions of each side below which no map is fitted: its tests have little power
_NULL = 5  # permutations behind the null value on cells


class _Answer(NamedTuple):
    """A value, its interval and the method that gave it."""

    value: float
    interval: tuple[float, float] | None
    route: str
    curved: float | None = None


@one_blas_thread
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
    bare = on_cells(cells, table, discount=discount, confidence=level, seed=seed, threads=threads)
    coarser = [
        discretise(x, y, n_cells=k, scale=divisor, discount=discount, rng=seed)
        for k in dict.fromkeys((max(2, cells.n_cells // 4), max(2, cells.n_cells // 2)))
        if k < cells.n_cells
    ]
    assert bare.plugin is not None
    twin = judged(compare(question), bare.plugin)
    check = shift_check(question, bare.distance, calibrate=twin.used)
    twin, check = _confirmed(twin, check, question, bare.distance)
    mapped = _map(question, twin, level, divisor)
    answer = _as_wrong_as(check, _answer(question, bare, twin, mapped), square=cost == "sqeuclidean")
    if confidence is None:
        answer = answer._replace(interval=None)
    continuous = Continuous(
        cells, resolution([*coarser, cells], cost, discount, bare, threads), twin, check,
        None if mapped is None else mapped.fit, answer.route, answer.curved,
    )  # fmt: skip
    all_notes = tuple(
        notes(continuous, looks_identical(cells.x, cells.y), bare.plugin, interval=confidence is not None)
    )
    for note in all_notes:
        warn(note, DataWarning)
    return replace(
        bare,
        distance=answer.value,
        confidence_interval=None if answer.interval is None else ConfidenceInterval(*answer.interval, level),
        message=message(answer.value, bare.plugin, continuous),
        notes=all_notes,
        continuous=continuous,
        seconds=time.perf_counter() - began,
    )


def _question(
    cells: Cells, x: Trajectories, y: Trajectories, cost: PointCost, discount: float, seed: int
) -> CellProblem:
    """The problem in units of the scale, for closed-form norms; a user-defined cost keeps the user's units."""
    if callable(cost):
        return CellProblem(cells, x, y, cost, discount, seed)
    unit = replace(cells, centres=cells.centres / cells.scale, scale=np.ones(x.d))
    scaled = [data.mapped(lambda points: points / cells.scale) for data in (x, y)]
    return CellProblem(unit, scaled[0], scaled[1], cost, discount, seed)


def _confirmed(
    twin: Twin, check: ShiftCheck | None, question: CellProblem, value: float
) -> tuple[Twin, ShiftCheck | None]:
    """Reject a twin that cannot correct a known shift of the user's recordings."""
    if not twin.used or check is None or check.worst <= _MOST_OFF:
        return twin, check
    outcome = f"a known shift of {check.distance:.3g} is estimated as {check.final:.3g} after it"
    refused = twin._replace(used=False, reason=f"the correction by linear models fails its check: {outcome}")
    return refused, shift_check(question, value, calibrate=False)


class _Mapped(NamedTuple):
    fit: MapFit
    interval: tuple[float, float] | None


def _map(question: CellProblem, twin: Twin, level: float, scale: Floats) -> _Mapped | None:
    """The map between the two systems, if linear models were tried and do not fit."""
    if twin.used or question.x.d == 1 or callable(question.cost):
        return None
    few = min(question.x.n_transitions, question.y.n_transitions)
    if few < _TELLING:
        reason = f"{_TELLING:,} transitions on each side are needed to test a map, found {few:,}"
        return _Mapped(MapFit("refused", None, "", (reason,)), None)
    cells, x, y, cost, discount, _ = question
    rng = question.rng(_MAP)
    try:
        comparison = conjugacy.compare(
            x, y, cost, discount=discount, cells=cells, confidence=level, rng=rng, scale=scale
        )
    except np.linalg.LinAlgError:  # numbers of very different sizes, from a process that diverges
        comparison = conjugacy.MapComparison("refused", None, None, "", ("the steps are too uneven for a model",), {})
    fit = MapFit(comparison.verdict, comparison.distance, comparison.words, comparison.reasons)
    return _Mapped(fit, comparison.interval)


def _answer(question: CellProblem, bare: Result, twin: Twin, mapped: _Mapped | None) -> _Answer:
    assert bare.confidence_interval is not None
    assert bare.plugin is not None
    low, high, level = bare.confidence_interval
    if mapped is not None and mapped.fit.verdict == "conjugate" and mapped.fit.distance is not None:
        return _Answer(mapped.fit.distance, mapped.interval, "map")
    value, ends, route = bare.distance, (low, high), "cells"
    if twin.used:
        value, ends, route = *_calibrated(bare, twin, level), "twin"
    if low <= 0.0 and question.x.d > 1 and not _differ(question):  # no test rejects: the value of permutations is bias
        null = null_distances(*question[:5], n=_NULL, seed=question.seed)
        value = min(value, max(0.0, bare.plugin - float(null.mean())))
    hull = min(low, ends[0], value), max(high, ends[1], value)
    if twin.rough:  # the bias of rough models may not apply to the data
        assert bare.estimate is not None
        hull = hull[0], max(hull[1], bare.plugin + _quantile(level) * bare.estimate.standard_error)
    if not twin.used and question.x.d > 1 and question.cells.radius.any():
        return _approximate(question, value)  # a correct shift does not cover other differences
    if min(question.x.n_transitions, question.y.n_transitions) < FEWEST:
        return _Answer(value, None, "approximate")
    return _Answer(value, hull, route)


def _as_wrong_as(check: ShiftCheck | None, answer: _Answer, *, square: bool) -> _Answer:
    """An interval wide enough for an error as large as that of the known shift."""
    if answer.route != "twin" or answer.interval is None or check is None or check.passed:
        return answer
    low, high = answer.interval
    power = 2.0 if square else 1.0
    if check.final > check.distance:
        low = min(low, answer.value / (1.0 + check.worst) ** power)
    else:
        high = max(high, answer.value / (1.0 - min(check.worst, _MOST_OFF)) ** power)
    return answer._replace(interval=(low, high))


def _approximate(question: CellProblem, value: float) -> _Answer:
    """The value on cells, or the cost of coupled curved models if that is lower."""
    if not curved.possible(question):
        return _Answer(value, None, "approximate")
    try:
        most = curved.upper(question, question.rng(_CURVED))
    except (np.linalg.LinAlgError, ValueError):  # a degenerate model
        return _Answer(value, None, "approximate")
    return _Answer(min(value, most), None, "approximate", most)


def _differ(question: CellProblem) -> bool:
    """Whether linear models detect a difference that cells do not, such as a shift within cells."""
    return linear_models_differ(question.x, question.y, question.discount, question.rng(_PERMUTED))


def _calibrated(bare: Result, twin: Twin, level: float) -> tuple[float, tuple[float, float]]:
    """The value on cells minus the bias of the twins, and its interval."""
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
