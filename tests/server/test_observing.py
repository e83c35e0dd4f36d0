"""The schema `ev` followed over the network: in every protocol, with times of its own, by those who may."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest
import websockets

import everview as ev
from everview.server import observing
from everview.server.pg.listener import PgListener
from everview.server.server_process import Server
from everview.server.settings import Settings
from everview.server.threaded_server import Beside

TOKEN = "the server's own token"


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Iterator[Beside]:
    monkeypatch.setattr(observing, "EVERY", 0.05)
    session = ev.connect(files=False)
    session.system  # noqa: B018 - the relations of a server are there although the inner session is older
    session.sql("CREATE TABLE t (x int); CREATE VIEW n AS SELECT count(*) AS n FROM t")
    session.sql("CREATE USER ann PASSWORD 'pw'; CREATE USER mon PASSWORD 'pw'; GRANT pg_monitor TO mon")
    with Beside(Server(session, Settings(http=0, pg=0, token=TOKEN))).start() as server:
        yield server


def pg(beside: Beside, user: str = "everview", password: str = TOKEN) -> psycopg.Connection[Any]:
    port = next(one.port for one in beside.server.listeners if isinstance(one, PgListener))
    return psycopg.connect(host="127.0.0.1", port=port, user=user, password=password, autocommit=True)


def change(beside: Beside) -> None:
    beside.do(lambda db: db["t"].insert([(1,)]))


def by_pg(beside: Beside, user: str, password: str) -> Iterator[list[Any]]:
    """Rows of `ev.session` with their signs, as they come."""
    with pg(beside, user, password) as db, db.transaction():
        db.execute("DECLARE c CURSOR FOR SUBSCRIBE TO ev.session")
        while True:
            rows = db.execute("FETCH ALL c WITH (timeout = '10s')").fetchall()
            assert rows
            yield [(diff, row[0]) for _, diff, *row in rows]


def by_events(beside: Beside, user: str, password: str) -> Iterator[list[Any]]:
    url = f"{beside.url}/v1/relations/ev.session/events?granularity=0"
    with httpx.stream("GET", url, auth=(user, password), timeout=60, trust_env=False) as answer:
        if answer.status_code != 200:
            answer.read()
            raise ev.InputError(answer.json()["error"]["code"], "refused", "")
        for line in answer.iter_lines():
            if line.startswith("data: "):
                frames = json.loads(line.removeprefix("data: "))
                if "error" in frames:
                    raise ev.InputError(frames["error"]["code"], "ended", "")
                yield [(row[0], int(row[1])) for f in frames if f["type"] != "commit" for row in f["rows"]]


def by_socket(beside: Beside, user: str, password: str) -> Iterator[list[Any]]:
    from websockets.sync.client import connect

    with connect(f"ws://127.0.0.1:{beside.port}/v1/ws") as socket:
        socket.send(json.dumps({"type": "hello", "user": user, "password": password, "granularity": 0}))
        socket.send(json.dumps({"type": "subscribe", "id": 1, "view": "ev.session"}))
        for text in socket:
            frames = json.loads(text)
            if isinstance(frames, list):
                yield [(row[0], int(row[1])) for f in frames if f["type"] != "commit" for row in f["rows"]]
            elif frames["type"] == "error":
                raise ev.InputError(frames["error"]["code"], "refused", "")


WAYS = [by_pg, by_events, by_socket]
Way = Callable[[Beside, str, str], Iterator[list[Any]]]


@pytest.mark.parametrize("way", WAYS)
def test_it_is_followed(beside: Beside, way: Way) -> None:
    told = way(beside, "mon", "pw")
    assert next(told) == [(1, 0)]
    change(beside)
    assert sorted(next(told)) == [(-1, 0), (1, 1)]
    assert beside.do(lambda db: db.time) == 1  # following does not make time pass
    told.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", WAYS)
def test_those_who_may_not_look_do_not_follow(beside: Beside, way: Way) -> None:
    with pytest.raises((ev.InputError, psycopg.errors.InsufficientPrivilege)) as found:
        next(way(beside, "ann", "pw"))
    assert getattr(found.value, "code", "E_FORBIDDEN") == "E_FORBIDDEN"


@pytest.mark.parametrize("way", WAYS)
def test_a_right_that_is_gone_ends_it(beside: Beside, way: Way) -> None:
    told = way(beside, "mon", "pw")
    next(told)
    beside.do(lambda db: db.sql("REVOKE pg_monitor FROM mon"))
    with pytest.raises((ev.InputError, psycopg.errors.InsufficientPrivilege)) as found:
        for _ in range(100):
            change(beside)
            next(told)
    assert getattr(found.value, "code", "E_FORBIDDEN") == "E_FORBIDDEN"


def test_queries_and_views_of_it(beside: Beside) -> None:
    heard: list[Any] = []
    there = threading.Event()

    def hear(batch: Any) -> None:
        heard.extend(row for row, diff in batch.rows() if diff > 0)
        if (2,) in heard:
            there.set()

    client: Any = ev.connect(beside.address, token=TOKEN)
    with client as db:
        db.sql("CREATE VIEW ev.busy AS SELECT count(*) AS views FROM ev.views")
        stop = db.subscribe("SELECT views FROM ev.busy", hear)
        db.sql("CREATE VIEW m AS SELECT max(x) AS m FROM t")
        assert there.wait(30)
        stop()
    assert heard[0] == (1,)


def test_a_connection_follows_one_or_the_other(beside: Beside) -> None:
    async def main() -> list[Any]:
        async with websockets.connect(f"ws://127.0.0.1:{beside.port}/v1/ws") as socket:
            await socket.send(json.dumps({"type": "hello", "token": TOKEN}))
            await socket.recv()
            codes = []
            for message in (
                {"views": [{"id": 1, "view": "ev.session"}, {"id": 2, "view": "n"}]},
                {"id": 3, "view": "n"},
                {"id": 4, "query": "SELECT * FROM ev.session"},
            ):
                await socket.send(json.dumps({"type": "subscribe", **message}))
                while isinstance(told := json.loads(await socket.recv()), list):
                    pass
                codes.append(told["error"]["code"] if told["type"] == "error" else told["type"])
            return codes

    assert asyncio.run(main()) == ["E_UNSUPPORTED", "subscribed", "E_UNSUPPORTED"]


def test_who_is_connected_and_what_they_follow(beside: Beside) -> None:
    with pg(beside) as one, pg(beside, "ann", "pw") as other:
        other.execute("SELECT 1 AS one")
        followed = by_socket(beside, "mon", "pw")
        next(followed)
        sessions = one.execute('SELECT protocol, "user", state, statement FROM ev.sessions ORDER BY id').fetchall()
        assert sessions[1:] == [("pg", "ann", "idle", "SELECT 1 AS one"), ("ws", "mon", "following", "")]
        assert sessions[0][:3] == ("pg", "everview", "active")
        rows = one.execute("SELECT relation FROM ev.followers").fetchall()
        assert rows == [("ev.session",)]
        one.execute("BEGIN")
        other.execute("DECLARE c CURSOR WITH HOLD FOR SELECT 1")
        states = beside.do(lambda db: db.sql("SELECT state FROM ev.sessions ORDER BY id").rows())
        assert states == [("idle in transaction",), ("idle",), ("following",)]
        followed.close()  # type: ignore[attr-defined]


def test_the_catalogue_lists_it_for_those_who_may_look(beside: Beside) -> None:
    asked = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'ev'"
    with pg(beside) as all_of_it, pg(beside, "mon", "pw") as monitor, pg(beside, "ann", "pw") as nobody:
        names = {name for (name,) in all_of_it.execute(asked)}
        assert {"operators", "steps", "sessions", "quotas"} <= names
        assert {name for (name,) in monitor.execute(asked)} == names
        assert nobody.execute(asked).fetchall() == []
        for name in names:
            columns = f"SELECT column_name FROM information_schema.columns WHERE table_name = '{name}'"
            columns += " AND table_schema = 'ev' ORDER BY ordinal_position"
            found = all_of_it.execute(f"SELECT * FROM ev.{name} LIMIT 0")
            assert [c.name for c in found.description or ()] == [c for (c,) in all_of_it.execute(columns)]
