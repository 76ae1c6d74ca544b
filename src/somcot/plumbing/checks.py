"""Validation of user input: numbers, labels, distributions and transition kernels."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Integral
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.plumbing.arrays import Array, Floats
from somcot.plumbing.notes import Note

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "check_confidence",
    "check_count",
    "check_discount",
    "check_finite",
    "check_flag",
    "check_kind",
    "check_labels",
    "check_names",
    "check_sequence",
    "check_text",
    "from_frame",
    "is_missing",
    "is_real",
    "is_sparse_enough",
    "not_sparse",
    "real_array",
    "rectangular_matrix",
    "refuse_masks",
    "square_matrix",
    "stochastic",
]


# --- Checks of arguments; every message names the argument, the position, the value and the remedy.


_MOST = 10**9  # elements of a range
_SEEDS = 1000  # numbers that one seed may have


def real_array(name: str, values: object, ndim: int) -> Floats:
    """Convert `values` to a new float64 array of `ndim` dimensions with finite entries."""
    refuse_masks(name, values)
    refuse_endless(name, values)
    if hasattr(values, "tocsr"):
        raise TypeError(f"{name}: found a sparse {type(values).__name__}, expected a full array; pass its .toarray()")
    try:
        array = np.asarray(values)
    except ValueError as error:
        # NumPy raises ValueError for ragged rows.
        raise ValueError(f"{name}: rows have different lengths; pass a rectangular array") from error
    if array.dtype.kind not in "biuf":
        array = _from_objects(name, array)
    if array.ndim != ndim:
        raise ValueError(f"{name}: found {array.ndim} dimension(s), shape {array.shape}, expected {ndim}")
    with np.errstate(over="ignore"):
        # `order="C"`: kernels are compiled for contiguous arrays only.
        array = np.array(array, dtype=np.float64, order="C")
    check_finite(name, array)
    return array


def real_numbers(name: str, values: Any) -> Floats:
    """Convert `values` to a float64 array of any shape; NaN and infinity are allowed."""
    refuse_endless(name, values)
    try:
        return np.asarray(not_sparse(name, values), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name}: found {type(values).__name__}, expected real numbers") from None


def refuse_masks(name: str, values: object) -> None:
    """Refuse masked entries, which other functions would treat as numbers."""
    # Without this module, which takes as long to import as all of NumPy, nothing is masked.
    if "numpy.ma" in sys.modules and isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        n = int(np.ma.getmaskarray(values).sum())
        raise ValueError(f"{name}: found masked entries ({n}); fill them, or split the data there")


def is_missing(label: object) -> bool:
    """Whether a label is missing: None, NaN of any kind, pandas' NA and NaT; also NaN within a tuple.

    Examples
    --------
    >>> is_missing(None), is_missing((0, float("nan"))), is_missing("nan")
    (True, True, False)
    """
    if isinstance(label, tuple):
        return any(part is not None and is_missing(part) for part in label)
    if isinstance(label, Decimal):
        return label.is_nan()
    if isinstance(label, (float, complex, np.inexact)):
        return bool(label != label)  # NaN is the only number that differs from itself
    # By class name: pandas' NA and NaT cannot be compared, and pandas need not be installed.
    return label is None or type(label).__name__ in ("NAType", "NaTType")


def check_flag(name: str, value: object) -> bool:
    """Check that a value is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: found {value!r}, expected True or False")
    return bool(value)


def check_text(name: str, value: object, *choices: str) -> str:
    """Check that a value is text, and one of the choices if there are any."""
    # Before any comparison: frames and arrays compare entry by entry, or not at all.
    if not isinstance(value, str):
        expected = " or ".join(map(repr, choices)) or "text"
        raise TypeError(f"{name}: found {type(value).__name__}, expected {expected}")
    if choices and value not in choices:
        raise ValueError(f"{name}: found {value!r}, expected {' or '.join(map(repr, choices))}")
    return value


