"""
A representation of a block MDP
===============================

Observations are noisy images; behind them are nine states of a small room. The steps of a replay buffer are enough to
find codes for them and the exact metric over the codes.

Run ``python examples/loss/block_mdp.py [picture.png]`` (needs torch and matplotlib; about 10 s).
"""

# sphinx_gallery_thumbnail_path = "../docs/images/loss-block-mdp.png"
from __future__ import annotations

import sys
from typing import Any

import numpy as np

from somcot import mdp
from somcot.torch import StateAbstraction

SIDE, PIXELS, DISCOUNT = 3, 12, 0.9
MOVES = [(-1, 0), (1, 0), (0, -1), (0, 1)]


def room() -> mdp.MDP:
    """Nine fields, four moves of which one in seven fails, reward in a corner."""
    P, R = np.zeros((9, 4, 9)), np.zeros((9, 4))
    R[8] = 1
    for s in range(9):
        for a in range(4):
            for b, (dr, dc) in enumerate(MOVES):
                t = min(max(s // 3 + dr, 0), 2) * 3 + min(max(s % 3 + dc, 0), 2)
                P[s, a, t] += 0.85 * (a == b) + 0.15 / 4
    return mdp.MDP(P, R)


def record(process: mdp.MDP, n: int, seed: int) -> tuple[dict[str, Any], Any]:
    """Steps of random actions, seen as images: a square for the field, a bar that wanders on its own, and noise."""
    rng = np.random.default_rng(seed)
    states, actions, bar = (
        [int(rng.integers(9))],
        rng.integers(4, size=n),
        rng.integers(-1, 2, size=n + 1).cumsum() % 12,
    )
    for a in actions:
        states.append(int(rng.choice(9, p=process.transitions[states[-1], a])))
    s = np.array(states)
    seen = 0.4 * rng.normal(size=(n + 1, PIXELS, PIXELS))
    for i, field in enumerate(s):
        seen[i, 4 * (field // 3) : 4 * (field // 3) + 4, 4 * (field % 3) : 4 * (field % 3) + 4] += 1
        seen[i, :, bar[i]] += 1.5
    seen = seen.astype(np.float32)
    rewards = process.rewards[s[:-1], actions]
    return {"observations": seen[:-1], "actions": actions, "rewards": rewards, "next_observations": seen[1:]}, s[:-1]


def main(path: str | None = None) -> None:
    process = room()
    steps, _ = record(process, 12_000, 0)
    learned = StateAbstraction(20, discount=DISCOUNT).fit(steps)
    print(learned)
    test, hidden = record(process, 600, 1)
    found = learned.distance(test["observations"], test["observations"])
    uniform = np.full((9, 4), 0.25)
    P, r = np.einsum("sa,sat->st", uniform, process.transitions)[:, None], (uniform * process.rewards).sum(1)[:, None]
    exact = mdp.metric(mdp.MDP(P, r), discount=DISCOUNT)[np.ix_(hidden, hidden)]
    print(
        f"correlation with the exact metric, unseen observations: {np.corrcoef(found.ravel(), exact.ravel())[0, 1]:.3f}"
    )
    if path is not None:
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
        order = np.argsort(hidden, kind="stable")
        for ax, table, title in zip(axes, (exact, found), ("exact, hidden states", "learned, images"), strict=True):
            ax.imshow(table[np.ix_(order, order)], cmap="Blues")
            ax.set(title=title, xticks=[], yticks=[])
        figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:2])

# %%
# The printed output and the figure, recorded with PyTorch 2.13:
#
# .. literalinclude:: ../../recorded/block_mdp.txt
#    :language: text
#
# .. image:: ../../images/loss-block-mdp.png
#    :alt: Exact and learned distances of observations
