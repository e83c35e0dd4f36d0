"""The session's own events as relations: they say what `stats` says, can be joined, viewed and subscribed to, and
neither make time pass nor cause events themselves.
"""

from __future__ import annotations

import datetime as dt
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import col
from everview.server.threaded_server import serve_beside
from everview.session.local_shards import local_shards
from everview.system.relations import Relation


@pytest.fixture
def db() -> ev.Session:
    session = ev.connect()
    t = session.table("t", {"k": int, "v": int})
    u = session.table("u", {"k": int, "w": int})
    session.view("sums", t.group_by("k").agg(s=col.v.sum()))
    session.view("both", t.join(u, "k"))
    t.insert([(i % 7, i) for i in range(100)])
    u.insert([(i, i) for i in range(5)])
    return session


def test_sizes_are_those_of_stats(db: ev.Session) -> None:
    stats = db.stats()
    held = {(a["name"], a["updates"], a["bytes"], a["batches"]) for a in stats["arrangements"]}
    rows = db.sql("SELECT name, updates, bytes, batches FROM ev.arrangements").rows()
    assert set(rows) == held and len(rows) == len(stats["arrangements"])
    ((operators,),) = db.sql("SELECT count(*) FROM ev.operators").rows()
    assert operators == stats["operators"]
    assert db.sql("SELECT sum(bytes) FROM ev.memory").rows() == [(stats["bytes"],)]
    assert db.sql("SELECT time, tables, views FROM ev.session").rows() == [(db.time, 2, 2)]


def test_relations_are_joined_with_each_other(db: ev.Session) -> None:
    shared = """
        SELECT a.name, count(*) AS views FROM ev.arrangements a
        JOIN ev.arrangement_views v ON v.operator = a.operator GROUP BY a.name HAVING count(*) > 1
    """
    assert any("t" in name for name, _ in db.sql(shared).rows())
    assert sorted(db.sql("SELECT * FROM ev.dependencies").rows()) == [("both", "t"), ("both", "u"), ("sums", "t")]
    edges = "SELECT count(*) FROM ev.edges e WHERE e.source NOT IN (SELECT o.id FROM ev.operators o)"
    assert db.sql(edges).rows() == [(0,)]
    with pytest.raises(ev.EverviewError, match="there is no table or view t"):
        db.sql("SELECT * FROM ev.views v JOIN t ON t.k = v.operator")


def test_datalog_reads_them_too(db: ev.Session) -> None:
    rules = db.system.datalog("reach(X, Y) :- edges(X, Y). reach(X, Z) :- reach(X, Y), edges(Y, Z).")
    assert len(rules["reach"].rows()) >= len(db.system.rows("edges"))


def test_asking_makes_no_time_pass_and_changes_nothing(db: ev.Session) -> None:
    time, operators = db.time, db.stats()["operators"]
    db.sql("CREATE VIEW ev.wide AS SELECT name FROM ev.views WHERE updates > 3")
    assert sorted(db.sql("SELECT name FROM ev.wide").rows()) == [("both",), ("sums",)]
    assert db.system.refresh() == 0
    assert (db.time, db.stats()["operators"], db.views) == (time, operators, ("sums", "both"))
    db.sql("DROP VIEW ev.wide")
    assert "wide" not in db.system.session.views


def test_views_and_subscriptions_follow(db: ev.Session) -> None:
    told: list[Any] = []
    db.system.refresh()
    db.system["views"].subscribe(lambda batch: told.extend(batch.rows()))
    told.clear()
    db.view("third", db["t"].distinct())
    db.system.refresh()
    assert "third" in repr(told)
    inner, time = db.system.session.time, db.time
    for _ in range(3):
        assert db.system.refresh() == 0  # idle: no feedback
    assert db.time == time and db.system.session.time <= inner + 3


