"""Reads while a step runs: through every door they see the last complete time, and do not wait.

The step is held up by a function that waits for the test, so that it lasts as long as the reads take and no longer.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest
from websockets.sync.client import connect as socket

import everview as ev
from everview import col
from tests.server.running import LONG, TOKEN, Running

QUICK = 2.0
"""Seconds: far below what the step would last if a read waited for it."""


class Held(Running):
    """A server, and a step of it that lasts until it is let go."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        db = ev.connect(files=False)
        hold = ev.udf(self._hold, returns=int)
        t = db.table("t", {"id": int, "v": int, "w": str}, key="id")
        x = db.table("x", {"x": int})
        db.view("total", t.agg(n=col.v.sum()))
        db.view("held", x.select(x=hold(col.x)))
        t.insert([(i, i, f"w{i}") for i in range(1, 101)])
        super().__init__(db, pg=0)

    def _hold(self, x: int) -> int:
        self.began.set()
        self.go.wait(15)
        return x

    @contextmanager
    def step(self) -> Iterator[None]:
        """While a step runs that will change what is read."""
        self.began.clear()
        self.go.clear()

        def change(db: ev.Session) -> None:
            with db.transaction():
                db["x"].insert([(1,)])
                db["t"].insert([(1000, 1000, "new")])

        writer = threading.Thread(target=self.do, args=(change,))
        writer.start()
        try:
            assert self.began.wait(LONG)
            yield
            assert writer.is_alive(), "the step was over before the reads were"
        finally:
            self.go.set()
            writer.join(LONG)
            self.do(lambda db: db["t"].delete(keys=[1000]))

    @property
    def dsn(self) -> str:
        return f"postgresql://me:{TOKEN.replace(' ', '%20')}@127.0.0.1:{self.server.listeners[1].port}/everview"  # type: ignore[attr-defined]

    def sql(self, text: str) -> Any:
        """Rows over HTTP."""
        found = httpx.post(f"{self.url}/v1/sql", json={"sql": text}, headers=self.headers, timeout=LONG)
        return found.json()

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def server() -> Iterator[Held]:
    held = Held()
    with held:
        yield held


def in_time(read: Callable[[], Any]) -> Any:
    """What a read gives, which must not take long."""
    before = time.monotonic()
    found = read()
    assert time.monotonic() - before < QUICK
    return found


def test_postgresql(server: Held) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as client:
        client.execute("SELECT 1")
        with server.step():
            assert in_time(lambda: client.execute("SELECT n FROM total").fetchall()) == [(5050,)]
            assert in_time(lambda: client.execute("SELECT v FROM t WHERE id = %s", [7]).fetchall()) == [(7,)]
            joined = "SELECT a.w, b.n FROM t a, total b WHERE a.id = 3"
            assert in_time(lambda: client.execute(joined).fetchall()) == [("w3", 5050)]
            assert in_time(lambda: client.execute("SELECT 1 + 1").fetchall()) == [(2,)]
            found = in_time(lambda: client.execute("SELECT relname FROM pg_class WHERE relname = 't'").fetchall())
            assert found == [("t",)]
            for wrong in ("SELECT nothing FROM t", "SELECT nothing FROM t WHERE id = 1 LIMIT 1"):
                before = time.monotonic()
                with pytest.raises(psycopg.errors.UndefinedColumn):
                    client.execute(wrong)
                assert time.monotonic() - before < QUICK
        assert client.execute("SELECT n FROM total").fetchall() == [(5050,)]


def test_a_transaction_that_has_changed_nothing(server: Held) -> None:
    """As drivers open one around everything."""
    with psycopg.connect(server.dsn) as client, server.step():
        assert in_time(lambda: client.execute("SELECT n FROM total").fetchall()) == [(5050,)]
        assert in_time(lambda: client.execute("SELECT count(*) FROM t WHERE v > %s", [50]).fetchall()) == [(50,)]


def test_prepared_look_ups(server: Held) -> None:
    with psycopg.connect(server.dsn, autocommit=True, prepare_threshold=0) as client:
        ask = lambda: client.execute("SELECT w FROM t WHERE id = %b", [5], binary=True).fetchall()  # noqa: E731
        assert ask() == [("w5",)]
        with server.step():
            assert [in_time(ask) for _ in range(3)] == [[("w5",)]] * 3


