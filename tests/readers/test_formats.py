"""Every format holds the same events as the CSV file of the same data, written by the format's own library."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import sqlite3
import subprocess
import sys
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, ipc, orc, parquet

from somcot.readers import count_table, from_table, read, read_vectors, split_table
from somcot.readers.compression import preview
from somcot.readers.opening import identify
from somcot.samples import Samples
from tests.notes import code_of, noted


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame({"case_id": rng.integers(0, 40, n), "page": rng.choice(["home", "cart", "paid", "né"], n)})
    frame = frame.sort_values("case_id", kind="stable", ignore_index=True)
    frame["timestamp"] = pd.date_range("2026-05-01", periods=n, freq="7min").strftime("%Y-%m-%dT%H:%M:%S")
    return frame


@pytest.fixture(scope="module")
def plain(log: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "log.csv"
    log.to_csv(path, index=False)
    return path


def same(found: object, wanted: Samples) -> None:
    assert isinstance(found, Samples)
    assert found.states == wanted.states
    for name in ("now", "following", "offsets"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name


def of(source: object, **options: object) -> Samples:
    with noted("columns-chosen", columns="state 'page', sequence 'case_id', time 'timestamp'"):
        return from_table(source, **options)  # type: ignore[arg-type]


def _sqlite(frame: pd.DataFrame, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        frame.to_sql("events", connection, index=False)
    connection.close()


def _stream(frame: pd.DataFrame, path: Path) -> None:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=90)


def _avro(frame: pd.DataFrame, path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    kinds = {"case_id": "long", "page": "string", "timestamp": "string"}
    schema = {"type": "record", "name": "event", "fields": [{"name": k, "type": v} for k, v in kinds.items()]}
    with path.open("wb") as file:
        fastavro.writer(file, schema, frame.to_dict("records"))


def _duckdb(frame: pd.DataFrame, path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect(str(path))
    connection.register("frame", frame)
    connection.execute("CREATE TABLE events AS SELECT * FROM frame")
    connection.close()


def _xlsx(frame: pd.DataFrame, path: Path) -> None:
    pytest.importorskip("openpyxl")
    frame.to_excel(path, index=False)


WRITERS: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "json": lambda frame, path: frame.to_json(path, orient="records"),
    "parquet": lambda frame, path: frame.to_parquet(path),
    "arrow": lambda frame, path: feather.write_feather(frame, str(path), chunksize=70),
    "ipc": _stream,
    "orc": lambda frame, path: orc.write_table(pa.Table.from_pandas(frame, preserve_index=False), str(path)),
    "avro": _avro, "xlsx": _xlsx, "sqlite": _sqlite, "duckdb": _duckdb,
}  # fmt: skip


@pytest.mark.parametrize("ending", WRITERS)
def test_every_format_holds_the_same_events(ending: str, log: pd.DataFrame, plain: Path, tmp_path: Path) -> None:
    path = tmp_path / f"log.{ending}"
    WRITERS[ending](log, path)
    same(of(path), of(plain))
    if ending not in ("tsv", "avro", "duckdb"):  # recognised without an ending
        bare = tmp_path / "bare"
        bare.write_bytes(path.read_bytes())
        same(of(bare), of(plain))
        assert identify(bare).format == identify(path).format


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


def zipped(**files: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return sink.getvalue()


@pytest.mark.parametrize("packing", [*PACKERS, "zip"])
@pytest.mark.parametrize("ending", ["csv", "parquet", "json", "sqlite"])
def test_compressed_files(packing: str, ending: str, log: pd.DataFrame, plain: Path, tmp_path: Path) -> None:
    inner = tmp_path / f"log.{ending}"
    (WRITERS | {"csv": lambda f, p: f.to_csv(p, index=False)})[ending](log, inner)
    data = inner.read_bytes()
    packed = zipped(**{inner.name: data}) if packing == "zip" else PACKERS[packing](data)
    path = tmp_path / f"log.{ending}.{packing}"
    path.write_bytes(packed)
    same(of(path), of(plain))
    cut = tmp_path / f"cut.{ending}.{packing}"
    cut.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(ValueError, match="cut") as error:
        from_table(cut)
    assert code_of(error) == "gzip-damaged"


def test_two_frames_of_zstandard_and_its_own_library(plain: Path, tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    data = plain.read_bytes()
    pack = zstandard.ZstdCompressor(level=3).compress
    (tmp_path / "two.csv.zst").write_bytes(pack(data[:5000]) + pack(data[5000:]))
    same(of(tmp_path / "two.csv.zst"), of(plain))


def test_folders_patterns_lists_and_archives_are_one_table(log: pd.DataFrame, plain: Path, tmp_path: Path) -> None:
    halves = {"a.csv": log[:150], "b.csv": log[150:]}
    for name, part in halves.items():
        part.to_csv(tmp_path / name, index=False)
    archive = tmp_path.parent / "both.zip"
    archive.write_bytes(zipped(**{name: (tmp_path / name).read_bytes() for name in halves}))
    files = [tmp_path / name for name in halves]
    for source in (tmp_path, str(tmp_path / "*.csv"), files, archive):
        same(of(source), of(plain))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            counts = count_table(source)
        assert np.array_equal(np.asarray(counts.counts()), np.asarray(of(plain).counts()))
    with pytest.raises(ValueError, match="no file matches"):
        identify(str(tmp_path / "*.none"))
    log.to_parquet(tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"both a\.csv and c\.parquet"):
        identify(tmp_path)


def test_nested_fields(tmp_path: Path) -> None:
    rows = [{"who": {"id": k // 3}, "event": {"name": "ab"[k % 2], "n": None}} for k in range(9)]
    (tmp_path / "t.json").write_text(json.dumps(rows))
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    (tmp_path / "doc.json").write_text(json.dumps({"total": 9, "rows": rows}, indent=1))
    (tmp_path / "line.json").write_text(json.dumps({"total": 9, "rows": rows}))
    found = [
        from_table(tmp_path / n, state="event.name", sequence="who.id")
        for n in ("t.json", "t.jsonl", "t.parquet", "doc.json", "line.json")
    ]
    for samples in found:
        same(samples, found[0])
    assert found[0].counts().tolist() == [[0, 3], [3, 0]]
    with pytest.raises(ValueError, match=r"there is no column 'event.type'"):
        from_table(tmp_path / "t.json", state="event.type", sequence="who.id")
    with pytest.raises(ValueError, match=r"there is no column 'event.type'|no column"):
        from_table(tmp_path / "t.parquet", state="event.type", sequence="who.id")


def test_a_long_array_of_json_is_read_in_pieces(tmp_path: Path) -> None:
    rows = [{"state": "ab"[k % 2] + "x" * (k % 50), "n": k} for k in range(60_000)]
    (tmp_path / "t.json").write_text(json.dumps(rows))
    with noted("one-sequence", columns="'n'"):
        assert from_table(tmp_path / "t.json").n_transitions == 59_999
    (tmp_path / "cut.json").write_text(json.dumps(rows)[:-40])
    cut_short = r"element 60000 .* cut short|element 5999. .*cut short"
    with noted("one-sequence"), pytest.raises(ValueError, match=cut_short):
        from_table(tmp_path / "cut.json")


def test_databases_are_read_and_nothing_else(log: pd.DataFrame, plain: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    _sqlite(log, path)
    same(of(path, table="events"), of(plain))
    same(of(path, query="SELECT * FROM events WHERE case_id >= 0;"), of(plain))
    before = path.read_bytes()
    for query in (
        "DELETE FROM events", "SELECT load_extension('x')", "SELECT 1; DROP TABLE events",
        "SELECT * FROM pragma_database_list", f"SELECT 1 FROM (ATTACH '{tmp_path}/other.db' AS o)",
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"log\.db"):
            from_table(path, query=query)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.db"]
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE more (x)")
        connection.execute("CREATE VIEW evil AS SELECT load_extension('/tmp/x.so') AS page, 1 AS case_id")
    connection.close()
    with pytest.raises(ValueError, match=r"which table.*'events', 'more'"):
        from_table(path)
    with pytest.raises(ValueError, match="not permitted"):
        from_table(path, table="evil", state="page")
    (tmp_path / "bad.db").write_bytes(before[:100] + b"\0" * 5000)
    with pytest.raises(ValueError, match="not a readable SQLite"):
        from_table(tmp_path / "bad.db")
    (tmp_path / "log.db-wal").write_bytes(b"changes")
    with pytest.raises(ValueError, match="recent changes"):
        from_table(path, table="events")


STOPPED = """
import signal, sys
from somcot.readers import from_table
from_table(sys.argv[1], table="events")  # whatever is imported only when it is used
signal.signal(signal.SIGPROF, signal.default_int_handler)
signal.setitimer(signal.ITIMER_PROF, 0.3)  # of CPU
try:
    from_table(sys.argv[1], table="endless")
