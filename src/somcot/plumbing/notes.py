"""Notes: messages for people that programs can recognise by a code.

A note is a `str`, so it goes wherever a sentence goes: into `Result.notes`, a warning, an error, a JSON file. It also
has a code, the thing it is about, and its values. Texts, severities and explanations are in one catalogue
(`somcot.plumbing.note_catalogue`), from which ``python -m somcot.plumbing.notes`` makes docs/reference/notes.md.

In the catalogue ``{name}`` is a value, ``(s)`` and ``(is|are)`` are singular or plural by the value ``n``, and
``[[...]]`` is spelled by the reader: ``[[tidy=True]]`` is an argument in Python and a flag in a terminal,
``[[somcot.same_process]]`` a function or a command.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from somcot.plumbing.errors import warn
from somcot.plumbing.note_catalogue import CATALOGUE, Kind, Severity

__all__ = [
    "CATALOGUE",
    "HEADS",
    "Kind",
    "Note",
    "Severity",
    "Share",
    "Spelling",
    "arranged",
    "codes",
    "collected",
    "explained",
    "few_alike",
    "in_words",
    "page",
    "pattern",
    "python_spelling",
    "relayed",
    "restored",
]

Spelling = Callable[[str, str], str]  # the name and the value of an option, or a function and ""
_MARKER = re.compile(r"\[\[(.+?)\]\](?!\])")  # `(?!\])`: a marker may end with a list, as in [[state=['A', 'B']]]
_OPTION = re.compile(r"(\w+)(?:=(.*))?", re.DOTALL)
_NAMED = 3  # things a joint note names


def python_spelling(name: str, value: str) -> str:
    """An option as Python spells it.

    Examples
    --------
    >>> python_spelling("tidy", "True"), python_spelling("somcot.same_process", "")
    ('tidy=True', 'somcot.same_process')
    """
    return f"{name}={value}" if value else name


# Advice for whoever calls the library: a clause or a parenthesis with an option, a call or an attribute.
_CALLED = re.compile(r"\[\[|\b\w+(\.\w+)+\(|\bsomcot\.\w|\w=(?=[\w'\[{ ;)]|$)")
_ASIDE = re.compile(r" \([^()]*(?:\([^()]*\)[^()]*)*\)")


def in_words(name: str, value: str) -> str:
    """The spelling for readers of a page, who call nothing: clauses with options or calls are left out of texts.

    If nothing else is left, options are named without punctuation.

    Examples
    --------
    >>> note = Note("spellings", "may.csv", n=2, how="case", states="'Home', 'home'")
    >>> print(note.worded(in_words))
    may.csv: 2 states differ only in case: 'Home', 'home'
    """
    return f"{name.rpartition('.')[2]} {value}".strip().replace("_", " ")


def _without_calls(text: str) -> str:
    text = re.sub(r"^\[\[[^\]]*\]\]: ", "", text)  # the option that a note is about
    text = _ASIDE.sub(lambda aside: "" if _CALLED.search(aside[0]) else aside[0], text)
    kept = [clause for clause in text.split("; ") if not _CALLED.search(clause)]
    return "; ".join(kept) or text


class Share(NamedTuple):
    """How many of how many; notes about two sides that differ only in their `share` are joined."""

    n: int
    total: int

    def __str__(self) -> str:
        return f"{self.n:,} of {self.total:,}"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class Note(str):
    """A message of the catalogue; its own text is the Python wording.

    Parameters
    ----------
    code : str
        Key of the catalogue.
    about : str
        The thing it is about: a side ("x"), an argument, a file; the text begins with it. Empty for none.
    **values
        What the text needs. Texts and numbers only, so that notes can be sent to other processes.

    Examples
    --------
    >>> note = Note("spellings", "may.csv", n=2, how="case", states="'Home', 'home'")
    >>> print(note)
    may.csv: 2 states differ only in case: 'Home', 'home'; pass tidy=True to merge them
    >>> note.code, note.about, note.severity.name
    ('spellings', 'may.csv', 'CAUTION')
    """

    code: str
    about: str
    values: Mapping[str, object]

    def __new__(cls, code: str, about: str = "", /, **values: object) -> Note:
        """Put the values into the text of the code."""
        return restored(_text(code, about, values, python_spelling), code, about, values)

    @property
    def severity(self) -> Severity:
        """How much it matters; notes of a version with other codes are taken as information."""
        # A saved result of a newer version may have codes that this one does not know.
        return CATALOGUE[self.code].severity if self.code in CATALOGUE else Severity.INFO

    def worded(self, spelling: Spelling, names: Mapping[str, str] | None = None) -> Note:
        """The same note for another reader: options spelled, and things called, in another way."""
        about = (names or {}).get(self.about, self.about)
        text = _text(self.code, about, self.values, spelling) if self.code in CATALOGUE else str(self)
        return restored(text, self.code, about, self.values)

    def renamed(self, names: Mapping[str, str]) -> Note:
        """The same note, in Python's wording, with another name for what it is about."""
        return self.worded(python_spelling, names)

    def within(self, place: str) -> Note:
        """The same note about a part of something larger, such as side x at lag 3."""
        if not place:
            return self
        return Note(self.code, f"{place}: {self.about}" if self.about else place, **self.values)

    # `str` would be pickled without the attributes.
    def __reduce__(self) -> tuple[Callable[..., Note], tuple[str, str, str, dict[str, object]]]:
        return restored, (str(self), self.code, self.about, dict(self.values))


