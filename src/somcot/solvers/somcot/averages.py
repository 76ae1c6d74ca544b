"""Diagnosis of a SOMCOT run: the appendix's advice on step sizes, and where the data are too few.

SOMCOT has no error bound for a single run. But it has counted its transitions, and the chain most likely to have
generated them can be solved exactly (`recorded.flow` fits it: the transitions are samples of the occupancy). The
bounds hold for the distance of the fitted chains only. If SOMCOT's value is outside by more than sampling error
explains, the run has not converged.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot import steps
from somcot.couplings import Coupling, Residuals, flow_residual
from somcot.plumbing.arrays import Floats, Ints, Places
from somcot.plumbing.notes import Note, collected
from somcot.problem import Problem
from somcot.result import Bounds, Duals, Status
from somcot.solvers.somcot.state import CountState, State, span
from somcot.solvers.somcot.updates import Edges, Row, Sums, lengths

if TYPE_CHECKING:
    from somcot.chains import MarkovChain

__all__ = [
    "ENDS", "TRACE", "Averages", "CountedDistance", "Fed", "FittedPair", "all_rows", "averages", "compare", "coupling",
    "duals", "estimate", "fit", "forecast", "law_of", "message", "noted", "notes", "ordinary", "residuals",
    "settle_trace", "snapshot", "trace_columns", "unit_distance", "value_spread", "violations", "width",
]  # fmt: skip


# --- From the sums of a SOMCOT run to averages, residuals and the distance.

DUALS_LIMIT = 1e8  # entries; beyond that a sparse run does not spread its duals out
TRANSPORT_LIMIT = 2500  # pairs of first states; beyond that their coupling is not looked for


_NONE = np.zeros(0)  # stands for sums that were not taken


class Averages(NamedTuple):
    """Means over a stretch of iterates, in the unit of the cost's range and with the extra start state."""

    n: int
    state_law: Floats  # (m_x, m_y)
    next_law: Floats
    encoder: Floats  # (m_x, m_y)
    decoder: Floats  # (m_y, m_x)
    marginal_x: Floats  # flat, as PairSide.alpha
    marginal_y: Floats
    alpha_x: Floats  # flat; duals are weighted by the primal rates
    alpha_y: Floats
    V: Floats  # (m_x, m_y)
    mu: Floats


def snapshot(state: State) -> Sums:
    """Sums over all iterates so far, with every row brought up to date; the state stays as it is."""
    x, y, pairs = state.x, state.y, state.pairs
    k = state.k
    late = pairs.H[0] - pairs.H_at
    return Sums(
        k,
        float(pairs.H[0]),
        pairs.p_sum.copy(),
        pairs.q_sum.copy(),
        x.lambda_sum + (k - x.since)[:, None] * x.lambda_,
        y.lambda_sum + (k - y.since)[:, None] * y.lambda_,
        x.tally - x.alpha / state.rates.alpha_x,
        y.tally - y.alpha / state.rates.alpha_y,
        x.log + np.repeat(late, lengths(x.offset)) * x.alpha,
        y.log + np.repeat(late, lengths(y.offset)) * y.alpha,
        pairs.W.copy(),
        state.mu_sum.copy(),
    )


def width(state: State) -> int:
    """Numbers of a row of a `TraceBuffer`."""
    x, y = state.x, state.y
    return 2 + 2 * state.n_rows + x.lambda_.size + len(x.alpha) + y.lambda_.size + len(y.alpha)


def noted(state: State, row: Floats) -> Sums:
    """The sums that a row of a `TraceBuffer` holds; those of the duals and of mu are not among them."""
    x, y, n = state.x, state.y, state.n_rows
    ends = np.cumsum([2, n, n, x.lambda_.size, len(x.alpha), y.lambda_.size])
    _, p, q, encoder, marginal_x, decoder, marginal_y = np.split(row, ends)
    maps = encoder.reshape(x.lambda_.shape), decoder.reshape(y.lambda_.shape)
    return Sums(int(row[0]), float(row[1]), p, q, *maps, marginal_x, marginal_y, _NONE, _NONE, _NONE, _NONE)


