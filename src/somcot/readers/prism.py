"""PRISM's explicit files: transitions (.tra), labels (.lab) and state rewards (.srew) of DTMCs and MDPs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.chains import MarkovChain
from somcot.mdp import MDP
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_text, state_index
from somcot.plumbing.memory import require
from somcot.readers.opening import Input, identify, open_bytes
from somcot.recorded.counts import Start

__all__ = ["from_prism", "read_prism"]

Path_ = str | os.PathLike[str]
_LINE = 1 << 16
_ROW_TOLERANCE = 1e-5  # PRISM may write only six digits


class _PrismRows(NamedTuple):
    """The transitions of a .tra file; choices are None for a DTMC."""

    name: str
    n: int
    sources: NDArray[np.int64]
    choices: NDArray[np.int64] | None
    targets: NDArray[np.int64]
    probabilities: Floats
    actions: dict[tuple[int, int], str]


def from_prism(
    transitions: Path_ | Input,
    *,
    labels: Path_ | None = None,
    rewards: Path_ | None = None,
    initial: Hashable | ArrayLike | None = None,
    missing: str = "error",
) -> MarkovChain | MDP:
    r"""Read PRISM's explicit files (``-exportmodel``): a DTMC as a chain, an MDP as a decision process.

    Parameters
    ----------
    transitions : path
        The .tra file. States keep their numbers.
    labels, rewards : path, optional
        The .lab and .srew files; by default those with the same name in the same folder, if any.
    initial : state or array_like, optional
        Initial distribution; by default uniform over the states labelled "init", or else state 0.
    missing : {"error", "repeat"}
        What to do if states of an MDP have different choices: refuse, or let a state repeat its first choice for
        each missing one. That changes no optimal value, but the metric compares the repeated choice with the real one.

    Returns
    -------
    MarkovChain or MDP
        Rewards become the ``features`` of a chain, or the rewards of all actions of an MDP in a state. Each label
        becomes one of the ``attributes`` of a chain, 1 for states with the label and 0 for others.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "coin.tra")
    >>> _ = file.write_text("3 4\n0 1 0.5\n0 2 0.5\n1 1 1\n2 2 1\n")
    >>> _ = file.with_suffix(".lab").write_text('0="init" 1="heads"\n0: 0\n1: 1\n')
    >>> chain = from_prism(file)
    >>> chain.transition.toarray()[0], chain.attributes["heads"]
    (array([0. , 0.5, 0.5]), (0, 1, 0))
    """
    check_text("missing", missing, "error", "repeat")
    source = transitions if isinstance(transitions, Input) else identify(transitions, "tra")
    rows = _transitions(source)
    marks = _labels(_companion(source, labels, ".lab"), rows.n)
    earned = _rewards(_companion(source, rewards, ".srew"), rows.n)
    start = _start(initial, marks, rows.n)
    if rows.choices is not None:
        return _mdp(rows, earned, start, missing)
    from scipy.sparse import coo_array

    sums = np.bincount(rows.sources, rows.probabilities, rows.n).astype(np.float64)
    _check_sums(rows.name, sums, lambda s: f"state {s}")
    matrix = coo_array((rows.probabilities / sums[rows.sources], (rows.sources, rows.targets)), shape=(rows.n, rows.n))
    return MarkovChain(matrix.tocsr(), start, features=earned, attributes=marks or None, normalize=True)


def read_prism(
    path: Path_ | Input,
    *,
    initial: Hashable | ArrayLike | None = None,
    format: str | None = None,  # noqa: A002
) -> MarkovChain:
    """Read the .tra file of a DTMC, with .lab and .srew files of the same name; see `from_prism`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "coin.tra"
    >>> _ = path.write_text(chr(10).join(["2 3", "0 0 0.5", "0 1 0.5", "1 1 1"]))
    >>> read_prism(path)
    MarkovChain(2 states, 3 transitions, starts in 0)
    """
    source = path if isinstance(path, Input) else identify(path, format)
    process = from_prism(source, initial=initial, missing="repeat")
    if isinstance(process, MDP):
        raise ValueError(
            f"{source.name}: a decision process, expected a chain; read it with readers.from_prism, and see somcot.mdp"
        )
    return process


def _companion(source: Input, path: Path_ | None, ending: str) -> Input | None:
    """The named file, or the one of the same name with this extension."""
    if path is not None:
        return identify(path, "tra")
    if source.path is None:
        return None
    # with_suffix would replace .gz and leave .tra in the name.
    file = Path(str(source.path).removesuffix(".gz")).with_suffix(ending)
    return Input(str(file), "tra", file) if file.is_file() else None


def _lines(source: Input) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without comments and empty lines."""
    with open_bytes(source) as stream:
        number = 0
        # A limit per line, because a binary file may have no line break at all.
        while line := stream.readline(_LINE):
            number += 1
            if len(line) == _LINE:
                raise ValueError(f"{source.name}: line {number} is longer than {_LINE} bytes; is it a PRISM file?")
            try:
                text = line.decode("utf-8").strip()
            except UnicodeDecodeError:
                raise ValueError(f"{source.name}: line {number} is not text; is it a PRISM file?") from None
            if text and not text.startswith("#"):
                yield number, text


