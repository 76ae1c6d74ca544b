"""The simulated pair against closed forms, and what is derived from it."""

from __future__ import annotations

import numpy as np
import pytest

from somcot import Trajectories, gaussian
from somcot.continuous.moments import Ground, Registration, Space
from somcot.continuous.pair import Pair, _moments
from somcot.continuous.register import Shared
from somcot.plumbing.arrays import Floats
from tests.continuous.held_out_systems import Run, normal, runs

LINE = Space(np.full(1, np.inf))


def identity(d: int, space: Space) -> Registration:
    return Registration(np.eye(d), np.zeros(d), np.zeros(d), space)


def pair(
    x: Floats, y: Floats, cost: str = "sqeuclidean", space: Space | None = None, match_starts: bool = False
) -> Pair:
    d = x.shape[2]
    space = Space(np.full(d, np.inf)) if space is None else space
    rng = np.random.default_rng(0)
    one, other = (Trajectories.from_arrays(data) for data in (x, y))
    T = identity(d, space)
    ground = Ground(cost, space, np.ones(d), cost == "euclidean")
    return Pair(Shared.of(one, other, T, rng), T, ground, 0.9, rng, n=800, match_starts=match_starts)


def linear(a: float, noise: float, start: float = 0.5) -> Run:
    return runs(normal(1, start), lambda z, r: a * z + noise * r.standard_normal(z.shape))


def test_common_noise_attains_the_closed_form_in_one_dimension() -> None:
    rng = np.random.default_rng(1)
    found = pair(linear(0.8, 0.3)(300, 30, rng), linear(0.4, 0.5)(300, 30, rng))
    start = (0.0, 0.25)
    truth = gaussian.distance(0.8, 0.3, 0.4, 0.5, discount=0.9, start_x=start, start_y=start).distance
    assert found.rolled(found.difference(), 800).cost.mean() == pytest.approx(truth, rel=0.1)


def test_starts_that_differ_are_related_by_their_moments() -> None:
    """Starts with standard deviations 0.5 and 1.5: common starts would miss what lies between them."""
    rng = np.random.default_rng(2)
    x, y = linear(0.9, 0.3)(400, 30, rng), linear(0.9, 0.3, 1.5)(400, 30, rng)
    starts = (0.0, 0.25), (0.0, 2.25)
    truth = gaussian.distance(0.9, 0.3, 0.9, 0.3, discount=0.9, start_x=starts[0], start_y=starts[1]).distance
    values = [
        one.rolled(one.difference(), 800).cost.mean() for one in (pair(x, y, match_starts=k) for k in (False, True))
    ]
    assert values[0] < 0.2 * truth
    assert values[1] == pytest.approx(truth, rel=0.25)


def test_permuted_units_leave_little_of_a_difference() -> None:
    rng = np.random.default_rng(3)
    found = pair(linear(0.8, 0.3)(200, 30, rng), linear(0.4, 0.3)(200, 30, rng))
    whole = found.rolled(found.difference(), 400).gap.mean()
    sides = rng.permutation(found.shared.sides)
    assert found.rolled(found.difference(sides), 400, found.starts(400, sides)).gap.mean() < 0.1 * whole
    kept = np.ones(len(sides))
    np.testing.assert_allclose(found.difference(counts=kept).drift, found.difference().drift)


def test_the_rotation_of_linear_systems_is_near_the_closed_form() -> None:
    rng = np.random.default_rng(4)
    A, S, B, R = (
        0.9 * _turn(0.3), np.diag([0.4, 0.2]), 0.8 * _turn(0.6), np.array([[0.2, 0.1], [0.1, 0.4]])
    )  # fmt: skip

    def run(M: Floats, N: Floats) -> Floats:
        return runs(normal(2, 0.5), lambda z, r: z @ M.T + r.standard_normal(z.shape) @ N.T)(200, 30, rng)

    x, y = run(A, S), run(B, R)
    start = (np.zeros(2), 0.25 * np.eye(2))
    truth = gaussian.distance(A, S, B, R, discount=0.9, start_x=start, start_y=start).distance
    found = pair(x, y)
    straight = found.rolled(found.difference(), 800).cost.mean()
    found.turn = found.rotation()
    np.testing.assert_allclose(found.turn @ found.turn.T, np.eye(2), atol=1e-9)
    rotated = found.rolled(found.difference(), 800).cost.mean()
    assert rotated < straight
    assert rotated == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("grown", [0.9, 1.15], ids=["stable", "explosive"])
