"""From a model to the recorded process: bounds of the error of the predicted value of a policy, and of its loss."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from somcot.mdp.process import MDP, best, check_mdp, check_range, policy_law
from somcot.mdp.recorded import RecordedMDP
from somcot.mdp.value_bounds import Ends, Options, World, delta, followed, proved, stays
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_confidence, check_discount, check_number, check_rng, check_text
from somcot.plumbing.html import SHOWN, Table, card
from somcot.plumbing.records import view
from somcot.plumbing.text import label_text

__all__ = ["MoreData", "TransferBound", "ValueInterval", "transfer_bound"]

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
        Where more data would help most: actions with the largest share of the width of the interval.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> bound = TransferBound(8.1, ValueInterval(7.2, 7.0, 7.4), 1.2, 0.9, 0.9, 0.0, False, ("go", "go"), ())
    >>> bound
    TransferBound(model 8.1, recorded 7.2 in [7, 7.4], value error <= 1.2, policy loss <= 0.9, 90 %, large samples)
    >>> bound.plot().get_xlabel()
    'expected sum of discounted rewards in reality (90 %, large samples)'
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
        head = ("state", "action", "tried", "share of the uncertainty")
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
    """Bound the error of the value that a model predicts for a policy, and the loss of the policy.

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
        The outcome of actions that were never tried: the worst within `value_range`, or that of the model.
    value_range : (float, float), optional
        Smallest and largest possible value of any state. By default those of the least and the largest reward at
        every step.
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
    options = _checked(discount, confidence, unvisited, value_range, method)
    check_mdp("model", model)
    if not isinstance(recorded, RecordedMDP):
        raise TypeError(
            f"recorded: found {type(recorded).__name__}, expected a RecordedMDP; make one: "
            "RecordedMDP.from_transitions(states, actions, rewards, next_states)"
        )
    tested = recorded
    fitted: RecordedMDP | None = None
    if holdout is not None:
        # Judged by other episodes than those it was fitted to: otherwise the interval would be too optimistic.
        fitted, tested = _split(recorded, holdout, rng)
    elif callable(policy):
        raise ValueError("policy: found a function, which fits a policy to episodes; pass holdout too, such as 0.5")
    world = World.of(model, tested, options)
    chosen = _chosen_policy(model, policy, fitted, world, options)
    # On the union of the states, as the recording may have states that the model lacks.
    law = world.placed(policy_law(model, chosen))
    ends = (proved if options.method == "proved" else delta)(world, law, options)
    return _bound(model, world, law, chosen, options, ends)


def _checked(discount: Any, confidence: Any, unvisited: Any, value_range: Any, method: Any) -> Options:
    """Refuse what is not an option."""
    check_confidence(confidence)
    if confidence is None:
        raise ValueError("confidence: found None, expected a level such as 0.95")
    for name, value, known in (("unvisited", unvisited, _UNVISITED), ("method", method, _METHODS)):
        check_text(name, value, *known)
    value_range = None if value_range is None else check_range("value_range", value_range)
    return Options(check_discount(discount), float(confidence), unvisited, value_range, method)


def _bound(model: MDP, world: World, law: Floats, chosen: Any, options: Options, ends: Ends) -> TransferBound:
    start = world.start
    outside = np.ones(len(start), np.bool_)
    outside[world.place] = False
    # The model starts where the recording does, unless it lacks some of these states.
    weight = start[world.place] if not start[outside].any() else model.initial
    V, _ = followed(model.transitions, model.rewards, law[world.place], weight, options.discount)
    value_model = float(weight @ V)
    if options.value_range is not None:
        _check_range(options.value_range, value_model, ends.estimate)
    _, visits = followed(world.law, world.reward, law, start, options.discount)
    # Discounted visits sum to 1 / (1 - discount); the last factor makes them a share.
    never = float((visits[:, None] * law)[(world.visits == 0) & ~stays(world)].sum() * (1.0 - options.discount))
    # The larger deviation that the interval allows, on either side of the model's value.
    error = max(ends.high - value_model, value_model - ends.low, 0.0)
    # Stable, so that ties are in the order of the states on all platforms.
    order = np.argsort(-ends.shares, axis=None, kind="stable")[:10]
    m = len(world.actions)
    rows = tuple(
        MoreData(
            world.states[k // m], world.actions[k % m], int(world.visits[k // m, k % m]), float(ends.shares.flat[k])
        )
        for k in order.tolist()
        if ends.shares.flat[k] > 0
    )
    # A deterministic policy is shown as actions, a stochastic one as rows of probabilities.
    policy = tuple(chosen) if np.ndim(chosen) == 1 else tuple(map(tuple, np.asarray(chosen).tolist()))
    # The loss compares the best value that the data allow with the worst value of this policy.
    return TransferBound(
        value_model, ValueInterval(ends.estimate, ends.low, ends.high), error, max(ends.best_high - ends.low, 0.0),
        options.confidence, never, options.method == "proved", policy, rows,
    )  # fmt: skip


def _check_range(value_range: tuple[float, float], *values: float) -> None:
    """Values outside the range show that it is not one of all values."""
    slack = 1e-9 * max(map(abs, value_range))
    for value, side in zip(values, ("model", "recorded process"), strict=True):
        if not value_range[0] - slack <= value <= value_range[1] + slack:
            raise ValueError(
                f"value_range: found {value_range}, but the policy earns {value:.4g} in the {side}; pass the least and "
                "the largest value that is possible from any state"
            )


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
    # A fixed seed by default: equal calls must give equal bounds.
    order = check_rng(0 if rng is None else rng).permutation(n)
    # Sorted, so that both parts keep the order of time.
    return data.take(np.sort(order[k:])), data.take(np.sort(order[:k]))


def _chosen_policy(model: MDP, policy: Any, fitted: RecordedMDP | None, world: World, options: Options) -> Any:
    """The policy for the states of the model: given, fitted to other episodes, or optimal in the model."""
    if callable(policy):
        fit: Callable[[Any], Any] = policy
        return fit(fitted)
    if policy is not None:
        return policy
    if fitted is None:
        # This policy does not depend on the recording, so all episodes may be used to judge it.
        _, actions = best(model, options.discount)
        return tuple(model.actions[a] for a in actions)
    # Rows without data follow the model: to choose a policy, some behaviour is needed, not a bound.
    other = World.of(model, fitted, options._replace(unvisited="model"))
    n = other.n
    process = MDP(other.law, other.reward)
    _, actions = best(process, options.discount)
    # The two additional states of best and worst value.
    assert len(actions) == n + 2
    return tuple(model.actions[actions[k]] for k in other.place)
