"""Known chains: our exact solver beside policy iteration written with POT, pyotc and ot-markov-distances."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tests.instances import Floats, blocks, dense_kernel, walks
from tests.reference import pot_policy_iteration
from tests.wide_instances import WIDE_FAMILIES

import somcot

PEER_TIMEOUT = 240


class Instance(NamedTuple):
    """A named problem, and what it is measured against."""

    name: str
    x: somcot.MarkovChain
    y: somcot.MarkovChain
    cost: Floats
    discount: float
    pot: bool = True
    peers: bool = True


def instances() -> Iterator[Instance]:
    rng = np.random.default_rng(0)
    for n in (10, 20, 50):
        yield Instance(f"walk {n} x {n}", *walks(n, 0.3), 0.95, peers=n <= 20)
    yield Instance("block 10 x 50", *blocks(10, 5, 0.3), 0.95)
    for n in (10, 20, 50, 100):
        x, y = (somcot.MarkovChain(rng.random((n, n)), normalize=True) for _ in range(2))
        yield Instance(f"dense {n} x {n}", x, y, rng.random((n, n)), 0.95, peers=n <= 20)
    for family, made in WIDE_FAMILIES.items():  # not tuned on
        yield Instance(f"{family}, 40 x 40", *made(40, 2), 0.95, peers=False)
    yield Instance("walk 400 x 400, discount 0.99", *walks(400, 0.3), 0.99, pot=False, peers=False)


def cpu(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    answer = call()
    return time.process_time() - began, answer


def run_peer(python: str, name: str, instance: Instance) -> str:
    """Error and CPU seconds of another package, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(
            path, P=dense_kernel(instance.x), Q=dense_kernel(instance.y), cost=instance.cost,
            discount=instance.discount, x0=instance.x.initial, y0=instance.y.initial,
        )  # fmt: skip
        try:
            done = subprocess.run(
                [python, str(Path(__file__).with_name("peers.py")), name, str(path)],
                capture_output=True, text=True, timeout=PEER_TIMEOUT, check=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"> {PEER_TIMEOUT} s"
        except subprocess.CalledProcessError as error:
            return f"failed: {error.stderr.strip().splitlines()[-1][:60]}"
    printed: str = done.stdout
    return printed


def report(python: str | None) -> str:
    """The whole comparison as a Markdown section."""
    head = [
        "instance",
        "distance",
        "bracket",
        "metric, CPU s",
        "distance, CPU s",
        "POT",
        "pyotc 0.4.0",
        "ot-markov 1.0.4",
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for instance in instances():
        lines.append("| " + " | ".join(measure(instance, python)) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(
        [
            "## Known chains",
            "",
            "`metric` computes the values of all pairs of states, `distance` the value for the initial",
            "distributions with encoder, decoder and residuals. For the other packages: time as a multiple of",
            "somcot's, and error. POT means policy iteration with POT's network simplex; it is compared with",
            "`metric`, and its error is the largest over all pairs. The others compute one value and are compared",
            "with `distance`.",
            "",
            *lines,
            "",
            "![Time and error of other packages](images/benchmarks-peers.png)",
            "",
            "Uneven, band, zipf and level are families that were not used for tuning (`tests/wide_instances.py`).",
            "",
            memory_line(),
        ]
    )


def measure(instance: Instance, python: str | None) -> list[str]:
    """One row: ours and POT's take turns, the fastest of each counts."""
    x, y, cost, discount = instance[1:5]
    P, Q = dense_kernel(x), dense_kernel(y)
    small = cost.size <= 1000
    best = dict.fromkeys(("metric", "distance", "pot"), float("inf"))
    answers: dict[str, Any] = {}
    calls: dict[str, Callable[[], Any]] = {
        "metric": lambda: somcot.metric(x, y, cost, discount=discount, threads=1),
        "distance": lambda: in_full(somcot.distance(x, y, cost, discount=discount, threads=1)),
        "pot": lambda: pot_policy_iteration.solve(P, Q, cost, discount),
    }
    somcot.distance(x, y, cost, discount=discount, threads=1, max_sweeps=1)  # loads the kernels
    for turn in range(10 if small else 3 if cost.size <= 2500 else 1):
        for name, call in calls.items():
            if name == "pot" and (not instance.pot or (turn > 0 and not small)):
                continue
            seconds, answers[name] = cpu(call)
            best[name] = min(best[name], seconds)
    result = answers["distance"]
    row = [instance.name, f"{result.distance:.6f}", f"{result.bounds.high - result.bounds.low:.0e}"]
    row += [f"{best['metric']:.4f}", f"{best['distance']:.4f}"]
    if instance.pot:
        error = float(np.abs(answers["metric"] - (1 - discount) * answers["pot"]).max())
        row.append(f"{best['pot'] / best['metric']:.0f}x, {error:.0e}")
    else:
        row.append("not run")
    for name in ("pyotc", "ot_markov_distances"):
        if python is None or not instance.peers:
            row.append("not run")
            continue
        answer = run_peer(python, name, instance)
        if answer.startswith("{"):
            record = json.loads(answer)
            answer = f"{record['seconds'] / best['distance']:.0f}x, {record['value'] - result.distance:+.0e}"
        row.append(answer)
    return row


def in_full(result: somcot.Result) -> somcot.Result:
    """The result, after all that it computes when asked for."""
    _ = result.encoder, result.decoder, result.residuals
    return result


def memory_line() -> str:
    """Peak memory of a dense 100 x 100 solve, and how much of it is not the library itself."""
    code = (
        "import numpy as np, somcot\n"
        "rng = np.random.default_rng(0)\n"
        "solve = lambda n: somcot.distance(*(somcot.MarkovChain(rng.random((n, n)), normalize=True) for _ in 'xy'),"
        " rng.random((n, n)), discount=0.95, threads=1)\n"
        "peak = lambda: next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "solve(5)\n"
        "before = peak()\n"
        "solve(100)\n"
        "print(peak() // 1024, (peak() - before) // 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    total, growth = done.stdout.split()
    return f"Peak memory of the dense 100 x 100 solve: {total} MB in all, {growth} MB above the loaded library."
