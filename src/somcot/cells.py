"""Discretisation of real vectors into cells, and records about its error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from somcot.plumbing.arrays import Codes, Floats, Ints
from somcot.plumbing.checks import real_array
from somcot.plumbing.html import Table, card, record_card
from somcot.plumbing.text import brief_record
from somcot.samples import Samples
from somcot.trajectories import Trajectories

__all__ = ["COSTS", "Cells", "Continuous", "MapFit", "PointCost", "Resolution", "ShiftCheck", "Twin", "apart"]

PointCost = str | Callable[[Floats, Floats], Any]
COSTS = ("euclidean", "sqeuclidean")
_ROUGH = 0.12  # total variation between the cell occupancies of linear models and data


def apart(cost: PointCost, a: Floats, b: Floats, scale: Floats) -> Floats:
    """Cost between points, (n, m): a norm of their difference in units of `scale`, or a function.

    Examples
    --------
    >>> apart("euclidean", np.array([[0.0], [2.0]]), np.array([[0.0]]), np.array([2.0])).tolist()
    [[0.0], [1.0]]
    """
    if callable(cost):
        table = real_array("cost", cost(a, b), 2)
        if table.shape != (len(a), len(b)):
            raise ValueError(f"cost: returned shape {table.shape} for {len(a)} and {len(b)} points")
        return table
    name: object = cost
    if not isinstance(name, str) or name not in COSTS:
        found_name = repr(name) if isinstance(name, str) else type(name).__name__
        raise ValueError(f"cost: found {found_name}, expected 'euclidean', 'sqeuclidean' or a function of two arrays")
    # In units of `scale`, so that coordinates of different units count alike.
    difference = (a / scale)[:, None, :] - (b / scale)[None, :, :]
    squares: Floats = np.einsum("ijk,ijk->ij", difference, difference)
    return squares if cost == "sqeuclidean" else np.sqrt(squares)


@dataclass(frozen=True, eq=False, repr=False)
class Cells:
    """A partition of real vectors into Voronoi cells, created by `somcot.discretise`.

    Attributes
    ----------
    centres : ndarray, shape (k, d)
        Mean of the points in each cell, in the original units. The last `n_ends` cells hold the last points of
        terminated episodes.
    sites : ndarray, shape (k, q)
        The sites; each point belongs to the cell of the nearest one. In coordinates divided by `scale` and, for three
        or more dimensions, multiplied by `projection`.
    scale : ndarray, shape (d,)
        Scale of each coordinate, by which it is divided first.
    projection : ndarray, shape (d, q), or None
        Projection of scaled coordinates onto those most informative about the next state (VAMP).
    radius : ndarray, shape (k,)
        Distance of the farthest point of each cell from its site.
    visits : ndarray of int64, shape (n_recordings, k)
        Number of points of each recording in each cell.
    saturation : float
        Expected error of the kernels on these cells, accumulated over the horizon; at most 3 is safe.
    recordings : tuple of Samples
        The recordings, with the cells 0, ..., k - 1 as states. Empty in results read from a file.
    """

    centres: Floats
    sites: Floats
    scale: Floats
    projection: Floats | None
    radius: Floats
    visits: Ints
    n_ends: int
    saturation: float
    names: tuple[str, ...]
    recordings: tuple[Samples, ...] = ()

    @property
    def n_cells(self) -> int:
        """Number of cells, including those of terminal points."""
        return len(self.centres)

    @property
    def x(self) -> Samples:
        """The first recording."""
        return self.recordings[0]

    @property
    def y(self) -> Samples:
        """The second."""
        return self.recordings[1]

    @cached_property
    def _trees(self) -> tuple[Any, Any]:
        from scipy.spatial import cKDTree  # imported late: keeps `import somcot` fast

        inner = self.n_cells - self.n_ends
        # Terminal points have their own sites: a point near the end of an episode is not an end.
        return cKDTree(self.sites[:inner]), cKDTree(self.sites[inner:]) if self.n_ends else None

    def _nearest(self, points: ArrayLike) -> tuple[Floats, Codes]:
        """Distance to the nearest site, and its index."""
        array = np.asarray(points, dtype=np.float64)
        d = self.centres.shape[1]
        # One-dimensional points may be passed as a flat sequence.
        array = array[:, None] if array.ndim == 1 and d == 1 else np.atleast_2d(array)
        if array.ndim != 2 or array.shape[1] != d:
            raise ValueError(f"points: found shape {np.shape(points)}, expected (n, {d})")
        if not np.isfinite(array).all():
            row = int(np.argwhere(~np.isfinite(array))[0, 0])
            raise ValueError(f"points: row {row} is not finite; remove or replace it")
        far, codes = self._trees[0].query(self.turned(array))
        return np.asarray(far), np.asarray(codes, dtype=np.int32)

    def turned(self, points: Floats) -> Floats:
        """Points in the coordinates of the sites."""
        scaled = points / self.scale
        return scaled if self.projection is None else scaled @ self.projection

    def assign(self, points: ArrayLike) -> Codes:
        """The cell of each point, (n,), which is the code of its state; cells of terminal points are not used.

        Examples
        --------
        >>> import somcot
        >>> walk = np.random.default_rng(0).normal(size=(20, 50, 1)).cumsum(axis=1)
        >>> cells = somcot.discretise(somcot.Trajectories.from_arrays(walk), n_cells=4)
        >>> cells.assign([[-100.0], [100.0]]).tolist()
        [0, 3]
        """
        return self._nearest(points)[1]

    def share_outside(self, points: ArrayLike) -> float:
        """Share of the points farther from their site than all points to which the cell was fitted.

        Above 1 % the cells do not cover the region: the process has drifted, or the first recording was not typical.
        """
        far, codes = self._nearest(points)
        # A margin for rounding of the distances.
        return float((far > self.radius[codes] * (1.0 + 1e-9)).mean())

    def codes(self, data: Trajectories) -> Codes:
        """The cell of every point of a recording; terminal points have separate cells."""
        codes = self.assign(data.points)
        if self.n_ends and data.terminated.any():
            near = self._trees[1].query(self.turned(data.ends))[1]
            # The last point of each terminated episode gets a terminal cell, whatever cell it lies in.
            codes[data.boundaries[1:][data.terminated] - 1] = self.n_cells - self.n_ends + near
        return codes

    def samples(self, data: Trajectories) -> Samples:
        """A recording with the cells as states; the cells of terminal points are absorbing."""
        return samples_of(self.codes(data), data, self.n_cells, ends=bool(self.n_ends))

    def cost(self, cost: PointCost = "euclidean") -> Floats:
        """Costs between the centres, (k, k)."""
        return apart(cost, self.centres, self.centres, self.scale)

    def without_data(self) -> Cells:
        """The partition without the recordings."""
        return replace(self, recordings=())

    def __repr__(self) -> str:
        ends = f", {self.n_ends} of them terminal" if self.n_ends else ""
        return f"Cells({self.n_cells} cells{ends}, {len(self.names)} coordinates, {len(self.visits)} recordings)"

    def _repr_html_(self) -> str:
        order = np.argsort(-self.visits.sum(axis=0), kind="stable")[:8]
        rows = [(f"{k}", *(f"{v:.4g}" for v in self.centres[k]), f"{self.visits[:, k].sum():,}") for k in order]
        facts = [("cells", f"{self.n_cells}"), ("saturation", f"{self.saturation:.2g}")]
        return card("Cells", facts, Table(("cell", *self.names, "points"), rows, "r" * (len(self.names) + 2)))


def samples_of(codes: Codes, data: Trajectories, k: int, *, ends: bool) -> Samples:
    """Convert codes of points to a recording with k states."""
    now, following = np.ones(len(codes), np.bool_), np.ones(len(codes), np.bool_)
    # Each point but the last of an episode begins a transition; each but the first ends one.
    now[data.boundaries[1:] - 1] = False
    following[data.boundaries[:-1]] = False
    return Samples(
        tuple(range(k)),
        codes[now],
        codes[following],
        # Boundaries count points, offsets transitions: one fewer per episode.
        offsets=data.boundaries - np.arange(len(data.boundaries)),
        terminated=data.terminated if ends else np.zeros(data.n_episodes, np.bool_),
    )


class Resolution(NamedTuple):
    """The uncorrected distance for decreasing numbers of cells; its stability does not bound its error.

    Attributes
    ----------
    n_cells : tuple of int
    raw : tuple of float
        The distance of the estimated chains.
    estimate : tuple of float
        The distance corrected for the bias of the plug-in.
    """

    n_cells: tuple[int, ...]
    raw: tuple[float, ...]
    estimate: tuple[float, ...]

    def __repr__(self) -> str:
        return brief_record(self)


class Twin(NamedTuple):
    """The discretisation bias, measured on linear models of the recordings whose distance is known.

    Attributes
    ----------
    used : bool
        Whether the distance was corrected by `bias`.
    reason : str
        Why, or why not.
    distance : float or None
        Distance of the two linear models, in closed form.
    bias, spread : float or None
        Mean and standard deviation of the error of the cells on recordings of the same shape drawn from the models.
    outside : float or None
        Share of the drawn points outside the range of the recordings.
    occupancy_error : float or None
        Total variation between the cell occupancies of the data and the models; above 0.12 the models are rough.
    curvature : float or None
        Share of the residual variance of a linear one-step model that a curved one explains.
    """

    used: bool
    reason: str
    distance: float | None = None
    bias: float | None = None
    spread: float | None = None
    outside: float | None = None
    occupancy_error: float | None = None
    curvature: float | None = None

    @property
    def rough(self) -> bool:
        """Whether the models are used although their cell occupancies differ from those of the data."""
        return self.used and self.occupancy_error is not None and self.occupancy_error > _ROUGH

    def __repr__(self) -> str:
        return brief_record(self)

    def _repr_html_(self) -> str:
        return record_card(self)


class ShiftCheck(NamedTuple):
    """The distance measured between two halves of a recording, one of them shifted by a known amount.

    Attributes
    ----------
    distance : float
        The true distance of the shift.
    measured : float
        The uncorrected distance between cells, mean over both recordings.
    calibrated : float or None
        The distance after the correction by linear twins, if they are used.
    worst : float
        The largest relative error over the recordings, of the method that was used, beyond sampling error (two
        standard deviations, if known from twins); for squared costs, the error of the length of the shift.
    """

    distance: float
    measured: float
    calibrated: float | None
    worst: float

    @property
    def final(self) -> float:
        """The distance of the shift by the method that was used for the result."""
        return self.measured if self.calibrated is None else self.calibrated

    @property
    def passed(self) -> bool:
        """Whether its error is at most 20 %."""
        return self.worst <= 0.2

    def __repr__(self) -> str:
        return brief_record(self)


class MapFit(NamedTuple):
    """Distance derived from a map between the systems, used if no linear model is adequate.

    Attributes
    ----------
    verdict : str
        "conjugate": y behaves as x seen through the map.
    distance : float or None
    words : str
        The map.
    reasons : tuple of str
        Evidence for and against the map.
    """

    verdict: str
    distance: float | None
    words: str
    reasons: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return brief_record(self)


class Continuous(NamedTuple):
    """Additional fields of a distance between recordings of real vectors.

    `route` is the method that was used: "cells", "twin", "map", or "approximate" if no error bound is available. In the
    last case `curved` is an approximate upper bound from curved models of both recordings, if these could be fitted.
    """

    cells: Cells
    resolution: Resolution
    twin: Twin
    shift_check: ShiftCheck | None
    map: MapFit | None = None
    route: str = "cells"
    curved: float | None = None

    def summary(self, plain: float | None) -> str:
        """The method and its diagnostics on one line; `plain` is the uncorrected distance between cells."""
        # One part per method; the order is from what was done to how it was checked.
        parts = ["1 cell" if self.cells.n_cells == 1 else f"{self.cells.n_cells} cells"]
        if self.route == "map" and self.map is not None:
            parts.append(f"by the map {self.map.words}")
        elif self.route == "twin" and self.twin.bias is not None and plain is not None:
            parts.append(f"cells alone give {plain:.3g}, bias {self.twin.bias:.3g} measured on linear twins")
        elif self.route == "approximate":
            at_most = "" if self.curved is None else f" (curved models: about {self.curved:.3g} at most)"
            parts.append(f"no error bound available{at_most}")
        if self.shift_check is not None and self.route != "map":
            parts.append(f"shift check {self.shift_check.distance:.3g} -> {self.shift_check.final:.3g}")
        return "; ".join(parts)

    def __repr__(self) -> str:
        return brief_record(self)
