"""Bisimulation metrics of decision processes, and state aggregation with error bounds."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.mdp.process import MDP, best, check_mdp, on_policy, shortfall
from somcot.mdp.recorded import RecordedMDP, plain
from somcot.plumbing.arrays import Bools, Floats
from somcot.plumbing.checks import check_count, check_discount, check_flag, check_number
from somcot.plumbing.html import SHOWN, Table, card
from somcot.plumbing.text import label_text

if TYPE_CHECKING:
    from somcot.certificates import Bracket
    from somcot.solvers.strategy_iteration import StartSolution, StrategySolution

__all__ = [
    "ActionTables",
    "Aggregation",
    "Comparison",
    "aggregate",
    "bracket",
    "metric",
    "with_actions_of",
]


# --- Bisimulation metrics.


def metric(x: MDP, y: MDP | None = None, *, discount: float, lax: bool = False, threads: int | None = None) -> Floats:
    """Exact bisimulation metric of every pair of states, the largest over all actions.

    The solution of ``d(s, t) = max_a (1 - discount) |r(s, a) - r(t, a)| + discount * OT(P(.|s, a), P(.|t, a); d)``.
    Like all distances here it is per step, between 0 and the largest difference of rewards. Values differ by at most
    ``|V*(s) - V*(t)| <= d(s, t) / (1 - discount)``.

    Parameters
    ----------
    x, y : MDP or RecordedMDP
        Processes with the same actions, in any order. Without `y`, the states of `x` are compared with each other.
        A recorded process is estimated first, with a `DataWarning`: noise makes distances too large.
    discount : float
        Strictly between 0 and 1.
    lax : bool
        Lax bisimulation: actions need not correspond, and each process may have different ones. Every action of one
        state is compared with the nearest action of the other (Hausdorff distance: the maximum over the actions of
        both). The lax metric never exceeds the ordinary one, and the same bound on values holds. The cost grows with
        the number of pairs of actions instead of actions.
    threads : int, optional
        By default one per core; the result does not depend on it.

    Returns
    -------
    ndarray, shape (n_x, n_y)

    Examples
    --------
    The actions have the same effects in the first two states, which are bisimilar; the last state is absorbing:

    >>> from somcot.mdp import MDP
    >>> corridor = MDP([[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]]],
    ...                [[0, 0], [0, 0], [1, 1]], actions=["stay", "go"])
    >>> metric(corridor, discount=0.5).round(6)
    array([[0., 0., 1.],
           [0., 0., 1.],
           [1., 1., 0.]])

    The lax metric ignores the labels of the actions:

    >>> mirrored = MDP(corridor.transitions[:, ::-1], corridor.rewards, actions=["stay", "go"])
    >>> metric(corridor, mirrored, discount=0.5)[0, 0], metric(corridor, mirrored, discount=0.5, lax=True)[0, 0]
    (np.float64(0.5), np.float64(0.0))
    """
    return _solve(x, y, discount, lax, threads).metric


def bracket(x: MDP, y: MDP | None = None, *, discount: float, lax: bool = False, threads: int | None = None) -> Bracket:
    """Proved lower and upper bounds of the metric of every pair of states.

    They differ by rounding errors only, about 1e-14 / (1 - discount) times the largest difference of rewards.

    Examples
    --------
    >>> from somcot.mdp import MDP
    >>> coin = MDP([[[0.5, 0.5]], [[0.5, 0.5]]], [[0], [1]])
    >>> low, high = bracket(coin, discount=0.9)
    >>> bool((high - low).max() < 1e-13)
    True
    """
    from somcot.certificates import Bracket  # compiled code, loaded when used

    _, low, high = _solve(x, y, discount, lax, threads)
    return Bracket(low, high)


def _solve(x: MDP, y: MDP | None, discount: float, lax: bool, threads: int | None) -> StrategySolution:
    from somcot.solvers import strategy_iteration as any_actions  # compiled code too
    from somcot.solvers.strategy_iteration import Game, solve

    x, y = plain("x", check_mdp("x", x)), None if y is None or y is x else plain("y", check_mdp("y", y))
    loose = check_flag("lax", lax)
    # The lax metric matches actions by itself, so only the ordinary one needs common labels.
    other = x if y is None else y if loose else with_actions_of(x, y)
    game = Game(x.support, other.support, x.rewards, other.rewards, check_discount(discount), other is x)
    return (any_actions.solve_lax if loose else solve)(game, threads=threads)


def with_actions_of(x: MDP, y: MDP) -> MDP:
    """The second process with its actions in the order of the first."""
    if y.actions == x.actions:
        return y
    if set(x.actions) != set(y.actions):
        lone = next(iter([a for a in x.actions if a not in y.actions] or [a for a in y.actions if a not in x.actions]))
        raise ValueError(
            f"y: its actions are not those of x ({y.n_actions} and {x.n_actions} of them; {lone!r} is in only one); "
            "give corresponding actions equal labels: MDP(..., actions=...)"
        )
    # Actions are matched by label, so their order may differ.
    order = [y.actions.index(action) for action in x.actions]
    if isinstance(y, RecordedMDP):
        steps = (y.now, np.argsort(order)[y.action].astype(np.int32), y.following, y.reward)
        return RecordedMDP(y.states, x.actions, steps, y.offsets, y.initial if y.start_known else None)
    return MDP(y.transitions[:, order], y.rewards[:, order], initial=y.initial, states=y.states, actions=x.actions)


# --- The distance from the initial distributions, where some actions may be untried.


class ActionTables(NamedTuple):
    """The law of the next state for each (state, action), the initial distribution last, and mean rewards."""

    law: Floats  # (n_states * n_actions + 1, n_states)
    reward: Floats  # (n_states * n_actions,)


class Comparison(NamedTuple):
    """How two processes on the same states are compared.

    Attributes
    ----------
    states : tuple
    policy : ndarray, shape (n_states, n_actions), or None
        None for the largest distance over all actions.
    discount : float
    threads : int or None
    untried : pair of ndarray of bool, shape (n_states * n_actions,)
        Actions of each side of which nothing is known.
    ends : (float, float) or None
        With these, untried actions do what makes the distance largest: each leads to a state that may earn any reward
        from the first to the second at every step, whatever it is compared with. Otherwise states are not compared by
        actions that are untried on both sides, and a policy does not take them.
    paid : ndarray, shape (n_states * n_actions, n_states), or None
        What each transition earns in addition to the rewards of the tables.
    """

    states: tuple[Hashable, ...]
    policy: Floats | None
    discount: float
    threads: int | None
    untried: tuple[Bools, Bools]
    ends: tuple[float, float] | None = None
    paid: Floats | None = None

    def solve(self, one: ActionTables, other: ActionTables) -> StartSolution:
        """The exact distance of two processes."""
        from somcot.solvers.strategy_iteration import Game, solve_start  # compiled code, loaded when used

        if self.paid is not None:
            one, other = (t._replace(reward=t.reward + (t.law[:-1] * self.paid).sum(axis=1)) for t in (one, other))
        if self.ends is None:
            a, b = (self._known(tables) for tables in (one, other))
        else:
            # Any difference of two rewards is largest at opposite ends.
            a, b = self._free(one, self.untried[0], self.ends), self._free(other, self.untried[1], self.ends[::-1])
        reward_x, reward_y = (tables.reward.reshape(tables.law.shape[1], -1) for tables in (a, b))
        game = Game(Support.from_rows(a.law), Support.from_rows(b.law), reward_x, reward_y, self.discount, False)
        return solve_start(game, threads=self.threads)

    def _known(self, tables: ActionTables) -> ActionTables:
        """Under a policy there is one action; rewards are NaN where states are not compared."""
        n, lost = tables.law.shape[1], self.untried[0] & self.untried[1]
        law, reward = tables.law[:-1].reshape(n, -1, n), np.where(lost, np.nan, tables.reward).reshape(n, -1)
        if self.policy is not None:
            share = self.policy
            if lost.any():
                share = np.where(np.isnan(reward), 0.0, share)
                share /= np.maximum(share.sum(axis=1, keepdims=True), np.finfo(float).tiny)
            law, none = np.einsum("sa,sat->st", share, law)[:, None], ~share.any(axis=1)
            law[none, 0] = np.eye(n)[none]
            reward = np.where(none, np.nan, (share * np.nan_to_num(reward)).sum(axis=1))[:, None]
        if np.isnan(reward).any():
            # An additional action that stays and earns nothing adds nothing: discount * d <= d. So all pairs have one.
            law = np.concatenate([law, np.eye(n)[:, None]], axis=1)
            reward = np.concatenate([reward, np.zeros((n, 1))], axis=1)
        return ActionTables(np.vstack([law.reshape(-1, n), tables.law[-1:]]), reward.ravel())

    def _free(self, tables: ActionTables, untried: Bools, ends: tuple[float, ...]) -> ActionTables:
        """With one more state, to which untried actions lead; every action twice, once with each end as its reward."""
        n = tables.law.shape[1]
        law = np.where(untried[:, None], 0.0, tables.law[:-1])
        law = np.column_stack([law, untried]).reshape(n, -1, n + 1)
        rewards = [np.where(untried, end, tables.reward).reshape(n, -1) for end in ends]
        if self.policy is not None:
            law = np.einsum("sa,sat->st", self.policy, law)[:, None]
            rewards = [(self.policy * reward).sum(axis=1, keepdims=True) for reward in rewards]
        m = law.shape[1]
        law = np.concatenate([np.tile(law, (1, 2, 1)), np.tile(np.eye(n + 1)[-1], (1, 2 * m, 1))])
        reward = np.vstack([np.hstack(rewards), np.repeat(ends, m)])
        return ActionTables(np.vstack([law.reshape(-1, n + 1), np.append(tables.law[-1], 0.0)]), reward.ravel())


# --- State aggregation with error bounds.


@dataclass(frozen=True, eq=False)
class Aggregation:
    """A decision process with merged states and bounds of the resulting loss.

    Attributes
    ----------
    labels : ndarray of int, shape (n,)
        The class of each state.
    mdp : MDP
        The aggregated process, whose states are the classes: means over their members. Each has the label of its
        centre.
    policy : tuple
        The optimal action of the class of each state: a policy for the original process.
    value_bounds, policy_bounds : ndarray, shape (n,)
        For each state, upper bounds of the difference between V* and the value of its class, and of the loss of the
        policy relative to V*. In units of V*, the expected sum of discounted rewards.
    """

    labels: NDArray[np.int64]
    mdp: MDP
    policy: tuple[Hashable, ...]
    value_bounds: Floats
    policy_bounds: Floats

    @property
    def value_error(self) -> float:
        """Largest of the `value_bounds`."""
        return float(self.value_bounds.max())

    @property
    def policy_loss(self) -> float:
        """Largest of the `policy_bounds`."""
        return float(self.policy_bounds.max())

    def __repr__(self) -> str:
        sizes = f"{len(self.labels):,} states in {self.mdp.n_states:,} class{'es' * (self.mdp.n_states != 1)}"
        return f"Aggregation({sizes}, value error <= {self.value_error:.3g}, policy loss <= {self.policy_loss:.3g})"

    def _repr_html_(self) -> str:
        facts = [("value error", f"at most {self.value_error:.4g}"), ("policy loss", f"at most {self.policy_loss:.4g}")]
        sizes = np.bincount(self.labels, minlength=self.mdp.n_states)
        rows = [
            (label_text(self.mdp.states[k], 40), f"{sizes[k]:,}")
            for k in np.argsort(-sizes, kind="stable")[:SHOWN]
        ]  # fmt: skip
        size = f"{len(self.labels):,} states in {self.mdp.n_states:,} classes"
        return card("Aggregation", facts, Table(("largest classes", "states"), rows, "lr"), sub=size)


def aggregate(mdp: MDP, *, discount: float, epsilon: float | None = None, n_classes: int | None = None) -> Aggregation:
    """Merge states that are close, and bound the resulting loss.

    Centres are chosen greedily, each as far as possible from the previous ones, until every state is close to one.
    The bounds come from the metric between the process and its aggregation: ``|V*(s) - V*(class of s)| <= U`` and
    ``V*(s) - V_policy(s) <= U + U_policy``, where U and U_policy are the metrics of s and its class, over all actions
    and under the policy, divided by 1 - discount. They hold for any choice of classes. The metrics have proved bounds;
    only the final sums are subject to rounding.

    Parameters
    ----------
    mdp : MDP
    discount : float
    epsilon : float, optional
        Largest distance (by `metric`) of a state from its centre; 0 merges only states that are equal up to rounding.
    n_classes : int, optional
        Number of classes instead; fewer are used if every state then equals its centre.

    Examples
    --------
    >>> from somcot.mdp import MDP
    >>> corridor = MDP([[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]]],
    ...                [[0, 0], [0, 0], [1, 1]], actions=["stay", "go"])
    >>> merged = aggregate(corridor, discount=0.5, epsilon=0)
    >>> merged.labels, merged.policy[0]
    (array([0, 0, 1]), 'go')
    >>> merged.value_error < 1e-12, merged.policy_loss < 1e-12
    (True, True)
    """
    discount = check_discount(discount)
    radius, most = _check_size(check_mdp("mdp", mdp), epsilon, n_classes)
    mdp = plain("mdp", mdp)
    # The upper ends decide: a radius must hold for the true distances.
    low, high = bracket(mdp, discount=discount)
    # Up to rounding, so that epsilon = 0 merges states at distance 0.
    centres, labels = _classes(high, radius + float((high - low).max()), most)
    merged = _merge(mdp, centres, labels)
    V, actions = best(merged, discount)
    policy = tuple(mdp.actions[a] for a in actions)
    lifted = tuple(policy[k] for k in labels)
    value = _apart(mdp, merged, labels, discount)
    # Under the fixed policy both processes are chains, written as processes with one action.
    followed = _apart(_follow(mdp, lifted), _follow(merged, policy), labels, discount)
    # |V* - V_policy| by the triangle inequality, through the value of the class.
    return Aggregation(labels, merged, lifted, value, value + followed + shortfall(merged, discount, V, actions))


def _check_size(mdp: MDP, epsilon: float | None, n_classes: int | None) -> tuple[float, int]:
    """The radius to reach and the number of classes not to exceed."""
    if (epsilon is None) == (n_classes is None):
        raise ValueError("epsilon, n_classes: give exactly one of them")
    if epsilon is None:
        most = check_count("n_classes", n_classes)
        if most > mdp.n_states:
            raise ValueError(f"n_classes: found {most}, expected at most {mdp.n_states}, the number of states")
        return 0.0, most
    radius = check_number("epsilon", epsilon)
    if not 0.0 <= radius < np.inf:
        raise ValueError(f"epsilon: found {radius}, expected a distance of at least 0")
    return radius, mdp.n_states


def _classes(distances: Floats, radius: float, most: int) -> tuple[list[int], NDArray[np.int64]]:
    """Centres, each the state farthest from those before, and the class of each state: that of its nearest centre."""
    # The first centre is the state with the smallest eccentricity.
    centres = [int(distances.max(axis=1).argmin())]
    nearest = distances[centres[0]]
    while nearest.max() > radius and len(centres) < most:
        centres.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, distances[centres[-1]])
    centres.sort()  # classes are numbered in the order of the states
    return centres, distances[:, centres].argmin(axis=1)


def _merge(mdp: MDP, centres: list[int], labels: NDArray[np.int64]) -> MDP:
    """The aggregated process: each class has the mean transitions and rewards of its members."""
    member = np.eye(len(centres))[labels]
    # Means over the members; `member` sums over the classes of the next state.
    share = (member / member.sum(axis=0)).T
    return MDP(
        np.einsum("ks,sat,tl->kal", share, mdp.transitions, member, optimize=True),
        share @ mdp.rewards,
        initial=mdp.initial @ member,
        states=[mdp.states[centre] for centre in centres],
        actions=mdp.actions,
    )


def _follow(mdp: MDP, policy: tuple[Hashable, ...]) -> MDP:
    """The process restricted to the action of the policy in each state."""
    chain = on_policy(mdp, policy)
    assert isinstance(chain.transition, np.ndarray)
    assert chain.features is not None
    return MDP(chain.transition[:, None], chain.features[:, None], initial=chain.initial, states=chain.states)


def _apart(mdp: MDP, merged: MDP, labels: NDArray[np.int64], discount: float) -> Floats:
    """Upper bound of the difference between the values of a state and of its class."""
    high = bracket(mdp, merged, discount=discount).high
    return high[np.arange(mdp.n_states), labels] / (1.0 - discount)
