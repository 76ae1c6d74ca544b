"""The one answer type of every solver and estimator."""

from __future__ import annotations

import enum
import os
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from somcot.cells import Cells, Continuous, MapFit, Resolution, ShiftCheck, Twin
from somcot.clocks import Clock
from somcot.contributions import ContributionInputs, Contributions, RowCounts
from somcot.couplings import Coupling, Residuals
from somcot.derivatives import Gradient, Margin, RowGradient, TimeGradient
from somcot.plumbing.arrays import Floats
from somcot.plumbing.html import record_card
from somcot.plumbing.records import view
from somcot.plumbing.text import brief_record, seconds

__all__ = [
    "Bounds", "Claim", "ConfidenceInterval", "Details", "Duals", "Estimate", "Maps", "Match", "Result", "Status",
]  # fmt: skip


class Status(enum.StrEnum):
    """How a computation ended."""

    CONVERGED = "converged"
    FINISHED = "finished"  # all steps that were asked for; the method has no test of convergence
    STEP_LIMIT = "step limit"
    ROUNDING = "rounding limit"  # floating point allows no better; the bracket says how good that is
    EXHAUSTED = "stream exhausted"
    INTERRUPTED = "interrupted"


class Claim(enum.StrEnum):
    """What is known about how far the distance is from the truth."""

    PROVED = "proved"  # known chains: the bounds hold the distance
    ESTIMATED = "estimated"  # recorded data: the bounds are those of the estimated chains, the truth is elsewhere
    NOTHING = "nothing proved"  # streams


class Bounds(NamedTuple):
    """A bracket that is proved, up to floating-point rounding, for the problem that was solved."""

    low: float
    high: float


class ConfidenceInterval(NamedTuple):
    """An interval for the true distance behind sampled data."""

    low: float
    high: float
    level: float


class Duals(NamedTuple):
    """Averaged multipliers of the paper's Lagrangian: alpha_X(x, x', y), alpha_Y(x, y, y') and V(x, y)."""

    alpha_x: Floats
    alpha_y: Floats
    V: Floats

    def __repr__(self) -> str:
        return brief_record(self)


class Estimate(NamedTuple):
    """How an estimate from data was corrected, and how uncertain it is.

    Attributes
    ----------
    gap : float
        Effective cross-fit gap: what re-optimising on noise gains, the size of the upward bias near 0.
    rho : float
        The gap relative to the plug-in; above 0.75 the data hardly tell the distance from 0.
    standard_error : float
        Of the plug-in, by the delta method.
    saturation : float
        Expected total-variation error of the kernels, accumulated over the horizon; above 3 data are too few.
    n_solves : int
        Exact solves it took.
    uncut : float or None
        The corrected value without cuts and switches, for ranking: the cross-fitted value, which may be negative.
        (Without splits, the distance of the pooled kernels.)
    pooled : float or None
        Distance of the kernels with rows pulled together that the data cannot tell apart; None where the states differ.
    equal_rows : float or None
        Share of the rows, among those that can be tested, that are judged equal in both processes.
    kept : tuple of float or None
        The share of the difference of each row that was kept, in the order of X's states, the start law last. Near 0:
        the data show no difference; 1: a clear one, or nothing to test.
    """

    gap: float
    rho: float
    standard_error: float
    saturation: float
    n_solves: int
    uncut: float | None = None
    pooled: float | None = None
    equal_rows: float | None = None
    kept: tuple[float, ...] | None = None

    def __repr__(self) -> str:
        return brief_record(self)

    def _repr_html_(self) -> str:
        return record_card(self)


class Maps(NamedTuple):
    """The encoder lambda_X(y | x), (n_x, n_y), and the decoder lambda_Y(x | y), (n_y, n_x).

    `at_noise_level` tells maps that are solved to the level of the sampling noise from those of the coupling.
    """

    encoder: Floats
    decoder: Floats
    at_noise_level: bool = False

    def __repr__(self) -> str:
        return brief_record(self)


