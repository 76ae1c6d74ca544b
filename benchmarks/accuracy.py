"""Measure SOMCOT and the estimates from data: ``python -m benchmarks.accuracy`` (or with one of the names below)

``data``: bias, coverage and test level, the tables of docs/statistics.md, with pictures in docs/images; some minutes.
``somcot``: the table of docs/somcot.md, on the problems written down here before any of them was run; an hour or so,
most of it for Algorithm 2 (``counted`` leaves that out). ``stability``: 400 random problems. ``tracking``: processes
that change, with half-lives.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tests.ab_instances import GROUPS, RULES, Cell, Figures, cells, demo, figures
from tests.data_instances import estimate, truth
from tests.statistical.test_estimation_accuracy import rejections
from tests.statistical.test_somcot_accuracy import MOMENTS, tracking_errors

from somcot import ConvergenceWarning, MarkovChain, Result, distance, steps, streams
from somcot.solvers import somcot

# --- SOMCOT: the problems, written down before they were run. Family, states, discount, starts, cost.

PROBLEMS = """
walk      3x3   .8   equal     steps     walk      5x5   .9   different steps     walk      5x5   .95  equal     labels
walk      5x5   .99  different random    walk      8x8   .9   uniform   steps     walk      8x8   .95  different labels
walk      10x10 .9   equal     outlier   walk      10x10 .95  random    steps     walk      4x9   .9   equal     steps
walk      9x4   .99  uniform   random    walk      5x5   .999 equal     steps     walk      15x15 .95  different steps
lazy      3x3   .95  different labels    lazy      5x5   .8   equal     steps     lazy      5x5   .9   different steps
lazy      5x5   .99  random    outlier   lazy      8x8   .95  equal     random    lazy      8x8   .99  different steps
lazy      10x10 .9   uniform   labels    lazy      12x12 .95  different steps     lazy      6x12  .9   equal     steps
lazy      20x20 .95  equal     steps     lazy      5x5   .999 uniform   steps     lazy      30x30 .9   different labels
blocks    5x10  .9   equal     labels    blocks    5x15  .95  equal     steps     blocks    4x8   .99  different steps
blocks    6x18  .9   uniform   labels    blocks    10x30 .95  equal     labels    blocks    3x9   .8   random    random
blocks    5x10  .999 equal     labels    blocks    8x16  .9   different outlier   dense     3x3   .9   equal     random
dense     4x4   .95  different random    dense     5x5   .99  uniform   labels    dense     6x6   .9   random    steps
dense     8x8   .95  equal     outlier   dense     10x10 .9   different random    dense     4x8   .99  equal     random
dense     12x12 .95  equal     labels    dense     5x5   .999 different random    dense     20x20 .9   equal     random
sparse    6x6   .9   equal     random    sparse    8x8   .95  different labels    sparse    10x10 .99  uniform   random
sparse    12x12 .9   random    steps     sparse    20x20 .95  equal     random    sparse    30x30 .9   different random
sparse    10x20 .95  equal     outlier   sparse    8x8   .8   different steps     sparse    15x15 .99  equal     labels
cycle     3x3   .95  equal     labels    cycle     5x5   .9   different labels    cycle     8x8   .9   different labels
cycle     8x8   .95  equal     steps     cycle     6x9   .9   equal     steps     cycle     7x8   .95  different random
cycle     10x10 .99  uniform   labels    cycle     4x4   .8   random    random    cycle     12x12 .95  equal     outlier
bottleneck 6x6  .9   equal     labels    bottleneck 8x8 .95   different steps     bottleneck 10x10 .9  uniform   labels
bottleneck 8x8  .99  equal     random    bottleneck 6x12 .95  equal     steps     bottleneck 12x12 .8  different outlier
birth     5x5   .9   equal     steps     birth     8x8   .95  different steps     birth     10x10 .99  equal     labels
birth     6x6   .999 random    steps     birth     12x12 .9   uniform   random    birth     20x20 .95  equal     steps
birth     5x12  .9   equal     steps     birth     8x8   .8   different outlier   absorbing 3x3   .9   equal     labels
absorbing 5x5   .95  different steps     absorbing 5x5   .99  uniform   labels    absorbing 8x8   .9   equal     random
absorbing 9x9   .99  equal     steps     absorbing 6x12  .95  equal     labels    absorbing 10x10 .95  random    outlier
absorbing 4x4   .999 equal     steps     absorbing 12x12 .9   different labels    absorbing 15x15 .95  equal     steps
"""
SEEDS, LENGTHS = (0, 1), (1_000, 10_000, 100_000)
LIMITS = {1_000: 0.02, 10_000: 0.01, 100_000: 0.01}  # worst |SOMCOT - counted|; the mean has 0.001
MOST_PAIRS = 144  # pairs of states up to which Algorithm 2 is run at every length


class Case(NamedTuple):
    """One problem."""

    name: str
    x: MarkovChain
    y: MarkovChain
    cost: Any
    discount: float


def problems(table: str = PROBLEMS) -> Iterator[Case]:
    """The problems of the table; random ones are made from their place in it."""
    words = table.split()
    for place in range(0, len(words), 5):
        family, sizes, discount, starts, cost = words[place : place + 5]
        rng = np.random.default_rng([2026, place // 5])
        n_x, n_y = map(int, sizes.split("x"))
        yield case(family, n_x, n_y, float(discount), starts, cost, rng)


def case(family: str, n_x: int, n_y: int, discount: float, starts: str, cost: str, rng: np.random.Generator) -> Case:
    """Make a problem."""
    kernels = _kernels(family, n_x, n_y, rng)
    laws: Any = {
        "equal": lambda: (np.eye(n_x)[0], np.eye(n_y)[0]),
        "different": lambda: (np.eye(n_x)[n_x // 2], np.eye(n_y)[0]),
        "uniform": lambda: (np.full(n_x, 1 / n_x), np.full(n_y, 1 / n_y)),
        "random": lambda: (rng.dirichlet(np.ones(n_x)), rng.dirichlet(np.ones(n_y))),
    }
    laws = laws[starts]()
    places = np.linspace(0, 1, n_x)[:, None], np.linspace(0, 1, n_y)[None, :]
    table = np.abs(places[0] - places[1])
    if cost == "labels":
        table = np.asarray(np.arange(n_x)[:, None] * n_y // n_x != np.arange(n_y)[None, :], dtype=float)
    elif cost == "random":
        table = rng.random((n_x, n_y))
    elif cost == "outlier":
        table[rng.integers(n_x), rng.integers(n_y)] = 10.0
    name = f"{family} {n_x}x{n_y} {discount:g} {starts} {cost}"
    x, y = (MarkovChain(P, law) for P, law in zip(kernels, laws, strict=True))
    return Case(name, x, y, table, discount)


def _kernels(family: str, n_x: int, n_y: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Two kernels of a family that differ a little or much."""
    if family == "blocks":
        small = _line(n_x, 0.5, 0.0)
        copies = n_y // n_x
        return small, np.kron(_line(n_x, 0.7, 0.0), np.ones((copies, copies)) / copies)
    a, b = (0.5, 0.7) if rng.random() < 0.5 else (0.6, 0.35)
    make: dict[str, Callable[[int, float], Any]] = {
        "walk": lambda n, u: _line(n, u, 0.0),
        "lazy": lambda n, u: _line(n, u, 0.3),
        "dense": lambda n, _: rng.dirichlet(np.ones(n), size=n),
        "sparse": lambda n, _: _few(n, rng),
        "cycle": lambda n, u: _cycle(n, 1.0 if u in (0.5, 0.6) else 0.9),
        "bottleneck": _two_rooms,
        "birth": lambda n, u: _line(n, u, 0.1) * 0.95 + 0.05 * np.eye(n),
        "absorbing": _with_end,
    }
    return make[family](n_x, a), make[family](n_y, b)


