"""
Plots of one result
===================

Contributions to a distance, time spent in each state, and several distances with intervals.
``python examples/start/pictures.py docs/images/pictures.png`` writes them.
"""

import sys

import matplotlib.pyplot as plt

import somcot
from somcot.data import clickstream
from somcot.readers import from_table

NAMES = ("May", "June")
may, june = (
    from_table(clickstream.path(month), sequence="session", time="time", state="page", terminated=True)
    for month in ("may", "june")
)
cost = somcot.costs.labels(may.states, june.states)
results = {g: somcot.distance(may, june, cost, discount=g, confidence=0.9, rng=0) for g in (0.5, 0.7, 0.8, 0.9, 0.95)}
result = results[0.9]

figure, axes = plt.subplots(2, 2, figsize=(12, 8), layout="constrained")
somcot.plots.contributions(result, n=8, of="transitions", ax=axes[0, 0], names=NAMES)
somcot.plots.visits(result, ax=axes[0, 1], names=NAMES)
somcot.plots.graph(may, ax=axes[1, 0], names=NAMES)
somcot.plots.intervals({f"discount {g}": r for g, r in results.items()}, ax=axes[1, 1])
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=80)
plt.show()