class Match(NamedTuple):
    """A state of X, the state of Y it is most often paired with, and how often."""

    x: Hashable
    y: Hashable
    probability: float
    occupancy: float


class Details:
    """What a result has beside the distance that takes time: computed on first access, then kept.

    A solver's subclass has a `functools.cached_property` for each; one that the instance has already, passed here or
    assigned, is never computed. All copies of a Result share one object. To be sent to another process, a subclass
    keeps nothing but what can be pickled.

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

    def __init__(self, **known: object) -> None:
        self.__dict__.update(known)

    @cached_property
    def bounds(self) -> Bounds:
        """The bracket that is proved."""
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
        """Columns recorded along the way."""
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
        """What `Result.diagnose` says."""
        return ()

    @cached_property
    def makeup(self) -> ContributionInputs | None:
        """What contributions are computed from."""
        return None

    @cached_property
    def counted(self) -> float | None:
        """Distance of the chains of the transitions that SOMCOT was fed."""
        return None


DETAILS = tuple(name for name, part in vars(Details).items() if isinstance(part, cached_property))
_READ: Any = None  # for type checkers: these need not be passed where `details` is


class _Amended(Details):
    """The details of another result with some of its own; whatever is computed, it is computed once for both."""

    def __init__(self, base: Details, **known: object) -> None:
        super().__init__(**known)
        self.base = base

    def __getattribute__(self, name: str) -> object:
        own = object.__getattribute__(self, "__dict__")
        if name in DETAILS and name not in own:
            return getattr(own["base"], name)
        return object.__getattribute__(self, name)


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A distance with everything that came with it.

    ``float(result)`` is the distance and ``print(result)`` a one-line summary. What known chains have beside it (the
    coupling, its residuals, the maps, the gradient) is computed when first read, once for a result and its copies;
    ``dataclasses.replace`` computes nothing.

    Attributes
    ----------
    distance : float
        (1 - discount) E[sum_t discount^t c(X_t, Y_t)], so min c <= distance <= max c.
    bounds : Bounds
        Proved bracket of the problem that was solved: for known chains it holds `distance`; for data it is that of the
        estimated chains and holds `plugin`, not the corrected distance; for SOMCOT it is that of the chains of the
        transitions it was fed and holds `counted`, while SOMCOT's own distance may lie outside.
    maps : Maps
        Where `encoder` and `decoder` come from: the coupling `plan`, or, for data whose noise blurs that, the saddle
        point solved to the level of the noise (see `somcot.inference.estimate`).
    potential : ndarray, shape (n_x, n_y)
        V, scaled so that distance = (1 - discount) * V(start pair); NaN for pairs the start cannot reach.
    state_law : ndarray, shape (n_x, n_y)
        Discounted occupancy of state pairs under the coupling.
    plan : Coupling or None
        The occupancy coupling, entry by entry.
    residuals : Residuals
        Violations of the flow and causality constraints.
    trace : mapping of str to ndarray
        Columns recorded along the way, among them "step" and "distance".
    confidence_interval : ConfidenceInterval or None
        For the true distance; None where nothing was sampled or asked.
    plugin : float or None
        Distance of the estimated chains, solved exactly; None for known chains.
    estimate : Estimate or None
        How the estimate was corrected, and its standard error; None for known chains.
    gradient : Gradient or None
        Derivatives with respect to kernels, cost and start laws; None for methods that do not give them.
    duals : Duals or None
        Multipliers of the constraints, from primal-dual methods only.
    notes : tuple of str
        What `diagnose` says.
    makeup : ContributionInputs or None
        What `contributions` works with.
    settling : float or None
        Steps until the start is forgotten, where discounts are close to 1 or there is none: the spread of the potential
        within the pairs that lead to each other, per range of the cost. Distances at discount g and in the long run
        differ by at most (1 - g) times that, times the range of the cost.
    time_gradient : TimeGradient or None
        In place of `gradient` where kernels change with time.
    continuous : Continuous or None
        For recordings of real vectors: `cells`, `resolution`, `twin` and `shift_check`.
    clock : Clock
        How the costs of single moments add up: a discount, the long-run average, a horizon, a rate or a total.
    counted : float or None
        Exact distance of the chains most likely to have sent the transitions that SOMCOT was fed; None for other
        methods, and where it would take longer than two seconds (`diagnose` then says so). A run that differs from it
        by more than 0.01 of the cost's range has not converged, and warns.
    details : Details
        What `bounds`, `maps`, `potential`, `state_law`, `residuals`, `trace`, `plan`, `gradient`, `notes`, `makeup` and
        `counted` are read from.
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
    clock: Clock = Clock("discount")  # noqa: RUF009 - a tuple never changes
    continuous: Continuous | None = None
    details: Details = field(default_factory=Details)

    if TYPE_CHECKING:  # read from `details`, and taken by `dataclasses.replace` and the constructor as fields are
        bounds: Bounds = _READ
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
                values["details"] = _Amended(details, **known) if known else details
                missing = []
            names = [row.name for row in fields(self) if row.default is MISSING]
            missing += [name for name in names if name not in values]
            unknown = values.keys() - self.__dataclass_fields__.keys()
            if missing or unknown:
                raise TypeError(f"Result: without {missing}" if missing else f"Result: has no {sorted(unknown)}")
            self.__dict__.update(values)

    @property
    def converged(self) -> bool:
        """Whether the method met its own accuracy target."""
        return self.status is Status.CONVERGED

    @property
    def claim(self) -> Claim:
        """What is known about the distance: proved, estimated, or nothing proved."""
        if not self.n_samples:
            return Claim.PROVED
        sources = (self.plugin, self.estimate, self.confidence_interval)
        return Claim.NOTHING if sources == (None, None, None) else Claim.ESTIMATED

    @property
    def cells(self) -> Cells | None:
        """For recordings of real vectors: the cells that are their states here, with centres and `assign`."""
        return None if self.continuous is None else self.continuous.cells

    @property
    def resolution(self) -> Resolution | None:
        """The answer of cells alone for fewer cells, which says nothing about its error."""
        return None if self.continuous is None else self.continuous.resolution

    @property
    def twin(self) -> Twin | None:
        """The bias of the cells, measured on linear models of the recordings: whether it is used, and why."""
        return None if self.continuous is None else self.continuous.twin

    @property
    def shift_check(self) -> ShiftCheck | None:
        """What a known shift of the recordings themselves is measured as."""
        return None if self.continuous is None else self.continuous.shift_check

    @property
    def encoder(self) -> Floats:
        """lambda_X(y | x), (n_x, n_y): where each state of X goes in Y. Rows sum to 1, uniform for unvisited states."""
        return self.maps.encoder

    @property
    def decoder(self) -> Floats:
        """lambda_Y(x | y), (n_y, n_x): where each state of Y goes in X. Rows sum to 1, uniform for unvisited states."""
        return self.maps.decoder

    @property
    def n_samples(self) -> int:
        """Transitions used, both chains together; 0 for known chains."""
        return sum(self.samples)

    def __float__(self) -> float:
        return float(self.distance)

    def coupling(self) -> Floats:
        """The occupancy coupling mu as a full array, (n_x, n_y, n_x, n_y).

        Refused with a clear error above the memory limit; `plan` holds the entries with mass whatever the size.
        """
        if self.plan is None:
            if self.time_gradient is not None:
                raise ValueError("coupling: kernels change with time, and each step has its own; see state_law")
            raise ValueError("coupling: this run did not keep its coupling; ask for it with keep_coupling=True")
        return self.plan.dense()

    def diagnose(self) -> list[str]:
        """Say in words what looks wrong with the run and what to do; empty when nothing does."""
        return list(self.notes)

    def matches(self) -> list[Match]:
        """For each visited state of X its most frequent partner in Y, the most visited states first."""
        visits = self.state_law.sum(axis=1)
        best = self.encoder.argmax(axis=1)
        order = [int(i) for i in np.argsort(-visits, kind="stable") if visits[i] > 0]
        return [
            Match(self.states_x[i], self.states_y[best[i]], float(self.encoder[i, best[i]]), float(visits[i]))
            for i in order
        ]

    def contributions(self, n: int = 10) -> Contributions:
        """Where the distance comes from: the `n` pairs of states and the `n` transitions that contribute most.

        Each with its standard error and a mark if it is no accident (false discovery rate 5 %; two recordings of one
        process get no mark at all in at least 95 % of cases). For data these are shares of the plug-in, before the
        correction for bias.

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

    def __str__(self) -> str:
        parts = [f"{self.distance:.6g}", self._claimed()]
        if self.counted is not None:
            parts.insert(1, f"its transitions give {self.counted:.6g}")
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
            vague = self.continuous is not None and self.continuous.route == "approximate"
            return "approximate, no interval" if vague else "estimated, no interval"
        low, high, level = self.confidence_interval
        return f"estimated, {100 * level:g} % interval [{low:.4g}, {high:.4g}]"

    def __repr__(self) -> str:
        return f"<somcot.Result {self}>"

    def _repr_html_(self) -> str:
        card: str = view("result.card")(self)
        return card

    def report(self, path: str | os.PathLike[str], **details: Any) -> None:
        """Write a page about the result: one HTML file without scripts, for readers who were not there.

        Parameters
        ----------
        path : path
            The file to write; what is there is replaced in one move.
        **details
            As for `somcot.report.html`, above all ``names=("May", "June")``, and the processes ``x=`` and ``y=`` for a
            summary of the data.

        Examples
        --------
        >>> import somcot, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "walks.html"
        >>> x, y = somcot.random_walk(3), somcot.random_walk(3, 0.7)
        >>> result = somcot.distance(x, y, somcot.costs.labels(x.states, y.states), discount=0.9)
        >>> result.report(path, names=("fair", "drifting"))
        >>> "How far apart are fair and drifting?" in path.read_text()
        True
        """
        view("result.page")(path, self, **details)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a file that holds no code; `Result.load` reads it back."""
        from somcot.plumbing.records import save  # safetensors, which few sessions need

        save(path, self, "result")

    def _asdict(self) -> dict[str, object]:
        """What a file holds, by name."""
        names = [row.name for row in fields(self) if row.name != "details"]
        values: dict[str, Any] = {name: getattr(self, name) for name in (*names, *DETAILS)}
        if self.makeup is not None:
            values["makeup"] = replace(self.makeup, same_rows=self.makeup.pvalue())
        if self.continuous is not None:  # the recordings are the user's, and large
            values["continuous"] = self.continuous._replace(cells=self.continuous.cells.without_data())
        return values

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read a result written by `save`; refuse anything else."""
        from somcot.plumbing.records import load  # as in `save`

        records = (
            Bounds, Cells, Clock, ConfidenceInterval, Continuous, ContributionInputs, Coupling, Duals, Estimate,
            Gradient, MapFit, Maps, Margin, Residuals, Resolution, Result, RowCounts, RowGradient, ShiftCheck, Status,
            TimeGradient, Twin,
        )  # fmt: skip
        found = load(path, "result", records)
        if not isinstance(found, cls):
            raise ValueError(f"{os.fspath(path)}: not a somcot result file (it holds a {type(found).__name__})")
        wrong = found._misshapen()
        if wrong:
            raise ValueError(f"{os.fspath(path)}: not a somcot result file ({wrong} does not fit the states)")
        return found

    def _misshapen(self) -> str | None:
        """The first field whose shape contradicts the labels of the states, if there is one."""
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


for _name in DETAILS:
    setattr(Result, _name, property(attrgetter(f"details.{_name}")))
