"""The distance as a loss in JAX: exact values and first derivatives, under `jit`, `vmap` and `grad`.

>>> import jax, jax.numpy as jnp, somcot.jax
>>> target = jnp.array([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]])
>>> reward = jnp.array([1.0, 0.0, -1.0])
>>> cost = jnp.abs(reward[:, None] - reward[None, :])
>>> def loss(logits):
...     return somcot.jax.distance(jax.nn.softmax(logits), target, cost, 0.9)
>>> value, slope = jax.jit(jax.value_and_grad(loss))(jnp.zeros((3, 3)))
>>> round(float(value), 5), bool(jnp.abs(slope).max() > 0)
(0.58087, True)
>>> somcot.jax.metric(target, target, cost, 0.9).shape
(3, 3)

Computations run on the host in float64 for every dtype; enable ``jax_enable_x64`` to get results in double precision.
Initial distributions are uniform by default, unlike those of `MarkovChain`, because unvisited states would have
derivative 0. Warm starts are not available, since jitted functions are stateless. Invalid values (rows that do not sum
to 1, NaN) raise errors, wrapped in JAX's own, when the compiled function runs; invalid shapes when it is traced.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from somcot.gradients import NAMES, NDIMS, Inputs, check_arrays, check_shapes, solve_arrays
from somcot.plumbing.arrays import Floats

try:
    import jax
    import jax.numpy as jnp
    from jax import Array
    from jax.typing import ArrayLike
except ImportError:
    raise ImportError("somcot.jax needs JAX: pip install jax") from None

__all__ = ["distance", "metric"]


def distance(
    P_x: ArrayLike, P_y: ArrayLike, cost: ArrayLike, discount: ArrayLike,
    initial_x: ArrayLike | None = None, initial_y: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The exact distance between two chains, differentiable in all of its arguments.

    Parameters
    ----------
    P_x, P_y : Array, shape ([batch,] n_x, n_x) and ([batch,] n_y, n_y)
        Transition kernels. A leading axis on any argument makes a batch; `jax.vmap` does the same.
    cost : Array, shape ([batch,] n_x, n_y)
    discount : float or Array, shape ([batch])
    initial_x, initial_y : Array, shape ([batch,] n_x) and ([batch,] n_y), optional
        Initial distributions, uniform by default.

    Returns
    -------
    Array, shape () or (batch,)
        First derivatives, in reverse (`grad`, `vjp`) and forward mode (`jvp`, `jacfwd`). Second derivatives raise an
        error; `somcot.torch.distance` has them.
    """
    return _batched(_distance, _arrays(P_x, P_y, cost, discount, initial_x, initial_y))


def metric(P_x: ArrayLike, P_y: ArrayLike, cost: ArrayLike, discount: ArrayLike) -> Array:
    """The exact distance from every pair of initial states, ([batch,] n_x, n_y); arguments as for `distance`.

    First derivatives in reverse mode only.
    """
    return _batched(_metric, _arrays(P_x, P_y, cost, discount, None, None))


def _arrays(*values: ArrayLike | None) -> list[Array]:
    arrays = [_array(name, value) for name, value in zip(NAMES[:4], values, strict=False)]
    # As for PyTorch, kernels and cost decide the dtype.
    dtype = jnp.result_type(*arrays[:3])
    for kernel, start in zip(arrays[:2], values[4:], strict=True):
        n = kernel.shape[-1] if kernel.ndim else 1
        arrays.append(jnp.full((n,), 1.0 / max(n, 1), dtype) if start is None else _array(NAMES[len(arrays)], start))
    lead = check_shapes([a.shape for a in arrays])
    if len(lead) > 1:
        raise ValueError(f"leading axes are {lead}, expected one at most; use jax.vmap for more")
    # Traced values are unknown here; they are checked on the host when the function runs.
    if not any(isinstance(a, jax.core.Tracer) for a in arrays):
        check_arrays(tuple(np.asarray(a, dtype=np.float64) for a in arrays))  # errors on the host get wrapped
    return [a.astype(dtype) for a in arrays]


