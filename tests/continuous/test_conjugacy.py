"""Maps between systems: found and measured where there is one, refused where there is none."""

import numpy as np
import pytest

import somcot
from somcot.continuous import affine_maps as maps
from somcot.continuous import conjugacy
from somcot.continuous.affine_maps import MapConstraints
from somcot.continuous.conjugacy import episode_tests
from somcot.continuous.linear_twin import some_episodes
from somcot.continuous.onestep_models import OneStep
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import DataWarning
from somcot.trajectories import Trajectories
from tests.continuous import further_systems as further
from tests.continuous import mapped_systems as mapped

G = 0.95


def spin(
    n_episodes: int, rng: np.random.Generator, frequency: float = 0.5, noise: float = 0.1, pull: float = 1.0
) -> Floats:
    """A noisy limit cycle in the plane, 40 steps."""
    x = np.array([1.0, 0.0]) + 0.3 * rng.standard_normal((n_episodes, 2))
    out = [x]
    for _ in range(40):
        for _ in range(5):
            radial = pull * x * (1.0 - np.square(x).sum(axis=1, keepdims=True))
            x = x + 0.2 * (radial + frequency * np.stack([-x[:, 1], x[:, 0]], axis=1))
            x = x + noise / np.sqrt(5) * rng.standard_normal(x.shape)
        out.append(x)
    return np.stack(out, axis=1)


def compared(a: Floats, b: Floats, cost: str = "euclidean") -> conjugacy.MapComparison:
    x, y = Trajectories.from_arrays(a), Trajectories.from_arrays(b)
    cells = somcot.discretise(x, y, scale=1.0, n_cells=12, rng=0)
    return conjugacy.compare(x, y, cost, discount=G, cells=cells, rng=np.random.default_rng(0))


def test_a_shifted_oscillator_is_measured_where_cells_are_far_off() -> None:
    rng = np.random.default_rng(1)
    a, b = spin(60, rng), spin(60, rng) + np.array([0.3, 0.4])
    found = compared(a, b)
    assert (found.verdict, found.kind) == ("conjugate", "shift")
    assert found.distance == pytest.approx(0.5, abs=0.02)
    assert found.interval is not None
    assert found.interval[0] < 0.5 < found.interval[1]
    assert found.words == "y behaves as x shifted by (0.298, 0.398) in (x0, x1)"


def test_the_front_door_takes_the_map_and_tells_it_in_the_users_units() -> None:
    rng = np.random.default_rng(2)
    a, b = spin(60, rng), spin(60, rng) + np.array([0.3, 0.4])
    x, y = Trajectories.from_arrays(a), Trajectories.from_arrays(b)
    found = somcot.distance(x, y, "euclidean", discount=G, confidence=0.9, n_cells=8, rng=0)
    assert found.continuous is not None
    assert found.continuous.map is not None
    assert (found.continuous.route, found.continuous.map.verdict) == ("map", "conjugate")
    assert "y behaves as x shifted by (0." in found.continuous.map.words
    truth = float(np.linalg.norm(np.array([0.3, 0.4]) / found.continuous.cells.scale))
    assert found.distance == pytest.approx(truth, rel=0.04)


def test_few_steps_are_not_asked_for_a_map() -> None:
    rng = np.random.default_rng(2)
    x, y = (Trajectories.from_arrays(spin(40, rng) + shift) for shift in (0.0, 0.4))
    with pytest.warns(DataWarning, match="found 1,600"):
        found = somcot.distance(x, y, "euclidean", discount=G, confidence=0.9, n_cells=8, rng=0)
    assert found.continuous is not None
    assert found.continuous.route == "approximate"
    assert found.confidence_interval is None


def test_the_same_oscillator_is_at_distance_zero() -> None:
    rng = np.random.default_rng(2)
    found = compared(spin(60, rng), spin(60, rng))
    assert (found.verdict, found.distance) == ("conjugate", 0.0)
    assert found.interval is not None
    assert found.interval[0] == 0.0 < found.interval[1] < 0.4


