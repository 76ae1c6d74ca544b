"""The processes of a matrix, fitted once; recordings of real vectors share cells for counts and tests."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from somcot import costs
from somcot.cells import PointCost
from somcot.chains import MarkovChain, Support
from somcot.core.pairs import ChainClasses, chain_classes
from somcot.core.partition import Quotient, equal_rows, merged_within
from somcot.inference.model import Model, fit
from somcot.inference.permutation import has_memory
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import not_sparse
from somcot.plumbing.errors import how_to_wrap
from somcot.plumbing.linear_systems import Kernel
from somcot.plumbing.notes import Note, collected
from somcot.plumbing.text import listing
from somcot.problem import ChainOrData, Data
from somcot.samples import Samples
from somcot.timed import ContinuousChain
from somcot.trajectories import Trajectories, needs_cells

__all__ = [
    "Cost",
    "Member",
    "Points",
    "SharedCells",
    "SharedKernel",
    "check_cost_shape",
    "cost_between",
    "equal_kernels",
    "labelled",
    "members",
    "seconds_of",
    "shared",
]


# --- The processes to compare, with their labels and shared kernels

Cost = Any  # an array, a name, or a function of two processes: `costs.between`


@dataclass(frozen=True, eq=False)
class Member:
    """One process, fitted.

    Attributes
    ----------
    label : hashable
    process : MarkovChain, Samples or Counts
    model : Model or None
        None if it could not be fitted; `reason` says why.
    reason : str
    notes : tuple of str
        Caveats about these data.
    vectors : Trajectories, optional
        The recorded vectors, if states are real vectors; `process` has them on cells that all members share.
    """

    label: Hashable
    process: ChainOrData
    model: Model | None
    reason: str = ""
    notes: tuple[str, ...] = ()
    vectors: Trajectories | None = None

    @property
    def is_data(self) -> bool:
        """Whether this process is recorded data."""
        return isinstance(self.process, Data)

    @property
    def support(self) -> Support:
        """The support of its chain."""
        assert self.model is not None
        return self.model.chain.support


def labelled(name: str, processes: Any, *, vectors: bool = False, rates: bool = False) -> dict[Hashable, Any]:
    """Processes by label: a mapping, or a numbered sequence; also Trajectories and ContinuousChain where allowed."""
    allowed: Any = MarkovChain | Data
    allowed = allowed | Trajectories if vectors else allowed
    allowed = allowed | ContinuousChain if rates else allowed
    if isinstance(processes, MarkovChain | Data | Trajectories | ContinuousChain):
        raise TypeError(f"{name}: found one {type(processes).__name__}, expected several; put them into a list")
    if isinstance(processes, Mapping):
        by_label = dict(processes)
    else:
        try:
            items = list(not_sparse("processes", processes))
        except TypeError:
            raise TypeError(
                f"{name}: found {type(processes).__name__}, expected a mapping of labels to processes, or a list"
            ) from None
        # A list of pairs is read as (label, process), as `dict` would, but repeated labels are an error instead of a
        # loss.
        if items and all(isinstance(item, tuple) and len(item) == 2 for item in items):
            by_label = _from_pairs(name, items)
        else:
            by_label = dict(enumerate(items))
    if not by_label:
        raise ValueError(f"{name}: empty; pass at least one MarkovChain, Samples or Counts")
    for label, process in by_label.items():
        # NaN: it could be stored but never looked up again.
        if label != label:
            raise ValueError(f"{name}: a label is {label!r}, which does not equal itself; give that process a name")
        if not isinstance(process, allowed):
            hint = "; chains in continuous time take rate=r" if isinstance(process, ContinuousChain) else ""
            raise TypeError(
                f"{name}[{label!r}]: found {type(process).__name__}, expected a MarkovChain, Samples or Counts"
                f"{hint or needs_cells(process) or how_to_wrap(process)}"
            )
    return by_label


def _from_pairs(name: str, items: Sequence[tuple[Any, Any]]) -> dict[Hashable, ChainOrData]:
    by_label: dict[Hashable, ChainOrData] = {}
    for label, process in items:
        if not isinstance(label, Hashable):
            raise TypeError(f"{name}: found the label {label!r}, expected text, a number or a tuple of them")
        if label in by_label:
            raise ValueError(f"{name}: the label {label!r} occurs twice; give every process a different label")
        by_label[label] = process
    return by_label


def members(
    name: str,
    processes: Mapping[Hashable, ChainOrData],
    orders: dict[frozenset[Hashable], tuple[Hashable, ...]],
) -> list[Member]:
    """Fit each process once.

    Processes with the same states get them in the same order, that of the first process with these states (`orders`).
    """
    fitted = []
    for label, process in processes.items():
        # The order of the first process with these states is used for all, so that equal kernels become equal arrays.
        shared = orders.setdefault(frozenset(process.states), tuple(process.states))
        try:
            fitted.append(_member(label, process, shared))
        # One bad process must not stop a matrix of hundreds: its cells get the reason.
        except (ArithmeticError, MemoryError, ValueError, TypeError) as error:
            fitted.append(Member(label, process, None, reason=f"{name}[{label!r}]: {error}"))
    return fitted


def _member(label: Hashable, process: ChainOrData, order: tuple[Hashable, ...]) -> Member:
    with collected() as collected_notes:
        # Rates are solved pair by pair; the model of a single chain serves the forecast and the checkpoint.
        model = in_order(fit(_in_steps(process)), order)
    notes = [note.within(str(label)) for note in collected_notes]
    if isinstance(process, MarkovChain):
        if process.is_fitted:
            notes.append(Note("fitted-model", str(label)))
        if unused := process.unused_attributes:
            notes.append(Note("edge-attributes-ignored", str(label), names=unused))
    if isinstance(process, Samples) and has_memory(process):
        notes.append(Note("memory-episodes", str(label)))
    return Member(label, process, model, notes=tuple(notes))


def _in_steps(process: ChainOrData | ContinuousChain) -> ChainOrData:
    """A chain in discrete time with the same states."""
    return process.uniformised(float(process.exits.max()) or 1.0) if isinstance(process, ContinuousChain) else process


def in_order(model: Model, order: tuple[Hashable, ...]) -> Model:
    """The same model with its states in another order, so that equal states have equal numbers in all models."""
    chain = model.chain
    if tuple(chain.states) == order:
        return model
    place = {label: i for i, label in enumerate(chain.states)}
    old = np.array([place[label] for label in order], dtype=np.int64)
    moved = MarkovChain(chain.transition[old][:, old], chain.initial[old], states=order, normalize=True)
    # The last entry is the initial row, which keeps its place behind the states.
    new = np.empty(len(old) + 1, dtype=np.int64)
    new[old], new[-1] = np.arange(len(old)), len(old)
    counts = np.zeros(len(model.counts), dtype=np.int64)
    counts[moved.support.locate(new[chain.support.rows], new[chain.support.indices])] = model.counts
    return Model(moved, counts, model.samples)


def check_cost_shape(cost: Cost, groups: Sequence[Sequence[Member]]) -> None:
    """Check that an array is used only for processes that share their states, in the same order."""
    rows, columns = groups[0], groups[-1]
    if callable(cost):
        return
    if isinstance(cost, str):
        # Any pair will do: whether a name is suitable depends on the kind of process, not on its numbers.
        costs.between(cost, rows[0].process, columns[-1].process)  # an unsuitable name is refused before any work
        return
    for side in (rows, columns):
        first = side[0]
        for member in side[1:]:
            if tuple(member.process.states) != tuple(first.process.states):
                raise ValueError(
                    f"cost: an array is for processes with the same states, but {first.label!r} has "
                    f"{listing(first.process.states, 4)} and {member.label!r} {listing(member.process.states, 4)}; "
                    "pass 'labels', 'features' or a function of two processes"
                )
    costs.check_cost(costs.between(cost, rows[0].process, columns[0].process), rows[0].process.n_states,
                     columns[0].process.n_states)  # fmt: skip


def cost_between(cost: Cost, x: Member, y: Member) -> Floats | costs.FeatureCost:
    """The cost between two members, in the order of the states of their models."""
    assert x.model is not None
    assert y.model is not None
    if isinstance(cost, str) and cost == "labels":
        return costs.labels(x.model.chain.states, y.model.chain.states)
    table = costs.between(cost, x.process, y.process)
    if isinstance(table, costs.FeatureCost):
        return table
    array = costs.check_cost(table, x.process.n_states, y.process.n_states)
    # Functions see the process with its own order of states; the model may have been reordered by `in_order`.
    for axis, member in enumerate((x, y)):
        assert member.model is not None
        if tuple(member.process.states) != tuple(member.model.chain.states):
            place = {label: i for i, label in enumerate(member.process.states)}
            array = array.take([place[label] for label in member.model.chain.states], axis=axis)
    return np.ascontiguousarray(array)


@dataclass(frozen=True, eq=False)
class SharedKernel:
    """Chains with one kernel and several initial distributions.

    Attributes
    ----------
    members : tuple of int
        Indices of the chains.
    starts : tuple of int
        The initial row of each chain, among those of `support`.
    support : Support
        The kernel, and one more row for each distinct initial distribution.
    n_starts : int
    """

    members: tuple[int, ...]
    starts: tuple[int, ...]
    support: Support
    n_starts: int

    @cached_property
    def classes(self) -> ChainClasses:
        """Recurrent classes of the states."""
        indptr, indices, probabilities = self.support
        indptr = indptr[: len(indptr) - self.n_starts]  # the other rows are initial distributions
        return chain_classes(Kernel(indptr, indices[: indptr[-1]], probabilities[: indptr[-1]]))

    def quotient(self, table: Floats) -> Quotient | None:
        """Equivalent states merged that have equal rows in a table of costs; None if there are none."""
        labels, n_blocks = equal_rows(table)
        if self.n_starts > 1 or n_blocks == len(labels):
            return None
        # Nodes with equal attributes have equal costs to the nodes of most graphs, so few partitions occur.
        key = labels.tobytes()
        if key not in self._quotients:
            self._quotients[key] = merged_within(self.support, labels, n_blocks)
        return self._quotients[key]

    @cached_property
    def _quotients(self) -> dict[bytes, Quotient | None]:
        return {}


def equal_kernels(fitted: Sequence[Member], chosen: Sequence[int], *, group: bool) -> list[SharedKernel]:
    """Known chains grouped by their kernels; with ``group=False`` each chain is a group."""
    together: dict[Hashable, list[int]] = {}
    for i in chosen:
        together.setdefault(_kernel_key(fitted[i]) if group else i, []).append(i)
    return [_kernel(fitted, rows) for rows in together.values()]


def _kernel_key(member: Member) -> Hashable:
    assert member.model is not None
    indptr, indices, probabilities = member.support
    # Without the last row, the initial distribution, in which grouped chains may differ.
    end = int(indptr[-2])
    digest = hashlib.sha256(indptr[:-1].tobytes() + indices[:end].tobytes() + probabilities[:end].tobytes())
    return tuple(member.model.chain.states), digest.digest()


def _kernel(fitted: Sequence[Member], rows: list[int]) -> SharedKernel:
    first = fitted[rows[0]].support
    end = int(first.indptr[-2])
    laws: dict[bytes, int] = {}
    starts, new = [], []
    for i in rows:
        support = fitted[i].support
        initial_row = support.indices[end:], support.probabilities[end:]
        # The separator keeps (ab, c) and (a, bc) apart.
        key = initial_row[0].tobytes() + b"|" + initial_row[1].tobytes()
        if key not in laws:
            new.append(initial_row)
        starts.append(laws.setdefault(key, len(laws)))
    lengths = np.cumsum([len(indices) for indices, _ in new])
    support = Support(
        np.concatenate([first.indptr[:-1], end + lengths]).astype(np.int64),
        np.concatenate([first.indices[:end], *(indices for indices, _ in new)]),
        np.concatenate([first.probabilities[:end], *(p for _, p in new)]),
    )
    return SharedKernel(tuple(rows), tuple(starts), support, len(new))


# --- Recordings of real vectors on shared cells


class Points(NamedTuple):
    """How vectors are compared: the cost of differences, the scale of coordinates, and the number of cells."""

    cost: PointCost
    scale: Floats
    n_cells: int | str


class SharedCells(NamedTuple):
    """Members on shared cells, the cost between the cells, and how their vectors are compared."""

    rows: list[Member]
    columns: list[Member]
    cost: Floats
    points: Points


def shared(
    given: Mapping[Hashable, Trajectories],
    across: Mapping[Hashable, Trajectories] | None,
    cost: PointCost,
    *,
    discount: float,
    seed: int,
    scale: object = "std",
    n_cells: int | str = "auto",
) -> SharedCells:
    """Fit cells to all recordings together; `scale` and `n_cells` as for `somcot.discretise`."""
    from somcot.continuous.discretise import check_recordings, discretise, scale_of  # k-means, not needed for chains

    sides = [("processes", given), *([] if across is None else [("others", across)])]
    data = [one for _, side in sides for one in side.values()]
    check_recordings(data, [f"{name}[{label!r}]" for name, side in sides for label in side])
    divisor = scale_of(scale, data)
    # Vectors have no labels, so the general default becomes the Euclidean one.
    chosen: PointCost = "euclidean" if isinstance(cost, str) and cost == "labels" else cost
    cells = discretise(*data, n_cells=n_cells, scale=divisor, discount=discount, rng=seed)
    table = cells.cost(chosen)
    labels = [label for _, side in sides for label in side]
    fitted = [_member_vectors(*each) for each in zip(labels, cells.recordings, data, strict=True)]
    rows, columns = fitted[: len(given)], fitted[len(given) :]
    return SharedCells(rows, rows if across is None else columns, table, Points(chosen, divisor, n_cells))


def _member_vectors(label: Hashable, samples: Samples, data: Trajectories) -> Member:
    with warnings.catch_warnings():  # cells that this recording never visits are expected
        warnings.simplefilter("ignore")
        model = fit(samples)
    return Member(label, samples, model, vectors=data)


def seconds_of(x: Trajectories, y: Trajectories) -> float:
    """Approximate time for a pair on one core, in seconds."""
    # Rough is enough: it sets the size of slices and the forecast of a run, never a result.
    return 1.5 + 8e-6 * (x.n_transitions + y.n_transitions)
