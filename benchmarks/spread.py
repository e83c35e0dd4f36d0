"""Steps on spread state: a gang of two tasks next to one task that has all shards, on the same Spark, in turns.

    python benchmarks/spread.py [--master local[2]] [--rows 300000] [--turns 2] [--part steps] [--strings 3000000]

*steps*: two tables joined, totals by group, and a search of 20 rounds from one node; both ways run in turns, with a
directory each. Wall milliseconds (several processes work): the median of steps of one change, of searches in which one
edge comes or goes, and rows per second of steps of 100,000 changes. *maps*: bytes of the state's files that each worker
maps, as a share of all that workers map together: no member should map more than its part.

*strings*: what new strings cost the driver's own memory, and a worker's: neither should hold the dictionary. Memory is
what is theirs (`RssAnon`), in MB after each tenth; bytes per string are the slope over the second half.

One JSON object. Ratios of one run can be compared; times depend on who else uses the machine (`load average`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from spark_state import descendants, describe

import everview as ev
from everview import col, count
from everview.spark import local_session

CHAIN = 20


def milliseconds(what: Callable[[int], Any], times: int) -> list[float]:
    took = []
    for number in range(times):
        start = time.perf_counter()
        what(number)
        took.append(1e3 * (time.perf_counter() - start))
    return took


def maps(state: str) -> list[float]:
    """The share of each worker that maps files of a directory."""
    sizes = []
    for pid in descendants(os.getpid()):
        try:
            lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        except OSError:
            continue
        mapped = [line.split()[0].split("-") for line in lines if state in line]
        size = sum(int(end, 16) - int(begin, 16) for begin, end in mapped)
        if size and pid != os.getpid():
            sizes.append(size)
    return [round(size / sum(sizes), 3) for size in sorted(sizes)]


class Way:
    """One way to run steps: a session of its own, and what was measured."""

    def __init__(self, spark: Any, rows: int, alone_rows: int | None) -> None:
        self.state = tempfile.mkdtemp(prefix="everview-")
        self.found: dict[str, list[float]] = {"change": [], "search": [], "rows/s": []}
        self._rows = rows
        self._draw = np.random.default_rng(1)
        self.db = ev.connect(spark, state=self.state, shards=2, alone_rows=alone_rows, linger=2.0)
        t, u = self.db.table("t", {"k": int, "x": int}), self.db.table("u", {"k": int, "g": int})
        self.db.view("totals", t.join(u, t.k == u.k).group_by("g").agg(n=count(), s=col.x.sum()))
        edge, root = self.db.table("edge", {"a": int, "b": int}), self.db.table("root", {"n": int})
        start = root.select(n=root.n)

        def further(v: Any) -> Any:
            return v.join(edge, v.n == edge.a).select(n=edge.b).union_all(start).distinct()

        self.db.view("reached", start.iterate(further))
        u.insert({"k": np.arange(rows), "g": np.arange(rows) % 200})
        t.insert({"k": self._draw.integers(0, rows, rows), "x": self._draw.integers(0, 1000, rows)})
        root.insert([(0,)])
        edge.insert([(n, n + 1) for n in range(1, CHAIN)])

    def turn(self) -> None:
        """Measure everything once more."""
        t, edge = self.db["t"], self.db["edge"]
        t.insert([(0, 0)])  # its tasks are there from here on
        self.found["change"] += milliseconds(lambda i: t.insert([(7 * i % self._rows, i)]), 150)
        self.found["search"] += milliseconds(lambda i: (edge.delete if i % 2 else edge.insert)([(0, 1)]), 60)
        for _ in range(3):
            keys, values = self._draw.integers(0, self._rows, 100_000), self._draw.integers(0, 1000, 100_000)
            took = milliseconds(lambda _: t.insert({"k": keys, "x": values}), 1)  # noqa: B023
            self.found["rows/s"].append(1e8 / took[0])
        self.where, self.maps = self.db.stats()["steps"], maps(self.state)

    def result(self) -> dict[str, Any]:
        times = {name: statistics.median(took) for name, took in self.found.items()}
        best = {f"best {name}": min(self.found[name]) for name in ("change", "search")}
        assert sum(n for _, n, _ in self.db["totals"].rows()) == len(self.db["t"])
        return {k: round(v, 2) for k, v in (times | best).items()} | {"where": self.where, "maps": self.maps}

    def close(self) -> None:
        self.db.close()
        shutil.rmtree(self.state)


def steps(spark: Any, rows: int, turns: int) -> dict[str, Any]:
    """One task and a gang, in turns."""
    ways = {"one task": Way(spark, rows, None), "gang": Way(spark, rows, 0)}
    for _ in range(turns):
        for way in ways.values():
            way.turn()
    found: dict[str, Any] = {name: way.result() for name, way in ways.items()}
    for way in ways.values():
        way.close()
    one, gang = found["one task"], found["gang"]
    found["gang / one task"] = {n: round(gang[n] / one[n], 2) for n in ("change", "search", "rows/s", "best change")}
    return found


def strings(spark: Any, total: int, each: int = 200_000) -> dict[str, Any]:
    """New strings: the memory of the driver and of the largest worker while they come."""
    state = tempfile.mkdtemp(prefix="everview-")
    seen: list[dict[str, float]] = []
    with ev.connect(spark, state=state, shards=2, alone_rows=0, linger=5.0) as db:
        t = db.table("t", {"k": int, "name": str})
        for start in range(0, total, each):
            names = [f"a name that is new: {i:10d}" for i in range(start, start + each)]
            t.insert(pa.table({"k": np.arange(start, start + each), "name": names}))
            if (start + each) % (total // 10) == 0:
                seen.append(_memory())
        shown = db.view("some", t.filter(col.k < 3)).rows()
        assert sorted(shown) == [(i, f"a name that is new: {i:10d}") for i in range(3)], shown
        held = len(db._core.interner), db._core.interner.resident
    shutil.rmtree(state)
    found: dict[str, Any] = {"strings": total, "known to the driver, held by it": held}
    for kind in ("driver", "python worker"):
        megabytes = [one[kind] for one in seen]
        slope = (megabytes[-1] - megabytes[4]) * 2**20 / (total // 2)
        found[kind] = {"MB after each tenth": [round(m) for m in megabytes], "bytes per string": round(slope, 1)}
    return found


def _memory() -> dict[str, float]:
    found: dict[str, float] = {}
    for pid in descendants(os.getpid()):
        kind, resident = describe(pid)
        found[kind] = max(found.get(kind, 0.0), resident)
    return found


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--master", default="local[2]")
    options.add_argument("--rows", type=int, default=300_000)
    options.add_argument("--turns", type=int, default=2)
    options.add_argument("--part", default="all")
    options.add_argument("--strings", type=int, default=3_000_000)
    given = options.parse_args()
    spark = local_session(given.master)
    result: dict[str, Any] = {"benchmark": "spread", "master": given.master, "load average": os.getloadavg()[0]}
    if given.part in ("all", "steps"):
        result["steps"] = steps(spark, given.rows, given.turns)
    if given.part in ("all", "strings"):
        result["strings"] = strings(spark, given.strings)
    print(json.dumps(result, indent=2))
    spark.stop()


if __name__ == "__main__":
    main()
