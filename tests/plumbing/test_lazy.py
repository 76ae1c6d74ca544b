"""Fields computed when first read."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from unittest.mock import Mock

import numpy as np
import pytest

import somcot
from somcot.plumbing.linear_systems import Kernel, discounted_occupancy
from somcot.solvers import exact, saddle
from somcot.solvers import policy_iteration as recovery
from tests.instances import Floats, walks


def solved() -> somcot.Result:
    return somcot.distance(*walks(6, 0.7), discount=0.9)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An entry for each coupling that is computed."""
    calls: list[int] = []

    def counted(kernel: Kernel, start: Floats, discount: float) -> Floats:
        calls.append(1)
        return discounted_occupancy(kernel, start, discount)

    monkeypatch.setattr(recovery, "discounted_occupancy", counted)
    return calls


def test_a_distance_does_not_wait_for_its_coupling(calls: list[int]) -> None:
    result = solved()
    assert calls == []
    assert result.state_law.sum() == pytest.approx(1.0, abs=1e-12)
    _ = result.plan, result.encoder, result.decoder, result.residuals, result.gradient
    assert calls == [1]


def test_replacing_a_field_computes_nothing_and_copies_share_what_is_computed(calls: list[int]) -> None:
    result = solved()
    noted = replace(result, notes=("odd",))
    other = replace(noted, method="other", gradient=None)
    assert calls == []
    assert (result.notes, noted.notes, other.notes) == ((), ("odd",), ("odd",))
    assert other.encoder is noted.encoder is result.encoder
    assert other.plan is result.plan
    assert result.gradient is noted.gradient is not None
    assert other.gradient is None
    assert calls == [1]


@pytest.mark.filterwarnings("ignore::somcot.plumbing.errors.DataWarning")
def test_an_estimate_shares_its_maps_with_its_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, cost = walks(5, 0.5)
    rounds = Mock(wraps=saddle.rounds)
    monkeypatch.setattr(saddle, "rounds", rounds)
    result = somcot.distance(x.sample(50, 20, rng=1), y.sample(50, 20, rng=2), cost, discount=0.95)
    copy = replace(result, notes=(), confidence_interval=None)
    assert rounds.call_count == 0
    assert copy.maps is result.maps
    assert rounds.call_count == 1


def test_copies_of_a_run_share_its_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    solves = Mock(wraps=exact.solve)
    monkeypatch.setattr(exact, "solve", solves)
    result = somcot.distance(*walks(3, 0.7), discount=0.9, method="somcot", n_steps=500)
    copy = replace(result, method="other", notes=())
    assert copy.notes == ()
    assert solves.call_count == 1  # every run is compared with the chains it counted, once
    assert result.notes
    assert copy.counted == result.counted
    assert copy.bounds is result.bounds
    assert solves.call_count == 1


def test_what_a_result_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Result: has no \['colour'\]"):
        replace(solved(), colour="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Result: without \['bounds', 'maps'"):
        somcot.Result(distance=1.0)  # type: ignore[call-arg]


def test_the_distance_is_the_cost_of_the_coupling_that_comes_later() -> None:
    cost = walks(6, 0.7)[2]
    result = solved()
    assert float((result.state_law * cost).sum()) == pytest.approx(result.distance, abs=1e-13)


def test_results_are_frozen_replaced_and_pickled_with_what_waits() -> None:
    result = solved()
    with pytest.raises(FrozenInstanceError):
        result.plan = None  # type: ignore[misc]
    sent = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(sent.state_law, result.state_law)
    assert sent.gradient is not None
    noted = replace(solved(), notes=("odd",))
    sent = pickle.loads(pickle.dumps(noted))
    assert sent.notes == ("odd",)
    np.testing.assert_array_equal(sent.state_law, result.state_law)
    np.testing.assert_array_equal(replace(result, method="other").encoder, result.encoder)
