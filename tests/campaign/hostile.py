"""Calls of the public functions with one corrupted argument, built from their signatures.

Arguments are valid by name (`VALID`), some for one function only (`ESPECIALLY`), so a new function with the usual names
is attacked without being listed. A fault is an exception that is not documented, or none within the time limit.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import signal
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy.sparse import bsr_array, coo_array

import somcot
from somcot import ContinuousChain, MarkovChain, Problem, Samples, Trajectories, mdp
from somcot.plumbing.errors import NotSolvedError
from somcot.solvers import somcot as steps
from tests.surface import CONSTRUCTED, listed

SECONDS = 20.0  # of CPU; six times as long by the clock
DOCUMENTED = (ValueError, TypeError, OSError, MemoryError, ImportError, NotSolvedError)
MODULES = (
    "certificates", "costs", "couplings", "gaussian", "gradients", "hidden", "mdp", "msm", "plots", "readers", "report",
    "solvers.somcot", "steps", "streams", "testing",
    *(name for name in ("torch", "jax") if find_spec(name) is not None),
)  # fmt: skip


class TooSlowError(BaseException):
    """A call took longer than the limit."""


class Unprintable:
    """An object whose text cannot be had."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def ends_early() -> Iterator[int]:
    """A generator that fails after its first element."""
    yield 0
    raise RuntimeError("the source failed")


def contains_itself() -> list[Any]:
    """A list without end."""
    found: list[Any] = []
    found.append(found)
    return found


HOSTILE: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "object": object,
    "class": lambda: dict,
    "function": lambda: lambda *_: None,
    "True": lambda: True,
    "-1": lambda: -1,
    "0": lambda: 0,
    "2.5": lambda: 2.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: float("-inf"),
    "1e308": lambda: 1e308,
    "huge int": lambda: 10**18,
    "huger int": lambda: 10**400,
    "complex": lambda: 1 + 2j,
    "Decimal": lambda: Decimal("0.5"),
    "float16": lambda: np.float16(0.5),
    "float16 array": lambda: np.full((2, 2), 0.5, dtype=np.float16),
    "int64": lambda: np.int64(3),
    "datetime64": lambda: np.datetime64("2026-01-01"),
    "empty text": lambda: "",
    "text": lambda: "nonsense",
    "bytes": lambda: b"nonsense",
    "surrogate": lambda: "\ud800",
    "NUL": lambda: "a\0b",
    "empty list": list,
    "empty dict": dict,
    "empty array": lambda: np.zeros((0, 0)),
    "empty vector": lambda: np.zeros(0),
    "scalar array": lambda: np.array(0.5),
    "nan array": lambda: np.full((2, 2), np.nan),
    "3-d array": lambda: np.zeros((2, 2, 2)),
    "masked": lambda: np.ma.masked_equal([[0, 1], [1, 0]], 1),
    "records": lambda: np.zeros(2, dtype=[("a", "f8")]),
    "object array": lambda: np.array([None, object()], dtype=object),
    "text array": lambda: np.array(["a", "b"]),
    "ragged": lambda: [[0], [0, 1]],
    "nested": lambda: [[[[0]]]],
    "list of None": lambda: [None, None],
    "list of dict": lambda: [{}, {}],
    "unhashable keys": lambda: [[0], [0]],
    "set": lambda: {0, 1},
    "dict": lambda: {"a": 1},
    "BSR": lambda: bsr_array(np.eye(4), blocksize=(2, 2)),
    "COO vector": lambda: coo_array(np.array([0.5, 0.5])),
    "pandas": lambda: pd.DataFrame({"a": [0.5, 0.5], "b": [0.5, 0.5]}),
    "pandas series": lambda: pd.Series([0.5, None]),
    "polars": lambda: pl.DataFrame({"a": [0.5, 0.5], "b": [0.5, 0.5]}),
    "polars series": lambda: pl.Series([0.5, None]),
    "generator": lambda: iter(()),
    "ends early": ends_early,
    "unprintable": Unprintable,
    "chain": lambda: MarkovChain([[1.0]]),
    "path": lambda: Path("/nonexistent/file"),
    "module": lambda: np,
    "False": lambda: False,
    "-0.0": lambda: -0.0,
    "denormal": lambda: 5e-324,
    "Fraction": lambda: Fraction(1, 3),
    "timedelta64": lambda: np.timedelta64(3, "s"),
    "long text": lambda: "x" * 100_000,
    "escape": lambda: "\x1b[31m\n",
    "memory": lambda: memoryview(b"nonsense"),
    "long range": lambda: range(10**6),
    "contains itself": contains_itself,
    "foreign bytes": lambda: np.eye(2).astype(">f8"),
    "truth table": lambda: np.eye(2, dtype=bool),
    "text numbers": lambda: [["0.5", "0.5"], ["0.5", "0.5"]],
    "mixed list": lambda: [0, "a", None, 1.5],
    "one element": lambda: [0],
    "huge ints": lambda: [10**30, -(10**30)],
    "negative list": lambda: [-1, -2],
    "nan label": lambda: [float("nan"), "a"],
    "categories": lambda: pd.Series(["a", None], dtype="category"),
    "lazy frame": lambda: pl.LazyFrame({"a": [0.5]}),
    "arrow": lambda: pa.table({"a": [0.5, None]}),
    "samples": lambda: Samples.from_trajectories([["u", "v"], ["v", "u"]]),
}