def check_kind(name: str, value: object, *kinds: type) -> None:
    """Check that a value is of one of the classes."""
    if not isinstance(value, kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name}: found {type(value).__name__}, expected {expected}")


def check_names(name: str, values: object, n: int | None = None) -> tuple[str, ...]:
    """Check that a value is a sequence of texts, `n` of them if that is given."""
    found = check_sequence(name, values)
    if (n is not None and len(found) != n) or not all(isinstance(one, str) for one in found):
        raise TypeError(f"{name}: found {found!r}, expected {'' if n is None else f'{n} '}texts")
    return found


def not_sparse(name: str, values: Any) -> Any:
    """The values themselves; refuses sparse arrays, some of which fail only when they are iterated."""
    if hasattr(values, "tocsr"):
        raise TypeError(f"{name}: found a sparse {type(values).__name__}, expected a sequence; pass its .toarray()")
    return values


def check_sequence(name: str, values: Any) -> tuple[Any, ...]:
    """The elements of an iterable that is neither text nor a sparse array."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable) or hasattr(values, "tocsr"):
        raise TypeError(f"{name}: found {type(values).__name__}, expected a sequence")
    refuse_endless(name, values)
    try:
        return tuple(values)
    except TypeError:  # classes, and arrays without a dimension, only look like iterables
        raise TypeError(f"{name}: found {type(values).__name__}, expected a sequence") from None


def refuse_endless(name: str, values: object) -> None:
    """Refuse a range that no memory holds, before it is iterated."""
    if isinstance(values, range) and values[_MOST:]:
        raise ValueError(f"{name}: found {values!r}, expected at most {_MOST:,} elements")


def _from_objects(name: str, array: Array) -> Array:
    """Convert Python objects (Decimal, Fraction, None) to floats; refuse text and complex numbers."""
    if array.dtype.kind == "O":
        try:
            return array.astype(np.float64)
        except OverflowError:
            raise ValueError(f"{name}: found a number too large for floating point; rescale") from None
        except (TypeError, ValueError):
            pass
    raise TypeError(f"{name}: found entries of type {array.dtype}, expected real numbers")


def check_finite(name: str, array: Floats) -> None:
    """Refuse NaN and infinity, naming the first position and the count."""
    finite = np.isfinite(array)
    if not finite.all():
        bad = ~finite
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        where = place[0] if len(place) == 1 else place
        raise ValueError(
            f"{name}: entry {where} is {array[place]}, {int(bad.sum())} of {array.size} entries are not finite; "
            "remove or replace them"
        )


def check_discount(discount: Any, expected: str = "a number strictly between 0 and 1, such as 0.95") -> float:
    """Refuse a discount outside the open interval (0, 1)."""
    try:
        value = check_number("discount", discount)
    except TypeError:
        raise TypeError(f"discount: found {discount!r}, expected {expected}") from None
    if not 0.0 < value < 1.0:
        raise ValueError(f"discount: found {value}, expected {expected}")
    return value


def is_real(value: object) -> bool:
    """Whether a value is a real number of Python or NumPy; NumPy counts durations among its integers."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, np.timedelta64)


def check_confidence(confidence: object) -> None:
    """Refuse a level that is neither None nor strictly between 0 and 1."""
    if confidence is None:
        return
    if not is_real(confidence) or not 0.0 < confidence < 1.0:  # type: ignore[operator]
        raise ValueError(f"confidence: found {confidence!r}, expected a level between 0 and 1, such as 0.9")


def check_count(name: str, value: Any, at_least: int = 1, at_most: int | None = None) -> int:
    """Check that a value is an integer from `at_least` to `at_most`."""
    try:
        # `operator.index` accepts NumPy integers and refuses 3.0, which may be a result of rounding.
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: found {value!r}, expected a whole number") from None
    # True is an integer for Python; as a count it is a mistake.
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: found {value!r}, expected a whole number")
    if count < at_least:
        raise ValueError(f"{name}: found {shown_count(count)}, expected at least {at_least}")
    if at_most is not None and count > at_most:
        raise ValueError(f"{name}: found {shown_count(count)}, expected at most {at_most:,}")
    return count


