"""Load edges and index them by source (or by target, or both): the floor under everything else."""

from __future__ import annotations

from typing import Any

import common
import graphs
import numpy as np
import peers

ROOT_COLUMNS = ("src", "dst")


def workload(by: str, graph: graphs.Graph) -> common.Workload:
    """Edges indexed by `by`; the answer is what a look-up of every hundredth key gives."""
    keys = ROOT_COLUMNS if by == "both" else (by,)
    asked = range(0, graph.nodes, 100)

    def build(db: Any) -> tuple[Any, Any]:
        edge = db.table("edge", {"src": int, "dst": int})
        views = [db.view(f"by_{key}", edge, index_by=key) for key in keys]

        def answer() -> common.Ints:
            found = [row for view in views for key in asked for row in view.lookup(key)]
            return peers.by_row(np.array(found, dtype=np.int64).reshape(-1, 2))

        return edge, answer

    def expected(rows: common.Ints) -> common.Ints:
        sides = [rows[np.isin(rows[:, ROOT_COLUMNS.index(key)], asked)] for key in keys]
        return peers.by_row(np.concatenate(sides))

    name = "arrange" if by == "src" else f"arrange-{by}"
    rivals = (("differential", "arrange"),) if by == "src" else ()
    return common.Workload(
        name, graph.name, ROOT_COLUMNS, graph.edges, graph.stream, build, expected, rivals=rivals, theirs=peers.by_row
    )


if __name__ == "__main__":
    options = common.arguments(__doc__, ("graph", graphs.NAMES), ("by", ("src", "dst", "both"))).parse_args()
    common.run(lambda graph: workload(options.by, graph), options)
