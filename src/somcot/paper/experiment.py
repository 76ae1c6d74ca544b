"""Experiments: records, the loop over seeds and cases, calls of both algorithms, and the style of all figures."""

from __future__ import annotations

import dataclasses
import io
import json
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np

import somcot
from somcot.chains import MarkovChain
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import ConvergenceWarning, DataWarning, UnseenStateWarning
from somcot.plumbing.files import FIGURE_MARKS, write_bytes
from somcot.plumbing.memory import one_blas_thread
from somcot.samples import Samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from somcot.result import Result

__all__ = [
    "CELLS",
    "COLUMN",
    "DEFAULT",
    "EXACT",
    "SOMCOT",
    "TABLE",
    "WIDE",
    "Choice",
    "DrawnPair",
    "Experiment",
    "FigureCheck",
    "Record",
    "Report",
    "TableRow",
    "band",
    "default_estimate",
    "few_data_expected",
    "hits",
    "power",
    "save",
    "spearman",
    "stages",
    "styled",
    "sweep",
    "walk_cost",
]


Case = TypeVar("Case")
Outcome = TypeVar("Outcome")

# --- Experiments, their records and acceptance figures.

Report = Callable[[int, int], None]
"""Called with (done, total) along a sweep."""


class FigureCheck(NamedTuple):
    """One acceptance figure: a measured value and its limit for a correct implementation.

    Examples
    --------
    >>> print(FigureCheck("Spearman at K = 1,000", 0.58, ">=", 0.5))
    ok    Spearman at K = 1,000: 0.58, expected >= 0.5
    """

    name: str
    value: float
    relation: Literal[">=", "<="]
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the value is on the right side of the limit; NaN never is."""
        return bool(self.value >= self.limit if self.relation == ">=" else self.value <= self.limit)

    def __str__(self) -> str:
        return (
            f"{'ok  ' if self.passed else 'MISS'}  {self.name}: {self.value:.3g}, "
            f"expected {self.relation} {self.limit:.3g}"
        )


@dataclass(frozen=True)
class Record:
    """The data of one figure: settings, seed, numbers, acceptance figures."""

    name: str
    settings: Any
    seed: int
    data: Mapping[str, Any]
    checks: tuple[FigureCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether every acceptance figure was reached."""
        return all(check.passed for check in self.checks)

    def to_json(self) -> str:
        """The record as JSON, one line per part, arrays as nested lists with six significant digits."""
        checks = [check._asdict() | {"passed": check.passed} for check in self.checks]
        content = {
            "somcot": somcot.__version__,
            "name": self.name,
            "version": somcot.__version__,
            "seed": self.seed,
            "settings": dataclasses.asdict(self.settings),
            "checks": checks,
            "data": self.data,
        }
        # One line per part, so that differences between two runs are readable.
        lines = (f" {json.dumps(key)}: {json.dumps(_plain(part))}" for key, part in content.items())
        return "{\n" + ",\n".join(lines) + "\n}"


@dataclass(frozen=True)
class Experiment:
    """A figure of the paper: its full and quick settings, and the functions that compute and draw it."""

    name: str
    title: str
    see: str
    full: Any
    quick: Any
    run: Callable[[Any, int, Report | None], Record]
    plot: Callable[[Record], Figure]


