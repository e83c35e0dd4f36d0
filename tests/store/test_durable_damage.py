"""Durable sessions on full and damaged disks, and what must not come back: it was never acknowledged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview.recovery import directory as durable
from tests.inside import inside
from tests.store.disk import full_disk
from tests.store.durably import die

# what must not come back


def test_what_was_refused_is_not_in_the_log(tmp_path: Path) -> None:
    armed = tmp_path / "armed"

    def fragile(x: int) -> int:
        if armed.exists():
            raise ValueError("boom")
        return x

    db = ev.connect(tmp_path / "db")
    t = db.table("t", {"x": int})
    db.view("v", t.map(fragile, {"y": int}))
    t.insert([(1,)])
    size = (tmp_path / "db" / "wal" / f"{0:020d}").stat().st_size
    armed.touch()
    with pytest.raises(ev.UdfError):
        t.insert([(2,)])
    with pytest.raises(ev.InputError, match="E_ABSENT"), db.transaction():
        t.delete([(7,)])
    with pytest.raises(RuntimeError), db.transaction():
        t.insert([(3,)])
        raise RuntimeError
    armed.unlink()
    assert (tmp_path / "db" / "wal" / f"{0:020d}").stat().st_size == size
    assert (db.time, db["v"].rows()) == (1, [(1,)])
    t.insert([(4,)])
    die(db)
    db = ev.connect(tmp_path / "db")
    assert (db.time, sorted(db["v"].rows())) == (2, [(1,), (4,)])
    db.close()


def test_a_record_that_was_being_taken_back_when_the_process_died(tmp_path: Path) -> None:
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int})
    t.insert([(1,)])
    inside(db).runtime.backing._wal.cut = lambda size: None
    with pytest.raises(ev.InputError, match="E_ABSENT"):
        t.delete([(2,)])
    die(db)
    with pytest.warns(UserWarning, match="refused and is taken out"):
        db = ev.connect(tmp_path)
    assert (db.time, db["t"].rows()) == (1, [(1,)])
    db["t"].insert([(5,)])
    die(db)
    with ev.connect(tmp_path) as db:
        assert (db.time, sorted(db["t"].rows())) == (2, [(1,), (5,)])


def test_an_interrupt_after_the_step_was_complete_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int})
    run = inside(db).runtime.dataflow.run

    def interrupted(*step: Any) -> None:
        run(*step)
        raise KeyboardInterrupt

    monkeypatch.setattr(inside(db).runtime.dataflow, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        t.insert([(1,)])
    monkeypatch.undo()
    t.insert([(2,)])
    assert (db.time, sorted(t.rows())) == (2, [(1,), (2,)])
    die(db)
    with ev.connect(tmp_path) as db:
        assert (db.time, sorted(db["t"].rows())) == (2, [(1,), (2,)])


# disks


def test_a_full_disk_refuses_transactions_and_nothing_else(tmp_path: Path) -> None:
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int, "s": str})
    v = db.view("v", t.group_by("s").agg(n=ev.count()))
    t.insert([(1, "a")])
    size = (tmp_path / "wal" / f"{0:020d}").stat().st_size
    with full_disk(size):
        with pytest.raises(ev.StoreError, match="E_DISK"):
            t.insert([(2, "new text")])
        with pytest.raises(ev.StoreError, match="E_DISK"), db.batch():
            t.insert([(3, "b")])
            t.insert([(4, "c")])
        with pytest.raises(ev.StoreError, match="E_DISK"):
            db.table("other", {"x": int})
        with pytest.raises(ev.StoreError, match="E_DISK"):
            db.view("w", t.distinct())
        with pytest.raises(ev.StoreError, match="E_DISK"):
            v.drop()
        with pytest.raises(ev.StoreError, match="E_DISK"):
            db.checkpoint()
        assert (db.time, v.rows(), db.tables, db.views) == (1, [("a", 1)], ("t",), ("v",))
    t.insert([(2, "new text")])
    assert db.sql("SELECT 1 AS one").rows() == [(1,)]
    other = db.table("other", {"x": int})
    other.insert([(1,)])
    assert sorted(v.rows()) == [("a", 1), ("new text", 1)]
    die(db)
    with ev.connect(tmp_path) as db:
        assert sorted(db["v"].rows()) == [("a", 1), ("new text", 1)] and db.time == 3
        assert db["other"].rows() == [(1,)]


def test_a_full_disk_while_a_version_is_made_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "LOG_BYTES", 5_000)
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int})
    db.view("v", t.flat_map(lambda x: [100 * x + i for i in range(20)], {"y": int}))
    with pytest.warns(UserWarning, match="no new version could be written"), full_disk(60_000):
        t.insert({"x": np.arange(1000)})  # the log has room, the view's batch has not
        for i in range(10):
            t.insert([(1000 + i,)])
        assert (len(db["v"]), db.time) == (20_200, 11)
    die(db)
    with ev.connect(tmp_path) as db:
        assert (len(db["v"]), db.time) == (20_200, 11)
        db.checkpoint()
    with ev.connect(tmp_path) as db:
        assert (len(db["v"]), db.time) == (20_200, 11)


def test_a_log_cut_anywhere_below_what_was_done_is_damage(tmp_path: Path) -> None:
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int, "s": str})
    db.view("v", t.group_by("s").agg(n=ev.count()))
    for i in range(8):
        t.insert([(i, f"s{i % 3}")])
    die(db)
    path = tmp_path / "wal" / f"{0:020d}"
    good = path.read_bytes()
    for size in [*range(len(good) - 1, 0, -61), 0]:
        path.write_bytes(good[:size])
        for read_only in (False, True):
            with pytest.raises(ev.StoreError, match="E_DAMAGED"):
                ev.connect(tmp_path, read_only=read_only)
        assert path.stat().st_size == size and not list(path.parent.glob("*torn*"))
    path.write_bytes(good)
    with ev.connect(tmp_path) as db:
        assert sorted(db["v"].rows()) == [("s0", 3), ("s1", 3), ("s2", 2)]


@pytest.mark.filterwarnings("ignore:.*unfinished record")
def test_a_transaction_cut_anywhere_before_it_was_done_is_not_there(tmp_path: Path) -> None:
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int, "s": str})
    db.view("v", t.group_by("s").agg(n=ev.count()))
    t.insert([(0, "a")])
    path = tmp_path / "wal" / f"{0:020d}"
    size = path.stat().st_size
    inside(db).runtime.backing._wal.done = lambda: None
    t.insert([(1, "b")])
    die(db)
    good = path.read_bytes()
    held = (tmp_path / "acknowledged").read_bytes()
    times = set()
    for end in range(size, len(good) + 1):
        path.write_bytes(good[:end])
        (tmp_path / "acknowledged").write_bytes(held)
        db = ev.connect(tmp_path)
        times.add(db.time)
        assert sorted(db["v"].rows()) == [("a", 1), ("b", 1)][: db.time]
        die(db)
    assert times == {1, 2}


def test_damage_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with ev.connect(tmp_path) as db:
        t = db.table("t", {"x": int})
        t.insert({"x": np.arange(5000)})
        db.checkpoint()
        t.insert([(1,)])
        t.insert([(2,)])
        die(db)
    log = tmp_path / "wal" / f"{1:020d}"
    [batch] = (tmp_path / "batches").iterdir()
    for path in (log, batch):
        good = path.read_bytes()
        path.write_bytes(good[:40] + bytes([good[40] ^ 1]) + good[41:])
        with pytest.raises(ev.StoreError, match=f"E_DAMAGED.*{path.name}"):
            ev.connect(tmp_path)
        path.write_bytes(good)
    batch.rename(batch.with_name("elsewhere"))
    with pytest.raises(ev.StoreError, match=f"{batch.name} is missing"):
        ev.connect(tmp_path)
    batch.with_name("elsewhere").rename(batch)
    with ev.connect(tmp_path) as db:
        assert len(db["t"].rows()) == 5002
