"""States and steps before and after, the share of time before both sequences have ended, and matches with intervals."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import gammaln
from scipy.stats import fisher_exact, hypergeom

import somcot
from somcot import report
from somcot.inference import findings
from somcot.inference.findings import count_visits, hypergeometric_pvalues, log_factorial
from somcot.inference.strata import strata_of
from somcot.recorded.pair_counts import add_entries, locate_steps, occurrences

PAGES = ["home", "search", "product", "cart", "paid"]


def shop(n: int, seed: int, bugs: int = 0) -> list[list[str]]:
    """Sessions of a shop; in the first `bugs` of them a page appears that no other session has."""
    rng = np.random.default_rng(seed)
    sessions = []
    for k in range(n):
        pages = ["home", *rng.choice(PAGES[1:4], rng.integers(2, 9)).tolist()]
        if k < bugs:
            pages.insert(int(rng.integers(1, len(pages))), "checkout_bug")
        sessions.append(pages)
    return sessions


def test_logarithms_of_factorials() -> None:
    n = np.concatenate([np.arange(-2, 40), 10.0 ** np.arange(2, 13)])
    expected = gammaln(n + 1.0)
    np.testing.assert_allclose(log_factorial(n), expected, rtol=4e-16, atol=4e-15)


def test_occurrences_and_entries_are_those_of_a_count_by_hand() -> None:
    rng = np.random.default_rng(3)
    bounds = np.append(0, np.cumsum(rng.integers(0, 7, 40)))
    keys, last = rng.integers(0, 5, bounds[-1]).astype(np.int32), rng.integers(-1, 5, 40).astype(np.int32)
    first, units, counts = occurrences(keys, bounds, last, 6)
    found = [(k, int(units[t]), int(counts[t])) for k in range(6) for t in range(first[k], first[k + 1])]
    own = [[*keys[bounds[u] : bounds[u + 1]].tolist(), *([int(last[u])] if last[u] >= 0 else [])] for u in range(40)]
    assert found == [(k, u, own[u].count(k)) for k in range(6) for u in range(40) if k in own[u]]

    inside = rng.random((6, 9)) < 0.6  # rows with gaps
    indptr = np.append(0, np.cumsum(inside.sum(axis=1)))
    rows, columns = np.nonzero(inside)
    drawn, places = rng.integers(0, len(rows), bounds[-1]), rng.permutation(9)  # states of the recording in the matrix
    back = np.argsort(places).astype(np.int32)
    entries = locate_steps(indptr, columns.astype(np.int32), places, back[rows[drawn]], back[columns[drawn]])
    assert (entries == drawn).all()
    unit, table, expected = rng.integers(0, 4, 40), np.zeros((4, len(rows))), np.zeros((4, len(rows)))
    add_entries(entries, bounds, unit, table)
    np.add.at(expected, (np.repeat(unit, np.diff(bounds)), drawn), 1.0)
    assert (table == expected).all()


def compared(x: somcot.Samples, y: somcot.Samples) -> somcot.Result:
    return somcot.distance(x, y, somcot.costs.labels(x.states, y.states), discount=0.9, confidence=0.9)


@pytest.fixture(scope="module")
def rare() -> somcot.Result:
    """A page that 40 of 1,300 sessions have and 1,900 others do not: too rare for the distance."""
    before = somcot.Samples.from_trajectories(shop(1900, 1), end="left")
    after = somcot.Samples.from_trajectories(shop(1300, 2, bugs=40), end="left")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", somcot.DataWarning)
        return compared(before, after)


def test_a_rare_new_state_comes_first(rare: somcot.Result) -> None:
    found = rare.findings()
    first = found.states[0]
    assert (first.state, first.kind, first.marked) == ("checkout_bug", "new", True)
    assert (first.visits_x, first.visits_y, first.sequences_x, first.sequences_y) == (0, 40, 0, 40)
    assert found.sequences == (1900, 1300)
    assert first.pvalue == pytest.approx(2 * fisher_exact([[0, 1900], [40, 1260]], "less").pvalue)
    assert first.adjusted >= first.pvalue
    # Nothing else differs, and nothing else is marked but steps from and to the new state.
    assert all(not row.marked for row in found.states[1:])
    assert all("checkout_bug" in (step.state, step.next_state) for step in found.steps if step.marked)


def test_the_verdict_does_not_say_that_nothing_differs(rare: somcot.Result) -> None:
    interval = rare.confidence_interval
    assert interval is not None
    unclear = dataclasses.replace(
        rare,
        confidence_interval=interval._replace(low=0.0),
        estimate=rare.estimate._replace(pvalue=0.4),  # type: ignore[union-attr]
    )
    page = report.html(unclear, names=("desktop", "mobile"))
    assert "New in mobile: checkout_bug (40 visits, 3.1 % of the sequences)." in page.replace("&nbsp;", " ")
    for text in (page, unclear._repr_html_(), report.certainty(unclear) + report.sentence_of_test(unclear)):
        assert "no difference" not in text
        assert "not find a difference" not in text
    assert "checkout_bug" in unclear._repr_html_()
    assert page.index("checkout_bug") < page.index("With 90 % confidence")


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
def test_one_process_recorded_twice_has_no_findings() -> None:
    """At most 5 % of such pairs get any mark; the level is that of the false discovery rate with nothing to find."""
    marked = 0
    for seed in range(60):
        x, y = (somcot.Samples.from_trajectories(shop(150, 1000 + 2 * seed + k), end="left") for k in (0, 1))
        chain = somcot.distance(x, y, somcot.costs.labels(x.states, y.states), discount=0.9, method="exact")
        marked += chain.findings().marked > 0
    assert marked <= 8  # 3 expected at most; 9 or more has probability 0.004


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
def test_more_visits_by_the_same_sequences_are_found() -> None:
    """All sequences reach the state, so the share that does cannot show that it is visited more often."""
    x = somcot.Samples.from_trajectories([["a", "b", "a", "b"][: 2 + k % 3] for k in range(90)])
    y = somcot.Samples.from_trajectories([["a", "b"] * (3 + k % 3) for k in range(90)])
    (row,) = [row for row in compared(x, y).findings().states if row.state == "b"]
    assert (row.sequences_x, row.sequences_y, row.marked) == (90, 90, True)
    assert row.kind == "more", "what is tested is how often they reach it"


def test_within_strata_the_mix_is_no_finding() -> None:
    """Easy and hard tasks visit different states; only the mix differs between the recordings."""
    easy, hard = ["go", "easy", "done"], ["go", "hard", "done"]
    x = somcot.Samples.from_trajectories([easy] * 40 + [hard] * 10)
    y = somcot.Samples.from_trajectories([easy] * 10 + [hard] * 40)
    tasks = ["easy"] * 40 + ["hard"] * 10, ["easy"] * 10 + ["hard"] * 40
    plain = count_visits(x, y, None, (x.states, y.states)).states
    within = count_visits(x, y, strata_of((x, y), tasks, None), (x.states, y.states)).states
    place = list(x.states).index("hard")
    assert plain.pvalues[place] < 1e-6
    assert within.pvalues[place] == 1.0


def test_known_chains_and_counts_have_times_but_no_tests() -> None:
    x = somcot.MarkovChain([[0.5, 0.5], [0.5, 0.5]], states=["a", "b"])
    y = somcot.MarkovChain([[0.5, 0.25, 0.25], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], states=["a", "b", "c"])
    found = somcot.distance(x, y, discount=0.9).findings()
    assert found.sequences is None
    assert (found.states[0].state, found.states[0].kind, found.states[0].visits_y) == ("c", "new", None)
    assert sum(step.time_x for step in found.steps) == pytest.approx(1.0)
    data = y.sample(50, 20, rng=0)
    half = somcot.distance(x, data, somcot.costs.labels(x.states, data.states), discount=0.9).findings()
    assert half.states[0].visits_x is None
    assert half.states[0].visits_y == int(data.visits[list(data.states).index("c")])
    assert not half.marked


@pytest.mark.parametrize(
    ("clock", "share", "weighted"),
    [
        ({"discount": 0.9}, "of the steps that matter", True),
        ({"discount": 1}, "of all steps in the long run", False),
        ({"horizon": 7}, "of the first 7 steps", False),
    ],
)
def test_tables_say_how_steps_are_weighted(clock: dict[str, Any], share: str, weighted: bool, tmp_path: Path) -> None:
    x, y = (somcot.MarkovChain([[p, 1 - p], [0.5, 0.5]], states=["home", "cart"]) for p in (0.9, 0.6))
    result = somcot.distance(x, y, "labels", **clock)
    found = result.findings()
    for table in (found.steps_table(), found.states_table()):
        assert share in table.head
    for text in (found.steps_table().title, found._repr_html_()):
        assert ("earlier steps count more" in text) == weighted
    result.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert f"Width: difference of the shares {share}." in page
    assert ("(earlier steps count more)" in page) == weighted


def test_they_are_saved(rare: somcot.Result, tmp_path: Path) -> None:
    rare.save(tmp_path / "rare.somcot")
    again = somcot.Result.load(tmp_path / "rare.somcot")
    assert again.findings() == rare.findings()
    assert again.before_end == rare.before_end
    with pytest.raises(ValueError, match="confidence: a result that was loaded"):
        again.matches(confidence=0.9)


def test_exact_pvalues_are_those_of_scipy() -> None:
    """Twice the smaller tail, for small and large numbers, in both tails and at the ends of the range."""
    rng = np.random.default_rng(0)
    for size in (3, 40, 2000, 200_000):
        m, k = rng.integers(1, size, (2, 300))
        drawn = (rng.random(300) * (m + k + 1)).astype(int)
        low, high = np.maximum(drawn - k, 0), np.minimum(drawn, m)
        near = drawn * (m / (m + k)) + 3.0 * rng.normal(size=300) * np.sqrt(drawn * 0.25)
        a = np.clip(np.where(rng.random(300) < 0.2, low, near.round()), low, high).astype(int)
        tails = hypergeom.cdf(a, m + k, m, drawn), hypergeom.sf(a - 1, m + k, m, drawn)
        np.testing.assert_allclose(hypergeometric_pvalues(a, m, k, drawn), np.minimum(2 * np.minimum(*tails), 1), 1e-7)


@pytest.mark.parametrize("n", [4, 300])  # keys of 16 bits, and of more
def test_states_and_steps_by_sequence_are_counted(n: int) -> None:
    rng = np.random.default_rng(n)
    sides = [[rng.integers(0, n, rng.integers(2, 9)).tolist() for _ in range(80)] for _ in range(2)]
    x, y = (somcot.Samples.from_trajectories(side, states=range(n)) for side in sides)
    visits = count_visits(x, y, None, (x.states, y.states))
    for tally, items in (
        (visits.states, lambda path: path),
        (visits.steps, lambda path: [a * n + b for a, b in itertools.pairwise(path)]),
    ):
        for row, side in enumerate(sides):
            every = [items(path) for path in side]
            for key, events, units in zip(tally.keys, tally.events[row], tally.units[row], strict=True):
                assert events == sum(own.count(key) for own in every)
                assert units == sum(key in own for own in every)


# --- Before the end


def test_the_active_share_by_hand() -> None:
    """Both are open or closed; the coupling closes them together as often as possible."""
    p, q, discount = 0.5, 0.3, 0.9
    x, y = (somcot.MarkovChain([[1 - r, r], [0.0, 1.0]], states=["open", "closed"]) for r in (p, q))
    result = somcot.distance(x, y, discount=discount)
    share = distance = 0.0
    both, one = 1.0, 0.0  # open: both, and y alone
    for t in range(2000):
        weight = (1 - discount) * discount**t
        share += weight * (both + one)
        distance += weight * one
        both, one = both * (1 - p), one * (1 - q) + both * (p - q)
    assert result.active_share == pytest.approx(share, abs=1e-9)
    assert result.distance == pytest.approx(distance, abs=1e-9)
    assert result.before_end is not None
    assert result.before_end.distance == pytest.approx(distance / share, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_active_share_by_a_linear_program(seed: int) -> None:
    """All couplings at once: occupancies of pairs of steps with the flow and both causal constraints."""
    rng, n, discount = np.random.default_rng(seed), 3, 0.8
    kernels = []
    for _ in "xy":
        rows = rng.dirichlet(np.ones(n), n)
        rows[-1] = np.eye(n)[-1]
        kernels.append(rows)
    cost = rng.random((n, n))
    cost[-1, -1] = 0.0
    law, start = brute_force(kernels[0], kernels[1], cost, discount)
    x, y = (somcot.MarkovChain(rows, start) for rows in kernels)
    result = somcot.distance(x, y, cost, discount=discount)
    assert (law * cost).sum() == pytest.approx(result.distance, abs=1e-7)
    assert result.active_share == pytest.approx(1.0 - law[-1, -1], abs=1e-6)


def brute_force(
    p: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    q: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    cost: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    discount: float,
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    """The occupancy of pairs under an optimal coupling that starts in states 0 and 0."""
    n = len(p)
    cells = list(itertools.product(range(n), repeat=4))  # x, y, next x, next y
    rows, values = [], []
    for a, b in itertools.product(range(n), repeat=2):
        rows.append([float((x, y) == (a, b)) - discount * float((u, v) == (a, b)) for x, y, u, v in cells])
        values.append((1 - discount) * float((a, b) == (0, 0)))
        for c in range(n):
            rows.append([float((x, y) == (a, b)) * (float(u == c) - p[a, c]) for x, y, u, v in cells])
            rows.append([float((x, y) == (a, b)) * (float(v == c) - q[b, c]) for x, y, u, v in cells])
            values += [0.0, 0.0]
    solved = linprog([cost[x, y] for x, y, _, _ in cells], A_eq=rows, b_eq=values, method="highs")
    law = np.zeros((n, n))
    for (x, y, _, _), mass in zip(cells, solved.x, strict=True):
        law[x, y] += mass
    return law, np.eye(n)[0]


def test_nothing_in_common_is_a_hundred_per_cent() -> None:
    """No page in common, and half of the weight lies after the end: the headline is about what is before it."""
    x = somcot.Samples.from_trajectories([["a", "b", "c"]] * 30, end="left")
    y = somcot.Samples.from_trajectories([["d", "e", "f"]] * 30, end="left")
    result = compared(x, y)
    assert result.distance < 0.6
    assert result.before_end is not None
    assert result.before_end.distance == pytest.approx(1.0)
    assert "On about 100.0 % of the steps before both sequences have ended" in report.meaning(result)
    assert f"it is {100 * result.distance:.1f} % (discount 0.9)." in report.meaning(result)


def test_ends_that_differ_keep_counting() -> None:
    """Bought and left differ for ever, so nothing is divided by the time before the end."""
    x, y = (
        somcot.MarkovChain([[0.0, p, 1 - p], [0, 1, 0], [0, 0, 1]], states=["cart", "bought", "left"])
        for p in (0.5, 0.25)
    )
    result = somcot.distance(x, y, discount=0.9)
    assert result.active_share == pytest.approx(0.1)
    assert result.before_end is None
    assert "of the steps that matter" in report.meaning(result)
    walk = somcot.random_walk(4)
    assert somcot.distance(walk, walk, 1.0 - np.eye(4), discount=0.9).active_share == 1.0


# --- Matches


def test_matches_have_intervals() -> None:
    x = somcot.MarkovChain([[0.5, 0.5], [0.5, 0.5]], states=["A", "B"])
    y = somcot.MarkovChain([[0.4, 0.1, 0.5]] * 3, states=["C", "D", "E"])
    cost = [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    known = somcot.distance(x, y, cost, discount=0.9).matches(confidence=0.9)
    assert [m.low == m.probability == m.high for m in known] == [True, True]
    result = somcot.distance(x.sample(100, 20, rng=0), y.sample(100, 20, rng=1), cost, discount=0.9)
    narrow, wide = (result.matches(confidence=level)[0] for level in (0.5, 0.99))
    assert (narrow.x, narrow.y, narrow.determined) == ("A", "C", True)
    assert wide.low < narrow.low < narrow.probability < narrow.high < wide.high
    assert str(narrow).startswith("A corresponds to C with 0.8")
    assert result.matches()[0] == narrow[:4]
    copy = pickle.loads(pickle.dumps(dataclasses.replace(result, notes=())))  # as reports are made of
    assert copy.matches(confidence=0.5)[0] == narrow


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
def test_equal_visits_are_called_equal() -> None:
    x, y = (somcot.Samples.from_trajectories([["home", *["page"] * n]] * 50, end="end") for n in (2, 4))
    kinds = {row.state: row.kind for row in somcot.distance(x, y, discount=0.9).findings().states}
    assert kinds == {"page": "more", "home": "equal", "end": "equal"}  # though less of the time is spent at the end


def test_ties_are_not_determined() -> None:
    x = somcot.MarkovChain([[0.5, 0.5], [0.5, 0.5]], states=["A", "B"])
    y = somcot.MarkovChain([[0.4, 0.1, 0.5]] * 3, states=["C", "D", "E"])
    tied = somcot.distance(x, y, np.ones((2, 3)), discount=0.9).matches(confidence=0.9)
    assert [m.determined for m in tied] == [False, False]
    assert str(tied[0]) == "A: not determined"


def test_intervals_of_known_chains_are_the_range_over_all_optimal_couplings() -> None:
    """A ring of five blocks, whose optimal couplings are not unique; the ranges are those of linear programs."""
    one, weights = np.eye(5), ((0.81, 0.19), (0.6, 0.4), (0.95, 0.05), (0.81, 0.19), (0.6, 0.4))
    rings = [
        s * one + on * np.roll(one, 1, axis=1) + (1 - s - on) * np.roll(one, -1, axis=1)
        for s, on in ((0.2, 0.7), (0.3, 0.5))
    ]
    shares = np.concatenate(weights)
    x = somcot.MarkovChain(rings[0], np.full(5, 0.2))
    y = somcot.MarkovChain(np.repeat(np.repeat(rings[1], 2, axis=0), 2, axis=1) * shares, shares / 5)
    result = somcot.distance(x, y, 1.0 - np.repeat(one, 2, axis=1), discount=0.9)
    found = {match.x: match for match in result.matches(confidence=0.9)}
    assert [round(end, 3) for k in range(5) for end in found[k][4:6]] == [
        0.481, 0.562, 0.315, 0.461, 0.601, 0.622, 0.481, 0.562, 0.315, 0.461,
    ]  # fmt: skip
    assert [found[k].determined for k in range(5)] == [True, False, True, True, False]


def test_ties_that_noise_hides() -> None:
    """States of one block tie in the truth; recordings seem to determine what half-samples alone would believe."""
    blocks, weights = np.array([[0.5, 0.35, 0.15], [0.15, 0.5, 0.35], [0.35, 0.15, 0.5]]), np.array([0.8, 0.2])
    other = np.array([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4], [0.4, 0.2, 0.4]])
    x = somcot.MarkovChain(blocks, np.full(3, 1 / 3))
    y = somcot.MarkovChain(np.kron(other, np.ones((2, 1)) * weights), np.kron(np.full(3, 1 / 3), weights))
    cost = 1.0 - np.repeat(np.eye(3), 2, axis=1)
    exact = somcot.distance(x, y, cost, discount=0.9)
    assert exact.makeup is not None
    sides = exact.makeup.x.probabilities, exact.makeup.y.probabilities
    draws = 1e-7 * np.random.default_rng(1).random((8, 3, 6))
    plans = np.stack([findings._optimal(exact, *sides, change).encoder for change in draws])
    contained = []
    for seed in range(0, 12, 2):
        recorded = x.sample(200, 25, rng=seed + 1), y.sample(200, 25, rng=seed + 2)
        for match in somcot.distance(*recorded, cost, discount=0.9).matches(confidence=0.9):
            tied = plans[:, match.x, match.y]  # type: ignore[index]
            assert tied.max() - tied.min() > 0.05
            contained.append(match.low <= tied.min() and tied.max() <= match.high)
    assert sum(contained) >= 14  # of 18; 9 with half-samples alone


def test_matches_need_what_they_are_made_of() -> None:
    walk = somcot.random_walk(3)
    run = somcot.distance(walk, walk, 1.0 - np.eye(3), discount=0.9, method="somcot", n_steps=200, rng=0)
    with pytest.raises(ValueError, match="confidence"):
        run.matches(confidence=0.9)
    result = somcot.distance(walk, walk, 1.0 - np.eye(3), discount=0.9)
    with pytest.raises(ValueError, match="confidence"):
        result.matches(confidence=1.5)
