"""Whatever another tenant does, one's own frames stay the same, byte by byte but for the numbers of times.

Times count the transactions of the whole database, so they show *that* others have committed, and nothing else. The
test replaces each by its rank among those that the client was told.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
import websockets

from everview.errors import EverviewError
from tests.server.tenants.conftest import Tenants

QUERIES = ["SELECT v, count(*) AS c FROM doc GROUP BY v", "SELECT id, v::int AS n FROM doc WHERE id < 100"]


def masked(texts: list[str]) -> list[str]:
    """Frames without the numbers of times and without names of subscriptions, which are random."""
    found = []
    for text in texts:
        text = re.sub(r'"(time|from|to|start|stop)": ?-?\d+', r'"\1": T', text)
        found.append(re.sub(r'"(resume|incarnation)": ?"[^"]*"', r'"\1": R', text))
    return found


async def followed(tenants: Tenants, act: Callable[[int], None], steps: int) -> list[str]:
    """What Ann is told over a WebSocket while she, and others, do something."""
    told: list[str] = []
    address = tenants.beside.url.replace("http", "ws") + "/v1/ws"
    async with websockets.connect(address) as socket:
        await socket.send(json.dumps({"type": "hello", "token": tenants.tokens["ann"], "granularity": 0}))
        told.append(str(await socket.recv()))
        views = [{"id": 1, "view": "doc"}, {"id": 2, "view": "total"}]
        views += [{"id": 3 + i, "query": query} for i, query in enumerate(QUERIES)]
        await socket.send(json.dumps({"type": "subscribe", "views": views}))
        loop = asyncio.get_running_loop()
        with tenants.http("ann") as http:
            for step in range(steps):
                await loop.run_in_executor(None, act, step)
                row = {"sql": f"INSERT INTO doc VALUES ({10 + step}, 'a', '{step}')"}
                answer = await loop.run_in_executor(None, partial(http.post, "/v1/sql", json=row))
                assert answer.status_code == 200, answer.text
                while True:  # until her own row has come, in all that she follows
                    text = str(await asyncio.wait_for(socket.recv(), 30))
                    told.append(text)
                    if f'"{10 + step}"' in text:
                        break
    return told


def nothing(step: int) -> None:
    pass


@pytest.fixture
def bob(tenants: Tenants) -> Iterator[Callable[[int], None]]:
    """Bob does all sorts of things, most of them wrong."""
    with tenants.psycopg("bob") as db, tenants.http("bob") as http:

        def act(step: int) -> None:
            for text in (
                f"INSERT INTO doc VALUES ({1000 + step}, 'b', 'not a number')",
                f"INSERT INTO doc VALUES ({2000 + step}, 'a', 'not his')",
                "UPDATE doc SET v = v || '!'",
                "SELECT v::int FROM doc",
                "DELETE FROM doc WHERE id = 1",
                f"CREATE VIEW v{step} AS SELECT 1 / 0 AS x",
                "DROP TABLE doc",
                "SELECT * FROM secret",
            ):
                with contextlib.suppress(psycopg.Error):
                    db.execute(text)
            http.post("/v1/tables/doc/rows", content='{"id": 1, "tenant": "a", "v": "9"}')
            http.post("/v1/sql", json={"sql": "SUBSCRIBE TO doc"})

        yield act


def test_whatever_bob_does_ann_is_told_the_same(tenants: Tenants, bob: Callable[[int], None]) -> None:
    alone = masked(asyncio.run(followed(tenants, nothing, 4)))
    tenants.sql("DELETE FROM doc WHERE id >= 10")
    beside = masked(asyncio.run(followed(tenants, bob, 4)))

    def rows(texts: list[str]) -> list[Any]:
        """The frames that have rows, several views' changes of one time in one."""
        return [t for t in texts if '"rows"' in t or '"changes"' in t or '"frames"' in t]

    assert rows(alone) and len(rows(alone)) == len(rows(beside))
    assert rows(alone) == rows(beside)


