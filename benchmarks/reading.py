"""Time and memory for reading and counting a table of ten million rows: ``python -m benchmarks.reading``."""

from __future__ import annotations

import argparse
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--read", nargs=2, metavar=("FILE", "COLUMN"), help="read a file that is there")
    options = parser.parse_args()
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
