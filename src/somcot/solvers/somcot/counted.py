"""The default of SOMCOT: count transitions, then solve the linear program of the counted chains.

Algorithm 2 takes one gradient step for each transition, and its duals have to travel far at a speed that the noise of
single transitions limits. Here transitions are only counted, which costs next to nothing. When an answer is wanted, the
chains most likely to have sent them are fitted (`recorded.flow`), and the paper's saddle iteration runs on those, from
a cold start. Four things differ from Algorithm 2; `algorithm.counted_step` has them in plain NumPy:

1. the occupancies nu are those of the fitted chains, in every iteration;
2. primal steps use extrapolated duals, 2 new - old, which stops the orbits around the saddle point;
3. dual steps are divided by the mass they act on, max(nu, m) + floor;
4. the rates come from sigma, the spread of the value of the independent coupling.

Between two answers the state is counts: a run may stop at any transition, resuming is trivial, and shards are added up.

The iteration comes with no convergence theorem. Each answer is compared with the exact distance of the same fitted
chains instead; a run that is off goes on by itself, and one that stays off says so.
"""
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import log
from somcot.plumbing.arrays import Floats, Ints
from somcot.result import Bounds
from somcot.solvers.somcot.averages import (
    Averages,
    CountedDistance,
    Fed,
    FittedPair,
    compare,
    fit,
    residuals,
    unit_distance,
)  # fmt: skip
from somcot.solvers.somcot.state import CountSettings, CountState, RunSettings, Snapshot, State, build, period_of, span
from somcot.solvers.somcot.sweeps import (
    DenseWorkspace,
    ObservedWorkspace,
    add_full_coupling,
    add_observed_coupling,
    factors,
    pair_laws,
    reference,
    sweep_all,
    sweep_products,
    sweep_rows,
)  # fmt: skip
from somcot.solvers.somcot.updates import HEAVY, PairSide, PairState, Transitions, mostly, normalise
from somcot.steps import Steps

if TYPE_CHECKING:
    from somcot.chains import MarkovChain

__all__ = ["Solution", "count", "n_iterations", "row", "rows", "settle", "solve"]


# --- One iteration, compiled.


class CountedRates(NamedTuple):
    """Step sizes of the counted iteration, in units of the cost's range."""

    eta: float
    eta_lambda: float
    b: float
    b_V: float
    floor: float
    discount: float
    radius_alpha: float
    radius_v: float


class CountedLaw(NamedTuple):
    """One fitted chain: transitions of state s are at ``first[s]:first[s + 1]``."""

    first: Ints
    nu: Floats  # occupancy of each transition
    kernel: Floats  # its probability
    visits: Floats  # occupancy of each state


class Means(NamedTuple):
    """Sums over the averaged iterates that the records of Algorithm 2 have no place for."""

    marginal_x: Floats  # flat, as PairSide.alpha
    marginal_y: Floats
    alpha_x: Floats
    alpha_y: Floats
    V: Floats


@part
def _move_side(
    side: PairSide, law: CountedLaw, pairs: PairState, rates: CountedRates, own: int, other: int, scale: float,
    averaged: bool, marginal_sum: Floats, alpha_sum: Floats,
) -> None:  # fmt: skip
    """Duals of one causality constraint, then with their extrapolations log mu's factor and log lambda."""
    offset, alpha, log_, mass, lambda_ = side.offset, side.alpha, side.log, side.mass, side.lambda_
    eta, b, floor, R = rates.eta, rates.b, rates.floor, rates.radius_alpha
    n_own, n_other = lambda_.shape
    for s in range(n_own):
        first = law.first[s]
        degree = law.first[s + 1] - first
        for j in range(n_other):
            r = own * s + other * j
            place, share, gradient, top = offset[r], lambda_[s, j], 0.0, -np.inf
            if averaged:
                for i in range(degree):
                    marginal_sum[place + np.uint64(i)] += scale * mass[place + np.uint64(i)]
                    alpha_sum[place + np.uint64(i)] += alpha[place + np.uint64(i)]
            for i in range(degree):
                e = place + np.uint64(i)
                m, nu, old = scale * mass[e], law.nu[first + i], alpha[e]
                new = old - b * (m - nu * share) / (max(nu, m) + floor)
                new = min(max(new, -R), R)
                ahead = 2.0 * new - old
                alpha[e] = new
                log_[e] += eta * ahead
                gradient += law.kernel[first + i] * ahead
                top = max(top, ahead)
            side.log_lambda[s, j] -= rates.eta_lambda * gradient
            if degree > 0:
                pairs.bound[r] += eta * top
        normalise(side.log_lambda[s], lambda_[s], side.lambda_sum[s], 1 if averaged else 0)