def check_indices(name: str, values: Any, n: int) -> NDArray[np.int64]:
    """Check that values are indices below `n`, or one truth value for each of `n`."""
    array = np.asarray(check_sequence(name, values) if not isinstance(values, np.ndarray) else values)
    if array.ndim == 1 and array.dtype.kind == "b" and len(array) == n:
        return np.flatnonzero(array)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise TypeError(f"{name}: found {type(values).__name__}, expected a sequence of indices")
    if array.size and not (-n <= int(array.min()) and int(array.max()) < n):
        raise ValueError(f"{name}: found index {int(array.max())}, expected indices below {n}")
    return array.astype(np.int64)


def shown_count(count: int) -> str:
    """An integer as text; Python refuses to convert those with thousands of digits."""
    return f"{count}" if abs(count) < 10**30 else f"a number of some {int(count.bit_length() * math.log10(2))} digits"


def check_number(name: str, value: Any) -> float:
    """Check that a value is a real number."""
    try:
        # float("1") would succeed; numbers as text are usually a mistake in reading a file.
        return float("text" if isinstance(value, (str, bytes)) else value)
    except OverflowError:
        raise ValueError(f"{name}: found a number too large for floating point; rescale") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name}: found {value!r}, expected a number") from None


def check_positive(name: str, value: object) -> float:
    """Check that a value is a finite number above 0."""
    number = check_number(name, value)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{name}: found {number}, expected a finite number above 0")
    return number


def check_rng(rng: Any) -> np.random.Generator:
    """A generator from a seed, or the generator itself; None for a new one."""
    try:
        # NumPy follows nested lists as deep as they go, and crashes in one that contains itself.
        if isinstance(rng, Sequence) and not (len(rng) <= _SEEDS and all(isinstance(one, Integral) for one in rng)):
            raise TypeError
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise TypeError(
            f"rng: found {rng!r}, expected a whole number of at least 0, a numpy.random.Generator, or None"
        ) from None


def check_labels(
    name: str, labels: Iterable[Hashable], n: int | None = None, what: str = "state"
) -> tuple[Hashable, ...]:
    """Convert labels of states (or of `what`) to a tuple; refuse wrong counts, repeated and NaN labels."""
    if isinstance(labels, (str, bytes)):
        raise TypeError(f"{name}: found the text {labels!r}, expected a sequence with one label per {what}")
    if not isinstance(not_sparse(name, labels), Iterable):
        raise TypeError(f"{name}: found {labels!r}, expected a sequence with one label per {what}")
    refuse_endless(name, labels)
    # NumPy scalars become Python's, so that labels compare, print and serialise alike wherever they came from.
    checked = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
    if n is not None and len(checked) != n:
        raise ValueError(f"{name}: found {len(checked)} labels for {n} {what}s; give exactly one per {what}")
    seen: set[Hashable] = set()
    for i, label in enumerate(checked):
        if is_missing(label):
            shown = "NaN" if isinstance(label, float) else repr(label)
            raise ValueError(f"{name}: label {i} is {shown}; give every {what} a name")
        try:
            repeated = label in seen
        except TypeError:
            raise TypeError(f"{name}: label {i} is {label!r}, which is not hashable; use a tuple or text") from None
        if repeated:
            raise ValueError(f"{name}: label {label!r} appears more than once; labels must be distinct")
        seen.add(label)
    return checked


def probability_vector(name: str, values: ArrayLike, labels: tuple[Hashable, ...], *, normalize: bool) -> Floats:
    """Check a distribution over the states and normalise it; its sum must be 1 within 1e-8."""
    vector = real_array(name, values, 1)
    if vector.size != len(labels):
        raise ValueError(f"{name}: found {vector.size} probabilities for {len(labels)} states")
    negative = np.flatnonzero(vector < 0)
    if negative.size:
        i = int(negative[0])
        raise ValueError(f"{name}: the probability of state {labels[i]!r} is {vector[i]:.6g}, expected at least 0")
    total = float(vector.sum())
    # A sum off by 1e-8 is rounding in the user's file; more is a mistake that `normalize` must confirm.
    if total <= 0 or not (normalize or abs(total - 1) <= 1e-8):
        if total > 0:
            raise ValueError(Note("row-sum", name, what="probabilities sum to", total=total, more=""))
        remedy = "give at least one state a positive probability"
        raise ValueError(f"{name}: probabilities sum to {total:.10g}, expected 1; {remedy}")
    return vector / total


