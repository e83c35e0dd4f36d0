"""The same answers from scratch: by SciPy (what results are checked against), igraph, networkx and DuckDB.

Every function takes the edges as a matrix. Building the library's graph from it is part of the time: whoever recomputes
after a change pays that too.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Timer
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Peers = dict[str, Callable[[], Any]]


def by_row(matrix: Ints) -> Ints:
    """The rows in order."""
    return matrix[np.lexsort(matrix.T[::-1])]


def _sparse(edges: Ints, nodes: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(edges), dtype=np.int8), (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))


def _igraph(edges: Ints, nodes: int) -> Any:
    import igraph

    return igraph.Graph(n=nodes, edges=edges, directed=True)


MOST_FOR_NETWORKX = 1_000_000
"""Edges; its graphs take about a kilobyte for each."""


def _networkx(edges: Ints, answer: Callable[[Any, Any], Any]) -> Peers:
    """networkx as a peer, given (networkx, graph) to what is wanted; none where the graph is too large for it."""
    if len(edges) > MOST_FOR_NETWORKX:
        return {}

    def recompute() -> Any:
        import networkx

        graph = networkx.DiGraph()
        if edges.shape[1] > 2:
            graph.add_weighted_edges_from(edges.tolist())
        else:
            graph.add_edges_from(edges.tolist())
        return answer(networkx, graph)

    return {"networkx": recompute}


PATIENCE = 60.0
"""Seconds that DuckDB gets: components of a large or deep graph take it minutes."""


def query(text: str, **tables: Any) -> Any:
    """What DuckDB says, given tables as Arrow tables or columns in a dict."""
    import duckdb

    with duckdb.connect() as connection:
        for name, columns in tables.items():
            connection.register(f"{name}_columns", columns)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_columns")
        alarm = Timer(PATIENCE, connection.interrupt)
        alarm.start()
        try:
            return connection.execute(text).fetchnumpy()
        finally:
            alarm.cancel()


def _edge(edges: Ints) -> dict[str, Ints]:
    return {"src": np.ascontiguousarray(edges[:, 0]), "dst": np.ascontiguousarray(edges[:, 1])}


# --------------------------------------------------------------------------------- reach, distances


def distances(edges: Ints, nodes: int, root: int) -> Ints:
    """(node, hops from root) for every node that can be reached.

    >>> distances(np.array([[0, 1], [1, 2], [3, 0]]), 4, 0).tolist()
    [[0, 0], [1, 1], [2, 2]]
    """
    from scipy.sparse.csgraph import dijkstra

    found = dijkstra(_sparse(edges, nodes), indices=root, unweighted=True)
    reached = np.flatnonzero(np.isfinite(found))
    return np.stack([reached, found[reached].astype(np.int64)], axis=1)


def reachable(edges: Ints, nodes: int, root: int) -> Ints:
    """(node,) for every node that can be reached.

    >>> reachable(np.array([[0, 1], [1, 2], [3, 0]]), 4, 0).tolist()
    [[0], [1], [2]]
    """
    from scipy.sparse.csgraph import breadth_first_order

    order = breadth_first_order(_sparse(edges, nodes), root, return_predecessors=False)
    return np.sort(order).astype(np.int64).reshape(-1, 1)


_REACH = """
WITH RECURSIVE reach(node) AS (
  SELECT {root}::BIGINT UNION SELECT dst FROM reach JOIN edge ON src = node)
SELECT node FROM reach"""

_DISTANCES = """
WITH RECURSIVE d(node, dist) USING KEY (node) AS (
  SELECT {root}::BIGINT, 0::BIGINT
  UNION
  (SELECT e.dst, min(d.dist) + 1 FROM d JOIN edge e ON e.src = d.node LEFT JOIN recurring.d r ON r.node = e.dst
   WHERE r.dist IS NULL OR r.dist > d.dist + 1 GROUP BY e.dst))
