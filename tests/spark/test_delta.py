"""Delta tables in and out: appended rows, a change feed with updates and deletions, a view's changes and contents; the
driver killed before and after it has written.

No Delta runs on Spark 4.3 yet (4.4.0, made for 4.2, fails there with a NoSuchMethodError), so this runs on PySpark 4.2
in a folder of its own.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.spark.clusters import ROOT
from tests.spark.dying import DYING, SHORT_LIVED, run_program
from tests.spark.jars import jars, python_package

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1500)]

DELTA = ("io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0")

PROGRAM = (
    """
import json, os, signal, sys
import everview as ev
from everview.spark import local_session
from everview.spark.rows import writers

work, jars, die = sys.argv[1:4]
spark = local_session("local[2]", **{
    "spark.jars": jars,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "1",
    **json.loads(os.environ["SETTINGS"]),
})
for statement in sys.argv[4:]:
    spark.sql(statement)

def read(name, **options):
    return spark.readStream.format("delta").options(**options).load(f"{work}/{name}")
"""
    + DYING
    + """
with ev.connect(spark, state=work + "/state", shards=2) as db:
    db.source("orders", read("orders"))
    db.source("items", read("items", readChangeFeed="true", startingVersion="0"), mode="changes", key="id")
    v = db.sql('''CREATE VIEW revenue AS SELECT i.name, sum(o.n * i.price) AS total
                  FROM orders o JOIN items i ON i.id = o.item GROUP BY i.name''')
    v.write_to(ev.io.delta(spark, work + "/changes"))
    v.write_to(ev.io.delta(spark, work + "/contents"), mode="snapshot")
    writers.Writer.write = dying(writers.Writer.write)
    db.run(until="caught_up")
for name in ("orders", "items", "changes", "contents"):
    rows = spark.read.format("delta").load(f"{work}/{name}").collect()
    print(json.dumps([name, [row.asDict() for row in rows]]))
spark.stop()
"""
)


def run(work: Path, *statements: str, die: str = "") -> dict[str, list[dict[str, Any]]]:
    """Run statements and then the pipeline; what the tables hold in the end."""
    path = os.pathsep.join([str(python_package("pyspark==4.2.0")), str(ROOT / "src")])
    env = os.environ | {"PYTHONPATH": path, "SETTINGS": json.dumps(SHORT_LIVED)}
    connector = ",".join(map(str, jars(*DELTA, alone=True)))
    given = [statement.format(work=work) for statement in statements]
    done = run_program(PROGRAM, [str(work), connector, die, *given], env, work, 400)
    assert done.returncode == (-signal.SIGKILL if die else 0), done.stderr[-3000:]
    return dict(json.loads(line) for line in done.stdout.splitlines())


def check(tables: dict[str, list[dict[str, Any]]]) -> None:
    items = {row["id"]: row for row in tables["items"]}
    expected: Counter[str] = Counter()
    for order in tables["orders"]:
        if order["item"] in items:
            item = items[order["item"]]
            expected[item["name"]] += order["n"] * item["price"]
    assert {row["name"]: row["total"] for row in tables["contents"]} == expected
    sums: Counter[Any] = Counter()
    for change in tables["changes"]:
        sums[change["name"], change["total"]] += change["_diff"]
    assert {row: n for row, n in sums.items() if n} == dict.fromkeys(expected.items(), 1)
    once = Counter((c["name"], c["total"], c["_time"]) for c in tables["changes"])
    assert set(once.values()) == {1}


def test_tables_in_and_out_with_drivers_killed(tmp_path: Path) -> None:
    feed = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    first = run(
        tmp_path,
        "CREATE TABLE delta.`{work}/orders` (id long, item long, n long) USING delta",
        f"CREATE TABLE delta.`{{work}}/items` (id long, name string, price long) {feed}",
        "INSERT INTO delta.`{work}/items` VALUES (1, 'fig', 3), (2, 'pear', 5), (3, 'plum', 7)",
        "INSERT INTO delta.`{work}/orders` SELECT id, 1 + id % 4, 1 + id % 3 FROM range(40)",
    )
    check(first)
    run(tmp_path, "UPDATE delta.`{work}/items` SET price = price + 1 WHERE id < 3", die="before")
    run(tmp_path, "DELETE FROM delta.`{work}/items` WHERE id = 1", die="after")
    last = run(tmp_path, "INSERT INTO delta.`{work}/orders` SELECT id, 1 + id % 4, 1 FROM range(40, 60)")
    check(last)
    assert len(last["orders"]) == 60 and len(last["items"]) == 2
