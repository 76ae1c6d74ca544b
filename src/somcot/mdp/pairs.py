"""Two decision processes, known or recorded, as tables over the union of their states, and distances of such tables."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from somcot.chains import Support
from somcot.core.pairs import Pairs
from somcot.core.sweep import Sweep
from somcot.inference.pooling import Homogeneity, kept_shares
from somcot.mdp.process import MDP
from somcot.mdp.recorded import RecordedMDP
from somcot.plumbing.arrays import Bools, Floats, Ints
from somcot.plumbing.linear_systems import Kernel, discounted_value
from somcot.plumbing.memory import require
from somcot.problem import UnitProblem
from somcot.solvers.strategy_iteration import Game, StartSolution, solve_start

__all__ = ["Comparison", "Side", "Tables"]

_LARGEST = 1e6  # chi-squared of an outcome that the known side excludes
_RARE = 1e-9  # occupancy of pairs that no expansion needs
_PIECES = 40  # long recordings are cut into at least as many pieces, which are then drawn like episodes


class Tables(NamedTuple):
    """A process: the law of the next state for each (state, action), the initial distribution last, and mean rewards."""

    law: Floats  # (n_states * n_actions + 1, n_states)
    reward: Floats  # (n_states * n_actions,)


class Side(NamedTuple):
    """One process on the union of states.

    Attributes
    ----------
    tables : Tables
        Of the whole recording, or known. Rows without data hold the process in place and earn nothing.
    counts : ndarray, shape (n_rows + 1, n_states)
        0 for known rows.
    variance : ndarray, shape (n_rows,)
        Variance of a single reward.
    known : ndarray of bool, shape (n_rows + 1,)
        Rows without sampling error.
    keys, rows, rewards, unit : ndarray
        For each recorded step: row * n_states + next state, row, reward, and the episode or piece it belongs to.
    starts, start_unit : ndarray
        The first state of each episode and the unit it begins.
    """

    tables: Tables
    counts: Floats
    variance: Floats
    known: Bools
    keys: Ints
    rows: Ints
    rewards: Floats
    unit: Ints
    starts: Ints
    start_unit: Ints

    @property
    def n_units(self) -> int:
        """Number of episodes or pieces."""
        return int(self.unit[-1]) + 1 if len(self.unit) else 0

    @property
    def visits(self) -> Floats:
        """Number of observations of each row."""
        visits: Floats = self.counts.sum(axis=1)
        return visits


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two processes to be compared from their initial distributions.

    Attributes
    ----------
    x, y : Side
    policy : ndarray, shape (n_states, n_actions), or None
        Then actions are chosen by it; otherwise the largest distance over actions counts.
    discount : float
    states : tuple
        The union of the states, those of x first.
    """

    x: Side
    y: Side
    policy: Floats | None
    discount: float
    states: tuple[Hashable, ...]
    n_actions: int
    threads: int | None = None

    @classmethod
    def of(cls, x: MDP, y: MDP, policy: Floats | None, discount: float, threads: int | None) -> Comparison:
        """Put both processes on the union of their states; their actions are those of x, in its order."""
        states = (*x.states, *(label for label in y.states if label not in set(x.states)))
        n, m = len(states), x.n_actions
        require(48.0 * n * m * n, f"tables of {n} states and {m} actions", "merge states or compare smaller processes")
        place = {label: i for i, label in enumerate(states)}
        sides = (_side(process, np.array([place[label] for label in process.states]), n) for process in (x, y))
        return cls(*sides, policy, discount, states, m, threads)

    @property
    def plugin(self) -> tuple[Tables, Tables]:
        """Both processes as counted; a row without data on one side takes the other side's."""
        return self.filled(self.x.tables, self.y.tables, self.missing(self.x), self.missing(self.y))

    def missing(self, side: Side) -> Bools:
        """Rows that are neither known nor tried."""
        none: Bools = (side.visits == 0) & ~side.known
        return none

    def filled(self, one: Tables, other: Tables, no_one: Bools, no_other: Bools) -> tuple[Tables, Tables]:
        """Rows without data on one side take those of the other."""

        def patched(a: Tables, b: Tables, no_a: Bools, no_b: Bools) -> Tables:
            take = no_a & ~no_b
            law = np.where(take[:, None], b.law, a.law)
            return Tables(law, np.where(take[:-1], b.reward, a.reward))

        return patched(one, other, no_one, no_other), patched(other, one, no_other, no_one)

    # --- Distances

    def solve(self, one: Tables, other: Tables) -> StartSolution:
        """The exact distance of two processes."""
        a, b = self._acting(one), self._acting(other)
        both = (a.law > 0) | (b.law > 0)  # one pattern for both
        n = len(self.states)
        game = Game(_support(a.law, both), _support(b.law, both), a.reward.reshape(n, -1), b.reward.reshape(n, -1),
                    self.discount, False)  # fmt: skip
        return solve_start(game, threads=self.threads)

    def _acting(self, tables: Tables) -> Tables:
        """Under the policy there is one action."""
        if self.policy is None:
            return tables
        n = len(self.states)
        law = np.einsum("sa,sat->st", self.policy, tables.law[:-1].reshape(n, self.n_actions, n))
        reward = (self.policy * tables.reward.reshape(n, -1)).sum(axis=1)
        return Tables(np.vstack([law, tables.law[-1:]]), reward)

    def near(self, centre: StartSolution) -> Expansion:
        """The distance close to a solved one, to first order."""
        return Expansion.at(self, centre)

    def expand_equal(self, middle: Tables) -> EqualExpansion:
        """The distance of two processes that are both close to the same one, to first order."""
        return EqualExpansion.at(self, middle)

    # --- Rows that the data cannot distinguish

    @cached_property
    def middle(self) -> Tables:
        """The weighted mean of the two processes, row by row; a known side is the middle."""
        (a, b), (n, m) = self.plugin, (self.x.visits, self.y.visits)
        share = np.where(self.x.known, 1.0, np.where(self.y.known, 0.0, n / np.maximum(n + m, 1.0)))
        share[(n + m == 0) & ~self.x.known & ~self.y.known] = 1.0
        law = share[:, None] * a.law + (1.0 - share)[:, None] * b.law
        return Tables(law, share[:-1] * a.reward + (1.0 - share)[:-1] * b.reward)

    @cached_property
    def kept(self) -> tuple[Floats, Floats]:
        """The share of the difference of each row, and of each mean reward, that is kept (empirical Bayes)."""
        return kept_shares(self._row_tests())[0], kept_shares(self._reward_tests())[0]

    def pooled(self, t: float = 1.0) -> tuple[Tables, Tables]:
        """Both processes on the path from equal (t = 0) over empirical Bayes (t = 1) to counted (t = 2)."""
        rows, rewards = (t * h if t <= 1.0 else h + (t - 1.0) * (1.0 - h) for h in self.kept)
        middle = self.middle

        def pulled(tables: Tables) -> Tables:
            law = middle.law + rows[:, None] * (tables.law - middle.law)
            return Tables(law, middle.reward + rewards * (tables.reward - middle.reward))

        one, other = self.plugin
        return pulled(one), pulled(other)

    def _row_tests(self) -> Homogeneity:
        """Two-sample chi-squared of every row, times (N - 1) / N; of one side where the other is known."""
        cx, cy, n, m = self.x.counts, self.y.counts, self.x.visits, self.y.visits
        both, N = cx + cy, np.maximum(n + m, 1.0)
        T = np.zeros(len(n))
        for counts, total in ((cx, n), (cy, m)):
            expected = both * (total / N)[:, None]
            T += np.divide((counts - expected) ** 2, expected, out=np.zeros_like(both), where=expected > 0).sum(axis=1)
        T *= (N - 1.0) / N
        df = (both > 0).sum(axis=1) - 1
        noise = 1.0 / np.maximum(n, 1.0) + 1.0 / np.maximum(m, 1.0)
        tested = (n > 0) & (m > 0) & (df > 0)
        for known, side in ((self.x, self.y), (self.y, self.x)):
            alone = known.known & (side.visits > 0)
            expected = known.tables.law * side.visits[:, None]
            impossible = np.where(side.counts > 0, np.inf, 0.0)
            terms = np.divide((side.counts - expected) ** 2, expected, out=impossible, where=expected > 0)
            free = ((known.tables.law > 0) | (side.counts > 0)).sum(axis=1) - 1
            T = np.where(alone, np.minimum(terms.sum(axis=1), _LARGEST), T)
            df, tested = np.where(alone, free, df), np.where(alone, free > 0, tested)
            noise = np.where(alone, 1.0 / np.maximum(side.visits, 1.0), noise)
        return Homogeneity(np.where(tested, T, 0.0), np.where(tested, df, 0), np.where(tested, noise, 1.0))

    def _reward_tests(self) -> Homogeneity:
        """Squared differences of mean rewards over their variances; rewards without noise need no test."""
        n, m = self.x.visits[:-1], self.y.visits[:-1]
        total = np.maximum(n + m, 1.0)
        variance = (n * self.x.variance + m * self.y.variance) / total
        noise = np.zeros(len(n))
        for side, visits in ((self.x, n), (self.y, m)):
            noise += np.where(side.known[:-1], 0.0, variance / np.maximum(visits, 1.0))
        one, other = self.plugin
        tried = [side.known[:-1] | (side.visits[:-1] > 0) for side in (self.x, self.y)]
        tested = (noise > 0) & tried[0] & tried[1]
        T = np.divide((one.reward - other.reward) ** 2, noise, out=np.zeros(len(n)), where=tested)
        return Homogeneity(np.minimum(T, _LARGEST), tested.astype(np.int64), np.where(tested, noise, 1.0))


