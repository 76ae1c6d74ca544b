"""Ctrl-C and requests to terminate: at any moment one line, and the exit code 130 or 143.

Nothing heavy is imported here: this is the first thing that the command does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

__all__ = ["INTERRUPTED", "decided", "interruption", "leave_at_once", "obey"]

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
_WORDS = {INTERRUPTED: "interrupted", TERMINATED: "terminated"}

_requested = False  # whether a signal asked this process to terminate


def leave_at_once() -> None:
    """From now on a signal ends the process without further ado: while there is nothing yet, or no longer, to lose."""

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        os.write(2, f"{_WORDS[128 + number]}\n".encode())
        os._exit(128 + number)

    _handle(leave, leave)


def decided(code: int) -> None:
    """From now on no signal changes the code that is decided already.

    They are ignored: handlers do not outlive the first steps of an interpreter on its way out, and then a signal would
    be what the process died of. After an interruption the process ends here: an interpreter that saw one within
    ``exec`` would kill itself with SIGINT on its way out, although everyone was told about it.
    """
    _handle(signal.SIG_IGN, signal.SIG_IGN)
    if code in _WORDS:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def obey() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt, and a request to terminate does what Ctrl-C would do just then."""
    _handle(signal.default_int_handler, _like_ctrl_c)


def interruption() -> tuple[str, int]:
    """A word for what happened, and its exit code."""
    code = TERMINATED if _requested else INTERRUPTED
    return _WORDS[code], code


def _handle(ctrl_c: signal.Handlers | object, terminate: signal.Handlers | object) -> None:
    for number, handler in ((signal.SIGINT, ctrl_c), (signal.SIGTERM, terminate)):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and shells in the background ask for
            signal.signal(number, handler)  # type: ignore[arg-type]


def _like_ctrl_c(_number: int, frame: FrameType | None) -> None:
    global _requested
    _requested = True
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)
    else:
        raise KeyboardInterrupt
