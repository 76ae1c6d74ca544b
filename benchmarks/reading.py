"""Time and memory for reading tables.

- ``python -m benchmarks.reading``: a Parquet file of ten million rows, read and counted.
- ``python -m benchmarks.reading commands [--before SRC]``: `somcot info` and `somcot distance` on CSV files like the
  page categories of MSNBC (4.7 million rows, 990,000 sequences, 17 states), each in a fresh process; with the folder
  ``src`` of another version, runs of both alternate.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def write(path: Path, n_rows: int) -> None:
    """Events of half a million users in order of time, as a log has them."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    users = rng.integers(0, max(n_rows // 20, 1), n_rows)
    pages = pa.DictionaryArray.from_arrays(
        pa.array(rng.integers(0, 40, n_rows), pa.int32()), [f"page {i}" for i in range(40)]
    )
    moments = pa.array(np.sort(rng.integers(0, 10**12, n_rows))).cast(pa.timestamp("us"))
    parquet.write_table(
        pa.table({"user": users, "name": pa.array(users).cast(pa.string()), "time": moments, "page": pages}), path
    )


def read(path: Path, sequence: str) -> None:
    """Read and count in this process, and say what it took."""
    from somcot.readers import from_table

    began = time.process_time()
    samples = from_table(path, sequence=sequence, time="time", state="page")
    total = int(samples.pair_counts.values.sum())
    seconds = time.process_time() - began
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"by {sequence}: {total:,} transitions counted, {seconds:.1f} s of CPU, {megabytes:,.0f} MB at most")


def write_visits(folder: Path, n_sequences: int) -> tuple[Path, Path, Path]:
    """A log in two halves and whole: lengths and pages as skewed as those of MSNBC."""
    rng = np.random.default_rng(0)
    lengths = np.minimum(
        rng.geometric(0.5, n_sequences) + rng.geometric(0.1, n_sequences) * (rng.random(n_sequences) < 0.28), 500
    )
    n_rows, weights = int(lengths.sum()), 1.0 / np.arange(1, 18)
    pages = rng.choice(17, n_rows, p=weights / weights.sum())
    stays = rng.random(n_rows) < 0.6  # most steps stay on a page
    pages = pages[np.maximum.accumulate(np.where(stays, 0, np.arange(n_rows)))]
    users = np.repeat(np.arange(n_sequences), lengths)
    lines = [f"{user},category {page}\n" for user, page in zip(users.tolist(), pages.tolist(), strict=True)]
    middle = int(lengths[: n_sequences // 2].sum())
    files = folder / "first.csv", folder / "second.csv", folder / "all.csv"
    for file, part in zip(files, (slice(middle), slice(middle, None), slice(None)), strict=True):
        file.write_text("user,page\n" + "".join(lines[part]))
    return files


def run(source: Path | None, *arguments: str) -> tuple[float, float]:
    """Seconds of CPU and peak memory in MB of a command in a fresh process, with the version in `source`."""
    surroundings = dict(os.environ) if source is None else {**os.environ, "PYTHONPATH": str(source)}
    surroundings.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    # A process of its own measures the one below it, whose peak would otherwise be hidden by that of earlier ones.
    script = (
        "import resource, subprocess, sys\n"
        "subprocess.run([sys.executable, *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL,"
        " stderr=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], env=surroundings, check=True, capture_output=True, text=True
    )
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def commands(before: Path | None, n_sequences: int, n_runs: int) -> None:
    """Rows per second of CPU, start-up included, and memory above a process that has imported the same modules."""
    modules = "somcot.cli.application somcot.cli.screens somcot.readers pyarrow.csv pyarrow.compute"
    # An earlier version has its commands elsewhere, so modules that it lacks are passed over.
    imports = (
        "import contextlib, importlib, somcot\n"
        f"for name in {modules!r}.split():\n"
        "    with contextlib.suppress(ImportError):\n"
        "        importlib.import_module(name)\n"
        "somcot.distance"
    )
    versions = {"before": before, "now": None} if before else {"now": None}
    with tempfile.TemporaryDirectory() as folder:
        first, second, both = map(str, write_visits(Path(folder), n_sequences))
        n_rows = Path(both).read_bytes().count(b"\n") - 1
        columns = ("--sequence", "user", "--state", "page")
        calls = {
            "imports": ("-c", imports),
            "info": ("-m", "somcot", "info", both, *columns),
            "distance": ("-m", "somcot", "distance", first, second, *columns),
        }
        for name, source in versions.items():
            run(source, *calls["distance"])  # compiles
            print(f"{name}: compiled", flush=True)
        used = {(call, name): [] for call in calls for name in versions}  # type: dict[tuple[str, str], list[tuple[float, float]]]
        for _ in range(n_runs):
            for (call, name), runs in used.items():
                runs.append(run(versions[name], *calls[call]))
    print(f"{n_rows:,} rows, {n_runs} runs each, least CPU")
    for (call, name), runs in used.items():
        seconds, megabytes = min(s for s, _ in runs), min(m for _, m in runs)
        above = megabytes - min(m for _, m in used["imports", name])
        rate = (
            ""
            if call == "imports"
            else f", {n_rows / seconds / 1e6:.2f} million rows per second, {above:.0f} MB above imports"
        )
        print(f"{call:9} {name:7} {seconds:5.2f} s{rate}, {megabytes:.0f} MB at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("table", "commands"), default="table")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--sequences", type=int, default=989_818)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--before", type=Path, help="folder src of another version")
    parser.add_argument("--read", nargs=2, metavar=("FILE", "COLUMN"), help="read a file that is there")
    options = parser.parse_args()
    if options.what == "commands":
        commands(options.before, options.sequences, options.runs)
        return
    if options.read:
        read(Path(options.read[0]), options.read[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "events.parquet"
        write(file, options.rows)
        print(f"{options.rows:,} rows, {file.stat().st_size / 1e6:.0f} MB on disk", flush=True)
        for column in ("user", "name"):  # a column of numbers, then one of text; each in a fresh process
            subprocess.run([sys.executable, "-m", "benchmarks.reading", "--read", str(file), column], check=True)


if __name__ == "__main__":
    main()
