"""On real servers of S3 and HDFS: a session on Spark whose state and stream checkpoint (on S3 also its sink) are there,
its driver killed between a commit and its sink, and opened again; and `format("everview")` for state in a bucket.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import everview as ev
from tests.spark.clusters import ROOT
from tests.spark.dying import DYING, SHORT_LIVED, run_program
from tests.spark.jars import AWS_SDK, S3A, jars
from tests.store.servers import hdfs, s3

__all__ = ["hdfs", "s3"]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

PROGRAM = (
    """
import json, os, signal, sys
import everview as ev
from everview.io import file_sink
from everview.spark import local_session

where, out, folder, die = sys.argv[1:5]
spark = local_session("local[2]", **json.loads(sys.argv[5]))
"""
    + DYING
    + """
file_sink.FileSink.write = dying(file_sink.FileSink.write)
with ev.connect(spark, state=where + "/state", shards=2) as db:
    try:
        ev.connect(spark, state=where + "/state")
    except ev.StoreError as error:
        print(error.code)
    db.source("t", spark.readStream.schema("k string, n long").json(folder))
    db.source("large", spark.range(600_000).selectExpr("concat('k', id % 7) AS k", "id AS n"))
    v = db.sql('''CREATE VIEW v AS SELECT k, count(*) AS c, sum(n) AS n
                  FROM (SELECT * FROM t UNION ALL SELECT * FROM large) GROUP BY k''')
    v.write_to(ev.io.parquet(out))
    db.run(until="caught_up")
spark.stop()
"""
)


def run(where: str, out: str, folder: Path, die: str, settings: dict[str, str]) -> list[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = run_program(PROGRAM, [where, out, str(folder), die, json.dumps(settings | SHORT_LIVED)], env, folder, 300)
    assert done.returncode == (-signal.SIGKILL if die else 0), done.stderr[-3000:]
    return done.stdout.split()


def expected(files: int) -> list[tuple[str, int, int]]:
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for k, n in [*((f"k{i % 3}", i) for i in range(files)), *((f"k{i % 7}", i) for i in range(600_000))]:
        counts[k] += 1
        sums[k] += n
    return sorted((k, counts[k], sums[k]) for k in counts)


def drivers_killed(where: str, out: str, folder: Path, **settings: str) -> None:
    for number, die in enumerate(["", "before", "after", ""]):
        (folder / f"{number}.json").write_text(json.dumps({"k": f"k{number % 3}", "n": number}) + "\n")
        assert run(where, out, folder, die, settings)[:1] == ["E_LOCKED"]
    with ev.connect(f"{where}/state", read_only=True) as db:
        assert sorted(db["v"].rows()) == expected(4)
    filesystem, root = fs.FileSystem.from_uri(out)
    held: Counter[Any] = Counter()
    for file in filesystem.get_file_info(fs.FileSelector(root)):
        if file.base_name.startswith("changes-"):
            for row in pq.read_table(file.path, filesystem=filesystem).to_pylist():
                held[row["k"], row["c"], row["n"]] += row["_diff"]
    assert sorted(row for row, n in held.items() if n) == expected(4) and set(held.values()) <= {0, 1}


@pytest.mark.slow
@pytest.mark.long
def test_state_checkpoint_and_sink_in_a_bucket_with_drivers_killed(s3: str, tmp_path: Path) -> None:
    settings = {
        "spark.jars": ",".join(map(str, [*jars(*S3A, alone=True), *jars(*AWS_SDK)])),
        "spark.hadoop.fs.s3a.endpoint": os.environ["AWS_ENDPOINT_URL"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    drivers_killed(f"{s3}/spark", f"{s3}/spark/out", tmp_path, **settings)


@pytest.mark.slow
@pytest.mark.long
def test_state_and_checkpoint_on_hdfs_with_drivers_killed(hdfs: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    drivers_killed(f"{hdfs}/spark", f"{tmp_path}/out", tmp_path / "in")


FORMAT = """
import json, sys
from collections import Counter
from pathlib import Path
import everview as ev
from everview.spark import local_session, register

state, work = sys.argv[1] + "/state", Path(sys.argv[2])
spark = local_session("local[2]", **json.loads(sys.argv[3]))
register(spark)
held = Counter()

def take(frame, number):
    for row in frame.collect():
        held[row.k, row.n] += row["_diff"]

def write():
    stream = spark.readStream.schema("k string, n long").json(str(work / "in"))
    query = stream.writeStream.format("everview").option("table", "t").option("checkpointLocation", str(work / "c"))
    query.trigger(availableNow=True).start(state).awaitTermination()

with ev.connect(state) as db:
    t = db.source("t", ev.io.inbox(state, "t"), schema={"k": str, "n": int})
    v = db.view("v", t.group_by("k").agg(n=ev.col.n.sum()))
    write()
    assert db.run(until="caught_up").rows == {"t": 2}
    for note in (work / "c" / "commits").glob("*0*"):  # Spark died before it noted batch 0: it comes again
        note.unlink()
    write()
    spark.createDataFrame([("b", 7)], "k string, n long").write.format("everview").mode("append").option(
        "table", "t").save(state)
    assert db.run(until="caught_up").rows == {"t": 1}
    wanted = sorted(v.rows())
    assert wanted == [("a", 1), ("b", 9)], wanted
reader = spark.read.format("everview").option("view", "v")
assert sorted(map(tuple, reader.load(state).collect())) == wanted
assert sorted(map(tuple, reader.option("asOf", "1").load(state).collect())) == [("a", 1), ("b", 2)]
stream = spark.readStream.format("everview").option("view", "v").option("changes", "true").load(state)
query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(work / "r"))
query.trigger(availableNow=True).start().awaitTermination()
assert sorted(+held) == wanted, held
spark.stop()
"""


def test_the_format_reads_and_feeds_state_in_a_bucket(s3: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"k": "a", "n": 1}\n{"k": "b", "n": 2}\n')
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = run_program(FORMAT, [f"{s3}/format", str(tmp_path), json.dumps(SHORT_LIVED)], env, tmp_path, 300)
    assert done.returncode == 0, done.stderr[-3000:]
