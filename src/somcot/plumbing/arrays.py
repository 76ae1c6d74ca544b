"""Type aliases of arrays."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Bools", "Codes", "Floats", "Ints", "Places"]

Array: TypeAlias = NDArray[Any]  # of any dtype
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int32]  # recorded states: half the memory of int64
# With unsigned indices Numba omits its check for negative ones, which would prevent vectorisation.
Places: TypeAlias = NDArray[np.uint64]
