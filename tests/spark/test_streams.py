"""Spark DataFrames and streams as sources."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import signal
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import everview as ev
from everview.spark.rows import frames
from everview.spark.rows.streams import Stream
from tests.inside import inside

pytestmark = pytest.mark.spark


def put(folder: Path, name: str, records: list[Any]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"_{name}").write_text("".join(json.dumps(r) + "\n" for r in records))
    (folder / f"_{name}").rename(folder / name)


def test_a_frame_is_taken_once(spark: Any) -> None:
    db = ev.connect()
    t = db.source("t", spark.createDataFrame([(1, "a"), (2, None)], "id long, name string"))
    assert db.run(until="caught_up").rows == {"t": 2}
    assert db.run(until="caught_up").rows == {"t": 0}
    assert sorted(t.rows()) == [(1, "a"), (2, None)]


def test_types_come_through(spark: Any) -> None:
    frame = spark.sql(
        "select 1Y as a, 2.5D as b, true as c, 'x' as d, date'2024-01-02' as e, timestamp'2024-01-02 03:04:05' as f, "
        "1.25BD as g, cast('z' as binary) as h, named_struct('p', 1, 'q', 'r') as i, "
        "timestamp_ntz'2024-01-02 03:04:05' as j"
    )
    db = ev.connect()
    t = db.source("t", frame)
    db.run(until="caught_up")
    assert repr(t.rows()) == (
        "[(1, 2.5, True, 'x', datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3, 4, 5), Decimal('1.25'), "
        "b'z', (1, 'r'), datetime.datetime(2024, 1, 2, 3, 4, 5))]"
    )


def test_snapshots_of_a_frame_that_is_made_anew(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "in", "1.json", [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    db = ev.connect()
    t = db.source("t", lambda: spark.read.json(str(tmp_path / "in")), mode="snapshot", key="k")
    db.run(until="caught_up")
    put(tmp_path / "in", "1.json", [{"k": 1, "v": "A"}, {"k": 3, "v": "c"}])
    db.run(until="caught_up")
    assert sorted(t.rows()) == [(1, "A"), (3, "c")]


def test_jdbc_snapshot(spark: Any, tmp_path: Path) -> None:
    url = f"jdbc:derby:{tmp_path}/db;create=true"
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "K long, V string")
    frame.write.jdbc(url, "T", mode="overwrite")
    db = ev.connect()
    t = db.source("t", spark.read.jdbc(url, "T"), mode="snapshot", key="K")
    db.run(until="caught_up")
    spark.createDataFrame([(3, "c")], "K long, V string").write.jdbc(url, "T", mode="append")
    db.run(until="caught_up")
    assert sorted(t.rows()) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_stream_one_transaction_per_batch(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for i in range(3):
        put(folder, f"{i}.json", [{"x": i}])
    db = ev.connect()
    stream = spark.readStream.schema("x long").option("maxFilesPerTrigger", 1).json(str(folder))
    t = db.source("t", stream)
    assert db.run(until="caught_up").time == 3
    put(folder, "9.json", [{"x": 9}, {"x": 10}])
    assert db.run(until="caught_up").rows == {"t": 2}
    assert sorted(t.rows()) == [(0,), (1,), (2,), (9,), (10,)]


@pytest.mark.parametrize("large", [False, True])
def test_files_of_one_batch_replace_each_other_in_the_order_of_their_times(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """Spark itself reads large files first, whenever they came. Rows of a large batch are put in order by Spark."""
    if large:
        monkeypatch.setattr(frames, "LARGE_BYTES", 0)
    arrivals = {"b": 1, "c": 2, "a": 3, "d": 3}  # the names say something else, but for the last two
    (tmp_path / "in").mkdir()
    for name, moment in arrivals.items():
        values = [f"{name}{i}" for i in range(3)]
        rows = [{"k": k, "v": v} for k in range(5) for v in values] + [{"k": name, "v": "own"}] * (40 * moment)
        path = tmp_path / "in" / f"{name}.json"
        path.write_text("".join(json.dumps({**row, "k": str(row["k"])}) + "\n" for row in rows))
        os.utime(path, (1_700_000_000 + moment, 1_700_000_000 + moment))
    with ev.connect(spark, state=str(tmp_path / "state"), shards=2) as db:
        stream = spark.readStream.schema("k string, v string").json(str(tmp_path / "in"))
        db.source("t", stream.where("v is not null").select("k", "v"), key="k")
        db.run(until="caught_up")
        assert db.time == 1, "all files are one batch"
        assert dict(db["t"].rows()) == {**dict.fromkeys("01234", "d2"), **dict.fromkeys("abcd", "own")}


def test_a_stream_that_keeps_state_is_left_as_it_is(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema("k string, v string").json(str(tmp_path / "in"))
    assert frames.with_file_order(stream.where("k > 'a'")).columns == ["k", "v", *frames.FILE_ORDER]
    for kept in (stream.dropDuplicates(["k"]), stream.groupBy("k").count(), spark.readStream.format("rate").load()):
        assert frames.with_file_order(kept).columns == kept.columns


def test_two_streams_and_a_file_side_by_side(spark: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        put(tmp_path / name, "1.json", [{"id": i, "v": name} for i in range(10)])
    (tmp_path / "c.csv").write_text("id,v\n1,c\n")
    db = ev.connect()
    for name in ("a", "b"):
        db.source(name, spark.readStream.schema("id long, v string").json(str(tmp_path / name)), key="id")
    db.source("c", tmp_path / "c.csv")
    joined = db.sql("CREATE VIEW j AS SELECT a.id FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id")
    assert db.run(until="caught_up").rows == {"a": 10, "b": 10, "c": 1}
    assert joined.rows() == [(1,)]


def test_running_for_a_while_follows_the_stream(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "in", "1.json", [{"x": 1}])
    db = ev.connect()
    t = db.source("t", spark.readStream.schema("x long").json(str(tmp_path / "in")))
    view = db.view("v", t.distinct())

    @view.subscribe
    def more(batch: ev.Batch) -> None:
        if batch.time == 1:
            put(tmp_path / "in", "2.json", [{"x": 2}])

    assert db.run(until="6s").stopped_by == "time"
    assert sorted(t.rows()) == [(1,), (2,)]


def test_rate_and_socket(spark: Any) -> None:
    """Rows of Spark's rate source are numbered through; a socket's lines come as they are sent."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        lines = spark.readStream.format("socket").options(host="127.0.0.1", port=server.getsockname()[1]).load()

        def send() -> None:
            connection, _ = server.accept()
            with connection:
                for line in ("one", "two", "three"):
                    connection.sendall(f"{line}\n".encode())
                ended.wait(60)

        ended = threading.Event()
        sender = threading.Thread(target=send)
        sender.start()
        db = ev.connect()
        said = db.source("said", lines)
        rate = db.source("rate", spark.readStream.format("rate").option("rowsPerSecond", 20).load())
        words = db.view("words", said.select(text=said.value).union_all(rate.select(text=ev.lit("rate"))).distinct())

        @words.subscribe
        def enough(batch: ev.Batch) -> None:
            if len(words.rows()) == 4:
                os.kill(os.getpid(), signal.SIGINT)

        assert db.run(until="60s").stopped_by == "interrupt"
        ended.set()
        sender.join()
    assert sorted(said.rows()) == [("one",), ("three",), ("two",)]
    numbers = sorted(n for _, n in rate.rows())
    assert numbers and numbers == list(range(len(numbers)))


