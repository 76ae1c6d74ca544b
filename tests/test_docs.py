"""The front pages tell the truth; the site has no warning, no stray dollar sign and no call to the network."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest

import somcot
from somcot.commands import demo

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_examples_print_what_the_page_shows(page: str) -> None:
    """Lines that begin with "# " are output. Times, and how far below rounding a proof reaches, may differ."""
    code = "".join(re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL))
    shown = [line[2:] for line in code.splitlines() if line.startswith("# ")]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, page, "exec"), {})
    assert shown
    assert [without_times(line) for line in printed.getvalue().splitlines()] == [without_times(line) for line in shown]


def without_times(line: str) -> str:
    return re.sub(r", [0-9.e-]+ s$", "", re.sub(r"proved to [0-9.e-]+", "proved", line))


def test_readme_shows_the_command_of_the_demo() -> None:
    (shown,) = re.findall(r"^somcot distance .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    files, report = "out/may.csv out/june.csv", "--html out/report.html"
    assert shown == f"somcot distance {files} {demo.COLUMNS} --discount {demo.DISCOUNT:g} {report}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does, with its own warnings as errors."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-W", "ignore", "-m", "sphinx", "-W", "-q", "-b", "html", "docs", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


class Words(HTMLParser):
    """The text of a page outside code and formulas, and the addresses it loads scripts and styles from."""

    QUIET = ("script", "style", "pre", "code")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []
        self.text: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "link", "img") and given.get("rel") != "canonical":
            self.loaded += [address for key in ("src", "href") if (address := given.get(key))]
        if tag not in ("meta", "link", "img", "br", "hr", "input", "wbr"):
            self.open.append((tag, tag in self.QUIET or "math" in (given.get("class") or "").split()))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not any(quiet for _, quiet in self.open):
            self.text.append(data)


def test_no_formula_is_left_as_dollar_signs(site: Path) -> None:
    left = {}
    for page in site.rglob("*.html"):
        words = Words()
        words.feed(page.read_text())
        found = [text.strip() for text in words.text if "$" in text or r"\(" in text]
        # A formula that swallowed prose: dollar signs out of phase leave whole sentences inside.
        maths = re.findall(r'class="math[^"]*">(.*?)</(?:span|div)>', page.read_text(), re.DOTALL)
        found += [
            text for text in maths if re.search(r"(?:\b[a-z]{3,} ){3,}", re.sub(r"\\text\{.*?\}|\\\w+", "", text))
        ]
        if found:
            left[page.name] = found
    assert not left


def test_formulas_need_no_network(site: Path) -> None:
    words = Words()
    words.feed((site / "statistics.html").read_text())
    scripts = [address.split("?")[0] for address in words.loaded]
    assert "_static/tex-svg.js" in scripts
    assert (site / "_static" / "tex-svg.js").stat().st_size > 1_000_000
    assert [address for address in scripts if address.startswith(("http:", "https:", "//"))] == []


def test_everything_public_is_in_the_reference(site: Path) -> None:
    header_and_entries = (site / "objects.inv").read_bytes().split(b"\n", 4)  # four lines of header, the rest deflated
    entries = zlib.decompress(header_and_entries[4]).decode().splitlines()
    listed = {name for name, kind, *_ in map(str.split, entries) if kind.startswith("py:")}
    ends = {name.rsplit(".", 1)[-1] for name in listed}
    assert {name for name in somcot.__all__ if name != "costs"} <= ends
    assert {f"somcot.readers.{name}" for name in somcot.readers.__all__} <= listed
    assert {"somcot.report.html", "somcot.report.write", "somcot.costs.labels"} <= listed
