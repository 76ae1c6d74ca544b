"""Tables counted in parts: the same counts as reading them whole, however rows are spread."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from somcot.plumbing.errors import DataWarning
from somcot.readers import count_table, from_table
from somcot.readers.tables import counting, to_numpy
from somcot.readers.tables.columns import LabelColumn


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        yield


def table(seed: int = 0, n: int = 3000, n_users: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "user": rng.integers(0, n_users, n), "t": np.sort(rng.integers(0, 10 * n, n)),
        "page": rng.choice(list("abcdef"), n, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.05]), "gain": rng.random(n),
    })  # fmt: skip


def same(counts: Any, samples: Any) -> None:
    order = [counts.states.index(state) for state in samples.states]
    ours, theirs = (c if isinstance(c, np.ndarray) else c.toarray() for c in (counts.counts(), samples.counts()))
    assert np.array_equal(ours[np.ix_(order, order)], theirs)
    assert np.array_equal(counts.start_counts[order], samples.start_counts)
    assert counts.n_episodes == samples.n_episodes
    assert counts.n_transitions == samples.n_transitions


def spread(whole: pd.DataFrame, folder: Path, n: int, kind: str) -> Path:
    """Rows in order of time, cut anywhere: sequences run across files."""
    folder.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(whole)), n)):
        part = whole.iloc[rows]
        if kind == "csv":
            part.to_csv(folder / f"{k:02}.csv", index=False)
        else:
            part.to_parquet(folder / f"{k:02}.parquet")
    return folder


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("block", [7, 100, 10**6])
def test_files_and_blocks_add_up_to_the_whole(
    kind: str, text: bool, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_BLOCK", block)
    monkeypatch.setattr("somcot.readers.tables.file_tables._ROWS", 2)
    whole = table(n=400 if block == 7 else 3000)
    if text:
        whole["user"] = "user " + whole["user"].astype(str)
    alone = from_table(whole, sequence="user", time="t", state="page", reward="gain")
    for n in (1, 5):
        folder = spread(whole, tmp_path / f"{n}", n, kind)
        found = count_table(folder, sequence="user", time="t", state="page", reward="gain")
        same(found, alone)
        order = [found.states.index(state) for state in alone.states]
        assert found.features is not None
        assert found.features[order] == pytest.approx(alone.features)


def test_sorted_by_sequence_and_without_times(tmp_path: Path) -> None:
    whole = table().sort_values(["user", "t"], kind="stable")
    same(
        count_table(spread(whole, tmp_path / "a", 4, "parquet"), sequence="user", state="page"),
        from_table(whole, sequence="user", state="page"),
    )


def test_a_block_out_of_order_is_sorted(tmp_path: Path) -> None:
    whole = table()
    mixed = whole.sample(frac=1, random_state=0)
    folder = tmp_path / "a"
    folder.mkdir()
    half = len(whole) // 2
    late = mixed[mixed.t >= whole.t.iloc[half]]
    early = mixed[mixed.t < whole.t.iloc[half]]
    early.to_parquet(folder / "1.parquet")
    late.to_parquet(folder / "2.parquet")
    unique = whole.drop_duplicates("t")
    found = count_table(folder, sequence="user", time="t", state="page")
    assert found.n_transitions == from_table(whole, sequence="user", time="t", state="page").n_transitions
    assert len(unique) <= len(whole)
    with pytest.raises(ValueError, match=r"1.parquet: sequence .* goes back in time"):
        count_table([folder / "2.parquet", folder / "1.parquet"], sequence="user", time="t", state="page")


def test_ends_and_starts(tmp_path: Path) -> None:
    folder = spread(table(n=200, n_users=5), tmp_path / "a", 3, "csv")
    found = count_table(folder, sequence="user", state="page", terminated=True, initial="a")
    assert found.all_ended.any()
    assert found.initial is not None
    assert found.edges is not None
    assert found.edges.ended.all()


def test_what_cannot_be_counted_is_refused(tmp_path: Path) -> None:
    whole = table(n=50)
    whole.to_parquet(tmp_path / "a.parquet")
    for arguments, message in (
        (([],), "paths: empty"),
        ((tmp_path / "none.csv",), "no such file"),
    ):
        with pytest.raises(ValueError, match=message):
            count_table(*arguments)
    with pytest.raises(ValueError, match=r"no column 'place'.*'user', 't', 'page', 'gain'"):
        count_table(tmp_path / "a.parquet", state="place")
    whole.rename(columns={"page": "where"}).to_parquet(tmp_path / "unusual.parquet")
    with pytest.raises(ValueError, match="which column is the state"):
        count_table(tmp_path / "unusual.parquet")
    with pytest.raises(TypeError, match="terminated: found 'done'"):
        count_table(tmp_path / "a.parquet", state="page", terminated="done")  # type: ignore[arg-type]
    whole.loc[3, "user"] = None
    whole.to_parquet(tmp_path / "b.parquet")
    with pytest.raises(ValueError, match="column 'user' has 1 rows"):
        count_table(tmp_path / "b.parquet", state="page", sequence="user")
    whole.loc[3, "page"] = None
    whole.to_parquet(tmp_path / "c.parquet")
    with pytest.raises(ValueError, match="rows without a 'page'"):
        count_table(tmp_path / "c.parquet", state="page")
    (tmp_path / "one.csv").write_text("user,page\n1,a\n2,b\n")
    with pytest.raises(ValueError, match="no sequence has two rows"):
        count_table(tmp_path / "one.csv", sequence="user", state="page")


@pytest.mark.parametrize("names", ["near", "far", "below", "rising", "unsigned"])
def test_any_whole_numbers_name_sequences(names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers close together have a place each; those that do not fit any more are looked up from there on."""
    monkeypatch.setattr("somcot.readers.tables.streaming_counts._SPAN", 50)
    monkeypatch.setattr("somcot.readers.tables.file_tables._ROWS", 10)
    monkeypatch.setattr(counting, "_BLOCK", 40)
    whole = table(n=600, n_users=30)
    user = whole["user"].to_numpy()
    whole["user"] = {
        "near": user,
        "far": np.where(np.arange(600) < 300, user, user * 10**12),
        "below": user - 17,
        "rising": user + np.arange(600) // 4,
        "unsigned": user.astype(np.uint64),
    }[names]
    found = count_table(spread(whole, tmp_path / "a", 2, "parquet"), sequence="user", time="t", state="page")
    same(found, from_table(whole, sequence="user", time="t", state="page"))


