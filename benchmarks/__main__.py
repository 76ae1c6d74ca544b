"""``python -m benchmarks``: run the comparisons and write them as Markdown."""

from __future__ import annotations

import argparse
import platform
from functools import reduce
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import somcot
from benchmarks import clocks, data, exact, frontier, gradients, many, neighbours, pictures, scaling, somcot_speed


def main() -> None:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--peers", help="Python of the environment with the other packages")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks.md"))
    parser.add_argument(
        "--docs", action="store_true", help="put the sections into docs/benchmarks.md too, and their pictures beside it"
    )
    parser.add_argument("--only", nargs="+", metavar="SECTION", help="some sections, by default all")
    args = parser.parse_args()
    images = (pictures.DOCS if args.docs else args.out.parent) / "images"
    sections = {
        "exact": lambda: exact.report(args.peers),
        "clocks": lambda: clocks.report(args.peers),
        "scaling": lambda: scaling.report(images),
        "earlier": frontier.report,
        "data": data.report,
        "gradients": lambda: gradients.report(args.peers),
        "somcot": somcot_speed.report,
        "many": many.report,
        "logs": lambda: neighbours.logs(args.peers),
        "iteration": neighbours.iteration,
        "operators": neighbours.operators,
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
    if args.docs:
        page = pictures.DOCS / "benchmarks.md"
        lasting = [section for section in found if not section.startswith("## Earlier version")]  # of interest once
        page.write_text(reduce(in_place, lasting, page.read_text()))
        pictures.main()
        print(f"written to {page}")


def in_place(page: str, section: str) -> str:
    r"""The page with a section in place of the one with the same heading, or at the end.

    Examples
    --------
    >>> in_place("# T\n\n## A\n\nold\n\n## B\n", "## A\n\nnew")
    '# T\n\n## A\n\nnew\n\n## B\n'
    """
    heading = section.partition("\n")[0]
    before, found, rest = page.partition(f"{heading}\n")
    if not found:
        return f"{page.rstrip()}\n\n{section}\n"
    _, following, rest = rest.partition("\n## ")
    return before + section + "\n" + following + rest


if __name__ == "__main__":
    main()
