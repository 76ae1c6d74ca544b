"""
CartPole under two controllers
==============================

The same cart with a gentle and with a nervous controller. Observations are four real numbers. No bins are needed, and
terminal states keep their position: a pole that fell to the left differs from one that fell to the right.
"""

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np

import somcot
from somcot import plots, readers


def controller(gain: float, seed: int) -> somcot.Trajectories:
    """Push towards the falling side, with a fifth of the pushes at random."""
    rng = np.random.default_rng(seed)

    def act(seen: np.ndarray) -> int:
        pushed = seen[2] + gain * seen[3] + 0.1 * seen[0] + 0.2 * seen[1] > 0
        return int(pushed) if rng.random() > 0.2 else int(rng.integers(2))

    return readers.from_env("CartPole-v1", act, n_steps=6000, rng=seed, vectors=True)


# %%
# A cart that is pushed left or right is nearly deterministic, and no map transforms one controller into the other. So
# whole episodes are matched by optimal transport; if they are too few, the distance is approximate, and a warning says
# why.
gentle, nervous, again = controller(0.3, 1), controller(1.5, 2), controller(0.3, 3)
with warnings.catch_warnings(record=True) as messages:
    warnings.simplefilter("always")
    result = somcot.distance(gentle, nervous, discount=0.95, confidence=0.9)
    same = somcot.distance(gentle, again, discount=0.95, confidence=0.9)
print(*textwrap.wrap(str(result)), "", *(line for m in messages for line in textwrap.wrap(str(m.message))), sep="\n")

# %%
# The same controller twice, for comparison:
print(*textwrap.wrap(str(same)), sep="\n")

# %%
ax = plots.cells(result, names=("gentle", "nervous"), coordinates=(2, 3))
ax.set(title="corresponding cells", xlabel="angle of the pole", ylabel="angular velocity")
plt.show()
