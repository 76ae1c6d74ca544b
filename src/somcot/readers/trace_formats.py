"""The files in which agents record their sessions: which one a file is, and the calls in it.

One interpretation holds for all of them. A session is one agent's run; a sub-agent's calls form a session of their own,
and the call that starts it belongs to the one above. Each tool call is one event. Calls that run in parallel are
ordered as the agent listed them, spans by their start. An answer counts as an event if the agent then waits: text that
is followed by a call is a comment on it. Arguments are used to find the state and are not kept.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from somcot.readers.tables.numbers_and_times import micros
from somcot.readers.trace_spans import Spans

__all__ = ["ATTRIBUTES", "Session", "StateOf", "dialect_of", "sessions_of"]

Json: TypeAlias = Any
StateOf: TypeAlias = Callable[[str, str, bool], str | None]  # of a tool, its arguments as text, and whether it failed
REPLY = ""  # the "tool" of an answer
ATTRIBUTES = ("task", "model", "outcome", "agent", "cost")
_LONGEST = 10_000  # characters of arguments that rules see
_SHELL = "bash"
_WRAPPED = re.compile(r"^(?:/\S+/)?(?:ba|z|da)?sh\s+-l?c\s+")  # a command that is passed to a shell


class Session(NamedTuple):
    """The states of a session with their times in microseconds since 1970, and what is known of it."""

    name: str
    states: list[str]
    times: list[int | None]
    attributes: dict[str, str | float]


class _Builder:
    """A session while it is read; a call becomes a state once it is known whether it failed."""

    def __init__(self, name: str, state_of: StateOf, **attributes: Json) -> None:
        self.name, self.state_of = name, state_of
        self.attributes: dict[str, Json] = {"agent": "main"} | attributes
        self.calls: list[tuple[str, int | None]] = []  # the state if it succeeds
        self.failed: dict[int, str] = {}  # the state if it fails
        self.waiting: dict[str, int] = {}  # calls whose result is still to come, by identifier
        self.errors: set[int] = set()
        self.text: int | bool | None = False  # time of a text that may turn out to be an answer

    def call(
        self, tool: Json, arguments: Json = "", *, key: Json = None, time: Json = None, error: bool = False
    ) -> None:
        """A call of a tool."""
        self.text = False
        self._add(str(tool or "unknown"), argument_text(arguments), micros(time), key, error)

    def _add(self, tool: str, text: str, time: int | None, key: Json = None, error: bool = False) -> None:
        state = self.state_of(tool, text, False)
        if state is None:
            return
        number = len(self.calls)
        self.calls.append((state, time))
        self.failed[number] = self.state_of(tool, text, True) or state
        if key is not None:
            self.waiting[str(key)] = number
        if error:
            self.errors.add(number)

    def result(self, key: Json, *, error: bool) -> None:
        """The result of a call; of the last one, if `key` is None."""
        number = len(self.calls) - 1 if key is None else self.waiting.pop(str(key), None)
        if error and number is not None and number >= 0:
            self.errors.add(number)

    def says(self, time: Json = None) -> None:
        """The agent writes a text."""
        self.text = micros(time)

    def waits(self) -> None:
        """The agent waits for an answer, so its text was a reply."""
        if self.text is not False:
            self._add(REPLY, "", None if self.text is True else self.text)
            self.text = False

    def finish(self) -> Session:
        """The session."""
        self.waits()
        states = [self.failed[k] if k in self.errors else state for k, (state, _) in enumerate(self.calls)]
        return Session(self.name, states, [time for _, time in self.calls], dict(_known(self.attributes)))


def _known(attributes: Mapping[str, Json]) -> Iterator[tuple[str, str | float]]:
    """Attributes with a value that can be one: a finite cost, and text for the others."""
    for name, value in attributes.items():
        if name == "cost":
            if isinstance(value, (int, float)) and abs(value) < 1e15:
                yield name, float(value)
        elif isinstance(value, (str, int, float)):
            yield name, str(value)


def argument_text(arguments: Json) -> str:
    """The arguments of a call as one line of text, the command first.

    Examples
    --------
    >>> argument_text({"timeout": 9, "command": ["pytest", "-q"]}), argument_text('{"path": "a.py"}')
    ('pytest -q 9', 'a.py')
    """
    if isinstance(arguments, str) and arguments[:1] in ("{", "["):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return str(arguments)[:_LONGEST]
    if isinstance(arguments, Mapping):
        first = [arguments[name] for name in ("command", "cmd", "script", "code") if name in arguments]
        rest = [value for name, value in arguments.items() if name not in ("command", "cmd", "script", "code")]
        return " ".join(argument_text(value) for value in (*first, *rest))[:_LONGEST]
    if isinstance(arguments, list):
        return _WRAPPED.sub("", " ".join(map(argument_text, arguments)))[:_LONGEST]
    return "" if arguments is None else str(arguments)[:_LONGEST]


# --- Which format a value has

_LISTS = ("messages", "conversation", "trajectory", "history", "items", "traj")
_BESIDES = ("summary", "file-history-snapshot")  # lines of Claude Code that name no session and hold no call
_ITEMS = ("function_call", "function_call_output", "reasoning", "local_shell_call", "custom_tool_call")


def dialect_of(value: Json) -> str | None:
    """The format to which a value of a JSON file belongs: a line, an element of an array, or the whole document."""
    if not isinstance(value, Mapping):
        return None
    for name, fits in _DIALECTS.items():
        if fits(value):
            return name
    return None


def _is_mini(value: Mapping[str, Json]) -> bool:
    named = str(value.get("trajectory_format", "")).startswith("mini")
    return "messages" in value and (named or "exit_status" in (value.get("info") or {}))


def _has(value: Mapping[str, Json], *names: str) -> bool:
    return all(name in value for name in names)


_DIALECTS: dict[str, Callable[[Mapping[str, Json]], bool]] = {
    "otlp": lambda v: "resourceSpans" in v or "resource_spans" in v,
    "sdk": lambda v: "attributes" in v and isinstance(v.get("context"), Mapping) and "trace_id" in v["context"],
    "atif": lambda v: str(v.get("schema_version", "")).startswith("ATIF"),
    "claude": lambda v: ("sessionId" in v and ("uuid" in v or "type" in v)) or v.get("type") in _BESIDES,
    "codex": lambda v: _has(v, "type", "payload") and isinstance(v["payload"], Mapping),
    "tau": lambda v: _has(v, "task_id", "traj"),
    "mini": lambda v: _is_mini(v),
    "swe": lambda v: isinstance(v.get("trajectory"), list) and all("action" in step for step in v["trajectory"][:3]),
    "langsmith": lambda v: "run_type" in v,
    "langfuse": lambda v: "observations" in v or (_has(v, "traceId", "type") and str(v["type"]).isupper()),
    "message": lambda v: "role" in v or v.get("type") in _ITEMS,
    "messages": lambda v: any(_is_messages(v.get(name)) for name in _LISTS),
}  # fmt: skip


def _is_messages(value: Json) -> bool:
    return isinstance(value, list) and any(isinstance(m, Mapping) and "role" in m for m in value[:5])


# A number where an object should be, a list of texts instead of messages: the value does not match its format.
_MALFORMED = (AttributeError, KeyError, TypeError, ValueError, OverflowError)


def _parts(value: Json) -> Iterator[Json]:
    """The values in a document that holds several: runs of tau2-bench, spans, a trajectory with its sub-agents."""
    if not isinstance(value, Mapping):
        yield value
    elif isinstance(value.get("simulations"), list):
        info = value.get("info")
        agent = info.get("agent_info") if isinstance(info, Mapping) else None
        model = {"model": agent.get("llm")} if isinstance(agent, Mapping) else {}
        yield from (model | dict(run) if isinstance(run, Mapping) else run for run in value["simulations"])
    elif isinstance(value.get("spans"), list):
        yield from value["spans"]
    else:
        yield value
        inner = value.get("subagent_trajectories")
        yield from ({"sub": True} | dict(v) for v in inner or () if isinstance(v, Mapping))


def sessions_of(name: str, values: Iterable[Json], state_of: StateOf, unread: Callable[[], None]) -> Iterator[Session]:
    """The sessions in the values of one file.

    Parameters
    ----------
    name : str
        Name of the file, for sessions that have none.
    values : iterable
        Lines, elements of an array, or a document.
    state_of : callable
    unread : callable
        Called for every value that belongs to no format, or is malformed.
    """
    spans, lines, messages = Spans(), _Lines(name, state_of), _Builder(name, state_of)
    n_alone = n_messages = 0
    for value in itertools.chain.from_iterable(map(_parts, values)):
        try:
            dialect = dialect_of(value)
            if dialect is None:
                unread()
            elif dialect in ("otlp", "sdk", "langsmith", "langfuse"):
                getattr(spans, dialect)(value)
            elif dialect in ("claude", "codex"):
                getattr(lines, dialect)(value)
            elif dialect == "message":
                n_messages += 1
                _message(messages, value)
            else:
                n_alone += 1
                yield _ALONE[dialect](f"{name}#{n_alone}" if n_alone > 1 else name, value, state_of)
        except _MALFORMED:
            unread()
    yield from lines.finish()
    for session, attributes, calls in spans.finish():
        builder = _Builder(session, state_of, **attributes)
        for span in calls:
            builder.call(span.tool, span.arguments, time=span.start or None, error=span.error)
        yield builder.finish()
    if n_messages:
        yield messages.finish()


# --- Messages: OpenAI, Anthropic, and agents that keep their lists


def _message(session: _Builder, message: Mapping[str, Json]) -> None:
    """One message of a conversation, in the notation of OpenAI (chat or responses) or of Anthropic."""
    role, content = message.get("role"), message.get("content")
    time = message.get("timestamp") or message.get("created_at")
    if message.get("model"):
        session.attributes.setdefault("model", message["model"])
    kind = message.get("type")
    if kind in _ITEMS or kind == "custom_tool_call_output":
        _item(session, message, time)
    elif role in ("tool", "function"):
        marked = any(message.get(name) is True for name in ("is_error", "error")) or message.get("status") == "error"
        key = message.get("tool_call_id")
        if key is None and message.get("id") in session.waiting:  # tau2-bench
            key = message["id"]
        session.result(key, error=marked or _is_error_text(content))
    elif role in ("user", "system", "developer"):
        blocks = content if isinstance(content, list) else []
        results = [b for b in blocks if isinstance(b, Mapping) and b.get("type") == "tool_result"]
        for block in results:
            session.result(block.get("tool_use_id"), error=bool(block.get("is_error")))
        if not results and role == "user":
            session.waits()
    elif role == "assistant":
        _assistant(session, message, content, time)


def _assistant(session: _Builder, message: Mapping[str, Json], content: Json, time: Json) -> None:
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    if (isinstance(content, str) and content.strip()) or any(b.get("type") in ("text", "output_text") for b in blocks):
        session.says(time)
    for block in blocks:
        if block.get("type") in ("tool_use", "server_tool_use"):
            session.call(block.get("name"), block.get("input"), key=block.get("id"), time=time)
    for call in message.get("tool_calls") or ():
        function = call.get("function") or call
        session.call(function.get("name"), function.get("arguments"), key=call.get("id"), time=time)
    if isinstance(message.get("function_call"), Mapping):
        session.call(message["function_call"].get("name"), message["function_call"].get("arguments"), time=time)


def _item(session: _Builder, item: Mapping[str, Json], time: Json) -> None:
    """An item of OpenAI's responses, which Codex records too."""
    kind, key = item.get("type"), item.get("call_id")
    if kind in ("function_call", "custom_tool_call"):
        session.call(item.get("name"), item.get("arguments", item.get("input")), key=key, time=time)
    elif kind == "local_shell_call":
        session.call(_SHELL, (item.get("action") or {}).get("command"), key=key, time=time)
    elif kind == "web_search_call":
        session.call("web_search", item.get("action"), key=key, time=time)
    elif kind in ("function_call_output", "custom_tool_call_output"):
        session.result(key, error=_exit_code(item.get("output")) != 0)


