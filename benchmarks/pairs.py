"""Thousands of live distance questions: pairs of nodes, kept by half searches from both ends, while edges change.

    python benchmarks/pairs.py --quick
    python benchmarks/pairs.py --nodes 1000000 --edges 5000000 --questions 10000 --rate 1000 --seconds 20

A random graph; the questions are asked in groups; then each change inserts an edge and deletes the oldest, in one
transaction. First as fast as possible, then at a rate (changes a second): a change is due at its time, and its latency
is counted from then on, so that a slow one makes those behind it wait, too. `alone` are the latencies that the same
changes would have had on a core of their own, from the CPU that each took: on a busy machine the others are mostly
waits for a core. The slowest changes are listed with CPU, page faults and garbage collections. At the end some answers
are compared with searches from scratch. Beside it, on the same graph: what searching from scratch for all live
questions would take.
"""

from __future__ import annotations

import gc
import resource
import time
from typing import Any

import common
import numpy as np

import everview as ev
from everview.graph import Graph
from everview.kernels.frontier import pairs as pairs_k

CHECKED, SLOWEST = 20, 5


def run(options: Any) -> dict[str, Any]:
    """All of it; tiny with `--quick`."""
    sizes = (2_000, 10_000, 50) if options.quick else (options.nodes, options.edges, options.questions)
    nodes, many, questions = sizes
    dice = np.random.default_rng(1)
    edges = dice.integers(0, nodes, (many, 2))
    if options.weights:
        edges = np.column_stack([edges, dice.integers(1, options.weights + 1, many)])
    names = ("src", "dst", "w")[: edges.shape[1]]
    db = ev.connect()
    edge, pair = db.table("edge", dict.fromkeys(names, int)), db.table("pair", {"a": int, "b": int})
    g = Graph(edge, weight="w" if options.weights else None)
    view = db.view("far", g.distance(pair))
    edge.insert(edges)
    before = db.stats()["bytes"]
    asked = dice.integers(0, nodes, (questions, 2))
    begin = time.process_time()
    for group in np.array_split(asked, max(questions // 100, 1)):
        pair.insert(np.ascontiguousarray(group))
    ask = time.process_time() - begin
    taken = db.stats()["bytes"] - before
    news = [tuple(map(int, row)) for row in _drawn(dice, nodes, options, 200_000 if not options.quick else 2_000)]
    olds = [tuple(map(int, row)) for row in edges[: len(news)]]
    changes = _Changes(db, edge, news, olds)
    fast = changes.many(200 if options.quick else 2_000)
    paced = changes.paced(100 if options.quick else options.rate, 1 if options.quick else options.seconds)
    some = [(int(a), int(b)) for a, b in asked[:CHECKED]]
    begin = time.process_time()
    right = set(g.ask(some)) == {row for row in view.rows() if row[:2] in set(some)}
    scratch = (time.process_time() - begin) / len(some) * questions
    operator: Any
    (operator,) = [o for o in db._core.runtime.dataflow.operators() if o.kind == "halves"]
    return {
        "benchmark": "pairs",
        "nodes": nodes,
        "edges": many,
        "weights": options.weights,
        "questions": questions,
        "answered": len(view.rows()),
        "ask_ms_per_question": 1e3 * ask / questions,
        "bytes_per_question": taken / questions,
        "entries_per_question": operator.about(pairs_k.PAIRS_ENTRIES) / questions,
        "change_cpu_us": fast,
        "at_rate_ms": paced,
        "scratch_s_for_all": scratch,
        "right": right,
    }


def _drawn(dice: Any, nodes: int, options: Any, many: int) -> np.ndarray:
    ends = dice.integers(0, nodes, (many, 2))
    return np.column_stack([ends, dice.integers(1, options.weights + 1, many)]) if options.weights else ends


class _Changes:
    """A stream of changes, and how long they take."""

    def __init__(self, db: ev.Session, edge: ev.Table, news: list[Any], olds: list[Any]) -> None:
        self.db, self.edge, self.news, self.olds = db, edge, news, olds
        self.at = 0

    def one(self) -> None:
        with self.db.transaction():
            self.edge.insert([self.news[self.at]])
            self.edge.delete([self.olds[self.at]])
        self.at += 1

    def many(self, count: int) -> dict[str, float]:
        """CPU of each change in microseconds."""
        taken = np.empty(count)
        for i in range(count):
            begin = time.process_time_ns()
            self.one()
            taken[i] = (time.process_time_ns() - begin) / 1e3
        return _spread(taken)

    def paced(self, rate: float, seconds: float) -> dict[str, Any]:
        """Milliseconds from when each change was due to its end, at so many changes a second."""
        count = min(int(rate * seconds), len(self.news) - self.at)
        taken, cpu = np.empty(count), np.empty(count)
        notes = []
        begin = time.perf_counter()
        for i in range(count):
            due = begin + i / rate
            while (left := due - time.perf_counter()) > 0:
                time.sleep(left)
            faults, collected, used = _faults(), _collections(), time.process_time()
            self.one()
            cpu[i] = (time.process_time() - used) * 1e3
            taken[i] = (time.perf_counter() - due) * 1e3
            notes.append((_faults() - faults, _collections() - collected))
        slowest = [
            {
                "change": i,
                "cpu_ms": round(float(cpu[i]), 2),
                "page_faults": notes[i][0],
                "collections": notes[i][1],
            }
            for i in np.argsort(cpu)[: -SLOWEST - 1 : -1].tolist()
        ]
        reached = count / (time.perf_counter() - begin)
        alone = _spread(_alone(cpu, rate))
        return {**_spread(taken), "alone": alone, "slowest": slowest, "rate": rate, "reached": reached}


def _alone(cpu: np.ndarray, rate: float) -> np.ndarray:
    """Latencies in milliseconds of changes that take so much CPU each, one after the other, on a core of their own."""
    latencies, free = np.empty(len(cpu)), 0.0
    for i, used in enumerate(cpu):
        due = i * 1e3 / rate
        free = max(free, due) + used
        latencies[i] = free - due
    return latencies


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats()[1:])


def _spread(taken: np.ndarray) -> dict[str, float]:
    found = {"mean": taken.mean(), "median": np.median(taken), "p99": np.percentile(taken, 99), "worst": taken.max()}
    return {k: round(float(v), 3) for k, v in found.items()}


if __name__ == "__main__":
    parser = common.arguments(__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=500_000)
    parser.add_argument("--questions", type=int, default=1_000)
    parser.add_argument("--weights", type=int, default=0, help="largest weight; 0: hops")
    parser.add_argument("--rate", type=float, default=1_000)
    parser.add_argument("--seconds", type=float, default=10)
    chosen = parser.parse_args()
    common.report(run(chosen), chosen)
