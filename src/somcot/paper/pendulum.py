"""Model selection over gravity: which g explains the pendulum?

The dynamics are those of ``gymnasium.envs.classic_control.PendulumEnv`` (a test compares whole episodes), the policy is
the actor in ``data/`` that ``examples/paper/train_pendulum.py`` made with DDPG, evaluated here in plain NumPy.

A policy trained for Pendulum-v1 is kept while gravity changes. Angle and speed are divided into 7 x 7 bins, so the
binned process is only approximately Markov. The cost is the difference of the mean raw rewards of the bins. A second
panel answers the same question without bins: recordings of cosine, sine and speed, discretised into cells, with the
rewards at their centres as the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot import costs, distance
from somcot.continuous.discretise import discretise
from somcot.paper import experiment as style
from somcot.paper.experiment import (
    TABLE,
    Choice,
    DrawnPair,
    Experiment,
    FigureCheck,
    Record,
    Report,
    TableRow,
    few_data_expected,
    hits,
    stages,
    sweep,
)
from somcot.plumbing.arrays import Floats
from somcot.samples import Samples
from somcot.trajectories import Trajectories

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "EXPERIMENT",
    "Actor",
    "Grid",
    "Pendulum",
    "PendulumSettings",
    "Rollout",
    "load_actor",
    "observe",
    "plot",
    "record",
    "reward_apart",
    "run",
    "simulate",
]


# --- Gymnasium's Pendulum-v1, vectorised, and the trained policy.

MAX_SPEED, MAX_TORQUE, TIME_STEP = 8.0, 2.0, 0.05
START_SPEED = 1.0  # Gymnasium starts with a speed in [-1, 1] and any angle
_AT_ONCE = 2_048  # pendulums per batch, so that their activations stay in the cache

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
        # Angles are kept unbounded, as in Gymnasium; rewards use the angle in [-pi, pi).
        wrapped = (angle + np.pi) % (2 * np.pi) - np.pi
        reward = -(wrapped**2 + 0.1 * speed**2 + 0.001 * torque**2)
        # Gymnasium's equation for a rod of mass 1 and length 1.
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
        # The observation of Gymnasium, in the precision of training.
        layer = np.stack([np.cos(angle), np.sin(angle), speed], axis=1).astype(np.float32)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            layer = np.maximum(layer @ weight.T + bias, 0.0)
        action = np.tanh(layer @ self.weights[-1].T + self.biases[-1])
        torque: Floats = MAX_TORQUE * action[:, 0].astype(np.float64)
        return torque


def load_actor() -> Actor:
    """The trained policy that comes with the package."""
    from safetensors.numpy import load

    layers = load((files("somcot.paper") / "data" / "pendulum_actor.safetensors").read_bytes())
    names = sorted({name.split(".")[0] for name in layers}, key=int)
    return Actor(tuple(layers[f"{n}.weight"] for n in names), tuple(layers[f"{n}.bias"] for n in names))


@dataclass(frozen=True)
class Grid:
    """A grid over angle and speed: state ``angle_bin * n + speed_bin``.

    Episodes start in one bin: hanging down (the first bin of the angle) with a speed that Gymnasium would start with,
    all of which lie in the middle bin.
    """

    n: int = 7

    # With an odd number of bins, speeds in [-1, 1] lie in the middle one, up to 7 bins.
    def __post_init__(self) -> None:
        if self.n not in (1, 3, 5, 7):
            raise ValueError(f"n: found {self.n}, expected 1, 3, 5 or 7, so that all starts fall into one bin")

    @property
    def start(self) -> int:
        """The bin where episodes start."""
        return self.n // 2

    @property
    def start_angles(self) -> tuple[float, float]:
        """Smallest and largest initial angle."""
        return -np.pi, -np.pi + 2 * np.pi / self.n

    def __call__(self, angle: Floats, speed: Floats) -> NDArray[np.int64]:
        """Number of the bin of each pendulum.

        Examples
        --------
        >>> Grid(7)(np.array([-3.1, 0.0, 3.1]), np.array([0.0, 8.0, -8.0]))
        array([ 3, 27, 42])
        """
        # The angle is periodic, the speed is clipped.
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


class Rollout(NamedTuple):
    """Binned transitions with the reward of each."""

    now: NDArray[np.int64]
    following: NDArray[np.int64]
    reward: Floats


def simulate(
    pendulum: Pendulum, policy: Policy, bins: Grid, n: int, discount: float, rng: np.random.Generator
) -> Rollout:
    """Draw n transitions from the discounted occupancy, in random order.

    Episodes of geometric length are run from the start bin and all their transitions kept: an episode reaches time t
    with probability discount^t, so time t has its discounted weight. Shuffling breaks the order within episodes.
    """
    parts: list[Rollout] = []
    found = 0
    while found < n:
        # Too many rather than too few: the surplus is dropped at random.
        parts += _episodes(pendulum, policy, bins, rng.geometric(1.0 - discount, size=_AT_ONCE), rng)
        found = sum(len(part.now) for part in parts)
    chosen = rng.permutation(found)[:n]
    now, following, reward = (np.concatenate(columns)[chosen] for columns in zip(*parts, strict=True))
    return Rollout(now, following, reward)


def _episodes(
    pendulum: Pendulum, policy: Policy, bins: Grid, lengths: NDArray[np.int64], rng: np.random.Generator
) -> list[Rollout]:
    """One block of transitions for each time; episodes drop out when their length is reached."""
    # Longest first, so that the living episodes are a prefix.
    lengths = np.sort(lengths)[::-1]
    angle = rng.uniform(*bins.start_angles, size=len(lengths))
    speed = rng.uniform(-START_SPEED, START_SPEED, size=len(lengths))
    blocks = []
    for time in range(int(lengths[0])):
        # An episode of length L has steps at times 0, ..., L - 1.
        alive = int(np.searchsorted(-lengths, -time, side="left"))
        angle, speed = angle[:alive], speed[:alive]
        before = bins(angle, speed)
        angle, speed, reward = pendulum.step(angle, speed, policy(angle, speed))
        blocks.append(Rollout(before, bins(angle, speed), reward))
    return blocks


def observe(angle: Floats, speed: Floats) -> Floats:
    """Gymnasium's observation of a pendulum: cosine, sine, speed.

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


