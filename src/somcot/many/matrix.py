"""Distances between many processes: one call, on one core, all cores or a cluster, with identical results.

Tasks are self-contained, so if a worker dies, its tasks are run again elsewhere. If no worker is left for a minute,
the remaining tasks run in this process.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.clocks import Clock
from somcot.core.pairs import cut, thread_count
from somcot.inference.strata import attached, attribute_names
from somcot.many.members import Member, cost_between
from somcot.many.plan import ORDINARY, JobPlan, MatrixSettings, prepare, units_of
from somcot.many.record import INTERRUPTED, DistanceMatrix, Reason, failure_notes
from somcot.many.work import FIELDS, MatrixCells, run
from somcot.plumbing import records as container
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_client, check_rng
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.files import check_target, exclusive
from somcot.plumbing.notes import Note, Share, arranged, codes, collected, restored
from somcot.plumbing.records import CheckpointError
from somcot.plumbing.text import Report, meter
from somcot.problem import ChainOrData
from somcot.timed import ContinuousChain
from somcot.trajectories import Trajectories

__all__ = [
    "MatrixCheckpoint",
    "compute",
    "distance_matrix",
    "local_client",
    "on_cluster",
    "seed_of",
]


# --- Jobs on a Dask cluster

PATIENCE = 60.0  # seconds without any worker before the remaining jobs run in this process
_AGAIN = 20  # times that a chunk is resubmitted because its worker died
_AHEAD = 4  # chunks queued per worker, so that none is idle

Keep = Callable[[list[tuple[int, MatrixCells]]], None]
Jobs = Sequence[int]


def on_cluster(plan: JobPlan, chunks: Sequence[Jobs], client: Any, keep: Keep) -> list[Jobs]:
    """Run chunks of jobs; return those for which no worker was left."""
    wait = importlib.import_module("distributed").wait
    # Chunks are taken from the end, so that a failed one can be put back and comes next.
    waiting = list(reversed(list(chunks)))
    running: dict[Any, Jobs] = {}
    failures: dict[int, int] = {}
    seen = time.monotonic()
    try:
        while waiting or running:
            workers = _n_workers(client)
            now = time.monotonic()
            # The time at which a worker was last seen; workers may come and go.
            seen = now if workers else seen
            closed = client.status in ("closing", "closed")
            if closed or (not workers and now - seen > PATIENCE):
                why = "it was closed" if closed else f"no worker for {PATIENCE:.0f} s"
                warn(Note("client-lost", "client", reason=why), DataWarning)
                break
            while waiting and len(running) < _AHEAD * workers:
                jobs = waiting.pop()
                # pure=False: a chunk that is submitted again must run again, not be answered by the failed attempt.
                running[client.submit(run, plan.part(jobs), list(jobs), pure=False)] = jobs
            done = _finished(wait, list(running))
            for future in done:
                jobs = running.pop(future)
                if future.status == "finished":
                    keep(future.result())
                    continue
                failures[jobs[0]] = failures.get(jobs[0], 0) + 1
                # An error of the computation would repeat itself on any worker. The death of a worker may have had
                # other causes.
                if (future.status == "error" and not _died(future)) or failures[jobs[0]] > _AGAIN:
                    future.result()  # raises the worker's exception
                waiting.append(jobs)
    finally:
        for future in running:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                future.cancel()
    # In the order in which they would have run, so that a later run here continues in the same order.
    return [*running.values(), *reversed(waiting)]


def _finished(wait: Any, running: list[Any]) -> list[Any]:
    if not running:
        time.sleep(0.1)
        return []
    try:
        return list(wait(running, timeout=1.0, return_when="FIRST_COMPLETED").done)
    except TimeoutError:
        return []


def _died(future: Any) -> bool:
    return type(future.exception()).__name__ in ("KilledWorker", "CancelledError", "FutureCancelledError")


def _n_workers(client: Any) -> int:
    if client.status != "running":
        return 0
    try:
        return len(client.scheduler_info(n_workers=-1)["workers"])
    except OSError:  # the scheduler is gone; it may return
        return 0


def local_client(n_workers: int) -> Any:
    """A cluster of processes on this machine that restarts workers when they die."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise ImportError(Note("needs-dask", "workers")) from None
    cluster = distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None
    )
    cluster.adapt(minimum=n_workers, maximum=n_workers)  # by default killed workers are not replaced
    return distributed.Client(cluster)


# --- The checkpoint file of a matrix: finished cells, replaced atomically, valid for one plan only

