"""Bad files and options: each is refused in one line that names the place and the remedy, with exit code 2."""

from __future__ import annotations

import gzip
import io
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from somcot import MarkovChain
from somcot.cli.cost_and_cells import build_cost
from somcot.cli.inputs import NamedProcess
from tests.command_server import Command

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("networkx")

GOOD = "user,ts,page,reward\n1,0,home,0\n1,1,cart,1\n1,2,home,0\n2,0,cart,1\n2,1,home,0\n"
BASE = ["distance", "bad.csv", "good.csv", "--sequence", "user", "--time", "ts", "--state", "page", "--discount", "0.9"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bad")
    (place / "good.csv").write_text(GOOD)
    np.save(place / "good.npy", np.array([0, 1, 0, 1, 1]))
    (place / "good.edges").write_text("a b\nb c\n")
    (place / "cost.csv").write_text("0,1\n1,0\n")
    return place


def only(line: str) -> bool:
    """Whether an error is one line without a trace of Python."""
    return line.count("\n") == 1 and "Traceback" not in line and "pyarrow" not in line.lower()


# name: (content of bad.csv, words the error must hold)
TABLES: dict[str, tuple[str | bytes, list[str]]] = {
    "open quote": ('user,ts,page\n1,0,home\n1,1,"cart\n1,2,home\n1,3,cart\n', ["bad.csv", "never closed", "line 5"]),
    "empty file": ("", ["bad.csv", "empty", "check"]),
    "blank first line": ("\nuser,ts,page\n1,0,a\n", ["bad.csv: line 1", "header"]),
    "header only": ("user,ts,page\n", ["bad.csv", "no rows"]),
    "one row": ("user,ts,page\n1,0,home\n", ["bad.csv", "no sequence has two rows", "record longer"]),
    "only single rows": ("user,ts,page\n1,0,home\n2,0,home\n", ["bad.csv", "2 sequence(s)", "check"]),
    "missing column": ("user,ts,site\n1,0,home\n", ["bad.csv", "'page'", "'site'"]),
    "repeated column": ("user,ts,page,page\n1,0,a,b\n", ["bad.csv", "several columns called 'page'"]),
    "missing field": ("user,ts,page\n1,0,home\n1,1\n", ["bad.csv: line 3", "2 columns", "correct"]),
    "field too many": ("user,ts,page\n1,0,home\n1,1,cart,x\n", ["bad.csv: line 3", "4 columns", "delimiter"]),
    "empty state": ("user,ts,page\n1,0,home\n1,1,\n", ["bad.csv: row 2", "no page", "cut"]),
    "NaN state": ("user,ts,page\n1,0,1\n1,1,NaN\n", ["bad.csv: row 2", "no page", "cut"]),
    "NaN time": ("user,ts,page\n1,0,home\n1,NaN,cart\n", ["bad.csv: row 2", "'ts'", "missing"]),
    "empty time": ("user,ts,page\n1,0,home\n1,,cart\n", ["bad.csv: row 2", "'ts'", "fill"]),
    "text time": ("user,ts,page\n1,0,home\n1,noon,cart\n", ["bad.csv: row 2", "'noon'", "expected numbers or times"]),
    "mixed times": ("user,ts,page\n1,0,home\n1,2026-05-01,cart\n1,x,cart\n", ["bad.csv: row 2", "among numbers"]),
    "empty sequence": ("user,ts,page\n1,0,home\n,1,cart\n", ["bad.csv: row 2", "'user'", "missing"]),
    "measurements": ("user,ts,page\n1,0,0.25\n1,1,0.5\n1,2,0.75\n", ["bad.csv", "0.25", "--bins page=10"]),
    "latin-1 header": ("user,ts,page,größe\n1,0,home,2\n".encode("latin-1"), ["bad.csv: line 1", "UTF-8", "latin-1"]),
    "latin-1 state": ("user,ts,page\n1,0,home\n1,1,café\n".encode("latin-1"), ["bad.csv: line 3", "UTF-8", "encoding"]),
    "UTF-16": ("user,ts,page\n1,0,home\n".encode("utf-16"), ["bad.csv: line 1", "utf-16"]),
    "binary": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ["bad.csv: line 1"]),
    "zeros": (b"\0" * 1000 + b"\n", ["bad.csv: line 1", "binary"]),
    "empty line": ("page\nhome\n\ncart\n", ["bad.csv", "'user'"]),
    "one other column": ("name\n1\n2\n", ["bad.csv", "'page'", "'name'"]),
    "damaged gzip": (gzip.compress(GOOD.encode() * 50)[:60], ["bad.csv", "gzip", "damaged"]),
    "gzip of nothing": (gzip.compress(b""), ["bad.csv: line 1", "header"]),
    "old line ends": ("user,ts,page\r1,0,home\r1,1,cart\r", ["bad.csv: line 1", "carriage return", "tr "]),
    "unclosed quote": ('user,ts,page\n1,0,"home\n1,1,cart\n', ["bad.csv"]),
}


