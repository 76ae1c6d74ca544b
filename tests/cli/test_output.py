"""What commands write: never over what they read, whole or not at all, and the answer is out before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import somcot
from somcot.cli.inputs import NamedProcess
from somcot.cli.output import ShownResult, write_files
from somcot.plumbing.notes import Note
from tests.command_server import Command, Finished

EDGES = "a b 3\nb c 1\nc a 1\n"
COST = ",a,b,c\na,0,1,1\nb,1,0,1\nc,1,1,0\n"
DISTANCE = ["distance", "x.edges", "y.edges", "--discount", "0.5"]
METRIC = ["metric", "x.edges", "y.edges", "--discount", "0.5"]
FULL_DISK = """
import os, sys
def full(_handle):
    raise OSError(28, "No space left on device")
os.fsync = full
from somcot.__main__ import main
sys.argv = ["somcot", *sys.argv[1:]]
main()
"""


@pytest.fixture(scope="module")
def command() -> Iterator[Command]:
    with Command() as started:
        yield started


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x.edges").write_text(EDGES)
    (tmp_path / "y.edges").write_text(EDGES.replace("3", "1"))
    (tmp_path / "cost.csv").write_text(COST)
    return tmp_path


def refused(done: Finished, *words: str) -> None:
    assert (done.returncode, done.stdout) == (2, ""), done
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ([*DISTANCE, "--html", "x.edges"], "--html"),
        ([*DISTANCE, "--html", "./y.edges"], "--html"),
        ([*DISTANCE, "--html", "link.html"], "--html"),
        ([*DISTANCE, "--html", "hard.html"], "--html"),
        ([*DISTANCE, "--html", "new/../x.edges"], "--html"),
        ([*DISTANCE, "--plot", "link.png"], "--plot"),
        ([*METRIC, "--out", "link.csv"], "--out"),
        ([*METRIC, "--cost", "cost.csv", "--out", "cost.csv"], "--out"),
    ],
    ids=lambda value: " ".join(value[5:]) if isinstance(value, list) else None,
)
def test_an_input_is_not_overwritten(arguments: list[str], option: str, command: Command, folder: Path) -> None:
    for ending in ("html", "png", "csv"):
        (folder / f"link.{ending}").symlink_to("x.edges")
    os.link(folder / "x.edges", folder / "hard.html")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused(command(*arguments, cwd=folder), f"{option}: ", "is an input of this command", "name another file")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_report_and_figure_are_two_files(command: Command, folder: Path) -> None:
    (folder / "same.png").symlink_to("a.png")
    for html in ("a.png", "./a.png", "same.png"):
        done = command(*DISTANCE, "--html", html, "--plot", "a.png", cwd=folder)
        refused(done, "--html: ", "is also the file of --plot", "name two files")


def test_folders_are_made_when_there_is_something_to_write(command: Command, folder: Path) -> None:
    refused(command("distance", "nowhere.edges", *DISTANCE[2:], "--html", "deep/new/a.html", cwd=folder), "nowhere")
    assert not (folder / "deep").exists()
    assert command(*DISTANCE, "--html", "deep/new/a.html", cwd=folder).returncode == 0
    assert (folder / "deep/new/a.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["panel", "json"])
@pytest.mark.parametrize(
    ("arguments", "name"),
    [([*DISTANCE, "--html"], "old.html"), ([*DISTANCE, "--plot"], "old.png"), ([*METRIC, "--out"], "old.csv")],
    ids=["report", "figure", "matrix"],
)
def test_a_full_disk_takes_neither_the_answer_nor_the_old_file(
    arguments: list[str], name: str, more: list[str], folder: Path
) -> None:
    (folder / name).write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, *arguments, name, *more], capture_output=True, text=True, cwd=folder,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"error: {name}: could not be written (No space left on device); what was there before is kept"
    )
    assert ("distance" in json.loads(done.stdout) or "metric" in json.loads(done.stdout)) if more else done.stdout
    assert (folder / name).read_text() == "old"
    assert not [path for path in folder.iterdir() if path.name.endswith(".part")]


def test_files_are_written_even_if_nobody_reads_the_answer(command: Command, folder: Path) -> None:
    for more in ([], ["--json"]):
        done = command(*DISTANCE, "--html", "a.html", *more, cwd=folder, closed="stdout")
        assert (done.returncode, done.stderr) == (141, "")
        assert (folder / "a.html").read_text().endswith("</html>\n")
        (folder / "a.html").unlink()


def test_a_report_can_go_into_a_pipe(command: Command, folder: Path) -> None:
    done = command(*DISTANCE, "--html", "/dev/stdout", cwd=folder)
    assert done.returncode == 0
    assert "<!DOCTYPE html>" in done.stdout


def test_names_with_brackets_are_names(command: Command, folder: Path) -> None:
    """Square brackets mean colours to the package that draws the panel."""
    os.rename(folder / "x.edges", folder / "x[b].edges")
    done = command("distance", "x[b].edges", *DISTANCE[2:], cwd=folder)
    assert done.returncode == 0
    assert done.stdout.count("x[b].edges") >= 2  # in the title and beside what was read
    (folder / "red").mkdir()
    os.rename(folder / "y.edges", folder / "red" / "y.edges")
    os.rename(folder / "red", folder / "[")
    done = command("info", "[/y.edges", cwd=folder)
    assert done.returncode == 0
    assert "[/y.edges" in done.stdout


def test_a_cost_with_brackets_is_a_name(command: Command, folder: Path) -> None:
    (folder / "t.csv").write_text("state,[/red]\na,1\nb,2\na,1\nb,2\n")
    done = command("distance", "t.csv", "t.csv", "--discount", "0.5", "--cost", "reward:[/red]", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "reward:[/red]" in done.stdout


def test_no_escape_sequence_reaches_the_terminal(command: Command, folder: Path) -> None:
    name = "\x1b]0;t\x07.csv"
    (folder / name).write_text("\x1b[31mstate\n0.25\n0.5\n0.75\n")
    for arguments in (
        ["info", name], ["info", name, "--state", "x\x1b[0m"], ["info", f"missing{name}"],
        ["info", name, "--bins", "\x1b[31mstate=2"], [*DISTANCE, "--html", f"{name}/a.html"],
        [*DISTANCE, "--html", "\x1b[31ma.html"],
    ):  # fmt: skip
        done = command(*arguments, cwd=folder)
        assert "\x1b" not in done.stdout + done.stderr, arguments


def test_a_label_that_cannot_be_written(command: Command, folder: Path) -> None:
    lines = [json.dumps({"state": state}) for state in ("a", "\ud800", "a", "\ud800")]
    (folder / "s.jsonl").write_text("\n".join(lines) + "\n")
    done = command("metric", "s.jsonl", "s.jsonl", "--discount", "0.5", "--out", "m.csv", cwd=folder)
    assert done.returncode == 2
    assert "m.csv: a label holds '\\ud800'" in done.stderr
    assert not (folder / "m.csv").exists()
    assert command("metric", "s.jsonl", "s.jsonl", "--discount", "0.5", "--out", "m.npy", cwd=folder).returncode == 0
    assert np.load(folder / "m.npy").shape == (2, 2)


def test_a_note_stands_once_in_the_report_without_flags_or_python(tmp_path: Path) -> None:
    said = Note("memory", "x", effect="interval is too narrow")
    x = somcot.random_walk(3, 0.3)
    cost = somcot.costs.labels(x.states, x.states)
    result = replace(somcot.distance(x, x, cost, discount=0.5), notes=(said,))
    sides = NamedProcess("may.csv", x), NamedProcess("june.csv", x)
    write_files(ShownResult(result, *sides, cost, "labels", 0, [], "somcot"), tmp_path / "page.html", None)
    page = (tmp_path / "page.html").read_text()
    assert page.count("the next state clearly depends on more than the last one, so the interval is too narrow") == 1
    # Readers of a page call nothing.
    assert "--units" not in page
    assert "markov_order" not in page
