"""The two largest loads with one thread and, where the session takes a number of threads, with two.

`cpus_used` is CPU seconds per wall second: about 1 says that one thread did the work.
"""

from __future__ import annotations

import argparse
import gc
import inspect
from functools import partial
from typing import Any

import arrange
import common
import graphs
import wcc

from everview import connect


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Load index and prioritized components of the largest graph."""
    graph = graphs.load("tiny" if options.quick else options.graph)
    threads = [1, 2] if "threads" in inspect.signature(connect).parameters else [None]
    makers = {"arrange": partial(arrange.workload, "src"), "wcc": partial(wcc.workload, "prioritized", "iterate")}
    found: dict[str, Any] = {"benchmark": "threads", "graph": graph.name}
    for name, make in makers.items():
        found[name] = [_load(make(graph), count, options) for count in threads]
        if len(threads) == 2:
            found[name][1]["gain"] = found[name][0]["wall_s"] / found[name][1]["wall_s"]
    if threads == [None]:
        found["note"] = "sessions have one thread so far"
    return found


def _load(workload: common.Workload, threads: int | None, options: argparse.Namespace) -> dict[str, Any]:
    settings = {} if threads is None else {"threads": threads}
    given = common.columns(workload.columns, workload.rows)
    with common.connect(options, **settings) as db:
        table, _ = workload.build(db)
        seconds, _ = common.once(lambda: table.insert(given))
    gc.collect()
    return {"threads": threads or 1, **seconds, "cpus_used": seconds["cpu_s"] / seconds["wall_s"]}


if __name__ == "__main__":
    chosen = common.arguments(__doc__, ("graph", ("b", "a", "c", "tiny"))).parse_args()
    common.report(run(chosen), chosen)
