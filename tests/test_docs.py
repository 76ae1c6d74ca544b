"""The front pages tell the truth; the site has no warning, no stray dollar sign and no call to the network."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import pkgutil
import re
import subprocess
import sys
import time
import tomllib
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

import somcot
from somcot.cli import setup

ROOT = Path(__file__).parents[1]


@pytest.mark.filterwarnings("ignore:.*depends on more than the last one")  # the page says so
@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/concepts.md",
        "docs/actions.md",
        "docs/clocks.md",
        "docs/live.md",
        "docs/many.md",
        "docs/questions.md",
    ],
)
def test_examples_print_what_the_page_shows(page: str) -> None:
    assert_prints_what_it_shows("".join(python_of((ROOT / page).read_text())))


HOME = (ROOT / "docs/index.md").read_text()
QUICKSTARTS = dict(re.findall(r"^### (.*?)\n(.*?)(?=^##)", HOME, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("title", QUICKSTARTS)
def test_quickstarts_run_on_their_own(title: str) -> None:
    (code,) = python_of(QUICKSTARTS[title])
    assert sum(bool(line) and not line.startswith("# ") for line in code.splitlines()) < 10
    assert_prints_what_it_shows(code)


def test_coordinates_lead_to_an_answer_with_deeptime() -> None:
    pytest.importorskip("deeptime.clustering")
    section = (ROOT / "docs/readers.md").read_text().partition("## Trajectories and Markov state models")[2]
    rng = np.random.default_rng(0)
    wild, mutant = ([rng.random((5000, 3)) ** power for _ in range(4)] for power in (1.0, 1.2))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(python_of(section)[0], "page", "exec"), {"xyz_wild": wild, "xyz_mutant": mutant})
    assert "90 % interval" in printed.getvalue()


def test_there_is_a_quickstart_for_everybody() -> None:
    assert len(QUICKSTARTS) == 7
    assert sum(map(len, map(python_of, QUICKSTARTS.values()))) == len(python_of(HOME))


def python_of(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def assert_prints_what_it_shows(code: str) -> None:
    """Lines that begin with "# " are output. Times, and how far below rounding a proof reaches, may differ."""
    shown = [line[2:] for line in code.splitlines() if line.startswith("# ")]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "page", "exec"), {})
    assert shown
    assert [without_times(line) for line in printed.getvalue().splitlines()] == [without_times(line) for line in shown]


def without_times(line: str) -> str:
    return re.sub(r", [0-9.e-]+ s$", "", re.sub(r"proved to [0-9.e-]+", "proved", line))


def test_home_shows_the_command_of_the_demo() -> None:
    (shown,) = re.findall(r"^somcot distance .*$", HOME.replace("\\\n    ", ""), re.MULTILINE)  # joined lines
    files, report = "out/may.csv out/june.csv", "--html out/report.html"
    assert shown == f"somcot distance {files} {setup.COLUMNS} --discount {setup.DISCOUNT:g} {report}"


def drawn(heading: str) -> list[str]:
    """Lines of the drawing under a heading of docs/architecture.md."""
    section = (ROOT / "docs/architecture.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("    ")]


def test_the_drawing_shows_the_house_as_it_is() -> None:
    """Every name that stands at the beginning of a line exists, and nothing at the top level is left out."""
    source = ROOT / "src/somcot"
    lines = drawn("Where things are")[1:]
    names = {indent: set[str]() for indent in (4, 6, 8)}
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if indent > 8:  # the words of the line above go on
            continue
        names[indent] |= set(re.findall(r"\w+\.py|\w+/", re.split(r" {4,}", line.strip())[0]))
    assert all((ROOT / name).exists() for name in names[4])
    assert names[6] == {
        f"{path.name}/" if path.is_dir() else path.name
        for path in source.iterdir()
        if not path.name.startswith("__") and (path.is_dir() or path.suffix == ".py")
    }
    assert names[8]
    assert all((source / "solvers" / name).exists() for name in names[8])


def test_the_layers_are_those_that_are_checked() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in settings["contracts"] if contract["type"] == "layers")
    assert [line.strip().split(", ") for line in drawn("Layers")] == [re.split(r" [|:] ", layer) for layer in layers]


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md", "docs/equations.md"])
def test_files_and_tests_that_pages_name_exist(page: str) -> None:
    """In back quotes: `file.py`, by its path or by its name alone, or `file.py::test`."""
    known = {
        f"/{path.relative_to(ROOT)}": path
        for part in ("src", "tests", "benchmarks")
        for path in (ROOT / part).rglob("*.py")
    }
    named = set(re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", (ROOT / page).read_text()))
    assert named
    for name, test in named:
        found = [path for place, path in known.items() if place.endswith(f"/{name}")]
        assert found or "NAME" in name, name
        assert not test or any(f"def {test}(" in path.read_text() for path in found), f"{name}::{test}"


def test_functions_that_equations_lead_to_exist() -> None:
    """The second column of the table: modules, functions and methods below `somcot`, and options as name="value"."""
    table = (ROOT / "docs/equations.md").read_text().partition("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row[1]) if "=" not in name]
    assert len(named) > 20
    for name in named:
        assert pkgutil.resolve_name(f"somcot.{name}") is not None


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does, with its own warnings as errors: once, as pages are executed in `docs`."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, said = base / "site", base / "site.txt"
    try:
        folder.mkdir()
    except FileExistsError:
        # Another process builds it.
        late = time.monotonic() + 900
        while not said.exists() and time.monotonic() < late:
            time.sleep(0.2)
    else:
        command = [sys.executable, "-W", "ignore", "-m", "sphinx", "-W", "-q", "-b", "html", "docs", str(folder)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        (base / "site.part").write_text(done.stderr if done.returncode else "")
        (base / "site.part").rename(said)
    assert said.read_text() == ""
    return folder


class Words(HTMLParser):
    """The text of a page outside code and formulas, what it loads, where it links to, and places to link to."""

    QUIET = ("script", "style", "pre", "code")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []
        self.text: list[str] = []
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "link", "img") and given.get("rel") != "canonical":
            self.loaded += [address for key in ("src", "href") if (address := given.get(key))]
        if tag == "a":
            self.links += [address for address in [given.get("href")] if address]
        self.places |= {place for place in (given.get("id"), given.get("name")) if place}
        if tag not in ("meta", "link", "img", "br", "hr", "input", "wbr"):
            self.open.append((tag, tag in self.QUIET or "math" in (given.get("class") or "").split()))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not any(quiet for _, quiet in self.open):
            self.text.append(data)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Words]:
    """All pages, read."""
    found = {}
    for page in site.rglob("*.html"):
        if "_static" in page.parts:  # templates of the theme
            continue
        found[page] = Words()
        found[page].feed(page.read_text())
    return found


def test_no_formula_is_left_as_dollar_signs(pages: dict[Path, Words]) -> None:
    left = {}
    for page, words in pages.items():
        found = [text.strip() for text in words.text if "$" in text or r"\(" in text]
        # A formula that swallowed prose: dollar signs out of phase leave whole sentences inside.
        maths = re.findall(r'class="math[^"]*">(.*?)</(?:span|div)>', page.read_text(), re.DOTALL)
        found += [
            text for text in maths if re.search(r"(?:\b[a-z]{3,} ){3,}", re.sub(r"\\text\{.*?\}|\\\w+", "", text))
        ]
        if found:
            left[page.name] = found
    assert not left


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[Path, Words]) -> None:
    """Formulas and search work without a network."""
    loaded = {page: [address.split("?")[0] for address in words.loaded] for page, words in pages.items()}
    away = {page.name: [a for a in found if re.match(r"(?:https?:)?//", a)] for page, found in loaded.items()}
    assert not {name: found for name, found in away.items() if found}
    assert "_static/tex-svg.js" in loaded[site / "statistics.html"]
    assert (site / "_static" / "tex-svg.js").stat().st_size > 1_000_000
    assert "searchindex.js" in loaded[site / "search.html"]
    assert "bisimul" in (site / "searchindex.js").read_text()


def test_every_link_inside_leads_somewhere(site: Path, pages: dict[Path, Words]) -> None:
    broken = []
    for page, words in pages.items():
        for link in words.links + words.loaded:
            address, _, place = unquote(link.split("?")[0]).partition("#")
            if re.match(r"[a-z]+:|//", address):
                continue
            target = (page.parent / address).resolve() if address else page
            known = pages[target].places if target in pages else None
            if not target.exists() or (place and known is not None and place not in known):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert not broken


def test_pages_exist_as_markdown_too(site: Path) -> None:
    """With links that lead somewhere in the site, and the scripts of the gallery."""
    listed = re.findall(r"^- \[.+\]\((.+)\)$", (site / "llms.txt").read_text(), re.MULTILINE)
    assert {"index.md", "pitfalls.md", "reference/notes.md", "gallery/logs/event_log.py"} <= set(listed)
    assert (site / "pitfalls.md").read_bytes() == (ROOT / "docs" / "pitfalls.md").read_bytes()
    assert (site / "changes.md").read_text().startswith("# Changelog")
    assert all((site / name).exists() for name in listed)
    assert not [(name, link) for name in listed if name.endswith(".md") for link in broken_links(site / name)]


def broken_links(page: Path) -> list[str]:
    """Links of a Markdown file, outside code, to files that are not there."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text))]
    return [link for link in links if not re.match(r"$|[a-z]+:", link) and not (page.parent / link).exists()]