_FORMAT = "somcot.matrix/1"
_EVERY = 5.0  # seconds between two writes


class MatrixCheckpoint:
    """The finished part of the matrix, job by job; with a path it is kept in a file.

    Attributes
    ----------
    fields : ndarray, shape (n_fields, n, m)
    done : ndarray of bool, shape (n_jobs,)
    reasons : dict
        (i, j) -> text.
    """

    def __init__(self, plan: JobPlan, path: str | os.PathLike[str] | None, *, resume: bool) -> None:
        self.plan = plan
        self.path = None if path is None else Path(path)
        self.fields: Floats = np.full((len(FIELDS), *plan.shape), np.nan)
        self.done: NDArray[np.bool_] = np.zeros(len(plan.kind), dtype=np.bool_)
        self.reasons: dict[tuple[int, int], str] = {}
        self._written = time.monotonic()
        # Hashing all data takes time that a run without a checkpoint need not spend.
        self._print = plan.fingerprint() if path is not None else ""
        if self.path is not None and self.path.exists():
            if not self.path.is_file():  # a device may have no end
                raise ValueError(f"checkpoint: {self.path} is no ordinary file; name another")
            if not resume:
                raise ValueError(
                    f"checkpoint: {self.path} exists already; pass resume=True to continue, or remove the file"
                )
            self._restore(self.path)

    def keep(self, finished: list[tuple[int, MatrixCells]]) -> None:
        """Store finished jobs; every few seconds, write the file."""
        for job, cells in finished:
            self._place(cells.i, cells.j, cells)
            if self.plan.options.symmetric:
                self._place(cells.j, cells.i, cells)
            self.done[job] = True
        if self.path is not None and time.monotonic() - self._written > _EVERY:
            self.save()

    def _place(self, i: NDArray[np.int64], j: NDArray[np.int64], cells: MatrixCells) -> None:
        self.fields[:, i, j] = cells.fields.T
        for k, text in cells.reasons.items():
            self.reasons[int(i[k]), int(j[k])] = text

    def save(self) -> None:
        """Write the file; a disk failure loses the file, not the run."""
        if self.path is None:
            return
        self._written = time.monotonic()
        record = {
            "format": _FORMAT,
            "plan": self._print,
            # With the code of each note, so that the reason keeps it after a restart.
            "reasons": [[i, j, text, *filter(None, codes([text]))] for (i, j), text in self.reasons.items()],
        }
        try:
            # Written to a temporary file and renamed: a crash leaves the old checkpoint or the new one.
            container.write_arrays(self.path, {"fields": self.fields, "done": self.done}, record)
        except OSError as error:
            reason = error.strerror or str(error)
            warn(Note("checkpoint-not-written", "checkpoint", path=str(self.path), reason=reason), DataWarning)

    def _restore(self, path: Path) -> None:
        arrays, record = container.read_arrays(path)
        if record.get("format") != _FORMAT:
            raise CheckpointError(f"checkpoint: {path} is no file of a distance matrix; name another file")
        if record.get("plan") != self._print:
            raise CheckpointError(
                f"checkpoint: {path} belongs to a matrix of other processes or options, or to estimates of an earlier "
                "version, which followed another rule; pass the same ones, or name another file"
            )
        fields, done = arrays.get("fields"), arrays.get("done")
        if fields is None or done is None or fields.shape != self.fields.shape or done.shape != self.done.shape:
            raise CheckpointError(f"checkpoint: {path} is damaged; restore an older copy")
        try:
            self.reasons = {
                (int(i), int(j)): restored(str(text), *code) if code else str(text)
                for i, j, text, *code in record["reasons"]
            }
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(f"checkpoint: {path} is damaged; restore an older copy") from None
        self.fields, self.done = fields.astype(np.float64), done.astype(np.bool_)


# --- Distances between many processes

Process = ChainOrData | Trajectories | ContinuousChain
Processes = Mapping[Any, Process] | Sequence[Process]
_CHUNK, _TASK = 0.25, 1.5  # seconds of work in a local chunk, and in a task for a cluster


