"""Graphs as random walks: networkx graphs, GraphML and GML files, and edge lists."""

from __future__ import annotations

import ast
import io
import math
import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from somcot.chains import EDGES, MarkovChain
from somcot.plumbing.checks import check_flag, check_text
from somcot.plumbing.memory import require
from somcot.plumbing.text import listing
from somcot.readers.opening import Input, identify, open_bytes, whole
from somcot.recorded.counts import Start
from somcot.recorded.stationary import is_stationary_start, stationary_distribution

__all__ = ["from_graph", "read_graph"]

Edge = tuple[Hashable, Hashable, float]
Graph: TypeAlias = Any  # a networkx graph
_LINE = 1 << 16
_BYTES = 120.0  # per entry of a full row, while it is a list of Python numbers


def from_graph(
    graph: Graph,
    *,
    weight: str | None = "weight",
    initial: Hashable | ArrayLike | None = None,
    dangling: str = "self-loop",
) -> MarkovChain:
    """Random walk on a graph: the next node is a neighbour, chosen by weight.

    Attributes of the nodes are kept: ``cost="attribute:NAME"`` compares them, ``"degree"`` and ``"neighbourhood"``
    compare graphs without any (see `costs.between`).

    Parameters
    ----------
    graph : networkx graph
        Directed or not; parallel edges add up.
    weight : str or None
        Edge attribute with nonnegative weights, 1 for edges without it; None ignores weights.
    initial : node, array_like or "stationary", optional
        Initial distribution of the walk; uniform by default. "stationary" is the stationary distribution of the walk,
        proportional to the weights of the nodes' edges if the graph is undirected.
    dangling : {"self-loop", "restart", "error"}
        How to treat nodes without outgoing edges: make them absorbing, jump to a random node, or refuse the graph.

    Examples
    --------
    >>> import networkx
    >>> walk = from_graph(networkx.path_graph(["a", "b", "c"]))
    >>> walk.transition.toarray()
    array([[0. , 1. , 0. ],
           [0.5, 0. , 0.5],
           [0. , 1. , 0. ]])

    Attributes of edges are not compared. Make a node of each edge, and compare these with "attribute:kind":

    >>> bonds = networkx.Graph([("C", "O", {"kind": "double"}), ("C", "N", {"kind": "single"})])
    >>> split = networkx.Graph()
    >>> for a, b, kind in bonds.edges(data="kind"):
    ...     split.add_node((a, b), kind=kind)
    ...     split.add_edges_from([(a, (a, b)), ((a, b), b)])
    >>> from_graph(split).attributes["kind"]
    ('double', None, None, 'single', None)

    >>> networkx.set_node_attributes(graph := networkx.path_graph(3), {0: 1.5, 1: 2.0, 2: 1.5}, "size")
    >>> from_graph(graph).attributes
    {'size': (1.5, 2.0, 1.5)}
    """
    if not hasattr(graph, "edges") or not hasattr(graph, "is_directed"):
        hint = "; make one: networkx.from_numpy_array(graph)" if isinstance(graph, np.ndarray) else ""
        raise TypeError(f"graph: found {type(graph).__name__}, expected a networkx graph{hint}")
    weights = [(u, v, None if weight is None else data.get(weight)) for u, v, data in graph.edges(data=True)]
    # The default name may be missing, as in graphs without weights; a name that was passed may not.
    if weight not in (None, "weight") and weights and all(w is None for _, _, w in weights):
        raise ValueError(f"graph: no edge has the attribute {weight!r} for weight; name another, or None to do without")
    edges = ((u, v, 1.0 if w is None else w) for u, v, w in weights)
    unused = _unused(graph, weight)
    nodes = {node: {**data, **unused} for node, data in graph.nodes(data=True)}
    return _walk("graph", nodes, edges, bool(graph.is_directed()), initial, dangling)


def _unused(graph: Graph, weight: str | None) -> dict[str, str]:
    """An attribute that names those of edges that the walk does not use, such as kinds of bonds, if there are any.

    A comparison has one note on them for all its graphs.
    """
    # The default name is not reported with weight=None either, which ignores it on purpose.
    names = {str(key) for _, _, data in graph.edges(data=True) for key in data} - {str(weight), "weight"}
    return {EDGES: ", ".join(map(repr, sorted(names)))} if names else {}


