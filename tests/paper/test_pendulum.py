"""The pendulum: dynamics against Gymnasium, policy against stable-baselines3, samples against their law."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from somcot.paper.experiment import Record
from somcot.paper.pendulum import (
    Grid,
    Pendulum,
    PendulumSettings,
    load_actor,
    observe,
    plot,
    record,
    reward_apart,
    simulate,
)

N_STEPS = 200  # a whole episode of Pendulum-v1


def episodes(gravity: float, closed_loop: bool) -> tuple[Any, Any, Any, Any]:
    """Angles, speeds, torques and rewards of some episodes, (time, episode)."""
    rng = np.random.default_rng(int(10 * gravity))
    angle, speed = rng.uniform(-np.pi, np.pi, size=8), rng.uniform(-1, 1, size=8)
    pendulum, actor = Pendulum(gravity), load_actor()
    angles, speeds, torques, rewards = [angle], [speed], [], []
    for _ in range(N_STEPS):
        torque = actor(angle, speed) if closed_loop else rng.uniform(-2.5, 2.5, size=8)
        angle, speed, reward = pendulum.step(angle, speed, torque)
        angles.append(angle)
        speeds.append(speed)
        torques.append(torque)
        rewards.append(reward)
    return np.array(angles), np.array(speeds), np.array(torques), np.array(rewards)


def largest_difference(copy_gravity: float, gravity: float, closed_loop: bool) -> float:
    """Between the copy and Gymnasium's own environment with the same starts and torques."""
    gymnasium = pytest.importorskip("gymnasium")
    angles, speeds, torques, rewards = episodes(copy_gravity, closed_loop)
    environment = gymnasium.make("Pendulum-v1", g=gravity).unwrapped
    worst = 0.0
    for i in range(angles.shape[1]):
        environment.reset(seed=0)
        environment.state = np.array([angles[0, i], speeds[0, i]])
        for t in range(N_STEPS):
            _, reward, terminated, _, _ = environment.step(torques[t, i : i + 1])
            assert not terminated
            difference = environment.state - [angles[t + 1, i], speeds[t + 1, i]]
            worst = max(worst, float(np.abs(difference).max()), abs(float(reward) - rewards[t, i]))
    return worst


@pytest.mark.parametrize("closed_loop", [True, False])
@pytest.mark.parametrize("gravity", [0.4, 9.8, 20.0])
def test_dynamics_match_gymnasium_over_whole_episodes(gravity: float, closed_loop: bool) -> None:
    assert largest_difference(gravity, gravity, closed_loop) < 1e-8


def test_another_gravity_does_not_match() -> None:
    assert largest_difference(9.8, 9.81, closed_loop=True) > 1e-3