def averages(state: State, now: Sums | None = None, mark: Sums | None = None) -> Averages:
    """Means over the last share of the iterates, or over all of them while too few of that share are done.

    The current ones, or those of earlier sums.
    """
    if now is None:
        now, mark = snapshot(state), state.mark
    if mark is None or now.k - mark.k < state.settings.average * now.k:
        return _mean(state, now, None)
    return _mean(state, now, mark)


def _mean(state: State, now: Sums, mark: Sums | None) -> Averages:
    def part(name: str) -> Any:
        value = getattr(now, name)
        left_out = isinstance(value, np.ndarray) and not value.size
        return value if mark is None or left_out else value - getattr(mark, name)

    # Duals are averaged with the primal rates as weights: log mu holds those sums already.
    n, H, shape = part("k"), part("H"), state.x.lambda_.shape
    if not now.A.size:
        alpha_x, alpha_y, V = _NONE, _NONE, np.zeros(shape)
    elif H > 0:
        alpha_x, alpha_y, V = part("A") / H, part("B") / H, -part("W") / (H * state.settings.discount)
    else:
        alpha_x, alpha_y, V = state.x.alpha, state.y.alpha, state.pairs.V
    return Averages(
        n,
        part("state_law").reshape(shape) / n,
        part("next_law").reshape(shape) / n,
        part("encoder") / n,
        part("decoder") / n,
        np.maximum(part("marginal_x") / n, 0.0),
        np.maximum(part("marginal_y") / n, 0.0),
        alpha_x,
        alpha_y,
        V.reshape(shape),
        part("mu") / n,
    )


def residuals(state: State, mean: Averages, counts: tuple[Ints | None, Ints | None] = (None, None)) -> Residuals:
    """The paper's three violations, against the occupancies that are known or else those seen so far."""
    # Known chains have an exact occupancy; for others only the observed one is available.
    seen = [now if then is None else then for now, then in zip((state.counts_x, state.counts_y), counts, strict=True)]
    nu_x = _occupancy(state, state.known[0], seen[0], state.initial_x)
    nu_y = _occupancy(state, state.known[1], seen[1], state.initial_y)
    return violations(state, mean, nu_x, nu_y)


