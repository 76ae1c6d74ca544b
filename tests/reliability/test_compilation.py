"""The same bits from kernels that were just compiled and from those loaded from disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import hashlib
from somcot import block_chain, distance, random_walk
x, y = random_walk(10), block_chain(random_walk(10), 5)
cost = [[abs((i == 0) - (i == 9) - (j < 5) + (j > 44)) for j in range(50)] for i in range(10)]
for options in (
    {"n_steps": 3000, "primal_step": 40.0, "dual_step": 0.2, "rng": 0},
    {"n_steps": 3000, "primal_step": 40.0, "dual_step": 0.2, "rng": 0, "support": "observed"},
):
    result = distance(x, y, cost, discount=0.99, method="somcot", **options)
    print(hashlib.sha256(result.encoder.tobytes()).hexdigest())
for options in ({"method": "saddle", "max_steps": 500}, {"method": "exact"}):
    result = distance(x, y, cost, discount=0.99, **options)
    print(hashlib.sha256(result.potential.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_compiled_and_cached_kernels_agree(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    compiled, cached = (
        subprocess.run([sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    assert "compiling" in compiled.stderr
    assert "compiling" not in cached.stderr
    assert len(compiled.stdout.split()) == 4
    assert compiled.stdout == cached.stdout
