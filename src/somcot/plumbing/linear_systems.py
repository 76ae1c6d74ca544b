"""Linear systems for values and occupancies, also at discounts close to or equal to 1.

Both are (I - discount * P) v = b, with P or its transpose. BiCGSTAB solves nearly all of them in a few dozen products.
It fails on long cycles; these are solved by a sparse factorisation or by fixed-point steps, which always converge,
whichever is expected to be faster.

The value V = cost + discount * P V grows with 1 / (1 - discount), and so does its rounding error. Split it into
V = h + gain / (1 - discount), h = 0 at a reference row. With P0 the kernel without the column of the reference (every
visit to it ends the sum),

    a = cost + discount * P0 a    expected cost until the return to the reference,
    b = 1 + discount * P0 b       expected time until then,
    gain = a(ref) / b(ref),       h = a - gain * b.

These systems are well conditioned if the reference is visited often, even at discount 1. A kernel has one reference in
each of its closed classes. Occupancies follow from the transposed systems: the occupancy of one cycle from reference
to reference, times the frequency of cycles.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import copy_to, fma
from somcot.plumbing.arrays import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "CLOSE",
    "Anchored",
    "Kernel",
    "anchored",
    "closed_sets",
    "discounted_blocks",
    "discounted_occupancy",
    "discounted_value",
    "occupancy_of",
    "reachable",
    "reference_rows",
    "relative_value",
    "solve_definite",
]


# --- Discounted linear systems.

_EPS = float(np.finfo(np.float64).eps)
_SMALL = 2000  # rows up to which a factorisation is fast for any sparsity pattern
_PATIENCE = 2e9  # maximal products of fixed-point steps before a factorisation is tried
_FACTORISABLE = 2e7  # rows times squared entries per row: limit of sparse factorisations


class Kernel(NamedTuple):
    """A square matrix in CSR form, without the checks and conversions that dominate small problems."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: Floats

    @classmethod
    def from_matrix(cls, matrix: csr_array | Floats) -> Kernel:
        """From a dense array or any SciPy sparse matrix."""
        from scipy.sparse import csr_array

        csr = csr_array(matrix)
        return cls(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    def transpose(self) -> Kernel:
        """The transposed matrix."""
        n, n_entries = len(self.indptr), len(self.data)
        # Built by our own kernel: SciPy's `.T.tocsr()` would add checks and int32/int64 conversions.
        turned = Kernel(np.zeros(n, np.int64), np.empty(n_entries, np.int32), np.empty(n_entries))
        _transpose(*self, *turned)
        return turned

    def to_scipy(self) -> csr_array:
        """As a SciPy matrix, sharing memory where possible."""
        from scipy.sparse import csr_array

        return csr_array((self.data, self.indices, self.indptr), shape=(self.n, self.n))


def discounted_value(
    kernel: Kernel, cost: Floats, discount: float, guess: Floats | None = None, accuracy: float = _EPS
) -> Floats:
    """Solve V = cost + discount * kernel @ V.

    Parameters
    ----------
    kernel : Kernel, shape (n, n)
        Rows sum to at most 1.
    cost : ndarray, shape (n,)
    discount : float
        At most 1; at 1 all rows must be transient.
    guess : ndarray, shape (n,), optional
        Initial guess.
    accuracy : float, optional
        Tolerance of the residual, relative to V; by default rounding.
    """
    return _solve(kernel, cost, discount, np.zeros_like(cost) if guess is None else guess.copy(), accuracy)


def relative_value(kernel: Kernel, cost: Floats, discount: float, guess: Floats) -> tuple[Floats, float]:
    """Solve for V minus a constant, W = V - gain / (1 - discount); returns W and the gain.

    V and its rounding error grow with 1 / (1 - discount); W is only as large as the range of V.
    """
    V = discounted_value(kernel, cost, discount, guess)
    middle = float(V.max() / 2.0 + V.min() / 2.0)  # halved first: the sum of two large values could overflow
    gain = (1.0 - discount) * middle
    return discounted_value(kernel, cost - gain, discount, V - middle), gain


def discounted_occupancy(kernel: Kernel, start: Floats, discount: float, accuracy: float = _EPS) -> Floats:
    """Distribution of the state at a geometric time: (1 - discount) * sum_t discount^t * start @ kernel^t.

    States not reachable from the initial distribution get exactly 0. `accuracy` is that of the residual, relative to
    the largest entry; by default rounding.

    Examples
    --------
    >>> kernel = Kernel.from_matrix(np.array([[0.0, 1.0], [0.0, 1.0]]))
    >>> discounted_occupancy(kernel, np.array([1.0, 0.0]), 0.9).round(12)
    array([0.1, 0.9])
    """
    occupancy = _solve(kernel.transpose(), (1.0 - discount) * start, discount, np.zeros(len(start)), accuracy)
    # Rounding can leave tiny positive numbers where the exact solution is 0; supports are derived from these zeros.
    occupancy[~reachable(kernel, start)] = 0.0
    occupancy = np.maximum(occupancy, 0.0)
    occupancy /= occupancy.sum()
    return occupancy


def discounted_blocks(kernel: Kernel, b: Floats, discounts: Floats, x: Floats, threads: int = 1) -> Floats:
    """Solve (I - discount * kernel) x = b for a block-diagonal kernel with equal blocks, each with its discount.

    Parameters
    ----------
    kernel : Kernel, shape (n, n)
        Block diagonal.
    b : ndarray, shape (n,)
    discounts : ndarray, shape (n_blocks,)
    x : ndarray, shape (n,)
        Initial guess, overwritten by the solution.
    threads : int
        Number of threads; the result does not depend on it.
    """
    n_blocks = len(discounts)
    # After this many steps discount^t is below rounding, so fixed-point steps cannot improve further.
    steps = np.ceil(np.log(_EPS) / np.log(discounts)).astype(np.int64)

    def run(lo: int, hi: int) -> None:
        _blocks(lo, hi, *kernel, discounts, b, x, steps)

    # Four slices per thread balance blocks of different difficulty; the cuts do not affect the results.
    ends = np.unique(np.linspace(0, n_blocks, 4 * threads + 1 if threads > 1 else 2).astype(np.int64)).tolist()
    if len(ends) == 2:
        run(0, n_blocks)
        return x
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, ends[:-1], ends[1:]))
    return x


