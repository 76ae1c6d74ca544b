"""
States that can be merged
=========================

In a decision process, two fields are alike when every action brings alike rewards and leads to alike fields. The
metric over all actions says how alike; merging fields that are close makes a smaller process, with a bound on what its
policy can lose.
"""

from collections.abc import Hashable

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
from gymnasium.envs.toy_text.frozen_lake import MAPS

from somcot import mdp, readers

# %%
# The lake of 8 x 8 fields, read exactly from the environment's own table.
lake = readers.from_tabular(gymnasium.make("FrozenLake-v1", map_name="8x8"))
discount = 0.9
metric = mdp.metric(lake, discount=discount)
figure, ax = plt.subplots(layout="constrained")
figure.colorbar(ax.imshow(metric, cmap="viridis"), ax=ax, label="distance")
ax.set(title="distance of every pair of states", xlabel="state", ylabel="state")

# %%
# Merged into ten classes, fields far from the goal become one, and so do holes and the goal itself, where nothing more
# is earned; fields on the way to the goal stay apart. The last state, where episodes have ended, is not on the map.
ten = mdp.aggregate(lake, discount=discount, n_classes=10)
_, ax = plt.subplots(layout="constrained")
ax.imshow(np.asarray(ten.labels)[:64].reshape(8, 8), cmap="tab10")
for (row, column), letter in np.ndenumerate(np.array([list(line) for line in MAPS["8x8"]])):
    ax.text(column, row, letter, ha="center", va="center", color="white")
ax.set(title="ten classes on the map (S start, F ice, H hole, G goal)", xticks=[], yticks=[])


# %%
# Fewer classes, a larger bound; what the policy of the small process really loses on the large one is far below it.
def loss(policy: tuple[Hashable, ...]) -> float:
    """How much less than the best a policy earns, where it loses most."""
    chain = mdp.on_policy(lake, policy)
    assert chain.features is not None
    values = np.linalg.solve(np.eye(chain.n_states) - discount * np.asarray(chain.transition), chain.features)
    return float((best - values).max())


best = mdp.optimal(lake, discount=discount).values
sizes = (5, 10, 20, 30, 40)
found = [mdp.aggregate(lake, discount=discount, n_classes=size) for size in sizes]
for each in found:
    print(f"{each}, really {loss(each.policy):.4f}")
_, ax = plt.subplots(layout="constrained")
ax.plot(sizes, [each.policy_loss for each in found], "o-", label="bound on what the policy loses")
ax.plot(sizes, [loss(each.policy) for each in found], "s-", label="what it really loses, at most")
ax.axhline(float(best.max()), color="gray", linestyle=":", label="largest value of a state")
ax.set(xlabel="classes", ylabel="value", title="merged fields")
ax.legend(frameon=False)
plt.show()
