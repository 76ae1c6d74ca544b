"""Serialisation of records: trees of records, arrays, labels and numbers in files without executable code.

A file is one line of text with a SHA-256 sum, then a safetensors block whose metadata contain a JSON record. It is
replaced atomically (`plumbing.files`), so the last complete file always stays readable.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.files import Path_, replacing
from somcot.plumbing.memory import require

__all__ = [
    "VIEWS",
    "CheckpointError",
    "load",
    "load_function",
    "option_names",
    "read_arrays",
    "save",
    "takes",
    "view",
    "write_arrays",
]


# --- Checkpoint files: written atomically, verified when read, without executable code.

MAGIC = b"somcot checkpoint 1 sha256 "
HEAD = len(MAGIC) + 64 + 1


class CheckpointError(ValueError):
    """A file is not a checkpoint, is damaged, or belongs to another run."""


def write_arrays(path: Path_, arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any]) -> None:
    """Write arrays and a JSON record to `path`, replacing an existing file atomically.

    Examples
    --------
    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "run.ck")
    >>> write_arrays(path, {"a": np.arange(3)}, {"step": 7})
    >>> arrays, record = read_arrays(path)
    >>> arrays["a"], record["step"]
    (array([0, 1, 2]), 7)
    """
    from safetensors.numpy import save

    block = save(
        # Safetensors refuses non-contiguous arrays.
        {name: np.ascontiguousarray(array) for name, array in arrays.items()},
        metadata={"somcot": json.dumps(record)},
    )
    head = MAGIC + hashlib.sha256(block).hexdigest().encode("ascii") + b"\n"
    with replacing(path) as stream:
        stream.write(head)
        stream.write(block)


def read_arrays(path: Path_) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read a file written by `write_arrays`; raise a `CheckpointError` for any other."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    name = os.fspath(path)
    # The file and a copy of its arrays, before it is read.
    require(2.0 * os.path.getsize(path), name, "use a larger machine")
    data = Path(path).read_bytes()
    if not data.startswith(MAGIC) or data[HEAD - 1 : HEAD] != b"\n":
        raise CheckpointError(f"{name}: not a somcot checkpoint; name another file")
    block = data[HEAD:]
    if hashlib.sha256(block).hexdigest().encode("ascii") != data[len(MAGIC) : HEAD - 1]:
        raise CheckpointError(f"{name}: damaged (its SHA-256 sum does not match); restore an older copy")
    try:
        # The header is read here, since safetensors' NumPy loader does not return metadata.
        size = int.from_bytes(block[:8], "little")
        record = json.loads(json.loads(block[8 : 8 + size])["__metadata__"]["somcot"])
        if not isinstance(record, dict):
            raise ValueError(f"its record is a {type(record).__name__}")
        # Copies: the loaded arrays would keep the whole block alive and be read-only.
        arrays = {key: array.copy() for key, array in load(block).items()}
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{name}: not a somcot checkpoint ({error})") from None
    return arrays, record


# --- Functions imported by name on demand; options of functions.

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


# Views of records that higher layers provide: the only upward imports, each loaded by a test.
VIEWS = {
    "contributions": "somcot.inference.row_tests:contributions",
    "costs.emissions": "somcot.hidden:emission_cost",
    "drift.card": "somcot.report.many_facts:drift_card",
    "drift.page": "somcot.report.many_facts:write_drift",
    "drift.plot": "somcot.plots.collections:drift",
    "findings": "somcot.inference.findings:findings",
    "matches": "somcot.inference.findings:matches",
    "result.card": "somcot.report.facts:result_card",
    "result.page": "somcot.report:write",
    "sample_size.plot": "somcot.plots.collections:power_curve",
    "transfer.plot": "somcot.plots.collections:transfer_bound",
}


def view(name: str) -> Callable[..., Any]:
    """A function of a higher layer that displays or examines a record."""
    return load_function(VIEWS[name])


def load_function(where: str) -> Callable[..., Any]:
    """Import a function specified as ``"module:function"``.

    Examples
    --------
    >>> load_function("math:hypot")(3, 4)
    5.0
    """
    module, name = where.split(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


def takes(record: type) -> Callable[[F], F]:
    """Decorator: show ``**options`` in the signature of a function as the fields of a dataclass.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Options:
    ...     speed: float = 1.0
    >>> @takes(Options)
    ... def move(x: int, **options: float) -> float:
    ...     return x * Options(**options).speed
    >>> inspect.signature(move)
    <Signature (x: 'int', *, speed: 'float' = 1.0) -> 'float'>
    """

    def shown(function: F) -> F:
        signature = inspect.signature(function)
        # A decorated function may have options of its own besides those of the record.
        named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type)
            for f in fields(record)
            if f.name not in signature.parameters
        ]
        function.__signature__ = signature.replace(parameters=[*named, *more])  # type: ignore[attr-defined]
        return function

    return shown


def option_names(function: Callable[..., Any]) -> list[str]:
    """Names of the keyword-only arguments of a function.

    Examples
    --------
    >>> option_names(lambda x, *, speed=1: x)
    ['speed']
    """
    return list(_option_names(function))


@cache
def _option_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Cached, because reading a signature takes as long as solving a problem with ten states."""
    return tuple(p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY)


