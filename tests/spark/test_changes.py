"""Spark's `changes()` (4.2 and later), read from a catalog that has change logs: the one of Spark's own tests, which
keeps what it is told in memory. Read once and as a stream, with updates as Spark computes them from deletions and
insertions, and with the images that the catalog has.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.spark.clusters import ROOT
from tests.spark.dying import SHORT_LIVED, run_program
from tests.spark.jars import jars

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CATALOG = "org.apache.spark:spark-catalyst_2.13:4.2.0"  # there is none of 4.3 yet; this one runs there

PROGRAM = """
import json, sys
import everview as ev
from everview.spark import local_session

work, jar, settings = sys.argv[1:]
catalogs = "org.apache.spark.sql.connector.catalog"
spark = local_session("local[2]", **json.loads(settings), **{
    "spark.jars": jar, "spark.sql.catalog.cat": catalogs + ".InMemoryChangelogCatalog"})
jvm, scala = spark._jvm, spark._jvm.scala.jdk.javaapi.CollectionConverters.asScala
catalog = spark._jsparkSession.sessionState().catalogManager().catalog("cat")

def table(name, row_version=False):
    \"\"\"Make one; with versions of rows, Spark makes updates of deletions and insertions.\"\"\"
    spark.sql(f"CREATE TABLE cat.{name} (id BIGINT, name STRING)")
    nobody = spark.sparkContext._gateway.new_array(jvm.java.lang.String, 0)
    ident = jvm.org.apache.spark.sql.connector.catalog.Identifier.of(nobody, name)
    if row_version:
        keys = jvm.java.util.ArrayList()
        keys.add("id")
        about = jvm.org.apache.spark.sql.connector.catalog.ChangelogProperties(
            False, False, True, scala(keys).toSeq(), scala(jvm.java.util.ArrayList()).toSeq(),
            jvm.scala.Option.apply("_commit_version"), False)
        catalog.setChangelogProperties(ident, about)
    return ident

def add(ident, *rows):
    frame = spark.createDataFrame(list(rows), "id long, name string, _change_type string, _commit_version long")
    frame = frame.coalesce(1).selectExpr("*", "timestamp_seconds(_commit_version) AS _commit_timestamp")
    found = jvm.java.util.ArrayList()
    for row in frame._jdf.queryExecution().executedPlan().executeCollect():
        found.add(row)
    catalog.addChangeRows(ident, scala(found).toSeq())

def say(*what):
    print(json.dumps(what))

item, image = table("item", row_version=True), table("image")
add(item, (1, "fig", "insert", 1), (2, "pear", "insert", 1), (1, "fig", "delete", 2), (1, "plum", "insert", 2))
add(image, (1, "fig", "insert", 1), (1, "plum", "update_postimage", 2), (1, "fig", "update_preimage", 2),
    (2, "pear", "insert", 2))
updates = spark.read.option("startingVersion", "1").option("computeUpdates", "true").changes("cat.item")
say("kinds", sorted(row._change_type for row in updates.collect()))
for round in range(2):
    with ev.connect(spark, state=work + "/state", shards=2) as db:
        once = db.source("once", updates, mode="changes", key="id")
        images = db.source("images", spark.readStream.option("startingVersion", "1").changes("cat.image"),
                           mode="changes", key="id")
        v = db.sql("CREATE VIEW v AS SELECT o.id, o.name AS a, i.name AS b FROM once o JOIN images i ON i.id = o.id")
        rows = db.run(until="caught_up").rows
        say("read", rows)
        say("rows", sorted(v.rows()))
    add(image, (2, "pear", "delete", 3), (1, "kiwi", "update_postimage", 3), (1, "plum", "update_preimage", 3))
spark.stop()
"""


def test_rows_come_as_spark_says_they_changed(tmp_path: Path) -> None:
    [jar] = jars(CATALOG + ":tests", alone=True)
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = run_program(PROGRAM, [str(tmp_path), str(jar), json.dumps(SHORT_LIVED)], env, tmp_path, 300)
    assert done.returncode == 0, done.stderr[-3000:]
    said: list[Any] = [json.loads(line) for line in done.stdout.splitlines()]
    assert said == [
        ["kinds", ["insert", "insert", "update_postimage", "update_preimage"]],
        ["read", {"once": 4, "images": 4}],
        ["rows", [[1, "plum", "plum"], [2, "pear", "pear"]]],
        ["read", {"once": 0, "images": 3}],
        ["rows", [[1, "plum", "kiwi"]]],
    ]
