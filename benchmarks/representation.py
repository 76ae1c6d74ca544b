"""Learned representations of block MDPs against the exact metric of their hidden states.

    python -m benchmarks.representation [--sets last,fresh,unseen,later] [--seeds 3] [--only NAME] [--out FILE]
                                        [--methods codes,embedding,dbc,mico,latent]
    python -m benchmarks.representation --tune dbc      # or mico: all settings, one run each

Observations are images of 12 x 12 noisy pixels with a distractor (`benchmarks.block_mdps`); 20,000 transitions train,
1,500 observations of other episodes score: Spearman correlation with the exact metric over pairs of observations, and
over pairs of hidden states (means). Needs PyTorch; about 40 s of CPU for a run of all methods.

All networks have the same layers. Settings were compared on MDPs that are not counted as unseen:

* DBC (Zhang et al. 2021), 24 settings: six on room3 and line14, then the 18 of `SETTINGS` on door24.
* MICo (Castro et al. 2021), 24 settings: five on room3 and line14, then the 19 of `SETTINGS` on door24.
* `StateAbstraction`, 24 settings: six on ladder15 (k-means of 40 codes, or 160 clusters merged by average or Ward
  linkage; steps as recorded, half of them or all drawn evenly over codes), 17 on door24 (learning rate 0.001 or 0.003,
  at most 3 or 7 to 10 rounds, 600, 1,200 or 3,600 steps of the encoder, 300 or 900 of a round, weight decay 0, 0.3, 1
  or 3, noise 0.5 or 1 added to observations, dropout 0.1, 0.2 or 0.5, and combinations), and on key24 the unit of
  predicted rewards.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from benchmarks.block_mdps import FRESH, LAST, LATER, UNSEEN, Recording, collect, truth
from somcot import mdp
from somcot.plumbing.arrays import Floats, Ints
from somcot.torch import StateAbstraction

DISCOUNT, TRAIN, TEST, DIMENSION = 0.9, 20_000, 1500, 16
SETS = {"last": LAST, "fresh": FRESH, "unseen": UNSEEN, "later": LATER}
SEEN = "door24"  # on which settings are compared
# One change at a time, then two that go together. The first of each list was the best of an earlier search on room3.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "dbc": [
        {}, {"rate": 3e-4}, {"rate": 3e-3}, {"n_steps": 1000}, {"n_steps": 4000}, {"model_weight": 0.1},
        {"model_weight": 0.3}, {"model_weight": 3.0}, {"tau": 0.003}, {"tau": 0.05}, {"decay": 0.3}, {"noise": 0.3},
        {"rate": 3e-3, "decay": 0.3}, {"rate": 3e-3, "tau": 0.05}, {"rate": 3e-3, "n_steps": 4000},
        {"rate": 3e-3, "model_weight": 0.3}, {"rate": 3e-3, "noise": 0.3}, {"rate": 1e-2},
    ],
    "mico": [
        {}, {"rate": 3e-4}, {"rate": 3e-3}, {"n_steps": 750}, {"n_steps": 3000}, {"beta": 0.03}, {"beta": 0.3},
        {"beta": 1.0}, {"tau": 0.003}, {"tau": 0.05}, {"decay": 0.3}, {"decay": 1.0}, {"noise": 0.3}, {"noise": 0.6},
        {"batch": 256}, {"tau": 0.05, "rate": 3e-3}, {"tau": 0.05, "n_steps": 3000}, {"tau": 0.05, "decay": 0.3},
        {"tau": 0.15},
    ],
}  # fmt: skip
# The largest mean of both scores: 0.68 / 0.81 and 0.60 / 0.58 on door24.
KEPT: dict[str, dict[str, Any]] = {"dbc": {"rate": 3e-3}, "mico": {"tau": 0.05}}


def scores(D: Floats, hidden: Ints, exact: Floats) -> tuple[float, float]:
    """Correlations over pairs of observations and of hidden states that they show."""
    pairs, states = np.triu_indices(len(hidden), 1), np.triu_indices(len(exact), 1)
    member = np.eye(len(exact))[hidden]
    size = member.sum(0)
    means = (member.T @ D @ member) / np.maximum(np.outer(size, size), 1)
    shown = (size[states[0]] > 0) & (size[states[1]] > 0)
    over_pairs = spearmanr(D[pairs], exact[np.ix_(hidden, hidden)][pairs])[0]
    return float(over_pairs), float(spearmanr(means[states][shown], exact[states][shown])[0])


def network() -> torch.nn.Module:
    """The layers of all methods: 144, 128, 64, and the dimension of the embedding."""
    layers = [torch.nn.Flatten(), torch.nn.Linear(144, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(64, DIMENSION))


def tensors(data: Recording) -> tuple[Tensor, Tensor, Tensor]:
    """Observations, next observations and rewards in units of their spread."""
    rewards = torch.tensor(data.rewards, dtype=torch.float32)
    return (
        torch.tensor(data.observations),
        torch.tensor(data.next_observations),
        rewards / rewards.std().clamp_min(1e-6),
    )


def dbc(
    data: Recording, seed: int, *, n_steps: int = 2000, rate: float = 1e-3, model_weight: float = 1.0,
    tau: float = 0.01, decay: float = 0.0, noise: float = 0.0, actions: bool = False, predicted: bool = False,
) -> torch.nn.Module:  # fmt: skip
    """Deep bisimulation for control: L1 distances regressed on rewards plus W2 of a Gaussian latent model."""
    torch.manual_seed(seed)
    X, Y, R = tensors(data)
    A = torch.nn.functional.one_hot(torch.tensor(data.actions)).float() if actions else torch.zeros(len(X), 0)
    f, reward = network(), torch.nn.Linear(DIMENSION, 1)
    slow, model = copy.deepcopy(f), torch.nn.Linear(DIMENSION + A.shape[1], 2 * DIMENSION)
    optimiser = torch.optim.AdamW(
        [*f.parameters(), *model.parameters(), *reward.parameters()], rate, weight_decay=decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2 * rate, total_steps=n_steps)
    for _ in range(n_steps):
        i = torch.randint(len(X), (256,))
        z, r = f(X[i] + noise * torch.randn_like(X[i])), R[i]
        mean, log = model(torch.cat([z, A[i]], 1)).chunk(2, 1)
        spread = log.clamp(-4, 2).exp()
        with torch.no_grad():
            later = slow(Y[i])
        guess = reward(z)[:, 0]
        fit = (((later - mean) / spread) ** 2 / 2 + spread.log()).sum(1).mean() + ((guess - r) ** 2).mean()
        p, earned = torch.randperm(256), guess.detach() if predicted else r
        w2 = (((mean - mean[p]) ** 2 + (spread - spread[p]) ** 2).sum(1) + 1e-8).sqrt().detach()
        target = (earned - earned[p]).abs() + DISCOUNT * w2
        bisimulation = (((z - z[p]).abs().sum(1) - target) ** 2).mean()
        _step(optimiser, schedule, model_weight * fit + bisimulation, slow, f, tau)
    return f


def mico(
    data: Recording, seed: int, *, n_steps: int = 1500, rate: float = 1e-3, beta: float = 0.1, tau: float = 0.01,
    decay: float = 0.0, noise: float = 0.0, batch: int = 128, unit: float = 1.0,
) -> torch.nn.Module:  # fmt: skip
    """MICo: a parametrised distance regressed on rewards plus the distance of independent successors."""
    torch.manual_seed(seed)
    X, Y, R = tensors(data)
    f = network()
    slow = copy.deepcopy(f)

    def apart(a: Tensor, b: Tensor) -> Tensor:
        norms: Tensor = (a.pow(2).sum(-1)[:, None] + b.pow(2).sum(-1)[None]) / 2
        return norms + beta * angles(a, b)

    optimiser = torch.optim.AdamW(f.parameters(), rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2 * rate, total_steps=n_steps)
    for _ in range(n_steps):
        i = torch.randint(len(X), (batch,))
        with torch.no_grad():
            later, now, r = slow(Y[i]), slow(X[i]), unit * R[i]
            target = (r[:, None] - r[None]).abs() + DISCOUNT * apart(later, later)
        points = f(X[i] + noise * torch.randn_like(X[i]))
        _step(optimiser, schedule, torch.nn.functional.huber_loss(apart(points, now), target), slow, f, tau)
    return f


def _step(optimiser: Any, schedule: Any, loss: Tensor, slow: torch.nn.Module, f: torch.nn.Module, tau: float) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    schedule.step()
    with torch.no_grad():
        for a, b in zip(slow.parameters(), f.parameters(), strict=True):
            a.lerp_(b, tau)


def angles(a: Tensor, b: Tensor) -> Tensor:
    """Angles between embeddings."""
    normal = torch.nn.functional.normalize
    cosine = (normal(a, dim=-1, eps=1e-6) @ normal(b, dim=-1, eps=1e-6).T).clamp(-1 + 1e-6, 1 - 1e-6)
    return torch.atan2((1 - cosine**2).clamp_min(1e-9).sqrt(), cosine)


BASELINES: dict[str, Callable[..., torch.nn.Module]] = {"dbc": dbc, "mico": mico}


def baseline(method: str, data: Recording, seen: Any, seed: int, setting: dict[str, Any]) -> Floats:
    """Distances between observations after training."""
    trained = BASELINES[method](data, seed, **setting)
    with torch.no_grad():
        points = trained(torch.tensor(seen))
    D = torch.cdist(points, points, p=1) if method == "dbc" else angles(points, points)
    return np.asarray(D.double().numpy())


def counted(data: Recording, hidden: Ints) -> Floats:
    """The metric if the hidden states were known: what 20,000 transitions can give."""
    n = int(data.hidden.max()) + 1
    known = mdp.RecordedMDP.from_transitions(
        data.hidden, np.zeros(len(data.hidden), int), data.rewards, data.next_hidden, truncated=data.truncated,
        n_states=max(n, int(data.next_hidden.max()) + 1), n_actions=1,
    )  # fmt: skip
    D = mdp.metric(known.mdp(), discount=DISCOUNT, threads=1)
    return D[np.ix_(hidden, hidden)]


def run(name: str, seed: int, methods: list[str]) -> list[tuple[str, float, float, float]]:
    """Method, two scores and CPU seconds."""
    data, test = collect(name, TRAIN, seed), collect(name, TEST, seed + 1000)
    seen, hidden, exact = test.observations[:TEST], test.hidden[:TEST], truth(name, DISCOUNT)
    found = []

    def add(method: str, D: Floats, began: float) -> None:
        found.append((method, *scores(D, hidden, exact), time.process_time() - began))

    if "codes" in methods or "embedding" in methods:
        began = time.process_time()
        dimension = DIMENSION if "embedding" in methods else None
        learned = StateAbstraction(40, discount=DISCOUNT, embedding=dimension, rng=seed).fit(data)
        add("codes", learned.distance(seen, seen), began)
        if dimension is not None:
            points = torch.tensor(learned.embed(seen))
            add("embedding", torch.cdist(points, points, p=1).numpy(), began)
    for method in BASELINES:
        if method in methods:
            began = time.process_time()
            add(method, baseline(method, data, seen, seed, KEPT[method]), began)
    if "latent" in methods:
        add("latent", counted(data, hidden), time.process_time())
    return found


def tune(method: str) -> None:
    """All settings on one MDP that was seen before."""
    data, test = collect(SEEN, TRAIN, 0), collect(SEEN, TEST, 1000)
    for setting in SETTINGS[method]:
        D = baseline(method, data, test.observations[:TEST], 0, setting)
        found = scores(D, test.hidden[:TEST], truth(SEEN, DISCOUNT))
        print(SEEN, method, setting, "{:.3f} / {:.3f}".format(*found), flush=True)


def table(rows: dict[str, dict[str, list[tuple[float, ...]]]], names: list[str]) -> list[str]:
    """A table of Markdown: a line for each method, means over seeds for each MDP."""
    lines = ["| | " + " | ".join([*names, "mean", "worst run", "CPU"]) + " |", "|---" * (len(names) + 4) + "|"]
    for method, by_name in rows.items():
        every = np.array([run for name in names for run in by_name[name]])
        means = [np.mean(by_name[name], axis=0)[:2] for name in names]
        cells = ["{:.3f} / {:.3f}".format(*pair) for pair in (*means, np.mean(means, axis=0), every.min(axis=0)[:2])]
        lines.append("| " + " | ".join([method, *cells, f"{every[:, 2].mean():.0f} s"]) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="last,fresh,unseen,later")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--methods", default="codes,dbc,mico,latent")
    parser.add_argument("--tune", choices=list(SETTINGS))
    parser.add_argument("--out")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.tune:
        tune(options.tune)
        return
    lines: list[str] = []
    for names in ([n for n in SETS[key] if options.only in n] for key in options.sets.split(",")):
        rows: dict[str, dict[str, list[tuple[float, ...]]]] = {}
        for seed in range(options.seeds if names else 0):
            for name in names:
                for method, *values in run(name, seed, options.methods.split(",")):
                    rows.setdefault(method, {}).setdefault(name, []).append(tuple(values))
                    print(name, seed, method, *(f"{value:.3f}" for value in values), flush=True)
        lines += [*table(rows, names), ""] if names else []
    print("\n".join(lines))
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
