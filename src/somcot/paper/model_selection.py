"""Model selection with block chains: which bias explains the data?

X is the fair walk, the candidates Y are noisy block versions of walks with bias theta. The distance is smallest, and
in truth zero, at theta = 0.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from somcot import block_chain, distance, random_walk
from somcot.paper import experiment as style
from somcot.paper.experiment import (
    TABLE,
    Choice,
    DrawnPair,
    Experiment,
    FigureCheck,
    Record,
    Report,
    TableRow,
    hits,
    spearman,
    stages,
    sweep,
    walk_cost,
)
from somcot.plumbing.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "Panel", "SelectionSettings", "plot", "run"]

TRUE_THETA = 0.5


@dataclass(frozen=True)
class Panel:
    """A size of chain (the paper gives none), the numbers of steps shown, and the sample size of the estimate."""

    n_states: int
    n_copies: int
    n_steps: tuple[int, ...]
    default_samples: int

    @property
    def key(self) -> str:
        """Its name in the record."""
        return f"n={self.n_states},B={self.n_copies}"


class SelectionCase(NamedTuple):
    """One candidate in one panel."""

    panel: Panel
    theta: float


@dataclass(frozen=True)
class SelectionSettings:
    """The paper's rates; thetas from 0.1 to 0.9."""

    panels: tuple[Panel, ...] = (Panel(5, 3, (1_000, 10_000, 50_000), 8_000), Panel(10, 5, (1_000, 5_000), 40_000))
    thetas: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    n_seeds: int = 5
    rates: TableRow = TABLE["selection"]


def run(settings: SelectionSettings, seed: int = 0, report: Report | None = None) -> Record:
    """The curves: exact, SOMCOT at the paper's rates for each K and by default, and `somcot.select_model`."""
    rates = settings.rates
    # One unit of progress per candidate and seed, and one per panel and seed.
    sizes = [len(settings.panels) * n * settings.n_seeds for n in (len(settings.thetas), 1)]
    estimating, choosing = stages(report, *sizes)

    def values(case: SelectionCase, rng: np.random.Generator) -> dict[str, Any]:
        panel = case.panel
        x = random_walk(panel.n_states)
        y = block_chain(random_walk(panel.n_states, case.theta), panel.n_copies)
        cost = walk_cost(panel.n_states, panel.n_copies)
        pair = DrawnPair.draw(x, y, max(panel.n_steps) * rates.batch_size, rates.discount, rng)
        return {
            "exact": distance(x, y, cost, discount=rates.discount).distance,
            # Prefixes of one recording: the curves of different K differ by data added, not by luck.
            "somcot": [rates.run(pair, cost, k).distance for k in panel.n_steps],
            "counted": rates.run_default(pair, cost, max(panel.n_steps)).distance,
        }

    def choice(panel: Panel, rng: np.random.Generator) -> Choice:
        """One recording of the fair walk, one of each candidate, and one call of `select_model`."""
        chains = {t: block_chain(random_walk(panel.n_states, t), panel.n_copies) for t in settings.thetas}
        n, gamma = panel.default_samples, rates.discount
        recorded = random_walk(panel.n_states).sample_occupancy(n, gamma, rng=rng)
        candidates = {t: y.sample_occupancy(n, gamma, rng=rng) for t, y in chains.items()}
        return Choice.of(recorded, candidates, walk_cost(panel.n_states, panel.n_copies), gamma)

    seeds = range(seed, seed + settings.n_seeds)
    cases = [SelectionCase(panel, theta) for panel in settings.panels for theta in settings.thetas]
    outcomes = sweep(values, cases, seeds, estimating)
    choices = sweep(choice, settings.panels, seeds, choosing)
    data: dict[str, Any] = {
        "axes": {
            "exact": ["theta"], "somcot": ["seed", "theta", "K"], "counted": ["seed", "theta"],
            "default": ["seed", "theta"], "inside": ["seed", "theta"],
        }
    }  # fmt: skip
    for i, panel in enumerate(settings.panels):
        # `cases` lists the candidates panel by panel.
        mine = slice(i * len(settings.thetas), (i + 1) * len(settings.thetas))
        data[panel.key] = {
            "exact": np.array([cell["exact"] for cell in outcomes[0][mine]]),
            "somcot": np.array([[cell["somcot"] for cell in row[mine]] for row in outcomes]),
            "counted": np.array([[cell["counted"] for cell in row[mine]] for row in outcomes]),
            "default": np.array([row[i].distance for row in choices]),
            "inside": np.array([row[i].inside for row in choices]),
        }
    return Record("selection", settings, seed, data, tuple(_checks(settings, data)))


