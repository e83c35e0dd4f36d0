"""When sending less pays: views with and without `plan="frugal"`, in shards of one process.

For each workload and number of shards: bytes that shards sent each other, bytes of state, CPU seconds of all changes,
and the *ratio* that a rule for choosing by itself would look at: rows that the plain view sent for each row that its
frugal twin sent. A load of many rows comes first, then changes one by one, which are what a view lives on.

    pairs      all pairs that are reachable in a sparse and a dense network (liu-2016, section 3.7)
    reach      what one node reaches in a random graph
    cheapest   cheapest paths from one node, kept in rounds: min in a loop
    cities     SELECT DISTINCT of a column with few values
    best       min of each of few groups
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from typing import Any

import common  # noqa: F401 (finds Everview in a checkout)
from provenance import pairs, transit_stub

import everview as ev
from everview import col
from everview.session.core import core_of
from everview.session.local_shards import local_shards

Rows = list[tuple[Any, ...]]


def workloads(scale: int) -> dict[str, tuple[dict[str, type], Any, Rows, Rows]]:
    """For each: columns of the table, how the view is made, rows of the load, rows that come and go one by one."""
    rng = random.Random(5)
    nodes = 100 * scale
    edges = [(rng.randrange(nodes), rng.randrange(nodes), rng.randrange(1, 10)) for _ in range(5 * nodes)]
    visits = [(i, rng.randrange(20), rng.randrange(1000)) for i in range(1000 * scale)]
    sparse, dense = transit_stub(2, 4, 0.1), transit_stub(2, 4, 0.9)
    graph = {"src": int, "dst": int, "w": int}

    def reach(edge: Any) -> Any:
        start = edge.filter(col.src == 0).select(node=col.src).distinct()
        return start.iterate(
            lambda f: f.join(edge, f.node == edge.src).select(node=edge.dst).union_all(start).distinct()
        )

    def cheapest(edge: Any) -> Any:
        start = edge.filter(col.src == 0).select(node=col.src, cost=ev.lit(0)).distinct()

        def step(f: Any) -> Any:
            further = f.join(edge, f.node == edge.src).select(node=edge.dst, cost=f.cost + edge.w)
            return further.union_all(start).group_by("node").agg(cost=col.cost.min())

        return start.iterate(step)

    visit = {"id": int, "city": int, "price": int}
    return {
        "pairs, sparse": ({"src": int, "dst": int}, pairs, list(sparse), rng.sample(sparse, 12)),
        "pairs, dense": ({"src": int, "dst": int}, pairs, list(dense), rng.sample(dense, 12)),
        "reach": (graph, reach, list(edges), rng.sample(sorted(set(edges)), 50)),
        "cheapest": (graph, cheapest, list(edges), rng.sample(sorted(set(edges)), 50)),
        "cities": (visit, lambda v: v.select("city").distinct(), list(visits), rng.sample(visits, 200)),
        "best": (visit, lambda v: v.group_by("city").agg(least=col.price.min()), list(visits), rng.sample(visits, 200)),
    }


def run(workload: tuple[dict[str, type], Any, Rows, Rows], shards: int, plan: Any) -> dict[str, Any]:
    """One view: what the load and the changes cost."""
    columns, made, load, changes = workload
    with local_shards(shards, history=0) as db:
        table = db.table("t", columns)
        view = db.view("v", made(table), plan=plan)
        sent = core_of(db).runtime.cluster.sent  # type: ignore[attr-defined]
        start = time.process_time()
        table.insert(load)
        loaded, took = sent(), time.process_time() - start
        for row in changes:
            table.delete([row])
        for row in changes:
            table.insert([row])
        after = sent()
        return {
            "load_bytes": loaded.bytes,
            "change_bytes": after.bytes - loaded.bytes,
            "rows_sent": sum(after.rows.values()),
            "state_bytes": int(view.stats()["bytes"]),
            "load_s": round(took, 3),
            "changes_s": round(time.process_time() - start - took, 3),
            "rows": sorted(view.rows()),
        }


def compare(scale: int, shards: Sequence[int]) -> list[dict[str, Any]]:
    """Frugal beside plain, as parts of plain."""
    found = []
    for name, workload in workloads(scale).items():
        for number in shards:
            plain, frugal = (run(workload, number, plan) for plan in ("rounds", "frugal"))
            assert plain.pop("rows") == frugal.pop("rows"), name
            parts = {what: round(frugal[what] / plain[what], 2) if plain[what] else None for what in plain}
            ratio = round(plain["rows_sent"] / max(1, frugal["rows_sent"]), 2)
            found.append({"workload": name, "shards": number, "ratio": ratio, **parts})
    return found


def main() -> None:
    """Print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="small tables, for tests")
    options = parser.parse_args()
    found = compare(1, (2,)) if options.quick else compare(options.scale, (2, 4, 12))
    print(json.dumps({"benchmark": "shipping", "quick": options.quick, "results": found}))


if __name__ == "__main__":
    main()
