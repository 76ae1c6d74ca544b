"""Streams: sources one can draw transitions from, without knowing the kernel behind them.

A stream has ``draw(n) -> (states, next_states)``, two arrays of state indices of one length, at most n. Fewer than n,
none included, means that the source has ended. The transitions should be independent draws from the discounted
occupancy nu(x, x') = (1 - discount) sum_t discount^t P(X_t = x, X_{t+1} = x').

Streams made here do not depend on how they are asked: drawing 10 and then 20 gives the same 30 as drawing 30 at once.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from somcot.chains import MarkovChain
from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.validation import check_count, check_discount, check_labels, check_rng, probability_vector
from somcot.sources.base import Source, Stream, StreamError, block_size, check_pairs, whole_numbers

if TYPE_CHECKING:
    from somcot.samples import Samples

__all__ = [
    "Source",
    "Stream",
    "StreamError",
    "check_pairs",
    "from_chain",
    "from_iterable",
    "from_samples",
    "from_simulator",
]

Rng = int | np.random.Generator | None


def from_chain(chain: MarkovChain, discount: float, rng: Rng = None) -> Source:
    """Draw from a known chain by geometric stopping: (X_G, X_{G+1}), P(G = t) = (1 - discount) discount^t.

    Examples
    --------
    >>> from somcot import random_walk
    >>> states, next_states = from_chain(random_walk(5), 0.9, rng=0).draw(1000)
    >>> len(states), int(abs(states - next_states).max())
    (1000, 1)
    """
    if not isinstance(chain, MarkovChain):
        raise TypeError(f"chain: found {type(chain).__name__}, expected a MarkovChain")
    discount = check_discount(discount)
    generator = check_rng(rng)
    size = block_size(discount)

    def refill() -> tuple[Ints, Ints]:
        return _stopped(chain, discount, size, generator)

    indptr, indices, _ = chain.support
    allowed = np.zeros((chain.n_states, chain.n_states), dtype=bool)
    allowed[np.repeat(np.arange(chain.n_states), np.diff(indptr[:-1])), indices[: indptr[-2]]] = True
    return Source(
        refill,
        generator,
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
        ``reset()`` or ``reset(rng)`` returns a first state.
    step : callable
        ``step(state)`` or ``step(state, rng)`` returns the next state. The generator is handed over when the callable
        takes an argument named ``rng``; a simulator that uses it can be resumed bit for bit.
    discount : float
    rng : None, int or Generator
    states : sequence of hashable, optional
        Labels, when the simulator speaks of states by name; otherwise states are the numbers 0, 1, ...
    initial : state or array_like, optional
        The law of the first state. By default it is read off 1,000 calls of `reset`.

    Examples
    --------
    >>> stream = from_simulator(lambda: 0, lambda s, rng: (s + rng.integers(2)) % 3, 0.9, rng=0)
    >>> states, next_states = stream.draw(500)
    >>> len(states), stream.initial
    (500, array([1.]))
    """
    discount = check_discount(discount)
    generator = check_rng(rng)
    for name, function in (("reset", reset), ("step", step)):
        if not callable(function):
            raise TypeError(f"{name}: found {function!r}, expected a callable")
    begin, move = _with_rng(reset, generator, 0), _with_rng(step, generator, 1)
    labels = None if states is None else check_labels("states", states)
    place = None if labels is None else {label: i for i, label in enumerate(labels)}
    law = _reset_law(begin, place) if initial is None else _given_law(initial, labels)

    def refill() -> tuple[Any, Any]:
        now: list[Any] = []
        following: list[Any] = []
        for waiting in generator.geometric(1 - discount, size=64) - 1:
            state = begin()
            for _ in range(waiting):
                state = move(state)
            now.append(state)
            following.append(move(state))
        return _indices(now, place), _indices(following, place)

    count = None if labels is None else len(labels)
    return Source(refill, generator, n_states=count, states=labels, initial=law, discount=discount)


