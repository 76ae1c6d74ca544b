"""More of the two parts that draw, damaged files and properties, with other seeds, until it is stopped.

``python -m tests.campaign.more fuzzing SEED FINDS`` and ``python -m tests.campaign.more properties SEED`` print a line
of totals after every round; a seed that was not used before draws what was not tried before.
"""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
import traceback
from pathlib import Path

from tests.campaign.fuzzing import fuzz, keep
from tests.campaign.targets import TARGETS
from tests.campaign.test_properties import PROPERTIES, hold

EXECUTIONS, CASES = 20_000, 40  # of a round: for all targets, for each property


def fuzzing(seed: int, finds: Path) -> None:
    """Rounds of damaged files; finds are copied to a folder."""
    cases, found = 0, 0
    finds.mkdir(parents=True, exist_ok=True)
    for turn in itertools.count():
        with tempfile.TemporaryDirectory() as folder:
            report = fuzz(TARGETS, 1_000_000_000 * seed + turn * EXECUTIONS, EXECUTIONS, Path(folder))
            kept = keep(report.finds.values(), finds)
        cases, found = cases + report.cases, found + len(kept)
        for fault, file in zip(report.finds, kept, strict=True):
            print(f"FIND {file}: {fault}", flush=True)
        print(f"{cases} executions, {found} finds, {report.slowest:.2f} s at most", flush=True)


def properties(seed: int) -> None:
    """Rounds of every property."""
    cases, failures = 0, 0
    for turn in itertools.count():
        for check in random.Random(turn).sample(PROPERTIES, len(PROPERTIES)):
            try:
                cases += hold(check, CASES, 1_000_000 * seed + turn)
            except Exception:
                failures += 1
                print(f"FAILURE {check.__name__}, round {turn}:\n{traceback.format_exc()}", flush=True)
        print(f"{cases} cases, {failures} failures", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "fuzzing":
        fuzzing(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        properties(int(sys.argv[2]))
