"""Tables: every source gives the same counts; order, gaps, bins and joint states are handled and reported."""

from __future__ import annotations

import datetime as dt
import itertools
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from somcot.plumbing.errors import DataWarning
from somcot.readers import Bins, fit_bins, from_table
from somcot.samples import Samples
from tests.notes import noted

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FRAME: dict[str, list[Any]] = {
    "user": ["b", "a", "b", "a", "b", "a"],
    "ts": [1, 1, 2, 2, 3, 3],
    "page": ["home", "home", "cart", "home", "paid", "cart"],
}
WANTED = Samples.from_trajectories([["home", "cart", "paid"], ["home", "home", "cart"]])


def counts(samples: Samples) -> list[list[int]]:
    table: list[list[int]] = np.asarray(samples.counts()).tolist()
    return table


def sources(folder: Path) -> dict[str, Any]:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    table = pa.table(FRAME)
    pq.write_table(table, folder / "t.parquet")
    return {
        "mapping": FRAME,
        "pandas": pd.DataFrame(FRAME),
        "pandas category": pd.DataFrame(FRAME).astype({"page": "category"}),
        "polars": pl.DataFrame(FRAME),
        "polars category": pl.DataFrame(FRAME).with_columns(pl.col("page").cast(pl.Categorical)),
        "polars lazy": pl.LazyFrame(FRAME),
        "arrow": table,
        "arrow reader": table.to_reader(),
        "parquet": folder / "t.parquet",
        "parquet by text": str(folder / "t.parquet"),
    }


def test_frames_and_files_give_the_same(tmp_path: Path) -> None:
    for name, data in sources(tmp_path).items():
        samples = from_table(data, sequence="user", time="ts", state="page")
        assert samples.states == WANTED.states, name
        assert counts(samples) == counts(WANTED), name
        assert samples.n_episodes == 2


def test_many_small_batches_are_one_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = {"q": rng.integers(0, 50, 5000), "s": rng.integers(0, 6, 5000)}
    pq.write_table(pa.table(frame), tmp_path / "many.parquet", row_group_size=64)
    wanted = Samples.from_trajectories([frame["s"][frame["q"] == q] for q in range(50)])
    assert counts(from_table(tmp_path / "many.parquet", sequence="q", state="s")) == counts(wanted)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.sampled_from("abc")), min_size=2, max_size=40))
def test_sorted_within_sequences_as_a_plain_loop_does(rows: list[tuple[int, int, str]]) -> None:
    """Against the obvious: group, sort stably by time, count neighbours."""
    wanted: dict[tuple[str, str], int] = {}
    groups: dict[int, list[tuple[int, str]]] = {}
    for q, t, s in rows:
        groups.setdefault(q, []).append((t, s))
    for group in groups.values():
        ordered = [s for _, s in sorted(group, key=lambda row: row[0])]
        for pair in itertools.pairwise(ordered):
            wanted[pair] = wanted.get(pair, 0) + 1
    frame = {name: [row[k] for row in rows] for k, name in enumerate(("q", "t", "s"))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        if not wanted:
            with pytest.raises(ValueError, match="no sequence has two rows"):
                from_table(frame, sequence="q", time="t", state="s")
            return
        samples = from_table(frame, sequence="q", time="t", state="s")
    table = counts(samples)
    found = {(a, b): table[i][j] for i, a in enumerate(samples.states) for j, b in enumerate(samples.states)}
    assert {pair: n for pair, n in found.items() if n} == wanted


def test_disorder_and_ties_are_reported() -> None:
    with noted("rows-sorted", n=1):
        samples = from_table({"time": [2, 1, 3], "state": ["b", "a", "c"]})
    assert counts(samples) == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    with noted("equal-times", n=2):
        from_table({"time": [1, 1, 1, 2], "state": [1, 2, 3, 4]})


def test_interleaved_sequences_are_no_disorder() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_table({"sequence": [1, 2, 1, 2], "time": [0, 0, 1, 1], "state": [0, 1, 0, 1]})


def test_single_rows_are_dropped_aloud() -> None:
    with noted("single-rows", share=(1, 2)):
        assert from_table({"sequence": [1, 1, 2], "state": [0, 1, 0]}).n_episodes == 1


@pytest.mark.parametrize(
    "times",
    [
        [3, 1, 2],
        [0.3, 0.1, 0.2],
        ["3", "1", "2"],
        ["2026-05-03", "2026-05-01", "2026-05-02"],
        ["2026-05-01T12:00:03Z", "2026-05-01T12:00:01Z", "2026-05-01T12:00:02Z"],
        [dt.datetime(2026, 5, 3), dt.datetime(2026, 5, 1), dt.datetime(2026, 5, 2)],
        [dt.date(2026, 5, 3), dt.date(2026, 5, 1), dt.date(2026, 5, 2)],
        [dt.time(3), dt.time(1), dt.time(2)],
        [dt.timedelta(3), dt.timedelta(1), dt.timedelta(2)],
        [2**60 + 3, 2**60 + 1, 2**60 + 2],
    ],
)
def test_times_of_every_kind_sort(times: list[Any]) -> None:
    with noted("rows-sorted"):
        samples = from_table({"time": times, "state": ["c", "a", "b"]})
    assert counts(samples) == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_states_of_several_columns() -> None:
    samples = from_table({"page": ["a", "b", "a", "a"], "device": [1, 1, 2, 1]}, state=["page", "device"])
    assert samples.states == (("a", 1), ("a", 2), ("b", 1))
    assert counts(samples) == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]


