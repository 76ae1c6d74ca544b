"""Costs by name: what they are worth, on known answers, and what is said where they make no sense."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import MarkovChain, Samples, costs, streams
from somcot.readers import from_graph
from tests.notes import noted

nx = pytest.importorskip("networkx")


def walks() -> tuple[MarkovChain, MarkovChain]:
    return somcot.random_walk(4, 0.3), somcot.random_walk(5, 0.7)


@pytest.mark.filterwarnings("ignore::somcot.plumbing.errors.DataWarning")  # 100 transitions are few
def test_without_a_cost_labels_are_compared() -> None:
    x, y = walks()
    cost = costs.labels(x.states, y.states)
    assert somcot.distance(x, y, discount=0.9).distance == somcot.distance(x, y, cost, discount=0.9).distance
    np.testing.assert_array_equal(somcot.metric(x, y, discount=0.9), somcot.metric(x, y, cost, discount=0.9))
    a, b = x.sample(200, 20, rng=0), y.sample(200, 20, rng=1)
    wanted = somcot.distance(a, b, costs.labels(a.states, b.states), discount=0.9, confidence=0.9, rng=0)
    found = somcot.distance(a, b, discount=0.9, confidence=0.9, rng=0)
    assert (found.distance, found.confidence_interval) == (wanted.distance, wanted.confidence_interval)
    named = somcot.same_process(a, b, discount=0.9, n_permutations=19)
    assert named.pvalue == somcot.same_process(a, b, "labels", discount=0.9, n_permutations=19).pvalue
    drawn = streams.from_chain(x, 0.9, rng=0), streams.from_chain(y, 0.9, rng=0)
    assert somcot.distance(*drawn, discount=0.9, n_steps=100).n_steps == 100


def test_features_and_functions_are_costs() -> None:
    rewards = {0: 0.0, 1: 1.0, 2: 4.0}
    a = Samples.from_trajectories([[0, 1, 2, 0], [1, 2, 0, 1]], rewards=rewards)
    b = Samples.from_trajectories([[0, 2, 1, 0], [2, 1, 0, 2]], rewards=rewards)
    wanted = np.abs(np.subtract.outer([0.0, 1.0, 4.0], [0.0, 1.0, 4.0]))
    np.testing.assert_array_equal(np.asarray(costs.between("features", a, b)), wanted)
    np.testing.assert_array_equal(
        somcot.metric(a.chain(), b.chain(), lambda x, y: wanted[: x.n_states, : y.n_states], discount=0.5),
        somcot.metric(a.chain(), b.chain(), wanted, discount=0.5),
    )


def ladder() -> Any:
    graph = nx.path_graph(3)
    for node, (size, kind) in enumerate([(1, "end"), (2.5, "middle"), (1, "end")]):
        graph.nodes[node].update(size=size, kind=kind)
    return graph


def test_attributes_of_nodes() -> None:
    walk = from_graph(ladder())
    np.testing.assert_array_equal(
        costs.between("attribute:size", walk, walk), np.abs(np.subtract.outer([1, 2.5, 1], [1, 2.5, 1]))
    )
    np.testing.assert_array_equal(costs.attribute(walk, walk, "kind"), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    with pytest.raises(ValueError, match=r"x: there is no attribute 'colour'; the nodes have 'size', 'kind'"):
        somcot.distance(walk, walk, "attribute:colour", discount=0.9)
    with pytest.raises(ValueError, match="y: has no attributes"):
        costs.attribute(walk, somcot.random_walk(3), "size")
    some = ladder()
    del some.nodes[1]["size"]
    with pytest.raises(ValueError, match=r"y: attribute 'size' is missing in 1 state: 1; fill it in"):
        costs.attribute(walk, from_graph(some), "size")
    some.nodes[1]["size"] = "large"
    with pytest.raises(ValueError, match="a number on one side, such as 1, and not on the other: 'large'"):
        costs.attribute(walk, from_graph(some), "size")


def test_degrees_are_those_of_networkx() -> None:
    x, y = nx.barabasi_albert_graph(20, 2, seed=1), nx.gnp_random_graph(15, 0.2, seed=2)
    wanted = np.abs(np.subtract.outer([d for _, d in x.degree], [d for _, d in y.degree]))
    np.testing.assert_array_equal(costs.degree(from_graph(x), from_graph(y)), wanted)


def test_neighbourhoods_are_those_of_a_plain_loop() -> None:
    """The law of the degree after t steps, node by node and step by step."""
    x, y = nx.barabasi_albert_graph(12, 2, seed=1), nx.gnp_random_graph(9, 0.5, seed=4)

    def laws(graph: Any, rounds: int) -> list[list[dict[int, float]]]:
        table = [{node: {graph.degree[node]: 1.0} for node in graph}]
        for _ in range(rounds):
            step: dict[Any, dict[int, float]] = {}
            for node in graph:
                mixed: dict[int, float] = {}
                for other in graph[node]:
                    for label, p in table[-1][other].items():
                        mixed[label] = mixed.get(label, 0.0) + p / graph.degree[node]
                step[node] = mixed
            table.append(step)
        return [list(row.values()) for row in table]

    for rounds in (0, 1, 3):
        wanted = np.zeros((12, 9))
        for a, b in zip(laws(x, rounds), laws(y, rounds), strict=True):
            for i, v in enumerate(a):
                for j, w in enumerate(b):
                    wanted[i, j] += 0.5 * sum(abs(v.get(k, 0.0) - w.get(k, 0.0)) for k in {*v, *w}) / (rounds + 1)
        found = costs.between(f"neighbourhood:{rounds}", from_graph(x), from_graph(y))
        np.testing.assert_allclose(np.asarray(found), wanted, atol=1e-14)
    kinds = from_graph(ladder())
    np.testing.assert_array_equal(
        costs.neighbourhood(kinds, kinds, 0, attribute="kind"), 1 - np.eye(3)[[0, 1, 0]][:, [0, 1, 0]]
    )


def test_a_renumbered_graph_is_the_same_by_its_shape() -> None:
    graph = nx.barabasi_albert_graph(15, 2, seed=3)
    other = nx.relabel_nodes(graph, {k: 14 - k for k in range(15)})
    for cost in ("degree", "neighbourhood"):
        assert somcot.distance(from_graph(graph), from_graph(other), cost, discount=0.9).distance == 0.0


def test_labels_of_numbered_nodes_are_doubted() -> None:
    x, y = from_graph(nx.path_graph(4)), from_graph(nx.cycle_graph(4))
    with noted("numbered-nodes"):
        somcot.distance(x, y, discount=0.9)
    named = from_graph(nx.relabel_nodes(nx.path_graph(4), dict(enumerate("abcd"))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        somcot.distance(named, named, discount=0.9)
        somcot.distance(x, y, "degree", discount=0.9)
        somcot.distance(somcot.random_walk(3), somcot.random_walk(3), discount=0.9)


def test_graphs_without_a_name_in_common_are_doubted() -> None:
    x, y = (from_graph(nx.relabel_nodes(nx.path_graph(3), dict(enumerate(names)))) for names in ("abc", "def"))
    with noted("no-shared-nodes"):
        assert somcot.distance(x, y, discount=0.9).distance == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        somcot.distance(x, y, "neighbourhood", discount=0.9)


@pytest.mark.parametrize(
    "cost",
    ["", "label", "attribute:", "attribute", "degree:2", "neighbourhood:", "neighbourhood:-1", "neighbourhood:1.5"],
)
def test_names_that_are_none(cost: str) -> None:
    with pytest.raises(ValueError, match=r"cost: found .*expected an array, .*attribute:NAME"):
        somcot.distance(*walks(), cost, discount=0.9)


def test_costs_that_are_none() -> None:
    x, y = walks()
    with pytest.raises(TypeError, match="cost: found None"):
        somcot.distance(x, y, None, discount=0.9)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="only known chains have neighbours"):
        somcot.distance(x.sample(3, 9, rng=0), y, "degree", discount=0.9)
    nameless = streams.from_iterable([(0, 1), (1, 0)] * 9)
    with pytest.raises(ValueError, match="cost: x has no state labels"):
        somcot.distance(nameless, nameless, discount=0.9, method="somcot")
    with pytest.raises(ValueError, match=r"attributes: 'size' has 1 values for 2 states"):
        MarkovChain([[0, 1], [1, 0]], attributes={"size": [1]})


def test_names_that_are_nearly_right_get_a_hint() -> None:
    with pytest.raises(ValueError, match=r"lambda x, y: costs\.neighbourhood\(x, y, attribute='atom'\)"):
        costs.between("neighbourhood:atom", *walks())
    with pytest.raises(ValueError, match="mean rewards are 'features'"):
        somcot.distance(somcot.random_walk(2), somcot.random_walk(2), "reward", discount=0.9)
    sized = somcot.MarkovChain(np.eye(2), states=["a", "b"], attributes={"size": [1, 2]})
    with pytest.raises(ValueError, match="the attribute of that name is 'attribute:size'"):
        somcot.distance(sized, sized, "size", discount=0.9)


def test_disjoint_labels_are_said() -> None:
    one, other = (somcot.MarkovChain([[1.0]], states=[name]) for name in ("a", "b"))
    with noted("no-shared-labels", about="cost", states_x="'a'", states_y="'b'"):
        assert somcot.distance(one, other, discount=0.9).distance == 1.0
    with noted("no-shared-labels"):
        somcot.costs.labels(one.states, other.states)


def test_vectors_of_nodes_are_euclidean() -> None:
    """Lists, arrays and tuples of numbers; a move by 1e-6 costs 1e-6, not 1."""
    points = [[0.0, 0.0], [3.0, 4.0], [0.0, 1e-6]]
    for kind in (list, tuple, np.array):
        graph = nx.path_graph(3)
        for node, point in enumerate(points):
            graph.nodes[node]["place"] = kind(point)
        walk = from_graph(graph)
        np.testing.assert_array_equal(costs.between("attribute:place", walk, walk), costs.euclidean(points, points))
    graph.nodes[2]["place"] = np.array([1.0])
    with pytest.raises(ValueError, match="attribute: 'place' of state 2 has 1 numbers, that of others 2"):
        costs.attribute(walk, from_graph(graph), "place")
    for odd in (["a", "b"], [[1.0, 2.0]], [np.nan, 1.0], "text"):
        graph.nodes[2]["place"] = odd
        with pytest.raises(ValueError, match="attribute: 'place' of state 2 is "):
            costs.attribute(walk, from_graph(graph), "place")
    with pytest.raises(ValueError, match="attribute: 'place' is "):
        costs.neighbourhood(walk, walk, attribute="place")
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {0: {1: 2}, 1: {1: 3}}, "odd")
    with pytest.raises(ValueError, match="attribute: 'odd' is "):
        costs.attribute(from_graph(graph), from_graph(graph), "odd")
    pairs = [("C", "H"), ("C", "O")]
    for node in range(2):
        graph.nodes[node]["bond"] = pairs[node]  # tuples of text are labels
    np.testing.assert_array_equal(costs.attribute(from_graph(graph), from_graph(graph), "bond"), [[0, 1], [1, 0]])


def test_both_spellings_and_both_directions() -> None:
    x, y = (from_graph(nx.barabasi_albert_graph(n, 2, seed=n)) for n in (12, 17))
    for rounds in ("", ":3"):
        table = costs.between(f"neighbourhood{rounds}", x, y)
        np.testing.assert_array_equal(costs.between(f"neighborhood{rounds}", x, y), table)
        np.testing.assert_array_equal(costs.between(f"neighbourhood{rounds}", y, x), np.asarray(table).T)


def test_cluster_numbers_of_two_models_give_a_note() -> None:
    from types import SimpleNamespace

    model = SimpleNamespace(transition_matrix=np.array([[0.9, 0.1], [0.3, 0.7]]))
    a, b = somcot.readers.from_model(model), somcot.readers.from_model(model)
    with noted("numbers-as-states"):
        somcot.distance(a, b, discount=0.9)
    with noted("numbers-as-states"):
        somcot.distance_matrix([a, b], discount=0.9)
    with noted("numbers-as-states"):
        somcot.msm.posterior_distances([model, model], [model, model], discount=0.9)
    named = somcot.readers.from_model(model, states=["open", "closed"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        somcot.distance(a, b, costs.euclidean([[0.0], [1.0]], [[0.0], [1.0]]), discount=0.9)
        somcot.distance(named, named, discount=0.9)


def test_ends_of_own_trajectories_differ_from_those_of_the_readers() -> None:
    walk = [[0, 1, 2], [0, 0, 1, 2], [0, 1, 2]]
    table = MarkovChain([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]], states=[0, 1, "terminated"])
    own = Samples.from_trajectories(walk, terminated=True)
    with noted("other-ends", about="x", state="2"):
        costs.between("labels", own, table)
    with noted("other-ends", about="y", state="2"):
        costs.between("labels", table, own)
    # As the message says: without the last states, and with the end that readers add. What was cut off has no end.
    same = Samples.from_trajectories([states[:-1] for states in walk], end="terminated", terminated=True)
    for other in (same, Samples.from_trajectories([[0, 1, 0], [1, 0, 0]])):
        costs.between("labels", other, table)


def test_several_names_are_added_up_in_a_function() -> None:
    graph = nx.path_graph(4)
    nx.set_node_attributes(graph, {n: n % 2 for n in graph}, "side")
    x = from_graph(graph)
    with pytest.raises(TypeError, match=r"cost: found 2 names, expected one; .*lambda x, y"):
        somcot.distance(x, x, ["attribute:side", "degree"], discount=0.9)
    both = costs.attribute(x, x, "side") + costs.degree(x, x)
    found = somcot.metric(x, x, lambda a, b: costs.attribute(a, b, "side") + costs.degree(a, b), discount=0.9)
    np.testing.assert_array_equal(found, somcot.metric(x, x, both, discount=0.9))
