"""Sessions of agents: every format of the guide, states by rules, and files that are damaged, mixed or huge."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from somcot.readers import from_table, from_traces, split_table
from somcot.readers.opening import identify
from somcot.readers.tables.batches import open_table
from somcot.readers.traces import RULE_SETS, StateRules
from tests.notes import code_of, noted

GUIDE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
EXAMPLES = {
    title: (Path(__file__).parents[2] / "docs" / file).read_text(encoding="utf-8")
    for title, file in re.findall(r"^### (.*?)\n.*?^```{literalinclude} (.*?)\n", GUIDE, re.MULTILINE | re.DOTALL)
}
# What each example of the guide says: the session, its states, and its attributes.
CONTENT: dict[str, tuple[str, str, dict[str, object]]] = {
    "OpenTelemetry": ("t1", "look_up, book error", {"model": "small"}),
    "Claude Code": ("s1", "Read, test error, reply", {"model": "claude"}),
    "OpenAI messages": ("c1", "find_order error, find_user, reply", {"task": "refund", "outcome": "success"}),
    "Anthropic messages": ("file.json", "weather error, weather, reply", {}),
    "mini-swe-agent": (
        "repair-7",
        "search, test error, submit",
        {"outcome": "Submitted", "cost": 0.5, "model": "small"},
    ),
    "tau-bench": ("file.json: 3/0", "reply, cancel, reply", {"task": "3", "outcome": "success"}),
    "SWE-agent": (
        "file.json",
        "find_file, str_replace_editor, run error, submit",
        {"outcome": "submitted", "cost": 0.1},
    ),
    "Harbor": ("h1", "test, look_up error, reply", {"model": "small", "cost": 0.02}),
    "Codex": ("x1", "search error, apply_patch", {"model": "gpt"}),
    "LangSmith": ("th", "search, answer error", {"model": "gpt"}),
    "Langfuse": ("s9", "search, answer error", {"model": "gpt"}),
}


def rows(source: object, **options: Any) -> list[dict[str, object]]:
    with open_table(source, **options) as table:
        batches = [
            {k: v.to_pylist() if hasattr(v, "to_pylist") else v for k, v in b.items()}
            for b in table.batches(table.columns)
        ]
    return [dict(zip(b, row, strict=True)) for b in batches for row in zip(*b.values(), strict=True)]


def test_the_guide_has_an_example_of_every_format() -> None:
    assert list(EXAMPLES) == list(CONTENT)


@pytest.mark.parametrize("name", CONTENT)
@pytest.mark.parametrize("ending", [".json", ".jsonl", ".traj", ""])
def test_the_examples_of_the_guide(name: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"file{ending}"
    path.write_text(EXAMPLES[name])
    assert identify(path).format == "traces"
    found = rows(path)
    session, states, attributes = CONTENT[name]
    assert {row["session"] for row in found} == {session.replace("file.json", path.name)}
    assert ", ".join(str(row["state"]) for row in found) == states
    for key, value in attributes.items():
        assert {row[key] for row in found} == {value}
    samples = from_traces(path)
    assert samples.n_transitions == len(found) - 1
    assert samples.terminated is None  # a session that ends may go on
    assert samples.episode_attributes["agent"].tolist() == ["main"]


def sdk_span(name: str, *, error: bool = False, key: str = "0x1", trace: str = "0xa") -> dict[str, Any]:
    """A span as OpenTelemetry's SDK prints it."""
    return {
        "name": f"execute_tool {name}", "context": {"trace_id": trace, "span_id": key}, "parent_id": "0x9",
        "start_time": f"2026-05-01T12:00:0{key[-1]}Z", "status": {"status_code": "ERROR" if error else "UNSET"},
        "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name},
    }  # fmt: skip


