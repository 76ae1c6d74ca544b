"""Functions named in tables and imported when used; functions whose options are the fields of a record."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

__all__ = ["load", "option_names", "takes"]

F = TypeVar("F", bound=Callable[..., Any])


def load(where: str) -> Callable[..., Any]:
    """Import the function called ``"module:function"``.

    Examples
    --------
    >>> load("math:hypot")(3, 4)
    5.0
    """
    module, name = where.split(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


def takes(record: type) -> Callable[[F], F]:
    """Have ``**options`` of a function shown as the fields of a dataclass, where it does not name them itself.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Options:
    ...     speed: float = 1.0
    >>> @takes(Options)
    ... def move(x: int, **options: float) -> float:
    ...     return x * Options(**options).speed
    >>> inspect.signature(move)
    <Signature (x: 'int', *, speed: 'float' = 1.0) -> 'float'>
    """

    def shown(function: F) -> F:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type)
            for f in fields(record)
            if f.name not in signature.parameters
        ]
        function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return function

    return shown


def option_names(function: Callable[..., Any]) -> list[str]:
    """The names a function takes as keywords only.

    Examples
    --------
    >>> option_names(lambda x, *, speed=1: x)
    ['speed']
    """
    return list(_option_names(function))


@cache
def _option_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Kept: reading a signature takes as long as a solve of ten states."""
    return tuple(p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY)
