"""Plots of results. Each function takes a record and an optional `ax`, and returns the `ax`.

>>> import warnings
>>> import matplotlib; matplotlib.use("Agg")
>>> import numpy as np
>>> import somcot
>>> x, y = somcot.random_walk(3), somcot.random_walk(3, 0.7)
>>> result = somcot.distance(x, y, "labels", discount=0.9)
>>> decoder(result).get_ylabel(), coupling(result).get_title(), trace(result).get_ylabel()
('state of Y', 'time spent together', 'distance')
>>> contributions(result).get_title()
'in X / in Y'
>>> visits(result).get_xlabel(), len(overview(result).axes)
('share of time, discount 0.9', 9)

For real vectors:

>>> paths = np.random.default_rng(0).normal(size=(2, 30, 20, 2))
>>> x, y = (somcot.Trajectories.from_arrays(side) for side in (paths[0], 1.2 * paths[1]))
>>> result = somcot.distance(x, y, discount=0.8)
>>> cells(result).get_title(), calibration(result).get_title(), len(map_tests(result).get_yticklabels()) > 3
('corresponding cells', 'a map between the two', True)
>>> with warnings.catch_warnings():
...     warnings.simplefilter("ignore", DeprecationWarning)
...     _ = resolution(result)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from somcot.plots.cell_maps import calibration, cells, map_tests, resolution
from somcot.plots.collections import dendrogram, drift, embedding, matrix, power_curve, selection, transfer_bound
from somcot.plots.drawing import NAMES, check
from somcot.plots.results import (
    contributions,
    coupling,
    decoder,
    difference,
    encoder,
    graph,
    intervals,
    title,
    trace,
    visits,
)
from somcot.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "calibration", "cells", "contributions", "coupling", "decoder", "dendrogram", "difference", "drift", "embedding",
    "encoder", "graph", "intervals", "map_tests", "matrix", "overview", "power_curve", "resolution", "selection",
    "trace", "transfer_bound", "visits",
]  # fmt: skip


def overview(result: Result, *, names: tuple[str, str] = NAMES) -> Figure:
    """Overview: encoder, decoder, pairs, convergence and both chains; for numeric vectors also their cells.

    Parameters
    ----------
    result : Result
    names : (str, str)
        Names of the two processes.
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    check(result, names)
    picture, axes = plt.subplots(2, 3, figsize=(16, 9.5), layout="constrained")
    # With cells the maps move to the second row.
    maps = axes[0] if result.continuous is None else axes[1]
    encoder(result, ax=maps[0], names=names)
    decoder(result, ax=maps[1], names=names)
    coupling(result, ax=maps[2], names=names)
    # Cells have no readable graph; their own pictures replace the chains.
    if result.continuous is None:
        _run_and_chains(result, axes[1], names)
    else:
        cells(result, ax=axes[0, 0], names=names)
        calibration(result, ax=axes[0, 1])
        map_tests(result, ax=axes[0, 2])
    picture.suptitle(title(result, names))
    if "inline" in mpl.get_backend():  # a notebook would show an open figure twice
        plt.close(picture)
    return picture


def _run_and_chains(result: Result, row: Any, names: tuple[str, str]) -> None:
    if "distance" in result.trace:
        trace(result, ax=row[0])
    else:  # the solvers of some clocks have no intermediate distances
        row[0].set_axis_off()
    for ax, side in zip(row[1:], ("x", "y"), strict=True):
        if result.plan is None:
            ax.set_axis_off()
        else:
            graph(result, side, ax=ax, names=names)
