"""How far apart are two Markov processes?

Two walks on five states, one of them drifting. Only the walls are worth something, so only they can be told apart:

>>> import somcot
>>> reward = [1, 0, 0, 0, -1]
>>> cost = somcot.costs.absolute(reward, reward)
>>> walk, drift = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.7)
>>> result = somcot.distance(walk, drift, cost, discount=0.95)
>>> round(result.distance, 6)
0.369631

The same question of recorded episodes is answered with an interval:

>>> a, b = walk.sample(400, 50, rng=1), drift.sample(400, 50, rng=2)
>>> low, high, level = somcot.distance(a, b, cost, discount=0.95, confidence=0.9).confidence_interval
>>> low < result.distance < high
True
"""

import importlib as _importlib
from types import ModuleType as _ModuleType

from somcot import costs
from somcot.api import distance, markov_order, metric, same_process
from somcot.chains import MarkovChain, block_chain, random_walk
from somcot.plumbing.errors import ConvergenceWarning, DataWarning, UnseenStateWarning
from somcot.plumbing.memory import MemoryLimitError
from somcot.problem import Problem
from somcot.result import Bounds, ConfidenceInterval, Result, Status
from somcot.samples import Samples

__version__ = "0.1.0"

__all__ = [
    "Bounds",
    "ConfidenceInterval",
    "ConvergenceWarning",
    "DataWarning",
    "MarkovChain",
    "MemoryLimitError",
    "Problem",
    "Result",
    "Samples",
    "Status",
    "UnseenStateWarning",
    "block_chain",
    "costs",
    "distance",
    "markov_order",
    "metric",
    "random_walk",
    "same_process",
]

# Loaded on first use: they bring compiled code or optional packages.
_SUBMODULES = frozenset(
    {"certificates", "couplings", "derivatives", "plots", "readers", "report", "solvers", "steps", "streams"}
)


def __getattr__(name: str) -> _ModuleType:
    if name in _SUBMODULES:
        return _importlib.import_module(f"somcot.{name}")
    raise AttributeError(f"module 'somcot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