def test_no_other_rotation_of_the_noise_brings_linear_systems_nearer(grown: float) -> None:
    """Over a grid of turns and reflections for the true systems; explosive ones are shrunk until they are not."""
    rng, discount = np.random.default_rng(7), 0.9
    A, B = grown * _turn(0.5), 0.6 * _turn(-0.4) + np.array([[0.0, 0.3], [0.0, 0.0]])
    S, R = np.array([[0.4, 0.1], [0.1, 0.2]]), np.array([[0.1, 0.1], [0.1, 0.3]])  # symmetric, as the fitted roots are

    def run(M: Floats, N: Floats) -> Floats:
        return runs(normal(2, 0.5), lambda z, r: z @ M.T + r.standard_normal(z.shape) @ N.T)(400, 12, rng)

    found = pair(run(A, S), run(B, R)).rotation()
    shrink = 1.0 if grown < 1.0 else 0.99 / grown
    Q = sum(
        discount**k * np.linalg.matrix_power(shrink * A, k).T @ np.linalg.matrix_power(shrink * B, k)
        for k in range(300)
    )
    turns = [_turn(angle) for angle in np.linspace(0.0, 2.0 * np.pi, 721)]
    gains = [np.trace(S @ Q @ R @ T @ mirror) for T in turns for mirror in (np.eye(2), np.diag([1.0, -1.0]))]
    np.testing.assert_allclose(found @ found.T, np.eye(2), atol=1e-9)
    assert np.trace(S @ Q @ R @ found) == pytest.approx(max(gains), rel=0.01)
    assert max(gains) > 1.05 * np.trace(S @ Q @ R)  # to leave the noise as it is would be worse


def _turn(angle: float) -> Floats:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def test_a_difference_is_bent_only_if_that_predicts_other_units() -> None:
    rng = np.random.default_rng(5)
    flat = pair(linear(0.8, 0.3)(200, 30, rng), linear(0.6, 0.3)(200, 30, rng))
    bent = runs(normal(1, 0.8), lambda z, r: 0.8 * z + 0.5 * np.sin(3 * z) + 0.3 * r.standard_normal(z.shape))
    curved = pair(linear(0.8, 0.3)(200, 30, rng), bent(200, 30, rng))
    assert curved.n_bumps > 0
    points = np.linspace(-1, 1, 9)[:, None]
    drift = curved.shared.model.features(points, curved.n_bumps) @ curved.difference().drift
    np.testing.assert_allclose(drift[:, 0], 0.5 * np.sin(3 * points[:, 0]), atol=0.12)
    drift = flat.shared.model.features(points, flat.n_bumps) @ flat.difference().drift
    np.testing.assert_allclose(drift[:, 0], -0.2 * points[:, 0], atol=0.06)


def test_recordings_drawn_from_the_pair_look_like_the_given_ones() -> None:
    rng = np.random.default_rng(6)
    x, y = linear(0.8, 0.3)(100, 30, rng), linear(0.4, 0.6)(80, 20, rng)
    found = pair(x, y)
    drawn = found.redrawn(found.difference())
    assert [data.n_episodes for data in drawn] == [100, 80]
    assert [data.lengths[0] for data in drawn] == [30, 20]
    for data, given in zip(drawn, (x, y), strict=True):
        assert data.points.std() == pytest.approx(given.std(), rel=0.1)


def test_phases_go_round_and_do_not_come_together() -> None:
    """Common noise keeps the distance of two phases; it halves that of a decaying process every two steps."""
    rng = np.random.default_rng(7)
    space = Space(np.array([2 * np.pi]))
    turning = runs(lambda n, r: r.uniform(0, 6.28, (n, 1)), lambda z, r: z + 0.5 + 0.2 * r.standard_normal(z.shape))
    x, y = (np.mod(turning(150, 40, rng), 2 * np.pi) for _ in range(2))
    found = pair(x, y, "euclidean", space)
    assert found.synchronisation(found.difference(), 400) > 0.7
    rolled = found.rolled(found.difference(), 400)
    assert rolled.cost.mean() < 0.5
    calm = pair(linear(0.7, 0.3)(150, 40, rng), linear(0.7, 0.3)(150, 40, rng))
    assert calm.synchronisation(calm.difference(), 400) < 0.05


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_moments_are_those_of_the_points_in_any_unit(unit: float) -> None:
    points = np.random.default_rng(0).normal(size=(50, 1))
    found = _moments(unit * points, LINE)
    np.testing.assert_allclose(found.covariance, unit**2 * points.var() * (1.0 + 1e-9) * np.eye(1), rtol=1e-10)
    assert 0.0 < _moments(np.full((5, 1), unit), LINE).covariance[0, 0] < 1e-200  # points that are all equal
