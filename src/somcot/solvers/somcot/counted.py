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

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import exp_all, log
from somcot.plumbing.arrays import Floats, Ints, Places
from somcot.plumbing.notes import Note
from somcot.solvers.somcot.averages import (
    Averages,
    CountedDistance,
    Fed,
    FittedPair,
    compare,
    fit,
    law_of,
    residuals,
    unit_distance,
    value_spread,
    violations,
)  # fmt: skip
from somcot.solvers.somcot.state import (
    CountSettings,
    CountState,
    RunSettings,
    Snapshot,
    State,
    Support,
    add_counts,
    build,
    period_of,
    span,
)  # fmt: skip
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
from somcot.solvers.somcot.updates import HEAVY, Edges, PairSide, PairState, lengths, mostly
from somcot.steps import Steps

__all__ = ["SaddleSolution", "count", "n_iterations", "row", "rows", "settle", "solve"]


# --- One iteration, compiled.


class CountedRates(NamedTuple):
    """Step sizes of the counted iteration, in units of the cost's range."""

    eta: float
    eta_lambda: float
    b: float
    b_V: float
    floor: float  # of the divisors; entries without occupancy or mass would move without bound
    discount: float
    radius_alpha: float
    radius_v: float


class CountedLaw(NamedTuple):
    """One fitted chain, spread out over the pairs of states: flat arrays are laid out as `PairSide.alpha`."""

    nu: Floats  # flat: occupancy of the entry's transition
    kernel: Floats  # flat: its probability
    visits: Floats  # occupancy of each state
    ahead: Floats  # flat, scratch: extrapolated duals


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
    """Duals of one causality constraint, then with their extrapolations log mu's factor and log lambda.

    Rows have few entries: loops over all of them at once become vector instructions, as long as each touches so few
    arrays that the compiler can check that they do not overlap.
    """
    offset, alpha, log_, mass, lambda_ = side.offset, side.alpha, side.log, side.mass, side.lambda_
    eta, b, floor, R, nu, ahead = rates.eta, rates.b, rates.floor, rates.radius_alpha, law.nu, law.ahead
    n_own, n_other = lambda_.shape
    for s in range(n_own):
        for j in range(n_other):
            r, share = own * s + other * j, lambda_[s, j]
            for e in range(offset[r], offset[r + 1]):
                ahead[e] = share
    if averaged:
        for e in range(alpha.shape[0]):
            marginal_sum[e] += scale * mass[e]
        for e in range(alpha.shape[0]):
            alpha_sum[e] += alpha[e]
    for e in range(alpha.shape[0]):
        m = scale * mass[e]
        new = alpha[e] - b * (m - nu[e] * ahead[e]) / (max(nu[e], m) + floor)
        ahead[e] = min(max(new, -R), R)
    for e in range(alpha.shape[0]):
        new = ahead[e]
        ahead[e] = 2.0 * new - alpha[e]
        log_[e] += eta * (2.0 * new - alpha[e])
        alpha[e] = new
    for s in range(n_own):
        for j in range(n_other):
            r, gradient, top = own * s + other * j, 0.0, -np.inf
            for e in range(offset[r], offset[r + 1]):
                gradient += law.kernel[e] * ahead[e]
                top = max(top, ahead[e])
            side.log_lambda[s, j] -= rates.eta_lambda * gradient
            if offset[r + 1] > offset[r]:
                pairs.bound[r] += eta * top
    _normalise_rows(side.log_lambda, lambda_, side.lambda_sum, averaged)


@part
def _normalise_rows(log_lambda: Floats, lambda_: Floats, lambda_sum: Floats, averaged: bool) -> None:
    """Add lambda to its sum, then make the rows of the new one sum to 1, with the exponentials of all in one vector."""
    n_own, n_other = lambda_.shape
    if averaged:
        for s in range(n_own):
            for j in range(n_other):
                lambda_sum[s, j] += lambda_[s, j]
    for s in range(n_own):
        highest = -np.inf
        for j in range(n_other):
            highest = max(highest, log_lambda[s, j])
        for j in range(n_other):
            log_lambda[s, j] -= highest  # a constant of the row means nothing; this one keeps the numbers small
            lambda_[s, j] = log_lambda[s, j]
    exp_all(lambda_.reshape(-1))
    for s in range(n_own):
        total = 0.0
        for j in range(n_other):
            total += lambda_[s, j]
        scale = 1.0 / total
        for j in range(n_other):
            lambda_[s, j] *= scale


