"""Traces of AI agents as tables of events: a row for each tool call, its state found by rules."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from numpy.typing import ArrayLike

from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.readers.opening import Input, Source, identify, open_bytes
from somcot.readers.tables import Batch, Rows, Table
from somcot.readers.trace_formats import ATTRIBUTES, REPLY, Session, sessions_of
from somcot.samples import Samples

__all__ = ["RULE_SETS", "StateRules", "from_traces", "is_trace", "open_traces"]

_LONGEST = 1 << 26  # bytes of one line or element: results of tools may hold pictures
_ROWS = 1 << 16
_COLUMNS = ("session", "state", "time", *ATTRIBUTES)


# --- Rules: from a tool call to a state

_SHELLS = (
    "bash|sh|shell|local_shell|exec_command|execute_bash|execute_command|run_command|run_terminal_cmd|run_shell_command|"
    "terminal|powershell|run_in_terminal|unified_exec|bash_command"
)
_AT = (
    r"(?:^|[;&|(\n]\s*|\b(?:sudo|time|xargs|env)\s+(?:\w+=\S+\s+)*|\btimeout\s+\S+\s+|\b(?:poetry|uv|pipenv)\s+run\s+)"
)
_PYTHON = r"python[\d.]*\s+(?:-\w\s+)*"
_SHELL_RULES = (  # commands of a shell by what they do; the first that fits decides
    ("test", rf"\b(?:pytest|tox|nox|unittest|runtests\.py|jest|vitest|mocha|rspec|ctest|phpunit|bin/test)\b"
             rf"|\b(?:npm|yarn|pnpm|bun|cargo|go|make|mvn|gradle|dotnet|swift|mix|bazel)\s+(?:run\s+)?test"
             rf"|{_PYTHON}(?:-m\s+)?\S*\btests?\b|manage\.py\s+test"),
    ("submit", r"COMPLETE_TASK_AND_SUBMIT|^submit\b"),
    ("commit", rf"{_AT}git\s+(?:-C\s+\S+\s+)?(?:commit|push|merge|rebase|cherry-pick|tag)\b|{_AT}gh\s+pr\s+create"),
    ("edit", rf"{_AT}(?:sed|perl)\s+(?:-\w+\s+)*-\w*i|<<-?\s*['\"]?\w+['\"]?|{_AT}(?:cat|echo|printf|tee)\b[^|;&\n]*>"
             rf"|{_AT}(?:tee|apply_patch|patch|touch|mv|cp|rm|mkdir|ed)\b|{_AT}git\s+(?:apply|checkout|restore|stash|reset)\b"),
    ("install", rf"{_AT}(?:pip[\d.]*|conda|mamba|apt|apt-get|brew|npm|yarn|pnpm|uv|poetry|cargo|gem)\s+"
                r"(?:pip\s+)?(?:install|add|sync|i)\b"
                r"|-m\s+pip\s+install"),
    ("build", rf"{_AT}(?:make|cmake|ninja|tsc|mvn|gradle|bazel)\b|setup\.py"
              r"|\b(?:cargo|go|npm\s+run|yarn|pnpm|dotnet|docker)\s+build"),
    ("check", rf"{_AT}(?:ruff|mypy|flake8|pylint|eslint|black|prettier|clippy|pyright|gofmt)\b|\bcargo\s+clippy"),
    ("git", rf"{_AT}git\b|{_AT}gh\b"),
    ("search", rf"{_AT}(?:grep|egrep|rg|ag|ack|find|fd|locate|which)\b"),
    ("read", rf"{_AT}(?:cat|head|tail|less|more|nl|wc|ls|tree|sed|awk|stat|file|pwd|diff|jq)\b"),
    ("web", rf"{_AT}(?:curl|wget)\b"),
    ("run", rf"{_AT}(?:python[\d.]*|node|ruby|perl|java|bash|sh|\./\S+|go\s+run|cargo\s+run|npx|deno|php)\b"),
    ("shell", ""),
)  # fmt: skip
_CODING_RULES = (  # tools of coding agents under common names
    ("submit", "submit|review_on_submit.*|exit_.*|attempt_completion|finish", ""),
    ("read", "str_replace_.*|edit_anthropic|editor", r"^view\b"),
    ("edit", "edit|multiedit|write|create|notebookedit|apply_patch|apply_diff|str_replace_.*|edit_anthropic|editor|"
             "edit_file|write_file|write_to_file|search_replace|replace_in_file|insert.*|create_file|update_file|"
             "delete_file", ""),
    ("read", "read|view|open|goto|scroll_.*|cat|read_file|view_file|list_files|list_dir|list_directory|ls|notebookread|"
             "read_many_files|get_file_contents", ""),
    ("search", "grep|glob|search.*|find_file|codebase_search|file_search|grep_search|code_search|tool_search", ""),
    ("web", "webfetch|websearch|web_.*|browser.*|fetch.*", ""),
    ("subagent", "task|agent|spawn_agent|delegate.*|subagent.*", ""),
    ("plan", "todo.*|update_plan|exitplanmode|enterplanmode|think|plan.*", ""),
)  # fmt: skip


class _Rule(NamedTuple):
    tool: re.Pattern[str]
    arguments: re.Pattern[str]
    state: str


class StateRules(NamedTuple):
    """Rules that turn a tool call into a state; the first that matches decides.

    Attributes
    ----------
    rules : tuple
        Patterns of the whole name of the tool, in any case, and of its arguments, and the state; an empty state leaves
        the call out.
    errors : bool
        Whether failed calls are states of their own, such as "test error".
    reply : str
        The state of an answer without a call; empty leaves answers out.
    unmatched : str
        The state of other calls; empty for the name of the tool.
    """

    rules: tuple[_Rule, ...] = ()
    errors: bool = True
    reply: str = "reply"
    unmatched: str = ""

    def state(self, tool: str, text: str, failed: bool) -> str | None:
        """The state of a call, None if it is left out."""
        if tool == REPLY:
            return self.reply or None
        state = self._of_call(tool, text)
        # A state left out by its rule stays left out when it fails.
        return f"{state} error" if state and failed and self.errors else state or None

    def _of_call(self, tool: str, text: str) -> str:
        for rule in self.rules:
            # The whole name of a tool, but anywhere in its arguments: commands come with paths and options around them.
            if rule.tool.fullmatch(tool) and rule.arguments.search(text):
                return rule.state
        return self.unmatched or tool

    @classmethod
    def read(cls, rules: object) -> StateRules:
        r"""From the name of a set, a TOML file, or a mapping with the content of such a file.

        Examples
        --------
        >>> rules = StateRules.read({"rule": [{"tool": "bash", "arguments": r"\bpytest\b", "state": "test"}]})
        >>> rules.state("Bash", "pytest -q", False), rules.state("Bash", "pytest", True), rules.state("Read", "", False)
        ('test', 'test error', 'Read')
        """
        if isinstance(rules, StateRules):
            return rules
        if rules is None or (isinstance(rules, str) and rules in RULE_SETS):
            return RULE_SETS[rules or "shell"]
        if isinstance(rules, (str, os.PathLike)):
            return cls._from_file(Path(rules))
        if not isinstance(rules, Mapping):
            known = ", ".join(map(repr, RULE_SETS))
            raise TypeError(
                f"state_rules: found {type(rules).__name__}, expected a TOML file, a mapping, or one of {known}"
            )
        return cls._from_mapping("state_rules", rules)

    @classmethod
    def _from_file(cls, path: Path) -> StateRules:
        known = ", ".join(RULE_SETS)
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ValueError(
                f"state_rules: there is no file {str(path)!r}; name a TOML file, or one of {known}"
            ) from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ValueError(
                f"{path}: not a readable TOML file ({error}); expected [[rule]] with tool and state"
            ) from None
        return cls._from_mapping(str(path), content)

    @classmethod
    def _from_mapping(cls, source: str, content: Mapping[str, Any]) -> StateRules:
        unknown = set(content) - {"rule", "errors", "reply", "unmatched", "base"}
        if unknown:
            raise ValueError(f"{source}: unknown key {min(unknown)!r}; expected rule, base, errors, reply or unmatched")
        base = content.get("base", "shell")
        if base not in RULE_SETS:
            raise ValueError(f"{source}: base is {base!r}, expected one of {', '.join(RULE_SETS)}")
        rows = content.get("rule", [])
        rules = tuple(_checked_rule(source, k, row) for k, row in enumerate(rows, 1))
        options = {name: content[name] for name in ("errors", "reply", "unmatched") if name in content}
        for name, kind in (("errors", bool), ("reply", str), ("unmatched", str)):
            if not isinstance(options.get(name, kind()), kind):
                raise ValueError(
                    f"{source}: {name} is {options[name]!r}, expected {'true or false' if kind is bool else 'a text'}"
                )
        # Rules of the user come first, and the first match decides, so they override those of the base.
        return RULE_SETS[base]._replace(rules=(*rules, *RULE_SETS[base].rules), **options)


def _checked_rule(source: str, number: int, row: object) -> _Rule:
    place = f"{source}: rule {number}"
    if not isinstance(row, Mapping) or not isinstance(row.get("state"), str):
        raise ValueError(f"{place}: has no state; expected tool, arguments (both optional) and state")
    unknown = set(row) - {"tool", "arguments", "state"}
    if unknown:
        raise ValueError(f"{place}: unknown key {min(unknown)!r}; expected tool, arguments and state")
    try:
        return _rule(row.get("tool", ".*"), row.get("arguments", ""), row["state"])
    except (re.error, TypeError) as error:
        raise ValueError(f"{place}: not a regular expression ({error}); correct it") from None


def _rule(tool: str, arguments: str, state: str) -> _Rule:
    return _Rule(re.compile(tool, re.IGNORECASE | re.DOTALL), re.compile(arguments, re.IGNORECASE), state)


_OF_SHELLS = tuple(_rule(_SHELLS, arguments, state) for state, arguments in _SHELL_RULES)
RULE_SETS = {
    "shell": StateRules(_OF_SHELLS),
    "coding": StateRules((*(_rule(tool, arguments, state) for state, tool, arguments in _CODING_RULES), *_OF_SHELLS)),
    "names": StateRules(),
}


# --- Which format a file has

_SIGNS = {  # texts of which all must occur at the beginning of a file
    "otlp": (rb'"resource_?[sS]pans"',),
    "sdk": (rb'"context"\s*:\s*\{', rb'"trace_id"', rb'"attributes"', rb'"gen_ai\.|"openinference\.|"span_kind"'),
    "atif": (rb'"schema_version"\s*:\s*"ATIF',),
    "tau2": (rb'"num_trials"', rb'"agent_info"'),
    "claude": (rb'"sessionId"', rb'"(uuid|leafUuid|messageId|operation)"', rb'"type"'),
    "codex": (rb'"type"\s*:\s*"(session_meta|response_item|turn_context|event_msg)"', rb'"payload"'),
    "tau": (rb'"task_id"', rb'"traj"'),
    "mini": (rb'"(trajectory_format|exit_status)"', rb'"(info|messages)"'),
    "swe": (rb'"trajectory"\s*:\s*\[', rb'"action"', rb'"observation"'),
    "langsmith": (rb'"run_type"', rb'"(trace_id|parent_run_id)"'),
    "langfuse": (rb'"(traceId|observations)"', rb'"type"\s*:\s*"(SPAN|GENERATION|TOOL|EVENT|AGENT)"'),
    "messages": (rb'"role"\s*:\s*"(system|developer|user|assistant|tool)"', rb'"(content|tool_calls)"'),
}
_SIGNS_READ = {name: [re.compile(sign) for sign in signs] for name, signs in _SIGNS.items()}


def is_trace(head: bytes) -> bool:
    """Whether a JSON file that begins like this holds sessions of agents.

    Examples
    --------
    >>> is_trace(b'[{"role": "user", "content": "hello"}]'), is_trace(b'{"user": 7, "page": "home"}')
    (True, False)
    """
    return any(all(sign.search(head) for sign in signs) for signs in _SIGNS_READ.values())


# --- Files of sessions as one table


class _Tally:
    """What was read, and what was not."""

    def __init__(self) -> None:
        self.n_sessions = self.n_empty = self.n_lines = self.n_values = 0
        self.files: list[tuple[str, str]] = []  # files that hold no session, and why

    def unread(self) -> None:
        """A value that belongs to no format."""
        self.n_values += 1

    def report(self, source: Input) -> None:
        """Report what was left out."""
        name = source.name
        # A session without calls is no sequence; if all are such, there is nothing to compare.
        if not self.n_sessions - self.n_empty:
            why = f": {self.files[0][1]}" if self.files else ""
            found = (
                f"{self.n_sessions:,} session(s) without a tool call"
                if self.n_sessions
                else f"no session of an agent{why}"
            )
            raise ValueError(Note("no-sessions", name, found=found))
        if self.files:
            first, why = self.files[0]
            warn(Note("files-left-out", name, n=len(self.files), file=first, why=why), DataWarning)
        if self.n_lines:
            warn(Note("broken-lines", name, n=self.n_lines), DataWarning)
        if self.n_values:
            warn(Note("values-left-out", name, n=self.n_values), DataWarning)
        if self.n_empty:
            warn(Note("sessions-without-calls", name, n=self.n_empty), DataWarning)


def open_traces(source: Input, state_rules: object = None) -> Table:
    """Sessions of agents as a table with a row for each call; arguments and messages are not kept."""
    rules = StateRules.read(state_rules)

    def batches(wanted: Sequence[str]) -> Iterator[Rows]:
        rows: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        tally = _Tally()
        for session in _sessions(source, rules, tally):
            tally.n_sessions += 1
            n = len(session.states)
            # Counted, not yielded: it has no row in the table.
            tally.n_empty += n == 0
            rows["session"] += [session.name] * n
            rows["state"] += session.states
            rows["time"] += session.times
            for name in ATTRIBUTES:
                rows[name] += [session.attributes.get(name)] * n
            # Between sessions, so that a session is never split over batches here.
            if len(rows["state"]) >= _ROWS:
                yield _batch(rows, wanted)
                rows = {name: [] for name in _COLUMNS}
        tally.report(source)
        if rows["state"]:
            yield _batch(rows, wanted)

    # Time is for display only: calls are ordered by the file, because parallel calls share a time.
    defaults = {"sequence": "session", "state": "state", "time": "file"}
    return Table(source.name, list(_COLUMNS), False, batches, defaults=defaults)


def _batch(rows: Mapping[str, list[Any]], wanted: Sequence[str]) -> dict[str, Batch]:
    import pyarrow as pa

    batch: dict[str, Batch] = {}
    for name in wanted:
        if name == "time":
            # Arrow parses all times at once; formats disagree on fractions and zones.
            batch[name] = pa.array(rows[name], pa.timestamp("us", "UTC"))
        elif name == "cost":
            batch[name] = rows[name]
        else:
            # A label is needed for grouping, and None would be refused as a missing state.
            batch[name] = ["unknown" if value is None else value for value in rows[name]]
    return batch


def _sessions(source: Input, rules: StateRules, tally: _Tally) -> Iterator[Session]:
    """The sessions of all files; the files of a folder that hold none are counted."""
    parts = [part.source for part in source.parts] or [source]
    root = source.path if source.path is not None and source.path.is_dir() else None
    for part in parts:
        name = _name(part, root)
        if part.format not in ("json", "jsonl", "traces"):
            tally.files.append((name, f"a {part.format} file"))
            continue
        before, lines, values = 0, tally.n_lines, tally.n_values
        try:
            with open_bytes(part) as stream:
                for session in sessions_of(name, _values(part, stream, tally), rules.state, tally.unread):
                    before += 1
                    yield session
        except ValueError as error:
            # In a folder other files may lie around; a single file was named on purpose, so its error matters.
            if len(parts) == 1:
                raise
            tally.files.append((name, str(error).removeprefix(f"{part.name}: ")[:200]))
            continue
        if not before and len(parts) > 1:  # it is left out as a whole, not line by line
            tally.n_lines, tally.n_values = lines, values
            tally.files.append((name, "not a trace of an agent"))


def _name(part: Input, root: Path | None) -> str:
    if part.entry is not None or part.path is None:
        return part.entry or part.name
    return str(part.path.relative_to(root)) if root is not None else part.path.name


def _values(source: Input, stream: IO[bytes], tally: _Tally) -> Iterator[Any]:
    """The values of a file; lines that are cut short or damaged are counted, since a session may be being written."""
    from somcot.readers.tables.file_tables import json_items

    buffered = stream if hasattr(stream, "peek") else None
    head = buffered.peek(1 << 16).lstrip() if buffered is not None else b"{"
    if head.startswith(b"[") or not _first_line_is_complete(head):
        for _, value in json_items(source._replace(format="json"), stream, _LONGEST):
            yield value
        return
    for line in iter(lambda: stream.readline(_LONGEST + 1), b""):
        if len(line) > _LONGEST:
            raise ValueError(f"{source.name}: a line is longer than {_LONGEST >> 20} MB; is this a trace?")
        if line.strip():
            try:
                yield json.loads(line)
            # RecursionError: thousands of nested brackets, as in a damaged or hostile line.
            except (ValueError, RecursionError):
                tally.n_lines += 1


def _first_line_is_complete(head: bytes) -> bool:
    """Whether a file is read line by line: its first line is an object, or is longer than what is known of it."""
    line, sign, _ = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    if not sign:
        # A single line: an object on one line is read as a line, anything longer as a document.
        return len(head) < 1 << 16 and line.rstrip().endswith(b"}")
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def from_traces(
    data: Source | Input,
    *,
    state_rules: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    terminated: bool | str = False,
    end: Hashable | None = None,
    tidy: bool = False,
    top: int | None = None,
    other: Hashable = "other",
    initial: Hashable | ArrayLike | Mapping[Hashable, float] | None = None,
    format: str | None = None,  # noqa: A002
) -> Samples:
    """Read the sessions of AI agents: sequences of tool calls.

    Formats are recognised by their content: OpenTelemetry GenAI spans (OTLP JSON, or as the SDK prints them), sessions
    of Claude Code and Codex, message lists of OpenAI and Anthropic, mini-swe-agent, SWE-agent, tau-bench, Harbor's
    trajectories (ATIF), exports of LangSmith and Langfuse.

    Parameters
    ----------
    data : path, pattern, list of paths
        A file, or a folder of files, possibly compressed.
    state_rules : path, mapping or {"shell", "coding", "names"}, optional
        How calls become states. By default ("shell") states are the names of tools, and commands of a shell are
        divided by what they do (test, edit, search, ...); "coding" also maps the tools of coding agents to such common
        names, so that different agents can be compared; "names" keeps the names of all tools. A TOML file or a mapping
        adds rules of your own; see the guide on agents.
    terminated, end, tidy, top, other, initial, format
        As for `from_table`.

    Returns
    -------
    Samples
        ``episode_attributes`` holds task, model, outcome, agent and cost of each session. Arguments, messages and
        results are not kept.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> call = '{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function": {"name": "%s"}}]}'
    >>> file = pathlib.Path(tempfile.mkdtemp(), "session.json")
    >>> _ = file.write_text(f"[{call % 'look_up'}, {call % 'book'}]")
    >>> samples = from_traces(file)
    >>> samples.states, samples.episode_attributes["agent"].tolist()
    (('book', 'look_up'), ['main'])
    """
    from somcot.readers.tables.batches import open_table
    from somcot.readers.tables.event_tables import collected, roles_of
    from somcot.readers.tables.rows import TableOptions

    options = TableOptions(terminated, end, tidy=tidy, top=top, other=other, initial=initial)
    source = data if isinstance(data, Input) else identify(data, format)
    # JSON without the signs of a trace: the caller says that it is one, and the reader decides per value.
    if source.format in ("json", "jsonl"):
        source = source._replace(format="traces")
    if source.format != "traces":
        raise ValueError(f"{source.name}: a {source.format} file, expected traces of agents; see from_table")
    with open_table(source, state_rules=state_rules) as table:
        roles = roles_of(table, None, None, None, None, terminated, attributes=ATTRIBUTES)
        return options.samples(collected(table, roles, {}))
