"""The plan of a matrix: arguments are checked, every process is fitted, and the jobs are listed."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from somcot import costs
from somcot.chains import MarkovChain, Support
from somcot.clocks import Clock
from somcot.core.pairs import thread_count
from somcot.inference.intervals import PERMUTATIONS, Bar
from somcot.inference.statistics import Expansion
from somcot.inference.strata import attribute_names, strata_of
from somcot.inference.units import chosen_engine
from somcot.many.members import (
    Cost,
    Member,
    Points,
    SharedKernel,
    check_cost_shape,
    cost_between,
    equal_kernels,
    labelled,
    members,
    seconds_of,
    shared,
)
from somcot.plumbing.arrays import Array, Floats, Ints
from somcot.plumbing.checks import check_confidence, check_flag
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.problem import ChainOrData, Data
from somcot.recorded.counts import known_starts_differ
from somcot.samples import Samples
from somcot.solvers import METHODS
from somcot.solvers.other_clocks import DATA_DISCOUNT, check_clock
from somcot.timed import ContinuousChain
from somcot.trajectories import Trajectories

__all__ = [
    "DATA",
    "EXACT",
    "ORDINARY",
    "JobPlan",
    "MatrixSettings",
    "UnitCost",
    "forecast",
    "is_symmetric",
    "make_plan",
    "prepare",
    "units_of",
]


# --- The jobs with their expected times and all data they need

EXACT, DATA, ORDINARY = 0, 1, 2  # kinds of jobs: equal kernels; a small estimate, on one thread; any other pair
_LARGEST = 2500  # pairs of states up to which problems are solved in batches
_METHODS = ("auto", "exact", "plugin")  # methods that batches support


class MatrixSettings(NamedTuple):
    """The options of the call; `n_joint` intervals hold together, and every estimate uses the same `seed`."""

    discount: float
    method: str
    confidence: float | None
    simultaneous: bool
    tests: str | None
    seed: int
    symmetric: bool = False
    n_joint: int = 1
    strata: str | tuple[str, ...] | None = None
    paired_by: str | tuple[str, ...] | None = None
    clock: Clock | None = None

    @property
    def timing(self) -> Clock:
        """How costs are accumulated over time; without a clock, by the discount."""
        return self.clock or Clock.discounting(self.discount)

    @property
    def timing_arguments(self) -> dict[str, Any]:
        """The clock as an argument of `distance`."""
        name, value = self.timing
        given = {"discount": value, "average": 1, "horizon": int(value), "rate": value, "total": True}
        return {"discount" if name == "average" else name: given[name]}

    @property
    def grouping(self) -> dict[str, Any]:
        """The attributes that define strata or pairs, as an argument of `distance`; empty without."""
        given = {"strata": self.strata, "paired_by": self.paired_by}
        return {name: attribute for name, attribute in given.items() if attribute is not None}

    @property
    def estimated(self) -> bool:
        """Whether distances from data are estimates rather than those of the fitted chains."""
        return self.method == "auto"


@dataclass(frozen=True, eq=False)
class JobPlan:
    """All jobs of a matrix and their data; every computation is a pure function of the plan and a range of jobs.

    Attributes
    ----------
    rows, columns : list of Member
        The same list if processes are compared with each other.
    cost : array, str or function
    options : Options
    kernels_x, kernels_y : list of Kernel
    kind, a, b : ndarray of int64, shape (n_jobs,)
        Kernels for exact jobs, members for the others.
    seconds : ndarray, shape (n_jobs,)
        Approximate time of each job on one core.
    points : Points, optional
        How vectors are compared, if states are vectors.
    bars : mapping of (int, int) to Bar
        For intervals that hold jointly: what the distance of each pair of members must exceed.
    """

    rows: list[Member]
    columns: list[Member]
    cost: Cost
    options: MatrixSettings
    kernels_x: list[SharedKernel]
    kernels_y: list[SharedKernel]
    kind: Ints
    a: Ints
    b: Ints
    seconds: Floats
    points: Points | None = None
    bars: Mapping[tuple[int, int], Bar] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        return len(self.rows), len(self.columns)

    def fingerprint(self) -> str:
        """A hash of everything that the results depend on."""
        settings = self.options
        # The text that earlier versions hashed, whatever the fields are called now: their checkpoints of known chains
        # stay valid. Estimates from data follow another rule than theirs.
        options = (
            f"discount={settings.discount!r}, method={settings.method!r}, confidence={settings.confidence!r}, "
            f"simultaneous={settings.simultaneous!r}, tests={settings.tests!r}, "
            f"seed={int(np.random.default_rng(settings.seed).integers(2**62))!r}, "
            f"n_splits={4 if settings.estimated else 0}, level={settings.confidence!r}, "
            f"symmetric={settings.symmetric!r}"
        )
        digest = hashlib.sha256(f"(Options({options}), {self.shape!r})".encode())
        # So that checkpoints of estimates by the former rule are refused rather than mixed with new ones.
        if any(member.is_data for member in (*self.rows, *self.columns)):
            digest.update(b"permutations and half-samples")
        for member in [*self.rows, *self.columns]:
            digest.update(repr((member.label, member.reason, tuple(member.process.states))).encode())
            if member.model is not None:
                for array in (*member.support, member.model.counts, *_episodes(member.process)):
                    digest.update(np.ascontiguousarray(array).tobytes())
            if member.vectors is not None:
                digest.update(np.ascontiguousarray(member.vectors.points).tobytes())
            for attribute in (name for names in settings.grouping.values() for name in attribute_names(names) or ()):
                labels = getattr(member.process, "episode_attributes", {}).get(attribute, np.empty(0))
                digest.update(repr(labels.tolist()).encode())  # the text of an array leaves out its middle
        digest.update(repr(settings.grouping).encode() if settings.grouping else b"")
        # Only where it is not a discount, so that checkpoints of former versions stay valid.
        digest.update(b"" if settings.timing.name == "discount" else repr(tuple(settings.timing)).encode())
        if self.points is not None:
            digest.update(repr(self.points.n_cells).encode() + self.points.scale.tobytes())
        for table in self._prices():
            digest.update(table)
        return digest.hexdigest()

    def _prices(self) -> Iterator[bytes]:
        """Everything that determines the costs: the array, the name, or the table of every pair."""
        if not callable(self.cost) and not isinstance(self.cost, str):
            yield np.ascontiguousarray(np.asarray(self.cost, dtype=np.float64)).tobytes()
        elif self.cost == "labels":
            yield b"labels"
        else:
            for x, y in ((x, y) for x in self.rows for y in self.columns if x.model and y.model):
                try:
                    table = cost_between(self.cost, x, y)
                    yield np.asarray(table).tobytes()
                    if isinstance(table, costs.FeatureCost):
                        yield b"".join(
                            a.tobytes() for side in (table.x, table.y) for a in (side.variances, side.numbers)
                        )
                except Exception as error:  # from a user's function; reported in the cell of that pair
                    yield str(error).encode()

    def part(self, jobs: Sequence[int]) -> JobPlan:
        """The same plan with the processes of some jobs only, to be sent to a worker."""
        # Positions in the lists are kept, since jobs refer to them; only the contents are left out.
        used = [{k for job in jobs for k in {cell[side] for cell in self.cells(job)}} for side in (0, 1)]
        rows = [m if k in used[0] else _ABSENT for k, m in enumerate(self.rows)]
        columns = [m if k in used[1] else _ABSENT for k, m in enumerate(self.columns)]
        return replace(self, rows=[self._packed(m) for m in rows], columns=[self._packed(m) for m in columns])

    def _packed(self, member: Member) -> Member:
        """The member without the fields that only estimates and tests use, if neither is needed."""
        if self.options.tests or (self.kind != EXACT).any() or not isinstance(member.process, Samples):
            return member
        # Counts weigh a fraction of the episodes, and exact jobs need nothing else.
        counts = member.process.counted
        assert member.model is not None
        return replace(member, process=counts, model=replace(member.model, samples=counts))

    def cells(self, job: int) -> Iterable[tuple[int, int]]:
        """The cells that a job fills, in the job's order; a symmetric matrix omits the transposed cells."""
        a, b = int(self.a[job]), int(self.b[job])
        if self.kind[job] != EXACT:
            return [(a, b)]
        # A group against itself: (i, j) and (j, i) are the same number.
        upper = self.options.symmetric and a == b
        x, y = self.kernels_x[a].members, self.kernels_y[b].members
        return [(i, j) for i in x for j in y if not upper or i <= j]


