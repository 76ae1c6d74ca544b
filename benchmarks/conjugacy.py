"""Measure the verdicts about maps between systems: ``python -m benchmarks.conjugacy known|new|fresh --n 4000``.

Prints the rows of the table in docs/continuous.md: pairs with a map (found, refused, told apart; errors and coverage of
those found) and pairs without (told apart, refused, falsely "conjugate"). With ``--each`` a line for each pair too.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np
from tests.continuous import further_systems as further
from tests.continuous import mapped_systems as mapped

import somcot
from somcot.continuous import conjugacy
from somcot.trajectories import Trajectories

FAMILIES = {
    "known": (mapped.KNOWN, further.DIFFERENT),
    "new": (mapped.NEW, mapped.OTHERS),
    "fresh": (mapped.FRESH, mapped.UNLIKE),
}


def compared(x: Trajectories, y: Trajectories, cost: str, seed: int) -> conjugacy.MapComparison:
    """With coordinates as they are."""
    cells = somcot.discretise(x, y, scale=1.0, rng=0)
    rng = np.random.default_rng(seed)
    return conjugacy.compare(x, y, cost, discount=0.95, cells=cells, rng=rng)


def shown(name: str, seed: int, found: conjugacy.MapComparison, truth: float | None = None) -> str:
    """One pair on a line."""
    p = " ".join(f"{key} {value:.3f}" for key, value in found.pvalues.items())
    value = "" if found.distance is None else f" {found.distance:.3f}"
    right = "" if truth is None else f" ({truth:.3f})"
    return f"    {name} [{seed}]: {found.verdict}{value}{right} {found.kind}; {p}; {'; '.join(found.reasons)}"


def main() -> None:
    """Print both rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--n", type=int, default=4000, help="transitions of each recording")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--only", default="", help="pairs whose name contains this")
    given = parser.parse_args()
    systems, different = FAMILIES[given.family]
    seeds = range(given.first, given.first + given.seeds)
    verdicts: Counter[str] = Counter()
    errors, held = [], []
    for number, pair in enumerate(mapped.seen(systems)):
        if given.only not in pair.name:
            continue
        truth = pair.truth()
        for seed in seeds:
            found = compared(*pair.record(given.n // 40, np.random.default_rng([seed, number])), pair.cost, seed)
            verdicts[found.verdict] += 1
            if found.distance is not None and found.interval is not None:
                errors.append(abs(found.distance - truth))
                held.append(found.interval[0] <= truth <= found.interval[1])
            if given.each:
                print(shown(pair.name, seed, found, truth), flush=True)
    if errors:
        print(
            f"{given.n}, maps: {dict(verdicts)}; error {np.mean(errors):.4f}, at most {np.max(errors):.4f}, "
            f"coverage {np.mean(held):.2f}",
            flush=True,
        )
    verdicts = Counter()
    for name, sides in different.items():
        if given.only not in name:
            continue
        for seed in seeds:
            rng = np.random.default_rng([seed, 99])
            x, y = (side.record(given.n // 40, 40, rng) for side in sides)
            found = compared(x, y, "euclidean", seed)
            verdicts[found.verdict] += 1
            if given.each:
                print(shown(name, seed, found), flush=True)
    print(f"{given.n}, different: {dict(verdicts)}", flush=True)


if __name__ == "__main__":
    main()
