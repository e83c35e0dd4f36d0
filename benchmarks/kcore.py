"""k-core: edges between nodes with k or more such edges (k = 5, on graph c 20)."""

from __future__ import annotations

from typing import Any

import common
import graphs
import peers
import recursive


def workload(graph: graphs.Graph) -> common.Workload:
    """The edges of the k-core."""
    k = 20 if graph.name == "c" else 5

    def build(db: Any) -> tuple[Any, Any]:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("core", recursive.core(edge, k))
        return edge, lambda: common.sorted_rows(view)

    return common.Workload(
        "kcore",
        graph.name,
        ("src", "dst"),
        graph.edges,
        graph.stream,
        build,
        lambda rows: peers.core(rows, graph.nodes, k),
        lambda rows: peers.core_peers(rows, graph.nodes, k),
        variant=f"k={k}",
        rivals=(("differential", "kcore"),),
        k=k,
    )


if __name__ == "__main__":
    common.run(workload, common.arguments(__doc__, ("graph", graphs.NAMES)).parse_args())
