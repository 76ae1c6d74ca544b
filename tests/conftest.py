"""What all tests rely on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.command_server import Command

# `make test` tries the same examples every time; `make test-all` new ones, and prints how to repeat a failing one.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("new", print_blob=True, deadline=None)
settings.load_profile(os.environ.get("SOMCOT_EXAMPLES", "same"))


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> None:
    """Let Ctrl-C through: jobs started in the background ignore it, and tests that send it would wait for ever."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def command() -> Iterator[Command]:
    """The ``somcot`` command, imported once; every call is a process of its own."""
    with Command() as started:
        yield started
