"""Weakly connected components by label propagation, plain or with small labels first."""

from __future__ import annotations

from typing import Any

import common
import graphs
import peers
import recursive


def workload(order: str, spelling: str, graph: graphs.Graph, start: str = "keyed") -> common.Workload:
    """The smallest node of every node's component."""

    def build(db: Any) -> tuple[Any, Any]:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("wcc", recursive.components(edge, spelling, order == "prioritized", start))
        return edge, lambda: common.sorted_rows(view)

    return common.Workload(
        f"wcc-{order}",
        graph.name,
        ("src", "dst"),
        graph.edges,
        graph.stream,
        build,
        lambda rows: peers.components(rows, graph.nodes),
        lambda rows: peers.component_peers(rows, graph.nodes),
        variant=f"{spelling}, {start}",
    )


if __name__ == "__main__":
    parser = common.arguments(
        __doc__,
        ("graph", graphs.NAMES),
        ("order", ("prioritized", "plain")),
        ("spelling", ("iterate", "fixpoint")),
        ("start", ("keyed", "pairs")),
    )
    options = parser.parse_args()
    if (options.order, options.spelling) == ("prioritized", "fixpoint"):
        parser.error("a fixpoint has no start rows that a priority could delay: use --spelling iterate")
    common.run(lambda graph: workload(options.order, options.spelling, graph, options.start), options)