@pytest.mark.parametrize("name", TABLES)
def test_bad_table(name: str, command: Command, folder: Path) -> None:
    content, words = TABLES[name]
    (folder / "bad.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    refused(command(*BASE, cwd=folder), words)


# name: (what to put into bad.jsonl, words)
JSON_LINES: dict[str, tuple[bytes, list[str]]] = {
    "broken JSON": (b'{"user":1,"ts":0,"page":"a"}\n{"user":1,\n', ["bad.jsonl: line 2", "JSON"]),
    "name twice": (
        b'{"user":1,"ts":0,"page":"a"}\n{"user":1,"ts":1,"page":"a","page":"b"}\n',
        ["bad.jsonl: line 2", "'page' twice"],
    ),
    "no object": (b"[1,2,3]\n", ["bad.jsonl: element 1", "object"]),
    "missing key": (b'{"user":1,"ts":0,"page":"a"}\n{"user":1,"ts":1}\n', ["bad.jsonl: line 2", "'page'"]),
    "null state": (b'{"user":1,"ts":0,"page":"a"}\n{"user":1,"ts":1,"page":null}\n', ["bad.jsonl: row 2", "no page"]),
    "nested state": (b'{"user":1,"ts":0,"page":["a"]}\n{"user":1,"ts":1,"page":["a"]}\n', ["'page'", "list"]),
    "mixed types": (b'{"user":1,"ts":0,"page":"a"}\n{"user":1,"ts":1,"page":7}\n', ["'page'", "mixes", "'a'", "7"]),
    "NaN state": (b'{"user":1,"ts":0,"page":1}\n{"user":1,"ts":1,"page":NaN}\n', ["bad.jsonl: row 2", "no page"]),
    "infinite state": (b'{"user":1,"ts":0,"page":1e999}\n{"user":1,"ts":1,"page":2.0}\n', ["'page'", "inf"]),
    "bad UTF-8": (b'{"user":1,"ts":0,"page":"a"}\n{"user":1,"ts":1,"page":"\xff"}\n', ["line 2", "UTF-8"]),
    "deep nesting": (b'{"user":' + b"[" * 100_000 + b"\n", ["bad.jsonl: line 1", "JSON"]),
}


@pytest.mark.parametrize("name", JSON_LINES)
def test_bad_json_lines(name: str, command: Command, folder: Path) -> None:
    content, words = JSON_LINES[name]
    (folder / "bad.jsonl").write_bytes(content)
    refused(command(*swapped("bad.jsonl"), cwd=folder), words)


def parquet_bytes(**columns: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


GOOD_PARQUET = {"user": [1, 1], "ts": [0, 1], "page": ["a", "b"]}
PARQUET: dict[str, tuple[Callable[[], bytes], list[str]]] = {
    "truncated": (lambda: parquet_bytes(**GOOD_PARQUET)[:-20], ["bad.parquet", "Parquet", "again"]),
    "cut in half": (lambda: parquet_bytes(**GOOD_PARQUET)[:100], ["bad.parquet", "cut short"]),
    "text inside": (lambda: b"user,ts,page\n", ["bad.parquet", "Parquet"]),
    "no rows": (lambda: parquet_bytes(**{k: pa.array(v)[:0] for k, v in GOOD_PARQUET.items()}), ["no rows"]),
    "list column": (lambda: parquet_bytes(user=[1, 1], ts=[0, 1], page=[[1], [2]]), ["'page'", "list", "another"]),
    "null state": (lambda: parquet_bytes(user=[1, 1], ts=[0, 1], page=["a", None]), ["row 2", "no page"]),
    "null time": (lambda: parquet_bytes(user=[1, 1], ts=[0, None], page=["a", "b"]), ["row 2", "'ts'"]),
    "NaN state": (lambda: parquet_bytes(user=[1, 1], ts=[0, 1], page=[1.0, float("nan")]), ["row 2", "no page"]),
    "fractions": (lambda: parquet_bytes(user=[1, 1], ts=[0, 1], page=[0.5, 1.5]), ["'page'", "0.5", "--bins"]),
    "binary time": (lambda: parquet_bytes(user=[1, 1], ts=[b"a", b"b"], page=[1, 2]), ["'ts'", "binary"]),
}


@pytest.mark.parametrize("name", PARQUET)
def test_bad_parquet(name: str, command: Command, folder: Path) -> None:
    make, words = PARQUET[name]
    (folder / "bad.parquet").write_bytes(make())
    refused(command(*swapped("bad.parquet"), cwd=folder), words)


@pytest.mark.parametrize("plain_footer", [False, True])
def test_an_encrypted_parquet_file_is_called_so(plain_footer: bool, command: Command, folder: Path) -> None:
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):  # type: ignore[misc, name-defined]
        """Wraps a key by leaving it as it is."""

        def __init__(self, _settings: object) -> None:
            super().__init__()

        def wrap_key(self, key: bytes, _name: str) -> str:
            return key.hex()

        def unwrap_key(self, wrapped: str, _name: str) -> bytes:
            return bytes.fromhex(wrapped)

    factory = encryption.CryptoFactory(Keys)
    wanted = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["page"]}, plaintext_footer=plain_footer
    )
    settings = factory.file_encryption_properties(encryption.KmsConnectionConfig(), wanted)
    pq.write_table(pa.table(GOOD_PARQUET), folder / "bad.parquet", encryption_properties=settings)
    refused(command(*swapped("bad.parquet"), cwd=folder), ["bad.parquet", "encrypted Parquet", "without encryption"])


