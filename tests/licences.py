"""Licences of everything that somcot may install, as a page: `python -m tests.licences` writes it into docs/reference.

They are read from the metadata of installed packages; those that are not installed keep the row they have.
"""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "licences.md"
HEAD = """# Licences

somcot is distributed under the BSD 3-Clause licence. This table lists its direct dependencies, required, optional or
for development, with the licences named in their metadata (`python -m tests.licences` writes this page). None of
their code is part of somcot. Indirect dependencies are not listed.

| package | comes with | licence |
|---|---|---|
"""
_SHORT = 90  # characters of a licence field that is a name, not a text


def wanted() -> dict[str, list[str]]:
    """Each package that pyproject.toml names, and its extras and groups; "somcot" for what is always there."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    groups = {"somcot": project["dependencies"], **project["optional-dependencies"], **settings["dependency-groups"]}
    found: dict[str, list[str]] = {}
    for extra, lines in groups.items():
        for line in lines:
            if isinstance(line, dict):  # includes another group, which has its own turn
                continue
            name = re.match(r"[\w.-]+", line)
            assert name is not None
            if name[0] != "somcot":
                found.setdefault(name[0], []).append(extra)
    return found


def licence(name: str) -> str:
    """What the metadata of an installed package say."""
    found = metadata.metadata(name)
    for key in ("License-Expression", "License"):
        text = "".join(found.get_all(key) or []).strip()
        if text and "\n" not in text and len(text) <= _SHORT:
            return text
    of_lists = [c.rpartition(" :: ")[2] for c in found.get_all("Classifier") or [] if c.startswith("License ::")]
    if of_lists:
        return ", ".join(of_lists)
    texts = [f for f in metadata.files(name) or [] if "LICEN" in f.name.upper()]
    return next((line.strip() for f in texts for line in f.read_text().splitlines() if line.strip()), "not named")


def listed() -> dict[str, tuple[str, str]]:
    """The rows of the page as it is."""
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")][1:]
    return {name: (extras, text) for name, extras, text in rows}


def page() -> str:
    """The page anew."""
    before, rows = listed(), []
    for name, extras in wanted().items():
        try:
            text = licence(name)
        except metadata.PackageNotFoundError:
            text = before.get(name, ("", "not installed when this was written"))[1]
        rows.append(f"| {name} | {', '.join(extras)} | {text} |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
