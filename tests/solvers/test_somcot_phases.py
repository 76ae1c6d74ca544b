"""SOMCOT without a planned number of steps, and what the transitions it was fed say about its answer."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from somcot import ConvergenceWarning, MarkovChain, Problem, Result, costs, distance, random_walk, steps, streams
from somcot.plumbing.notes import Note
from somcot.plumbing.records import CheckpointError
from somcot.recorded.flow import flow_mle
from somcot.report.sentences import certainty
from somcot.result import Claim, Status
from somcot.solvers import linear_program, somcot
from somcot.solvers.somcot import averages as counted
from somcot.solvers.somcot import fold
from tests.instances import blocks, reward, walks
from tests.notes import codes
from tests.reliability.bits import everything


class Fed:
    """A chain's stream that ends after so many transitions, and cannot say where it is."""

    def __init__(self, chain: MarkovChain, n: int, seed: int, discount: float = 0.9) -> None:
        self.pairs, self.place, self.initial = streams.from_chain(chain, discount, seed).draw(n), 0, chain.initial

    def draw(self, n: int) -> tuple[Any, Any]:
        first, self.place = self.place, self.place + n
        return self.pairs[0][first : self.place], self.pairs[1][first : self.place]


# Short runs of Algorithm 2 are far from converged, and say so.
pytestmark = pytest.mark.filterwarnings("ignore:the run has not converged")


def unplanned(n: int, **options: Any) -> Result:
    x, y, cost = walks(4, 0.7)
    return somcot.solve(Fed(x, n, 0), Fed(y, n, 1), cost, discount=0.9, **options)


def phased(n: int, **options: Any) -> Result:
    """The same with Algorithm 2, which runs in phases."""
    return unplanned(n, steps="theorem", **options)


@pytest.mark.parametrize("support", ["full", "observed"])
def test_each_phase_is_a_planned_run_on_fresh_transitions(support: Any) -> None:
    """The answer is the bits of a run with a plan on the phase's own transitions, started afresh."""
    x, y, cost = walks(4, 0.7)
    whole = phased(8000, support=support)
    assert whole.status is Status.EXHAUSTED
    assert (whole.n_steps, whole.samples) == (7168, (7168, 7168))
    assert "after 8,000 steps; the answer is that of the last finished phase of 4,096" in whole.message
    pairs = [tuple(array[3072:7168] for array in Fed(chain, 8000, seed).pairs) for seed, chain in enumerate((x, y))]
    allowed = {"transitions_x": x.transition > 0, "transitions_y": y.transition > 0} if support == "observed" else {}
    state = somcot.init(
        cost, discount=0.9, n_steps=4096, initial_x=x.initial, initial_y=y.initial, support=support, steps="theorem",
        **allowed,
    )  # fmt: skip
    planned = somcot.finish(somcot.advance(state, (pairs[0][0], pairs[0][1]), (pairs[1][0], pairs[1][1])))
    assert planned.distance == whole.distance
    np.testing.assert_array_equal(planned.encoder, whole.encoder)
    np.testing.assert_array_equal(planned.potential, whole.potential)
    steps = whole.trace["step"]
    np.testing.assert_array_equal(steps[-len(planned.trace["step"]) :], 3072 + planned.trace["step"])
    assert (np.diff(steps) > 0).all()
    assert steps[0] == 20


def test_a_timed_run_ends_and_its_numbers_do_not_depend_on_the_clock() -> None:
    x, y, cost = walks(4, 0.7)
    timed = distance(x, y, cost, discount=0.9, method="somcot", max_seconds=0.05, rng=3)
    assert timed.status is Status.FINISHED
    assert timed.message.startswith("time is up after ")
    sources = as_drawn_from(x, y, 3)
    ends = [replace(source, draw=_ending(source.draw, timed.n_steps), chain=None) for source in sources]
    fed = somcot.solve(ends[0], ends[1], cost, discount=0.9)
    assert fed.status is Status.EXHAUSTED
    assert (fed.n_steps, fed.distance, fed.counted) == (timed.n_steps, timed.distance, timed.counted)


def as_drawn_from(x: MarkovChain, y: MarkovChain, seed: int) -> list[streams.Source]:
    """The streams that a run which counts makes of two known chains."""
    sides = zip((x, y), somcot._children(seed), strict=True)
    return [streams.from_chain(chain, 0.9, own, tabled=True) for chain, own in sides]


def _ending(draw: Any, left: int) -> Any:
    def ends(n: int) -> Any:
        nonlocal left
        n, left = min(n, left), max(0, left - n)
        return draw(n)

    return ends


def test_the_first_phase_is_always_finished() -> None:
    x, y, cost = walks(4, 0.7)
    assert distance(x, y, cost, discount=0.9, method="somcot", max_seconds=1e-9, rng=3).n_steps == 1024


