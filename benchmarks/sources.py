"""Sources of recordings whose true distance is known exactly, to judge estimates, tests and alarms.

A `Source` draws sequences: a Markov chain, or a mixture of hidden Markov chains whose states each show one label. All
that has memory here (second order, hidden regimes, random effects, counters, heavy-tailed lengths) is such a mixture,
so that one sampler draws from all of them and one formula gives their first-order projection: expected numbers of
transitions between labels follow from linear equations, without simulation. The truth of a `Case` is the distance of
the projections of its two sources. `benchmarks.recordings` lists the families, `benchmarks.logs` adds public event
logs, and ``python -m benchmarks.truth`` measures how often intervals contain the truth.

Draws depend on the name of the case and the seed, and on nothing in somcot: two versions see the same data.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import somcot
from somcot import MarkovChain, Samples

__all__ = ["Case", "Pair", "Source", "independent", "long_run", "markov", "samples"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Draw = Callable[[np.random.Generator], Any]


@dataclass(frozen=True)
class Source:
    """A mixture of hidden Markov chains; each sequence comes from one component.

    Attributes
    ----------
    kernels : ndarray, shape (k, m, m)
        Transition probabilities of the m hidden states in each component. A state with probability 1 of staying in
        every component ends the sequence.
    starts : ndarray, shape (k, m)
        Where sequences of each component begin.
    weights : ndarray, shape (k,)
        Shares of the components.
    shown : ndarray of int, shape (m,)
        The label that each hidden state shows.
    rewards : ndarray, shape (n,), optional
        Mean reward of each label; recorded rewards have a standard deviation of 1.
    """

    kernels: Floats
    starts: Floats
    weights: Floats
    shown: Integers
    rewards: Floats | None = None

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.shown.max()) + 1

    @property
    def ends(self) -> NDArray[np.bool_]:
        """Hidden states in which a sequence ends."""
        return np.asarray(np.diagonal(self.kernels, axis1=1, axis2=2).min(axis=0) > 1 - 1e-12)

    def projection(self, length: int | None = None, *, stationary: bool = False) -> MarkovChain:
        """The Markov chain with the same first labels and the same expected transitions between labels.

        `length` is the number of steps after which recordings stop; None records all sequences to their ends.
        """
        n, inside = self.n_labels, ~self.ends
        counts = np.zeros((n, n))
        for kernel, start, weight in zip(self.kernels, self.starts, self.weights, strict=True):
            part, first = kernel[np.ix_(inside, inside)], start[inside]
            if length is None:
                visits = np.linalg.solve(np.eye(len(part)) - part.T, first)
            else:
                visits = np.zeros(len(part))
                for _ in range(length):
                    visits += first
                    first = first @ part
            np.add.at(
                counts, (self.shown[inside][:, None], self.shown[None]), weight * visits[:, None] * kernel[inside]
            )
        never_left = counts.sum(axis=1) == 0
        counts[never_left, never_left.nonzero()[0]] = 1.0
        transition = counts / counts.sum(axis=1, keepdims=True)
        initial = np.bincount(self.shown, self.weights @ self.starts, minlength=n)
        return MarkovChain(transition, long_run(transition) if stationary else initial, states=range(n))

    def sequences(
        self, n: int, rng: np.random.Generator, length: int | None = None
    ) -> tuple[Integers, Integers, NDArray[np.bool_]]:
        """Draw `n` sequences of labels: all labels one after another, the offsets, and which sequences ended."""
        components = rng.choice(len(self.weights), size=n, p=self.weights)
        below, ends = self.kernels.cumsum(axis=2)[..., :-1], self.ends
        state = (self.starts.cumsum(axis=1)[components, :-1] < rng.random(n)[:, None]).sum(axis=1)
        alive = np.arange(n)
        owners, path = [alive], [state]
        while len(alive) and (length is None or len(path) <= length):
            state = (below[components[alive], state] < rng.random(len(alive))[:, None]).sum(axis=1)
            owners.append(alive)
            path.append(state)
            going = ~ends[state]
            alive, state = alive[going], state[going]
        owner, hidden = np.concatenate(owners), np.concatenate(path)
        order = np.argsort(owner, kind="stable")
        offsets = np.r_[0, np.cumsum(np.bincount(owner, minlength=n))]
        hidden = hidden[order]
        return self.shown[hidden], offsets, ends[hidden[offsets[1:] - 1]]

    def record(
        self, n: int, rng: np.random.Generator, length: int | None = None, *, found: bool = False, initial: Any = None
    ) -> Samples:
        """`Samples` of `n` sequences; `found`: labels that do not occur are unknown."""
        labels, offsets, ended = self.sequences(n, rng, length)
        return samples(
            labels, offsets, ended, None if found else self.n_labels, initial=initial, means=self.rewards, rng=rng
        )


def samples(
    labels: Integers,
    offsets: Integers,
    ended: NDArray[np.bool_],
    n_labels: int | None,
    *,
    initial: Any = None,
    means: Floats | None = None,
    rng: np.random.Generator | None = None,
) -> Samples:
    """`Samples` of sequences of integer labels, stored one after another.

    Examples
    --------
    >>> samples(np.array([0, 1, 1, 0, 2]), np.array([0, 3, 5]), np.array([False, True]), 3).counts()
    array([[0, 1, 1],
           [0, 1, 0],
           [0, 0, 0]])
    """
    last = np.zeros(len(labels), dtype=np.bool_)
    last[offsets[1:] - 1] = True
    lengths = np.diff(offsets)
    episode = np.repeat(np.arange(len(lengths)), lengths)[~last]
    now, following = labels[~last], np.delete(labels, offsets[:-1])
    terminated = np.r_[episode[1:] != episode[:-1], True] & ended[episode]
    rewards = None if means is None or rng is None else rng.normal(means[now], 1.0)
    return Samples.from_transitions(
        now,
        following,
        episode=episode,
        terminated=terminated,
        states=None if n_labels is None else range(n_labels),
        initial=initial,
        rewards=rewards,
    )


def long_run(transition: Floats) -> Floats:
    """The stationary distribution of a chain with one recurrent class."""
    n = len(transition)
    system = np.vstack([transition.T - np.eye(n), np.ones(n)])
    return np.clip(np.linalg.lstsq(system, np.r_[np.zeros(n), 1.0], rcond=None)[0], 0.0, None)


def markov(transition: Floats, initial: Floats | int, rewards: Floats | None = None) -> Source:
    """A source without memory."""
    n = len(transition)
    start = np.eye(n)[initial] if isinstance(initial, int) else initial / initial.sum()
    kernel = transition / transition.sum(axis=1, keepdims=True)
    return Source(kernel[None], start[None], np.ones(1), np.arange(n), rewards)


@dataclass(frozen=True)
class Case:
    """Two processes to draw, and what is true of them.

    Attributes
    ----------
    name : str
        Family, change and size; also the key of cached results and the seed of the draws.
    draw : function of a random generator
        Returns (x, y) as `somcot.distance` takes them; for kind "groups" a list for `somcot.distance_matrix`.
    truth : function
        Returns the true distance, for "groups" the matrix of them.
    cost, discount
        As for `somcot.distance`.
    seeds : int
        Number of repetitions of a full run.
    kind : {"pair", "groups"}
    test : bool
        Whether `same_process` asks the same question: both sides are recorded, on states with the same meaning.
    """

    name: str
    draw: Draw
    truth: Callable[[], Any]
    cost: Any = "labels"
    discount: float = 0.9
    seeds: int = 100
    kind: str = "pair"
    test: bool = True

    def drawn(self, seed: int) -> Any:
        """The data of one seed."""
        return self.draw(np.random.default_rng([zlib.crc32(self.name.encode()), seed]))


@dataclass(frozen=True)
class Pair:
    """Two sources and how they are recorded; each of its sizes is a `Case`."""

    name: str
    x: Source
    y: Source
    cost: Any = "labels"
    discount: float = 0.9
    length: int | None = None
    found: bool = False
    initial: Any = None  # "stationary": said to the estimate; "recorded": starts are stationary but it is not told
    test: bool = True

    def true_distance(self) -> float:
        """Distance of the projections."""
        x, y = (side.projection(self.length, stationary=self.initial is not None) for side in (self.x, self.y))
        cost = self.cost
        if self.x.rewards is not None and self.y.rewards is not None:
            cost = np.abs(np.subtract.outer(self.x.rewards, self.y.rewards))
        return float(somcot.distance(x, y, cost, discount=self.discount).distance)

    def sides(self, rng: np.random.Generator, n_x: int, n_y: int) -> tuple[Samples, Samples]:
        """Both recordings."""
        initial = "stationary" if self.initial == "stationary" else None
        x = self.x.record(n_x, rng, self.length, found=self.found, initial=initial)
        return x, self.y.record(n_y, rng, self.length, found=self.found, initial=initial)

    def case(self, label: str, draw: Draw, seeds: int = 100, **changes: Any) -> Case:
        """A case of this pair with its own way of drawing."""
        keys = {"cost": self.cost, "discount": self.discount, "test": self.test, **changes}
        return Case(f"{self.name} {label}", draw, self.true_distance, seeds=seeds, **keys)

    def sized(self, *sizes: int, seeds: int = 100) -> Iterator[Case]:
        """Cases with these numbers of sequences on each side."""
        for n in sizes:
            label = f"{n:,}" if self.length is None else f"{n:,} x {self.length:,}"
            yield self.case(label, partial(self.sides, n_x=n, n_y=n), seeds)

    def unequal(self, n_x: int, n_y: int) -> Case:
        """A case with different numbers of sequences."""
        return self.case(f"{n_x:,}:{n_y:,}", lambda rng: self.sides(rng, n_x, n_y))

    def known(self, n: int) -> Case:
        """X is known, Y recorded."""
        chain = self.x.projection(self.length)
        return self.case(f"known:{n:,}", lambda rng: (chain, self.sides(rng, 1, n)[1]), test=False)

    def forgotten(self, n: int) -> Case:
        """Transition counts, without the sequences."""

        def draw(rng: np.random.Generator) -> Any:
            return tuple(somcot.Counts.from_samples(side) for side in self.sides(rng, n, n))

        return self.case(f"counts {n:,}", draw, test=False)

    def occupancy(self, n: int) -> Case:
        """Independent transitions at random times of discount^t, as the paper's algorithm draws them."""

        def draw(rng: np.random.Generator) -> Any:
            return tuple(independent(side.projection(), n, self.discount, rng) for side in (self.x, self.y))

        return self.case(f"independent {n:,}", draw)

    def at(self, discount: float) -> Pair:
        """The same at another discount."""
        return replace(self, name=f"{self.name} at {discount}", discount=discount)


def independent(chain: MarkovChain, n: int, discount: float, rng: np.random.Generator) -> Samples:
    """Independent transitions (X_T, X_T+1) with P(T = t) = (1 - discount) discount^t."""
    P, initial = np.asarray(chain.transition), np.asarray(chain.initial)
    occupied = (1 - discount) * np.linalg.solve(np.eye(len(P)) - discount * P.T, initial)
    pairs = rng.choice(P.size, size=n, p=(occupied[:, None] * P).ravel() / occupied.sum())
    return Samples.from_transitions(pairs // len(P), pairs % len(P), discount=discount, states=range(len(P)))
