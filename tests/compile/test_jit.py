"""Compiled code on disk: what makes it stale, what happens to damaged files and without a folder, what is said."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import somcot
from somcot.compile.jit import FAST

CALLER = """
import {package}.compile.jit as jit
from {package}.callee import twice
from {package}.offset import (  # on the line after another import
    OFFSET,
)

@jit.kernel(name="a test", seconds=3)
def advance(x):
    return twice(x) + OFFSET

print(advance(2.0), int(advance._cache_hits.total()) if hasattr(advance, "_cache_hits") else "")
"""
CALLEE = """
from {package}.constants import FACTOR
from {package}.compile.jit import part

@part
def twice(x):
    return FACTOR * x
"""
CONSTANTS = {"constants": "FACTOR = 2.0\n", "offset": "OFFSET = 1.0\n"}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A small package around a copy of the decorators: caller -> callee -> constants, caller -> offset."""
    folder = tmp_path / "small"
    (folder / "compile").mkdir(parents=True)
    for name in ("jit.py", "numba_internals.py"):
        text = (Path(somcot.__file__).parent / "compile" / name).read_text()
        (folder / "compile" / name).write_text(text.replace("somcot.compile", "small.compile"))
    for name, text in {"caller": CALLER, "callee": CALLEE, **CONSTANTS}.items():
        (folder / f"{name}.py").write_text(text.format(package="small"))
    for part in (folder, folder / "compile"):
        (part / "__init__.py").write_text("")
    return folder


def run(package: Path, **environment: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-B", "-c", "import small.caller"],
        env=os.environ | {"PYTHONPATH": str(package.parent)} | environment,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr


def test_said_with_name_and_time_and_only_when_cold(package: Path) -> None:
    cold, warm = run(package), run(package)
    assert cold[0] == "5.0 0"
    assert warm == ("5.0 1", "")
    assert cold[1].count("compiling a test, about 3 s, once") == 1
    assert str(package) in cold[1]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("callee", "FACTOR * x", "FACTOR * x + 10.0"),
        ("constants", "2.0", "7.0"),
        ("offset", "1.0", "11.0"),
        ("compile/jit", "import os", "import os  # new"),
        ("compile/numba_internals", "import gc", "import gc  # new"),
        ("compile/numba_internals", "import contextlib", "import contextlib  # new"),
    ],
)
def test_a_change_in_what_a_kernel_imports_is_seen(package: Path, name: str, old: str, new: str) -> None:
    assert run(package, SOMCOT_COMPILER="auto")[0] == "5.0 0"
    path = package / f"{name}.py"
    path.write_text(path.read_text().replace(old, new, 1))
    expected = {"callee": "15.0 0", "constants": "15.0 0", "offset": "15.0 0"}.get(name, "5.0 0")
    assert run(package, SOMCOT_COMPILER="auto")[0] == expected
    assert run(package, SOMCOT_COMPILER="auto")[0] == expected.replace(" 0", " 1")


def test_a_change_elsewhere_compiles_nothing(package: Path) -> None:
    run(package)
    (package / "other.py").write_text("x = 1\n")
    assert run(package) == ("5.0 1", "")


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "foreign"])
def test_damaged_files_are_dropped(package: Path, damage: str) -> None:
    run(package)
    (path,) = (package / "__pycache__").glob("*.nbc")
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    path.write_bytes({"empty": b"", "cut": bytes(content[:-100]), "foreign": b"hello" * 99}.get(damage, bytes(content)))
    value, said = run(package)
    assert value == "5.0 0"
    assert "dropped a damaged file" in said
    assert "compiling a test" in said
    assert run(package) == ("5.0 1", "")


def test_nothing_can_be_written(package: Path) -> None:
    """The package's folder, the user's and the one asked for all refuse; files in their place stop root as well."""
    block = package.parent / "file"
    block.write_text("")
    for folder in (package, package / "compile"):
        (folder / "__pycache__").write_text("")
    refused = {"NUMBA_CACHE_DIR": str(block), "HOME": str(block), "XDG_CACHE_HOME": str(block)}
    value, said = run(package, **refused)
    assert value == "5.0 0"
    assert said.count("compiling a test, about 3 s, in every process: no folder can be written") == 1


