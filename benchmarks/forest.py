"""A minimum spanning forest, with `Graph.spanning_forest`; weights from 1 to 100."""

from __future__ import annotations

from typing import Any

import common
import graphs
import peers
from sssp import weighted_edges

from everview.graph import Graph


def workload(graph: graphs.Graph) -> common.Workload:
    """The edges of the forest."""

    def build(db: Any) -> tuple[Any, Any]:
        edge = db.table("edge", {"src": int, "dst": int, "weight": int})
        view = db.view("forest", Graph(edge, weight="weight").spanning_forest())
        return edge, lambda: common.sorted_rows(view)

    return common.Workload(
        "forest",
        graph.name,
        *weighted_edges(graph),
        build,
        lambda rows: peers.spanning_forest(rows, graph.nodes),
        lambda rows: peers.forest_peers(rows, graph.nodes),
    )


if __name__ == "__main__":
    common.run(workload, common.arguments(__doc__, ("graph", graphs.NAMES)).parse_args())
