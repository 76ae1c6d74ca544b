"""The result type of every solver and estimator."""

from __future__ import annotations

import enum
import os
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from somcot.cells import Cells, Continuous, MapFit, Resolution, ShiftCheck, Twin
from somcot.clocks import Clock
from somcot.contributions import RECORDS, BeforeEnd, ContributionInputs, Contributions, Estimate, Findings
from somcot.couplings import Coupling, Duals, Maps, Match, MatchInterval, Residuals
from somcot.derivatives import Gradient, Margin, RowGradient, TimeGradient
from somcot.plumbing.arrays import Floats
from somcot.plumbing.notes import codes
from somcot.plumbing.records import view
from somcot.plumbing.text import seconds

__all__ = [
    "BeforeEnd", "Bounds", "Claim", "ConfidenceInterval", "Details", "Duals", "Estimate", "Maps", "Match", "Result",
    "Status",
]  # fmt: skip


class Status(enum.StrEnum):
    """How a computation ended."""

    CONVERGED = "converged"
    FINISHED = "finished"  # all requested steps were taken; the method has no convergence test
    STEP_LIMIT = "step limit"  # the method would have needed more steps to converge
    ROUNDING = "rounding limit"  # limited by floating-point accuracy; the bounds give the remaining error
    EXHAUSTED = "stream exhausted"  # a stream ended before the planned number of steps
    INTERRUPTED = "interrupted"  # the result is that of the steps taken so far


class Claim(enum.StrEnum):
    """Kind of guarantee of the reported distance."""

    PROVED = "proved"  # known chains: the bounds contain the distance
    ESTIMATED = "estimated"  # recorded data: the bounds refer to the estimated chains, not to the true distance
    APPROXIMATE = "approximate"  # real vectors for which no error bound is available: no bounds and no interval
    NOTHING = "nothing proved"  # streams


class Bounds(NamedTuple):
    """Proved lower and upper bounds, up to floating-point rounding, for the problem that was solved."""

    low: float
    high: float


class ConfidenceInterval(NamedTuple):
    """An interval for the true distance behind sampled data."""

    low: float
    high: float
    level: float