class Expansion(NamedTuple):
    """First order around a solved pair: one more sweep over the pairs that its coupling visits.

    distance = transport of the starts + sum over pairs of occupancy * (best value with the new rows - potential).
    """

    comparison: Comparison
    rows_x: Ints
    rows_y: Ints
    weight: Floats
    potential: Floats  # U of those pairs
    table: Floats  # U of all pairs of states

    @classmethod
    def at(cls, comparison: Comparison, centre: StartSolution) -> Expansion:
        """All actions in the pairs of states that the coupling visits."""
        U = centre.metric / (1.0 - comparison.discount)
        law = centre.plan.state_law()
        s, t = np.nonzero(law > _RARE)
        m = comparison.n_actions if comparison.policy is None else 1
        rows_x, rows_y = ((states[:, None] * m + np.arange(m)).ravel() for states in (s, t))
        return cls(comparison, rows_x, rows_y, law[s, t], U[s, t], U)

    def distance(self, one: Tables, other: Tables) -> float:
        """The distance of a pair of processes close to the centre."""
        discount = self.comparison.discount
        a, b = self.comparison._acting(one), self.comparison._acting(other)
        values, start = _values(discount, a, b, self.rows_x, self.rows_y, self.table)
        best = values.reshape(len(self.weight), -1).max(axis=1)
        # The occupancy carries the factor 1 - discount of the normalised distance.
        return max((1.0 - discount) * start + float(self.weight @ (best - self.potential)), 0.0)


