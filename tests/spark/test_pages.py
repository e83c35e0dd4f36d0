"""What the pages show on Spark runs as it is written: in a process of its own, in a folder that holds what it reads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str) -> list[str]:
    return re.findall(r"^```py\n(.*?)^```$", (ROOT / "docs" / f"{page}.md").read_text(), re.M | re.S)


def ran(folder: Path, program: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_page_on_spark(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 1, "country": "at", "amount": 5}\n')
    (block,) = blocks("spark")
    assert re.search(r"at\|\s+5\|", ran(tmp_path, block))
    assert list((tmp_path / "out").glob("changes-*.parquet"))


BEFORE = """
import everview as ev
db = ev.connect("state")
revenue = db.sql("CREATE TABLE orders (id int PRIMARY KEY, amount float);"
                 "CREATE VIEW revenue AS SELECT count(*) AS n, sum(amount) AS total FROM orders")
db.close()
from everview.spark import local_session
spark = local_session("local[2]")
db = ev.connect(spark, state="state", shards=2)
revenue = db["revenue"]
"""
AFTER = """
db.run(until="caught_up")
print(spark.table("revenue").collect())
for query in spark.streams.active:
    query.stop()
db.close()
orders = spark.readStream.schema("id long, amount double").json("in/more")
"""
LAST = """
print(spark.read.format("everview").option("view", "revenue").load("state").collect())
for query in spark.streams.active:
    query.processAllAvailable()
    query.stop()
with ev.connect("state") as db:
    db.source("orders", ev.io.inbox("state", "orders"), key="id")
    db.run(until="caught_up")
    print(db["revenue"].rows())
"""


def test_the_page_on_pipelines(tmp_path: Path) -> None:
    for name, record in (("orders", '{"id": 1, "amount": 5.0}'), ("more", '{"id": 2, "amount": 1.5}')):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "1.json").write_text(f"{record}\n")
    streams, format = blocks("pipelines")
    streams = streams.replace("revenue.to_spark().create", 'db.run(until="caught_up")\nrevenue.to_spark().create')
    said = ran(tmp_path, "\n".join([BEFORE, streams, AFTER, format, LAST]))
    assert said.count("[Row(n=1, total=5.0)]") == 2, said
    assert said.rstrip().endswith("[(2, 6.5)]"), said
