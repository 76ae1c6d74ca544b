"""Statistics of groups: the first-order distance, chi-squared, and sequential permutation tests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

import somcot
from somcot import MarkovChain, Samples
from somcot.chains import Support
from somcot.inference.comparison import Exchangeable
from somcot.inference.statistics import (
    Expansion,
    RowMoments,
    Statistics,
    chi_squared,
    main_entries,
    permute,
    row_tests,
)
from somcot.inference.units import WholeSequences
from tests.instances import Floats, random_chain


def full(kernel: Floats, start: Floats) -> Support:
    """All entries of a chain, also those of probability 0."""
    n = len(kernel)
    return Support(n * np.arange(n + 2), np.tile(np.arange(n, dtype=np.int32), n + 1), np.append(kernel.ravel(), start))


def chain_of(support: Support, n: int) -> MarkovChain:
    table = np.zeros((n + 1, n))
    table[support.rows, support.indices] = support.probabilities
    return MarkovChain(table[:-1], table[-1])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["dense", "sparse", "peaked"]))
def test_the_expansion_is_exact_at_its_centre(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    x, y = random_chain(rng, 5, kind), random_chain(rng, 4, kind)
    cost = rng.random((5, 4))
    truth = somcot.distance(x, y, cost, discount=0.9).distance
    for left_out in (0.0, 0.3):
        expansion = Expansion.at(x.support, y.support, cost, 0.9, left_out=left_out, tolerance=0.0)
        found = expansion.values(x.support, x.support.probabilities[None], y.support, y.support.probabilities[None])
        assert expansion.value == pytest.approx(truth, abs=1e-9)
        assert found == pytest.approx([truth], abs=1e-9)


def test_the_error_of_the_expansion_is_of_second_order() -> None:
    rng = np.random.default_rng(0)
    cost = rng.random((5, 5))
    centre, far = ([full(rng.dirichlet(np.ones(5), size=5), rng.dirichlet(np.ones(5))) for _ in range(2)] for _ in "ab")
    expansion = Expansion.at(centre[0], centre[1], cost, 0.9, tolerance=0.0)
    errors = []
    for t in (0.02, 0.01, 0.005):
        p, q = ((1 - t) * c.probabilities + t * f.probabilities for c, f in zip(centre, far, strict=True))
        moved = [chain_of(c._replace(probabilities=v), 5) for c, v in zip(centre, (p, q), strict=True)]
        truth = somcot.distance(moved[0], moved[1], cost, discount=0.9).distance
        errors.append(abs(float(expansion.values(centre[0], p[None], centre[1], q[None])[0]) - truth))
        assert abs(truth - expansion.value) > 10 * errors[-1]
    assert errors[1] < 0.35 * errors[0]
    assert errors[2] < 0.35 * errors[1]


def test_many_values_at_once_are_those_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    x, y = random_chain(rng, 5, "sparse").support, random_chain(rng, 5, "dense").support
    expansion = Expansion.at(x, y, rng.random((5, 5)), 0.9)

    def drawn(support: Support) -> Floats:
        raw = rng.random((7, len(support.indices))) * (rng.random((7, len(support.indices))) < 0.8) + 1e-9
        shares: Floats = raw / np.add.reduceat(raw, support.indptr[:-1], axis=1)[:, support.rows]
        return shares

    p, q = drawn(x), drawn(y)
    together = expansion.values(x, p, y, q)
    np.testing.assert_array_equal(together, [expansion.values(x, p[k : k + 1], y, q[k : k + 1])[0] for k in range(7)])
    monkeypatch.setattr("somcot.inference.statistics._AT_ONCE", 10)
    np.testing.assert_array_equal(together, expansion.values(x, p, y, q))
    assert expansion.values(x, p[:0], y, q[:0]).shape == (0,)


def test_pooled_processes_are_coupled_along_the_diagonal() -> None:
    rng = np.random.default_rng(2)
    chain = random_chain(rng, 6, "dense")
    labels = 1.0 - np.eye(6)
    expansion = Expansion.pooled(chain.support, labels, 0.9)
    np.testing.assert_array_equal(expansion.x, expansion.y)
    np.testing.assert_allclose(expansion.weight, chain.state_occupancy(0.9)[expansion.x], rtol=1e-9)
    assert expansion.value == 0.0
    own = chain.support.probabilities[None]
    assert expansion.values(chain.support, own, chain.support, own) == pytest.approx([0.0], abs=1e-12)
    # Rows moved by t: the relative error of the first-order distance falls in proportion to t.
    relative = []
    other = random_chain(rng, 6, "dense").support.probabilities
    for t in (1e-2, 1e-3):
        p = (1 - t) * chain.support.probabilities + t * other
        truth = somcot.distance(chain_of(chain.support._replace(probabilities=p), 6), chain, labels, discount=0.9)
        found = expansion.values(chain.support, p[None], chain.support, own)[0]
        assert found >= truth.distance - 1e-6, "the expansion is at least as large"
        relative.append(abs(found - truth.distance) / truth.distance)
    assert relative[0] < 0.3
    assert relative[1] < 0.2 * relative[0] + 1e-6


def test_equal_states_that_do_not_cost_least_are_not_coupled_along_the_diagonal() -> None:
    rng = np.random.default_rng(3)
    chain, cost = random_chain(rng, 5, "dense"), rng.random((5, 5))
    expansion, own = Expansion.pooled(chain.support, cost, 0.9), chain.support.probabilities[None]
    truth = somcot.distance(chain, chain, cost, discount=0.9).distance
    assert expansion.values(chain.support, own, chain.support, own) == pytest.approx([truth], abs=1e-5)


# --- Chi-squared


def tables(rng: np.random.Generator, n_groups: int) -> tuple[Support, Floats]:
    counts = rng.poisson(3.0, size=(n_groups, 5, 4)).astype(np.float64)
    counts[:, 1, 2:] = 0.0
    counts[1:, 2] = 0.0  # a row of one group only
    counts[:, 3] = 0.0  # a row of none
    return full(np.full((4, 4), 0.25), np.full(4, 0.25)), counts.reshape(n_groups, -1)


def contingency(table: Floats) -> float:
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    return float(chi2_contingency(table, correction=False).statistic) if min(table.shape, default=0) > 1 else 0.0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_chi_squared_of_every_row_as_a_contingency_table(seed: int, n_groups: int) -> None:
    support, counts = tables(np.random.default_rng(seed), n_groups)
    rows = counts.reshape(n_groups, 5, 4)
    expected = [contingency(rows[:, r]) for r in range(5)]
    assert chi_squared(support, counts) == pytest.approx(sum(expected))
    stacked = np.stack([counts, counts[::-1]])
    assert chi_squared(support, stacked) == pytest.approx([sum(expected)] * 2)
    main = np.random.default_rng(seed).random(20) < 0.6
    kept = (counts * main).reshape(n_groups, 5, 4)
    assert chi_squared(support, counts, main) == pytest.approx(sum(contingency(kept[:, r]) for r in range(5)))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_row_tests_as_contingency_tables(seed: int) -> None:
    support, (x, y) = tables(np.random.default_rng(seed), 2)
    found = row_tests(support, x, y)
    for r in range(5):
        table = np.stack([x.reshape(5, 4)[r], y.reshape(5, 4)[r]])
        total = table.sum()
        assert (found.x[r], found.y[r]) == (table[0].sum(), table[1].sum())
        assert found.statistic[r] == pytest.approx(contingency(table) * (total - 1) / max(total, 1))
        assert found.df[r] == (table.sum(axis=0) > 0).sum() - 1
    many = row_tests(support, np.stack([x, y]), np.stack([y, x]))
    np.testing.assert_allclose(many.statistic, [found.statistic, found.statistic])


def test_the_mean_of_a_row_test_over_permutations_is_its_degrees_of_freedom() -> None:
    """Exactly, over all ways to deal 3 + 4 transitions of one row."""
    outcomes = np.array([0, 0, 1, 1, 1, 2, 0])
    support = Support(np.array([0, 3]), np.arange(3, dtype=np.int32), np.full(3, 1 / 3))
    values = []
    for own in combinations(range(7), 3):
        x = np.bincount(outcomes[list(own)], minlength=3).astype(np.float64)
        y = np.bincount(np.delete(outcomes, list(own)), minlength=3).astype(np.float64)
        values.append(row_tests(support, x, y).statistic[0])
    assert np.mean(values) == pytest.approx(2.0, rel=1e-12)


def test_main_entries_are_those_that_are_not_rare() -> None:
    support = Support(
        np.array([0, 3, 5]), np.array([0, 1, 2, 0, 1], dtype=np.int32), np.array([0.9, 0.06, 0.04, 0.5, 0.5])
    )
    assert main_entries(support).tolist() == [True, True, False, True, True]


# --- Permutation tests


class Numbers:
    """A subject whose statistics are given numbers: those of the data first, then one for each permutation."""

    def __init__(self, observed: float, null: Floats) -> None:
        self.observed, self.drawn = observed, null

    @property
    def counts(self) -> Floats:
        return np.array([self.observed])

    def null(self, seed: int, indices: Sequence[int]) -> Floats:
        drawn: Floats = self.drawn[np.asarray(indices)][:, None]
        return drawn

    def statistics(self, counts: Floats) -> Statistics:
        return Statistics(counts[:, 0], np.zeros(len(counts)), counts)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 450), st.floats(0.0, 1.0), st.sampled_from([0, 100, 1000]))
def test_pvalues_are_those_of_besag_and_clifford(seed: int, n: int, observed: float, at_least: int) -> None:
    null = np.random.default_rng(seed).random(n)
    found = permute(Numbers(observed, null), 0, n, both=False, at_least=at_least, threads=1)
    enough, far = max(10, int(np.ceil(0.05 * (n + 1)))), 0
    for drawn, value in enumerate(null, 1):
        far += value >= observed
        if far == enough:
            expected = enough / drawn
            break
    else:
        expected = (1 + far) / (n + 1)
    assert found.pvalue == expected
    assert found.stopped == (far == enough and drawn < n)
    assert len(found.values) == drawn
    np.testing.assert_array_equal(found.values, null[: len(found.values)])
    assert len(found.null.distance) >= min(at_least, n)
    assert isinstance(found.rows, RowMoments)
    np.testing.assert_allclose(found.rows.mean, [null[: len(found.null.distance)].mean()])


def test_a_permutation_test_has_exact_level() -> None:
    """Over all ranks of the data among 19 permutations, p <= 0.05 for one of twenty."""
    ranked = np.arange(20.0)
    small = [permute(Numbers(ranked[k], np.delete(ranked, k)), 0, 19, both=False, threads=1).pvalue for k in range(20)]
    assert sum(p <= 0.05 + 1e-12 for p in small) == 1
    assert min(small) == pytest.approx(0.05)


def enumerated(subject: Any, engine: WholeSequences) -> float:
    """The p-value over all groupings."""
    n, own = len(engine.observed), int((engine.observed == 0).sum())
    values = []
    for first in combinations(range(n), own):
        grouping = np.ones(n, dtype=np.int64)
        grouping[list(first)] = 0
        values.append(subject.statistics(engine.counts(grouping)[None]).distance[0])
    observed = subject.statistics(subject.counts[None]).distance[0]
    return float(np.mean(np.array(values) >= observed - 1e-9))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pvalues_of_tiny_recordings_by_full_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (Samples.from_trajectories(rng.integers(2 + k, size=(4, 5)).tolist(), states=range(3)) for k in (0, 1))
    engine = WholeSequences.of([x, y])
    subject = Exchangeable(engine, engine.pooled.states, 1.0 - np.eye(3), 0.8)
    exact = enumerated(subject, engine)
    n = 1500
    drawn = subject.statistics(subject.null(seed, range(n))).distance
    observed = subject.statistics(subject.counts[None]).distance[0]
    share = float(np.mean(drawn >= observed - 1e-9))
    assert abs(share - exact) < 5.0 * np.sqrt(exact * (1 - exact) / n) + 1e-3


def test_the_pooled_potential_is_solved_on_half_of_the_pairs() -> None:
    rng = np.random.default_rng(4)
    support, distances = (
        random_chain(rng, 7, "dense").support,
        np.abs(np.subtract.outer(np.arange(7.0), np.arange(7.0))) / 6,
    )
    for cost in (distances, distances + 0.1 * np.triu(np.ones((7, 7)), 1)):  # symmetric, and not
        unit = cost / cost.max()
        pooled, solved = Expansion.pooled(support, unit, 0.9), Expansion.at(support, support, unit, 0.9)
        assert pooled.value == pytest.approx(solved.value, abs=1e-6)
        np.testing.assert_allclose(pooled.V, solved.V, atol=1e-5)


def test_sampled_pairs_have_the_means_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, n = np.random.default_rng(5), 40
    kernels = [rng.dirichlet(np.ones(n), n) for _ in range(2)]
    x, y = (full(kernel, np.full(n, 1.0 / n)) for kernel in kernels)
    cost = (rng.random((n, n)) + np.ones((n, n))) / 2.0
    whole = Expansion.at(x, y, cost, 0.8)
    monkeypatch.setattr("somcot.inference.statistics._MOST_PAIRS", 250)
    some = Expansion.at(x, y, cost, 0.8)
    assert len(whole.x) > 500
    assert len(some.x) == 250
    assert some.weight.sum() == pytest.approx(whole.weight.sum())
    assert len(np.unique(some.weight)) > 1  # frequent pairs keep their own weight
    own = x.probabilities[None], y.probabilities[None]
    assert some.values(x, own[0], y, own[1]) == pytest.approx(whole.value, abs=1e-5)  # exact at the centre
    moved = [np.append(rng.dirichlet(20 * np.ones(n), n).ravel(), np.full(n, 1.0 / n))[None] for _ in range(2)]
    expected = whole.values(x, moved[0], y, moved[1]) - whole.value
    assert some.values(x, moved[0], y, moved[1]) - some.value == pytest.approx(expected, rel=0.05)
