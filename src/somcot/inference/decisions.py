"""Decisions: is a distance below a margin, and how many sequences does it take to find out?

**A margin.** "Equivalent" is shown if the upper end of the interval is below the margin, "changed" if the permutation
test rejects and equivalence is not shown. Both use the resampling of whole sequences of docs/statistics.md. The upper
end is the cautious one of `somcot.inference.intervals`: who has to show that two processes are alike cannot assume that
similar rows are equal, nor rely on half-samples near a kink.

**Planning.** `sample_size` simulates the test itself. One side is drawn from the pilot's own sequences, the other from
the same sequences with a planned change: where it strikes, the sequence goes on like another pilot sequence from there.
The size of the change is chosen so that the distance of the first-order projections, without the noise of the pilot, is
the `effect`. With memory, later steps change too, as other pilot sequences are followed more often; rows change by what
the pilot shows of that beyond chance.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from somcot import costs
from somcot.chains import MarkovChain
from somcot.inference import permutation
from somcot.inference.estimate import EstimateDetails, estimate
from somcot.inference.intervals import SLOPE, SPLITS, Evidence, equivalence_pvalue
from somcot.inference.model import towards, with_rows
from somcot.inference.permutation import Groups, SameProcessResult
from somcot.inference.pooling import Homogeneity, kept_shares
from somcot.inference.statistics import PowerCurve, PowerPoint, bracketed, permute
from somcot.inference.strata import discount_for
from somcot.inference.units import SEQUENCES, WholeSequences
from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.checks import check_discount, check_number, check_positive, check_rng, check_text
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.html import Table, card
from somcot.plumbing.memory import one_blas_thread
from somcot.plumbing.notes import Note, collected
from somcot.plumbing.records import view
from somcot.plumbing.text import figure
from somcot.problem import Problem
from somcot.recorded.transforms import times_reached
from somcot.result import Result
from somcot.samples import Samples
from somcot.solvers import policy_iteration

__all__ = ["KINDS", "SampleSize", "sample_size", "test_with_margin"]

_LEVEL = 0.05  # error rate of either verdict
_CONFIDENCE = 1.0 - 2.0 * _LEVEL  # each end of the interval is exceeded with probability _LEVEL
_PROBABLY = 0.84  # normal quantile of 80 %: the verdict that is aimed at is then probable


# --- Verdicts


def test_with_margin(
    x: Samples, y: Samples, cost: Any, *, discount: float, margin: float, rng: Any, **options: Any
) -> SameProcessResult:
    """`same_process` of two recordings with a verdict; see `somcot.same_process`."""
    check_margin(margin, permutation.pooled_cost(cost, [x, y], x.counted.merge(y.counted)))
    table = costs.between(cost, x, y) if isinstance(cost, str) else cost
    # Both draw one number from `rng`, as `distance` and a test without a margin do: all permute and halve alike.
    test = permutation.same_process(x, y, cost, discount=discount, rng=copy.deepcopy(rng), **options)
    shared: dict[str, Any] = {name: options.get(name) for name in ("strata", "paired_by", "threads")}
    with collected() as notes:  # most were issued by the test, or repeat the verdict
        result = estimate(x, y, table, discount=discount, confidence=_CONFIDENCE, rng=rng, cautious=True, **shared)
    for note in notes:
        if note.code not in _SAID:
            warn(note, DataWarning)
    return _decided(test, result, margin)


_SAID = (
    "near-minimum", "near-minimum-data", "too-alike", "few-sequences", "few-long-recordings", "few-tasks",
    "blocks-dependent",
)  # fmt: skip


def check_margin(margin: object, cost: Floats) -> None:
    """Refuse margins that no distance can be above or below, given the cost between all states of both recordings."""
    number = check_number("margin", margin)
    if isinstance(margin, bool) or not math.isfinite(number):
        raise TypeError(f"margin: found {margin!r}, expected a number, such as 0.05")
    least, most = float(cost.min()), float(cost.max())
    if not least < number < most:
        raise ValueError(
            f"margin: found {number:g}, but the cost and so every distance is between {least:g} and {most:g}; choose a "
            "margin strictly between the two, such as the largest distance that you would not act on"
        )


def _decided(test: SameProcessResult, result: Result, margin: float) -> SameProcessResult:
    assert isinstance(result.details, EstimateDetails)
    assert result.details.evidence is not None
    evidence, units = result.details.evidence
    pvalue = equivalence_pvalue(evidence, (margin - units.offset) / units.scale)
    # The ends of the interval are clipped to the range of the cost, which the margin is inside.
    verdict = "equivalent" if pvalue <= _LEVEL else "changed" if test.pvalue <= _LEVEL else "inconclusive"
    needed = None if verdict != "inconclusive" else _needed(result, evidence, units.offset, units.scale, margin)
    return replace(
        test, margin=margin, verdict=verdict, equivalence_pvalue=pvalue, sequences_needed=needed, distance=result
    )


def _needed(result: Result, evidence: Evidence, offset: float, scale: float, margin: float) -> int:
    """Sequences per side that would probably decide; noise falls with the square root of their number."""
    assert isinstance(result.details, EstimateDetails)
    n = min(model.samples.n_episodes for model in result.details.models if model.samples is not None)
    distance = result.distance
    assert result.confidence_interval is not None
    # Aimed at 80 % rather than even odds; the upper end varies more than the distance, by the bias it subtracts.
    # The next one varies, and so does the present one, from which it is predicted.
    slack = _PROBABLY * math.sqrt(2.0) * (1.0 + SLOPE) * scale * (evidence.linear or evidence.error)
    times = []
    if margin > distance:
        times.append((result.confidence_interval.high - distance + slack) / (margin - distance))
    if distance > offset and evidence.null is not None:
        noise = scale * evidence.scale * float(np.quantile(evidence.null, 1.0 - _LEVEL))
        times.append((noise + slack) / (distance - offset))
    return math.ceil(n * min(max(min(times) ** 2, 1.1), 1e6)) if times else 2 * n


# --- Planning

KINDS = ("rows", "row", "exits", "initial")
_PERMUTATIONS = 199
_PER_ENTRY = 5  # sequences for each transition that was seen; the variance of squared noise is then right within 20 %
_POOL = 4000  # changed sequences from which those of a test are drawn
_UNCERTAIN = 0.07  # error of the power that a plan may have
_MOST_TRANSITIONS = 400_000  # of one side in a simulated test; larger numbers of sequences are extrapolated


@dataclass(frozen=True, eq=False)
class SampleSize:
    """How many sequences a test needs, as returned by `somcot.sample_size`.

    Attributes
    ----------
    n_sequences : int
        Sequences per side.
    effect, power, confidence, kind, discount
        As given to `sample_size`.
    share : float
        How often the change strikes: per step, or per sequence for the initial distribution.
    points : tuple of PowerPoint
        The simulated tests.
    curve : tuple of (float, float)
        Intercept and slope of the power as ``Phi(intercept + slope * sqrt(n))``.
    extrapolated : bool
        Whether `n_sequences` is outside the simulated numbers.
    error : float
        Monte-Carlo standard error of the power with `n_sequences`.
    pilot_error : float
        Standard error of that power as the pilot is a sample too, from halves of it; at most 0.5.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> points = PowerPoint(50, 0.6, 40), PowerPoint(100, 0.9, 40)
    >>> plan = SampleSize(78, 0.1, 0.8, 0.95, "rows", 0.05, 0.9, points, (-2.0, 0.32), False, 0.04, 0.05)
    >>> plan.power_at([78, 200]).round(2).tolist(), len(plan.table().rows)
    ([0.8, 0.99], 2)
    >>> plan.plot().get_xlabel()
    'sequences per side'
    """

    n_sequences: int
    effect: float
    power: float
    confidence: float
    kind: str
    share: float
    discount: float
    points: tuple[PowerPoint, ...]
    curve: tuple[float, float]
    extrapolated: bool
    error: float
    pilot_error: float

    def power_at(self, n: ArrayLike) -> Floats:
        """The power with `n` sequences per side, from the fitted curve."""
        from scipy.special import ndtr

        power: Floats = ndtr(self.curve[0] + self.curve[1] * np.sqrt(np.asarray(n, dtype=np.float64)))
        return power

    def plot(self, ax: object = None) -> Any:
        """Plot the power against the number of sequences; takes and returns matplotlib's Axes."""
        return view("sample_size.plot")(self, ax=ax)

    def __str__(self) -> str:
        about = "about " if self.extrapolated else ""
        return (
            f"{about}{self.n_sequences:,} sequences per side find a distance of {self.effect:g} ({_WHAT[self.kind]}) "
            f"with probability {self.power:g} at confidence {self.confidence:g} (Monte-Carlo error {self.error:.2g}, "
            f"{sum(point.n_simulations for point in self.points):,} simulated tests; error of the pilot "
            f"{self.pilot_error:.2g})"
        )

    def table(self) -> Table:
        """The simulated tests, and the power of the fitted curve, which rises with the number of sequences."""
        rows = [
            (f"{point.n:,}", f"{round(point.power * point.n_simulations)} of {point.n_simulations}", f"{power:.2f}")
            for point, power in zip(self.points, self.power_at([point.n for point in self.points]), strict=True)
        ]
        return Table(("sequences per side", "tests that find it", "power"), rows, "rrr", "Simulated tests")

    def _repr_html_(self) -> str:
        facts = [("effect", f"{figure(self.effect)}, {_WHAT[self.kind]}"), ("confidence", f"{self.confidence:g}")]
        return card(f"{self.n_sequences:,} sequences per side", facts, self.table(), sub=f"{self}.")


