"""The result of `distance_matrix`: distances with intervals, and common uses of them."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.clocks import Clock
from somcot.inference.statistics import adjusted_pvalues
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count, check_positive, check_text
from somcot.plumbing.html import card, grid
from somcot.plumbing.notes import Note
from somcot.plumbing.records import load, save
from somcot.plumbing.text import listing

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["INTERRUPTED", "DistanceMatrix", "Reason", "adjusted_pvalues", "failure_notes", "joint_labels"]

INTERRUPTED = "not computed: interrupted"  # the reason of cells that were not reached


class Reason(NamedTuple):
    """Why the cell in row i, column j is NaN."""

    i: int
    j: int
    text: str


@dataclass(frozen=True, eq=False, repr=False)
class DistanceMatrix:
    """Distances between many processes, as returned by `somcot.distance_matrix`.

    Attributes
    ----------
    labels, other_labels : tuple of hashable
        Labels of the n rows and the m columns; the same if processes are compared with each other.
    values : ndarray, shape (n, m)
        The distances: exact for known chains, corrected estimates for data (0 on their diagonal). NaN where a pair
        failed; `status` gives the reason.
    plugin : ndarray, shape (n, m)
        Distances of the estimated chains, not corrected: these form a metric. NaN for known chains.
    low, high : ndarray, shape (n, m)
        Confidence interval of each cell for data, proved bounds for known chains. NaN if no interval was requested.
    standard_error : ndarray, shape (n, m)
        Standard error of the plug-in distance; NaN for known chains.
    uncut : ndarray, shape (n, m)
        The corrected values without truncation and switching, for ranking and clustering: they may be negative, but
        similar processes do not all get the same 0.
    pvalues : ndarray, shape (n, m)
        Permutation p-values of "the same process", if requested; `adjusted` has them corrected.
    discount, method, confidence, simultaneous, tests
        The arguments of the call; the discount is 1 for all other clocks.
    clock : Clock
        How costs are accumulated over time; None in files of former versions, which have a discount.
    square : bool
        Whether processes are compared with each other (no `others`).
    symmetric : bool
        Whether the matrix is symmetric, so that only one triangle was computed.
    interrupted : bool
        Whether the run was stopped by Ctrl-C; missing cells are NaN.
    reasons : tuple of Reason
        Why cells are NaN.
    notes : tuple of str
        Caveats about the data, each prefixed with its label.
    seconds : float

    Examples
    --------
    >>> import somcot
    >>> walks = {theta: somcot.random_walk(5, theta) for theta in (0.3, 0.4, 0.7)}
    >>> distances = somcot.distance_matrix(walks, abs(np.subtract.outer(np.arange(5), np.arange(5))), discount=0.9)
    >>> distances
    DistanceMatrix(3 x 3, exact, discount 0.9)
    >>> distances.values.round(3)
    array([[0.   , 0.147, 0.835],
           [0.147, 0.   , 0.687],
           [0.835, 0.687, 0.   ]])
    >>> distances.clusters(2)
    array([0, 0, 1])
    >>> [round(row["distance"], 3) for row in distances.rows()]
    [0.147, 0.835, 0.687]
    >>> float(distances.to_pandas().loc[0.3, 0.7].round(3))
    0.835
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "walks.matrix")
    >>> distances.save(path)
    >>> DistanceMatrix.load(path).labels
    (0.3, 0.4, 0.7)
    """

    labels: tuple[Hashable, ...]
    other_labels: tuple[Hashable, ...]
    values: Floats
    plugin: Floats
    low: Floats
    high: Floats
    standard_error: Floats
    uncut: Floats
    pvalues: Floats
    discount: float
    method: str
    confidence: float | None = None
    simultaneous: bool = False
    tests: str | None = None
    square: bool = True
    symmetric: bool = False
    interrupted: bool = False
    reasons: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    clock: Clock | None = None

    @property
    def timing(self) -> str:
        """How costs are accumulated over time, in words: "discount 0.9", "long-run average", "the first 20 steps"."""
        return str(self.clock or Clock.discounting(self.discount))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self.labels), len(self.other_labels)

    @property
    def status(self) -> NDArray[np.object_]:
        """Why a cell is NaN, empty for other cells, shape (n, m)."""
        table = np.full(self.shape, "", dtype=object)
        for i, j, text in self.reasons:
            table[i, j] = text
        return table

    @property
    def within_chance(self) -> NDArray[np.bool_] | None:
        """Cells that are not distinguishable from equal processes, shape (n, m); None if there is nothing to tell.

        By the intervals if there are any, otherwise by the adjusted p-values at 5 %. A process and itself are not
        compared.
        """
        apart = np.eye(*self.shape, dtype=np.bool_) if self.square else np.zeros(self.shape, dtype=np.bool_)
        if self.confidence is not None and not np.isnan(self.low).all():
            return ~(apart | (self.low > 0.0))
        return ~(apart | (self.adjusted <= 0.05)) if self.tests is not None else None

    @property
    def n_failed(self) -> int:
        """Number of cells that are NaN."""
        return int(np.isnan(self.values).sum())

    @property
    def apart(self) -> tuple[int, int] | None:
        """Number of pairs whose interval excludes the minimum distance, and number of pairs; None without intervals.

        The minimum is the diagonal if processes are compared with each other, else 0.
        """
        if self.confidence is None:
            return None
        known = ~np.isnan(self.low)
        if self.square:
            # Each pair once; the diagonal is the minimum by definition and would count as 'not apart'.
            known = np.triu(known, 1) if self.symmetric else known & ~np.eye(len(self.labels), dtype=np.bool_)
        # The diagonal holds the distance of a process from itself, the least that the cost allows.
        least = float(np.nanmin(self.values.diagonal(), initial=np.inf)) if self.square else 0.0
        return int((self.low[known] > max(least, 0.0)).sum()), int(known.sum())

    @property
    def adjusted(self) -> Floats:
        """P-values corrected for multiple testing (Benjamini-Hochberg, or Benjamini-Yekutieli), shape (n, m)."""
        if self.tests is None:
            return self.pvalues
        chosen = ~np.isnan(self.pvalues)
        if self.symmetric:
            # Each pair is one hypothesis: counting it twice would change the correction.
            chosen = np.triu(chosen, 1)
        table = np.full(self.shape, np.nan)
        table[chosen] = adjusted_pvalues(self.pvalues[chosen], any_dependence=self.tests == "by")
        if self.symmetric:
            table.T[chosen] = table[chosen]
        return table

    @property
    def uncertainty(self) -> Floats:
        """Half the mean width of the intervals of each row; 0 without intervals, shape (n,)."""
        wide = self.high - self.low
        if self.square:
            # The diagonal is exact by definition and would shrink the mean width.
            wide = np.where(np.eye(len(self.labels), dtype=np.bool_), np.nan, wide)
        known = ~np.isnan(wide)
        if self.confidence is None:
            return np.zeros(len(self.labels))
        return np.asarray(0.5 * np.where(known, wide, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        """The distances: the record can be used as an array, for example as a precomputed metric."""
        # NumPy's protocol: copy=False must fail rather than copy silently.
        if copy is False and dtype is not None and np.dtype(dtype) != self.values.dtype:
            raise ValueError("copy: the distances are float64; another type needs a copy")
        values: Floats = self.values if dtype is None else self.values.astype(dtype, copy=False)
        return values.copy() if copy else values

    def to_pandas(self) -> pd.DataFrame:
        """The distances as a data frame with labels."""
        import pandas

        return pandas.DataFrame(self.values, index=list(self.labels), columns=list(self.other_labels))

    def rows(self) -> Iterator[dict[str, Any]]:
        """One record for each pair, without the diagonal and the lower triangle of a symmetric matrix."""
        status, adjusted = self.status, self.adjusted
        for i, x in enumerate(self.labels):
            for j, y in enumerate(self.other_labels):
                # The lower triangle repeats the upper one.
                if self.symmetric and j <= i:
                    continue
                numbers = {
                    "distance": self.values, "low": self.low, "high": self.high, "plugin": self.plugin,
                    "standard_error": self.standard_error, "uncut": self.uncut, "pvalue": self.pvalues,
                    "adjusted_pvalue": adjusted,
                }  # fmt: skip
                record: dict[str, object] = {"x": x, "y": y}
                record |= {name: None if np.isnan(t[i, j]) else float(t[i, j]) for name, t in numbers.items()}
                yield record | {"status": status[i, j]}

    def linkage(self, method: str = "average") -> Floats:
        """Hierarchical clustering, in the form of `scipy.cluster.hierarchy`.

        Uses the uncut values; if the minimum is negative, all are raised by `shift`, which changes no comparison.

        Parameters
        ----------
        method : str
            "average", "single", "complete" or "weighted".

        Examples
        --------
        >>> import somcot
        >>> chains = {str(p): somcot.random_walk(4, p) for p in (0.3, 0.35, 0.7)}
        >>> somcot.distance_matrix(chains, "labels", discount=0.9).linkage()[0, :2].tolist()
        [0.0, 1.0]
        """
        from scipy.cluster.hierarchy import linkage
        from scipy.spatial.distance import squareform

        known = ("average", "single", "complete", "weighted")
        if check_text("method", method) not in known:
            raise ValueError(f"method: found {method!r}, expected one of {', '.join(known)}")
        # checks=False: scipy refuses matrices that are symmetric only up to rounding.
        tree: Floats = linkage(squareform(self._comparable(), checks=False), method)
        return tree

    def clusters(self, k: int, method: str = "average") -> NDArray[np.int64]:
        """Cut the clustering into at most k groups: a group number for each label, numbered by first occurrence."""
        from scipy.cluster.hierarchy import fcluster

        k = check_count("k", k)
        if k > len(self.labels):
            raise ValueError(f"k: found {k}, expected at most {len(self.labels)}, the number of processes")
        raw = fcluster(self.linkage(method), k, "maxclust") if len(self.labels) > 1 else np.ones(1)
        names: dict[float, int] = {}
        # Numbered by first occurrence, since the numbers of fcluster depend on the shape of the tree.
        return np.array([names.setdefault(c, len(names)) for c in raw.tolist()], dtype=np.int64)

    def embedding(self, n_dimensions: int = 2) -> Floats:
        """Points whose distances approximate these (classical scaling), shape (n, n_dimensions).

        Examples
        --------
        >>> import somcot
        >>> chains = {str(p): somcot.random_walk(4, p) for p in (0.3, 0.5, 0.7)}
        >>> somcot.distance_matrix(chains, "labels", discount=0.9).embedding().shape
        (3, 2)
        """
        d = self._comparable()
        n, k = len(d), check_count("n_dimensions", n_dimensions)
        # Double centring turns squared distances into inner products (Torgerson).
        centre = np.eye(n) - 1.0 / n
        values, vectors = np.linalg.eigh(-0.5 * centre @ (d * d) @ centre)
        order = np.argsort(-values, kind="stable")[:k]
        # Distances that no Euclidean space has give negative eigenvalues, which carry no direction.
        points = vectors[:, order] * np.sqrt(np.maximum(values[order], 0.0))
        points = np.pad(points, ((0, 0), (0, k - points.shape[1])))
        # The sign of an eigenvector is arbitrary: the entry of largest magnitude is made positive.
        signs = np.sign(points[np.abs(points).argmax(axis=0), np.arange(k)])
        return np.asarray(points * np.where(signs == 0, 1.0, signs))

    def _comparable(self) -> Floats:
        """Symmetric values without negative values and NaN, 0 on the diagonal."""
        if not self.square:
            raise ValueError("others: clusters and embeddings compare processes with each other; leave out others=")
        # `uncut`, not `values`: estimates truncated at the minimum would make all similar recordings coincide.
        table = 0.5 * (self.uncut + self.uncut.T)
        np.fill_diagonal(table, 0.0)
        bad = np.isnan(table)
        if bad.any():
            worst = np.argsort(-bad.sum(axis=1), kind="stable")
            names = listing(self.labels[i] for i in worst[: int((bad.sum(axis=1) > 0).sum())])
            raise ValueError(
                f"values: {int(bad.sum()) // 2} pair(s) have no distance ({names}); see status, and leave those out"
            )
        off = ~np.eye(len(table), dtype=np.bool_)
        # Uncut estimates may be negative. A common shift keeps their order, which is all that trees use.
        return np.where(off, table + self.shift, 0.0)

    @property
    def shift(self) -> float:
        """By how much the heights of `linkage` exceed distances: minus the smallest uncut value, if it is negative."""
        off = ~np.eye(*self.shape, dtype=np.bool_)
        return max(-float(np.nanmin((0.5 * (self.uncut + self.uncut.T))[off], initial=0.0)), 0.0)

    def kernel(self, gamma: float = 1.0) -> Floats:
        """The Laplacian kernel ``exp(-gamma * distance)``, shape (n, m), for methods that take a precomputed kernel.

        It need not be positive semidefinite, which support vector machines tolerate. `gamma` has the unit of one over
        the cost; one over the mean distance is a usual first choice.

        Examples
        --------
        >>> import somcot
        >>> walks = [somcot.random_walk(5, theta) for theta in (0.3, 0.4, 0.7)]
        >>> somcot.distance_matrix(walks, discount=0.9).kernel(gamma=2.0).round(3)
        array([[1.   , 0.897, 0.603],
               [0.897, 1.   , 0.654],
               [0.603, 0.654, 1.   ]])
        """
        gamma = check_positive("gamma", gamma)
        if self.n_failed:
            raise ValueError(f"values: {self.n_failed} cell(s) are NaN; see status, and leave those processes out")
        return np.exp(-gamma * self.values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that contains no code; labels must be text, numbers, dates or tuples of them."""
        save(path, self, "distance matrix")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DistanceMatrix:
        """Read a file written by `save`."""
        matrix = load(path, "distance matrix", cls, (Reason, Clock))
        # The checksum protects the bytes; only this protects against a file whose arrays do not fit together.
        for name in ("values", "plugin", "low", "high", "standard_error", "uncut", "pvalues"):
            if getattr(matrix, name).shape != matrix.shape:
                raise ValueError(f"{os.fspath(path)}: not a somcot distance matrix file ({name} has another shape)")
        try:
            str(matrix.timing)  # refuses clocks that do not exist
        except (TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)}: not a somcot distance matrix file ({error})") from None
        return matrix

    def __repr__(self) -> str:
        n, m = self.shape
        failed = f", {self.n_failed} failed" if self.n_failed else ""
        level = "" if self.confidence is None else f", {100 * self.confidence:g} % intervals"
        return f"DistanceMatrix({n} x {m}, {self.method}, {self.timing}{level}{failed})"

    def _repr_html_(self) -> str:
        return card("DistanceMatrix", (), grid(self.values, self.labels, self.other_labels), sub=repr(self)[15:-1])


