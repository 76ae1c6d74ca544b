"""The list of faults fits the code, and the harness tells a caught fault from one that nobody sees."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.campaign import mutations, random_mutants
from tests.campaign.mutations import MUTANTS, ROOT, Mutant


def test_no_fault_is_listed_twice() -> None:
    assert len(set(MUTANTS)) == len(MUTANTS) >= 42


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{MUTANTS.index(mutant)}-{mutant.file}")
def test_each_fault_has_one_place_and_tests(mutant: Mutant) -> None:
    text = (ROOT / "src" / "somcot" / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    assert mutant.new not in ("", mutant.old) or mutant.old.strip()
    for name in mutant.tests:
        assert (ROOT / name.partition("::")[0]).is_file()


@pytest.mark.parametrize(("new", "noticed"), [("def answer() -> int: return 41", True), ("answer = lambda: 42", False)])
def test_the_harness(new: str, noticed: bool, tmp_path: Path) -> None:
    package = tmp_path / "src" / "somcot"
    package.mkdir(parents=True)
    (package / "core.py").write_text("def answer() -> int: return 42", encoding="utf-8")
    (tmp_path / "test_core.py").write_text(
        "import sys; sys.path.insert(0, 'src/somcot')\nimport core\n\ndef test_it():\n    assert core.answer() == 42\n",
        encoding="utf-8",
    )
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    campaign: c\n    slow: s\n    statistical: t\n", encoding="utf-8"
    )
    mutant = Mutant("core.py", "def answer() -> int: return 42", new, ("test_core.py",))
    assert mutations.caught(mutant, tmp_path) is noticed
    assert "42" in (package / "core.py").read_text(encoding="utf-8")


def test_random_faults_are_code() -> None:
    path = random_mutants.SOURCE / "clocks.py"
    data, faults = path.read_bytes(), list(random_mutants.sites(path))
    assert len(faults) > 20
    for fault in faults[::10]:
        changed = data[: fault.begin] + fault.new.encode() + data[fault.end :]
        assert data[fault.begin : fault.end].decode() == fault.old
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(data))


def test_random_faults_spare_messages_and_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_mutants, "SOURCE", tmp_path)
    (tmp_path / "a.py").write_text(
        'def f(x: int = 3, y: Literal[1] | None = None) -> "list[2]":\n    """Add 1."""\n    if x < 4 and not y:\n'
        '        raise ValueError(f"{x - 1} < 5")\n    return -x\n',
        encoding="utf-8",
    )
    found = [(fault.old, fault.new) for fault in random_mutants.sites(tmp_path / "a.py")]
    assert found == [
        ("3", "(4)"), ("x < 4 and not y", "(x < 4 or not y)"), ("x < 4", "(x <= 4)"), ("4", "(5)"), ("not y", "(y)"),
        ("return -x", "return None"), ("-x", "(x)"),
    ]  # fmt: skip
