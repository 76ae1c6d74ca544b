"""The distance between two recordings of real vectors: register, test, simulate the rest; or decline.

The value comes from `routes`. The recordings are also put into shared cells, whose exact coupling shows which regions
correspond to each other; the number does not depend on them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from somcot.cells import Cells, Continuous, MapFit, PointCost, Resolution, Twin
from somcot.continuous.discretise import check_recordings, discretise, scale_of
from somcot.continuous.moments import Ground, Registration, Space, blocks
from somcot.continuous.routes import Answer, Question, answer
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_confidence, check_discount, check_flag, check_rng
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.memory import one_blas_thread
from somcot.plumbing.notes import Note
from somcot.result import ConfidenceInterval, Estimate, Result, Status
from somcot.solvers import METHODS
from somcot.trajectories import Trajectories

__all__ = ["FEWEST", "describe_map", "distance"]

FEWEST = 20  # transitions of each side below which an interval is meaningless
_LEVEL = 0.9  # of the interval that is computed if none is requested
_COPIED = 0.5  # share of episodes that occur on both sides from which the recordings are suspected to be copies
_UNUSED = "no longer used: see continuous.map and continuous.route"


@one_blas_thread
def distance(
    x: Trajectories,
    y: Trajectories,
    cost: PointCost = "euclidean",
    *,
    discount: float,
    confidence: float | None = None,
    scale: Any = "std",
    metric: bool | None = None,
    n_cells: int | str = "auto",
    rng: int | np.random.Generator | None = None,
    threads: int | None = None,
) -> Result:
    """See `somcot.distance`; `scale` and `n_cells` as for `somcot.discretise`.

    `metric` says whether a function given as `cost` is a metric; by default it is not taken for one.
    """
    began = time.perf_counter()
    check_confidence(confidence)
    check_recordings((x, y), ("x", "y"))
    discount = check_discount(discount)
    is_metric = _is_metric(cost, metric)
    # One number for everything: equal seeds give equal results whatever is drawn in between.
    seed = int(check_rng(0 if rng is None else rng).integers(2**31))
    divisor = scale_of(scale, (x, y))
    # Cells serve the couplings in the result; the distance does not depend on them.
    cells = discretise(x, y, n_cells=n_cells, scale=divisor, discount=discount, rng=seed)
    on_cells = _OnCells(cells, cost, discount, threads)
    level = _LEVEL if confidence is None else confidence
    found = _answer((x, y), divisor, cost, is_metric, discount, level, seed, on_cells)
    continuous = _record(found, cells, divisor, on_cells.result, x.names)
    notes = tuple(_notes(found, (x, y), interval=confidence is not None))
    for note in notes:
        warn(note, DataWarning)
    approximate = found.interval is None
    ends = None if found.interval is None or confidence is None else ConfidenceInterval(*found.interval, level)
    # An approximate distance has no bounds, not even those of the chains on cells.
    details: dict[str, Any] = {"notes": notes} | ({"bounds": None} if approximate else {})
    return replace(
        on_cells.result,
        distance=found.value,
        method="auto",
        status=Status.CONVERGED,
        message=_message(found, continuous),
        samples=(x.n_transitions, y.n_transitions),
        confidence_interval=ends,
        estimate=None if approximate else _estimate(found, cells),
        continuous=continuous,
        seconds=time.perf_counter() - began,
        **details,
    )


def _is_metric(cost: PointCost, metric: bool | None) -> bool:
    if metric is None:
        # Squared distances violate the triangle inequality, and of functions it is not known.
        return cost == "euclidean"
    check_flag("metric", metric)
    if not callable(cost):
        raise ValueError(f"metric: found {metric!r} with cost {cost!r}; only for a function, of which it is not known")
    return bool(metric)


class _OnCells:
    """The exact distance between the chains on cells, computed once."""

    def __init__(self, cells: Cells, cost: PointCost, discount: float, threads: int | None) -> None:
        self.cells, self.cost, self.discount, self.threads = cells, cost, discount, threads

    @cached_property
    def result(self) -> Result:
        with warnings.catch_warnings():  # users do not know the cells
            warnings.simplefilter("ignore")
            solved: Result = METHODS["plugin"].load()(
                self.cells.x, self.cells.y, self.cells.cost(self.cost), discount=self.discount, threads=self.threads
            )
        return solved

    def value(self) -> float:
        """The distance."""
        return float(self.result.distance)


def _answer(
    sides: tuple[Trajectories, Trajectories],
    scale: Floats,
    cost: PointCost,
    metric: bool,
    discount: float,
    level: float,
    seed: int,
    on_cells: _OnCells,
) -> Answer:
    """The answer in units of the scale."""
    from scipy.special import ndtri

    x, y = sides
    few = min(data.n_transitions for data in sides)
    # Before anything is estimated: for identical recordings the answer is exactly 0.
    if _identical(x, y):
        return Answer("identical", 0.0, (0.0, 0.0))
    if few < FEWEST:
        reason = (
            f"found {few} transition{'s' * (few != 1)} on one side, and {FEWEST} on each are the least; record more"
        )
        return Answer("approximate", on_cells.value(), None, reason=reason)
    period = np.full(x.d, np.inf) if x.period is None else x.period
    one, other = (data.mapped(lambda points: points / scale) for data in sides)
    scaled = replace(one, period=period / scale), replace(other, period=period / scale)
    # Few long runs are cut into blocks, because resampling needs many units.
    cut = blocks(scaled)
    units = scaled if cut is None else (cut[0], cut[1])
    question = Question(
        *scaled, units, cut is not None, Ground(cost, Space(period / scale), scale, metric), discount,
        float(ndtri(0.5 + 0.5 * level)), np.random.default_rng(seed), on_cells.value,
    )  # fmt: skip
    try:
        return answer(question)
    except np.linalg.LinAlgError:  # numbers of very different sizes, from a process that diverges
        return Answer("approximate", on_cells.value(), None, reason="the steps are too uneven for a model of a step")


def _identical(x: Trajectories, y: Trajectories) -> bool:
    """Whether both hold the same episodes in the same order."""
    same = np.array_equal(x.boundaries, y.boundaries) and np.array_equal(x.terminated, y.terminated)
    return bool(same and np.array_equal(x.points, y.points))


# --- Records and messages


def _estimate(found: Answer, cells: Cells) -> Estimate:
    """What was taken off for noise, and the standard error."""
    gap = found.plain - found.value
    rho = gap / found.plain if found.plain > 0.0 else 0.0
    units = "sequences" if "starts" in dict(found.tests) else "blocks"
    return Estimate(gap, rho, found.error, cells.saturation, 1, uncut=found.value, units=units)


def _record(found: Answer, cells: Cells, scale: Floats, on_cells: Result, names: tuple[str, ...]) -> Continuous:
    """The additional fields of the result; the former `resolution`, `twin` and `shift_check` are empty."""
    value = float(on_cells.distance)
    resolution = Resolution((cells.n_cells,), (value,), (value,))
    return Continuous(
        cells, resolution, Twin(False, _UNUSED), None, _map_record(found, scale, names), found.route, None,
        found.lower, found.reason,
    )  # fmt: skip


def _map_record(found: Answer, scale: Floats, names: tuple[str, ...]) -> MapFit | None:
    if found.fit is None:
        return None
    T, kind = found.fit.map, found.fit.kind
    # From units of the scale back to the original ones.
    matrix, fixed = scale[:, None] * T.A / scale, scale * T.mean_x
    verdict = "conjugate" if found.mapped else "different"
    # Bonferroni over the tests.
    rejected = tuple(f"{name} differ (p = {p:.3g})" for name, p in found.tests if p < 0.05 / len(found.tests))
    return MapFit(
        verdict, found.value if found.route == "map" else None, describe_map(kind, T, scale, names),
        () if found.mapped else rejected, kind, matrix, scale * T.mean_y - matrix @ fixed, found.tests,
    )  # fmt: skip


def describe_map(kind: str, T: Registration, scale: Floats, names: tuple[str, ...]) -> str:
    """The map as a sentence, in the original units.

    Examples
    --------
    >>> line = Space(np.full(2, np.inf))
    >>> T = Registration(np.eye(2), np.zeros(2), np.array([0.3, 0.4]), line)
    >>> describe_map("shift", T, np.ones(2), ("east", "north"))
    'y behaves as x shifted by (0.3, 0.4) in (east, north)'
    >>> describe_map("scale", Registration(1.2 * np.eye(2), np.ones(2), np.ones(2), line), np.ones(2), ("a", "b"))
    'y behaves as x scaled by 1.20 about (1, 1)'
    """
    where = f"({', '.join(names)})"
    if kind == "same":
        return "y behaves as x"
    if kind == "shift":
        return f"y behaves as x shifted by ({_numbers(scale * T.shift)}) in {where}"
    A, free = T.A, ~T.space.periodic
    # Near a factor of 1 the fixed point is far away and means nothing.
    if kind == "scale" and free.all() and abs(A[0, 0] - 1.0) > 1e-3:
        about = scale * (T.mean_y - A[0, 0] * T.mean_x) / (1.0 - A[0, 0])
        return f"y behaves as x scaled by {A[0, 0]:.2f} about ({_numbers(about)})"
    offset = f", its mean ({_numbers(scale * T.mean_x)}) moved to ({_numbers(scale * T.mean_y)})"
    if kind in ("scale", "stretch"):
        return f"y behaves as x stretched by ({', '.join(f'{a:.2f}' for a in np.diag(A))}) in {where}{offset}"
    rows = "; ".join(_numbers(row) for row in scale[:, None] * A / scale)
    return f"y behaves as M x in {where} with M = [{rows}]{offset}"


def _numbers(values: Floats) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def _message(found: Answer, continuous: Continuous) -> str:
    """The summary sentence."""
    return f"{'Approximated' if found.interval is None else 'Estimated'} from real vectors: {continuous.summary(None)}."


def _notes(found: Answer, sides: tuple[Trajectories, Trajectories], *, interval: bool) -> Iterator[Note]:
    """All notes, most important first; `interval`: whether one was requested."""
    if found.interval is None:
        missing = " and has no interval" if interval else ""
        yield Note("approximate", no_interval=missing, reason=found.reason)
    if found.route == "identical":
        yield Note("same-recording")
    elif _share_copied(sides) > _COPIED:
        yield Note("too-alike")


def _share_copied(sides: tuple[Trajectories, Trajectories]) -> float:
    """Share of the episodes of the shorter recording that the other holds too."""
    # By content: copies may be in another order.
    one, other = ({episode.tobytes() for episode in data.episodes} for data in sides)
    return len(one & other) / min(len(one), len(other))
