"""A large DataFrame into a session on Spark: what it costs the driver to have its rows coded by Spark's tasks.

    python benchmarks/spark_frames.py [--rows 5000000] [--texts 200000] [--how there,here] [--kind rows,diffs,...]

Parquet with a column of texts, and a view that groups by it, on local[2] with two shards. *there*: as it is; *here*:
rows are fetched and coded on the driver, as small ones are. Each in a process of its own, after a small load that
starts the workers: wall-clock seconds, the driver's CPU seconds, and how much its peak memory (Python's, not the JVM's)
grew. The kinds: rows that are added; events of a feed without a key; Debezium's envelopes as texts, with a key; rows of
a table with a time to live by their own time, one moment for each thousand.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import everview as ev
from everview.spark import local_session
from everview.spark.rows import frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def peak_megabytes() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM"))


COLUMNS = {"id": int, "who": str, "n": int}
BODY = "to_json(struct('c' as op, struct(id, who, n) as after)) as value"


def records(kind: str, frame: DataFrame) -> DataFrame:
    """Rows as records of a kind."""
    if kind == "ttl":
        return frame.selectExpr("*", "timestamp_seconds(4000000000 + id div 1000) as ts")
    return frame.selectExpr(*{"rows": ("*",), "diffs": ("*", "1L as _diff"), "debezium": (BODY,)}[kind])


def declare(db: ev.Session, name: str, kind: str, frame: DataFrame) -> ev.Table:
    if kind == "ttl":
        db.sql(f"CREATE TABLE {name} (id BIGINT, who TEXT, n BIGINT, ts TIMESTAMP) TTL ts + INTERVAL '1 day'")
        return db.source(name, frame)
    if kind == "rows":
        return db.source(name, frame)
    return db.source(name, frame, mode="changes", schema=COLUMNS, key="id" if kind == "debezium" else None)


def load(how: str, kind: str, rows: int, texts: int, work: str) -> dict[str, Any]:
    """Load a small and then the large DataFrame, one way or the other."""
    spark = local_session("local[2]", **{"spark.driver.memory": "3g"})
    path = f"{work}/in"
    if not os.path.exists(path):
        columns = ("id", f"concat('customer number ', id * 7919 % {texts}) as who", "id % 1000 as n")
        spark.range(rows, numPartitions=8).selectExpr(*columns).write.parquet(path)
    if not os.path.exists(f"{work}/{kind}"):
        records(kind, spark.read.parquet(path)).write.parquet(f"{work}/{kind}")
    frames.FrameRows.large = how == "there"  # type: ignore[assignment, method-assign]
    found: dict[str, Any] = {"kind": kind, "how": how, "rows": rows, "texts": texts}
    with ev.connect(spark, state=f"{work}/state-{kind}-{how}", shards=2) as db:
        small = records(kind, spark.range(1000).selectExpr("id", "cast(id as string) as who", "id as n"))
        for name, frame in (("warm", small), ("large", spark.read.parquet(f"{work}/{kind}"))):
            t = declare(db, name, kind, frame)
            v = db.view(f"by_{name}", t.group_by("who").agg(n=ev.count(), s=t.n.sum()))
            before, cpu, start = peak_megabytes(), time.process_time(), time.perf_counter()
            db.run(until="caught_up")
            found["wall_s"] = round(time.perf_counter() - start, 2)
            found["driver_cpu_s"] = round(time.process_time() - cpu, 2)
            found["driver_grew_mb"] = peak_megabytes() - before
        assert v.lookup("customer number 5")[0][1] == rows // texts
    spark.stop()
    found["load average"] = os.getloadavg()[0]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--texts", type=int, default=200_000)
    parser.add_argument("--how", default="there,here")
    parser.add_argument("--kind", default="rows,diffs,debezium,ttl")
    parser.add_argument("--work", default="")
    given = parser.parse_args()
    if given.work:
        print(json.dumps(load(given.how, given.kind, given.rows, given.texts, given.work)), flush=True)
        return
    with tempfile.TemporaryDirectory(prefix="everview-") as work:
        for kind, how in itertools.product(given.kind.split(","), given.how.split(",")):
            sizes = ["--rows", str(given.rows), "--texts", str(given.texts)]
            options = [*sizes, "--how", how, "--kind", kind, "--work", work]
            subprocess.run([sys.executable, __file__, *options], check=True)


if __name__ == "__main__":
    main()
