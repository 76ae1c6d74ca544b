"""The truth in whole numbers: policy iteration in exact arithmetic for small problems, with no code of the package.

The problem is the one in memory, as `somcot.certificates` states it: costs and discount are exactly their float64
values, rows are the stored floats divided by their exact sums. Masses are whole numbers, values are fixed-point numbers
of `BITS` binary digits kept in Python's integers. The last sweep is a certificate of its own: every transport plan is
compared with its dual solution, without rounding.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from somcot import MarkovChain

BITS = 420
ONE = 1 << BITS
SLACK = 1 << (BITS - 300)  # rounding of the fixed-point sums, far above their number times the horizon

Row = tuple[list[int], list[int]]  # states, masses


class Truth(NamedTuple):
    """An interval that holds the distance, far narrower than a float can tell."""

    low: Fraction
    high: Fraction

    def inside(self, low: float, high: float) -> bool:
        """Whether a bracket contains it."""
        return Fraction(low) <= self.high and self.low <= Fraction(high)

    def error(self, value: float) -> float:
        """How far a value is off."""
        return float(abs(Fraction(value) - self.low))


def masses(values: Any) -> Row:
    """The positive entries of a row of floats as whole numbers in proportion."""
    states = [int(i) for i in np.flatnonzero(values)]
    ratios = [Fraction(float(values[i])) for i in states]
    scale = max(ratio.denominator for ratio in ratios)  # powers of two: the largest is a multiple of all
    return states, [int(ratio * scale) for ratio in ratios]


def transport(cost: list[list[int]], a: list[int], b: list[int]) -> tuple[int, list[list[int]]]:
    """Least cost of moving a onto b (equal totals), and the plan, by shortest augmenting paths; checked by its dual."""
    n, m = len(a), len(b)
    low = min(map(min, cost))
    C = [[value - low for value in row] for row in cost]
    flow = [[0] * m for _ in range(n)]
    height = [0] * (n + m)
    have, need = a[:], b[:]
    while any(have):
        far, via = _distances(C, flow, height, have)
        end = min((n + j for j in range(m) if need[j]), key=lambda node: far[node])
        height = [h + min(d, far[end]) for h, d in zip(height, far, strict=True)]
        path = [end]
        while via[path[-1]] >= 0:
            path.append(via[path[-1]])
        steps = [(path[k + 1], path[k]) for k in range(len(path) - 1)]
        amount = min([have[path[-1]], need[end - n], *(flow[j][i - n] for i, j in steps if i >= n)])
        for i, j in steps:
            if i < n:
                flow[i][j - n] += amount
            else:
                flow[j][i - n] -= amount
        have[path[-1]] -= amount
        need[end - n] -= amount
    assert all(C[i][j] + height[i] - height[n + j] >= 0 for i in range(n) for j in range(m))
    value = sum(C[i][j] * flow[i][j] for i in range(n) for j in range(m))
    assert value == sum(b[j] * height[n + j] for j in range(m)) - sum(a[i] * height[i] for i in range(n))
    return value + low * sum(a), flow


def _distances(
    C: list[list[int]], flow: list[list[int]], height: list[int], have: list[int]
) -> tuple[list[int], list[int]]:
    """Dijkstra in the residual graph from all rows that have mass left: lengths less heights, and where from."""
    n, m = len(C), len(C[0])
    infinite = 1 << 100_000
    far = [0 if i < n and have[i] else infinite for i in range(n + m)]
    via, open_ = [-1] * (n + m), set(range(n + m))
    while open_:
        node = min(open_, key=lambda k: far[k])
        open_.discard(node)
        for other in open_:
            if (node < n) == (other < n) or (node >= n and not flow[other][node - n]):
                continue
            length = C[node][other - n] if node < n else -C[other][node - n]
            reached = far[node] + length + height[node] - height[other]
            if reached < far[other]:
                far[other], via[other] = reached, node
    return far, via


class _Exact:
    """One problem in whole numbers; costs run from 0 to ONE."""

    def __init__(self, x: MarkovChain, y: MarkovChain, cost: Any, discount: float) -> None:
        self.gamma = Fraction(discount)
        self.least = Fraction(float(cost.min()))
        self.range = Fraction(float(cost.max())) - self.least or Fraction(1)
        n_x, n_y = cost.shape
        self.states = [(i, j) for i in range(n_x) for j in range(n_y)]
        self.cost = [int((Fraction(float(cost[s])) - self.least) / self.range * ONE) for s in self.states]
        self.rows = [(_row(x, i), _row(y, j)) for i, j in self.states]
        self.start = masses(x.initial), masses(y.initial)
        self.n_y = n_y

    def best(self, V: list[int], rows: tuple[Row, Row]) -> tuple[int, dict[int, Fraction]]:
        """Optimal transport of V between two rows: its value and the law of the next pair."""
        (states_x, a), (states_y, b) = rows
        total_a, total_b = sum(a), sum(b)
        C = [[V[i * self.n_y + j] for j in states_y] for i in states_x]
        value, plan = transport(C, [mass * total_b for mass in a], [mass * total_a for mass in b])
        total = total_a * total_b
        law = {
            i * self.n_y + j: Fraction(plan[r][c], total)
            for r, i in enumerate(states_x)
            for c, j in enumerate(states_y)
            if plan[r][c]
        }
        return value // total, law

    def evaluate(self, laws: list[dict[int, Fraction]]) -> list[int]:
        """V = cost + gamma * plan V, by elimination."""
        n = len(laws)
        A = [[0] * n + [c] for c in self.cost]
        for i, law in enumerate(laws):
            for j, mass in law.items():
                A[i][j] -= int(self.gamma * mass * ONE)
            A[i][i] += ONE
        for k in range(n):
            for i in range(n):
                if i != k and A[i][k]:
                    factor = (A[i][k] << BITS) // A[k][k]
                    A[i][k:] = [u - (factor * v >> BITS) for u, v in zip(A[i][k:], A[k][k:], strict=True)]
        return [(A[i][n] << BITS) // A[i][i] for i in range(n)]


def _row(chain: MarkovChain, state: int) -> Row:
    kernel = chain.transition
    return masses(kernel[state] if isinstance(kernel, np.ndarray) else kernel[[state]].toarray()[0])


def distance(x: MarkovChain, y: MarkovChain, cost: Any, discount: float, *, max_rounds: int = 60) -> Truth:
    """The distance of a small problem."""
    problem = _Exact(x, y, cost, discount)
    V = problem.cost
    for _ in range(max_rounds):
        found = [problem.best(V, rows) for rows in problem.rows]
        moved = [c + int(problem.gamma * value) - v for c, (value, _), v in zip(problem.cost, found, V, strict=True)]
        if max(moved) - min(moved) <= SLACK:
            break
        V = problem.evaluate([law for _, law in found])
    else:
        raise AssertionError("the oracle did not converge")
    start = (1 - problem.gamma) * problem.best(V, problem.start)[0]
    low, high = (start + ends for ends in (min(moved) - SLACK, max(moved) + SLACK))
    return Truth(*(problem.least + problem.range * max(Fraction(0), end) / ONE for end in (low, high)))
