"""A long SOMCOT run with checkpoints, to be killed or interrupted from outside.

``python -m tests.reliability.somcot_worker CHECKPOINT RESULT KIND N_STEPS``: goes on from the checkpoint if there is
one, and writes the outcome to RESULT.
"""

from __future__ import annotations

import sys

from somcot.solvers import somcot
from tests.instances import walks


def main(checkpoint: str, outcome: str, kind: str, n_steps: int) -> None:
    x, y, cost = walks(6, 0.7)
    options = {
        "full": {"primal_step": 40.0, "dual_step": 0.2},
        "observed": {"support": "observed", "batch_size": 2},
        "auto": {"keep_coupling": True},
    }[kind]
    somcot.solve(x, y, cost, discount=0.95, n_steps=10, **options)  # type: ignore[arg-type]
    print("ready", flush=True)
    result = somcot.solve(
        x, y, cost, discount=0.95, n_steps=n_steps, rng=7, checkpoint=checkpoint, checkpoint_every=0.02, resume=True,
        **options,  # type: ignore[arg-type]
    )  # fmt: skip
    result.save(outcome)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