def test_errors_of_one_are_nothing_to_the_other(tenants: Tenants) -> None:
    """Bob's 'x' cannot be cast. Ann reads, follows and fetches; Bob is told, without a row."""
    text = "SELECT id, v::int AS n FROM doc"
    with tenants.psycopg("ann") as ann, tenants.psycopg("bob") as bob:
        assert sorted(ann.execute(text).fetchall()) == [(1, 1), (3, 5)]
        with pytest.raises(psycopg.Error) as error:
            bob.execute(text)
        assert "example" not in str(error.value)
        ann.execute("BEGIN")
        ann.execute(f"DECLARE c CURSOR FOR SUBSCRIBE TO ({text})")
        found = ann.execute("FETCH ALL c").fetchall()
        assert sorted(row[2:] for row in found) == [(1, 1), (3, 5)]
        ann.execute("COMMIT")
        with ann.cursor() as cursor, cursor.copy("COPY (SELECT v FROM doc ORDER BY id) TO STDOUT") as copy:
            assert b"".join(map(bytes, copy)) == b"1\n5\n"
        refused = pytest.raises(psycopg.errors.InsufficientPrivilege)
        with ann.cursor() as cursor, refused, cursor.copy("COPY doc FROM STDIN") as copy:
            copy.write_row((77, "b", "z"))
        assert ann.execute("SELECT id FROM doc WHERE id = %s", (2,)).fetchall() == []
        for _ in range(7):  # prepared by the driver, and looked up at once
            assert ann.execute("SELECT id FROM doc WHERE id = %s", (1,), prepare=True).fetchall() == [(1,)]
            assert bob.execute("SELECT id FROM doc WHERE id = %s", (1,), prepare=True).fetchall() == []


def test_explain_tells_nothing_of_others(tenants: Tenants) -> None:
    with tenants.psycopg("ann") as ann:
        lines = "\n".join(line for (line,) in ann.execute("EXPLAIN SELECT v, count(*) FROM doc GROUP BY v").fetchall())
        assert "sharing: one dataflow for all values of tenant" in lines
        assert "bytes" not in lines and "kept:" not in lines and "'b'" not in lines
        lines = "\n".join(line for (line,) in ann.execute("EXPLAIN SELECT * FROM doc").fetchall())
        assert "sharing: doc is kept for everybody; what changes is parted by tenant" in lines


def test_a_quick_look_up_ends_with_the_right(tenants: Tenants) -> None:
    tenants.sql("CREATE TABLE open (id int PRIMARY KEY, v text); INSERT INTO open VALUES (1, 'x')")
    tenants.sql("GRANT SELECT ON open TO app")
    with tenants.psycopg("ann") as ann:
        for _ in range(7):
            assert ann.execute("SELECT v FROM open WHERE id = %s", (1,), prepare=True).fetchall() == [("x",)]
        tenants.sql("REVOKE SELECT ON open FROM app")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ann.execute("SELECT v FROM open WHERE id = %s", (1,), prepare=True)
        tenants.sql("DROP TOKEN t_ann FOR ROLE ann")
        with tenants.http("ann") as http:
            assert http.post("/v1/sql", json={"sql": "SELECT 1"}).status_code == 401


# quotas


