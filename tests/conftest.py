"""What all tests rely on."""

from __future__ import annotations

import signal
import threading

import pytest


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> None:
    """Let Ctrl-C through: jobs started in the background ignore it, and tests that send it would wait for ever."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
