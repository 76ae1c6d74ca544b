"""Do pieces of work on request, in a process of its own: ``python -m benchmarks.worker``.

Which somcot is measured is for PYTHONPATH to say, so only what has been in the package for long is used. A request is a
line ``{"work": ..., "family": ..., "sizes": [...], ...}``, the answer a line with CPU seconds, the peak memory so
far and a value to compare. Both are JSON.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import somcot
from benchmarks import families

Call = Callable[[], float]


def _metric(case: families.Case) -> Call:
    return lambda: float(somcot.metric(*case[:3], discount=case.discount, threads=1).mean())


def _distance(case: families.Case) -> Call:
    """With everything that a Result has: coupling, encoder, residuals."""

    def call() -> float:
        result = somcot.distance(*case[:3], discount=case.discount, threads=1)
        _ = result.encoder, result.residuals
        return result.distance

    return call


def _number(case: families.Case) -> Call:
    """The distance and its bracket alone, of which the rest is computed when asked for."""
    return lambda: somcot.distance(*case[:3], discount=case.discount, threads=1).distance


def _halves(case: families.Case) -> Call:
    """The first sweep over a half of the data, from the potential and the prices of the whole."""
    from somcot.chains import Support
    from somcot.solvers.policy_iteration import iterate

    try:
        from somcot.core.pairs import all_pairs
        from somcot.core.sweep import Sweep
    except ImportError:  # where they were in earlier versions
        from somcot.bellman.pairs import all_pairs  # type: ignore[import-not-found, no-redef]
        from somcot.bellman.sweep import Sweep  # type: ignore[import-not-found, no-redef]

    problem = somcot.Problem(*case[:3], case.discount).unit
    whole = iterate(problem, all_pairs(problem), threads=1)
    V = whole.pairs.table(whole.V)
    rng = np.random.default_rng(0)

    def half(support: Support) -> Support:
        """Probabilities off by a third, as those of a half of ten observations are."""
        shares = support.probabilities * rng.uniform(0.45, 1.55, size=len(support.indices))
        totals = np.add.reduceat(shares, support.indptr[:-1])
        return support._replace(probabilities=shares / np.repeat(totals, np.diff(support.indptr)))

    part = replace(problem, support_x=half(problem.support_x), support_y=half(problem.support_y))
    return lambda: float(Sweep(part, whole.pairs, 1, hints=whole.sweep).improve(V).value.mean())


def _samples(case: families.Case) -> tuple[Any, Any]:
    a, b = (chain.sample(400, 50, rng=seed) for seed, chain in ((1, case.x), (2, case.y)))
    _ = a.pair_counts, b.pair_counts
    return a, b


def _estimate(case: families.Case) -> Call:
    a, b = _samples(case)
    return lambda: somcot.distance(a, b, case.cost, discount=case.discount, confidence=0.9, threads=1).distance


def _plugin(case: families.Case) -> Call:
    a, b = _samples(case)
    return lambda: somcot.distance(a, b, case.cost, discount=case.discount, method="plugin", threads=1).distance


def _same(case: families.Case) -> Call:
    a, b = _samples(case)
    return lambda: float(somcot.same_process(a, b, case.cost, discount=case.discount, n_permutations=100).pvalue)


def _somcot(support: str, n_steps: int) -> Callable[[families.Case], Call]:
    def make(case: families.Case) -> Call:
        options: dict[str, Any] = {"discount": case.discount, "support": support, "n_steps": n_steps, "rng": 0}
        return lambda: somcot.distance(*case[:3], method="somcot", **options).distance

    return make


def _table(_case: families.Case) -> Call:
    """Reading: the number of transitions in two months of the bundled shop."""
    from somcot.data import clickstream
    from somcot.readers import from_table

    paths = [str(clickstream.path(month)) for month in ("may", "june")]
    read = partial(from_table, sequence="session", time="time", state="page", terminated=True)
    return lambda: float(sum(read(path).n_transitions for path in paths))


WORK: dict[str, Callable[[families.Case], Call]] = {
    "metric": _metric,
    "distance": _distance,
    "number": _number,
    "halves": _halves,
    "estimate": _estimate,
    "plugin": _plugin,
    "same": _same,
    "table": _table,
    "somcot observed 1500": _somcot("observed", 1500),
    "somcot full 2000": _somcot("full", 2000),
    "somcot full 500": _somcot("full", 500),
    "somcot full 100000": _somcot("full", 100_000),
}


@cache
def _prepared(work: str, family: str, sizes: tuple[int, ...], discount: float) -> Call:
    return WORK[work](families.make(family, *sizes, discount=discount))


def _peak() -> int:
    """Peak memory so far, in bytes."""
    with open("/proc/self/status") as lines:
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def answer(request: dict[str, Any]) -> dict[str, float]:
    """Do one piece of work."""
    call = _prepared(
        request["work"], request["family"], tuple(request["sizes"]), request.get("discount", families.DISCOUNT)
    )
    n = request.get("repeat", 1)
    began = time.process_time()
    for _ in range(n):
        value = call()
    return {"seconds": (time.process_time() - began) / n, "peak": _peak(), "value": value}


def main() -> None:
    """Answer until there are no more requests."""
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
