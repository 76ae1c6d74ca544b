"""One-step models: what they fit, their slopes, and whether linear models would do."""

from __future__ import annotations

import numpy as np
import pytest

from somcot.continuous.moments import Space
from somcot.continuous.onestep_models import OneStep, curvature, scatter_share
from somcot.plumbing.arrays import Floats

LINE = Space(np.full(2, np.inf))
TURNING = Space(np.array([2 * np.pi, np.inf]))


def steps(f: object, n: int = 3000, noise: float = 0.1, seed: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    now = rng.normal(size=(n, 2))
    return now, f(now) + noise * rng.standard_normal((n, 2))  # type: ignore[operator]


def bent(z: Floats) -> Floats:
    return np.column_stack([np.sin(z[:, 0]) + 0.3 * z[:, 1], np.tanh(z[:, 0] * z[:, 1])])


def turning(z: Floats) -> Floats:
    return np.column_stack([z[:, 0] + 0.5 + 0.3 * np.sin(z[:, 0]), 0.5 * z[:, 1] + np.cos(z[:, 0])])


@pytest.mark.parametrize(("f", "space"), [(bent, LINE), (turning, TURNING)])
def test_it_fits_and_its_slope_is_its_derivative(f: object, space: Space) -> None:
    now, following = steps(f)
    model = OneStep.fit(now, following, space, np.random.default_rng(1))
    fresh, _ = steps(f, 500, seed=2)
    off = space.wrap(model.mean(fresh) - f(fresh))  # type: ignore[operator]
    assert np.sqrt(np.square(off).mean()) < 0.06
    mean, slope = model.mean_and_slope(fresh)
    np.testing.assert_allclose(mean, model.mean(fresh))
    for k in range(2):
        step = 1e-5 * np.eye(2)[k]
        numeric = (model.mean(fresh + step) - model.mean(fresh - step)) / 2e-5
        np.testing.assert_allclose(slope[:, :, k], numeric, atol=1e-4)


def test_a_turn_is_no_difference() -> None:
    """The model of a phase does not depend on how often it went round, in what it was given or is asked."""
    now, following = steps(turning)
    rng = np.random.default_rng(3)
    turns = 2 * np.pi * np.column_stack([rng.integers(-3, 4, len(now)), np.zeros(len(now))])
    one, other = (
        OneStep.fit(now + shift, following, TURNING, np.random.default_rng(1)) for shift in (np.zeros(2), turns)
    )
    asked = rng.normal(size=(50, 2))
    gap = TURNING.wrap(one.mean(asked) - other.mean(asked + np.array([4 * np.pi, 0.0])))
    assert np.abs(gap).max() < 0.05


def test_bends_and_uneven_noise_are_noticed() -> None:
    def straight(z: Floats) -> Floats:
        return np.asarray(z @ np.array([[0.8, 0.3], [-0.3, 0.8]]))

    unit = np.repeat(np.arange(150), 20)
    shares = {}
    for name, f in (("straight", straight), ("bent", bent)):
        now, following = steps(f, noise=0.3)
        model = OneStep.fit(now, following, LINE, np.random.default_rng(1))
        shares[name] = curvature(model, now, following, unit), scatter_share(model, now, following - f(now), unit)
    assert shares["straight"][0] < 0.03 < 0.3 < shares["bent"][0]
    assert max(shares["straight"][1], shares["bent"][1]) < 0.05
    now, _ = steps(straight)
    noise = np.random.default_rng(4).standard_normal(now.shape) * (0.1 + 0.3 * np.abs(now))
    model = OneStep.fit(now, straight(now) + noise, LINE, np.random.default_rng(1))
    assert scatter_share(model, now, noise, unit) > 0.1