def _solve(kernel: Kernel, b: Floats, discount: float, x: Floats, accuracy: float = _EPS) -> Floats:
    """Refine x with increasingly robust methods until the residual meets the tolerance."""
    b = b if b.flags.writeable else b.copy()  # read-only arrays would trigger another compilation
    if _krylov(*kernel, discount, b, x, min(2000, 200 + kernel.n), accuracy):
        return x
    # Fill-in of a factorisation grows with the squared number of entries per row.
    density = max(len(kernel.data) / kernel.n, 1.0)
    # Close to discount 1 convergence is not guaranteed, so steps are limited; brackets show any remaining error.
    limit = max(10.0 * _PATIENCE / max(len(kernel.data), 1), 1e5)
    steps = int(np.ceil(min(np.log(_EPS) / np.log(discount), limit) if discount < 1.0 else limit))
    # A factorisation if the matrix is small, or if fixed-point steps would take longer than `_PATIENCE` products.
    factorise = kernel.n <= _SMALL or steps * len(kernel.data) > _PATIENCE
    if factorise and kernel.n * density * density <= _FACTORISABLE:
        _factorised(kernel, b, discount, x)
    else:
        _fixed_point(*kernel, discount, b, x, steps)
    return x


def _factorised(kernel: Kernel, b: Floats, discount: float, x: Floats) -> None:
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    system = eye_array(kernel.n, format="csr") - discount * kernel.to_scipy()
    try:
        factor = splu(system.tocsc())
    except RuntimeError:  # singular in floating point, at discount 1 only: keep x
        return
    x[:] = factor.solve(b)
    x += factor.solve(b - system @ x)  # one step of iterative refinement


def reachable(kernel: Kernel, start: Floats) -> NDArray[np.bool_]:
    """States reachable from the initial distribution `start`."""
    seen: NDArray[np.bool_] = start > 0
    _flood(kernel.indptr, kernel.indices, seen, np.flatnonzero(seen))
    return seen


