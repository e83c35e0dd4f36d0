"""A transaction reads what it has changed; savepoints; against DuckDB, statement by statement."""

from __future__ import annotations

import datetime as dt
import random

import duckdb
import pytest

import everview as ev
from everview.session.local_shards import local_shards

SETUP = (
    "CREATE TABLE t (id int PRIMARY KEY, a int, b text)",
    "CREATE TABLE u (a int, c int)",
    "CREATE VIEW v AS SELECT t.a, count(*) AS n, sum(u.c) AS s FROM t JOIN u ON u.a = t.a GROUP BY t.a",
)
ASKED = (
    "SELECT * FROM t",
    "SELECT * FROM u",
    "SELECT * FROM v",
    "SELECT v.a, v.n, t.id FROM v LEFT JOIN t ON t.a = v.a AND t.b = 'x'",
    "SELECT a FROM u EXCEPT ALL SELECT a FROM t",
)


def _sessions(shards: int) -> tuple[ev.Session, duckdb.DuckDBPyConnection]:
    db = local_shards(shards=shards) if shards else ev.connect()
    oracle = duckdb.connect()
    for text in SETUP:
        db.sql(text)
        oracle.execute(text)
    return db, oracle


def _change(r: random.Random, ids: list[int]) -> str:
    kind = r.randrange(7)
    a, c = r.randint(0, 3), r.randint(0, 5)
    if kind == 0 or not ids:
        ids.append(max(ids, default=0) + 1)
        return f"INSERT INTO t VALUES ({ids[-1]}, {r.choice([a, 'NULL'])}, '{r.choice('xy')}')"
    return [
        f"INSERT INTO u VALUES ({a}, {c}), ({a}, {c}), ({c}, NULL)",
        f"UPDATE t SET a = {c}, b = 'x' WHERE a = {a}",
        f"DELETE FROM u WHERE c = {c}",
        f"INSERT INTO u SELECT a, count(*) FROM t WHERE id > {r.choice(ids)} GROUP BY a",
        f"UPDATE u SET c = t.id FROM t WHERE t.a = u.a AND t.id = {r.choice(ids)}",
        f"DELETE FROM t WHERE a IN (SELECT a FROM v WHERE n > {c})",
    ][kind - 1]


def _equal(db: ev.Session, oracle: duckdb.DuckDBPyConnection, where: str) -> None:
    for text in ASKED:
        ours, theirs = db.sql(text).rows(), oracle.execute(text).fetchall()
        assert sorted(ours, key=repr) == sorted(((*r,) for r in theirs), key=repr), f"{text} after {where}"


@pytest.mark.parametrize("shards", [0, 2])
@pytest.mark.parametrize("seed", range(3))
def test_every_statement_of_a_transaction_sees_those_before_it(shards: int, seed: int) -> None:
    db, oracle = _sessions(shards)
    r, ids = random.Random(seed), list[int]()
    for _ in range(4):
        for one in (db.sql, oracle.execute):
            one("BEGIN")
        for _ in range(5):
            text = _change(r, ids)
            db.sql(text)
            oracle.execute(text)
            _equal(db, oracle, text)
        end = r.choice(["COMMIT", "COMMIT", "ROLLBACK"])
        db.sql(end)
        oracle.execute(end)
        _equal(db, oracle, end)
    db.close()


def test_savepoints() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (a int PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1)")
    db.sql("SAVEPOINT one; INSERT INTO t VALUES (2)")
    db.sql("SAVEPOINT two; INSERT INTO t VALUES (3)")
    assert sorted(db.sql("SELECT a FROM t").rows()) == [(1,), (2,), (3,)]
    db.sql("ROLLBACK TO SAVEPOINT two")
    assert sorted(db.sql("SELECT a FROM t").rows()) == [(1,), (2,)]
    with pytest.raises(ev.InputError, match="E_KEY"):
        db.sql("INSERT INTO t VALUES (1)")
    with pytest.raises(ev.PlanError, match="has failed before this"):
        db.sql("SELECT 1")
    db.sql("ROLLBACK TO one; INSERT INTO t VALUES (4)")
    with pytest.raises(ev.PlanError, match="no savepoint two"):
        db.sql("ROLLBACK TO two")
    db.sql("ROLLBACK TO one; RELEASE SAVEPOINT one; INSERT INTO t VALUES (5); COMMIT")
    assert sorted(db["t"].rows()) == [(1,), (5,)]


@pytest.mark.parametrize(
    ("text", "says"),
    [("SAVEPOINT x", "no transaction is open"), ("RELEASE x", "no transaction"), ("ROLLBACK TO x", "no transaction")],
)
def test_savepoints_need_a_transaction(text: str, says: str) -> None:
    with pytest.raises(ev.PlanError, match=says):
        ev.connect().sql(text)


def test_a_savepoint_has_a_name() -> None:
    db = ev.connect()
    for text in ("SAVEPOINT", "SAVEPOINT a b", "RELEASE SAVEPOINT a b"):
        db.sql("BEGIN")
        with pytest.raises(ev.PlanError, match="E_SYNTAX"):
            db.sql(text)
        db.sql("ROLLBACK")


def test_what_follows_the_clock_is_seen_and_not_counted_twice() -> None:
    db = ev.connect()
    noon = dt.datetime(2026, 1, 31, 12)
    db.advance(noon)
    db.sql("CREATE TABLE p (who text, at timestamp) TTL at + INTERVAL '1 hour'")
    db.sql("CREATE VIEW recent AS SELECT who FROM p WHERE at > now() - INTERVAL '5 minutes'")
    db.sql("CREATE VIEW last AS SELECT who FROM p [size 1 tuple]")
    db.sql("BEGIN; INSERT INTO p VALUES ('a', now()), ('b', now() - INTERVAL '10 minutes')")
    db.sql("INSERT INTO p VALUES ('c', now() - INTERVAL '2 hours')")
    for _ in range(2):
        assert db.sql("SELECT who FROM recent").rows() == [("a",)]
        assert sorted(db.sql("SELECT who FROM p").rows()) == [("a",), ("b",)]
        assert len(db.sql("SELECT who FROM last").rows()) <= 1
    db.sql("COMMIT")
    assert db["recent"].rows() == [("a",)] and sorted(r[0] for r in db["p"].rows()) == ["a", "b"]
