"""Level and power of tests of agents' sessions: ``python -m benchmarks.traces --out FILE NAME=PATH ...``.

`NAME` is one of `SOURCES` and `PATH` a file or folder of its public traces, which are not part of this repository:

- ``mini-swe-agent``: the 500 sessions of Gemini 3 Pro on SWE-bench in gruckion/mini-swe-agent,
  ``swebench_results/20251118_gemini-3-pro-74pct/trajs``
- ``tau-bench``: the 200 sessions of GPT-4o in sierra-research/tau-bench,
  ``historical_trajectories/gpt-4o-airline.json``
- ``swe-agent``: the 479 sessions of SWE-agent with Claude 4 Sonnet in lexuanbach/TraceToChain,
  ``data/swebench_real/corpus.json``, which has tokens of actions instead of traces

Level: random splits of the sessions, so p <= 0.05 is an error. Power: the same with the second side changed. Each test
permutes whole sessions 199 times, so all have exact level:

- somcot: `somcot.same_process`
- mix: Jensen-Shannon divergence of the shares of the tools
- bigrams: the same of pairs of neighbouring calls, with the first call
- hotelling: Hotelling's statistic of a fingerprint of each session, the shares of the tools and the logarithm of the
  length

Sources, changes, sizes and tests were fixed before the runs. Results are kept as one line of JSON each, and a later run
continues; ``--table`` prints what there is.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

import somcot
from somcot.plumbing.arrays import Floats
from somcot.readers import from_traces

LEVEL, DISCOUNT, PERMUTATIONS = 0.05, 0.9, 199
NULLS = 1000
TESTS = ("somcot", "mix", "bigrams", "hotelling")

Session = list[str]


class Source(NamedTuple):
    """What is changed in sessions: calls become `tool`, or the call after one of `before` is left out."""

    tool: str
    before: tuple[str, ...]
    null: int  # sessions of each side
    sizes: tuple[int, ...]


SOURCES = {
    "mini-swe-agent": Source("search", ("edit",), 60, (20, 60, 200)),
    "tau-bench": Source("think", ("get_user_details", "get_reservation_details"), 100, (20, 60)),
    "swe-agent": Source("edit:view", ("edit:str_replace", "edit:create"), 60, (20, 60, 200)),
}


# --- Changes of one side


def swapped(session: Session, share: float, rng: np.random.Generator) -> Session:
    """Neighbouring calls exchanged, each pair with probability `share`; the mix stays."""
    calls, k = list(session), 0
    while k + 1 < len(calls):
        if rng.random() < share:
            calls[k], calls[k + 1] = calls[k + 1], calls[k]
            k += 1
        k += 1
    return calls


def replaced(session: Session, share: float, rng: np.random.Generator, source: Source) -> Session:
    """Calls replaced by one tool."""
    return [source.tool if rng.random() < share else call for call in session]


def left_out(session: Session, share: float, rng: np.random.Generator, source: Source) -> Session:
    """The call after some tools left out."""
    kept = [k == 0 or session[k - 1] not in source.before or rng.random() >= share for k in range(len(session))]
    return [call for call, keep in zip(session, kept, strict=True) if keep]


Change = Callable[[Session, np.random.Generator, Source], Session]
CHANGES: dict[str, Change] = {
    "swap 0.3": lambda session, rng, source: swapped(session, 0.3, rng),
    "swap 0.1": lambda session, rng, source: swapped(session, 0.1, rng),
    "swap 0.03": lambda session, rng, source: swapped(session, 0.03, rng),
    "replace 0.1": lambda session, rng, source: replaced(session, 0.1, rng, source),
    "replace 0.03": lambda session, rng, source: replaced(session, 0.03, rng, source),
    "leave out 0.3": lambda session, rng, source: left_out(session, 0.3, rng, source),
}


# --- Tests


def pvalues(x: Sequence[Session], y: Sequence[Session], rng: np.random.Generator) -> dict[str, float]:
    """P-values of all tests."""
    pooled, n = [*x, *y], len(x)
    orders = np.stack([np.arange(len(pooled)), *(rng.permutation(len(pooled)) for _ in range(PERMUTATIONS))])
    first = np.zeros(orders.shape)
    np.put_along_axis(first, orders[:, :n], 1.0, axis=1)
    tools = _counts([list(session) for session in pooled])
    steps = _counts([[("", session[0]), *pairwise(session)] for session in pooled])
    prints = np.column_stack([tools / tools.sum(axis=1, keepdims=True), np.log(tools.sum(axis=1))])
    values = {
        "mix": _divergence(first, tools),
        "bigrams": _divergence(first, steps),
        "hotelling": _hotelling(first, prints),
    }
    found = {name: float(np.mean(value >= value[0] * (1.0 - 1e-12))) for name, value in values.items()}
    before, after = (somcot.Samples.from_trajectories(side) for side in (x, y))
    test = somcot.same_process(before, after, discount=DISCOUNT, n_permutations=PERMUTATIONS, rng=rng, threads=1)
    return {"somcot": test.pvalue, **found}


def _counts(sessions: Sequence[Sequence[object]]) -> Floats:
    """How often each session has each item, (n_sessions, n_items)."""
    place: dict[object, int] = {}
    rows = [[place.setdefault(item, len(place)) for item in session] for session in sessions]
    return np.stack([np.bincount(row, minlength=len(place)) for row in rows]).astype(np.float64)


def _divergence(first: Floats, counts: Floats) -> Floats:
    """Jensen-Shannon divergences of the two sides of each permutation."""
    x = first @ counts
    y = counts.sum(axis=0) - x
    p, q = (side / side.sum(axis=1, keepdims=True) for side in (x, y))
    middle = 0.5 * (p + q)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [np.where(side > 0.0, side * np.log(side / middle), 0.0) for side in (p, q)]
    return np.asarray(0.5 * (terms[0] + terms[1]).sum(axis=1))


def _hotelling(first: Floats, prints: Floats) -> Floats:
    """Hotelling's statistics of the sides of each permutation; the pooled covariance is that of all sessions.

    With the total instead of the within covariance, the statistic is an increasing function of the usual one.
    """
    centred = prints - prints.mean(axis=0)
    n = first.sum(axis=1, keepdims=True)
    apart = first @ centred / n + first @ centred / (len(prints) - n)  # the sides' sums are opposite
    inverse = np.linalg.pinv(centred.T @ centred / len(prints), rcond=1e-9)  # shares sum to 1
    return np.asarray(np.einsum("ki,ij,kj->k", apart, inverse, apart))


# --- Runs


def sessions_of(name: str, path: Path) -> list[Session]:
    """The states of each session with at least two calls."""
    if name == "swe-agent":
        return [entry["toks"] for entry in json.loads(path.read_text()).values() if len(entry["toks"]) > 1]
    samples = from_traces(path)
    assert samples.offsets is not None
    return [
        [samples.states[k] for k in (*samples.now[begin:end], samples.following[end - 1])]
        for begin, end in zip(samples.offsets[:-1], samples.offsets[1:], strict=True)
    ]


def one(sessions: Sequence[Session], name: str, change: str, size: int, seed: int) -> dict[str, float]:
    """P-values of one run, which depend on its names and number only."""
    rng = np.random.default_rng([zlib.crc32(f"{name} {change} {size}".encode()), seed])
    drawn = rng.permutation(len(sessions))[: 2 * size]
    x, y = ([sessions[k] for k in part] for part in (drawn[:size], drawn[size:]))
    if change != "none":
        y = [CHANGES[change](session, rng, SOURCES[name]) for session in y]
    return pvalues(x, [session for session in y if len(session) > 1], rng)


def run(sources: dict[str, Path], out: Path, seeds: range, nulls: range, seconds: float) -> None:
    """All runs that the file does not have, in order of their seeds, so that a run cut off is complete up to one."""
    done = {(line["source"], line["change"], line["size"], line["seed"]) for line in _lines(out)}
    sessions = {name: sessions_of(name, path) for name, path in sources.items()}
    for name, own in sessions.items():
        print(f"{name}: {len(own)} sessions, {sum(map(len, own)):,} calls", flush=True)
    cells = [(name, change, size) for name in sources for change in CHANGES for size in SOURCES[name].sizes]
    work = [(*cell, seed) for seed in seeds for cell in cells]
    work += [(name, "none", SOURCES[name].null, seed) for seed in nulls for name in sources]
    began = time.process_time()
    with out.open("a") as file:
        for name, change, size, seed in work:
            if (name, change, size, seed) in done:
                continue
            if time.process_time() - began > seconds:
                return
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", somcot.DataWarning)
                found = one(sessions[name], name, change, size, seed)
            line = {"source": name, "change": change, "size": size, "seed": seed, **found}
            print(json.dumps(line), file=file, flush=True)


def _lines(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def table(out: Path) -> None:
    """Shares of p-values of at most 0.05."""
    cells: dict[tuple[object, object, object], dict[object, dict[str, object]]] = defaultdict(dict)
    for line in _lines(out):
        cells[line["source"], line["change"], line["size"]][line["seed"]] = line
    print("| source | change | sessions | runs | " + " | ".join(TESTS) + " |")
    print("|---" * (4 + len(TESTS)) + "|")
    for (source, change, size), lines in cells.items():
        shares = [np.mean([line[test] <= LEVEL for line in lines.values()]) for test in TESTS]  # type: ignore[operator]
        print(f"| {source} | {change} | {size} | {len(lines)} | " + " | ".join(f"{s:.3f}" for s in shares) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", metavar="NAME=PATH")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, nargs=2, default=(0, 200), metavar=("FIRST", "END"))
    parser.add_argument("--nulls", type=int, nargs=2, default=(0, NULLS), metavar=("FIRST", "END"))
    parser.add_argument("--seconds", type=float, default=np.inf, help="CPU time after which to stop")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    sources = {name: Path(path) for name, _, path in (text.partition("=") for text in options.traces)}
    if unknown := set(sources) - set(SOURCES):
        parser.error(f"found {min(unknown)!r}, expected {', '.join(SOURCES)}")
    run(sources, options.out, range(*options.runs), range(*options.nulls), options.seconds)
    if options.table:
        table(options.out)


if __name__ == "__main__":
    main()