def distance_matrix(
    processes: Processes,
    cost: ArrayLike | str | object = "labels",
    *,
    discount: float | None = None,
    horizon: int | None = None,
    rate: float | None = None,
    total: bool = False,
    others: Processes | None = None,
    confidence: float | None = None,
    simultaneous: bool = False,
    tests: str | None = None,
    method: str = "auto",
    rng: int | np.random.Generator | None = None,
    scale: object = None,
    n_cells: int | str | None = None,
    threads: int | None = None,
    client: object = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = True,
    progress: bool = False,
    strata: Any = None,
    paired_by: Any = None,
) -> DistanceMatrix:
    """Distances between many processes.

    Each cell is what `distance` would return with the same `rng`, within 1e-12 of the cost's range for known chains.
    Chains with equal kernels are solved together. The result does not depend on the number of threads, on chunks or on
    the cluster, to the last bit.

    Parameters
    ----------
    processes : mapping of label to process, or sequence
        MarkovChain, Samples or Counts, also mixed; or Trajectories only; or ContinuousChain only, with `rate`. A
        sequence gets the labels 0, 1, ...
    cost : {"labels", "features"}, array_like or function
        An array if all processes share their states, or a function of two processes that returns one. Further names as
        for `costs.between`. For Trajectories as for `distance`.
    discount, horizon, rate, total
        As for `distance`: exactly one of them; ``discount=1`` is the long-run average. Others than a discount
        are solved pair by pair, with the bits of `distance`; for data, `horizon` and `total` give no intervals.
    others : mapping or sequence, optional
        Processes for the columns; by default the same as the rows.
    confidence : float, optional
        Level of the intervals for data, such as 0.9.
    simultaneous : bool
        Whether all intervals hold jointly at that level, by the largest distance over common permutations.
    tests : {None, "bh", "by"}
        Permutation p-values of "the same process" for all pairs of Samples, corrected for multiple testing by Benjamini
        and Hochberg or by Benjamini and Yekutieli (any dependence). Each takes as long as `same_process`.
    method : str
        As for `distance`; "auto", "exact" and "plugin" run in batches, others pair by pair.
    rng : None, int or numpy.random.Generator
        Seed of permutations and half-samples; None uses a fixed seed.
    scale, n_cells
        For Trajectories, as for `discretise`; all recordings together determine the scale.
    threads : int, optional
        By default one per core.
    client : dask.distributed.Client, optional
        Run the jobs on this cluster.
    checkpoint : path, optional
        File for finished cells; a later call with the same arguments continues from it.
    resume : bool
        False: refuse an existing checkpoint.
    progress : bool
        Show a progress line on standard error.
    strata, paired_by : str, list of str or mapping of label to labels, optional
        As for `same_process`: names of attributes of the sequences, or for each process the label of each sequence.
        Each pair of recordings gets the mix of the two.

    Returns
    -------
    DistanceMatrix
        Also after Ctrl-C, with NaN in the missing cells.

    Examples
    --------
    >>> import somcot
    >>> walks = [somcot.random_walk(5, theta) for theta in (0.4, 0.5, 0.8)]
    >>> data = {f"week {i}": walk.sample(200, 50, rng=i) for i, walk in enumerate(walks)}
    >>> reward = somcot.costs.absolute([1, 0, 0, 0, -1], [1, 0, 0, 0, -1])
    >>> estimates = somcot.distance_matrix(data, reward, discount=0.9, confidence=0.9)
    >>> truth = somcot.distance_matrix(walks, reward, discount=0.9)
    >>> inside = (estimates.low <= truth.values) & (truth.values <= estimates.high)
    >>> bool(inside[~np.eye(3, dtype=bool)].all())
    True
    """
    began = time.perf_counter()
    grouping: dict[str, Any] = {}
    for name, value in (("strata", strata), ("paired_by", paired_by)):
        if value is not None and attribute_names(value) is None:
            processes, others, value = _with_labels(name, value, processes, others)
        grouping[name] = tuple(value) if isinstance(value, list) else value
    clock = Clock.chosen(discount, horizon, rate, total)
    settings = MatrixSettings(
        clock.discount, method, confidence, simultaneous, tests, seed_of(rng), clock=clock, **grouping
    )
    of_vectors = {name: value for name, value in (("scale", scale), ("n_cells", n_cells)) if value is not None}
    plan = prepare(processes, cost, settings, others=others, **of_vectors)
    distances = compute(plan, threads=threads, client=client, checkpoint=checkpoint, resume=resume, progress=progress)
    return replace(distances, seconds=time.perf_counter() - began)


def _with_labels(name: str, value: Any, processes: Any, others: Any) -> tuple[Any, Any, Any]:
    """Processes whose sequences have the labels as an attribute, and its name."""
    if others is not None:
        raise ValueError(f"{name}: with others, name an attribute of the sequences instead of passing labels")
    of_each = processes if isinstance(processes, Mapping) else dict(enumerate(processes))
    labels = value if isinstance(value, Mapping) or isinstance(processes, Mapping) else dict(enumerate(value))
    attribute, changed = attached(name, labels, of_each)
    return changed, None, attribute


