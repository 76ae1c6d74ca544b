"""Output of the commands: notes, JSON, the console, and the files they write."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import somcot
from somcot import report
from somcot.cells import Continuous, ShiftCheck
from somcot.chains import MarkovChain
from somcot.cli.inputs import NamedProcess, csv_label
from somcot.cli.options import spelled
from somcot.plumbing.arrays import Floats
from somcot.plumbing.files import FIGURE_MARKS, check_replaceable, write_bytes
from somcot.plumbing.notes import Note, arranged, codes, collected, restored
from somcot.plumbing.text import label_text
from somcot.recorded.counts import Counts
from somcot.result import Claim, Result
from somcot.samples import Samples
from somcot.trajectories import Trajectories

__all__ = [
    "ShownResult",
    "caught",
    "chain_of",
    "check_targets",
    "command_line",
    "console",
    "deliver",
    "for_terminal",
    "names_of",
    "notes_of",
    "one_sided",
    "plain",
    "print_json",
    "process_facts",
    "save_figure",
    "save_matrix",
    "to_json",
    "write_files",
]


# --- Notes, with flags in place of arguments and file names in place of x and y.


def for_terminal(notes: Iterable[str], names: Mapping[str, str] | None = None) -> list[str]:
    """Notes with flags in place of arguments, without duplicates and control characters, the most important first.

    Examples
    --------
    >>> for_terminal([Note("spellings", "x", n=2, how="case", states="'a', 'A'")], {"x": "may.csv"})
    ["may.csv: 2 states differ only in case: 'a', 'A'; pass --tidy to merge them"]
    """
    return [_as_line(note) for note in arranged(notes, names, spelled)]


def _as_line(note: str) -> str:
    # On one line, because labels may contain line breaks and control characters that would break the screen.
    line = label_text(" ".join(note.split()), _LONG)
    # JSON needs the code and the values of a note besides its text.
    return restored(line, note.code, note.about, note.values) if isinstance(note, Note) else line


# --- Results as plain data.

_LONG = 2000  # characters of a line
_MATCHES = 50
_MARGIN = 0.12  # inches around a figure
_SHARES = 20
_CHANGES = 50
_PARTS = ("resolution", "twin", "shift_check", "map")


@dataclass
class ShownResult:
    """A result and everything that is shown with it."""

    result: Result
    x: NamedProcess
    y: NamedProcess
    cost: Floats
    cost_name: str
    seed: int
    warnings: list[str]
    command: str
    files: dict[str, str] = field(default_factory=dict)
    state_name: str | None = None  # a noun for a state, such as "page"

    @property
    def names(self) -> tuple[str, str]:
        """The names of the two processes, on every screen and in every file."""
        return names_of(self.x, self.y)

    @property
    def meaning(self) -> str:
        """What the number means, in a sentence."""
        from somcot.report import meaning

        return meaning(self.result, self.cost, self.names, cost_name=self.cost_name, state_name=self.state_name)

    @property
    def notes(self) -> list[str]:
        """Notes on the result, those that concern the number first."""
        return notes_of([*self.result.diagnose(), *self.warnings], self.x, self.y)


def _continuous(continuous: Continuous) -> dict[str, Any]:
    """The additional fields of a distance between recordings of numeric vectors."""
    parts = (continuous.resolution, continuous.twin, continuous.shift_check, continuous.map)
    empty = {"shift_check": dict.fromkeys(ShiftCheck._fields)}  # deprecated; its keys are promised
    records = {
        name: empty.get(name) if part is None else part._asdict() for name, part in zip(_PARTS, parts, strict=True)
    }
    cells = continuous.cells
    return {
        "route": continuous.route,
        "lower_bound": continuous.lower_bound,
        "reason": continuous.reason,
        "n_cells": cells.n_cells,
        "scale": cells.scale,
        "centres": cells.centres,
        **records,
    }


@contextlib.contextmanager
def caught() -> Iterator[list[str]]:
    """Collect the notes of this library, one line each; warnings of other packages are ignored."""
    notes: list[str] = []
    with warnings.catch_warnings():
        # Warnings of other packages are about their interfaces, which users of a command do not see.
        warnings.simplefilter("ignore")
        try:
            with collected() as issued:
                yield notes
        # Also after an error: notes issued before it may explain it.
        finally:
            notes.extend(_as_line(note.worded(spelled)) for note in issued)


def names_of(x: NamedProcess, y: NamedProcess) -> tuple[str, str]:
    """File names without their folders if these differ, otherwise full names or numbered ones.

    Examples
    --------
    >>> chain = somcot.random_walk(2)
    >>> names_of(NamedProcess("old/may.csv", chain), NamedProcess("june.csv", chain))
    ('may.csv', 'june.csv')
    >>> names_of(NamedProcess("may.csv", chain), NamedProcess("may.csv", chain))
    ('may.csv (1)', 'may.csv (2)')
    """
    # Names of files, too, may contain what a terminal would obey.
    short, full = ((label_text(name(x), _LONG), label_text(name(y), _LONG)) for name in (_file_name, lambda p: p.name))
    for first, second in (short, full):
        if first != second:
            return first, second
    return f"{short[0]} (1)", f"{short[1]} (2)"


def _file_name(process: NamedProcess) -> str:
    return Path(process.name).name


def notes_of(notes: Iterable[str], x: NamedProcess, y: NamedProcess) -> list[str]:
    """Notes with the names of the two files, without duplicates, the most important first."""
    first, second = names_of(x, y)
    files = {x.name: first, y.name: second} if x.name != y.name else {}
    return for_terminal(notes, files | {"x": first, "y": second})


def chain_of(process: NamedProcess) -> MarkovChain:
    """The known chain, or the one estimated from the data."""
    return process.value.chain() if isinstance(process.value, (Samples, Counts)) else process.value


def one_sided(x: NamedProcess, y: NamedProcess) -> tuple[list[Hashable], list[Hashable]]:
    """The states of x that y lacks, and those of y that x lacks."""
    in_x, in_y = set(x.value.states), set(y.value.states)
    return [s for s in x.value.states if s not in in_y], [s for s in y.value.states if s not in in_x]


def process_facts(process: NamedProcess) -> dict[str, Any]:
    """The source, kind and sizes of a process."""
    value = process.value
    if isinstance(value, Trajectories):
        sizes = {"n_transitions": value.n_transitions, "n_episodes": value.n_episodes, "n_coordinates": value.d}
        return {"source": process.name, "kind": "vectors", **sizes}
    facts: dict[str, Any] = {"source": process.name, "n_states": value.n_states}
    if process.rates is not None:
        return facts | {"kind": "rates", "n_transitions": int((process.rates.rates > 0).sum()), "n_episodes": 0}
    if isinstance(value, (Samples, Counts)):
        kind = "samples" if isinstance(value, Samples) else "counts"
        return facts | {"kind": kind, "n_transitions": value.n_transitions, "n_episodes": value.n_episodes}
    sizes = {"n_transitions": int(value.support.indptr[-2]), "n_episodes": 0}
    return facts | {"kind": "chain", **sizes, "start": _start(value)}


def _start(chain: MarkovChain) -> str:
    """The initial distribution in a few words: files often have none, and then it is assumed."""
    law = chain.initial
    if float(law.max()) == 1.0:
        return f"state {label_text(chain.states[int(law.argmax())])}"
    return "uniform" if float(np.ptp(law)) <= 1e-12 else "a distribution"


def _bounds(result: Result) -> dict[str, float] | None:
    return None if result.claim is Claim.APPROXIMATE else result.bounds._asdict()


def to_json(answer: ShownResult) -> dict[str, Any]:
    """The object that `somcot distance --json` prints; its keys are documented and stable."""
    r = answer.result
    only_x, only_y = one_sided(answer.x, answer.y)
    content: dict[str, Any] = plain(
        {
            "somcot": somcot.__version__,
            "command": "distance",
            "distance": r.distance,
            "meaning": answer.meaning,
            "confidence_interval": None if r.confidence_interval is None else r.confidence_interval._asdict(),
            "claim": r.claim.value,
            # Bounds of an estimated chain are not bounds of the true distance; they are under "before_correction".
            "bounds": r.bounds._asdict() if r.claim is Claim.PROVED else None,
            "active_share": r.active_share,
            "before_end": None if r.before_end is None else r.before_end._asdict(),
            "plugin": r.plugin,
            "counted": r.counted,
            "before_correction": None if r.plugin is None else {"distance": r.plugin, "bounds": _bounds(r)},
            "estimate": None if r.estimate is None else r.estimate._asdict(),
            **({} if r.continuous is None else {"continuous": _continuous(r.continuous)}),
            "method": r.method,
            "converged": r.converged,
            "status": r.status.value,
            "message": r.message,
            "discount": r.discount,
            "clock": {"name": r.clock.name, "value": r.clock.value or None, "settling": r.settling},
            "cost": answer.cost_name,
            "seed": answer.seed,
            "n_steps": r.n_steps,
            "n_samples": list(r.samples),
            "seconds": r.seconds,
            "x": process_facts(answer.x),
            "y": process_facts(answer.y),
            "only_x": only_x,
            "only_y": only_y,
            "matches": [m._asdict() for m in r.matches()[:_MATCHES]],
            "findings": _findings(r),
            "contributions": None if r.makeup is None else _shares(r),
            "warnings": answer.notes,
            "files": answer.files,
        }
    )
    return content


def _shares(result: Result) -> dict[str, Any]:
    shares = result.contributions(_SHARES)
    return {name: [share._asdict() for share in getattr(shares, name)] for name in shares._fields}


def _findings(result: Result) -> dict[str, Any]:
    found = result.findings()
    rows = {name: [row._asdict() for row in getattr(found, name)[:_CHANGES]] for name in ("states", "steps")}
    return {**rows, "sequences": found.sequences, "units": found.units}


def plain(value: Any) -> Any:
    """The value in JSON types: NaN and infinity become null, tuples become lists, other labels text.

    Examples
    --------
    >>> plain({"a": (1, float("nan")), "b": np.float64(0.5)})
    {'a': [1, None], 'b': 0.5}
    """
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        # JSON has neither NaN nor infinity.
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


# --- The console, JSON and the order of output.


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        """Raise instead of exiting, as rich would, because files may still have to be written."""
        raise BrokenPipeError


def console() -> Console:
    """A rich console that neither highlights numbers nor interprets markup in names."""
    return _Screen(highlight=False, markup=False)


def print_json(content: Mapping[str, object]) -> None:
    """Print one object on one line; the codes of its warnings are added."""
    warnings = content.get("warnings")
    if isinstance(warnings, (list, tuple)):
        content = {**content, "warning_codes": codes(warnings)}
    sys.stdout.write(json.dumps(plain(content), allow_nan=False) + "\n")
    sys.stdout.flush()


def deliver(show: Callable[[], None], write: Callable[[], None]) -> None:
    """Show the result before writing files, which may fail; write them even if the pipe is closed."""
    try:
        show()
        sys.stdout.flush()
    finally:
        write()


def command_line() -> str:
    """The command as it was typed, for reports."""
    return shlex.join(["somcot", *sys.argv[1:]])


# --- Files: report, figure, matrix.


def check_targets(targets: dict[str, Path | None], inputs: Iterable[str], *, force: bool = False) -> None:
    """Refuse, before a long computation, output files that cannot be written, are inputs, or are somebody else's.

    Parameters
    ----------
    targets : dict of option to path
        Where to write; None for options that are not used.
    inputs : iterable of str
        Names of the inputs; names that are not files are ignored.
    force : bool
        Whether to replace files that somcot did not write.
    """
    outputs = {option: path for option, path in targets.items() if path is not None}
    for option, path in outputs.items():
        _refuse_unwritable(path)
        for name in inputs:
            if _same_file(path, Path(name)):
                raise ValueError(f"{option}: {path} is an input of this command; name another file")
        for other in outputs:
            if other != option and _same_file(path, outputs[other]):
                raise ValueError(f"{option}: {path} is also the file of {other}; name two files")
        # What a command resumes is read before it is replaced, and refused then if it is something else.
        check_replaceable(option.partition(" ")[0], path, force=force or option in ("--checkpoint", "--state-file"))


def _same_file(a: Path, b: Path) -> bool:
    """Whether two paths are the same file, including links and hard links."""
    try:
        # Real paths also cover files that do not exist yet, `samefile` hard links.
        return os.path.realpath(a) == os.path.realpath(b) or (a.exists() and b.exists() and a.samefile(b))
    except (OSError, ValueError):
        # A path that cannot be resolved is reported when it is opened.
        return False


def _refuse_unwritable(path: Path) -> None:
    """Refuse folders and paths that cannot be written; missing folders are created when writing."""
    target = Path(os.path.realpath(path))
    folder = next((parent for parent in target.parents if parent.exists()), target)  # the root has no parents
    if not folder.is_dir():
        raise ValueError(f"{path}: its folder cannot be created ({folder} is a file); name another path")
    # A device or a pipe is opened in place; a regular file is replaced, which needs write access to its folder.
    special = target.exists() and not target.is_file()
    if target.is_dir() or not os.access(target if special else folder, os.W_OK):
        raise ValueError(f"{path}: cannot be written; name a file in a folder with write permission")


def write_files(answer: ShownResult, html: Path | None, plot: Path | None, known: float | None = None) -> None:
    """Write the report and the figure, and record their paths.

    The figure shows the steps that differ; if equal labels do not denote the same state, or nothing differs, encoder,
    decoder and the two processes.
    """
    if html is not None:
        shown = replace(answer.result, notes=())  # `answer.notes` has them, worded for the command line
        report.write(
            html, shown, cost=answer.cost, x=answer.x.value, y=answer.y.value,
            names=answer.names, cost_name=answer.cost_name, warnings=answer.notes,
            command=answer.command, known=known, state_name=answer.state_name,
        )  # fmt: skip
        answer.files["report"] = str(html)
    if plot is not None:
        import matplotlib as mpl

        # No window system is needed, and there may be none.
        mpl.use("Agg")
        from somcot import plots

        # Cells have no steps that a reader could name.
        by_step = answer.result.continuous is None and bool(answer.result.findings().largest(1))
        drawn: Any = (plots.difference if by_step else plots.overview)(answer.result, names=answer.names)
        save_figure(getattr(drawn, "figure", drawn), plot, dpi=110)  # of axes, or the figure itself
        answer.files["figure"] = str(plot)


def save_figure(figure: Any, path: Path, dpi: int) -> None:
    """Write a figure and close it."""
    import matplotlib.pyplot as plt

    kind = path.suffix.lower().removeprefix(".")
    engine = figure.get_layout_engine()
    if engine is not None:
        # Inches; the default leaves titles at the very edge.
        engine.set(w_pad=_MARGIN, h_pad=_MARGIN)
    # Drawn in memory, so that an interruption leaves no partial file.
    content = io.BytesIO()
    figure.savefig(content, dpi=dpi, format=kind, **FIGURE_MARKS[kind])
    plt.close(figure)
    write_bytes(path, content.getvalue())


def save_matrix(path: Path, values: Floats, x: NamedProcess, y: NamedProcess) -> None:
    """Write the distances of all pairs of states, as an array or as a table with labels."""
    if path.suffix.lower() == ".npy":
        # In memory first, so that an interruption leaves no partial file.
        array = io.BytesIO()
        np.save(array, values)
        write_bytes(path, array.getvalue())
        return
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    # The corner tells later runs that this file may be replaced.
    writer.writerow(["somcot metric", *map(csv_label, y.value.states)])
    for label, row in zip(x.value.states, values.tolist(), strict=True):
        # `repr` writes as many digits as are needed to read the same number again.
        writer.writerow([csv_label(label), *map(repr, row)])
    try:
        content = text.getvalue().encode("utf-8")
    except UnicodeEncodeError as error:
        sign = error.object[error.start : error.end]
        raise ValueError(
            f"{path}: a label holds {sign!r}, which UTF-8 cannot encode; write .npy, or rename it"
        ) from None
    write_bytes(path, content)