def test_steps_and_statements_are_noted_while_asked_for(db: ev.Session) -> None:
    assert "step" not in db._core.runtime.__dict__  # off is free: nothing stands in the way
    db.sql("INSERT INTO u VALUES (9, 9)")
    assert db.system.rows("steps") == [] and db.system.rows("statements") == []
    db.system.log()
    start = db.time
    db.sql("INSERT INTO u VALUES (10, 10), (11, 11)")
    with pytest.raises(ev.EverviewError):
        db.sql("SELECT nothing FROM u")
    with pytest.raises(ev.EverviewError):
        db["u"].delete([(77, 77)])
    db.sql("SELECT k FROM u")
    steps = [(s[0], *s[3:]) for s in db.system.rows("steps")]
    assert sorted(steps) == [(start + 1, 1, 1, False, "E_ABSENT"), (start + 1, 1, 2, True, "")]
    said = {(s[2], s[4], s[5]) for s in db.system.rows("statements")}
    assert ("SELECT nothing FROM u", None, "E_COLUMN") in said and ("SELECT k FROM u", 8, "") in said
    db.system.log(False)
    assert "step" not in db._core.runtime.__dict__
    db.sql("INSERT INTO u VALUES (12, 12)")
    assert db.system.rows("steps") == []


def test_steps_of_every_kind_are_noted_in_order(db: ev.Session) -> None:
    u, start = db["u"], db.time
    began = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    db.system.log()
    u.insert([(10, 10)])  # notes itself
    u.insert({"k": range(1000), "w": range(1000)})  # in columns
    with db.batch():
        u.insert([(11, 11)])
        u.delete([(10, 10)])
    with db.transaction():
        u.insert([(12, 12)])
        db["t"].insert([(1, 1), (2, 2)])
    with pytest.raises(ev.EverviewError):
        u.delete([(7777, 77)])  # fails by itself
    with pytest.raises(ev.EverviewError):
        u.delete({"k": range(2000, 4000), "w": range(2000)})
    u.insert([(13, 13), (14, 14)])
    steps = db.system.rows("steps")
    assert [(s[0] - start, *s[3:]) for s in sorted(steps, key=lambda s: s[1])] == [
        (1, 1, 1, True, ""),
        (2, 1, 1000, True, ""),
        (4, 2, 2, True, ""),
        (5, 1, 3, True, ""),
        (5, 1, 1, False, "E_ABSENT"),
        (5, 1, 2000, False, "E_ABSENT"),
        (6, 1, 2, True, ""),
    ]
    ended = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    slack = dt.timedelta(milliseconds=20)  # the clocks differ a little
    assert all(began - slack < s[1] < ended + slack and 0 < s[2] < 1e4 for s in steps)


def test_only_the_last_thousand_steps_are_kept(db: ev.Session) -> None:
    db.system.log()
    for i in range(2500):
        db["u"].insert([(i, i)])
    assert sorted(s[0] for s in db.system.rows("steps")) == list(range(db.time - 999, db.time + 1))
    with pytest.raises(ev.EverviewError):
        db["u"].delete([(7777, 77)])
    assert sorted(s[0] for s in db.system.rows("steps")) == [*range(db.time - 998, db.time + 1), db.time]
    system = db.system
    db.close()
    system.log(False)  # what was closed takes no notes any more


def test_a_python_function_is_part_of_its_step() -> None:
    with ev.connect() as db:
        t = db.table("t", {"x": int})

        def slow(row: Any) -> Any:
            time.sleep(0.02)
            return row

        db.view("v", t.map(slow, {"x": int}))
        db.system.log()
        t.insert([(1,)])
        ((now, _, ms, *rest),) = db.system.rows("steps")
        assert (now, rest) == (1, [1, 1, True, ""]) and ms > 20


