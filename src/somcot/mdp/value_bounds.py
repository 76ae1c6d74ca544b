"""Intervals of the value of a policy in a recorded process: by the delta method, and proved for every number of steps.

By the delta method, the value of a policy on the counted process has the standard error

    se^2 = sum over (s, a) of w(s, a)^2 Var(r + discount V(s')) / n(s, a),      w the discounted visits,

one linear solve; an initial distribution that is estimated adds Var(V(start)) / (number of episodes). Pairs never tried
lead to the best value for the upper end and to the worst for the lower end.

The standard error is that of another process, in which the model's rows count as two more observations. On the counted
one it is smallest when the value was underestimated by chance: with one visit to a row its variance is 0, and what the
recording never reached has no visits at all.

Few rows with few visits often hold most of se^2, which has three consequences. Variances are estimated too: quantiles
are those of Student's t with the degrees of freedom of Welch and Satterthwaite, n(s, a) + 1 for the n(s, a) + 2
observations of a row. A rare outcome that was not seen leaves hardly any variance: as in Wilson's interval of a
proportion, the standard error is that of the process at the end of the interval, on the path where outcomes worth more
become more frequent, those of each row by w(s, a) / n(s, a) (`_Path`). And the value is not linear in the rows: an end
is the value of the process found there. Symmetric intervals of level 0.95 (`margin`) held in 0.88 of the recordings of
two rivers with few visits to their rewarded state; these hold in 0.97 or more, and are shorter there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from somcot.mdp.process import MDP, best
from somcot.mdp.recorded import RecordedMDP
from somcot.plumbing.arrays import Bools, Floats, Ints
from somcot.plumbing.errors import UnseenStateWarning, warn
from somcot.plumbing.notes import Note, Share

__all__ = [
    "Ends", "Options", "Rows", "World", "best_high", "delta", "estimate", "followed", "margin", "proved", "stays",
]  # fmt: skip

_PRIOR = 2.0  # observations as which the model's rows count in standard errors
_DOUBLINGS = 60  # of the slope, until the recording is too far away
_REACHED = 1e-12  # discounted visits of a state that a policy reaches
_TRIED = 12  # single changes of a policy that are evaluated before the search ends


class Options(NamedTuple):
    """The arguments of `mdp.transfer_bound`, checked."""

    discount: float
    confidence: float
    unvisited: str
    value_range: tuple[float, float] | None
    method: str


class Rows(NamedTuple):
    """What follows each state and action: laws and mean rewards, and what their variances need.

    Attributes
    ----------
    law, reward : ndarray
        (n + 2, m, n + 2) and (n + 2, m).
    squares : ndarray
        Mean squared reward, and `cross` the mean of reward times each next state, (n + 2, m[, n + 2]).
    """

    law: Floats
    reward: Floats
    squares: Floats
    cross: Floats

    def counting(self, model: tuple[Floats, Floats], visits: Floats, seen: tuple[float, float]) -> Rows:
        """The same with the model's law and mean reward as two more observations of each row that was tried.

        The model has no spread of rewards. A reward with mean r between two ends varies by (r - low) (high - r) at
        most; the share of that which recorded rewards show is taken for the model's too.
        """
        law, reward = model
        low, high = seen
        varied = (visits * np.maximum(self.squares - self.reward**2, 0.0)).sum()
        most = (visits * np.maximum((self.reward - low) * (high - self.reward), 0.0)).sum()
        share = min(float(varied / most), 1.0) if most > 0 else 0.0
        spread = share * np.maximum((reward - low) * (high - reward), 0.0)
        extra = np.where(visits > 0, _PRIOR, 0.0)
        w = extra / np.maximum(visits + extra, 1.0)
        return Rows(
            self.law + w[..., None] * (law - self.law), self.reward + w * (reward - self.reward),
            self.squares + w * (reward**2 + spread - self.squares),
            self.cross + w[..., None] * (law * reward[..., None] - self.cross),
        )  # fmt: skip


class World(NamedTuple):
    """Model and recording on the union of their states, and two absorbing states: the best and the worst value.

    Attributes
    ----------
    rows : Rows
        The counted process; rows never tried are those of the model.
    smooth : Rows
        The process whose standard errors are used.
    visits : ndarray, shape (n + 2, m)
        None in states that the model lacks, as a policy of the model has no action there.
    free : ndarray of bool, shape (n + 2, m)
        Rows that were never tried, and for which the model does not answer.
    known : ndarray of bool, shape (n + 2, m)
        Rows without sampling error: ends, and the model's rows if it answers for unvisited ones.
    """

    rows: Rows
    smooth: Rows
    visits: Floats
    free: Bools
    known: Bools
    start: Floats
    place: Ints
    states: tuple[Hashable, ...]
    actions: tuple[Hashable, ...]
    n_starts: int  # episodes from which the initial distribution was estimated, 0 if it is known
    ends: tuple[float, float]  # worst and best value
    rewards: tuple[float, float]  # smallest and largest reward

    @classmethod
    def of(cls, model: MDP, data: RecordedMDP, options: Options) -> World:
        """Count the recording; states are matched by their labels."""
        states, at, where, order = _matched(model, data)
        n, m = len(states), model.n_actions
        shape = (n + 2, m, n + 2)
        counts, cross, total = np.zeros(shape), np.zeros(shape), np.zeros(shape[:2])
        squares = np.zeros(shape[:2])
        entries = data.outcomes
        kept = np.isin(where[entries.rows // m], at)
        s, a, t = where[entries.rows // m], order[entries.rows % m], where[entries.columns]
        # Outcomes are distinct, so their entries can be assigned; sums over those of a row are added up.
        counts[s, a, t] = kept * entries.number
        cross[s, a, t] = kept * entries.number * entries.reward
        np.add.at(total, (s, a), kept * entries.number * entries.reward)
        np.add.at(squares, (s, a), kept * (entries.squares + entries.number * entries.reward**2))
        visits = counts.sum(axis=2)
        tried = np.maximum(visits, 1.0)
        model_law, model_reward = np.zeros(shape), np.zeros(shape[:2])
        model_law[np.ix_(at, np.arange(m), at)], model_reward[at] = model.transitions, model.rewards
        ended = where[data.absorbing]
        known = np.zeros(shape[:2], np.bool_)
        known[n:] = known[ended] = True
        untried, modelled = (visits == 0) & ~known, model_law.sum(axis=2) > 0
        free = untried if options.unvisited == "worst" else untried & ~modelled
        law = np.where((visits > 0)[..., None], counts / tried[..., None], model_law)
        # The end of episodes and the two additional states are absorbing, also where the model differs.
        for k in (n, n + 1, *ended):
            law[k] = model_law[k] = np.eye(n + 2)[k]
        # Neither recorded nor modelled: midway between best and worst, for the estimate only. Bounds replace these
        # rows.
        lacking = law.sum(axis=2) == 0
        law[lacking, n], law[lacking, n + 1] = 0.5, 0.5
        reward = np.where(visits > 0, total / tried, model_reward)
        seen = [*(float(end(side)) for side in (data.reward, model.rewards) for end in (np.min, np.max))]
        # The reward after the end is 0, which may lie outside the recorded range.
        seen += [0.0] if len(ended) else []
        scale = 1.0 - options.discount
        ends = options.value_range or (min(seen) / scale, max(seen) / scale)
        # A reward of (1 - discount) times a value, earned at every step, is worth that value.
        reward[n:], reward[ended] = np.array([[scale * ends[1]], [scale * ends[0]]]), 0.0
        start = np.zeros(n + 2)
        start[where] = data.initial
        rows, within = Rows(law, reward, squares / tried, cross / tried[..., None]), (min(seen), max(seen))
        smooth = rows.counting((model_law, model_reward), visits, within)
        return cls(
            rows, smooth, visits, free, known | (untried & ~free), start, at, states, model.actions,
            0 if data.start_known else data.n_episodes, ends, within,
        )  # fmt: skip

    @property
    def law(self) -> Floats:
        """Law of the next state in the counted process."""
        return self.rows.law

    @property
    def reward(self) -> Floats:
        """Mean rewards of the counted process."""
        return self.rows.reward

    @property
    def n(self) -> int:
        """Number of states, without the two additional ones."""
        return len(self.states)

    def placed(self, law: Floats) -> Floats:
        """A policy of the model on all states; the first action where the model has none."""
        policy = np.zeros(self.visits.shape)
        policy[:, 0] = 1.0
        policy[self.place] = law
        return policy

    def with_free(self, end: int, rows: Rows | None = None) -> Floats:
        """The counted process where rows never tried lead to the best (0) or the worst (1) value."""
        return np.where(self.free[..., None], np.eye(self.n + 2)[self.n + end], (rows or self.rows).law)

    def rewards_with(self, end: int, rows: Rows | None = None) -> Floats:
        """Rewards to match: a step to the best or worst value earns its share of it."""
        reward = (rows or self.rows).reward
        return np.where(self.free, reward[self.n + end, 0], reward)


def _matched(model: MDP, data: RecordedMDP) -> tuple[tuple[Hashable, ...], Ints, Ints, Ints]:
    """The union of the states, the places of both sides' states in it, and the recording's actions in the model."""
    if set(model.actions) != set(data.actions):
        odd = next(a for a in (*data.actions, *model.actions) if (a in model.actions) != (a in data.actions))
        raise ValueError(
            f"recorded: its actions are not those of the model ({odd!r} is in only one); pass n_actions, or give equal "
            "actions equal labels"
        )
    lone = [label for label in data.states if label not in set(model.states)]
    lacking = [label for label, ended in zip(data.states, data.absorbing, strict=True) if label in lone and not ended]
    if len(lacking) == data.n_states - data.absorbing.sum():
        raise ValueError(
            f"model: it has none of the recorded states, such as {lacking[0]!r}; its own are like {model.states[0]!r}; "
            "give equal states equal labels: MDP(..., states=...)"
        )
    if lacking:
        share = Share(len(lacking), data.n_states)
        warn(Note("states-not-in-model", "model", share=share, state=repr(lacking[0])), UnseenStateWarning)
    states = (*model.states, *lone)
    index = {label: i for i, label in enumerate(states)}
    at, where = (np.array([index[label] for label in process.states]) for process in (model, data))
    return states, at, where, np.array([model.actions.index(action) for action in data.actions])


class Ends(NamedTuple):
    """Estimate, low and high of the policy's value, the upper end of the best value, and each row's share."""

    estimate: float
    low: float
    high: float
    best_high: float
    shares: Floats


def stays(world: World) -> Bools:
    """Rows that stay where they are for certain: the additional states and the end of episodes."""
    stays: Bools = world.known & (world.law[np.arange(len(world.law)), :, np.arange(len(world.law))] == 1.0)
    return stays


# --- The delta method


def followed(law: Floats, reward: Floats, policy: Floats, start: Floats, discount: float) -> tuple[Floats, Floats]:
    """Values of the states under a policy, and the expected discounted numbers of visits to them."""
    return _discounted(np.einsum("sa,sat->st", policy, law), (policy * reward).sum(axis=1), start, discount)


def _discounted(P: Floats, reward: Floats, start: Floats, discount: float) -> tuple[Floats, Floats]:
    from scipy.linalg import lu_factor, lu_solve

    # One factorisation for both, which is nearly all the work of a bound with many states.
    factors = lu_factor(np.eye(len(P)) - discount * P, overwrite_a=True, check_finite=False)
    V, visits = (lu_solve(factors, b, trans=t, check_finite=False) for t, b in enumerate((reward, start)))
    return V, visits


class _Estimate(NamedTuple):
    """The value of a policy, and the variances that each row and the initial distribution add to it.

    `V` and `visits` are those of the states in the counted process, `smooth` those where standard errors are computed.
    """

    value: float
    variance: Floats
    start_variance: float
    V: Floats
    visits: Floats
    smooth: tuple[Floats, Floats]


def estimate(world: World, policy: Floats, end: int, discount: float, beyond: Floats | None = None) -> _Estimate:
    """The value of a policy; `beyond` has the values of states that it does not reach, which only the model reaches."""
    V, visits = _followed(world, world.rows, policy, end, discount, beyond)
    # Errors come from the smoothed rows: a row seen once or twice would claim to have no variance.
    smooth = _followed(world, world.smooth, policy, end, discount, beyond)
    variance = (smooth[1][:, None] * policy) ** 2
    variance[policy > 0] *= _row_variance(world, smooth[0], discount, policy > 0)
    apart = smooth[0] - world.start @ smooth[0]
    start_variance = float(world.start @ apart**2) / max(world.n_starts - 1, 1) if world.n_starts else 0.0
    return _Estimate(float(world.start @ V), variance, start_variance, V, visits, smooth)


def margin(world: World, found: _Estimate, confidence: float) -> float:
    """Half the width of a symmetric interval, by which policies are compared."""
    variances = np.append(found.variance, found.start_variance)
    degrees = np.append(world.visits + _PRIOR - 1.0, max(world.n_starts - 1, 1))
    return _quantile(variances, degrees, confidence) * float(np.sqrt(variances.sum()))


def _quantile(variances: Floats, degrees: Floats, confidence: float) -> float:
    """A quantile of Student's t for a sum of independent variances, by Welch and Satterthwaite."""
    from scipy.special import stdtrit

    total = float(variances.sum())
    if total == 0.0:
        return 0.0
    freedom = 1.0 / float(((variances / total) ** 2 / degrees).sum())
    return float(stdtrit(freedom, 0.5 + 0.5 * confidence))


