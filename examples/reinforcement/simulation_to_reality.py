"""
From simulation to reality
==========================

A policy was planned in a simulator. What will it earn in reality, of which only some steps were recorded?
"""

import matplotlib.pyplot as plt
import numpy as np

from somcot import mdp, readers

# %%
# The simulator's ice is less slippery than that of the real lake: an action succeeds in eight of ten cases there, in
# one of two in reality. Of reality there are 10,000 steps of random actions.
simulator = readers.from_tabular("FrozenLake-v1", env_options={"success_rate": 0.8})
reality = {"success_rate": 0.5}
recorded = readers.from_env("FrozenLake-v1", None, n_steps=10_000, rng=0, actions=True, env_options=reality)
print(recorded)

# %%
# The bound needs no simulation: the value of the policy on the counted process with its standard error, and the worst
# for actions that were never tried. No episode earns more than 1.
bound = mdp.transfer_bound(simulator, recorded, discount=0.95, value_range=(0, 1))
print(bound)
bound.plot()
plt.show()

# %%
# Where more steps would help most:
for row in bound.largest_contributions[:3]:
    print(
        f"field {row.state}, action {row.action}: tried {row.visits} times, {100 * row.share:.0f} % of the uncertainty"
    )

# %%
# And the truth, which is unknown in practice:
real = readers.from_tabular("FrozenLake-v1", env_options=reality)
chain = mdp.on_policy(real, bound.policy)
values = np.linalg.solve(np.eye(chain.n_states) - 0.95 * np.asarray(chain.transition), np.asarray(chain.features))
print(f"the policy earns {chain.initial @ values:.3f} in reality")
