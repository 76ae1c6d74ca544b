"""Warning and error classes, and hints for objects that are not processes yet."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

__all__ = [
    "ConvergenceWarning",
    "DataWarning",
    "NotSolvedError",
    "UnseenStateWarning",
    "how_to_wrap",
    "meant",
    "warn",
]


# --- Warning classes, so that each kind can be filtered separately; `warn`.

_PACKAGE = __name__.partition(".")[0]


class ConvergenceWarning(UserWarning):
    """A computation missed its accuracy target and returned a simpler or less accurate result.

    Examples
    --------
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", ConvergenceWarning)  # in this block, and not elsewhere
    """


class UnseenStateWarning(UserWarning):
    """Some states have no recorded outgoing transitions, so their behaviour had to be assumed."""


class DataWarning(UserWarning):
    """Recorded data were dropped, are contradictory or look like another kind of data.

    Examples
    --------
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", DataWarning)  # doubtful data stop the program
    """


class NotSolvedError(RuntimeError):
    """Valid input, but the solver failed within its limits; another method, or more time, may succeed."""


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning that points at the line of the user's code, from any depth of the package.

    A fixed `stacklevel` would be wrong as soon as a function is called from two depths.
    """
    # Frame 1 is the caller of `warn`.
    frame: FrameType = sys._getframe(1)
    while _is_ours(frame) and frame.f_back is not None:
        frame = frame.f_back
    warnings.warn_explicit(
        message,
        category,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__", "__main__"),
        # The user's module keeps the registry, so "once per location" filters work for their lines.
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _is_ours(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")


# --- Hints for objects that are not processes: one table for all error messages.

# The paper's symbols, which its readers try first.
_LETTERS = {
    "eta": "primal_step",
    "beta": "dual_step",
    "k": "n_steps",
    "gamma": "discount",
    "a": "decay",
    "b": "batch_size",
}


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda thing: all(hasattr(thing, name) for name in names)


def _are_frames(thing: Any) -> bool:
    """Whether this is a list of arrays of whole numbers, as clusterings of simulations return them."""
    return (
        isinstance(thing, list)
        and bool(thing)
        and all(getattr(getattr(item, "dtype", None), "kind", "") in ("i", "u") for item in thing)
    )


# The first matching row is the hint. Other packages' objects are recognised by their attributes, without imports.
_ROWS: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (lambda thing: isinstance(thing, str | os.PathLike), "read a file first: readers.read(path)"),
    (
        _has("transitions", "rewards", "actions"),
        "compare decision processes by mdp.metric(x, y, discount=...), or under a policy: mdp.on_policy(x, policy)",
    ),
    # Tables have a `shape` too, so their `columns` are looked for before arrays.
    (_has("transition_matrix"), "make a chain of the model: readers.from_model(model)"),
    (_has("nodes", "edges"), "make a random walk of the graph: readers.from_graph(graph)"),
    (_has("reset", "step"), "roll the environment out: readers.from_env(env, policy, n_steps=...)"),
    (_has("columns"), "read the table: readers.from_table(table, sequence=..., time=..., state=...)"),
    (
        _are_frames,
        "count the steps: Samples.from_trajectories(...), or of frames: readers.from_dtrajs(dtrajs, lag=...)",
    ),
    (
        lambda thing: hasattr(thing, "shape") or isinstance(thing, list | tuple),
        "wrap a matrix: MarkovChain(matrix), labels: Samples.from_trajectories(...), vectors: "
        "Trajectories.from_arrays(...)",
    ),
)


def how_to_wrap(thing: object) -> str:
    """Advice to append to an error message if `thing` is not a process; may be empty.

    Examples
    --------
    >>> how_to_wrap([[0, 1, 1]]).partition(",")[0]
    '; wrap a matrix: MarkovChain(matrix)'
    >>> how_to_wrap("may.csv"), how_to_wrap(3)
    ('; read a file first: readers.read(path)', '')
    """
    return next((f"; {hint}" for fits, hint in _ROWS if fits(thing)), "")


def meant(name: str, known: Sequence[str]) -> str:
    """Suggestion to append to an error message about an unknown option: the most similar known one.

    Examples
    --------
    >>> meant("eta", ["n_steps", "primal_step"]), meant("nsteps", ["n_steps", "primal_step"])
    ('; did you mean primal_step?', '; did you mean n_steps?')
    """
    import difflib  # imported late: needed for error messages only

    letter = _LETTERS.get(name.lower())
    near = [letter] if letter in known else difflib.get_close_matches(name, known, 1, 0.75)
    return f"; did you mean {near[0]}?" if near else ""