STATES = ("a", "b")
P, Q = [[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.2, 0.8]]


def _chain(kernel: Any = P) -> MarkovChain:
    return MarkovChain(kernel, states=STATES, features=[0.0, 1.0])


def _samples(seed: int = 1, kernel: Any = P) -> Samples:
    return _chain(kernel).sample(20, 12, rng=seed)


def _vectors(seed: int) -> Trajectories:
    rng = np.random.default_rng(seed)
    return Trajectories.from_arrays([rng.normal(size=(30, 2)) for _ in range(4)])


def _mdp() -> mdp.MDP:
    return mdp.MDP(np.array([P, Q]), np.array([[0.0, 1.0], [1.0, 0.0]]))


def _result() -> Any:
    return somcot.distance(_chain(), _chain(Q), discount=0.9)


def _recorded_mdp() -> mdp.RecordedMDP:
    rng = np.random.default_rng(1)
    states, actions = rng.integers(2, size=200), rng.integers(2, size=200)
    return mdp.RecordedMDP.from_transitions(states, actions, 1.0 * states, np.append(states[1:], 0))


@cache
def _made(kind: str) -> Any:
    """Records that take long and that no call changes."""
    if kind == "vectors":
        return somcot.distance(_vectors(1), _vectors(2), "euclidean", discount=0.9, rng=1)
    if kind == "drift":
        return somcot.drift(VALID["periods"](), discount=0.9, n_permutations=19, rng=1)
    if kind == "selection":
        return somcot.select_model(_samples(), VALID["candidates"](), discount=0.9)
    if kind == "plan":
        return somcot.sample_size(_samples(), effect=0.2, discount=0.9, rng=1)
    return mdp.transfer_bound(_mdp(), _recorded_mdp(), discount=0.9, rng=1)


def _run(fed: bool = False) -> Any:
    state = steps.init(COST, discount=0.9, n_steps=10)
    return steps.advance(state, ([0, 1], [1, 0]), ([0, 1], [1, 0])) if fed else state


def _saved_run() -> Path:
    path = _file("").with_name("run.ck")
    steps.save(_run(), path)
    return path


def _file(text: str = "sequence,time,state\n1,1,a\n1,2,b\n1,3,a\n2,1,b\n2,2,a\n") -> Path:
    path = Path(tempfile.mkdtemp(prefix="hostile-")) / "rows.csv"
    path.write_text(text, encoding="utf-8")
    return path


def _saved(make: Callable[[], Any]) -> Path:
    path = _file("").with_name("saved.bin")
    make().save(path)
    return path


def _xes() -> Path:
    event = '<event><string key="concept:name" value="{}"/><date key="time:timestamp" value="2026-01-01"/></event>'
    trace = '<trace><string key="concept:name" value="1"/>' + event.format("a") + event.format("b") + "</trace>"
    path = _file("").with_name("log.xes")
    path.write_text(f"<log>{trace}{trace}</log>", encoding="utf-8")
    return path


def _monitor() -> somcot.Monitor:
    found = somcot.Monitor(_samples(), discount=0.9, one_false_alarm_per=1000)
    found.update(["a", "b"] * 10)
    return found


