"""One look for all figures: sizes and type of a printed page, colours that survive colour blindness."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from somcot.plumbing.arrays import Floats
from somcot.plumbing.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CELLS", "COLUMN", "DEFAULT", "EXACT", "SOMCOT", "WIDE", "band", "power", "save", "styled"]

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
    """Draw with these settings, without a screen, and leave the user's own untouched."""
    import matplotlib as mpl

    with mpl.rc_context(_SETTINGS):
        yield


def band(ax: Axes, x: Floats, values: Floats, *, color: str, label: str, marker: str = "o") -> None:
    """The mean over seeds (first axis) as a line, their whole range as a band."""
    ax.fill_between(x, values.min(axis=0), values.max(axis=0), color=color, alpha=0.2, linewidth=0)
    ax.plot(x, values.mean(axis=0), marker=marker, color=color, label=label)


def power(number: float) -> str:
    r"""A number of steps as people write it.

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
    kinds: dict[str, dict[str, Any]] = {"png": {"dpi": 300}, "svg": {"metadata": {"Date": None}}}
    for kind, options in kinds.items():
        content = io.BytesIO()
        figure.savefig(content, format=kind, **options)
        write_bytes(folder / f"{name}.{kind}", content.getvalue())
    return [folder / f"{name}.{kind}" for kind in kinds]
