"""The exponential, the logarithm and the matrix product of the kernels, against libraries and exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numba import njit

from somcot.compile.simd_math import CUT, add_product, exp, fma, log


@njit
def exps(values):  # type: ignore[no-untyped-def]
    out = np.empty_like(values)
    for i in range(values.size):
        out[i] = exp(values[i])
    return out


@njit
def logs(values):  # type: ignore[no-untyped-def]
    out = np.empty_like(values)
    for i in range(values.size):
        out[i] = log(values[i])
    return out


@njit
def fused(a, b, c):  # type: ignore[no-untyped-def]
    return fma(a, b, c)


@njit
def product(out, a, b):  # type: ignore[no-untyped-def]
    add_product(out, a, b)


def test_exponentials() -> None:
    x = np.concatenate([np.linspace(CUT + 1e-9, 699.0, 20_001), np.linspace(-1.0, 1.0, 20_001)])
    relative = exps(x) / np.exp(x.astype(np.longdouble)) - 1
    assert np.abs(relative).max() < 2.5e-16
    assert list(exps(np.array([0.0, CUT - 1, -np.inf]))) == [1.0, 0.0, 0.0]


def test_logarithms() -> None:
    x = np.concatenate(
        [np.exp(np.linspace(-744.0, 709.0, 20_001)), np.linspace(0.5, 2.0, 20_001), 1 + 2.0 ** -np.arange(53.0)]
    )
    exact = np.log(x.astype(np.longdouble))
    assert np.abs(logs(x) - exact).max() < 1e-13
    assert np.abs(logs(x) / np.where(exact == 0, 1, exact) - (exact != 0)).max() < 2.5e-16
    assert list(logs(np.array([1.0, 0.0]))) == [0.0, -np.inf]
    assert logs(np.array([5e-324]))[0] == pytest.approx(np.log(5e-324), rel=1e-15)


def test_fused_means_rounded_once() -> None:
    a = 1.0 + 2.0**-30
    assert fused(a, a, -1.0 - 2.0**-29) == 2.0**-60
    assert a * a - 1.0 - 2.0**-29 == 0.0


@pytest.mark.parametrize(("n", "k", "m"), [(1, 1, 1), (2, 3, 9), (8, 2, 8), (11, 5, 16), (10, 4, 17), (17, 3, 33)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("number", [np.float64, np.float32])
def test_products_are_chains_of_fused_sums_in_order(n: int, k: int, m: int, order: str, number: Any) -> None:
    rng = np.random.default_rng(n * m)
    a, b, start = (rng.normal(size=shape).astype(number) for shape in ((n, k), (k, m), (n, m)))
    frame = np.full((n, m + 9), 7.0, dtype=number)  # what lies beside the output stays as it was
    out = frame[:, :m]
    out[...] = start
    turned = np.asarray(a, order=order)  # type: ignore[call-overload]
    product(out, turned, b)
    expected = start.copy()
    for i, j in np.ndindex(n, m):
        for inner in range(k):
            exact = Fraction(float(a[i, inner])) * Fraction(float(b[inner, j])) + Fraction(float(expected[i, j]))
            expected[i, j] = float(exact)
    np.testing.assert_array_equal(out, expected)
    assert (frame[:, m:] == 7.0).all()
