"""Periods against a reference and against the one before."""

from __future__ import annotations

import csv
import json
import re
import warnings
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from typer.testing import CliRunner

import somcot
from somcot import Samples
from somcot.cli.application import app
from somcot.many.drift import holm
from somcot.plumbing.errors import DataWarning
from somcot.plumbing.notes import Note
from somcot.readers import split_periods, split_table

mpl.use("Agg")
CALM, CHANGED = somcot.random_walk(4, 0.5, stay=0.3), somcot.random_walk(4, 0.8, stay=0.3)
PAGES = ("home", "search", "item", "paid")


def weeks(n: int, change: int, n_sessions: int = 50, seed: int = 0) -> dict[str, Samples]:
    return {
        f"week {k}": (CALM if k < change else CHANGED).sample(n_sessions, 8, rng=np.random.default_rng([seed, k]))
        for k in range(1, n + 1)
    }


def test_a_change_is_found_where_it_is() -> None:
    found = somcot.drift(weeks(5, 4), discount=0.8)
    assert found.alarm
    assert {(c.period, c.against) for c in found.alarms} == {
        ("week 4", "week 1"), ("week 4", "week 3"), ("week 5", "week 1"),
    }  # fmt: skip
    assert [c.period for c in found.against_reference()] == ["week 2", "week 3", "week 4", "week 5"]
    assert [c.period for c in found.against_before()] == ["week 2", "week 3", "week 4", "week 5"]
    assert found.largest.distance == found.result.distance == max(c.distance for c in found.alarms)
    assert all(c.low <= c.distance <= c.high for c in found.changes)
    assert "It changed: 3 of 7 comparisons over 5 periods" in found.sentence()
    assert len(list(found.rows())) == 7
    assert "changed" in found._repr_html_()


def test_one_comparison_has_199_permutations() -> None:
    assert somcot.drift(weeks(2, 2), discount=0.8).largest.pvalue == 1 / 200


def test_single_comparisons_are_those_of_distance() -> None:
    data = weeks(3, 3)
    found = somcot.drift(data, discount=0.8, confidence=0.8)
    for change in found.changes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # too near to tell: what the test is there for
            one = somcot.distance(data[str(change.against)], data[str(change.period)], discount=0.8)
        assert change.distance == pytest.approx(one.distance, abs=0.05)  # other splits
    assert found.result.confidence_interval is not None
    assert found.result.confidence_interval.level == 0.8


def test_equal_seeds_equal_bits() -> None:
    one, two, other = (somcot.drift(weeks(3, 3), discount=0.8, rng=seed).changes for seed in (1, 1, 2))
    assert one == two != other


def test_no_change_is_shown_where_there_is_none() -> None:
    """At level 5 % one in twenty may ring; of these six at most two do, with a chance of 99.8 %."""
    rung = [somcot.drift(weeks(4, 9, 20, seed), discount=0.8, rng=seed).alarm for seed in range(6)]
    assert sum(rung) <= 2
    calm = somcot.drift(weeks(4, 9, 20, 1), discount=0.8)
    assert "No change shown over 4 periods" in calm.sentence()


@pytest.mark.statistical
@pytest.mark.slow
def test_false_alarms_keep_their_level() -> None:
    n = 300
    rung = sum(somcot.drift(weeks(4, 9, 15, 1000 + seed), discount=0.8, rng=seed).alarm for seed in range(n))
    assert rung <= 0.05 * n + 2 * np.sqrt(0.05 * 0.95 * n)


def test_holm_against_its_definition() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        pvalues = rng.random(6) ** 3
        order = np.argsort(pvalues)
        expected = [0.0] * 6
        for place, k in enumerate(order):
            expected[k] = min(1.0, max(pvalues[order[i]] * (6 - i) for i in range(place + 1)))
        np.testing.assert_allclose(holm(list(pvalues)), expected, rtol=1e-12)


def test_each_pair_is_compared_once() -> None:
    data = dict(zip("abc", weeks(3, 3).values(), strict=True))
    expected = {
        "a": [("b", "a"), ("c", "a"), ("c", "b")],
        "b": [("a", "b"), ("c", "b")],
        "c": [("a", "c"), ("b", "c"), ("b", "a")],
    }
    for reference, pairs in expected.items():
        found = somcot.drift(data, discount=0.8, reference=reference, n_permutations=19)
        assert [(c.period, c.against) for c in found.changes] == pairs
    found = somcot.drift(weeks(3, 3), discount=0.8, reference="week 2")
    assert {c.period for c in found.against_reference()} == {"week 1", "week 3"}
    assert len(found.against_before()) == 2


