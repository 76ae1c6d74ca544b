"""Where a distance comes from: sums, standard errors against simulation, marks, saving."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import somcot
from somcot import MarkovChain, Samples
from somcot.inference.row_tests import _upper_tail, benjamini_hochberg, rows_pvalue
from somcot.result import Result

LABELS = 1.0 - np.eye(4)


def chains(change: float) -> tuple[MarkovChain, MarkovChain]:
    """Four states; the row of state 2 is changed."""
    rng = np.random.default_rng(3)
    kernel = rng.dirichlet(np.ones(4), size=4)
    other = kernel.copy()
    other[2] = (1 - change) * other[2] + change * np.array([0.7, 0.1, 0.1, 0.1])
    names = ["a", "b", "c", "d"]
    return MarkovChain(kernel, states=names), MarkovChain(other, states=names)


def estimate(change: float, seed: int, n: int = 60) -> Result:
    x, y = chains(change)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return somcot.distance(x.sample(n, 50, rng=seed), y.sample(n, 50, rng=9000 + seed), LABELS, discount=0.9)


def test_pairs_make_up_the_distance_of_the_chains() -> None:
    x, y = chains(0.5)
    exact = somcot.distance(x, y, LABELS, discount=0.9)
    found = exact.contributions(100)
    assert sum(p.amount for p in found.pairs) == pytest.approx(exact.distance)
    assert [p.amount for p in found.pairs] == sorted((p.amount for p in found.pairs), reverse=True)
    assert all(p.amount == pytest.approx(p.occupancy * p.cost) for p in found.pairs)
    assert all(p.standard_error == 0.0 and p.marked for p in found.pairs), "nothing was estimated"
    data = estimate(0.5, 0)
    assert sum(p.amount for p in data.contributions(100).pairs) == pytest.approx(data.plugin)


@pytest.mark.parametrize(("change", "seed"), [(0.3, 3), (0.6, 1)])  # some pairs are just significant
def test_marks_do_not_depend_on_the_number_of_rows(change: float, seed: int) -> None:
    result = estimate(change, seed, 40)
    all_marks = [pair.marked for pair in result.contributions(100).pairs]
    for n in (1, 2, 5):
        assert [pair.marked for pair in result.contributions(n).pairs] == all_marks[:n]


def test_transitions_make_up_a_small_distance() -> None:
    x, y = chains(0.02)
    found = somcot.distance(x, y, LABELS, discount=0.9)
    parts = found.contributions(100).transitions
    assert {t.state for t in parts} == {"c"}, "only its row differs"
    assert sum(t.amount for t in parts) == pytest.approx(found.distance, rel=0.15)


def test_pair_errors_against_simulation() -> None:
    """Rows drawn anew around clearly different ones: the occupancy of a pair varies as its standard error says."""
    rng = np.random.default_rng(0)
    x, y = (MarkovChain(rng.dirichlet(np.ones(4), size=4)) for _ in range(2))
    cost = rng.random((4, 4))
    a, b = x.sample(2000, 50, rng=1), y.sample(2000, 50, rng=2)
    result = somcot.distance(a, b, cost, discount=0.9, method="plugin")
    top = [(i, j) for i in range(4) for j in range(4) if result.state_law[i, j] > 0.05][:4]
    assert len(top) == 4
    errors = {(pair.x, pair.y): pair.standard_error for pair in result.contributions(16).pairs}
    draws = []
    for _ in range(300):
        noisy = [
            MarkovChain([rng.multinomial(n, row) / n for n, row in zip(s.visits, s.chain().transition, strict=True)])
            for s in (a, b)
        ]
        law = somcot.distance(noisy[0], noisy[1], cost, discount=0.9).state_law
        draws.append([law[k] * cost[k] for k in top])
    assert [errors[pair] for pair in top] == pytest.approx(np.std(draws, axis=0), rel=0.2)


def test_equal_processes_get_no_marks_and_changed_rows_do() -> None:
    marked = 0
    for seed in range(40):
        found = estimate(0.0, seed).contributions()
        marked += any(pair.marked for pair in found.pairs) or any(step.marked for step in found.transitions)
    assert marked <= 6  # 5 % and 2.9 standard errors
    clear = [estimate(0.6, seed).contributions() for seed in range(5)]
    for found in clear:
        assert any(t.marked and t.state == "c" for t in found.transitions)
        assert any(p.marked for p in found.pairs)


def test_states_of_one_side_and_known_chains() -> None:
    x, _ = chains(0.0)
    data = Samples.from_trajectories([["a", "b", "e", "a"], ["b", "a", "b", "e"]] * 30, terminated=False)
    cost = somcot.costs.labels(x.states, data.states)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = somcot.distance(x, data, cost, discount=0.9).contributions()
    assert {t.state for t in found.transitions} <= {"a", "b"}
    assert any(t.marked for t in found.transitions)
    assert all(0.0 <= t.probability_x <= 1.0 and 0.0 <= t.probability_y <= 1.0 for t in found.transitions)


def test_steps_into_a_state_that_only_one_side_has() -> None:
    """Without them the shares of a small distance do not make it up."""
    x = MarkovChain([[0.5, 0.5], [0.5, 0.5]], states=["a", "b"])
    y = MarkovChain([[0.5, 0.495, 0.005], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], states=["a", "b", "new"])
    for pair in ((x, y), (y, x)):
        result = somcot.distance(*pair, discount=0.9)
        steps = {(t.state, t.next_state): t for t in result.contributions().transitions}
        assert sum(t.amount for t in steps.values()) == pytest.approx(result.distance, rel=0.01)
        shown = steps["a", "new"]
        assert {shown.probability_x, shown.probability_y} == {0.0, 0.005}


def test_clusterings_without_a_state_in_common_are_not_called_chance() -> None:
    """A test of rows has nothing to exchange there, so it neither agrees nor warns, and marks do without it."""
    walks = [somcot.random_walk(5, theta).sample(60, 200, rng=1).with_start("stationary") for theta in (0.3, 0.7)]
    named = walks[0].relabel(dict(enumerate("abcde"))), walks[1].relabel(dict(enumerate("ABCDE")))
    numbered = walks[0], walks[1].relabel({i: 4 - i for i in range(5)})
    finer = somcot.random_walk(8, 0.3).sample(60, 200, rng=2).with_start("stationary")
    places_of = np.abs(np.subtract.outer(np.linspace(0, 1, 8), np.linspace(0, 1, 5)))
    along = somcot.distance(finer, walks[1], places_of, discount=0.9, confidence=0.9)
    assert rows_pvalue(along) is None
    assert along.contributions().transitions == ()
    for x, y in (named, numbered):
        places = [[s if isinstance(s, int) else ord(str(s).lower()) - ord("a") for s in side.states] for side in (x, y)]
        if x is numbered[0]:
            places[1] = [4 - place for place in places[1]]  # equal numbers, other places: not the same states
        result = somcot.distance(x, y, somcot.costs.absolute(*places), discount=0.9, confidence=0.9)
        assert rows_pvalue(result) is None
        assert any(pair.marked for pair in result.contributions().pairs)
        assert result.contributions().transitions == ()
        assert "permutation test" not in somcot.report.html(result)


def test_names_that_mean_nothing_are_not_compared() -> None:
    """Numbers of nodes: "3 is followed by 5 more often" is about nothing where the cost knows no names."""
    rng = np.random.default_rng(0)
    place = np.arange(12)
    kernel = rng.dirichlet(np.full(12, 0.3), size=12)
    marks = rng.permutation(12)
    turned = rng.permutation(12)
    x, y = (
        MarkovChain(kernel, initial=np.full(12, 1 / 12)),
        MarkovChain(kernel[turned][:, turned], initial=np.full(12, 1 / 12)),
    )
    for cost, told in (
        (somcot.costs.absolute(marks, marks[turned]), False),  # by something that turned with the nodes
        (7.0 + somcot.costs.absolute(marks, marks), True),  # by the names, with an offset
        (1.0 - np.eye(12), True),
        (somcot.costs.absolute(place, place + rng.normal(size=12)), True),  # by numbers that are nearly the same
    ):
        found = somcot.distance(x, y, cost, discount=0.9).contributions()
        assert (len(found.transitions) > 0) == told
    renamed = somcot.distance(x, y, somcot.costs.absolute(marks, np.roll(marks, 1)), discount=0.9).contributions()
    assert renamed.pairs
    assert not renamed.transitions
    assert "transition" not in str(renamed)
    assert "Transitions" not in renamed._repr_html_()


def test_saved_and_loaded(tmp_path: Path) -> None:
    result = estimate(0.3, 1)
    result.save(tmp_path / "result")
    again = Result.load(tmp_path / "result")
    assert again.contributions(4) == result.contributions(4)
    assert "in X while in Y" in str(again.contributions(4))
    assert "c -> a" in str(again.contributions(4))


def test_benjamini_hochberg_by_hand() -> None:
    p = np.array([0.01, 0.04, 0.02, 0.9])
    assert benjamini_hochberg(p, 4).tolist() == [True, False, True, False]
    assert benjamini_hochberg(p, 40).tolist() == [False] * 4, "36 more with p-value 1"
    assert benjamini_hochberg(p[:0], 0).tolist() == []


def test_methods_without_rows_say_so() -> None:
    x, y = chains(0.5)
    result = somcot.distance(x, y, LABELS, discount=0.9, method="sinkhorn")
    with pytest.raises(ValueError, match="contributions: method 'sinkhorn' keeps no rows and costs"):
        result.contributions()


def test_a_part_is_as_significant_as_a_normal_variable() -> None:
    """By the table of the normal distribution; without an error only a positive part is certain."""
    assert [round(_upper_tail(z, 0.5), 4) for z in (0.0, 0.5, 0.8224)] == [0.5, 0.1587, 0.05]
    assert [_upper_tail(value, 0.0) for value in (0.1, 0.0)] == [0.0, 1.0]
