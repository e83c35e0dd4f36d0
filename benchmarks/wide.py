"""Plan and answer joins of 25, 50 and 100 tables, and a union of 600 queries: CPU seconds of each statement.

The bar is two seconds for planning a join of 100 inputs. How the work grows is asserted by tests/sql/test_wide.py, in
function calls.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import common

import everview as ev


def chain(tables: int) -> str:
    return "SELECT t0.a FROM t0 " + " ".join(f"JOIN t{i} ON t{i}.a = t{i - 1}.b" for i in range(1, tables))


def commas(tables: int) -> str:
    conditions = " AND ".join(f"t{i}.a = t{i - 1}.b" for i in range(1, tables))
    return f"SELECT t0.a FROM {', '.join(f't{i}' for i in range(tables))} WHERE {conditions}"


def left(tables: int) -> str:
    return chain(tables).replace("JOIN", "LEFT JOIN")


def union(queries: int) -> str:
    return " UNION ALL ".join(f"SELECT a FROM t{i % 10} WHERE a = {i % 10}" for i in range(queries))


def timed(db: ev.Session, form: Callable[[int], str], size: int, rows: int) -> dict[str, Any]:
    """Planning alone, then planning and answering; the answer must have `rows` rows."""
    plan, _ = common.once(lambda: db.sql(f"EXPLAIN {form(size)}"))
    answer, found = common.once(lambda: db.sql(form(size)).rows())
    if len(found) != rows:
        raise SystemExit(f"{form.__name__} {size}: {len(found)} rows, not {rows}")
    return {"plan": plan, "answer": answer}


def run(options: argparse.Namespace) -> dict[str, Any]:
    sizes = (5, 10) if options.quick else (25, 50, 100)
    queries = 60 if options.quick else 600
    with common.connect(options) as db:
        for i in range(max(*sizes, 10)):
            db.sql(f"CREATE TABLE t{i} (a int, b int); INSERT INTO t{i} VALUES ({i}, {i + 1}), ({i}, -1)")
        timed(db, chain, 3, 2)
        found: dict[str, Any] = {"benchmark": "wide"}
        for form in (chain, commas, left):
            for size in sizes:
                found[f"{form.__name__} {size}"] = timed(db, form, size, size + 1 if form is left else 2)
        found[f"union {queries}"] = timed(db, union, queries, 2 * queries)
    return found


if __name__ == "__main__":
    chosen = common.arguments(__doc__).parse_args()
    common.report(run(chosen), chosen)