def npz_of(**arrays: object) -> bytes:
    sink = io.BytesIO()
    np.savez(sink, **arrays)  # type: ignore[arg-type]
    return sink.getvalue()


def npy_of(array: object, **options: bool) -> bytes:
    sink = io.BytesIO()
    np.save(sink, np.asarray(array), **options)
    return sink.getvalue()


def zip_bomb() -> bytes:
    """300 MB of zeros in 0.3 MB."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as entry:
        np.lib.format.write_array_header_1_0(entry, {"descr": "<i8", "fortran_order": False, "shape": (37_500_000,)})
        for _ in range(300):
            entry.write(b"\0" * 1_000_000)
    return sink.getvalue()


def encrypted() -> bytes:
    """An archive whose directory says that a password is needed."""
    data = bytearray(npz_of(a=range(9)))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def huge_claim() -> bytes:
    """A header that promises 8 TB in front of 8 bytes."""
    sink = io.BytesIO()
    np.lib.format.write_array_header_1_0(sink, {"descr": "<i8", "fortran_order": False, "shape": (10**12,)})
    return sink.getvalue() + b"\0" * 8


ARRAYS: dict[str, tuple[str, Callable[[], bytes], list[str]]] = {
    "pickled npy": ("npy", lambda: npy_of([{"a": 1}], allow_pickle=True), ["pickled", "never loaded", "savez"]),
    "two chains": ("npz", lambda: npz_of(P=np.eye(2), transition_matrix=np.eye(3)), ["several chains", "P"]),
    "pickled npz": ("npz", lambda: npz_of(a=np.array([[1], [2, 3]], dtype=object)), ["'a'", "pickled"]),
    "zip bomb": ("npz", zip_bomb, ["zip bomb", "MB", "uncompressed"]),
    "huge header": ("npy", huge_claim, ["claims 8,000,000,000,000 bytes"]),
    "long header": ("npy", lambda: b"\x93NUMPY\x01\x00" + struct.pack("<H", 60_000) + b" " * 60_000, ["header"]),
    "truncated npy": ("npy", lambda: npy_of(range(1000))[:900], ["claims", "again"]),
    "truncated npz": ("npz", lambda: npz_of(a=range(1000))[:500], ["archive", "again"]),
    "text as npy": ("npy", lambda: b"0,1,0\n", ["NumPy", "numpy.save"]),
    "empty archive": ("npz", lambda: b"PK\x05\x06" + b"\0" * 18, ["no array"]),
    "encrypted": ("npz", encrypted, ["archive", "encrypted"]),
    "broken header": ("npy", lambda: npy_of(range(9)).replace(b"fortran_order", b"fartron_order"), ["NumPy file"]),
    "text array": ("npy", lambda: npy_of(["a", "b"]), ["whole numbers"]),
    "three dimensions": ("npy", lambda: npy_of(np.zeros((2, 2, 2), int)), ["3 dimension"]),
    "fractions": ("npy", lambda: npy_of([0.5, 1.0]), ["frame 0 is 0.5", "assign"]),
    "NaN frame": ("npy", lambda: npy_of([0.0, float("nan")]), ["frame 1 is nan", "-1"]),
    "one frame": ("npy", lambda: npy_of([3]), ["no trajectory is longer"]),
    "all unassigned": ("npy", lambda: npy_of([-1, -1, -1]), ["no trajectory is longer"]),
    "rows not summing to 1": ("npy", lambda: npy_of([[0.5, 0.4], [0.5, 0.5]]), ["row of state 0 sums to 0.9"]),
    "negative probability": ("npy", lambda: npy_of([[1.5, -0.5], [0.5, 0.5]]), ["-0.5", "at least 0"]),
    "NaN probability": ("npy", lambda: npy_of([[0.5, float("nan")], [0.5, 0.5]]), ["nan", "remove or replace"]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_bad_arrays(name: str, command: Command, folder: Path) -> None:
    ending, make, words = ARRAYS[name]
    file = folder / f"bad.{ending}"
    file.write_bytes(make())
    refused(command("distance", file.name, "good.npy", "--discount", "0.9", cwd=folder), [file.name, *words])


GRAPHS: dict[str, tuple[str, str | bytes, list[str]]] = {
    "one word": ("edges", "a b\nc\n", ["line 2", "from to"]),
    "four words": ("edges", "a b 1 2\n", ["line 1", "from to"]),
    "negative weight": ("edges", "a b 1\nb c -2\n", ["line 2", "-2", "at least 0"]),
    "text weight": ("edges", "a b heavy\n", ["line 1", "'heavy'"]),
    "weight with underscores": ("edges", "a b 1_000\n", ["line 1", "'1_000'"]),
    "unknown direction": (
        "graphml",
        '<graphml><graph edgedefault="both"><node id="a"/></graph></graphml>',
        ["edgedefault", "'both'", "undirected"],
    ),
    "infinite weight": ("edges", "a b inf\n", ["line 1", "'inf'"]),
    "comments only": ("edges", "# nothing\n", ["no edges"]),
    "not UTF-8": ("edges", b"a \xff\n", ["line 1", "UTF-8"]),
    "not XML": ("graphml", "<graphml><graph>", ["XML", "again"]),
    "other XML": ("graphml", "<html></html>", ["GraphML"]),
    "unknown encoding": ("graphml", '<?xml version="1.0" encoding="utf-99"?><graphml/>', ["utf-99", "again"]),
    "no nodes": (
        "graphml",
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="directed"/></graphml>',
        ["no nodes"],
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_bad_graphs(name: str, command: Command, folder: Path) -> None:
    ending, content, words = GRAPHS[name]
    file = folder / f"bad.{ending}"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    refused(command("distance", file.name, "good.edges", "--discount", "0.9", cwd=folder), [file.name, *words])


GOOD_PAIR = ["good.csv", "good.csv", "--sequence", "user", "--time", "ts", "--state", "page"]
OPTIONS: dict[str, tuple[list[str], list[str]]] = {
    "no such file": (["distance", "nowhere.csv", "good.csv", "--discount", "0.9"], ["nowhere.csv", "no such file"]),
    "a folder": (["distance", "empty", "good.csv", "--discount", "0.9"], ["empty", "folder", "name a file"]),
    "unknown ending": (["info", "strange.xyz"], ["strange.xyz", "--format"]),
    "no discount": (["distance", "good.edges", "good.edges"], ["--discount", "missing", "0.9"]),
    "discount above 1": (["distance", *GOOD_PAIR, "--discount", "1.1"], ["discount", "1.1", "above 0 and below 1"]),
    "discount in words": (["distance", *GOOD_PAIR, "--discount", "high"], ["--discount", "'high'"]),
    "discount NaN": (["distance", *GOOD_PAIR, "--discount", "nan"], ["discount", "nan"]),
    "unknown cost": (
        ["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "lables"],
        ["--cost", "'lables'", "labels"],
    ),
    "cost without column": (["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "reward:"], ["reward:COLUMN"]),
    "cost column missing": (["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "reward:price"], ["'price'"]),
    "cost column of text": (
        ["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "reward:page"],
        ["row 1", "'home'"],
    ),
    "cost of wrong size": (["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "wide.csv"], ["wide.csv", "(2, 3)"]),
    "cost with text": (
        ["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "words.csv"],
        ["words.csv: line 2", "'x'"],
    ),
    "cost with NaN": (["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "nan.csv"], ["nan.csv", "not finite"]),
    "cost with rows of different lengths": (
        ["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "ragged.csv"],
        ["ragged.csv: line 4", "2 columns", "3"],
    ),
    "cost in another encoding": (
        ["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "latin.csv"],
        ["latin.csv", "not valid UTF-8"],
    ),
    "cost without a state": (["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "short.csv"], ["'home'", "add"]),
    "two rows of a cost with one name": (
        ["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "twice.csv"],
        ["twice.csv", "two rows are called 'home'"],
    ),
    "two columns of a cost with one name": (
        ["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "wide_twice.csv"],
        ["wide_twice.csv", "two columns are called 'cart'"],
    ),
    "cost with a long field": (
        ["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "long.csv"],
        ["long.csv: line 2", "field"],
    ),
    "cost that is binary": (
        ["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "/dev/zero"],
        ["/dev/zero", "binary"],
    ),
    "cost cut short": (
        ["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "cut.csv.gz"],
        ["cut.csv.gz", "gzip data are damaged"],
    ),
    "graph cut short": (["info", "cut.edges.gz"], ["cut.edges.gz", "gzip data are damaged"]),
    "cost with underscores": (
        ["distance", *GOOD_PAIR, "--discount", "0.9", "--cost", "under.csv"],
        ["under.csv: line 3", "'1_0'"],
    ),
    "infinite reward": (
        ["distance", "inf.csv", "inf.csv", "--state", "page", "--discount", "0.9", "--cost", "reward:gain"],
        ["inf.csv: row 2, column 'gain'", "inf"],
    ),
    "an address": (["info", "https://example.com/a.csv"], ["https://example.com/a.csv", "only files", "download"]),
    "binning without bins": (
        ["info", "good.csv", "--state", "page", "--binning", "uniform"],
        ["--binning", "--bins", "leave it out"],
    ),
    "no name of a sequence": (["info", "good.csv", "--state", "page", "--sequence", ""], ["--sequence", "empty"]),
    "no name of a state": (["info", "good.csv", "--state", ""], ["--state", "empty"]),
    "a billion bins": (
        ["info", "good.csv", "--state", "reward", "--bins", "reward=999999999999"],
        ["bins", "at most 1,000,000"],
    ),
    "bins of a pipe": (
        ["info", "/dev/null", "--format", "csv", "--state", "reward", "--bins", "reward=2"],
        ["/dev/null", "empty"],
    ),
    "one device twice": (["distance", "/dev/zero", "/dev/zero", "--discount", "0.9"], ["/dev/zero", "twice"]),
    "a device as an archive": (
        ["distance", "/dev/zero", "good.npy", "--format", "npz", "--discount", "0.9"],
        ["/dev/zero", "does not begin like a .npz file"],
    ),
    "unknown method": (
        ["distance", *GOOD_PAIR, "--discount", "0.9", "--method", "magic"],
        ["--method", "'magic'", "auto"],
    ),
    "confidence 2": (["distance", *GOOD_PAIR, "--discount", "0.9", "--confidence", "2"], ["--confidence", "0.9"]),
    "negative seed": (["distance", *GOOD_PAIR, "--discount", "0.9", "--seed", "-1"], ["--seed", "-1"]),
    "unknown option": (["distance", *GOOD_PAIR, "--discout", "0.9"], ["--discout"]),
    "unknown command": (["distanse"], ["distanse", "distance"]),
    "one file": (["distance", "good.csv", "--discount", "0.9"], ["good.csv", "second", "--by"]),
    "bins without number": (
        ["info", "good.csv", "--state", "reward", "--bins", "reward=many"],
        ["--bins", "'reward=many'"],
    ),
    "bins of text": (["info", "good.csv", "--state", "page", "--bins", "page=3"], ["'page'", "'home'", "numbers"]),
    "bins of another column": (["info", "good.csv", "--state", "page", "--bins", "reward=3"], ["'reward'", "state"]),
    "unknown binning": (
        ["info", "good.csv", "--state", "reward", "--bins", "2", "--binning", "odd"],
        ["'odd'", "uniform"],
    ),
    "unknown missing": (["info", "good.csv", "--state", "page", "--missing", "drop"], ["'drop'", "cut"]),
    "gap of nothing": (["info", "good.csv", "--state", "page", "--time", "file", "--gap", "30m"], ["gap", "--time"]),
    "gap in words": (["info", "good.csv", "--state", "page", "--gap", "a while"], ["gap", "'a while'", "30m"]),
    "end that is a state": (
        ["info", "good.csv", "--sequence", "user", "--state", "page", "--end", "home"],
        ["end", "'home'", "already"],
    ),
    "end without sequences": (["info", "good.csv", "--state", "page", "--end", "done"], ["--end", "one of 'user'"]),
    "top 0": (["info", "good.csv", "--state", "page", "--top", "0"], ["--top", "0"]),
    "other that is frequent": (
        ["info", "good.csv", "--state", "page", "--top", "1", "--other", "home"],
        ["other", "'home'"],
    ),
    "lifecycle of a table": (["info", "good.csv", "--state", "page", "--lifecycle", "all"], ["--lifecycle", "log"]),
    "unknown encoding": (["info", "good.csv", "--state", "page", "--encoding", "klingon"], ["'klingon'", "latin-1"]),
    "long delimiter": (["info", "good.csv", "--state", "page", "--delimiter", "::"], ["'::'", "single"]),
    "flag column of text": (
        ["info", "good.csv", "--state", "page", "--terminated", "page"],
        ["row 1", "true or false"],
    ),
    "lag of a table": (["info", "good.csv", "--state", "page", "--lag", "2"], ["--lag", "arrays", "leave it out"]),
    "lag 0": (["info", "good.npy", "--lag", "0"], ["--lag", "0"]),
    "lag too long": (["info", "good.npy", "--lag", "50"], ["good.npy", "lag of 50", "lower"]),
    "columns of an array": (["info", "good.npy", "--state", "page"], ["--state", "table"]),
    "unknown start": (["info", "good.edges", "--start", "z"], ["'z'", "not a state"]),
    "unknown dangling": (["info", "good.edges", "--dangling", "jump"], ["'jump'", "self-loop"]),
    "test of chains": (
        ["test", "good.edges", "good.edges", "--discount", "0.9"],
        ["good.edges", "no recorded episodes"],
    ),
    "no permutations": (["test", *GOOD_PAIR, "--discount", "0.9", "--permutations", "0"], ["--permutations"]),
    "report as the root": (["distance", *GOOD_PAIR, "--discount", "0.9", "--html", "/"], ["/", "cannot be written"]),
    "NUL in a name": (["info", "bad\0.csv"], ["bad", "NUL"]),
    "bins given twice": (
        ["info", "good.csv", "--state", "reward", "--bins", "reward=2", "--bins", "reward=3"],
        ["--bins", "reward", "twice"],
    ),
    "neighbourhoods without end": (
        ["distance", "good.edges", "good.edges", "--discount", "0.9", "--cost", "neighbourhood:99999999999"],
        ["rounds", "99999999999", "at most 1,000"],
    ),
    "permutations without end": (
        ["test", *GOOD_PAIR, "--discount", "0.9", "--permutations", "99999999999999999999"],
        ["--permutations", "99999999999999999999", "10000000"],
    ),
    "matrix as PDF": (["metric", *GOOD_PAIR, "--discount", "0.9", "--out", "m.pdf"], ["m.pdf", ".csv"]),
    "figure as text": (["distance", *GOOD_PAIR, "--discount", "0.9", "--plot", "a.txt"], ["a.txt", ".png"]),
    "report into a folder": (["distance", *GOOD_PAIR, "--discount", "0.9", "--html", "."], [".", "cannot be written"]),
    "folder is a file": (
        ["distance", *GOOD_PAIR, "--discount", "0.9", "--html", "good.csv/a.html"],
        ["good.csv/a.html"],
    ),
    "standard input twice": (["distance", "-", "-", "--discount", "0.9"], ["standard input", "twice"]),
    "unknown format": (["info", "-", "--format", "xls"], ["--format", "'xls'"]),
    "wrong experiment": (["reproduce", "everything"], ["everything"]),
    "unknown shell": (["completion", "tcsh"], ["'tcsh'", "bash"]),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_bad_options(name: str, command: Command, folder: Path) -> None:
    (folder / "empty").mkdir(exist_ok=True)
    (folder / "strange.xyz").write_text("hello\n")
    (folder / "wide.csv").write_text("0,1,1\n1,0,1\n")
    (folder / "words.csv").write_text("0,1\n1,x\n")
    (folder / "nan.csv").write_text("0,nan\n1,0\n")
    (folder / "ragged.csv").write_text(",cart,home\n\ncart,0,1\nhome,1\n")
    (folder / "latin.csv").write_bytes(b",cart,home\ncart,0,1\nhome,\xe9,0\n")
    (folder / "short.csv").write_text(",cart\ncart,0\nhome,1\n")
    (folder / "twice.csv").write_text(",cart,home\ncart,0,1\nhome,1,0\nhome,5,5\n")
    (folder / "wide_twice.csv").write_text(",cart,home,cart\ncart,0,1,2\nhome,1,0,2\n")
    (folder / "long.csv").write_text(",cart,home\n" + "x" * 200_000 + ",0,1\n")
    (folder / "under.csv").write_text(",cart,home\ncart,0,1\nhome,1_0,0\n")
    (folder / "inf.csv").write_text("page,gain\na,1\nb,inf\na,1\n")
    for ending in ("csv", "edges"):
        (folder / f"cut.{ending}.gz").write_bytes(gzip.compress(os.urandom(9000).hex().encode())[:3000])
    arguments, words = OPTIONS[name]
    refused(command(*arguments, cwd=folder), words)


COSTS = {
    "bare": "0,1\n2.5,3e-1\n",
    "with blank lines": "\n0,1\r\n\r\n2.5,3e-1\n\n",
    "with a mark": "\ufeff0,1\n2.5,3e-1\n",
    "with states in another order": "\ufeff,home,cart\nhome,0.3,2.5\ncart,1,0\n",
    "tabs": "\thome\tcart\nhome\t0.3\t2.5\ncart\t1\t0\n",
    "semicolons": "\n;home;cart\nhome;0.3;2.5\ncart;1;0\n",
    "quotes and more states": '"","home","cart","a, b"\n"home",0.3,2.5,7\ncart,1,0,7\nfaq,9,9,9\n',
    "signs and blanks": " +0 ,1\n+2.5, .3\n",
}


@pytest.mark.parametrize("name", COSTS)
def test_costs_as_text(name: str, tmp_path: Path) -> None:
    (tmp_path / "cost.csv").write_text(COSTS[name], encoding="utf-8")
    x, y = (NamedProcess(side, MarkovChain(np.eye(2), states=["cart", "home"])) for side in "xy")
    np.testing.assert_array_equal(build_cost(str(tmp_path / "cost.csv"), x, y), [[0.0, 1.0], [2.5, 0.3]])


def test_a_cost_with_one_state(tmp_path: Path) -> None:
    (tmp_path / "cost.csv").write_text("2\n\n")
    x = NamedProcess("x", MarkovChain([[1.0]]))
    np.testing.assert_array_equal(build_cost(str(tmp_path / "cost.csv"), x, x), [[2.0]])


def test_a_line_of_100_megabytes(command: Command, folder: Path) -> None:
    huge = folder / "huge.csv"
    with huge.open("wb") as stream:
        stream.write(b"user,ts,page\n1,0,")
        for _ in range(100):
            stream.write(b"x" * 1_000_000)
        stream.write(b"\n1,1,home\n")
    refused(command(*swapped("huge.csv"), cwd=folder), ["huge.csv", "longer than 4 MB"])
    huge.unlink()
    with huge.with_suffix(".jsonl").open("wb") as stream:
        stream.write(b'{"user":1,"ts":0,"page":"')
        for _ in range(100):
            stream.write(b"x" * 1_000_000)
    refused(command(*swapped("huge.jsonl"), cwd=folder), ["huge.jsonl: line 1", "longer than 4 MB"])
    huge.with_suffix(".jsonl").unlink()


def test_nothing_comes_through_the_pipe(command: Command, folder: Path) -> None:
    refused(command("info", "-", "--state", "page", cwd=folder), ["standard input", "empty"])
    refused(command("info", "-", "--state", "page", cwd=folder, closed="stdin"), ["standard input", "closed"])


def test_nobody_reads_the_answer(command: Command, folder: Path) -> None:
    for more in (["--json"], []):
        done = command("info", "good.npy", *more, cwd=folder, closed="stdout")
        assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_no_permission(command: Command, folder: Path) -> None:
    locked = folder / "locked.csv"
    locked.write_text(GOOD)
    locked.chmod(0)
    refused(command(*swapped("locked.csv"), cwd=folder), ["locked.csv", "not permitted", "chmod"])


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/usr/bin/setpriv"), reason="needs root and setpriv")
def test_no_permission_for_another_user(tmp_path: Path) -> None:
    """As root, step down to a user without rights; the command's folder must be readable to it."""
    locked = tmp_path / "locked.csv"
    locked.write_text(GOOD)
    locked.chmod(0)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o755)
    drop = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    probe = subprocess.run([*drop, sys.executable, "-c", "import somcot"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("another user cannot run this interpreter")
    done = subprocess.run(
        [*drop, sys.executable, "-m", "somcot", "info", str(locked), "--state", "page"],
        capture_output=True, text=True, check=False, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip
    assert done.returncode == 2
    assert only(done.stderr), done.stderr
    assert "not permitted" in done.stderr


@pytest.mark.parametrize("arguments", [["info", "nowhere.csv"], ["distance", "a.csv"], ["info", "bad.npz"]])
def test_the_installed_command_says_the_same(arguments: list[str], command: Command, folder: Path) -> None:
    """The runs above are forked; a fresh interpreter ends in the same words."""
    (folder / "bad.npz").write_bytes(b"PK\x05\x06" + b"\0" * 18)
    fresh = subprocess.run([sys.executable, "-m", "somcot", *arguments], capture_output=True, text=True, cwd=folder,
                           check=False)  # fmt: skip
    forked = command(*arguments, cwd=folder)
    assert (fresh.returncode, fresh.stderr) == (forked.returncode, forked.stderr)
    assert fresh.returncode == 2


def test_debug_shows_where(command: Command, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "somcot", "info", "nowhere.csv", "--debug"], capture_output=True,
                          text=True, cwd=folder, check=False)  # fmt: skip
    assert "Traceback" in done.stderr
    assert "nowhere.csv" in done.stderr


def test_there_are_many_bad_inputs() -> None:
    """Sixty were promised; each must be a case of its own."""
    assert len(TABLES) + len(JSON_LINES) + len(PARQUET) + len(ARRAYS) + len(GRAPHS) + len(OPTIONS) >= 100


def swapped(name: str) -> list[str]:
    return [name if part == "bad.csv" else part for part in BASE]


def refused(done: object, words: list[str]) -> None:
    code, out, err = (getattr(done, name) for name in ("returncode", "stdout", "stderr"))
    assert code == 2, (code, out, err)
    assert only(err), err
    assert err.startswith("error: ")
    for word in words:
        assert word in err, err


def test_errors_name_options_as_they_are_typed(command: Command, tmp_path: Path) -> None:
    rows = "".join(f"{k},{page},{t}/2026\n" for k in range(12) for t, page in enumerate("xyx", 1))
    (tmp_path / "a.csv").write_text("session,page,time\n" + rows)
    (tmp_path / "b.csv").write_bytes("session,page\n1,x\n1,y\n".encode("utf-16"))
    columns = ("--sequence", "session", "--state", "page")
    planned = command("sample-size", "a.csv", *columns, "--time", "file", "--effect", "0.99", cwd=tmp_path)
    assert planned.stderr.startswith("error: --effect: found 0.99"), planned.stderr
    timed = command("info", "a.csv", *columns, "--time", "time", cwd=tmp_path)
    assert "--time-format '%d/%m/%Y %H:%M'" in timed.stderr, timed.stderr
    coded = command("info", "b.csv", *columns, cwd=tmp_path)
    assert "pass --encoding 'utf-16" in coded.stderr, coded.stderr
