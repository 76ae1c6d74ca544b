"""The registry of families of recordings with exact truths, written down before any estimate was run on them.

Each function yields cases: a pair of sources that are equal or differ in a known way, recorded in several sizes.
Numbers in names are sequences on each side, or sequences x steps. `cases` returns all of them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import somcot
from benchmarks import held_out, other_shapes
from benchmarks.sources import Case, Pair, Source, long_run, markov
from somcot import Samples

__all__ = ["FAMILIES", "cases", "families"]

Floats = NDArray[np.float64]


def line(n: int) -> Floats:
    """Cost between positions on a line of length 1."""
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n))) / (n - 1.0)


def shop(change: str = "equal", seed: int = 4101) -> Source:
    """A web shop: 4 sections of 5 pages, a cart and a checkout; visitors leave from anywhere."""
    rng = np.random.default_rng(seed)
    section = np.repeat(np.arange(4), 5)
    n, cart, pay, left = 23, 20, 21, 22
    popular = rng.lognormal(0.0, 1.0, size=20)
    P = np.zeros((n, n))
    for page in range(20):
        near = np.where(section == section[page], 6.0, 0.7) * popular * rng.gamma(1.0, size=20)
        P[page, :20] = near / near.sum() * rng.uniform(0.6, 0.8)
        P[page, cart] = rng.uniform(0.02, 0.15)
        P[page, left] = 1 - P[page].sum()
    P[cart, [pay, left]], P[cart, rng.integers(20, size=3)] = (0.5, 0.2), 0.1
    P[pay, [left, cart]] = 0.9, 0.1
    P[left, left] = 1.0
    start = np.r_[popular**1.3 * (rng.random(20) < 0.5), 0, 0, 0]
    if change == "start":  # an advertisement leads to one page of the last section
        start = 0.75 * start / start.sum() + 0.25 * np.eye(n)[17]
    if change == "one":  # the most popular page sells better
        page = int(popular.argmax())
        P[page] = 0.7 * P[page] + 0.3 * np.eye(n)[cart]
    if change == "few":  # four pages of different popularity link elsewhere
        for page in np.argsort(-popular)[[1, 4, 8, 13]]:
            moved = 0.55 * P[page, :20].sum()
            P[page, :20] *= 0.45
            P[page, :20][section == (section[page] + 1) % 4] += moved / 5
    if change == "all":  # taste changes everywhere
        P[:20] *= np.exp(0.45 * rng.normal(size=n))
    return markov(P, start)


def shops() -> Iterator[Case]:
    """Shops: what changes is nothing, the first page, one row, four rows, or all rows a little."""
    same = shop()
    yield from Pair("shop equal, labels found,", same, same, found=True).sized(120, 900)
    yield from Pair("shop equal", same, same).sized(6000)
    for change, sizes in {"start": (120, 600), "one": (1200,), "few": (120, 900)}.items():
        yield from Pair(f"shop {change}, labels found,", same, shop(change), found=True).sized(*sizes)
    for change, sizes in {"start": (4000,), "one": (6000,), "few": (6000,), "all": (120, 900, 6000)}.items():
        yield from Pair(f"shop {change}", same, shop(change)).sized(*sizes)
    yield from Pair("shop few", same, shop("few")).sized(50_000, seeds=12)


def other_recordings() -> Iterator[Case]:
    """The shop with very different sizes, one side known, counts, independent transitions, other discounts."""
    same, few, every = shop(seed=4107), shop("few", 4107), shop("all", 4107)
    yield Pair("sizes few", same, few).unequal(5000, 50)
    yield Pair("sizes few", same, few).unequal(200, 20_000)
    yield Pair("sizes equal", same, same).unequal(5000, 50)
    yield Pair("sizes equal", same, same).unequal(200, 20_000)
    yield Pair("recorded all", same, every).known(150)
    yield Pair("recorded all", same, every).known(2500)
    yield Pair("recorded equal", same, same).known(500)
    yield Pair("recorded few", same, few).forgotten(800)
    yield Pair("recorded equal", same, same).forgotten(800)
    for pair in (Pair("occupancy few", same, few, discount=0.9), Pair("occupancy equal", same, same, discount=0.9)):
        yield pair.occupancy(800)
        yield pair.occupancy(20_000)
    for discount in (0.5, 0.8, 0.99):
        yield from Pair("shop few", same, few).at(discount).sized(700)
    yield from Pair("shop equal", same, same).at(0.99).sized(700)


def regimes(stay: float, mixing: float = 0.0) -> Source:
    """Observed regimes: 3 kinds of weather with 5 states each; starts in the first kind."""
    rng = np.random.default_rng(4202)
    inside = rng.dirichlet(np.full(5, 0.8), size=(3, 5))
    enter = rng.dirichlet(np.full(5, 2.0), size=3)
    switch = np.array([[0.0, 0.7, 0.3], [0.5, 0.0, 0.5], [0.2, 0.8, 0.0]])
    P = np.zeros((15, 15))
    for kind in range(3):
        for other in range(3):
            block = (
                stay * inside[kind]
                if kind == other
                else (1 - stay) * switch[kind, other] * np.tile(enter[other], (5, 1))
            )
            P[5 * kind : 5 * kind + 5, 5 * other : 5 * other + 5] = block
    P = (1 - mixing) * P + mixing * np.roll(P, 1, axis=1)
    return markov(P, np.r_[np.full(5, 0.2), np.zeros(10)])


def weather() -> Iterator[Case]:
    """Regimes that last differently long, under a cost that mostly sees the regime."""
    kind = np.repeat(np.arange(3), 5)
    cost = np.where(np.not_equal.outer(kind, kind), 1.0, 0.15 * (1 - np.eye(15)))
    for name, y in (("persistence", regimes(0.9)), ("states", regimes(0.96, 0.05)), ("equal", regimes(0.96))):
        pair = Pair(f"regimes {name}", regimes(0.96), y, cost, 0.95, length=150)
        yield from pair.sized(15, 120)
        yield from replace(pair, length=2000).sized(25)
    yield from Pair("regimes persistence", regimes(0.96), regimes(0.9), cost, length=150).at(0.5).sized(60)


def season(load: float) -> Source:
    """12 hours with 3 loads each; the load follows the hour."""
    P = np.zeros((36, 36))
    for hour in range(12):
        busy = load * (1 + 0.7 * np.cos(2 * np.pi * hour / 12))
        for level in range(3):
            up, down = min(0.9, busy) * (level < 2), 0.35 * (level > 0) * (1 - min(0.9, busy))
            for to, share in ((hour, 0.2), ((hour + 1) % 12, 0.8)):
                for other, chance in ((level + 1, up), (level - 1, down), (level, 1 - up - down)):
                    if chance > 0:
                        P[3 * hour + level, 3 * to + other] += share * chance
    return markov(P, 0)


def queue(arrivals: float, batch: float = 0.15) -> Source:
    """Two servers, 30 places, customers who sometimes arrive in pairs; starts empty."""
    n = 30
    P = np.zeros((n, n))
    for waiting in range(n):
        served = 0.25 * min(waiting, 2)
        P[waiting, max(waiting - 1, 0)] += served
        P[waiting, min(waiting + 1, n - 1)] += arrivals * (1 - batch)
        P[waiting, min(waiting + 2, n - 1)] += arrivals * batch
        P[waiting, waiting] += 1 - served - arrivals
    return markov(P, 0)


def machine(rate: float) -> Source:
    """Wear in 6 stages, repairs, and rare failures that end the recording."""
    P = np.zeros((8, 8))
    for wear in range(6):
        fails, repair = rate * (wear + 1) ** 2 / 12, 0.02 * wear
        P[wear, [6, 7]] = repair, fails
        P[wear, min(wear + 1, 5)] += 0.2
        P[wear, wear] += 0.8 - repair - fails
    P[6, [0, 1, 6]] = 0.5, 0.2, 0.3
    P[7, 7] = 1.0
    return markov(P, 0)


def engineering() -> Iterator[Case]:
    """Seasons, queues and rare failures."""
    level = np.arange(36) % 3
    cost = np.abs(np.subtract.outer(level, level)) / 2.0
    for name, load in (("load", 0.3), ("equal", 0.22)):
        pair = Pair(f"season {name}", season(0.22), season(load), cost, 0.95, length=240)
        yield from pair.sized(12, 60)
        yield from replace(pair, length=2400).sized(40)
    for name, arrivals in (("arrivals", 0.37), ("equal", 0.42)):
        pair = Pair(f"queue {name}", queue(0.42), queue(arrivals), line(30), 0.98, length=300)
        yield from pair.sized(15, 100)
        yield from replace(pair, length=3000).sized(30)
    worth = np.r_[np.linspace(1.0, 0.7, 6), 0.4, 0.0]
    for name, rate in (("rate", 0.009), ("equal", 0.004)):
        cost = np.abs(np.subtract.outer(worth, worth))
        yield from Pair(f"failures {name}", machine(0.004), machine(rate), cost, 0.98).sized(12, 60, 500)


def sparse(n: int, change: str) -> Source:
    """States with Zipf visits: from each two neighbours, two popular states and two others follow."""
    rng = np.random.default_rng(4300 + n)
    popular = 1 / (1.5 + np.arange(n))
    popular = rng.permutation(popular / popular.sum())
    P = np.zeros((n, n))
    for state in range(n):
        hubs = rng.choice(n, 2, replace=False, p=popular)
        near = (state + rng.integers(1, 4, size=2) * np.array([1, -1])) % n
        P[state, np.r_[hubs, near, rng.integers(n, size=2)]] += rng.dirichlet(np.full(6, 1.5))
        P[state] /= P[state].sum()
    visits = long_run(P)
    if change == "few":  # 4 % of the rows, among the better visited half, follow another state's row
        rows = rng.choice(np.argsort(-visits)[: n // 2], max(2, n // 25), replace=False)
        P[rows] = 0.35 * P[rows] + 0.65 * P[(rows + n // 3) % n]
    if change == "all":  # every row's probabilities change by about a fifth
        P *= rng.lognormal(0.0, 0.3, size=(n, n))
    return markov(P, popular)


def many_states() -> Iterator[Case]:
    """Sparse states with Zipf visits."""
    sizes = {50: (60, 800), 100: (150, 1500), 200: (250, 2500), 300: (300, 2000)}
    seeds = {50: 60, 100: 40, 200: 20, 300: 12}
    for n, (small, large) in sizes.items():
        for change in ("few", "all", "equal"):
            pair = Pair(f"sparse {n} {change}", sparse(n, "equal"), sparse(n, change), discount=0.95, length=40)
            yield from replace(pair, found=change == "few").sized(small, large, seeds=seeds[n])
    yield from Pair("sparse 50 few", sparse(50, "equal"), sparse(50, "few"), length=100).at(0.99).sized(200, seeds=40)


def molecule(n: int, tilt: float) -> Source:
    """Metropolis moves on a line with three wells; starts in equilibrium."""
    place = np.linspace(0, 1, n)
    energy = 1.6 * np.cos(6 * np.pi * place) + tilt * place
    P = np.zeros((n, n))
    for i in range(n):
        for j in (i - 1, i + 1):
            if 0 <= j < n:
                P[i, j] = 0.45 * min(1.0, np.exp(energy[i] - energy[j]))
        P[i, i] = 1 - P[i].sum()
    weight = np.exp(-energy)
    return markov(P, weight)


def molecules() -> Iterator[Case]:
    """Molecular lines, stationary starts."""
    for n, tilt, name in ((40, 1.2, "tilt"), (40, 0.0, "equal"), (100, 1.2, "tilt"), (100, 0.0, "equal")):
        pair = Pair(
            f"molecule {n} {name}", molecule(n, 0.0), molecule(n, tilt), line(n), 0.95, 1000, initial="stationary"
        )
        yield from pair.sized(20, seeds=60)
        yield from replace(pair, length=15_000).sized(20, seeds=40)


def game(change: str) -> Source:
    """Eight places with noisy rewards; the way changes, or what the places pay."""
    rng = np.random.default_rng(4404)
    P, rewards = rng.dirichlet(np.full(8, 0.7), size=8), rng.normal(0.0, 2.0, size=8)
    if change == "way":
        P[[1, 2, 5]] = 0.5 * P[[1, 2, 5]] + 0.5 * np.roll(P[[1, 2, 5]], 2, axis=1)
    if change == "pay":
        rewards = rewards + np.array([0.8, 0, 0, -0.8, 0, 0, 0, 0])
    return markov(P, 0, rewards)


def rewards() -> Iterator[Case]:
    """Costs from estimated mean rewards; "features" pools both sides, so a change of pay needs a cost of its own."""
    for change in ("way", "equal"):
        yield from Pair(f"rewards {change}", game("equal"), game(change), "features", length=25).sized(25, 150, 2000)
    apart = partial(somcot.costs.from_features, pool=False)
    pair = Pair("rewards pay, not pooled,", game("equal"), game("pay"), apart, length=25, test=False)
    yield from pair.sized(25, 150, 2000)


def refined(copies: Any, change: float) -> tuple[Source, Source, Floats]:
    """Seven states, and the same process with several meaningless copies of each."""
    rng = np.random.default_rng(4505)
    P, start = rng.dirichlet(np.full(7, 0.6), size=7), rng.dirichlet(np.ones(7))
    owner = np.repeat(np.arange(7), copies)
    share = rng.uniform(0.5, 1.5, size=len(owner))
    share /= np.bincount(owner, share)[owner]
    Q = (1 - change) * P + change * P[::-1]
    fine = markov(Q[owner][:, owner] * share, start[owner] * share)
    return markov(P, start), fine, np.not_equal.outer(np.arange(7), owner).astype(float)


def state_sets() -> Iterator[Case]:
    """Different states on the two sides: a refinement with an explicit cost; pages that one side does not have."""
    for name, change in (("changed", 0.25), ("equal", 0.0)):
        x, y, cost = refined([1, 2, 2, 3, 3, 2, 4], change)
        yield from Pair(f"refined {name}", x, y, cost, length=25, test=False).sized(30, 200, 2500)
    rng = np.random.default_rng(4506)
    P = rng.dirichlet(np.full(10, 0.5), size=10)
    P = np.c_[0.88 * P, np.zeros((10, 2)), np.full(10, 0.12)]
    P = np.vstack([P, np.zeros((3, 13))])
    P[10:, 12] = 1.0
    old, new = P.copy(), P.copy()
    for page, by in ((10, old), (11, new)):  # a page before the change, another one after it
        by[:10] = 0.93 * P[:10] + 0.07 * np.eye(13)[page]
        by[page] = 0.8 * P[2] + 0.2 * np.eye(13)[12]
    start = np.r_[rng.dirichlet(np.ones(10)), 0, 0, 0]
    yield from Pair("one-sided labels", markov(old, start), markov(new, start), found=True).sized(60, 500, 5000)
    yield from Pair("one-sided label", markov(P, start), markov(new, start), found=True).sized(500)


def second_order(momentum: float, back: float) -> Source:
    """A walk on 7 places: it prefers not to return to where it came from, or does; hidden states are pairs."""
    n = 7
    rng = np.random.default_rng(4606)
    R = rng.dirichlet(np.full(n, 0.9), size=n)
    kernel, start = np.zeros((n * n + 1, n * n + 1)), np.zeros(n * n + 1)
    first = rng.dirichlet(np.ones(n))
    for before in range(n):
        for now in range(n):
            go = R[now].copy()
            if before != now:
                go *= np.exp(momentum * (np.arange(n) == (2 * now - before) % n))
                go[before] += back
            kernel[before * n + now, [now * n + to for to in range(n)]] = 0.92 * go / go.sum()
            kernel[before * n + now, -1] = 0.08
        start[before * n + before] = first[before]
    kernel[-1, -1] = 1.0
    shown = np.r_[np.tile(np.arange(n), n), n]
    return Source(kernel[None], start[None], np.ones(1), shown)


def hidden(stay: tuple[float, float, float], buyers: float, *, cut: bool = False) -> Source:
    """Visitors browse, buy or are lost, which nobody sees; 9 pages, and an end unless recordings are `cut`."""
    rng = np.random.default_rng(4707)
    mode = rng.dirichlet(np.full(9, 0.4), size=(3, 9)) * 0.6 + 0.4 * rng.dirichlet(np.full(9, 0.6), size=3)[:, None]
    other = np.array([[0.0, 0.5, 0.5], [0.8, 0.0, 0.2], [0.6, 0.4, 0.0]])
    kernel = np.zeros((28, 28))
    for now in range(3):
        for then in range(3):
            switch = stay[now] if now == then else (1 - stay[now]) * other[now, then]
            kernel[9 * now : 9 * now + 9, 9 * then : 9 * then + 9] = switch * mode[then]
    shares = np.array([0.8 - buyers, buyers, 0.2])
    start = np.r_[np.repeat(shares, 9) * np.tile(rng.dirichlet(np.ones(9)), 3), 0]
    if not cut:
        ends = np.repeat([0.05, 0.12, 0.25], 9)
        kernel[:27, :27] *= 1 - ends[:, None]
        kernel[:27, 27] = ends
        kernel[27, 27] = 1.0
        return Source(kernel[None], start[None], np.ones(1), np.r_[np.tile(np.arange(9), 3), 9])
    kernel = kernel[:27, :27]
    return Source(kernel[None], long_run(kernel)[None], np.ones(1), np.tile(np.arange(9), 3))


def customers(shift: float, n: int = 8, kinds: int = 24, seed: int = 4808, rows: bool = False) -> Source:
    """Random effects: `kinds` customers with tastes and patience of their own; `shift` reweights them."""
    rng = np.random.default_rng(seed)
    common = rng.dirichlet(np.full(n, 0.5), size=n)
    popular = 1 / (1.0 + np.arange(n))
    taste = rng.dirichlet(6 * popular / popular.sum() + 0.02, size=kinds)
    patience, appeal = rng.uniform(0.03, 0.3, size=kinds), rng.normal(size=kinds)
    if rows:  # instead of the customers, what follows three of the pages has changed
        common[[0, 1, 3]] = 0.4 * common[[0, 1, 3]] + 0.6 * common[[4, 5, 2]]
    kernels = np.zeros((kinds, n + 1, n + 1))
    kernels[:, :n, :n] = (0.5 * common + 0.5 * taste[:, None]) * (1 - patience)[:, None, None]
    kernels[:, :n, n] = patience[:, None]
    kernels[:, n, n] = 1.0
    weights = np.exp(shift * appeal)
    return Source(kernels, np.c_[taste, np.zeros(kinds)], weights / weights.sum(), np.arange(n + 1))


def counters(retry: float) -> Source:
    """A job is tried up to six times, reviewed and closed; what follows a failure depends on how many there were."""
    queued, run, failed, review, fixed, closed, end = range(7)
    tries = 6
    n = 7 * tries
    kernel = np.zeros((n, n))
    for k in range(tries):
        at = {label: 7 * k + label for label in range(7)}
        more = 7 * min(k + 1, tries - 1)
        kernel[at[queued], at[run]] = 1.0
        kernel[at[run], at[failed]], kernel[at[run], at[review]] = 0.75 - 0.08 * k, 0.25 + 0.08 * k
        again = retry if k < tries - 1 else 0.0
        kernel[at[failed], more + run] = again
        kernel[at[failed], at[fixed]] = (1 - again) * (0.3 + 0.1 * k)
        kernel[at[failed], at[closed]] = (1 - again) * (0.7 - 0.1 * k)
        kernel[at[fixed], at[review]] = 1.0
        kernel[at[review], at[closed]], kernel[at[review], more + queued] = 0.85, 0.15
        kernel[at[closed], at[end]] = kernel[at[end], at[end]] = 1.0
    start = np.eye(n)[0]
    return Source(kernel[None], start[None], np.ones(1), np.tile(np.arange(7), tries))


def heavy_tail(power: float) -> Source:
    """Lengths with a tail of this power, to several thousand steps; what is done changes the longer it takes."""
    phases, n = 9, 6
    rng = np.random.default_rng(4909)
    early, late = rng.dirichlet(np.full(n, 0.8), size=n), rng.dirichlet(np.full(n, 0.8), size=n)
    kernel = np.zeros((phases * n + 1, phases * n + 1))
    for phase in range(phases):
        pace = 0.5**phase / 2  # a phase lasts twice as long as the one before it
        leave = pace * (1 - 0.5**power) if phase < phases - 1 else pace
        grow = pace * 0.5**power if phase < phases - 1 else 0.0
        P = early + (late - early) * phase / (phases - 1)
        rows = slice(phase * n, phase * n + n)
        kernel[rows, rows] = (1 - leave - grow) * P
        kernel[rows, -1] = leave
        if grow:
            kernel[rows, rows.stop : rows.stop + n] = grow * P
    kernel[-1, -1] = 1.0
    start = np.r_[rng.dirichlet(np.ones(n)), np.zeros(len(kernel) - n)]
    return Source(kernel[None], start[None], np.ones(1), np.r_[np.tile(np.arange(n), phases), n])


def memory() -> Iterator[Case]:
    """Data with memory; the truth is that of the first-order projections."""
    pairs = {
        "order 2": (second_order(1.0, 0.1), second_order(0.2, 0.6)),
        "hidden regimes": (hidden((0.9, 0.9, 0.9), 0.2), hidden((0.9, 0.9, 0.9), 0.45)),
        "random effects": (customers(0.0), customers(0.6)),
        "counters": (counters(0.5), counters(0.7)),
        "heavy tails": (heavy_tail(1.4), heavy_tail(1.1)),
        "sparse 80 with effects": (customers(0.0, 80, 12, 4811), customers(0.0, 80, 12, 4811, rows=True)),
    }
    for name, (x, y) in pairs.items():
        seeds = 40 if "80" in name else 100
        yield from Pair(f"{name} changed", x, y).sized(150, 1500, seeds=seeds)
        yield from Pair(f"{name} equal", x, x).sized(150, 1500, seeds=seeds)


def long_recordings() -> Iterator[Case]:
    """One to three long recordings that start in equilibrium, with and without saying so."""
    rng = np.random.default_rng(5010)
    P = rng.dirichlet(np.full(10, 0.5), size=10)
    Q = P.copy()
    Q[[2, 5, 7]] = 0.6 * P[[2, 5, 7]] + 0.4 * P[[3, 6, 8]]
    chain, other = (markov(kernel, long_run(kernel)) for kernel in (P, Q))
    slow, other_slow = hidden((0.99, 0.99, 0.99), 0.2, cut=True), hidden((0.99, 0.95, 0.995), 0.2, cut=True)
    jam, less = (markov(q.kernels[0], long_run(q.kernels[0])) for q in (queue(0.42), queue(0.39)))
    sides: dict[str, tuple[Source, Source, Any]] = {
        "Markov": (chain, other, "labels"),
        "hidden": (slow, other_slow, "labels"),
        "queue": (jam, less, line(30)),
    }
    for name, (x, y, cost) in sides.items():
        for change, second in (("changed", y), ("equal", x)):
            pair = Pair(f"long {name} {change}, stationary,", x, second, cost, initial="stationary")
            for n, length in ((1, 6000), (2, 30_000), (3, 2500)):
                yield from replace(pair, length=length).sized(n, seeds=60)
    for change, second in (("changed", other), ("equal", chain)):
        pair = Pair(f"long Markov {change}, not said,", chain, second, initial="recorded")
        for n, length in ((1, 6000), (3, 2500)):
            yield from replace(pair, length=length).sized(n, seeds=60)
    pair = Pair("long hidden equal, not said,", slow, slow, initial="recorded", length=30_000)
    yield from pair.sized(2, seeds=60)


def groups() -> Iterator[Case]:
    """Six recordings of three shops: all 15 distances at once."""
    sources = [shop("few", 5111), shop(seed=5111), shop("all", 5111)]
    members = [sources[i] for i in (0, 0, 1, 1, 1, 2)]

    def truth() -> Floats:
        chains = [source.projection() for source in members]
        return np.array([[somcot.distance(a, b, discount=0.9).distance for b in chains] for a in chains])

    def draw(n: int, rng: np.random.Generator) -> list[Samples]:
        return [source.record(n, rng) for source in members]

    for n in (100, 1000):
        yield Case(
            f"groups of shops {n:,}",
            partial(draw, n),
            truth,
            seeds=40,
            kind="groups",
            test=False,
        )


FAMILIES: tuple[Callable[[], Iterator[Case]], ...] = (
    shops,
    other_recordings,
    weather,
    engineering,
    many_states,
    molecules,
    rewards,
    state_sets,
    memory,
    long_recordings,
    groups,
    *held_out.FAMILIES,
    *other_shapes.FAMILIES,
)


def families() -> dict[str, str]:
    """The name of the family of each case."""
    return {case.name: family.__name__.replace("_", " ") for family in FAMILIES for case in family()}


def cases() -> dict[str, Case]:
    """All cases of all families, by name."""
    found = [case for family in FAMILIES for case in family()]
    return {case.name: case for case in found}