_ABSENT = Member(None, MarkovChain([[1.0]]), None)


class UnitCost(NamedTuple):
    """A cost scaled to [0, 1], and the inverse transformation."""

    offset: float
    scale: float
    most: float
    unit: Floats

    def to_user(self, value: float) -> float:
        """Undo the shift and the scale for a distance."""
        # Clipped, because rounding may leave the range of the cost by a last digit.
        return min(max(self.offset + self.scale * value, self.offset), self.most)


def units_of(table: Floats) -> UnitCost:
    """The same scaling as in `somcot.Problem`."""
    least, most = float(table.min()), float(table.max())
    # A constant cost has range 0. Any scale gives the unit cost 0; this one keeps the number finite.
    scale = float(most - least) or abs(most) or 1.0
    return UnitCost(least, scale, most, np.ascontiguousarray((table - least) / scale))


def make_plan(
    rows: list[Member], columns: list[Member], cost: Cost, options: MatrixSettings, points: Points | None = None
) -> JobPlan:
    """List the jobs: pairs of kernels among known chains, pairs of recordings, and those that batches cannot run."""
    # Chains with equal kernels may be grouped only if the cost depends on the states alone.
    group = not callable(cost) and (not isinstance(cost, str) or cost == "labels")
    within = columns is rows
    # Batches know a discount and, of known chains, the long-run average; other clocks are solved pair by pair.
    average = options.timing.name == "average"
    batched = (average or options.timing.name == "discount") and options.method in _METHODS
    batched = batched and cost_is_known(cost, rows, columns)
    fitted = not options.estimated and not average  # whether recordings are compared as known chains
    known = [
        [i for i, m in enumerate(side) if batched and m.model is not None and (fitted or not m.is_data)]
        for side in (rows, columns)
    ]
    kernels_x = equal_kernels(rows, known[0], group=group)
    # The same list, so that a group is recognised as compared with itself.
    kernels_y = kernels_x if within else equal_kernels(columns, known[1], group=group)
    jobs = [
        *_exact_jobs(kernels_x, kernels_y, upper=within and options.symmetric),
        *_single_jobs(rows, columns, options, batched=batched and not average, exact=(set(known[0]), set(known[1]))),
    ]
    kind, a, b = (np.array([job[k] for job in jobs], dtype=np.int64) for k in range(3))
    seconds = np.array([job[3] for job in jobs], dtype=np.float64)
    return JobPlan(rows, columns, cost, options, kernels_x, kernels_y, kind, a, b, seconds, points)


