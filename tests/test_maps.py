"""Encoder and decoder of data: deferred, sharper than those of the exact coupling, and never given up in silence."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import Result, Samples, maps
from somcot.couplings import conditional
from somcot.result import DeferredMaps, Maps, Status
from somcot.solvers import saddle
from somcot.warnings import DataWarning
from tests.instances import Floats, blocks, walks

DISCOUNT = 0.95
pytestmark = pytest.mark.filterwarnings("ignore::somcot.warnings.DataWarning")


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
    iterate = saddle.iterate

    def counted(*args: Any, **options: Any) -> saddle.Iteration:
        calls.append(options)
        return iterate(*args, **options)

    monkeypatch.setattr(saddle, "iterate", counted)
    result = somcot.distance(*samples(0.5, 2_000), discount=DISCOUNT, confidence=0.9)
    assert result.estimate is not None
    assert result.estimate.rho > maps.BLUR
    str(result), result.coupling(), result.diagnose()
    assert not calls
    np.testing.assert_allclose(result.encoder.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(result.decoder.sum(axis=1), 1.0, atol=1e-12)
    result.matches()
    assert len(calls) == 1


def test_are_those_of_the_saddle_point_at_half_the_noise(near_zero: Result) -> None:
    saddle_point = somcot.distance(*samples(0.5, 2_000), discount=DISCOUNT, method="saddle", stop_at_noise=0.5)
    np.testing.assert_array_equal(near_zero.encoder, saddle_point.encoder)
    np.testing.assert_array_equal(near_zero.decoder, saddle_point.decoder)


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
    assert isinstance(found.maps, DeferredMaps)
    np.testing.assert_allclose(found.encoder.sum(axis=1), 1.0, atol=1e-12)
    assert (found.encoder.argmax(axis=1) == np.arange(5)).all()


def test_pickled_and_saved(near_zero: Result, tmp_path: Path) -> None:
    again = pickle.loads(pickle.dumps(near_zero))
    np.testing.assert_array_equal(again.encoder, near_zero.encoder)
    near_zero.save(tmp_path / "result")
    loaded = Result.load(tmp_path / "result")
    assert isinstance(loaded.maps, Maps)
    np.testing.assert_array_equal(loaded.decoder, near_zero.decoder)


@pytest.mark.parametrize("work", [1, 10_000_000])
def test_given_up_with_a_warning(work: int, near_zero: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "WORK", work)
    monkeypatch.setattr(maps, "MAX_STEPS", 500)
    with pytest.warns(DataWarning, match=r"encoder, decoder: blurred .* method='saddle'") as caught:
        encoder = near_zero.encoder
    assert caught[0].filename == __file__
    np.testing.assert_allclose(encoder, conditional(near_zero.state_law), atol=1e-12)


def test_ctrl_c_is_passed_on(near_zero: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    iterate = saddle.iterate

    def interrupted(*args: Any, **options: Any) -> saddle.Iteration:
        return iterate(*args, **options)._replace(status=Status.INTERRUPTED)

    monkeypatch.setattr(saddle, "iterate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _ = near_zero.encoder
