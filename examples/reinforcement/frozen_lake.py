"""
State aggregation
=================

Two states of a decision process are similar if every action gives similar rewards and leads to similar states. The
metric over all actions measures this. Merging close states gives a smaller process, with a bound on the loss of its
policy.
"""

from collections.abc import Hashable

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
from gymnasium.envs.toy_text.frozen_lake import MAPS

from somcot import mdp, readers

# %%
# The lake of 8 x 8 fields, read exactly from the transition table of the environment.
lake = readers.from_tabular(gymnasium.make("FrozenLake-v1", map_name="8x8"))
discount = 0.9
metric = mdp.metric(lake, discount=discount)
figure, ax = plt.subplots(layout="constrained")
figure.colorbar(ax.imshow(metric, cmap="viridis"), ax=ax, label="distance")
ax.set(title="distance of every pair of states", xlabel="state", ylabel="state")

# %%
# With ten classes, fields far from the goal are merged, and so are the holes and the goal, which give no further
# reward; fields on the way to the goal remain separate. The last state, the terminal one, is not on the map.
ten = mdp.aggregate(lake, discount=discount, n_classes=10)
_, ax = plt.subplots(layout="constrained")
ax.imshow(np.asarray(ten.labels)[:64].reshape(8, 8), cmap="tab10")
for (row, column), letter in np.ndenumerate(np.array([list(line) for line in MAPS["8x8"]])):
    ax.text(column, row, letter, ha="center", va="center", color="white")
ax.set(title="ten classes on the map (S start, F ice, H hole, G goal)", xticks=[], yticks=[])


# %%
# Fewer classes give a larger bound; the actual loss of the policy on the original process is far below it.
def loss(policy: tuple[Hashable, ...]) -> float:
    """The largest loss of a policy relative to the optimal values, over all states."""
    chain = mdp.on_policy(lake, policy)
    assert chain.features is not None
    values = np.linalg.solve(np.eye(chain.n_states) - discount * np.asarray(chain.transition), chain.features)
    return float((best - values).max())


best = mdp.optimal(lake, discount=discount).values
sizes = (5, 10, 20, 30, 40)
aggregations = [mdp.aggregate(lake, discount=discount, n_classes=size) for size in sizes]
for each in aggregations:
    print(f"{each}, actually {loss(each.policy):.4f}")
_, ax = plt.subplots(layout="constrained")
ax.plot(sizes, [each.policy_loss for each in aggregations], "o-", label="bound on the loss of the policy")
ax.plot(sizes, [loss(each.policy) for each in aggregations], "s-", label="actual loss, at most")
ax.axhline(float(best.max()), color="gray", linestyle=":", label="largest value of a state")
ax.set(xlabel="classes", ylabel="value", title="merged states")
ax.legend(frameon=False)
plt.show()
