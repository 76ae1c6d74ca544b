"""`somcot distance --cells`: tables and arrays of numbers, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from somcot.cli import app
from tests.continuous.systems import SYSTEMS

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
    assert found["continuous"]["shift_check"]["distance"] > 0
    assert 0.5 < found["distance"] < 1.1


def test_the_screen_says_how_it_came_about(files: Path) -> None:
    line = ["distance", str(files / "a.csv"), str(files / "b.csv"), *COLUMNS, "--state", "x", "--state", "v"]
    shown = RUN.invoke(app, [*line, "--cells", "auto", "--discount", "0.9"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    said = " ".join(shown.stdout.replace("│", " ").split())
    assert " cells; " in said
    assert "shift check" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cells", "lots"], "--cells: found 'lots', expected auto or a whole number"),
        (["--cells", "8", "--tidy"], "--tidy: not together with --cells"),
        (["--cells", "8", "--cost", "degree"], "with --cells it is euclidean or sqeuclidean"),
        (["--discount", "0.9"], "or keep all numbers: --cells auto"),
        (["--cells", "8", "--horizon", "5"], "somcot.discretise makes Samples"),
    ],
)
def test_refusals(files: Path, options: list[str], message: str) -> None:
    line = ["distance", str(files / "a.csv"), str(files / "b.csv"), *COLUMNS, "--state", "x", "--state", "v"]
    found = RUN.invoke(app, [*line, *options])
    assert found.exit_code != 0
    assert message in str(found.exception)
