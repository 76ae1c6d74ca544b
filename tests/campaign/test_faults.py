"""(d) Stopped at random moments, full and read-only disks, caches, races, clocks: nothing lost, the right exit code.

SOMCOT_CAMPAIGN_KILLS sets how often commands are stopped in the full run (400).
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.campaign.faults import (
    CODES,
    COMMANDS,
    OLD,
    PAIR,
    ROOT,
    broken,
    finished,
    start,
    wait_until_armed,
    write_tables,
)
from tests.campaign.table import SEED, Row
from tests.command_server import Command

FULL, CHUNKS = 400, 20
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into processes as Linux shows them")
ASK = ["distance", *PAIR, "--json"]


def stop(name: str, number: signal.Signals, moment: float, folder: Path) -> list[str]:
    """Stop a command after some seconds; what is wrong with how it ended and what it left."""
    inputs = write_tables(folder)
    for output in ("r.html", "p.png", "m.csv", "m.json"):
        (folder / output).write_bytes(OLD)
    process = start(COMMANDS[name], folder)
    wait_until_armed(process)
    time.sleep(moment)
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    faults = {
        f"exit code {process.returncode}: {errors[-300:]}": process.returncode not in (0, CODES[number]),
        f"a traceback: {errors[-1500:]}": "Traceback" in errors,
        "unfinished files stay": number != signal.SIGKILL and any(folder.glob(".*.part")),
    }
    found = [fault for fault, occurs in faults.items() if occurs]
    found += [f"{file} is broken" for file in broken(folder, inputs)]
    return [f"{name}, {number.name} after {moment:.3f} s: {fault}" for fault in found]


def test_every_command_is_stopped() -> None:
    from typer.main import get_command

    from somcot.cli.application import app

    assert {arguments[0] for arguments in COMMANDS.values()} == set(get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "number", "moment"),
    [("distance", signal.SIGINT, 0.7), ("metric", signal.SIGTERM, 0.4), ("demo", signal.SIGKILL, 1.2)],
)
def test_slice(name: str, number: signal.Signals, moment: float, tmp_path: Path) -> None:
    assert stop(name, number, moment, tmp_path) == []


@pytest.mark.campaign
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_stopped_at_random_moments(chunk: int, tmp_path: Path) -> None:
    rng = random.Random(1_000_000 * SEED + chunk)
    count = int(os.environ.get("SOMCOT_CAMPAIGN_KILLS", FULL)) // CHUNKS
    with ThreadPoolExecutor(4) as several:  # a command that is waited for takes no CPU
        stops = []
        for i in range(count):
            folder = tmp_path / str(i)
            folder.mkdir()
            name, number = rng.choice(list(COMMANDS)), rng.choice(list(CODES))
            stops.append(several.submit(stop, name, number, rng.choice((0.3, 1.0, 3.0, 8.0)) * rng.random(), folder))
        found = [fault for each in stops for fault in each.result()]
    Row("faults: stopped at random moments", "", count, len(found)).write()
    assert not found, "\n".join(found)


def answered(arguments: list[str], folder: Path, **more: Any) -> Any:
    """The answer of a run that must go well, without the time it took."""
    code, out, errors = finished(arguments, folder, **more)
    assert code == 0, errors
    assert "Traceback" not in errors
    return {key: value for key, value in json.loads(out).items() if key != "seconds"}


def in_namespace(mount: str, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command with something mounted over ``out``, whose files are shown afterwards in ``seen``."""
    script = f'mount {mount} && {{ echo old > out/r.html; }} 2>/dev/null; "$@"; code=$?; cp -a out seen; exit $code'
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", sys.executable, "-m", "somcot", *arguments], cwd=folder,
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_a_full_disk_keeps_the_answer_and_the_old_report(tmp_path: Path) -> None:
    write_tables(tmp_path)
    (tmp_path / "out").mkdir()
    done = in_namespace("-t tmpfs -o size=16k none out", [*ASK, "--html", "out/r.html", "--force"], tmp_path)
    assert done.returncode == 2
    assert "out/r.html: could not be written (No space left on device); what was there before is kept" in done.stderr
    assert "distance" in json.loads(done.stdout)
    assert {path.name: path.read_bytes() for path in (tmp_path / "seen").iterdir()} == {"r.html": b"old\n"}


WATCH = ["watch", "b.csv", "--reference", "a.csv", *PAIR[2:], "--json"]


@pytest.mark.parametrize("lost", ["r.html", "m.prom", "w.ck"])
def test_a_full_disk_during_watch_costs_one_file(lost: str, command: Command, tmp_path: Path) -> None:
    """Whichever file fails, the others are written, the checkpoint too, and the answer is printed before."""
    write_tables(tmp_path)
    code = f"""
import os, pathlib
replace = os.replace
def full(a, b):
    if pathlib.Path(b).name == {lost!r}:
        raise OSError(28, "No space left on device")
    replace(a, b)
os.replace = full
"""
    files = ["--html", "r.html", "--prometheus", "m.prom", "--state-file", "w.ck"]
    done = command(*WATCH, *files, cwd=tmp_path, code=code)
    assert done.returncode == 2
    assert f"error: {lost}: could not be written (No space left on device)" in done.stderr
    assert json.loads(done.stdout)["type"] == "end"
    written = {path.name for path in tmp_path.iterdir() if path.suffix != ".csv"}
    assert written == {"r.html", "m.prom", "w.ck"} - {lost}


