"""
Distance and corresponding states
=================================

The distance of a fair random walk from drifting ones, and the states that correspond if one walk is observed with
noise.
"""

import matplotlib.pyplot as plt
import numpy as np

import somcot

# %%
# A fair walk between two sticky walls, and walks with drift. Only the walls are rewarded.
reward = np.r_[1.0, np.zeros(8), -1.0]
cost = somcot.costs.absolute(reward, reward)
fair = somcot.random_walk(10, 0.5)
thetas = np.linspace(0.02, 0.98, 49)
curves = {
    discount: [somcot.distance(fair, somcot.random_walk(10, t), cost, discount=discount).distance for t in thetas]
    for discount in (0.9, 0.95, 0.99)
}

# %%
# The same walk with noisy observations: every state is observed as one of five irrelevant variants.
noisy = somcot.block_chain(fair, 5)
result = somcot.distance(fair, noisy, somcot.costs.absolute(reward, np.repeat(reward, 5)), discount=0.95)

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
for (discount, curve), colour in zip(curves.items(), ("#9ecae1", "#4292c6", "#08306b"), strict=True):
    left.plot(thetas, curve, color=colour, label=f"discount {discount}")
left.set(xlabel="probability of a step up, in the other walk", ylabel="distance", ylim=(0, None))
left.set_title("How far is a fair walk from a drifting one?")
left.legend(frameon=False)
left.spines[["top", "right"]].set_visible(False)
somcot.plots.encoder(result, ax=right)
right.set_title("Which noisy state belongs to which?")
plt.show()