_WHAT = {
    "rows": "all states behave a little differently",
    "row": "one state behaves differently",
    "exits": "sequences end earlier",
    "initial": "sequences begin differently",
}


@one_blas_thread
def sample_size(
    pilot: Samples,
    *,
    effect: float,
    power: float = 0.8,
    confidence: float = 0.95,
    kind: str = "rows",
    state: Hashable = None,
    cost: costs.Cost = "labels",
    discount: float | None = None,
    rng: int | np.random.Generator | None = None,
    threads: int | None = None,
) -> SampleSize:
    """How many sequences per side `same_process` needs to find a difference.

    The test is simulated: recordings of one side consist of sequences of the pilot, drawn with replacement, those of
    the other side of the same sequences with a change of the given kind. So memory, lengths and rare states are those
    of the pilot, and the plan is as good as the pilot is typical: memory and long tails need pilots of thousands. Few
    sequences with many different transitions go on like any other in the same state, unless they clearly have memory.

    Parameters
    ----------
    pilot : Samples
        A recording with at least 10 sequences.
    effect : float
        The distance that the test shall find, as `somcot.distance` estimates it: that of the first-order projections,
        in units of the cost.
    power : float
        Probability of finding it.
    confidence : float
        One minus the level of the test.
    kind : {"rows", "row", "exits", "initial"}
        What differs. "rows": at every step, with some probability, the next state is drawn regardless of the present
        one. "row": the same in one state only. "exits": at every step, with some probability, the sequence ends.
        "initial": with some probability, a sequence begins in a state drawn from all visits.
    state : label, optional
        The state for "row"; the most visited one by default.
    cost, discount
        As for `same_process`. By default 1 / (1 - discount) is the mean length of a sequence.
    rng : None, int or numpy.random.Generator
        None uses a fixed seed.
    threads : int, optional
        By default one per core; the result does not depend on it.

    Returns
    -------
    SampleSize

    Examples
    --------
    >>> import somcot
    >>> pilot = somcot.random_walk(4).sample(60, 20, rng=0)
    >>> plan = somcot.sample_size(pilot, effect=0.1, discount=0.9)
    >>> 20 < plan.n_sequences < 200
    True
    """
    _check_plan(pilot, effect, power, confidence, kind)
    seed = int(check_rng(0 if rng is None else rng).integers(2**62))
    gamma = discount_for([pilot]) if discount is None else check_discount(discount)
    chain = pilot.chain(check=False)
    side = chain if isinstance(cost, str) and cost != "features" else pilot
    n_states = pilot.n_states
    table = costs.check_cost(np.asarray(costs.between(cost, side, pilot)), n_states, n_states)
    change = _Change.of(pilot, chain, kind, state)
    least, span = float(table.min()), float(np.ptp(table)) or 1.0
    unit = (table - least) / span
    share, noise = _calibrated(change, unit, gamma, (effect - least) / span, seed)
    original = pilot if change.whole else change.sequences(chain, 0.0, seed + 1)
    changed = change.sequences(change.chain(chain, share), share, seed)
    planned = _Planned(original, changed, unit, gamma, 1.0 - confidence, seed, threads)
    most = max(int(_MOST_TRANSITIONS * original.n_episodes / original.n_transitions), 2 * SEQUENCES)
    points = bracketed(planned.found, power, pilot.n_episodes, (SEQUENCES, most))
    curve = PowerCurve.fitted(points, power)
    n = curve.solved(power)
    uncertain = min(noise * curve.steepness(n), 0.5)  # no standard deviation of a power is larger
    if uncertain > _UNCERTAIN:
        more = math.ceil(pilot.n_episodes * (uncertain / _UNCERTAIN) ** 2)
        warn(Note("small-pilot", error=uncertain, n=pilot.n_episodes, more=more), DataWarning)
    return SampleSize(
        max(n, SEQUENCES), effect, power, confidence, kind, share, gamma, points,
        (curve.intercept, curve.slope), not points[0].n <= n <= points[-1].n, curve.error(n), uncertain,
    )  # fmt: skip


