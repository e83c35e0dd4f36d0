"""Files in, files out: orders arrive as JSON, revenue per country leaves as Parquet, and nothing is counted twice.

`pipeline(db)` is all that `everview run examples/pipeline.py` needs. Run as a program, this file plays a small shop: a
corrected order, a line that is no JSON, an order whose customer is only known later.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import everview as ev

WORK = Path(os.environ.get("SHOP") or tempfile.mkdtemp(prefix="everview-shop-"))


def pipeline(db: ev.Session) -> None:
    """Sources, a view, a sink."""
    for folder in ("orders", "customers"):
        (WORK / folder).mkdir(parents=True, exist_ok=True)
    orders = {"id": int, "customer": int, "amount": int}
    db.source("orders", ev.io.json(WORK / "orders"), key="id", schema=orders, bad="quarantine")
    db.source("customers", ev.io.csv(WORK / "customers"), key="id", schema={"id": int, "country": str})
    revenue = db.sql(
        "CREATE VIEW revenue AS SELECT country, sum(amount) AS total "
        "FROM orders JOIN customers ON customers.id = orders.customer GROUP BY country"
    )
    revenue.write_to(ev.io.parquet(WORK / "revenue"))


def arrive(name: str, lines: list[Any]) -> None:
    """A file appears whole: written elsewhere, then renamed into place."""
    (WORK / "unfinished").write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines))
    (WORK / "unfinished").rename(WORK / name)


def main() -> None:
    """Three deliveries, three runs."""
    with ev.connect() as db:
        pipeline(db)
        arrive("customers/1.csv", ["id,country", "1,NO", "2,IT"])
        arrive("orders/1.json", [{"id": 100, "customer": 1, "amount": 50}, {"id": 101, "customer": 3, "amount": 80}])
        print(db.run(until="caught_up"))

        arrive(
            "orders/2.json", [{"id": 100, "customer": 1, "amount": 55}, "oops", {"id": 102, "customer": 2, "amount": 9}]
        )
        run = db.run(until="caught_up")
        print(run)
        assert run.rejected == {"orders": 1}
        assert db["orders_rejected"].rows()[0][2] == "oops"  # type: ignore[union-attr]

        arrive("customers/2.csv", ["id,country", "3,NO"])  # late, and nothing was lost by it
        print(db.run(until="caught_up"))
        revenue = db["revenue"]
        assert sorted(revenue.rows()) == [("IT", 9), ("NO", 135)]  # type: ignore[union-attr]

    with ev.connect() as reader:  # the sink's files are a change feed for anybody
        copy = reader.source("revenue", ev.io.parquet(WORK / "revenue"), mode="changes")
        reader.run(until="caught_up")
        assert sorted(copy.rows()) == [("IT", 9), ("NO", 135)]
        print(sorted(copy.rows()))


if __name__ == "__main__":
    main()
