"""One table, many processes: rows go to the group that a column names."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import somcot
from somcot.plumbing.errors import DataWarning
from somcot.readers import from_table, split_periods, split_table
from tests.notes import code_of, noted


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 600
    return pd.DataFrame({
        "week": rng.choice(["a", "b", "c"], n), "user": rng.integers(0, 9, n), "t": rng.permutation(n),
        "page": rng.choice(["x", "y", "z"], n), "gain": rng.random(n),
    })  # fmt: skip


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet", "jsonl"])
def test_each_group_is_what_reading_its_rows_alone_gives(kind: str, log: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / f"log.{kind}"
    source: object = path
    if kind == "frame":
        source = log
    elif kind == "csv":
        log.to_csv(path, index=False)
    elif kind == "parquet":
        log.to_parquet(path)
    else:
        log.to_json(path, orient="records", lines=True)
    options: dict[str, Any] = {"sequence": "user", "time": "t", "state": "page", "reward": "gain"}
    rows = log.sort_values(["user", "t"])
    changes = (rows.week != rows.week.shift()) | (rows.user != rows.user.shift())
    pieces = rows.assign(piece=changes.cumsum())  # a sequence is split where its week changes
    n_cut = int(pieces.piece.nunique() - log.user.nunique())
    with noted("groups-cut", n=n_cut), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(sorted by time|single row)")
        found = split_table(source, "week", **options)
    assert list(found) == ["a", "b", "c"]
    for week, samples in found.items():
        with noted("mostly-single-rows", column="piece"):
            alone = from_table(pieces[pieces.week == week], **(options | {"sequence": "piece"}))
        assert samples.states == ("x", "y", "z")
        assert np.array_equal(samples.counts(), alone.counts())
        assert samples.n_episodes == alone.n_episodes
        assert samples.features == pytest.approx(alone.features)


def test_all_groups_have_the_states_of_all() -> None:
    table = {"g": [1, 1, 2, 2], "q": [1, 1, 2, 2], "s": ["x", "y", "y", "z"]}
    found = split_table(table, "g", state="s", sequence="q", least=1)
    assert found[1].states == found[2].states == ("x", "y", "z")
    matrix = somcot.distance_matrix(found, discount=0.5, method="plugin")
    assert np.isfinite(matrix.values).all()


def test_small_groups_are_listed_and_left_out(log: pd.DataFrame) -> None:
    more = pd.concat([log, pd.DataFrame({"week": ["d", "d", "e"], "user": 1, "t": [1, 2, 3], "page": "x"})])
    left = "d (1), e (0) (sequences are split where 'week' changes)"
    with noted("groups-left-out", n=2, least=20, groups=left), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(single row|within a sequence)")
        assert list(split_table(more, "week", sequence="user", state="page", least=20)) == ["a", "b", "c"]


def test_what_cannot_be_parted_is_refused(log: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"no column 'decade'.*weekday, hour; .*week, user"):
        split_table(log, "decade", state="page")
    with pytest.raises(ValueError, match=r"a month is cut out of times.*week, user"):
        split_table(log, "month", state="page")
    used = {"step": ["a", "b"], "date": [1, 1], "opened": ["2026-05-01", "2026-05-02"]}
    for state in ("step", ["step"]):  # a column with another role is not the time, whatever its name
        with pytest.raises(ValueError, match=r"a month is cut out of times.* one of: opened \(") as error:
            split_table(used, "month", state=state, sequence="date")
        assert code_of(error) == "period-without-times"
    for state in ("page", ["page"]):
        with pytest.raises(ValueError, match="by: 'page' is the state"):
            split_table(log, "page", state=state)
    with (
        pytest.raises(ValueError, match="no value of 'week' has 10000 transitions"),
        pytest.warns(DataWarning) as notes,
    ):
        split_table(log, "week", state="page", least=10_000)
    # The column of the groups is not proposed for the sequences.
    assert "'user', 't', 'gain'" in str(notes[0].message)
    holes = log.copy()
    holes.loc[4, "week"] = None
    with pytest.raises(ValueError, match="row 5 has no 'week'"):
        split_table(holes, "week", state="page", sequence="user")


def test_messages_call_periods_as_they_were_asked_for() -> None:
    times = ["2026-05-04", "2026-05-05", "2026-05-06", "2026-05-11", "2026-05-12"]
    log = {"time": times, "user": [1, 1, 2, 3, 3], "state": list("ababa")}
    with noted("single-rows", share=(1, 3)):
        split_periods(log, "week", sequence="user", least=1)


CASES = {
    "case": ["x", "x", "x", "y", "y", "z", "z"],
    "time": ["2026-01-30", "2026-01-31", "2026-02-02", "2026-02-03", "2026-02-05", "2026-01-01", "2026-01-05"],
    "state": list("abcabab"),
}


def steps(samples: somcot.Samples) -> list[str]:
    return sorted(
        f"{samples.states[i]}{samples.states[j]}" for i, j in zip(samples.now, samples.following, strict=True)
    )


def test_a_sequence_belongs_to_the_period_in_which_it_starts() -> None:
    """Case x goes on in February: all of it is January's, and nothing ends where the month does."""
    found = split_periods(CASES, "month", sequence="case", least=1)
    assert {month: steps(samples) for month, samples in found.items()} == {
        "2026-01": ["ab", "ab", "bc"], "2026-02": ["ab"],
    }  # fmt: skip
    found = split_periods(CASES, "month", sequence="case", least=1, end="!")
    assert steps(found["2026-01"]) == ["ab", "ab", "b!", "bc", "c!"]
    table = {**CASES, "release": [1, 2, 2, 2, 2, 1, 1]}
    found = split_periods(table, "release", sequence="case", least=1)
    assert {release: steps(samples) for release, samples in found.items()} == {1: ["ab", "ab", "bc"], 2: ["ab"]}