def _line(n: int, up: float, stay: float) -> Any:
    P = stay * np.eye(n)
    for i in range(n):
        P[i, min(n - 1, i + 1)] += (1 - stay) * up
        P[i, max(0, i - 1)] += (1 - stay) * (1 - up)
    return P


def _few(n: int, rng: np.random.Generator) -> Any:
    P = np.zeros((n, n))
    for i in range(n):
        P[i, rng.choice(n, size=min(3, n), replace=False)] = rng.dirichlet(np.ones(min(3, n)))
    return P


def _cycle(n: int, ahead: float) -> Any:
    return ahead * np.roll(np.eye(n), 1, axis=1) + (1 - ahead) * np.eye(n)


def _two_rooms(n: int, u: float) -> Any:
    half = n // 2
    P = np.zeros((n, n))
    P[:half, :half], P[half:, half:] = 1 / half, 1 / (n - half)
    P[0] = 0.98 * P[0] + 0.02 * u * np.eye(n)[n - 1] + 0.02 * (1 - u) * np.eye(n)[0]
    P[n - 1] = 0.97 * P[n - 1] + 0.03 * np.eye(n)[0]
    return P


def _with_end(n: int, u: float) -> Any:
    P = _line(n, u, 0.2)
    P[n - 1] = np.eye(n)[n - 1]
    return P


