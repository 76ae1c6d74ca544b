"""Public event logs as recordings: random parts of one log have distance 0, weighted draws from it a known one.

No log is part of this repository. `LOGS` says where each is: a public GitHub repository, the path and the SHA-256 of
the file, and how it is read. `load` looks for a clone of the repository, ``MIRRORS/owner+name``, for example made by
``git clone --bare https://github.com/owner/name MIRRORS/owner+name``, and caches what it has read as integers.

Three kinds of cases come from each log:

* halves: two random halves. The sequences are exchangeable, so the true distance is 0.
* tilt: the log is the population; X is drawn from it with replacement, Y too, but sequences that contain a certain
  activity are three times as likely. The truth is the distance of the weighted counts.
* groups: five random groups and all distances between them.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import subprocess
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

import somcot
from benchmarks.sources import Case, samples
from somcot import MarkovChain, Samples

__all__ = ["LOGS", "Log", "Recorded", "cases", "load"]

Integers = NDArray[np.int64]
Traces = Iterable[list[str]]
END = "(end)"


def xes(content: bytes) -> Traces:
    """Traces of an XES file: names of activities, in the order of the file."""
    raw = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    trace: list[str] = []
    for _, element in ElementTree.iterparse(io.BytesIO(raw)):
        tag = element.tag.rpartition("}")[2]
        if tag == "event":
            trace += [str(item.get("value")) for item in element if item.get("key") == "concept:name"]
            element.clear()
        elif tag == "trace":
            yield trace
            trace = []
            element.clear()


def table(content: bytes, *, case: str, activity: str) -> Traces:
    """Rows of a CSV file; the rows of a case are in order."""
    found: dict[str, list[str]] = {}
    for row in csv.DictReader(io.StringIO(content.decode())):
        found.setdefault(row[case], []).append(row[activity])
    return found.values()


def r_data(content: bytes, *, name: str) -> Traces:
    """An event log of the R package eventdataR; needs the package rdata."""
    from rdata import conversion, parser

    frame = conversion.convert(parser.parse_data(content))[name]
    found: dict[str, list[str]] = {}
    for case, activity in zip(frame["case_id"], frame["activity"], strict=True):
        found.setdefault(str(case), []).append(str(activity))
    return found.values()


def agent(content: bytes) -> Traces:
    """Runs of tau-bench: the tools that an agent calls, and its answers."""
    for run in json.loads(content):
        calls = [message.get("tool_calls") for message in run["traj"] if message["role"] == "assistant"]
        yield [call[0]["function"]["name"] if call else "answer" for call in calls]


def visits(content: bytes) -> Traces:
    """MSNBC: one line of numbered categories for each user, after a header of seven lines."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        lines = archive.read(archive.namelist()[0]).decode().splitlines()
    return (line.split() for line in lines[7:] if line.strip())


def clicks(content: bytes) -> Traces:
    """Wikispeedia: first letters of the articles of a path, and clicks on "back"."""
    rows = (line.split("\t") for line in content.decode().splitlines() if line and line[0] != "#")
    return (["back" if page == "<" else page[0].upper() for page in row[3].split(";")] for row in rows)


class Log(NamedTuple):
    """Where a log is and how it is read; `size` limits the sequences of a case, `seeds` its repetitions."""

    repository: str
    path: str
    sha256: str
    read: Callable[[bytes], Traces]
    kinds: str = "halves tilt groups"
    size: int = 4000
    seeds: int = 40


_DISTANCES = "henrikkirchmann/semantic-aware-process-mining-distances"
_RAW = "evaluation/evaluation_of_activity_distances/next_activity_prediction/raw_datasets_that_are_not_evaluated"
_PM4PY = "pm4py/pm4py-core"
_CASES = partial(table, case="CaseID", activity="ActivityID")