@part
def _move_pairs(
    pairs: PairState, x: CountedLaw, y: CountedLaw, rates: CountedRates, scale: float, averaged: bool, V_sum: Floats
) -> None:
    """V, and with its extrapolation the factor W."""
    V, W, p, q, gamma, R = pairs.V, pairs.W, pairs.p, pairs.q, rates.discount, rates.radius_v
    n_y, lowest = y.visits.shape[0], np.inf
    for r in range(V.shape[0]):
        now, following, old = scale * p[r], scale * q[r], V[r]
        if averaged:
            pairs.p_sum[r] += now
            pairs.q_sum[r] += following
            V_sum[r] += old
        visits = max(min(x.visits[r // n_y], y.visits[r % n_y]), max(now, gamma * following))
        new = old - rates.b_V * (now - pairs.start[r] - gamma * following) / (visits + rates.floor)
        new = min(max(new, -R), R)
        ahead = 2.0 * new - old
        V[r] = new
        W[r] -= rates.eta * gamma * ahead
        lowest = min(lowest, ahead)
    pairs.drift[0] -= rates.eta * gamma * lowest


@part
def _move(
    x: PairSide, y: PairSide, pairs: PairState, law_x: CountedLaw, law_y: CountedLaw, rates: CountedRates, means: Means,
    Z: float, averaged: bool,
) -> None:  # fmt: skip
    """All six updates, once the marginals of mu are in `mass`, `p` and `q` (to be divided by Z)."""
    scale, n_y = 1.0 / Z, y.lambda_.shape[0]
    _move_side(x, law_x, pairs, rates, n_y, 1, scale, averaged, means.marginal_x, means.alpha_x)
    _move_side(y, law_y, pairs, rates, 1, n_y, scale, averaged, means.marginal_y, means.alpha_y)
    _move_pairs(pairs, law_x, law_y, rates, scale, averaged, means.V)
    pairs.H[0] += rates.eta
    pairs.H_at[:] = pairs.H[0]  # every row moves in every iteration: none is put off
    if pairs.p[pairs.heavy[0]] * scale < HEAVY:
        pairs.heavy[0] = np.argmax(pairs.p)
    pairs.step[0] += 1


@kernel(name="SOMCOT on counted transitions", seconds=6)
def iterate_observed(
    x: PairSide, y: PairSide, pairs: PairState, rates: CountedRates, work: ObservedWorkspace, law_x: CountedLaw,
    law_y: CountedLaw, means: Means, mu_sum: Floats, n_silent: int, n_averaged: int,
) -> None:  # fmt: skip
    """So many iterations that are not averaged, and so many that are; mu on pairs of transitions that occur."""
    for k in range(n_silent + n_averaged):
        ref = reference(x, y, pairs, rates, work)
        everything = pairs.crowded[0] == 1
        sweep, n_active, over = 0, 0, ref
        while over > -np.inf and sweep < 2:
            ref = over
            x.mass[:] = 0.0
            y.mass[:] = 0.0
            if everything:
                n_active, over = sweep_all(x, y, pairs, work, ref)
            else:
                n_active, over = sweep_rows(x, y, pairs, work, ref)
            sweep += 1
        Z = pairs.p.sum()
        if k >= n_silent and mu_sum.shape[0] > 0:
            add_observed_coupling(x, y, pairs, work, mu_sum[0], n_active, ref + log(Z))
        pairs.crowded[0] = mostly(pairs.p, Z)
        _move(x, y, pairs, law_x, law_y, rates, means, Z, k >= n_silent)


@kernel(name="SOMCOT on counted transitions, all pairs", seconds=6)
def iterate_full(
    x: PairSide, y: PairSide, pairs: PairState, rates: CountedRates, work: DenseWorkspace, law_x: CountedLaw,
    law_y: CountedLaw, means: Means, mu_sum: Floats, n_silent: int, n_averaged: int,
) -> None:  # fmt: skip
    """The same with mu on all quadruples, in matrix products."""
    for k in range(n_silent + n_averaged):
        ref = factors(x, y, pairs, rates, work)
        n_active, over = 0, np.inf
        while over > ref:
            ref = over if over < np.inf else ref
            x.mass[:] = 0.0
            y.mass[:] = 0.0
            n_active, over = sweep_products(x, y, pairs, work, ref)
        Z = pair_laws(pairs, work, n_active)
        if k >= n_silent and mu_sum.shape[0] > 0:
            add_full_coupling(x, y, pairs, mu_sum, n_active, ref + log(Z))
        _move(x, y, pairs, law_x, law_y, rates, means, Z, k >= n_silent)


# --- Counting.

MOST_PENDING = 32  # rows of the trace that wait as counts


def count(state: CountState, x: tuple[Ints, Ints], y: tuple[Ints, Ints]) -> CountState:
    """Add transitions, (states, next states) of each chain, flat and equally many; keep the counts of rows due."""
    done, total, b = 0, len(x[0]), state.settings.batch_size
    while done < total:
        n = min(total - done, (state.next_row() - state.k) * b)
        part_ = slice(done, done + n)
        _add(state, state.counts_x, x[0][part_], x[1][part_])
        _add(state, state.counts_y, y[0][part_], y[1][part_])
        before, state.solution = state.next_row(), None
        state.k += n // b
        done += n
        if state.k == before:
            state.pending.append(Snapshot(state.k, *(table.copy() for table in state.counts())))
            if len(state.pending) > MOST_PENDING:
                settle(state)
    return state


def _add(state: CountState, table: NDArray[Any], now: Ints, following: Ints) -> None:
    h, n = state.settings.half_life, len(table)
    if h is None:
        if n * n <= 4096:  # small tables are added whole, which takes a third of the time
            table += np.bincount(now * n + following, minlength=n * n).reshape(n, n)
        else:
            np.add.at(table, (now, following), 1)
        return
    period, done = period_of(h), 0
    while done < len(now):
        place = (state.n_transitions + done) % period
        stop = min(len(now), done + period - place)
        weights = 2.0 ** ((place + 1.0 + np.arange(stop - done)) / h)
        np.add.at(table, (now[done:stop], following[done:stop]), weights)
        done = stop
        if (state.n_transitions + done) % period == 0:
            table *= 2.0 ** (-period / h)


# --- From counts to an answer.

CONTINUE = 0.005  # of the cost's range: a run that is further off goes on
MOST_DOUBLINGS = 8
MOST_WORK = 2e9  # iterations times pairs of transitions that going on may take: half a minute or so
SLICE = 2_000_000  # the same for one call of compiled code, so that Ctrl-C is obeyed soon
FULL_SHARE, FULL_SIZE = 0.3, 100  # from this share of all quadruples and this many pairs on, products are faster
MASKED = -1e12  # log mu of what was never seen, in products: 0 whatever the duals do


class Solution(NamedTuple):
    """The averages of the saddle iteration on the fitted chains, and what they are compared with."""

    state: State
    mean: Averages
    n_iterations: int
    counted: CountedDistance


def n_iterations(n_transitions: float) -> int:
    """How many iterations so many transitions deserve."""
    return int(min(max(30.0 * math.sqrt(n_transitions), 3000.0), 10_000.0))


def forecast_solve(state: CountState) -> float:
    """Seconds that an answer takes, roughly; sizes alone decide, no clock."""
    entries = float(np.count_nonzero(state.counts_x)) * float(np.count_nonzero(state.counts_y))
    return n_iterations(state.n_effective) * (5e-6 + 2e-8 * entries)


def compile_kernel(settings: CountSettings) -> None:
    """Have the kernel compiled, on a problem of one state."""
    one = np.ones((1, 1))
    tiny = CountState.empty(settings, np.zeros((1, 1)), one[0], one[0])
    chain = fit(Fed(tiny.cost, settings.discount, one[0], one[0], one, one))
    _Iteration(tiny, Fed(tiny.cost, settings.discount, one[0], one[0], one, one), chain, 1.0).run(1, 1.0)


def solve(state: CountState, *, check: bool = True) -> Solution:
    """Solve for the counts as they are; with `check`, go on until the answer is that of the fitted chains."""
    if state.solution is None or (check and state.solution.counted.distance is None):
        state.solution = _solve(state, *state.counts(), state.n_effective, check=check)
    return state.solution


def _solve(state: CountState, counts_x: NDArray[Any], counts_y: NDArray[Any], n: float, *, check: bool) -> Solution:
    settings = state.settings
    fed = Fed(state.cost, settings.discount, state.initial_x, state.initial_y, counts_x, counts_y, n)
    fitted = fit(fed)
    scale, planned = span(state.cost), n_iterations(n)
    first = _Iteration(state, fed, fitted, 1.0)
    first.run(planned, settings.average)
    none = CountedDistance(None, Bounds(float(state.cost.min()), float(state.cost.max())), math.inf)
    counted = compare(fed, fitted) if check else none
    best = first
    for attempt in (first, None):
        run = attempt
        if run is None:
            run = _Iteration(state, fed, fitted, 0.25)
            run.run(planned, settings.average)
        for _ in range(MOST_DOUBLINGS):
            if not counted.is_off(run.distance, scale, CONTINUE) or 2 * run.work > MOST_WORK:
                break
            run.go_on()
        if counted.distance is not None and abs(run.distance - counted.distance) < abs(
            best.distance - counted.distance
        ):
            best = run
        if not counted.is_off(best.distance, scale, CONTINUE):
            break
    return Solution(best.state, best.mean, best.done, counted)


class _Iteration:
    """The saddle iteration on two fitted chains, from a cold start."""

    def __init__(self, state: CountState, fed: Fed, fitted: FittedPair, factor: float) -> None:
        settings, gamma = state.settings, state.settings.discount
        extra = all(np.count_nonzero(law) > 1 for law in (state.initial_x, state.initial_y))
        sides = [_law(chain, gamma, extra) for chain in (fitted.x, fitted.y)]
        masks = [(P > 0) & (visits > 0)[:, None] for P, visits in sides]
        self.entries = float(masks[0].sum()) * float(masks[1].sum())
        n_pairs = float(masks[0].shape[0] * masks[1].shape[0])
        self.products = settings.support == "full" or (n_pairs >= FULL_SIZE and self.entries > FULL_SHARE * n_pairs**2)
        self.entries = min(self.entries, n_pairs**1.5) if self.products else self.entries
        edges = [Transitions.full(len(m)) if self.products else Transitions.from_mask(m) for m in masks]
        self.laws = [
            CountedLaw(e.first, (visits[:, None] * P)[e.source, e.target], P[e.source, e.target], visits)
            for e, (P, visits) in zip(edges, sides, strict=True)
        ]
        b = 2.0 * factor * min(max(_spread(fed, fitted), 1e-3), 1.0 / math.sqrt(1.0 - gamma))
        rest, eta = 1.0 - gamma, 1.0 / (8.0 * b)
        self.rates = CountedRates(eta, 4 * eta, b, 2 * b, 0.1 / n_pairs, gamma, 60.0 / rest, 20.0 / rest)
        unit = span(state.cost)
        steps = Steps(eta / unit, 4 * eta / unit, 4 * eta / unit, b * unit, b * unit, 2 * b * unit)
        plan = RunSettings(
            gamma, max(1, state.k), steps, unit, settings.batch_size, settings.average,
            "full" if self.products else "observed", settings.keep_coupling,
        )  # fmt: skip
        self.state = build(plan, state.cost, state.initial_x, state.initial_y, edges[0], edges[1])
        self.state.known, self.state.counts_x, self.state.counts_y = state.known, fed.counts_x, fed.counts_y
        self._prepare(masks, full=settings.support == "full")
        flat = len(self.state.x.alpha), len(self.state.y.alpha)
        self.means = Means(*(np.zeros(n) for n in (*flat, *flat, self.state.n_rows)))
        self.done = self.n_averaged = 0

    def _prepare(self, masks: list[NDArray[np.bool_]], *, full: bool) -> None:
        """Begin in a row that may have mass; keep products away from what was never seen."""
        x, y, pairs = self.state.x, self.state.y, self.state.pairs
        m_x, m_y = (len(m) for m in masks)
        pairs.heavy[0] = int(np.argmax(np.outer(masks[0].sum(axis=1) > 0, masks[1].sum(axis=1) > 0)))
        if self.products and not full:
            x.log[:] = np.where(np.repeat(masks[0], m_y, axis=0), 0.0, MASKED).ravel()
            y.log[:] = np.where(np.tile(masks[1], (m_x, 1)), 0.0, MASKED).ravel()

    @property
    def work(self) -> float:
        """Iterations times pairs of transitions so far."""
        return self.done * self.entries

    @property
    def mean(self) -> Averages:
        """Means over the averaged iterates."""
        n, s, shape = self.n_averaged, self.state, self.state.x.lambda_.shape
        p, q, V = (array.reshape(shape) / n for array in (s.pairs.p_sum, s.pairs.q_sum, self.means.V))
        maps = s.x.lambda_sum / n, s.y.lambda_sum / n
        marginals = self.means.marginal_x / n, self.means.marginal_y / n
        return Averages(n, p, q, *maps, *marginals, self.means.alpha_x / n, self.means.alpha_y / n, V, s.mu_sum / n)

    @property
    def distance(self) -> float:
        """<mean of mu, c>."""
        return unit_distance(self.state, self.mean.state_law)

    def run(self, n: int, share: float) -> None:
        """Take n iterations from the cold start and average their last share."""
        averaged = max(1, math.ceil(share * n))
        self._iterate(n - averaged, averaged)

    def go_on_until(self, counted: CountedDistance, scale: float) -> None:
        """Double the iterations until they agree with the exact distance, a few times at most."""
        for _ in range(MOST_DOUBLINGS):
            if not counted.is_off(self.distance, scale, CONTINUE) or 2 * self.work > MOST_WORK:
                return
            self.go_on()

    def go_on(self) -> None:
        """Take as many iterations again as were taken so far, and average those."""
        s = self.state
        for array in (s.pairs.p_sum, s.pairs.q_sum, s.x.lambda_sum, s.y.lambda_sum, s.mu_sum, *self.means):
            array[...] = 0.0
        self.n_averaged = 0
        self._iterate(0, self.done)

    def _iterate(self, n_silent: int, n_averaged: int) -> None:
        s, compiled = self.state, iterate_full if self.products else iterate_observed
        most = max(1, int(SLICE / self.entries))
        for n, averaged in ((n_silent, False), (n_averaged, True)):
            for begin in range(0, n, most):
                now = min(most, n - begin)
                sizes = (0, now) if averaged else (now, 0)
                compiled(s.x, s.y, s.pairs, self.rates, s.work, *self.laws, self.means, s.mu_sum, *sizes)
        self.done += n_silent + n_averaged
        self.n_averaged += n_averaged


def _law(chain: MarkovChain, discount: float, extra: bool) -> tuple[Floats, Floats]:
    """Kernel and occupancy of states, with an extra state in front of a random start where there is one."""
    P, visits = _dense(chain), np.maximum(chain.state_occupancy(discount), 0.0)
    if not extra:
        return P, visits / visits.sum()
    n = len(P)
    larger = np.zeros((n + 1, n + 1))
    larger[:n, :n], larger[n, :n] = P, chain.initial
    return larger, np.append(discount * visits / visits.sum(), 1.0 - discount)


def _dense(chain: MarkovChain) -> Floats:
    P = chain.transition
    return P if isinstance(P, np.ndarray) else np.asarray(P.toarray())


def _spread(fed: Fed, fitted: FittedPair) -> float:
    """Standard deviation, under nu_X x nu_Y, of the value V = c + g P V Q' of the independent coupling."""
    V = (fed.cost - fed.cost.min()) / span(fed.cost)
    A, B, h = _dense(fitted.x), _dense(fitted.y).T, fed.discount
    weight = np.outer(*(np.maximum(chain.state_occupancy(fed.discount), 0.0) for chain in fitted[:2]))
    for _ in range(math.ceil(math.log2(12.0 / (1.0 - fed.discount)))):  # each round doubles the horizon
        V, A, B, h = V + h * (A @ V @ B), A @ A, B @ B, h * h
    return float(np.sqrt((weight * (V - (weight * V).sum()) ** 2).sum()))


# --- The trace, and checkpoints.


def row(k: int, solution: Solution) -> tuple[float, ...]:
    """A row of the trace: step, distance twice (every solve starts cold), and the three violations."""
    distance = unit_distance(solution.state, solution.mean.state_law)
    return float(k), distance, distance, *residuals(solution.state, solution.mean)


def rows(state: CountState, trace: tuple[tuple[float, ...], ...], pending: tuple[Snapshot, ...]) -> list[Any]:
    """The rows of the trace, those that wait as counts solved now."""
    solved = []
    for k, counts_x, counts_y in pending:
        then = replace(state, k=k, solution=None)
        solved.append(row(k, _solve(then, counts_x, counts_y, then.n_effective, check=False)))
    return [*trace, *solved]


def settle(state: CountState) -> None:
    """Solve the rows of the trace that wait as counts."""
    state.trace = rows(state, tuple(state.trace), tuple(state.pending))
    state.pending = []
