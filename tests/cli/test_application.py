"""The command, run as a user runs it: every command, every kind of file, and its JSON against the Python call."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import somcot
from somcot.cli import application as cli
from somcot.data import clickstream
from somcot.readers import from_dtrajs, from_table, read
from somcot.result import Status
from tests.command_server import Command, Finished

pa = pytest.importorskip("pyarrow")
MAY, JUNE = (str(clickstream.path(month)) for month in ("may", "june"))
COLUMNS = ["--sequence", "session", "--time", "time", "--state", "page", "--terminated", "all"]
RNG = np.random.default_rng(7)


def fresh(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command in a new interpreter."""
    return subprocess.run(
        [sys.executable, "-m", "somcot", *args], capture_output=True, text=True, check=False, **options
    )


def answer(done: Finished | subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
    assert done.returncode == code, done.stderr
    assert done.stdout.count("\n") == 1
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def test_version() -> None:
    assert fresh("--version").stdout.strip() == somcot.__version__


def test_help_lists_the_commands_and_loads_nothing_heavy() -> None:
    done = fresh("--help")
    assert done.returncode == 0
    for name in ("distance", "test", "metric", "info", "demo", "reproduce", "completion", "warm-up"):
        assert f"\n  {name} " in done.stdout
    heavy = ("numba", "scipy", "rich", "pyarrow")
    code = f"import sys, somcot.cli.application; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_an_option_that_is_given_again_is_refused(command: Command, tmp_path: Path) -> None:
    done = command("test", MAY, JUNE, *COLUMNS, "--cost", "labels", "--cost", "labels", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --cost: found 2 times, expected once")
    twice = command("info", MAY, *COLUMNS[:4], "--state", "page", "--state", "session", cwd=tmp_path)
    assert twice.returncode == 0  # one state of two columns


def test_distance_prints_what_the_library_finds(command: Command, tmp_path: Path) -> None:
    found = answer(command("distance", MAY, JUNE, *COLUMNS, "--discount", "0.9", "--json", cwd=tmp_path))
    x, y = (from_table(f, sequence="session", time="time", state="page", terminated=True) for f in (MAY, JUNE))
    cost = somcot.costs.labels(x.states, y.states)
    wanted = somcot.distance(x, y, cost, discount=0.9, confidence=0.9, rng=0)
    assert found["distance"] == wanted.distance
    assert wanted.confidence_interval is not None
    assert found["confidence_interval"] == wanted.confidence_interval._asdict()
    assert found["plugin"] == wanted.plugin
    assert found["claim"] == "estimated"
    assert found["bounds"] is None
    assert found["before_correction"] == {"distance": wanted.plugin, "bounds": wanted.bounds._asdict()}
    assert found["n_samples"] == [x.n_transitions, y.n_transitions]
    assert found["x"] == {
        "source": MAY, "kind": "samples", "n_states": 12, "n_transitions": x.n_transitions, "n_episodes": 5000
    }  # fmt: skip
    assert [(m["x"], m["y"], m["probability"]) for m in found["matches"]] == [
        (m.x, m.y, m.probability) for m in wanted.matches()
    ]
    assert found["warnings"] == []


def test_the_keys_are_the_documented_ones(command: Command, tmp_path: Path) -> None:
    found = answer(command("distance", MAY, JUNE, *COLUMNS, "--discount", "0.9", "--json", cwd=tmp_path))
    documented = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    for key in found:
        assert f"| `{key}` |" in documented, key


def test_panel_shows_number_interval_and_matches(command: Command, tmp_path: Path) -> None:
    done = command("distance", MAY, JUNE, *COLUMNS, "--discount", "0.9", cwd=tmp_path)
    assert done.returncode == 0
    for text in (
        "distance", "interval", "90 % confidence", "before correction", "for the estimated chains",
        "25,884 transitions", "Strongest", "state in may.csv", "state in june.csv", "product",
        "On about 11.8 % of the steps that matter, june.csv", "Transitions with the largest", "while in june.csv",
    ):  # fmt: skip
        assert text in done.stdout
    assert "bracket" not in done.stdout
    assert "gap" not in done.stdout
    assert done.stderr == ""


def test_report_and_figure_are_written(command: Command, tmp_path: Path) -> None:
    done = command(
        "distance", MAY, JUNE, *COLUMNS, "--discount", "0.9", "--html", "new/report.html", "--plot", "new/figure.svg",
        "--json", cwd=tmp_path,
    )  # fmt: skip
    assert answer(done)["files"] == {"report": "new/report.html", "figure": "new/figure.svg"}
    page = (tmp_path / "new" / "report.html").read_text(encoding="utf-8")
    assert "may.csv" in page
    assert "somcot distance" in page
    assert "<svg" in (tmp_path / "new" / "figure.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("method", ["plugin", "exact", "lp", "somcot"])
def test_every_method_can_be_asked_for(method: str, command: Command, tmp_path: Path) -> None:
    options = [*COLUMNS, "--discount", "0.9", "--json", "--method", method]
    done = command("distance", MAY, JUNE, *options, cwd=tmp_path)
    assert done.stderr == ""  # progress is for terminals
    found = answer(done)
    assert found["method"] == method
    assert found["distance"] == pytest.approx(0.1255, abs=1e-4 if method != "somcot" else 0.05)
    assert found["claim"] == ("nothing proved" if method == "somcot" else "estimated")


def test_same_process_or_not(command: Command, tmp_path: Path) -> None:
    options = [*COLUMNS, "--discount", "0.8", "--permutations", "19", "--json"]
    assert answer(command("test", MAY, JUNE, *options, cwd=tmp_path))["pvalue"] == 1 / 20
    same = answer(command("test", MAY, MAY, *options, cwd=tmp_path))
    assert same["statistic"] == pytest.approx(0.0, abs=1e-12)
    assert same["pvalue"] == 1.0
    assert same["stopped_early"]
    assert "too-alike" in same["warning_codes"]
    done = command("test", MAY, JUNE, *options[:-1], cwd=tmp_path)
    assert "The recordings differ" in done.stdout


def test_metric_prints_and_writes_every_pair(command: Command, tmp_path: Path) -> None:
    options = [*COLUMNS, "--discount", "0.9", "--out", "pairs.csv"]
    found = answer(command("metric", MAY, JUNE, *options, "--json", cwd=tmp_path))
    x, y = (from_table(f, sequence="session", time="time", state="page", terminated=True) for f in (MAY, JUNE))
    wanted = somcot.metric(x.chain(), y.chain(), somcot.costs.labels(x.states, y.states), discount=0.9)
    np.testing.assert_array_equal(found["metric"], wanted)
    rows = (tmp_path / "pairs.csv").read_text().splitlines()
    assert rows[0].split(",")[1:] == list(y.states)
    assert float(rows[2].split(",")[3]) == wanted[1, 2]
    assert "the first 12 x 7 of 12 x 12" in command("metric", MAY, JUNE, *options, cwd=tmp_path).stdout


def test_info_counts_and_warns(command: Command, tmp_path: Path) -> None:
    found = answer(command("info", MAY, "--sequence", "session", "--state", "page", "--json", cwd=tmp_path))
    samples = from_table(MAY, sequence="session", state="page")
    assert found["visits"] == samples.visits.tolist()
    assert found["states"] == list(samples.states)
    assert found["n_terminated"] == 0
    assert found["expected"]["state_pairs"] == 144
    assert any("never left" in text and "--terminated all" in text for text in found["warnings"])
    assert "Most visited" in command("info", MAY, *COLUMNS, cwd=tmp_path).stdout


def files_of_every_kind(folder: Path) -> list[tuple[str, list[str]]]:
    """The same three sequences in every format that can hold them."""
    frame = {"q": [0, 0, 0, 1, 1, 1, 1], "t": [0, 1, 2, 0, 1, 2, 3], "s": [0, 1, 1, 1, 0, 1, 0]}
    rows = list(zip(*frame.values(), strict=True))
    (folder / "a.csv").write_text("q,t,s\n" + "".join(f"{q},{t},{s}\n" for q, t, s in rows))
    (folder / "a.tsv").write_text("q\tt\ts\n" + "".join(f"{q}\t{t}\t{s}\n" for q, t, s in rows))
    (folder / "a.jsonl").write_text("".join(json.dumps(dict(zip("qts", row, strict=True))) + "\n" for row in rows))
    (folder / "a.csv.gz").write_bytes(gzip.compress((folder / "a.csv").read_bytes()))
    import pyarrow.parquet as pq

    pq.write_table(pa.table(frame), folder / "a.parquet")
    np.savez(folder / "a.npz", one=[0, 1, 1], two=[1, 0, 1, 0])
    table = ["--sequence", "q", "--time", "t", "--state", "s"]
    return [(f"a.{ending}", table) for ending in ("csv", "tsv", "jsonl", "csv.gz", "parquet")] + [("a.npz", [])]


def test_every_kind_of_file_gives_the_same_counts(command: Command, tmp_path: Path) -> None:
    wanted = from_dtrajs([[0, 1, 1], [1, 0, 1, 0]])
    for name, options in files_of_every_kind(tmp_path):
        found = answer(command("info", name, *options, "--json", cwd=tmp_path))
        assert (found["states"], found["visits"]) == ([0, 1], wanted.visits.tolist()), name
        assert found["n_episodes"] == 2


def test_standard_input(command: Command, tmp_path: Path) -> None:
    for name, options in files_of_every_kind(tmp_path):
        given = [*options, *(["--format", "tsv"] if name.endswith("tsv") else [])]
        found = answer(command("info", "-", *given, "--json", cwd=tmp_path, stdin=tmp_path / name))
        assert (found["source"], found["n_transitions"]) == ("standard input", 5), name


def test_known_chains_from_arrays_and_graphs(command: Command, tmp_path: Path) -> None:
    walk = somcot.random_walk(4, 0.3)
    np.save(tmp_path / "walk.npy", walk.transition)
    np.savez(tmp_path / "fair.npz", transition_matrix=somcot.random_walk(4, 0.5).transition, initial=[1, 0, 0, 0])
    found = answer(
        command("distance", "walk.npy", "fair.npz", "--start", "0", "--discount", "0.9", "--json", cwd=tmp_path)
    )
    fair = somcot.random_walk(4, 0.5)
    wanted = somcot.distance(walk, fair, somcot.costs.labels(range(4), range(4)), discount=0.9)
    assert found["distance"] == pytest.approx(wanted.distance, abs=1e-12)
    assert found["confidence_interval"] is None
    assert found["x"]["kind"] == "chain"
    (tmp_path / "a.edges").write_text("a b\nb c\n")
    (tmp_path / "b.edges").write_text("a b\nb c\nc a\n")
    found = answer(command("distance", "a.edges", "b.edges", "--discount", "0.9", "--json", cwd=tmp_path))
    assert 0 < found["distance"] < 1


def test_a_node_named_by_a_long_number_is_a_start(command: Command, tmp_path: Path) -> None:
    """Whole numbers are labels of up to 18 digits, longer ones are texts."""
    for name in ("123456789012345678", "1234567890123456789"):
        (tmp_path / "g.edges").write_text(f"{name} {name[::-1]} 1\n")
        done = command("info", "g.edges", "--start", name, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")


def test_costs_from_rewards_and_files(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("state,gain\nx,1\ny,0\nx,3\ny,0\n")
    (tmp_path / "b.csv").write_text("state,gain\nx,1\ny,1\nx,1\nx,1\n")
    (tmp_path / "cost.csv").write_text(",y,x\ny,0,2\nx,2,0\n")
    np.save(tmp_path / "cost.npy", np.array([[0.0, 2.0], [2.0, 0.0]]))
    x, y = (read(tmp_path / f, reward="gain") for f in ("a.csv", "b.csv"))
    assert isinstance(x, somcot.samples.Samples)
    assert isinstance(y, somcot.samples.Samples)
    assert x.features is not None
    assert y.features is not None
    by_reward = np.asarray(somcot.costs.from_features(x, y))
    for text, cost in (("reward:gain", by_reward), ("cost.csv", [[0, 2], [2, 0]]), ("cost.npy", [[0, 2], [2, 0]])):
        done = command("distance", "a.csv", "b.csv", "--discount", "0.8", "--method", "plugin", "--cost", text,
                       "--json", cwd=tmp_path)  # fmt: skip
        wanted = somcot.distance(x.chain(), y.chain(), cost, discount=0.8)
        assert answer(done)["distance"] == pytest.approx(wanted.distance, abs=1e-9), text


def test_recordings_may_start_in_the_long_run(command: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, first in (("a", 0), ("b", 1)):
        path = np.append(first, rng.integers(0, 2, size=400))
        np.save(tmp_path / f"{name}.npy", path)
        (tmp_path / f"{name}.csv").write_text("state\n" + "".join(f"{s}\n" for s in path))
    for ending in ("npy", "csv"):
        pair = (f"a.{ending}", f"b.{ending}", "--discount", "0.5", "--json", "--method", "plugin")
        counted, long_run = (answer(command("distance", *pair, *more, cwd=tmp_path))
                             for more in ((), ("--start", "stationary")))  # fmt: skip
        assert counted["plugin"] > 0.5 > 0.2 > long_run["plugin"]


def test_rewards_on_the_command_line_are_estimates(command: Command, tmp_path: Path) -> None:
    """Noise of the means widens the interval; where they differ clearly a note says that they were pooled."""
    for name, gains in (("a", "13"), ("b", "12"), ("c", "78")):
        rows = "".join(f"x,{gains[k % 2]}\ny,0\n" for k in range(20))
        (tmp_path / f"{name}.csv").write_text(f"state,gain\n{rows}")
    for other, warned in (("b.csv", False), ("c.csv", True)):
        options = ["--discount", "0.5", "--cost", "reward:gain", "--json"]
        found = answer(command("distance", "a.csv", other, *options, cwd=tmp_path))
        assert ("features-differ" in found["warning_codes"]) is warned


def test_notes_are_a_list_in_the_names_of_the_files(command: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.tile([0, 1], 30))
    np.save(tmp_path / "b.npy", np.tile([0, 1, 1], 30))
    shown = command("distance", "a.npy", "b.npy", "--lag", "2", "--sliding", "--discount", "0.5", cwd=tmp_path).stdout
    assert "\nNotes\n" in shown
    assert "- a.npy and b.npy: steps overlap (--sliding)" in shown
    assert shown.count("steps overlap") == 1
    assert "[overlapping-steps]" in " ".join(shown.split())  # for `somcot explain`
    assert "mind" not in shown
    assert not re.search(r"[- ][xyAB]: ", shown)


def test_labels_are_matched_and_strangers_listed(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("state\n" + "\n".join(["1", "2", "1", "2", "9"] * 5) + "\n")
    (tmp_path / "b.csv").write_text("state\n" + "\n".join(["1", "2", "1", "new"] * 5) + "\n")
    found = answer(command("distance", "a.csv", "b.csv", "--discount", "0.5", "--json", cwd=tmp_path))
    assert (found["only_x"], found["only_y"]) == (["9"], ["new"])
    assert "numbers-as-text" in found["warning_codes"]
    shown = command("distance", "a.csv", "b.csv", "--discount", "0.5", cwd=tmp_path).stdout
    assert re.search(r"^9 +vanished .*5 → 0", shown, re.MULTILINE)
    assert re.search(r"^new +new .*0 → 5", shown, re.MULTILINE)


def test_bins_are_the_same_on_both_sides(command: Command, tmp_path: Path) -> None:
    for name, shift in (("a", 0.0), ("b", 5.0)):
        values = RNG.normal(size=200) + shift
        (tmp_path / f"{name}.csv").write_text("speed\n" + "\n".join(f"{v:.6f}" for v in values) + "\n")
    options = ["--state", "speed", "--bins", "speed=4", "--binning", "uniform", "--discount", "0.5", "--json"]
    found = answer(command("distance", "a.csv", "b.csv", *options, cwd=tmp_path))
    edges = from_edges(found["only_x"] + found["only_y"] + [m["x"] for m in found["matches"]])
    assert len(edges) <= 3
    assert found["distance"] > 0.5


def from_edges(labels: list[str]) -> set[str]:
    return {part.strip(" [()") for label in labels for part in label.split(",")} - {"inf", "-inf"}


def test_warnings_never_look_like_python(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sequence,time,state\n1,5,a\n1,3,b\n1,3,a\n2,1,b\n")
    done = command("info", "a.csv", cwd=tmp_path)
    assert done.stderr == ""
    for text in ("sorted by time", "same time", "single row"):
        assert text in " ".join(done.stdout.split())
    assert "Warning" not in done.stdout


def test_too_large_for_memory_is_5(tmp_path: Path) -> None:
    np.save(tmp_path / "walk.npy", somcot.random_walk(30).transition)
    for limit in ("1000", "10000"):  # too small for the file, then for the problem
        done = fresh("distance", "walk.npy", "walk.npy", "--discount", "0.9", "--json", cwd=tmp_path,
                     env={**os.environ, "SOMCOT_MEMORY_LIMIT": limit})  # fmt: skip
        assert done.returncode == 5
        assert done.stderr.startswith("error: ")
        assert "SOMCOT_MEMORY_LIMIT" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("status", "code"), [(Status.STEP_LIMIT, 4), (Status.INTERRUPTED, 130), (Status.CONVERGED, 0), (Status.FINISHED, 0)]
)
def test_an_unfinished_result_is_shown_with_its_own_exit_code(
    status: Status, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    np.save(tmp_path / "walk.npy", somcot.random_walk(3).transition)
    solve = somcot.distance
    monkeypatch.setattr(somcot, "distance", lambda *a, **k: dataclasses.replace(solve(*a, **k), status=status))
    monkeypatch.setattr(sys, "argv", ["somcot", "distance", *[str(tmp_path / "walk.npy")] * 2, "--discount", "0.9"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == code
    shown = capsys.readouterr()
    assert re.search(r"distance +0 ", shown.out)
    assert "walk.npy (1)" in shown.out
    assert shown.err == ("interrupted\n" if code == 130 else "")


def test_interrupt_is_130() -> None:
    """A signal while the data come in: no traceback, no half answer."""
    started = subprocess.Popen(
        [sys.executable, "-m", "somcot", "info", "-", "--state", "s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert started.stdin is not None
    started.stdin.write("s\n" + "a\nb\n" * 100_000)  # more than a pipe holds: once written, it is being read
    started.stdin.flush()
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 130
    assert (out, err) == ("", "interrupted\n")


def test_completion_for_three_shells(command: Command, tmp_path: Path) -> None:
    for shell, sign in (("bash", "complete -o default -F"), ("zsh", "#compdef somcot"), ("fish", "complete --command")):
        assert sign in command("completion", shell, cwd=tmp_path).stdout
    env = {**os.environ, "_SOMCOT_COMPLETE": "complete_bash", "COMP_WORDS": "somcot dist", "COMP_CWORD": "1"}
    assert fresh(env=env).stdout.split() == ["distance"]


def test_demo_shows_the_truth_beside_the_estimate(command: Command, tmp_path: Path) -> None:
    done = command("demo", "--out", "new", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # A session that has bought or left is closed one step later, so its last page counts once.
    chains = [clickstream.chain(month) for month in ("may", "june")]
    cost = somcot.costs.labels(chains[0].states, chains[1].states)
    last = np.array([np.diag(chain.transition) == 1.0 for chain in chains])
    rows = [
        np.block([[np.where(end[:, None], 0.0, chain.transition), end[:, None]], [np.zeros((1, 12)), np.ones((1, 1))]])
        for chain, end in zip(chains, last, strict=True)
    ]
    x, y = (somcot.MarkovChain(P, [*chain.initial, 0.0]) for P, chain in zip(rows, chains, strict=True))
    table = np.block([[cost, np.ones((12, 1))], [np.ones((1, 12)), np.zeros((1, 1))]])
    truth = somcot.distance(x, y, table, discount=0.9).distance
    assert f"{truth:.4f}" in done.stdout
    low, high = map(float, re.findall(r"interval +([\d.]+) to ([\d.]+)", done.stdout)[0])
    assert f"lies {'inside' if low <= truth <= high else 'outside'} the interval" in " ".join(done.stdout.split())
    assert done.stdout.count("\n  somcot ") == 3
    assert (tmp_path / "new" / "report.html").stat().st_size > 10_000
    assert (tmp_path / "new" / "demo.png").stat().st_size > 10_000


def test_bundled_data_are_what_the_script_makes(tmp_path: Path) -> None:
    clickstream.write(tmp_path)
    for month in ("may", "june"):
        assert (tmp_path / f"{month}.csv").read_bytes() == clickstream.path(month).read_bytes()


def test_reproduce_is_handed_on(command: Command, tmp_path: Path) -> None:
    assert "pendulum" in command("reproduce", "--help", cwd=tmp_path).stdout


CLICKS = """who,when,page
1,2026-05-01T10:00:00,Home
1,2026-05-01T10:05:00,cart
1,2026-05-01T14:00:00, home
2,2026-05-01T10:00:00,HOME
3,2026-05-01T10:00:00,Home
3,2026-05-01T10:01:00,faq 1
"""


def test_a_log_as_it_is(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CLICKS)
    (tmp_path / "b.csv").write_text(CLICKS.replace("Home", "home").replace("faq 1", "faq 2"))
    columns = ["--sequence", "who", "--time", "when", "--state", "page"]
    asked = [*columns, "--end", "left", "--gap", "30m", "--tidy", "--top", "2", "--other", "rest"]
    found = answer(command("info", "a.csv", *asked, "--json", cwd=tmp_path))
    assert (found["n_episodes"], found["n_terminated"], found["n_transitions"]) == (4, 4, 6)
    assert set(found["states"]) == {"Home", "cart", "rest", "left"}
    both = answer(command("distance", "a.csv", "b.csv", *asked, "--discount", "0.8", "--json", cwd=tmp_path))
    assert both["only_x"] == both["only_y"] == []  # spellings and rare states are those of both together
    assert "rare-states-joined" in both["warning_codes"]
    plain = answer(command("info", "a.csv", *columns, "--json", cwd=tmp_path))
    assert any(
        "3 states differ only in case or blanks: ' home', 'HOME', 'Home'; pass --tidy" in t for t in plain["warnings"]
    )
    shown = command("info", "a.csv", *columns, cwd=tmp_path).stdout
    assert "' home', HOME, Home, cart, 'faq 1'" in shown


def test_ends_are_advised_without_circles(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who,page\n1,home\n1,cart\n1,paid\n2,home\n2,cart\n3,home\n3,home\n")
    columns = ["info", "a.csv", "--sequence", "who", "--state", "page", "--json"]
    assert any("pass --end left, say" in t for t in answer(command(*columns, cwd=tmp_path))["warnings"])
    ended = answer(command(*columns, "--terminated", "all", cwd=tmp_path))["warnings"]
    assert any("pass --end left, say, instead of --terminated" in t for t in ended)
    assert answer(command(*columns, "--end", "left", cwd=tmp_path))["warnings"] == []


def test_event_logs_and_folders(command: Command, tmp_path: Path) -> None:
    made = "".join(
        f'<trace><string key="concept:name" value="{k}"/>'
        + "".join(
            f'<event><string key="concept:name" value="{name}"/>'
            f'<date key="time:timestamp" value="2026-05-0{t}"/></event>'
            for t, name in enumerate("abca"[: 2 + k % 3], 1)
        )
        + "</trace>"
        for k in range(9)
    )
    (tmp_path / "log.xes.gz").write_bytes(gzip.compress(f"<log>{made}</log>".encode()))
    (tmp_path / "table").mkdir()
    for part in range(2):
        rows = [f"{k},{t},{s}" for k in range(9) if k % 2 == part for t, s in enumerate("abca"[: 2 + k % 3])]
        (tmp_path / "table" / f"{part}.csv").write_text("\n".join(["sequence,time,state", *rows]) + "\n")
    found = answer(
        command("distance", "log.xes.gz", "table", "--end", "z", "--discount", "0.8", "--json", cwd=tmp_path)
    )
    assert found["plugin"] == 0.0
    assert found["x"]["n_transitions"] == found["y"]["n_transitions"]
    done = command("info", "table", "--classifier", "x", cwd=tmp_path)
    assert (done.returncode, "--classifier: only for log files" in done.stderr) == (2, True)
    done = command("info", "table", "--other", "x", cwd=tmp_path)
    assert (done.returncode, "--other x: only together with --top N" in done.stderr) == (2, True)
