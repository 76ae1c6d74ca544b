"""The pendulum of the experiments: Gymnasium's Pendulum-v1 for many pendulums at once, and the trained policy.

The dynamics are those of ``gymnasium.envs.classic_control.PendulumEnv`` (a test compares whole episodes), the policy is
the actor in ``data/`` that `train_pendulum` made with DDPG, evaluated here in plain NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats

__all__ = ["Actor", "Grid", "Pendulum", "Transitions", "load_actor", "observe", "record", "reward_apart", "simulate"]

MAX_SPEED, MAX_TORQUE, TIME_STEP = 8.0, 2.0, 0.05
START_SPEED = 1.0  # Gymnasium starts with a speed in [-1, 1] and any angle
_AT_ONCE = 2_048  # pendulums side by side; their activations stay in the cache

Policy = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Pendulum:
    """A rod on a hinge with a weak motor; angle 0 is upright. Mass and length are 1, `gravity` is Gymnasium's ``g``."""

    gravity: float = 10.0

    def step(self, angle: Floats, speed: Floats, torque: Floats) -> tuple[Floats, Floats, Floats]:
        """Next angles, next speeds and rewards.

        Examples
        --------
        >>> Pendulum(9.8).step(np.array([np.pi]), np.array([0.0]), np.array([0.0]))[2].round(4)
        array([-9.8696])
        """
        torque = np.clip(torque, -MAX_TORQUE, MAX_TORQUE)
        wrapped = (angle + np.pi) % (2 * np.pi) - np.pi
        reward = -(wrapped**2 + 0.1 * speed**2 + 0.001 * torque**2)
        faster = speed + (3.0 * self.gravity / 2.0 * np.sin(angle) + 3.0 * torque) * TIME_STEP
        faster = np.clip(faster, -MAX_SPEED, MAX_SPEED)
        return angle + faster * TIME_STEP, faster, reward


@dataclass(frozen=True)
class Actor:
    """A network with two hidden layers of rectifiers and a tanh at the end, as stable-baselines3 builds it."""

    weights: tuple[NDArray[np.float32], ...]
    biases: tuple[NDArray[np.float32], ...]

    def __call__(self, angle: Floats, speed: Floats) -> Floats:
        """Torque for each pendulum."""
        layer = np.stack([np.cos(angle), np.sin(angle), speed], axis=1).astype(np.float32)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            layer = np.maximum(layer @ weight.T + bias, 0.0)
        action = np.tanh(layer @ self.weights[-1].T + self.biases[-1])
        torque: Floats = MAX_TORQUE * action[:, 0].astype(np.float64)
        return torque


def load_actor() -> Actor:
    """The trained policy that comes with the package."""
    from safetensors.numpy import load

    layers = load((files("somcot.experiments") / "data" / "pendulum_actor.safetensors").read_bytes())
    names = sorted({name.split(".")[0] for name in layers}, key=int)
    return Actor(tuple(layers[f"{n}.weight"] for n in names), tuple(layers[f"{n}.bias"] for n in names))


@dataclass(frozen=True)
class Grid:
    """A grid over angle and speed: state ``angle_bin * n + speed_bin``.

    Episodes start in one bin: hanging down (the first bin of the angle) with a speed that Gymnasium would start with,
    all of which must lie in the middle bin.
    """

    n: int = 7

    def __post_init__(self) -> None:
        if self.n not in (1, 3, 5, 7):
            raise ValueError(f"n: found {self.n}, expected 1, 3, 5 or 7, so that all starts fall into one bin")

    @property
    def start(self) -> int:
        """The bin where episodes start."""
        return self.n // 2

    @property
    def start_angles(self) -> tuple[float, float]:
        """Least and greatest angle of the start."""
        return -np.pi, -np.pi + 2 * np.pi / self.n

    def __call__(self, angle: Floats, speed: Floats) -> NDArray[np.int64]:
        """Number of the bin of each pendulum.

        Examples
        --------
        >>> Grid(7)(np.array([-3.1, 0.0, 3.1]), np.array([0.0, 8.0, -8.0]))
        array([ 3, 27, 42])
        """
        turn = ((angle + np.pi) % (2 * np.pi)) / (2 * np.pi)
        share = (speed + MAX_SPEED) / (2 * MAX_SPEED)
        places = [np.clip((part * self.n).astype(np.int64), 0, self.n - 1) for part in (turn, share)]
        number: NDArray[np.int64] = places[0] * self.n + places[1]
        return number

    def centres(self) -> tuple[Floats, Floats]:
        """Angle and speed in the middle of each bin, in order of their numbers."""
        middle = (np.arange(self.n) + 0.5) / self.n
        angle, speed = np.meshgrid((2 * middle - 1) * np.pi, (2 * middle - 1) * MAX_SPEED, indexing="ij")
        return angle.ravel(), speed.ravel()