def test_policy_matches_stable_baselines3() -> None:
    torch = pytest.importorskip("torch")
    algorithms = pytest.importorskip("stable_baselines3")
    model = algorithms.DDPG("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [128, 128]}, device="cpu")
    actor = load_actor()
    layers: dict[str, Any] = {}
    for place, weight, bias in zip((0, 2, 4), actor.weights, actor.biases, strict=True):
        layers |= {f"{place}.weight": torch.tensor(weight), f"{place}.bias": torch.tensor(bias)}
    model.actor.mu.load_state_dict(layers)
    rng = np.random.default_rng(0)
    angle, speed = rng.uniform(-np.pi, np.pi, size=1000), rng.uniform(-8, 8, size=1000)
    seen = np.stack([np.cos(angle), np.sin(angle), speed], axis=1).astype(np.float32)
    theirs, _ = model.predict(seen, deterministic=True)
    np.testing.assert_allclose(actor(angle, speed), theirs[:, 0], atol=2e-5)


def test_policy_swings_up_and_stays() -> None:
    angles, speeds, _, rewards = episodes(9.8, closed_loop=True)
    assert rewards.sum(axis=0).mean() > -300
    assert (np.cos(angles[-1]) > 0.95).all()
    assert np.abs(speeds[-1]).max() < 0.5


def test_training_log_comes_with_the_weights() -> None:
    log = json.loads((files("somcot.paper") / "data" / "pendulum_training.json").read_text())
    assert log["log"][-1]["step"] == log["settings"]["n_steps"] == 20_000
    assert -170 < log["log"][-1]["return_mean"] < -130
    assert [weight.shape for weight in load_actor().weights] == [(128, 3), (128, 128), (1, 128)]


def test_all_starts_fall_into_the_start_bin() -> None:
    for n in (1, 3, 5, 7):
        bins = Grid(n)
        low, high = bins.start_angles
        corners = np.array([low, np.nextafter(high, low)]).repeat(2)
        assert np.array_equal(bins(*bins.centres()), np.arange(n * n))
        assert set(bins(corners, np.array([-1.0, 1.0, -1.0, 1.0]))) == {bins.start}
    with pytest.raises(ValueError, match="n: found 8"):
        Grid(8)


def flow_violation(discount: float, claimed: float) -> float:
    """How far simulated transitions are from a discounted flow that begins in the start bin."""
    bins = Grid(7)
    found = simulate(Pendulum(9.8), load_actor(), bins, 50_000, discount, np.random.default_rng(0))
    leave, enter = (np.bincount(part, minlength=49) / 50_000 for part in (found.now, found.following))
    start = np.eye(49)[bins.start]
    return float(np.abs(leave - claimed * enter - (1 - claimed) * start).sum())


def test_simulated_transitions_have_the_law_of_the_occupancy() -> None:
    assert flow_violation(0.95, 0.95) < 0.02
    assert flow_violation(0.95, 0.85) > 0.1


def test_simulation_is_reproducible_and_of_the_size_asked_for() -> None:
    runs = [simulate(Pendulum(), load_actor(), Grid(7), 3_000, 0.9, np.random.default_rng(s)) for s in (0, 0, 1)]
    assert {len(column) for run in runs for column in run} == {3_000}
    assert all(np.array_equal(a, b) for a, b in zip(runs[0], runs[1], strict=True))
    assert not np.array_equal(runs[0].now, runs[2].now)


def test_episodes_are_those_of_the_same_pendulum() -> None:
    """Whole observations, step by step, and rewards at points that are those of the dynamics but for the torque."""
    pendulum, actor, bins = Pendulum(9.8), load_actor(), Grid(7)
    shots = record(pendulum, actor, bins, (4, 6), np.random.default_rng(0))
    assert shots.shape == (4, 7, 3)
    angle, speed = np.arctan2(shots[:, :-1, 1], shots[:, :-1, 0]), shots[:, :-1, 2]
    after, faster, reward = pendulum.step(angle.ravel(), speed.ravel(), actor(angle.ravel(), speed.ravel()))
    np.testing.assert_allclose(observe(after, faster).reshape(4, 6, 3), shots[:, 1:], atol=1e-5)
    still = pendulum.step(angle.ravel(), speed.ravel(), np.zeros(24))[2]
    points = shots[:, :-1].reshape(-1, 3)
    np.testing.assert_allclose(reward_apart(points, points), np.abs(still[:, None] - still), atol=1e-9)
    assert np.abs(still - reward).max() <= 0.004 + 1e-12
    assert (bins(angle[:, 0], speed[:, 0]) == bins.start).all()


def test_the_panels_of_the_figure_have_room_for_their_curves() -> None:
    settings = PendulumSettings()
    seeds, truth = np.ones((settings.n_seeds, 9)), np.ones(9)
    data = {"somcot": seeds, "counted": seeds, "default": seeds, "cells": seeds, "truth": truth}
    figure = plot(Record("pendulum", settings, 0, data, ()))
    figure.canvas.draw()
    for panel in figure.axes:
        box = panel.get_window_extent()
        assert min(box.width, box.height) > 1.5 * figure.dpi  # inches
