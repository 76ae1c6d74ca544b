"""The examples of learning with the distance run, and show what their page says, in small."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[1] / "examples" / "loss"


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / name))


@pytest.mark.parametrize(("name", "needs"), [("torch_loss", "torch"), ("jax_sensitivity", "jax")])
def test_what_the_gallery_shows_as_recorded_is_printed(name: str, needs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The site is built without these packages, and shows a file."""
    pytest.importorskip(needs)
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.setattr(sys, "argv", [name])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(EXAMPLES / f"{name}.py"))
    assert printed.getvalue() == (EXAMPLES.parents[1] / "docs/recorded" / f"{name}.txt").read_text()


def test_the_distance_is_not_misled_by_what_nobody_looks_at() -> None:
    found = example("wrong_simulator.py")["run"](n_sets=1, n_episodes=100, steps=40)
    blind = found["wrong where\nnobody looks"]
    (theta, error), (misled, larger) = blind["distance"][0], blind["maximum likelihood"][0]
    assert abs(theta - 0.6) < 0.05
    assert abs(misled - 0.4) < 0.05
    assert error < 0.3 * larger


def test_models_of_few_states_are_made_in_four_ways(tmp_path: Path) -> None:
    script = example("few_states.py")
    found = script["run"](sizes=(3,), n_worlds=1, steps=15)
    for pairs in found[3].values():
        assert np.isfinite(pairs).all()
    script["draw"](found, str(tmp_path / "few.png"))


def test_losses_of_world_models_are_least_where_they_should_be() -> None:
    script = example("world_models.py")
    one = script["world"](0)
    P, reward, chosen = torch.tensor(one.counted), torch.tensor(one.reward), torch.tensor(one.learn)
    V = torch.tensor(script["values"](one.counted, one.reward, one.learn))
    assert script["by_values"](P, V, 0.0)(P, 3).item() == pytest.approx(0, abs=1e-12)
    assert script["by_distance"](P, reward, chosen)(P, 3).item() == pytest.approx(0, abs=1e-9)
    # One draw from the model adds its variance; MuZero's also has that of the recorded step.
    drawn = script["by_values"](P, V, 1.0)(P, 3).item()
    assert drawn > 0.01
    assert script["muzero"](P, reward, chosen, V)(P, 3).item() == pytest.approx(2 * drawn)


@pytest.mark.slow
def test_world_models_are_fitted_with_five_losses(tmp_path: Path) -> None:
    script = example("world_models.py")
    best, errors, counted = script["run"](n_worlds=2, n_tuning=1, steps=2)
    assert set(best) == set(errors) == set(script["LOSSES"])
    assert all((found > counted).all() for found in errors.values())
    script["draw"](errors, str(tmp_path / "models.png"))


def test_labels_of_the_metric_are_the_states() -> None:
    script = example("labels_from_the_metric.py")
    world = script["World"](0)
    assert script["adjusted_rand"](script["metric_labels"](world), world.truth) > 0.9
    assert script["adjusted_rand"](np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0])) == 1.0
