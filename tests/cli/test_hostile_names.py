"""Labels, column and file names that are code somewhere: every output of every command shows them as text."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.command_server import Command

LABELS = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "=HYPERLINK(0)", "+cmd|' /C calc'!A0", "-2+3",
    "@SUM(1)", "\x1b]0;title\x07\x1b[31m", "\u202eright to left", "a|b", "[red]bold[/red]", "$\\frac{1}{0$", "]]>&amp;",
    "@team `x` [y](z)", "javascript:alert(1)", "{{7*7}} %s {0}", "next\u0085line\u2028after",
]  # fmt: skip
COLUMN = "<q>page\x1b[2J</q>"
NAMES = ["<kbd>a\x1b[1m[b]$x_.csv", "=b|c@d\u202e&.csv"]
SIGNS = ("=", "+", "-", "@", "\t", "\r")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for shift, name in enumerate(NAMES):
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["user", COLUMN, "week"])
            for k in range(24 * len(LABELS)):
                user, at = divmod(k, len(LABELS))
                rows.writerow(
                    [f"{user}\x1b[1m<s>", LABELS[at * (1 + shift * (user % 3 == 0)) % len(LABELS)], user // 12]
                )
    return tmp_path


class _Tags(HTMLParser):
    """Elements and attributes of a page; whether it could run or load anything."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        loaded = [f"{name}={value}" for name, value in attributes if _runs(name, value or "")]
        self.found += [tag] * (tag in ("script", "img", "iframe", "object", "embed", "link", "q", "kbd", "s", "base"))
        self.found += loaded


def _runs(name: str, value: str) -> bool:
    return name.startswith("on") or (name in ("href", "src", "xlink:href") and not value.startswith("#"))


def html(content: bytes) -> None:
    page = _Tags()
    page.feed(content.decode("utf-8"))
    assert page.found == []
    screen(content)


def svg(content: bytes) -> None:
    for element in ElementTree.fromstring(content).iter():
        assert element.tag.rpartition("}")[2] not in ("script", "foreignObject", "a")
        for name, value in element.attrib.items():
            # Pictures of heat maps are in the file itself.
            assert not _runs(name.rpartition("}")[2], value) or value.startswith("data:image/png;")


def table(content: bytes) -> None:
    """A spreadsheet finds numbers and texts, and nothing to compute."""
    rows = list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))
    assert len({len(row) for row in rows}) == 1
    for cell in (cell for row in rows for cell in row if cell.startswith(SIGNS)):
        float(cell)
    if rows[0][0] == "somcot metric":
        assert sorted(row[0].removeprefix("'") for row in rows[1:]) == sorted(LABELS)


def junit(content: bytes) -> None:
    assert [element.tag for element in ElementTree.fromstring(content).iter()][:2] == ["testsuite", "testcase"]
    assert "\x1b" not in content.decode("utf-8")


def markdown(content: bytes) -> None:
    text = content.decode("utf-8").removesuffix("<!-- somcot -->\n")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} <= {3, 5}
    assert "<" not in text
    assert "@team" not in text
    assert not re.search(r"(?<!\\)[`\[]", text)
    screen(content)


def objects(content: bytes) -> None:
    for line in content.decode("utf-8").splitlines():
        json.loads(line)
        assert line.isascii()  # escapes of terminals and of text directions too


def metrics(content: bytes) -> None:
    for line in content.decode("utf-8").splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) somcot_\w+ .*|somcot_\w+ [-+.\w]+", line)


def screen(content: bytes) -> None:
    """Nothing that a terminal obeys, or that turns the direction of text."""
    for line in content.decode("utf-8").split("\n"):
        assert line.isprintable(), ascii(line)


def binary(content: bytes) -> None:
    assert content.startswith((b"\x89PNG", b"%PDF", b"PAR1", b"somcot checkpoint"))


OUT: dict[str, Callable[[bytes], None]] = {
    ".html": html, ".svg": svg, ".csv": table, ".xml": junit, ".md": markdown, ".json": objects, ".prom": metrics,
    ".png": binary, ".pdf": binary, ".parquet": binary, ".somcot": binary, ".ck": binary,
}  # fmt: skip
READ = ["--sequence", "user", "--state", COLUMN, "--discount", "0.5"]
COMMANDS = [
    ["distance", *NAMES, *READ, "--html", "o.html", "--plot", "o.svg"],
    ["distance", *NAMES, *READ, "--json"],
    ["metric", *NAMES, *READ, "--out", "o.csv"],
    ["matrix", *NAMES, *READ, "-o", "o.csv", "-o", "o.html", "-o", "o.json", "-o", "o.parquet"],
    ["matrix", *NAMES, *READ, "--json"],
    ["test", *NAMES, *READ, "--margin", "0.1", "--permutations", "19", "--junit", "o.xml", "--markdown", "o.md"],
    ["drift", NAMES[1], *READ, "--by", "week", "--permutations", "19", "--html", "o.html", "--plot", "o.png"],
    ["watch", NAMES[1], "--reference", NAMES[0], *READ, "--html", "o.html", "--prometheus", "o.prom"],
    ["watch", NAMES[1], "--reference", NAMES[0], *READ, "--json"],
    ["select", *NAMES, *READ],
    ["info", NAMES[0], *READ[:4]],
    ["info", NAMES[0], *READ[:4], "--json"],
    ["info", NAMES[0], "--state", "\x1b[31mno such column"],
    ["info", "\x1b[31mno such file.csv"],
    ["info", NAMES[0], *READ[:4], "--start", "\x1b[31mno such state"],
    ["distance", *NAMES, *READ, "--cost", "\x1b[31mno cost"],
    ["baseline", *NAMES, *READ[:4], "--attribute", "week", "--out", "o.somcot"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda value: f"{value[0]} {' '.join(value[-2:])}")
def test_names_stay_names(arguments: list[str], command: Command, folder: Path) -> None:
    before = set(folder.iterdir())
    done = command(*arguments, cwd=folder)
    assert done.returncode in ((2,) if "no " in str(arguments) else (0, 3, 6)), done.stderr
    assert "Traceback" not in done.stderr
    (objects if "--json" in arguments else screen)(done.stdout.encode())
    screen(done.stderr.encode())
    written = set(folder.iterdir()) - before
    assert len(written) == sum(text.startswith("o.") for text in arguments)
    for path in written:
        OUT[path.suffix](path.read_bytes())


@pytest.mark.parametrize(
    "arguments",
    [
        ["matrix", *NAMES, *READ, "-o", f"{COLUMN[:3]}\x1b[31m.csv"],
        ["baseline", *NAMES, *READ[:4], "--out", "\x1b[31m\u202e.somcot"],
        ["demo", "--out", "\x1b[31m\u202e"],
    ],
    ids=lambda value: value[0],
)
def test_names_of_outputs_stay_names(arguments: list[str], command: Command, folder: Path) -> None:
    done = command(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    screen(done.stdout.encode())
    screen(done.stderr.encode())


def test_a_table_with_such_labels_is_a_cost_again(command: Command, folder: Path) -> None:
    """The apostrophe that keeps a label from being a formula is no part of it."""
    assert command("metric", *NAMES, *READ, "--out", "c.csv", cwd=folder).returncode == 0
    done = command("distance", *NAMES, *READ, "--cost", "c.csv", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
