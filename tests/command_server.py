"""Runs the ``somcot`` command many times without paying for its imports each time.

One interpreter imports the command and then forks for every request: each run is a process of its own that calls the
real entry point with its own arguments, folder and streams. Requests and replies are JSON lines.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO


@dataclass(frozen=True)
class Finished:
    """How a run of the command ended."""

    returncode: int
    stdout: str
    stderr: str


class Command:
    """Use as a context manager; calling it runs the command."""

    def __enter__(self) -> Command:
        self._server = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.command_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        return self

    def __call__(
        self, *arguments: str, cwd: Path, stdin: Path | None = None, closed: str = "", code: str = ""
    ) -> Finished:
        """Run ``somcot ARGUMENTS``; `closed` names a stream, stdin or stdout, without anybody at its other end.

        `code` is run in the process before the command, to break something.
        """
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        process = {"cwd": str(cwd), "stdin": str(stdin or os.devnull), "closed": closed, "code": code}
        request = {"argv": arguments, **process}
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return Finished(**json.loads(self._server.stdout.readline()))

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(timeout=30)
        self._server.stdout.close()


def serve() -> None:
    warm_up()
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                run(request, out, err)
            status = os.waitpid(child, 0)[1]
            reply = {"returncode": os.waitstatus_to_exitcode(status), "stdout": text(out), "stderr": text(err)}
        print(json.dumps(reply), flush=True)


def warm_up() -> None:
    """Load before the forks what every run needs: modules, and kernels by using them once."""
    import matplotlib.pyplot
    import pyarrow.parquet

    import somcot
    import somcot.cli.application
    import somcot.cli.cost_and_cells
    import somcot.cli.screens
    from somcot.inference.permutation import same_process

    assert pyarrow.parquet is not None
    assert matplotlib.pyplot is not None
    assert somcot.cli.application is not None
    assert somcot.cli.cost_and_cells is not None
    assert somcot.cli.screens is not None
    data = somcot.random_walk(3).sample(9, 9, rng=0)
    cost = somcot.costs.labels(data.states, data.states)
    somcot.distance(data, data, cost, discount=0.5, confidence=0.9, rng=0)
    same_process(data, data, cost, discount=0.5, n_permutations=1, rng=0)


def run(request: dict[str, str], out: IO[bytes], err: IO[bytes]) -> None:
    """In the child: become the command."""
    from somcot.cli.application import main

    code = 99
    try:
        os.chdir(request["cwd"])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(request["stdin"], os.O_RDONLY), 0)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        if request["closed"] == "stdin":
            os.close(0)
        if request["closed"] == "stdout":
            reader, writer = os.pipe()
            os.close(reader)
            os.dup2(writer, 1)
        sys.argv = ["somcot", *request["argv"]]
        exec(request["code"], {})
        main()
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else 98
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                code = code or 97
        os._exit(code)


def text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", errors="replace")


if __name__ == "__main__":
    serve()