def test_bins_by_edges_numbers_and_kind() -> None:
    frame = {"speed": [0.0, 1.0, 2.0, 3.0, 100.0]}
    assert from_table(frame, bins={"speed": [1.5]}).states == ("(-inf, 1.5)", "[1.5, inf)")
    assert from_table(frame, bins=2, binning="uniform").states == ("(-inf, 50)", "[50, inf)")
    assert from_table(frame, bins=2).states == ("(-inf, 2)", "[2, inf)")
    assert from_table(frame, bins=Bins([2.5])).visits.tolist() == [3, 1]
    mixed = from_table(
        {"gear": ["x", "x", "y"], "speed": [0.1, 0.9, 0.9]}, state=["gear", "speed"], bins={"speed": [0.5]}
    )
    assert mixed.states == (("x", "(-inf, 0.5)"), ("x", "[0.5, inf)"), ("y", "[0.5, inf)"))


def test_bins_fitted_to_two_tables_label_alike() -> None:
    low, high = {"v": [0.0, 1.0, 2.0, 3.0]}, {"v": [2.0, 3.0, 4.0, 8.0]}
    bins = fit_bins([low, high], {"v": 4}, binning="uniform")
    a, b = (from_table(t, bins=bins) for t in (low, high))
    assert a.states == ("(-inf, 2)", "[2, 4)")
    assert b.states == ("[2, 4)", "[4, 6)", "[6, inf)")


def test_missing_states_cut_the_sequence() -> None:
    frame = {"state": ["a", "b", None, "a", "b"]}
    with pytest.raises(ValueError, match="row 3 has no state"):
        from_table(frame)
    with noted("rows-removed", n=1, state="state", cuts=1):
        samples = from_table(frame, missing="cut")
    assert counts(samples) == [[0, 2], [0, 0]]
    assert samples.n_episodes == 2
    with noted("rows-removed", n=1, state="v", cuts=1):
        binned = from_table({"v": [0.0, 1.0, float("nan"), 1.0, 0.0]}, bins={"v": [0.5]}, missing="cut")
    assert counts(binned) == [[0, 1], [1, 0]]


def test_removed_rows_and_cuts_are_counted() -> None:
    # At the edges of a sequence, and twice in a row, or in all rows of a sequence, they split less often than they are.
    states: dict[int, list[str | None]] = {
        1: [None, "a", "b"],
        2: ["a", "b", None, None, "a", "b"],
        3: [None],
        4: ["a", "b", None],
    }
    frame = {"sequence": [k for k, v in states.items() for _ in v], "state": [s for v in states.values() for s in v]}
    with noted("rows-removed", n=5, cuts=1):
        samples = from_table(frame, missing="cut")
    assert samples.n_episodes == 4


