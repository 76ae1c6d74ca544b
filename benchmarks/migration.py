"""The numbers of docs/migration.md, by 0.2 and by this version: ``python -m benchmarks.migration``.

Each version runs in a process of its own, without warnings: 0.2 has other ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np

import somcot
from benchmarks.frontier import ROOT, taken_out
from somcot.data import clickstream

BEFORE = "76ec534"  # the last commit of 0.2


def answers() -> list[str]:
    """A line for each row of the page, by the version on PYTHONPATH."""
    may, june = (
        somcot.readers.from_table(
            clickstream.path(month), sequence="session", time="time", state="page", terminated=True
        )
        for month in ("may", "june")
    )
    order = np.random.default_rng(0).permutation(may.n_episodes)
    first, second = (may.take(half) for half in np.array_split(order, 2))
    cost = somcot.costs.absolute([1, 0, 0, 0, -1], [1, 0, 0, 0, -1])
    x, y = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.7)
    walks = x.sample(400, 50, rng=1), y.sample(400, 50, rng=2)
    a, b = (somcot.streams.from_chain(chain, 0.95, rng=seed) for seed, chain in enumerate((x, y)))
    run = somcot.distance(a, b, cost, discount=0.95, method="somcot", n_steps=20_000)
    return [
        _line("May against June, discount 0.9", somcot.distance(may, june, discount=0.9, confidence=0.9)),
        _line("random halves of May", somcot.distance(first, second, discount=0.9, confidence=0.9)),
        _line("README's walks, 400 episodes each", somcot.distance(*walks, cost, discount=0.95, confidence=0.9)),
        f"their streams, SOMCOT, 20,000 steps: {run.distance:.4f}; its counted chains {run.counted:.4f}",
        _alarm(somcot.Monitor(may, discount=0.9, one_false_alarm_per=100_000), june),
    ]


def _line(name: str, result: somcot.Result) -> str:
    assert result.confidence_interval is not None
    low, high, _ = result.confidence_interval
    return f"{name}: {result.distance:.4f} [{low:.4f}, {high:.4f}]"


def _alarm(monitor: somcot.Monitor, recording: somcot.Samples) -> str:
    """Feed sessions one by one in the order of the file; say in which one the alarm comes."""
    assert recording.offsets is not None
    for session, (begin, end) in enumerate(zip(recording.offsets, recording.offsets[1:], strict=False), start=1):
        codes = [*recording.now[begin:end], recording.following[end - 1]]
        if monitor.update([recording.states[code] for code in codes], [session] * len(codes)):
            return f"Monitor(may) fed June: in session {session}, {monitor.alarm}"
    return "Monitor(may) fed June: no alarm"


def main() -> None:
    """Run both versions and print their lines."""
    if sys.argv[1:] == ["--one"]:
        warnings.simplefilter("ignore")
        print("\n".join(answers()))
        return
    earlier = taken_out(BEFORE)
    versions: dict[str, Path | None] = {"0.2": earlier, "now": ROOT}
    for name, root in versions.items():
        if root is None:
            print(f"the history has no commit {BEFORE}", file=sys.stderr)
            continue
        print(f"--- {name}", flush=True)
        subprocess.run(
            [sys.executable, "-m", "benchmarks.migration", "--one"], cwd=ROOT, check=True,
            env=os.environ | {"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip


if __name__ == "__main__":
    main()
