"""Warnings: their classes, so that each kind can be silenced or made an error on its own, and how one is given.

Also the one error that is nobody's mistake.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType

__all__ = ["ConvergenceWarning", "DataWarning", "NotSolvedError", "UnseenStateWarning", "warn"]

_PACKAGE = __name__.partition(".")[0]


class ConvergenceWarning(UserWarning):
    """A computation stopped short of its accuracy target and something simpler or rougher was returned."""


class UnseenStateWarning(UserWarning):
    """Nothing was recorded about leaving some states, so their behaviour had to be assumed."""


class DataWarning(UserWarning):
    """Recorded data were dropped, contradict each other or look like another kind of data."""


class NotSolvedError(RuntimeError):
    """A solver found no answer within its limits; another method, or more time, may."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that led here, however deep in the package the reason was found.

    Counted stack levels would be wrong as soon as a function is called from two depths.
    """
    frame: FrameType = sys._getframe(1)
    while _is_ours(frame) and frame.f_back is not None:
        frame = frame.f_back
    warnings.warn_explicit(
        message,
        category,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__", "__main__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _is_ours(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")
