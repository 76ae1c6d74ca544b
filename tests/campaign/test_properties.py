"""(b) What must hold for every input, over the public functions: drawn and shrunk by hypothesis.

SOMCOT_CAMPAIGN_CASES cases in all (200,000 in the full run) are shared out equally; `make test` draws a few of each.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import somcot
from somcot import MarkovChain, Problem, Samples, certificates, costs, couplings, streams
from tests.campaign.draws import DISCOUNTS, Draw, chain, cost, exact, problem, slack
from tests.campaign.filed import FILED
from tests.campaign.further import FURTHER
from tests.campaign.streamed import STREAMED
from tests.campaign.table import SEED, Row
from tests.instances import dense_kernel

SLICE, FULL = 12, 200_000


def lies_in_its_bracket(draw: Draw) -> None:
    x, y, c, g = problem(draw)
    found = exact(x, y, c, g)
    assert c.min() <= found.bounds.low <= found.distance <= found.bounds.high <= c.max()
    assert found.converged


def is_symmetric(draw: Draw) -> None:
    x, y, c, g = problem(draw)
    assert exact(y, x, c.T, g).distance == pytest.approx(exact(x, y, c, g).distance, abs=slack(c))


def is_zero_from_itself(draw: Draw) -> None:
    x = chain(draw)
    assert exact(x, x, costs.labels(x.states, x.states), draw(st.sampled_from(DISCOUNTS))).distance == 0.0


def keeps_the_triangle_inequality(draw: Draw) -> None:
    chains = [chain(draw) for _ in range(3)]
    features = [draw(st.lists(st.floats(-5, 5), min_size=k.n_states, max_size=k.n_states)) for k in chains]
    g = draw(st.sampled_from(DISCOUNTS))
    ab, bc, ac = (
        exact(chains[i], chains[j], costs.absolute(features[i], features[j]), g).distance
        for i, j in ((0, 1), (1, 2), (0, 2))
    )
    assert ac <= ab + bc + 1e-8


def ignores_labels(draw: Draw) -> None:
    x, y, c, g = problem(draw)
    order = np.array(draw(st.permutations(range(x.n_states))))
    moved = MarkovChain(dense_kernel(x)[np.ix_(order, order)], x.initial[order])
    assert exact(moved, y, c[order], g).distance == pytest.approx(exact(x, y, c, g).distance, abs=slack(c))


def follows_shift_and_scale(draw: Draw) -> None:
    x, y, c, g = problem(draw)
    shift, scale = draw(st.floats(-1e3, 1e3)), draw(st.floats(1e-6, 1e6))
    d = exact(x, y, c, g).distance
    assert exact(x, y, c + shift, g).distance == pytest.approx(d + shift, abs=slack(c) + 1e-12 * abs(shift))
    assert exact(x, y, scale * c, g).distance == pytest.approx(scale * d, abs=scale * slack(c))


def ignores_meaningless_copies(draw: Draw) -> None:
    x, y, c, g = problem(draw)
    k = draw(st.integers(1, 3))
    split = somcot.block_chain(y, k)
    assert exact(x, split, np.repeat(c, k, axis=1), g).distance == pytest.approx(
        exact(x, y, c, g).distance, abs=slack(c)
    )


def is_concave_in_the_cost(draw: Draw) -> None:
    """The gradient bounds the distance of every other cost from above: the tangent of a concave function."""
    x, y, c, g = problem(draw)
    found, other = exact(x, y, c, g), cost(draw, *c.shape)
    assert found.gradient is not None
    tangent = found.distance + float((found.gradient.cost * (other - c)).sum())
    assert exact(x, y, other, g).distance <= tangent + slack(c) + slack(other)


def has_the_gradient_of_differences(draw: Draw) -> None:
    """Towards another kernel of the same support; a kink shows as two slopes, with the gradient between or near."""
    x, y, c, g = problem(draw)
    P = dense_kernel(x)
    other = np.where(P > 0, P * (1.0 + np.arange(x.n_states)), 0.0)
    other /= other.sum(axis=1, keepdims=True)
    found, h = exact(x, y, c, g), 1e-5
    assert found.gradient is not None
    slopes = [
        (exact(MarkovChain(P + s * h * (other - P), x.initial, normalize=True), y, c, g).distance - found.distance)
        / (s * h)
        for s in (1.0, -1.0)
    ]
    matrix = found.gradient.transition_x
    assert isinstance(matrix, np.ndarray)
    slope = float((matrix * (other - P)).sum())
    reach = float(np.ptp(c)) / (1.0 - g) ** 2
    assert min(slopes) - 1e-3 * reach - 1e-5 <= slope <= max(slopes) + 1e-3 * reach + 1e-5


def is_the_metric_of_its_start(draw: Draw) -> None:
    x, y, c, g = problem(draw)
    table = somcot.metric(x, y, c, discount=g)
    i, j = draw(st.integers(0, x.n_states - 1)), draw(st.integers(0, y.n_states - 1))
    from_there = exact(MarkovChain(dense_kernel(x), i), MarkovChain(dense_kernel(y), j), c, g)
    assert from_there.distance == pytest.approx(float(table[i, j]), abs=slack(c))
    assert c.min() <= table.min() <= table.max() <= c.max()


def is_bracketed_by_any_potential(draw: Draw) -> None:
    x, y, c, g = problem(draw)
    whole = Problem(x, y, c, g)
    low, high = certificates.bracket(whole, 10.0 ** draw(st.integers(-3, 12)) * cost(draw, *c.shape))
    truth = somcot.metric(x, y, c, discount=g)
    assert (low <= truth + slack(c)).all()
    assert (truth <= high + slack(c)).all()
    assert (certificates.lower_bound(whole, draw(st.integers(0, 5))) <= truth + slack(c)).all()


def has_a_feasible_coupling(draw: Draw) -> None:
    x, y, c, g = problem(draw)
    found = exact(x, y, c, g)
    mu = found.coupling()
    assert mu.sum() == pytest.approx(1.0, abs=1e-9)
    assert float((mu.sum(axis=(2, 3)) * c).sum()) == pytest.approx(found.distance, abs=slack(c) + 1e-9)
    assert max(found.residuals) <= 1e-8
    np.testing.assert_allclose(found.encoder.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(found.decoder.sum(axis=1), 1.0, atol=1e-9)


def comes_back_from_a_file(draw: Draw) -> None:
    found = exact(*problem(draw))
    with tempfile.TemporaryDirectory() as folder:
        found.save(Path(folder) / "result")
        again = somcot.Result.load(Path(folder) / "result")
    assert (again.distance, again.bounds, again.status) == (found.distance, found.bounds, found.status)
    assert again.potential.tobytes() == found.potential.tobytes()


def overlaps_with_other_methods(draw: Draw) -> None:
    x, y, c, g = problem(draw)
    low, high = exact(x, y, c, g).bounds
    method, options = draw(
        st.sampled_from([("lp", {}), ("saddle", {"max_steps": 500}), ("sinkhorn", {"epsilon": 0.05, "max_sweeps": 60})])
    )
    other = somcot.distance(x, y, c, discount=g, method=method, **options)
    assert other.bounds.low <= high
    assert low <= other.bounds.high
    assert other.bounds.low <= other.distance <= other.bounds.high


def has_occupancies_that_flow(draw: Draw) -> None:
    x = chain(draw)
    g = draw(st.sampled_from(DISCOUNTS))
    nu = np.asarray(x.occupancy(g))
    law = nu.sum(axis=1)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose((1 - g) * x.initial + g * nu.sum(axis=0), law, atol=1e-9)


def counts_what_was_recorded(draw: Draw) -> None:
    n = draw(st.integers(1, 4))
    paths = draw(st.lists(st.lists(st.integers(0, n - 1), min_size=2, max_size=8), min_size=1, max_size=5))
    data = Samples.from_trajectories(paths, states=range(n))
    expected = np.zeros((n, n), dtype=int)
    for path in paths:
        np.add.at(expected, (path[:-1], path[1:]), 1)
    assert (np.asarray(data.counts()) == expected).all()
    assert (np.asarray(data.merge(data).counts()) == 2 * expected).all()
    assert data.resample(0).n_episodes == len(paths)
    np.testing.assert_allclose(dense_kernel(data.chain(check=False)).sum(axis=1), 1.0, atol=1e-12)


def estimates_inside_its_interval(draw: Draw) -> None:
    x, y, c, g = problem(draw)
    data = [p.sample(draw(st.integers(2, 6)), 6, rng=draw(st.integers(0, 99))) for p in (x, y)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = somcot.distance(data[0], data[1], c, discount=min(g, 0.99), confidence=0.9, rng=0)
    assert found.confidence_interval is not None
    low, high, _ = found.confidence_interval
    assert c.min() <= low <= found.distance <= high <= c.max()
    assert found.plugin is not None
    assert found.bounds.low <= found.plugin <= found.bounds.high


def has_a_valid_level(draw: Draw) -> None:
    x = chain(draw)
    n = draw(st.integers(1, 9))
    data = [x.sample(3, 5, rng=draw(st.integers(0, 99))) for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = costs.labels(x.states, x.states)
        found = somcot.same_process(data[0], data[1], labels, discount=0.9, n_permutations=n)
    assert 1.0 / (n + 1) <= found.pvalue <= 1.0
    assert len(found.null_distribution) <= n


def draws_alike_in_pieces(draw: Draw) -> None:
    x, g = chain(draw), draw(st.sampled_from((0.1, 0.5, 0.9)))
    seed, n, k = draw(st.integers(0, 99)), draw(st.integers(1, 40)), draw(st.integers(1, 40))
    whole = streams.from_chain(x, g, rng=seed).draw(n + k)
    source = streams.from_chain(x, g, rng=seed)
    pieces = [source.draw(n), source.draw(k)]
    for side in (0, 1):
        assert np.concatenate([piece[side] for piece in pieces]).tolist() == np.asarray(whole[side]).tolist()


def rounds_to_marginals(draw: Draw) -> None:
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    plan = np.abs(cost(draw, n, m))
    p, q = (np.abs(cost(draw, 1, k))[0] + 1e-3 for k in (n, m))
    p, q = p / p.sum(), q / q.sum()
    found = couplings.round_to_marginals(plan, p, q)
    assert found.min() >= 0.0
    np.testing.assert_allclose(found.sum(axis=1), p, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=0), q, atol=1e-12)
    wrong = np.abs(plan.sum(axis=1) - p).sum() + np.abs(plan.sum(axis=0) - q).sum()
    assert np.abs(found - plan).sum() <= 2.0 * wrong + 1e-12


def runs_somcot_reproducibly(draw: Draw) -> None:
    x, y, c, _ = problem(draw)
    seed = draw(st.integers(0, 99))
    runs = [
        somcot.distance(x, y, c, discount=0.9, method="somcot", n_steps=50, support=support, rng=seed)
        for support in ("full", "full", "observed")
    ]
    assert runs[0].distance == runs[1].distance
    for run in runs:
        assert c.min() <= run.distance <= c.max()
        assert run.bounds.low <= run.bounds.high


PROPERTIES = (
    lies_in_its_bracket,
    is_symmetric,
    is_zero_from_itself,
    keeps_the_triangle_inequality,
    ignores_labels,
    follows_shift_and_scale,
    ignores_meaningless_copies,
    is_concave_in_the_cost,
    has_the_gradient_of_differences,
    is_the_metric_of_its_start,
    is_bracketed_by_any_potential,
    has_a_feasible_coupling,
    comes_back_from_a_file,
    overlaps_with_other_methods,
    has_occupancies_that_flow,
    counts_what_was_recorded,
    estimates_inside_its_interval,
    has_a_valid_level,
    draws_alike_in_pieces,
    rounds_to_marginals,
    runs_somcot_reproducibly,
    *FURTHER,
    *STREAMED,
    *FILED,
)


def hold(check: Callable[[Draw], None], cases: int, start: int | None = None) -> int:
    """Draw so many cases, the same each time, or others for another start; returns how many were run."""
    ran = 0

    @settings(
        max_examples=cases,
        deadline=None,
        derandomize=start is None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(st.data())
    def property_of(data: st.DataObject) -> None:
        nonlocal ran
        ran += 1
        check(data.draw)

    if start is not None:
        property_of = seed(start)(property_of)
    property_of()
    return ran


@pytest.mark.parametrize("check", PROPERTIES, ids=lambda check: check.__name__)
def test_slice(check: Callable[[Draw], None]) -> None:
    hold(check, SLICE)


@pytest.mark.campaign
@pytest.mark.parametrize("check", PROPERTIES, ids=lambda check: check.__name__)
def test_in_full(check: Callable[[Draw], None]) -> None:
    cases = int(os.environ.get("SOMCOT_CAMPAIGN_CASES", FULL)) // len(PROPERTIES)
    row = Row("properties", failures=1)
    try:
        row.cases = hold(check, cases, SEED or None)
        row.failures = 0
    finally:
        row.write()