def _followed(
    world: World, rows: Rows, policy: Floats, end: int, discount: float, beyond: Floats | None
) -> tuple[Floats, Floats]:
    """Values of the states and the discounted visits to them."""
    # Rows never tried lead to the best or the worst value; here without a copy of all rows, as there are many policies.
    counted = np.where(world.free, 0.0, policy)
    P = np.einsum("sa,sat->st", counted, rows.law)
    P[:, world.n + end] += (policy - counted).sum(axis=1)
    V, visits = _discounted(P, (policy * world.rewards_with(end, rows)).sum(axis=1), world.start, discount)
    return (V if beyond is None else np.where(visits > _REACHED, V, beyond)), visits


def _row_variance(world: World, V: Floats, discount: float, rows: Any = ...) -> Floats:
    """Variance of the mean of r + discount V(s') over the visits to each row, or to some of them."""
    law, reward, squares, cross = (table[rows] for table in world.smooth)
    mean = reward + discount * law @ V
    second = squares + 2.0 * discount * (cross @ V) + discount**2 * (law @ V**2)
    # Where the outcome is certain, rounding may leave a tiny negative variance. The sum of squares of N observations is
    # divided by N - 1.
    visits = world.visits[rows]
    N = visits + _PRIOR
    variance = np.maximum(second - mean**2, 0.0) * N / (N - 1.0) / np.maximum(visits, 1.0)
    return np.where(world.known[rows] | (visits == 0), 0.0, variance)


