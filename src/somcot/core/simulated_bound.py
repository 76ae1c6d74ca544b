"""An upper bound of the distance between two simulators: the cost of a coupling, measured on roll-outs.

Any coupling that draws each step from fresh independent noise costs at least the distance. Three are tried:

* *common*: both simulators get generators with the same seed, so they use the same noise;
* *turned*: common noise, rotated for y by the rotation that is optimal for linear models of both (`somcot.gaussian`);
* *assigned*: m successors of each side from m shared seeds, matched at minimal cost; one of the m pairs is chosen at
  random. With a random choice, each side's successor has the correct distribution for any matching. Always choosing
  the first would be biased, because the partner of the first depends on the draws.

Simulators may instead take their noise as an argument, x' = f(x, e) and y' = g(y, e') with standard normal e. Then
e' = R(x, y) e is a coupling for every function R with orthogonal values: given the present pair, e' is standard normal,
so each side has its own distribution whatever R is. A learned R therefore cannot make the bound wrong, only loose.

The coupling is chosen on separate pilot roll-outs, so that the choice does not bias the measurement. Roll-outs are not
truncated: after some steps the remainder of the discounted sum is replaced by the cost at a geometric time, which is
unbiased.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from somcot.gaussian.closed_form import cross
from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.checks import check_confidence, check_count, check_discount, check_rng, check_text
from somcot.plumbing.html import card
from somcot.result import ConfidenceInterval

__all__ = ["COUPLINGS", "SimulatedUpper", "Simulators", "explicit_turn", "simulated_upper"]

Simulators = tuple[Callable[..., Any], Callable[..., Any]]  # of x and of y
PairCost = str | Callable[[Floats, Floats], Any]
Rng = np.random.Generator
COUPLINGS = ("common", "turned", "assigned")
_PILOT = 0.25  # additional share of roll-outs for choosing the coupling
_LATE = 0.01  # weight of the remainder that a geometric time replaces
_LARGEST_SEED = 2**63 - 1
_ORTHOGONAL = 1e-8  # difference of R R' from the identity up to which R counts as orthogonal


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedUpper:
    """A measured upper bound of a distance.

    Attributes
    ----------
    bound : float
        Mean cost of the coupling: at least the distance, up to its standard error.
    standard_error : float
    coupling : {"common", "turned", "assigned", "given"}
        The chosen coupling, or the one passed as a function.
    pilot : dict of str to float
        Mean cost of each coupling on the pilot roll-outs; empty for a coupling passed as a function.
    n_rollouts : int
        Number of roll-outs behind `bound`.

    Examples
    --------
    >>> bound = SimulatedUpper(0.5, 0.01, "common", {}, 100)
    >>> bound
    SimulatedUpper(0.5 with standard error 0.01, common noise, 100 roll-outs)
    >>> [round(end, 3) for end in bound.interval(0.9)]
    [0.483, 0.517, 0.9]
    """

    bound: float
    standard_error: float
    coupling: str
    pilot: dict[str, float]
    n_rollouts: int

    def __float__(self) -> float:
        return self.bound

    def interval(self, confidence: float = 0.9) -> ConfidenceInterval:
        """Student's interval for the cost of the coupling.

        The distance is at most that cost, so the upper end bounds it with the confidence (1 + `confidence`) / 2.
        """
        from scipy.special import stdtrit

        check_confidence(confidence)
        reach = float(stdtrit(self.n_rollouts - 1, 0.5 + 0.5 * confidence)) * self.standard_error
        return ConfidenceInterval(self.bound - reach, self.bound + reach, float(confidence))

    def __repr__(self) -> str:
        return (
            f"SimulatedUpper({self.bound:.4g} with standard error {self.standard_error:.2g}, {self.coupling} noise, "
            f"{self.n_rollouts} roll-outs)"
        )

    def _repr_html_(self) -> str:
        tried = ", ".join(f"{name} {value:.4g}" for name, value in self.pilot.items()) or "only this one"
        return card(
            "SimulatedUpper",
            [
                ("upper bound", f"{self.bound:.4g}"),
                ("standard error", f"{self.standard_error:.2g}"),
                ("coupling", self.coupling),
                ("tried", tried),
                ("roll-outs", f"{self.n_rollouts:,}"),
            ],
        )


class _Game(NamedTuple):
    """The two simulators, x first, and the cost."""

    reset: Simulators
    step: Simulators
    cost: Callable[[Floats, Floats], Floats]
    discount: float
    n_draws: int
    turn: Floats | None = None
    coupling: Callable[[Floats, Floats], Any] | None = None
    n_noise: int | None = None


def simulated_upper(
    reset: Simulators,
    step: Simulators,
    cost: PairCost = "euclidean",
    *,
    discount: float,
    n_rollouts: int = 1000,
    n_draws: int = 8,
    rng: int | Rng | None = None,
    coupling: Callable[[Floats, Floats], Any] | None = None,
    n_noise: int | None = None,
) -> SimulatedUpper:
    """Measure an upper bound of the distance between two simulators of real vectors.

    It is tight if both simulators use their noise in the same way; otherwise it is loose but still valid.

    Parameters
    ----------
    reset : pair of callables
        For x and y: ``reset(n, rng)`` returns n initial states, (n, d).
    step : pair of callables
        ``step(states, rng)`` returns the next states, (n, d). All randomness must come from `rng`, and the function
        must be stateless. With `coupling`: ``step(states, noise)``, with standard normal noise of shape (n, n_noise).
    cost : {"euclidean", "sqeuclidean"} or callable
        A function takes two arrays (..., d) and returns (...).
    discount : float
    n_rollouts : int
        Number of roll-outs for the bound; additional pilot roll-outs, a quarter as many, choose the coupling.
    n_draws : int
        Number of successors that are matched.
    rng : None, int or Generator
    coupling : callable, optional
        ``coupling(x, y)`` returns an orthogonal matrix for each pair of states, (n, n_noise, n_noise), or one for all:
        y gets the noise of x multiplied by it, and initial states come from common random numbers. Any such function
        gives an upper bound; `somcot.torch.NoiseCoupling` learns one. By default the three couplings above are tried.
    n_noise : int, optional
        Number of normal variables in a step, with `coupling`; by default that of the coordinates.

    Examples
    --------
    >>> def begin(n, rng):
    ...     return rng.standard_normal((n, 1))
    >>> def walk(x, rng):
    ...     return 0.6 * x + 0.5 * rng.standard_normal(x.shape)
    >>> upper = simulated_upper((begin, begin), (walk, walk), discount=0.9, n_rollouts=100, n_draws=2, rng=0)
    >>> upper.bound
    0.0

    y uses its noise with the opposite sign, which the coupling undoes:

    >>> steps = (lambda x, noise: 0.6 * x + 0.5 * noise, lambda y, noise: 0.6 * y - 0.5 * noise)
    >>> turned = simulated_upper((begin, begin), steps, discount=0.9, rng=0, coupling=lambda x, y: [[-1.0]])
    >>> turned.bound, turned.coupling
    (0.0, 'given')
    """
    g = check_discount(discount)
    n = check_count("n_rollouts", n_rollouts, at_least=2, at_most=10**8)
    game = _Game(
        _pair("reset", reset), _pair("step", step), _pair_cost(cost), g, check_count("n_draws", n_draws, at_most=10_000)
    )
    generator = check_rng(rng)
    if coupling is not None:
        return _given(game._replace(coupling=coupling, n_noise=n_noise), n, generator)
    if n_noise is not None:
        raise ValueError(f"n_noise: found {n_noise!r} without coupling; leave it out, or pass coupling")
    # The rotation depends on separate simulations, made before
    # the pilot, so the measured roll-outs are independent of it.
    turn = _best_turn(game, generator)
    game = game._replace(turn=turn)
    names = [name for name in COUPLINGS if name != "turned" or turn is not None]
    # At least two, so that the choice does not rest on a single roll-out.
    few = max(2, int(_PILOT * n))
    pilot = {name: float(_rolled(game, name, few, generator).mean()) for name in names}
    best = min(names, key=lambda name: pilot[name])
    values = _rolled(game, best, n, generator)
    return SimulatedUpper(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n)), best, pilot, n)


def _given(game: _Game, n: int, rng: Rng) -> SimulatedUpper:
    """The cost of the user's coupling."""
    if not callable(game.coupling):
        raise TypeError(f"coupling: found {game.coupling!r}, expected a function of the states of x and y")
    if game.n_noise is not None:
        check_count("n_noise", game.n_noise)
    values = _rolled(game, "given", n, rng)
    return SimulatedUpper(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n)), "given", {}, n)


