"""The public surface does not shrink: names, signatures, attributes, commands, JSON keys and saved files."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import somcot
from somcot.plumbing.records import VIEWS, view
from tests import surface
from tests.surface import Surface, saved
from tests.surface.command_line import run

VALUES: dict[str, Any] = json.loads((surface.HERE / "saved_values.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def old() -> Surface:
    return surface.frozen()


@pytest.fixture(scope="module")
def new(old: Surface, tmp_path_factory: pytest.TempPathFactory) -> Surface:
    return surface.collect(set(old.names), inputs=tmp_path_factory.mktemp("inputs"))


def test_nothing_is_gone(old: Surface, new: Surface) -> None:
    lost = surface.compare(old, new)
    assert not lost, "\n".join(["of the public surface:", *lost])


@pytest.mark.filterwarnings("ignore:the run has not converged")  # short runs
@pytest.mark.parametrize("name", sorted(VALUES))
def test_saved_files_are_read(name: str, tmp_path: Path) -> None:
    found = saved.read(name, tmp_path)
    assert set(VALUES[name]) <= set(found)
    for key, value in VALUES[name].items():
        _same(found[key], value, key)


def test_every_saved_file_has_its_values() -> None:
    assert {path.name for path in saved.FOLDER.iterdir()} == set(VALUES) == set(saved.KINDS)


def _same(found: Any, wanted: Any, place: str) -> None:
    """Equal, numbers up to rounding."""
    if isinstance(wanted, list):
        assert isinstance(found, list), place
        assert len(found) == len(wanted), place
        for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
            _same(one, other, f"{place}[{i}]")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-6, abs=1e-9), place
    else:
        assert found == wanted, place


def test_no_name_of_a_package_hides_a_submodule(old: Surface) -> None:
    assert surface.shadowed(somcot, old.names) == set()


def test_a_hidden_submodule_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "hiding"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from hiding import plain\nfrom hiding.taken import taken\n__all__ = ['late', 'plain', 'taken']\n"
        "def __getattr__(name):\n    if name == 'late':\n        return 1\n    raise AttributeError(name)\n"
    )
    for name in ("asked", "late", "plain", "taken"):
        (package / f"{name}.py").write_text("def taken(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = {"hiding.asked": "function", "hiding.plain": "module"}
    assert surface.shadowed(_imported("hiding"), names) == {"hiding.asked", "hiding.late", "hiding.taken"}


def _imported(name: str) -> ModuleType:
    found = surface.resolve(name)
    assert isinstance(found, ModuleType)
    return found


def test_a_surface_misses_nothing_of_itself(old: Surface) -> None:
    assert surface.compare(old, old) == []


def test_what_is_removed_is_reported(old: Surface) -> None:
    """One thing of each kind."""

    def without(part: str, name: str, *, within: str | None = None) -> list[str]:
        content = dict(getattr(old, part))
        if within is None:
            del content[name]
        elif isinstance(content[within], dict):
            content[within] = {key: value for key, value in content[within].items() if key != name}
        else:
            assert name in content[within]
            content[within] = [key for key in content[within] if key != name]
        return surface.compare(old, old._replace(**{part: content}))

    assert without("names", "somcot.distance") == ["somcot.distance: the function is gone"]
    assert without("names", "somcot.makeup") == ["somcot.makeup: the module is gone"]
    assert without("attributes", "bounds", within="somcot.Result") == ["somcot.Result: attribute 'bounds' is gone"]
    assert without("commands", "somcot drift") == ["somcot drift: the command is gone"]
    assert without("commands", "--json", within="somcot distance") == ["somcot distance: --json is gone"]
    assert without("json_keys", "bounds.low", within="distance of chains") == [
        "distance of chains: the JSON key 'bounds.low' is gone"
    ]
    assert without("json_keys", "drift")[0].startswith("drift: the JSON key ")
    assert without("signatures", "somcot.Result.save") == ["somcot.Result.save: can no longer be called as (path)"]
    assert without("signatures", "somcot.distance")[0].startswith("somcot.distance: can no longer be called as (x, y")


@pytest.mark.parametrize("function", ["somcot.distance", "somcot.Monitor", "somcot.MarkovChain.sample"])
def test_every_parameter_counts(function: str, old: Surface) -> None:
    signature = old.signatures[function]
    for p in surface.parameters(signature):
        changed = old._replace(signatures={**old.signatures, function: _without(signature, p.name)})
        assert f"{function}: parameter '{p.name}' is gone" in surface.compare(old, changed)


def _without(signature: str, name: str) -> str:
    """A signature without one of its parameters."""
    (function,) = ast.parse(f"def f{signature}: pass").body
    assert isinstance(function, ast.FunctionDef)
    a = function.args
    a.kwarg = None if a.kwarg is None or a.kwarg.arg == name else a.kwarg
    for i in [i for i, p in enumerate(a.args) if p.arg == name]:
        place = i - (len(a.args) - len(a.defaults))
        del a.args[i]
        if place >= 0:
            del a.defaults[place]
    kept = [(p, d) for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if p.arg != name]
    a.kwonlyargs, a.kw_defaults = [p for p, _ in kept], [d for _, d in kept]
    return f"({ast.unparse(a)})"


@pytest.mark.parametrize(
    ("before", "after", "reported"),
    [
        ("(x, *, rng=None)", "(x, *, rng=None, threads=None)", []),
        ("(x, y=1)", "(x, y=1, z=2)", []),
        ("(x, *, y)", "(x, *, y=1)", []),
        ("(x, *, y=1)", "(x, y=1)", []),
        ("(x, *, rng=None)", "(x)", ["parameter 'rng' is gone"]),
        ("(x, y=1)", "(x, *, y=1)", ["parameter 'y' was positional and is keyword only"]),
        ("(x, *, y=1)", "(x, *, y=2)", ["parameter 'y' had the default 1 and has 2"]),
        ("(x, *, y=1)", "(x, *, y)", ["parameter 'y' had the default 1 and has none"]),
        ("(x, y)", "(y, x)", ["the order of the parameters was x, y and is y, x"]),
        ("(x)", "(x, y)", ["parameter 'y' is new and has no default"]),
        ("(x=0, y=0)", "(x=0, z=0, y=0)", ["parameter 'z' is new and comes before others that are given by position"]),
        ("(x, *rest)", "(x)", ["parameter 'rest' is gone"]),
        ("(x, **options)", "(x)", ["parameter 'options' is gone"]),
        ("(x, **options)", "(x, *, speed=1)", []),
    ],
)
def test_parameters(before: str, after: str, reported: list[str]) -> None:
    assert list(surface.changed_parameters(before, after)) == reported


def test_options_that_change_are_reported(old: Surface) -> None:
    def changed(option: str, kind: str) -> list[str]:
        command = {**old.commands["somcot distance"], option: kind}
        return surface.compare(old, old._replace(commands={**old.commands, "somcot distance": command}))

    assert changed("--new", "value") == []
    assert changed("--new", "required value") == ["somcot distance: --new is new and required"]
    assert changed("--json", "value") == ["somcot distance: --json was 'flag' and is 'value'"]
    fewer = "value: " + old.commands["somcot distance"]["--method"].removeprefix("value: ").replace("lp|", "")
    assert changed("--method", fewer) == ["somcot distance: --method no longer takes 'lp'"]


def test_help_is_printed_for_every_command(old: Surface, tmp_path: Path) -> None:
    for command, options in old.commands.items():
        text = run(*command.split()[1:], "--help", folder=tmp_path)
        shown = [o for o in options if o.startswith("--") and not o.startswith("--no-") and o != "--debug"]
        assert [o for o in shown if o not in text] == [], command


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_every_view_of_a_record_is_there(name: str) -> None:
    """Methods of records that higher layers implement are found by name, which no type checker sees."""
    assert callable(view(name))