def test_notes_about_one_side_name_its_period() -> None:
    found = somcot.drift(weeks(3, 3, n_sessions=6), discount=0.8)
    about = {note.about for note in found.notes if isinstance(note, Note) and note.code == "few-visits"}
    assert about
    assert about <= set(found.periods)


def test_short_periods_are_listed_and_left_out() -> None:
    data = weeks(3, 9) | {"week 4": CALM.sample(2, 8, rng=0)}
    found = somcot.drift(data, discount=0.8)
    assert found.periods == ("week 1", "week 2", "week 3")
    assert found.left_out == {"week 4": 16}
    assert Note("periods-left-out", n=1, least=30, periods="week 4 (16)") in found.notes
    with pytest.raises(ValueError, match="reference: found 'week 4', but it has only 16 transitions"):
        somcot.drift(data, discount=0.8, reference="week 4")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"periods": weeks(1, 9)}, "periods: found 1, expected at least two"),
        ({"periods": {}}, "periods: found 0, expected at least two"),
        ({"periods": [1, 2]}, "periods: found list, expected a mapping"),
        ({"periods": {"a": CALM, "b": CALM}}, "periods: 'a' is a MarkovChain, expected Samples"),
        ({"reference": "week 9"}, "reference: found 'week 9', but no period .*; the periods are week 1, week 2"),
        ({"level": 0.0}, "level: found 0.0"),
        ({"confidence": 2.0}, "confidence: found 2.0"),
        ({"discount": 1.5}, "discount: found 1.5"),
        ({"n_permutations": 0}, "n_permutations: found 0"),
        ({"rng": -1}, "rng: found -1"),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, Any], match: str) -> None:
    given: dict[str, Any] = {"periods": weeks(2, 9), "discount": 0.8} | change
    with pytest.raises((TypeError, ValueError), match=match):
        somcot.drift(given.pop("periods"), **given)


