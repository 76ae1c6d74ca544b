"""
A misspecified simulator
========================

Fit a simulator that is misspecified in an irrelevant variable: maximum likelihood and the distance as a loss.

A walk on 7 positions has an additional nuisance variable with 3 values; only the walls are rewarded. The simulator has
one parameter, theta, and uses it twice: the walk goes right with probability theta, and the nuisance variable changes
with probability theta. In the true process the walk goes right with probability 0.6. Three true processes:

- the nuisance variable changes with probability 0.6 too: the simulator is correct;
- it changes with probability 0.2: the simulator is wrong, but not in a way that affects the reward;
- the walk goes right with probability 0.45 on the left and 0.75 on the right: the error affects the reward.

Run ``python examples/loss/wrong_simulator.py [picture.png]`` (needs torch and matplotlib; about a minute).
"""

# sphinx_gallery_thumbnail_path = '../docs/images/loss-wrong-simulator.png'
from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar

import somcot
import somcot.torch

N, TURNS, DISCOUNT = 7, 3, 0.9
WORLDS = {
    "right": (np.full(N, 0.6), 0.6),
    "wrong where\nnobody looks": (np.full(N, 0.6), 0.2),
    "wrong in what\nis rewarded": (np.linspace(0.45, 0.75, N), 0.6),
}
REWARD = np.repeat(np.r_[-1.0, np.zeros(N - 2), 1.0], TURNS)
START = np.repeat(np.eye(N)[N // 2], TURNS) / TURNS
COST = torch.tensor(somcot.costs.absolute(REWARD, REWARD))


def kernel(right: Any, turn: Any) -> Any:
    """The chain of position and nuisance: `right` is a probability for each position, `turn` a number."""
    up, down = torch.roll(torch.eye(N), 1, 1).double(), torch.roll(torch.eye(N), -1, 1).double()
    up[-1], down[0] = torch.eye(N)[-1], torch.eye(N)[0]
    walk = right[:, None] * up + (1 - right)[:, None] * down
    cycle = turn * torch.roll(torch.eye(TURNS).double(), 1, 1) + (1 - turn) * torch.eye(TURNS).double()
    return torch.kron(walk, cycle)


def simulator(theta: Any) -> Any:
    return kernel(theta.expand(N), theta)


def number(value: float) -> Any:
    return torch.tensor(value, dtype=torch.float64)


def likelihood_fit(counts: Any) -> float:
    """Theta of the largest likelihood."""

    def loss(theta: float) -> float:
        return -float((counts * torch.log(simulator(number(theta)).clamp_min(1e-300))).sum())

    return float(minimize_scalar(loss, bounds=(0.01, 0.99), method="bounded", options={"xatol": 1e-6}).x)


def distance_fit(world: Any, steps: int) -> float:
    """Theta of the least distance, the best iterate of gradient descent from 0.5."""
    logit = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([logit], lr=0.05)
    warm, best = somcot.torch.WarmStart(), (np.inf, 0.5)
    for _ in range(steps):
        theta = logit.sigmoid()
        loss = somcot.torch.distance(simulator(theta), world, COST, DISCOUNT, START, START, warm=warm)
        best = min(best, (loss.item(), theta.item()))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return best[1]


def value(P: Any) -> float:
    """Expected discounted reward from the initial distribution."""
    V = np.linalg.solve(np.eye(N * TURNS) - DISCOUNT * np.asarray(P), REWARD)
    return float(START @ V)


def run(n_sets: int = 5, n_episodes: int = 200, steps: int = 60) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """For every world and both fits: theta and the error of the value of the start, for each data set."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for world, (right, turn) in WORLDS.items():
        true = kernel(torch.tensor(right), turn)
        chain = somcot.MarkovChain(true.numpy(), START)
        found[world] = {"maximum likelihood": [], "distance": []}
        for seed in range(n_sets):
            counts = torch.tensor(np.asarray(chain.sample(n_episodes, 50, rng=seed).counts(), dtype=np.float64))
            counted = (counts + 1e-9 * true) / (counts + 1e-9 * true).sum(1, keepdim=True)  # rows without data
            for name, theta in (
                ("maximum likelihood", likelihood_fit(counts)),
                ("distance", distance_fit(counted, steps)),
            ):
                error = abs(value(simulator(number(theta))) - value(true))
                found[world][name].append((theta, error))
    return found


def draw(found: dict[str, dict[str, list[tuple[float, float]]]], path: str) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for k, (name, colour) in enumerate((("maximum likelihood", "tab:orange"), ("distance", "tab:blue"))):
        for place, fits in enumerate(found.values()):
            thetas, errors = np.array(fits[name]).T
            spot = place + 0.24 * (k - 0.5) + np.linspace(-0.05, 0.05, len(thetas))
            axes[0].plot(spot, thetas, "o", color=colour, ms=5, alpha=0.8, label=name if place == 0 else None)
            axes[1].plot(spot, np.maximum(errors, 1e-3), "o", color=colour, ms=5, alpha=0.8)
    axes[0].axhline(0.6, color="0.6", lw=1, zorder=0)
    axes[0].set(ylabel="theta found", ylim=(0.3, 0.7))
    axes[1].set(ylabel="error of the value of the start", yscale="log")
    axes[0].legend(frameon=False)
    for ax in axes:
        ax.set_xticks(range(len(found)), [f"simulator\n{world}" for world in found])
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main(path: str | None = None) -> None:
    found = run()
    for world, fits in found.items():
        for name, pairs in fits.items():
            thetas, errors = np.array(pairs).T
            label = " ".join(world.split())
            print(f"{label:24} {name:20} theta {thetas.mean():.3f}   error of the value {errors.mean():.3f}")
    if path is not None:
        draw(found, path)


if __name__ == "__main__":
    main(*sys.argv[1:2])

# %%
# The printed output and the figure, recorded with PyTorch 2.13:
#
# .. literalinclude:: ../../recorded/wrong_simulator.txt
#    :language: text
#
# .. image:: ../../images/loss-wrong-simulator.png
#    :alt: Parameter and value error of two fits in three worlds