class Run(NamedTuple):
    """One run: errors in shares of the cost's range, CPU seconds, and whether it warned."""

    name: str
    rule: str
    n_steps: int
    seed: int
    to_truth: float
    to_counted: float
    counted_to_truth: float
    seconds: float
    warned: bool


def measure(problem: Case, rule: str, n_steps: int, seed: int, truth: float) -> Run:
    """Run SOMCOT once: "counted" (the default), "walked" (the same, draws by geometric stopping), "former", "paper"."""
    x: Any = problem.x
    y: Any = problem.y
    cost, scale = problem.cost, float(np.ptp(problem.cost))
    options: dict[str, Any] = {"discount": problem.discount, "n_steps": n_steps, "rng": seed}
    if rule == "former":
        options |= {"steps": steps.auto(cost.shape[0], cost.shape[1], n_steps, scale)}
    elif rule == "paper":
        options |= {"steps": "paper", "average": 1.0}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.process_time()
        if rule == "walked":
            sides = zip((x, y), np.random.default_rng(seed).spawn(2), strict=True)
            x, y = (streams.from_chain(chain, problem.discount, rng) for chain, rng in sides)
        found = somcot.solve(x, y, cost, **options)
        seconds = time.process_time() - began
    same = found.distance if found.counted is None else found.counted  # too large to be solved on the side
    ends = found.distance - truth, found.distance - same, same - truth
    warned = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    to_truth, to_counted, counted_to_truth = (abs(end) / scale for end in ends)
    return Run(problem.name, rule, n_steps, seed, to_truth, to_counted, counted_to_truth, seconds, warned)


RULES_COMPARED = ("counted", "former", "paper", "walked")


def somcot_table(rules: Sequence[str] = RULES_COMPARED) -> list[Run]:
    """Every rule on every problem, one after the other, so that a busy machine slows all of them.

    The default has two seeds. Algorithm 2 has one, and at 100,000 steps the smaller problems only.
    """
    cases, runs = list(problems()), []
    truths = [distance(p.x, p.y, p.cost, discount=p.discount).distance for p in cases]
    for problem in cases:  # compiles what is not compiled yet
        measure(problem, "counted", 100, 0, 0.0)
    for n_steps in LENGTHS:
        for problem, truth_ in zip(cases, truths, strict=True):
            large = n_steps == LENGTHS[-1] and problem.cost.size > MOST_PAIRS
            for rule in rules:
                if large and rule in ("former", "paper"):
                    continue
                seeds = SEEDS if rule == "counted" else SEEDS[:1]
                runs += [measure(problem, rule, n_steps, seed, truth_) for seed in seeds]
        for rule in rules:
            _print_row([run for run in runs if (run.rule, run.n_steps) == (rule, n_steps)])
        if "former" in rules:
            _print_ratios(runs, n_steps)
    return runs


def _print_row(runs: list[Run]) -> None:
    truth_, counted, off = (np.array([getattr(r, name) for r in runs]) for name in
                            ("to_truth", "counted_to_truth", "to_counted"))  # fmt: skip
    warned = np.array([r.warned for r in runs])
    far = off > 0.01
    print(
        f"| {runs[0].rule} | {runs[0].n_steps:,} | {len(runs)} | {off.mean():.4f} / {np.median(off):.4f} / "
        f"{off.max():.4f} | {truth_.mean():.4f} / {truth_.max():.4f} | {counted.mean():.4f} / {counted.max():.4f} | "
        f"{int((far & ~warned).sum())} of {int(far.sum())} | {int((warned & ~far).sum())} of {int((~far).sum())} | "
        f"{np.median([r.seconds for r in runs]):.3f} |",
        flush=True,
    )
    if runs[0].rule == "counted":
        worst = sorted(runs, key=lambda r: -r.to_counted)[:4]
        print("  worst:", [(r.name, r.seed, round(r.to_counted, 4)) for r in worst], flush=True)
        limits = off.mean() <= 0.001, off.max() <= LIMITS[runs[0].n_steps], truth_.mean() <= 1.1 * counted.mean()
        print("  mean <= 0.001, worst within its limit, error <= 1.1 times that of counted:", limits, flush=True)


