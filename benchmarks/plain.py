"""Loops as people write them against the graph library's own (bar: 1.2 times), load and changes, CPU seconds.

For each question of `spellings`, every spelling in SQL, rules and collections has a session beside the library's. Both
load the graph in one transaction, several times in new sessions. Then the same single changes and batches of 1,000
happen to both, in turns. Each is done and undone three times, so the same work is measured again; the least of the
times counts, because what others do on the machine only adds to it. Answers are compared at the end. A spelling that is
not finished with the load after `--limit` times the library's is cut off and says so. Prints a line of JSON for each,
then a table: ratios of plain to library.

    python benchmarks/plain.py --graph a --graph c
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import time
from collections.abc import Iterable
from typing import Any

import common
import graphs
import numpy as np
import spellings
import sssp

import everview as ev

TIMES = 3
"""How often each change is done and undone."""

BATCH = 1000


class Side:
    """A session with a view, and the table that changes."""

    def __init__(self, question: str, make: spellings.Spelling, nodes: type | str = int) -> None:
        self.db = ev.connect(history=0)
        weights = {"weight": int} if question == "sssp" else {}
        self.edge = self.db.table("edge", {"src": nodes, "dst": nodes, **weights})
        self.db.table("root", {"node": int}).insert([(0,)])
        self.view = make(self.db)

    def load(self, rows: Any, limit: float | None = None) -> float | None:
        """CPU seconds of the load, by all threads; None if it took longer than the limit."""
        start = time.process_time()
        try:
            with contextlib.nullcontext() if limit is None else self.db.limits(seconds=limit, memory="3GB"):
                self.edge.insert(rows)
        except ev.EverviewError:
            return None
        return time.process_time() - start

    def change(self, gone: Any, come: Any) -> float:
        """CPU seconds of a transaction."""
        start = time.thread_time()
        with self.db.transaction():
            self.edge.insert(come)  # first: a change may replace what another of this batch brought
            self.edge.delete(gone)
        return time.thread_time() - start


def in_turns(sides: tuple[Side, Side], changes: Iterable[tuple[Any, Any]]) -> list[float]:
    """CPU seconds of all changes, there and back, on each side: of each the least of several times."""
    total = [0.0, 0.0]
    for gone, come in changes:
        least = [[float("inf")] * 2 for _ in sides]
        for turn in range(TIMES):
            for back, rows in enumerate(((gone, come), (come, gone))):
                for at in (0, 1) if turn % 2 else (1, 0):
                    least[at][back] = min(least[at][back], sides[at].change(*rows))
        for at, both in enumerate(least):
            total[at] += sum(both)
        for side in sides:  # and on to the next
            side.change(gone, come)
    return total


def loaded(
    question: str,
    makes: tuple[spellings.Spelling, spellings.Spelling],
    rows: Any,
    loads: int,
    limit: float,
    nodes: type | str = int,
) -> tuple[tuple[Side, Side], list[float] | None]:
    """The library's session and another, both loaded, and the least CPU seconds that each took; None if the other one
    was cut off.
    """
    least = [float("inf")] * 2
    for turn in range(loads):
        sides = theirs, ours = Side(question, makes[0], nodes), Side(question, makes[1], nodes)
        for at in (0, 1) if turn % 2 == 0 else (1, 0):
            took = sides[at].load(rows, max(limit * least[0] * 5, 30.0) if at and turn == 0 else None)
            if took is None:
                return sides, None
            least[at] = min(least[at], took)
        if turn < loads - 1:
            theirs.db.close()
            ours.db.close()
    return sides, least


def one(
    question: str,
    name: str,
    graph: graphs.Graph,
    singles: int,
    batches: int,
    loads: int,
    limit: float,
    nodes: type | str,
) -> dict[str, Any]:
    """A spelling beside the library's."""
    names, rows, stream = ("src", "dst"), graph.edges, graph.stream
    if question == "sssp":
        names, rows, stream = sssp.weighted_edges(graph)  # type: ignore[assignment]
    library = spellings.INSTEAD.get((question, name), spellings.LIBRARY[question])
    gc.disable()
    makes = library, spellings.PLAIN[question][name]
    sides, least = loaded(question, makes, common.columns(names, rows), loads, limit, nodes)
    try:
        loops = [line for line in sides[1].view.explain().splitlines() if line.startswith("loop")]
        row: dict[str, Any] = {"question": question, "graph": graph.name, "spelling": name, "loops": loops}
        if least is None:
            return row | {"load_s": None, "single_us": None, "batch_ms": None}
        row["load_s"] = _ratio(*reversed(least))
        olds, news = ([tuple(r) for r in side[:singles].tolist()] for side in (stream.old, stream.new))
        spent = in_turns(sides, (([old], [new]) for old, new in zip(olds, news, strict=True)))
        row["single_us"] = _ratio(*(1e6 * each / (2 * singles) for each in reversed(spent)))
        starts = range(singles, singles + BATCH * batches, BATCH)
        whole = (tuple(common.columns(names, of[i : i + BATCH]) for of in (stream.old, stream.new)) for i in starts)
        spent = in_turns(sides, whole)  # type: ignore[arg-type]
        row["batch_ms"] = batches and _ratio(*(1e3 * each / (2 * batches) for each in reversed(spent)))
        if not np.array_equal(*(common.sorted_rows(side.view) for side in sides)):
            raise SystemExit(f"{question}, {name}: not the library's answer")
        return row
    finally:
        gc.enable()
        for side in sides:
            side.db.close()


def _ratio(plain: float, library: float) -> dict[str, float]:
    return {"plain": round(plain, 4), "library": round(library, 4), "ratio": round(plain / library, 2)}


def compare(
    question: str,
    graph: graphs.Graph,
    only: str | None,
    singles: int,
    batches: int,
    loads: int,
    limit: float,
    nodes: type | str,
) -> list[dict[str, Any]]:
    """All spellings of a question."""
    tiny, rows = graphs.load("tiny"), []
    for name in spellings.PLAIN[question]:
        if only is None or only in name:
            one(question, name, tiny, 2, 0, 1, limit, nodes)  # compiles what the first use compiles
            rows.append(one(question, name, graph, singles, batches, loads, limit, nodes))
            print(json.dumps(rows[-1]), flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Ratios, a line for each spelling."""
    lines = ["| question | graph | spelling | load | single | batch |", "|---|---|---|---|---|---|"]
    for row in rows:
        told = [row[w] for w in ("load_s", "single_us", "batch_ms")]  # 0: there were no batches
        ratios = ["cut off" if each is None else str(each["ratio"]) if each else "-" for each in told]
        lines.append(f"| {row['question']} | {row['graph']} | {row['spelling']} | {' | '.join(ratios)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", action="append", choices=graphs.NAMES, help="may be said several times")
    parser.add_argument("--question", action="append", choices=tuple(spellings.PLAIN))
    parser.add_argument("--only", help="spellings whose name contains this")
    parser.add_argument("--singles", type=int, default=300)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--loads", type=int, default=3)
    parser.add_argument("--limit", type=float, default=20.0, help="times the library's load after which it is cut off")
    parser.add_argument("--nullable", action="store_true", help="columns of edges may be NULL, as in SQL")
    given = parser.parse_args()
    nodes = "int?" if given.nullable else int
    rows = []
    for name in given.graph or ["a"]:
        graph = graphs.load(name)
        for question in given.question or spellings.PLAIN:
            sizes = given.singles, given.batches, given.loads, given.limit
            rows += compare(question, graph, given.only, *sizes, nodes)
    print(table(rows))


if __name__ == "__main__":
    main()
