"""A test of "the same process?": whole episodes dealt to two groups at random."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.bellman.pairs import reachable_pairs
from somcot.chains import MarkovChain, Support
from somcot.inference.model import on_entries
from somcot.plumbing.arrays import Floats
from somcot.plumbing.validation import check_count, check_rng
from somcot.problem import Problem, UnitProblem
from somcot.result import Status
from somcot.samples import Samples
from somcot.solvers.policy_iteration import iterate

if TYPE_CHECKING:
    pass

__all__ = ["SameProcessResult", "known_starts_differ", "permutation_test", "same_process"]

_PERMUTATION_TOLERANCE = 1e-6


@dataclass(frozen=True)
class SameProcessResult:
    """Outcome of a permutation test.

    Attributes
    ----------
    statistic : float
        Distance of the two estimated chains.
    pvalue : float
        Share of random regroupings of the recordings at least as far apart, the data themselves included.
    n_permutations : int
    null_distribution : ndarray, shape (n_permutations,)
        Distances of the regroupings.
    """

    statistic: float
    pvalue: float
    n_permutations: int
    null_distribution: Floats = field(repr=False)


def same_process(
    x: Samples,
    y: Samples,
    cost: ArrayLike,
    *,
    discount: float,
    n_permutations: int = 199,
    rng: int | np.random.Generator | None = None,
) -> SameProcessResult:
    """Permute whole episodes between two recordings; see `somcot.same_process`."""
    for name, data in (("x", x), ("y", y)):
        if not isinstance(data, Samples):
            raise TypeError(f"{name}: found {type(data).__name__}, expected Samples")
    if set(x.states) != set(y.states):
        only = sorted(map(repr, set(x.states) ^ set(y.states)))
        raise ValueError(
            f"y: the states differ from those of x ({', '.join(only[:5])} occur in one only); give both the same "
            "states=, and a cost for all of them"
        )
    if known_starts_differ(x, y):
        raise ValueError(
            "y: its known start law differs from that of x, so the two are different processes whatever was recorded; "
            "leave out initial= on both sides to test the recordings alone"
        )
    problem = Problem(_bare(x), _bare(y), cost, discount)
    order = [y.states.index(label) for label in x.states]
    unit = problem.unit_cost[:, order]
    n_permutations = check_count("n_permutations", n_permutations)
    generator = check_rng(0 if rng is None else rng)
    statistic, null = permutation_test(x, y, unit, problem.discount, n_permutations, generator)
    extreme = int((null >= statistic - 1e-9).sum())
    return SameProcessResult(
        problem.to_user(statistic),
        (1 + extreme) / (n_permutations + 1),
        n_permutations,
        problem.offset + problem.scale * null,
    )


def known_starts_differ(x: Samples, y: Samples) -> bool:
    """Whether both start laws are known and not the same: then episodes of one may not be dealt to the other."""
    if x.initial is None or y.initial is None:
        return False
    laws = [dict(zip(samples.states, law, strict=True)) for samples, law in ((x, x.initial), (y, y.initial))]
    return any(abs(laws[0].get(state, 0.0) - laws[1].get(state, 0.0)) > 1e-12 for state in {*x.states, *y.states})


def permutation_test(
    x: Samples, y: Samples, cost: Floats, discount: float, n_permutations: int, rng: np.random.Generator
) -> tuple[float, Floats]:
    """The plug-in distance of two recordings, and of random regroupings of their episodes.

    `cost` is the unit cost between the states of `x`. Rows that one group never visits take the pooled row.
    """
    pooled = x.merge(y)
    dealer = _Dealer(pooled, discount)
    labels = np.zeros(pooled.n_units, dtype=np.bool_)
    labels[: x.n_units] = True
    problem = UnitProblem(dealer.support, dealer.support, cost, discount)
    pairs = reachable_pairs(problem)
    guess: Floats | None = None
    values = np.empty(n_permutations + 1)
    for b in range(n_permutations + 1):
        task = UnitProblem(dealer.group(labels), dealer.group(~labels), cost, discount)
        found = iterate(task, pairs, threads=1, guess=guess, tolerance=_PERMUTATION_TOLERANCE)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        values[b] = found.distance(discount)
        if guess is None:
            guess = pairs.table(found.V)
        labels = rng.permutation(labels)
    return float(values[0]), values[1:]


class _Dealer:
    """Pooled recordings, ready to be dealt to groups: which entry of the support each transition is."""

    def __init__(self, pooled: Samples, discount: float) -> None:
        self.pooled = pooled
        chain = pooled.chain(check=False)
        self.support = chain.support
        n = chain.n_states
        self.slot = self.support.locate(pooled.now.astype(np.int64), pooled.following)
        self.lengths = np.ones(pooled.n_units, dtype=np.int64) if pooled.offsets is None else np.diff(pooled.offsets)
        self.starts: NDArray[np.int64] | None = None
        if not pooled.starts_known and pooled.offsets is not None:
            self.starts = self.support.locate(np.full(pooled.n_units, n), pooled.now[pooled.offsets[:-1]])

    def group(self, members: NDArray[np.bool_]) -> Support:
        """The kernel of one group of episodes, or of independent transitions."""
        if self.pooled.discount is not None:
            return self._refit(members)
        taken = np.repeat(members, self.lengths)
        counts = np.bincount(self.slot[taken], minlength=len(self.support.indices)).astype(np.float64)
        if self.starts is not None:
            counts += np.bincount(self.starts[members], minlength=len(counts))
        totals = self.support.row_sums(counts)[self.support.rows]
        shares = np.where(totals > 0, counts / np.maximum(totals, 1.0), self.support.probabilities)
        return Support(self.support.indptr, self.support.indices, shares)

    def _refit(self, members: NDArray[np.bool_]) -> Support:
        return on_entries(self.support, self.pooled.take(np.flatnonzero(members)).chain(check=False))


def _bare(samples: Samples) -> MarkovChain:
    """A chain with the states of the data and nothing else, for checking costs."""
    from scipy.sparse import eye_array

    return MarkovChain(eye_array(samples.n_states, format="csr"), states=samples.states)
