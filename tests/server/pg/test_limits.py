"""Statements that would run for ever, over the wire: their limit, or CancelRequest, ends them; others go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

import everview as ev
from tests.server.pg.conftest import Running, running

SECONDS = 20.0
"""Much less than any of them would take."""

ENDLESS = {
    "cross join": "SELECT a.x, count(*) FROM many a, many b WHERE a.x + b.x > 10 GROUP BY a.x",
    "cross join as a view": "CREATE VIEW w AS SELECT a.x, b.x AS y FROM many a, many b",
    "join that keeps no pair": "SELECT a.x FROM many a, many b WHERE a.x + b.x < 0",
    "join that keeps no pair, as a view": "CREATE VIEW w AS SELECT a.x FROM many a, many b WHERE a.x + b.x < 0",
    "loop": "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "loop as a view": "CREATE VIEW w AS WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r) SELECT n FROM r",
    "insert": "INSERT INTO more SELECT a.x FROM many a, many b",
    "function": "CREATE VIEW w AS SELECT sleepy(x) AS y FROM many",
    "update": "UPDATE many SET x = (SELECT count(*) FROM many a, many b WHERE a.x + b.x + many.x < 0)",
    "sort": "SELECT a.x FROM many a, many b ORDER BY a.x * b.x, b.x",
    "window": "SELECT sum(a.x) OVER (ORDER BY b.x) FROM many a, many b",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    db = ev.connect(files=False)
    db.table("many", {"x": int}).insert([(i,) for i in range(100_000)])
    db.table("more", {"x": int})
    db.table("t", {"x": int}).insert([(1,)])
    db.function("sleepy", _sleepy, returns=int)
    found = running(db)
    yield found
    found.stop()


def _sleepy(x: int) -> int:
    time.sleep(0.05)
    return x


@pytest.mark.parametrize("how", ["limit", "cancel"])
@pytest.mark.parametrize("kind", ENDLESS)
def test_it_ends(server: Running, kind: str, how: str) -> None:
    began = time.monotonic()
    with psycopg.connect(server.dsn, autocommit=True) as client, psycopg.connect(server.dsn, autocommit=True) as other:
        client.execute("SET statement_timeout = '300ms'" if how == "limit" else "SET statement_timeout = '60s'")
        if how == "cancel":
            threading.Timer(0.3, client.cancel_safe).start()
        with pytest.raises((psycopg.errors.QueryCanceled, psycopg.errors.OutOfMemory)):
            client.execute(ENDLESS[kind])
        assert time.monotonic() - began < SECONDS
        assert client.execute("SELECT x FROM t").fetchall() == [(1,)]
        other.execute("INSERT INTO t VALUES (2)")
        other.execute("DELETE FROM t WHERE x = 2")
        assert other.execute("SELECT count(*) FROM more").fetchall() == [(0,)]
    assert server.do(lambda db: db.views) in ([], ())
