"""Markov state models: connected sets as deeptime finds them, posteriors and lag times against one call each."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import somcot
from somcot import Samples, msm
from somcot.plumbing.errors import DataWarning
from somcot.readers import from_dtrajs, from_model
from tests.notes import noted, notes_in

RNG = np.random.default_rng(5)
WALKS = [RNG.integers(0, 4, 600) for _ in range(2)]
# States 4 and 5 only lead in, 6 and 7 only out: two sets of their own.
TRAJECTORIES = [np.concatenate([[4, 5, 4, 5], WALKS[0], [6, 7, 6]]), np.concatenate([[5], WALKS[1], [6]])]


def test_the_connected_set_is_that_of_deeptime() -> None:
    markov = pytest.importorskip("deeptime.markov")
    for lag in (1, 3):
        counted = markov.TransitionCountEstimator(lagtime=lag, count_mode="sliding").fit_fetch(TRAJECTORIES)
        largest = counted.submodel_largest()
        with noted("outside-connected"):
            samples = from_dtrajs(TRAJECTORIES, lag=lag, sliding=True, connected=True)
        assert list(samples.states) == largest.state_symbols.tolist() == [0, 1, 2, 3]
        np.testing.assert_array_equal(samples.counts(), largest.count_matrix)


def test_warnings_of_a_sweep_name_their_lag() -> None:
    """Of a process of order 2: clear at lag 1, gone at lag 41."""
    rng = np.random.default_rng(3)
    sides = []
    for _ in range(2):
        walk = [0, 1]
        for stay in rng.random(20_000) < 0.8:
            walk.append(walk[-2] if stay else int(rng.integers(3)))
        sides.append(np.array(walk))
    with pytest.warns(DataWarning) as found:
        msm.lag_sweep(sides[0], sides[1], [1, 41], discount=0.99)
    memory = [note.about for note in notes_in(found) if note.code == "memory-episodes"]
    assert memory
    assert all(about.startswith("lag 1: ") for about in memory)
    assert {each.filename for each in found} == {__file__}


def test_a_sweep_gives_each_note_once_with_its_lags() -> None:
    sides = [np.asarray(somcot.random_walk(12, p).sample(1, 900, rng=k).now) for k, p in enumerate((0.5, 0.6))]
    with pytest.warns(DataWarning) as found:
        msm.lag_sweep(sides[0], sides[1], [1, 2, 5], discount=0.99)
    notes = notes_in(found)
    kinds = [(note.code, note.about.rpartition(": ")[2]) for note in notes if note.code == "few-visits"]
    assert len(kinds) == len(set(kinds)) > 0
    assert any(note.about.startswith("lag 1 (also at 2, 5)") for note in notes)


def test_numbers_of_two_clusterings_are_asked_about() -> None:
    sides = [RNG.integers(0, n, 400) for n in (3, 5)]
    with noted("numbers-as-states", n_x=3, n_y=5):
        msm.lag_sweep(sides[0], sides[1], [1], discount=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        msm.lag_sweep(sides[0], sides[1], [1], somcot.costs.absolute(range(3), range(5)), discount=0.9)


@pytest.mark.filterwarnings("ignore:the distance is not distinguishable")
def test_what_cannot_be_compared_gives_a_note() -> None:
    cost = somcot.costs.absolute(range(3), range(3))
    walk = RNG.integers(0, 3, 4000)
    fast, slow = (from_dtrajs(walk, lag=lag, initial="stationary") for lag in (1, 2))
    with noted("different-lags", x=1, y=2):
        somcot.distance(fast, slow, cost, discount=0.9)
    with noted("different-lags", x=1, y=2):
        somcot.same_process([fast, fast, slow], cost=cost, discount=0.9)
    other = from_dtrajs(walk % 2, lag=1, initial="stationary")
    with noted("numbers-as-states", n_x=3, n_y=2):
        somcot.distance(fast, other, discount=0.9)


def test_objects_of_deeptime_get_a_hint() -> None:
    with pytest.raises(TypeError, match="coarse_grained_stationary_probability"):
        from_model(SimpleNamespace(coarse_grained_transition_matrix=np.eye(2)))
    with pytest.raises(TypeError, match="posterior_distances"):
        from_model(SimpleNamespace(prior=0, samples=[]))
    with pytest.raises(TypeError, match="dtrajs: found SimpleNamespace"):
        from_dtrajs(SimpleNamespace(count_matrix=np.eye(2)))
    with pytest.raises(TypeError, match="from_dtrajs"):
        somcot.distance([np.array([0, 1])], [np.array([0, 1])], discount=0.9)  # type: ignore[arg-type]


def test_episodes_stay_in_one_piece() -> None:
    with noted("outside-connected", share="4 of 8 states and 9 of 1,207"):
        samples = from_dtrajs(TRAJECTORIES, connected=True)
    assert samples.offsets is not None
    assert np.diff(samples.offsets).tolist() == [599, 599]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_dtrajs(WALKS, connected=True).n_transitions == 1198
    with pytest.raises(ValueError, match="no recurrent state"):
        Samples.from_trajectories([[1, 2, 3]]).connected()
    with pytest.raises(ValueError, match="independent transitions"):
        Samples.from_transitions([0, 1], [1, 0], discount=0.9).connected()


@pytest.mark.filterwarnings("ignore:cost. states are compared by their numbers")  # both have the same clusters
@pytest.mark.filterwarnings("ignore:x and y. fitted to data")
def test_a_posterior_gives_a_distribution_of_distances() -> None:
    markov = pytest.importorskip("deeptime.markov")
    bayesian = pytest.importorskip("deeptime.markov.msm").BayesianMSM
    posteriors = []
    for k, walk in enumerate(WALKS):
        counts = markov.TransitionCountEstimator(lagtime=1, count_mode="effective").fit_fetch([walk])
        posteriors.append(bayesian(n_samples=6 + k).fit_fetch(counts))
    found = msm.posterior_distances(*posteriors, discount=0.8)
    wanted = [
        somcot.distance(from_model(a), from_model(b), discount=0.8).distance
        for a, b in zip(posteriors[0].samples, posteriors[1].samples, strict=False)
    ]
    np.testing.assert_array_equal(found.values, wanted)
    assert len(found.values) == 6
    low, high = found.interval
    assert low <= found.mean <= high
    single = msm.posterior_distances(posteriors[0].prior, posteriors[1], discount=0.8)
    assert len(single.values) == 7
    assert "6 draws" in repr(found)


def _posterior(kernel: np.ndarray, n: int, seed: int, n_draws: int = 20) -> list[somcot.MarkovChain]:
    """Draws from the posterior of a chain after n steps."""
    rng = np.random.default_rng(seed)
    counts = somcot.MarkovChain(kernel).sample(1, n, rng=seed).counts() + 0.01
    draws = [np.array([rng.dirichlet(row) for row in counts]) for _ in range(n_draws)]
    return [somcot.MarkovChain(draw).stationary() for draw in draws]


def test_noise_is_about_the_mean_between_posteriors_of_one_process() -> None:
    """Two posteriors of one process are apart, although nothing differs; so are the draws of one side."""
    kernel = np.random.default_rng(1).dirichlet(np.ones(4), size=4)
    known = somcot.MarkovChain(kernel).stationary()
    ratios = {"both": [], "one": []}  # type: dict[str, list[float]]
    for seed in range(8):
        x, y = (_posterior(kernel, n, 2 * seed + k) for k, n in enumerate((400, 1500)))
        for name, side in (("both", y), ("one", known)):
            found = msm.posterior_distances(x, side, discount=0.9)
            assert found.noise is not None
            assert found.interval[0] > 0.0
            ratios[name].append(found.mean / found.noise)
    assert all(0.7 < np.mean(each) < 1.4 for each in ratios.values()), ratios
    # By hand, from disjoint pairs.
    apart = [
        np.mean([somcot.distance(v, w, discount=0.9).distance for v, w in zip(side[::2], side[1::2], strict=True)])
        for side in (x, y)
    ]
    found = msm.posterior_distances(x, y, discount=0.9)
    assert found.noise == pytest.approx(float(np.linalg.norm(apart)), abs=1e-12)
    assert f"noise alone {found.noise:.4g}" in repr(found)
    other = msm.posterior_distances(x, _posterior(np.roll(kernel, 1, axis=0), 1500, 99), discount=0.9)
    assert other.noise is not None
    assert other.mean > 2.0 * other.noise


def test_noise_needs_a_cost_of_equal_states() -> None:
    kernel = np.full((3, 3), 1 / 3)
    x, y = _posterior(kernel, 200, 0, 4), _posterior(kernel, 200, 1, 4)
    walls = np.arange(3.0)
    assert msm.posterior_distances(x, y, somcot.costs.absolute(walls, walls), discount=0.9).noise is not None
    for cost in (somcot.costs.absolute(walls, walls + 1.0), 1.0 - np.eye(3)[[1, 0, 2]]):
        assert msm.posterior_distances(x, y, cost, discount=0.9).noise is None
    single = msm.posterior_distances(x[0], y[0], discount=0.9)
    assert single.noise is None
    assert "noise" not in repr(single)


def test_a_sweep_takes_the_rows_of_its_states_from_a_cost_of_all_numbers() -> None:
    """Cluster 2 of y occurs once, at the beginning: the connected set lacks it."""
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 4, 800), rng.choice([0, 1, 3], 800)
    y[0] = 2
    centers = rng.normal(size=(4, 2))
    cost = somcot.costs.euclidean(centers, centers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = msm.lag_sweep(x, y, [1, 2], cost, discount=0.9)
        for (lag, result), side in zip(found, (y, y), strict=True):
            a, b = (from_dtrajs(s, lag=lag, initial="stationary", connected=True) for s in (x, side))
            assert b.states == (0, 1, 3)
            again = somcot.distance(a, b, cost[:, [0, 1, 3]], discount=0.9**lag, confidence=0.9, rng=0)
            assert result.distance == again.distance
        with pytest.raises(ValueError, match=r"cost: shape is \(4, 3\)"):  # no column for number 3
            msm.lag_sweep(x, np.where(y == 3, 3, 0), [1], cost[:, :3], discount=0.9)


def test_posteriors_that_are_none() -> None:
    with pytest.raises(TypeError, match=r"y: model: found int, expected an object with \.transition_matrix"):
        msm.posterior_distances(somcot.random_walk(2), 3, discount=0.9)
    with pytest.raises(
        TypeError, match=r"x: model: found ndarray, .*; fit BayesianMSM, or pass trajectories to lag_sweep"
    ):
        msm.posterior_distances(np.array([0, 1, 0, 1]), somcot.random_walk(2), discount=0.9)
    with pytest.raises(ValueError, match="x: the posterior has no draws"):
        msm.posterior_distances(SimpleNamespace(samples=[]), somcot.random_walk(2), discount=0.9)


def test_a_lag_sweep_is_one_distance_after_another() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        sweep = msm.lag_sweep(TRAJECTORIES[0], TRAJECTORIES[1], [1, 2], discount=0.9)
        for lag, result in sweep:
            a, b = (from_dtrajs(t, lag=lag, connected=True, initial="stationary") for t in TRAJECTORIES)
            wanted = somcot.distance(a, b, discount=0.9**lag, confidence=0.9, rng=0)
            assert (result.distance, result.confidence_interval) == (wanted.distance, wanted.confidence_interval)
    assert repr(sweep).startswith("lag      1: ")
    with pytest.raises(ValueError, match="lags: found none"):
        msm.lag_sweep(WALKS[0], WALKS[1], [], discount=0.9)
    with pytest.raises(ValueError, match="x: no trajectory is longer than the lag"):
        msm.lag_sweep(WALKS[0], WALKS[1], [900], discount=0.9)


def test_overlapping_steps_are_noted_when_they_are_used() -> None:
    a, b = (from_dtrajs(walk.reshape(20, 30), lag=2, sliding=True) for walk in WALKS)
    for ask, effect in (
        (lambda: somcot.distance(a, b, discount=0.5, confidence=0.9, rng=0), "interval may be too narrow"),
        (lambda: somcot.same_process(a, b, discount=0.5, n_permutations=9), "p-value is too small"),
    ):
        with warnings.catch_warnings(record=True) as recorded:
            warnings.simplefilter("always")
            ask()
        assert any(n.code == "overlapping-steps" and n.values["effect"] == effect for n in notes_in(recorded))


class _Fitted(SimpleNamespace):
    """A model as deeptime makes it, of `n` transitions out of each state."""

    def __init__(self, stay: float, n: int = 50) -> None:
        matrix = np.array([[stay, 1.0 - stay], [0.5, 0.5]])
        super().__init__(transition_matrix=matrix, count_model=SimpleNamespace(count_matrix=n * matrix, lagtime=1))


def test_fitted_models_are_noted_as_known() -> None:
    a, b = from_model(_Fitted(0.9)), from_model(_Fitted(0.8))
    known = somcot.MarkovChain([[0.7, 0.3], [0.4, 0.6]])
    cost = somcot.costs.absolute(range(2), range(2))
    with noted("fitted-model", about="x and y"):
        result = somcot.distance(a, b, cost, discount=0.9)
    assert [note.about for note in notes_in(result.diagnose())] == ["x and y"]
    # A model against a recording: the interval lacks the error of the model.
    with noted("fitted-model", about="x"):
        somcot.distance(a, known.sample(30, 20, rng=0), cost, discount=0.9, confidence=0.9)
    with noted("fitted-model", about="y"):
        somcot.distance(known, b, cost, discount=1)
    with noted("fitted-model"):  # intervals of width 0 are of the models, not of the processes
        result.matches(confidence=0.9)
    assert {note.about for note in notes_in(somcot.distance_matrix([a, b, known], cost, discount=0.9).notes)} == {
        "0", "1"
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made_by_hand = from_model(SimpleNamespace(transition_matrix=np.eye(2), count_model=None, lagtime=1))
        somcot.distance(made_by_hand, known, cost, discount=0.9).matches(confidence=0.9)
        msm.posterior_distances([_Fitted(0.9), _Fitted(0.8)], known, cost, discount=0.9)
        with pytest.warns(DataWarning):  # named states are compared by name, and no graph
            assert {note.code for note in notes_in(_named(a, b).notes)} == {"fitted-model"}


def _named(*models: somcot.MarkovChain) -> somcot.Result:
    a, b = (from_model(SimpleNamespace(transition_matrix=m.transition, lagtime=10), states=range(2)) for m in models)
    return somcot.distance(a, b, discount=0.9)


def test_a_sweep_finds_the_lag_from_which_on_models_hold() -> None:
    fine = somcot.random_walk(9)
    runs = [np.asarray(fine.sample(1, 6000, rng=10 + k).now) for k in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        exact = msm.lag_sweep(runs[0], runs[1], [4, 1], discount=0.99)
        # Lumped states of a walk remember from which side they were entered; after 60 frames this is forgotten.
        lumped = msm.lag_sweep(runs[0] // 3, runs[1] // 3, [1, 2, 60], discount=1, confidence=None)
        single = msm.lag_sweep(runs[0], runs[1], 7, discount=0.99)
    assert (exact.stable_from, lumped.stable_from, single.lags) == (1, 60, (7,))
    assert lumped.pvalues[0] == 2 / 400
    assert "memory (p = 0.005)" in repr(lumped)
    assert "no memory found from lag 60 on" in lumped._repr_html_()
    with pytest.raises(TypeError, match="x: found Samples, which has one lag"):
        msm.lag_sweep(from_dtrajs(runs), runs, [1], discount=0.9)
