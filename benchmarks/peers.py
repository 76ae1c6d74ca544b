"""Run one other package on one problem: ``python peers.py NAME FILE.npz`` prints a JSON line. Needs no somcot.

pyotc solves the undiscounted average-cost problem. Its chains get a restart state that is entered with probability
1 - discount and left for the start: when both restart together (missing the other costs 2 / (1 - discount)), the
average cost is d / (2 - discount).
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
import warnings
from typing import Any

import numpy as np

Array = Any


def pyotc(P: Array, Q: Array, cost: Array, discount: float, start_x: Array, start_y: Array) -> float:
    from pyotc import exact_otc

    def restarting(kernel: Array, start: Array) -> Array:
        n = len(kernel)
        out = np.zeros((n + 1, n + 1))
        out[:n, :n], out[:n, n], out[n, :n] = discount * kernel, 1 - discount, start
        return out

    n, m = cost.shape
    padded = np.full((n + 1, m + 1), 2.0 / (1 - discount))
    padded[:n, :m], padded[n, m] = cost, 0.0
    value, _, _ = exact_otc(restarting(P, start_x), restarting(Q, start_y), padded, stat_dist=None)
    return float(value) * (2 - discount)


def ot_markov_distances(P: Array, Q: Array, cost: Array, discount: float, start_x: Array, start_y: Array) -> float:
    import torch
    from ot_markov_distances import discounted_wl_infty

    torch.set_num_threads(1)
    batch = [torch.tensor(a)[None] for a in (P, Q, cost, start_x, start_y)]
    return float(discounted_wl_infty(*batch[:3], muX=batch[3], muY=batch[4], delta=1 - discount)[0])


PEERS = {"pyotc": pyotc, "ot_markov_distances": ot_markov_distances}


def main(name: str, path: str) -> None:
    """Solve twice and keep the faster: the first call pays for lazy imports."""
    problem = dict(np.load(path))
    discount = float(problem.pop("discount"))
    seconds, value = float("inf"), float("nan")
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for _ in range(2):
            began = time.process_time()
            value = PEERS[name](problem["P"], problem["Q"], problem["cost"], discount, problem["x0"], problem["y0"])
            seconds = min(seconds, time.process_time() - began)
            if seconds > 5:
                break
    print(json.dumps({"value": value, "seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