def _plain(value: Any) -> Any:
    """NumPy arrays and numbers as Python objects, floats rounded, NaN as null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        # JSON has no NaN, and digits beyond six are noise.
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value


# --- Both algorithms, and the loop over seeds and cases.


class DrawnPair(NamedTuple):
    """Samples of the two processes that are compared."""

    x: Samples
    y: Samples

    @classmethod
    def draw(cls, x: MarkovChain, y: MarkovChain, n: int, discount: float, rng: np.random.Generator) -> DrawnPair:
        """Draw n transitions of each chain from its discounted occupancy."""
        # Independent samples of the occupancy, as the paper assumes.
        return cls(x.sample_occupancy(n, discount, rng=rng), y.sample_occupancy(n, discount, rng=rng))

    def first(self, n: int) -> DrawnPair:
        """The first n transitions of each."""
        return DrawnPair(self.x.take(np.arange(n)), self.y.take(np.arange(n)))


@dataclass(frozen=True)
class TableRow:
    """One row of the paper's table: eta_k = primal_step / sqrt(1 + decay k), beta = dual_step, b, gamma."""

    primal_step: float
    decay: float
    dual_step: float
    batch_size: int
    discount: float

    def run(self, pair: DrawnPair, cost: Floats, n_steps: int, *, support: str = "full") -> Result:
        """The paper's algorithm on the first n_steps * batch_size transitions of each, all iterates averaged."""
        from somcot.solvers import somcot as algorithm  # compiled code, which `reproduce --help` must not wait for

        result = _not_converged_expected(
            algorithm.solve,
            pair.x,
            pair.y,
            cost,
            discount=self.discount,
            n_steps=n_steps,
            primal_step=self.primal_step,
            dual_step=self.dual_step,
            decay=self.decay,
            batch_size=self.batch_size,
            # The paper averages all iterates; the package's default would drop the first half.
            average=1.0,
            support=support,
            order="recorded",
        )
        return _whole(result)

    def run_default(self, pair: DrawnPair, cost: Floats, n_steps: int) -> Result:
        """SOMCOT as it runs without rates, on the same transitions: counted, and solved on the counted chains."""
        from somcot.solvers import somcot as algorithm  # as above

        # Transitions are used in the recorded order, as in the paper's run, so that both methods see the same data.
        with few_data_expected():
            result = algorithm.solve(
                pair.x, pair.y, cost, discount=self.discount, n_steps=n_steps, batch_size=self.batch_size,
                order="recorded",
            )  # fmt: skip
        return _whole(result)


TABLE = {  # the paper's hyperparameters; eta and beta of "steps" stand for its grid
    "encoder": TableRow(primal_step=40.0, decay=0.0, dual_step=0.2, batch_size=1, discount=0.99),
    "similarity": TableRow(primal_step=20.0, decay=0.0, dual_step=0.5, batch_size=1, discount=0.99),
    "selection": TableRow(primal_step=0.1, decay=0.001, dual_step=0.5, batch_size=8, discount=0.95),
    "pendulum": TableRow(primal_step=0.1, decay=0.05, dual_step=0.2, batch_size=16, discount=0.95),
    "steps": TableRow(primal_step=1.0, decay=0.001, dual_step=0.1, batch_size=1, discount=0.95),
}


@one_blas_thread
def sweep(
    function: Callable[[Case, np.random.Generator], Outcome],
    cases: Sequence[Case],
    seeds: Sequence[int],
    report: Report | None = None,
) -> list[list[Outcome]]:
    """Call ``function(case, rng)`` for every seed and case; outcomes by seed.

    Each call has its own generator, seeded by the seed, the index of the case and the name of the function:
    functions of different names never share random numbers.

    Examples
    --------
    >>> sweep(lambda case, rng: case * int(rng.integers(1, 2)), [1, 2, 3], seeds=[0, 1])
    [[1, 2, 3], [1, 2, 3]]
    """
    # The name, not the object: seeds must not depend on addresses or the order of definitions.
    key = zlib.crc32(getattr(function, "__name__", "").encode())
    outcomes: list[list[Outcome]] = []
    for row, seed in enumerate(seeds):
        outcomes.append([])
        for i, case in enumerate(cases):
            # Also independent of how many other cases there are.
            outcomes[-1].append(function(case, np.random.default_rng([seed, i, key])))
            if report is not None:
                report(row * len(cases) + i + 1, len(seeds) * len(cases))
    return outcomes


def stages(report: Report | None, *sizes: int) -> list[Report | None]:
    """One progress report shared by several sweeps.

    Examples
    --------
    >>> first, second = stages(lambda done, total: print(done, "of", total), 2, 3)
    >>> first(1, 2)
    1 of 5
    >>> second(3, 3)
    5 of 5
    """
    if report is None:
        return [None] * len(sizes)
    whole: Report = report

    def stage(before: int) -> Report:
        return lambda done, _: whole(before + done, sum(sizes))

    return [stage(sum(sizes[:i])) for i in range(len(sizes))]


def default_estimate(pair: DrawnPair, cost: Floats, discount: float) -> Result:
    """The result of `somcot.distance` on the same samples."""
    with few_data_expected():
        return _whole(somcot.distance(pair.x, pair.y, cost, discount=discount, rng=0))


