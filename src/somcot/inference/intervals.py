"""The estimate and its interval, in closed form, from permutations and half-samples (docs/statistics.md).

The distance d of two estimated chains is biased upward. Let f(v) be its mean if the variance of the noise is v times
that of the data: f(1) is what d estimates, f(0) is the truth, and random halves of the data, drawn without replacement,
have exactly twice the variance, so their mean estimates f(2). The rise f(2) - f(1) bounds the bias f(1) - f(0):

    smooth distance    f(v) = A + B v         bias = rise                    straight = d - rise
    kink at 0          f(v) = A + B sqrt(v)   bias = (1 + sqrt 2) rise       kink     = d - k rise

f lies between the two, so kink <= truth <= straight. Where both recordings are permuted, the truth is 0 and the whole
distance is bias: there the factor k is measured, since thin rows, which half-samples lose, make it larger than
1 + sqrt 2. Permutations also give the size K of the distance of equal processes, its quantile q, and a p-value. By the
triangle inequality d - q is a lower bound, and it is above 0 exactly where the test rejects, so the two agree.

These limits hold wherever the difference lies. Rows that the data cannot distinguish are pooled; the noise of the data,
added to the pooled rows, shows how much pooling may have removed, and so where the upper end may be (`Pooled`).

Who has to show that two processes are alike needs more: the cautious upper end pools no rows. To second order the
distance is convex in the noise, so it is at least the truth plus the linear part of the noise, and d + t s is an upper
bound, where s is the standard error of that part. It is found by leaving out folds of sequences; half-samples show less
near a kink, which folds their noise over. The bias b is subtracted only as far as it is certain: it is measured on data
that contain the noise, and where a kink makes it, it falls by half of what the noise adds to d. So it may be too large
by t s / 2 just where d is too small.

All values are on the unit-cost scale, where the smallest possible distance is 0.

>>> import warnings
>>> import somcot
>>> from somcot.inference.estimate import plugin
>>> from somcot.inference.model import bootstrap, fit, saturation, standard_error
>>> x, y = (somcot.random_walk(4, theta).sample(200, 20, rng=k) for k, theta in enumerate((0.5, 0.7)))
>>> models = fit(x, "x"), fit(y, "y")
>>> 0 < saturation(models, 0.9) < 3
True
>>> found = plugin(x, y, somcot.costs.labels(x.states, y.states), discount=0.9)
>>> with warnings.catch_warnings():
...     warnings.simplefilter("ignore", DeprecationWarning)
...     error = standard_error(*models, found.gradient)
...     low, high = bootstrap(found.details, found.distance, 0.9, 20, np.random.default_rng(0))
>>> low < found.distance < high, 0 < error < 0.1
(True, True)
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from somcot.costs import FeatureCost
from somcot.inference.comparison import AgainstKnown, Comparison, Draws, Exchangeable, Halves, Separate, on_entries_of
from somcot.inference.model import bootstrap, row_shares, saturation, standard_error
from somcot.inference.pooling import Kept, calibrated, design_effect, kept_shares, kept_shares_of_many
from somcot.inference.statistics import Expansion, Permuted, permute
from somcot.inference.step_rewards import Earnings
from somcot.plumbing.arrays import Floats

__all__ = [
    "KINK", "LEFT_OUT", "PERMUTATIONS", "SLOPE", "Bar", "Evidence", "Gathered", "Interval", "Pooled", "bootstrap",
    "correction", "equivalence_pvalue", "gather", "interval_of", "saturation", "standard_error", "with_linear_part",
]  # fmt: skip

KINK = 1.0 + math.sqrt(2.0)  # bias over rise where the noise alone makes the distance, f(v) = B sqrt(v)
SLOPE = 0.5  # mean slope of the rise in the noise at a kink: 2 P(Z' > |Z|) for two standard normal variables
_LEAN = 1.2  # the slope of `kink` in the noise is 1 where the distance is smooth, and 1 + _LEAN at a kink
SPLITS = 20  # random splits into halves, both of which are used
PERMUTATIONS = 199  # as for `same_process`, so that both give the same p-value
AT_LEAST = 100  # ... although a clear case stops earlier
LEFT_OUT = 0.02  # occupancy of the pairs that half-samples leave out
_FACTOR_DRAWS = 3  # permutations that are solved and halved again, for the factor of the rise
_FIRST_FACTOR = 1 << 41  # their first index; tests use smaller ones
_MOST = 4.0  # largest factor, in units of KINK
LEAST = 1e-6  # lower end where the test rejects but no bound is above 0


class Pooled(NamedTuple):
    """The distance after rows that the data cannot distinguish are pooled, and what that may have removed.

    Attributes
    ----------
    distance : float
    error : float
        Standard deviation of the same over half-samples, each pooled by its own tests.
    misfit : float
        The plug-in minus its mean if the pooled processes were the truth.
    """

    distance: float
    error: float
    misfit: float


class Evidence(NamedTuple):
    """The statistics of the data from which the interval follows.

    Attributes
    ----------
    plugin : float
        The distance of the estimated chains.
    half, error : float
        Mean and standard deviation of the distance over half-samples; the latter is the standard error of `plugin`.
    null : ndarray, shape (n_permutations,), or None
        First-order distances of permuted recordings; None if the two cannot be exchanged.
    observed : float
        The first-order distance of the data, for comparison with `null`.
    pvalue : float or None
        Of "the same process", from the same permutations.
    pooled : Pooled or None
        The distance after rows that the data cannot distinguish are pooled.
    factor : float
        Bias over rise, measured on permuted recordings; at least `KINK`.
    linear, df : float or None
        Standard error of the linear part of the noise, with its degrees of freedom, for the cautious upper end.
    """

    plugin: float
    half: float
    error: float
    null: Floats | None = None
    observed: float = math.nan
    pvalue: float | None = None
    pooled: Pooled | None = None
    factor: float = KINK
    linear: float | None = None
    df: float = math.inf

    @property
    def rise(self) -> float:
        """Increase of the distance when the variance of the noise doubles."""
        # The mean of few halves may fall below the plug-in by chance.
        return max(self.half - self.plugin, 0.0)

    @property
    def kink(self) -> float:
        """The distance if noise alone makes the bias: the lowest value, possibly below 0."""
        return self.plugin - self.factor * self.rise

    @property
    def straight(self) -> float:
        """The distance if it is a smooth function of the rows: the highest value."""
        return max(self.plugin - self.rise, 0.0)

    @property
    def scale(self) -> float:
        """The distance relative to its expansion at the pooled process, which is at least as large."""
        return min(1.0, self.plugin / max(self.observed, 1e-12))

    @property
    def expected(self) -> float:
        """K: the mean distance of two recordings of the same process; 0 if unknown."""
        return 0.0 if self.null is None else self.scale * float(np.mean(self.null))

    @property
    def noise_share(self) -> float:
        """Between 0 and 1: the share of the distance that equal processes would show as well."""
        noise = self.factor * self.rise if self.null is None else self.expected
        return min(1.0, noise / max(self.plugin, 1e-12))


class Interval(NamedTuple):
    """An estimate and the ends of its interval."""

    estimate: float
    low: float
    high: float


class Bar(NamedTuple):
    """What the first-order distance must exceed, whether it does, and that distance."""

    level: float
    exceeded: bool
    observed: float


def interval_of(evidence: Evidence, confidence: float = 0.9, *, n_joint: int = 1, bar: Bar | None = None) -> Interval:
    """The estimate and its interval.

    With `n_joint` intervals that shall hold together, each end has that share of the error; `bar` then replaces the
    test of this pair by a joint one.

    Examples
    --------
    >>> interval_of(Evidence(0.5, 0.5, 0.1))  # half-samples are not higher: nothing to correct
    Interval(estimate=0.5, low=0.3355..., high=0.6644...)
    >>> interval_of(Evidence(0.2, 0.283, 0.02))  # all of it may be noise
    Interval(estimate=0.058..., low=0.0, high=0.150...)
    """
    tail = 0.5 - 0.5 * confidence
    z = -NormalDist().inv_cdf(tail / n_joint)
    d, floor = evidence.plugin, max(evidence.kink, 0.0)
    estimate = _estimate(evidence, tail)
    # Wider towards a kink, where the distance reacts more strongly to noise.
    low = max(evidence.kink - (1.0 + _LEAN * evidence.noise_share) * z * evidence.error, 0.0)
    if evidence.null is not None:
        if bar is None:
            assert evidence.pvalue is not None
            # A sum such as 0.5 - 0.5 * 0.9 is not exactly 0.05; p = 0.05 rejects.
            level = float(np.quantile(evidence.null, 1.0 - tail / n_joint))
            bar = Bar(level, evidence.pvalue <= tail / n_joint + 1e-9, evidence.observed)
        scale = min(1.0, d / max(bar.observed, 1e-12))
        # A rejected null hypothesis means a positive distance, so 0 must be excluded even if no bound does.
        low = max(d - scale * bar.level, low, LEAST) if bar.exceeded else 0.0
    low = min(low, max(d, floor))
    high = min(max(_upper(evidence, tail / n_joint), low), max(1.0, low))
    if evidence.pooled is not None and evidence.linear is None:
        high = max(min(high, _above_pooled(evidence, evidence.pooled, z, low)), low)
    return Interval(min(max(estimate, low), high), low, high)


def correction(plugin: float, compared: float, estimate: float) -> str:
    """What was estimated, in a sentence; `compared` has rows that only one recording has left on both sides.

    Examples
    --------
    >>> correction(0.5, 0.5, 0.4)
    'Estimated from data: 0.5 for the estimated chains (solved exactly), minus 0.1 for the estimated bias.'
    >>> correction(0.3, 0.5, 0.4).partition(":")[2].partition(", minus")[0]
    ' 0.5 where rows that only one recording has left are the same (0.3 for the estimated chains, solved exactly)'
    """
    text = f"{plugin:.6g} for the estimated chains (solved exactly)"
    if not math.isclose(plugin, compared, rel_tol=1e-6, abs_tol=1e-9):
        same = "where rows that only one recording has left are the same"
        text = f"{compared:.6g} {same} ({plugin:.6g} for the estimated chains, solved exactly)"
    else:
        compared = plugin
    return f"Estimated from data: {text}, minus {compared - estimate:.2g} for the estimated bias."


def equivalence_pvalue(evidence: Evidence, margin: float) -> float:
    """The level at which the upper end of the interval meets the margin: p-value of "at least this far apart".

    Examples
    --------
    >>> round(equivalence_pvalue(Evidence(0.05, 0.05, 0.01), 0.05 + 1.645 * 0.01), 3)
    0.05
    """

    def high(tail: float) -> float:
        return interval_of(evidence, 1.0 - 2.0 * tail).high

    low, tail = 1e-9, 0.5
    if high(tail) >= margin:
        return 1.0
    if high(low) < margin:
        return low
    for _ in range(60):
        middle = math.sqrt(low * tail)
        low, tail = (low, middle) if high(middle) < margin else (middle, tail)
    return tail


def _estimate(evidence: Evidence, tail: float) -> float:
    """The plug-in minus its bias if the pooled processes were the truth, within the bracket [kink, straight].

    Without pooled rows, the middle of the bracket; its upper limit is then at most sqrt(d^2 - K^2), the distance if
    differences are spread over the rows as noise is.
    """
    d, noise, pooled = evidence.plugin, evidence.expected, evidence.pooled
    # Two recordings of one process would show as much.
    if evidence.null is not None and d <= noise:
        return 0.0
    floor = max(evidence.kink, 0.0)
    if pooled is None:
        return 0.5 * (floor + max(min(evidence.straight, math.sqrt(max(d * d - noise * noise, 0.0))), floor))
    estimate = min(max(pooled.distance + pooled.misfit, floor), max(evidence.straight, floor))
    rejected = evidence.pvalue is None or evidence.pvalue <= tail + 1e-9
    # If the test does not reject, the misfit may be noise, so it is not added.
    return estimate if rejected else min(estimate, pooled.distance)


def _upper(evidence: Evidence, tail: float) -> float:
    """Upper end: the smooth bias, which is the least there can be, is subtracted, and the error added.

    A rise above that of a kink is chance, not bias, so the rest of it widens the interval.
    """
    bias = min(evidence.rise, evidence.plugin / KINK)
    if evidence.linear is None:
        # Not SciPy's, whose import takes longer than a comparison of two small logs.
        return evidence.plugin - bias - NormalDist().inv_cdf(tail) * math.hypot(evidence.error, evidence.rise - bias)
    from scipy.special import stdtrit

    step = float(stdtrit(min(evidence.df, 1e6), 1.0 - tail)) * evidence.linear
    return evidence.plugin + step - max(bias - SLOPE * step, 0.0)


def _above_pooled(evidence: Evidence, pooled: Pooled, z: float, low: float) -> float:
    """Upper end if the true processes lie between the pooled ones and the data.

    On that line the mean of the plug-in rises from d - misfit at the pooled processes to d + rise at the data, here as
    a straight line; the end is where it is above d by the error. Beyond the data the slope is 1, as in `_upper`.
    """
    centre = max(min(pooled.distance, evidence.straight), low)
    gap = max(pooled.misfit + z * math.hypot(evidence.error, pooled.error), 0.0)
    path = max(pooled.misfit + evidence.rise, 0.0)
    share = 1.0 if gap >= path else gap / path
    return centre + share * max(evidence.plugin - centre, 0.0) + max(gap - path, 0.0)


# --- Gathering the evidence


class Gathered(NamedTuple):
    """The evidence, and more that users may look at.

    Attributes
    ----------
    evidence : Evidence
    halves : ndarray, shape (2 * SPLITS,)
        The distances of half-samples.
    kept : ndarray or None
        The share of each row's difference that was kept by pooling, initial row last.
    equal : float or None
        Share of the rows judged equal.
    effect : float
        Design effect of the rows: 1 if transitions are as good as independent.
    n_solves : int
    """

    evidence: Evidence
    halves: Floats
    kept: Floats | None
    equal: float | None
    effect: float
    n_solves: int


def gather(
    comparison: Comparison,
    seed: int,
    *,
    n_permutations: int = PERMUTATIONS,
    features: FeatureCost | None = None,
    scale: float = 1.0,
    pool: bool = True,
    own: Expansion | None = None,
    cautious: bool = False,
    threads: int | None = None,
) -> Gathered:
    """Permute and halve the data, and evaluate all draws to first order around two solved centres.

    `own` is the centre at the data, if that is solved already. `features` is the source of an estimated cost, in units
    of `scale`: its noise is part of the half-samples. With ``pool=False``, rows are not pooled; with `cautious`, the
    upper end is the cautious one.
    """
    if own is None:
        own = _solved(comparison, comparison.observed)
    halves = comparison.halves(seed, SPLITS)
    values, noise = _with_noise(comparison, own, halves.draws, features, scale, seed)
    evidence = Evidence(own.value, float(values.mean()), float(values.std(ddof=1)))
    if cautious:
        evidence = with_linear_part(comparison, own, evidence, seed, float(noise.var()))
    if isinstance(comparison, Separate):
        return Gathered(evidence, values, None, None, 1.0, 1)
    test = permute(comparison, seed, n_permutations, both=comparison.separates, at_least=AT_LEAST, threads=threads)
    evidence = evidence._replace(
        null=test.null.distance,
        observed=float(test.observed.distance[0]),
        pvalue=test.pvalue,
        factor=_factor(comparison, seed),
    )
    tests = comparison.tests(comparison.counts)
    # Memory within sequences makes rows more variable than their tests assume, so the effect is needed first.
    effect = design_effect(tests, test.rows)
    kept = kept_shares(calibrated(tests, test.rows, effect))
    if pool and comparison.can_shrink:
        evidence = evidence._replace(pooled=_pooled(comparison, halves, kept, test, effect))
    return Gathered(evidence, values, kept.shares, kept.equal, effect, 3 + _FACTOR_DRAWS)


def with_linear_part(
    comparison: Comparison, own: Expansion, evidence: Evidence, seed: int, variance: float = 0.0
) -> Evidence:
    """Evidence with the standard error of the linear part, which makes the upper end the cautious one.

    Each fold of sequences that is left out changes the distance by its influence. The sum of their squares is the
    variance of the linear part; if few sequences have most of it, it is itself uncertain, which the degrees of freedom
    of Satterthwaite express. `own` is the expansion at the data, `variance` that of noise outside the sequences.
    """
    left_out = comparison.without_folds(seed) if isinstance(comparison, Exchangeable) else None
    if left_out is None:  # single transitions
        return evidence._replace(linear=evidence.error, df=float(SPLITS))
    influence = own.value - _values(comparison, own, left_out.draws)
    sizes = np.bincount(left_out.sides)
    # A kink lifts all of them; only their spread is noise.
    squares = (influence - (np.bincount(left_out.sides, influence) / sizes)[left_out.sides]) ** 2
    total = float(squares.sum())
    # The variance of a sum of n squares; if they are those of normal variables, df is n.
    doubt = float((squares**2).sum() - (np.bincount(left_out.sides, squares) ** 2 / sizes).sum())
    df = max(2.0 * total**2 / doubt, 1.0) if doubt > 0.0 else float(SPLITS)
    return evidence._replace(linear=math.sqrt(total + variance), df=df)


def _pooled(
    comparison: Exchangeable | AgainstKnown, halves: Halves, kept: Kept, test: Permuted, effect: float
) -> Pooled:
    """The distance after pooling rows, its error, and its misfit.

    The noise of the data is that of half-samples about them. Added to the pooled rows, it shows what the plug-in would
    be if these were the truth.
    """
    assert halves.counts is not None
    once = comparison.shrunk(comparison.counts[None], kept.shares[None])
    # Pooled rows are nearly equal, so the potential of the pooled process is close.
    centre = _solved(comparison, Draws(once.p[0], once.q[0]), guess=comparison.expansion.V)
    shares = kept_shares_of_many(calibrated(comparison.tests(halves.counts), test.rows, effect), kept.prior)
    again = _values(comparison, centre, comparison.shrunk(halves.counts, shares))
    noisy = [
        # The deviations of the halves from the data, added to the pooled rows and cut off at 0.
        row_shares(support, np.maximum(rows + half - own, 0.0), rows)
        for support, rows, half, own in zip(comparison.supports, once, halves.draws, comparison.observed, strict=True)
    ]
    plugins = _values(comparison, centre, Draws(*noisy))
    observed = Draws(*(own[None] for own in comparison.observed))
    misfit = float(_values(comparison, centre, observed)[0] - plugins.mean())
    return Pooled(centre.value, float(again.std(ddof=1)), misfit)


def _solved(comparison: Comparison, draws: Draws, **options: Any) -> Expansion:
    x, y = (on_entries_of(support, p) for support, p in zip(comparison.supports, draws, strict=True))
    earnings = _earnings(comparison)
    cost = comparison.cost if earnings is None else earnings.cost(*draws)
    return Expansion.at(x, y, cost, comparison.discount, left_out=LEFT_OUT, **options)


def _values(
    comparison: Comparison, centre: Expansion, draws: Draws, noise: tuple[Floats, Floats] | None = None
) -> Floats:
    """First-order distances of many draws, each with the features that belong to it."""
    (x, y), earnings = comparison.supports, _earnings(comparison)
    values = centre.values(x, draws.p, y, draws.q)
    return values if earnings is None else values + earnings.change(centre, *draws, noise)


def _earnings(comparison: Comparison) -> Earnings | None:
    return None if isinstance(comparison, AgainstKnown) else comparison.earnings


def _factor(comparison: Exchangeable | AgainstKnown, seed: int) -> float:
    """Bias over rise where the truth is 0: permuted recordings are solved, and halved again.

    It is 1 + sqrt 2 if rows are well filled, and larger if half-samples lose rows or the distance saturates.
    """
    bias = rise = 0.0
    for index in range(_FIRST_FACTOR, _FIRST_FACTOR + _FACTOR_DRAWS):
        whole, halves = comparison.factor_draw(seed, index)
        centre = _solved(comparison, whole)
        bias += centre.value
        rise += float(_values(comparison, centre, halves).mean()) - centre.value
    # Pure noise is the least; few draws make the ratio unreliable, hence the upper limit.
    return min(max(KINK, bias / max(rise, 1e-12)), _MOST * KINK)


def _with_noise(
    comparison: Comparison, own: Expansion, draws: Draws, features: FeatureCost | None, scale: float, seed: int
) -> tuple[Floats, Floats]:
    """Distances of half-samples with the noise of their rewards, and what that noise adds."""
    values, earnings = _values(comparison, own, draws), _earnings(comparison)
    if features is None:
        return values, np.zeros(1)
    if earnings is None:
        noise = _noise_of(comparison, own, features, scale, seed)
        return values + noise, noise
    noisy = _values(comparison, own, draws, earnings.noise(seed, SPLITS))
    return noisy, noisy - values


def _noise_of(comparison: Comparison, own: Expansion, features: FeatureCost, scale: float, seed: int) -> Floats:
    """Change of the distance by the noise of estimated rewards, one number per half; two halves deviate oppositely."""
    # Those of both processes, if the expansion is on their union.
    states = None if isinstance(comparison, Separate) else comparison.states
    rng = np.random.default_rng([seed, 2])
    signed, changes = features.placed(features.signed, states), []
    for _ in range(SPLITS):
        noise = features.placed(features.noise(rng), states)
        tables = np.stack([np.abs(signed + sign * noise) for sign in (1.0, -1.0)])
        changes.append(own.mean(tables - np.abs(signed)) / scale)
    return np.concatenate(changes)
