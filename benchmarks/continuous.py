"""Measure distances between recordings of real vectors where the truth is known: ``python -m benchmarks.continuous``.

``run FILE`` appends one line of JSON for each run of `tests.continuous.held_out_systems`, or with ``--systems hidden``
of `hidden_systems`, seed by seed, and goes on where it stopped; with another version of the package on the path it
measures that one. ``table FILE [FORMER]`` prints the tables of docs/continuous.md, and the systems whose coverage is
below 0.85 by binomial tests at 0.05 with Holm's correction.
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
from tests.continuous.hidden_systems import HIDDEN

import somcot

Row = dict[str, Any]
LISTS = {"held-out": HELD_OUT, "hidden": HIDDEN}
KNOWN = HELD_OUT | HIDDEN
_LEAST = 0.85  # coverage of intervals at 0.90 that no system may miss


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


def run(path: Path, seeds: range, only: str, systems: dict[str, HeldOut]) -> None:
    """All systems, seed by seed; what the file holds already is left out."""
    done = {(row["system"], row["seed"]) for row in rows(path)} if path.exists() else set()
    for seed in seeds:
        for name, system in systems.items():
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
    held = [_held(row) for row in given]
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
    part = [row for row in found if np.isfinite(KNOWN[row["system"]].truth)]
    given = [row for row in part if row["low"] is not None]
    wrong = [row for row in given if _error(row) > 1.0]
    lines.append(f"runs {len(part)}, declined {len(part) - len(given)}; errors above the bar {len(wrong)}")
    lines.append(f"coverage {np.mean([_held(row) for row in given]):.3f} of {len(given)} intervals")
    lines += _below(given)
    equal = [row for row in given if KNOWN[row["system"]].kind == "same"]
    lines.append(f"equal systems: {sum(r['low'] > 0 for r in equal)} of {len(equal)} claimed to differ")
    others = [row for row in found if KNOWN[row["system"]].kind in ("other", "unknown")]
    lines.append(f"no maps: {sum(r['map'] == 'conjugate' for r in others)} of {len(others)} reported as one")
    lines.append(
        f"CPU seconds: median {np.median([r['cpu'] for r in found]):.1f}, most {max(r['cpu'] for r in found):.1f}"
    )
    return lines


def _held(row: Row) -> bool:
    return bool(row["low"] - 1e-12 <= KNOWN[row["system"]].truth <= row["high"] + 1e-12)


def _below(given: list[Row]) -> list[str]:
    """Systems whose coverage is below the least one, by one-sided binomial tests with Holm's correction at 0.05."""
    from scipy.stats import binomtest

    held: dict[str, list[bool]] = {}
    for row in given:
        held.setdefault(row["system"], []).append(_held(row))
    pvalues = sorted((binomtest(sum(v), len(v), _LEAST, "less").pvalue, name) for name, v in held.items())
    lines = []
    for k, (p, name) in enumerate(pvalues):
        if p * (len(pvalues) - k) > 0.05:
            break
        lines.append(f"{name}: {sum(held[name])} of {len(held[name])}, below {_LEAST} (p = {p:.2g})")
    fewest = ", ".join(f"{name} {sum(held[name])}/{len(held[name])}" for _, name in pvalues[:3])
    return lines or [f"no system is below {_LEAST} by Holm's test; the lowest: {fewest}"]


def _error(row: Row) -> float:
    """Error relative to the larger of 20 % of the truth and 0.02 of the pooled scale (squared for squared costs)."""
    system = KNOWN[row["system"]]
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
    for name, system in KNOWN.items():
        if not any(row["system"] == name for side in sides for row in side):
            continue
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
    parser.add_argument("--systems", choices=LISTS, default="held-out")
    given = parser.parse_args()
    if given.command == "run":
        run(given.files[0], range(given.first, given.first + given.seeds), given.only, LISTS[given.systems])
    else:
        table(given.files[0], given.files[1] if len(given.files) > 1 else None)


if __name__ == "__main__":
    main()