def test_the_picture_has_two_series() -> None:
    found = somcot.drift(weeks(3, 3), discount=0.8)
    ax = found.plot()
    labels = ax.get_legend_handles_labels()[1]
    assert labels == ["from week 1", "from the period before"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["week 1", "week 2", "week 3"]


# Tables over time.


def log(path: Path, *, n_weeks: int = 3, change: int = 3, n_sessions: int = 40) -> Path:
    """Sessions of a shop, Monday 2026-12-14 on, so that the weeks cross the year."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "ts", "page", "release"])
        for label, samples in weeks(n_weeks, change, n_sessions).items():
            week = int(label.split()[1]) - 1
            for k, place in enumerate(range(0, samples.n_transitions, 8)):
                now = datetime(2026, 12, 14 + k % 7, 12) + timedelta(weeks=week)
                states = [*samples.now[place : place + 8].tolist(), int(samples.following[place + 7])]
                for minute, state in enumerate(states):
                    moment = (now + timedelta(minutes=minute)).isoformat()
                    writer.writerow([f"{week}-{k}", moment, PAGES[state], f"v{week + 1}"])
    return path


READ = ["--time", "ts", "--sequence", "user", "--state", "page"]


def test_times_are_cut_into_days_weeks_and_months(tmp_path: Path) -> None:
    path = log(tmp_path / "log.csv", n_weeks=4)
    options: dict[str, Any] = {"time": "ts", "sequence": "user", "state": "page"}
    by_week = split_periods(path, "week", **options)
    assert list(by_week) == ["2026-W51", "2026-W52", "2026-W53", "2027-W01"]
    assert [s.n_transitions for s in by_week.values()] == [320] * 4
    assert list(split_periods(path, "month", **options)) == ["2026-12", "2027-01"]
    days = split_periods(path, "day", **options)
    assert (list(days)[:1], list(days)[-1:], len(days)) == (["2026-12-14"], ["2027-01-10"], 28)
    assert sum(s.n_transitions for s in days.values()) == 4 * 320
    column = split_periods(path, "release", **options)
    same = split_table(path, "release", **options)
    assert list(column) == ["v1", "v2", "v3", "v4"]
    for one, two in zip(by_week.values(), same.values(), strict=True):
        np.testing.assert_array_equal(one.counts(), two.counts())


def test_a_column_called_week_goes_first() -> None:
    table = {"week": [7, 7, 8, 8], "time": ["2026-05-01"] * 4, "state": list("abab")}
    with pytest.warns(DataWarning):
        assert list(split_periods(table, "week", least=1)) == [7, 8]


@pytest.mark.parametrize(
    ("table", "by", "match"),
    [
        ({"time": ["2026-05-01", "soon"], "state": ["a", "b"]}, "week", "column 'time': found 'soon'"),
        ({"time": [1, 2], "state": ["a", "b"]}, "week", "holds plain numbers such as 1, which have no week"),
        ({"when": ["2026-05-01"], "state": ["a"]}, "week", "a week is cut out of times; pass time=COLUMN"),
        (
            {"time": ["2026-05-01"], "state": ["a"]},
            "season",
            "there is no column 'season', and it is none of day, week",
        ),
        ({"time": ["2026-05-01", None], "state": ["a", "b"]}, "day", "the time is missing, so the day is unknown"),
        ({"time": ["2026-05-01", "2026-05-02"], "state": ["a", "b"]}, 7, "by: found 7"),
    ],
)
def test_bad_tables_are_refused(table: dict[str, Any], by: Any, match: str) -> None:
    with pytest.raises((TypeError, ValueError), match=match):
        split_periods(table, by)


# The command.


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["drift", *map(str, arguments)], standalone_mode=False)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.return_value == code
    return done.output


def test_the_command_shows_writes_and_rings(tmp_path: Path) -> None:
    path, page, picture = log(tmp_path / "log.csv"), tmp_path / "page.html", tmp_path / "drift.png"
    asked = [path, "--by", "week", *READ, "--discount", "0.8"]
    shown = run(*asked, "--alarm", "--html", page, "--plot", picture, code=3)
    assert "It changed: 2 of 3 comparisons over 3 periods" in " ".join(shown.split())
    assert "Largest changes, 2026-W53 against" in shown
    text = page.read_text()
    assert "Has log.csv changed?" in text
    assert "<script" not in text
    assert text.count("<circle") == text.count("<rect") == 2
    assert "Where the largest change comes from" in text
    assert picture.read_bytes().startswith(b"\x89PNG")
    content = json.loads(run(*asked, "--json").splitlines()[-1])
    assert content["alarm"] is True
    assert [c["changed"] for c in content["changes"]] == [False, True, True]
    assert content["largest"]["transitions"][0]["state"] in PAGES
    calm = log(tmp_path / "calm.csv", n_weeks=2, change=9)
    said = run(calm, "--by", "release", *READ, "--discount", "0.8", "--alarm", "--reference", "v2")
    assert "No change shown over 2 periods" in " ".join(said.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--by", "season"), "there is no column 'season', and it is none of day, week, month"),
        (("--by", "week", "--reference", "May"), "--reference: there is no period 'May'; the periods are 2026-W51"),
        (("--by", "month"), "--by month has only one group with 30 or more transitions, 2026-12"),
        (("--by", "week", "--level", "2"), "--level: found 2"),
        (("--by", "week", "--confidence", "0"), "--confidence: found 0"),
        (("--by", "week", "--plot", "a.doc"), "--plot: found 'a.doc'"),
        (("--by", "week", "--html", "log.csv"), "is an input of this command"),
        (("--by", "week", "--bins", "page=3"), "found 'home', expected numbers"),
        (("--by", "week", "--cost", "reward:"), "which column"),
    ],
)
def test_wrong_requests_are_refused(options: Any, message: str, tmp_path: Path) -> None:
    path = log(tmp_path / "log.csv", n_weeks=2, n_sessions=6)
    given = [str(path) if text == "log.csv" else text for text in options]
    with pytest.raises(ValueError, match=re.escape(message)):
        run(path, *READ, "--discount", "0.8", *given)


def test_the_reference_is_not_a_small_period() -> None:
    """Recordings often begin within a period; a changed period is named, and its neighbours are not."""
    walk, other = somcot.random_walk(5), somcot.random_walk(5, 0.9)
    sizes = {"jan": (walk, 5), "feb": (walk, 60), "mar": (walk, 60), "apr": (other, 60), "may": (walk, 60)}
    months = {name: chain.sample(n, 20, rng=k) for k, (name, (chain, n)) in enumerate(sizes.items())}
    found = somcot.drift(months, discount=0.9)
    assert found.reference == "feb"
    assert found.changed == ("apr",)
    assert somcot.drift(months, discount=0.9, reference="jan").reference == "jan"
