"""The table and the judgement of `benchmarks.truth`: from JSON lines to Markdown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from benchmarks.sources import Case

__all__ = ["Cell", "Line", "holm", "report"]

Line = dict[str, Any]
Floats = NDArray[np.float64]
LEAST = 500  # transitions below which a cell is listed apart
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Cell:
    """The results of one rule on one case."""

    name: str
    truth: float
    lines: list[Line]

    def values(self, key: str) -> Floats:
        """A column; NaN where a repetition failed."""
        return np.array([np.nan if line.get(key) is None else line[key] for line in self.lines], dtype=np.float64)

    @property
    def n(self) -> float:
        """Transitions of the smaller side."""
        return float(np.median(self.values("n")))

    @property
    def below(self) -> float:
        """Share of intervals that are above the truth: the truth is below."""
        return float(np.mean(self.values("low") > self.truth + TOLERANCE))

    @property
    def above(self) -> float:
        """Share of intervals below the truth."""
        return float(np.mean(self.values("high") < self.truth - TOLERANCE))

    @property
    def hits(self) -> int:
        """Number of intervals that contain the truth; NaN does not."""
        inside = (self.values("low") <= self.truth + TOLERANCE) & (self.truth - TOLERANCE <= self.values("high"))
        return int(inside.sum())

    @property
    def coverage(self) -> float:
        """Share of intervals that contain the truth."""
        return self.hits / len(self.lines)

    @property
    def width(self) -> float:
        """Mean width over that of the middle 90 % of the plug-in, which is what an oracle could offer."""
        oracle = float(np.diff(np.nanquantile(self.values("plugin"), [0.05, 0.95]))[0])
        return float(np.nanmean(self.values("high") - self.values("low"))) / oracle if oracle > 0 else np.nan

    @property
    def rmse(self) -> float:
        """Root mean square error over that of the plug-in."""
        errors = [np.sqrt(np.nanmean((self.values(key) - self.truth) ** 2)) for key in ("estimate", "plugin")]
        return float(errors[0] / errors[1]) if errors[1] > 0 else np.nan

    @property
    def rejects(self) -> float:
        """Share of tests at level 0.05 that reject; NaN without tests."""
        p = self.values("pvalue")
        return float(np.mean(p[~np.isnan(p)] <= 0.05)) if (~np.isnan(p)).any() else np.nan

    @property
    def inconsistent(self) -> float:
        """Share of repetitions in which either the interval excludes 0 or the test rejects, but not both."""
        p, low = self.values("pvalue"), self.values("low")
        tested = ~np.isnan(p) & ~np.isnan(low)
        return float(np.mean((low > TOLERANCE)[tested] != (p <= 0.05)[tested])) if tested.any() else np.nan

    @property
    def warned(self) -> float:
        """Share of repetitions with a warning."""
        return float(np.mean(self.values("warnings") > 0))

    @property
    def failed(self) -> int:
        """Number of exceptions."""
        return sum("error" in line for line in self.lines)

    @property
    def cpu(self) -> float:
        """CPU seconds of an estimate."""
        return float(np.nanmean(self.values("cpu")))


def holm(pvalues: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which hypotheses Holm's correction rejects.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03, 0.005])
    [True, False, False, True]
    """
    order = np.argsort(pvalues)
    rejected = [False] * len(order)
    for rank, index in enumerate(order):
        if pvalues[index] > level / (len(order) - rank):
            break
        rejected[index] = True
    return rejected


def report(
    cases: Iterable[Case],
    truths: dict[str, Any],
    lines: list[Line],
    other: list[Line],
    rule: str,
    against: str,
    families: dict[str, str],
) -> str:
    """Everything as Markdown: judgement, families, cells, small cells, groups, warnings."""
    listed = list(cases)
    mine, theirs = _by_case(lines), _by_case(other)
    pairs = [case.name for case in listed if case.kind == "pair" and case.name in mine]
    cells = {name: Cell(name, truths[name], mine[name]) for name in pairs}
    former = {name: Cell(name, truths[name], theirs[name]) for name in pairs if name in theirs}
    large = [cell for cell in cells.values() if cell.n >= LEAST]
    small = [cell for cell in cells.values() if cell.n < LEAST]
    groups = [case.name for case in listed if case.kind == "groups" and case.name in mine]
    shown = former if rule != against else {}
    sections = [
        f"# Coverage of the rule {rule!r}" + (f", in brackets that of {against!r}" if shown else ""),
        "## Judgement\n\n" + _judgement(large, shown, [mine[name] for name in groups]),
        "## Families, cells of all sizes\n\n" + (_families(cells.values(), families) if cells else "None."),
        "## Cells\n\n" + _table(large, shown),
        f"## Fewer than {LEAST} transitions on a side\n\n" + (_table(small, shown) if small else "None."),
        "## Groups\n\n" + _groups(groups, mine, theirs if shown else {}),
        "## Warnings and failures\n\n" + _messages(lines, {*pairs, *groups}),
    ]
    return "\n\n".join(sections) + "\n"


