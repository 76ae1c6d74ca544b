"""How far apart are two Markov processes?

Two random walks on five states, one of them with drift. Only the walls carry a reward, so only they differ in cost:

>>> import somcot
>>> reward = [1, 0, 0, 0, -1]
>>> cost = somcot.costs.absolute(reward, reward)
>>> walk, drift = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.7)
>>> result = somcot.distance(walk, drift, cost, discount=0.95)
>>> round(result.distance, 6)
0.369631

The distance estimated from recorded episodes comes with a confidence interval:

>>> a, b = walk.sample(400, 50, rng=1), drift.sample(400, 50, rng=2)
>>> low, high, level = somcot.distance(a, b, cost, discount=0.95, confidence=0.9).confidence_interval
>>> low < result.distance < high
True
"""

import importlib as _importlib
import importlib.util as _util  # noqa: F401
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:  # for readers and type checkers; at run time `__getattr__` does it
    from somcot import costs
    from somcot.api import distance, markov_order, metric, same_process
    from somcot.cells import Cells
    from somcot.chains import MarkovChain, block_chain, random_walk
    from somcot.continuous.discretise import discretise
    from somcot.inference.decisions import SampleSize, sample_size
    from somcot.live.monitor import Monitor
    from somcot.lumping import Lumping, lump
    from somcot.many.drift import Drift, drift
    from somcot.many.matrix import distance_matrix
    from somcot.many.record import DistanceMatrix
    from somcot.many.selection import Selection, select_model
    from somcot.plumbing.errors import ConvergenceWarning, DataWarning, UnseenStateWarning
    from somcot.plumbing.memory import MemoryLimitError
    from somcot.problem import Problem
    from somcot.recorded.counts import Counts
    from somcot.result import Bounds, ConfidenceInterval, Result, Status
    from somcot.samples import Samples
    from somcot.timed import ContinuousChain, TimeChain
    from somcot.trajectories import Trajectories

__version__ = "0.3.0"

__all__ = [
    "Bounds",
    "Cells",
    "ConfidenceInterval",
    "ContinuousChain",
    "ConvergenceWarning",
    "Counts",
    "DataWarning",
    "DistanceMatrix",
    "Drift",
    "Lumping",
    "MarkovChain",
    "MemoryLimitError",
    "Monitor",
    "Problem",
    "Result",
    "SampleSize",
    "Samples",
    "Selection",
    "Status",
    "TimeChain",
    "Trajectories",
    "UnseenStateWarning",
    "block_chain",
    "costs",
    "discretise",
    "distance",
    "distance_matrix",
    "drift",
    "lump",
    "markov_order",
    "metric",
    "random_walk",
    "same_process",
    "sample_size",
    "select_model",
]

# Modules are loaded on first use: `somcot --help` is fast, and Ctrl-C works while the rest is still loading.
_SUBMODULES = frozenset(
    {
        "certificates",
        "couplings",
        "derivatives",
        "gaussian",
        "gradients",
        "hidden",
        "mdp",
        "msm",
        "plots",
        "readers",
        "report",
        "solvers",
        "steps",
        "streams",
        "testing",
    }
)
_HOMES = {
    "somcot.api": ("distance", "markov_order", "metric", "same_process"),
    "somcot.cells": ("Cells",),
    "somcot.chains": ("MarkovChain", "block_chain", "random_walk"),
    "somcot.continuous.discretise": ("discretise",),
    "somcot.many.drift": ("Drift", "drift"),
    "somcot.many.matrix": ("distance_matrix",),
    "somcot.many.record": ("DistanceMatrix",),
    "somcot.inference.decisions": ("SampleSize", "sample_size"),
    "somcot.live.monitor": ("Monitor",),
    "somcot.lumping": ("Lumping", "lump"),
    "somcot.many.selection": ("Selection", "select_model"),
    "somcot.plumbing.errors": ("ConvergenceWarning", "DataWarning", "UnseenStateWarning"),
    "somcot.plumbing.memory": ("MemoryLimitError",),
    "somcot.problem": ("Problem",),
    "somcot.recorded.counts": ("Counts",),
    "somcot.result": ("Bounds", "ConfidenceInterval", "Result", "Status"),
    "somcot.samples": ("Samples",),
    "somcot.timed": ("ContinuousChain", "TimeChain"),
    "somcot.trajectories": ("Trajectories",),
}

# Documented modules that have moved: the old path is an alias of the new module.
# An alias, not a copy: a class must be the same object under both names, or isinstance would fail.
_MOVED = {
    "somcot.bellman": "somcot.core",
    "somcot.bellman.pairs": "somcot.core.pairs",
    "somcot.bellman.sweep": "somcot.core.sweep",
    "somcot.experiments": "somcot.paper",
    "somcot.experiments.selection": "somcot.paper.model_selection",
    "somcot.inference.order": "somcot.inference.permutation",
    "somcot.live.check": "somcot.live.alarm",
    "somcot.live.promise": "somcot.live.alarm",
    "somcot.makeup": "somcot.contributions",
    "somcot.gradients.arrays": "somcot.gradients",
    "somcot.plumbing.validation": "somcot.plumbing.checks",
    "somcot.solvers.assemble": "somcot.solvers.result_builder",
    "somcot.solvers.continuous": "somcot.solvers.other_clocks",
}


class _Moved:
    """Import hook that resolves former module names.

    Without the base class `importlib.abc.Loader`, whose module imports archives and temporary files.
    """

    @staticmethod
    def find_spec(name: str, _path: _Any = None, _target: _Any = None) -> _Any:
        if name not in _MOVED:
            return None
        loader: _Any = _Moved()
        return _importlib.util.spec_from_loader(name, loader)

    def create_module(self, spec: _Any) -> _Any:
        module = _importlib.import_module(_MOVED[spec.name])
        self.spec = module.__spec__
        return module

    def exec_module(self, module: _Any) -> None:
        module.__spec__ = self.spec  # the import system has just replaced it by the alias's


# At the end of the list, so that existing modules are found first.
_sys.meta_path.append(_Moved)


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES or name in ("costs", "jax", "torch"):  # torch and jax are optional dependencies
        # Submodules are attributes only after their import.
        return _importlib.import_module(f"somcot.{name}")
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'somcot' has no attribute {name!r}")
    # Stored, so that this function is called once for each name.
    value = globals()[name] = getattr(_importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
