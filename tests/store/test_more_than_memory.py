"""Sessions with `memory=`: state many times as large, steps that cannot fit, everything in files all the time."""

from __future__ import annotations

import errno
import os
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview import col, count, lit
from everview.dataflow import saved_state
from everview.kernels import structures
from everview.kernels.build.native import DEBUG
from everview.kernels.trace.trace import TRACE_COUNT
from everview.language.relation import relation_of
from everview.runtime import spill
from tests.inside import inside

pytestmark = pytest.mark.skipif(DEBUG, reason="the bounds-checked build reads no memory but its own")


def declared(db: Any) -> tuple[Any, list[Any]]:
    """A table and views that need indexes of several kinds."""
    t = db.table("t", {"a": int, "b": int, "c": int})
    names = db.table("names", {"b": int, "name": int})
    names.insert([(b, b % 7) for b in range(5000)])
    views = [
        db.view("by_b", t, index_by="b"),
        db.view("groups", t.group_by("b").agg(n=count(), high=col.c.max())),
        db.view("named", t.join(names, t.b == names.b).select(a=t.a, name=names.name)),
    ]
    return t, views


def sized(seed: int, rows: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {"a": draw.integers(0, 10**6, rows), "b": draw.integers(0, 5000, rows), "c": draw.integers(0, 10**9, rows)}


@pytest.mark.slow
def test_state_ten_times_as_large(tmp_path: Path) -> None:
    memory = 1_200_000
    plain, small = ev.connect(), ev.connect(tmp_path / "small", memory=memory)
    (t, views), (u, others) = declared(plain), declared(small)
    there: list[Any] = []
    draw = random.Random(3)
    for number in range(70):
        rows = sized(number, 2000)
        there += zip(*(column.tolist() for column in rows.values()), strict=True)
        gone = [there.pop(draw.randrange(len(there))) for _ in range(20)]
        for table in (t, u):
            table.insert(rows)
            table.delete(gone)
    held = inside(small).runtime.spill
    assert held is not None and held.spilled > 10 * memory
    assert 8 * held.own_words(inside(small).runtime.dataflow) < memory
    for view, other in zip([t, *views], [u, *others], strict=True):
        assert sorted(view.rows()) == sorted(other.rows())
    assert views[0].lookup(7) and sorted(views[0].lookup(7)) == sorted(others[0].lookup(7))
    batches = [
        _batches(o) for o in saved_state.live(inside(small).runtime.dataflow) if saved_state.state_of(o) is not None
    ]
    assert max(batches) < 30, "batches in files are merged, too"
    small.checkpoint()
    small.close()
    with ev.connect(tmp_path / "small", memory=memory) as again:
        assert inside(again).runtime.spill.spilled > 5 * memory, "files are read where they lie"
        again["t"].insert(sized(1000, 100))
        t.insert(sized(1000, 100))
        for view in (t, *views):
            assert sorted(view.rows()) == sorted(again[relation_of(view).label].rows())
    plain.close()


def _batches(operator: Any) -> int:
    return int(structures.peek(operator.trace.address, TRACE_COUNT))


def test_a_step_that_cannot_fit_changes_nothing(tmp_path: Path) -> None:
    with ev.connect(tmp_path, memory="2MB") as db:
        t, (by_b, groups, _) = declared(db)
        t.insert([(1, 2, 3)])
        with pytest.raises(ev.MemoryLimitError, match=r"E_MEMORY.*2,000,000 bytes.*nothing was changed"):
            t.insert(sized(5, 300_000))
        assert db.time == 2 and t.rows() == by_b.rows() == [(1, 2, 3)] and groups.rows() == [(2, 1, 3)]
        t.insert([(4, 5, 6)])
    with ev.connect(tmp_path, memory="2MB") as db:
        assert sorted(db["t"].rows()) == [(1, 2, 3), (4, 5, 6)]
        with pytest.raises(ev.MemoryLimitError, match="E_MEMORY"):
            db["t"].insert(sized(5, 300_000))
        assert len(db["by_b"].rows()) == 2


@pytest.mark.parametrize("seed", range(3))
def test_everything_in_files_after_every_step(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Loops, joins, reductions with several diffs and history read from files, against a session that has none."""
    monkeypatch.setattr(spill, "SMALLEST", 1)
    draw = random.Random(seed)
    plain, small = ev.connect(history=5), ev.connect(history=5, memory="50MB")
    tables = []
    for db in (plain, small):
        edge = db.table("edge", {"src": int, "dst": int})
        root = db.table("root", {"node": int})

        def near(dist: Any, edge: Any = edge, root: Any = root) -> Any:
            hop = dist.join(edge, dist.node == edge.src).select(node=edge.dst, d=dist.d + 1)
            return hop.union_all(root.select(node=col.node, d=lit(0))).group_by("node").agg(d=col.d.min())

        db.view("dist", root.select(node=col.node, d=lit(0)).iterate(near))
        db.view("degree", edge.group_by("src").agg(n=count(), total=col.dst.sum(), mean=col.dst.avg()))
        db.view("seen", edge.select(x=col.dst).distinct())
        tables.append((edge, root))
    files = inside(small).runtime.spill
    assert files is not None
    there: list[tuple[int, int]] = []
    for round in range(25):
        new = [(draw.randrange(12), draw.randrange(12)) for _ in range(draw.randrange(1, 6))]
        gone = [there.pop(draw.randrange(len(there))) for _ in range(min(len(there), draw.randrange(4)))]
        there += new
        for db, (edge, root) in zip((plain, small), tables, strict=True):
            with db.transaction():
                edge.insert(new)
                edge.delete(gone)
                if round % 5 == 0:
                    root.insert([(round,)])
        files.make_room(inside(small).runtime.dataflow, -1)
        if round % 8 == 7:
            for operator in saved_state.live(inside(small).runtime.dataflow):
                if (trace := saved_state.state_of(operator)) is not None and trace.address:
                    files.compact(trace, small.time)
        for name in ("edge", "dist", "degree", "seen"):
            since = max(0, small.time - 3)
            assert sorted(plain[name].rows()) == sorted(small[name].rows()), (round, name)
            if name != "edge":
                assert sorted(plain[name].changes(since=since)) == sorted(small[name].changes(since=since))
    assert files.spilled > 0
    small["dist"].drop()  # its files go with it
    small.close()
    plain.close()


@pytest.mark.parametrize("history", [5, "1 hour"])
def test_what_is_held_stays_readable_when_files_are_merged(monkeypatch: pytest.MonkeyPatch, history: int | str) -> None:
    """A snapshot's time, and history by duration, which holds its oldest time: merges in files keep both apart."""
    monkeypatch.setattr(spill, "SMALLEST", 1)
    with ev.connect(memory="4MB", history=history) as db:
        files = inside(db).runtime.spill
        t = db.table("t", {"x": int})
        v = db.view("v", t.distinct())
        for i in range(10):
            t.insert([(i,)])
        held = v.as_of(7)
        for i in range(10, 60):
            t.insert([(i,)])
            files.make_room(inside(db).runtime.dataflow, -1)
            assert sorted(held.rows()) == [(x,) for x in range(7)]
            assert sorted(v.changes(since=7)) == [((x,), x + 1, 1) for x in range(7, i + 1)]
        traces = [o for o in saved_state.live(inside(db).runtime.dataflow) if saved_state.state_of(o) is not None]
        assert files.spilled > 0 and max(_batches(o) for o in traces) < 10, "they were merged"


def test_a_full_disk_refuses_steps_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with ev.connect(memory="1MB") as db:
        t = db.table("t", {"a": int, "b": int, "c": int})
        by_b = db.view("by_b", t, index_by="b")
        monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
        monkeypatch.setattr(tempfile, "TemporaryFile", full)
        done = 0
        with pytest.raises(ev.MemoryLimitError, match="E_MEMORY"):
            for number in range(100):
                t.insert(sized(number, 1000))
                done += 1
        assert 0 < done < 100 and db.time == done
        assert len(by_b.rows()) == len(t.rows()) == 1000 * done
        monkeypatch.undo()  # there is room again
        t.insert(sized(100, 1000))
        assert len(by_b.rows()) == 1000 * (done + 1)


def test_memory_is_a_size() -> None:
    with pytest.raises(ev.InputError, match="E_RANGE"):
        ev.connect(memory="much")


@pytest.mark.parametrize("damage", ["flipped", "emptied", "cut"])
def test_a_damaged_file_that_is_read_where_it_lies_is_found(tmp_path: Path, damage: str) -> None:
    """Files that are mapped, not read, are compared with their checksums, too: else a flipped bit is a wrong answer."""
    with ev.connect(tmp_path, memory="20MB") as db:
        t = db.table("t", {"x": int, "y": int})
        db.view("v", t.distinct())
        t.insert([(i, i * 7) for i in range(20_000)])
        db.checkpoint()
    largest = max((tmp_path / "batches").glob("*.arrow"), key=lambda path: path.stat().st_size)
    good = largest.read_bytes()
    middle = len(good) // 2
    bad = {
        "flipped": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :],
        "emptied": b"",
        "cut": good[:middle],
    }
    largest.write_bytes(bad[damage])
    with pytest.raises(ev.EverviewError) as error:
        ev.connect(tmp_path, memory="20MB")
    assert error.value.code == "E_DAMAGED" and largest.name in error.value.message
    largest.write_bytes(good)
    with ev.connect(tmp_path, memory="20MB") as db:
        assert len(db["v"]) == 20_000
