"""Earth mover's distance of two event logs in pm4py: ``python log_peers.py A.csv B.csv N`` prints a JSON line.

Needs no somcot. The logs are tables with the columns session, time and page; of each the N most frequent variants
(whole sequences) are compared by their edit distance, as pm4py does for a log and a model.
"""

from __future__ import annotations

import csv
import json
import sys
import time
import warnings
from collections import Counter

Language = dict[tuple[str, ...], float]


def language(path: str, n_variants: int) -> Language:
    """The most frequent sequences with their shares."""
    sessions: dict[str, list[tuple[str, str]]] = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            sessions.setdefault(row["session"], []).append((row["time"], row["page"]))
    counted = Counter(tuple(page for _, page in sorted(rows)) for rows in sessions.values()).most_common(n_variants)
    total = sum(count for _, count in counted)
    return {variant: count / total for variant, count in counted}


def main(first: str, second: str, n_variants: str) -> None:
    warnings.simplefilter("ignore")
    from pm4py.algo.evaluation.earth_mover_distance import algorithm

    a, b = (language(path, int(n_variants)) for path in (first, second))
    began = time.process_time()
    value = float(algorithm.apply(a, b))
    print(json.dumps({"value": value, "seconds": time.process_time() - began}))


if __name__ == "__main__":
    main(*sys.argv[1:])