@part
def _move_pairs(
    pairs: PairState, x: CountedLaw, y: CountedLaw, rates: CountedRates, scale: float, averaged: bool, V_sum: Floats
) -> None:
    """V, and with its extrapolation the factor W."""
    V, W, p, q, gamma, R = pairs.V, pairs.W, pairs.p, pairs.q, rates.discount, rates.radius_v
    n_y, lowest, ahead = y.visits.shape[0], np.inf, pairs.height
    if averaged:
        for r in range(V.shape[0]):
            pairs.p_sum[r] += scale * p[r]
            pairs.q_sum[r] += scale * q[r]
            V_sum[r] += V[r]
    for i in range(x.visits.shape[0]):
        for j in range(n_y):
            r = i * n_y + j
            now, following = scale * p[r], scale * q[r]
            visits = max(min(x.visits[i], y.visits[j]), max(now, gamma * following))
            ahead[r] = V[r] - rates.b_V * (now - pairs.start[r] - gamma * following) / (visits + rates.floor)
    for r in range(V.shape[0]):
        new = min(max(ahead[r], -R), R)
        step = 2.0 * new - V[r]
        V[r] = new
        W[r] -= rates.eta * gamma * step
        lowest = min(lowest, step)
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
    # Rows as Algorithm 2 leaves them behind, so that its sweeps can be used: H for the cost's share of log mu, and
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
    """Iterations before averaging, then averaged ones; mu is on pairs of observed transitions."""
    for k in range(n_silent + n_averaged):
        # Rows that are skipped keep no mass of the iteration before: here, other than in Algorithm 2, all duals move.
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
        before, state.solution = state.next_row(), None  # an answer belongs to its counts
        state.k += n // b
        done += n
        if state.k == before:
            state.pending.append(Snapshot(state.k, *(table.copy() for table in state.counts())))
            if len(state.pending) > MOST_PENDING:
                settle(state)
    return state


def _add(state: CountState, table: NDArray[Any], now: Ints, following: Ints) -> None:
    h = state.settings.half_life
    if h is None:
        add_counts(table, now, following)
        return
    period, done = period_of(h), 0
    while done < len(now):
        place = (state.n_transitions + done) % period
        stop = min(len(now), done + period - place)
        # Weights of new transitions grow, instead of shrinking all old ones: one pass for any batch size.
        weights = 2.0 ** ((place + 1.0 + np.arange(stop - done)) / h)
        np.add.at(table, (now[done:stop], following[done:stop]), weights)
        done = stop
        if (state.n_transitions + done) % period == 0:
            table *= 2.0 ** (-period / h)


# --- From counts to an answer.

FIRST_ROUND = 16  # the first round takes this part of the planned iterations; each further one doubles them
AGREES = 0.001  # of the cost's range: a round this close to the exact distance is the last (see `agreement`),
FEASIBLE = 0.02  # if its averages violate the constraints by no more than this in total (6 is the most)
CONTINUE = 0.005  # of the cost's range: after the planned iterations, a run with a larger error is continued
MOST_DOUBLINGS = 8
MOST_SECONDS = 30.0  # of forecast work: no round begins that would end later, and a long first one is cut
LEAST_ITERATIONS = 50  # of the first round, however long they take
SLICE_SECONDS = 0.01  # of forecast work in one call of compiled code, so that Ctrl-C is obeyed soon
FULL_SHARE, FULL_SIZE = 0.3, 100  # from this share of all quadruples and this many pairs on, products are faster
MASKED = -1e12  # log mu of what was never seen, in products: 0 whatever the duals do


class SaddleSolution(NamedTuple):
    """The averages of the saddle iteration on the fitted chains, and what they are compared with."""

    state: State
    mean: Averages
    n_iterations: int
    counted: CountedDistance


def n_iterations(n_transitions: float) -> int:
    """Number of iterations for a number of transitions."""
    return int(min(max(30.0 * math.sqrt(n_transitions), 3000.0), 10_000.0))


def agreement(n_transitions: float) -> float:
    """How close to the exact distance a round has to come, in shares of the cost's range.

    From 10,000 transitions on it falls as their sampling error does, so that iterating adds little to that error.
    """
    return AGREES * math.sqrt(min(1.0, 1e4 / max(n_transitions, 1.0)))


def forecast_solve(state: CountState) -> float:
    """Approximate seconds of a solve, from the sizes alone, so that results do not depend on the clock."""
    edges = [int(np.count_nonzero(table)) for table in (state.counts_x, state.counts_y)]
    n_x, n_y = state.cost.shape
    whole = n_iterations(state.n_eff) * min(_seconds(n_x, n_y, edges), _seconds_of_products(n_x, n_y))
    return min(whole, 2 * MOST_SECONDS)


