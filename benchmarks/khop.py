"""Who is within three hops of a hundred sources, with `Graph.k_hop`."""

from __future__ import annotations

from typing import Any

import common
import graphs
import numpy as np
import peers
import spark_graphs

from everview.graph import Graph

HOPS = 3
SOURCES = 100


def workload(graph: graphs.Graph) -> common.Workload:
    """Nodes near some that are spread over the graph."""
    sources = np.arange(SOURCES) * (graph.nodes // SOURCES)

    def build(db: Any) -> tuple[Any, Any]:
        edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
        source.insert({"node": sources})
        view = db.view("near", Graph(edge).k_hop(source, HOPS))
        return edge, lambda: common.sorted_rows(view)

    return common.Workload(
        "khop",
        graph.name,
        ("src", "dst"),
        graph.edges,
        graph.stream,
        build,
        lambda rows: peers.near(rows, graph.nodes, sources, HOPS),
        lambda rows: peers.near_peers(rows, graph.nodes, sources, HOPS),
        variant=f"{HOPS} hops from {SOURCES} sources",
        spark=lambda rows: spark_graphs.recompute(spark_graphs.khop, rows, sources, HOPS),
    )


if __name__ == "__main__":
    common.run(workload, common.arguments(__doc__, ("graph", graphs.NAMES)).parse_args())
