"""Real logs: no row for the end, pauses between visits, three spellings of one page, many rare ones, folders."""

from __future__ import annotations

import datetime as dt
import gzip
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import somcot
from somcot import Samples
from somcot.plumbing.errors import DataWarning
from somcot.readers import fit_bins, from_table, join_rare, read, tidy_labels
from tests.notes import code_of, codes, noted, notes_in

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")

labels = st.sampled_from("abc")


def counts(samples: Any) -> list[list[int]]:
    found: list[list[int]] = np.asarray(samples.counts()).tolist()
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(labels, min_size=1, max_size=5), min_size=1, max_size=6))
def test_an_end_is_one_more_state_of_every_sequence(trajectories: list[list[str]]) -> None:
    """The same as appending it by hand, as a table and as trajectories."""
    by_hand = Samples.from_trajectories([[*t, "z"] for t in trajectories], terminated=True)
    found = Samples.from_trajectories(trajectories, end="z")
    rows = [(i, label) for i, t in enumerate(trajectories) for label in t]
    frame = {"sequence": [i for i, _ in rows], "state": [label for _, label in rows]}
    for samples in (found, from_table(frame, end="z")):
        assert samples.states == by_hand.states
        assert counts(samples) == counts(by_hand)
        assert samples.start_counts.tolist() == by_hand.start_counts.tolist()
        assert samples.terminal.tolist() == by_hand.terminal.tolist()
        assert samples.terminated is not None
        assert samples.terminated.all()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing to note: everybody leaves in the end
            samples.chain()


def test_only_those_that_ended_get_an_end() -> None:
    found = Samples.from_trajectories([[1, 2], [2, 1, 2], [1]], terminated=[True, False, True], end="over")
    assert found.states == (1, 2, "over")
    assert counts(found) == [[0, 2, 1], [1, 0, 1], [0, 0, 0]]
    assert found.terminated is not None
    assert found.terminated.tolist() == [True, False, True]
    frame = {"sequence": [0, 0, 1, 1, 1, 2], "state": [1, 2, 2, 1, 2, 1], "done": [0, 1, 0, 0, 0, 1]}
    table = from_table(frame, terminated="done", end="over")
    assert (table.states, counts(table)) == (found.states, counts(found))
    with noted("short-trajectories", share=(1, 2)):
        Samples.from_trajectories([[1, 2], [1]], terminated=[True, False], end="over")
    with noted("short-trajectories", share=(1, 2)):
        assert Samples.from_trajectories([[1], []], end="over").n_episodes == 1


def test_rewards_and_missing_rows_with_an_end() -> None:
    frame = {"sequence": [0, 0, 0, 1], "state": ["a", None, "b", "a"], "gain": [1.0, 2.0, 3.0, 5.0]}
    with noted("rows-removed", n=1, cuts=1), noted("single-rows", share=(1, 3)):  # cut off, so it did not end there
        found = from_table(frame, missing="cut", reward="gain", end="z")
    assert counts(found) == [[0, 0, 1], [0, 0, 1], [0, 0, 0]]
    assert found.features is not None
    assert found.features.tolist() == [3.0, 3.0, 0.0]
    rewarded = Samples.from_trajectories([["a", "b"]], rewards=[[1.0, 2.0]], end="z")
    assert rewarded.features is not None
    assert rewarded.features.tolist() == [1.0, 2.0, 0.0]


def test_a_sequence_that_was_cut_did_not_end() -> None:
    frame = {"state": ["a", "b", None, "a", "b"]}
    with noted("rows-removed", n=1, cuts=1):
        found = from_table(frame, missing="cut", terminated=True)
    assert found.terminated is not None
    assert found.terminated.tolist() == [False, True]


@pytest.mark.parametrize(
    ("end", "error"), [("a", "already"), ("1", "look the same"), (None, None), (float("nan"), "NaN")]
)
def test_ends_that_are_none(end: Any, error: str | None) -> None:
    rows: list[Any] = ["a", 1, "a"] if end != "a" else ["a", "b", "a"]
    if error is None:
        assert Samples.from_trajectories([["a", "b"]], end=end).n_states == 2
        return
    with pytest.raises((ValueError, TypeError), match=error):
        Samples.from_trajectories([rows], end=end)
    with pytest.raises((ValueError, TypeError), match=error):
        from_table({"state": [r for r in rows if isinstance(r, str)] if error == "already" else [1, 2]}, end=end)