def _numbers(name: str, number: int, words: list[str], n_whole: int) -> tuple[list[int], float]:
    """The first words as integers, the next as a number."""
    try:
        integers = [int(word) for word in words[:n_whole]]
        value = float(words[n_whole]) if len(words) > n_whole else 0.0
    except ValueError:
        raise ValueError(f"{name}: line {number} is {' '.join(words)!r}, expected numbers") from None
    if not np.isfinite(value):
        raise ValueError(f"{name}: line {number} has the value {value}, expected a finite number")
    return integers, value


# At most 18 digits: a size that int64 cannot hold would fail much later, when arrays are made.
def _are_sizes(words: list[str]) -> bool:
    """Whether all words are integers that an index can hold."""
    return all(re.fullmatch("[0-9]{1,18}", word) for word in words)


def _state(name: str, number: int, state: int, n: int) -> int:
    if not 0 <= state < n:
        raise ValueError(f"{name}: line {number} names state {state}, expected 0 to {n - 1}")
    return state


def _transitions(source: Input) -> _PrismRows:
    lines = _lines(source)
    number, first = next(lines, (1, ""))
    words = first.split()
    if len(words) not in (2, 3) or not _are_sizes(words):
        raise ValueError(
            f"{source.name}: line {number} is {first!r}, expected the numbers of states and transitions of a DTMC, or "
            "of states, choices and transitions of an MDP"
        )
    # DTMC: states transitions. MDP: states choices transitions. The number of words is all that tells them apart.
    (n, *n_choices, n_transitions), is_mdp = map(int, words), len(words) == 3
    if n == 0:
        raise ValueError(f"{source.name}: line {number} declares 0 states, expected at least 1")
    n_whole = 3 if is_mdp else 2
    sources, choices, targets, probabilities = [], [], [], []
    actions: dict[tuple[int, int], str] = {}
    for number, text in lines:
        words = text.split()
        if len(words) <= n_whole:
            raise ValueError(f"{source.name}: line {number} is {text!r}, expected {n_whole} numbers and a probability")
        integers, probability = _numbers(source.name, number, words, n_whole)
        if probability < 0.0:
            raise ValueError(f"{source.name}: line {number} has the probability {probability}, expected at least 0")
        sources.append(_state(source.name, number, integers[0], n))
        targets.append(_state(source.name, number, integers[-1], n))
        probabilities.append(probability)
        if is_mdp:
            if not 0 <= integers[1] < n_choices[0]:
                raise ValueError(
                    f"{source.name}: line {number} names choice {integers[1]}, expected 0 to {n_choices[0] - 1}"
                )
            choices.append(integers[1])
            if len(words) > n_whole + 1:
                actions[integers[0], integers[1]] = words[n_whole + 1]
    # A file that was cut off in the middle of a copy is otherwise a valid, smaller model.
    if len(sources) != n_transitions:
        raise ValueError(
            f"{source.name}: has {len(sources)} transitions, its first line declares {n_transitions}; is it complete?"
        )
    if len(sources) < n:  # checked before arrays of that size are allocated
        stuck = next(state for state, source_state in enumerate([*sorted(set(sources)), -1]) if state != source_state)
        raise ValueError(f"{source.name}: no transition leaves state {stuck}; PRISM adds loops with -fixdl")
    kept = np.array(choices, dtype=np.int64) if is_mdp else None
    ends = (np.array(states, dtype=np.int64) for states in (sources, targets))
    return _PrismRows(source.name, n, next(ends), kept, next(ends), np.array(probabilities, dtype=np.float64), actions)


def _labels(source: Input | None, n: int) -> dict[str, tuple[int, ...]]:
    """The states of each label."""
    if source is None:
        return {}
    lines = _lines(source)
    number, first = next(lines, (1, ""))
    names = dict(re.findall(r'(\d+)="([^"]*)"', first))
    if not names:
        raise ValueError(f'{source.name}: line {number} is {first!r}, expected names of labels such as 0="init"')
    marks = {name: np.zeros(n, dtype=np.int64) for name in names.values()}
    for number, text in lines:
        state, colon, numbers = text.partition(":")
        *_, _ = _numbers(source.name, number, [state.strip()], 1)
        for key in numbers.split():
            if not colon or key not in names:
                raise ValueError(
                    f"{source.name}: line {number} is {text!r}, expected a state, a colon and label numbers"
                )
            marks[names[key]][_state(source.name, number, int(state), n)] = 1
    return {name: tuple(mark.tolist()) for name, mark in marks.items()}


