"""Integer trajectories, models with a transition matrix, and NumPy files."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import somcot
from somcot.readers import from_dtrajs, from_model, read_arrays, read_vectors
from somcot.samples import Samples
from tests.notes import noted, notes_in


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(-1, 3), min_size=1, max_size=30), min_size=1, max_size=4),
    st.integers(1, 4),
    st.booleans(),
)
def test_counts_are_those_of_a_plain_loop(trajectories: list[list[int]], lag: int, sliding: bool) -> None:
    wanted = np.zeros((4, 4), int)
    for trajectory in trajectories:
        begin = 0
        for t in range(lag, len(trajectory)):
            window = trajectory[t - lag : t + 1]
            if trajectory[t - lag] == -1:
                begin = t - lag + 1
            if -1 in window:
                continue
            since = next((k + 1 for k in range(t, -1, -1) if trajectory[k] == -1), 0)
            if sliding or (t - lag - since) % lag == 0:
                wanted[trajectory[t - lag], trajectory[t]] += 1
        assert begin <= len(trajectory)
    if not wanted.any():
        with pytest.raises(ValueError, match="no trajectory is longer than the lag"):
            from_dtrajs(trajectories, lag=lag, sliding=sliding)
        return
    samples = from_dtrajs(trajectories, lag=lag, sliding=sliding, states=range(4))
    np.testing.assert_array_equal(samples.counts(), wanted)


def test_one_array_a_matrix_and_a_list_are_all_trajectories() -> None:
    for given_ in (np.array([0, 1, 0]), [0, 1, 0], np.array([[0, 1, 0]]), [np.array([0.0, 1.0, 0.0])]):
        assert from_dtrajs(given_).counts().tolist() == [[0, 1], [1, 0]]


def test_labels_for_state_numbers() -> None:
    assert from_dtrajs([0, 2, 0], states=["a", "b", "c"]).states == ("a", "b", "c")
    with pytest.raises(ValueError, match="largest state number is 2"):
        from_dtrajs([0, 2, 0], states=["a", "b"])


def test_a_model_is_a_chain() -> None:
    model = SimpleNamespace(transition_matrix=np.array([[0.5, 0.5], [0.2, 0.8]]))
    assert from_model(model).initial.tolist() == [0.5, 0.5]
    assert from_model(model, initial=1).initial.tolist() == [0.0, 1.0]
    with pytest.raises(TypeError, match=r"expected an object with \.transition_matrix"):
        from_model(object())


def test_deeptime_models() -> None:
    markov = pytest.importorskip("deeptime.markov")
    msm = pytest.importorskip("deeptime.markov.msm")
    rng = np.random.default_rng(0)
    dtrajs = [rng.integers(0, 3, 500) for _ in range(3)]
    model = msm.MaximumLikelihoodMSM(reversible=False).fit_fetch(
        markov.TransitionCountEstimator(1, "sliding").fit_fetch(dtrajs)
    )
    chain = from_model(model)
    np.testing.assert_allclose(chain.transition, from_dtrajs(dtrajs).chain().transition, atol=1e-12)
    np.testing.assert_allclose(chain.initial, model.stationary_distribution)
    cost = somcot.costs.labels(chain.states, chain.states)
    with noted("fitted-model"):
        result = somcot.distance(chain, chain, cost, discount=0.9)
    assert result.distance == pytest.approx(0.0, abs=1e-12)


def test_files_hold_trajectories_or_chains(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.array([[0, 1, 1], [1, 1, -1]]))
    with noted("rows-removed", n=1, cuts=0):
        samples = read_arrays(tmp_path / "rows.npy")
    assert isinstance(samples, Samples)
    assert samples.counts().tolist() == [[0, 1], [0, 2]]
    np.savez_compressed(tmp_path / "runs.npz", a=[0, 1, 0, 1], b=[1, 1, 1])
    lagged = read_arrays(tmp_path / "runs.npz", lag=2)
    assert isinstance(lagged, Samples)
    assert lagged.counts().tolist() == [[1, 0], [0, 1]]
    np.savez(tmp_path / "chain.npz", transition_matrix=[[0.5, 0.5], [0.0, 1.0]], states=["up", "down"], initial=[1, 0])
    chain = read_arrays(tmp_path / "chain.npz")
    assert isinstance(chain, somcot.MarkovChain)
    assert chain.states == ("up", "down")
    np.save(tmp_path / "fortran.npy", np.asfortranarray([[0.1, 0.9], [0.4, 0.6]]))
    turned = read_arrays(tmp_path / "fortran.npy")
    assert isinstance(turned, somcot.MarkovChain)
    np.testing.assert_allclose(turned.transition, [[0.1, 0.9], [0.4, 0.6]])


def test_sliding_steps_are_remembered_and_warned_of() -> None:
    frames = np.random.default_rng(0).integers(3, size=2000)
    cost = somcot.costs.labels(range(3), range(3))
    for sliding, overlap in ((True, 5), (False, 1)):
        a, b = (from_dtrajs([part], lag=5, sliding=sliding) for part in (frames[:1000], frames[1000:]))
        assert a.overlap == a.take([0]).overlap == a.merge(b).overlap == overlap
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            somcot.distance(a, b, cost, discount=0.5, confidence=0.9)
        assert any((n.code, n.about) == ("overlapping-steps", "x") for n in notes_in(caught)) is sliding
    assert from_dtrajs([frames], sliding=True).overlap == 1


def test_a_model_starts_as_its_page_says() -> None:
    """In its stationary distribution, or else uniformly; on request in the long run, which it need not know."""
    model = SimpleNamespace(transition_matrix=np.array([[0.9, 0.1], [0.3, 0.7]]))
    assert from_model(model).initial.tolist() == [0.5, 0.5]
    np.testing.assert_allclose(from_model(model, initial="stationary").initial, [0.75, 0.25], rtol=1e-12)
    model.stationary_distribution = np.array([0.75, 0.25])
    assert from_model(model).initial.tolist() == [0.75, 0.25]
    page = (Path(__file__).parents[2] / "docs" / "readers.md").read_text(encoding="utf-8")
    assert "starts in its `.stationary_distribution`, or else uniformly" in page


def test_a_lag_does_not_apply_to_a_chain(tmp_path: Path) -> None:
    np.save(tmp_path / "k.npy", np.array([[0.5, 0.5], [0.2, 0.8]]))
    with noted("lag-not-applicable"):
        read_arrays(tmp_path / "k.npy", lag=3)


def test_frames_without_a_state_are_counted(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", a=[-1, 0, 1, -1, -1, 1, 0, -1], b=[0, 1, 0], c=[-1, -1])
    with noted("rows-removed", about=str(tmp_path / "d.npz"), n=6, cuts=1):
        found = read_arrays(tmp_path / "d.npz")
    assert isinstance(found, Samples)
    assert found.n_episodes == 3
    gap = float("nan")
    np.save(tmp_path / "v.npy", [[[0.0, 1.0], [1.0, 2.0], [gap, 3.0], [3.0, 4.0], [4.0, 5.0], [gap, gap]]])
    with noted("rows-removed", n=2, cuts=1):
        assert read_vectors(tmp_path / "v.npy", missing="cut").n_episodes == 2
    with pytest.raises(ValueError, match="NaN"):
        read_vectors(tmp_path / "v.npy")
