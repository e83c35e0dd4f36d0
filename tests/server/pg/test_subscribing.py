"""SUBSCRIBE: streamed, by FETCH and by COPY, with all its options, against the view's contents."""

from __future__ import annotations

import random
import threading
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

import everview as ev
from tests.server.pg.conftest import Running, running

psycopg = pytest.importorskip("psycopg")


def connect(server: Running, **options: Any) -> Any:
    return psycopg.connect(server.dsn, **{"autocommit": True, "connect_timeout": 30, **options})


def insert(server: Running, *rows: tuple[int, str, int]) -> int:
    """Insert rows, each in a transaction of its own; the time afterwards."""

    def work(db: Any) -> int:
        for key, shop, amount in rows:
            db.sql(f"INSERT INTO sale (id, shop, amount) VALUES ({key}, '{shop}', {amount})")
        return int(db.time)

    found: int = server.do(work)
    return found


def stream(server: Running, text: str, count: int, then: Any = lambda: None) -> list[tuple[Any, ...]]:
    """The first rows of a stream; `then` is called when the first of them has come."""
    found: list[tuple[Any, ...]] = []
    with connect(server) as db:
        rows = db.cursor().stream(text)
        for row in rows:
            found.append(row)
            if len(found) == 1:
                then()
            if len(found) == count:
                break
        rows.close()  # sends a request to cancel, and waits for the answer
        assert db.execute("SELECT 1").fetchone() == (1,)
    return found


def test_a_stream_has_what_is_there_and_what_changes(fresh: Running) -> None:
    start = fresh.do(lambda s: s.time)
    found = stream(fresh, "SUBSCRIBE TO total", 4, lambda: insert(fresh, (3, "north", 1)))
    assert sorted(found[:2]) == [(start, 1, "north", Decimal("5.50"), 1), (start, 1, "south", Decimal("-0.25"), 1)]
    assert sorted(found[2:]) == [
        (start + 1, -1, "north", Decimal("5.50"), 1),
        (start + 1, 1, "north", Decimal("6.50"), 2),
    ]


def test_a_stream_of_a_query_leaves_no_view_behind(fresh: Running) -> None:
    text = "SUBSCRIBE TO (SELECT count(*) AS n FROM sale) WITH (SNAPSHOT)"
    found = stream(fresh, text, 3, lambda: insert(fresh, (3, "x", 1)))
    assert [row[1:] for row in found] == [(1, 2), (-1, 2), (1, 3)]
    assert fresh.do(lambda s: [v for v in s._core.catalog.views if v.startswith("(")]) == []


def test_up_to_ends_the_stream_and_as_of_begins_it_earlier(fresh: Running) -> None:
    start = fresh.do(lambda s: s.time)
    now = insert(fresh, (3, "a", 1), (4, "b", 1), (5, "c", 1))
    with connect(fresh) as db:
        rows = db.execute(f"SUBSCRIBE TO sale WITH (SNAPSHOT = false) AS OF {start} UP TO {now}").fetchall()
        assert [(row[0], row[1], row[2]) for row in rows] == [(start + 1, 1, 3), (start + 2, 1, 4)]
        both = db.execute(f"SUBSCRIBE TO sale AS OF {start + 1} UP TO {now + 1}").fetchall()
    assert Counter((row[0], row[2]) for row in both) == Counter(
        [(start + 1, 1), (start + 1, 2), (start + 1, 3), (start + 2, 4), (start + 3, 5)]
    )


def test_progress_says_how_far_time_has_come(fresh: Running) -> None:
    start = fresh.do(lambda s: s.time)
    fresh.do(lambda s: s.sql("CREATE TABLE other (x int)"))
    with connect(fresh) as db:
        with db.cursor().copy("COPY (SUBSCRIBE TO total WITH (PROGRESS, SNAPSHOT = false)) TO STDOUT") as copy:
            copy.set_types(["int8", "bool", "int8", "text", "numeric", "int8"])
            rows = copy.rows()
            assert next(rows) == (start, True, None, None, None, None)
            time = fresh.do(lambda s: s.sql("INSERT INTO other VALUES (1)") or s.time)
            assert next(rows)[:2] == (time + 1, True)
            db.cancel_safe(timeout=30)
            with pytest.raises(psycopg.errors.QueryCanceled):
                list(rows)
        assert db.execute("SELECT 1").fetchone() == (1,)


