"""What someone else's code hands over: states, pairs, start laws, callables that want a generator."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from somcot.plumbing.arrays import Floats
from somcot.plumbing.validation import check_count, check_start_law, probability_vector
from somcot.sources.base import StreamError, whole_numbers

__all__ = ["given_law", "indices_of", "reset_law", "unzip", "with_rng"]


def with_rng(function: Callable[..., Any], rng: np.random.Generator, n_arguments: int) -> Callable[..., Any]:
    """Hand the generator over to callables that ask for it, by name or as one more required argument."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function
    if any(p.name == "rng" for p in parameters):
        return lambda *arguments: function(*arguments, rng=rng)
    required = sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    return (lambda *arguments: function(*arguments, rng)) if required > n_arguments else function


def reset_law(begin: Callable[[], Any], place: Mapping[Hashable, int] | None) -> Floats:
    """The law of the first state, read off 1,000 calls."""
    found = whole_numbers("reset", "states", indices_of([begin() for _ in range(1000)], place))
    if found.min() < 0:
        raise StreamError(f"reset: found state {found.min()}, expected a state index of at least 0")
    counts = np.bincount(found, minlength=0 if place is None else len(place))
    return np.asarray(counts / counts.sum())


def given_law(initial: Any, labels: tuple[Hashable, ...] | None, n: int | None = None) -> Floats:
    """A start law as a vector, no longer than it has to be when the number of states is not known yet."""
    if labels is not None:
        return check_start_law(initial, labels, normalize=False)
    if np.ndim(initial) == 1:
        size = len(np.asarray(initial))
        return probability_vector("initial", initial, tuple(range(size)), normalize=False)
    law = np.zeros(check_count("initial", initial, at_least=0) + 1)
    law[-1] = 1.0
    if n is not None and len(law) > n:
        raise ValueError(f"initial: found state {initial!r}, expected one of 0, ..., {n - 1}")
    return law


def indices_of(values: list[Any], place: Mapping[Hashable, int] | None) -> Any:
    """States as someone else's code names them, as indices."""
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
