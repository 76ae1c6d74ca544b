"""
The states behind observations
==============================

Hidden states from observations: the exact metric provides labels for a network, compared with end-to-end learning.

A walk on 10 states is observed through 10 features, 6 of signal and 4 of noise. A network has to predict the state,
also for unseen observations. Only transitions between 50 known observations and their rewards are recorded. Six
methods are scored by the adjusted Rand index (1: the same partition, 0: chance):

- k-means of the features alone;
- an embedding whose distances follow rewards and mean successors (a small deep-bisimulation loss), clustered;
- the same clusters as labels that teach the network;
- a soft assignment trained end to end, so that the chain of its classes is near the counted chain;
- the exact metric of the counted chain, clustered; the labels teach the network;
- the same, then trained end to end.

Run ``python examples/loss/labels_from_the_metric.py [picture.png]`` (needs torch and matplotlib; about a minute).
"""

# sphinx_gallery_thumbnail_path = '../docs/images/loss-labels.png'
from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import squareform

import somcot
import somcot.torch

STATES, COPIES, UNSEEN, DISCOUNT = 10, 5, 4, 0.95
WAYS = (
    "k-means of features",
    "deep bisimulation",
    "... labels, network",
    "end to end",
    "metric, labels, network",
    "... then end to end",
)


def adjusted_rand(a: Any, b: Any) -> float:
    """Agreement of two partitions, 0 for chance."""
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1.0)

    def pairs(counts: Any) -> float:
        return float((counts * (counts - 1) / 2).sum())

    both, rows, columns = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    chance = rows * columns / (len(a) * (len(a) - 1) / 2)
    return (both - chance) / ((rows + columns) / 2 - chance)


