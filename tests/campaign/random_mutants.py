"""Faults at random places: would the tests that run the line notice?

``python -m tests.campaign.random_mutants DATA COUNT [SEED] [OUT]`` draws COUNT faults from all modules, the same for
equal seeds, and runs each against the tests that cover its line, the quick ones first. DATA are files of coverage with
contexts, made once by ``pytest --cov --cov-context=test``; lines that only compiled code or other processes run have
none, and are tried with the test files that speak of them most. One line of JSON for each fault goes to OUT.
"""

from __future__ import annotations

import ast
import copy
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.campaign.mutations import MAKE_TEST, ROOT

SOURCE = ROOT / "src" / "somcot"
FLIPS: dict[type[ast.AST], Any] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
FILES = 6  # of tests for a line without contexts
SECONDS = 300  # of CPU: what takes longer hangs
SEED = 41_093  # of the latest draw, written down before it was made


class Site(NamedTuple):
    """A piece of a module, and what stands there instead."""

    file: str
    line: int
    begin: int
    end: int
    old: str
    new: str


def sites(path: Path) -> Iterator[Site]:
    """Every fault that can be put into a module: comparisons, signs, numbers, truth values, results."""
    text = path.read_text(encoding="utf-8")
    # Offsets of the syntax tree count bytes.
    data, starts = text.encode(), [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in _walked(ast.parse(text)):
        changed = _changed(node)
        if changed is None:
            continue
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        new = ast.unparse(changed)
        new = new if isinstance(node, ast.stmt) else f"({new})"
        yield Site(str(path.relative_to(SOURCE)), node.lineno, begin, end, data[begin:end].decode(), new)


def _walked(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Nodes that matter: no messages, texts, types, names of the module, or what only the type checker reads."""
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)):
        return
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("warn", "Note", "Option", "Argument"):
        return
    if isinstance(node, (ast.expr, ast.stmt)):
        yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "slice") and not (
            name == "slice" and isinstance(value, (ast.Slice, ast.BinOp, ast.Compare))
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walked(child)


def _changed(node: ast.expr | ast.stmt) -> ast.AST | None:
    """The node with a fault in it."""
    made = copy.copy(node)
    if isinstance(made, ast.Compare) and type(made.ops[0]) in FLIPS:
        made.ops = [FLIPS[type(made.ops[0])](), *made.ops[1:]]
    elif isinstance(made, (ast.BinOp, ast.BoolOp)) and type(made.op) in FLIPS:
        made.op = FLIPS[type(made.op)]()
    elif isinstance(made, ast.UnaryOp) and isinstance(made.op, (ast.Not, ast.USub)):
        return made.operand
    elif isinstance(made, ast.Constant) and isinstance(made.value, bool):
        made.value = not made.value
    elif isinstance(made, ast.Constant) and isinstance(made.value, (int, float)):
        made.value = made.value + 1 if isinstance(made.value, int) else made.value * 1.5 or 1.0
    elif isinstance(made, ast.Return) and made.value is not None and ast.unparse(made.value) != "None":
        made.value = ast.Constant(None)
    else:
        return None
    return made


def drawn(count: int, seed: int) -> list[Site]:
    """Some of all faults, each as likely as any other."""
    known = [site for path in sorted(SOURCE.rglob("*.py")) for site in sites(path)]
    return Random(seed).sample(known, count)


def covering(data: list[str], durations: dict[str, float]) -> dict[tuple[str, int], list[str]]:
    """The tests that run each line, the quick ones first."""
    from coverage import CoverageData

    found: dict[tuple[str, int], set[str]] = {}
    for name in data:
        read = CoverageData(name)
        read.read()
        for file in read.measured_files():
            short = file.partition("/src/somcot/")[2]
            for line, contexts in read.contexts_by_lineno(file).items():
                tests = {context.rpartition("|")[0] for context in contexts if context.endswith("|run")}
                found.setdefault((short, line), set()).update(tests)
    return {place: sorted(tests, key=lambda test: (durations.get(test, 0.0), test)) for place, tests in found.items()}


def near(site: Site) -> list[str]:
    """The examples of the module, then the test files that speak most of its functions and classes around the place."""
    tree = ast.parse((SOURCE / site.file).read_text(encoding="utf-8"))
    around = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.lineno <= site.line <= (node.end_lineno or 0)
    ]
    folder, _, rest = site.file.removesuffix(".py").rpartition("/")
    module = folder if rest == "__init__" else f"{folder}/{rest}".strip("/")
    named = {f"test_{name}.py" for name in module.split("/")[-2:]}
    words = [re.compile(rf"\b{re.escape(name)}\b") for name in (*around, module.replace("/", "."))]
    scores = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        score = 20.0 * (path.name in named) + sum(min(len(word.findall(text)), 10) for word in words)
        score += 3.0 * (path.parent.name == folder.split("/")[0])
        if score > 0.0:
            scores[str(path.relative_to(ROOT))] = score
    return [f"src/somcot/{site.file}", *sorted(scores, key=lambda name: -scores[name])[:FILES]]  # examples first


def verdict(site: Site, tests: list[str], sound: Path, folder: Path) -> tuple[str, str]:
    """Whether a test notices the fault, and which; or that it survived."""
    if not tests:
        return "no test", ""
    there = folder / "fault"  # a copy each: kernels that the fault does not touch stay compiled
    shutil.copytree(sound, there, copy_function=os.link)
    try:
        path = there / "src" / "somcot" / site.file
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data[: site.begin] + site.new.encode() + data[site.end :])
        names = folder / "tests.txt"
        names.write_text("\n".join(tests), encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": f"{there / 'src'}{os.pathsep}{there}", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", MAKE_TEST, f"@{names}"]
        limit = partial(resource.setrlimit, resource.RLIMIT_CPU, (SECONDS, SECONDS))
        done = subprocess.run(
            command, cwd=there, env=environment, capture_output=True, text=True, preexec_fn=limit, check=False
        )
        if done.returncode < 0:
            return "caught", f"ended by signal {-done.returncode}: it hangs or crashes"
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if done.returncode == 0:
            return "survived", ""
        return ("caught", failed[0][:200]) if failed or done.returncode == 2 else ("unclear", done.stdout[-300:])
    finally:
        shutil.rmtree(there)


def main(data: str, count: str, seed: str = str(SEED), out: str = "out/mutants.jsonl") -> None:
    """Try the faults that OUT does not have yet."""
    known = covering(data.split(","), {})
    file = Path(out)
    done = len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0
    with tempfile.TemporaryDirectory(prefix="somcot-mutants-") as name:
        sound = Path(name) / "sound"
        ignored = shutil.ignore_patterns(".git", ".venv*", "out", ".*_cache", ".hypothesis", "_build")
        shutil.copytree(ROOT, sound, ignore=ignored)
        for site in drawn(int(count), int(seed))[done:]:
            tests = known.get((site.file, site.line)) or near(site)
            how, which = verdict(site, tests, sound, Path(name))
            row = {**site._asdict(), "tests": len(tests), "verdict": how, "by": which}
            with file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row) + "\n")
            print(f"{how:9s} {site.file}:{site.line} {site.old!r} -> {site.new!r}  {which}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