def test_upserts_are_one_row_for_each_key(fresh: Running) -> None:
    fresh.do(lambda s: s.sql("CREATE TABLE kv (k int, v text); INSERT INTO kv VALUES (1, 'one')"))
    now = fresh.do(lambda s: s.time)
    for text in (
        "INSERT INTO kv VALUES (2, 'two')",
        "UPDATE kv SET v = 'uno' WHERE k = 1",
        "INSERT INTO kv VALUES (1, 'ein')",
        "DELETE FROM kv WHERE k = 2",
    ):
        fresh.do(lambda s, text=text: s.sql(text))
    with connect(fresh) as db:
        cursor = db.execute(f"SUBSCRIBE TO kv ENVELOPE UPSERT (KEY (k)) AS OF {now} UP TO {now + 5}")
        assert [c.name for c in cursor.description] == ["ev_time", "ev_state", "k", "v"]
        assert cursor.fetchall() == [
            (now, "upsert", 1, "one"),
            (now + 1, "upsert", 2, "two"),
            (now + 2, "upsert", 1, "uno"),
            (now + 3, "key_violation", 1, None),
            (now + 4, "delete", 2, None),
        ]


def test_fetch_gives_what_has_come(fresh: Running) -> None:
    with connect(fresh, autocommit=False) as db:
        db.execute("DECLARE c CURSOR FOR SUBSCRIBE TO total WITH (SNAPSHOT = false)")
        assert db.execute("FETCH ALL c").fetchall() == []
        assert db.execute("FETCH ALL c WITH (timeout = '50 ms')").fetchall() == []
        time = insert(fresh, (3, "east", 1), (4, "west", 2))
        rows = db.execute("FETCH ALL c WITH (timeout = '10s')").fetchall()
        while len(rows) < 2:
            rows += db.execute("FETCH ALL c WITH (timeout = '10s')").fetchall()
        assert rows == [(time - 1, 1, "east", Decimal("1.00"), 1), (time, 1, "west", Decimal("2.00"), 1)]
        insert(fresh, (5, "a", 1), (6, "b", 1))
        assert len(db.execute("FETCH 1 FROM c WITH (timeout = '10s')").fetchall()) == 1
        db.execute("CLOSE c")


def test_granularity_adds_up(fresh: Running) -> None:
    with connect(fresh, autocommit=False) as db:
        db.execute("DECLARE c CURSOR FOR SUBSCRIBE TO total WITH (SNAPSHOT = false, GRANULARITY = '300 ms')")
        time = insert(fresh, *((i, "east", 1) for i in range(10, 30)))
        rows = db.execute("FETCH ALL c WITH (timeout = '20s')").fetchall()
    assert rows == [(time, 1, "east", Decimal("20.00"), 20)]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("SUBSCRIBE TO nowhere", "42P01"),
        ("SUBSCRIBE TO total WITH (NOTHING)", "42601"),
        ("SUBSCRIBE TO total AS OF 999999", "22023"),
        ("SUBSCRIBE TO total ENVELOPE UPSERT (KEY (nope))", "42703"),
        ("SUBSCRIBE TO (SELECT nope FROM sale)", "42703"),
        ("SUBSCRIBE TO total AS OF soon", "42601"),
    ],
)
def test_what_is_wrong_is_refused(fresh: Running, text: str, state: str) -> None:
    with connect(fresh) as db:
        with pytest.raises(psycopg.Error) as error:
            db.execute(text)
        assert error.value.sqlstate == state
        assert db.execute("SELECT 1").fetchone() == (1,)


def test_what_a_stream_tells_adds_up_to_the_view(fresh: Running) -> None:
    """Random changes while a stream runs: its sum is the view at the time it was told."""
    chance, done = random.Random(7), threading.Event()
    total: Counter[tuple[Any, ...]] = Counter()
    last = fresh.do(lambda s: s.time) + 60

    def change() -> None:
        keys = [1, 2]
        for i in range(100, 160):
            if chance.random() < 0.4 and keys:
                key = keys.pop(chance.randrange(len(keys)))
                fresh.do(lambda s, key=key: s.sql(f"DELETE FROM sale WHERE id = {key}"))
            else:
                keys.append(i)
                shop = chance.choice(["north", "south", "east"])
                insert(fresh, (i, shop, chance.randrange(9)))
        done.set()

    writer = threading.Thread(target=change)
    writer.start()
    with connect(fresh) as db:
        for row in db.execute(f"SUBSCRIBE TO total UP TO {last + 1}").fetchall():
            total[row[2:]] += row[1]
    writer.join(60)
    assert done.is_set()
    assert +total == Counter(fresh.do(lambda s: s["total"].as_of(last).rows()))
    assert min(total.values()) >= 0


def test_history_by_duration() -> None:
    """As far back as the clock says, and not as a number of transactions."""
    found = running(ev.connect(history="1 hour"))
    try:
        with psycopg.connect(found.dsn, autocommit=True) as client:
            client.execute("CREATE TABLE t (x int)")
            found.do(lambda db: [db["t"].insert([(i,)]) for i in range(1500)])
            told = client.execute("SUBSCRIBE TO t WITH (SNAPSHOT = false) AS OF 2 UP TO 5").fetchall()
            assert [(time, diff, x) for time, diff, x in told] == [(3, 1, 2), (4, 1, 3)]
    finally:
        found.stop()
