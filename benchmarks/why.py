"""What asking costs: `view.why(row)` on reachability in a large graph, and on answers of TPC-H.

A graph of 100,000 nodes and 500,000 edges, one node to start from; rows are chosen at random. The bars are a median
below 1 ms and 99 of 100 below 20 ms for reachability, and 50 ms for each answer of TPC-H (scale factor 0.01). Each
question is a new one: nothing is kept from one to the next, which `kept_bytes` shows. CPU milliseconds of this thread.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common
import numpy as np

import everview as ev

FORMS = {"trees": None, "rounds": "rounds"}


def reach(form: str, nodes: int, edges: int, questions: int) -> dict[str, Any]:
    """Reachability, kept as trees or in rounds."""
    dice = np.random.default_rng(7)
    with ev.connect() as db:
        edge, root = db.table("edge", {"src": int, "dst": int}), db.table("root", {"node": int})

        def step(found: Any) -> ev.Collection:
            return found.join(edge, found.node == edge.src).select(node=edge.dst).union_all(root).distinct()

        plan: Any = FORMS[form]
        view = db.view("reach", root.iterate(step), plan=plan)
        root.insert([(0,)])
        edge.insert(common.columns(("src", "dst"), dice.integers(0, nodes, size=(edges, 2))))
        rows = view.rows()
        before = db.stats()["bytes"]
        view.why(rows[0])
        took, lengths = [], []
        for i in dice.integers(0, len(rows), size=questions).tolist():
            start = time.thread_time()
            found = view.why(rows[i])
            took.append((time.thread_time() - start) * 1000)
            lengths.append(len(found.leaves()))
        return {
            "case": f"reach_{form}",
            "rows": len(rows),
            "median_ms": round(float(np.median(took)), 3),
            "p99_ms": round(float(np.percentile(took, 99)), 3),
            "max_ms": round(max(took), 3),
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
        took = []
        for row in sorted(view.rows(), key=repr)[:questions]:
            view.why(row)
            start = time.thread_time()
            view.why(row)
            took.append((time.thread_time() - start) * 1000)
        if took:
            median, most = round(float(np.median(took)), 3), round(max(took), 3)
            found.append({"case": f"tpch_{name}", "median_ms": median, "max_ms": most})
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
