"""Moments, the identity they rest on, maps between moments, and blocks of long runs."""

from __future__ import annotations

import numpy as np
import pytest

import somcot
from somcot import Trajectories
from somcot.continuous.moments import (
    Ground,
    Moments,
    Registration,
    Side,
    Space,
    blocks,
    choose_kind,
    kinds_in,
    lower_bound,
    map_between,
    matrix_power,
    resampled,
    squared_cost,
)
from somcot.plumbing.arrays import Floats

LINE = {d: Space(np.full(d, np.inf)) for d in (1, 2, 3)}
Rng = np.random.Generator


class Points:
    """A random chain on random points of the plane."""

    def __init__(self, n: int, rng: Rng) -> None:
        self.points = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 2)) + rng.normal(size=2)
        self.chain = somcot.MarkovChain(rng.dirichlet(np.ones(n), size=n), rng.dirichlet(np.ones(n)))

    def moments(self, discount: float) -> Moments:
        w = self.chain.state_occupancy(discount)
        mean = w @ self.points
        off = self.points - mean
        return Moments(mean, off.T @ (off * w[:, None]))


def by_linear_program(x: Points, y: Points, a: Floats, b: Floats, discount: float) -> float:
    """The distance for the squared cost with the points at a and b, from the paper's linear program."""
    cost = np.square(a[:, None] - b[None]).sum(axis=2)
    return somcot.distance(x.chain, y.chain, cost, discount=discount, method="lp").distance


@pytest.mark.parametrize("seed", range(4))
def test_identity_of_the_squared_cost(seed: int) -> None:
    """d = |difference of means|^2 + Bures^2 + d of the registered pair, for pairs that are no maps of each other."""
    rng = np.random.default_rng(seed)
    x, y, g = Points(4, rng), Points(3, rng), 0.8
    (mx, Sx), (my, Sy) = x.moments(g), y.moments(g)
    T = map_between("affine", Moments(mx, Sx), Moments(my, Sy), LINE[2])
    root = matrix_power(Sx, 0.5)
    bures = np.trace(Sx + Sy - 2 * matrix_power(root @ Sy @ root, 0.5))
    whole = by_linear_program(x, y, x.points, y.points, g)
    left = by_linear_program(x, y, T.u(x.points), T.v(y.points), g)
    assert whole == pytest.approx(np.square(mx - my).sum() + bures + left, abs=1e-7)
    assert left > 0.01  # these are no maps of each other
    assert squared_cost(T, Moments(mx, Sx), Moments(my, Sy)) == pytest.approx(np.square(mx - my).sum() + bures)


@pytest.mark.parametrize("seed", range(3))
def test_identity_for_any_symmetric_matrix(seed: int) -> None:
    """The Bures map gives the largest of these lower bounds."""
    rng = np.random.default_rng(10 + seed)
    x, y, g = Points(3, rng), Points(4, rng), 0.7
    (mx, Sx), (my, Sy) = x.moments(g), y.moments(g)
    M = rng.normal(size=(2, 2))
    A = M @ M.T + 0.1 * np.eye(2)
    T = Registration(A, mx, my, LINE[2])
    part = np.square(mx - my).sum() + np.trace((np.eye(2) - A) @ Sx) + np.trace((np.eye(2) - np.linalg.inv(A)) @ Sy)
    whole = by_linear_program(x, y, x.points, y.points, g)
    left = by_linear_program(x, y, T.u(x.points), T.v(y.points), g)
    assert whole == pytest.approx(part + left, abs=1e-7)
    best = map_between("affine", Moments(mx, Sx), Moments(my, Sy), LINE[2])
    assert part <= squared_cost(best, Moments(mx, Sx), Moments(my, Sy)) + 1e-9


def test_a_map_and_its_inverse() -> None:
    rng = np.random.default_rng(0)
    T = map_between("affine", Moments(np.ones(3), np.diag([1.0, 2, 3])), Moments(np.zeros(3), np.eye(3)), LINE[3])
    points = rng.normal(size=(5, 3))
    np.testing.assert_allclose(T.inverse(T.apply(points)), points)
    np.testing.assert_allclose(T.x(T.u(points)), points)
    np.testing.assert_allclose(T.y(T.v(points)), points)
    np.testing.assert_allclose(T.u(points), T.v(T.apply(points)))
    same = T.moved(np.zeros(3), np.zeros((3, 3)))
    np.testing.assert_allclose(same.A, T.A)
    moved = T.moved(np.array([0.1, 0.0, 0.0]), np.zeros((3, 3)))
    np.testing.assert_allclose(moved.v(T.y(np.array([[0.1, 0.0, 0.0]]))), np.zeros((1, 3)), atol=1e-12)


def sides(x: Floats, y: Floats, space: Space, **options: bool) -> tuple[Side, Side]:
    one, other = (
        Side.of(Trajectories.from_arrays(data), space, 0.9, **({"stationary": False} | options)) for data in (x, y)
    )
    return one, other