def test_when_there_is_no_finished_phase_the_first_stands_in() -> None:
    short = phased(700)
    assert (short.status, short.n_steps) == (Status.EXHAUSTED, 700)
    assert "the first phase, cut short, of 700" in short.message
    with pytest.raises(streams.StreamError, match="ended before the first step"):
        phased(0)
    with pytest.raises(streams.StreamError, match="ended before the first step"):
        unplanned(0)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_keeps_the_last_finished_phase() -> None:
    def strike(step: int, _total: int, _value: float) -> None:
        if step > 4000:
            signal.raise_signal(signal.SIGINT)

    found = phased(100_000, progress=strike)
    assert found.status is Status.INTERRUPTED
    assert found.n_steps == 3072
    assert everything(found) == everything(replace(phased(3072), status=found.status))
    counting = unplanned(100_000, progress=strike)
    assert counting.status is Status.INTERRUPTED
    assert 4000 < counting.n_steps < 100_000
    assert counting.distance == unplanned(counting.n_steps).distance


class CrashError(Exception):
    pass


@pytest.mark.parametrize("support", ["full", "observed"])
@pytest.mark.parametrize("at", [600, 1024, 1500, 3072, 5000, 9000])
@pytest.mark.parametrize("unplanned", [unplanned, phased])
def test_a_crashed_run_goes_on_to_the_same_bits(
    unplanned: Callable[..., Result], at: int, support: str, tmp_path: Path
) -> None:
    def crash(step: int, _total: int, _value: float) -> None:
        if step >= at:
            raise CrashError

    path = tmp_path / "run.ck"
    with pytest.raises(CrashError) as caught:
        unplanned(12_000, support=support, checkpoint=path, progress=crash)
    assert caught.value.partial.n_steps >= 600  # type: ignore[attr-defined]
    again = unplanned(12_000, support=support, resume=path)
    assert everything(again) == everything(unplanned(12_000, support=support))
    assert again.counted == unplanned(12_000, support=support).counted


def test_time_can_be_added_later(tmp_path: Path) -> None:
    x, y, cost = walks(4, 0.7)
    options: dict[str, Any] = {"discount": 0.9, "rng": 5, "checkpoint": tmp_path / "run.ck", "resume": True}
    first = somcot.solve(x, y, cost, max_seconds=1e-9, **options)
    more = somcot.solve(x, y, cost, max_seconds=0.1, **options)
    assert first.n_steps == 1024
    assert more.n_steps >= 1024
    # What one call did not finish is kept for the next, and the numbers are those of one long run.
    sources = as_drawn_from(x, y, 5)
    ends = [replace(source, draw=_ending(source.draw, more.n_steps)) for source in sources]
    assert everything(somcot.solve(ends[0], ends[1], cost, discount=0.9)) == everything(more)


def test_checkpoints_of_planned_and_unplanned_runs_are_told_apart(tmp_path: Path) -> None:
    x, y, cost = walks(4, 0.7)
    somcot.solve(x, y, cost, discount=0.9, n_steps=1024, rng=0, checkpoint=tmp_path / "planned")
    somcot.solve(x, y, cost, discount=0.9, max_seconds=1e-9, rng=0, checkpoint=tmp_path / "timed")
    with pytest.raises(CheckpointError, match="a run with a planned number of steps"):
        somcot.solve(x, y, cost, discount=0.9, max_seconds=1.0, rng=0, resume=tmp_path / "planned")
    with pytest.raises(CheckpointError, match="a run without a planned number of steps"):
        somcot.solve(x, y, cost, discount=0.9, n_steps=1024, rng=0, resume=tmp_path / "timed")
    with pytest.raises(CheckpointError, match="other options"):
        somcot.solve(x, y, cost, discount=0.9, max_seconds=1.0, average=0.4, rng=0, resume=tmp_path / "timed")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_steps": 5, "max_seconds": 1.0}, "max_seconds: n_steps is given too; give one of them"),
        ({"max_seconds": 0.0}, "max_seconds: found 0.0"),
        ({"max_seconds": float("nan")}, "max_seconds: found nan"),
        ({"max_seconds": "a minute"}, "max_seconds: found 'a minute'"),
    ],
)
def test_bad_times_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises((TypeError, ValueError), match=match):
        somcot.solve(random_walk(3), random_walk(3), np.eye(3), discount=0.9, rng=0, **options)


# What the transitions say.


def test_counted_is_the_distance_of_the_fitted_chains() -> None:
    """Against the linear program on chains fitted by hand."""
    x, y, cost = walks(4, 0.7)
    result = unplanned(1024)
    chains = []
    for seed, chain in enumerate((x, y)):
        table = np.zeros((4, 4))
        np.add.at(table, Fed(chain, 1024, seed).pairs, 1)
        chains.append(flow_mle(table, chain.initial, 0.9).chain)
    expected = linear_program.solve(Problem(chains[0], chains[1], cost, 0.9)).distance
    assert result.counted is not None
    assert result.counted == pytest.approx(expected, abs=1e-8)
    assert result.bounds.low <= result.counted <= result.bounds.high
    assert result.bounds.high - result.bounds.low < 1e-9
    assert result.claim is Claim.NOTHING


