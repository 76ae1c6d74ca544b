"""What the states of a chain look like from outside: how many others follow, and which labels lie around."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["histograms", "n_successors"]


def n_successors(support: Any) -> NDArray[np.int64]:
    """How many other states can follow each state; the last row of a support, the start law, does not count.

    Examples
    --------
    >>> from somcot import MarkovChain
    >>> n_successors(MarkovChain([[0, 0.5, 0.5], [0, 1, 0], [1, 0, 0]]).support).tolist()
    [2, 0, 1]
    """
    n = len(support.indptr) - 2
    rows, columns = support.rows[: support.indptr[-2]], support.indices[: support.indptr[-2]]
    return np.bincount(rows[rows != columns], minlength=n)


def histograms(support: Any, labels: Sequence[Hashable], known: dict[Hashable, int], rounds: int) -> list[Floats]:
    """The law of the label met after 0, 1, ..., `rounds` steps from each state, (n, number of known labels) each."""
    kernel = _kernel(support)
    law = np.zeros((len(labels), len(known)))
    law[np.arange(len(labels)), [known[label] for label in labels]] = 1.0
    found = [law]
    for _ in range(rounds):  # sparse times dense: SciPy's own loop, the same bits everywhere
        found.append(np.asarray(kernel @ found[-1]))
    return found


def _kernel(support: Any) -> csr_array:
    from scipy.sparse import csr_array

    n, end = len(support.indptr) - 2, support.indptr[-2]
    return csr_array((support.probabilities[:end], support.indices[:end], support.indptr[:-1]), shape=(n, n))
