"""
SOMCOT on a custom simulator
============================

The paper's algorithm only needs samples: no kernel, no stored data.
"""

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np

import somcot
from somcot import costs, plots, streams

# %%
# Two queues with five places; the second clerk is slower.


def queue(service: float) -> Callable[[int, np.random.Generator], int]:
    def step(waiting: int, rng: np.random.Generator) -> int:
        return int(np.clip(waiting + (rng.random() < 0.5) - (rng.random() < service), 0, 4))

    return step


discount = 0.9
fast, slow = (
    streams.from_simulator(lambda: 0, queue(service), discount, rng=k, states=range(5))
    for k, service in enumerate((0.6, 0.4))
)

# %%
# The cost is the difference of the queue lengths. Every step of the algorithm uses one transition of each queue.
cost = costs.absolute(range(5), range(5))
result = somcot.distance(fast, slow, cost, discount=discount, method="somcot", n_steps=20_000)
print(result)
print(*result.diagnose(), sep="\n")

# %%
# Left: the mean of all steps so far; the result, the last point, is the mean of the last half. Right: the encoder, the
# distribution of the length of the slow queue given that of the fast one.
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plots.trace(result, ax=axes[0])
plots.encoder(result, ax=axes[1], names=("fast", "slow"))
plt.show()
