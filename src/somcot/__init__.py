"""somcot: how far apart are two Markov processes?

import somcot

reward = [1, 0, 0, 0, -1]
result = somcot.distance(
somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.7), somcot.costs.absolute(reward, reward), discount=0.95
)
print(result)
"""

from importlib import import_module
from typing import Any

from somcot import costs
from somcot.api import distance, metric, same_process
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
    "metric",
    "random_walk",
    "same_process",
]

# Loaded on first use: they bring compiled code or optional packages.
_SUBMODULES = {"certificates", "couplings", "plots", "readers", "report", "solvers", "steps", "streams"}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"somcot.{name}")
    raise AttributeError(f"module 'somcot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
