"""Commands to be stopped, starved and raced: how they are started, and what must be true of the files they leave."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from somcot.data import clickstream
from somcot.plumbing import records as container

ROOT = Path(__file__).parents[2]
OLD = b"what was there before"
TABLES = ["a.csv", "b.csv", "--sequence", "user", "--state", "page"]
PAIR = [*TABLES, "--discount", "0.9"]
COMMANDS: dict[str, list[str]] = {
    "distance": ["distance", *PAIR, "--html", "r.html", "--plot", "p.png", "--force"],
    "test": ["test", *PAIR, "--permutations", "19"],
    "explain": ["explain"],
    "metric": ["metric", *PAIR, "--out", "m.csv", "--force"],
    "somcot": ["distance", *PAIR, "--method", "somcot", "--json"],
    "matrix": ["matrix", *PAIR, "--out", "m.json", "--out", "r.html", "--checkpoint", "c.ck", "--force"],
    "select": ["select", *PAIR, "--json"],
    "drift": ["drift", "a.csv", *PAIR[2:], "--by", "week", "--permutations", "19", "--html", "r.html", "--force"],
    "watch": [
        "watch", "b.csv", "--reference", "a.csv", *PAIR[2:], "--state-file", "w.ck", "--html", "r.html", "--force",
    ],
    "cells": [
        "distance", "u.csv", "v.csv", "--state", "p,q", "--cells", "auto", "--discount", "0.9", "--plot", "p.png",
        "--force",
    ],
    "info": ["info", "a.csv", *TABLES[2:]],
    "demo": ["demo", "--out", "."],
    "warm-up": ["warm-up"],
    "reproduce": ["reproduce", "similarity", "--quick", "--out", "."],
    "completion": ["completion", "bash"],
    "baseline": ["baseline", "a.csv", *TABLES[2:], "--out", "b.somcot"],
    "sample-size": ["sample-size", "a.csv", *PAIR[2:], "--effect", "0.02", "--plot", "p.png", "--force"],
}  # fmt: skip
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}


def write_tables(folder: Path) -> dict[str, bytes]:
    """Two recordings, and what stands in them."""
    rng = np.random.default_rng(0)
    for name in "ab":
        rows = [f"{i // 12},{page},{i // 120}" for i, page in enumerate(rng.choice(["home", "cart", "pay"], 240))]
        (folder / f"{name}.csv").write_text("\n".join(["user,page,week", *rows]) + "\n", encoding="utf-8")
    for name in "uv":
        points = "".join(f"{p},{q}\n" for p, q in rng.normal(size=(300, 2)).cumsum(axis=0))
        (folder / f"{name}.csv").write_text("p,q\n" + points, encoding="utf-8")
    return {name: (folder / name).read_bytes() for name in ("a.csv", "b.csv", "u.csv", "v.csv")}


def start(arguments: list[str], folder: Path, code: str | None = None, **more: Any) -> subprocess.Popen[str]:
    """The real entry point in a process of its own, which obeys Ctrl-C even if we do not; `code` runs before it."""
    begin = ["-m", "somcot"]
    if code is not None:
        begin = ["-c", f"{code}\nimport sys\nsys.argv[0] = 'somcot'\nfrom somcot.__main__ import main\nmain()"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}", "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", *begin, *arguments], cwd=folder, text=True,
        env=environment | more.pop("env", {}), preexec_fn=partial(_ready, more.pop("limits", {})),
        **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more),
    )  # fmt: skip


def _ready(limits: dict[int, int]) -> None:
    """In the new process: what runs in the background of a shell would pass on that Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))


def finished(arguments: list[str], folder: Path, code: str | None = None, **more: Any) -> tuple[int, str, str]:
    """Exit code and both outputs of a whole run."""
    process = start(arguments, folder, code, **more)
    out, errors = process.communicate(timeout=900)
    return process.returncode, out, errors


def wait_until_armed(process: subprocess.Popen[str]) -> None:
    """Until the first line of somcot has run: before that Python itself answers, as documented."""
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        except OSError:
            return
        caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt"))
        if caught >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.002)


def broken(folder: Path, inputs: dict[str, bytes]) -> list[str]:
    """Files that are neither what was there before nor whole."""
    found = [name for name, content in inputs.items() if (folder / name).read_bytes() != content]
    outputs = [path for path in sorted(folder.iterdir()) if path.name not in inputs and not path.name.startswith(".")]
    return found + [path.name for path in outputs if not _whole(path)]


def _whole(path: Path) -> bool:
    content = path.read_bytes()
    if content == OLD:
        return True
    if path.suffix == ".json":
        try:
            return bool(json.loads(content))
        except ValueError:
            return False
    if path.suffix in (".ck", ".somcot"):
        return content.startswith(container.MAGIC) and bool(container.read_arrays(path))
    if path.stem in ("may", "june"):
        return content == clickstream.path(path.stem).read_bytes()
    if path.suffix == ".csv":
        rows = content.decode().splitlines()
        return content.endswith(b"\n") and {row.count(",") for row in rows} == {len(rows) - 1}
    ends = {".html": b"</html>", ".svg": b"</svg>", ".png": b"IEND\xaeB`\x82"}
    return content.rstrip().endswith(ends[path.suffix])
