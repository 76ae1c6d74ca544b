"""Names for the kinds of arrays that are handed around, and one thread for linear algebra on small ones."""

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
Codes: TypeAlias = NDArray[np.int32]  # states as recorded: half the memory of int64
# Unsigned numbers as indices spare numba's check for negative ones, which would keep loops from becoming vector code.
Places: TypeAlias = NDArray[np.uint64]


class _OneBlasThread:
    """BLAS on one thread, as a context or a decorator, which may be inside one another.

    On matrices of a few hundred rows the threads of BLAS spend several times the work on waiting for one another, and
    the last bits of products depend on their number. The number is the whole process's: where several threads come
    here at once, the first one sets it and sets it back when it leaves, and the others leave it alone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None  # the thread that has set the number
        self._depth = 0
        self._before: list[int] = []

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """As a decorator; not the standard library's, whose frame warnings would take for the user's."""

        @functools.wraps(function)
        def on_one_thread(*args: P.args, **kwargs: P.kwargs) -> T:
            with self:
                return function(*args, **kwargs)

        return on_one_thread

    def __enter__(self) -> None:
        with self._lock:
            if self._owner is None:
                libraries = _blas().lib_controllers
                self._before = [library.num_threads for library in libraries]
                for library in libraries:
                    library.set_num_threads(1)
                self._owner = threading.get_ident()
            self._depth += self._owner == threading.get_ident()

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            if self._owner != threading.get_ident():
                return
            self._depth -= 1
            if self._depth == 0:
                self._owner = None
                for library, n_threads in zip(_blas().lib_controllers, self._before, strict=True):
                    library.set_num_threads(n_threads)


@functools.cache
def _blas() -> ThreadpoolController:
    """NumPy's BLAS and others that are loaded by now; looking for them takes milliseconds, so it is done once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


one_blas_thread = _OneBlasThread()