class Details:
    """The expensive fields of a result, computed on first access and cached.

    A solver's subclass has a `functools.cached_property` for each. Fields that are passed here or assigned are never
    computed. All copies of a Result share one object. Subclasses keep picklable attributes only, so that results can
    be sent to other processes.

    Examples
    --------
    >>> from functools import cached_property
    >>> class Slow(Details):
    ...     @cached_property
    ...     def counted(self) -> float:
    ...         print("now")
    ...         return 1.5
    >>> slow = Slow(notes=("odd",))
    >>> slow.counted, slow.counted, slow.notes
    now
    (1.5, 1.5, ('odd',))
    >>> Slow(counted=2.5).counted
    2.5
    """

    def __init__(self, **known: object) -> None:  # assigned values shadow the cached properties
        self.__dict__.update(known)

    @cached_property
    def bounds(self) -> Bounds | None:
        """Proved bounds of the distance."""
        raise AttributeError("this result has no bounds")

    @cached_property
    def maps(self) -> Maps:
        """Encoder and decoder."""
        raise AttributeError("this result has no maps")

    @cached_property
    def potential(self) -> Floats:
        """V."""
        raise AttributeError("this result has no potential")

    @cached_property
    def state_law(self) -> Floats:
        """Discounted occupancy of state pairs."""
        raise AttributeError("this result has no state_law")

    @cached_property
    def residuals(self) -> Residuals:
        """Violations of the constraints."""
        raise AttributeError("this result has no residuals")

    @cached_property
    def trace(self) -> Mapping[str, Floats]:
        """Columns recorded during the run."""
        raise AttributeError("this result has no trace")

    @cached_property
    def plan(self) -> Coupling | None:
        """The occupancy coupling."""
        return None

    @cached_property
    def gradient(self) -> Gradient | None:
        """Derivatives of the distance."""
        return None

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Messages that `Result.diagnose` returns."""
        return ()

    @cached_property
    def makeup(self) -> ContributionInputs | None:
        """Inputs from which contributions are computed."""
        return None

    @cached_property
    def counted(self) -> float | None:
        """Distance of the chains estimated from the transitions that SOMCOT used."""
        return None


DETAILS = tuple(name for name, part in vars(Details).items() if isinstance(part, cached_property))
_READ: Any = None  # for type checkers: optional arguments if `details` is passed


class _Amended(Details):
    """The details of another result with some fields replaced; each field is computed once for both results."""

    base: Details  # fields are computed there, and shared

    def __getattribute__(self, name: str) -> object:
        values = object.__getattribute__(self, "__dict__")
        if name in DETAILS and name not in values:  # computed in `base`, so that copies share the work
            return getattr(values["base"], name)
        return object.__getattribute__(self, name)  # everything else, including methods

    def __getattr__(self, name: str) -> object:  # what only the details of one solver have, such as fitted models
        return getattr(object.__getattribute__(self, "base"), name)


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A distance with its bounds, coupling, maps and diagnostics.

    ``float(result)`` is the distance and ``print(result)`` a one-line summary. Expensive fields of known chains (the
    coupling, its residuals, the maps, the gradient) are computed on first access, once for a result and its copies;
    ``dataclasses.replace`` computes nothing.

    Attributes
    ----------
    distance : float
        (1 - discount) E[sum_t discount^t c(X_t, Y_t)], so min c <= distance <= max c.
    bounds : Bounds
        Proved bounds for the problem that was solved. For known chains they contain `distance`. For data they refer to
        the estimated chains and contain `plugin`, not the corrected distance. For SOMCOT they refer to the chains
        estimated from the transitions it used and contain `counted`, not always its distance. None if APPROXIMATE.
    maps : Maps
        The encoder and decoder, derived from the coupling `plan` or, for data too noisy for that, from the saddle point
        solved to the level of the noise (see `somcot.inference.estimate`).
    potential : ndarray, shape (n_x, n_y)
        V, scaled so that distance = (1 - discount) * V(initial pair); NaN for pairs not reachable from the initial one.
    state_law : ndarray, shape (n_x, n_y)
        Discounted occupancy of state pairs under the coupling.
    plan : Coupling or None
        The occupancy coupling, entry by entry.
    residuals : Residuals
        Violations of the flow and causality constraints.
    trace : mapping of str to ndarray
        Columns recorded during the run, among them "step" and "distance".
    confidence_interval : ConfidenceInterval or None
        Confidence interval of the true distance; None for known chains and if no interval was requested.
    plugin : float or None
        Distance of the estimated chains, solved exactly; None for known chains.
    estimate : Estimate or None
        How the estimate was corrected, and its standard error; None for known chains.
    gradient : Gradient or None
        Derivatives with respect to kernels, cost and initial distributions; None for methods without derivatives.
    duals : Duals or None
        Multipliers of the constraints, from primal-dual methods only.
    notes : tuple of str
        Messages that `diagnose` returns.
    makeup : ContributionInputs or None
        Inputs of `contributions`.
    settling : float or None
        Number of steps until the initial state is forgotten, for discounts close to or equal to 1: the span of the
        potential within communicating classes of pairs, divided by the range of the cost. The distance at discount g
        and the long-run average differ by at most (1 - g) times this number times the range of the cost.
    time_gradient : TimeGradient or None
        Replaces `gradient` if kernels change with time.
    continuous : Continuous or None
        For recordings of real vectors: the map between them, the route to the distance, a lower bound and `cells`.
    clock : Clock
        How costs are accumulated over time: a discount, the long-run average, a horizon, a rate or a total.
    counted : float or None
        SOMCOT: the exact distance of the chains fitted to its transitions; None where that would take too long.
    estimand : str
        What the distance is between: "process", or "first-order projection" if the data show memory.
    n_eff : float or None
        SOMCOT with a half-life: the number of equally weighted transitions that its decayed counts are worth.
    details : Details
        Source of the fields that are computed on first access.

    Examples
    --------
    >>> import somcot, tempfile
    >>> result = somcot.distance(somcot.random_walk(3), somcot.random_walk(3, 0.7), "labels", discount=0.9)
    >>> result.diagnose(), result.coupling().shape
    ([], (3, 3, 3, 3))
    >>> path = tempfile.mkdtemp() + "/walks"
    >>> result.save(path); result.report(path + ".html", names=("fair", "drifting"))
    >>> Result.load(path).distance == result.distance
    True
    """

    distance: float
    method: str
    status: Status
    message: str
    discount: float
    n_steps: int
    seconds: float
    states_x: tuple[Hashable, ...]
    states_y: tuple[Hashable, ...]
    samples: tuple[int, int] = (0, 0)
    confidence_interval: ConfidenceInterval | None = None
    plugin: float | None = None
    estimate: Estimate | None = None
    duals: Duals | None = None
    settling: float | None = None
    time_gradient: TimeGradient | None = None
    clock: Clock = Clock("discount")  # noqa: RUF009 - a tuple is immutable
    continuous: Continuous | None = None
    estimand: str = "process"
    n_eff: float | None = None
    details: Details = field(default_factory=Details)

    if TYPE_CHECKING:  # read from `details`; `dataclasses.replace` and the constructor accept them like fields
        bounds: Bounds = _READ  # None if the claim is APPROXIMATE
        maps: Maps = _READ
        potential: Floats = _READ
        state_law: Floats = _READ
        residuals: Residuals = _READ
        trace: Mapping[str, Floats] = _READ
        plan: Coupling | None = None
        gradient: Gradient | None = None
        notes: tuple[str, ...] = ()
        makeup: ContributionInputs | None = None
        counted: float | None = None
    else:

        def __init__(self, *, details: Details | None = None, **values: object) -> None:
            known = {name: values.pop(name) for name in DETAILS if name in values}
            if details is None:
                values["details"] = Details(**known)
                missing = [name for name in DETAILS if not hasattr(values["details"], name)]
            else:
                values["details"] = _Amended(base=details, **known) if known else details
                missing = []
            names = [row.name for row in fields(self) if row.default is MISSING]
            missing += [name for name in names if name not in values]
            unknown = values.keys() - self.__dataclass_fields__.keys()
            if missing or unknown:
                raise TypeError(f"Result: without {missing}" if missing else f"Result: has no {sorted(unknown)}")
            self.__dict__.update(values)  # `frozen` forbids plain assignment

    @property
    def converged(self) -> bool:
        """Whether the solver met its own accuracy target; it says nothing about the error of an estimate."""
        return self.status is Status.CONVERGED

    @property
    def claim(self) -> Claim:
        """Kind of guarantee of the distance: proved, estimated, approximate, or nothing proved."""
        if self.continuous is not None:
            return Claim.APPROXIMATE if self.continuous.route == "approximate" else Claim.ESTIMATED
        if not self.n_samples:
            return Claim.PROVED  # the bounds are for the processes themselves
        sources = (self.plugin, self.estimate, self.confidence_interval)
        return Claim.NOTHING if sources == (None, None, None) else Claim.ESTIMATED

    @property
    def cells(self) -> Cells | None:
        """For recordings of real vectors: the cells used as states, with centres and `assign`."""
        return None if self.continuous is None else self.continuous.cells

    @property
    def resolution(self) -> Resolution | None:
        """Deprecated: the distance does not depend on cells any more."""
        return None if self.continuous is None else self.continuous.former("resolution").resolution

    @property
    def twin(self) -> Twin | None:
        """Deprecated: there is no discretisation bias to correct any more."""
        return None if self.continuous is None else self.continuous.former("twin").twin

    @property
    def shift_check(self) -> ShiftCheck | None:
        """Deprecated: see `continuous.map` for the tests that the distance relies on."""
        return None if self.continuous is None else self.continuous.former("shift_check").shift_check

    @property
    def encoder(self) -> Floats:
        """The encoder lambda_X(y | x), (n_x, n_y). Rows sum to 1 and are uniform for unvisited states."""
        return self.maps.encoder

    @property
    def decoder(self) -> Floats:
        """The decoder lambda_Y(x | y), (n_y, n_x). Rows sum to 1 and are uniform for unvisited states."""
        return self.maps.decoder

    @property
    def n_samples(self) -> int:
        """Number of transitions used, summed over both chains; 0 for known chains."""
        return sum(self.samples)

    def __float__(self) -> float:
        return float(self.distance)

    def coupling(self) -> Floats:
        """The occupancy coupling mu as a full array, (n_x, n_y, n_x, n_y).

        Raises an error above the memory limit; `plan` holds the nonzero entries for any size.
        """
        if self.plan is None:
            if self.time_gradient is not None:
                raise ValueError("coupling: kernels change with time, and each step has its own; see state_law")
            raise ValueError("coupling: this run did not keep its coupling; ask for it with keep_coupling=True")
        return self.plan.dense()

    def diagnose(self) -> list[str]:
        """List problems of the run with advice; empty if none were detected."""
        return list(self.notes)  # a copy, which the caller may change

    @overload
    def matches(self) -> list[Match]: ...
    @overload
    def matches(self, confidence: float) -> list[MatchInterval]: ...
    def matches(self, confidence: float | None = None) -> list[Match] | list[MatchInterval]:
        """For each visited state of X, the state of Y it is most often coupled with; most visited states first.

        Parameters
        ----------
        confidence : float, optional
            Level of intervals for the probabilities, such as 0.9, from half-samples of the recordings (40 exact solves,
            and two for each state); chains are taken as known. An interval contains the probabilities in all optimal
            couplings. Returns a list of `MatchInterval`, which also says whether the partner is the same in all.

        Examples
        --------
        >>> import somcot
        >>> x = somcot.MarkovChain([[0.5, 0.5], [0.5, 0.5]], states=["A", "B"])
        >>> y = somcot.MarkovChain([[0.4, 0.1, 0.5]] * 3, states=["C", "D", "E"])
        >>> cost = [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
        >>> result = somcot.distance(x.sample(100, 20, rng=0), y.sample(100, 20, rng=1), cost, discount=0.9)
        >>> print(result.matches(confidence=0.9)[0])
        A corresponds to C with 0.8... [0.7..., 0.8...]
        """
        if confidence is not None:
            return list(view("matches")(self, confidence))
        visits = self.state_law.sum(axis=1)  # time spent in each state of X
        best = self.encoder.argmax(axis=1)  # from the reported maps, not from `plan`
        order = [int(i) for i in np.argsort(-visits, kind="stable") if visits[i] > 0]
        return [
            Match(self.states_x[i], self.states_y[best[i]], float(self.encoder[i, best[i]]), float(visits[i]))
            for i in order
        ]

    def contributions(self, n: int = 10) -> Contributions:
        """The `n` pairs of states and the `n` transitions that contribute most to the distance.

        Each has a standard error and a mark if it is statistically significant (false discovery rate 5 %, over all
        transitions and pairs, of which the 30 largest are tested, whatever `n`; two recordings of one process get no
        mark in at least 95 % of cases). For data these are shares of the plug-in, before the bias correction.

        Examples
        --------
        >>> import somcot
        >>> x = somcot.MarkovChain([[0.9, 0.1], [0.5, 0.5]], states=["home", "cart"])
        >>> y = somcot.MarkovChain([[0.8, 0.2], [0.5, 0.5]], states=["home", "cart"])
        >>> shares = somcot.distance(x, y, somcot.costs.labels(x.states, y.states), discount=0.9).contributions(1)
        >>> shares.pairs[0].x, shares.pairs[0].y, round(shares.pairs[0].amount, 4)
        ('home', 'cart', 0.106)
        >>> shares.transitions[0].state, shares.transitions[0].next_state
        ('home', 'cart')
        """
        shares: Contributions = view("contributions")(self, n)
        return shares

    def findings(self) -> Findings:
        """States and steps before (X) and after (Y): visits, sequences with them, and what differs significantly.

        The units of the test are whole sequences: how many of them have the state, or the step. Marks control the false
        discovery rate of all states and steps together (5 %). Empty if equal labels do not denote the same state, and
        for methods without contributions. See `somcot.inference.findings`.

        Examples
        --------
        >>> import somcot
        >>> before = somcot.Samples.from_trajectories([["home", "cart"]] * 90, end="left")
        >>> after = somcot.Samples.from_trajectories([["home", "cart"]] * 50 + [["home", "error"]] * 40, end="left")
        >>> result = somcot.distance(before, after, somcot.costs.labels(before.states, after.states), discount=0.9)
        >>> change = result.findings().states[0]
        >>> change.state, change.kind, change.sequences_x, change.sequences_y, change.marked
        ('error', 'new', 0, 40, True)
        """
        changes: Findings = view("findings")(self)
        return changes

    @property
    def active_share(self) -> float | None:
        """The share of the weighted time in which at least one of the two sequences has not ended.

        Under the reported coupling; ended: in a state that is never left. None if the rows were not kept.

        Examples
        --------
        >>> import somcot
        >>> x, y = (somcot.MarkovChain([[p, 1 - p], [0.0, 1.0]], states=["open", "closed"]) for p in (0.5, 0.5))
        >>> somcot.distance(x, y, [[0.0, 1.0], [1.0, 0.0]], discount=0.8).active_share
        0.333...
        """
        ended = None if self.continuous is not None or self.makeup is None else self.makeup.ended(self.clock.name)
        return None if ended is None else 1.0 - float((law := self.state_law)[ended].sum()) / (float(law.sum()) or 1.0)

    @property
    def before_end(self) -> BeforeEnd | None:
        """The distance and its interval divided by `active_share`; None if nothing ends, or ends at different costs.

        Values are at most the largest cost. The error of `active_share` itself is not part of the interval.
        """
        share = self.active_share
        return None if share is None or self.makeup is None else self.makeup.before_end(self, share)

    def __str__(self) -> str:
        noise = self.estimate is not None and abs(self.distance) < 1e-3 * self.estimate.standard_error
        parts = ["0" if noise else f"{self.distance:.6g}", self._claimed()]
        if self.counted is not None:
            off = "not converged: " if "not-converged" in codes(self.notes) else ""  # the interval is of the counted
            parts.insert(1, f"{off}its transitions give {self.counted:.6g}")
        if self.n_samples:
            parts.append(f"from {self.samples[0]:,} + {self.samples[1]:,} transitions")
        if self.continuous is not None:
            parts.append(self.continuous.summary(self.plugin))
        parts += [self.method, seconds(self.seconds)]
        if self.status not in (Status.CONVERGED, Status.FINISHED):
            parts.append(self.status.value)
        return ", ".join(parts)

    def _claimed(self) -> str:
        if self.claim is Claim.PROVED:
            return f"proved to {self.bounds.high - self.bounds.low:.1g}"
        if self.claim is Claim.NOTHING:
            return f"after {self.n_steps:,} steps, nothing proved"
        if self.confidence_interval is None:
            return f"{self.claim}, no interval"
        low, high, level = self.confidence_interval
        return f"estimated, {100 * level:g} % interval [{low:.4g}, {high:.4g}]"

    def __repr__(self) -> str:
        return f"<somcot.Result {self}>"

    def _repr_html_(self) -> str:
        return str(view("result.card")(self))

    def report(self, path: str | os.PathLike[str], **details: Any) -> None:
        """Write a self-contained HTML report without scripts.

        Parameters
        ----------
        path : path
            The file to write; an existing file is replaced atomically.
        **details
            As for `somcot.report.html`, above all ``names=("May", "June")``, and the processes ``x=`` and ``y=`` for a
            summary of the data.
        """
        view("result.page")(path, self, **details)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a file that contains no executable code; `Result.load` reads it back."""
        from somcot.plumbing.records import save  # imports safetensors, which most sessions do not need

        save(path, self, "result")

    def _asdict(self) -> dict[str, object]:
        """The saved fields by name."""
        names = [row.name for row in fields(self) if row.name != "details"]  # details are saved field by field
        values: dict[str, Any] = {name: getattr(self, name) for name in (*names, *DETAILS)}
        if self.makeup is not None:
            values["makeup"] = replace(self.makeup, same_rows=self.makeup.pvalue(), counted=self.makeup.visits())
        if self.continuous is not None:  # the recordings are large and belong to the user
            values["continuous"] = self.continuous._replace(cells=self.continuous.cells.without_data())
        return values

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read a result written by `save`; refuse anything else."""
        from somcot.plumbing.records import load  # as in `save`

        parts = (
            *RECORDS, Bounds, Cells, Clock, ConfidenceInterval, Continuous, Coupling, Duals, Gradient, MapFit, Maps,
            Margin, Residuals, Resolution, RowGradient, ShiftCheck, Status, TimeGradient, Twin,
        )  # fmt: skip
        result = load(path, "result", cls, parts)
        wrong = result._misshapen()
        if wrong:
            raise ValueError(f"{os.fspath(path)}: not a somcot result file ({wrong} does not fit the states)")
        return result

    def _misshapen(self) -> str | None:
        """The name of the first field whose shape does not match the number of states, or None."""
        n_x, n_y = len(self.states_x), len(self.states_y)
        shapes = {"encoder": (n_x, n_y), "decoder": (n_y, n_x), "potential": (n_x, n_y), "state_law": (n_x, n_y)}
        wrong = [name for name, shape in shapes.items() if getattr(self, name).shape != shape]
        if self.plan is not None:
            p = self.plan
            places = ((p.x, n_x), (p.y, n_y), (p.next_x, n_x), (p.next_y, n_y))
            fits = p.shape == p.start.shape == (n_x, n_y) and p.mass.ndim == 1
            fits = fits and all(k.shape == p.mass.shape and np.isin(k, np.arange(n)).all() for k, n in places)
            wrong += [] if fits else ["plan"]
        return wrong[0] if wrong else None


for _name in DETAILS:  # properties, so that expensive fields are computed on first access
    setattr(Result, _name, property(attrgetter(f"details.{_name}"), doc=f"See the attribute `{_name}` of `Result`."))
