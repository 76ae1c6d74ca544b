"""Measure distances between recordings of real vectors where the truth is known: ``python -m benchmarks.continuous``.

``run FILE`` appends one line of JSON for each run of `tests.continuous.held_out_systems`, seed by seed, and goes on
where it stopped; with another version of the package on the path it measures that one. ``table FILE [FORMER]`` prints
the tables of docs/continuous.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from tests.continuous.held_out_systems import HELD_OUT, HeldOut

import somcot

Row = dict[str, Any]


def measured(name: str, system: HeldOut, seed: int) -> Row:
    """One answer at 90 %, with coordinates as they are, and its CPU seconds."""
    x, y = system.record(np.random.default_rng([seed, 32]))
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = somcot.distance(x, y, system.cost, discount=0.95, confidence=0.9, scale=1.0, threads=1)
    spent = time.process_time() - began
    ends = found.confidence_interval
    continuous = found.continuous
    assert continuous is not None
    return {
        "system": name,
        "seed": seed,
        "distance": found.distance,
        "low": None if ends is None else ends.low,
        "high": None if ends is None else ends.high,
        "route": continuous.route,
        "map": "" if continuous.map is None else continuous.map.verdict,
        "reason": getattr(continuous, "reason", ""),
        "lower": getattr(continuous, "lower_bound", None),
        "scale": float(np.sqrt(np.concatenate([x.points, y.points]).var(axis=0).sum())),
        "cpu": spent,
    }


def run(path: Path, seeds: range, only: str) -> None:
    """All systems, seed by seed; what the file holds already is left out."""
    done = {(row["system"], row["seed"]) for row in rows(path)} if path.exists() else set()
    for seed in seeds:
        for name, system in HELD_OUT.items():
            if only in name and (name, seed) not in done:
                with path.open("a") as stream:
                    stream.write(json.dumps(measured(name, system, seed)) + "\n")


def rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def summary(found: Iterable[Row], system: HeldOut) -> list[str]:
    """Mean, mean absolute error, coverage and mean width of the intervals, runs declined, runs, routes."""
    part = list(found)
    if not part:
        return ["", "", "", "", "", "0", ""]
    given = [row for row in part if row["low"] is not None]
    held = [row["low"] - 1e-12 <= system.truth <= row["high"] + 1e-12 for row in given]
    routes = [row["route"] for row in part]
    known = np.isfinite(system.truth)
    return [
        f"{np.mean([row['distance'] for row in part]):.3f}",
        f"{np.mean([abs(row['distance'] - system.truth) for row in part]):.3f}" if known else "",
        f"{sum(held)}/{len(given)}" if known else f"{len(given)} given",
        f"{np.mean([row['high'] - row['low'] for row in given]):.3f}" if given else "",
        f"{len(part) - len(given)}",
        f"{len(part)}",
        ", ".join(f"{way} {routes.count(way)}" for way in sorted(set(routes))),
    ]


def totals(found: list[Row]) -> list[str]:
    """The criteria of the issue over all runs."""
    lines = []
    truths = {name: system for name, system in HELD_OUT.items() if np.isfinite(system.truth)}
    part = [row for row in found if row["system"] in truths]
    given = [row for row in part if row["low"] is not None]
    wrong = [row for row in given if _error(row) > 1.0]
    lines.append(f"runs {len(part)}, declined {len(part) - len(given)}; errors above the bar {len(wrong)}")
    held = [r["low"] - 1e-12 <= truths[r["system"]].truth <= r["high"] + 1e-12 for r in given]
    lines.append(f"coverage {np.mean(held):.3f} of {len(given)} intervals")
    equal = [row for row in given if truths[row["system"]].kind == "same"]
    lines.append(f"equal systems: {sum(r['low'] > 0 for r in equal)} of {len(equal)} claimed to differ")
    others = [row for row in found if HELD_OUT[row["system"]].kind in ("other", "unknown")]
    lines.append(f"no maps: {sum(r['map'] == 'conjugate' for r in others)} of {len(others)} reported as one")
    lines.append(
        f"CPU seconds: median {np.median([r['cpu'] for r in found]):.1f}, most {max(r['cpu'] for r in found):.1f}"
    )
    return lines


def _error(row: Row) -> float:
    """Error relative to the larger of 20 % of the truth and 0.02 of the pooled scale (squared for squared costs)."""
    system = HELD_OUT[row["system"]]
    unit = row["scale"] ** 2 if system.cost == "sqeuclidean" else row["scale"]
    return float(abs(row["distance"] - system.truth) / max(0.2 * system.truth, 0.02 * unit))


def table(path: Path, former: Path | None) -> None:
    """One line for each system."""
    sides = [rows(path)] + ([] if former is None else [rows(former)])
    columns = ("answer", "error", "covers", "width", "declined", "runs", "route")
    print(
        "| system | truth | " + " | ".join((*columns, *(f"former: {c}" for c in columns[: -1 if former else 0]))) + " |"
    )
    print("|---" * (2 + len(columns) * len(sides) - len(sides) + 1) + "|")
    for name, system in HELD_OUT.items():
        cells = [f"{system.truth:.3f}" if np.isfinite(system.truth) else "?"]
        for k, side in enumerate(sides):
            part = summary((row for row in side if row["system"] == name), system)
            cells += part if k == 0 else part[:-1]
        print(f"| {name} | " + " | ".join(cells) + " |")
    for side in sides:
        print("\n" + "\n".join(totals(side)))


def main() -> None:
    """Run or print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--only", default="", help="systems whose name contains this")
    given = parser.parse_args()
    if given.command == "run":
        run(given.files[0], range(given.first, given.first + given.seeds), given.only)
    else:
        table(given.files[0], given.files[1] if len(given.files) > 1 else None)


if __name__ == "__main__":
    main()
