"""Model selection: distances from data to candidates with intervals, the nearest, and a confidence set for it.

All candidates are compared with the same data, so most of the noise is shared and intervals of single distances overlap
far too much. The relevant noise is that of differences. With G_m the derivative of d_m along the rows of the data
(centred) and w = P / n per entry, to first order

    Var(d_m - d_l) = sum_entries w (G_m - G_l)^2   (+ the candidates' own variances where they are recorded).

Candidate m stays in the set if d_m - d_best <= q se(m, best), with q the quantile of the largest such difference, in
standard errors, when all candidates are equally good (500 Gaussian draws with a fixed seed).
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from somcot.inference import intervals
from somcot.inference.estimate import plugin
from somcot.inference.model import Model, fit
from somcot.many.matrix import compute
from somcot.many.members import labelled
from somcot.many.plan import JobPlan, MatrixSettings, prepare
from somcot.plumbing.arrays import Bools, Floats
from somcot.plumbing.checks import check_confidence, check_discount, check_rng
from somcot.plumbing.html import Notes, Table, card
from somcot.plumbing.text import figure, label_text
from somcot.problem import ChainOrData, Data
from somcot.trajectories import needs_cells

__all__ = ["Candidate", "Selection", "choose", "prepare_selection", "select_model"]

_DRAWS = 500


class Candidate(NamedTuple):
    """One candidate: its distance from the data with an interval, and whether it is in the confidence set."""

    name: Hashable
    distance: float
    low: float
    high: float
    inside: bool
    plugin: float
    difference_error: float


_SHOWN = 20  # candidates on a card


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Which candidates explain the data, as returned by `somcot.select_model`.

    Attributes
    ----------
    best : hashable
        Name of the nearest candidate.
    confidence_set : tuple of hashable
        Candidates not distinguishable from the nearest; contains the true nearest with probability about `confidence`.
    table : tuple of Candidate
        All candidates in input order: name, distance, low, high, inside; the plug-in distance, and the standard
        error of its difference from that of the best.
    confidence, discount : float
    notes : tuple of str
        Caveats about the data.
    """

    best: Hashable
    confidence_set: tuple[Hashable, ...]
    table: tuple[Candidate, ...]
    confidence: float
    discount: float
    notes: tuple[str, ...] = ()

    @property
    def curve(self) -> tuple[Floats, Floats] | None:
        """Names as numbers in increasing order and the distances, if all names are numbers; else None."""
        if not all(isinstance(row.name, (int, float, np.number)) for row in self.table):
            return None
        rows = sorted(self.table, key=lambda row: float(row.name))  # type: ignore[arg-type]
        return np.array([row.name for row in rows], dtype=np.float64), np.array([row.distance for row in rows])

    def __repr__(self) -> str:
        n, m = len(self.confidence_set), len(self.table)
        return f"Selection(best {self.best}, {n} of {m} candidates in the {100 * self.confidence:g} % set)"

    def _repr_html_(self) -> str:
        rows = [
            (label_text(row.name, 40), figure(row.distance), figure(row.low), figure(row.high), "yes" * row.inside)
            for row in sorted(self.table, key=lambda row: row.distance)[:_SHOWN]
        ]
        shown = Table(("candidate", "distance", "low", "high", "may be the nearest"), rows, "lrrrl")
        more = f"{len(self.table):,} candidates, {100 * self.confidence:g} % intervals, discount {self.discount:g}"
        return card(f"nearest: {label_text(self.best, 40)}", (), Notes(self.notes), shown, sub=more)


def select_model(
    data: Data,
    candidates: Mapping[Any, ChainOrData],
    cost: object = "labels",
    *,
    discount: float,
    confidence: float = 0.9,
    rng: int | np.random.Generator | None = None,
) -> Selection:
    """Select the candidate nearest to the data, and a confidence set of candidates that may be nearest.

    Parameters
    ----------
    data : Samples or Counts
    candidates : mapping of name to MarkovChain, Samples or Counts
        Known chains or recordings; numbers as names give a curve.
    cost, discount, rng
        As for `distance_matrix`; rows of the cost are the states of the data.
    confidence : float
        Level of the intervals and of the confidence set.

    Returns
    -------
    Selection

    Examples
    --------
    >>> import somcot
    >>> data = somcot.random_walk(5, 0.5).sample(100, 50, rng=0)
    >>> walks = {theta: somcot.random_walk(5, theta) for theta in (0.3, 0.4, 0.5, 0.6, 0.7)}
    >>> reward = somcot.costs.absolute([1, 0, 0, 0, -1], [1, 0, 0, 0, -1])
    >>> selection = somcot.select_model(data, walks, reward, discount=0.9)
    >>> selection.best, selection.confidence_set
    (0.5, (0.5,))
    """
    return choose(prepare_selection(data, candidates, cost, discount=discount, confidence=confidence, rng=rng))


