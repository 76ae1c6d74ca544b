"""The commands themselves: read, ask, show. Each returns the exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

import somcot
from somcot.chains import MarkovChain
from somcot.cli import screens, signals
from somcot.cli.cost_option import build_cost, compares_labels
from somcot.cli.forecast import confirm_forecast, estimate_size, suggested_discount
from somcot.cli.inputs import NamedProcess, match_labels, read_processes
from somcot.cli.options import Reading
from somcot.cli.output import (
    ShownResult,
    can_draw,
    caught,
    chain_of,
    check_targets,
    names_of,
    notes_of,
    one_sided,
    plain,
    process_facts,
    save_matrix,
    to_json,
    write_files,
)
from somcot.cli.vectors import VectorOptions, Vectors, labelled, read_pair
from somcot.clocks import Clock
from somcot.costs import FeatureCost
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_discount
from somcot.result import Result, Status
from somcot.samples import Samples

__all__ = ["ClockOptions", "VectorOptions", "console", "distance", "info", "metric", "test"]

_PICTURES = (".png", ".svg", ".pdf", ".jpg")
_FORECAST = ("auto", "exact", "plugin")  # methods whose time and memory are known beforehand
NOT_CONVERGED = 4


class ClockOptions(NamedTuple):
    """The clock of a question, at most one of them; none where the data are to suggest a discount."""

    discount: float | None = None
    horizon: int | None = None
    rate: float | None = None
    total: bool = False

    def checked(self) -> ClockOptions:
        """Before anything is read: what was given must be one clock, and in range."""
        given = [f"--{name}" for name, value in self._asdict().items() if value is not None and value is not False]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)}: each is a clock of its own; choose one, `--help` says which")
        if given:
            Clock.chosen(**self._asdict())
        return self

    def settled(self, x: NamedProcess, y: NamedProcess) -> ClockOptions:
        """With a discount that the data suggest where nothing was asked for."""
        chains = [p for p in (x, y) if p.rates is not None]
        if chains and self.rate is None:
            raise ValueError(f"{chains[0].name}: holds rates of a chain in continuous time; pass --rate R, say 0.1")
        if self.rate is not None and len(chains) < 2:
            found = x if x.rates is None else y
            raise ValueError(f"--rate: {found.name} holds no rates but steps, which take --discount; leave it out")
        return self._replace(discount=suggested_discount([x, y])) if self == ClockOptions() else self


def distance(
    a: str,
    b: str,
    reading: Reading,
    *,
    cost: str,
    clock: ClockOptions,
    method: str,
    confidence: float,
    standard_error: str = "rows",
    seed: int,
    as_json: bool,
    html: Path | None,
    plot: Path | None,
    yes: bool,
    command: str,
    vectors: VectorOptions,
) -> int:
    """`somcot distance`."""
    clock.checked()
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"--confidence: found {confidence:g}, expected a number strictly between 0 and 1, such as 0.9")
    if standard_error not in ("rows", "episodes"):
        raise ValueError(f"--standard-error: found {standard_error!r}, expected rows or episodes")
    if standard_error != "rows" and method != "auto":
        raise ValueError(f"--standard-error: only the estimate (--method auto) has an interval, not {method}")
    if plot is not None and plot.suffix.lower() not in _PICTURES:
        raise ValueError(f"--plot: found {str(plot)!r}, expected a file ending in {', '.join(_PICTURES)}")
    if plot is not None and not can_draw():
        raise ImportError("--plot: drawing needs matplotlib: pip install matplotlib")
    check_targets({"--html": html, "--plot": plot}, (a, b, cost))
    table: Floats | FeatureCost
    with caught() as messages:
        if vectors:
            if standard_error != "rows":
                raise ValueError(
                    "--standard-error: not together with --cells, whose interval is of its own; leave it out"
                )
            asked_of = read_pair(a, b, reading, vectors, cost)
            result, x, y, table = _of_vectors(asked_of, clock, method, confidence, seed)
            cost = asked_of.cost_name
        else:
            x, y, table = _read_pair(a, b, reading, cost)
            asked = clock.settled(x, y)
            if method in _FORECAST:
                _agree(x, y, yes)
            options: dict[str, Any] = {} if standard_error == "rows" else {"standard_error": standard_error}
            result = somcot.distance(
                x.process,
                y.process,
                table,
                **asked._asdict(),
                method=method,
                confidence=confidence if method == "auto" else None,
                rng=seed,
                progress=sys.stderr.isatty(),
                **options,
            )
    answer = ShownResult(result, x, y, np.asarray(table), cost, seed, messages, command)
    if reading.state is not None and len(reading.state) == 1:
        answer.state_name = reading.state[0]
    try:  # the answer first: no full disk and no failing drawing can take it away
        _show_answer(answer, {"report": html, "figure": plot} if as_json else None)
    finally:  # and the files even if nobody reads the answer to its end
        write_files(answer, html, plot)
    if not as_json:
        screens.show_files(console(), answer)
    if result.status is Status.INTERRUPTED:
        return signals.INTERRUPTED
    return 0 if result.status in (Status.CONVERGED, Status.FINISHED) else NOT_CONVERGED


def _of_vectors(
    asked_of: Vectors, clock: ClockOptions, method: str, confidence: float, seed: int
) -> tuple[Result, NamedProcess, NamedProcess, Floats]:
    asked = clock.settled(*asked_of.named())
    found = somcot.distance(
        *asked_of.sides, asked_of.cost, **asked._asdict(), method=method, confidence=confidence, rng=seed,
        n_cells=asked_of.n_cells, scale=asked_of.scale,
    )  # fmt: skip
    return labelled(found, asked_of)


def test(
    a: str,
    b: str,
    reading: Reading,
    *,
    cost: str,
    discount: float | None,
    permutations: int,
    seed: int,
    as_json: bool,
    vectors: VectorOptions,
) -> int:
    """`somcot test`."""
    _check_discount(discount)
    with caught() as messages:
        named: Any
        first: Any
        second: Any
        options: dict[str, Any] = {}
        if vectors:
            asked_of = read_pair(a, b, reading, vectors, cost)
            x, y = asked_of.named()
            (first, second), named, cost = asked_of.sides, asked_of.cost, asked_of.cost_name
            options = {"n_cells": asked_of.n_cells, "scale": asked_of.scale}
        else:
            x, y, table = _read_pair(a, b, reading, cost)
            named = {"labels": "labels", "reward": "features"}.get(cost.partition(":")[0], table)
            first, second = _recorded(x), _recorded(y)
        discount = discount or suggested_discount([x, y])
        found = somcot.same_process(
            first,
            second,
            named,
            discount=discount,
            n_permutations=permutations,
            rng=seed,
            progress=sys.stderr.isatty(),
            **options,
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


def metric(
    a: str, b: str, reading: Reading, *, cost: str, clock: ClockOptions, as_json: bool, out: Path | None, yes: bool
) -> int:
    """`somcot metric`."""
    clock.checked()
    if out is not None and out.suffix.lower() not in (".csv", ".npy"):
        raise ValueError(f"--out: found {str(out)!r}, expected a file ending in .csv or .npy")
    check_targets({"--out": out}, (a, b, cost))
    with caught() as messages:
        x, y, table = _read_pair(a, b, reading, cost)
        asked = clock.settled(x, y)
        _agree(x, y, yes)
        values = somcot.metric(x.rates or chain_of(x), y.rates or chain_of(y), table, **asked._asdict())
    only_x, only_y = one_sided(x, y)
    content = {
        "somcot": somcot.__version__, "command": "metric", "discount": asked.discount, "cost": cost,
        "horizon": asked.horizon, "rate": asked.rate, "total": asked.total,
        "states_x": x.value.states, "states_y": y.value.states, "metric": values,
        "x": process_facts(x), "y": process_facts(y), "only_x": only_x, "only_y": only_y,
        "warnings": notes_of(messages, x, y),
        "files": {} if out is None else {"matrix": str(out)},
    }  # fmt: skip
    try:
        if as_json:
            print_json(content)
        else:
            screens.show_metric(console(), x, y, values, notes_of(messages, x, y))
        sys.stdout.flush()
    finally:
        if out is not None:
            save_matrix(out, values, x, y)
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


def _check_discount(discount: float | None) -> None:
    """Before anything is read: a discount that was given must be one."""
    if discount is not None:
        check_discount(discount)


def _agree(x: NamedProcess, y: NamedProcess, yes: bool) -> None:
    """Say what a long computation will take before it starts."""
    chains = [p.value if isinstance(p.value, MarkovChain) else p.value.chain(check=False) for p in (x, y)]
    confirm_forecast(
        estimate_size(*chains, from_data=not all(isinstance(p.value, MarkovChain) for p in (x, y))), yes=yes
    )


def _show_answer(answer: ShownResult, planned: dict[str, Path | None] | None) -> None:
    """Print the answer: for programs, when it is told which files will follow, otherwise for people."""
    if planned is None:
        screens.show_distance(console(), answer)
    else:
        print_json(to_json(answer) | {"files": {what: str(path) for what, path in planned.items() if path is not None}})
    sys.stdout.flush()


def _recorded(process: NamedProcess) -> Samples:
    if not isinstance(process.value, Samples):
        raise ValueError(
            f"{process.name}: no recorded episodes; the test deals whole episodes anew, see somcot distance"
        )
    return process.value


def _read_pair(a: str, b: str, reading: Reading, cost: str) -> tuple[NamedProcess, NamedProcess, Floats | FeatureCost]:
    reward = cost.removeprefix("reward:") if cost.startswith("reward:") else None
    if reward == "":
        raise ValueError("--cost reward:: which column? Write --cost reward:COLUMN")
    x, y = match_labels(*read_processes([a, b], reading, reward), compared=compares_labels(cost))
    return x, y, build_cost(cost, x, y)


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        """Let the command decide what that means; rich would leave at once, with files not written yet."""
        raise BrokenPipeError


def console() -> Console:
    """Where answers go; no colours guessed into numbers, no markup found in names."""
    return _Screen(highlight=False, markup=False)


def print_json(content: dict[str, Any]) -> None:
    """One object on one line, whatever its labels."""
    sys.stdout.write(json.dumps(plain(content), allow_nan=False) + "\n")
