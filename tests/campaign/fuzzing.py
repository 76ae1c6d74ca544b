"""Fuzzing in a process of its own, with little memory and a limit on the time of each execution.

``python -m tests.campaign.fuzzing TARGET,TARGET,... BEGIN COUNT FOLDER`` damages files of the corpus, the same way each
time, and reads them; ``python -m tests.campaign.fuzzing TARGET SECONDS FOLDER`` lets atheris do it, guided by coverage.
`fuzz` and `guided` start them, survive what they do not, and keep what was found.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[2]
PATHS = (ROOT / "src", ROOT)
SECONDS = float(os.environ.get("SOMCOT_CAMPAIGN_SECONDS", 10))  # of CPU for one execution
MEMORY = 3 << 30  # of address space beyond what the loaded packages take
COUNTERS = struct.Struct("qd")  # executions, and the slowest of them


class TooSlowError(BaseException):
    """An execution took longer than its limit; nothing may catch this on the way."""


@dataclass
class Report:
    """How many executions, the slowest of them in seconds of CPU, and what is wrong with which file."""

    cases: int = 0
    slowest: float = 0.0
    finds: dict[str, Path] = field(default_factory=dict)


def fuzz(names: Iterable[str], begin: int, count: int, folder: Path) -> Report:
    """Executions BEGIN to BEGIN + COUNT, targets in turn; one that ends the process is a find, and the next follow."""
    report, end = Report(), begin + count
    while begin < end:
        done = _run(folder, ",".join(names), begin, end - begin, timeout=60 + 2 * (end - begin))
        report.cases += done["cases"]
        report.slowest = max(report.slowest, done["slowest"])
        for fault, file in done["finds"].items():
            report.finds[fault] = folder / file
        begin += done["cases"]
    return report


def guided(name: str, seconds: int, folder: Path) -> Report:
    """Atheris for some seconds; it stops at its first find."""
    from tests.campaign.targets import TARGETS

    done = _started(folder, name, seconds, timeout=120 + 3 * seconds)
    cases = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    report = Report(int(cases[1]) if cases else 0)
    if any(folder.glob("crash-*")):  # the file as it was read, its sum put right
        report.finds[done.stderr[-2000:]] = folder / f"input{TARGETS[name].ending}"
    if not cases and not report.finds:
        raise RuntimeError(done.stderr[-2000:])
    return report


def keep(finds: Iterable[Path], folder: Path) -> list[Path]:
    """Copies of finds for the corpus, named by their content."""
    kept = []
    for file in finds:
        content, ending = file.read_bytes(), file.name.partition(".")[2]
        kept.append(folder / f"find-{hashlib.sha256(content).hexdigest()[:10]}.{ending}")
        kept[-1].write_bytes(content)
    return kept


def _started(folder: Path, *arguments: Any, timeout: float) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, PATHS)), "SOMCOT_MEMORY_LIMIT": "500M", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.campaign.fuzzing", *map(str, arguments), str(folder)]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )


def _run(folder: Path, *arguments: Any, timeout: float) -> dict[str, Any]:
    for name in ("counters", "finds.json"):
        (folder / name).unlink(missing_ok=True)
    try:
        done = _started(folder, *arguments, timeout=timeout)
        end = f"the process ended with {done.returncode}: {done.stderr[-500:]}"
    except subprocess.TimeoutExpired:
        done, end = None, f"hangs where nothing can stop it, {timeout:.0f} s"
    if not (folder / "counters").exists():
        raise RuntimeError(end)
    found = _read(folder)
    if done is None or done.returncode:
        lost = max(folder.glob("input.*"), key=lambda path: path.stat().st_mtime_ns)
        found["finds"][end] = lost.rename(folder / f"lost-{found['cases']}.{lost.name.partition('.')[2]}").name
    return found


def work(names: str, begin: int, count: int, folder: Path) -> None:
    """In the process: damage, read, note."""
    from tests.campaign import targets
    from tests.campaign.mutator import mutated

    shares = {name: targets.TARGETS[name] for name in names.split(",")}
    seeds = {name: [path.read_bytes() for path in targets.corpus(target)] for name, target in shares.items()}
    chosen = [(name, target) for name, target in shares.items() for _ in range(target.share)]
    finds: dict[str, str] = {}
    counters, slowest = _counters(folder), 0.0
    _compile(shares.values())
    _confine()
    for number in range(begin, begin + count):
        name, target = chosen[number % len(chosen)]
        rng = Random(f"{name} {number}")
        data = mutated(rng.choice(seeds[name]), rng.choice(seeds[name]), rng, target.sealed)
        path = folder / f"input{target.ending}"
        path.write_bytes(data)
        COUNTERS.pack_into(counters, 0, number - begin + 1, slowest)
        began = time.process_time()
        fault = _within(targets.fault, target, path, rng.choice(target.options))
        slowest = max(slowest, time.process_time() - began)
        if fault is not None and _kind(f"{name}: {fault}") not in map(_kind, finds):
            copy = folder / f"find-{number}{target.ending}"
            copy.write_bytes(data)
            finds[f"{name}: {fault}"] = copy.name
            (folder / "finds.json").write_text(json.dumps(finds), encoding="utf-8")
    COUNTERS.pack_into(counters, 0, count, slowest)


def _compile(chosen: Iterable[Any]) -> None:
    """Use what compiles once, so that no execution is charged for it."""
    from tests.campaign import targets

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for target in chosen:
            if target.share == 1:
                for options in target.options:
                    targets.fault(target, targets.corpus(target)[0], options)


def _counters(folder: Path) -> mmap.mmap:
    """Shared with a file, so that they are known should this process not live to tell."""
    with (folder / "counters").open("w+b") as file:
        file.write(bytes(COUNTERS.size))
        file.flush()
        return mmap.mmap(file.fileno(), COUNTERS.size)


def _read(folder: Path) -> dict[str, Any]:
    cases, slowest = COUNTERS.unpack((folder / "counters").read_bytes())
    finds = folder / "finds.json"
    known: dict[str, str] = json.loads(finds.read_text(encoding="utf-8")) if finds.exists() else {}
    return {"cases": cases, "slowest": slowest, "finds": known}


def _kind(fault: str) -> str:
    """Faults that differ in numbers and names alone are one."""
    return re.sub(r"'[^']*'|\d+|/\S+", "", fault)[:60]


def _confine() -> None:
    warnings.simplefilter("ignore")
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def stop(*_: object) -> None:
        raise TooSlowError

    signal.signal(signal.SIGPROF, stop)


def _within(read: Any, *arguments: Any) -> str | None:
    """The fault, if any, within the time of one execution."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        found: str | None = read(*arguments)
    except TooSlowError:
        found = f"takes longer than {SECONDS:g} s"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return found


