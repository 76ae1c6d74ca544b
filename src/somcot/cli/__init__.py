"""The command line. Light on purpose: `signals` is loaded before anything else."""

import importlib as _importlib
from typing import Any as _Any


def __getattr__(name: str) -> _Any:
    if name not in ("app", "main"):
        raise AttributeError(f"module 'somcot.cli' has no attribute {name!r}")
    return getattr(_importlib.import_module("somcot.cli.application"), name)