def test_another_connection_of_a_socket_loses_no_lines(spark: Any, tmp_path: Path) -> None:
    """Spark counts lines per connection: its old checkpoint would make it pass over the first lines of the next."""
    server = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve() -> None:
        for numbers in (range(5), range(5, 8)):
            connection, _ = server.accept()
            with connection:
                connection.sendall("".join(f"{n}\n" for n in numbers).encode())
                ended.wait(60)
                ended.clear()

    threading.Thread(target=serve, daemon=True).start()
    lines = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", server.getsockname()[1])
    for wanted in (5, 8):
        with ev.connect(tmp_path / "state") as db:
            t = db.source("t", lines.load().selectExpr("cast(value as long) as n"))
            v = db.view("v", t.group_by("n").agg(c=ev.count()))
            v.subscribe(lambda batch, v=v, wanted=wanted: os.kill(os.getpid(), 2) if len(v.rows()) == wanted else None)  # type: ignore[misc]
            db.run(until="60s")
            assert sorted(t.rows()) == [(n,) for n in range(wanted)]
        ended.set()
    server.close()


def test_late_rows_correct_views_whatever_the_watermark_says(spark: Any, tmp_path: Path) -> None:
    """A watermark alone drops nothing; what an operator of Spark's drops by one is counted and told."""
    schema, folder = "ts timestamp, n long", tmp_path / "in"
    put(folder, "1.json", [{"ts": "2026-01-01 12:00:00", "n": 1}, {"ts": "2026-01-01 12:10:00", "n": 2}])
    db = ev.connect()
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))
    stream = stream.withWatermark("ts", "1 minute")
    db.source("kept", stream)
    db.source("deduplicated", stream.dropDuplicates(["ts", "n"]))
    v = db.sql("CREATE VIEW v AS SELECT date_trunc('minute', ts) AS m, sum(n) AS n FROM kept GROUP BY 1")
    assert db.run(until="caught_up").late == {}
    put(folder, "2.json", [{"ts": "2026-01-01 12:00:30", "n": 5}, {"ts": "2026-01-01 12:11:00", "n": 3}])
    run = db.run(until="caught_up")
    assert sorted(n for _, n in v.rows()) == [2, 3, 6] and run.rows == {"kept": 2, "deduplicated": 1}
    assert run.late == {"deduplicated": 1} and "too late: deduplicated 1" in str(run)


