"""Samples made of other samples: states renamed, joined or left out, words as states, recordings put together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.validation import check_count, check_labels
from somcot.recorded import recording
from somcot.recorded.connected import largest_connected, restricted
from somcot.recorded.labels import refuse_lookalikes
from somcot.recorded.words import Steps, steps_between_words

if TYPE_CHECKING:
    from somcot.samples import Samples


def with_order(samples: Samples, k: int) -> Samples:
    """See `Samples.with_order`."""
    k = check_count("k", k)
    if k == 1:
        return samples
    if samples.offsets is None:
        raise ValueError("k: independent transitions have no words of more than one state; record whole episodes")
    if samples.initial is not None:
        raise ValueError("k: the known start law is one of single states, not of words; leave out initial=")
    found = steps_between_words(Steps(samples.now, samples.following, samples.offsets, samples.n_states), k)
    dropped = samples.n_episodes - len(found.kept)
    if dropped == samples.n_episodes:
        raise ValueError(f"k: no episode has the {k + 1} states that a step between words of {k} needs")
    if dropped:
        warn(f"k: {dropped} of {samples.n_episodes} episodes have fewer than {k + 1} states; dropped", DataWarning)
    last = found.words[:, -1]
    return replace(
        samples,
        states=tuple(tuple(samples.states[c] for c in word) for word in found.words.tolist()),
        now=found.now,
        following=found.following,
        offsets=found.offsets,
        terminated=None if samples.terminated is None else samples.terminated[found.kept],
        rewards=None if samples.rewards is None else samples.rewards.at(last),
    )


def relabelled(samples: Samples, names: Mapping[Any, Hashable] | Callable[[Any], Hashable]) -> Samples:
    """See `Samples.relabel`."""
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
    """See `Samples.connected`; `name` is what to call the recording in the warning."""
    if samples.offsets is None:
        raise ValueError("connected: independent transitions have no path from state to state; record episodes")
    members = largest_connected(samples.pair_counts)
    if members.all():
        return samples
    kept = restricted(samples.now, samples.following, samples.offsets, members)
    if not len(kept.now):
        raise ValueError("connected: no state is come back to in the data, so no set is connected; record longer")
    n_out = samples.n_transitions - len(kept.now)
    warn(
        f"{name}: {np.count_nonzero(~members)} of {samples.n_states} states and {n_out:,} of "
        f"{samples.n_transitions:,} steps are outside of the largest connected set and left out",
        DataWarning,
    )
    inside = np.flatnonzero(members).astype(np.int32)
    return replace(
        samples,
        states=tuple(samples.states[k] for k in inside),
        now=kept.now,
        following=kept.following,
        offsets=kept.offsets,
        terminated=None,
        initial=None,
        rewards=None if samples.rewards is None else samples.rewards.at(inside),
    )


def merged(samples: Samples, other: Samples) -> Samples:
    """See `Samples.merge`."""
    if samples.discount != other.discount:
        raise ValueError(
            f"other: its discount is {other.discount}, this one's is {samples.discount}; only episodes, or samples "
            "of the same discount, can be merged"
        )
    union = tuple(dict.fromkeys([*samples.states, *other.states]))
    refuse_lookalikes("other", [*samples.states, *other.states], {type(s) for s in (*samples.states, *other.states)})
    index = {label: i for i, label in enumerate(union)}
    moved = np.array([index[label] for label in other.states], dtype=np.int32)
    kept = np.arange(samples.n_states, dtype=np.int32)
    n = len(union)
    start = recording.joined_start(samples.initial, kept, other.initial, moved, n)
    return replace(
        samples,
        states=union,
        now=np.concatenate([samples.now, moved[other.now]]),
        following=np.concatenate([samples.following, moved[other.following]]),
        offsets=recording.joined_offsets(samples.offsets, other.offsets),
        terminated=recording.joined_flags(samples.terminated, samples.n_units, other.terminated, other.n_units),
        initial=start,
        stationary=start is None and (samples.stationary or other.stationary),
        rewards=recording.joined_rewards(samples.rewards, kept, other.rewards, moved, n),
        n_gaps=samples.n_gaps + other.n_gaps,
        overlap=max(samples.overlap, other.overlap),
    )
