"""The influence of the two step sizes: error of SOMCOT over eta and beta for three sizes of chain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from somcot import distance, random_walk
from somcot.paper import experiment as style
from somcot.paper.experiment import (
    TABLE,
    DrawnPair,
    Experiment,
    FigureCheck,
    Record,
    Report,
    TableRow,
    sweep,
    walk_cost,
)
from somcot.plumbing.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "StepSizeSettings", "plot", "run"]


class StepSizeCase(NamedTuple):
    """One cell of one heat map."""

    n_states: int
    primal_step: float
    dual_step: float


@dataclass(frozen=True)
class StepSizeSettings:
    """Walks with theta = 0.5 against 0.7; eta and beta of `rates` are replaced by those of the grid."""

    n_states: tuple[int, ...] = (3, 5, 10)
    thetas: tuple[float, float] = (0.5, 0.7)
    primal_steps: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
    dual_steps: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    n_steps: int = 10_000
    n_seeds: int = 2
    rates: TableRow = TABLE["steps"]


def run(settings: StepSizeSettings, seed: int = 0, report: Report | None = None) -> Record:
    """Signed error of the estimate for every cell and seed."""
    gamma = settings.rates.discount

    def error(case: StepSizeCase, rng: np.random.Generator) -> float:
        x, y = (random_walk(case.n_states, theta) for theta in settings.thetas)
        cost = walk_cost(case.n_states)
        pair = DrawnPair.draw(x, y, settings.n_steps, gamma, rng)
        # The decay and the batch size stay those of the table.
        rates = replace(settings.rates, primal_step=case.primal_step, dual_step=case.dual_step)
        return rates.run(pair, cost, settings.n_steps).distance - distance(x, y, cost, discount=gamma).distance

    cases = [StepSizeCase(*c) for c in product(settings.n_states, settings.primal_steps, settings.dual_steps)]
    # Signed errors: the sign of the bias follows beta, which absolute errors would hide.
    errors: Floats = np.array(sweep(error, cases, range(seed, seed + settings.n_seeds), report))
    shape = (settings.n_seeds, len(settings.n_states), len(settings.primal_steps), len(settings.dual_steps))
    data = {"error": errors.reshape(shape), "axes": ["seed", "n", "eta", "beta"]}
    return Record("steps", settings, seed, data, tuple(_checks(settings, data)))


def _checks(settings: StepSizeSettings, data: dict[str, Any]) -> list[FigureCheck]:
    """For n = 5 the sign of the error follows beta: too small underestimates, too large overestimates."""
    chosen = [settings.primal_steps.index(eta) for eta in (0.1, 1.0, 10.0)]
    errors: Floats = data["error"][:, settings.n_states.index(5)][:, chosen]

    def at(beta: float) -> Floats:
        return errors[:, :, settings.dual_steps.index(beta)]

    return [
        FigureCheck("n = 5, beta = 0.01: largest error", float(at(0.01).max()), "<=", -0.15),
        FigureCheck("n = 5, beta = 1: smallest error", float(at(1.0).min()), ">=", 0.10),
        FigureCheck("n = 5, beta = 0.1: largest absolute error", float(np.abs(at(0.1)).max()), "<=", 0.06),
    ]


def plot(record: Record) -> Figure:
    """Upper row: absolute error on a logarithmic scale, as in the paper; lower row: signed error."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    settings: StepSizeSettings = record.settings
    signed: Floats = record.data["error"].mean(axis=0)
    absolute: Floats = np.abs(record.data["error"]).mean(axis=0)
    # A symmetric scale, so that white means no error.
    reach = float(np.abs(signed).max())
    with style.styled():
        size = (style.WIDE, 3.9)
        figure, axes = plt.subplots(
            2, len(settings.n_states), figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained"
        )
        for i, n in enumerate(settings.n_states):
            # All errors below 0.01 share one colour.
            above = _map(axes[0, i], settings, absolute[i], norm=LogNorm(0.01, 1.0), cmap="cividis")
            below = _map(axes[1, i], settings, signed[i], vmin=-reach, vmax=reach, cmap="RdBu_r")
            axes[0, i].set_title(f"$n = {n}$")
            axes[1, i].set_xlabel(r"$\log_{10} \beta$")
        for row, image, label in ((axes[0], above, "absolute error"), (axes[1], below, "signed error")):
            row[0].set_ylabel(r"$\log_{10} \eta_0$")
            extend = "min" if image is above else "neither"
            figure.colorbar(image, ax=row, label=label, fraction=0.05, pad=0.01, extend=extend)
        return figure


def _map(ax: Axes, settings: StepSizeSettings, values: Floats, **colors: Any) -> Any:
    x, y = np.log10(settings.dual_steps), np.log10(settings.primal_steps)
    image = ax.pcolormesh(_edges(x), _edges(y), values, edgecolors="face", linewidth=0.2, **colors)
    ax.set_xticks(np.unique(np.ceil(x - 1e-9)))  # whole powers of ten; the offset absorbs rounding
    ax.set_yticks(np.unique(np.ceil(y - 1e-9)))
    return image


def _edges(centres: Floats) -> Floats:
    """Borders half-way between the centres of the cells."""
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


EXPERIMENT = Experiment(
    "steps",
    "Influence of the step sizes",
    "Errors are small in a vertical stripe at beta of 0.1 to 0.3 unless eta is tiny: beta, not its ratio to eta, "
    "determines the error. Too small a beta underestimates, too large a beta overestimates.",
    StepSizeSettings(),
    StepSizeSettings(primal_steps=(0.01, 0.1, 1.0, 10.0), dual_steps=(0.001, 0.01, 0.1, 1.0, 10.0)),
    run,
    plot,
)