def _seconds(n_x: int, n_y: int, edges: Sequence[int]) -> float:
    """Seconds of one iteration on pairs of transitions that occur: exponentials, and moves of the duals."""
    return 1e-6 + 2e-9 * edges[0] * edges[1] + 3e-9 * (edges[0] * n_y + n_x * edges[1])


def _seconds_of_products(n_x: int, n_y: int) -> float:
    """Seconds of one iteration in matrix products."""
    return 1e-6 + 4e-9 * n_x * n_y * (n_x + n_y) + 1e-10 * (n_x * n_y) ** 2


@functools.cache
def compile_kernel(support: Support) -> None:
    """Have the kernel compiled, on a problem of one state."""
    one, settings = np.ones((1, 1)), CountSettings(0.5, 1, support=support)
    tiny = CountState.empty(settings, np.zeros((1, 1)), one[0], one[0])
    fed = Fed(tiny.cost, settings.discount, one[0], one[0], one, one)
    _Iteration(tiny, fed, fit(fed), 1.0).run(1, 1.0)


def solve(state: CountState) -> SaddleSolution:
    """Solve for the counts as they are, once."""
    if state.solution is None:
        state.solution = _solve(state, *state.counts(), state.n_eff)
    return state.solution


def _solve(state: CountState, counts_x: NDArray[Any], counts_y: NDArray[Any], n: float) -> SaddleSolution:
    """Iterate until the distance agrees with that of the fitted chains; if it never does, repeat with b / 4."""
    fed = Fed(state.cost, state.settings.discount, state.initial_x, state.initial_y, counts_x, counts_y)
    # Every solve starts cold: with warm starts, errors from early counts remain in log mu (ten times larger).
    fitted, planned = fit(fed), n_iterations(n)
    first = _Iteration(state, fed, fitted, 1.0)
    # A comparison that saves iterations is worth a part of their time.
    exact = compare(fed, fitted, 0.25 * min(planned * first.seconds, MOST_SECONDS))
    first.run_rounds(planned, exact, agreement(n))
    best = first
    # Slow runs are those whose duals need to move little compared with b; a quarter of b usually suits them better.
    if exact.is_off(first.distance, span(state.cost), CONTINUE):
        slower = _Iteration(state, fed, fitted, 0.25)
        slower.run_rounds(planned, exact, agreement(n))
        best = min(first, slower, key=lambda run: abs(run.distance - (exact.distance or 0.0)))
    if exact.distance is None and best.done < planned:
        cut = Note("iterations-cut", done=best.done, planned=planned, seconds=planned * best.seconds)
        exact = exact._replace(remarks=(cut, *exact.remarks))
    return SaddleSolution(best.state, best.mean, best.done, exact)


