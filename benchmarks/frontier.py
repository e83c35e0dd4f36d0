"""Monotone questions on a stream: the way RisGraph is measured, with trees and with ordinary loops.

    python benchmarks/frontier.py --graph a --what bfs --form trees --pairs 5000
    python benchmarks/frontier.py --graph a --what bfs --form risgraph --risgraph DIRECTORY

90 % of a graph's edges are loaded; then each *pair* inserts the next edge and deletes the oldest. One by one a pair is
a transaction through the Python API, rows as tuples; in batches 1,000 pairs are one, rows as NumPy columns. The root is
the node with the most edges. The last answer is compared with one that a new session computes from what is left.

Times are CPU. RisGraph (built by its `build.sh`, one thread) prints wall times, which mean little on a busy machine: a
library loaded before it answers every question for the time with its CPU time (`CLOCK`). What counts is its incremental
part, less the statistics that it prints there. Reading the clock takes half a microsecond, which is taken off each of
our single pairs (`_clock_ns`).

`--what scc` is strong components, by searches or (`--form rounds`) nested loops; RisGraph has none.

`--turns N` measures batches by trees and RisGraph's stream N times in turns, and prints the ratio of the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common  # noqa: F401  it finds a checkout that is not installed
import graphs
import numpy as np
import real

import everview as ev
from everview.graph import Graph

CLOCK = """
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
int clock_gettime(clockid_t which, struct timespec *at) {
    return syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, at);
}
"""
"""A library in C that turns RisGraph's clock into one of CPU time."""

WHAT = ("bfs", "wcc", "sssp")
OURS = (*WHAT, "scc")
FORMS = ("trees", "rounds", "risgraph")
NAMES = (*graphs.NAMES, "mathoverflow")
PER_BATCH = 1000


def rows_of(name: str) -> np.ndarray:
    """(src, dst, weight) of all edges; weights as RisGraph's example makes them."""
    edges = _mathoverflow() if name == "mathoverflow" else graphs.load(name).edges
    return np.column_stack([edges, edges.sum(axis=1) % 128])


def _mathoverflow() -> np.ndarray:
    """The edges of the real graph; made-up ones under its name would be no measurement."""
    name, rows = real.mentions(quick=False)
    if name != "sx-mathoverflow":
        sys.exit(f"there is no {real.DATA / 'sx-mathoverflow.txt.gz'}: EVERVIEW_DATA names the folder")
    return rows[:, :2]


def root_of(rows: np.ndarray) -> int:
    """The node with the most edges that lead away from it."""
    return int(np.bincount(rows[:, 0]).argmax())


class Stand:
    """A session with one question."""

    def __init__(self, what: str, form: str, rows: np.ndarray, *, root: int = 0, threads: int = 1) -> None:
        self.db = ev.connect(threads=threads)
        self.width = 3 if what == "sssp" else 2
        schema: dict[str, Any] = {"src": int, "dst": int, "weight": int}
        self.edge = self.db.table("edge", dict(list(schema.items())[: self.width]))
        sources = self.db.table("root", {"node": int})
        sources.insert([(root,)])
        g = Graph(self.edge, weight="weight" if what == "sssp" else None)
        asked = {"bfs": g.bfs, "sssp": g.sssp}[what](sources) if what in ("bfs", "sssp") else getattr(g, what)()
        self.view = self.db.view("v", asked, plan="rounds" if form == "rounds" else None)
        start = time.process_time()
        self.edge.insert(np.ascontiguousarray(rows[:, : self.width]))
        self.load = time.process_time() - start

    def pair(self, new: tuple[int, ...], old: tuple[int, ...]) -> None:
        with self.db.transaction():
            self.edge.insert([new])
            self.edge.delete([old])

    def batch(self, new: np.ndarray, old: np.ndarray) -> None:
        with self.db.transaction():
            self.edge.insert(np.ascontiguousarray(new[:, : self.width]))
            self.edge.delete(np.ascontiguousarray(old[:, : self.width]))

    def answer(self) -> list[tuple[Any, ...]]:
        return sorted(self.view.rows())


