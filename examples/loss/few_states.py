"""
A model with fewer states than the world
========================================

The distance as a loss, compared with clustering and maximum likelihood.

The world has 10 states, each observed as one of 5 symbols. From 20,000 recorded steps between the 50 symbols, models of
5 and of 10 states are fitted in four ways. They are compared by their distance from the counted chain, which descent
minimises, and from the true chain, which is unknown to all methods.

Run ``python examples/loss/few_states.py [picture.png]`` (needs torch and matplotlib; about a minute).
"""

# sphinx_gallery_thumbnail_path = '../docs/images/loss-few-states.png'
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

LATENT, COPIES, DISCOUNT = 10, 5, 0.95
WAYS = ("descent on the distance", "clusters of the metric", "k-means of futures", "Baum-Welch")


def world(seed: int) -> tuple[somcot.MarkovChain, Any, somcot.Samples]:
    """The chain of the symbols, the reward of each and a recording of 400 episodes."""
    rng = np.random.default_rng(seed)
    latent = rng.dirichlet(np.full(LATENT, 0.3), size=LATENT)
    emission = rng.dirichlet(np.full(COPIES, 5.0), size=LATENT)
    P = np.repeat(latent, COPIES, axis=0).repeat(COPIES, axis=1) * emission.ravel()
    chain = somcot.MarkovChain(P, np.full(LATENT * COPIES, 1.0 / (LATENT * COPIES)), normalize=True)
    return chain, np.repeat(rng.normal(size=LATENT), COPIES), chain.sample(400, 50, rng=seed)


class Model:
    """A small chain with a reward for each state."""

    def __init__(self, P: Any, reward: Any, start: Any) -> None:
        self.P, self.reward, self.start = P, reward, start

    def distance(self, chain: somcot.MarkovChain, reward: Any) -> float:
        """The distance from a chain with these rewards."""
        model = somcot.MarkovChain(self.P, self.start, normalize=True)
        cost = somcot.costs.absolute(self.reward, reward)
        return somcot.distance(model, chain, cost, discount=DISCOUNT).distance


