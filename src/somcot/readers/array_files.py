"""Discrete trajectories of molecular kinetics (deeptime, PyEMMA) and estimated models, in memory or in NumPy files."""

from __future__ import annotations

import ast
import io
import os
import zipfile
import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.chains import FITTED, MarkovChain
from somcot.plumbing.arrays import Ints
from somcot.plumbing.checks import check_count, check_flag, not_sparse, real_array, refuse_masks
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.memory import memory_limit, require
from somcot.plumbing.notes import Note
from somcot.readers.compression import is_packed
from somcot.readers.episodes import join
from somcot.readers.opening import Input, identify, open_bytes, whole
from somcot.readers.tables import Array
from somcot.recorded import transforms as changes
from somcot.recorded.counts import Start
from somcot.recorded.stationary import is_stationary_start, stationary_distribution
from somcot.samples import Samples
from somcot.timed import ContinuousChain

__all__ = [
    "from_dtrajs",
    "from_model",
    "load_arrays",
    "note_removed",
    "read_arrays",
    "read_baseline",
]


# --- NumPy files, checked before they are read: no pickles, no zip bombs, no false headers

_SUSPICIOUS = 100e6  # bytes: below this, a high compression ratio is harmless
_RATIO = 200


def load_arrays(source: Input) -> dict[str, Array]:
    """All arrays of a .npy or .npz file, checked before they are read."""
    try:
        if source.format == "npy":
            with open_bytes(source) as stream:
                # The header is checked against the size of the file, which is unknown for packed files and pipes.
                size = None if source.path is None or is_packed(stream) else source.path.stat().st_size
                return {"": _read_npy(source.name, stream, size)}
        with open_bytes(source) as stream:
            return _read_npz(source.name, stream if source.path is not None else whole(source, memory_limit()))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, UnicodeDecodeError, zlib.error) as error:
        raise ValueError(f"{source.name}: not a readable .npz archive ({error}); save or copy it again") from None
    except (EOFError, OSError) as error:
        raise ValueError(f"{source.name}: cut short or damaged ({error}); save or copy it again") from None


def _read_npz(name: str, stream: IO[bytes]) -> dict[str, Array]:
    with zipfile.ZipFile(stream) as archive:
        members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
        if not members:
            raise ValueError(f"{name}: the archive contains no array; write it with numpy.savez")
        unpacked, packed = (float(sum(getattr(m, what) for m in members)) for what in ("file_size", "compress_size"))
        if unpacked > _SUSPICIOUS and unpacked > _RATIO * packed:
            raise ValueError(
                f"{name}: {packed / 1e6:.3g} MB claim to unpack into {unpacked / 1e6:,.0f} MB, which looks like a zip "
                "bomb; if it is yours, save it uncompressed with numpy.savez"
            )
        require(unpacked, name, "split the file")
        arrays = {}
        for member in members:
            with archive.open(member) as entry:
                label = member.filename.removesuffix(".npy")
                arrays[label] = _read_npy(f"{name}: array {label!r}", entry, member.file_size)
        return arrays


def _read_npy(name: str, stream: IO[bytes], size: int | None) -> Array:
    """One array, after its header has been checked against the number of available bytes."""
    try:
        head = stream.read(10)
        if head[:6] != b"\x93NUMPY":
            raise ValueError("it does not begin with the signature of a NumPy file")
        # Version 1 of the format has two bytes for the length of the header, later ones four.
        width = 2 if head[6] == 1 else 4
        prefix = head if width == 2 else head + stream.read(2)
        length = int.from_bytes(prefix[8 : 8 + width], "little")
        # NumPy's own limit (max_header_size), beyond which literal_eval could exhaust the stack.
        if length > 10_000:
            raise ValueError(f"its header claims {length:,} bytes")
        text = stream.read(length)
        header = ast.literal_eval(text.decode("latin-1").strip())
        dtype = np.lib.format.descr_to_dtype(header["descr"])
        # As floats, since a product of claimed sizes could overflow to something small.
        n_bytes = int(np.prod([1.0, *header["shape"]])) * dtype.itemsize
        if n_bytes < 0:
            raise ValueError(f"its header claims the shape {header['shape']}")
    except (
        ValueError,
        SyntaxError,
        KeyError,
        TypeError,
        IndexError,
        OverflowError,
        RecursionError,
        MemoryError,
    ) as error:
        raise ValueError(f"{name}: not a readable NumPy file ({error}); write it with numpy.save") from None
    if dtype.hasobject:
        raise ValueError(
            f"{name}: holds pickled Python objects, which are never loaded; save lists of integer arrays "
            "with numpy.savez, one array each"
        )
    if size is not None and n_bytes > size:
        raise ValueError(f"{name}: its header claims {n_bytes:,} bytes, more than the file has; save or copy it again")
    require(n_bytes, name, "split the file")
    data = stream.read(n_bytes)
    if len(data) < n_bytes:
        raise ValueError(f"{name}: cut short, {len(data):,} of {n_bytes:,} bytes; save or copy it again")
    try:
        # Through np.load with the checked bytes, so that byte orders and Fortran order are NumPy's business.
        return np.asarray(np.load(io.BytesIO(prefix + text + data), allow_pickle=False))
    except (ValueError, TypeError, OverflowError) as error:  # a shape such as (0, 10**30) needs no bytes
        raise ValueError(f"{name}: not a readable NumPy file ({error}); write it with numpy.save") from None


