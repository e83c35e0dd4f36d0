"""Views into Spark: frames, and tables through Spark's writers."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.io import program
from tests.inside import inside

pytestmark = pytest.mark.spark


def test_to_spark(spark: Any) -> None:
    db = ev.connect()
    t = db.table("t", {"x": int, "s": str | None, "at": dt.datetime, "p": tuple[int, str]})
    t.insert([(1, None, dt.datetime(2024, 1, 2, 3, 4, 5), (1, "a"))])
    frame = db.view("v", t.distinct()).to_spark(spark)
    assert frame.dtypes == [("x", "bigint"), ("s", "string"), ("at", "timestamp"), ("p", "struct<f0:bigint,f1:string>")]
    [row] = frame.collect()
    assert (row.x, row.s, row.p.f1) == (1, None, "a")
    assert frame.filter("at = timestamp'2024-01-02 03:04:05'").count() == 1


def test_to_spark_of_a_session_on_spark(spark: Any, tmp_path: Path) -> None:
    held: Counter[Any] = Counter()

    def take(frame: Any, number: int) -> None:
        for row in frame.collect():
            held[row.k, row.n] += row["_diff"]

    with ev.connect(spark, state=str(tmp_path / "state"), shards=2) as db:
        t = db.table("t", {"k": int})
        v = db.view("v", t.group_by("k").agg(n=ev.count()))
        t.insert([(1,), (1,), (2,)])
        assert sorted(map(tuple, v.to_spark().collect())) == [(1, 2), (2, 1)]
        stream = v.to_spark(changes=True).writeStream.foreachBatch(take)
        for _ in range(2):
            query = stream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
            query.awaitTermination()
            assert +held == Counter(v.rows())
            t.insert([(2,), (3,)])
    with pytest.raises(ev.InputError, match=r"E_TARGET\] a session in memory"):
        ev.connect().sql("CREATE VIEW one AS SELECT 1 AS x").to_spark(changes=True)


def test_jdbc_holds_each_change_once(spark: Any, tmp_path: Path) -> None:
    url = f"jdbc:derby:{tmp_path}/out;create=true"
    db = ev.connect()
    t = db.table("t", {"K": int, "N": int})
    v = db.view("v", t.group_by("K").agg(TOTAL=ev.col.N.sum()))

    def held() -> Counter[Any]:
        found: Counter[Any] = Counter()
        for row in spark.read.jdbc(url, "V").collect():
            found[row["K"], row["TOTAL"]] += row["_diff"]
        return +found

    t.insert([(1, 1), (2, 1)])
    outlet = v.write_to(ev.io.jdbc(spark, url, "V"))
    t.insert([(1, 1)])
    outlet.stop()
    t.insert([(3, 1)])
    assert held() == {(1, 2): 1, (2, 1): 1}
    again = v.write_to(ev.io.jdbc(spark, url, "V"))
    assert again.position == db.time
    assert held() == {(1, 2): 1, (2, 1): 1, (3, 1): 1}
    assert spark.read.jdbc(url, "V").count() == 5, "nothing was written twice"

    wider = db.view("w", t.distinct())
    with pytest.raises(
        ev.InputError, match=r"E_SINK\] jdbc V has columns \(K, TOTAL, _time, _diff\), not \(K, N, _time"
    ):
        wider.write_to(ev.io.jdbc(spark, url, "V"))


def test_jdbc_snapshot(spark: Any, tmp_path: Path) -> None:
    url = f"jdbc:derby:{tmp_path}/out;create=true"
    db = ev.connect()
    t = db.table("t", {"X": int})
    db.view("v", t.distinct()).write_to(ev.io.jdbc(spark, url, "V"), mode="snapshot")
    t.insert([(1,), (2,)])
    t.delete([(1,)])
    assert [tuple(r) for r in spark.read.jdbc(url, "V").collect()] == [(2,)]


def test_a_table_that_cannot_be_read_is_no_empty_one(spark: Any) -> None:
    db = ev.connect()
    v = db.view("v", db.table("t", {"x": int}).distinct())
    with pytest.raises(ev.InputError, match=r"E_SINK\] jdbc V cannot be read: "):
        v.write_to(ev.io.jdbc(spark, "jdbc:nosuch:x", "V"))
    assert inside(db).attached["pipeline"].outlets == []


def test_topics_are_refused_with_a_reason(spark: Any) -> None:
    """What a broker is not needed for; the rest is in test_kafka.py."""
    db = ev.connect()
    v = db.view("v", db.table("t", {"x": int}).distinct())
    with pytest.raises(ev.InputError, match=r"E_MODE\] kafka t: a topic can only be added to"):
        v.write_to(ev.io.kafka(spark, "127.0.0.1:1", "t"), mode="snapshot")
    with pytest.raises(ev.InputError, match=r"E_COLUMN\] kafka t: no column 'X'\n  hint: did you mean 'x'"):
        v.write_to(ev.io.kafka(spark, "127.0.0.1:1", "t", key="X"))
    with pytest.raises(ev.InputError, match=r"E_SINK\] kafka t cannot be read: .*kafka.*\n  hint: Spark needs"):
        v.write_to(ev.io.kafka(spark, "127.0.0.1:1", "t", key="x"))


def test_a_file_names_sources_and_sinks_of_sparks(spark: Any, tmp_path: Path) -> None:
    """Without Python: a stream of a format that only Spark reads, its path relative to the file, into a database."""
    spark.range(5).write.orc(str(tmp_path / "in"))
    url = f"jdbc:derby:{tmp_path}/out;create=true"
    (tmp_path / "p.toml").write_text(f"""
[source.t]
format = "orc"
path = "in"
spark_schema = "id long"
select = ["id % 2 as K", "id as N"]
[view]
v = 'SELECT "K", sum("N") AS "TOTAL" FROM t GROUP BY "K"'
[sink.v]
format = "jdbc"
url = "{url}"
table = "V"
""")
    with ev.connect() as db:
        program.load(tmp_path / "p.toml").build(db, lambda: spark)
        assert db.run(until="caught_up").rows == {"t": 5}
    held = {(row["K"], int(row["TOTAL"]), row["_diff"]) for row in spark.read.jdbc(url, "V").collect()}
    assert held == {(0, 6, 1), (1, 4, 1)}
