"""The package as a whole: what it exports, what importing it brings in, and what its front pages claim."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import somcot
from tests import licences

ROOT = Path(__file__).parents[1]

# What the documentation names as `somcot.NAME`, beside the names in `__all__`.
SUBMODULES = {
    "certificates", "couplings", "derivatives", "gaussian", "gradients", "hidden", "mdp", "msm", "plots", "readers",
    "report", "solvers", "steps", "streams", "testing",
}  # fmt: skip


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)


def test_everything_promised_is_there_and_nothing_else_shows() -> None:
    assert set(dir(somcot)) == {*somcot.__all__, *SUBMODULES}
    for name in dir(somcot):
        assert hasattr(somcot, name)
    assert somcot.certificates.__name__ == "somcot.certificates"


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nearness'"):
        _ = somcot.nearness


def test_import_is_light() -> None:
    """Compiled code and optional packages are loaded when used, not on import."""
    heavy = ("numba", "scipy", "pyarrow", "matplotlib", "typer", "rich", "torch", "jax")
    assert python("-c", f"import somcot, sys; print([m for m in {heavy} if m in sys.modules])").stdout.strip() == "[]"


@pytest.mark.parametrize(
    "module", ["somcot", "somcot.cli.application", "somcot.readers", "somcot.report", "somcot.plots"]
)
def test_import_is_silent_where_warnings_are_errors(module: str, tmp_path: Path) -> None:
    """With an empty bytecode folder: Python warns about a source only when it compiles it."""
    done = python("-W", "error", "-X", f"pycache_prefix={tmp_path}", "-c", f"import {module}")
    assert (done.stdout, done.stderr) == ("", "")


def test_one_version() -> None:
    """Written in the package; the build reads it there and the citation has to follow."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in settings["project"]
    assert settings["tool"]["hatch"]["version"]["path"] == "src/somcot/__init__.py"
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited[1] == somcot.__version__


def test_the_licence_of_every_dependency_is_listed() -> None:
    listed = licences.listed()
    assert {name: extras for name, (extras, _) in listed.items()} == {
        name: ", ".join(extras) for name, extras in licences.wanted().items()
    }, "python -m tests.licences writes the page"
    assert [name for name, (_, text) in listed.items() if not text or text.startswith("not ")] == []
    assert licences.licence("numpy").startswith("BSD")


def test_what_is_released_says_so_everywhere() -> None:
    """The newest section of the changelog is this version, and each Python that is claimed is allowed."""
    released = re.findall(r"^## (\d\S*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[0] == somcot.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    claimed = [found[1] for c in project["classifiers"] if (found := re.fullmatch(r".*Python :: (3\.\d+)", c))]
    assert project["requires-python"] == f">={claimed[0]}"
    said = (ROOT / "docs/install.md").read_text()
    assert f"Python {', '.join(claimed[:-1])} and {claimed[-1]}" in said


def test_hooks_and_groups_pin_the_same_linters() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    pinned = dict(re.findall(r"repo: https://github\.com/\S+/(\w+)-pre-commit\s+rev: v(\S+)", hooks))
    assert set(pinned) == {"ruff", "zizmor"}
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["lint"]
    assert {f"{name}=={version}" for name, version in pinned.items()} <= set(lint)
    exact = {line.partition("==")[0] for line in lint if "==" in line}
    assert exact == {"ruff", "mypy", "import-linter", "zizmor"}


def test_workflows_pin_actions_and_try_every_python() -> None:
    texts = {path.stem: path.read_text() for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
    actions = [action for text in texts.values() for action in re.findall(r"uses: (.*)", text)]
    assert actions
    assert [a for a in actions if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", a)] == []
    (tried,) = re.findall(r"^ +python: \[(.*)\]$", texts["tests"], re.MULTILINE)
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert re.findall(r"[\d.]+", tried) == [c.rpartition(" ")[2] for c in classifiers if " :: 3." in c]


def test_all_extras_bring_nothing_for_graphics_cards() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (line,) = extras["all"]
    named = re.findall(r"[\w-]+", line.partition("[")[2])
    assert not [d for name in named for d in extras[name] if re.match("torch|jax", d)]


def test_messages_name_packages_that_can_be_installed_from_a_clone_too() -> None:
    """`pip install 'somcot[torch]'` needs a release on an index; the packages themselves are on every one."""
    advice = [path.name for path in (ROOT / "src").rglob("*.py") if "pip install 'somcot[" in path.read_text()]
    assert advice == []
