"""Bins for numbers, labels with different spellings merged, and rare states joined."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from unicodedata import normalize

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import (
    check_count,
    check_indices,
    check_kind,
    check_labels,
    check_sequence,
    check_text,
    not_sparse,
    real_array,
    real_numbers,
)
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.memory import require
from somcot.plumbing.notes import Note
from somcot.plumbing.text import listing
from somcot.samples import Samples

__all__ = [
    "Bins",
    "check_binning",
    "fit_edges",
    "join_rare",
    "note_spellings",
    "spellings",
    "tidy_labels",
]


# --- Bins: from numbers to a few states, with the same edges for all compared processes

MOST = 1_000_000  # bins in one dimension


@dataclass(frozen=True, init=False)
class Bins:
    """A grid over one or more numbers, defined by the inner edges of each.

    A value belongs to the bin that its edges enclose, including the lower edge; values outside belong to the first
    or the last bin. Use the same `Bins` for both processes, so that equal labels have the same meaning.

    Parameters
    ----------
    *edges : array_like, shape (k,)
        Ascending inner edges of each dimension, which make k + 1 bins.

    Examples
    --------
    >>> bins = Bins.uniform(low=[-1, 0], high=[1, 10], n=[2, 5])
    >>> bins.codes([[-0.5, 9.0], [0.5, 3.0]])
    array([4, 6])
    >>> bins.labels()[6]
    ('[0, inf)', '[2, 4)')
    >>> Bins([0, 10]).labels()
    ('(-inf, 0)', '[0, 10)', '[10, inf)')
    """

    edges: tuple[Floats, ...]

    def __init__(self, *edges: ArrayLike) -> None:
        object.__setattr__(self, "edges", tuple(_ascending(f"edges[{k}]", e) for k, e in enumerate(edges)))
        if not edges:
            raise ValueError("edges: found none; pass the inner edges of each dimension")

    @classmethod
    def uniform(cls, low: ArrayLike, high: ArrayLike, n: int | Sequence[int]) -> Bins:
        """`n` bins of equal width between `low` and `high`, in each dimension."""
        lower, upper = real_array("low", np.atleast_1d(low), 1), real_array("high", np.atleast_1d(high), 1)
        if lower.shape != upper.shape:
            raise ValueError(f"high: found {upper.size} numbers, low has {lower.size}; pass one for each dimension")
        numbers = _numbers(n, lower.size)
        return cls(*(_inner(a, b, k) for a, b, k in zip(lower, upper, numbers, strict=True)))

    @classmethod
    def quantile(cls, values: ArrayLike, n: int | Sequence[int]) -> Bins:
        """`n` bins with about equal numbers of the `values`, shape (m,) or (m, d), in each dimension.

        Examples
        --------
        >>> Bins.quantile([1, 2, 3, 4, 5, 6], 3).labels()
        ('(-inf, 2.667)', '[2.667, 4.333)', '[4.333, inf)')
        """
        table = real_numbers("values", values)
        table = real_array("values", table[:, None] if table.ndim == 1 else table, 2)
        numbers = _numbers(n, table.shape[1])
        return cls(*(fit_edges(table[:, k], numbers[k], "quantile") for k in range(table.shape[1])))

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of bins in each dimension."""
        return tuple(len(e) + 1 for e in self.edges)

    @property
    def n_bins(self) -> int:
        """Total number of cells over all dimensions."""
        return math.prod(self.shape)

    def codes(self, values: ArrayLike) -> NDArray[np.int64]:
        """Index of the cell of each row of `values`, shape (m, d), or (m,) in one dimension."""
        table = real_numbers("values", values)
        table = table.reshape(len(table), -1)
        if table.shape[1] != len(self.edges):
            raise ValueError(f"values: found {table.shape[1]} numbers per row, the bins have {len(self.edges)}")
        # A NaN would be sorted into the last bin.
        bad = ~np.isfinite(table).all(axis=1)
        if bad.any():
            raise ValueError(
                f"values: row {int(bad.argmax())} holds {table[bad.argmax()].tolist()}, {int(bad.sum())} row(s) are "
                "not finite; remove or replace them"
            )
        # Indices of cells are 64-bit integers.
        if self.n_bins >= 2**63:
            raise ValueError(f"bins: more than 2^63 cells in {len(self.edges)} dimensions; use fewer of either")
        # A value on an edge belongs to the bin above it.
        places = [np.searchsorted(e, table[:, k], side="right") for k, e in enumerate(self.edges)]
        cells: NDArray[np.int64] = np.ravel_multi_index(tuple(places), self.shape).astype(np.int64)
        return cells

    def labels(self) -> tuple[Hashable, ...]:
        """A label for each cell: its interval as text, or a tuple of those."""
        # Texts of all cells may exceed the memory although the edges are few.
        require(200.0 * self.n_bins, "bins: labels of all cells", "use fewer bins, or labels_of")
        return self.labels_of(np.arange(self.n_bins))

    def labels_of(self, cells: ArrayLike) -> tuple[Hashable, ...]:
        """Labels of some cells, by index: a fine grid has far more cells than are visited.

        Examples
        --------
        >>> Bins.uniform(low=[0] * 4, high=[1] * 4, n=1000).labels_of([0])[0][0]
        '(-inf, 0.001)'
        """
        names = [list(_intervals(e)) for e in self.edges]
        places = np.unravel_index(check_indices("cells", cells, int(np.prod(self.shape))), self.shape)
        parts = [[texts[i] for i in place.tolist()] for texts, place in zip(names, places, strict=True)]
        return tuple(parts[0]) if len(parts) == 1 else tuple(zip(*parts, strict=True))


