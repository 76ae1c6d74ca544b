"""Entry point of the ``somcot`` command and of ``python -m somcot``; Ctrl-C works from the first import on."""

import contextlib
import ctypes
import gc
import os
import sys

from somcot.cli import signals

__all__ = ["main"]

_MMAP_THRESHOLD = -3  # of mallopt


def _return_memory() -> None:
    """Let large freed arrays go back to the system at once: a command may run next to others, for hours."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # read when Arrow is loaded
    with contextlib.suppress(AttributeError, OSError, TypeError):  # only the GNU library has it
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 22)


def main() -> None:
    """Entry point of the ``somcot`` command."""
    signals.leave_at_once()
    _return_memory()
    gc.set_threshold(250_000)  # searches for garbage among what is imported would take a tenth of a second
    from somcot.cli import application as cli  # the slowest import; an interrupt here loses no work

    signals.obey()
    try:
        cli.main()
    except SystemExit as left:
        signals.decided(left.code if isinstance(left.code, int) else 1)
        raise
    except KeyboardInterrupt:  # a second Ctrl-C, while the first is being reported
        signals.decided(signals.interruption()[1])
    finally:
        # Otherwise the interpreter would search all objects for cycles before it frees their memory, which ends anyway.
        gc.disable()
        # What DuckDB is written with lists every object that is still alive, on the screen.
        if "duckdb" not in sys.modules:
            gc.freeze()


if __name__ == "__main__":
    main()
