"""
Which model explains the data?
==============================

A recording and a family of candidate models. Which of them is nearest, and which others cannot be told from it?
"""

import matplotlib.pyplot as plt
import numpy as np

import somcot
from somcot import costs, plots

# %%
# The truth is a walk with drift 0.62; only the walls can be told from the states between them.
reward = [1, 0, 0, 0, 0, 0, 0, 0, 0, -1]
cost = costs.absolute(reward, reward)
data = somcot.random_walk(10, 0.62).sample(60, 50, rng=3)
candidates = {round(float(theta), 2): somcot.random_walk(10, float(theta)) for theta in np.linspace(0.4, 0.8, 21)}

# %%
# The confidence set holds the nearest candidate with the probability asked for. All candidates share the data's noise,
# so it is much smaller than "all whose intervals overlap".
found = somcot.select_model(data, candidates, cost, discount=0.9, confidence=0.9)
print(found)
print("cannot be told apart:", found.confidence_set)
plots.selection(found)
plt.show()
