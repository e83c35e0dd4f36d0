"""Weakly connected components by label propagation, plain or with small labels first, or with `Graph.wcc` (which has
small labels first too, and walks the two indexes of the edges instead of one of both directions)."""

from __future__ import annotations

from typing import Any

import common
import graphs
import peers
import recursive
import spark_graphs

from everview.graph import Graph


def workload(order: str, spelling: str, graph: graphs.Graph, start: str = "keyed") -> common.Workload:
    """The smallest node of every node's component."""

    def build(db: Any) -> tuple[Any, Any]:
        edge = db.table("edge", {"src": int, "dst": int})
        by_hand = recursive.components(edge, spelling, order == "prioritized", start)
        view = db.view("wcc", Graph(edge).wcc() if order == "library" else by_hand)
        return edge, lambda: common.sorted_rows(view)

    return common.Workload(
        "wcc-plain" if order == "plain" else "wcc-prioritized",
        graph.name,
        ("src", "dst"),
        graph.edges,
        graph.stream,
        build,
        lambda rows: peers.components(rows, graph.nodes),
        lambda rows: peers.component_peers(rows, graph.nodes),
        variant="Graph.wcc" if order == "library" else f"{spelling}, {start}",
        spark=lambda rows: spark_graphs.recompute(spark_graphs.wcc, rows),
        rivals=(("differential", "wcc-plain" if order == "plain" else "wcc-prioritized"),),
    )


if __name__ == "__main__":
    parser = common.arguments(
        __doc__,
        ("graph", graphs.NAMES),
        ("order", ("prioritized", "plain", "library")),
        ("spelling", ("iterate", "fixpoint")),
        ("start", ("keyed", "pairs")),
    )
    options = parser.parse_args()
    if options.order != "plain" and options.spelling == "fixpoint":
        parser.error("a fixpoint has no start rows that a priority could delay: use --spelling iterate")
    common.run(lambda graph: workload(options.order, options.spelling, graph, options.start), options)
