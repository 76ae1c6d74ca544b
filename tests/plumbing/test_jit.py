"""A waiting user is told about compilation, once, and only when there is something to wait for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import logging, somcot.plumbing.jit
from somcot.plumbing.jit import announce
from numba import njit

@njit(cache=True)
def double(x):
    return 2 * x

announce(double)
announce(double)
double(1)
somcot.plumbing.jit._announced = False
announce(double)
"""


def test_said_once_and_only_when_cold(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CODE)
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    runs = [
        subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, env=env).stderr
        for _ in range(2)
    ]
    assert [text.count("compiling numerical kernels") for text in runs] == [1, 0]
