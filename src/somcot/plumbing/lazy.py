"""Fields that are computed when first read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any, Generic, TypeVar

__all__ = ["Later", "Lazy", "amended"]

T = TypeVar("T")
Record = TypeVar("Record")


class Later(Generic[T]):
    """A value that takes time: computed at the first call, then kept.

    What computes it is let go afterwards, with all that it holds. To be sent to another process it must be a
    `functools.partial` of a function that has a name.

    Examples
    --------
    >>> later = Later(lambda: print("now") or 1.5)
    >>> later(), later()
    now
    (1.5, 1.5)
    """

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute: Callable[[], T] | None = compute

    def __call__(self) -> T:
        """The value."""
        compute = self._compute
        if compute is not None:
            self._value = compute()
            self._compute = None
        return self._value

    def part(self, name: str) -> Later[Any]:
        """One attribute of the value, which may be put off itself, when it is asked for."""
        return Later(partial(_part, self, name))


def _part(whole: Later[Any], name: str) -> Any:
    found = getattr(whole(), name)
    return found() if isinstance(found, Later) else found


class Lazy(Generic[T]):
    """A field of a dataclass that may be given as `Later`; whoever reads it sees the value.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Answer:
    ...     table: Lazy[list[int]] = Lazy()
    >>> Answer(Later(lambda: [1, 2])).table
    [1, 2]
    """

    def __init__(self, *default: T) -> None:
        self._default = default

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, record: object | None, _owner: type) -> T:
        if record is None:  # a dataclass asks its class for the default; without one the field must be given
            if not self._default:
                raise AttributeError(self._name)
            return self._default[0]
        value = record.__dict__[self._name]
        if isinstance(value, Later):
            value = record.__dict__[self._name] = value()
        found: T = value
        return found

    def __set__(self, record: object, value: T | Later[T]) -> None:
        record.__dict__[self._name] = value


def amended(record: Record, **changes: Any) -> Record:
    """A copy of a dataclass with other values of some fields; `dataclasses.replace` would compute all that is put off.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Answer:
    ...     name: str
    ...     table: Lazy[list[int]] = Lazy()
    >>> answer = amended(Answer("one", Later(lambda: print("now") or [1, 2])), name="two")
    >>> answer.name
    'two'
    >>> answer.table
    now
    [1, 2]
    """
    kept = {field.name: record.__dict__[field.name] for field in fields(record)}  # type: ignore[arg-type]
    return type(record)(**kept | changes)