class _Path(NamedTuple):
    """Rows that a policy follows; a slope weights their outcomes by exp(slope * weight / visits * worth).

    Attributes
    ----------
    law, worth : ndarray, shape (k, n + 2)
        Probability of each next state, and mean reward plus discounted value.
    spread : ndarray, shape (k,)
        Variance of rewards given the next state, which does not change; the mean rewards shift.
    weight, visits, observations : ndarray, shape (k,)
    counted : ndarray, shape (k,)
        Mean worth in the recording.
    """

    law: Floats
    worth: Floats
    spread: Floats
    weight: Floats
    visits: Floats
    observations: Floats
    counted: Floats

    def at(self, slope: float) -> tuple[Floats, Floats]:
        """The laws for this slope, and by how much mean rewards are shifted."""
        each = slope * self.weight / self.visits
        power = np.where(self.law > 0, each[:, None] * self.worth, -np.inf)
        law = self.law * np.exp(power - power.max(axis=1, keepdims=True))
        return law / law.sum(axis=1, keepdims=True), each * self.spread

    def beyond(self, slope: float, sign: float, confidence: float) -> float:
        """How far the recording is from the process of this slope, less what chance allows, to first order."""
        law, shift = self.at(slope)
        mean = (law * self.worth).sum(axis=1)
        spread = np.maximum((law * self.worth**2).sum(axis=1) - mean**2, 0.0) + self.spread
        N = self.observations
        variances = self.weight**2 * spread * N / (N - 1.0) / self.visits
        apart = float((self.weight * (mean + shift - self.counted)).sum())
        return sign * apart - _quantile(variances, N - 1.0, confidence) * float(np.sqrt(variances.sum()))

    def slope(self, sign: float, confidence: float) -> float:
        """The slope at which the recording is as far as chance allows."""
        from scipy.optimize import brentq

        first = self.beyond(0.0, sign, confidence)
        # Where the model's observations alone go beyond what chance allows, the end is on the way back.
        toward = sign if first < 0.0 else -sign
        near, far = 0.0, 1.0 / max(abs(first), 1e-300)
        for _ in range(_DOUBLINGS):
            if (self.beyond(toward * far, sign, confidence) < 0.0) != (first < 0.0):
                return toward * float(brentq(lambda x: self.beyond(toward * x, sign, confidence), near, far, rtol=1e-9))
            near, far = far, 2.0 * far
        # The recorded value is the largest or the smallest possible one.
        return toward * near


