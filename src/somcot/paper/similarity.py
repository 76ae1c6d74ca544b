"""Distance matrices between many walks: bias theta times first state.

Rewards are 1 at both walls, so that mirroring a walk (theta to 1 - theta, first state x to n + 1 - x) changes nothing:
the matrix is symmetric along both diagonals. n = 10 with 9 biases and 8 first states gives the paper's 72 walks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from somcot import Problem, metric, random_walk
from somcot.paper import experiment as style
from somcot.paper.experiment import (
    TABLE,
    DrawnPair,
    Experiment,
    FigureCheck,
    Record,
    Report,
    TableRow,
    default_estimate,
    spearman,
    stages,
    sweep,
    walk_cost,
)
from somcot.plumbing.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "SimilaritySettings", "plot", "run"]


class WalkInstance(NamedTuple):
    """A walk: its bias and its first state, counted from 1 as in the paper."""

    theta: float
    start: int


@dataclass(frozen=True)
class SimilaritySettings:
    """The paper's rates; the estimate is computed for some of the pairs."""

    n_states: int = 10
    thetas: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    starts: tuple[int, ...] = (2, 3, 4, 5, 6, 7, 8, 9)
    n_steps: tuple[int, ...] = (1_000, 10_000)
    default_pairs: int = 150
    sinkhorn_sweeps: int = 200
    rates: TableRow = TABLE["similarity"]

    @property
    def instances(self) -> list[WalkInstance]:
        """All walks, bias by bias."""
        return [WalkInstance(*pair) for pair in product(self.thetas, self.starts)]


def run(settings: SimilaritySettings, seed: int = 0, report: Report | None = None) -> Record:
    """Every pair by the paper's algorithm, the truth twice, and the default estimator on some of the pairs."""
    rates, size = settings.rates, len(settings.instances)
    cost = walk_cost(settings.n_states, last=1.0)
    # Both directions have the same distance, so one triangle is enough.
    rows, columns = np.triu_indices(size)
    # Estimates take longer than runs, so only a sample of the pairs gets one; the permutation is that of the seed.
    some = np.random.default_rng(seed).permutation(len(rows))[: settings.default_pairs]
    n_blocks = len(settings.thetas) ** 2
    drawing, running, solving, iterating, estimating = stages(report, size, len(rows), n_blocks, n_blocks, len(some))

    def draw(walk: WalkInstance, rng: np.random.Generator) -> DrawnPair:
        """Two independent samples of one walk, one for its role as X and one as Y."""
        # The paper counts states from 1.
        chain = random_walk(settings.n_states, walk.theta, start=walk.start - 1)
        # Two samples of each walk: the diagonal compares independent recordings, not a recording with itself.
        return DrawnPair.draw(chain, chain, max(settings.n_steps), rates.discount, rng)

    samples = sweep(draw, settings.instances, [seed], drawing)[0]

    def values(places: tuple[int, int], _: np.random.Generator) -> list[float]:
        pair = DrawnPair(samples[places[0]].x, samples[places[1]].y)
        return [rates.run(pair, cost, k).distance for k in settings.n_steps]

    def defaults(places: tuple[int, int], _: np.random.Generator) -> list[float]:
        pair = DrawnPair(samples[places[0]].x, samples[places[1]].y)
        return [default_estimate(pair.first(k), cost, rates.discount).distance for k in settings.n_steps]

    pairs = list(zip(rows.tolist(), columns.tolist(), strict=True))
    found = np.array(sweep(values, pairs, [seed], running)[0])
    exact = _truth(settings, lambda p: metric(p.x, p.y, p.cost, discount=p.discount), solving)
    data: dict[str, Any] = {
        "walks": settings.instances,
        "exact": exact,
        "sinkhorn": _truth(settings, lambda p: _sinkhorn(p, settings.sinkhorn_sweeps), iterating),
        "somcot": {str(k): _mirror(found[:, i], size) for i, k in enumerate(settings.n_steps)},
        **_scores(settings, found, exact[rows, columns]),
    }
    longest = max(settings.n_steps)

    def counted(places: tuple[int, int], _: np.random.Generator) -> float:
        return rates.run_default(DrawnPair(samples[places[0]].x, samples[places[1]].y), cost, longest).distance

    data["counted"] = _mirror(np.array(sweep(counted, pairs, [seed])[0]), size)
    ours = np.array(sweep(defaults, [pairs[i] for i in some], [seed], estimating)[0])
    truth = exact[rows[some], columns[some]]
    data["default"] = {"pairs": [rows[some], columns[some]], "distance": ours, **_scores(settings, ours, truth)}
    data["counter_diagonal"] = {k: _counter_diagonal(matrix) for k, matrix in data["somcot"].items()}
    return Record("similarity", settings, seed, data, tuple(_checks(settings, data)))


def _scores(settings: SimilaritySettings, found: Floats, truth: Floats) -> dict[str, dict[str, float]]:
    """Rank correlation, mean absolute error and bias for each number of steps (a column of `found`)."""
    columns = {str(k): found[:, i] for i, k in enumerate(settings.n_steps)}
    return {
        "spearman": {k: spearman(column, truth) for k, column in columns.items()},
        "error": {k: float(np.abs(column - truth).mean()) for k, column in columns.items()},
        "bias": {k: float((column - truth).mean()) for k, column in columns.items()},
    }


