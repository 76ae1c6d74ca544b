"""Ways from two registered recordings to the distance: a map, optimal transport of episodes, linear models, a pair.

Each returns an `Answer`, or declines with a reason. In this module costs add up "in squares" if the cost is a metric
(noise adds to a difference like a perpendicular leg to a norm), and linearly otherwise, as for the squared cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from somcot.continuous.moments import (
    Ground,
    Moments,
    Registration,
    Resampled,
    Side,
    Space,
    choose_kind,
    kinds_in,
    lower_bound,
    resampled,
    squared_cost,
)
from somcot.continuous.onestep_models import curvature, scatter_share
from somcot.continuous.pair import Pair
from somcot.continuous.register import Fit, Shared, episode_tests, refine, some_units
from somcot.gaussian import Linear, between
from somcot.gaussian.linear import factor
from somcot.plumbing.arrays import Floats
from somcot.plumbing.text import percent
from somcot.trajectories import Trajectories

__all__ = ["Answer", "Question", "answer"]

FEWEST = 20  # units of each side below which nothing can be tested
_BOOTSTRAP = 200
_LEVEL = 0.05  # of all tests of a map together
_TRIED = 3  # kinds of maps


class Answer(NamedTuple):
    """A value, its interval (None: approximate, for the reason given), and where they come from.

    `plain` is the value before the correction for noise, and `error` its standard error.
    """

    route: str
    value: float
    interval: tuple[float, float] | None
    plain: float = 0.0
    error: float = 0.0
    reason: str = ""
    lower: float = 0.0
    fit: Fit | None = None
    tests: tuple[tuple[str, float], ...] = ()
    mapped: bool = False  # y was not distinguished from the image of x


class Question(NamedTuple):
    """Two recordings in units of the scale, with the cost, the discount and the level of the interval."""

    x: Trajectories
    y: Trajectories
    units: tuple[Trajectories, Trajectories]
    stationary: bool  # units are blocks of long runs
    ground: Ground
    discount: float
    z: float  # quantile of the interval
    rng: np.random.Generator
    fallback: Callable[[], float]  # an approximate value where no model has one

    @property
    def space(self) -> Space:
        """The coordinates."""
        return self.ground.space

    def squared(self, values: Any) -> Any:
        """Costs on the scale on which they add up."""
        return np.square(values) if self.ground.metric else values

    def root(self, value: float) -> float:
        """The cost of a sum on that scale."""
        value = max(value, 0.0)
        return float(np.sqrt(value)) if self.ground.metric else float(value)


class _Registered(NamedTuple):
    """Moments, their bootstrap, the best map and the tests of the remaining difference."""

    sides: tuple[Side, Side]
    moments: tuple[Moments, Moments]
    bootstrap: Resampled
    used: tuple[Trajectories, Trajectories]
    fit: Fit
    tests: dict[str, float]
    accepted: bool


def answer(question: Question) -> Answer:
    """Register, test, and take the first way that applies."""
    few = min(side.n_episodes for side in question.units)
    if few < FEWEST:
        what = "blocks" if question.stationary else "episodes"
        return Answer(
            "approximate", question.fallback(), None,
            reason=f"one side has {few} {what}, and {FEWEST} are the least for a test; record more episodes, "
            "or longer runs",
        )  # fmt: skip
    registered = _registered(question)
    found = _of_map(question, registered) if registered.accepted else _of_rest(question, registered)
    named = question.ground.named
    bound = (
        lower_bound(
            *registered.moments, registered.bootstrap, question.space, square=question.ground.square, z=question.z
        )
        if named
        else 0.0
    )
    value, interval = found.value, found.interval
    if not registered.accepted and bound > 0.0:
        value = max(value, bound)
        interval = None if interval is None else (max(interval[0], bound), max(interval[1], bound))
    tests = tuple((name, p) for name, p in registered.tests.items())
    return found._replace(
        value=value, interval=interval, lower=bound, fit=registered.fit, tests=tests, mapped=registered.accepted
    )


def _registered(question: Question) -> _Registered:
    rng, space = question.rng, question.space
    one, other = (Side.of(data, space, question.discount, stationary=question.stationary) for data in question.units)
    sides = one, other
    bootstrap = resampled(sides, _BOOTSTRAP, rng)
    moments = one.moments(), other.moments()
    some = some_units(question.units[0], rng), some_units(question.units[1], rng)
    used = question.units[0].take(some[0]), question.units[1].take(some[1])
    bootstrap = bootstrap.of_units(*some)
    first = choose_kind(*moments, bootstrap, min(one.n, other.n), space)
    kinds = kinds_in(space)
    best: _Registered | None = None
    for kind in kinds[kinds.index(first) :][:_TRIED]:
        fit = refine(kind, used, moments, bootstrap, space, rng)
        tests = episode_tests(fit, used, question.discount, rng, starts=not question.stationary)
        accepted = min(tests.values()) >= _LEVEL / len(tests)
        tried = _Registered(sides, moments, bootstrap, used, fit, tests, accepted)
        if accepted:
            return tried
        if best is None or min(tests.values()) > min(best.tests.values()):
            best = tried
    assert best is not None
    return best


# --- The cost of a map

_POINTS = 4000  # of each side, for the mean of a cost that moments do not give
_FEW_POINTS = 400  # where that is repeated
_SLACK = 1.2  # times the standard error: units are drawn again, but the model of a step is not fitted again
_FLOOR = 0.01  # least relative standard error
_MATCHED = 300
_TIGHT = 0.97  # share of the cost of T that an optimal matching of the same points must reach
_PERMUTED = 6
_SIMULATED = 400


def _of_map(question: Question, registered: _Registered) -> Answer:
    """Y behaves as T(x): the cost of T, and above it what could be there without being noticed."""
    fit = registered.fit
    tight = _tightness(question, registered, fit.map)
    value, error, plain = _map_cost(question, registered, fit)
    low, high = max(value - question.z * error, 0.0), value + question.z * error
    if fit.kind == "same":  # a shift too small to be chosen is still possible
        shift = refine("shift", registered.used, registered.moments, registered.bootstrap, question.space, question.rng)
        about, error, _ = _map_cost(question, registered, shift)
        high = about + question.z * error
    unseen = _unseen(question, registered)
    high = question.root(float(question.squared(high)) + unseen)
    found = Answer("map", value, (low, high), plain, error)
    if tight >= _TIGHT:
        return found
    reason = (
        f"y behaves as x seen through a map, which costs {plain:.3g}, but another matching of the same points costs "
        f"{percent(tight)} of that: the map is an upper bound"
    )
    return found._replace(route="approximate", interval=None, reason=reason)


def _map_cost(question: Question, registered: _Registered, fit: Fit) -> tuple[float, float, float]:
    """Cost of the map less what its noise adds, the standard error, and the cost before that correction."""
    T, ground = fit.map, question.ground
    plain = _mean_cost(question, registered, T, _POINTS)
    if plain == 0.0 or fit.kind == "same":
        return plain, 0.0, plain
    if ground.named:
        q = squared_cost(T, *registered.moments)
        squares = np.array(
            [squared_cost(draw, *pair) for draw, pair in zip(fit.drawn(), registered.bootstrap.moments, strict=False)]
        )
        ratio = float(question.squared(plain)) / max(q, 1e-300) if ground.metric else 1.0
        costs = np.sqrt(squares * ratio) if ground.metric else squares
    else:
        base = _mean_cost(question, registered, T, _FEW_POINTS)
        costs = plain + np.array([_mean_cost(question, registered, draw, _FEW_POINTS) for draw in fit.drawn()]) - base
    bias = max(float(question.squared(costs).mean() - question.squared(plain)), 0.0)
    value = question.root(float(question.squared(plain)) - bias)
    return value, float(np.hypot(_SLACK * costs.std(), _FLOOR * value)), plain


def _mean_cost(question: Question, registered: _Registered, T: Registration, n: int) -> float:
    """Mean cost of the pairs (x, T x), over both recordings."""
    ground = question.ground
    if ground.square:
        return squared_cost(T, *registered.moments)
    if ground.named and np.allclose(T.A, np.eye(len(T.A)), atol=1e-12):
        return float(np.sqrt(np.square(T.shift).sum()))
    total = 0.0
    for k, side in enumerate(registered.sides):
        some = np.linspace(0, len(side.weights) - 1, min(n, len(side.weights))).astype(int)
        points, weights = side.data.points[some], side.weights[some]
        pairs = (points, T.apply(points)) if k == 0 else (T.inverse(points), points)
        total += 0.5 * float(weights @ ground.rows(*pairs) / weights.sum())
    return total


def _tightness(question: Question, registered: _Registered, T: Registration) -> float:
    """Cost of an optimal matching of points x and T(x), relative to that of T: 1 if T is optimal.

    The cost of any coupling is at least that of an optimal matching of the occupancies. T is known to be optimal for
    the squared cost, and shifts and scalings are for the Euclidean one, as long as no coordinate is periodic.
    """
    from scipy.optimize import linear_sum_assignment

    ground = question.ground
    known = ground.square or (ground.named and registered.fit.kind in ("same", "shift", "scale"))
    if known and not question.space.periodic.any():
        return 1.0
    side = registered.sides[0]
    some = question.rng.choice(len(side.weights), min(_MATCHED, len(side.weights)), p=side.weights)
    x = side.data.points[some]
    table = ground.table(x, T.apply(x))
    rows, columns = linear_sum_assignment(table)
    most = float(np.diag(table).sum())
    return float(table[rows, columns].sum()) / most if most > 0.0 else 1.0


def _unseen(question: Question, registered: _Registered) -> float:
    """What may be left between T(x) and y without being noticed, on the scale on which costs add up.

    The simulated pair, compared with pairs simulated after permutation of the units; the shared model does not know
    the sides, so only the difference is fitted again.
    """
    fit, z = registered.fit, question.z
    ground = question.ground
    pair = Pair(fit.shared, fit.map, ground, question.discount, question.rng, n=_SIMULATED, match_starts=False)
    gap = pair.rolled(pair.difference(), _SIMULATED)
    null = [_permuted(pair, question.rng) for _ in range(_PERMUTED)]
    if ground.named:
        seen, others = float(gap.gap.mean()), np.array([rolled.gap.mean() for rolled in null])
    else:
        seen, others = (
            float(question.squared(gap.cost.mean())),
            question.squared(np.array([rolled.cost.mean() for rolled in null])),
        )
    return max(0.0, seen - float(others.mean()) + z * float(others.std(ddof=1)))


def _permuted(pair: Pair, rng: np.random.Generator) -> Any:
    sides = rng.permutation(pair.shared.sides)
    return pair.rolled(pair.difference(sides), _SIMULATED, pair.starts(_SIMULATED, sides))


# --- Different processes

_MOST_ENDED = 0.05  # discounted share of time after an end up to which models without ends are used
_STRAIGHT = 0.03  # share of the residual that a curved model may explain for a linear model
_EVEN = 0.05  # share of the squared residuals that positions may explain


def _of_rest(question: Question, registered: _Registered) -> Answer:
    """No map: nearly deterministic, linear, or any other dynamics."""
    if not question.stationary and _deterministic(question):
        return _of_episodes(question)
    ended = max(_share_ended(side, question.discount) for side in question.units)
    if ended > _MOST_ENDED:
        reason = f"no map was confirmed, and {percent(ended)} of the discounted time lies after an end, which the"
        return Answer("approximate", question.fallback(), None, reason=f"{reason} models of steps do not have")
    if question.ground.named and not question.space.periodic.any():
        linear = _of_linear_models(question, registered) if _is_linear(registered.fit.shared) else None
        if linear is not None:
            return linear
    return _of_pair(question, registered)


def _share_ended(data: Trajectories, discount: float) -> float:
    """Discounted share of the time after an end."""
    return float(np.where(data.terminated, discount ** (data.lengths + 1.0), 0.0).mean())


def _is_linear(shared: Shared) -> bool:
    """Whether linear models with the same noise everywhere are adequate on both sides."""
    if scatter_share(shared.model, shared.now, shared.residuals, shared.unit) >= _EVEN:
        return False
    for side in (-0.5, 0.5):
        i = shared.sign == side
        if curvature(shared.model, shared.now[i], shared.following[i], shared.unit[i]) >= _STRAIGHT:
            return False
    return True


# --- Linear models

_LINEAR_DRAWS = 40
_LINEAR_SLACK = 1.5


def _of_linear_models(question: Question, registered: _Registered) -> Answer | None:
    """The closed form, with units resampled; None if no linear models with a distance exist."""
    ground, rng = question.ground, question.rng
    tables = [_Table.of(data) for data in question.units]

    def distance(counts: list[Floats]) -> tuple[float, float]:
        x, y = (table.model(count) for table, count in zip(tables, counts, strict=True))
        found = between(x, y, str(ground.cost), discount=question.discount)
        return found.distance, found.bounds.low

    try:
        plain, least = distance([np.ones(table.n) for table in tables])
        draws = np.array([distance([_resample(table.n, rng) for table in tables])[0] for _ in range(_LINEAR_DRAWS)])
    except ValueError:
        return None
    bias = float(draws.mean()) - plain
    value, error = max(plain - bias, 0.0), _LINEAR_SLACK * float(draws.std(ddof=1))
    low = min(value, least) - question.z * error - abs(bias)
    return Answer("linear", value, (max(low, 0.0), max(value, plain) + question.z * error), plain, error)


def _resample(n: int, rng: np.random.Generator) -> Floats:
    return rng.multinomial(n, np.full(n, 1.0 / n)).astype(np.float64)


class _Table(NamedTuple):
    """Steps (1, x, x') and initial points (1, x) of a recording, with the unit of each step."""

    steps: Floats
    starts: Floats
    unit: Any

    @classmethod
    def of(cls, data: Trajectories) -> _Table:
        steps = np.column_stack([np.ones(data.n_transitions), data.now, data.following])
        starts = np.column_stack([np.ones(data.n_episodes), data.starts])
        return cls(steps, starts, np.repeat(np.arange(data.n_episodes), data.lengths))

    @property
    def n(self) -> int:
        return len(self.starts)

    def model(self, counts: Floats) -> Linear:
        """As `gaussian.fit`, with units counted as often as given."""
        d = self.starts.shape[1] - 1
        weights = counts[self.unit]
        sums = (self.steps * weights[:, None]).T @ self.steps
        of_starts = (self.starts * counts[:, None]).T @ self.starts
        mean, start = sums[0] / sums[0, 0], of_starts[0, 1:] / of_starts[0, 0]
        about = sums - sums[0, 0] * np.outer(mean, mean)
        x, y = slice(1, d + 1), slice(d + 1, None)
        slopes = np.linalg.lstsq(about[x, x], about[x, y], rcond=1e-10)[0]
        left = (about[y, y] - slopes.T @ about[x, y]) / max(sums[0, 0] - d - 1, 1.0)
        spread = of_starts[1:, 1:] - of_starts[0, 0] * np.outer(start, start)
        covariance = spread / max(of_starts[0, 0] - 1.0, 1.0)
        return Linear(np.ascontiguousarray(slopes.T), mean[y] - mean[x] @ slopes, factor(left), start, covariance)


# --- Nearly deterministic dynamics

_PROBED = 3000
_NEAREST = 12
_SPREAD = 2.0  # ratio of the distances of successors to those of near points
_APART = 0.1  # distance of the successors, in standard deviations
_MOST_EPISODES = 600
_HALVES, _QUARTERS = 60, 60
_RATES = (0.5, 1.0)  # powers of the number of episodes with which the bias may fall
_UNKNOWN = 0.7  # possible error of the correction, as a share of the bias
_MOST_BIAS = 0.5
_NEGLIGIBLE = 1e-4


def _deterministic(question: Question) -> bool:
    """Whether near points of other episodes have near successors, on both sides."""
    return all(_successors_near(data, question.space, question.rng) for data in (question.x, question.y))


def _successors_near(data: Trajectories, space: Space, rng: np.random.Generator) -> bool:
    from scipy.spatial import cKDTree

    now, following = data.now, data.following
    episode = np.repeat(np.arange(data.n_episodes), data.lengths)
    scale = now.std(axis=0) + 1e-12
    wrapped = np.where(space.periodic, np.mod(now, np.where(space.periodic, space.period, 1.0)), now) / scale
    if not np.isfinite(wrapped).all():
        return False
    box = np.where(space.periodic, space.period / scale, 0.0)  # 0: not periodic
    some = rng.choice(len(now), min(_PROBED, len(now)), replace=False)
    near = cKDTree(wrapped, boxsize=box).query(wrapped[some], k=min(_NEAREST, len(now)))[1]
    other = episode[near] != episode[some][:, None]
    kept = other.any(axis=1)
    i, j = some[kept], near[np.arange(len(some)), other.argmax(axis=1)][kept]
    if len(i) < 50:
        return False
    gaps, after = (np.sqrt(np.square(space.wrap(part[i] - part[j]) / scale).sum(axis=1)) for part in (now, following))
    closest = np.argsort(gaps)[: max(50, len(gaps) // 10)]
    gap, apart = float(np.median(gaps[closest])), float(np.median(after[closest]))
    return apart < _APART and apart < _SPREAD * max(gap, 1e-9)


def _of_episodes(question: Question) -> Answer:
    """Optimal transport of initial points under the cost of the trajectories that follow."""
    from scipy.optimize import linear_sum_assignment

    table = _episode_costs(question)
    n, m = table.shape
    rng = question.rng

    def matched(k: int) -> float:
        part = table[np.ix_(rng.permutation(n)[:k], rng.permutation(m)[:k])]
        rows, columns = linear_sum_assignment(part)
        return float(part[rows, columns].mean())

    k = min(n, m)
    plain = matched(k) if n == m else float(np.mean([matched(k) for _ in range(_HALVES)]))
    halves = np.array([matched(max(k // 2, 2)) for _ in range(_HALVES)])
    quarter = float(np.mean([matched(max(k // 4, 2)) for _ in range(_QUARTERS)]))
    gain, before = max(float(halves.mean()) - plain, 0.0), max(quarter - float(halves.mean()), 0.0)
    rate = np.log2(before / gain) if gain > 0.0 and before > 0.0 else 1.0
    bias = gain / (2.0 ** float(np.clip(rate, *_RATES)) - 1.0)
    error = float(halves.std(ddof=1))  # a half drawn without replacement varies about the whole as the whole does
    value = max(plain - bias, 0.0)
    if bias > _MOST_BIAS * plain:
        reason = (
            f"the dynamics are nearly deterministic and {k} initial points are too few: of {plain:.3g}, about "
            f"{bias:.2g} is due to their number; record at least {max(100, 2 * k)} episodes"
        )
        return Answer("approximate", value, None, plain, error, reason)
    reach = _UNKNOWN * bias + question.z * error
    return Answer("deterministic", value, (max(value - reach, 0.0), value + reach), plain, error)


def _episode_costs(question: Question) -> Floats:
    """Discounted cost between whole episodes; the last point of an episode counts for what follows."""
    g = question.discount
    longest = int(max(side.lengths.max() for side in (question.x, question.y))) + 1
    n_steps = min(longest, int(np.log(_NEGLIGIBLE) / np.log(g)) + 1) if g > 0.0 else 1
    sides = []
    for data in (question.x, question.y):
        some = question.rng.permutation(data.n_episodes)[:_MOST_EPISODES]
        rows = np.minimum(np.arange(n_steps), data.lengths[some][:, None]) + data.boundaries[:-1][some][:, None]
        sides.append(data.points[rows])
    weights = (1.0 - g) * g ** np.arange(n_steps) if g > 0.0 else np.ones(1)
    weights[-1] += g**n_steps if g > 0.0 else 0.0
    table = np.zeros((len(sides[0]), len(sides[1])))
    for t, weight in enumerate(weights):
        table += weight * question.ground.table(sides[0][:, t], sides[1][:, t])
    return table


# --- The pair, simulated

_PAIRS = 1600
_REDRAWN = 8
_REDRAWN_PAIRS = 500
_T_QUANTILE = 1.15  # of Student's distribution with so few degrees of freedom, relative to the normal one
_MOST_NOISE = 0.2  # share of the value that the pair may give for permuted units
_MOST_KEPT = 0.35  # of the squared distance of pairs started apart
_MOST_FALLING = 0.05  # share of the points where a step may reverse the order
_TURNED = 0.98  # cost of rotated noise, relative to common noise, from which it is used
_MODEL = 0.04  # relative error of a model of steps that redrawing from it does not show


def _of_pair(question: Question, registered: _Registered) -> Answer:
    """Simulate both models with common noise; bias and error from recordings redrawn from the models."""
    fit, ground, rng = registered.fit, question.ground, question.rng
    starts = registered.tests.get("starts", 1.0) < _LEVEL / len(registered.tests)
    pair = Pair(fit.shared, fit.map, ground, question.discount, rng, n=_PAIRS, match_starts=starts)
    difference = pair.difference()
    if pair.d > 1 and not question.space.periodic.any():
        straight = float(pair.rolled(difference, _SIMULATED).cost.mean())
        pair.turn = pair.rotation()
        if float(pair.rolled(difference, _SIMULATED).cost.mean()) > _TURNED * straight:
            pair.turn = np.eye(pair.d)
    rolled = pair.rolled(difference, _PAIRS)
    plain = float(rolled.cost.mean())
    costs = np.array([_again(question, pair, difference, fit.map) for _ in range(_REDRAWN)])
    error, bias = float(np.hypot(costs.std(ddof=1), _MODEL * plain)), float(costs.mean()) - plain
    bias *= bias**2 / (bias**2 + error**2 / _REDRAWN + 1e-300)  # the part of it that is not chance
    reach = _T_QUANTILE * question.z * error
    interval = (max(min(plain, plain - bias) - reach, 0.0), max(plain, plain - bias) + reach)
    found = Answer("pair", plain, interval, plain, error)
    reason = _doubt(question, pair, float(rolled.cost.mean() if ground.square else rolled.square.mean()))
    return found if not reason else found._replace(route="approximate", interval=None, reason=reason)


def _again(question: Question, pair: Pair, difference: Any, T: Registration) -> float:
    """The cost of the pair estimated from recordings drawn from it."""
    x, y = pair.redrawn(difference)
    identity = Registration(np.eye(pair.d), np.zeros(pair.d), np.zeros(pair.d), T.space)
    shared = Shared.of(x, y, identity, question.rng, pair.shared.model)
    other = Pair(
        shared, T, question.ground, question.discount, question.rng, n=_REDRAWN_PAIRS,
        match_starts=pair.match_starts, like=pair,
    )  # fmt: skip
    return float(other.rolled(other.difference(), _REDRAWN_PAIRS).cost.mean())


def _increasing(pair: Pair) -> bool:
    """Whether steps keep the order of points on a line: there common noise is an optimal coupling."""
    if pair.d > 1 or pair.map.space.periodic.any():
        return False
    some = pair.shared.now[:: max(1, len(pair.shared.now) // _PROBED)]
    slope = pair.shared.model.mean_and_slope(some)[1][:, 0, 0]
    return float((slope < 0.0).mean()) <= _MOST_FALLING


def _doubt(question: Question, pair: Pair, whole: float) -> str:
    """Why the simulated pair has no error bound, or an empty string."""
    null = float(np.mean([_permuted(pair, question.rng).gap.mean() for _ in range(_PERMUTED)]))
    if null > _MOST_NOISE * whole and question.ground.named:
        return (
            f"no map was confirmed, and the simulated pair is too noisy: permuted episodes give {percent(null / whole)}"
            " of its value; record more episodes, or use a lower discount"
        )
    if not _increasing(pair):
        kept = pair.synchronisation(pair.difference(), _SIMULATED)
        if kept > _MOST_KEPT:
            return (
                "no map was confirmed, and common noise does not bring pairs together that start apart (they keep "
                f"{percent(min(kept, 9.99))} of their squared distance), so it may be far from the best coupling; a "
                "lower discount helps"
            )
    if not question.ground.named and not question.ground.metric:
        return "the cost is a function that is not marked as a metric, so common noise is only an upper bound"
    return ""
