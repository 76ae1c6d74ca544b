"""Methods, file formats and reading options are each written down once; whoever lists them lists the same."""

import contextlib
import inspect
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
from typer.testing import CliRunner

import somcot
from somcot import costs
from somcot.cli.application import app
from somcot.cli.options import Reading, flag, takers
from somcot.plumbing.records import option_names
from somcot.readers.compression import PACKED
from somcot.readers.formats import ENDINGS, FORMATS, KINDS, MAGIC, endings_of
from somcot.readers.opening import identify, read
from somcot.solvers import METHODS, Method, describe

DOCS = Path(__file__).parents[1] / "docs"
# Options of readers that the command line asks for in another way: --cost reward:COLUMN, --by COLUMN.
ELSEWHERE = {"reward", "attributes", "keep_times"}


def rows(page: str, heading: str) -> Iterator[list[str]]:
    """The cells of the first table of a page whose header begins like this."""
    lines = iter((DOCS / page).read_text().splitlines())
    assert any(line.startswith(heading) for line in lines), f"{page} has no table {heading!r}"
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def quoted(cell: str) -> list[str]:
    return [word for part in re.findall("`([^`]*)`", cell) for word in part.split()]


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_method_is_called_as_its_row_says(method: Method) -> None:
    positional = [
        p.name for p in inspect.signature(method.load()).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    assert positional == (["problem"] if method.takes == "chains" else ["x", "y", "cost"])
    assert ("discount" in option_names(method.load())) == (method.takes != "chains")
    assert describe(method.name) == method.summary


@pytest.mark.parametrize("name", costs.NAMED)
def test_every_list_of_costs_has_the_name(name: str) -> None:
    shown = " ".join(CliRunner().invoke(app, ["distance", "--help"], env={"COLUMNS": "200"}).output.split())
    first = re.split(r"[\[:]", name)[0]
    written = {"features": "reward:COLUMN"}.get(name, name)  # on the command line, features are a column
    assert f'"{first}' in (costs.between.__doc__ or ""), "add it to the docstring of costs.between"
    assert written in shown, "add it to the help of Cost in cli/options.py"
    assert f"\n| `{written}`" in (DOCS / "command-line.md").read_text(), "add it to the table in docs/command-line.md"


def test_every_list_of_methods_is_the_table() -> None:
    braces = ", ".join(f'"{name}"' for name in METHODS)
    assert f"method : {{{braces}}}" in (somcot.distance.__doc__ or "")
    shown = " ".join(CliRunner().invoke(app, ["distance", "--help"], env={"COLUMNS": "200"}).output.split())
    names = list(METHODS)
    assert f"--method NAME {', '.join(names[:-1])} or {names[-1]};" in shown
    table = {name: when for when, method, *_ in rows("choosing.md", "| you have |") for name in quoted(method)}
    assert table == {row.name: row.when for row in METHODS.values()}
    with pytest.raises(ValueError, match=", ".join(repr(name) for name in METHODS)):
        somcot.distance(somcot.random_walk(2), somcot.random_walk(2), np.eye(2), discount=0.9, method="none")


def test_a_new_row_is_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Method("second", "somcot.solvers.linear_program:solve", "chains", "once more", "nothing better to do")
    monkeypatch.setitem(METHODS, "second", row)
    walk = somcot.random_walk(2)
    assert somcot.distance(walk, walk, 1 - np.eye(2), discount=0.9, method="second", time_limit=9.0).distance == 0.0
    with pytest.raises(TypeError, match="speed: not an option of method 'second', which takes formulation, time_limit"):
        somcot.distance(walk, walk, 1 - np.eye(2), discount=0.9, method="second", speed=2)


def test_every_reader_of_files_can_be_imported_by_name() -> None:
    for kind in KINDS.values():
        assert getattr(somcot.readers, kind.reader.rpartition(":")[2]) is kind.load()


def test_formats_belong_to_kinds_and_do_not_overlap() -> None:
    assert {row.kind for row in FORMATS.values()} == set(KINDS)
    assert len(ENDINGS) == sum(len(row.endings) for row in FORMATS.values())
    assert len(MAGIC) == sum(len(row.magic) for row in FORMATS.values())


def _saved(path: Path) -> None:
    (np.save if path.suffix == ".npy" else np.savez)(path, np.array([0, 1, 1, 0]))


def _parquet(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"state": ["a", "b"]}), path)


def _arrow(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import feather

    feather.write_feather(pa.table({"state": ["a", "b"]}), str(path))


def _orc(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import orc

    orc.write_table(pa.table({"state": ["a", "b"]}), str(path))


def _avro(path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    schema = {"type": "record", "name": "r", "fields": [{"name": "state", "type": "string"}]}
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"state": "a"}, {"state": "b"}])


