"""Properties of recordings in files, archives and databases, of traces of agents, and of recorded actions."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import sqlite3
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
from hypothesis import strategies as st

import somcot
from somcot import Samples, readers
from somcot.mdp import RecordedMDP
from tests.campaign.draws import Draw
from tests.campaign.streamed import recording, unless_refused

# Signs that are special somewhere; texts that could be numbers, times or missing are read as such from CSV.
SIGNS = "abñ雪 ,;|\"'=+@<>&\\#\n\t:{}[]$%"
LABEL = st.text(SIGNS, max_size=6).map(lambda text: f"s{text}e")
Paths = list[list[str]]
Steps = Counter[tuple[str, str]]


def quietly(check: Callable[[Draw], None]) -> Callable[[Draw], None]:
    """Without notes on rows out of order and actions never tried, which are the point."""

    @wraps(check)
    def ignoring(draw: Draw) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            check(draw)

    return ignoring


def paths(draw: Draw, label: st.SearchStrategy[str] = LABEL) -> Paths:
    """Sequences of at least two states."""
    labels = draw(st.lists(label, min_size=1, max_size=4, unique=True))
    found: Paths = draw(st.lists(st.lists(st.sampled_from(labels), min_size=2, max_size=7), min_size=1, max_size=5))
    return found


def table(recorded: Paths, first: int = 0) -> dict[str, list[Any]]:
    """One row for each state."""
    rows = [(f"u{first + k}", t, state) for k, path in enumerate(recorded) for t, state in enumerate(path)]
    return dict(zip(("user", "when", "page"), map(list, zip(*rows, strict=True)), strict=True))


def steps(found: Any) -> Steps:
    """How often each step occurs, by label."""
    counts = found.counts()
    counts = counts.toarray() if hasattr(counts, "toarray") else np.asarray(counts)
    states = found.states
    return Counter({(states[i], states[j]): int(counts[i, j]) for i, j in zip(*np.nonzero(counts), strict=True)})


def recorded_steps(recorded: Paths) -> Steps:
    return Counter(step for path in recorded for step in itertools.pairwise(path))


def _zipped(columns: dict[str, list[Any]], path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("folder/rows.csv", pl.DataFrame(columns).write_csv())


def _sqlite(columns: dict[str, list[Any]], path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute('CREATE TABLE events (user TEXT, "when" INTEGER, page TEXT)')
        connection.executemany("INSERT INTO events VALUES (?, ?, ?)", list(zip(*columns.values(), strict=True)))
        connection.commit()


def _duckdb(columns: dict[str, list[Any]], path: Path) -> None:
    with contextlib.closing(duckdb.connect(path)) as connection:
        connection.execute('CREATE TABLE events (user TEXT, "when" INTEGER, page TEXT)')
        connection.executemany("INSERT INTO events VALUES (?, ?, ?)", list(zip(*columns.values(), strict=True)))


WRITERS: dict[str, Callable[[dict[str, list[Any]], Path], Any]] = {
    "rows.csv": lambda columns, path: pl.DataFrame(columns).write_csv(path),
    "rows.tsv": lambda columns, path: pl.DataFrame(columns).write_csv(path, separator="\t"),
    "rows.jsonl": lambda columns, path: pl.DataFrame(columns).write_ndjson(path),
    "rows.json": lambda columns, path: pl.DataFrame(columns).write_json(path),
    "rows.parquet": lambda columns, path: pl.DataFrame(columns).write_parquet(path),
    "rows.arrow": lambda columns, path: pl.DataFrame(columns).write_ipc(path),
    "rows.avro": lambda columns, path: pl.DataFrame(columns).write_avro(path),
    "rows.csv.zip": _zipped,
    "rows.sqlite": _sqlite,
    "rows.duckdb": _duckdb,
}
COLUMNS: dict[str, Any] = {"sequence": "user", "time": "when", "state": "page"}


@quietly
def files_hold_what_was_written(draw: Draw) -> None:
    """Any format, any order of the rows: the recorded steps by label, and the same bits as those of a CSV file."""
    recorded = paths(draw)
    columns = table(recorded)
    order = draw(st.permutations(range(len(columns["user"]))))
    shuffled = {name: [values[k] for k in order] for name, values in columns.items()}
    name = draw(st.sampled_from(sorted(WRITERS)))
    with tempfile.TemporaryDirectory() as folder:
        plain, path = Path(folder, "plain.csv"), Path(folder, name)
        WRITERS["rows.csv"](columns, plain)
        WRITERS[name](shuffled, path)
        found, expected = readers.read(path, **COLUMNS), readers.read(plain, **COLUMNS)
        if name not in ("rows.sqlite", "rows.duckdb"):
            counted = readers.count_table(path, **COLUMNS)
            assert steps(counted) == recorded_steps(recorded)
    assert isinstance(found, Samples)
    assert steps(found) == steps(expected) == recorded_steps(recorded)
    assert found.n_episodes == len(recorded)


@quietly
def archives_are_their_files(draw: Draw) -> None:
    """A sequence may go on in the next file; folders, lists and archives hold the same; names alone set the order."""
    recorded = paths(draw)
    columns = table(recorded)
    n = len(columns["user"])
    cuts = [0, *sorted(draw(st.sets(st.integers(1, n - 1), max_size=3))), n]
    pieces = [{name: values[a:b] for name, values in columns.items()} for a, b in itertools.pairwise(cuts)]
    written = draw(st.permutations(range(len(pieces))))
    with tempfile.TemporaryDirectory() as place:
        folder, archive = Path(place, "rows"), Path(place, "rows.zip")
        folder.mkdir()
        with zipfile.ZipFile(archive, "w") as file:
            for k in written:
                text = pl.DataFrame(pieces[k]).write_csv()
                (folder / f"{k}.csv").write_text(text, encoding="utf-8", newline="")
                file.writestr(f"deep/{k}.csv", text)
        listed = [folder / f"{k}.csv" for k in range(len(pieces))]
        found: list[Any] = [readers.from_table(source, **COLUMNS) for source in (folder, archive, listed)]
        found += [readers.count_table(source, **COLUMNS) for source in (folder, archive, listed)]
    for one in found:
        assert steps(one) == recorded_steps(recorded)


def recordings_come_back_from_files(draw: Draw) -> None:
    """Saved and loaded, in any order of the sequences, merged of any two parts: the same steps, starts and ends."""
    recorded = paths(draw)
    ended = draw(st.lists(st.booleans(), min_size=len(recorded), max_size=len(recorded)))
    end = draw(st.sampled_from((None, "over")))
    if end is not None and not any(ended):
        ended[0] = True
    data = Samples.from_trajectories(recorded, terminated=ended, end=end)
    with tempfile.TemporaryDirectory() as folder:
        data.save(Path(folder, "rows.somcot"))
        again = Samples.load(Path(folder, "rows.somcot"))
    order = list(draw(st.permutations(range(len(recorded)))))
    moved = data.take(order)
    for one in (again, moved):
        assert steps(one) == steps(data)
        assert one.n_episodes == len(recorded)
        assert dict(zip(one.states, one.chain(check=False).initial.tolist(), strict=True)) == dict(
            zip(data.states, data.chain(check=False).initial.tolist(), strict=True)
        )
    assert again.terminated is not None
    assert moved.terminated is not None
    assert data.terminated is not None
    assert again.terminated.tolist() == data.terminated.tolist()
    assert moved.terminated.tolist() == [data.terminated[k] for k in order]
    cut = draw(st.integers(1, len(recorded))) if len(recorded) > 1 else 0
    if 0 < cut < len(recorded):
        merged = data.take(list(range(cut))).merge(data.take(list(range(cut, len(recorded)))))
        assert steps(merged) == steps(data)


TOOL = st.sampled_from(("look_up", "book", "Read", "answer-it", "näh", "a.b"))


def _openai(path: list[str]) -> Any:
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": str(k), "function": {"name": name}}]}
        for k, name in enumerate(path)
    ]


def _anthropic(path: list[str]) -> Any:
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": str(k), "name": name, "input": {}}]}
        for k, name in enumerate(path)
    ]


def traces_are_their_calls(draw: Draw) -> None:
    """One file for each session, of either kind, in a folder or an archive: the steps from tool to tool."""
    recorded = paths(draw, TOOL)
    kinds = draw(st.lists(st.sampled_from((_openai, _anthropic)), min_size=len(recorded), max_size=len(recorded)))
    lines = draw(st.booleans())
    with tempfile.TemporaryDirectory() as place:
        folder, archive = Path(place, "runs"), Path(place, "runs.zip")
        folder.mkdir()
        with zipfile.ZipFile(archive, "w") as file:
            for k in draw(st.permutations(range(len(recorded)))):
                text = json.dumps(kinds[k](recorded[k]), indent=None if lines else 1, ensure_ascii=lines)
                (folder / f"{k}.json").write_text(text, encoding="utf-8")
                file.writestr(f"{k}.json", text)
        found = [readers.from_traces(source, state_rules="names") for source in (folder, archive)]
    for one in found:
        assert steps(one) == recorded_steps(recorded)
        assert one.n_episodes == len(recorded)


def vectors_come_back_from_files(draw: Draw) -> None:
    """Arrays, tables and archives of tables hold the same points, episode by episode."""
    d = draw(st.integers(1, 3))
    data = recording(draw, d)
    episodes, names = data.episodes, [f"v{k}" for k in range(d)]
    columns: dict[str, Any] = {"run": np.repeat(np.arange(len(episodes)), [len(episode) for episode in episodes])}
    columns |= {name: data.points[:, k] for k, name in enumerate(names)}
    frame, out = pl.DataFrame(columns), io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        frame.write_csv(Path(folder, "v.csv"))
        frame.write_parquet(Path(folder, "v.parquet"))
        np.savez(out, *episodes)
        Path(folder, "v.npz").write_bytes(out.getvalue())
        found = [
            readers.read_vectors(Path(folder, name), state=names, sequence="run") for name in ("v.csv", "v.parquet")
        ]
        found.append(readers.read_vectors(Path(folder, "v.npz")))
    for one in found:
        assert one.points.tolist() == data.points.tolist()
        assert one.boundaries.tolist() == data.boundaries.tolist()


def actions(draw: Draw) -> list[list[tuple[int, int, float, int]]]:
    """Episodes of steps: state, action, reward, next state."""
    step = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(-2, 2).map(float))
    episodes = draw(st.lists(st.lists(step, min_size=1, max_size=6), min_size=1, max_size=5))
    last = draw(st.lists(st.integers(0, 3), min_size=len(episodes), max_size=len(episodes)))
    episodes[0][0], last[0] = (0, *episodes[0][0][1:]), 1  # two states are needed
    return [
        [(s, a, r, t) for (s, a, r), t in zip(path, [*(s for s, _, _ in path[1:]), end], strict=True)]
        for path, end in zip(episodes, last, strict=True)
    ]


def recorded_of(episodes: list[Any], names: list[Any], choices: list[Any], ended: list[bool]) -> RecordedMDP:
    """With other names for states and actions; each episode is terminated or truncated."""
    rows = [row for path in episodes for row in path]
    last = np.cumsum([len(path) for path in episodes]) - 1
    stops = np.zeros((2, len(rows)), np.bool_)
    stops[0, last], stops[1, last] = ended, ~np.array(ended)
    return RecordedMDP.from_transitions(
        [names[s] for s, _, _, _ in rows], [choices[a] for _, a, _, _ in rows], [r for _, _, r, _ in rows],
        [names[t] for _, _, _, t in rows], terminated=stops[0], truncated=stops[1],
    )  # fmt: skip


def by_label(found: RecordedMDP) -> tuple[Any, ...]:
    """Counts, rewards and starts with labels instead of places."""
    states, choices = found.states, found.actions
    visits = {
        (states[s], choices[a]): (int(found.visits[s, a]), round(float(found.rewards[s, a]), 12))
        for s, a in zip(*np.nonzero(found.visits), strict=True)
    }
    moves = {
        (states[s], choices[a], states[t]): round(float(found.transitions[s, a, t]), 12)
        for s, a, t in zip(*np.nonzero(found.transitions), strict=True)
        if found.visits[s, a]
    }
    starts = {states[s]: round(float(share), 12) for s, share in enumerate(found.initial) if share}
    return visits, moves, starts, found.n_transitions, found.n_episodes


@quietly
def recorded_actions_ignore_order_and_names(draw: Draw) -> None:
    """Episodes in any order: the same counts; other names: the same distance from another recording."""
    episodes = actions(draw)
    ended = draw(st.lists(st.booleans(), min_size=len(episodes), max_size=len(episodes)))
    states, choices = ["a", "b", "c", "d"], ["x", "y", "z"]
    data = recorded_of(episodes, states, choices, ended)
    order = list(draw(st.permutations(range(len(episodes)))))
    moved = recorded_of([episodes[k] for k in order], states, choices, [ended[k] for k in order])
    assert by_label(moved) == by_label(data)
    assert by_label(data.take(order)) == by_label(data)
    renamed = recorded_of(episodes, [f"{name}!" for name in states], [f"{name}?" for name in choices], ended)
    assert renamed.visits.sum() == data.visits.sum()
    assert sorted(renamed.visits.ravel().tolist()) == sorted(data.visits.ravel().tolist())
    whole = somcot.mdp.optimal(data.mdp(), discount=0.5).values
    again = somcot.mdp.optimal(renamed.mdp(), discount=0.5).values
    shown = {f"{name}!" if name in states else name: value for name, value in zip(data.states, whole, strict=True)}
    for name, value in zip(renamed.states, again, strict=True):
        assert abs(shown[name] - value) <= 1e-9


def recorded_actions_are_at_zero_from_themselves(draw: Draw) -> None:
    episodes = actions(draw)
    data = recorded_of(episodes, ["a", "b", "c", "d"], ["x", "y", "z"], [True] * len(episodes))
    order = list(draw(st.permutations(range(len(episodes)))))
    found = unless_refused("untried", lambda: somcot.mdp.distance(data, data.take(order), discount=0.5, rng=0))
    assert found is None or found.distance == 0.0


FILED: tuple[Callable[[Draw], None], ...] = (
    files_hold_what_was_written,
    archives_are_their_files,
    recordings_come_back_from_files,
    traces_are_their_calls,
    vectors_come_back_from_files,
    recorded_actions_ignore_order_and_names,
    recorded_actions_are_at_zero_from_themselves,
)
