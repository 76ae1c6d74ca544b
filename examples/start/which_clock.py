"""
One pair of processes, five clocks
==================================

A distance depends on how time is weighted: discounted, long-run average, finite horizon, total, or continuous time.
"""

import matplotlib.pyplot as plt
import numpy as np

import somcot
from somcot import ContinuousChain, MarkovChain, costs

# %%
# Two machines that wear out; the second one is repaired more often.
states = ["new", "worn", "broken"]
slow = MarkovChain([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.1, 0.0, 0.9]], states=states)
quick = MarkovChain([[0.9, 0.1, 0.0], [0.3, 0.6, 0.1], [0.5, 0.0, 0.5]], states=states)
cost = costs.labels(states, states)

# %%
# With a discount, early differences count most. The long-run average is the limit as the discount tends to 1.
discounts = 1 - np.logspace(0, -4, 25)[1:]
curve = [somcot.distance(slow, quick, cost, discount=float(g)).distance for g in discounts]
average = somcot.distance(slow, quick, cost, discount=1)
print(average, f"after about {average.settling:.0f} steps the start is forgotten", sep="\n")

# %%
# A finite horizon weights its steps equally.
horizons = np.unique(np.logspace(0, 2.1, 30).astype(int))
steps = [somcot.distance(slow, quick, cost, horizon=int(t)).distance for t in horizons]
figure, ax = plt.subplots(layout="constrained")
ax.plot(1 / (1 - discounts), curve, label="discounted, by its mean time 1 / (1 - discount)")
ax.plot(horizons, steps, label="up to a horizon")
ax.axhline(average.distance, color="gray", linestyle=":", label="long-run average")
ax.set(xscale="log", xlabel="horizon in steps", ylabel="share of time in different states")
ax.legend(frameon=False)

# %%
# Continuous time uses rates instead of probabilities. If both processes terminate, the total cost until then is finite.
rates = [ContinuousChain(np.asarray(chain.transition) - np.eye(3), states=states) for chain in (slow, quick)]
print("in real time:", somcot.distance(rates[0], rates[1], cost, rate=0.1))
scrapped = [
    MarkovChain([[0.9, 0.1, 0.0], [repair, 0.9 - repair, 0.1], [0.0, 0.0, 1.0]], states=states) for repair in (0.0, 0.3)
]
print("steps in different states until both are broken:", somcot.distance(scrapped[0], scrapped[1], cost, total=True))
plt.show()
