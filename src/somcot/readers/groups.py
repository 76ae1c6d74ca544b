"""One table with many processes in it: a column says which row belongs to which."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from somcot.plumbing.errors import DataWarning, warn
from somcot.readers.batches import arrow, open_table
from somcot.readers.frames import open_frame
from somcot.readers.table import Table
from somcot.readers.tables import USUAL, classified, from_table
from somcot.recorded.recording import RewardSums
from somcot.samples import Samples

__all__ = ["FILE_OPTIONS", "LEAST", "collected", "parted", "split_table"]

LEAST = 30  # transitions below which a group says nothing
FILE_OPTIONS = ("format", "encoding", "delimiter", "lifecycle")


def split_table(data: Any, by: str, *, least: int = LEAST, **options: Any) -> dict[Hashable, Samples]:
    """Read a table that holds several processes: one for each value of a column (country, week, version).

    Parameters
    ----------
    data : path, frame or Arrow table
        As for `from_table`, or an event log as for `from_xes`. The columns needed are held in memory.
    by : str
        The column that tells processes apart; in event logs, ``case:NAME`` say. Sequences do not run from one into
        another.
    least : int
        Groups with fewer transitions are left out, with a `DataWarning` that lists them.
    **options
        Those of `from_table` (of `from_xes` for event logs), the same for all groups.

    Returns
    -------
    dict of Samples
        In the order of the values; all groups have the states of all.

    Examples
    --------
    >>> log = {"week": [1, 1, 2, 2, 2], "user": [1, 1, 1, 1, 1], "page": ["a", "b", "a", "a", "b"]}
    >>> {week: samples.n_transitions for week, samples in split_table(log, "week", sequence="user", state="page",
    ...                                                               least=1).items()}
    {1: 1, 2: 2}
    """
    if not isinstance(by, str):
        raise TypeError(f"by: found {by!r}, expected the name of a column")
    source = {name: options[name] for name in FILE_OPTIONS if name in options}
    rest = {name: value for name, value in options.items() if name not in (*FILE_OPTIONS, "classifier")}
    with open_table(data, **source) as table:
        if by not in table.columns:
            close = f"; did you mean 'case:{by}'?" if f"case:{by}" in table.columns else ""
            raise ValueError(
                f"{table.name}: there is no column {by!r}; the columns are {', '.join(table.columns[:12])}{close}"
            )
        if options.get("classifier") is not None:
            rest["state"] = classified(table, options["classifier"])
        name, whole = table.name, collected(table, by, rest)
    return parted(name, whole, by, rest, least)


def parted(
    name: str, whole: Any, by: str, rest: Mapping[str, Any], least: int, called: str | None = None
) -> dict[Hashable, Samples]:
    """The groups of an Arrow table by one of its columns, read with the options `rest` of `from_table`.

    Messages name the column, or call it as `called` says.
    """
    if rest.get("state") in (by, [by], (by,)):
        raise ValueError(f"by: {by!r} is the state, so each group would hold one alone; name what parts the processes")
    groups, few = {}, {}
    for label, rows in _parts(name, whole, by):
        try:
            with open_frame(rows.drop_columns([by]) if by not in _named(rest) else rows) as group:
                found = from_table(group._replace(name=f"{name}, {called or by} {label!r}"), **rest)
        except ValueError as error:
            if "no sequence has two rows" not in str(error):
                raise
            few[label] = 0
            continue
        if found.n_transitions < least:
            few[label] = found.n_transitions
        else:
            groups[label] = found
    if few:
        shown = ", ".join(f"{label} ({n})" for label, n in list(few.items())[:10])
        more = f" and {len(few) - 10} more" if len(few) > 10 else ""
        warn(f"{name}: {len(few)} group(s) with fewer than {least} transitions left out: {shown}{more}", DataWarning)
    if not groups:
        raise ValueError(
            f"{name}: no value of {called or by!r} has {least} transitions; name another column, or record longer"
        )
    return _on_shared_states(groups)


def _named(options: Mapping[str, Any]) -> set[str]:
    """Every text among the options: columns that may be needed."""
    found: set[str] = set()
    for value in options.values():
        found |= {value} if isinstance(value, str) else {v for v in value if isinstance(v, str)} if isinstance(
            value, (list, tuple, Mapping)) else set()  # fmt: skip
    return found


def collected(table: Table, by: str, options: Mapping[str, Any]) -> Any:
    """The columns that any option names or that are looked for, as one Arrow table."""
    pa = arrow()
    named, usual = _named(options), {name for names in USUAL.values() for name in names}
    wanted = [c for c in dict.fromkeys(table.columns) if c == by or c in named or c in usual]
    if "state" not in options and len(table.columns) == 2:
        wanted = list(table.columns)  # the other one is the state
    parts: dict[str, list[Any]] = {column: [] for column in wanted}
    for batch in table.batches(wanted):
        for column in wanted:
            values = batch[column]
            parts[column].append(values if hasattr(values, "null_count") else pa.array(values))
    return pa.table({column: pa.chunked_array(values) for column, values in parts.items()})


def _parts(name: str, whole: Any, by: str) -> list[tuple[Hashable, Any]]:
    """The rows of each group, in their order."""
    pa = arrow()
    column = whole[by].combine_chunks()
    column = pa.concat_arrays(column.chunks) if hasattr(column, "chunks") else column
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    if len(codes) and codes.min() < 0:
        raise ValueError(f"{name}: row {int((codes < 0).argmax()) + 1} has no {by!r}; fill it in, or remove the row")
    labels = coded.dictionary.to_pylist()
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(labels)))
    ordered = whole.take(pa.array(order))
    begins = np.append(0, ends[:-1])
    slices = {label: (int(a), int(b - a)) for label, a, b in zip(labels, begins, ends, strict=True) if b > a}
    try:
        names = sorted(slices)
    except TypeError:
        names = list(slices)
    return [(label, ordered.slice(*slices[label])) for label in names]


def _on_shared_states(groups: dict[Hashable, Samples]) -> dict[Hashable, Samples]:
    """Let all groups have the states of all: rows of equal states can then be compared."""
    every = dict.fromkeys(state for samples in groups.values() for state in samples.states)
    try:
        states = tuple(sorted(every))  # type: ignore[type-var]
    except TypeError:
        states = tuple(every)
    index = {state: i for i, state in enumerate(states)}
    return {label: _moved(samples, states, index) for label, samples in groups.items()}


def _moved(samples: Samples, states: tuple[Hashable, ...], index: dict[Hashable, int]) -> Samples:
    place = np.array([index[state] for state in samples.states], dtype=np.int32)
    initial = samples.initial
    if initial is not None:
        initial = np.zeros(len(states))
        initial[place] = samples.initial
    rewards = samples.rewards
    if rewards is not None:
        table = np.zeros((3, len(states)))
        table[:, place] = rewards
        rewards = RewardSums(table[0], table[1].astype(np.int64), table[2])
    return replace(
        samples, states=states, now=place[samples.now], following=place[samples.following], initial=initial,
        rewards=rewards,
    )  # fmt: skip
