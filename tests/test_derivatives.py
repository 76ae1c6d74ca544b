"""Derivatives against finite differences of the exact solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import somcot
from somcot import MarkovChain
from tests.instances import Floats, dense_kernel, random_chain

H = 1e-5


def exact(P: Floats, Q: Floats, cost: Floats, discount: float, p: Floats, q: Floats) -> float:
    return somcot.distance(MarkovChain(P, p), MarkovChain(Q, q), cost, discount=discount).distance


def problem(seed: int, kind: str) -> tuple[Floats, Floats, Floats, float, Floats, Floats]:
    rng = np.random.default_rng(seed)
    n_x, n_y = (int(n) for n in rng.integers(2, 7, size=2))
    x, y = random_chain(rng, n_x, kind), random_chain(rng, n_y, kind)
    p, q = (rng.dirichlet(np.full(n, 3.0)) for n in (n_x, n_y))
    cost = 5.0 * rng.random((n_x, n_y)) - 1.0
    return dense_kernel(x), dense_kernel(y), cost, float(rng.choice([0.5, 0.9, 0.97])), p, q


def direction(rng: np.random.Generator, P: Floats) -> Floats:
    """A change of the kernel that keeps its zeros and its row sums, small enough to keep it positive."""
    step = np.where(P > 0, rng.normal(size=P.shape) * P, 0.0)
    step -= P * step.sum(axis=-1, keepdims=True)
    result: Floats = step
    return result


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("seed", range(12))
def test_all_derivatives_match_finite_differences(seed: int, kind: str) -> None:
    P, Q, cost, discount, p, q = problem(seed, kind)
    rng = np.random.default_rng(seed + 100)
    found = somcot.distance(MarkovChain(P, p), MarkovChain(Q, q), cost, discount=discount).gradient
    assert found is not None
    for _ in range(4):
        steps = [direction(rng, a) for a in (P, Q)] + [rng.normal(size=cost.shape)]
        steps += [direction(rng, a[None])[0] for a in (p, q)]
        slopes = (found.transition_x, found.transition_y, found.cost, found.initial_x, found.initial_y)
        for which, (step, slope) in enumerate(zip(steps, slopes, strict=True)):

            def moved(t: float, which: int = which, step: Floats = step) -> float:
                parts = [P, Q, cost, p, q]
                parts[which] = parts[which] + t * step
                return exact(parts[0], parts[1], parts[2], discount, parts[3], parts[4])

            numeric = (moved(H) - moved(-H)) / (2 * H)
            assert float((step * slope).sum()) == pytest.approx(numeric, abs=1e-6), which


def test_rows_are_centred_and_sparse_storage_gives_sparse_derivatives() -> None:
    P, Q, cost, discount, p, q = problem(3, "sparse")
    dense = somcot.distance(MarkovChain(P, p), MarkovChain(Q, q), cost, discount=discount).gradient
    x, y = MarkovChain(csr_array(P), p), MarkovChain(csr_array(Q), q)
    sparse = somcot.distance(x, y, cost, discount=discount).gradient
    assert dense is not None
    assert sparse is not None
    np.testing.assert_allclose((P * dense.transition_x).sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose((Q * dense.transition_y).sum(axis=1), 0.0, atol=1e-12)
    assert not isinstance(sparse.transition_x, np.ndarray)
    np.testing.assert_allclose(sparse.transition_x.toarray(), dense.transition_x, atol=1e-12)
    assert (dense.transition_x[P == 0] == 0).all()


def test_pair_law_derivative_is_the_potential() -> None:
    P, Q, cost, discount, _, _ = problem(5, "dense")
    table = somcot.metric(MarkovChain(P), MarkovChain(Q), cost, discount=discount)
    found = somcot.distance(MarkovChain(P), MarkovChain(Q), cost, discount=discount).gradient
    assert found is not None
    np.testing.assert_allclose(found.initial, table, atol=1e-12)
    np.testing.assert_allclose(found.cost.sum(), 1.0, atol=1e-12)
