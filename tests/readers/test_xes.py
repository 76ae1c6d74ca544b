"""Event logs: the same numbers as from a table and a frame, however the XML is written; hostile files are refused."""

from __future__ import annotations

import gzip
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
import pytest

import somcot
from somcot.plumbing.errors import DataWarning
from somcot.readers import from_table, from_xes, read, xes
from somcot.readers import xes as plain_events
from somcot.samples import Samples
from tests.notes import noted

pd = pytest.importorskip("pandas")

Event = dict[str, str]
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<log xes.version="1.0">\n'


def attribute(key: str, value: str) -> str:
    kind = "date" if key == "time:timestamp" else "string"
    return f"<{kind} key={quoteattr(key)} value={quoteattr(value)}/>"


def trace(name: str | None, events: list[Event], case: Event | None = None) -> str:
    facts = ({} if name is None else {"concept:name": name}) | (case or {})
    inner = "".join("<event>\n" + "\n".join(attribute(*pair) for pair in e.items()) + "\n</event>\n" for e in events)
    return "<trace>\n" + "".join(attribute(*pair) + "\n" for pair in facts.items()) + inner + "</trace>\n"


def event(name: str, day: int, **more: str) -> Event:
    return {"concept:name": name, "time:timestamp": f"2026-05-{day:02}T10:00:00.000+02:00"} | more


def log(*traces: str) -> str:
    return HEAD + "".join(traces) + "</log>\n"


def written(folder: Path, text: str, name: str = "log.xes") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def same(a: Any, b: Samples) -> None:
    assert a.states == b.states
    np.testing.assert_array_equal(np.asarray(a.counts()), np.asarray(b.counts()))
    np.testing.assert_array_equal(a.start_counts, b.start_counts)
    assert (a.n_episodes, a.n_transitions) == (b.n_episodes, b.n_transitions)


def cases(n: int, seed: int = 3) -> list[tuple[str, list[Event]]]:
    """Cases with names that need escapes, events of different shapes and all three transitions."""
    draw = random.Random(seed)
    found = []
    for k in range(n):
        events = []
        for t in range(draw.randint(1, 9)):
            more = {"org:resource": draw.choice("xyz")} if draw.random() < 0.5 else {}
            kind = draw.choice(["COMPLETE", "complete", "start"])
            name = draw.choice(["order", "pay & go", 'say "no"', "größe", "a<b"])
            events.append(event(name, t + 1, **{"lifecycle:transition": kind}, **more))
        found.append((f"case {k}", events))
    return found


