"""Records, the shared sweep, the page and the command."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import typer
from matplotlib.figure import Figure
from typer.testing import CliRunner

from somcot import Status
from somcot.paper import command
from somcot.paper import step_sizes as steps
from somcot.paper.command import index_page
from somcot.paper.experiment import FigureCheck, Record, sweep

mpl.use("Agg")

TINY = steps.StepSizeSettings(
    n_states=(3, 5), primal_steps=(0.1, 1.0, 10.0), dual_steps=(0.01, 0.1, 1.0), n_steps=50, n_seeds=1
)


def app() -> typer.Typer:
    application = typer.Typer()
    application.callback()(lambda: None)
    command.register(application)
    return application


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """One experiment that takes no time, in place of all."""
    experiment = dataclasses.replace(steps.EXPERIMENT, full=TINY, quick=dataclasses.replace(TINY, n_steps=40))
    monkeypatch.setattr(command, "EXPERIMENTS", {"steps": experiment})


@pytest.mark.usefixtures("tiny")
def test_command_writes_figure_numbers_and_page(tmp_path: Path) -> None:
    result = CliRunner().invoke(app(), ["reproduce", "all", "--out", str(tmp_path), "--seed", "3"])
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.iterdir()} == {"steps.png", "steps.svg", "steps.json", "index.html"}
    content = json.loads((tmp_path / "steps.json").read_text(encoding="utf-8"))
    assert content["seed"] == 3
    assert content["settings"]["n_steps"] == 50
    assert np.shape(content["data"]["error"]) == (1, 2, 3, 3)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'src="steps.png"' in page
    assert "beta" in page
    assert "<code>somcot reproduce steps --seed 3</code>" in page


@pytest.mark.usefixtures("tiny")
def test_quick_takes_the_quick_settings_and_seeds_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = dataclasses.replace(command.EXPERIMENTS["steps"], plot=lambda record: Figure())
    monkeypatch.setitem(command.EXPERIMENTS, "steps", bare)
    errors = []
    for seed in (0, 0, 1):
        CliRunner().invoke(app(), ["reproduce", "steps", "--quick", "--out", str(tmp_path), "--seed", str(seed)])
        content = json.loads((tmp_path / "steps.json").read_text(encoding="utf-8"))
        assert content["settings"]["n_steps"] == 40
        errors.append(content["data"]["error"])
    assert errors[0] == errors[1] != errors[2]
    assert not (tmp_path / "index.html").exists()


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", ["steps.json", "steps.png", "steps.svg", "index.html"])
def test_only_files_of_somcot_are_replaced(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file only with --force, its own without; a link is not followed even with --force."""
    bare = dataclasses.replace(command.EXPERIMENTS["steps"], plot=lambda record: Figure())
    monkeypatch.setitem(command.EXPERIMENTS, "steps", bare)
    arguments = ["reproduce", "all", "--quick", "--out", str(tmp_path)]
    (tmp_path / name).write_text("my thesis, which mentions somcot")
    refused = CliRunner().invoke(app(), arguments)
    assert f"--out: {tmp_path / name} exists and has no mark" in str(refused.exception)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["my thesis, which mentions somcot"]
    for more in (["--force"], []):
        assert CliRunner().invoke(app(), [*arguments, *more]).exit_code == 0
    assert b"thesis" not in (tmp_path / name).read_bytes()
    (tmp_path / name).rename(tmp_path / "kept")
    (tmp_path / name).symlink_to("kept")
    before = (tmp_path / "kept").read_bytes()
    for more in (["--force"], []):
        linked = CliRunner().invoke(app(), [*arguments, *more])
        assert f"--out: {tmp_path / name} is a symbolic link" in str(linked.exception)
    assert (tmp_path / "kept").read_bytes() == before


@pytest.mark.parametrize("arguments", [["nonsense"], ["steps", "--seed", "-1"], []])
def test_bad_input_ends_with_code_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(app(), ["reproduce", *arguments]).exit_code == 2


