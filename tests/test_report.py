"""The report: self-contained, complete, small, and safe with hostile labels."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import report
from somcot.inference import intervals
from somcot.live.monitor import Monitor
from somcot.plumbing.html import Bold, Section, Table, markup
from somcot.plumbing.notes import Note
from somcot.report import many_facts
from somcot.report import svg as drawings
from tests.notes import notes_in

HOSTILE = (
    "<script>document.title='hacked'</script>", '"><img src=x onerror=alert(1)>', "emoji \N{PILE OF POO}",
    "x" * 5000, "a'b\"c&d", "line\nbreak\ttab\0nul", "</style></svg>", "\u202egnp",
)  # fmt: skip


def hostile_result() -> tuple[somcot.Result, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    n = len(HOSTILE)
    rng = np.random.default_rng(0)
    x, y = (somcot.MarkovChain(rng.dirichlet(np.ones(n), n), states=HOSTILE) for _ in range(2))
    cost = somcot.costs.labels(HOSTILE, HOSTILE)
    return somcot.distance(x, y, cost, discount=0.9), cost


def test_names_of_nodes_that_mean_nothing_are_not_compared() -> None:
    nx = pytest.importorskip("networkx")
    a, b = (somcot.readers.from_graph(nx.watts_strogatz_graph(n, 4, 0.3, seed=n)) for n in (14, 11))
    page = report.html(somcot.distance(a, b, "neighbourhood", discount=0.9))
    assert "Pairs of states with the largest contributions" in page
    for part in ("is followed by", "Only in", "of the same name", "Transitions with the largest contributions"):
        assert part not in page


def big_result(n: int) -> tuple[somcot.Result, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    rng = np.random.default_rng(1)
    x, y = (
        somcot.MarkovChain(rng.dirichlet(np.ones(n) / 10, n), states=[f"state {i}" for i in range(n)]) for _ in "xy"
    )
    cost = rng.random((n, n))
    return somcot.distance(x, y, cost, discount=0.9), cost


class Page(HTMLParser):
    """Tags that are open, tags seen, and everything that could make a browser fetch or run something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.risky: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in ("meta",):
            self.open.append(tag)
        self.risky += [name for name, _ in attrs if name in ("src", "href", "xlink:href") or name.startswith("on")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_nothing_is_fetched_or_run_whatever_the_labels() -> None:
    result, cost = hostile_result()
    text = report.html(
        result,
        cost=cost,
        names=(HOSTILE[0], HOSTILE[1]),
        cost_name=HOSTILE[6],
        warnings=[HOSTILE[0]],
        command=HOSTILE[1],
    )
    page = Page(text)
    assert page.open == []
    assert page.seen <= {
        "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "small", "svg", "g", "line",
        "rect", "path", "text", "circle", "polyline", "div", "table", "tr", "th", "td", "figure", "figcaption", "sub",
        "sup", "strong", "ul", "ol", "li", "pre", "b", "span", "details", "summary", "thead",
    }  # fmt: skip
    assert page.risky == []
    assert not re.search(r"https?:|url\(|@import", text)
    assert "&lt;script&gt;" in text
    assert "\0" not in text


def test_the_answer_and_its_parts_are_there() -> None:
    rng = np.random.default_rng(3)
    x, y = (somcot.random_walk(5, theta).sample(200, 20, rng=rng) for theta in (0.3, 0.6))
    cost = somcot.costs.labels(x.states, y.states)
    result = somcot.distance(x, y, cost, discount=0.9, confidence=0.8, rng=0)
    text = report.html(
        result, cost=cost, x=x, y=y, names=("slow", "fast"), command="somcot distance a b", warnings=["mind the gap"],
        known=0.25,
    )  # fmt: skip
    for part in (
        "How far apart are slow and fast?", "of the steps that matter, fast is in a different state than slow.",
        "80 % confidence", "How it was computed", "Which states correspond", "States before and after",
        "Steps that differ", "What accounts for the distance", "Sequences, one per line",
        "Contributions to the distance", "By joint step", "The two processes", "4,000", "mind the gap", "Convergence",
        "somcot distance a b", "truth 0.2500", "prefers-color-scheme:dark", "width=device-width",
    ):  # fmt: skip
        assert part in text, part


def test_states_that_only_one_side_has_are_named() -> None:
    x = somcot.MarkovChain([[0.5, 0.5], [0.5, 0.5]], states=["a", "b"])
    y = somcot.MarkovChain([[0.5, 0.25, 0.25], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], states=["a", "b", "<new>"])
    result = somcot.distance(x, y, discount=0.9)
    share = 100 * result.state_law[:, 2].sum()
    page = report.html(result, names=("May", "June")).replace("&nbsp;", " ")
    assert f'<td>&lt;new&gt;</td><td>new</td><td class="a">0.0 % \u2192 {share:.1f} %</td></tr>' in page
    rows = re.findall(r"<tr><td>(\S+)</td><td>(?:new|vanished|more|less|equal)</td>", page)
    assert rows[0] == "&lt;new&gt;"  # what is new comes first
    assert "<td>new</td>" not in report.html(somcot.distance(x, x, discount=0.9))


@pytest.mark.filterwarnings("ignore::somcot.plumbing.errors.DataWarning")
def test_the_words_follow_what_is_known() -> None:
    x, y = somcot.random_walk(4), somcot.random_walk(4, 0.7)
    cost = somcot.costs.absolute([1, 0, 0, -1], [1, 0, 0, -1])
    a, b = x.sample(20, 20, rng=1), y.sample(20, 20, rng=2)
    known = report.html(somcot.distance(x, y, cost, discount=0.9))
    assert "Both processes are known, and the number is proved to " in known
    assert "the band shows the proved bounds" in known
    assert "significant" not in known.lower()
    data = somcot.distance(a, b, cost, discount=0.9)
    page = report.html(data)
    assert "This is estimated from recordings; no interval was requested, so its error is not known." in page
    assert f"<tr><th>before correction</th><td>{data.plugin:.4f}, proved to " in page
    assert "certain" not in page
    stream = somcot.distance(x, y, cost, discount=0.9, method="somcot", n_steps=300, rng=0)
    page = report.html(stream)
    assert f"differ by about {stream.distance:.4f} on average" in page
    assert "This is the value after 300 steps, without an error bound." in page
    assert "<th>proved</th><td>no error bound after 300 steps</td>" in page
    assert "proved bounds" not in page


def test_the_order_is_that_of_a_reader_in_a_hurry() -> None:
    x, y = (somcot.random_walk(5, theta).sample(200, 20, rng=k) for k, theta in enumerate((0.3, 0.6)))
    result = somcot.distance(x, y, somcot.costs.labels(x.states, y.states), discount=0.9, confidence=0.9, rng=0)
    page = report.html(result, x=x, y=y, names=("slow", "fast"), warnings=["mind the gap"]).replace("&nbsp;", " ")
    parts = [
        f"On about {100 * result.distance:.1f} % of the steps that matter", "With 90 % confidence", "permutation test",
        "States before and after", "Steps that differ", "is followed by", "Which states correspond", "mind the gap",
        "<details>", "Heat maps",
    ]  # fmt: skip
    assert sorted(parts, key=page.index) == parts
    body = page.partition("<details>")[0]
    assert "cross-fit" not in body
    assert "Encoder" not in body
    assert "0: identical" in body  # the scale covers all possible values
    assert "1: maximally different" in body


def test_steps_are_told_with_their_direction_and_mark() -> None:
    x, y = (
        somcot.MarkovChain([[0.0, p, 1 - p], [0, 1, 0], [0, 0, 1]], states=["cart", "paid", "left"])
        for p in (0.5, 0.25)
    )
    a, b = x.sample(400, 3, rng=1), y.sample(400, 3, rng=2)
    found = somcot.distance(a, b, somcot.costs.labels(a.states, b.states), discount=0.9, confidence=0.9)
    page = report.html(found, names=("May", "June"), state_name="page")
    shares = [side.chain().transition[0, 1] for side in (a, b)]
    wanted = f"less often in June: {100 * shares[1]:.1f}&nbsp;% instead of {100 * shares[0]:.1f}&nbsp;%"
    assert f'<b>cart</b> is followed by <b>paid</b> {wanted} <span class="tag clear">significant</span>' in page
    assert "June is in a different state (page) than May." in page
    assert "May is in <b>paid</b> while June is in <b>left</b>: " in page
    with pytest.warns(somcot.DataWarning, match="near-minimum|not distinguishable"):
        same = somcot.distance(a, x.sample(400, 3, rng=3), somcot.costs.labels(a.states, a.states), discount=0.9)
    assert 'class="tag clear"' not in report.html(same)


def test_words_for_other_costs() -> None:
    x, y = somcot.random_walk(3), somcot.random_walk(3, 0.7)
    gain = somcot.costs.absolute([1, 0, -1], [1, 0, -1])
    result = somcot.distance(x, y, gain, discount=0.9)
    part = f"{result.distance:.4f} on average: {100 * result.distance / 2:.1f} % of the largest possible difference"
    assert part in report.meaning(result)
    assert "differ in 'gain' by" in report.meaning(result, cost_name="reward:gain")
    shifted = somcot.distance(x, y, gain - 1, discount=0.9)
    assert "where -1.0000 to 1.0000 is possible" in report.meaning(shifted)
    constant = somcot.distance(x, y, np.ones((3, 3)), discount=0.9)
    assert report.meaning(constant).endswith("differ by 1.0000 on average.")
    apart = somcot.distance(x, x, 1 - np.eye(3), discount=0.9)
    assert report.meaning(apart) == "On none of the steps that matter, Y is in a different state than X."


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_estimate_of_zero_does_not_say_that_no_step_differs() -> None:
    """A rare new state is found, and the distance corrected for bias may be 0 all the same."""
    often = [["home", "cart", "paid"], ["home", "paid"], ["home", "home", "cart", "paid"]] * 60
    rare = [*often[:-8], *[["home", "error", "paid"]] * 8]
    x, y = (somcot.Samples.from_trajectories(rows, terminated=True) for rows in (often, rare))
    result = somcot.distance(x, y, discount=0.7, rng=0)
    assert result.distance == 0.0
    assert [change.state for change in result.findings().states if change.kind == "new"] == ["error"]
    assert report.meaning(result).startswith("On about 0.0 % of ")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_nothing_is_claimed_of_one_process_recorded_twice() -> None:
    walk = somcot.random_walk(4)
    cost = somcot.costs.labels(walk.states, walk.states)
    a, b = walk.sample(60, 20, rng=1), walk.sample(60, 20, rng=2)
    page = report.html(somcot.distance(a, b, cost, discount=0.9, confidence=0.9, rng=0))
    assert ", which includes no difference." in page
    assert "A permutation test does not find a difference either" in page


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_notes_use_the_names() -> None:
    walk = somcot.random_walk(4)
    cost = somcot.costs.labels(walk.states, walk.states)
    a, b = walk.sample(2, 12, rng=1), walk.sample(400, 20, rng=2)
    result = somcot.distance(a, b, cost, discount=0.9)
    assert any((note.code, note.about) == ("few-visits", "x") for note in notes_in(result.diagnose()))
    page = report.html(
        result, names=("may.csv", "june.csv"), warnings=[Note("empty-traces", side, n=1) for side in "xy"]
    )
    assert "<li>may.csv: few steps" in page or "<li>may.csv: only 2 sequences" in page
    assert "<li>may.csv and june.csv: 1 trace has no event</li>" in page
    assert "<li>x: " not in page
    notes = report.merge_notes(result.diagnose(), ("may.csv", "june.csv"))
    assert (
        report.html(result, names=("may.csv", "june.csv"), warnings=notes).count("<li>may.csv: only 2 sequences") == 1
    )


def test_states_of_one_side_are_listed() -> None:
    x, y = (somcot.MarkovChain(np.eye(2), states=states) for states in (["a", "b"], ["b", "c"]))
    text = report.html(somcot.distance(x, y, [[1, 1], [0, 1]], discount=0.5), x=x, y=y, names=("May", "June"))
    assert "Only in May: a." in text
    assert "Only in June: c." in text


@pytest.mark.parametrize("names", [("May",), ("May", "June", "July"), ("May", 3), "ab"])
def test_names_are_two_texts(names: Any) -> None:
    x = somcot.random_walk(3)
    with pytest.raises(TypeError, match="names: found"):
        report.html(somcot.distance(x, x, discount=0.5), names=names)


@pytest.mark.parametrize("n", [50, 120])
def test_under_a_megabyte(n: int, tmp_path: Path) -> None:
    result, cost = big_result(min(n, 50))
    if n > 50:  # a chain with few steps per state is enough to see which states are shown
        walk, cost = somcot.random_walk(n), np.ones((n, n))
        result = somcot.distance(walk, walk, cost, discount=0.9)
    report.write(tmp_path / "big.html", result, cost=cost)
    assert (tmp_path / "big.html").stat().st_size < 1_000_000
    if n > 50:
        assert f"the 50 and 50 most visited of {n} and {n} states" in (tmp_path / "big.html").read_text("utf-8")


def test_contributions_add_up_to_the_distance() -> None:
    result, cost = big_result(12)
    for steps in (False, True):
        found = report.contributions(result, cost, steps=steps, most=10**6)
        assert sum(c.amount for c in found) == pytest.approx(result.distance, abs=1e-9)
        amounts = [c.amount for c in found]
        assert amounts == sorted(amounts, reverse=True)
    top = report.contributions(result, cost, most=1)[0]
    assert top.amount == pytest.approx((result.state_law * cost).max())


def test_shades_follow_the_values() -> None:
    picture = drawings.heat_map(np.array([[1.0, 0.5], [0.0, 0.001]]), "ab", "cd", title="t")
    assert re.findall(r'fill-opacity="([\d.]+)"', picture) == ["0.50", "1.00"]


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_shows_it_and_runs_nothing(tmp_path: Path) -> None:
    result, cost = hostile_result()
    report.write(tmp_path / "page.html", result, cost=cost, names=(HOSTILE[0], HOSTILE[1]))
    done = subprocess.run(
        [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", (tmp_path / "page.html").as_uri(),
        ],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    if not done.stdout:
        pytest.skip("chromium cannot run here")
    assert "<title>somcot: &lt;script&gt;" in done.stdout
    assert "<script" not in done.stdout
    assert "<img" not in done.stdout
    assert done.stdout.count("<svg") >= 5


@pytest.mark.filterwarnings("ignore::somcot.plumbing.errors.DataWarning")
def test_says_when_the_maps_are_at_the_noise_level() -> None:
    x = somcot.random_walk(4)
    cost = somcot.costs.absolute([1, 0, 0, -1], [1, 0, 0, -1])
    a, b = (x.sample(20, 20, rng=seed) for seed in (1, 2))
    near = somcot.distance(a, b, cost, discount=0.9)
    assert "level of the sampling noise" in report.html(near, cost=cost)
    bare = somcot.distance(a, b, cost, discount=0.9, method="plugin")
    assert "level of the sampling noise" not in report.html(bare, cost=cost)


@pytest.mark.parametrize("distance", [0.0, 0.05, 1.0])
def test_the_number_stays_inside_its_picture(distance: float) -> None:
    picture = drawings.interval(distance, low=0.0, high=1.0, ends=(0.0, 1.0), ticks={})
    found = re.search(r'<text x="([0-9.]+)" y="16"[^>]*>([^<]+)<', picture)
    assert found is not None
    place, half = float(found[1]), 4.7 * len(found[2])  # a bold digit of this size is 9.4 wide
    assert half <= place <= 440 - half


def test_the_mark_is_at_its_share_of_the_scale() -> None:
    picture = drawings.interval(1.0, low=0.0, high=4.0, ends=(0.0, 4.0), ticks={})
    found = re.search(r'<line x1="([0-9.]+)" x2="\1" y1="20"', picture)
    assert found is not None
    assert float(found[1]) == 24 + (440 - 2 * 24) / 4


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
def test_an_interval_of_tiny_shares_is_said_once() -> None:
    chain = somcot.MarkovChain([[0.5, 0.5], [0.5, 0.5]], states=["a", "b"])
    data = chain.sample(20, 10, rng=0)
    result = dataclasses.replace(
        somcot.distance(data, data.resample(1), discount=0.5, confidence=0.9),
        confidence_interval=somcot.result.ConfidenceInterval(1e-5, 2e-4, 0.9),
    )
    assert "the true value is below 0.1 %" in report.certainty(result)
    wide = dataclasses.replace(result, confidence_interval=somcot.result.ConfidenceInterval(1e-5, 0.2, 0.9))
    assert "the true value lies between < 0.1 % and 20.0 %" in report.certainty(wide)


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_a_lower_end_that_is_a_placeholder_is_no_number(scale: float) -> None:
    """Where the test rejects but nothing bounds the distance, no text may show the placeholder as a result."""
    data = somcot.random_walk(2).sample(20, 10, rng=0)
    result = somcot.distance(data, data.resample(1), scale * (1.0 - np.eye(2)), discount=0.5, confidence=0.9)
    low = scale * intervals.LEAST
    unsure, sure = (
        dataclasses.replace(result, confidence_interval=somcot.result.ConfidenceInterval(end, 0.2 * scale, 0.9))
        for end in (low, 100 * low)
    )
    assert "do not bound the distance" in report.certainty(unsure)
    assert "do not bound the distance" not in report.certainty(sure)
    for text in (report.certainty(unsure), report.sentence(unsure), report.html(unsure)):
        assert re.search(r"(>|&gt;) 0\b", text)
        assert f"{low:.4g}" not in text


TEST_SAYS = {  # by the p-value of the test and the lower end of the interval
    (0.01, 0.05): "agrees: recordings as different as these are unlikely under one process (p = 0.01).",
    (0.01, 0.0): "does find a difference (p = 0.01), but its size remains uncertain.",
    (0.4, 0.05): "does not find a difference, though (p = 0.4): treat this as inconclusive.",
    (0.4, 0.0): "does not find a difference either (p = 0.4).",
}


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
@pytest.mark.parametrize(("pvalue", "low"), TEST_SAYS)
def test_what_the_test_adds_to_the_interval(pvalue: float, low: float) -> None:
    """A report must not say that test and interval agree where they do not."""
    chain = somcot.MarkovChain([[0.5, 0.5], [0.5, 0.5]], states=["a", "b"])
    data = chain.sample(20, 10, rng=0)
    result = somcot.distance(data, data.resample(1), discount=0.5, confidence=0.9)
    result = dataclasses.replace(
        result,
        confidence_interval=somcot.result.ConfidenceInterval(low, 0.2, 0.9),
        estimate=result.estimate._replace(pvalue=pvalue),  # type: ignore[union-attr]
    )
    said = f"A permutation test {TEST_SAYS[pvalue, low]}"
    assert report.sentence_of_test(result) == said
    significant = report.certainty(result).endswith("statistically significant.")
    assert significant == (low > 0)
    assert ("agrees" in said) == (pvalue <= 0.05 and significant)
    assert said in report.html(result)


class Cells(HTMLParser):
    """Tables with a row of heads: the text and the class of each cell."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.heads, self.headed, self.taken = 0, False, False
        self.cells = [("", "")]
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.heads = 0 if tag == "tr" else self.heads + (tag == "th")
        self.headed = tag != "table" and (self.headed or self.heads > 1)
        self.taken = self.headed and (self.taken or tag == "td")
        if self.taken and tag == "td":
            self.cells.append(("", dict(attrs).get("class") or ""))

    def handle_endtag(self, tag: str) -> None:
        self.taken = self.taken and tag != "td"

    def handle_data(self, data: str) -> None:
        if self.taken:
            self.cells[-1] = (self.cells[-1][0] + data, self.cells[-1][1])


@pytest.fixture(scope="module")
def all_pages() -> dict[str, str]:
    """A page of each kind, about processes with hostile labels."""
    labels = (HOSTILE[0], HOSTILE[1], "left")
    old, new = (
        somcot.MarkovChain([[0.0, p, 1 - p], [0.5, 0.5, 0.0], [0.9, 0.1, 0.0]], states=labels) for p in (0.5, 0.2)
    )
    weeks = {HOSTILE[0]: old.sample(60, 20, rng=0), "week 2": new.sample(60, 20, rng=1)}
    monitor = Monitor(old, discount=0.9)
    stream = [labels[k] for k in weeks["week 2"].now.tolist()]
    curve = []
    for start in range(0, len(stream), 100):
        monitor.update(stream[start : start + 100])
        curve.append((monitor.n_events, float(monitor.evidence)))
    assert monitor.alarm is not None
    first, second = weeks.values()
    matrix = somcot.distance_matrix(weeks, discount=0.9, confidence=0.9, rng=0)
    more = {"notes": [HOSTILE[0]], "command": HOSTILE[1], "unit": HOSTILE[6]}
    live = many_facts.monitor_sections(monitor, source=HOSTILE[0], curve=curve, facts=[(HOSTILE[0], HOSTILE[6])])
    return {
        "result": report.html(somcot.distance(first, second, discount=0.9, confidence=0.9, rng=0)),
        "matrix": report.page(many_facts.matrix_sections(matrix, **more)),  # type: ignore[arg-type]
        "drift": report.page(
            many_facts.drift_sections(somcot.drift(weeks, discount=0.9, rng=0), source=HOSTILE[1], **more)  # type: ignore[arg-type]
        ),
        "live": report.page(live, refresh=5),
    }


@pytest.mark.parametrize("name", ["result", "matrix", "drift", "live"])
def test_columns_of_numbers_are_aligned_and_no_others(name: str, all_pages: dict[str, str]) -> None:
    cells = [cell for cell in Cells(all_pages[name]).cells if cell[0]]
    number = re.compile(r"(< )?[+-]?[\d,]+(\.\d+)?(e[+-]\d+)?([ \xa0]?%)?")
    wrong = [(text, kind) for text, kind in cells if (kind == "n") != (number.fullmatch(text) is not None)]
    assert wrong == []
    assert sum(kind == "n" for _, kind in cells) > 4
    assert "td.n,th.n{text-align:right" in all_pages[name]


@pytest.mark.parametrize("name", ["result", "matrix", "drift", "live"])
def test_pages_of_every_kind_are_safe_and_use_known_styles(name: str, all_pages: dict[str, str]) -> None:
    page = Page(all_pages[name])
    assert page.open == []
    assert page.risky == []
    assert not page.seen & {"script", "img", "link", "iframe", "object"}
    style, _, body = all_pages[name].partition("</style>")
    used = {word for words in re.findall(r' class="([^"]+)"', body) for word in words.split()}
    assert used - set(re.findall(r"\.([a-z]+)", style)) <= {"missing"}  # crosses have their style with them


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
@pytest.mark.parametrize(("n", "fits"), [(12, True), (40, False)])
def test_a_chart_of_a_few_periods_fits_on_a_phone(n: int, fits: bool) -> None:
    """A chart of many scrolls instead: marks stay apart."""
    chain = somcot.random_walk(2)
    periods = {k: chain.sample(6, 5, rng=k) for k in range(n)}
    page = report.page(many_facts.drift_sections(somcot.drift(periods, discount=0.5, rng=0, n_permutations=1)))
    picture = re.search(r'<svg viewBox="0 0 ([0-9.]+) [^>]*aria-label="distances over the periods"', page)
    assert picture is not None
    assert (float(picture[1]) < 500.0) == fits
    assert (' class="fit"' in picture[0]) == fits


def test_only_the_rendering_escapes() -> None:
    assert (
        markup(["a < b & c", (Bold("<i>"), " in <x>")]) == "<p>a &lt; b &amp; c</p><p><b>&lt;i&gt;</b> in &lt;x&gt;</p>"
    )
    table = Table(("<a>", "n"), [("<b>", "1")], "lr", "<t>")
    assert markup([table]).count("&lt;") == 3
    assert markup([table._replace(rows=[])]) == ""
    with pytest.raises(ValueError, match="zip"):
        markup([table._replace(align="l")])


def test_arrows_avoid_the_states_between_their_ends() -> None:
    """On a ring of 12, a curve between two states that are not neighbours stays clear of all others."""
    n, radius = 12, 96.0
    angle = 2 * np.pi * (np.arange(n) + 0.5) / n - np.pi / 2
    out = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    t = np.linspace(0.0, 1.0, 101)[:, None]
    for i, j in itertools.permutations(range(n), 2):
        drawn = drawings._arrow(drawings._Arrow(i, j, 1.0, "more", ""), radius * out, np.full(n, 4.0), out, radius)
        numbers = np.array([float(v) for v in re.findall(r"-?\d+\.\d+", drawn.partition('"')[2].partition('"')[0])])
        begin, control, end = numbers.reshape(3, 2)
        curve = (1 - t) ** 2 * begin + 2 * t * (1 - t) * control + t**2 * end
        others = np.delete(radius * out, [i, j], axis=0)
        assert np.hypot(*(curve[:, None] - others[None]).transpose(2, 0, 1)).min() > 10.0


def test_a_page_gives_two_notes_of_a_kind_and_no_end_that_looks_like_zero() -> None:
    notes = [Note("few-visits", f"week {k}", counts=f"{k} out of 'a'", effect="interval") for k in range(5)]
    page = markup(many_facts._notes(notes, 20).body)
    assert re.findall(r"<li>(week \d|and \d)", page) == ["week 0", "week 1", "and 3"]
    assert many_facts._rounded(1e-6, 0.1, "low") == "> 0"
    assert many_facts._rounded(0.0, 0.1, "low") == "0.0000"


def test_folded_sections_share_one_heading() -> None:
    first = Section("a", "Title", ["begin"])
    folded = [Section(name, name, ["more"], closed=True) for name in ("b", "c", "d")]
    page = report.page([first, *folded])
    assert page.count("<h2>Details</h2>") == 1
    assert page.count("<details>") == 3


@pytest.mark.parametrize(("steps", "width"), [(10, 300), (100, 400)])
def test_pictures_of_sequences_fill_a_column_while_steps_are_visible(steps: int, width: int) -> None:
    samples = somcot.random_walk(3).sample(4, steps - 1, rng=0)
    drawn = drawings.sequences(samples, drawings.shades([samples], 3), lines=4, steps=steps, title="t")
    assert f'width="{width}" height="20" class="fit"' in drawn


def test_graphs_take_the_width_of_the_page() -> None:
    assert ' class="fluid" ' in drawings.graph(np.ones((3, 3)), "abc", ["red"] * 3, title="t")