def _limit(world: World, policy: Floats, end: int, found: _Estimate, options: Options) -> float:
    """The upper (0) or the lower (1) end of the interval."""
    (V, visits), rows, discount = found.smooth, world.smooth, options.discount
    weight = visits[:, None] * policy
    used = (world.visits > 0) & ~world.known & (weight > _REACHED)
    law = rows.law[used]
    mean = np.divide(rows.cross[used], law, out=np.zeros_like(law), where=law > 0)
    spread = np.maximum(rows.squares[used] - (law * mean**2).sum(axis=1), 0.0)
    counted = world.reward[used] + discount * world.law[used] @ V
    parts = [law, mean + discount * V, spread, weight[used], world.visits[used], world.visits[used] + _PRIOR, counted]
    if world.n_starts > 1:  # the initial distribution is a row too, and the model has no observations of it
        last = (world.start, V, 0.0, 1.0, world.n_starts, world.n_starts, world.start @ V)
        parts = [np.concatenate([part, [new]]) for part, new in zip(parts, last, strict=True)]
    path = _Path(*parts)
    sign = 1.0 - 2.0 * end
    if path.beyond(0.0, sign, options.confidence) == 0.0:
        return found.value  # nothing varies
    moved, shift = path.at(path.slope(sign, options.confidence))
    k = len(law)
    new_law, new_reward = world.with_free(end, rows).copy(), world.rewards_with(end, rows).copy()
    new_law[used], new_reward[used] = moved[:k], np.clip((moved[:k] * mean).sum(axis=1) + shift[:k], *world.rewards)
    start = moved[k] if world.n_starts > 1 else world.start
    return float(start @ followed(new_law, new_reward, policy, start, discount)[0])


