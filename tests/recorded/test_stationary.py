"""Processes that start in their long-run law: the law, its derivative, its error and what it takes to have one."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import somcot
from somcot import MarkovChain, Samples, costs
from somcot.inference.model import fit
from somcot.plumbing.linear_systems import Kernel
from somcot.readers import from_dtrajs, from_table
from somcot.readers.array_files import read_arrays
from somcot.recorded.stationary import law_of, stationary_distribution
from tests.instances import Floats, random_chain
from tests.notes import noted


def quiet(call: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **kwargs)


def eigenvector(kernel: Floats) -> Floats:
    """The long-run law by an independent way: null space of the balance equations."""
    n = len(kernel)
    system = np.vstack([kernel.T - np.eye(n), np.ones(n)])
    law: Floats = np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]
    return law


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_long_run_law_solves_the_balance_equations(seed: int, n: int) -> None:
    kernel = np.asarray(random_chain(np.random.default_rng(seed), n, "dense").transition)
    np.testing.assert_allclose(stationary_distribution(MarkovChain(kernel)), eigenvector(kernel), atol=1e-12)


def test_slow_and_periodic_chains() -> None:
    slow = np.array([[1 - 1e-5, 1e-5], [3e-5, 1 - 3e-5]])
    np.testing.assert_allclose(stationary_distribution(MarkovChain(slow)), [0.75, 0.25], atol=1e-6)
    cycle = np.roll(np.eye(5), 1, axis=1)
    np.testing.assert_allclose(stationary_distribution(MarkovChain(cycle)), 0.2, atol=1e-9)
    apart = Kernel.from_matrix(np.array([[1.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_allclose(law_of(apart, np.array([0.3, 0.7])), [0.3, 0.7])


def stationary(chain: MarkovChain, n_episodes: int, n_steps: int, seed: int) -> Samples:
    return chain.sample(n_episodes, n_steps, rng=seed).with_start("stationary")


def exact(x: MarkovChain, y: MarkovChain, cost: Floats, discount: float) -> float:
    """The distance of two chains in their long-run laws."""
    one, other = (MarkovChain(c.transition, stationary_distribution(c)) for c in (x, y))
    return somcot.distance(one, other, cost, discount=discount).distance


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_the_gradient_knows_that_the_start_follows_from_the_rows(seed: int) -> None:
    """Against finite differences of the distance of chains that start in their long-run law."""
    rng = np.random.default_rng(seed)
    chain, other = (MarkovChain(rng.dirichlet(np.ones(4), size=4)) for _ in range(2))
    cost = rng.random((4, 4))
    data = quiet(stationary, chain, 40, 30, seed)
    found = quiet(somcot.distance, data, other, cost, discount=0.7, method="plugin")
    kernel = np.asarray(data.chain(check=False).transition)
    direction = np.where(kernel > 0, rng.normal(size=(4, 4)), 0.0) * kernel
    direction -= kernel * direction.sum(axis=1, keepdims=True)

    def at(step: float) -> float:
        moved = MarkovChain(kernel + step * direction, normalize=True)
        return somcot.distance(
            MarkovChain(moved.transition, stationary_distribution(moved)), other, cost, discount=0.7
        ).distance

    step = 1e-6
    expected = (at(step) - at(-step)) / (2 * step)
    assert found.gradient is not None
    assert (np.asarray(found.gradient.transition_x) * direction).sum() == pytest.approx(expected, abs=1e-4)
    assert found.distance == pytest.approx(at(0.0), abs=1e-9)


def test_dead_ends_are_left_out_of_the_law_and_of_its_derivative() -> None:
    """The last frame of a trajectory may be the only visit to a state: it does not swallow the long run."""
    data = Samples.from_trajectories([[0, 1, 0, 1, 1, 0, 1, 2], [1, 0, 0, 1, 0, 1]]).with_start("stationary")
    chain = quiet(data.chain)
    assert chain.initial[2] == 0.0
    inner = np.asarray(chain.transition)[:2, :2]
    np.testing.assert_allclose(chain.initial[:2], eigenvector(inner / inner.sum(axis=1, keepdims=True)), atol=1e-9)
    model = quiet(fit, data)
    g = np.array([1.0, -2.0, 0.0])
    from somcot.recorded.stationary import slopes, with_long_run_start

    found = slopes(model.chain.support, model.chain.initial, g)
    support, step = model.chain.support, 1e-6
    for k in range(len(found)):
        bumped = support.probabilities.copy()
        bumped[k] += step
        row = support.rows == support.rows[k]
        bumped[row] /= bumped[row].sum()
        law = with_long_run_start(support._replace(probabilities=bumped)).probabilities[support.indptr[-2] :]
        start = support.indices[support.indptr[-2] :]
        expected = (law - support.probabilities[support.indptr[-2] :]) @ g[start] / step
        assert found[k] == pytest.approx(expected, abs=1e-4)


def coverage(seeds: int, n_episodes: int = 20, n_steps: int = 100) -> tuple[float, float]:
    """Of 90 % intervals for long-run starts, recordings begun in one corner; and error over spread."""
    rng = np.random.default_rng(0)
    x, y = (MarkovChain(rng.dirichlet(np.full(5, 0.6), size=5)) for _ in range(2))
    cost = costs.absolute(np.arange(5.0), np.arange(5.0))
    true = exact(x, y, cost, 0.8)
    runs = [
        quiet(somcot.distance, stationary(x, n_episodes, n_steps, 2 * s), stationary(y, n_episodes, n_steps, 2 * s + 1),
              cost, discount=0.8, confidence=0.9, threads=1)
        for s in range(seeds)
    ]  # fmt: skip
    inside = [r.confidence_interval.low <= true <= r.confidence_interval.high for r in runs]
    errors = np.mean([r.estimate.standard_error for r in runs]) / np.std([r.plugin for r in runs])
    return float(np.mean(inside)), float(errors)


def test_intervals_of_long_run_starts() -> None:
    covered, ratio = coverage(40)
    assert covered >= 0.75
    assert ratio == pytest.approx(1.0, abs=0.35)


def test_where_recordings_begin_does_not_matter() -> None:
    """Trajectories put into two different wells give the same distance; counted first frames do not."""
    kernel = np.array([[0.95, 0.05, 0.0], [0.1, 0.8, 0.1], [0.0, 0.05, 0.95]])
    left, right = MarkovChain(kernel, 0).sample(30, 300, rng=0), MarkovChain(kernel, 2).sample(30, 300, rng=1)
    cost = costs.labels(range(3), range(3))
    counted = quiet(somcot.distance, left, right, cost, discount=0.9, confidence=0.9)
    long_run = quiet(
        somcot.distance, left.with_start("stationary"), right.with_start("stationary"), cost, discount=0.9,
        confidence=0.9,
    )  # fmt: skip
    assert counted.distance > 0.4
    assert long_run.distance < 0.1
    assert long_run.confidence_interval.low == 0.0


def test_more_than_one_long_run_is_said() -> None:
    two = Samples.from_trajectories([[0, 1, 0, 1, 0, 0], [2, 3, 2]], initial="stationary")
    with noted("stationary-not-unique", n=2):
        chain = two.chain()
    assert chain.initial[2:].tolist() == [0.0, 0.0]
    trap = Samples.from_trajectories([[0, 1] * 30 + [2, 3, 2, 3]], initial="stationary")
    with noted("stationary-rare"):
        trap.chain()


def test_no_long_run_is_refused() -> None:
    with pytest.raises(ValueError, match="initial: the data contain no recurrent state"):
        quiet(Samples.from_trajectories([[0, 1, 2]], initial="stationary").chain)
    with pytest.raises(ValueError, match=r"does not terminate, .*2"):
        Samples.from_trajectories([[0, 1, 0, 2]], terminated=True, initial="stationary")
    with pytest.raises(ValueError, match="'stationary' is for episodes"):
        Samples.from_transitions([0, 1], [1, 0], discount=0.9, initial="stationary")
    assert Samples.from_trajectories([["stationary", "b"]], initial="stationary").initial is not None


def test_readers_take_it(tmp_path: Path) -> None:
    path = [0, 0, 1, 0, 1, 1, 0, 0, 1]
    expected = Samples.from_trajectories([path], initial="stationary").chain().initial
    for found in (
        from_dtrajs([path], initial="stationary"),
        from_table({"state": path}, initial="stationary"),
        Samples.from_transitions(path[:-1], path[1:], initial="stationary"),
    ):
        assert found.stationary
        np.testing.assert_array_equal(found.chain().initial, expected)
    assert from_table({"state": path}, initial=1).chain().initial.tolist() == [0.0, 1.0]
    np.save(tmp_path / "kernel.npy", np.array([[0.9, 0.1], [0.3, 0.7]]))
    known = read_arrays(tmp_path / "kernel.npy", initial="stationary")
    assert isinstance(known, MarkovChain)
    np.testing.assert_allclose(known.initial, [0.75, 0.25])


def test_the_flag_survives_what_is_done_to_recordings() -> None:
    data = somcot.random_walk(4).sample(6, 20, rng=0).with_start("stationary")
    assert data.take([0, 1]).stationary
    assert data.merge(data).stationary
    assert data.resample(0).stationary
    assert not data.with_start(None).stationary
    assert not data.merge(data.with_start(0)).stationary
    assert quiet(data.merge(data).chain).initial.max() < 1.0
    found = quiet(somcot.distance, data, data, np.ones((4, 4)) - np.eye(4), discount=0.9, standard_error="episodes")
    assert found.estimate.standard_error >= 0.0
