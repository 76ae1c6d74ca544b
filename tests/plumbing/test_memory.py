"""The memory limit: where it comes from and how it is written."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from somcot.plumbing import memory
from somcot.plumbing.memory import MemoryLimitError, memory_limit, require


@pytest.mark.parametrize(("text", "size"), [("4G", 4e9), ("500M", 5e8), ("2gb", 2e9), ("1.5k", 1500), ("12345", 12345)])
def test_limit_from_the_environment(text: str, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", text)
    assert memory_limit() == size


@pytest.mark.parametrize("text", ["much", "-1G", "0", "nan", "G"])
def test_nonsense_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", text)
    with pytest.raises(ValueError, match=r"SOMCOT_MEMORY_LIMIT: found .* expected a size such as 4G"):
        memory_limit()


def test_without_it_the_machine_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOMCOT_MEMORY_LIMIT", raising=False)
    assert 1e7 < memory_limit() < 1e15


def test_refusal_names_what_and_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "12G")
    require(12e9, "this", "do that")
    with pytest.raises(MemoryLimitError, match=r"this needs about 25.6 GB, the limit is 12 GB; do that"):
        require(25.6e9, "this", "do that")
    with pytest.raises(MemoryLimitError, match="this needs about 3000 TB"):
        require(3e15, "this", "do that")
    assert issubclass(MemoryLimitError, MemoryError)


def machine(folder: Path, monkeypatch: pytest.MonkeyPatch, cgroup: str, files: dict[str, str]) -> None:
    """A machine with 64 GB free, and the given files of the system."""
    files = {"proc/meminfo": "MemAvailable: 62500000 kB\n", "proc/self/cgroup": cgroup} | files
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.delenv("SOMCOT_MEMORY_LIMIT", raising=False)
    monkeypatch.setattr(memory, "_PROC", folder / "proc")
    monkeypatch.setattr(memory, "_CGROUPS", folder / "cgroup")


@pytest.mark.parametrize(
    ("cgroup", "files", "left"),
    [
        ("0::/\n", {"cgroup/memory.max": "max\n", "cgroup/memory.current": "5\n"}, 64e9),
        ("0::/\n", {"cgroup/memory.max": "3000000000\n", "cgroup/memory.current": "1000000000\n"}, 2e9),
        ("0::/\n", {"cgroup/memory.max": "3000000000\n", "cgroup/memory.current": "1000000000\n",
                    "cgroup/memory.stat": "anon 7\ninactive_file 500000000\n"}, 2.5e9),
        ("0::/a/b\n", {"cgroup/a/b/memory.max": "max\n", "cgroup/a/b/memory.current": "1\n",
                       "cgroup/a/memory.max": "4000000000\n", "cgroup/a/memory.current": "1000000000\n"}, 3e9),
        ("4:memory:/not/here\n0::/\n", {"cgroup/memory/memory.limit_in_bytes": "2000000000\n",
                                       "cgroup/memory/memory.usage_in_bytes": "500000000\n"}, 1.5e9),
        ("4:memory:/a\n", {"cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
                           "cgroup/memory/a/memory.usage_in_bytes": "500000000\n"}, 64e9),
        ("0::/a:b:c\n", {"cgroup/a:b:c/memory.max": "3000000000\n", "cgroup/a:b:c/memory.current": "0\n"}, 3e9),
        ("nonsense", {}, 64e9),
    ],
    ids=["unlimited", "version 2", "cached files do not count", "a limit further out", "version 1",
         "version 1 unlimited", "colons in a name", "unknown"],
)  # fmt: skip
def test_limits_of_containers_count(
    cgroup: str, files: dict[str, str], left: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(tmp_path, monkeypatch, cgroup, files)
    assert memory_limit() == pytest.approx(0.8 * left)


def test_what_the_process_uses_already_is_subtracted_from_its_address_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = resource.getpagesize()
    machine(tmp_path, monkeypatch, "", {"proc/self/statm": f"{300_000_000 // page} 5 5\n"})
    monkeypatch.setattr(resource, "getrlimit", lambda _: (400_000_000, resource.RLIM_INFINITY))
    assert memory_limit() == pytest.approx(0.8 * 100e6, rel=1e-3)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (200_000_000, resource.RLIM_INFINITY))
    assert memory_limit() == 0.0


def test_systems_without_limits_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no module `resource`."""
    machine(tmp_path, monkeypatch, "", {})
    monkeypatch.setitem(sys.modules, "resource", None)
    assert memory_limit() == pytest.approx(0.8 * 64e9)
