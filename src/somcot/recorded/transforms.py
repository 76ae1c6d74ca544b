"""Samples derived from others (states renamed, merged or removed, n-grams, recordings joined), and saved to files."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing import records
from somcot.plumbing.arrays import Codes, Floats
from somcot.plumbing.checks import check_count, check_labels
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note, Share
from somcot.recorded import recording
from somcot.recorded.counts import joined_rewards, joined_start
from somcot.recorded.labels import refuse_lookalikes
from somcot.recorded.stationary import largest_connected, restricted

if TYPE_CHECKING:
    from somcot.samples import Samples

__all__ = [
    "EpisodeSteps",
    "Places",
    "WordSteps",
    "copied",
    "find_words",
    "steps_between_words",
    "times_reached",
]


_BY_CHANCE = 1e-3  # of independent recordings being taken for copies


def copied(x: Samples, y: Samples) -> bool:
    """Whether two recordings have the same sequences in the same order, which exchangeable ones rarely have.

    Counts of steps do not show it for few sequences: exchanging a sequence for its copy changes nothing.

    Examples
    --------
    >>> import somcot
    >>> paths = somcot.random_walk(4).sample(10, 20, rng=0)
    >>> copied(paths, paths), copied(paths, somcot.random_walk(4).sample(10, 20, rng=1))
    (True, False)
    """
    if x.states != y.states or x.offsets is None or y.offsets is None:
        return False
    if not all(np.array_equal(getattr(x, name), getattr(y, name)) for name in ("offsets", "now", "following")):
        return False
    ends = pairwise(x.offsets.tolist())
    times = Counter((x.now[a:b].tobytes(), x.following[b - 1 : b].tobytes()) for a, b in ends)
    # Orders with equal halves among all orders of the sequences of both; equal sequences count as one.
    of_one, of_both = (
        math.lgamma(k * times.total() + 1) - sum(math.lgamma(k * n + 1) for n in times.values()) for k in (1, 2)
    )
    return of_one - of_both < math.log(_BY_CHANCE)


# --- N-grams (words) of k states in episodes, and the steps between them

Integers = NDArray[np.int64]


class EpisodeSteps(NamedTuple):
    """Steps of episodes, as stored in `Samples`."""

    now: Codes
    following: Codes
    offsets: Integers
    n_states: int

    def numbered(self, letters: list[Codes]) -> Integers:
        """One number per word, 0, 1, ... in lexicographic order; built letter by letter to avoid overflow."""
        numbers = np.zeros(len(letters[0]), dtype=np.int64)
        for letter in letters:
            # Renumbered after each letter: numbers stay below n_words * n_states, never n_states^k.
            numbers = np.unique(numbers * self.n_states + letter, return_inverse=True)[1]
        return numbers


class Places(NamedTuple):
    """Positions among the steps of words of k states that are followed by a state.

    Attributes
    ----------
    first, last : ndarray of int64
        The word's states are ``now[first]``, ..., ``now[last]``, and ``following[last]`` comes after it.
    before : ndarray of bool
        Whether the step into ``now[first]`` is recorded in the same episode.
    """

    first: Integers
    last: Integers
    before: NDArray[np.bool_]


class WordSteps(NamedTuple):
    """Steps between words.

    Attributes
    ----------
    words : ndarray of int32, shape (n_words, k)
        The words that occur, in lexicographic order.
    now, following : ndarray of int32
        Positions among `words`.
    offsets : ndarray of int64
        Start of each episode that has such a step.
    kept : ndarray of int64
        Indices of those episodes.
    """

    words: Codes
    now: Codes
    following: Codes
    offsets: Integers
    kept: Integers


def find_words(steps: EpisodeSteps, k: int) -> Places:
    """Find the words of k states; steps that do not continue the previous step form no word with it."""
    joined = np.zeros(len(steps.now), dtype=np.bool_)  # whether each step continues the previous one
    joined[1:] = steps.following[:-1] == steps.now[1:]
    joined[steps.offsets[:-1]] = False
    complete = np.ones(len(joined), dtype=np.bool_)  # whether k states end here
    for back in range(1, k):
        complete[:back] = False
        # `back` steps ago the chain of joined steps must not be broken.
        complete[back:] &= joined[1 : len(joined) - back + 1]
    last = np.flatnonzero(complete)
    first = last - (k - 1)
    return Places(first, last, joined[first])


def steps_between_words(steps: EpisodeSteps, k: int) -> WordSteps:
    """Make words of k states the new states."""
    at = find_words(steps, k)
    letters = [steps.now[at.first + i] for i in range(k)] + [steps.following[at.last]]
    # The words before and after each step, as letters 0..k-1 and 1..k.
    both = [np.concatenate(pair) for pair in pairwise(letters)]
    numbers = steps.numbered(both)
    spelled = np.column_stack(both)[np.unique(numbers, return_index=True)[1]]
    episode = np.searchsorted(steps.offsets, at.last, side="right") - 1
    begins = np.ones(len(episode) + 1, dtype=np.bool_)
    begins[1:-1] = episode[1:] != episode[:-1]
    offsets = np.flatnonzero(begins)
    codes = numbers.astype(np.int32)
    return WordSteps(spelled, codes[: len(episode)], codes[len(episode) :], offsets, episode[offsets[:-1]])


# --- Derived samples


# --- Sequences that go on like others


def times_reached(offsets: Integers, begin: Floats, struck: Floats, anew: Floats) -> Floats:
    """How often altered sequences come to each step of a recording.

    They begin with step v `begin[v]` times, leave it for the step after it, or with probability `struck[v]` for one
    drawn with the probabilities `anew`, and end where the recording ends.

    Examples
    --------
    >>> times_reached(np.array([0, 3]), np.array([1.0, 0, 0]), np.array([0, 0.5, 0]), np.array([0, 0, 1.0]))
    array([1., 1., 1.])
    """
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    order = np.argsort(place, kind="stable")
    _, *later = np.split(order, np.cumsum(np.bincount(place))[:-1])  # second steps, third steps and so on

    def along(source: Floats) -> Floats:
        total = source.copy()
        for steps in later:
            total[steps] += (1.0 - struck[steps - 1]) * total[steps - 1]
        return total

    reached = along(begin)
    if not struck.any():
        return reached
    spliced = along(anew)
    # Each change leads to more of them. If none ends, their number has no limit, and its share of the steps has.
    return reached + spliced * float(struck @ reached) / max(1.0 - float(struck @ spliced), 1e-9)


def with_order(samples: Samples, k: int) -> Samples:
    """See `Samples.with_order`."""
    k = check_count("k", k)
    if k == 1:
        return samples
    if samples.offsets is None:
        raise ValueError("k: independent transitions have no words of more than one state; record whole episodes")
    if samples.initial is not None:
        raise ValueError("k: the known initial distribution is over single states, not over words; leave out initial=")
    longer = steps_between_words(EpisodeSteps(samples.now, samples.following, samples.offsets, samples.n_states), k)
    dropped = samples.n_episodes - len(longer.kept)
    if dropped == samples.n_episodes:
        raise ValueError(f"k: no episode has the {k + 1} states that a step between words of {k} needs")
    if dropped:
        note = Note("too-short-for-order", "k", share=Share(dropped, samples.n_episodes), least=k + 1)
        warn(note, DataWarning)
    last = longer.words[:, -1]  # rewards belong to the last state of a word
    return replace(
        samples,
        states=tuple(tuple(samples.states[c] for c in word) for word in longer.words.tolist()),
        now=longer.now,
        following=longer.following,
        offsets=longer.offsets,
        terminated=None if samples.terminated is None else samples.terminated[longer.kept],
        # A word's reward is that of its last state.
        rewards=None if samples.rewards is None else samples.rewards.at(last),
        step_rewards=None,
        episode_attributes={name: values[longer.kept] for name, values in samples.episode_attributes.items()},
        times=None,
    )


def relabelled(samples: Samples, names: Mapping[Any, Hashable] | Callable[[Any], Hashable]) -> Samples:
    """See `Samples.relabel`."""
    if not callable(names) and not isinstance(names, Mapping):
        raise TypeError(f"names: found {type(names).__name__}, expected a mapping or a function of labels")
    new = [names(label) if callable(names) else names.get(label, label) for label in samples.states]
    labels = check_labels("names", dict.fromkeys(new))
    refuse_lookalikes("names", labels, {type(label) for label in labels})
    index = {label: k for k, label in enumerate(labels)}
    places = np.array([index[label] for label in new], dtype=np.int32)
    return replace(
        samples,
        states=labels,
        now=places[samples.now],
        following=places[samples.following],
        initial=None
        if samples.initial is None
        else np.bincount(places, samples.initial, len(labels)).astype(np.float64),
        rewards=None if samples.rewards is None else samples.rewards.joined(places, len(labels)),
    )


def connected(samples: Samples, name: str = "connected") -> Samples:
    """See `Samples.connected`; `name` is the name of the recording in the warning."""
    if samples.offsets is None:
        raise ValueError("connected: independent transitions have no path from state to state; record episodes")
    members = largest_connected(samples.pair_counts)
    if members.all():
        return samples
    kept = restricted(samples.now, samples.following, samples.offsets, members)
    if not len(kept.now):
        raise ValueError("connected: the data contain no recurrent state, so no set is connected; record longer")
    n_out = samples.n_transitions - len(kept.now)
    states, steps = Share(int(np.count_nonzero(~members)), samples.n_states), Share(n_out, samples.n_transitions)
    warn(Note("outside-connected", name, share=f"{states} states and {steps}"), DataWarning)
    inside = np.flatnonzero(members).astype(np.int32)
    return replace(
        samples,
        states=tuple(samples.states[k] for k in inside),
        now=kept.now,
        following=kept.following,
        offsets=kept.offsets,
        # After restriction the end of an episode may be where it left the set, so it is not informative.
        terminated=None,
        initial=None,
        rewards=None if samples.rewards is None else samples.rewards.at(inside),
        step_rewards=None,
        episode_attributes={},  # episodes are split where they leave the set
        times=None,
    )


def merged(samples: Samples, other: Samples) -> Samples:
    """See `Samples.merge`."""
    if samples.discount != other.discount:
        raise ValueError(
            f"other: its discount is {other.discount}, this one's is {samples.discount}; only episodes, or samples "
            "of the same discount, can be merged"
        )
    union = tuple(dict.fromkeys([*samples.states, *other.states]))
    # 1 and '1' in two recordings would become two states without any message.
    refuse_lookalikes("other", [*samples.states, *other.states], {type(s) for s in (*samples.states, *other.states)})
    index = {label: i for i, label in enumerate(union)}
    moved = np.array([index[label] for label in other.states], dtype=np.int32)
    kept = np.arange(samples.n_states, dtype=np.int32)
    n = len(union)
    start = joined_start(samples.initial, kept, other.initial, moved, n)
    return replace(
        samples,
        states=union,
        now=np.concatenate([samples.now, moved[other.now]]),
        following=np.concatenate([samples.following, moved[other.following]]),
        times=None,
        offsets=recording.joined_offsets(samples.offsets, other.offsets),
        terminated=recording.joined_flags(samples.terminated, samples.n_units, other.terminated, other.n_units),
        initial=start,
        stationary=start is None and (samples.stationary or other.stationary),
        rewards=joined_rewards(samples.rewards, kept, other.rewards, moved, n),
        step_rewards=None
        if samples.step_rewards is None or other.step_rewards is None
        else np.concatenate([samples.step_rewards, other.step_rewards]),
        episode_attributes={
            name: np.concatenate([values, other.episode_attributes[name]])
            for name, values in samples.episode_attributes.items()
            if name in other.episode_attributes
        },
        n_gaps=samples.n_gaps + other.n_gaps,
        overlap=max(samples.overlap, other.overlap),
        lag=samples.lag if samples.lag == other.lag else None,
    )


# --- Recordings in files: each sequence as codes of its states, with its attributes and nothing else


class SavedRecording(NamedTuple):
    """The content of a file written by `Samples.save`."""

    states: tuple[Hashable, ...]
    codes: NDArray[Any]  # the states of all sequences; without sequences, or with gaps, those that steps begin in
    following: NDArray[Any] | None  # where steps end, if the codes do not tell
    lengths: NDArray[Any] | None  # steps of each sequence; None for independent samples
    terminated: NDArray[Any] | None
    initial: NDArray[Any] | None
    discount: float | None
    stationary: bool
    n_gaps: int
    overlap: int
    rewards: recording.RewardSums | None
    attributes: Mapping[
        str, tuple[tuple[Hashable, ...], NDArray[Any]]
    ]  # distinct values, and the number of each sequence's
    step_rewards: NDArray[Any] | None = None


def save(samples: Samples, path: str | os.PathLike[str]) -> None:
    """See `Samples.save`."""
    joined = samples.offsets is not None and samples.n_gaps == 0
    codes, following = samples.now, None if joined else _small(samples.following)
    if samples.offsets is not None and joined:
        ends = samples.offsets[1:]
        codes = np.insert(samples.now, ends, samples.following[ends - 1])
    about = {}
    for name, values in samples.episode_attributes.items():
        known: dict[Any, int] = {}
        numbers = np.array([known.setdefault(_plain(value), len(known)) for value in values.tolist()], dtype=np.int64)
        about[name] = (tuple(known), _small(numbers))
    lengths = None if samples.offsets is None else _small(np.diff(samples.offsets))
    saved = SavedRecording(
        samples.states, _small(codes), following, lengths, samples.terminated, samples.initial, samples.discount,
        samples.stationary, samples.n_gaps, samples.overlap, samples.rewards, about, samples.step_rewards,
    )  # fmt: skip
    records.save(path, saved, "recording")


def load(cls: type[Samples], path: str | os.PathLike[str]) -> Samples:
    """See `Samples.load`."""
    saved = records.load(path, "recording", SavedRecording, (recording.RewardSums,))
    offsets, now, following = None, saved.codes, saved.following
    _check_saved(saved, os.fspath(path))
    if saved.lengths is not None:
        offsets = np.concatenate([[0], np.cumsum(saved.lengths.astype(np.int64))])
        if following is None:
            last = offsets[1:] + np.arange(len(offsets) - 1)
            first = offsets[:-1] + np.arange(len(offsets) - 1)
            now, following = np.delete(saved.codes, last), np.delete(saved.codes, first)
    about = {}
    for name, (labels, numbers) in saved.attributes.items():
        values = np.empty(len(labels), dtype=object)
        values[:] = labels
        about[name] = values[numbers.astype(np.int64)]
    assert following is not None  # independent samples without it were refused
    return cls(
        saved.states, now, following, offsets, saved.terminated, saved.initial, saved.discount, saved.rewards,
        saved.n_gaps, saved.overlap, saved.stationary, about, step_rewards=saved.step_rewards,
    )  # fmt: skip


def _check_saved(saved: SavedRecording, name: str) -> None:
    """A checksum proves that a file is intact, not that its numbers fit together."""
    parts = [saved.codes] if saved.following is None else [saved.codes, saved.following]
    n = len(saved.codes) if saved.lengths is None else int(saved.lengths.sum())
    more = len(saved.lengths) if saved.lengths is not None and saved.following is None else 0
    sound = all(part.dtype.kind == "u" and part.ndim == 1 and len(part) == n + more for part in parts)
    sound = sound and all(int(part.max(initial=0)) < len(saved.states) for part in parts)
    sound = sound and (
        saved.lengths is None or (saved.lengths.dtype.kind == "u" and int(saved.lengths.min(initial=1)) > 0)
    )
    sound = sound and len(set(saved.states)) == len(saved.states)
    sound = sound and (saved.lengths is not None or saved.following is not None)
    sound = sound and (saved.step_rewards is None or saved.step_rewards.shape == (n,))
    for labels, numbers in saved.attributes.values():
        sound = sound and numbers.dtype.kind == "u" and int(numbers.max(initial=0)) < max(len(labels), 1)
    if not sound:
        raise ValueError(f"{name}: its codes do not fit its states or sequences; write the file again")


def _small(numbers: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in as few bytes as hold them."""
    most = int(numbers.max(initial=0))
    return numbers.astype(np.uint8 if most < 2**8 else np.uint16 if most < 2**16 else np.uint32)


def _plain(value: Any) -> Any:
    """A value that a file can hold: None, text, a number or a truth value; anything else as text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