def explore(name: str, seconds: int, folder: Path) -> None:
    """In the process: atheris, with the readers instrumented; sums are put right, options are chosen by the content."""
    import atheris

    with atheris.instrument_imports(include=["somcot.readers", "somcot.plumbing", "somcot.solvers.somcot.state"]):
        from tests.campaign import targets
    from tests.campaign.mutator import resealed

    target = targets.TARGETS[name]
    start, grown = folder / "seeds", folder / "grown"
    for made in (start, grown):
        made.mkdir()
    for file in targets.corpus(target):
        (start / file.name).write_bytes(file.read_bytes())
    path = folder / f"input{target.ending}"

    # A long-run law takes a compiled kernel, and instrumented code cannot be compiled.
    choices = [options for options in target.options if options.get("initial") != "stationary"]

    def once(data: bytes) -> None:
        path.write_bytes(resealed(data) if target.sealed else data)
        options = choices[hashlib.sha256(data).digest()[0] % len(choices)]
        fault = targets.fault(target, path, options)
        if fault is not None:
            raise RuntimeError(fault)

    warnings.simplefilter("ignore")
    flags = [f"-max_total_time={seconds}", "-print_final_stats=1", "-rss_limit_mb=4000", f"-timeout={int(6 * SECONDS)}"]
    atheris.Setup(
        ["fuzz", *flags, "-seed=1", "-max_len=16384", f"-artifact_prefix={folder}/", str(grown), str(start)], once
    )
    atheris.Fuzz()


if __name__ == "__main__":
    if len(sys.argv) == 5:
        work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    else:
        explore(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
