"""Notes in tests are recognised by their codes, never by their wording."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator

import pytest

from somcot.cli.options import spelled
from somcot.plumbing.errors import DataWarning
from somcot.plumbing.notes import Note

__all__ = ["code_of", "codes", "noted", "notes_in", "worded"]


def codes(messages: Iterable[warnings.WarningMessage | str]) -> list[str]:
    """The codes of recorded warnings or of the notes of a result, in order."""
    return [note.code for note in notes_in(messages)]


def notes_in(messages: Iterable[warnings.WarningMessage | str]) -> list[Note]:
    """The notes in recorded warnings, or among the notes of a result; all must be."""
    found = [message if isinstance(message, str) else _content(message) for message in messages]
    notes = [note for note in found if isinstance(note, Note)]
    assert len(notes) == len(found), found
    return notes


def _content(warning: warnings.WarningMessage) -> object:
    assert isinstance(warning.message, Warning)
    return warning.message.args[0]


def code_of(error: pytest.ExceptionInfo[BaseException]) -> str:
    """The code of an error that is a note."""
    note = error.value.args[0]
    assert isinstance(note, Note), note
    return note.code


def worded(error: BaseException | None) -> str:
    """An error as the command line prints it."""
    note = error.args[0] if error is not None and error.args else None
    return note.worded(spelled) if isinstance(note, Note) else str(error)


@contextlib.contextmanager
def noted(
    code: str, category: type[Warning] = DataWarning, about: str | None = None, **values: object
) -> Iterator[None]:
    """Expect a warning with this code, these values and, where it is not None, about this; others are issued again."""
    with pytest.warns(category) as recorded:
        yield
    expected = [note for note in notes_in(recorded) if note.code == code]
    assert expected, f"{codes(recorded)} has no {code}"
    assert any(
        about in (None, note.about) and all(note.values[name] == value for name, value in values.items())
        for note in expected
    ), [(note.about, note.values) for note in expected]
    for warning in recorded:
        if _content(warning) not in expected:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