def delta(world: World, policy: Floats, options: Options) -> Ends:
    """The ends of an interval for large samples."""
    up, down = (estimate(world, policy, end, options.discount) for end in (0, 1))
    high = max(_limit(world, policy, 0, up, options), up.value)
    low = min(_limit(world, policy, 1, down, options), down.value)
    # What each row adds to the width: what chance allows is shared out like the variance, and a row that was never
    # tried adds its visits times the difference between the best and the worst value.
    widths = np.where(world.free, up.visits[:, None] * policy * (world.ends[1] - world.ends[0]), 0.0)
    for side, width in ((up, high - up.value), (down, down.value - low)):
        widths += width * side.variance / max(float(side.variance.sum()) + side.start_variance, 1e-300)
    shares = widths / max(high - low, 1e-300)
    low, high = max(low, world.ends[0]), min(high, world.ends[1])
    middle, _ = followed(world.law, world.reward, policy, world.start, options.discount)
    centre = float(np.clip(world.start @ middle, low, high))
    return Ends(centre, low, high, max(best_high(world, policy, options), high), shares[: world.n])


def best_high(world: World, policy: Floats, options: Options) -> float:
    """The largest upper end over policies, so also that of the best policy, which is one of them.

    Where a policy does not go, it may as well do what is best there. A local search from several optimistic policies,
    which found the largest over all policies in all of 200 processes of two to four states.
    """
    discount = options.discount
    law, reward = world.with_free(0), world.rewards_with(0)
    beyond, first = best(MDP(law, reward), discount)
    starts = [policy, np.eye(law.shape[1])[first]]
    # The search is local: policies that prefer uncertain rows, more and less strongly, are further starting points.
    for strength in (0.3, 1.0, 3.0):
        V, actions = beyond, first
        for _ in range(3):
            V, actions = best(MDP(law, reward + strength * np.sqrt(_row_variance(world, V, discount))), discount)
        starts.append(np.eye(law.shape[1])[actions])
    found: dict[bytes, tuple[float, _Estimate]] = {}

    def upper(chosen: Floats) -> tuple[float, _Estimate]:
        key = chosen.tobytes()
        if key not in found:  # the searches meet
            up = estimate(world, chosen, 0, discount, beyond)
            found[key] = up.value + margin(world, up, options.confidence), up
        return found[key]

    return min(max(_climbed(world, start, upper, discount) for start in starts), world.ends[1])


