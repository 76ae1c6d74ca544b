"""Spans of agents' calls: OpenTelemetry (OTLP, or as the SDK prints them), LangSmith and Langfuse."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from somcot.readers.tables.numbers_and_times import micros

__all__ = ["Span", "Spans"]

Json: TypeAlias = Any


class Span(NamedTuple):
    """A call of a tool, with its start in microseconds since 1970 (0 if unknown)."""

    start: int
    tool: str
    arguments: Json
    error: bool


class Spans:
    """Spans in any order, grouped into sessions and sorted by their start."""

    def __init__(self) -> None:
        self.calls: dict[str, list[tuple[str | None, Span]]] = {}  # by trace, with the span above
        self.above: dict[str, tuple[str | None, bool]] = {}  # the span above, and whether it is an agent
        self.models: dict[str, str] = {}
        self.names: dict[str, str] = {}  # sessions of traces

    def otlp(self, value: Mapping[str, Json]) -> None:
        """Spans in the JSON notation of OTLP, with the attributes of the GenAI conventions or of OpenInference."""
        for resource in _get(value, "resourceSpans") or ():
            for scope in _get(resource, "scopeSpans") or ():
                for span in scope.get("spans") or ():
                    about = {a.get("key"): _value(a.get("value")) for a in span.get("attributes") or ()}
                    keys = tuple(str(_get(span, name) or "") for name in ("traceId", "spanId", "parentSpanId"))
                    start = int(_get(span, "startTimeUnixNano") or 0) // 1000 % (1 << 63)  # Arrow's times have 64 bits
                    self._add(span, keys, about, start, (span.get("status") or {}).get("code"))

    def sdk(self, span: Mapping[str, Json]) -> None:
        """A span as OpenTelemetry's SDK and Phoenix print it: identifiers are in its context."""
        above = span.get("parent_id") or (span.get("parent") or {}).get("span_id")
        keys = (str(span["context"]["trace_id"]), str(span["context"].get("span_id")), str(above or ""))
        about = {"openinference.span.kind": span.get("span_kind")} | dict(span.get("attributes") or {})
        status = (span.get("status") or {}).get("status_code") or span.get("status_code")
        self._add(span, keys, about, micros(span.get("start_time")) or 0, status)

    def _add(
        self, span: Mapping[str, Json], keys: tuple[str, ...], about: Mapping[str, Json], start: int, status: Json
    ) -> None:
        trace, key, parent = keys
        name = str(span.get("name") or "")
        operation = about.get("gen_ai.operation.name") or name.partition(" ")[0]
        self.above[key] = parent or None, operation == "invoke_agent"
        session = next((about[n] for n in ("gen_ai.conversation.id", "session.id") if about.get(n)), None)
        if session is not None:
            self.names.setdefault(trace, str(session))
        model = about.get("gen_ai.request.model") or about.get("gen_ai.response.model") or about.get("llm.model_name")
        if model:
            self.models.setdefault(trace, str(model))
        tool = about.get("gen_ai.tool.name") or about.get("tool.name")
        if operation == "execute_tool" or tool or about.get("openinference.span.kind") == "TOOL":
            error = str(status).upper() in ("2", "ERROR", "STATUS_CODE_ERROR") or bool(about.get("error.type"))
            arguments = about.get("gen_ai.tool.call.arguments") or about.get("input.value")
            called = Span(start, str(tool or name.removeprefix("execute_tool ")), arguments, error)
            self.calls.setdefault(trace, []).append((parent or None, called))

    def langsmith(self, run: Mapping[str, Json]) -> None:
        """A run of LangSmith."""
        extra = run.get("extra") or {}
        about = extra.get("metadata") or {} if isinstance(extra, Mapping) else {}
        trace = str(run.get("trace_id") or run.get("id"))
        session = about.get("session_id") or about.get("thread_id")
        if session:
            self.names.setdefault(trace, str(session))
        if about.get("ls_model_name"):
            self.models.setdefault(trace, str(about["ls_model_name"]))
        if run.get("run_type") == "tool":
            start = micros(run.get("start_time")) or 0
            span = Span(start, str(run.get("name")), run.get("inputs"), bool(run.get("error")))
            self.calls.setdefault(trace, []).append((None, span))

    def langfuse(self, value: Mapping[str, Json]) -> None:
        """An observation of Langfuse, or a trace with its observations."""
        if isinstance(value.get("observations"), list):
            if value.get("sessionId"):
                self.names.setdefault(str(value.get("id")), str(value["sessionId"]))
            for inner in value["observations"]:
                if isinstance(inner, Mapping):
                    self.langfuse({"traceId": value.get("id")} | dict(inner))
            return
        trace, kind = str(value.get("traceId")), value.get("type")
        if value.get("sessionId"):
            self.names.setdefault(trace, str(value["sessionId"]))
        if value.get("model"):
            self.models.setdefault(trace, str(value["model"]))
        if kind == "TOOL":
            start = micros(value.get("startTime") or value.get("start_time")) or 0
            span = Span(start, str(value.get("name")), value.get("input"), value.get("level") == "ERROR")
            self.calls.setdefault(trace, []).append((None, span))

    def _agent(self, span: str | None) -> str | None:
        """The innermost agent above a span, if there is another one above that."""
        agents: list[str] = []
        seen: set[str] = set()
        while span is not None and span not in seen:  # a damaged file may have a loop
            seen.add(span)
            parent, is_agent = self.above.get(span, (None, False))
            agents += [span] if is_agent else []
            span = parent
        return agents[0] if len(agents) > 1 else None

    def finish(self) -> Iterator[tuple[str, dict[str, Json], list[Span]]]:
        """All sessions: name, attributes and calls."""
        sessions: dict[str, tuple[str, list[Span], str]] = {}
        for trace, calls in self.calls.items():
            for parent, span in calls:
                agent = self._agent(parent)
                name = self.names.get(trace, trace) + (f"/{agent}" if agent else "")
                sessions.setdefault(name, (trace, [], "sub" if agent else "main"))[1].append(span)
        for name, (trace, spans, agent) in sessions.items():
            yield name, {"model": self.models.get(trace), "agent": agent}, sorted(spans, key=lambda span: span.start)


def _get(value: Mapping[str, Json], name: str) -> Json:
    """A field by its name in camel case, or in snake case."""
    return value.get(name, value.get(re.sub(r"([A-Z])", lambda m: f"_{m[1].lower()}", name)))


def _value(value: Json) -> Json:
    """An attribute's value in OTLP: {"stringValue": ...} and the like."""
    return next(iter(value.values()), None) if isinstance(value, Mapping) else value
