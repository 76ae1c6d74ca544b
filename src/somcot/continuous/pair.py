"""The pair simulated: both registered recordings run from one model of a step, with common noise.

u' = f(u) - delta(u) / 2 + N_x W(u) e and v' = f(v) + delta(v) / 2 + N_y W(v) O e: whatever the recordings have in
common is one estimate, f and W, and cancels in the difference; only delta and the factors N are estimated from the
sides against each other. Every such simulation is a bicausal coupling of the two models.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.continuous.moments import Ground, Moments, Registration, Space, kinds_in, map_between, matrix_power
from somcot.continuous.onestep_models import pairs_of, residual_covariance
from somcot.continuous.register import Shared
from somcot.plumbing.arrays import Bools, Floats
from somcot.trajectories import Trajectories

__all__ = ["Difference", "Pair", "Rolled"]

_BUMPS, _FEW_BUMPS = 60, 24  # in the difference of the drifts, at most
_PLACES = 24  # in the local covariance of the noise
_MOST_LOCAL = 6  # coordinates up to which that covariance depends on the position
_MOST_CORRELATED = 0.98  # noise of two coordinates
_FOLDS = 5
_PENALTIES = (0.1, 0.5, 2.0, 8.0, 30.0, 100.0, 1e4)
_LATE = 0.02  # discount weight at which a simulation ends
_LONGEST = 300
_MARGIN = 0.1  # of the range, by which a simulated path may leave it


class Difference(NamedTuple):
    """How the sides differ: weights of the difference of the drifts, and factors of the noise of x and y.

    `common` corrects the shared drift: that one is a mean over both sides wherever they are, not half-way between them.
    """

    drift: Floats
    common: Floats
    factors: tuple[Floats, Floats]


class Rolled(NamedTuple):
    """Simulated pairs: discounted cost and its square in the user's units, and squared distance when registered."""

    cost: Floats
    square: Floats
    gap: Floats


def _moments(points: Floats, space: Space) -> Moments:
    centre = space.centre(points, np.full(len(points), 1.0 / len(points)))
    off = space.wrap(points - centre)
    size = float(np.square(off).mean())
    # A small floor, as initial points may all be equal.
    return Moments(centre, off.T @ off / len(off) + (1e-9 * size + 1e-300) * np.eye(len(centre)))


def _names(d: int) -> tuple[str, ...]:
    return tuple(f"x{k}" for k in range(d))


def _root_of_two(values: Floats, low: float, high: float) -> Floats:
    """Symmetric roots of 2 x 2 matrices with entries (0, 0), (0, 1) and (1, 1), made positive first."""
    a, c = np.clip(values[:, 0], low, high), np.clip(values[:, 2], low, high)
    # Bounded correlations keep the matrix positive.
    b = np.clip(values[:, 1] / np.sqrt(a * c), -_MOST_CORRELATED, _MOST_CORRELATED) * np.sqrt(a * c)
    root = np.sqrt(a * c - b * b)
    trace = np.sqrt(a + c + 2.0 * root)
    return np.asarray(np.stack([a + root, b, b, c + root], axis=1).reshape(-1, 2, 2) / trace[:, None, None])


