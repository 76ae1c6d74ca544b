"""The closed form against roll-outs, grids, random couplings and other solvers of its equations."""

from typing import Any

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov
from scipy.special import ndtr

import somcot
from somcot import gaussian
from somcot.gaussian.closed_form import _projected, cross, expected_norm
from somcot.plumbing.arrays import Floats

G = 0.95
Linear = gaussian.Linear


def turn(angle: float) -> Floats:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def pair(name: str) -> tuple[gaussian.Linear, gaussian.Linear]:
    rng = np.random.default_rng(7)
    if name == "one":
        return (
            Linear.of(0.6, 0.5, start=(0.0, 0.36)),
            Linear.of(0.3, 0.7, offset=0.2, start=(0.3, 0.36)),
        )
    if name == "opposite":
        return Linear.of(0.7, 0.5, start=(0.2, 0.1)), Linear.of(-0.5, 0.4, start=(-0.1, 0.3))
    if name == "plane":
        x = Linear.of(0.85 * turn(0.3), [[0.3, 0.1], [0.0, 0.3]], start=([0, 0], 0.09 * np.eye(2)))
        y = Linear.of(0.7 * turn(0.6), [[0.3, 0.0], [0.1, 0.5]], start=([0.5, 0], [[0.09, 0.02], [0.02, 0.05]]))
        return x, y
    A, B = (0.9 * q / np.abs(np.linalg.eigvals(q)).max() for q in rng.normal(size=(2, 4, 4)))
    x = Linear.of(A, rng.normal(size=(4, 2)), offset=rng.normal(size=4), start=rng.normal(size=4))
    C = rng.normal(size=(4, 4))
    return x, Linear.of(B, rng.normal(size=(4, 5)), start=(rng.normal(size=4), C @ C.T))


NAMES = ("one", "opposite", "plane", "four")


def discounted(x: Floats, y: Floats, power: int, g: float = G) -> Floats:
    costs = np.linalg.norm(x - y, axis=-1) ** power
    weights = (1 - g) * g ** np.arange(costs.shape[1])
    weights[-1] = g ** (costs.shape[1] - 1)
    return np.asarray(costs @ weights)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("cost", "power"), [("sqeuclidean", 2), ("euclidean", 1)])
def test_its_own_coupling_costs_what_is_said(name: str, cost: str, power: int) -> None:
    found = gaussian.between(*pair(name), cost, discount=G)
    values = discounted(*found.simulate(3000, 250, rng=3), power)
    assert abs(values.mean() - found.distance) < 3.5 * values.std() / np.sqrt(len(values))


@pytest.mark.parametrize("name", NAMES)
def test_each_side_of_the_coupling_is_its_own_process(name: str) -> None:
    """Means and covariances of the last step, so that a coupling that cheats on a margin is caught."""
    x, y = pair(name)
    drawn = gaussian.between(x, y, discount=G).simulate(20000, 6, rng=5)
    for model, states in zip((x, y), drawn, strict=True):
        mean, covariance = model.start_mean, model.start_covariance
        for _ in range(6):
            mean, covariance = model.A @ mean + model.offset, model.A @ covariance @ model.A.T + model.S @ model.S.T
        size = np.sqrt(np.trace(covariance))
        assert np.abs(states[:, -1].mean(axis=0) - mean).max() < 4 * size / np.sqrt(20000)
        assert np.abs(np.atleast_2d(np.cov(states[:, -1].T)) - covariance).max() < 6 * size**2 / np.sqrt(20000)


def rolled(x: gaussian.Linear, y: gaussian.Linear, K0: Floats, K: Floats, n: int = 400) -> float:
    """Squared cost of the coupling with these covariances of the noises, by recursion of the joint second moments."""
    d, total = x.d, 0.0
    M = np.block([[x.A, np.zeros((d, d))], [np.zeros((d, d)), y.A]])
    roots = [np.linalg.cholesky(m.start_covariance + 1e-14 * np.eye(d)) for m in (x, y)]
    first, later = roots[0] @ K0 @ roots[1].T, x.S @ K @ y.S.T
    C = np.block([[x.start_covariance, first], [first.T, y.start_covariance]])
    N = np.block([[x.S @ x.S.T, later], [later.T, y.S @ y.S.T]])
    m, a = np.concatenate([x.start_mean, y.start_mean]), np.concatenate([x.offset, y.offset])
    D = np.hstack([np.eye(d), -np.eye(d)])
    for t in range(n):
        total += (1 - G) * G**t * (((D @ m) ** 2).sum() + np.trace(D @ C @ D.T))
        m, C = M @ m + a, M @ C @ M.T + N
    return total


@pytest.mark.parametrize("name", NAMES)
def test_no_other_gaussian_coupling_is_cheaper(name: str) -> None:
    x, y = pair(name)
    least = gaussian.between(x, y, discount=G).distance
    rng, values = np.random.default_rng(1), []
    for _ in range(25):
        K0, K = (rng.normal(size=s) for s in ((x.d, x.d), (x.S.shape[1], y.S.shape[1])))
        values.append(rolled(x, y, K0 / np.linalg.norm(K0, 2), K / np.linalg.norm(K, 2)))
    assert least <= min(values) + 1e-9
    if name == "one":  # signs are all there is: the best of the four couplings is the distance
        best = min(rolled(x, y, np.full((1, 1), s), np.full((1, 1), t)) for s in (-1, 1) for t in (-1, 1))
        assert best == pytest.approx(least, rel=1e-6)


