"""Graphs as random walks, against what networkx says of the same graph."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import somcot
from somcot.plumbing.notes import collected
from somcot.readers import from_graph, read_graph
from tests.notes import noted

nx = pytest.importorskip("networkx")


def dense(chain: somcot.MarkovChain) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.asarray(chain.transition.toarray() if chain.is_sparse else chain.transition)  # type: ignore[union-attr]


def test_karate_club() -> None:
    club = nx.karate_club_graph()
    adjacency = nx.to_numpy_array(club)
    walk = from_graph(club)
    np.testing.assert_allclose(dense(walk), adjacency / adjacency.sum(axis=1, keepdims=True))
    plain = (adjacency > 0) / (adjacency > 0).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(dense(from_graph(club, weight=None)), plain)
    cost = somcot.costs.labels(walk.states, walk.states)
    assert somcot.distance(walk, walk, cost, discount=0.9).distance == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
def test_every_kind_of_graph(kind: str) -> None:
    graph = getattr(nx, kind)()
    graph.add_edge("a", "b", weight=3)
    graph.add_edge("a", "b", weight=1)  # parallel in multigraphs, a new weight in the others
    graph.add_edge("a", "a", weight=4)
    graph.add_edge("b", "a", weight=2)
    adjacency = nx.to_numpy_array(graph)
    np.testing.assert_allclose(dense(from_graph(graph)), adjacency / adjacency.sum(axis=1, keepdims=True))


def test_nodes_without_a_way_out() -> None:
    graph = nx.DiGraph([("a", "b")])
    assert dense(from_graph(graph)).tolist() == [[0, 1], [0, 1]]
    assert dense(from_graph(graph, dangling="restart")).tolist() == [[0, 1], [0.5, 0.5]]
    with pytest.raises(ValueError, match=r"1 node\(s\) have no outgoing edge: 'b'"):
        from_graph(graph, dangling="error")


def test_restarting_from_too_many_nodes_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "star.edges").write_text("".join(f"hub leaf{k}\n" for k in range(2000)))
    monkeypatch.setenv("SOMCOT_MEMORY_LIMIT", "100M")
    with pytest.raises(somcot.MemoryLimitError, match=r"star\.edges: .*2,000 of 2,001 nodes"):
        read_graph(tmp_path / "star.edges", directed=True, dangling="restart")


def test_a_walk_that_starts_in_the_long_run(tmp_path: Path) -> None:
    """On an undirected graph the long-run law is in proportion to the degrees, also where the walk alternates."""
    (tmp_path / "path.edges").write_text("a b 1\nb c 3\n")
    walk = read_graph(tmp_path / "path.edges", initial="stationary")
    assert walk.states == ("a", "b", "c")
    np.testing.assert_allclose(walk.initial, [1 / 8, 4 / 8, 3 / 8], rtol=1e-12)
    club = nx.karate_club_graph()
    degrees = np.array([club.degree(node, weight="weight") for node in club])
    np.testing.assert_allclose(from_graph(club, initial="stationary").initial, degrees / degrees.sum(), rtol=1e-12)
    named = nx.path_graph(["stationary", "moving"])
    assert from_graph(named, initial="stationary").initial.tolist() == [1.0, 0.0]
    with noted("stationary-not-unique"):
        from_graph(nx.DiGraph([(0, 1), (1, 0), (2, 3), (3, 2)]), initial="stationary")


@pytest.mark.filterwarnings("ignore:graph. attributes of edges are not compared")
def test_a_weight_that_no_edge_has() -> None:
    graph = nx.Graph()
    graph.add_edge("a", "b", length=3)
    with pytest.raises(ValueError, match="attribute 'lenght'"):
        from_graph(graph, weight="lenght")
    assert dense(from_graph(graph)).tolist() == dense(from_graph(graph, weight="length")).tolist()


def test_refused_graphs() -> None:
    with pytest.raises(ValueError, match="no nodes"):
        from_graph(nx.Graph())
    with pytest.raises(TypeError, match="expected a networkx graph"):
        from_graph([[0, 1]])
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=-1)
    with pytest.raises(ValueError, match="from 'a' to 'b' has weight -1"):
        from_graph(graph)


def test_files(tmp_path: Path) -> None:
    club = nx.karate_club_graph()
    nx.write_graphml(club, tmp_path / "club.graphml")
    nx.write_weighted_edgelist(club, tmp_path / "club.edgelist")
    nx.write_graphml(nx.DiGraph([("x", "y"), ("y", "x"), ("y", "y")]), tmp_path / "small.graphml.gz")
    walk = dense(from_graph(club))
    np.testing.assert_allclose(dense(read_graph(tmp_path / "club.graphml")), walk)
    listed = read_graph(tmp_path / "club.edgelist")
    order = [listed.index(node) for node in club.nodes]
    np.testing.assert_allclose(dense(listed)[np.ix_(order, order)], walk)
    assert dense(read_graph(tmp_path / "small.graphml.gz")).tolist() == [[0, 1], [0.5, 0.5]]


def test_edge_lists(tmp_path: Path) -> None:
    file = tmp_path / "roads.edges"
    file.write_text("# roads\nhome, shop, 3\nhome,work,1\n")
    assert read_graph(file).states == ("home", "shop", "work")
    assert dense(read_graph(file, directed=True)).tolist() == [[0, 0.75, 0.25], [0, 1, 0], [0, 0, 1]]
    assert read_graph(file, initial="work").initial.tolist() == [0, 0, 1]


def _first_row(chain: Any) -> list[float]:
    found: list[float] = chain.transition.toarray()[0].tolist()
    return found


def test_edge_lists_as_networkx_writes_them(tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=3.0)
    graph.add_edge("a", "c", weight=1.0, kind="old, wide")
    nx.write_edgelist(graph, tmp_path / "g.edges")
    assert _first_row(read_graph(tmp_path / "g.edges")) == [0.0, 0.75, 0.25]
    assert _first_row(read_graph(tmp_path / "g.edges", weight=None)) == [0.0, 0.5, 0.5]
    nx.write_edgelist(nx.path_graph(3), tmp_path / "p.edgelist")
    assert read_graph(tmp_path / "p.edgelist").n_states == 3
    for bad in ("a b {'weight': -1}", "a b {'weight': f(1)}", "a b {1, 2}", "a {}", "a b " + "{" * 500 + "}" * 500):
        (tmp_path / "bad.edges").write_text(bad)
        with pytest.raises(ValueError, match=r"bad\.edges: line 1"):
            read_graph(tmp_path / "bad.edges")


def test_gml(tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=3.0)
    graph.add_edge("a", "c", weight=1.0)
    graph.nodes["b"]["size"] = 2
    nx.write_gml(graph, tmp_path / "g.gml")
    chain = read_graph(tmp_path / "g.gml")
    assert chain.states == ("a", "b", "c")
    assert _first_row(chain) == [0.0, 0.75, 0.25]
    assert chain.attributes is not None
    assert chain.attributes["size"] == (None, 2, None)
    bare = "graph [ directed 1\n node [ id 7 ]\n node [ id 9 ]\n edge [ source 7 target 9 ]\n]"
    (tmp_path / "bare.gml").write_text(bare)
    assert read_graph(tmp_path / "bare.gml").states == (7, 9)
    for bad in (
        "graph [",
        "",
        "nonsense",
        bare.replace("target 9", "target 8"),
        bare.replace("id 9", "id 7"),
        "graph [ é ]",
    ):
        (tmp_path / "bad.gml").write_text(bad)
        with pytest.raises(ValueError, match=r"bad\.gml: (not valid GML|not ASCII|.*no nodes)"):
            read_graph(tmp_path / "bad.gml")


def test_attributes_of_edges_are_named() -> None:
    graph = nx.path_graph(3)
    graph.edges[0, 1].update(bond="double", weight=2.0)
    walk = from_graph(graph)
    np.testing.assert_allclose(_first_row(walk), [0.0, 1.0, 0.0])
    del graph.edges[0, 1]["bond"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bare = from_graph(graph, weight=None)
        somcot.distance(from_graph(graph), bare, "degree", discount=0.9)
    for about, x, y in (("x and y", walk, walk), ("x", walk, bare), ("y", bare, walk)):
        with noted("edge-attributes-ignored", about=about, names="'bond'"):
            somcot.metric(x, y, "degree", discount=0.9)
        with noted("edge-attributes-ignored", about=about, names="'bond'"):
            somcot.distance(x, y, "degree", discount=0.9)
    with collected() as notes:  # one note for all graphs of a matrix, by name
        somcot.distance_matrix({"a": walk, "b": bare, "c": walk}, "degree", discount=0.9)
    assert [(note.code, note.about) for note in notes] == [("edge-attributes-ignored", "a and c")]


def test_a_graph_in_pieces_starts_in_all_of_them() -> None:
    pieces = nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        walk = from_graph(pieces, initial="stationary")
    assert walk.initial == pytest.approx(np.array([2, 2, 2, 1, 2, 1]) / 10)
    assert walk.initial @ np.asarray(walk.transition @ np.eye(6)) == pytest.approx(walk.initial)


def test_a_table_of_edges_is_no_recording(tmp_path: Path) -> None:
    _, *lines = text = ["source,target", "a,b", "b,c"]
    (tmp_path / "roads.csv").write_text("\n".join(text))
    with pytest.raises(ValueError, match=r"for the edges of a graph, remove this line and .* \.edges"):
        somcot.readers.from_table(tmp_path / "roads.csv")
    (tmp_path / "roads.edges").write_text("\n".join(lines))
    assert read_graph(tmp_path / "roads.edges").states == ("a", "b", "c")
