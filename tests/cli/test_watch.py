"""`somcot watch` from end to end: streams, alarms, files, and everything that can be wrong with them."""

import contextlib
import errno
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from somcot import Monitor
from somcot.cli import watch as cli_watch
from somcot.cli.application import app
from somcot.data import clickstream
from somcot.readers import from_table
from somcot.readers.tables import csv_stream as feed
from somcot.readers.tables.rotation import LogFile, Place
from somcot.report import many_facts
from tests.live.streams import Family, same

READ = ["--sequence", "session", "--state", "page", "--terminated", "all", "--discount", "0.9"]


MORNING = np.datetime64("2026-05-01T08:00:00")


def sessions(month: str, n: int, seed: int) -> list[str]:
    states, names = Family("shop", clickstream.chain(month), 20).stream(n, np.random.default_rng(seed))
    assert names is not None
    return [
        f"{month[0]}{name},{clickstream.PAGES[k]}\n" for k, name in zip(states.tolist(), names.tolist(), strict=True)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("watch")
    rows = clickstream.path("may").read_text().splitlines()
    (place / "may.csv").write_text("\n".join(",".join(row.split(",")[::2]) for row in rows) + "\n")
    (place / "log.csv").write_text("session,page\n" + "".join(sessions("may", 3000, 1) + sessions("june", 5000, 2)))
    (place / "quiet.csv").write_text("session,page\n" + "".join(sessions("may", 3000, 1)))
    return place


def watch(folder: Path, *arguments: object, data: bytes | None = None) -> tuple[int, str, str]:
    """Run the command within this process, standard input included."""
    saved = os.dup(0)
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.close(reading)
    writer = threading.Thread(target=_write, args=(writing, data or b""))
    writer.start()
    try:
        words = ["watch", *map(str, arguments), "--reference", str(folder / "may.csv"), *READ]
        result = CliRunner().invoke(app, words, standalone_mode=False)
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        writer.join()
    if result.exception is not None:
        return 2, result.stdout, f"{type(result.exception).__name__}: {result.exception}"
    return int(result.return_value or 0), result.stdout, result.stderr


def _write(handle: int, data: bytes) -> None:
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)