def _print_ratios(runs: list[Run], n_steps: int) -> None:
    """CPU of the default against the former one, drawing and counting included."""
    former = {r.name: r.seconds for r in runs if (r.rule, r.n_steps) == ("former", n_steps)}
    for rule in ("counted", "walked"):
        own = {r.name: r.seconds for r in runs if (r.rule, r.n_steps, r.seed) == (rule, n_steps, 0)}
        ratios = [own[name] / seconds for name, seconds in former.items()]
        middle, most = np.median(ratios), np.quantile(ratios, 0.9)
        print(f"  CPU at {n_steps:,}: {rule} / former {middle:.3f}, 90 % {most:.3f}, over {len(ratios)}", flush=True)


def stability(n: int = 400) -> None:
    """Random problems, 10,000 transitions each: how far the default ends from the exact distance of its counts."""
    families = ("walk", "lazy", "dense", "sparse", "cycle", "bottleneck", "birth", "absorbing")
    errors, rng = [], np.random.default_rng(400)
    for place in range(n):
        n_x, n_y = (int(k) for k in rng.integers(2, 16, size=2))
        kinds = rng.choice(families), rng.choice(["equal", "different", "uniform", "random"])
        cost = rng.choice(["steps", "labels", "random", "outlier"])
        if kinds[0] == "bottleneck":
            n_x, n_y = max(n_x, 4), max(n_y, 4)
        problem = case(kinds[0], n_x, n_y, float(rng.uniform(0.5, 0.995)), kinds[1], cost, rng)
        if np.ptp(problem.cost) == 0:
            continue
        run = measure(problem, "counted", 10_000, place, 0.0)
        errors.append((run.to_counted, run.warned, problem.name))
    off = np.array([error for error, _, _ in errors])
    size = (
        f"mean {off.mean():.5f}, median {np.median(off):.5f}, 99 % {np.quantile(off, 0.99):.4f}, worst {off.max():.4f}"
    )
    alarms = f"above 0.01: {int((off > 0.01).sum())}, warned: {sum(warned for _, warned, _ in errors)}"
    print(f"{len(off)} random problems: {size}, {alarms}", flush=True)
    print("  worst:", sorted(errors)[-3:])


# --- Processes that change.

HALF_LIVES = (None, 30_000.0, 10_000.0, 3_000.0)


def tracking_table(seeds: int = 16) -> None:
    """Mean errors over seeds, by half-life."""
    print("| half-life | n_eff | still, at the end | jump: 5,000 / 20,000 / 100,000 after | ramp, at the end |")
    print("|---|---|---|---|---|")
    for half_life in HALF_LIVES:
        found = {k: np.mean([tracking_errors(k, half_life, s) for s in range(seeds)], axis=0) for k in MOMENTS}
        weight = somcot.init(np.eye(2), discount=0.9, n_steps=200_000, half_life=half_life)
        weight.k = 200_000
        cells = " | ".join(" / ".join(f"{error:.4f}" for error in found[kind]) for kind in MOMENTS)
        print(f"| {'none' if half_life is None else f'{half_life:,.0f}'} | {weight.n_eff:,.0f} | {cells} |", flush=True)


# --- Estimates from data.

ZERO = ("rw5_0.5@0.9", "bl5x3_0.5", "lazy0")
POSITIVE = ("rw5_0.7@0.9", "bl5x3_0.7", "lazy")
FAMILIES = (*ZERO, "rw5_0.55@0.9", *POSITIVE, "rw5_0.7@0.99", "dense5", "ruin")
SIZES = (1000, 3000, 10_000, 30_000)


