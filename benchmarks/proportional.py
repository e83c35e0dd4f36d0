"""A join costs what its smaller side costs (A8): collections of 1 to 1,000,000 rows against an index of 5 M rows."""

from __future__ import annotations

import argparse
from typing import Any

import common
import graphs
import numpy as np
import peers


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Install a join with a new, unindexed collection of each size; then add as many rows again."""
    graph = graphs.load("tiny" if options.quick else options.graph)
    sizes = [1, 10, 100] if options.quick else [10**k for k in range(7)]
    rng = np.random.default_rng(13)
    keys = rng.permutation(graph.nodes)
    points = []
    with common.connect(options) as db:
        edge = db.table("edge", {"src": int, "dst": int})
        edge.insert(common.columns(("src", "dst"), graph.edges))
        index = db.view("index", edge, index_by="src")
        for size in sizes:
            half = keys[: (size + 1) // 2], keys[(size + 1) // 2 : size]
            points.append({"rows": size, **_point(db, edge, size, *half)})
            wanted = graph.edges[np.isin(graph.edges[:, 0], keys[:size])]
            view = db[f"join{size}"]
            points[-1]["check"] = common.compare(common.sorted_rows(view), peers.by_row(wanted))
            view.drop()
        del index
    return {"benchmark": "proportional", "graph": graph.name, "index_rows": len(graph.edges), "points": points}


def _point(db: Any, edge: Any, size: int, first: common.Ints, second: common.Ints) -> dict[str, Any]:
    asked = db.table(f"asked{size}", {"node": int})
    asked.insert({"node": first})
    found = asked.join(edge, asked.node == edge.src).select(src=edge.src, dst=edge.dst)
    install, _ = common.once(lambda: db.view(f"join{size}", found))
    point = {"install": install}
    if len(second):
        insert, _ = common.once(lambda: asked.insert({"node": second}))
        point["insert"] = {**insert, "cpu_us_per_row": insert["cpu_s"] / len(second) * 1e6}
    return point


if __name__ == "__main__":
    chosen = common.arguments(__doc__, ("graph", ("b", "a", "c", "tiny"))).parse_args()
    common.report(run(chosen), chosen)