def test_notes_on_ends_do_not_go_round_in_circles() -> None:
    """Following each note leads to data without notes."""
    logs = [["home", "cart", "paid"], ["home", "cart"], ["home", "home"]]
    with noted("never-left-open", somcot.UnseenStateWarning):
        Samples.from_trajectories(logs).chain()
    with noted("ended-but-left"):
        Samples.from_trajectories(logs, terminated=True).chain()
    closed = [["home", "left"], ["home", "cart", "left"]]
    with noted("never-left", somcot.UnseenStateWarning):
        Samples.from_trajectories(closed).chain()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Samples.from_trajectories(logs, end="left").chain()
        Samples.from_trajectories(closed, terminated=True).chain()


MOMENTS = ["2026-05-01T10:00:00", "2026-05-01T10:30:00", "2026-05-01T11:00:01", "2026-05-01T11:00:02"]


@pytest.mark.parametrize(
    "gap",
    [
        "30m",
        "1800s",
        "0.5h",
        " 30 M ",
        "30min",
        "30 minutes",
        "0.5 hours",
        dt.timedelta(minutes=30),
        np.timedelta64(30, "m"),
    ],
)
@pytest.mark.parametrize("kind", ["text", "times", "zoned", "days"])
def test_a_longer_pause_cuts(gap: Any, kind: str) -> None:
    """Exactly 30 minutes do not cut, one second more does."""
    times: Any = MOMENTS
    if kind == "times":
        times = [dt.datetime.fromisoformat(m) for m in MOMENTS]
    if kind == "zoned":
        times = [f"{m}+02:00" for m in MOMENTS]
    if kind == "days":
        times = pa.array([0, 1800, 3601, 3602], pa.duration("s"))
    samples = from_table({"time": times, "state": ["a", "b", "c", "d"]}, gap=gap)
    assert samples.offsets is not None
    assert samples.offsets.tolist() == [0, 1, 2]


def test_gaps_in_plain_numbers() -> None:
    frame = {"sequence": [0, 0, 0, 1, 1], "time": [0, 10, 21, 22, 30], "state": list("abcab")}
    assert from_table(frame, gap=10, end="z").n_episodes == 3
    wide = {"time": [-(2**63), 0, 2**63 - 1], "state": list("aba")}
    with pytest.raises(ValueError, match="no sequence has two rows"):
        from_table(wide, gap="1000")
    floats = {"time": [0.0, 0.5, 2.0], "state": list("aba")}
    assert from_table(floats, gap=0.5, end="z").n_episodes == 2


@pytest.mark.parametrize(
    "gap",
    [
        "30 months",
        "30 ss",
        "m",
        "",
        "-5m",
        "0s",
        0,
        -1,
        float("nan"),
        float("inf"),
        True,
        [3],
        "1e400d",
        "9" * 400 + "d",
    ],
)
def test_gaps_that_are_none(gap: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="gap: found"):
        from_table({"time": [0, 1], "state": ["a", "b"]}, gap=gap)


def test_gaps_of_the_wrong_kind() -> None:
    with pytest.raises(ValueError, match=r"'time' holds numbers.*gap.* 1800 "):
        from_table({"time": [0, 1], "state": ["a", "b"]}, gap="30m")
    with pytest.raises(ValueError, match=r"'time' holds times.*gap.* 30;.*30s"):
        from_table({"time": MOMENTS[:2], "state": ["a", "b"]}, gap=30)
    with pytest.raises(ValueError, match=r"gap .*no column holds times"):
        from_table({"state": ["a", "b"]}, gap=30)


@pytest.mark.parametrize("kind", ["file", "list"])
def test_dates_with_dots_are_day_month_year(kind: str, tmp_path: Path) -> None:
    times = ["9.5.2026 16:27", "10.04.2026 08:00:30", "9.5.2026 09:05"]
    table: Any = {"t": times, "s": ["c", "a", "b"]}
    if kind == "file":
        table = tmp_path / "log.csv"
        table.write_text("t;s\n" + "".join(f"{t};{s}\n" for t, s in zip(times, "cab", strict=True)))
    with noted("rows-sorted"):
        found = from_table(table, time="t", state="s")
    assert counts(found) == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    with pytest.raises(ValueError, match=r"found '40\.5\.2026'"):
        from_table({"t": ["40.5.2026"], "s": ["a"]}, time="t", state="s")
    with pytest.raises(ValueError, match=r"dates such as 05/06/2026 .*time_format='day-first'"):
        from_table({"t": ["05/06/2026 12:00"], "s": ["a"]}, time="t", state="s")