def grid(model: gaussian.Linear, z: Floats) -> somcot.MarkovChain:
    """Normal laws moved to a grid, the mean of each piece kept."""
    step = z[1] - z[0]

    def law(mean: float, deviation: float) -> Floats:
        at = (mean + deviation * np.sqrt(2.0) * POINTS - z[0]) / step
        at = np.clip(at, 0, len(z) - 1 - 1e-9)
        low = at.astype(int)
        out = np.zeros(len(z))
        np.add.at(out, low, WEIGHTS * (low + 1 - at))
        np.add.at(out, low + 1, WEIGHTS * (at - low))
        return out

    P = np.stack([law(float(model.A[0, 0] * v + model.offset[0]), float(model.S[0, 0])) for v in z])
    start = law(float(model.start_mean[0]), float(np.sqrt(model.start_covariance[0, 0])))
    return somcot.MarkovChain(P / P.sum(axis=1, keepdims=True), start / start.sum())


POINTS = np.linspace(-3.2, 3.2, 161)
WEIGHTS = np.exp(-(POINTS**2)) / np.exp(-(POINTS**2)).sum()


@pytest.mark.parametrize(("cost", "power", "off"), [("euclidean", 1, 0.002), ("sqeuclidean", 2, 0.004)])
def test_grids_in_one_dimension(cost: str, power: int, off: float) -> None:
    """Exact distances of ever finer grids: the squared cost gains the variance of the rounding, h^2, on each side."""
    x, y = pair("one")
    found = []
    for n in (25, 49):
        z = np.linspace(-3.6, 4.2, n)
        cost_matrix = np.abs(np.subtract.outer(z, z)) ** power
        found.append(somcot.distance(grid(x, z), grid(y, z), cost_matrix, discount=G, threads=1).distance)
    finer = found[1] + (found[1] - found[0]) / 3
    assert abs(finer - gaussian.between(x, y, cost, discount=G).distance) < off


@pytest.mark.parametrize("name", NAMES)
def test_brackets_of_the_euclidean_cost(name: str) -> None:
    x, y = pair(name)
    found, squared = (gaussian.between(x, y, cost, discount=G) for cost in ("euclidean", "sqeuclidean"))
    assert 0.0 < found.bounds.low <= found.distance == found.bounds.high <= np.sqrt(squared.distance)
    assert found.exact == (name == "one")


def test_equations_are_solved() -> None:
    rng = np.random.default_rng(0)
    A, B = (q / np.abs(np.linalg.eigvals(q)).max() for q in rng.normal(size=(2, 12, 12)))
    np.testing.assert_allclose(cross(A, A, G), solve_discrete_lyapunov(np.sqrt(G) * A.T, np.eye(12)), rtol=1e-9)
    Q = cross(A, B, G)
    np.testing.assert_allclose(Q, np.eye(12) + G * A.T @ Q @ B, atol=1e-10 * np.abs(Q).max())


def test_mean_norms() -> None:
    rng = np.random.default_rng(0)
    for d in (1, 2, 5):
        root, mean = rng.normal(size=(d, d)), rng.normal(size=d)
        drawn = np.linalg.norm(mean + rng.normal(size=(200_000, d)) @ root.T, axis=1)
        value = expected_norm(mean[None], (root @ root.T)[None])[0]
        assert abs(value - drawn.mean()) < 4 * drawn.std() / np.sqrt(len(drawn))
    m, s = np.array([0.0, 0.3, 5.0, -1e4, 1e-9]), np.array([2.0, 1e-3, 1.0, 3.0, 1e-12])
    folded = s * np.sqrt(2 / np.pi) * np.exp(-(m**2) / (2 * s**2)) + m * (1 - 2 * ndtr(-m / s))
    np.testing.assert_allclose(expected_norm(m[:, None], (s**2)[:, None, None]), folded, rtol=1e-13)
    assert expected_norm(np.zeros((1, 3)), np.zeros((1, 3, 3)))[0] == 0.0


def test_a_shift_is_measured_as_it_is_and_the_same_process_as_nothing() -> None:
    x, y = pair("plane")
    m = np.array([0.3, 0.4])
    moved = Linear(x.A, m - x.A @ m, x.S, m, x.start_covariance)
    assert gaussian.between(x, moved, "euclidean", discount=G).bounds == pytest.approx((0.5, 0.5), abs=1e-12)
    assert gaussian.between(x, moved, discount=G).distance == pytest.approx(0.25, abs=1e-12)
    for cost in ("sqeuclidean", "euclidean"):
        assert gaussian.between(x, x, cost, discount=G).distance == 0.0
        there, back = (gaussian.between(*sides, cost, discount=G).distance for sides in ((x, y), (y, x)))
        assert there == pytest.approx(back, rel=1e-9)


