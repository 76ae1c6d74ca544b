"""Upper bounds from simulators: couplings by common, rotated, assigned and learned noise, with their CPU seconds.

``python -m benchmarks.couplings`` in an environment with PyTorch (`make test-loss` makes one) prints one line for each
pair of simulators: the mean cost of each coupling in 2,000 roll-outs, its standard error, and CPU seconds. Learning is
counted in those of *learned*; *assigned* matches 32 successors, which takes about as long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import somcot.torch
from somcot import gaussian
from somcot.certificates import simulated_upper
from somcot.core import simulated_bound

_DISCOUNT = 0.9
_ROLLOUTS = 2000
_MATCHED = 32  # successors
Step = Callable[[Any, Any], Any]


def linear(M: Any, N: Any) -> Step:
    M, N = torch.as_tensor(M), torch.as_tensor(N)
    return lambda x, e: torch.as_tensor(x) @ M.T + torch.as_tensor(e) @ N.T


def turned(speed: float, across: float) -> Step:
    """Noise whose directions turn with the first coordinate; equal in all directions if `across` is 1."""

    def step(x: Any, e: Any) -> Any:
        x, e = torch.as_tensor(x), torch.as_tensor(e)
        c, s = torch.cos(speed * x[:, 0]), torch.sin(speed * x[:, 0])
        along, beside = e[:, 0], across * e[:, 1]
        return 0.8 * x + 0.3 * torch.stack([c * along - s * beside, s * along + c * beside], dim=1)

    return step


def network(seed: int, d: int) -> Step:
    rng = np.random.default_rng(seed)
    W, N = (torch.as_tensor(rng.normal(size=(d, d)) / np.sqrt(d)) for _ in range(2))

    def step(x: Any, e: Any) -> Any:
        x = torch.as_tensor(x)
        return 0.9 * torch.tanh(1.3 * x @ W.T) + 0.4 * (1 + 0.5 * torch.tanh(x)) * (torch.as_tensor(e) @ N.T)

    return step


def pairs() -> dict[str, tuple[int, float, Step, Step, str, float | None]]:
    """Dimension, size of the initial states, both steps, cost and, if known, the distance."""
    rng = np.random.default_rng(20)
    A, B = (0.85 * M / np.abs(np.linalg.eigvals(M)).max() for M in rng.normal(size=(2, 20, 20)))
    S, R = 0.3 * rng.normal(size=(2, 20, 20)) / np.sqrt(20)
    truth = gaussian.distance(A, S, B, R, discount=_DISCOUNT).distance
    return {
        "linear (20-D), squared": (20, 0.0, linear(A, S), linear(B, R), "sqeuclidean", truth),
        "even noise, turned by the state (2-D)": (2, 0.5, turned(0.0, 1.0), turned(2.0, 1.0), "euclidean", 0.0),
        "uneven noise, turned by the state (2-D)": (2, 0.5, turned(0.5, 0.1), turned(2.0, 0.1), "euclidean", None),
        "networks (3-D)": (3, 0.5, network(1, 3), network(2, 3), "euclidean", None),
        "networks (20-D)": (20, 0.5, network(1, 20), network(2, 20), "euclidean", None),
    }


def line(d: int, size: float, step: tuple[Step, Step], cost: str, truth: float | None) -> str:
    """What each coupling costs."""

    def begin(n: int, rng: np.random.Generator) -> Any:
        return size * rng.standard_normal((n, d))

    def shown(label: str, coupling: Any, spent: float = 0.0) -> str:
        began = time.process_time()
        found = simulated_upper(reset, step, cost, discount=_DISCOUNT, n_rollouts=_ROLLOUTS, rng=5, coupling=coupling)
        spent += time.process_time() - began
        return f"{label} {found.bound:.3f} +- {found.standard_error:.3f} ({spent:.1f} s)"

    reset = begin, begin
    turn = simulated_bound.explicit_turn(reset, step, d, _DISCOUNT, np.random.default_rng(1))
    began = time.process_time()
    learned = somcot.torch.NoiseCoupling(d).fit(reset, step, cost, discount=_DISCOUNT, rng=1)
    spent = time.process_time() - began
    parts = [
        f"truth {'?' if truth is None else f'{truth:.3f}'}",
        shown("common", lambda x, y: np.eye(d)),
        shown("rotated", lambda x, y: np.eye(d) if turn is None else turn),
        shown("learned", learned.arrays, spent),
        _assigned(begin, step, cost, d),
    ]
    return "; ".join(parts)


def _assigned(begin: Any, step: tuple[Step, Step], cost: str, d: int) -> str:
    """Successors from noise of their own, matched; without the pilot of `simulated_upper`."""
    drawn = tuple((lambda x, rng, s=s: s(x, rng.standard_normal((len(x), d)))) for s in step)
    game: Any = simulated_bound._Game((begin, begin), drawn, simulated_bound._pair_cost(cost), _DISCOUNT, _MATCHED)  # type: ignore[arg-type]
    began = time.process_time()
    values = simulated_bound._rolled(game, "assigned", _ROLLOUTS, np.random.default_rng(5))
    error, spent = values.std() / np.sqrt(_ROLLOUTS), time.process_time() - began
    return f"assigned {values.mean():.3f} +- {error:.3f} ({spent:.1f} s)"


def main() -> None:
    """Print one line for each pair."""
    torch.set_num_threads(1)
    for name, (d, size, f, g, cost, truth) in pairs().items():
        print(f"{name}: {line(d, size, (f, g), cost, truth)}", flush=True)


if __name__ == "__main__":
    main()
