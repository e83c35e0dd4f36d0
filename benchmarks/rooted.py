"""What queries from one root have in common: the tables, node 0 as the root, the spelling as an option."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import common
import graphs

Expected = Callable[[common.Ints, int, int], common.Ints]
Peers = Callable[[common.Ints, int, int], dict[str, common.Recompute]]


def workload(
    name: str, query: Callable[..., Any], expected: Expected, peers: Peers, spelling: str, graph: graphs.Graph
) -> common.Workload:
    """`query(edge, root, spelling)` from node 0 of a graph."""

    def build(db: Any) -> tuple[Any, Any]:
        edge, root = db.table("edge", {"src": int, "dst": int}), db.table("root", {"node": int})
        root.insert([(0,)])
        view = db.view(name, query(edge, root, spelling))
        return edge, lambda: common.sorted_rows(view)

    return common.Workload(
        name,
        graph.name,
        ("src", "dst"),
        graph.edges,
        graph.stream,
        build,
        lambda rows: expected(rows, graph.nodes, 0),
        lambda rows: peers(rows, graph.nodes, 0),
        variant=spelling,
        rivals=(("differential", name),),
    )


def main(make: Callable[[str, graphs.Graph], common.Workload], description: str | None) -> None:
    """Measure with the options of the command line."""
    options = common.arguments(description, ("graph", graphs.NAMES), ("spelling", ("fixpoint", "iterate"))).parse_args()
    common.run(lambda graph: make(options.spelling, graph), options)
