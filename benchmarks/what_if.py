"""What a question costs, compared with doing it: `db.what_if(delete=...).changes(view)` beside `table.delete(...)`.

A graph of 100,000 nodes and 500,000 edges; for each of some views alone, random edges (one, or a thousand) are supposed
to go, and others do go: others, because whoever comes second would find all he needs in the processor's caches. For
the same reason many questions and many steps are made in a row, and questions and steps take turns in being first: what
they share is cold for whoever begins. Then the edges go that were asked about, and the answers are compared. The bar is
1.2 times the step.
`ratio` compares the question with the step; both again with their changes listed, as Python rows, is `listed_ratio`.
`least_ms` is a question about a table that no view reads.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, TypeVar

import common
import numpy as np

import everview as ev
from everview import col

T = TypeVar("T")

IN_A_ROW = 20

VIEWS = ("degree", "two_hops", "reach_rounds", "reach_trees")


def collection(name: str, edge: ev.Table, root: ev.Table) -> tuple[ev.Collection, Any]:
    """A view's collection, and how its plan is chosen."""

    def step(found: Any) -> ev.Collection:
        return found.join(edge, found.node == edge.src).select(node=edge.dst).union_all(root).distinct()

    far = edge.alias("far")
    hops = edge.join(far, edge.dst == far.src).select(src=edge.src, dst=far.dst)
    return {
        "degree": (edge.group_by("src").agg(n=ev.count(), far=col.dst.max()), None),
        "two_hops": (hops.group_by("src").agg(n=ev.count()), None),
        "reach_rounds": (root.iterate(step), "rounds"),
        "reach_trees": (root.iterate(step), None),
    }[name]


def measure(name: str, nodes: int, edges: int, changed: int, times: int) -> dict[str, Any]:
    """Median milliseconds of asking and of doing."""
    dice = np.random.default_rng(7)
    with ev.connect() as db:
        edge, root = db.table("edge", {"src": int, "dst": int}), db.table("root", {"node": int})
        made, plan = collection(name, edge, root)
        db.view(name, made, plan=plan)
        root.insert([(0,)])
        rows = np.unique(dice.integers(0, nodes, size=(edges, 2)), axis=0)
        edge.insert(common.columns(("src", "dst"), rows))
        idle = db.table("idle", {"x": int})
        idle.insert([(1,)])
        least = [timed(lambda: db.what_if(delete={"idle": [(1,)]}).changed)[0] for _ in range(50)]
        seconds: dict[str, list[float]] = {"what_if": [], "what_if_listed": [], "step": [], "step_listed": []}
        changes, in_a_row = 0, min(IN_A_ROW, times) if changed == 1 else 1
        for number in range(times // in_a_row):
            chosen = rows[dice.choice(len(rows), 2 * changed * in_a_row, replace=False)]
            given = [_given(some) for some in np.split(chosen, 2 * in_a_row)]
            gone, others = given[:in_a_row], given[in_a_row:]
            steps_first = number % 2 == 1
            if steps_first:
                done, reading = _done(db, name, others)
            asked = [timed(lambda rows=rows: _asked(db, rows)) for rows in gone]  # type: ignore[misc]
            listed = [timed(lambda q=question: q.changes(name)) for _, question in asked]  # type: ignore[misc]
            if not steps_first:
                done, reading = _done(db, name, others)
            for rows_gone, (_, would) in zip(gone, listed, strict=True):
                edge.delete(rows_gone)
                assert sorted(would) == sorted((row, diff) for row, _, diff in db[name].changes(since=db.time - 1))
                edge.insert(rows_gone)
            changes += sum(len(would) for _, would in listed)
            for (ask, _), (list_, _), do, read in zip(asked, listed, done, reading, strict=True):
                for what, took in zip(seconds, (ask, ask + list_, do, do + read), strict=True):
                    seconds[what].append(took)
        ms = {f"{what}_ms": round(median(found) * 1e3, 4) for what, found in seconds.items()}
        return {
            "view": name,
            "rows": changed,
            "changes": changes // len(seconds["step"]),
            **ms,
            "least_ms": round(median(least) * 1e3, 4),
            "ratio": round(ms["what_if_ms"] / ms["step_ms"], 3),
            "listed_ratio": round(ms["what_if_listed_ms"] / ms["step_listed_ms"], 3),
        }


def _done(db: ev.Session, name: str, gone: Sequence[Any]) -> tuple[list[float], list[float]]:
    """The seconds of deleting rows, one after the other, and of reading what that changed. Then they come back."""
    edge: Any = db["edge"]
    done = [timed(lambda rows=rows: edge.delete(rows))[0] for rows in gone]  # type: ignore[misc]
    reading = [timed(lambda: db[name].changes(since=db.time - 1))[0] for _ in gone]
    for rows in gone:
        edge.insert(rows)
    return done, reading


def _given(rows: np.ndarray) -> Any:
    """One row as a tuple, many as columns."""
    return [tuple(rows[0].tolist())] if len(rows) == 1 else common.columns(("src", "dst"), rows)


def _asked(db: ev.Session, gone: Any) -> ev.WhatIf:
    question = db.what_if(delete={"edge": gone})
    assert question.changed
    return question


def timed(do: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds of a call, and its answer."""
    start = time.process_time()
    answer = do()
    return time.process_time() - start, answer


def main() -> None:
    """Print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=500_000)
    parser.add_argument("--times", type=int, default=300)
    parser.add_argument("--quick", action="store_true", help="a small graph, for tests")
    options = parser.parse_args()
    if options.quick:
        options.nodes, options.edges, options.times = 1000, 4000, 10
    found = [
        measure(
            name, options.nodes, options.edges, changed, options.times if changed == 1 else max(1, options.times // 10)
        )
        for name in VIEWS
        for changed in (1, 1000)
    ]
    report = {"benchmark": "what_if", "quick": options.quick, "nodes": options.nodes, "edges": options.edges}
    print(json.dumps({**report, "results": found}))


if __name__ == "__main__":
    main()
