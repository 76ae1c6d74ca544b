"""Streams: sources of transitions whose kernel need not be known.

A stream has ``draw(n) -> (states, next_states)``, two arrays of state indices of equal length, at most n. Fewer than n
(possibly 0) means that the source is exhausted. The transitions should be independent draws from the discounted
occupancy nu(x, x') = (1 - discount) sum_t discount^t P(X_t = x, X_{t+1} = x').

Streams created here do not depend on the batch size: drawing 10 and then 20 gives the same 30 as one draw of 30.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from somcot.chains import MarkovChain
from somcot.plumbing.arrays import Ints
from somcot.plumbing.checks import (
    check_count,
    check_discount,
    check_kind,
    check_labels,
    check_rng,
    check_text,
    real_array,
)
from somcot.plumbing.errors import DataWarning, how_to_wrap, warn
from somcot.plumbing.notes import Note
from somcot.recorded.counts import Counts
from somcot.recorded.sources import (
    Blocks,
    Ready,
    Source,
    Stream,
    StreamError,
    TransitionBlock,
    block_size,
    check_moves,
    check_pairs,
    given_law,
    indices_of,
    reset_law,
    unzip,
    with_rng,
)
from somcot.samples import Samples

__all__ = [
    "Source",
    "Stream",
    "StreamError",
    "as_source",
    "check_order",
    "check_pairs",
    "from_chain",
    "from_iterable",
    "from_samples",
    "from_simulator",
]

Rng = int | np.random.Generator | None
T = TypeVar("T")


def from_chain(chain: MarkovChain, discount: float, rng: Rng = None, *, tabled: bool = False) -> Source:
    """Draw from a known chain by geometric stopping: (X_G, X_{G+1}), P(G = t) = (1 - discount) discount^t.

    Parameters
    ----------
    chain : MarkovChain
    discount : float
    rng : None, int or Generator
    tabled : bool
        Draw from the table of the occupancy instead, which has the same distribution: one random number for each
        transition in place of about 1 / (1 - discount) moves. The draws of one seed differ.

    Examples
    --------
    >>> from somcot import random_walk
    >>> states, next_states = from_chain(random_walk(5), 0.9, rng=0).draw(1000)
    >>> len(states), int(abs(states - next_states).max())
    (1000, 1)
    """
    if not isinstance(chain, MarkovChain):
        raise TypeError(f"chain: found {type(chain).__name__}, expected a MarkovChain")
    discount = check_moves(check_discount(discount))
    generator = check_rng(rng)
    size = block_size(discount)

    draw = partial(_stopped, chain, discount, size)

    # Blocks have a fixed size, so that the stream does not depend on how many transitions are requested at a time.
    def refill(wanted: int) -> TransitionBlock:
        return table.draw(generator) if table is not None else _Walks(draw, size, generator, wanted)

    table = _OccupancyTable(chain, discount) if tabled else None
    indptr, indices, _ = chain.support
    # The known support, for methods that build arrays over possible transitions only.
    allowed = np.zeros((chain.n_states, chain.n_states), dtype=bool)
    allowed[np.repeat(np.arange(chain.n_states), np.diff(indptr[:-1])), indices[: indptr[-2]]] = True
    blocks = Blocks(refill, generator)
    return Source(
        blocks.draw,
        blocks.state,
        blocks.restore,
        n_states=chain.n_states,
        states=chain.states,
        initial=chain.initial,
        discount=discount,
        chain=chain,
        transitions=allowed,
        quick=True,
    )


def from_simulator(
    reset: Callable[..., Any],
    step: Callable[..., Any],
    discount: float,
    rng: Rng = None,
    *,
    states: Sequence[Hashable] | None = None,
    initial: Hashable | ArrayLike | None = None,
) -> Source:
    """Draw from a simulator by geometric stopping.

    Parameters
    ----------
    reset : callable
        ``reset()`` or ``reset(rng)`` returns an initial state: a non-negative integer, or one of `states`.
    step : callable
        ``step(state)`` or ``step(state, rng)`` returns the next state. The generator is passed if the callable takes
        an argument named ``rng``; a simulator that uses it can be resumed bit for bit.
    discount : float
    rng : None, int or Generator
    states : sequence of hashable, optional
        Labels, if the simulator returns labels; otherwise its states must be the numbers 0, 1, ...
    initial : state or array_like, optional
        The initial distribution. By default it is estimated from 1,000 calls of `reset`.

    Examples
    --------
    >>> stream = from_simulator(lambda: 0, lambda s, rng: (s + rng.integers(2)) % 3, 0.9, rng=0)
    >>> states, next_states = stream.draw(500)
    >>> len(states), stream.initial
    (500, array([1.]))
    """
    discount = check_moves(check_discount(discount))
    generator = check_rng(rng)
    for name, function in (("reset", reset), ("step", step)):
        if not callable(function):
            raise TypeError(f"{name}: found {function!r}, expected a callable")
    begin, move = with_rng(reset, generator, 0), with_rng(step, generator, 1)
    labels = None if states is None else check_labels("states", states)
    place = None if labels is None else {label: i for i, label in enumerate(labels)}
    # Estimated first: it uses the same generator, so its draws come before those of the stream.
    start = reset_law(begin, place) if initial is None else given_law(initial, labels)

    def refill(_wanted: int) -> Ready:
        now: list[Any] = []
        following: list[Any] = []
        # Small blocks, since user code may be slow.
        for waiting in generator.geometric(1 - discount, size=64) - 1:
            state = begin()
            for _ in range(waiting):
                state = move(state)
            now.append(state)
            following.append(move(state))
        return Ready(indices_of(now, place), indices_of(following, place))

    count = None if labels is None else len(labels)
    blocks = Blocks(refill, generator)
    return Source(
        blocks.draw, blocks.state, blocks.restore, n_states=count, states=labels, initial=start, discount=discount
    )


def from_samples(samples: Samples, discount: float, rng: Rng = None, *, order: str = "random") -> Source:
    """Replay recorded transitions.

    Samples of the occupancy are replayed directly: endlessly, reshuffled before every pass (``order="random"``), or
    once in the recorded order (``order="recorded"``). Steps of episodes are not samples of the occupancy, and treating
    them as such gives wrong distances. With ``order="random"``, a chain is therefore estimated from their counts, and
    the stream draws from its occupancy. ``order="recorded"`` and ``order="shuffled"`` replay the raw transitions.

    Examples
    --------
    >>> from somcot import random_walk
    >>> samples = random_walk(5).sample_occupancy(100, 0.9, rng=0)
    >>> stream = from_samples(samples, 0.9, order="recorded")
    >>> len(stream.draw(80)[0]), len(stream.draw(80)[0])
    (80, 20)
    """
    discount = check_discount(discount)
    check_order(order)
    check_kind("samples", samples, Samples)
    # Draws at one discount cannot be reweighted to another.
    if samples.discount is not None and abs(samples.discount - discount) > 1e-12:
        raise ValueError(
            f"discount: found {discount}, but the samples were drawn at {samples.discount}; "
            "use that discount or record new samples"
        )
    episodes = samples.discount is None
    if episodes and order == "random":
        # Raw steps weigh all times equally; the occupancy needs late ones less often.
        return from_chain(samples.chain(), discount, rng)
    if episodes:
        warn(Note("raw-steps", "samples"), DataWarning)
    now, following = samples.now.astype(np.int64), samples.following.astype(np.int64)
    seen = np.zeros((samples.n_states, samples.n_states), dtype=bool)
    seen[now, following] = True
    # Replaying in the recorded order takes no random numbers.
    generator = None if order == "recorded" else check_rng(rng)
    # The recorded order is replayed once; shuffled passes never end.
    passes: Iterator[int] = iter(range(1)) if generator is None else itertools.count()

    def refill(_wanted: int) -> Ready:
        if next(passes, None) is None:
            return Ready(now[:0], now[:0])
        chosen = slice(None) if generator is None else generator.permutation(len(now))
        return Ready(now[chosen], following[chosen])

    blocks = Blocks(refill, generator)
    return Source(
        blocks.draw,
        blocks.state,
        blocks.restore,
        n_states=samples.n_states,
        states=samples.states,
        initial=samples.chain().initial if samples.initial is None else samples.initial,
        discount=discount,
        transitions=seen,
        n_pairs=len(now),
        quick=True,
    )


def as_source(
    name: str, process: object, discount: float, rng: Rng = None, *, order: str = "random", tabled: bool = False
) -> Source:
    """Convert a chain, samples or any stream to a `Source`; the only place that distinguishes kinds of processes.

    Parameters
    ----------
    name : str
        Name of the process in messages.
    process : MarkovChain, Samples or Stream
        A stream that is not a `Source` may have any of its attributes; missing ones are treated as unknown.
    discount, rng
        Discount and seed for sampling chains and replaying samples; a stream with a `discount` must have the same.
    order : "random", "recorded" or "shuffled"
        How samples are replayed, see `from_samples`.
    tabled : bool
        How chains are sampled, see `from_chain`.

    Examples
    --------
    >>> from somcot import random_walk
    >>> source = as_source("x", random_walk(5), 0.9, rng=0)
    >>> source.n_states, source.n_pairs
    (5, None)
    """
    check_order(order)
    if isinstance(process, MarkovChain):
        return from_chain(process, discount, rng, tabled=tabled)
    if isinstance(process, Samples):
        return from_samples(process, discount, rng, order=order)
    if isinstance(process, Counts):
        raise TypeError(
            f"{name}: found Counts, which do not keep their episodes, so transitions cannot be drawn from them; pass "
            "the Samples, or method='auto'"
        )
    if not isinstance(process, Stream):
        raise TypeError(
            f"{name}: found {type(process).__name__}, expected a MarkovChain, Samples or a Stream with draw(n)"
            f"{how_to_wrap(process)}"
        )
    # Streams of this module are known to be consistent.
    source = process if isinstance(process, Source) else _described(name, process)
    if source.discount is not None and abs(source.discount - discount) > 1e-12:
        raise ValueError(f"discount: found {discount}, but stream {name} draws at discount {source.discount}")
    return source


def _described(name: str, stream: Stream) -> Source:
    """Convert a user's stream to a `Source` with the attributes that it has; it is assumed to be slow."""

    def attribute(key: str, check: Callable[[str, Any], T]) -> T | None:
        value = getattr(stream, key, None)
        return None if value is None else check(f"{name}.{key}", value)

    state, restore = getattr(stream, "state", None), getattr(stream, "restore", None)
    # Everything is checked here once, since solvers rely on the attributes of a Source.
    return Source(
        stream.draw,
        # `state` and `restore` are used only as a pair: either alone has some other meaning.
        **({"state": state, "restore": restore} if callable(state) and callable(restore) else {}),
        n_states=attribute("n_states", check_count),
        states=attribute("states", check_labels),
        initial=attribute("initial", lambda key, start: real_array(key, start, 1)),
        discount=attribute("discount", lambda _, discount: check_discount(discount)),
        chain=attribute("chain", lambda _, chain: chain if isinstance(chain, MarkovChain) else None),
        transitions=attribute("transitions", lambda _, allowed: np.asarray(allowed, dtype=bool)),
        n_pairs=attribute("n_pairs", lambda key, n: check_count(key, n, at_least=0)),
    )


