"""Linear models of episodes dealt anew: a second opinion on "the same process?"."""

import numpy as np
import pytest

from somcot import distance
from somcot.continuous import distance as answer
from somcot.continuous import linear_twin as dealt
from somcot.gaussian import fit
from somcot.trajectories import Trajectories
from tests.continuous.systems import SYSTEMS
from tests.continuous.unseen_systems import UNSEEN


def test_models_from_sums_are_the_fitted_ones() -> None:
    x, y = SYSTEMS["linear 3"].record(20, 15, np.random.default_rng(0))
    points = np.concatenate([x.points, y.points])
    unit = [data.mapped(lambda p: (p - points.mean(axis=0)) / points.std(axis=0)) for data in (x, y)]
    table = dealt._Table.of(x, y)
    for chosen, data in zip((table.first, ~table.first), unit, strict=True):
        found, expected = table._model(chosen), fit(data)
        for name in ("A", "offset", "S", "start_mean", "start_covariance"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-10)


def test_what_never_moves_in_a_coordinate_or_has_no_distance_is_not_told_apart() -> None:
    rng = np.random.default_rng(1)
    still = [Trajectories.from_arrays(rng.normal(size=(20, 6, 2)) * [1.0, 0.0]) for _ in range(2)]
    assert not dealt.linear_models_differ(still[0], still[1], 0.9, rng)
    grows = Trajectories.from_arrays(list(1.5 ** np.arange(10.0) * rng.normal(size=(20, 1))))
    assert not dealt.linear_models_differ(grows, grows.mapped(lambda p: p + 1.0), 0.9, rng)


@pytest.mark.parametrize("n", [pytest.param(40), pytest.param(400, marks=pytest.mark.statistical)])
def test_level(n: int) -> None:
    """At most 5 % of pairs of recordings of one bent process, up to three standard deviations of chance."""
    process = UNSEEN["regimes, same (2-D)"].x
    rng = np.random.default_rng(3)
    rejected = sum(
        dealt.linear_models_differ(process.record(15, 10, rng), process.record(15, 10, rng), 0.95, rng)
        for _ in range(n)
    )
    assert rejected <= 0.05 * n + 3.0 * np.sqrt(0.05 * 0.95 * n)


def test_a_shift_that_cells_do_not_see_is_not_taken_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three dimensions, cells in those that tell most about the next state: a shift in the others stays inside them."""
    system = UNSEEN["network, shifted (3-D)"]
    x, y = system.record(100, 40, np.random.default_rng(2))

    def value() -> float:
        return distance(x, y, discount=0.95, scale=1.0, threads=1).distance

    assert value() == pytest.approx(system.truth, abs=0.06)
    monkeypatch.setattr(answer, "linear_models_differ", lambda *args: False)
    assert value() < 0.5 * system.truth
