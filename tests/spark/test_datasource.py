"""`format("everview")`: views read by Spark, tables fed by Spark."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.spark import register

pytestmark = pytest.mark.spark


@pytest.fixture
def reading(spark: Any) -> Any:
    register(spark)
    return spark


def make(state: Path) -> ev.Session:
    db = ev.connect(state)
    t = db.table("t", {"k": str, "n": int | None, "at": dt.datetime})
    db.view("v", t.group_by("k").agg(total=ev.col.n.sum(), last=ev.col.at.max()))
    t.insert([("a", 1, dt.datetime(2024, 1, 1)), ("b", None, dt.datetime(2024, 1, 2))])
    return db


def test_read_contents_and_the_past(reading: Any, tmp_path: Path) -> None:
    with make(tmp_path / "state") as db:
        db["t"].insert([("a", 5, dt.datetime(2024, 1, 3))])
        reader = reading.read.format("everview").option("view", "v")
        now = reader.load(str(tmp_path / "state"))
        assert now.dtypes == [("k", "string"), ("total", "bigint"), ("last", "timestamp")]
        assert {r.k: r.total for r in now.collect()} == {"a": 6, "b": None}
        past = reader.option("asOf", 1).load(str(tmp_path / "state"))
        assert {r.k: r.total for r in past.collect()} == {"a": 1, "b": None}
        table = reading.read.format("everview").option("table", "t").load(str(tmp_path / "state"))
        assert table.count() == 3


def test_a_stream_of_changes_adds_up(reading: Any, tmp_path: Path) -> None:
    held: Counter[Any] = Counter()

    def take(frame: Any, number: int) -> None:
        for row in frame.collect():
            held[row.k, row.total] += row["_diff"]

    with make(tmp_path / "state") as db:
        reader = reading.readStream.format("everview").option("view", "v").option("changes", "true")
        changes = reader.load(str(tmp_path / "state"))
        for n in (5, 6):
            query = changes.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "c"))
            query.trigger(availableNow=True).start().awaitTermination()
            assert +held == Counter((k, total) for k, total, _ in db["v"].rows())
            db["t"].insert([("a", n, dt.datetime(2024, 1, n)), ("c", n, dt.datetime(2024, 1, n))])


def test_written_by_a_stream_taken_by_a_session(reading: Any, tmp_path: Path) -> None:
    state, folder = str(tmp_path / "state"), tmp_path / "in"
    folder.mkdir()
    (folder / "1.json").write_text('{"id": 1, "v": "a"}\n{"id": 2, "v": "b"}\n')

    def write(checkpoint: str = "c") -> None:
        stream = reading.readStream.schema("id long, v string").json(str(folder))
        query = stream.writeStream.format("everview").option("table", "orders")
        query = query.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True)
        query.start(state).awaitTermination()

    with ev.connect(state) as db:
        orders = db.source("orders", ev.io.inbox(state, "orders"), key="id", schema={"id": int, "v": str | None})
        write()
        assert db.run(until="caught_up").rows == {"orders": 2}
        (folder / "2.json").write_text('{"id": 1, "v": "A"}\n')
        write()
        for note in (tmp_path / "c" / "commits").glob("*1*"):  # Spark died before it noted batch 1: it comes again
            note.unlink()
        write()
        reading.createDataFrame([(3, "c")], "id long, v string").write.format("everview").mode("append").option(
            "table", "orders"
        ).save(state)
        assert db.run(until="caught_up").rows == {"orders": 2}
        assert sorted(orders.rows()) == [(1, "A"), (2, "b"), (3, "c")]
        box = tmp_path / "state" / "inbox" / "orders"
        named = [name for file in box.glob("batch-*") for name in json.loads(file.read_text())]
        assert sorted(named) == sorted(f.name for f in box.glob("part-*")), "no parts are left behind"
        write("another")  # its batches have the same numbers
        assert db.run(until="caught_up").rows["orders"] == 3


def test_refusals(reading: Any, tmp_path: Path) -> None:
    with make(tmp_path / "state"):
        state = str(tmp_path / "state")
        with pytest.raises(Exception, match=r"\[E_OPTION\] format\(.everview.\) needs view"):
            reading.read.format("everview").load(state)
        with pytest.raises(Exception, match=r"\[E_NAME\] no table or view is called 'w'"):
            reading.read.format("everview").option("view", "w").load(state)
        with pytest.raises(Exception, match=r"\[E_OPTION\] a table's inbox can only be added to"):
            reading.range(1).write.format("everview").mode("overwrite").option("table", "x").save(state)
