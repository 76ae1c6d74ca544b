"""Detectors of change side by side: false alarms on a stream without a change, delay after one.

Run with the Python of an environment that has river (see requirements.txt): ``python -m benchmarks.live``.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import somcot
from somcot import MarkovChain, Monitor

BEFORE, LENGTH = 5000, 10_000
Detector = Callable[[MarkovChain, list[int]], int]


def _somcot(reference: MarkovChain, states: list[int]) -> int:
    monitor = Monitor(reference, discount=0.9, false_alarm=0.05, within=20_000)
    found = monitor.update(np.array(states))
    return found[0].event if found else 0


def _river(name: str, centred: bool) -> Detector:
    def run(reference: MarkovChain, states: list[int]) -> int:
        from river import drift

        detector: Any = getattr(drift, name)()
        P = np.asarray(reference.transition)
        entropy = -np.where(P > 0, P * np.log(np.where(P > 0, P, 1.0)), 0.0).sum(axis=1)
        for t in range(1, len(states)):
            i, j = states[t - 1], states[t]
            surprise = -math.log(max(P[i, j], 1e-12)) - (entropy[i] if centred else 0.0)
            detector.update(surprise)
            if detector.drift_detected:
                return t + 1
        return 0

    return run


DETECTORS: dict[str, Detector] = {
    "somcot.Monitor": _somcot,
    "ADWIN, surprise": _river("ADWIN", False),
    "ADWIN, centred surprise": _river("ADWIN", True),
    "Page-Hinkley, surprise": _river("PageHinkley", False),
    "Page-Hinkley, centred surprise": _river("PageHinkley", True),
    "KSWIN, surprise": _river("KSWIN", False),
}


def _stream(before: MarkovChain, after: MarkovChain, seed: int) -> list[int]:
    first = before.sample(1, BEFORE, rng=seed).now
    rest = MarkovChain(after.transition, int(first[-1])).sample(1, LENGTH - BEFORE + 1, rng=1000 + seed).now[1:]
    return [*first.tolist(), *rest.tolist()]


def row(name: str, n_streams: int) -> str:
    """One line of the table: false alarms, delays and misses for two changes, time for each event."""
    walk, n = somcot.random_walk(10), 10
    rng = np.random.default_rng(1)
    dense = MarkovChain(rng.dirichlet(np.ones(n), n))
    mixed = MarkovChain(0.9 * np.asarray(dense.transition) + 0.1 * rng.dirichlet(np.ones(n), n))
    cells, seconds = [], 0.0
    for before, after in ((walk, somcot.random_walk(10, 0.7)), (dense, mixed)):
        streams = [_stream(before, after, seed) for seed in range(n_streams)]
        began = time.process_time()
        found = [DETECTORS[name](before, states) for states in streams]
        seconds += time.process_time() - began
        early = sum(0 < event <= BEFORE for event in found)
        delays = [event - BEFORE for event in found if event > BEFORE]
        missed = sum(event == 0 for event in found)
        cells.append(
            f"{early / n_streams:.2f} | {statistics.median(delays):.0f}" if delays else f"{early / n_streams:.2f} | -"
        )
        cells.append(f"{missed / n_streams:.2f}")
    return f"| {name} | {' | '.join(cells)} | {1e6 * seconds / (2 * n_streams * LENGTH):.2f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.live", description=__doc__)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--only", choices=list(DETECTORS))
    args = parser.parse_args()
    _somcot(somcot.random_walk(3), [0, 1, 0])  # compile
    print("| detector | walk: false alarms | delay | missed | dense: false alarms | delay | missed | us per event |")
    print("|---|---|---|---|---|---|---|---|")
    for name in [args.only] if args.only else DETECTORS:
        print(row(name, args.streams), flush=True)


if __name__ == "__main__":
    main()
