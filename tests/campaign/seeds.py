"""The seeds of the corpus: ``python -m tests.campaign.seeds`` writes small files of every format, the same each time.

Needed again only when a format changes; a test sees to it that every seed is read.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import numpy as np
import openpyxl
import pyarrow as pa
import zstandard
from numpy.typing import NDArray
from pyarrow import feather, ipc, orc, parquet

import somcot
from somcot import random_walk
from somcot.solvers import somcot as steps
from tests.campaign.targets import CORPUS

AGENTS = Path(__file__).parents[2] / "docs" / "recorded" / "agents"
ROWS: dict[str, list[Any]] = {
    "user": [1, 1, 1, 2, 2, 2, 3, 3],
    "when": [0.0, 1.0, 2.5, 0.0, 1.0, 2.0, 5.0, 6.0],
    "page": ["home", "cart", "home", "home", "näh", "cart", "cart", "home"],
    "amount": [0.5, 1.25, -3.0, 7.0, 0.0, 2.0, 1.0, 4.5],
    "ended": [False, False, True, False, False, True, False, False],
}
GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="w" for="edge" attr.name="weight" attr.type="double"/>
  <graph edgedefault="{kind}">
    <node id="home"/><node id="shop"/><node id="work"/>
    <edge source="home" target="shop"><data key="w">3.0</data></edge>
    <edge source="shop" target="work"><data key="w">1</data></edge>
  </graph>
</graphml>
"""
GML = """graph [
  node [ id 0 label "home" ]
  node [ id 1 label "shop" ]
  node [ id 2 label "work" open 1 ]
  edge [ source 0 target 1 weight 3.0 ]
  edge [ source 1 target 2 weight 1 ]
]
"""
XES = """<?xml version="1.0" encoding="UTF-8"?>
<log xes.version="1.0" xmlns="http://www.xes-standard.org/">
  <extension name="Concept" prefix="concept" uri="http://www.xes-standard.org/concept.xesext"/>
  <global scope="event"><string key="concept:name" value="none"/></global>
  <classifier name="Activity" keys="concept:name lifecycle:transition"/>
{traces}</log>
"""
EVENT = """    <event><string key="concept:name" value="{page}"/><string key="lifecycle:transition" value="{step}"/>
      <date key="time:timestamp" value="2024-01-0{user}T00:00:0{second}.000+01:00"/>
      <float key="amount" value="{amount}"><string key="unit" value="EUR"/></float>
      <string key="org:resource" value="desk"/></event>
"""
TRANSITIONS = """3 5
0 1 0.5
0 2 0.5
1 1 1
2 0 0.25
2 2 0.75
"""
CHOICES = """2 3 4
0 0 0 0.5 stay
0 0 1 0.5 stay
0 1 1 1 go
1 0 1 1 stay
"""


def log() -> bytes:
    """An event log: the rows as events, a trace for each user."""
    traces = ""
    for user in dict.fromkeys(ROWS["user"]):
        rows = [k for k, found in enumerate(ROWS["user"]) if found == user]
        events = "".join(
            EVENT.format(user=user, second=k, page=ROWS["page"][k], amount=ROWS["amount"][k],
                         step="start" if k % 3 == 0 else "complete")
            for k in rows
        )  # fmt: skip
        traces += f'  <trace><string key="concept:name" value="{user}"/>\n{events}  </trace>\n'
    return XES.format(traces=traces).encode()


def table(sign: str) -> bytes:
    rows = zip(*ROWS.values(), strict=True)
    return "\n".join(sign.join(map(str, row)) for row in [tuple(ROWS), *rows]).encode() + b"\n"