# --- Model selection over gravity.

TRUE_GRAVITY = 9.8


@dataclass(frozen=True)
class PendulumSettings:
    """The paper's rates; mu lives on the transitions that occur."""

    gravities: tuple[float, ...] = (0.4, 2.5, 5.0, 7.5, 9.8, 12.0, 14.5, 17.0, 20.0)
    n_bins: int = 7
    n_steps: int = 10_000
    truth_samples: int = 1_000_000
    n_seeds: int = 5
    recorded: tuple[int, int] = (200, 60)  # episodes and their steps, without bins
    n_cells: int = 16
    rates: TableRow = TABLE["pendulum"]

    @property
    def n_samples(self) -> int:
        """Transitions of each pendulum behind one estimate."""
        return self.n_steps * self.rates.batch_size


class Variant(NamedTuple):
    """A pendulum known from a very long simulation: its transitions and the mean reward of every bin."""

    gravity: float
    samples: Samples
    rewards: Floats


def run(settings: PendulumSettings, seed: int = 0, report: Report | None = None) -> Record:
    """Simulate every model for a long time, then estimate its distance from the true one from fresh samples."""
    actor, bins, rates = load_actor(), Grid(settings.n_bins), settings.rates

    def draw(gravity: float, n: int, rng: np.random.Generator) -> Rollout:
        return simulate(Pendulum(gravity), actor, bins, n, rates.discount, rng)

    def collect(steps: Rollout) -> Samples:
        return Samples.from_transitions(steps.now, steps.following, discount=rates.discount, initial=bins.start)

    def long_run(gravity: float, rng: np.random.Generator) -> Variant:
        steps = draw(gravity, settings.truth_samples, rng)
        return Variant(gravity, collect(steps), _mean_rewards(steps, bins))

    n = len(settings.gravities)
    simulating, estimating, solving, dividing = stages(report, n + 1, settings.n_seeds, n, n * settings.n_seeds)
    *models, true = sweep(long_run, (*settings.gravities, TRUE_GRAVITY), [seed], simulating)[0]

    def truth(model: Variant, _: np.random.Generator) -> float:
        with few_data_expected():  # a bin may be entered by the very last step of an episode
            chains = true.samples.chain(), model.samples.chain()
        return distance(*chains, _cost(true, true.samples, model, model.samples), discount=rates.discount).distance

    def values(_: None, rng: np.random.Generator) -> tuple[list[float], list[float], Choice]:
        """One recording of the true pendulum and one of each model, for both methods."""
        record = collect(draw(TRUE_GRAVITY, settings.n_samples, rng))
        others = {m.gravity: collect(draw(m.gravity, settings.n_samples, rng)) for m in models}
        # `select_model` calls the cost with recordings, so each is looked up by identity.
        models_of = {id(others[m.gravity]): m for m in models}

        def cost(x: Samples, y: Samples) -> Floats:
            return _cost(true, x, models_of[id(y)], y)

        paper = [
            rates.run(DrawnPair(record, y), cost(record, y), settings.n_steps, support="observed").distance
            for y in others.values()
        ]
        own = [
            rates.run_default(DrawnPair(record, y), cost(record, y), settings.n_steps).distance for y in others.values()
        ]
        return paper, own, Choice.of(record, others, cost, rates.discount)

    def on_cells(gravity: float, rng: np.random.Generator) -> float:
        shots = (record(Pendulum(g), actor, bins, settings.recorded, rng) for g in (TRUE_GRAVITY, gravity))
        x, y = (Trajectories.from_arrays(shot, names=["cosine", "sine", "speed"]) for shot in shots)
        with few_data_expected():  # and a pendulum has no linear model to correct with
            cells = discretise(x, y, n_cells=settings.n_cells, discount=rates.discount)
            return distance(cells.x, cells.y, cells.cost(reward_apart), discount=rates.discount, rng=0).distance

    seeds = range(seed, seed + settings.n_seeds)
    found = [row[0] for row in sweep(values, [None], seeds, estimating)]
    data = {
        "gravity": np.array(settings.gravities),
        "truth": np.array(sweep(truth, models, [seed], solving)[0]),
        "somcot": np.array([paper for paper, _, _ in found]),
        "counted": np.array([own for _, own, _ in found]),
        "default": np.array([choice.distance for _, _, choice in found]),
        "plugin": np.array([choice.plugin for _, _, choice in found]),
        "inside": np.array([choice.inside for _, _, choice in found]),
        "cells": np.array(sweep(on_cells, settings.gravities, seeds, dividing)),
        "bins_visited": [model.samples.n_states for model in models],
        "axes": {"truth": ["g"]} | {key: ["seed", "g"] for key in ("somcot", "default", "plugin", "inside", "cells")},
    }
    return Record("pendulum", settings, seed, data, tuple(_checks(settings, data)))


