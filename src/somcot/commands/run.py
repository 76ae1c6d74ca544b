"""The commands themselves: read, ask, show. Each returns the exit code."""

from __future__ import annotations

import csv
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import somcot
from somcot import report
from somcot.commands import screens
from somcot.commands.answers import (
    Answer,
    caught,
    chain_of,
    names_of,
    notes_of,
    one_sided,
    plain,
    process_facts,
    to_json,
)
from somcot.commands.inputs import (
    NamedProcess,
    build_cost,
    match_labels,
    read_processes,
)
from somcot.commands.reading import Reading
from somcot.commands.sizes import estimate_size
from somcot.costs import FeatureCost
from somcot.plumbing.arrays import Floats
from somcot.plumbing.validation import check_discount
from somcot.result import Status
from somcot.samples import Samples

__all__ = ["can_draw", "distance", "info", "metric", "test", "write_files"]

_PICTURES = (".png", ".svg", ".pdf", ".jpg")
NOT_CONVERGED, INTERRUPTED = 4, 130


def distance(
    a: str,
    b: str,
    reading: Reading,
    *,
    cost: str,
    discount: float,
    method: str,
    confidence: float,
    seed: int,
    as_json: bool,
    html: Path | None,
    plot: Path | None,
    command: str,
) -> int:
    """`somcot distance`."""
    check_discount(discount)
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"--confidence: found {confidence:g}, expected a number strictly between 0 and 1, such as 0.9")
    if plot is not None and plot.suffix not in _PICTURES:
        raise ValueError(f"--plot: found {str(plot)!r}, expected a file ending in {', '.join(_PICTURES)}")
    if plot is not None and not can_draw():
        raise ImportError("--plot: drawing needs matplotlib: pip install matplotlib")
    _check_targets(html, plot)
    with caught() as messages:
        x, y, table = _read_pair(a, b, reading, cost)
        result = somcot.distance(
            x.value,
            y.value,
            table,
            discount=discount,
            method=method,
            confidence=confidence if method == "auto" else None,
            rng=seed,
            progress=sys.stderr.isatty(),
        )
    answer = Answer(result, x, y, np.asarray(table), cost, seed, messages, command)
    write_files(answer, html, plot)
    if as_json:
        print_json(to_json(answer))
    else:
        screens.show_distance(console(), answer)
    if result.status is Status.INTERRUPTED:
        return INTERRUPTED
    return 0 if result.status in (Status.CONVERGED, Status.FINISHED) else NOT_CONVERGED


def test(
    a: str, b: str, reading: Reading, *, cost: str, discount: float, permutations: int, seed: int, as_json: bool
) -> int:
    """`somcot test`."""
    check_discount(discount)
    with caught() as messages:
        x, y, table = _read_pair(a, b, reading, cost)
        named = {"labels": "labels", "reward": "features"}.get(cost.partition(":")[0], table)
        found = somcot.same_process(
            _recorded(x),
            _recorded(y),
            named,
            discount=discount,
            n_permutations=permutations,
            rng=seed,
            progress=sys.stderr.isatty(),
        )
    content = {
        "somcot": somcot.__version__,
        "command": "test",
        "pvalue": found.pvalue,
        "statistic": found.statistic,
        "n_permutations": found.n_permutations,
        "stopped_early": found.stopped_early,
        "discount": discount,
        "cost": cost,
        "seed": seed,
        "x": process_facts(x),
        "y": process_facts(y),
        "warnings": notes_of(messages, x, y),
    }
    if as_json:
        print_json(content)
    else:
        screens.show_test(console(), content, names_of(x, y))
    return 0


