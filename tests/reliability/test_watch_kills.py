"""`somcot watch` killed with SIGKILL again and again ends as if nothing had happened, with the same alarms."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_watch import READ, sessions

# Small blocks, so that a small file has many checkpoints.
SMALL_BLOCKS = """
from somcot.__main__ import main
from somcot.readers.tables import csv_stream

csv_stream._BLOCK = 1 << 18
main()
"""


def command(folder: Path, name: str) -> list[str]:
    return [
        sys.executable, "-c", SMALL_BLOCKS, "watch", str(folder / "log.csv"), "--reference", str(folder / "may.csv"),
        *READ, "--state-file", str(folder / f"{name}.ck"), "--save-every", "0",
        "--on-alarm", f"cat >> {folder / name}.alarms",
    ]  # fmt: skip


def prepare(folder: Path, repeats: int) -> None:
    """A log of up to some tens of megabytes: the same sessions under other names, with a change after two thirds."""
    before, after = sessions("may", 20_000, 1), sessions("june", 10_000, 2)
    (folder / "may.csv").write_text("session,page\n" + "".join(sessions("may", 20_000, 3)))
    with (folder / "log.csv").open("w") as log:
        log.write("session,page\n")
        for k in range(repeats):
            part = before if k < 2 * repeats // 3 else after
            log.write("".join(f"{k}-{row}" for row in part))


def killed_run(folder: Path, n_kills: int, seed: int) -> int:
    """Run, kill some time after a checkpoint was written, and so on; the last run may finish. Returns the kills."""
    draw = random.Random(seed)
    state, kills = folder / "killed.ck", 0
    while True:
        process = subprocess.Popen(command(folder, "killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = _stamp(state)
        while kills < n_kills and process.poll() is None and _stamp(state) == before:
            time.sleep(0.002)
        if kills == n_kills or process.poll() is not None:
            assert process.wait() == 0
            return kills
        time.sleep(draw.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1


def _stamp(path: Path) -> int:
    return os.stat(path).st_mtime_ns if path.exists() else 0


def check(folder: Path, repeats: int, n_kills: int) -> None:
    prepare(folder, repeats)
    subprocess.run(command(folder, "whole"), check=True, stdout=subprocess.DEVNULL)
    kills = killed_run(folder, n_kills, 0)
    assert kills >= min(n_kills, 1), "the log is too short to be interrupted"
    assert (folder / "killed.ck").read_bytes() == (folder / "whole.ck").read_bytes()
    (alarm,) = (folder / "whole.alarms").read_text().splitlines()
    assert set((folder / "killed.alarms").read_text().splitlines()) == {alarm}  # repeats are the same alarm


def test_one_kill(tmp_path: Path) -> None:
    check(tmp_path, 6, 1)


@pytest.mark.slow
def test_fifty_kills(tmp_path: Path) -> None:
    check(tmp_path, 90, 50)
