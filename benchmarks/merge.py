"""The knob of merging, from lazy to eager (A1): what loads, single changes, their tail and memory cost at each."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

import arrange
import bfs
import common
import graphs

from everview import connect

EFFORTS = (1, 2, 4, 8, 16, 64)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """An index and a recursive view, at every setting."""
    graph = graphs.load("tiny" if options.quick else options.graph)
    has_knob = "merge_effort" in inspect.signature(connect).parameters
    found: dict[str, Any] = {"benchmark": "merge", "graph": graph.name}
    for workload in (arrange.workload("src", graph), bfs.workload("fixpoint", graph)):
        points = [_point(workload, {"merge_effort": effort}, options) for effort in EFFORTS] if has_knob else []
        found[workload.name] = points or [_point(workload, {}, options)]
    if not has_knob:
        found["note"] = "sessions have no merge_effort so far"
    return found


def _point(workload: common.Workload, settings: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    sizes = common.QUICK if options.quick else common.Sizes(singles=3000)
    with common.connect(options, **settings) as db:
        table, _ = workload.build(db)
        load, _ = common.once(lambda: table.insert(common.columns(workload.columns, workload.rows)))
        clock = common.single_changes(db, table, workload.stream, 0, sizes.warm_up, sizes.singles)
        stats = db.stats()
    kept = {what: sum(a[what] for a in stats["arrangements"]) for what in ("bytes", "batches", "updates")}
    return {**settings, "load_cpu_s": load["cpu_s"], "single": clock.latencies(), **kept}


if __name__ == "__main__":
    chosen = common.arguments(__doc__, ("graph", graphs.NAMES)).parse_args()
    common.report(run(chosen), chosen)