def test_spans_as_the_sdk_prints_them(tmp_path: Path) -> None:
    root: dict[str, Any] = {
        "name": "invoke_agent a", "context": {"trace_id": "0xa", "span_id": "0x9"}, "parent_id": None,
        "attributes": {"gen_ai.conversation.id": "c1", "gen_ai.request.model": "small"}, "status": {},
    }  # fmt: skip
    spans = [sdk_span("book", error=True, key="0x2"), sdk_span("look_up"), root]
    (tmp_path / "console.json").write_text("".join(json.dumps(span, indent=4) + "\n" for span in spans))
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(span) + "\n" for span in spans))
    (tmp_path / "spans.json").write_text(json.dumps({"spans": spans, "final_output": "x"}, indent=2))
    # Phoenix: the kind and the status next to the attributes.
    moved = [{**span, "span_kind": "CHAIN", "status_code": "OK"} for span in spans]
    for span, status in ((moved[0], "ERROR"), (moved[1], "OK")):
        del span["status"]
        span |= {"span_kind": "TOOL", "status_code": status, "name": str(span["name"]).removeprefix("execute_tool ")}
        span["attributes"] = {}
    (tmp_path / "array.json").write_text(json.dumps(moved, indent=2))
    for name in ("console.json", "lines.jsonl", "spans.json", "array.json"):
        assert identify(tmp_path / name).format == "traces"
        found = rows(tmp_path / name)
        assert [(row["session"], row["state"], row["model"]) for row in found] == [
            ("c1", "look_up", "small"), ("c1", "book error", "small"),
        ]  # fmt: skip
    # A parent with all its fields, and times in nanoseconds, as any-agent writes them.
    whole = [
        {**span, "parent": {"span_id": "0x9"}, "parent_id": None, "start_time": 10**18 - k * 10**6}
        for k, span in enumerate(spans)
    ]
    (tmp_path / "whole.json").write_text(json.dumps({"spans": whole}))
    assert [row["state"] for row in rows(tmp_path / "whole.json")] == ["look_up", "book error"]


def test_spans_of_the_console_exporter(tmp_path: Path) -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    with (tmp_path / "console.json").open("w") as file:
        provider = trace.TracerProvider()
        provider.add_span_processor(export.SimpleSpanProcessor(export.ConsoleSpanExporter(out=file)))
        tracer = provider.get_tracer("agent")
        with tracer.start_as_current_span("invoke_agent a", attributes={"gen_ai.conversation.id": "c1"}):
            for tool in ("look_up", "book"):
                with tracer.start_as_current_span("execute_tool", attributes={"gen_ai.tool.name": tool}):
                    pass
    assert [(row["session"], row["state"]) for row in rows(tmp_path / "console.json")] == [
        ("c1", "look_up"),
        ("c1", "book"),
    ]


@pytest.mark.parametrize("indent", [None, 2])
def test_results_of_tau2_bench(indent: int | None, tmp_path: Path) -> None:
    def call(key: str, name: str) -> dict[str, object]:
        return {"id": key, "name": name, "arguments": {"order": 7}, "requestor": "assistant"}

    messages = [
        {"role": "assistant", "content": "Hello", "tool_calls": None},
        {"role": "user", "content": None, "tool_calls": [call("u", "reboot")]},
        {"role": "assistant", "content": None, "tool_calls": [call("1", "find"), call("2", "refund")]},
        {"id": "2", "role": "tool", "content": "fine", "error": False},
        {"id": "1", "role": "tool", "content": "none", "error": True},
    ]
    runs = [
        {"id": f"r{k}", "task_id": str(k), "messages": messages, "reward_info": {"reward": 1.0 - k}, "agent_cost": 0.5}
        for k in range(2)
    ]
    info = {"num_trials": 1, "agent_info": {"llm": "small"}}
    content = {"timestamp": "t", "info": info, "tasks": [{"id": "0"}, {"id": "1"}], "simulations": runs}
    (tmp_path / "results.json").write_text(json.dumps(content, indent=indent))
    found = rows(tmp_path / "results.json")
    assert [row["state"] for row in found] == ["reply", "find error", "refund"] * 2
    assert [(r["session"], r["task"], r["outcome"], r["model"], r["cost"]) for r in found[::3]] == [
        ("r0", "0", "success", "small", 0.5), ("r1", "1", "failure", "small", 0.5),
    ]  # fmt: skip


