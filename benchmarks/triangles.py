"""Directed triangles, counted: worst-case optimal, in any order of the clauses, against joins one after the other.

The reference lists triangles as they come and go; here every one of them is sent on to a count. `--plan binary` keeps
all pairs of edges that meet, which graph c has far too many of for a comparison: `--edges` takes the first so many.
"""

from __future__ import annotations

import argparse
from typing import Any

import common
import graphs
import numpy as np
import peers
from numpy.typing import NDArray

Ints = NDArray[np.int64]

ORDERS = {
    "ab-bc-ac": "edge(A, B), edge(B, C), edge(A, C)",
    "bc-ac-ab": "edge(B, C), edge(A, C), edge(A, B)",
    "ac-ab-bc": "edge(A, C), edge(A, B), edge(B, C)",
}


def workload(graph: graphs.Graph, options: argparse.Namespace) -> common.Workload:
    """How many triples of nodes have edges a-b, b-c and a-c."""
    rows = graph.edges[: options.edges] if options.edges else graph.edges
    stream = graph.stream
    if len(rows) < len(graph.edges):
        kept = stream.slot < len(rows)
        stream = graphs.Stream(stream.slot[kept], stream.old[kept], stream.new[kept])

    def build(db: Any) -> tuple[Any, Any]:
        edge = db.table("edge", {"src": int, "dst": int})
        plan = None if options.plan == "automatic" else options.plan
        view = db.datalog(f"triangles(count()) :- {ORDERS[options.order]}.", plan=plan).triangles
        return edge, lambda: common.sorted_rows(view)

    variant = f"{options.plan}, {options.order}" + (f", {options.edges} edges" if options.edges else "")
    return common.Workload(
        "triangles",
        graph.name if not options.edges else f"{graph.name}:{options.edges}",
        ("src", "dst"),
        rows,
        stream,
        build,
        lambda edges: np.array([[peers.triangles(edges, graph.nodes)]]),
        lambda edges: peers.triangle_peers(edges, graph.nodes),
        variant=variant,
    )


if __name__ == "__main__":
    parser = common.arguments(
        __doc__,
        ("graph", ("c", "a", "b", "tiny")),
        ("plan", ("automatic", "wco", "delta", "binary")),
        ("order", tuple(ORDERS)),
    )
    parser.add_argument("--edges", type=int, default=0, help="only the first so many edges; 0: all")
    given = parser.parse_args()
    if given.quick:
        given.edges = 0
    common.run(lambda graph: workload(graph, given), given)
