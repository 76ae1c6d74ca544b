"""(e) Memory: no more than was forecast, and none left behind by many calls.

SOMCOT_CAMPAIGN_SOAK sets the seconds of the soak (60 in `make campaign`; an hour now and then).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign.table import Row

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into processes as Linux shows them")
ABOVE = 1.3  # of the forecast
ALWAYS = 8e6  # bytes: pools of packages, which come whole
SIZES = [
    ("exact", "dense", 80), ("exact", "dense", 120), ("exact", "sparse", 250), ("exact", "sparse", 500),
    ("saddle", "dense", 25), ("saddle", "dense", 45), ("saddle", "sparse", 120), ("saddle", "sparse", 200),
    ("sinkhorn", "dense", 35), ("sinkhorn", "dense", 45), ("sinkhorn", "sparse", 120), ("sinkhorn", "sparse", 200),
    ("somcot", "dense", 50), ("somcot", "dense", 80), ("lp", "sparse", 20), ("lp", "sparse", 30), ("lp", "dense", 13),
]  # fmt: skip


def measured(*arguments: object) -> dict[str, float]:
    """Figures from a fresh process."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.campaign.resources", *map(str, arguments)], cwd=ROOT, env=environment,
        stdout=subprocess.PIPE, text=True, timeout=7200, check=True,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout)
    return found


def check_forecast(method: str, kind: str, n: int, part: str) -> None:
    found = measured("forecast", method, kind, n)
    if found["compiled"]:  # large problems take kernels that the small one did not; now they are on the disk
        found = measured("forecast", method, kind, n)
        assert found["compiled"] == 0
    share = max(found["peak"] - ALWAYS, 0.0) / found["forecast"]
    Row(part, "times the forecast", 1, int(share > ABOVE), share).write()
    assert share <= ABOVE, found


def check_growth(found: dict[str, float], part: str) -> None:
    grown = found["last"] - found["first"]
    Row(part, "bytes grown", int(found["calls"]), int(grown > ALWAYS), max(grown, 0.0)).write()
    assert grown <= ALWAYS, found


@pytest.mark.parametrize(("method", "kind", "n"), [("exact", "sparse", 200), ("saddle", "dense", 25)])
def test_forecasts_slice(method: str, kind: str, n: int) -> None:
    check_forecast(method, kind, n, "resources, slice")


def test_growth_slice() -> None:
    check_growth(measured("growth", 600), "resources, slice of calls")


@pytest.mark.campaign
@pytest.mark.parametrize(("method", "kind", "n"), SIZES)
def test_forecasts(method: str, kind: str, n: int) -> None:
    check_forecast(method, kind, n, "resources: peak memory")


@pytest.mark.campaign
def test_five_thousand_calls() -> None:
    check_growth(measured("growth", 5000), "resources: 5,000 calls")


@pytest.mark.campaign
def test_soak() -> None:
    check_growth(measured("soak", os.environ.get("SOMCOT_CAMPAIGN_SOAK", 60)), "resources: soak")


def test_the_measure_sees_memory(tmp_path: Path) -> None:
    """A computation that takes 200 MB more than it needs, in a process where the solver was exchanged."""
    (tmp_path / "sitecustomize.py").write_text(
        "import numpy as np\nfrom tests.campaign import resources\nsolve = resources.somcot.distance\n"
        "def greedy(x, *given, **options):\n"
        "    kept = np.ones(25_000_000 if x.n_states > 6 else 1)\n    return solve(x, *given, **options), kept.sum()\n"
        "resources.somcot.distance = greedy\n", encoding="utf-8",
    )  # fmt: skip
    code = "from tests.campaign.resources import forecast; print(forecast('exact', 'dense', 20)['peak'])"
    environment = {"PYTHONPATH": os.pathsep.join(map(str, (tmp_path, ROOT / "src", ROOT)))}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT,
        env=os.environ | environment, stdout=subprocess.PIPE, text=True, timeout=600, check=True,
    )  # fmt: skip
    assert float(done.stdout) > 150e6