def test_a_step_of_a_directory_is_timed_with_its_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ev.connect(tmp_path / "d", sync="full") as db:
        t = db.table("t", {"x": int})
        db.system.log()
        before = os.fdatasync

        def slow(file: int) -> None:
            time.sleep(0.02)
            before(file)

        monkeypatch.setattr(os, "fdatasync", slow)
        t.insert([(1,)])
        (row,) = db.system.rows("steps")
        assert row[2] > 20 and row[3:] == (1, 1, True, "")


def test_errors_of_views_are_listed(db: ev.Session) -> None:
    db.view("inverse", db["t"].select(i=100 // col.v))
    assert db.sql("SELECT * FROM ev.errors").rows() == [("inverse", "division by zero", 1)]


def test_what_somebody_calls_ev_is_his() -> None:
    with ev.connect() as db:
        db.sql("CREATE TABLE events (views int); INSERT INTO events VALUES (5)")
        assert db.sql("SELECT ev.views FROM events ev").rows() == [(5,)]
        db.sql("CREATE SCHEMA ev; CREATE TABLE ev.views (x int)")
        assert db.sql("SELECT x FROM ev.views").rows() == []


def test_others_can_offer_relations(db: ev.Session) -> None:
    db.system.offer(Relation("connections", {"id": int, "who": str}, lambda _: [(1, "ann")]))
    assert db.sql("SELECT who FROM ev.connections").rows() == [("ann",)]


def test_watching_follows_in_a_thread(db: ev.Session) -> None:
    seen = threading.Event()
    db.system.refresh()
    db.system["tables"].subscribe(lambda batch: seen.set() if "later" in repr(batch.rows()) else None)
    db.system.watch(every=0.02)
    with pytest.raises(ev.InputError, match="already watched"):
        db.system.watch()
    db.table("later", {"x": int})
    assert seen.wait(60)
    db.system.unwatch()
    db.close()


def test_sessions_in_shards_have_them_too() -> None:
    with local_shards(shards=2) as db:
        db.sql("CREATE TABLE t (x int); INSERT INTO t VALUES (1), (2); CREATE VIEW v AS SELECT x FROM t WHERE x > 1")
        assert db.sql("SELECT name FROM ev.views").rows() == [("v",)]
        assert db.sql("SELECT updates FROM ev.tables WHERE name = 't'").rows() == [(2,)]


def test_merges_under_way_are_seen_until_they_are_done() -> None:
    with ev.connect() as db:
        t = db.table("t", {"x": int})
        assert db.sql("SELECT * FROM ev.merges").rows() == []
        seen: list[tuple[int, int]] = []
        for size in (100_000, *[15_000] * 12):
            t.insert({"x": range(len(seen), len(seen) + size)})
            seen += db.sql("SELECT rows, done FROM ev.merges").rows()
        assert seen and all(0 < done < rows and rows > 15_000 for rows, done in seen)
        for i in range(1000):
            if not db.sql("SELECT * FROM ev.merges").rows():
                break
            t.insert([(-1 - i,)])
        assert db.sql("SELECT * FROM ev.merges").rows() == []


def test_constraints_are_told_by_their_names() -> None:
    """What keeps them are views that nobody made; in accounts of memory they belong to their tables."""
    with ev.connect() as db:
        db.sql("CREATE TABLE o (id int PRIMARY KEY, e text UNIQUE, n int CHECK (n > 0))")
        db.sql("CREATE TABLE p (o int REFERENCES o); CREATE VIEW v AS SELECT o, count(*) AS n FROM p GROUP BY o")
        db.sql("INSERT INTO o VALUES (1, 'a', 1); INSERT INTO p VALUES (1)")
        kept = {"o (constraint o_e_key)", "o (constraint o_n_check)", "p (constraint p_o_fkey)", "v"}
        assert {name for (name,) in db.sql("SELECT name FROM ev.views").rows()} == kept
        assert {name for (name,) in db.sql("SELECT DISTINCT view FROM ev.arrangement_views").rows()} == kept
        joined = "SELECT DISTINCT v.name FROM ev.views v JOIN ev.arrangement_views a ON a.view = v.name"
        assert {name for (name,) in db.sql(joined).rows()} == kept
        memory = db.memory()
        assert {h["name"] for h in memory["holders"]} == {"o", "p", "v"}
        assert not [a for a in memory["arrangements"] if any(n.startswith("everview.") for n in a["for"])]


def _work(db: ev.Session) -> dict[int, int]:
    return {row[0]: row[2] + row[3] + row[4] for row in db.system.rows("work")}


def test_the_time_of_operators_is_measured_while_asked_for(db: ev.Session) -> None:
    assert db.system.rows("work") == []
    db.system.time_operators()
    started = time.perf_counter_ns()
    for i in range(50):
        db["t"].insert([(i % 7, i)])
    passed = time.perf_counter_ns() - started
    first = _work(db)
    assert set(first) == {row[0] for row in db.system.rows("operators")}
    assert 0 < sum(first.values()) < 2 * passed
    written = {row[0] for row in db.system.rows("operators") if row[2] == "arrange t"}
    unchanged = {row[0] for row in db.system.rows("operators") if row[2] == "arrange u"}
    assert all(first[o] > 0 for o in written)
    db.view("later", db["u"].group_by("k").agg(s=col.w.sum()))  # a new program
    db["u"].insert([(1, 1)])
    second = _work(db)
    assert len(second) > len(first)
    assert all(second[o] >= first[o] for o in first)
    assert all(second[o] > first[o] for o in unchanged)
    db.system.time_operators(False)
    assert db.system.rows("work") == []
    db["t"].insert([(1, 1)])


def test_the_time_of_python_functions_is_measured() -> None:
    with ev.connect() as db:
        t = db.table("t", {"x": int})

        def slow(row: Any) -> Any:
            time.sleep(0.01)
            return row

        db.view("v", t.map(slow, {"x": int}))
        db.system.time_operators()
        t.insert([(1,), (2,)])
        assert sum(row[4] for row in db.system.rows("work")) > 15_000_000


def test_operators_of_shards_and_failed_steps_are_timed() -> None:
    with local_shards(shards=2) as db:
        t = db.table("t", {"k": int, "v": int})
        db.view("sums", t.group_by("k").agg(s=col.v.sum()))
        db.system.time_operators()
        t.insert([(i, i) for i in range(1000)])
        with pytest.raises(ev.EverviewError):
            t.delete([(5000, 1)])
        assert sum(_work(db).values()) > 0


def test_statements_of_a_server_are_recorded_without_passwords() -> None:
    with ev.connect() as served:
        served.system.log()
        server = serve_beside(served)
        with ev.connect(server.address, token=server.token) as client:
            client.sql("CREATE TABLE t (x int); INSERT INTO t VALUES (1)")
            client.sql("CREATE USER ann PASSWORD 'very secret'")
            texts = [row[0] for row in client.sql("SELECT text FROM ev.statements ORDER BY id").rows()]
        server.stop()
    assert texts[:3] == ["CREATE TABLE t (x int)", "INSERT INTO t VALUES (1)", "CREATE USER ann PASSWORD '***'"]


def test_sources_and_sinks(db: ev.Session) -> None:
    db.source("fed", ev.io.rows([(1,), (2,)]), schema={"x": int})
    outlet = db.view("kept", db["fed"].distinct()).write_to(ev.io.foreach(lambda batch: None))
    assert db.sql("SELECT name, rows, caught_up FROM ev.sources").rows() == [("fed", 0, False)]
    db.run(until="caught_up")
    asked = "SELECT name, rows, rejected, late, missing, caught_up FROM ev.sources"
    assert db.sql(asked).rows() == [("fed", 2, 0, 0, 0, True)]
    assert db.sql("SELECT view, position FROM ev.sinks").rows() == [("kept", db.time)]
    outlet.stop()
    assert db.sql("SELECT view FROM ev.sinks").rows() == []