@pytest.mark.parametrize(
    ("out", "message"),
    [("taken", "is a file"), ("taken/deep", "is a file"), ("/sys", "cannot be written")],
)
def test_a_folder_that_cannot_be_written_is_noticed_before_the_work(
    out: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    monkeypatch.setattr(command, "EXPERIMENTS", {})  # the work would fail
    monkeypatch.setenv("COLUMNS", "200")
    result = CliRunner().invoke(app(), ["reproduce", "steps", "--out", str(tmp_path / out)])
    assert result.exit_code == 2
    assert message in result.output


def test_without_a_name_the_command_says_what_there_is() -> None:
    done = subprocess.run([sys.executable, "-m", "somcot", "reproduce"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Choose from: encoder, selection, similarity, steps, pendulum, all" in done.stderr


@pytest.mark.usefixtures("tiny")
def test_a_missed_figure_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: Any) -> Record:
        return dataclasses.replace(steps.run(*arguments), checks=(FigureCheck("c", 0.0, ">=", 1.0),))

    experiment = dataclasses.replace(command.EXPERIMENTS["steps"], run=missing)
    monkeypatch.setitem(command.EXPERIMENTS, "steps", experiment)
    result = CliRunner().invoke(app(), ["reproduce", "steps", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert "MISS" in result.output
    assert "1 of 1 missed" in result.output


def test_every_name_of_the_command_is_an_experiment() -> None:
    assert {name.value for name in command.Name} == {*command.EXPERIMENTS, "all"}
    assert all(name == experiment.name for name, experiment in command.EXPERIMENTS.items())


def test_sweep_gives_every_call_its_own_numbers_and_reports() -> None:
    seen: list[tuple[int, int]] = []

    def one(case: int, rng: np.random.Generator) -> float:
        return float(rng.random())

    def two(case: int, rng: np.random.Generator) -> float:
        return float(rng.random())

    found = sweep(one, [0, 0, 0], [0, 1], lambda done, total: seen.append((done, total)))
    assert len({value for row in found for value in row}) == 6
    assert seen == [(i, 6) for i in range(1, 7)]
    assert sweep(one, [0, 0, 0], [0, 1]) == found
    assert not {v for row in sweep(two, [0, 0, 0], [0, 1]) for v in row} & {v for row in found for v in row}


def test_an_interrupted_run_stops_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    from somcot.solvers import somcot as algorithm

    def interrupted(*arguments: Any, **options: Any) -> Any:
        return dataclasses.replace(solve(*arguments, **options), status=Status.INTERRUPTED)

    solve = algorithm.solve
    monkeypatch.setattr(algorithm, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        steps.run(TINY)


def test_a_check_that_is_not_a_number_is_missed() -> None:
    assert not FigureCheck("", float("nan"), ">=", 0.0).passed
    assert not FigureCheck("", float("nan"), "<=", 0.0).passed
    assert FigureCheck("", 1.0, ">=", 1.0).passed
    assert not FigureCheck("", 1.01, "<=", 1.0).passed


def test_record_becomes_plain_json() -> None:
    data: dict[str, Any] = {"a": np.array([[1.23456789, np.nan]]), "n": np.int64(3)}
    record = Record("r", TINY, 0, data, (FigureCheck("c", np.float64(2.0), ">=", 1.0),))
    content = json.loads(record.to_json())
    assert content["data"] == {"a": [[1.23457, None]], "n": 3}
    assert content["checks"] == [{"name": "c", "value": 2.0, "relation": ">=", "limit": 1.0, "passed": True}]
    assert record.passed


def test_page_says_what_was_missed() -> None:
    record = Record("steps", TINY, 0, {}, (FigureCheck("a < b", 0.0, ">=", 1.0), FigureCheck("fine", 1.0, ">=", 1.0)))
    page = index_page([(steps.EXPERIMENT, record)])
    assert page.count("missed</span>") == 1
    assert "a &lt; b" in page
