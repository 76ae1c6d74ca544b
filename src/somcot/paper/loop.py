"""The loop over seeds and cases, and the calls of the paper's algorithm and the default estimator."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

import somcot
from somcot.chains import MarkovChain
from somcot.paper.experiment import Report
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import ConvergenceWarning, DataWarning, UnseenStateWarning
from somcot.plumbing.memory import one_blas_thread
from somcot.samples import Samples

if TYPE_CHECKING:
    from somcot.result import Result

__all__ = [
    "TABLE",
    "Choice",
    "DrawnPair",
    "TableRow",
    "default_estimate",
    "few_data_expected",
    "hits",
    "spearman",
    "stages",
    "sweep",
    "walk_cost",
]

Case = TypeVar("Case")
Outcome = TypeVar("Outcome")


class DrawnPair(NamedTuple):
    """Samples of the two processes that are compared."""

    x: Samples
    y: Samples

    @classmethod
    def draw(cls, x: MarkovChain, y: MarkovChain, n: int, discount: float, rng: np.random.Generator) -> DrawnPair:
        """Draw n transitions of each chain from its discounted occupancy."""
        # Independent samples of the occupancy, as the paper assumes.
        return cls(x.sample_occupancy(n, discount, rng=rng), y.sample_occupancy(n, discount, rng=rng))

    def first(self, n: int) -> DrawnPair:
        """The first n transitions of each."""
        return DrawnPair(self.x.take(np.arange(n)), self.y.take(np.arange(n)))


@dataclass(frozen=True)
class TableRow:
    """One row of the paper's table: eta_k = primal_step / sqrt(1 + decay k), beta = dual_step, b, gamma."""

    primal_step: float
    decay: float
    dual_step: float
    batch_size: int
    discount: float

    def run(self, pair: DrawnPair, cost: Floats, n_steps: int, *, support: str = "full") -> Result:
        """The paper's algorithm on the first n_steps * batch_size transitions of each, all iterates averaged."""
        from somcot.solvers import somcot as algorithm  # compiled code, which `reproduce --help` must not wait for

        result = _not_converged_expected(
            algorithm.solve,
            pair.x,
            pair.y,
            cost,
            discount=self.discount,
            n_steps=n_steps,
            primal_step=self.primal_step,
            dual_step=self.dual_step,
            decay=self.decay,
            batch_size=self.batch_size,
            # The paper averages all iterates; the package's default would drop the first half.
            average=1.0,
            support=support,
            order="recorded",
        )
        return _whole(result)

    def run_default(self, pair: DrawnPair, cost: Floats, n_steps: int) -> Result:
        """SOMCOT as it runs without rates, on the same transitions: counted, and solved on the counted chains."""
        from somcot.solvers import somcot as algorithm  # as above

        # Transitions are used in the recorded order, as in the paper's run, so that both methods see the same data.
        with few_data_expected():
            result = algorithm.solve(
                pair.x, pair.y, cost, discount=self.discount, n_steps=n_steps, batch_size=self.batch_size,
                order="recorded",
            )  # fmt: skip
        return _whole(result)


TABLE = {  # the paper's hyperparameters; eta and beta of "steps" stand for its grid
    "encoder": TableRow(primal_step=40.0, decay=0.0, dual_step=0.2, batch_size=1, discount=0.99),
    "similarity": TableRow(primal_step=20.0, decay=0.0, dual_step=0.5, batch_size=1, discount=0.99),
    "selection": TableRow(primal_step=0.1, decay=0.001, dual_step=0.5, batch_size=8, discount=0.95),
    "pendulum": TableRow(primal_step=0.1, decay=0.05, dual_step=0.2, batch_size=16, discount=0.95),
    "steps": TableRow(primal_step=1.0, decay=0.001, dual_step=0.1, batch_size=1, discount=0.95),
}


