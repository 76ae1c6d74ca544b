"""Graphs as users compare them: classification of molecules, and alignment of networks that changed.

``python -m benchmarks.graph_tasks classify FOLDER NAME`` reads a data set of the TU collection (files NAME_A.txt,
NAME_graph_indicator.txt, NAME_graph_labels.txt and NAME_node_labels.txt in FOLDER; none is part of the repository) and
prints the accuracy of support vector machines and nearest neighbours on distances of somcot, the Weisfeiler-Lehman
kernel, its Wasserstein variant (WWL), Gromov-Wasserstein and fused Gromov-Wasserstein distances. Every method has two
variants and the same grids of options, chosen within each training part; twice ten folds, the same for all. A number
after NAME takes that many graphs at random (seed 0).

``python -m benchmarks.graph_tasks align`` changes a share of the edges of four networks, permutes the nodes and prints
the share of nodes that are found again. Every method is called once, with its defaults. POT and scikit-learn are
needed (benchmarks/requirements.txt).
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

import somcot
from somcot import couplings, readers

Floats = NDArray[np.float64]
FOLDS, REPEATS, INNER = 10, 2, 5
C_GRID, GAMMA_GRID, K_GRID = (0.1, 1.0, 10.0, 100.0), (0.3, 1.0, 3.0), (1, 3, 5, 9)


# --- Classification


class Variant(NamedTuple):
    """A table between all graphs: distances, or the values of a kernel."""

    name: str
    table: Floats
    is_kernel: bool = False

    def kernels(self) -> Iterator[Floats]:
        """Kernels to choose from; a distance is scaled by its mean."""
        if self.is_kernel:
            yield self.table
        else:
            mean = float(self.table.mean())
            yield from (np.exp(-gamma * self.table / mean) for gamma in GAMMA_GRID)

    @property
    def distance(self) -> Floats:
        """Distances; those of a kernel with ones on its diagonal."""
        return np.sqrt(np.maximum(2.0 - 2.0 * self.table, 0.0)) if self.is_kernel else self.table


def read_tu(folder: Path, name: str) -> tuple[list[Any], NDArray[np.int64]]:
    """The graphs and classes of a TU data set; nodes have the attribute "label"."""
    edges, owner, classes, labels = (
        np.loadtxt(folder / f"{name}_{part}.txt", delimiter=",", dtype=np.int64)
        for part in ("A", "graph_indicator", "graph_labels", "node_labels")
    )
    graphs: list[Any] = [nx.Graph() for _ in classes]
    for node, (graph, label) in enumerate(zip(owner, labels, strict=True), 1):
        graphs[graph - 1].add_node(node, label=f"type {label}")
    for a, b in edges.tolist():
        graphs[owner[a - 1] - 1].add_edge(a, b)
    return graphs, classes


def refined(graphs: Sequence[Any], rounds: int) -> list[list[list[str]]]:
    """Weisfeiler-Lehman labels of each node after 0, 1, ..., `rounds` rounds: graph, round, node."""
    current = [[graph.nodes[v]["label"] for v in graph] for graph in graphs]
    all_rounds = [[part] for part in current]
    for _ in range(rounds):
        names: dict[Any, str] = {}
        following = []
        for graph, labels in zip(graphs, current, strict=True):
            of = dict(zip(graph, labels, strict=True))
            keys = [(of[v], tuple(sorted(of[u] for u in graph[v]))) for v in graph]
            following.append([names.setdefault(key, f"{len(names)}") for key in keys])
        current = following
        for rows, part in zip(all_rounds, current, strict=True):
            rows.append(part)
    return all_rounds


def subtree_kernel(graphs: Sequence[Any], rounds: int) -> Floats:
    """The normalised Weisfeiler-Lehman subtree kernel."""
    counts = [Counter((t, c) for t, row in enumerate(rows) for c in row) for rows in refined(graphs, rounds)]
    place = {key: k for k, key in enumerate(dict.fromkeys(key for count in counts for key in count))}
    features = np.zeros((len(graphs), len(place)))
    for i, count in enumerate(counts):
        for key, number in count.items():
            features[i, place[key]] = number
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features @ features.T)


def of_pairs(n: int, distance: Callable[[int, int], float]) -> Floats:
    """A symmetric table with a zero diagonal."""
    table = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1, n):
            table[i, j] = table[j, i] = max(distance(i, j), 0.0)
    return table


def wasserstein_wl(graphs: Sequence[Any], rounds: int) -> Floats:
    """Wasserstein distance of the nodes; two nodes differ by the share of rounds with other labels (WWL)."""
    import ot

    codes = [np.array(rows).T for rows in refined(graphs, rounds)]
    mass = [np.full(len(c), 1.0 / len(c)) for c in codes]

    def distance(i: int, j: int) -> float:
        cost = (codes[i][:, None, :] != codes[j][None, :, :]).mean(axis=2)
        return float(ot.emd2(mass[i], mass[j], cost))

    return of_pairs(len(graphs), distance)


def gromov(graphs: Sequence[Any], structure: str, *, fused: bool) -> Floats:
    """Gromov-Wasserstein distance between adjacency matrices or shortest paths; fused: with labels, half and half."""
    import ot

    def inside(graph: Any) -> Floats:
        if structure == "adjacency":
            return np.asarray(nx.to_numpy_array(graph))
        paths = np.asarray(nx.floyd_warshall_numpy(graph))
        largest = paths[np.isfinite(paths)].max()
        return np.asarray(np.where(np.isfinite(paths), paths, largest + 1.0) / (largest + 1.0))

    tables, mass = [inside(g) for g in graphs], [np.full(len(g), 1.0 / len(g)) for g in graphs]
    labels = [np.array([g.nodes[v]["label"] for v in g]) for g in graphs]

    def distance(i: int, j: int) -> float:
        if not fused:
            return float(ot.gromov.gromov_wasserstein2(tables[i], tables[j], mass[i], mass[j]))
        cost = (labels[i][:, None] != labels[j][None, :]).astype(np.float64)
        return float(ot.gromov.fused_gromov_wasserstein2(cost, tables[i], tables[j], mass[i], mass[j], alpha=0.5))

    return of_pairs(len(graphs), distance)


def both(x: Any, y: Any) -> Floats:
    """Half the difference of the labels, half that of the neighbourhoods."""
    return 0.5 * somcot.costs.attribute(x, y, "label") + 0.5 * somcot.costs.neighbourhood(x, y)


def methods(graphs: Sequence[Any]) -> dict[str, list[Callable[[], Variant]]]:
    """Two variants of each method, to be computed when called."""
    walks = [readers.from_graph(g, initial="stationary") for g in graphs]

    def ours(cost: Any, discount: float) -> Callable[[], Variant]:
        return lambda: Variant(
            f"discount {discount:g}", np.asarray(somcot.distance_matrix(walks, cost, discount=discount, threads=1))
        )

    def lazily(name: str, make: Callable[..., Floats], *options: Any, is_kernel: bool = False, **more: Any) -> Any:
        return lambda: Variant(name, make(graphs, *options, **more), is_kernel)

    return {
        "somcot, labels": [ours("attribute:label", 0.5), ours("attribute:label", 0.9)],
        "somcot, labels and neighbourhoods": [ours(both, 0.5), ours(both, 0.9)],
        "WL subtree kernel": [lazily(f"{h} rounds", subtree_kernel, h, is_kernel=True) for h in (1, 2)],
        "WWL": [lazily(f"{h} rounds", wasserstein_wl, h) for h in (1, 2)],
        "GW": [lazily(s, gromov, s, fused=False) for s in ("adjacency", "paths")],
        "FGW": [lazily(s, gromov, s, fused=True) for s in ("adjacency", "paths")],
        "somcot, labels, long run": [ours("attribute:label", 1.0)],
    }


def folds(classes: NDArray[np.int64], n: int, seed: int) -> Iterator[tuple[Any, Any]]:
    from sklearn.model_selection import StratifiedKFold

    yield from StratifiedKFold(n, shuffle=True, random_state=seed).split(classes, classes)


def vector_machine(K: Floats, C: float, classes: Any, train: Any, test: Any) -> float:
    from sklearn.svm import SVC

    model = SVC(C=C, kernel="precomputed").fit(K[np.ix_(train, train)], classes[train])
    return float(model.score(K[np.ix_(test, train)], classes[test]))


def neighbours(D: Floats, k: int, classes: Any, train: Any, test: Any) -> float:
    from sklearn.neighbors import KNeighborsClassifier

    model = KNeighborsClassifier(k, metric="precomputed").fit(D[np.ix_(train, train)], classes[train])
    return float(model.score(D[np.ix_(test, train)], classes[test]))


def nested(score: Callable[..., float], options: Sequence[tuple[Floats, float]], classes: Any) -> tuple[float, float]:
    """Mean accuracy over all folds, and its standard deviation over repetitions; options are chosen in training."""
    means = []
    for repeat in range(REPEATS):
        accuracies = []
        for train, test in folds(classes, FOLDS, repeat):
            inner = list(folds(classes[train], INNER, repeat))
            best = max(
                range(len(options)),
                key=lambda k: np.mean([score(*options[k], classes, train[a], train[b]) for a, b in inner]),
            )
            accuracies.append(score(*options[best], classes, train, test))
        means.append(float(np.mean(accuracies)))
    return float(np.mean(means)), float(np.std(means))


def classify(folder: Path, name: str, n: str | None = None) -> None:
    graphs, classes = read_tu(folder, name)
    if n is not None:
        chosen = np.sort(np.random.default_rng(0).choice(len(graphs), int(n), replace=False))
        graphs, classes = [graphs[k] for k in chosen], classes[chosen]
    share = max(Counter(classes.tolist()).values()) / len(classes)
    print(f"{name}: {len(graphs)} graphs, {len(graphs) * (len(graphs) - 1) // 2:,} pairs; largest class {share:.3f}\n")
    print("| method | SVM | k-NN | CPU of each table in s |\n|---|---|---|---|", flush=True)
    for method, makers in methods(graphs).items():
        variants, seconds = [], []
        for make in makers:
            began = time.process_time()
            variants.append(make())
            seconds.append(time.process_time() - began)
        machines = [(K, C) for v in variants for K in v.kernels() for C in C_GRID]
        near = [(v.distance, k) for v in variants for k in K_GRID]
        cells = [nested(vector_machine, machines, classes), nested(neighbours, near, classes)]
        shown = " | ".join(f"{mean:.3f} ({spread:.3f})" for mean, spread in cells)
        print(f"| {method} | {shown} | {', '.join(f'{s:.1f}' for s in seconds)} |", flush=True)


# --- Alignment

DRAWS = 20


def networks(seed: int) -> dict[str, Any]:
    """The four networks, without weights."""
    return {
        "karate": nx.Graph(nx.karate_club_graph().edges()),
        "Les Miserables": nx.convert_node_labels_to_integers(nx.Graph(nx.les_miserables_graph().edges())),
        "BA 60": nx.barabasi_albert_graph(60, 3, seed=seed),
        "WS 60": nx.watts_strogatz_graph(60, 4, 0.2, seed=seed),
    }


def changed(graph: Any, share: float, rng: np.random.Generator) -> Any:
    """The graph with a share of its edges replaced by others."""
    other, nodes = graph.copy(), sorted(graph)
    edges = sorted(tuple(sorted(edge)) for edge in graph.edges())
    n = round(share * len(edges))
    for k in rng.choice(len(edges), n, replace=False):
        other.remove_edge(*edges[k])
    while other.number_of_edges() < len(edges):
        a, b = (nodes[k] for k in rng.choice(len(nodes), 2, replace=False))
        if not graph.has_edge(a, b):
            other.add_edge(a, b)
    return other


def aligners() -> dict[str, Callable[[Any, Any], list[int]]]:
    """From two graphs on 0, ..., n - 1 to the node of the second for each node of the first."""
    from scipy.optimize import linear_sum_assignment, quadratic_assignment

    def of_metric(cost: str) -> Callable[[Any, Any], list[int]]:
        def align(a: Any, b: Any) -> list[int]:
            x, y = (readers.from_graph(g) for g in (a, b))
            found: Any = {p.x: p.y for p in couplings.alignment(somcot.distance(x, y, cost, discount=0.9, pairs="all"))}
            return [int(found[k]) for k in range(len(a))]

        return align

    def of_encoder(a: Any, b: Any) -> list[int]:
        x, y = (readers.from_graph(g, initial="stationary") for g in (a, b))
        result = somcot.distance(x, y, "neighbourhood", discount=0.9)
        columns = linear_sum_assignment(result.state_law, maximize=True)[1]
        found: Any = {x.states[i]: y.states[j] for i, j in enumerate(columns)}
        return [int(found[k]) for k in range(len(a))]

    def tables(a: Any, b: Any) -> tuple[Floats, Floats]:
        nodes = range(len(a))
        return nx.to_numpy_array(a, nodelist=nodes), nx.to_numpy_array(b, nodelist=nodes)

    def of_plan(fused: bool) -> Callable[[Any, Any], list[int]]:
        def align(a: Any, b: Any) -> list[int]:
            import ot

            A, B = tables(a, b)
            p = np.full(len(A), 1.0 / len(A))
            if fused:
                cost = np.abs(A.sum(axis=1)[:, None] - B.sum(axis=1)[None, :])
                plan = ot.gromov.fused_gromov_wasserstein(cost, A, B, p, p, alpha=0.5)
            else:
                plan = ot.gromov.gromov_wasserstein(A, B, p, p)
            return [int(j) for j in linear_sum_assignment(plan, maximize=True)[1]]

        return align

    def faq(a: Any, b: Any) -> list[int]:
        answer = quadratic_assignment(*tables(a, b), options={"maximize": True})
        return [int(j) for j in answer.col_ind]

    return {
        "alignment, degree": of_metric("degree"),
        "alignment, neighbourhood": of_metric("neighbourhood"),
        "coupling, neighbourhood": of_encoder,
        "GW": of_plan(fused=False),
        "FGW, degree": of_plan(fused=True),
        "FAQ": faq,
    }


def share_right(graph: Any, found: Sequence[int], back: Sequence[int]) -> float:
    """Nodes matched to themselves, or to a node with the same neighbours, which nothing can tell apart."""
    same = [set(graph[i]) - {back[j]} == set(graph[back[j]]) - {i} for i, j in enumerate(found)]
    return float(np.mean(same))


def align() -> None:
    every = aligners()
    print(f"Share of nodes found again, mean over {DRAWS} draws.\n")
    print("| network | edges changed | " + " | ".join(every) + " |")
    print("|---|---|" + "---|" * len(every), flush=True)
    seconds = dict.fromkeys(every, 0.0)
    for name in networks(0):
        for share in (0.05, 0.1):
            right: dict[str, list[float]] = {method: [] for method in every}
            for draw in range(DRAWS):
                rng = np.random.default_rng([draw, round(100 * share)])
                graph = networks(draw)[name]
                order = rng.permutation(len(graph))
                copy = nx.relabel_nodes(changed(graph, share, rng), dict(enumerate(order.tolist())))
                back = np.argsort(order).tolist()
                for method, find in every.items():
                    began = time.process_time()
                    right[method].append(share_right(graph, find(graph, copy), back))
                    seconds[method] += time.process_time() - began
            cells = " | ".join(f"{np.mean(shares):.2f}" for shares in right.values())
            print(f"| {name} | {share:.0%} | {cells} |", flush=True)
    print("\nCPU in s: " + ", ".join(f"{method} {total:.0f}" for method, total in seconds.items()))


def main(arguments: Sequence[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if arguments[:1] == ["classify"] and len(arguments) in (3, 4):
            classify(Path(arguments[1]), *arguments[2:])
        elif list(arguments) == ["align"]:
            align()
        else:
            print(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
