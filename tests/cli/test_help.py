"""Help pages: every command has examples that can be run as they stand, and every option a group."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from somcot.cli.application import EXAMPLES, WIDEST, Grouped, app
from somcot.paper.command import register


def page(*arguments: str, width: int = 80) -> str:
    done = CliRunner().invoke(app, [*arguments, "--help"], terminal_width=width)
    assert done.exit_code == 0
    return done.output


def commands() -> dict[str, Any]:
    found: Any = typer.main.get_command(app)
    return dict(found.commands)


def test_every_command_has_examples() -> None:
    assert set(EXAMPLES) == {"somcot", *commands()}
    assert all(2 <= len(examples) <= 3 for examples in EXAMPLES.values())


def examples() -> list[str]:
    lines = [example.line for rows in EXAMPLES.values() for example in rows]
    parts = [part.strip() for line in lines for part in line.replace("&&", "|").split("|")]
    return sorted({part for part in parts if part.startswith("somcot ")})


@pytest.mark.parametrize("line", examples())
def test_an_example_can_be_run_as_it_stands(line: str) -> None:
    """As far as its options go: they are parsed, not run. An unknown or missing one is an error here."""
    name, *arguments = shlex.split(line.partition(">")[0])[1:]
    command = commands()[name]
    if name == "reproduce":
        inner = typer.Typer()
        register(inner)
        command = typer.main.get_command(inner)
    command.make_context(name, arguments)


def test_options_come_in_groups() -> None:
    text = page("distance")
    headings = [line[:-1] for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings[:3] == ["Arguments", "Computation", "Reading tables and event logs"]
    assert headings[-3:] == ["Output", "Options", "Examples"]
    graphs = text.partition("Reading graphs:")[2].partition("\n\n")[0]
    assert "--directed" in graphs
    assert "--sequence" not in graphs
    assert "--html" in text.partition("Output:")[2].partition("\n\n")[0]


def test_every_command_has_groups_and_plain_arguments() -> None:
    assert [
        name for name, command in commands().items() if name != "reproduce" and not isinstance(command, Grouped)
    ] == []
    assert page("info").startswith("Usage: somcot info [OPTIONS] FILE...\n")


def test_wide_terminals_are_used() -> None:
    narrow, wide = page("distance"), page("distance", width=WIDEST)
    assert max(map(len, narrow.splitlines())) <= 80
    assert 100 < max(map(len, wide.splitlines())) <= WIDEST
    assert len(wide.splitlines()) < len(narrow.splitlines())


def test_commands_come_in_groups() -> None:
    text = page()
    main, _, rest = text.partition("Commands:")[2].partition("\n\n")
    assert "\n  distance " in main
    assert "demo" not in main
    assert "\n  demo " in rest


def test_reproduce_knows_both_spellings() -> None:
    for flag in ("-h", "--help"):
        done = CliRunner().invoke(app, ["reproduce", flag])
        assert done.exit_code == 0
        assert "--quick" in done.output
        assert "<int range>" not in done.output
