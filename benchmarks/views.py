"""What an insert costs in a session with many views, few of which it touches, and what making them costs.

    python benchmarks/views.py [--views 300] [--forms now,like]

Each form is a session of its own. CPU time, so that a busy machine disturbs little; the median of single inserts.
Prints
one JSON object: for each form milliseconds per insert, and per view that was made.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import statistics
import time
from collections.abc import Callable

import everview as ev

FORMS: dict[str, str] = {
    "plain": "SELECT k, x FROM t WHERE k = {i}",
    "groups": "SELECT k, sum(x) AS s FROM t WHERE k = {i} GROUP BY k",
    "groups, other table": "SELECT k, sum(x) AS s FROM w WHERE k = {i} GROUP BY k",
    "join": "SELECT t.k, x, label FROM t JOIN u ON t.k = u.k WHERE t.k = {i}",
    "now, one window": "SELECT k, x FROM t WHERE k = {i} AND ts > now() - INTERVAL '1 hour'",
    "now, as many windows": "SELECT k, x FROM t WHERE k = {i} AND ts > now() - INTERVAL '{j} seconds'",
    "now, other table": "SELECT k, x FROM w WHERE k = {i} AND ts > now() - INTERVAL '{j} seconds'",
    "like": "SELECT k, x FROM t WHERE name LIKE 'n{i}%'",
    "upper": "SELECT k, x FROM t WHERE upper(name) = 'N{i}'",
    "regexp": "SELECT k, x FROM t WHERE name ~ '^n{i}$'",
    "subscribed": "SELECT k, x FROM t WHERE k = {i}",
}
"""Views on t(k, name, ts, x), u(k, label), and w like t, into which nothing is inserted."""

INSERTS = 40


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--views", type=int, default=300)
    parser.add_argument("--forms", default=",".join(FORMS).replace(", ", "; "))
    arguments = parser.parse_args()
    wanted = [form.replace("; ", ", ") for form in arguments.forms.split(",")]
    print(json.dumps({"views": arguments.views, "forms": {f: measured(f, arguments.views) for f in wanted}}, indent=1))


def measured(form: str, views: int) -> dict[str, float]:
    """One form: milliseconds of an insert into t, and of making a view."""
    with ev.connect() as db:
        for table in "tw":
            db.sql(f"CREATE TABLE {table} (k BIGINT, name VARCHAR, ts TIMESTAMP, x BIGINT)")
        db.sql("CREATE TABLE u (k BIGINT, label VARCHAR)")
        db["u"].insert([(i, f"label {i}") for i in range(views)])
        made = _cpu(lambda: _make(db, form, views))
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        rows = [(i % 20, f"n{i}", now, i) for i in range(INSERTS + 5)]
        costs = [_cpu(lambda row=row: db["t"].insert([row])) for row in rows]  # type: ignore[misc]
        return {
            "insert_ms": round(statistics.median(costs[5:]) * 1e3, 3),
            "view_ms": round(made / views * 1e3, 2),
        }


def _make(db: ev.Session, form: str, views: int) -> None:
    for i in range(views):
        db.sql(f"CREATE VIEW v{i} AS {FORMS[form].format(i=i, j=i + 10)}")
        if form == "subscribed":
            db[f"v{i}"].subscribe(lambda batch: None)


def _cpu(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


if __name__ == "__main__":
    main()