@pytest.mark.parametrize("other", [{"frequency": 0.65}, {"noise": 0.2}, {"pull": 0.2}])
def test_other_dynamics_are_told_apart(other: dict[str, float]) -> None:
    rng = np.random.default_rng(3)
    found = compared(spin(100, rng), spin(100, rng, **other))
    assert (found.verdict, found.distance, found.interval) == ("different", None, None)
    assert found.reasons


def test_a_difference_too_small_for_the_tests_is_inside_the_interval() -> None:
    """Frequencies .5 and .51 from 1,000 steps: at most .19 apart (common noise), and not to be told apart."""
    rng = np.random.default_rng(20)
    found = compared(spin(25, rng), spin(25, rng, frequency=0.51))
    assert found.verdict == "conjugate"
    assert found.interval is not None
    assert found.interval[1] > 0.186


def test_a_quarter_turn_is_not_the_best_coupling() -> None:
    """Turned by 90 degrees the law of places is nearly the same, so the map is not the cheapest way."""
    rng = np.random.default_rng(4)
    found = compared(spin(60, rng), spin(60, rng) @ np.array([[0.0, 1.0], [-1.0, 0.0]]))
    assert found.verdict != "conjugate"


def test_without_its_tests_the_verdict_would_be_false(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    a, b = spin(100, rng), spin(100, rng, frequency=0.65)
    monkeypatch.setattr(conjugacy, "episode_tests", lambda x, y, rng: {})
    monkeypatch.setattr(conjugacy, "pvalue", lambda *args, **kwargs: 1.0)
    monkeypatch.setattr(conjugacy, "_guards", lambda *args: ())
    found = compared(a, b)
    assert found.verdict == "conjugate"
    assert found.distance is not None
    assert found.distance < 0.3


def test_too_little_or_too_wide_is_refused() -> None:
    rng = np.random.default_rng(0)
    few = compared(spin(8, rng), spin(8, rng))
    assert (few.verdict, few.reasons) == ("refused", ("testing a map needs 20 episodes on each side, found 8",))


@pytest.mark.statistical
def test_level_of_the_four_tests() -> None:
    """Together at most .05 where both are the same; each permutation test is exact."""
    rng, rejected = np.random.default_rng(5), 0
    for _ in range(60):
        x, y = (Trajectories.from_arrays(spin(25, rng)) for _ in range(2))
        rejected += min(episode_tests(x, y, rng).values()) <= conjugacy.LEVEL / 4.0
    assert rejected <= 8


def test_scatter_and_starts_tell_a_stretch_that_means_of_steps_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predator and prey near their point of rest, stretched by 1.25 in one coordinate."""
    pair = next(pair for pair in mapped.seen(mapped.KNOWN) if pair.name == "predator and prey, stretched")
    x, y = pair.record(60, np.random.default_rng(0))
    step = OneStep.fit(x.now, x.following, np.random.default_rng(0))

    def off() -> float:
        found = maps.fit_map("scaling", x, y, step, np.random.default_rng(0)).map
        return float(np.abs(np.diag(found.matrix) - pair.factors).max())

    assert off() < 0.03
    monkeypatch.setattr(MapConstraints, "misfit", lambda self, matrix, shift, left: np.zeros(0))
    assert off() > 0.08


def test_a_rule_without_noise_is_not_tested_to_its_last_digit() -> None:
    """A phase that turns by 0.4 a step drives a coordinate: that both circles agree to 1e-11 must not matter."""

    def driven(rng: np.random.Generator, shift: float) -> Floats:
        phase = rng.uniform(0, 2 * np.pi, 60)
        x, rows = 0.5 * rng.standard_normal(60), []
        for _ in range(41):
            rows.append(np.column_stack([x + shift, np.cos(phase), np.sin(phase)]))
            phase = phase + 0.4
            x = 0.8 * x + 0.5 * np.cos(phase) + 0.2 * rng.standard_normal(60)
        return np.stack(rows, axis=1)

    rng = np.random.default_rng(6)
    found = compared(driven(rng, 0.0), driven(rng, 0.4))
    assert (found.verdict, found.kind) == ("conjugate", "shift")
    assert found.distance == pytest.approx(0.4, abs=0.03)


def test_maps_and_models() -> None:
    T = maps.Affine(np.array([[1.3, 0.2], [0.2, 0.9]]), np.array([0.1, -0.2]))
    points = np.random.default_rng(0).uniform(-2.0, 2.0, size=(400, 2))
    np.testing.assert_allclose(T.inverse(T.apply(points)), points, atol=1e-12)
    assert not maps.Affine(np.diag([1.0, 1e-3]), np.zeros(2)).sane
    following = 0.5 * points + np.sin(points)
    model = OneStep.fit(points, following, np.random.default_rng(0))
    assert np.abs(model.mean(points) - following).max() < 0.1
    unit = np.array([2.0, 5.0])
    np.testing.assert_allclose(T.in_units(unit).apply(points * unit), T.apply(points) * unit)
    assert "M = [1.3, 0.2; 0.2, 0.9]" in maps.describe_map("affine", T, ("a", "b"))


def test_slopes_of_a_step_are_those_of_differences() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(-2.0, 2.0, size=(300, 2)) * [1.0, 3.0]
    model = OneStep.fit(points, 0.5 * points + np.sin(points), rng)
    mean, slope = model.mean_and_slope(points)
    nudges = 1e-5 * np.eye(2)
    found = np.stack([(model.mean(points + e) - model.mean(points - e)) / 2e-5 for e in nudges], axis=2)
    np.testing.assert_allclose(slope, found, atol=1e-7)
    np.testing.assert_array_equal(mean, model.mean(points))


def test_moments_are_all_that_a_fit_needs() -> None:
    """Halves put together give the fit of all, and what it leaves, as computed from the residuals themselves."""
    rng = np.random.default_rng(1)
    points = rng.normal(size=(400, 2))
    following = np.tanh(points) + 0.1 * rng.normal(size=points.shape)
    model = OneStep.fit(points, following, rng)
    both = model.moments(points[:150], following[:150]).plus(model.moments(points[150:], following[150:]))
    again = model.solved(both)
    np.testing.assert_allclose(again.mean(points), model.mean(points), atol=1e-6)
    left = (following - again.mean(points)) / again.scale
    np.testing.assert_allclose(both.left(again.weights), left.T @ left, rtol=1e-6, atol=1e-8)


def test_long_recordings_are_looked_at_in_part() -> None:
    rng = np.random.default_rng(0)
    long = Trajectories.from_arrays(rng.normal(size=(600, 51, 1)))
    part = some_episodes(long, 20_000, rng)
    assert part.n_transitions == 20_000
    assert some_episodes(part, 20_000, rng) is part
    assert some_episodes(long, 20, rng, least=3).n_episodes == 3


def test_phases_on_a_circle_have_known_distances() -> None:
    """Equal ones are at distance 0; other frequencies at most as far apart as common noise leaves them."""
    assert further.circle_truth((0.5, 0.1), (0.5, 0.1), n=24, atoms=8) == pytest.approx(0.0, abs=1e-9)
    apart = 2.0 * np.abs(np.sin(0.03 * (np.arange(400) - 9)))  # nine steps ahead at first
    bound = float((0.05 * 0.95 ** np.arange(400)) @ apart)
    assert 0.2 < further.circle_truth((0.5, 0.1), (0.56, 0.1), n=48, atoms=16) < 1.1 * bound


@pytest.mark.statistical
@pytest.mark.parametrize("name", further.DIFFERENT)
def test_no_map_is_found_where_there_is_none(name: str) -> None:
    for n in (100, 25):
        rng = np.random.default_rng([n, 3])
        x, y = (process.record(n, 40, rng) for process in further.DIFFERENT[name])
        cells = somcot.discretise(x, y, scale=1.0, n_cells=12, rng=0)
        found = conjugacy.compare(x, y, "euclidean", discount=G, cells=cells, rng=rng)
        assert found.verdict != "conjugate"
