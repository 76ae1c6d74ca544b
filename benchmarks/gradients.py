"""Value and gradient, as in training: cold and warm starts along an optimiser's path, beside what others offer."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.gradients_instances import softmax
from tests.instances import Floats

from somcot.gradients import WarmStart, solve_arrays

DISCOUNT = 0.95
SIZES = {10: 40, 20: 20, 50: 6}  # steps along the path


def report(peers: str | None) -> str:
    lines = [
        "## Differentiable loss",
        "",
        "Value and all derivatives for dense softmax kernels at discount 0.95, along a path of Adam with a",
        "learning rate of 0.01 in the logits of one kernel: time of a cold call and of a warm-started one",
        "(`WarmStart`), and the largest difference of their values. The other packages on the first problem",
        "of the path: time as a multiple of the cold call, error of the value, relative error of the",
        "gradient.",
        "",
        "| states | cold, ms | warm, ms | ratio | difference | unrolled Sinkhorn | ot-markov-distances 1.0.4 |",
        "|---|---|---|---|---|---|---|",
    ]
    for n, steps in SIZES.items():
        rng = np.random.default_rng(n)
        logits, Q, cost = rng.normal(size=(n, n)), softmax(rng.normal(size=(n, n))), rng.random((n, n))
        cold, warm, apart = _path(logits, Q, cost, steps)
        cells = ["not run"] * 2
        if peers and n <= 10:  # unrolled, 20 states take 5 GB
            cells = [_peer(peers, name, logits, Q, cost, cold) for name in ("unrolled Sinkhorn", "ot_markov_distances")]
        times = f"{1e3 * cold:.1f} | {1e3 * warm:.1f} | {cold / warm:.1f}"
        lines.append(f"| {n} x {n} | {times} | {apart:.0e} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def _arrays(logits: Floats, Q: Floats, cost: Floats) -> tuple[Floats, ...]:
    u = np.full(len(Q), 1.0 / len(Q))
    return softmax(logits), Q, cost, np.asarray(DISCOUNT), u, u


def _path(logits: Floats, Q: Floats, cost: Floats, steps: int, lr: float = 0.01) -> tuple[float, float, float]:
    """Mean CPU seconds of cold and warm calls along a path of Adam, and how far their values are apart at most."""
    warm, mean, square, at = WarmStart(), np.zeros_like(logits), np.zeros_like(logits), logits.copy()
    seconds, apart = np.zeros(2), 0.0
    for step in range(1, steps + 2):
        given, found = _arrays(at, Q, cost), []
        for which, start in enumerate((None, warm)):
            began = time.process_time()
            solution = solve_arrays(given, start, threads=1)
            found.append((float(solution.value), solution.gradient))
            seconds[which] += (time.process_time() - began) * (step > 1)  # the first call has nothing to begin from
        apart = max(apart, abs(found[0][0] - found[1][0]))
        slope = given[0] * found[0][1].P_x
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        at -= lr * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return seconds[0] / steps, seconds[1] / steps, apart


def _peer(python: str, name: str, logits: Floats, Q: Floats, cost: Floats, ours: float) -> str:
    """Another package, in a process of its own."""
    given = _arrays(logits, Q, cost)
    exact = solve_arrays(given)
    slope = given[0] * exact.gradient.P_x
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, P=given[0], Q=Q, cost=cost, discount=DISCOUNT, x0=given[4], y0=given[5])
        script = Path(__file__).with_name("gradient_peers.py")
        done = subprocess.run([python, str(script), name, str(path)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return "failed"
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    told = f"{answer['seconds'] / ours:,.0f}x, {answer['value'] - float(exact.value):+.0e}"
    if "gradient" not in answer:
        return f"{told}, backward fails ({answer['error']})"
    return f"{told}, {np.linalg.norm(np.array(answer['gradient']) - slope) / np.linalg.norm(slope):.0%}"


if __name__ == "__main__":
    import sys

    print(report(sys.argv[1] if len(sys.argv) > 1 else None))
