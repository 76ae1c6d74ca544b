"""The public surface of the package, frozen: what exists today must exist tomorrow, under the same path.

The JSON files beside this module hold the names, signatures, attributes, commands and JSON keys that users may rely on;
`saved` holds one file of each kind that the library writes. Additions are allowed, removals and changes are not.
``python -m tests.surface`` takes additions up into the JSON files.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tests.surface import command_line

__all__ = ["PARTS", "Surface", "collect", "compare", "frozen", "listed", "shadowed"]

HERE = Path(__file__).parent
REFERENCE = HERE.parents[1] / "docs" / "reference"
PARTS = ("names", "signatures", "attributes", "commands", "json_keys")

# Modules that are documented, as pages of the reference or in the text, whether they exist or are aliases.
MODULES = (
    "api", "cells", "certificates", "chains", "clocks", "costs", "couplings", "derivatives", "gaussian", "gradients",
    "hidden", "jax", "lumping", "mdp", "msm", "plots", "problem", "readers", "report", "result", "samples", "steps",
    "streams", "timed", "torch", "trajectories", "data", "data.clickstream", "cli", "solvers", "inference.estimate",
    "inference.intervals", "inference.order", "inference.permutation", "live.alarm", "live.check", "live.monitor",
    "live.promise", "many.drift", "many.matrix", "many.record", "many.selection", "plumbing.arrays",
    "plumbing.errors", "plumbing.memory", "plumbing.validation", "recorded.counts", "recorded.flow",
    "solvers.assemble", "solvers.continuous", "solvers.exact", "solvers.horizon", "solvers.lagrangian",
    "solvers.linear_program", "solvers.policy_iteration", "solvers.relative", "solvers.saddle", "solvers.sinkhorn",
    "solvers.somcot", "solvers.somcot.algorithm", "solvers.total", "makeup", "gradients.arrays", "experiments",
    "experiments.selection", "bellman.pairs", "bellman.sweep",
)  # fmt: skip
# Names that are used in the text or the examples, and on no page of the reference.
NAMES = (
    "__version__", "__main__.main", "cli.app", "cli.main", "data.clickstream.chain", "data.clickstream.path",
    "data.clickstream.write", "experiments.selection.EXPERIMENT", "jax.distance", "jax.metric", "torch.DistanceLoss",
    "torch.RunningKernel", "torch.WarmStart", "torch.distance", "torch.metric", "costs.NAMED", "costs.Cost",
    "clocks.CLOCKS", "plumbing.arrays.Floats", "plumbing.arrays.Ints", "inference.permutation.SameProcessResult",
)  # fmt: skip
# Modules that need packages which may be missing: their source is read instead.
UNLOADED = ("somcot.abstraction", "somcot.jax", "somcot.torch")
# Classes that users make themselves. Constructors of records that only the library makes are free to change.
CONSTRUCTED = {
    "Bins", "ContinuousChain", "DistanceLoss", "Dual", "Given", "HiddenChain", "Instance", "Linear", "MDP",
    "MarkovChain", "Monitor", "Primal", "Problem", "RunningKernel", "Steps", "TimeChain", "WarmStart",
}  # fmt: skip
# Attributes that instances get when they are made and no class shows; the saved files check that they are there.
SET_LATER = {"Monitor": ("alarm", "alarms", "n_events", "notice")}
# Special methods that users rely on where a class has them.
SPECIAL = ("__array__", "__float__", "__getitem__", "__iter__", "__len__", "_repr_html_")
PLAIN = (type(None), bool, int, float, str)

Names = dict[str, str]
Lists = dict[str, list[str]]


class Surface(NamedTuple):
    """What users may rely on.

    Attributes
    ----------
    names : dict
        Dotted path -> module, class, function or value.
    signatures : dict
        Dotted path of a function, method or class -> its parameters, as Python writes them; ``...`` stands for a
        default without a stable `repr`.
    attributes : dict
        Dotted path of a class -> its public attributes, methods, members and built-in bases of exceptions.
    commands : dict
        Command -> its options and arguments -> what they take.
    json_keys : dict
        A run of a command with ``--json`` -> the keys of its output, as paths.
    """

    names: Names
    signatures: Names
    attributes: Lists
    commands: dict[str, Names]
    json_keys: Lists


def frozen() -> Surface:
    """What is kept in the JSON files."""
    return Surface(*(json.loads((HERE / f"{part}.json").read_text(encoding="utf-8")) for part in PARTS))


def listed() -> set[str]:
    """All documented names, as the package and its reference have them now."""
    import somcot

    found = {f"somcot.{name}" for name in (*dir(somcot), *MODULES, *NAMES)}
    for page in sorted(REFERENCE.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        found.update(re.findall(r"^\.\. auto(?:class|function):: (\S+)", text, re.MULTILINE))
        for block in re.split(r"^\.\. (?=auto)", text, flags=re.MULTILINE):
            if module := re.match(r"automodule:: (\S+)", block):
                members = re.search(r":members:(.*)", block)
                found |= {module[1], *(f"{module[1]}.{name}" for name in _members(module[1], members))}
    return found


def _members(module: str, members: re.Match[str] | None) -> list[str]:
    if members is None:
        return []
    return re.findall(r"\w+", members[1]) or list(importlib.import_module(module).__all__)


# What is there


def collect(names: set[str], *, inputs: Path) -> Surface:
    """Describe these names, every command, and the JSON that commands print of small files written to `inputs`."""
    found, signatures, attributes = describe(names)
    return Surface(found, signatures, attributes, command_line.commands(), command_line.json_keys(inputs))


def describe(names: set[str]) -> tuple[Names, Names, Lists]:
    """Kinds, signatures and attributes of all names that can be reached."""
    kinds: Names = {}
    signatures: Names = {}
    attributes: Lists = {}
    for name in sorted(names):
        module, _, rest = name.rpartition(".")
        if name in UNLOADED or module in UNLOADED:
            _describe_source(name, module, rest, kinds, signatures, attributes)
            continue
        try:
            value = resolve(name)
        except (AttributeError, ImportError):
            continue
        kinds[name] = _kind(value)
        if isinstance(value, type):
            attributes[name] = _attributes(value)
            signatures |= {f"{name}.{method}": text for method, text in _methods(value)}
            if value.__name__ in CONSTRUCTED:
                signatures[name] = _signature(value)
        elif kinds[name] == "function":
            signatures[name] = _signature(value)
    return kinds, signatures, attributes


def resolve(name: str) -> Any:
    """What a user finds there: an attribute, or else a module."""
    first, *parts = name.split(".")
    value: Any = importlib.import_module(first)
    path = first
    for part in parts:
        path = f"{path}.{part}"
        try:
            value = getattr(value, part)
        except AttributeError:
            if not isinstance(value, ModuleType):
                raise
            value = importlib.import_module(path)
    return value


def _kind(value: Any) -> str:
    if isinstance(value, ModuleType):
        return "module"
    if isinstance(value, type):
        return "class"
    return "function" if inspect.isroutine(value) else "value"


def _signature(value: Any) -> str:
    """Parameters without annotations."""
    parameters = []
    for p in inspect.signature(value).parameters.values():
        default = p.default if p.default is p.empty or _is_plain(p.default) else _Unstable()
        parameters.append(p.replace(annotation=p.empty, default=default))
    return str(inspect.Signature(parameters))


class _Unstable:
    """Stands for a default without a stable `repr`."""

    def __repr__(self) -> str:
        return "..."


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple) and type(value) is tuple:
        return all(map(_is_plain, value))
    return type(value) in PLAIN


def _own(kind: type) -> dict[str, Any]:
    """What a class has from this package, not from Python or others."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.split(".")[0] == "somcot":
            found |= vars(base)
    return found


