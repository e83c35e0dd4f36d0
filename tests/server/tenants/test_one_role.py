"""Tenants that share a role, and differ in attributes: JWTs say which. Whatever is shared by role must not be theirs.

What they follow has the same text, the same role and the same name; only whose rows it has differs.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest
from websockets.sync.client import connect

import everview as ev
from everview.errors import EverviewError
from everview.server.http.answers import query_key
from everview.server.jwt import sign
from everview.session.rights.principal import Principal, acting
from tests.server.tenants.conftest import SECRET, Tenants

WANTED = [
    {"view": "doc"},
    {"query": "SELECT id, tenant FROM doc"},
    {"query": "SELECT id, current_setting('tenant') AS t FROM doc"},
    {"query": "SELECT id, tenant FROM doc WHERE tenant = current_setting('tenant')"},
    {"view": "seen"},
]
OWN = {"a": {1, 3}, "b": {2}}


def token(tenant: str) -> str:
    return sign({"role": "tok", "tenant": tenant, "exp": time.time() + 600}, SECRET)


@pytest.fixture
def shared(tenants: Tenants) -> Tenants:
    tenants.sql("GRANT CREATE ON SCHEMA public TO app; CREATE VIEW seen AS SELECT id, tenant FROM doc WHERE id > 0")
    tenants.sql("GRANT SELECT ON seen TO app; CREATE POLICY own ON seen USING (tenant = current_setting('tenant'))")
    tenants.sql("ALTER VIEW seen ENABLE ROW LEVEL SECURITY")
    return tenants


@contextlib.contextmanager
def following(tenants: Tenants, tenant: str, wanted: dict[str, str]) -> Iterator[tuple[Any, set[int], list[str]]]:
    """A WebSocket, the keys that it has told, and its resume tokens."""
    found, resume = set[int](), list[str]()
    with connect(tenants.beside.url.replace("http", "ws") + "/v1/ws") as socket:
        socket.send(json.dumps({"type": "hello", "token": token(tenant), "granularity": 0}))
        socket.send(json.dumps({"type": "subscribe", "id": 1, **wanted}))

        def until(key: int) -> set[int]:
            while key not in found:
                frames = json.loads(socket.recv(30))
                assert isinstance(frames, list) or frames["type"] != "error", frames
                if isinstance(frames, dict):
                    resume.extend([frames["resume"]] if "resume" in frames else [])
                    continue
                found.update(int(row[1]) for frame in frames for row in frame.get("rows", ()))
            return found

        yield until, found, resume


@pytest.mark.parametrize("wanted", WANTED, ids=[str(i) for i in range(len(WANTED))])
def test_streams_are_apart(shared: Tenants, wanted: dict[str, str]) -> None:
    with (
        following(shared, "a", wanted) as (of_a, heard_a, resume_a),
        following(shared, "b", wanted) as (of_b, heard_b, _),
    ):
        of_a(1), of_b(2)
        shared.sql("INSERT INTO doc VALUES (10, 'a', ''), (11, 'b', '')")
        assert of_a(10) == {1, 3, 10} and of_b(11) == {2, 11}
        shared.sql("INSERT INTO doc VALUES (12, 'a', ''), (13, 'b', '')")
        of_a(12), of_b(13)
    assert heard_a == {1, 3, 10, 12} and heard_b == {2, 11, 13}
    with following(shared, "b", {**wanted, "resume": f"{resume_a[0].rpartition('.')[0]}.0"}) as (again, heard, _):
        again(2)  # another's token: the contents anew, one's own
    assert heard == {2, 11, 13}


def test_events_are_apart(shared: Tenants) -> None:
    for wanted in WANTED:
        for tenant in ("a", "b", "a"):
            headers = {"authorization": f"Bearer {token(tenant)}"}
            with httpx.Client(base_url=shared.beside.url, headers=headers, timeout=30) as http:
                ask = ("GET", f"/v1/relations/{wanted['view']}/events") if "view" in wanted else ("POST", "/v1/events")
                with http.stream(*ask, content=wanted.get("query", "")) as told:
                    frames = next(line for line in told.iter_lines() if line.startswith("data: "))
                rows = [row for frame in json.loads(frames[6:]) for row in frame.get("rows", ())]
                assert {int(row[1]) for row in rows} == OWN[tenant], wanted


def test_reads_are_apart(shared: Tenants) -> None:
    """In turns, so that whatever the one has left is there for the other: look-ups, prepared statements, cursors."""
    sessions = {}
    for tenant in OWN:
        sessions[tenant] = psycopg.connect(
            host="127.0.0.1", port=shared.pg, user="tok", password=token(tenant), autocommit=True
        )
    try:
        for _ in range(7):
            for tenant, db in sessions.items():
                for text in ("SELECT id FROM doc", "SELECT id FROM seen", "TABLE doc"):
                    assert {row[0] for row in db.execute(text).fetchall()} == OWN[tenant]
                    assert {row[0] for row in db.execute(text, prepare=True).fetchall()} == OWN[tenant]
                for key in (1, 2, 3):
                    for text in ("SELECT id FROM doc WHERE id = %s", "UPDATE doc SET v = v WHERE id = %s RETURNING id"):
                        found = {row[0] for row in db.execute(text, (key,), prepare=True).fetchall()}
                        assert found == {key} & OWN[tenant], text
                db.execute("BEGIN")
                db.execute("DECLARE c CURSOR FOR SUBSCRIBE TO (SELECT id FROM doc)")
                assert {row[2] for row in db.execute("FETCH ALL c").fetchall()} == OWN[tenant]
                db.execute("COMMIT")
                with db.cursor() as cursor, cursor.copy("COPY (SELECT id FROM doc) TO STDOUT") as copy:
                    assert {int(line) for line in b"".join(map(bytes, copy)).split()} == OWN[tenant]
    finally:
        for db in sessions.values():
            db.close()


def test_what_the_one_keeps_is_not_the_others(shared: Tenants) -> None:
    """Views, prepared queries, rules and idempotency keys of a role."""
    one: Any
    other: Any
    with (
        ev.connect(shared.beside.address, token=token("a")) as one,
        ev.connect(shared.beside.address, token=token("b")) as other,
    ):
        one.sql("CREATE VIEW kept AS SELECT id FROM doc")
        asked = one.prepare("asked", "SELECT id FROM doc WHERE id > $least")
        assert {row[0] for row in asked(least=0).rows()} == {1, 3}
        one.datalog("rule(X) :- doc(X, _, _).")
        one.view("plan", one["doc"].select("id"))
        for name in ("kept", "asked", "rule", "plan"):
            assert len(one[name].rows()) == 2
            for ask in (
                lambda name=name: other.sql(f"SELECT * FROM {name}"),
                lambda name=name: other._call("rows", {"name": name}),
                lambda name=name: other._call("changes", {"name": name, "since": 0}),
                lambda name=name: other._call("lookup", {"name": name, "key": 1}),
                lambda name=name: other.sql(f"CREATE VIEW above AS SELECT * FROM {name}"),
                lambda name=name: other.datalog(f"more(X) :- {name}(X)."),
            ):
                with pytest.raises(EverviewError) as error:
                    ask()
                assert error.value.code == "E_FORBIDDEN", (name, error.value)
        with pytest.raises(EverviewError) as error:
            other._call("execute", {"name": "asked", "values": [0], "named": {}})
        assert error.value.code == "E_FORBIDDEN"
        head = {"name": "doc", "how": "insert", "rows": [[20, "a", ""]]}
        one._call("change", {"key": "k", "steps": [head]})
        with pytest.raises(EverviewError) as error:
            other._call("change", {"key": "k", "steps": [{**head, "rows": [[21, "b", ""]]}]})
        assert error.value.code == "E_KEY"


def test_the_one_does_not_cancel_the_others_requests() -> None:
    """Clients choose the names of their requests: both may choose the same."""
    keys = []
    for who in (None, Principal("tok", {"tenant": "a"}), Principal("tok", {"tenant": "b"}), Principal("ann", {})):
        with acting(who):
            keys += [query_key("q"), query_key("q")]
    assert len({*keys}) == 4 and keys[2] == keys[3] and query_key(None) is None
