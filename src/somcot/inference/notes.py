"""What a user should know before trusting an estimate, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from somcot.inference.crossfit import Plugin
from somcot.inference.model import Model
from somcot.inference.order import forgetful
from somcot.inference.permutation import alike
from somcot.inference.rules import SATURATED, Evidence
from somcot.samples import Samples

__all__ = ["notes"]

_FEW_VISITS = 30
_LISTED = 3  # states that a note names
_HARDLY = 0.75  # rho above which the data hardly tell the distance from 0


def notes(whole: Plugin, evidence: Evidence, by: str = "rows", *, interval: bool = True) -> Iterator[str]:
    """Everything there is to say, in the order of importance.

    `by` is what the standard error was taken from, `interval` whether one was asked for.
    """
    for name, model in zip("xy", whole.models, strict=True):
        if model.samples is not None:
            yield from _of_one_side(name, model, whole.problem.discount, by, interval)
    if isinstance(whole.x.samples, Samples) and isinstance(whole.y.samples, Samples):
        suspicion = alike(whole.x.samples, whole.y.samples)
        if suspicion is not None:
            yield suspicion
    if whole.features is not None:
        yield from _of_features(whole)
    sat = evidence.saturation
    if sat > SATURATED:
        wider = "the interval is wider and " if interval else ""
        yield (
            f"too few data for this horizon (saturation {sat:.1f}, at most 3 is safe): {wider}the "
            f"estimate may still be too high; record about {(sat / SATURATED) ** 2:.2g} times as much, or lower the "
            "discount"
        )
    if evidence.rho > _HARDLY:
        x, y = whole.x.samples, whole.y.samples
        comparable = isinstance(x, Samples) and isinstance(y, Samples) and set(x.states) == set(y.states)
        comparable = comparable and not (whole.features is not None and whole.features.kept_apart)
        yield "the data hardly tell the distance from its least possible value; the correction is active" + (
            ", and somcot.same_process tests whether there is a difference at all" if comparable else ""
        )


def _of_one_side(name: str, model: Model, discount: float, by: str, interval: bool) -> Iterator[str]:
    assert model.samples is not None
    narrow = "interval is too narrow" if interval else "standard error is too small"
    if model.samples.overlap > 1:
        yield (
            f"{name}: steps overlap (sliding=True), so they are not independent and the {narrow}; "
            "read the trajectories with sliding=False"
        )
    elif isinstance(model.samples, Samples) and forgetful(model.samples):
        yield f"{name}: the next state clearly depends on more than the last one (somcot.markov_order), so " + (
            f"the {narrow} and the distance that of simpler processes; use standard_error='episodes', or "
            "make words the states: samples.with_order(2)"
            if by == "rows"
            else "the distance is that of simpler processes; samples.with_order(2) makes words the states"
        )
    visits, occupancy = model.totals[:-1], model.chain.state_occupancy(discount)
    estimated = ~model.samples.terminal
    few = np.flatnonzero((occupancy > 0.01) & (visits < _FEW_VISITS) & estimated & (visits > 0))
    if len(few):
        few = few[np.argsort(-occupancy[few], kind="stable")]
        numbers = [f"{visits[i]} transition(s) out of {model.chain.states[i]!r}" for i in few[:_LISTED]]
        more = f" and few out of {len(few) - _LISTED} more states" if len(few) > _LISTED else ""
        yield (
            f"{name}: only {', '.join(numbers)}{more} recorded, and much time is spent there: the {narrow} "
            "then; record more episodes, or episodes that start there"
        )


def _of_features(whole: Plugin) -> Iterator[str]:
    assert whole.features is not None
    apart = whole.features.disagreement()
    if apart is not None:
        yield f"{apart}; they were pooled; costs.from_features(a, b, pool=False) counts such differences"
