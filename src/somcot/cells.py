"""Discretisation of real vectors into cells, and records of distances between recordings of real vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from somcot.plumbing.arrays import Codes, Floats, Ints
from somcot.plumbing.checks import check_kind, real_array, real_numbers
from somcot.plumbing.errors import warn
from somcot.plumbing.html import Table, card, record_card
from somcot.plumbing.notes import Note
from somcot.plumbing.text import brief_record
from somcot.samples import Samples
from somcot.trajectories import Trajectories

__all__ = [
    "COSTS", "ROUTES", "Cells", "Continuous", "MapFit", "PointCost", "Resolution", "ShiftCheck", "Twin", "apart",
    "circular_mean", "embedded", "kmeans", "wrapped",
]  # fmt: skip

PointCost = str | Callable[[Floats, Floats], Any]
COSTS = ("euclidean", "sqeuclidean")
_MOST_POINTS, _ROUNDS = 20_000, 30  # of k-means; more points hardly move the centres
_ROUGH = 0.12  # total variation between the cell occupancies of linear models and data


def kmeans(points: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Centres of `k` clusters, fewer if there are fewer distinct points; sorted along their main axis.

    k-means++ initialisation, then Lloyd's iterations, on a sample of the points.

    Examples
    --------
    >>> kmeans(np.array([[0.0], [0.1], [5.0], [5.1]]), 2, np.random.default_rng(0)).round(2).tolist()
    [[0.05], [5.05]]
    """
    from scipy.spatial import cKDTree

    if len(points) > _MOST_POINTS:
        # Sorted, so that the points keep their order, on which later random choices depend.
        points = points[np.sort(rng.choice(len(points), _MOST_POINTS, replace=False))]
    centres = _spread_out(points, k, rng)
    previous: Floats | None = None
    for _ in range(_ROUNDS):
        nearest = cKDTree(centres).query(points)[1]
        size = np.bincount(nearest, minlength=len(centres))
        sums = np.stack([np.bincount(nearest, column, len(centres)) for column in points.T], axis=1)
        # An empty cluster keeps its centre.
        centres = np.where(size[:, None] > 0, sums / np.maximum(size, 1)[:, None], centres)
        if previous is not None and np.array_equal(previous, centres):
            break
        previous = centres
    return _sorted(centres)


