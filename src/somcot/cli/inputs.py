"""Files to named processes with matched labels; a forecast of time and memory, and a suggested discount."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from somcot.chains import MarkovChain
from somcot.cli.options import Reading, flag, takers
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.readers.formats import KINDS, kind_of
from somcot.readers.opening import Input, format_of, identify, read
from somcot.readers.tables.event_tables import fit_bins
from somcot.readers.tables.state_labels import join_rare, note_spellings, spellings, tidy_labels
from somcot.recorded.counts import Counts
from somcot.recorded.labels import listing
from somcot.samples import Samples
from somcot.timed import ContinuousChain

if TYPE_CHECKING:
    from somcot.problem import ChainOrData

__all__ = [
    "NamedProcess",
    "Size",
    "TooLongError",
    "as_text",
    "confirm",
    "confirm_forecast",
    "confirm_pair",
    "csv_label",
    "duration",
    "estimate_size",
    "full_label",
    "known_attributes",
    "match_labels",
    "read_counts",
    "read_groups",
    "read_processes",
    "read_two_groups",
    "readable",
    "suggested_discount",
]


# --- From file names and options to processes with matched labels.

# --- Large folders, counted file by file.

# Bytes of a folder above which only counts are kept. A constant, so that the result does not depend on the machine.
LARGE = 500_000_000
_KNOWN = ("state", "sequence", "time", "reward", "terminated", "initial", "encoding", "delimiter", "time_format")


def read_counts(source: Input, options: Mapping[str, Any]) -> Counts | None:
    """The counts of many large tables, with a note; None for any other input."""
    # A set, as the members of an archive share one path.
    n_bytes = sum(path.stat().st_size for path in {part.path for part in source.parts})
    # Smaller input is read whole, which keeps sequences and supports every option.
    if n_bytes < LARGE or source.format == "traces":
        return None
    from somcot.readers import count_table

    chosen = {name: value for name, value in options.items() if value is not None}
    states = chosen.get("state")
    if isinstance(states, list) and len(states) == 1:
        chosen["state"] = states[0]
    refused = [flag(name) for name in chosen if name not in _KNOWN]
    refused += ["several --state"] if isinstance(chosen.get("state"), list) else []
    refused += ["--terminated COLUMN"] if isinstance(chosen.get("terminated"), str) else []
    if refused:
        raise ValueError(
            f"{source.name}: {n_bytes / 1e9:.1f} GB, so it is counted file by file, which does not support "
            f"{', '.join(refused)}; prepare the columns first, or name a smaller folder"
        )
    warn(Note("counted-in-files", source.name, size=n_bytes / 1e9), DataWarning)
    return count_table([part.path for part in source.parts], **chosen)


# --- Processes from files and options.

_TOGETHER = ("top", "other")  # applied to all files together


class NamedProcess(NamedTuple):
    """A process and its name; a chain in continuous time has `rates`, and `value` is its uniformised chain."""

    name: str
    value: ChainOrData
    rates: ContinuousChain | None = None

    @property
    def process(self) -> ChainOrData | ContinuousChain:
        """The object to pass to the library."""
        return self.rates or self.value


def read_processes(
    paths: Sequence[str], reading: Reading, reward: str | None = None, *, keep_times: bool = False,
    attributes: Sequence[str] = (),
) -> list[NamedProcess]:  # fmt: skip
    """Read each file with the options that apply to it; tables and logs with the times of their rows if wanted.

    `attributes` are columns of tables and logs that describe a sequence; traces and baselines keep theirs anyway.
    """
    if paths.count("-") > 1:
        raise ValueError("standard input: named twice; it can be read only once, so name a file for one of the two")
    sources = [_identified(path, reading.format) for path in paths]
    _refuse_shared_streams(sources)
    kinds = [kind_of(source.format).name for source in sources]
    for name in reading.chosen():
        # An option is refused only if no file can use it, as files may be of different kinds.
        if not any(name in KINDS[kind].options() for kind in kinds):
            files = " and ".join(f"{kind} files" for kind in takers(name))
            raise ValueError(f"{flag(name)}: only for {files}, but {sources[0].name} is {kinds[0]}; leave it out")
    if reading.other is not None and reading.top is None:
        raise ValueError(f"--other {reading.other}: only together with --top N; leave it out")
    if reward is not None and not any("reward" in KINDS[kind].options() for kind in kinds):
        raise ValueError(
            f"--cost reward:{reward}: only tables have reward columns; give the cost as a matrix file, or "
            f"name an attribute of the nodes of graphs: --cost attribute:{reward}"
        )
    # Fitted before any file is read: equal labels must mean equal intervals in all of them.
    bins = _shared_bins(sources, kinds, reading)
    processes = []
    for source, kind in zip(sources, kinds, strict=True):
        # Options that concern all files together are applied after reading.
        options = {name: value for name, value in reading.for_kind(kind).items() if name not in _TOGETHER}
        options |= {n: v for n, v in (("bins", bins), ("reward", reward)) if n in KINDS[kind].options()}
        if keep_times and "keep_times" in KINDS[kind].options():
            options["keep_times"] = True
        if attributes and "attributes" in KINDS[kind].options():
            options["attributes"] = list(attributes)
        together = {name: value for name, value in reading.chosen().items() if name in (*_TOGETHER, "tidy")}
        # Counts keep neither times nor attributes.
        process = (None if keep_times or attributes else read_counts(source, options | together)) or read(
            source, **options
        )
        if isinstance(process, ContinuousChain):
            # At the fastest exit rate, the slowest clock that works; a chain without jumps has none.
            steps = process.uniformised(float(process.exits.max()) or 1.0)
            processes.append(NamedProcess(source.name, steps, process))
        else:
            processes.append(NamedProcess(source.name, process))
    return _with_shared_labels(processes, reading)


def _with_shared_labels(processes: list[NamedProcess], reading: Reading) -> list[NamedProcess]:
    """Merge spellings and rare states of all recordings together, so that equal labels mean the same state."""
    recordings = [p.value for p in processes if isinstance(p.value, Samples)]
    if reading.tidy:
        recordings = tidy_labels(recordings)
    if reading.top is not None and recordings:
        joined = join_rare(recordings, reading.top, other=reading.other or "other")
        before, after = ({label for r in rs for label in r.states} for rs in (recordings, joined))
        if len(after) < len(before):
            n = len(before - after)
            other = repr(reading.other or "other")
            warn(Note("rare-states-joined", n=n, other=other, top=reading.top), DataWarning)
        recordings = joined
    # Recordings return to their places; known chains stay as they are.
    rest = iter(recordings)
    return [p._replace(value=next(rest)) if isinstance(p.value, Samples) else p for p in processes]


_IN_JSON = ("json", "jsonl", "traces")  # formats with the same endings


def _identified(path: str, format: str | None) -> Input:  # noqa: A002
    """The input; `--format` applies to streams, to files without a known ending, and to JSON.

    Several files may be named in one argument, separated by commas.
    """
    known = format_of(path)
    # The ending decides, except among formats that share one.
    wanted = format if known is None or (known in _IN_JSON and format in _IN_JSON) else None
    # Paths joined by commas are one recording, unless a file has that very name.
    if "," in path and not os.path.exists(path) and all(map(os.path.exists, path.split(","))):
        return identify(path.split(","), format)
    return identify(path, wanted)


def _refuse_shared_streams(sources: Sequence[Input]) -> None:
    streams = []
    for stream in (source.stream for source in sources if source.stream is not None):
        with contextlib.suppress(OSError):  # an archive from a pipe is in memory
            streams.append(os.fstat(stream.fileno()))
    # Two names of one pipe, such as /dev/stdin and /dev/fd/0.
    if len(streams) == 2 and os.path.samestat(*streams):
        raise ValueError(f"{sources[0].name}: named twice; it can be read only once, so name a file for one of the two")


def _shared_bins(sources: Sequence[Input], kinds: Sequence[str], reading: Reading) -> Any:
    """Edges of every binned column, fitted to all tables together, so that equal labels mean the same state."""
    if not reading.bins:
        if reading.binning:
            raise ValueError(f"--binning {reading.binning}: only together with --bins COLUMN=N; leave it out")
        return None
    specs = _bin_specs(reading)
    numbers = {name: spec for name, spec in specs.items() if isinstance(spec, int)}
    if numbers:
        tables = [source for source, kind in zip(sources, kinds, strict=True) if kind == "table"]
        once = next((source.name for source in tables if source.path is None and not source.parts), None)
        if once is not None:
            raise ValueError(
                f"--bins: fitting bins reads the data twice, which {once} does not allow; pass edges: COLUMN=0,1,2"
            )
        names = ("encoding", "delimiter", "table", "query", "wide")
        options = {name: value for name, value in reading.chosen().items() if name in names}
        specs |= fit_bins(tables, numbers, binning=reading.binning or "quantile", **options)
    return specs


def _bin_specs(reading: Reading) -> dict[str, Any]:
    specs: dict[str, Any] = {}
    for text in reading.bins or ():
        # The last sign: names of columns may contain "=".
        column, sign, number = text.rpartition("=")
        names = [column] if sign else list(reading.state or ())
        for name in specs.keys() & set(names):
            raise ValueError(f"--bins: {name} is named twice; name each column once")
        if not names:
            raise ValueError(f"--bins {text}: which column? Pass --state COLUMN --bins COLUMN={text}")
        specs |= dict.fromkeys(names, _bin_spec(text, number))
    return specs


def _bin_spec(text: str, number: str) -> int | list[float]:
    try:
        return [float(part) for part in number.split(",")] if "," in number else int(number)
    except ValueError:
        raise ValueError(f"--bins: found {text!r}, expected COLUMN=NUMBER or COLUMN=EDGE,EDGE,...") from None


def read_groups(
    file: str,
    by: str,
    reading: Reading,
    reward: str | None = None,
    attributes: Sequence[str] = (),
    chosen: Sequence[str] | None = None,
) -> dict[Hashable, Samples]:
    """The groups of one file: by a column, or by a period of its times; all, or those that are named."""
    from somcot.readers.tables.groups import FILE_OPTIONS, LEAST, split_table

    source = _identified(file, reading.format)
    kind = kind_of(source.format).name
    if kind not in ("table", "log", "traces"):
        raise ValueError(f"--by: only tables, event logs and traces have columns, but {source.name} is {kind}")
    options = reading.for_kind(kind)
    for name in reading.chosen():
        if name not in options:
            raise ValueError(f"{flag(name)}: not for {KINDS[kind].plural}; leave it out")
    if reading.bins:
        options["bins"] = _bin_specs(reading)
    if reward is not None:
        options["reward"] = reward
    if attributes:
        options["attributes"] = list(attributes)
    groups = split_table(source, by, groups=chosen, **options)
    if len(groups) < 2:
        (only,) = groups
        enough = f"only one group with {LEAST} or more transitions"
        raise ValueError(f"{file}: --by {by} has {enough}, {only!s}; name another column or period")
    assert not set(options) - {*KINDS[kind].options(), *FILE_OPTIONS, "attributes"}
    return groups


def read_two_groups(
    file: str,
    by: str,
    chosen: Sequence[str] | None,
    reading: Reading,
    reward: str | None = None,
    attributes: Sequence[str] = (),
) -> tuple[NamedProcess, NamedProcess]:
    """Two groups of one file: those that are named, or the only two."""
    from somcot.readers.tables.groups import PERIODS

    groups = read_groups(file, by, reading, reward, attributes, chosen)
    if len(groups) > 2:
        raise ValueError(
            f"--by {by}: {len(groups)} groups, {listing([str(label) for label in groups], 12)}; name two of them with "
            "--groups A B, or compare all with somcot matrix"
        )
    # A period explains itself; the value of a column does not.
    name = "{}" if by in PERIODS else f"{by} {{}}"
    x, y = (NamedProcess(name.format(label), samples) for label, samples in groups.items())
    return x, y


def match_labels(x: NamedProcess, y: NamedProcess, *, compared: bool = True) -> tuple[NamedProcess, NamedProcess]:
    """Make labels comparable: where one side has numbers and the other text, numbers become text.

    Notes about labels are issued only if the cost compares labels (`compared`).

    Examples
    --------
    >>> import somcot, warnings
    >>> chains = somcot.random_walk(2), somcot.MarkovChain([[1, 0], [0, 1]], states=["0", "lost"])
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     x, y = match_labels(NamedProcess("a.npy", chains[0]), NamedProcess("b.csv", chains[1]))
    >>> x.value.states
    ('0', '1')
    """
    numbers = [p for p in (x, y) if any(type(label) is int for label in p.value.states)]
    texts = [p for p in (x, y) if any(isinstance(label, str) for label in p.value.states) and p not in numbers]
    if len(numbers) == 1 and len(texts) == 1:
        if compared:
            warn(Note("numbers-as-text", numbers=numbers[0].name, texts=texts[0].name), DataWarning)
        x, y = (_named_in_text(p) if p is numbers[0] else p for p in (x, y))
    if not compared:
        return x, y
    known = set(x.value.states), set(y.value.states)
    groups = spellings([*x.value.states, *y.value.states])
    # Spellings within one file were noted when it was read.
    across = [label for group in groups if not any(side.issuperset(group) for side in known) for label in group]
    note_spellings(f"{x.name} and {y.name}", across)
    if not set(x.value.states) & set(y.value.states):
        states = {"states_x": listing(x.value.states, 4), "states_y": listing(y.value.states, 4)}
        warn(Note("no-shared-labels", x=x.name, y=y.name, **states), DataWarning)
    return x, y


def _named_in_text(process: NamedProcess) -> NamedProcess:
    value, rates = as_text(process.value), process.rates
    return process._replace(
        value=value, rates=rates and ContinuousChain(rates.rates, rates.initial, states=value.states)
    )


def as_text(process: ChainOrData) -> ChainOrData:
    """The same process with labels that are text.

    Examples
    --------
    >>> import somcot
    >>> as_text(somcot.random_walk(3)).states
    ('0', '1', '2')
    """
    labels = tuple(str(label) for label in process.states)
    if not isinstance(process, MarkovChain):
        return replace(process, states=labels)
    return MarkovChain(
        process.transition, process.initial, states=labels, features=process.features, attributes=process.attributes
    )


def full_label(label: Hashable) -> str:
    """A label as text, with the parts of a tuple joined by commas.

    Examples
    --------
    >>> full_label(("home", 3))
    'home, 3'
    """
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def csv_label(label: Hashable) -> str:
    """A label for a CSV file: with an apostrophe in front where a spreadsheet would run it as a formula.

    Examples
    --------
    >>> csv_label("=1+1"), csv_label(-1), csv_label("home")
    ("'=1+1", '-1', 'home')
    """
    text = full_label(label)
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


# --- Before the computation: a forecast of time and memory, and a suggested discount.

_SWEEPS = 6
_PATIENCE, _ROOM = 60.0, 4e9  # seconds and bytes above which the user has to confirm
_FEW, _MANY = 2.0, 100.0  # least and largest horizon of a suggested discount, in steps


class TooLongError(MemoryError):
    """A long computation was not started because it was not confirmed."""


class Size(NamedTuple):
    """Rough time and memory of one exact solution, or of the several that an estimate from data needs."""

    state_pairs: int
    seconds: float
    n_bytes: float


def estimate_size(x: MarkovChain, y: MarkovChain, *, from_data: bool) -> Size:
    """Estimate from the numbers of states and successors, within a factor of about three on a desktop machine.

    Examples
    --------
    >>> import somcot
    >>> walk = somcot.random_walk(100)
    >>> size = estimate_size(walk, walk, from_data=False)
    >>> size.state_pairs, size.seconds < 1
    (10000, True)
    """
    pairs = x.n_states * y.n_states
    # Mean numbers of successors; a transport problem between k and l of them takes about this many microseconds.
    k, m = (chain.support.indptr[-2] / chain.n_states for chain in (x, y))
    per_pair = 2e-6 + 0.3e-6 * (k + m) + 0.02e-6 * k * m
    solves = 4.0 if from_data else 1.0  # an estimate takes more solves, but the later ones are warm-started
    return Size(pairs, float(solves * _SWEEPS * pairs * per_pair), float(2.5 * pairs * (32.0 * (k + m) + 112.0)))


def confirm_forecast(size: Size, *, yes: bool) -> None:
    """Report a forecast above a minute or 4 GB: ask on a terminal, refuse elsewhere without ``--yes``.

    Examples
    --------
    >>> confirm_forecast(Size(100, 0.1, 1e6), yes=False)
    """
    if yes or (size.seconds <= _PATIENCE and size.n_bytes <= _ROOM):
        return
    forecast = f"about {duration(size.seconds)} and {readable(size.n_bytes)} of memory for {size.state_pairs:,} pairs"
    if _is_terminal():
        sys.stderr.write(f"This will take {forecast} of states.\n")
        confirm("--top N merges rare states, --yes skips this question")
        return
    raise TooLongError(f"this would take {forecast} of states; pass --yes to start, or merge rare states: --top N")


def confirm_pair(x: NamedProcess, y: NamedProcess, *, yes: bool) -> None:
    """Report the forecast of a long computation before it starts."""
    # Unchecked: warnings about few data come with the computation.
    chains = [p.value if isinstance(p.value, MarkovChain) else p.value.chain(check=False) for p in (x, y)]
    known = all(isinstance(p.value, MarkovChain) for p in (x, y))
    confirm_forecast(estimate_size(*chains, from_data=not known), yes=yes)


def confirm(instead: str) -> None:
    """Ask on a terminal whether to start; a batch job cannot answer, so it starts."""
    if not _is_terminal():
        return
    sys.stderr.write("Start? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise TooLongError(f"not started; {instead}")


def _is_terminal() -> bool:
    # The question is written to standard error, and the answer is read from standard input.
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def suggested_discount(processes: Sequence[NamedProcess]) -> float:
    """The discount whose horizon 1 / (1 - discount) is the mean length of a sequence; a note reports it.

    A baseline alone decides: what it is compared with must not change the measure.

    Examples
    --------
    >>> import somcot, warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     suggested_discount([NamedProcess("a.csv", somcot.random_walk(3).sample(10, 8, rng=0))])
    0.88
    """
    baselines = [p for p in processes if p.name.lower().endswith(".somcot")][:1]
    recorded = [p.value for p in baselines or processes if not isinstance(p.value, MarkovChain) and p.value.n_episodes]
    if not recorded:
        raise ValueError(
            "--discount: missing, and there are no sequences whose length could suggest a value; 1 / (1 - discount) is "
            "the number of steps that matter: try 0.9"
        )
    mean = sum(r.n_transitions for r in recorded) / sum(r.n_episodes for r in recorded)
    # Two digits of 1 - discount: more would suggest a precision that the choice does not have.
    discount = round(1.0 - float(f"{1.0 / min(max(mean, _FEW), _MANY):.2g}"), 4)
    of = f" of {baselines[0].name}" if baselines else ""
    warn(Note("discount-chosen", discount=discount, steps=_rounded(mean), of=of), DataWarning)
    return discount


def known_attributes(samples: Samples) -> list[str]:
    """Attributes of sequences of which at least one sequence has a value; readers of traces write "unknown"."""
    known = samples.episode_attributes
    return [name for name, values in known.items() if any(one not in (None, "unknown") for one in values)]


def _rounded(number: float) -> str:
    return f"{number:.3g}" if number < 100 else f"{number:,.0f}"


def duration(seconds: float) -> str:
    """A readable duration.

    Examples
    --------
    >>> duration(0.2), duration(90), duration(5000)
    ('a second or less', '90 s', '83 min')
    """
    if seconds < 1:
        return "a second or less"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def readable(n_bytes: float) -> str:
    """A readable number of bytes.

    Examples
    --------
    >>> readable(2_500_000)
    '2.5 MB'
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.2g} {unit}" if n_bytes < 100 * size else f"{n_bytes / size:.0f} {unit}"
    return f"{n_bytes / 1e3:.0f} kB"
