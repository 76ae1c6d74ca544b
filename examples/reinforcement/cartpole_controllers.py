"""
CartPole under two controllers
==============================

The same cart, once with a gentle controller and once with a nervous one. Observations are four real numbers; no bins
are needed, and ends stay at their place: a pole that fell to the left is not one that fell to the right.
"""

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np

import somcot
from somcot import plots, readers
from somcot.plumbing.arrays import Floats


def controller(gain: float, seed: int) -> somcot.Trajectories:
    """Push to the side that the pole falls to, with a fifth of the pushes at random."""
    rng = np.random.default_rng(seed)

    def act(seen: Floats) -> int:
        pushed = seen[2] + gain * seen[3] + 0.1 * seen[0] + 0.2 * seen[1] > 0
        return int(pushed) if rng.random() > 0.2 else int(rng.integers(2))

    return readers.from_env("CartPole-v1", act, n_steps=6000, rng=seed, vectors=True)


# %%
# A cart that is pushed left or right is no linear system, and no map carries one controller into the other. So the
# number is called approximate and has no interval, and a warning says how a known shift of these recordings is misread.
gentle, nervous, again = controller(0.3, 1), controller(1.5, 2), controller(0.3, 3)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    result = somcot.distance(gentle, nervous, discount=0.95, confidence=0.9)
    same = somcot.distance(gentle, again, discount=0.95, confidence=0.9)
print(*textwrap.wrap(str(result)), "", *textwrap.wrap(str(said[0].message)), sep="\n")

# %%
# The same controller twice, for comparison:
print(*textwrap.wrap(str(same)), sep="\n")

# %%
ax = plots.cells(result, names=("gentle", "nervous"), coordinates=(2, 3))
ax.set(title="who goes with whom", xlabel="angle of the pole", ylabel="how fast it turns")
plt.show()