def restored(text: str, code: str, about: str = "", values: Mapping[str, object] | None = None) -> Note:
    """A note whose text is known: worded for another reader, or read from a file."""
    note = str.__new__(Note, text)
    note.code, note.about, note.values = code, about, values or {}
    return note


def _text(code: str, about: str, values: Mapping[str, object], spelling: Spelling) -> str:
    # Markers are split off before values are put in: a label may look like a marker.
    template = _numbered(CATALOGUE[code].text, values.get("n"))
    parts = _MARKER.split(_without_calls(template) if spelling is in_words else template)
    text = _spelled([part.format(**values) for part in parts], spelling)
    return f"{about}: {text}" if about else text


def _numbered(template: str, n: object) -> str:
    """Singular or plural by the value `n`."""
    one = n == 1
    template = template.replace("(s)", "" if one else "s")
    return re.sub(r"\((\w+)\|(\w+)\)", r"\1" if one else r"\2", template)


def _spelled(parts: list[str], spelling: Spelling) -> str:
    """Text and markers in turn, put together."""
    for i in range(1, len(parts), 2):
        option = _OPTION.fullmatch(parts[i])
        parts[i] = spelling(parts[i], "") if option is None else spelling(option[1], option[2] or "")
    return "".join(parts)


def codes(notes: Iterable[str]) -> list[str | None]:
    """The code of each note, None for plain text such as files of older versions hold."""
    return [note.code if isinstance(note, Note) else None for note in notes]


# --- Notes collected instead of shown, or attributed to a larger subject.


@contextlib.contextmanager
def collected() -> Iterator[list[Note]]:
    """Collect the notes that are given as warnings; at the end the list holds each of them once.

    Warnings of other packages are issued after the block, as if it were not there.

    Examples
    --------
    >>> from somcot.plumbing.errors import DataWarning
    >>> with collected() as notes:
    ...     warn(Note("empty-traces", "log.xes", n=2), DataWarning)
    >>> codes(notes)
    ['empty-traces']
    """
    notes: list[Note] = []
    # Recorded, not ignored: the warnings of other packages are issued again below.
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        try:
            yield notes
        finally:
            notes.extend(dict.fromkeys(note for warning in recorded if (note := _note_of(warning)) is not None))
    for warning in recorded:
        if _note_of(warning) is None:
            _issue(warning)


class relayed:  # noqa: N801  # used like a function
    """Add the part that notes issued in a block are about, such as a side or a lag.

    A class, so that no frame of contextlib stands between `warn` and the user's line.
    """

    def __init__(self, about: str) -> None:
        self._about = about
        self._catcher = warnings.catch_warnings(record=True)
        self._recorded: list[warnings.WarningMessage] = []

    def __enter__(self) -> None:
        self._recorded = self._catcher.__enter__()
        warnings.simplefilter("always")

    def __exit__(self, *error: object) -> None:
        # The catcher must be closed before warnings are issued again, or it would record them.
        self._catcher.__exit__(None, None, None)
        for warning in self._recorded:
            note = _note_of(warning)
            if note is None:
                _issue(warning)
            else:
                warn(note.within(self._about), warning.category)


def _note_of(warning: warnings.WarningMessage) -> Note | None:
    content = warning.message.args[0] if isinstance(warning.message, Warning) and warning.message.args else None
    return content if isinstance(content, Note) else None


def _issue(warning: warnings.WarningMessage) -> None:
    warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


# --- Many notes for one reader.


def arranged(
    notes: Iterable[str], names: Mapping[str, str] | None = None, spelling: Spelling = python_spelling
) -> list[str]:
    """Each note once, the most important first; a note that holds for several things is given for all of them.

    Parameters
    ----------
    notes : iterable of str
        Plain text, as old files hold it, stays as it is and comes last.
    names : mapping, optional
        What to call the things that notes are about, such as ``{"x": "May", "y": "June"}``.
    spelling : callable
        How the reader spells options.

    Examples
    --------
    >>> short = [Note("single-rows", side, share=Share(n, 9)) for side, n in (("x", 3), ("y", 4))]
    >>> alike = [Note("empty-traces", side, n=2) for side in "xy"]
    >>> for text in arranged(["old", *alike, *short, Note("too-alike")], {"x": "May", "y": "June"}):
    ...     print(text)
    the recordings are more alike than independent ones can be; are these the same sessions?
    May and June: 2 traces have no event
    May: 3 of 9 (June: 4 of 9) sequences have a single row, hence no step, and were dropped
    old
    """
    groups: dict[object, list[str]] = {}
    for note in notes:
        groups.setdefault(_sameness(note), []).append(note)
    # Two notes may read the same for this reader; each text is given once.
    rows = dict.fromkeys(_joint(group, names or {}, spelling) for group in groups.values())
    return sorted(rows, key=lambda note: note.severity if isinstance(note, Note) else len(Severity))