def _check_plan(pilot: object, effect: object, power: object, confidence: object, kind: object) -> None:
    if not isinstance(pilot, Samples) or pilot.offsets is None:
        raise TypeError(f"pilot: found {type(pilot).__name__}, expected Samples with sequences")
    if pilot.n_episodes < SEQUENCES:
        raise ValueError(
            f"pilot: found {pilot.n_episodes} sequences, expected at least {SEQUENCES}; record more, or cut long "
            "recordings into sequences"
        )
    for name, value in (("power", power), ("confidence", confidence)):
        if not isinstance(value, (int, float)) or not 0.5 <= value < 1.0:
            raise ValueError(f"{name}: found {value!r}, expected a number from 0.5 to below 1, such as 0.8")
    if isinstance(confidence, float) and confidence > 0.99:
        raise ValueError(f"confidence: found {confidence:g}, expected at most 0.99 for {_PERMUTATIONS} permutations")
    check_positive("effect", effect)
    check_text("kind", kind)
    if kind not in KINDS:
        raise ValueError(f"kind: found {kind!r}, expected one of {', '.join(map(repr, KINDS))}")


@dataclass(frozen=True, eq=False)
class _Change:
    """A planned change of the pilot: where it may strike, and the distribution of the next state if it does."""

    pilot: Samples
    kind: str
    state: int | None
    ends: Floats  # distribution of the last states of terminated sequences; empty if there are none
    visited: Floats  # distribution of the next state over all transitions

    @property
    def whole(self) -> bool:
        """Whether sequences are kept whole; otherwise they go on, at every step, like any other in that state.

        Few sequences with many transitions seem to have a memory that they do not have, and with it more noise.
        """
        pilot = self.pilot
        return pilot.n_episodes >= _PER_ENTRY * len(pilot.pair_counts.values) or permutation.has_memory(pilot)

    @classmethod
    def of(cls, pilot: Samples, chain: MarkovChain, kind: str, state: Hashable) -> _Change:
        n = pilot.n_states
        visited = np.bincount(pilot.following, minlength=n) / pilot.n_transitions
        ends = np.zeros(0)
        if kind == "exits":
            if not pilot.terminal.any():
                raise ValueError(
                    "kind: 'exits' needs sequences that terminated, and the pilot has none; read it with "
                    "terminated=True or end=, or choose another kind"
                )
            into = np.bincount(pilot.following, minlength=n) * pilot.terminal
            ends = into / into.sum()
        if kind == "initial" and pilot.starts_known:
            raise ValueError("kind: 'initial' needs an initial distribution that is estimated; leave out initial=")
        place: int | None = None
        if kind == "row":
            if state is None:
                place = int(np.argmax(np.where(pilot.terminal, 0.0, chain.state_occupancy(0.9))))
            elif state not in pilot.states:
                raise ValueError(f"state: {state!r} is not a state of the pilot")
            else:
                place = pilot.states.index(state)
        elif state is not None:
            raise ValueError(f"state: only for kind 'row', not for {kind!r}; leave it out")
        return cls(pilot, kind, place, ends, visited)

    def chain(self, original: MarkovChain, share: float, *, memory: bool = True) -> MarkovChain:
        """The chain after the change, with or without what `memory` then changes elsewhere."""
        P: Any = original.transition
        P = np.asarray(P if isinstance(P, np.ndarray) else P.toarray(), dtype=np.float64)
        P = self._followed(P, share) if memory else P
        initial = np.asarray(original.initial)
        if self.kind == "initial":
            visits = self.pilot.visits / self.pilot.n_transitions
            return MarkovChain(P, (1 - share) * initial + share * visits, states=original.states, normalize=True)
        struck = self._open(np.arange(len(P))) & (self.pilot.visits > 0)
        P = np.where(struck[:, None], (1 - share) * P + share * self._target, P)
        return MarkovChain(P, initial, states=original.states, normalize=True)

    @property
    def _target(self) -> Floats:
        return self.ends if self.kind == "exits" else self.visited

    def _open(self, states: Any) -> Any:
        """Where the change may strike."""
        return (states == self.state) if self.kind == "row" else ~self.pilot.terminal[states]

    def _followed(self, P: Floats, share: float) -> Floats:
        """Rows of the pilot's visits, each as often as the changed sequences come to it: memory changes other rows too.

        Without memory the next state does not depend on how a visit is reached, and the rows differ by chance only. The
        weights of the visits determine by how much; a row keeps what is more than that.
        """
        pilot, weights, n = self.pilot, self._reached(share), len(P)
        visits, key = pilot.visits, pilot.now.astype(np.int64) * n + pilot.following
        counts = np.bincount(key, weights, n * n).reshape(n, n)
        totals = counts.sum(axis=1)
        totals[totals == 0.0] = 1.0
        # Variance of a weighted mean of the next states, in units of one of them, beyond that of the mean itself.
        spread = np.bincount(pilot.now, weights**2, n) / totals**2 * visits - 1.0
        df = np.where((visits > 1) & (spread > 1e-6), (P > 0).sum(axis=1) - 1.0, 0.0)
        noise = np.where(df > 0, spread / np.maximum(visits - 1.0, 1.0), 1.0)
        change = np.where((df > 0)[:, None], counts / totals[:, None] - P, 0.0)
        statistic = np.divide(change**2, P, out=np.zeros_like(P), where=P > 0).sum(axis=1) / noise
        return P + kept_shares(Homogeneity(statistic, df, noise)).shares[:, None] * change

    def _reached(self, share: float) -> Floats:
        """How often changed sequences come to each visit of the pilot; they go on from any visit of a drawn state."""
        pilot = self.pilot
        assert pilot.offsets is not None
        begin = np.zeros(pilot.n_transitions)
        begin[pilot.offsets[:-1]] = 1.0 / pilot.n_episodes
        if self.kind == "initial":
            begin = (1 - share) * begin + share / pilot.n_transitions
        struck = share * self._open(pilot.now) * (self.kind != "initial")
        return times_reached(pilot.offsets, begin, struck, (self._target / np.maximum(pilot.visits, 1))[pilot.now])

    def sequences(self, chain: MarkovChain, share: float, seed: int) -> Samples:
        """Sequences of the pilot with the change, whose chain is `chain`: all advance together, step by step."""
        pilot, whole, rng = self.pilot, self.whole, np.random.default_rng([seed, 7])
        assert pilot.offsets is not None
        begins, lengths = pilot.offsets[:-1], np.diff(pilot.offsets)
        ended = np.zeros(pilot.n_episodes, np.bool_) if pilot.terminated is None else pilot.terminated
        n = pilot.n_episodes * math.ceil(_POOL / pilot.n_episodes)  # every sequence equally often
        chosen = np.resize(np.arange(pilot.n_episodes), n)
        at = begins[chosen].copy()  # the pilot's transition that comes next
        # A recording that was cut off is cut off after as many steps; one that terminated may go on.
        budget = np.where(ended[chosen], int(lengths.max()), lengths[chosen])
        begin: Any = pilot.now[at]
        if self.kind == "initial":
            begin = towards(begin, np.asarray(chain.initial), rng)
        struck = (begin != pilot.now[at]) | (not whole)
        at[struck] = self._continued(begin[struck], rng)
        running, done, length = np.arange(n), np.zeros(n, np.bool_), np.zeros(n, np.int64)
        last, closes = np.zeros((2, pilot.n_transitions), np.bool_)
        last[pilot.offsets[1:] - 1] = True
        closes[last] = ended
        columns = [pilot.now[at].copy()]
        while len(running):
            now, step = pilot.now[at[running]], pilot.following[at[running]].copy()
            terminates, breaks = closes[at[running]], last[at[running]] | (not whole)
            struck = (rng.random(len(now)) < (0.0 if self.kind == "initial" else share)) & self._open(now)
            if struck.any():
                step[struck] = rng.choice(pilot.n_states, int(struck.sum()), p=self._target)
                terminates = np.where(struck, pilot.terminal[step], terminates)
                breaks = breaks | struck
            columns.append(np.full(n, -1, np.int32))
            columns[-1][running] = step
            length[running] += 1
            at[running] += 1
            onward = ~terminates & (length[running] < budget[running])
            onward &= ~breaks | (pilot.visits[step] > 0)  # otherwise nothing is known about what follows
            spliced = onward & breaks
            at[running[spliced]] = self._continued(step[spliced], rng)
            done[running[terminates]] = True
            running = running[onward]
        return with_rows(_from_grid(pilot, np.stack(columns, axis=1), length, done), chain, rng)

    def _continued(self, states: Any, rng: np.random.Generator) -> Ints:
        """A random transition of the pilot from each state."""
        first = (np.cumsum(self.pilot.visits) - self.pilot.visits)[states]
        places: Ints = self._order[first + (rng.random(len(first)) * self.pilot.visits[states]).astype(np.int64)]
        return places

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self.pilot.now, kind="stable")


