"""Two groups of one file, periods wherever groups are formed, and every format on the command line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import somcot
from somcot.cli.application import app


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions on two devices and over some days; one page follows another."""
    rng = np.random.default_rng(0)
    rows = []
    for session in range(120):
        device, state = ("desktop", "mobile", "tablet")[session % 3], "home"
        for k in range(8):
            rows.append((session, device, f"2026-05-{1 + session // 30:02d} {9 + session % 9:02d}:{k:02d}", state))
            stay = 0.2 if device == "mobile" else 0.7
            state = state if rng.random() < stay else str(rng.choice(["home", "cart", "paid"]))
    path = tmp_path_factory.mktemp("log") / "log.csv"
    pd.DataFrame(rows, columns=["session_id", "device", "timestamp", "page"]).to_csv(path, index=False)
    return path


def run(*arguments: object) -> dict[str, object]:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert result.exception is None, result.exception
    found: dict[str, object] = json.loads(result.stdout.splitlines()[-1])
    return found


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert isinstance(result.exception, (ValueError, SystemExit)), result.exception
    return str(result.exception)


def test_two_groups_are_what_two_files_are(log: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(log)
    for device in ("desktop", "mobile"):
        frame[frame.device == device].to_csv(tmp_path / f"{device}.csv", index=False)
    by = run(
        "distance", log, "--by", "device", "--groups", "desktop", "mobile", "--discount", 0.8, "--method", "plugin"
    )
    two = run("distance", tmp_path / "desktop.csv", tmp_path / "mobile.csv", "--discount", 0.8, "--method", "plugin")
    assert by["distance"] == pytest.approx(two["distance"])
    assert by["x"]["source"] == "device desktop"  # type: ignore[index]
    test = run("test", log, "--by", "device", "--groups", "desktop", "mobile", "--discount", 0.8)
    assert test["pvalue"] <= 0.05  # type: ignore[operator]
    assert "3 groups" in refused("distance", log, "--by", "device")
    assert "no value 'phone'" in refused("distance", log, "--by", "device", "--groups", "mobile", "phone")
    assert "splits one file" in refused("distance", log, log, "--by", "device")
    assert "second one" in refused("distance", log)
    assert "--groups" in refused("distance", log, log, "--groups", "a", "b")


def test_values_joined_by_commas_are_one_group(log: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(log)
    joined = tmp_path / "joined.csv"
    frame.assign(device=frame.device.replace({"tablet": "desktop"})).to_csv(joined, index=False)
    rest = ("--discount", 0.8, "--method", "plugin")
    one = run("distance", log, "--by", "device", "--groups", "desktop,tablet", "mobile", *rest)
    other = run("distance", joined, "--by", "device", "--groups", "desktop", "mobile", *rest)
    assert one["distance"] == other["distance"]
    assert one["x"]["source"] == "device desktop,tablet"  # type: ignore[index]
    assert one["x"]["n_episodes"] == 80  # type: ignore[index]
    lacking = refused("distance", log, "--by", "device", "--groups", "mobile,phone", "desktop")
    assert "no value 'phone'" in lacking
    assert "'desktop', 'mobile'" in lacking
    both = refused("distance", log, "--by", "device", "--groups", "mobile,desktop", "desktop")
    assert "'desktop' is in 'mobile,desktop' and in 'desktop'" in both
    assert "twice" in refused("distance", log, "--by", "device", "--groups", "mobile", "mobile")
    # Parts of days and values that contain a comma.
    days = run("distance", log, "--by", "day", "--groups", "2026-05-01,2026-05-02", "2026-05-03", *rest)
    assert days["x"]["n_episodes"] == 60  # type: ignore[index]
    frame.assign(device=frame.device.replace({"tablet": "a,b", "mobile": "a"})).to_csv(joined, index=False)
    assert run("distance", joined, "--by", "device", "--groups", "a,b", "desktop", *rest)["x"]["n_episodes"] == 40  # type: ignore[index]


def test_periods_wherever_groups_are_formed(log: Path, tmp_path: Path) -> None:
    days = ["2026-05-01", "2026-05-02", "2026-05-03", "2026-05-04"]
    assert run("matrix", log, "--by", "day", "--discount", 0.8, "--method", "plugin")["labels"] == days
    periods = run("drift", log, "--by", "weekday", "--discount", 0.8)["periods"]
    assert [row["period"] for row in periods] == ["Monday", "Friday", "Saturday", "Sunday"]  # type: ignore[attr-defined]
    years = pd.read_csv(log)
    later = years.assign(
        session_id=years.session_id + 1000, timestamp=years.timestamp.str.replace("2026-05", "2027-02")
    )
    pd.concat([years, later]).to_csv(tmp_path / "years.csv", index=False)
    for by, labels in (("year", ["2026", "2027"]), ("quarter", ["2026-Q2", "2027-Q1"])):
        assert run("matrix", tmp_path / "years.csv", "--by", by, "--discount", 0.8)["labels"] == labels
        found = run("distance", tmp_path / "years.csv", "--by", by, "--discount", 0.8, "--method", "plugin")
        assert found["x"]["source"] == labels[0]  # type: ignore[index]
    found = run("select", log, "--by", "device", "--group", "mobile", "--discount", 0.8)
    assert found["data"] == "mobile"
    assert found["best"] in ("desktop", "tablet")
    found = run("distance", log, "--by", "day", "--groups", *days[:2], "--discount", 0.8, "--method", "plugin")
    assert found["x"]["source"] == days[0]  # type: ignore[index]


def test_lists_patterns_and_packed_files(log: Path, tmp_path: Path) -> None:
    wanted = run("info", log)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(log.read_bytes()))
    text = log.read_text().splitlines(keepends=True)
    (tmp_path / "1.csv").write_text("".join(text[:400]))
    (tmp_path / "2.csv").write_text("".join([text[0], *text[400:]]))
    pd.read_csv(log).to_json(tmp_path / "a.json", orient="records")
    for name in ("a.csv.gz", "?.csv", "a.json"):
        assert run("info", tmp_path / name)["visits"] == wanted["visits"]
    assert run("info", f"{tmp_path / '1.csv'},{tmp_path / '2.csv'}")["visits"] == wanted["visits"]


def test_sessions_of_agents(tmp_path: Path) -> None:
    for name, tools in (("before", "read edit test"), ("after", "edit read test")):
        (tmp_path / name).mkdir()
        for k in range(20):
            blocks = [
                {"type": "tool_use", "id": str(i), "name": t} for i, t in enumerate((tools + " " + tools).split())
            ]
            lines = [{"role": "assistant", "model": name, "content": [block]} for block in blocks]
            (tmp_path / name / f"{k}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    files = tmp_path / "before", tmp_path / "after"
    assert run("test", *files, "--discount", 0.8)["pvalue"] <= 0.01  # type: ignore[operator]
    one = run("distance", *files, "--discount", 0.8, "--method", "plugin")
    both = run(
        "distance", tmp_path, "--by", "model", "--groups", "before", "after", "--discount", 0.8, "--method", "plugin"
    )
    assert one["distance"] == pytest.approx(both["distance"])
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\ntool = "read|edit"\nstate = "work"\n')
    assert run("info", files[0], "--state-rules", rules)["states"] == ["test", "work"]
    assert "only for traces" in refused("info", __file__.replace("test_groups.py", "none.csv"), "--state-rules", rules)
    assert somcot.readers.from_traces(files[0]).n_episodes == 20


def test_watch_takes_folders_and_compressed_files(log: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(log.read_bytes()))
    frame = pd.read_csv(log)
    frame.to_parquet(tmp_path / "a.parquet")
    options = ("--reference", log, "--sequence", "session_id", "--time", "file", "--state", "page", "--discount", 0.8)
    ends = []
    for path in (log, tmp_path / "a.csv.gz", tmp_path / "a.parquet"):
        result = CliRunner().invoke(app, [*map(str, ("watch", path, *options)), "--json"])
        assert result.exception is None, result.exception
        ends.append(json.loads(result.stdout.splitlines()[-1]))
    assert ends[0]["events"] == len(frame)
    assert ends[0]["evidence"] == ends[1]["evidence"] == ends[2]["evidence"]
    assert "only CSV files" in refused("watch", tmp_path / "a.parquet", *options, "--follow")
