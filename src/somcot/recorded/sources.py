"""Streams of transitions: the protocol, blocks, checks, and geometric stopping in compiled code."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from somcot.chains import MarkovChain
from somcot.compile.jit import kernel
from somcot.plumbing.arrays import Array, Codes, Floats, Ints
from somcot.plumbing.checks import check_count, check_start_law, probability_vector

__all__ = [
    "Blocks",
    "Position",
    "Ready",
    "Source",
    "Stream",
    "StreamError",
    "TransitionBlock",
    "block_size",
    "check_moves",
    "check_pairs",
    "given_law",
    "indices_of",
    "reset_law",
    "stopped_transitions",
    "unzip",
    "whole_numbers",
    "with_rng",
]


# --- Common parts of streams: the protocol, blocks, positions, checks

Pairs = tuple[Any, Any]  # states and next states: arrays, or the return value of a user's stream
Position = Mapping[str, Any]  # JSON-compatible numbers and text
MOST_MOVES = 1e7  # per transition drawn, on average


class StreamError(ValueError):
    """A stream returned something that is not a transition.

    `partial` is the result of the steps before, or None if there were none.
    """

    partial: Any = None


@runtime_checkable
class Stream(Protocol):
    """Any object with `draw`; the streams of this module have more attributes (see `Source`).

    Examples
    --------
    >>> class Coin:
    ...     def draw(self, n):
    ...         return [0] * n, [1] * n
    >>> isinstance(Coin(), Stream), Coin().draw(2)
    (True, ([0, 0], [1, 1]))
    """

    def draw(self, n: int, /) -> Pairs:
        """Return at most n transitions as (states, next_states); fewer mean the end."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """A stream with metadata; `somcot.streams.as_source` makes one from any process.

    Attributes
    ----------
    draw : callable
        ``draw(n)`` returns the next n transitions, or the remaining ones if fewer.
    state, restore : callable
        ``state()`` returns the position of the stream as JSON-compatible values, and ``restore(state)`` goes there;
        None if the stream cannot go back.
    n_states : int or None
    states : tuple or None
        Labels.
    initial : ndarray or None
        Initial distribution.
    discount : float or None
        Discount of the sampled occupancy.
    chain : MarkovChain or None
        The kernel of the stream, if known.
    transitions : ndarray of bool, shape (n, n), or None
        Which transitions are possible, if known.
    n_pairs : int or None
        Total number of transitions; None for an endless stream.
    quick : bool
        Whether drawing takes no noticeable time and calls no user code.
    """

    draw: Callable[[int], Pairs]
    state: Callable[[], Position | None] = lambda: None
    restore: Callable[[Position], None] = lambda _: None
    n_states: int | None = None
    states: tuple[Hashable, ...] | None = None
    initial: Floats | None = None
    discount: float | None = None
    chain: MarkovChain | None = None
    transitions: NDArray[np.bool_] | None = None
    n_pairs: int | None = None
    quick: bool = False

    def __repr__(self) -> str:
        states = "states of any number" if self.n_states is None else f"{self.n_states:,} states"
        length = "endless" if self.n_pairs is None else f"{self.n_pairs:,} transitions"
        return f"Stream({states}, {length}{'' if self.discount is None else f', discount {self.discount:g}'})"


class Ready(NamedTuple):
    """A block of precomputed transitions."""

    now: Any
    following: Any

    @property
    def size(self) -> int:
        """Number of transitions."""
        return len(self.now)

    def part(self, first: int, last: int) -> Pairs:
        """Transitions first, ..., last - 1."""
        return self.now[first:last], self.following[first:last]


class TransitionBlock(Protocol):
    """A block of transitions; those not requested may never be computed."""

    @property
    def size(self) -> int:
        """Number of transitions."""

    def part(self, first: int, last: int) -> Pairs:
        """Transitions first, ..., last - 1."""


class Blocks:
    """Transitions made in blocks and returned in pieces of any size."""

    def __init__(self, refill: Callable[[int], TransitionBlock], rng: np.random.Generator | None = None) -> None:
        self._refill, self._rng = refill, rng
        self._block: TransitionBlock = Ready((), ())
        self._place = 0
        self._blocks = 0
        self._before = _generator_state(rng)

    def draw(self, n: int) -> Pairs:
        """Return the next n transitions, or the remaining ones if fewer."""
        parts: list[Pairs] = []
        remaining = check_count("n", n, at_least=0)
        while remaining > 0:
            # The block is used up; an empty one means the end of the stream.
            if self._place == self._block.size and not self._next_block(remaining):
                break
            last = min(self._block.size, self._place + remaining)
            parts.append(self._block.part(self._place, last))
            remaining -= last - self._place
            self._place = last
        if not parts:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        return np.concatenate([a for a, _ in parts]), np.concatenate([b for _, b in parts])

    def _next_block(self, requested: int) -> bool:
        # The state before the block is kept: `restore` makes the block again and skips to the place.
        before = _generator_state(self._rng)
        block = self._refill(requested)
        if block.size == 0:
            return False
        self._block, self._place, self._before = block, 0, before
        self._blocks += 1
        return True

    def state(self) -> dict[str, Any]:
        """The position of the stream as JSON-compatible values, for `restore`."""
        return {"blocks": self._blocks, "place": self._place, "generator": self._before}

    def restore(self, state: Position) -> None:
        """Go to the position of an identically constructed stream.

        Streams with a random generator jump; others (an iterable, a simulator with hidden randomness) are read
        again from the beginning, which has to be the same.
        """
        blocks, place = int(state["blocks"]), int(state["place"])
        if self._rng is not None and state["generator"] is not None:
            self._rng.bit_generator.state = _from_json(state["generator"])
            # Only the current block is made again; the generator jumps over all earlier ones.
            self._blocks, blocks = max(blocks - 1, 0), min(blocks, 1)
        for _ in range(blocks):
            if not self._next_block(place):
                break
        self._place = min(place, self._block.size)


def block_size(discount: float) -> int:
    """Number of transitions to draw in a block: about 50 ms and 30 MB, since each takes 1 / (1 - discount) moves."""
    # A move takes about 12 ns; blocks are bounded so that Ctrl-C is noticed.
    return max(1, min(4096, int(4e6 * (1 - discount))))


def check_moves(discount: float) -> float:
    """Refuse a discount at which one transition takes too many moves."""
    if 1.0 - discount < 1.0 / MOST_MOVES:
        raise ValueError(
            f"discount: found {discount!r}; drawing a transition takes 1 / (1 - discount) = {1 / (1 - discount):.1g} "
            f"moves, at most {MOST_MOVES:.0g} are allowed; use a smaller discount, or method='exact' for known chains"
        )
    return discount


def check_pairs(name: str, pairs: object, n_states: int) -> tuple[Ints, Ints]:
    """Turn ``(states, next_states)`` into two int64 arrays; refuse floats, wrong shapes and unknown states."""
    if not isinstance(pairs, Sequence) or isinstance(pairs, (str, bytes)) or len(pairs) != 2:
        raise StreamError(f"{name}: found {type(pairs).__name__}, expected the two arrays (states, next_states)")
    arrays = [whole_numbers(name, what, values) for what, values in zip(("states", "next_states"), pairs, strict=True)]
    if len(arrays[0]) != len(arrays[1]):
        raise StreamError(f"{name}: found {len(arrays[0])} states and {len(arrays[1])} next states, expected as many")
    for array in arrays:
        wrong = np.flatnonzero((array < 0) | (array >= n_states))
        if wrong.size:
            raise StreamError(
                f"{name}: transition {wrong[0]} has state {array[wrong[0]]}, expected one of 0, ..., {n_states - 1} "
                f"({wrong.size} such); the cost must have a row or column for every state"
            )
    return arrays[0].astype(np.int64), arrays[1].astype(np.int64)


def whole_numbers(name: str, what: str, values: object) -> Array:
    """Turn states from user code into an array of integers."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise StreamError(f"{name}: {what} are ragged, expected one state index for each transition") from None
    if array.ndim != 1:
        raise StreamError(f"{name}: {what} have shape {array.shape}, expected one state index for each transition")
    if array.size and array.dtype.kind not in "iu":
        raise StreamError(
            f"{name}: {what} are of type {array.dtype}, expected whole numbers; first found {array.flat[0]!r}; "
            "number the states from 0, or list their labels as states="
        )
    return array if array.size else array.astype(np.int64)