def _by_case(lines: list[Line]) -> dict[str, list[Line]]:
    found: dict[str, dict[int, Line]] = defaultdict(dict)
    for line in lines:
        found[line["case"]][line["seed"]] = line
    return {name: [of[seed] for seed in sorted(of)] for name, of in found.items()}


def _judgement(cells: list[Cell], former: dict[str, Cell], groups: list[list[Line]]) -> str:
    """The criteria, in order of priority."""
    if not cells:
        return "No results."
    tests = holm([float(binom.cdf(cell.hits, len(cell.lines), 0.86)) for cell in cells])
    low = [f"{cell.name} ({cell.coverage:.2f})" for cell, reject in zip(cells, tests, strict=True) if reject]
    kinds: dict[str, Callable[[Cell], bool]] = {
        "all": lambda _: True,
        "families": lambda cell: not cell.name.startswith(("halves", "tilt")),
        "halves of logs": lambda cell: cell.name.startswith("halves"),
        "tilts of logs": lambda cell: cell.name.startswith("tilt"),
    }
    pooled = {name: [cell.coverage for cell in cells if chosen(cell)] for name, chosen in kinds.items()}
    apart = [cell for cell in cells if cell.truth > TOLERANCE]
    null = [cell for cell in cells if cell.truth <= TOLERANCE]
    ratios = {cell.name: _ratio(cell, former[cell.name]) for cell in cells if cell.name in former}
    big = {cell.name for cell in cells if max(cell.values("states")) > 30 or max(cell.values("sequences")) > 20_000}
    rows = [
        ("cells below 0.86 (binomial, Holm)", "0", f"{len(low)} of {len(cells)}"),
        ("pooled coverage", "0.88 to 0.97", "; ".join(f"{k} {np.mean(v):.3f}" for k, v in pooled.items() if v)),
        ("interval and test inconsistent", "0", _mean([cell.inconsistent for cell in cells], 4)),
        ("CPU ratio, to 30 states: mean, largest", "2.5", _spread(ratios, set(ratios) - big)),
        ("CPU ratio, more states or sequences: mean, largest", "4", _spread(ratios, big)),
        ("RMSE / plug-in's: mean", "0.5", _mean([cell.rmse for cell in cells])),
        ("width / oracle's where d > 0: mean", "2.2", _mean([cell.width for cell in apart])),
        ("width / oracle's where d = 0: mean", "", _mean([cell.width for cell in null])),
        ("test rejects where d = 0: mean", "0.05", _mean([cell.rejects for cell in null], 3)),
        (
            "the same, long recordings",
            "0.03 to 0.08",
            _mean([cell.rejects for cell in null if cell.name.startswith("long")], 3),
        ),
        (
            "equal groups called apart: mean, largest",
            "0.10",
            _extremes([float(np.mean([g.get("single_apart") or 0.0 for g in of])) for of in groups], max),
        ),
        (
            "simultaneous intervals all contain the truth: mean, least",
            "0.86",
            _extremes([float(np.mean([g.get("simultaneous_all", False) for g in of])) for of in groups], min),
        ),
    ]
    if former:
        common = [former[cell.name] for cell in cells if cell.name in former]
        rows.append(("the former rule: pooled coverage", "", _mean([cell.coverage for cell in common], 3)))
        rows.append(("the former rule: RMSE / plug-in's", "", _mean([cell.rmse for cell in common])))
        widths = [cell.width for cell in common if cell.truth > TOLERANCE]
        rows.append(("the former rule: width where d > 0", "", _mean(widths)))
    head = "| criterion | wanted | found |\n|---|---|---|\n"
    table = head + "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return table + "\n\nBelow 0.86: " + (", ".join(low) or "none") + "."


def _ratio(cell: Cell, former: Cell) -> float:
    """CPU of both rules on the seeds they share."""
    of = {line["seed"]: line["cpu"] for line in former.lines if "cpu" in line}
    shared = [(line["cpu"], of[line["seed"]]) for line in cell.lines if "cpu" in line and line["seed"] in of]
    return float(np.divide(*np.sum(shared, axis=0))) if shared else np.nan


