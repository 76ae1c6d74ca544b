"""Run one other package on one problem: ``python clock_peers.py NAME FILE.npz SECONDS`` prints JSON. Needs no somcot.

pyotc finds the long-run average from stationary starts, with two of its solvers. pnot finds the sum of costs over a
horizon between two sets of recorded paths, from the steps counted at each time.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = Any


def pyotc(problem: Mapping[str, Array], backend: str) -> float | None:
    from pyotc import exact_otc

    value = exact_otc(problem["P"], problem["Q"], problem["cost"], backend=backend)[0]
    return None if value is None else float(value)


def pnot(problem: Mapping[str, Array]) -> float:
    from pnot import nested_ot

    paths = [np.ascontiguousarray(problem[name].T, dtype=np.float64) for name in ("paths_x", "paths_y")]
    found = nested_ot(*paths, 1.0, True, num_threads=1, power=1, verbose=False)
    return float(found) / len(paths[0])


PEERS: dict[str, Callable[[Mapping[str, Array]], float | None]] = {
    "pyotc dense": lambda problem: pyotc(problem, "dense"),
    "pyotc sparse": lambda problem: pyotc(problem, "sparse"),
    "pnot": pnot,
}


def main(name: str, path: str, limit: str) -> None:
    """Solve twice and keep the faster: the first call pays for lazy imports."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
    problem = dict(np.load(path))
    seconds, value = float("inf"), None
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for _ in range(2):
            began = time.process_time()
            value = PEERS[name](problem)
            seconds = min(seconds, time.process_time() - began)
            if seconds > 5:
                break
    print(json.dumps({"value": value, "seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
