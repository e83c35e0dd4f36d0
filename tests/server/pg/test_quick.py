"""Prepared look-ups by key give what the same question gives otherwise, whatever happens in between."""

from __future__ import annotations

import random
import struct
import time
from typing import Any

import pytest

from everview.server.pg import messages, pipelined_lookups
from tests.server.pg.conftest import Running
from tests.server.pg.test_wire import Raw, startup

psycopg = pytest.importorskip("psycopg")

LOOK = "SELECT v, k FROM kv WHERE k = %s"


def connect(server: Running, **options: Any) -> Any:
    made = {"autocommit": True, "connect_timeout": 30, "prepare_threshold": 0, **options}
    return psycopg.connect(server.dsn, **made)


@pytest.fixture
def kv(fresh: Running) -> Running:
    def setup(db: Any) -> None:
        db.sql("CREATE TABLE kv (k int PRIMARY KEY, v text, w int)")
        db["kv"].insert([(i, f"v{i}", i % 7) for i in range(100)])
        db.sql("CREATE VIEW by_w AS SELECT w, count(*) AS n FROM kv GROUP BY w")

    fresh.do(setup)
    return fresh


def way(server: Running) -> list[bool]:
    """For each prepared statement of all connections, whether it is a look-up."""
    return [p.quick is not None for client, _ in server.listener.clients.values() for p in client.prepared.values()]


def test_which_statements_are_look_ups(kv: Running) -> None:
    texts = {
        LOOK: True,
        "SELECT * FROM kv WHERE %s = k": True,
        "SELECT n FROM by_w WHERE w = %s": True,
        "SELECT v FROM kv WHERE v = %s": False,
        "SELECT v FROM kv WHERE k > %s": False,
        "SELECT v FROM kv WHERE k = %s AND w = 1": False,
        "SELECT upper(v) FROM kv WHERE k = %s": False,
        "SELECT count(*) FROM kv WHERE k = %s": False,
        "SELECT v FROM kv WHERE k = %s LIMIT 1": False,
        "SELECT v FROM kv WHERE k = %s + 1": False,
    }
    for text, wanted in texts.items():
        with connect(kv) as db:
            db.execute(text, ("v1" if "v = " in text else 1,))
            assert way(kv) == [wanted], text


def test_random_changes_are_seen_at_once(kv: Running) -> None:
    chance = random.Random(5)
    with connect(kv) as db, connect(kv) as writer:
        for _ in range(60):
            key = chance.randrange(110)
            match chance.randrange(3):
                case 0:
                    writer.execute("DELETE FROM kv WHERE k = %s", (key,))
                case 1:
                    writer.execute("INSERT INTO kv VALUES (%s, %s, 1) ON CONFLICT DO NOTHING", (key, f"n{key}"))
                case _:
                    writer.execute("UPDATE kv SET v = v || '!' WHERE k = %s", (key,))
            plain = db.execute(f"SELECT v, k FROM kv WHERE k = {key}").fetchall()
            assert db.execute(LOOK, (key,)).fetchall() == plain
        assert db.execute(LOOK, (None,)).fetchall() == []


def test_an_open_transaction_sees_its_own_changes(kv: Running) -> None:
    with connect(kv, autocommit=False) as db:
        assert db.execute(LOOK, (1,)).fetchall() == [("v1", 1)]
        db.execute("UPDATE kv SET v = 'mine' WHERE k = 1")
        assert db.execute(LOOK, (1,)).fetchall() == [("mine", 1)]
        db.rollback()
        assert db.execute(LOOK, (1,)).fetchall() == [("v1", 1)]


def test_indexes_tables_and_views_that_go(kv: Running) -> None:
    kv.do(lambda s: s.sql("CREATE INDEX kv_w ON kv (w)"))
    with connect(kv) as db:
        text = "SELECT k FROM kv WHERE w = %s"
        first = sorted(db.execute(text, (3,)).fetchall())
        assert way(kv) == [True] and len(first) == 14
        kv.do(lambda s: s.sql("DROP INDEX kv_w"))
        assert sorted(db.execute(text, (3,)).fetchall()) == first
        kv.do(lambda s: s.sql("ALTER TABLE kv ADD COLUMN more int"))
        assert sorted(db.execute(text, (3,)).fetchall()) == first
        kv.do(lambda s: s["kv"].drop(cascade=True))
        with pytest.raises(psycopg.errors.UndefinedTable):
            db.execute(text, (3,))


def test_a_look_up_means_what_the_search_path_says_now(kv: Running) -> None:
    """A prepared look-up is bound again when another table has its name: by SET search_path, or because one is made."""
    kv.do(lambda db: db.sql("CREATE SCHEMA s; CREATE TABLE s.other (k int)"))
    with connect(kv) as db:

        def asked() -> Any:
            found = [db.execute(LOOK, (1,)).fetchall() for _ in range(4)]
            assert found == found[:1] * 4
            return found[0]

        assert asked() == [("v1", 1)]
        db.execute("SET search_path = s, public")
        assert asked() == [("v1", 1)]
        kv.do(lambda db: db.sql("CREATE TABLE s.kv (k int PRIMARY KEY, v text); INSERT INTO s.kv VALUES (1, 'of s')"))
        assert asked() == [("of s", 1)]
        db.execute("SET search_path = public")
        assert asked() == [("v1", 1)]
        with db.transaction():
            db.execute("SET LOCAL search_path = s")
            assert asked() == [("of s", 1)]
        assert asked() == [("v1", 1)]
        kv.do(lambda db: db.sql("CREATE TABLE elsewhere (x int); CREATE ROLE somebody"))
        assert asked() == [("v1", 1)]
        assert any(way(kv)), "it is a look-up again"
        kv.do(lambda db: db.sql("DROP TABLE kv CASCADE; CREATE TABLE kv (k int PRIMARY KEY, v float)"))
        with pytest.raises(psycopg.Error):
            asked()