def files() -> dict[str, bytes]:
    """Names and contents."""
    frame = pa.table(ROWS)
    tables = {
        "seed.csv": table(","),
        "seed-times.csv": b"time,state\n2024-01-01T00:00:00,a\n2024-01-01T00:00:01,b\n2024-01-02,a\n",
        "seed-quoted.csv": b'user;page;amount\r\n1;"a ""b"", c";1,5\r\n1;f;2\r\n2;"d\ne";3\r\n',
        "seed.tsv": table("\t"),
        "seed.jsonl": ("\n".join(str(row) for row in frame.to_pylist()).replace("'", '"').replace("False", "false")
                       .replace("True", "true") + "\n").encode(),
        "seed.parquet": _parquet(frame),
        "seed-words.parquet": _parquet(frame.set_column(2, "page", frame["page"].dictionary_encode())),
    }  # fmt: skip
    path = np.array([0, 1, 2, 1, 0, 0, 1, 2, 2, 1])
    chain = random_walk(3).transition
    arrays = {
        "seed.npy": _npy(path),
        "seed-chain.npy": _npy(np.asarray(chain.toarray() if hasattr(chain, "toarray") else chain)),
        "seed.npz": _npz(a=path, b=path[::-1].astype(np.int16)),
        "seed.vectors.npz": _npz(a=np.linspace(0, 1, 12).reshape(6, 2), b=np.ones((3, 2), dtype=np.float32)),
    }
    graphs = {
        "seed.graphml": GRAPHML.format(kind="undirected").encode(),
        "seed-directed.graphml": GRAPHML.format(kind="directed").encode(),
        "seed.gml": GML.encode(),
        "seed.edges": b"# roads\nhome shop 3\nhome work 1\nshop work 0.5\n",
    }
    logs = {"seed.xes": log(), "seed.tra": TRANSITIONS.encode(), "seed-choices.tra": CHOICES.encode()}
    packed = {
        f"{name}.gz": gzip.compress((tables | arrays | graphs | logs)[name], mtime=0)
        for name in ("seed.csv", "seed.jsonl", "seed.npy", "seed.edges", "seed.xes")
    }
    costs = {
        "seed.cost.csv": b",0,1\n0,0,1\n1,1,0.5\n2,2,1\n",
        "seed-bare.cost.csv": b"0,1\n1,0\n0.5,2\n",
        "seed.cost.npy": _npy(np.arange(6.0).reshape(3, 2)),
    }
    return tables | arrays | graphs | logs | packed | costs | further()


def further() -> dict[str, bytes]:
    """Formats of other libraries, archives, and the traces of agents that docs/agents.md shows."""
    frame = pa.table(ROWS)
    rows = frame.to_pylist()
    nested = [{"user": row["user"], "page": {"name": row["page"]}} for row in rows]
    fields = zip(ROWS, ("long", "double", "string", "double", "boolean"), strict=True)
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    avro, archive = io.BytesIO(), io.BytesIO()
    fastavro.writer(avro, schema, rows, sync_marker=b"0123456789abcdef")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name in ("may.csv", "june/june.csv"):
            file.writestr(zipfile.ZipInfo(name), table(","))
    text = table(",")
    tables = {
        "seed.json": json.dumps(rows, ensure_ascii=False).encode(),
        "seed-nested.json": json.dumps({"n": 8, "rows": nested}, indent=1).encode(),
        "seed.arrow": _written(lambda out: feather.write_feather(frame, out, compression="uncompressed")),
        "seed-stream.arrow": _written(lambda out: _stream(frame, out)),
        "seed.orc": _written(lambda out: orc.write_table(frame, out)),
        "seed.avro": avro.getvalue(),
        "seed.xlsx": _written(_sheet),
        "seed.sqlite": _database(rows),
        "seed.sqlite.gz": gzip.compress(_database(rows), mtime=0),
        "seed.duckdb": _duckdb(rows),
        "seed.csv.zip": archive.getvalue(),
        "seed.csv.bz2": bz2.compress(text),
        "seed.csv.xz": lzma.compress(text),
        "seed.csv.zst": zstandard.compress(text),
        "seed.seq": "home cart home\nhome näh\n\ncart cart home\n".encode(),
        "seed.wide.csv": b"user,t1,t2,t3\n1,home,cart,\n2,home,,cart\n3,cart,cart,home\n",
    }
    for path in sorted(AGENTS.iterdir()):
        tables[f"seed-{path.stem}.traj"] = path.read_bytes()
    for name in ("claude-code", "opentelemetry", "tau-bench"):
        tables[f"seed-{name}.trace.json"] = tables[f"seed-{name}.traj"]
    return tables


