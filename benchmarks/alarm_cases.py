"""Public logs, families of sessions and changes for ``benchmarks.alarms``, written down before any of them was run."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Log(NamedTuple):
    """A public log: the repository and file, its sum, and the columns of sequence, time and state."""

    repository: str
    path: str
    digest: str
    columns: tuple[str, str, str] | None
    delimiter: str = ","


LOGS = {
    "helpdesk": Log("verenich/ProcessSequencePrediction", "data/helpdesk.csv",
                    "1306e06414481a1debd845ea760b5ce8331d087ddc67d7f7ec300b4bea3f41b7",
                    ("CaseID", "CompleteTimestamp", "ActivityID")),
    "bpic2013": Log("verenich/ProcessSequencePrediction", "data/bpi_13_incidents.csv",
                    "8b0d8d03235edc8085e1620365bc8eaf9b7db0f8b5f022fbaaa93104c33c902e",
                    ("CaseID", "CompleteTimestamp", "ActivityID")),
    "bpic2012w": Log("verenich/ProcessSequencePrediction", "data/bpi_12_w.csv",
                     "11a936ee00eb159df7c971da7f12209ed395b71398e53c21ed4883cd0fe3be4d",
                     ("CaseID", "CompleteTimestamp", "ActivityID")),
    "sepsis": Log("bupaverse/eventdataR", "data-raw/sepsis.csv",
                  "c805386f9e398afbb4f74c711f28e3292c8fb74beeb27a14bba87c841171cf61",
                  ("Case ID", "Complete Timestamp", "Activity"), ";"),
    "receipt": Log("pm4py/pm4py-core", "tests/input_data/receipt.csv",
                   "8d00a7d15e02796ae262336d304a7265a158956e8914aeb8ee2242f37d778854",
                   ("case:concept:name", "time:timestamp", "concept:name")),
    "bpic2012": Log("pm4py/pm4py-core", "tests/input_data/bpic2012.xes.gz",
                    "fdc916898cd56f0fb65f0c6c2f69140e6345fe9fc8be2ef1dde0647107db050b", None),
    "traffic": Log("nkwachiabel/Process-Mining-Road-Traffic-Fine-Management",
                   "Data/Road_Traffic_Fine_Management_Process.xes.gz",
                   "dc9e0e65c964c8ce2a720687ecf17d8204a5cced5db2267c717ed39ada665da8", None),
    "travel": Log("rhnfzl/performance-analysis-of-international-travel-bpic2020",
                  "Part 1 - Declarations_rejected_at_least_once.xes",
                  "c4f87d07e744cecfc49ac1dc25fb3462eac17c597d04d69f1f4211a16c01b539", None),
    "wiki": Log("muhilaru/Wikispeedia", "data/paths_unfinished.tsv",
                "499cf277fc4031034b3d47af775b32b4caf500c7c321c92357ba8688c755ff39", None),
}  # fmt: skip


class Pool(NamedTuple):
    """Sequences of labels; with times, in the order of their starts."""

    codes: Any
    offsets: Any
    times: Any = None
    n_labels: int = 0

    @property
    def n(self) -> int:
        """Number of sequences."""
        return len(self.offsets) - 1

    def part(self, chosen: Any) -> Pool:
        """Some sequences, in this order."""
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths)
        return Pool(self.codes[places], offsets, None if self.times is None else self.times[places], self.n_labels)

    def paths(self) -> list[list[int]]:
        """As lists."""
        codes = self.codes.tolist()
        return [codes[a:b] for a, b in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)]


def pool_of(paths: list[list[int]], n_labels: int, times: Any = None) -> Pool:
    """Sequences of at least two labels."""
    offsets = np.concatenate([[0], np.cumsum([len(path) for path in paths])])
    return Pool(np.array([c for path in paths for c in path], dtype=np.int64), offsets, times, n_labels)


def read_log(name: str, folder: Path) -> Pool:
    """A log as sequences with times in seconds, in the order of their starts; wiki has none."""
    log = LOGS[name]
    kept = folder / f"{name}.npz"
    if kept.exists():
        held = np.load(kept)
        return Pool(held["codes"], held["offsets"], held.get("times"), int(held["n"]))
    file = folder / log.path.rpartition("/")[2]
    data = file.read_bytes()
    if hashlib.sha256(data).hexdigest() != log.digest:
        raise ValueError(f"{file}: is not the file of {log.repository}; its sum differs")
    pool = _read_wiki(data) if name == "wiki" else _read_events(file, log)
    times = {} if pool.times is None else {"times": pool.times}
    np.savez(kept, codes=pool.codes, offsets=pool.offsets, n=pool.n_labels, **times)
    return pool


def _read_wiki(data: bytes) -> Pool:
    rows = [line.split("\t")[3].split(";") for line in data.decode().splitlines() if line and line[0] != "#"]
    paths = [row for row in rows if len(row) >= 2]
    names = {name: k for k, name in enumerate(sorted({page for path in paths for page in path}))}
    return pool_of([[names[page] for page in path] for path in paths], len(names))


def _read_events(file: Path, log: Log) -> Pool:
    from somcot.readers import from_table, from_xes

    if log.columns is None:
        data = from_xes(file, keep_times=True)
    else:
        import pandas as pd

        table = pd.read_csv(file, sep=log.delimiter, usecols=list(log.columns), dtype=str, keep_default_na=False)
        sequence, when, state = log.columns
        table[when] = pd.to_datetime(table[when], format="mixed", utc=True)
        data = from_table(table, sequence=sequence, time=when, state=state, keep_times=True)
    assert data.offsets is not None
    assert data.times is not None
    offsets = data.offsets + np.arange(data.n_episodes + 1)
    first = np.zeros(data.n_transitions + data.n_episodes, dtype=bool)
    first[offsets[:-1]] = True
    codes = np.empty(len(first), dtype=np.int64)
    codes[first], codes[~first] = data.now[data.offsets[:-1]], data.following
    pool = Pool(codes, offsets, data.times.values / 1e6, data.n_states)
    return pool.part(np.argsort(pool.times[offsets[:-1]], kind="stable"))


# --- Families: sessions with unseen labels, sessions with memory, and endless sequences. Written down first.


def markov_sessions(
    P: Any, start: Any, exits: Any, n: int, rng: np.random.Generator, longest: int = 400
) -> list[list[int]]:
    """Sessions of a chain that end with a probability in each state, after at least two events."""
    cumulative, first = np.cumsum(P, axis=1), np.cumsum(start)
    paths = []
    for _ in range(n):
        u = rng.random(2 * longest)
        path = [min(int(np.searchsorted(first, u[0])), len(P) - 1)]
        for t in range(1, longest):
            if t > 1 and u[2 * t - 1] < exits[path[-1]]:
                break
            path.append(min(int(np.searchsorted(cumulative[path[-1]], u[2 * t])), len(P) - 1))
        paths.append(path)
    return paths


def zipf(n: int, power: float) -> Any:
    weights = 1.0 / np.arange(1, n + 1) ** power
    return weights / weights.sum()


def chain_of(name: str) -> tuple[Any, Any, Any]:
    """Kernel, initial distribution and exits of the Markov families."""
    rng = np.random.default_rng(int(hashlib.sha256(name.encode()).hexdigest()[:8], 16))
    if name == "zipf60":  # many rare labels
        return np.array([rng.permutation(zipf(60, 1.6)) for _ in range(60)]), zipf(60, 1.2), np.full(60, 0.18)
    if name == "ladder30":  # high levels are seldom reached
        P = np.zeros((30, 30))
        for i in range(30):
            P[i, min(i + 1, 29)] += 0.42
            P[i, max(i - 1, 0)] += 0.58
        return P, np.eye(30)[0], np.full(30, 0.05)
    if name == "wide300":
        return np.array([rng.permutation(zipf(300, 1.3)) for _ in range(300)]), zipf(300, 1.0), np.full(300, 0.25)
    if name == "tree64":  # from a node to its children, back to the root
        P = np.zeros((64, 64))
        for i in range(64):
            children = [c for c in (2 * i + 1, 2 * i + 2) if c < 64]
            P[i, 0] += 0.3 if children else 1.0
            P[i, children] += rng.dirichlet(np.full(len(children), 0.4)) * 0.7 if children else 0.0
        return P, np.eye(64)[0], np.full(64, 0.08)
    if name == "sparse40":
        P = np.zeros((40, 40))
        for i in range(40):
            P[i, rng.choice(40, 4, replace=False)] = rng.dirichlet(np.full(4, 0.3))
        return P, zipf(40, 2.0), rng.uniform(0.02, 0.3, 40)
    n = {"shop12": 12, "dense6": 6}[name]
    return rng.dirichlet(np.full(n, 0.6), n), rng.dirichlet(np.full(n, 0.5)), np.full(n, 0.12)


def _with_memory(name: str, n: int, rng: np.random.Generator) -> list[list[int]]:
    """Sessions whose next event depends on more than the last."""
    paths: list[list[int]] = []
    if name == "kinds":  # three kinds of users
        parts = [markov_sessions(rng.dirichlet(np.full(8, 0.4), 8), rng.dirichlet(np.ones(8)), np.full(8, x), n, rng)
                 for x in (0.05, 0.15, 0.4)]  # fmt: skip
        return [parts[int(k)][i] for i, k in enumerate(rng.choice(3, n, p=[0.2, 0.5, 0.3]))]
    table = rng.dirichlet(np.full(6, 0.3), (6, 6))
    if name == "order3":
        table = rng.dirichlet(np.full(6, 0.25), (6, 6, 6))
    hidden = np.array([[0.92, 0.06, 0.02], [0.05, 0.9, 0.05], [0.02, 0.08, 0.9]])
    shown = rng.dirichlet(np.full(9, 0.4), 3)
    for _ in range(n):
        length = 2 + int(rng.geometric(0.12))
        if name == "order3":
            path = rng.integers(0, 6, 3).tolist()
            while len(path) < length:
                path.append(int(rng.choice(6, p=table[path[-3], path[-2], path[-1]])))
        elif name == "hmm":
            state, path = int(rng.integers(0, 3)), []
            for _ in range(length):
                path.append(int(rng.choice(9, p=shown[state])))
                state = int(rng.choice(3, p=hidden[state]))
        elif name == "effects":  # every session has a distribution of its own, and labels that few have
            own = rng.dirichlet(np.full(25, 0.15))
            path = rng.choice(25, length, p=own).tolist()
        elif name == "copies":  # repeats what it did before
            path = [int(x) for x in rng.zipf(1.7, 2) % 40]
            while len(path) < length:
                old = rng.random() < 0.6
                path.append(path[int(rng.integers(len(path)))] if old else int(rng.zipf(1.7) % 40))
        else:  # "tails": lengths without a mean, times in a state too
            length = min(2 + int(rng.pareto(1.1) * 3), 400)
            path = []
            while len(path) < length:
                path += [int(rng.integers(0, 7))] * min(1 + int(rng.pareto(1.3)), 50)
            path = path[:length]
        paths.append(path)
    return paths


UNSEEN = ("zipf60", "ladder30", "wide300", "tree64", "sparse40", "shop12")
MEMORY = ("kinds", "order3", "hmm", "effects", "copies", "tails")
ENDLESS = ("queue30", "ring40", "queue100", "skewed20", "hidden")
FAMILY_POOL = 12_000
REFERENCES = {"logs": (100, 500, 0), "families": (100, 1000, 10_000), "endless": (500, 2000, 20_000)}  # 0: half


def family(name: str) -> Pool:
    """A pool of sessions; every run draws its reference and its stream from it without replacement."""
    rng = np.random.default_rng([7, *name.encode()])
    if name in MEMORY:
        paths = _with_memory(name, FAMILY_POOL, rng)
    else:
        paths = markov_sessions(*chain_of(name), FAMILY_POOL, rng)
    return pool_of(paths, 1 + max(max(path) for path in paths))


# --- Changes


def _row(paths: list[list[int]], rank: int) -> int:
    """A label by its number of visits, among those with several successors."""
    visits: dict[int, int] = {}
    following: dict[int, set[int]] = {}
    for path in paths:
        for i, j in itertools.pairwise(path):
            visits[i] = visits.get(i, 0) + 1
            following.setdefault(i, set()).add(j)
    several = sorted((i for i in visits if len(following[i]) > 1), key=lambda i: (-visits[i], i))
    return several[min(rank, len(several) - 1)]


def lost(paths: list[list[int]], all_: list[list[int]], rng: np.random.Generator) -> list[list[int]]:
    """Half of the events of the third most frequent label are not recorded."""
    gone = _row(all_, 2)
    return [[c for c in path if c != gone or rng.random() > 0.5] or path for path in paths]


def new_label(paths: list[list[int]], all_: list[list[int]], rng: np.random.Generator) -> list[list[int]]:
    """After the most frequent label, 20 % of the events have a label that nobody has seen."""
    i = _row(all_, 0)
    return [[c if t == 0 or path[t - 1] != i or rng.random() > 0.2 else 10**6 for t, c in enumerate(path)]
            for path in paths]  # fmt: skip


def exits(paths: list[list[int]], _all: list[list[int]], rng: np.random.Generator) -> list[list[int]]:
    """After each event from the second on, a sequence ends with another 4 %."""
    return [path[: max(2, int(rng.geometric(0.04)) + 1)] for path in paths]


def initial(paths: list[list[int]], all_: list[list[int]], rng: np.random.Generator) -> list[list[int]]:
    """30 % of the sequences begin with the second most frequent label instead."""
    first = _row(all_, 1)
    return [[first, *path[1:]] if rng.random() < 0.3 else path for path in paths]


def one_row(paths: list[list[int]], all_: list[list[int]], rng: np.random.Generator) -> list[list[int]]:
    """After the second most frequent label, 40 % of the events are one of its successors at random, all alike."""
    i = _row(all_, 1)
    targets = sorted({b for path in all_ for a, b in itertools.pairwise(path) if a == i})
    return [[c if t == 0 or path[t - 1] != i or rng.random() > 0.4 else targets[int(rng.integers(len(targets)))]
             for t, c in enumerate(path)] for path in paths]  # fmt: skip


def all_rows(paths: list[list[int]], all_: list[list[int]], rng: np.random.Generator) -> list[list[int]]:
    """3 % of all events are any event of the log instead."""
    every = [c for path in all_[:2000] for c in path]
    return [[c if rng.random() > 0.03 else every[int(rng.integers(len(every)))] for c in path] for path in paths]


def order(paths: list[list[int]], all_: list[list[int]], rng: np.random.Generator) -> list[list[int]]:
    """The same steps, starts and ends, but each depends on the last event alone."""
    following: dict[int, list[int]] = {}
    for path in all_:
        for i, j in zip([-1, *path], [*path, -2], strict=True):
            following.setdefault(i, []).append(j)
    found: list[list[int]] = []
    while len(found) < len(paths):
        path, last = [], -1
        while last != -2 and len(path) < 400:
            last = following[last][int(rng.integers(len(following[last])))]
            path.append(last)
        if len(path) > 2:
            found.append(path[:-1])
    return found


CHANGES: dict[str, Callable[[list[list[int]], list[list[int]], np.random.Generator], list[list[int]]]] = {
    "lost step": lost, "new label 20 %": new_label, "exits + 4 %": exits, "initial": initial, "one row": one_row,
    "all rows 3 %": all_rows, "order": order,
}  # fmt: skip
