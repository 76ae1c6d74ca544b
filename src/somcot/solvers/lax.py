r"""Exact metrics of decision processes whose actions need not correspond: Hausdorff over actions.

Taylor, Precup and Panangaden ask of two states s, t

    U(s, t) = max( max_a min_b W(a, b), max_b min_a W(a, b) ),
    W(a, b) = \|r(s, a) - r(t, b)\| + discount * OT(P(.|s, a), P(.|t, b); U).

One player names a state of the two and an action there; the other replies with an action of the other state and a
coupling. The first maximises, and all is as in `strategy_iteration`: policy iteration over replies against fixed
choices, then better choices, and the bracket of a monotone operator. All pairs of actions are rows of one sweep.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.bellman.pairs import Pairs
from somcot.bellman.sweep import Improvement, Sweep
from somcot.plumbing.arrays import Floats
from somcot.plumbing.discounting import discounted_value
from somcot.plumbing.errors import ConvergenceWarning, warn
from somcot.plumbing.memory import require
from somcot.problem import UnitProblem
from somcot.solvers.strategy_iteration import EPS, Game, Solved, chosen_rows, scale_of, settled, state_pairs

__all__ = ["solve"]

Integers = NDArray[np.int64]


class _Replies(NamedTuple):
    """What each choice of the first player is worth, and the cell (a, b) of the best reply: (n_pairs, n_a + n_b)."""

    worth: Floats
    cell: Integers

    @classmethod
    def best(cls, W: Floats) -> _Replies:
        n_b = W.shape[2]
        cells = [
            np.arange(W.shape[1]) * n_b + W.argmin(axis=2),
            W.argmin(axis=1) * n_b + np.arange(n_b),
        ]  # fmt: skip
        return cls(np.concatenate([W.min(axis=2), W.min(axis=1)], axis=1), np.concatenate(cells, axis=1))


def solve(game: Game, *, threads: int | None = None, max_sweeps: int = 1000) -> Solved:
    """Solve exactly; the bounds are as close as floating point allows."""
    n_cells = game.rewards_x.shape[1] * game.rewards_y.shape[1]
    n_pairs = len(game.rewards_x) * len(game.rewards_y)
    require(
        96.0 * n_pairs * n_cells,
        f"a table of {n_pairs} pairs of states and {n_cells} pairs of actions",
        "merge states or compare smaller processes",
    )
    first, second, index = state_pairs(game)
    with np.errstate(over="ignore"):
        cost = np.abs(game.rewards_x[first][:, :, None] - game.rewards_y[second][:, None, :])
    scale = scale_of(cost)
    cost = cost / scale
    U, found = _iterate(game, _sweep(game, (first, second), index, threads), cost, max_sweeps)
    least, most = (_Replies.best(_values(game, cost, end)).worth.max(axis=1) - U for end in (found.low, found.high))
    return settled(game, U, (float(least.min()), float(most.max())), scale)


def _sweep(game: Game, states: tuple[Integers, Integers], index: NDArray[np.int32], threads: int | None) -> Sweep:
    """The transport problems of all pairs of states under all pairs of actions, those of one pair side by side."""
    n_a, n_b = game.rewards_x.shape[1], game.rewards_y.shape[1]
    cells = np.repeat(np.arange(n_a), n_b), np.tile(np.arange(n_b), n_a)
    x, y = (
        np.add.outer(side * n, actions).ravel().astype(np.int32)
        for side, n, actions in zip(states, (n_a, n_b), cells, strict=True)
    )
    no_cost = np.broadcast_to(0.0, (game.rewards_x.size, game.rewards_y.size))
    return Sweep(UnitProblem(game.support_x, game.support_y, no_cost, game.discount), Pairs(x, y, index), threads)


def _iterate(game: Game, sweep: Sweep, cost: Floats, max_sweeps: int) -> tuple[Floats, Improvement]:
    """Strategy iteration; returns U on the pairs of states and the last sweep, which was against U."""
    index, pairs = sweep.pairs.index, np.arange(len(cost))
    flat = cost.reshape(len(cost), -1)
    before = _Replies.best(cost)
    U, choice = before.worth.max(axis=1), before.worth.argmax(axis=1)
    for step in range(max_sweeps):
        found = sweep.improve(U[index])
        replies = _Replies.best(_values(game, cost, found.value))
        tolerance = 64.0 * EPS * (1.0 + float(U.max()))
        current = replies.worth[pairs, choice]
        # Only replies that are best against the choices tell which choices are better.
        if step > 0 and np.abs(current - U).max() <= tolerance:
            better = replies.worth.max(axis=1) > current + tolerance
            if not better.any():
                return U, found
            choice = np.where(better, replies.worth.argmax(axis=1), choice)
        cell = replies.cell[pairs, choice]
        U = discounted_value(chosen_rows(sweep, cell), flat[pairs, cell], game.discount, U)
    warn(f"max_sweeps: not solved after {max_sweeps} sweeps; the bracket says how far it got", ConvergenceWarning)
    return U, sweep.improve(U[index])


def _values(game: Game, cost: Floats, transport: Floats) -> Floats:
    """What each pair of actions is worth in each pair of states, (n_pairs, n_a, n_b)."""
    return np.asarray(cost + game.discount * transport[:-1].reshape(cost.shape))