class EqualExpansion(NamedTuple):
    """First order around two equal processes: both follow the diagonal, and pay for the difference of their rows.

    The value of a decision process over single states: its rewards are |difference of rewards| + discount * transport
    between the two rows by the metric of the process with itself, and its transitions those of the process.
    """

    comparison: Comparison
    middle: Tables
    table: Floats  # U of all pairs of states

    @classmethod
    def at(cls, comparison: Comparison, middle: Tables) -> EqualExpansion:
        """Solve the metric of the process with itself."""
        metric = comparison.solve(middle, middle).metric
        return cls(comparison, comparison._acting(middle), metric / (1.0 - comparison.discount))

    def distance(self, one: Tables, other: Tables) -> float:
        """The distance of two processes close to the middle."""
        comparison, discount = self.comparison, self.comparison.discount
        a, b = comparison._acting(one), comparison._acting(other)
        rows = np.arange(len(a.law) - 1)
        n = len(comparison.states)
        extra, start = _values(discount, a, b, rows, rows, self.table)
        m = len(rows) // n
        extra, law = extra.reshape(n, m), self.middle.law[:-1].reshape(n, m, n)
        V, actions, states = np.zeros(n), extra.argmax(axis=1), np.arange(n)
        for _ in range(100):  # policy iteration
            V = discounted_value(Kernel.from_matrix(law[states, actions]), extra[states, actions], discount, V)
            worth = extra + discount * law @ V
            better = worth.max(axis=1) > worth[states, actions] + 1e-10 * (1.0 + float(np.abs(V).max()))
            if not better.any():
                break
            actions = np.where(better, worth.argmax(axis=1), actions)
        return (1.0 - discount) * (start + float(self.middle.law[-1] @ V))


