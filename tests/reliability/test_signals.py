"""Ctrl-C, requests to terminate and closed pipes: the right code, at most one line, never a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import somcot

CODES = {signal.SIGINT: (130, "interrupted\n"), signal.SIGTERM: (143, "terminated\n")}
# The command stops at a breakpoint that says so and waits there: no test depends on how fast the machine is.
PAUSED_IMPORT = """
import builtins, sys, time
load = builtins.__import__
def slow(name, *rest, **more):
    if name == "typer":
        print("loading", flush=True)
        time.sleep(60)
    return load(name, *rest, **more)
builtins.__import__ = slow
from somcot.__main__ import main
sys.argv = ["somcot", "info", "nowhere.csv"]
main()
"""
PAUSED_EXEC = """
import sys
import somcot.cli.inputs as inputs
def read_processes(*_, **__):
    print("busy", flush=True)
    exec("import time\\nfor _ in range(600): time.sleep(0.1)")
inputs.read_processes = read_processes
from somcot.__main__ import main
sys.argv = ["somcot", "info", "nowhere.csv"]
main()
"""
PAUSED_IN_COMPILED_CODE = """
import sys
import somcot.cli.inputs as inputs
def read_processes(*_, **__):
    print("busy", flush=True)
    import time
    try:
        time.sleep(60)
    except KeyboardInterrupt as error:
        raise SystemError("returned a result with an exception set") from error
inputs.read_processes = read_processes
from somcot.__main__ import main
sys.argv = ["somcot", "info", "nowhere.csv"]
main()
"""


LEAVING = """
import os, sys
from somcot.cli import app
@app.command()
def finish():
    print("done")
class Late:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=NUMBER):
        kill(pid, number)
sys.late = Late()  # gone when modules are cleared, after the handlers of the interpreter
from somcot.__main__ import main
sys.argv = ["somcot", "finish"]
main()
"""


def stopped(code: str, number: signal.Signals) -> tuple[int, str]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize(
    "code", [PAUSED_IMPORT, PAUSED_EXEC, PAUSED_IN_COMPILED_CODE], ids=["import", "exec", "kernel"]
)
def test_a_signal_at_an_awkward_moment(code: str, number: signal.Signals) -> None:
    assert stopped(code, number) == CODES[number]


@pytest.mark.parametrize("number", CODES)
def test_a_signal_on_the_way_out_changes_nothing(number: signal.Signals) -> None:
    code = LEAVING.replace("NUMBER", str(int(number)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_the_command_begins_with_the_signals() -> None:
    """Nothing of weight is loaded before they are taken care of."""
    code = (
        "import sys; import somcot.__main__;"
        "print([m for m in ('numpy', 'typer', 'somcot.api', 'somcot.chains') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("number", CODES)
def test_what_was_reached_is_printed(number: signal.Signals, tmp_path: Path) -> None:
    """A run of SOMCOT that would take for ever: the result so far, and the code of the signal."""
    np.save(tmp_path / "a.npy", somcot.random_walk(30, 0.5).transition)
    np.save(tmp_path / "b.npy", somcot.random_walk(30, 0.7).transition)
    code = (
        "import sys\nfrom somcot.solvers.somcot import run\nfrom somcot.__main__ import main\n"
        "drive = run.slices\n"
        "def told(*given):\n    print('running', file=sys.stderr, flush=True)\n    yield from drive(*given)\n"
        "run.slices = told\n"
        "sys.argv = ['somcot', 'distance', 'a.npy', 'b.npy', '--discount', '0.9', '--method', 'somcot', '--json']\n"
        "from somcot.solvers import somcot\n"
        "somcot._default_steps = lambda *_: 10**9\n"
        "main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stderr is not None
    while "running" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.2)
    process.send_signal(number)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == CODES[number][0]
    assert errors.endswith(CODES[number][1])
    assert "Traceback" not in errors
    assert json.loads(out)["status"] == "interrupted"


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["panel", "json"])
def test_a_reader_that_has_seen_enough(more: list[str], tmp_path: Path) -> None:
    """As in ``somcot info big.npy --json | head -c 10``; the answer is larger than what a pipe holds."""
    np.save(tmp_path / "big.npy", np.arange(30_000))
    process = subprocess.Popen(
        [sys.executable, "-m", "somcot", "info", "big.npy", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        cwd=tmp_path, env={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


def test_an_interruption_inside_a_callback_of_c_is_not_lost() -> None:
    """LLVM calls Python while it compiles; an exception cannot be raised from there."""
    code = """
import ctypes, signal, time
from somcot.cli import signals

signals.obey()
called = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))
began = time.monotonic()
try:
    called()
    time.sleep(40)
except KeyboardInterrupt:
    print("interrupted", "in the sleep" if time.monotonic() - began < 30 else "after the sleep")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("interrupted in the sleep\n", "")


HALF_MADE = """
from somcot.cli import signals
signals.obey()

class Handle:
    def __init__(self):
        raise KeyboardInterrupt
    def __del__(self):
        self.missing

try:
    Handle()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_object_whose_construction_was_interrupted_is_destroyed_silently() -> None:
    done = subprocess.run([sys.executable, "-c", HALF_MADE], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
