"""Properties of what is built on single distances: other clocks, quotients, derivatives, matrices, actions, counts."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import strategies as st

import somcot
from somcot import ContinuousChain, Counts, MarkovChain, Problem, Samples, costs, mdp
from somcot.gradients import WarmStart, value_and_gradient
from tests.campaign.draws import DISCOUNTS, Draw, chain, cost, exact, problem, slack
from tests.instances import dense_kernel

MIXING = st.sampled_from((0.05, 0.2, 0.7))


def mixing(draw: Draw, n: int | None = None) -> MarkovChain:
    """A chain that forgets its start, so that its long run is that of one class without periods."""
    drawn, share = chain(draw, n), draw(MIXING)
    return MarkovChain((1 - share) * dense_kernel(drawn) + share / drawn.n_states, drawn.initial, normalize=True)


def long_runs_bound_discounted_ones(draw: Draw) -> None:
    """From long-run starts the distance grows with the discount, up to the long-run average."""
    x, y = mixing(draw).stationary(), mixing(draw).stationary()
    c = cost(draw, x.n_states, y.n_states)
    found = [somcot.distance(x, y, c, discount=g) for g in (0.3, 0.9, 0.999, 1)]
    for low, high in itertools.pairwise(found):
        assert low.distance <= high.distance + slack(c)
    for each in found:
        assert c.min() <= each.bounds.low <= each.distance <= each.bounds.high <= c.max()


def horizons_of_one_are_transport(draw: Draw) -> None:
    x, y, c, _ = problem(draw)
    a, b = (MarkovChain(np.eye(k.n_states), k.initial) for k in (x, y))
    found = somcot.distance(x, y, c, horizon=1)
    assert found.distance == pytest.approx(exact(a, b, c, 0.5).distance, abs=slack(c))


def horizons_mix_to_discounts(draw: Draw) -> None:
    """A coupling for ever does for every horizon: averages over geometric horizons are at most the discounted one."""
    x, y, c, _ = problem(draw)
    g, length = draw(st.sampled_from((0.3, 0.6))), 12
    totals = np.array([t * somcot.distance(x, y, c, horizon=t).distance for t in range(1, length)])
    weights = (1 - g) ** 2 * g ** np.arange(length - 1)
    rest = (1 - g) ** 2 * sum(t * g ** (t - 1) for t in range(length, 400)) * float(c.min())
    assert float(weights @ totals) + rest <= exact(x, y, c, g).distance + slack(c) + 1e-9 * np.abs(c).max()


def totals_are_limits(draw: Draw) -> None:
    """Until both have ended: the total is what the discounted sum approaches."""
    ends = []
    for _ in range(2):
        drawn = dense_kernel(chain(draw, 3)).copy()
        drawn[:2] = 0.6 * drawn[:2]
        drawn[:2, 2] += 0.4
        drawn[2] = [0.0, 0.0, 1.0]
        ends.append(MarkovChain(drawn, draw(st.integers(0, 2)), normalize=True))
    c = np.abs(cost(draw, 3, 3))
    c[2, 2] = 0.0
    x, y = ends
    found = somcot.distance(x, y, c, total=True).distance
    g = 1.0 - 1e-7
    assert found == pytest.approx(exact(x, y, c, g).distance / (1.0 - g), abs=1e-4 * c.max() + 1e-12)


def rates_have_no_unit(draw: Draw) -> None:
    x, y, c, _ = problem(draw)
    rate, unit = draw(st.floats(0.05, 20)), draw(st.sampled_from((1e-3, 0.5, 60.0)))
    speeds = [np.array(draw(st.lists(st.floats(0.1, 5), min_size=k.n_states, max_size=k.n_states))) for k in (x, y)]

    def timed(scale: float) -> list[ContinuousChain]:
        made = []
        for k, speed in zip((x, y), speeds, strict=True):
            table = scale * speed[:, None] * dense_kernel(k)
            np.fill_diagonal(table, 0.0)
            made.append(ContinuousChain(table - np.diag(table.sum(axis=1)), k.initial))
        return made

    (a, b), (slow_a, slow_b) = timed(1.0), timed(unit)
    found = somcot.distance(a, b, c, rate=rate)
    again = somcot.distance(slow_a, slow_b, c, rate=unit * rate)
    assert again.distance == pytest.approx(found.distance, abs=slack(c))
    assert found.bounds.low <= found.distance <= found.bounds.high


def reductions_change_nothing(draw: Draw) -> None:
    x, y, c, g = problem(draw)
    k = draw(st.integers(1, 3))
    split, wide = somcot.block_chain(y, k), np.repeat(c, k, axis=1)
    found, whole = (somcot.distance(x, split, wide, discount=g, reduce=flag) for flag in (True, False))
    assert found.distance == pytest.approx(whole.distance, abs=slack(c))
    assert found.bounds.low <= whole.bounds.high
    assert whole.bounds.low <= found.bounds.high


def quotients_keep_their_bound(draw: Draw) -> None:
    x, y = chain(draw), chain(draw)
    features = [np.array(draw(st.lists(st.integers(0, 3), min_size=k.n_states, max_size=k.n_states))) for k in (x, y)]
    g = draw(st.sampled_from((0.3, 0.9)))
    found = somcot.lump(x, features[0], tolerance=draw(st.sampled_from((0.0, 0.3, 1.0))))
    truth = exact(x, y, costs.absolute(*features), g).distance
    small = exact(found.chain, y, costs.absolute(found.features, features[1]), g).distance
    assert abs(truth - small) <= found.bound(g) + 1e-9


def derivatives_do_not_depend_on_the_start(draw: Draw) -> None:
    """Warm and cold, one at a time and in a Result: the same value, and slopes that bound from above in the cost."""
    x, y, c, g = problem(draw)
    other, warm = cost(draw, *c.shape), WarmStart()
    value_and_gradient(Problem(x, y, other, g), warm)
    value, gradient = value_and_gradient(Problem(x, y, c, g), warm)
    assert value == pytest.approx(exact(x, y, c, g).distance, abs=slack(c))
    assert gradient.cost.sum() == pytest.approx(1.0, abs=1e-9)
    tangent = value + float((gradient.cost * (other - c)).sum())
    assert exact(x, y, other, g).distance <= tangent + slack(c) + slack(other)


def matrices_hold_single_distances(draw: Draw) -> None:
    n = draw(st.integers(1, 4))
    chains, g = [chain(draw, n) for _ in range(3)], draw(st.sampled_from(DISCOUNTS))
    c = cost(draw, n, n)
    c = c if draw(st.booleans()) else c + c.T
    found = somcot.distance_matrix(chains, c, discount=g, threads=draw(st.sampled_from((1, 2))))
    for i, x in enumerate(chains):
        for j, y in enumerate(chains):
            assert found.values[i, j] == pytest.approx(exact(x, y, c, g).distance, abs=slack(c))


def matrices_of_data_hold_their_values(draw: Draw) -> None:
    n = draw(st.integers(2, 4))
    data = [chain(draw, n).sample(draw(st.integers(2, 5)), 6, rng=draw(st.integers(0, 99))) for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = somcot.distance_matrix(data, discount=0.9, confidence=0.9)
    assert (found.low <= found.values).all()
    assert (found.values <= found.high).all()
    assert (found.values == found.values.T).all()
    assert np.diag(found.values).tolist() == [0.0] * 3
    for i, j in itertools.combinations(range(3), 2):
        x, y = rows_of_both(data[i], data[j])
        assert found.values[i, j] <= exact(x, y, costs.labels(x.states, y.states), 0.9).distance + 1e-6


def rows_of_both(x: Samples, y: Samples) -> list[MarkovChain]:
    """The chains that an estimate corrects: rows that one recording never left are those of the other."""
    counts = [np.array(side.counts(), dtype=float) for side in (x, y)]
    both = counts[0] + counts[1]
    both[both.sum(axis=1) == 0.0] = np.eye(len(both))[both.sum(axis=1) == 0.0]
    filled = [np.where(own.sum(axis=1, keepdims=True) > 0.0, own, both) for own in counts]
    return [MarkovChain(k, side.start_counts, normalize=True) for k, side in zip(filled, (x, y), strict=True)]


def selections_keep_their_best(draw: Draw) -> None:
    n = draw(st.integers(2, 4))
    candidates = {name: chain(draw, n) for name in "abc"}
    data = candidates["a"].sample(5, 6, rng=draw(st.integers(0, 99)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = somcot.select_model(data, candidates, discount=0.9)
    assert found.best in found.confidence_set
    assert set(found.confidence_set) <= set(candidates)


def actions_bound_values(draw: Draw) -> None:
    """Values of states differ by at most their distance; one action alone is a chain."""
    n, a, g = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.sampled_from((0.3, 0.9)))
    kernels = np.stack([dense_kernel(chain(draw, n)) for _ in range(a)], axis=1)
    rewards = cost(draw, n, a)
    process = mdp.MDP(kernels, rewards)
    found = mdp.metric(process, discount=g)
    value = mdp.optimal(process, discount=g).values
    assert (np.abs(value[:, None] - value[None]) * (1 - g) <= found + 1e-7).all()
    if a == 1:
        walk = MarkovChain(kernels[:, 0])
        alone = somcot.metric(walk, walk, costs.absolute(rewards[:, 0], rewards[:, 0]), discount=g)
        np.testing.assert_allclose(found, alone, atol=1e-8)


def counts_are_those_of_the_samples(draw: Draw) -> None:
    n = draw(st.integers(1, 4))
    lists = st.lists(st.lists(st.integers(0, n - 1), min_size=2, max_size=8), min_size=1, max_size=5)
    a, b = (Samples.from_trajectories(draw(lists), states=range(n)) for _ in range(2))
    merged = Counts.from_samples(a).merge(Counts.from_samples(b))
    assert (np.asarray(merged.counts()) == np.asarray(a.counts()) + np.asarray(b.counts())).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, two = (somcot.distance(each, b, discount=0.9, method="plugin") for each in (a, Counts.from_samples(a)))
    assert one.distance == two.distance


def orders_have_p_values(draw: Draw) -> None:
    n = draw(st.integers(1, 3))
    data = chain(draw, n).sample(draw(st.integers(1, 4)), 8, rng=draw(st.integers(0, 99)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = somcot.markov_order(data, max_order=2, rng=0)
    assert all(0.0 < p <= 1.0 for p in found.pvalues)
    assert 1 <= found.order <= 3


FURTHER: tuple[Callable[[Draw], None], ...] = (
    long_runs_bound_discounted_ones,
    horizons_of_one_are_transport,
    horizons_mix_to_discounts,
    totals_are_limits,
    rates_have_no_unit,
    reductions_change_nothing,
    quotients_keep_their_bound,
    derivatives_do_not_depend_on_the_start,
    matrices_hold_single_distances,
    matrices_of_data_hold_their_values,
    selections_keep_their_best,
    actions_bound_values,
    counts_are_those_of_the_samples,
    orders_have_p_values,
)
