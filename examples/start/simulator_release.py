"""
Did release 2 change the physics, or is it chaos?
=================================================

A chaotic simulator never repeats its runs: a different compiler changes the last digit, and soon every number. So a
regression test cannot compare runs step by step. It can ask whether the *process* is the same to within a margin.
"""

import matplotlib.pyplot as plt
import numpy as np

import somcot

# %%
# The simulator: Lorenz's weather, integrated with Heun's method, 120 runs with starts of their own. `rounding` is what
# another compiler may change, `heating` is physics.


def simulate(heating: float = 28.0, rounding: float = 0.0) -> list[np.ndarray]:
    """Runs of 80 recorded steps each; the first 20 time units are not recorded."""
    state = np.random.default_rng(7).normal([0.0, 0.0, 25.0], 5.0, size=(120, 3)) + rounding
    recorded = []
    for step in range(3600):
        slope = drift(state, heating)
        state = state + 0.005 * (slope + drift(state + 0.01 * slope, heating))
        if step >= 2000 and step % 20 == 0:
            recorded.append(state)
    return list(np.stack(recorded, axis=1))


def drift(state: np.ndarray, heating: float) -> np.ndarray:
    """Lorenz 1963."""
    x, y, z = state.T
    return np.stack([10.0 * (y - x), x * (heating - z) - y, x * y - 8.0 / 3.0 * z], axis=1)


release_1 = simulate()
recompiled = simulate(rounding=1e-12)
release_2 = simulate(heating=30.0)

# %%
# Step by step, the recompiled release is as wrong as the one with other physics.
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
for ax, runs, title in zip(axes, (recompiled, release_2), ("recompiled", "release 2"), strict=True):
    ax.plot(release_1[0][:, 2], label="release 1")
    ax.plot(runs[0][:, 2], label=title)
    ax.set(title=title, xlabel="step")
    ax.legend()

# %%
# As a process, only release 2 differs. The heights are cut into eight layers, the same for all; the distance is
# the share of the steps that matter on which two releases, run side by side as well as possible, are in different
# layers. Up to 0.1 is acceptable here. Layers have memory, so runs are permuted as wholes, and a note says what is
# compared.
edges = np.quantile(np.concatenate(release_1)[:, 2], np.arange(1, 8) / 8)


def layers(runs: list[np.ndarray]) -> somcot.Samples:
    """The layer of every recorded step."""
    return somcot.Samples.from_trajectories([np.digitize(run[:, 2], edges).tolist() for run in runs])


before = layers(release_1)
for name, runs in (("recompiled", recompiled), ("release 2", release_2)):
    test = somcot.same_process(before, layers(runs), discount=0.9, margin=0.1)
    print(f"{name}: {test.verdict}, {test.distance}")

# %%
# In a test suite this is one line, and the failure names the steps that changed. `somcot baseline` keeps the recording
# of release 1 in a small file.
from somcot.testing import assert_same_process  # noqa: E402

assert_same_process(layers(recompiled), before, margin=0.1, discount=0.9)
try:
    assert_same_process(layers(release_2), before, margin=0.1, discount=0.9)
except AssertionError as failure:
    print(failure)

# %%
# How many runs would find a smaller change?
plan = somcot.sample_size(before, effect=0.05, discount=0.9)
print(plan)
plan.plot()
plt.show()