def check_start_law(initial: Any, labels: tuple[Hashable, ...], *, normalize: bool) -> Floats:
    """A distribution over the states from a label, an index, probabilities, or labels with probabilities."""
    if isinstance(initial, Mapping):
        unknown = [label for label in initial if label not in labels]
        if unknown:
            raise ValueError(f"initial: {_some(unknown)} not among the states {_some(labels)}")
        initial = [initial.get(label, 0.0) for label in labels]
    # A tuple is ambiguous: a label if the states contain it, otherwise probabilities.
    is_vector = not isinstance(initial, (str, bytes, tuple)) and np.ndim(initial) == 1
    if is_vector or (isinstance(initial, tuple) and initial not in labels):
        return probability_vector("initial", initial, labels, normalize=normalize)
    distribution = np.zeros(len(labels))
    distribution[state_index("initial", initial, labels)] = 1.0
    return distribution


def state_index(name: str, state: Any, labels: tuple[Hashable, ...]) -> int:
    """Position of a label, or of an index when no label matches."""
    if isinstance(state, np.generic):
        state = state.item()
    if not isinstance(state, Hashable):  # lists, arrays and frames, which cannot be compared with labels
        raise ValueError(f"{name}: found {type(state).__name__}, which is not a state; the states are {_some(labels)}")
    # 1 == True in Python: the type decides whether True is meant as the label True or the label 1.
    if state in labels and (type(labels[labels.index(state)]) is bool or not isinstance(state, bool)):
        return labels.index(state)
    try:
        i = operator.index(cast("SupportsIndex", state))
    except TypeError:
        i = -1
    if isinstance(state, bool) or not 0 <= i < len(labels):
        remedy = "; use stationary() for that distribution" if name == "initial" and state == "stationary" else ""
        raise ValueError(f"{name}: {state!r} is not a state; the states are {_some(labels)}{remedy}")
    return i


def _some(labels: Sequence[Hashable]) -> str:
    return ", ".join(repr(label) for label in labels[:5]) + (", ..." if len(labels) > 5 else "")


# --- Transition kernels from arrays, sparse matrices and labelled frames.

ROW_TOLERANCE = 1e-8
DENSE_LIMIT = 200  # states up to which a matrix is stored in full


def is_sparse_enough(n: int, n_entries: int) -> bool:
    """Whether an (n, n) matrix with this many nonzero entries is better stored sparse."""
    return n > DENSE_LIMIT and n_entries < 0.1 * n * n


def from_frame(frame: Any, states: Iterable[Hashable] | None) -> tuple[Any, Iterable[Hashable] | None]:
    """The matrix and states of a labelled frame, with its columns in the order of its index."""
    rows, columns = list(frame.index), list(frame.columns)
    # The usual case, without building sets of labels.
    if rows == columns:
        return frame.to_numpy(), rows if states is None else states
    if set(rows) != set(columns) or len(rows) != len(columns):
        raise ValueError("transition: the frame's rows and columns have different labels; give both the same states")
    return frame[rows].to_numpy(), rows if states is None else states


def square_matrix(transition: object, name: str = "transition") -> Floats | csr_array:
    """A new square float matrix, dense or CSR, with finite entries."""
    matrix = _matrix(name, transition)
    rows, columns = matrix.shape
    if rows != columns or rows == 0:
        raise ValueError(f"{name}: shape is {(rows, columns)}, expected a square matrix with at least one state")
    return matrix


