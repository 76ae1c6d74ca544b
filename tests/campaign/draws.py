"""What the properties draw: small chains and costs, with ties, zeros and probabilities far apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

import somcot
from somcot import MarkovChain
from tests.instances import Floats

Draw = Callable[[st.SearchStrategy[Any]], Any]
DISCOUNTS = (0.001, 0.3, 0.5, 0.9, 0.99, 0.9999)


def chain(draw: Draw, n: int | None = None) -> MarkovChain:
    """Whole-number weights make ties, zeros and deterministic moves common."""
    n = draw(st.integers(1, 4)) if n is None else n
    weights = draw(st.lists(st.lists(st.integers(0, 5), min_size=n, max_size=n), min_size=n + 1, max_size=n + 1))
    table = np.array(weights, dtype=float)
    table[np.arange(n + 1), draw(st.integers(0, n - 1))] += 1.0  # no row is empty
    table *= draw(st.sampled_from([1.0, 1.0, 1e-30])) ** np.arange(n)  # now and then probabilities far apart
    return MarkovChain(table[:-1], table[-1], normalize=True)


def cost(draw: Draw, n: int, m: int) -> Floats:
    entry = st.one_of(st.integers(-2, 2).map(float), st.floats(-10, 10))
    return np.array(draw(st.lists(entry, min_size=n * m, max_size=n * m))).reshape(n, m)


def problem(draw: Draw) -> tuple[MarkovChain, MarkovChain, Floats, float]:
    x, y = chain(draw), chain(draw)
    return x, y, cost(draw, x.n_states, y.n_states), draw(st.sampled_from(DISCOUNTS))


def exact(x: MarkovChain, y: MarkovChain, c: Any, discount: float) -> somcot.Result:
    return somcot.distance(x, y, c, discount=discount)


def slack(c: Floats) -> float:
    """What rounding may do to a distance."""
    return 1e-9 * (float(np.ptp(c)) + 1e-6 * float(np.abs(c).max()) + 1e-300)
