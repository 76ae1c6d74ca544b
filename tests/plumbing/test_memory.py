"""The memory limit: where it comes from and how it is written."""

from __future__ import annotations

import pytest

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