def test_an_installation_that_cannot_be_written_uses_the_users_folder(package: Path) -> None:
    for folder in (package, package / "compile"):
        (folder / "__pycache__").write_text("")
    home = package.parent / "home"
    home.mkdir()
    environment = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "NUMBA_CACHE_DIR": ""}
    assert str(home) in run(package, **environment)[1]
    assert run(package, **environment) == ("5.0 1", "")


def test_a_folder_that_fills_up_is_said(package: Path) -> None:
    """The result cannot be stored where a folder stands in its place."""
    run(package)
    (path,) = (package / "__pycache__").glob("*.nbc")
    path.unlink()
    path.mkdir()
    value, said = run(package)
    assert value == "5.0 0"
    assert "compiled code is not kept for the next process" in said
    assert not list(path.parent.glob("*.tmp"))


@pytest.mark.parametrize("release", ["0.62.1", "0.69.0", "1.0.0rc1"])
def test_a_numba_that_is_not_known_compiles_its_own_way(package: Path, release: str) -> None:
    """Its inside may be another: what `numba_internals` reaches for is not touched, and files are kept all the same."""
    (package / "compile" / "numba_internals.py").write_text("raise ImportError")
    (package / "__init__.py").write_text(f"import numba\nnumba.__version__ = {release!r}\n")
    cold, warm = run(package), run(package)
    assert cold[0] == "5.0 0"
    assert "compiling a test" in cold[1]
    assert warm == ("5.0 1", "")


def test_the_switch_chooses_between_two_ways_that_keep_files_of_their_own(package: Path) -> None:
    """And what `numba_internals` reaches for is not touched where Numba's own way is wanted."""
    own = {"SOMCOT_COMPILER": "numba"}
    assert run(package, SOMCOT_COMPILER="")[0] == run(package, **own)[0] == "5.0 0"
    assert (
        run(package, SOMCOT_COMPILER="auto") == run(package, SOMCOT_COMPILER="") == run(package, **own) == ("5.0 1", "")
    )
    assert len(list((package / "__pycache__").glob("*.nbc"))) == 2
    (package / "compile" / "numba_internals.py").write_text("raise ImportError")
    assert run(package, **own) == ("5.0 1", "")


def test_both_ways_stamp_their_files_differently(package: Path) -> None:
    """Even where the sources are the same: machine code of one way is never taken for the other's."""
    (package / "caller.py").write_text(
        """
import small.compile.jit as jit
if jit._WAY.name == "numba":
    jit._WAY = jit._WAY._replace(sources=("small.compile.jit", "small.compile.numba_internals"))
    import small.compile.numba_internals
print(jit._stamp("small.caller").hex())
"""
    )
    stamps = [run(package, SOMCOT_COMPILER=way)[0] for way in ("auto", "numba", "auto")]
    assert len(stamps[0]) == 64
    assert stamps[0] == stamps[2] != stamps[1]


