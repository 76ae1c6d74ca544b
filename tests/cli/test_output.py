"""What commands write: never over what they read, whole or not at all, and the answer is out before."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import somcot
from somcot.cli.inputs import NamedProcess
from somcot.cli.output import ShownResult, save_figure, write_files
from somcot.plumbing.notes import Note
from tests.campaign.faults import TABLES, write_tables
from tests.command_server import Command, Finished

EDGES = "a b 3\nb c 1\nc a 1\n"
COST = ",a,b,c\na,0,1,1\nb,1,0,1\nc,1,1,0\n"
DISTANCE = ["distance", "x.edges", "y.edges", "--discount", "0.5"]
LOGS = [*TABLES, "--discount", "0.5"]
METRIC = ["metric", "x.edges", "y.edges", "--discount", "0.5"]
FULL_DISK = """
import os
def full(_handle):
    raise OSError(28, "No space left on device")
os.fsync = full
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x.edges").write_text(EDGES)
    (tmp_path / "y.edges").write_text(EDGES.replace("3", "1"))
    (tmp_path / "cost.csv").write_text(COST)
    return tmp_path


@pytest.fixture
def logs(folder: Path) -> Path:
    write_tables(folder)
    return folder


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


MATRIX = ["matrix", "x.edges", "y.edges", "--discount", "0.5"]
STREAM = ["watch", "b.csv", "--reference", "a.csv", *LOGS[2:]]
WRITERS = [
    [*DISTANCE, "--html", "o.html", "--plot", "o.svg"],
    [*METRIC, "--out", "o.csv"],
    [*MATRIX, "--out", "o.csv", "--out", "o.json", "--out", "o.html", "--out", "o.parquet"],
    ["test", *LOGS, "--margin", "0.5", "--permutations", "9", "--junit", "o.xml", "--markdown", "o.md"],
    ["drift", "a.csv", *LOGS[2:], "--by", "week", "--permutations", "9", "--html", "o.html", "--plot", "o.png"],
    pytest.param(["sample-size", "a.csv", *LOGS[2:], "--effect", "0.02", "--plot", "o.png"], marks=pytest.mark.slow),
    ["baseline", "a.csv", *TABLES[2:], "--out", "o.somcot"],
    [*STREAM, "--html", "o.html", "--prometheus", "o.prom"],
]
READ_FIRST = [[*MATRIX, "--checkpoint", "o.ck"], [*STREAM, "--state-file", "o.ck"]]


@pytest.mark.parametrize("arguments", WRITERS, ids=lambda value: " ".join([value[0], *value[-4:]]))
def test_only_files_of_somcot_are_replaced(arguments: list[str], command: Command, logs: Path) -> None:
    """Another file only with --force, its own without; a link is not followed even with --force."""
    targets = {name: arguments[k - 1] for k, name in enumerate(arguments) if name.startswith("o.")}

    def keeps(name: str) -> None:
        said = f"error: {targets[name]}: {name} exists and has no mark"
        before = (logs / name).read_bytes()
        refused(command(*arguments, cwd=logs), said, "pass --force")
        assert (logs / name).read_bytes() == before

    for name in targets:
        (logs / name).write_text("my thesis, which mentions somcot")
        keeps(name)
        (logs / name).write_bytes(b"")
    (logs / name).write_text("my thesis, which mentions somcot")
    for more in (["--force"], []):
        done = command(*arguments, *more, cwd=logs)
        assert done.returncode in (0, 3, 6), done.stderr
    for name, option in targets.items():
        written = (logs / name).read_bytes()
        if not written.startswith(b"x,y,distance,"):  # the mark of a matrix as CSV is its header
            (logs / name).write_bytes(written.replace(b"somcot", b"others"))
            keeps(name)
        (logs / name).write_bytes(written)
        _follows_no_link(arguments, name, option, command, logs)


@pytest.mark.parametrize("arguments", READ_FIRST, ids=lambda value: f"{value[0]} {value[-2]}")
def test_what_is_resumed_must_be_of_somcot(arguments: list[str], command: Command, logs: Path) -> None:
    """A file that cannot be resumed is kept, with --force too, since it may be a checkpoint of another program."""
    out = logs / arguments[-1]
    for _ in range(2):
        assert command(*arguments, cwd=logs).returncode == 0
    _follows_no_link(arguments, out.name, arguments[-2], command, logs)
    out.write_text("my thesis")
    for more in ([], ["--force"]):
        refused(command(*arguments, *more, cwd=logs), f"{out.name}: not a somcot checkpoint; name another file")
        assert out.read_text() == "my thesis"


def _follows_no_link(arguments: list[str], name: str, option: str, command: Command, folder: Path) -> None:
    out, kept = folder / name, folder / "kept"
    out.rename(kept)
    before = kept.read_bytes()
    out.symlink_to("kept")
    for more in ([], ["--force"]):
        refused(command(*arguments, *more, cwd=folder), f"error: {option}: {name} is a symbolic link", "points to")
    assert kept.read_bytes() == before
    assert not list(folder.glob(".*"))
    out.unlink()
    kept.rename(out)


def test_arrays_have_no_mark(command: Command, folder: Path) -> None:
    for code in (0, 2):
        assert command(*METRIC, "--out", "o.npy", cwd=folder).returncode == code
    assert command(*METRIC, "--out", "o.npy", "--force", cwd=folder).returncode == 0


@pytest.mark.parametrize("name", ["report.html", "may.csv"])
def test_the_demo_keeps_the_files_of_others(name: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    done = command("demo", "--out", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert f"--out: {name} exists and has no mark of somcot" in done.stderr
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


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
    arguments: list[str], name: str, more: list[str], command: Command, folder: Path
) -> None:
    (folder / name).write_text("old")
    done = command(*arguments, name, "--force", *more, cwd=folder, code=FULL_DISK)
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


def test_figures_have_a_margin(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib").use("agg")
    import matplotlib.pyplot as plt

    picture, ax = plt.subplots(layout="constrained")
    ax.set_title("a title at the upper edge")
    save_figure(picture, tmp_path / "f.png", dpi=100)
    pixels = plt.imread(tmp_path / "f.png")[..., :3]
    # 0.12 inches, less a pixel for rounding.
    assert (pixels[:11] == 1.0).all()
    assert (pixels[11:40] < 1.0).any()
