"""Pictures of finished results. Each function takes a record and an optional `ax`, and returns the `ax`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from somcot.result import Result
from somcot.validation import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["decoder", "encoder"]

_MAX_TICKS = 15


def encoder(result: Result, *, ax: Axes | None = None) -> Axes:
    """Heat map of the encoder lambda_X(y | x): where each state of X goes in Y.

    Parameters
    ----------
    result : Result
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    ax = _heat_map(result.encoder, result.states_x, result.states_y, ax)
    ax.set(xlabel="state y", ylabel="state x", title=r"encoder $\lambda_X(y \mid x)$")
    return ax


def decoder(result: Result, *, ax: Axes | None = None) -> Axes:
    """Heat map of the decoder lambda_Y(x | y): where each state of Y goes in X. Parameters as for `encoder`."""
    ax = _heat_map(result.decoder, result.states_y, result.states_x, ax)
    ax.set(xlabel="state x", ylabel="state y", title=r"decoder $\lambda_Y(x \mid y)$")
    return ax


def _heat_map(values: Floats, rows: tuple[Hashable, ...], columns: tuple[Hashable, ...], ax: Axes | None) -> Axes:
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    image = ax.imshow(values, vmin=0.0, vmax=max(float(values.max()), 1e-12), cmap="Blues", aspect="auto")
    ax.figure.colorbar(image, ax=ax, label="probability", shrink=0.9)
    _ticks(ax.yaxis, rows)
    _ticks(ax.xaxis, columns)
    ax.tick_params(axis="x", rotation=90 if max(len(_text(label)) for label in columns) > 2 else 0)
    return ax


def _ticks(axis: Any, labels: tuple[Hashable, ...]) -> None:
    """Label every state, or evenly spaced ones when there are too many to read."""
    step = -(-len(labels) // _MAX_TICKS)
    places = np.arange(0, len(labels), step)
    axis.set_ticks(places, [_text(labels[i]) for i in places])


def _text(label: Hashable) -> str:
    text = ",".join(map(str, label)) if isinstance(label, tuple) else str(label)
    return (text if len(text) <= 16 else text[:15] + "\u2026").replace("$", r"\$")
