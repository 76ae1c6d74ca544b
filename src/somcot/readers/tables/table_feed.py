"""Events for a monitor from any file: a CSV file that may grow, or a table of another format, read once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Codes
from somcot.readers.opening import Input, identify, open_bytes
from somcot.readers.tables import ArrowArray, Batch, Entry, Rows
from somcot.readers.tables.batches import open_table
from somcot.readers.tables.columns import ColumnRoles, is_whole
from somcot.readers.tables.csv_stream import EventBlock, Feed, Place
from somcot.readers.tables.numbers_and_times import NumberColumn

__all__ = ["TableFeed", "open_feed"]


def open_feed(
    path: str,
    codes: Callable[[list[Hashable]], Codes],
    keys: Callable[[ArrowArray], NDArray[np.uint64]],
    roles: ColumnRoles,
    place: Place,
    *,
    states: Sequence[Hashable] = (),
    follow: bool,
    skip: bool,
    delimiter: str | None,
    columns: Sequence[str] = (),
    note: Callable[[str], None] = print,
    format: str | None = None,  # noqa: A002
    **options: Any,
) -> Feed | TableFeed:
    """A feed for a file of any format; arguments as for `Feed`, and `options` as for `open_table`."""
    # Standard input as CSV is read by `Feed` itself, which needs no look at its beginning.
    source = None if path == "-" and format in (None, "csv", "tsv") else identify(path, format)
    if source is None or (source.format in ("csv", "tsv") and not source.parts and not _is_packed(source)):
        if source is not None and source.stream is not None:
            # `Feed` opens the file again, at the saved position.
            source.stream.close()
        return Feed(
            path, codes, keys, roles, place, states=states, follow=follow, skip=skip, delimiter=delimiter,
            columns=columns, note=note,
        )  # fmt: skip
    if follow:
        raise ValueError(f"{source.name}: only CSV files that are not compressed can be followed; leave out --follow")
    return TableFeed(source, codes, keys, roles, place, states=states, skip=skip, options=options)


def _is_packed(source: Input) -> bool:
    if source.path is None:
        return False
    with open_bytes(source) as stream:
        return getattr(stream, "name", None) is None  # unpacked on the fly


class TableFeed:
    """The rows of a table as blocks of events; ``place.offset`` is the number of rows that were returned."""

    def __init__(
        self,
        source: Input,
        codes: Callable[[list[Hashable]], Codes],
        keys: Callable[[ArrowArray], NDArray[np.uint64]],
        roles: ColumnRoles,
        place: Place,
        *,
        states: Sequence[Hashable],
        skip: bool,
        options: dict[str, Any],
    ) -> None:
        self.name, self.source = source.name, source
        self.codes, self.keys, self.roles, self.place, self.skip = codes, keys, roles, place, skip
        self.delimiter: str | None = None
        self.options = options
        tuples = [s if isinstance(s, tuple) else (s,) for s in states]
        n = max(len(roles.state), 1)
        # Where labels of the reference are integers, text from the file is converted to integers, too.
        self._whole = [any(len(s) == n and type(s[k]) is int for s in tuples) for k in range(n)]

    def close(self) -> None:
        """Close the file, which is open only while it is read."""

    def blocks(self) -> Iterator[EventBlock | None]:
        """Blocks of events."""
        before = self.place.offset
        with open_table(self.source, **self.options) as table:
            roles = self.roles.among(table)
            self.place.names = list(table.columns)
            for batch in table.batches(roles.wanted):
                n = len(next(iter(batch.values())))
                # Rows before the saved position were processed by an earlier run.
                skipped, before = min(before, n), max(before - n, 0)
                rows: dict[str, Any] = {name: _listed(values)[skipped:] for name, values in batch.items()}
                if n > skipped:
                    block = self._block(roles, rows)
                    self.place.offset += n - skipped
                    if block is not None:
                        yield block

    def _block(self, roles: ColumnRoles, rows: Rows) -> EventBlock | None:
        import pyarrow as pa

        columns = [self._labels(rows[name], k) for k, name in enumerate(roles.state)]
        labels: list[Entry] = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        # A joined state is missing if any of its parts is.
        known = [
            k for k, label in enumerate(labels) if label is not None and None not in (label if columns[1:] else ())
        ]
        if len(known) < len(labels):
            if not self.skip:
                raise ValueError(
                    f"{self.name}: a row has no {' / '.join(roles.state)}; fill it in, or pass --broken skip"
                )
            self.place.broken += len(labels) - len(known)
        if not known:
            return None
        keys = None
        if roles.sequence is not None:
            names = _listed(rows[roles.sequence])
            # As text: the same sequence must have the same key in every format.
            keys = self.keys(pa.array([str(names[k]) for k in known], pa.string()))
        codes = self.codes([labels[k] for k in known])
        if roles.time is None:
            return EventBlock(codes, keys, np.zeros(0), None)
        column = NumberColumn(self.name, roles.time, times=True, time_format=roles.time_format)
        column.add(rows[roles.time])
        # All rows, then the known ones: times are parsed by column.
        times = column.floats()[known]
        return EventBlock(codes, keys, times, column.holds_times)

    def _labels(self, values: Batch, k: int) -> list[Entry]:
        """Labels of the same kind as those of the reference."""
        whole = self._whole[k]
        return [int(v) if whole and isinstance(v, str) and is_whole(v) else v for v in _listed(values)]


def _listed(values: Batch) -> list[Entry]:
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)