LOGS: dict[str, Log] = {
    "domestic": Log(
        _DISTANCES,
        f"{_RAW}/BPI_2020_DomesticDeclarations.xes.gz",
        "0bc3312acf0b9ee5ae6f4ebe9df204005ef11665d62f2d21dd04995161d7532b",
        xes,
    ),
    "international": Log(
        _DISTANCES,
        f"{_RAW}/BPI_2020_InternationalDeclarations.xes.gz",
        "b527c8d06255f4312c6ce8f36f7f4110243d84fd6ca48583cd9b80896c601494",
        xes,
        "halves tilt",
    ),
    "permit": Log(
        _DISTANCES,
        f"{_RAW}/BPI_2020_PermitLog.xes.gz",
        "9e23befe5394c13caff4428c00a6cee08647b1749f270a78cd05d99f861c5a8b",
        xes,
        "halves",
    ),
    "prepaid": Log(
        _DISTANCES,
        f"{_RAW}/BPI_2020_PrepaidTravelCost.xes.gz",
        "d2b0f458fe33b808d7134fd464c051364280e2a56c1ee2136419947f103f26f7",
        xes,
        "halves tilt",
    ),
    "requests": Log(
        _DISTANCES,
        f"{_RAW}/BPI_2020_RequestForPayment.xes.gz",
        "028e2d645153190200b2ea998747efa02cf1beb6f83db62598963cf391f114b1",
        xes,
    ),
    "municipality": Log(
        _DISTANCES,
        f"{_RAW}/BPIC15_1.xes.gz",
        "d5847a409cec1de1b7382b59365aec6af8e53e1c2ac083201e7679c22a6ef525",
        xes,
        "halves tilt",
        seeds=6,  # 400 activities take half a minute
    ),
    "offers": Log(
        _DISTANCES,
        f"{_RAW}/BPI_Challenge_2012_O.xes.gz",
        "df5459ce29d83999221c4de1cf6538f9e963598b3b01ee2b0d4d4d50641749e1",
        xes,
    ),
    "problems": Log(
        _DISTANCES,
        f"{_RAW}/BPIC13_closed_problems.xes.gz",
        "986e957b46bcc7d1b91f2044cd21b7d194feb351123bf96b3099d08ac252e420",
        xes,
    ),
    "tests of software": Log(
        _DISTANCES,
        f"{_RAW}/nasa.xes.gz",
        "5035473fe2c8944f6c13a01fc649846df64d088bd00ca7c8e90edabc0ba018f3",
        xes,
        "halves tilt",
    ),
    "sepsis": Log(
        _DISTANCES, "event_logs/Sepsis.xes.gz", "709c52340306415952811b9b9c5dc6bcc8f8d47d583eba39df9a538459dc543a", xes
    ),
    "loans": Log(
        _PM4PY,
        "tests/input_data/bpic2012.xes.gz",
        "fdc916898cd56f0fb65f0c6c2f69140e6345fe9fc8be2ef1dde0647107db050b",
        xes,
        "halves tilt",
    ),
    "helpdesk": Log(
        _PM4PY,
        "tests/input_data/helpdesk.xes.gz",
        "fb133a5b70711d523bdbb95279d6bd86d975661ad3d23d23129bfe5121cea453",
        xes,
    ),
    "receipt": Log(
        _PM4PY,
        "tests/input_data/receipt.csv",
        "8d00a7d15e02796ae262336d304a7265a158956e8914aeb8ee2242f37d778854",
        partial(table, case="case:concept:name", activity="concept:name"),
    ),
    "incidents": Log(
        "verenich/ProcessSequencePrediction",
        "data/bpi_13_incidents.csv",
        "8b0d8d03235edc8085e1620365bc8eaf9b7db0f8b5f022fbaaa93104c33c902e",
        _CASES,
    ),
    "billing": Log(
        "bupaverse/eventdataR",
        "data/hospital_billing.rda",
        "00d8b1541b37766b6c5d80b5901053a891aafde13223c5dbf98fd98457a709ef",
        partial(r_data, name="hospital_billing"),
    ),
    "fines": Log(
        "nkwachiabel/Process-Mining-Road-Traffic-Fine-Management",
        "Data/Road_Traffic_Fine_Management_Process.xes.gz",
        "dc9e0e65c964c8ce2a720687ecf17d8204a5cced5db2267c717ed39ada665da8",
        xes,
        "halves groups all",
    ),
    "msnbc": Log(
        "numenta/nupic-legacy",
        "examples/prediction/category_prediction/msnbc990928.zip",
        "af10d7be592f66d008026ce2cfd8b7a0259ff1fee36b2d8d9773379c9775c451",
        visits,
        "halves tilt groups all",
        20_000,
    ),
    "wiki": Log(
        "asrtoufa/wikispeedia-paths-dual-hypergraph-features",
        "workspace/wikispeedia/raw_input_data/paths_unfinished.tsv",
        "499cf277fc4031034b3d47af775b32b4caf500c7c321c92357ba8688c755ff39",
        clicks,
    ),
    "agent": Log(
        "sierra-research/tau-bench",
        "historical_trajectories/gpt-4o-airline.json",
        "e9e6c0297660c537f83d4fd9c476ce7a9a86ecd2784874b7bfc13be598e37bfa",
        agent,
        "halves tilt",
    ),
}


