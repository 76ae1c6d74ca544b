"""False alarms, delays, drift, speed and memory of the monitor: ``python -m benchmarks.alarms TASK --out DIR``.

Every task appends lines of JSON to a file in DIR and goes on where it stopped. Logs are not part of the repository:
``--logs DIR`` names a folder with the files of `LOGS`, which are checked by their sums. Families, logs, changes and
sizes are in `benchmarks.alarm_cases`. ``table`` prints what was found.

=========  ==============================================================================================
null       share of shuffled logs, and of streams of the families, with an alarm; bound 0.05
endless    the same for one endless sequence, with recorded references
lengths    sequences until a false alarm, with one per `PER` sequences promised
delays     sequences until an alarm after a change; ``--former SRC`` runs the package in another folder
river      the same for detectors of river, on the summed surprise of each sequence
drift      share of logs with permuted starts in which `somcot.drift` marks a period
speed      events per CPU second; ``--former SRC`` as above
memory     resident memory over many events
=========  ==============================================================================================
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.alarm_cases import (
    CHANGES,
    ENDLESS,
    LOGS,
    MEMORY,
    REFERENCES,
    UNSEEN,
    Pool,
    chain_of,
    family,
    markov_sessions,
    pool_of,
    read_log,
    zipf,
)

RUNS = 1000
BOUND = 0.05
HALF = 3000  # largest reference of "half"
PER, STOP = 200, 6000  # promised mean number of sequences until a false alarm; streams stop after so many
LENGTHS = (
    "log sepsis",
    "log receipt",
    "log bpic2013",
    "log bpic2012w",
    "log bpic2012",
    *(f"family {name}" for name in (*UNSEEN, *MEMORY)),
)
DRIFTS = ("helpdesk", "sepsis", "receipt", "travel", "bpic2013", "bpic2012w", "bpic2012", "traffic")


# --- Monitors on sequences


def _samples(pool: Pool, labels: Any, ends: bool) -> Any:
    """A recording whose labels are `labels`; without times every sequence ends in a state of its own."""
    from somcot import Samples

    place = np.full(max(pool.n_labels, int(labels.max()) + 1), -1)
    place[labels] = np.arange(len(labels))
    states: tuple[Any, ...] = tuple(int(x) for x in labels)
    codes, offsets = place[pool.codes], pool.offsets
    if ends:
        last = len(labels)
        codes = np.insert(codes, offsets[1:], last)
        offsets, states = offsets + np.arange(pool.n + 1), (*states, "end")
    keep_now, keep_following = np.ones(len(codes), bool), np.ones(len(codes), bool)
    keep_now[offsets[1:] - 1] = False
    keep_following[offsets[:-1]] = False
    more: dict[str, Any] = {}
    if pool.times is not None:
        from somcot.recorded.recording import EventTimes

        more["times"] = EventTimes(pool.times, "numbers")
    return Samples(
        states, codes[keep_now], codes[keep_following], offsets=offsets - np.arange(pool.n + 1),
        terminated=np.full(pool.n, True) if ends else None, **more,
    )  # fmt: skip


def _without_short(pool: Pool) -> Pool:
    return pool.part(np.flatnonzero(np.diff(pool.offsets) >= 2))


def monitored(
    reference: Pool, stream: Pool, level: float | None, horizon: float, labels: str = "found"
) -> tuple[Any, Any]:
    """A monitor that has seen the stream, and the sequence of each event; P(alarm within `horizon`) <= level.

    Without a level, one false alarm per `horizon` sequences is promised.
    """
    from somcot import Monitor

    timed = stream.times is not None
    seen = np.unique(reference.codes) if labels == "found" else np.arange(reference.n_labels)
    data = _samples(reference, seen, not timed)
    promise: dict[str, Any] = {"false_alarm": level, "within": round(horizon), "unit": "sequences"}
    if level is None:
        promise = {"one_false_alarm_per": horizon, "unit": "sequences"}
    elif "unit" not in (Monitor.__init__.__kwdefaults__ or {}):  # the former version counts events
        promise = {"false_alarm": level, "within": round(horizon * (len(data.now) / data.n_episodes + 1))}
    monitor = Monitor(data, discount=0.9, window=2000, **promise)
    names = np.repeat(np.arange(stream.n), np.diff(stream.offsets))
    codes, times = stream.codes, stream.times
    if timed:
        order = np.argsort(times, kind="stable")
        codes, names, times = codes[order], names[order], times[order]
        encoded = monitor.codes(codes.tolist())
    else:
        labels_of: list[Any] = codes.tolist()
        ends = stream.offsets[1:]
        encoded = np.insert(monitor.codes(labels_of), ends, monitor.codes(["end"])[0]).astype(np.int32)
        names, times = np.insert(names, ends, np.arange(stream.n)), np.zeros(0)
    monitor.take(encoded, names.astype(np.uint64), times, dated=False if timed else None)
    return monitor, names


def null_run(pool: Pool, size: int, rng: np.random.Generator, labels: str = "found") -> dict[str, Any]:
    """One stream without a change: sequences permuted over their start times, inner gaps kept."""
    n_ref = size or min(pool.n // 2, HALF)
    n_stream = min(pool.n - n_ref, 1000)
    mixed = pool.part(rng.permutation(pool.n)[: n_ref + n_stream])
    if pool.times is not None:
        starts = np.sort(rng.choice(pool.times[pool.offsets[:-1]], n_ref + n_stream, replace=False))
        own = np.repeat(mixed.times[mixed.offsets[:-1]], np.diff(mixed.offsets))
        mixed = mixed._replace(times=mixed.times - own + np.repeat(starts, np.diff(mixed.offsets)))
    reference, stream = mixed.part(np.arange(n_ref)), mixed.part(np.arange(n_ref, n_ref + n_stream))
    if reference.times is not None:  # the recording ends where the stream begins
        reference = _cut_at(reference, float(stream.times[0]))
    monitor, _ = monitored(_without_short(reference), stream, BOUND, n_stream, labels)
    alarm = monitor.alarm
    return {"alarm": alarm is not None, "what": getattr(alarm, "what", ""), "kind": monitor.detector,
            "half": bool(monitor.evidence > 0.1)}  # fmt: skip


def _cut_at(pool: Pool, moment: float) -> Pool:
    """What was recorded before a moment."""
    owner = np.repeat(np.arange(pool.n), np.diff(pool.offsets))
    kept = pool.times < moment
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner[kept], minlength=pool.n))])
    return Pool(pool.codes[kept], offsets, pool.times[kept], pool.n_labels)


def task_null(out: Path, logs: Path | None, runs: int) -> None:
    """Every run has a reference size in turn; families also with all labels given."""
    cases = [*(f"log {name}" for name in LOGS if logs), *(f"family {name}" for name in (*UNSEEN, *MEMORY))]
    pools = {case: read_log(case[4:], logs) if case[:3] == "log" and logs else family(case[7:]) for case in cases}
    for end in range(100, runs + 100, 100):  # in rounds, so that no case is left behind
        for case, pool in pools.items():
            of_log = case[:3] == "log"
            sizes = [s for s in REFERENCES["logs" if of_log else "families"] if s < 0.7 * pool.n]
            for run in range(_done(out / "null.jsonl", case), min(end, runs)):
                rng = np.random.default_rng([run, *case.encode()])
                size = sizes[run % len(sizes)]
                labels = "given" if not of_log and run // len(sizes) % 2 else "found"
                _write(out / "null.jsonl", {"case": case, "run": run, "size": size, "labels": labels,
                                            **null_run(pool, size, rng, labels)})  # fmt: skip


def _endless(name: str, n: int, rng: np.random.Generator) -> Any:
    from somcot import MarkovChain

    if name == "hidden":  # not Markov
        slow = MarkovChain([[0.98, 0.02], [0.02, 0.98]]).sample(1, n, rng=rng).now
        return np.where(rng.random(n) < np.where(slow == 0, 0.2, 0.7), 1, 0) + 2 * (rng.random(n) < 0.3)
    if name == "skewed20":
        own = np.random.default_rng(3)
        P = np.array([own.permutation(zipf(20, 2.0)) for _ in range(20)])
    else:
        size = int(name[-3:] if name[-3:].isdigit() else name[-2:])
        up, stay = {"queue30": (0.45, 0.0), "queue100": (0.48, 0.0), "ring40": (0.05, 0.9)}[name]
        P = np.zeros((size, size))
        for i in range(size):
            ring = name.startswith("ring")
            P[i, (i + 1) % size if ring else min(i + 1, size - 1)] += up
            P[i, (i - 1) % size if ring else max(i - 1, 0)] += 1.0 - up - stay
            P[i, i] += stay
    return MarkovChain(P, 0, normalize=True).sample(1, n, rng=rng).now


def task_endless(out: Path, runs: int) -> None:
    """One endless sequence of 10,000 events after a recording."""
    from somcot import Monitor, Samples

    for name in ENDLESS:
        for run in range(_done(out / "endless.jsonl", name), runs):
            rng = np.random.default_rng([run, *name.encode()])
            size = REFERENCES["endless"][run % 3]
            path = _endless(name, size + 10_001, rng).tolist()
            data = Samples.from_trajectories([path[:size]])
            monitor = Monitor(data, discount=0.9, false_alarm=BOUND, within=10_000, window=2000)
            monitor.update(path[size:])
            _write(out / "endless.jsonl", {"case": name, "run": run, "size": size, "alarm": monitor.alarm is not None,
                                           "kind": monitor.detector})  # fmt: skip


def task_lengths(out: Path, logs: Path | None, runs: int) -> None:
    """Sequences in random order, one after the other with their ends, after a reference of 300 of them."""
    file = out / "lengths.jsonl"
    pools = {case: read_log(case[4:], logs) if case[:3] == "log" and logs else family(case[7:])
             for case in LENGTHS if logs or case[:3] != "log"}  # fmt: skip
    for run in range(runs):
        for case, pool in pools.items():
            if run < _done(file, case):
                continue
            rng = np.random.default_rng([run, *case.encode(), 1])
            mixed = pool._replace(times=None).part(rng.permutation(pool.n)[: 300 + STOP])
            reference, stream = mixed.part(np.arange(300)), mixed.part(np.arange(300, mixed.n))
            monitor, names = monitored(_without_short(reference), stream, None, PER)
            alarm = monitor.alarm
            length = stream.n if alarm is None else int(names[alarm.event - 1]) + 1
            _write(file, {"case": case, "run": run, "length": length, "alarm": alarm is not None})


# --- Delays

DELAY_CASES = ("log helpdesk", "log sepsis", "log receipt", "log bpic2012", "log bpic2013", "log traffic",
               "log bpic2012w", "family shop12", "family sparse40", "family kinds", "family order3")  # fmt: skip
BEFORE, AFTER, DELAY_REFERENCE = 300, 1500, 3000


def changed_streams(case: str, logs: Path | None, change: str, run: int) -> tuple[Pool, Pool, int, int]:
    """Reference, stream, the number of sequences before the change and after it."""
    kind, name = case.split()
    pool = (read_log(name, logs) if kind == "log" and logs else family(name))._replace(times=None)
    rng = np.random.default_rng([run, *case.encode(), *change.encode()])
    n_ref = min(DELAY_REFERENCE, pool.n // 2)
    n_before = min(BEFORE, (pool.n - n_ref) // 4)
    n_after = min(AFTER, pool.n - n_ref - n_before)
    mixed = pool.part(rng.permutation(pool.n)[: n_ref + n_before + n_after])
    reference = mixed.part(np.arange(n_ref))
    paths = mixed.part(np.arange(n_ref, mixed.n)).paths()
    after = CHANGES[change](paths[n_before:], reference.paths(), rng)
    stream = pool_of([path for path in [*paths[:n_before], *after] if len(path) >= 2], 10**6 + 1)
    n_short = sum(len(path) < 2 for path in paths[:n_before])
    return reference, stream, n_before - n_short, n_after


def task_delays(out: Path, logs: Path | None, runs: int, former: bool) -> None:
    """Sequences until the alarm, one after the other with their ends; negative before the change, none if missed."""
    file = out / ("delays_former.jsonl" if former else "delays.jsonl")
    for case in DELAY_CASES:
        for change in CHANGES:
            for run in range(_done(file, f"{case} {change}"), runs):
                reference, stream, n_before, n_after = changed_streams(case, logs, change, run)
                monitor, names = monitored(reference, stream, BOUND, n_before + n_after)
                alarm = monitor.alarm
                delay = None if alarm is None else int(names[alarm.event - 1]) + 1 - n_before
                _write(file, {"case": f"{case} {change}", "run": run, "delay": delay, "n": n_after,
                              "what": getattr(alarm, "what", "") if alarm else ""})  # fmt: skip


def task_oracle(out: Path, runs: int) -> None:
    """The sum of likelihood ratios that knows both processes, for the Markov families; changes of known kernels."""
    for name in ("shop12", "sparse40"):
        P, start, ends = chain_of(name)
        n = len(P)
        heavy = int(np.argsort(-(start @ np.linalg.inv(np.eye(n) - P * (1 - ends[:, None]))))[1])
        others = {"one row": P.copy(), "all rows 3 %": 0.97 * P + 0.03 * (start @ P), "exits + 4 %": P, "initial": P}
        others["one row"][heavy] = 0.6 * P[heavy] + 0.4 * (P[heavy] > 0) / (P[heavy] > 0).sum()
        for change, Q in others.items():
            starts2 = 0.7 * start + 0.3 * np.eye(n)[heavy] if change == "initial" else start
            ends2 = np.minimum(ends + 0.04, 1.0) if change == "exits + 4 %" else ends
            case = f"family {name} {change}"
            for run in range(_done(out / "oracle.jsonl", case), runs):
                rng = np.random.default_rng([run, *case.encode()])
                reference = pool_of(markov_sessions(P, start, ends, DELAY_REFERENCE, rng), n)
                paths = [*markov_sessions(P, start, ends, BEFORE, rng), *markov_sessions(Q, starts2, ends2, AFTER, rng)]
                R, oracle = 0.0, None
                for k, path in enumerate(paths):
                    log = math.log(starts2[path[0]] / start[path[0]])
                    for t, (i, j) in enumerate(itertools.pairwise(path)):
                        log += math.log(Q[i, j] / P[i, j])
                        if t:
                            log += math.log((1 - ends2[i]) / (1 - ends[i]))
                    if len(path) < 400:
                        log += math.log(ends2[path[-1]] / ends[path[-1]])
                    R = (R + 1.0) * math.exp(min(log, 500.0))
                    if R >= (BEFORE + AFTER) / BOUND:
                        oracle = k + 1 - BEFORE
                        break
                monitor, names = monitored(reference, pool_of(paths, n), BOUND, BEFORE + AFTER)
                alarm = monitor.alarm
                ours = None if alarm is None else int(names[alarm.event - 1]) + 1 - BEFORE
                _write(out / "oracle.jsonl", {"case": case, "run": run, "oracle": oracle, "ours": ours})


def task_river(out: Path, logs: Path | None, runs: int) -> None:
    """River's detectors with their default settings, on the surprise of each sequence under the reference's steps."""
    from river import drift

    for case in DELAY_CASES[:7]:
        for change in CHANGES:
            for run in range(_done(out / "river.jsonl", f"{case} {change}"), runs):
                reference, stream, n_before, _ = changed_streams(case, logs, change, run)
                counts: dict[tuple[int, int], int] = {}
                visits: dict[int, int] = {}
                for path in reference.paths():
                    for i, j in zip([-1, *path], [*path, -2], strict=True):
                        counts[i, j] = counts.get((i, j), 0) + 1
                        visits[i] = visits.get(i, 0) + 1
                loss = [
                    sum(-math.log((counts.get((i, j), 0) + 0.5) / (visits.get(i, 0) + 1.0))
                        for i, j in zip([-1, *path], [*path, -2], strict=True))
                    for path in stream.paths()
                ]  # fmt: skip
                found: dict[str, int | None] = {}
                for name in ("ADWIN", "KSWIN", "PageHinkley"):
                    detector: Any = getattr(drift, name)(**({"seed": 0} if name == "KSWIN" else {}))
                    found[name] = None
                    for k, value in enumerate(loss):
                        detector.update(value)
                        if detector.drift_detected:
                            found[name] = k + 1 - n_before
                            break
                _write(out / "river.jsonl", {"case": f"{case} {change}", "run": run, **found})


# --- Drift, speed and memory


def task_drift(out: Path, logs: Path | None, runs: int) -> None:
    """Six periods of a log with permuted starts; then the fourth of them changed."""
    import warnings

    import somcot

    assert logs is not None
    pools = {name: read_log(name, logs)._replace(times=None) for name in DRIFTS}
    for end in range(5, runs + 5, 5):  # in rounds, so that no case is left behind
        for name, case in itertools.product(DRIFTS, ("null", "lost step", "new label 20 %")):
            key, pool = f"{name} {case}", pools[name]
            most = runs if case == "null" else max(runs // 6, 1)  # a rate of 0.05 needs more runs than a change
            for run in range(_done(out / "drift.jsonl", key), min(end, most)):
                rng = np.random.default_rng([run, *key.encode()])
                mixed = pool.part(rng.permutation(pool.n)[:900])
                paths = mixed.paths()
                part = len(paths) // 6
                groups = [paths[k * part : (k + 1) * part] for k in range(6)]
                if case != "null":
                    groups[3] = [p for p in CHANGES[case](groups[3], paths, rng) if len(p) > 1]
                labels = np.unique([c for group in groups for path in group for c in path])
                width = int(labels.max()) + 1
                periods = {f"{k}": _samples(pool_of(g, width), labels, True) for k, g in enumerate(groups)}
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = somcot.drift(periods, discount=0.9, rng=run)
                marked = sorted({(c.period, c.against) for c in result.alarms})
                _write(out / "drift.jsonl", {"case": key, "run": run, "alarm": result.alarm, "marked": marked})


def task_speed(out: Path, logs: Path | None, former: bool) -> None:
    """Millions of events per CPU second, best of three."""
    file = out / ("speed_former.jsonl" if former else "speed.jsonl")
    for case in ("log bpic2012", "log traffic", "log helpdesk", "family shop12", "family wide300"):
        if _done(file, case):
            continue
        kind, name = case.split()
        pool = (read_log(name, logs) if kind == "log" and logs else family(name))._replace(times=None)
        rng = np.random.default_rng(0)
        n_ref = min(5000, pool.n // 2)
        reference = pool.part(rng.permutation(pool.n)[:n_ref])
        stream = pool.part(rng.integers(0, pool.n, 60_000))
        best = math.inf
        for _ in range(4):
            from somcot import Monitor

            seen = np.unique(reference.codes)
            monitor = Monitor(_samples(reference, seen, True), discount=0.9, one_false_alarm_per=1e150, window=2000)
            codes = np.insert(monitor.codes(stream.codes.tolist()), stream.offsets[1:], len(seen)).astype(np.int32)
            names = np.repeat(np.arange(stream.n), np.diff(stream.offsets) + 1).astype(np.uint64)
            monitor.take(codes[:1000], names[:1000] + np.uint64(2**40), np.zeros(0))
            began = time.process_time()
            monitor.take(codes, names, np.zeros(0))
            best = min(best, time.process_time() - began)
        _write(file, {"case": case, "events": len(codes), "million_per_second": len(codes) / best / 1e6})


def task_memory(out: Path, n_events: int) -> None:
    """Resident memory while 5,000 sequences at a time are open."""
    from somcot import Monitor

    pool = family("shop12")
    monitor = Monitor(_samples(pool.part(np.arange(5000)), np.unique(pool.codes), True), discount=0.9,
                      one_false_alarm_per=1e150)  # fmt: skip
    rng, done, key, block = np.random.default_rng(0), 0, 0, 200_000
    lanes, lane = [np.zeros(0, np.int32)] * 5000, 0
    end = len(monitor.states) - 1
    paths = [np.append(np.array(p, np.int32), np.int32(end)) for p in pool.paths()]
    names = np.arange(5000, dtype=np.uint64)
    key = 5000
    while done < n_events:
        codes, keys = np.empty(block, np.int32), np.empty(block, np.uint64)
        for t in range(block):
            lane = (lane + 1) % 5000
            if not len(lanes[lane]):
                lanes[lane] = paths[int(rng.integers(len(paths)))]
                names[lane] = key
                key += 1
            codes[t], keys[t] = lanes[lane][0], names[lane]
            lanes[lane] = lanes[lane][1:]
        for _ in range(50):  # the same block with other names
            monitor.take(codes, keys, np.zeros(0))
            keys = keys + np.uint64(2**32)
            done += block
            if done % (10 * block) == 0:
                size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                _write(out / "memory.jsonl", {"case": "memory", "events": done, "megabytes": size,
                                              "sequences": monitor.n_sequences, "open": monitor.n_open})  # fmt: skip
            if done >= n_events:
                break


# --- Files


def _done(file: Path, case: str) -> int:
    return sum(row["case"] == case for row in _rows(file))


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    if file.exists():
        for line in file.read_text().splitlines():
            yield json.loads(line)


def _write(file: Path, row: dict[str, Any]) -> None:
    with file.open("a") as stream:
        stream.write(json.dumps(row) + "\n")


def main() -> None:
    """Run one task."""
    parser = argparse.ArgumentParser(prog="benchmarks.alarms", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "task", choices=["null", "endless", "lengths", "delays", "oracle", "river", "drift", "speed", "memory"]
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--events", type=int, default=100_000_000)
    parser.add_argument("--former", help="folder of the sources of a former version")
    args = parser.parse_args()
    if args.former:
        sys.path.insert(0, args.former)
    args.out.mkdir(parents=True, exist_ok=True)
    former = args.former is not None
    {
        "null": lambda: task_null(args.out, args.logs, args.runs),
        "endless": lambda: task_endless(args.out, args.runs),
        "lengths": lambda: task_lengths(args.out, args.logs, args.runs),
        "delays": lambda: task_delays(args.out, args.logs, args.runs, former),
        "oracle": lambda: task_oracle(args.out, args.runs),
        "river": lambda: task_river(args.out, args.logs, args.runs),
        "drift": lambda: task_drift(args.out, args.logs, args.runs),
        "speed": lambda: task_speed(args.out, args.logs, former),
        "memory": lambda: task_memory(args.out, args.events),
    }[args.task]()


if __name__ == "__main__":
    main()
