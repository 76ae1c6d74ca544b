"""Linear twins: models of the recordings whose distance is known, on which the bias of cells can be measured.

A linear-Gaussian model is fitted to each recording, recordings of the same shape are drawn from both, and the same
cells are asked for their distance, which is known in closed form. What they say too much on average, they say too much
of the data too: noise of few visits and the coarseness of the cells together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.cells import Cells, PointCost, Twin
from somcot.continuous.curvature import curvature
from somcot.continuous.plain import Counted, raw
from somcot.gaussian import Linear, between, fit
from somcot.plumbing.arrays import Floats
from somcot.plumbing.text import figure, percent
from somcot.trajectories import Trajectories

__all__ = ["Question", "compare", "drawn", "judged"]

N_TWINS = 12
_FEW_TWINS = 6  # of recordings so long that each says as much
_LONG = 200_000
MOST_OUTSIDE = 0.1
MOST_CURVATURE = 0.3
_STRAIGHT = 0.05  # up to which a linear model has all there is to know, however large the correction
_MOST_ENDED = 0.05


class Question(NamedTuple):
    """What is asked about two recordings; coordinates are divided by the scale already."""

    cells: Cells
    x: Trajectories
    y: Trajectories
    cost: PointCost
    discount: float
    seed: int

    def raw(self, x: Trajectories | None = None, y: Trajectories | None = None) -> float:
        """What cells alone say of these, or of other recordings."""
        return raw(self.cells, self.x if x is None else x, self.y if y is None else y, self.cost, self.discount)

    def rng(self, purpose: int) -> np.random.Generator:
        """Random numbers of their own for each purpose, so that none depends on what else was asked."""
        return np.random.default_rng([self.seed, purpose])


def drawn(model: Linear, like: Trajectories, rng: np.random.Generator) -> Trajectories:
    """A recording of the same shape from a linear model; nothing ends in it."""
    return Trajectories(
        np.concatenate(model.record(like.lengths, rng)), like.boundaries, np.zeros_like(like.terminated), like.names
    )


def compare(question: Question) -> Twin:
    """Measure the bias, if linear models can be had; `judged` decides whether it is used."""
    refused = _refused(question)
    if refused:
        return Twin(False, refused)
    x, y = question.x, question.y
    rng = question.rng(1)
    bend = max(curvature(x, rng), curvature(y, rng))
    try:
        models = fit(x), fit(y)
        truth = between(*models, str(question.cost), discount=question.discount).distance
    except ValueError as error:
        return Twin(False, f"there is no linear model with a distance: {error}", curvature=bend)
    n = N_TWINS if x.n_transitions + y.n_transitions <= _LONG else _FEW_TWINS
    own = _shares(question.cells, x, y)
    errors, outside, shares = [], [], []
    for _ in range(n):
        sides = drawn(models[0], x, rng), drawn(models[1], y, rng)
        counted = Counted.of(question.cells, *sides, question.cost)
        errors.append(counted.observed(question.discount) - truth)
        outside.append(np.mean([_outside(twin, data) for twin, data in zip(sides, (x, y), strict=True)]))
        shares.append(0.5 * np.abs(counted.shares() - own).sum(axis=1).mean())  # total variation
    return Twin(
        True, "", float(truth), float(np.mean(errors)), float(np.std(errors, ddof=1)), float(np.mean(outside)),
        float(np.mean(shares)), bend,
    )  # fmt: skip


def judged(twin: Twin, plain: float) -> Twin:
    """Whether the models are near enough to the data to correct what cells say, `plain`."""
    if not twin.used or twin.bias is None or twin.outside is None or twin.curvature is None:
        return twin
    reason = ""
    if twin.outside > MOST_OUTSIDE:
        reason = f"{percent(twin.outside)} of the points of linear models lie where the recordings never are"
    elif twin.curvature > MOST_CURVATURE:
        reason = f"a curved one-step model explains {percent(twin.curvature)} of what a linear one leaves"
    elif -twin.bias > 0.5 * plain and twin.curvature > _STRAIGHT:
        reason = f"the correction, {figure(-twin.bias)}, would raise the value by more than half"
    if reason:
        return twin._replace(used=False, reason=f"linear models do not fit: {reason}")
    return twin._replace(reason="linear models fit" + (", if roughly" if twin.rough else ""))


def _refused(question: Question) -> str:
    """Why there can be no twin, if so."""
    if not isinstance(question.cost, str):
        return "there is no closed form for a cost of one's own"
    if not question.cells.radius.any():
        return "every point is a cell of its own"
    if min(question.x.n_transitions, question.y.n_transitions) < 4 * question.x.d:
        return "there are too few steps for a linear model"
    ended = max(_ended(question.cells, side, question.discount) for side in (0, 1))
    if ended > _MOST_ENDED:
        return f"{percent(ended)} of the discounted time is spent after an end, which linear models do not have"
    return ""


def _ended(cells: Cells, side: int, discount: float) -> float:
    """Share of the discounted time in cells of ends."""
    if not cells.n_ends:
        return 0.0
    chain = cells.recordings[side].chain(check=False)
    return float(chain.state_occupancy(discount)[-cells.n_ends :].sum())


def _outside(twin: Trajectories, data: Trajectories) -> float:
    """Share of points outside the box of the recording."""
    low, high = data.points.min(axis=0), data.points.max(axis=0)
    return float(((twin.points < low) | (twin.points > high)).any(axis=1).mean())


def _shares(cells: Cells, *recordings: Trajectories) -> Floats:
    """Share of the points of each recording in each cell."""
    counts = [np.bincount(cells.assign(data.points), minlength=cells.n_cells) for data in recordings]
    return np.stack([count / count.sum() for count in counts])