def solve_definite(matrix: Floats, target: Floats) -> Floats | None:
    """Solve a symmetric positive definite system, overwriting `matrix`; None if a pivot is not positive.

    The bits are the same on every machine, unlike those of LAPACK.

    Examples
    --------
    >>> solve_definite(np.array([[4.0, 2.0], [2.0, 3.0]]), np.array([2.0, 1.0]))
    array([0.5, 0. ])
    """
    x = target.astype(np.float64)
    return x if _cholesky(matrix, x) else None


@kernel
def _cholesky(a, x):
    n = x.size
    for k in range(n):
        if not a[k, k] > 0.0:
            return False
        for i in range(k + 1, n):
            factor = a[k, i] / a[k, k]
            for j in range(i, n):  # no sum, so vector widths cannot change its order
                a[i, j] -= factor * a[k, j]
            x[i] -= factor * x[k]
    for k in range(n - 1, -1, -1):
        total = x[k]
        for j in range(k + 1, n):
            total -= a[k, j] * x[j]
        x[k] = total / a[k, k]
    return True


@kernel
def _transpose(indptr, indices, data, new_indptr, new_indices, new_data):
    n = indptr.size - 1
    for t in range(indices.size):
        new_indptr[indices[t] + 1] += 1
    for i in range(n):
        new_indptr[i + 1] += new_indptr[i]
    # Counting sort by column: entries of a row stay in order, so the transpose is sorted too.
    place = new_indptr[:n].copy()
    for i in range(n):
        for t in range(indptr[i], indptr[i + 1]):
            spot = place[indices[t]]
            new_indices[spot] = i
            new_data[spot] = data[t]
            place[indices[t]] += 1


@kernel
def _flood(indptr, indices, seen, sources):
    stack = np.empty(seen.size, dtype=np.int64)
    copy_to(stack, sources)
    top = sources.size
    while top > 0:
        top -= 1
        node = stack[top]
        for t in range(indptr[node], indptr[node + 1]):
            if not seen[indices[t]]:
                seen[indices[t]] = True
                stack[top] = indices[t]
                top += 1


@kernel
def _residual(indptr, indices, data, discount, b, x, out):
    """Out = b - (I - discount * P) x; returns its largest entry. Indices are unsigned as in `_apply`."""
    worst = 0.0
    t = np.uint64(indptr[0])
    for i in range(np.uint64(b.size)):
        total = 0.0
        end = np.uint64(indptr[i + np.uint64(1)])
        while t < end:
            total += data[t] * x[np.uint32(indices[t])]
            t += np.uint64(1)
        out[i] = b[i] - x[i] + discount * total
        worst = max(worst, abs(out[i]))
    return worst


@kernel
def _apply(indptr, indices, data, discount, x, out):
    """Out = (I - discount * P) x.

    Indices are unsigned: for signed ones Numba adds a test for negative values, which takes as long as the product.
    """
    t = np.uint64(indptr[0])
    for i in range(np.uint64(x.size)):
        total = 0.0
        end = np.uint64(indptr[i + np.uint64(1)])
        while t < end:
            total += data[t] * x[np.uint32(indices[t])]
            t += np.uint64(1)
        out[i] = x[i] - discount * total