def _mean(values: Iterable[float], digits: int = 2) -> str:
    found = np.array(list(values), dtype=np.float64)
    return f"{np.nanmean(found):.{digits}f}" if np.isfinite(found).any() else "-"


def _spread(ratios: dict[str, float], names: set[str]) -> str:
    chosen = {name: ratios[name] for name in names if name in ratios and np.isfinite(ratios[name])}
    if not chosen:
        return "-"
    worst = max(chosen, key=chosen.__getitem__)
    return f"{np.mean(list(chosen.values())):.2f}, {chosen[worst]:.2f} ({worst})"


def _extremes(values: list[float], choose: Callable[[list[float]], float]) -> str:
    return f"{np.mean(values):.3f}, {choose(values):.3f}" if values else "-"


def _families(cells: Iterable[Cell], families: dict[str, str]) -> str:
    """One row for each family: means over its cells, so that each counts once, and the worst of them."""
    found: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        found[families.get(cell.name, cell.name.split()[0] + " of logs")].append(cell)
    rows = []
    for name, of in [*found.items(), ("all", [cell for members in found.values() for cell in members])]:
        worst = min(of, key=lambda cell: cell.coverage)
        rows.append(
            [
                name,
                str(len(of)),
                str(sum(len(cell.lines) for cell in of)),
                _mean([cell.coverage for cell in of], 3),
                f"{worst.coverage:.2f} of {len(worst.lines)} ({worst.name})",
                _mean([cell.below for cell in of], 3),
                _mean([cell.above for cell in of], 3),
                _mean([cell.width for cell in of]),
                _mean([cell.rmse for cell in of]),
                _mean([cell.inconsistent for cell in of], 4),
                _mean([cell.rejects for cell in of if cell.truth <= TOLERANCE], 3),
            ]
        )
    heads = ["family", "cells", "runs", "coverage", "lowest", "truth below", "above", "width / oracle"]
    return _markdown([*heads, "RMSE / plug-in", "inconsistent", "rejects where d = 0"], rows)


def _table(cells: list[Cell], former: dict[str, Cell]) -> str:
    """One row for each case; what the former rule has is in brackets."""
    columns: dict[str, Callable[[Cell], float]] = {
        "coverage": lambda cell: cell.coverage,
        "truth below": lambda cell: cell.below,
        "above": lambda cell: cell.above,
        "width / oracle": lambda cell: cell.width,
        "RMSE / plug-in": lambda cell: cell.rmse,
        "rejects": lambda cell: cell.rejects,
        "inconsistent": lambda cell: cell.inconsistent,
        "warned": lambda cell: cell.warned,
    }
    heads = ["case", "truth", "n", "seeds", *columns, "CPU ms", "CPU ratio"]
    rows = []
    for cell in cells:
        other = former.get(cell.name)
        row = [cell.name, f"{cell.truth:.4f}", f"{cell.n:,.0f}", str(len(cell.lines))]
        for value in columns.values():
            text = _number(value(cell))
            row.append(text if other is None else f"{text} ({_number(value(other))})")
        row += [f"{1000 * cell.cpu:.0f}", "-" if other is None else _number(_ratio(cell, other))]
        rows.append(row)
    return _markdown(heads, rows)


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"


def _groups(names: list[str], mine: dict[str, list[Line]], theirs: dict[str, list[Line]]) -> str:
    if not names:
        return "None."
    keys = {
        "equal pairs apart": "single_apart",
        "single intervals contain the truth": "single_inside",
        "simultaneous: all contain it": "simultaneous_all",
        "simultaneous: equal pairs apart": "simultaneous_apart",
        "CPU s": "cpu",
    }
    rows = []
    for name in names:
        row = [name, str(len(mine[name]))]
        for key in keys.values():
            cells = [Cell(name, 0.0, of[name]).values(key) for of in (mine, theirs) if name in of]
            texts = [_mean(values) for values in cells]
            row.append(texts[0] if len(texts) == 1 else f"{texts[0]} ({texts[1]})")
        rows.append(row)
    return _markdown(["case", "seeds", *keys], rows)


def _messages(lines: list[Line], names: set[str]) -> str:
    chosen = [line for line in lines if line["case"] in names]
    codes = Counter(code for line in chosen for code in line.get("codes", ()))
    errors = Counter(f"{line['case']}: {line['error']}" for line in chosen if "error" in line)
    rows = [[f"`{code}`", str(count)] for code, count in codes.most_common()]
    text = _markdown(["code", f"of {len(chosen)} repetitions"], rows)
    return text + "".join(f"\n\nFailed {count} times: {message}" for message, count in errors.items())


def _markdown(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
