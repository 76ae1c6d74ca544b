"""Random problems for derivatives, as plain arrays."""

from __future__ import annotations

import numpy as np

from tests.instances import Floats

Arrays = tuple[Floats, Floats, Floats, Floats, Floats, Floats]


def softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    rows: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return rows


def random_arrays(seed: int, lead: tuple[int, ...] = (), n_x: int = 4, n_y: int = 3, sparse: bool = False) -> Arrays:
    """Kernels, cost, discount and start laws, in the order of `somcot.gradients.NAMES`."""
    rng = np.random.default_rng(seed)
    rows = [softmax(1.5 * rng.normal(size=(*lead, n, n))) for n in (n_x, n_y)]
    if sparse:
        for P in rows:
            P[rng.random(P.shape) < 0.4] = 0.0
            P += 0.1 * np.eye(P.shape[-1])
            P /= P.sum(axis=-1, keepdims=True)
    starts = [softmax(rng.normal(size=(*lead, n))) for n in (n_x, n_y)]
    cost = 3.0 * rng.random((*lead, n_x, n_y)) - 1.0
    return rows[0], rows[1], cost, np.asarray(rng.uniform(0.4, 0.95, size=lead)), starts[0], starts[1]


def random_direction(rng: np.random.Generator, arrays: Arrays, which: int) -> Floats:
    """A change of one of the arrays that keeps what is 0 in kernels and laws at 0."""
    step = rng.normal(size=arrays[which].shape)
    return np.asarray(step if which in (2, 3) else step * arrays[which])