class World:
    """Counted transitions between known observations, their rewards and features, and observations never met."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        walk = somcot.block_chain(somcot.random_walk(STATES, 0.5), COPIES)
        chain = somcot.MarkovChain(walk.transition, np.full(STATES * COPIES, 1 / (STATES * COPIES)))
        counts = np.asarray(chain.sample(400, 50, rng=seed).counts(), dtype=np.float64)
        self.kernel = torch.tensor(counts / counts.sum(axis=1, keepdims=True))  # all were met
        self.counts = torch.tensor(counts)
        self.reward = np.repeat(np.linspace(-1.0, 1.0, STATES) ** 3, COPIES)
        self.truth, self.new_truth = np.repeat(np.arange(STATES), COPIES), np.repeat(np.arange(STATES), UNSEEN)
        centres = rng.normal(size=(STATES, 6))
        self.features, self.new_features = (
            torch.tensor(np.hstack([centres[t] + 0.5 * rng.normal(size=(len(t), 6)), rng.normal(size=(len(t), 4))]))
            for t in (self.truth, self.new_truth)
        )


def network(seed: int, outputs: int) -> Any:
    torch.manual_seed(seed)
    layers = torch.nn.Linear(10, 64), torch.nn.ReLU(), torch.nn.Linear(64, outputs)
    return torch.nn.Sequential(*layers).double()


def metric_labels(world: World) -> Any:
    chain = somcot.MarkovChain(world.kernel.numpy())
    table = somcot.metric(chain, chain, somcot.costs.absolute(world.reward, world.reward), discount=DISCOUNT)
    return fcluster(linkage(squareform((table + table.T) / 2, checks=False), "average"), STATES, "maxclust") - 1


def teach(net: Any, world: World, labels: Any, steps: int) -> None:
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=1e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(world.features), torch.tensor(labels).long()).backward()
        optimiser.step()


def end_to_end(net: Any, world: World, steps: int, lr: float) -> None:
    """Soft classes, their counted chain and mean rewards, and its distance from the chain of observations."""
    optimiser = torch.optim.Adam(net.parameters(), lr=lr)
    reward, warm = torch.tensor(world.reward), somcot.torch.WarmStart()
    visits = world.counts.sum(1) + 1e-3
    for _ in range(steps):
        soft = net(world.features).softmax(-1)
        moves = soft.T @ world.counts @ soft + 1e-3
        means = (soft.T @ (visits * reward)) / (soft.T @ visits)
        cost = (means[:, None] - reward[None, :]).abs()
        start = soft.mean(0)
        loss = somcot.torch.distance(moves / moves.sum(1, keepdim=True), world.kernel, cost, DISCOUNT, start, warm=warm)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def deep_bisimulation(net: Any, world: World, steps: int) -> None:
    """Distances of embeddings follow differences of rewards plus distances of mean successors (no transport)."""
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    reward = torch.tensor(world.reward)
    gaps = (reward[:, None] - reward[None, :]).abs()
    for _ in range(steps):
        z = net(world.features)
        with torch.no_grad():
            following = world.kernel @ z
            target = gaps + DISCOUNT * torch.cdist(following, following, p=1)
        optimiser.zero_grad()
        ((torch.cdist(z, z, p=1) - target) ** 2).mean().backward()
        optimiser.step()


def scores(world: World, labels: Any, new_labels: Any) -> tuple[float, float]:
    return adjusted_rand(labels, world.truth), adjusted_rand(new_labels, world.new_truth)


def classes(net: Any, world: World) -> tuple[float, float]:
    known, new = (net(f).argmax(-1).numpy(force=True) for f in (world.features, world.new_features))
    return scores(world, known, new)


def clusters(known: Any, new: Any, world: World, seed: int) -> tuple[tuple[float, float], Any]:
    """k-means of what is known; what is new goes to the nearest centre. The scores and the labels."""
    centres, labels = kmeans2(known, STATES, minit="++", rng=seed, iter=50)
    return scores(world, labels, ((new[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)), labels


def run(n_worlds: int = 3, steps: int = 200) -> dict[str, list[tuple[float, float]]]:
    """For every way: the index on known and on new observations, one pair for each world."""
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for seed in range(n_worlds):
        world = World(seed)
        found[WAYS[0]].append(clusters(world.features.numpy(), world.new_features.numpy(), world, seed)[0])
        net = network(seed, 8)
        deep_bisimulation(net, world, 3 * steps)
        known, new = (net(f).numpy(force=True) for f in (world.features, world.new_features))
        score, labels = clusters(known, new, world, seed)
        found[WAYS[1]].append(score)
        net = network(seed, STATES)
        teach(net, world, labels, steps)
        found[WAYS[2]].append(classes(net, world))
        net = network(seed, STATES)
        end_to_end(net, world, steps, lr=0.01)
        found[WAYS[3]].append(classes(net, world))
        net = network(seed, STATES)
        teach(net, world, metric_labels(world), steps)
        found[WAYS[4]].append(classes(net, world))
        end_to_end(net, world, steps // 2, lr=0.001)
        found[WAYS[5]].append(classes(net, world))
    return found


def draw(found: dict[str, list[tuple[float, float]]], path: str) -> None:
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
    for place, pairs in enumerate(found.values()):
        for side, (name, colour) in enumerate((("known observations", "tab:blue"), ("never met", "tab:orange"))):
            values = [pair[side] for pair in pairs]
            label = name if place == 0 else None
            ax.plot(values, [-place + 0.12 - 0.24 * side] * len(values), "o", color=colour, alpha=0.8, label=label)
    ax.set_yticks([-p for p in range(len(found))], list(found))
    ax.set(xlabel="adjusted Rand index with the true states", xlim=(-0.05, 1.05))
    ax.legend(frameon=False, loc="lower left")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main(path: str | None = None) -> None:
    found = run()
    for way, pairs in found.items():
        known, new = np.array(pairs).mean(axis=0)
        print(f"{way:24} known observations {known:.2f}, never met {new:.2f}")
    if path is not None:
        draw(found, path)


if __name__ == "__main__":
    main(*sys.argv[1:2])

# %%
# The printed output and the figure, recorded with PyTorch 2.13:
#
# .. literalinclude:: ../../recorded/labels_from_the_metric.txt
#    :language: text
#
# .. image:: ../../images/loss-labels.png
#    :alt: Agreement of labels with the true states