class Recorded(NamedTuple):
    """A log as integers: all labels one after another with offsets; the last name is the end of a sequence."""

    labels: Integers
    offsets: Integers
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def part(self, chosen: Integers) -> Samples:
        """Some of the sequences, with the labels that occur in them."""
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.r_[0, np.cumsum(lengths)]
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        labels = self.labels[np.repeat(self.offsets[:-1][chosen], lengths) + within]
        return samples(labels, offsets, np.ones(len(chosen), dtype=np.bool_), None)

    def weighted(self, weights: NDArray[np.float64]) -> MarkovChain:
        """The first-order projection of sequences drawn with these weights."""
        n = len(self.names)
        last = np.zeros(len(self.labels), dtype=np.bool_)
        last[self.offsets[1:] - 1] = True
        pairs = self.labels[~last] * n + np.delete(self.labels, self.offsets[:-1])
        owner = np.repeat(np.arange(len(self)), np.diff(self.offsets))[~last]
        counts = np.bincount(pairs, weights[owner], minlength=n * n).reshape(n, n)
        counts[-1, -1] = 1.0
        first = np.bincount(self.labels[self.offsets[:-1]], weights, minlength=n)
        return MarkovChain(counts / counts.sum(axis=1, keepdims=True), first / first.sum(), states=range(n))

    @property
    def discount(self) -> float:
        """With an effective number of steps like the mean length."""
        return round(float(np.clip(1 - 1 / np.diff(self.offsets).mean(), 0.5, 0.98)), 2)

    def tilt(self) -> NDArray[np.float64]:
        """Weight 3 for sequences with the activity that is in nearest to a quarter of them, 1 for others."""
        owner = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        present = np.unique(self.labels * len(self) + owner)
        share = np.bincount(present // len(self), minlength=len(self.names)) / len(self)
        activity = int(np.abs(share - 0.25).argmin())
        weights = np.ones(len(self))
        weights[present[present // len(self) == activity] % len(self)] = 3.0
        return weights


def content(log: Log, mirrors: Path) -> bytes:
    """The file of a log, from a clone of its repository."""
    place = mirrors / log.repository.replace("/", "+")
    for folder in (place, place / ".git", place / "repo" / ".git", place / "repo"):
        if (folder / "HEAD").exists():
            command = ["git", f"--git-dir={folder}", "show", f"HEAD:{log.path}"]
            return subprocess.run(command, check=True, capture_output=True).stdout
    raise FileNotFoundError(f"{place}: no clone; git clone --bare https://github.com/{log.repository} {place}")


@cache
def load(name: str, folder: Path, mirrors: Path | None = None) -> Recorded:
    """A log from the cache in `folder`, or from a clone in `mirrors`."""
    stored = folder / f"{name.replace(' ', '-')}.npz"
    if not stored.exists():
        if mirrors is None:
            raise FileNotFoundError(f"{stored}: not in the cache; pass --mirrors with clones of the repositories")
        log = LOGS[name]
        raw = content(log, mirrors)
        found = hashlib.sha256(raw).hexdigest()
        if found != log.sha256:
            raise ValueError(f"{log.repository}/{log.path}: SHA-256 is {found}, expected {log.sha256}")
        traces = [[*trace, END] for trace in log.read(raw) if trace]
        names = (*sorted({label for trace in traces for label in trace} - {END}), END)
        codes = {label: code for code, label in enumerate(names)}
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            stored,
            labels=np.array([codes[label] for trace in traces for label in trace], dtype=np.int32),
            offsets=np.cumsum([0, *map(len, traces)]),
            names=np.array(names),
        )
    with np.load(stored) as arrays:
        return Recorded(arrays["labels"].astype(np.int64), arrays["offsets"], tuple(map(str, arrays["names"])))


def _halves(log: Recorded, n: int, rng: np.random.Generator) -> tuple[Samples, Samples]:
    chosen = rng.choice(len(log), 2 * n, replace=False)
    return log.part(chosen[:n]), log.part(chosen[n:])


def _tilt(log: Recorded, weights: NDArray[np.float64], n: int, rng: np.random.Generator) -> tuple[Samples, Samples]:
    every = rng.choice(len(log), n)
    return log.part(every), log.part(rng.choice(len(log), n, p=weights / weights.sum()))


def _groups(log: Recorded, n: int, rng: np.random.Generator) -> list[Samples]:
    return [log.part(part) for part in np.split(rng.choice(len(log), 5 * n, replace=False), 5)]


def cases(folder: Path, mirrors: Path | None = None) -> Iterator[Case]:
    """Halves, tilts and groups of all logs that are in the cache or can be read."""
    for name, origin in LOGS.items():
        log = load(name, folder, mirrors)
        options: dict[str, Any] = {"discount": log.discount, "seeds": origin.seeds}
        n = min(len(log) // 2, origin.size)
        yield Case(f"halves of {name} {n:,}", partial(_halves, log, n), float, **options)
        if "all" in origin.kinds:
            yield Case(f"halves of {name} 50,000", partial(_halves, log, 50_000), float, **options | {"seeds": 8})
        if "tilt" in origin.kinds:
            weights, n = log.tilt(), min(len(log) // 4, 1000)
            truth = partial(_true_tilt, log, weights)
            yield Case(f"tilt of {name} {n:,}", partial(_tilt, log, weights, n), truth, **options)
        if "groups" in origin.kinds:
            n = min(len(log) // 5, origin.size // 4)
            zeros = partial(np.zeros, (5, 5))
            yield Case(f"groups of {name} {n:,}", partial(_groups, log, n), zeros, kind="groups", test=False, **options)


def _true_tilt(log: Recorded, weights: NDArray[np.float64]) -> float:
    x, y = log.weighted(np.ones(len(log))), log.weighted(weights)
    return float(somcot.distance(x, y, discount=log.discount).distance)
