"""Who corresponds to whom, as heat maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from somcot.plots.drawing import NAMES, heat_map, shown
from somcot.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["coupling", "decoder", "encoder"]


def encoder(result: Result, *, ax: Axes | None = None, names: tuple[str, str] = NAMES) -> Axes:
    """Heat map of the encoder lambda_X(y | x): where each state of X goes in Y.

    Parameters
    ----------
    result : Result
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    names : (str, str)
        What to call the two processes.
    """
    ax = heat_map(result.encoder, result.states_x, result.states_y, ax)
    ax.set(xlabel=_state(names[1]), ylabel=_state(names[0]), title=r"encoder $\lambda_X(y \mid x)$")
    return ax


def decoder(result: Result, *, ax: Axes | None = None, names: tuple[str, str] = NAMES) -> Axes:
    """Heat map of the decoder lambda_Y(x | y): where each state of Y goes in X. Parameters as for `encoder`."""
    ax = heat_map(result.decoder, result.states_y, result.states_x, ax)
    ax.set(xlabel=_state(names[0]), ylabel=_state(names[1]), title=r"decoder $\lambda_Y(x \mid y)$")
    return ax


def coupling(result: Result, *, ax: Axes | None = None, names: tuple[str, str] = NAMES) -> Axes:
    """Heat map of the law of pairs: the share of (discounted) time spent in x and y together.

    Parameters as for `encoder`.
    """
    ax = heat_map(result.state_law, result.states_x, result.states_y, ax)
    ax.set(xlabel=_state(names[1]), ylabel=_state(names[0]), title="time spent together")
    return ax


def _state(name: str) -> str:
    return f"state of {shown(name, 40)}"
