"""
World models that are too small
===============================

Which loss should a model of too few latent states minimise, if it is to predict the values of any policy?

Garnet MDPs of 20 states and 3 actions are recorded for 6,000 steps. The model is ``P(t | s, a) = sum_z f(z | s, a)
g(t | z)`` with 4 latent states z. It is fitted to the counts with five losses:

- likelihood;
- the distance: the mean over states of the metric between a state of the model and the same state of the counted chain;
- MuZero's loss: the value of a state drawn from the model, learned with it, against a bootstrapped one after the
  recorded step;
- IterVAML with one state drawn from the model: the difference of its value and that of the recorded next state;
- calibrated VAML: the same minus the variance that the drawing adds.

Squared errors are in expectation over what is drawn, as from endless minibatches. Each loss has six listed settings, of
which the best on five other MDPs is used. The error is that of the values of 100 random deterministic policies, the
mean over all states.

Run ``python examples/loss/world_models.py [picture.png]`` (needs torch and matplotlib; about five minutes).
"""

# sphinx_gallery_thumbnail_path = '../docs/images/loss-world-models.png'
from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import t as student

import somcot.torch
from somcot import mdp

N, ACTIONS, BRANCHING, LATENT, DISCOUNT, RECORDED = 20, 3, 4, 4, 0.9, 6000
LOSSES = ("distance", "likelihood", "MuZero", "IterVAML", "calibrated VAML")
RATES = (0.03, 0.1)
POLICIES = ("uniform", "optimal", "16 random")  # under which the distance and the values are taken
DECAYS = (0.0, 1e-3, 1e-2)  # of the likelihood, which needs no policy


class World(NamedTuple):
    """A Garnet MDP, its counted transitions, and random policies to learn with and to test on."""

    true: Any
    counted: Any
    reward: Any
    learn: Any
    test: Any


