"""Time and memory for counting a table in many files: ``python -m benchmarks.counting --rows 100000000``.

Writes ten Parquet files, once sorted by sequence and once by time with every sequence in all files, and counts them.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

N_FILES = 10


def write(folder: Path, n_rows: int, *, interleaved: bool) -> None:
    """Synthetic events; a file at a time, so that writing takes little memory too."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True)
    per_file = n_rows // N_FILES
    n_sequences = max(n_rows // 250, 1)
    rng = np.random.default_rng(0)
    for k in range(N_FILES):
        if interleaved:
            user = rng.integers(0, n_sequences, per_file)
        else:
            user = np.sort(rng.integers(k * n_sequences // N_FILES, (k + 1) * n_sequences // N_FILES, per_file))
        page = pa.DictionaryArray.from_arrays(
            pa.array(rng.integers(0, 40, per_file), pa.int32()), [f"page {i}" for i in range(40)]
        )
        moment = k * per_file + np.arange(per_file)
        parquet.write_table(pa.table({"user": user, "time": moment, "page": page}), folder / f"{k:02}.parquet")


def count(folder: Path) -> None:
    """Count in this process, and say what it took."""
    from somcot.readers import count_table
    from somcot.readers.tables.streaming_counts import warm_up

    warm_up()
    began = time.process_time()
    found = count_table(folder, sequence="user", time="time", state="page")
    seconds = time.process_time() - began
    rows = found.n_transitions + found.n_episodes
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{folder.name}: {rows / seconds / 1e6:.1f} million rows per CPU second, {megabytes:,.0f} MB at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--count", type=Path, help="count a folder that is there")
    options = parser.parse_args()
    if options.count:
        count(options.count)
        return
    with tempfile.TemporaryDirectory() as place:
        for name in ("sorted", "interleaved"):
            folder = Path(place, name)
            write(folder, options.rows, interleaved=name == "interleaved")
            subprocess.run([sys.executable, "-m", "benchmarks.counting", "--count", str(folder)], check=True)


if __name__ == "__main__":
    main()