def _spread_out(points: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Initial centres: each chosen with probability proportional to its squared distance to the previous ones."""
    chosen = [points[int(rng.integers(len(points)))]]
    squares = ((points - chosen[0]) ** 2).sum(axis=1)
    while len(chosen) < k and squares.max() > 0.0:
        # Drawn from cumulative sums; the clip is for rounding at the upper end.
        heap = np.cumsum(squares)
        chosen.append(
            points[int(np.searchsorted(heap, rng.random() * heap[-1], side="right").clip(0, len(points) - 1))]
        )
        squares = np.minimum(squares, ((points - chosen[-1]) ** 2).sum(axis=1))
    return np.stack(chosen)


def _sorted(centres: Floats) -> Floats:
    """Sort along the first principal axis, whose sign is that of its largest entry, for reproducibility."""
    axis = np.linalg.svd(centres - centres.mean(axis=0), full_matrices=False)[2][0]
    axis = axis * (1.0 if axis[np.abs(axis).argmax()] > 0 else -1.0)
    return centres[np.argsort(centres @ axis, kind="stable")]


def apart(cost: PointCost, a: Floats, b: Floats, scale: Floats, period: Floats | None = None) -> Floats:
    """Cost between points, (n, m): a norm of their difference in units of `scale`, or a function.

    With periods, differences are taken the short way round; a function has to do that itself.

    Examples
    --------
    >>> apart("euclidean", np.array([[0.0], [2.0]]), np.array([[0.0]]), np.array([2.0])).tolist()
    [[0.0], [1.0]]
    """
    if callable(cost):
        # A function sees the original units: it may know what the coordinates mean.
        table = real_array("cost", cost(a, b), 2)
        if table.shape != (len(a), len(b)):
            raise ValueError(f"cost: returned shape {table.shape} for {len(a)} and {len(b)} points")
        return table
    # Typed as object: by its annotation the check would be redundant, but callers pass anything.
    name: object = cost
    if not isinstance(name, str) or name not in COSTS:
        found_name = repr(name) if isinstance(name, str) else type(name).__name__
        raise ValueError(f"cost: found {found_name}, expected 'euclidean', 'sqeuclidean' or a function of two arrays")
    # In units of `scale`, so that coordinates of different units count alike.
    difference = (a / scale)[:, None, :] - (b / scale)[None, :, :]
    # Scaled like the differences, as wrapping takes place in units of `scale`.
    if period is not None and np.isfinite(period).any():
        difference = wrapped(difference, period / scale)
    squares: Floats = np.einsum("ijk,ijk->ij", difference, difference)
    return squares if cost == "sqeuclidean" else np.sqrt(squares)


def wrapped(difference: Floats, period: Floats) -> Floats:
    """Differences of points, the short way round in coordinates with a finite period.

    Examples
    --------
    >>> wrapped(np.array([[3.0, 3.0]]), np.array([np.inf, 4.0])).tolist()
    [[3.0, -1.0]]
    """
    # Any finite number avoids inf * 0, which is NaN, in the branch that `where` discards.
    turn = np.where(np.isfinite(period), period, 1.0)
    return np.asarray(np.where(np.isfinite(period), difference - turn * np.round(difference / turn), difference))


def embedded(points: Floats, period: Floats | None) -> Floats:
    """Coordinates without a period, then sine and cosine of those with one, in units of the radius.

    Examples
    --------
    >>> embedded(np.array([[1.0, 2.0]]), np.array([np.inf, 4.0])).round(3).tolist()
    [[1.0, 0.0, -0.637]]
    """
    if period is None or not np.isfinite(period).any():
        return points
    which = np.isfinite(period)
    # The radius makes a short arc as long as the difference of the coordinates, so both kinds weigh alike.
    radius = period[which] / (2.0 * np.pi)
    angle = points[:, which] / radius
    return np.concatenate([points[:, ~which], radius * np.sin(angle), radius * np.cos(angle)], axis=1)


def circular_mean(points: Floats, weights: Floats, period: Floats | None) -> Floats:
    """Weighted mean of points, circular in coordinates with a finite period; the sum of the weights is 1."""
    mean = np.asarray(weights @ points)
    if period is not None and np.isfinite(period).any():
        # The direction of the mean vector: an ordinary mean of 359 and 1 degrees would point the wrong way.
        which = np.isfinite(period)
        mean[which] = np.angle(weights @ np.exp(2j * np.pi * points[:, which] / period[which]))
        mean[which] *= period[which] / (2.0 * np.pi)
    return mean


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
    period : ndarray, shape (d,), or None
        Period of each coordinate, infinite for those without one.

    Examples
    --------
    >>> import somcot
    >>> walks = np.random.default_rng(0).normal(size=(20, 50, 1)).cumsum(axis=1)
    >>> data = somcot.Trajectories.from_arrays(walks)
    >>> cells = somcot.discretise(data, n_cells=4)
    >>> cells
    Cells(4 cells, 1 coordinates, 1 recordings)
    >>> cells.samples(data), cells.codes(data)[:3].tolist(), cells.cost().shape
    (Samples(4 states, 980 transitions, 20 episodes), [2, 2, 2], (4, 4))
    >>> cells.turned(cells.centres).shape, cells.share_outside([[1000.0]]), cells.without_data().recordings
    ((4, 1), 1.0, ())
    """

    # Centres are in the original units; sites, to which points are assigned, in the coordinates of `turned`.
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
    period: Floats | None = None

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
        array = real_numbers("points", points)
        d = self.centres.shape[1]
        # One-dimensional points may be passed as a flat sequence.
        array = array[:, None] if array.ndim == 1 and d == 1 else np.atleast_2d(array)
        if array.ndim != 2 or array.shape[1] != d:
            raise ValueError(f"points: found shape {np.shape(points)}, expected (n, {d})")
        if not np.isfinite(array).all():
            row = int(np.argwhere(~np.isfinite(array))[0, 0])
            raise ValueError(f"points: row {row} is not finite; remove or replace it")
        # Inner sites only: whether a point is terminal is a matter of the recording, not of its position.
        far, codes = self._trees[0].query(self.turned(array))
        return np.asarray(far), np.asarray(codes, dtype=np.int32)

    def turned(self, points: Floats) -> Floats:
        """Points in the coordinates of the sites."""
        # Scaled first, with the periods, so that all columns of the embedding have the same unit.
        scaled = embedded(
            real_numbers("points", points) / self.scale, None if self.period is None else self.period / self.scale
        )
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
        check_kind("data", data, Trajectories)
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
        return apart(cost, self.centres, self.centres, self.scale, self.period)

    def without_data(self) -> Cells:
        """The partition without the recordings."""
        return replace(self, recordings=())

    def __repr__(self) -> str:
        ends = f", {self.n_ends} of them terminal" if self.n_ends else ""
        return f"Cells({self.n_cells} cells{ends}, {len(self.names)} coordinates, {len(self.visits)} recordings)"

    def _repr_html_(self) -> str:
        # A stable sort, so that ties appear in the same order on all platforms.
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
        # Without terminal cells, an end would make an ordinary cell absorbing.
        terminated=data.terminated if ends else np.zeros(data.n_episodes, np.bool_),
    )