def cost_is_known(cost: Cost, rows: list[Member], columns: list[Member]) -> bool:
    """Whether the cost is known rather than estimated."""
    if not callable(cost):
        return not isinstance(cost, costs.FeatureCost) and not (isinstance(cost, str) and cost == "features")
    try:
        return not isinstance(costs.between(cost, rows[0].process, columns[-1].process), costs.FeatureCost)
    except Exception:  # from a user's function; reported in the cell of that pair
        return True


def _exact_jobs(
    x: Sequence[SharedKernel], y: Sequence[SharedKernel], *, upper: bool
) -> list[tuple[int, int, int, float]]:
    jobs = []
    for a, one in enumerate(x):
        for b, other in enumerate(y):
            if upper and b < a:
                continue
            if len(one.support.indptr) * len(other.support.indptr) > _LARGEST + 2 * _LARGEST**0.5 * one.n_starts:
                seconds = 0.6 * _work(_shape(one.support), _shape(other.support)) + 1e-2
                cells = ((i, j) for i in one.members for j in other.members if not upper or a < b or i <= j)
                jobs += [(ORDINARY, i, j, seconds) for i, j in cells]
                continue
            n_starts = one.n_starts * other.n_starts
            work = _work(_shape(one.support), _shape(other.support)) + 2e-6 * n_starts
            jobs.append((EXACT, a, b, work))
    return jobs


