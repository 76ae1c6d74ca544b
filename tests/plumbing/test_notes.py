"""The catalogue of notes is complete and in use, and a note survives where sentences go."""

from __future__ import annotations

import ast
import json
import pickle
import re
import string
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from somcot.cli.application import app, main
from somcot.cli.options import spelled
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import (
    CATALOGUE,
    Note,
    Severity,
    Share,
    arranged,
    collected,
    page,
    pattern,
    relayed,
    restored,
)
from somcot.plumbing.notes import codes as codes_of
from tests.notes import codes, noted

ROOT = Path(__file__).parents[2]
SOURCES = [p for p in (ROOT / "src/somcot").rglob("*.py") if p.name not in ("note_catalogue.py", "notes.py")]
# Codes that are chosen by a variable are strings somewhere in the file that makes the note, or those of another note.
CHOSEN = {"recorded/counts.py", "costs/features.py", "many/drift.py", "many/selection.py"}


def calls(name: str) -> Iterator[tuple[Path, ast.Call]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield path, node


def fields_of(code: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(CATALOGUE[code].text) if name}


def sample(code: str) -> Note:
    """A note with a value for every name in its text: numbers where the format needs one."""
    values: dict[str, object] = {}
    for _, name, spec, conversion in string.Formatter().parse(CATALOGUE[code].text):
        if name:
            values[name] = 3 if spec and not conversion else "horizon=8" if name == "clock" else "text"
    return Note(code, "x", **values)


def test_every_literal_code_is_in_the_catalogue_with_its_values() -> None:
    for path, call in calls("Note"):
        if isinstance(call.args[0], ast.Constant):
            code = str(call.args[0].value)
            assert code in CATALOGUE, f"{path}: {code}"
            names = {word.arg for word in call.keywords}
            if None not in names:  # ** adds the rest
                assert names == fields_of(code), f"{path}: {code}"
        else:
            assert path.relative_to(ROOT / "src/somcot").as_posix() in CHOSEN, path


def test_every_code_is_used() -> None:
    texts = {
        node.value
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(CATALOGUE) - texts == {"unknown-code"}  # which notes.py itself raises


def test_every_warning_is_a_note() -> None:
    """Nothing hands a text of its own to `warn`."""
    for path, call in calls("warn"):
        assert isinstance(call.args[0], (ast.Call, ast.Name, ast.BoolOp)), f"{path}:{call.lineno}"


@pytest.mark.parametrize("code", CATALOGUE)
def test_texts_format_and_are_explained(code: str) -> None:
    kind = CATALOGUE[code]
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code)
    assert len(kind.explained) > 60
    assert kind.explained.endswith(".")
    assert not kind.text.endswith(".")
    note = sample(code)
    for text in (note, note.worded(spelled), pattern(code)):
        assert "[[" not in text
        assert "]]" not in text
        assert "{" not in text or "bins=" in text
    assert not re.search(r"(^|\s)--[a-z]", note), "the library names arguments, not flags"
    assert pickle.loads(pickle.dumps(note)) == note
    assert pickle.loads(pickle.dumps(note)).values == note.values


def test_flags_in_notes_exist() -> None:
    """Whatever a note spells as a flag is an option of some command."""
    known = {o for c in _commands() for p in c.params for o in (*p.opts, *p.secondary_opts)}
    wanted = {flag for code in CATALOGUE for flag in re.findall(r"--[a-z-]+", sample(code).worded(spelled))}
    assert wanted <= known
    assert "--units" in wanted


def _commands() -> list[Any]:
    import typer.main

    return list(typer.main.get_command(app).commands.values())  # type: ignore[attr-defined]


def test_a_note_is_a_text_that_keeps_its_code() -> None:
    note = Note("single-rows", "may.csv", share=Share(1, 1200))
    assert note == "may.csv: 1 of 1,200 sequences have a single row, hence no step, and were dropped"
    assert json.loads(json.dumps([note])) == [str(note)]
    assert type(str(note)) is str
    other = pickle.loads(pickle.dumps(note))
    assert (other, other.code, other.about, other.values) == (note, note.code, note.about, note.values)
    with pytest.warns(DataWarning) as recorded:
        warn(note, DataWarning)
    assert codes(recorded) == ["single-rows"]
    assert note.within("lag 3").about == "lag 3: may.csv"
    assert note.within("") is note


@pytest.mark.parametrize(
    ("n", "text"), [(1, "1 state entered but never left is"), (2, "2 states entered but never left are")]
)
def test_singular_and_plural(n: int, text: str) -> None:
    # Labels are no part of the sentence.
    note = Note("never-left", "x", n=n, states="'item(s)', '(is|are)'")
    assert note.startswith(f"x: {text} taken as absorbing: 'item(s)', '(is|are)';")
    assert "(s)" not in pattern("never-left")


def test_labels_that_look_like_markers_stay() -> None:
    note = Note("never-left", n=1, states="'[[tidy=True]] {n}'")
    assert "'[[tidy=True]] {n}'" in note.worded(spelled)
    assert "--terminated all" in note.worded(spelled)


def test_notes_of_another_version_are_shown_as_they_are() -> None:
    old = restored("x: something", "a-code-of-the-future", "x")
    assert arranged([old], {"x": "May"}, spelled) == ["x: something"]
    assert old.severity is Severity.INFO
    assert old.worded(spelled) == "x: something"


def test_the_most_important_comes_first_and_plain_text_last() -> None:
    notes = ["plain", Note("empty-traces", n=1), Note("near-minimum"), Note("too-alike"), Note("near-minimum")]
    assert codes_of(arranged(notes)) == ["too-alike", "near-minimum", "empty-traces", None]


def test_what_holds_for_both_is_said_of_both_and_shares_are_joined() -> None:
    names = {"x": "May", "y": "June"}
    both = [Note("empty-traces", side, n=2) for side in "xy"]
    assert arranged(both, names) == ["May and June: 2 traces have no event"]
    apart = [Note("empty-traces", side, n=n) for n, side in enumerate("xy")]
    assert len(arranged(apart, names)) == 2
    shares = [Note("single-rows", "x", share=Share(3, 9)), Note("single-rows", "y", share=Share(1200, 1300))]
    (text,) = arranged(shares, names)
    assert text.startswith("May: 3 of 9 (June: 1,200 of 1,300) sequences")
    many = arranged(Note("empty-traces", f"w{k}", n=1) for k in range(5))
    assert many == ["w0, w1, w2 and 2 more: 1 trace has no event"]


def test_collected_takes_notes_and_leaves_others() -> None:
    def both() -> list[Note]:
        with collected() as notes:
            warn(Note("too-alike"), DataWarning)
            warn(Note("too-alike"), DataWarning)
            warnings.warn("theirs", RuntimeWarning, stacklevel=1)
        return notes

    with pytest.warns(RuntimeWarning, match="theirs"):
        notes = both()
    assert codes_of(notes) == ["too-alike"]


def test_relayed_says_of_what_part() -> None:
    with noted("empty-traces", about="lag 3: x"), relayed("lag 3"):
        warn(Note("empty-traces", "x", n=1), DataWarning)
    with pytest.raises(KeyError), relayed("lag 3"):
        raise KeyError


def test_explain_explains_one_and_lists_all() -> None:
    run = CliRunner()
    one = run.invoke(app, ["explain", "spellings"])
    assert one.exit_code == 0
    assert "--tidy" in one.stdout
    assert CATALOGUE["spellings"].explained in " ".join(one.stdout.split())
    listed = run.invoke(app, ["explain"]).stdout
    for code in CATALOGUE:
        assert f"\n  {code}: " in listed, "each with the beginning of its text"


def test_explain_of_an_unknown_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["somcot", "explain", "spelling"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert (
        "there is no code 'spelling' (somcot explain lists all codes); did you mean spellings"
        in capsys.readouterr().err
    )


def test_the_page_is_in_step_with_the_catalogue() -> None:
    assert (ROOT / "docs/reference/notes.md").read_text() == page(), (
        "python -m somcot.plumbing.notes > docs/reference/notes.md"
    )


def test_notes_load_nothing_heavy() -> None:
    code = "import sys, somcot.plumbing.notes; print(sorted({'numpy', 'scipy', 'numba', 'typer'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
