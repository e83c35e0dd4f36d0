"""Marks are committed with the transaction that made them, or not at all."""

from __future__ import annotations

import pytest

import everview as ev
from everview.expr.language import udf


def test_a_mark_is_visible_when_its_transaction_is_complete() -> None:
    db = ev.connect()
    t = db.table("t", {"x": int})
    with db.transaction():
        db._mark("file", "a.csv")
        t.insert([(1,)])
        assert db._marks == {}
        with db.transaction():
            db._mark("row", "7")
    assert db._marks == {"file": "a.csv", "row": "7"}
    with db.transaction():
        db._mark("file", "b.csv")
    assert (db._marks["file"], db.time) == ("b.csv", 2)


def test_a_transaction_with_only_a_mark_is_a_time() -> None:
    db = ev.connect()
    db._mark("offset", "1")
    assert (db.time, db._marks) == (1, {"offset": "1"})


def test_rollback_drops_marks() -> None:
    db = ev.connect()
    t = db.table("t", {"x": int})
    with pytest.raises(RuntimeError), db.transaction():
        db._mark("offset", "1")
        raise RuntimeError
    with pytest.raises(ev.InputError, match="E_ABSENT"), db.transaction():
        db._mark("offset", "2")
        t.delete([(1,)])
    assert (db.time, db._marks) == (0, {})


def test_marks_of_a_batch_come_with_its_step() -> None:
    db = ev.connect()
    t = db.table("t", {"x": int})
    with db.batch():
        for i in range(3):
            with db.transaction():
                t.insert([(i,)])
                db._mark("offset", str(i))
        assert db._marks == {}
    assert (db.time, db._marks) == (3, {"offset": "2"})


def test_marks_of_a_batch_that_fails_are_dropped() -> None:
    db = ev.connect()
    t = db.table("t", {"x": int})

    def refuse(x: int) -> int:
        raise KeyboardInterrupt

    db.view("v", t.select(y=udf(refuse, returns=int)(t.x)))
    with pytest.raises(KeyboardInterrupt), db.batch(), db.transaction():
        t.insert([(1,)])
        db._mark("offset", "1")
    assert (db.time, db._marks) == (0, {})