def read_graph(
    path: str | os.PathLike[str] | Input,
    *,
    weight: str | None = "weight",
    directed: bool = False,
    initial: Hashable | ArrayLike | None = None,
    dangling: str = "self-loop",
    format: str | None = None,  # noqa: A002
) -> MarkovChain:
    r"""Read a GraphML or GML file (both need networkx) or an edge list as a random walk.

    An edge list has a line ``from to [weight]`` per edge, separated by spaces, tabs or commas; ``#`` starts a comment.
    The lines of ``networkx.write_edgelist``, ``from to {'weight': 2.0}``, are read too.

    Parameters
    ----------
    path : path
        Ending in .graphml, .gml, .edges or .edgelist, or any file with `format`; may be gzipped.
    directed : bool
        Whether the edges of an edge list are directed; other formats specify that in the file.
    weight, initial, dangling
        As for `from_graph`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "roads.edges")
    >>> _ = file.write_text("home shop 3\nhome work 1\n")
    >>> read_graph(file).transition.toarray()[0]
    array([0.  , 0.75, 0.25])
    """
    check_flag("directed", directed)
    source = path if isinstance(path, Input) else identify(path, format)
    if source.format in ("graphml", "gml"):
        graph = _graphml(source) if source.format == "graphml" else _gml(source)
        try:
            return from_graph(graph, weight=weight, initial=initial, dangling=dangling)
        except ValueError as error:
            # The file's name replaces the argument's, because the caller passed a file.
            raise ValueError(f"{source.name}: {str(error).removeprefix('graph: ')}") from None
    edges = list(_edge_lines(source, weight))
    # An edge list mentions only nodes with edges.
    nodes: dict[Hashable, dict[str, object]] = {node: {} for u, v, _ in edges for node in (u, v)}
    return _walk(source.name, nodes, edges, directed, initial, dangling)