def violations(state: State, mean: Averages, nu_x: Floats, nu_y: Floats) -> Residuals:
    """The same against occupancies of all transitions, those of the extra start state included."""
    discount = state.settings.discount
    start = state.pairs.start.reshape(mean.state_law.shape) / (1 - discount)
    n_y = mean.state_law.shape[1]
    rows = np.arange(state.n_rows)
    return Residuals(
        flow_residual(mean.state_law, mean.next_law, start, discount),
        _causal(mean.marginal_x, state.x.offset, state.edges_x, rows // n_y, nu_x, mean.encoder.ravel()),
        _causal(mean.marginal_y, state.y.offset, state.edges_y, rows % n_y, nu_y, mean.decoder.T.ravel()),
    )


def duals(state: State, mean: Averages, scale: float) -> Duals | None:
    """Averaged multipliers with the paper's axes, in the unit of the user's cost."""
    n_x, n_y = state.cost.shape
    if n_x * n_y * (n_x + n_y) > DUALS_LIMIT and state.settings.support != "full":
        return None
    rows = np.arange(state.n_rows).reshape(mean.V.shape)[:n_x, :n_y]
    alpha_x = _spread(mean.alpha_x, state.x.offset, state.edges_x, rows, np.arange(n_x)[:, None], n_x)
    alpha_y = _spread(mean.alpha_y, state.y.offset, state.edges_y, rows, np.arange(n_y)[None, :], n_y)
    alpha_x *= scale
    alpha_y *= scale
    return Duals(alpha_x.transpose(0, 2, 1), alpha_y, scale * mean.V[:n_x, :n_y])


def coupling(state: State, mean: Averages, law: Floats) -> Coupling | None:
    """The averaged mu, without the extra start state; `law` is its law of state pairs."""
    if not mean.mu.size:
        return None
    (n_x, n_y), (m_x, m_y) = state.cost.shape, mean.V.shape
    if state.settings.support == "full":
        x, y, next_x, next_y = np.indices((m_x, m_y, m_x, m_y)).reshape(4, -1)
    else:
        own_x, own_y = state.edges_x.source, state.edges_y.source
        e, f = np.indices((len(own_x), len(own_y))).reshape(2, -1)
        x, y, next_x, next_y = own_x[e], own_y[f], state.edges_x.target[e], state.edges_y.target[f]
    mass = mean.mu.ravel()
    keep = (mass > 0) & (x < n_x) & (next_x < n_x) & (y < n_y) & (next_y < n_y)
    x, y, next_x, next_y = (index[keep].astype(np.int32) for index in (x, y, next_x, next_y))
    mass = mass[keep]
    if state.extra:  # what flows back into the extra state stays in its pair
        own = np.bincount(x * n_y + y, weights=mass, minlength=n_x * n_y).reshape(n_x, n_y)
        mass = mass * np.divide(law, own, out=np.zeros_like(own), where=own > 0)[x, y]
    return Coupling((n_x, n_y), x, y, next_x, next_y, mass, initial_distribution(state, mean))


def ordinary(state: State, law: Floats) -> Floats:
    """A distribution over pairs without the extra initial state; at first the product of the initial distributions."""
    n_x, n_y = state.cost.shape
    part = law[:n_x, :n_y]
    total = part.sum()
    return np.asarray(part / total if total > 0 else np.outer(state.initial_x, state.initial_y))


def unit_distance(state: State, state_law: Floats) -> float:
    """<law, c>, computed so that shifting or scaling the cost shifts or scales it, and within its range."""
    law = ordinary(state, state_law)
    # Clipped, because sums of a law round to 1 + 1e-16, and a distance above max c would look wrong.
    low, high, scale = float(state.cost.min()), float(state.cost.max()), span(state.cost)
    return min(max(low + scale * float((law * ((state.cost - low) / scale)).sum()), low), high)


def initial_distribution(state: State, mean: Averages) -> Floats:
    """Law of the first pair of states: the product, or with two random starts the cheapest coupling for V."""
    product = np.outer(state.initial_x, state.initial_y)
    rows, columns = np.flatnonzero(state.initial_x), np.flatnonzero(state.initial_y)
    # With one deterministic start the product is the only coupling; a large linear program would be too costly here.
    if not state.extra or len(rows) * len(columns) > TRANSPORT_LIMIT:
        return product
    from scipy.optimize import linprog

    n, m = len(rows), len(columns)
    margins = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    wanted = np.concatenate([state.initial_x[rows], state.initial_y[columns]])
    plan = linprog(mean.V[np.ix_(rows, columns)].ravel(), A_eq=margins, b_eq=wanted)
    if not plan.success:
        return product
    law = np.zeros_like(product)
    law[np.ix_(rows, columns)] = np.maximum(plan.x, 0.0).reshape(n, m)
    return np.asarray(law / law.sum())


def _occupancy(state: State, known: Floats | None, counts: Ints, initial: Floats) -> Floats:
    """nu, known or observed, with the extra start state when there is one."""
    nu = np.asarray(counts / max(1, counts.sum()) if known is None else known, dtype=np.float64)
    if not state.extra:
        return nu
    n, discount = len(nu), state.settings.discount
    larger = np.zeros((n + 1, n + 1))
    larger[:n, :n] = discount * nu
    larger[n, :n] = (1 - discount) * initial
    return larger


def _causal(marginal: Floats, offset: Places, edges: Edges, own: Ints, nu: Floats, conditional: Floats) -> float:
    """Sum of |m - nu lambda| over the entries mu may use, plus the occupancy of those it may not."""
    if edges.mask.all():  # every row has every target: there is nothing to look up, which takes ten times as long
        expected = (nu[own] * conditional[:, None]).ravel()
    else:
        row = np.repeat(np.arange(len(own)), lengths(offset))
        edge = np.arange(len(row)) - offset.astype(np.int64)[row] + edges.first[own[row]]
        expected = nu[own[row], edges.target[edge]] * conditional[row]
    return float(np.abs(marginal - expected).sum() + nu[~edges.mask].sum())


def _spread(values: Floats, offset: Places, edges: Edges, rows: Ints, own: Ints, n: int) -> Floats:
    """Flat values of some rows as a full array (rows..., target)."""
    begins, last = offset.astype(np.int64), max(len(values) - 1, 0)
    full = np.empty((*rows.shape, n))
    # Slice by slice: indices of all entries at once would take several times the memory of the answer.
    for part, row, states in zip(full, rows, np.broadcast_to(own, rows.shape), strict=True):
        slot = edges.slot[states][..., :n]
        place = np.minimum(begins[row][..., None] + np.maximum(slot, 0), last)
        part[...] = np.where(slot >= 0, values[place], 0.0)
    return full


# --- The trace, from the sums that the kernels left on the way.

TRACE = ("step", "distance", "recent", "flow", "causal_x", "causal_y")


def trace_columns(rows: list[tuple[float, ...]]) -> dict[str, Floats]:
    """The rows of a trace by name."""
    return dict(zip(TRACE, np.array(rows).reshape(-1, len(TRACE)).T, strict=True))


def settle_trace(state: State | CountState) -> None:
    """Compute the rows of the trace that are stored as sums; those of counted runs are computed on access."""
    if isinstance(state, State) and state.pending:
        state.trace = [*state.trace, *rows_of(state, state.pending, state.last)]
        state.last = noted(state, state.pending[-1].now).state_law
        state.pending = []


def rows_of(state: State, pending: Sequence[Row], last: Floats | None) -> list[tuple[float, ...]]:
    """Rows of the trace from their sums; of the state only what never changes is read."""
    rows = []
    for row in pending:
        now = noted(state, row.now)
        mean = averages(state, now, row.mark)
        recent = now.state_law if last is None else now.state_law - last
        laws = (mean.state_law, recent.reshape(mean.state_law.shape))
        values = (unit_distance(state, law) for law in laws)
        rows.append((float(now.k), *values, *residuals(state, mean, (row.counts_x, row.counts_y))))
        last = now.state_law
    return rows


def all_rows(
    state: State, before: tuple[tuple[float, ...], ...], rows: tuple[tuple[float, ...], ...],
    pending: tuple[Row, ...], last: Floats | None, shift: int,
) -> dict[str, Floats]:  # fmt: skip
    """The whole trace, when it is first read."""
    own = [*rows, *rows_of(state, pending, last)]
    return trace_columns([*before, *((shift + row[0], *row[1:]) for row in own)])


def estimate(state: State) -> float:
    """The current distance."""
    return unit_distance(state, averages(state).state_law)


# --- The chains most likely to have sent the transitions, and their exact distance, which every run is compared with.

MOST_SECONDS = 2.0  # of forecast work
OFF = 0.01  # of the cost's range: from here on a run has not converged
SWEEPS, NEWTON_STEPS, FLOPS = 6, 20, 5e9  # of the exact solver, of the fit, of a core in a second


class Fed(NamedTuple):
    """A problem, and the transitions that were counted."""

    cost: Floats
    discount: float
    initial_x: Floats
    initial_y: Floats
    counts_x: NDArray[Any]
    counts_y: NDArray[Any]


class FittedPair(NamedTuple):
    """The maximum-likelihood chains of the transitions, and notes of the fit."""

    x: MarkovChain
    y: MarkovChain
    remarks: tuple[Note, ...]


class CountedDistance(NamedTuple):
    """The distance of the fitted chains with its bounds, and notes on it.

    `distance` is None, and the bounds are the range of the cost, when the work would have taken too long.
    """

    distance: float | None
    bounds: Bounds
    remarks: tuple[Note, ...] = ()

    def is_off(self, distance: float, scale: float, tolerance: float = OFF) -> bool:
        """Whether the distance of a run differs from that of the chains fitted to its transitions."""
        return self.distance is not None and abs(distance - self.distance) > tolerance * scale

    def verdict(self, distance: float, scale: float) -> tuple[Note, ...]:
        """The same as notes, with those of the fit."""
        if self.distance is None or not self.is_off(distance, scale):
            return self.remarks
        low, high = sorted((distance, self.distance))
        digits = max(0, 3 - math.ceil(math.log10(high - low)))
        values = {"distance": f"{distance:.{digits}f}", "counted": f"{self.distance:.{digits}f}"}
        return (Note("not-converged", **values), *self.remarks)


def fit(fed: Fed) -> FittedPair:
    """Fit both chains to the counts; if a fit fails, its rows are normalised counts, with a note."""
    from somcot.recorded.flow import flow_mle  # loaded when it is needed

    # A failed fit does not end the run: normalised counts are a consistent estimate as well.
    with collected() as failed:
        x = flow_mle(fed.counts_x, fed.initial_x, fed.discount).chain
        y = flow_mle(fed.counts_y, fed.initial_y, fed.discount).chain
    return FittedPair(x, y, tuple(failed))


def law_of(chain: MarkovChain, discount: float, extra: bool) -> tuple[Floats, Floats]:
    """Kernel and occupancy of states, with an extra state in front of a random start where there is one."""
    # Solvers of linear systems may return -1e-18 where nothing is visited.
    P, visits = _dense(chain), np.maximum(chain.state_occupancy(discount), 0.0)
    if not extra:
        return P, visits / visits.sum()
    n = len(P)
    larger = np.zeros((n + 1, n + 1))
    larger[:n, :n], larger[n, :n] = P, chain.initial
    return larger, np.append(discount * visits / visits.sum(), 1.0 - discount)


def value_spread(fed: Fed, fitted: FittedPair) -> float:
    """Standard deviation, under nu_X x nu_Y, of the value V = c + g P V Q' of the independent coupling."""
    V = (fed.cost - fed.cost.min()) / span(fed.cost)
    A, B, h = _dense(fitted.x), _dense(fitted.y).T, fed.discount
    weight = np.outer(*(np.maximum(chain.state_occupancy(fed.discount), 0.0) for chain in fitted[:2]))
    for _ in range(math.ceil(math.log2(12.0 / (1.0 - fed.discount)))):  # each round doubles the horizon
        V, A, B, h = V + h * (A @ V @ B), A @ A, B @ B, h * h
    # It is a scale of steps, and BLAS has other last bits on other machines: six digits are the same on all.
    return float(f"{np.sqrt((weight * (V - (weight * V).sum()) ** 2).sum()):.6g}")


def _dense(chain: MarkovChain) -> Floats:
    P = chain.transition
    return P if isinstance(P, np.ndarray) else np.asarray(P.toarray())


def forecast(counts_x: NDArray[Any], counts_y: NDArray[Any]) -> float:
    """Approximate upper bound of the seconds for fitting and solving, from the sizes alone."""
    sides = (counts_x, counts_y)
    sizes = [(int(np.count_nonzero(c.sum(axis=0) + c.sum(axis=1))), int(np.count_nonzero(c))) for c in sides]
    fitting = sum(NEWTON_STEPS * n**3 / 3 / FLOPS for n, _ in sizes)
    k, m = (entries / max(1, n) for n, entries in sizes)
    per_pair = 0.4e-6 + 0.06e-6 * (k + m) + 0.004e-6 * k * m  # two to three times what dense and sparse chains took
    return fitting + SWEEPS * sizes[0][0] * sizes[1][0] * per_pair


def compare(fed: Fed, fitted: FittedPair | None = None, worth: float = 0.0) -> CountedDistance:
    """The exact distance of the fitted chains, if it is forecast to take at most 2 seconds, or `worth` seconds."""
    seconds = forecast(fed.counts_x, fed.counts_y)
    if seconds > max(MOST_SECONDS, worth):
        note = Note("counted-not-solved", seconds=seconds)
        return CountedDistance(None, Bounds(float(fed.cost.min()), float(fed.cost.max())), (note,))
    from somcot.solvers.exact import solve as solve_exactly

    x, y, remarks = fitted or fit(fed)
    answer = solve_exactly(Problem(x, y, fed.cost, fed.discount))
    return CountedDistance(answer.distance, answer.bounds, remarks)


# --- Diagnosis of a run: the appendix's advice on step sizes, and where the data are too few.

NEAR_ZERO = 0.05  # of the cost's range
VIOLATED = 0.3  # sum of the three l1 residuals; 6 is the most there can be
STEPS_PER_PAIR = 200


ENDS = {
    Status.EXHAUSTED: "a stream ended",
    Status.INTERRUPTED: "interrupted",
    Status.FINISHED: "all planned steps done",
    Status.CONVERGED: "all planned steps done",
}


def message(state: State, status: Status, n: int, violation: float, all_steps: int | None) -> str:
    """How a run of Algorithm 2 ended; `all_steps` is given for a run in phases."""
    which = "all" if n == state.k else f"the last {n:,}"
    ends = ENDS if all_steps is None else ENDS | {Status.FINISHED: "time is up"}
    if all_steps is None:
        work = f"{state.k:,} of {state.settings.n_steps:,} steps"
    else:
        whole = "the last finished phase" if state.k == state.settings.n_steps else "the first phase, cut short,"
        work = f"{all_steps:,} steps; the answer is that of {whole} of {state.k:,}"
    violated = f"averages over {which} iterates violate the constraints by {violation:.2g} in total"
    return f"{ends[status]} after {work}; {violated}"


def notes(
    state: State,
    distance: float,
    residuals: Residuals,
    labels: tuple[tuple[Hashable, ...], tuple[Hashable, ...]],
    n_steps: int,
    own_rates: bool = True,
) -> Iterator[Note]:
    """Notes on a run, the most important first. Advice on rates is for Algorithm 2 alone."""
    n_x, n_y = state.cost.shape
    advised = STEPS_PER_PAIR * n_x * n_y
    advice = list(_of_rates(state, distance, sum(residuals))) if own_rates else []
    yield from advice
    small = any(note.code == "dual-step-small" for note in advice)
    if n_steps < advised:
        yield Note("too-few-steps", steps=n_steps, n_x=n_x, n_y=n_y, advised=advised)
    elif own_rates and sum(residuals) > VIOLATED and not small:
        yield Note("constraints-violated", violation=float(sum(residuals)))
    for name, counts, initial, own in (
        ("x", state.counts_x, state.initial_x, labels[0]),
        ("y", state.counts_y, state.initial_y, labels[1]),
    ):
        missing = _unseen(counts, initial)
        if missing.size:
            shown = ", ".join(repr(own[i]) for i in missing[:5]) + (", ..." if missing.size > 5 else "")
            yield Note("unseen-in-stream", name, n=int(missing.size), states=shown)


def _of_rates(state: State, distance: float, violation: float) -> Iterator[Note]:
    """The appendix's advice on step sizes."""
    n_x, n_y = state.cost.shape
    low, scale = float(state.cost.min()), float(state.cost.max() - state.cost.min())
    rates = state.settings.steps
    dual = max(rates.alpha_x, rates.alpha_y, rates.V)
    usual = steps.auto(n_x, n_y, state.k, scale or 1.0).V
    near_zero = distance - low < NEAR_ZERO * scale
    small = scale > 0 and violation > VIOLATED and (near_zero or dual < usual / 4)
    if small:
        where = "near its minimum" if near_zero else "too low"
        yield Note("dual-step-small", where=where, violation=float(violation), relative=_relative(dual, usual))
    elif scale > 0 and (dual > 4 * usual or (dual > usual and _rising(state, scale))):
        yield Note("dual-step-large", relative=_relative(dual, usual))


def _relative(dual: float, usual: float) -> str:
    return f"now {dual:.3g}, somcot.steps.auto says {usual:.3g} for this many steps"


def _rising(state: State, scale: float) -> bool:
    """Whether the estimates of the last three quarters of the run rise steadily."""
    settle_trace(state)
    recent = np.array([row[2] for row in state.trace])
    if len(recent) < 8:
        return False
    second, third, fourth = (float(part.mean()) for part in np.array_split(recent, 4)[1:])
    return second < third < fourth and fourth - second > 0.005 * scale


def _unseen(counts: Ints, initial: Floats) -> Ints:
    return np.flatnonzero((counts.sum(axis=0) + counts.sum(axis=1) == 0) & (initial == 0))
