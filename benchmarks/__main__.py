"""``python -m benchmarks``: run the comparisons and write them as Markdown."""

from __future__ import annotations

import argparse
import platform
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import somcot
from benchmarks import clocks, data, exact, frontier, gradients, many, neighbours, scaling, somcot_speed


def main() -> None:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--peers", help="Python of the environment with the other packages")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks.md"))
    parser.add_argument("--only", nargs="+", metavar="SECTION", help="some sections, by default all")
    args = parser.parse_args()
    sections = {
        "exact": lambda: exact.report(args.peers),
        "clocks": lambda: clocks.report(args.peers),
        "scaling": lambda: scaling.report(args.out.parent / "images"),
        "earlier": frontier.report,
        "data": data.report,
        "gradients": lambda: gradients.report(args.peers),
        "somcot": somcot_speed.report,
        "many": many.report,
        "logs": lambda: neighbours.logs(args.peers),
        "iteration": neighbours.iteration,
    }
    unknown = sorted(set(args.only or ()) - set(sections))
    if unknown:
        parser.error(f"--only: found {', '.join(unknown)}, expected some of {', '.join(sections)}")
    head = f"# Benchmarks\n\nsomcot {somcot.__version__}, Python {platform.python_version()}, NumPy {np.__version__}."
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        found = [section() for name, section in sections.items() if not args.only or name in args.only]
    args.out.write_text("\n\n".join([head, *found]) + "\n")
    print(f"written to {args.out}")


if __name__ == "__main__":
    main()
