"""Before the computation: a forecast of time and memory, and a suggested discount."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from somcot.chains import MarkovChain
from somcot.cli.inputs import NamedProcess
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note

__all__ = [
    "Size",
    "TooLongError",
    "confirm",
    "confirm_forecast",
    "confirm_pair",
    "duration",
    "estimate_size",
    "readable",
    "suggested_discount",
]

_SWEEPS = 6
_PATIENCE, _ROOM = 60.0, 4e9  # seconds and bytes above which the user has to confirm
_FEW, _MANY = 2.0, 100.0  # least and largest horizon of a suggested discount, in steps


class TooLongError(MemoryError):
    """A long computation was not started because it was not confirmed."""


class Size(NamedTuple):
    """Rough time and memory of one exact solution, or of the several that an estimate from data needs."""

    state_pairs: int
    seconds: float
    n_bytes: float


def estimate_size(x: MarkovChain, y: MarkovChain, *, from_data: bool) -> Size:
    """Estimate from the numbers of states and successors, within a factor of about three on a desktop machine.

    Examples
    --------
    >>> import somcot
    >>> walk = somcot.random_walk(100)
    >>> size = estimate_size(walk, walk, from_data=False)
    >>> size.state_pairs, size.seconds < 1
    (10000, True)
    """
    pairs = x.n_states * y.n_states
    # Mean numbers of successors; a transport problem between k and l of them takes about this many microseconds.
    k, m = (chain.support.indptr[-2] / chain.n_states for chain in (x, y))
    per_pair = 2e-6 + 0.3e-6 * (k + m) + 0.02e-6 * k * m
    solves = 4.0 if from_data else 1.0  # an estimate takes more solves, but the later ones are warm-started
    return Size(pairs, float(solves * _SWEEPS * pairs * per_pair), float(2.5 * pairs * (32.0 * (k + m) + 112.0)))


def confirm_forecast(size: Size, *, yes: bool) -> None:
    """Report a forecast above a minute or 4 GB: ask on a terminal, refuse elsewhere without ``--yes``.

    Examples
    --------
    >>> confirm_forecast(Size(100, 0.1, 1e6), yes=False)
    """
    if yes or (size.seconds <= _PATIENCE and size.n_bytes <= _ROOM):
        return
    forecast = f"about {duration(size.seconds)} and {readable(size.n_bytes)} of memory for {size.state_pairs:,} pairs"
    if _is_terminal():
        sys.stderr.write(f"This will take {forecast} of states.\n")
        confirm("--top N merges rare states, --yes skips this question")
        return
    raise TooLongError(f"this would take {forecast} of states; pass --yes to start, or merge rare states: --top N")


def confirm_pair(x: NamedProcess, y: NamedProcess, *, yes: bool) -> None:
    """Report the forecast of a long computation before it starts."""
    chains = [p.value if isinstance(p.value, MarkovChain) else p.value.chain(check=False) for p in (x, y)]
    known = all(isinstance(p.value, MarkovChain) for p in (x, y))
    confirm_forecast(estimate_size(*chains, from_data=not known), yes=yes)


def confirm(instead: str) -> None:
    """Ask on a terminal whether to start; a batch job cannot answer, so it starts."""
    if not _is_terminal():
        return
    sys.stderr.write("Start? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise TooLongError(f"not started; {instead}")


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def suggested_discount(processes: Sequence[NamedProcess]) -> float:
    """The discount whose horizon 1 / (1 - discount) is the mean length of a sequence; a note reports it.

    Examples
    --------
    >>> import somcot, warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     suggested_discount([NamedProcess("a.csv", somcot.random_walk(3).sample(10, 8, rng=0))])
    0.88
    """
    recorded = [p.value for p in processes if not isinstance(p.value, MarkovChain) and p.value.n_episodes]
    if not recorded:
        raise ValueError(
            "--discount: missing, and there are no sequences whose length could suggest a value; 1 / (1 - discount) is "
            "the number of steps that matter: try 0.9"
        )
    mean = sum(r.n_transitions for r in recorded) / sum(r.n_episodes for r in recorded)
    discount = round(1.0 - float(f"{1.0 / min(max(mean, _FEW), _MANY):.2g}"), 4)
    warn(Note("discount-chosen", discount=discount, steps=_rounded(mean)), DataWarning)
    return discount


def _rounded(number: float) -> str:
    return f"{number:.3g}" if number < 100 else f"{number:,.0f}"


def duration(seconds: float) -> str:
    """A readable duration.

    Examples
    --------
    >>> duration(0.2), duration(90), duration(5000)
    ('a second or less', '90 s', '83 min')
    """
    if seconds < 1:
        return "a second or less"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def readable(n_bytes: float) -> str:
    """A readable number of bytes.

    Examples
    --------
    >>> readable(2_500_000)
    '2.5 MB'
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.2g} {unit}" if n_bytes < 100 * size else f"{n_bytes / size:.0f} {unit}"
    return f"{n_bytes / 1e3:.0f} kB"
