"""Registration: maps refined on single steps, and permutation tests of what is left."""

from __future__ import annotations

import numpy as np
import pytest

from somcot import Trajectories
from somcot.continuous.moments import Side, Space, choose_kind, resampled
from somcot.continuous.register import Fit, episode_tests, refine, some_units
from somcot.plumbing.arrays import Floats
from tests.continuous.held_out_systems import euler, normal, runs

LINE = Space(np.full(2, np.inf))
SWITCH = runs(
    normal(2, 0.6, 1.0),
    euler(lambda z: 2.2 / (1 + np.maximum(z[:, ::-1], 0.0) ** 3) - z, 0.1, 5, 0.35),
)


def registered(x: Floats, y: Floats, kind: str | None = None, space: Space = LINE) -> tuple[Fit, dict[str, float]]:
    rng = np.random.default_rng(0)
    one, other = (Trajectories.from_arrays(data) for data in (x, y))
    sides = Side.of(one, space, 0.95, stationary=False), Side.of(other, space, 0.95, stationary=False)
    moments, bootstrap = (sides[0].moments(), sides[1].moments()), resampled(sides, 200, rng)
    chosen = choose_kind(*moments, bootstrap, len(x), space) if kind is None else kind
    fit = refine(chosen, (one, other), moments, bootstrap, space, rng)
    return fit, episode_tests(fit, (one, other), 0.95, rng, starts=True)


def test_steps_tell_a_scaling_better_than_moments() -> None:
    """A switch scaled by 1.2: how often it was in which state by chance says little about the map."""
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, y = SWITCH(150, 40, rng), 1.2 * SWITCH(150, 40, rng)
        fit, tests = registered(x, y, "scale")
        moments = np.sqrt(y.var(axis=(0, 1)).sum() / x.var(axis=(0, 1)).sum())
        errors.append((abs(fit.map.A[0, 0] - 1.2), abs(moments - 1.2)))
        np.testing.assert_allclose(fit.map.apply(np.zeros((1, 2))), 0.0, atol=0.1)
        spread = np.std([T.A[0, 0] for T in fit.drawn()])
        assert 0.001 < spread < 0.02
        assert errors[-1][0] < 4 * spread
    assert np.mean(errors, axis=0)[0] < 0.01
    assert min(tests.values()) > 0.0125


@pytest.mark.parametrize(
    ("change", "test"),
    [
        (np.tanh, "places"),
        (lambda z: np.where(np.arange(41)[:, None] == 0, z + 1.0, z), "starts"),
    ],
)
def test_differences_that_no_map_explains_are_seen(change: object, test: str) -> None:
    rng = np.random.default_rng(1)
    x, y = SWITCH(120, 40, rng), change(SWITCH(120, 40, rng))  # type: ignore[operator]
    assert registered(x, y)[1][test] < 0.0125


def test_other_steps_and_other_noise_are_seen() -> None:
    rng = np.random.default_rng(2)

    def process(a: float, noise: Floats) -> Floats:
        turn = a * np.array([[0.9, 0.3], [-0.3, 0.9]])
        step = lambda z, r: z @ turn.T + r.standard_normal(z.shape) @ noise.T  # noqa: E731
        return runs(normal(2, 0.5), step)(120, 40, rng)

    even, correlated = 0.3 * np.eye(2), 0.3 * np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]])
    x = process(0.9, even)
    assert registered(x, process(0.7, even), "shift")[1]["steps"] < 0.0125
    assert registered(x, process(0.9, correlated), "shift")[1]["scatter"] < 0.0125
    assert min(registered(x, process(0.9, even), "shift")[1].values()) >= 0.0125


def test_ends_are_compared_where_there_are_any() -> None:
    """Walks that end after about 5 or about 10 steps move alike until then."""
    rng = np.random.default_rng(3)

    def ending(mean: float) -> Trajectories:
        lengths = rng.geometric(1 / mean, size=100) + 1
        return Trajectories.from_arrays([rng.normal(size=(n + 1, 2)) for n in lengths], terminated=True)

    found = []
    for mean in (5.0, 10.0):
        sides = ending(5.0), ending(mean)
        both = Side.of(sides[0], LINE, 0.9, stationary=False), Side.of(sides[1], LINE, 0.9, stationary=False)
        moments, bootstrap = (both[0].moments(), both[1].moments()), resampled(both, 50, rng)
        fit = refine("same", sides, moments, bootstrap, LINE, rng)
        found.append(episode_tests(fit, sides, 0.9, rng, starts=False))
    assert "starts" not in found[0]
    assert found[0]["ends"] > 0.01 > found[1]["ends"]


def test_a_turned_phase_is_a_shift() -> None:
    """Phases about 3 and about 3.3 that cross the cut of the circle."""
    space = Space(np.array([2 * np.pi]))
    step = lambda z, r: z - 0.4 * np.sin(z) + 0.2 * r.standard_normal(z.shape)  # noqa: E731
    run = runs(normal(1, 0.4), step)
    rng = np.random.default_rng(4)
    x, y = (np.mod(run(100, 30, rng) + centre, 2 * np.pi) for centre in (3.0, 3.3))
    fit, tests = registered(x, y, "shift", space)
    assert fit.map.shift == pytest.approx(0.3, abs=0.05)
    assert min(tests.values()) > 0.0125


def test_some_units_are_whole_units() -> None:
    data = Trajectories.from_arrays(np.arange(600.0).reshape(50, 12, 1))
    some = some_units(data, np.random.default_rng(0), 300)
    assert 20 <= len(some) <= 27
    assert (np.diff(some) > 0).all()
    assert some_units(data, np.random.default_rng(0), 600).tolist() == list(range(50))


@pytest.mark.statistical
def test_errors_of_moments_and_steps_go_together() -> None:
    """Each episode has a level of its own, which moments and steps share: as sources they are not independent."""

    def levels(rng: np.random.Generator) -> Floats:
        level = rng.standard_normal((60, 1))
        step = lambda z, r: level + 0.6 * (z - level) + 0.3 * r.standard_normal(z.shape)  # noqa: E731
        return runs(lambda n, r: level + 0.3 * r.standard_normal((n, 1)), step)(60, 20, rng)

    space, shifts, spreads = Space(np.full(1, np.inf)), [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        fit, _ = registered(levels(rng), levels(rng), "shift", space)
        shifts.append(float(fit.map.shift[0]))
        spreads.append(float(fit.draws.std()))
    # 1.5 if they are combined as independent sources
    assert np.std(shifts) < 1.35 * np.mean(spreads)
