"""One thread and two: loads, bulk changes and single changes, each in turn in one process.

    arrange, bfs, wcc      the largest graph: its index; hops and components as the library keeps them (trees)
    wcc-rounds             components by a prioritized loop in rounds
    tpch                   TPC-H: tables loaded, six queries installed, line items changed

*load* is one insert of everything (for TPC-H also installing the queries), *bulk* deletes a tenth of the rows in one
transaction and brings it back in the next, *single* is the median of transactions of one row. Each is done `--rounds`
times with either number of threads, in turns; the first round does not count (the system is still handing out memory);
of the others the median does. `gain` is one thread's wall time over two's. `cpus_used` is CPU seconds per wall second:
about 1 says that one thread did the work. `busiest_s` is the CPU time of the thread that had most of it: on a busy
machine one thread's `cpu_s` over two's `busiest_s` (`gain_by_cpu`) is the most that two could win, and wall times say
nothing. Answers of both are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import arrange
import bfs
import common
import graphs
import numpy as np
import tpch
import wcc

import everview as ev

QUERIES = ("q01", "q03", "q05", "q06", "q10", "q12")
SINGLES = 300
Timed = dict[str, dict[str, float]]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All cases, or those that are asked for."""
    cases: dict[str, Callable[[int], tuple[Timed, Any]]] = {}
    graph = graphs.load("tiny" if options.quick else options.graph)
    makers = {
        "arrange": partial(arrange.workload, "src"),
        "bfs": partial(bfs.workload, "fixpoint"),
        "wcc": partial(wcc.workload, "library", "iterate"),
        "wcc-rounds": partial(wcc.workload, "prioritized", "iterate"),
    }
    wanted = options.cases.split(",")
    for name, make in makers.items():
        if name in wanted:
            cases[name] = partial(_of_graph, make(graph), options)
    if "tpch" in wanted:
        cases["tpch"] = partial(_of_tpch, tpch.generated(0.01 if options.quick else options.scale), options)
    return {"benchmark": "threads", "graph": graph.name} | {n: _compared(c, options.rounds) for n, c in cases.items()}


def _compared(case: Callable[[int], tuple[Timed, Any]], rounds: int) -> dict[str, Any]:
    """By part: the median run of one thread and of two, and the gain."""
    runs: list[list[Timed]] = []
    for _ in range(rounds):
        (one, answer), (two, other) = case(1), case(2)
        if answer != other:
            raise SystemExit("one thread and two gave different answers")
        runs.append([one, two])
    counted = runs[1:] or runs
    found: dict[str, Any] = {}
    for part in counted[0][0]:
        one, two = (_median([turn[t][part] for turn in counted]) for t in range(2))
        by_cpu = min(turn[0][part]["cpu_s"] for turn in counted) / min(turn[1][part]["busiest_s"] for turn in counted)
        found[part] = {"one": one, "two": two, "gain": one["wall_s"] / two["wall_s"], "gain_by_cpu": by_cpu}
    return found


def _median(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    return sorted(runs, key=lambda run: run["wall_s"])[len(runs) // 2]


def _thread_seconds() -> dict[str, float]:
    """CPU seconds of every thread of the process so far (Linux; elsewhere none is known)."""
    found = {}
    for thread in Path("/proc/self/task").glob("*"):
        with contextlib.suppress(OSError):  # it may end meanwhile
            found[thread.name] = int((thread / "schedstat").read_text().split()[0]) / 1e9
    return found


def _taken(work: Callable[[], Any]) -> dict[str, float]:
    before = _thread_seconds()
    seconds, _ = common.once(work)
    used = [s - before.get(thread, 0.0) for thread, s in _thread_seconds().items()]
    busiest = max(used, default=seconds["cpu_s"])
    return {**seconds, "busiest_s": busiest, "cpus_used": seconds["cpu_s"] / seconds["wall_s"]}


def _singles(table: Any, rows: Sequence[tuple[Any, ...]]) -> dict[str, float]:
    """The middle one of transactions that take a row away and bring it back."""
    taken = []
    for row in rows:
        taken.append(_taken(lambda row=row: table.delete([row])))  # type: ignore[misc]
        taken.append(_taken(lambda row=row: table.insert([row])))  # type: ignore[misc]
    return _median(taken)


def _parts(table: Any, load: Callable[[], Any], some: Any, few: Sequence[tuple[Any, ...]]) -> Timed:
    found = {"load": _taken(load)}
    table.delete(some)
    table.insert(some)  # once for nothing: fresh memory
    found["bulk_delete"] = _taken(lambda: table.delete(some))
    found["bulk_insert"] = _taken(lambda: table.insert(some))
    found["single"] = _singles(table, few)
    return found


def _of_graph(workload: common.Workload, options: argparse.Namespace, threads: int) -> tuple[Timed, Any]:
    given = common.columns(workload.columns, workload.rows)
    draw = np.random.default_rng(3)
    places = draw.choice(len(workload.rows), max(len(workload.rows) // 10, 1), replace=False)
    some = common.columns(workload.columns, workload.rows[places])
    few = [tuple(row) for row in workload.rows[places[:SINGLES]].tolist()]
    with common.connect(options, threads=threads) as db:
        table, answer = workload.build(db)
        found = _parts(table, lambda: table.insert(given), some, few)
        rows = answer().tobytes()
    gc.collect()
    return found, rows


def _of_tpch(data: tpch.Data, options: argparse.Namespace, threads: int) -> tuple[Timed, Any]:
    names = [n for n in tpch.TABLES if n not in ("part", "partsupp")]
    texts = {name: text for name, text in tpch.queries().items() if name in QUERIES}
    items = data["lineitem"]
    some = items.take(np.random.default_rng(3).choice(len(items), len(items) // 10, replace=False))
    with ev.connect(history=1, threads=threads) as db:
        tpch.declare(db)

        def load() -> None:
            for name in names:
                tpch.table(db, name).insert(data[name])
            for name, text in texts.items():
                db.sql(f"CREATE VIEW {name} AS {text}")

        few = [tuple(row.values()) for row in some.slice(0, SINGLES).to_pylist()]
        found = _parts(tpch.table(db, "lineitem"), load, some, few)
        rows = {name: tpch.bag(db[name].rows()) for name in texts}
    gc.collect()
    return found, rows


if __name__ == "__main__":
    parser = common.arguments(__doc__, ("graph", ("b", "a", "c", "tiny")))
    parser.add_argument("--cases", default="arrange,bfs,wcc,wcc-rounds,tpch", help="which, with commas between")
    parser.add_argument("--rounds", type=int, default=3, help="of each")
    parser.add_argument("--scale", type=float, default=0.2, help="of TPC-H")
    chosen = parser.parse_args()
    common.report(run(chosen), chosen)