@one_blas_thread
def sweep(
    function: Callable[[Case, np.random.Generator], Outcome],
    cases: Sequence[Case],
    seeds: Sequence[int],
    report: Report | None = None,
) -> list[list[Outcome]]:
    """Call ``function(case, rng)`` for every seed and case; outcomes by seed.

    Each call has its own generator, seeded by the seed, the index of the case and the name of the function:
    functions of different names never share random numbers.

    Examples
    --------
    >>> sweep(lambda case, rng: case * int(rng.integers(1, 2)), [1, 2, 3], seeds=[0, 1])
    [[1, 2, 3], [1, 2, 3]]
    """
    # The name, not the object: seeds must not depend on addresses or the order of definitions.
    key = zlib.crc32(getattr(function, "__name__", "").encode())
    outcomes: list[list[Outcome]] = []
    for row, seed in enumerate(seeds):
        outcomes.append([])
        for i, case in enumerate(cases):
            # Also independent of how many other cases there are.
            outcomes[-1].append(function(case, np.random.default_rng([seed, i, key])))
            if report is not None:
                report(row * len(cases) + i + 1, len(seeds) * len(cases))
    return outcomes


def stages(report: Report | None, *sizes: int) -> list[Report | None]:
    """One progress report shared by several sweeps.

    Examples
    --------
    >>> first, second = stages(lambda done, total: print(done, "of", total), 2, 3)
    >>> first(1, 2)
    1 of 5
    >>> second(3, 3)
    5 of 5
    """
    if report is None:
        return [None] * len(sizes)
    whole: Report = report

    def stage(before: int) -> Report:
        return lambda done, _: whole(before + done, sum(sizes))

    return [stage(sum(sizes[:i])) for i in range(len(sizes))]


def default_estimate(pair: DrawnPair, cost: Floats, discount: float) -> Result:
    """The result of `somcot.distance` on the same samples."""
    with few_data_expected():
        return _whole(somcot.distance(pair.x, pair.y, cost, discount=discount, rng=0))


class Choice(NamedTuple):
    """The result of `somcot.select_model`: the distances of all candidates, and those that cannot be excluded."""

    distance: Floats
    plugin: Floats
    inside: Floats

    @classmethod
    def of(cls, data: Samples, candidates: Mapping[float, Samples], cost: Any, discount: float) -> Choice:
        """Select among the candidates."""
        with few_data_expected():
            found = somcot.select_model(data, candidates, cost, discount=discount, rng=0)
        # Columns of the table, as arrays over the candidates.
        rows = ((row.distance, row.plugin, float(row.inside)) for row in found.table)
        return cls(*np.array(list(rows)).T)


def _whole(result: Result) -> Result:
    """Raise KeyboardInterrupt for an interrupted result, which would be a wrong point in a figure."""
    if result.status is somcot.Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def _not_converged_expected(solve: Callable[..., Result], *given: Any, **options: Any) -> Result:
    """Run Algorithm 2 at the paper's rates without its warning: the figures show how far it gets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(*given, **options)


@contextmanager
def few_data_expected() -> Iterator[None]:
    """Suppress warnings about rarely seen states, which are common at the small sample sizes of the figures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenStateWarning)
        warnings.simplefilter("ignore", DataWarning)
        yield


def walk_cost(n: int, n_copies: int = 1, last: float = -1.0) -> Floats:
    """The paper's cost |r(x) - r(y)| of a walk and its block version: r is 1 at the first state, `last` at the last.

    Examples
    --------
    >>> walk_cost(3)
    array([[0., 1., 2.],
           [1., 0., 1.],
           [2., 1., 0.]])
    """
    rewards = np.concatenate([[1.0], np.zeros(n - 2), [last]])
    return somcot.costs.absolute(rewards, np.repeat(rewards, n_copies))


def hits(curves: Floats, place: int) -> float:
    """The share of curves (rows) whose minimum is at the correct position.

    Examples
    --------
    >>> hits(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 2.0]]), 1)
    0.5
    """
    return float((curves.argmin(axis=1) == place).mean())


def spearman(a: Floats, b: Floats) -> float:
    """Rank correlation.

    Examples
    --------
    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0]))
    0.5
    """
    from scipy.stats import spearmanr

    return round(float(spearmanr(a, b).statistic), 12)  # so that perfect agreement is exactly 1