def _rewards(source: Input | None, n: int) -> Floats | None:
    if source is None:
        return None
    lines = _lines(source)
    number, first = next(lines, (1, ""))
    words = first.split()
    if len(words) != 2 or not _are_sizes(words) or int(words[0]) != n:
        raise ValueError(
            f"{source.name}: line {number} is {first!r}, expected the number of states, {n}, and of rewards"
        )
    earned = np.zeros(n)
    for number, text in lines:
        words = text.split()
        if len(words) != 2:
            raise ValueError(f"{source.name}: line {number} is {text!r}, expected a state and its reward")
        (state,), reward = _numbers(source.name, number, words, 1)
        earned[_state(source.name, number, state, n)] = reward
    return earned


def _start(initial: Start, marks: dict[str, tuple[int, ...]], n: int) -> Start:
    if initial is not None:
        if isinstance(initial, str) and initial.lstrip("-").isdigit():  # the command line passes text
            return state_index("initial", int(initial), tuple(range(n)))
        return initial
    # PRISM marks its initial states with the label 'init'; without labels, state 0 is the convention.
    first = np.array(marks.get("init", ()), dtype=np.float64)
    return first / first.sum() if first.any() else 0


def _check_sums(name: str, sums: Floats, place: Callable[[int], str]) -> None:
    wrong = np.flatnonzero(np.abs(sums - 1.0) > _ROW_TOLERANCE)
    if len(wrong):
        raise ValueError(
            f"{name}: the probabilities of {place(int(wrong[0]))} sum to {sums[wrong[0]]:.6g}, expected 1; PRISM adds "
            "loops to deadlocks with -fixdl"
        )


def _mdp(rows: _PrismRows, earned: Floats | None, start: Start, missing: str) -> MDP:
    """Choices become actions: identified by their names if all have one, else by their numbers."""
    assert rows.choices is not None
    pairs = sorted(set(zip(rows.sources.tolist(), rows.choices.tolist(), strict=True)))
    # Names identify an action across states, numbers only its position within one state; so it is all names or none.
    named = all(pair in rows.actions for pair in pairs)
    of = {pair: rows.actions[pair] if named else pair[1] for pair in pairs}
    # By type first: names and numbers cannot be compared with each other.
    names: list[Hashable] = sorted(set(of.values()), key=lambda a: (str(type(a)), a))
    require(
        8.0 * rows.n * rows.n * len(names),
        f"{rows.name}: a table of {rows.n} states and {len(names)} actions",
        "make the model smaller",
    )
    table = np.zeros((rows.n, len(names), rows.n))
    taken = np.zeros((rows.n, len(names)), dtype=np.bool_)
    for pair, action in of.items():
        if taken[pair[0], names.index(action)]:
            raise ValueError(
                f"{rows.name}: state {pair[0]} has two choices called {action!r}; expected different names"
            )
        taken[pair[0], names.index(action)] = True
    place = {pair: names.index(action) for pair, action in of.items()}
    actions = np.array([place[pair] for pair in zip(rows.sources.tolist(), rows.choices.tolist(), strict=True)])
    # add.at, since a choice may list the same target twice.
    np.add.at(table, (rows.sources, actions, rows.targets), rows.probabilities)
    lacking = np.argwhere(~taken)
    if len(lacking) and (missing == "error" or not taken.any(axis=1).all()):
        s, a = (int(k) for k in lacking[0])
        remedy = "missing='repeat' repeats its first choice" if taken[s].any() else "PRISM adds loops with -fixdl"
        raise ValueError(
            f"{rows.name}: state {s} has no choice {names[a]!r} ({len(lacking)} such cases), and the metric compares "
            f"equal actions; {remedy}"
        )
    for s, a in lacking:
        # argmax of flags: the first choice that exists.
        table[s, a] = table[s, int(taken[s].argmax())]
    sums = table.sum(axis=2)
    _check_sums(rows.name, sums.ravel(), lambda k: f"state {k // len(names)}, choice {names[k % len(names)]!r}")
    # Six printed digits leave sums that are off by 1e-6, which MDP would refuse.
    table /= sums[:, :, None]
    gains = np.zeros(rows.n) if earned is None else earned
    return MDP(table, np.repeat(gains[:, None], len(names), axis=1), initial=start, actions=names)
