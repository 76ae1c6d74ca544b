"""Value and gradient by another package: ``gradient_peers.py NAME FILE.npz`` prints a JSON line. Needs no somcot.

The gradient is that in the logits of the first kernel. `unrolled` is value iteration with Sinkhorn steps inside, all of
it recorded by autograd, which is how one differentiates such a distance without derivatives of one's own.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

import numpy as np
import torch

Array = Any
ROUNDS, STEPS, EPSILON = 60, 10, 0.03


def unrolled(P: Array, Q: Array, cost: Array, discount: float, start_x: Array, start_y: Array) -> Array:
    n, m = cost.shape
    rows = torch.cat([P, start_x[None]]).log()[:, None, :, None]
    columns = torch.cat([Q, start_y[None]]).log()[None, :, None, :]
    V, value = cost, cost.sum()
    g = torch.zeros(n + 1, m + 1, 1, m, dtype=V.dtype)  # prices are kept from round to round
    for _ in range(ROUNDS):
        C = V[None, None] / EPSILON
        for _ in range(STEPS):
            f = rows - torch.logsumexp(g - C, -1, keepdim=True)
            g = columns - torch.logsumexp(f - C, -2, keepdim=True)
        table = (torch.exp(f + g - C) * V[None, None]).sum((-2, -1))
        V, value = cost + discount * table[:n, :m], (1 - discount) * table[n, m]
    return value


def ot_markov_distances(P: Array, Q: Array, cost: Array, discount: float, start_x: Array, start_y: Array) -> Array:
    from ot_markov_distances import discounted_wl_infty

    batch = [a[None] for a in (P, Q, cost, start_x, start_y)]
    return discounted_wl_infty(*batch[:3], muX=batch[3], muY=batch[4], delta=1 - discount)[0]


PEERS = {"unrolled Sinkhorn": unrolled, "ot_markov_distances": ot_markov_distances}


def main(name: str, path: str) -> None:
    torch.set_num_threads(1)
    problem = {key: torch.tensor(value) for key, value in np.load(path).items()}
    logits = problem["P"].log().requires_grad_()
    began = time.process_time()
    answer: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = problem["Q"], problem["cost"], float(problem["discount"]), problem["x0"], problem["y0"]
        value = PEERS[name](logits.softmax(-1), *arguments)
        answer["value"] = float(value)
        try:
            value.backward()
            answer["gradient"] = logits.grad.tolist()
        except Exception as error:  # what it says is the finding
            answer["error"] = type(error).__name__
    print(json.dumps({**answer, "seconds": time.process_time() - began}))


if __name__ == "__main__":
    main(*sys.argv[1:])
