"""
Two policies in one environment
===============================

A careful and a bold policy cross a frozen lake. How much do they differ, and where?
"""

import matplotlib.pyplot as plt
import numpy as np

import somcot
from somcot import costs, plots, readers

# %%
# The careful policy keeps to the wall; the bold one heads for the goal. Both slip on the ice.
# Episodes end on the field of their last step (``terminal=False``), since where they end is part of the map.
LEFT, DOWN, RIGHT, UP = range(4)
careful = [LEFT, UP, UP, UP, LEFT, LEFT, LEFT, LEFT, UP, DOWN, LEFT, LEFT, LEFT, RIGHT, DOWN, LEFT]
bold = [DOWN, RIGHT, DOWN, LEFT, DOWN, LEFT, DOWN, LEFT, RIGHT, DOWN, DOWN, LEFT, LEFT, RIGHT, RIGHT, LEFT]
recordings = {
    name: readers.from_env(
        "FrozenLake-v1", lambda state, table=table: table[int(state)], n_steps=20_000, rng=seed, terminal=False
    )
    for seed, (name, table) in enumerate((("careful", careful), ("bold", bold)))
}
a, b = recordings.values()

# %%
# The cost is the distance on the map, in fields.
on_map = [np.stack(np.divmod(np.array(side.states, dtype=int), 4), axis=1) for side in (a, b)]
cost = costs.euclidean(on_map[0], on_map[1])
result = somcot.distance(a, b, cost, discount=0.95, confidence=0.9)
print(result)

# %%
# The result is the discounted mean distance in fields. These pairs of fields contribute most:
print(result.contributions(4))
plots.visits(result, names=("careful", "bold"))
plt.show()
