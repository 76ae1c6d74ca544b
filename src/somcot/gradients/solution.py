"""Policy iteration on a stack of problems, from where the last one ended."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from somcot.bellman.sweep import Sweep
from somcot.gradients.stack import Stack
from somcot.plumbing.arrays import Floats
from somcot.plumbing.discounting import Kernel, discounted_blocks
from somcot.plumbing.errors import ConvergenceWarning, warn

__all__ = ["ROUNDING", "Solved", "WarmStart", "solve"]

_EPS = float(np.finfo(np.float64).eps)
ROUNDING = 64.0 * _EPS
_MAX_SWEEPS = 200


@dataclass(frozen=True, eq=False)
class Solved:
    """A stack of problems with the optimal potential V (unit cost, start laws included) and its couplings."""

    stack: Stack
    sweep: Sweep
    V: Floats
    kernel: Kernel

    @property
    def threads(self) -> int:
        """Threads to use."""
        return self.sweep.threads

    @cached_property
    def occupancy(self) -> Floats:
        """Discounted occupancy of each pair, 1 in sum over each problem, (n_problems, n_x * n_y + 1).

        The start laws stand last with (1 - discount) / discount, which makes what leaves them the first pairs.
        """
        stack = self.stack
        source = np.zeros((stack.shape[0], stack.block))
        source[:, -1] = (1.0 - stack.discount) / stack.discount
        law = self.adjoint(source)
        law = np.maximum(law, 0.0)  # pairs that are not visited are 0 already: no step of the solver reaches them
        law[:, :-1] /= law[:, :-1].sum(axis=1, keepdims=True)
        return law

    @cached_property
    def unit_value(self) -> Floats:
        """Distances for the unit cost, (n_problems,)."""
        visits = self.occupancy[:, :-1]
        return np.asarray((visits * self.stack.cost.reshape(visits.shape)).sum(axis=1))

    @cached_property
    def unit_metric(self) -> Floats:
        """Distances of all pairs for the unit cost, (n_problems, n_x, n_y)."""
        stack = self.stack
        table = stack.table(self.V).reshape(stack.shape)
        return np.clip((1.0 - stack.discount)[:, None, None] * table, 0.0, 1.0)

    def adjoint(self, source: Floats) -> Floats:
        """Solve (I - discount * kernel') f = source in each problem, (n_problems, n_x * n_y + 1)."""
        b = np.ascontiguousarray(source.ravel())
        turned = self.kernel.transpose()
        return discounted_blocks(turned, b, self.stack.discount, np.zeros_like(b), self.threads).reshape(source.shape)

    def forward(self, source: Floats) -> Floats:
        """Solve (I - discount * kernel) v = source, (n_problems * (n_x * n_y + 1),)."""
        return discounted_blocks(self.kernel, source, self.stack.discount, np.zeros_like(source), self.threads)


class WarmStart:
    """Where the last call ended, so that the next one, after a small step, begins there.

    Hand the same record to every call of a training loop, one for each loss term: the last potential and the last
    couplings are mended for the new kernels (dual simplex), which takes a fraction of a fresh start. Answers do not
    depend on it. Another number of problems in the batch starts afresh; other numbers of states are an error. Copies
    and pickles of it are empty.

    Examples
    --------
    >>> warm = WarmStart()
    >>> warm.clear()
    >>> warm
    WarmStart(empty)
    """

    def __init__(self) -> None:
        self._last: Solved | None = None

    def clear(self) -> None:
        """Forget the last call."""
        self._last = None

    def __repr__(self) -> str:
        if self._last is None:
            return "WarmStart(empty)"
        n_problems, n_x, n_y = self._last.stack.shape
        return f"WarmStart({n_problems} problem{'s' * (n_problems != 1)} of {n_x} x {n_y} states)"

    def __reduce__(self) -> tuple[Any, ...]:
        return WarmStart, ()

    def _for(self, stack: Stack) -> Solved | None:
        """The last call, if it was about problems like these."""
        if self._last is None:
            return None
        known = self._last.stack.shape
        if known[1:] != stack.shape[1:]:
            raise ValueError(
                f"warm: holds a problem of {known[1]} x {known[2]} states, this one has {stack.shape[1]} x "
                f"{stack.shape[2]}; use a WarmStart for each problem, or clear() it"
            )
        return self._last if known == stack.shape else None


def solve(stack: Stack, warm: WarmStart | None = None, threads: int | None = None) -> Solved:
    """Improve and evaluate until every problem is solved to rounding."""
    if warm is not None and not isinstance(warm, WarmStart):
        raise TypeError(f"warm: found {type(warm).__name__}, expected a WarmStart")
    last = None if warm is None else warm._for(stack)
    sweep = stack.sweep(threads)
    cost = stack.extended_cost
    V = cost.copy() if last is None else last.V.copy()
    if last is not None:
        # The old potential, not a better guess: it is what the old bases are dual feasible for.
        sweep.resume(stack.table(V), last.sweep)
    gamma = np.repeat(stack.discount, stack.block)
    for step in range(_MAX_SWEEPS):
        found = sweep.improve(stack.table(V))
        residual = float(np.abs(cost + gamma * found.value[:-1] - V).max())
        kernel, _ = sweep.kernel()
        if (step > 0 and found.changed == 0) or residual <= ROUNDING * (1.0 + float(V.max())):
            break
        V = discounted_blocks(kernel, cost, stack.discount, V, sweep.threads)
    else:
        warn(
            f"stopped after {_MAX_SWEEPS} sweeps with a residual of {residual:.1g}; a smaller discount helps",
            ConvergenceWarning,
        )
    solved = Solved(stack, sweep, V, kernel)
    if warm is not None:
        warm._last = solved
    return solved