def _rolled(game: _Game, coupling: str, n: int, rng: Rng) -> Floats:
    """The discounted cost of each of n roll-outs."""
    g = game.discount
    # Number of steps after which the remaining discounted weight is `_LATE`.
    late = int(np.ceil(np.log(_LATE) / np.log(g)))
    # A geometric time with parameter 1 - g has the weights (1 - g) g^s of the remainder: one cost at that time, times
    # g^late, is an unbiased estimate of the rest of the sum.
    last = late + rng.geometric(1.0 - g, n) - 1
    total, alive = np.zeros(n), np.arange(n)
    advance = {"assigned": _assigned, "given": _rotated}.get(coupling, _common)
    turn = game.turn if coupling == "turned" else None
    x, y = advance(game, None, n, turn, rng)
    for t in range(int(last.max()) + 1):
        costs = game.cost(x, y)
        total[alive] += (1.0 - g) * g**t * costs if t < late else np.where(last[alive] == t, g**late * costs, 0.0)
        # Roll-outs end at different times; those that have ended are dropped from the arrays.
        keep = last[alive] > t
        alive, x, y = alive[keep], x[keep], y[keep]
        if not len(alive):
            break
        x, y = advance(game, (x, y), len(alive), turn, rng)
    return total


def _common(
    game: _Game, now: tuple[Floats, Floats] | None, n: int, turn: Floats | None, rng: Rng
) -> tuple[Floats, Floats]:
    """Successors of each pair from the same noise, or n pairs of initial states."""
    seed = int(rng.integers(_LARGEST_SEED))
    # A seed for each step: two generators from it yield the same noise, however many numbers a simulator draws.
    return _call(game, 0, now, n, np.random.default_rng(seed)), _call(game, 1, now, n, _generator(seed, turn))


