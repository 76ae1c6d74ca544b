"""
Which model explains the data?
==============================

A recording and a family of candidate models: which one is nearest, and which others cannot be excluded?
"""

import matplotlib.pyplot as plt
import numpy as np

import somcot
from somcot import costs, plots

# %%
# The data come from a walk with drift 0.62; only the walls are rewarded.
reward = [1, 0, 0, 0, 0, 0, 0, 0, 0, -1]
cost = costs.absolute(reward, reward)
data = somcot.random_walk(10, 0.62).sample(60, 50, rng=3)
candidates = {round(float(theta), 2): somcot.random_walk(10, float(theta)) for theta in np.linspace(0.4, 0.8, 21)}

# %%
# The confidence set contains the nearest candidate with 90 % confidence. All candidates share the noise of the data, so
# it is much smaller than the set of candidates with overlapping intervals.
selection = somcot.select_model(data, candidates, cost, discount=0.9, confidence=0.9)
print(selection)
print("confidence set:", selection.confidence_set)
plots.selection(selection)
plt.show()