def metric(a: str, b: str, reading: Reading, *, cost: str, discount: float, as_json: bool, out: Path | None) -> int:
    """`somcot metric`."""
    check_discount(discount)
    if out is not None and out.suffix not in (".csv", ".npy"):
        raise ValueError(f"--out: found {str(out)!r}, expected a file ending in .csv or .npy")
    _check_targets(out)
    with caught() as messages:
        x, y, table = _read_pair(a, b, reading, cost)
        values = somcot.metric(chain_of(x), chain_of(y), table, discount=discount)
    if out is not None:
        _save_matrix(out, values, x, y)
    only_x, only_y = one_sided(x, y)
    content = {
        "somcot": somcot.__version__, "command": "metric", "discount": discount, "cost": cost,
        "states_x": x.value.states, "states_y": y.value.states, "metric": values,
        "x": process_facts(x), "y": process_facts(y), "only_x": only_x, "only_y": only_y,
        "warnings": notes_of(messages, x, y),
        "files": {} if out is None else {"matrix": str(out)},
    }  # fmt: skip
    if as_json:
        print_json(content)
    else:
        screens.show_metric(console(), x, y, values, notes_of(messages, x, y))
    return 0


def info(path: str, reading: Reading, *, as_json: bool) -> int:
    """`somcot info`."""
    with caught() as messages:
        (process,) = read_processes([path], reading)
        chain = chain_of(process)
        value = process.value
        size = estimate_size(chain, chain, from_data=isinstance(value, Samples))
    if not as_json:
        screens.show_info(console(), process, size, messages)
        return 0
    recorded = value if isinstance(value, Samples) else None
    content = process_facts(process) | {
        "somcot": somcot.__version__,
        "command": "info",
        "states": value.states,
        "visits": [] if recorded is None else recorded.visits,
        "n_terminated": 0 if recorded is None or recorded.terminated is None else int(recorded.terminated.sum()),
        "rewards": None if recorded is None else recorded.features,
        "expected": size._asdict(),
        "warnings": messages,
    }
    print_json(content)
    return 0


def _recorded(process: NamedProcess) -> Samples:
    if not isinstance(process.value, Samples):
        raise ValueError(f"{process.name}: a known chain; the test compares recorded data, see somcot distance")
    return process.value


def _read_pair(a: str, b: str, reading: Reading, cost: str) -> tuple[NamedProcess, NamedProcess, Floats | FeatureCost]:
    reward = cost.removeprefix("reward:") if cost.startswith("reward:") else None
    if reward == "":
        raise ValueError("--cost reward:: which column? Write --cost reward:COLUMN")
    x, y = match_labels(*read_processes([a, b], reading, reward))
    return x, y, build_cost(cost, x, y)


def _check_targets(*paths: Path | None) -> None:
    """Find out before a long computation that its answer could not be written."""
    for path in paths:
        if path is None:
            continue
        folder = path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"{path}: its folder cannot be made ({error.strerror}); name another place") from None
        if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
            raise ValueError(f"{path}: cannot be written; name a file in a folder that you may write to")


def write_files(answer: Answer, html: Path | None, plot: Path | None, known: float | None = None) -> None:
    """Write the report and the figure, and note where they are."""
    if html is not None:
        report.write(
            html, answer.result, cost=answer.cost, x=answer.x.value, y=answer.y.value,
            names=answer.names, cost_name=answer.cost_name, warnings=answer.notes,
            command=answer.command, known=known,
        )  # fmt: skip
        answer.files["report"] = str(html)
    if plot is not None:
        _draw(answer, plot)
        answer.files["figure"] = str(plot)


def can_draw() -> bool:
    """Whether matplotlib, which is optional, is there."""
    return find_spec("matplotlib") is not None


def _draw(answer: Answer, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from somcot import plots

    figure = plots.overview(answer.result, names=answer.names)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _save_matrix(path: Path, values: Floats, x: NamedProcess, y: NamedProcess) -> None:
    if path.suffix == ".npy":
        np.save(path, values)
        return
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["", *(_text(s) for s in y.value.states)])
        for label, row in zip(x.value.states, values.tolist(), strict=True):
            writer.writerow([_text(label), *map(repr, row)])


def _text(label: Any) -> str:
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        """Say so in the words of the command instead of leaving without any."""
        raise BrokenPipeError


def console() -> Console:
    """Where answers go; no colours guessed into numbers."""
    return _Screen(highlight=False)


def print_json(content: dict[str, Any]) -> None:
    """One object on one line, whatever its labels."""
    sys.stdout.write(json.dumps(plain(content), allow_nan=False) + "\n")