_EXITED = re.compile(r"(?:exit(?:ed with)? code:?|returncode>)\s*(-?\d+)", re.IGNORECASE)


def _exit_code(output: Json) -> int:
    """The exit code that the output of a command mentions; 0 without one."""
    if isinstance(output, Mapping):
        inner = output.get("metadata")
        if isinstance(inner, Mapping) and isinstance(inner.get("exit_code"), int):
            return int(inner["exit_code"])
        return 1 if output.get("success") is False else _exit_code(output.get("content") or output.get("output"))
    if isinstance(output, str) and output[:1] == "{":
        try:
            return _exit_code(json.loads(output))
        except (ValueError, RecursionError):
            return 0
    code = _EXITED.search(output[:2000]) if isinstance(output, str) else None
    return 0 if code is None else int(code[1])


def _is_error_text(content: Json) -> bool:
    text = content if isinstance(content, str) else ""
    return text[:5].lower() == "error" or text[:9] == '{"error":' or text[:10] == '{"error" :' or _exit_code(text) != 0


def _outcome(value: Mapping[str, Json]) -> str | None:
    """Success or failure by any of the usual fields, or the exit status."""
    for name in ("resolved", "success", "passed"):
        if isinstance(value.get(name), bool):
            return "success" if value[name] else "failure"
    inner = value.get("reward_info")  # of tau2-bench
    reward = value.get("reward", value.get("score", inner.get("reward") if isinstance(inner, Mapping) else None))
    if isinstance(reward, (int, float)):
        return "success" if reward >= 1 else "failure"
    status = value.get("outcome") or value.get("exit_status") or value.get("status")
    return str(status) if isinstance(status, str) else None


