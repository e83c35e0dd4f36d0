"""The two largest loads with one thread and with two.

Each is loaded four times with either, in turn, in one process; the first time does not count (the system is still
handing out memory), of the others the one with the median wall time does. `cpus_used` is CPU seconds per wall second:
about 1 says that one thread did the work. On a busy machine give the process priority (`chrt -r 1`), or the gain is
that of others.
"""

from __future__ import annotations

import argparse
import gc
from functools import partial
from typing import Any

import arrange
import common
import graphs
import wcc


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Load index and prioritized components of the largest graph."""
    graph = graphs.load("tiny" if options.quick else options.graph)
    makers = {"arrange": partial(arrange.workload, "src"), "wcc": partial(wcc.workload, "prioritized", "iterate")}
    found: dict[str, Any] = {"benchmark": "threads", "graph": graph.name}
    for name, make in makers.items():
        workload = make(graph)
        runs = [[_load(workload, threads, options) for threads in (1, 2)] for _ in range(4)][1:]
        one, two = (sorted(times, key=lambda run: run["wall_s"])[1] for times in zip(*runs, strict=True))
        two["gain"] = one["wall_s"] / two["wall_s"]
        found[name] = [one, two]
    return found


def _load(workload: common.Workload, threads: int, options: argparse.Namespace) -> dict[str, Any]:
    given = common.columns(workload.columns, workload.rows)
    with common.connect(options, threads=threads) as db:
        table, _ = workload.build(db)
        seconds, _ = common.once(lambda: table.insert(given))
    gc.collect()
    return {"threads": threads, **seconds, "cpus_used": seconds["cpu_s"] / seconds["wall_s"]}


if __name__ == "__main__":
    chosen = common.arguments(__doc__, ("graph", ("b", "a", "c", "tiny"))).parse_args()
    common.report(run(chosen), chosen)
