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


def workload(graph: graphs.Graph) -> common.Workload:
    """Costs from node 0."""

    def build(db: Any) -> tuple[Any, Any]:
        edge, root = db.table("edge", {"src": int, "dst": int, "weight": int}), db.table("root", {"node": int})
        root.insert([(0,)])
        view = db.view("sssp", Graph(edge, weight="weight").sssp(root))
        return edge, lambda: common.sorted_rows(view)

    stream = graph.stream
    return common.Workload(
        "sssp",
        graph.name,
        ("src", "dst", "weight"),
        np.asfortranarray(weighted(graph.edges)),
        replace(stream, old=weighted(stream.old), new=weighted(stream.new)),
        build,
        lambda rows: peers.weighted_distances(rows, graph.nodes, 0),
        lambda rows: peers.weighted_peers(rows, graph.nodes, 0),
        spark=lambda rows: spark_graphs.recompute(spark_graphs.sssp, rows, 0),
    )


if __name__ == "__main__":
    common.run(workload, common.arguments(__doc__, ("graph", graphs.NAMES)).parse_args())