def test_a_run_that_has_not_converged_says_so() -> None:
    x, y = random_walk(5, 0.6, start=0), random_walk(5, 0.3, start=3)
    cost = costs.absolute(reward(5), reward(5))
    rates = steps.auto(5, 5, 20_000, 2.0)
    with pytest.warns(ConvergenceWarning, match="has not converged"):
        result = somcot.solve(x, y, cost, discount=0.95, n_steps=20_000, rng=0, steps=rates)
    assert result.counted is not None
    values = {"distance": f"{result.distance:.3f}", "counted": f"{result.counted:.3f}"}
    assert result.diagnose()[0] == Note("not-converged", **values)
    assert result.counted - result.distance > 0.2


def easy() -> Iterator[tuple[float, MarkovChain, MarkovChain, Any]]:
    """Twelve ordinary problems."""
    for discount in (0.9, 0.95):
        for theta in (0.3, 0.5, 0.7):
            yield discount, *walks(5, theta)
    for theta in (0.5, 0.7):
        yield 0.9, *blocks(5, 3, theta)
    for theta in (0.3, 0.7):
        yield 0.9, *walks(10, theta)
    for seed in (10, 11):
        rng = np.random.default_rng(seed)
        x, y = (MarkovChain(rng.dirichlet(np.ones(6), size=6)) for _ in range(2))
        yield 0.9, x, y, rng.random((6, 6))


def test_twelve_easy_runs_are_left_alone() -> None:
    for number, (discount, x, y, cost) in enumerate(easy()):
        result = somcot.solve(x, y, cost, discount=discount, n_steps=40_000, support="observed", rng=number)
        assert result.counted is not None
        assert "not-converged" not in codes(result.diagnose()), (number, result.distance)


def test_large_problems_are_not_solved_on_the_side() -> None:
    rng = np.random.default_rng(0)
    cost = rng.random((130, 130))
    state = somcot.init(cost, discount=0.9, n_steps=1, steps="paper")
    state = somcot.advance(state, ([0], [1]), ([0], [1]))
    state.counts_x[:] = state.counts_y[:] = 1
    result = somcot.finish(state)
    assert result.counted is None
    assert result.bounds == (cost.min(), cost.max())
    assert codes(result.diagnose())[0] == "counted-not-solved"
    assert counted.forecast(*(np.eye(5, dtype=np.int64),) * 2) < 1e-3


@pytest.mark.parametrize("rule", ["auto", "paper"])
def test_every_run_is_compared_unless_that_takes_too_long(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"discount": 0.9, "method": "somcot", "n_steps": 50, "rng": 0, "steps": rule}
    result = distance(random_walk(3), random_walk(3), np.eye(3), **options)
    assert f"its transitions give {result.counted:.6g}" in str(result)
    monkeypatch.setattr(counted, "forecast", lambda *_: 100.0)
    result = distance(random_walk(3), random_walk(3), np.eye(3), **options)
    assert result.counted is None
    assert "its transitions" not in str(result)


def test_the_text_says_what_an_interval_is_of_when_the_run_is_off() -> None:
    """The interval is that of the counted chains; the number of Algorithm 2 with all its steps averaged is outside."""
    x, y = (random_walk(5, p).sample(400, 50, rng=seed) for seed, p in ((1, 0.5), (2, 0.7)))
    rewards = [1, 0, 0, 0, -1]
    cost = costs.absolute(rewards, rewards)
    options: dict[str, Any] = {"discount": 0.9, "method": "somcot", "confidence": 0.9}
    result = distance(x, y, cost, **options, steps="paper", average=1.0, n_steps=20_000)
    assert result.confidence_interval is not None
    low, high, _ = result.confidence_interval
    assert not low <= result.distance <= high
    assert f"not converged: its transitions give {result.counted:.6g}, estimated, 90 % interval" in str(result)
    assert "The run has not converged: its own transitions give" in certainty(result, cost)
    fine = distance(x, y, cost, **options)
    assert "not converged" not in str(fine) + certainty(fine, cost)


@pytest.mark.parametrize("growing", [False, True])
def test_rows_of_the_trace_are_the_same_whenever_they_are_worked_out(
    growing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, or from kept sums when they are read, also after a journey to another process."""

    def traced() -> Result:
        x, y, cost = walks(4, 0.7)
        chains: list[tuple[int, MarkovChain]] = list(enumerate((x, y)))
        ends: list[Any] = [streams.from_chain(chain, 0.9, seed) for seed, chain in chains]
        if growing:
            ends = [Fed(chain, 900, seed) for seed, chain in chains]
        support: Any = "observed" if growing else "full"
        own: dict[str, Any] = {"n_steps": 900, "support": support, "average": 0.4, "steps": "theorem"}
        return somcot.solve(ends[0], ends[1], cost, discount=0.9, **own)

    later = traced()
    sent = pickle.loads(pickle.dumps(later))
    monkeypatch.setattr(fold, "MOST_PENDING", 0)
    now = traced()
    assert len(now.trace["step"]) == 45
    for name, column in now.trace.items():
        assert column.tobytes() == later.trace[name].tobytes() == sent.trace[name].tobytes()
