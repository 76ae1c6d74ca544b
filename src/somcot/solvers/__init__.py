"""The table of methods of `somcot.distance`, used by the API, the command line, reports and tests.

A new solver is one file and one row here. Rows contain text only: a module is imported when its method is used, since
compiled code takes a moment to load. The options of a method (and `confidence`, `rng`, ... if it has them) are the
keyword-only arguments of its function.
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
        same of any source of transitions.
    summary : str
        Description for reports and help pages.
    when : str
        When to choose this method, as in the table of docs/choosing.md.
    """

    name: str
    where: str
    takes: Literal["chains", "data", "streams"]
    summary: str
    when: str

    @cache  # noqa: B019 - rows are few and permanent
    def load(self) -> Callable[..., Result]:
        """The function, imported on first use."""
        return load_function(self.where)

    @cache  # noqa: B019
    def options(self) -> tuple[str, ...]:
        """Names of the keyword-only options; cached, since reading a signature takes as long as solving ten states."""
        return tuple(option_names(self.load()))


# The order is that of every list of methods: help, messages and documentation.
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
        "recorded data, without bias correction",
    ),
    Method(
        "saddle",
        "somcot.inference.estimate:saddle",
        "data",
        "the paper's saddle point on the observed occupancies",
        "the paper's saddle-point problem",
    ),
    Method(
        "somcot",
        "somcot.solvers.somcot:solve",
        "streams",
        "SOMCOT, the paper's stochastic algorithm",
        "a source to sample from, or the paper's algorithm itself",
    ),
    Method(
        "sinkhorn",
        "somcot.solvers.sinkhorn:solve",
        "chains",
        "Sinkhorn value iteration, an upper bound",
        "Sinkhorn value iteration",
    ),
    Method(
        "lp",
        "somcot.solvers.linear_program:solve",
        "chains",
        "linear program",
        "an independent check on a small problem",
    ),
)
METHODS = {row.name: row for row in _ROWS}


def describe(name: str) -> str:
    """The description of a method; the name itself if the table does not contain it.

    Examples
    --------
    >>> describe("lp")
    'linear program'
    """
    # Results of newer versions may name methods that this one does not know.
    return METHODS[name].summary if name in METHODS else name
