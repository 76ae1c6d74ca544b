"""Options whose value is one of the names of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer

__all__ = ["listed", "one_of"]


def one_of(names: Iterable[str], text: str) -> Any:
    """A typer option that takes one of the names; ``{}`` in its help becomes the list of them."""
    known = list(names)

    def checked(value: str | None) -> str | None:
        if value is not None and value not in known:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, known))}")
        return value

    def completed(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return typer.Option(metavar="NAME", callback=checked, autocompletion=completed, help=text.format(listed(known)))


def listed(names: Iterable[str]) -> str:
    """Names as a sentence has them.

    Examples
    --------
    >>> listed(["csv", "tsv", "npy"])
    'csv, tsv or npy'
    """
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
