"""What may be permuted with what: recordings of the same kind, and with strata or pairs, sequences of the same task.

A stratum is the task of a sequence, its customer segment, or its ward, for example. If two recordings have different
mixes of strata, they differ even if nothing behaves differently. With strata,

- sequences are permuted within their stratum, so the null hypothesis is that no stratum behaves differently;
- every sequence has a weight, so that each recording has the mix of both recordings together: of n_g sequences of
  recording g, of which n_gs are in stratum s, each of these counts (n_g / N) (N_s / n_gs) times;
- half-samples halve every stratum of every recording and are weighted in the same way.

Pairs are strata that were drawn at random and run on both sides: the same permutations and weights, but half-samples
consist of half of the tasks, on both sides the same ones. What the two sides of a task have in common then cancels.
With one sequence per task and side, a permutation exchanges the two sides of some pairs. With several runs of a task,
its runs on both sides are one block: they are permuted between the sides, which keep their numbers of runs, and
half-samples keep or leave out the whole block. A task counts by its runs on both sides together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb, prod
from typing import Any

import numpy as np

from somcot.chains import MarkovChain
from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.errors import how_to_wrap
from somcot.recorded.counts import Counts, known_starts_differ
from somcot.recorded.labels import listing
from somcot.samples import Samples

__all__ = ["Strata", "attached", "attribute_names", "check_recordings", "discount_for", "pair_or_list", "strata_of"]

_LISTED = 5  # labels named in an error


@dataclass(frozen=True, eq=False)
class Strata:
    """The stratum of each sequence of several recordings.

    Attributes
    ----------
    codes : tuple of ndarray of int64
        For each recording, the stratum of each of its sequences.
    labels : tuple of hashable
        Names of the strata; every recording has sequences in each.
    weights : ndarray, shape (n_recordings, n_strata)
        Weight of a sequence: each recording gets the mix of all, and keeps its size.
    paired : bool
        Whether strata are tasks drawn at random, which half-samples keep or leave out as a whole.
    name : str or None
        The attribute that defines the strata, or several, joined by commas.
    """

    codes: tuple[Ints, ...]
    labels: tuple[Hashable, ...]
    weights: Floats
    paired: bool
    name: str | None = None

    @classmethod
    def of(cls, codes: tuple[Ints, ...], labels: tuple[Hashable, ...], *, paired: bool, name: str | None) -> Strata:
        """All recordings get the mix of all of them together."""
        sizes = _sizes(codes, len(labels))
        mix = sizes.sum(axis=0) / sizes.sum()
        # Weights change the mix of a recording and keep its number of sequences.
        weights = np.divide(sizes.sum(axis=1, keepdims=True) * mix, sizes, out=np.zeros(sizes.shape), where=sizes > 0)
        return cls(codes, labels, weights, paired, name)

    @property
    def sizes(self) -> Ints:
        """Number of sequences of each recording in each stratum, (n_recordings, n_strata)."""
        return _sizes(self.codes, len(self.labels))

    def described(self, names: Sequence[str]) -> str:
        """How many there are, and how many sequences of each recording.

        Examples
        --------
        >>> codes = np.array([0, 0, 1, 1]), np.array([0, 1, 1])
        >>> Strata.of(codes, ("a", "b"), paired=True, name="task").described(("old", "new"))
        '2 tasks, each with 2 runs in old and 1 to 2 in new; runs are exchanged within their task'
        """
        ends = [(int(own.min()), int(own.max())) for own in self.sizes]
        numbers = [f"{low:,}" if low == high else f"{low:,} to {high:,}" for low, high in ends]
        kind, unit, how = "strata", "sequences", ""
        if self.paired:
            kind, unit, how = "tasks", "runs", "; runs are exchanged within their task"
        unit = unit if ends[0][1] > 1 else unit[:-1]
        sides = f"{numbers[0]} {unit} in {names[0]} and {numbers[1]} in {names[1]}"
        return f"{len(self.labels):,} {kind}, each with {sides}{how}"

    def of_sequences(self, recording: int) -> Floats:
        """The weight of each sequence of a recording."""
        weights: Floats = self.weights[recording][self.codes[recording]]
        return weights

    @cached_property
    def pooled(self) -> Ints:
        """The stratum of each sequence of all recordings, one after the other."""
        return np.concatenate(self.codes)

    @property
    def n_permutations(self) -> int:
        """Number of distinct permutations within the strata."""
        # Python's integers do not overflow.
        ways, left = 1, self.sizes.sum(axis=0)
        for own in self.sizes[:-1]:
            ways *= prod(comb(int(n), int(k)) for n, k in zip(left, own, strict=True))
            left = left - own
        return ways

    def alone(self, recording: int) -> Strata:
        """One of the recordings, with its weights in the comparison of all."""
        return Strata((self.codes[recording],), self.labels, self.weights[[recording]], self.paired, self.name)

    def permuted(self, observed: Ints, rng: np.random.Generator) -> Ints:
        """The recording of each sequence after a random permutation within the strata."""
        # Sorted by stratum, in random order within each.
        within = np.lexsort((rng.random(len(observed)), self.pooled))
        grouping = np.empty_like(observed)
        # The labels of a stratum's members, assigned in that random order.
        grouping[within] = observed[np.argsort(self.pooled, kind="stable")]
        return grouping

    def cells(self, strata: Ints) -> Ints:
        """The strata of a group's sequences, numbered, with all those of one sequence as one."""
        # A single sequence cannot be halved, and has no spread of its own.
        alone = np.bincount(strata, minlength=len(self.labels)) == 1
        cells: Ints = np.unique(np.where(alone[strata], len(self.labels), strata), return_inverse=True)[1]
        return cells

    def halves(self, members: Ints, n_splits: int, rng: np.random.Generator) -> Floats:
        """Factors on the weights of `members`, a group, in both halves of random splits: (2 n_splits, n_members).

        A half keeps the mix and has half of the counts: what it has of a stratum counts for half of the stratum.
        """
        strata = self.pooled[members]
        if self.paired:
            n = len(self.labels)
            # Whole tasks: a task whose runs were in both halves would not be paired in either.
            first = np.zeros((n_splits, n), dtype=np.bool_)
            for split in range(n_splits):
                first[split, rng.permutation(n)[: _half(n, rng)]] = True
            kept = first[:, strata]
            return np.stack([kept, ~kept], axis=1).reshape(2 * n_splits, -1).astype(np.float64)
        cells = self.cells(strata)
        sizes = np.bincount(cells)
        begins = np.cumsum(sizes) - sizes
        factors = np.zeros((2 * n_splits, len(members)))
        for split in range(n_splits):
            # Of an odd number, either half may be the larger one.
            halves = sizes // 2 + (sizes % 2) * rng.integers(0, 2, size=len(sizes))
            order = np.lexsort((rng.random(len(members)), cells))
            place = np.arange(len(members)) - np.repeat(begins, sizes)
            taken = np.empty(len(members), dtype=np.bool_)
            taken[order] = place < np.repeat(halves, sizes)
            for half, (inside, number) in enumerate(((taken, halves), (~taken, sizes - halves))):
                # A half with fewer sequences of a stratum gives them more weight, so that the mix is the same.
                share = np.where(sizes > 1, sizes / (2.0 * np.maximum(number, 1)), 1.0)
                factors[2 * split + half] = inside * share[cells]
        return factors


