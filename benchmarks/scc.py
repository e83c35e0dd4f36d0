"""Strongly connected components: label propagation, forwards and backwards, inside an outer loop.

Labels are the nodes' numbers, small ones first (prioritized) or all at once (plain), or hashes (`Graph.scc_edges`).
"""

from __future__ import annotations

from typing import Any

import common
import graphs
import peers
import recursive
import spark_graphs

from everview.graph import Graph


def workload(order: str, graph: graphs.Graph) -> common.Workload:
    """The edges inside strongly connected components."""

    def build(db: Any) -> tuple[Any, Any]:
        edge = db.table("edge", {"src": int, "dst": int})
        hashed = order == "hashed"
        spelled = Graph(edge).scc_edges() if hashed else recursive.inside_components(edge, order == "prioritized")
        view = db.view("scc", spelled)
        return edge, lambda: common.sorted_rows(view)

    return common.Workload(
        "scc",
        graph.name,
        ("src", "dst"),
        graph.edges,
        graph.stream,
        build,
        lambda rows: peers.inside_components(rows, graph.nodes),
        lambda rows: peers.strong_peers(rows, graph.nodes),
        variant=order,
        spark=lambda rows: spark_graphs.recompute(spark_graphs.scc, rows),
        rivals=(("differential", "scc-plain" if order == "plain" else "scc-prioritized"),),
    )


if __name__ == "__main__":
    orders = ("order", ("prioritized", "plain", "hashed"))
    options = common.arguments(__doc__, ("graph", graphs.NAMES), orders).parse_args()
    common.run(lambda graph: workload(options.order, graph), options)