def test_sub_agents_and_copied_steps_of_a_trajectory(tmp_path: Path) -> None:
    def step(tool: str, **more: object) -> dict[str, object]:
        return {"source": "agent", "tool_calls": [{"tool_call_id": "1", "function_name": tool}], **more}

    version = {"schema_version": "ATIF-v1.7", "session_id": "h1"}
    inner = {**version, "trajectory_id": "h1/sub", "agent": {}, "steps": [step("read")]}
    whole = {
        **version, "agent": None, "subagent_trajectories": [inner],
        "steps": [
            step("old", is_copied_context=True), step("delegate"), {"source": "agent", "message": "so"}, step("write"),
        ],
    }  # fmt: skip
    (tmp_path / "t.json").write_text(json.dumps(whole, indent=2))
    assert [(row["session"], row["state"], row["agent"]) for row in rows(tmp_path / "t.json")] == [
        ("h1", "delegate", "main"), ("h1", "write", "main"), ("h1/sub", "read", "sub"),
    ]  # fmt: skip


def test_arguments_and_messages_are_not_kept(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        EXAMPLES["OpenAI messages"]
        .replace("I want my money back", "SECRET")
        .replace('\\"user\\": 7', '\\"SECRET\\": 7')
    )
    samples = from_traces(tmp_path / "a.json")
    assert "SECRET" not in repr(rows(tmp_path / "a.json"))
    assert "SECRET" not in repr((samples.states, samples.episode_attributes))


def message(tool: str, k: int = 0) -> dict[str, object]:
    return {"role": "assistant", "content": None, "tool_calls": [{"id": str(k), "function": {"name": tool}}]}


def session(folder: Path, name: str, tools: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps([message(t, k) for k, t in enumerate(tools.split())]))


def test_a_folder_of_mixed_formats_and_other_files(tmp_path: Path) -> None:
    for k, text in enumerate(EXAMPLES.values()):
        (tmp_path / f"{k}.json").write_text(text)
    (tmp_path / "summary.json").write_text('{"passed": 3}')
    (tmp_path / "results.csv").write_text("a,b\n1,2\n")
    (tmp_path / "cut.json").write_text(EXAMPLES["tau-bench"][:200])
    with noted("files-left-out", n=3):
        samples = from_traces(tmp_path)
    assert samples.n_episodes == len(EXAMPLES)


def test_damaged_lines_and_sessions_without_tools_are_counted(tmp_path: Path) -> None:
    lines = EXAMPLES["Claude Code"].splitlines()
    (tmp_path / "s.jsonl").write_text("\n".join([*lines[:6], "not json", lines[6][:50]]))
    with noted("broken-lines", n=2):
        found = from_traces(tmp_path / "s.jsonl")
    assert found.states == ("Read", "test error")
    talk = json.dumps([{"role": "user", "content": "hello"}])
    (tmp_path / "talk.json").write_text(talk)
    with noted("sessions-without-calls", n=1), noted("broken-lines", n=2):
        from_traces([tmp_path / "s.jsonl", tmp_path / "talk.json"])
    with pytest.raises(ValueError, match="without a tool call") as error:
        from_traces(tmp_path / "talk.json")
    assert code_of(error) == "no-sessions"
    (tmp_path / "cut.json").write_text(EXAMPLES["tau-bench"][:-30])
    with pytest.raises(ValueError, match=r"cut\.json: element 1 of the array is cut short"):
        from_traces(tmp_path / "cut.json")


SPAN = {"name": "execute_tool a", "startTimeUnixNano": 1e999}
MALFORMED: dict[str, object] = {
    "a message of text": {"task_id": 1, "traj": ["hello"]},
    "calls of text": {"role": "assistant", "tool_calls": ["f"]},
    "an infinite time": {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]},
    "spans of text": {"resourceSpans": ["a"]},
    "steps of numbers": {"trajectory": [1, 2]},
    "a number": 7,
}  # fmt: skip


@pytest.mark.parametrize("value", MALFORMED.values(), ids=MALFORMED)
def test_values_that_are_not_what_their_format_says_are_counted(value: object, tmp_path: Path) -> None:
    lines = [message("a"), message("b"), value]
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with noted("values-left-out", n=1):
        assert from_traces(tmp_path / "s.jsonl").states == ("a", "b")