def _single_jobs(
    rows: list[Member],
    columns: list[Member],
    options: MatrixSettings,
    *,
    batched: bool,
    exact: tuple[set[int], set[int]],
) -> list[tuple[int, int, int, float]]:
    jobs = []
    for i, x in enumerate(rows):
        for j, y in enumerate(columns):
            same = columns is rows and i == j
            if (i in exact[0] and j in exact[1]) or (columns is rows and options.symmetric and j < i):
                continue
            # A process that could not be fitted has its reason already, and a recording against itself is filled in by
            # `_diagonal`.
            if x.model is None or y.model is None or (same and x.is_data):
                continue
            if x.vectors is not None and y.vectors is not None:
                jobs.append((ORDINARY, i, j, seconds_of(x.vectors, y.vectors)))
                continue
            work = _work(_shape(x.support), _shape(y.support))
            size = x.process.n_states * y.process.n_states
            kind = DATA if batched and size <= _LARGEST else ORDINARY
            solves = 12 if x.is_data or y.is_data else 1  # an estimate from data costs about as much
            # Fixed costs: Python around a solve, and the permutations behind a p-value.
            aside = 1e-2 + (0.3 if options.tests else 0.0)
            jobs.append((kind, i, j, solves * work + aside))
    return jobs


def _shape(support: Support) -> tuple[int, float]:
    indptr = support.indptr
    return len(indptr) - 2, float(indptr[-2]) / max(len(indptr) - 2, 1)


def _work(x: tuple[int, float], y: tuple[int, float]) -> float:
    """Seconds of one exact solution, within a factor of about three on a desktop machine."""
    (n, k), (m, j) = x, y
    # Pairs of states times a fixed cost, the ends of a transport problem, and its arcs.
    return 2.4 * n * m * (0.4e-6 + 0.1e-6 * (k + j) + 0.02e-6 * k * j)


def _episodes(process: ChainOrData | ContinuousChain) -> list[Array]:
    """The arrays beyond the counts that tests and single pairs use."""
    if isinstance(process, ContinuousChain):  # the uniformised kernel does not determine the rates
        return [process.exits]
    if not isinstance(process, Samples):
        return []
    return [part for part in (process.now, process.following, process.offsets, process.terminated) if part is not None]


def is_symmetric(cost: Cost, members: Sequence[Member]) -> bool:
    """Whether the cost from x to y equals that from y to x; then the distance is symmetric too."""
    # Named costs are symmetric by definition.
    if isinstance(cost, str):
        return True
    if not callable(cost):
        array = np.asarray(costs.between(cost, members[0].process, members[0].process))
        return array.ndim == 2 and array.shape[0] == array.shape[1] and bool(np.array_equal(array, array.T))
    fitted = [m for m in members if m.model is not None]
    try:
        return all(
            np.array_equal(np.asarray(cost_between(cost, x, y)), np.asarray(cost_between(cost, y, x)).T)
            for k, x in enumerate(fitted)
            for y in fitted[k:]
        )
    except Exception:  # from a user's function; reported in the cell of that pair
        # Computing both triangles is slower but never wrong.
        return False


# --- Preparing a plan from the arguments of a call


def forecast(plan: JobPlan, threads: int | None = None) -> float:
    """Approximate running time of a plan in seconds, within a factor of about three."""
    return float(plan.seconds.sum()) / thread_count(threads)