def _sizes(codes: tuple[Ints, ...], n_strata: int) -> Ints:
    return np.stack([np.bincount(side, minlength=n_strata) for side in codes])


def _half(n: int, rng: np.random.Generator) -> int:
    return n // 2 + (n % 2) * int(rng.integers(2))


# --- Recordings that can be permuted


def pair_or_list(x: Any, y: Any) -> list[Samples]:
    """Two recordings, or a list of them as `x`; checked."""
    many = isinstance(x, (list, tuple))
    if many and y is not None:
        raise TypeError("y: x is a list of recordings already; put y into it, and name cost= and discount=")
    if not many and y is None:
        raise TypeError("y: missing; pass two recordings, or a list of them as x")
    recordings = list(x) if many else [x, y]
    if len(recordings) < 2:
        raise ValueError(f"x: found a list of {len(recordings)} recording(s), expected at least 2")
    check_recordings(recordings, (lambda i: f"x[{i}]") if many else (lambda i: "xy"[i]))
    return recordings


def check_recordings(recordings: Sequence[Any], name: Callable[[int], str]) -> None:
    """Refuse recordings that cannot be permuted; `name` returns the user's name of recording i."""
    for i, data in enumerate(recordings):
        if isinstance(data, MarkovChain):
            raise TypeError(
                f"{name(i)}: found a MarkovChain, which is known and needs no test; somcot.distance compares it "
                "exactly, and chain.sample(...) records it"
            )
        if isinstance(data, Counts):
            raise TypeError(
                f"{name(i)}: found Counts, which do not keep episodes; whole episodes are permuted, so pass the Samples"
            )
        if not isinstance(data, Samples):
            raise TypeError(f"{name(i)}: found {type(data).__name__}, expected Samples{how_to_wrap(data)}")
    first = recordings[0]
    for i, data in enumerate(recordings[1:], 1):
        if data.discount != first.discount:
            kinds = [_kind(d) for d in (first, data)]
            raise ValueError(
                f"{name(i)}: holds {kinds[1]}, {name(0)} holds {kinds[0]}; only recordings of the same kind can be "
                "permuted"
            )
        if known_starts_differ(first, data):
            raise ValueError(
                f"{name(i)}: its known initial distribution differs from that of {name(0)}, so the two are different "
                "processes regardless of the data; leave out initial= on both sides to test the recordings alone"
            )


