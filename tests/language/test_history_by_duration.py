"""`connect(history="10 minutes")`: what changed in that time can be read, however many epochs it was."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import everview as ev
from everview import col
from everview.dataflow.timed_history import FRACTIONS, TimedHistory
from everview.errors import CompactedError, InputError
from everview.language.relation import relation_of
from everview.session.core import core_of
from everview.session.local_shards import local_shards


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def timed() -> tuple[ev.Session, Clock]:
    """A session that keeps ten seconds of a clock of its own."""
    clock = Clock()
    db = ev.connect(history="10s")
    core_of(db).runtime.dataflow.timed_history = TimedHistory(10.0, clock)
    return db, clock


def oldest(what: Any, now: int) -> int:
    """The oldest time that can be read."""
    for time in range(now + 1):
        try:
            what.as_of(time)
        except CompactedError:
            continue
        return time
    raise AssertionError


def test_what_was_complete_lately(timed: Any) -> None:
    """Never less than the duration, and little more."""
    db, clock = timed
    t = db.table("t", {"x": int})
    v = db.view("v", t.agg(n=col.x.sum()))
    when = {0: clock.now}
    for i in range(1, 401):
        clock.now += 0.1
        t.insert([(1,)])
        when[i] = clock.now
        if i % 40 == 0:
            for what in (t, v):
                first = oldest(what, i)
                assert all(time >= first for time, moment in when.items() if moment >= clock.now - 10)
                assert when[first] >= clock.now - 10 - 2 * 10 / FRACTIONS - 0.1 or first == 0
                found = what.as_of(first).rows()
                assert (len(found) == first) if what is t else (found == ([(first,)] if first else []))
    assert sum(diff for _, _, diff in t.changes(since=330)) == 70


def test_many_epochs_in_a_moment(timed: Any) -> None:
    db, _ = timed
    t = db.table("t", {"x": int})
    for i in range(3000):
        t.insert([(i,)])
    assert len(t.as_of(1).rows()) == 1


def test_memory_comes_back(timed: Any) -> None:
    """What is older is added up; views that are dropped are forgotten."""
    db, clock = timed
    t = db.table("t", {"x": int}, key="x")
    for i in range(2000):
        clock.now += 1
        t.upsert([(i % 3,)])
        if i % 100 == 0:
            db.view(f"v{i}", t.distinct()).drop()
    timed = core_of(db).runtime.dataflow.timed_history
    assert timed is not None
    assert len(timed._traces) <= 2
    assert relation_of(t).arrangement.trace.measure()[1] < 100


def test_a_directory(tmp_path: Any) -> None:
    with ev.connect(tmp_path / "db", history="1 hour") as db:
        t = db.table("t", {"x": int})
        for i in range(1500):
            t.insert([(i,)])
    with ev.connect(tmp_path / "db", history=dt.timedelta(hours=1)) as db:
        for i in range(1500):
            db["t"].insert([(i,)])
        assert len(db["t"].as_of(1501).rows()) == 1501


@pytest.mark.parametrize("history", ["soon", "-1s", -1, 1.5, "10 parsecs"])
def test_what_is_no_history(history: Any) -> None:
    with pytest.raises(InputError):
        ev.connect(history=history)


def test_shards_refuse_it() -> None:
    with pytest.raises(InputError, match="epochs"):
        local_shards(2, history="10s")  # type: ignore[arg-type]