def _mean_rewards(steps: Rollout, bins: Grid) -> Floats:
    """Mean reward of each bin; the reward at its centre for bins that were never left."""
    angle, speed = bins.centres()
    visits = np.bincount(steps.now, minlength=len(angle))
    total = np.bincount(steps.now, weights=steps.reward, minlength=len(angle))
    still: Floats = Pendulum().step(angle, speed, np.zeros_like(angle))[2]
    # The reward of a bin that was entered by the last step only is that of its centre.
    return np.where(visits > 0, total / np.maximum(visits, 1), still)


def _cost(a: Variant, x: Samples, b: Variant, y: Samples) -> Floats:
    return costs.absolute(*(m.rewards[np.array(s.states, dtype=np.int64)] for m, s in ((a, x), (b, y))))


def _checks(settings: PendulumSettings, data: dict[str, Any]) -> list[FigureCheck]:
    true = settings.gravities.index(TRUE_GRAVITY)
    near = settings.gravities.index(7.5)

    plugin: Floats = data["plugin"]
    name = f"N = {settings.n_samples:,}"
    return [
        FigureCheck(f"share of seeds with argmin 9.8, K = {settings.n_steps:,}", hits(data["somcot"], true), ">=", 1.0),
        FigureCheck(
            # At d(9.8) the truth is 0: the ratio shows the bias relative to a clear difference.
            f"plug-in, {name}: d(9.8) / d(7.5), worst seed",
            (plugin[:, true] / plugin[:, near]).max(),
            "<=",
            0.25,
        ),
        FigureCheck(f"default, {name}: share of seeds with argmin 9.8", hits(data["default"], true), ">=", 1.0),
        FigureCheck(f"{settings.n_cells} cells: share of seeds with argmin 9.8", hits(data["cells"], true), ">=", 1.0),
        FigureCheck("truth: argmin is 9.8", float(data["truth"].argmin() == true), ">=", 1.0),
    ]