def test_quotas_refuse_what_is_too_much(tenants: Tenants) -> None:
    tenants.sql("GRANT CREATE ON SCHEMA public TO app")
    tenants.sql("ALTER ROLE ann QUOTA (connections 2, subscriptions 1, views 1, rows 3, milliseconds 60000)")

    def state(work: Callable[[], Any]) -> str:
        with pytest.raises(psycopg.Error) as error:
            work()
        return str(error.value.sqlstate)

    with tenants.psycopg("ann") as one, tenants.psycopg("ann") as two:
        with pytest.raises(psycopg.OperationalError, match="may have 2 connections"):
            tenants.psycopg("ann")
        one.execute("CREATE TABLE mine (x int)")
        assert state(lambda: one.execute("CREATE VIEW more AS SELECT * FROM mine")) == "53400"
        assert state(lambda: one.execute("INSERT INTO mine SELECT generate_series(1, 4)")) == "53400"
        one.execute("INSERT INTO mine VALUES (1), (2), (3)")
        one.execute("INSERT INTO mine VALUES (4)")
        assert state(lambda: one.execute("SELECT * FROM mine")) == "53400"
        two.execute("BEGIN")
        two.execute("DECLARE c CURSOR FOR SUBSCRIBE TO doc")
        one.execute("BEGIN")
        assert state(lambda: one.execute("DECLARE c CURSOR FOR SUBSCRIBE TO doc")) == "53400"
        one.execute("ROLLBACK")
        used = {(what, u) for _, what, u, _ in one.execute("SELECT * FROM ev.quotas").fetchall()}
        assert {("connections", 2.0), ("subscriptions", 1.0), ("views", 1.0)} <= used
        assert state(lambda: one.execute("SELECT * FROM ev.views")) == "42501"
    tenants.sql("ALTER ROLE bob QUOTA (rate 2)")
    with tenants.http("bob") as http:
        codes = [http.post("/v1/sql", json={"sql": "SELECT 1"}).status_code for _ in range(6)]
        assert 429 in codes and codes[0] == 200
    tenants.sql("ALTER ROLE bob QUOTA (rate NONE, views 7)")
    with tenants.psycopg("bob") as bob:
        assert bob.execute("SELECT DISTINCT role FROM ev.quotas").fetchall() == [("bob",)]
    tenants.sql("ALTER ROLE bob QUOTA (milliseconds 1)")
    with tenants.psycopg("bob") as bob:
        assert state(lambda: bob.execute("SELECT count(*) FROM generate_series(1, 3000000) g")) == "57014"


def test_rows_of_a_statement_are_counted_at_every_door(tenants: Tenants) -> None:
    tenants.sql("GRANT CREATE ON SCHEMA public TO app")
    tenants.sql("ALTER ROLE ann QUOTA (rows 3)")
    with tenants.psycopg("ann") as one, tenants.http("ann") as http:
        one.execute("CREATE TABLE few (x int)")
        one.execute("INSERT INTO few VALUES (1), (2), (3)")
        assert http.get("/v1/relations/few/rows").status_code == 200
        one.execute("INSERT INTO few VALUES (4)")
        at = http.get("/v1/relations").json()["time"]
        for path in ("rows", f"rows?as_of={at}", f"changes?since={at - 2}"):
            found = http.get(f"/v1/relations/few/{path}")
            assert (found.status_code, found.json()["error"]["code"]) == (429, "E_QUOTA"), found.text
        assert http.post("/v1/sql", json={"sql": "TABLE few"}).status_code == 429
        with pytest.raises(psycopg.Error, match="rows"):
            one.execute("SELECT * FROM few")
        one.execute("BEGIN")
        with pytest.raises(psycopg.Error, match="rows"):
            one.execute("DECLARE c CURSOR FOR SUBSCRIBE TO few")
        one.execute("ROLLBACK")
    client = tenants.client("ann")
    try:
        for ask in (client["few"].rows, client["few"].to_arrow, lambda: client["few"].changes(at - 2)):
            with pytest.raises(EverviewError) as error:
                ask()
            assert error.value.code == "E_QUOTA"
    finally:
        client.close()
    tenants.sql("ALTER ROLE ann QUOTA (rows NONE)")


def test_one_who_asks_much_does_not_keep_others_waiting(tenants: Tenants) -> None:
    """Bob has a hundred calls waiting; Ann's next one is done after at most one or two of them."""
    engine, done = tenants.beside.server.engine, []
    hold = threading.Event()
    loop = tenants.beside.loop

    async def flood() -> None:
        from everview.session.rights.principal import Principal, acting

        async def ask(role: str, number: int) -> None:
            await engine.run(lambda db: done.append((role, number)))

        blocked = asyncio.ensure_future(engine.run(lambda db: hold.wait(30)))
        await asyncio.sleep(0.05)
        tasks = []
        for number in range(100):
            with acting(Principal("bob", {"tenant": "b"})):
                tasks.append(asyncio.create_task(ask("bob", number)))
        await asyncio.sleep(0.05)
        with acting(Principal("ann", {"tenant": "a"})):
            tasks.append(asyncio.create_task(ask("ann", 0)))
        await asyncio.sleep(0.05)
        hold.set()
        await asyncio.gather(blocked, *tasks)

    asyncio.run_coroutine_threadsafe(flood(), loop).result(60)
    assert done.index(("ann", 0)) <= 2
    assert [n for role, n in done if role == "bob"] == list(range(100))
