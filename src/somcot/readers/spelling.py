"""Labels as people write them: spellings of one name made equal, and rare states joined."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.validation import check_count, check_labels
from somcot.recorded.labels import listing
from somcot.samples import Samples

__all__ = ["join_rare", "note_spellings", "spellings", "tidy_labels"]

_SHOWN = 3


def spellings(states: Iterable[Hashable]) -> list[list[Hashable]]:
    """Labels that differ only in case or blanks, group by group.

    Examples
    --------
    >>> spellings(["Home", "cart", " home ", "HOME"])
    [['Home', ' home ', 'HOME']]
    """
    groups: dict[Hashable, list[Hashable]] = {}
    for label in dict.fromkeys(states):
        groups.setdefault(_key(label), []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def note_spellings(source: str, states: Iterable[Hashable]) -> None:
    """Warn of labels that may mean the same state."""
    groups = spellings(states)
    if groups:
        shown = "; ".join(listing(group, 4) for group in groups[:_SHOWN])
        more = f" and {len(groups) - _SHOWN} more groups" if len(groups) > _SHOWN else ""
        how = "case or blanks"
        if any(
            len({_trimmed(label) for label in group}) < len({_spaced(label) for label in group}) for group in groups
        ):
            how = "case, blanks or how letters with marks are encoded (Unicode NFC or NFD, which look the same)"
        warn(
            f"{source}: {sum(map(len, groups))} states differ only in {how}: {shown}{more}; pass tidy=True to "
            "take them as one",
            DataWarning,
        )


def tidy_labels(recordings: Sequence[Samples]) -> list[Samples]:
    """Take spellings of a label that differ only in case or blanks as one, the most frequent, without stray blanks.

    Parameters
    ----------
    recordings : sequence of Samples
        Recordings to be compared, which then share their spellings.

    Examples
    --------
    >>> a = Samples.from_trajectories([["Home", "cart", "Home"]])
    >>> b = Samples.from_trajectories([["home ", "Cart"], ["home ", "cart"]])
    >>> [samples.states for samples in tidy_labels([a, b])]
    [('Home', 'cart'), ('cart', 'Home')]
    """
    number: dict[Hashable, int] = {}
    for samples in recordings:
        for label, n in zip(samples.states, occurrences(samples).tolist(), strict=True):
            number[_trimmed(label)] = number.get(_trimmed(label), 0) + n
    chosen: dict[Hashable, Hashable] = {}
    for label in sorted(number, key=lambda label: (-number[label], str(label))):
        chosen.setdefault(_key(label), label)
    return [samples.relabel({label: chosen[_key(label)] for label in samples.states}) for samples in recordings]


def join_rare(recordings: Sequence[Samples], top: int, *, other: Hashable = "other") -> list[Samples]:
    """Join all but the most frequent states into one.

    Parameters
    ----------
    recordings : sequence of Samples
        Recordings to be compared: frequent is what is frequent in all of them together, so that they share their
        states.
    top : int
        How many states to keep. States in which sequences end for good are kept beside them.
    other : hashable
        What to call the others.

    Examples
    --------
    >>> a = Samples.from_trajectories([["home", "cart", "help", "home", "faq", "home"]])
    >>> (joined,) = join_rare([a], 1, other="else")
    >>> joined.states, joined.counts().tolist()
    (('else', 'home'), [[1, 2], [2, 0]])
    """
    top = check_count("top", top)
    check_labels("other", [other])
    number: dict[Hashable, int] = {}
    for samples in recordings:
        for label, n in zip(samples.states, occurrences(samples).tolist(), strict=True):
            number[label] = number.get(label, 0) + n
    ends = {samples.states[k] for samples in recordings for k in np.flatnonzero(samples.terminal)}
    ranked = sorted((label for label in number if label not in ends), key=lambda label: (-number[label], str(label)))
    rare = set(ranked[top:])
    if rare and other in number and other not in rare:
        raise ValueError(f"other: {other!r} is a frequent state of the data; choose another label for the rare ones")
    return [samples.relabel(dict.fromkeys(rare, other)) if rare else samples for samples in recordings]


def occurrences(samples: Samples) -> NDArray[np.int64]:
    """How often each state occurs, at the ends of episodes too."""
    last = samples.following[:0] if samples.offsets is None else samples.following[samples.offsets[1:] - 1]
    return samples.visits + np.bincount(last, minlength=samples.n_states)


def _trimmed(label: Any) -> Any:
    if isinstance(label, tuple):
        return tuple(map(_trimmed, label))
    return normalize("NFC", " ".join(label.split())) if isinstance(label, str) else label


def _spaced(label: Any) -> Any:
    """Without stray blanks, in the characters that it has."""
    if isinstance(label, tuple):
        return tuple(map(_spaced, label))
    return " ".join(label.split()) if isinstance(label, str) else label


def _key(label: Any) -> Any:
    if isinstance(label, tuple):
        return tuple(map(_key, label))
    if not isinstance(label, str):
        return type(label), label
    # Letters with marks may be written as one character or as several; texts of both kinds look the same.
    return normalize("NFC", " ".join(label.split())).casefold()
