"""Data that look like something else: each is read as what it is, or refused with the place."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import MarkovChain, Samples
from somcot.readers import Bins, from_dtrajs, from_graph, from_minari, from_table
from somcot.readers import read as read_process
from somcot.readers.episodes import Episode, to_samples
from somcot.readers.tables.columns import LabelColumn
from somcot.readers.tables.csv_stream import Header
from tests.notes import noted

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

CSV = "user,page\n" + "".join(f"{k // 4},page{k % 3}\n" for k in range(4000))
LINES = "".join(f'{{"state": "{"ab"[k % 2]}{k % 7}"}}\n' for k in range(2000))


def read(path: str | Path, **options: Any) -> Any:
    return read_process(path, **options)


def through_pipe(folder: Path, name: str, content: bytes, **options: Any) -> Any:
    """Read a named pipe that someone else writes to."""
    pipe = folder / name
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    try:
        return read(pipe, **options)
    finally:
        writer.join(timeout=30)
        assert not writer.is_alive()


@pytest.mark.parametrize(("name", "options"), [("f.csv", {}), ("f", {"format": "csv"}), ("f", {}), ("f.csv.gz", {})])
def test_a_pipe_is_read_once_and_whole(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "same.csv").write_text(CSV)
    content = gzip.compress(CSV.encode()) if name.endswith(".gz") else CSV.encode()
    found = through_pipe(tmp_path, name, content, sequence="user", state="page", **options)
    assert found.n_transitions == read(tmp_path / "same.csv", sequence="user", state="page").n_transitions == 3000


def test_json_lines_through_a_pipe_without_a_name(tmp_path: Path) -> None:
    assert through_pipe(tmp_path, "f", LINES.encode()).n_transitions == 1999


def test_a_pipe_with_text_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"f\.csv: a line is not valid UTF-8"):
        through_pipe(tmp_path, "f.csv", b"state\na\nb\xff\na\n")


def test_an_endless_device_is_refused_at_once() -> None:
    for format_ in ("npz", "npy", "parquet"):
        with pytest.raises(ValueError, match=rf"/dev/zero: .*\.{format_}"):
            read("/dev/zero", format=format_)


@pytest.mark.parametrize("name", ["https://example.com/a.csv", "s3://bucket/a.parquet", "file:///tmp/a.csv"])
def test_an_address_is_not_read(name: str) -> None:
    with pytest.raises(ValueError, match=r"an address"):
        read(name)


def test_the_home_folder_has_a_short_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.csv").write_text(CSV)
    assert read("~/a.csv", sequence="user", state="page").n_transitions == 3000


@pytest.mark.parametrize("ending", ["edges", "graphml", "csv", "jsonl", "npy", "npz", "parquet"])
def test_a_cut_gzip_file_says_so(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("networkx")
    file = tmp_path / f"x.{ending}.gz"
    file.write_bytes(gzip.compress(os.urandom(50_000).hex().encode())[:2000])
    with pytest.raises(ValueError, match=rf"x\.{ending}\.gz: .*(gzip data are damaged|cut short|not a readable)"):
        read(file)


def test_a_zipped_array_is_larger_than_its_file(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.save(content, np.tile([0, 1], 5000))
    (tmp_path / "x.npy.gz").write_bytes(gzip.compress(content.getvalue()))
    assert read(tmp_path / "x.npy.gz").n_transitions == 9999
    (tmp_path / "y.npy.gz").write_bytes(gzip.compress(content.getvalue()[:-1000]))
    with pytest.raises(ValueError, match="cut short"):
        read(tmp_path / "y.npy.gz")


def times(*values: str) -> dict[str, list[Any]]:
    return {"time": list(values), "state": ["a", "b", "c", "d"][: len(values)]}


@pytest.mark.parametrize(
    ("values", "place"),
    [
        (("2026-05-01", "20260502", "2026-05-03"), "row 2"),
        (("1", "2", "2026-05-03"), "row 3"),
        (("2026-05-01T10:00", "2026-05-01T10:00+02:00"), "row 2"),
        (("0", "0x10", "3"), "row 2"),
        (("0", "1_0", "3"), "row 2"),
        (("0", "inf", "3"), "row 2"),
        (("0", "1", "-Infinity"), "row 3"),
        (("1e400", "1", "2"), "row 1"),
    ],
)
def test_one_kind_of_time_in_a_column(values: tuple[str, ...], place: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{place}, column 'time': found"):
        from_table(times(*values))
    rows = "\n".join(f"{t},{s}" for t, s in zip(*times(*values).values(), strict=True))
    (tmp_path / "t.csv").write_text(f"time,state\n{rows}\n")
    with pytest.raises(ValueError, match=rf"t\.csv: {place}, column 'time': found"):
        from_table(tmp_path / "t.csv")


def test_kinds_of_time_are_compared_across_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("somcot.readers.tables.batches._BLOCKS", (40, 1 << 20))
    rows = "".join(f"2026-05-{day:02},a\n" for day in range(1, 9)) + "20260509,b\n" * 4
    (tmp_path / "t.csv").write_text("time,state\n" + rows)
    with pytest.raises(ValueError, match=r"row .*, column 'time': found .* among times"):
        from_table(tmp_path / "t.csv")


def test_a_time_with_400_digits(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(f'{{"time": 1, "state": "a"}}\n{{"time": {"9" * 400}, "state": "b"}}\n')
    with pytest.raises(ValueError, match=r"t\.jsonl: row 2, column 'time': found inf"):
        from_table(tmp_path / "t.jsonl")


def test_an_infinite_reward_has_a_place(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("state,gain\na,1\nb,inf\na,1\n")
    with pytest.raises(ValueError, match=r"t\.csv: row 2, column 'gain': found inf"):
        from_table(tmp_path / "t.csv", state="state", reward="gain")


def test_uuids_decimals_and_other_types_are_labels(tmp_path: Path) -> None:
    users = [uuid.UUID(int=k // 2) for k in range(8)]
    pages = [Decimal(k % 3) for k in range(8)]
    columns = {
        "user": pa.array([u.bytes for u in users], pa.uuid()),
        "page": pa.array(pages, pa.decimal128(4, 0)).cast(pa.decimal32(4, 0)),
        "flag": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([k % 2 for k in range(8)], pa.int8())),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    found = from_table(tmp_path / "t.parquet", sequence="user", state="page")
    assert found.states == (0, 1, 2)
    assert found.n_episodes == 4
    pq.write_table(pa.table({"user": columns["user"]}), tmp_path / "u.parquet")
    assert from_table(tmp_path / "u.parquet", state="user").states == tuple(str(uuid.UUID(int=k)) for k in range(4))
    assert from_table(pa.table({"flag": columns["flag"]}), state="flag").states == (False, True)


@pytest.mark.parametrize(
    "table",
    [
        {"state": [1, "a"]},
        {"state": [1, 2], "other": [1]},
        {"state": [1j, 2j]},
    ],
    ids=["mixed", "unequal", "complex"],
)
def test_a_frame_that_arrow_cannot_take(table: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"builtins dict: a column cannot be read \(.*\)"):
        from_table(table, state="state")


def test_an_interval_column_is_named() -> None:
    table = pa.table({"state": pa.array([(1, 2, 3), (1, 2, 3)], pa.month_day_nano_interval())})
    with pytest.raises(ValueError, match=r"state|a column cannot be read"):
        from_table(table, state="state")


def test_objects_in_a_polars_frame_are_refused() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"state": polars.Series([object(), object()], dtype=polars.Object)})
    with pytest.raises(ValueError, match="column 'state' holds Python objects"):
        from_table(frame)


def test_codes_without_labels_are_damage() -> None:
    column = LabelColumn("t.parquet", "state", is_text=False)
    for indices in ([0, 5], [0, -3]):
        codes = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(["a", "b"]), safe=False)
        with pytest.raises(ValueError, match=r"t\.parquet: column 'state' is damaged"):
            column.add(codes)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"PK\x03\x04rest", "the zip data are damaged"),
        (b"\xfd7zXZ\x00rest", "the xz data are damaged"),
        ("state\na\nb\n".encode("utf-16-le"), "UTF-16"),
    ],
)
def test_a_packed_file_called_csv(content: bytes, match: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(ValueError, match=match):
        from_table(tmp_path / "t.csv")


@pytest.mark.parametrize("encoding", ["punycode", "utf-16", "idna"])
def test_a_strange_encoding_names_the_file(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"state\n\xff\xffa\nb\n")
    with pytest.raises(ValueError, match=r"t\.csv: not "):
        from_table(tmp_path / "t.csv", encoding=encoding)


def test_a_number_with_5000_digits(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(f'{{"state": {"1" * 5000}}}\n')
    with pytest.raises(ValueError, match=r"line 1 is not valid JSON .*digits"):
        from_table(tmp_path / "t.jsonl")
    (tmp_path / "t.edges").write_text(f"{'1' * 5000} 2\n")
    assert read(tmp_path / "t.edges").n_states == 2


@pytest.mark.parametrize("bins", [10**9, 2.5, "3", True, 0, [10**9]])
def test_bins_are_a_sensible_number(bins: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"bins|edges"):
        from_table({"state": [0.5, 1.5, 2.5]}, bins={"state": bins} if not isinstance(bins, list) else bins[0])


def test_labels_only_of_cells_that_were_seen() -> None:
    """A grid with 10^12 cells."""
    grid = Bins.uniform(low=[0] * 4, high=[1] * 4, n=1000)
    assert grid.n_bins == 10**12
    observations = list(np.random.default_rng(0).random((50, 4)))
    found = to_samples("env", [Episode(observations, [0.0] * 49)], None, grid, None, None)
    assert found.n_states == len({tuple(np.floor(o * 1000)) for o in observations})


def test_more_cells_than_can_be_numbered() -> None:
    with pytest.raises(ValueError, match=r"bins: .*400 dimensions"):
        Bins.uniform(low=[0] * 400, high=[1] * 400, n=10).codes(np.zeros((1, 400)))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"binning": "kmeans"}, "binning: found 'kmeans'"),
        ({"terminated": [True]}, r"terminated: found \[True\], expected True, False or the name"),
        ({"terminated": 1}, "terminated: found 1"),
        ({"sequence": ["a"]}, r"sequence: found \['a'\], expected the name of a column"),
    ],
)
def test_options_of_the_wrong_kind(options: dict[str, Any], match: str) -> None:
    with pytest.raises((TypeError, ValueError), match=match):
        from_table({"state": ["a", "b"]}, **options)


@pytest.mark.parametrize("terminal", [0, 1])
def test_a_terminal_label_that_is_a_state_already(terminal: int) -> None:
    episodes = [Episode([0, 1, 0, 1], [0.0] * 3, terminated=True)]
    with pytest.raises(ValueError, match=f"terminal: {terminal} is a state"):
        to_samples("env", episodes, None, None, None, terminal)


def test_a_terminal_label_that_cannot_be_one() -> None:
    labels: list[Any] = [[1], float("nan")]
    for terminal in labels:
        with pytest.raises((TypeError, ValueError), match="terminal: label 0 is"):
            to_samples("env", [Episode([0, 1], [0.0], terminated=True)], None, None, None, terminal)


def test_a_transform_that_loses_rows() -> None:
    with pytest.raises(ValueError, match=r"transform: returned shape \(1,\) for 2 observations"):
        to_samples("env", [Episode([0, 1], [0.0])], None, None, lambda o: o[:1], None)


def test_observations_that_are_no_arrays() -> None:
    with pytest.raises(ValueError, match="env: observations are dict objects"):
        to_samples("env", [Episode([{"a": 1}, {"a": 2}], [0.0])], None, None, None, None)


@pytest.mark.parametrize(
    ("observations", "terminations", "match"),
    [
        ([0, 1], [False] * 2, "episode 0 has 2 observations and 2 rewards"),
        ([0, 1, 2, 3], [False] * 2, "episode 0 has 4 observations and 2 rewards"),
        ([0, 1, 2], [], "episode 0 has 2 rewards and 0 terminations"),
    ],
)
def test_minari_episodes_that_do_not_fit(observations: list[int], terminations: list[bool], match: str) -> None:
    episode = SimpleNamespace(rewards=[0.0, 1.0], observations=observations, terminations=terminations)
    data = SimpleNamespace(iterate_episodes=lambda: [episode], observation_space=None)
    with pytest.raises(ValueError, match=match):
        from_minari(data)


def test_masked_entries_are_refused() -> None:
    masked = np.ma.masked_equal([0, 1, 9, 0, 1], 9)
    for make in (Samples.from_trajectories, from_dtrajs):
        with pytest.raises(ValueError, match=r"found masked entries \(1\)"):
            make([masked])
    with pytest.raises(ValueError, match="masked"):
        from_dtrajs(np.ma.masked_equal([[0, 1], [9, 0]], 9))
    whole = np.ma.masked_array([0, 1, 0])
    assert from_dtrajs([whole]).n_transitions == 2


@pytest.mark.parametrize(
    "label", [Decimal("NaN"), Decimal("sNaN"), (0, float("nan")), complex("nan"), None, np.float64("nan")], ids=repr
)
def test_a_missing_label(label: Any) -> None:
    with pytest.raises(ValueError, match=r"states: label 1 is"):
        MarkovChain(np.eye(2), states=["a", label])


def test_missing_labels_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    for label in (pandas.NA, pandas.NaT):
        with pytest.raises(ValueError, match="states: label 1 is"):
            MarkovChain(np.eye(2), states=["a", label])
        with pytest.raises(ValueError, match=r"trajectories\[0\]\[1\]: the label is"):
            Samples.from_trajectories([["a", label, "a"]])


def test_numbers_beyond_floating_point() -> None:
    networkx = pytest.importorskip("networkx")
    walk = somcot.random_walk(2)
    with pytest.raises(ValueError, match="cost: found a number too large"):
        somcot.distance(walk, walk, [[10**400, 0], [0, 1]], discount=0.5)
    graph = networkx.Graph()
    graph.add_edge("a", "b", weight=10**400)
    with pytest.raises(ValueError, match="the edge from 'a' to 'b' has weight"):
        from_graph(graph)


@pytest.mark.parametrize("value", ["no", 1, None])
def test_a_flag_is_true_or_false(value: Any) -> None:
    with pytest.raises(TypeError, match=r"normalize: found"):
        MarkovChain(np.eye(2), normalize=value)


GRAPHML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{}</graphml>'


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ('<graph edgedefault="directed"><node id="a"/><edge source="a"/></graph>', "edge 1 has no target"),
        ('<graph edgedefault="directed"><edge id="e7" target="a"/></graph>', r"edge 1 \('e7'\) has no source"),
        (2 * '<graph edgedefault="directed"><edge source="a" target="b"/></graph>', "several graphs"),
        (
            '<graph edgedefault="directed"><node id="a"><graph edgedefault="directed"/></node></graph>',
            "several graphs",
        ),
    ],
    ids=["no target", "no source", "two graphs", "a graph inside"],
)
def test_graphml_that_would_be_read_wrong(body: str, match: str, tmp_path: Path) -> None:
    pytest.importorskip("networkx")
    (tmp_path / "g.graphml").write_text(GRAPHML.format(body))
    with pytest.raises(ValueError, match=rf"g\.graphml: .*{match}"):
        read(tmp_path / "g.graphml")


def test_standard_input_by_its_other_name(tmp_path: Path) -> None:
    """As in ``cat rows.jsonl | somcot info /dev/stdin --json``."""
    done = subprocess.run(
        [sys.executable, "-m", "somcot", "info", "/dev/stdin", "--json"], input=LINES, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert '"n_transitions": 1999' in done.stdout, done.stderr


def test_a_quote_that_is_never_closed(tmp_path: Path) -> None:
    """Rows after it would be one field; marks inside a field are just marks."""
    (tmp_path / "open.csv").write_text('state\na\n"b\na\nb\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"open\.csv: .*quotation mark .*never closed .*line 5"):
        from_table(tmp_path / "open.csv")
    (tmp_path / "pipe.csv").write_text('state\n5" pipe\nvalve\n5" pipe\n6" pipe\n', encoding="utf-8")
    assert from_table(tmp_path / "pipe.csv").states == ('5" pipe', '6" pipe', "valve")
    os.mkfifo(tmp_path / "fifo.csv")
    with ThreadPoolExecutor(1) as pool:
        pool.submit((tmp_path / "fifo.csv").write_text, 'state\na\n"b\na\nb\n')
        with noted("odd-quotes"):
            from_table(tmp_path / "fifo.csv")


def test_a_header_of_many_columns_takes_no_square_of_them() -> None:
    names = [*(f"c{k}" for k in range(300_000)), "c1", "", ""]
    assert Header("wide.csv", names, ",").unique()[-3:] == ["c1 #300000", "", " #300002"]


def test_periods_and_durations_are_called_by_their_names() -> None:
    pandas = pytest.importorskip("pandas")
    months = pandas.DataFrame({"state": pandas.PeriodIndex(["2026-01", "2026-03", "2026-01"], freq="M")})
    assert from_table(months).states == ("2026-01", "2026-03")
    months["page"] = ["c", "a", "b"]
    months["state"] = pandas.PeriodIndex(["2026-03", "2026-01", "2026-02"], freq="M")
    with noted("rows-sorted"):
        ordered = from_table(months, state="page", time="state")
    assert np.asarray(ordered.counts()).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    spans = pandas.DataFrame({"state": pandas.to_timedelta([60, 3600, 60], unit="s")})
    assert from_table(spans).states == ("0:01:00", "1:00:00")


def test_wide_numbers_of_polars_are_read_or_refused() -> None:
    polars = pytest.importorskip("polars")
    wide = polars.DataFrame({"state": polars.Series([2, 1, 2], dtype=polars.Int128)})
    assert from_table(wide).states == (1, 2)
    assert from_table(wide.lazy()).states == (1, 2)
    huge = polars.DataFrame({"state": polars.Series([1, 2**100], dtype=polars.Int128)})
    with pytest.raises(ValueError, match=r"polars DataFrame: column 'state' .*64 bits"):
        from_table(huge)
    assert from_table(huge.with_columns(page=polars.Series(["a", "b"])), state="page").states == ("a", "b")


def test_columns_that_arrow_cannot_take_are_named() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"user": [1, 1, 1], "state": pandas.arrays.SparseArray([0, 0, 1]), "odd": [1j, 2, 3]})
    for column in ("state", "odd"):
        with pytest.raises(ValueError, match=f"pandas DataFrame: column '{column}' cannot be read"):
            from_table(frame, sequence="user", state=column)


EVENT = '<event><string key="concept:name" value="s{}"/></event>'
LOG = "".join(f"<trace>{''.join(EVENT.format(i * k % 7) for i in range(9))}</trace>" for k in range(60))


@pytest.mark.parametrize("name", ["log.csv.gz", "log.jsonl.gz", "log.xes.gz"])
@pytest.mark.parametrize("damage", ["cut", "altered", "head", "checksum"])
def test_damaged_gzip_is_called_so_whatever_it_unpacks_to(tmp_path: Path, name: str, damage: str) -> None:
    text = {"csv": CSV, "jsonl": LINES, "xes": f"<log>{LOG}</log>"}[name.split(".")[1]]
    data = bytearray(gzip.compress(text.encode(), mtime=0))
    if damage == "cut":
        data = data[: len(data) // 2]
    else:
        data[{"altered": len(data) // 3, "head": 30, "checksum": -6}[damage]] ^= 0x55
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=rf"{name}: the gzip data are damaged"):
        read(tmp_path / name, **({"state": "page"} if "csv" in name else {}))


def test_nonsense_that_was_packed_as_it_is_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "log.xes.gz").write_bytes(gzip.compress(b"<log><trace></log>"))
    with pytest.raises(ValueError, match="not valid XML"):
        read(tmp_path / "log.xes.gz")
