"""Curved models, for an approximate value where nothing vouches for one."""

import numpy as np
import pytest

from somcot import Trajectories, discretise, distance
from somcot.continuous import conjugacy
from somcot.continuous import onestep_models as curved
from somcot.continuous.linear_twin import CellProblem
from tests.continuous.further_systems import circle_truth
from tests.continuous.systems import SYSTEMS
from tests.continuous.without import phase_truth


def _question(name: str, n: int, seed: int) -> CellProblem:
    system = SYSTEMS[name]
    x, y = system.record(n, 40, np.random.default_rng(seed))
    return CellProblem(discretise(x, y, n_cells=12, scale=1.0, rng=0), x, y, system.cost, 0.95, 0)


def test_an_oscillator_is_bounded_far_below_what_cells_say() -> None:
    question = _question("van der Pol, shifted", 100, 0)
    found = curved.upper(question, np.random.default_rng(0))
    assert 0.42 < found < 0.75 < question.raw()


def test_models_move_as_the_data_do() -> None:
    """Drawn recordings have the shape of the given one and its spread; far from the data no model is believed."""
    rng = np.random.default_rng(2)
    data = SYSTEMS["van der Pol, shifted"].x.record(60, 30, rng)
    uneven = Trajectories.from_arrays([data.episodes[0][:5], *data.episodes[1:]])
    model = curved.Curved.of(uneven, rng)
    drawn = model.drawn(uneven, rng)
    np.testing.assert_array_equal(drawn.boundaries, uneven.boundaries)
    np.testing.assert_allclose(drawn.points.std(axis=0), uneven.points.std(axis=0), rtol=0.15)
    far = model.after(np.array([[50.0, 50.0]]), np.zeros((1, 2)))
    assert np.abs(far).max() < np.abs(data.points).max() + 2.0


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
def test_without_a_map_the_smaller_of_both_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conjugacy, "_unable", lambda x, y: "not now")
    x, y = SYSTEMS["van der Pol, shifted"].record(60, 40, np.random.default_rng(5))
    found = distance(x, y, discount=0.95, confidence=0.9, scale=1.0, n_cells=12, threads=1)
    assert found.continuous is not None
    assert found.continuous.route == "approximate"
    assert found.confidence_interval is None
    assert found.distance == found.continuous.curved
    assert found.plugin is not None
    assert found.distance < 0.8 * found.plugin
    assert "curved models: about" in str(found)


def test_where_there_can_be_none() -> None:
    question = _question("rotation", 60, 0)
    assert curved.possible(question)
    assert not curved.possible(question._replace(cost=lambda a, b: np.zeros((len(a), len(b)))))
    assert not curved.possible(question._replace(x=question.x.take(np.arange(4))))
    ended = Trajectories.from_arrays(question.x.episodes, terminated=True)
    assert not curved.possible(question._replace(x=ended))


def test_truths_of_phases() -> None:
    """The grid against value iteration on the difference of phases, which knows nothing of it."""
    x, y = (0.5, 0.0, 0.3), (0.6, 0.0, 0.3)
    found = phase_truth(x, y, 48)
    assert found == pytest.approx(circle_truth((0.5, 0.3), (0.6, 0.3), n=48, atoms=16), rel=0.1)
    assert phase_truth(x, x, 24) == pytest.approx(0.0, abs=1e-6)