# docs/_build, which `make docs` writes, has copies whose links are those of the site
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/reference/*.md")]


@pytest.mark.parametrize("page", sorted(str(p.relative_to(ROOT)) for p in PAGES))
def test_links_work_in_the_repository(page: str) -> None:
    assert not broken_links(ROOT / page)


def test_the_documentation_stays_short() -> None:
    """Pages of the guide, without the reference: a reader has to find what matters."""
    assert sum(len(page.read_text().split()) for page in (ROOT / "docs").glob("*.md")) <= 28_000


def test_everything_public_is_in_the_reference(site: Path) -> None:
    header_and_entries = (site / "objects.inv").read_bytes().split(b"\n", 4)  # four lines of header, the rest deflated
    entries = zlib.decompress(header_and_entries[4]).decode().splitlines()
    listed = {name for name, kind, *_ in map(str.split, entries) if kind.startswith("py:")}
    assert {f"somcot.{name}" for name in somcot.__all__} <= listed  # as they are imported
    assert {f"somcot.readers.{name}" for name in somcot.readers.__all__} <= listed
    assert {f"somcot.mdp.{name}" for name in somcot.mdp.__all__} <= listed
    assert {f"somcot.costs.{name}" for name in somcot.costs.__all__ if name not in {"NAMED", "Cost"}} <= listed
    assert {"somcot.report.html", "somcot.report.write"} <= listed


DIRECTIVE = re.compile(r"^\.\. auto(\w+):: (\S+)\n((?:   :.*\n)*)", re.MULTILINE)
NEEDS = {"somcot.jax": "jax", "somcot.torch": "torch", "somcot.torch.StateAbstraction": "torch"}


def in_the_reference() -> Iterator[tuple[str, Any, list[object]]]:
    """Functions, methods and classes that docs/reference shows, each with the class and the module above it."""
    directives = [row for page in (ROOT / "docs/reference").glob("*.md") for row in DIRECTIVE.findall(page.read_text())]
    for kind, target, options in directives:
        if find_spec(NEEDS.get(target, "somcot")) is None:
            continue
        there = pkgutil.resolve_name(target)
        shown = {option: re.findall(r"\w+", names) for option, names in re.findall(r":([\w-]+):(.*)", options)}
        names = shown.get("members", []) or (getattr(there, "__all__", []) if "members" in shown else [])
        rows = [(f"{target}.{name}", getattr(there, name), [there]) for name in names]
        for name, thing, above in rows if kind == "module" else [(target, there, [])]:
            if callable(thing):
                yield name, thing, above
            if isinstance(thing, type) and "members" in shown:
                for method in {*own_methods(thing)} - {*shown.get("exclude-members", [])}:
                    yield f"{name}.{method}", getattr(thing, method), [*above, thing]


def own_methods(thing: type) -> list[str]:
    functions = {name: getattr(member, "__func__", member) for name, member in vars(thing).items()}
    return [name for name, member in functions.items() if name[0] != "_" and inspect.isfunction(member)]


def test_everything_in_the_reference_has_an_example() -> None:
    """Functions and methods: their own, or one of the class or module that names them."""
    without, n = [], 0
    for name, thing, above in in_the_reference():
        texts = [inspect.getdoc(record) or "" for record in above]
        lines = "\n".join(line for text in texts for line in text.splitlines() if line.startswith((">>>", "...")))
        named = re.search(rf"\b{name.rsplit('.', 1)[-1]}\b", lines)
        if not (isinstance(thing, type) or named or name.endswith(".forward") or ">>>" in (thing.__doc__ or "")):
            without.append(name)
        n += 1
    assert n > 300
    assert not without