def _rotated(
    game: _Game, now: tuple[Floats, Floats] | None, n: int, turn: Floats | None, rng: Rng
) -> tuple[Floats, Floats]:
    """Successors of each pair from explicit noise, which the coupling turns for y."""
    if now is None:
        return _common(game, None, n, None, rng)
    e = rng.standard_normal((n, game.n_noise or now[0].shape[1]))
    R = _orthogonal(game, now, *e.shape)
    return _call(game, 0, now, n, e), _call(game, 1, now, n, np.einsum("nij,nj->ni", R, e))


def _orthogonal(game: _Game, now: tuple[Floats, Floats], n: int, k: int) -> Floats:
    """The matrices of the coupling; anything that is not orthogonal would change the distribution of y."""
    assert game.coupling is not None
    R = np.asarray(game.coupling(*now), dtype=np.float64)
    if R.shape not in ((k, k), (n, k, k)):
        raise ValueError(f"coupling: returned shape {R.shape}, expected ({n}, {k}, {k}) or ({k}, {k})")
    R = np.broadcast_to(R, (n, k, k))
    off = float(np.abs(R @ R.transpose(0, 2, 1) - np.eye(k)).max())
    if not off <= _ORTHOGONAL:  # NaN as well
        raise ValueError(
            f"coupling: R R' differs from the identity by {off:.2g}, expected at most {_ORTHOGONAL:g}; return "
            "orthogonal matrices, in double precision"
        )
    return R


def _assigned(
    game: _Game, now: tuple[Floats, Floats] | None, n: int, turn: Floats | None, rng: Rng
) -> tuple[Floats, Floats]:
    """One of the matched pairs of successors, at random."""
    from scipy.optimize import linear_sum_assignment

    drawn = [_common(game, now, n, turn, rng) for _ in range(game.n_draws)]
    xs, ys = (np.stack([pair[side] for pair in drawn], axis=1) for side in (0, 1))
    costs = game.cost(xs[:, :, None, :], ys[:, None, :, :])
    # Drawn after the successors, so that it cannot depend on them.
    chosen = _choice(n, game.n_draws, rng)
    partner = np.array([linear_sum_assignment(table)[1][i] for table, i in zip(costs, chosen, strict=True)])
    rows = np.arange(n)
    return xs[rows, chosen], ys[rows, partner]


def _choice(n: int, n_draws: int, rng: Rng) -> Ints:
    """Index of the matched pair to use: uniform and independent of the draws."""
    return rng.integers(n_draws, size=n)


class _NoiseTurn(np.random.Generator):
    """A generator whose normal vectors are rotated, which preserves their distribution."""

    def __init__(self, seed: int, turn: Floats) -> None:
        super().__init__(np.random.default_rng(seed).bit_generator)
        self.turn = turn

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        # Only whole vectors are rotated. Scalars and other shapes stay as they are, which is still a valid coupling.
        drawn = super().standard_normal(size, dtype, out)
        if out is None and np.ndim(drawn) and np.shape(drawn)[-1] == len(self.turn):
            return drawn @ self.turn.T
        return drawn

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        # `Generator.normal` does not call `standard_normal`; without this override its noise would not be rotated.
        shape = np.broadcast_shapes(np.shape(loc), np.shape(scale)) if size is None else size
        return loc + scale * self.standard_normal(shape or None)