def test_rows_that_came_twice_are_told_from_other_ties() -> None:
    log = {"t": [1, 1, 2, 2, 3], "s": ["a", "a", "b", "c", "a"]}
    with noted("equal-times-copies", n=2, copies=1):
        from_table(log, time="t", state="s")
    with pytest.warns(DataWarning) as found:
        from_table({"t": [1, 1], "s": ["a", "b"]}, time="t", state="s")
    assert codes(found)[0] == "equal-times"


def test_letters_with_marks_in_two_encodings_are_noted_and_tidied() -> None:
    composed, parts = "caf\u00e9", "cafe\u0301"  # look the same
    rows = {"page": [composed, "home", parts, "home", parts]}
    how = "case, blanks or how letters with marks are encoded (Unicode NFC or NFD, which look the same)"
    with noted("spellings", n=2, how=how):
        assert from_table(rows, state="page").n_states == 3
    assert from_table(rows, state="page", tidy=True).states == (composed, "home")
    with noted("spellings", how="case or blanks", states="'CAFE', 'cafe'"):
        from_table({"page": ["cafe", "CAFE", "home"]}, state="page")


def test_spellings_are_noted_and_tidied() -> None:
    frame = {"state": ["Home", " home", "HOME", "cart", "Home", "big  cart", "Big cart"]}
    with noted("spellings", n=5, how="case or blanks"):
        from_table(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        samples = from_table(frame, tidy=True)
    assert set(samples.states) == {"Home", "cart", "Big cart"}
    assert samples.n_transitions == 6
    a, b = Samples.from_trajectories([["A", "b", "A"]]), Samples.from_trajectories([["a", "B"], ["a", "B"], ["a", "b"]])
    assert [set(s.states) for s in tidy_labels([a, b])] == [{"a", "B"}, {"a", "B"}]
    pairs = from_table({"u": ["A ", "a"], "v": [1, 1]}, state=["u", "v"], tidy=True)
    assert pairs.states == (("A", 1),)


def test_rare_states_are_joined_over_both_sides() -> None:
    a = Samples.from_trajectories([["home", "x1", "home", "x2", "left"]], terminated=True)
    b = Samples.from_trajectories([["cart", "cart", "x3", "cart", "left"]], terminated=True)
    x, y = join_rare([a, b], 2)
    assert set(x.states) == {"home", "other", "left"}  # the end is kept beside the two
    assert set(y.states) == {"cart", "other", "left"}
    assert x.terminal[x.states.index("left")]
    assert from_table({"state": list("aaabac")}, top=1, other="rest").states == ("a", "rest")
    assert join_rare([a], 99)[0] is a
    with pytest.raises(ValueError, match="other: 'home'"):
        join_rare([a, b], 2, other="home")
    with pytest.raises(ValueError, match="top: found 0"):
        join_rare([a], 0)


def test_joined_states_keep_rewards_and_starts() -> None:
    samples = Samples.from_trajectories(
        [["a", "b", "c"], ["b", "a", "c"]], rewards=[[1, 2, 9], [4, 6, 9]], initial={"a": 0.25, "b": 0.75}
    )
    joined = samples.relabel({"b": "a"})
    assert joined.initial is not None
    assert joined.initial.tolist() == [1.0, 0.0]
    again = Samples.from_trajectories([["a", "a", "c"], ["a", "a", "c"]], rewards=[[1, 2, 9], [4, 6, 9]])
    assert joined.rewards is not None
    assert again.rewards is not None
    np.testing.assert_allclose(joined.rewards, again.rewards)
    with pytest.raises(ValueError, match="names: label 0 is"):
        samples.relabel({"a": float("nan")})


FRAME: dict[str, list[Any]] = {"sequence": [1, 1, 2, 2, 2], "time": [0, 1, 0, 1, 2], "state": list("abaab")}
WANTED = Samples.from_trajectories([["a", "b"], ["a", "a", "b"]])


def frames(folder: Path) -> dict[str, Any]:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    table = pa.table(FRAME)
    (folder / "d").mkdir()
    pq.write_table(table, folder / "d" / "p.parquet")
    odd = pd.DataFrame(FRAME).assign(junk=[1, "x", None, {}, []])  # Arrow could not convert the column nobody asks for
    return {
        "pandas with a column of anything": odd,
        "filtered pandas": pd.DataFrame(FRAME)[lambda f: f.time >= 0]
        .sample(frac=1, random_state=1)
        .sort_values("time"),
        "lazy": pl.LazyFrame(FRAME).with_columns(junk=pl.lit(1)),
        "scanned": pl.scan_parquet(folder / "d" / "p.parquet"),
        "dataset": ds.dataset(folder / "d"),
        "reader": table.to_reader(max_chunksize=2),
        "record batch": table.to_batches()[0],
        "folder": folder / "d",
    }


def test_whatever_holds_columns(tmp_path: Path) -> None:
    for name, data in frames(tmp_path).items():
        samples = from_table(data)
        assert (samples.states, counts(samples)) == (WANTED.states, counts(WANTED)), name


def test_a_duckdb_relation(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    pq.write_table(pa.table(FRAME), tmp_path / "p.parquet")
    relation = duckdb.sql(f"SELECT * FROM '{tmp_path / 'p.parquet'}' WHERE time >= 0")
    assert counts(from_table(relation)) == counts(WANTED)


def partitioned(folder: Path) -> Path:
    root = folder / "clicks"
    for month, state in (("may", "a"), ("june", "b")):
        part = root / f"month={month}" / "shop=S%C3%BCd"
        part.mkdir(parents=True)
        (part / "part-0.csv").write_text(f"user,page\n1,{state}\n1,c\n")
        (part / "part-1.csv.gz").write_bytes(gzip.compress(f"page,user\nc,2\n{state},2\n".encode()))
    (root / "_SUCCESS").touch()
    (root / ".part.csv.crc").write_text("x")
    return root


def test_a_folder_is_one_table(tmp_path: Path) -> None:
    root = partitioned(tmp_path)
    samples = from_table(root, sequence="user", state="page")
    assert samples.states == ("a", "b", "c")
    assert samples.n_transitions == 6
    months = from_table(root, sequence="month", state=["shop", "page"])
    assert months.states == (("Süd", "a"), ("Süd", "b"), ("Süd", "c"))
    assert read(root, sequence="month", state="month").states == ("june", "may")
    numbers = tmp_path / "numbers"
    numbers.mkdir()
    for k in (0, 10):
        (numbers / f"{k}.csv").write_text(f"speed\n{k}\n{k + 1}\n")
    assert fit_bins([numbers], {"speed": 2}, binning="uniform")["speed"].tolist() == [5.5]


def test_folders_that_are_no_table(tmp_path: Path) -> None:
    root = partitioned(tmp_path)
    with pytest.raises(ValueError, match=r"clicks: .*no column 'side'.*'user', 'page', 'month', 'shop'"):
        from_table(root, state="side")
    (root / "month=may" / "z9.csv").write_text("user,page\n3,\n3,a\n")
    with pytest.raises(ValueError, match=r"z9\.csv: row 1 has no page"):
        from_table(root, sequence="user", state="page")
    with pytest.raises(ValueError, match=r"z9\.csv: no folder above it is called shop="):
        from_table(root, sequence="shop", state="page", missing="cut")
    (root / "month=may" / "z9.csv").write_text("user,side\n3,a\n")
    with pytest.raises(ValueError, match=r"z9\.csv: there is no single column 'page'"):
        from_table(root, sequence="user", state="page")
    (root / "x.parquet").touch()
    with pytest.raises(ValueError, match=r"a folder with both .*csv.* and x\.parquet"):
        from_table(root, state="page")
    with pytest.raises(ValueError, match=r"folder without tables.*\.csv"):
        read(_with_arrays(tmp_path))


def test_folders_are_not_walked_in_circles(tmp_path: Path) -> None:
    root = partitioned(tmp_path)
    (root / "again").symlink_to(root)
    assert from_table(root, sequence="user", state="page").n_transitions == 6


def _with_arrays(folder: Path) -> Path:
    (folder / "nothing").mkdir()
    (folder / "nothing" / "a.npy").touch()
    return folder / "nothing"


# --- The column of sequences

CLICKS = {"user": list("uuuvvvww"), "os": list("xxxxxxxx"), "page": list("abcabcab"), "time": list(range(8))}


def notes_of(data: object, **options: Any) -> list[str | None]:
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        from_table(data, **options)
    return [note.code for note in notes_in(recorded)]


def test_a_table_without_a_column_of_sequences_is_one_sequence_and_says_so() -> None:
    with noted("one-sequence", columns="'user', 'os'"), noted("columns-chosen"):
        assert from_table(CLICKS).n_episodes == 1
    with noted("one-sequence", columns="'user'"):
        from_table(CLICKS, state="page", time="time", attributes=["os"])
    # Nothing that could identify sequences: one recording.
    for silent in (
        {"state": list("aab")},
        {"state": list("aab"), "time": [1, 2, 3]},
        {"state": list("aab"), "Timestamp": [1, 2, 3], "event_time": [1, 2, 3], "activity": list("xyz")},
        {"Unnamed: 0": [0, 1, 2], "": [0, 1, 2], "reward": [0, 1, 2], "state": list("aab")},
    ):
        assert "one-sequence" not in notes_of(silent, state="state")
    assert notes_of(CLICKS, state="page", sequence="user") == []


@pytest.mark.parametrize(
    "names",
    [
        ("Case ID", "Activity", "Complete Timestamp"),
        ("CaseID", "ActivityID", "CompleteTimestamp"),
        ("_CASE_KEY", "ACTIVITY_EN", "EVENTTIME"),
        ("case_concept_name", "concept_name", "time_timestamp"),
        ("user_pseudo_id", "event_name", "event_timestamp"),
        ("visitorid", "event", "timestamp"),
        ("SessionId", "eventType", "createdAt"),
        ("Fall-ID", "Aktivität", "Zeitstempel"),
        ("id_caso", "Actividad", "Fecha hora"),
        ("ID cas", "Activite", "Horodatage"),
    ],
)
def test_usual_names_of_columns(names: tuple[str, str, str]) -> None:
    sequence, state, time = names
    log = {"other": [1, 2, 3, 4], sequence: [1, 1, 2, 2], state: list("bacb"), time: [2, 1, 3, 4]}
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        samples = from_table(log)
    assert (samples.n_episodes, samples.states) == (2, ("a", "b", "c"))
    assert samples.counts()[0, 1] == 1  # sorted by time
    (chosen,) = (note for note in notes_in(recorded) if note.code == "columns-chosen")
    assert chosen.values["columns"] == f"state {state!r}, sequence {sequence!r}, time {time!r}"


def test_a_session_is_preferred_to_its_visitor() -> None:
    log = {"visitor_id": [1, 1, 1, 1], "session_id": [1, 1, 2, 2], "event": list("abab")}
    with noted("columns-chosen"):
        assert from_table(log).n_episodes == 2


@pytest.mark.filterwarnings("ignore::somcot.plumbing.errors.DataWarning")  # on the columns that were chosen
def test_an_end_needs_a_column_of_sequences() -> None:
    """All rows were joined, and ended once: a distance without meaning, with an interval."""
    with pytest.raises(ValueError, match=r"^end: .* would be one.*one of 'user', 'os'$"):
        from_table(CLICKS, end="left")
    assert from_table(CLICKS, end="left", gap=1.5).n_episodes == 1
    assert from_table(CLICKS, state="page", sequence="user", end="left").n_episodes == 3
    # Nothing that could identify sequences: one recording, which may end.
    assert from_table({"state": list("aab")}, end="left").n_transitions == 3
    for name in ("Ticket ID", "order_id", "TicketID"):
        assert from_table({name: CLICKS["user"], "page": CLICKS["page"]}, end="left").n_episodes == 3


def test_a_wrong_column_of_sequences_is_noted() -> None:
    with noted("constant-sequence", column="os", columns="'user'"):
        assert from_table(CLICKS, state="page", sequence="os").n_episodes == 1
    # The only recording of a file has a name, and nothing else that could identify sequences.
    assert notes_of({"run": [7, 7, 7], "state": list("aab")}, sequence="run") == []
    with pytest.raises(ValueError, match=r"of 8 sequence\(s\) of column 'time'") as error:
        from_table(CLICKS, state="page", sequence="time")
    assert code_of(error) == "no-step"
    almost = CLICKS | {"time": [0, 0, *range(1, 7)]}
    with noted("mostly-single-rows", column="time", share=(6, 7)):
        from_table(almost, state="page", sequence="time")
    with noted("single-rows", share=(1, 4)):
        from_table({"user": list("uuvvwwx"), "page": list("abababa")}, state="page", sequence="user")