def _truth(settings: SimilaritySettings, solve: Callable[[Problem], Floats], report: Report | None) -> Floats:
    """Distances of all walks; one table over all first states for each pair of biases."""
    cost = walk_cost(settings.n_states, last=1.0)
    places = np.array(settings.starts) - 1
    # The first state does not matter here: the table covers all of them.
    chains = [random_walk(settings.n_states, theta) for theta in settings.thetas]

    def block(pair: tuple[int, int], _: np.random.Generator) -> Floats:
        table = solve(Problem(chains[pair[0]], chains[pair[1]], cost, settings.rates.discount))
        found: Floats = table[np.ix_(places, places)]
        return found

    n = len(chains)
    blocks = sweep(block, list(product(range(n), range(n))), [0], report)[0]
    return np.block([blocks[i * n : (i + 1) * n] for i in range(n)])


def _sinkhorn(problem: Problem, sweeps: int) -> Floats:
    """Sinkhorn value iteration, the ground truth of the paper's figure; further sweeps do not change five digits."""
    from somcot.solvers import sinkhorn  # compiled code, which `reproduce --help` must not wait for

    return (1.0 - problem.discount) * sinkhorn.solve(problem, pairs="all", max_sweeps=sweeps).potential


def _mirror(upper: Floats, size: int) -> Floats:
    """The symmetric matrix with this upper triangle."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size)] = upper
    # The diagonal is in both triangles, so it is left out of one.
    return np.triu(matrix) + np.triu(matrix, 1).T


def _counter_diagonal(matrix: Floats) -> float:
    """Correlation of the upper triangle with its mirror image along the counter-diagonal."""
    upper = np.triu_indices(len(matrix))
    return float(np.corrcoef(matrix[upper], matrix[::-1, ::-1][upper])[0, 1])


def _checks(settings: SimilaritySettings, data: dict[str, Any]) -> list[FigureCheck]:
    exact: Floats = data["exact"]
    # What a correct implementation reached, with a margin.
    limits = {1_000: 0.5, 10_000: 0.8}
    checks = [
        FigureCheck(f"Spearman at K = {k:,}", data["spearman"][str(k)], ">=", limits[k])
        for k in settings.n_steps
        if k in limits
    ]
    if 10_000 in settings.n_steps:
        checks.append(
            FigureCheck("counter-diagonal correlation at K = 10,000", data["counter_diagonal"]["10000"], ">=", 0.9)
        )
    checks += [
        FigureCheck("exact: asymmetry along the diagonal", float(np.abs(exact - exact.T).max()), "<=", 1e-10),
        FigureCheck(
            "exact: asymmetry along the counter-diagonal", float(np.abs(exact - exact[::-1, ::-1]).max()), "<=", 1e-10
        ),
        FigureCheck(
            "Sinkhorn: largest difference from exact", float(np.abs(data["sinkhorn"] - exact).max()), "<=", 0.01
        ),
    ]
    return checks


def plot(record: Record) -> Figure:
    """The matrices on one colour scale, walks ordered by bias and then by first state."""
    import matplotlib.pyplot as plt

    settings: SimilaritySettings = record.settings
    panels = [
        (rf"paper's rates, $K = {style.power(int(k))}$" + f"\nSpearman {record.data['spearman'][k]:.2f}", matrix)
        for k, matrix in record.data["somcot"].items()
    ]
    panels += [
        (rf"default, $K = {style.power(max(settings.n_steps))}$" + "\n", record.data["counted"]),
        ("Sinkhorn iteration\n(the paper's truth)", record.data["sinkhorn"]),
        ("exact\n", record.data["exact"]),
    ]
    top = max(float(matrix.max()) for _, matrix in panels)
    width = len(settings.starts)
    places = np.arange(len(settings.thetas)) * width + (width - 1) / 2
    with style.styled():
        figure, axes = plt.subplots(1, len(panels), figsize=(style.WIDE, 1.85), sharey=True, layout="constrained")
        for ax, (title, matrix) in zip(axes, panels, strict=True):
            image = ax.imshow(matrix, vmin=0, vmax=top, cmap="viridis", interpolation="nearest")
            ax.set_title(title, fontsize=7)
            ax.set_xticks(places[::2], [f"{theta:g}" for theta in settings.thetas[::2]])
            ax.set_yticks(places[::2], [f"{theta:g}" for theta in settings.thetas[::2]])
            ax.set_xlabel(r"walk $Y$, by $\theta_Y$")
        axes[0].set_ylabel(r"walk $X$, by $\theta_X$")
        figure.colorbar(
            image, ax=axes, label=r"distance $\langle \mu, c \rangle$", fraction=0.02, pad=0.01, shrink=0.75
        )
        return figure


EXPERIMENT = Experiment(
    "similarity",
    "Distances between walks",
    "The cross of the truth (walks near theta = 0.5 are far from both extremes) appears at K = 10,000, with both "
    "symmetries. The zeros on the diagonals do not at the paper's rates: values there are about 0.2. SOMCOT's "
    "default on the same transitions is near 0.02 there.",
    SimilaritySettings(),
    SimilaritySettings(thetas=(0.1, 0.3, 0.5, 0.7, 0.9), starts=(2, 5, 6, 9), default_pairs=20),
    run,
    plot,
)
