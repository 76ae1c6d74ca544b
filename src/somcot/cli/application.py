"""The command line: the list of commands, their help pages, and errors in one line with an exit code.

Commands are functions of the other modules of this package, which import what they need when they run. Help is plain
text, because loading rich would slow `--help` down.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from somcot import __version__
from somcot.cli import decisions, distance, matrix, setup, signals, watch
from somcot.cli.options import FILES, NOT_CONVERGED, Reading, flag, spelled
from somcot.plumbing.errors import NotSolvedError
from somcot.plumbing.notes import Note
from somcot.plumbing.text import label_text

__all__ = ["EXAMPLES", "WIDEST", "Commands", "Example", "Grouped", "app", "main"]

OK, FAILED, BAD_INPUT, TOO_LARGE, CLOSED_PIPE = 0, 1, 2, 5, 141  # exit codes

_NO_CELLS = (
    "--cells: only somcot distance, somcot test and somcot matrix compare numeric vectors; for other commands bin "
    "the columns (--bins), or discretise the recordings in Python: somcot.discretise(*recordings)"
)


# --- Help pages.

WIDEST = 120  # columns; longer lines are hard to read
_LAST = {"Output": 1, "Options": 2}  # groups that come after all others
_OUTPUT = ("json", "html", "plot", "out")
_WITH_COLUMNS = "--sequence session --time time --state page"
_DISTANCE = f"somcot distance may.csv june.csv {_WITH_COLUMNS} --terminated all --discount 0.9 --html report.html"


class Example(NamedTuple):
    """A command line and its purpose."""

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
        Example("in CI", "somcot test baseline.somcot runs/ --margin 0.05 --strata task --markdown summary.md"),
    ),
    "baseline": (
        Example("runs of an agent", "somcot baseline runs/ -o baseline.somcot"),
        Example("a table", f"somcot baseline may.csv {_WITH_COLUMNS} --attribute country -o baseline.somcot"),
    ),
    "sample-size": (
        Example("a pilot recording", f"somcot sample-size may.csv {_WITH_COLUMNS} --effect 0.05"),
        Example("earlier exits", "somcot sample-size baseline.somcot --effect 0.02 --kind exits --plot power.png"),
    ),
    "metric": (
        Example("two known chains", "somcot metric fair.npy loaded.npy --discount 0.9"),
        Example("into a file", f"somcot metric may.csv june.csv {_WITH_COLUMNS} --discount 0.9 --out pairs.csv"),
    ),
    "matrix": (
        Example("weeks of one table", f"somcot matrix log.csv --by week {_WITH_COLUMNS} --discount 0.9 -o weeks.html"),
        Example("several files", f"somcot matrix *.csv {_WITH_COLUMNS} --discount 0.9 -o distances.csv"),
        Example("graphs in the long run", "somcot matrix *.graphml --cost degree --discount 1 -o graphs.html"),
    ),
    "explain": (
        Example("one note", "somcot explain overlapping-steps"),
        Example("all notes", "somcot explain"),
    ),
    "select": (
        Example("the most similar month", f"somcot select now.csv may.csv june.csv {_WITH_COLUMNS} --discount 0.9"),
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
_TYPE = re.compile(r" <(str|list\[str\])>$")  # Python types, which typer shows after an argument


class Grouped(TyperCommand):
    """A command that refuses repeated options, and whose help shows options in groups, and examples."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse an option that is given again: only the last value would count."""
        if not ctx.resilient_parsing:  # completion
            given: list[Any] = self.make_parser(ctx).parse_args(args=list(args))[2]
            for parameter, times in Counter(given).items():
                if (
                    times > 1
                    and parameter.param_type_name == "option"
                    and not (parameter.multiple or parameter.is_flag)
                ):
                    raise ValueError(
                        f"{parameter.opts[0]}: found {times} times, expected once, because only the last would count"
                    )
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Name arguments as the text below does, without braces."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the groups in order of first occurrence."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                names, text = record
                groups.setdefault(_group(parameter), []).append((_TYPE.sub("", names), text))
        # A stable sort: all other groups keep the order of first occurrence.
        for heading in sorted(groups, key=lambda heading: _LAST.get(heading, 0)):
            _section(formatter, heading, groups[heading])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        _examples(formatter, self.name or "")