# --- Saving and loading trees of records.

Arrays = dict[str, NDArray[Any]]
NAMES = {"ContributionInputs": "Makeup"}  # names of renamed classes in files


def save(path: str | os.PathLike[str], record: Any, kind: str) -> None:
    """Write a record to `path`, replacing an existing file atomically.

    Parameters
    ----------
    path : path
    record : dataclass instance
        Its fields, and theirs, may be arrays, numbers, text, None, tuples, mappings and further records.
    kind : str
        Kind of the file, checked by `load`.
    """
    arrays: Arrays = {}
    tree = _pack(record, "", arrays)
    write_arrays(path, arrays, {"kind": kind, "tree": tree})


def load(path: str | os.PathLike[str], kind: str, record: type[T], parts: tuple[type, ...]) -> T:
    """Read a record written by `save`; refuse anything else.

    Parameters
    ----------
    path : path
    kind : str
        Expected kind of the file.
    record : type
        Type of the record that the file holds.
    parts : tuple of types
        The record types that may occur in it; a file cannot name any other.
    """
    refusal = f"{os.fspath(path)}: not a somcot {kind} file"
    try:
        arrays, content = read_arrays(path)
        if content.get("kind") != kind:
            raise ValueError(f"it is a {content.get('kind', 'file of another kind')}")
        found = _unpack(content["tree"], arrays, _by_name((record, *parts)))
        if not isinstance(found, record):
            raise ValueError(f"it holds a {type(found).__name__}")
        return found
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{refusal} ({error})") from None


def _by_name(records: tuple[type, ...]) -> dict[str, type]:
    names = {record.__name__: record for record in records}
    return names | {old: names[new] for new, old in NAMES.items() if new in names}


def _pack(value: Any, place: str, arrays: Arrays) -> Any:
    """JSON for `value`; its arrays are stored separately under their path in the tree."""
    if isinstance(value, np.ndarray):
        arrays[place] = value
        return {"array": place}
    # Named tuples before tuples: they are tuples too, and would lose their names.
    if hasattr(value, "_asdict"):
        return _pack_record(value, value._asdict(), place, arrays)
    if is_dataclass(value):
        return _pack_record(value, {f.name: getattr(value, f.name) for f in fields(value)}, place, arrays)
    if isinstance(value, tuple):
        return {"tuple": [_pack(part, f"{place}.{i}", arrays) for i, part in enumerate(value)]}
    if isinstance(value, Mapping):
        return {"mapping": {key: _pack(part, f"{place}.{key}", arrays) for key, part in value.items()}}
    if isinstance(value, np.generic):
        # JSON has no time with nanoseconds, and neither has Python.
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
    name = type(value).__name__
    return {"record": NAMES.get(name, name), "fields": packed}


def _unpack(tree: Any, arrays: Arrays, types: Mapping[str, type]) -> Any:
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return arrays[tree["array"]]
    if "tuple" in tree:
        return tuple(_unpack(part, arrays, types) for part in tree["tuple"])
    if "mapping" in tree:
        return {key: _unpack(part, arrays, types) for key, part in tree["mapping"].items()}
    # A datetime is also a date, so the tag, not the type, decides.
    for kind in (date, datetime):
        if kind.__name__ in tree:
            return kind.fromisoformat(tree[kind.__name__])
    if "enum" in tree:
        return types[tree["enum"][0]](tree["enum"][1])
    record = types[tree["record"]]
    parts = {key: _unpack(part, arrays, types) for key, part in tree["fields"].items()}
    hints = get_type_hints(record)
    for name, part in vars(hints.pop("details", object)).items():  # details of a Result are saved like its fields
        if isinstance(part, cached_property):
            hints[name] = get_type_hints(part.func)["return"]
    for key, part in parts.items():
        # A checksum proves that the file is intact, not that it was written by this package.
        if not _fits(part, hints[key]):
            raise ValueError(f"{tree['record']}.{key} is a {type(part).__name__} that does not fit")
    return record(**parts)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value matches the annotation of its field; the checksum of a file does not prove this."""
    kind, parts = get_origin(hint), get_args(hint)
    while hasattr(kind, "__value__"):  # from NumPy 2.5 on, NDArray is a type alias
        kind = get_origin(kind.__value__)
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
    if hint is float:  # integers are accepted if they are exact as floats
        return isinstance(value, float) or (type(value) is int and abs(value) <= 2**53)
    return type(value) is int if hint is int else isinstance(value, kind or hint)
