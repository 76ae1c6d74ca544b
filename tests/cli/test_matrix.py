"""`somcot matrix` and `somcot select` from end to end."""

import csv
import json
import os
import select
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import somcot
from somcot.cli.application import app
from somcot.cli.inputs import TooLongError
from somcot.cli.output import for_terminal
from somcot.many import plan
from somcot.plumbing.notes import Note
from tests.notes import noted

READ = ["--sequence", "user", "--state", "page", "--discount", "0.9"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("logs")
    whole = ["week,user,page"]
    for week, theta in enumerate((0.5, 0.5, 0.95)):
        samples = somcot.random_walk(4, theta).sample(40, 20, rng=week)
        rows = []
        for e in range(40):
            steps = slice(samples.offsets[e], samples.offsets[e + 1])  # type: ignore[index]
            path = [*samples.now[steps], samples.following[steps][-1]]
            rows += [f"w{week}u{e},p{state}" for state in path]
        (place / f"w{week}.csv").write_text("\n".join(["user,page", *rows]) + "\n")
        whole += [f"w{week},{row}" for row in rows]
    whole += ["w9,u,p0", "w9,u,p1"]
    (place / "log.csv").write_text("\n".join(whole) + "\n")
    return place


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments], standalone_mode=False)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.return_value == code
    return done.output


def test_files_and_groups_of_one_file_give_the_same(folder: Path) -> None:
    files = [folder / f"w{k}.csv" for k in range(3)]
    one = json.loads(run("matrix", *files, *READ, "--json").splitlines()[-1])
    two = json.loads(run("matrix", folder / "log.csv", "--by", "week", *READ, "--json").splitlines()[-1])
    assert one["labels"] == ["w0.csv", "w1.csv", "w2.csv"]
    assert two["labels"] == ["w0", "w1", "w2"]
    assert one["values"] == two["values"]
    assert any("w9 (1)" in text for text in two["warnings"])
    data = [somcot.readers.from_table(file, sequence="user", state="page") for file in files]
    found = somcot.distance_matrix(data, discount=0.9, confidence=0.9, rng=0)
    assert np.array(two["plugin"]) == pytest.approx(found.plugin, abs=1e-12)


def test_an_event_log_is_parted_by_an_attribute_of_its_cases(folder: Path, tmp_path: Path) -> None:
    """The same rows as a log and as a table give the same numbers, and warnings name the group."""
    names = ["week", "user", "page"]
    rows = [
        dict(zip(names, line.split(","), strict=True)) for line in (folder / "log.csv").read_text().splitlines()[1:]
    ]
    traces: dict[str, list[str]] = {}
    for row in rows:
        attributes = f'<string key="concept:name" value="{row["user"]}"/><string key="week" value="{row["week"]}"/>'
        traces.setdefault(attributes, []).append(f'<event><string key="concept:name" value="{row["page"]}"/></event>')
    text = "".join(f"<trace>{facts}{''.join(events)}</trace>" for facts, events in traces.items())
    (tmp_path / "log.xes").write_text(f"<log>{text}</log>")
    asked = ["--time", "file", "--discount", "0.9", "--json"]
    found = json.loads(run("matrix", tmp_path / "log.xes", "--by", "case:week", *asked).splitlines()[-1])
    wanted = json.loads(run("matrix", folder / "log.csv", "--by", "week", *READ, "--json").splitlines()[-1])
    assert (found["labels"], found["values"]) == (wanted["labels"], wanted["values"])
    with pytest.raises(ValueError, match=r"there is no column 'week'.*did you mean 'case:week'"):
        run("matrix", tmp_path / "log.xes", "--by", "week", *asked)


