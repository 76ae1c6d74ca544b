"""`somcot demo`, `explain`, `warm-up` and `completion`."""

from __future__ import annotations

import enum
import gc
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
import typer

import somcot
from somcot.cli.options import Force, can_draw, spelled
from somcot.plumbing.notes import CATALOGUE, HEADS, explained, pattern

if TYPE_CHECKING:
    from rich.console import Console

    from somcot.chains import MarkovChain
    from somcot.samples import Samples

__all__ = ["COLUMNS", "DISCOUNT", "Shell", "Warmed", "completion", "demo", "explain", "warm_kernels", "warm_up"]

DISCOUNT = 0.9
CLOSED = "closed"  # the state after the last page, "bought" or "left", of every session


# --- The bundled example: two recorded months of a web shop, whose true distance is known.

COLUMNS = f"--sequence session --time time --state page --end {CLOSED}"


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for report and figure.")] = Path("out"),
    force: Force = False,
) -> int:
    """Run the bundled example from start to finish."""
    from rich.text import Text

    from somcot.cli import screens
    from somcot.cli.inputs import NamedProcess
    from somcot.cli.output import ShownResult, caught, check_targets, console, write_files
    from somcot.data import clickstream
    from somcot.plumbing.files import write_bytes
    from somcot.plumbing.text import label_text
    from somcot.readers import from_table

    screen = console()
    screen.print(
        "A web shop recorded its visitors' clicks in May and, after a redesign, in June.\n"
        "How much has their behaviour changed, and where?\n"
    )
    files = [out / f"{month}.csv" for month in ("may", "june")]
    contents = {path: clickstream.path(path.stem).read_bytes() for path in files}
    report, figure = out / "report.html", out / "demo.png" if can_draw() else None
    copies = [path for path in files if not path.is_file() or path.read_bytes() != contents[path]]
    check_targets({f"--out {path}": path for path in (*copies, report, figure)}, (), force=force)
    out.mkdir(parents=True, exist_ok=True)
    for path in copies:
        # Copied, so that users can open the files and repeat the command.
        write_bytes(path, contents[path])
    first, second, page = (label_text(str(path), 4096) for path in (*files, report))
    command = f"somcot distance {first} {second} \\\n    {COLUMNS} --discount {DISCOUNT:g} --html {page}"
    screen.print(Text(f"$ {command}", style="bold cyan"), soft_wrap=True)
    with caught() as messages:
        may, june = (
            NamedProcess(path.name, from_table(path, sequence="session", time="time", state="page", end=CLOSED))
            for path in files
        )
        cost = somcot.costs.labels(may.value.states, june.value.states)
        result = somcot.distance(may.value, june.value, cost, discount=DISCOUNT, confidence=0.9, rng=0)
    truth = _truth()
    answer = ShownResult(result, may, june, cost, "labels", 0, messages, command, state_name="page")
    screens.show_distance(screen, answer, known=truth.distance)  # the answer first, as in `somcot distance`
    write_files(answer, report, figure, known=truth.distance)
    screens.show_files(screen, answer)
    if figure is None:
        screen.print("figure: skipped, because it needs matplotlib: pip install matplotlib")
    _verdict(screen, result, truth)
    _next(screen, files)
    return 0


def _truth() -> somcot.Result:
    """The exact distance between the two chains that generated the sessions."""
    from somcot.data import clickstream

    # With the additional state that --end adds to the recordings.
    x, y = (_closing(clickstream.chain(month)) for month in ("may", "june"))
    return somcot.distance(x, y, somcot.costs.labels(x.states, y.states), discount=DISCOUNT)


def _closing(chain: somcot.MarkovChain) -> somcot.MarkovChain:
    """The same chain with a last state that follows the pages on which sessions end."""
    n = chain.n_states
    rows = np.zeros((n + 1, n + 1))
    rows[:n, :n] = chain.transition
    # Pages on which sessions end are absorbing in the chains.
    ends = np.flatnonzero(np.diag(rows) == 1.0)
    rows[ends, ends], rows[[*ends, n], n] = 0.0, 1.0
    return somcot.MarkovChain(rows, np.append(chain.initial, 0.0), states=[*chain.states, CLOSED])


