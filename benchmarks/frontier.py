"""The present version beside an earlier one: the same work in turns, in two processes, as ratios of CPU time.

The earlier version is the last commit before speed was worked on, taken out of the history into a folder of its own.
``python -m benchmarks.frontier --before REV`` compares the main rows with any other one, as medians of five turns.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import families

__all__ = ["ROOT", "Worker", "beside", "report", "taken_out"]

ROOT = Path(__file__).resolve().parents[1]
BEFORE = "61568cf"


class Row(NamedTuple):
    """A piece of work: what is done, on which problem, how often."""

    name: str
    work: str
    family: str
    sizes: tuple[int, ...]
    turns: int = 3
    discount: float = families.DISCOUNT
    repeat: int = 1  # in one turn


ROWS = [
    Row("distance, walk 1000", "distance", "walk", (1000,), 1),
    Row("distance, walk 3000", "distance", "walk", (3000,), 1),
    Row("the number alone, walk 1000", "number", "walk", (1000,), 1),
    Row("metric, block 10 x 500", "metric", "block", (10, 1, 50)),
    Row("metric, block 100 x 100", "metric", "block", (10, 10, 10)),
    Row("metric, gridworld 15 x 15, symmetric goals", "metric", "symmetric grid", (15,), 2),
    Row("metric, grid 30 x 30", "metric", "grid", (30,), 1),
    Row("metric, two successors, n = 1000", "metric", "sparse", (1000, 2), 1),
    Row("metric, dense 50", "metric", "dense", (50,)),
    Row("metric, dense 100", "metric", "dense", (100,), 1),
    Row("metric, dense 50, absolute differences", "metric", "dense, rewards", (50,)),
    Row("metric, dense 100, absolute differences", "metric", "dense, rewards", (100,), 1),
    Row("metric, counts, supports of 30 of 60", "metric", "counts", (60, 60)),
    Row("metric, counts, supports of 60 of 100", "metric", "counts", (100, 150), 1),
    Row("metric, counts, supports of 87 of 100", "metric", "counts", (100, 700), 1),
    Row("first sweep of a half, dense 30, absolute differences", "halves", "dense, rewards", (30,)),
    Row("first sweep of a half, dense 50, absolute differences", "halves", "dense, rewards", (50,)),
    Row("SOMCOT, 1,500 steps, 5 x 5 observed", "somcot observed 1500", "walk", (5,)),
    Row("SOMCOT, 2,000 steps, 10 x 50 full", "somcot full 2000", "block", (10, 1, 5)),
    Row("SOMCOT, 500 steps, 49 x 49 full", "somcot full 500", "walk", (49,), 2),
    Row("SOMCOT, 1e5 steps, 49 x 49 full", "somcot full 100000", "walk", (49,), 6),
    Row("metric, walk 10", "metric", "walk", (10,), 20),
    Row("distance, walk 10", "distance", "walk", (10,), 20),
    Row("metric, walk 50", "metric", "walk", (50,), 10),
    Row("distance, walk 50", "distance", "walk", (50,), 10),
    Row("metric, walk 400, discount 0.99", "metric", "walk", (400,), 2, 0.99),
    Row("distance, walk 400, discount 0.99", "distance", "walk", (400,), 2, 0.99),
    Row("metric, block 10 x 50", "metric", "block", (10, 1, 5), 20),
    Row("metric, dense 10", "metric", "dense", (10,), 20),
    Row("metric, dense 20", "metric", "dense", (20,), 10),
    Row("distance, dense 20", "distance", "dense", (20,), 10),
    Row("metric, 5 successors, n = 300", "metric", "sparse", (300, 5), 2),
    Row("metric, 10 successors, n = 200", "metric", "sparse", (200, 10), 2),
    Row("metric, graph 300", "metric", "graph", (300,), 2),
    Row("metric, counts, supports of 25 of 60", "metric", "counts", (60, 35)),
    Row("estimate and interval, walk 10", "estimate", "walk", (10,), 5),
    Row("estimate and interval, block 10 x 50", "estimate", "block", (10, 1, 5), 3),
    Row("plug-in, walk 10", "plugin", "walk", (10,), 10),
    Row("100 permutations, walk 5", "same", "walk", (5,), 5),
]

# What most users wait for. Short work is repeated, so that a turn takes a tenth of a second at least.
MAIN = [
    Row("distance, walk 1000", "distance", "walk", (1000,), repeat=15),  # of large arrays: with 3 it is 15 % off itself
    Row("distance, walk 10", "distance", "walk", (10,), repeat=100),
    Row("distance, dense 50", "distance", "dense", (50,)),
    Row("metric, walk 50", "metric", "walk", (50,), repeat=40),
    Row("metric, dense 50", "metric", "dense", (50,)),
    Row("estimate and interval, walk 10", "estimate", "walk", (10,), repeat=10),
    Row("plug-in, walk 10", "plugin", "walk", (10,), repeat=100),
    Row("100 permutations, walk 5", "same", "walk", (5,), repeat=3),
    Row("SOMCOT, 1,500 steps, 5 x 5 observed", "somcot observed 1500", "walk", (5,), repeat=20),
    Row("from_table, two months of the bundled shop", "table", "walk", (5,), repeat=2),
]

# One of each kind first, so that kernels are compiled and loaded before anything is measured.
LOADING = [
    ("distance", "dense", (5,)), ("metric", "dense", (40,)), ("estimate", "walk", (5,)), ("distance", "walk", (200,)),
    ("distance", "block", (3, 9, 30)), ("somcot observed 1500", "walk", (5,)), ("somcot full 500", "walk", (5,)),
]  # fmt: skip


class Worker:
    """A process that measures one version."""

    def __init__(self, source: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker"], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    def ask(self, **request: Any) -> dict[str, float]:
        """Have a piece of work done."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, float] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        """Let the process end."""
        self.process.communicate()


def taken_out(revision: str) -> Path | None:
    """The sources of a version, kept with its compiled code; None where there is no history to take them from."""
    folder = ROOT / ".venv-bench" / f"before-{revision}"
    if not (folder / "pyproject.toml").exists():
        command = ["git", "archive", revision, "src", "pyproject.toml"]
        taken = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        if taken.returncode:
            return None
        with tarfile.open(fileobj=io.BytesIO(taken.stdout)) as archive:
            archive.extractall(folder, filter="data")
    return folder


def cold(source: Path, asked: Path) -> float:
    """CPU seconds that all questions of a warm-up take with nothing compiled; `asked` is the version they come from."""
    code = "import runpy, sys; list(runpy.run_path(sys.argv[1])[sys.argv[2]]())"
    earlier, present = asked / "somcot" / "commands" / "warm_up.py", asked / "somcot" / "cli" / "setup.py"
    questions = [str(earlier), "warm_up"] if earlier.exists() else [str(present), "warm_kernels"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-c", code, *questions],
            env=os.environ | {"PYTHONPATH": str(source), "NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1"},
            check=True, capture_output=True,
        )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compiling(source: Path) -> list[str]:
    """Rows for what is compiled at first: all kernels of each version, and what the earlier one can do in both."""
    present = ROOT / "src"
    before, both, now = cold(source, source), cold(present, source), cold(present, present)
    return [
        f"| compiling all kernels | {before:.1f} | {now:.1f} | {before / now:.2f} | |",
        f"| compiling what the earlier version has too | {before:.1f} | {both:.1f} | {before / both:.2f} | |",
    ]


def started(folder: Path) -> tuple[Worker, Worker]:
    """A process for the version in this folder and one for the present one, with kernels compiled and loaded."""
    workers = Worker(folder / "src"), Worker(ROOT / "src")
    for worker, (work, family, sizes) in product(workers, LOADING):
        worker.ask(work=work, family=family, sizes=sizes)
    return workers


def beside(revision: str, turns: int = 5) -> str:
    """The main rows for another version and for this one: medians of turns, and how far the turns agree."""
    folder = taken_out(revision)
    if folder is None:
        raise SystemExit(f"--before: found {revision!r}, expected a commit of this history")
    workers = started(folder)
    lines = [f"| work, CPU ms, median of {turns} | {revision} | now | ratio | ratios of turns | apart |"]
    lines.append("|---|---|---|---|---|---|")
    for row in MAIN:
        request = {"work": row.work, "family": row.family, "sizes": row.sizes, "discount": row.discount}
        for worker in workers:
            worker.ask(**request)  # what is prepared once, and what is compiled for these types
        answers = [[worker.ask(**request, repeat=row.repeat) for worker in workers] for _ in range(turns)]
        before, now = (1e3 * median(both[i]["seconds"] for both in answers) for i in range(2))
        ratios = [both[0]["seconds"] / both[1]["seconds"] for both in answers]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        apart = abs(answers[0][0]["value"] - answers[0][1]["value"])
        lines.append(f"| {row.name} | {before:.2f} | {now:.2f} | {before / now:.2f} | {spread} | {apart:.0e} |")
        print(lines[-1], file=sys.stderr, flush=True)
    for worker in workers:
        worker.close()
    return "\n".join(lines)


def measure(row: Row, workers: tuple[Worker, Worker]) -> str:
    """One row of the table: the least of each, in turns."""
    request = {"work": row.work, "family": row.family, "sizes": row.sizes, "discount": row.discount}
    best, values = [float("inf")] * 2, [0.0, 0.0]
    for _ in range(row.turns):
        for i, worker in enumerate(workers):
            found = worker.ask(**request)
            best[i], values[i] = min(best[i], found["seconds"]), found["value"]
    apart = "" if row.work.startswith("somcot") else f"{abs(values[0] - values[1]):.0e}"
    line = f"| {row.name} | {best[0]:.4f} | {best[1]:.4f} | {best[0] / best[1]:.2f} | {apart} |"
    print(line, file=sys.stderr, flush=True)
    return line


def report() -> str:
    """Markdown section."""
    folder = taken_out(BEFORE)
    if folder is None:
        return f"## Earlier version\n\nNot measured: the history has no commit {BEFORE}."
    workers = started(folder)
    lines = [measure(row, workers) for row in ROWS]
    for worker in workers:
        worker.close()
    lines += compiling(folder / "src")
    return "\n".join(
        [
            "## Earlier version",
            "",
            f"The version before the work on speed ({BEFORE}) and this one, measured in turns; minimal seconds of",
            "each. The last column is the difference of the results (for `metric`, of their means over all",
            "pairs). Compiling is `somcot warm-up` without a cache, for all kernels and for those of the earlier",
            "version.",
            "",
            "| work | before | now | ratio | difference |",
            "|---|---|---|---|---|",
            *lines,
        ]
    )


def main() -> None:
    """Parse, compare, print."""
    parser = argparse.ArgumentParser(prog="benchmarks.frontier", description="The main rows beside another version.")
    parser.add_argument("--before", required=True, metavar="REV", help="the other version, as Git names it")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="how often each is measured, by default 5")
    args = parser.parse_args()
    print(beside(args.before, args.turns))


if __name__ == "__main__":
    main()