@part(nan=True)
def _dot(a, b):
    """Inner product in a fixed order, in eight vectorised sums; the bits of BLAS depend on the machine."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = a.size - a.size % 8
    for i in range(0, whole, 8):
        s0 = fma(a[i], b[i], s0)
        s1 = fma(a[i + 1], b[i + 1], s1)
        s2 = fma(a[i + 2], b[i + 2], s2)
        s3 = fma(a[i + 3], b[i + 3], s3)
        s4 = fma(a[i + 4], b[i + 4], s4)
        s5 = fma(a[i + 5], b[i + 5], s5)
        s6 = fma(a[i + 6], b[i + 6], s6)
        s7 = fma(a[i + 7], b[i + 7], s7)
    # A fixed tree of sums: the order is the same for every vector width.
    total = ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
    for i in range(whole, a.size):
        total = fma(a[i], b[i], total)
    return total


@kernel(name="linear solver", seconds=1, shared=True)
def _krylov(indptr, indices, data, discount, b, x, max_steps, accuracy):
    """BiCGSTAB with restarts on the true residual; True once that meets the tolerance.

    The method can break down (omega or rho is 0) or diverge within a step, so the best iterate is kept and restored.
    The residual of a rounded solution is a few units of rounding of x: 4 end the iteration, and if nothing better is
    reached, 16 still count as solved.
    """
    n = b.size
    r, p, v, s, t = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    best = x.copy()
    steps = 0
    mixed = False
    last = np.inf
    while True:
        worst = _residual(indptr, indices, data, discount, b, x, r)
        level = 0.0
        for i in range(n):
            level = max(level, accuracy * abs(x[i]))
        if worst <= 4.0 * level:
            return True
        if steps >= max_steps or (mixed and not worst < 0.5 * last):
            return worst <= 16.0 * level
        # If the initial row is transient, the residual is orthogonal to all later ones and the method breaks down
        # immediately; the shadow residual is then mixed with a pseudorandom vector.
        mixed = mixed or not worst < 0.5 * last
        last = worst
        smallest = worst
        copy_to(best, x)
        shadow = r.copy()
        if mixed:
            # Multiples of the odd number next to 2^32 / golden ratio, modulo 2^32: equidistributed and deterministic.
            for i in range(n):
                shadow[i] += worst * ((i * 2654435761) % 4294967296) / 4294967296.0
        copy_to(p, r)
        rho = _dot(shadow, r)
        while steps < max_steps:
            steps += 1
            _apply(indptr, indices, data, discount, p, v)
            slope = _dot(shadow, v)
            if slope == 0.0:
                break
            alpha = rho / slope
            for i in range(n):
                s[i] = r[i] - alpha * v[i]
            _apply(indptr, indices, data, discount, s, t)
            norm = _dot(t, t)
            omega = _dot(t, s) / norm if norm > 0.0 else 0.0
            size, largest = 0.0, 0.0
            for i in range(n):
                x[i] += alpha * p[i] + omega * s[i]
                r[i] = s[i] - omega * t[i]
                size = max(size, abs(r[i]))
                largest = max(largest, abs(x[i]))
            following = _dot(shadow, r)
            if not (np.isfinite(following) and size <= 1e6 * smallest):  # also for NaN
                break
            done = size <= max(accuracy * largest, 1e-12 * worst)
            if done or size < 0.1 * smallest:
                smallest = size
                copy_to(best, x)
            if done or omega == 0.0 or rho == 0.0:
                break
            beta = following / rho * alpha / omega
            rho = following
            for i in range(n):
                p[i] = r[i] + beta * (p[i] - omega * v[i])
        copy_to(x, best)


@kernel(name="linear solver for batches", seconds=1)
def _blocks(lo, hi, indptr, indices, data, discounts, b, x, max_steps):
    size = b.size // discounts.size
    for k in range(lo, hi):
        rows = slice(k * size, (k + 1) * size)
        # Each block as a small matrix of its own, with columns counted from its first row.
        begin, end = indptr[k * size], indptr[(k + 1) * size]
        ptr, columns = np.empty(size + 1, np.int64), np.empty(end - begin, np.int32)
        for i in range(size + 1):
            ptr[i] = indptr[k * size + i] - begin
        for t in range(end - begin):
            columns[t] = indices[begin + t] - k * size
        entries = data[begin:end]
        if not _krylov(ptr, columns, entries, discounts[k], b[rows], x[rows], min(2000, 200 + size), _EPS):
            _fixed_point(ptr, columns, entries, discounts[k], b[rows], x[rows], max_steps[k])


@kernel
def _fixed_point(indptr, indices, data, discount, b, x, max_steps):
    """Gauss-Seidel steps, which contract at least by the factor `discount`."""
    for _ in range(max_steps):
        change = 0.0
        largest = 0.0
        for i in range(b.size):
            total = 0.0
            own = 0.0
            for t in range(indptr[i], indptr[i + 1]):
                if indices[t] == i:
                    own += data[t]
                else:
                    total += data[t] * x[indices[t]]
            # The diagonal is solved for exactly: chains that mostly stay where they are converge much faster.
            value = (b[i] + discount * total) / (1.0 - discount * own)
            change = max(change, abs(value - x[i]))
            largest = max(largest, abs(value))
            x[i] = value
        if change <= _EPS * largest:
            break


# --- Values and occupancies relative to reference rows, for discounts close to or equal to 1.

CLOSE = 0.9995  # above this discount rounding widens brackets, and references are worthwhile
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Anchored:
    """A kernel with a reference row in each of its closed classes.

    Attributes
    ----------
    kernel : Kernel, shape (n, n)
    rest : Kernel, shape (n, n)
        The kernel without the columns of the references.
    discount : float
        At most 1.
    references : ndarray, shape (k,)
    length : ndarray, shape (n,)
        Expected discounted time until a reference is reached: b above.
    """

    kernel: Kernel
    rest: Kernel
    discount: float
    references: Integers
    length: Floats

    def until(self, cost: Floats) -> Floats:
        """Expected discounted cost until a reference is reached: a above."""
        return discounted_value(self.rest, cost, self.discount)

    def step(self, values: Floats) -> Floats:
        """The kernel times `values`."""
        return np.asarray(self.kernel.to_scipy() @ values)

    def laws(self, start: Floats) -> tuple[Floats, Floats]:
        """The occupancy (1 - discount) sum_t discount^t start P^t (at 1 its limit) and the visits until a reference.

        The first sums to 1. The second is the expected discounted number of visits to each row before the first
        reference is reached (including the reference itself if the process starts there).
        """
        turned = self.rest.transpose()
        visits = np.maximum(discounted_value(turned, start, self.discount), 0.0)
        met = self.discount * (self.kernel.to_scipy().T @ visits)[self.references]
        cycles = np.zeros(len(start))
        cycles[self.references] = met / self.length[self.references]
        # The time before the first reference has weight 1 - discount; cycles start from there.
        occupancy = np.maximum(discounted_value(turned, cycles, self.discount), 0.0) + (1.0 - self.discount) * visits
        # Exact zeros, as in `discounted_occupancy`.
        reached = reachable(self.kernel, start)
        occupancy = np.where(reached, occupancy, 0.0)
        return occupancy / occupancy.sum(), np.where(reached, visits, 0.0)


def anchored(kernel: Kernel, discount: float, weight: Floats) -> Anchored:
    """Choose in each closed class the row with the largest weight as its reference.

    It has to be a frequently visited row: sums until a rare one are large and cancel.
    """
    references = _heaviest(closed_sets(kernel), weight)
    # Setting the column of a reference to 0 ends the sum at every visit to it.
    outside = np.ones(kernel.n)
    outside[references] = 0.0
    rest = Kernel(kernel.indptr, kernel.indices, kernel.data * outside[kernel.indices])
    return Anchored(kernel, rest, discount, references, discounted_value(rest, np.ones(kernel.n), discount))


def occupancy_of(kernel: Kernel, start: Floats, discount: float) -> Floats:
    """The share of discounted time spent in each row; at discount 1 the long-run share.

    Examples
    --------
    >>> kernel = Kernel.from_matrix(np.array([[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> occupancy_of(kernel, np.array([1.0, 0.0, 0.0]), 1.0)
    array([0. , 0.5, 0.5])
    """
    if discount <= CLOSE:
        return discounted_occupancy(kernel, start, discount)
    return anchored(kernel, discount, reference_rows(kernel)).laws(start)[0]


def reference_rows(kernel: Kernel) -> Floats:
    """Approximate frequency of each row within its closed class, for the choice of references."""
    # A discount this close to 1 approximates frequencies from any start, and periodic classes still converge.
    return discounted_occupancy(kernel, np.full(kernel.n, 1.0 / kernel.n), 1.0 - 1e-6 / kernel.n)


def closed_sets(kernel: Kernel) -> Integers:
    """Number the closed classes of rows (strong components without exits); -1 for transient rows."""
    from scipy.sparse.csgraph import connected_components

    component: Integers = connected_components(kernel.to_scipy(), connection="strong")[1].astype(np.int64)
    rows = np.repeat(np.arange(kernel.n), np.diff(kernel.indptr))
    # A component with an edge to another component is not closed.
    component[np.isin(component, component[rows[component[rows] != component[kernel.indices]]])] = -1
    return component


def _heaviest(sets: Integers, weight: Floats) -> Integers:
    """The row with the largest weight in each class; ties go to the first."""
    rows = np.flatnonzero(sets >= 0)
    order = rows[np.lexsort((rows, -weight[rows], sets[rows]))]
    first = np.append(True, sets[order[1:]] != sets[order[:-1]])
    return np.asarray(np.sort(order[first]))
