"""Train the pendulum policy whose actor is shipped in ``data/``: DDPG, as in the paper's appendix.

Needs the extra ``rl-train`` (torch, stable-baselines3, gymnasium); nothing else in the package does. A few minutes on
one core::

    python examples/paper/train_pendulum.py --out src/somcot/paper/data
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

ENVIRONMENT = "Pendulum-v1"
SETTINGS: dict[str, Any] = {
    "algorithm": "DDPG",
    "hidden": [128, 128],
    "learning_rate": 1e-3,
    "gamma": 0.98,
    "action_noise": 0.1,
    "n_steps": 20_000,
    "evaluate_every": 2_500,
    "n_episodes": 20,
    "seed": 0,
}


def main() -> None:
    """Train, log the return along the way, write the actor and the log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--steps", type=int, default=SETTINGS["n_steps"])
    arguments = parser.parse_args()
    settings = SETTINGS | {"n_steps": arguments.steps}
    model, log = train(settings)
    arguments.out.mkdir(parents=True, exist_ok=True)
    save_actor(model, arguments.out / "pendulum_actor.safetensors")
    record = {"environment": ENVIRONMENT, "settings": settings, "versions": versions(), "log": log}
    (arguments.out / "pendulum_training.json").write_text(json.dumps(record, indent=1) + "\n")


def train(settings: dict[str, Any]) -> tuple[Any, list[dict[str, float]]]:
    """DDPG with stable-baselines3; the log has the mean return of greedy episodes at regular intervals."""
    import gymnasium
    import torch
    from stable_baselines3 import DDPG
    from stable_baselines3.common.noise import NormalActionNoise

    torch.set_num_threads(1)
    model = DDPG(
        "MlpPolicy",
        gymnasium.make(ENVIRONMENT),
        policy_kwargs={"net_arch": settings["hidden"]},
        learning_rate=settings["learning_rate"],
        gamma=settings["gamma"],
        action_noise=NormalActionNoise(np.zeros(1), np.full(1, settings["action_noise"])),
        seed=settings["seed"],
        device="cpu",
    )
    log: list[dict[str, float]] = []
    began = time.process_time()
    for done in range(0, settings["n_steps"], settings["evaluate_every"]):
        block = min(settings["evaluate_every"], settings["n_steps"] - done)
        model.learn(block, reset_num_timesteps=done == 0)
        returns = evaluate(model, settings["n_episodes"])
        row = {"step": done + block, "return_mean": float(returns.mean()), "return_std": float(returns.std())}
        log.append(row | {"cpu_seconds": round(time.process_time() - began, 1)})
    return model, log


def evaluate(model: Any, n_episodes: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Returns of greedy episodes on fresh environments, always with the same initial states."""
    import gymnasium

    environment = gymnasium.make(ENVIRONMENT)
    returns = np.zeros(n_episodes)
    for episode in range(n_episodes):
        observation, _ = environment.reset(seed=1_000 + episode)
        truncated = False
        while not truncated:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, _, truncated, _ = environment.step(action)
            returns[episode] += float(reward)
    return returns


def save_actor(model: Any, path: Path) -> None:
    """Weights and biases of the three layers, float32: ``0.weight``, ``0.bias``, ``2.weight``, ... as in torch."""
    from safetensors.numpy import save_file

    layers = {name: tensor.detach().numpy() for name, tensor in model.actor.mu.state_dict().items()}
    save_file(layers, path, metadata={"environment": ENVIRONMENT, "output": "tanh, scaled to a torque in [-2, 2]"})


def versions() -> dict[str, str]:
    """Versions of the packages that affect the result."""
    from importlib.metadata import version

    return {name: version(name) for name in ("torch", "stable-baselines3", "gymnasium", "numpy")}


if __name__ == "__main__":
    main()