def seed_of(rng: int | np.random.Generator | None) -> int:
    """The seed that every pair gets, so that a cell equals a single call of `distance` with the same `rng`."""
    generator = check_rng(0 if rng is None else rng)
    return int(generator.integers(2**62)) if isinstance(rng, np.random.Generator) else int(rng or 0)


def compute(
    plan: JobPlan,
    *,
    threads: int | None = None,
    client: object = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = True,
    progress: bool = False,
) -> DistanceMatrix:
    """Run all jobs of a plan; arguments as for `distance_matrix`."""
    began = time.perf_counter()
    if client is not None:
        check_client(client)
    if checkpoint is not None:
        check_target("checkpoint", checkpoint)
    # Two runs with one checkpoint would overwrite each other's cells.
    with nullcontext() if checkpoint is None else exclusive(checkpoint):
        file = MatrixCheckpoint(plan, checkpoint, resume=resume)
        distances = _run(plan, file, threads, client, progress)
    return replace(distances, seconds=time.perf_counter() - began)


def _run(
    plan: JobPlan, checkpoint: MatrixCheckpoint, threads: int | None, client: object, progress: bool
) -> DistanceMatrix:
    n_threads = thread_count(threads)
    report = meter(len(plan.kind)) if progress else None
    # Jobs are independent of each other, so a resumed run simply skips those that are done.
    left = np.flatnonzero(~checkpoint.done)
    interrupted = False
    with collected() as notes:
        try:
            if client is not None:
                chunks = _chunks(plan, left, _TASK)
                for jobs in on_cluster(plan, chunks, client, lambda found: _keep(checkpoint, found, report)):
                    # Chunks for which no worker was left run here, so the call always ends with a whole matrix.
                    _keep(checkpoint, run(plan, jobs), report)
            else:
                _here(plan, checkpoint, left, n_threads, report)
        except KeyboardInterrupt:
            interrupted = True
    # Also after an interrupt, which is when it is needed.
    checkpoint.save()
    for note in notes:
        if note.code in ("checkpoint-not-written", "client-lost"):  # about the run; the others concern single pairs
            warn(note, DataWarning)
    # Before the diagonal is filled: its cells have numbers but may have reasons as well.
    reasons = _reasons(plan, checkpoint)
    _diagonal(plan, checkpoint)
    of_members = dict.fromkeys(note for side in (plan.rows, plan.columns) for m in side for note in m.notes)
    for text in arranged(note for note in of_members if codes([note]) == ["edge-attributes-ignored"]):
        warn(text, DataWarning)  # one for all graphs
    fields = {name: checkpoint.fields[k] for k, name in enumerate(FIELDS)}
    data = any(m.is_data for m in (*plan.rows, *plan.columns))
    shown = plan.options.method if data or plan.options.method != "auto" else "exact"
    found = DistanceMatrix(
        tuple(m.label for m in plan.rows),
        tuple(m.label for m in plan.columns),
        **fields,
        discount=plan.options.discount,
        method=shown,
        confidence=plan.options.confidence,
        simultaneous=plan.options.simultaneous,
        tests=plan.options.tests,
        square=plan.rows is plan.columns,
        symmetric=plan.options.symmetric,
        interrupted=interrupted,
        reasons=reasons,
        clock=plan.options.timing,
        notes=(*of_members, *_approximations(plan, reasons)),
    )
    failures = failure_notes(found)
    for note in failures:
        warn(note, DataWarning)
    return replace(found, notes=(*failures, *found.notes))


def _chunks(plan: JobPlan, jobs: Any, seconds: float) -> list[Any]:
    if not len(jobs):
        return []
    work = np.maximum(1e6 * plan.seconds[jobs], 1).astype(np.int64)
    return [jobs[lo:hi] for lo, hi in cut(work, int(1e6 * seconds))]


def _here(plan: JobPlan, checkpoint: MatrixCheckpoint, left: Any, n_threads: int, report: Report | None) -> None:
    """Batches on threads, then the pairs solved one by one, which use threads themselves."""
    # Two passes, because a pair that is solved on all cores would compete with the threads of the batches.
    batched, ordinary = (left[plan.kind[left] != ORDINARY], left[plan.kind[left] == ORDINARY])
    chunks = _chunks(plan, batched, _CHUNK)
    if n_threads == 1 or len(chunks) == 1:
        for jobs in chunks:
            _keep(checkpoint, run(plan, jobs), report)
    elif chunks:
        _on_threads(plan, checkpoint, chunks, n_threads, report)
    for jobs in _chunks(plan, ordinary, _CHUNK):
        _keep(checkpoint, run(plan, jobs), report)