def _climbed(world: World, policy: Floats, upper: Callable[[Floats], tuple[float, Any]], discount: float) -> float:
    """The upper end of the best policy found by changing one action, or many at once, as long as it rises."""
    law, reward = world.with_free(0), world.rewards_with(0)
    (top, now), m, states = upper(policy), law.shape[1], np.arange(len(law))
    for _ in range(50):
        if top >= world.ends[1]:
            break  # nothing is worth more
        # Visits times advantage: the first-order change of the value if one action were replaced.
        gain = now.visits[:, None] * (reward + discount * law @ now.V - now.V[:, None])
        (V, w), own = now.smooth, now.variance.sum(axis=1, keepdims=True)
        # The variance with this state's part replaced by that of the other action; the quantile is kept.
        total = float(now.variance.sum()) + now.start_variance
        changed = np.maximum(total - own + w[:, None] ** 2 * _row_variance(world, V, discount), 0.0)
        quantile = (top - now.value) / np.sqrt(total) if total > 0.0 else 2.0
        promise = gain + quantile * (np.sqrt(changed) - np.sqrt(total))
        promise[(policy == 1.0) | (w[:, None] <= _REACHED)] = -np.inf
        moves = promise.max(axis=1) > 1e-10 * (1.0 + abs(top))
        single = [divmod(int(k), m) for k in np.argsort(-promise, axis=None, kind="stable")[:_TRIED]]
        # All promising changes at once often succeed and save evaluations; single changes are the safe choice.
        trials = [np.where(moves[:, None], np.eye(m)[promise.argmax(axis=1)], policy)]
        trials += [np.where((states == s)[:, None], np.eye(m)[a], policy) for s, a in single if promise[s, a] > -np.inf]
        for trial in trials:
            high, new = upper(trial)
            # A rise beyond rounding, so that the search ends.
            if high > top + 1e-12 * (1.0 + abs(top)):
                policy, now, top = trial, new, high
                break
        else:
            return top
    return top