def test_a_batch_waits_until_the_one_before_is_committed_and_told(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back-pressure: Spark is never ahead of the slowest subscriber."""
    for i in range(4):
        put(tmp_path / "in", f"{i}.json", [{"x": i}])
    happened: list[str] = []
    offer = Stream._offer

    def offering(self: Stream, number: int, rows: Any) -> Any:
        happened.append(f"offered {number}")
        return offer(self, number, rows)

    monkeypatch.setattr(Stream, "_offer", offering)
    db = ev.connect()
    stream = spark.readStream.schema("x long").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    view = db.view("v", db.source("t", stream).distinct())

    @view.subscribe
    def slow(batch: ev.Batch) -> None:
        if len(batch):
            time.sleep(0.3)
            happened.append(f"told {batch.time - 1}")

    db.run(until="caught_up")
    assert happened == [f"{what} {number}" for number in range(4) for what in ("offered", "told")]


class Restarted:
    """A session that a restart would find: the same marks and rows, nothing else of the old one."""

    def __init__(self, old: ev.Session | None, state: Path) -> None:
        self.db = ev.connect()
        inside(self.db).runtime.backing.store = SimpleNamespace(files=SimpleNamespace(root=str(state)))
        self.old = old

    def source(self, stream: Any) -> ev.Table:
        t = self.db.source("t", stream)
        if self.old is not None:
            t.insert(self.old["t"].rows())
            inside(self.db).runtime.offsets.update(inside(self.old).runtime.offsets)
        return t


def test_a_replayed_batch_is_recognised(spark: Any, tmp_path: Path) -> None:
    folder, state = tmp_path / "in", tmp_path / "state"
    put(folder, "1.json", [{"x": 1}])
    stream = spark.readStream.schema("x long").json(str(folder))
    first = Restarted(None, state)
    first.source(stream)
    first.db.run(until="caught_up")
    put(folder, "2.json", [{"x": 2}])
    first.db.run(until="caught_up")
    assert inside(first.db).runtime.offsets["source/t/batch"] == "1"
    for left in (state / "streams" / "t" / "commits").glob("*1*"):  # as if Spark had died before its note
        left.unlink()

    second = Restarted(first.db, state)
    t = second.source(stream)
    put(folder, "3.json", [{"x": 3}])
    assert second.db.run(until="caught_up").rows == {"t": 1}
    assert sorted(t.rows()) == [(1,), (2,), (3,)]


def test_a_batch_that_failed_comes_again(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "in", "1.json", [{"x": 1}, {"x": None}])
    db = ev.connect()
    t = db.source("t", spark.readStream.schema("x long").json(str(tmp_path / "in")), schema={"x": int})
    with pytest.raises(ev.InputError, match=r"\[E_RECORD\] source 't': batch 0: \[E_NULL\]"):
        db.run(until="caught_up")
    assert t.rows() == []
    again = ev.connect()
    u = again.source(
        "t", spark.readStream.schema("x long").json(str(tmp_path / "in")), schema={"x": int}, bad="quarantine"
    )
    again.run(until="caught_up")
    assert (u.rows(), [r[2] for r in again["t_rejected"].rows()]) == ([(1,)], ['{"x": null}'])


def test_checkpoints_and_marks_must_belong_together(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "in", "1.json", [{"x": 1}])
    state = tmp_path / "state"
    stream = spark.readStream.schema("x long").json(str(tmp_path / "in"))
    first = Restarted(None, state)
    first.source(stream)
    first.db.run(until="caught_up")

    forgot = Restarted(None, state)
    forgot.source(stream)
    with pytest.raises(ev.InputError) as error:
        forgot.db.run(until="caught_up")
    assert str(error.value) == (
        f"[E_CHECKPOINT] source 't': the checkpoint {state}/streams/t is further than the state, which knows nothing "
        "of this stream\n"
        "  hint: put the state directory back, or delete the checkpoint to read the stream from its start"
    )

    shutil.rmtree(state / "streams")
    second = Restarted(first.db, state)
    second.source(stream)
    with pytest.raises(ev.InputError) as error:
        second.db.run(until="caught_up")
    assert str(error.value) == (
        f"[E_CHECKPOINT] source 't': the checkpoint {state}/streams/t is gone\n"
        "  hint: put the checkpoint back, or start over with an empty state directory"
    )


def test_a_stream_that_breaks_says_why(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "in", "1.json", [{"x": 0}])
    db = ev.connect()
    stream = spark.readStream.schema("x long").json(str(tmp_path / "in")).selectExpr("raise_error('boom') as x")
    db.source("t", stream, schema={"x": str})
    with pytest.raises(ev.InputError, match=r"(?s)\[E_STREAM\] source 't': DataFrame.*boom.*hint: correct its"):
        db.run(until="caught_up")


def test_a_batch_that_cannot_be_read_says_why_and_spark_is_silent(
    spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The error is the pipeline's; what Spark hears is that its query was stopped."""
    (tmp_path / "1.json").write_text('{"x": 1}\n')
    stream = spark.readStream.schema("x long").json(str(tmp_path))
    db = ev.connect()
    db.source("t", stream.selectExpr("cast(assert_true(x > 1, 'x is small') as string) as y"), schema={"y": str})
    capfd.readouterr()
    with pytest.raises(ev.InputError, match=r"E_STREAM\] source 't': DataFrame\(y\) cannot be read: .*x is small"):
        db.run(until="caught_up")
    db = ev.connect()
    db.source("t", stream, schema={"x": dt.date})
    with pytest.raises(ev.InputError, match="E_RECORD"):
        db.run(until="caught_up")
    assert "MicroBatchExecution" not in "".join(capfd.readouterr())
    db = ev.connect()
    db.source("t", stream.groupBy("x").count())
    with pytest.raises(ev.InputError, match=r"(?s)E_STREAM.*aggregate them in a view"):
        db.run(until="caught_up")


def test_refusals(spark: Any) -> None:
    db = ev.connect()
    with pytest.raises(ev.InputError, match=r"E_SCHEMA\] column 'x'.*not a column type"):
        db.source("t", spark.sql("select interval '1' month as x"))
    with pytest.raises(ev.InputError, match=r"E_OPTION.*max_rows_per_step has no effect"):
        db.source("t", spark.range(3), max_rows_per_step=2)
    rate = spark.readStream.format("rate").load()
    db.source("r", rate, mode="snapshot")
    with pytest.raises(ev.InputError, match=r"E_MODE.*cannot be read as snapshots"):
        db.run(until="caught_up")


def test_interrupted_from_a_subscriber(spark: Any, tmp_path: Path) -> None:
    """Ctrl-C while a stream runs: the step under way is finished, and the next run goes on."""
    folder = tmp_path / "in"
    for i in range(4):
        put(folder, f"{i}.json", [{"x": i}])
    db = ev.connect()
    stream = spark.readStream.schema("x long").option("maxFilesPerTrigger", 1).json(str(folder))
    t = db.source("t", stream)
    view = db.view("v", t.distinct())
    stop = view.subscribe(lambda batch: os.kill(os.getpid(), signal.SIGINT))
    assert db.run(until="caught_up").stopped_by == "interrupt"
    stop()
    assert len(t.rows()) < 4
    db.run(until="caught_up")
    assert sorted(t.rows()) == [(i,) for i in range(4)]