# --- Discrete trajectories of molecular kinetics (deeptime, PyEMMA) and estimated models

_MATRIX_NAMES = ("transition_matrix", "transition", "P", "T")

Arrays: TypeAlias = Any  # one array, or several


def from_dtrajs(
    dtrajs: Arrays,
    *,
    lag: int = 1,
    sliding: bool = False,
    states: Iterable[Hashable] | None = None,
    initial: Hashable | ArrayLike | None = None,
    connected: bool = False,
    source: str = "dtrajs",
) -> Samples:
    """Count steps of `lag` frames in discrete trajectories.

    Parameters
    ----------
    dtrajs : array of int or list of such
        One state number per frame; -1 (any negative number) means unassigned and splits the trajectory.
    lag : int
        Frames per step.
    sliding : bool
        Count steps from every frame. By default only from every `lag`-th frame: the others add little information, and
        intervals that treat them as independent are too narrow. `somcot.distance` warns about that.
    states : sequence of hashable, optional
        A label for each state number; by default the numbers.
    initial : label, mapping, array_like or "stationary", optional
        The initial distribution, as for `Samples.from_trajectories`. Trajectories begin where the simulation was
        started; ``"stationary"`` compares the processes in their stationary distributions instead.
    connected : bool
        Keep the largest strongly connected set of observed states (`Samples.connected`), and report what is left
        out.
    source : str
        Name of the data in messages.

    Examples
    --------
    >>> samples = from_dtrajs([[0, 0, 1, -1, 1, 0], [1, 1, 0]])
    >>> samples.counts().tolist(), samples.n_episodes
    ([[1, 1], [2, 1]], 3)
    >>> from_dtrajs([[0, 1, 2, 0, 1, 2, 0]], lag=3).counts().tolist()
    [[2]]
    """
    lag = check_count("lag", lag)
    check_flag("sliding", sliding)
    pieces = [piece for trajectory in _trajectories(source, dtrajs) for piece in _pieces(trajectory, lag, sliding)]
    if not pieces:
        raise ValueError(
            f"{source}: no trajectory is longer than the lag of {lag} frame(s); lower lag or record longer"
        )
    flat = np.concatenate(pieces)
    begins = np.cumsum([0, *(len(piece) for piece in pieces[:-1])])
    # Only the numbers that occur become states: clusterings often leave gaps.
    numbers = np.unique(flat)
    codes = np.searchsorted(numbers, flat)
    # Remembered, because overlapping steps are not independent and intervals must warn.
    overlap = lag if sliding else 1
    labels = tuple(numbers.tolist()) if states is None else tuple(not_sparse("states", states))
    if states is not None and numbers[-1] >= len(labels):
        raise ValueError(
            f"states: found {len(labels)} labels, the largest state number is {numbers[-1]}; name them all"
        )
    steps = replace(join(codes if states is None else flat, begins, labels, source=source), overlap=overlap, lag=lag)
    if check_flag("connected", connected):
        steps = changes.connected(steps, source)
    return steps.with_start(initial)


