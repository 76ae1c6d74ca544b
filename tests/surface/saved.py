"""One file of each kind that the library writes, and what must be read from it.

The files were written by the version that was frozen; nothing here writes them again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import somcot
from somcot.plumbing.records import CheckpointError
from tests.surface.command_line import chain, run

__all__ = ["FOLDER", "read", "write_missing"]

FOLDER = Path(__file__).parent / "saved"
COST = 1.0 - np.eye(3)
STEPS = 400


def write_missing() -> list[str]:
    """Write the files that are not there yet; their names."""
    FOLDER.mkdir(exist_ok=True)
    missing = [name for name in KINDS if not (FOLDER / name).exists()]
    for name in missing:
        KINDS[name][0](FOLDER / name)
    return missing


def read(name: str, folder: Path) -> dict[str, Any]:
    """Key values of a saved file, only what JSON knows; checkpoints are copied to `folder` and go on from there."""
    copy = folder / name
    shutil.copy(FOLDER / name, copy)
    values: dict[str, Any] = _plain(KINDS[name][1](copy))
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, float):
        return None if np.isnan(value) else value
    return value


def _codes(k: int, n: int) -> list[int]:
    """States without any randomness, whose stream might be another one in a later version of NumPy."""
    return [(i * i * k + i // (k + 1)) % 7 % 3 for i in range(n)]


# Results


def _recordings() -> tuple[somcot.Samples, somcot.Samples]:
    return chain(0.5).sample(30, 10, rng=1), chain(0.7).sample(30, 10, rng=2)


def _vectors() -> list[somcot.Trajectories]:
    found = []
    for seed, slope in ((1, 0.5), (2, 0.8)):
        rng = np.random.default_rng(seed)
        arrays = [np.cumsum(slope * rng.normal(size=(8, 2)), axis=0) for _ in range(20)]
        found.append(somcot.Trajectories.from_arrays(arrays))
    return found


def _exact(**options: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        somcot.distance(chain(0.5), chain(0.7), COST, **options).save(path)

    return write


def _estimate(path: Path) -> None:
    somcot.distance(*_recordings(), COST, discount=0.8, confidence=0.9, rng=0).save(path)


def _continuous_time(path: Path) -> None:
    rates = [[-3.0, 1.0, 2.0], [1.0, -2.0, 1.0], [3.0, 1.0, -4.0]]
    x, y = somcot.ContinuousChain(rates), somcot.ContinuousChain(2.0 * np.array(rates))
    somcot.distance(x, y, COST, rate=0.5).save(path)


def _total(path: Path) -> None:
    x, y = (somcot.MarkovChain([[p, 0.5, 0.5 - p], [0.0, p, 1 - p], [0.0, 0.0, 1.0]]) for p in (0.2, 0.4))
    somcot.distance(x, y, COST, total=True).save(path)


def _of_vectors(path: Path) -> None:
    x, y = _vectors()
    somcot.distance(x, y, "euclidean", discount=0.8, confidence=0.9, n_cells=4, rng=0).save(path)


def _result(path: Path) -> dict[str, Any]:
    r = somcot.Result.load(path)
    return _summary(r) | {
        "as float": float(r),
        "states": [r.states_x, r.states_y],
        "encoder": r.encoder,
        "decoder": r.decoder,
        "potential": r.potential,
        "residuals": [r.residuals.flow, r.residuals.causal_x, r.residuals.causal_y],
        "trace": sorted(r.trace),
        "clock": [r.clock.name, r.clock.value],
        "matches": [list(match) for match in r.matches()],
        **_estimated(r),
        **_in_cells(r),
    }


def _summary(r: somcot.Result) -> dict[str, Any]:
    interval = r.confidence_interval
    return {
        "distance": r.distance,
        "method": r.method,
        "status": r.status.value,
        "claim": r.claim.value,
        "n_steps": r.n_steps,
        "n_samples": r.n_samples,
        "bounds": [r.bounds.low, r.bounds.high],
        "confidence_interval": None if interval is None else [interval.low, interval.high],
        "plugin": r.plugin,
    }


def _estimated(r: somcot.Result) -> dict[str, Any]:
    if r.estimate is None:
        return {}
    e = r.estimate
    found = {"estimate": [e.gap, e.rho, e.standard_error, e.saturation, e.n_solves]}
    if r.continuous is not None:
        return found
    parts = r.contributions(5)
    return found | {
        "pairs": [[p.x, p.y, p.amount, p.standard_error, p.marked, p.occupancy, p.cost] for p in parts.pairs],
        "transitions": [
            [t.state, t.next_state, t.amount, t.standard_error, t.marked, t.probability_x, t.probability_y]
            for t in parts.transitions
        ],
    }


def _in_cells(r: somcot.Result) -> dict[str, Any]:
    if r.continuous is None:
        return {}
    c = r.continuous
    return {"centres": c.cells.centres, "scale": c.cells.scale, "route": c.route, "resolution": c.resolution}


def _gradient(path: Path) -> dict[str, Any]:
    g: Any = somcot.Result.load(path).gradient
    return _result(path) | {
        "gradient": [g.transition_x, g.transition_y, g.cost, g.initial, g.initial_x, g.initial_y],
    }


# Matrices


def _processes() -> dict[str, somcot.Samples]:
    found = {}
    for k in (1, 2, 4):
        codes = _codes(k, 200)
        found[f"p{k}"] = somcot.Samples.from_trajectories([codes[i : i + 10] for i in range(0, 200, 10)])
    return found


def _distances(**options: Any) -> somcot.DistanceMatrix:
    return somcot.distance_matrix(_processes(), discount=0.8, confidence=0.9, rng=0, **options)


def _matrix(path: Path) -> None:
    _distances(tests="bh").save(path)


def _matrix_values(path: Path) -> dict[str, Any]:
    m = somcot.DistanceMatrix.load(path)
    return _table(m) | {"pvalues": m.pvalues, "adjusted": m.adjusted, "linkage": m.linkage()}


def _table(m: somcot.DistanceMatrix) -> dict[str, Any]:
    return {
        "labels": m.labels,
        "values": m.values,
        "plugin": m.plugin,
        "low": m.low,
        "high": m.high,
        "standard_error": m.standard_error,
    }


def _matrix_checkpoint(path: Path) -> None:
    _distances(checkpoint=path)


def _matrix_refused(path: Path) -> dict[str, Any]:
    """Cells of recordings follow another rule since version 0.3, so a file of an earlier version is refused."""
    try:
        return _table(_distances(checkpoint=path))
    except CheckpointError as error:
        return {"refused": "earlier version" in str(error)}


def _of_chains(path: Path) -> somcot.DistanceMatrix:
    return somcot.distance_matrix({p: chain(p) for p in (0.2, 0.5, 0.7)}, COST, discount=0.8, checkpoint=path)


def _chains_checkpoint(path: Path) -> None:
    _of_chains(path)


def _chains_again(path: Path) -> dict[str, Any]:
    """The same question takes what is in the file: nothing is written or computed again."""
    return _table(_of_chains(path))


# SOMCOT


def _transitions() -> tuple[Any, Any]:
    x, y = (np.array(_codes(k, STEPS + 1)) for k in (1, 2))
    return (x[:-1], x[1:]), (y[:-1], y[1:])


def _somcot_state(path: Path) -> None:
    from somcot.solvers import somcot as solver

    x, y = _transitions()
    state = solver.init(COST, discount=0.8, n_steps=STEPS)
    half = STEPS // 2
    state = solver.advance(state, (x[0][:half], x[1][:half]), (y[0][:half], y[1][:half]))
    solver.save(state, path)


def _somcot_goes_on(path: Path) -> dict[str, Any]:
    from somcot.solvers import somcot as solver

    x, y = _transitions()
    state = solver.load(path)
    half = STEPS // 2
    halfway = solver.finish(state)
    state = solver.advance(state, (x[0][half:], x[1][half:]), (y[0][half:], y[1][half:]))
    end = solver.finish(state)
    return {"halfway": [halfway.n_steps, halfway.distance], "end": [end.n_steps, end.distance]}


def _interrupted(path: Path, **options: Any) -> somcot.Result:
    return somcot.distance(
        chain(0.5), chain(0.7), COST, discount=0.8, method="somcot", rng=0, checkpoint=path, **options
    )


def _somcot_checkpoint(path: Path) -> None:
    def stop(step: int, _n_steps: int, _distance: float) -> None:
        if step >= 1000:
            raise KeyboardInterrupt

    found = _interrupted(path, n_steps=50_000, progress=stop)
    assert found.status is somcot.Status.INTERRUPTED, "the run ended before it was stopped"
    assert found.n_steps < 50_000


def _somcot_resumed(path: Path) -> dict[str, Any]:
    before = _state_steps(path)
    found = _interrupted(path, n_steps=50_000, resume=True)
    return {"steps before": before, "distance": found.distance, "n_steps": found.n_steps, "status": found.status.value}


def _state_steps(path: Path) -> int:
    from somcot.solvers import somcot as solver

    return solver.finish(solver.load(path)).n_steps


def _endless(path: Path) -> None:
    def stop(step: int, _n_steps: int | None, _distance: float) -> None:
        if step >= 3500:
            raise KeyboardInterrupt

    _interrupted(path, max_seconds=1000.0, progress=stop)


def _endless_resumed(path: Path) -> dict[str, Any]:
    found = _interrupted(path, max_seconds=1e-3, resume=True)
    return {"at least one phase before": found.n_steps >= 3072, "trace": sorted(found.trace)}


# Monitors


def _monitor(path: Path) -> None:
    monitor = somcot.Monitor(chain(0.5).sample(40, 20, rng=0), discount=0.8, one_false_alarm_per=1000, window=200)
    monitor.update([LABELS[code] for code in chain(0.95).sample(1, 300, rng=1).now])
    monitor.save(path)


def _monitor_values(path: Path) -> dict[str, Any]:
    monitor = somcot.Monitor.load(path)
    alarm = monitor.alarm
    assert alarm is not None
    before = {
        "evidence": monitor.evidence,
        "n_events": monitor.n_events,
        "n_alarms": len(monitor.alarms),
        "notice": monitor.notice,
        "alarm": [alarm.event, alarm.evidence, alarm.reason, alarm.id],
        "moved": [[m.source, m.target, m.before, m.now] for m in alarm.transitions],
        "distance": monitor.distance(0.9).distance,
    }
    monitor.update([LABELS[code] for code in _codes(1, 50)])
    return before | {"after": [monitor.n_events, monitor.evidence, monitor.distance(None).distance]}


def _watched(path: Path, k: int) -> list[Any]:
    """Lines that ``somcot watch`` prints about events on standard input, with its state in a file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, codes in (("reference.csv", _codes(1, 300)), ("stream.csv", _codes(k, 100))):
            rows = [f"{i},{LABELS[code]}" for i, code in enumerate(codes)]
            (folder / file).write_text("\n".join(["time,page", *rows, ""]), encoding="utf-8")
        with _standard_input(folder / "stream.csv"):
            text = run(
                "watch", "-", "--reference", "reference.csv", "--time", "time", "--state", "page", "--discount", "0.8",
                "--window", "100", "--state-file", str(path), "--json", folder=folder,
            )  # fmt: skip
    return [json.loads(line) for line in text.splitlines()]


