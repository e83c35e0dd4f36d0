"""What is said of all tables and views at once: put together once, and never out of date."""

from __future__ import annotations

import everview as ev
from everview import col
from tests.effort import calls


def changed(db: ev.Session) -> tuple[str, ...]:
    return db.what_if(insert={"t": [(1,)]}).changed


def test_names_that_come_and_go_and_change() -> None:
    db = ev.connect()
    t = db.table("t", {"x": int})
    assert changed(db) == ("t",)
    v = db.view("v", t.filter(col.x > 0))
    assert changed(db) == ("t", "v")
    db.sql("ALTER VIEW v RENAME TO w")
    assert changed(db) == ("t", "w")
    db.view("a", v.select(y=col.x + 1))
    assert changed(db) == ("t", "w", "a")
    db["a"].drop()
    assert changed(db) == ("t", "w")
    db.view("a", t.filter(col.x > 5))
    assert changed(db) == ("t", "w")
    db.sql("ALTER TABLE t ADD COLUMN y INT")
    assert db.what_if(insert={"t": [(1, 2)]}).changed == ("t", "w")
    db.table("u", {"x": int})
    assert db.what_if(insert={"u": [(1,)]}).changed == ("u",)
    db.close()


def test_views_of_which_rows_can_fail_are_known_as_they_come() -> None:
    db = ev.connect()
    t = db.table("t", {"x": int})
    assert changed(db) == ("t",)
    db.view("v", t.select(y=10 // col.x))
    asked = db.what_if(insert={"t": [(0,)]})
    assert asked.errors("v") == [("division by zero", 1)]
    db["v"].drop()
    assert changed(db) == ("t",)
    db.close()


def test_a_question_looks_at_no_view_that_it_does_not_reach() -> None:
    """Beside 400 idle views it calls as many functions as alone."""
    db = ev.connect()
    t, other = db.table("t", {"x": int}), db.table("other", {"x": int})
    db.view("v", t.filter(col.x > 0))
    changed(db)  # what is put together once
    alone = calls(lambda: changed(db))
    with db.batch():
        for i in range(400):
            db.view(f"v{i}", other.filter(col.x == i))
    changed(db)
    assert calls(lambda: changed(db)) <= alone + 20
    db.close()
