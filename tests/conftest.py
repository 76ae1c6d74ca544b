"""What all tests rely on."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from hypothesis import settings

# `make test` tries the same examples every time; `make test-all` new ones, and prints how to repeat a failing one.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("new", print_blob=True, deadline=None)
settings.load_profile(os.environ.get("SOMCOT_EXAMPLES", "same"))


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> None:
    """Let Ctrl-C through: jobs started in the background ignore it, and tests that send it would wait for ever."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
