"""Assertions for test suites: does a recording still come from the same process as a reference?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from somcot.plumbing.checks import check_text
from somcot.samples import Samples

if TYPE_CHECKING:
    from somcot.inference.permutation import SameProcessResult

__all__ = ["assert_same_process"]

_LISTED = 3  # transitions named in a failure


def assert_same_process(
    actual: Samples | str | os.PathLike[str],
    reference: Samples | str | os.PathLike[str],
    *,
    margin: float,
    cost: Any = "labels",
    discount: float | None = None,
    inconclusive: str = "fail",
    **options: Any,
) -> SameProcessResult:
    """Raise an `AssertionError` unless two recordings are shown to be closer than a margin.

    Parameters
    ----------
    actual, reference : Samples or path
        Recordings, or files that `somcot.readers.read` reads without options, such as those of ``somcot baseline``.
    margin : float
        Largest distance that counts as equal, in units of the cost.
    cost, discount
        As for `somcot.same_process`; by default 1 / (1 - discount) is the mean length of a sequence of the reference.
    inconclusive : {"fail", "pass"}
        What to do if the data decide neither way.
    **options
        ``strata``, ``paired_by``, ``n_permutations``, ``rng`` and ``threads`` of `somcot.same_process`.

    Returns
    -------
    SameProcessResult
        With the verdict, for further assertions.

    Examples
    --------
    >>> import somcot
    >>> walk = somcot.random_walk(5)
    >>> assert_same_process(walk.sample(300, 20, rng=1), walk.sample(300, 20, rng=2), margin=0.1, discount=0.9).verdict
    'equivalent'
    """
    from somcot.inference.permutation import decision, same_process
    from somcot.inference.strata import discount_for

    check_text("inconclusive", inconclusive, "fail", "pass")
    x, y = (_recording(name, side) for name, side in (("reference", reference), ("actual", actual)))
    # From the reference alone: what is compared with it must not change the measure.
    gamma = discount_for([x]) if discount is None else discount
    test = same_process(x, y, cost, discount=gamma, margin=margin, **options)
    # Not significant is not enough: a test with little data would pass whatever changed.
    if test.verdict == "equivalent" or (test.verdict == "inconclusive" and inconclusive == "pass"):
        return test
    raise AssertionError(f"{decision(test)}{_changes(test)}")


def _recording(name: str, side: object) -> Samples:
    if isinstance(side, (str, os.PathLike)):
        # Readers are imported only for paths, so that the assertion on Samples stays cheap.
        from somcot.readers.opening import read

        side = read(side)
    if not isinstance(side, Samples):
        raise TypeError(f"{name}: found {type(side).__name__}, expected Samples or the path of a recording")
    return side


def _changes(test: SameProcessResult) -> str:
    """The largest differences, for the reader of the failure."""
    assert test.distance is not None
    # There is nothing to attribute in a distance without counted rows.
    shares = () if test.distance.makeup is None else test.distance.contributions(_LISTED).transitions
    lines = [
        f"  {s.state!r} -> {s.next_state!r}: {s.probability_x:.3f} in the reference, {s.probability_y:.3f} now"
        for s in shares
    ]
    return "\n".join(["", "Largest differences:", *lines]) if lines else ""
