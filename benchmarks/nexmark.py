"""Nexmark's queries kept fresh while people, auctions and bids come in.

The 23 queries q0 to q22 are in `tests/sql/nexmark`, the events are made by `auctions.py`. For each query alone, and for
all of them in one session: the view is made over empty tables, then the events come in transactions of 1,000 (and of
100), each of which ends when the view is up to date.

- *events_per_cpu_s*: events of all three streams by CPU seconds of the process, without making them;
- *transaction_ms*: the median and the 99th percentile, wall time;
- *mb*: what the session holds in the end, tables included;
- *right*: the view at the end equals DuckDB's answer from scratch.

What is not as in Nexmark: q10's files are left out (a sink), q12's time of arrival is a column that the sender stamps,
and q13's table at the side is looked up as it is when the bid comes (PROCTIME()).
"""

from __future__ import annotations

import sys
import time
from decimal import Decimal
from typing import Any

import auctions
import common
import duckdb
import numpy as np

import everview as ev

HERE = common.ROOT / "tests" / "sql" / "nexmark"
SIZES = (1000, 100)


def queries() -> dict[str, tuple[str, str]]:
    """Each query's text, and the one that DuckDB is asked."""
    texts = {path.stem: path.read_text().split("\n----\n") for path in sorted(HERE.glob("q*.sql"))}
    return {name: (given[0], given[-1]) for name, given in texts.items()}


def session(texts: dict[str, str], data: auctions.Data) -> ev.Session:
    db = ev.connect(history=1)
    db.sql((HERE / "schema.sql").read_text())
    db["side_input"].insert(data["side_input"])
    for name, text in texts.items():
        db.sql(f"CREATE VIEW {name} AS {text}")
    return db


def fed(db: ev.Session, data: auctions.Data, size: int) -> dict[str, Any]:
    """All events, in transactions of so many."""
    given = list(auctions.parts(data, size))
    events = sum(table.num_rows for part in given for table in part.values())
    walls = []
    start = time.process_time()
    for part in given:
        began = time.perf_counter()
        with db.transaction():
            for name, rows in part.items():
                if rows.num_rows:
                    db[name].insert(rows)
        walls.append(1000 * (time.perf_counter() - began))
    spent = time.process_time() - start
    return {
        "events": events,
        "events_per_cpu_s": round(events / spent),
        "transaction_ms": {
            "median": round(float(np.median(walls)), 3),
            "p99": round(float(np.quantile(walls, 0.99)), 3),
        },
    }


def bag(rows: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    """Rows to compare: numbers to nine digits."""
    numbers = (int, float, Decimal)
    return sorted(tuple(f"{float(v):.9g}" if isinstance(v, numbers) else str(v) for v in row) for row in rows)


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--events", type=int, default=200_000, help="events of all streams")
    parser.add_argument("--queries", default="", help="only these, with commas between")
    options = parser.parse_args()
    count = 3000 if options.quick else options.events
    data = auctions.tables(count)
    chosen = {n: t for n, t in queries().items() if not options.queries or n in options.queries.split(",")}
    warm = auctions.tables(500)
    fed(session({n: ours for n, (ours, _) in chosen.items()}, warm), warm, 100)  # nothing measured includes a compiler
    oracle = duckdb.connect()
    oracle.execute("SET threads = 1")
    for name, table in data.items():
        oracle.register(name, table)
    report: dict[str, Any] = {"benchmark": "nexmark", "events": count, "queries": []}
    for name, (ours, theirs) in chosen.items():
        found: dict[str, Any] = {"query": name}
        for size in SIZES:
            db = session({name: ours}, data)
            found[f"by_{size}"] = fed(db, data, size)
        found["mb"] = round(db.stats()["bytes"] / 1e6, 1)
        found["right"] = bag(db[name].rows()) == bag(oracle.execute(theirs).fetchall())
        report["queries"].append(found)
        print(found, file=sys.stderr, flush=True)
    db = session({n: ours for n, (ours, _) in chosen.items()}, data)
    report["all"] = {**fed(db, data, SIZES[0]), "mb": round(db.stats()["bytes"] / 1e6, 1)}
    assert all(q["right"] for q in report["queries"]), [q["query"] for q in report["queries"] if not q["right"]]
    common.report(report, options)


if __name__ == "__main__":
    main()
