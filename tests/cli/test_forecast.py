"""Before the work: a forecast that is repeated, and a discount that is suggested."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import somcot
from somcot.cli import inputs as sizes
from somcot.cli.inputs import NamedProcess, Size, TooLongError, confirm_forecast, suggested_discount
from tests.command_server import Command
from tests.notes import noted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


LONG, LARGE, SMALL = Size(10**6, 61.0, 1e6), Size(10**6, 1.0, 5e9), Size(10, 59.0, 3.9e9)


@pytest.mark.parametrize("size", [LONG, LARGE])
def test_elsewhere_than_on_a_terminal_it_is_refused(size: Size) -> None:
    confirm_forecast(SMALL, yes=False)
    confirm_forecast(size, yes=True)
    with pytest.raises(TooLongError, match=r"this would take about .* for 1,000,000 pairs of states; pass --yes"):
        confirm_forecast(size, yes=False)


@pytest.mark.parametrize(
    ("typed", "goes_on"), [("y\n", True), ("Yes\n", True), ("\n", False), ("no\n", False), ("", False)]
)
def test_a_terminal_is_asked(typed: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys, "stderr", said)
    if goes_on:
        confirm_forecast(LONG, yes=False)
    else:
        with pytest.raises(TooLongError, match="not started"):
            confirm_forecast(LONG, yes=False)
    assert said.getvalue().endswith("Start? [y/N] ")


@pytest.mark.parametrize(("length", "wanted"), [(1, 0.5), (8, 0.88), (10, 0.9), (40, 0.975), (5000, 0.99)])
def test_the_discount_looks_as_far_as_a_sequence_is_long(length: int, wanted: float) -> None:
    data = NamedProcess("a", somcot.random_walk(3).sample(4, length, rng=0))
    with noted("discount-chosen", discount=wanted, steps=f"{length:,}"):
        assert suggested_discount([data, NamedProcess("b", somcot.random_walk(3))]) == wanted


def test_on_the_command_line(command: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in "ab":
        rows = [f"{k},{s}" for k in range(60) for s in rng.integers(0, 3, 5)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["sequence,state", *rows]) + "\n")
        steps = rng.integers(0, 3000, (2, 90_000))
        (tmp_path / f"{name}.edges").write_text("\n".join(f"{i} {j}" for i, j in steps.T if i != j))
    for what in ("distance", "test", "metric"):
        done = command(what, "a.csv", "b.csv", "--json", cwd=tmp_path)
        assert done.returncode == 0
        assert '"discount": 0.75' in done.stdout
        assert "discount-chosen" in json.loads(done.stdout)["warning_codes"]
    for what in ("distance", "metric"):
        done = command(what, "a.edges", "b.edges", cwd=tmp_path)
        assert (done.returncode, "--discount: missing" in done.stderr) == (2, True)
        done = command(what, "a.edges", "b.edges", "--discount", "0.9", cwd=tmp_path)
        assert (done.returncode, "pass --yes to start" in done.stderr) == (5, True), done.stderr
    assert sizes.duration(1e5) == "28 h"