_INSTEAD = {  # what other objects of deeptime have, and what to do with them
    "coarse_grained_transition_matrix": "; pass MarkovChain(model.coarse_grained_transition_matrix, "
    "model.coarse_grained_stationary_probability)",
    "prior": "; pass model.prior, or both posteriors to msm.posterior_distances",
}


def from_model(
    model: object, *, initial: Hashable | ArrayLike | None = None, states: Iterable[Hashable] | None = None
) -> MarkovChain:
    """Convert an estimated model to a chain: any object with a ``transition_matrix``, such as deeptime's.

    Parameters
    ----------
    model : object
        With ``transition_matrix``, dense or sparse.
    initial : state or array_like, optional
        Initial distribution; by default the model's ``stationary_distribution``, otherwise uniform.
    states : sequence of hashable, optional
        Labels; by default the state numbers of the model's ``count_model``, otherwise 0, 1, ... Such numbers are
        kept as the attribute ``"cluster"``, and comparing them by the cost "labels" gives a warning.

    Returns
    -------
    MarkovChain
        Taken as known. If the model has a ``count_model``, it was estimated, and distances of the chain say that they
        have no sampling error; `from_dtrajs` of the trajectories has one.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(transition_matrix=[[0.9, 0.1], [0.3, 0.7]], stationary_distribution=[0.75, 0.25])
    >>> from_model(model).initial
    array([0.75, 0.25])
    """
    matrix = getattr(model, "transition_matrix", None)
    if matrix is None:
        instead = next((text for name, text in _INSTEAD.items() if hasattr(model, name)), "")
        raise TypeError(f"model: found {type(model).__name__}, expected an object with .transition_matrix{instead}")
    n = matrix.shape[0] if hasattr(matrix, "shape") else len(matrix)
    attributes: dict[str, Sequence[object]] = {}
    counted = getattr(model, "count_model", None)
    if counted is not None or getattr(model, "lagtime", 1) not in (None, 1):  # 1 is the default of models made by hand
        attributes[FITTED] = _recorded_transitions(counted, n)
    if states is None:
        symbols = getattr(counted, "state_symbols", None)
        # A submodel keeps the numbers of its states; if they do not fit, plain numbers are better than wrong ones.
        states = None if symbols is None or len(symbols) != n else np.asarray(symbols).tolist()
        # Marks numbers that a clustering chose: `costs.between` warns before it compares them as names.
        attributes["cluster"] = list(range(n)) if states is None else list(states)
    if initial is None:
        initial = getattr(model, "stationary_distribution", None)
    even = np.full(n, 1.0 / max(n, 1))
    if is_stationary_start(initial, states or ()):
        initial = stationary_distribution(MarkovChain(matrix, even, states=states))
    return MarkovChain(matrix, even if initial is None else initial, states=states, attributes=attributes or None)


def _recorded_transitions(counted: object, n: int) -> list[float | None]:
    """The number of transitions out of each of `n` states; None where a count model does not tell."""
    counts: Any = getattr(counted, "count_matrix", None)
    if getattr(counts, "shape", None) != (n, n):
        return [None] * n
    return [float(number) for number in np.asarray(counts.sum(axis=1)).ravel()]


