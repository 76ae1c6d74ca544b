"""`somcot distance --cells`: tables and arrays of numbers, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from somcot.cli.application import app, main
from tests.continuous.systems import SYSTEMS
from tests.notes import worded

RUN = CliRunner()
COLUMNS = ["--sequence", "run", "--time", "t"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    sides = SYSTEMS["rotation, shifted"].record(40, 40, np.random.default_rng(0))
    for name, data in zip("ab", sides, strict=True):
        rows = [f"{e},{t},{x!r},{v!r}" for e, run in enumerate(data.episodes) for t, (x, v) in enumerate(run.tolist())]
        (folder / f"{name}.csv").write_text("run,t,x,v\n" + "\n".join(rows))
        np.savez(folder / f"{name}.npz", *data.episodes)
    return folder


def test_tables_and_arrays_give_the_same_answer(files: Path) -> None:
    table = RUN.invoke(
        app, ["distance", str(files / "a.csv"), str(files / "b.csv"), *COLUMNS, "--state", "x,v", "--cells", "8",
              "--discount", "0.9", "--json"],
    )  # fmt: skip
    arrays = RUN.invoke(
        app, ["distance", str(files / "a.npz"), str(files / "b.npz"), "--cells", "8", "--discount", "0.9", "--json"]
    )
    assert table.exit_code == 0, table.output
    found, other = (json.loads(run.stdout) for run in (table, arrays))
    assert found["distance"] == other["distance"]
    assert found["continuous"]["n_cells"] == 8
    assert found["continuous"]["route"] == "map"
    assert found["continuous"]["map"]["kind"] == "shift"
    assert found["continuous"]["shift_check"]["distance"] is None  # deprecated
    assert 0.5 < found["distance"] < 1.1


def test_the_screen_says_how_it_came_about(files: Path) -> None:
    line = ["distance", str(files / "a.csv"), str(files / "b.csv"), *COLUMNS, "--state", "x", "--state", "v"]
    shown = RUN.invoke(app, [*line, "--cells", "auto", "--discount", "0.9"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    said = " ".join(shown.stdout.replace("│", " ").split())
    assert "behaves as a.csv shifted by (" in said
    assert "permutations of whole episodes do not reject this map: " in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cells", "lots"], "--cells: found 'lots', expected auto or a whole number"),
        (["--cells", "8", "--tidy"], "--tidy: not together with --cells"),
        (["--cells", "8", "--cost", "degree"], "with --cells it is euclidean or sqeuclidean"),
        (["--discount", "0.9"], "or keep all numbers: somcot distance --cells auto"),
        (["--cells", "8", "--horizon", "5"], "somcot.discretise in Python makes Samples"),
        (["--cells", "8", "--scale", "big"], "--scale: found 'big', expected std, a number above 0"),
        (["--cells", "8", "--scale", "1,-2"], "--scale: found '1,-2', expected std, a number above 0"),
        (["--cells", "8", "--scale", "1,2,3"], "--scale: found 3 numbers, expected one, or one for each of 2 coord"),
        (["--scale", "1"], "--scale: only together with --cells"),
        (["--period", "x=1"], "--period: only together with --cells"),
        (["--cells", "8", "--period", "x"], "--period: found 'x', expected COLUMN=LENGTH with a number above 0"),
        (["--cells", "8", "--period", "x=-1"], "--period: found 'x=-1', expected COLUMN=LENGTH"),
        (["--cells", "8", "--period", "x=1", "--period", "x=2"], "--period: 'x' is given twice"),
        (["--cells", "8", "--period", "w=1"], "period: found 'w', which is not a coordinate; these are x, v"),
        (["--cells", "8", "--standard-error", "episodes"], "--standard-error: not together with --cells"),
        (["--cells", "8", "--state", "x"], "state: the column 'x' is named twice"),
        (["--cells", "8", "--state", "w"], "there is no column 'w'; the columns are 'run', 't', 'x', 'v'"),
    ],
)
def test_refusals(files: Path, options: list[str], message: str) -> None:
    line = ["distance", str(files / "a.csv"), str(files / "b.csv"), *COLUMNS, "--state", "x", "--state", "v"]
    found = RUN.invoke(app, [*line, *options])
    assert found.exit_code != 0
    assert message in worded(found.exception)


def _said(*line: str) -> str:
    found = RUN.invoke(app, [*line], env={"COLUMNS": "200"})
    assert found.exit_code == 0, found.exception
    return " ".join(found.stdout.replace("│", " ").split())


def test_the_test_of_one_process_takes_vectors(files: Path) -> None:
    other, same = (str(files / f"{name}.npz") for name in "ba")
    line = ["test", str(files / "a.npz"), other, "--cells", "auto", "--discount", "0.9", "--permutations", "99"]
    apart = json.loads(RUN.invoke(app, [*line, "--json"]).stdout)
    assert apart["pvalue"] == 0.01
    assert apart["x"] == {
        "source": str(files / "a.npz"), "kind": "vectors", "n_transitions": 1600, "n_episodes": 40, "n_coordinates": 2,
    }  # fmt: skip
    assert apart["cost"] == "euclidean, in standard deviations of the coordinates"
    line[2] = same
    assert json.loads(RUN.invoke(app, [*line, "--json"]).stdout)["pvalue"] == 1.0
    assert "1,600 transitions in 40 sequences, 2 coordinates" in _said(*line)


def test_units_of_the_answer_are_those_asked_for(files: Path) -> None:
    line = ["distance", str(files / "a.npz"), str(files / "b.npz"), "--cells", "6", "--discount", "0.9"]
    said = _said(*line)
    assert "standard deviations on average" in said
    assert "by discounted moments alone" in said
    found = [json.loads(RUN.invoke(app, [*line, "--json", "--scale", text]).stdout) for text in ("1", "2,2")]
    assert found[0]["continuous"]["scale"] == [1.0, 1.0]
    assert found[1]["distance"] == pytest.approx(found[0]["distance"] / 2)
    assert "standard deviations" not in found[0]["meaning"]


def test_a_heading_goes_the_short_way_round(tmp_path: Path) -> None:
    """Headings about north, 20 degrees apart: on a line most of them would be far from each other."""
    rng = np.random.default_rng(3)
    for name, shift in (("a", 0.0), ("b", 20.0)):
        heading = [20.0 * rng.standard_normal(60)]
        for _ in range(30):
            heading.append(0.8 * heading[-1] + 12.0 * rng.standard_normal(60))
        values = np.mod(np.stack(heading, axis=1) + shift, 360.0)
        rows = [f"{e},{t},{value!r}" for e, run in enumerate(values.tolist()) for t, value in enumerate(run)]
        (tmp_path / f"{name}.csv").write_text("run,t,heading\n" + "\n".join(rows))
    line = ["distance", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), *COLUMNS, "--state", "heading"]
    line += ["--cells", "auto", "--discount", "0.9", "--scale", "1", "--json"]
    found = json.loads(RUN.invoke(app, [*line, "--period", "heading=360"]).stdout)
    assert found["distance"] == pytest.approx(20.0, abs=4.0)
    assert json.loads(RUN.invoke(app, line).stdout)["distance"] > 40.0


def test_what_is_without_an_error_bound_is_called_an_approximation(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in "ab":  # points on a circle, at different speeds: no map
        speed = 0.5 if name == "a" else 1.0
        angle = rng.uniform(0, 6.28, (30, 1)) + np.cumsum(speed + 0.2 * rng.normal(size=(30, 21)), axis=1)
        np.save(tmp_path / f"{name}.npy", np.stack([np.cos(angle), (1 + (name == "b")) * np.sin(angle)], axis=2))
    page = tmp_path / "page.html"
    said = _said("distance", str(tmp_path / "a.npy"), str(tmp_path / "b.npy"), "--cells", "8", "--html", str(page))
    assert "This is an approximation without an error bound." in said
    assert "no interval was requested" not in said
    assert "maximally different" not in page.read_text()  # no largest distance between vectors
    assert "named by their centres (x0, x1)" in page.read_text()


@pytest.mark.parametrize("command", ["select", "drift", "metric", "info", "watch"])
def test_other_commands_say_where_vectors_are_compared(
    files: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["somcot", command, str(files / "a.csv"), str(files / "b.csv"), "--cells", "auto"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "somcot.discretise(*recordings)" in capsys.readouterr().err


def test_a_matrix_of_vectors(files: Path, tmp_path: Path) -> None:
    line = ["matrix", str(files / "a.npz"), str(files / "b.npz"), "--discount", "0.9", "--cells", "8", "--scale", "1"]
    found = RUN.invoke(app, [*line, "--json", "-o", str(tmp_path / "m.html")])
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)
    assert said["cost"] == "euclidean"
    assert said["labels"] == ["a.npz", "b.npz"]
    assert 0.5 < said["values"][0][1] < 1.1
    assert "euclidean" in (tmp_path / "m.html").read_text()
    assert "--by: not together with --cells" in str(RUN.invoke(app, [*line, "--by", "x"]).exception)
    alone = RUN.invoke(app, ["matrix", str(files / "a.npz"), "--discount", "0.9", "--cells", "8"])
    assert "one file; name several" in str(alone.exception)


def test_the_report_draws_cells(files: Path, tmp_path: Path) -> None:
    line = ["distance", str(files / "a.npz"), str(files / "b.npz"), "--discount", "0.9", "--cells", "8"]
    RUN.invoke(app, [*line, "--html", str(tmp_path / "r.html")])
    text = (tmp_path / "r.html").read_text()
    start = text.index('aria-label="cells of a.npz')
    picture = text[start : text.index("</svg>", start)]
    assert picture.count("<circle") == 8 + 8 + 8 + 2  # of each recording, of the partners, of the legend


def test_files_that_do_not_fit_together(files: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.random.default_rng(0).normal(size=(4, 9, 1)))
    line = ["distance", str(files / "a.npz"), str(tmp_path / "one.npy"), "--cells", "4", "--discount", "0.9"]
    found = RUN.invoke(app, line)
    assert "one.npy: has 1 coordinate, but" in str(found.exception)
    found = RUN.invoke(app, [*line, "--state", "x"])
    assert "a.npz holds arrays, which have no columns" in str(found.exception)
    found = RUN.invoke(app, ["distance", str(tmp_path / "one.npy"), str(tmp_path / "one.npy"), "--discount", "0.9"])
    assert "or keep real numbers: somcot distance --cells auto" in worded(found.exception)