def prepare(processes: Any, cost: Any, settings: MatrixSettings, *, others: Any = None, **of_vectors: Any) -> JobPlan:
    """Check the arguments, fit every process, and list the jobs; `of_vectors` is for Trajectories."""
    discount = _checked(settings)
    if cost is None:
        raise TypeError("cost: found None, expected an array, a name such as 'labels', or a function")
    if settings.strata is not None and settings.paired_by is not None:
        raise ValueError("paired_by: found together with strata; leave one out")
    kinds = {"vectors": True, "rates": settings.timing.name == "rate"}
    labelled_rows = labelled("processes", processes, **kinds)
    across = None if others is None else labelled("others", others, **kinds)
    if across is None and len(labelled_rows) < 2:
        raise ValueError("processes: found one, expected at least two; or pass others= to compare it with")
    points = None
    if any(isinstance(p, Trajectories) for p in [*labelled_rows.values(), *(across or {}).values()]):
        if settings.method != "auto":
            raise ValueError(Note("vectors-need-auto", "method", instead=f"method={settings.method!r}"))
        if settings.timing.name != "discount":
            raise ValueError(Note("vectors-need-auto", instead=settings.timing.asked))
        rows, columns, cost, points = shared(
            labelled_rows, across, cost, discount=discount, seed=settings.seed, **of_vectors
        )
    else:
        for name in of_vectors:
            raise TypeError(f"{name}: only for Trajectories; leave it out")
        rows, columns = _fitted(labelled_rows, across)
    # Only now is it known whether intervals and p-values make sense, since Trajectories have become counts.
    settings = _fitting(
        settings, [m.process for m in rows], [m.process for m in columns] if columns is not rows else None
    )
    for name, side in (("processes", labelled_rows), ("others", across or {})):
        for label, process in side.items():
            if not isinstance(process, Trajectories):
                check_clock(settings.timing, settings.method, process, process, names=(f"{name}[{label!r}]",) * 2)
    check_cost_shape(cost, (rows, columns))
    symmetric = across is None and is_symmetric(cost, rows)
    # Cells that hold jointly: each pair once, without the diagonal.
    n_cells = len(rows) * (len(rows) - 1) // 2 if symmetric else len(rows) * len(columns)
    if settings.confidence is not None and settings.simultaneous:
        settings = settings._replace(n_joint=max(n_cells, 1))
    settings = settings._replace(symmetric=symmetric)
    bars = joint_bars(rows, columns, cost, settings) if settings.n_joint > 1 and points is None else {}
    return replace(make_plan(rows, columns, cost, settings, points), bars=bars)


def joint_bars(
    rows: list[Member], columns: list[Member], cost: Cost, settings: MatrixSettings
) -> dict[tuple[int, int], Bar]:
    """What the distance of each pair must exceed so that all intervals hold jointly, from common permutations.

    Units are permuted between all recordings at once. Each pair's distance is standardised over the data and all
    permutations, which are exchangeable if all processes are equal; the largest over all pairs gives the bar.
    """
    # A recording that is both a row and a column counts once, or its episodes would be exchanged with themselves.
    recorded = list(dict.fromkeys(m for m in (*rows, *columns) if m.is_data and m.model is not None))
    table = _joint_cost(cost, recorded)
    if len(recorded) < 2 or table is None or not _permutable([m.process for m in recorded]):
        return {}
    number = {id(m): k for k, m in enumerate(recorded)}
    data = [m.process for m in recorded if isinstance(m.process, Data)]
    strata = strata_of(data, settings.strata, settings.paired_by, [repr(m.label) for m in recorded])
    engine, _ = chosen_engine(data, strata)
    support, counts = engine.support, engine.counts(engine.observed)
    centre = engine.kernels(engine.total, support.probabilities)
    pooled = Support(support.indptr, support.indices, centre)
    least = float(table.min())
    # One expansion around the pooled process serves all pairs: under the null hypothesis it is the truth of each.
    expansion = Expansion.pooled(pooled, (table - least) / (float(table.max()) - least or 1.0), settings.discount)
    kernels = engine.kernels(np.concatenate([counts[None], engine.regroup(settings.seed, range(PERMUTATIONS))]), centre)
    cells = [
        (i, j) for i, x in enumerate(rows) for j, y in enumerate(columns)
        if id(x) in number and id(y) in number and x is not y and (i < j or not settings.symmetric)
    ]  # fmt: skip
    values = np.array([
        expansion.values(support, kernels[:, number[id(rows[i])]], support, kernels[:, number[id(columns[j])]])
        for i, j in cells
    ])  # fmt: skip
    # Standardised, so that a pair of short recordings does not set the bar for all others.
    mean, spread = values.mean(axis=1), np.maximum(values.std(axis=1, ddof=1), 1e-12)
    standard = (values - mean[:, None]) / spread[:, None]
    assert settings.confidence is not None
    largest = np.sort(standard.max(axis=0))[::-1]
    # Column 0 holds the data, which count as one of the permutations; without that the level would be above nominal.
    critical = float(largest[int((0.5 - 0.5 * settings.confidence) * len(largest) + 1e-9)])
    return {
        cell: Bar(float(mean[k] + critical * spread[k]), bool(standard[k, 0] > critical), float(values[k, 0]))
        for k, cell in enumerate(cells)
    }


