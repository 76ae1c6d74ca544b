"""What a prompt and a notebook show of each record: short, escaped, without scripts, and true."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import mdp, msm
from somcot.plumbing import html as cards
from somcot.plumbing.notes import Note
from somcot.result import Duals, Maps
from tests.test_report import HOSTILE, Page

LABELS = HOSTILE[:4]


def chain(p: float) -> somcot.MarkovChain:
    rows = np.full((4, 4), (1 - p) / 3) + (p - (1 - p) / 3) * np.eye(4)
    return somcot.MarkovChain(rows, states=LABELS)


@pytest.fixture(scope="module")
def records() -> dict[str, Any]:
    x, y = chain(0.4), chain(0.7)
    a, b = x.sample(60, 20, rng=1), y.sample(60, 20, rng=2)
    cost = somcot.costs.labels(LABELS, LABELS)
    known = somcot.distance(x, y, cost, discount=0.9)
    data = somcot.distance(a, b, cost, discount=0.9, confidence=0.9, rng=0)
    process = mdp.MDP(np.full((4, 2, 4), 0.25), np.arange(8.0).reshape(4, 2), states=LABELS, actions=LABELS[:2])
    return {
        "chain": x, "samples": a, "counts": somcot.Counts.from_samples(a),
        "independent": x.sample_occupancy(50, 0.9, rng=0), "known": known, "data": data,
        "stream": somcot.distance(x, y, cost, discount=0.9, method="somcot", n_steps=50, rng=0),
        "contributions": data.contributions(), "estimate": data.estimate,
        "test": somcot.same_process(a, b, cost, discount=0.9), "order": somcot.markov_order(a, max_order=1),
        "mdp": process, "aggregation": mdp.aggregate(process, discount=0.9, n_classes=2),
        "plan": mdp.optimal(process, discount=0.9),
        "matrix": somcot.distance_matrix({"<script>": a, "b": b}, discount=0.9, confidence=0.9, rng=0),
        "selection": somcot.select_model(a, {"<script>": x, "y": y}, discount=0.9, rng=0),
        "lumping": somcot.lump(x, [1.0, 0.0, 0.0, 0.0]),
        "drift": somcot.drift({"<script>": a, "y": b}, discount=0.9, rng=0),
        "posterior": msm.posterior_distances([x, y], [y, y], discount=0.9),
    }  # fmt: skip


NAMES = [
    "chain", "samples", "counts", "independent", "known", "data", "stream", "contributions", "estimate", "test",
    "order", "mdp", "aggregation", "plan", "matrix", "selection", "lumping", "posterior", "drift",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_safe_and_small_whatever_the_labels(name: str, records: dict[str, Any]) -> None:
    text = records[name]._repr_html_()
    page = Page(text)
    assert page.open == []
    assert page.risky == []
    assert not page.seen & {"script", "img", "link", "iframe", "object"}
    assert "<script" not in text
    assert "url(" not in text
    assert len(text) < 12_000


@pytest.mark.parametrize("name", NAMES)
def test_a_repr_is_a_line(name: str, records: dict[str, Any]) -> None:
    text = repr(records[name])
    assert "\n" not in text
    assert len(text) < 400


def test_cards_say_what_the_records_hold(records: dict[str, Any]) -> None:
    data = records["data"]
    text = data._repr_html_()
    low, high, _ = data.confidence_interval
    assert f"distance {data.distance:.4f}" in text
    assert f"With 90 % confidence the true value lies between {100 * low:.1f} % and {100 * high:.1f} %" in text
    assert "proved" not in text
    assert "proved to" in records["known"]._repr_html_()
    assert "without an error bound" in records["stream"]._repr_html_()
    assert "1,200" in records["samples"]._repr_html_()
    assert "independently, at discount 0.9" in records["independent"]._repr_html_()
    assert f"p = {records['test'].pvalue:.3g}" in records["test"]._repr_html_()
    assert records["test"].pvalue <= 0.05
    assert "The recordings differ" in records["test"]._repr_html_()
    assert ">0.4<" in records["chain"]._repr_html_()


def test_arrays_are_named_by_their_shapes() -> None:
    big = np.zeros((30, 40))
    assert repr(Maps(big, big.T)) == "Maps(encoder=array (30, 40), decoder=array (40, 30), at_noise_level=False)"
    assert repr(Duals(np.zeros((2, 2, 3)), np.zeros((2, 3, 3)), np.zeros((2, 3)))).startswith("Duals(alpha_x=array (2")
    walk = somcot.random_walk(50)
    gradient = somcot.distance(walk, walk, np.ones((50, 50)), discount=0.9).gradient
    assert gradient is not None
    assert len(repr(gradient.x)) < 200
    assert (
        repr(somcot.Problem(walk, walk, np.eye(50), 0.9)) == "Problem(50 x 50 states, cost from 0 to 1, discount 0.9)"
    )


def test_a_large_chain_shows_a_corner_and_says_so() -> None:
    text = somcot.random_walk(300)._repr_html_()
    assert "the first 8 x 8 of 300 x 300" in text
    assert len(text) < 12_000


def test_a_scale_and_a_histogram_stay_inside_their_pictures() -> None:
    for value in (-1.0, 0.0, 2.0, 5.0):
        places = [float(part.split('"')[1]) for part in cards.scale(value, value, value, (0.0, 2.0)).split("x=")[1:]]
        assert all(0.0 <= place <= 300.0 for place in places)
    values = np.random.default_rng(0).normal(size=199)
    bars = re.findall(r'x="([0-9.]+)" y="[^"]*" width="([0-9.]+)"', cards.histogram(values, 5.0))
    assert len(bars) > 5
    assert all(float(place) + float(width) <= 300.0 for place, width in bars)
    assert cards.histogram(np.full(3, np.nan), 1.0) == ""
    assert cards.histogram(np.ones(3), 1.0).startswith("<svg")


def test_a_sweep_over_lags_is_a_table() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.choice(2, 4000, p=p) for p in ([0.5, 0.5], [0.4, 0.6]))
    text = msm.lag_sweep(a, b, [1, 2], discount=0.9)._repr_html_()
    assert Page(text).open == []
    assert text.count("<tr>") == 3


def test_a_note_on_both_sides_stands_once_on_a_card(records: dict[str, Any]) -> None:
    text = replace(records["known"], notes=tuple(Note("empty-traces", side, n=1) for side in "xy"))._repr_html_()
    assert "X and Y: 1 trace has no event" in text


def test_an_estimate_far_below_its_error_is_shown_as_zero() -> None:
    x, y = (somcot.random_walk(4, theta).sample(80, 15, rng=0) for theta in (0.3, 0.7))
    result = somcot.distance(x, y, discount=0.9)
    assert result.estimate is not None
    small = replace(result, distance=5e-4 * result.estimate.standard_error)
    assert str(small).startswith("0, estimated")
    page = somcot.report.html(small, x=x, y=y)
    assert "<th>distance</th><td>0.0000</td>" in page
    large = replace(result, distance=2e-3 * result.estimate.standard_error)
    assert not str(large).startswith("0, estimated")
