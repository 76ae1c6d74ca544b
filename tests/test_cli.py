"""The command, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import somcot


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "somcot", *args], capture_output=True, text=True, check=False)


def test_version() -> None:
    assert run("--version").stdout.strip() == somcot.__version__


def test_demo_shows_distances_and_writes_a_picture(tmp_path: Path) -> None:
    done = run("demo", "--out", str(tmp_path / "new"))
    assert done.returncode == 0, done.stderr
    for text in ("0.356963", "0.202539", "state  0  |@@@@@ "):
        assert text in done.stdout
    assert (tmp_path / "new" / "encoder.png").stat().st_size > 5000


def test_unknown_command_is_no_traceback() -> None:
    done = run("distanse")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "distanse" in done.stderr