def test_a_new_connection(server: Held) -> None:
    with server.step():
        client = in_time(lambda: psycopg.connect(server.dsn, autocommit=True))
        assert in_time(lambda: client.execute("SELECT n FROM total").fetchall()) == [(5050,)]
        client.close()


def test_http(server: Held) -> None:
    at = server.sql("SELECT n FROM total")["time"]
    with server.step():
        said = in_time(lambda: server.sql("SELECT n FROM total"))
        assert (said["rows"], said["time"]) == ([["5050"]], at)
        for path in ("relations", "relations/t", "relations/total/rows", "relations/t/rows"):
            address = f"{server.url}/v1/{path}"
            found = in_time(partial(httpx.get, address, headers=server.headers, timeout=LONG))
            assert found.status_code == 200, found.text
            assert found.json().get("time", at) == at


def test_client(server: Held) -> None:
    db = ev.connect(server.address, token=TOKEN)
    try:
        at = db.time
        with server.step():
            assert in_time(lambda: db.sql("SELECT n FROM total").rows()) == [(5050,)]
            assert in_time(lambda: db["total"].rows()) == [(5050,)]
            assert in_time(lambda: db["t"].lookup(9)) == [(9, 9, "w9")]
            assert in_time(lambda: len(db["t"])) == 100
            assert in_time(lambda: db.time) == at
        assert db.time > at
    finally:
        db.close()


def test_snapshots_and_what_follows(server: Held) -> None:
    """One who subscribes during a step is told what is there before it, and then what it changes."""
    with socket(f"ws://127.0.0.1:{server.port}/v1/ws") as ws:
        ws.send(json.dumps({"type": "hello", "token": TOKEN, "granularity": 0}))
        assert json.loads(ws.recv(LONG))["type"] == "hello"
        with server.step():
            ws.send(json.dumps({"type": "subscribe", "views": [{"id": 1, "view": "total"}, {"id": 2, "view": "t"}]}))
            told = [in_time(lambda: json.loads(ws.recv(LONG))) for _ in range(3)]
            assert [m["type"] for m in told[:2]] == ["subscribed"] * 2
            frames = {f.get("id"): f for f in told[2]}
            assert frames[1]["rows"] == [[1, "5050"]]
            assert len(frames[2]["rows"]) == 100
        more = json.loads(ws.recv(LONG))
        assert {f["id"]: f["rows"] for f in more if f["type"] == "changes"} == {
            1: [[-1, "5050"], [1, "6050"]],
            2: [[1, "1000", "1000", "new"]],
        }


def test_subscribe_over_postgresql(server: Held) -> None:
    with psycopg.connect(server.dsn) as client:
        with server.step():
            in_time(lambda: client.execute("DECLARE c CURSOR FOR SUBSCRIBE TO total"))
            first = in_time(lambda: client.execute("FETCH ALL c WITH (timeout = '5s')").fetchall())
            assert [row[1:] for row in first] == [(1, 5050)]
        more = client.execute("FETCH 2 c WITH (timeout = '5s')").fetchall()
        assert sorted(row[1:] for row in more) == [(-1, 5050), (1, 6050)]


def test_cancelled(server: Held) -> None:
    """A question that is computed beside the engine hears that it is cancelled."""
    heavy = "SELECT count(*) FROM t a, t b, t c WHERE a.v + b.v + c.v < 0"
    heard = threading.Event()
    with psycopg.connect(server.dsn, autocommit=True) as client:

        def cancel() -> None:  # again and again: a cancellation between two questions meets none
            while not heard.wait(0.02):
                client.cancel_safe()

        canceller = threading.Thread(target=cancel)
        with server.step():
            canceller.start()
            end = time.monotonic() + QUICK
            try:
                with pytest.raises(psycopg.errors.QueryCanceled):
                    while time.monotonic() < end:
                        client.execute(heavy)
            finally:
                heard.set()
                canceller.join()
        assert client.execute("SELECT 1").fetchall() == [(1,)]


def test_limits(server: Held) -> None:
    heavy = "SELECT count(*) FROM t a, t b, t c WHERE a.v + b.v + c.v < 0"
    with psycopg.connect(server.dsn, autocommit=True) as client:
        client.execute("SET statement_timeout = '1ms'")
        with server.step(), pytest.raises(psycopg.errors.QueryCanceled):
            in_time(lambda: client.execute(heavy))
