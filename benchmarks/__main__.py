"""``python -m benchmarks``: run the comparisons and write them as Markdown."""

from __future__ import annotations

import argparse
import platform
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import somcot
from benchmarks import clocks, data, exact, gradients, many, somcot_speed


def main() -> None:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--peers", help="Python of the environment with the other packages")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks.md"))
    args = parser.parse_args()
    head = f"# Benchmarks\n\nsomcot {somcot.__version__}, Python {platform.python_version()}, NumPy {np.__version__}."
    with threadpool_limits(1):
        sections = [
            exact.report(args.peers), clocks.report(args.peers), data.report(),
            gradients.report(args.peers), somcot_speed.report(), many.report(),
        ]  # fmt: skip
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("\n\n".join([head, *sections]) + "\n")
    print(f"written to {args.out}")


if __name__ == "__main__":
    main()