def _walk(
    name: str,
    facts: Mapping[Hashable, Mapping[str, object]],
    edges: Iterable[Edge],
    directed: bool,
    initial: Start,
    dangling: str,
) -> MarkovChain:
    """The walk on the nodes, with their attributes."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    check_text("dangling", dangling, "self-loop", "restart", "error")
    nodes = list(facts)
    if not nodes:
        raise ValueError(f"{name}: the graph has no nodes; a walk needs at least one")
    place = {node: i for i, node in enumerate(nodes)}
    rows, columns, weights = [], [], []
    for u, v, w in edges:
        value = _weight(name, u, v, w)
        # A set, so that a loop of an undirected graph counts once.
        for a, b in {(u, v), (u, v) if directed else (v, u)}:
            rows.append(place[a])
            columns.append(place[b])
            weights.append(value)
    n = len(nodes)
    out = np.bincount(rows, weights, n) if rows else np.zeros(n)
    # Weights of 0 are allowed, and a node with nothing else is as stuck as one without edges.
    stuck = np.flatnonzero(out == 0)
    if stuck.size and dangling == "error":
        raise ValueError(
            f"{name}: {stuck.size} node(s) have no outgoing edge: {listing(nodes[i] for i in stuck)}; pass dangling"
        )
    if dangling == "self-loop":
        rows, columns, weights = [*rows, *stuck], [*columns, *stuck], [*weights, *np.ones(stuck.size)]
    else:
        # Rows of restarting nodes are full; the list of Python numbers is the peak of memory.
        require(
            _BYTES * n * stuck.size,
            f"{name}: restarting from {stuck.size:,} of {n:,} nodes",
            "use dangling='self-loop'",
        )
        rows = [*rows, *np.repeat(stuck, n)]
        columns, weights = [*columns, *np.tile(np.arange(n), stuck.size)], [*weights, *np.ones(n * stuck.size)]
    matrix = coo_array((weights, (rows, columns)), shape=(n, n)).tocsr()
    # Edges of weight 0 would count as possible transitions.
    matrix.eliminate_zeros()
    keys = dict.fromkeys(key for data in facts.values() for key in data)
    attributes = {key: [data.get(key) for data in facts.values()] for key in keys}
    try:
        # Walks begin anywhere: no node of a graph is its first one.
        start = np.full(n, 1.0 / n) if initial is None else initial
        if is_stationary_start(initial, nodes):
            # Of an undirected graph it is proportional to the weights, whether or not the graph is connected.
            if not directed and connected_components(matrix, return_labels=False) > 1:
                start = matrix.sum(axis=1) / matrix.sum()
            else:
                start = stationary_distribution(MarkovChain(matrix, np.full(n, 1.0 / n), states=nodes, normalize=True))
        return MarkovChain(matrix, start, states=nodes, normalize=True, attributes=attributes)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None


def _weight(name: str, u: Hashable, v: Hashable, weight: Any) -> float:
    try:
        # float() accepts 1_000, which no file means as a number.
        value = float("" if isinstance(weight, str) and "_" in weight else weight)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise ValueError(f"{name}: the edge from {u!r} to {v!r} has weight {weight!r}, expected a number of at least 0")
    return value


def _graphml(source: Input) -> Graph:
    try:
        import networkx
    except ImportError:
        raise ImportError("reading GraphML needs networkx: pip install networkx") from None
    from xml.etree.ElementTree import ParseError

    # networkx reads GraphML from a whole file; 1 GB bounds what a pipe can bring.
    content = whole(source, 1e9)
    try:
        _check_graphml(source.name, content)
        return networkx.read_graphml(content)
    except ParseError as error:
        raise ValueError(f"{source.name}: not valid XML ({error}); export the graph again") from None
    except _GraphMLError as error:
        raise ValueError(str(error)) from None
    except (networkx.NetworkXError, LookupError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{source.name}: not valid GraphML ({error}); export the graph again") from None


def _gml(source: Input) -> Graph:
    try:
        import networkx
    except ImportError:
        raise ImportError("reading GML needs networkx: pip install networkx") from None
    try:
        text = whole(source, 1e9).read().decode("ascii")  # GML is ASCII; other characters are escaped
        named = re.search(r"^\s*label\b", text, re.MULTILINE) is not None  # nodes need not have names
        return networkx.parse_gml(text.splitlines(), label="label" if named else "id")
    except UnicodeDecodeError:
        raise ValueError(f"{source.name}: not ASCII, which GML has to be; export the graph again") from None
    except (networkx.NetworkXError, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{source.name}: not valid GML ({error}); export the graph again") from None


class _GraphMLError(Exception):
    """An error that networkx would silently ignore."""


def _check_graphml(name: str, content: io.BytesIO) -> None:
    """Refuse edges without end points, which would lead to a node called None, and files with several graphs."""
    from xml.etree.ElementTree import iterparse

    n_graphs = n_edges = 0
    for _, element in iterparse(content, ("start",)):
        tag = element.tag.rpartition("}")[2]
        n_graphs += tag == "graph"
        n_edges += tag == "edge"
        if n_graphs > 1:
            raise _GraphMLError(f"{name}: contains several graphs, expected one; write each into a separate file")
        direction = element.get("edgedefault", "undirected") if tag == "graph" else "directed"
        if direction not in ("directed", "undirected"):
            raise _GraphMLError(f"{name}: edgedefault is {direction!r}, expected 'directed' or 'undirected'")
        missing = [end for end in ("source", "target") if tag == "edge" and not element.get(end)]
        if missing:
            called = "" if element.get("id") is None else f" ({element.get('id')!r})"
            raise _GraphMLError(f"{name}: edge {n_edges}{called} has no {missing[0]}; add it or remove the edge")
    content.seek(0)


def _edge_lines(source: Input, weight: str | None) -> Iterator[Edge]:
    n_edges = 0
    with open_bytes(source) as stream:
        # readline with a limit: a file without line breaks would otherwise be read whole.
        for number, line in enumerate(iter(lambda: stream.readline(_LINE + 1), b""), 1):
            place = f"{source.name}: line {number}"
            if len(line) > _LINE:
                raise ValueError(f"{place} is longer than {_LINE >> 10} kB; expected: from to [weight]")
            try:
                text = line.decode("utf-8-sig").partition("#")[0].strip()
            except UnicodeDecodeError:
                raise ValueError(f"{place} is not valid UTF-8; convert the file") from None
            if text:
                n_edges += 1
                yield _edge(place, text, weight)
    if not n_edges:
        raise ValueError(f"{source.name}: no edges; expected lines of: from to [weight]")


def _with_facts(place: str, text: str) -> tuple[str, dict[str, object]]:
    """The line without the attributes that networkx appends, ``{}`` or ``{'weight': 2.0}``, and the attributes."""
    if not text.endswith("}") or " {" not in text:
        return text, {}
    head, _, facts = text.partition(" {")
    try:
        # literal_eval builds plain values and runs nothing, whatever the file contains.
        attributes = ast.literal_eval("{" + facts)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        attributes = None
    if not isinstance(attributes, dict):
        raise ValueError(f"{place}: found {text[:60]!r}, expected: from to [weight]")
    return head.strip(), attributes


def _edge(place: str, text: str, weight: str | None) -> Edge:
    text, facts = _with_facts(place, text)
    parts = [part.strip() for part in text.split(",")] if "," in text else text.split()
    if len(parts) not in (2, 3) or not all(parts):
        raise ValueError(f"{place}: found {text[:60]!r}, expected: from to [weight]")
    # Only plain decimal numbers become integers: 007 and 7.0 stay names, and so do numbers beyond int64.
    u, v = (int(p) if p.isascii() and p.isdigit() and len(p) < 19 and str(int(p)) == p else p for p in parts[:2])
    try:
        return u, v, _weight(place, u, v, parts[2] if len(parts) == 3 else facts.get(weight or "", 1.0))
    except ValueError as error:
        raise ValueError(f"{error}; correct the line") from None
