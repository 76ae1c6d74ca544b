"""One thread for linear algebra on small matrices: set, nested, left by an error, in several threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import somcot
from somcot.plumbing import memory
from somcot.plumbing.arrays import Floats
from somcot.plumbing.memory import one_blas_thread


@pytest.fixture
def blas() -> Iterator[ThreadpoolController]:
    """The BLAS libraries, with two threads each."""
    memory._blas.cache_clear()  # other tests may have loaded libraries since
    controller = ThreadpoolController().select(user_api="blas")
    with controller.limit(limits=2):
        if n_threads(controller) != {2}:
            pytest.skip("this BLAS has one thread only")
        yield controller


def n_threads(blas: ThreadpoolController) -> set[int]:
    return {library.num_threads for library in blas.lib_controllers}


def test_nested_and_left_by_an_error(blas: ThreadpoolController) -> None:
    @one_blas_thread
    def inner(fail: bool) -> set[int]:
        """Looks."""
        if fail:
            raise ValueError("no")
        return n_threads(blas)

    assert inner(False) == {1}
    assert n_threads(blas) == {2}
    with one_blas_thread:
        assert inner(False) == {1}
        assert n_threads(blas) == {1}, "the inner one must not end it"
    assert n_threads(blas) == {2}
    with pytest.raises(ValueError, match="no"):
        inner(True)
    assert n_threads(blas) == {2}
    assert inner.__doc__ == "Looks."


@pytest.mark.parametrize("first_leaves_first", [True, False])
def test_threads_that_overlap_leave_what_was_there_before(blas: ThreadpoolController, first_leaves_first: bool) -> None:
    """No thread may take another's limit for what was set before, and keep one thread for good."""
    inside, leave, left = threading.Event(), threading.Event(), threading.Event()

    def late() -> None:
        with one_blas_thread:
            inside.set()
            leave.wait(10)
        left.set()

    other = threading.Thread(target=late)
    with one_blas_thread:
        other.start()
        assert inside.wait(10)
        if not first_leaves_first:
            leave.set()
            assert left.wait(10)
            assert n_threads(blas) == {1}
    leave.set()
    other.join()
    assert n_threads(blas) == {2}
    with one_blas_thread:
        assert n_threads(blas) == {1}, "it is ready for the next one"
    assert n_threads(blas) == {2}


def test_distances_of_vectors_run_on_one_thread(blas: ThreadpoolController) -> None:
    rng = np.random.default_rng(0)
    x, y = (somcot.Trajectories.from_arrays(rng.normal(size=(20, 20, 1))) for _ in range(2))
    seen = []

    def cost(a: Floats, b: Floats) -> Floats:
        seen.append(n_threads(blas))
        return np.abs(a[:, 0][:, None] - b[:, 0][None, :])

    somcot.distance(x, y, cost, discount=0.9, n_cells=4)
    assert seen
    assert set.union(*seen) == {1}
    assert n_threads(blas) == {2}
