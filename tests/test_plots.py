"""Pictures take a record and an axis and return the axis."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import somcot
from somcot import readers
from somcot.samples import Samples
from tests.instances import blocks

mpl.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(scope="module")
def result() -> somcot.Result:
    return somcot.distance(*blocks(4, 2, 0.5), discount=0.9)


def test_encoder_and_decoder_show_their_arrays(result: somcot.Result) -> None:
    _, axes = plt.subplots(1, 2)
    for draw, values, ax in zip(
        (somcot.plots.encoder, somcot.plots.decoder), (result.encoder, result.decoder), axes, strict=True
    ):
        assert draw(result, ax=ax) is ax
        np.testing.assert_array_equal(ax.images[0].get_array(), values)
    assert [t.get_text() for t in axes[0].get_xticklabels()][:3] == ["0,0", "0,1", "1,0"]
    plt.close("all")


def test_a_figure_is_made_when_none_is_given(result: somcot.Result) -> None:
    assert somcot.plots.encoder(result).figure is plt.gcf()
    plt.close("all")


def test_many_states_are_labelled_sparsely() -> None:
    walk = somcot.random_walk(60)
    result = somcot.distance(walk, walk, np.zeros((60, 60)), discount=0.9)
    assert len(somcot.plots.encoder(result).get_xticks()) <= 15
    plt.close("all")


@pytest.fixture(scope="module")
def data() -> tuple[somcot.Result, Samples]:
    x, y = (somcot.random_walk(4, theta).sample(100, 20, rng=k) for k, theta in enumerate((0.3, 0.6)))
    cost = somcot.costs.labels(x.states, y.states)
    return somcot.distance(x, y, cost, discount=0.9, confidence=0.9, rng=0), x


def test_coupling_shows_the_law_of_pairs(result: somcot.Result) -> None:
    _, ax = plt.subplots()
    assert somcot.plots.coupling(result, ax=ax) is ax
    np.testing.assert_array_equal(ax.images[0].get_array(), result.state_law)
    plt.close("all")


def test_trace_ends_inside_the_bracket_it_shows(data: tuple[somcot.Result, Samples]) -> None:
    result, _ = data
    ax = somcot.plots.trace(result)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), result.trace["distance"])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "proved bounds, estimated chains", "distance, estimated chains", "estimate", "90 % interval"
    ]  # fmt: skip
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [result.distance] * 2)
    plt.close("all")


def test_trace_shows_no_bracket_where_nothing_is_proved(result: somcot.Result) -> None:
    def legend(shown: somcot.Result) -> list[str]:
        return [text.get_text() for text in somcot.plots.trace(shown).get_legend().get_texts()]

    assert legend(result) == ["proved bounds", "distance"]
    run = somcot.distance(*blocks(4, 2, 0.5), discount=0.9, method="somcot", n_steps=100, rng=0)
    assert legend(run) == ["average of all steps so far", "distance: average of the last"]
    line, answer = somcot.plots.trace(run).lines
    np.testing.assert_array_equal(line.get_ydata(), run.trace["distance"][:-1])
    np.testing.assert_array_equal(answer.get_ydata(), [run.distance])
    plt.close("all")


def test_names_are_used_throughout(data: tuple[somcot.Result, Samples]) -> None:
    result, _ = data
    picture = somcot.plots.overview(result, names=("may.csv", "june$.csv"))
    texts = " | ".join(text.get_text() for text in picture.findobj(mpl.text.Text))
    for part in ("state of may.csv", r"state of june\$.csv", "occupancy of may.csv", "may.csv and june"):
        assert part in texts
    low, high, _ = result.confidence_interval or (0.0, 0.0, 0.0)
    title = picture.get_suptitle()
    assert f"distance {result.distance:.4f} (estimated, 90 % interval {low:.4f} to {high:.4f})" in title
    assert result.method not in title
    plt.close("all")


def test_visits_are_sorted(data: tuple[somcot.Result, Samples]) -> None:
    _, samples = data
    ax = somcot.plots.visits(samples, most=3)
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == sorted(samples.visits.tolist(), reverse=True)[:3]
    plt.close("all")


def test_graphs_have_matched_colours() -> None:
    walk = somcot.random_walk(4)
    result = somcot.distance(walk, walk, somcot.costs.labels(walk.states, walk.states), discount=0.9)
    colours = [somcot.plots.graph(result, side).collections[0].get_facecolor() for side in ("x", "y")]
    np.testing.assert_array_equal(*colours)
    with pytest.raises(TypeError, match="record: found int, expected a Result, a MarkovChain or Samples"):
        somcot.plots.graph(3)
    with pytest.raises(ValueError, match="side: found 'z'"):
        somcot.plots.graph(result, "z")
    plt.close("all")


def test_overview_draws_hostile_labels_without_warnings() -> None:
    labels = ["$x^{", "<b>", "\N{PILE OF POO}", "x" * 400, "a\nb"]
    chain = somcot.MarkovChain(np.full((5, 5), 0.2), states=labels)
    result = somcot.distance(chain, chain, somcot.costs.labels(labels, labels), discount=0.9)
    figure = somcot.plots.overview(result)
    figure.canvas.draw()
    assert len(figure.axes) == 9
    plt.close("all")


def test_graphs_of_chains_and_recordings(data: tuple[somcot.Result, Samples]) -> None:
    chain = somcot.MarkovChain([[0.5, 0.5], [0.0, 1.0]], states=["in", "out"])
    texts = [text.get_text() for text in somcot.plots.graph(chain, names=("shop", "")).texts if text.get_text()]
    assert texts == ["in", "out"]
    ax = somcot.plots.graph(chain, discount=0.5)
    sizes = ax.collections[0].get_sizes()  # in: 2/3 of the time, out: 1/3
    assert (sizes[0] - 30) / (sizes[1] - 30) == pytest.approx(2.0)
    assert somcot.plots.graph(data[1], names=("May", "")).get_title() == "counted steps of May"
    plt.close("all")


def test_graphs_show_where_a_chain_is_in_the_long_run() -> None:
    networkx = pytest.importorskip("networkx")
    wheel = networkx.star_graph(30)  # node 0 has all edges
    wheel.add_edge(29, 30)
    walk = readers.from_graph(networkx.relabel_nodes(wheel, {0: 30, 30: 0}))
    ax = somcot.plots.graph(walk)
    assert ax.get_title() == "occupancy, 20 of 31 states"
    labels = [text.get_text() for text in ax.texts if text.get_text()]
    sizes = dict(zip(labels, ax.collections[0].get_sizes(), strict=True))
    assert {"30", "29", "0"} <= set(labels)  # those with most edges, though two of them are the last
    assert (sizes["30"] - 30) / (sizes["29"] - 30) == pytest.approx(15.0)
    # Several components, each with its share of a stationary start.
    pair = readers.from_graph(networkx.Graph([("a", "b"), ("b", "c"), ("d", "e")]), initial="stationary")
    of_pair = somcot.plots.graph(pair, names=("mine", "")).collections[0].get_sizes() - 30
    assert of_pair / of_pair[0] == pytest.approx([1, 2, 1, 1, 1])
    plt.close("all")


@pytest.mark.parametrize("inches", [2.5, 6.0])
def test_dots_of_neighbours_do_not_cover_each_other(inches: float) -> None:
    figure, ax = plt.subplots(figsize=(inches, inches), layout="constrained")
    somcot.plots.graph(somcot.MarkovChain(np.full((20, 20), 0.05)), ax=ax)
    figure.canvas.draw()
    dots: Any = ax.collections[0]
    places = ax.transData.transform(dots.get_offsets()) * 72.0 / figure.dpi
    between = np.linalg.norm(places - np.roll(places, 1, axis=0), axis=1)
    assert (np.sqrt(dots.get_sizes()) < between).all()  # diameters, in points
    plt.close("all")


def test_time_in_states_of_every_record(data: tuple[somcot.Result, Samples]) -> None:
    result, samples = data
    chain = somcot.MarkovChain([[0.5, 0.5], [0.0, 1.0]], states=["in", "out"])
    assert [bar.get_width() for bar in somcot.plots.visits(chain, discount=0.5).patches] == pytest.approx(
        [2 / 3, 1 / 3]
    )
    with pytest.raises(ValueError, match="discount: missing"):
        somcot.plots.visits(chain)
    ax = somcot.plots.visits(result, names=("May", "June"), most=2)
    widths = np.array([bar.get_width() for bar in ax.patches]).reshape(2, 2)
    order = np.argsort(-(result.state_law.sum(1) + result.state_law.sum(0)))[:2]
    np.testing.assert_allclose(widths, [result.state_law.sum(1)[order], result.state_law.sum(0)[order]])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["May", "June"]
    assert somcot.plots.visits(samples, names=("May", "June")).get_title() == "visits, May"
    plt.close("all")


def test_intervals_lie_below_each_other(data: tuple[somcot.Result, Samples], result: somcot.Result) -> None:
    run = somcot.distance(*blocks(4, 2, 0.5), discount=0.9, method="somcot", n_steps=100, rng=0)
    ax = somcot.plots.intervals({"data": data[0], "known": result, "stream": run})
    assert [label.get_text() for label in ax.get_yticklabels()] == ["data", "known", "stream"]
    assert data[0].confidence_interval is not None
    lines = [line.get_xdata().tolist() for line in ax.lines]
    assert lines == [
        list(data[0].confidence_interval[:2]), [data[0].distance], list(result.bounds), [result.distance],
        [run.distance],
    ]  # fmt: skip
    assert ax.lines[-1].get_markerfacecolor() == "white"
    assert ax.get_xlabel() == "distance with 90 % confidence interval"
    assert [t.get_text() for t in somcot.plots.intervals([result], names=["one"]).get_yticklabels()] == ["one"]
    with pytest.raises(ValueError, match="names: found 1 for 2 results"):
        somcot.plots.intervals([result, result], names=["one"])
    with pytest.raises(TypeError, match="number 0 is a float"):
        somcot.plots.intervals([0.5])
    plt.close("all")


@pytest.mark.parametrize("of", ["pairs", "transitions"])
def test_contributions_are_bars_with_errors_and_marks(of: str, data: tuple[somcot.Result, Samples]) -> None:
    shares = getattr(data[0].contributions(4), of)
    ax = somcot.plots.contributions(data[0], n=4, of=of, names=("May", "June"))
    assert [bar.get_width() for bar in ax.patches] == [share.amount for share in shares]
    assert [bar.get_alpha() == 1.0 for bar in ax.patches] == [share.marked for share in shares]
    assert "May" in ax.get_title()
    with pytest.raises(ValueError, match="of: found 'states'"):
        somcot.plots.contributions(data[0], of="states")
    walk = somcot.random_walk(3)
    assert [
        text.get_text() for text in somcot.plots.contributions(somcot.distance(walk, walk, discount=0.9)).texts
    ] == ["no pairs that contribute"]
    plt.close("all")


def test_an_overview_is_not_shown_twice_in_notebooks(result: somcot.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    somcot.plots.overview(result)
    assert len(plt.get_fignums()) == 1
    plt.close("all")
    monkeypatch.setattr(mpl, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    assert somcot.plots.overview(result).axes
    assert plt.get_fignums() == []


def test_cells_are_drawn() -> None:
    from somcot import Trajectories, distance

    rng = np.random.default_rng(0)
    sides = [Trajectories.from_arrays(s + rng.normal(size=(40, 20, 2)), names=["a", "b"]) for s in (0.0, 1.0)]
    result = distance(sides[0], sides[1], discount=0.9, confidence=0.9, n_cells=6)
    ax = somcot.plots.cells(result, names=("one", "other"))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "b")
    assert [len(points.get_offsets()) for points in ax.collections[:2]] == [6, 6]  # rings of Y and dots of X
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "cells of one", "cells of other", "corresponding cells (mean)",
    ]  # fmt: skip
    with pytest.warns(DeprecationWarning, match="resolution"):
        assert result.resolution is not None
    assert [*map(int, somcot.plots.resolution(result).get_xticks())] == [6]
    with pytest.raises(ValueError, match="result: has no cells"):
        somcot.plots.cells(somcot.distance(somcot.random_walk(3), somcot.random_walk(3), discount=0.9))


@pytest.fixture(scope="module")
def vectors() -> dict[str, somcot.Result]:
    """Distances between recordings of one and four coordinates, and of some that are too few."""
    rng = np.random.default_rng(1)
    found = {}
    for d in (1, 4):
        sides = [somcot.Trajectories.from_arrays(s + rng.normal(size=(30, 15, d))) for s in (0.0, 1.0)]
        found[f"{d}"] = somcot.distance(sides[0], sides[1], discount=0.9, confidence=0.9, n_cells=6)
    ended = [somcot.Trajectories.from_arrays(s + rng.normal(size=(15, 4, 2)), terminated=True) for s in (0.0, 1.0)]
    with pytest.warns(somcot.DataWarning):
        found["ended"] = somcot.distance(ended[0], ended[1], discount=0.9, confidence=0.9, n_cells=6)
    return found


def test_the_distance_and_the_tests_of_its_map_are_drawn(vectors: dict[str, somcot.Result]) -> None:
    result = vectors["1"]
    ax = somcot.plots.calibration(result)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["lower bound", "your recordings", "cells alone"]
    assert ax.get_xlabel() == "distance"
    assert result.distance in [float(line.get_xdata()[0]) for line in ax.lines if line.get_marker() == "D"]
    tests = somcot.plots.map_tests(result)
    assert [label.get_text() for label in tests.get_yticklabels()] == ["places", "steps", "scatter", "starts"]
    assert "behaves as" in tests.get_title()
    assert "approximate: " in somcot.plots.calibration(vectors["ended"]).get_xlabel()
    with pytest.raises(ValueError, match="result: has no cells"):
        somcot.plots.calibration(somcot.distance(somcot.random_walk(3), somcot.random_walk(3), discount=0.9))


def test_cells_of_any_dimension_are_drawn(vectors: dict[str, somcot.Result]) -> None:
    flat = somcot.plots.cells(vectors["1"])
    assert (flat.get_xlabel(), flat.get_ylabel()) == ("x0", "cells, in order")
    wide = somcot.plots.cells(vectors["4"], coordinates=(3, 1))
    assert (wide.get_xlabel(), wide.get_ylabel()) == ("x3", "x1")
    assert wide.get_title() == "corresponding cells (2 of 4 coordinates)"
    assert "terminal cells" in [t.get_text() for t in somcot.plots.cells(vectors["ended"]).get_legend().get_texts()]


@pytest.mark.parametrize("name", ["1", "4", "ended"])
def test_overview_of_vectors(vectors: dict[str, somcot.Result], name: str) -> None:
    picture = somcot.plots.overview(vectors[name], names=("a.csv", "b.csv"))
    titles = [ax.get_title() for ax in picture.axes]
    assert titles[1] == ("without an error bound" if name == "ended" else "a map between the two")
    assert titles[2].startswith("tests of" if name != "ended" else 'tests of "no map was tested"')
    assert ("approximate, no interval" in picture.get_suptitle()) == (name == "ended")


def test_the_difference_graph_has_its_steps_and_colours() -> None:
    x, y = (somcot.MarkovChain([[p, 1 - p], [0.5, 0.5]], states=["home", "cart"]) for p in (0.9, 0.8))
    found = somcot.distance(x, y, somcot.costs.labels(x.states, y.states), discount=0.9)
    ax = somcot.plots.difference(found, names=("May", "June"))
    changes = [step.change for step in found.findings().largest(14)]
    assert len(ax.patches) == len(changes)
    assert {patch.get_edgecolor() for patch in ax.patches} == {
        mpl.colors.to_rgba(colour) for colour in ("#0072B2", "#D55E00")
    }
    widths = sorted(patch.get_linewidth() for patch in ax.patches)
    assert widths[-1] == pytest.approx(0.8 + 4.0)
    assert widths[0] == pytest.approx(0.8 + 4.0 * min(map(abs, changes)) / max(map(abs, changes)))
    texts = {text.get_text() for text in ax.texts}
    assert texts == {"home", "cart"}
    same = somcot.plots.difference(somcot.distance(x, x, 1.0 - np.eye(2), discount=0.9))
    assert [text.get_text() for text in same.texts] == ["no step differs"]
    apart = somcot.distance(x, x, [[1.0, 0.0], [0.0, 1.0]], discount=0.9)  # the names mean nothing
    assert "no state has the same name" in somcot.plots.difference(apart).texts[0].get_text()


def test_a_dendrogram_of_estimates_is_on_the_scale_of_the_distances() -> None:
    walk = somcot.random_walk(4)
    groups = {f"week {k}": walk.sample(60, 20, rng=k) for k in range(4)}
    found = somcot.distance_matrix(groups, discount=0.9, rng=0)
    assert found.shift > 0.0  # some uncut estimates of equal processes are negative
    heights = max(max(line.get_xdata()) for line in somcot.plots.dendrogram(found).get_lines())
    assert heights == pytest.approx(max(found.linkage()[-1, 2] - found.shift, 0.0))


def test_cells_of_a_matrix_that_chance_explains_have_a_dot_and_all_names_are_visible() -> None:
    walks = {"cold": 0.3, "cold2": 0.3, "shifted": 0.5, "shifted2": 0.5, "warm": 0.7, "warm2": 0.7}
    data = {name: somcot.random_walk(5, p).sample(60, 40, rng=k) for k, (name, p) in enumerate(walks.items())}
    found = somcot.distance_matrix(data, discount=0.9, confidence=0.9)
    figure, panels = plt.subplots(1, 3, figsize=(14, 4), dpi=80, layout="constrained")
    ax = somcot.plots.matrix(found, ax=panels[0], ordered=False)
    somcot.plots.dendrogram(found, ax=panels[1])
    somcot.plots.embedding(found, ax=panels[2])
    figure.canvas.draw()
    assert found.within_chance is not None
    dots = {(int(i), int(j)) for j, i in np.asarray(ax.collections[0].get_offsets())}
    assert dots == set(map(tuple, np.argwhere(found.within_chance).tolist())) == {(i, i ^ 1) for i in range(6)}
    assert min(label.get_window_extent().x0 for label in ax.get_yticklabels()) > 0
    plt.close("all")


def test_the_graph_of_differences_is_legible_with_long_labels_of_any_script(recwarn: pytest.WarningsRecorder) -> None:
    """Labels stay within the figure, none overlap, the circle is large, and fonts have all characters."""
    import matplotlib.pyplot as plt

    labels = [
        f"{'注文確認と支払い方法の選択と住所' if k % 2 else 'a rather long name of a page'} ภาษา {k}" for k in range(16)
    ]
    rng = np.random.default_rng(0)
    x, y = (somcot.MarkovChain(rows, states=labels) for rows in rng.dirichlet(np.full(16, 0.2), (2, 16)))
    names = ("a rather long name of a file", "another rather long name of a file")
    result = somcot.distance(x, y, "labels", discount=0.9)
    ax = somcot.plots.difference(result, names=names)
    ax.figure.canvas.draw()
    frame, texts = ax.figure.bbox, [text for text in ax.texts if text.get_text()]
    boxes = [text.get_window_extent() for text in (*texts, *ax.get_legend().get_texts())]
    assert len(texts) > 10
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 for box in boxes)
    assert not any(a.shrunk(0.98, 0.8).overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    dots = ax.transData.transform(ax.collections[0].get_offsets())
    assert np.ptp(dots[:, 0]) > 0.3 * frame.width
    assert not [str(w.message) for w in recwarn if "missing from" in str(w.message)]
    plt.close(ax.figure)
    overview = somcot.plots.graph(result, names=names)
    assert max(map(len, overview.get_title().split("\n"))) <= 60
