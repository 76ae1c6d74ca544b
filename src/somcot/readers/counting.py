"""Tables larger than memory: counted part by part, here or on a cluster, and put together exactly.

A part is one file, read in blocks of a few million rows. Of a block remain its counts and, for every sequence, the
first and the last state (`recorded.edges`), so a sequence may run across blocks and files: the step across the border
is found when they are merged, in order.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.many.cluster import check_client
from somcot.plumbing.arrays import Bools, Codes, Ints
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.jit import kernel
from somcot.readers.batches import open_table
from somcot.readers.columns import LabelColumn, NumberColumn, is_arrow
from somcot.readers.folders import parts_of
from somcot.readers.table import Table
from somcot.recorded.counting import PairCounts, added, count_pairs
from somcot.recorded.counts import Counts
from somcot.recorded.edges import Edges
from somcot.recorded.recording import RewardSums, joined_rewards

__all__ = ["count_table", "warm_up"]

_BLOCK = 500_000  # rows counted at a time: few, so that they stay near the processor
_MANY, _LARGER = 0.02, 4  # sequences per row from which on blocks are so much larger: merging them is dear
_USUAL = {"state": ("state",), "sequence": ("sequence", "episode", "trajectory"), "time": ("time", "timestamp", "step")}


class _Roles(NamedTuple):
    """Which column plays which part, and how files are opened."""

    state: str | None
    sequence: str | None
    time: str | None
    reward: str | None
    terminated: bool
    source: dict[str, Any]


def count_table(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    state: str | None = None,
    sequence: str | None = None,
    time: str | None = None,
    reward: str | None = None,
    terminated: bool = False,
    initial: Any = None,
    client: Any = None,
    format: str | None = None,  # noqa: A002
    encoding: str = "utf-8",
    delimiter: str | None = None,
) -> Counts:
    r"""Count the transitions of a table in many files, however long it is.

    Parameters
    ----------
    paths : path, or sequence of paths
        Files, or folders with files, in order of time: a sequence may go on in the next file. Files of a folder are
        taken in the order of their names.
    state, sequence, time, reward : str, optional
        Columns, as for `from_table`. Where there are times, rows of a block are sorted by them; a sequence that goes
        back in time from one block or file to the next is refused.
    terminated : bool
        Whether the process ended for good with the last row of every sequence.
    initial : label, mapping, array_like or "stationary", optional
        The start law, as for `Samples.from_trajectories`.
    client : dask.distributed.Client, optional
        Count files on this cluster, whose workers must see the same paths.
    format, encoding, delimiter : str, optional
        Of the files, where their endings do not tell.

    Returns
    -------
    Counts
        The same, bit for bit, however the rows are spread over files.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "1.csv").write_text("user,page\n7,home\n8,home\n7,cart\n")
    >>> _ = (folder / "2.csv").write_text("user,page\n7,paid\n8,cart\n")
    >>> counts = count_table(folder, sequence="user", state="page")
    >>> counts
    Counts(3 states, 3 transitions, 2 episodes)
    """
    if not isinstance(terminated, (bool, np.bool_)):
        raise TypeError(
            f"terminated: found {terminated!r}, expected True or False; from_table knows a column that says so"
        )
    if client is not None:
        check_client(client)
    files = _files(paths)
    source = {"format": format, "encoding": encoding, "delimiter": delimiter}
    roles = _Roles(state, sequence, time, reward, bool(terminated), source)
    whole: Counts | None = None
    for file, part in zip(files, _counted(files, roles, client), strict=True):
        try:
            whole = part if whole is None else whole.merge(part)
        except ValueError as error:
            raise ValueError(f"{file}: {str(error).removeprefix('other: ')}; name the files in order of time") from None
    assert whole is not None
    return _checked(files, whole).with_start(initial)


def _files(paths: Any) -> list[str]:
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: list[str] = []
    for path in given:
        if Path(path).is_dir():
            inside = [str(part.path) for part in parts_of(Path(path))]
            if not inside:
                raise ValueError(f"{path}: a folder without tables; name the files")
            found += inside
        else:
            found.append(os.fspath(path))
    if not found:
        raise ValueError("paths: empty; name at least one file or folder")
    return found


def _counted(files: list[str], roles: _Roles, client: Any) -> Iterator[Counts]:
    """The counts of every file, in order; on a cluster a few files ahead."""
    if client is None:
        yield from (_count_file(file, roles) for file in files)
        return
    futures = client.map(_count_file, files, roles=roles, pure=False, retries=3)
    for k, future in enumerate(futures):
        yield future.result()
        futures[k] = None  # so that the cluster may forget it


def _count_file(file: str, roles: _Roles) -> Counts:
    with open_table(file, **{k: v for k, v in roles.source.items() if v is not None}) as table:
        return _File(table, roles).counts()


class _File:
    """One file as far as it is read: labels, counts between them, edges of its sequences."""

    def __init__(self, table: Table, roles: _Roles) -> None:
        self.table, self.ended = table, roles.terminated
        self.names = {
            role: _column(table, role, getattr(roles, role)) for role in ("state", "sequence", "time", "reward")
        }
        state = self.names["state"]
        if state is None:
            raise ValueError(f"{table.name}: which column is the state? Pass state; the columns are {_shown(table)}")
        self.labels = LabelColumn(table.name, state, is_text=table.is_text)
        self.pairs: list[PairCounts] = []
        self.edges: Edges | None = None
        self.n_sequences = 0  # of the last block
        self.rewards: RewardSums | None = None

    def counts(self) -> Counts:
        """Read all blocks and put them together; labels are sorted in the end."""
        for block in self._blocks():
            self._add(block)
        if self.edges is None:
            raise ValueError(f"{self.table.name}: no rows; check how the table was written")
        n_raw = len(self.labels.index)
        self.labels.parts = [np.arange(n_raw, dtype=np.int32)]
        places, order = self.labels.finish()
        if (places < 0).any():
            state = self.names["state"]
            raise ValueError(f"{self.table.name}: rows without a {state!r}; fill it in, or remove them")
        n = len(order)
        pairs = added([part.at(places, n) for part in self.pairs])
        none = np.zeros(n, np.int64)
        rewards = joined_rewards(self.rewards, places, None, places[:0], n)
        return Counts(tuple(order), pairs, none, none > 0, edges=self.edges.moved(places), rewards=rewards)

    def _blocks(self) -> Iterator[dict[str, list[Any]]]:
        wanted = [name for name in self.names.values() if name is not None]
        block: dict[str, list[Any]] = {name: [] for name in wanted}
        n, enough = 0, _BLOCK
        for batch in self.table.batches(list(dict.fromkeys(wanted))):
            for name in block:
                block[name].append(batch[name])
            n += len(batch[wanted[0]])
            if n >= enough:
                yield block
                enough = _BLOCK * (_LARGER if self.n_sequences > _MANY * n else 1)
                block, n = {name: [] for name in wanted}, 0
        if n:
            yield block

    def _add(self, block: dict[str, list[Any]]) -> None:
        states = np.concatenate([self._codes(values) for values in block[self.labels.name]])
        if self.names["reward"] is not None:
            self._add_rewards(block[self.names["reward"]], states)
        ids, codes = self._sequences(block, len(states))
        times = None
        if self.names["time"] is not None:
            column = NumberColumn(self.table.name, self.names["time"], times=True)
            for values in block[self.names["time"]]:
                column.add(values)
            times = column.finish()
        self.n_sequences = len(ids)
        before, edges = _followed(ids, codes, states, times, self.ended)
        if before is None:  # rows of a sequence out of order: sort the block, ties as found
            assert times is not None
            order = np.argsort(times, kind="stable")
            before, edges = _followed(ids, codes[order], states[order], times[order], self.ended)
            states = states[order]
            assert before is not None
        taken = before >= 0
        n = len(self.labels.index)
        new = [count_pairs(before[taken], states[taken], n)]
        if self.edges is None:
            self.edges = edges
        else:
            try:
                self.edges, now, following = self.edges.then(edges)
            except ValueError as error:
                text = str(error).removeprefix("other: ").partition("; merge")[0]
                raise ValueError(f"{self.table.name}: {text}; sort the table by time") from None
            new.append(count_pairs(now, following, n))
        kept = np.arange(n, dtype=np.int32)
        self.pairs = [added([part.at(kept, n) for part in (*self.pairs, *new)])]

    def _add_rewards(self, values: list[Any], states: Codes) -> None:
        column = NumberColumn(self.table.name, str(self.names["reward"]))
        for part in values:
            column.add(part)
        n = len(self.labels.index)
        found = RewardSums.of(column.floats(), states, n)
        before = np.arange(0 if self.rewards is None else len(self.rewards.total), dtype=np.int32)
        self.rewards = joined_rewards(self.rewards, before, found, np.arange(n, dtype=np.int32), n)

    def _codes(self, values: Any) -> Codes:
        self.labels.add(values)
        return self.labels.parts.pop()

    def _sequences(self, block: dict[str, list[Any]], n: int) -> tuple[NDArray[Any], Codes]:
        """Names of the sequences in a block, sorted, and the number of that of each row."""
        name = self.names["sequence"]
        if name is None:
            return np.zeros(1, np.int64), np.zeros(n, np.int32)
        return _encoded(self.table.name, name, block[name])


def _column(table: Table, role: str, name: str | None) -> str | None:
    if name is None:
        usual = next((n for n in _USUAL.get(role, ()) if n in table.columns), None)
        return table.columns[0] if usual is None and role == "state" and len(table.columns) == 1 else usual
    if not isinstance(name, str):
        raise TypeError(f"{role}: found {name!r}, expected the name of a column")
    if table.complete and name not in table.columns:
        raise ValueError(f"{table.name}: there is no column {name!r}; the columns are {_shown(table)}")
    return name


def _shown(table: Table) -> str:
    return ", ".join(table.columns[:12])


def _encoded(source: str, name: str, parts: list[Any]) -> tuple[NDArray[Any], Codes]:
    """Distinct values, sorted, and the place of each row's among them."""
    import pyarrow as pa

    arrays = [part if is_arrow(part) else pa.array(part) for part in parts]
    column = pa.chunked_array(arrays)
    if column.null_count:
        raise ValueError(f"{source}: column {name!r} has {column.null_count} rows without a sequence; fill them in")
    if pa.types.is_integer(column.type):
        return _whole_numbers(column.to_numpy().astype(np.int64, copy=False))
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
        column = column.cast(column.type.value_type)
    coded = pa.concat_arrays(column.dictionary_encode().unify_dictionaries().chunks)
    labels = np.array([str(label) for label in coded.dictionary.to_pylist()])
    order = np.argsort(labels, kind="stable")
    rank = np.empty(len(labels), dtype=np.int32)
    rank[order] = np.arange(len(labels))
    return labels[order], rank[coded.indices.to_numpy(zero_copy_only=False)]


