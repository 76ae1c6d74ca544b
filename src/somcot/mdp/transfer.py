"""From a model to the recorded process: how far the value of a policy may be off, and how much it may lose.

The value of a policy on the counted process has, by the delta method, the standard error

    se^2 = sum over (s, a) of w(s, a)^2 Var(r + discount V(s')) / n(s, a),      w the discounted visits,

one linear solve. Pairs never tried lead to the best value for the upper end and to the worst for the lower end. The
variance counts the model's row as two more observations: with one visit alone it would be 0.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from somcot.mdp.process import MDP, best, check_mdp, policy_law
from somcot.mdp.recorded import RecordedMDP
from somcot.plumbing.arrays import Bools, Floats, Ints
from somcot.plumbing.checks import check_confidence, check_discount, check_number, check_rng
from somcot.plumbing.html import SHOWN, Table, card
from somcot.plumbing.records import view
from somcot.plumbing.text import label_text

__all__ = ["MoreData", "TransferBound", "ValueInterval", "transfer_bound"]

_PRIOR = 2.0  # observations that the model's row counts in the variance of a row
_REACHED = 1e-12  # discounted visits of a state that a policy reaches
_TRIED = 12  # single changes of a policy that are evaluated before the search ends
_METHODS = ("delta", "proved")
_UNVISITED = ("worst", "model")


class ValueInterval(NamedTuple):
    """The value of the policy in the recorded process: an estimate and the ends of its interval."""

    estimate: float
    low: float
    high: float


class MoreData(NamedTuple):
    """An action in a state, how often it was tried, and its share of the uncertainty of the value."""

    state: Hashable
    action: Hashable
    visits: int
    share: float


@dataclass(frozen=True, eq=False)
class TransferBound:
    """What is known about a policy of a model when it acts in the recorded process.

    Values are expected sums of discounted rewards from the initial distribution.

    Attributes
    ----------
    value_model : float
        Value of the policy in the model.
    value_recorded : ValueInterval
        Its value in the recorded process: estimate, low, high.
    value_error : float
        Upper bound of the difference between the two.
    policy_loss : float
        Upper bound of the value that a better policy would add in the recorded process.
    confidence : float
        How often such statements hold.
    unvisited : float
        Share of the policy's visits, discounted, that go to actions never tried in the recording.
    proved : bool
        Whether the bounds hold for every number of steps (``method="proved"``), not for large ones only.
    policy : tuple
        The policy: an action for each state, or probabilities.
    largest_contributions : tuple of MoreData
        Where more data would help most: actions with the largest share of the variance of the value.
    """

    value_model: float
    value_recorded: ValueInterval
    value_error: float
    policy_loss: float
    confidence: float
    unvisited: float
    proved: bool
    policy: tuple[Any, ...]
    largest_contributions: tuple[MoreData, ...]

    def plot(self, ax: Any = None) -> Any:
        """Draw the value in the model, the interval of the value in the recorded process, and where to record more."""
        return view("transfer.plot")(self, ax=ax)

    def __repr__(self) -> str:
        low, high = self.value_recorded[1:]
        return (
            f"TransferBound(model {self.value_model:.4g}, recorded {self.value_recorded.estimate:.4g} in "
            f"[{low:.4g}, {high:.4g}], value error <= {self.value_error:.3g}, policy loss <= {self.policy_loss:.3g}, "
            f"{100 * self.confidence:g} %{', proved' if self.proved else ', large samples'})"
        )

    def _repr_html_(self) -> str:
        kind = "proved" if self.proved else "for large samples"
        facts = [
            ("value in the model", f"{self.value_model:.4g}"),
            ("value in the recorded process", "{:.4g} in [{:.4g}, {:.4g}]".format(*self.value_recorded)),
            ("value error", f"at most {self.value_error:.4g}"),
            ("policy loss", f"at most {self.policy_loss:.4g}"),
            ("visits to actions never tried", f"{100 * self.unvisited:.3g} %"),
        ]
        rows = [
            (label_text(row.state, 40), label_text(row.action, 20), f"{row.visits:,}", f"{100 * row.share:.1f} %")
            for row in self.largest_contributions[:SHOWN]
        ]
        head = ("state", "action", "tried", "share of the variance")
        return card("TransferBound", facts, Table(head, rows, "llrr"), sub=f"{100 * self.confidence:g} %, {kind}")


def transfer_bound(
    model: MDP,
    recorded: RecordedMDP,
    *,
    discount: float,
    policy: Any = None,
    confidence: float = 0.95,
    unvisited: str = "worst",
    value_range: tuple[float, float] | None = None,
    method: str = "delta",
    holdout: float | None = None,
    rng: int | np.random.Generator | None = None,
) -> TransferBound:
    """How far the value of a policy may be from what the model says, and how much it may lose.

    With about this confidence, ``|value in the model - value in the recorded process| <= value_error``, and
    ``best value there - the policy's value there <= policy_loss``. This is a large-sample statement: measured on random
    processes, lakes and Taxi (docs/actions.md), not proved for every number of steps.

    Parameters
    ----------
    model : MDP
        A simulator, with the same actions. States are matched by their labels; those that only one side has are
        unvisited.
    recorded : RecordedMDP
        Steps of the real process; values are from its initial distribution.
    discount : float
    policy : array_like, shape (n,) or (n, n_actions), or callable, optional
        An action, or the probability of each action, for each state of the model. By default the model's optimal
        policy. With `holdout`, by default the optimal policy of the process estimated from the other episodes; a
        function of those, a RecordedMDP with the states of the model, returns a policy.
    confidence : float
    unvisited : {"worst", "model"}
        What an action does that the recording never tried: the worst within `value_range`, or what the model says.
    value_range : (float, float), optional
        Smallest and largest possible value. By default the range of the rewards recorded or in the model, for ever.
    method : {"delta", "proved"}
        "proved" holds for every number of steps: L1 balls around the rows (Weissman), all of them at once, and the
        worst process within. It assumes that rewards stay within the range seen, and that those which did not vary in
        a state and action never do. It is about ten times wider with 20 states.
    holdout : float, optional
        Share of the episodes that the bound uses; the policy is fitted to the others. Required if the model or the
        policy was fitted to these steps.
    rng : None, int or numpy.random.Generator
        Chooses the episodes held out; None uses a fixed seed.

    Examples
    --------
    >>> import numpy as np
    >>> model = MDP([[[0.9, 0.1], [0.1, 0.9]], [[0.9, 0.1], [0.1, 0.9]]], [[0, 0], [1, 1]], actions=["stay", "go"])
    >>> rng = np.random.default_rng(0)
    >>> s, a = rng.integers(2, size=4000), rng.integers(2, size=4000)
    >>> t = np.where(rng.random(4000) < 0.8, a, 1 - a)          # the real process slips twice as often
    >>> data = RecordedMDP.from_transitions(s, np.array(["stay", "go"])[a], s * 1.0, t, initial=0)
    >>> bound = transfer_bound(model, data, discount=0.9)
    >>> bound.policy, round(bound.value_model, 2), bound.value_recorded.low < 7.2 < bound.value_recorded.high
    (('go', 'go'), 8.1, True)
    >>> bound.value_error > 0.9
    True
    """
    options = _Options.checked(discount, confidence, unvisited, value_range, method)
    check_mdp("model", model)
    if not isinstance(recorded, RecordedMDP):
        raise TypeError(
            f"recorded: found {type(recorded).__name__}, expected a RecordedMDP; make one: "
            "RecordedMDP.from_transitions(states, actions, rewards, next_states)"
        )
    tested = recorded
    fitted: RecordedMDP | None = None
    if holdout is not None:
        fitted, tested = _split(recorded, holdout, rng)
    elif callable(policy):
        raise ValueError("policy: found a function, which fits a policy to episodes; pass holdout too, such as 0.5")
    world = _World.of(model, tested, options)
    chosen = _chosen_policy(model, policy, fitted, world, options)
    law = world.placed(policy_law(model, chosen))
    bounds = _proved if options.method == "proved" else _delta
    return _bound(model, world, law, chosen, options, bounds(world, law, options))


class _Options(NamedTuple):
    discount: float
    confidence: float
    unvisited: str
    value_range: tuple[float, float] | None
    method: str

    @classmethod
    def checked(cls, discount: Any, confidence: Any, unvisited: Any, value_range: Any, method: Any) -> _Options:
        check_confidence(confidence)
        if confidence is None:
            raise ValueError("confidence: found None, expected a level such as 0.95")
        for name, value, known in (("unvisited", unvisited, _UNVISITED), ("method", method, _METHODS)):
            if value not in known:
                raise ValueError(f"{name}: found {value!r}, expected {' or '.join(map(repr, known))}")
        if value_range is not None:
            low, high = (check_number("value_range", end) for end in value_range)
            if not -np.inf < low <= high < np.inf:
                raise ValueError(f"value_range: found {value_range}, expected a finite lower and an upper end")
            value_range = (low, high)
        return cls(check_discount(discount), float(confidence), unvisited, value_range, method)

    @property
    def z(self) -> float:
        from scipy.special import ndtri

        return float(ndtri(0.5 + 0.5 * self.confidence))


class _World(NamedTuple):
    """Model and recording on the union of their states, and two more: the best and the worst value, for ever.

    Attributes
    ----------
    law, reward : ndarray
        The counted process, (n + 2, m, n + 2) and (n + 2, m); rows never tried are those of the model.
    squares : ndarray
        Mean squared reward, and `cross` the mean of reward times each next state, (n + 2, m[, n + 2]).
    visits : ndarray, shape (n + 2, m)
    free : ndarray of bool, shape (n + 2, m)
        Rows that were never tried, and for which the model does not answer.
    known : ndarray of bool, shape (n + 2, m)
        Rows without sampling error: ends, and the model's rows if it answers for unvisited ones.
    model_law, model_reward : ndarray
        The model's rows, which count in variances.
    """

    law: Floats
    reward: Floats
    squares: Floats
    cross: Floats
    visits: Floats
    free: Bools
    known: Bools
    model_law: Floats
    model_reward: Floats
    start: Floats
    model_start: Floats
    place: Ints
    states: tuple[Hashable, ...]
    actions: tuple[Hashable, ...]
    ends: tuple[float, float]  # worst and best value
    rewards: tuple[float, float]  # smallest and largest reward

    @classmethod
    def of(cls, model: MDP, data: RecordedMDP, options: _Options) -> _World:
        if set(model.actions) != set(data.actions):
            odd = next(a for a in (*data.actions, *model.actions) if (a in model.actions) != (a in data.actions))
            raise ValueError(
                f"recorded: its actions are not those of the model ({odd!r} is in only one); pass n_actions, or give "
                "equal actions equal labels"
            )
        states = (*model.states, *(label for label in data.states if label not in set(model.states)))
        index = {label: i for i, label in enumerate(states)}
        at, where = (np.array([index[label] for label in process.states]) for process in (model, data))
        n, m = len(states), model.n_actions
        order = np.array([model.actions.index(action) for action in data.actions])
        shape = (n + 2, m, n + 2)
        counts, cross, total = np.zeros(shape), np.zeros(shape), np.zeros(shape[:2])
        squares = np.zeros(shape[:2])
        entries = data.outcomes
        s, a, t = where[entries.rows // m], order[entries.rows % m], where[entries.columns]
        counts[s, a, t] = entries.number
        cross[s, a, t] = entries.number * entries.reward
        np.add.at(total, (s, a), entries.number * entries.reward)
        np.add.at(squares, (s, a), entries.squares + entries.number * entries.reward**2)
        visits = counts.sum(axis=2)
        tried = np.maximum(visits, 1.0)
        model_law, model_reward = np.zeros(shape), np.zeros(shape[:2])
        model_law[np.ix_(at, range(m), at)], model_reward[at] = model.transitions, model.rewards
        known = np.zeros(shape[:2], np.bool_)
        known[n:] = True
        known[where[data.absorbing]] = True
        untried = (visits == 0) & ~known
        modelled = np.zeros(n + 2, np.bool_)
        modelled[at] = True
        free = untried if options.unvisited == "worst" else untried & ~modelled[:, None]
        law = np.where((visits > 0)[..., None], counts / tried[..., None], model_law)
        for k in (n, n + 1, *where[data.absorbing]):
            law[k] = model_law[k] = np.eye(n + 2)[k]
        lacking = law.sum(axis=2) == 0
        law[lacking, n], law[lacking, n + 1] = 0.5, 0.5
        reward = np.where(visits > 0, total / tried, model_reward)
        seen = [
            float(data.reward.min()),
            float(data.reward.max()),
            float(model.rewards.min()),
            float(model.rewards.max()),
        ]
        if data.absorbing.any():
            seen.append(0.0)
        scale = 1.0 - options.discount
        ends = options.value_range or (min(seen) / scale, max(seen) / scale)
        reward[n:], reward[where[data.absorbing]] = np.array([[scale * ends[1]], [scale * ends[0]]]), 0.0
        start, model_start = np.zeros(n + 2), np.zeros(n + 2)
        start[where] = data.initial
        model_start[at] = model.initial
        return cls(
            law, reward, squares / tried, cross / tried[..., None], visits, free,
            known | (untried & ~free), model_law, model_reward, start, model_start, at, states, model.actions, ends,
            (min(seen), max(seen)),
        )  # fmt: skip

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

    def with_free(self, end: int) -> Floats:
        """The counted process where rows never tried lead to the best (0) or the worst (1) value."""
        return np.where(self.free[..., None], np.eye(self.n + 2)[self.n + end], self.law)

    def rewards_with(self, end: int) -> Floats:
        """Rewards to match: a step to the best or worst value earns its share of it."""
        return np.where(self.free, self.reward[self.n + end, 0], self.reward)


class _Ends(NamedTuple):
    """Estimate, low and high of the policy's value, the upper end of the best value, and each row's share."""

    estimate: float
    low: float
    high: float
    best_high: float
    shares: Floats


def _bound(model: MDP, world: _World, law: Floats, chosen: Any, options: _Options, ends: _Ends) -> TransferBound:
    start = world.start
    in_model = MDP(model.transitions, model.rewards, initial=model.initial, states=model.states, actions=model.actions)
    P = np.einsum("sa,sat->st", law[world.place], in_model.transitions)
    V = np.linalg.solve(np.eye(len(P)) - options.discount * P, (law[world.place] * model.rewards).sum(axis=1))
    outside = np.ones(len(start), np.bool_)
    outside[world.place] = False
    weight = start[world.place] if not start[outside].any() else model.initial
    value_model = float(weight @ V)
    occupancy = _occupancy(world.law, law, start, options.discount)
    never = float((occupancy[:, None] * law)[(world.visits == 0) & ~_ended(world)].sum() * (1.0 - options.discount))
    error = max(ends.high - value_model, value_model - ends.low, 0.0)
    order = np.argsort(-ends.shares, axis=None, kind="stable")[:10]
    m = len(world.actions)
    rows = tuple(
        MoreData(
            world.states[k // m], world.actions[k % m], int(world.visits[k // m, k % m]), float(ends.shares.flat[k])
        )
        for k in order.tolist()
        if ends.shares.flat[k] > 0
    )
    policy = tuple(chosen) if np.ndim(chosen) == 1 else tuple(map(tuple, np.asarray(chosen).tolist()))
    return TransferBound(
        value_model, ValueInterval(ends.estimate, ends.low, ends.high), error, max(ends.best_high - ends.low, 0.0),
        options.confidence, never, options.method == "proved", policy, rows,
    )  # fmt: skip


def _ended(world: _World) -> Bools:
    """Rows that stay where they are for certain: the additional states and the end of episodes."""
    stays: Bools = world.known & (world.law[np.arange(len(world.law)), :, np.arange(len(world.law))] == 1.0)
    return stays


# --- Policies


def _split(data: RecordedMDP, holdout: Any, rng: Any) -> tuple[RecordedMDP, RecordedMDP]:
    """Episodes to fit a policy to, and episodes held out."""
    share = check_number("holdout", holdout)
    if not 0.0 < share < 1.0:
        raise ValueError(f"holdout: found {share}, expected a share of the episodes between 0 and 1, such as 0.5")
    n = data.n_episodes
    k = round(share * n)
    if not 0 < k < n:
        raise ValueError(f"holdout: {share} of {n} episode(s) leaves one part empty; record more episodes")
    order = check_rng(0 if rng is None else rng).permutation(n)
    return data.take(np.sort(order[k:])), data.take(np.sort(order[:k]))


def _chosen_policy(model: MDP, policy: Any, fitted: RecordedMDP | None, world: _World, options: _Options) -> Any:
    """The policy for the states of the model: given, fitted to other episodes, or optimal in the model."""
    if callable(policy):
        fit: Callable[[Any], Any] = policy
        return fit(fitted)
    if policy is not None:
        return policy
    if fitted is None:
        _, actions = best(model, options.discount)
        return tuple(model.actions[a] for a in actions)
    other = _World.of(model, fitted, options._replace(unvisited="model"))
    n = other.n
    process = MDP(other.law, other.reward)
    _, actions = best(process, options.discount)
    assert len(actions) == n + 2
    return tuple(model.actions[actions[k]] for k in other.place)


# --- The delta method


def _occupancy(law: Floats, policy: Floats, start: Floats, discount: float) -> Floats:
    """Expected discounted number of visits to each state."""
    P = np.einsum("sa,sat->st", policy, law)
    visits: Floats = np.linalg.solve(np.eye(len(P)) - discount * P.T, start)
    return visits


def _evaluate(law: Floats, reward: Floats, policy: Floats, discount: float) -> Floats:
    P = np.einsum("sa,sat->st", policy, law)
    V: Floats = np.linalg.solve(np.eye(len(P)) - discount * P, (policy * reward).sum(axis=1))
    return V


class _Estimate(NamedTuple):
    """The value of a policy, and the variance that each row adds to it."""

    value: float
    variance: Floats
    V: Floats


def _estimate(world: _World, policy: Floats, end: int, discount: float, beyond: Floats | None = None) -> _Estimate:
    """The value of a policy; `beyond` has the values of states that it does not reach, which only the model reaches."""
    law, reward = world.with_free(end), world.rewards_with(end)
    V = _evaluate(law, reward, policy, discount)
    visits = _occupancy(law, policy, world.start, discount)
    V = V if beyond is None else np.where(visits > _REACHED, V, beyond)
    return _Estimate(float(world.start @ V), (visits[:, None] * policy) ** 2 * _row_variance(world, V, discount), V)


def _row_variance(world: _World, V: Floats, discount: float) -> Floats:
    """Variance of the mean of r + discount V(s') in each row, the model's row counted as two more observations."""
    n = world.visits
    mean = world.reward + discount * world.law @ V
    second = world.squares + 2.0 * discount * (world.cross @ V) + discount**2 * (world.law @ V**2)
    model_mean = world.model_reward + discount * world.model_law @ V
    model_variance = discount**2 * np.maximum(world.model_law @ V**2 - (world.model_law @ V) ** 2, 0.0)
    has_model = world.model_law.sum(axis=2) > 0
    extra = np.where(has_model, _PRIOR, 0.0)
    total = np.maximum(n + extra, 1.0)
    pooled = (n * mean + extra * model_mean) / total
    spread = n * (second - 2.0 * mean * pooled + pooled**2) + extra * (model_variance + (model_mean - pooled) ** 2)
    variance = np.maximum(spread, 0.0) / total / np.maximum(n, 1.0)
    return np.where(world.known | (n == 0), 0.0, variance)


def _delta(world: _World, policy: Floats, options: _Options) -> _Ends:
    up, down = (_estimate(world, policy, end, options.discount) for end in (0, 1))
    middle = _evaluate(world.law, world.reward, policy, options.discount)
    z = options.z
    low = down.value - z * float(np.sqrt(down.variance.sum()))
    high = up.value + z * float(np.sqrt(up.variance.sum()))
    low, high = max(low, world.ends[0]), min(high, world.ends[1])
    estimate = float(np.clip(world.start @ middle, low, high))
    shares = np.maximum(up.variance, down.variance) / max(float(np.maximum(up.variance, down.variance).sum()), 1e-300)
    return _Ends(estimate, low, high, max(_best_high(world, policy, options), high), shares[: world.n])


def _best_high(world: _World, policy: Floats, options: _Options) -> float:
    """The largest upper end over policies, so also that of the best policy, which is one of them.

    Where a policy does not go, it may as well do what is best there. A local search from several optimistic policies,
    which found the largest over all policies in 198 of 200 processes of two to four states.
    """
    discount, z = options.discount, options.z
    law, reward = world.with_free(0), world.rewards_with(0)
    beyond, first = best(MDP(law, reward), discount)
    starts = [policy, np.eye(law.shape[1])[first]]
    for strength in (0.3, 1.0, 3.0):
        V, actions = beyond, first
        for _ in range(3):
            V, actions = best(MDP(law, reward + strength * np.sqrt(_row_variance(world, V, discount))), discount)
        starts.append(np.eye(law.shape[1])[actions])
    return min(max(_climbed(world, start, z, discount, beyond) for start in starts), world.ends[1])


def _climbed(world: _World, policy: Floats, z: float, discount: float, beyond: Floats) -> float:
    """The upper end of the best policy found by changing one action, or many at once, as long as it rises."""
    law, reward = world.with_free(0), world.rewards_with(0)
    m, states = law.shape[1], np.arange(len(law))

    def upper(chosen: Floats) -> tuple[float, _Estimate]:
        up = _estimate(world, chosen, 0, discount, beyond)
        return up.value + z * float(np.sqrt(up.variance.sum())), up

    top, now = upper(policy)
    for _ in range(50):
        w = _occupancy(law, policy, world.start, discount)
        gain = w[:, None] * (reward + discount * law @ now.V - now.V[:, None])
        own = now.variance.sum(axis=1, keepdims=True)
        changed = np.maximum(now.variance.sum() - own + w[:, None] ** 2 * _row_variance(world, now.V, discount), 0.0)
        promise = gain + z * (np.sqrt(changed) - np.sqrt(now.variance.sum()))
        promise[(policy == 1.0) | (w[:, None] <= _REACHED)] = -np.inf
        moves = promise.max(axis=1) > 1e-10 * (1.0 + abs(top))
        single = [divmod(int(k), m) for k in np.argsort(-promise, axis=None, kind="stable")[:_TRIED]]
        trials = [np.where(moves[:, None], np.eye(m)[promise.argmax(axis=1)], policy)]
        trials += [np.where((states == s)[:, None], np.eye(m)[a], policy) for s, a in single if promise[s, a] > -np.inf]
        for trial in trials:
            high, new = upper(trial)
            if high > top + 1e-12 * (1.0 + abs(top)):
                policy, now, top = trial, new, high
                break
        else:
            return top
    return top


# --- Proved for every number of steps


def _proved(world: _World, policy: Floats, options: _Options) -> _Ends:
    """L1 balls around all rows (Weissman) and intervals of mean rewards (Hoeffding), and the worst process within.

    Each row has its share of the error, and so has each number of visits: 1 / (n (n + 1)) sums to 1.
    """
    discount, n = options.discount, world.visits
    rows = max(int((~world.known).sum()), 1)
    size = world.n  # successors
    delta = (1.0 - options.confidence) / (2.0 * rows) / np.maximum(n * (n + 1.0), 1.0)
    with np.errstate(divide="ignore"):
        radius = np.sqrt(2.0 * (size * np.log(2.0) - np.log(delta)) / np.maximum(n, 1.0))
        off = (world.rewards[1] - world.rewards[0]) * np.sqrt(np.log(2.0 / delta) / (2.0 * np.maximum(n, 1.0)))
    radius = np.where(world.known, 0.0, np.where(n > 0, np.minimum(radius, 2.0), 0.0))
    varied = world.squares - world.reward**2 > 1e-12 * (1.0 + world.squares)
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
    middle = float(np.clip(world.start @ _evaluate(world.law, world.reward, policy, discount), low, high))
    w = _occupancy(world.law, policy, world.start, discount)[:, None] * policy
    widths = w * (radius * (world.ends[1] - world.ends[0]) + off)
    return _Ends(middle, low, high, max(high_any, high), (widths / max(float(widths.sum()), 1e-300))[: world.n])


def _robust(
    law: Floats, radius: Floats, reward: Floats, policy: Floats | None, discount: float, sign: float,
    ends: tuple[float, float],
) -> Floats:  # fmt: skip
    """Largest (sign 1) or smallest value over L1 balls around the rows, of a policy or of the best one."""
    n = len(law) - 2  # mass moves between the states of the process only
    V = np.full(n + 2, ends[1] if sign > 0 else ends[0])
    size = abs(ends[1] - ends[0])
    for _ in range(int(np.ceil(np.log(1e-6) / np.log(discount)))):
        order = np.argsort(-sign * V[:n], kind="stable")
        q = law[..., order]
        moved = np.minimum(radius / 2.0, 1.0 - q[..., 0])
        behind = np.cumsum(q[..., ::-1], axis=-1)[..., ::-1] - q  # mass on worse states
        taken = np.clip(moved[..., None] - behind, 0.0, q)
        taken[..., 0] = 0.0
        q = q - taken
        q[..., 0] += moved
        worth = reward + discount * (q @ V[order] + law[..., n:] @ V[n:])
        new = worth.max(axis=1) if policy is None else (policy * worth).sum(axis=1)
        new = np.clip(new, *ends)
        if np.abs(new - V).max() < 1e-9 * (1.0 + size):
            return new
        V = new
    return V + sign * discount / (1.0 - discount) * 1e-6 * size