def _on_threads(
    plan: JobPlan, checkpoint: MatrixCheckpoint, chunks: list[Any], n_threads: int, report: Report | None
) -> None:
    stop = threading.Event()
    pool = ThreadPoolExecutor(min(n_threads, len(chunks)))
    running: set[Future[list[tuple[int, MatrixCells]]]] = {pool.submit(run, plan, jobs, stop.is_set) for jobs in chunks}
    try:
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                _keep(checkpoint, future.result(), report)
    except KeyboardInterrupt:
        stop.set()
        for future in running:
            if not future.cancel():  # it is running: keep the jobs that it finishes before it sees `stop`
                checkpoint.keep(future.result())
        raise
    finally:
        stop.set()
        # The event stops chunks that are running; the pool drops those that are not.
        pool.shutdown(cancel_futures=True)


def _keep(checkpoint: MatrixCheckpoint, finished: list[tuple[int, MatrixCells]], report: Report | None) -> None:
    checkpoint.keep(finished)
    if report is not None:
        # The last distance, so that a long run shows that numbers are plausible.
        value = finished[-1][1].fields[-1, 0] if finished else np.nan
        report(int(checkpoint.done.sum()), len(checkpoint.done), float(value))


def _reasons(plan: JobPlan, checkpoint: MatrixCheckpoint) -> tuple[Reason, ...]:
    """Why cells are NaN: an error, a process that could not be fitted, or an interrupted run."""
    reasons = dict(checkpoint.reasons)
    for i, x in enumerate(plan.rows):
        for j, y in enumerate(plan.columns):
            if x.reason or y.reason:
                reasons[i, j] = x.reason or y.reason
    for job in np.flatnonzero(~checkpoint.done):
        for i, j in plan.cells(int(job)):
            # The mirrored cell has no job of its own.
            for cell in ((i, j), (j, i)) if plan.options.symmetric else ((i, j),):
                reasons[cell] = INTERRUPTED
    return tuple(Reason(i, j, text) for (i, j), text in sorted(reasons.items()))


def _approximations(plan: JobPlan, reasons: Sequence[Reason]) -> list[Note]:
    """The number of pairs of vectors whose value has no interval, if any."""
    # A symmetric matrix has every reason twice.
    once = [reason for reason in reasons if reason.i < reason.j or not plan.options.symmetric]
    n = codes(reason.text for reason in once).count("approximate-pair")
    return [Note("approximate-pairs", share=Share(n, len(plan.kind)))] if n else []


def _diagonal(plan: JobPlan, checkpoint: MatrixCheckpoint) -> None:
    """A process is at the minimum distance from itself; nothing is estimated, and no rounding is left."""
    if plan.rows is not plan.columns:
        return
    for i, member in enumerate(plan.rows):
        if not member.is_data and member.model is not None:
            _zero(plan, member, checkpoint.fields[:, i, i])
        if member.is_data and member.model is not None:
            least = _least(plan, member)
            for name in ("values", "plugin", "uncut"):
                checkpoint.fields[FIELDS.index(name), i, i] = least
            checkpoint.fields[FIELDS.index("standard_error"), i, i] = 0.0
            if plan.options.confidence is not None:
                checkpoint.fields[FIELDS.index("low"), i, i] = checkpoint.fields[FIELDS.index("high"), i, i] = least


def _zero(plan: JobPlan, member: Member, cell: Floats) -> None:
    """The distance of a known chain from itself is the least cost, if no state costs more against itself."""
    try:
        table = np.asarray(cost_between(plan.cost, member, member), dtype=np.float64)
    except Exception:  # from a user's function; reported in the cell
        return
    # A total is a sum over time, so only the cost 0 stays what it is.
    least = float(table.min())
    exact = bool((table.diagonal() == least).all()) and (plan.options.timing.name != "total" or least == 0.0)
    if exact and not np.isnan(cell[0]):
        for name in ("values", "low", "high", "uncut"):
            cell[FIELDS.index(name)] = least


def _least(plan: JobPlan, member: Member) -> float:
    try:
        return units_of(np.asarray(cost_between(plan.cost, member, member), dtype=np.float64)).offset
    except (TypeError, ValueError):
        return float("nan")