def measure(name: str, what: str, form: str, pairs: int, batches: int) -> dict[str, Any]:
    """One question on one graph, kept by us."""
    rows = rows_of(name)
    first = len(rows) * 9 // 10
    warm = Stand(what, form, rows[:2000])
    warm.pair(tuple(rows[2000, : warm.width].tolist()), tuple(rows[0, : warm.width].tolist()))
    warm.db.close()
    root = root_of(rows)
    stand = Stand(what, form, rows[:first], root=root)
    width = stand.width
    news, olds = ([tuple(r) for r in part[:, :width].tolist()] for part in (rows[first : first + pairs], rows[:pairs]))
    each = np.empty(pairs)
    clock = _clock_ns()
    for i in range(pairs):
        start = time.process_time_ns()
        stand.pair(news[i], olds[i])
        each[i] = time.process_time_ns() - start - clock
    together = np.empty(batches)
    at = pairs
    for i in range(batches):
        start = time.process_time_ns()
        stand.batch(rows[first + at : first + at + PER_BATCH], rows[at : at + PER_BATCH])
        together[i] = time.process_time_ns() - start
        at += PER_BATCH
    again = Stand(what, form, rows[at : first + at], root=root)
    right = stand.answer() == again.answer()
    return {
        "graph": name,
        "what": what,
        "form": form,
        "load_s": round(stand.load, 3),
        "single_us": _us(each, 1),
        "batch_us_per_pair": _us(together, PER_BATCH),
        "bytes": stand.db.stats()["bytes"],
        "right": right,
    }


def _clock_ns() -> float:
    """What reading the clock adds to a time: the median of many readings of nothing."""
    taken = np.empty(1000)
    for i in range(len(taken)):
        start = time.process_time_ns()
        taken[i] = time.process_time_ns() - start
    return float(np.median(taken))


def _us(ns: np.ndarray, per: int) -> dict[str, float]:
    if not len(ns):
        return {}
    us = ns / 1000 / per
    found = {"mean": us.mean(), "median": np.median(us), "p99": np.percentile(us, 99), "worst": us.max()}
    return {k: round(float(v), 2) for k, v in found.items()}


def risgraph(name: str, what: str, directory: Path) -> dict[str, Any]:
    """The same stream by RisGraph, to the end of the graph's edges."""
    rows = rows_of(name)
    with tempfile.TemporaryDirectory() as scratch:
        file, clock = Path(scratch) / "edges.bin", Path(scratch) / "clock.so"
        rows[:, :2].astype(np.uint64).tofile(file)
        compiler = ["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(clock)]
        subprocess.run(compiler, input=CLOCK, text=True, check=True)
        root = [] if what == "wcc" else [str(root_of(rows))]
        said = subprocess.run(
            [str(directory / f"{what}_inc"), str(file), *root, "0.9"],
            env={**os.environ, "OMP_NUM_THREADS": "1", "LD_PRELOAD": str(clock)},
            capture_output=True,
            text=True,
            check=True,
        )
    text = said.stdout + said.stderr
    seconds = [float(x) for x in re.findall(r"exec[^0-9]*([0-9.]+)", text)][1]
    statistics = re.search(r"^0, (?:visited|average).*?time:\s*([0-9.]+)", text, re.M)
    seconds -= float(statistics[1]) if statistics else 0.0
    pairs = len(rows) - len(rows) * 9 // 10
    return {"graph": name, "what": what, "form": "risgraph", "us_per_pair": round(1e6 * seconds / pairs, 2)}


def in_turns(name: str, what: str, directory: Path, turns: int, batches: int) -> dict[str, Any]:
    """Batches by trees and RisGraph's stream, in turns: the medians and their ratio."""
    ours, theirs, right = [], [], True
    for _ in range(turns):
        theirs.append(risgraph(name, what, directory)["us_per_pair"])
        found = measure(name, what, "trees", 0, batches)
        ours.append(found["batch_us_per_pair"]["mean"])
        right = right and found["right"]
    mine, other = float(np.median(ours)), float(np.median(theirs))
    return {
        "graph": name,
        "what": what,
        "trees_us_per_pair": ours,
        "risgraph_us_per_pair": theirs,
        "times": round(mine / other, 2),
        "right": right,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="a", choices=NAMES)
    parser.add_argument("--what", nargs="*", default=WHAT, choices=OURS)
    parser.add_argument("--form", nargs="*", default=FORMS[:2], choices=FORMS)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--risgraph", type=Path, help="where its build.sh has put it")
    parser.add_argument("--turns", type=int, default=0, help="measure batches against RisGraph, so many times")
    given = parser.parse_args()
    if given.risgraph is None and (given.turns or "risgraph" in given.form):
        sys.exit("--risgraph DIRECTORY says where it is built")
    if "scc" in given.what and (given.turns or "risgraph" in given.form):
        sys.exit("RisGraph has no strong components: leave scc out")
    for what in given.what:
        if given.turns:
            found = in_turns(given.graph, what, given.risgraph, given.turns, given.batches)
            print(json.dumps({**found, "load_average": os.getloadavg()[0]}), flush=True)
            continue
        for form in given.form:
            if form == "risgraph":
                found = risgraph(given.graph, what, given.risgraph)
            else:
                found = measure(given.graph, what, form, given.pairs, given.batches)
            print(json.dumps({**found, "load_average": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    main()
