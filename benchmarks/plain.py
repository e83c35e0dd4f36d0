"""Loops as people write them against the graph library's own (bar: 1.2 times), load and changes, CPU seconds.

For each question of `spellings`, every spelling in SQL, rules and collections runs in turns with the library's: one
session each, the graph loaded in one transaction, then single changes and batches of 1,000. Answers are compared at
the end. A spelling that is not finished with the load after `--limit` times the library's is cut off and says so.
Prints a line of JSON for each, then a table: ratios of plain to library.

    python benchmarks/plain.py --graph a --graph c --repeats 2
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from typing import Any

import common
import graphs
import numpy as np
import spellings
import sssp

import everview as ev

SIZES = {"singles": 300, "batches": 3}


def session(question: str, make: spellings.Spelling) -> tuple[Any, Any, Any]:
    """(session, table that changes, view)."""
    db = ev.connect(history=0)
    weights = {"weight": int} if question == "sssp" else {}
    edge, root = db.table("edge", {"src": int, "dst": int, **weights}), db.table("root", {"node": int})
    root.insert([(0,)])
    return db, edge, make(db)


def one(
    question: str, make: spellings.Spelling, graph: graphs.Graph, limit: float | None
) -> tuple[dict[str, Any], common.Ints | None]:
    """CPU of one spelling, and its answer; no answer if the load took longer than the limit."""
    names, rows, stream = ("src", "dst"), graph.edges, graph.stream
    if question == "sssp":
        names, rows, stream = sssp.weighted_edges(graph)  # type: ignore[assignment]
    db, edge, view = session(question, make)
    found: dict[str, Any] = {"loops": [line for line in view.explain().splitlines() if line.startswith("loop")]}
    try:
        start = time.process_time()
        try:
            with contextlib.nullcontext() if limit is None else db.limits(seconds=limit, memory="3GB"):
                edge.insert(common.columns(names, rows))
        except ev.EverviewError as error:
            return found | {"load_s": None, "why": error.code}, None
        found["load_s"] = time.process_time() - start
        clock = common.single_changes(db, edge, stream, 0, 30, SIZES["singles"])
        found["single_us"] = statistics.mean(clock.cpu) * 1e6
        first = 30 + SIZES["singles"]
        found["batch_ms"] = (
            statistics.mean(common.batches(db, edge, names, stream, first, 1000, SIZES["batches"]).cpu) * 1e3
        )
        return found, common.sorted_rows(view)
    finally:
        db.close()


def compare(question: str, graph: graphs.Graph, only: str | None, repeats: int, limit: float) -> list[dict[str, Any]]:
    """All spellings of a question, each in turns with the library's."""
    tiny = graphs.load("tiny")
    rows = []
    for name, make in spellings.PLAIN[question].items():
        if only is not None and only not in name:
            continue
        library = spellings.INSTEAD.get((question, name), spellings.LIBRARY[question])
        for warm in (library, make):
            one(question, warm, tiny, None)
        ours: list[dict[str, Any]] = []
        theirs: list[dict[str, Any]] = []
        for _ in range(repeats):
            found, expected = one(question, library, graph, None)
            theirs.append(found)
            found, answer = one(question, make, graph, max(limit * theirs[-1]["load_s"] * 5, 30.0))
            ours.append(found)
            if answer is None:
                break
            if expected is None or not np.array_equal(answer, expected):
                raise SystemExit(f"{question}, {name}: not the library's answer")
        row: dict[str, Any] = {"question": question, "graph": graph.name, "spelling": name, "loops": ours[0]["loops"]}
        for what in ("load_s", "single_us", "batch_ms"):
            if ours[-1].get(what) is None:
                row[what] = None
            else:
                a, b = (min(each[what] for each in side) for side in (ours, theirs))
                row[what] = {"plain": round(a, 4), "library": round(b, 4), "ratio": round(a / b, 2)}
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Ratios, a line for each spelling."""
    lines = ["| question | graph | spelling | load | single | batch |", "|---|---|---|---|---|---|"]
    for row in rows:
        ratios = ["cut off" if row[w] is None else str(row[w]["ratio"]) for w in ("load_s", "single_us", "batch_ms")]
        lines.append(f"| {row['question']} | {row['graph']} | {row['spelling']} | {' | '.join(ratios)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", action="append", choices=graphs.NAMES, help="may be said several times")
    parser.add_argument("--question", action="append", choices=tuple(spellings.PLAIN))
    parser.add_argument("--only", help="spellings whose name contains this")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--limit", type=float, default=20.0, help="times the library's load after which it is cut off")
    given = parser.parse_args()
    rows = []
    for name in given.graph or ["a"]:
        graph = graphs.load(name)
        for question in given.question or spellings.PLAIN:
            rows += compare(question, graph, given.only, given.repeats, given.limit)
    print(table(rows))


if __name__ == "__main__":
    main()
