"""Have every kernel compiled and kept on disk, so that no later answer has to wait for the compiler.

A kernel is compiled for the types it is called with, so the sure way is to ask every kind of question once, on
processes of a few states. `tests/cli/test_warm_up.py` checks that nothing is left cold.
"""

from __future__ import annotations

import gc
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numba.core import event
from rich.console import Console

import somcot
from somcot import certificates, streams
from somcot.chains import MarkovChain
from somcot.gradients import WarmStart, solve_arrays
from somcot.samples import Samples

__all__ = ["Warmed", "run", "warm_up"]

DISCOUNT = 0.9


class Warmed(NamedTuple):
    """One kind of question, asked once."""

    name: str
    n_compiled: int
    seconds: float


def run(console: Console) -> int:
    """`somcot warm-up`."""
    logging.getLogger("somcot").setLevel(logging.ERROR)  # it would announce less exactly what is said here
    began = time.perf_counter()
    console.print("Compiling the numerical kernels; they are kept on disk, so this is needed once.")
    gc.disable()  # what the compiler leaves behind goes with the process
    try:
        for name, n_compiled, seconds in warm_up():
            console.print(f"  {name:<26} {f'compiled in {seconds:.1f} s' if n_compiled else 'ready'}")
    finally:
        gc.enable()
    console.print(f"All kernels are ready ({time.perf_counter() - began:.0f} s).")
    return 0


def warm_up() -> Iterator[Warmed]:
    """Ask each kind of question once; what was compiled before is only loaded.

    Examples
    --------
    >>> [name for name, n_compiled, seconds in warm_up()][0]
    'exact distance'
    """
    for name, ask in _QUESTIONS.items():
        began = time.perf_counter()
        with warnings.catch_warnings(), event.install_recorder("numba:compile") as compiled:
            warnings.simplefilter("ignore")  # answers from so few data are nothing to rely on, nor are they meant to be
            ask()
        n_compiled = sum(e.is_start for _, e in compiled.buffer)
        yield Warmed(name, n_compiled, time.perf_counter() - began)


def _chains() -> tuple[MarkovChain, MarkovChain]:
    return somcot.random_walk(3), somcot.random_walk(3, 0.7)


def _episodes() -> tuple[Samples, Samples]:
    x, y = _chains()
    return x.sample(9, 9, rng=0), y.sample(9, 9, rng=1)


def _occupancies() -> tuple[Samples, Samples]:
    x, y = _chains()
    return x.sample_occupancy(99, DISCOUNT, rng=0), y.sample_occupancy(99, DISCOUNT, rng=1)


def _cost() -> list[list[float]]:
    return [[abs(i - j) for j in range(3)] for i in range(3)]


def _exact() -> None:
    x, y = _chains()
    result = somcot.distance(x, y, _cost(), discount=DISCOUNT, method="exact")
    _ = result.encoder, result.gradient, result.residuals, x.occupancy(DISCOUNT)
    problem = somcot.Problem(x, y, _cost(), DISCOUNT)
    certificates.bracket(problem, somcot.metric(x, y, _cost(), discount=DISCOUNT))
    certificates.lower_bound(problem, 2)
    _smaller()


def _smaller() -> None:
    """Problems that are solved as smaller ones: rare states, states that are alike."""
    far, split = somcot.random_walk(99, 0.3), somcot.block_chain(somcot.random_walk(3), 9)
    reward = [1.0] + [0.0] * 98
    result = somcot.distance(far, split, [[abs(r - k // 9) for k in range(27)] for r in reward], discount=DISCOUNT)
    _ = result.encoder, result.gradient


def _wide() -> None:
    """Rows of many entries, and pairs enough for every way of starting on them to be tried."""
    table = np.random.default_rng(0).random((24, 24))
    x, y = (MarkovChain(rows, normalize=True) for rows in (table, table.T))
    somcot.metric(x, y, table[::-1], discount=DISCOUNT)


def _close() -> None:
    x, y = _chains()
    somcot.distance(x, y, _cost(), discount=1 - 1e-6)


def _estimate() -> None:
    for data in (_episodes(), _occupancies()):
        result = somcot.distance(*data, _cost(), discount=DISCOUNT, confidence=0.9)
        _ = result.encoder, result.gradient
    somcot.same_process(*_episodes(), _cost(), discount=DISCOUNT, n_permutations=1)


def _gradients() -> None:
    x, y = _chains()
    arrays = [x.transition, y.transition, _cost(), DISCOUNT, [0.2, 0.3, 0.5], [0.2, 0.3, 0.5]]
    warm = WarmStart()
    for _ in range(2):
        solution = solve_arrays(tuple(np.asarray(a, dtype=np.float64) for a in arrays), warm)
        _ = solution.gradient, solution.is_smooth(), solution.second(solution.gradient)


def _many() -> None:
    x, y = _episodes()
    somcot.distance_matrix([*_chains(), x, y], _cost(), discount=DISCOUNT, confidence=0.9)
    somcot.distance_matrix([x, somcot.Counts.from_samples(x)], _cost(), discount=DISCOUNT, confidence=0.5)


def _counting() -> None:
    from somcot.readers.tables.streaming_counts import warm_up

    warm_up()


def _live() -> None:
    from somcot.live.sequences import keys_of

    x, _ = _episodes()
    names = keys_of(["a", "b", "c"] * 3)
    for reference in (somcot.random_walk(3), x):
        monitor = somcot.Monitor(reference, discount=DISCOUNT)
        monitor.update(x.now[:9])
        monitor.update(x.now[:9], names, times=np.arange(9.0))
        monitor.update(np.arange(99) % 3, np.arange(99))


def _saddle() -> None:
    for x, y in (_chains(), _occupancies()):
        _ = somcot.distance(x, y, _cost(), discount=DISCOUNT, method="saddle", max_steps=10).encoder


def _sinkhorn() -> None:
    somcot.distance(*_chains(), _cost(), discount=DISCOUNT, method="sinkhorn", epsilon=0.5)


def _draws() -> None:
    streams.from_chain(_chains()[0], DISCOUNT, rng=0).draw(10)


def _somcot(support: str) -> None:
    x, y = _chains()
    ask = partial(somcot.distance, x, y, _cost(), discount=DISCOUNT, method="somcot", n_steps=50, rng=0)
    for keep in (False, True):
        ask(support=support, keep_coupling=keep)


_QUESTIONS: dict[str, Callable[[], None]] = {
    "exact distance": _exact,
    "wide supports": _wide,
    "derivatives": _gradients,
    "discounts close to 1": _close,
    "saddle point": _saddle,
    "estimate from data": _estimate,
    "many distances": _many,
    "counting tables": _counting,
    "watching a stream": _live,
    "Sinkhorn value iteration": _sinkhorn,
    "draws from a chain": _draws,
    "SOMCOT, full support": partial(_somcot, "full"),
    "SOMCOT, observed support": partial(_somcot, "observed"),
}