def check_order(order: Any) -> None:
    """Refuse an order in which samples cannot be drawn."""
    check_text("order", order, "random", "recorded", "shuffled")


def from_iterable(
    pairs: Iterable[tuple[Hashable, Hashable]],
    *,
    n_states: int | None = None,
    states: Sequence[Hashable] | None = None,
    initial: Hashable | ArrayLike = 0,
) -> Source:
    """Draw from any iterable of (state, next state) pairs, finite or endless.

    Parameters
    ----------
    pairs : iterable of pairs
        State indices, or labels if `states` is passed.
    n_states : int, optional
        Number of states; by default taken from the cost.
    states : sequence of hashable, optional
        Labels.
    initial : state or array_like
        First state of the process, or its distribution.

    Examples
    --------
    >>> stream = from_iterable([("a", "b"), ("b", "b")], states=["a", "b"], initial="a")
    >>> stream.draw(10)
    (array([0, 1]), array([1, 1]))
    """
    labels = None if states is None else check_labels("states", states)
    place = None if labels is None else {label: i for i, label in enumerate(labels)}
    if labels is not None and n_states is not None and n_states != len(labels):
        raise ValueError(f"n_states: found {n_states}, but there are {len(labels)} labels in states")
    count = len(labels) if labels is not None else None if n_states is None else check_count("n_states", n_states)
    # Before the first draw, so that the error names the argument.
    try:
        iterator = iter(pairs)
    except TypeError:
        raise TypeError(f"pairs: found {pairs!r}, expected an iterable of (state, next state)") from None

    def refill(_wanted: int) -> Ready:
        # Small blocks: an endless iterable may be slow, such as a socket.
        now, following = unzip(list(itertools.islice(iterator, 256)))
        return Ready(indices_of(now, place), indices_of(following, place))

    blocks, distribution = Blocks(refill), given_law(initial, labels, count)
    return Source(blocks.draw, blocks.state, blocks.restore, n_states=count, states=labels, initial=distribution)