def test_an_empty_line_is_a_missing_state_where_there_is_one_column(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("state\na\n\nb\n")
    with pytest.raises(ValueError, match="row 2 has no state"):
        from_table(file)
    file.write_text('sequence,state\n1,a\n\n1,"b\nc"\n')
    assert from_table(file).states == ("a", "b\nc")


def test_terminated_by_flag_and_by_column() -> None:
    frame = {"sequence": [1, 1, 2, 2, 2], "state": ["a", "z", "a", "b", "y"], "done": [0, 1, 0, 1, 0]}
    every = from_table(frame, state="state", terminated=True)
    assert every.terminated is not None
    assert every.terminated.tolist() == [True, True]
    with noted("flags-inside", n=1), noted("single-rows"):  # a true flag in the middle ends the sequence there
        some = from_table(frame, state="state", terminated="done")
    assert some.terminated is not None
    assert some.terminated.tolist() == [True, True]
    assert from_table(frame, state="state").terminated is None
    texts = {**frame, "done": ["no", "yes", "no", "no", "no"]}
    part = from_table(texts, state="state", terminated="done")
    assert part.terminated is not None
    assert part.terminated.tolist() == [True, False]


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5, 6], [5, 0, 3, 1, 6, 4, 2]])
@pytest.mark.parametrize("gap", [False, True])
def test_a_flag_that_is_constant_in_every_sequence_says_which_terminated(order: list[int], gap: bool) -> None:
    frame = {
        "sequence": [1, 1, 1, 2, 2, 3, 3],
        "state": [*"abc", *"ab", *"ac"],
        "ts": [0, 1, 9, 0, 1, 0, 1],
        "last": [0, 0, 1, 0, 0, 0, 1],
        "done": [1, 1, 1, 0, 0, 1, 1],
    }
    rows = {name: [values[k] for k in order] for name, values in frame.items()}
    read = partial(from_table, rows, sequence="sequence", state="state", time="ts", gap=5.0 if gap else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # rows out of order
        expected = read(terminated="last", end="end")
        with noted("flags-constant", n=3, column="done"):
            found = read(terminated="done", end="end")
    assert found.terminated is not None
    assert expected.terminated is not None
    assert (counts(found), found.terminated.tolist()) == (counts(expected), expected.terminated.tolist())


def test_a_flag_inside_sequences_is_noted() -> None:
    frame: dict[str, list[Any]] = {
        "sequence": [1, 1, 1, 1, 2, 2],
        "state": [*"abab", *"ab"],
        "done": [0, 1, 0, 1, 1, 1],
    }
    with noted("flags-inside", n=2, column="done"):
        assert from_table(frame, terminated="done", end="z").n_episodes == 4
    del frame["sequence"]  # without sequences, only the flags say where they end
    assert from_table(frame, terminated="done", end="z").n_episodes == 4


def test_rewards_become_features() -> None:
    samples = from_table({"state": ["a", "b", "a", "b"], "gain": [1, 0, 3, None]}, reward="gain")
    assert samples.features is not None
    assert samples.features.tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    ("labels", "states"),
    [
        (["1", "10", "2"], ("1", "10", "2")),  # text stays text in typed tables
        ([1.0, 2.0, 1.0], (1, 2)),
        ([True, False, True], (False, True)),
        ([dt.date(2026, 1, 1), dt.date(2026, 1, 2), dt.date(2026, 1, 1)], ("2026-01-01", "2026-01-02")),
    ],
)
def test_labels_of_every_kind(labels: list[Any], states: tuple[Any, ...]) -> None:
    assert from_table({"state": labels}).states == states


def test_numbers_in_text_files_are_numbers(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("state\n10\n9\n10\n")
    assert from_table(file).states == (9, 10)
    file.write_text("state\n010\n9\n010\n")  # not how a number is written: an identifier
    assert from_table(file).states == ("010", "9")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("state;row\na;1\nb;2\na;3\n", {}),
        ("state|row\na|1\nb|2\na|3\n", {"delimiter": "|"}),
        ("\ufeffstate,row\r\na,1\r\nb,2\r\na,3\r\n", {}),
        ('"state",row\n"a",1\nb,2\na,3', {}),
    ],
)
def test_csv_dialects(text: str, options: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(text.encode())
    assert counts(from_table(file, state="state", **options)) == [[0, 1], [1, 0]]  # type: ignore[arg-type]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252"])
def test_encodings(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes("state\ncafé\nthé\ncafé\n".encode(encoding))
    assert from_table(file, encoding=encoding).states == ("café", "thé")


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(TypeError, match="data: found list"):
        from_table([1, 2, 3])


def test_integer_and_text_sequences_agree() -> None:
    rng = np.random.default_rng(1)
    q, s = rng.integers(0, 30, 400), rng.integers(0, 4, 400)
    whole = from_table({"sequence": q, "state": s})
    text = from_table({"sequence": [str(v) for v in q], "state": s})
    assert counts(whole) == counts(text)
    assert whole.n_episodes == text.n_episodes


def test_uniform_bins_over_all_numbers() -> None:
    found = from_table({"v": [-1.5e308, 1.5e308, 1.0, -1.0]}, state="v", bins=3, binning="uniform")
    assert found.n_states == 3