def _array(name: str, value: ArrayLike) -> Array:
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: found {type(value).__name__}, expected an array of numbers") from None
    if not jnp.issubdtype(array.dtype, jnp.floating):
        if isinstance(value, (jax.Array, np.ndarray)):
            raise TypeError(f"{name}: found an array of {array.dtype}, expected floating point; call .astype(float)")
        array = array.astype(float)  # Python numbers and lists of integers are accepted
    return _full_precision(name, array) if jnp.finfo(array.dtype).bits < 32 else array


def _full_precision(name: str, value: Array) -> Array:
    """As for PyTorch: single precision for half types; rows that sum to 1 up to their rounding are normalised."""
    wide = value.astype(jnp.float32)
    if name not in ("P_x", "P_y", "initial_x", "initial_y"):
        return wide
    sums = wide.sum(-1, keepdims=True)
    return jnp.where(jnp.abs(sums - 1.0) <= jnp.finfo(value.dtype).eps, wide / sums, wide)


def _batched(function: Callable[..., Array], arrays: list[Array]) -> Array:
    # `vmap` over the arguments that have a leading axis; the others are shared.
    axes = tuple(0 if a.ndim > k else None for a, k in zip(arrays, NDIMS, strict=True))
    return function(*arrays) if axes == (None,) * 6 else jax.vmap(function, in_axes=axes)(*arrays)


def _host(question: str, *arrays: Array) -> Floats | tuple[Floats, ...]:
    """Compute "value", "gradient" or "metric" of six arrays, or "pull" with weights as a seventh, on the host."""
    solution = solve_arrays(tuple(np.asarray(a, dtype=np.float64) for a in arrays[:6]))
    if question == "pull":
        answer: Floats | Inputs = solution.metric_gradient(np.asarray(arrays[6], dtype=np.float64))
    else:
        answer = getattr(solution, question)
    dtype = np.asarray(arrays[0]).dtype
    # Callbacks must return exactly the announced dtype.
    return tuple(part.astype(dtype) for part in answer) if isinstance(answer, tuple) else answer.astype(dtype)


def _ask(question: str, shapes: object, *arrays: Array) -> Array:
    """Call the host from compiled code; differentiating the call raises an error with advice."""

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def call(*arrays: Array) -> Array:
        # "expand_dims" passes a whole batch to the host at once, where it is solved in one sweep.
        return jax.pure_callback(lambda *a: _host(question, *a), shapes, *arrays, vmap_method="expand_dims")

    @call.defjvp  # type: ignore[untyped-decorator]
    def refuse(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
        raise NotImplementedError(
            "somcot.jax has first derivatives only: no Hessians, no grad of grad; somcot.torch.distance has second ones"
        )

    return call(*arrays)


def _like(*arrays: Array) -> tuple[object, ...]:
    return tuple(jax.ShapeDtypeStruct(a.shape, arrays[0].dtype) for a in arrays)


@jax.custom_jvp  # type: ignore[untyped-decorator]
def _distance(*arrays: Array) -> Array:
    return _ask("value", jax.ShapeDtypeStruct((), arrays[0].dtype), *arrays)


@_distance.defjvp  # type: ignore[untyped-decorator]
def _distance_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    slopes = _ask("gradient", _like(*primals), *primals)
    # The directional derivative; JAX transposes it for reverse mode, since it is linear in the tangents.
    return _distance(*primals), sum((slope * t).sum() for slope, t in zip(slopes, tangents, strict=True))


@jax.custom_vjp  # type: ignore[untyped-decorator]
def _metric(*arrays: Array) -> Array:
    return _ask("metric", jax.ShapeDtypeStruct(arrays[2].shape, arrays[0].dtype), *arrays)


def _metric_forward(*arrays: Array) -> tuple[Array, tuple[Array, ...]]:
    return _metric(*arrays), arrays


def _metric_backward(arrays: tuple[Array, ...], weight: Array) -> tuple[Array, ...]:
    return tuple(_ask("pull", _like(*arrays), *arrays, weight))


_metric.defvjp(_metric_forward, _metric_backward)
