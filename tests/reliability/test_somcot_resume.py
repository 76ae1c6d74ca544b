"""Runs that are killed, crash or are interrupted: what they resume to, and what they keep."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from somcot import Status, random_walk, streams
from somcot.plumbing.records import CheckpointError
from somcot.result import Result
from somcot.solvers import somcot
from tests.instances import walks

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.filterwarnings("ignore:the run has not converged")  # runs are short


def assert_same_bits(one: Result, other: Result) -> None:
    assert one.distance == other.distance
    assert one.n_steps == other.n_steps
    assert one.residuals == other.residuals
    for name in ("encoder", "decoder", "potential", "state_law"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    assert one.duals is not None
    assert other.duals is not None
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one.duals, other.duals, strict=True))
    assert one.trace.keys() == other.trace.keys()
    assert all(one.trace[name].tobytes() == other.trace[name].tobytes() for name in one.trace)
    assert (one.plan is None) == (other.plan is None)
    if one.plan is not None and other.plan is not None:
        assert one.plan.mass.tobytes() == other.plan.mass.tobytes()


class CrashError(Exception):
    pass


@pytest.mark.parametrize(
    "options",
    [
        {"primal_step": 40.0, "dual_step": 0.2},
        {"support": "observed", "batch_size": 3},
        {"keep_coupling": True, "average": 0.3},
        {"support": "observed", "keep_coupling": True, "average": 1.0},
    ],
    ids=["large rates", "observed", "coupling", "observed coupling"],
)
@pytest.mark.parametrize("where", [1, 900, 2500, 4096, 5000])
def test_a_crashed_run_resumes_to_the_same_bits(
    options: dict[str, Any], where: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("somcot.solvers.somcot.fold.SLICE_SECONDS", 0.0)  # a slice is a step: the crash comes in time
    x, y, cost = walks(4, 0.7)
    path = tmp_path / "run.ck"
    arguments: dict[str, Any] = {"discount": 0.95, "n_steps": 6000, "rng": 11} | options

    def crash(step: int, _total: int, _value: float) -> None:
        if step >= where:
            raise CrashError

    whole = somcot.solve(x, y, cost, **arguments)
    with pytest.raises(CrashError):
        somcot.solve(x, y, cost, **arguments, checkpoint=path, progress=crash)
    assert where <= somcot.load(path).k < 6000
    resumed = somcot.solve(x, y, cost, **(arguments | {"rng": None}), resume=path)
    assert_same_bits(whole, resumed)


@pytest.mark.parametrize("growing", [False, True])
def test_streams_without_a_generator_are_read_again(growing: bool, tmp_path: Path) -> None:
    chain, path = random_walk(4), tmp_path / "run.ck"
    xs = list(zip(*streams.from_chain(chain, 0.9, 1).draw(3000), strict=True))
    ys = list(zip(*streams.from_chain(chain, 0.9, 2).draw(3000), strict=True))

    class Bare:
        def __init__(self) -> None:
            self.place = 0

        def draw(self, n: int) -> Any:
            part = ys[self.place : self.place + n]
            self.place += n
            return [a for a, _ in part], [b for _, b in part]

    def run(**more: Any) -> Result:
        support = "observed" if growing else "full"
        return somcot.solve(
            streams.from_iterable(xs), Bare(), 1 - np.eye(4), discount=0.9, n_steps=3000, support=support, **more
        )

    def crash(step: int, _total: int, _value: float) -> None:
        if step >= 700:
            raise CrashError

    whole = run()
    with pytest.raises(CrashError):
        run(checkpoint=path, progress=crash)
    assert_same_bits(whole, run(resume=path))


def test_resume_true_starts_afresh_without_a_file(tmp_path: Path) -> None:
    x, y, cost = walks(3, 0.7)
    path = tmp_path / "run.ck"
    first = somcot.solve(x, y, cost, discount=0.9, n_steps=300, rng=0, checkpoint=path, resume=True)
    again = somcot.solve(x, y, cost, discount=0.9, n_steps=300, rng=0, checkpoint=path, resume=True)
    assert first.n_steps == again.n_steps == 300
    assert_same_bits(first, again)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"n_steps": 400}, "other options"),
        ({"cost": 2 * np.eye(3)}, "other cost"),
        ({"discount": 0.8}, "other options"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(change: dict[str, Any], match: str, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"cost": np.eye(3), "discount": 0.9, "n_steps": 300, "rng": 0}
    chain, path = random_walk(3), tmp_path / "run.ck"
    somcot.solve(chain, chain, **arguments, checkpoint=path)
    with pytest.raises(CheckpointError, match=match):
        somcot.solve(chain, chain, **(arguments | change), resume=path)


def test_a_state_saved_by_hand_goes_on(tmp_path: Path) -> None:
    x, y, cost = walks(3, 0.7)
    xs, ys = streams.from_chain(x, 0.9, 0).draw(500), streams.from_chain(y, 0.9, 1).draw(500)

    def part(pairs: Any, a: int, b: int) -> Any:
        return pairs[0][a:b], pairs[1][a:b]

    whole = somcot.advance(somcot.init(cost, discount=0.9, n_steps=500), xs, ys)
    state = somcot.advance(somcot.init(cost, discount=0.9, n_steps=500), part(xs, 0, 333), part(ys, 0, 333))
    somcot.save(state, tmp_path / "state")
    state = somcot.advance(somcot.load(tmp_path / "state"), part(xs, 333, 500), part(ys, 333, 500))
    assert_same_bits(somcot.finish(whole), somcot.finish(state))


def start(folder: Path, kind: str, n_steps: int, name: str = "out") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.reliability.somcot_worker", str(folder / "run.ck"), str(folder / name)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, kind, str(n_steps)], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout as lines:
        assert lines.readline() == "ready\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "seed"),
    [("full", 0), ("full", 1), ("observed", 2), ("observed", 3), ("auto", 4), ("phases", 5), ("counted", 6)],
)
def test_ten_kills_end_with_the_same_bits(kind: str, seed: int, tmp_path: Path) -> None:
    """kill -9 at random moments, the writing of checkpoints included; seven runs make seventy kills."""
    lengths = {"full": 2.5e6, "observed": 2e6, "auto": 1e6, "phases": 1.5e6, "counted": 120e6}
    n_steps = int(lengths[kind])
    moments = random.Random(seed)
    (tmp_path / "calm").mkdir()
    assert start(tmp_path / "calm", kind, n_steps).wait() == 0
    kills = 0
    while kills < 10:
        process = start(tmp_path, kind, n_steps)
        time.sleep(moments.uniform(0.02, 0.4))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "the run ended before it could be killed; make it longer"
        kills += 1
    assert start(tmp_path, kind, n_steps).wait() == 0
    assert_same_bits(Result.load(tmp_path / "calm" / "out"), Result.load(tmp_path / "out"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calm", "out", "run.ck"]


@pytest.mark.slow
def test_ctrl_c_at_twenty_moments_keeps_a_valid_result(tmp_path: Path) -> None:
    moments = random.Random(0)
    for i in range(20):
        process = start(tmp_path, ("full", "observed", "auto", "counted")[i % 4], 10**9, f"out{i}")
        time.sleep(moments.uniform(0.1, 0.8))
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        seconds = time.monotonic() - began
        result = Result.load(tmp_path / f"out{i}")
        assert result.status is Status.INTERRUPTED
        assert 0 < result.n_steps < 10**9
        assert 0 <= result.distance <= 2
        np.testing.assert_allclose(result.encoder.sum(axis=1), 1.0, atol=1e-9)
        assert seconds < 20
        (tmp_path / "run.ck").unlink()