def test_lines_of_claude_code_that_hold_no_call_are_expected(tmp_path: Path) -> None:
    besides = ['{"type": "summary", "leafUuid": "x"}', '{"type": "file-history-snapshot", "messageId": "y"}']
    (tmp_path / "s.jsonl").write_text("\n".join([*besides, EXAMPLES["Claude Code"]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_traces(tmp_path / "s.jsonl")


def test_attributes_that_can_be_none_are_left_out(tmp_path: Path) -> None:
    found = json.loads(EXAMPLES["mini-swe-agent"])
    found["info"]["model_stats"] = {"instance_cost": float("inf")}
    found["info"]["config"] = {"model": {"model_name": ["a", "list"]}}
    (tmp_path / "s.json").write_text(json.dumps(found))
    attributes = from_traces(tmp_path / "s.json").episode_attributes
    assert attributes["model"].tolist() == ["unknown"]
    assert attributes["cost"].tolist() == [None]


def test_sub_agents_are_sessions_of_their_own(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in EXAMPLES["Claude Code"].splitlines()]
    for line in lines[2:6]:
        line |= {"isSidechain": True, "agentId": "helper"}
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert {(r["session"], r["agent"]) for r in rows(tmp_path / "s.jsonl")} == {("s1", "main"), ("s1/helper", "sub")}
    spans = json.loads(EXAMPLES["OpenTelemetry"])
    listed = spans["resourceSpans"][0]["scopeSpans"][0]["spans"]
    listed.append(
        {"traceId": "t1", "spanId": "9", "parentSpanId": "1", "name": "invoke_agent inner", "startTimeUnixNano": "1"}
    )
    listed[3]["parentSpanId"] = "9"
    (tmp_path / "o.json").write_text(json.dumps(spans))
    found = {r["state"]: (r["session"], r["agent"]) for r in rows(tmp_path / "o.json")}
    assert found == {"look_up": ("t1/9", "sub"), "book error": ("t1", "main")}
    listed[-1]["parentSpanId"] = "of another file"  # which says nothing about an agent above
    (tmp_path / "o.json").write_text(json.dumps(spans))
    assert {(r["session"], r["agent"]) for r in rows(tmp_path / "o.json")} == {("t1", "main")}


def test_a_loop_of_spans_ends(tmp_path: Path) -> None:
    spans = json.loads(EXAMPLES["OpenTelemetry"])
    spans["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["parentSpanId"] = "1"
    (tmp_path / "o.json").write_text(json.dumps(spans))
    assert len(rows(tmp_path / "o.json")) == 2


def test_spans_of_the_sdk(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    common = pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")
    from google.protobuf.json_format import MessageToJson  # type: ignore[import-untyped, import-not-found, unused-ignore]
    from opentelemetry.sdk.trace import TracerProvider  # type: ignore[import-not-found, unused-ignore]
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # type: ignore[import-not-found, unused-ignore]
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # type: ignore[import-not-found, unused-ignore]
        InMemorySpanExporter,
    )

    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("test")
    for tools in ("search read answer", "search answer answer"):
        with tracer.start_as_current_span("invoke_agent x"):
            for tool in tools.split():
                with tracer.start_as_current_span(f"execute_tool {tool}") as span:
                    span.set_attribute("gen_ai.operation.name", "execute_tool")
                    span.set_attribute("gen_ai.tool.name", tool)
    (tmp_path / "t.json").write_text(MessageToJson(common.encode_spans(memory.get_finished_spans())))
    samples = from_traces(tmp_path / "t.json")
    wanted = from_table(
        {"q": [1, 1, 1, 2, 2, 2], "state": ["search", "read", "answer", "search", "answer", "answer"]}, sequence="q"
    )
    assert samples.states == wanted.states
    assert samples.counts().tolist() == wanted.counts().tolist()


def test_groups_of_sessions(tmp_path: Path) -> None:
    text = EXAMPLES["tau-bench"]
    (tmp_path / "a.json").write_text(text)
    (tmp_path / "b.json").write_text(text.replace('"reward": 1.0', '"reward": 0.0').replace('"cancel"', '"book"'))
    found = split_table(tmp_path, "outcome", least=1)
    assert {name: s.n_transitions for name, s in found.items()} == {"failure": 2, "success": 2}
    with pytest.raises(ValueError, match="missing") as error:
        split_table(tmp_path, "week", least=1)
    assert code_of(error) == "row-without-period"  # to keep the order of the file would not help


def test_weeks_of_sessions(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(EXAMPLES["Codex"])
    assert list(split_table(tmp_path / "s.jsonl", "week", least=1)) == ["2026-W18"]


# --- Rules


@pytest.mark.parametrize(
    ("command", "state"),
    [
        ("cd /testbed && python -m pytest tests/test_x.py -q", "test"), ("npm run test -- --ci", "test"),
        ("python tests/runtests.py admin", "test"), ("go test ./...", "test"), ("cargo test", "test"),
        ("git commit -am 'x'", "commit"), ("git diff HEAD", "git"), ("sed -i 's/a/b/' x.py", "edit"),
        ("cat <<'EOF' > a.py\nprint()\nEOF", "edit"), ("sed -n '1,20p' x.py", "read"), ("cat x.py", "read"),
        ("grep -rn total . | head", "search"), ("find . -name '*.py'", "search"), ("ls -la", "read"),
        ("python reproduce.py", "run"), ("pip install -e .", "install"), ("make -j4", "build"),
        ("ruff check .", "check"),
        ("curl -s localhost", "web"), ("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "submit"), ("true", "shell"),
    ],
)  # fmt: skip
def test_commands_of_a_shell(command: str, state: str) -> None:
    for tool in ("Bash", "shell", "exec_command"):
        assert RULE_SETS["shell"].state(tool, command, False) == state
    assert RULE_SETS["names"].state("Bash", command, True) == "Bash error"


def test_tools_of_coding_agents_have_common_names() -> None:
    calls = {
        ("Read", ""): "read",
        ("str_replace_editor", "view a.py"): "read",
        ("str_replace_editor", "create a.py"): "edit",
        ("MultiEdit", ""): "edit",
        ("Grep", ""): "search",
        ("Task", ""): "subagent",
        ("TodoWrite", ""): "plan",
        ("WebFetch", ""): "web",
        ("book_flight", ""): "book_flight",
    }
    assert {call: RULE_SETS["coding"].state(*call, False) for call in calls} == calls


def test_rules_from_a_file(tmp_path: Path) -> None:
    (toml,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "rules.toml").write_text(toml)
    rules = StateRules.read(tmp_path / "rules.toml")
    assert rules.state("Bash", "cd x; terraform apply", True) == "deploy error"
    assert rules.state("TodoWrite", "", False) is None
    assert rules.state("Bash", "pytest", False) == "test"
    (tmp_path / "s.json").write_text(EXAMPLES["Claude Code"])
    samples = from_traces(tmp_path / "s.json", state_rules={"base": "coding", "errors": False, "reply": ""})
    assert samples.states == ("read", "test")
    for bad, match in (
        ({"rule": [{"tool": "x"}]}, "rule 1: has no state"), ({"rules": []}, "unknown key 'rules'"),
        ({"rule": [{"state": "a", "tool": "("}]}, "rule 1: not a regular expression"),
        ({"base": "all"}, "base is 'all'"), ({"errors": "yes"}, "errors is 'yes'"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            StateRules.read(bad)
    with pytest.raises(ValueError, match="there is no file"):
        StateRules.read("none.toml")
    (tmp_path / "bad.toml").write_text("[[rule]\n")
    with pytest.raises(ValueError, match="not a readable TOML"):
        StateRules.read(str(tmp_path / "bad.toml"))


def test_tables_in_json_are_still_tables(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('[{"role": "admin", "state": "a"}, {"role": "user", "state": "b"}]')
    assert identify(tmp_path / "t.json").format == "json"
    (tmp_path / "m.jsonl").write_text(
        '{"role": "user", "content": "x", "state": "a"}\n{"role": "user", "content": "y", "state": "b"}\n'
    )
    assert identify(tmp_path / "m.jsonl").format == "traces"
    with noted("one-sequence", columns="'role', 'content'"):
        assert from_table(tmp_path / "m.jsonl", format="jsonl").states == ("a", "b")


@pytest.mark.slow
def test_a_hundred_thousand_sessions(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    text = json.dumps([message(t, k) for k, t in enumerate(["a", "b", "c"])])
    for k in range(100_000):
        (folder / f"{k:06d}.json").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_traces(folder).n_episodes == 100_000