def test_every_kind_of_file(folder: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    out = [tmp_path / f"d.{kind}" for kind in ("csv", "parquet", "json", "html")]
    shown = run("matrix", folder / "log.csv", "--by", "week", *READ, *(x for p in out for x in ("-o", p)))
    assert "Distances between 3 processes" in shown
    rows = list(csv.DictReader(out[0].read_text().splitlines()))
    assert [(row["x"], row["y"]) for row in rows] == [("w0", "w1"), ("w0", "w2"), ("w1", "w2")]
    assert float(rows[1]["low"]) <= float(rows[1]["distance"]) <= float(rows[1]["high"])
    assert pq.read_table(out[1]).column("distance").to_pylist() == [float(row["distance"]) for row in rows]
    assert json.loads(out[2].read_text())["labels"] == ["w0", "w1", "w2"]
    page = out[3].read_text()
    assert page.count("<svg") == 3
    assert "<script" not in page


def test_names_in_pages_are_escaped(tmp_path: Path) -> None:
    from somcot.report import page as page_of
    from somcot.report.many_facts import matrix_sections

    walks = {"<b>": somcot.random_walk(3), "x & y": somcot.random_walk(3, 0.7)}
    page = page_of(matrix_sections(somcot.distance_matrix(walks, discount=0.9)))
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    across = page_of(matrix_sections(somcot.distance_matrix(walks, discount=0.9, others=walks)))
    assert across.count("<svg") == 1


def test_cells_without_a_distance_are_crossed_out() -> None:
    from somcot.report import page as page_of
    from somcot.report.many_facts import matrix_sections

    def picky(x: object, y: object) -> np.ndarray:
        if x is walks["a"] and y is walks["b"]:
            raise RuntimeError("no price")
        return np.ones((3, 3)) - np.eye(3)

    walks = {"a": somcot.random_walk(3), "b": somcot.random_walk(3, 0.7), "c": somcot.random_walk(3, 0.9)}
    with noted("failed-pairs", which="'a' and 'b'"):
        distances = somcot.distance_matrix(walks, picky, discount=0.9)
    page = page_of(matrix_sections(distances))
    assert 'class="missing"' in page
    assert "RuntimeError: no price" in page


def test_narrow_screens_list_pairs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = ["matrix", folder / "log.csv", "--by", "week", *READ]
    monkeypatch.setenv("COLUMNS", "100")
    wide = run(*ask)
    monkeypatch.setenv("COLUMNS", "24")
    narrow = run(*ask)
    assert "2 of 3 pairs differ significantly" in wide
    assert "90 % interval" not in wide.split("exclude 0")[1]
    assert "0.0000" in wide
    assert "dista" in narrow.replace("\n", " ").split("exclude")[1]


def test_notes_of_many_are_said_once_and_in_options(folder: Path) -> None:
    (note,) = for_terminal([Note("never-left", f"w{k}", n=1, states="'a'") for k in range(5)])
    assert note.startswith("w0, w1, w2 and 2 more: ")
    assert "pass --terminated all for" in note


def test_labels_of_two_kinds_keep_what_nodes_carry(tmp_path: Path) -> None:
    """GraphML names nodes by text and GML by number; the numbers become text, and attributes stay."""
    graph = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
    <key id="s" for="node" attr.name="size" attr.type="double"/><graph edgedefault="undirected">
    <node id="p"><data key="s">1</data></node><node id="q"><data key="s">2</data></node>
    <edge source="p" target="q"/></graph></graphml>"""
    nodes = "node [ id 1 size 1.0 ] node [ id 2 size 4.0 ]"
    (tmp_path / "a.graphml").write_text(graph)
    (tmp_path / "b.gml").write_text(f"graph [ {nodes} edge [ source 1 target 2 ] ]")
    options = [tmp_path / "a.graphml", tmp_path / "b.gml", "--cost", "attribute:size", "--discount", 0.9, "--json"]
    table, pair = (json.loads(run(name, *options).splitlines()[-1]) for name in ("matrix", "distance"))
    assert pair["distance"] > 0.1
    assert table["values"][0][1] == pytest.approx(pair["distance"], abs=1e-12)


def test_a_file_that_is_called_like_a_cost_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost stays a name, which suits processes of different states."""
    for name, pages in (("a.csv", "pqpqp"), ("b.csv", "pqrpqr")):
        rows = (f"1,{k},{page}\n" for k, page in enumerate(pages))
        (tmp_path / name).write_text("user,step,page\n" + "".join(rows))
    options = ["--sequence", "user", "--time", "step", "--state", "page", "--discount", 0.5, "--json"]
    command = ["matrix", tmp_path / "a.csv", tmp_path / "b.csv", *options]
    before = json.loads(run(*command).splitlines()[-1])
    (tmp_path / "labels").write_text("not a matrix")
    monkeypatch.chdir(tmp_path)
    assert json.loads(run(*command).splitlines()[-1])["values"] == before["values"]


def test_large_folders_are_counted(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answer within what splits decide, a note, and a refusal of what counting does not know."""
    from somcot.cli import inputs as folders

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "1.csv").write_text((folder / "w0.csv").read_text())
    (tmp_path / "b" / "1.csv").write_text((folder / "w2.csv").read_text())
    ask = ["distance", tmp_path / "a", tmp_path / "b", *READ, "--json"]
    whole = json.loads(run(*ask).splitlines()[-1])
    monkeypatch.setattr(folders, "LARGE", 0)
    parts = json.loads(run(*ask).splitlines()[-1])
    assert parts["plugin"] == pytest.approx(whole["plugin"], abs=1e-12)
    assert "counted-in-files" in parts["warning_codes"]
    with pytest.raises(ValueError, match=r"does not support --end, --top; prepare the columns"):
        run(*ask, "--end", "left", "--top", "2")


def test_a_checkpoint_of_the_command_goes_on(folder: Path, tmp_path: Path) -> None:
    ask = ["matrix", folder / "log.csv", "--by", "week", *READ, "--checkpoint", tmp_path / "d.ck", "--json"]
    first, second = (json.loads(run(*ask).splitlines()[-1]) for _ in range(2))
    assert first["values"] == second["values"]
    with pytest.raises(ValueError, match="other processes or options"):
        run(*ask, "--seed", 1)


def test_selecting_among_files(folder: Path) -> None:
    files = [folder / f"w{k}.csv" for k in range(3)]
    found = json.loads(run("select", *files, *READ, "--json").splitlines()[-1])
    assert found["best"] == "w1.csv"
    assert found["confidence_set"] == ["w1.csv"]
    assert "nearest" in run("select", *files, *READ)


def test_bad_requests_name_what_to_do(folder: Path, tmp_path: Path) -> None:
    log = folder / "log.csv"
    for arguments, message in (
        (["matrix", log, *READ], "one file; name several, or split it with --by COLUMN"),
        (["matrix", log, log, "--by", "week", *READ], "--by: splits one file"),
        (["matrix", log, log, *READ], "named twice"),
        (["matrix", log, "--by", "decade", *READ], "no column 'decade'"),
        (["matrix", log, "--by", "month", *READ], "a month is cut out of times"),
        (["matrix", log, "--by", "week", *READ, "-o", tmp_path / "d.xlsx"], "expected a file ending in .csv"),
        (["matrix", log, "--by", "week", *READ, "-o", log], "is an input of this command"),
        (["matrix", log, "--by", "week", *READ, "--tests", "all"], "tests: found 'all'"),
    ):
        with pytest.raises(ValueError, match=message):
            run(*arguments)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")
@pytest.mark.parametrize("answer", ["y", "", None])
def test_a_long_run_is_asked_about_on_a_terminal_only(
    answer: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a terminal it waits for an answer; a job without one starts; --yes starts too."""
    import pty

    monkeypatch.setattr(plan, "forecast", lambda job, threads=None: 4000.0)
    arguments = ["matrix", *(str(folder / f"w{k}.csv") for k in range(3)), *READ]
    if answer is None:
        assert "Start?" not in run(*arguments)
        return
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r+b", buffering=0) as terminal, os.fdopen(ours, "r+b", buffering=0) as keyboard:
        monkeypatch.setattr("sys.stdin", open(terminal.fileno(), closefd=False))  # noqa: SIM115
        monkeypatch.setattr("sys.stderr", open(os.dup(theirs), "w"))  # noqa: SIM115
        keyboard.write(f"{answer}\n".encode())
        if answer == "y":
            assert app(arguments, standalone_mode=False) == 0
        else:
            with pytest.raises(TooLongError, match="not started; --checkpoint FILE saves finished pairs, --yes skips"):
                app(arguments, standalone_mode=False)
        sys.stderr.flush()
        shown = ""
        while "[y/N]" not in shown and select.select([keyboard], [], [], 5.0)[0]:
            shown += keyboard.read(4096).decode()
        assert "3 pairs of processes: about 67 min" in shown
        assert "Start? [y/N]" in shown
        assert app([*arguments, "--yes"], standalone_mode=False) == 0  # nobody answers
        sys.stderr.close()


def test_notes_are_for_the_command_line_and_indented(folder: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("a", "b"):  # every step depends on the last two states
        path = [0, 1]
        for _ in range(3000):
            path.append(path[-2] if rng.random() < 0.9 else int(rng.integers(3)))
        (tmp_path / f"{name}.csv").write_text("\n".join(["user,page", *(f"u,p{s}" for s in path)]) + "\n")
    shown = run("matrix", tmp_path / "a.csv", tmp_path / "b.csv", *READ)
    assert "with_order" not in shown
    assert "averaged over visits" in " ".join(shown.split())
    lines = shown.splitlines()
    notes = lines[lines.index("Notes") + 1 :]
    assert len(notes) > 1
    assert all(line.startswith(("- ", "  ")) for line in notes)


def test_the_discount_is_suggested_as_for_two(folder: Path) -> None:
    files = [folder / f"w{week}.csv" for week in range(3)]
    found = json.loads(run("matrix", *files, *READ[:4], "--json"))
    assert found["discount"] == 0.95  # sequences of 20 steps
    assert "discount-chosen" in found["warning_codes"]
    chosen = json.loads(run("select", *files, *READ[:4], "--json"))
    assert chosen["discount"] == 0.95
    same = json.loads(run("select", *files, *READ[:4], "--json", "--discount", "0.95"))
    assert same["candidates"] == chosen["candidates"]


def test_the_heat_map_is_written_and_the_tree_printed(folder: Path, tmp_path: Path) -> None:
    files, figure = [folder / f"w{k}.csv" for k in range(3)], tmp_path / "heat.svg"
    said = run("matrix", *files, *READ, "--plot", figure)
    assert f"written: {figure}" in " ".join(said.split())
    picture = figure.read_text()
    assert picture.startswith("<?xml")
    # Text is drawn as paths, whose text is kept in a comment.
    assert all(f"<!-- {name} -->" in picture for name in ("w0.csv", "w2.csv", "distance"))
    lines = said.partition("Hierarchical clustering")[2].splitlines()
    found = somcot.distance_matrix(
        {f.name: somcot.readers.from_table(f, sequence="user", state="page") for f in files},
        discount=0.9, confidence=0.9, rng=0,
    )  # fmt: skip
    # w0 and w1 are one process; w2 joins at the mean of its two distances.
    assert lines[1].split(maxsplit=1)[1].strip() == "w0.csv + w1.csv"
    assert lines[2].split(maxsplit=1)[1].strip() == "w2.csv + w0.csv, w1.csv"
    assert float(lines[2].split()[0]) == pytest.approx(found.uncut[2, :2].mean(), abs=2e-3)
    content = json.loads(run("matrix", *files[:2], *READ, "--plot", figure, "--json").splitlines()[-1])
    assert content["files"] == [str(figure)]
    assert "Hierarchical" not in run("matrix", *files[:2], *READ)
    with pytest.raises(ValueError, match=r"--plot: .*, expected a file ending in"):
        run("matrix", *files, *READ, "--plot", tmp_path / "heat.txt")
    with pytest.raises(ValueError, match="--plot"):
        run("matrix", *files, *READ, "--plot", folder / "w0.csv")
