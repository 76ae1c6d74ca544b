"""Fields computed when first read."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import somcot
from somcot.plumbing.linear_systems import Kernel, discounted_occupancy
from somcot.solvers import policy_iteration as recovery
from tests.instances import Floats, walks


def solved() -> somcot.Result:
    return somcot.distance(*walks(6, 0.7), discount=0.9)


def test_a_distance_does_not_wait_for_its_coupling(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(kernel: Kernel, start: Floats, discount: float) -> Floats:
        calls.append(1)
        return discounted_occupancy(kernel, start, discount)

    monkeypatch.setattr(recovery, "discounted_occupancy", counted)
    result = solved()
    assert calls == []
    assert result.state_law.sum() == pytest.approx(1.0, abs=1e-12)
    _ = result.plan, result.encoder, result.decoder, result.residuals, result.gradient
    assert calls == [1]


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
    np.testing.assert_array_equal(replace(result, method="other").encoder, result.encoder)
