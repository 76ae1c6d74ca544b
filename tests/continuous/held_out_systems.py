"""Thirty-four pairs of systems that no rule of the package was chosen on; written down before the first was run.

Equal systems, systems seen through a map (shift, scale, stretch), and pairs that are not maps of each other: of 30 the
distance is known, of four only that they are no maps. Truths: |m| or |m|^2 of a shift; the mean cost of a scaling or
stretch over a long simulation; the closed form of linear systems; common noise from common starts for
monotone steps in one dimension; sums over independent coordinates for the squared cost; phases by value iteration on
the difference of the phases; optimal transport of 2,000 starts for deterministic flows. ``python -m
tests.continuous.held_out_systems`` computes them again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from somcot import Trajectories
from somcot.plumbing.arrays import Floats

__all__ = ["HELD_OUT", "HeldOut"]

G = 0.95
Rng = np.random.Generator
Run = Callable[[int, int, Rng], Floats]  # episodes, steps, random numbers -> (episodes, steps + 1, d)
Step = Callable[[Floats, Rng], Floats]


class HeldOut(NamedTuple):
    """Two simulators, the shape of a recording, the kind of the pair and its distance at discount 0.95."""

    x: Run
    y: Run
    cost: str
    kind: str  # "same", "map", "other", or "unknown": no map, distance not known
    truth: float
    shape: tuple[int, int] = (250, 40)
    compute: Callable[[], float] | None = None

    def record(self, rng: Rng) -> tuple[Trajectories, Trajectories]:
        one, other = (Trajectories.from_arrays(run(*self.shape, rng)) for run in (self.x, self.y))
        return one, other


def runs(start: Callable[[int, Rng], Floats], step: Step, burn: int = 0) -> Run:
    def record(n: int, n_steps: int, rng: Rng) -> Floats:
        x = start(n, rng)
        for _ in range(burn):
            x = step(x, rng)
        rows = [x]
        for _ in range(n_steps):
            rows.append(step(rows[-1], rng))
        return np.stack(rows, axis=1)

    return record


def normal(d: int, size: float, mean: object = 0.0) -> Callable[[int, Rng], Floats]:
    return lambda n, rng: np.asarray(mean) + size * rng.standard_normal((n, d))


def euler(f: Callable[[Floats], Floats], dt: float, k: int, noise: object) -> Step:
    def step(x: Floats, rng: Rng) -> Floats:
        for _ in range(k):
            x = x + dt * f(x) + np.sqrt(dt) * np.asarray(noise) * rng.standard_normal(x.shape)
        return x

    return step


def weights(n: int) -> Floats:
    w = (1 - G) * G ** np.arange(n)
    return np.asarray(w / w.sum())


# Pairs


def same(run: Run, cost: str = "euclidean", shape: tuple[int, int] = (250, 40)) -> HeldOut:
    return HeldOut(run, run, cost, "same", 0.0, shape)


def shifted(run: Run, m: object, cost: str = "euclidean", shape: tuple[int, int] = (250, 40)) -> HeldOut:
    length = float(np.sqrt(np.square(np.asarray(m, dtype=float)).sum()))
    truth = length if cost == "euclidean" else length**2
    return HeldOut(run, lambda n, t, rng: run(n, t, rng) + np.asarray(m), cost, "map", truth, shape)


def stretched(run: Run, a: object, cost: str, truth: float, shape: tuple[int, int] = (250, 40)) -> HeldOut:
    def compute() -> float:
        x = run(20_000, 150, np.random.default_rng(99))
        squares = np.square((np.asarray(a) - 1.0) * x).sum(axis=2)
        return float(weights(151) @ (squares if cost == "sqeuclidean" else np.sqrt(squares)).mean(axis=0))

    return HeldOut(run, lambda n, t, rng: run(n, t, rng) * np.asarray(a), cost, "map", truth, shape, compute)


def common_noise(x: Run, y: Run, cost: str) -> float:
    """Cost of common noise and common starts: optimal for monotone steps in one dimension."""
    a, b = (run(40_000, 160, np.random.default_rng(3)) for run in (x, y))
    gap = np.abs(a - b)[..., 0]
    return float(weights(161) @ (gap if cost == "euclidean" else gap**2).mean(axis=0))


def monotone(x: Run, y: Run, cost: str, truth: float) -> HeldOut:
    return HeldOut(x, y, cost, "other", truth, compute=lambda: common_noise(x, y, cost))


def product(parts: list[tuple[Run, Run]], seed: int, truth: float) -> HeldOut:
    """Independent coordinates, turned; the squared distance is the sum of theirs."""
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(parts), len(parts))))[0]

    def side(k: int) -> Run:
        return lambda n, t, rng: np.concatenate([pair[k](n, t, rng) for pair in parts], axis=2) @ Q.T

    compute = lambda: sum(common_noise(*pair, "sqeuclidean") for pair in parts)  # noqa: E731
    return HeldOut(side(0), side(1), "sqeuclidean", "other", truth, compute=compute)


def linear_pair(d: int, seed: int, truth: float) -> HeldOut:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    A *= 0.85 / np.abs(np.linalg.eigvals(A)).max()
    B = A + 0.25 * rng.normal(size=(d, d)) / np.sqrt(d)
    B *= 0.8 / np.abs(np.linalg.eigvals(B)).max()
    S, R = 0.3 * np.eye(d), 0.3 * np.eye(d) + 0.1 * rng.normal(size=(d, d))
    x, y = (
        runs(normal(d, 0.4), lambda z, r, M=M, N=N: z @ M.T + r.standard_normal(z.shape) @ N.T)  # type: ignore[misc]
        for M, N in ((A, S), (B, R))
    )

    def compute() -> float:
        from tests.continuous.systems import closed_form

        start = (np.zeros(d), 0.4 * np.eye(d))
        return closed_form((A, S, *start), (B, R, *start))

    return HeldOut(x, y, "sqeuclidean", "other", truth, compute=compute)


def phase(speed: float, noise: float) -> Run:
    def record(n: int, n_steps: int, rng: Rng) -> Floats:
        steps = speed + noise * rng.standard_normal((n, n_steps))
        angle = np.cumsum(np.concatenate([2 * np.pi * rng.random((n, 1)), steps], axis=1), axis=1)
        return np.stack([np.cos(angle), np.sin(angle)], axis=2)

    return record


def phases(one: tuple[float, float], other: tuple[float, float], truth: float) -> HeldOut:
    def compute(n: int = 240, m: int = 120) -> float:
        from scipy.optimize import linear_sum_assignment
        from scipy.special import ndtri

        places = 2 * np.pi * np.arange(n) / n
        cost = 2 * np.abs(np.sin(places / 2))
        atoms = ndtri((np.arange(m) + 0.5) / m)
        moves = [speed + noise * atoms for speed, noise in (one, other)]
        V = np.full(n, cost.mean() / (1 - G))
        after = np.zeros((n, m))
        for k in range(400):
            if k < 3 or k % 20 == 0:
                for i, place in enumerate(places):
                    gaps = (place + moves[0][:, None] - moves[1][None, :]) % (2 * np.pi)
                    rows, columns = linear_sum_assignment(np.interp(gaps, [*places, 2 * np.pi], [*V, V[0]]))
                    after[i] = gaps[rows, columns]
            V = cost + G * np.interp(after, [*places, 2 * np.pi], [*V, V[0]]).mean(axis=1)
        return float((1 - G) * V.min())

    return HeldOut(phase(*one), phase(*other), "euclidean", "other", truth, compute=compute)


def deterministic(x: Run, y: Run, truth: float, shape: tuple[int, int]) -> HeldOut:
    def compute() -> float:
        from scipy.optimize import linear_sum_assignment

        a, b = (run(2000, 120, np.random.default_rng(k)) for k, run in enumerate((x, y)))
        total = np.zeros((2000, 2000))
        for t, w in enumerate(weights(121)):
            total += w * np.sqrt(np.square(a[:, t, None] - b[None, :, t]).sum(axis=2))
        rows, columns = linear_sum_assignment(total)
        return float(total[rows, columns].mean())

    return HeldOut(x, y, "euclidean", "other", truth, shape, compute)


# Systems


def columns(*parts: Floats) -> Floats:
    return np.stack(parts, axis=1)


def scalar(f: Callable[[Floats], Floats], noise: float, start: float) -> Run:
    return runs(normal(1, start), lambda x, rng: f(x) + noise * rng.standard_normal(x.shape))


SCHLOEGL = runs(normal(1, 0.6, 1.0), euler(lambda x: -1.2 * x * (x - 0.9) * (x - 2.0), 0.1, 4, 0.4))
BRUSSELATOR = runs(
    normal(2, 0.3, [1.0, 2.0]),
    euler(lambda z: columns(1 + z[:, 0] ** 2 * z[:, 1] - 3.2 * z[:, 0], 2.2 * z[:, 0] - z[:, 0] ** 2 * z[:, 1]),
          0.05, 6, 0.06),
)  # fmt: skip


def _rossler(z: Floats) -> Floats:
    x, y, w = (5 * z).T
    return columns(-y - w, x + 0.2 * y, 0.2 + w * (x - 5.7)) / 5


ROSSLER = runs(
    lambda n, rng: columns(0.8 * rng.standard_normal(n), 0.8 * rng.standard_normal(n), np.full(n, 0.02)),
    euler(_rossler, 0.01, 20, [0.03, 0.03, 0.0]),
    burn=60,
)


def _ikeda(z: Floats, rng: Rng) -> Floats:
    turn = 0.4 - 6 / (1 + np.square(z).sum(axis=1))
    x, y = z.T
    image = columns(1 + 0.8 * (x * np.cos(turn) - y * np.sin(turn)), 0.8 * (x * np.sin(turn) + y * np.cos(turn)))
    return image + 0.02 * rng.standard_normal(z.shape)


IKEDA = runs(normal(2, 0.3), _ikeda, burn=10)
_W = 0.9 * np.random.default_rng(71).normal(size=(3, 3)) / np.sqrt(3)
NETWORK = runs(normal(3, 0.4), lambda z, rng: np.tanh(z @ _W.T) + 0.25 * rng.standard_t(4, z.shape))
UNITS = runs(normal(10, 0.4), lambda z, rng: 0.9 * np.tanh(1.1 * z) + 0.3 * rng.standard_normal(z.shape))
ARCH = runs(
    normal(2, 0.4),
    lambda z, rng: z @ np.array([[0.5, 0.2], [-0.2, 0.5]]) + np.sqrt(0.04 + 0.3 * z**2) * rng.standard_normal(z.shape),
)
_M8, _M20 = (0.9 * M / np.abs(np.linalg.eigvals(M)).max()
             for M in (np.random.default_rng(k).normal(size=(k, k)) for k in (8, 20)))  # fmt: skip


def _linear(M: Floats, noise: float) -> Run:
    return runs(normal(len(M), 0.3), lambda z, rng: z @ M.T + noise * rng.standard_normal(z.shape))


def volatile(n: int, n_steps: int, rng: Rng) -> Floats:
    """A hidden state switches the size of the noise and the centre."""
    hidden = rng.random(n) < 0.5
    rows = [0.3 * rng.standard_normal((n, 2))]
    for _ in range(n_steps):
        hidden = hidden ^ (rng.random(n) < 0.06)
        size = np.where(hidden, 0.5, 0.15)[:, None]
        centre = np.where(hidden, 0.4, -0.2)[:, None]
        rows.append(centre + 0.8 * (rows[-1] - centre) + size * rng.standard_normal((n, 2)))
    return np.stack(rows, axis=1)


def seasonal(n: int, n_steps: int, rng: Rng) -> Floats:
    """The hour of the day, on a circle, and a quantity that it drives."""
    hour = rng.integers(0, 24, n)[:, None] + np.arange(n_steps + 1)
    angle = 2 * np.pi * hour / 24
    level = [0.3 * rng.standard_normal(n)]
    for t in range(n_steps):
        level.append(0.7 * level[-1] + 0.4 * np.cos(angle[:, t]) + 0.25 * rng.standard_normal(n))
    return np.stack([np.cos(angle), np.sin(angle), np.stack(level, axis=1)], axis=2)


def persons(n: int, n_steps: int, rng: Rng) -> Floats:
    """Each episode has a level and a speed of its own."""
    level, speed = 0.4 * rng.standard_normal((n, 2)), rng.uniform(0.3, 0.8, (n, 1))
    rows = [level + 0.3 * rng.standard_normal((n, 2))]
    for _ in range(n_steps):
        rows.append(level + speed * (rows[-1] - level) + 0.3 * rng.standard_normal((n, 2)))
    return np.stack(rows, axis=1)


def _turning(angle: float, size: float) -> Floats:
    return size * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


SLOW = runs(normal(2, 0.6), lambda z, rng: z @ _turning(0.2, 0.93).T + 0.25 * rng.standard_normal(z.shape), burn=60)
WELLS = runs(normal(1, 0.8), euler(lambda x: -1.5 * (x**3 - x), 0.1, 3, 0.6), burn=60)
TWO_WELLS = runs(
    normal(2, 0.6),
    euler(lambda z: columns(-1.5 * (z[:, 0] ** 3 - z[:, 0]) + 0.3 * z[:, 1], -z[:, 1]), 0.1, 3, [0.6, 0.4]),
    burn=60,
)
FITZHUGH = runs(
    normal(2, 0.6),
    euler(lambda z: columns(z[:, 0] - z[:, 0] ** 3 / 3 - z[:, 1] + 0.5, 0.08 * (z[:, 0] + 0.7 - 0.8 * z[:, 1])),
          0.1, 6, [0.12, 0.05]),
)  # fmt: skip


def soft(x: Floats) -> Floats:
    return 0.8 * np.logaddexp(0.0, x) - 0.5


def _barrier(b: float) -> Run:
    return runs(normal(1, 0.8), euler(lambda x: -b * (np.clip(x, -1.8, 1.8) ** 3 - x), 0.1, 3, 0.55))


def _ar(a: float, noise: float) -> Run:
    return scalar(lambda x: a * x, noise, 0.4)


def _swing(damping: float) -> Run:
    """A pendulum without noise."""

    def f(z: Floats) -> Floats:
        return columns(z[:, 1], -1.5 * np.sin(z[:, 0]) - damping * z[:, 1])

    return runs(lambda n, rng: rng.uniform([-1.2, -0.5], [1.2, 0.5], (n, 2)), euler(f, 0.02, 10, 0.0))


def _spiral(angle: float, size: float) -> Run:
    M = _turning(angle, size)
    return runs(normal(2, 0.6, [1.0, 0.0]), lambda z, rng: z @ M.T)


def _pair(f: Callable[[float], Callable[[Floats], Floats]], a: float, b: float, d: int, *step: object) -> HeldOut:
    """Two parameters of one system: no map, distance not known."""
    x, y = (runs(normal(d, 0.8), euler(f(k), *step)) for k in (a, b))  # type: ignore[arg-type]
    return HeldOut(x, y, "euclidean", "unknown", np.nan)


def _vdp(mu: float) -> Callable[[Floats], Floats]:
    return lambda z: columns(z[:, 1], mu * (1 - z[:, 0] ** 2) * z[:, 1] - z[:, 0])


def _duffing(c: float) -> Callable[[Floats], Floats]:
    return lambda z: columns(z[:, 1], z[:, 0] - np.clip(z[:, 0], -3, 3) ** 3 - c * z[:, 1])


def _toggle(a: float) -> Callable[[Floats], Floats]:
    def f(z: Floats) -> Floats:
        u, v = np.maximum(z, 0).T
        return columns(a / (1 + v**3) - z[:, 0], a / (1 + u**3) - z[:, 1])

    return f


def _pacemaker(speed: float) -> Callable[[Floats], Floats]:
    def f(z: Floats) -> Floats:
        r = np.square(z).sum(axis=1, keepdims=True)
        return np.asarray((1 - r) * z + speed * z @ np.array([[0.0, 1.0], [-1.0, 0.0]]))

    return f


HELD_OUT = {
    # equal systems
    "bistable reaction, same (1-D)": same(SCHLOEGL),
    "Roessler, same, squared (3-D)": same(ROSSLER, "sqeuclidean"),
    "ARCH, same (2-D)": same(ARCH),
    "hidden volatility, same (2-D)": same(volatile),
    "linear, same, squared (8-D)": same(_linear(_M8, 0.3), "sqeuclidean"),
    "two wells, 8 runs of 1,000, same (2-D)": same(TWO_WELLS, shape=(8, 1000)),
    "persons, same (2-D)": same(persons),
    # maps
    "bistable reaction x 1.3, squared (1-D)": stretched(SCHLOEGL, 1.3, "sqeuclidean", 0.1913),
    "Brusselator stretched 1.2, 0.85, squared (2-D)": stretched(BRUSSELATOR, [1.2, 0.85], "sqeuclidean", 0.1590),
    "Roessler shifted (3-D)": shifted(ROSSLER, [0.3, 0.0, 0.2]),
    "Ikeda shifted (2-D)": shifted(IKEDA, [0.1, -0.2]),
    "heavy tails, network x 1.2 (3-D)": stretched(NETWORK, 1.2, "euclidean", 0.1194),
    "hidden volatility shifted (2-D)": shifted(volatile, [0.0, 0.35]),
    "hour of the day, shifted (3-D)": shifted(seasonal, [0.0, 0.0, 0.3]),
    "persons shifted (2-D)": shifted(persons, [0.4, 0.0], shape=(400, 25)),
    "ARCH x 1.25, squared (2-D)": stretched(ARCH, 1.25, "sqeuclidean", 0.0130),
    "saturating units x 1.15, squared (10-D)": stretched(UNITS, 1.15, "sqeuclidean", 0.0569),
    "linear, shifted (20-D)": shifted(_linear(_M20, 0.3), np.full(20, 0.5 / np.sqrt(20))),
    "slow rotation, 6 runs of 1,500, x 1.3, squared (2-D)": stretched(
        SLOW, 1.3, "sqeuclidean", 0.0833, (6, 1500)
    ),
    "wells, 8 runs of 1,200, shifted (1-D)": shifted(WELLS, [0.5], shape=(8, 1200)),
    "FitzHugh-Nagumo, 1,500 runs of 6, shifted (2-D)": shifted(FITZHUGH, [0.3, 0.2], shape=(1500, 6)),
    # not maps of each other
    "tanh, steep and flat (1-D)": monotone(
        scalar(lambda x: np.tanh(1.6 * x), 0.3, 0.5), scalar(lambda x: np.tanh(0.9 * x), 0.3, 0.5), "euclidean", 0.5641
    ),
    "softplus, noise 0.3 and 0.5 (1-D)": monotone(scalar(soft, 0.3, 0.5), scalar(soft, 0.5, 0.5), "euclidean", 0.1697),
    "barriers 1.6 and 1 (1-D), squared": monotone(_barrier(1.6), _barrier(1.0), "sqeuclidean", 0.1532),
    "two linear, squared (3-D)": linear_pair(3, 81, 0.1056),
    "two linear, squared (6-D)": linear_pair(6, 82, 0.3686),
    "tanh x AR, turned, squared (2-D)": product(
        [
            (scalar(lambda x: np.tanh(1.5 * x), 0.35, 0.5), scalar(lambda x: np.tanh(1.5 * x), 0.5, 0.5)),
            (_ar(0.8, 0.3), _ar(0.5, 0.4)),
        ],
        83, 0.2822,
    ),
    "barrier x softplus x AR, turned, squared (3-D)": product(
        [
            (_barrier(1.5), _barrier(0.8)),
            (scalar(soft, 0.3, 0.5), scalar(soft, 0.45, 0.5)),
            (_ar(0.7, 0.3), _ar(0.7, 0.3)),
        ],
        84, 0.2040,
    ),
    "phases, noise 0.15 and 0.3 (2-D)": phases((0.6, 0.15), (0.6, 0.3), 0.3908),
    "pendulum, damping 0.2 and 0.6, deterministic (2-D)": deterministic(_swing(0.2), _swing(0.6), 0.2012, (150, 60)),
    "spirals, deterministic (2-D)": deterministic(_spiral(0.3, 0.97), _spiral(0.4, 0.95), 0.5481, (150, 60)),
    # no maps, distance not known
    "van der Pol 1 and 1.4": _pair(_vdp, 1.0, 1.4, 2, 0.05, 6, 0.15),
    "Duffing, damping 0.3 and 0.5": _pair(_duffing, 0.3, 0.5, 2, 0.05, 6, [0.1, 0.3]),
    "toggle 2.4 and 2.1": _pair(_toggle, 2.4, 2.1, 2, 0.1, 5, 0.35),
    "pacemaker 1 and 1.15": _pair(_pacemaker, 1.0, 1.15, 2, 0.05, 6, 0.2),
}  # fmt: skip


if __name__ == "__main__":
    for name, system in HELD_OUT.items():
        if system.compute is not None:
            print(f"{name}: {system.compute():.4f} ({system.truth})", flush=True)
