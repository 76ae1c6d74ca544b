"""Files that commands write: report, figure, matrix. Checked before the work, written whole after the answer is out."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from somcot import report
from somcot.commands.answers import Answer
from somcot.commands.inputs import NamedProcess
from somcot.plumbing.arrays import Floats
from somcot.plumbing.files import write_bytes

__all__ = ["can_draw", "check_targets", "save_matrix", "write_files"]


def check_targets(targets: dict[str, Path | None], inputs: Iterable[str]) -> None:
    """Find out before a long computation that its answer could not be written, or would overwrite what it came from.

    Parameters
    ----------
    targets : dict of option to path
        Where to write, None where nothing is wanted.
    inputs : iterable of str
        What is read; names that are no files do not matter.
    """
    wanted = {option: path for option, path in targets.items() if path is not None}
    for option, path in wanted.items():
        _refuse_unwritable(path)
        for name in inputs:
            if _same_file(path, Path(name)):
                raise ValueError(f"{option}: {path} is an input of this command; name another file")
        for other in wanted:
            if other != option and _same_file(path, wanted[other]):
                raise ValueError(f"{option}: {path} is also the file of {other}; name two files")


def _same_file(a: Path, b: Path) -> bool:
    """Whether two names mean one file, through links and hard links too."""
    try:
        return os.path.realpath(a) == os.path.realpath(b) or (a.exists() and b.exists() and a.samefile(b))
    except (OSError, ValueError):
        return False


def _refuse_unwritable(path: Path) -> None:
    """Refuse folders and places where no file can be made; the folders themselves are made when writing."""
    target = Path(os.path.realpath(path))
    folder = next((parent for parent in target.parents if parent.exists()), target)  # the root has no parents
    if not folder.is_dir():
        raise ValueError(f"{path}: its folder cannot be made ({folder} is a file); name another place")
    special = target.exists() and not target.is_file()
    if target.is_dir() or not os.access(target if special else folder, os.W_OK):
        raise ValueError(f"{path}: cannot be written; name a file in a folder that you may write to")


def write_files(answer: Answer, html: Path | None, plot: Path | None, known: float | None = None) -> None:
    """Write the report and the figure, and note where they are."""
    if html is not None:
        told = replace(answer.result, notes=())  # they are among those of the answer, in the words of the command line
        report.write(
            html, told, cost=answer.cost, x=answer.x.value, y=answer.y.value,
            names=answer.names, cost_name=answer.cost_name, warnings=answer.notes,
            command=answer.command, known=known, state_name=answer.state_name,
        )  # fmt: skip
        answer.files["report"] = str(html)
    if plot is not None:
        write_bytes(plot, _drawn(answer, plot.suffix.lower().removeprefix(".")))
        answer.files["figure"] = str(plot)


def can_draw() -> bool:
    """Whether matplotlib, which is optional, is there."""
    return find_spec("matplotlib") is not None


def _drawn(answer: Answer, kind: str) -> bytes:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from somcot import plots

    figure = plots.overview(answer.result, names=answer.names)
    content = io.BytesIO()
    figure.savefig(content, dpi=110, format=kind)
    plt.close(figure)
    return content.getvalue()


def save_matrix(path: Path, values: Floats, x: NamedProcess, y: NamedProcess) -> None:
    """Write distances of all pairs of states, as an array or with the labels."""
    if path.suffix.lower() == ".npy":
        array = io.BytesIO()
        np.save(array, values)
        write_bytes(path, array.getvalue())
        return
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["", *(_text(s) for s in y.value.states)])
    for label, row in zip(x.value.states, values.tolist(), strict=True):
        writer.writerow([_text(label), *map(repr, row)])
    try:
        content = text.getvalue().encode("utf-8")
    except UnicodeEncodeError as error:
        found = error.object[error.start : error.end]
        raise ValueError(f"{path}: a label holds {found!r}, which UTF-8 cannot say; write .npy, or rename it") from None
    write_bytes(path, content)


def _text(label: Any) -> str:
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)
