"""How far apart the states of decision processes are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from somcot.mdp.process import MDP, check_mdp
from somcot.plumbing.arrays import Floats
from somcot.plumbing.validation import check_discount, check_flag

if TYPE_CHECKING:
    from somcot.certificates import Bracket
    from somcot.solvers.strategy_iteration import Solved

__all__ = ["bracket", "metric"]


def metric(x: MDP, y: MDP | None = None, *, discount: float, lax: bool = False, threads: int | None = None) -> Floats:
    """Exact bisimulation metric of every pair of states, the largest over all actions.

    The solution of ``d(s, t) = max_a (1 - discount) |r(s, a) - r(t, a)| + discount * OT(P(.|s, a), P(.|t, a); d)``.
    Like all distances here it is per step, between 0 and the largest difference of rewards. Values differ by at most
    ``|V*(s) - V*(t)| <= d(s, t) / (1 - discount)``.

    Parameters
    ----------
    x, y : MDP
        With the same actions, in any order. Without `y`, the states of `x` among themselves.
    discount : float
        Strictly between 0 and 1.
    lax : bool
        Actions need not correspond, and each process may have its own: every action of one state is compared with the
        nearest action of the other (Hausdorff: the largest over the actions of both). Never more than without; values
        are bounded alike. Pairs of actions instead of actions: takes that much longer.
    threads : int, optional
        By default one per core; the result does not depend on it.

    Returns
    -------
    ndarray, shape (n_x, n_y)

    Examples
    --------
    In the first two states the actions do the same, so they are one; the last is never left:

    >>> from somcot.mdp import MDP
    >>> corridor = MDP([[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]]],
    ...                [[0, 0], [0, 0], [1, 1]], actions=["stay", "go"])
    >>> metric(corridor, discount=0.5).round(6)
    array([[0., 0., 1.],
           [0., 0., 1.],
           [1., 1., 0.]])

    What an action is called does not matter where it is lax:

    >>> mirrored = MDP(corridor.transitions[:, ::-1], corridor.rewards, actions=["stay", "go"])
    >>> metric(corridor, mirrored, discount=0.5)[0, 0], metric(corridor, mirrored, discount=0.5, lax=True)[0, 0]
    (np.float64(0.5), np.float64(0.0))
    """
    return _solve(x, y, discount, lax, threads).metric


def bracket(x: MDP, y: MDP | None = None, *, discount: float, lax: bool = False, threads: int | None = None) -> Bracket:
    """Proved lower and upper bounds of the metric of every pair of states.

    They are apart by rounding alone, about 1e-14 / (1 - discount) times the largest difference of rewards.

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


def _solve(x: MDP, y: MDP | None, discount: float, lax: bool, threads: int | None) -> Solved:
    from somcot.solvers import lax as any_actions  # compiled code too
    from somcot.solvers.strategy_iteration import Game, solve

    check_mdp("x", x)
    loose = check_flag("lax", lax)
    other = x if y is None else check_mdp("y", y) if loose else _with_actions_of(x, y)
    game = Game(x.support, other.support, x.rewards, other.rewards, check_discount(discount), other is x)
    return (any_actions.solve if loose else solve)(game, threads=threads)


def _with_actions_of(x: MDP, y: MDP) -> MDP:
    """The second process with its actions in the order of the first."""
    if y is x or check_mdp("y", y).actions == x.actions:
        return y
    if set(x.actions) != set(y.actions):
        lone = next(iter([a for a in x.actions if a not in y.actions] or [a for a in y.actions if a not in x.actions]))
        raise ValueError(
            f"y: its actions are not those of x ({y.n_actions} and {x.n_actions} of them; {lone!r} is in one alone); "
            "name those that correspond alike: MDP(..., actions=...)"
        )
    order = [y.actions.index(action) for action in x.actions]
    return MDP(y.transitions[:, order], y.rewards[:, order], initial=y.initial, states=y.states, actions=x.actions)
