"""
Which month changed?
====================

Twelve months of a shop: how far apart they are, and in which month it changed.
"""

import matplotlib.pyplot as plt
import numpy as np

import somcot
from somcot import plots
from somcot.data import clickstream

# %%
# The bundled shop was redesigned on the first of June: five months from one chain, seven from the other.
names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
months = {
    name: clickstream.chain("may" if k < 5 else "june").sample(400, 12, rng=k)  # 400 sessions of up to 12 steps
    for k, name in enumerate(names)
}
year = somcot.distance_matrix(months, discount=0.9, confidence=0.9)

# %%
# The distance of each month from the one before; intervals that exclude 0 show a change.
step = np.arange(1, 12)
distance, low, high = (table[step - 1, step] for table in (year.values, year.low, year.high))
changed = [names[k] for k in step if year.low[k - 1, k] > 0]
print("changed in", ", ".join(changed))

# %%
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
plots.matrix(year, ax=axes[0])
axes[1].errorbar(step, distance, [distance - low, high - distance], fmt="o", capsize=3)
axes[1].set_xticks(step, names[1:], rotation=90)
axes[1].set(title="with 90 % intervals", ylabel="distance from the month before")
plots.embedding(year, ax=axes[2], n_clusters=2)
print(year)
plt.show()
