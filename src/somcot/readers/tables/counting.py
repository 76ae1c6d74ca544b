"""Tables larger than memory: counted in parts, locally or on a cluster, and combined exactly.

A part is one file, read in blocks of some hundred thousand rows (`streaming_counts`). Only its counts are kept and, for
every sequence, the first and the last state (`recorded.pair_counts`), so a sequence may continue across files: the step
across the border is reconstructed when files are merged, in order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from somcot.plumbing.arrays import Codes, Floats, Ints
from somcot.plumbing.checks import check_client
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note, Share
from somcot.readers.opening import Input, identify
from somcot.readers.tables import Array, Batch, Table
from somcot.readers.tables.batches import open_table
from somcot.readers.tables.columns import LabelColumn
from somcot.readers.tables.event_tables import roles_of
from somcot.readers.tables.numbers_and_times import NumberColumn
from somcot.readers.tables.rows import note_one_sequence
from somcot.readers.tables.streaming_counts import (
    BackInTimeError,
    Named,
    Numbered,
    RowBlock,
    by_name,
    by_number,
    sequence_column,
    whole_numbers,
)
from somcot.recorded.counts import Counts, Start, joined_rewards
from somcot.recorded.pair_counts import PairCounts, added
from somcot.recorded.recording import RewardSums

__all__ = ["count_table"]

Client: TypeAlias = Any  # a dask.distributed client
_BLOCK = 200_000  # rows per block: few enough for the processor's cache
_MANY, _LARGER = 0.02, 2_000_000  # named sequences per row above which blocks are larger: merging is costly


class _Roles(NamedTuple):
    """The roles of columns, and how files are opened."""

    state: str | None
    sequence: str | None
    time: str | None
    reward: str | None
    terminated: bool
    time_format: str | None
    source: dict[str, str | None]


def count_table(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    state: str | None = None,
    sequence: str | None = None,
    time: str | None = None,
    reward: str | None = None,
    terminated: bool = False,
    initial: Start = None,
    client: Client | None = None,
    format: str | None = None,  # noqa: A002
    encoding: str = "utf-8",
    delimiter: str | None = None,
    time_format: str | None = None,
) -> Counts:
    r"""Count the transitions of a table in many files, of any length.

    Parameters
    ----------
    paths : path, pattern, or sequence of paths
        Files, or folders with files, in order of time: a sequence may continue in the next file. Files of a folder, an
        archive or a pattern are read in the order of their names.
    state, sequence, time, reward : str, optional
        Columns, as for `from_table`. If there are times, the rows of a block are sorted by them; a sequence that goes
        back in time from one block or file to the next is refused.
    terminated : bool
        Whether the process terminated with the last row of every sequence.
    initial : label, mapping, array_like or "stationary", optional
        The initial distribution, as for `Samples.from_trajectories`.
    client : dask.distributed.Client, optional
        Count files on this cluster, whose workers need access to the same paths.
    format, encoding, delimiter : str, optional
        Format of the files, if their extensions do not tell.
    time_format : str, optional
        As for `from_table`.

    Returns
    -------
    Counts
        The same, bit for bit, for any distribution of the rows over files.

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
        raise TypeError(f"terminated: found {terminated!r}, expected True or False; from_table accepts a column")
    if state is not None and not isinstance(state, str):
        raise TypeError(f"state: found {state!r}, expected the name of one column; from_table joins several")
    if client is not None:
        check_client(client)
    # Before a cluster is busy: a missing file should be an error at once.
    files = _files(paths, format)
    source = {"encoding": encoding, "delimiter": delimiter}
    roles = _Roles(state, sequence, time, reward, bool(terminated), time_format, source)
    total: Counts | None = None
    for file, part in zip(files, _counted(files, roles, client), strict=True):
        try:
            # Merged in the order of the files: a sequence may continue in the next one.
            total = part if total is None else total.merge(part)
        except ValueError as error:
            raise ValueError(
                f"{file.name}: {str(error).removeprefix('other: ')}; name the files in order of time"
            ) from None
    assert total is not None
    return _checked([file.name for file in files], total).with_start(initial)


def _files(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], format: str | None) -> list[Input]:  # noqa: A002
    if not isinstance(paths, (str, os.PathLike)) and not len(paths):
        raise ValueError("paths: empty; name at least one file or folder")
    source = identify(paths, format)
    return [source] if not source.parts or source.format == "traces" else [part.source for part in source.parts]


def _counted(files: list[Input], roles: _Roles, client: Client | None) -> Iterator[Counts]:
    """The counts of every file, in order; a cluster works a few files ahead."""
    if client is None:
        yield from (_count_file(file, roles) for file in files)
        return
    # Not pure: a file can change while its name stays the same.
    futures = client.map(_count_file, files, roles=roles, pure=False, retries=3)
    for k, future in enumerate(futures):
        yield future.result()
        futures[k] = None  # lets the cluster release it


def _count_file(file: Input, roles: _Roles) -> Counts:
    with open_table(file, **{k: v for k, v in roles.source.items() if v is not None}) as table:
        return _File(table, roles).counts()