except KeyboardInterrupt:
    print("stopped")
"""
ENDLESS = (
    "CREATE VIEW endless AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
    "SELECT n AS state FROM r WHERE n < 0"
)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such timer")
@pytest.mark.parametrize("kind", ["sqlite3", "duckdb"])
def test_a_view_that_never_ends_is_interrupted(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{kind}"
    with contextlib.closing(pytest.importorskip(kind).connect(str(path))) as connection:
        connection.execute("CREATE TABLE events AS SELECT 'a' AS state UNION ALL SELECT 'b'")
        connection.execute(ENDLESS)
        connection.commit()
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("stopped\n", "")


def test_the_command_says_nothing_beside_the_answer_about_duckdb(tmp_path: Path) -> None:
    """Its library lists what is alive at the end of a process."""
    with contextlib.closing(pytest.importorskip("duckdb").connect(str(tmp_path / "log.duckdb"))) as connection:
        connection.execute("CREATE TABLE events AS SELECT unnest(['a', 'b', 'a']) AS state")
    done = subprocess.run(
        [sys.executable, "-m", "somcot", "info", "log.duckdb"], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_duckdb_file_is_read_and_nothing_else(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path, other = tmp_path / "log.duckdb", tmp_path / "other.csv"
    other.write_text("state\na\nb\n")
    with contextlib.closing(duckdb.connect(str(path))) as connection:
        connection.execute("CREATE TABLE events AS SELECT unnest(['a', 'b', 'a']) AS state")
        connection.execute(f"CREATE VIEW evil AS SELECT * FROM read_csv('{other}')")
    before = path.read_bytes()
    assert from_table(path).n_transitions == 2
    (tmp_path / "export").write_bytes(before)
    assert from_table(tmp_path / "export").n_transitions == 2  # known by its content
    (tmp_path / "export").unlink()
    for query in (
        f"SELECT * FROM read_csv('{other}')", "SELECT * FROM evil", "DELETE FROM events",
        "SELECT 1); DROP TABLE events; (", f"SELECT 1 FROM (COPY events TO '{tmp_path}/out.csv')",
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"log\.duckdb"):
            from_table(path, query=query)
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.duckdb", "other.csv"]


def test_a_database_that_is_called_db_is_recognised(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with contextlib.closing(duckdb.connect(str(tmp_path / "log.db"))) as connection:
        connection.execute("CREATE TABLE events AS SELECT unnest(['a', 'b', 'a']) AS state")
    assert from_table(tmp_path / "log.db").n_transitions == 2
    # A command leaves nothing on standard error, where DuckDB would list what it takes for leaks.
    done = subprocess.run(
        [sys.executable, "-m", "somcot", "info", str(tmp_path / "log.db")], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_objects_one_after_another_are_rows(tmp_path: Path) -> None:
    rows = [{"session": 1, "event": {"name": name}} for name in "aba"]
    (tmp_path / "log.json").write_text(
        "\ufeff" + "".join(json.dumps(row, indent=2) + "\n" for row in rows), encoding="utf-8"
    )
    assert from_table(tmp_path / "log.json", sequence="session", state="event.name").n_transitions == 2
    (tmp_path / "cut.json").write_text(json.dumps(rows[0], indent=2) + json.dumps(rows[1], indent=2)[:-3])
    with pytest.raises(ValueError, match=r"cut\.json: object 2 is not valid JSON"):
        from_table(tmp_path / "cut.json", sequence="session", state="event.name")


def test_a_log_that_begins_with_a_bracket_is_not_json(tmp_path: Path) -> None:
    for name, text in (("a.log", "[Sun Dec 04 04:47:44 2005] [notice] ready\n"), ("b.txt", "{0} ready\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match="its ending") as error:
            from_table(tmp_path / name)
        assert code_of(error) == "unknown-ending"
    for text in ('[\n {"state": "a"}, {"state": "b"}]', '{"state": "a"}\n{"state": "b"}'):
        (tmp_path / "c.txt").write_text(text)
        assert from_table(tmp_path / "c.txt").n_transitions == 1


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_tar_archives_are_refused_with_a_remedy(mode: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("state\na\nb\n")
    for name in ("log.csv.tar.gz", "log.tgz"):
        with tarfile.open(tmp_path / name, mode) as archive:  # type: ignore[call-overload]
            archive.add(tmp_path / "log.csv", "log.csv")
        with pytest.raises(ValueError, match=r"a tar archive.*unpack it"):
            from_table(tmp_path / name)


def test_an_empty_name_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.csv").write_text("state\na\nb\n")
    monkeypatch.chdir(tmp_path)
    assert from_table(".").n_transitions == 1
    with pytest.raises(ValueError, match="not a valid file name"):
        from_table("")


def test_sheets_are_named(log: pd.DataFrame, plain: Path, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(tmp_path / "log.xlsx") as writer:
        pd.DataFrame({"a": [1]}).to_excel(writer, sheet_name="notes", index=False)
        log.to_excel(writer, sheet_name="events", index=False)
    same(of(tmp_path / "log.xlsx", table="events"), of(plain))
    with pytest.raises(ValueError, match="no sheet 'none'; its sheets are 'notes', 'events'"):
        from_table(tmp_path / "log.xlsx", table="none")
    with pytest.raises(ValueError, match="table: only for xlsx and sqlite"):
        from_table(plain, table="events")


@pytest.mark.parametrize(("ending", "package"), [("xlsx", "openpyxl"), ("avro", "fastavro"), ("duckdb", "duckdb")])
def test_a_missing_package_is_named(ending: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (package, "python_calamine"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    path = tmp_path / f"log.{ending}"
    path.write_bytes(zipped(x=b"1") if ending == "xlsx" else b"Obj\x01" + b"\0" * 50)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        from_table(path)


# --- Hostile archives


def test_bombs_and_unsafe_archives_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("somcot.readers.compression._FREE", 1 << 20)
    row = b"state\n" + b"a\n" * (1 << 23)
    for name, data in (("bomb.csv.xz", lzma.compress(row)), ("bomb.csv.bz2", bz2.compress(row))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ValueError, match=rf"{name}: unpacks to more than 5,000 times"):
            from_table(tmp_path / name)
    (tmp_path / "zeros.csv.gz").write_bytes(gzip.compress(b"\0" * (1 << 24)))  # one endless line
    with pytest.raises(ValueError, match="line 1"):
        from_table(tmp_path / "zeros.csv.gz")
    for entry in ("../escape.csv", "/etc/x.csv", "a/../../b.csv", "C:/x.csv"):
        (tmp_path / "evil.zip").write_bytes(zipped(**{entry: b"state\na\nb\n"}))
        with pytest.raises(ValueError, match="points out of the archive"):
            from_table(tmp_path / "evil.zip")
    assert not (tmp_path.parent / "escape.csv").exists()
    lying = bytearray(zipped(**{"t.csv": b"state\na\nb\n"}))
    place = lying.rindex(b"PK\x01\x02")
    lying[place + 24 : place + 28] = (2**31).to_bytes(4, "little")  # claims two gigabytes
    (tmp_path / "lying.zip").write_bytes(bytes(lying))
    with pytest.raises(ValueError, match=r"claim more bytes|damaged"):
        from_table(tmp_path / "lying.zip")
    (tmp_path / "nested.zip").write_bytes(zipped(**{"in.zip": zipped(**{"t.csv": b"state\na\nb\n"})}))
    with pytest.raises(ValueError, match="itself an archive"):
        from_table(tmp_path / "nested.zip")


def test_addresses_are_refused_with_a_reason() -> None:
    for name in ("https://example.org/a.csv", "s3://bucket/a.parquet", "sqlite:///a.db"):
        with pytest.raises(ValueError, match="only files are read"):
            read(name)


def test_what_can_be_seen_of_a_packed_pipe() -> None:
    rows = b'{"state": "a"}\n' * 2000
    assert preview(gzip.compress(rows)[:200]).startswith(b'{"state"')
    assert preview(rows[:50]) == rows[:50]
    assert preview(bz2.compress(rows)[:20]) == b""


# --- Wide tables, and a sequence per line


def test_wide_tables_and_lines(tmp_path: Path) -> None:
    wanted = Samples.from_trajectories([["a", "b", "b"], ["b", "a"], ["a", "a", "b"]])
    wide = tmp_path / "wide.csv"
    wide.write_text("id,sex,t1,t2,t3\n7,f,a,b,b\n8,m,b,a,\n9,f,a,a,b\n")
    (tmp_path / "lines.seq").write_text("% a comment\na b b\nb a\n\na a b\n")
    for samples in (
        from_table(wide, wide="t1:t3"),
        from_table(wide, wide=["t1", "t2", "t3"]),
        from_table(tmp_path / "lines.seq"),
    ):
        same(samples, wanted)
    assert list(split_table(wide, "sex", wide="t1:t3", least=1)) == ["f", "m"]
    with pytest.raises(ValueError, match="wide: found 't1', expected"):
        from_table(wide, wide="t1")
    with pytest.raises(ValueError, match=r"fold|numbers"):
        read_vectors(wide, state=["t1"], sequence="id")


def test_attributes_of_sequences(tmp_path: Path) -> None:
    log = {"case": [2, 2, 1, 1, 3], "page": list("abbaa"), "plan": ["x", "x", "y", "y", "z"], "time": [1, 2, 1, 2, 1]}
    with noted("single-rows"):
        samples = from_table(log, state="page", sequence="case", attributes=["plan"])
    assert samples.episode_attributes["plan"].tolist() == ["y", "x"]
    assert samples.take([1, 1]).episode_attributes["plan"].tolist() == ["x", "x"]
    assert samples.merge(samples).episode_attributes["plan"].tolist() == ["y", "x", "y", "x"]
    with pytest.raises(ValueError, match="column 'time' changes within a sequence"), noted("single-rows"):
        from_table(log, state="page", sequence="case", attributes=["time"])
