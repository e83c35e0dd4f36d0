"""Ten queries that need the same index: over one table (shared), and over a copy of the table each (not shared)."""

from __future__ import annotations

import argparse
from typing import Any

import common
import graphs

QUERIES = 10


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Two-hop look-ups, everything but the sharing being equal; each way in this process, sharing first."""
    graph = graphs.load("tiny" if options.quick else options.graph)
    found: dict[str, Any] = {"benchmark": "sharing", "graph": graph.name, "queries": QUERIES}
    found["shared"] = _measure(graph, 1, options)
    found["not_shared"] = _measure(graph, QUERIES, options)
    for what in ("load_cpu_s", "single_cpu_ms_median", "arranged_mb"):
        found[f"{what}_times"] = found["not_shared"][what] / found["shared"][what]
    return found


def _measure(graph: graphs.Graph, copies: int, options: argparse.Namespace) -> dict[str, Any]:
    sizes = common.QUICK if options.quick else common.Sizes(singles=300)
    with common.connect(options) as db:
        tables = [db.table(f"edge{i}", {"src": int, "dst": int}) for i in range(copies)]
        asked = db.table("asked", {"client": int, "node": int})
        asked.insert([(client, client * 7) for client in range(QUERIES)])
        for client in range(QUERIES):
            edge = tables[client % copies]
            far = edge.alias("far")
            mine = asked.filter(asked.client == client)
            near = mine.join(edge, mine.node == edge.src)
            two_hops = near.join(far, edge.dst == far.src).select(node=far.dst)
            db.view(f"client{client}", two_hops)
        given = common.columns(("src", "dst"), graph.edges)
        load, _ = common.once(lambda: _insert_all(db, tables, given))
        clock = common.single_changes(db, _Together(tables), graph.stream, 0, sizes.warm_up, sizes.singles)
        stats = db.stats()
        answers = [sorted(db[f"client{client}"].rows()) for client in range(QUERIES)]
    return {
        "load_cpu_s": load["cpu_s"],
        "single_cpu_ms_median": clock.latencies()["cpu_ms_median"],
        "single": clock.latencies(),
        "arranged_mb": sum(a["bytes"] for a in stats["arrangements"]) / 2**20,
        "rows": sum(map(len, answers)),
    }


class _Together:
    """Several tables that take every change together."""

    def __init__(self, tables: list[Any]) -> None:
        self.tables = tables

    def insert(self, rows: Any) -> None:
        """Into all."""
        for table in self.tables:
            table.insert(rows)

    def delete(self, rows: Any) -> None:
        """From all."""
        for table in self.tables:
            table.delete(rows)


def _insert_all(db: Any, tables: list[Any], given: dict[str, common.Ints]) -> None:
    with db.transaction():
        _Together(tables).insert(given)


if __name__ == "__main__":
    chosen = common.arguments(__doc__, ("graph", graphs.NAMES)).parse_args()
    common.report(run(chosen), chosen)
