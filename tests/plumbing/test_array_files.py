"""Checkpoint files: whole or not at all, checked, without code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from somcot.plumbing import records as checkpoint
from somcot.plumbing.records import CheckpointError

ARRAYS = {
    "a": np.linspace(0, 1, 7).reshape(7, 1),
    "b": np.array([1, -2], dtype=np.int64),
    "c": np.array([[True, False]]),
    "d": np.array([np.inf, np.nan, -0.0]),
    "e": np.zeros((0, 3)),
    "f": np.arange(3, dtype=np.uint64),
}
RECORD: dict[str, Any] = {"k": 3, "state": {"inc": 2**127 - 1}, "text": "ü", "nothing": None}


def test_round_trip_is_exact(tmp_path: Path) -> None:
    checkpoint.write_arrays(tmp_path / "x", ARRAYS, RECORD)
    arrays, record = checkpoint.read_arrays(tmp_path / "x")
    assert record == RECORD
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()
        arrays[name][...] = 0  # writable


def test_every_flipped_byte_and_every_cut_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    checkpoint.write_arrays(path, {"a": np.arange(4.0)}, {"k": 1})
    data = path.read_bytes()
    for i in range(len(data)):
        path.write_bytes(data[:i] + bytes([data[i] ^ 0x40]) + data[i + 1 :])
        with pytest.raises(CheckpointError, match=r"not a somcot checkpoint|damaged"):
            checkpoint.read_arrays(path)
        path.write_bytes(data[:i])
        with pytest.raises(CheckpointError):
            checkpoint.read_arrays(path)


def signed(block: bytes) -> bytes:
    import hashlib

    return checkpoint.MAGIC + hashlib.sha256(block).hexdigest().encode() + b"\n" + block


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\xff" * 8,
        (2**62).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{}",
        (4).to_bytes(8, "little") + b"[1,2",
        b"\x80\x04\x95pickle",
    ],
)
def test_a_right_sum_over_nonsense_is_refused(tmp_path: Path, block: bytes) -> None:
    (tmp_path / "x").write_bytes(signed(block))
    with pytest.raises(CheckpointError, match="not a somcot checkpoint"):
        checkpoint.read_arrays(tmp_path / "x")


def test_a_shape_larger_than_the_data_is_refused(tmp_path: Path) -> None:
    head = json.dumps(
        {"__metadata__": {"somcot": "{}"}, "a": {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 8]}}
    ).encode()
    (tmp_path / "x").write_bytes(signed(len(head).to_bytes(8, "little") + head + b"\0" * 8))
    with pytest.raises(CheckpointError):
        checkpoint.read_arrays(tmp_path / "x")


def test_failure_leaves_the_last_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    checkpoint.write_arrays(path, ARRAYS, {"k": 1})

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.write_arrays(path, ARRAYS, {"k": 2})
    assert checkpoint.read_arrays(path)[1] == {"k": 1}
    assert os.listdir(tmp_path) == ["x"]


def test_a_record_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    head = json.dumps({"__metadata__": {"somcot": "[1, 2]"}}).encode()
    (tmp_path / "x").write_bytes(signed(len(head).to_bytes(8, "little") + head))
    with pytest.raises(CheckpointError, match="its record is a list"):
        checkpoint.read_arrays(tmp_path / "x")
