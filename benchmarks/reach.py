"""The nodes that node 0 reaches."""

from __future__ import annotations

from typing import Any

import common
import graphs
import peers
import recursive


def workload(spelling: str, graph: graphs.Graph) -> common.Workload:
    """Reachability from node 0."""

    def build(db: Any) -> tuple[Any, Any]:
        edge, root = db.table("edge", {"src": int, "dst": int}), db.table("root", {"node": int})
        root.insert([(0,)])
        view = db.view("reach", recursive.reachable(edge, root, spelling))
        return edge, lambda: common.sorted_rows(view)

    return common.Workload(
        "reach",
        graph.name,
        ("src", "dst"),
        graph.edges,
        graph.stream,
        build,
        lambda rows: peers.reachable(rows, graph.nodes, 0),
        lambda rows: peers.reach_peers(rows, graph.nodes, 0),
        variant=spelling,
    )


if __name__ == "__main__":
    options = common.arguments(__doc__, ("graph", graphs.NAMES), ("spelling", ("fixpoint", "iterate"))).parse_args()
    common.run(lambda graph: workload(options.spelling, graph), options)
