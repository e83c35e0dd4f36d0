"""Patterns in graphs: triangles in every order of their clauses, 4-cliques and diamonds while a graph grows.

- *orders*: directed triangles, counted: worst-case optimal and join by join, each in the three orders that make
  different intermediate results, load and single changes; of the first edges of the web graph cnr, whose hubs are all
  on one side, so that one order is two orders of magnitude worse than the others, and of graph c, where all are equally
  bad. How far the orders of one plan are apart, and how much dearer the worst and the best binary ones are, is what
  worst-case optimal is about.
- *stream*: who talked to whom on MathOverflow, in the order of time, as an undirected simple graph. 4-cliques and
  diamonds (circles of four) are counted, each occurrence once, while edges come in batches and the oldest leave beyond
  a window. An output change is an occurrence that came or went.
"""

from __future__ import annotations

import argparse
from collections import deque
from typing import Any

import common
import graphs
import igraph
import numpy as np
import peers
import real
import triangles
from scipy import sparse

from everview.expr.language import count
from everview.graph import Graph

GRAPHS = {"cnr": 350_000, "c": 400_000}
"""Graphs, and how many of their first edges are taken: what the worst binary order can hold."""

BATCH = 1000
"""Edges that come in one transaction."""


def orders(options: argparse.Namespace, graph: str, edges: int, changes: int) -> dict[str, Any]:
    """Triangles of a graph by both plans in three orders."""
    rows = graphs.load("tiny" if options.quick else graph).edges[:edges]
    expected = np.array([[peers.triangles(rows, int(rows.max()) + 1)]])
    cases = []
    for plan in ("wco", "binary"):
        for name, body in triangles.ORDERS.items():
            with common.connect(options) as db:
                edge = db.table("edge", {"src": int, "dst": int})
                view = db.datalog(f"triangles(count()) :- {body}.", plan=plan).triangles
                load, _ = common.once(lambda edge=edge: edge.insert(common.columns(("src", "dst"), rows)))  # type: ignore[misc]
                common.compare(common.sorted_rows(view), expected)
                clock = common.Clock()
                for row in rows[:: max(1, len(rows) // changes)][:changes].tolist():
                    for change in (edge.delete, edge.insert):
                        with clock.measured():
                            change([tuple(row)])
                common.compare(common.sorted_rows(view), expected)
                mb = db.stats()["bytes"] / 1e6
                cases.append({"case": f"{plan}, {name}", "load": load, "single": clock.latencies(), "arranged_mb": mb})
    cpu = {plan: [c["load"]["cpu_s"] for c in cases if c["case"].startswith(plan)] for plan in ("wco", "binary")}
    return {
        "graph": graph,
        "edges": len(rows),
        "triangles": int(expected[0, 0]),
        "cases": cases,
        "wco_spread": max(cpu["wco"]) / min(cpu["wco"]),
        "binary_spread": max(cpu["binary"]) / min(cpu["binary"]),
        "worst_binary_times_worst_wco": max(cpu["binary"]) / max(cpu["wco"]),
        "best_binary_times_worst_wco": min(cpu["binary"]) / max(cpu["wco"]),
    }


def contacts(mentions: common.Ints) -> list[tuple[int, int]]:
    """Pairs of people in the order of their first contact, the smaller number first.

    >>> contacts(np.array([[3, 1, 50], [1, 3, 60], [2, 2, 61], [1, 2, 62]]))
    [(1, 3), (1, 2)]
    """
    pairs = np.sort(mentions[:, :2], axis=1)
    return list(dict.fromkeys((a, b) for a, b in pairs.tolist() if a != b))


def stream(options: argparse.Namespace, pattern: str, window: int) -> dict[str, Any]:
    """A pattern's occurrences while edges come and go; both in transactions of their own, so that each only adds or
    only takes away, and the count tells how many.
    """
    name, mentions = ("tiny", graphs.load("tiny").edges) if options.quick else real.mentions(False)
    pairs = contacts(mentions)
    batch = min(BATCH, window // 2)
    held: deque[tuple[int, int]] = deque()
    clock, came, went = common.Clock(), 0, 0
    with common.connect(options, history=1) as db:
        table = db.table("edge", {"src": int, "dst": int})
        total = db.view("total", Graph(table).motif(pattern).agg(n=count()))
        for start in range(0, len(pairs), batch):
            new = pairs[start : start + batch]
            gone = [held.popleft() for _ in range(max(0, len(held) + len(new) - window))]
            held.extend(new)
            for change, rows in ((table.insert, new), (table.delete, gone)):
                before = _count(total)
                with clock.measured():
                    change(rows)
                after = _count(total)
                came, went = came + max(0, after - before), went + max(0, before - after)
        answer = _count(total)
    if answer != occurrences(pattern, np.array(held)):
        raise SystemExit(f"the maintained number of {pattern}s is wrong")
    spent = clock.total()
    return {
        "case": f"{pattern} in {name}",
        "edges": len(pairs),
        "window": window,
        "came": came,
        "went": went,
        "left": answer,
        **spent,
        "changes_per_cpu_s": (came + went) / spent["cpu_s"],
    }


def _count(view: Any) -> int:
    rows = view.rows()
    return int(rows[0][0]) if rows else 0


def occurrences(pattern: str, edges: common.Ints) -> int:
    """How often a pattern occurs in an undirected graph, by other software.

    >>> square = np.array([[1, 2], [2, 3], [3, 4], [1, 4], [1, 3], [2, 4]])
    >>> occurrences("diamond", square), occurrences("4-clique", square)
    (3, 1)
    """
    if pattern == "4-clique":
        return len(igraph.Graph(edges.tolist()).cliques(4, 4))
    nodes = int(edges.max()) + 1
    both = np.concatenate([edges, edges[:, ::-1]])
    matrix = sparse.csr_array((np.ones(len(both), dtype=np.int64), (both[:, 0], both[:, 1])), shape=(nodes, nodes))
    paths = sparse.triu(matrix @ matrix, 1).data  # a circle of four is two paths of two edges, for either diagonal
    return int((paths * (paths - 1) // 2).sum()) // 2


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All of it."""
    quick = options.quick
    if not quick:  # nothing measured includes a compiler
        run(argparse.Namespace(**{**vars(options), "quick": True}))
    found: dict[str, Any] = {"benchmark": "patterns"}
    if options.part in ("all", "orders"):
        chosen = GRAPHS if options.graph == "both" else {options.graph: GRAPHS[options.graph]}
        found["orders"] = [
            orders(options, graph, 2000 if quick else options.edges or edges, 10 if quick else 200)
            for graph, edges in (list(chosen.items())[:1] if quick else chosen.items())
        ]
    if options.part in ("all", "stream"):
        found["stream"] = [
            stream(options, pattern, 300 if quick else window)
            for pattern, window in (("4-clique", 50_000), ("diamond", 5_000))
        ]
    return found


if __name__ == "__main__":
    parser = common.arguments(__doc__, ("part", ("all", "orders", "stream")), ("graph", ("both", *GRAPHS)))
    parser.add_argument("--edges", type=int, default=0, help="so many of the graph's first edges, if not as usual")
    chosen = parser.parse_args()
    common.report(run(chosen), chosen)