@contextlib.contextmanager
def _standard_input(path: Path) -> Iterator[None]:
    kept, other = os.dup(0), os.open(path, os.O_RDONLY)
    try:
        os.dup2(other, 0)
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(other)


def _watch(path: Path) -> None:
    _watched(path, 1)


def _watched_again(path: Path) -> dict[str, Any]:
    position: Any = somcot.Monitor.load(path).position
    (*_, last) = _watched(path, 1)
    return {"source": position["source"], "delivered": position["delivered"], "events": last["events"]}


LABELS = ("home", "cart", "left")
# File -> how it was written, and how it is read.
KINDS: dict[str, tuple[Callable[[Path], None], Callable[[Path], dict[str, Any]]]] = {
    "result-exact": (_exact(discount=0.8), _gradient),
    "result-average": (_exact(discount=1), _result),
    "result-horizon": (_exact(horizon=4), _gradient),
    "result-rate": (_continuous_time, _result),
    "result-total": (_total, _result),
    "result-sinkhorn": (_exact(discount=0.8, method="sinkhorn"), _result),
    "result-saddle": (_exact(discount=0.8, method="saddle"), _result),
    "result-lp": (_exact(discount=0.8, method="lp"), _result),
    "result-somcot": (_exact(discount=0.8, method="somcot", n_steps=500, rng=0), _result),
    "result-estimate": (_estimate, _result),
    "result-vectors": (_of_vectors, _result),
    "matrix": (_matrix, _matrix_values),
    "matrix-checkpoint": (_matrix_checkpoint, _matrix_refused),
    "matrix-checkpoint-chains": (_chains_checkpoint, _chains_again),
    "somcot-state": (_somcot_state, _somcot_goes_on),
    "somcot-checkpoint": (_somcot_checkpoint, _somcot_resumed),
    "somcot-phases": (_endless, _endless_resumed),
    "monitor": (_monitor, _monitor_values),
    "watch-state": (_watch, _watched_again),
}
