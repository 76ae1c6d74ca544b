"""Linear programs for every clock, written from the definitions with no code of the package but its chains."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from somcot import ContinuousChain, MarkovChain, TimeChain
from tests.instances import Floats, dense_kernel


class Program:
    """Equations between named variables of at least 0, and a cost to make small."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.rows: list[dict[int, float]] = []
        self.right: list[float] = []
        self.cost: dict[int, float] = defaultdict(float)

    def __getitem__(self, name: Any) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def equation(self, terms: list[tuple[float, Any]], right: float = 0.0) -> None:
        row: dict[int, float] = defaultdict(float)
        for factor, name in terms:
            row[self[name]] += factor
        self.rows.append(row)
        self.right.append(right)

    def least(self) -> float:
        n = len(self.numbers)
        entries = [(i, j, v) for i, row in enumerate(self.rows) for j, v in row.items()]
        i, j, v = (np.array(part) for part in zip(*entries, strict=True))
        matrix = coo_array((v, (i, j)), shape=(len(self.rows), n)).tocsr()
        cost = np.array([self.cost[k] for k in range(n)])
        options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
        answer: Any = linprog(cost, A_eq=matrix, b_eq=self.right, method="highs-ds", options=options)
        assert answer.status == 0, answer.message
        return float(answer.fun)

    def plans(self, tag: str, mass: Any, pair: tuple[int, int], p: Floats, q: Floats) -> list[tuple[int, int]]:
        """Joint steps from a pair, ``(tag, pair, next)``, whose sides are `mass` times p and q."""
        xs, ys = np.flatnonzero(p), np.flatnonzero(q)
        for k in xs:
            self.equation([(1.0, (tag, pair, (k, m))) for m in ys] + [(-float(p[k]), mass)])
        for m in ys:
            self.equation([(1.0, (tag, pair, (k, m))) for k in xs] + [(-float(q[m]), mass)])
        return list(product(xs.tolist(), ys.tolist()))

    def start(self, a: Floats, b: Floats) -> list[tuple[int, int]]:
        """A coupling of the start laws, ``("start", pair)``."""
        xs, ys = np.flatnonzero(a), np.flatnonzero(b)
        for k in xs:
            self.equation([(1.0, ("start", (k, m))) for m in ys], float(a[k]))
        for m in ys:
            self.equation([(1.0, ("start", (k, m))) for k in xs], float(b[m]))
        return list(product(xs.tolist(), ys.tolist()))


def average(x: MarkovChain, y: MarkovChain, cost: Floats) -> float:
    """Multichain program (Denardo, Fox 1968): a stationary law of pairs, and a flow that leads there from the start."""
    P, Q, program = dense_kernel(x), dense_kernel(y), Program()
    pairs = list(product(range(len(P)), range(len(Q))))
    stays: dict[Any, list[tuple[float, Any]]] = {s: [(1.0, ("law", s))] for s in pairs}
    leads: dict[Any, list[tuple[float, Any]]] = {s: [(1.0, ("law", s)), (1.0, ("way", s))] for s in pairs}
    for s in pairs:
        program.cost[program["law", s]] = float(cost[s])
        for following in program.plans("stay", ("law", s), s, P[s[0]], Q[s[1]]):
            stays[following].append((-1.0, ("stay", s, following)))
        for following in program.plans("lead", ("way", s), s, P[s[0]], Q[s[1]]):
            leads[following].append((-1.0, ("lead", s, following)))
    for s in program.start(x.initial, y.initial):
        leads[s].append((-1.0, ("start", s)))
    for s in pairs:
        program.equation(stays[s])
        program.equation(leads[s])
    return program.least()


