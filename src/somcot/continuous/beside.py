"""What a map between two systems has to carry over beside the mean of a step: its scatter, and where episodes start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.continuous.onestep import OneStep
from somcot.plumbing.arrays import Floats
from somcot.trajectories import Trajectories

__all__ = ["Beside"]

_FLOOR = 1e-3  # share of the variance of places and moves below which starts and noise say nothing about a map


class _Law(NamedTuple):
    """A law that T has to carry from x to y, by its covariance: expected in x, and how well it is known of y."""

    covariance: Floats
    floor: Floats  # diagonal
    n: int
    tails: float  # variance of a squared standardised coordinate: 2 for normal laws

    @classmethod
    def of(cls, values: Floats, n: int, unit: Floats, inflated: float = 1.0) -> _Law:
        """Of values of x about 0; `n` of y will be compared with them."""
        covariance = inflated * values.T @ values / len(values)
        floor = _FLOOR * np.square(unit)
        standard = values @ np.linalg.inv(np.linalg.cholesky(covariance + np.diag(floor))).T
        return cls(covariance, floor, n, max(2.0, float(np.square(standard).var(axis=0).mean())))

    @property
    def white(self) -> Floats:
        """What makes it standard."""
        return np.linalg.inv(np.linalg.cholesky(self.covariance + np.diag(self.floor)))

    def misfit(self, pulled: Floats) -> Floats:
        """How far the covariance of the pulled-back y is from that of x, in standard errors."""
        white = self.white
        S = white @ (pulled + np.diag(self.floor)) @ white.T - np.eye(len(pulled))
        i, j = np.triu_indices(len(S))
        return np.asarray(S[i, j] * np.sqrt(self.n / np.where(i == j, self.tails, 0.5 * self.tails)))


class Beside(NamedTuple):
    """What T has to carry over beside the mean of a step: its scatter, and where episodes start."""

    noise: _Law
    starts: _Law
    start: Floats  # mean start of x
    of_y: tuple[Floats, Floats]  # mean and covariance of the starts of y

    @classmethod
    def of(cls, x: Trajectories, y: Trajectories, step: OneStep) -> Beside:
        """From both recordings and the model of a step of x."""
        n, free = x.n_transitions, min(step.freedom, 0.5 * x.n_transitions)
        left = x.following - step.mean(x.now)
        # The model was fitted to the steps of x: it leaves less of them than there is, and more of others.
        moves = (x.following - x.now).std(axis=0) + 1e-12
        noise = _Law.of(left, y.n_transitions, moves, inflated=n / (n - free) * (1.0 + free / n))
        middle = y.starts.mean(axis=0)
        centred = y.starts - middle
        begin = x.starts.mean(axis=0)
        starts = _Law.of(x.starts - begin, y.n_episodes, x.points.std(axis=0) + 1e-12)
        return cls(noise, starts, begin, (middle, centred.T @ centred / len(centred)))

    def misfit(self, matrix: Floats, shift: Floats, left: Floats) -> Floats:
        """Of y = matrix x + shift, in standard errors; `left` is the covariance of what is left of the steps of y."""
        back = np.linalg.inv(matrix)
        middle, spread = self.of_y
        off = self.starts.white @ (back @ (middle - shift) - self.start)
        return np.concatenate(
            [
                self.noise.misfit(back @ left @ back.T),
                self.starts.misfit(back @ spread @ back.T),
                np.sqrt(self.starts.n) * off,
            ]
        )
