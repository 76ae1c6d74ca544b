"""Tables and arrays of real vectors: rows in order, ends and gaps as for labels; observations as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from somcot.readers import from_env, from_table, read_vectors
from tests.notes import noted

ROWS: dict[str, list[Any]] = {
    "run": ["b", "a", "a", "b", "a"],
    "t": [0, 2, 0, 1, 1],
    "x": [5.0, 3.0, 1.0, 6.0, 2.0],
    "v": [0.5, 0.3, 0.1, 0.6, 0.2],
    "done": [False, True, False, False, False],
}


@pytest.mark.filterwarnings("ignore:.*sorted by time:somcot.DataWarning")
def test_rows_become_episodes_in_order() -> None:
    data = read_vectors(ROWS, state=["x", "v"], sequence="run", time="t", terminated="done")
    assert data.names == ("x", "v")
    found = {
        episode[0, 0]: (episode.tolist(), bool(end))
        for episode, end in zip(data.episodes, data.terminated, strict=True)
    }
    assert found[1.0] == ([[1.0, 0.1], [2.0, 0.2], [3.0, 0.3]], True)
    assert found[5.0] == ([[5.0, 0.5], [6.0, 0.6]], False)


def test_missing_numbers_are_named_or_cut() -> None:
    rows = {"x": [0.0, 1.0, None, 3.0, 4.0], "v": [0.0, 1.0, 2.0, 3.0, 4.0]}
    with pytest.raises(ValueError, match=r"row 3 has no x / v \(1 such row"):
        read_vectors(rows, state=["x", "v"])
    with noted("rows-removed", n=1, state="x / v", cuts=1):
        data = read_vectors(rows, state=["x", "v"], missing="cut")
    assert [episode[:, 0].tolist() for episode in data.episodes] == [[0.0, 1.0], [3.0, 4.0]]
    with pytest.raises(ValueError, match="column 'x': found inf"):
        read_vectors({"x": [0.0, float("inf")], "v": [0.0, 1.0]}, state=["x", "v"])


def test_files_of_every_kind_say_the_same(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(3, 5, 2))
    lines = [f"{e},{t},{x!r},{v!r}" for e, run in enumerate(values.tolist()) for t, (x, v) in enumerate(run)]
    (tmp_path / "log.csv").write_text("run,t,x,v\n" + "\n".join(lines))
    np.save(tmp_path / "log.npy", values)
    np.savez(tmp_path / "log.npz", *values)
    for found in (
        read_vectors(tmp_path / "log.csv", state=["x", "v"], sequence="run", time="t"),
        read_vectors(tmp_path / "log.npy"),
        read_vectors(str(tmp_path / "log.npz")),
    ):
        np.testing.assert_array_equal(np.stack(found.episodes), values)


def test_arrays_that_are_none(tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", np.array(["a", "b"]))
    with pytest.raises(ValueError, match="expected numbers of shape"):
        read_vectors(tmp_path / "bad.npz")
    np.save(tmp_path / "bad.npy", np.full((1, 3, 2), np.nan))
    with pytest.raises(ValueError, match=r"bad.npy: arrays\[0\]: row 0, coordinate 0 is NaN"):
        read_vectors(tmp_path / "bad.npy")


def test_observations_as_they_are() -> None:
    pytest.importorskip("gymnasium")
    data = from_env("CartPole-v1", n_steps=200, rng=0, vectors=True)
    assert data.d == 4
    assert data.n_transitions == 200
    assert data.terminated.any()
    with pytest.raises(ValueError, match="bins: vectors=True"):
        from_env("CartPole-v1", n_steps=20, rng=0, vectors=True, bins=3)
    with pytest.raises(ValueError, match="or vectors=True for Trajectories"):
        from_env("CartPole-v1", n_steps=20, rng=0)


def test_lists_are_vectors(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    values = np.random.default_rng(0).normal(size=(6, 3))
    plain = {"run": [0, 0, 0, 1, 1, 1]}
    kinds = (pa.list_(pa.float64()), pa.list_(pa.float32(), 3), pa.large_list(pa.float64()))
    for kind in kinds:
        table = pa.table(plain | {"at": pa.array(values.tolist(), kind), "t": [0, 1, 2, 0, 1, 2]})
        parquet.write_table(table, tmp_path / "log.parquet", row_group_size=4)
        found = read_vectors(tmp_path / "log.parquet", state="at", sequence="run", time="t")
        assert found.names == ("at[0]", "at[1]", "at[2]")
        np.testing.assert_allclose(found.points, values, rtol=1e-6)
    lines = [f'{{"run": {r}, "at": {v}}}' for r, v in zip(plain["run"], values.tolist(), strict=True)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    np.testing.assert_array_equal(read_vectors(tmp_path / "log.jsonl", state="at", sequence="run").points, values)


def test_lists_that_are_missing_or_too_short() -> None:
    pytest.importorskip("pyarrow")
    rows: dict[str, list[Any]] = {"at": [[0.0, 1.0], [1.0, 2.0], None, [3.0, 4.0], [4.0, 5.0]]}
    with pytest.raises(ValueError, match=r"row 3 has no at\[0\] / at\[1\]"):
        read_vectors(rows, state="at")
    with noted("rows-removed"):
        data = read_vectors(rows, state="at", missing="cut")
    assert [episode[:, 1].tolist() for episode in data.episodes] == [[1.0, 2.0], [4.0, 5.0]]
    with pytest.raises(ValueError, match=r"row 2, column 'at': found 1 numbers, expected 2"):
        read_vectors({"at": [[0.0, 1.0], [1.0]]}, state="at")
    with pytest.raises(ValueError, match=r"column 'at' holds list<item: double>.*readers.read_vectors"):
        from_table({"at": [[0.0, 1.0], [1.0, 2.0]]}, state="at")


def test_columns_are_named_in_one_text_or_asked_for() -> None:
    rows = {"run": [0, 0], "x": [0.0, 1.0], "v": [1.0, 2.0]}
    assert read_vectors(rows, state="x,v", sequence="run").names == ("x", "v")
    assert read_vectors({"a,b": [0.0, 1.0], "row": [0, 1]}, state="a,b").names == ("a,b",)
    assert read_vectors({"time": [0, 1], "x": [0.0, 1.0]}).names == ("x",)
    with pytest.raises(ValueError, match=r"which columns .*state.* x, v"):
        read_vectors(rows, sequence="run")
    with pytest.raises(ValueError, match="the column 'x' is named twice"):
        read_vectors(rows, state=["x", "x"])
    with pytest.raises(ValueError, match="no sequence has two rows"):
        read_vectors({"x": [0.0], "v": [1.0]}, state="x,v")


def test_periods_are_named_by_column_and_in_arrays_by_place(tmp_path: Path) -> None:
    np.save(tmp_path / "log.npy", np.zeros((2, 5, 2)))
    table = read_vectors({"x": [0.0, 1.0], "v": [1.5, 0.5]}, state=["x", "v"], period={"v": 2.0})
    arrays = read_vectors(tmp_path / "log.npy", period={"x1": 2.0})
    for data in (table, arrays):
        assert data.period is not None
        assert data.period.tolist() == [np.inf, 2.0]
    with pytest.raises(ValueError, match="period: found 'x', which is not a coordinate; these are x0, x1"):
        read_vectors(tmp_path / "log.npy", period={"x": 2.0})