def fit_edges(values: Floats, n: int, how: str) -> Floats:
    """Inner edges of `n` bins over the data; fewer if many values are equal.

    Examples
    --------
    >>> fit_edges(np.array([0.0, 10.0]), 4, "uniform")
    array([2.5, 5. , 7.5])
    """
    n = _bin_count("bins", n)
    check_binning(how)
    if not values.size:
        raise ValueError("bins: found no number to fit the bins to")
    if how == "uniform":
        return _inner(float(values.min()), float(values.max()), n)
    # Many equal values give equal quantiles, hence fewer bins.
    return np.unique(np.quantile(values, np.arange(1, n) / n))


def check_binning(how: str) -> str:
    """Refuse an unknown binning method."""
    return check_text("binning", how, "quantile", "uniform")


def _inner(low: float, high: float, n: int) -> Floats:
    if not high > low:
        return np.empty(0)
    if high - low == math.inf:  # overflows, unlike the edges
        return 2.0 * np.linspace(low / 2.0, high / 2.0, n + 1)[1:-1]
    return np.linspace(low, high, n + 1)[1:-1]


def _bin_count(name: str, n: object) -> int:
    count = check_count(name, n)
    if count > MOST:
        raise ValueError(f"{name}: found {count:,}, expected at most {MOST:,} bins in a dimension")
    return count


def _numbers(n: int | Sequence[int], dimensions: int) -> list[int]:
    if np.ndim(n) == 0:
        return [_bin_count("n", n)] * dimensions
    numbers = [_bin_count(f"n[{k}]", value) for k, value in enumerate(not_sparse("n", n))]
    if len(numbers) != dimensions:
        raise ValueError(f"n: found {len(numbers)} numbers of bins for {dimensions} dimension(s); pass one for each")
    return numbers


def _ascending(name: str, edges: ArrayLike) -> Floats:
    array = real_array(name, edges, 1)
    if (np.diff(array) <= 0).any():
        raise ValueError(f"{name}: found {array.tolist()}, expected ascending edges without repeats")
    array.setflags(write=False)
    return array


def _intervals(edges: Floats) -> Iterator[str]:
    """Distinct texts for the bins, with as few digits as possible."""
    # 17 digits distinguish any two numbers, so there is always an answer.
    texts = next(t for t in ([f"{e:.{d}g}" for e in edges] for d in (4, 7, 10, 17)) if len(set(t)) == len(edges))
    bounds = ["-inf", *texts, "inf"]
    for k, (low, high) in enumerate(pairwise(bounds)):
        yield f"{'(' if k == 0 else '['}{low}, {high})"


# --- Spellings merged, and rare states joined

_SHOWN = 3


