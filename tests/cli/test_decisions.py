"""`somcot test --margin`, `sample-size` and `baseline`: exit codes, what is written, and what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import somcot
from somcot import Samples
from somcot.cli import decisions
from somcot.cli.application import app

COLUMNS = ("--state", "page", "--sequence", "session")


def write_log(path: Path, n: int, seed: int, *, hard: float = 0.5, change: float = 0.0, secret: str = "") -> Path:
    """Sessions with an easy or hard task; `change` is what easy sessions do more often: pay."""
    rng = np.random.default_rng(seed)
    rows = []
    for session in range(n):
        task = "hard" if rng.random() < hard else "easy"
        page = "home"
        for _ in range(12):
            rows.append((f"{path.stem}-{session}", page, task, secret))
            pay = 0.6 if task == "hard" else 0.2 + change
            page = "pay" if rng.random() < pay else str(rng.choice(["home", "list"]))
    pd.DataFrame(rows, columns=["session", "page", "task", "note"]).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("logs")
    return {
        "may": write_log(folder / "may.csv", 150, 1),
        "june": write_log(folder / "june.csv", 150, 2),
        "mix": write_log(folder / "mix.csv", 150, 3, hard=0.15),
        "changed": write_log(folder / "changed.csv", 150, 4, change=0.5),
        "few": write_log(folder / "few.csv", 14, 5),
    }


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*map(str, arguments)], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    assert done.return_value == code
    return done.stdout


def as_json(*arguments: object, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json", code=code).splitlines()[-1])
    return found


def refused(*arguments: object) -> str:
    done = CliRunner().invoke(app, [*map(str, arguments)], standalone_mode=False)
    assert isinstance(done.exception, (ValueError, TypeError)), done.exception
    return str(done.exception)


# --- Verdicts


@pytest.mark.parametrize(
    ("other", "margin", "verdict", "code"),
    [("june", 0.15, "equivalent", 0), ("changed", 0.05, "changed", 3), ("few", 0.01, "inconclusive", 6)],
)
def test_the_exit_code_is_the_verdict(
    logs: dict[str, Path], tmp_path: Path, other: str, margin: float, verdict: str, code: int
) -> None:
    junit, summary = tmp_path / "report.xml", tmp_path / "summary.md"
    found = as_json(
        "test",
        logs["may"],
        logs[other],
        *COLUMNS,
        "--margin",
        margin,
        "--junit",
        junit,
        "--markdown",
        summary,
        code=code,
    )
    assert (found["verdict"], found["exit_code"], found["margin"]) == (verdict, code, margin)
    assert found["meaning"].lower().startswith(verdict)
    low, high = found["confidence_interval"]["low"], found["confidence_interval"]["high"]
    assert (high < margin) == (verdict == "equivalent") == (found["equivalence_pvalue"] <= 0.05)
    assert low <= found["distance"] <= high
    assert (found["sequences_needed"] is not None) == (verdict == "inconclusive")
    suite = ElementTree.fromstring(junit.read_bytes())
    case = suite.find("testcase")
    assert case is not None
    tags = {child.tag for child in case}
    assert tags == {"system-out"} | {"changed": {"failure"}, "inconclusive": {"skipped"}}.get(verdict, set())
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
        "1", str(int(verdict == "changed")), "0", str(int(verdict == "inconclusive"))
    ]  # fmt: skip
    text = summary.read_text(encoding="utf-8")
    heading, _, sentence = text.splitlines()[:3]
    assert heading.endswith(verdict.capitalize())
    assert sentence.lower() == found["meaning"].partition(": ")[2].lower()  # without the verdict a second time
    shown = run("test", logs["may"], logs[other], *COLUMNS, "--margin", margin, code=code)
    assert verdict in shown.lower()


def test_without_a_margin_nothing_changes(logs: dict[str, Path]) -> None:
    found = as_json("test", logs["may"], logs["changed"], *COLUMNS)
    assert found["pvalue"] <= 0.05
    assert not {"verdict", "margin", "exit_code", "mix"} & set(found)
    for option in ("--junit", "--markdown"):
        assert f"{option}: a verdict needs a margin" in refused(
            "test", logs["may"], logs["june"], *COLUMNS, option, "f"
        )


def test_a_baseline_sets_the_discount_and_takes_ends(tmp_path: Path) -> None:
    """The same measure whatever is compared with it; --terminated applies to both sides."""
    baseline = tmp_path / "base.somcot"
    paths = {name: [["a"] * (length - 1) + ["z"]] * 30 for name, length in (("base", 11), ("long", 31), ("short", 5))}
    for name, sessions in paths.items():
        (tmp_path / f"{name}.seq").write_text("\n".join(map(" ".join, sessions)) + "\n")
    run("baseline", tmp_path / "base.seq", "-o", baseline)
    for other in ("long", "short"):
        for files in ((baseline, tmp_path / f"{other}.seq"), (tmp_path / f"{other}.seq", baseline)):
            found = as_json("test", *files, "--terminated", "all")
            assert found["discount"] == 0.9
            assert not any("--terminated" in note for note in found["warnings"])
            (note,) = (note for note in found["warnings"] if "discount" in note)
            assert "base.somcot has 10 steps" in note
    screen = run("test", baseline, tmp_path / "long.seq", "--terminated", "all")
    assert re.search(r"clock +discount 0.9 ", screen)
    assert "before correction" in screen


def test_what_the_margin_refers_to(logs: dict[str, Path], tmp_path: Path) -> None:
    """Sequences that end have two numbers; both are shown, and equal those of `somcot distance`."""
    both = (logs["may"], logs["changed"], *COLUMNS, "--end", "left", "--seed", 3)
    summary = tmp_path / "summary.md"
    found = as_json("test", *both, "--margin", 0.05, "--markdown", summary, code=3)
    plain = as_json("distance", *both)
    for key in ("distance", "active_share"):
        assert found[key] == plain[key]
    assert found["before_end"]["distance"] == plain["before_end"]["distance"] > found["distance"]
    assert found["pvalue"] == plain["estimate"]["pvalue"]
    assert "| before the end |" in summary.read_text()
    screen = run("test", *both, "--margin", 0.05, code=3)
    assert "which is what the margin refers to" in screen
    assert "before the end" in screen


@pytest.mark.parametrize(
    ("initial", "start"), [(None, "uniform"), ([0.0, 1.0], "state 1"), ([0.2, 0.8], "a distribution")]
)
def test_known_chains_say_where_they_start(initial: list[float] | None, start: str, tmp_path: Path) -> None:
    kernel = np.array([[0.9, 0.1], [0.5, 0.5]])
    path = tmp_path / "chain.npz"
    arrays: dict[str, Any] = {"transition": kernel} | ({} if initial is None else {"initial": np.array(initial)})
    np.savez(path, **arrays)
    assert f"start: {start}" in run("info", path)
    assert f"start: {start}" in run("distance", path, path, "--discount", 0.9)
    assert as_json("info", path)["start"] == start


@pytest.mark.parametrize("command", ["test", "distance"])
def test_an_attribute_without_values_has_no_strata(command: str, tmp_path: Path) -> None:
    """Sessions of agents have a task only if their traces name one."""
    for seed, name in enumerate(("before", "after")):
        write_sessions(tmp_path / name, 12, seed, 0.0)
        for path in (tmp_path / name).iterdir():
            path.write_text(json.dumps({"messages": json.loads(path.read_text())["messages"]}))
    said = refused(command, tmp_path / "before", tmp_path / "after", "--strata", "task")
    assert "no sequence of" in said
    assert "'task'" in said
    out = run("baseline", tmp_path / "before", "-o", tmp_path / "b.somcot")
    assert "task" not in out.partition("attributes:")[2].splitlines()[0]


def test_strata_take_out_the_mix(logs: dict[str, Path], tmp_path: Path) -> None:
    pair, options = (logs["may"], logs["mix"]), (*COLUMNS, "--margin", 0.08)
    bare = as_json("test", *pair, *options, code=3)
    assert "strata" not in bare
    assert bare["mix"] is None
    summary = tmp_path / "summary.md"
    found = as_json("test", *pair, *options, "--strata", "task", "--markdown", summary)
    assert (found["verdict"], found["strata"]) == ("equivalent", "task")
    assert found["mix"] > 0.05
    sentence = f"{found['mix']:.4f} the mix of strata"
    assert sentence in summary.read_text(encoding="utf-8")
    assert sentence in re.sub(r"[\s│]+", " ", run("test", *pair, *options, "--strata", "task"))  # wrapped in a box
    whole = as_json("distance", *pair, *COLUMNS, "--strata", "task")
    assert whole["estimate"]["mix"] == pytest.approx(found["mix"])
    page = tmp_path / "page.html"
    shown = run("distance", *pair, *COLUMNS, "--strata", "task", "--html", page)
    assert sentence in re.sub(r"[\s│]+", " ", shown)  # wrapped in a box
    assert sentence in page.read_text(encoding="utf-8")


def test_pairs_by_a_column(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("before", "after"):
        rows = [(f"{task}", str(rng.choice(["a", "b"])), task) for task in range(40) for _ in range(10)]
        pd.DataFrame(rows, columns=["session", "page", "task"]).to_csv(tmp_path / f"{name}.csv", index=False)
    pair = tmp_path / "before.csv", tmp_path / "after.csv"
    found = as_json("test", *pair, *COLUMNS, "--margin", 0.3, "--paired-by", "task")
    assert found["paired_by"] == "task"
    assert found["compared_within"].startswith("40 tasks, each with 1 run in before.csv and 1 in after.csv")
    lacking = pd.read_csv(pair[1])
    lacking[lacking.task != 7].to_csv(pair[1], index=False)
    assert "has no sequence in 1 of 40 tasks: 7" in refused(
        "test", *pair, *COLUMNS, "--margin", 0.3, "--paired-by", "task"
    )


def test_several_runs_of_a_task(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for name, runs in (("before", 3), ("after", 2)):
        rows = [
            (f"{task}-{run}", str(rng.choice(["a", "b"])), task)
            for task in range(15) for run in range(runs + (task == 4)) for _ in range(8)
        ]  # fmt: skip
        pd.DataFrame(rows, columns=["session", "page", "task"]).to_csv(tmp_path / f"{name}.csv", index=False)
    pair = tmp_path / "before.csv", tmp_path / "after.csv"
    found = as_json("test", *pair, *COLUMNS, "--paired-by", "task")
    words = (
        "15 tasks, each with 3 to 4 runs in before.csv and 2 to 3 in after.csv; runs are exchanged within their task"
    )
    assert found["compared_within"] == words


@pytest.mark.parametrize("command", ["test", "distance"])
def test_errors_about_strata_name_the_file(command: str, tmp_path: Path) -> None:
    for name, tasks in {"may": "aabb", "june": "aaaa"}.items():
        rows = "".join(f"{k},{task},{page}\n" for k, task in enumerate(tasks) for page in ("home", "cart", "home"))
        (tmp_path / f"{name}.csv").write_text(f"sequence,task,state\n{rows}")
    found = refused(command, tmp_path / "may.csv", tmp_path / "june.csv", "--strata", "task")
    assert "june.csv has no sequence in 1 of 2 strata: 'b'" in found


@pytest.mark.parametrize("flag", ["--strata", "--paired-by"])
def test_a_baseline_without_the_column_is_written_again(flag: str, logs: dict[str, Path], tmp_path: Path) -> None:
    target = tmp_path / "b.somcot"
    for kept, known in ((), "none"), (("--attribute", "note"), "note"):
        run("baseline", logs["may"], *COLUMNS, *kept, "-o", target, "--force")
        found = refused("test", target, logs["june"], *COLUMNS, "--margin", "0.05", flag, "task")
        expected = f"{flag}: b.somcot was written without 'task' (attributes: {known}); write the baseline with"
        assert f"{expected} --attribute task" in found
    run("baseline", logs["may"], *COLUMNS, "--attribute", "task", "-o", target, "--force")
    assert "was written without" not in run("test", target, logs["june"], *COLUMNS, "--strata", "task")


def test_strata_in_the_other_commands(logs: dict[str, Path], tmp_path: Path) -> None:
    three = [logs[name] for name in ("may", "june", "mix")]
    matrix = as_json("matrix", *three, *COLUMNS, "--strata", "task")
    bare = as_json("matrix", *three, *COLUMNS)
    assert matrix != bare
    chosen = as_json("select", *three, *COLUMNS, "--strata", "task")
    assert chosen["best"]
    frames = [pd.read_csv(path).assign(month=path.stem) for path in three]
    pd.concat(frames).to_csv(tmp_path / "all.csv", index=False)
    assert as_json("drift", tmp_path / "all.csv", *COLUMNS, "--by", "month", "--alarm", code=3)["alarm"]
    assert not as_json("drift", tmp_path / "all.csv", *COLUMNS, "--by", "month", "--strata", "task")["alarm"]
    groups = as_json(
        "test", tmp_path / "all.csv", *COLUMNS, "--by", "month", "--groups", "may", "mix", "--strata", "task",
        "--margin", 0.08,
    )  # fmt: skip
    assert groups["verdict"] == "equivalent"


def test_several_columns_of_strata(logs: dict[str, Path], tmp_path: Path) -> None:
    pair = []
    for name in ("may", "june"):
        frame = pd.read_csv(logs[name])
        model = frame[COLUMNS[3]].rank(method="dense").astype(int) % 2
        frame.assign(model=model, both=frame.task.astype(str) + model.astype(str)).to_csv(tmp_path / f"{name}.csv")
        pair.append(tmp_path / f"{name}.csv")
    for flag in ("--strata", "--paired-by"):
        two = as_json("test", *pair, *COLUMNS, flag, "task", flag, "model")
        one = as_json("test", *pair, *COLUMNS, flag, "both")
        assert two["pvalue"] == one["pvalue"]
        assert two["compared_within"] == one["compared_within"]
        name = flag[2:].replace("-", "_")
        assert (two[name], one[name]) == (["task", "model"], "both")
    command = ("--strata", "task", "--strata", "model")
    found = [as_json("distance", *pair, *COLUMNS, *given)["distance"] for given in (command, ("--strata", "both"))]
    assert found[0] == found[1]
    assert as_json("matrix", *pair, *COLUMNS, *command)["values"][0][1] == found[0]
    assert "name several one by one" in refused("test", *pair, *COLUMNS, "--strata", "task,model")
    assert "'country'" in refused("test", *pair, *COLUMNS, "--strata", "task", "--strata", "country")


def test_refused(logs: dict[str, Path], tmp_path: Path) -> None:
    pair = (logs["may"], logs["june"], *COLUMNS)
    assert "margin" in refused("test", *pair, "--margin", 1.5)
    assert "margin" in refused("test", *pair, "--margin", 0)
    assert "country" in refused("test", *pair, "--strata", "country")
    assert "paired" in refused("test", *pair, "--strata", "task", "--paired-by", "task")
    assert "--strata" in refused("distance", *pair, "--strata", "task", "--method", "plugin")
    one_sided = pd.read_csv(logs["june"]).assign(task="other")
    one_sided.to_csv(tmp_path / "other.csv", index=False)
    message = refused("test", logs["may"], tmp_path / "other.csv", *COLUMNS, "--strata", "task")
    assert "has no sequence in" in message
    assert refused("test", *pair, "--margin", 0.1, "--junit", logs["may"])  # an input is not overwritten


# --- The page

GATE = (Path(__file__).parents[2] / "docs" / "gate.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GATE, re.MULTILINE | re.DOTALL)


def test_the_workflow_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands, in a shell, after those that write the baseline: equal runs pass, changed ones fail with 3."""
    monkeypatch.chdir(tmp_path)
    (workflow,) = blocks("yaml")
    command = textwrap.dedent(workflow.partition("run: |\n")[2])
    assert "somcot test baseline.somcot candidate/ --margin" in command
    (setup,) = (block for block in blocks("sh") if "somcot baseline" in block)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.txt"))
    for folder, seed, change in (("runs", 1, 0.0), ("candidate", 2, 0.0), ("worse", 3, 0.7)):
        write_sessions(tmp_path / folder, 150, seed, change)
    shell(setup)
    assert shell(command) == 0, command
    assert "Equivalent" in (tmp_path / "summary.txt").read_text(encoding="utf-8")
    (tmp_path / "candidate").rename(tmp_path / "good")
    (tmp_path / "worse").rename(tmp_path / "candidate")
    assert shell(command) == 3
    assert "Changed" in (tmp_path / "summary.txt").read_text(encoding="utf-8")


