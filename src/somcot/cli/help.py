"""Help pages: options in groups, two examples for each command, as wide as the terminal allows.

Plain text, because rich takes longer to load than `--help` may take.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import fields
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from somcot.cli.options import FILES, Reading

__all__ = ["EXAMPLES", "WIDEST", "Commands", "Example", "Grouped"]

WIDEST = 120  # columns; longer lines are hard to read
_LAST = {"Output": 1, "Options": 2}  # groups that come after all others
_OUTPUT = ("json", "html", "plot", "out")
_WITH_COLUMNS = "--sequence session --time time --state page"
_DISTANCE = f"somcot distance may.csv june.csv {_WITH_COLUMNS} --end left --discount 0.9 --html report.html"


class Example(NamedTuple):
    """A command line and what it is for."""

    what: str
    line: str


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "somcot": (
        Example("start here", "somcot demo"),
        Example("two recordings", _DISTANCE),
    ),
    "distance": (
        Example("two recordings", _DISTANCE),
        Example("real vectors", "somcot distance a.csv b.csv --sequence run --time t --state x,y,z --cells auto"),
    ),
    "test": (
        Example("two recordings", f"somcot test may.csv june.csv {_WITH_COLUMNS} --discount 0.9"),
        Example("integer trajectories", "somcot test cold.npy warm.npy --lag 10 --discount 0.95 --permutations 999"),
    ),
    "metric": (
        Example("two known chains", "somcot metric fair.npy loaded.npy --discount 0.9"),
        Example("into a file", f"somcot metric may.csv june.csv {_WITH_COLUMNS} --discount 0.9 --out pairs.csv"),
    ),
    "matrix": (
        Example("weeks of one table", f"somcot matrix log.csv --by week {_WITH_COLUMNS} --discount 0.9 -o weeks.html"),
        Example("several files", f"somcot matrix *.csv {_WITH_COLUMNS} --discount 0.9 -o distances.csv"),
    ),
    "select": (
        Example("which month is it like?", f"somcot select now.csv may.csv june.csv {_WITH_COLUMNS} --discount 0.9"),
        Example("known candidates", f"somcot select now.csv fair.npy loaded.npy {_WITH_COLUMNS} --discount 0.9"),
    ),
    "drift": (
        Example("week by week", f"somcot drift log.csv --by week {_WITH_COLUMNS} --html drift.html"),
        Example("every night", f"somcot drift log.csv --by release --reference 1.0 {_WITH_COLUMNS} --alarm --json"),
    ),
    "watch": (
        Example(
            "a log that grows",
            f"somcot watch --follow log.csv --reference may.csv {_WITH_COLUMNS} --state-file w.ck --html status.html",
        ),
        Example(
            "a pipe, for programs",
            f"tail -f log.csv | somcot watch - --reference may.csv {_WITH_COLUMNS} --json --exit-on-alarm",
        ),
    ),
    "info": (
        Example("a table of events", f"somcot info may.csv {_WITH_COLUMNS}"),
        Example("an event log", "somcot info log.xes.gz --end done"),
    ),
    "demo": (
        Example("into the folder out", "somcot demo"),
        Example("elsewhere", "somcot demo --out /tmp/shop"),
    ),
    "warm-up": (
        Example("once, after installing", "somcot warm-up"),
        Example("when building an image", "pip install somcot && somcot warm-up"),
    ),
    "reproduce": (
        Example("one figure, smaller", "somcot reproduce steps --quick"),
        Example("all of them", "somcot reproduce all --out figures"),
    ),
    "completion": (
        Example("bash", 'eval "$(somcot completion bash)"'),
        Example("fish", "somcot completion fish > ~/.config/fish/completions/somcot.fish"),
    ),
}  # fmt: skip
_TYPE = re.compile(r" <(str|list\[str\])>$")  # how an argument is held is of no interest


class Grouped(TyperCommand):
    """A command whose help shows its options in groups, and examples."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Arguments as they are called in the text below, without braces."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the groups, in the order in which they first occur."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                names, text = record
                groups.setdefault(_group(parameter), []).append((_TYPE.sub("", names), text))
        for heading in sorted(groups, key=lambda heading: _LAST.get(heading, 0)):
            _section(formatter, heading, groups[heading])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        _examples(formatter, self.name or "")


class Commands(TyperGroup):
    """The list of commands in groups: questions first."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the groups; a command without one is a question."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                heading = getattr(command, "rich_help_panel", None)
                shown = heading if isinstance(heading, str) else "Questions"
                groups.setdefault(shown, []).append((name, command.get_short_help_str(formatter.width)))
        for heading, rows in groups.items():
            _section(formatter, heading, rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples, and where to read on."""
        _examples(formatter, "somcot")
        formatter.write_paragraph()
        formatter.write_text("somcot COMMAND --help shows the options of a command.")


def _group(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return "Arguments"
    if parameter.name in ("help", "version", "install_completion", "show_completion"):
        return "Options"
    if parameter.name in _OUTPUT:
        return "Output"
    if parameter.name in {row.name for row in fields(Reading)}:
        panel = getattr(parameter, "rich_help_panel", None)
        return panel if isinstance(panel, str) else FILES
    return "Question"


def _section(formatter: Any, heading: str, rows: list[tuple[str, str]]) -> None:
    with formatter.section(typer.style(heading, bold=True)):
        formatter.write_dl(rows)


def _examples(formatter: Any, name: str) -> None:
    if name in EXAMPLES:
        with formatter.section(typer.style("Examples", bold=True)):
            indent = " " * formatter.current_indent
            for example in EXAMPLES[name]:  # lines are broken so that they can be copied
                pieces = textwrap.wrap(
                    example.line, formatter.width - 4, break_long_words=False, break_on_hyphens=False
                )
                line = f" \\\n{indent}  ".join(pieces)
                formatter.write(f"{indent}# {example.what}\n{indent}{line}\n")
