"""The registry of recordings with known truths and the harness that judges intervals on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks import recordings, truth
from benchmarks.logs import Recorded
from benchmarks.sources import Case, Pair, Source, independent, markov
from benchmarks.truth_table import Cell, Line, report

import somcot

# Two kinds of sequences with two hidden states and an end; hidden states 0 and 1 show the same label.
MIXED = Source(
    kernels=np.array(
        [
            [[0.1, 0.6, 0.2, 0.1], [0.5, 0.0, 0.3, 0.2], [0.2, 0.2, 0.5, 0.1], [0, 0, 0, 1]],
            [[0.7, 0.1, 0.1, 0.1], [0.0, 0.8, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6], [0, 0, 0, 1]],
        ],
        dtype=float,
    ),
    starts=np.array([[0.5, 0.0, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0]]),
    weights=np.array([0.7, 0.3]),
    shown=np.array([0, 0, 1, 2]),
)


@pytest.mark.parametrize("length", [None, 3])
def test_projection_is_the_limit_of_counted_sequences(length: int | None) -> None:
    chain = MIXED.projection(length)
    data = MIXED.record(60_000, np.random.default_rng(1), length)
    visits = np.maximum(data.visits, 1)
    share = np.asarray(data.counts()) / visits[:, None]
    # Sequences are independent, transitions within them are not: six standard errors of the latter.
    allowed = 6 * np.sqrt(chain.transition * (1 - chain.transition) / visits[:, None])
    assert np.all(np.abs(share - chain.transition)[:2] <= allowed[:2] + 1e-12)
    assert data.start_counts / data.n_episodes == pytest.approx(chain.initial, abs=0.01)
    assert chain.transition[2].tolist() == [0, 0, 1]


def test_independent_transitions_follow_the_occupancy() -> None:
    chain = markov(np.array([[0.2, 0.8], [0.6, 0.4]]), 0).projection(5)
    data = independent(chain, 200_000, 0.7, np.random.default_rng(2))
    assert np.asarray(data.counts()) / 200_000 == pytest.approx(np.asarray(chain.occupancy(0.7)), abs=0.006)


def test_weights_of_a_log_count_like_copies_of_its_sequences() -> None:
    log = Recorded(np.array([0, 1, 3, 1, 1, 0, 3, 2, 3]), np.array([0, 3, 7, 9]), ("a", "b", "c", "(end)"))
    weighted = log.weighted(np.array([3.0, 1.0, 2.0]))
    copied = log.part(np.array([0, 2, 0, 1, 2, 0])).chain()
    assert weighted.transition == pytest.approx(copied.transition)
    assert weighted.initial == pytest.approx(copied.initial)


def test_registry_has_distinct_names_and_draws_depend_on_the_seed_only() -> None:
    cases = recordings.cases()
    assert len(cases) == sum(1 for family in recordings.FAMILIES for _ in family())
    case = cases["shop few, labels found, 120"]
    first, again, other = (case.drawn(seed)[0] for seed in (0, 0, 1))
    assert np.array_equal(first.now, again.now)
    assert not np.array_equal(first.counts(), other.counts())


def test_run_resumes_and_the_table_judges(tmp_path: Path) -> None:
    pair = Pair("tiny", MIXED, markov(np.array([[0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0, 0, 1.0]]), 0))
    (case,) = pair.sized(80, seeds=3)
    wrong = Case("wrong", case.draw, lambda: 0.9, seeds=3)
    for seeds in (1, 3):  # the second run continues the first
        truth.run([case, wrong], "present", tmp_path, 0.9, seeds)
    lines = truth.read(tmp_path / "present.jsonl")
    assert sorted((line["case"], line["seed"]) for line in lines) == [
        *((case.name, seed) for seed in range(3)),
        *(("wrong", seed) for seed in range(3)),
    ]
    known = truth.truths([case, wrong], tmp_path)
    assert known[case.name] == pytest.approx(
        somcot.distance(pair.x.projection(), pair.y.projection(), discount=0.9).distance
    )
    truth.run([case], "fresh", tmp_path, 0.9, 2, first=100)
    fresh = truth.read(tmp_path / "fresh.jsonl")
    assert [line["seed"] for line in fresh] == [100, 101]
    assert all("pvalue" in line for line in fresh)  # tests belong to the first repetitions, whatever their seeds
    text = report([case, wrong], known, lines, lines, "present", "former", {case.name: "small", "wrong": "small"})
    inside = sum(line["low"] <= known[case.name] <= line["high"] for line in lines if line["case"] == case.name)
    assert f"| small | 2 | 6 | {inside / 6:.3f} | 0.00 of 3 (wrong) |" in text
    assert "Below 0.86: wrong (0.00)." not in text  # fewer than 500 transitions: listed apart
    assert "No results." in report([], {}, [], [], "present", "former", {})  # as after a run of groups alone
    assert text.index("## Fewer than") < text.index("| wrong |") < text.index("## Groups")


def test_failures_and_missed_sides_lower_coverage() -> None:
    inside: Line = {"low": 0.1, "high": 0.3, "plugin": 0.2, "estimate": 0.2, "pvalue": 0.01, "warnings": 0}
    lines = [inside, inside | {"low": 0.25}, inside | {"high": 0.15, "pvalue": 0.2}, {"error": "ValueError: none"}]
    cell = Cell("c", 0.2, lines)
    assert (cell.coverage, cell.below, cell.above, cell.failed) == (0.25, 0.25, 0.25, 1)
    assert cell.inconsistent == pytest.approx(1 / 3)
    assert cell.rejects == pytest.approx(2 / 3)