def _xlsx(path: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (["state"], ["a"], ["b"]):
        book.active.append(row)
    book.save(path)


def _sqlite(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE t (state); INSERT INTO t VALUES ('a'), ('b');")


def _duckdb(path: Path) -> None:
    with contextlib.closing(pytest.importorskip("duckdb").connect(str(path))) as connection:
        connection.execute("CREATE TABLE t AS SELECT unnest(['a', 'b']) AS state")


CALLS = '[{"role": "assistant", "content": [{"type": "tool_use", "name": "a"}, {"type": "tool_use", "name": "b"}]}]'
GRAPH = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected"><node id="a"/>
<node id="b"/><edge source="a" target="b"/></graph></graphml>"""
LOG = """<log><trace><string key="concept:name" value="1"/>
<event><string key="concept:name" value="a"/><date key="time:timestamp" value="2026-05-01"/></event>
<event><string key="concept:name" value="b"/><date key="time:timestamp" value="2026-05-02"/></event></trace></log>"""
WRITERS: dict[str, Callable[[Path], object]] = {
    "somcot": lambda path: somcot.Samples.from_trajectories([["a", "b"]]).save(path),
    "csv": lambda path: path.write_text("time,state\n1,a\n2,b\n"),
    "tsv": lambda path: path.write_text("time\tstate\n1\ta\n2\tb\n"),
    "jsonl": lambda path: path.write_text('{"state": "a"}\n{"state": "b"}\n'),
    "json": lambda path: path.write_text('[{"state": "a"}, {"state": "b"}]'),
    "parquet": _parquet,
    "arrow": _arrow,
    "orc": _orc,
    "avro": _avro,
    "xlsx": _xlsx,
    "sqlite": _sqlite,
    "duckdb": _duckdb,
    "seq": lambda path: path.write_text("a b\n"),
    "traces": lambda path: path.write_text(CALLS),
    "xes": lambda path: path.write_text(LOG),
    "npy": _saved,
    "npz": _saved,
    "graphml": lambda path: path.write_text(GRAPH),
    "gml": lambda path: path.write_text("graph [\n node [ id 0 ]\n node [ id 1 ]\n edge [ source 0 target 1 ]\n]\n"),
    "edges": lambda path: path.write_text("a b\n"),
    "tra": lambda path: path.write_text("2 2\n0 1 1\n1 0 1\n"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_read_by_every_ending_and_by_its_first_bytes(name: str, tmp_path: Path) -> None:
    for ending in FORMATS[name].endings:
        path = tmp_path / f"data{ending}"
        plain = tmp_path / f"plain{FORMATS[name].endings[0]}"
        WRITERS[name](plain)
        plain.rename(path)
        assert read(path).n_states == 2
        bare = tmp_path / "data"
        path.rename(bare)
        assert read(bare, format=name).n_states == 2
        if FORMATS[name].magic:
            assert identify(bare).format == name


def test_options_of_readers_and_of_the_command_line_agree() -> None:
    ours = {row.name for row in fields(Reading)} - {"format"}
    theirs = {option for kind in KINDS.values() for option in kind.options()}
    assert ours == theirs - ELSEWHERE
    shown = CliRunner().invoke(app, ["info", "--help"], env={"COLUMNS": "200"}).output
    for row in fields(Reading):
        assert re.search(rf"^ +{flag(row.name)}\b", shown, re.MULTILINE), row.name


def test_every_list_of_formats_is_the_table() -> None:
    documented: dict[str, tuple[set[str], set[str]]] = {}
    for endings, _, options in rows("command-line.md", "| ending |"):
        known = [word for word in quoted(endings) if word not in PACKED]
        (kind,) = {FORMATS[ENDINGS[ending]].kind for ending in known}
        before = documented.get(kind, (set(), set()))
        documented[kind] = before[0] | set(known), before[1] | set(quoted(options))
    flags = {kind: {flag(row.name) for row in fields(Reading) if kind in takers(row.name)} for kind in KINDS}
    assert documented == {kind: (set(endings_of(kind)), flags[kind]) for kind in KINDS}
    told = {}
    for endings, reader in rows("readers.md", "| ending | reader |"):
        (kind,) = (name for name, row in KINDS.items() if row.reader.partition(":")[2] == quoted(reader)[0])
        elsewhere = documented[kind][0] if "(command-line.md#files)" in endings else set()
        assert elsewhere.isdisjoint(quoted(endings))
        told[kind] = elsewhere | set(quoted(endings))
    assert told == {
        kind: {ending for row in FORMATS.values() if row.kind == kind for ending in row.endings} for kind in KINDS
    }
    text = " ".join((read.__doc__ or "").split())
    assert f"One of {', '.join(FORMATS)}," in text
    for kind in KINDS:
        assert f"({' '.join(endings_of(kind))})" in text


@pytest.mark.parametrize("name", [row.name for row in fields(Reading) if row.name != "format"])
def test_the_group_of_an_option_names_the_files_that_take_it(name: str) -> None:
    (option,) = get_type_hints(Reading, include_extras=True)[name].__metadata__
    kinds = [KINDS[kind].plural for kind in takers(name)]
    assert option.rich_help_panel == (f"Reading {' and '.join(kinds)}" if len(kinds) <= 2 else "Reading files")


def test_readers_are_loaded_when_used_and_all_are_found() -> None:
    for name in somcot.readers.__all__:
        assert getattr(somcot.readers, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'from_nothing'"):
        _ = somcot.readers.from_nothing
    assert dir(somcot.readers) == sorted(somcot.readers.__all__)