def prepare_selection(
    data: Data,
    candidates: Mapping[Any, ChainOrData],
    cost: object,
    *,
    discount: float,
    confidence: float,
    rng: int | np.random.Generator | None,
) -> JobPlan:
    """Check the arguments, fit every process, and list the jobs; arguments as for `select_model`."""
    check_discount(discount)
    check_confidence(confidence)
    if not isinstance(data, Data):
        raise TypeError(f"data: found {type(data).__name__}, expected Samples or Counts{needs_cells(data)}")
    labelled_candidates = labelled("candidates", candidates)
    seed = int(check_rng(0 if rng is None else rng).integers(2**62))
    settings = MatrixSettings(discount, "auto", confidence, simultaneous=False, tests=None, seed=seed)
    return prepare({"data": data}, cost, settings, others=labelled_candidates)


def choose(plan: JobPlan, *, progress: bool = False) -> Selection:
    """Run the jobs and compute the confidence set."""
    data, processes = plan.rows[0].process, {member.label: member.process for member in plan.columns}
    cost, discount, confidence = plan.cost, plan.options.discount, plan.options.confidence
    assert isinstance(data, Data)
    assert confidence is not None
    distances = compute(plan, progress=progress)
    if distances.interrupted:
        raise KeyboardInterrupt
    if distances.n_failed:
        first = distances.reasons[0]
        raise ValueError(f"candidates[{distances.other_labels[first.j]!r}]: {first.text}")
    slopes = _Slopes.of(data, processes, cost, discount)
    score = distances.uncut[0] if any(isinstance(c, Data) for c in processes.values()) else distances.plugin[0]
    best = int(np.argmin(score))
    error, inside = slopes.near(score, best, confidence)
    plugins = np.where(np.isnan(distances.plugin[0]), distances.values[0], distances.plugin[0])
    table = tuple(
        Candidate(*row)
        for row in zip(
            processes, distances.values[0].tolist(), distances.low[0].tolist(), distances.high[0].tolist(),
            inside.tolist(), plugins.tolist(), error.tolist(), strict=True,
        )
    )  # fmt: skip
    kept = tuple(row.name for row in table if row.inside)
    return Selection(table[best].name, kept, table, confidence, discount, distances.notes)


class _Slopes(NamedTuple):
    """Derivative of each distance per entry of the data, (n_candidates, n_entries); noise per entry; other noise."""

    values: Floats
    weights: Floats
    own: Floats

    @classmethod
    def of(cls, data: Data, candidates: Mapping[Hashable, ChainOrData], cost: object, discount: float) -> _Slopes:
        model = _quietly(data)
        rows, variances = [], []
        for process in candidates.values():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the matrix has warned already
                gradient = plugin(data, process, _table(cost, data, process), discount=discount).gradient
            assert gradient is not None
            rows.append(intervals._entry_slopes(model, gradient.x))
            other = _quietly(process)
            variances.append(0.0 if other.samples is None else intervals._row_variance(other, gradient.y))
        return cls(np.array(rows), intervals._weights(model), np.array(variances))

    def near(self, score: Floats, best: int, confidence: float) -> tuple[Floats, Bools]:
        """Standard errors of the differences from the best, and which candidates are not distinguishable from it."""
        apart = self.values - self.values[best]
        variance = np.where(np.arange(len(score)) == best, 0.0, self.own + self.own[best])
        error = np.sqrt((apart**2 * self.weights).sum(axis=1) + variance)
        rng = np.random.default_rng(0)
        noise = rng.standard_normal((_DRAWS, len(self.weights))) * np.sqrt(self.weights)
        alone = rng.standard_normal((_DRAWS, len(score))) * np.sqrt(self.own)
        moved = noise @ apart.T + alone - alone[:, [best]]
        largest = (moved / np.where(error > 0, error, 1.0)).max(axis=1)
        q = max(float(np.quantile(largest, confidence)), 0.0)
        near = score - score[best] <= q * error + 1e-12
        # Two candidates on the same side of the data have nearly equal slopes, so their difference has little error.
        # A candidate nearer than one not distinguishable from the best is therefore kept as well.
        return error, score <= score[near].max()


def _quietly(process: ChainOrData) -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(process)


def _table(cost: Any, x: ChainOrData, y: ChainOrData) -> Any:
    from somcot import costs

    return costs.between(cost, x, y)