def plugin(runs: Sequence[Result]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array([run.plugin for run in runs], dtype=np.float64)


def accuracy_table(seeds: int = 20) -> tuple[list[str], dict[str, list[tuple[float, float]]]]:
    """Mean absolute errors of the plug-in and the estimate, per family and size."""
    lines = [
        "| family | distance | " + " | ".join(f"N = {n:,}" for n in SIZES) + " |",
        "|---|---|" + "---|" * len(SIZES),
    ]
    curves: dict[str, list[tuple[float, float]]] = {}
    for name in FAMILIES:
        d = truth(name)
        cells = []
        for n in SIZES:
            runs = [estimate(name, n, seed) for seed in range(seeds)]
            plain = float(np.abs(plugin(runs) - d).mean())
            corrected = float(np.mean([abs(run.distance - d) for run in runs]))
            curves.setdefault(name, []).append((plain, corrected))
            cells.append(f"{plain:.4f} -> {corrected:.4f}")
        lines.append(f"| {name} | {d:.4f} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines, curves


def coverage_table(n: int = 3000, seeds: int = 200) -> tuple[list[str], dict[str, float]]:
    """Coverage at nominal 90 %, mean width, and the standard error against the spread of the plug-in."""
    lines = ["| family | coverage | width | standard error / spread |", "|---|---|---|---|"]
    found: dict[str, float] = {}
    for name in FAMILIES:
        d = truth(name)
        runs = [estimate(name, n, seed, confidence=0.9) for seed in range(seeds)]
        intervals = [run.confidence_interval for run in runs if run.confidence_interval is not None]
        found[name] = float(np.mean([low <= d <= high for low, high, _ in intervals]))
        width = np.mean([high - low for low, high, _ in intervals])
        errors = np.mean([run.estimate.standard_error for run in runs if run.estimate is not None])
        lines.append(f"| {name} | {found[name]:.3f} | {width:.3f} | {errors / plugin(runs).std():.2f} |")
        print(lines[-1], flush=True)
    return lines, found


def before_and_after_table(seeds: int = 100) -> list[str]:
    """Plug-in and estimate where few rows, none or all changed: means over cells, with the worst cell in brackets."""
    lines = [
        "| cells x seeds | rule | bias / standard error | error / plug-in's | root mean square | coverage | width |",
        "|---|---|---|---|---|---|---|",
    ]
    sets: list[tuple[str, Sequence[Cell], int]] = [(group, cells(group), seeds) for group in GROUPS]
    for group, members, n in (*sets, ("demo", (demo(),), 2 * seeds)):
        found = [figures(cell, range(n)) for cell in members]
        for rule in RULES:
            first = f"{group} ({len(members)} x {n})" if rule == RULES[0] else ""
            lines.append(f"| {first} | {rule} | " + _row([f[rule] for f in found]))
            print(lines[-1], flush=True)
    return lines


def _row(cells_of_rule: list[Figures]) -> str:
    bias, error, rms, coverage, width = np.array(cells_of_rule).T
    parts = [f"{bias.mean():.2f} [{bias[np.abs(bias).argmax()]:.2f}]"]
    parts += [f"{values.mean():.2f} [{values.max():.2f}]" for values in (error, rms)]
    parts += [f"{coverage.mean():.3f} ({coverage.min():.2f})", f"{width.mean():.2f} [{width.max():.2f}]"]
    return " | ".join(parts) + " |"


def draw(curves: dict[str, list[tuple[float, float]]], coverage: dict[str, float], folder: Path) -> None:
    """Errors against the number of transitions, and coverage by family."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    groups = (("true distance 0", ZERO), ("true distance above 0", POSITIVE))
    for ax, (title, names) in zip(axes, groups, strict=False):
        for name, colour in zip(names, ("#0072b2", "#d55e00", "#009e73"), strict=True):
            plain, corrected = np.array(curves[name]).T
            ax.loglog(SIZES, plain, "--", color=colour, lw=1)
            ax.loglog(SIZES, corrected, "o-", color=colour, label=name, ms=4)
        ax.set(title=title, xlabel="transitions per process", ylabel="mean absolute error")
        ax.legend(frameon=False, fontsize=8, title="estimate (dashed: plug-in)", title_fontsize=8)
    ax = axes[2]
    ax.barh(list(coverage), list(coverage.values()), color="#9ecae1")
    ax.axvline(0.9, color="black", lw=1)
    ax.set(xlim=(0.6, 1), title="coverage of the 90 % interval")
    ax.invert_yaxis()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / "accuracy.png", dpi=130)


def main() -> None:
    """Measure what is named on the command line, or everything; print Markdown, draw."""
    wanted = sys.argv[1:] or ["somcot", "stability", "tracking", "data"]
    if "counted" in wanted:
        somcot_table(["counted"])
    if "somcot" in wanted:
        somcot_table()
    if "stability" in wanted:
        stability()
    if "tracking" in wanted:
        tracking_table()
    if "data" in wanted:
        estimates()


def estimates() -> None:
    """Bias, coverage and test level of the estimates from data."""
    _, curves = accuracy_table()
    _, coverage = coverage_table()
    before_and_after_table()
    for theta, n in ((0.5, 3000), (0.6, 3000), (0.6, 10_000)):
        share = rejections(theta, n)
        print(f"same-process test, walks 0.5 and {theta}, {n} transitions: rejected at 5 % in {share:.3f}")
    draw(curves, coverage, Path(__file__).parents[1] / "docs" / "images")


if __name__ == "__main__":
    main()