def read_arrays(
    path: str | os.PathLike[str] | Input,
    *,
    lag: int = 1,
    sliding: bool = False,
    initial: Hashable | ArrayLike | None = None,
    connected: bool = False,
    format: str | None = None,  # noqa: A002
) -> Samples | MarkovChain | ContinuousChain:
    """Read a .npy or .npz file: trajectories of integers, or a chain.

    A square matrix of fractions is a transition matrix; in a .npz file it is called ``transition_matrix`` and may
    be accompanied by ``initial`` and ``states``. A matrix with a negative diagonal holds the rates of a chain in
    continuous time; in a .npz file it is called ``rates``. All other arrays are trajectories: one per one-dimensional
    array, one per row of a two-dimensional array.

    Files are checked before they are read: pickled objects are refused, as are archives that claim to unpack
    into more than they plausibly contain or than fits into memory.

    Examples
    --------
    >>> import tempfile
    >>> file = tempfile.NamedTemporaryFile(suffix=".npz")
    >>> np.savez(file, run1=[0, 0, 1], run2=[1, 0, 1, 1])
    >>> read_arrays(file.name)
    Samples(2 states, 5 transitions, 2 episodes)
    """
    source = path if isinstance(path, Input) else identify(path, format)
    arrays = load_arrays(source)
    # Before kernels: a matrix of rates is square as well, and rows that sum to 0 would be refused as a kernel.
    rates = arrays.get("rates", next(iter(arrays.values())) if len(arrays) == 1 else None)
    if rates is not None and ("rates" in arrays or _are_rates(rates)):
        return _in_continuous_time(source, rates, arrays, initial)
    matrix = next((arrays[name] for name in _MATRIX_NAMES if name in arrays), None)
    if matrix is None and len(arrays) == 1 and _is_kernel(only := next(iter(arrays.values()))):
        matrix = only
    if matrix is None:
        trajectories = _trajectories(source.name, [_as_list(source, name, a) for name, a in arrays.items()])
        note_removed(source.name, [trajectory < 0 for trajectory in trajectories])
        return from_dtrajs(
            trajectories, lag=lag, sliding=sliding, initial=initial, connected=connected, source=source.name
        )
    several = [name for name in _MATRIX_NAMES if name in arrays]
    if len(several) > 1:
        raise ValueError(f"{source.name}: holds several chains, {' and '.join(several)}; save each in a separate file")
    if check_count("lag", lag) > 1 or check_flag("sliding", sliding):
        warn(Note("lag-not-applicable", "lag, sliding", source=source.name), DataWarning)
    try:
        return _chain(matrix, arrays, initial)
    except (TypeError, ValueError) as error:
        note = error.args[0]
        if isinstance(note, Note) and note.code == "row-sum":  # normalize cannot be passed for a file
            raise ValueError(Note("file-row-sum", note.about, **note.values).within(source.name)) from None
        raise ValueError(f"{source.name}: {error}") from None


def _chain(matrix: Array, arrays: Mapping[str, Array], initial: Start) -> MarkovChain:
    start = arrays.get("initial") if initial is None else initial
    states = arrays.get("states")
    labels = None if states is None else states.tolist()
    real_array("transition_matrix", matrix, 2)
    even = np.full(len(matrix), 1.0 / max(len(matrix), 1))
    if is_stationary_start(start, labels or ()):
        start = stationary_distribution(MarkovChain(matrix, even, states=labels))
    return MarkovChain(matrix, even if start is None else start, states=labels)


def _in_continuous_time(source: Input, rates: Array, arrays: Mapping[str, Array], initial: Start) -> ContinuousChain:
    start, states = arrays.get("initial") if initial is None else initial, arrays.get("states")
    labels = None if states is None else states.tolist()
    try:
        if is_stationary_start(start, labels or ()):
            jumps = ContinuousChain(rates, np.full(len(rates), 1.0 / max(len(rates), 1)), states=labels)
            # Twice the largest exit rate leaves a self-loop in every state, so that no periodicity is introduced.
            start = stationary_distribution(jumps.uniformised(2.0 * float(jumps.exits.max()) or 1.0))
        even = np.full(len(rates), 1.0 / max(len(rates), 1))
        return ContinuousChain(rates, even if start is None else start, states=labels)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source.name}: {error}") from None


def _are_rates(array: Array) -> bool:
    square = array.ndim == 2 and array.shape[0] == array.shape[1] and array.dtype.kind in "fi"
    return bool(square and (np.diagonal(array) <= 0).all() and (np.diagonal(array) < 0).any() and len(array) > 1)


def _is_kernel(array: Array) -> bool:
    return array.ndim == 2 and array.shape[0] == array.shape[1] and array.dtype.kind == "f"


def _as_list(source: Input, name: str, array: Array) -> Array:
    if array.ndim not in (1, 2) or array.dtype.kind not in "iuf":
        place = f"{source.name}: array {name!r}" if name else source.name
        if array.dtype.kind == "f":
            raise ValueError(Note("not-trajectories", place, n=array.ndim, dtype=str(array.dtype)))
        raise ValueError(
            f"{place} has {array.ndim} dimension(s) of {array.dtype}, expected trajectories: one or two dimensions of "
            "whole numbers"
        )
    return array


