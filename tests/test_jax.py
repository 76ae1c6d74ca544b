"""The distance as a loss in JAX. Runs where jax is installed; `make test-all` installs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import somcot
from tests.gradients_instances import random_arrays

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import somcot.jax as door  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def _double() -> Iterator[None]:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def arrays(seed: int, lead: tuple[int, ...] = ()) -> list[Any]:
    return [jnp.asarray(a) for a in random_arrays(seed, lead)]


def from_logits(function: Any) -> Any:
    """Steps of finite differences lead off the simplex; logits do not."""

    def composed(P: Any, Q: Any, cost: Any, discount: Any, *starts: Any) -> Any:
        rows = (jax.nn.softmax(a) for a in (P, Q))
        return function(*rows, cost, discount, *(jax.nn.softmax(s) for s in starts))

    return composed


@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize("seed", range(3))
def test_first_derivatives(seed: int, lead: tuple[int, ...]) -> None:
    given = tuple(arrays(seed, lead))
    check_grads(from_logits(door.distance), given, order=1, modes=("fwd", "rev"), atol=1e-6, rtol=1e-6, eps=1e-6)
    check_grads(from_logits(door.metric), given[:4], order=1, modes=("rev",), atol=1e-5, rtol=1e-5, eps=1e-6)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision(dtype: Any) -> None:
    """As in PyTorch: a softmax in half precision sums to 1 up to its rounding; the loss is in single precision."""
    rng = np.random.default_rng(1)
    logits, other, cost = (jnp.asarray(a, dtype) for a in (*rng.standard_normal((2, 40, 40)), rng.random((40, 40))))

    def loss(logits: Any) -> Any:
        return door.distance(jax.nn.softmax(logits), jax.nn.softmax(other), cost, 0.9)

    P, Q = (jax.nn.softmax(a.astype(float)) for a in (logits, other))
    full = door.distance(P, Q, cost.astype(float), 0.9)
    for function in (loss, jax.jit(loss)):
        assert function(logits).dtype == jnp.float32
        assert float(function(logits)) == pytest.approx(float(full), rel=0.02)
    assert jax.jit(jax.grad(loss))(logits).dtype == dtype
    assert door.metric(jax.nn.softmax(logits), jax.nn.softmax(other), cost, 0.9).dtype == jnp.float32
    with pytest.raises(ValueError, match="softmax of logits"):
        door.distance(jnp.abs(logits), jax.nn.softmax(other), cost, 0.9)


def test_it_is_the_distance_under_every_transformation() -> None:
    P, Q, cost, discount, p, q = random_arrays(3)
    x, y = somcot.MarkovChain(P, p), somcot.MarkovChain(Q, q)
    expected = somcot.distance(x, y, cost, discount=float(discount))
    assert float(door.distance(P, Q, cost, discount, p, q)) == pytest.approx(expected.distance)
    assert float(jax.jit(door.distance)(P, Q, cost, discount, p, q)) == pytest.approx(expected.distance)
    assert expected.gradient is not None
    slope = jax.jit(jax.grad(door.distance))(*arrays(3))
    np.testing.assert_allclose(slope, expected.gradient.transition_x, atol=1e-12)
    table = somcot.metric(x, y, cost, discount=float(discount))
    np.testing.assert_allclose(jax.jit(door.metric)(P, Q, cost, discount), table, atol=1e-12)


def test_batches_and_vmap_agree() -> None:
    many = arrays(4, (3,))
    whole = door.distance(*many)
    np.testing.assert_allclose(jax.vmap(door.distance)(*many), whole, atol=1e-14)
    for k in range(3):
        np.testing.assert_allclose(door.distance(*(a[k] for a in many)), whole[k], atol=1e-13)
    shared = jax.jit(jax.vmap(jax.grad(door.distance), in_axes=(0, None, 0, 0, None, None)))
    found = shared(many[0], many[1][0], many[2], many[3], many[4][0], many[5][0])
    one = jax.grad(door.distance)(many[0][2], many[1][0], many[2][2], many[3][2], many[4][0], many[5][0])
    np.testing.assert_allclose(found[2], one, atol=1e-12)
    nested = jax.vmap(jax.vmap(door.distance, in_axes=(0, None, None, None)), in_axes=(None, 0, None, None))
    pairs = nested(many[0], many[1], many[2][0], 0.9)
    assert pairs.shape == (3, 3)
    np.testing.assert_allclose(pairs[1, 2], door.distance(many[0][2], many[1][1], many[2][0], 0.9), atol=1e-13)


def test_single_precision_stays() -> None:
    given = [a.astype(jnp.float32) for a in arrays(1)]
    value, slope = jax.value_and_grad(door.distance)(*given)
    assert (value.dtype, slope.dtype) == (jnp.float32, jnp.float32)
    np.testing.assert_allclose(value, door.distance(*arrays(1)), atol=1e-6)


def test_what_is_not_there_is_said() -> None:
    P, Q, cost, discount, p, q = arrays(0)

    def loss(P: Any) -> Any:
        return door.distance(P, Q, cost, discount, p, q)

    for twice in (jax.hessian(loss), jax.grad(lambda P: jax.grad(loss)(P).sum()), jax.jacfwd(jax.jacfwd(loss))):
        with pytest.raises(NotImplementedError, match="first derivatives only: no Hessians"):
            twice(P)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda P: door.metric(P, Q, cost, discount), (P,), (P,))


def test_bad_input_is_named() -> None:
    P, Q, cost, discount, p, q = arrays(0)
    with pytest.raises(ValueError, match=r"P_x: row 0 sums to 2, expected 1 \(4 such rows\)"):
        door.distance(2 * P, Q, cost, discount, p, q)
    with pytest.raises(ValueError, match="P_y: row 1 has an entry of -1"):
        door.distance(P, Q.at[1].set(jnp.array([-1.0, 1.0, 1.0])), cost, discount, p, q)
    with pytest.raises(ValueError, match=r"cost: shape is \(3, 4\), expected \(4, 3\)"):
        jax.jit(door.distance)(P, Q, cost.T, discount)
    with pytest.raises(TypeError, match="P_x: found an array of int64, expected floating point"):
        door.distance(jnp.eye(4, dtype=int), Q, cost, discount)
    with pytest.raises(TypeError, match="cost: found str"):
        door.distance(P, Q, "cost", discount)
    with pytest.raises(ValueError, match=r"discount: found 1\.5"):
        door.distance(P, Q, cost, 1.5)
    with pytest.raises(ValueError, match=r"leading axes are \(1, 1\), expected one at most"):
        door.distance(P[None, None], Q, cost, discount)
    with pytest.raises(Exception, match=r"P_x: entry .* is nan"):  # JAX wraps what the host says
        jax.jit(door.distance)(P * jnp.nan, Q, cost, discount).block_until_ready()
