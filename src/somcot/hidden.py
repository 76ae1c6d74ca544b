"""Hidden Markov chains: unobserved states and their emissions.

There are two different distances:

* *joint*: the pair (state, emission) is the state (`HiddenChain.joint`, `joint_cost`). A step of a coupling couples
  the next states and emissions of both sides jointly.
* *hidden state first*: the hidden chains with the cost `costs.emissions`, the transport cost between the emission
  distributions of two states. Each step couples the next states first, and then, conditional on both, the emissions.

The second restricts the couplings, so it is an **upper bound** of the first. Example: one state that emits a fair coin,
against a chain that draws one of two states and emits it; the first distance is 0, the second 1/2.
Neither is a distance between the emission processes alone, whose past does not determine the state.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from somcot.chains import MarkovChain
from somcot.core.pairs import all_pairs
from somcot.core.sweep import Sweep
from somcot.costs import check_cost
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_kind, check_labels, real_array
from somcot.problem import UnitProblem
from somcot.timed import TimeChain

__all__ = ["HiddenChain", "emission_cost", "joint_cost"]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class HiddenChain:
    """A hidden Markov chain with finitely many emissions.

    Parameters
    ----------
    transition : array_like, shape (n, n)
        Transition kernel of the hidden states.
    emissions : array_like, shape (n, m)
        ``emissions[i, o]`` is the probability that state i emits o.
    initial, states, normalize
        As for `somcot.MarkovChain`.
    symbols : sequence of hashable, optional
        Labels of the emissions; by default 0, 1, ..., m-1.

    Examples
    --------
    >>> coin = HiddenChain([[1.0]], [[0.5, 0.5]], symbols=["heads", "tails"])
    >>> coin
    HiddenChain(1 states, 2 symbols)
    >>> coin.joint().states
    ((0, 'heads'), (0, 'tails'))
    """

    chain: MarkovChain
    emissions: Floats
    symbols: tuple[Hashable, ...]

    def __init__(
        self,
        transition: ArrayLike | object,
        emissions: ArrayLike,
        initial: Hashable | ArrayLike = 0,
        *,
        states: Iterable[Hashable] | None = None,
        symbols: Iterable[Hashable] | None = None,
        normalize: bool = False,
    ) -> None:
        chain = MarkovChain(transition, initial, states=states, normalize=normalize)
        table = _laws("emissions", emissions, normalize=normalize)
        if len(table) != chain.n_states:
            raise ValueError(
                f"emissions: found {len(table)} rows for {chain.n_states} states; give exactly one per state"
            )
        # Symbols are numbered like states.
        names = range(table.shape[1]) if symbols is None else symbols
        object.__setattr__(self, "chain", chain)
        object.__setattr__(self, "emissions", table)
        object.__setattr__(self, "symbols", check_labels("symbols", names, table.shape[1], "symbol"))

    def joint(self) -> MarkovChain:
        """The chain of pairs (state, emission) of positive probability."""
        state, symbol = np.nonzero(self.emissions)
        mass = self.emissions[state, symbol]
        kernel = self.chain.transition
        dense = kernel if isinstance(kernel, np.ndarray) else kernel.toarray()
        labels = [(self.chain.states[i], self.symbols[o]) for i, o in zip(state, symbol, strict=True)]
        return MarkovChain(
            # The emission is independent of the past given the state,
            # so a step to (j, o) has probability P(i, j) e(j, o).
            dense[np.ix_(state, state)] * mass,
            self.chain.initial[state] * mass,
            states=labels,
            normalize=True,
        )

    def __repr__(self) -> str:
        return f"HiddenChain({self.chain.n_states} states, {len(self.symbols)} symbols)"


def joint_cost(x: HiddenChain, y: HiddenChain, cost: ArrayLike) -> Floats:
    """Expand a cost between symbols, (m_x, m_y), to the states of ``x.joint()`` and ``y.joint()``.

    Examples
    --------
    >>> chain = HiddenChain([[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.0, 1.0]])
    >>> joint_cost(chain, chain, [[0.0, 1.0], [1.0, 0.0]]).shape
    (3, 3)
    """
    check_kind("x", x, HiddenChain)
    check_kind("y", y, HiddenChain)
    table = check_cost(cost, len(x.symbols), len(y.symbols))
    return np.asarray(table[np.ix_(np.nonzero(x.emissions)[1], np.nonzero(y.emissions)[1])])


def emission_cost(emissions_x: ArrayLike, emissions_y: ArrayLike, cost: ArrayLike) -> Floats:
    """Transport cost between the emission distributions of two states; see `somcot.costs.emissions`.

    Examples
    --------
    >>> emission_cost([[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]).ravel().tolist()
    [0.5, 1.0]
    """
    tables = [_laws(name, table) for name, table in (("emissions_x", emissions_x), ("emissions_y", emissions_y))]
    table = check_cost(cost, tables[0].shape[1], tables[1].shape[1])
    # A chain of one step from states to symbols: its support has the emission rows, which `Sweep` can couple.
    supports = [TimeChain([rows]).support(0) for rows in tables]
    # The pairs are pairs of states; their steps lead to pairs of symbols.
    unit = UnitProblem(supports[0], supports[1], np.zeros((len(tables[0]), len(tables[1]))), 1.0)
    # Pairs of symbols, numbered row by row as the cost.
    everything = all_pairs(UnitProblem(supports[0], supports[1], table, 1.0))
    sweep = Sweep(unit, all_pairs(unit), targets=everything)
    return np.asarray(sweep.improve(np.ascontiguousarray(table)).value[:-1].reshape(unit.shape))


def _laws(name: str, table: ArrayLike, *, normalize: bool = False) -> Floats:
    """Check and normalise the rows of a table of probabilities."""
    rows = real_array(name, table, 2)
    if 0 in rows.shape:
        raise ValueError(f"{name}: shape is {rows.shape}, expected at least one state and one symbol")
    if rows.min() < 0.0:
        i, o = (int(k) for k in np.argwhere(rows < 0.0)[0])
        raise ValueError(f"{name}: the probability that state {i} emits {o} is {rows[i, o]:.6g}, expected at least 0")
    sums = rows.sum(axis=1)
    wrong = np.flatnonzero(sums <= 0.0 if normalize else ~(np.abs(sums - 1.0) <= 1e-8))
    if wrong.size:
        raise ValueError(f"{name}: row {int(wrong[0])} sums to {sums[wrong[0]]:.10g}, expected 1")
    # Divided even if not normalised: sums may be off by rounding.
    rows /= sums[:, None]
    rows.setflags(write=False)
    return rows
