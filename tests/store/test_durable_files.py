"""The files of durable sessions: when versions are made, what they write, what goes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview.recovery import directory as durable
from everview.recovery.directory import Directory
from tests.inside import inside
from tests.store.durably import die, reach

# versions


def test_a_long_log_makes_a_version_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "LOG_BYTES", 20_000)
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int, "s": str})
        v = db.view("v", t.group_by("s").agg(n=ev.count()))
        for i in range(2000):
            t.insert([(i % 10, f"word {i % 50}")])
            if i >= 10:
                t.delete([(i % 10, f"word {(i - 10) % 50}")])
        expected = v.rows(), db.time
        assert (tmp_path / "log").exists()
        assert sum(p.stat().st_size for p in (tmp_path / "wal").iterdir()) < 100_000
        die(db)
    size = sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file())
    assert size < 600_000, size
    with ev.connect(tmp_path) as db:
        assert (db["v"].rows(), db.time) == expected


def test_a_version_made_within_a_transaction_has_its_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "LOG_BYTES", 0)
    monkeypatch.setattr(Directory, "_set_limit", lambda self: setattr(self, "_limit", 0))
    db = ev.connect(tmp_path)
    for i in range(3):
        inside(db).transactions.set_offset("i", str(i))
    assert inside(db).runtime.backing.store.manifest.version >= 3
    die(db)
    with ev.connect(tmp_path) as db:
        assert (inside(db).runtime.offsets, db.time) == ({"i": "2"}, 3)


def test_batches_that_did_not_change_are_not_written_again(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int})
        t.insert({"x": np.arange(50_000)})
        db.checkpoint()
        before = {p.name: p.stat().st_ino for p in (tmp_path / "batches").iterdir()}
        t.insert([(7,)])
        db.checkpoint()
        after = {p.name: p.stat().st_ino for p in (tmp_path / "batches").iterdir()}
    assert before and after == before
    with ev.connect(tmp_path) as db:
        assert len(db["t"].rows()) == 50_001


def test_files_no_version_needs_are_gone(tmp_path: Path) -> None:
    with ev.connect(tmp_path, history=0) as db:
        t = db.table("t", {"x": int})
        for i in range(20):
            t.clear()
            t.insert({"x": np.arange(i, 5000 + i)})
            db.checkpoint()
        files = {p.name: p.stat().st_size for p in (tmp_path / "batches").iterdir()}
        assert set(files) == {ref.file for ref in inside(db).runtime.backing.store.manifest.refs()}
        assert sum(files.values()) < 500_000
        assert len(list((tmp_path / "log").iterdir())) == 0 and len(list((tmp_path / "wal").iterdir())) == 1


def test_views_made_and_dropped_for_ever_leave_no_history(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int})
        keep = db.view("keep", t.map(lambda x: x + 1, {"y": int}))
        for i in range(60):
            db.view(f"v{i}", t.filter(t.x > i).distinct()).drop()
        t.insert([(1,), (2,)])
        db.checkpoint()
        assert len(inside(db).runtime.backing.store.manifest.commands) == 2
        db.view("more", keep.distinct())
        t.insert([(3,)])
        die(db)
    with ev.connect(tmp_path) as db:
        assert sorted(db["keep"].rows()) == sorted(db["more"].rows()) == [(2,), (3,), (4,)]


def test_another_versions_operators_are_computed_again_with_a_warning(tmp_path: Path, monkeypatch: Any) -> None:
    with ev.connect(tmp_path) as db:
        edge, root = db.table("my edge", {"src": int, "dst": int}), db.table("root", {"node": int})
        db.view("gone", edge.distinct()).drop()
        db.view("reach", reach(edge, root))
        db.sql("CREATE VIEW n AS SELECT count(*) AS n FROM root")
        root.insert([(1,)])
        edge.insert([(1, 2), (2, 3)])
        monkeypatch.setattr(durable.saved_state, "fingerprints", lambda graph: FINGERPRINTS(graph)[:-1])  # type: ignore[attr-defined]
        db.checkpoint()
        edge.insert([(3, 4)])
        die(db)
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="views are computed again"):
        db = ev.connect(tmp_path)
    assert sorted(db["reach"].rows()) == [(1,), (2,), (3,), (4,)] and db["n"].rows() == [(1,)]
    assert db.time == 3 and sorted(db["my edge"].rows()) == [(1, 2), (2, 3), (3, 4)]
    db["my edge"].delete([(2, 3)])
    db.checkpoint()
    die(db)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        db = ev.connect(tmp_path)
    assert sorted(db["reach"].rows()) == [(1,), (2,)] and db.time == 4
    db.close()


FINGERPRINTS = durable.saved_state.fingerprints  # type: ignore[attr-defined]
