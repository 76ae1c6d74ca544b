"""A long SOMCOT run with checkpoints, to be killed or interrupted from outside.

``python -m tests.reliability.somcot_worker CHECKPOINT RESULT KIND N_STEPS``: goes on from the checkpoint if there is
one, and writes the outcome to RESULT.
"""

from __future__ import annotations

import sys
from typing import Any

from somcot import streams
from somcot.solvers import somcot
from tests.instances import walks


def main(checkpoint: str, outcome: str, kind: str, n_steps: int) -> None:
    x, y, cost = walks(6, 0.7)
    kinds: dict[str, dict[str, Any]] = {
        "full": {"primal_step": 40.0, "dual_step": 0.2},
        "observed": {"support": "observed", "batch_size": 2, "steps": "theorem"},
        "auto": {"keep_coupling": True, "steps": "theorem"},
        "phases": {"support": "observed", "steps": "theorem"},
        "counted": {},
    }
    options = kinds[kind]
    somcot.solve(x, y, cost, discount=0.95, n_steps=10, **options)
    print("ready", flush=True)
    saving: dict[str, Any] = {"checkpoint": checkpoint, "checkpoint_every": 0.02, "resume": True}
    if kind == "phases":  # without a plan, until the streams end
        pairs = [streams.from_chain(chain, 0.95, seed).draw(n_steps) for seed, chain in enumerate((x, y))]
        given = [streams.from_iterable(zip(*(side.tolist() for side in pair), strict=True)) for pair in pairs]
        result = somcot.solve(given[0], given[1], cost, discount=0.95, **saving, **options)
    else:
        result = somcot.solve(x, y, cost, discount=0.95, n_steps=n_steps, rng=7, **saving, **options)
    result.save(outcome)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