def _from_grid(pilot: Samples, grid: Any, length: Ints, done: Any) -> Samples:
    """Sequences from rows of states, each of `length` steps."""
    keep = np.arange(grid.shape[1] - 1) < length[:, None]
    return replace(
        pilot, now=grid[:, :-1][keep], following=grid[:, 1:][keep], offsets=np.concatenate([[0], np.cumsum(length)]),
        terminated=done, rewards=None, step_rewards=None, episode_attributes={}, times=None,
    )  # fmt: skip


def _calibrated(change: _Change, unit: Floats, discount: float, effect: float, seed: int) -> tuple[float, float]:
    """The share for which the distance is `effect`, on the unit scale, and the relative error of that distance.

    The distance of the changed pilot from the pilot also counts the noise of its rows. Halves of the pilot have twice
    as much, and a change that is planned is no kink: what they have more is subtracted. What memory changes is without
    noise already, as rows keep what is beyond it. Halves show less of it or more by chance: that is error, not bias.
    """

    def reached(part: _Change, share: float, *, memory: bool = True) -> float:
        chain = part.pilot.chain(check=False)
        changed = part.chain(chain, share, memory=memory)
        return policy_iteration.solve(Problem(chain, changed, unit, discount), threads=1).distance

    def solved(target: float) -> float:
        low, high = 0.0, 1.0
        while high - low > 2e-3 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if reached(change, middle) < target else (low, middle)
        return high

    most = reached(change, 1.0)
    if most <= effect:
        raise ValueError(
            f"effect: found {effect:g}, but a change of kind {change.kind!r} reaches a distance of {most:.3g} at "
            "most, in units of the range of the cost; choose a smaller effect or another kind"
        )
    share, rng = solved(effect), np.random.default_rng([seed, 5])
    halves = [
        replace(change, pilot=change.pilot.take(np.sort(part)))
        for _ in range(SPLITS)
        for part in np.array_split(rng.permutation(change.pilot.n_episodes), 2)
    ]
    noisy = float(np.mean([reached(half, share, memory=False) for half in halves]))
    rise = max(noisy - reached(change, share, memory=False), 0.0)
    # Distances of small changes are proportional to the share. If noise makes most of it, the share is the largest one.
    plugin = reached(change, share)
    distance = max(plugin - rise, 1e-9)
    error = float(np.std([reached(half, share) for half in halves], ddof=1))
    return solved(effect * plugin / distance), error / distance


@dataclass(frozen=True, eq=False)
class _Planned:
    """The simulated test."""

    original: Samples
    changed: Samples
    cost: Floats
    discount: float
    level: float
    seed: int
    threads: int | None

    def found(self, n: int, tests: range) -> int:
        """How many of the tests find the change; each number of sequences has random numbers of its own."""
        found = 0
        for k in tests:
            rng = np.random.default_rng([self.seed, n, k])
            x, y = (side.take(rng.integers(side.n_episodes, size=n)) for side in (self.original, self.changed))
            groups = Groups(WholeSequences.of([x, y]), self.cost, self.discount)
            found += permute(groups, self.seed + k, _PERMUTATIONS, threads=self.threads).pvalue <= self.level
        return found
