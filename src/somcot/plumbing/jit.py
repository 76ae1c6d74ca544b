"""Telling a waiting user, once, that kernels are being compiled for the first time on this machine."""

from __future__ import annotations

import logging
import os
from typing import Any

__all__ = ["announce"]

logger = logging.getLogger("somcot")
_announced = False


def announce(kernel: Any) -> None:
    """Log a line if `kernel`, a Numba function with an on-disk cache, is neither loaded nor cached."""
    global _announced
    if _announced or kernel.signatures:
        return
    index = getattr(getattr(kernel._cache, "_cache_file", None), "_index_path", None)
    if index is not None and not os.path.exists(index):
        _announced = True
        logger.warning("compiling numerical kernels: 10 to 30 seconds, once; they are kept on disk")
