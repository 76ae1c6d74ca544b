"""Encoder and decoder maps of a walk and its noisy copy (the paper's first figure).

X is the fair walk on n states, Y the same walk with every state split into B copies, at distance 0. The averaged
lambda_X(y | x) and lambda_Y(x | y) should recover the blocks, which the algorithm does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from somcot import block_chain, random_walk
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
    sweep,
    walk_cost,
)
from somcot.plumbing.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "EncoderSettings", "block_scores", "plot", "run"]

METHODS = {"somcot": "SOMCOT,\npaper's rates", "counted": "SOMCOT,\ndefault", "default": "estimate\nfrom data"}


@dataclass(frozen=True)
class EncoderSettings:
    """The paper's settings; one pair of maps per number of steps."""

    n_states: int = 10
    n_copies: int = 5
    n_steps: tuple[int, ...] = (1_000, 10_000, 100_000)
    n_seeds: int = 5
    rates: TableRow = TABLE["encoder"]


def run(settings: EncoderSettings, seed: int = 0, report: Report | None = None) -> Record:
    """Both maps, by three methods on the same samples: SOMCOT at the paper's rates, SOMCOT by default, the estimate."""
    x = random_walk(settings.n_states)
    y = block_chain(x, settings.n_copies)
    cost = walk_cost(settings.n_states, settings.n_copies)

    def maps(n: int, rng: np.random.Generator) -> dict[str, Any]:
        pair = DrawnPair.draw(x, y, n, settings.rates.discount, rng)
        results = {
            "somcot": settings.rates.run(pair, cost, n),
            "counted": settings.rates.run_default(pair, cost, n),
            "default": default_estimate(pair, cost, settings.rates.discount),
        }
        return {
            name: {"distance": r.distance, "encoder": r.encoder, "decoder": r.decoder}
            | block_scores(r.encoder, r.decoder)
            for name, r in results.items()
        }

    outcomes = sweep(maps, settings.n_steps, range(seed, seed + settings.n_seeds), report)
    keys = ("distance", "encoder_mass", "decoder_mass", "encoder_top", "decoder_top")
    data: dict[str, Any] = {
        name: {key: np.array([[cell[name][key] for cell in row] for row in outcomes]) for key in keys}
        | {key: [cell[name][key] for cell in outcomes[0]] for key in ("encoder", "decoder")}
        for name in METHODS
    } | {"axes": {"scores": ["seed", "K"], "encoder": ["K", "x", "y"], "decoder": ["K", "y", "x"]}}
    return Record("encoder", settings, seed, data, tuple(_checks(settings, data)))


def block_scores(encoder: Floats, decoder: Floats) -> dict[str, float]:
    """Mass on the right block (chance 1 / n_x), and the share of states whose heaviest block is the right one."""
    n = len(encoder)
    # State (x, b) has index x * B + b, so blocks are contiguous.
    to_block = encoder.reshape(n, n, -1).sum(axis=2)  # mass per block
    from_copy = decoder.reshape(n, -1, n)
    right = np.arange(n)
    return {
        "encoder_mass": float(to_block[right, right].mean()),
        "decoder_mass": float(from_copy[right, :, right].mean()),
        "encoder_top": float((to_block.argmax(axis=1) == right).mean()),
        "decoder_top": float((from_copy.argmax(axis=2) == right[:, None]).mean()),
    }