class _OccupancyTable:
    """The occupancy of a known chain, to draw transitions from by inversion."""

    def __init__(self, chain: MarkovChain, discount: float) -> None:
        indptr, indices, probabilities = chain.support
        n_entries, degrees = indptr[-2], np.diff(indptr[:-1])
        self.now, self.following = np.repeat(np.arange(chain.n_states), degrees), indices[:n_entries].astype(np.int64)
        total = np.cumsum(np.repeat(chain.state_occupancy(discount), degrees) * probabilities[:n_entries])
        # Divided by the last sum, the table ends at exactly 1, above every uniform number.
        self.cumulative = total / total[-1]

    def draw(self, rng: np.random.Generator) -> Ready:
        """The next block, always of one size, so that draws do not depend on how many are wanted."""
        place = np.searchsorted(self.cumulative, rng.random(4096), side="right")
        return Ready(self.now[place], self.following[place])


_Draw = Callable[[np.random.Generator, int], tuple[Ints, Ints]]


class _Walks:
    """A block of transitions of a known chain; those beyond the first `wanted` are generated on demand."""

    def __init__(self, draw: _Draw, size: int, rng: np.random.Generator, wanted: int) -> None:
        self._draw, self.size = draw, size
        # The generator moves on by a whole block in any case. A copy of its state lets the rest be made later.
        self._before = copy.deepcopy(rng) if wanted < size else rng
        self._now, self._following = draw(rng, min(wanted, size))

    def part(self, first: int, last: int) -> tuple[Ints, Ints]:
        """Transitions first, ..., last - 1."""
        if last > len(self._now):
            # The whole block from the saved state: its beginning has the same bits as before.
            self._now, self._following = self._draw(self._before, self.size)
        return self._now[first:last], self._following[first:last]


def _stopped(chain: MarkovChain, discount: float, n: int, rng: np.random.Generator, wanted: int) -> tuple[Ints, Ints]:
    """The first `wanted` of n transitions; random numbers are drawn for all n, so later draws do not depend on it."""
    from somcot.recorded.sources import stopped_transitions  # compiled code: loaded when first drawn from

    indptr, indices, probabilities = chain.support
    # Cumulative sums over all rows at once, then minus the sum before each row.
    total = np.cumsum(probabilities)
    before = np.concatenate([[0.0], total])[indptr[:-1]]
    cumulative = total - np.repeat(before, np.diff(indptr))
    waiting = rng.geometric(1 - discount, size=n) - 1
    # One number per move, one for the initial state and one for the last step.
    uniform = rng.random(int(waiting.sum()) + 2 * n)
    states, following = stopped_transitions(indptr, indices, cumulative, waiting[:wanted], uniform)
    return states, following
