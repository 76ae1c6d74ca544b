"""
From a replay buffer to a small decision process
================================================

The steps that an agent has stored are counted, and states that behave alike are merged, with a bound on what it costs.
"""

import warnings

import gymnasium
import matplotlib.pyplot as plt

from somcot import mdp, readers

# %%
# Any replay buffer of Stable-Baselines3, CleanRL, d3rlpy or TorchRL will do, for example ``agent.replay_buffer``; here
# it is a mapping with the arrays of D4RL, filled by random actions.
env = gymnasium.make("FrozenLake-v1")
env.action_space.seed(0)
names = ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts")
buffer: dict[str, list[float]] = {name: [] for name in names}
state = env.reset(seed=0)[0]
for _ in range(6000):
    action = int(env.action_space.sample())
    after, reward, terminated, truncated = env.step(action)[:4]
    for name, value in zip(names, (state, action, reward, after, terminated, truncated), strict=True):
        buffer[name].append(value)
    state = env.reset()[0] if terminated or truncated else after

data = readers.from_replay_buffer(buffer)
print(data)

# %%
# The estimated process, merged into ten classes. The bounds hold for the counted tables, as a warning says.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    small = mdp.aggregate(data, discount=0.9, n_classes=10)
print(small)
print("classes:", dict(zip(data.states, small.labels.tolist(), strict=True)))

# %%
# How far is the recorded process from the table of the environment? The counted tables are too far apart where actions
# were tried a few times only; rows that the data cannot distinguish are pooled.
table = readers.from_tabular("FrozenLake-v1")
result = mdp.distance(table, data, discount=0.9, confidence=0.9)
print(result)

plt.imshow(mdp.metric(data.mdp(), discount=0.9), cmap="Blues")
plt.xticks(range(data.n_states), [str(s)[:4] for s in data.states], fontsize=7)
plt.yticks(range(data.n_states), [str(s) for s in data.states], fontsize=7)
plt.title("distance of states")
plt.show()
