"""Checks that need no model: a shift of the user's own recordings, and fewer cells."""

from __future__ import annotations

import warnings

import numpy as np

from somcot.cells import Cells, PointCost, Resolution, ShiftCheck
from somcot.continuous.twin import Question, drawn
from somcot.gaussian import fit
from somcot.inference.estimate import estimate
from somcot.plumbing.arrays import Floats
from somcot.result import Result
from somcot.trajectories import Trajectories

__all__ = ["on_cells", "resolution", "shift_check"]

_SHIFT = 0.5  # in standard deviations, at least
_SHIFT_TWINS = 6
_NOISE = 2.0  # standard deviations of chance, as the twins show it, that are no error


def shift_check(question: Question, answer: float, *, calibrate: bool) -> ShiftCheck | None:
    """Halves of each recording against each other, one of them moved: their distance is that of the shift.

    Common noise attains it and Jensen's inequality forbids less, for any process, as long as the cost is a norm of the
    difference or its square. None where the cost is neither, a recording has no two halves, or all is one point.
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
        found = question.raw(pair[0], _moved(pair[1], move))
        plain.append(found)
        if calibrate:
            said = _said_of_twins(question, pair, move, side)
            corrected.append(found - float(said.mean()) + truth)
            noise = max(noise, _NOISE * float(said.std(ddof=1)))
    final = corrected if calibrate else plain
    off = [max(abs(value - truth) - noise, 0.0) * (1.0 if value > truth else -1.0) for value in final]
    shares = [max(truth + error, 0.0) / truth for error in off]
    worst = max(abs((share**0.5 if square else share) - 1.0) for share in shares)
    return ShiftCheck(truth, float(np.mean(plain)), float(np.mean(corrected)) if calibrate else None, worst)


def _said_of_twins(question: Question, pair: tuple[Trajectories, Trajectories], move: Floats, side: int) -> Floats:
    """What cells say of halves of linear twins, one of them moved."""
    rng = question.rng(2 + side)
    model = fit((question.x, question.y)[side])
    return np.array(
        [
            question.raw(drawn(model, pair[0], rng), _moved(drawn(model, pair[1], rng), move))
            for _ in range(_SHIFT_TWINS)
        ]
    )


def _halves(data: Trajectories) -> tuple[Trajectories, Trajectories] | None:
    """Every other episode; of a single one, its beginning and its end."""
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
    """A unit vector with all coordinates in it, of alternating sign for the second side."""
    signs = np.ones(d) if side == 0 else np.where(np.arange(d) % 2 == 0, 1.0, -1.0)
    return np.asarray(signs / np.sqrt(d))


def _moved(data: Trajectories, move: Floats) -> Trajectories:
    return data.mapped(lambda points: points + move)


def on_cells(
    cells: Cells, cost: Floats, *, discount: float, confidence: float | None, seed: int, threads: int | None
) -> Result:
    """The library's estimate for the recordings on cells.

    Its remarks on single states are not the user's, who knows no cells; that cells forget where in them a point was is
    the subject of the twins.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimate(
            cells.x, cells.y, cost, discount=discount, confidence=confidence, rng=seed, threads=threads, pool_rows=False
        )


def resolution(sizes: list[Cells], cost: PointCost, discount: float, full: Result, threads: int | None) -> Resolution:
    """The answer of cells alone for fewer cells; that of the last is known."""
    found = [
        on_cells(cells, cells.cost(cost), discount=discount, confidence=None, seed=0, threads=threads)
        for cells in sizes[:-1]
    ]
    found.append(full)
    return Resolution(
        tuple(cells.n_cells for cells in sizes),
        tuple(float(result.plugin or 0.0) for result in found),
        tuple(float(result.distance) for result in found),
    )
