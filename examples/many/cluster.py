"""
Many distances on a cluster
===========================

Two hundred recordings have 19,900 pairs. With a Dask client they are computed on its workers, with the same bits as
without one.
"""

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client

import somcot
from somcot import costs, plots

# %%
# Recordings of walks with three kinds of drift.
reward = [1, 0, 0, 0, -1]
cost = costs.absolute(reward, reward)
kinds = {"left": 0.3, "fair": 0.5, "right": 0.7}
walks = {
    f"{kind} {k}": somcot.random_walk(5, theta).sample(40, 25, rng=1000 * k + int(100 * theta))
    for kind, theta in kinds.items()
    for k in range(8)
}

# %%
# Any client of `dask.distributed` works; this one has two workers in the same process, so that the example runs
# anywhere.
with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
    there = somcot.distance_matrix(walks, cost, discount=0.9, client=client)
here = somcot.distance_matrix(walks, cost, discount=0.9)
print(here)
print("the same bits:", np.array_equal(there.values, here.values))

# %%
plots.embedding(here, n_clusters=3)
plt.show()
