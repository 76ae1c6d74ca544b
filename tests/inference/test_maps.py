"""Encoder and decoder of data: deferred, sharper than those of the exact coupling, and never given up in silence."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import MarkovChain, Result, Samples, costs
from somcot.couplings import conditional
from somcot.inference import estimate as maps
from somcot.plumbing.errors import UnseenStateWarning
from somcot.problem import Problem
from somcot.result import Maps
from somcot.solvers import saddle
from tests.instances import Floats, blocks, walks

DISCOUNT = 0.95
pytestmark = pytest.mark.filterwarnings("ignore::somcot.plumbing.errors.DataWarning")


def samples(theta: float, n: int, seed: int = 0) -> tuple[Samples, Samples, Floats]:
    x, y, cost = blocks(5, 3, theta)
    rng = np.random.default_rng(seed)
    return x.sample_occupancy(n, DISCOUNT, rng=rng), y.sample_occupancy(n, DISCOUNT, rng=rng), cost


@pytest.fixture
def near_zero() -> Result:
    return somcot.distance(*samples(0.5, 2_000), discount=DISCOUNT)


def on_blocks(encoder: Floats) -> float:
    n = len(encoder)
    return float(encoder.reshape(n, n, -1).sum(axis=2)[np.arange(n), np.arange(n)].mean())


def test_solved_once_and_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    rounds = saddle.rounds

    def counted(*args: Any, **options: Any) -> Iterator[saddle.Round]:
        calls.append(options)
        return rounds(*args, **options)

    monkeypatch.setattr(saddle, "rounds", counted)
    result = somcot.distance(*samples(0.5, 2_000), discount=DISCOUNT, confidence=0.9)
    assert result.estimate is not None
    assert result.estimate.rho > maps.BLUR
    str(result), result.coupling(), result.diagnose()
    assert not calls
    np.testing.assert_allclose(result.encoder.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(result.decoder.sum(axis=1), 1.0, atol=1e-12)
    assert result.maps.at_noise_level
    assert result.encoder is result.encoder
    result.matches()
    assert len(calls) == 1


def test_are_those_of_the_saddle_point_at_half_the_noise() -> None:
    data = samples(0.5, 40_000)
    found = somcot.distance(*data, discount=DISCOUNT)
    half, whole = (
        somcot.distance(*data, discount=DISCOUNT, method="saddle", stop_at_noise=share) for share in (0.5, 1.0)
    )
    assert half.n_steps > whole.n_steps  # so the two can be told apart
    np.testing.assert_array_equal(found.encoder, half.encoder)
    np.testing.assert_array_equal(found.decoder, half.decoder)


@pytest.mark.parametrize("seed", range(5))
def test_are_sharper_than_those_of_the_exact_coupling(seed: int) -> None:
    data = samples(0.5, 2_000, seed)
    found = somcot.distance(*data, discount=DISCOUNT)
    exact = somcot.distance(*data, discount=DISCOUNT, method="plugin")
    assert on_blocks(exact.encoder) < 0.9
    assert on_blocks(found.encoder) > on_blocks(exact.encoder) + 0.05


def test_far_from_zero_they_belong_to_the_coupling() -> None:
    found = somcot.distance(*samples(0.8, 20_000), discount=DISCOUNT)
    assert found.estimate is not None
    assert found.estimate.rho < maps.BLUR
    np.testing.assert_allclose(found.encoder, conditional(found.state_law), atol=1e-12)
    np.testing.assert_allclose(found.decoder, conditional(found.state_law.T), atol=1e-12)


def test_one_side_known() -> None:
    x, y, cost = walks(5, 0.5)
    recorded = y.sample(100, 20, rng=np.random.default_rng(1))
    found = somcot.distance(x, recorded, cost, discount=DISCOUNT)
    assert "maps" not in vars(found.details)  # not solved yet
    np.testing.assert_allclose(found.encoder.sum(axis=1), 1.0, atol=1e-12)
    assert (found.encoder.argmax(axis=1) == np.arange(5)).all()


def test_pickled_and_saved(near_zero: Result, tmp_path: Path) -> None:
    again = pickle.loads(pickle.dumps(near_zero))
    np.testing.assert_array_equal(again.encoder, near_zero.encoder)
    near_zero.save(tmp_path / "result")
    loaded = Result.load(tmp_path / "result")
    assert isinstance(loaded.maps, Maps)
    assert loaded.maps.at_noise_level
    np.testing.assert_array_equal(loaded.decoder, near_zero.decoder)


@pytest.mark.parametrize("limit", ["WORK", "TOLERABLE", "memory"])
def test_where_it_cannot_be_done_the_coupling_is_good_enough(
    limit: str, near_zero: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit == "memory":
        monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "1000")
    else:
        monkeypatch.setattr(maps, limit, 0)
    assert not near_zero.maps.at_noise_level
    np.testing.assert_allclose(near_zero.encoder, conditional(near_zero.state_law), atol=1e-12)


@pytest.mark.parametrize("power", [1, 2, 4])
@pytest.mark.parametrize("n_episodes", [10, 100])
def test_costs_that_hardly_tell_neighbours_apart(power: int, n_episodes: int) -> None:
    """Within the noise of the constraints neighbours cost next to nothing; the saddle point alone would mix them."""
    chain = MarkovChain(np.random.default_rng(0).dirichlet(np.ones(10), size=10))
    a, b = (chain.sample(n_episodes, 50, rng=seed) for seed in (1, 2))
    cost = np.abs(np.subtract.outer(np.arange(10.0), np.arange(10.0))) ** power
    found = somcot.distance(a, b, cost, discount=0.9)
    exact = somcot.distance(a, b, cost, discount=0.9, method="plugin")
    assert np.diag(found.encoder).mean() >= np.diag(exact.encoder).mean() - 0.02


def test_states_that_are_never_met_cost_nothing() -> None:
    rng = np.random.default_rng(3)
    steps = rng.choice([-1, 1], size=(2, 100, 30))
    paths = np.clip(np.cumsum(steps, axis=2), 0, 11)

    def ask(n: int) -> tuple[Result, int]:
        x, y = (Samples.from_trajectories(list(side), states=range(n)) for side in paths)
        cost = costs.labels(range(n), range(n))
        cells = saddle.n_cells(Problem(x.chain(), y.chain(), cost, DISCOUNT))
        return somcot.distance(x, y, cost, discount=DISCOUNT), cells

    few, few_cells = ask(12)
    with pytest.warns(UnseenStateWarning):
        many, many_cells = ask(400)
    assert few_cells == many_cells
    assert few.maps.at_noise_level
    np.testing.assert_allclose(many.encoder[:12, :12], few.encoder, atol=1e-9)


def test_maps_that_are_sharp_already_take_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long log compared with another of the same process: there is noise in the distance, but hardly any blur."""
    chain = MarkovChain(np.random.default_rng(0).dirichlet(np.ones(5), size=5))
    x, y = (chain.sample_occupancy(200_000, 0.9, rng=seed) for seed in (1, 2))
    found = somcot.distance(x, y, costs.labels(range(5), range(5)), discount=0.9)
    assert found.estimate is not None
    assert found.estimate.rho > maps.BLUR
    monkeypatch.setattr(saddle, "rounds", None)  # would raise an error
    assert not found.maps.at_noise_level
    np.testing.assert_allclose(found.encoder, np.eye(5), atol=0.05)
    wrong = np.abs(found.encoder - np.eye(5)).sum(axis=1) / 2.0 @ found.state_law.sum(axis=1)
    assert wrong < maps.GAIN


def test_ctrl_c_is_passed_on(near_zero: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **options: Any) -> Iterator[saddle.Round]:
        raise KeyboardInterrupt

    monkeypatch.setattr(saddle, "rounds", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _ = near_zero.encoder