def world(seed: int) -> World:
    rng = np.random.default_rng(seed)
    P = np.zeros((N, ACTIONS, N))
    for s, a in itertools.product(range(N), range(ACTIONS)):
        P[s, a, rng.choice(N, BRANCHING, replace=False)] = rng.dirichlet(np.ones(BRANCHING))
    reward = rng.random((N, ACTIONS))
    counts = np.array([rng.multinomial(RECORDED // (N * ACTIONS), row) for row in P.reshape(-1, N)]).reshape(P.shape)
    learn, test = (np.eye(ACTIONS)[rng.integers(ACTIONS, size=(k, N))] for k in (16, 100))
    return World(P, counts / counts.sum(axis=2, keepdims=True), reward, learn, test)


def values(P: Any, reward: Any, policies: Any) -> Any:
    """The value of each state under each policy."""
    rows = np.einsum("ksa,sat->kst", policies, P)
    earned = np.einsum("ksa,sa->ks", policies, reward)
    return np.linalg.solve(np.eye(N) - DISCOUNT * rows, earned[:, :, None])[:, :, 0]


def error(one: World, P: Any) -> float:
    """Mean error of the values of the test policies."""
    return float(np.abs(values(P, one.reward, one.test) - values(one.true, one.reward, one.test)).mean())


def policies_of(one: World, name: str) -> Any:
    if name == "uniform":
        return np.full((1, N, ACTIONS), 1.0 / ACTIONS)
    if name == "optimal":
        best = mdp.optimal(mdp.MDP(one.counted, one.reward), discount=DISCOUNT).policy
        return np.eye(ACTIONS)[np.array([best], dtype=int)]
    return one.learn


def likelihood(target: Any) -> Callable[[Any, int], Any]:
    return lambda P, step: -(target * P.clamp_min(1e-12).log()).sum(-1).mean()


def by_distance(target: Any, reward: Any, policies: Any) -> Callable[[Any, int], Any]:
    warm = [somcot.torch.WarmStart() for _ in policies]

    def loss(P: Any, step: int) -> Any:
        k = step % len(policies)
        model, data = (torch.einsum("sa,sat->st", policies[k], rows) for rows in (P, target))
        earned = (policies[k] * reward).sum(-1)
        cost = (earned[:, None] - earned[None, :]).abs()
        return somcot.torch.metric(model, data, cost, DISCOUNT, warm=warm[k]).diagonal().mean() / (1 - DISCOUNT)

    return loss


def by_values(target: Any, V: Any, variance: float) -> Callable[[Any, int], Any]:
    """Squared difference of a value in the model and in the data, plus a share of the variance of the former."""

    def loss(P: Any, step: int) -> Any:
        v = V[step % len(V)]
        mean = P @ v
        # The variance of the recorded next state does not depend on the model.
        return ((mean - target @ v) ** 2 + variance * (P @ v**2 - mean**2)).mean()

    return loss


def muzero(target: Any, reward: Any, policies: Any, V: Any) -> Callable[[Any, int], Any]:
    """The values V, one table for each policy, are learned together with the model."""

    def loss(P: Any, step: int) -> Any:
        k = step % len(policies)
        followed, earned = torch.einsum("sa,sat->st", policies[k], target), (policies[k] * reward).sum(-1)
        later = (earned + DISCOUNT * followed @ V[k]).detach()  # of the recorded next state, bootstrapped
        mean = target @ later
        return (P @ V[k] ** 2 - 2 * (P @ V[k]) * mean + target @ later**2).mean()

    return loss


def fitted(one: World, name: str, rate: float, choice: Any, seed: int, steps: int) -> Any:
    """The model after gradient descent on a loss."""
    generator = torch.Generator().manual_seed(seed)

    def start(*shape: int) -> Any:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    parameters = [start(N, ACTIONS, LATENT), start(LATENT, N)]
    target, reward = torch.tensor(one.counted), torch.tensor(one.reward)
    decay = 0.0
    if name == "likelihood":
        decay, loss = choice, likelihood(target)
    else:
        chosen = policies_of(one, choice)
        policies, V = torch.tensor(chosen), torch.tensor(values(one.counted, one.reward, chosen))
        if name == "distance":
            loss = by_distance(target, reward, policies)
        elif name == "MuZero":
            parameters.append(V.clone().requires_grad_())  # from the counted values, as the others have them
            loss = muzero(target, reward, policies, parameters[-1])
        else:
            loss = by_values(target, V, float(name == "IterVAML"))
    optimiser = torch.optim.Adam(parameters, lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for step in range(steps):
        optimiser.zero_grad()
        loss(parameters[0].softmax(-1) @ parameters[1].softmax(-1), step).backward()
        optimiser.step()
        schedule.step()
    return (parameters[0].softmax(-1) @ parameters[1].softmax(-1)).detach().numpy()


def settings(name: str) -> list[tuple[float, Any]]:
    """The six settings of a loss."""
    return list(itertools.product(RATES, DECAYS if name == "likelihood" else POLICIES))


def run(n_worlds: int = 20, n_tuning: int = 5, steps: int = 400) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """For each loss its best setting and its errors, one for each MDP; and the errors of the counts."""
    tuning = [world(1000 + seed) for seed in range(n_tuning)]
    best: dict[str, Any] = {}
    for name in LOSSES:
        tried = {
            (rate, choice): np.mean([error(w, fitted(w, name, rate, choice, k, steps)) for k, w in enumerate(tuning)])
            for rate, choice in settings(name)
        }
        best[name] = min(tried, key=lambda one: float(tried[one]))
    worlds = [world(seed) for seed in range(n_worlds)]
    errors = {
        name: np.array([error(w, fitted(w, name, rate, choice, k, steps)) for k, w in enumerate(worlds)])
        for name, (rate, choice) in best.items()
    }
    return best, errors, np.array([error(w, w.counted) for w in worlds])


def interval(differences: Any) -> tuple[float, float]:
    """95 % interval of the mean of paired differences."""
    half = student.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / np.sqrt(len(differences))
    return float(differences.mean() - half), float(differences.mean() + half)


def draw(errors: dict[str, Any], path: str) -> None:
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
    for place, (name, found) in enumerate(errors.items()):
        ax.plot(found, np.full(len(found), -place), "o", color="tab:blue" if name == "distance" else "0.45", alpha=0.7)
        ax.plot(found.mean(), -place, "|", color="black", ms=18)
    ax.set_yticks([-place for place in range(len(errors))], list(errors))
    ax.set(xlabel=f"error of the value of a random policy, one point for each of {len(found)} MDPs", xlim=(0, None))
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main(path: str | None = None) -> None:
    best, errors, counted = run()
    print(f"{'counts, without a model':24} {counted.mean():.3f}")
    for name, found in errors.items():
        rate, choice = best[name]
        text = f"{name:24} {found.mean():.3f}   rate {rate}, {choice if name != 'likelihood' else f'decay {choice}'}"
        if name != "distance":
            low, high = interval(found - errors["distance"])
            text += f"; minus the distance {low:+.3f} to {high:+.3f}"
        print(text)
    if path is not None:
        draw(errors, path)


if __name__ == "__main__":
    main(*sys.argv[1:2])

# %%
# The printed output and the figure, recorded with PyTorch 2.13:
#
# .. literalinclude:: ../../recorded/world_models.txt
#    :language: text
#
# .. image:: ../../images/loss-world-models.png
#    :alt: Errors of the values of random policies, for five losses