def _kind(samples: Samples) -> str:
    if samples.discount is None:
        return "episodes"
    return f"independent samples of the occupancy at discount {samples.discount:g}"


def discount_for(recordings: list[Samples]) -> float:
    """The discount whose horizon 1 / (1 - discount) is the mean length of a sequence, as on the command line."""
    steps = sum(r.n_transitions for r in recordings) / max(sum(r.n_episodes for r in recordings), 1)
    return round(1.0 - float(f"{1.0 / min(max(steps, 2.0), 100.0):.2g}"), 4)


# --- From arguments to strata

_UNKNOWN = (None, "unknown")  # attributes that a session of an agent does not have

_Names = Sequence[str]


def strata_of(recordings: Sequence[object], strata: Any, paired_by: Any, names: _Names = ("x", "y")) -> Strata | None:
    """Check the arguments ``strata`` and ``paired_by``; None if neither is given.

    Each is the name of an attribute of the sequences, a list of such names, whose combinations are the strata, or one
    sequence of labels for each recording.

    Examples
    --------
    >>> x = Samples.from_trajectories([["a", "b"], ["a", "a"], ["b", "b"]])
    >>> found = strata_of([x, x], (["hard", "easy", "easy"], ["hard", "hard", "easy"]), None)
    >>> found.weights
    array([[0.75, 1.5 ],
           [1.5 , 0.75]])
    """
    if strata is None and paired_by is None:
        return None
    if strata is not None and paired_by is not None:
        raise ValueError(
            "paired_by: found together with strata; pairs are compared within their task already, so leave one out"
        )
    argument, value = ("strata", strata) if paired_by is None else ("paired_by", paired_by)
    for name, recording in zip(names, recordings, strict=True):
        if not isinstance(recording, Samples) or recording.offsets is None:
            what = type(recording).__name__ if not isinstance(recording, Samples) else "independent samples"
            raise TypeError(
                f"{argument}: {name} is {what}, which has no sequences; pass Samples with episodes on all sides, or "
                f"leave out {argument}"
            )
    samples = [recording for recording in recordings if isinstance(recording, Samples)]
    labels = _labels(argument, value, samples, names)
    known: dict[Hashable, int] = {}
    codes = [np.array([known.setdefault(label, len(known)) for label in side], dtype=np.int64) for side in labels]
    # Numbers in the order of the labels' text, so that the order of the sequences does not matter.
    order = sorted(known, key=lambda label: (type(label).__name__, str(label)))
    rank = np.empty(len(known), dtype=np.int64)
    rank[[known[label] for label in order]] = np.arange(len(known))
    ranked = tuple(rank[side] for side in codes)
    column = ", ".join(attribute_names(value) or ()) or None
    found = Strata.of(ranked, tuple(order), paired=paired_by is not None, name=column)
    # With ranked labels, so that the error lists them in a stable order.
    _refuse_one_sided(argument, found, names)
    if found.paired and len(found.labels) < 2:
        raise ValueError(f"paired_by: found one task, {order[0]!r}; pairs need several, so leave out paired_by")
    return found


def attribute_names(value: object) -> tuple[str, ...] | None:
    """The attributes that define strata: one or several names; None for labels.

    Examples
    --------
    >>> attribute_names("task"), attribute_names(["model", "task"]), attribute_names((["a"], ["b"]))
    (('task',), ('model', 'task'), None)
    """
    if isinstance(value, str):
        return (value,)
    several = isinstance(value, (list, tuple)) and bool(value) and all(isinstance(name, str) for name in value)
    return tuple(value) if several else None  # type: ignore[arg-type]


