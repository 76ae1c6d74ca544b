"""More families with exact truths, added to the registry after the rule was made and before it was run on them.

They are unlike those of `benchmarks.recordings`: processes that only go forward, near-deterministic cycles, trees,
population counts, games with jumps, ages, crawlers among visitors, topics, hysteresis, and hubs with rare leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.sources import Case, Pair, Source, long_run, markov

__all__ = ["FAMILIES"]

Floats = NDArray[np.float64]


def _line(n: int) -> Floats:
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n))) / (n - 1.0)


def _both(pair: Pair, equal: Source, *sizes: int, seeds: int = 60) -> Iterator[Case]:
    """The pair, and the first source against itself, in the same sizes."""
    yield from replace(pair, name=f"{pair.name} changed").sized(*sizes, seeds=seeds)
    yield from replace(pair, name=f"{pair.name} equal", y=equal).sized(*sizes, seeds=seeds)


def pathway(skip: float) -> Source:
    """A patient passes 14 stages, never back: on to the next stage, or past one (`skip`, stages 4 to 6), or home."""
    n = 15
    P = np.zeros((n, n))
    for stage in range(14):
        past = skip if 4 <= stage <= 6 else 0.1
        P[stage, min(stage + 1, 14)] += 0.85 - past
        P[stage, min(stage + 2, 14)] += past
        P[stage, 14] += 0.05
        P[stage, stage] += 0.1
    P[14] = np.eye(n)[14]
    return markov(P, np.r_[0.7, 0.2, 0.1, np.zeros(12)])


def pathways() -> Iterator[Case]:
    """Forward only, with an end."""
    yield from _both(Pair("pathway", pathway(0.1), pathway(0.35), _line(15), 0.95), pathway(0.1), 80, 1000)


def cycle(slip: float) -> Source:
    """Sixteen steps of a machine in a circle, nearly deterministic: it waits with probability `slip`."""
    P = (1 - slip) * np.roll(np.eye(16), 1, axis=1) + slip * np.eye(16)
    return markov(P, 0)


def cycles() -> Iterator[Case]:
    """A phase that differs more and more; only waiting times are random."""
    place = np.arange(16)
    apart = np.abs(np.subtract.outer(place, place))
    cost = np.minimum(apart, 16 - apart) / 8.0
    yield from _both(Pair("cycle", cycle(0.1), cycle(0.16), cost, 0.95, length=100), cycle(0.1), 15, 200)


def menu(change: str) -> Source:
    """A telephone menu: a tree of depth 3 with 4 choices; callers go down, back to the top, or hang up."""
    rng = np.random.default_rng(6101)
    n = 1 + 4 + 16 + 64 + 1
    P = np.zeros((n, n))
    for node in range(21):
        P[node, 4 * node + 1 : 4 * node + 5] = 0.85 * rng.dirichlet(np.full(4, 0.7))
        P[node, 0] += 0.05
        P[node, n - 1] = 0.1
    P[21:85, 0], P[21:85, n - 1] = 0.3, 0.7
    P[n - 1, n - 1] = 1.0
    if change == "branch":  # the second branch is ordered anew
        P[2, 9:13] = P[2, 9:13][::-1]
        P[9:11] = 0.5 * P[9:11] + 0.5 * np.eye(n)[0]
    return markov(P, 0)


def menus() -> Iterator[Case]:
    """86 states, most of them rare leaves, by labels found in the data."""
    yield from _both(Pair("menu", menu("equal"), menu("branch"), found=True), menu("equal"), 200, 2000, seeds=40)


def household(rate: float) -> Source:
    """Six people, susceptible or ill, in all combinations: infection by `rate` and the number ill, then recovery."""
    states = [(s, i) for s in range(7) for i in range(7 - s)]
    index = {state: k for k, state in enumerate(states)}
    P = np.zeros((len(states), len(states)))
    for s, i in states:
        infect, recover = (1 - np.exp(-rate * i)) * (s > 0), 0.25 * min(i, 1)
        P[index[s, i], index[max(s - 1, 0), i + 1] if s else index[s, i]] += infect
        P[index[s, i], index[s, max(i - 1, 0)]] += (1 - infect) * recover
        P[index[s, i], index[s, i]] += (1 - infect) * (1 - recover)
    start = np.zeros(len(states))
    start[index[5, 1]], start[index[4, 2]] = 0.8, 0.2
    return markov(P, start)


def households() -> Iterator[Case]:
    """One parameter shifts the rows of all states; the cost is the number of people ill."""
    ill = np.array([i for s in range(7) for i in range(7 - s)])
    cost = np.abs(np.subtract.outer(ill, ill)) / 6.0
    yield from _both(Pair("household", household(0.15), household(0.25), cost, 0.95), household(0.15), 40, 400)


def game(loaded: float) -> Source:
    """Snakes and ladders on 40 squares; a die that shows six more often if it is loaded."""
    jumps = {3: 17, 8: 24, 14: 5, 21: 33, 27: 11, 31: 19, 37: 23}
    die = np.full(6, (1 - loaded) / 6) + np.r_[np.zeros(5), loaded]
    P = np.zeros((41, 41))
    for square in range(40):
        for eyes, chance in enumerate(die, start=1):
            to = min(square + eyes, 40)
            P[square, jumps.get(to, to)] += chance
    P[40, 40] = 1.0
    return markov(P, 0)


def games() -> Iterator[Case]:
    """Jumps; all rows shift together."""
    yield from _both(Pair("game", game(0.0), game(0.12), _line(41)), game(0.0), 60, 800)


def part(shape: float) -> Source:
    """The age of a part, 0 to 24, replaced with a hazard that grows with age as its power `shape`."""
    P = np.zeros((25, 25))
    for age in range(25):
        hazard = min(0.9, 0.004 + 0.5 * ((age + 1) / 25) ** shape)
        P[age, 0] += hazard
        P[age, min(age + 1, 24)] += 1 - hazard
    return markov(P, long_run(P))


def parts() -> Iterator[Case]:
    """Renewals: two successors in each state, ages that hardly occur."""
    yield from _both(Pair("part", part(2.0), part(1.4), _line(25), 0.95, length=60), part(2.0), 20, 300)


def visitors(crawlers: float) -> Source:
    """People stay for a few of 12 pages; crawlers read them in order, ten times as long."""
    rng = np.random.default_rng(6202)
    kernels = np.zeros((2, 13, 13))
    kernels[0, :12, :12] = 0.8 * rng.dirichlet(np.full(12, 0.5), size=12)
    kernels[0, :12, 12] = 0.2
    kernels[1, :12, :12] = 0.98 * (0.9 * np.roll(np.eye(12), 1, axis=1) + 0.1 / 12)
    kernels[1, :12, 12] = 0.02
    kernels[:, 12, 12] = 1.0
    starts = np.stack([np.r_[rng.dirichlet(np.ones(12)), 0], np.eye(13)[0]])
    return Source(kernels, starts, np.array([1 - crawlers, crawlers]), np.arange(13))


def crawlers() -> Iterator[Case]:
    """Two kinds of sequences, of which the rarer makes most of the transitions."""
    yield from _both(Pair("crawlers", visitors(0.1), visitors(0.2)), visitors(0.1), 100, 1500)


def topics(shift: float) -> Source:
    """Texts over 26 letters with Zipf frequencies; each text has one of 6 topics with rows of its own."""
    rng = np.random.default_rng(6303)
    popular = 1 / (1.0 + np.arange(26))
    common = rng.dirichlet(8 * popular / popular.sum() + 0.05, size=26)
    own = rng.dirichlet(4 * popular / popular.sum() + 0.05, size=(6, 26))
    kernels = np.zeros((6, 27, 27))
    kernels[:, :26, :26] = 0.95 * (0.6 * common + 0.4 * own)
    kernels[:, :26, 26] = 0.05
    kernels[:, 26, 26] = 1.0
    weights = np.exp(shift * np.arange(6))
    starts = np.tile(np.r_[popular / popular.sum(), 0], (6, 1))
    return Source(kernels, starts, weights / weights.sum(), np.arange(27))


def texts() -> Iterator[Case]:
    """Memory through a topic; every row changes a little."""
    yield from _both(Pair("topics", topics(0.0), topics(0.4)), topics(0.0), 100, 1000, seeds=40)


def thermostat(band: int) -> Source:
    """Temperature on 12 levels; the hidden heating switches at the ends of a band."""
    kernel = np.zeros((24, 24))
    low, high = 6 - band, 5 + band
    for heating in (0, 1):
        for level in range(12):
            for step, chance in ((1, 0.6 if heating else 0.1), (-1, 0.1 if heating else 0.6), (0, 0.3)):
                to = min(max(level + step, 0), 11)
                now = 1 if to <= low else 0 if to >= high else heating
                kernel[12 * heating + level, 12 * now + to] += chance
    return Source(kernel[None], long_run(kernel)[None], np.ones(1), np.tile(np.arange(12), 2))


def thermostats() -> Iterator[Case]:
    """Hysteresis: memory of order more than one, in one, two or many recordings."""
    for n, length, initial in ((1, 8000, "recorded"), (2, 4000, "stationary"), (40, 200, None)):
        x, y = thermostat(2), thermostat(3)
        pair = Pair("thermostat", x, y, _line(12), length=length, initial=initial)
        yield from _both(pair, x, n)


def airport(change: str) -> Source:
    """A hub and 39 places with Zipf visits, from most of which all go back; the rarer half changes its ways."""
    rng = np.random.default_rng(6404)
    popular = 1 / (1.0 + np.arange(39)) ** 1.2
    P = np.zeros((40, 40))
    P[0, 1:] = popular / popular.sum()
    P[1:, 0] = rng.uniform(0.6, 0.95, size=39)
    stay = 1 - P[1:, 0]
    P[np.arange(1, 40), 1 + (np.arange(39) + 1) % 39] += stay
    if change == "rare":
        P[20:, 0], rows = 0.3 * P[20:, 0], np.arange(20, 40)
        P[rows, 1] += 1 - P[rows].sum(axis=1)
    return markov(P, 0)


def airports() -> Iterator[Case]:
    """What changes is rarely seen."""
    yield from _both(Pair("airport", airport("equal"), airport("rare"), length=30), airport("equal"), 60, 1000)


FAMILIES: tuple[Callable[[], Iterator[Case]], ...] = (
    pathways,
    cycles,
    menus,
    households,
    games,
    parts,
    crawlers,
    texts,
    thermostats,
    airports,
)