class Transitions(NamedTuple):
    """Binned transitions with the reward of each."""

    now: NDArray[np.int64]
    following: NDArray[np.int64]
    reward: Floats


def simulate(
    pendulum: Pendulum, policy: Policy, bins: Grid, n: int, discount: float, rng: np.random.Generator
) -> Transitions:
    """Draw n transitions from the discounted occupancy, in random order.

    Episodes of geometric length are run from the start bin and all their transitions kept: an episode reaches time t
    with probability discount^t, so time t has its discounted weight. Shuffling breaks the order within episodes.
    """
    parts: list[Transitions] = []
    found = 0
    while found < n:
        parts += _episodes(pendulum, policy, bins, rng.geometric(1.0 - discount, size=_AT_ONCE), rng)
        found = sum(len(part.now) for part in parts)
    chosen = rng.permutation(found)[:n]
    now, following, reward = (np.concatenate(columns)[chosen] for columns in zip(*parts, strict=True))
    return Transitions(now, following, reward)


def _episodes(
    pendulum: Pendulum, policy: Policy, bins: Grid, lengths: NDArray[np.int64], rng: np.random.Generator
) -> list[Transitions]:
    """One block of transitions for each time; episodes drop out when their length is reached."""
    lengths = np.sort(lengths)[::-1]
    angle = rng.uniform(*bins.start_angles, size=len(lengths))
    speed = rng.uniform(-START_SPEED, START_SPEED, size=len(lengths))
    blocks = []
    for time in range(int(lengths[0])):
        alive = int(np.searchsorted(-lengths, -time, side="left"))
        angle, speed = angle[:alive], speed[:alive]
        before = bins(angle, speed)
        angle, speed, reward = pendulum.step(angle, speed, policy(angle, speed))
        blocks.append(Transitions(before, bins(angle, speed), reward))
    return blocks


def observe(angle: Floats, speed: Floats) -> Floats:
    """What Gymnasium shows of a pendulum: cosine, sine, speed.

    Examples
    --------
    >>> observe(np.array([0.0]), np.array([2.0])).tolist()
    [[1.0, 0.0, 2.0]]
    """
    return np.stack([np.cos(angle), np.sin(angle), speed], axis=-1)


def record(pendulum: Pendulum, policy: Policy, bins: Grid, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Observations of whole episodes, (n_episodes, n_steps + 1, 3), started as those of `simulate`."""
    n_episodes, n_steps = shape
    angle = rng.uniform(*bins.start_angles, size=n_episodes)
    speed = rng.uniform(-START_SPEED, START_SPEED, size=n_episodes)
    rows = [observe(angle, speed)]
    for _ in range(n_steps):
        angle, speed, _ = pendulum.step(angle, speed, policy(angle, speed))
        rows.append(observe(angle, speed))
    return np.stack(rows, axis=1)


def reward_apart(a: Floats, b: Floats) -> Floats:
    """Differences of the rewards at observed points, (n, m), without the motor's share, which is below 0.004.

    Examples
    --------
    >>> reward_apart(np.array([[1.0, 0.0, 0.0]]), np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])).round(4).tolist()
    [[0.4, 2.4674]]
    """
    first, second = (-(np.arctan2(p[:, 1], p[:, 0]) ** 2 + 0.1 * p[:, 2] ** 2) for p in (a, b))
    return np.abs(first[:, None] - second[None, :])