def test_far_from_the_origin_and_many_dimensions() -> None:
    x, y = pair("plane")
    far = np.full(2, 1e7)
    shifted = [Linear(m.A, m.offset + far - m.A @ far, m.S, m.start_mean + far, m.start_covariance) for m in (x, y)]
    for cost in ("sqeuclidean", "euclidean"):
        near = gaussian.between(x, y, cost, discount=G).distance
        assert gaussian.between(shifted[0], shifted[1], cost, discount=G).distance == pytest.approx(near, rel=1e-6)
    wide = Linear.of(0.9 * np.eye(50), np.eye(50)), Linear.of(0.8 * np.eye(50), np.eye(50))
    one = gaussian.distance(0.9, 1.0, 0.8, 1.0, discount=G).distance
    assert gaussian.between(*wide, discount=G).distance == pytest.approx(50 * one)


def test_near_discount_one_the_bracket_still_holds() -> None:
    x, y = pair("plane")
    found = gaussian.between(x, y, "euclidean", discount=0.9999)
    near = gaussian.between(x, y, "euclidean", discount=0.999)
    assert found.bounds.low < near.distance < found.bounds.high < 1.25 * near.distance


def test_fit_finds_the_model() -> None:
    x, _ = pair("plane")
    found = gaussian.fit(x.sample(2000, 25, rng=0))
    np.testing.assert_allclose(found.A, x.A, atol=0.02)
    np.testing.assert_allclose(found.S @ found.S.T, x.S @ x.S.T, atol=0.005)
    np.testing.assert_allclose(found.start_covariance, x.start_covariance, atol=0.01)
    recorded = somcot.Trajectories.from_arrays(found.record([3, 7, 5], rng=1))
    assert recorded.lengths.tolist() == [3, 7, 5]
    assert np.array_equal(gaussian.fit(recorded).A, gaussian.fit(found.record([3, 7, 5], rng=1)).A)
    assert "spectral radius" in found._repr_html_()


def test_a_column_that_never_changes_is_modelled_as_such() -> None:
    states = np.dstack([pair("one")[0].sample(50, 20, rng=0)[:, :, 0], np.full((50, 21), 3.0)])
    found = gaussian.fit(states)
    np.testing.assert_allclose(found.A[1], 0.0, atol=1e-12)
    np.testing.assert_allclose(found.sample(2, 3, rng=0)[:, :, 1], 3.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": 1.03}, r"A: the spectral radius is 1.03, so discount \* radius\^2 = 1.007.*below 0.9425"),
        ({"B": [[1.1]]}, "B: the spectral radius is 1.1"),
        ({"A": [[0.1, 0.2]]}, r"A: found shape \(1, 2\), expected a square matrix"),
        ({"A": np.eye(2) / 2, "S": np.eye(2)}, "y: found 1 coordinates, but x has 2"),
        ({"S": np.ones((2, 1))}, "S: found 2 rows, but A has 1"),
        ({"R": np.nan}, "R: "),
        ({"offset_x": [1.0, 2.0]}, "offset_x: found 2 numbers for 1 coordinates"),
        ({"start_y": (0.0, -1.0)}, r"start_y\[1\]: found the eigenvalue -1"),
        ({"start_x": (0.0, np.eye(2))}, r"start_x\[1\]: found shape \(2, 2\)"),
        ({"cost": "cosine"}, "cost: found 'cosine', expected one of 'sqeuclidean', 'euclidean'"),
        ({"discount": 1.0}, "discount"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"A": 0.5, "S": 1.0, "B": 0.4, "R": 1.0, "discount": G, **change}
    with pytest.raises(ValueError, match=message):
        gaussian.distance(**given)


def test_bad_recordings_and_models() -> None:
    with pytest.raises(ValueError, match="found 2 transitions of 2 coordinates, expected at least 4"):
        gaussian.fit([np.zeros((3, 2))])
    with pytest.raises(TypeError, match="x: found MarkovChain, expected a Linear"):
        gaussian.between(somcot.random_walk(3), pair("one")[0], discount=G)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_episodes"):
        pair("one")[0].sample(0, 3)


def test_projections_are_transported_at_the_mean_of_a_folded_normal() -> None:
    """From the covariance of x and y themselves; the function is given that of x - y and y."""
    rng = np.random.default_rng(3)
    for d in (1, 2):
        root, mean = rng.normal(size=(2 * d, 2 * d)), rng.normal(size=d)
        covariance, turned = root @ root.T, np.eye(2 * d) - np.eye(2 * d, k=d)
        of_x, of_y = covariance[:d, :d], covariance[d:, d:]
        expected = []
        for u in (mean / np.linalg.norm(mean), *np.linalg.eigh(of_x - of_y)[1].T):
            m, s = abs(u @ mean), abs(np.sqrt(u @ of_x @ u) - np.sqrt(u @ of_y @ u))
            expected.append(s * np.sqrt(2 / np.pi) * np.exp(-(m**2) / (2 * s**2)) + m * (1 - 2 * ndtr(-m / s)))
        found = _projected(mean[None], (turned @ covariance @ turned.T)[None])
        assert found == pytest.approx(max(expected), rel=1e-8)
