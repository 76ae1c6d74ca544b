"""From what the splits and the pooled rows say to an estimate and its interval: the rules of docs/statistics.md.

Everything is in units of the unit cost, where the least possible distance is 0. All constants were chosen once, on
families of their own; none depends on the discount or on the number of states.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from somcot.result import Bounds

__all__ = ["Evidence", "Halves", "correct", "interval"]

HALF_SAMPLE = 2.0 + math.sqrt(2.0)  # turns the rise from full to half samples into units of the gap
SATURATED = 3.0  # accumulated error of the kernels above which data are too few


class Halves(NamedTuple):
    """What random halves of the data say, means over all of them.

    Attributes
    ----------
    gap : float
        What one half's coupling loses against the other's potentials.
    distance : float
        Of a half.
    value : float
        Cross-fitted: one half's potentials evaluated on the other, to first order. May be negative.
    """

    gap: float
    distance: float
    value: float


class Evidence(NamedTuple):
    """All that the rules look at.

    Attributes
    ----------
    plugin, error, saturation : float
        The distance of the estimated chains, its standard error, and how far the data are too few.
    halves : Halves or None
        None where the data were not split.
    pooled : float or None
        Distance of the pooled kernels; None where the states differ. One of the two is there.
    """

    plugin: float
    error: float
    saturation: float
    halves: Halves | None
    pooled: float | None

    @property
    def gap(self) -> float:
        """The effective gap; without splits, what it would be at a kink: sqrt(2) times what pooling takes off."""
        if self.halves is None:
            assert self.pooled is not None
            return math.sqrt(2.0) * max(self.plugin - self.pooled, 0.0)
        return max(self.halves.gap, HALF_SAMPLE * (self.halves.distance - self.plugin), 0.0)

    @property
    def rho(self) -> float:
        """The gap relative to the plug-in; 0 where that is 0."""
        return self.gap / self.plugin if self.plugin > 0.0 else 0.0

    @property
    def uncut(self) -> float:
        """The corrected value without cuts and switches, for ranking: it may be negative."""
        if self.halves is None:
            assert self.pooled is not None
            return self.pooled
        return self.halves.value


def correct(evidence: Evidence) -> float:
    """The estimate: between 0 and the plug-in.

    Examples
    --------
    >>> correct(Evidence(0.2, 0.01, 0.1, Halves(0.0, 0.2, 0.2), None))  # the halves agree: nothing to correct
    0.2
    >>> correct(Evidence(0.2, 0.01, 0.1, Halves(0.3, 0.28, 0.0), None))  # they do not agree at all
    0.0
    >>> correct(Evidence(0.2, 0.01, 0.1, Halves(0.1, 0.22, 0.1), 0.15))  # same states: the pooled rows decide
    0.15
    """
    if evidence.plugin <= 0.0:
        return 0.0
    if evidence.pooled is None:
        return max(0.0, evidence.plugin - _taken_off(evidence))
    pooled = min(evidence.pooled, evidence.plugin)
    return pooled if evidence.halves is None else max(pooled, evidence.plugin - _most_taken_off(evidence), 0.0)


def interval(evidence: Evidence, confidence: float) -> Bounds:
    """Interval for the true distance, which holds the estimate.

    Examples
    --------
    >>> low, high = interval(Evidence(0.5, 0.1, 0.1, Halves(0.0, 0.5, 0.5), None), 0.9)
    >>> round(low, 4), round(high, 4)
    (0.3355, 0.6645)
    """
    from scipy.special import ndtri

    margin = float(ndtri(0.5 + 0.5 * confidence)) * evidence.error
    plugin, quarter = evidence.plugin, evidence.gap / 4.0
    if evidence.pooled is None:
        return Bounds(_lowest(evidence, margin), max(0.0, plugin - quarter) + margin)
    estimate, pooled = correct(evidence), min(evidence.pooled, plugin)
    high = estimate + (plugin - estimate) / 4.0
    if evidence.halves is None:  # a quarter of what was taken off is in doubt, on either side
        return Bounds(max(0.0, pooled - (plugin - pooled) / 4.0 - margin), high + margin)
    low = min(max(0.0, pooled - margin), _lowest(evidence, margin))
    return Bounds(low, max(high, plugin - quarter) + margin)


def _ramp(x: float, a: float, b: float) -> float:
    return min(max((x - a) / (b - a), 0.0), 1.0)


def _shift(evidence: Evidence) -> float:
    """D: what the cross-fitted value is below the plug-in."""
    assert evidence.halves is not None
    return max(evidence.plugin - evidence.halves.value, 0.0)


def _is_kinked(evidence: Evidence) -> float:
    """Between 0 and 1: whether D is large enough against noise and gap to be the bias of a kink."""
    assert evidence.halves is not None
    shift, gap = _shift(evidence), evidence.halves.gap
    if shift <= 0.0 or gap <= 0.0:
        return 0.0
    against_noise = _ramp(shift / evidence.error, 0.5, 1.5) if evidence.error > 0.0 else 1.0
    return against_noise * _ramp(shift / gap, 0.5, 0.65)


def _taken_off(evidence: Evidence) -> float:
    """B, where the states differ: a quarter of the gap where the distance is smooth, D at kinks, the gap near 0."""
    assert evidence.halves is not None
    gap, rho, shift = evidence.gap, evidence.rho, _shift(evidence)
    kinked = _is_kinked(evidence)
    if kinked > 0.0:
        rise = (evidence.halves.distance - evidence.plugin) / shift
        kinked *= max(_ramp(rise, 0.30, 0.38), _ramp(rho, 0.6, 0.9))
    bias = kinked * shift + (1.0 - kinked) * gap / 4.0
    near_zero = 0.25 + 0.75 * _ramp(rho, 0.75, 1.25)
    return max(near_zero * gap, min(max(bias, gap / 4.0), gap))


def _lowest(evidence: Evidence, margin: float) -> float:
    """Lower end from the splits."""
    gap, rho, kinked = evidence.gap, evidence.rho, _is_kinked(evidence)
    bias = min(max(kinked * _shift(evidence) + (1.0 - kinked) * gap / 4.0, gap / 4.0), gap)
    off = 1.2 * bias
    most = 1.5 if evidence.saturation > SATURATED else 1.25
    off += _ramp(rho, 0.4, 0.8) * max(most * gap - off, 0.0)
    return max(0.0, evidence.plugin - off - margin)


def _most_taken_off(evidence: Evidence) -> float:
    """How far below the plug-in the pooled rows may go, for small shifts of many rows in the same direction."""
    assert evidence.halves is not None
    most = 1.2 + 0.8 * _ramp(evidence.rho, 0.6, 0.9)
    return most * max(evidence.plugin - evidence.halves.value, evidence.gap / 4.0)