class _File:
    """One file during reading: labels, counts between them, and the current states of its sequences."""

    def __init__(self, table: Table, roles: _Roles) -> None:
        self.table, self.ended = table, roles.terminated
        named = roles.state, roles.sequence, roles.time, roles.reward
        self.columns = roles_of(table, *named, terminated=False, time_format=roles.time_format)
        note_one_sequence(table, self.columns)
        # One table of labels for all blocks, so that codes stay valid.
        self.labels = LabelColumn(table.name, self.columns.state[0], is_text=table.is_text)
        self.pairs: list[PairCounts] = []
        timed = self.columns.time is not None
        self.numbered: Numbered | None = Numbered(timed)  # as long as its sequences are integers in a narrow range
        self.named = Named(timed, roles.terminated)
        self.share = 0.0  # sequences per row in the last block
        self.rewards: RewardSums | None = None

    def counts(self) -> Counts:
        """Read all blocks and combine them; labels are sorted at the end."""
        empty = True
        for block in self._blocks():
            self._add(block)
            empty = False
        if empty:
            raise ValueError(f"{self.table.name}: no rows; check how the table was written")
        self._name_sequences()
        assert self.named.known is not None
        # Labels can be sorted only now, when all of them are known.
        found, order = self.labels.ranked()
        places = found.astype(np.int32)
        if (places < 0).any():
            raise ValueError(f"{self.table.name}: rows without a {self.labels.name!r}; fill it in, or remove them")
        n = len(order)
        pairs = added([part.at(places, n) for part in self.pairs])
        none = np.zeros(n, np.int64)
        rewards = joined_rewards(self.rewards, places, None, places[:0], n)
        edges = self.named.known.moved(places)
        return Counts(tuple(order), pairs, none, none > 0, edges=edges, rewards=rewards)

    def _blocks(self) -> Iterator[dict[str, list[Batch]]]:
        names = list(dict.fromkeys(self.columns.wanted))
        block: dict[str, list[Batch]] = {name: [] for name in names}
        n = 0
        for batch in self.table.batches(names):
            for name in block:
                block[name].append(batch[name])
            n += len(batch[names[0]])
            # Few sequences per row keep the blocks in the processor's cache; many make merging costly.
            if n >= (_LARGER if self.share > _MANY else _BLOCK):
                yield block
                block, n = {name: [] for name in names}, 0
        if n:
            yield block

    def _add(self, block: dict[str, list[Batch]]) -> None:
        states = _one([self._codes(values) for values in block[self.labels.name]])
        if self.columns.reward is not None:
            self._add_rewards(block[self.columns.reward], states)
        rows = RowBlock(states, self._times(block), len(self.labels.index))
        try:
            new = self._passed(rows, block)
        except BackInTimeError as error:
            raise ValueError(f"{self.table.name}: {error}; sort the table by time") from None
        n = rows.n_states
        kept = np.arange(n, dtype=np.int32)
        # Earlier counts are widened to the states known by now.
        self.pairs = [added([part.at(kept, n) for part in (*self.pairs, *new)])]

    def _passed(self, rows: RowBlock, block: dict[str, list[Batch]]) -> list[PairCounts]:
        """The steps of a block, including those from earlier blocks."""
        name = self.columns.sequence
        if name is None:
            # Without a sequence column the whole file is one sequence.
            ids: Ints | None = np.zeros(len(rows.states), np.int64)
        else:
            column = sequence_column(self.table.name, name, block[name])
            ids = whole_numbers(column)
        if self.numbered is not None and ids is not None and self.numbered.fits(ids):
            return self.numbered.add(rows, ids)
        # Once names appear, numbers are treated as names too.
        steps = self._name_sequences()
        names, codes = by_name(column) if ids is None else by_number(ids)
        self.share = len(names) / len(codes)
        return [*steps, *self.named.add(rows, names, codes)]

    def _name_sequences(self) -> list[PairCounts]:
        """Switch to named sequences; return the steps that this reveals."""
        if self.numbered is None:
            return []
        numbered, self.numbered = self.numbered, None
        edges = numbered.edges(ended=self.ended)
        return self.named.join(edges, len(self.labels.index)) if len(edges.ids) else []

    def _times(self, block: dict[str, list[Batch]]) -> Floats | None:
        if self.columns.time is None:
            return None
        column = NumberColumn(self.table.name, self.columns.time, times=True, time_format=self.columns.time_format)
        for values in block[self.columns.time]:
            column.add(values)
        return column.floats()

    def _add_rewards(self, values: list[Batch], states: Codes) -> None:
        column = NumberColumn(self.table.name, str(self.columns.reward))
        for part in values:
            column.add(part)
        n = len(self.labels.index)
        sums = RewardSums.of(column.floats(), states, n)
        before = np.arange(0 if self.rewards is None else len(self.rewards.total), dtype=np.int32)
        self.rewards = joined_rewards(self.rewards, before, sums, np.arange(n, dtype=np.int32), n)

    def _codes(self, values: Batch) -> Codes:
        return self.labels.coded(values).astype(np.int32)


def _one(parts: list[Array]) -> Array:
    """One array; a single part is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _checked(files: list[str], counts: Counts) -> Counts:
    assert counts.edges is not None
    name = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    if not counts.n_transitions:
        raise ValueError(Note("no-step", name, sequences=""))
    single = int((counts.edges.rows == 1).sum())
    if single:
        warn(Note("single-rows", name, share=Share(single, len(counts.edges.ids))), DataWarning)
    return counts