def test_many_states_are_counted_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pages = [f"page {i}" for i in rng.integers(0, 400, 3000)]
    whole = pd.DataFrame({"user": rng.integers(0, 20, 3000), "t": np.arange(3000), "page": pages})
    found = count_table(spread(whole, tmp_path / "a", 3, "parquet"), sequence="user", time="t", state="page")
    same(found, from_table(whole, sequence="user", time="t", state="page"))


def test_a_sequence_that_goes_back_in_time_within_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a block it is sorted, ties as found; from one block to the next it is refused by name."""
    rows = pd.DataFrame({"user": [7, 8, 7, 8] * 20, "t": [5, 1, 3, 9] * 20, "page": ["a", "b", "c", "a"] * 20})
    rows.to_parquet(tmp_path / "a.parquet")
    whole = from_table(rows, sequence="user", time="t", state="page")
    same(count_table(tmp_path / "a.parquet", sequence="user", time="t", state="page"), whole)
    monkeypatch.setattr("somcot.readers.tables.file_tables._ROWS", 10)
    monkeypatch.setattr(counting, "_BLOCK", 40)
    with pytest.raises(ValueError, match=r"a.parquet: sequence 8 goes back in time.* 9.0 to 1.0"):
        count_table(tmp_path / "a.parquet", sequence="user", time="t", state="page")


def test_the_usual_columns_are_those_of_from_table(tmp_path: Path) -> None:
    rows = pd.DataFrame({"concept:name": ["a", "b", "a"], "case:concept:name": [1, 1, 1], "step": [2, 1, 3]})
    rows.to_parquet(tmp_path / "a.parquet")
    same(count_table(tmp_path / "a.parquet"), from_table(rows))
    as_written = count_table(tmp_path / "a.parquet", time="file")
    same(as_written, from_table(rows, time="file"))
    with pytest.raises(TypeError, match="state: found"):
        count_table(tmp_path / "a.parquet", state=["a", "b"])  # type: ignore[arg-type]


def test_codes_without_labels_are_found_beside_missing_ones() -> None:
    import pyarrow as pa

    column = LabelColumn("t", "page", is_text=False)
    codes = pa.array([0, None, 1], pa.int8())
    column.add(pa.DictionaryArray.from_arrays(codes, ["x", "y"]))
    places, labels = column.finish()
    assert places.tolist() == [0, -1, 1]
    assert labels == ["x", "y"]
    for wrong in (2, -1):
        damaged = pa.DictionaryArray.from_arrays(pa.array([0, None, wrong], pa.int8()), ["x", "y"], safe=False)
        with pytest.raises(ValueError, match="column 'page' is damaged"):
            column.add(damaged)


@pytest.mark.parametrize(
    "numbers",
    [
        np.array([True, False]), np.array([3, -1], np.int8), np.array([2**40]), np.array([0.5, -0.0]),
        np.array([0.25, 8.0], np.float32), np.array(["2026-01-02T03:04:05"], "M8[s]"), np.array([], np.float32),
    ],
    ids=lambda numbers: f"{len(numbers)} of {numbers.dtype}",
)  # fmt: skip
def test_columns_of_all_kinds_become_arrays(numbers: np.ndarray[Any, Any]) -> None:
    import pyarrow as pa

    column = pa.array(numbers)
    for given in (column, pa.chunked_array([column, column[:0]])):
        found = to_numpy(given)
        assert found.dtype == numbers.dtype
        assert found.tobytes() == numbers.tobytes()