def _generator_state(rng: np.random.Generator | None) -> Any:
    return None if rng is None else _to_json(rng.bit_generator.state)


def _to_json(value: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _to_json(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    return value.item() if isinstance(value, np.generic) else value


def _from_json(value: object) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"array", "dtype"}:
            return np.array(value["array"], dtype=value["dtype"])
        return {key: _from_json(part) for key, part in value.items()}
    return value


# --- Checks of user code: states, pairs, initial distributions, callables that take a generator


def with_rng(function: Callable[..., object], rng: np.random.Generator, n_arguments: int) -> Callable[..., Any]:
    """Pass the generator to callables that accept it, by name or as an additional required argument."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function
    if any(p.name == "rng" for p in parameters):
        return lambda *arguments: function(*arguments, rng=rng)
    # User functions may take the generator as their last argument, without a certain name.
    # Positional arguments without a default: one more than expected must be the generator.
    required = sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    return (lambda *arguments: function(*arguments, rng)) if required > n_arguments else function


def reset_law(begin: Callable[[], object], place: Mapping[Hashable, int] | None) -> Floats:
    """The initial distribution, estimated from 1,000 calls."""
    states = whole_numbers("reset", "states", indices_of([begin() for _ in range(1000)], place))
    if states.min() < 0:
        raise StreamError(f"reset: found state {states.min()}, expected a state index of at least 0")
    # A thousand draws: an error of about 0.016 at most in each probability, one standard deviation.
    counts = np.bincount(states, minlength=0 if place is None else len(place))
    return np.asarray(counts / counts.sum())


def given_law(initial: Any, labels: tuple[Hashable, ...] | None, n: int | None = None) -> Floats:
    """An initial distribution as a vector, as short as possible while the number of states is unknown."""
    if labels is not None:
        return check_start_law(initial, labels, normalize=False)
    if np.ndim(initial) == 1:
        size = len(np.asarray(initial))
        return probability_vector("initial", initial, tuple(range(size)), normalize=False)
    distribution = np.zeros(check_count("initial", initial, at_least=0, at_most=10**9) + 1)
    distribution[-1] = 1.0
    if n is not None and len(distribution) > n:
        raise ValueError(f"initial: found state {initial!r}, expected one of 0, ..., {n - 1}")
    return distribution


def indices_of(values: list[object], place: Mapping[Hashable, int] | None) -> Any:
    """States from user code as indices."""
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


def unzip(pairs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Pairs as two lists."""
    for pair in pairs:
        if isinstance(pair, (str, bytes)) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise StreamError(f"stream: found {pair!r}, expected pairs (state, next state)")
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


# --- Geometric stopping in compiled code: many independent transitions (X_G, X_{G+1}) of a known chain


@kernel
def stopped_transitions(
    indptr: Ints, indices: Codes, cumulative: Floats, waiting: Ints, uniform: Floats
) -> tuple[Ints, Ints]:
    """One transition for each waiting time G: from the initial distribution (last row), G moves, then one more.

    Uses ``waiting[i] + 2`` of the uniform numbers for transition i, in order. `cumulative` holds the cumulative sums of
    each row separately.
    """
    n = len(waiting)
    states, following = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    used = 0
    for i in range(n):
        # The last row of the support is the initial distribution.
        now = after = len(indptr) - 2
        for _ in range(waiting[i] + 2):
            now = after
            # Binary search for the first cumulative sum above u. The last
            # entry needs no test, so rounding of the sums is harmless.
            low, high = indptr[now], indptr[now + 1] - 1
            u = uniform[used]
            used += 1
            while low < high:
                middle = (low + high) // 2
                if cumulative[middle] > u:
                    high = middle
                else:
                    low = middle + 1
            after = indices[low]
        states[i], following[i] = now, after
    return states, following