def _task(value: Mapping[str, Json]) -> str | None:
    names = ("task_id", "instance_id", "task_name")
    return next((str(value[name]) for name in names if isinstance(value.get(name), (str, int))), None)


def _conversation(name: str, value: Mapping[str, Json], state_of: StateOf) -> Session:
    own = next((value[key] for key in ("session_id", "conversation_id", "id") if isinstance(value.get(key), str)), name)
    about = {"task": _task(value), "outcome": _outcome(value), "model": value.get("model")}
    session = _Builder(own, state_of, **about, cost=value.get("agent_cost"))
    for message in next(value[key] for key in _LISTS if _is_messages(value.get(key))):
        if isinstance(message, Mapping):
            _message(session, message)
    return session.finish()


def _tau(name: str, value: Mapping[str, Json], state_of: StateOf) -> Session:
    trial = value.get("trial")
    session = _Builder(
        f"{name}: {value['task_id']}/{trial}", state_of, task=str(value["task_id"]), outcome=_outcome(value)
    )
    for message in value["traj"] or ():
        _message(session, message)
    return session.finish()


_BLOCK = re.compile(r"```(?:bash|sh|mswea_bash_command)\s*\n(.*?)\n?```", re.DOTALL)


def _mini(name: str, value: Mapping[str, Json], state_of: StateOf) -> Session:
    """A session of mini-swe-agent: commands are in blocks of its messages, and later versions call a tool."""
    info: Mapping[str, Json] = value.get("info") or {}
    config = info.get("config") or {}
    model = (config.get("model") or {}).get("model_name") if isinstance(config, Mapping) else None
    cost = (info.get("model_stats") or {}).get("instance_cost")
    about = {"task": _task(value), "model": model, "cost": cost, "outcome": _outcome(value) or _outcome(info)}
    session = _Builder(_task(value) or name, state_of, **about)
    for message in value["messages"]:
        extra: Mapping[str, Json] = message.get("extra") or {}
        content = message.get("content")
        text = content if isinstance(content, str) else argument_text(content)
        if (
            message.get("role") == "assistant"
            and not message.get("tool_calls")
            and (extra.get("actions") or _BLOCK.search(text))
        ):
            actions = [a.get("command") for a in extra.get("actions") or () if isinstance(a, Mapping)]
            for command in actions or _BLOCK.findall(text)[:1]:
                session.call(_SHELL, command, time=extra.get("timestamp"))
        elif message.get("role") in ("user", "tool") and session.calls and "returncode" in text[:200]:
            session.result(message.get("tool_call_id"), error=_exit_code(text) != 0)
        else:
            _message(session, message)
    return session.finish()


