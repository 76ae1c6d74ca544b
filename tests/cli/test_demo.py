"""The bundled example where matplotlib, which is optional, is missing."""

from __future__ import annotations

import errno
import os
import re
import sys
from pathlib import Path

import pytest

from somcot.cli.distance import distance
from somcot.cli.options import ClockOptions, OutputOptions, Reading, StrataOptions, VectorOptions
from somcot.cli.setup import demo
from somcot.data import clickstream

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    """What is printed, on a screen that is wide enough for every line."""
    monkeypatch.setenv("COLUMNS", "300")
    return capsys


@pytest.fixture
def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.mark.usefixtures("no_matplotlib")
def test_the_figure_is_left_out_with_a_note(tmp_path: Path, screen: pytest.CaptureFixture[str]) -> None:
    assert demo(tmp_path) == 0
    assert "figure: skipped, because it needs matplotlib" in screen.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["june.csv", "may.csv", "report.html"]


def test_the_answer_is_out_before_files_are_written(
    tmp_path: Path, screen: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full when the report is written takes nothing away."""
    replace = os.replace

    def full(source: str, target: str) -> None:
        if os.path.basename(target) == "report.html":
            raise OSError(errno.ENOSPC, "No space left on device", target)
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match=r"report\.html"):
        demo(tmp_path)
    assert "0.0838" in screen.readouterr().out


def test_a_folder_in_the_place_of_the_report_is_refused(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(ValueError, match=r"report\.html: cannot be written"):
        demo(tmp_path)


def test_readme_shows_what_the_demo_prints(tmp_path: Path, screen: pytest.CaptureFixture[str]) -> None:
    assert demo(tmp_path) == 0
    printed = screen.readouterr().out
    (shown,) = re.findall(r"^```text\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    for line in shown.splitlines():
        assert line in printed


@pytest.mark.usefixtures("no_matplotlib")
def test_a_figure_that_is_asked_for_is_refused_before_any_work(tmp_path: Path) -> None:
    may, june = (str(clickstream.path(month)) for month in ("may", "june"))
    with pytest.raises(ImportError, match="--plot: drawing needs matplotlib: pip install matplotlib"):
        distance(
            may, june, clock=ClockOptions(0.9), vectors=VectorOptions(), reading=Reading(), grouping=StrataOptions(),
            output=OutputOptions(html=tmp_path / "report.html", plot=tmp_path / "figure.png"),
        )  # fmt: skip
    assert not list(tmp_path.iterdir())