class Pair:
    """Both processes as one model, in registered coordinates.

    Parameters
    ----------
    shared : Shared
    T : Registration
    ground : Ground
    discount : float
    rng : Generator
    n : int
        Number of simulated pairs, at most; all simulations use the same noise.
    match_starts : bool
        Whether initial points differ between the sides and are matched; otherwise pairs start at the same point.
    like : Pair, optional
        Another pair whose penalty and rotation of the noise are used.
    """

    def __init__(
        self,
        shared: Shared,
        T: Registration,
        ground: Ground,
        discount: float,
        rng: np.random.Generator,
        *,
        n: int,
        match_starts: bool,
        like: Pair | None = None,
    ) -> None:
        self.shared, self.map, self.ground, self.discount, self.rng = shared, T, ground, discount, rng
        self.d = shared.now.shape[1]
        self.match_starts = match_starts
        n_steps = min(_LONGEST, int(np.log(_LATE) / np.log(discount)) + 1) if discount > 0.0 else 1
        self.weights = discount ** np.arange(n_steps + 1) if discount > 0.0 else np.array([1.0, 0.0])
        # Normalised: the simulation ends when the remaining weight is small.
        self.weights = self.weights / self.weights.sum()
        low = np.minimum(shared.now.min(axis=0), shared.following.min(axis=0))
        high = np.maximum(shared.now.max(axis=0), shared.following.max(axis=0))
        # A model is not trusted far beyond the data, where bumps vanish and drifts are extrapolated.
        reach = np.where(T.space.periodic, np.inf, _MARGIN * (high - low))
        self.range = low - reach, high + reach
        self.turn: Floats = np.eye(self.d) if like is None else like.turn
        self._local = self._local_covariance()
        self._noise = self._whitened()
        # Drawn once: differences between simulations are then due to the models, not to the noise.
        self._drawn = rng.integers(len(self._noise), size=(n_steps, n))
        self._start = rng.integers(len(shared.starts), size=n)
        self.n_bumps: int
        self.penalty: float
        self.n_bumps, self.penalty = self._cross_validated() if like is None else (like.n_bumps, like.penalty)

    # -- Estimates

    def _local_covariance(self) -> Floats | None:
        """Weights of the covariance of the noise as a function of the position; None for many coordinates."""
        if self.d > _MOST_LOCAL:
            return None
        i, j = pairs_of(self.d)
        r = self.shared.residuals
        H = self.shared.model.features(self.shared.now, _PLACES)
        penalty = 1e-4 * len(H) * np.ones(H.shape[1])
        # The constant is the mean covariance, which must not be shrunk.
        penalty[0] *= 1e-7
        return np.asarray(np.linalg.solve(H.T @ H + np.diag(penalty), H.T @ (r[:, i] * r[:, j])))

    def _root(self, features: Floats) -> Floats:
        """Square root of the local covariance at points with these features, (n, d, d)."""
        S = self.shared.covariance
        if self._local is None:
            return np.broadcast_to(matrix_power(S, 0.5), (len(features), self.d, self.d))
        # A regression is not always positive; the roots below are bounded.
        values = features[:, : len(self._local)] @ self._local
        low, high = 1e-3 * float(np.diag(S).mean()), 25.0 * float(np.diag(S).max())
        if self.d == 1:
            return np.sqrt(np.clip(values, low, high))[:, :, None]
        if self.d == 2:
            return _root_of_two(values, low, high)
        M = np.empty((len(features), self.d, self.d))
        i, j = pairs_of(self.d)
        M[:, i, j] = values
        M[:, j, i] = values
        eigenvalues, vectors = np.linalg.eigh(M)
        return np.asarray(
            np.einsum("nij,nj,nkj->nik", vectors, np.sqrt(np.clip(eigenvalues, low, high)), vectors, optimize=False)
        )

    def _whitened(self) -> Floats:
        """Residuals divided by the root of their local covariance: the noise that both sides share."""
        root = self._root(self.shared.model.features(self.shared.now, _PLACES))
        e = np.linalg.solve(root, self.shared.residuals[:, :, None])[:, :, 0]
        # Standardised again, as the local covariance was bounded.
        e = e - e.mean(axis=0)
        return np.asarray(e @ matrix_power(residual_covariance(e), -0.5))

    def _cross_validated(self) -> tuple[int, float]:
        """Number of bumps and penalty of the difference of the drifts that predict other units best."""
        H = self.shared.model.features(self.shared.now, _BUMPS)
        size = H.shape[1]
        # Common and differing parts together: what both sides share must not be taken for a difference.
        F = np.hstack([H, H * self.shared.sign[:, None]])
        white = self.shared.residuals @ matrix_power(self.shared.covariance, -0.5)
        fold = self.shared.unit % _FOLDS
        grams = np.stack([F[fold == k].T @ F[fold == k] for k in range(_FOLDS)])
        mixed = np.stack([F[fold == k].T @ white[fold == k] for k in range(_FOLDS)])
        best, a = (np.inf, 0, _PENALTIES[-1]), self.shared.model.n_affine
        # No bumps at all is a candidate: a linear difference often predicts best.
        for m in sorted({0, min(_FEW_BUMPS, size - a), size - a}):
            part = np.concatenate([np.arange(a + m), size + np.arange(a + m)])
            for weight in _PENALTIES if m else (1.0,):
                penalty = self._penalty(a + m, weight)
                loss = 0.0
                for k in range(_FOLDS):
                    K, r = grams.sum(axis=0) - grams[k], mixed.sum(axis=0) - mixed[k]
                    c = np.linalg.solve(K[np.ix_(part, part)] + penalty, r[part])
                    held = grams[k][np.ix_(part, part)]
                    loss += float(np.vdot(c, held @ c) - 2.0 * np.vdot(c, mixed[k][part]))
                if loss < best[0]:
                    best = loss, m, weight
        return best[1], best[2]

    def _penalty(self, size: int, weight: float) -> Floats:
        a = self.shared.model.n_affine
        one = np.concatenate([np.full(a, 1e-6 * len(self.shared.now)), np.full(size - a, weight)])
        return np.diag(np.concatenate([one, one]))

    def difference(self, y: Bools | None = None, counts: Floats | None = None) -> Difference:
        """Fit the difference, with other units on the side of y or with units counted differently."""
        shared = self.shared
        sign = shared.sign if y is None else np.where(y, 0.5, -0.5)[shared.unit]
        weight = np.ones(len(sign)) if counts is None else counts[shared.unit]
        H = shared.model.features(shared.now, self.n_bumps)
        F = np.hstack([H, H * sign[:, None]])
        weighted = F * weight[:, None]
        drift = np.linalg.solve(weighted.T @ F + self._penalty(H.shape[1], self.penalty), weighted.T @ shared.residuals)
        left = shared.residuals - F @ drift
        common = matrix_power(shared.covariance, -0.5)
        factors = []
        for side in (-0.5, 0.5):
            w = np.where(sign == side, weight, 0.0)
            S = (left * w[:, None]).T @ left / max(float(w.sum()), 1e-300) + 1e-12 * shared.covariance
            factors.append(matrix_power(S, 0.5) @ common)
        common, drift = np.split(np.asarray(drift, dtype=np.float64), 2)
        return Difference(drift, common, (factors[0], factors[1]))

    def rotation(self) -> Floats:
        """The rotation of the noise of y that is optimal for linear models of the two sides."""
        models = []
        for side in (-0.5, 0.5):
            i = self.shared.sign == side
            Z = np.column_stack([np.ones(int(i.sum())), self.shared.now[i]])
            gram = Z.T @ Z + 1e-9 * len(Z) * np.eye(Z.shape[1])
            A = np.linalg.solve(gram, Z.T @ self.shared.following[i])[1:].T
            models.append((A, matrix_power(residual_covariance(self.shared.residuals[i]), 0.5)))
        (A, Sx), (B, Sy) = models
        radius = max(float(np.abs(np.linalg.eigvals(M)).max()) for M in (A, B))
        # An explosive model has no stationary solution; a stable one close to it takes its place.
        if self.discount * radius**2 >= 0.999:
            A, B = 0.99 * A / radius, 0.99 * B / radius
        Q = np.eye(self.d)
        for _ in range(400):
            Q = np.eye(self.d) + self.discount * A.T @ Q @ B
        # The nearest rotation (polar factor) maximises the correlation of the noises.
        U, _, Vt = np.linalg.svd(Sx @ Q @ Sy)
        return np.asarray((U @ Vt).T)

    # -- Simulation

    def starts(self, n: int, y: Bools | None = None) -> tuple[Floats, Floats]:
        """Pairs of initial points: the same or, if they differ, related by the map of their moments."""
        every, chosen = self.shared.starts, self._start[:n]
        # Without a significant difference of the starts, both sides begin at the same point.
        if not self.match_starts:
            return every[chosen], every[chosen].copy()
        sides = self.shared.sides if y is None else y
        space = self.map.space
        moments = [_moments(every[which], space) for which in (~sides, sides)]
        T = map_between(kinds_in(space)[-1], moments[0], moments[1], space)
        z, of_y = every[chosen], sides[chosen][:, None]
        return np.where(of_y, T.inverse(z), z), np.where(of_y, z, T.apply(z))

    def rolled(self, difference: Difference, n: int, starts: tuple[Floats, Floats] | None = None) -> Rolled:
        """Simulate n pairs."""
        a, b = self.starts(n) if starts is None else starts
        cost, square, gap = np.zeros(n), np.zeros(n), np.zeros(n)
        for t, weight in enumerate(self.weights):
            if t > 0:
                e = self._noise[self._drawn[t - 1, :n]]
                a = self._stepped(a, -0.5, difference, e)
                b = self._stepped(b, 0.5, difference, e @ self.turn.T)
            costs = self.ground.rows(self.map.x(a), self.map.y(b))
            cost += weight * costs
            square += weight * np.square(costs)
            gap += weight * np.square(self.map.space.wrap(a - b)).sum(axis=1)
        return Rolled(cost, square, gap)

    def _stepped(self, z: Floats, side: float, difference: Difference, e: Floats) -> Floats:
        model = self.shared.model
        H = model.features(z)
        noise = np.einsum("nij,nj->ni", self._root(H), e) @ difference.factors[0 if side < 0 else 1].T
        correction = H[:, : len(difference.drift)] @ (difference.common + side * difference.drift)
        after = model.mean(z, H) + correction + noise
        # Clipped to the range: a single divergent path would dominate the mean.
        return np.clip(self.map.space.wrap(after), *self.range)

    def redrawn(self, difference: Difference) -> tuple[Trajectories, Trajectories]:
        """Recordings of the same shape drawn from the models of the two sides, in registered coordinates."""
        lengths = np.bincount(self.shared.unit, minlength=sum(self.shared.n_units))
        sides = self.shared.sides
        drawn = []
        for which, side in ((~sides, -0.5), (sides, 0.5)):
            n, units = lengths[which], np.flatnonzero(which)
            z = self.shared.starts[units[self.rng.integers(len(units), size=len(units))]]
            rows = [z]
            for _ in range(int(n.max())):
                z = self._stepped(z, side, difference, self._noise[self.rng.integers(len(self._noise), size=len(z))])
                rows.append(z)
            every = np.stack(rows, axis=1)
            # Runs are simulated to the longest length and cut to their own.
            points = np.concatenate([run[: k + 1] for run, k in zip(every, n, strict=True)])
            ends = np.concatenate([[0], np.cumsum(n + 1)]).astype(np.int64)
            drawn.append(Trajectories(points, ends, np.zeros(len(n), np.bool_), _names(self.d)))
        return drawn[0], drawn[1]

    def synchronisation(self, difference: Difference, n: int) -> float:
        """Squared distance that two copies of one process keep over the horizon under common noise, if started apart.

        The larger one of the two sides.
        """
        n_steps = min(len(self.weights) - 1, max(1, int(1.0 / (1.0 - self.discount))))
        kept = []
        for side in (-0.5, 0.5):
            places = self.shared.now[self.shared.sign == side]
            a, b = (places[self.rng.integers(len(places), size=n)] for _ in range(2))
            initial = float(np.square(self.map.space.wrap(a - b)).mean())
            for t in range(n_steps):
                e = self._noise[self._drawn[t, :n]]
                a, b = (self._stepped(z, side, difference, e) for z in (a, b))
            kept.append(float(np.square(self.map.space.wrap(a - b)).mean()) / max(initial, 1e-300))
        return max(kept)
