"""What asking costs: `view.why(row)` on reachability in a large graph, and on answers of TPC-H.

A graph of 100,000 nodes and 500,000 edges, one node to start from; rows are chosen at random. The bars are a median
below 1 ms and 99 of 100 below 20 ms for reachability, and 50 ms for each answer of TPC-H (scale factor 0.01). Each
question is a new one: nothing is kept from one to the next, which `kept_bytes` shows. CPU milliseconds of this thread.

Reachability is asked in the plans that people get (`trees`, `bfs`, `sql`, `rules`) and in rounds, without and with an
index on the edges' ends. `max_ms` is the longest question; `max_own_ms` is without the time of Python's garbage
collector, which looks through all objects of the process now and then, whoever is at work.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common
import numpy as np

import everview as ev
from everview.graph import Graph

SQL = """CREATE VIEW reach AS
WITH RECURSIVE r(node) AS (SELECT node FROM root UNION SELECT edge.dst FROM r JOIN edge ON r.node = edge.src)
SELECT node FROM r"""

FORMS = ("trees", "bfs", "sql", "rules", "rounds", "rounds_indexed")


class Collector:
    """What Python's garbage collector took, of this thread's time."""

    def __init__(self) -> None:
        self.ms = self._begun = 0.0
        gc.callbacks.append(self)

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        now = time.thread_time() * 1000
        if phase == "stop":
            self.ms += now - self._begun
        self._begun = now


COLLECTOR = Collector()


def asked(view: Any, row: Any) -> tuple[Any, float, float]:
    """An answer, its milliseconds, and those without the collector's."""
    collected, start = COLLECTOR.ms, time.thread_time()
    found = view.why(row)
    took = (time.thread_time() - start) * 1000
    return found, took, took - (COLLECTOR.ms - collected)


def reach(form: str, nodes: int, edges: int, questions: int) -> dict[str, Any]:
    """Reachability, in one of the forms."""
    dice = np.random.default_rng(7)
    with ev.connect() as db:
        edge, root = db.table("edge", {"src": int, "dst": int}), db.table("root", {"node": int})

        def step(found: Any) -> ev.Collection:
            return found.join(edge, found.node == edge.src).select(node=edge.dst).union_all(root).distinct()

        view: Any
        if form == "sql":
            view = db.sql(SQL)
        elif form == "rules":
            view = db.datalog("reach(X) :- root(X). reach(Y) :- reach(X), edge(X, Y).").reach
        elif form == "bfs":
            view = db.view("reach", Graph(edge).bfs(root))
        else:
            view = db.view("reach", root.iterate(step), plan="rounds" if form.startswith("rounds") else None)
        if form == "rounds_indexed":
            db.sql("CREATE INDEX ends ON edge (dst)")
        root.insert([(0,)])
        edge.insert(common.columns(("src", "dst"), dice.integers(0, nodes, size=(edges, 2))))
        rows = view.rows()
        before = db.stats()["bytes"]
        view.why(rows[0])
        took, own, lengths = [], [], []
        for i in dice.integers(0, len(rows), size=questions).tolist():
            found, *times = asked(view, rows[i])
            took.append(times[0])
            own.append(times[1])
            lengths.append(len(found.leaves()))
        return {
            "case": f"reach_{form}",
            "rows": len(rows),
            "median_ms": round(float(np.median(took)), 3),
            "p99_ms": round(float(np.percentile(took, 99)), 3),
            "max_ms": round(max(took), 3),
            "max_own_ms": round(max(own), 3),
            "median_leaves": int(np.median(lengths)),
            "kept_bytes": db.stats()["bytes"] - before,
        }


def tpch(questions: int) -> list[dict[str, Any]]:
    """The first answers of each query."""
    sys.path.insert(0, str(common.ROOT))
    from tests.sql import test_tpch

    with tempfile.TemporaryDirectory() as folder:
        data = test_tpch._generated(Path(folder))
    run = test_tpch.Run(data)
    run.change(1, data)
    found = []
    for name in test_tpch.QUERIES:
        view: Any = run.db[name]
        took, own = [], []
        for row in sorted(view.rows(), key=repr)[:questions]:
            view.why(row)
            _, *times = asked(view, row)
            took.append(times[0])
            own.append(times[1])
        if took:
            median, most = round(float(np.median(took)), 3), round(max(took), 3)
            found.append(
                {"case": f"tpch_{name}", "median_ms": median, "max_ms": most, "max_own_ms": round(max(own), 3)}
            )
    run.db.close()
    return found


def main() -> None:
    """Print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=500_000)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="a small graph and few questions")
    options = parser.parse_args()
    if options.quick:
        options.nodes, options.edges, options.questions = 2_000, 10_000, 50
    found = [reach(form, options.nodes, options.edges, options.questions) for form in FORMS]
    if not options.quick:
        found += tpch(5)
    report = {"benchmark": "why", "quick": options.quick, "nodes": options.nodes, "results": found}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
