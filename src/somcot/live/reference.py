"""The reference of a monitor, labels of a stream as numbers, and a window of its recent events."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot import costs
from somcot.api import distance
from somcot.chains import MarkovChain
from somcot.live.conformal import FEWEST, Plan, Recorded, SequenceDetector, held_labels
from somcot.live.detector import PRIOR_MASS, Bets, bets_on
from somcot.live.sequences import FULL, STAGES, Units, joined
from somcot.plumbing.arrays import Array, Bools, Codes, Floats, Ints
from somcot.plumbing.checks import is_missing, not_sparse
from somcot.plumbing.errors import DataWarning, how_to_wrap, warn
from somcot.plumbing.notes import Note
from somcot.plumbing.text import listing
from somcot.recorded.counts import Counts
from somcot.recorded.labels import column, refuse_lookalikes
from somcot.recorded.pair_counts import PairCounts, added, count_pairs
from somcot.result import Result
from somcot.samples import Samples
from somcot.trajectories import needs_cells

if TYPE_CHECKING:
    from somcot.live.alarm import MonitorSettings

__all__ = ["OTHER", "Labels", "Reference", "Window", "empty", "from_plain", "times_of", "to_plain"]


# --- Labels of a stream as numbers: those of the reference first, then new ones in order of appearance

MOST_NEW = 1000  # number of distinct new labels that are kept, to bound memory
OTHER = "(other new labels)"
_SPAN = 1 << 20  # largest lookup table for labels that are integers


class Labels:
    """Mapping from labels to numbers.

    Attributes
    ----------
    known : int
        Number of labels of the reference, which come first.
    states : list
        All labels.
    """

    def __init__(self, states: Sequence[Hashable], new: Iterable[Hashable] = ()) -> None:
        self.known = len(states)
        self.states: list[Hashable] = [*states, *new]
        self._code = {label: i for i, label in enumerate(self.states)}
        self._low, self._table = self._lookup()

    def _lookup(self) -> tuple[int, Codes | None]:
        """A table from integers to codes, if labels are integers in a narrow range."""
        numbers = [label for label in self.states if type(label) is int]
        if len(numbers) < len(self.states) or max(numbers) - min(numbers) >= _SPAN:
            return 0, None
        low = min(numbers)
        table = np.full(max(numbers) - low + 1, -1, dtype=np.int32)
        table[np.array(numbers) - low] = np.arange(len(numbers))
        return low, table

    @property
    def new(self) -> list[Hashable]:
        """Labels unknown to the reference."""
        return self.states[self.known :]

    def encode(self, values: object) -> Codes:
        """The number of each label; new labels get new numbers."""
        labels = column("states", values)
        return self._encode_integers(labels) if isinstance(labels, np.ndarray) else self.codes(labels)

    def codes(self, labels: Sequence[Hashable]) -> Codes:
        """The same as `encode` for a list of labels."""
        code = self._code
        try:
            codes = np.fromiter(map(code.get, labels, [-1] * len(labels)), np.int32, len(labels))
        except TypeError:
            bad = next((label for label in not_sparse("labels", labels) if not _is_hashable(label)), labels)
            raise TypeError(f"states: label {bad!r} is not hashable; use a tuple or text") from None
        unknown = np.flatnonzero(codes < 0)
        if len(unknown):
            self._admit({labels[i]: int(i) for i in unknown[::-1].tolist()})
            codes[unknown] = [code.get(labels[i], self.known + MOST_NEW) for i in unknown.tolist()]
        return codes

    def _encode_integers(self, labels: NDArray[np.int64]) -> Codes:
        if self._table is None or len(labels) == 0:
            return self.codes(labels.tolist())
        place = labels - self._low if self._low else labels
        if int(place.min()) >= 0 and int(place.max()) < len(self._table):
            codes: Codes = self._table[place]
            if codes.min() >= 0:
                return codes
        return self.codes(labels.tolist())

    def _admit(self, known: dict[Hashable, int]) -> None:
        """Add new labels in the order of their first events."""
        refuse_lookalikes("states", [*self.states, *known], {type(label) for label in [*self.states, *known]})
        for label, i in sorted(known.items(), key=lambda item: item[1]):
            if is_missing(label):
                raise ValueError(f"states: event {i} has the label {label!r}; remove or name missing states")
            if len(self.states) - self.known == MOST_NEW:
                self.states.append(OTHER)
            if len(self.states) - self.known <= MOST_NEW:
                self._code[label] = len(self.states)
                self.states.append(label)


def _is_hashable(label: object) -> bool:
    """Whether `label` has a hash; a tuple that holds a list is `Hashable` by its type and yet has none."""
    try:
        hash(label)
    except TypeError:
        return False
    return True


def times_of(times: object, n: int) -> tuple[Floats, bool]:
    """Times as numbers (dates in microseconds), and whether they are dates."""
    array = np.asarray(times)
    if array.dtype.kind == "O":
        try:
            array = np.array(times, dtype="M8[us]")
        except OverflowError:
            raise ValueError("times: found a number too large for floating point; rescale") from None
    dated = array.dtype.kind == "M"
    if dated:
        missing = np.isnat(array)
        array = array.astype("M8[us]").astype(np.int64)
    elif array.dtype.kind not in "iuf":
        if array.dtype.kind == "U" and array.size:
            raise TypeError(
                f"times: found text such as {str(array.flat[0])!r}, expected numbers or dates; "
                "numpy.array(times, dtype='datetime64[us]') converts ISO dates"
            )
        raise TypeError(f"times: found entries of type {array.dtype}, expected numbers or dates")
    else:
        missing = ~np.isfinite(array)
    if array.shape != (n,):
        raise ValueError(f"times: found shape {array.shape}, expected one time for each of the {n} states")
    if missing.any():
        raise ValueError(f"times: entry {int(missing.argmax())} is missing or not finite; give every event a time")
    return array.astype(np.float64), dated


def to_plain(label: object) -> Any:
    """A label as a JSON-compatible value."""
    if isinstance(label, tuple):
        return {"tuple": [to_plain(part) for part in label]}
    if label is None or isinstance(label, (str, bool, int, float)):
        return label
    raise TypeError(f"states: the label {label!r} of type {type(label).__name__} cannot be saved; use text or numbers")


def from_plain(value: object) -> Any:
    """The inverse of `to_plain`."""
    return tuple(from_plain(part) for part in value["tuple"]) if isinstance(value, dict) else value


# --- The reference

_AS_GOOD_AS_KNOWN = 1_000_000  # visits that represent a known row where counts are needed


class Reference:
    """The process that the stream is compared with.

    Attributes
    ----------
    process : MarkovChain or Counts
    cost : str or ndarray, shape (n, n)
        "labels", or the cost of being in one state instead of another.
    """

    def __init__(self, process: object, cost: costs.Cost) -> None:
        self.recorded: Recorded | None = None
        if isinstance(process, Samples):
            self.recorded = Recorded.of(process)
            process = process.counted
        if isinstance(process, Counts):
            process = replace(process.closed(), discount=None)
            if process.n_transitions == 0:
                raise ValueError("reference: no transitions were recorded; record the process first")
        elif not isinstance(process, MarkovChain):
            raise TypeError(
                f"reference: found {type(process).__name__}, expected a MarkovChain, Samples or Counts"
                f"{needs_cells(process) or how_to_wrap(process)}"
            )
        self.process: MarkovChain | Counts = process
        self.cost: str | Floats = "labels"
        if not (isinstance(cost, str) and cost == "labels"):
            n = process.n_states
            self.cost = costs.check_cost(np.asarray(costs.between(cost, process, process)), n, n)

    @property
    def known(self) -> bool:
        """Whether the kernel is known rather than recorded."""
        return isinstance(self.process, MarkovChain)

    @property
    def states(self) -> tuple[Hashable, ...]:
        """Labels of the reference."""
        return self.process.states

    @property
    def n(self) -> int:
        """Number of states."""
        return self.process.n_states

    @property
    def prior_mass(self) -> float:
        """K: the mass, in transitions, that each row reserves for transitions never seen."""
        return PRIOR_MASS / self.n

    @cached_property
    def terminal(self) -> Bools:
        """Absorbing states, which end a sequence, shape (n + 1,); the last entry is for unknown labels."""
        ends = np.zeros(self.n, np.bool_) if isinstance(self.process, MarkovChain) else self.process.terminal
        return np.append(ends, False)

    def bets(self) -> Bets:
        """A detector before the first event; the initial distribution is one more row."""
        n, process = self.n, self.process
        known = np.full(n + 2, self.known)
        if isinstance(process, MarkovChain):
            support = process.support
            rows = np.where(support.rows == n, n + 1, support.rows).astype(np.int64)
            return bets_on(rows, support.indices, support.probabilities, known, n, self.prior_mass)
        pairs, initial = process.pair_counts, process.start_counts.astype(np.float64)
        if process.initial is not None:
            known[n + 1], initial = True, process.initial
        starts = np.flatnonzero(initial)
        rows = np.concatenate([pairs.rows, np.full(len(starts), n + 1)])
        columns = np.concatenate([pairs.columns, starts])
        null = np.concatenate([pairs.values.astype(np.float64), initial[starts]])
        return bets_on(rows, columns, null, known, n, self.prior_mass)

    def warn_of_ends(self, following: Codes, states: list[Hashable]) -> None:
        """Warn if a stream never enters the final states of the reference: its ends may not be events."""
        if self.terminal.any() and not self.terminal[following[following < len(self.terminal)]].any():
            where = listing(states[k] for k in np.flatnonzero(self.terminal))
            warn(Note("ends-not-in-stream", states=where), DataWarning)

    def distance_to(
        self, now: Codes, following: Codes, states: list[Hashable], discount: float, confidence: float | None
    ) -> Result | None:
        """The distance of a stream's transitions; None if it has only first states (-1 in `now`)."""
        if not (now >= 0).any():
            return None
        x, y, cost = self.sides(now[now >= 0], following[now >= 0], states)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the notes say the same, and rows not visited are expected here
            return distance(x, y, cost, discount=discount, confidence=confidence, rng=0)

    def choose(
        self, settings: MonitorSettings, end: int, *, named: bool, clock: str
    ) -> tuple[Plan, SequenceDetector | None, float]:
        """What is scored, the detector of whole sequences or of cycles, and the threshold of the detector of steps.

        Parameters
        ----------
        settings : MonitorSettings
        end : int
            Code of the end state, -1 for none.
        named : bool
            Whether the sequences of the stream have names.
        clock : {"dates", "numbers", "rows"}
            Times of the stream.
        """
        promise, recorded, atom = settings.promise, self.recorded, -1
        if recorded is None:
            why = "steps of a known chain" if self.known else "steps, because the reference has counts alone"
            plan = Plan("steps", None, self.known, f"{why}; holds if the next state depends on the last one alone")
            if promise.unit == "sequences":
                raise ValueError("unit: found 'sequences', but the reference has none to count; leave it at 'events'")
            return plan, None, promise.threshold
        plan = recorded.plan(self.terminal, named, clock, settings.timeout, end, settings.max_open, settings.starts)
        if plan.cut is not None:
            a, b = recorded.units(plan.cut, self.terminal)
        elif plan.kind == "endless":
            if promise.unit == "sequences":
                raise ValueError(
                    "unit: found 'sequences', but the stream is one endless sequence; leave it at 'events'"
                )
            atom, a, b = recorded.cycles()
            plan = plan._replace(mean_length=len(a.codes) / max(len(a.how), 1))
        least = FEWEST // 2 if atom >= 0 else 2
        if plan.kind != "steps" and min(len(a.how), len(b.how)) < least:
            what = f"{len(a.how) + len(b.how)} complete {'cycles' if atom >= 0 else 'sequences'}"
            plan = Plan("steps", None, False, f"steps, because the reference has only {what}; holds if the next state "
                        "depends on the last one alone", plan.mean_length)  # fmt: skip
        if plan.kind == "steps":
            return plan, None, promise.threshold * (plan.mean_length if promise.unit == "sequences" else 1.0)
        share = 2.0 if plan.kind == "endless" else 1.0
        whole = SequenceDetector(
            a, b, held_labels(joined([a, b]), self.n), cut=plan.cut, atom=atom,
            threshold=share * promise.threshold_of(plan), forever=promise.forever,
        )  # fmt: skip
        return plan, whole, share * promise.threshold_of(plan._replace(mean_length=1.0))

    def shares(self, rows: Ints, columns: Ints) -> Floats:
        """Probability of transitions under the reference, recorded or known; row -1 is the initial distribution."""
        n = self.n
        chain = self.chain
        place = np.where(rows < 0, n, rows)
        inside = (columns < n) & (rows < n)
        support = chain.support
        entries = support.locate(np.where(inside, place, 0), np.where(inside, columns, 0))
        entries = np.minimum(entries, len(support.indices) - 1)
        hit = inside & (support.rows[entries] == place) & (support.indices[entries] == columns)
        if isinstance(self.process, Counts):  # rows never left have no data
            visits = np.append(self.process.visits, self.process.start_counts.sum() + self.process.starts_known)
            hit &= visits[np.minimum(place, n)] > 0
        return np.where(hit, support.probabilities[entries], 0.0)

    @cached_property
    def chain(self) -> MarkovChain:
        """The kernel, known or counted."""
        if isinstance(self.process, MarkovChain):
            return self.process
        if not self.process.starts_known and not self.process.start_counts.any():
            return replace(self.process, initial=self.process.visits / self.process.n_transitions).chain(check=False)
        return self.process.chain(check=False)

    def sides(self, now: Codes, following: Codes, states: list[Hashable]) -> tuple[Any, Counts, Any]:
        """The reference, the stream and their cost: both start in the visited states and share rows not visited.

        Parameters
        ----------
        now, following : ndarray of int32
            Transitions of the stream without first states; at least one.
        states : list
            Labels of all codes.
        """
        n, m = self.n, len(states)
        visits = np.bincount(now, minlength=m)
        initial = visits[:n] / max(visits[:n].sum(), 1)
        if not visits[:n].any():  # only labels unknown to the reference
            initial = self.chain.initial
        pairs = added([count_pairs(now, following, m), self._rows(np.flatnonzero(visits[:n] == 0), m)])
        ended = np.append(self.terminal[:n], np.zeros(m - n, np.bool_))
        none = np.zeros(m, dtype=np.int64)
        stream = Counts(tuple(states), pairs, none, ended, initial=np.append(initial, np.zeros(m - n)))
        if isinstance(self.process, MarkovChain):
            x: object = MarkovChain(self.process.transition, initial, states=self.states)
        else:
            x = replace(self.process, initial=initial, stationary=False)
        return x, stream, self._cost(tuple(states))

    def accepted(self, now: Codes, following: Codes, states: list[Hashable]) -> Reference:
        """The stream as the new reference: its rows, and for states not visited those of this reference."""
        first = now < 0
        _, stream, cost = self.sides(now[~first], following[~first], states)
        starts = np.bincount(following[first], minlength=len(states))
        if not first.any() and isinstance(self.process, Counts):
            starts[: self.n] += self.process.start_counts
        if starts.any():
            stream = replace(stream, starts=starts, n_closed=int(starts.sum()), initial=None)
        if not isinstance(cost, str):
            cost = np.vstack([cost, np.full((len(states) - self.n, len(states)), cost.max())])
            np.fill_diagonal(cost[self.n :, self.n :], cost.min())
        return Reference(stream, cost)

    def _rows(self, rows: NDArray[np.int64], m: int) -> PairCounts:
        """Counts of some rows between m states; known probabilities become large counts."""
        chosen = np.zeros(self.n, dtype=np.bool_)
        chosen[rows] = True
        if isinstance(self.process, Counts):
            pairs = self.process.pair_counts
            keep = chosen[pairs.rows]
            return PairCounts(pairs.rows[keep], pairs.columns[keep], pairs.values[keep], m)
        support = self.process.support
        n_entries = int(support.indptr[-2])
        keep = chosen[support.rows[:n_entries]]
        values = np.maximum(np.rint(_AS_GOOD_AS_KNOWN * support.probabilities[:n_entries][keep]), 1).astype(np.int64)
        return PairCounts(
            support.rows[:n_entries][keep].astype(np.int64),
            support.indices[:n_entries][keep].astype(np.int64),
            values,
            m,
        )

    def _cost(self, states: tuple[Hashable, ...]) -> Any:
        """The cost between the reference and the stream; unknown labels have the maximum cost."""
        if isinstance(self.cost, str):
            return "labels"
        more = len(states) - self.n
        return np.hstack([self.cost, np.full((self.n, more), self.cost.max())])

    def digest(self) -> str:
        """A fingerprint of the process and the cost."""
        h = hashlib.sha256(repr(self.states).encode())
        arrays, _ = self.parts()
        for name in sorted(arrays):
            h.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
        return h.hexdigest()

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and a record that `from_parts` reassembles."""
        process = self.process
        arrays: dict[str, Array] = {} if isinstance(self.cost, str) else {"cost": self.cost}
        if isinstance(process, MarkovChain):
            support = process.support
            arrays |= {"indptr": support.indptr, "indices": support.indices, "probabilities": support.probabilities}
            return arrays, {"kind": "chain", "sparse": process.is_sparse}
        pairs = process.pair_counts
        arrays |= {
            "rows": pairs.rows, "columns": pairs.columns, "values": pairs.values, "starts": process.starts,
            "ended": process.ended,
        }  # fmt: skip
        if process.initial is not None:
            arrays["initial"] = process.initial
        return arrays, {"kind": "counts", "n_closed": process.n_closed, "stationary": process.stationary}

    @classmethod
    def from_parts(cls, arrays: dict[str, Array], record: dict[str, Any], states: tuple[Hashable, ...]) -> Reference:
        """The inverse of `parts`."""
        from scipy.sparse import csr_array

        n = len(states)
        process: MarkovChain | Counts
        if record["kind"] == "chain":
            indptr, indices, values = arrays["indptr"], arrays["indices"], arrays["probabilities"]
            _check_rows(indptr, indices, values, n)
            last = int(indptr[-2])
            kernel = csr_array((values[:last], indices[:last], indptr[:-1]), shape=(n, n))
            initial = np.zeros(n)
            initial[indices[last:]] = values[last:]
            process = MarkovChain(kernel if record["sparse"] else kernel.toarray(), initial, states=states)
            # Its rows were divided by their sums when it was made; doing it again may change the last bits.
            object.__setattr__(process, "transition", kernel if record["sparse"] else kernel.toarray())
            object.__setattr__(process, "initial", initial)
        else:
            for name in ("rows", "columns"):
                _check_places(arrays[name], n)
            pairs = PairCounts(arrays["rows"], arrays["columns"], arrays["values"], n)
            process = Counts(
                states, pairs, arrays["starts"], arrays["ended"], int(record["n_closed"]),
                initial=arrays.get("initial"), stationary=bool(record["stationary"]),
            )  # fmt: skip
        return cls(process, arrays.get("cost", "labels"))


def _check_rows(indptr: Array, indices: Array, values: Array, n: int) -> None:
    """Refuse rows that point outside their entries, since compiled code trusts them."""
    if indptr.shape != (n + 2,) or indptr.dtype.kind not in "iu" or indices.shape != values.shape:
        raise ValueError("the rows of the reference have the wrong shape")
    if indptr[0] != 0 or (np.diff(indptr) < 0).any() or indptr[-1] != len(indices):
        raise ValueError("the rows of the reference point outside its entries")
    _check_places(indices, n)


def _check_places(states: Array, n: int) -> None:
    if states.dtype.kind not in "iu" or (len(states) and not 0 <= states.min() <= states.max() < n):
        raise ValueError("the reference refers to states that do not exist")


# --- A window of the most recent transitions


class Window(NamedTuple):
    """A ring buffer: transition number k, starting at 1, is at position (k - 1) modulo the size.

    Transitions of scored sequences are consecutive; the last of a stage leads to -ENDED or -CUT_OFF unless it is full.
    """

    now: Codes  # -1 before a first state
    following: Codes
    unit: Ints  # STAGES * number of the sequence + stage, 0 where steps are scored
    began: Ints  # event with which the sequence began
    number: Ints  # (1,), transitions so far

    def push(self, now: Codes, following: Codes, unit: Ints | int = 0, began: Ints | int = 0) -> None:
        """Add transitions."""
        size, n = len(self.now), len(now)
        keep = min(n, size)
        first = int(self.number[0]) + n - keep
        places = np.arange(first, first + keep) % size
        for ring, values in ((self.now, now), (self.following, following), (self.unit, unit), (self.began, began)):
            ring[places] = values if isinstance(values, int) else values[n - keep :]
        self.number[0] += n

    def push_units(self, units: Units, begin: int, end: int) -> None:
        """Add the transitions of some units."""
        lengths = np.diff(units.offsets[begin : end + 1]) + (units.how[begin:end] != FULL)
        total = int(lengths.sum())
        first = np.cumsum(lengths) - lengths
        now, following = np.empty(total, np.int32), np.empty(total, np.int32)
        closing = np.zeros(total, np.bool_)
        closing[(first + lengths - 1)[units.how[begin:end] != FULL]] = True
        following[~closing] = units.codes[units.offsets[begin] : units.offsets[end]]
        following[closing] = -units.how[begin:end][units.how[begin:end] != FULL]
        now[1:] = following[:-1]
        now[first] = units.before[begin:end]
        which = STAGES * units.number[begin:end] + units.stage[begin:end]
        self.push(now, following, np.repeat(which, lengths), np.repeat(units.began[begin:end], lengths))

    def after(self, number: int) -> tuple[Codes, Codes]:
        """Transitions after this number that are still in the window, without the closing of stages."""
        places = self._places(number)
        places = places[self.following[places] >= 0]
        return self.now[places], self.following[places]

    def _places(self, number: int) -> Ints:
        last = int(self.number[0])
        return np.arange(max(number, last - len(self.now), 0), last) % len(self.now)

    def units(self) -> tuple[Units, Ints]:
        """The units that are complete in the window, and the numbers of their first transitions."""
        places = self._places(0)
        which = self.unit[places]
        begins = np.flatnonzero(np.append(True, which[1:] != which[:-1])[: len(places)])
        if int(self.number[0]) > len(self.now):
            begins = begins[1:]  # the first one may have lost its beginning
        ends = np.append(begins[1:], len(places))[: len(begins)]
        lengths = ends - begins
        last, heads = self.following[places[ends - 1]], places[begins]
        how = np.where(last < 0, -last, FULL).astype(np.int32)
        codes = self.following[places[begins[0] if len(begins) else len(places) :]]
        offsets = np.concatenate([[0], np.cumsum(lengths - (how != FULL))]).astype(np.int64)
        stage, began = (which[begins] % STAGES).astype(np.int32), self.began[heads]
        units = Units(codes[codes >= 0], offsets, self.now[heads], how, stage, which[begins] // STAGES, began, began)
        return units, int(self.number[0]) - len(places) + 1 + begins


def empty(size: int) -> Window:
    """A window without transitions.

    Examples
    --------
    >>> window = empty(3)
    >>> window.push(np.array([0, 1, 2, 3], np.int32), np.array([1, 2, 3, 4], np.int32))
    >>> window.after(2)
    (array([2, 3], dtype=int32), array([3, 4], dtype=int32))
    """
    now, following = np.zeros((2, size), np.int32)
    unit, began = np.zeros((2, size), np.int64)
    return Window(now, following, unit, began, np.zeros(1, np.int64))
