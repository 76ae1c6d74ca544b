"""Names for the kinds of arrays that are handed around."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Bools", "Codes", "Floats", "Ints", "Places"]

Array: TypeAlias = NDArray[Any]  # of any dtype
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int32]  # states as recorded: half the memory of int64
# Unsigned numbers as indices spare numba's check for negative ones, which would keep loops from becoming vector code.
Places: TypeAlias = NDArray[np.uint64]