def rectangular_matrix(name: str, transition: object) -> Floats | csr_array:
    """A new float matrix of any shape, dense or CSR, with finite entries."""
    matrix = _matrix(name, transition)
    if 0 in matrix.shape:
        raise ValueError(f"{name}: shape is {matrix.shape}, expected at least one state before and after")
    return matrix


def _matrix(name: str, transition: Any) -> Floats | csr_array:
    if not hasattr(transition, "tocsr"):
        return real_array(name, transition, 2)
    from scipy.sparse import csr_array

    if transition.ndim != 2:
        raise ValueError(f"{name}: found {transition.ndim} dimension(s), shape {transition.shape}, expected 2")
    if transition.dtype.kind not in "biuf":
        raise TypeError(f"{name}: found entries of type {transition.dtype}, expected real numbers")
    # A copy, because duplicates are summed and rows normalised in place below.
    matrix = csr_array(transition, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    _check_finite_entries(name, matrix)
    return matrix


def _check_finite_entries(name: str, matrix: csr_array) -> None:
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if len(bad):
        k = int(bad[0])
        place = int(np.searchsorted(matrix.indptr, k, side="right")) - 1, int(matrix.indices[k])
        raise ValueError(
            f"{name}: entry {place} is {matrix.data[k]}, {len(bad)} of {matrix.nnz} stored entries are not finite; "
            "remove or replace them"
        )


def stochastic(
    matrix: Floats | csr_array,
    labels: tuple[Hashable, ...],
    *,
    normalize: bool,
    name: str = "transition",
    labels_to: tuple[Hashable, ...] | None = None,
) -> Floats | csr_array:
    """Refuse negative entries and rows that do not sum to 1, then divide each row by its sum.

    `labels_to` are the labels of the columns, if they are other states.
    """
    values = matrix if isinstance(matrix, np.ndarray) else matrix.data
    if values.size and values.min() < 0:
        coo = np.argwhere(matrix < 0) if isinstance(matrix, np.ndarray) else np.transpose((matrix < 0).nonzero())
        i, j = (int(k) for k in coo[0])
        raise ValueError(
            f"{name}: the probability of going from state {labels[i]!r} to {(labels_to or labels)[j]!r} is "
            f"{matrix[i, j]:.6g}, "
            "expected at least 0"
        )
    with np.errstate(over="ignore"):
        sums = np.asarray(matrix.sum(axis=1)).ravel()
    if not np.isfinite(sums).all():
        raise ValueError(f"{name}: the sum of a row is too large for floating point; rescale")
    # Written with a negation, so that NaN counts as wrong.
    wrong = np.flatnonzero(sums <= 0 if normalize else ~(np.abs(sums - 1) <= ROW_TOLERANCE))
    if wrong.size:
        i = int(wrong[0])
        more = f" ({wrong.size} such rows)" if wrong.size > 1 else ""
        what, total = f"row of state {labels[i]!r} sums to", float(sums[i])
        if total > 0:
            raise ValueError(Note("row-sum", name, what=what, total=total, more=more))
        remedy = "add transitions, such as one to itself if the state is absorbing"
        raise ValueError(f"{name}: {what} {total:.10g}, expected 1{more}; {remedy}")
    if isinstance(matrix, np.ndarray):
        matrix /= sums[:, None]
        matrix.setflags(write=False)  # chains and results share it
    else:
        matrix.data /= np.repeat(sums, np.diff(matrix.indptr))
        matrix.eliminate_zeros()
        matrix.sort_indices()
        matrix.data.setflags(write=False)
    return matrix


def check_client(client: Any) -> None:
    """Check that a value is a connected, synchronous client."""
    if not all(hasattr(client, name) for name in ("submit", "scheduler_info", "status")):
        raise TypeError(f"client: found {type(client).__name__}, expected a dask.distributed.Client")
    if client.status != "running":
        raise ValueError(f"client: its status is {client.status!r}; pass one that is connected to a scheduler")
    if getattr(client, "asynchronous", False):
        raise ValueError("client: it is asynchronous; pass one made with asynchronous=False")