def _permutable(recordings: Sequence[ChainOrData]) -> bool:
    """Whether units of all recordings can be exchanged: the same kind, with the same kind of initial distribution."""
    data = [r for r in recordings if isinstance(r, Data)]
    first = data[0]
    return all(
        r.discount == first.discount and r.stationary == first.stationary
        and (r.initial is None) == (first.initial is None) and not known_starts_differ(first, r)
        for r in data
    )  # fmt: skip


def _joint_cost(cost: Cost, members: Sequence[Member]) -> Floats | None:
    """The cost between all states of all members, in the order in which they occur; None if it is not known."""
    states = tuple(dict.fromkeys(label for m in members for label in m.process.states))
    if isinstance(cost, str) and cost == "labels":
        return costs.labels(states, states)
    if isinstance(cost, str) or callable(cost) or any(set(m.process.states) != set(states) for m in members):
        return None
    table = np.asarray(cost, dtype=np.float64)
    # If equal states cost more than the minimum, permuted recordings are not at the least distance, and no bar follows
    # from them.
    if table.shape != (len(states), len(states)) or table.diagonal().max() > table.min():
        return None
    return table


def _fitted(
    labelled_rows: dict[Hashable, ChainOrData], across: dict[Hashable, ChainOrData] | None
) -> tuple[list[Member], list[Member]]:
    """Rows and columns; the same list if processes are compared with each other."""
    orders: dict[frozenset[Hashable], tuple[Hashable, ...]] = {}
    rows = members("processes", labelled_rows, orders)
    return rows, rows if across is None else members("others", across, orders)


def _checked(settings: MatrixSettings) -> float:
    discount = settings.timing.discount
    check_confidence(settings.confidence)
    for name in ("simultaneous", "tests", "strata", "paired_by"):
        if getattr(settings, name) and settings.timing.name != "discount":
            raise ValueError(f"{name}: needs a discount below 1, found {settings.timing.asked}; leave it out")
    if check_flag("simultaneous", settings.simultaneous) and settings.confidence is None:
        raise ValueError("simultaneous: intervals need a level; pass confidence as well, such as confidence=0.9")
    method: object = settings.method
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method: found {settings.method!r}, expected one of {', '.join(map(repr, METHODS))}")
    if settings.tests not in (None, "bh", "by"):
        raise ValueError(f"tests: found {settings.tests!r}, expected None, 'bh' or 'by'")
    return discount


def _fitting(settings: MatrixSettings, rows: list[ChainOrData], columns: list[ChainOrData] | None) -> MatrixSettings:
    """The settings adapted to these processes (`columns` if not the rows): intervals and p-values are for data."""
    recorded = [sum(isinstance(p, Samples) for p in side) for side in (rows, columns or ())]
    if settings.tests is not None and (recorded[0] < 2 if columns is None else min(recorded) < 1):
        raise ValueError("tests: whole episodes are permuted, but no two processes are Samples; leave it out")
    data = any(isinstance(p, Data) for p in (*rows, *(columns or ())))
    if data and settings.timing.name == "average" and settings.method == "auto":
        warn(Note("average-from-data", discount=DATA_DISCOUNT, mixing=""), DataWarning)  # once, not for every pair
    if settings.confidence is None:
        return settings
    if data and settings.timing.name not in ("discount", "average"):
        warn(Note("no-correction", clock=settings.timing.asked), DataWarning)
        return settings._replace(confidence=None)
    if data and settings.method != "auto":
        warn(Note("no-interval", "confidence", method=repr(settings.method)), DataWarning)
    return settings if data and settings.method == "auto" else settings._replace(confidence=None, simultaneous=False)
