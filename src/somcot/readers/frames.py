"""Tables in memory, or not read yet: pandas and polars frames, lazy ones, relations, whatever Arrow can stream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from somcot.readers.table import Table

__all__ = ["is_frame", "open_frame"]

_STREAMS = ("__arrow_c_stream__", "__arrow_c_array__", "scanner", "collect_schema")


def is_frame(data: Any) -> bool:
    """Whether something holds columns: it streams them to Arrow, or is a mapping, an Arrow dataset or a lazy frame."""
    return isinstance(data, Mapping) or any(hasattr(data, name) for name in _STREAMS) or hasattr(data, "collect")


@contextlib.contextmanager
def open_frame(data: Any) -> Iterator[Table]:
    """Open a frame; where it can tell columns apart, only those that are wanted are converted."""
    name = f"{type(data).__module__.split('.')[0]} {type(data).__name__}"
    with _named(name):
        yield _table(name, data)


def _table(name: str, data: Any) -> Table:
    import pyarrow as pa

    if hasattr(data, "collect_schema") and hasattr(data, "collect"):  # a polars LazyFrame
        columns = data.collect_schema().names()
        return _chosen(name, columns, lambda wanted: _exportable(name, data.select(list(wanted)).collect()))
    if hasattr(data, "select") and type(data).__module__.startswith("polars"):
        return _chosen(name, list(data.columns), lambda wanted: _exportable(name, data.select(list(wanted))))
    if hasattr(data, "scanner") and hasattr(data, "schema"):  # an Arrow dataset
        return _chosen(name, list(data.schema.names), lambda wanted: data.scanner(columns=list(wanted)).to_reader())
    if hasattr(data, "iloc") and hasattr(data, "columns"):  # pandas: columns that nobody asked for may be anything
        known = {str(column): column for column in reversed(list(data.columns))}
        return _chosen(name, [str(c) for c in data.columns], lambda wanted: data[[known[c] for c in wanted]])
    if isinstance(data, Mapping):
        data = pa.table(dict(data))
    elif not hasattr(data, "__arrow_c_stream__"):
        data = _collected(data) if hasattr(data, "collect") else pa.Table.from_batches([pa.record_batch(data)])
    reader = data.to_reader() if hasattr(data, "to_reader") else pa.RecordBatchReader.from_stream(data)
    objects = _object_columns(data)
    return Table(name, list(reader.schema.names), False, lambda wanted: _batches(name, reader, wanted, objects))


def _chosen(name: str, columns: list[str], select: Any) -> Table:
    """A table of which any columns can be had on their own."""

    def batches(wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
        import pyarrow as pa

        found = select(wanted)
        try:
            reader = found if isinstance(found, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(found)
        except (pa.ArrowException, TypeError) as error:
            column = next((c for c in wanted if _fails(select([c]))), wanted[0])
            raise ValueError(f"{name}: column {column!r} {_words(error)}") from None
        for batch in _batches(name, reader, reader.schema.names, _object_columns(found)):
            yield dict(zip(wanted, batch.values(), strict=False))

    return Table(name, columns, False, batches)


def _fails(found: Any) -> bool:
    """Whether Arrow cannot take a frame; of polars' objects it takes the addresses."""
    import pyarrow as pa

    try:
        pa.RecordBatchReader.from_stream(found)
    except (pa.ArrowException, TypeError):
        return True
    return False


def _words(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"cannot be read ({first[:160]}); convert it to text or numbers"


def _exportable(name: str, frame: Any) -> Any:
    """A polars frame without whole numbers of 128 bits, of which Arrow knows nothing: they become 64 bits wide."""
    for column, kind in dict(frame.schema).items():
        if str(kind) in ("Int128", "UInt128"):
            narrow = frame[column].cast(type(frame.schema[column]).from_python(int), strict=False)
            if narrow.null_count() > frame[column].null_count():
                raise ValueError(f"{name}: column {column!r} holds numbers beyond 64 bits; convert it to text")
            frame = frame.with_columns(narrow)
    return frame


def _collected(data: Any) -> Any:
    found = data.collect()
    if not hasattr(found, "__arrow_c_stream__"):
        raise TypeError(f"data: {type(data).__name__}.collect() gave {type(found).__name__}, expected a frame")
    return found


def _batches(name: str, reader: Any, wanted: Sequence[str], objects: set[str]) -> Iterator[dict[str, Any]]:
    for column in objects.intersection(wanted):
        raise ValueError(f"{name}: column {column!r} holds Python objects; convert it to text or numbers")
    places = {column: reader.schema.get_field_index(column) for column in wanted}
    for batch in reader:
        yield {column: batch.column(place) for column, place in places.items()}


def _object_columns(data: Any) -> set[str]:
    """Columns of a polars frame with Python objects, which Arrow would take for the bytes of their addresses."""
    schema = getattr(data, "schema", None) if type(data).__module__.startswith("polars") else None
    return set() if schema is None else {column for column, kind in dict(schema).items() if str(kind) == "Object"}


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Give errors of Arrow about a frame in memory the name of the frame and a remedy."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException as error:
        raise ValueError(f"{name}: a column {_words(error)}") from None
