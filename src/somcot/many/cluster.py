"""Jobs on a Dask cluster: the user's own client, chunks that are pure functions, results as they come.

Tasks carry all they need, so a worker that dies costs the tasks it had; they are done again elsewhere. Where no worker
is left for a minute, the rest is done in this process.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from somcot.many.cells import Cells
from somcot.many.plan import Plan
from somcot.many.work import run
from somcot.plumbing.errors import DataWarning, warn

__all__ = ["check_client", "local_client", "on_cluster"]

PATIENCE = 60.0  # seconds without any worker before the rest is done here
_AGAIN = 20  # times that a chunk is sent anew because its worker died
_AHEAD = 4  # chunks per worker that wait there, so that none is idle

Keep = Callable[[list[tuple[int, Cells]]], None]
Jobs = Sequence[int]


def check_client(client: Any) -> None:
    """Refuse what is no client, or one that is closed."""
    if not all(hasattr(client, name) for name in ("submit", "scheduler_info", "status")):
        raise TypeError(f"client: found {type(client).__name__}, expected a dask.distributed.Client")
    if client.status != "running":
        raise ValueError(f"client: its status is {client.status!r}; pass one that is connected to a scheduler")
    if getattr(client, "asynchronous", False):
        raise ValueError("client: it is asynchronous; pass one made with asynchronous=False")


def on_cluster(plan: Plan, chunks: Sequence[Jobs], client: Any, keep: Keep) -> list[Jobs]:
    """Do chunks of jobs; those that no worker was left for are returned."""
    wait = importlib.import_module("distributed").wait
    waiting = list(reversed(list(chunks)))
    running: dict[Any, Jobs] = {}
    failures: dict[int, int] = {}
    seen = time.monotonic()
    try:
        while waiting or running:
            workers = _n_workers(client)
            now = time.monotonic()
            seen = now if workers else seen
            closed = client.status in ("closing", "closed")
            if closed or (not workers and now - seen > PATIENCE):
                why = "it was closed" if closed else f"no worker for {PATIENCE:.0f} s"
                warn(f"client: {why}; the rest is done in this process", DataWarning)
                break
            while waiting and len(running) < _AHEAD * workers:
                jobs = waiting.pop()
                running[client.submit(run, plan.part(jobs), list(jobs), pure=False)] = jobs
            done = _finished(wait, list(running))
            for future in done:
                jobs = running.pop(future)
                if future.status == "finished":
                    keep(future.result())
                    continue
                failures[jobs[0]] = failures.get(jobs[0], 0) + 1
                if (future.status == "error" and not _died(future)) or failures[jobs[0]] > _AGAIN:
                    future.result()  # raises what went wrong there
                waiting.append(jobs)
    finally:
        for future in running:
            with contextlib.suppress(Exception):  # there may be nobody left to tell
                future.cancel()
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
    except OSError:  # the scheduler is gone; perhaps it comes back
        return 0


def local_client(n_workers: int) -> Any:
    """A cluster of processes on this machine that starts workers anew when they die."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise ImportError("--workers: needs dask.distributed: pip install 'somcot[dask]'") from None
    cluster = distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None
    )
    cluster.adapt(minimum=n_workers, maximum=n_workers)  # a plain cluster loses killed workers for good
    return distributed.Client(cluster)