def test_a_log_a_table_and_a_frame_of_the_same_events_are_the_same(tmp_path: Path) -> None:
    made = cases(60)
    rows = [{"case": name, **e} for name, events in made for e in events]
    complete = [row for row in rows if row["lifecycle:transition"].lower() == "complete"]
    frame = pd.DataFrame(complete)[["case", "time:timestamp", "concept:name"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    path = written(tmp_path, log(*(trace(name, events) for name, events in made)))
    (tmp_path / "log.xes.gz").write_bytes(gzip.compress(path.read_bytes()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        asked: Any = {"sequence": "case", "time": "time:timestamp", "state": "concept:name", "end": "over"}
        wanted = from_table(tmp_path / "t.csv", **asked)
        for found in (
            from_table(frame, **asked),
            from_xes(path, end="over"),
            read(tmp_path / "log.xes.gz", end="over"),
            from_table(frame.rename(columns={"case": "case:concept:name"}), end="over"),  # as pm4py calls them
        ):
            same(found, wanted)
        other = from_xes(path, end="over", lifecycle="start")
        distances = {
            somcot.distance(x, other, discount=0.8, rng=0).distance for x in (wanted, from_xes(path, end="over"))
        }
    assert len(distances) == 1


def spaced(text: str) -> str:
    return text.replace("/>", "  />").replace("><", ">\n\t<")


VARIANTS: dict[str, Callable[[str], str]] = {
    "values first": lambda text: text.replace('key="concept:name" value="pay"', 'value="pay" key="concept:name"'),
    "single quotes": lambda text: text.replace('"pay"', "'pay'"),
    "closing tags": lambda text: text.replace('value="pay"/>', 'value="pay"></string>'),
    "attributes of attributes": lambda text: text.replace(
        'value="pay"/>', 'value="pay"><string key="concept:name" value="wrong"/></string>'
    ),
    "blanks": spaced,
    "a prefix": lambda text: text.replace("<", "<x:").replace("<x:/", "</x:").replace("<x:?", "<?"),
    "Latin letters": lambda text: text.replace("UTF-8", "ISO-8859-1"),
    "references": lambda text: text.replace('"pay"', '"p&#97;y"'),
    "an event in a comment": lambda text: text.replace("<trace>", f"<!-- {trace('z', [event('wrong', 1)])} --><trace>"),
    "events in a comment": lambda text: text.replace("</trace>", "<!-- <event>\n<event></trace> --></trace>"),
    "case names at the end": lambda text: text.replace('<string key="concept:name" value="a"/>\n', "").replace(
        "</trace>", '<string key="concept:name" value="a"/></trace>', 1
    ),
}


@pytest.mark.parametrize("chunk", [7, 64, 1 << 18])
@pytest.mark.parametrize("name", VARIANTS)
def test_however_the_xml_is_written(name: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = log(trace("a", [event("order", 1), event("pay", 2), event("order", 3)]), trace("b", [event("pay", 1)] * 1))
    wanted = Samples.from_trajectories([["order", "pay", "order"], ["pay"]], end="over")
    monkeypatch.setattr(xes, "_CHUNK", chunk)
    monkeypatch.setattr(xes, "_HEAD", 300)
    text = VARIANTS[name](plain)
    assert text != plain
    same(from_xes(written(tmp_path, text), end="over"), wanted)


def test_the_short_cut_finds_what_expat_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, log(*(trace(name, events) for name, events in cases(40, seed=8))))
    monkeypatch.setattr(xes, "_HEAD", 500)
    monkeypatch.setattr(xes, "_CHUNK", 700)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        fast = from_xes(path, lifecycle="all", state=["concept:name", "lifecycle:transition"])
        n_runs = []
        monkeypatch.setattr(plain_events.PlainEvents, "_run", lambda *_: n_runs.append(1))
        slow = from_xes(path, lifecycle="all", state=["concept:name", "lifecycle:transition"])
    assert n_runs
    same(fast, slow)


def test_lifecycles_and_classifiers(tmp_path: Path) -> None:
    both = [event("a", 1, **{"lifecycle:transition": "start"}), event("a", 2, **{"lifecycle:transition": "Complete"})]
    text = log(trace("1", both), trace("2", both)).replace(
        "<trace>", '<classifier name="Both" keys="concept:name lifecycle:transition"/><trace>', 1
    )
    path = written(tmp_path, text)
    with noted("lifecycle-left-out", share=(2, 4), lifecycle="'complete'", kinds="'start' (2)"):
        assert from_xes(path, end="over").states == ("a", "over")
    assert from_xes(path, lifecycle="all").n_transitions == 2
    states = from_xes(path, classifier="Both").states
    assert states == (("a", "Complete"), ("a", "start"))
    with pytest.raises(ValueError, match=r"lifecycle 'resume'.*'start' \(2\), 'Complete' \(2\)"):
        from_xes(path, lifecycle="resume")
    with pytest.raises(ValueError, match=r"classifier 'None'.*'Both'"):
        from_xes(path, classifier="None")
    with pytest.raises(ValueError, match="leave one out"):
        from_xes(path, classifier="Both", state="concept:name")


def test_attributes_of_cases_and_events_are_columns(tmp_path: Path) -> None:
    events = [event("a", 1, cost="3"), event("b", 2, cost="5"), event("a", 3)]
    path = written(tmp_path, log(trace("1", events, {"region": "north"}), trace("2", events, {"region": "south"})))
    samples = from_xes(path, state=["case:region", "concept:name"], reward="cost")
    assert samples.states == (("north", "a"), ("north", "b"), ("south", "a"), ("south", "b"))
    assert samples.features is not None
    assert samples.features.tolist() == [3, 5, 3, 5]
    same(from_table(path, sequence="case:region"), from_xes(path, sequence="case:region"))
    with pytest.raises(ValueError, match="no event has the attribute 'case:regoin'"):
        from_xes(path, state="case:regoin")
    with pytest.raises(ValueError, match="'case:region'"):  # what was meant
        from_xes(path, state="region")


def test_case_names_that_come_twice_are_one_sequence(tmp_path: Path) -> None:
    path = written(tmp_path, log(trace("1", [event("a", 1)]), trace("1", [event("b", 2)])))
    with noted("repeated-cases", n=1, case="'1'", line=10):
        assert from_xes(path).n_transitions == 1


def test_traces_that_lose_all_their_events_are_counted(tmp_path: Path) -> None:
    begun = [event("a", 1, **{"lifecycle:transition": "start"})]
    path = written(tmp_path, log(GOOD, trace("c2", begun), trace("c3", begun)))
    lost = ", and with them 2 trace(s) that have no other"
    with noted("lifecycle-left-out", share=(2, 4), kinds="'start' (2)", lost=lost):
        assert from_xes(path).n_episodes == 1


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {y} "{f"&{x};" * 10}">' for x, y in zip("abcdefgh", "bcdefghi", strict=True))
    + "]><log><trace><string key='concept:name' value='&i;'/></trace></log>"
)
OUTSIDE = (
    '<!DOCTYPE log [<!ENTITY x SYSTEM "file:///etc/passwd">]><log><trace><string key="a" value="&x;"/></trace></log>'
)
GOOD = trace("c1", [event("a", 1), event("b", 2)])
REFUSED: dict[str, tuple[str, str]] = {
    "entity bomb": (BOMB, r"line 1: a DOCTYPE, which could declare entities; logs need none"),
    "external entity": (OUTSIDE, "line 1: a DOCTYPE"),
    "external DTD": ('<!DOCTYPE log SYSTEM "http://example.com/x.dtd"><log/>', "line 1: a DOCTYPE"),
    "undefined entity": (log(GOOD).replace('"a"', '"&nbsp;"'), r"line 6, column \d+: not valid XML \(undefined entity"),
    "cut short": (log(GOOD)[:-40], "the log ends too soon, in line 1[0-9]"),
    "cut in a trace": (log(GOOD, GOOD)[:600], "the log ends too soon, in line"),
    "empty": (" ", "ends too soon"),
    "another root": ("<graphml/>", "line 1: the root is <graphml>, expected <log>"),
    "no XML": ("case,activity\n1,a\n", "line 1, column 1: not valid XML"),
    "no event": (log(trace("c1", [])), "no trace has an event"),
    "no trace": (log(), "no trace has an event"),
    "event in no trace": (log("<event>" + attribute("concept:name", "a") + "</event>"), "line 3: an event outside"),
    "no case name": (
        log(GOOD, trace(None, [event("a", 1)])),
        r"event 1 of trace 2 \(line 14\), column 'case:concept:name': the entry is missing \(1 such rows\)",
    ),
    "no time": (
        log(trace("c1", [event("a", 1), {"concept:name": "b"}])),
        r"event 2 of trace 1 'c1' \(line 3\), column 'time:timestamp': the entry is missing .*time='file'",
    ),
    "no name": (
        log(trace("c1", [event("a", 1), {"time:timestamp": "2026-05-02T10:00:00+02:00"}])),
        r"event 2 of trace 1 'c1' \(line 3\) has no concept:name",
    ),
    "strange time": (
        log(trace("c1", [event("a", 1)]), trace("c2", [event("a", 1) | {"time:timestamp": "noon"}])),
        r"event 1 of trace 2 'c2' \(line 10\), column 'time:timestamp': found 'noon'",
    ),
    "times with and without a zone": (
        log(trace("c1", [event("a", 1), event("b", 1) | {"time:timestamp": "2026-05-02T10:00:00"}])),
        r"event 2 of trace 1 'c1' .*write all times in the same way",
    ),
    "our own mark": (log(GOOD).replace("<event>", '<event plain-events="1">', 1), "an event has the attribute"),
    "no such encoding": (log(GOOD).replace("UTF-8", "klingon"), "line 1: the declared encoding cannot be read"),
    "control characters": (log(GOOD).replace('"a"', '"\x01"'), "line 6, column .*not valid XML"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_place(name: str, tmp_path: Path) -> None:
    text, match = REFUSED[name]
    with pytest.raises(ValueError, match=rf"log\.xes: .*{match}"):
        from_xes(written(tmp_path, text))


def test_names_may_be_missing_where_that_is_allowed(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        log(trace("c1", [event("a", 1), {"time:timestamp": "2026-05-02T10:00:00+02:00"}, *[event("a", 3)] * 2])),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert from_xes(path, missing="cut").n_transitions == 1
    timeless = written(tmp_path, log(trace("c1", [{"concept:name": "b"}, {"concept:name": "a"}])))
    assert from_xes(timeless, time="file").counts().tolist() == [[0, 0], [1, 0]]


def test_a_cut_gzip_file_has_a_place(tmp_path: Path) -> None:
    whole = gzip.compress(log(*(trace(name, events) for name, events in cases(900))).encode())
    path = tmp_path / "log.xes.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"log\.xes\.gz: the gzip data are damaged"):
        from_xes(path)


def test_an_endless_element_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xes, "_ELEMENT", 1 << 12)
    monkeypatch.setattr(plain_events, "_LONG", 1 << 10)
    monkeypatch.setattr(xes, "_CHUNK", 1 << 10)
    monkeypatch.setattr(xes, "_HEAD", 1 << 10)
    path = written(tmp_path, log(GOOD.replace('"a"', f'"{"x" * 20_000}"')))
    with pytest.raises(ValueError, match="element is longer"):
        from_xes(path)


def test_long_traces_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_events, "_LONG", 500)
    monkeypatch.setattr(xes, "_CHUNK", 100)
    monkeypatch.setattr(xes, "_HEAD", 100)
    path = written(tmp_path, log(trace("1", [event("ab"[k % 2], k + 1) for k in range(25)]), GOOD))
    assert from_xes(path).counts().tolist() == [[0, 13], [12, 0]]


def test_invalid_letters_are_told_by_expat(tmp_path: Path) -> None:
    (tmp_path / "log.xes").write_bytes(log(GOOD).encode().replace(b'"a"', b'"\xff"'))
    with pytest.raises(ValueError, match=r"log\.xes: line 6, column \d+: not valid XML \(not well-formed"):
        from_xes(tmp_path / "log.xes")


def test_traces_without_events_are_counted(tmp_path: Path) -> None:
    with noted("empty-traces", n=1):
        from_xes(written(tmp_path, log(GOOD, trace("empty", []))))
