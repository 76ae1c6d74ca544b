"""Results in files that hold no code: any tree of records, arrays, labels and numbers, there and back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing import container as checkpoint
from somcot.plumbing.lazy import Later, Lazy

__all__ = ["load", "save"]

Arrays = dict[str, NDArray[Any]]


def save(path: str | os.PathLike[str], record: Any, kind: str) -> None:
    """Write a record to `path`, replacing what is there in one move.

    Parameters
    ----------
    path : path
    record : dataclass instance
        Its fields, and theirs, may be arrays, numbers, text, None, tuples, mappings and further records.
    kind : str
        What the file is, checked by `load`.
    """
    arrays: Arrays = {}
    tree = _pack(record, "", arrays)
    checkpoint.write(path, arrays, {"kind": kind, "tree": tree})


def load(path: str | os.PathLike[str], kind: str, records: tuple[type, ...]) -> Any:
    """Read a record written by `save`; refuse anything else.

    Parameters
    ----------
    path : path
    kind : str
        What the file must be.
    records : tuple of types
        The record types that may occur; a file cannot name any other.
    """
    refusal = f"{os.fspath(path)}: not a somcot {kind} file"
    try:
        arrays, content = checkpoint.read(path)
        if content.get("kind") != kind:
            raise ValueError(f"it is a {content.get('kind', 'file of another kind')}")
        return _unpack(content["tree"], arrays, {record.__name__: record for record in records})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{refusal} ({error})") from None


def _pack(value: Any, place: str, arrays: Arrays) -> Any:
    """JSON for `value`, with its arrays put aside under their place in the tree."""
    if isinstance(value, Later):
        value = value()
    if isinstance(value, np.ndarray):
        arrays[place] = value
        return {"array": place}
    if hasattr(value, "_asdict"):
        return _pack_record(value, value._asdict(), place, arrays)
    if is_dataclass(value):
        return _pack_record(value, {f.name: getattr(value, f.name) for f in fields(value)}, place, arrays)
    if isinstance(value, tuple):
        return {"tuple": [_pack(part, f"{place}.{i}", arrays) for i, part in enumerate(value)]}
    if isinstance(value, Mapping):
        return {"mapping": {key: _pack(part, f"{place}.{key}", arrays) for key, part in value.items()}}
    if isinstance(value, np.generic):
        value = value.astype("M8[us]").item() if value.dtype.kind == "M" else value.item()
    if isinstance(value, (date, datetime)):
        return {"date" if type(value) is date else "datetime": value.isoformat()}
    if isinstance(value, Enum):
        return {"enum": [type(value).__name__, value.value]}
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    name = place.removeprefix(".").split(".")[0]
    raise TypeError(f"{name}: {value!r} of type {type(value).__name__} cannot be saved; use text or numbers")


def _pack_record(value: Any, parts: Mapping[str, Any], place: str, arrays: Arrays) -> Any:
    packed = {name: _pack(part, f"{place}.{name}", arrays) for name, part in parts.items()}
    return {"record": type(value).__name__, "fields": packed}


def _unpack(tree: Any, arrays: Arrays, types: Mapping[str, type]) -> Any:
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return arrays[tree["array"]]
    if "tuple" in tree:
        return tuple(_unpack(part, arrays, types) for part in tree["tuple"])
    if "mapping" in tree:
        return {key: _unpack(part, arrays, types) for key, part in tree["mapping"].items()}
    for kind in (date, datetime):
        if kind.__name__ in tree:
            return kind.fromisoformat(tree[kind.__name__])
    if "enum" in tree:
        return types[tree["enum"][0]](tree["enum"][1])
    record = types[tree["record"]]
    parts = {key: _unpack(part, arrays, types) for key, part in tree["fields"].items()}
    hints = get_type_hints(record)
    for key, part in parts.items():
        if not _fits(part, hints[key]):
            raise ValueError(f"{tree['record']}.{key} is a {type(part).__name__} that does not fit")
    return record(**parts)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is what the annotation of its field says; the sum in a file is no proof of what it holds."""
    kind, parts = get_origin(hint), get_args(hint)
    while hasattr(kind, "__value__"):  # NDArray is the name of a type, and no type, from NumPy 2.5 on
        kind = get_origin(kind.__value__)
    if kind is Lazy:
        return _fits(value, parts[0])
    if kind in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if kind is tuple:
        if isinstance(value, tuple) and parts[-1] is Ellipsis:
            return all(_fits(part, parts[0]) for part in value)
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(_fits, value, parts))
    if kind is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    if kind is Mapping:
        return isinstance(value, dict) and all(_fits(part, parts[1]) for part in value.values())
    if hint is float:  # whole numbers as well, as far as they are exact
        return isinstance(value, float) or (type(value) is int and abs(value) <= 2**53)
    return type(value) is int if hint is int else isinstance(value, kind or hint)
