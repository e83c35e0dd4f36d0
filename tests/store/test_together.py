"""What becomes of a `batch()` when its session dies: all of its transactions are there or none is, or as many as
docs/durability.md says. Batches among other transactions are killed in `test_killed`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from tests.store.durably import die


def session(where: Path) -> tuple[Any, Any]:
    db = ev.connect(where)
    t = db.table("t", {"x": int})
    db.view("v", t.group_by().agg(n=ev.count()))
    return db, t


def found(where: Path) -> tuple[list[int], int]:
    """The rows after a death, and the time."""
    with ev.connect(where) as db:
        rows = sorted(x for (x,) in db["t"].rows())
        assert db["v"].rows() == ([(len(rows),)] if rows else []) and db.check() == []
        return rows, db.time


@pytest.mark.parametrize(
    ("meanwhile", "there"),
    [
        (lambda db: None, 0),
        (lambda db: db["v"].rows(), 3),
        (lambda db: db.time, 0),
        (lambda db: db.checkpoint(), 3),
        (lambda db: db.sql("CREATE VIEW w AS SELECT x FROM t"), 3),
        (lambda db: [db["t"].insert([(x,)]) for x in range(10, 10 + 4095 - 3)], 4095),
    ],
    ids=["nothing", "a read", "the time", "a checkpoint", "a definition", "4,095 transactions"],
)
def test_death_inside_a_batch(tmp_path: Path, meanwhile: Callable[[Any], Any], there: int) -> None:
    """Three transactions, something else, and one more that nobody hears of again."""
    db, t = session(tmp_path)
    block = db.batch()
    block.__enter__()
    for x in range(3):
        t.insert([(x,)])
    meanwhile(db)
    t.insert([(5,)])
    die(db)
    rows, time = found(tmp_path)
    assert len(rows) == time == there and 5 not in rows


def test_a_batch_that_ended_is_there(tmp_path: Path) -> None:
    """Also if it ended with an exception: what was done before that is not undone."""
    db, t = session(tmp_path)
    with pytest.raises(ZeroDivisionError), db.batch():
        t.insert([(1,)])
        t.insert([(2,)])
        t.insert([(1 // 0,)])
    assert sorted(t.rows()) == [(1,), (2,)]
    die(db)
    assert found(tmp_path) == ([1, 2], 2)


def test_a_batch_of_which_one_transaction_fails_is_not_there(tmp_path: Path) -> None:
    db, t = session(tmp_path)

    def fragile(x: int) -> int:
        return 10 // (2 - x)

    db.view("u", t.map(fragile, {"y": int}))
    with pytest.raises(ev.UdfError, match="E_UDF"), db.batch():
        for x in (1, 2, 3):
            t.insert([(x,)])
    assert t.rows() == []
    db.sql("DROP VIEW u")
    die(db)
    assert found(tmp_path) == ([], 0)


def test_a_batch_is_a_part_of_the_transaction_around_it(tmp_path: Path) -> None:
    db, t = session(tmp_path)
    with db.transaction():
        t.insert([(0,)])
        with db.batch():
            t.insert([(1,)])
            t.insert([(2,)])
    assert db.time == 1
    with pytest.raises(ZeroDivisionError), db.transaction():
        with db.batch():
            t.insert([(3,)])
        t.insert([(1 // 0,)])
    die(db)
    assert found(tmp_path) == ([0, 1, 2], 1)


def test_a_session_closed_inside_a_batch_keeps_it(tmp_path: Path) -> None:
    db, t = session(tmp_path)
    with db.batch():
        t.insert([(1,)])
        db.close()
    assert found(tmp_path) == ([1], 1)