class Choice(NamedTuple):
    """The result of `somcot.select_model`: the distances of all candidates, and those that cannot be excluded."""

    distance: Floats
    plugin: Floats
    inside: Floats

    @classmethod
    def of(cls, data: Samples, candidates: Mapping[float, Samples], cost: Any, discount: float) -> Choice:
        """Select among the candidates."""
        with few_data_expected():
            found = somcot.select_model(data, candidates, cost, discount=discount, rng=0)
        # Columns of the table, as arrays over the candidates.
        rows = ((row.distance, row.plugin, float(row.inside)) for row in found.table)
        return cls(*np.array(list(rows)).T)


def _whole(result: Result) -> Result:
    """Raise KeyboardInterrupt for an interrupted result, which would be a wrong point in a figure."""
    if result.status is somcot.Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def _not_converged_expected(solve: Callable[..., Result], *given: Any, **options: Any) -> Result:
    """Run Algorithm 2 at the paper's rates without its warning: the figures show how far it gets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(*given, **options)


@contextmanager
def few_data_expected() -> Iterator[None]:
    """Suppress warnings about rarely seen states, which are common at the small sample sizes of the figures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenStateWarning)
        warnings.simplefilter("ignore", DataWarning)
        yield


def walk_cost(n: int, n_copies: int = 1, last: float = -1.0) -> Floats:
    """The paper's cost |r(x) - r(y)| of a walk and its block version: r is 1 at the first state, `last` at the last.

    Examples
    --------
    >>> walk_cost(3)
    array([[0., 1., 2.],
           [1., 0., 1.],
           [2., 1., 0.]])
    """
    rewards = np.concatenate([[1.0], np.zeros(n - 2), [last]])
    return somcot.costs.absolute(rewards, np.repeat(rewards, n_copies))


def hits(curves: Floats, place: int) -> float:
    """The share of curves (rows) whose minimum is at the correct position.

    Examples
    --------
    >>> hits(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 2.0]]), 1)
    0.5
    """
    return float((curves.argmin(axis=1) == place).mean())


def spearman(a: Floats, b: Floats) -> float:
    """Rank correlation.

    Examples
    --------
    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0]))
    0.5
    """
    from scipy.stats import spearmanr

    return round(float(spearmanr(a, b).statistic), 12)  # so that perfect agreement is exactly 1


# --- Style of all figures: print sizes and a palette for colour blindness.

COLUMN, WIDE = 3.3, 5.5  # inches: one column, and the width of the text

# Okabe and Ito's palette, and a darker blue. SOMCOT goes from light to dark with the number of steps.
SOMCOT = ("#56B4E9", "#0072B2", "#03335A")
DEFAULT = "#D55E00"
EXACT = "#000000"
CELLS = "#009E73"

_SETTINGS: Any = {
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "svg.hashsalt": "somcot",  # equal runs give equal files
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw with these settings, without a display; the user's settings are restored."""
    import matplotlib as mpl

    with mpl.rc_context(_SETTINGS):
        yield


def band(ax: Axes, x: Floats, values: Floats, *, color: str, label: str, marker: str = "o") -> None:
    """The mean over seeds (first axis) as a line, their range as a band."""
    # The range of the seeds, not a standard error: there are few of them.
    ax.fill_between(x, values.min(axis=0), values.max(axis=0), color=color, alpha=0.2, linewidth=0)
    ax.plot(x, values.mean(axis=0), marker=marker, color=color, label=label)


def power(number: float) -> str:
    r"""A number of steps as a power of ten.

    Examples
    --------
    >>> power(10_000), power(50_000)
    ('10^4', '5 \\times 10^4')
    """
    exponent = int(np.floor(np.log10(number)))
    factor = number / 10**exponent
    return f"10^{exponent}" if factor == 1 else rf"{factor:g} \times 10^{exponent}"


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write the figure as PNG and SVG."""
    # Without a date equal runs write equal files.
    kinds: dict[str, dict[str, Any]] = {"png": {"dpi": 300}, "svg": {}}
    dates: dict[str, dict[str, None]] = {"png": {}, "svg": {"Date": None}}
    for kind, options in kinds.items():
        content, metadata = io.BytesIO(), FIGURE_MARKS[kind]["metadata"]
        figure.savefig(content, format=kind, metadata=metadata | dates[kind], **options)
        write_bytes(folder / f"{name}.{kind}", content.getvalue())
    return [folder / f"{name}.{kind}" for kind in kinds]
