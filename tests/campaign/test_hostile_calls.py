"""(g) One corrupted argument in a valid call: a documented error that names it, or an answer.

`make test` draws a few calls; SOMCOT_CAMPAIGN_CALLS (all of them in the full run) in the campaign.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.campaign import hostile
from tests.campaign.hostile import Outcome
from tests.campaign.table import SEED, Row

SLICE, FULL = 1_500, 10**6
ANOTHER = 0.01  # share of the messages that may name another argument
FAULTS = ("undocumented", "too slow")
# These need an object of another package, or take what another method prepared: no valid call is made.
WITHOUT_VALID_CALL = {"somcot.Monitor.rank", "somcot.Monitor.take", "somcot.readers.from_minari"}
# A call takes seconds even with valid arguments.
SLOW = {"somcot.sample_size", "somcot.readers.from_env", "somcot.plots.power_curve"}


def outcomes(seed: int, n: int, without: set[str]) -> list[Outcome]:
    """Attack a sample of the calls."""
    return [
        hostile.attack(t, argument, value) for t, argument, value in hostile.cases(seed, n) if t.name not in without
    ]


def judge(found: Sequence[Outcome]) -> list[str]:
    """Faults as lines; and a line if too many messages name another argument."""
    lines = [" ".join(one) for one in found if one.kind in FAULTS]
    kinds = Counter(one.kind for one in found if one.target not in WITHOUT_VALID_CALL)
    errors = kinds["named"] + kinds["unnamed"] + kinds["another"]
    if kinds["another"] > max(ANOTHER * errors, 1):
        lines.append(f"{kinds['another']} of {errors} messages name another argument")
    return lines


def test_valid_calls_are_valid() -> None:
    """Otherwise nothing can be said about the argument that is corrupted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong = {t.name: hostile.valid(t) for t in hostile.targets() if t.name not in SLOW}
    assert {name for name, why in wrong.items() if why} <= WITHOUT_VALID_CALL, wrong


def test_a_slice_of_hostile_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "1G")
    assert not judge(outcomes(1, SLICE, SLOW))


@pytest.mark.campaign
def test_all_hostile_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "1G")
    found = outcomes(SEED, int(os.environ.get("SOMCOT_CAMPAIGN_CALLS", FULL)), set())
    faults = judge(found)
    Row("hostile calls", cases=len(found), failures=len(faults)).write()
    assert not faults, "\n".join(faults)


def test_undocumented_errors_and_other_names_are_found() -> None:
    """The judgement itself: what would be a fault is one."""

    def fails(x: int, y: int) -> None:
        if x < 0:
            raise AttributeError("no attribute")
        raise ValueError(f"y: found {y}")

    target = hostile.Target("fails", fails, None, {"x": lambda: 1, "y": lambda: 1}, ("x", "y"))
    assert hostile.attack(target, "x", "-1").kind == "undocumented"
    assert hostile.attack(target, "x", "0").kind == "another"
    assert hostile.attack(target, "y", "0").kind == "named"
    assert len(judge([hostile.attack(target, "x", "0")] * 3)) == 1
