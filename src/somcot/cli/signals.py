"""Ctrl-C and SIGTERM: one line at any moment, and the exit code 130 or 143.

Slow modules are not imported here, because the command loads this module first.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

__all__ = ["INTERRUPTED", "decided", "interruption", "leave_at_once", "obey"]

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
_WORDS = {INTERRUPTED: "interrupted", TERMINATED: "terminated"}

_requested = False  # whether SIGTERM was received


def leave_at_once() -> None:
    """From now on a signal ends the process immediately; for use before work starts and after it is done."""

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        # No buffered output and no clean-up: the interrupted code may hold their locks.
        os.write(2, f"{_WORDS[128 + number]}\n".encode())
        os._exit(128 + number)

    _handle(leave, leave)


def decided(code: int) -> None:
    """From now on signals do not change the exit code.

    They are ignored, because Python handlers are removed early in the interpreter's shutdown, and a later signal would
    kill the process. After an interruption the process ends here, because an interpreter that was interrupted within
    ``exec`` kills itself with SIGINT at shutdown although the interruption has been handled.
    """
    _handle(signal.SIG_IGN, signal.SIG_IGN)
    if code in _WORDS:
        # The reader of a pipe may be gone already.
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def obey() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt, and SIGTERM acts like Ctrl-C."""
    sys.unraisablehook = _interrupt_later
    _handle(signal.default_int_handler, _like_ctrl_c)


def _interrupt_later(lost: sys.UnraisableHookArgs) -> None:
    """Repeat an interruption that came while C called Python, as LLVM does while it compiles, and cannot be raised."""
    if lost.exc_type is KeyboardInterrupt:
        # Not at once: the handler would run, and raise, in this function.
        threading.Timer(0.01, _interrupt_main_thread).start()
    # An object whose construction was interrupted cannot be destroyed either, which is no news.
    elif not (lost.exc_type is AttributeError and getattr(lost.object, "__name__", None) == "__del__"):
        sys.__unraisablehook__(lost)


def _interrupt_main_thread() -> None:
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:  # a signal also ends a sleep or a wait for input, which `interrupt_main` does not
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def interruption() -> tuple[str, int]:
    """The message and the exit code of the interruption."""
    code = TERMINATED if _requested else INTERRUPTED
    return _WORDS[code], code


def _handle(ctrl_c: signal.Handlers | object, terminate: signal.Handlers | object) -> None:
    for number, handler in ((signal.SIGINT, ctrl_c), (signal.SIGTERM, terminate)):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and background shells ignore signals
            signal.signal(number, handler)  # type: ignore[arg-type]


def _like_ctrl_c(_number: int, frame: FrameType | None) -> None:
    global _requested
    _requested = True
    # A computation may have replaced the handler of Ctrl-C, to stop at a safe point.
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)
    else:
        raise KeyboardInterrupt
