"""A progress line on standard error, for those who ask for one."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

__all__ = ["Report", "meter"]

Report = Callable[[int, int, float], None]


def meter(n_steps: int, stream: TextIO | None = None, every: float = 0.2) -> Report:
    r"""Make a function ``report(step, n_steps, value)`` that shows share done, value and time left.

    At most one update every `every` seconds; on a terminal the line is rewritten in place, elsewhere there is a plain
    line every ten seconds.

    Examples
    --------
    >>> import io
    >>> out = io.StringIO()
    >>> meter(10, out)(10, 10, 0.25)
    >>> out.getvalue()
    '100 %, 10 of 10 steps, 0.25, 0 s left\n'
    """
    out = sys.stderr if stream is None else stream
    rewrite = out.isatty()
    pause = every if rewrite else max(every, 10.0)
    began = shown = time.monotonic()
    first: int | None = None

    def report(step: int, total: int, value: float) -> None:
        nonlocal shown, first
        first = step if first is None else first
        now = time.monotonic()
        done = step >= total
        if not done and now - shown < pause:
            return
        shown = now
        left = (now - began) * (total - step) / max(1, step - first) if not done else 0.0
        line = f"{100 * step // total} %, {step:,} of {total:,} steps, {value:.4g}, {left:.0f} s left"
        out.write(f"\r{line:<70}" + ("\n" if done else "") if rewrite else line + "\n")
        out.flush()

    return report