SELECT node, dist FROM d"""


def reach_peers(edges: Ints, nodes: int, root: int) -> Peers:
    """Reachability elsewhere."""
    return {
        "scipy": lambda: reachable(edges, nodes, root),
        "igraph": lambda: _igraph(edges, nodes).subcomponent(root, mode="out"),
        "duckdb": lambda: query(_REACH.format(root=root), edge=_edge(edges)),
    }


def distance_peers(edges: Ints, nodes: int, root: int) -> Peers:
    """Hop counts elsewhere."""
    return {
        "scipy": lambda: distances(edges, nodes, root),
        "igraph": lambda: _igraph(edges, nodes).distances(source=root, mode="out"),
        "duckdb": lambda: query(_DISTANCES.format(root=root), edge=_edge(edges)),
    }


def weighted_distances(edges: Ints, nodes: int, root: int) -> Ints:
    """(node, least total weight of a path from root); edges are src, dst, weight.

    >>> weighted_distances(np.array([[0, 1, 9], [0, 2, 1], [2, 1, 3]]), 4, 0).tolist()
    [[0, 0], [1, 4], [2, 1]]
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    graph = csr_array((edges[:, 2].astype(float), (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))
    found = dijkstra(graph, indices=root)
    reached = np.flatnonzero(np.isfinite(found))
    return np.stack([reached, found[reached].astype(np.int64)], axis=1)


def weighted_peers(edges: Ints, nodes: int, root: int) -> Peers:
    """Weighted shortest paths elsewhere."""
    return {
        "scipy": lambda: weighted_distances(edges, nodes, root),
        "igraph": lambda: _igraph(edges[:, :2], nodes).distances(source=root, mode="out", weights=edges[:, 2].tolist()),
        **_networkx(edges, lambda nx, g: nx.single_source_dijkstra_path_length(g, root)),
    }


def near(edges: Ints, nodes: int, sources: Ints, most: int) -> Ints:
    """(node, hops from the nearest source), up to so many hops.

    >>> near(np.array([[0, 1], [1, 2], [2, 3]]), 4, np.array([0]), 2).tolist()
    [[0, 0], [1, 1], [2, 2]]
    """
    from scipy.sparse.csgraph import dijkstra

    found = dijkstra(_sparse(edges, nodes), indices=sources, unweighted=True, min_only=True, limit=most)
    reached = np.flatnonzero(np.isfinite(found))
    return np.stack([reached, found[reached].astype(np.int64)], axis=1)


def near_peers(edges: Ints, nodes: int, sources: Ints, most: int) -> Peers:
    """Neighbourhoods elsewhere."""
    return {
        "scipy": lambda: near(edges, nodes, sources, most),
        "igraph": lambda: _igraph(edges, nodes).neighborhood(sources.tolist(), order=most, mode="out"),
        **_networkx(edges, lambda nx, g: nx.multi_source_dijkstra_path_length(g, set(sources.tolist()) & set(g), most)),
    }


# ------------------------------------------------------------------------------------------ PageRank


def pagerank(edges: Ints, nodes: int, rounds: int, unit: int) -> Ints:
    """(node, rank) for every node that has an edge, as `Graph.pagerank` defines it with damping 0.85.

    >>> pagerank(np.array([[0, 1], [0, 2], [2, 0]]), 3, 1, 1000).tolist()
    [[0, 1000], [1, 575], [2, 575]]
    """
    present = np.zeros(nodes, dtype=bool)
    present[edges.ravel()] = True
    kept = np.where(present, (unit * 3 + 10) // 20, 0)
    out = np.bincount(edges[:, 0], minlength=nodes)
    rank = np.where(present, unit, 0)
    for _ in range(rounds):
        share = (rank * 17 + out * 10) // (np.maximum(out, 1) * 20)
        # float sums are exact: below 2**53
        rank = kept + np.bincount(edges[:, 1], weights=share[edges[:, 0]], minlength=nodes).astype(np.int64)
    return np.stack([np.flatnonzero(present), rank[present]], axis=1)


def rank_peers(edges: Ints, nodes: int, rounds: int, unit: int) -> Peers:
    """PageRank elsewhere; igraph's goes on until it has converged."""
    return {
        "numpy": lambda: pagerank(edges, nodes, rounds, unit),
        "igraph": lambda: _igraph(edges, nodes).pagerank(damping=0.85),
        **_networkx(edges, lambda nx, g: nx.pagerank(g, 0.85)),
    }


# --------------------------------------------------------------------------------------- components


def _labels(edges: Ints, nodes: int, connection: str) -> Ints:
    """A number for every node, equal for nodes of one component."""
    from scipy.sparse.csgraph import connected_components

    label: Ints = connected_components(_sparse(edges, nodes), directed=True, connection=connection)[1]
    return label


def components(edges: Ints, nodes: int) -> Ints:
    """(node, smallest node of its weakly connected component) for every node that has an edge.

    >>> components(np.array([[3, 1], [1, 2], [5, 6]]), 8).tolist()
    [[1, 1], [2, 1], [3, 1], [5, 5], [6, 5]]
    """
    label = _labels(edges, nodes, "weak")
    present = np.unique(edges)
    smallest = np.full(label.max() + 1, nodes, dtype=np.int64)
    np.minimum.at(smallest, label[present], present)
    return np.stack([present, smallest[label[present]]], axis=1)


def inside_components(edges: Ints, nodes: int) -> Ints:
    """The edges whose ends are in one strongly connected component.

    >>> inside_components(np.array([[0, 1], [1, 0], [1, 2]]), 3).tolist()
    [[0, 1], [1, 0]]
    """
    label = _labels(edges, nodes, "strong")
    return by_row(edges[label[edges[:, 0]] == label[edges[:, 1]]])


_COMPONENTS = """
WITH RECURSIVE
  both_ways AS MATERIALIZED (SELECT src, dst FROM edge UNION ALL SELECT dst, src FROM edge),
  l(node, label) USING KEY (node) AS (
    SELECT DISTINCT src, src FROM both_ways
    UNION
    (SELECT e.dst, min(l.label) FROM l JOIN both_ways e ON e.src = l.node JOIN recurring.l r ON r.node = e.dst
     WHERE l.label < r.label GROUP BY e.dst))
SELECT node, label FROM l"""


def component_peers(edges: Ints, nodes: int) -> Peers:
    """Weakly connected components elsewhere."""
    return {
        "scipy": lambda: _labels(edges, nodes, "weak"),
        "igraph": lambda: _igraph(edges, nodes).connected_components(mode="weak").membership,
        **_networkx(edges, lambda nx, g: list(nx.weakly_connected_components(g))),
        "duckdb": lambda: query(_COMPONENTS, edge=_edge(edges)),
    }


def strong_peers(edges: Ints, nodes: int) -> Peers:
    """Strongly connected components elsewhere."""
    return {
        "scipy": lambda: _labels(edges, nodes, "strong"),
        "igraph": lambda: _igraph(edges, nodes).connected_components(mode="strong").membership,
        **_networkx(edges, lambda nx, g: list(nx.strongly_connected_components(g))),
    }


# --------------------------------------------------------------------------------------------- forests


def spanning_forest(edges: Ints, nodes: int) -> Ints:
    """(a, b, weight): the minimum spanning forest, ties to the smaller nodes; edges are src, dst, weight (1 or more).

    >>> spanning_forest(np.array([[1, 0, 5], [1, 2, 5], [2, 0, 5], [0, 2, 9]]), 3).tolist()
    [[0, 1, 5], [0, 2, 5]]
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    a, b = edges[:, :2].min(axis=1), edges[:, :2].max(axis=1)
    order = np.sort((edges[:, 2] * nodes + a) * nodes + b)  # below 2**53, so floats tell them apart
    pair = order % (nodes * nodes)
    _, first = np.unique(pair, return_index=True)  # the lightest of parallel edges
    ends = (pair[first] // nodes, pair[first] % nodes)
    tree = minimum_spanning_tree(csr_array((order[first].astype(float), ends), shape=(nodes, nodes))).tocoo()
    weight = tree.data.astype(np.int64) // (nodes * nodes)
    return by_row(np.stack([tree.row, tree.col, weight], axis=1).astype(np.int64))


def forest_peers(edges: Ints, nodes: int) -> Peers:
    """Spanning forests elsewhere."""
    return {
        "scipy": lambda: spanning_forest(edges, nodes),
        "igraph": lambda: _igraph(edges[:, :2], nodes).as_undirected("each").spanning_tree(edges[:, 2].tolist()),
        **_networkx(edges, lambda nx, g: list(nx.minimum_spanning_edges(g.to_undirected()))),
    }


# -------------------------------------------------------------------------------------------- k-core


def core(edges: Ints, nodes: int, k: int) -> Ints:
    """The edges left when nodes with fewer than k edges (in or out) are taken away until there are none.

    >>> triangle = np.array([[0, 1], [1, 2], [2, 0]])
    >>> core(np.concatenate([triangle, [[2, 3]]]), 4, 2).tolist()
    [[0, 1], [1, 2], [2, 0]]
    """
    left = edges
    while True:
        degree = np.bincount(left.ravel(), minlength=nodes)
        kept = left[(degree[left[:, 0]] >= k) & (degree[left[:, 1]] >= k)]
        if len(kept) == len(left):
            return by_row(left)
        left = kept


def core_peers(edges: Ints, nodes: int, k: int) -> Peers:
    """k-cores elsewhere."""
    return {
        "numpy": lambda: core(edges, nodes, k),
        "igraph": lambda: _igraph(edges, nodes).coreness(mode="all"),
    }


# -------------------------------------------------------------------------------------------- triangles

_TRIANGLES = """
SELECT count(*) FROM edge ab JOIN edge bc ON ab.dst = bc.src JOIN edge ac ON ac.src = ab.src AND ac.dst = bc.dst
"""


def triangles(edges: Ints, nodes: int) -> int:
    """How many (a, b, c) have edges a-b, b-c and a-c; some rows of the matrix product at a time, to bound memory.

    >>> triangles(np.array([[0, 1], [1, 2], [0, 2], [2, 0]]), 3)
    1
    """
    matrix = _sparse(edges, nodes).astype(np.int64)
    paths = np.asarray(matrix @ matrix.sum(axis=1)).cumsum()  # paths of two edges that begin at nodes so far
    cuts = np.searchsorted(paths, np.arange(0, paths[-1] + PATHS_AT_ONCE, PATHS_AT_ONCE))
    total = 0
    for low, high in zip([0, *cuts + 1], [*cuts + 1, nodes], strict=True):
        rows = matrix[min(low, nodes) : min(high, nodes)]
        total += int((rows @ matrix).multiply(rows).sum()) if rows.shape[0] else 0
    return total


PATHS_AT_ONCE = 50_000_000


def triangle_peers(edges: Ints, nodes: int) -> Peers:
    """Triangles elsewhere."""
    return {
        "scipy": lambda: triangles(edges, nodes),
        "duckdb": lambda: query(_TRIANGLES, edge=_edge(edges)),
    }


# -------------------------------------------------------------------------------------- join and sum


def revenue(customer: Ints, orders: Ints, lineitem: Ints) -> Ints:
    """(nation, sum of price): lineitem joined with orders joined with customer, whose keys are 0, 1, 2 ..."""
    buyer = orders[lineitem[:, 0], 1]
    nation = customer[buyer, 1]
    total = np.zeros(nation.max() + 1, dtype=np.int64)
    np.add.at(total, nation, lineitem[:, 2])
    present = np.unique(nation)
    return np.stack([present, total[present]], axis=1)


def dearest(customer: Ints, orders: Ints, lineitem: Ints) -> Ints:
    """(nation, highest price) of the same join."""
    nation = customer[orders[lineitem[:, 0], 1], 1]
    highest = np.full(nation.max() + 1, np.iinfo(np.int64).min)
    np.maximum.at(highest, nation, lineitem[:, 2])
    present = np.unique(nation)
    return np.stack([present, highest[present]], axis=1)


_REVENUE = """
SELECT c.nation, sum(l.price) AS total
FROM lineitem l JOIN orders o ON l."order" = o."order" JOIN customer c ON o.customer = c.customer
GROUP BY c.nation"""


def revenue_peers(customer: dict[str, Ints], orders: dict[str, Ints], lineitem: dict[str, Ints]) -> Peers:
    """Join and sum elsewhere."""

    def pandas() -> Any:
        import pandas

        c, o, i = (pandas.DataFrame(t) for t in (customer, orders, lineitem))
        return i.merge(o, on="order").merge(c, on="customer").groupby("nation")["price"].sum()

    return {
        "pandas": pandas,
        "duckdb": lambda: query(_REVENUE, customer=customer, orders=orders, lineitem=lineitem),
    }