def _labels(argument: str, value: Any, samples: Sequence[Samples], names: _Names) -> list[list[Hashable]]:
    """The label of each sequence of each recording; combinations of labels if there are several attributes."""
    several = attribute_names(value)
    if several is not None and len(several) > 1:
        if len(set(several)) < len(several):
            raise TypeError(
                f"{argument}: found {listing(several, _LISTED)}, expected different attributes of the sequences, or a "
                "pair (of_x, of_y) with one label for each sequence"
            )
        of_each = [_labels(argument, name, samples, names) for name in several]
        return [list(zip(*sides, strict=True)) for sides in zip(*of_each, strict=True)]
    if several is not None:
        (value,) = several
        sides: Sequence[Any] = [
            _attribute(argument, value, side, name) for side, name in zip(samples, names, strict=True)
        ]
    elif isinstance(value, (tuple, list)) and len(value) == len(samples):
        sides = value
    else:
        raise TypeError(
            f"{argument}: found {type(value).__name__}, expected the name of an attribute of the sequences, a list of "
            "names, or a pair (of_x, of_y) with one label for each sequence"
        )
    labels = []
    for side, recording, name in zip(sides, samples, names, strict=True):
        # A string has a length too: one label for each letter.
        if isinstance(side, (str, bytes)) or not hasattr(side, "__len__"):
            raise TypeError(f"{argument}: for {name} found {side!r}, expected one label for each sequence")
        if len(side) != recording.n_episodes:
            raise ValueError(
                f"{argument}: found {len(side)} labels for {name}, which has {recording.n_episodes} sequences; pass "
                "one for each (sequences of one state have no step and are not among them)"
            )
        # NumPy's numbers become Python's, so that they equal those of the other side.
        plain = [value.item() if isinstance(value, np.generic) else value for value in side]
        wrong = next((value for value in plain if not isinstance(value, Hashable)), None)
        if wrong is not None:
            raise TypeError(f"{argument}: found the label {wrong!r} for {name}, expected text, numbers or the like")
        # NaN differs from itself.
        missing = [k for k, label in enumerate(plain) if label is None or label != label]
        if missing:
            raise ValueError(
                f"{argument}: {len(missing)} of {len(plain)} sequences of {name} have no label, the first is number "
                f"{missing[0]}; fill it in, or leave these sequences out"
            )
        labels.append(plain)
    return labels


def _attribute(argument: str, value: str, samples: Samples, name: str) -> Any:
    known = samples.episode_attributes
    if value not in known:
        has = (
            f"it has {listing(list(known), 12)}" if known else "it has none; readers keep columns named in attributes="
        )
        raise ValueError(f"{argument}: {value!r} is no attribute of the sequences of {name}; {has}")
    if all(label in _UNKNOWN for label in known[value]):
        raise ValueError(f"{argument}: no sequence of {name} has a value of {value!r}; name another attribute")
    return known[value]


def _refuse_one_sided(argument: str, strata: Strata, names: _Names) -> None:
    """Every recording needs sequences in every stratum: nothing is dropped silently."""
    for sizes, name in zip(strata.sizes, names, strict=True):
        lacking = np.flatnonzero(sizes == 0)
        if len(lacking):
            n = int(strata.sizes[:, lacking].sum())
            shown = listing([strata.labels[k] for k in lacking], _LISTED)
            what = "tasks" if strata.paired else "strata"
            remedy = "record them" if strata.paired else "record or merge them"
            raise ValueError(
                f"{argument}: {name} has no sequence in {len(lacking)} of {len(strata.labels)} {what}: {shown}; "
                f"{remedy}, or leave out the {n} sequence(s) of the other side without a counterpart (Samples.take)"
            )


def attached(
    argument: str, value: Any, recordings: Mapping[Any, Any]
) -> tuple[str | tuple[str, ...] | None, dict[Any, Any]]:
    """The names of attributes and recordings that have them, for comparisons of many; labels become an attribute.

    `value` is the name of an attribute, a list of names, a mapping of the label of each recording to the labels of its
    sequences, or None.
    """
    if value is None or attribute_names(value) is not None:
        return (value if value is None or isinstance(value, str) else tuple(value)), dict(recordings)
    if not isinstance(value, Mapping) or set(value) != set(recordings):
        raise TypeError(
            f"{argument}: found {type(value).__name__}, expected the name of an attribute, a list of names, or a "
            f"mapping with one sequence of labels for each of {listing(list(recordings), _LISTED)}"
        )
    changed = {}
    for label, recording in recordings.items():
        (labels,) = _labels(argument, (value[label],), [recording], [repr(label)])
        # An object array, as NumPy would turn mixed labels into text and tuples into a table.
        column = np.empty(len(labels), dtype=object)
        column[:] = labels
        about = {**recording.episode_attributes, argument: column}
        changed[label] = replace(recording, episode_attributes=about)
    return argument, changed
