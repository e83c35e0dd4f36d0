"""Marks are committed with the transaction that made them, or not at all."""

from __future__ import annotations

import pytest

import everview as ev
from everview.expr.language import udf
from tests.inside import inside


def test_a_mark_is_visible_when_its_transaction_is_complete() -> None:
    db = ev.connect()
    t = db.table("t", {"x": int})
    with db.transaction():
        inside(db).transactions.set_offset("file", "a.csv")
        t.insert([(1,)])
        assert inside(db).runtime.offsets == {}
        with db.transaction():
            inside(db).transactions.set_offset("row", "7")
    assert inside(db).runtime.offsets == {"file": "a.csv", "row": "7"}
    with db.transaction():
        inside(db).transactions.set_offset("file", "b.csv")
    assert (inside(db).runtime.offsets["file"], db.time) == ("b.csv", 2)


def test_a_transaction_with_only_a_mark_is_a_time() -> None:
    db = ev.connect()
    inside(db).transactions.set_offset("offset", "1")
    assert (db.time, inside(db).runtime.offsets) == (1, {"offset": "1"})


def test_rollback_drops_marks() -> None:
    db = ev.connect()
    t = db.table("t", {"x": int})
    with pytest.raises(RuntimeError), db.transaction():
        inside(db).transactions.set_offset("offset", "1")
        raise RuntimeError
    with pytest.raises(ev.InputError, match="E_ABSENT"), db.transaction():
        inside(db).transactions.set_offset("offset", "2")
        t.delete([(1,)])
    assert (db.time, inside(db).runtime.offsets) == (0, {})


def test_marks_of_a_batch_come_with_its_step() -> None:
    db = ev.connect()
    t = db.table("t", {"x": int})
    with db.batch():
        for i in range(3):
            with db.transaction():
                t.insert([(i,)])
                inside(db).transactions.set_offset("offset", str(i))
        assert inside(db).runtime.offsets == {}
    assert (db.time, inside(db).runtime.offsets) == (3, {"offset": "2"})


def test_marks_of_a_batch_that_fails_are_dropped() -> None:
    db = ev.connect()
    t = db.table("t", {"x": int})

    def refuse(x: int) -> int:
        raise KeyboardInterrupt

    db.view("v", t.select(y=udf(refuse, returns=int)(t.x)))
    with pytest.raises(KeyboardInterrupt), db.batch(), db.transaction():
        t.insert([(1,)])
        inside(db).transactions.set_offset("offset", "1")
    assert (db.time, inside(db).runtime.offsets) == (0, {})