def few_alike(notes: Iterable[str], most: int = 2) -> list[str]:
    """Each note once, and at most `most` with the same code, about different periods or groups.

    Examples
    --------
    >>> few_alike([*(Note("empty-traces", name, n=2) for name in "abc"), "old"], 1)
    ['a: 2 traces have no event', 'old']
    """
    kinds: dict[str, list[str]] = {}
    for note in dict.fromkeys(notes):
        kinds.setdefault(note.code if isinstance(note, Note) else note, []).append(note)
    return [note for alike in kinds.values() for note in alike[:most]]


def _sameness(note: str) -> object:
    """Equal for notes that one sentence can hold."""
    if not isinstance(note, Note):
        return note
    # Notes without a subject are joined only if their shares agree, since they have no other distinction.
    apart = () if note.about else (note.values.get("share"),)
    return (note.code, *apart, *sorted((name, str(value)) for name, value in note.values.items() if name != "share"))


def _joint(group: list[str], names: Mapping[str, str], spelling: Spelling) -> str:
    first = group[0]
    if not isinstance(first, Note):
        return first
    # What was joined before is told apart again, to be named.
    pairs = [(n, ("x", "y") if n.about == "x and y" else (n.about,)) for n in group if isinstance(n, Note)]
    sides = {names.get(about, about): str(n.values.get("share", "")) for n, parts in pairs for about in parts}
    values = dict(first.values)
    about, *others = sides
    if len(set(sides.values())) > 1:
        more = ", ".join(f"{name}: {sides[name]}" for name in others)
        values["share"] = f"{sides[about]} ({more})"
    else:
        about = _listed(list(sides))
    text = _text(first.code, about, values, spelling) if first.code in CATALOGUE else str(first)
    return restored(text, first.code, about, values)


def _listed(names: list[str]) -> str:
    """Names as a sentence has them, of many the first.

    Examples
    --------
    >>> _listed(["a", "b"]), _listed(["a", "b", "c", "d", "e"])
    ('a and b', 'a, b, c and 2 more')
    """
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


# --- What a code means.

HEADS = {
    Severity.ERROR: ("Errors", "The computation or the reading of a file was refused."),
    Severity.DOUBT: ("The number may be wrong", "Settle these before you use the number."),
    Severity.CAUTION: ("The answer is less certain than it looks", "The interval or the test may be off."),
    Severity.INFO: ("Good to know", "What was assumed, dropped or chosen for you."),
}


def explained(code: str, spelling: Spelling = python_spelling) -> str:
    """The text of a code, as `pattern` has it, and what it means.

    Raises
    ------
    ValueError
        For an unknown code, with near matches.
    """
    if code not in CATALOGUE:
        import difflib  # takes a moment to load, and only mistakes need it

        near = difflib.get_close_matches(code, CATALOGUE, 3, 0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(Note("unknown-code", "code", code=code, near=hint))
    return f"{pattern(code, spelling)}\n\n{CATALOGUE[code].explained}"


def pattern(code: str, spelling: Spelling = python_spelling) -> str:
    """The text of a code with the names of its values in capitals, and without what is not always there.

    Examples
    --------
    >>> pattern("empty-traces")
    'N traces have no event'
    """
    # Markers such as {no_interval} are empty in most messages.
    text = re.sub(r"(?<=[\w)}])\{\w+\}|\{\w+\}(?=\w)", "", CATALOGUE[code].text)  # parts that may be empty
    text = re.sub(r"\{(\w+)[^{}]*\}", lambda value: value[1].upper(), _numbered(text, None))
    parts = _MARKER.split(text.replace("{{", "{").replace("}}", "}"))
    return _spelled(parts, spelling)


def page() -> str:
    """docs/reference/notes.md, made of the catalogue."""
    lines = [
        "# Notes and errors by code",
        "",
        "<!-- Written by python -m somcot.plumbing.notes; edit somcot/plumbing/note_catalogue.py instead. -->",
        "",
        "Every note in `result.notes`, every warning and the errors that suggest an option have a code, which",
        "`somcot explain CODE` explains in a terminal. In Python the code is `note.code`; of a warning `w` that was",
        "recorded, `w.message.args[0].code`. Words in capitals stand for values.",
    ]
    for severity, (title, sentence) in HEADS.items():
        lines += ["", f"## {title}", "", sentence]
        for code, kind in sorted(CATALOGUE.items()):
            if kind.severity is severity:
                lines += ["", f"### {code}", "", f"> {pattern(code)}", "", kind.explained]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(page())