@pytest.mark.parametrize("way", ["Numba", "llvm", "0"])
def test_a_switch_that_is_not_known_is_refused(package: Path, way: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run(package, SOMCOT_COMPILER=way)
    assert f"ValueError: SOMCOT_COMPILER: found {way!r}, expected 'auto'" in failed.value.stderr
    assert "or 'numba'" in failed.value.stderr


def test_a_switch_that_is_not_known_is_one_line_in_a_terminal() -> None:
    command = [sys.executable, "-m", "somcot", "info", "none.csv"]
    environment = os.environ | {"SOMCOT_COMPILER": "llvm"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr.startswith("error: SOMCOT_COMPILER: found 'llvm', expected 'auto'")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_the_inside_of_numba_stays_in_quarantine() -> None:
    """One module reaches for it, and that one does not grow: see docs/compilation.md."""
    root = Path(somcot.__file__).parent
    texts = {str(path.relative_to(root)): path.read_text("utf-8") for path in root.rglob("*.py")}
    assert [name for name, text in texts.items() if "numba.core" in text] == ["compile/numba_internals.py"]
    assert [name for name, text in texts.items() if "compile.numba_internals import" in text] == ["compile/jit.py"]
    lines = [line for line in texts["compile/numba_internals.py"].splitlines() if not line.lstrip().startswith("#")]
    assert len(lines) <= 400, "comments are welcome, code is not"


def test_kernels_from_disk_do_not_bring_in_what_only_compiling_needs(package: Path) -> None:
    """Numba would import its implementation of BLAS, and with it SciPy's, before it loads anything."""
    with (package / "caller.py").open("a") as file:
        file.write("\nimport sys\nprint('scipy.linalg' in sys.modules, 'numba.np.linalg' in sys.modules)\n")
    run(package, SOMCOT_COMPILER="auto")
    assert run(package, SOMCOT_COMPILER="auto") == ("5.0 1\nFalse False", "")


def test_plain_python_without_compilation(package: Path) -> None:
    assert run(package, NUMBA_DISABLE_JIT="1") == ("5.0", "")


def test_all_compiled_code_goes_through_the_decorators() -> None:
    root = Path(somcot.__file__).parent
    words = ("njit", "numba.jit", "CPUDispatcher")
    found = [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*.py"))
        if any(word in path.read_text("utf-8") for word in words)
    ]
    assert found == ["compile/jit.py", "compile/numba_internals.py"]
    assert {"nsz", "nnan"} == FAST


def test_what_only_compiled_code_calls_is_not_translated_and_python_may_call_it_all_the_same(package: Path) -> None:
    """Literals make no second copy of a piece; a piece called from Python is compiled like any function."""
    (package / "caller.py").write_text(
        """
import numba
from numba.core import event
from small.compile.jit import kernel, part

@part
def power(x, n):
    return x**n

@part(inline=False)
def far(x):
    return power(x, 2) + power(x, 3)

@kernel
def inner(x):
    return far(x) + 1.0

@kernel
def outer(x):
    return inner(x) + far(x)

with event.install_recorder("numba:compile") as compiled:
    value = outer(2.0)
names = sorted(e.data["dispatcher"].py_func.__name__ for _, e in compiled.buffer if e.is_start)
pieces = (power, far, inner.piece)
print(value, names.count("power"), [len(p.overloads) for p in pieces], len(inner.overloads), power(3.0, 2), inner(2.0))
"""
    )
    assert run(package, SOMCOT_COMPILER="auto")[0] == "25.0 1 [1, 1, 1] 0 9.0 13.0"


SHARED = """
from small.compile.jit import kernel

@kernel(name="large", seconds=1, shared=True)
def large(x):
    return 2.0 * x.sum()

@kernel(name="caller", seconds=1)
def caller(x):
    return large(x[1:]) + 1.0

@kernel
def less(x):
    return x - 1.0

@kernel
def other(x):
    return less(x[1]) + large(x) - 1.0
"""


def ask(package: Path, *names: str) -> tuple[str, list[str]]:
    """What the kernels of `SHARED` answer in a process of their own, and what was compiled for it."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", "import sys; import numpy as np; import small.shared;"
         "print(*(getattr(small.shared, name)(np.arange(4.0)) for name in sys.argv[1:]))", *names],
        env=os.environ | {"PYTHONPATH": str(package.parent), "SOMCOT_COMPILER": "auto"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip(), re.findall("compiling (\\w+)", done.stderr)


def test_machine_code_that_others_call_is_loaded_before_theirs(package: Path) -> None:
    """And where it was compiled again meanwhile, under another name, so are they."""
    (package / "shared.py").write_text(SHARED)
    assert ask(package, "caller") == ("13.0", ["caller", "large"])
    assert ask(package, "caller", "large") == ("13.0 12.0", [])
    kept = {path.name.split("-")[0]: path for path in (package / "__pycache__").glob("shared.*.nbc")}
    old = kept["shared.large"].read_bytes()
    kept["shared.large"].unlink()
    assert ask(package, "other", "large") == ("11.0 12.0", ["large"])
    assert kept["shared.large"].read_bytes() != old
    assert ask(package, "caller", "large") == ("13.0 12.0", ["caller"])
    assert ask(package, "caller", "other", "large") == ("13.0 11.0 12.0", [])


def test_arrays_are_kept_as_long_as_they_are_used(package: Path) -> None:
    """References are not counted where nothing is made; what is made is freed, and what is returned stays."""
    (package / "caller.py").write_text(
        """
import numba
import numpy as np
from numba.core.runtime import rtsys
from small.compile.jit import kernel, part

@part
def tail(x):
    return x[1:]

@kernel
def fresh(n):
    x = np.arange(n) * 1.0
    return tail(x), x.reshape(n // 2, 2)

@kernel
def total(n, given):
    a, b = fresh(n)
    return a.sum() + b[1].sum() + given[::2].sum()

@numba.njit
def users(n, given):
    return total(n, given) + len(fresh(n)[0])

given = np.arange(6.0)[1:]  # a view: nothing else keeps what it shows
users(8, given), total(8, given), fresh(8)
before = rtsys.get_allocation_stats()
for _ in range(100):
    a, b = fresh(8)
    junk = np.full(8, 7.0)
    assert a.tolist() == list(range(1, 8)) and b.ravel().tolist() == list(range(8)), (a, b)
    values = total(8, given), users(8, given)
del a, b
after = rtsys.get_allocation_stats()
print(*values, after.alloc - before.alloc == after.free - before.free, after.alloc > before.alloc)
"""
    )
    for _ in ("compiled", "loaded"):
        assert run(package, NUMBA_NRT_STATS="1")[0] == "42.0 49.0 True True"


def test_references_are_not_counted_where_nothing_is_made(package: Path) -> None:
    """Counting makes `somcot.live.sequences.gather` almost three times as slow."""
    (package / "caller.py").write_text(
        """
from typing import NamedTuple
import numpy as np
from small.compile.jit import kernel, part

class Table(NamedTuple):
    given: np.ndarray
    sums: np.ndarray

@part(inline=False)
def add(table, k):
    table.sums[k] += table.given[k]

@kernel
def borrowed(table):
    for k in range(len(table.given)):
        add(table, k)

@kernel
def made(table):
    sums = table.sums.copy()
    borrowed(Table(table.given, sums))
    return sums

table = Table(np.arange(3.0), np.ones(3))
borrowed(table)
print(made(table))
"""
    )
    assert run(package, SOMCOT_COMPILER="auto")[0] == "[1. 3. 5.]"
    code = {path.name.split("-")[0]: path.read_bytes() for path in (package / "__pycache__").glob("caller.*.nbc")}
    assert {name: b"NRT_decref" in content for name, content in code.items()} == {
        "caller.borrowed": False, "caller.made": True,
    }  # fmt: skip


THREADS = """
import threading, time
import numpy as np
from somcot.plumbing.linear_systems import Kernel, discounted_blocks
kernel = Kernel.from_matrix(np.full((5, 5), 0.2))
found = []
def run(k):
    time.sleep(0.1 * k)  # in the midst of what the others compile
    found.append(discounted_blocks(kernel, np.ones(5), np.array([0.5]), np.zeros(5)).tolist())
threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(found == 4 * [[2.0] * 5])
"""


def test_threads_that_compile_at_the_same_time(tmp_path: Path) -> None:
    """A kernel that calls a shared one, cold, from threads that come one after the other."""
    done = subprocess.run(
        [sys.executable, "-c", THREADS], timeout=120, check=True, capture_output=True, text=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout == "True\n"
    assert "Error" not in done.stderr
