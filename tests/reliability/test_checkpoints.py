"""Checkpoints: one run each, a failing disk costs no result, and files that were tampered with are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from somcot.plumbing import records
from somcot.plumbing.records import CheckpointError
from somcot.solvers import somcot
from tests.instances import walks
from tests.notes import noted
from tests.reliability.test_somcot_resume import assert_same_bits, start

Record = dict[str, Any]
ARGUMENTS: dict[str, Any] = {"discount": 0.9, "n_steps": 300, "rng": 0, "steps": "theorem"}

pytestmark = pytest.mark.filterwarnings("ignore:the run has not converged")  # runs are short


def test_a_second_run_with_the_same_checkpoint_is_refused(tmp_path: Path) -> None:
    x, y, cost = walks(3, 0.7)
    path = tmp_path / "run.ck"
    refusals: list[str] = []

    def second(_step: int, _total: int, _value: float) -> None:
        with pytest.raises(ValueError, match=r"run\.ck: in use by another run") as caught:
            somcot.solve(x, y, cost, **ARGUMENTS, checkpoint=path)
        refusals.append(str(caught.value))

    first = somcot.solve(x, y, cost, **ARGUMENTS, checkpoint=path, progress=second)
    assert refusals
    assert_same_bits(first, somcot.solve(x, y, cost, **ARGUMENTS, checkpoint=path))


def test_a_full_disk_costs_the_checkpoint_but_not_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, cost = walks(3, 0.7)
    path = tmp_path / "run.ck"
    calm = somcot.solve(x, y, cost, **ARGUMENTS, checkpoint=path)
    before = path.read_bytes()

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    reason = "could not be written (No space left on device); what was there before is kept"
    with noted("checkpoint-not-written", about="checkpoint", path=str(path), reason=reason):
        found = somcot.solve(x, y, cost, **ARGUMENTS, checkpoint=path)
    assert_same_bits(calm, found)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.ck"]


@pytest.mark.parametrize("value", [5, "", b"run.ck", ["run.ck"]])
@pytest.mark.parametrize("name", ["checkpoint", "resume"])
def test_a_checkpoint_is_the_name_of_a_file(name: str, value: Any) -> None:
    x, y, cost = walks(3, 0.7)
    with pytest.raises(TypeError, match=f"{name}: found .*, expected the name of a file"):
        somcot.solve(x, y, cost, **ARGUMENTS, **{name: value})


def changed(key: str, value: Any) -> Callable[[Record, Record], None]:
    """Put another value into the record; dots go deeper."""

    def change(_: Record, record: Record) -> None:
        *folders, last = key.split(".")
        for folder in folders:
            record = record[folder]
        record[last] = value

    return change


def without(key: str) -> Callable[[Record, Record], None]:
    def change(arrays: Record, record: Record) -> None:
        del (arrays if key in arrays else record)[key]

    return change


def array(key: str, value: Any) -> Callable[[Record, Record], None]:
    def change(arrays: Record, _: Record) -> None:
        arrays[key] = value

    return change


TAMPERED = {
    "no options": without("options"),
    "no cost": without("cost"),
    "no duals": without("x.alpha"),
    "no streams": without("streams"),
    "options are a list": changed("options", [1, 2]),
    "unknown option": changed("options.colour", "red"),
    "discount is text": changed("options.discount", "high"),
    "discount above 1": changed("options.discount", 2.0),
    "no step planned": changed("options.n_steps", 0),
    "a fraction of a step": changed("options.n_steps", 0.5),
    "more steps done than planned": array("pairs.step", np.array([2**60])),
    "a negative step": array("pairs.step", np.array([-5])),
    "support is a number": changed("options.support", 3),
    "average is a list": changed("options.average", []),
    "steps too short": changed("options.steps", [1.0]),
    "another format": changed("format", "somcot.state/9"),
    "counts of another shape": array("counts_x", np.zeros((7, 7), dtype=np.int64)),
    "cost is a vector": array("cost", np.zeros(3)),
    "cost is empty": array("cost", np.zeros((0, 0))),
    "edges are no square": array("edges_x", np.ones((3, 1), dtype=np.bool_)),
    "a trace of one number": array("trace", np.zeros(())),
    "the block is later than the step": changed("streams.block_k", 10**9),
    "the block is text": changed("streams.block_k", "first"),
    "streams are a number": changed("streams", 1),
    "a generator without a state": changed("streams.block_x", {}),
    "a generator with nonsense": changed("streams.block_x", {"generator": {"state": -1}, "state": 10**30}),
    "a generator with text": changed("streams.block_x", "PCG64"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_checkpoint_with_the_right_sum_is_refused(name: str, tmp_path: Path) -> None:
    x, y, cost = walks(3, 0.7)
    path = tmp_path / "run.ck"
    somcot.solve(x, y, cost, **ARGUMENTS, checkpoint=path)
    arrays, record = records.read_arrays(path)
    TAMPERED[name](arrays, record)
    records.write_arrays(path, arrays, record)
    with pytest.raises(CheckpointError):
        somcot.solve(x, y, cost, **ARGUMENTS, resume=path)


def test_a_request_to_terminate_keeps_the_checkpoint(tmp_path: Path) -> None:
    """In a program without a handler of its own the process still ends, after the checkpoint was written."""
    process = start(tmp_path, "full", 10**9)
    while not (tmp_path / "run.ck").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == -signal.SIGTERM
    assert somcot.load(tmp_path / "run.ck").k > 0
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def test_three_processes_with_one_checkpoint(tmp_path: Path) -> None:
    """One works, the others are refused with its number; nothing of the one is lost."""
    first = start(tmp_path, "full", 10**9)
    while not (tmp_path / "run.ck").exists():
        assert first.poll() is None
    command = [sys.executable, "-m", "tests.reliability.somcot_worker", str(tmp_path / "run.ck"), str(tmp_path / "b")]
    root = Path(__file__).parents[2]
    second = subprocess.run(
        [*command, "full", "1000"], cwd=root, capture_output=True, text=True, timeout=120, check=False
    )
    assert f"in use by another run (process {first.pid})" in second.stderr
    first.send_signal(signal.SIGINT)
    assert first.wait(timeout=60) == 0
    assert sorted(os.listdir(tmp_path)) == ["out", "run.ck"]
