r"""Exact metrics of decision processes, with the same actions or with a Hausdorff distance over actions.

Ferns, Panangaden and Precup define, for two states s, t,

    U(s, t) = max_a  \|r(s, a) - r(t, a)\| + discount * OT(P(.|s, a), P(.|t, a); U).

The actions maximise and the couplings minimise. Against fixed actions the optimal couplings are found by policy
iteration, as between chains; then every pair takes an action that is strictly better, and so on (Hoffman and Karp). U
increases with every change of actions, and there are finitely many, so the iteration ends at the solution. All actions
are rows of one sweep, (s, a) against (t, a).

The bracket follows as in `somcot.certificates`: the operator on the right is monotone, and adding a constant k to U
adds discount * k to it, so U + l / (1 - discount) <= U* <= U + h / (1 - discount) if its residual lies
between l and h. The same roundings are charged.

Taylor, Precup and Panangaden define, for two states s, t,

    U(s, t) = max( max_a min_b W(a, b), max_b min_a W(a, b) ),
    W(a, b) = \|r(s, a) - r(t, b)\| + discount * OT(P(.|s, a), P(.|t, b); U).

One player chooses one of the two states and an action there; the other replies with an action of the other state and a
coupling. The first maximises, and the method is the same: policy iteration over replies against fixed
choices, then better choices, and the bracket of a monotone operator. All pairs of actions are rows of one sweep.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.certificates import rounding
from somcot.chains import Support
from somcot.core.pairs import Pairs
from somcot.core.sweep import Improvement, Sweep
from somcot.couplings import Coupling
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import ConvergenceWarning, warn
from somcot.plumbing.linear_systems import Kernel, discounted_occupancy, discounted_value
from somcot.plumbing.memory import require
from somcot.plumbing.notes import Note
from somcot.problem import UnitProblem
from somcot.solvers.result_builder import coupling_of

__all__ = [
    "EPS",
    "Game",
    "StartSolution",
    "StrategySolution",
    "chosen_rows",
    "scale_of",
    "settled",
    "solve",
    "solve_lax",
    "solve_start",
    "state_pairs",
]


# --- Strategy iteration for the game between actions and couplings

EPS = float(np.finfo(np.float64).eps)


class Game(NamedTuple):
    """Two decision processes with the same actions.

    Attributes
    ----------
    support_x, support_y : Support
        Row ``s * n_actions + a`` is the distribution after action a in state s; the initial distribution is last.
    rewards_x, rewards_y : ndarray, shape (n_x, n_actions) and (n_y, n_actions)
        NaN: `solve_start` does not compare this state by this action. Every pair of states needs another one.
    discount : float
    same : bool
        Whether both are the same process: then (s, t) and (t, s) are one pair.
    """

    support_x: Support
    support_y: Support
    rewards_x: Floats
    rewards_y: Floats
    discount: float
    same: bool


class StrategySolution(NamedTuple):
    """The metric ``(1 - discount) * U`` of every pair of states and proved bounds of it, each (n_x, n_y)."""

    metric: Floats
    low: Floats
    high: Floats


class StartSolution(NamedTuple):
    """The metric from the initial distributions, proved bounds of it, and the coupling that attains it.

    Attributes
    ----------
    value, low, high : float
    metric : ndarray, shape (n_x, n_y)
    plan : Coupling
        The occupancy coupling under the maximising actions, which may differ from pair to pair of states.
    """

    value: float
    low: float
    high: float
    metric: Floats
    plan: Coupling


def solve(game: Game, *, threads: int | None = None, max_sweeps: int = 1000) -> StrategySolution:
    """Solve exactly; the bounds are tight up to rounding."""
    return _solved(game, threads, max_sweeps)[0]


def solve_start(game: Game, *, threads: int | None = None, max_sweeps: int = 1000) -> StartSolution:
    """Solve exactly, then couple the initial distributions by the metric."""
    solution, last = _solved(game, threads, max_sweeps)
    first, second, index = state_pairs(game)
    kernel, start = chosen_rows(last.sweep, last.actions), last.sweep.kernel()[1][: len(first)]
    low, high = (1.0 - game.discount) * last.improvement.low[-1], (1.0 - game.discount) * last.improvement.high[-1]
    slack = rounding(last.U)
    low, high = last.scale * (low + last.residual[0] - slack), last.scale * (high + last.residual[1] + slack)
    low, high = max(low, 0.0), min(high, last.scale)
    value = float(np.clip(last.scale * (1.0 - game.discount) * last.improvement.value[-1], low, high))
    if game.same and np.array_equal(first[start > 0], second[start > 0]):
        value = low = high = 0.0
    # Equal processes whose tables were computed in different ways differ by rounding, which is not a distance.
    if low == 0.0 and value <= last.scale * slack:
        value = 0.0
    pairs = Pairs(first.astype(np.int32), second.astype(np.int32), index)
    law = discounted_occupancy(kernel, start, game.discount)
    plan = coupling_of((len(game.rewards_x), len(game.rewards_y)), pairs, kernel, law, start)
    return StartSolution(value, float(low), float(high), solution.metric, plan)


class _Last(NamedTuple):
    """The state in which strategy iteration ended, for rewards divided by `scale`."""

    U: Floats
    actions: NDArray[np.int64]
    sweep: Sweep
    improvement: Improvement
    residual: tuple[float, float]
    scale: float


def _solved(game: Game, threads: int | None, max_sweeps: int) -> tuple[StrategySolution, _Last]:
    first, second, index = state_pairs(game)
    with np.errstate(over="ignore"):
        cost = np.abs(game.rewards_x[first] - game.rewards_y[second])
    cost[np.isnan(cost)] = -np.inf  # never the largest
    scale = scale_of(cost)
    cost /= scale
    sweep = _sweep(game, first, second, index, threads)
    U, actions, improvement = _iterate(game, sweep, cost, max_sweeps)
    least = _values(game.discount, cost, improvement.low).max(axis=1) - U
    most = _values(game.discount, cost, improvement.high).max(axis=1) - U
    residual = float(least.min()), float(most.max())
    return settled(game, U, residual, scale), _Last(U, actions, sweep, improvement, residual, scale)


def scale_of(cost: Floats) -> float:
    """The largest difference of rewards, 1 if all are equal."""
    scale = float(cost.max()) or 1.0
    if not np.isfinite(scale):
        raise ValueError("rewards: differences are too large for floating point; rescale")
    return scale


def settled(game: Game, U: Floats, residual: tuple[float, float], scale: float) -> StrategySolution:
    """The metric and its bounds from U on the pairs of states and the smallest and largest residual."""
    first, second, index = state_pairs(game)
    level = (1.0 - game.discount) * U
    low, high = level + (residual[0] - rounding(U)), level + (residual[1] + rounding(U))
    low, high = np.nextafter(scale * np.maximum(low, 0.0), 0.0), np.nextafter(scale * np.minimum(high, 1.0), np.inf)
    # The last digits of `level` may lie outside of its proved bounds.
    metric = np.clip(scale * level, low, high)
    if game.same:  # equal states have distance 0
        for table in (metric, low, high):
            table[first == second] = 0.0
    return StrategySolution(metric[index], low[index], high[index])


def state_pairs(game: Game) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """The pairs (first, second) and the index of each pair of states among them, (n_x, n_y)."""
    (n_x, n_actions), n_y = game.rewards_x.shape, len(game.rewards_y)
    require(
        # The sweep has one transport problem per pair and action: about 96 bytes each.
        96.0 * n_x * n_y * n_actions,
        f"a table of {n_x} x {n_y} pairs of states under {n_actions} actions",
        "merge states or compare smaller processes",
    )
    if not game.same:
        index = np.arange(n_x * n_y, dtype=np.int32).reshape(n_x, n_y)
        return np.repeat(np.arange(n_x), n_y), np.tile(np.arange(n_y), n_x), index
    first, second = np.triu_indices(n_x)
    index = np.empty((n_x, n_x), dtype=np.int32)
    # Unordered pairs: the metric of a process with itself is symmetric.
    index[first, second] = index[second, first] = np.arange(len(first), dtype=np.int32)
    return first, second, index


def _sweep(
    game: Game, first: NDArray[np.int64], second: NDArray[np.int64], index: NDArray[np.int32], threads: int | None
) -> Sweep:
    """The transport problems of all pairs under all actions, those of one pair adjacent."""
    n_actions = game.rewards_x.shape[1]
    x, y = (
        np.add.outer(states * n_actions, np.arange(n_actions)).ravel().astype(np.int32) for states in (first, second)
    )
    # Costs enter by `cost` below, per action; a table of zeros costs no memory when broadcast.
    no_cost = np.broadcast_to(0.0, (game.rewards_x.size, game.rewards_y.size))
    rows = UnitProblem(game.support_x, game.support_y, no_cost, game.discount)
    return Sweep(rows, Pairs(x, y, index), threads)


def _iterate(game: Game, sweep: Sweep, cost: Floats, max_sweeps: int) -> tuple[Floats, NDArray[np.int64], Improvement]:
    """Strategy iteration; returns U on the pairs of states, the actions and the last sweep, made against U."""
    index, pairs = sweep.pairs.index, np.arange(len(cost))
    U = cost.max(axis=1)
    # The action with the largest immediate difference is a good first choice.
    actions = cost.argmax(axis=1)
    for step in range(max_sweeps):
        improvement = sweep.improve(U[index])
        values = _values(game.discount, cost, improvement.value)
        tolerance = 64.0 * EPS * (1.0 + float(U.max()))
        current = values[pairs, actions]
        # Only optimal couplings for the current actions show which actions are better.
        if step > 0 and (improvement.changed == 0 or np.abs(current - U).max() <= tolerance):
            # A change within rounding would let the actions alternate.
            better = values.max(axis=1) > current + tolerance
            if not better.any():
                return U, actions, improvement
            actions = np.where(better, values.argmax(axis=1), actions)
        U = discounted_value(chosen_rows(sweep, actions), cost[pairs, actions], game.discount, U)
    warn(Note("not-solved", "max_sweeps", sweeps=max_sweeps), ConvergenceWarning)
    return U, actions, sweep.improve(U[index])


def _values(discount: float, cost: Floats, transport: Floats) -> Floats:
    """The value of each action in each pair of states, (n_pairs, n_actions)."""
    return cost + discount * transport[:-1].reshape(cost.shape)


def chosen_rows(sweep: Sweep, actions: NDArray[np.int64]) -> Kernel:
    """The transition coupling of these choices, one row of the sweep for each pair of states."""
    from scipy.sparse import csr_array

    kernel, _ = sweep.kernel()
    n = len(actions)
    every = csr_array((kernel.data, kernel.indices, kernel.indptr), shape=(kernel.n, n))
    return Kernel.from_matrix(every[np.arange(n) * (kernel.n // n) + actions])


# --- Hausdorff distance over actions (lax bisimulation)

Integers = NDArray[np.int64]


class _Replies(NamedTuple):
    """The value of each choice of the first player, and the cell (a, b) of the best reply: (n_pairs, n_a + n_b)."""

    worth: Floats
    cell: Integers

    @classmethod
    def best(cls, W: Floats) -> _Replies:
        n_b = W.shape[2]
        cells = [
            # Cell (a, b) is numbered a * n_b + b, for both players' choices.
            np.arange(W.shape[1]) * n_b + W.argmin(axis=2),
            W.argmin(axis=1) * n_b + np.arange(n_b),
        ]  # fmt: skip
        return cls(np.concatenate([W.min(axis=2), W.min(axis=1)], axis=1), np.concatenate(cells, axis=1))


def solve_lax(game: Game, *, threads: int | None = None, max_sweeps: int = 1000) -> StrategySolution:
    """Solve exactly; the bounds are tight up to rounding."""
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
    U, improvement = _iterate_lax(game, _sweep_lax(game, (first, second), index, threads), cost, max_sweeps)
    least, most = (
        _Replies.best(_values_lax(game, cost, end)).worth.max(axis=1) - U for end in (improvement.low, improvement.high)
    )
    return settled(game, U, (float(least.min()), float(most.max())), scale)


def _sweep_lax(game: Game, states: tuple[Integers, Integers], index: NDArray[np.int32], threads: int | None) -> Sweep:
    """The transport problems of all pairs of states under all pairs of actions, those of one pair adjacent."""
    n_a, n_b = game.rewards_x.shape[1], game.rewards_y.shape[1]
    cells = np.repeat(np.arange(n_a), n_b), np.tile(np.arange(n_b), n_a)
    x, y = (
        np.add.outer(side * n, actions).ravel().astype(np.int32)
        for side, n, actions in zip(states, (n_a, n_b), cells, strict=True)
    )
    no_cost = np.broadcast_to(0.0, (game.rewards_x.size, game.rewards_y.size))
    return Sweep(UnitProblem(game.support_x, game.support_y, no_cost, game.discount), Pairs(x, y, index), threads)


def _iterate_lax(game: Game, sweep: Sweep, cost: Floats, max_sweeps: int) -> tuple[Floats, Improvement]:
    """Strategy iteration; returns U on the pairs of states and the last sweep, made against U."""
    index, pairs = sweep.pairs.index, np.arange(len(cost))
    # One row per pair, one column per pair of actions, as `chosen_rows` numbers them.
    flat = cost.reshape(len(cost), -1)
    before = _Replies.best(cost)
    U, choice = before.worth.max(axis=1), before.worth.argmax(axis=1)
    for step in range(max_sweeps):
        improvement = sweep.improve(U[index])
        replies = _Replies.best(_values_lax(game, cost, improvement.value))
        tolerance = 64.0 * EPS * (1.0 + float(U.max()))
        current = replies.worth[pairs, choice]
        # Only optimal replies to the current choices show which choices are better.
        if step > 0 and np.abs(current - U).max() <= tolerance:
            better = replies.worth.max(axis=1) > current + tolerance
            if not better.any():
                return U, improvement
            choice = np.where(better, replies.worth.argmax(axis=1), choice)
        cell = replies.cell[pairs, choice]
        U = discounted_value(chosen_rows(sweep, cell), flat[pairs, cell], game.discount, U)
    warn(Note("not-solved", "max_sweeps", sweeps=max_sweeps), ConvergenceWarning)
    return U, sweep.improve(U[index])


def _values_lax(game: Game, cost: Floats, transport: Floats) -> Floats:
    """The value of each pair of actions in each pair of states, (n_pairs, n_a, n_b)."""
    return np.asarray(cost + game.discount * transport[:-1].reshape(cost.shape))