def _trajectories(source: str, dtrajs: Arrays) -> list[Ints]:
    if isinstance(dtrajs, (str, bytes)):
        raise TypeError(f"{source}: found text, expected arrays of whole numbers; read files with read_arrays")
    if not hasattr(dtrajs, "__iter__"):
        raise TypeError(
            f"{source}: found {type(dtrajs).__name__}, expected arrays of whole numbers, one per trajectory"
        )
    refuse_masks(source, dtrajs)
    items = [dtrajs] if getattr(dtrajs, "ndim", 0) == 1 else list(not_sparse("dtrajs", dtrajs))
    # A plain list of numbers is one trajectory, a list of lists several.
    if items and all(np.ndim(item) == 0 for item in items):
        items = [items]
    trajectories: list[Ints] = []
    for i, trajectory in enumerate(items):
        refuse_masks(f"{source}: trajectory {i}", trajectory)
        array = np.asarray(trajectory)
        rows = [array] if array.ndim == 1 else list(array) if array.ndim == 2 else None
        if rows is None:
            raise ValueError(f"{source}: trajectory {i} has {array.ndim} dimensions, expected one or two")
        trajectories += [_whole(source, i, row) for row in rows]
    return trajectories


def _whole(source: str, i: int, array: Array) -> Ints:
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{source}: trajectory {i} holds {array.dtype}, expected whole numbers; use from_trajectories")
    if array.dtype.kind == "f":
        bad = ~np.isfinite(array) | (array != np.floor(array))
        if bad.any():
            place = int(bad.argmax())
            values = {"i": i, "frame": place, "value": str(array[place]), "n": int(bad.sum())}
            raise ValueError(Note("frames-not-whole", source, **values))
    if array.dtype.kind == "u" and array.size and array.max() >= 2**63:
        raise ValueError(f"{source}: trajectory {i} holds state number {array.max()}, expected numbers below 2^63")
    return array.astype(np.int64)


def note_removed(source: str, absent: Iterable[NDArray[np.bool_]]) -> None:
    """Report frames without a state, and how many times they split a recording; `absent` marks those of each."""
    n = cuts = 0
    for one in absent:
        n += int(np.count_nonzero(one))
        # Runs of frames with a state begin where the one before has none; the first run splits nothing.
        cuts += max(int(np.count_nonzero(~one & np.append(True, one[:-1]))) - 1, 0) if len(one) else 0
    if n:
        warn(Note("rows-removed", source, n=n, state="state", cuts=cuts), DataWarning)


def _pieces(trajectory: Ints, lag: int, sliding: bool) -> list[Ints]:
    """Runs without unassigned frames, taken every `lag` frames; runs without a step are left out."""
    # Frames below 0 are unassigned. A step across them would connect states that were not seen in sequence.
    cuts = np.flatnonzero(trajectory < 0)
    runs = [run[run >= 0] for run in np.split(trajectory, cuts)]
    offsets = range(lag) if sliding else range(1)
    # With a sliding window each of the `lag` offsets is a sequence of its own.
    return [run[k::lag] for run in runs for k in offsets if len(run) > k + lag]


def read_baseline(
    path: str | os.PathLike[str] | Input,
    *,
    terminated: bool | str = False,
    format: str | None = None,  # noqa: A002
) -> Samples:
    """Read a recording written by `Samples.save` or ``somcot baseline``, with the attributes of its sequences.

    Parameters
    ----------
    path : path
    terminated : bool or str
        True: all sequences terminated. Otherwise as recorded; the name of a column is for tables only.
    format : {"somcot"}, optional

    Examples
    --------
    >>> import tempfile
    >>> file = tempfile.mkdtemp() + "/baseline.somcot"
    >>> Samples.from_trajectories([["a", "b"], ["b", "b", "a"]]).save(file)
    >>> read_baseline(file)
    Samples(2 states, 3 transitions, 2 episodes)
    """
    source = path if isinstance(path, Input) else identify(path, format or "somcot")
    if source.path is None or source.entry is not None:
        raise ValueError(f"{source.name}: a baseline is read from a file of its own, neither packed nor piped; name it")
    samples = Samples.load(source.path)
    if terminated is True and samples.offsets is not None:
        return replace(samples, terminated=np.ones(samples.n_episodes, dtype=np.bool_))
    return samples