def descent(k: int, chain: somcot.MarkovChain, reward: Any, seed: int, steps: int) -> Model:
    """Kernel, rewards and initial distribution by gradient descent on the distance from the counted chain."""
    generator = torch.Generator().manual_seed(seed)
    P = torch.randn(k, k, generator=generator, dtype=torch.float64).requires_grad_()
    r = torch.tensor(np.quantile(reward, (np.arange(k) + 0.5) / k), requires_grad=True)
    s = torch.zeros(k, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([P, r, s], lr=0.1)
    target, given, start = torch.tensor(np.asarray(chain.transition)), torch.tensor(reward), torch.tensor(chain.initial)
    warm, best = somcot.torch.WarmStart(), (np.inf, Model(None, None, None))
    for _ in range(steps):
        cost = (r[:, None] - given[None, :]).abs()
        loss = somcot.torch.distance(P.softmax(-1), target, cost, DISCOUNT, s.softmax(-1), start, warm=warm)
        if loss.item() < best[0]:
            parts = (part.detach().numpy().copy() for part in (P.softmax(-1), r, s.softmax(-1)))
            best = loss.item(), Model(*parts)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return best[1]


def lumped(labels: Any, k: int, counts: Any, reward: Any, start: Any) -> Model:
    """The chain of classes, with counts between them and mean rewards."""
    member = np.eye(k)[labels]
    visits = counts.sum(axis=1) + 1e-9
    P = member.T @ counts @ member + 1e-9
    return Model(P / P.sum(axis=1, keepdims=True), (visits * reward) @ member / (visits @ member), start @ member)


def by_metric(k: int, chain: somcot.MarkovChain, reward: Any) -> Any:
    table = somcot.metric(chain, chain, somcot.costs.absolute(reward, reward), discount=DISCOUNT)
    tree = linkage(squareform((table + table.T) / 2, checks=False), "average")
    return fcluster(tree, k, "maxclust") - 1


def by_futures(k: int, chain: somcot.MarkovChain, reward: Any, seed: int) -> Any:
    """k-means of the expected rewards of the next 10 steps."""
    futures = [reward]
    for _ in range(9):
        futures.append(np.asarray(chain.transition) @ futures[-1])
    return kmeans2(np.column_stack(futures), k, minit="++", rng=seed, iter=50)[1]


def baum_welch(k: int, symbols: Any, reward: Any, seed: int, rounds: int = 40) -> Model:
    """Expectation maximisation for a hidden chain of k states; symbols has a row for each episode."""
    rng = np.random.default_rng(seed)
    n, length = symbols.shape
    A, B = rng.dirichlet(np.ones(k) * 5, size=k), rng.dirichlet(np.ones(LATENT * COPIES) * 5, size=k)
    start = np.full(k, 1.0 / k)
    for _ in range(rounds):
        seen = B.T[symbols]  # (n, length, k)
        forward, backward = np.empty((length, n, k)), np.ones((length, n, k))
        for t in range(length):
            weight = (start if t == 0 else forward[t - 1] @ A) * seen[:, t]
            forward[t] = weight / weight.sum(axis=1, keepdims=True)
        for t in range(length - 2, -1, -1):
            weight = (backward[t + 1] * seen[:, t + 1]) @ A.T
            backward[t] = weight / weight.sum(axis=1, keepdims=True)
        post = forward * backward
        post /= post.sum(axis=2, keepdims=True)
        moves = np.zeros((k, k))
        for t in range(length - 1):
            joint = forward[t][:, :, None] * A * (seen[:, t + 1] * backward[t + 1])[:, None, :]
            moves += (joint / joint.sum(axis=(1, 2), keepdims=True)).sum(axis=0)
        A, start = moves / moves.sum(axis=1, keepdims=True), post[0].mean(axis=0)
        B = np.zeros_like(B)
        for t in range(length):
            np.add.at(B.T, symbols[:, t], post[t])
        B /= B.sum(axis=1, keepdims=True)
    return Model(A, B @ reward, start)


def run(sizes: tuple[int, ...] = (5, 10), n_worlds: int = 3, steps: int = 150) -> dict[int, dict[str, Any]]:
    """For every size and way: distances from the counted and from the true chain, one row for each world."""
    found: dict[int, dict[str, Any]] = {k: {way: [] for way in WAYS} for k in sizes}
    for seed in range(n_worlds):
        true, reward, samples = world(seed)
        counted = samples.chain()
        order = np.array([counted.states.index(s) for s in range(true.n_states)])
        counts = np.asarray(samples.counts(), dtype=np.float64)[np.ix_(order, order)]
        counted = somcot.MarkovChain(counts, true.initial, normalize=True)  # every symbol was seen
        symbols = episodes(samples)
        for k in sizes:
            models = {
                WAYS[0]: descent(k, counted, reward, seed, steps),
                WAYS[1]: lumped(by_metric(k, counted, reward), k, counts, reward, counted.initial),
                WAYS[2]: lumped(by_futures(k, counted, reward, seed), k, counts, reward, counted.initial),
                WAYS[3]: baum_welch(k, symbols, reward, seed),
            }
            for way, model in models.items():
                found[k][way].append((model.distance(counted, reward), model.distance(true, reward)))
    return found


def episodes(samples: somcot.Samples) -> Any:
    """The symbols of each episode, one row for each; all are equally long."""
    n = len(samples.now) // 50
    states = np.asarray(samples.states)
    return states[np.column_stack([samples.now.reshape(n, 50), samples.following.reshape(n, 50)[:, -1]])]


def draw(found: dict[int, dict[str, Any]], path: str) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(9, 3.2), layout="constrained", sharex=True, squeeze=False)
    for ax, (k, ways) in zip(axes[0], found.items(), strict=True):
        for place, pairs in enumerate(ways.values()):
            values = np.array(pairs)
            ax.plot(
                values[:, 1], np.full(len(values), -place), "o", color="tab:blue" if place == 0 else "0.45", alpha=0.8
            )
            ax.plot(values[:, 1].mean(), -place, "|", color="black", ms=18)
        ax.set_yticks([-p for p in range(len(ways))], list(ways) if ax is axes[0][0] else [""] * len(ways))
        ax.set(title=f"{k} states for a world of {LATENT}", xlabel="distance from the true chain", ylim=(-3.6, 0.6))
        ax.set_xlim(left=0)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main(path: str | None = None) -> None:
    found = run()
    for k, ways in found.items():
        for way, pairs in ways.items():
            counted, true = np.array(pairs).mean(axis=0)
            print(f"{k:2} states  {way:24} distance from the counted chain {counted:.3f}, from the true one {true:.3f}")
    if path is not None:
        draw(found, path)


if __name__ == "__main__":
    main(*sys.argv[1:2])

# %%
# The printed output and the figure, recorded with PyTorch 2.13:
#
# .. literalinclude:: ../../recorded/few_states.txt
#    :language: text
#
# .. image:: ../../images/loss-few-states.png
#    :alt: Distances of four kinds of models from the counted and the true chain
