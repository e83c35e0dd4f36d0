"""Ten rounds of PageRank, with `Graph.pagerank`.

In ten rounds a change of one edge comes to most of a well-connected graph, so a change is a large part of everything:
use `--few`. A smaller `--unit` rounds small changes away sooner.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import common
import graphs
import peers
import spark_graphs

from everview.graph import Graph

ROUNDS = 10


def workload(unit: int, graph: graphs.Graph) -> common.Workload:
    """The rank of every node."""

    def build(db: Any) -> tuple[Any, Any]:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("rank", Graph(edge).pagerank(ROUNDS, unit=unit))
        return edge, lambda: common.sorted_rows(view)

    return common.Workload(
        "pagerank",
        graph.name,
        ("src", "dst"),
        graph.edges,
        graph.stream,
        build,
        lambda rows: peers.pagerank(rows, graph.nodes, ROUNDS, unit),
        lambda rows: peers.rank_peers(rows, graph.nodes, ROUNDS, unit),
        variant=f"{ROUNDS} rounds, unit {unit:,}",
        spark=lambda rows: spark_graphs.recompute(spark_graphs.pagerank, rows, ROUNDS, unit),
    )


if __name__ == "__main__":
    parser = common.arguments(__doc__, ("graph", graphs.NAMES))
    parser.add_argument("--unit", type=int, default=1_000_000, help="what the average node starts with")
    options = parser.parse_args()
    common.run(partial(workload, options.unit), options)
