"""Small changes in this checkout and in another revision, in turns within one run, as ratios of CPU time.

    python benchmarks/turns.py 6676c30
    python benchmarks/turns.py HEAD~5 --only join3,q06 --rounds 30

`against.py` runs whole scripts one after the other, and a step of ten microseconds is then measured at two times. Here
one process of each revision loads the same rows and waits; they make a hundred changes each in turn. The first turn
does not count. Prints JSON: for each kind of change the 5th, 25th and 50th percentile in microseconds, and their
ratios; above 1 this checkout is slower.

- `arrange` and `join3`: one row leaves and one comes, in one explicit transaction (`common.single_changes`);
- `q01` and so on: a row of the largest table that a query of TPC-H reads leaves, and comes back;
- `q06-read` and so on: the same, and the view's changes are read after each change, which is not counted;
- `q01-double`: `q01` with averages of doubles here. Since 6676c30, SQL's avg of decimals has become a numeric with all
  of PostgreSQL's digits; this is the query that 6676c30 computes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
CASES = "arrange,join3,q01,q01-double,q03,q05,q06,q10,q14,q18"
TURN = 100
"""Changes before the other revision has its turn."""

SCALE = 0.05
"""Of TPC-H."""

Times = dict[str, list[int]]
"""CPU nanoseconds of changes, by kind."""


def main(arguments: list[str]) -> int:
    """Compare; returns the number of cases that one of the two could not run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("revision")
    parser.add_argument("--only", default=CASES)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--worker", help="internal: a case to run, by turns, for another process")
    options = parser.parse_args(arguments)
    if options.worker:
        work(options.worker, old=options.revision == "old")
        return 0
    from against import checkout

    other = checkout(options.revision)
    report = {case: compare(case, other, options.rounds) for case in options.only.split(",")}
    about = {"against": options.revision, "rounds": options.rounds, "load_average": os.getloadavg()}
    print(json.dumps({**about, "cases": report}, indent=1))
    return sum("failed" in found for found in report.values())


def compare(case: str, other: Path, rounds: int) -> dict[str, Any]:
    """Percentiles of both, and their ratios."""
    workers = {"old": _started(case, "old", other), "new": _started(case, "new", ROOT)}
    failed = [which for which, worker in workers.items() if _line(worker) != "ready"]
    times: dict[str, dict[str, list[int]]] = {}
    for turn in range(0 if failed else rounds):
        for which, worker in workers.items():
            assert worker.stdin is not None
            worker.stdin.write("turn\n")
            worker.stdin.flush()
            for kind, found in json.loads(_line(worker)).items():
                if turn:
                    times.setdefault(kind, {"old": [], "new": []})[which] += found
    for worker in workers.values():
        worker.communicate()
    return {"failed": failed} if failed else {kind: _ratios(**both) for kind, both in times.items()}


def _started(case: str, which: str, place: Path) -> subprocess.Popen[str]:
    from against import environment

    command = [sys.executable, __file__, which, "--worker", case]
    path = os.pathsep.join([str(place / "src"), str(place / "benchmarks")])
    variables = {**environment(place), "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}  # not this file's neighbours
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=variables, cwd=place, **pipes)


def _line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()


def _ratios(old: list[int], new: list[int]) -> dict[str, Any]:
    before, after = (np.percentile(np.array(times) / 1000, [5, 25, 50]) for times in (old, new))
    return {
        "old": before.round(1).tolist(),
        "new": after.round(1).tolist(),
        "ratio": (after / before).round(2).tolist(),
    }


# ---- a worker, with the package and the benchmarks of its revision


def work(case: str, *, old: bool) -> None:
    """Load, then make changes whenever a line comes."""
    turn = _edges(case) if case in ("arrange", "join3") else _query(case, old)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(turn()), flush=True)


def _edges(case: str) -> Callable[[], Times]:
    import importlib

    import common

    import everview as ev

    module: Any = importlib.import_module(case)
    if case == "arrange":
        import graphs

        workload = module.workload("src", graphs.load("a"))
    else:
        workload = module.workload(*(["sum"] if "aggregate" in module.workload.__code__.co_varnames else []), False)
    db = ev.connect(history=1)
    table, _ = workload.build(db)
    table.insert(common.columns(workload.columns, workload.rows))
    olds, news = ([tuple(row) for row in rows.tolist()] for rows in (workload.stream.old, workload.stream.new))
    changes = iter(zip(olds, news, strict=True))

    def turn() -> Times:
        used, found = time.process_time_ns, []
        for _, (gone, come) in zip(range(TURN), changes, strict=False):
            start = used()
            with db.transaction():
                table.delete([gone])
                table.insert([come])
            found.append(used() - start)
        return {"transaction": found}

    return turn


def _query(case: str, old: bool) -> Callable[[], Times]:
    import tpch

    name, _, variant = case.partition("-")
    text, data = tpch.queries()[name], tpch.generated(SCALE)
    if variant == "double" and not old:
        text = re.sub(r"avg\((\w+)\)", r"avg(CAST(\1 AS double precision))", text)
    db, _ = tpch.session(data, list(tpch.TABLES))
    db.sql(f"CREATE VIEW {name} AS {text}")
    largest = max(tpch.tables_of(text), key=lambda t: data[t].num_rows)
    table, view = tpch.table(db, largest), db[name]
    between = (lambda: view.changes(since=db.time - 1)) if variant == "read" else lambda: None
    some = np.random.default_rng(5).choice(data[largest].num_rows, 10_000, replace=False)
    rows = iter([tuple(row.values()) for row in data[largest].take(some).to_pylist()])

    def turn() -> Times:
        used = time.process_time_ns
        found: Times = {"delete": [], "insert": []}
        for _, row in zip(range(TURN), rows, strict=False):
            start = used()
            table.delete([row])
            found["delete"].append(used() - start)
            between()
            start = used()
            table.insert([row])
            found["insert"].append(used() - start)
            between()
        return found

    return turn


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
