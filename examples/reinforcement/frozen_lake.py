"""
States that can be merged
=========================

In a decision process, two fields are alike when every action brings alike rewards and leads to alike fields. The
metric over all actions says how alike; merging fields that are close makes a smaller process, with a bound on what its
policy can lose.
"""

import gymnasium
import matplotlib.pyplot as plt

from somcot import mdp, readers

# %%
# The lake of 8 x 8 fields, read exactly from the environment's own table.
lake = readers.from_tabular(gymnasium.make("FrozenLake-v1", map_name="8x8"))
discount = 0.9
metric = mdp.metric(lake, discount=discount)
figure, ax = plt.subplots(layout="constrained")
figure.colorbar(ax.imshow(metric, cmap="viridis"), ax=ax)
ax.set(title="distance of every pair of states", xlabel="state", ylabel="state")

# %%
# Fewer classes, a larger bound; the loss that the lifted policy really has is mostly far below it.
best = mdp.optimal(lake, discount=discount).values
sizes = (5, 10, 20, 30, 40)
found = [mdp.aggregate(lake, discount=discount, n_classes=size) for size in sizes]
_, ax = plt.subplots(layout="constrained")
ax.plot(sizes, [each.policy_loss for each in found], "o-", label="bound on what the policy loses")
ax.axhline(float(best.max()), color="gray", linestyle=":", label="largest value of a state")
ax.set(xlabel="classes", ylabel="value", title="merged fields")
ax.legend(frameon=False)
for each in found:
    print(each)
plt.show()
