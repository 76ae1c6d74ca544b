"""The distance as a loss in PyTorch. Runs where torch is installed; `make test-all` installs it."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import somcot
from somcot.certificates import simulated_upper
from tests.gradients_instances import random_arrays

torch = pytest.importorskip("torch")
import somcot.torch as door  # noqa: E402


def tensors(seed: int, lead: tuple[int, ...] = (), dtype: Any = torch.float64, n_x: int = 4, n_y: int = 3) -> list[Any]:
    return [torch.tensor(a, dtype=dtype, requires_grad=True) for a in random_arrays(seed, lead, n_x, n_y)]


@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize("seed", range(4))
def test_first_derivatives(seed: int, lead: tuple[int, ...]) -> None:
    given = tensors(seed, lead)
    assert torch.autograd.gradcheck(door.distance, given)
    assert torch.autograd.gradcheck(door.metric, given[:4])


@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize("seed", range(4))
def test_second_derivatives(seed: int, lead: tuple[int, ...]) -> None:
    P, Q, cost, discount, p, q = tensors(seed, lead)

    def loss(P: Any, Q: Any, cost: Any, p: Any, q: Any) -> Any:
        return door.distance(P, Q, cost, discount.detach(), p, q)

    assert torch.autograd.gradgradcheck(loss, [P, Q, cost, p, q])
    assert torch.autograd.gradgradcheck(lambda P, Q, c: door.distance(P, Q, c, discount.detach()), [P, Q, cost])


@pytest.mark.parametrize("side", [4, 5])
def test_ties_of_initial_distributions_matter_if_one_has_a_gradient(side: int) -> None:
    P, Q, cost, *_ = tensors(0)
    given = [P, Q, cost, 0.9, torch.tensor([0.5, 0.5, 0, 0], dtype=P.dtype), torch.tensor([0.5, 0.5, 0], dtype=P.dtype)]

    def bend() -> None:
        (slope,) = torch.autograd.grad(door.distance(*given), P, create_graph=True)
        slope.square().sum().backward()

    bend()
    given[side].requires_grad_(True)
    with pytest.raises(RuntimeError, match="no second derivative here"):
        bend()


def test_second_derivatives_are_refused_where_there_are_none() -> None:
    P, Q, cost, discount, p, q = tensors(0, n_x=4, n_y=4)

    def bend(*arguments: Any) -> None:
        (slope,) = torch.autograd.grad(door.distance(*arguments), P, create_graph=True)
        slope.square().sum().backward()

    with pytest.raises(RuntimeError, match="no second derivative here: the optimal coupling is not unique"):
        bend(P, P.detach(), 1.0 - torch.eye(4, dtype=P.dtype), 0.9)
    with pytest.raises(RuntimeError, match="discount: second derivatives"):
        bend(P, Q, cost, discount, p, q)
    (slope,) = torch.autograd.grad(door.metric(P, Q, cost, 0.9).sum(), P, create_graph=True)
    with pytest.raises(RuntimeError, match="metric: second derivatives are not available"):
        slope.sum().backward()


def test_it_is_the_distance() -> None:
    P, Q, cost, discount, p, q = random_arrays(3)
    x, y = somcot.MarkovChain(P, p), somcot.MarkovChain(Q, q)
    expected = somcot.distance(x, y, cost, discount=float(discount)).distance
    assert door.distance(torch.tensor(P), Q, cost, float(discount), p, q).item() == pytest.approx(expected)
    table = door.metric(torch.tensor(P), torch.tensor(Q), cost, float(discount))
    np.testing.assert_allclose(table, somcot.metric(x, y, cost, discount=float(discount)), atol=1e-12)


def test_single_precision_in_and_out() -> None:
    single, double = tensors(1, (3,), torch.float32), tensors(1, (3,))
    a, b = door.distance(*single), door.distance(*double)
    assert (a.dtype, a.shape) == (torch.float32, (3,))
    torch.testing.assert_close(a.double(), b, atol=1e-6, rtol=0)
    a.sum().backward()
    b.sum().backward()
    for s, d in zip(single, double, strict=True):
        assert s.grad.dtype == torch.float32
        torch.testing.assert_close(s.grad.double(), d.grad, atol=2e-5, rtol=1e-4)


def test_one_argument_with_a_batch_axis_makes_a_batch() -> None:
    P, Q, cost, _, _, _ = tensors(2)
    many = torch.stack([Q, Q.roll(1, 1)]).detach()
    found = door.distance(P, many, cost, 0.8)
    found.sum().backward()
    whole = P.grad.clone()
    P.grad = None
    for k in range(2):
        one = door.distance(P, many[k], cost, 0.8)
        torch.testing.assert_close(one, found[k])
        one.backward()
    torch.testing.assert_close(P.grad, whole, atol=1e-12, rtol=0)


def test_training_with_a_warm_start_reaches_the_target() -> None:
    _, Q, _, _, _, _ = random_arrays(5, (), 4, 4)
    target = torch.tensor(Q)
    cost = torch.tensor(np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))) / 3)
    finals = []
    for warm in (door.WarmStart(), None):
        logits = torch.zeros(4, 4, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.Adam([logits], lr=0.05)
        for _ in range(60):
            optimiser.zero_grad()
            loss = door.distance(logits.softmax(-1), target, cost, 0.8, warm=warm)
            loss.backward()
            optimiser.step()
        finals.append(loss.item())
    assert finals[0] == pytest.approx(finals[1], abs=1e-9)
    start = door.distance(torch.full((4, 4), 0.25, dtype=torch.float64), target, cost, 0.8).item()
    assert finals[0] < 0.2 * start


def test_the_module_reduces_and_remembers() -> None:
    P, Q, cost, _, _, _ = tensors(4, (3,))
    each = door.distance(P, Q, cost, 0.9)
    for reduction, expected in (("mean", each.mean()), ("sum", each.sum()), ("none", each)):
        loss = door.DistanceLoss(discount=0.9, reduction=reduction)
        torch.testing.assert_close(loss(P, Q, cost), expected)
        torch.testing.assert_close(loss(P, Q, cost), expected)
        torch.testing.assert_close(loss(P[:2], Q[:2], cost[:2]).sum(), loss(P[:2], Q[:2], cost[:2]).sum())
        assert repr(loss.warm) == "WarmStart(2 problems of 4 x 3 states)"
        assert repr(copy.deepcopy(loss).warm) == repr(pickle.loads(pickle.dumps(loss.warm))) == "WarmStart(empty)"
    free = door.DistanceLoss(discount=0.9, cost=torch.nn.Parameter(cost[0].detach()))
    free(P[0], Q[0]).backward()
    assert [name for name, _ in free.named_parameters()] == ["cost"]
    assert free.cost.grad.sum().item() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="cost: found none"):
        door.DistanceLoss(discount=0.9)(P, Q)
    with pytest.raises(ValueError, match="reduction: found 'max'"):
        door.DistanceLoss(discount=0.9, reduction="max")


def test_counts_run_on() -> None:
    rng = np.random.default_rng(0)
    states = torch.tensor(rng.integers(3, size=41))
    whole = door.RunningKernel(3, prior=0.1)
    parts = door.RunningKernel(3, prior=0.1)
    expected = whole.add(states[:-1], states[1:])
    for k in range(0, 40, 8):
        found = parts(states[k : k + 8], states[k + 1 : k + 9])
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(parts.kernel(), expected)
    counted = np.zeros((3, 3))
    np.add.at(counted, (states[:-1].numpy(), states[1:].numpy()), 1.0)
    np.testing.assert_allclose(expected, (counted + 0.1) / (counted + 0.1).sum(axis=1, keepdims=True))
    soft = torch.nn.functional.one_hot(states, 3).double().requires_grad_()
    again = door.RunningKernel(3, prior=0.1)
    torch.testing.assert_close(again.add(soft[:-1], soft[1:]), expected)
    again.add(soft[:-1], soft[1:])[0, 0].backward()
    assert soft.grad.abs().max() > 0
    assert torch.equal(door.RunningKernel(3).kernel(), torch.full((3, 3), 1 / 3, dtype=torch.float64))
    fading = door.RunningKernel(2, prior=0.0, half_life=1.0)
    fading.add(torch.tensor([0, 1]), torch.tensor([1, 0]))
    torch.testing.assert_close(
        fading.add(torch.tensor([0]), torch.tensor([0]))[0], torch.tensor([2 / 3, 1 / 3]).double()
    )
    with pytest.raises(ValueError, match="half_life: found with forget"):
        door.RunningKernel(2, forget=0.5, half_life=1.0)
    forgetful = door.RunningKernel(2, prior=0.0, forget=0.5)
    forgetful.add(torch.tensor([0, 1]), torch.tensor([1, 0]))
    torch.testing.assert_close(
        forgetful.add(torch.tensor([0]), torch.tensor([0]))[0], torch.tensor([2 / 3, 1 / 3]).double()
    )


def test_the_page_prints_what_it_shows() -> None:
    page = (Path(__file__).parents[1] / "docs" / "loss.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "loss.md", "exec"), {})
    assert printed.getvalue().splitlines() == [line[2:] for line in code.splitlines() if line.startswith("# ")]


GOOD = random_arrays(0)
ASKED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "off the simplex": (lambda: torch.tensor(GOOD[0]) * 1.3, ValueError, "P_x: row 0 sums to 1.3, expected 1"),
    "nan": (lambda: torch.full((4, 4), float("nan")), ValueError, "P_x: entry (0, 0) is nan"),
    "wrong shape": (lambda: torch.eye(4)[:3], ValueError, "P_x: a kernel of shape (3, 4)"),
    "vector": (lambda: torch.ones(4), ValueError, "P_x: shape is (4,), expected 2 dimensions"),
    "other size": (lambda: torch.eye(5), ValueError, "cost: shape is (4, 3), expected (5, 3)"),
    "two batch axes": (lambda: torch.eye(4).expand(2, 2, 4, 4), ValueError, "leading axes are (2, 2)"),
    "integers": (lambda: torch.eye(4, dtype=torch.int64), TypeError, "P_x: found a tensor of torch.int64"),
    "no numbers": (lambda: torch.eye(4, device="meta"), ValueError, "P_x: found a tensor on the meta device"),
    "text": (lambda: "kernel", TypeError, "P_x: found str, expected a tensor"),
}


@pytest.mark.parametrize("case", ASKED)
def test_bad_input_is_named(case: str) -> None:
    make, kind, message = ASKED[case]
    with pytest.raises(kind, match=re.escape(message)):
        door.distance(make(), *GOOD[1:])


def test_bad_input_beside_kernels() -> None:
    P, Q, cost, discount, p, q = (torch.tensor(a) for a in GOOD)
    with pytest.raises(ValueError, match="P_y: found a tensor on meta, others are on cpu"):
        door.distance(P, Q.to("meta"), cost, discount, p, q)
    with pytest.raises(ValueError, match="discount: found 1"):
        door.distance(P, Q, cost, 1)
    warm = door.WarmStart()
    door.distance(P, Q, cost, 0.9, warm=warm)
    with pytest.raises(ValueError, match="warm: holds a problem of 4 x 3 states, this one has 4 x 4"):
        door.distance(P, P, torch.ones(4, 4), 0.9, warm=warm)
    running = door.RunningKernel(3)
    with pytest.raises(ValueError, match="following: found 2 states, expected 3"):
        running.add(torch.tensor([0, 1, 0]), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="following: found state 3, expected 0 to 2"):
        running.add(torch.tensor([0]), torch.tensor([3]))
    with pytest.raises(ValueError, match=r"now: shape is \(1, 2\), expected \(transitions, 3\)"):
        running.add(torch.ones(1, 2), torch.ones(1, 3))
    with pytest.raises(ValueError, match="state 0 has no transitions yet"):
        door.RunningKernel(2, prior=0.0).kernel()


def test_torch_func() -> None:
    """Gradients, batches and Jacobians by transforms of functions are those of autograd."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 4, 4, dtype=torch.float64, generator=generator)
    other = torch.randn(4, 4, dtype=torch.float64, generator=generator).softmax(-1)
    cost = torch.rand(4, 4, dtype=torch.float64, generator=generator)

    def loss(x: Any) -> Any:
        return somcot.torch.distance(x.softmax(-1), other, cost, 0.9)

    def total(x: Any) -> Any:
        return somcot.torch.metric(x.softmax(-1), other, cost, 0.9).sum()

    for function in (loss, total):
        expected = []
        for x in logits:
            leaf = x.clone().requires_grad_()
            function(leaf).backward()
            expected.append(leaf.grad)
        assert torch.equal(torch.func.grad(function)(logits[0]), expected[0])
        assert torch.allclose(torch.func.vmap(torch.func.grad(function))(logits), torch.stack(expected), atol=1e-14)
    assert torch.allclose(torch.func.vmap(loss)(logits), loss(logits), atol=1e-14)
    jacobian = torch.func.jacrev(loss)(logits)
    assert jacobian.shape == (3, 3, 4, 4)
    assert not jacobian[0, 1].any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: Any) -> None:
    """A softmax in half precision sums to 1 up to its rounding; the loss is in single precision."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(40, 40, generator=generator).to(dtype).requires_grad_()
    other, cost = torch.randn(40, 40, generator=generator), torch.rand(40, 40, generator=generator)
    loss = somcot.torch.distance(logits.softmax(-1), other.to(dtype).softmax(-1), cost.to(dtype), 0.9)
    loss.backward()
    assert loss.dtype is torch.float32
    assert logits.grad.dtype is dtype
    full = somcot.torch.distance(logits.detach().double().softmax(-1), other.double().softmax(-1), cost.double(), 0.9)
    assert loss.item() == pytest.approx(full.item(), rel=0.02)
    with pytest.raises(ValueError, match="softmax of logits"):
        somcot.torch.distance(logits.abs(), other.softmax(-1), cost, 0.9)


def test_autocast() -> None:
    network = torch.nn.Linear(5, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = somcot.torch.DistanceLoss(discount=0.9, cost=torch.rand(5, 5))(
            network(torch.eye(5)).softmax(-1), torch.eye(5)
        )
    loss.backward()
    assert network.weight.grad.abs().sum() > 0


def test_a_running_kernel_takes_no_logits() -> None:
    running = somcot.torch.RunningKernel(3)
    good = torch.tensor([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    for bad in (torch.tensor([[0.2, 0.3, 0.5], [1.5, -0.5, 0.0]]), torch.tensor([[0.2, 0.3, 0.5], [2.0, 1.0, 0.0]])):
        with pytest.raises(ValueError, match=r"following: row 1 is .*softmax of logits"):
            running.add(good, bad)
    running.add(good.to(torch.bfloat16), good)
    assert (running.kernel() >= 0).all()


# Learned couplings of noise


def begin(n: int, rng: np.random.Generator) -> Any:
    return 0.5 * rng.standard_normal((n, 2))


def steady(x: Any, noise: Any) -> Any:
    return 0.8 * torch.as_tensor(x) + 0.3 * torch.as_tensor(noise)


def turning(y: Any, noise: Any) -> Any:
    """The same process as `steady`, whose noise is turned by a multiple of the first coordinate."""
    y, noise = torch.as_tensor(y), torch.as_tensor(noise)
    c, s = torch.cos(2 * y[:, 0]), torch.sin(2 * y[:, 0])
    return steady(y, torch.stack([c * noise[:, 0] - s * noise[:, 1], s * noise[:, 0] + c * noise[:, 1]], dim=1))


def test_a_coupling_that_depends_on_the_states_is_learned() -> None:
    """The distance is 0. No constant rotation comes near it, and no matching of a few successors."""
    game: Any = (begin, begin), (steady, turning)
    learned = door.NoiseCoupling(2).fit(*game, discount=0.9, n_steps=60, rng=1)
    options: Any = {"discount": 0.9, "n_rollouts": 400, "rng": 5}
    found = simulated_upper(*game, **options, coupling=learned.arrays)
    constant = simulated_upper(*game, **options, coupling=lambda x, y: learned.base.numpy())
    assert constant.bound > 0.35
    assert 0.0 < found.bound < 0.1
    again = door.NoiseCoupling(2).fit(*game, discount=0.9, n_steps=60, rng=1)
    states = np.random.default_rng(0).normal(size=(2, 7, 2))
    np.testing.assert_array_equal(again.arrays(*states), learned.arrays(*states))
    restored = door.NoiseCoupling(2)
    restored.load_state_dict(learned.state_dict())
    np.testing.assert_array_equal(restored.arrays(*states), learned.arrays(*states))


def test_untrained_or_wild_weights_give_orthogonal_matrices() -> None:
    for k in (2, 3, 20):
        coupling = door.NoiseCoupling(4, k)
        for part in coupling.parameters():
            part.data.normal_(0.0, 5.0, generator=torch.Generator().manual_seed(k))
        R = coupling.arrays(*np.random.default_rng(k).normal(size=(2, 6, 4)))
        assert R.shape == (6, k, k)
        np.testing.assert_allclose(R @ R.transpose(0, 2, 1), np.broadcast_to(np.eye(k), R.shape), atol=1e-9)


def test_linear_pairs_keep_the_rotation_of_the_closed_form() -> None:
    """Nothing is better there, and what training does beside it is dropped or stays within chance."""
    rng = np.random.default_rng(20)
    A, B = (0.85 * M / np.abs(np.linalg.eigvals(M)).max() for M in rng.normal(size=(2, 6, 6)))
    S, R = 0.3 * rng.normal(size=(2, 6, 6)) / np.sqrt(6)
    truth = somcot.gaussian.distance(A, S, B, R, discount=0.9).distance
    zero = lambda n, rng: np.zeros((n, 6))  # noqa: E731

    def moving(M: Any, N: Any) -> Any:
        return lambda x, e: torch.as_tensor(x) @ torch.as_tensor(M).T + torch.as_tensor(e) @ torch.as_tensor(N).T

    steps = moving(A, S), moving(B, R)
    learned = door.NoiseCoupling(6).fit((zero, zero), steps, "sqeuclidean", discount=0.9, n_steps=20, rng=0)
    found = simulated_upper((zero, zero), steps, "sqeuclidean", discount=0.9, rng=0, coupling=learned.arrays)
    assert truth - 3 * found.standard_error < found.bound < 1.03 * truth + 3 * found.standard_error


def test_bad_arguments_of_a_coupling() -> None:
    with pytest.raises(ValueError, match="n_noise"):
        door.NoiseCoupling(1)
    with pytest.raises(ValueError, match="cost: found 'cosine'"):
        door.NoiseCoupling(2).fit((begin, begin), (steady, steady), "cosine", discount=0.9)
    with pytest.raises(ValueError, match=r"step\[1\]: returned shape"):
        door.NoiseCoupling(2).fit((begin, begin), (steady, lambda y, e: y[:, :1]), discount=0.9)