def spellings(states: Iterable[Hashable]) -> list[list[Hashable]]:
    """Groups of labels that differ only in case or blanks.

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
    """Warn about labels that may mean the same state."""
    groups = spellings(states)
    if groups:
        shown = "; ".join(listing(group, 4) for group in groups[:_SHOWN])
        more = f" and {len(groups) - _SHOWN} more groups" if len(groups) > _SHOWN else ""
        how = "case or blanks"
        # Fewer spellings after normalisation: some differ in encoding only, which is invisible.
        if any(
            len({_trimmed(label) for label in group}) < len({_spaced(label) for label in group}) for group in groups
        ):
            how = "case, blanks or how letters with marks are encoded (Unicode NFC or NFD, which look the same)"
        note = Note("spellings", source, n=sum(map(len, groups)), how=how, states=f"{shown}{more}")
        warn(note, DataWarning)


def tidy_labels(recordings: Sequence[Samples]) -> list[Samples]:
    """Merge labels that differ only in case or blanks into the most frequent spelling, without extra blanks.

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
    recordings = check_sequence("recordings", recordings)
    for samples in recordings:
        check_kind("recordings", samples, Samples)
        for label, n in zip(samples.states, occurrences(samples).tolist(), strict=True):
            number[_trimmed(label)] = number.get(_trimmed(label), 0) + n
    chosen: dict[Hashable, Hashable] = {}
    # Ties are decided by the text, so that the order of the files does not matter.
    for label in sorted(number, key=lambda label: (-number[label], str(label))):
        chosen.setdefault(_key(label), label)
    return [samples.relabel({label: chosen[_key(label)] for label in samples.states}) for samples in recordings]


def join_rare(recordings: Sequence[Samples], top: int, *, other: Hashable = "other") -> list[Samples]:
    """Join all but the most frequent states into one.

    Parameters
    ----------
    recordings : sequence of Samples
        Recordings to be compared: frequencies are those of all recordings together, so that they share their
        states.
    top : int
        Number of states to keep. States in which sequences terminate are kept in addition.
    other : hashable
        Label of the merged states.

    Examples
    --------
    >>> a = Samples.from_trajectories([["home", "cart", "help", "home", "faq", "home"]])
    >>> (joined,) = join_rare([a], 1, other="else")
    >>> joined.states, joined.counts().tolist()
    (('else', 'home'), [[1, 2], [2, 0]])
    """
    top = check_count("top", top)
    (other,) = check_labels("other", [other])
    number: dict[Hashable, int] = {}
    recordings = check_sequence("recordings", recordings)
    for samples in recordings:
        check_kind("recordings", samples, Samples)
        for label, n in zip(samples.states, occurrences(samples).tolist(), strict=True):
            number[label] = number.get(label, 0) + n
    # Ends are kept: joined with other states they would no longer be absorbing.
    ends = {samples.states[k] for samples in recordings for k in np.flatnonzero(samples.terminal)}
    ranked = sorted((label for label in number if label not in ends), key=lambda label: (-number[label], str(label)))
    rare = set(ranked[top:])
    if rare and other in number and other not in rare:
        raise ValueError(f"other: {other!r} is a frequent state of the data; choose another label for the rare ones")
    return [samples.relabel(dict.fromkeys(rare, other)) if rare else samples for samples in recordings]


def occurrences(samples: Samples) -> NDArray[np.int64]:
    """Number of occurrences of each state, including the ends of episodes."""
    # The last state of an episode begins no step, so visits do not count it.
    last = samples.following[:0] if samples.offsets is None else samples.following[samples.offsets[1:] - 1]
    return samples.visits + np.bincount(last, minlength=samples.n_states)


def _trimmed(label: Hashable) -> Hashable:
    if isinstance(label, tuple):
        return tuple(map(_trimmed, label))
    return normalize("NFC", " ".join(label.split())) if isinstance(label, str) else label


def _spaced(label: Hashable) -> Hashable:
    """Without extra blanks, with unchanged characters."""
    if isinstance(label, tuple):
        return tuple(map(_spaced, label))
    return " ".join(label.split()) if isinstance(label, str) else label


def _key(label: Hashable) -> Hashable:
    if isinstance(label, tuple):
        return tuple(map(_key, label))
    if not isinstance(label, str):
        # With its type, as 1, 1.0 and True are equal in Python.
        return type(label), label
    # Accented letters may be encoded as one character or as several; both look the same.
    return normalize("NFC", " ".join(label.split())).casefold()
