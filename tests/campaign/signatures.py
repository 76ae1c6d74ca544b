"""One signature for each method: a digest of the bits of its answers on fixed problems.

``python -m tests.campaign.signatures OUT.json [--threads N] [--layout C|F|strided|reversed|lists] [--chunk N]``
writes them; whatever the threads, processes, memory layouts and chunks, the file must be the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import somcot
from somcot import MarkovChain, costs, random_walk, streams
from somcot.solvers import somcot as steps
from tests.instances import Floats, random_chain

LAYOUTS: dict[str, Callable[[Floats], Any]] = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda a: np.repeat(np.repeat(a, 2, axis=0), 3, axis=-1)[::2, ::3],
    "reversed": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "lists": lambda a: a.tolist(),
}


def digest(*values: Any) -> str:
    """Of numbers and arrays, bit by bit."""
    found = hashlib.sha256()
    for value in values:
        found.update(np.ascontiguousarray(np.asarray(value, dtype=np.float64)).tobytes())
    return found.hexdigest()[:16]


def signatures(threads: int, layout: str, chunk: int) -> dict[str, str]:
    """The digest of every method."""
    turn = LAYOUTS[layout]
    rng = np.random.default_rng(7)
    made = [random_chain(rng, 20, "dense") for _ in range(2)]
    x, y = (MarkovChain(turn(np.asarray(made[k].transition)), made[k].initial) for k in range(2))
    table = rng.random((20, 20))
    a, b = random_walk(5), random_walk(5, 0.7)
    reward = costs.absolute([1, 0, 0, 0, -1], [1, 0, 0, 0, -1])
    small = turn(reward)
    data = a.sample(60, 30, rng=1), b.sample(60, 30, rng=2)
    found = {}
    methods: dict[str, dict[str, Any]] = {
        "exact": {"threads": threads},
        "sinkhorn": {"threads": threads, "epsilon": 0.05, "max_sweeps": 40},
        "saddle": {"max_steps": 500},
    }
    for method, options in methods.items():
        result = somcot.distance(x, y, turn(table), discount=0.95, method=method, **options)
        found[method] = digest(result.distance, result.bounds, result.potential, result.encoder, result.state_law)
    found["metric"] = digest(somcot.metric(x, y, turn(table), discount=0.95, threads=threads))
    lp = somcot.distance(a, b, small, discount=0.9, method="lp")
    found["lp"] = digest(lp.distance, lp.bounds)
    estimate = somcot.distance(*data, small, discount=0.9, confidence=0.9, rng=3, threads=threads)
    assert estimate.confidence_interval is not None
    found["auto on data"] = digest(estimate.distance, estimate.confidence_interval, estimate.bounds)
    found["plugin"] = digest(somcot.distance(*data, small, discount=0.9, method="plugin").distance)
    test = somcot.same_process(*data, small, discount=0.9, n_permutations=19, rng=4)
    found["same_process"] = digest(test.statistic, test.pvalue, test.null_distribution)
    for support in ("full", "observed"):
        found[f"somcot, {support}"] = _in_chunks(a, b, reward, support, chunk)
    return found


def _in_chunks(a: MarkovChain, b: MarkovChain, cost: Floats, support: str, chunk: int) -> str:
    """A run fed in chunks of transitions."""
    sources = [streams.from_chain(chain, 0.9, rng=seed) for chain, seed in ((a, 5), (b, 6))]
    state = steps.init(cost, discount=0.9, n_steps=600, support=support)
    for begin in range(0, 600, chunk):
        n = min(chunk, 600 - begin)
        state = steps.advance(state, sources[0].draw(n), sources[1].draw(n))
    result = steps.finish(state)
    return digest(result.distance, result.potential, result.encoder)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layout", choices=LAYOUTS, default="C")
    parser.add_argument("--chunk", type=int, default=600)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    found = signatures(asked.threads, asked.layout, asked.chunk)
    asked.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