def test_rows_that_are_there_twice_come_twice(kv: Running) -> None:
    text = "CREATE TABLE bag (x int); CREATE INDEX bag_x ON bag (x); INSERT INTO bag VALUES (1), (1), (2)"
    kv.do(lambda s: s.sql(text))
    with connect(kv) as db:
        assert db.execute("SELECT x FROM bag WHERE x = %s", (1,)).fetchall() == [(1,), (1,)]
        assert way(kv) == [True]


def _bound(key: bytes | None, *, portal: bytes = b"", described: bool = True, limit: int = 0) -> bytes:
    """Bind, Describe, Execute and Sync of the statement `s`, as a driver sends them."""
    value = struct.pack(">i", -1) if key is None else struct.pack(">i", len(key)) + key
    bind = portal + b"\0s\0" + struct.pack(">hhh", 1, 1, 1) + value + struct.pack(">hh", 1, 0)
    parts = [messages.message(b"B", bind)]
    parts += [messages.message(b"D", b"P" + portal + b"\0")] * described
    parts += [messages.message(b"E", portal + b"\0" + struct.pack(">i", limit)), messages.message(b"S")]
    return b"".join(parts)


def _until_ready(client: Raw, times: int = 1) -> bytes:
    found = b""
    while times:
        kind, body = client.message()
        found += messages.message(kind, body)
        times -= kind == b"Z"
    return found


def test_answered_at_once_as_message_by_message(kv: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes come back, together or in pieces, with mistakes in them or without."""
    asked = [
        _bound(struct.pack(">q", 7)),
        _bound(struct.pack(">q", 7), described=False),
        _bound(struct.pack(">q", 1000)),
        _bound(struct.pack(">q", 3)) * 5,
        _bound(None),
        _bound(b"abc"),
        _bound(struct.pack(">q", 7), portal=b"p"),
        _bound(struct.pack(">q", 7), limit=1),
        _bound(struct.pack(">q", 7))[:-5] + _bound(struct.pack(">q", 8)),
    ]

    def answers() -> list[bytes]:
        client = Raw(kv.port, startup())
        _until_ready(client)
        text = b"s\0SELECT v, k FROM kv WHERE k = $1\0" + struct.pack(">hI", 1, 20)
        client.socket.sendall(messages.message(b"P", text) + messages.message(b"S"))
        _until_ready(client)
        found = []
        for data in asked:
            client.socket.sendall(data)
            found.append(_until_ready(client, data.count(b"S\0\0\0\4")))
        client.socket.sendall(asked[0][:9])
        time.sleep(0.05)
        client.socket.sendall(asked[0][9:])
        found.append(_until_ready(client))
        client.close()
        return found

    taken, answer = [], pipelined_lookups.answer

    def noted(*given: Any) -> Any:
        taken.append(answer(*given))
        return taken[-1]

    monkeypatch.setattr(pipelined_lookups, "answer", noted)
    quickly = answers()
    assert sum(found is not None for found in taken) >= 9
    monkeypatch.setattr(pipelined_lookups, "answer", lambda *_: None)
    assert answers() == quickly


def test_look_ups_of_many_rows_and_values_that_are_missing(kv: Running) -> None:
    """The short way of a second look-up: no row, some, copies of one, more than there is room for, NULLs."""
    kv.do(lambda s: s.sql("CREATE TABLE bag (k int, v text, x double); CREATE INDEX bag_k ON bag (k)"))
    rows = [(1, None, None), (2, "a", 1.5), (2, "a", 1.5), (2, "b", None), *((3, f"v{i}", i / 4) for i in range(700))]
    kv.do(lambda s: s["bag"].insert(rows))
    with psycopg.connect(kv.dsn, autocommit=True, prepare_threshold=0) as db:
        for binary in (True, False):
            with db.cursor(binary=binary) as cursor:
                for key in (2, 0, 1, 2, 3, 2, 1, 0, 3):
                    found = cursor.execute("SELECT x, v FROM bag WHERE k = %s", (key,)).fetchall()
                    assert sorted(found, key=repr) == sorted(((x, v) for k, v, x in rows if k == key), key=repr)


def test_shapes_of_statements_that_are_prepared_again(kv: Running) -> None:
    """The bytes are the same, the statement is another one."""
    client = Raw(kv.port, startup())
    _until_ready(client)
    for text, shown in ((b"SELECT v, k FROM kv WHERE k = $1", b"7"), (b"SELECT k, k FROM kv WHERE k = $1", b"7")):
        parse = messages.message(b"P", b"s\0" + text + b"\0" + struct.pack(">hI", 1, 20))
        client.socket.sendall(messages.message(b"C", b"Ss\0") + parse + messages.message(b"S"))
        _until_ready(client)
        first = []
        for _ in range(3):
            client.socket.sendall(_bound(struct.pack(">q", 7)))
            first.append(_until_ready(client))
        assert first[0] == first[1] == first[2] and shown in first[0]
    client.close()
