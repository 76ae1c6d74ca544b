"""Times as logs write them, and periods of them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from somcot.readers import from_table, split_table
from somcot.readers.tables.numbers_and_times import NumberColumn, epoch_unit, to_iso
from tests.notes import code_of, noted

NOTATIONS = {
    "iso": "2014-10-{d:02d} 11:15:4{s}.250",
    "slashes": "2014/10/{d:02d} 11:15:4{s}.250",
    "words": "2014-10-{d:02d} 11:15:4{s}.25 UTC",
    "short": "2014/10/{d} 11:15:4{s}.25",
    "apache": "{d:02d}/Oct/2014:11:15:4{s} +0000",
    "brackets": "[{d:02d}/Oct/2014:11:15:4{s} +0000]",
    "american": "10/{d}/2014 11:15:4{s} AM",
    "british": "{d}/10/2014 11:15:4{s}",
    "dotted": "{d}.10.2014 11:15:4{s}",
    "mail": "Wed, {d:02d} Oct 2014 11:15:4{s} GMT",
    "unix": "Wed Oct {d:2d} 11:15:4{s} 2014",
    "unix in brackets": "[Wed Oct {d:02d} 11:15:4{s}.250 2014]",
    "unix with a zone": "Wed Oct {d:02d} 11:15:4{s} UTC 2014",
    "unix with an offset": "Wed Oct {d:02d} 13:15:4{s} +0200 2014",
    "spelled": "Oct {d}, 2014 11:15:4{s} AM",
    "spelled out": "Wednesday, October {d}, 2014, 11:15:4{s}",
    "hours of a zone": "2014/10/{d:02d} 13:15:4{s} +02",
}


def seconds(texts: list[str], **options: Any) -> list[float]:
    column = NumberColumn("log.csv", "t", times=True, **options)
    for text in texts:  # a batch for each
        column.add([text])
    found: list[float] = (column.finish() / 1e6).tolist()
    assert column.holds_times
    return found


@pytest.mark.parametrize("name", NOTATIONS)
def test_usual_notations(name: str, tmp_path: Path) -> None:
    texts = [NOTATIONS[name].format(d=d, s=s) for d, s in ((3, 1), (22, 0), (22, 5))]
    found = seconds(texts)
    base = np.datetime64("2014-10-01T11:15:40").astype("datetime64[s]").astype(int)
    expected = base + np.array([2 * 86400 + 1, 21 * 86400, 21 * 86400 + 5])
    fraction = 0.25 if ".25" in NOTATIONS[name] else 0.0
    assert found == pytest.approx(expected + fraction)
    rows = "".join(f'"{text}",{state}\n' for text, state in zip(reversed(texts), "abc", strict=True))
    (tmp_path / "t.csv").write_text("time,state\n" + rows)
    with noted("rows-sorted"):
        samples = from_table(tmp_path / "t.csv")
    assert np.asarray(samples.counts()).tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]


def test_errors_name_what_would_help() -> None:
    for given, other in (("month-first", "day-first"), ("day-first", "month-first")):
        text = "16/06/2025 10:46" if given == "month-first" else "06/16/2025 10:46"
        with pytest.raises(ValueError, match=f"correct the row, or the column is {other}: time_format='{other}'$"):
            seconds([text], time_format=given)
        with pytest.raises(ValueError, match=r"correct the row$"):
            seconds(["16/16/2025 10:46"], time_format=given)
    with pytest.raises(ValueError, match=r"correct the row$"):  # other rows prove the order
        seconds(["16/06/2025 10:46", "06/16/2025 10:46"])
    with pytest.raises(ValueError, match=r"found 'Reassigned'.*name the column of times: time='COLUMN'"):
        seconds(["Reassigned"])
    with pytest.raises(ValueError, match="name the notation"):
        seconds(["10h46"])
    for clock in ("06:55:46", "18:01:47,978", "9:30 PM"):
        with pytest.raises(ValueError, match=r"a time without its date.*time='file'"):
            seconds([clock])
    for zone in ("CET", "Europe/Berlin", "[America/New_York]"):
        with pytest.raises(ValueError, match=r"write an offset such as \+01:00"):
            seconds([f"2014-10-22 11:15:41 {zone}"])
    with pytest.raises(ValueError, match="found '2014/10/22 11:15:41 CET'"):  # as in the file
        from_table(pa.table({"time": ["2014/10/22 11:15:41 CET"] * 2, "state": ["a", "b"]}))
    # A column that names the sequences cannot be the time too, whatever its name.
    named = {"step": list("aabb"), "page": list("xyxy")}
    assert from_table(named, sequence="step", state="page").n_episodes == 2


def test_the_order_of_day_and_month_is_asked_only_if_nothing_tells() -> None:
    assert seconds(["3/4/2026", "13/4/2026"]) == seconds(["2026-04-03", "2026-04-13"])
    assert seconds(["3/4/2026", "4/13/2026"]) == seconds(["2026-03-04", "2026-04-13"])
    assert seconds(["3/4/2026", "5/6/2026"], time_format="day-first") == seconds(["2026-04-03", "2026-06-05"])
    with pytest.raises(ValueError, match="3/4/2026") as error:
        seconds(["3/4/2026", "5/6/2026"])
    assert code_of(error) == "day-or-month"
    with pytest.raises(ValueError, match=r"row 2.*14/4/2026|14/4/2026"):
        seconds(["4/13/2026", "14/4/2026"])


def test_formats_and_units() -> None:
    assert seconds(["7h30 04|05|2026"], time_format="%Hh%M %d|%m|%Y") == seconds(["2026-05-04 07:30"])
    assert seconds([1_700_000_000_500], time_format="ms") == [1_700_000_000.5]  # type: ignore[list-item]
    with pytest.raises(ValueError, match="time_format: found 'weeks'"):
        from_table({"time": [1, 2], "state": ["a", "b"]}, time_format="weeks")
    with pytest.raises(ValueError, match="expected a time of the form '%Y'"):
        seconds(["May"], time_format="%Y")
    assert to_iso("13.13.2026") is None
    assert to_iso("2026-05-01 13:00 PM") is None


@pytest.mark.parametrize("unit", [1, 1000, 1_000_000, 1_000_000_000])
def test_numbers_since_1970_have_periods(unit: int) -> None:
    day = 86_400 * unit
    times = [1_777_593_600 * unit + k * day // 2 for k in range(40)]
    log = {"time": times, "state": ["a", "b"] * 20}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        days = split_table(log, "day", least=1)
    assert list(days)[:2] == ["2026-05-01", "2026-05-02"]
    assert any(getattr(w.message.args[0], "code", None) == "epoch-times" for w in found)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="plain numbers") as error:
        split_table({"time": [1, 2, 3], "state": list("aba")}, "day", least=1)
    assert code_of(error) == "no-periods"


def test_named_periods_are_in_order() -> None:
    times = [f"2026-05-{1 + k // 24:02d} {k % 24:02d}:00" for k in range(24 * 14)]
    log = {"time": times, "state": ["a", "b"] * (12 * 14)}
    with noted("groups-cut", by="'weekday'", n=13):
        weekdays = split_table(log, "weekday")
    assert list(weekdays) == ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    assert {s.n_transitions for s in weekdays.values()} == {46}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(split_table(log, "week")) == ["2026-W18", "2026-W19", "2026-W20"]
        with pytest.raises(ValueError, match=r"no step|no value of 'hour'"):
            split_table(log, "hour")
    log["hour"] = ["x"] * (24 * 14)
    assert list(split_table(log, "hour")) == ["x"]  # a column takes precedence


def test_a_group_that_changes_splits_the_sequence_and_ends_nothing() -> None:
    """The rows between would otherwise vanish, which invents steps and ends."""
    log = {"case": [1] * 5, "group": list("xxyxx"), "state": list("abcba")}
    with noted("groups-cut", n=2), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(single row|left out)")
        found = split_table(log, "group", sequence="case", end="closed", least=1)
    assert list(found) == ["x"]  # the single row of y has no step
    x = found["x"]
    pairs = {(x.states[i], x.states[j]) for i, j in np.argwhere(np.asarray(x.counts()) > 0)}
    assert pairs == {("a", "b"), ("b", "a"), ("a", "closed")}  # neither b -> b nor b -> closed


def test_units_of_numbers_since_1970() -> None:
    """From 1973 on, when none of the units can be taken for another."""
    for unit, scale in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        assert epoch_unit(np.array([10**8 * scale, 10**10 * scale - scale])) == unit
        assert epoch_unit(np.array([10**8 * scale - scale, 10**8 * scale])) is None
        assert epoch_unit(np.array([10**8 * scale, 10**10 * scale])) is None
