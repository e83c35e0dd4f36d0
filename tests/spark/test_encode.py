"""Rows of DataFrames coded in Spark's tasks: they never come to the driver, and all is as if they had."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.codes.interner import Interner
from everview.runtime import row_samples
from everview.spark.rows import frames
from tests.inside import inside

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def all_frames_are_large(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Nothing is small enough to be fetched, and fetching is an error."""
    monkeypatch.setattr(frames.FrameRows, "large", True)
    if "fetched" not in request.node.name:
        monkeypatch.setattr(frames.FrameRows, "fetch", lambda self: pytest.fail("rows came to the driver"))


def left(db: Any) -> list[str]:
    """Files of coded rows that lie about."""
    found: list[str] = inside(db).runtime.backing.store.files.list("rows")
    return found


def test_rows_are_added(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(1000, numPartitions=3).selectExpr(
        "concat('k', id % 7) as k", "id", "if(id % 10 = 0, null, cast(id % 5 as string)) as s", "id / 4 as f"
    )
    expected = Counter(map(tuple, frame.collect()))
    with ev.connect(spark, state=str(tmp_path / "state"), shards=3) as db:
        t = db.source("t", frame)
        v = db.view("v", t.group_by("s").agg(n=ev.count(), first=t.k.min()))
        assert db.run(until="caught_up").rows == {"t": 1000}
        assert Counter(t.rows()) == expected
        groups = {s: [k for k, _, s2, _ in expected.elements() if s2 == s] for _, _, s, _ in expected}
        assert sorted(v.rows(), key=str) == sorted(((s, len(k), min(k)) for s, k in groups.items()), key=str)
        assert db.run(until="caught_up").rows == {"t": 0}
        assert left(db) == []
    with ev.connect(spark, state=str(tmp_path / "state")) as db:
        assert Counter(db["t"].rows()) == expected


def test_hot_keys_of_rows_that_did_not_come_to_the_driver(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks send some rows, in which the driver sees that one key has half of them."""
    monkeypatch.setattr(row_samples, "LEAST_ROWS", 500)
    frame = spark.range(4000, numPartitions=3).selectExpr("id", "if(id % 2 = 0, 7, id % 500) as k")
    with ev.connect(spark, state=str(tmp_path / "state"), shards=3) as db:
        t, u = db.source("t", frame), db.table("u", {"k": int, "name": str})
        db.run(until="caught_up")
        u.insert([(k, f"n{k}") for k in range(500)])
        v = db.view("v", t.join(u, t.k == u.k).select(t.id, u.name))
        assert "hot keys of its left side split over shards" in v.explain()
        assert sorted(v.rows()) == sorted((i, f"n{7 if i % 2 == 0 else i % 500}") for i in range(4000))
        u.delete([(7, "n7")])
        assert sorted(v.rows()) == sorted((i, f"n{i % 500}") for i in range(1, 4000, 2) if i % 500 != 7)


def test_the_last_row_of_a_key_wins(spark: Any, tmp_path: Path) -> None:
    def batch(rows: list[Any]) -> None:
        path = tmp_path / "in" / f"{len(list((tmp_path / 'in').iterdir()))}.json"
        path.write_text("".join(json.dumps(dict(zip("kv", row, strict=True))) + "\n" for row in rows))

    (tmp_path / "in").mkdir()
    with ev.connect(spark, state=str(tmp_path / "state"), shards=3) as db:
        stream = spark.readStream.schema("k string, v long").json(str(tmp_path / "in"))
        t = db.source("t", stream, key="k")
        total = db.view("total", t.select(one=ev.lit(1), v=ev.col.v).group_by("one").agg(s=ev.col.v.sum()))
        batch([(f"k{i % 10}", i) for i in range(100)])
        db.run(until="caught_up")
        assert sorted(t.rows()) == [(f"k{i}", 90 + i) for i in range(10)]
        batch([("k3", -1), ("new", 5), ("k4", 94), ("k3", 7)])
        db.run(until="caught_up")
        batch([("new", 6)])
        db.run(until="caught_up")
        assert dict(t.rows()) == {f"k{i}": 90 + i for i in range(10)} | {"k3": 7, "new": 6}
        assert total.rows() == [(1, 945 - 93 + 7 + 6)]
        assert left(db) == []


@pytest.mark.parametrize("key", [pytest.param(None, marks=pytest.mark.slow), "k"])
def test_snapshots_are_compared_on_the_shards(spark: Any, tmp_path: Path, key: str | None) -> None:
    contents = [[("a", 1), ("b", 2), ("c", 3)], [("b", 2), ("c", 4), ("d", 5)], []]
    with ev.connect(spark, state=str(tmp_path / "state"), shards=3) as db:
        schema = {"k": str, "v": int}
        current: list[Any] = []

        class Snapshots(ev.io.Source):
            by_rows = False

            def open(self, marks: Any, wanted: Any, snapshots: bool) -> None:
                pass

            def poll(self, limit: int | None) -> ev.io.Chunk:
                rows = frames.FrameRows(spark.createDataFrame(current, "k string, v long"))
                return ev.io.Chunk("now", rows, {}, snapshot=True)

        t = db.source("t", Snapshots(), mode="snapshot", key=key, schema=schema)
        v = db.view("v", t.distinct())
        for rows in contents:
            current[:] = rows
            before = db.time
            db.run(until="caught_up")
            assert sorted(t.rows()) == rows
        since = [(row, diff) for row, _, diff in v.changes(since=before)]
        assert Counter(dict(since)) == Counter({("b", 2): -1, ("c", 4): -1, ("d", 5): -1})


def test_bad_rows_are_set_aside_or_refused(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(100, numPartitions=2).selectExpr("if(id % 25 = 3, null, id) as x", "cast(id as string) as s")
    with ev.connect(spark, state=str(tmp_path / "state"), shards=2) as db:
        db.source("t", frame, schema={"x": int, "s": str})
        with pytest.raises(ev.InputError, match=r"E_RECORD\] source 't': DataFrame\(x, s\): \[E_NULL\].*3 more"):
            db.run(until="caught_up")
        assert (db["t"].rows(), left(db)) == ([], [])
        u = db.source("u", frame, schema={"x": int, "s": str}, bad="quarantine")
        with pytest.raises(ev.InputError, match="E_RECORD"):
            db.run(until="caught_up")
        inside(db).attached["pipeline"].feeds.pop("t")
        run = db.run(until="caught_up")
        assert (run.rows, run.rejected, len(u.rows())) == ({"u": 96}, {"u": 4}, 96)
        assert {json.loads(record)["s"] for _, _, record in db["u_rejected"].rows()} == {"3", "28", "53", "78"}
        assert left(db) == []


@pytest.mark.slow
def test_a_frame_that_breaks_says_why(spark: Any, tmp_path: Path) -> None:
    with ev.connect(spark, state=str(tmp_path / "state"), shards=2) as db:
        db.source("t", spark.range(3).selectExpr("raise_error('boom') as x"), schema={"x": str})
        with pytest.raises(ev.InputError, match=r"(?s)E_STREAM\] source 't': .* cannot be read: .*hint: correct its"):
            db.run(until="caught_up")


@pytest.mark.slow
def test_texts_that_share_a_hash_are_fetched(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks' dictionaries disagree with the driver's, where one hash is taken already."""
    fetched: list[Any] = []
    fetch = frames.FrameRows.fetch
    monkeypatch.setattr(frames.FrameRows, "fetch", lambda self: fetched.append(fetch(self)) or fetched[-1])  # type: ignore[func-returns-value]
    with ev.connect(spark, state=str(tmp_path / "state"), shards=2) as db:
        t = db.source("t", spark.sql("select 'pear' as s"))
        taken, load = Interner().id("pear"), inside(db).interner.load

        def conflict(table: Any) -> None:
            if taken in table["id"].to_pylist() and not fetched:
                raise ev.InputError("E_CONFLICT", "the hash is taken", "")
            load(table)

        monkeypatch.setattr(inside(db).interner, "load", conflict)
        db.run(until="caught_up")
        assert (t.rows(), len(fetched), left(db)) == ([("pear",)], 1, [])


def commit(draw: random.Random, stands: dict[int, str], number: int) -> list[dict[str, Any]]:
    """What one commit does to a few keys, in no order."""
    events: list[tuple[int, str, str]] = []
    for key in draw.sample(range(12), 4):
        before, after = stands.pop(key, None), draw.choice([None, f"{number}", "same"])
        kinds = ("update_preimage", "update_postimage") if before and after else ("delete", "insert")
        events += [(key, name, kind) for name, kind in zip((before, after), kinds, strict=True) if name]
        if after:
            stands[key] = after
    draw.shuffle(events)
    when = {"_commit_version": number, "_commit_timestamp": dt.datetime(2026, 1, 1) + dt.timedelta(seconds=number)}
    return [dict(zip(("id", "name", "_change_type"), event, strict=True)) | when for event in events]


@pytest.mark.parametrize("version", ["counted", pytest.param("text", marks=pytest.mark.slow)])
def test_change_feeds_of_keyed_tables_are_finished_on_the_shards(spark: Any, tmp_path: Path, version: str) -> None:
    """Batches of events in no order, as a session in memory applies them; one that is no event is set aside."""
    draw = random.Random(7)
    stands: dict[int, str] = {}
    nonsense = {"id": 99, "name": "x", "_change_type": "nonsense"}
    (tmp_path / "in").mkdir()
    with ev.connect(spark, state=str(tmp_path / "state"), shards=3) as db:
        stream = spark.readStream.schema(
            "id long, name string, _change_type string, _commit_version long, _commit_timestamp timestamp"
        ).json(str(tmp_path / "in"))
        if version == "text":  # then only the timestamps say what came first
            stream = stream.withColumn("_commit_version", stream["_commit_version"].cast("string"))
        t = db.source("t", stream, mode="changes", key="id", bad="quarantine")
        v = db.view("v", t.group_by("name").agg(n=ev.count()))
        for batch in range(4):
            events = [event for number in range(10) for event in commit(draw, stands, 10 * batch + number)]
            draw.shuffle(events)
            for i, part in enumerate((events[:20], events[20:] + [nonsense] * (batch == 1))):
                text = "".join(json.dumps(event, default=str) + "\n" for event in part)
                (tmp_path / "in" / f"{batch}-{i}.json").write_text(text)
            db.run(until="caught_up")
            assert dict(t.rows()) == stands
        assert dict(v.rows()) == Counter(stands.values())
        assert [reason[:11] for _, reason, _ in db["t_rejected"].rows()] == ["[E_CHANGES]"] and left(db) == []


@pytest.mark.parametrize("key", ["id", pytest.param(None, marks=pytest.mark.slow)])
def test_debezium_and_events_without_a_key_are_finished_on_the_shards(
    spark: Any, tmp_path: Path, key: str | None
) -> None:
    """Envelopes as texts, in several files; more of what may happen is in test_coded_events.py."""
    (tmp_path / "in").mkdir()

    def arrive(number: int, *bodies: Any) -> None:
        (tmp_path / "in" / f"{number}.txt").write_text("".join(json.dumps(b) + "\n" for b in bodies))

    rows = [{"id": i, "name": f"n{i % 5}"} for i in range(50)]
    arrive(0, *({"op": "c", "before": None, "after": row} for row in rows))
    with ev.connect(spark, state=str(tmp_path / "state"), shards=3) as db:
        stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path / "in"))
        t = db.source("t", stream, mode="changes", key=key, schema={"id": int, "name": str}, bad="quarantine")
        v = db.view("v", t.group_by("name").agg(n=ev.count()))
        db.run(until="caught_up")
        assert dict(v.rows()) == {f"n{i}": 10 for i in range(5)}
        updates = [{"op": "u", "before": row, "after": row | {"name": "new"}} for row in rows[:7]]
        arrive(1, *updates, {"op": "d", "before": rows[9], "after": None}, {"op": "x"})
        db.run(until="caught_up")
        assert sorted(t.rows())[:10] == [(i, "new") for i in range(7)] + [(7, "n2"), (8, "n3"), (10, "n0")]
        if key is None:
            arrive(2, {"op": "d", "before": rows[9], "after": None})
            db.run(until="caught_up")
        else:
            arrive(2, {"op": "t"}, {"op": "c", "after": rows[3]})
            db.run(until="caught_up")
            assert (t.rows(), v.rows()) == ([(3, "n3")], [("n3", 1)])
        assert left(db) == []
        reasons = [reason[:11] for _, reason, _ in db["t_rejected"].rows()]
        assert sorted(reasons) == (["[E_ABSENT] ", "[E_CHANGES]"] if key is None else ["[E_CHANGES]"])