def test_a_read_only_disk_is_noticed_before_the_work(tmp_path: Path) -> None:
    write_tables(tmp_path)
    (tmp_path / "out").mkdir()
    done = in_namespace("-t tmpfs -o ro none out", [*ASK, "--html", "out/r.html"], tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "out/r.html: cannot be written" in done.stderr


def test_files_may_not_grow(tmp_path: Path) -> None:
    """As a quota does: every write beyond a kilobyte fails."""
    inputs = write_tables(tmp_path)
    for name in ("r.html", "p.png"):
        (tmp_path / name).write_bytes(OLD)
    code, out, errors = finished(
        [*ASK, "--html", "r.html", "--plot", "p.png", "--force"], tmp_path,
        limits={resource.RLIMIT_FSIZE: 1024},
    )  # fmt: skip
    assert code == 2
    assert "could not be written (File too large)" in errors
    assert "Traceback" not in errors
    assert "distance" in json.loads(out)
    assert broken(tmp_path, inputs) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*inputs, "p.png", "r.html"])


def test_an_output_that_is_full(tmp_path: Path) -> None:
    write_tables(tmp_path)
    with open("/dev/full", "w", encoding="utf-8") as full:
        code, _, errors = finished(ASK, tmp_path, stdout=full)
    assert code == 2
    assert "No space left on device" in errors
    assert "Traceback" not in errors


def test_three_writers_of_one_file(tmp_path: Path) -> None:
    inputs = write_tables(tmp_path)
    (tmp_path / "m.csv").write_bytes(OLD)
    runs = [start(COMMANDS["metric"], tmp_path) for _ in range(3)]
    for run in runs:
        run.communicate(timeout=300)
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert (tmp_path / "m.csv").read_bytes() != OLD
    assert broken(tmp_path, inputs) == []
    assert not list(tmp_path.glob(".*"))


SLOW = """
import os, sys, time
sync = os.fsync
def slow(handle):
    os.fsync = sync
    sys.stderr.write("syncing\\n")
    sys.stderr.flush()
    time.sleep(60)
    sync(handle)
os.fsync = slow
"""


@pytest.mark.parametrize(
    ("name", "number"), [("metric", signal.SIGINT), ("watch", signal.SIGTERM), ("baseline", signal.SIGTERM)]
)
def test_stopped_while_a_slow_disk_writes(name: str, number: signal.Signals, tmp_path: Path) -> None:
    """The command does not wait for the disk; files are old or whole (`watch` saves its state), none unfinished."""
    inputs = write_tables(tmp_path)
    for output in ("m.csv", "r.html"):
        (tmp_path / output).write_bytes(OLD)
    process = start(COMMANDS[name], tmp_path, SLOW)
    assert process.stderr is not None
    while process.stderr.readline() != "syncing\n":
        assert process.poll() is None
    process.send_signal(number)
    _, errors = process.communicate(timeout=50)
    assert (process.returncode, "Traceback" in errors) == (CODES[number], False)
    assert broken(tmp_path, inputs) == []
    assert {path.name for path in tmp_path.iterdir()} - {"w.ck"} == {*inputs, "m.csv", "r.html"}


def test_two_watches_of_one_state(tmp_path: Path) -> None:
    write_tables(tmp_path)
    os.mkfifo(tmp_path / "p.csv")
    words = ["watch", "p.csv", "--reference", "a.csv", *PAIR[2:], "--state-file", "w.ck"]
    first = start(words, tmp_path)
    while not list(tmp_path.glob(".w.ck.*.lock")):
        assert first.poll() is None
        time.sleep(0.01)
    code, _, errors = finished(words, tmp_path)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=60)
    assert (code, first.returncode) == (2, 143)
    assert f"w.ck: in use by another run (process {first.pid})" in errors


CLOCKS = """
import time
true, calls = (time.time, time.monotonic, time.perf_counter), [0]
def leap(clock, step):
    def now():
        calls[0] += 1
        return clock() + step * calls[0]
    return now
time.time = leap(true[0], -86400.0)  # set back by a day at each look
time.monotonic, time.perf_counter = leap(true[1], 3600.0), leap(true[2], 3600.0)  # the machine slept for an hour
"""


@pytest.mark.parametrize("ask", [ASK, [*ASK, "--method", "somcot"], WATCH], ids=["auto", "somcot", "watch"])
def test_clocks_that_jump_change_nothing(ask: list[str], tmp_path: Path) -> None:
    write_tables(tmp_path)
    assert answered(ask, tmp_path, code=CLOCKS) == answered(ask, tmp_path)


@pytest.mark.campaign
def test_caches_that_are_broken_or_cannot_be_written(tmp_path: Path) -> None:
    """Compiled code is made again, which is said; the answer is the same."""
    write_tables(tmp_path)
    calm, cache = answered(ASK, tmp_path), tmp_path / "cache"
    assert answered(ASK, tmp_path, env={"NUMBA_CACHE_DIR": str(cache)}) == calm
    files = list(cache.rglob("*.nbc"))
    assert files
    for k, file in enumerate(files):
        content = file.read_bytes()
        file.write_bytes((content[: len(content) // 2], b"", os.urandom(99), content[:-1] + b"!")[k % 4])
    assert answered(ASK, tmp_path, env={"NUMBA_CACHE_DIR": str(cache)}) == calm
    assert answered(ASK, tmp_path, env={"NUMBA_CACHE_DIR": "/dev/null/nothing"}) == calm
    Row("faults: caches", "", 2 + len(files)).write()
