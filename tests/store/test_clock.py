"""What follows the clock goes on where it was when a durable session is opened again."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.recovery.directory import Directory
from tests.inside import inside

NOON = dt.datetime(2026, 1, 31, 12, 0)


def minute(n: int) -> dt.datetime:
    return NOON + dt.timedelta(minutes=n)


def again(db: Any, how: str) -> Any:
    """Open a session's directory again, after one of several ends."""
    assert isinstance(inside(db).runtime.backing, Directory)
    root = inside(db).runtime.backing.store.files.local
    if how == "version":
        db.checkpoint()
    inside(db).abandon()
    return ev.connect(root)


@pytest.fixture(params=["log", "version"])
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.filterwarnings("error:.*computed again")
def test_times_to_live_windows_and_conditions_on_now(tmp_path: Path, how: str) -> None:
    """The same script, in memory and in a session that is opened again after every action, says the same."""
    memory, durable = ev.connect(), ev.connect(tmp_path)

    def declare(db: Any) -> None:
        db.table("seen", {"who": str}, ttl=dt.timedelta(minutes=5))
        db.sql("CREATE TABLE event (ts timestamp, what text)")
        db.sql("CREATE TABLE lease (until timestamp, who text) TTL until + INTERVAL '1 minute'")
        db.sql("CREATE VIEW recent AS SELECT what FROM event WHERE ts > now() - interval '3 minutes'")
        db.sql("CREATE VIEW n AS SELECT count(*) AS n FROM seen")

    def action(i: int) -> Any:
        def act(db: Any) -> None:
            db.advance(minute(i))
            if i % 4 != 3:
                db["seen"].insert([(f"guest {i}",)])
                db.sql(f"INSERT INTO event VALUES ('{minute(i)}', 'event {i}')")
                db.sql(f"INSERT INTO lease VALUES ('{minute(i + 2)}', 'tenant {i}')")
            if i == 6:
                db.sql("CREATE VIEW late AS SELECT what FROM event WHERE ts > now() - interval '1 minute'")
            if i == 9:
                db["recent"].drop()

        return act

    for db in (memory, durable):
        db.advance(minute(0))
        declare(db)
    for i in range(1, 14):
        for db in (memory, durable):
            action(i)(db)
        durable = again(durable, how)
        durable.advance(minute(i))
        assert durable.time == memory.time and durable.now == memory.now
        for name in (*memory.tables, *memory.views):
            assert sorted(durable[name].rows()) == sorted(memory[name].rows()), (i, name)
        assert durable.tables == memory.tables and durable.views == memory.views
        assert len(inside(durable).clock.followers) == len(inside(memory).clock.followers)
        if i < 9:
            declare(durable)
    assert memory["seen"].rows() and memory["late"].rows()
    durable.close()


def test_the_same_time_to_live_must_be_declared(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        db.table("seen", {"who": str}, ttl=dt.timedelta(minutes=5))
    with ev.connect(tmp_path) as db:
        for ttl in (None, dt.timedelta(minutes=6)):
            with pytest.raises(ev.InputError, match=r"E_SCHEMA.*\(who str, ttl 300 s\)"):
                db.table("seen", {"who": str}, ttl=ttl)
        db.table("seen", {"who": str}, ttl=dt.timedelta(minutes=5))


def test_windows_of_queries_leave_nothing(tmp_path: Path, how: str) -> None:
    db: Any = ev.connect(tmp_path)
    db.advance(NOON)
    db.sql("CREATE TABLE event (ts timestamp, what text)")
    db.sql(f"INSERT INTO event VALUES ('{NOON}', 'a')")
    for _ in range(3):
        assert db.sql("SELECT what FROM event WHERE ts > now() - interval '1 minute'").rows() == [("a",)]
    db.sql("CREATE VIEW v AS SELECT what FROM event WHERE ts > now() - interval '1 minute'")
    db.sql("DROP VIEW v")
    operators = db.stats()["operators"]
    db = again(db, how)
    assert db.stats()["operators"] == operators and not inside(db).clock.followers
    db.close()


def test_a_reader_sees_rows_leave(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db, ev.connect(tmp_path, read_only=True) as reader:
        db.advance(NOON)
        seen = db.table("seen", {"who": str}, ttl=dt.timedelta(minutes=5))
        seen.insert([("Ada",)])
        reader.refresh()
        assert reader["seen"].rows() == [("Ada",)]
        db.advance(minute(5))
        reader.refresh()
        assert reader["seen"].rows() == [] and reader.time == db.time


@pytest.mark.parametrize("reopen", [False, True])
def test_a_view_that_comes_while_something_is_due_takes_nothing_from_others(tmp_path: Path, reopen: bool) -> None:
    """Looking at the clock for one follower must not let another believe that its moments have been dealt with."""
    db: Any = ev.connect(tmp_path)
    db.sql("CREATE TABLE event (ts timestamp, what text)")
    db.sql("CREATE VIEW short AS SELECT what FROM event WHERE ts > now() - interval '1 second'")
    begun = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    db["event"].insert([(begun, "x")])
    assert db["short"].rows() == [("x",)]
    while dt.datetime.now(dt.UTC).replace(tzinfo=None) < begun + dt.timedelta(seconds=1.1):
        pass
    db.sql("CREATE VIEW long AS SELECT what FROM event WHERE ts > now() - interval '1 hour'")
    if reopen:
        db = again(db, "log")
    db.advance()
    assert db["short"].rows() == [] and db["long"].rows() == [("x",)]
    db.close()
