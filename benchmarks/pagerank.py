"""Ten rounds of PageRank, with `Graph.pagerank`.

In ten rounds a change of one edge comes to most of a well-connected graph, so a change is a large part of everything:
use `--few`.
"""

from __future__ import annotations

from typing import Any

import common
import graphs
import peers

from everview.graph import Graph

ROUNDS = 10
UNIT = 1_000_000


def workload(graph: graphs.Graph) -> common.Workload:
    """The rank of every node."""

    def build(db: Any) -> tuple[Any, Any]:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("rank", Graph(edge).pagerank(ROUNDS, unit=UNIT))
        return edge, lambda: common.sorted_rows(view)

    return common.Workload(
        "pagerank",
        graph.name,
        ("src", "dst"),
        graph.edges,
        graph.stream,
        build,
        lambda rows: peers.pagerank(rows, graph.nodes, ROUNDS, UNIT),
        lambda rows: peers.rank_peers(rows, graph.nodes, ROUNDS, UNIT),
        variant=f"{ROUNDS} rounds",
    )


if __name__ == "__main__":
    common.run(workload, common.arguments(__doc__, ("graph", graphs.NAMES)).parse_args())
