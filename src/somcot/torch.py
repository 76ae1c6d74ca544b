"""The distance as a loss in PyTorch: exact values, exact derivatives, no parameters to tune.

>>> import torch, somcot.torch
>>> logits = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
>>> target = torch.tensor([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]], dtype=torch.float64)
>>> reward = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
>>> cost = (reward[:, None] - reward[None, :]).abs()
>>> loss = somcot.torch.distance(logits.softmax(-1), target, cost, 0.9)
>>> loss.backward()
>>> round(loss.item(), 6), bool(logits.grad.abs().max() > 0)
(0.58087, True)
>>> somcot.torch.metric(target, target, cost, 0.9).shape
torch.Size([3, 3])

Kernels and initial distributions are typically outputs of a softmax; they are normalised in float64 for every dtype.
Initial distributions are uniform by default, unlike those of `MarkovChain`, because unvisited states would have
derivative 0. All computations run on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from somcot.core.simulated_bound import Simulators, explicit_turn
from somcot.gradients import NAMES, NDIMS, ArraySolution, Inputs, WarmStart, check_shapes, solve_arrays
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count, check_discount, check_positive, check_rng, check_text, real_array

try:
    import torch
    from torch import Tensor
    from torch.autograd.function import FunctionCtx

    from somcot.abstraction import StateAbstraction
except ImportError:
    raise ImportError("somcot.torch needs PyTorch: pip install torch") from None

__all__ = ["DistanceLoss", "NoiseCoupling", "RunningKernel", "StateAbstraction", "WarmStart", "distance", "metric"]


_LOW = (torch.float16, torch.bfloat16)
_LATE = 0.05  # discounted weight that roll-outs of training leave out
_COMPARED = 256  # roll-outs on which what was learned is compared with the start


def distance(
    P_x: Tensor,
    P_y: Tensor,
    cost: Tensor,
    discount: Tensor | float,
    initial_x: Tensor | None = None,
    initial_y: Tensor | None = None,
    *,
    warm: WarmStart | None = None,
    threads: int | None = None,
) -> Tensor:
    """The exact distance between two chains, differentiable in all of its arguments.

    Parameters
    ----------
    P_x, P_y : Tensor, shape ([batch,] n_x, n_x) and ([batch,] n_y, n_y)
        Transition kernels. A leading axis on any argument makes a batch, which is solved in one call.
    cost : Tensor, shape ([batch,] n_x, n_y)
    discount : float or Tensor, shape ([batch])
    initial_x, initial_y : Tensor, shape ([batch,] n_x) and ([batch,] n_y), optional
        Initial distributions, uniform by default.
    warm : WarmStart, optional
        Warm start from the previous call; see `WarmStart`.
    threads : int, optional
        By default one per core; the result does not depend on it.

    Returns
    -------
    Tensor, shape () or (batch,)
        Second derivatives (``create_graph=True``) exist if the optimal coupling is unique and its support is stable
        under small changes. Otherwise, and for a discount that requires a gradient, they raise an error.
    """
    tensors = _tensors(P_x, P_y, cost, discount, initial_x, initial_y)
    return _Distance.apply(_Kept(), warm, threads, *tensors)


def metric(
    P_x: Tensor, P_y: Tensor, cost: Tensor, discount: Tensor | float, *, warm: WarmStart | None = None,
    threads: int | None = None,
) -> Tensor:  # fmt: skip
    """The exact distance from every pair of initial states, ([batch,] n_x, n_y); arguments as for `distance`.

    First derivatives only. Entries equal to the minimal cost, their lower bound, have derivative 0 in the kernels.
    """
    return _Metric.apply(_Kept(), warm, threads, *_tensors(P_x, P_y, cost, discount, None, None))


class DistanceLoss(torch.nn.Module):  # type: ignore[misc]
    """The distance as a module; each call is warm-started from the previous one.

    Parameters
    ----------
    discount : float or Parameter
    cost : Tensor or Parameter, optional
        The cost, unless it is passed with each call.
    reduction : {"mean", "sum", "none"}
        Reduction over a batch.
    threads : int, optional

    Examples
    --------
    >>> loss = DistanceLoss(discount=0.9, cost=1 - torch.eye(2))
    >>> loss(torch.tensor([[0.9, 0.1], [0.1, 0.9]]), torch.tensor([[0.5, 0.5], [0.1, 0.9]])).item()
    0.28125
    """

    cost: Tensor

    def __init__(
        self,
        *,
        discount: Tensor | float,
        cost: Tensor | None = None,
        reduction: str = "mean",
        threads: int | None = None,
    ) -> None:
        super().__init__()
        check_text("reduction", reduction, "mean", "sum", "none")
        self.discount, self.reduction, self.threads = discount, reduction, threads
        if cost is None or isinstance(cost, torch.nn.Parameter):
            self.cost = cost
        else:
            # A buffer moves with the module between devices, but is not saved: it is data, not a parameter.
            table = cost if isinstance(cost, Tensor) else torch.as_tensor(real_array("cost", cost, 2))
            self.register_buffer("cost", table, persistent=False)
        # One warm start per loss term: another problem of the same shape would spoil it.
        self.warm = WarmStart()

    def forward(
        self,
        P_x: Tensor,
        P_y: Tensor,
        cost: Tensor | None = None,
        initial_x: Tensor | None = None,
        initial_y: Tensor | None = None,
    ) -> Tensor:
        """The distance, reduced over a batch according to `reduction`."""
        table = self.cost if cost is None else cost
        if table is None:
            raise ValueError("cost: found none, expected one in DistanceLoss(cost=...) or in this call")
        loss = distance(P_x, P_y, table, self.discount, initial_x, initial_y, warm=self.warm, threads=self.threads)
        return loss if self.reduction == "none" else getattr(loss, self.reduction)()


class RunningKernel(torch.nn.Module):  # type: ignore[misc]
    """A kernel estimated from transition counts accumulated over minibatches.

    The kernel of a single minibatch is so noisy that gradients of the distance are biased: with 10 visits per state
    the mean gradient has cosine 0.6 with the true one, and with 1,000 visits 0.93. Accumulated counts remove this bias.
    With soft labels, the gradient flows through those of the latest minibatch.

    Parameters
    ----------
    n_states : int
    prior : float
        Added to every count, so that the rows of unvisited states are defined (uniform).
    forget : float
        Share of the counts that each minibatch replaces, for codes of an encoder in training; 0 keeps all.
    half_life : float, optional
        Instead of `forget`: transitions after which a count weighs half as much, as for ``method="somcot"``.

    Examples
    --------
    >>> running = RunningKernel(2, prior=0.0)
    >>> running.add(torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 0]))
    tensor([[0.6667, 0.3333],
            [1.0000, 0.0000]], dtype=torch.float64)
    >>> running.kernel()[1]
    tensor([1., 0.], dtype=torch.float64)
    """

    counts: Tensor

    def __init__(
        self, n_states: int, *, prior: float = 0.05, forget: float = 0.0, half_life: float | None = None
    ) -> None:
        super().__init__()
        if half_life is not None:
            check_positive("half_life", half_life)
            if forget:
                raise ValueError("half_life: found with forget; give one of them")
        if not 0.0 <= forget < 1.0:
            raise ValueError(f"forget: found {forget}, expected a share of at least 0 and below 1")
        if not 0.0 <= prior < float("inf"):
            raise ValueError(f"prior: found {prior}, expected a number of at least 0")
        check_count("n_states", n_states, at_most=1 << 20)
        self.prior, self.forget, self.half_life = prior, forget, half_life
        self.register_buffer("counts", torch.zeros(n_states, n_states, dtype=torch.float64))

    def add(self, now: Tensor, following: Tensor) -> Tensor:
        """Count the transitions of a minibatch and return the kernel of all counts.

        Parameters
        ----------
        now, following : Tensor, shape (n,) of int or (n, n_states) of float
            States and their successors, or a distribution over states for each.
        """
        first, second = self._soft("now", now), self._soft("following", following)
        if len(first) != len(second):
            raise ValueError(f"following: found {len(second)} states, expected {len(first)}, one for each of now")
        # Expected counts: soft labels contribute products of their probabilities.
        fresh = first.T @ second
        # Each minibatch counts as many transitions as it has, whatever their number.
        kept = 1.0 - self.forget if self.half_life is None else 0.5 ** (len(now) / self.half_life)
        total = kept * self.counts + fresh
        # Detached: old minibatches must not keep their graphs alive.
        self.counts = total.detach()
        return self._rows(total)

    def forward(self, now: Tensor, following: Tensor) -> Tensor:
        """Alias of `add`."""
        return self.add(now, following)

    def kernel(self) -> Tensor:
        """The kernel of all transitions counted so far."""
        return self._rows(self.counts)

    def _rows(self, counts: Tensor) -> Tensor:
        weights = counts + self.prior
        # Without a prior unvisited rows would be 0 / 0.
        sums = weights.sum(-1, keepdim=True)
        if bool((sums == 0).any()):
            state = int((sums == 0).nonzero()[0, 0])
            raise ValueError(f"state {state} has no transitions yet; use a prior above 0, or request the kernel later")
        return weights / sums

    def _soft(self, name: str, states: Tensor) -> Tensor:
        """One row per transition: a distribution over states."""
        n = len(self.counts)
        if states.dtype.is_floating_point:
            if states.dim() != 2 or states.shape[1] != n:
                raise ValueError(f"{name}: shape is {tuple(states.shape)}, expected (transitions, {n}) for soft labels")
            if not bool(torch.isfinite(states).all()):
                raise ValueError(f"{name}: found entries that are not finite; remove or replace them")
            soft = states.to(self.counts)
            off = ((soft.sum(-1) - 1.0).abs() > n * torch.finfo(states.dtype).eps + 1e-6) | (soft < 0.0).any(-1)
            if bool(off.any()):
                row = int(off.nonzero()[0, 0])
                raise ValueError(
                    f"{name}: row {row} is {[round(v, 3) for v in soft[row].tolist()[:5]]}, expected probabilities "
                    "that sum to 1; take a softmax of logits"
                )
            return soft
        if states.dim() != 1 or states.dtype is torch.bool:
            raise ValueError(f"{name}: found {states.dtype} of shape {tuple(states.shape)}, expected states in one row")
        outside = (states < 0) | (states >= n)
        if bool(outside.any()):
            raise ValueError(f"{name}: found state {int(states[outside][0])}, expected 0 to {n - 1}")
        return torch.nn.functional.one_hot(states.long(), n).to(self.counts)  # an integer is a certain label


class NoiseCoupling(torch.nn.Module):  # type: ignore[misc]
    """A learned coupling of the noise of two simulators: an orthogonal matrix R(x, y) for every pair of states.

    R = (I - K)^-1 (I + K) B (Cayley's form), with a skew-symmetric K(x, y) from a network with one hidden layer and a
    fixed B, which is optimal for linear models of the simulators. `arrays` is the `coupling` of
    `somcot.certificates.simulated_upper`, whose bound is valid whatever has been learned.

    Parameters
    ----------
    n_coordinates, n_noise, width : int
        Of a state, of the normal variables in a step (as many by default, at least 2), and of the hidden units.

    Examples
    --------
    >>> reset = (lambda n, rng: rng.standard_normal((n, 2)),) * 2
    >>> step = (lambda x, noise: 0.8 * x + 0.3 * noise), (lambda y, noise: 0.8 * y - 0.3 * noise)
    >>> learned = NoiseCoupling(2).fit(reset, step, discount=0.9, n_steps=2, rng=0)
    >>> bool(np.allclose(learned.arrays(np.zeros((5, 2)), np.ones((5, 2))), -np.eye(2)))
    True
    """

    def __init__(self, n_coordinates: int, n_noise: int | None = None, *, width: int = 32) -> None:
        super().__init__()
        d = check_count("n_coordinates", n_coordinates)
        self.k = k = check_count("n_noise", d if n_noise is None else n_noise, at_least=2)
        self.register_buffer("base", torch.eye(k, dtype=torch.float64))
        self.register_buffer("strength", torch.ones((), dtype=torch.float64))  # 0 where nothing was learned
        hidden = torch.nn.Linear(2 * d, check_count("width", width), dtype=torch.float64)
        self.skew = torch.nn.Linear(width, k * (k - 1) // 2, dtype=torch.float64)
        self.network = torch.nn.Sequential(hidden, torch.nn.Tanh(), self.skew)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """R(x, y) for each pair of states, (n, n_noise, n_noise)."""
        i, j = torch.tril_indices(self.k, self.k, -1)
        K = torch.zeros(len(x), self.k, self.k, dtype=torch.float64)
        K = K.index_put((torch.arange(len(x))[:, None], i, j), self.network(torch.cat([x, y], dim=1)))
        K, one = self.strength * (K - K.transpose(1, 2)), torch.eye(self.k, dtype=torch.float64)
        return torch.linalg.solve(one - K, one + K) @ self.base  # Cayley transform: always orthogonal

    def arrays(self, x: Floats, y: Floats) -> Floats:
        """`forward` from arrays to an array."""
        with torch.no_grad():  # no graph is needed for evaluation
            return _host(self(torch.as_tensor(x), torch.as_tensor(y)))

    def fit(
        self, reset: Simulators, step: Simulators, cost: str = "euclidean", *, discount: float, n_steps: int = 200,
        batch_size: int = 64, rng: int | np.random.Generator | None = None,
    ) -> NoiseCoupling:  # fmt: skip
        """Train on roll-outs by Adam, through the simulators: `n_steps` batches. Returns the module itself.

        `reset` and `step` are those of `simulated_upper` with `coupling`; steps must take arrays and tensors. Training
        starts from B, and its result is dropped if it costs more than B on other roll-outs.
        """
        g, generator = check_discount(discount), check_rng(rng)
        if cost not in ("euclidean", "sqeuclidean"):
            raise ValueError(f"cost: found {cost!r}, expected 'euclidean' or 'sqeuclidean'")
        for part in self.network[0].parameters():
            part.data = torch.as_tensor(generator.standard_normal(part.shape) / self.network[0].in_features)
        turn = explicit_turn(reset, step, self.k, g, generator)
        self.base = torch.eye(self.k, dtype=torch.float64) if turn is None else torch.as_tensor(turn)
        torch.nn.init.zeros_(self.skew.weight), torch.nn.init.zeros_(self.skew.bias), self.strength.fill_(1.0)
        optimiser = torch.optim.Adam(self.parameters(), 0.01)
        for _ in range(check_count("n_steps", n_steps)):
            optimiser.zero_grad()
            self._rolled(reset, step, cost, g, check_count("batch_size", batch_size), generator).backward()
            torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0)
            optimiser.step()
        seed, costs = int(generator.integers(2**62)), []
        with torch.no_grad():
            for strength in (0.0, 1.0):
                self.strength.fill_(strength)
                costs.append(self._rolled(reset, step, cost, g, _COMPARED, np.random.default_rng(seed)))
            self.strength.fill_(float(costs[1] < costs[0]))
        return self

    def _rolled(self, reset: Any, step: Any, cost: str, g: float, n: int, rng: np.random.Generator) -> Tensor:
        """Mean discounted cost of n roll-outs from common initial states."""
        seed = int(rng.integers(2**62))
        x, y = (torch.as_tensor(begin(n, np.random.default_rng(seed))).to(torch.float64) for begin in reset)
        total = torch.zeros((), dtype=torch.float64)
        for t in range(int(np.ceil(np.log(_LATE) / np.log(max(g, 1e-9)))) + 1):
            squares = (x - y).square().sum(dim=1)
            # The root has no derivative at 0, which pairs that have met reach.
            costs = squares if cost == "sqeuclidean" else (squares + 1e-12).sqrt()
            total = total + (1.0 - g) * g**t * costs.mean()
            e = torch.as_tensor(rng.standard_normal((n, self.k)))
            x, y = step[0](x, e), step[1](y, (self(x, y) @ e[:, :, None])[:, :, 0])
        return total


class _Kept:
    """Receives the solution: with `setup_context`, which `torch.func` requires, `forward` has no context for it."""

    solution: ArraySolution


class _Distance(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(kept: _Kept, warm: WarmStart | None, threads: int | None, *tensors: Tensor) -> Tensor:
        kept.solution = _solved(tensors, warm, threads)
        return _as_result(kept.solution.value, tensors)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.kept = inputs[0]
        ctx.save_for_backward(*inputs[3:])

    @staticmethod
    def backward(ctx: FunctionCtx, weight: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, None, *_Slope.apply(ctx.kept.solution, weight, *ctx.saved_tensors)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        tensors, unflatten = _in_front(info, in_dims[3:], inputs[3:], NDIMS)
        return unflatten(_Distance.apply(*inputs[:3], *tensors)), 0


class _Slope(torch.autograd.Function):  # type: ignore[misc]
    """Weights times derivatives of distances; a separate function, so that it can be differentiated again."""

    @staticmethod
    def forward(solution: ArraySolution, weight: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(_broadcast(weight, t) * _like(part, t) for part, t in zip(solution.gradient, tensors, strict=True))

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.solution = inputs[0]
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: FunctionCtx, *along: Tensor) -> tuple[Tensor | None, ...]:
        weight, *tensors = ctx.saved_tensors
        if tensors[NAMES.index("discount")].requires_grad:
            raise RuntimeError(
                "discount: second derivatives with a discount that requires a gradient are not available; detach it"
            )
        # Positions 4 and 5 are the initial distributions; ties in them do not matter if they are fixed.
        if not ctx.solution.is_smooth(starts=tensors[4].requires_grad or tensors[5].requires_grad):
            raise RuntimeError(
                "the distance has no second derivative here: the optimal coupling is not unique, or not stable under "
                "small changes; see gradient.margin of somcot.distance"
            )
        by_weight = sum(
            # Sum over the axes of one problem; the batch axis stays.
            (_like(part, t) * a).flatten(weight.dim()).sum(-1) if t.dim() > weight.dim() else _like(part, t) * a
            for part, t, a in zip(ctx.solution.gradient, tensors, along, strict=True)
        )
        # The derivative of the gradient in the discount is not available, and was refused above.
        curved = ctx.solution.second(Inputs(*map(_host, along)))._replace(discount=np.zeros(weight.shape))
        bent = (_broadcast(weight, t) * _like(part, t) for part, t in zip(curved, tensors, strict=True))
        return None, by_weight.to(weight), *bent

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return _slopes(_Slope.apply, info, in_dims, inputs, (0, *NDIMS)), (0,) * len(NDIMS)


class _Metric(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(kept: _Kept, warm: WarmStart | None, threads: int | None, *tensors: Tensor) -> Tensor:
        kept.solution = _solved(tensors, warm, threads)
        return _as_result(kept.solution.metric, tensors)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.kept = inputs[0]
        ctx.save_for_backward(*inputs[3:])

    @staticmethod
    def backward(ctx: FunctionCtx, weight: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, None, *_MetricSlope.apply(ctx.kept.solution, weight, *ctx.saved_tensors)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        tensors, unflatten = _in_front(info, in_dims[3:], inputs[3:], NDIMS)
        return unflatten(_Metric.apply(*inputs[:3], *tensors)), 0


class _MetricSlope(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(solution: ArraySolution, weight: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        derivatives = solution.metric_gradient(_host(weight))
        return tuple(_like(part, t) for part, t in zip(derivatives, tensors, strict=True))

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: FunctionCtx, *along: Tensor) -> tuple[Tensor | None, ...]:
        raise RuntimeError("metric: second derivatives are not available; somcot.torch.distance has them")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return _slopes(_MetricSlope.apply, info, in_dims, inputs, (2, *NDIMS)), (0,) * len(NDIMS)


def _slopes(
    apply: Callable[..., tuple[Tensor, ...]], info: Any, in_dims: tuple[int | None, ...], inputs: tuple[Any, ...],
    sizes: tuple[int, ...],
) -> tuple[Tensor, ...]:  # fmt: skip
    """Derivatives under `torch.func.vmap`, of many problems or, as in a Jacobian, of one for many weights."""
    solution, weight, *tensors = inputs
    if all(axis is None for axis in in_dims[2:]):
        parts = [apply(solution, w, *tensors) for w in weight.movedim(in_dims[1], 0)]
        return tuple(map(torch.stack, zip(*parts, strict=True)))
    moved, unflatten = _in_front(info, in_dims[1:], inputs[1:], sizes)
    return tuple(map(unflatten, apply(solution, *moved)))


def _in_front(
    info: Any, in_dims: tuple[int | None, ...], tensors: tuple[Tensor, ...], sizes: tuple[int, ...]
) -> tuple[list[Tensor], Callable[[Tensor], Tensor]]:
    """Tensors with the axis of `torch.func.vmap` in front, joined with the axis of a batch; and its inverse.

    `sizes` are the numbers of axes of one problem.
    """
    n = info.batch_size
    moved = [t.expand(n, *t.shape) if k is None else t.movedim(k, 0) for t, k in zip(tensors, in_dims, strict=True)]
    if moved[0].dim() == 1 + sizes[0]:
        return moved, lambda t: t
    return [t.flatten(0, 1) for t in moved], lambda t: t.unflatten(0, (n, -1))


def _tensors(*values: object) -> list[Tensor]:
    """All arguments as floating-point tensors on one device, with at most one leading axis."""
    # The first tensor decides the device.
    known = next((value for value in values if isinstance(value, torch.Tensor)), torch.zeros(()))
    tensors = [_tensor(name, value, known) for name, value in zip(NAMES[:4], values, strict=False)]
    # Uniform: every state is visited, so no derivative is 0 for lack of visits.
    for kernel, start in zip(tensors[:2], values[4:], strict=True):
        n = kernel.shape[-1] if kernel.dim() else 1
        # In float64: the dtype of the result does not depend on it.
        uniform = torch.full((n,), 1.0 / max(n, 1), dtype=torch.float64, device=known.device)
        tensors.append(uniform if start is None else _tensor(NAMES[len(tensors)], start, known))
    lead = check_shapes([tuple(t.shape) for t in tensors])
    if len(lead) > 1:
        raise ValueError(f"leading axes are {lead}, expected one at most; flatten them before and unflatten after")
    # Expanded here, so that autograd sums the derivatives of broadcast arguments.
    return [t.expand((*lead, *t.shape[t.dim() - k :])) for t, k in zip(tensors, NDIMS, strict=True)]


def _tensor(name: str, value: object, known: Tensor) -> Tensor:
    if not isinstance(value, torch.Tensor):
        try:
            return torch.as_tensor(np.asarray(value, dtype=np.float64), device=known.device)
        except (TypeError, ValueError):
            raise TypeError(f"{name}: found {type(value).__name__}, expected a tensor or an array of numbers") from None
    if not value.dtype.is_floating_point:
        raise TypeError(f"{name}: found a tensor of {value.dtype}, expected floating point; call .double() on it")
    if value.device != known.device:
        raise ValueError(f"{name}: found a tensor on {value.device}, others are on {known.device}; move it there")
    if value.is_meta:
        raise ValueError(f"{name}: found a tensor on the meta device, which holds no numbers")
    return _full_precision(name, value) if value.dtype in _LOW else value


def _full_precision(name: str, value: Tensor) -> Tensor:
    """Single precision for half types, as under autocast; rows that sum to 1 up to their rounding are normalised."""
    wide = value.float()
    if name not in ("P_x", "P_y", "initial_x", "initial_y"):
        return wide
    sums = wide.sum(-1, keepdim=True)
    slack = torch.finfo(value.dtype).eps
    return torch.where((sums - 1.0).abs() <= slack, wide / sums, wide)


def _solved(tensors: tuple[Tensor, ...], warm: WarmStart | None, threads: int | None) -> ArraySolution:
    return solve_arrays(tuple(map(_host, tensors)), warm, threads)


def _host(tensor: Tensor) -> Floats:
    return np.asarray(tensor.detach().to("cpu", torch.float64).numpy())


def _as_result(value: object, tensors: tuple[Tensor, ...]) -> Tensor:
    """Convert to the common dtype and device of kernels and cost."""
    # The dtype of kernels and cost decides; a Python discount does not promote float32.
    dtype = torch.promote_types(torch.promote_types(tensors[0].dtype, tensors[1].dtype), tensors[2].dtype)
    return torch.as_tensor(value).to(tensors[0].device, dtype)


def _like(part: object, tensor: Tensor) -> Tensor:
    return torch.as_tensor(np.ascontiguousarray(part)).to(tensor.device, tensor.dtype)


def _broadcast(weight: Tensor, tensor: Tensor) -> Tensor:
    """Reshape the weights of the problems to broadcast against a tensor."""
    return weight.to(tensor.dtype).reshape(weight.shape + (1,) * (tensor.dim() - weight.dim()))