def ranks(monitor: Monitor) -> Any:
    assert monitor._whole is not None
    return monitor._whole.ranks


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_an_alarm_in_a_file(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "status.html"
    code, out, _ = watch(folder, folder / "log.csv", "--html", page, "--on-alarm", f"cat > {tmp_path / 'alarm.json'}")
    assert code == 0
    assert "alarm at event 3," in out
    assert "ended: 8,000 events, alarm at event 3," in out
    assert "after the alarm: 0.1" in out
    alarm = json.loads((tmp_path / "alarm.json").read_text())
    assert 3000 < alarm["event"] < 4200  # the sessions of May that never end are waited for
    assert alarm["id"].endswith(f"-{alarm['event']}")
    text = page.read_text()
    assert "<h1>Changed" in text
    assert "<svg" in text
    assert "http://" not in text.replace("http-equiv", "")


def test_columns_chosen_by_their_names_are_a_note(folder: Path) -> None:
    words = ["watch", str(folder / "quiet.csv"), "--reference", str(folder / "may.csv"), "--terminated", "all"]
    done = subprocess.run([sys.executable, "-m", "somcot", *words], capture_output=True, text=True, check=True)
    named = [line for line in done.stderr.splitlines() if "quiet.csv: columns were chosen" in line]
    assert len(named) == 1
    assert named[0].startswith("note: ")
    assert "--state COLUMN" in named[0]
    assert "Warning" not in done.stderr


def test_json_lines_from_a_pipe_and_the_exit_code(folder: Path) -> None:
    data = (folder / "log.csv").read_bytes()
    code, out, _ = watch(folder, "-", "--json", "--every", 1000, "--exit-on-alarm", data=data)
    assert code == 3
    kinds = [line["type"] for line in lines(out)]
    assert "alarm" in kinds
    assert kinds[-1] == "end"
    quiet, out, _ = watch(folder, "--json", "--exit-on-alarm", data=(folder / "quiet.csv").read_bytes())
    assert quiet == 0
    assert lines(out)[-1]["events"] == 3000
    assert lines(out)[-1]["distance"] < 0.05


@pytest.mark.skipif(sys.platform == "win32", reason="has no such terminals")
@pytest.mark.parametrize("lines_of_json", [True, False])
def test_lines_of_json_have_no_status_line_between_them(lines_of_json: bool, folder: Path) -> None:
    """On a terminal both would be mixed."""
    words = ["watch", str(folder / "quiet.csv"), "--reference", str(folder / "may.csv"), *READ]
    words += ["--json"] if lines_of_json else []
    ours, theirs = os.openpty()
    done = subprocess.run([sys.executable, "-m", "somcot", *words], stdout=subprocess.PIPE, stderr=theirs, check=True)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal that nobody has open any more
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert done.stdout.startswith(b"{") == lines_of_json
    assert (b"\x1b[2K" in shown) == (not lines_of_json)


def test_a_state_file_goes_on_where_it_was(folder: Path, tmp_path: Path) -> None:
    log, state, whole = tmp_path / "log.csv", tmp_path / "w.ck", tmp_path / "whole.ck"
    rows = (folder / "log.csv").read_text().splitlines(keepends=True)
    log.write_text("".join(rows))
    assert watch(folder, log, "--state-file", whole)[0] == 0
    found: list[Any] = []
    before = 0
    for end in (1, 2000, 3001, 3500, len(rows)):
        log.write_text("".join(rows[:end]))
        code, out, error = watch(folder, log, "--state-file", state, "--json")
        assert code == 0
        assert (f"resumes after event {max(before - 1, 0):,}" in error) == (before > 0)
        before = end
        found += [line for line in lines(out) if line["type"] == "alarm"]
    one, other = Monitor.load(whole), Monitor.load(state)
    assert len(found) == 1
    assert one.alarms == other.alarms
    assert same(ranks(one), ranks(other))
    code, _, error = watch(folder, log, "--state-file", state, "--min-distance", 0.3)
    assert code == 2
    assert "the state of another monitor" in error
    code, _, error = watch(folder, folder / "log.csv", "--state-file", state)
    assert "belongs to" in error
    log.write_text("session,page\n")
    assert "is shorter" in watch(folder, log, "--state-file", state)[2]


def test_alarms_leave_after_the_checkpoint_and_again_until_it_says_so(folder: Path, tmp_path: Path) -> None:
    """A crash between checkpoint and delivery: the next run delivers, with the same id."""
    state = tmp_path / "w.ck"
    _, out, _ = watch(folder, folder / "log.csv", "--state-file", state, "--json")
    (first,) = [line for line in lines(out) if line["type"] == "alarm"]
    monitor = Monitor.load(state)
    monitor.position["delivered"] = 0
    monitor.save(state)
    _, out, _ = watch(folder, folder / "log.csv", "--state-file", state, "--json")
    (again,) = [line for line in lines(out) if line["type"] == "alarm"]
    assert again == first
    _, out, _ = watch(folder, folder / "log.csv", "--state-file", state, "--json")
    assert [line["type"] for line in lines(out)] == ["end"]


def test_a_change_is_accepted_once_and_the_next_one_is_found(folder: Path, tmp_path: Path) -> None:
    """With `--accept` as with `Monitor.accept`: the same alarms at the same events."""
    log, state = tmp_path / "log.csv", tmp_path / "w.ck"
    rows = ["session,page\n", *sessions("may", 3000, 1), *sessions("june", 5000, 2)]
    later = [f"x{line}" for line in sessions("june", 2000, 3)] + [f"y{line}" for line in sessions("may", 5000, 4)]
    log.write_text("".join(rows))
    code, _, error = watch(folder, log, "--state-file", state, "--accept")
    assert code == 2
    assert "--accept: needs the --state-file" in error
    assert watch(folder, log, "--state-file", state)[0] == 0
    monitor = Monitor.load(state)
    monitor.accept()
    split = [line.strip().split(",") for line in later]
    again = monitor.update([page for _, page in split], [name for name, _ in split])
    log.write_text("".join([*rows, *later]))
    code, out, error = watch(folder, log, "--state-file", state, "--accept", "--json")
    assert code == 0
    assert "are the reference now" in error
    (alarm,) = [line for line in lines(out) if line["type"] == "alarm"]
    assert [alarm["event"]] == [found.event for found in again]
    assert alarm["event"] > 10_000  # the 2,000 later events of June are the reference's
    assert len(Monitor.load(state).alarms) == 2
    monitor = Monitor.load(state)
    monitor.accept()
    monitor.save(state)
    code, _, error = watch(folder, log, "--state-file", state, "--accept")
    assert code == 2
    assert "has no alarm" in error


def test_the_command_and_a_monitor_with_the_same_settings_agree(tmp_path: Path) -> None:
    """The command keeps the times of its reference, and so must Python: without them, the alarm is another one."""
    may, log = clickstream.path("may"), tmp_path / "log.csv"
    rows = sorted(clickstream.path("june").read_text().splitlines()[1:6000], key=lambda row: row.split(",")[1])
    log.write_text("\n".join(["session,time,page", *rows]) + "\n")
    names, times, pages = zip(*(row.split(",") for row in rows), strict=True)
    words = [
        "--reference",
        str(may),
        "--sequence",
        "session",
        "--time",
        "time",
        "--state",
        "page",
        "--terminated",
        "all",
    ]
    out = CliRunner().invoke(app, ["watch", str(log), *words, "--discount", "0.9", "--json"]).stdout
    found = {}
    for keep in (False, True):
        reference = from_table(may, sequence="session", time="time", state="page", terminated=True, keep_times=keep)
        monitor = Monitor(reference, discount=0.9)
        (found[keep],) = monitor.update(pages, names, times=np.array(times, dtype="datetime64[s]"))
    assert found[True].event == lines(out)[0]["event"]
    assert found[True].id == lines(out)[0]["id"]
    assert found[False].event != found[True].event


def test_nothing_and_next_to_nothing(folder: Path) -> None:
    assert "the stream is empty, without a header, no alarm" in watch(folder, "-")[1]
    assert "no events, no alarm" in watch(folder, "-", data=b"session,page\n")[1]
    assert "1 events, no alarm" in watch(folder, "-", data=b"session,page\na,home")[1]
    assert "no column 'page'" in watch(folder, "-", data=b"session,site\na,home\n")[2]
    assert "not valid UTF-8" in watch(folder, "-", data=b"\xff\xfe\n")[2]


BROKEN = {
    "too many columns": b"a,home,x\n",
    "too few": b"a\n",
    "not UTF-8": b"a,h\xff\xfe\n",
    "no state": b"a,\n",
    "no sequence": b",home\n",
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
def test_broken_lines_are_left_out_or_the_reason_to_stop(line: bytes, folder: Path, tmp_path: Path) -> None:
    rows = (folder / "quiet.csv").read_bytes().splitlines(keepends=True)
    log = tmp_path / "log.csv"
    log.write_bytes(b"".join([*rows[:2000], line, *rows[2000:], line]))
    _, out, error = watch(folder, log, "--broken", "skip", "--json")
    assert lines(out)[-1]["events"] == 3000
    assert lines(out)[-1]["broken"] == 2
    assert "2 broken lines skipped" in error
    state = tmp_path / "w.ck"
    code, _, error = watch(folder, log, "--state-file", state)
    assert code == 2
    assert "line 2001 is broken" in error
    assert "--broken skip" in error
    assert Monitor.load(state).n_events == 1999  # nothing before it is lost, and nothing counts twice
    log.write_bytes(b"".join(rows))
    watch(folder, log, "--state-file", state)
    _, _, _ = watch(folder, log, "--state-file", tmp_path / "clean.ck")
    one, other = Monitor.load(state), Monitor.load(tmp_path / "clean.ck")
    assert same(ranks(one), ranks(other))


def test_blocks_do_not_matter(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch(folder, folder / "log.csv", "--state-file", tmp_path / "a.ck")
    monkeypatch.setattr(feed, "_BLOCK", 1000)
    watch(folder, folder / "log.csv", "--state-file", tmp_path / "b.ck")
    one, other = Monitor.load(tmp_path / "a.ck"), Monitor.load(tmp_path / "b.ck")
    assert one.alarms == other.alarms
    assert same(ranks(one), ranks(other))


def test_times_time_outs_and_times_that_go_backwards(tmp_path: Path) -> None:
    may = clickstream.path("may")
    rows = may.read_text().splitlines(keepends=True)
    log = tmp_path / "log.csv"
    log.write_text("".join([rows[0], *sorted(rows[1:3000], key=lambda r: r.split(",")[1]), rows[5]]))
    words = ["--reference", str(may), "--sequence", "session", "--time", "time", "--state", "page", "--discount", "0.9"]
    result = CliRunner().invoke(app, ["watch", str(log), *words, "--terminated", "all", "--gap", "30m", "--json"])
    (end,) = lines(result.stdout)
    assert end["events"] == 3000
    assert end["backwards"] == 1
    assert end["alarm"] is None
    assert "have a time before" not in result.stderr
    unsorted = CliRunner().invoke(app, ["watch", str(may), *words, "--terminated", "all", "--gap", "30m"])
    assert "have a time before their predecessor's" in unsorted.stderr  # with the guarantee, which does not hold then
    bad = CliRunner().invoke(app, ["watch", str(log), *words, "--gap", "30"], standalone_mode=False)
    assert "holds times" in str(bad.exception) or "times are dates" in str(bad.exception)


def test_times_in_nanoseconds_and_the_date_of_an_alarm(tmp_path: Path) -> None:
    """As pandas writes them, and not all of them with the same digits."""
    still = np.tile(["a", "b"], 600)
    fast = np.repeat(["a"], 400)
    for name, states in (("before", still), ("log", np.concatenate([still, fast]))):
        times = [f"{MORNING + k}{'.256858896' if k % 2 else ''}" for k in range(len(states))]
        rows = [f"s,{moment},{state}\n" for moment, state in zip(times, states, strict=True)]
        (tmp_path / f"{name}.csv").write_text("sequence,time,state\n" + "".join(rows))
    words = ["--reference", str(tmp_path / "before.csv"), "--discount", "0.9"]
    run = ["watch", str(tmp_path / "log.csv"), *words, "--gap", "1h"]
    (alarm, *_) = lines(CliRunner().invoke(app, [*run, "--json", "--on-alarm", f"cat >> {tmp_path / 'a'}"]).stdout)
    assert alarm["event"] > 1200
    assert alarm["when"] == str(MORNING + alarm["event"] - 1)
    assert (tmp_path / "a").read_text().endswith("}\n")
    assert f"{alarm['when']}: alarm at event" in CliRunner().invoke(app, run).stdout
    (tmp_path / "log.csv").write_text("sequence,time,state\ns,3/4/2026,a\n")  # of March or April
    bad = CliRunner().invoke(app, run, standalone_mode=False)
    assert "line 2 is broken ('3/4/2026' as a time: expected numbers or times such as 2026-05" in str(bad.exception)
    assert "--time-format" in str(bad.exception)
    bad = CliRunner().invoke(app, [*run[:-2], "--end", "left"], standalone_mode=False)
    assert "--end: in a stream, 'left' is reached after a pause; pass its length too: --gap" in str(bad.exception)


CLOCK = "%H:%M:%S"


@pytest.mark.parametrize(
    ("form", "written"),
    [
        (f"%d|%m|%Y {CLOCK}", f"%d|%m|%Y {CLOCK}"), ("day-first", f"%d/%m/%Y {CLOCK}"), ("ms", None),
        (None, f"%Y/%m/%d {CLOCK}.000"),
    ],
)  # fmt: skip
def test_times_in_a_notation_of_their_own(form: str | None, written: str | None, tmp_path: Path) -> None:
    """The same alarm, at the same time, as with ISO times; a wrong time is a broken line."""
    states = np.concatenate([np.tile(["a", "b"], 600), np.repeat(["a"], 400)])
    times: list[Any] = [(MORNING + k).item() for k in range(len(states))]
    texts = {
        "iso": [moment.isoformat() for moment in times],
        "own": [str(round(m.replace(tzinfo=UTC).timestamp() * 1000)) if written is None else m.strftime(written)
                for m in times],
    }  # fmt: skip
    found = {}
    for name, column in texts.items():
        rows = [f"s,{moment},{state}\n" for moment, state in zip(column, states, strict=True)]
        (tmp_path / "before.csv").write_text("sequence,time,state\n" + "".join(rows[:1200]))
        (tmp_path / "log.csv").write_text("sequence,time,state\n" + "".join(rows))
        words = ["--time-format", form] if name == "own" and form else []
        run = ["watch", str(tmp_path / "log.csv"), "--reference", str(tmp_path / "before.csv"), "--discount", "0.9"]
        (found[name], *_) = lines(CliRunner().invoke(app, [*run, "--gap", "1h", "--json", *words]).stdout)
    assert found["own"]["when"] == found["iso"]["when"] is not None
    assert found["own"]["event"] == found["iso"]["event"]
    (tmp_path / "log.csv").write_text(f"sequence,time,state\ns,{texts['own'][0]},a\ns,noon,a\n")
    bad = CliRunner().invoke(app, [*run, "--gap", "1h", *words], standalone_mode=False)
    assert "line 3 is broken" in str(bad.exception)
    assert "'noon'" in str(bad.exception)


def ended(*words: object) -> dict[str, Any]:
    """The last line of a run, which must succeed."""
    result = CliRunner().invoke(app, ["watch", *map(str, words), "--discount", "0.9", "--json"], standalone_mode=False)
    assert result.exception is None, result.exception
    return lines(result.stdout)[-1]


@pytest.mark.parametrize("name", ["time", "timestamp", "step", "time:timestamp"])
def test_columns_go_by_their_usual_names(name: str, tmp_path: Path) -> None:
    """The names that `from_table` knows, and in the same way: a step back in time shows that times are read."""
    rows = [f"{k // 50},{k},{'ab'[k % 2]}\n" for k in range(200)]
    (tmp_path / "before.csv").write_text(f"episode,{name},state\n" + "".join(rows))
    (tmp_path / "log.csv").write_text(f"episode,{name},state\n" + "".join([*rows, "3,7,a\n"]))
    end = ended(tmp_path / "log.csv", "--reference", tmp_path / "before.csv")
    assert (end["events"], end["backwards"]) == (201, 1)
    end = ended(tmp_path / "log.csv", "--reference", tmp_path / "before.csv", "--time", "file")
    assert (end["events"], end["backwards"]) == (201, 0)


HEADERS = {
    "zip": b"PK\x03\x04sheet\nmore\n",
    "xz": b"\xfd7zXZ\0\n\n",
    "Parquet": b"PAR1\x15\x04\n\n",
    "UTF-16": "session,page\na,home\n".encode("utf-16"),
    "UTF-16 without a mark": "session,page\na,home\n".encode("utf-16-le"),
    "latin-1": "session,page,größe\na,home,1\n".encode("latin-1"),
    "binary": b"\0\1\2\n\3\n",
    "empty line": b"\nsession,page\n",
    "open quote": b'session,"page\ra",b\r\n',
    "no state": b"session,site\na,home\n",
    "twice": b"session,page,page\na,home,home\n",
    "carriage returns": b"session,page\ra,home\ra,cart\r",
}


@pytest.mark.parametrize("data", HEADERS.values(), ids=HEADERS)
def test_headers_are_refused_as_in_a_table(data: bytes, folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_bytes(data)
    with pytest.raises(ValueError, match=r"log\.csv: ") as refused:
        from_table(log, sequence="session", state="page")
    expected = str(refused.value).partition("pass encoding")[0]  # which a stream has not
    code, _, error = watch(folder, log)
    assert code == 2
    assert error.startswith(f"ValueError: {expected}")
    assert "pass encoding" not in error


def test_a_packed_file_is_read_and_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress((folder / "quiet.csv").read_bytes()))
    _, out, _ = watch(folder, tmp_path / "log.csv.gz", "--json")
    assert lines(out)[-1]["events"] == 3000
    code, _, error = watch(folder, tmp_path / "log.csv.gz", "--follow")
    assert code == 2
    assert "only CSV files that are not compressed can be followed" in error


def test_the_page_is_written_while_events_arrive(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[Any] = []
    monkeypatch.setattr(cli_watch, "_PAGE", -1.0)  # seconds between two
    monkeypatch.setattr(many_facts, "write_status", lambda *_, refresh, **__: pages.append(refresh))
    assert watch(folder, folder / "quiet.csv", "--html", tmp_path / "status.html")[0] == 0
    assert pages[0] == 5
    assert pages[-1] is None


def test_a_file_of_many_pieces_goes_on_where_it_was(folder: Path, tmp_path: Path) -> None:
    """No row between two pieces is lost, nor is one read twice."""
    from pyarrow import csv, ipc

    table, log, state = csv.read_csv(folder / "quiet.csv"), tmp_path / "log.arrow", tmp_path / "w.ck"
    for end in (700, 1400, 3000):
        with ipc.new_file(log, table.schema) as file:
            file.write_table(table[:end], max_chunksize=200)
        _, out, _ = watch(folder, log, "--json", "--state-file", state)
        assert lines(out)[-1]["events"] == end


@pytest.mark.parametrize("mark", ["\t", ";", "|"])
def test_a_byte_order_mark_and_other_delimiters(mark: str, folder: Path, tmp_path: Path) -> None:
    data = (folder / "quiet.csv").read_bytes().replace(b",", mark.encode())
    log = tmp_path / ("log.tsv" if mark == "\t" else "log.csv")
    log.write_bytes(b"\xef\xbb\xbf" + data)
    _, out, _ = watch(folder, log, "--json")
    assert lines(out)[-1]["events"] == 3000
    assert lines(out)[-1]["distance"] < 0.05


def test_standard_input_may_begin_with_its_header_again(folder: Path, tmp_path: Path) -> None:
    rows = (folder / "quiet.csv").read_bytes().splitlines(keepends=True)
    state = tmp_path / "w.ck"
    watch(folder, "-", "--state-file", state, data=b"".join([b'"session", page\r\n', *rows[1:1001]]))
    watch(folder, "-", "--state-file", state, data=b"".join([b'"session", page\r\n', *rows[1001:2001]]))
    watch(folder, "-", "--state-file", state, data=b"".join(rows[2001:]))
    assert Monitor.load(state).n_events == 3000
    assert not Monitor.load(state).new_labels


def test_whole_numbers_are_the_states_of_the_reference(tmp_path: Path) -> None:
    """Also with a last state that is none, and in each column of states that are tuples."""
    rows = [f"{k // 50},{k % 50},{k % 3},{'ab'[k % 2]}\n" for k in range(600)]
    (tmp_path / "log.csv").write_text("sequence,time,state,side\n" + "".join(rows))
    words = [tmp_path / "log.csv", "--reference", tmp_path / "log.csv"]
    for more in ([], ["--end", "left", "--gap", "30"], ["--state", "state", "--state", "side"]):
        end = ended(*words, *more)
        assert end["new_labels"] == []
        assert end["alarm"] is None
    odd = ["--5", "\u00b2", "07", "7"]  # only the last is a whole number
    (tmp_path / "odd.csv").write_text("sequence,time,state\n" + "".join(f"0,{k},{s}\n" for k, s in enumerate(odd)))
    assert ended(tmp_path / "odd.csv", *words[1:])["new_labels"] == ["--5", "\u00b2", "07", 7]


def test_options_that_make_no_sense(folder: Path, tmp_path: Path) -> None:
    log = folder / "log.csv"
    cases: list[tuple[list[object], str]] = [
        ([log, "--broken", "mend"], "--broken: found 'mend'"),
        ([log, "--tidy"], "--tidy: not supported for a stream"),
        ([log, "--state-file", log], "is an input of this command"),
        ([log, "--within", 5], "--within: needs --false-alarm"),
        ([tmp_path / "none.csv"], "no such file"),
    ]
    for words, complaint in cases:
        code, _, error = watch(folder, *words)
        assert code == 2, words
        assert complaint in error


def test_a_full_disk_costs_no_alarm(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: Monitor, path: object) -> None:
        raise OSError(errno.ENOSPC, "could not be written (No space left on device)", str(path))

    monkeypatch.setattr(Monitor, "save", full)
    code, out, error = watch(folder, folder / "log.csv", "--state-file", tmp_path / "w.ck", "--json")
    assert code == 2
    assert "No space left" in error
    assert [line for line in lines(out) if line["type"] == "alarm"]


def test_a_growing_file_is_followed(folder: Path, tmp_path: Path) -> None:
    """In a process of its own: lines that come in pieces, then an alarm ends it."""
    log = tmp_path / "log.csv"
    data = (folder / "log.csv").read_bytes()
    log.write_bytes(data[:101])
    words = ["watch", str(log), "--reference", str(folder / "may.csv"), *READ, "--follow", "--exit-on-alarm", "--json"]
    process = subprocess.Popen([sys.executable, "-m", "somcot", *words], stdout=subprocess.PIPE, text=True)
    with log.open("ab") as stream:
        for piece in _pieces(data[101:]):
            stream.write(piece)
            stream.flush()
            time.sleep(0.05)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 3
    (alarm,) = [line for line in lines(out) if line["type"] == "alarm"]
    assert 3000 < alarm["event"] < 4200  # the sessions of May that never end are waited for


def _pieces(data: bytes) -> Iterator[bytes]:
    step = len(data) // 7 + 1
    yield from (data[k : k + step] for k in range(0, len(data), step))


# Rotation


def followed(log: Path, folder: Path, *more: object) -> subprocess.Popen[str]:
    """The command in a process of its own, following a file."""
    words = ["watch", str(log), "--reference", str(folder / "may.csv"), *READ, "--follow", "--json", *map(str, more)]
    return subprocess.Popen(
        [sys.executable, "-m", "somcot", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def until(state: Path, n: int, process: subprocess.Popen[str] | None = None) -> None:
    """Wait until a state file has seen this many events."""
    for _ in range(1200):
        if process is not None and process.poll() is not None:
            raise AssertionError(process.communicate())
        if state.exists() and Monitor.load(state).n_events >= n:
            return
        time.sleep(0.05)
    raise AssertionError(f"{Monitor.load(state).n_events if state.exists() else 'no'} events after a minute")


def append(path: Path, rows: list[str]) -> None:
    with path.open("a") as stream:
        stream.write("".join(rows))


@pytest.mark.parametrize("how", ["rename", "copy", "rename, no line end"])
def test_rotation_is_survived(how: str, folder: Path, tmp_path: Path) -> None:
    """Renamed twice, or copied and emptied: every event counts once, and a note says what happened."""
    rows = (folder / "log.csv").read_text().splitlines(keepends=True)[:6001]
    log, state = tmp_path / "app.csv", tmp_path / "w.ck"
    log.write_text("".join(rows[:1001]))
    process = followed(log, folder, "--state-file", state, "--save-every", 0.1)
    until(state, 1000, process)
    for k, begin in enumerate((1001, 3001)):
        append(log, rows[begin : begin + 1000])
        if "no line end" in how:
            log.write_text(log.read_text()[:-1])
        if how == "copy":
            (tmp_path / f"app.csv.{k}").write_text(log.read_text())
            os.truncate(log, 0)
            append(log, [rows[0], *rows[begin + 1000 : begin + 2000]])
        else:
            log.rename(tmp_path / f"app.csv.{k}")
            log.write_text("".join([rows[0], *rows[begin + 1000 : begin + 2000]]))
        until(state, begin + 1999, process)
    append(log, rows[5001:])
    until(state, 6000, process)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert error.count("was rotated") >= 2
    (tmp_path / "whole.csv").write_text("".join(rows))
    watch(folder, tmp_path / "whole.csv", "--state-file", tmp_path / "whole.ck")
    one, other = Monitor.load(state), Monitor.load(tmp_path / "whole.ck")
    assert one.n_events == other.n_events == 6000
    assert one.alarms == other.alarms
    assert same(ranks(one), ranks(other))


def test_rotations_while_nobody_watches(folder: Path, tmp_path: Path) -> None:
    """Two rotations between two runs; the middle file is read as a whole."""
    rows = (folder / "quiet.csv").read_text().splitlines(keepends=True)
    log, state = tmp_path / "app.csv", tmp_path / "w.ck"
    log.write_text("".join(rows[:1001]))
    watch(folder, log, "--state-file", state)
    append(log, rows[1001:1501])
    log.rename(tmp_path / "app.csv.2")
    (tmp_path / "app.csv.1").write_text("".join([rows[0], *rows[1501:2001]]))
    os.utime(tmp_path / "app.csv.2", ns=(1, 1))
    log.write_text("".join([rows[0], *rows[2001:]]))
    code, _, error = watch(folder, log, "--state-file", state)
    assert code == 0
    assert "app.csv.2" in error
    assert Monitor.load(state).n_events == 3000
    log.write_text("session,page\na,home\n")  # and now without any trace of the file that was read
    for path in tmp_path.glob("app.csv.*"):
        path.unlink()
    assert "is shorter" in watch(folder, log, "--state-file", state)[2]


def test_where_nothing_was_read_any_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    """The watched file was empty when the position was saved, and was replaced since."""
    log, place = tmp_path / "log.csv", Place(inode=1)
    log.write_text("session,page\n")
    file = LogFile(log, place, follow=True, note=pytest.fail)
    assert os.read(file.descriptor, 7) == b"session"
    assert place.inode == log.stat().st_ino
    os.close(file.descriptor)


def test_tail_passes_headers_on(folder: Path) -> None:
    """As ``tail -n +1 -F`` does after a rotation."""
    rows = (folder / "quiet.csv").read_bytes().splitlines(keepends=True)
    data = b"".join([*rows[:1000], rows[0], *rows[1000:2000], b"\n", rows[0], *rows[2000:]])
    _, out, _ = watch(folder, "-", "--json", data=data)
    assert lines(out)[-1]["events"] == 3000
    assert lines(out)[-1]["new_labels"] == []


def test_a_real_tail_in_front(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_bytes((folder / "log.csv").read_bytes())
    words = ["watch", "-", "--reference", str(folder / "may.csv"), *READ, "--json", "--exit-on-alarm"]
    with subprocess.Popen(["tail", "-n", "+1", "-F", str(log)], stdout=subprocess.PIPE) as tail:
        found = subprocess.run(
            [sys.executable, "-m", "somcot", *words], stdin=tail.stdout, stdout=subprocess.PIPE, text=True, timeout=120
        )
        tail.terminate()
    out = found.stdout
    assert [line["type"] for line in lines(out)][-2:] == ["alarm", "end"]


def test_columns_of_a_stream_without_a_header(folder: Path, tmp_path: Path) -> None:
    rows = (folder / "quiet.csv").read_bytes().splitlines(keepends=True)
    _, out, _ = watch(folder, "-", "--json", "--columns", "session,page", data=b"".join(rows[1:]))
    assert lines(out)[-1]["events"] == 3000
    assert lines(out)[-1]["sequences"] > 300
    log = tmp_path / "log.tsv"
    log.write_bytes(b"".join(rows[1:]).replace(b",", b"\t"))
    _, out, _ = watch(folder, log, "--json", "--columns", "session, page")
    assert lines(out)[-1]["events"] == 3000
    code, _, error = watch(folder, "-", "--columns", "session,page,more", data=b"".join(rows[1:]))
    assert code == 2
    assert "2 values, but --columns names 3" in error
    assert "--columns: found" in watch(folder, "-", "--columns", "session,,page")[2]
    assert "no column 'page'" in watch(folder, "-", "--columns", "a,b", data=b"".join(rows[1:]))[2]


def test_metrics_and_what_was_chosen(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "somcot.prom"
    _, out, error = watch(folder, folder / "log.csv", "--prometheus", file, "--json")
    values = dict(line.split() for line in file.read_text().splitlines() if not line.startswith("#"))
    assert values["somcot_events_total"] == "8000"
    assert values["somcot_alarm"] == "1"
    assert int(values["somcot_sequences_total"]) > 1000
    assert float(values["somcot_distance"]) > 0.1
    assert file.read_text().count("# TYPE somcot_") == len(values)
    assert "note: scores sequences: on average at most one false alarm in 1,000,000 events (" in error
    (alarm,) = [line for line in lines(out) if line["type"] == "alarm"]
    assert alarm["what"]
    assert alarm["since_sequence"] <= alarm["sequence"]
    _, out, _ = watch(folder, folder / "log.csv")
    assert f": {alarm['what']}, distance 0." in out


def test_an_unstable_reference_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{k},{'abc'[int(s)]}\n" for k in range(200) for s in rng.integers(0, 2 if k < 100 else 3, 6)]
    (tmp_path / "before.csv").write_text("sequence,state\n" + "".join(rows))
    file = str(tmp_path / "before.csv")
    result = CliRunner().invoke(app, ["watch", file, "--reference", file, "--discount", "0.9", "--terminated", "all"])
    assert "its later part differs from its earlier one" in result.stderr


@pytest.mark.slow
def test_fifty_kills_with_rotations(folder: Path, tmp_path: Path) -> None:
    """SIGKILL at random moments, a rotation between every two: the same final state, and each alarm with one id."""
    rows = (folder / "log.csv").read_text().splitlines(keepends=True)
    header, rows = rows[0], rows[1:]
    log, state, received = tmp_path / "app.csv", tmp_path / "w.ck", tmp_path / "alarms"
    log.write_text(header)
    rng = np.random.default_rng(0)
    written, kills = 0, 0
    alarm = ("--on-alarm", f"cat >> {received}")
    while written < len(rows) or kills < 50:
        process = followed(log, folder, "--state-file", state, "--save-every", 0, *alarm)
        if written:
            until(state, written, process)  # what the last kill left unread
        n = min(int(rng.integers(100, 250)), len(rows) - written)
        append(log, rows[written : written + n])
        written += n
        if kills == 0:
            until(state, written, process)
        if kills % 2:
            target = tmp_path / f"app.csv.{kills:03d}"
            if kills % 4 == 1:
                log.rename(target)
                log.write_text(header)
            else:
                target.write_text(log.read_text())
                os.truncate(log, 0)
                append(log, [header])
        time.sleep(0.3 * rng.random())
        process.kill()
        process.communicate()
        kills += 1
    process = followed(log, folder, "--state-file", state, "--save-every", 0, *alarm)
    until(state, len(rows), process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    (tmp_path / "whole.csv").write_text("".join([header, *rows]))
    watch(folder, tmp_path / "whole.csv", "--state-file", tmp_path / "whole.ck")
    one, other = Monitor.load(state), Monitor.load(tmp_path / "whole.ck")
    assert one.n_events == other.n_events == len(rows)
    assert one.alarms == other.alarms
    assert same(ranks(one), ranks(other))
    assert {json.loads(line)["id"] for line in received.read_text().splitlines()} == {a.id for a in one.alarms}


def test_a_file_put_in_its_place_goes_on(folder: Path, tmp_path: Path) -> None:
    """As rsync does: another inode, the same beginning. Another file is refused."""
    rows = (folder / "quiet.csv").read_text().splitlines(keepends=True)
    log, state, new = tmp_path / "app.csv", tmp_path / "w.ck", tmp_path / "new"
    log.write_text("".join(rows[:1001]))
    watch(folder, log, "--state-file", state)
    new.write_text("".join(rows))
    new.replace(log)
    assert watch(folder, log, "--state-file", state)[0] == 0
    assert Monitor.load(state).n_events == 3000
    new.write_text("".join([rows[0], *rows[2:], *rows[1:100]]))
    new.replace(log)
    assert "is not the file that was read" in watch(folder, log, "--state-file", state)[2]
