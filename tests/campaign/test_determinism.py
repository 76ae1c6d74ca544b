"""(f) The same bits over threads, processes, memory layouts and chunkings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.campaign.signatures import LAYOUTS, signatures
from tests.campaign.table import Row

ROOT = Path(__file__).parents[2]
VARIANTS = [(threads, layout, chunk) for threads in (1, 2, 3) for layout in LAYOUTS for chunk in (600, 1, 7, 64)]
pytestmark = pytest.mark.filterwarnings("ignore")


@cache
def reference() -> dict[str, str]:
    return signatures(1, "C", 600)


def compare(found: dict[str, str], part: str) -> None:
    """One case for each method."""
    other = [name for name, digest in reference().items() if found[name] != digest]
    Row(part, cases=len(reference()), failures=len(other)).write()
    assert not other


@pytest.mark.parametrize(("threads", "layout", "chunk"), [(2, "F", 7), (3, "strided", 64), (1, "lists", 1)])
def test_slice(threads: int, layout: str, chunk: int) -> None:
    compare(signatures(threads, layout, chunk), "determinism, slice")


def test_signatures_tell_answers_apart() -> None:
    assert len(set(reference().values())) == len(reference())


@pytest.mark.campaign
@pytest.mark.parametrize(("threads", "layout", "chunk"), VARIANTS)
def test_threads_layouts_and_chunks(threads: int, layout: str, chunk: int) -> None:
    compare(signatures(threads, layout, chunk), "determinism: threads, layouts, chunks")


@pytest.mark.campaign
@pytest.mark.parametrize("process", range(8))
def test_processes(process: int, tmp_path: Path) -> None:
    """Other hash seeds, other thread counts, and an environment whose size moves the stack and the heap."""
    environment = os.environ | {
        "PYTHONHASHSEED": str(process),
        "OMP_NUM_THREADS": str(1 + process % 3),
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "SOMCOT_PADDING": "x" * (997 * process),
    }
    out = tmp_path / "signatures.json"
    command = [sys.executable, "-m", "tests.campaign.signatures", str(out), "--threads", str(1 + process % 2)]
    subprocess.run(command, check=True, cwd=ROOT, env=environment, timeout=600)
    compare(json.loads(out.read_text(encoding="utf-8")), "determinism: processes")