class Commands(TyperGroup):
    """The list of commands in groups, the main ones first."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the groups; a command without a group is a main one."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                heading = getattr(command, "rich_help_panel", None)
                shown = heading if isinstance(heading, str) else "Commands"
                groups.setdefault(shown, []).append((name, command.get_short_help_str(formatter.width)))
        for heading, rows in groups.items():
            _section(formatter, heading, rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples and a pointer to the help of each command."""
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
    return "Computation"


def _section(formatter: Any, heading: str, rows: list[tuple[str, str]]) -> None:
    with formatter.section(typer.style(heading, bold=True)):
        formatter.write_dl(rows)


def _examples(formatter: Any, name: str) -> None:
    if name in EXAMPLES:
        with formatter.section(typer.style("Examples", bold=True)):
            indent = " " * formatter.current_indent
            for example in EXAMPLES[name]:  # lines end in a backslash, so that they can be copied
                pieces = textwrap.wrap(
                    example.line, formatter.width - 4, break_long_words=False, break_on_hyphens=False
                )
                line = f" \\\n{indent}  ".join(pieces)
                formatter.write(f"{indent}# {example.what}\n{indent}{line}\n")


# --- The list of commands, in the order of the help.

_TRYING, _SETTING_UP = "Demonstration", "Setup"  # the groups after the main commands

app = typer.Typer(
    name="somcot", pretty_exceptions_enable=False, rich_markup_mode=None, cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
)  # fmt: skip


def _print_version(requested: bool) -> None:
    if requested:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False,
) -> None:
    """How far apart are two Markov processes?"""


def reproduce(context: typer.Context) -> int:
    """Reproduce the figures of the paper."""
    from somcot.paper.command import register

    settings = {"help_option_names": ["-h", "--help"], "max_content_width": WIDEST}
    inner = typer.Typer(
        pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=False, context_settings=settings
    )
    register(inner, Grouped)
    code = inner(args=context.args, standalone_mode=False, prog_name="somcot reproduce")
    return code if isinstance(code, int) else OK


def expanded(function: Callable[..., int]) -> Callable[..., int]:
    """The command with records of options expanded: each record parameter becomes one option per field.

    typer reads only the signature and the annotations. The options take the position of the record.
    """
    hints = get_type_hints(function, include_extras=True)
    records = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in records:
            parameters += _options_of(records[parameter.name])
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[parameter.name]))

    def run(**values: Any) -> int:
        made = {
            name: record(**{row.name: values.pop(row.name) for row in fields(record)})
            for name, record in records.items()
        }
        return function(**values, **made)  # records are rebuilt from their fields

    run.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


@functools.cache  # most commands share `Reading`, and resolving type hints is slow
def _options_of(record: type) -> list[inspect.Parameter]:
    hints = get_type_hints(record, include_extras=True)
    return [
        inspect.Parameter(
            row.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if row.default is MISSING else row.default,
            annotation=hints[row.name],
        )
        for row in fields(record)
    ]


_COMMANDS: dict[str, tuple[Callable[..., int], str | None]] = {
    "distance": (distance.distance, None),
    "test": (decisions.same_process, None),
    "metric": (distance.metric, None),
    "matrix": (matrix.matrix, None),
    "select": (matrix.select, None),
    "drift": (matrix.drift, None),
    "watch": (watch.watch, None),
    "baseline": (decisions.baseline, None),
    "sample-size": (decisions.sample_size, None),
    "info": (distance.info, None),
    "explain": (setup.explain, None),
    "demo": (setup.demo, _TRYING),
    "warm-up": (setup.warm_up, _SETTING_UP),
    "completion": (setup.completion, _SETTING_UP),
}
for _name, (_function, _panel) in _COMMANDS.items():
    app.command(_name, cls=Grouped, rich_help_panel=_panel)(expanded(_function))
