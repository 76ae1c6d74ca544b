"""Rewards that depend on the next state: how often intervals with the cost of mean rewards hold, and how wide they are.

    python -m benchmarks.earnings [--draws 40] [--first 0] [--only TEXT] [--out FILE]

A family is a hidden chain that pays on transitions, of which states and rewards are recorded. The truth is the distance
of what endless recordings show: transitions and mean rewards of each side. Families were written down before anything
was run on them; those marked as ordinary pay by state.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import somcot
from benchmarks.mdp_families import garnet, lake, river
from somcot import Samples
from somcot.plumbing.arrays import Floats, Ints

DISCOUNT = 0.9


class Payer(NamedTuple):
    """A hidden chain and the reward of each of its transitions.

    Attributes
    ----------
    kernel, rewards : ndarray, shape (n_hidden, n_hidden)
    start : ndarray, shape (n_hidden,)
    shown : ndarray of int
        The label of each hidden state.
    final : int or None
        The label at which episodes end.
    noise, mood : float
        Standard deviation of what is added to each reward, and to all rewards of an episode.
    """

    kernel: Floats
    rewards: Floats
    start: Floats
    shown: Ints
    final: int | None = None
    noise: float = 0.0
    mood: float = 0.0

    def record(self, n: int, length: int, rng: np.random.Generator) -> Samples:
        """Episodes of at most `length` steps."""
        rows, episodes, rewards, ends = self.kernel.cumsum(axis=1), [], [], []
        for _ in range(n):
            h, mood = rng.choice(len(self.start), p=self.start), self.mood * rng.normal()
            seen, earned = [int(self.shown[h])], list[float]()
            while len(earned) < length and seen[-1] != self.final:
                t = min(int(np.searchsorted(rows[h], rng.random(), side="right")), len(rows) - 1)
                earned.append(self.rewards[h, t] + mood + self.noise * rng.normal())
                h = t
                seen.append(int(self.shown[h]))
            episodes.append(seen)
            rewards.append(earned)
            ends.append(seen[-1] == self.final)
        return Samples.from_trajectories(episodes, rewards=rewards, terminated=ends)

    def shows(self, length: int) -> tuple[somcot.MarkovChain, Floats]:
        """The chain and the mean rewards that endless recordings show."""
        n = int(self.shown.max()) + 1
        label = np.eye(n)[self.shown]
        law, visits = self.start.copy(), np.zeros(len(self.start))
        going = np.ones(len(law)) if self.final is None else (self.shown != self.final) * 1.0
        for _ in range(length):
            visits += law * going
            law = (law * going) @ self.kernel
        steps = visits[:, None] * self.kernel
        counts, earned = label.T @ steps @ label, label.T @ (steps * self.rewards).sum(axis=1)
        total = counts.sum(axis=1)
        rows = np.where(total[:, None] > 0, counts / np.maximum(total, 1e-300)[:, None], np.eye(n))
        chain = somcot.MarkovChain(rows / rows.sum(axis=1, keepdims=True), initial=self.start @ label)
        return chain, np.where(total > 0, earned / np.maximum(total, 1e-300), 0.0)


class Family(NamedTuple):
    """Two sides, episodes of each and their length."""

    name: str
    x: Payer
    y: Payer
    n: int
    length: int


def chain(P: Floats, R: Floats, start: Any, **more: Any) -> Payer:
    """A payer whose states are seen."""
    law = np.eye(len(P))[start] if isinstance(start, int) else np.asarray(start, dtype=float)
    return Payer(P, R, law, np.arange(len(P)), **more)


def followed(P: Floats, R: Floats, policy: Floats, start: Floats, **more: Any) -> Payer:
    """A decision process, (s, a, t), under a policy: hidden states are pairs of state and action."""
    n, m = policy.shape
    kernel = np.einsum("sat,tb->satb", P, policy).reshape(n * m, n * m)
    rewards = np.repeat(R.reshape(n * m, n), m, axis=1)
    return Payer(kernel, rewards, (start[:, None] * policy).ravel(), np.repeat(np.arange(n), m), **more)


def grid(slip: float) -> Payer:
    """4 x 4 places, from one corner to the other; reaching it pays 1 and ends the episode."""
    n = 4
    P = np.zeros((16, 16))
    moves = [(0, 1), (1, 0), (0, -1), (-1, 0)]
    law = np.array([0.45, 0.35, 0.1, 0.1]) * (1 - slip) + slip / 4
    for s in range(15):
        for (down, right), p in zip(moves, law, strict=True):
            r, c = min(max(s // n + down, 0), n - 1), min(max(s % n + right, 0), n - 1)
            P[s, n * r + c] += p
    P[15, 15] = 1.0
    R = np.zeros((16, 16))
    R[:15, 15] = 1.0
    return chain(P, R, 0, final=15)


def frozen(success: float) -> Payer:
    """FrozenLake under random actions, which pays on reaching the goal."""
    process, R = lake(success)
    n = process.n_states
    return followed(process.transitions, R, np.full((n, 4), 0.25), np.eye(n)[0], final=n - 1)


def rapids(success: float) -> Payer:
    """RiverSwim of 6, mostly upstream, which pays on staying at the source."""
    process, R = river(success)
    policy = np.tile([0.15, 0.85], (6, 1))
    return followed(process.transitions, R, policy, np.eye(6)[0])


def bonuses(change: float, mood: float = 0.0) -> Payer:
    """7 states; three transitions pay."""
    rng = np.random.default_rng(9101)
    P, Q = rng.dirichlet(np.full(7, 0.8), size=7), rng.dirichlet(np.full(7, 0.8), size=7)
    R = np.zeros((7, 7))
    R[[0, 2, 5], [3, 1, 0]] = 4.0, 3.0, 5.0
    return chain((1 - change) * P + change * Q, R, 0, mood=mood)


def jumps(far: float) -> Payer:
    """A ring of 9 on which steps of one or of three places cost as much, with noise."""
    P, R = np.zeros((9, 9)), np.zeros((9, 9))
    for s in range(9):
        for step, p in ((1, 0.5), (-1, 0.5 - far * (1 + s % 3) / 3), (3, far * (1 + s % 3) / 3)):
            P[s, (s + step) % 9] += p
            R[s, (s + step) % 9] = -abs(step)
    return chain(P, R, 0, noise=0.7)


def modes(change: float) -> Payer:
    """6 states and two hidden modes, one for each episode; what changes the state pays by how far it goes."""
    rng = np.random.default_rng(9202)
    blocks = [rng.dirichlet(np.full(6, 0.7), size=6) for _ in range(2)]
    blocks[1] = (1 - change) * blocks[1] + change * blocks[1][::-1]
    kernel = np.zeros((12, 12))
    kernel[:6, :6], kernel[6:, 6:] = blocks
    seen = np.tile(np.arange(6), 2)
    far = np.abs(np.subtract.outer(seen, seen)) * 0.5
    return Payer(kernel, far, np.r_[np.full(6, 0.6 / 6), np.full(6, 0.4 / 6)], seen, noise=0.1)


def lossy(arrivals: float) -> Payer:
    """A queue of at most 5; served customers pay 1, those who arrive when it is full cost 4."""
    P, R = np.zeros((7, 7)), np.zeros((7, 7))  # state 6: full, and the last customer was lost
    for k in range(6):
        served = 0.45 * (k > 0)
        P[k, max(k - 1, 0)] += served * (1 - arrivals)
        P[k, k] += 1 - served - arrivals + 2 * served * arrivals
        P[k, k + 1] += arrivals * (1 - served)
        R[k, max(k - 1, 0)] += 1.0 * (k > 0)
    P[6] = P[5]
    R[5, 6] = -4.0
    R[6] = R[5]
    return chain(P / P.sum(axis=1, keepdims=True), R, 0)


def habits(seed: int) -> Payer:
    """One decision process, whose actions pay differently, under one of two policies."""
    rng = np.random.default_rng(9303)
    P, R = garnet(8, 3, 3, rng), np.repeat(rng.random((8, 3))[:, :, None], 8, axis=2)
    policy = np.stack([rng.dirichlet(np.ones(3), size=8) for _ in range(2)])[seed]
    return followed(P, R, policy, np.full(8, 1 / 8))


def salaries(change: float, more: float = 0.0, noise: float = 1.0) -> Payer:
    """8 states that pay by themselves."""
    rng = np.random.default_rng(9404)
    P, Q = rng.dirichlet(np.full(8, 0.7), size=8), rng.dirichlet(np.full(8, 0.7), size=8)
    pay = rng.normal(0.0, 1.5, size=8)
    pay[1] += more
    return chain((1 - change) * P + change * Q, np.repeat(pay[:, None], 8, axis=1), 0, noise=noise)


def families() -> list[Family]:
    """All families."""
    return [
        Family("grid, pays at the goal, slips 0.1 and 0.4", grid(0.1), grid(0.4), 60, 40),
        Family("lake 1/3 and 1/2, 150 episodes", frozen(1 / 3), frozen(0.5), 150, 100),
        Family("river of 6, pays at the source", rapids(0.6), rapids(0.5), 50, 40),
        Family("three transitions pay", bonuses(0.0), bonuses(0.25), 60, 25),
        Family("jumps cost, noisy", jumps(0.1), jumps(0.25), 50, 30),
        Family("hidden modes, moves pay", modes(0.0), modes(0.4), 60, 25),
        Family("queue, lost customers cost", lossy(0.35), lossy(0.45), 40, 50),
        Family("two policies, actions pay", habits(0), habits(1), 60, 25),
        Family("transitions pay, moods", bonuses(0.0, 0.5), bonuses(0.25, 0.5), 80, 25),
        Family("grid, same", grid(0.1), grid(0.1), 60, 40),
        Family("jumps cost, noisy, same", jumps(0.1), jumps(0.1), 50, 30),
        Family("hidden modes, moves pay, same", modes(0.0), modes(0.0), 60, 25),
        Family("ordinary: noisy states", salaries(0.0), salaries(0.25), 60, 25),
        Family("ordinary: noisy states, same", salaries(0.0), salaries(0.0), 60, 25),
        Family("ordinary: states without noise", salaries(0.0, noise=0.0), salaries(0.25, noise=0.0), 60, 25),
        Family("ordinary: one state pays more", salaries(0.0), salaries(0.0, 1.0), 60, 25),
    ]


def draw(family: Family, k: int, pool: bool) -> tuple[float, ...]:
    """Plug-in, estimate, ends of the interval at 0.9, and CPU seconds."""
    rng = np.random.default_rng([k, sum(map(ord, family.name))])
    x, y = (side.record(family.n, family.length, rng) for side in (family.x, family.y))
    cost: Any = "features" if pool else partial(somcot.costs.from_features, pool=False)
    began = time.process_time()
    result = somcot.distance(x, y, cost, discount=DISCOUNT, confidence=0.9, threads=1)
    assert result.plugin is not None
    assert result.confidence_interval is not None
    low, high, _ = result.confidence_interval
    return result.plugin, result.distance, low, high, time.process_time() - began


def row(family: Family, draws: range, pool: bool) -> str:
    """One line of the table."""
    (x, a), (y, b) = (side.shows(family.length) for side in (family.x, family.y))
    truth = somcot.distance(x, y, somcot.costs.absolute(a, b), discount=DISCOUNT).distance
    found = np.array([draw(family, k, pool) for k in draws])
    plugin, estimate, low, high, seconds = found.T
    slack = 1e-9 * max(abs(truth), 1.0)
    above, below = (low > truth + slack).sum(), (high < truth - slack).sum()
    parts = [
        family.name, "pooled" if pool else "apart", f"{len(found)}", f"{truth:.4g}",
        f"{plugin.mean() - truth:+.2g}, {estimate.mean() - truth:+.2g}", f"{estimate.std():.2g}",
        f"{1 - (above + below) / len(found):.2f}", f"{above}, {below}", f"{(high - low).mean():.3g}",
        f"{seconds.mean():.2f} s",
    ]  # fmt: skip
    return "| " + " | ".join(parts) + " |"


HEAD = """| family | rewards | draws | truth | bias: plug-in, estimate | deviation | interval holds | above, below \
| its width | CPU |
|---|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    """Run the families, each result on a line of its own."""
    parser = argparse.ArgumentParser(prog="benchmarks.earnings", description=__doc__)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw, for other seeds")
    parser.add_argument("--only", default="", help="families whose name contains this")
    parser.add_argument("--pooled", choices=["yes", "no", "both"], default="both")
    parser.add_argument("--out")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [HEAD]
    print(HEAD, flush=True)
    for family in families():
        if options.only not in family.name:
            continue
        for pool in {"yes": [True], "no": [False], "both": [True, False]}[options.pooled]:
            lines.append(row(family, range(options.first, options.first + options.draws), pool))
            print(lines[-1], flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
