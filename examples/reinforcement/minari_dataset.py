"""
In which simulator was this dataset recorded?
=============================================

A Minari dataset is all that is left of a frozen lake; nobody remembers how slippery it was. Simulators can be had for
any ice. Which of them is nearest to the recording, and which others cannot be told from it?
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
# A dataset as one finds it, written here so that the example needs no network: 300 episodes on ice that lets three
# steps in five succeed.
os.environ["MINARI_DATASETS_PATH"] = tempfile.mkdtemp()
env = gymnasium.make("FrozenLake-v1", success_rate=0.6)


def episode(seed: int) -> EpisodeBuffer:
    """One walk over the lake, as Minari keeps it."""
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
    warnings.simplefilter("ignore")  # who recorded it, with which code: not told here
    minari.create_dataset_from_buffers("lake/recorded-v0", [episode(seed) for seed in range(300)], env=env)

# %%
# Reading it takes the id.
data = readers.from_minari("lake/recorded-v0")
print(data)


# %%
# Candidates are known exactly: the environment has a table of its transitions. Holes and the goal are never left.
def lake(success_rate: float) -> somcot.MarkovChain:
    table: Any = gymnasium.make("FrozenLake-v1", success_rate=success_rate).get_wrapper_attr("P")
    kernel = np.zeros((16, 16))
    for state, action in enumerate(POLICY):
        for probability, following, _, _ in table[state][action]:
            kernel[state, following] += probability
    return somcot.MarkovChain(kernel)


candidates = {rate: lake(rate) for rate in np.round(np.linspace(0.3, 0.9, 13), 2).tolist()}

# %%
# A pair of fields costs how far apart they are on the map.
places = np.stack(np.divmod(np.arange(16), 4), axis=1)
cost = somcot.costs.euclidean(places[np.array(data.states, dtype=int)], places)
found = somcot.select_model(data, candidates, cost, discount=0.95, confidence=0.9)
print(found)
print("cannot be told apart:", found.confidence_set)

# %%
# The interval of the nearest one begins at 0: the recording may well come from it.
ax = plots.selection(found)
ax.axvline(0.6, color="gray", linestyle=":")
ax.set(xlabel="steps that succeed on this ice", ylabel="distance from the recording, in fields")
plt.show()
