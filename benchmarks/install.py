"""Install the 1st to 100th view over an indexed table of 5 M rows: milliseconds, however large the index is."""

from __future__ import annotations

import argparse
from typing import Any

import common
import graphs
import numpy as np


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Look-ups of a few keys each, joined with one shared index."""
    graph = graphs.load("tiny" if options.quick else options.graph)
    views = 10 if options.quick else 100
    with common.connect(options) as db:
        edge = db.table("edge", {"src": int, "dst": int})
        asked = db.table("asked", {"client": int, "node": int})
        asked.insert([(client, client) for client in range(views)])
        load, _ = common.once(lambda: edge.insert(common.columns(("src", "dst"), graph.edges)))
        clock = common.Clock()
        installed = []
        for client in range(views):
            with clock.measured():
                mine = asked.filter(asked.client == client)
                found = mine.join(edge, mine.node == edge.src).select(node=mine.node, dst=edge.dst)
                installed.append(db.view(f"client{client}", found))
        answers = np.concatenate([common.sorted_rows(view).reshape(-1, 2) for view in installed])
        stats = db.stats()
        drop, _ = common.once(lambda: [view.drop() for view in installed])
    wanted = graph.edges[graph.edges[:, 0] < views]
    return {
        "benchmark": "install",
        "graph": graph.name,
        "views": views,
        "load": {**load, "rows": len(graph.edges)},
        "first_ms": {"cpu": clock.cpu[0] * 1e3, "wall": clock.wall[0] * 1e3},
        "last_ms": {"cpu": clock.cpu[-1] * 1e3, "wall": clock.wall[-1] * 1e3},
        "later_ms": common.Clock(clock.cpu[1:], clock.wall[1:]).latencies(),
        "drop_all": drop,
        "stats": stats,
        "check": common.compare(answers, wanted[np.lexsort(wanted.T[::-1])]),
    }


if __name__ == "__main__":
    chosen = common.arguments(__doc__, ("graph", ("b", "a", "c", "tiny"))).parse_args()
    common.report(run(chosen), chosen)
