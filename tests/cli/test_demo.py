"""The bundled example where matplotlib, which is optional, is missing."""

from __future__ import annotations

import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from somcot.cli import demo
from somcot.cli import distance as run
from somcot.cli.options import Reading
from somcot.data import clickstream

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.mark.usefixtures("no_matplotlib")
def test_the_figure_is_left_out_with_a_note(tmp_path: Path) -> None:
    screen = StringIO()
    assert demo.run(tmp_path, Console(file=screen, width=200)) == 0
    assert "figure: left out, drawing needs matplotlib" in screen.getvalue()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["june.csv", "may.csv", "report.html"]


def test_the_answer_is_out_before_files_are_written(tmp_path: Path) -> None:
    """A report that cannot be written takes nothing away."""
    screen = StringIO()
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError, match=r"report\.html"):
        demo.run(tmp_path, Console(file=screen, width=200))
    assert "0.1176" in screen.getvalue()


def test_readme_shows_what_the_demo_prints(tmp_path: Path) -> None:
    screen = StringIO()
    assert demo.run(tmp_path, Console(file=screen, width=300)) == 0
    (shown,) = re.findall(r"^```text\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    for line in shown.splitlines():
        assert line in screen.getvalue()


@pytest.mark.usefixtures("no_matplotlib")
def test_a_figure_that_is_asked_for_is_refused_before_any_work(tmp_path: Path) -> None:
    may, june = (str(clickstream.path(month)) for month in ("may", "june"))
    with pytest.raises(ImportError, match="--plot: drawing needs matplotlib: pip install matplotlib"):
        run.distance(
            may, june, Reading(), cost="labels", clock=run.ClockOptions(0.9), method="auto", confidence=0.9, seed=0,
            as_json=False, html=tmp_path / "report.html", plot=tmp_path / "figure.png", yes=False, command="",
            vectors=run.VectorOptions(),
        )  # fmt: skip
    assert not list(tmp_path.iterdir())
