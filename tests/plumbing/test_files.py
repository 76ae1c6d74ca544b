"""Files are replaced whole or not at all, and nobody touches the unfinished ones of the living."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from somcot.plumbing.files import (
    FIGURE_MARKS,
    BusyError,
    check_replaceable,
    check_target,
    exclusive,
    replacing,
    write_bytes,
)

KILLED = """
import os, signal, sys
from somcot.plumbing.files import replacing
with replacing(sys.argv[1]) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_a_failed_write_names_the_file_and_keeps_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    write_bytes(path, b"old")

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_bytes(path, b"new")
    assert caught.value.filename == str(path)
    assert caught.value.errno == 28
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_an_error_on_the_way_keeps_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_bytes(path, b"old")

    def interrupted() -> None:
        with replacing(path) as stream:
            stream.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_data_are_on_disk_before_the_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forced to disk in this order: the content, the move, the folder."""
    order: list[str] = []
    sync, move = os.fsync, os.replace

    def synced(handle: int) -> None:
        order.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "content")
        sync(handle)

    def moved(a: str, b: Path) -> None:
        order.append("move")
        move(a, b)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", moved)
    write_bytes(tmp_path / "x", b"new")
    assert order == ["content", "move", "folder"]


def test_the_mode_is_that_of_the_umask_or_of_the_old_file(tmp_path: Path, umask: None) -> None:
    write_bytes(tmp_path / "new", b"")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    write_bytes(tmp_path / "new", b"more")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


def test_no_link_is_followed(tmp_path: Path) -> None:
    """Neither as the target, nor as its lock, nor as a leftover; links to folders are."""
    (tmp_path / "x").write_bytes(b"old")
    for name in ("link", "dangling"):
        (tmp_path / name).symlink_to("x" if name == "link" else "nothing")
        with pytest.raises(OSError, match="symbolic link") as caught:
            write_bytes(tmp_path / name, b"new")
        assert (caught.value.errno, caught.value.filename) == (errno.ELOOP, str(tmp_path / name))
        with pytest.raises(ValueError, match=r"^checkpoint: .*symbolic link"):
            check_target("checkpoint", tmp_path / name)
    with exclusive(tmp_path / "y"):
        (lock,) = tmp_path.glob(".y.*")
    lock.symlink_to("x")
    with pytest.raises(OSError, match="symbolic link"), exclusive(tmp_path / "y"):
        pass
    part = lock.with_name(lock.name.removesuffix("lock") + "0.part")
    part.symlink_to("x")
    write_bytes(tmp_path / "y", b"new")
    assert part.is_symlink()
    assert (tmp_path / "x").read_bytes() == b"old"
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "folder").mkdir()
    (tmp_path / "elsewhere").symlink_to("folder")
    write_bytes(tmp_path / "elsewhere" / ".." / "elsewhere" / "z", b"new")
    assert (tmp_path / "folder" / "z").read_bytes() == b"new"


def test_a_link_made_meanwhile_is_replaced(tmp_path: Path) -> None:
    """Between the look and the move: the link itself goes, and what it points to stays."""
    (tmp_path / "x").write_bytes(b"old")
    with replacing(tmp_path / "y") as stream:
        stream.write(b"new")
        (tmp_path / "y").symlink_to("x")
    assert ((tmp_path / "x").read_bytes(), (tmp_path / "y").read_bytes()) == (b"old", b"new")
    assert not (tmp_path / "y").is_symlink()


def test_what_may_be_replaced(tmp_path: Path) -> None:
    """What is not there, is empty, is no file, or carries the mark."""
    path = tmp_path / "x"
    for target in (path, os.devnull, "/dev/stdout", "/dev/fd/1"):
        check_replaceable("--out", target)
    for content in (b"", b'{"somcot": 1}', b"# HELP somcot_events"):
        path.write_bytes(content)
        check_replaceable("--out", path)
    for content in (b" ", b"somcot", b"# somcot\n", b"<!DOCTYPE html><html><head><title>about somcot", b"a,b\n"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"^--out: .* pass --force"):
            check_replaceable("--out", path)
        check_replaceable("--out", path, force=True)


@pytest.mark.parametrize("kind", FIGURE_MARKS)
def test_figures_carry_the_mark(kind: str, tmp_path: Path) -> None:
    figure = Figure(figsize=(1, 1))
    figure.savefig(tmp_path / "x", format=kind, **FIGURE_MARKS[kind])
    check_replaceable("--plot", tmp_path / "x")
    figure.savefig(tmp_path / "x", format=kind)
    with pytest.raises(ValueError, match="no mark"):
        check_replaceable("--plot", tmp_path / "x")


def test_devices_are_written_to_directly(tmp_path: Path) -> None:
    write_bytes(os.devnull, b"gone")
    assert not Path(os.devnull).is_file()


def test_names_may_be_long_or_look_like_patterns(tmp_path: Path) -> None:
    for name in ("x" * 250, "\u00fc" * 120, "q*", "[a]", "?"):
        write_bytes(tmp_path / name, b"1")
        write_bytes(tmp_path / name, b"2")
        assert (tmp_path / name).read_bytes() == b"2"
    assert len(os.listdir(tmp_path)) == 5


def test_leftovers_of_the_dead_are_removed(tmp_path: Path) -> None:
    for name in ("x", "other"):
        subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / name)], check=False)
    assert len(os.listdir(tmp_path)) == 2
    write_bytes(tmp_path / "x", b"whole")
    (left,) = (name for name in os.listdir(tmp_path) if name != "x")
    assert left.startswith(".other.")


def test_a_name_with_a_star_leaves_the_files_of_others_alone(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "query")], check=False)
    write_bytes(tmp_path / "q*", b"whole")
    assert len(os.listdir(tmp_path)) == 2


def test_unfinished_files_of_the_living_are_left_alone(tmp_path: Path) -> None:
    """Three writers at once: each replaces the target in its turn and none loses its file."""
    with replacing(tmp_path / "x") as first:
        first.write(b"first")
        with replacing(tmp_path / "x") as second:
            second.write(b"second")
            write_bytes(tmp_path / "x", b"third")
        assert (tmp_path / "x").read_bytes() == b"second"
    assert (tmp_path / "x").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["x"]


def test_writers_on_threads_never_disturb_each_other(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def write(text: bytes) -> None:
        try:
            for _ in range(30):
                write_bytes(tmp_path / "x", text * 1000)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(text,)) for text in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(set((tmp_path / "x").read_bytes())) == 1
    assert os.listdir(tmp_path) == ["x"]


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with (
        exclusive(tmp_path / "x"),
        pytest.raises(BusyError, match=rf"x: in use by another run \(process {os.getpid()}\)"),
        exclusive(tmp_path / "x"),
    ):
        pass
    with exclusive(tmp_path / "x"), exclusive(tmp_path / "y"):
        pass
    assert os.listdir(tmp_path) == []


def test_nobody_waits_for_the_dead(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from somcot.plumbing.files import exclusive\n"
        "with exclusive(sys.argv[1]): os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x")], check=False)
    assert len(os.listdir(tmp_path)) == 1
    with exclusive(tmp_path / "x"):
        pass
    assert os.listdir(tmp_path) == []