def test_pauses_end_sequences_before_periods_are_formed() -> None:
    """The third event of x comes two days later: a sequence of its own, in February."""
    later = {
        "case": [*CASES["case"], "x"], "time": [*CASES["time"], "2026-02-02T06:00"], "state": [*CASES["state"], "d"],
    }  # fmt: skip
    with pytest.warns(DataWarning):
        found = split_periods(later, "month", sequence="case", least=1, gap="1d")
    assert {month: steps(samples) for month, samples in found.items()} == {"2026-01": ["ab"], "2026-02": ["cd"]}


def test_a_table_without_sequences_is_cut_and_never_ended() -> None:
    table = {"time": CASES["time"], "state": CASES["state"]}
    with pytest.warns(DataWarning):
        found = split_periods(table, "month", least=1)
    assert {month: len(steps(samples)) for month, samples in found.items()} == {"2026-01": 3, "2026-02": 2}
    with pytest.raises(ValueError, match=r"end: .* is one sequence"):
        split_periods(table, "month", least=1, end="closed")


def test_groups_may_join_values() -> None:
    table = {"g": list("aabbaaccdd"), "q": [1, 1, 1, 1, 1, 1, 2, 2, 3, 3], "s": list("xyyxxyxxzz")}
    options: dict[str, Any] = {"state": "s", "sequence": "q", "least": 1}
    with pytest.warns(DataWarning, match="2 time"):
        apart = split_table(table, "g", groups=["a", "b"], **options)
    assert {label: s.n_transitions for label, s in apart.items()} == {"a": 2, "b": 1}
    # No step is lost between values of one group, and states of other groups are left out.
    for groups in (["a,b", "c"], {"a,b": ["a", "b"], "c": "c"}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            joined = split_table(table, "g", groups=groups, **options)
        assert {label: s.n_transitions for label, s in joined.items()} == {"a,b": 5, "c": 1}
        assert joined["c"].states == ("x", "y")
    # Values that are not text keep their label.
    assert list(split_table({**table, "g": [1, 1, 1, 1, 1, 1, 2, 2, 3, 3]}, "g", groups=[3, 1], **options)) == [3, 1]
    for wrong, message in (
        (["a", "e"], "'e'.*'a', 'b', 'c', 'd'"),
        ({"one": ["a"], "two": ["a"]}, "'a' is in 'one' and in 'two'"),
        ({"one": []}, "'one' has no value"),
        ([], "found none"),
        (["a", "a"], "twice"),
    ):
        with pytest.raises(ValueError, match=message):
            split_table(table, "g", groups=wrong, **options)
    with pytest.raises(TypeError, match="groups"):
        split_table(table, "g", groups="a,b", **options)
    cut = r"c has 1 transitions \(sequences are split where 'g' changes\), expected at least 2"
    with pytest.raises(ValueError, match=cut), pytest.warns(DataWarning):
        split_table(table, "g", groups=["a", "c"], **options | {"least": 2})


def test_periods_that_no_sequence_starts_in_are_explained() -> None:
    days = ["2026-01-01", "2026-01-02", "2026-02-01", "2026-02-02"]
    table = {"time": days, "state": list("abab"), "user": [1, 1, 1, 1]}
    left = "2026-02 (0) (sequences belong to the period in which they start)"
    with noted("groups-left-out", n=1, least=1, groups=left):
        assert list(split_table(table, "month", sequence="user", least=1)) == ["2026-01"]
    assert list(split_table(table, "month", sequence="user", least=1, gap="9d")) == ["2026-01", "2026-02"]


def test_quarters_and_years() -> None:
    times = ["2025-12-31", "2026-01-01", "2026-03-31", "2026-04-01", "2026-04-02", "2026-04-02T23:59"]
    table = {"time": times, "state": list("ababab"), "sequence": [1, 1, 2, 2, 3, 3]}
    found = {by: split_table(table, by, least=1) for by in ("quarter", "year")}
    assert {label: s.n_episodes for label, s in found["quarter"].items()} == {"2025-Q4": 1, "2026-Q1": 1, "2026-Q2": 1}
    assert {label: s.n_episodes for label, s in found["year"].items()} == {"2025": 1, "2026": 2}


@pytest.mark.filterwarnings("ignore::somcot.plumbing.errors.DataWarning")
def test_what_one_event_of_a_case_tells_holds_for_all_of_it() -> None:
    """As in event logs whose first event describes the case; against pandas, with rows in any order and two holes."""
    rng = np.random.default_rng(4)
    n = 400
    frame = pd.DataFrame(
        {"case": rng.integers(0, 60, n), "time": rng.permutation(n), "state": rng.choice(list("abc"), n)}
    )
    kind = pd.Series(rng.choice(["x", "y", "z"], 60))
    known = rng.random(n) < 0.3
    known[frame.drop_duplicates("case").index] = True
    frame["kind"] = frame.case.map(kind).where(known, None)
    frame["full"] = frame.case.map(kind)
    options: dict[str, Any] = {"sequence": "case", "time": "time", "state": "state", "least": 1}
    partly, full = (split_table(frame, name, **options) for name in ("kind", "full"))
    for read in (split_periods, split_table):
        assert {k: steps(s) for k, s in read(frame, "kind", **options).items()} == {
            k: steps(s) for k, s in read(frame, "full", **options).items()
        }
    attributes = [
        from_table(frame, sequence="case", time="time", state="state", attributes=[name]).episode_attributes[name]
        for name in ("kind", "full")
    ]
    assert list(partly) == list(full) == ["x", "y", "z"]
    assert attributes[0].tolist() == attributes[1].tolist()
    # Two values, or none: nothing is guessed.
    torn = frame[frame.case == frame.case[0]].copy()
    for values in ([None] * len(torn), ["x", None, "y", *["x"] * (len(torn) - 3)]):
        torn["kind"] = values
        with pytest.raises(ValueError, match=r"has no 'kind'; fill it in"):
            split_table(torn, "kind", **options)
    # Without sequences, a row without a group is an error as before.
    with pytest.raises(ValueError, match=r"has no 'kind'"):
        split_table({"state": list("aab"), "time": [1, 2, 3], "kind": ["x", None, "x"]}, "kind", least=1)
