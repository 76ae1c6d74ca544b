"""Families with exact truths that were added before the present rule was run on them, half of them with memory.

They differ from `benchmarks.recordings` and `benchmarks.held_out` in how recordings end and start: several outcomes,
ends and cuts mixed, ends on one side only, sides that are cut at other lengths, other starts only, states left for
good; and in what sequences remember: a clock, repeats, a kind of their own with heavy-tailed lengths, robots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import somcot
from benchmarks.sources import Case, Pair, Source, long_run, markov
from somcot import MarkovChain

__all__ = ["FAMILIES"]

Floats = NDArray[np.float64]
SEEDS = 40


def _both(pair: Pair, *sizes: int, seeds: int = SEEDS) -> Iterator[Case]:
    """The pair, and its first source against itself, in the same sizes."""
    yield from replace(pair, name=f"{pair.name} changed").sized(*sizes, seeds=seeds)
    yield from replace(pair, name=f"{pair.name} equal", y=pair.x).sized(*sizes, seeds=seeds)


def _of_lengths(pair: Pair, x: tuple[int, int | None], y: tuple[int, int | None]) -> Case:
    """A case whose two sides have their own numbers of sequences and lengths."""

    def draw(rng: np.random.Generator) -> Any:
        said = "stationary" if pair.initial == "stationary" else None
        sizes = ((pair.x, *x), (pair.y, *y))
        return tuple(side.record(n, rng, length, found=pair.found, initial=said) for side, n, length in sizes)

    return pair.case(f"{x[0]} x {x[1]} : {y[0]} x {y[1]}", draw, SEEDS)


def clinic(recover: float, die: float) -> Source:
    """Seven wards and three outcomes, reached at rates that grow with the ward."""
    rng = np.random.default_rng(8101)
    P = np.zeros((10, 10))
    severe = np.linspace(0.4, 1.6, 7)
    P[:7, 7], P[:7, 8], P[:7, 9] = recover * severe[::-1], die * severe, 0.02
    P[:7, :7] = (1 - P[:7].sum(axis=1))[:, None] * rng.dirichlet(np.full(7, 0.7), size=7)
    P[[7, 8, 9], [7, 8, 9]] = 1.0
    return markov(P, np.r_[0.4, 0.3, 0.2, 0.1, np.zeros(6)])


def outcomes() -> Iterator[Case]:
    """Sessions end in one of three absorbing outcomes at different rates; whole, or half of them cut."""
    pair = Pair("outcomes", clinic(0.1, 0.02), clinic(0.08, 0.04), discount=0.95)
    yield from _both(pair, 150)
    yield from _both(replace(pair, name="outcomes, half cut,", length=5), 150)


def stream(leave: float) -> Source:
    """Six pages; an end is reached from each with probability `leave`, or never."""
    rng = np.random.default_rng(8202)
    P = np.zeros((7, 7))
    P[:6, :6], P[:6, 6], P[6, 6] = (1 - leave) * rng.dirichlet(np.full(6, 0.6), size=6), leave, 1.0
    return markov(P, np.r_[rng.dirichlet(np.ones(6)), 0.0])


def one_sided_ends() -> Iterator[Case]:
    """Sequences that never end against ones that do; one process, of which one side is cut much earlier."""
    yield from Pair("endless against ending", stream(0.0), stream(0.03), discount=0.95, length=40).sized(
        60, seeds=SEEDS
    )
    pair = Pair("endless against ending, labels found,", stream(0.0), stream(0.03), discount=0.9, length=40, found=True)
    yield from pair.sized(60, seeds=SEEDS)
    pair = Pair("cut early against whole equal", stream(0.05), stream(0.05), discount=0.95, length=40)
    yield _of_lengths(pair, (150, 8), (60, None))


def ticket(reopened: bool) -> Source:
    """A ticket is done, which ends it, or is followed by a survey, after which it is reopened or archived."""
    new, work, wait, done, survey, archived = range(6)
    P = np.zeros((6, 6))
    P[new, [work, wait]] = 0.8, 0.2
    P[work, [work, wait, done]] = 0.5, 0.2, 0.3
    P[wait, [work, wait]] = 0.4, 0.6
    P[survey, [work, archived]] = 0.3, 0.7
    P[done, survey if reopened else done] = P[archived, archived] = 1.0
    return markov(P, 0)


def reopened() -> Iterator[Case]:
    """The state in which the sequences of one side end is left on the other side."""
    yield from _both(Pair("ends that are left", ticket(False), ticket(True), discount=0.95), 100)
    pair = Pair("ends that are left changed, labels found,", ticket(False), ticket(True), discount=0.9, found=True)
    yield from pair.sized(15, seeds=SEEDS)


def slow(shift: float) -> Source:
    """Eight places in a row that are left slowly; where sequences start is all that can differ."""
    P = 0.8 * np.eye(8) + 0.1 * np.eye(8, k=1) + 0.1 * np.eye(8, k=-1)
    P[0, 0] = P[7, 7] = 0.9
    start = np.array([0.3, 0.25, 0.2, 0.1, 0.05, 0.05, 0.03, 0.02])
    return markov(P, (1 - shift) * start + shift * start[::-1])


def starts() -> Iterator[Case]:
    """Different starts only."""
    yield from _both(Pair("starts only", slow(0.0), slow(0.15), discount=0.9, length=20), 120)


def rare(change: bool) -> Source:
    """Ten common states, and five that are each visited about once in 500 steps; those change."""
    rng = np.random.default_rng(8303)
    P = np.zeros((15, 15))
    P[:10, :10] = 0.99 * rng.dirichlet(np.full(10, 0.8), size=10)
    P[:10, 10:] = 0.01 / 5
    P[10:, :10] = rng.dirichlet(np.full(10, 0.5), size=5)
    if change:
        P[10:] = np.roll(P[10:], 2, axis=0) * 0.3
        P[10:, 10:] += 0.7 * np.eye(5)
    return markov(P, 0)


def rare_states() -> Iterator[Case]:
    """What differs is seen a dozen times."""
    yield from _both(Pair("rare states", rare(False), rare(True), discount=0.95, length=60), 100)


def town(change: bool) -> Source:
    """150 places on a ring with shortcuts, four ways out of each; a quarter of the town closes its shortcuts."""
    rng = np.random.default_rng(8404)
    n = 150
    P = np.zeros((n, n))
    place = np.arange(n)
    P[place, (place + 1) % n], P[place, (place - 1) % n] = 0.45, 0.25
    for _ in range(2):
        P[place, rng.integers(n, size=n)] += 0.15
    if change:
        closed = place[: n // 4]
        P[closed] = 0.0
        P[closed, (closed + 1) % n], P[closed, (closed - 1) % n] = 0.6, 0.4
    return markov(P, np.r_[np.full(30, 1.0), np.full(120, 0.1)])


def towns() -> Iterator[Case]:
    """150 states, sparse; about twenty visits of each."""
    yield from _both(Pair("town", town(False), town(True), discount=0.95, length=25), 150, seeds=20)


def lengths_with_kinds(shift: float) -> Source:
    """Four kinds of customers with rows of their own, whose mean lengths are 3, 12, 50 and 200 steps."""
    rng = np.random.default_rng(8505)
    leave = np.array([0.33, 0.083, 0.02, 0.005])
    common = rng.dirichlet(np.full(7, 0.6), size=7)
    kernels = np.zeros((4, 8, 8))
    for kind in range(4):
        own = rng.dirichlet(np.full(7, 0.6), size=7)
        kernels[kind, :7, :7] = (1 - leave[kind]) * (0.5 * common + 0.5 * own)
        kernels[kind, :7, 7] = leave[kind]
    kernels[:, 7, 7] = 1.0
    weights = np.array([0.6, 0.25, 0.1, 0.05]) * np.exp(shift * np.arange(4))
    starts = np.tile(np.r_[rng.dirichlet(np.ones(7)), 0.0], (4, 1))
    return Source(kernels, starts, weights / weights.sum(), np.arange(8))


def kinds() -> Iterator[Case]:
    """Random effects of sequences with heavy-tailed lengths."""
    yield from _both(Pair("kinds and lengths", lengths_with_kinds(0.0), lengths_with_kinds(0.4)), 200)


def clock(night: int) -> Source:
    """Six activities by a hidden clock of twelve hours, `night` of which have rows of their own."""
    rng = np.random.default_rng(8606)
    day, dark = rng.dirichlet(np.full(6, 0.5), size=6), rng.dirichlet(np.full(6, 0.3), size=6)
    kernel = np.zeros((72, 72))
    for hour in range(12):
        to = 6 * ((hour + 1) % 12)
        kernel[6 * hour : 6 * hour + 6, to : to + 6] = dark if hour < night else day
    return Source(kernel[None], long_run(kernel)[None], np.ones(1), np.tile(np.arange(6), 12))


def clocks() -> Iterator[Case]:
    """Day and night alternate, unseen; many sequences, and five long ones."""
    yield from _both(Pair("day and night", clock(6), clock(4), length=48), 60)
    yield from _both(Pair("day and night, stationary,", clock(6), clock(4), length=2000, initial="stationary"), 5)


def repeats(patience: float) -> Source:
    """Order 2 with a counter: a state that was repeated up to three times is left the way one came, or to the next."""
    n, most = 5, 3
    rng = np.random.default_rng(8707)
    R = rng.dirichlet(np.full(n, 0.8), size=n)
    m = n * n * most
    kernel = np.zeros((m + 1, m + 1))

    def at(before: int, now: int, count: int) -> int:
        return (before * n + now) * most + count

    for before in range(n):
        for now in range(n):
            for count in range(most):
                stay = patience * (1 - count / most)
                row = kernel[at(before, now, count)]
                row[at(before, now, min(count + 1, most - 1))] += 0.93 * stay
                go = R[now] * np.where(np.arange(n) == before, 3.0, 1.0) * (np.arange(n) != now)
                for to, chance in enumerate(go / go.sum()):
                    row[at(now, to, 0)] += 0.93 * (1 - stay) * chance
                row[m] = 0.07
    kernel[m, m] = 1.0
    start = np.zeros(m + 1)
    start[[at(s, s, 0) for s in range(n)]] = rng.dirichlet(np.ones(n))
    shown = np.r_[np.repeat(np.tile(np.arange(n), n), most), n]
    return Source(kernel[None], start[None], np.ones(1), shown)


def counters() -> Iterator[Case]:
    """The last two states and a count matter."""
    yield from _both(Pair("repeats", repeats(0.7), repeats(0.5)), 150)


def robots(share: float) -> Source:
    """People leave after some steps; robots never do, and their sequences are cut."""
    rng = np.random.default_rng(8808)
    kernels = np.zeros((2, 7, 7))
    kernels[0, :6, :6], kernels[0, :6, 6] = 0.85 * rng.dirichlet(np.full(6, 0.6), size=6), 0.15
    kernels[1, :6, :6] = 0.5 * np.roll(np.eye(6), 1, axis=1) + 0.5 / 6
    kernels[:, 6, 6] = 1.0
    starts = np.stack([np.r_[rng.dirichlet(np.ones(6)), 0.0], np.eye(7)[0]])
    return Source(kernels, starts, np.array([1 - share, share]), np.arange(7))


def robot_shares() -> Iterator[Case]:
    """Terminated people and truncated robots."""
    yield from _both(Pair("robots", robots(0.05), robots(0.12), length=60), 150)


def unequal_recordings() -> Iterator[Case]:
    """One long sequence against twenty; starts in equilibrium, said and not said; also with hidden regimes."""
    rng = np.random.default_rng(8909)
    P = rng.dirichlet(np.full(8, 0.6), size=8)
    Q = P.copy()
    Q[[1, 4]] = 0.5 * P[[1, 4]] + 0.5 * P[[2, 6]]
    one, other = (markov(kernel, long_run(kernel)) for kernel in (P, Q))
    switch = np.kron(0.95 * np.eye(2) + 0.05 * np.eye(2)[::-1], np.ones((8, 8)))
    regime: Floats = np.asarray(switch * np.tile(np.vstack([P, Q[::-1]]), 2), dtype=np.float64)
    moody = Source(regime[None], long_run(regime)[None], np.ones(1), np.tile(np.arange(8), 2))
    for name, x, y in (("changed", one, other), ("equal", one, one), ("moody, equal,", moody, moody)):
        for said in ("stationary", "recorded"):
            pair = Pair(f"one against twenty {name} {said}", x, y, discount=0.9, length=200, initial=said)
            yield _of_lengths(pair, (1, 4000), (20, 200))


def known() -> Iterator[Case]:
    """A known chain against a recording, with outcomes, or with states that are rare."""
    for name, y in (("changed", clinic(0.08, 0.04)), ("equal", clinic(0.1, 0.02))):
        yield replace(Pair(f"known outcomes {name}", clinic(0.1, 0.02), y, discount=0.95).known(150), seeds=SEEDS)
    for name, y in (("changed", rare(True)), ("equal", rare(False))):
        pair = Pair(f"known rare states {name}", rare(False), y, discount=0.95, length=60)
        yield replace(pair.known(100), seeds=SEEDS)


def settling(leave: float) -> Source:
    """Four states of running in, left for good at rate `leave`, then five others."""
    rng = np.random.default_rng(9010)
    P = np.zeros((9, 9))
    P[:4, :4] = (1 - leave) * rng.dirichlet(np.full(4, 0.8), size=4)
    P[:4, 4] = leave
    P[4:, 4:] = rng.dirichlet(np.full(5, 0.8), size=5)
    if not leave:
        P[4:] = np.eye(9)[0]  # never visited
    return markov(P, 0)


def _settled(source: Source) -> MarkovChain:
    P = source.kernels[0]
    return MarkovChain(P, long_run(P), states=range(len(P)))


def _settled_apart(x: Source, y: Source) -> float:
    return float(somcot.distance(_settled(x), _settled(y), discount=0.9).distance)


def states_left() -> Iterator[Case]:
    """Stationary distributions of five recordings that leave states for good; one side never leaves them."""
    for name, x, y in (("equal", 0.02, 0.02), ("changed", 0.02, 0.0), ("rates", 0.02, 0.005)):
        sides = settling(x), settling(y)
        pair = Pair(f"settling {name}", *sides, length=2000, initial="stationary", found=True)
        for case in pair.sized(5, seeds=SEEDS):
            yield replace(case, truth=partial(_settled_apart, *sides))


FAMILIES: tuple[Callable[[], Iterator[Case]], ...] = (
    outcomes,
    one_sided_ends,
    reopened,
    starts,
    rare_states,
    towns,
    kinds,
    clocks,
    counters,
    robot_shares,
    unequal_recordings,
    known,
    states_left,
)