def plot(record: Record) -> Figure:
    """Distance from the pendulum with g = 9.8 against g, with bins and without; bands span the seeds."""
    import matplotlib.pyplot as plt

    settings: PendulumSettings = record.settings
    gravity = np.array(settings.gravities)
    with style.styled():
        figure, (ax, beside) = plt.subplots(1, 2, figsize=(2 * style.COLUMN, 2.6), layout="constrained", sharey=True)
        label = rf"SOMCOT, paper's rates, $K = {style.power(settings.n_steps)}$"
        style.band(ax, gravity, record.data["somcot"], color=style.SOMCOT[1], label=label)
        style.band(ax, gravity, record.data["counted"], color=style.CELLS, label="SOMCOT, default", marker="^")
        label = rf"estimate from data, $N = {style.power(settings.n_samples)}$"
        style.band(ax, gravity, record.data["default"], color=style.DEFAULT, label=label, marker="D")
        label = rf"truth (from $10^{{{round(np.log10(settings.truth_samples))}}}$ transitions)"
        ax.plot(gravity, record.data["truth"], color=style.EXACT, linestyle="--", label=label)
        binned = f"{settings.n_bins} x {settings.n_bins} bins"
        ax.set(ylabel=r"distance $\langle \mu, c \rangle$", ylim=(0, None), title=binned)
        label = rf"{settings.n_cells} cells, $N = {style.power(settings.recorded[0] * settings.recorded[1])}$"
        style.band(beside, gravity, record.data["cells"], color=style.CELLS, label=label, marker="s")
        label = f"{binned}, long simulation"
        beside.plot(gravity, record.data["truth"], color=style.EXACT, linestyle="--", label=label)
        beside.set_title("cells of numeric vectors")
        for panel in (ax, beside):
            panel.set_xlabel("gravity $g$")
            panel.set_xticks([0.4, 5, TRUE_GRAVITY, 15, 20], ["0.4", "5", "9.8", "15", "20"])
            panel.spines[["top", "right"]].set_visible(False)
            panel.legend(loc="best", handlelength=1.6)
        return figure


EXPERIMENT = Experiment(
    "pendulum",
    "Model selection over gravity",
    "Every curve should have its minimum at g = 9.8, the gravity behind the data. SOMCOT's curve at the "
    "paper's rates does, but is flat, far from the truth; its default and the estimate from data have both the minimum "
    "and the values. On the right "
    "the same from recordings of real vectors, without bins: an approximation by cells, with a minimum at 9.8 as well.",
    PendulumSettings(),
    PendulumSettings(gravities=(0.4, 5.0, 7.5, 9.8, 12.0, 20.0), n_seeds=1),
    run,
    plot,
)