def joint_labels(points: Floats, names: list[str], near: float) -> list[tuple[int, str]]:
    """Labels for points of a map; points closer than a fraction `near` of its size share one label.

    Examples
    --------
    >>> joint_labels(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.001]]), ["a", "b", "c"], 0.02)
    [(0, 'a, c'), (1, 'b')]
    """
    size = float(np.ptp(points, axis=0).max(initial=0.0)) or 1.0
    together: dict[int, list[str]] = {}
    for i, point in enumerate(points):
        at = next((k for k in together if np.abs(points[k] - point).max() <= near * size), i)
        together.setdefault(at, []).append(names[i])
    return [(k, ", ".join(t[:3]) + (f" and {len(t) - 3} more" if len(t) > 3 else "")) for k, t in together.items()]


def failure_notes(distances: DistanceMatrix) -> list[Note]:
    """A note on the pairs without a distance, and the process that all of them have in common, if any."""
    missing = np.isnan(distances.values)
    failed = {(r.i, r.j): r.text for r in distances.reasons if missing[r.i, r.j] and r.text != INTERRUPTED}
    if distances.square:
        # Each pair once. A process that fails with the others also fails with itself, which is no pair.
        once = {(i, j): text for (i, j), text in failed.items() if i < j or (i > j and (j, i) not in failed)}
        failed = once or failed
    if not failed:
        return []
    of_pairs = [(distances.labels[i], distances.other_labels[j]) for i, j in failed]
    common = [label for label in of_pairs[0] if all(label in pair for pair in of_pairs)]
    if len(failed) > 1 and common:
        which = f"all with {common[0]!r}"
    else:
        which = f"{'the first is ' if len(failed) > 1 else ''}{of_pairs[0][0]!r} and {of_pairs[0][1]!r}"
    return [Note("failed-pairs", n=len(failed), which=which, reason=next(iter(failed.values())))]