_EDITORS = re.compile(
    r"(str_replace_editor|edit_anthropic|edit|create|open|goto|scroll_up|scroll_down|search_dir|search_file|find_file|"
    r"insert|submit|review_on_submit\w*|exit_\w+)\b"
)


def _swe(name: str, value: Mapping[str, Json], state_of: StateOf) -> Session:
    """A session of SWE-agent: an action is a command of its interface or of the shell."""
    info: Mapping[str, Json] = value.get("info") or {}
    cost = (info.get("model_stats") or {}).get("instance_cost")
    task = _task(value) or (value.get("environment") if isinstance(value.get("environment"), str) else None)
    session = _Builder(name, state_of, task=task, cost=cost, outcome=_outcome(value) or _outcome(info))
    for step in value["trajectory"]:
        action = str(step.get("action") or "").strip()
        if action:
            tool = _EDITORS.match(action)
            session.call(tool[1] if tool else _SHELL, action[tool.end() :].strip() if tool else action)
            session.result(None, error=_is_error_text(step.get("observation")))
    return session.finish()


def _atif(name: str, value: Mapping[str, Json], state_of: StateOf) -> Session:
    """A trajectory in the format of Harbor and Terminal-Bench; steps that repeat an earlier context are left out."""
    agent, metrics = value.get("agent") or {}, value.get("final_metrics") or {}
    role = "sub" if value.get("sub") else "main"
    own = str(value.get("trajectory_id") or value.get("session_id") or name)
    about = {"model": agent.get("model_name"), "cost": metrics.get("total_cost_usd"), "outcome": _outcome(value)}
    session = _Builder(own, state_of, task=_task(value), agent=role, **about)
    for step in value["steps"]:
        if step.get("is_copied_context"):
            continue
        if step.get("source") == "user":
            session.waits()
        elif step.get("source") == "agent":
            if str(step.get("message") or "").strip():
                session.says(step.get("timestamp"))
            for call in step.get("tool_calls") or ():
                key = call.get("tool_call_id")
                session.call(call.get("function_name"), call.get("arguments"), key=key, time=step.get("timestamp"))
        for result in (step.get("observation") or {}).get("results") or ():
            if result.get("source_call_id") is not None:
                session.result(result["source_call_id"], error=_is_error_text(result.get("content")))
    return session.finish()