def _trace() -> Path:
    calls = [{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": name}}]} for name in ("a", "b", "a")]
    path = _file("").with_name("run.json")
    path.write_text(json.dumps(calls), encoding="utf-8")
    return path


def _buffer() -> dict[str, Any]:
    ends = np.array([False, False, True])
    observed = {"observations": np.array([0, 1, 0]), "next_observations": np.array([1, 0, 1])}
    taken = {"actions": np.array([0, 0, 1]), "rewards": np.ones(3)}
    return observed | taken | {"terminals": ends, "timeouts": np.zeros(3, dtype=bool)}


def _arrays() -> Path:
    path = _file("").with_name("arrays.npz")
    np.savez(path, a=np.array([0, 1, 0, 1]), b=np.array([1, 0]))
    return path


COST = ((0.0, 1.0), (1.0, 0.0))
# Valid arguments by name; made anew for every call, so that no call can spoil the next.
VALID: dict[str, Callable[[], Any]] = {
    "x": _chain,
    "y": lambda: _chain(Q),
    "chain": _chain,
    "cost": lambda: np.array(COST),
    "discount": lambda: 0.9,
    "samples": _samples,
    "data": _samples,
    "other": lambda: _samples(2),
    "rng": lambda: 1,
    "problem": lambda: Problem(_chain(), _chain(Q), COST, 0.9),
    "potential": lambda: np.zeros((2, 2)),
    "n_sweeps": lambda: 3,
    "transition": lambda: P,
    "rates": lambda: [[-1.0, 1.0], [2.0, -2.0]],
    "initial": lambda: [0.5, 0.5],
    "states": lambda: list(STATES),
    "states_x": lambda: STATES,
    "states_y": lambda: STATES,
    "n": lambda: 3,
    "k": lambda: 2,
    "n_steps": lambda: 100,
    "n_episodes": lambda: 3,
    "state": lambda: "a",
    "rate": lambda: 5.0,
    "a": lambda: [0.0, 1.0],
    "b": lambda: [1.0, 2.0],
    "mdp": _mdp,
    "policy": lambda: np.full((2, 2), 0.5),
    "result": _result,
    "trajectories": lambda: [["a", "b", "a"], ["b", "a"]],
    "reference": _samples,
    "n_x": lambda: 2,
    "n_y": lambda: 2,
    "reset": lambda: lambda rng: 0,
    "step": lambda: lambda state, rng: 1 - state,
    "A": lambda: [[0.5, 0.0], [0.1, 0.4]],
    "B": lambda: [[0.4, 0.0], [0.1, 0.5]],
    "S": lambda: np.eye(2),
    "R": lambda: np.eye(2),
    "emissions": lambda: P,
    "emissions_x": lambda: P,
    "emissions_y": lambda: Q,
    "counts": lambda: [[3, 1], [2, 5]],
    "processes": lambda: {"one": _chain(), "two": _chain(Q)},
    "periods": lambda: {"May": _samples(1), "June": _samples(2), "July": _samples(3, Q)},
    "candidates": lambda: {"one": _chain(), "two": _chain(Q)},
    "plan": lambda: np.full((2, 2), 0.25),
    "p": lambda: [0.5, 0.5],
    "q": lambda: [0.4, 0.6],
    "path": _file,
    "dtrajs": lambda: [[0, 1, 0, 1], [1, 0]],
    "lags": lambda: [1, 2],
    "cost_or_features": lambda: [0.0, 1.0],
    "error": lambda: 0.1,
    "primal_step": lambda: 0.1,
    "dual_step": lambda: 0.1,
    "pairs": lambda: "reachable",
    "theta": lambda: 0.6,
    "stay": lambda: 0.5,
    "start": lambda: 0,
    "transitions": lambda: [P, Q],
    "rewards": lambda: None,
    "arrays": lambda: [np.arange(8.0).reshape(4, 2) ** 2, np.ones((3, 2))],
    "points": lambda: np.zeros((3, 2)),
    "n_copies": lambda: 2,
    "max_order": lambda: 1,
    "threads": lambda: 1,
    "n_permutations": lambda: 19,
    "name": lambda: "kind",
    "names": lambda: ("X", "Y"),
}
SAMPLED = {"x": _samples, "y": lambda: _samples(2, Q)}
# What a function takes instead, and arguments that a valid call of it needs.
ESPECIALLY: dict[str, dict[str, Callable[[], Any]]] = {
    "somcot.Samples.from_transitions": {"states_": lambda: ["a", "b", "a"], "next_states": lambda: ["b", "a", "a"]},
    "somcot.Counts.from_matrix": {"initial": lambda: [0.5, 0.5]},
    "somcot.distance": {"discount": lambda: 0.9},
    "somcot.metric": {"discount": lambda: 0.9},
    "somcot.distance_matrix": {"discount": lambda: 0.9},
    "somcot.Monitor.codes": {"labels": lambda: ["a", "b"]},
    "somcot.Monitor.update": {"states": lambda: ["a", "b", "a"], "sequences": lambda: [1, 1, 1]},
    "somcot.Problem.bounds_to_user": {"low": lambda: 0.1, "high": lambda: 0.2},
    "somcot.Problem.potential_to_user": {"unit_potential": lambda: np.zeros((2, 2))},
    "somcot.Problem.to_user": {"unit_distance": lambda: 0.1},
    "somcot.mdp.aggregate": {"n_classes": lambda: 1},
    "somcot.mdp.distance": {"x": _mdp, "y": _mdp},
    "somcot.Samples.relabel": {"names": lambda: {"a": "c"}},
    "somcot.Samples.take": {"units": lambda: [0, 1]},
    "somcot.Samples.with_order": {"k": lambda: 2},
    "somcot.Counts.merge": {"other": lambda: somcot.Counts.from_samples(_samples(2))},
    "somcot.Trajectories.take": {"episodes": lambda: [0, 1]},
    "somcot.Trajectories.mapped": {"function": lambda: lambda points: points + 1.0},
    "somcot.Trajectories.from_arrays": {"names": lambda: ("u", "v")},
    "somcot.Cells.samples": {"data": lambda: _vectors(1)},
    "somcot.Cells.codes": {"data": lambda: _vectors(1)},
    "somcot.Cells.cost": {"cost": lambda: "euclidean"},
    "somcot.TimeChain.support": {"t": lambda: 0},
    "somcot.Monitor": {"one_false_alarm_per": lambda: 1000},
    "somcot.same_process": SAMPLED | {"discount": lambda: 0.9, "n_permutations": lambda: 19},
    "somcot.sample_size": {"pilot": _samples, "effect": lambda: 0.2},
    "somcot.discretise": {"recordings": lambda: _vectors(1)},
    "somcot.select_model": {"data": _samples},
    "somcot.costs.attribute": {side: lambda: MarkovChain(P, attributes={"kind": ["u", "v"]}) for side in ("x", "y")},
    "somcot.gaussian.Linear": {
        "A": lambda: np.eye(2) / 2,
        "offset": lambda: np.zeros(2),
        "start_mean": lambda: np.zeros(2),
        "start_covariance": lambda: np.eye(2),
    },
    "somcot.gaussian.between": {side: lambda: somcot.gaussian.Linear.of(np.eye(2) / 2, np.eye(2)) for side in "xy"}
    | {"cost": lambda: "sqeuclidean"},
    "somcot.gaussian.distance": {"cost": lambda: "sqeuclidean"},
    "somcot.gaussian.fit": {"trajectories": lambda: _vectors(1)},
    "somcot.gaussian.Linear.record": {"lengths": lambda: [4, 5]},
    "somcot.gaussian.Linear.equals": {"other": lambda: somcot.gaussian.Linear.of(np.eye(2) / 2, np.eye(2))},
    "somcot.mdp.MDP": {"transitions": lambda: np.array([P, Q]), "rewards": lambda: np.array(COST)},
    "somcot.mdp.metric": {"x": _mdp, "y": _mdp},
    "somcot.mdp.bracket": {"x": _mdp, "y": _mdp},
    "somcot.hidden.joint_cost": {side: lambda: somcot.hidden.HiddenChain(P, Q) for side in ("x", "y")},
    "somcot.msm.lag_sweep": {"x": lambda: [[0, 1, 0, 1, 1, 0]] * 3, "y": lambda: [[0, 1, 1, 1, 0, 0]] * 3},
    "somcot.readers.from_table": {"data": _file, "state": lambda: "state", "sequence": lambda: "sequence"},
    "somcot.readers.count_table": {"paths": _file, "state": lambda: "state", "sequence": lambda: "sequence"},
    "somcot.readers.split_table": {"data": _file, "by": lambda: "sequence", "least": lambda: 1},
    "somcot.readers.split_periods": {
        "data": _file,
        "by": lambda: "sequence",
        "time": lambda: "time",
        "least": lambda: 1,
    },
    "somcot.readers.from_graph": {"graph": lambda: nx.cycle_graph(3)},
    "somcot.readers.from_traces": {"data": _trace},
    "somcot.readers.from_replay_buffer": {"buffer": _buffer},
    "somcot.readers.transitions_of": {"buffer": _buffer},
    "somcot.readers.read_arrays": {"path": _arrays},
    "somcot.readers.from_xes": {"data": _xes},
    "somcot.readers.from_model": {"model": lambda: types.SimpleNamespace(transition_matrix=np.array(P))},
    "somcot.readers.from_prism": {"transitions": lambda: _file("2 2\n0 1 1\n1 0 1\n")},
    "somcot.readers.read_prism": {"path": lambda: _file("2 2\n0 1 1\n1 0 1\n")},
    "somcot.readers.read_graph": {"path": lambda: _file("a b 1\nb a 2\n")},
    "somcot.readers.fit_bins": {
        "tables": lambda: [_file("u\n1\n2\n3\n")],
        "bins": lambda: {"u": 2},
    },
    "somcot.readers.from_tabular": {"env": lambda: "FrozenLake-v1"},
    "somcot.readers.from_env": {"env": lambda: "FrozenLake-v1", "n_steps": lambda: 50},
    "somcot.readers.read_baseline": {"path": lambda: _saved(_samples)},
    "somcot.Samples.load": {"path": lambda: _saved(_samples)},
    "somcot.Result.load": {"path": lambda: _saved(_result)},
    "somcot.Monitor.load": {"path": lambda: _saved(OWNERS["Monitor"])},
    "somcot.DistanceMatrix.load": {"path": lambda: _saved(OWNERS["DistanceMatrix"])},
    "somcot.certificates.simulated_upper": {
        "reset": lambda: (lambda n, rng: np.zeros((n, 1)),) * 2,
        "step": lambda: (lambda x, rng: 0.5 * x + rng.normal(size=x.shape),) * 2,
        "cost": lambda: "euclidean",
        "n_rollouts": lambda: 10,
    },
    "somcot.certificates.upper_bound": {"coupling": lambda: _result().plan},
    "somcot.couplings.residuals": {
        "coupling": lambda: _result().plan,
        "nu_x": lambda: _chain().occupancy(0.9),
        "nu_y": lambda: _chain(Q).occupancy(0.9),
    },
    "somcot.couplings.round_occupancy": {
        "mu": lambda: np.full((2, 2, 2, 2), 1 / 16),
        "start": lambda: np.full((2, 2), 0.25),
    },
    "somcot.mdp.RecordedMDP.from_transitions": {
        "states": lambda: [0, 1, 0],
        "actions": lambda: [0, 0, 1],
        "rewards": lambda: [0.0, 1.0, 0.0],
        "next_states": lambda: [1, 0, 0],
    },
    "somcot.readers.read_vectors": {
        "data": lambda: _file("u,v\n1,2\n3,4\n5,7\n"),
        "state": lambda: ["u", "v"],
    },
    "somcot.readers.join_rare": {"recordings": lambda: [_samples()], "top": lambda: 1},
    "somcot.readers.tidy_labels": {"recordings": lambda: [_samples()]},
    "somcot.readers.Bins.uniform": {"low": lambda: 0.0, "high": lambda: 1.0},
    "somcot.readers.Bins.quantile": {"values": lambda: [0.0, 1.0, 2.0, 3.0]},
    "somcot.readers.Bins.codes": {"values": lambda: [[0.5], [0.2]]},
    "somcot.plots.cells": {"result": lambda: _made("vectors")},
    "somcot.plots.calibration": {"result": lambda: _made("vectors")},
    "somcot.plots.map_tests": {"result": lambda: _made("vectors")},
    "somcot.plots.resolution": {"result": lambda: _made("vectors")},
    "somcot.plots.matrix": {"found": lambda: OWNERS["DistanceMatrix"]()},
    "somcot.plots.dendrogram": {"found": lambda: OWNERS["DistanceMatrix"]()},
    "somcot.plots.embedding": {"found": lambda: OWNERS["DistanceMatrix"]()},
    "somcot.plots.drift": {"found": lambda: _made("drift")},
    "somcot.plots.selection": {"found": lambda: _made("selection")},
    "somcot.plots.power_curve": {"plan": lambda: _made("plan")},
    "somcot.plots.transfer_bound": {"bound": lambda: _made("bound")},
    "somcot.plots.graph": {"record": _result},
    "somcot.plots.visits": {"record": _result},
    "somcot.plots.intervals": {"results": lambda: [_result()]},
    "somcot.mdp.transfer_bound": {"model": _mdp, "recorded": _recorded_mdp},
    "somcot.solvers.somcot.advance": {"state": _run, "x": lambda: ([0, 1], [1, 0]), "y": lambda: ([0, 1], [1, 0])},
    "somcot.solvers.somcot.finish": {"state": lambda: _run(fed=True)},
    "somcot.solvers.somcot.save": {"state": _run, "path": lambda: _file("").with_name("run.ck")},
    "somcot.solvers.somcot.load": {"path": _saved_run},
    "somcot.testing.assert_same_process": {
        "actual": _samples,
        "margin": lambda: 0.9,
        "inconclusive": lambda: "pass",
    },
    "somcot.report.write": {"path": lambda: _file("").with_name("r.html")},
    "somcot.streams.from_iterable": {"pairs": lambda: [(0, 1), (1, 0)], "n_states": lambda: 2},
    "somcot.costs.euclidean": {"a": lambda: [[0.0, 1.0]], "b": lambda: [[1.0, 2.0]]},
    "somcot.costs.between": {"cost": lambda: "labels"},
    "somcot.readers.Bins": {"edges": lambda: [0.5]},
    "somcot.readers.Bins.labels_of": {"cells": lambda: [0, 1]},
    "somcot.couplings.Coupling.from_dense": {
        "mu": lambda: np.full((2, 2, 2, 2), 1 / 16),
        "start": lambda: np.full((2, 2), 0.25),
    },
    "somcot.steps.Steps": {name: lambda: 0.1 for name in ("mu", "lambda_x", "lambda_y", "alpha_x", "alpha_y", "V")},
    "somcot.couplings.conditional": {"state_law": lambda: np.full((2, 2), 0.25)},
}
# The object of which a method is called.
OWNERS: dict[str, Callable[[], Any]] = {
    "MarkovChain": _chain,
    "ContinuousChain": lambda: ContinuousChain([[-1.0, 1.0], [2.0, -2.0]]),
    "TimeChain": lambda: somcot.TimeChain([P, Q]),
    "Samples": _samples,
    "Counts": lambda: somcot.Counts.from_samples(_samples()),
    "Trajectories": lambda: _vectors(1),
    "Result": _result,
    "Problem": lambda: VALID["problem"](),
    "Lumping": lambda: somcot.lump(_chain(), [0.0, 1.0]),
    "Monitor": _monitor,
    "DistanceMatrix": lambda: somcot.distance_matrix(VALID["processes"](), discount=0.9),
    "Cells": lambda: somcot.discretise(_vectors(1), _vectors(2), n_cells=4, rng=1),
    "Linear": lambda: somcot.gaussian.Linear.of(np.eye(2) / 2, np.eye(2)),
    "Bins": lambda: somcot.readers.Bins.uniform(0.0, 1.0, 4),
}


class Target(NamedTuple):
    """A callable and what a valid call of it passes."""

    name: str
    call: Callable[..., Any]
    owner: str | None
    given: dict[str, Callable[[], Any]]
    parameters: tuple[str, ...]


class Outcome(NamedTuple):
    """What became of a call: "success", "named", "unnamed", "another" or a fault."""

    target: str
    argument: str
    value: str
    kind: str
    text: str


def targets() -> list[Target]:
    """All documented functions, constructors and methods, by their paths."""
    found: dict[str, Target] = {}
    documented = listed()
    for module_name in ("somcot", *(f"somcot.{name}" for name in MODULES)):
        module = importlib.import_module(module_name)
        for name in sorted(module.__all__):
            value, path = getattr(module, name), f"{module_name}.{name}"
            if path not in documented:
                continue
            if inspect.isfunction(value):
                found[path] = _target(path, value, None)
            elif inspect.isclass(value) and not issubclass(value, BaseException):
                found |= dict(_of_class(path, name, value))
    # Every function once, under its shortest path.
    unique: dict[Any, Target] = {}
    for path in sorted(found, key=lambda path: (len(path), path)):
        unique.setdefault(getattr(found[path].call, "__func__", found[path].call), found[path])
    return sorted(unique.values())


def _of_class(path: str, name: str, value: type) -> Iterator[tuple[str, Target]]:
    if name in CONSTRUCTED:
        yield path, _target(path, value, None)
    for method in sorted(vars(value)):
        raw = inspect.getattr_static(value, method)
        if method.startswith("_") or not isinstance(raw, (types.FunctionType, classmethod, staticmethod)):
            continue
        if isinstance(raw, types.FunctionType) and name not in OWNERS:
            continue
        owner = name if isinstance(raw, types.FunctionType) else None
        yield f"{path}.{method}", _target(f"{path}.{method}", getattr(value, method), owner)


def _target(path: str, call: Callable[..., Any], owner: str | None) -> Target:
    special, given, names = ESPECIALLY.get(path, {}), {}, []
    for k, parameter in enumerate(inspect.signature(call).parameters.values()):
        if (owner and k == 0) or parameter.kind is parameter.VAR_KEYWORD:
            continue
        names.append(parameter.name)
        needed = parameter.default is parameter.empty
        if parameter.name in special or (needed and parameter.name in VALID):
            given[parameter.name] = special.get(parameter.name) or VALID[parameter.name]
    return Target(path, call, owner, given, tuple(names))


def _called(target: Target, arguments: dict[str, Any]) -> Any:
    parameters = inspect.signature(target.call).parameters
    positional = [OWNERS[target.owner]()] if target.owner else []
    for name, parameter in parameters.items():
        alone = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL)
        if name in arguments and alone:
            positional.append(arguments.pop(name))
    found = target.call(*positional, **arguments)
    return list(found) if isinstance(found, types.GeneratorType) else found


def valid(target: Target) -> str | None:
    """What is wrong with the valid call; None if nothing is."""
    try:
        _called(target, {name: make() for name, make in target.given.items()})
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def attack(target: Target, argument: str, value: str) -> Outcome:
    """The outcome of a call with one corrupted argument."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = {name: make() for name, make in target.given.items() if name != argument}
    arguments[argument] = HOSTILE[value]()
    kind, text = "success", ""
    before = [signal.signal(number, _too_slow) for number in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, 6 * SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _called(target, arguments)
    except TooSlowError:
        kind = "too slow"
    except (RuntimeError, ZeroDivisionError) as error:
        # What a hostile object raises itself is the user's own error.
        text = f"{type(error).__name__}: {error}"
        own = isinstance(error, NotSolvedError) or str(error) in ("no text", "the source failed")
        kind = "named" if own else "undocumented"
    except AssertionError as error:
        text = f"{type(error).__name__}: {error}"
        kind = "named" if target.name.startswith("somcot.testing.") else "undocumented"  # which is to raise it
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        kind = _kind(target, argument, error)
    finally:
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0.0)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), before, strict=True):
            signal.signal(number, handler)
    return Outcome(target.name, argument, value, kind, text)


def _too_slow(*_: object) -> None:
    raise TooSlowError


def _kind(target: Target, argument: str, error: Exception) -> str:
    home = type(error).__module__.partition(".")[0]
    if not isinstance(error, DOCUMENTED) or home not in ("builtins", "somcot"):
        return "undocumented"
    text = str(error)
    words = re.findall(r"\w+", text)
    if argument in words or argument.rstrip("_") in words:
        return "named"
    head = re.match(r"(\w+)(?:\[\w+\])?:", text)
    return "another" if head and head[1] in target.parameters else "unnamed"


def cases(seed: int, n: int) -> list[tuple[Target, str, str]]:
    """A random sample of all cases."""
    every = [(t, argument, value) for t in targets() for argument in t.parameters for value in HOSTILE]
    return Random(seed).sample(every, min(n, len(every)))
