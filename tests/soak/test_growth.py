"""What comes and goes leaves nothing behind: counted, round by round, so that a leak is a number and no matter of time.

The soak (`make soak`) sees megabytes and milliseconds; each of these is a cause that it saw, or that was found when
its causes were looked for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import everview as ev
from everview.store import Store, dictionary_gc
from tests.inside import inside


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
