"""One table of what the campaign did: every part appends lines, `python -m tests.campaign.table` adds them up.

Lines go to the file that SOMCOT_CAMPAIGN_TABLE names (`make campaign` sets it); without it nothing is written. A second
table has the CPU time of each test. SOMCOT_CAMPAIGN_SEED (0) is added to all seeds: equal ones repeat every case.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SEED = int(os.environ.get("SOMCOT_CAMPAIGN_SEED", "0"))
START, END = "<!-- campaign: begin -->", "<!-- campaign: end -->"


@dataclass
class Row:
    """What one piece of a part found: how many cases, how many failed, and the worst figure seen."""

    part: str
    figure: str = ""
    cases: int = 0
    failures: int = 0
    worst: float = 0.0

    def write(self) -> None:
        """Append to the table, if one is kept."""
        append(asdict(self))


@dataclass
class Took:
    """How long a test took: seconds of CPU, with those of its processes, and by the clock."""

    test: str
    cpu: float
    clock: float
    runs: int = 1


def append(line: dict[str, Any]) -> None:
    """Write a line to the table, if one is kept."""
    path = os.environ.get("SOMCOT_CAMPAIGN_TABLE")
    if path:
        with open(path, "a", encoding="utf-8") as lines:  # one short write: lines of several processes stay whole
            lines.write(json.dumps(line) + "\n")


def add_up(lines: list[str]) -> list[Row]:
    """One row for each part, in the order of their names."""
    rows: dict[str, Row] = {}
    for line in lines:
        if "part" not in json.loads(line):
            continue
        piece = Row(**json.loads(line))
        row = rows.setdefault(piece.part, Row(piece.part, piece.figure))
        row.cases += piece.cases
        row.failures += piece.failures
        row.worst = max(row.worst, piece.worst)
    return [rows[part] for part in sorted(rows)]


def times(lines: list[str]) -> str:
    """How long each test took, the longest first, and all together."""
    found: dict[str, Took] = {}
    for line in map(json.loads, lines):
        if "test" in line:
            took = found.setdefault(line["test"], Took(line["test"], 0.0, 0.0, 0))
            took.cpu, took.clock, took.runs = took.cpu + line["cpu"], took.clock + line["clock"], took.runs + 1
    ordered = sorted(found.values(), key=lambda took: -took.clock)
    ordered.append(
        Took("all", sum(t.cpu for t in ordered), sum(t.clock for t in ordered), sum(t.runs for t in ordered))
    )
    body = [f"| {took.test} | {took.runs} | {took.cpu:,.0f} | {took.clock:,.0f} |" for took in ordered]
    return "\n".join(["| test | runs | s of CPU | s by the clock |", "|---|---|---|---|", *body]) + "\n"


def markdown(rows: list[Row]) -> str:
    """The table as a page shows it."""
    head = ["| part | cases | failures | worst figure |", "|---|---|---|---|"]
    body = [
        f"| {row.part} | {row.cases:,} | {row.failures} | {f'{row.worst:.1e} {row.figure}' if row.figure else ''} |"
        for row in rows
    ]
    return "\n".join(head + body) + "\n"


def put_into(page: str, table: str) -> str:
    """The page with the table between its two marks."""
    before, rest = page.split(START)
    return f"{before}{START}\n\n{table}\n{END}{rest.split(END)[1]}"


def main(source: str, out: str, page: str | None = None) -> None:
    """Write OUT.json and OUT.md from the lines of SOURCE, and the table into PAGE."""
    lines = Path(source).read_text(encoding="utf-8").splitlines()
    rows = add_up(lines)
    Path(f"{out}.json").write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")
    Path(f"{out}.md").write_text(markdown(rows), encoding="utf-8")
    if page:
        text = Path(page).read_text(encoding="utf-8")
        Path(page).write_text(put_into(text, markdown(rows)), encoding="utf-8")
    Path(f"{out}-times.md").write_text(times(lines), encoding="utf-8")
    print(markdown(rows), times(lines), sep="\n", end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