def _verdict(screen: Console, result: somcot.Result, truth: somcot.Result) -> None:
    from rich.text import Text

    from somcot.plumbing.text import percent

    interval = result.confidence_interval
    if interval is None or truth.before_end is None:
        return
    level = 100 * interval.level
    number = f"{truth.distance:.4f} ({percent(truth.before_end.distance)} of the steps before both have ended)"
    where, share = "inside", f"about {level:g} % of such intervals should contain it"
    if not interval.low <= truth.distance <= interval.high:
        where, share = "outside", f"this is expected for about {100 - level:g} % of such intervals"
    text = f"The true distance, {number}, lies {where} the interval; {share}."
    screen.print(Text(f"\n{text}", style="bold"))


def _next(screen: Console, files: list[Path]) -> None:
    from rich.text import Text

    from somcot.plumbing.text import label_text

    first, second = (label_text(str(file), 4096) for file in files[:2])
    pair = f"{first} {second}"
    screen.print("\nNext steps")
    for what, command in (
        ("test whether both months are the same process", f"somcot test {pair} {COLUMNS} --discount {DISCOUNT:g}"),
        ("describe a file", f"somcot info {first} {COLUMNS}"),
        ("distance from every pair of pages", f"somcot metric {pair} {COLUMNS} --discount {DISCOUNT:g}"),
    ):
        screen.print(Text(f"  # {what}", style="dim"))
        screen.print(Text(f"  {command}"), soft_wrap=True)


# --- Compilation of all kernels, kept on disk.
#
# A kernel is compiled for the types it is called with, so each kind of question is posed once, on processes of a few
# states. `tests/cli/test_warm_up.py` checks that no kernel remains uncompiled.


class Warmed(NamedTuple):
    """One kind of question, posed once."""

    name: str
    n_compiled: int
    seconds: float


def warm_up() -> int:
    """Compile all numerical kernels now, so that later commands start faster."""
    import logging

    from somcot.cli.output import console

    screen = console()
    logging.getLogger("somcot").setLevel(logging.ERROR)  # its messages would repeat those below
    began = time.perf_counter()
    screen.print("Compiling the numerical kernels; they are kept on disk, so this is needed once.")
    gc.disable()  # collecting the compiler's garbage takes time, and the process ends soon
    try:
        for step in warm_kernels():
            screen.print(f"  {step.name:<26} {f'compiled in {step.seconds:.1f} s' if step.n_compiled else 'ready'}")
    finally:
        gc.enable()
    screen.print(f"All kernels are ready ({time.perf_counter() - began:.0f} s).")
    return 0


def warm_kernels() -> Iterator[Warmed]:
    """Pose each kind of question once; kernels compiled before are only loaded.

    Examples
    --------
    >>> [step.name for step in warm_kernels()][0]
    'exact distance'
    """
    from somcot.compile.jit import n_compiled

    for name, ask in _QUESTIONS.items():
        began, before = time.perf_counter(), n_compiled()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the data are too few for a reliable answer, which is not needed here
            ask()
        yield Warmed(name, n_compiled() - before, time.perf_counter() - began)


def _chains() -> tuple[MarkovChain, MarkovChain]:
    return somcot.random_walk(3), somcot.random_walk(3, 0.7)


def _episodes() -> tuple[Samples, Samples]:
    x, y = _chains()
    return x.sample(9, 9, rng=0), y.sample(9, 9, rng=1)


def _occupancies() -> tuple[Samples, Samples]:
    x, y = _chains()
    return x.sample_occupancy(99, DISCOUNT, rng=0), y.sample_occupancy(99, DISCOUNT, rng=1)


def _cost() -> list[list[float]]:
    return [[abs(i - j) for j in range(3)] for i in range(3)]


def _exact() -> None:
    from somcot import certificates

    x, y = _chains()
    result = somcot.distance(x, y, _cost(), discount=DISCOUNT, method="exact")
    _ = result.encoder, result.gradient, result.residuals, x.occupancy(DISCOUNT)
    problem = somcot.Problem(x, y, _cost(), DISCOUNT)
    certificates.bracket(problem, somcot.metric(x, y, _cost(), discount=DISCOUNT))
    certificates.lower_bound(problem, 2)
    _smaller()


