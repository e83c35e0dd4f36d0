"""One-off questions: the 22 TPC-H queries as SELECTs that nobody keeps, and look-ups by key.

- *queries*: each query at once (`everview.once`), by way of a view that is dropped again, and by DuckDB, one thread:
  CPU milliseconds from the text to Python rows, the best of three. `over_duckdb`: over the sum of DuckDB's.
  Answers are compared, numbers to nine digits.
- *changed*: the same after a tenth of all lineitems has left and come back in ten transactions: tables of many batches.
- *lookup_us*: a row of an indexed view by its key, `view.lookup`, the median of many; and the same as a SELECT.
- *kept_mb*: what the process holds more after all queries than before.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from typing import Any

import common
import numpy as np
import tpch

import everview as ev


def memory_mb() -> float:
    """What the process holds now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def asked(db: ev.Session, text: str, way: str, times: int = 3) -> tuple[float, list[tuple[Any, ...]]]:
    """Least CPU seconds of a question, and its answer."""
    db.sql(f"SET ask = {way}")
    rows: list[tuple[Any, ...]] = []

    def once() -> None:
        rows[:] = db.sql(text).rows()

    return min(tpch.cpu(once) for _ in range(times)), rows


def compared(both: tpch.Loaded, texts: dict[str, str], views: bool) -> dict[str, Any]:
    """All queries in all ways."""
    found: list[dict[str, Any]] = []
    for name, text in texts.items():
        theirs = both.oracle.execute(text).fetchall()
        duck = min(tpch.cpu(lambda t=text: both.oracle.execute(t).fetchall()) for _ in range(3))
        once, rows = asked(both.db, text, "default")
        line = {"query": name, "duckdb_ms": round(1000 * duck, 2), "once_ms": round(1000 * once, 2)}
        if views:
            line["view_ms"] = round(1000 * asked(both.db, text, "'view'", 1)[0], 2)
        line["right"] = tpch.bag(rows) == tpch.bag(theirs)
        found.append(line)
        print(line, file=sys.stderr, flush=True)
    total = {key: round(sum(line[key] for line in found), 1) for key in found[0] if key.endswith("_ms")}
    over = {f"{key[:-3]}_over_duckdb": round(total[key] / total["duckdb_ms"], 2) for key in total if key[:4] != "duck"}
    return {"queries": found, **total, **over, "right": all(line["right"] for line in found)}


def many_batches(both: tpch.Loaded) -> None:
    """A tenth of the largest table leaves and comes back, in ten transactions each."""
    data = both.data["lineitem"]
    chosen = np.random.default_rng(5).choice(data.num_rows, data.num_rows // 10, replace=False)
    for change in (tpch.table(both.db, "lineitem").delete, tpch.table(both.db, "lineitem").insert):
        for piece in np.array_split(chosen, 10):
            change(data.take(piece))


def microseconds(action: Any, keys: list[int]) -> float:
    """The median of single calls."""
    spent = []
    for key in keys:
        start = time.perf_counter()
        action(key)
        spent.append(time.perf_counter() - start)
    return round(1e6 * statistics.median(spent), 1)


def lookups(db: ev.Session) -> dict[str, float]:
    """By key: of a view, and in SQL."""
    db.sql("SET ask = default")
    db.sql(
        "CREATE VIEW spent AS SELECT o_custkey, count(*) AS n, sum(o_totalprice) AS s FROM orders GROUP BY o_custkey"
    )
    view = db["spent"]
    assert isinstance(view, ev.View)
    keys = [row[0] for row in view.head(2000)]
    found = {"lookup_us": microseconds(view.lookup, keys)}
    found["select_us"] = microseconds(
        lambda key: db.sql(f"SELECT n FROM spent WHERE o_custkey = {key}").rows(), keys[:200]
    )
    view.drop()
    return found


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument("--queries", default="", help="only these, with commas between")
    parser.add_argument("--no-views", action="store_true", help="leave out the way by a view")
    options = parser.parse_args()
    scale = 0.01 if options.quick else options.scale
    texts = {n: t for n, t in tpch.queries().items() if not options.queries or n in options.queries.split(",")}
    warm, _ = tpch.session(tpch.generated(0.01), list(tpch.TABLES))
    for text in texts.values():
        warm.sql(text)
    warm.close()
    both = tpch.loaded(tpch.generated(scale))
    before = memory_mb()
    report: dict[str, Any] = {"benchmark": "oneoff", "scale": scale, **compared(both, texts, not options.no_views)}
    report["kept_mb"] = round(memory_mb() - before, 1)
    many_batches(both)
    report["changed"] = compared(both, texts, False)
    report |= lookups(both.db)
    assert report["right"] and report["changed"]["right"]
    common.report(report, options)


if __name__ == "__main__":
    main()