def _values(
    discount: float, a: Tables, b: Tables, rows_x: Ints, rows_y: Ints, U: Floats
) -> tuple[Floats, float]:
    """|difference of rewards| + discount * transport by U, for some pairs of rows; and transport of the starts."""
    both = (a.law > 0) | (b.law > 0)
    n_y = U.shape[1]
    index = np.arange(U.size, dtype=np.int32).reshape(U.shape)
    no_cost = np.broadcast_to(0.0, (len(a.reward), len(b.reward)))
    task = UnitProblem(_support(a.law, both), _support(b.law, both), no_cost, discount)
    targets = Pairs(*(part.astype(np.int32) for part in divmod(np.arange(U.size), n_y)), index)
    sweep = Sweep(task, Pairs(rows_x.astype(np.int32), rows_y.astype(np.int32), index), 1, targets=targets)
    moved = sweep.improve(U).value
    return np.abs(a.reward[rows_x] - b.reward[rows_y]) + discount * moved[:-1], float(moved[-1])


def _support(law: Floats, pattern: Bools) -> Support:
    indptr = np.append(0, np.cumsum(pattern.sum(axis=1))).astype(np.int64)
    return Support(indptr, np.nonzero(pattern)[1].astype(np.int32), np.ascontiguousarray(law[pattern]))


def _side(process: MDP, place: Ints, n: int) -> Side:
    """A process on n states; states that it does not have are known and absorbing."""
    m = process.n_actions
    at = (place[:, None] * m + np.arange(m)).ravel()
    law, reward, known = np.zeros((n * m + 1, n)), np.zeros(n * m), np.ones(n * m + 1, np.bool_)
    law[np.arange(n * m), np.arange(n * m) // m] = 1.0
    law[-1, place] = process.initial
    counts, variance = np.zeros_like(law), np.zeros(n * m)
    nothing = np.zeros(0, np.int64)
    if not isinstance(process, RecordedMDP):
        law[np.ix_(at, place)] = process.transitions.reshape(len(at), -1)
        reward[at] = process.rewards.ravel()
        return Side(Tables(law, reward), counts, variance, known, nothing, nothing, np.zeros(0), nothing, nothing, nothing)
    known[at] = np.repeat(process.absorbing, m)
    known[-1] = process.start_known
    rows = at[process.now.astype(np.int64) * m + process.action]
    keys = rows * n + place[process.following]
    counts[:-1] = np.bincount(keys, minlength=n * m * n).reshape(n * m, n)
    variance[at] = process.reward_variances.ravel()
    starts = place[process.now[process.offsets[:-1]]]
    if not process.start_known:
        counts[-1] = np.bincount(starts, minlength=n)
    tried = counts.sum(axis=1) > 0
    law[tried] = counts[tried] / counts[tried].sum(axis=1, keepdims=True)
    reward[tried[:-1]] = (np.bincount(rows, process.reward, n * m) / np.maximum(counts[:-1].sum(axis=1), 1))[tried[:-1]]
    unit = _units(process.offsets)
    return Side(Tables(law, reward), counts, variance, known, keys, rows, process.reward, unit, starts,
                unit[process.offsets[:-1]])  # fmt: skip


def _units(offsets: Ints) -> Ints:
    """The episode of each step; few long episodes are cut into pieces of equal length."""
    lengths, total = np.diff(offsets), int(offsets[-1])
    piece = total if len(lengths) >= _PIECES else max(total // _PIECES, 1)
    within = np.arange(total) - np.repeat(offsets[:-1], lengths)
    begins = within % piece == 0
    return np.cumsum(begins) - 1