def total(x: MarkovChain, y: MarkovChain, cost: Floats) -> float:
    """Expected visits to pairs that have not both ended."""
    P, Q, program = dense_kernel(x), dense_kernel(y), Program()
    ended = {(i, j) for i in range(len(P)) for j in range(len(Q)) if P[i, i] == 1.0 and Q[j, j] == 1.0}
    pairs = [s for s in product(range(len(P)), range(len(Q))) if s not in ended]
    flow: dict[Any, list[tuple[float, Any]]] = {s: [(1.0, ("visits", s))] for s in pairs}
    for s in pairs:
        program.cost[program["visits", s]] = float(cost[s])
        for following in program.plans("step", ("visits", s), s, P[s[0]], Q[s[1]]):
            if following not in ended:
                flow[following].append((-1.0, ("step", s, following)))
    for s in program.start(x.initial, y.initial):
        if s not in ended:
            flow[s].append((-1.0, ("start", s)))
    for s in pairs:
        program.equation(flow[s])
    return program.least() if program.rows else 0.0


def horizon(x: TimeChain, y: TimeChain, costs: list[Floats]) -> float:
    """The law of pairs of paths itself: its sides are the chains, and no step looks into the other's future."""
    program, T = Program(), len(costs)
    sides = [[np.asarray(k) for k in chain.transitions[: T - 1]] for chain in (x, y)]
    paths = [_paths(chain.initial, kernels) for chain, kernels in zip((x, y), sides, strict=True)]
    for a, b in product(*paths):
        program.cost[program["paths", a, b]] = sum(float(costs[t][a[t], b[t]]) for t in range(T)) / T
    for law, axis in ((paths[0], 0), (paths[1], 1)):
        for path, probability in law.items():
            other = paths[1 - axis]
            program.equation([(1.0, ("paths", *((path, o) if axis == 0 else (o, path)))) for o in other], probability)
    # P(X_{t+1} = k | past of both) = P(X_{t+1} = k | X_t), and the same the other way round.
    for axis in range(2):
        mine, other = paths[axis], paths[1 - axis]
        for t in range(T - 1):
            for own, past in product({p[: t + 1] for p in mine}, {p[: t + 1] for p in other}):
                joint = [(p, o) for p in mine for o in other if p[: t + 1] == own and o[: t + 1] == past]
                for k in np.flatnonzero(sides[axis][t][own[-1]]):
                    share = float(sides[axis][t][own[-1], k])
                    program.equation([
                        ((p[t + 1] == k) - share, ("paths", *((p, o) if axis == 0 else (o, p)))) for p, o in joint
                    ])  # fmt: skip
    return program.least()


def _paths(initial: Floats, kernels: list[Floats]) -> dict[tuple[int, ...], float]:
    paths: dict[tuple[int, ...], float] = {(int(i),): float(initial[i]) for i in np.flatnonzero(initial)}
    for kernel in kernels:
        paths = {
            (*path, int(k)): mass * float(kernel[path[-1], k])
            for path, mass in paths.items()
            for k in np.flatnonzero(kernel[path[-1]])
        }
    return paths


def rates(x: ContinuousChain, y: ContinuousChain, cost: Floats, rate: float) -> float:
    """Joint jumps in continuous time, without uniformisation: alone or together, at rates with the given sides."""
    P, Q, program = np.asarray(x.rates), np.asarray(y.rates), Program()
    pairs = list(product(range(len(P)), range(len(Q))))
    flow: dict[Any, list[tuple[float, Any]]] = {s: [(rate, ("law", s))] for s in pairs}
    for s in pairs:
        i, j = s
        program.cost[program["law", s]] = float(cost[s])
        others_x = [k for k in range(len(P)) if k != i and P[i, k] > 0]
        others_y = [m for m in range(len(Q)) if m != j and Q[j, m] > 0]
        jumps = [s_ for s_ in product([i, *others_x], [j, *others_y]) if s_ != s]
        for k in others_x:
            program.equation([(1.0, ("jump", s, to)) for to in jumps if to[0] == k] + [(-float(P[i, k]), ("law", s))])
        for m in others_y:
            program.equation([(1.0, ("jump", s, to)) for to in jumps if to[1] == m] + [(-float(Q[j, m]), ("law", s))])
        for to in jumps:
            flow[s].append((1.0, ("jump", s, to)))
            flow[to].append((-1.0, ("jump", s, to)))
    for s in program.start(x.initial, y.initial):
        flow[s].append((-rate, ("start", s)))
    for s in pairs:
        program.equation(flow[s])
    return program.least()
