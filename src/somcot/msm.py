"""Markov state models of molecular kinetics: posterior distributions of distances, and sweeps over lag times.

Trajectories and models are read by `somcot.readers.from_dtrajs` and `somcot.readers.from_model`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from somcot.api import distance, markov_order
from somcot.chains import MarkovChain
from somcot.clocks import Clock
from somcot.costs import Cost
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_confidence, check_count, check_discount, not_sparse
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.html import Table, card, histogram
from somcot.plumbing.notes import Note, collected
from somcot.plumbing.text import figure
from somcot.problem import Data
from somcot.readers.array_files import from_dtrajs, from_model
from somcot.result import Result
from somcot.samples import Samples

__all__ = ["LagSweep", "PosteriorDistances", "lag_sweep", "posterior_distances"]

_LEVEL = 0.05  # of the test for memory


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorDistances:
    """Distances between models drawn from two posteriors.

    Attributes
    ----------
    values : ndarray, shape (n,)
        One distance for each pair of draws, in their order.
    level : float
        Level of the interval.
    noise : float or None
        About the mean to expect if both posteriors are of one process: the root of the sum of the squared mean
        distances between two draws of x and between two draws of y. In 60 data sets of equal processes the mean was 0.7
        to 1.8 times as large, and no interval contained 0. None if the cost is not 0 between equal states.
    """

    values: Floats
    level: float
    noise: float | None = None

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(self.values.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """Equal-tailed interval that contains the share `level` of the distances."""
        tail = 50.0 * (1.0 - self.level)  # half of the rest on each side, in percent
        low, high = np.percentile(self.values, [tail, 100.0 - tail])
        return float(low), float(high)

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"PosteriorDistances(mean {self.mean:.4g}, {100 * self.level:g} % in [{low:.4g}, {high:.4g}], "
            f"{len(self.values)} draws{'' if self.noise is None else f'; noise alone {self.noise:.4g}'})"
        )

    def _repr_html_(self) -> str:
        low, high = self.interval
        inside = f"{100 * self.level:g} % in [{figure(low)}, {figure(high)}], {len(self.values):,} draws"
        rows = [("posterior", inside), *([] if self.noise is None else [("noise alone", figure(self.noise))])]
        return card(f"distance {figure(self.mean)}", rows, histogram(self.values, self.mean))


def posterior_distances(
    x: object, y: object, cost: Cost = "labels", *, discount: float, level: float = 0.9
) -> PosteriorDistances:
    """The distribution of the distance under two posteriors of Markov state models.

    The distance between draw i of one side and draw i of the other is computed exactly. The result is the posterior
    uncertainty of the models. The distance between two noisy models is biased upwards, so the interval hardly ever
    contains 0, even if both come from one process: compare the mean with `noise`, which draws of one side show.
    `somcot.distance` of the trajectories corrects for the bias, and `lag_sweep` at several lags; posteriors belong to
    one lag each, at which they were fitted.

    Parameters
    ----------
    x, y : deeptime ``BayesianMSMPosterior``, list of models, or a single model or MarkovChain
        Any object with ``.samples``; the models have a ``transition_matrix``. A single model is compared with every
        draw.
    cost, discount
        As for `somcot.distance`.
    level : float
        Level of the interval.

    Examples
    --------
    >>> import somcot
    >>> draws = [somcot.random_walk(3, theta) for theta in (0.4, 0.5, 0.6)]
    >>> posterior = posterior_distances(draws, somcot.random_walk(3, 0.5), discount=0.9)
    >>> posterior.values.round(4)
    array([0.0391, 0.    , 0.0391])
    """
    check_confidence(level)
    check_discount(discount)
    sides = [_draws(name, side) for name, side in (("x", x), ("y", y))]
    # A single model is compared with every draw of the other side.
    n = min(len(side) for side in sides if len(side) > 1) if any(len(side) > 1 for side in sides) else 1
    # Draws are paired by their order; the posteriors are independent, so any pairing is as good.
    a, b = (side * n if len(side) == 1 else side[:n] for side in sides)
    # Every draw has the same notes; they are given once.
    with collected() as notes:
        _warn_of_numbers(cost, a[0], b[0])
        values = [distance(v, w, cost, discount=discount, method="exact").distance for v, w in zip(a, b, strict=True)]
        noise = _noise(sides, cost, discount)
    for note in notes:
        if note.code != "fitted-model":  # the draws have its sampling error
            warn(note, DataWarning)
    return PosteriorDistances(np.array(values), level, noise)


def _noise(sides: list[list[MarkovChain]], cost: Cost, discount: float) -> float | None:
    """About the mean distance of two posteriors of one process, from the draws of each side among themselves.

    A draw differs from the process by the error of the estimate and by that of the draw, which are equally large and
    independent. So two draws of one side, which share the first, differ by half of the variance, and a draw of x and
    one of y by the sum of both halves.
    """
    table = None if isinstance(cost, str) else np.asarray(cost)
    alike = sides[0][0].states == sides[1][0].states
    if table is not None and not (alike and table.ndim == 2 and not table.diagonal().any()):
        return None
    squares = 0.0
    for draws in sides:
        # Disjoint pairs, so that each side takes half as many solves as the comparison.
        pairs = list(zip(draws[::2], draws[1::2], strict=False))
        found = [distance(v, w, cost, discount=discount, method="exact").distance for v, w in pairs]
        squares += float(np.mean(found)) ** 2 if found else 0.0
    return math.sqrt(squares) if squares else None


def _draws(name: str, side: object) -> list[MarkovChain]:
    if isinstance(side, MarkovChain):
        return [side]
    # deeptime's posterior has `.samples`; a list is taken as the draws themselves.
    models = getattr(side, "samples", None) if not isinstance(side, (list, tuple)) else side
    models = [side] if models is None else list(models)
    if not models:
        raise ValueError(f"{name}: the posterior has no draws; fit it with n_samples=100, for example")
    try:
        return [model if isinstance(model, MarkovChain) else from_model(model) for model in models]
    except TypeError as error:
        advice = "" if ";" in str(error) else "; fit BayesianMSM, or pass trajectories to lag_sweep"
        raise TypeError(f"{name}: {error}{advice}") from None


@dataclass(frozen=True, eq=False, repr=False)
class LagSweep:
    """One result for each lag time, and whether the fitted models are Markov at it.

    Attributes
    ----------
    lags : tuple of int
    results : tuple of Result
    pvalues : tuple of float
        Of the test that both sides are Markov (of order 1) at this lag: twice the smaller p-value of
        `somcot.markov_order` of the two. The test is by all steps; longer lags have fewer, and so less power.
    """

    lags: tuple[int, ...]
    results: tuple[Result, ...]
    pvalues: tuple[float, ...]

    @property
    def stable_from(self) -> int | None:
        """The shortest lag that the test does not reject at 5 %; None if it rejects all.

        Shorter lags are tested first, so two processes that are Markov at the shortest lag get a longer one in at most
        5 % of cases.
        """
        rows = sorted(zip(self.lags, self.pvalues, strict=True))
        return next((lag for lag, p in rows if p > _LEVEL), None)

    @property
    def distances(self) -> Floats:
        """The distances, in the order of the lags."""
        return np.array([result.distance for result in self.results])

    def __iter__(self) -> Iterator[tuple[int, Result]]:
        return iter(zip(self.lags, self.results, strict=True))

    def __repr__(self) -> str:
        rows = zip(self.lags, self.results, self.pvalues, strict=True)
        lines = [f"lag {lag:>6}: {result}; {_verdict(p)}" for lag, result, p in rows]
        return "\n".join([*lines, self._conclusion()])

    def _conclusion(self) -> str:
        if self.stable_from is None:
            return "memory at every lag: use longer lags or finer states"
        return f"no memory found from lag {self.stable_from} on"

    def _repr_html_(self) -> str:
        rows = [
            (f"{lag:,}", figure(r.distance), *_ends(r), f"{r.samples[0]:,} + {r.samples[1]:,}", _verdict(p))
            for lag, r, p in zip(self.lags, self.results, self.pvalues, strict=True)
        ]
        heads = ("lag", "distance", "low", "high", "transitions", "order 1")
        return card("LagSweep", (), Table(heads, rows, "rrrrrl"), sub=self._conclusion())


def _verdict(pvalue: float) -> str:
    return f"memory (p = {pvalue:.2g})" if pvalue <= _LEVEL else f"Markov (p = {pvalue:.2g})"


def _ends(result: Result) -> tuple[str, str]:
    if result.confidence_interval is None:
        return "", ""
    return figure(result.confidence_interval.low), figure(result.confidence_interval.high)


def lag_sweep(
    x: object,
    y: object,
    lags: int | Iterable[int],
    cost: Cost = "labels",
    *,
    discount: float,
    confidence: float | None = 0.9,
    initial: object = "stationary",
    connected: bool = True,
    rng: int | None = 0,
) -> LagSweep:
    """The distance between two sets of discrete trajectories for several lag times.

    Compare numbers at equal lag only: a longer lag skips states on the way and leaves the coupling more freedom, so the
    distance usually falls with the lag, also between Markov processes, and has no plateau. From which lag on the models
    hold is tested instead: see `LagSweep.stable_from`.

    Parameters
    ----------
    x, y : array of int or list of such
        Discrete trajectories, as for `readers.from_dtrajs`.
    lags : int or iterable of int
        Lag times in frames.
    cost, confidence, rng
        As for `somcot.distance`. An array may also have a row and a column for every number of a state, as
        ``costs.euclidean(model.cluster_centers, model.cluster_centers)``; at each lag those of the states are used.
    discount : float
        Discount per frame: at lag k the discount of a step is ``discount**k``, so that all lags have the same effective
        horizon in time. 1 is the long-run average, as for `somcot.distance`.
    initial : label, array_like or "stationary"
        Initial distribution; by default the stationary distribution at each lag.
    connected : bool
        Restrict each side, at each lag, to its largest connected set, with a warning if states are dropped.

    Examples
    --------
    >>> import somcot
    >>> rng = np.random.default_rng(0)
    >>> a, b = (rng.choice(2, 4000, p=p) for p in ([0.5, 0.5], [0.4, 0.6]))
    >>> sweep = lag_sweep(a, b, [1, 2, 4], discount=0.9)
    >>> sweep.lags, [result.confidence_interval.low < 0.1 < result.confidence_interval.high for result in sweep.results]
    ((1, 2, 4), [True, True, True])
    >>> sweep.stable_from
    1
    """
    Clock.discounting(discount)
    for name, side in (("x", x), ("y", y)):
        if isinstance(side, MarkovChain | Data):
            raise TypeError(f"{name}: found {type(side).__name__}, which has one lag; pass the integer trajectories")
    # Before any data are read, as each lag takes a pass over the trajectories.
    several = not_sparse("lags", [lags] if isinstance(lags, int | np.integer) else lags)
    lag_times = tuple(check_count("lags", lag) for lag in several)
    if not lag_times:
        raise ValueError("lags: found none, expected at least one, such as [1, 2, 5, 10]")
    # Read again for each lag: the connected set depends on it.
    read = partial(from_dtrajs, initial=initial, connected=connected)
    results, pvalues, alike = [], [], defaultdict(list)
    for lag in lag_times:
        with collected() as notes:
            a, b = (read(side, lag=lag, source=name) for name, side in (("x", x), ("y", y)))
            # The discount is per frame: discount^lag per step keeps the horizon in time.
            table = _rows_by_number(cost, a, b)
            results.append(distance(a, b, table, discount=discount**lag, confidence=confidence, rng=rng))
        orders = [markov_order(side, max_order=1, rng=rng).pvalues[0] for side in (a, b)]
        pvalues.append(min(2.0 * min(orders), 1.0))  # of two tests (Bonferroni)
        for note in notes:
            alike[note.code, note.about].append((lag, note))
    # Once each, with its lags: the lag from which on no notes occur is informative.
    for (lag, note), *others in alike.values():
        also = f" (also at {', '.join(str(k) for k, _ in others)})" if others else ""
        warn(note.within(f"lag {lag}{also}"), DataWarning)
    return LagSweep(lag_times, tuple(results), tuple(pvalues))


def _rows_by_number(cost: Cost, x: Samples, y: Samples) -> Cost:
    """The rows and columns of the states in a cost of all numbers; every other cost unchanged.

    Which states a lag has, beyond those of the trajectories, is known only after counting.
    """
    if not isinstance(cost, np.ndarray) or cost.ndim != 2 or cost.shape == (x.n_states, y.n_states):
        return cost
    rows, columns = (np.array([s if isinstance(s, int) else -1 for s in side.states]) for side in (x, y))
    inside = [k.min() >= 0 and k.max() < n for k, n in zip((rows, columns), cost.shape, strict=True)]
    return cost[np.ix_(rows, columns)] if all(inside) else cost


def _warn_of_numbers(cost: Cost, x: MarkovChain | Samples, y: MarkovChain | Samples) -> None:
    """Warn if label costs compare different clusterings, which different numbers of states reveal."""
    # Only numbered states can be confused: named ones are compared by meaning.
    numbered = all(side.states == tuple(range(side.n_states)) for side in (x, y))
    if isinstance(cost, str) and cost == "labels" and numbered and x.n_states != y.n_states:
        warn(Note("numbers-as-states", "cost", n_x=x.n_states, n_y=y.n_states), DataWarning)