def _whole_numbers(values: Ints) -> tuple[Ints, Codes]:
    step = values[1:] != values[:-1]
    if (values[1:] >= values[:-1]).all():  # sorted by sequence: nothing to look up
        codes = np.concatenate([np.zeros(1, np.int32), np.cumsum(step, dtype=np.int32)])
        return values[np.concatenate([[True], step])], codes
    low = int(values.min())
    span = int(values.max()) - low + 1
    if span > 8 * len(values) + 1_000_000:
        ids, codes = np.unique(values, return_inverse=True)
        return ids, codes.astype(np.int32)
    seen = np.zeros(span, dtype=np.bool_)
    seen[values - low] = True
    place = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(seen) + low, place[values - low]


def _followed(
    ids: NDArray[Any], codes: Codes, states: Codes, times: NDArray[Any] | None, ended: bool
) -> tuple[Codes | None, Edges]:
    """The state before each row in its sequence, -1 for the first ones, and the edges; None where time goes back."""
    m = len(ids)
    before = np.empty(len(codes), dtype=np.int32)
    first, last = np.full(m, -1, np.int32), np.full(m, -1, np.int32)
    rows = np.zeros(m, dtype=np.int64)
    moments = np.zeros(0) if times is None else times.astype(np.float64)
    begin, finish = np.zeros(m if times is not None else 0), np.zeros(m if times is not None else 0)
    forward = _walk(codes, states, moments, before, first, last, rows, begin, finish)
    flags: Bools = np.full(m, ended)
    edges = Edges(ids, first, last, rows, flags, *((begin, finish) if times is not None else ()))
    return before if forward else None, edges


@kernel
def _walk(codes, states, times, before, first, last, rows, begin, finish):
    """One pass over the rows; False as soon as a sequence goes back in time."""
    timed = times.size > 0
    for i in range(codes.size):
        s = codes[i]
        before[i] = last[s]
        if last[s] < 0:
            first[s] = states[i]
            if timed:
                begin[s] = times[i]
        elif timed and times[i] < finish[s]:
            return False
        if timed:
            finish[s] = times[i]
        last[s] = states[i]
        rows[s] += 1
    return True


def _checked(files: list[str], found: Counts) -> Counts:
    assert found.edges is not None
    name = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    if not found.n_transitions:
        raise ValueError(f"{name}: no sequence has two rows, so there is no step to count; check the sequence column")
    single = int((found.edges.rows == 1).sum())
    if single:
        warn(f"{name}: {single:,} of {len(found.edges.ids):,} sequences have a single row, hence no step", DataWarning)
    return found


def warm_up() -> None:
    """Have the pass over rows compiled."""
    one = np.zeros(1, np.int32)
    _followed(np.zeros(1, np.int64), one, one, np.zeros(1), False)
