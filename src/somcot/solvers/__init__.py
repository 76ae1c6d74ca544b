"""The table of methods: what `somcot.distance` can be asked for, read by the API, the command line, reports and tests.

A new solver is one file and one row here. Rows hold text only: a module is imported when its method is used, since
compiled code takes a moment to load. Its options (and `confidence`, `rng`, ... where it has them) are the keyword-only
arguments of the function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from somcot.plumbing.records import load_function, option_names

if TYPE_CHECKING:
    from somcot.result import Result

__all__ = ["METHODS", "Method", "describe"]


class Method(NamedTuple):
    """One way to compute a distance.

    Attributes
    ----------
    name : str
    where : str
        ``"module:function"``.
    takes : {"chains", "data", "streams"}
        ``function(problem)`` of two chains (data are counted first), ``function(x, y, cost)`` of chains or data, or the
        same of anything one can draw from.
    summary : str
        For people who read a report or a help page.
    when : str
        What one has at hand when this is the method to choose, as in the table of docs/choosing.md.
    """

    name: str
    where: str
    takes: Literal["chains", "data", "streams"]
    summary: str
    when: str

    @cache  # noqa: B019 - rows are few and stay
    def load(self) -> Callable[..., Result]:
        """The function, imported when it is first used."""
        return load_function(self.where)

    @cache  # noqa: B019
    def options(self) -> tuple[str, ...]:
        """What it takes as keywords only; reading a signature takes as long as a solve of ten states."""
        return tuple(option_names(self.load()))


_ROWS = (
    Method(
        "auto",
        "somcot.inference.estimate:estimate",
        "data",
        "estimate from data, corrected for bias",
        "recorded data, one side or both",
    ),
    Method(
        "exact",
        "somcot.solvers.exact:solve",
        "chains",
        "exact: policy iteration with exact transport",
        "two known chains",
    ),
    Method(
        "plugin",
        "somcot.inference.estimate:plugin",
        "data",
        "exact distance of the chains estimated from the data",
        "recorded data, and no wish for correction",
    ),
    Method(
        "saddle",
        "somcot.inference.estimate:saddle",
        "data",
        "the paper's saddle point on the observed occupancies",
        "interest in the paper's saddle point itself",
    ),
    Method(
        "somcot",
        "somcot.solvers.somcot:solve",
        "streams",
        "SOMCOT, the paper's stochastic algorithm",
        "a source to draw from, or a wish for the paper's algorithm",
    ),
    Method(
        "sinkhorn",
        "somcot.solvers.sinkhorn:solve",
        "chains",
        "Sinkhorn value iteration, an upper bound",
        "a wish to reproduce Sinkhorn value iteration",
    ),
    Method(
        "lp",
        "somcot.solvers.linear_program:solve",
        "chains",
        "linear program",
        "a second opinion on a small problem",
    ),
)
METHODS = {row.name: row for row in _ROWS}


def describe(name: str) -> str:
    """What a method is, for people; the name itself where the table does not know it.

    Examples
    --------
    >>> describe("lp")
    'linear program'
    """
    return METHODS[name].summary if name in METHODS else name