def from_samples(samples: Samples, discount: float, rng: Rng = None, *, order: str = "random") -> Source:
    """Replay recorded transitions.

    Samples of the occupancy are replayed themselves: shuffled again for every pass and without end
    (``order="random"``), or once as they were recorded (``order="recorded"``). Steps of episodes are no samples of the
    occupancy, and feeding them as if they were gives wrong distances; so with ``order="random"`` they are counted into
    a chain, from whose occupancy the stream draws. Replay of their raw transitions has to be asked for:
    ``order="recorded"`` or ``order="shuffled"``.

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
    if samples.discount is not None and abs(samples.discount - discount) > 1e-12:
        raise ValueError(
            f"discount: found {discount}, but the samples were drawn at {samples.discount}; "
            "use that discount or record new samples"
        )
    episodes = samples.discount is None
    if episodes and order == "random":
        return from_chain(samples.chain(), discount, rng)
    if episodes:
        warn(
            "samples: raw steps of episodes are replayed as if they were samples of the discounted occupancy; "
            "distances come out wrong, only rankings may survive",
            DataWarning,
        )
    now, following = samples.now.astype(np.int64), samples.following.astype(np.int64)
    seen = np.zeros((samples.n_states, samples.n_states), dtype=bool)
    seen[now, following] = True
    generator = None if order == "recorded" else check_rng(rng)
    passes: Iterator[int] = iter(range(1)) if generator is None else itertools.count()

    def refill() -> tuple[Ints, Ints]:
        if next(passes, None) is None:
            return now[:0], now[:0]
        chosen = slice(None) if generator is None else generator.permutation(len(now))
        return now[chosen], following[chosen]

    return Source(
        refill,
        generator,
        n_states=samples.n_states,
        states=samples.states,
        initial=samples.chain().initial if samples.initial is None else samples.initial,
        discount=discount,
        transitions=seen,
        n_pairs=len(now),
        quick=True,
    )


def check_order(order: Any) -> None:
    """Refuse an order in which samples cannot be drawn."""
    if order not in ("random", "shuffled", "recorded"):
        raise ValueError(f"order: found {order!r}, expected 'random', 'recorded' or 'shuffled'")


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
        State indices, or labels when `states` is given.
    n_states : int, optional
        Number of states; by default what the cost says.
    states : sequence of hashable, optional
        Labels.
    initial : state or array_like
        First state of the process, or its law.

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
    try:
        iterator = iter(pairs)
    except TypeError:
        raise TypeError(f"pairs: found {pairs!r}, expected an iterable of (state, next state)") from None

    def refill() -> tuple[Any, Any]:
        now, following = _unzip(list(itertools.islice(iterator, 256)))
        return _indices(now, place), _indices(following, place)

    return Source(refill, n_states=count, states=labels, initial=_given_law(initial, labels, count))


def _stopped(chain: MarkovChain, discount: float, n: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    from somcot.sources.stopping import stopped_transitions

    indptr, indices, probabilities = chain.support
    total = np.cumsum(probabilities)
    before = np.concatenate([[0.0], total])[indptr[:-1]]
    cumulative = total - np.repeat(before, np.diff(indptr))
    waiting = rng.geometric(1 - discount, size=n) - 1
    states, following = stopped_transitions(
        indptr, indices, cumulative, waiting, rng.random(int(waiting.sum()) + 2 * n)
    )
    return states, following


def _with_rng(function: Callable[..., Any], rng: np.random.Generator, n_arguments: int) -> Callable[..., Any]:
    """Hand the generator over to callables that ask for it, by name or as one more required argument."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function
    if any(p.name == "rng" for p in parameters):
        return lambda *arguments: function(*arguments, rng=rng)
    required = sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    return (lambda *arguments: function(*arguments, rng)) if required > n_arguments else function


def _reset_law(begin: Callable[[], Any], place: Mapping[Hashable, int] | None) -> Floats:
    found = whole_numbers("reset", "states", _indices([begin() for _ in range(1000)], place))
    if found.min() < 0:
        raise StreamError(f"reset: found state {found.min()}, expected a state index of at least 0")
    counts = np.bincount(found, minlength=0 if place is None else len(place))
    return np.asarray(counts / counts.sum())


def _given_law(initial: Any, labels: tuple[Hashable, ...] | None, n: int | None = None) -> Floats:
    """A start law as a vector, no longer than it has to be when the number of states is not known yet."""
    if labels is not None:
        from somcot.plumbing.validation import check_start_law

        return check_start_law(initial, labels, normalize=False)
    if np.ndim(initial) == 1:
        size = len(np.asarray(initial))
        return probability_vector("initial", initial, tuple(range(size)), normalize=False)
    law = np.zeros(check_count("initial", initial, at_least=0) + 1)
    law[-1] = 1.0
    if n is not None and len(law) > n:
        raise ValueError(f"initial: found state {initial!r}, expected one of 0, ..., {n - 1}")
    return law


def _indices(values: list[Any], place: Mapping[Hashable, int] | None) -> Any:
    if place is None:
        try:
            return np.asarray(values, dtype=None if values else np.int64)
        except ValueError:
            raise StreamError(f"stream: found states of different shapes, such as {values[0]!r}") from None
    try:
        plain = (value.item() if isinstance(value, np.generic) else value for value in values)
        return np.array([place[value] for value in plain], dtype=np.int64)
    except KeyError as error:
        shown = ", ".join(repr(label) for label in itertools.islice(place, 5))
        raise StreamError(f"stream: {error.args[0]!r} is not a state; the states are {shown}") from None
    except TypeError as error:
        raise StreamError(f"stream: found a state that cannot be looked up ({error})") from None


def _unzip(pairs: list[Any]) -> tuple[list[Any], list[Any]]:
    for pair in pairs:
        if isinstance(pair, (str, bytes)) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise StreamError(f"stream: found {pair!r}, expected pairs (state, next state)")
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
