"""
Which simulator matches a dataset?
==================================

A Minari dataset was recorded on a frozen lake of unknown slipperiness. Which simulator is nearest to the recording, and
which others cannot be excluded?
"""

import os
import tempfile
import warnings
from typing import Any

import gymnasium
import matplotlib.pyplot as plt
import minari
import numpy as np
from minari.data_collector.episode_buffer import EpisodeBuffer

import somcot
from somcot import plots, readers

LEFT, DOWN, RIGHT, UP = range(4)
POLICY = [DOWN, RIGHT, DOWN, LEFT, DOWN, LEFT, DOWN, LEFT, RIGHT, DOWN, DOWN, LEFT, LEFT, RIGHT, RIGHT, LEFT]

# %%
# The dataset is created here, so that the example needs no network: 300 episodes in which three steps in five succeed.
os.environ["MINARI_DATASETS_PATH"] = tempfile.mkdtemp()
env = gymnasium.make("FrozenLake-v1", success_rate=0.6)


def episode(seed: int) -> EpisodeBuffer:
    """One episode as a Minari buffer."""
    states: list[int] = [env.reset(seed=seed)[0]]
    steps: list[tuple[Any, ...]] = []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        action = POLICY[int(states[-1])]
        state, *rest, _ = env.step(action)
        states.append(state)
        steps.append((action, *rest))
    actions, rewards, terminations, truncations = (list(column) for column in zip(*steps, strict=True))
    return EpisodeBuffer(
        id=seed, observations=states, actions=actions, rewards=rewards,
        terminations=terminations, truncations=truncations, infos={},
    )  # fmt: skip


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Minari warns about missing metadata
    minari.create_dataset_from_buffers("lake/recorded-v0", [episode(seed) for seed in range(300)], env=env)

# %%
# Read the dataset by its id.
data = readers.from_minari("lake/recorded-v0", terminal=False)  # where an episode ends is a place on the map
print(data)


# %%
# The candidates are known exactly from the transition table of the environment. Holes and the goal are absorbing.
def lake(success_rate: float) -> somcot.MarkovChain:
    table: Any = gymnasium.make("FrozenLake-v1", success_rate=success_rate).get_wrapper_attr("P")
    kernel = np.zeros((16, 16))
    for state, action in enumerate(POLICY):
        for probability, following, _, _ in table[state][action]:
            kernel[state, following] += probability
    return somcot.MarkovChain(kernel)


candidates = {rate: lake(rate) for rate in np.round(np.linspace(0.3, 0.9, 13), 2).tolist()}

# %%
# The cost of a pair of fields is their distance on the map.
places = np.stack(np.divmod(np.arange(16), 4), axis=1)
cost = somcot.costs.euclidean(places[np.array(data.states, dtype=int)], places)
selection = somcot.select_model(data, candidates, cost, discount=0.95, confidence=0.9)
print(selection)
print("confidence set:", selection.confidence_set)

# %%
# The interval of the nearest simulator contains 0, so the recording may come from it.
ax = plots.selection(selection)
ax.axvline(0.6, color="gray", linestyle=":")
ax.set(xlabel="success rate of a step", ylabel="distance from the recording, in fields")
plt.show()