def _methods(kind: type) -> Iterator[tuple[str, str]]:
    for name, value in sorted(_own(kind).items()):
        if name.startswith("_"):
            continue
        if isinstance(value, (classmethod, staticmethod)):
            yield name, _signature(getattr(kind, name))
        elif inspect.isfunction(value):
            yield name, _without_first(_signature(value))


def _attributes(kind: type) -> list[str]:
    own = _own(kind)
    found = {name for name in own if not name.startswith("_") or name in SPECIAL}
    found.update(SET_LATER.get(kind.__name__, ()))
    if is_dataclass(kind):
        found.update(f.name for f in fields(kind) if not f.name.startswith("_"))
    if issubclass(kind, Enum):
        found.update(kind.__members__)
    if issubclass(kind, BaseException):
        builtin = (base for base in kind.__mro__ if base.__module__ == "builtins")
        found.update(f"is a {base.__name__}" for base in builtin if base not in (object, BaseException))
    return sorted(found)


def _describe_source(name: str, module: str, rest: str, kinds: Names, signatures: Names, attributes: Lists) -> None:
    """As for names that can be imported, from the source of their module."""
    spec = importlib.util.find_spec(name if name in UNLOADED else module)
    if spec is None or spec.origin is None:
        return
    if name in UNLOADED:
        kinds[name] = "module"
        return
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and any((a.asname or a.name) == rest for a in node.names):
            kinds[name] = _kind(getattr(importlib.import_module(node.module or ""), rest))
        elif isinstance(node, ast.FunctionDef) and node.name == rest:
            kinds[name], signatures[name] = "function", f"({_source(node)})"
        elif isinstance(node, ast.ClassDef) and node.name == rest:
            methods = [m for m in node.body if isinstance(m, ast.FunctionDef)]
            kinds[name] = "class"
            attributes[name] = sorted(m.name for m in methods if not m.name.startswith("_"))
            for m in methods:
                if m.name == "__init__" and rest in CONSTRUCTED:
                    signatures[name] = _without_first(f"({_source(m)})")
                elif not m.name.startswith("_") and not m.decorator_list:
                    signatures[f"{name}.{m.name}"] = _without_first(f"({_source(m)})")


