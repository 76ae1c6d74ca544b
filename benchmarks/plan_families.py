"""Families of recordings that no plan was designed on: written down before any plan of them was made.

`benchmarks.plans` uses them to see whether plans and `SampleSize.pilot_error` hold on families they have not seen. Half
of them resemble older families: ring, funnel, skills, retail; dense, errands, tree and bargaining in the second half.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.sources import Source, markov

__all__ = [
    "alarms", "bargaining", "contagion", "dense", "dwells", "errands", "funnel", "migration", "retail", "ring",
    "routines", "skills", "stack", "tree",
]  # fmt: skip

Floats = NDArray[np.float64]


def _ending(P: Floats, stop: Floats | float) -> Floats:
    """The kernel with one more state, which ends the sequence."""
    n = len(P)
    kernel = np.zeros((n + 1, n + 1))
    kernel[:n, :n] = (1 - np.broadcast_to(stop, n))[:, None] * P
    kernel[:n, n] = stop
    kernel[n, n] = 1.0
    return kernel


def ring() -> Source:
    """A walk on a ring of 12 places with a drift that varies along it; begins anywhere."""
    n = 12
    forward = 0.3 + 0.25 * np.sin(2 * np.pi * np.arange(n) / n)
    P = np.zeros((n, n))
    for place in range(n):
        P[place, (place + 1) % n], P[place, (place - 1) % n] = forward[place], 0.2
        P[place, place] = 0.8 - forward[place]
    return markov(P, np.ones(n))


def funnel() -> Source:
    """Six steps of an application form; people go back, or leave at every step."""
    rng = np.random.default_rng(8101)
    P = np.zeros((6, 6))
    for step in range(6):
        P[step, min(step + 1, 5)] += 0.6
        P[step, max(step - 1, 0)] += 0.25
        P[step] += 0.15 * rng.dirichlet(np.ones(6))
    return markov(_ending(P, rng.uniform(0.02, 0.2, size=6)), 0)


def skills() -> Source:
    """Agents of three skills, which a session keeps, choose among eight actions."""
    rng, n = np.random.default_rng(8102), 8
    common = rng.dirichlet(np.full(n, 0.7), size=n)
    kernels = np.stack(
        [_ending(0.6 * common + 0.4 * rng.dirichlet(np.full(n, 0.5), size=n), stop) for stop in (0.05, 0.1, 0.2)]
    )
    return Source(
        kernels, np.tile(np.r_[rng.dirichlet(np.ones(n)), 0], (3, 1)), np.array([0.2, 0.5, 0.3]), np.arange(n + 1)
    )


def retail() -> Source:
    """15 shelves of different popularity; people enter at three of them."""
    rng, n = np.random.default_rng(8103), 15
    popular = 1 / (1.0 + np.arange(n)) ** 0.7
    P = rng.dirichlet(6 * popular / popular.sum() + 0.05, size=n)
    return markov(_ending(P, 0.1), np.r_[0.5, 0.0, 0.3, 0.0, 0.0, 0.2, np.zeros(n - 5)])


def dwells() -> Source:
    """A machine that is on, off or idle for times of two very different scales: hidden paces of each state."""
    states, quick, slow = 3, 0.5, 0.03
    rng = np.random.default_rng(8104)
    jump = rng.dirichlet(np.full(states - 1, 3.0), size=states)
    kernel = np.zeros((2 * states, 2 * states))
    for state in range(states):
        others = [s for s in range(states) if s != state]
        for k, pace in enumerate((quick, slow)):
            here = 2 * state + k
            kernel[here, here] = 1 - pace
            for other, share in zip(others, jump[state], strict=True):
                kernel[here, 2 * other] += pace * share * 0.8
                kernel[here, 2 * other + 1] += pace * share * 0.2
    return Source(kernel[None], np.tile([0.8, 0.2], states)[None] / states, np.ones(1), np.repeat(np.arange(states), 2))


def stack() -> Source:
    """Nested calls of three kinds to a depth of four: what returns is what was called last."""
    kinds, deepest = 3, 4
    calls = np.array([0.5, 0.3, 0.2])
    contexts: list[tuple[int, ...]] = [()]
    for context in contexts:
        if len(context) < deepest:
            contexts += [(*context, kind) for kind in range(kinds)]
    # Hidden states: a context and whether it was entered by a call or a return; shown: call k, return k, end.
    hidden = [("call", c) for c in contexts if c] + [
        (f"return {kind}", c) for c in contexts if len(c) < deepest for kind in range(kinds)
    ]
    index = {state: i for i, state in enumerate(hidden)}
    n = len(hidden)
    kernel = np.zeros((n + 1, n + 1))
    for (_, context), i in index.items():
        back = 0.5 if len(context) < deepest else 1.0
        if context:
            kernel[i, index[f"return {context[-1]}", context[:-1]]] += back
        else:
            kernel[i, n] += back
        if len(context) < deepest:
            for kind in range(kinds):
                kernel[i, index["call", (*context, kind)]] += (1 - back) * calls[kind]
    kernel[n, n] = 1.0
    start = np.zeros(n + 1)
    for kind in range(kinds):
        start[index["call", (kind,)]] = calls[kind]
    shown = [c[-1] if name == "call" else kinds + int(name[-1]) for name, c in hidden]
    return Source(kernel[None], start[None], np.ones(1), np.array([*shown, 2 * kinds]))


def contagion() -> Source:
    """Cases in a ward of 20 beds, from one to three at first; ends when nobody is ill."""
    n = 21
    P = np.zeros((n, n))
    P[0, 0] = 1.0
    for ill in range(1, n):
        more, fewer = 0.45 * (1 - ill / 20), 0.35
        P[ill, ill - 1] += fewer
        P[ill, min(ill + 1, n - 1)] += more * 0.8
        P[ill, min(ill + 3, n - 1)] += more * 0.2
        P[ill, ill] += 1 - more - fewer
    start = np.zeros(n)
    start[1:4] = 0.6, 0.3, 0.1
    return markov(P, start)


def routines() -> Source:
    """Scripts of four to eight steps over ten actions, run one after another, with slips: memory of a whole script."""
    rng, actions = np.random.default_rng(8105), 10
    shown: list[int] = []
    starts: list[int] = []
    rows: list[Floats] = []
    for _ in range(8):
        starts.append(len(shown))
        shown += rng.integers(actions, size=int(rng.integers(4, 9))).tolist()
    n, first = len(shown), np.zeros(len(shown))
    first[starts] = rng.dirichlet(np.full(8, 2.0))
    ends = {*(s - 1 for s in starts[1:]), n - 1}
    for at in range(n):
        row = np.zeros(n + 1)
        if at in ends:
            row[:n], row[n] = 0.75 * first, 0.25
        else:
            row[at + 1] = 0.93
            row[:n] += 0.07 / n
        rows.append(row)
    kernel = np.vstack([rows, np.eye(n + 1)[n]])
    return Source(kernel[None], np.r_[first, 0.0][None], np.ones(1), np.array([*shown, actions]))


# --- The second half


def dense() -> Source:
    """25 states, each of which leads to all."""
    rng, n = np.random.default_rng(8201), 25
    return markov(rng.dirichlet(np.full(n, 1.5), size=n), np.ones(n))


def errands() -> Source:
    """Trips of two types with the same seven places; the second is ten times as long."""
    rng, n = np.random.default_rng(8202), 7
    kernels = np.stack([_ending(rng.dirichlet(np.full(n, 0.8), size=n), stop) for stop in (0.25, 0.025)])
    starts = np.c_[rng.dirichlet(np.ones(n), size=2), np.zeros(2)]
    return Source(kernels, starts, np.array([0.85, 0.15]), np.arange(n + 1))


def migration() -> Source:
    """Animals on eight places; a hidden season, which begins at random and lasts 20 steps, says where they tend to."""
    rng, n, length = np.random.default_rng(8203), 8, 20
    inside = np.zeros((2, n, n))
    for season in range(2):
        for place in range(n):
            inside[season, place, max(place - 1, 0)] += 0.2 + 0.3 * season
            inside[season, place, min(place + 1, n - 1)] += 0.5 - 0.3 * season
            inside[season, place] += 0.3 * rng.dirichlet(np.ones(n))
    kernel = np.zeros((2 * n, 2 * n))
    for season in range(2):
        rows = slice(season * n, season * n + n)
        other = slice((1 - season) * n, (1 - season) * n + n)
        kernel[rows, rows], kernel[rows, other] = (1 - 1 / length) * inside[season], inside[season] / length
    start = np.zeros(2 * n)
    start[:3], start[n : n + 3] = 0.2, 0.4 / 3
    return Source(kernel[None], start[None], np.ones(1), np.tile(np.arange(n), 2))


def tree() -> Source:
    """Four letters; after two of them the next one depends on the letter before, and on the one before that."""
    rng, n = np.random.default_rng(8204), 4
    short, longer, longest = (rng.dirichlet(np.full(n, 0.7), size=n**k) for k in (1, 2, 3))
    kernel = np.zeros((n**3 + 1, n**3 + 1))
    for old in range(n):
        for before in range(n):
            for now in range(n):
                here = (old * n + before) * n + now
                row = short[now] if now < 2 else longer[before * n + now] if now == 2 else longest[here]
                for to in range(n):
                    kernel[here, (before * n + now) * n + to] = 0.94 * row[to]
                kernel[here, -1] = 0.06
    kernel[-1, -1] = 1.0
    start = np.r_[np.full(n**3, 1.0 / n**3), 0.0]
    return Source(kernel[None], start[None], np.ones(1), np.r_[np.tile(np.arange(n), n * n), n])


def alarms() -> Source:
    """A plant that is nearly always quiet; 30 alarms of Zipf frequency, some of which set off others."""
    rng, n = np.random.default_rng(8205), 31
    popular = np.r_[0.0, 1 / (1.0 + np.arange(n - 1))]
    popular /= popular.sum()
    P = np.zeros((n, n))
    P[0] = 0.1 * popular
    P[0, 0] = 0.9
    for alarm in range(1, n):
        P[alarm, 0] = 0.5
        P[alarm, rng.choice(np.arange(1, n), 3, replace=False)] += 0.5 * rng.dirichlet(np.ones(3))
    return markov(P, 0)


def bargaining() -> Source:
    """Two sides in turn raise, hold, yield or threaten; who threatened twice leaves, and patience runs out."""
    rng, n, patience = np.random.default_rng(8206), 4, 6
    answer = rng.dirichlet(np.full(n, 0.8), size=n)
    kernel = np.zeros((patience * 2 * n + 1, patience * 2 * n + 1))
    for round_ in range(patience):
        for side in range(2):
            for act in range(n):
                here = (round_ * 2 + side) * n + act
                later = min(round_ + side, patience - 1)
                stop = 0.02 + 0.05 * round_ + (0.1 if act == 3 else 0.0)
                tilted = answer[act] * np.array([1.0, 1.0, 1.0 + 0.5 * round_, 1.0])
                to = (later * 2 + 1 - side) * n
                kernel[here, to : to + n] = (1 - stop) * tilted / tilted.sum()
                kernel[here, -1] = stop
    kernel[-1, -1] = 1.0
    start = np.zeros(len(kernel))
    start[:n] = 0.4, 0.4, 0.1, 0.1
    sides = np.arange(patience * 2 * n) // n % 2
    return Source(kernel[None], start[None], np.ones(1), np.r_[sides * n + np.arange(patience * 2 * n) % n, 2 * n])