def _checks(settings: SelectionSettings, data: dict[str, Any]) -> list[FigureCheck]:
    """For n = 5, B = 3 at K = 1e4, as measured for the paper's rates; the default estimator for every panel."""
    true = settings.thetas.index(TRUE_THETA)
    others = np.arange(len(settings.thetas)) != true
    checks = []
    for panel in settings.panels:
        part = data[panel.key]
        worst = float(np.abs(part["default"] - part["exact"]).max())
        name = f"default, N = {panel.default_samples:,}, {panel.key}"
        # At these sample sizes the default should be right for every seed.
        checks += [FigureCheck(f"{name}: share of seeds with argmin 0.5", hits(part["default"], true), ">=", 1.0)]
        checks += [FigureCheck(f"{name}: largest error", worst, "<=", 0.05)]
        kept = part["inside"]
        checks += [
            FigureCheck(f"{name}: share of seeds with 0.5 in the 90 % set", float(kept[:, true].mean()), ">=", 0.8)
        ]
        # The limits below were measured for this panel.
        if panel.key != "n=5,B=3" or 10_000 not in panel.n_steps:
            continue
        curves: Floats = part["somcot"][:, :, panel.n_steps.index(10_000)]
        mean = curves.mean(axis=0)
        name = f"{panel.key}, K = 1e4"
        checks += [
            FigureCheck(f"{name}: share of seeds with argmin 0.5", hits(curves, true), ">=", 1.0),
            FigureCheck(f"{name}: Spearman, worst seed", min(spearman(c, part["exact"]) for c in curves), ">=", 0.95),
            FigureCheck(
                f"{name}: mean at 0.5 below every other by", float(mean[others].min() - mean[true]), ">=", 0.03
            ),
        ]
    return checks


def plot(record: Record) -> Figure:
    """Distance against theta, one panel per size of chain; bands span the seeds."""
    import matplotlib.pyplot as plt

    settings: SelectionSettings = record.settings
    n = len(settings.panels)
    with style.styled():
        size = (style.WIDE if n > 1 else style.COLUMN, 2.8)
        figure, axes = plt.subplots(1, n, figsize=size, sharey=True, squeeze=False, layout="constrained")
        for ax, panel in zip(axes[0], settings.panels, strict=True):
            _curves(ax, settings, panel, record.data[panel.key])
        axes[0, 0].set_ylabel(r"distance $\langle \mu, c \rangle$")
        return figure


def _curves(ax: Axes, settings: SelectionSettings, panel: Panel, part: dict[str, Any]) -> None:
    thetas = np.array(settings.thetas)
    for i, n_steps in enumerate(panel.n_steps):
        label = rf"SOMCOT, paper's rates, $K = {style.power(n_steps)}$"
        style.band(ax, thetas, part["somcot"][:, :, i], color=style.SOMCOT[i], label=label, marker="osv"[i])
    label = rf"SOMCOT, default, $K = {style.power(max(panel.n_steps))}$"
    style.band(ax, thetas, part["counted"], color=style.CELLS, label=label, marker="^")
    # Braces, because TeX sets a space after a comma in a formula.
    label = rf"estimate from data, $N = {panel.default_samples:,}$".replace(",0", r"{,}0")
    style.band(ax, thetas, part["default"], color=style.DEFAULT, label=label, marker="D")
    ax.plot(thetas, part["exact"], color=style.EXACT, linestyle="--", label="exact")
    ax.set(xlabel=r"$\theta$", title=f"$n = {panel.n_states}$, $B = {panel.n_copies}$", ylim=(-0.02, None))
    ax.set_xticks(thetas[::2])
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, handlelength=1.6, columnspacing=1.0)
    ax.spines[["top", "right"]].set_visible(False)


EXPERIMENT = Experiment(
    "selection",
    "Model selection with block chains",
    "Every curve should have its minimum at theta = 0.5, where the true distance is 0. SOMCOT finds it once K is large "
    "enough, but its values rise past the truth as K grows; the default estimator follows the exact curve.",
    SelectionSettings(),
    SelectionSettings(panels=(Panel(5, 3, (1_000, 10_000), 8_000),), n_seeds=2),
    run,
    plot,
)