def _smaller() -> None:
    """Problems that are reduced to smaller ones: rare states, equivalent states."""
    far, split = somcot.random_walk(99, 0.3), somcot.block_chain(somcot.random_walk(3), 9)
    reward = [1.0] + [0.0] * 98
    result = somcot.distance(far, split, [[abs(r - k // 9) for k in range(27)] for r in reward], discount=DISCOUNT)
    _ = result.encoder, result.gradient


def _wide() -> None:
    """Rows with many entries, and enough pairs to try every initial basis."""
    table = np.random.default_rng(0).random((24, 24))
    x, y = (somcot.MarkovChain(rows, normalize=True) for rows in (table, table.T))
    somcot.metric(x, y, table[::-1], discount=DISCOUNT)


def _close() -> None:
    x, y = _chains()
    somcot.distance(x, y, _cost(), discount=1 - 1e-6)


def _estimate() -> None:
    for data in (_episodes(), _occupancies()):
        result = somcot.distance(*data, _cost(), discount=DISCOUNT, confidence=0.9)
        _ = result.encoder, result.gradient, result.findings()
    somcot.same_process(*_episodes(), _cost(), discount=DISCOUNT, n_permutations=1)


def _gradients() -> None:
    from somcot.gradients import WarmStart, solve_arrays

    x, y = _chains()
    arrays = [x.transition, y.transition, _cost(), DISCOUNT, [0.2, 0.3, 0.5], [0.2, 0.3, 0.5]]
    warm = WarmStart()
    # Twice, because a warm start takes another path.
    for _ in range(2):
        solution = solve_arrays(tuple(np.asarray(a, dtype=np.float64) for a in arrays), warm)
        _ = solution.gradient, solution.is_smooth(), solution.second(solution.gradient)


def _many() -> None:
    x, y = _episodes()
    somcot.distance_matrix(_chains(), _cost(), discount=1)
    somcot.distance_matrix([*_chains(), x, y], _cost(), discount=DISCOUNT, confidence=0.9)
    somcot.distance_matrix([x, somcot.Counts.from_samples(x)], _cost(), discount=DISCOUNT, confidence=0.5)


def _counting() -> None:
    from somcot.readers.tables.streaming_counts import warm_up

    warm_up()


def _live() -> None:
    from somcot.live.sequences import keys_of

    x, _ = _episodes()
    names = keys_of(["a", "b", "c"] * 3)
    for reference in (somcot.random_walk(3), x):
        monitor = somcot.Monitor(reference, discount=DISCOUNT)
        monitor.update(x.now[:9])
        monitor.update(x.now[:9], names, times=np.arange(9.0))
        monitor.update(np.arange(99) % 3, np.arange(99))


def _saddle() -> None:
    for x, y in (_chains(), _occupancies()):
        _ = somcot.distance(x, y, _cost(), discount=DISCOUNT, method="saddle", max_steps=10).encoder


def _sinkhorn() -> None:
    somcot.distance(*_chains(), _cost(), discount=DISCOUNT, method="sinkhorn", epsilon=0.5)


def _draws() -> None:
    from somcot import streams

    streams.from_chain(_chains()[0], DISCOUNT, rng=0).draw(10)


def _somcot(support: str) -> None:
    x, y = _chains()
    ask = partial(somcot.distance, x, y, _cost(), discount=DISCOUNT, method="somcot", n_steps=50, rng=0)
    # Keeping the coupling takes kernels of its own, and so does the paper's algorithm, with given rates.
    for keep in (False, True):
        ask(support=support, keep_coupling=keep)
    ask(support=support, primal_step=0.1, dual_step=0.1)


_QUESTIONS: dict[str, Callable[[], None]] = {
    "exact distance": _exact,
    "wide supports": _wide,
    "derivatives": _gradients,
    "discounts close to 1": _close,
    "saddle point": _saddle,
    "estimate from data": _estimate,
    "many distances": _many,
    "counting tables": _counting,
    "watching a stream": _live,
    "Sinkhorn value iteration": _sinkhorn,
    "draws from a chain": _draws,
    "SOMCOT, full support": partial(_somcot, "full"),
    "SOMCOT, observed support": partial(_somcot, "observed"),
}


# --- Explanations of notes and errors.


def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="Code of a note; without it, list all codes.")
    ] = None,
) -> int:
    """Explain a note or an error, and what to do about it."""
    if code is not None:
        lines = [textwrap.fill(part, 100) for part in f"{code}: {explained(code, spelled)}".splitlines()]
    else:
        lines = []
        for severity, (title, _) in HEADS.items():
            lines.append(f"{title}:")
            names = sorted(n for n, kind in CATALOGUE.items() if kind.severity is severity)
            texts = {name: textwrap.shorten(pattern(name, spelled), 100, placeholder=" ...") for name in names}
            lines += [f"  {name}: {text}" for name, text in texts.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


# --- Shell completion.


class Shell(enum.StrEnum):
    """Shells with a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> int:
    """Print a completion script for bash, zsh or fish."""
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="somcot", complete_var="_SOMCOT_COMPLETE", shell=str(shell))
    sys.stdout.write(f"{script}\n")
    return 0