# --- Proved for every number of steps


def proved(world: World, policy: Floats, options: Options) -> Ends:
    """L1 balls around all rows (Weissman) and intervals of mean rewards (Hoeffding), and the worst process within.

    Each row has its share of the error, and so has each number of visits: 1 / (n (n + 1)) sums to 1.
    """
    discount, n = options.discount, world.visits
    rows = max(int((~world.known).sum()), 1)
    size = world.n  # successors
    failure = (1.0 - options.confidence) / (2.0 * rows) / np.maximum(n * (n + 1.0), 1.0)
    with np.errstate(divide="ignore"):
        # Weissman's bound has 2^size - 2 in place of 2^size.
        radius = np.sqrt(2.0 * (size * np.log(2.0) - np.log(failure)) / np.maximum(n, 1.0))
        off = (world.rewards[1] - world.rewards[0]) * np.sqrt(np.log(2.0 / failure) / (2.0 * np.maximum(n, 1.0)))
    radius = np.where(world.known, 0.0, np.where(n > 0, np.minimum(radius, 2.0), 0.0))
    # Rewards that did not vary in any visit to a row are taken as deterministic.
    varied = world.rows.squares - world.reward**2 > 1e-12 * (1.0 + world.rows.squares)
    off = np.where(world.known | (n == 0) | ~varied, 0.0, off)
    values = []
    for sign, end in ((1.0, 0), (-1.0, 1)):
        law, reward = world.with_free(end), world.rewards_with(end)
        reward = np.where(world.known | world.free, reward, np.clip(reward + sign * off, *world.rewards))
        values.append(float(world.start @ _robust(law, radius, reward, policy, discount, sign, world.ends)))
    high_any = float(world.start @ _robust(
        world.with_free(0), radius,
        np.where(world.known | world.free, world.rewards_with(0), np.clip(world.reward + off, *world.rewards)),
        None, discount, 1.0, world.ends,
    ))  # fmt: skip
    high, low = values
    V, visits = followed(world.law, world.reward, policy, world.start, discount)
    middle, w = float(np.clip(world.start @ V, low, high)), visits[:, None] * policy
    widths = w * (radius * (world.ends[1] - world.ends[0]) + off)
    return Ends(middle, low, high, max(high_any, high), (widths / max(float(widths.sum()), 1e-300))[: world.n])


def _robust(
    law: Floats, radius: Floats, reward: Floats, policy: Floats | None, discount: float, sign: float,
    ends: tuple[float, float],
) -> Floats:  # fmt: skip
    """Largest (sign 1) or smallest value over L1 balls around the rows, of a policy or of the best one."""
    n = len(law) - 2  # mass moves between the states of the process only
    V = np.full(n + 2, ends[1] if sign > 0 else ends[0])
    size = abs(ends[1] - ends[0])
    # Contraction to 1e-6 of the range; the last line adds what may be missing.
    for _ in range(int(np.ceil(np.log(1e-6) / np.log(discount)))):
        order = np.argsort(-sign * V[:n], kind="stable")
        q = law[..., order]
        # The extreme law in an L1 ball: half of its radius moves to the best state, from the worst states first.
        moved = np.minimum(radius / 2.0, 1.0 - q[..., 0])
        behind = np.cumsum(q[..., ::-1], axis=-1)[..., ::-1] - q  # mass on worse states
        taken = np.clip(moved[..., None] - behind, 0.0, q)
        taken[..., 0] = 0.0
        q = q - taken
        q[..., 0] += moved
        worth = reward + discount * (q @ V[order] + law[..., n:] @ V[n:])
        new = worth.max(axis=1) if policy is None else (policy * worth).sum(axis=1)
        new = np.clip(np.asarray(new, dtype=np.float64), *ends)
        change, V = float(np.abs(new - V).max()), new
        if change < 1e-9 * (1.0 + size):
            return V
    return V + sign * discount / (1.0 - discount) * 1e-6 * size