_ALONE: dict[str, Callable[[str, Mapping[str, Json], StateOf], Session]] = {
    "messages": _conversation, "tau": _tau, "mini": _mini, "swe": _swe, "atif": _atif,
}  # fmt: skip


# --- Lines of a session that grows: Claude Code and Codex


class _Lines:
    """Sessions whose lines may be interleaved."""

    def __init__(self, name: str, state_of: StateOf) -> None:
        self.name, self.state_of = name, state_of
        self.sessions: dict[str, _Builder] = {}
        self._seen: set[str] = set()  # lines that a resumed session repeats

    def _session(self, name: str, agent: str = "main") -> _Builder:
        if name not in self.sessions:
            self.sessions[name] = _Builder(name, self.state_of, agent=agent)
        return self.sessions[name]

    def claude(self, line: Mapping[str, Json]) -> None:
        """A line of Claude Code; those of sub-agents are marked as a side chain."""
        message = line.get("message")
        if line.get("type") not in ("user", "assistant") or not isinstance(message, Mapping):
            return
        if line.get("isMeta") or str(line.get("uuid")) in self._seen:
            return
        if line.get("uuid"):
            self._seen.add(str(line["uuid"]))
        sub = f"/{line.get('agentId') or 'agent'}" if line.get("isSidechain") else ""
        session = self._session(f"{line['sessionId']}{sub}", "sub" if sub else "main")
        known = {"timestamp": line.get("timestamp")} | dict(message)
        if known.get("model") == "<synthetic>":
            known.pop("model")
        _message(session, known)

    def codex(self, line: Mapping[str, Json]) -> None:
        """A line of Codex; the first one names the session."""
        payload, kind = line["payload"], line["type"]
        session = self._session(self.name)
        if kind == "session_meta":
            session.name = str(payload.get("id") or payload.get("session_id") or self.name)
        elif kind == "turn_context" and payload.get("model"):
            session.attributes["model"] = payload["model"]
        elif kind == "response_item":
            _message(session, {"timestamp": line.get("timestamp")} | dict(payload))
            if payload.get("type") == "web_search_call":
                _item(session, payload, line.get("timestamp"))

    def finish(self) -> Iterator[Session]:
        """All sessions."""
        for session in self.sessions.values():
            yield session.finish()
