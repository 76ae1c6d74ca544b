"""Are two recordings the same process? Permutation tests of whole episodes: starts, places, steps and their scatter."""

from __future__ import annotations

import numpy as np

from somcot.continuous.onestep import OneStep
from somcot.plumbing.arrays import Bools, Floats, Ints
from somcot.trajectories import Trajectories

__all__ = ["episode_tests"]

_PERMUTATIONS = 399
_BLUR = 0.02  # of the size of a move: a difference in every step of a hundredth of that would still be seen
_FEATURES = 40  # bumps that steps and places are tested on
_STEPS = ("now", "following")


def episode_tests(x: Trajectories, y: Trajectories, rng: np.random.Generator) -> dict[str, float]:
    """P-values of four comparisons of episodes, each exact as long as the features do not know the sides."""
    both = [x, y]
    now, following = (np.concatenate([getattr(side, name) for side in both]) for name in _STEPS)
    episode = np.repeat(np.arange(x.n_episodes + y.n_episodes), np.concatenate([s.lengths for s in both]))
    model = OneStep.fit(now, following, rng)
    # A little noise of our own: or else a coordinate that moves by a rule would be tested to its last digit.
    blur = _BLUR * (following - now).std(axis=0) * rng.standard_normal(now.shape)
    e = following - model.mean(now) + blur
    e /= e.std(axis=0) + 1e-12
    H = model.features(now)
    places = H[:, : 1 + x.d + _FEATURES]
    i, j = np.triu_indices(x.d)
    scatter = e[:, i] * e[:, j]
    scatter = scatter - scatter.mean(axis=0)
    starts = np.concatenate([side.starts for side in both])
    centred = (starts - starts.mean(axis=0)) / (starts.std(axis=0) + 1e-12)
    rough = places[:, : 1 + x.d + _FEATURES // 4]
    features = {
        "starts": np.hstack([centred, centred[:, i] * centred[:, j]]),
        "places": _sums(places[:, 1:], episode, mean=True),
        "steps": _sums((places[:, :, None] * e[:, None, :]).reshape(len(e), -1), episode),
        "scatter": _sums((rough[:, :, None] * scatter[:, None, :]).reshape(len(e), -1), episode),
    }
    side = np.arange(len(starts)) < x.n_episodes
    return {name: _permuted(values, side, rng) for name, values in features.items()}


def _sums(values: Floats, episode: Ints, mean: bool = False) -> Floats:
    """Columns added up over each episode, or averaged."""
    edges = np.concatenate([[0], np.flatnonzero(np.diff(episode)) + 1])
    sums = np.add.reduceat(values, edges, axis=0)
    return np.asarray(sums / np.diff(np.append(edges, len(episode)))[:, None] if mean else sums)


def _permuted(values: Floats, side: Bools, rng: np.random.Generator) -> float:
    """Permutation test of equal means, in the principal directions of the episodes' features."""
    centred = values - values.mean(axis=0)
    centred = centred / (centred.std(axis=0) + 1e-9)
    U, s, _ = np.linalg.svd(centred, full_matrices=False)
    # Small directions are noise: they are damped, not divided by.
    white = U * (s / np.sqrt(np.square(s) + 0.1 * np.square(s[0])))
    n = len(side)
    labels = np.stack([side, *(side[rng.permutation(n)] for _ in range(_PERMUTATIONS))]).astype(np.float64)
    labels = labels / labels.sum(axis=1, keepdims=True) - (1 - labels) / (1 - labels).sum(axis=1, keepdims=True)
    statistic = np.square(labels @ white).sum(axis=1)
    return float((statistic >= statistic[0] - 1e-12).mean())