def shell(command: str) -> int:
    return subprocess.run(["bash", "-e", "-c", command], check=False, capture_output=True).returncode


def write_sessions(folder: Path, n: int, seed: int, change: float) -> None:
    """Sessions of an agent in the notation of OpenAI's messages; the task is among the metadata."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for k in range(n):
        task = ("fix", "explain")[k % 2]
        names = ["search"]
        while names[-1] != "answer" and len(names) < 12:
            tools = ["search", "read", "edit" if task == "fix" else "read", "answer"]
            odds = np.array([0.2 + change, 0.4, 0.2, 0.2])
            names.append(str(rng.choice(tools, p=odds / odds.sum())))
        calls: list[dict[str, Any]] = []
        for i, name in enumerate(names):
            call = {"id": f"{i}", "type": "function", "function": {"name": name, "arguments": "{}"}}
            calls += [{"role": "assistant", "content": None, "tool_calls": [call]},
                      {"role": "tool", "tool_call_id": f"{i}", "content": "done"}]  # fmt: skip
        messages = [{"role": "user", "content": task}, *calls, {"role": "assistant", "content": "Finished."}]
        (folder / f"{k}.json").write_text(json.dumps({"task": task, "messages": messages}))


def test_the_test_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = [block for block in blocks("python") if "assert_same_process" in block]
    assert len(first) == 1
    walk = somcot.random_walk(6)
    (tmp_path / "tests").mkdir()
    walk.sample(600, 40, rng=1).save(tmp_path / "tests" / "baseline.somcot")
    for theta, passes in ((0.5, True), (0.75, False)):
        runs = somcot.random_walk(6, theta)
        names: dict[str, Any] = {"simulate": lambda seed, runs=runs: paths(runs, seed)}
        exec(compile(first[0], "gate.md", "exec"), names)
        if passes:
            names["test_release_behaves_as_before"]()
        else:
            with pytest.raises(AssertionError, match="Changed"):
                names["test_release_behaves_as_before"]()


def paths(chain: somcot.MarkovChain, seed: int) -> list[Any]:
    recorded = chain.sample(1, 40, rng=1000 + seed)
    return [recorded.states[k] for k in (*recorded.now, recorded.following[-1])]


def test_the_page_is_short() -> None:
    assert len(GATE.split()) <= 700


# --- Summaries


def content(label: str) -> dict[str, Any]:
    share = {"state": label, "next_state": "b", "probability_x": 0.5, "probability_y": 0.25}
    size = {"n_episodes": 3, "n_transitions": 9}
    return {
        "verdict": "changed", "meaning": "Changed: they differ.", "margin": 0.1, "equivalence_pvalue": 1.0,
        "pvalue": 0.01, "distance": 0.2, "confidence_interval": {"low": 0.1, "high": 0.3, "level": 0.9}, "mix": None,
        "contributions": [share], "warnings": [label], "x": size, "y": size,
    }  # fmt: skip


@pytest.mark.parametrize(
    "label",
    ["a|b", "<script>alert(1)</script>", "]]>&\"'", "\x00\x1b[31m\ud800", "@team [x](http://y) `z` ![i](j)", "a\n| b",
     "https://evil.example WWW.evil.example $x^2$ \u202etrac\u2066"],
)  # fmt: skip
def test_labels_cannot_leave_their_place(label: str) -> None:
    suite = ElementTree.fromstring(decisions.junit(content(label), (label, "y")).encode())
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.text is not None
    assert "0.500 in" in failure.text
    assert "\n" not in failure.text
    text = decisions.markdown(content(label), (label, "y")).removesuffix("<!-- somcot -->\n")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    columns = {line.replace("\\|", "").count("|") for line in rows}
    assert columns == {3, 5}  # the facts, and the transitions
    assert "<" not in text
    assert "\x1b" not in text
    for sign in "`[]!$":
        assert text.count(sign) == text.count(f"\\{sign}")
    for unwanted in ("@team", "://", "www.", "\u202e", "\u2066", "p = over"):
        assert unwanted not in text.lower()


def test_markdown_keeps_the_text_of_labels() -> None:
    text = decisions.markdown(content("task 1 (slow)"), ("x", "y"))
    assert "task 1 \\(slow\\)" in text


def test_junit_keeps_the_text_of_labels() -> None:
    suite = ElementTree.fromstring(decisions.junit(content("<a> & 'b'"), ("x", "y")))
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.text == "<a> & 'b' -> b: 0.500 in x, 0.250 in y"
    assert failure.get("message") == "Changed: they differ."


# --- Baselines


def test_a_baseline_has_states_and_attributes_and_nothing_else(logs: dict[str, Path], tmp_path: Path) -> None:
    source = write_log(tmp_path / "runs.csv", 60, 7, secret="a secret message")
    out = tmp_path / "baseline.somcot"
    facts = as_json("baseline", source, *COLUMNS, "--attribute", "task", "-o", out)
    assert (facts["n_sequences"], facts["attributes"]) == (60, ["task"])
    assert facts["n_bytes"] == out.stat().st_size < 0.2 * source.stat().st_size
    raw = out.read_bytes()
    for secret in (b"secret", b"runs-1"):
        assert secret not in raw
        assert not any(secret in part for part in _unpacked(out))
    read, kept = somcot.readers.read(out), somcot.readers.from_table(
        source, state="page", sequence="session", attributes=["task"])  # fmt: skip
    assert isinstance(read, Samples)
    assert read.states == kept.states
    assert (read.now == kept.now).all()
    assert (read.following == kept.following).all()
    assert np.array_equal(np.asarray(read.offsets), np.asarray(kept.offsets))
    assert list(read.episode_attributes["task"]) == list(kept.episode_attributes["task"])
    direct = as_json("test", source, logs["june"], *COLUMNS, "--strata", "task", "--margin", 0.2)
    stored = as_json("test", out, logs["june"], *COLUMNS, "--strata", "task", "--margin", 0.2)
    for key in ("verdict", "pvalue", "distance", "confidence_interval"):
        assert stored[key] == direct[key]


def _unpacked(path: Path) -> list[bytes]:
    """Contents of the members, if the file is an archive."""
    if not zipfile.is_zipfile(path):
        return []
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name) for name in archive.namelist()]


def test_a_baseline_of_traces_has_no_arguments(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    for k in range(3):
        call = {"id": "1", "type": "function", "function": {"name": "read", "arguments": '{"path": "/secret/place"}'}}
        messages = [
            {"role": "user", "content": "the secret request"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "secret text"},
            {"role": "assistant", "content": "the secret answer"},
        ]
        (folder / f"{k}.json").write_text(json.dumps({"messages": messages}))
    out = tmp_path / "agent.somcot"
    facts = as_json("baseline", folder, "-o", out)
    assert facts["n_sequences"] == 3
    assert b"secret" not in out.read_bytes()
    assert not any(b"secret" in part for part in _unpacked(out))


def test_bad_baselines(logs: dict[str, Path], tmp_path: Path) -> None:
    assert ".somcot" in refused("baseline", logs["may"], *COLUMNS, "-o", tmp_path / "b.npz")
    assert "country" in refused(
        "baseline", logs["may"], *COLUMNS, "--attribute", "country", "-o", tmp_path / "b.somcot"
    )
    damaged = tmp_path / "damaged.somcot"
    run("baseline", logs["few"], *COLUMNS, "-o", damaged)
    raw = bytearray(damaged.read_bytes())
    raw[len(raw) // 2] ^= 255
    damaged.write_bytes(bytes(raw))
    assert "damaged" in refused("info", damaged)


# --- Plans


def test_a_plan_on_the_command_line(logs: dict[str, Path], tmp_path: Path) -> None:
    picture = tmp_path / "power.png"
    found = as_json("sample-size", logs["few"], *COLUMNS, "--effect", 0.08, "--plot", picture)
    assert found["n_sequences"] >= 10
    assert picture.read_bytes()[:4] == b"\x89PNG"
    pilot = somcot.readers.from_table(logs["few"], state="page", sequence="session")
    with pytest.warns(somcot.DataWarning, match="halves of the pilot differ"):  # 14 sequences
        plan = somcot.sample_size(pilot, effect=0.08, discount=found["discount"])
    assert found["n_sequences"] == plan.n_sequences
    assert found["pilot_error"] == plan.pilot_error > 0.07
    assert any("halves of the pilot differ" in warning for warning in found["warnings"])
    assert [tuple(point.values()) for point in found["points"]] == [tuple(point) for point in plan.points]
    assert "effect" in refused("sample-size", logs["few"], *COLUMNS, "--effect", 0.99)
    assert "--html" in refused("sample-size", logs["few"], *COLUMNS, "--effect", 0.08, "--html", tmp_path / "x.html")
    assert "kind" in refused("sample-size", logs["few"], *COLUMNS, "--effect", 0.08, "--kind", "column")
    in_state = ("sample-size", logs["few"], *COLUMNS, "--effect", 0.01, "--in-state")
    assert refused(*in_state, "nowhere", "--kind", "row").startswith("--in-state: 'nowhere' is not a state of")
    assert refused(*in_state, "home").startswith("--in-state: ")
