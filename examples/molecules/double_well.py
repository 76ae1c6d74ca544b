"""
A molecule in a double well
===========================

A toy molecule hops between two wells; tilting the potential makes one well deeper. Both systems are recorded as numeric
vectors, a position and a fast coordinate. Coordinates alone give no interval here; cells do, as in Markov state models.
"""

import matplotlib.pyplot as plt
import numpy as np

import somcot
from somcot import plots


def record(tilt: float, seed: int, n: int = 200, n_steps: int = 40) -> somcot.Trajectories:
    """Langevin dynamics in the potential (x^2 - 1)^2 / 2 - tilt x, and a fast coordinate."""
    rng = np.random.default_rng(seed)
    x, fast = rng.normal(-1.0, 0.2, n), rng.normal(0.0, 0.5, n)
    rows: list[np.ndarray] = [np.column_stack([x, fast])]
    for _ in range(n_steps):
        x = x - 0.1 * (2 * x * (x * x - 1) - tilt) + np.sqrt(0.05) * rng.normal(size=n)
        fast = 0.5 * fast + 0.4 * rng.normal(size=n)
        rows.append(np.column_stack([x, fast]))
    return somcot.Trajectories.from_arrays(np.stack(rows, axis=1), names=["position", "fast"])


# %%
# One call looks for a map between the two recordings and tests it; where there is none, it simulates a model of both
# with common noise. Two wells have no such map, and noise does not bring together what starts in different wells: the
# number is approximate, and says so.
flat, tilted = record(0.0, seed=1), record(0.4, seed=2)
result = somcot.distance(flat, tilted, discount=0.95, confidence=0.9, scale=1.0)
print(result)

# %%
# With several wells, make cells the states, and compare them by the distance of their centres. Two recordings of the
# same molecule then do not differ significantly:
for other in (tilted, record(0.0, seed=3)):
    cells = somcot.discretise(flat, other, scale=1.0)
    print(somcot.distance(cells.x, cells.y, cells.cost("euclidean"), discount=0.95, confidence=0.9))

# %%
# Regions of the two that correspond to each other, and the tests of the map between the two.
picture, axes = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
plots.cells(result, ax=axes[0], names=("flat", "tilted"))
plots.map_tests(result, ax=axes[1])
plt.show()