class _Recorded(np.random.Generator):
    """A generator that records the normal numbers it returned."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.default_rng(seed).bit_generator)
        self.drawn: list[Any] = []

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        self.drawn.append(super().standard_normal(size, dtype, out))
        return self.drawn[-1]

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        shape = np.broadcast_shapes(np.shape(loc), np.shape(scale)) if size is None else size
        return loc + scale * self.standard_normal(shape or None)


def explicit_turn(reset: Simulators, step: Simulators, n_noise: int, discount: float, rng: Rng) -> Floats | None:
    """The optimal rotation for linear models of simulators with explicit noise; None if these are not stable."""
    game = _Game(_pair("reset", reset), _pair("step", step), _pair_cost("euclidean"), discount, 1, n_noise=n_noise)
    return _best_turn(game, rng)


def _best_turn(game: _Game, rng: Rng) -> Floats | None:
    """The optimal rotation for linear models of both sides; None if a step does not draw one normal vector."""
    of_x, of_y = _linear(game, 0, rng), _linear(game, 1, rng)
    if of_x is None or of_y is None or of_x[1].shape != of_y[1].shape:
        return None
    (A, S), (B, R) = of_x, of_y
    # The discounted second moments of a linear model exist only if discount * (spectral radius)^2 < 1.
    if game.discount * max(np.abs(np.linalg.eigvals(M)).max() for M in (A, B)) ** 2 >= 1.0:
        return None
    # An orthogonal Procrustes problem: the rotation that maximises the trace of S' M R Q, from the SVD.
    U, _, Zt = np.linalg.svd(S.T @ cross(A, B, game.discount) @ R)
    return np.asarray(Zt.T @ U.T)


def _linear(game: _Game, side: int, rng: Rng, n: int = 200, n_steps: int = 20) -> tuple[Floats, Floats] | None:
    """A and S of x' = A x + a + S e by least squares, from recorded noise e of the simulator."""
    states = _call(game, side, None, n, np.random.default_rng(int(rng.integers(_LARGEST_SEED))))
    rows, results = [], []
    for _ in range(n_steps):
        generator = _Recorded(int(rng.integers(_LARGEST_SEED)))
        explicit = generator if game.n_noise is None else generator.standard_normal((n, game.n_noise))
        following = _call(game, side, (states, states), n, explicit)
        # The noise must be one (n, k) array of normals per step; otherwise its role in the step cannot be regressed.
        if len(generator.drawn) != 1 or np.shape(generator.drawn[0])[:-1] != (n,):
            return None
        rows.append(np.hstack([states, generator.drawn[0], np.ones((n, 1))]))
        results.append(following)
        states = following
    coefficients = np.linalg.lstsq(np.concatenate(rows), np.concatenate(results), rcond=None)[0].T
    d = states.shape[1]
    return coefficients[:, :d], coefficients[:, d:-1]


def _call(game: _Game, side: int, now: tuple[Floats, Floats] | None, n: int, rng: Any) -> Floats:
    """Checked states of one simulator: initial states, or the successors of `now`; `rng` may be explicit noise."""
    name, output = ("reset", game.reset[side](n, rng)) if now is None else ("step", game.step[side](now[side], rng))
    states = np.asarray(output, dtype=np.float64)
    expected = f"({n}, d)" if now is None else str(now[side].shape)
    if states.ndim != 2 or len(states) != n or (now is not None and states.shape != now[side].shape):
        raise ValueError(f"{name}[{side}]: returned shape {states.shape}, expected {expected}")
    if not np.isfinite(states).all():
        raise ValueError(f"{name}[{side}]: returned a state that is not finite")
    return states


def _generator(seed: int, turn: Floats | None) -> Rng:
    return np.random.default_rng(seed) if turn is None else _NoiseTurn(seed, turn)


def _pair(name: str, functions: object) -> Simulators:
    if not (isinstance(functions, (tuple, list)) and len(functions) == 2 and all(map(callable, functions))):
        raise TypeError(f"{name}: found {functions!r}, expected a pair of callables, that of x and that of y")
    return functions[0], functions[1]


def _pair_cost(cost: PairCost) -> Callable[[Floats, Floats], Floats]:
    def squares(a: Floats, b: Floats) -> Floats:
        if a.shape[-1] != b.shape[-1]:
            raise ValueError(f"reset: states of x have {a.shape[-1]} coordinates and those of y {b.shape[-1]}")
        return np.asarray(np.square(a - b).sum(axis=-1))

    if callable(cost):
        return lambda a, b: np.asarray(cost(a, b), dtype=np.float64)
    if check_text("cost", cost) not in ("euclidean", "sqeuclidean"):
        raise ValueError(f"cost: found {cost!r}, expected 'euclidean', 'sqeuclidean' or a function of two arrays")
    return squares if cost == "sqeuclidean" else lambda a, b: np.sqrt(squares(a, b))
