"""Learned representations of block MDPs against the exact metric of their hidden states.

    python -m benchmarks.representation [--seeds 3] [--only NAME] [--out FILE]
                                        [--methods codes,embedding,dbc,mico,latent]

Observations are images of 12 x 12 noisy pixels with a distractor (`benchmarks.block_mdps`); 20,000 transitions train,
1,500 observations of other episodes score: Spearman correlation with the exact metric over pairs of observations, and
over pairs of hidden states (means). Needs PyTorch; about 25 s of CPU a run.

Baselines, each with its best of the settings listed, found on room3 and line14; all networks have the same layers.

* DBC (Zhang et al. 2021), six settings: weight of the model loss 0.1, 1 (kept); rewards sampled (kept), predicted;
  dynamics without actions (kept), with; 1,200, 2,000 steps (kept).
* MICo (Castro et al. 2021), five settings: hard target every 100 steps, averaged target tau = 0.01 (kept); learning
  rate 0.001 (kept), 0.003; beta 0.1 (kept), 1; rewards as they are (kept), times 0.1.
* `StateAbstraction`, six settings, on ladder15: k-means of 40 codes, or 160 clusters merged by average (kept) or Ward
  linkage; steps as recorded (kept), half of them or all drawn evenly over codes.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from benchmarks.block_mdps import LATER, UNSEEN, Recording, collect, truth
from somcot import mdp
from somcot.plumbing.arrays import Floats, Ints
from somcot.torch import StateAbstraction

DISCOUNT, TRAIN, TEST, DIMENSION = 0.9, 20_000, 1500, 16


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


def dbc(data: Recording, seed: int, n_steps: int = 2000, rate: float = 1e-3) -> torch.nn.Module:
    """Deep bisimulation for control: L1 distances regressed on rewards plus W2 of a Gaussian latent model."""
    torch.manual_seed(seed)
    X, Y, R = tensors(data)
    f = network()
    slow, model, reward = copy.deepcopy(f), torch.nn.Linear(DIMENSION, 2 * DIMENSION), torch.nn.Linear(DIMENSION, 1)
    optimiser = torch.optim.Adam([*f.parameters(), *model.parameters(), *reward.parameters()], rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2 * rate, total_steps=n_steps)
    for _ in range(n_steps):
        i = torch.randint(len(X), (256,))
        z, r = f(X[i]), R[i]
        mean, log = model(z).chunk(2, 1)
        spread = log.clamp(-4, 2).exp()
        with torch.no_grad():
            later = slow(Y[i])
        fit = (((later - mean) / spread) ** 2 / 2 + spread.log()).sum(1).mean() + ((reward(z)[:, 0] - r) ** 2).mean()
        p = torch.randperm(256)
        w2 = (((mean - mean[p]) ** 2 + (spread - spread[p]) ** 2).sum(1) + 1e-8).sqrt().detach()
        bisimulation = (((z - z[p]).abs().sum(1) - ((r - r[p]).abs() + DISCOUNT * w2)) ** 2).mean()
        _step(optimiser, schedule, fit + bisimulation, slow, f)
    return f


def mico(data: Recording, seed: int, n_steps: int = 1500, rate: float = 1e-3, beta: float = 0.1) -> torch.nn.Module:
    """MICo: a parametrised distance regressed on rewards plus the distance of independent successors."""
    torch.manual_seed(seed)
    X, Y, R = tensors(data)
    f = network()
    slow = copy.deepcopy(f)

    def apart(a: Tensor, b: Tensor) -> Tensor:
        norms: Tensor = (a.pow(2).sum(-1)[:, None] + b.pow(2).sum(-1)[None]) / 2
        return norms + beta * angles(a, b)

    optimiser = torch.optim.Adam(f.parameters(), rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2 * rate, total_steps=n_steps)
    for _ in range(n_steps):
        i = torch.randint(len(X), (128,))
        with torch.no_grad():
            later, now = slow(Y[i]), slow(X[i])
            target = (R[i][:, None] - R[i][None]).abs() + DISCOUNT * apart(later, later)
        _step(optimiser, schedule, torch.nn.functional.huber_loss(apart(f(X[i]), now), target), slow, f)
    return f


def _step(optimiser: Any, schedule: Any, loss: Tensor, slow: torch.nn.Module, f: torch.nn.Module) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    schedule.step()
    with torch.no_grad():
        for a, b in zip(slow.parameters(), f.parameters(), strict=True):
            a.lerp_(b, 0.01)


def angles(a: Tensor, b: Tensor) -> Tensor:
    """Angles between embeddings."""
    normal = torch.nn.functional.normalize
    cosine = (normal(a, dim=-1, eps=1e-6) @ normal(b, dim=-1, eps=1e-6).T).clamp(-1 + 1e-6, 1 - 1e-6)
    return torch.atan2((1 - cosine**2).clamp_min(1e-9).sqrt(), cosine)


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
    for method, train in (("dbc", dbc), ("mico", mico)):
        if method in methods:
            began = time.process_time()
            trained = train(data, seed)
            with torch.no_grad():
                points = trained(torch.tensor(seen))
            D = torch.cdist(points, points, p=1) if method == "dbc" else angles(points, points)
            add(method, D.double().numpy(), began)
    if "latent" in methods:
        add("latent", counted(data, hidden), time.process_time())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--methods", default="codes,dbc,mico,latent")
    parser.add_argument("--out")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    methods = options.methods.split(",")
    names = [name for name in (*UNSEEN, *LATER) if options.only in name]
    rows: dict[str, dict[str, list[tuple[float, ...]]]] = {}
    for seed in range(options.seeds):
        for name in names:
            for method, *values in run(name, seed, methods):
                rows.setdefault(method, {}).setdefault(name, []).append(tuple(values))
                print(name, seed, method, *(f"{value:.3f}" for value in values), flush=True)
    lines = ["| | " + " | ".join([*names, "mean", "worst run", "CPU"]) + " |", "|---" * (len(names) + 4) + "|"]
    for method, by_name in rows.items():
        every = np.array([run for runs in by_name.values() for run in runs])
        cells = ["{:.3f} / {:.3f}".format(*np.mean(by_name[name], axis=0)[:2]) for name in by_name]
        worst = "{:.3f} / {:.3f}".format(*every.min(axis=0)[:2])
        mean = "{:.3f} / {:.3f}".format(*np.mean([np.mean(by_name[name], axis=0) for name in by_name], axis=0)[:2])
        lines.append("| " + " | ".join([method, *cells, mean, worst, f"{every[:, 2].mean():.0f} s"]) + " |")
    print("\n".join(lines))
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