def test_moments_are_discounted_and_the_tail_is_the_second_half() -> None:
    """Weights 0.1, 0.09, ... and what lies beyond the record on its second half; an end keeps all of it."""
    points = np.arange(4.0)[:, None]
    weight = 0.1 * 0.9 ** np.arange(4)
    weight[2:] += 0.9**4 / 2
    data = Trajectories.from_arrays([points])
    assert Side.of(data, LINE[1], 0.9, stationary=False).moments().mean == pytest.approx(weight @ points[:, 0])
    ended = Trajectories.from_arrays([points], terminated=True)
    weight = 0.1 * 0.9 ** np.arange(4)
    weight[3] += 0.9**4
    found = Side.of(ended, LINE[1], 0.9, stationary=False).moments()
    assert found.mean == pytest.approx(weight @ points[:, 0])
    assert found.covariance == pytest.approx(weight @ points[:, 0] ** 2 - (weight @ points[:, 0]) ** 2)
    assert Side.of(data, LINE[1], 0.9, stationary=True).moments().mean == pytest.approx(1.5)


def test_units_counted_twice_are_units_given_twice() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(3, 5, 2))
    one = Side.of(Trajectories.from_arrays(data), LINE[2], 0.9, stationary=False)
    twice = Side.of(Trajectories.from_arrays(data[[0, 1, 1]]), LINE[2], 0.9, stationary=False)
    a, b = one.moments(np.array([1.0, 2.0, 0.0])), twice.moments()
    np.testing.assert_allclose(a.mean, b.mean)
    np.testing.assert_allclose(a.covariance, b.covariance)


def test_means_and_variances_on_a_circle() -> None:
    """A cloud about 0 with period 1 that lies on both sides of the cut."""
    rng = np.random.default_rng(0)
    cloud = 0.05 * rng.standard_normal((50, 20, 1))
    on_circle = Side.of(Trajectories.from_arrays(np.mod(cloud, 1.0)), Space(np.ones(1)), 0.9, stationary=True)
    found = on_circle.moments()
    assert abs(found.mean[0]) < 0.01
    assert found.covariance[0, 0] == pytest.approx(0.0025, rel=0.1)
    assert kinds_in(Space(np.ones(1))) == ("same", "shift")
    assert kinds_in(Space(np.array([1.0, np.inf]))) == ("same", "shift", "scale")


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda y: y, "same"),
        (lambda y: y + np.array([0.5, 0.0]), "shift"),
        (lambda y: 1.5 * y, "scale"),
        (lambda y: y * [1.5, 1.0], "stretch"),
        (lambda y: y @ np.array([[1.3, 0.6], [0.6, 1.0]]), "affine"),
    ],
)
def test_the_simplest_kind_of_map_is_chosen(change: object, kind: str) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 300, 10, 2))
    both = sides(x, change(y), LINE[2])  # type: ignore[operator]
    moments = both[0].moments(), both[1].moments()
    assert choose_kind(*moments, resampled(both, 200, rng), 300, LINE[2]) == kind


def test_the_lower_bound_holds_and_is_near_for_a_map() -> None:
    """Shift by (1, 0) and stretch by 1.5: 1 + 0.25 times the variance, in squares; 1 for the norm."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 400, 10, 2))
    both = sides(x, y * [1.5, 1.0] + [1.0, 0.0], LINE[2])
    moments, bootstrap = (both[0].moments(), both[1].moments()), resampled(both, 200, rng)
    for square, truth in ((True, 1.25), (False, 1.0)):
        found = lower_bound(*moments, bootstrap, LINE[2], square=square, z=1.645)
        assert 0.85 * truth < found < truth
    turning = Space(np.array([20.0, 20.0]))
    assert lower_bound(*moments, bootstrap, turning, square=True, z=1.645) == 0.0


def test_long_runs_become_blocks_of_several_correlation_times() -> None:
    rng = np.random.default_rng(3)
    slow = np.zeros((2, 3001, 1))
    for t in range(3000):
        slow[:, t + 1] = 0.95 * slow[:, t] + rng.standard_normal((2, 1))
    data = Trajectories.from_arrays(slow)
    cut = blocks([data, data])
    assert cut is not None
    assert 60 < cut[0].lengths.mean() < 400  # the autocorrelation time is 39
    assert cut[0].n_transitions == data.n_transitions
    np.testing.assert_array_equal(cut[0].now, data.now)
    assert blocks([data, Trajectories.from_arrays(rng.normal(size=(60, 20, 1)))]) is None
    assert blocks([data, Trajectories.from_arrays(slow[:, :100], terminated=True)]) is None


def test_costs_of_pairs_are_those_of_tables() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(2, 37, 2))
    space = Space(np.array([1.5, np.inf]))
    city = Ground(lambda p, q: np.abs(p[:, None] - q[None]).sum(axis=2), space, np.array([2.0, 1.0]), True)
    for ground in (Ground("euclidean", space, np.ones(2), True), Ground("sqeuclidean", space, np.ones(2), False), city):
        np.testing.assert_allclose(ground.rows(a, b), np.diag(ground.table(a, b)))
    assert city.rows(a, b)[0] == pytest.approx(2 * abs(a[0, 0] - b[0, 0]) + abs(a[0, 1] - b[0, 1]))
    flat = Ground("euclidean", space, np.ones(2), True).rows(np.zeros((1, 2)), np.array([[1.4, 0.0]]))
    assert flat[0] == pytest.approx(0.1)