class _Iteration:
    """The saddle iteration on two fitted chains, from a cold start."""

    def __init__(self, state: CountState, fed: Fed, fitted: FittedPair, factor: float) -> None:
        settings, gamma = state.settings, state.settings.discount
        extra = all(np.count_nonzero(law) > 1 for law in (state.initial_x, state.initial_y))
        sides = [law_of(chain, gamma, extra) for chain in (fitted.x, fitted.y)]
        # A state that is never visited has a row in the fit, but no occupancy: mu could hide mass there.
        masks = [(P > 0) & (visits > 0)[:, None] for P, visits in sides]
        self.occupancies = [visits[:, None] * P for P, visits in sides]
        n_x, n_y = (len(mask) for mask in masks)
        used, n_pairs = [int(mask.sum()) for mask in masks], n_x * n_y
        common = n_pairs >= FULL_SIZE and used[0] * used[1] > FULL_SHARE * n_pairs**2
        self.products = settings.support == "full" or common
        self.seconds = _seconds_of_products(n_x, n_y) if self.products else _seconds(n_x, n_y, used)
        edges = [Edges.full(len(m)) if self.products else Edges.from_mask(m) for m in masks]
        # With bottlenecks and absorbing states sigma is far larger than the duals become, hence the cap.
        b = 2.0 * factor * min(max(value_spread(fed, fitted), 1e-3), 1.0 / math.sqrt(1.0 - gamma))
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
        rows, flat = np.divmod(np.arange(n_pairs), n_y), (self.state.x, self.state.y)
        self.laws = [
            _on_pairs(side.offset, own, e, nu, law)
            for side, own, e, nu, law in zip(flat, rows, edges, self.occupancies, sides, strict=True)
        ]
        self._prepare(masks, full=settings.support == "full")
        sizes = [len(side.alpha) for side in flat]
        self.means = Means(*(np.zeros(n) for n in (*sizes, *sizes, self.state.n_rows)))
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

    @property
    def violation(self) -> float:
        """Total violation of the constraints of the fitted chains by the averages."""
        return sum(violations(self.state, self.mean, *self.occupancies))

    def run_rounds(self, planned: int, exact: CountedDistance, close: float) -> None:
        """Iterate in rounds, each twice as long as all before, until the averages are those of a solution.

        Before the planned number is reached, that is: the distance agrees closely with the exact one, and the
        constraints hold. From there on, a distance that agrees roughly will do. Without an exact distance the planned
        iterations are run, as many as time allows.
        """
        share = self.state.settings.average
        # A share above a half reaches back into earlier rounds, whose sums are gone: such runs begin with all of it.
        rounds = FIRST_ROUND if share <= 0.5 and exact.distance is not None else 1
        allowed = max(LEAST_ITERATIONS, int(MOST_SECONDS / self.seconds))
        first = -(-planned // rounds)
        planned = first * rounds  # rounded up, so that the rounds meet it
        self.run(min(first, allowed), share)
        while not self._is_done(planned, exact, close) and 2 * self.done <= min(allowed, planned << MOST_DOUBLINGS):
            self.go_on()

    def _is_done(self, planned: int, exact: CountedDistance, close: float) -> bool:
        unit, late = span(self.state.cost), self.done >= planned
        if exact.is_off(self.distance, unit, CONTINUE if late else close):
            return False
        # A distance may pass the exact one by chance while the coupling is still far from one.
        return late or self.violation <= FEASIBLE

    def run(self, n: int, share: float) -> None:
        """Take n iterations from the cold start and average their last share."""
        averaged = max(1, math.ceil(share * n))
        self._iterate(n - averaged, averaged)

    def go_on(self) -> None:
        """Take as many iterations again as were taken so far, and average the last share of all, a half at most."""
        s, averaged = self.state, max(1, math.ceil(min(self.state.settings.average, 0.5) * 2 * self.done))
        for array in (s.pairs.p_sum, s.pairs.q_sum, s.x.lambda_sum, s.y.lambda_sum, s.mu_sum, *self.means):
            array[...] = 0.0
        self.n_averaged = 0
        self._iterate(self.done - averaged, averaged)

    def _iterate(self, n_silent: int, n_averaged: int) -> None:
        s, compiled = self.state, iterate_full if self.products else iterate_observed
        most = max(1, int(SLICE_SECONDS / self.seconds))
        for n, averaged in ((n_silent, False), (n_averaged, True)):
            for begin in range(0, n, most):
                now = min(most, n - begin)
                sizes = (0, now) if averaged else (now, 0)
                compiled(s.x, s.y, s.pairs, self.rates, s.work, *self.laws, self.means, s.mu_sum, *sizes)
        self.done += n_silent + n_averaged
        self.n_averaged += n_averaged


def _on_pairs(offset: Places, own: Ints, edges: Edges, nu: Floats, law: tuple[Floats, Floats]) -> CountedLaw:
    """The law of one chain at every entry of every pair of states; `own` is the pair's state of that chain."""
    row = np.repeat(np.arange(len(own)), lengths(offset))
    edge = np.arange(len(row)) - offset.astype(np.int64)[row] + edges.first[own[row]]
    source, target = edges.source[edge], edges.target[edge]
    return CountedLaw(nu[source, target], law[0][source, target], law[1], np.zeros(len(row)))


# --- The trace.


def row(k: int, solution: SaddleSolution) -> tuple[float, ...]:
    """A row of the trace: step, distance twice (every solve starts cold), and the three violations."""
    distance = unit_distance(solution.state, solution.mean.state_law)
    return float(k), distance, distance, *residuals(solution.state, solution.mean)


def rows(state: CountState, trace: tuple[tuple[float, ...], ...], pending: tuple[Snapshot, ...]) -> list[Any]:
    """The rows of the trace, solving those that are stored as counts."""
    solved = []
    for k, counts_x, counts_y in pending:
        then = replace(state, k=k, solution=None)
        solved.append(row(k, _solve(then, counts_x, counts_y, then.n_eff)))
    return [*trace, *solved]


def settle(state: CountState) -> None:
    """Solve the rows of the trace that are stored as counts."""
    state.trace = rows(state, tuple(state.trace), tuple(state.pending))
    state.pending = []