def _source(function: ast.FunctionDef) -> str:
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return ast.unparse(function.args)


def _without_first(signature: str) -> str:
    """A method as it is called: without self."""
    return re.sub(r"^\((?:self|_|cls)(?:, /)?(?:, )?", "(", signature)


# What differs


class Parameter(NamedTuple):
    """One parameter of a signature; `default` is None where there is none."""

    name: str
    kind: str
    default: str | None


def parameters(signature: str) -> list[Parameter]:
    """The parameters of a signature in text, in order."""
    (function,) = ast.parse(f"def f{signature}: pass").body
    assert isinstance(function, ast.FunctionDef)
    a = function.args
    positional = [*((p, "positional only") for p in a.posonlyargs), *((p, "positional") for p in a.args)]
    defaults = [None] * (len(positional) - len(a.defaults)) + [ast.unparse(d) for d in a.defaults]
    found = [Parameter(p.arg, kind, default) for (p, kind), default in zip(positional, defaults, strict=True)]
    if a.vararg is not None:
        found.append(Parameter(a.vararg.arg, "*", None))
    for p, value in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        found.append(Parameter(p.arg, "keyword only", None if value is None else ast.unparse(value)))
    if a.kwarg is not None:
        found.append(Parameter(a.kwarg.arg, "**", None))
    return found


def compare(old: Surface, new: Surface) -> list[str]:
    """What users of the old surface would miss in the new one, a line each; nothing where all is well."""
    found = list(_lost_names(old, new))
    for name, signature in old.signatures.items():
        if name in new.signatures:
            found += [f"{name}: {text}" for text in changed_parameters(signature, new.signatures[name])]
        elif name in new.names or _is_attribute(name, new):
            found.append(f"{name}: can no longer be called as {signature}")
    for command, options in old.commands.items():
        if command not in new.commands:
            found.append(f"{command}: the command is gone")
            continue
        found += [f"{command}: {text}" for text in _changed_options(options, new.commands[command])]
    for run, keys in old.json_keys.items():
        missing = sorted(set(keys) - set(new.json_keys.get(run, ())))
        found += [f"{run}: the JSON key '{key}' is gone" for key in missing]
    return found


def _is_attribute(name: str, surface: Surface) -> bool:
    owner, _, attribute = name.rpartition(".")
    return attribute in surface.attributes.get(owner, ())


def _lost_names(old: Surface, new: Surface) -> Iterator[str]:
    for name, kind in old.names.items():
        if name not in new.names:
            yield f"{name}: the {kind} is gone"
        elif new.names[name] != kind:
            yield f"{name}: was a {kind} and is a {new.names[name]}"
    for name, attributes in old.attributes.items():
        if name in new.attributes:
            for attribute in sorted(set(attributes) - set(new.attributes[name])):
                yield f"{name}: attribute '{attribute}' is gone"


