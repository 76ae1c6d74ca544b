"""Type aliases of arrays, and a context that limits BLAS to one thread."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

__all__ = ["Array", "Bools", "Codes", "Floats", "Ints", "Places", "one_blas_thread"]

P = ParamSpec("P")
T = TypeVar("T")

Array: TypeAlias = NDArray[Any]  # of any dtype
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int32]  # recorded states: half the memory of int64
# With unsigned indices Numba omits its check for negative ones, which would prevent vectorisation.
Places: TypeAlias = NDArray[np.uint64]


class _OneBlasThread:
    """BLAS on one thread, as a reentrant context or decorator.

    On matrices of a few hundred rows, BLAS threads spend most of their time waiting for each other, and the last bits
    of products depend on their number. The setting is global to the process: if several threads enter, the first one
    sets and restores it, and the others leave it unchanged.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None  # the thread that has changed the setting
        self._depth = 0
        self._before: list[int] = []

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """As a decorator; not `ContextDecorator`, whose frame warnings would mistake for the user's code."""

        @functools.wraps(function)
        def on_one_thread(*args: P.args, **kwargs: P.kwargs) -> T:
            with self:
                return function(*args, **kwargs)

        return on_one_thread

    def __enter__(self) -> None:
        with self._lock:
            if self._owner is None:
                # Only BLAS: OpenMP pools of other libraries are left alone.
                libraries = _blas().lib_controllers
                self._before = [library.num_threads for library in libraries]
                for library in libraries:
                    library.set_num_threads(1)
                self._owner = threading.get_ident()
            self._depth += self._owner == threading.get_ident()

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            # Threads that came second have changed nothing, so they restore nothing.
            if self._owner != threading.get_ident():
                return
            self._depth -= 1
            if self._depth == 0:
                self._owner = None
                for library, n_threads in zip(_blas().lib_controllers, self._before, strict=True):
                    library.set_num_threads(n_threads)


@functools.cache
def _blas() -> ThreadpoolController:
    """The loaded BLAS libraries; cached, because the search takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


one_blas_thread = _OneBlasThread()
