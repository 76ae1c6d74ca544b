"""How the state of a run grows when transitions turn up that its support does not know yet."""

from __future__ import annotations

import numpy as np

from somcot.plumbing.arrays import Floats, Ints
from somcot.solvers.somcot.records import PAIR_FIELDS, SIDE_FIELDS, Edges, Side, Sums, lengths
from somcot.solvers.somcot.state import State, build

__all__ = ["grow"]


def grow(state: State, edges_x: Edges, edges_y: Edges) -> State:
    """The same run on larger sets of transitions; new entries start as if their duals had been zero so far."""
    bigger = build(state.settings, state.cost, state.initial_x, state.initial_y, edges_x, edges_y)
    n_y, rows = state.edges_y.n_states, np.arange(state.n_rows)
    place_x = _places(state.x, bigger.x, rows // n_y, state.edges_x, edges_x)
    place_y = _places(state.y, bigger.y, rows % n_y, state.edges_y, edges_y)
    _move(state.x, bigger.x, place_x)
    _move(state.y, bigger.y, place_y)
    for name, field in PAIR_FIELDS.items():
        if field.saved:
            getattr(bigger.pairs, name)[...] = getattr(state.pairs, name)
    # A new entry may be far above the old ones of its row: every row has to be looked at again.
    bigger.pairs.bound[:] = np.inf
    if state.mu_sum.size:
        bigger.mu_sum[0] = _spread_coupling(state.mu_sum[0], state, bigger)
    bigger.mark = None if state.mark is None else _grow_sums(state.mark, state, bigger, place_x, place_y)
    bigger.counts_x, bigger.counts_y = state.counts_x, state.counts_y
    bigger.trace, bigger.last, bigger.pace, bigger.known = state.trace, state.last, state.pace, state.known
    return bigger


def _move(old: Side, new: Side, place: Ints) -> None:
    for name, field in SIDE_FIELDS.items():
        if field.axes == "edge":
            getattr(new, name)[place] = getattr(old, name)
        else:
            getattr(new, name)[...] = getattr(old, name)
    np.maximum(new.top, 0.0, out=new.top)  # alpha is 0 at the new entries


def _places(old: Side, new: Side, own: Ints, before: Edges, after: Edges) -> Ints:
    """Where each flat entry of `old` lies in `new`; own[r] is the chain's state in row r."""
    old_offset, new_offset = old.offset.astype(np.int64), new.offset.astype(np.int64)
    row = np.repeat(np.arange(len(own)), lengths(old.offset))
    edge = np.arange(len(row)) - old_offset[row] + before.first[own[row]]
    places: Ints = new_offset[row] + after.slot[own[row], before.target[edge]]
    return places


def _spread_coupling(values: Floats, state: State, bigger: State) -> Floats:
    places = []
    for before, after in ((state.edges_x, bigger.edges_x), (state.edges_y, bigger.edges_y)):
        places.append(after.first[before.source] + after.slot[before.source, before.target])
    result = np.zeros((len(bigger.edges_x.target), len(bigger.edges_y.target)))
    result[np.ix_(places[0], places[1])] = values.reshape(len(places[0]), len(places[1]))
    return result.ravel()


def _grow_sums(mark: Sums, state: State, bigger: State, place_x: Ints, place_y: Ints) -> Sums:
    def spread(values: Floats, place: Ints, size: int) -> Floats:
        result = np.zeros(size)
        result[place] = values
        return result

    n_x, n_y = len(bigger.x.alpha), len(bigger.y.alpha)
    mu = _spread_coupling(mark.mu[0], state, bigger)[None, :] if mark.mu.size else mark.mu
    return mark._replace(
        marginal_x=spread(mark.marginal_x, place_x, n_x),
        marginal_y=spread(mark.marginal_y, place_y, n_y),
        A=spread(mark.A, place_x, n_x),
        B=spread(mark.B, place_y, n_y),
        mu=mu,
    )