def changed_parameters(old: str, new: str) -> Iterator[str]:
    """Parameters that are gone or changed, and new ones that break calls."""
    before, after = parameters(old), parameters(new)
    present = {p.name: p for p in after}
    known = {p.name for p in before}
    spelled_out = any(p.kind == "keyword only" and p.name not in known for p in after)
    for p in before:
        now = present.get(p.name)
        if now is None:
            if not (p.kind == "**" and spelled_out):
                yield f"parameter '{p.name}' is gone"
        elif now.kind != p.kind and (p.kind, now.kind) != ("keyword only", "positional"):
            yield f"parameter '{p.name}' was {p.kind} and is {now.kind}"
        elif now.default != p.default and not (p.default is None and now.default is not None):
            yield f"parameter '{p.name}' had the default {p.default} and has {now.default or 'none'}"
    places = [p.name for p in after if p.kind.startswith("positional")]
    kept = [p.name for p in before if p.kind.startswith("positional") and p.name in places]
    order = [name for name in places if name in kept]
    if order != kept:
        yield f"the order of the parameters was {', '.join(kept)} and is {', '.join(order)}"
    for p in after:
        if p.name in known:
            continue
        if p.default is None and not p.kind.startswith("*"):
            yield f"parameter '{p.name}' is new and has no default"
        elif p.name in places and any(places.index(name) > places.index(p.name) for name in kept):
            yield f"parameter '{p.name}' is new and comes before others that are given by position"


def _changed_options(old: Names, new: Names) -> Iterator[str]:
    for option, kind in old.items():
        if option not in new:
            yield f"{option} is gone"
            continue
        (what, choices), (what_now, choices_now) = (_taken(kind), _taken(new[option]))
        if what_now != what and not (what.startswith("required") and what_now == what.removeprefix("required ")):
            yield f"{option} was {what!r} and is {what_now!r}"
        if choices_now:
            for choice in sorted(choices - choices_now):
                yield f"{option} no longer takes {choice!r}"
    for option in sorted(set(new) - set(old)):
        if new[option].startswith("required"):
            yield f"{option} is new and required"


def _taken(kind: str) -> tuple[str, set[str]]:
    what, _, choices = kind.partition(": ")
    return what, set(choices.split("|")) if choices else set()


# A trap


def shadowed(root: ModuleType, names: Names) -> set[str]:
    """Names bound in a package that are also names of its submodules, but mean something else.

    Importing such a submodule for the first time replaces the object by the module. What a package binds is read from
    its source and from `names`, the kinds of documented names, some of which are made when they are asked for.
    """
    found: set[str] = set()
    for init in sorted(Path(root.__path__[0]).rglob("__init__.py")):
        package = ".".join((root.__name__, *init.parent.relative_to(root.__path__[0]).parts))
        own = {p.stem for p in init.parent.glob("*.py")} | {p.parent.name for p in init.parent.glob("*/__init__.py")}
        tree = ast.parse(init.read_text(encoding="utf-8"))
        found |= {f"{package}.{name}" for name in own & _bound(tree, package)}
        found |= {f"{package}.{name}" for name in own if names.get(f"{package}.{name}", "module") != "module"}
        lazy = own & set(getattr(importlib.import_module(package), "__all__", ()))
        found |= {f"{package}.{name}" for name in lazy if not isinstance(resolve(f"{package}.{name}"), ModuleType)}
    return found


def _bound(tree: ast.Module, package: str) -> set[str]:
    """Names that a package binds, other than to its own submodules."""
    found: set[str] = set()
    statements = list(tree.body)
    while statements:
        node = statements.pop()
        if isinstance(node, ast.ImportFrom) and node.module != package:
            found.update(a.asname or a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update(a.asname for a in node.names if a.asname not in (None, a.name))
        elif isinstance(node, ast.Import):
            found.update(a.asname or a.name.split(".")[0] for a in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            found.update(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        for block in ("body", "orelse", "handlers", "finalbody"):
            if isinstance(node, (ast.If, ast.Try, ast.With, ast.ExceptHandler)):
                statements += getattr(node, block, [])
    return found - {"__init__"}
