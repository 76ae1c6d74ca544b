"""Experiments and their records, and the common style of all figures."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

import somcot
from somcot.plumbing.arrays import Floats
from somcot.plumbing.files import FIGURE_MARKS, write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "CELLS",
    "COLUMN",
    "DEFAULT",
    "EXACT",
    "SOMCOT",
    "WIDE",
    "Experiment",
    "FigureCheck",
    "Record",
    "Report",
    "band",
    "power",
    "save",
    "styled",
]


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