app.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
    rich_help_panel=_TRYING,
)(reproduce)


# --- Entry point: arguments, exit codes, errors.


def main() -> None:
    """Run the ``somcot`` command on the arguments of this process."""
    # Removed here, so that the flag works in any place.
    debug = "--debug" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--debug"] or ["--help"]
    try:
        answer = app(args=arguments, standalone_mode=False, prog_name="somcot")
        sys.stdout.flush()
        code = answer if isinstance(answer, int) else OK
        if code == signals.INTERRUPTED:
            code = _say(*signals.interruption())
    except BaseException as error:
        if debug and not isinstance(error, SystemExit):
            raise
        code = _explain(error)
    raise SystemExit(code)


def _explain(error: BaseException) -> int:
    """One line on standard error, and the exit code."""
    causes = _causes(error)
    if any(isinstance(cause, KeyboardInterrupt) for cause in causes):  # compiled code may turn it into something else
        return _say(*signals.interruption())
    if any(isinstance(cause, BrokenPipeError) and cause.filename is None for cause in causes):
        # The reader of our output closed the pipe, as `head` does after ten lines; this is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED
    if isinstance(error, MemoryError):
        return _say(f"error: {str(error) or 'out of memory; use fewer states or a larger machine'}", TOO_LARGE)
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        if type(error).__name__ == "NoSuchOption" and getattr(error, "option_name", None) == "--cells":
            return _say(f"error: {_NO_CELLS}", BAD_INPUT)
        where = getattr(getattr(error, "ctx", None), "command_path", "somcot")
        return _say(f"error: {_with_value(' '.join(error.format_message().split()))}; see {where} --help", BAD_INPUT)
    if type(error).__name__ == "Abort":  # typer raises this for an EOFError
        return _say("error: the data end too soon; the file is truncated, copy or write it again", BAD_INPUT)
    if isinstance(error, OSError) and error.filename is not None:
        remedy = "" if ";" in str(error.strerror) else "; check the name and the permissions"
        return _say(f"error: {error.filename}: {error.strerror}{remedy}", BAD_INPUT)
    # An ImportError names the optional package that is missing.
    if isinstance(error, (ValueError, TypeError, ImportError, OSError)):
        note = error.args[0] if error.args else None
        return _say(f"error: {note.worded(spelled) if isinstance(note, Note) else _as_typed(str(error))}", BAD_INPUT)
    if isinstance(error, NotSolvedError):
        return _say(f"error: {error}", NOT_CONVERGED)
    return _say(f"error: {type(error).__name__}: {error}; this is a bug in somcot; --debug shows the traceback", FAILED)


def _causes(error: BaseException) -> list[BaseException]:
    """The error and its chain of causes."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    # Exceptions can refer to each other in a circle.
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return causes


def _as_typed(text: str) -> str:
    """An error of the library with options as they are typed, where it names or advises an argument."""
    name, colon, rest = text.partition(":")
    option = f"--{name.replace('_', '-')}"
    if any(word.partition("=")[0] == option for word in sys.argv):
        text = f"{option}{colon}{rest}"
    readers = "|".join(row.name for row in fields(Reading))
    return re.sub(rf"\b({readers})=('[^']*')", lambda found: f"{flag(found[1])} {found[2]}", text)


def _with_value(text: str) -> str:
    """Append the offending value to a message about an option that lacks it."""
    text = text.replace("Value error, ", "")
    option = re.match(r"Invalid value for '(--[a-z]+)'", text)
    places = [i for i, a in enumerate(sys.argv[:-1]) if option and a == option[1]]
    # The last occurrence is the one that counts.
    value = repr(sys.argv[places[-1] + 1]) if places else ""
    return text.rstrip(".") if value in text else f"{text.rstrip('.')} (found {value})"


def _say(text: str, code: int) -> int:
    print(label_text(" ".join(text.split()), 600), file=sys.stderr)
    return code