def _checks(settings: EncoderSettings, data: dict[str, Any]) -> list[FigureCheck]:
    """Acceptance figures; unless they are means, the worst seed counts."""
    at = {n: i for i, n in enumerate(settings.n_steps)}

    def worst(method: str, score: str, n: int) -> float:
        return float(data[method][score][:, at[n]].min())

    checks = [
        FigureCheck("default, N = 1e4: encoder mass", worst("default", "encoder_mass", 10_000), ">=", 0.85),
        FigureCheck(
            "default, N = 1e4: right heaviest block, encoder", worst("default", "encoder_top", 10_000), ">=", 1.0
        ),
        FigureCheck(
            "default, N = 1e4: right heaviest block, decoder", worst("default", "decoder_top", 10_000), ">=", 1.0
        ),
    ]
    # The quick settings have no long runs, and short ones are not expected to pass.
    if 100_000 not in at:
        return checks
    # Over 17 seeds 0.4 to 0.9, once below 0.5: a run is chaotic in floating point, so the mean decides.
    found = data["somcot"]["encoder_top"][:, at[100_000]]
    decoder = data["somcot"]["decoder_mass"]
    # The smallest gain over the seeds.
    gain = float((decoder[:, at[100_000]] - decoder[:, at[1_000]]).min())
    return [
        FigureCheck(
            "SOMCOT, K = 1e5: encoder mass on the right block", worst("somcot", "encoder_mass", 100_000), ">=", 0.30
        ),
        FigureCheck(
            "SOMCOT, K = 1e5: decoder mass on the right block", worst("somcot", "decoder_mass", 100_000), ">=", 0.30
        ),
        FigureCheck("SOMCOT, K = 1e5: right heaviest block, encoder, mean", float(found.mean()), ">=", 0.5),
        FigureCheck("SOMCOT, K = 1e5: right heaviest block, encoder, worst", float(found.min()), ">=", 0.3),
        FigureCheck("SOMCOT: gain of decoder mass from K = 1e3 to 1e5", gain, ">=", 0.07),
        *checks,
        FigureCheck("default, N = 1e5: encoder mass", worst("default", "encoder_mass", 100_000), ">=", 0.95),
    ]


def plot(record: Record) -> Figure:
    """Encoder and decoder side by side for each number of steps, one row for each method."""
    import matplotlib.pyplot as plt

    settings: EncoderSettings = record.settings
    n_maps = len(settings.n_steps)
    # Two maps and a narrow gap for each number of steps; the last gap is left out.
    widths = [1.0, 1.0, 0.15] * n_maps
    with style.styled():
        figure = plt.figure(figsize=(style.WIDE * (0.2 + 0.8 * n_maps / 3), 5.2), layout="constrained")
        grid = figure.add_gridspec(len(METHODS), 3 * n_maps - 1, width_ratios=widths[:-1])
        for row, method in enumerate(METHODS):
            for i, n_steps in enumerate(settings.n_steps):
                maps = {which: record.data[method][which][i] for which in ("encoder", "decoder")}
                axes = [figure.add_subplot(grid[row, 3 * i + j]) for j in range(2)]
                # Scaled so that a perfect map of either kind is 1 on the right blocks.
                # n_copies: the mass of a block is spread over its copies.
                _map(axes[0], settings.n_copies * maps["encoder"].T, settings.n_copies)
                image = _map(axes[1], maps["decoder"], settings.n_copies)
                _label(axes, method, n_steps, outer=(row == 0, row == len(METHODS) - 1, i == 0))
        figure.colorbar(image, ax=figure.axes, label="probability", extend="max", fraction=0.02, pad=0.02, aspect=40)
        return figure


def _map(ax: Axes, values: Floats, n_copies: int) -> Any:
    n_y, n_x = values.shape
    blocks = np.arange((n_copies - 1) / 2, n_y, n_copies)
    image = ax.imshow(values, vmin=0, vmax=1, cmap="Blues", aspect="auto", interpolation="nearest")
    ax.set_xticks([0, n_x - 1], ["1", f"{n_x}"])
    ax.set_yticks(blocks[[0, -1]], ["1", f"{n_x}"])
    return image


def _label(axes: list[Axes], method: str, n_steps: int, outer: tuple[bool, bool, bool]) -> None:
    """Titles in the first row, x labels in the last, y labels in the first column."""
    first_row, last_row, first_column = outer
    if first_row:
        axes[0].set_title(rf"$K = {style.power(n_steps)}$" + "\n" + r"$B\,\lambda_X(y \mid x)$", loc="left")
        axes[1].set_title("\n" + r"$\lambda_Y(x \mid y)$", loc="left")
    for ax in axes:
        if last_row:
            ax.set_xlabel("$x$", labelpad=0)
        else:
            ax.tick_params(labelbottom=False)
    axes[1].tick_params(labelleft=False)
    if first_column:
        axes[0].set_ylabel(f"{METHODS[method]}\n$y = (x, b)$")
    else:
        axes[0].tick_params(labelleft=False)


EXPERIMENT = Experiment(
    "encoder",
    "Encoder-decoder maps of a block chain",
    "With more samples the mass concentrates in the blocks on the diagonal. SOMCOT at the paper's rates is sharp at "
    "the walls and blurred in the middle. Its default finds every block from 10,000 transitions on, a little blurred. "
    "The estimate from data finds every block from 10,000 transitions on, almost without blur.",
    EncoderSettings(),
    EncoderSettings(n_seeds=3),
    run,
    plot,
)
