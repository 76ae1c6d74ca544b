"""(c) Damaged files: every one is read, or refused with a documented error that says where.

SOMCOT_CAMPAIGN_EXECUTIONS sets the number (500,000 in the full run); where atheris is installed it has
SOMCOT_CAMPAIGN_GUIDED seconds (600) for all targets. Finds are written to out/finds; put them into the corpus.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest

from somcot.readers.formats import ENDINGS, FORMATS
from tests.campaign import fuzzing
from tests.campaign.fuzzing import Report, fuzz, guided, keep
from tests.campaign.mutator import mutated
from tests.campaign.table import SEED, Row
from tests.campaign.targets import TARGETS, Target, corpus, fault

SLICE, FULL, GUIDED, CHUNKS = 1_800, 500_000, 600, 50
FINDS = Path("out") / "finds"
EXPLORED = [name for name in TARGETS if name != "resume"]  # which compiles; instrumented code cannot be compiled
linux = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
pytestmark = pytest.mark.filterwarnings("ignore")


def check(report: Report, part: str) -> None:
    """Nothing was found; what was is kept."""
    Row(part, "s of CPU at most", report.cases, len(report.finds), report.slowest).write()
    if report.finds:
        FINDS.mkdir(parents=True, exist_ok=True)
        keep(report.finds.values(), FINDS)
    assert not report.finds, "\n".join(report.finds)


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus(name: str) -> None:
    """Every seed is read with some options, every file without a fault with all."""
    target = TARGETS[name]
    for path in corpus(target):
        assert [found for options in target.options if (found := fault(target, path, options))] == []
    assert any(_reads(target, path) for path in corpus(target) if path.name.startswith("seed"))


def test_every_format_is_a_target() -> None:
    endings = {"." + target.ending.removesuffix(".gz").rpartition(".")[2] for target in TARGETS.values()}
    assert set(FORMATS) == {ENDINGS[ending] for ending in endings if ending in ENDINGS}


def _reads(target: Target, path: Path) -> bool:
    for options in target.options:
        try:
            target.use(path, **options)
        except ValueError:
            continue
        return True
    return False


@linux
def test_slice(tmp_path: Path) -> None:
    check(fuzz(TARGETS, 0, SLICE, tmp_path), "fuzzing, slice")


@linux
@pytest.mark.campaign
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_in_full(chunk: int, tmp_path: Path) -> None:
    count = int(os.environ.get("SOMCOT_CAMPAIGN_EXECUTIONS", FULL)) // CHUNKS
    check(fuzz(TARGETS, 1_000_000_000 * SEED + 1_000_000 + chunk * count, count, tmp_path), "fuzzing: damaged files")


@linux
@pytest.mark.campaign
@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed")
@pytest.mark.parametrize("name", EXPLORED)
def test_guided_by_coverage(name: str, tmp_path: Path) -> None:
    seconds = int(os.environ.get("SOMCOT_CAMPAIGN_GUIDED", GUIDED)) // len(EXPLORED)
    report = guided(name, max(seconds, 1), tmp_path)
    Row("fuzzing: guided by coverage", "", report.cases, len(report.finds)).write()
    if report.finds:
        FINDS.mkdir(parents=True, exist_ok=True)
        keep(report.finds.values(), FINDS)
    assert not report.finds, "\n".join(report.finds)


READERS = {
    "a defect": ("raise KeyError('page')", "KeyError: 'page'"),
    "a riddle": ("raise ValueError('invalid literal')", "does not say where"),
    "a loop": ("while True: pass", "takes longer than"),
    "a crash": ("os.kill(os.getpid(), 11)", "the process ended with -11"),
    "a glutton": ("bytes(20 << 30)", ""),
}


@linux
@pytest.mark.parametrize("kind", READERS)
def test_the_harness_tells_faults_apart(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader with the fault, put in the place of the one for edge lists."""
    body, expected = READERS[kind]
    (tmp_path / "sitecustomize.py").write_text(
        "import os\nfrom tests.campaign import targets\n"
        f"def broken(path, **options):\n    {body}\n"
        "targets.TARGETS['edges'] = targets.TARGETS['edges']._replace(use=broken)\n", encoding="utf-8",
    )  # fmt: skip
    monkeypatch.setenv("SOMCOT_CAMPAIGN_SECONDS", "0.1")
    monkeypatch.setattr(fuzzing, "PATHS", (tmp_path, *fuzzing.PATHS))
    report = fuzz(["edges"], 0, 2, tmp_path)
    assert report.cases == 2
    assert [expected in found for found in report.finds] == ([True] if expected else [])
    assert all(path.read_bytes() for path in keep(report.finds.values(), tmp_path))


def test_damage_is_the_same_each_time_and_mostly_new() -> None:
    data = corpus(TARGETS["result"])[0].read_bytes()
    once, again = ([mutated(data, data, Random(seed), sealed=True) for seed in range(200)] for _ in range(2))
    assert once == again
    assert len(set(once)) > 150
