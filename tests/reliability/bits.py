"""Short runs of every solver, each summed up in one hash. ``python -m tests.reliability.bits`` prints them."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from somcot import MarkovChain, distance
from somcot.plumbing.errors import ConvergenceWarning
from somcot.result import Result
from tests.instances import Floats, blocks

RUNS: dict[str, dict[str, Any]] = {
    "exact": {"method": "exact"},
    "saddle": {"method": "saddle", "max_steps": 500},
    "somcot full": {"method": "somcot", "n_steps": 500, "primal_step": 40.0, "dual_step": 0.2, "rng": 0},
    "somcot observed": {"method": "somcot", "n_steps": 500, "support": "observed", "steps": "former", "rng": 0},
    "somcot default": {"method": "somcot", "n_steps": 500, "rng": 0},
}


def dense() -> tuple[MarkovChain, MarkovChain, Floats]:
    """Chains whose numbers need no library to make."""
    i, j = np.indices((12, 12))
    x, y = (i * 7 + j * 5) % 11 + 1.0, (i * 3 + j * j) % 13 + 1.0
    first = np.arange(1.0, 10.0)
    return (
        MarkovChain(x / x.sum(axis=1, keepdims=True), 3),
        MarkovChain(y[:9, :9] / y[:9, :9].sum(axis=1, keepdims=True), first / first.sum()),
        ((i * 5 + j * 11) % 17 / 16.0)[:, :9],
    )


def digest(arrays: Iterable[Any]) -> str:
    """One hash of all bits."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def everything(result: Result) -> str:
    """A hash of all numbers of a result but the seconds."""
    plan = () if result.plan is None else (result.plan.mass,)
    duals = () if result.duals is None else result.duals
    # SOMCOT's bounds are those of fitted chains: the fit uses BLAS, which has other bits on other machines.
    bounds = () if result.method == "somcot" else result.bounds
    main = (result.distance, *bounds, result.potential, result.state_law, result.encoder, result.decoder)
    return digest([*main, *result.residuals, *plan, *duals, *result.trace.values()])


def main() -> None:
    for place, (x, y, cost) in {"walk": blocks(10, 5, 0.7), "dense": dense()}.items():
        for name, options in RUNS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                print(place, name, everything(distance(x, y, cost, discount=0.95, **options)), sep=",")


if __name__ == "__main__":
    main()
