"""Open sequences against a dictionary; time-outs, ends, and too many of them."""

from collections import OrderedDict

import numpy as np
import pytest

from somcot.live.detector import Rules, link, opened, with_room
from somcot.live.sequences import keys_of

Steps = list[tuple[int, int, int]]


def by_dictionary(codes: list[int], names: list[int], times: list[float], rules: Rules, terminal: list[bool]) -> Steps:
    """The same in plain Python: an ordered dictionary with the one silent longest first."""
    if rules.end >= 0:
        return with_end(codes, names, times, rules, terminal)
    known: OrderedDict[int, tuple[int, float]] = OrderedDict()
    clock, steps = -np.inf, []
    for t, (code, name, moment) in enumerate(zip(codes, names, times, strict=True), 1):
        clock = max(clock, moment)
        while known and clock - next(iter(known.values()))[1] > rules.timeout:
            known.popitem(last=False)
        over = terminal[min(code, len(terminal) - 1)]
        if name in known:
            steps.append((known.pop(name)[0], code, t))
        elif rules.starts:
            steps.append((-1, code, t))
        if not over:
            if len(known) == rules.most:
                known.popitem(last=False)
            known[name] = (code, clock)
    return steps


def with_end(codes: list[int], names: list[int], times: list[float], rules: Rules, terminal: list[bool]) -> Steps:
    """Steps wait until the time-out of the event before them has passed."""
    clock, steps = -np.inf, []
    waiting: list[list[float]] = []  # state, time, where to
    latest: dict[int, list[float]] = {}
    for t, (code, name, moment) in enumerate(zip(codes, names, times, strict=True), 1):
        clock = max(clock, moment)
        while waiting and clock - waiting[0][1] > rules.timeout:
            state, _, target = waiting.pop(0)
            steps.append((int(state), rules.end if target < 0 else int(target), t))
        before = latest.pop(name, None)
        if before is not None and clock - before[1] <= rules.timeout:
            before[2] = code
        elif rules.starts:
            steps.append((-1, code, t))
        if not terminal[min(code, len(terminal) - 1)]:
            latest[name] = [code, clock, -1]
            waiting.append(latest[name])
    return steps


@pytest.mark.parametrize(
    "rules", [Rules(-1, np.inf, 1000, True), Rules(3, 40.0, 1000, True), Rules(-1, 60.0, 7, False)]
)
@pytest.mark.parametrize("cut", [1, 13, 5000])
def test_it_agrees_with_a_dictionary_however_events_are_cut(rules: Rules, cut: int) -> None:
    rng = np.random.default_rng(0)
    n = 600 if cut == 1 else 3000
    codes = rng.integers(0, 6, n).astype(np.int32)
    names = rng.integers(0, 60, n).astype(np.uint64) * np.uint64(2**40 + 3)
    times = np.cumsum(rng.exponential(1.0, n)) - rng.integers(0, 2, n)  # a little out of order
    terminal = np.array([False, False, False, True, False])
    known, found = opened(4), []
    for begin in range(0, n, cut):
        part = slice(begin, begin + cut)
        m = len(codes[part])
        known = with_room(known, min(int(known.number[2]) + m, rules.most))
        room = 3 * m + int(known.number[2])
        out = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int64)
        made = link(known, rules, terminal, codes[part], names[part], times[part], begin + 1, *out)
        found += list(zip(*(a[:made].tolist() for a in out), strict=True))
    assert found == by_dictionary(codes.tolist(), names.tolist(), times.tolist(), rules, terminal.tolist())
    assert known.number[6] > 0  # times went backwards


def test_names_become_keys() -> None:
    assert keys_of(np.array([3, 5])).tolist() == [3, 5]
    assert keys_of([-1]).tolist() == [2**64 - 1]
    texts = keys_of(["a", "b", "", "a", "käse"])
    assert texts[0] == texts[3]
    assert len(set(texts.tolist())) == 4
    assert len(set(keys_of([("a", 1), ("a", 2), ("a", 1)]).tolist())) == 2
    many = keys_of([f"user{k}" for k in range(20_000)])
    assert len(set(many.tolist())) == 20_000
    with pytest.raises(ValueError, match="sequences: entry 1 is None"):
        keys_of(["a", None])
    with pytest.raises(TypeError, match="found the text"):
        keys_of("ab")
