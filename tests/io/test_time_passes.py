"""Time passes by itself: while a run waits for input, and while nobody had a directory open."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.io.pipeline import IDLE, pipeline_of
from everview.session.clock import clock
from everview.session.local_shards import local_shards
from tests.inside import inside

SECOND = 1_000_000


class Watch:
    """The computer's clock, as the test wants it."""

    def __init__(self) -> None:
        self.now = 1_900_000_000 * SECOND

    def time_ns(self) -> int:
        return self.now * 1000


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    found = Watch()
    monkeypatch.setattr(clock, "time", found)
    return found


def moment(watch: Watch) -> dt.datetime:
    return clock.moment_of(watch.now)


COLUMNS = {"k": int, "ts": dt.datetime}


def lazily() -> Iterator[tuple[int, dt.datetime]]:
    """Rows that are made when they are asked for, however long it took to get there."""
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    yield from [(1, now), (2, now + dt.timedelta(seconds=1))]


@pytest.mark.parametrize("connect", [ev.connect, lambda: local_shards(shards=3)], ids=["one", "shards"])
def test_rows_leave_while_a_run_waits(connect: Any) -> None:
    """By time to live, by window and by now(); a sink and a subscriber are told."""
    db = connect()
    db.table("t", COLUMNS, ttl=dt.timedelta(seconds=1.4))
    db.sql("CREATE VIEW soon AS SELECT k FROM t WHERE ts > now()")
    db.sql("CREATE VIEW n AS SELECT count(*) AS n FROM t")
    told: list[Any] = []
    written: list[Any] = []
    db["n"].subscribe(lambda batch: told.append(sorted(batch.rows())))
    db["soon"].write_to(ev.io.foreach(lambda batch: written.extend(batch.rows())))
    db.source("t", ev.io.rows(lazily()), schema=COLUMNS)
    run = db.run(until="3s")
    assert run.stopped_by == "time" and run.rows == {"t": 2}
    assert (db["t"].rows(), db["soon"].rows(), db["n"].rows()) == ([], [], [(0,)])
    assert told == [[((0,), 1)], [((0,), -1), ((2,), 1)], [((0,), 1), ((2,), -1)]]
    assert written == [((2,), 1), ((2,), -1)]
    assert run.time - run.started_at == db.time - run.started_at == 3  # the rows, one moment, the other


def test_a_run_sleeps_until_something_is_due(watch: Watch) -> None:
    db = ev.connect()
    t = db.table("t", {"k": int}, ttl=dt.timedelta(seconds=10))
    pipeline = pipeline_of(inside(db))
    assert (inside(db).clock.waiting(), pipeline._pause(None)) == (None, IDLE)
    t.insert([(1,)])
    assert (inside(db).clock.waiting(), pipeline._pause(None)) == (10.0, IDLE)
    watch.now += 10 * SECOND - 50_000
    assert pipeline._pause(None) == 0.05
    assert pipeline._pause(time.monotonic()) == 0.0
    inside(db).clock.settle()
    assert t.rows() == [(1,)]
    watch.now += 50_000
    assert pipeline._pause(None) == 0.0
    inside(db).clock.settle()
    assert (t.rows(), pipeline._pause(None)) == ([], IDLE)


def test_a_clock_that_was_set_stands_still_in_a_run() -> None:
    db = ev.connect()
    db.advance(dt.datetime(2020, 1, 1))
    t = db.table("t", {"k": int}, ttl=dt.timedelta(milliseconds=1))
    db.source("t", ev.io.rows([{"k": 1}]))
    assert inside(db).clock.waiting() is None
    db.run(until="300ms")
    assert t.rows() == [(1,)]
    db.advance(dt.datetime(2020, 1, 2))
    assert t.rows() == []


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_directory_catches_up_when_it_is_opened(tmp_path: Path, watch: Watch, how: str) -> None:
    state, out = tmp_path / "state", tmp_path / "out"

    def opened() -> Any:
        db = ev.connect(state)
        if "t" not in db:
            db.table("t", {"k": int}, ttl=dt.timedelta(minutes=5))
            db.sql("CREATE TABLE e (k BIGINT, ts TIMESTAMP)")
            db.sql("CREATE VIEW recent AS SELECT k FROM e WHERE ts > now() - INTERVAL '1 minute'")
        return db

    db = opened()
    db["t"].insert([(1,)])
    db["e"].insert([(1, moment(watch)), (2, moment(watch) + dt.timedelta(hours=1))])
    db["recent"].write_to(ev.io.parquet(str(out)))
    if how == "killed":
        inside(db).abandon()
    else:
        db.close()
    watch.now += 30 * 60 * SECOND
    db = opened()
    at = db.time
    assert (db["t"].rows(), db["recent"].rows()) == ([], [(2,)])
    assert db["recent"].as_of(at).now == moment(watch)
    db["recent"].write_to(ev.io.parquet(str(out)))  # it is told what happened meanwhile
    db.close()
    db = opened()
    assert db.time == at, "there was nothing more to do"
    db.close()


def test_a_clock_that_was_set_is_still_set_after_opening(tmp_path: Path, watch: Watch) -> None:
    noon = dt.datetime(2020, 1, 1, 12)
    with ev.connect(tmp_path) as db:
        db.advance(noon)
        db.table("t", {"k": int}, ttl=dt.timedelta(minutes=5)).insert([(1,)])
    with ev.connect(tmp_path) as db:
        assert (db.now, db["t"].rows()) == (noon, [(1,)])
        db.advance()
        assert (db.now, db["t"].rows()) == (moment(watch), [])
        db["t"].insert([(2,)])
        db.advance(moment(watch))
        db["t"].insert([(3,)])
        db.advance()  # nothing is due: that it runs again is kept all the same
    watch.now += 3600 * SECOND
    with ev.connect(tmp_path) as db:
        assert (db.now, db["t"].rows()) == (moment(watch), [])


def test_what_cannot_be_caught_up_with_does_not_keep_a_directory_shut(tmp_path: Path, watch: Watch) -> None:
    db = ev.connect(tmp_path)
    db.table("t", {"k": int}, ttl=dt.timedelta(minutes=5)).insert([(1,)])
    db.close()
    watch.now += 3600 * SECOND

    def fails(self: Any) -> int:
        raise ev.InputError("E_OVERFLOW", "too much", "")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock.Clock, "settle", fails)
        with pytest.warns(UserWarning, match="cannot be done.*E_OVERFLOW"):
            db = ev.connect(tmp_path)
    assert db["t"].rows() == [(1,)]
    db["t"].insert([(2,)])
    assert db["t"].rows() == [(2,)]
    db.close()


def test_a_read_says_which_clock_it_saw(watch: Watch) -> None:
    db = ev.connect()
    plain = db.table("plain", {"k": int})
    plain.insert([(1,)])
    assert plain.as_of(1).now is None  # nothing follows the clock
    t = db.table("t", {"k": int}, ttl=dt.timedelta(seconds=10))
    v = db.view("v", t.distinct())
    seen = []
    for k in range(3):
        watch.now += SECOND
        t.insert([(k,)])
        seen.append((db.time, moment(watch)))
    watch.now += SECOND
    assert [(at, v.as_of(at).now) for at, _ in seen] == seen  # and not what the clock shows by now
    assert v.as_of(1).now is None