def _written(write: Callable[[io.BytesIO], object]) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()


def _stream(frame: pa.Table, out: io.BytesIO) -> None:
    with ipc.new_stream(out, frame.schema) as file:
        file.write_table(frame)


def _sheet(out: io.BytesIO) -> None:
    book = openpyxl.Workbook()
    for sheet in (book.active, book.create_sheet("second")):
        for row in (list(ROWS), *zip(*ROWS.values(), strict=True)):
            sheet.append(row)
    book.save(out)


def _database(rows: list[dict[str, Any]]) -> bytes:
    """A table and a view of it."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA page_size = 512")
        connection.execute('CREATE TABLE events (user, "when", page, amount, ended)')
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", [tuple(row.values()) for row in rows])
        connection.execute("CREATE VIEW look AS SELECT page AS state FROM events")
        connection.commit()
        return connection.serialize()


def _duckdb(rows: list[dict[str, Any]]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.duckdb"
        with contextlib.closing(duckdb.connect()) as connection:
            connection.execute(f"ATTACH '{path}' AS seed (BLOCK_SIZE 16384)")  # the smallest
            connection.execute("USE seed")
            connection.execute('CREATE TABLE events (user INT, "when" DOUBLE, page TEXT, amount DOUBLE, ended BOOL)')
            connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", [tuple(row.values()) for row in rows])
            connection.execute("CREATE VIEW look AS SELECT page AS state FROM events")
        return path.read_bytes()


def _parquet(frame: pa.Table) -> bytes:
    out = io.BytesIO()
    parquet.write_table(frame, out)
    return out.getvalue()


def _npy(array: NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def _npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def save_runs(folder: Path) -> None:
    """A checkpoint for each support, and the results of each method."""
    x, y, cost = random_walk(3), random_walk(2, 0.7), [[0, 1], [1, 1], [1, 0]]
    steps.solve(x, y, cost, discount=0.9, n_steps=40, rng=0, checkpoint=folder / "seed.ck")
    steps.solve(x, y, cost, discount=0.9, n_steps=40, rng=0, support="observed", checkpoint=folder / "seed-observed.ck")
    somcot.distance(x, y, cost, discount=0.9).save(folder / "seed.result")
    data = x.sample(20, 10, rng=0), y.sample(20, 10, rng=1)
    somcot.distance(*data, cost, discount=0.9, confidence=0.9, rng=0).save(folder / "seed-data.result")
    somcot.distance(x, y, cost, discount=0.9, method="saddle", max_steps=20).save(folder / "seed-saddle.result")
    walks = [random_walk(3, p) for p in (0.3, 0.5, 0.7)]
    somcot.distance_matrix(walks, discount=0.9, checkpoint=folder / "seed.chunks").save(folder / "seed.matrix")
    sequences = np.arange(90) % 3
    for name, reference in (("seed", x), ("seed-data", x.sample(20, 10, rng=0))):
        watched = somcot.Monitor(reference, discount=0.9, window=20, timeout=5, one_false_alarm_per=100)
        watched.update(np.arange(90) % 4, sequences)
        watched.save(folder / f"{name}.monitor")
    kept = somcot.Samples.from_trajectories([["home", "cart", "home"], ["home", "näh"], ["cart", "cart"]])
    replace(kept, episode_attributes={"model": np.array(["new", "old", "old"])}).save(folder / "seed.somcot")


if __name__ == "__main__":
    CORPUS.mkdir(exist_ok=True)
    for name, content in files().items():
        (CORPUS / name).write_bytes(content)
    save_runs(CORPUS)