class Resolution(NamedTuple):
    """Deprecated: the distance between cells by their number, now for one number only; no measure of the error.

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
    """Deprecated, `used` is False in new results: the distance does not come from cells any more.

    In results of former versions, the discretisation bias measured on linear models of the recordings.

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
    """Deprecated, in results of former versions only: the distance measured for a known shift.

    It is that between two halves of a recording, one of them shifted.

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
    """The map T for which y behaves as T(x), or the one that comes closest to it.

    Attributes
    ----------
    verdict : {"conjugate", "different"}
        "conjugate": no test distinguishes y from T(x); then the distance is the cost of T.
    distance : float or None
        The cost of T, if it is the distance.
    words : str
        The map, as a sentence.
    reasons : tuple of str
        The tests that distinguish y from T(x).
    kind : {"same", "shift", "scale", "stretch", "affine"}
    matrix : ndarray, shape (d, d), or None
    shift : ndarray, shape (d,), or None
        T(x) = matrix x + shift, in the original units.
    tests : tuple of (str, float)
        P-values of the permutation tests of x against the pulled-back y: of initial points ("starts"), positions
        ("places"), mean steps ("steps"), noise ("scatter") and terminations ("ends").
    """

    verdict: str
    distance: float | None
    words: str
    reasons: tuple[str, ...] = ()
    kind: str = ""
    matrix: Floats | None = None
    shift: Floats | None = None
    tests: tuple[tuple[str, float], ...] = ()

    def __repr__(self) -> str:
        return brief_record(self)


class Continuous(NamedTuple):
    """Additional fields of a distance between recordings of real vectors.

    Attributes
    ----------
    cells : Cells
        Regions that are coupled in `Result.encoder`; the distance does not depend on them.
    map : MapFit or None
        The map between the two systems that was tested.
    route : {"map", "linear", "deterministic", "pair", "identical", "approximate"}
        Where the distance comes from: the map; the closed form of linear models; optimal transport of episodes; the
        simulated pair; "approximate" without an error bound, for the reason given.
    lower_bound : float or None
        A lower confidence bound from discounted moments alone, valid for any process.
    reason : str
        Why there is no error bound.
    resolution, twin, shift_check, curved
        Deprecated; set only in results of former versions.

    Examples
    --------
    >>> import warnings
    >>> fit = MapFit("conjugate", 0.2, "y behaves as x scaled by 1.20")
    >>> record = Continuous(None, Resolution((), (), ()), Twin(False, ""), None, fit, "map")
    >>> record.summary(None)
    'y behaves as x scaled by 1.20'
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", DeprecationWarning)
    ...     _ = record.former("twin")
    """

    cells: Cells
    resolution: Resolution
    twin: Twin
    shift_check: ShiftCheck | None
    map: MapFit | None = None
    route: str = "cells"
    curved: float | None = None
    lower_bound: float | None = None
    reason: str = ""

    def former(self, name: str) -> Continuous:
        """The record itself, with a warning that this field is deprecated."""
        warn(Note("former-field", name=name), DeprecationWarning)
        return self

    def summary(self, plain: float | None) -> str:
        """The method on one line; `plain` is the distance between cells in results of former versions."""
        if self.route == "map" and self.map is not None:
            return self.map.words
        # Only in results that former versions saved; new results never take this route.
        if self.route == "twin" and self.twin.bias is not None and plain is not None:
            return f"cells alone give {plain:.3g}, bias {self.twin.bias:.3g} measured on linear twins"
        if self.route == "approximate":
            least = f" (at least {self.lower_bound:.3g} by moments alone)" if self.lower_bound else ""
            return f"no error bound available{least}"
        # The fallback is for results of versions without routes.
        return ROUTES.get(self.route, f"{self.cells.n_cells} cells")

    def __repr__(self) -> str:
        return brief_record(self)


ROUTES = {
    "identical": "both recordings are the same",
    "map": "a map between the two",
    "linear": "linear models of both, in closed form",
    "deterministic": "optimal transport of whole episodes, as the dynamics are nearly deterministic",
    "pair": "a model of both, simulated with common noise",
    "approximate": "without an error bound",
}
