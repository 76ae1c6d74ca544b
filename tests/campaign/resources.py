"""Memory in a process of its own: what a computation takes against what was forecast, and what many calls leave.

``python -m tests.campaign.resources forecast METHOD KIND N`` prints the forecasts of one solve and the growth of the
resident memory at its peak, in bytes; ``python -m tests.campaign.resources growth CALLS`` and ``soak SECONDS`` ask
questions of all kinds again and again and print the resident memory after the first tenth and at the end.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from somcot.plumbing import memory

FORECASTS: list[float] = []
_require = memory.require


def _noted(n_bytes: float, what: str, remedy: str) -> None:
    FORECASTS.append(n_bytes)
    _require(n_bytes, what, remedy)


memory.require = _noted  # before the modules that take it by name are loaded

import numpy as np  # noqa: E402

import somcot  # noqa: E402
from somcot import MarkovChain, random_walk  # noqa: E402
from somcot.compile.jit import n_compiled  # noqa: E402

METHODS: dict[str, dict[str, Any]] = {
    "exact": {"threads": 1},
    "saddle": {"max_steps": 20},
    "sinkhorn": {"epsilon": 0.1, "max_sweeps": 2, "threads": 1},
    "somcot": {"n_steps": 200, "rng": 0},
    "lp": {},
}


def chain(kind: str, n: int, seed: int) -> MarkovChain:
    """Dense rows, or rows with five successors."""
    rng = np.random.default_rng(seed)
    if kind == "dense":
        return MarkovChain(rng.random((n, n)), rng.random(n), normalize=True)
    table = np.zeros((n, n))
    for row in table:
        row[rng.choice(n, 5, replace=False)] = rng.random(5)
    return MarkovChain(table, rng.random(n), normalize=True)


def forecast(method: str, kind: str, n: int) -> dict[str, float]:
    """One solve after a small one that loads everything; `compiled` kernels count the compiler's memory too."""
    options: dict[str, Any] = {"discount": 0.9, "method": method, **METHODS[method]}
    somcot.distance(chain(kind, 6, 0), chain(kind, 6, 1), np.eye(6), **options)
    x, y = chain(kind, n, 0), chain(kind, n, 1)
    cost = np.random.default_rng(2).random((n, n))
    FORECASTS.clear()
    before, kernels = resident(), n_compiled()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    somcot.distance(x, y, cost, **options)
    return {"forecast": sum(FORECASTS), "peak": _status("VmHWM") - before, "compiled": n_compiled() - kernels}


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024.0 * float(line.split()[1]) for line in lines if line.startswith(name))


def resident() -> float:
    """Bytes of memory in use."""
    return _status("VmRSS")


def questions(folder: Path) -> list[Callable[[], Any]]:
    """One of each kind, in a millisecond or so."""
    x, y, cost = random_walk(4), random_walk(4, 0.7), 1.0 - np.eye(4)
    data = x.sample(10, 8, rng=0), y.sample(10, 8, rng=1)
    (folder / "a.csv").write_text("user,page\n1,a\n1,b\n2,a\n2,a\n", encoding="utf-8")
    result = somcot.distance(x, y, cost, discount=0.9)

    def saved() -> None:
        result.save(folder / "a.result")
        somcot.Result.load(folder / "a.result")

    def refused() -> None:
        try:
            somcot.readers.read(folder / "nowhere.csv")
        except ValueError:
            return

    asked = [partial(somcot.distance, x, y, cost, discount=0.9, method=name, **METHODS[name]) for name in METHODS]
    return [
        *asked,
        lambda: somcot.distance(*data, cost, discount=0.9, confidence=0.9, rng=0),
        lambda: somcot.same_process(*data, cost, discount=0.9, n_permutations=3, rng=0),
        lambda: somcot.metric(x, y, cost, discount=0.9),
        lambda: somcot.readers.read(folder / "a.csv", sequence="user", state="page"),
        saved,
        refused,
    ]


def repeat(calls: float, seconds: float) -> dict[str, float]:
    """Until so many calls, or so many seconds, are over."""
    began, done, first = time.monotonic(), 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        asked = questions(Path(folder))
        while done < calls and time.monotonic() - began < seconds:
            asked[done % len(asked)]()
            FORECASTS.clear()
            done += 1
            if not first and (done >= calls / 10 or time.monotonic() - began > seconds / 10):
                first = resident()
    return {"calls": done, "first": first, "last": resident()}


def main(what: str, *given: str) -> None:
    """Print the figures as JSON."""
    warnings.simplefilter("ignore")
    os.environ.pop("SOMCOT_MEMORY_LIMIT", None)
    if what == "forecast":
        print(json.dumps(forecast(given[0], given[1], int(given[2]))))
    else:
        print(json.dumps(repeat(float(given[0]), 1e9) if what == "growth" else repeat(1e18, float(given[0]))))


if __name__ == "__main__":
    main(*sys.argv[1:])
