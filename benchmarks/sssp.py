"""Least costs from node 0 to every node it reaches, with `Graph.sssp`; weights from 1 to 100."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import common
import graphs
import numpy as np
import peers
import spark_graphs

from everview.graph import Graph


def weighted(edges: common.Ints) -> common.Ints:
    """Edges with a weight each, always the same one for the same edge."""
    return np.column_stack([edges, (edges[:, 0] * 31 + edges[:, 1] * 17) % 100 + 1])


def weighted_edges(graph: graphs.Graph) -> tuple[tuple[str, ...], common.Ints, graphs.Stream]:
    """Columns, rows and stream of changes of a workload on a graph's edges with weights."""
    stream = replace(graph.stream, old=weighted(graph.stream.old), new=weighted(graph.stream.new))
    return ("src", "dst", "weight"), np.asfortranarray(weighted(graph.edges)), stream


def workload(graph: graphs.Graph) -> common.Workload:
    """Costs from node 0."""

    def build(db: Any) -> tuple[Any, Any]:
        edge, root = db.table("edge", {"src": int, "dst": int, "weight": int}), db.table("root", {"node": int})
        root.insert([(0,)])
        view = db.view("sssp", Graph(edge, weight="weight").sssp(root))
        return edge, lambda: common.sorted_rows(view)

    return common.Workload(
        "sssp",
        graph.name,
        *weighted_edges(graph),
        build,
        lambda rows: peers.weighted_distances(rows, graph.nodes, 0),
        lambda rows: peers.weighted_peers(rows, graph.nodes, 0),
        spark=lambda rows: spark_graphs.recompute(spark_graphs.sssp, rows, 0),
    )


if __name__ == "__main__":
    common.run(workload, common.arguments(__doc__, ("graph", graphs.NAMES)).parse_args())
