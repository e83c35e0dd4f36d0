"""What comes and goes leaves nothing behind: counted, round by round, so that a leak is a number and no matter of time.

The soak (`make soak`) sees megabytes and milliseconds; each of these is a cause that it saw, or that was found when
its causes were looked for.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.language.relation import relation_of
from everview.recovery import directory
from everview.store import Store, dictionary_gc
from tests.inside import inside
from tests.soak import load

VIEW = "CREATE VIEW {} AS SELECT a.x, count(*) AS n FROM t a JOIN t b ON a.y = b.x WHERE b.y > {} GROUP BY a.x"


def numbers(db: Any) -> int:
    return len(inside(db).runtime.dataflow.numbered)


def test_operators_of_dropped_views_leave_no_numbers() -> None:
    """Arrays by the number of an operator are filled with every definition: they must not be as long as history."""
    db = ev.connect()
    db.table("t", {"x": int, "y": int}).insert([(1, 2), (2, 3)])
    db.sql(VIEW.format("stays", 0))
    before = numbers(db)
    made = inside(db).runtime.dataflow.made
    for i in range(10):
        db.sql(VIEW.format("goes", i))
        db.sql("DROP VIEW goes")
        db.sql("CREATE TABLE u (a int PRIMARY KEY, b text)")
        db.sql("DROP TABLE u")
        assert numbers(db) == before
    assert inside(db).runtime.dataflow.made > made + 20  # whoever asks whether something came sees it by this
    db["t"].insert([(3, 1)])
    assert sorted(db["stays"].rows()) == [(1, 1), (2, 1), (3, 1)]


def test_numbers_are_given_again_beside_views_that_stay() -> None:
    """A view that is made among those that go, and one whose making fails: all of them go on being right."""
    db = ev.connect()
    t = db.table("t", {"x": int, "y": int})
    t.insert([(1, 2), (2, 3), (3, 1)])
    for i in range(6):
        db.sql(VIEW.format("goes", i))
        db.sql(VIEW.format(f"stays_{i}", i))
        db.sql("DROP VIEW goes")
        with pytest.raises(ev.EverviewError):
            db.sql("CREATE VIEW fails AS SELECT nothing FROM t")
        t.insert([(i, 3)])
        t.delete([(i, 3)])
    rows = [(1, 2), (2, 3), (3, 1)]
    for i in range(6):
        pairs = Counter(a[0] for a in rows for b in rows if a[1] == b[0] and b[1] > i)
        assert sorted(db[f"stays_{i}"].rows()) == sorted(pairs.items())
        db.sql(f"DROP VIEW stays_{i}")
    db.sql(VIEW.format("last", 0))
    assert numbers(db) < 40


def test_a_number_that_is_given_again_has_no_supposed_changes() -> None:
    """What `what_if` found is known by numbers, and may be asked about what was made since."""
    db = ev.connect()
    db.table("t", {"x": int, "y": int}).insert([(1, 2), (2, 3)])
    gone = db.view("gone", db["t"].select(a=ev.col.x + 100))
    answer: Any = db.what_if(insert={"t": [(7, 8)]})
    found = answer._asked()
    assert found.change(relation_of(gone).arrangement).diffs.tolist() == [1]
    gone.drop()
    made = db.view("made", db["t"].select(a=ev.col.x + 200))
    assert relation_of(made).arrangement.operator.number == relation_of(gone).arrangement.operator.number
    assert found.change(relation_of(made).arrangement) is None
    assert answer.changes("gone") == [((107,), 1)]


def test_definitions_that_were_undone_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only when the log is 32 MB long: that is tens of thousands of plans in memory."""
    monkeypatch.setattr(directory, "ENTRIES_KEPT", 20)
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int, "y": int})
        most = 0
        for i in range(40):
            db.sql(VIEW.format("goes", i))
            db.sql("DROP VIEW goes")
            t.insert([(i, i)])
            most = max(most, len(inside(db).catalog.entries))
        db.sql(VIEW.format("stays", 0))
        assert most < 20 + 32 + 10  # a version forgets them if more than 32 are dead
    with ev.connect(tmp_path) as db:
        assert db.check() == [] and len(db["t"].rows()) == 40


def test_a_full_disk_is_not_tried_at_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "ENTRIES_KEPT", 20)
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int, "y": int})
        backing = inside(db).runtime.backing
        tried = []
        monkeypatch.setattr(backing, "_checkpoint", lambda: tried.append(len(inside(db).catalog.entries)))
        for i in range(30):
            db.sql(VIEW.format("goes", i))
            db.sql("DROP VIEW goes")
            t.insert([(i, i)])
        assert len(tried) == 2  # 60 definitions
        monkeypatch.undo()


def test_dead_names_of_a_small_state_are_few(tmp_path: Path) -> None:
    """65,000 dead names are more than everything else that a small directory holds."""
    for day in range(8):
        with ev.connect(tmp_path, history=0) as db:
            known = sum(ref.rows for ref in inside(db).runtime.backing.store.manifest.dictionary)
            assert known <= 3000 + dictionary_gc.FEW_ENTRIES
            assert len(inside(db).interner) <= known + 10
            t = db.table("t", {"id": int, "name": str})
            names = [(i, f"name {day} {i}") for i in range(3000)]
            t.insert([(-day, f"stays {day}"), *names])
            t.delete(names)
            db.checkpoint()
    with ev.connect(tmp_path) as db:
        assert sorted(db["t"].rows()) == [(-day, f"stays {day}") for day in reversed(range(8))]


def test_few_dead_names_of_a_large_state_are_let_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for them reads all rows."""
    monkeypatch.setattr(dictionary_gc, "FEW_ENTRIES", 10)
    looked: list[int] = []
    forget = dictionary_gc.forget

    def looking(store: Store) -> None:
        looked.append(1)
        forget(store)

    monkeypatch.setattr(dictionary_gc, "forget", looking)
    for rows in (8000, 20):
        where = tmp_path / str(rows)
        for _ in range(2):
            with ev.connect(where, history=0) as db:
                t = db.table("t", {"id": int, "name": str})
                t.insert([(i, f"name {i % 10}") for i in range(rows)])
                gone = [(i, f"gone {i}") for i in range(100)]
                t.insert(gone)
                t.delete(gone)
                db.checkpoint()
        assert len(looked) == (0 if rows == 8000 else 1)


def test_the_model_of_the_soak_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared has to be as steady as what it is compared with: the soak measures one process."""
    monkeypatch.setattr(load, "FILES", 20)
    loaded = load.Load(tmp_path, 5)
    for _ in range(6):
        for _ in range(15):
            loaded.do("upsert")
        loaded.do("reopen")
        loaded.check()
        assert len(loaded._sums) <= load.KEYS and loaded._files <= 40
        assert sum(1 for _ in tmp_path.glob("out-*/changes-*")) <= 2 * 40
    loaded.close()
