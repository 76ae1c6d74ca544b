"""Chains and streams for tests of the monitor, and the detector again in plain Python.

The families were written down before any of them was run; `WALK` and `DENSE` are those that the rule was made with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import somcot
from somcot import MarkovChain, Monitor, Samples
from somcot.data import clickstream

__all__ = ["FAMILIES", "NOTE", "Family", "PlainDetector", "same", "share_of_alarms", "side_by_side"]

MEMORIES = (16.0, 64.0, 256.0, 1024.0, np.inf)


@dataclass(frozen=True)
class Family:
    """A chain, and how its events come: one endless sequence, sessions one after the other, or `n_mixed` at a time."""

    name: str
    chain: MarkovChain
    n_mixed: int = 0

    @property
    def ends(self) -> NDArray[np.bool_]:
        """States in which a session ends."""
        found: NDArray[np.bool_] = np.isclose(np.asarray(self.chain.transition).diagonal(), 1.0)
        return found

    def stream(self, n: int, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """States and names of the sequences of n events."""
        ((states, names),) = self.streams(1, n, rng)
        return states, names

    def streams(
        self, how_many: int, n: int, rng: np.random.Generator
    ) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
        """Several streams, drawn side by side."""
        if self.n_mixed == 0:
            yield from ((path, None) for path in self._paths(how_many, n, rng))
            return
        lanes = self._paths(how_many * self.n_mixed, -(-n // self.n_mixed), rng)
        for k in range(how_many):
            yield self._mixed(lanes[k * self.n_mixed : (k + 1) * self.n_mixed], n, rng)

    def _paths(self, how_many: int, n: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Paths of n states; after the end of a session comes a first state."""
        chain = self.chain
        if self.n_mixed:
            chain = MarkovChain(
                np.where(self.ends[:, None], chain.initial, np.asarray(chain.transition)),
                chain.initial,
                states=chain.states,
            )
        return side_by_side(chain, how_many, n, rng)

    def _mixed(self, lanes: NDArray[np.int32], n: int, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        m = len(lanes)
        session = np.cumsum(np.hstack([np.zeros((m, 1), bool), self.ends[lanes[:, :-1]]]), axis=1)
        names = session * m + np.arange(m)[:, None]
        turn = rng.permuted(np.repeat(np.arange(m), lanes.shape[1]))
        place = np.empty(len(turn), dtype=np.int64)
        for lane in range(m):
            place[turn == lane] = np.arange(lanes.shape[1])
        return lanes[turn, place][:n], names[turn, place][:n]

    def recordings(self, how_many: int, n: int, rng: np.random.Generator) -> Iterator[Samples]:
        """References of n transitions each; those of sessions one after the other have a few less."""
        labels = np.array(self.chain.states, dtype=object)
        for path in self._paths(how_many, n + 1, rng):
            if self.n_mixed == 0:
                yield Samples(self.chain.states, path[:-1], path[1:], offsets=np.array([0, n]))
                continue
            parts = [part for part in np.split(path, np.flatnonzero(self.ends[path[:-1]]) + 1) if len(part) > 1]
            ended = [bool(self.ends[part[-1]]) for part in parts]
            episodes = [labels[part].tolist() for part in parts]
            yield Samples.from_trajectories(episodes, states=self.chain.states, terminated=ended)

    def monitor(self, reference: Any, **promise: Any) -> Monitor:
        """A monitor with the reference, known (the chain) or recorded."""
        return Monitor(reference, discount=0.9, window=100, **promise)


def side_by_side(chain: MarkovChain, how_many: int, n: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Paths of n states, (how_many, n)."""
    drawn = chain.sample(how_many, n - 1, rng=rng)
    now, following = (steps.reshape(how_many, n - 1) for steps in (drawn.now, drawn.following))
    paths: NDArray[np.int32] = np.hstack([now, following[:, -1:]])
    return paths


def share_of_alarms(
    family: Family, n_streams: int, n: int, reference_length: int | None, seed: int, **promise: Any
) -> tuple[float, list[int]]:
    """Share of streams of the chain itself that raise an alarm, each with a recording of its own, and when they did."""
    rng = np.random.default_rng([seed, reference_length or 0])
    when: list[int] = []
    for begin in range(0, n_streams, 500):
        size = min(500, n_streams - begin)
        known = reference_length is None
        references = [family.chain] * size if known else family.recordings(size, reference_length or 0, rng)
        for reference, (states, names) in zip(references, family.streams(size, n, rng), strict=True):
            monitor = family.monitor(reference, **promise)
            monitor.take(states, None if names is None else names.astype(np.uint64), np.zeros(0))
            if monitor.alarm is not None:
                when.append(monitor.alarm.event)
    return len(when) / n_streams, when


def same(one: Any, other: Any) -> bool:
    """Whether two records of arrays are equal bit for bit."""
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in one._fields)


class PlainDetector:
    """The equations, one after the other, in dictionaries; for known and recorded references."""

    def __init__(self, n: int, known: Any = None, counts: Any = None, forever: bool = False) -> None:
        self.n, self.known, self.forever, self.t = n, known, forever, 0
        self.prior = 0.5 / n
        self.C = None if counts is None else np.array(counts, dtype=float)
        self.N = [np.zeros((n, n)) for _ in MEMORIES]
        self.R = [0.0] * 5

    def null(self, i: int, j: int) -> float:
        if self.C is None:
            return float(self.known[i, j])
        return float((self.C[i, j] + self.prior / self.n) / (self.C[i].sum() + self.prior))

    def step(self, i: int, j: int) -> float:
        self.t += 1
        p = self.null(i, j)
        w = 1.0 / (2.10975 * (self.t + 1) * np.log(self.t + 1) ** 2) if self.forever else 1.0
        for h, memory in enumerate(MEMORIES):
            N = self.N[h]
            q = (N[i, j] + 8.0 * p) / (N[i].sum() + 8.0)
            self.R[h] = (self.R[h] + w) * q / p
            N[i] *= 1.0 - 1.0 / memory
            N[i, j] += 1.0
        if self.C is not None:
            self.C[i, j] += 1.0
        return float(np.mean(self.R))


def _dense(n: int, seed: int, alpha: float = 1.0) -> MarkovChain:
    return MarkovChain(np.random.default_rng(seed).dirichlet(np.full(n, alpha), n), normalize=True)


def _rows(n: int, row: Callable[[int, np.random.Generator], NDArray[Any]], seed: int = 0) -> MarkovChain:
    rng = np.random.default_rng(seed)
    return MarkovChain(np.array([row(i, rng) for i in range(n)]), normalize=True)


def _spread(n: int, places: Any, masses: Any) -> NDArray[Any]:
    row = np.zeros(n)
    np.add.at(row, np.asarray(places) % n, masses)
    return row


NOTE = [Family("walk 10", somcot.random_walk(10)), Family("dense 10", _dense(10, 1))]
_ENDING = MarkovChain(
    [
        [0.1, 0.5, 0.2, 0.1, 0.0, 0.1],
        [0.2, 0.2, 0.3, 0.1, 0.1, 0.1],
        [0.0, 0.3, 0.2, 0.3, 0.1, 0.1],
        [0.1, 0.0, 0.4, 0.2, 0.2, 0.1],
        [0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    ],
    [0.7, 0.2, 0.1, 0.0, 0.0, 0.0],
)
FAMILIES = [
    Family("sparse 40", _rows(40, lambda i, r: _spread(40, [i + 1, *r.integers(0, 40, 2)], r.dirichlet([1, 1, 1])), 2)),
    Family("lazy ring 25", _rows(25, lambda i, r: _spread(25, [i, i + 1, i - 1], [0.97, 0.02, 0.01]))),
    Family("nearly periodic 12", _rows(12, lambda i, r: _spread(12, [i + 1, i + 2, i], [0.97, 0.02, 0.01]))),
    Family("100 states", _dense(100, 3, 0.1)),
    Family("absorbing, restarting", _ENDING, n_mixed=1),
    Family("interleaved sessions", clickstream.chain("may"), n_mixed=20),
    Family("skewed 20", _rows(20, lambda i, r: r.permutation(1.0 / np.arange(1, 21) ** 2))),
    Family("sticky 2", MarkovChain([[0.999, 0.001], [0.01, 0.99]])),
]
